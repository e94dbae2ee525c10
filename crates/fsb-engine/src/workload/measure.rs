//! The three steps of all workloads over a file set, threads that move one item after the other,
//! and the times of phases.

use fsb_model::{CacheState, Durability};
use rustix::fs::OFlags;

use super::spec::Spec;
use crate::backend::{Backend, Capabilities, Direct, ProbeTarget, Purpose, Verb};
use crate::clock::OperationKind;
use crate::error::EngineError;
use crate::fileset::{self, Content, Interest, Layout};
use crate::io_loop::{IoLoop, IoOptions, OpenFileSet};
use crate::order::{self, Visits};
use crate::processes;
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Preparing, Ready};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};

impl Spec {
    fn backend_for(&self, context: &Context) -> &'static dyn Backend {
        context.backend(self.backend)
    }

    /// Makes the files.
    pub(crate) fn prepare(&self, context: &Context, content: Content) -> Result<(), EngineError> {
        // Files that do not exist yet have nothing to settle.
        let settle = self.cache != CacheState::Any
            && !matches!(content, Content::Directories | Content::Empty);
        let (set, layout) = (context.set(), &self.layout);
        match context.preparing {
            Preparing::All => fileset::build(&set, layout, content, settle, context.data()),
            Preparing::Files => fileset::make(&set, layout, content, context.data()),
            Preparing::Settling if settle => fileset::read_once(&set, layout, content),
            Preparing::Settling => Ok(()),
        }
    }

    /// Opens the set that [`Spec::prepare`] made.
    pub(crate) fn open_set(&self, context: &Context) -> Result<OpenFileSet, EngineError> {
        OpenFileSet::open(self.backend_for(context), context, self.layout)
    }

    /// Returns the items that a thread visits.
    pub(crate) fn visits(&self, context: &Context, rank: u32) -> Visits {
        let items = self.items();
        let share = order::share(items, context.operations, rank, self.workers());
        if self.processes > 1 {
            return Visits::of_part(share, self.access, context.seed, context.repetition);
        }
        Visits::new(items, share, self.access, context.seed, context.repetition)
    }
}

/// The files that the work uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    /// Whether the work uses data or names.
    pub(crate) interest: Interest,
    /// The content of the files before the work.
    pub(crate) content: Content,
    /// The direction of the data, if the work moves any.
    pub(crate) verb: Option<Verb>,
}

impl Subject {
    /// Names and attributes of existing files.
    pub(crate) const NAMES: Subject = Subject {
        interest: Interest::Names,
        content: Content::Full,
        verb: None,
    };
}

/// Runs a job over a set: brings the cache into its state, waits at the gate, measures, and
/// examines the cache again. Returns the measurement and the reports of the threads; the reports of
/// processes stay with them.
pub(crate) fn measure_set<C: ThreadJob>(
    job: &C,
    set: &OpenFileSet,
    subject: Subject,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<(Measurement, Vec<C::Report>), EngineError> {
    check_operations(profile, context.operations)?;
    let capabilities = set.backend.capabilities();
    let Capabilities { real, helped, .. } = capabilities;
    let views: Vec<_> = [set.path.clone()]
        .into_iter()
        .chain(context.client_sets())
        .collect();
    let ready = if real {
        let found = examine(set, subject, profile)?;
        // Data that preparation left in the cache would look as if the work had put it there.
        let past_cache = capabilities.keeps_nothing() && subject.interest == Interest::Data;
        let there = subject.content != Content::Directories;
        let evict = there && (past_cache || context.evict);
        // Data that the work is yet to write cannot be brought into the cache beforehand.
        let cache = if subject.content == Content::Full {
            profile.cache
        } else {
            CacheState::Any
        };
        let ready = fileset::ready(&views, &set.layout, subject.interest, cache, evict)?;
        Ready {
            direct: found,
            ..ready
        }
    } else {
        pretend(&set.layout, subject, profile.cache)
    };
    let outcome = if profile.processes > 1 {
        processes::run(job, context, profile, ready, gate)?
    } else {
        threads::run(job, context, profile, ready, helped, gate)?
    };
    let mut measurement = outcome.measurement(profile.operation);
    (measurement.resident_after, measurement.file_bytes_after) = if real {
        fileset::resident_after(&views, &set.layout, subject.interest)
    } else {
        let after = pretend(
            &set.layout,
            Subject {
                content: Content::Full,
                ..subject
            },
            CacheState::Warm,
        );
        (after.resident_bytes, after.file_bytes)
    };
    Ok((measurement, outcome.reports))
}

/// Asks the backend to examine the directory and the file that the work moves data in.
fn examine(
    set: &OpenFileSet,
    subject: Subject,
    profile: &Profile,
) -> Result<Option<Direct>, EngineError> {
    let Some(verb) = subject.verb else {
        return Ok(None);
    };
    let file = (subject.content != Content::Directories).then(|| set.path.join(set.layout.path(0)));
    let record_size = profile.record_size;
    set.backend.examine(&ProbeTarget {
        directory: &set.path,
        file: file.as_deref(),
        verb,
        record_size,
    })
}

/// Returns the cache state for a backend that touches nothing.
fn pretend(layout: &Layout, subject: Subject, cache: CacheState) -> Ready {
    let whole = if subject.content == Content::Full {
        fileset::examined(layout) * layout.file_size
    } else {
        0
    };
    match subject.interest {
        Interest::Names => Ready::default(),
        Interest::Data => {
            let resident = if cache.begins_cold() { 0 } else { whole };
            Ready {
                resident_bytes: Some(resident),
                file_bytes: whole,
                direct: None,
            }
        }
    }
}

/// Checks the number of operations. A number that the job cannot do is a mistake of the caller, and
/// must not become a wrong result.
pub(super) fn check_operations(profile: &Profile, operations: u64) -> Result<(), EngineError> {
    let Profile {
        label,
        operations: whole,
        ..
    } = profile;
    if operations < *whole && !profile.divisible {
        return Err(EngineError::new(format!(
            "{label}: {operations} operations, but it does {whole} or none"
        )));
    }
    if operations > *whole && !profile.repeats_in_place {
        return Err(EngineError::new(format!(
            "{label}: {operations} operations, but one repetition has {whole}"
        )));
    }
    Ok(())
}

impl Spec {
    /// Returns the options of an I/O loop that moves this job's records.
    pub(crate) fn io_options(&self, purpose: Purpose, rank: u32) -> IoOptions {
        let (verb, kind) = match purpose {
            Purpose::Read => (Verb::Read, OperationKind::Read),
            Purpose::Write | Purpose::Append | Purpose::Both => (Verb::Write, OperationKind::Write),
            Purpose::Create => (Verb::Write, OperationKind::Create),
        };
        IoOptions {
            purpose,
            verb,
            kind,
            record_size: self.block_size,
            largest_record: self.block_size,
            range: self.byte_range(),
            access: self.access,
            files: self.files_of(rank),
            hold: purpose != Purpose::Create,
            flush_each: verb == Verb::Write && self.durability == fsb_model::Durability::Each,
            depth: self.depth,
            batch: self.batch,
            verify: false,
            lock: None,
            open_flags: OFlags::empty(),
            evict_passes: false,
            advice: None,
            prefetch: 0,
        }
    }
}

/// Threads that call `act` for each of their items, and flush everything at the end if the
/// durability requires it.
pub(super) struct ItemThreads<'s, F> {
    pub(super) spec: &'s Spec,
    pub(super) set: &'s OpenFileSet,
    pub(super) context: &'s Context,
    pub(super) purpose: Purpose,
    /// Does an item, and returns the bytes that it wrote.
    pub(super) act: F,
}

