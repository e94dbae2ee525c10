//! Work between the operations of a worker, as fio defines it: syncs after a number of writes, and think times.

use fsb_model::{Durability, Params};

use crate::backend::Flush;
use crate::clock::OperationKind;
use crate::io_loop::{HELD_FILES, IoLoop};
use crate::thread_recorder::ThreadRecorder;
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{Needs, Parameter, ParameterGroup, ParameterKind, group};
use crate::workload::params::Reader;
use crate::workload::spec::Spec;
use crate::{EngineError, ParamError};

/// The name of the syncs in records.
pub(super) const SYNC: &str = "sync";

/// The maximum number of operations from one sync or think time to the next.
const MOST: u64 = 1 << 32;

/// The calls and pauses between operations, resolved.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Between {
    /// The call that precedes the next operation, and the number of writes before it.
    syncs: Option<(Flush, u64)>,
    /// Nanoseconds of a think time, and the operations before it.
    think_time: Option<(u64, u64)>,
}

/// Returns the parameters of a workload that writes, or of one that only reads.
pub(super) fn parameters(writes: bool) -> Vec<Parameter> {
    use ParameterKind::{Duration, Number};
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new(
                "think_time",
                Duration(1e-6..=3600.0),
                Absent,
                "pause of each worker after an operation, inside the clock",
            ),
            Parameter::new("think_every", Number(1..=MOST), "1", "operations from one think time to the next")
                .needs(Needs::Given("think_time")),
        ],
    );
    if writes {
        let about = "writes of a worker after which it calls fsync before its next operation";
        let fsync = Parameter::new("fsync", Number(1..=MOST), Absent, about);
        let about = "writes of a worker after which it calls fdatasync before its next operation";
        let fdatasync = Parameter::new("fdatasync", Number(1..=MOST), Absent, about).needs(Needs::Absent("fsync"));
        all.extend(group(ParameterGroup::State, [fsync, fdatasync]));
    }
    all
}

impl Between {
    /// Reads the parameters of a workload that writes, or of one that only reads.
    pub(super) fn read(writes: bool, spec: &Spec, reader: &mut Reader<'_>) -> Result<Between, ParamError> {
        let pause = reader.duration("think_time")?;
        let every = reader.number("think_every")?;
        let think_time = pause.map(|seconds| ((seconds * 1e9).round() as u64, every));
        if think_time.is_some() && spec.depth > 1 {
            let message = "a worker thinks when none of its requests is in flight: use depth = 1";
            return Err(reader.error("think_time", message));
        }
        let mut syncs = None;
        if writes {
            for (key, flush) in [("fsync", Flush::All), ("fdatasync", Flush::Data)] {
                if reader.take(key).is_none() {
                    continue;
                }
                syncs = Some((flush, reader.number(key)?));
                if spec.durability != Durability::None {
                    return Err(reader.error(key, "the durability syncs too: leave one of them out"));
                }
                if spec.depth > 1 {
                    return Err(reader.error(key, "the calls follow each other: use depth = 1"));
                }
                if spec.files_per_process() > HELD_FILES {
                    let message = format!("the option keeps all files open at once: use at most {HELD_FILES} files");
                    return Err(reader.error(key, message));
                }
            }
        }
        Ok(Between { syncs, think_time })
    }

    /// Returns whether operations follow each other without anything in between.
    pub(super) fn is_nothing(&self) -> bool {
        self.syncs.is_none() && self.think_time.is_none()
    }

    /// Returns whether the worker syncs between operations.
    pub(super) fn syncs(&self) -> bool {
        self.syncs.is_some()
    }

    /// Returns the parts of the label, each with a comma in front.
    pub(super) fn label(&self) -> String {
        let mut label = String::new();
        match self.syncs {
            None => {}
            Some((flush, 1)) => label += &format!(", {} after each write", name(flush)),
            Some((flush, every)) => label += &format!(", {} after {every} writes", name(flush)),
        }
        match self.think_time {
            None => {}
            Some((ns, 1)) => label += &format!(", think time {}", duration(ns)),
            Some((ns, every)) => label += &format!(", think time {} after {every}", duration(ns)),
        }
        label
    }

    /// Adds the parameters that are set.
    pub(super) fn add_to(&self, params: &mut Params) {
        if let Some((flush, every)) = self.syncs {
            params.insert(name(flush).to_owned(), every.into());
        }
        if let Some((ns, every)) = self.think_time {
            params.insert("think_time".to_owned(), duration(ns).into());
            if every > 1 {
                params.insert("think_every".to_owned(), every.into());
            }
        }
    }
}

/// Returns the name of the call.
fn name(flush: Flush) -> &'static str {
    match flush {
        Flush::All => "fsync",
        Flush::Data => "fdatasync",
    }
}

/// Returns a time as plans write it.
fn duration(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns as f64 / 1e3),
    }
}

/// The operations of one worker so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    writes: u64,
    operations: u64,
    /// The record whose file is synced before the next operation.
    unsynced: Option<u64>,
}

impl Between {
    /// Syncs the file of the last write if its turn has come. Like fio, a worker syncs before the next operation, so
    /// nothing follows the last one.
    pub(super) fn before(
        &self,
        turns: &mut Turns,
        writer: &mut IoLoop<'_>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let (Some((flush, every)), Some(item)) = (self.syncs, turns.unsynced.take()) else { return Ok(()) };
        recorder.sync(every.saturating_mul(writer.record_size()), || writer.flush_file_of(item, flush))
    }

    /// Counts an operation on a record, and thinks if its turn has come. Returns whether to continue.
    pub(super) fn after(
        &self,
        turns: &mut Turns,
        item: u64,
        kind: OperationKind,
        recorder: &mut ThreadRecorder<'_>,
    ) -> bool {
        turns.operations += 1;
        if let Some((_, every)) = self.syncs
            && kind == OperationKind::Write
        {
            turns.writes += 1;
            if turns.writes.is_multiple_of(every) {
                turns.unsynced = Some(item);
            }
        }
        match self.think_time {
            Some((ns, every)) if turns.operations.is_multiple_of(every) => recorder.think(ns),
            _ => true,
        }
    }
}