impl<'s, F> ThreadJob for ItemThreads<'s, F>
where
    F: Fn(&mut IoLoop<'s>, u64) -> Result<u64, EngineError> + Sync,
{
    type ThreadState = (IoLoop<'s>, Visits);
    type Report = ();

    fn set(&self) -> Option<&OpenFileSet> {
        Some(self.set)
    }

    fn init(&self, rank: u32) -> Result<Self::ThreadState, EngineError> {
        let io = IoLoop::new(self.set, self.spec.io_options(self.purpose, rank))?;
        Ok((io, self.spec.visits(self.context, rank)))
    }

    fn run(
        &self,
        (io, visits): &mut Self::ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        for item in visits {
            let bytes = (self.act)(io, item)?;
            if !recorder.lap(OperationKind::Create, bytes) {
                break;
            }
        }
        io.close_current()
    }

    fn report(&self, _state: Self::ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.spec.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        (io, _): &mut Self::ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.sync(bytes, || io.flush_clients())
    }
}

/// Start and end of N successive phases on the clock, in nanoseconds. A phase that never began
/// takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseTimes<const N: usize>(pub(super) [(u64, u64); N]);

impl<const N: usize> PhaseTimes<N> {
    /// Returns the times of phases that have not begun.
    pub(super) fn new() -> Self {
        PhaseTimes([(u64::MAX, 0); N])
    }

    #[inline]
    pub(super) fn begun(&mut self, phase: usize, ns: u64) {
        self.0[phase].0 = ns;
    }

    #[inline]
    pub(super) fn ended(&mut self, phase: usize, ns: u64) {
        self.0[phase].1 = ns;
    }

    /// Returns the times of all workers together: each phase lasts from the first start to the last
    /// end.
    pub(super) fn of_all(workers: impl IntoIterator<Item = Self>) -> Self {
        workers
            .into_iter()
            .fold(Self::new(), |PhaseTimes(all), PhaseTimes(one)| {
                PhaseTimes(std::array::from_fn(|phase| {
                    (
                        all[phase].0.min(one[phase].0),
                        all[phase].1.max(one[phase].1),
                    )
                }))
            })
    }

    /// Returns the duration of each phase.
    pub(super) fn durations(&self) -> [u64; N] {
        self.0.map(|(begun, ended)| ended.saturating_sub(begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_take_from_the_first_start_to_the_last_end() {
        let worker = |begun, ended| {
            let mut phase_times = PhaseTimes::<2>::new();
            phase_times.begun(1, begun);
            phase_times.ended(1, ended);
            phase_times
        };
        assert_eq!(
            PhaseTimes::of_all([worker(5, 9), worker(7, 20)]).durations(),
            [0, 15]
        );
        assert_eq!(
            PhaseTimes::<2>::of_all([]).durations(),
            [0, 0],
            "nothing has begun"
        );
    }
}
