//! Execution of one step.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use fsb_model::observed::BackgroundWork;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::EngineError;
use crate::profile::{Profile, Renewal};
use crate::task::{
    self, Context, Gate, Live, Measurement, Preparing, Ready, Step, StepReport, Stop, Task, Units,
};
use crate::workload::{self, Job};
use crate::{fileset, thread_recorder};

/// Performs one step. Only measure steps ask the gate.
pub fn perform(task: &Task, gate: &mut dyn Gate) -> Result<StepReport, EngineError> {
    let job = workload::parse(&task.workload, &task.sizing)
        .map_err(|error| EngineError::new(error.to_string()))?;
    let context = Context::new(task)?;
    if task.step != Step::Cleanup {
        check_clients(&*job, context.client_roots.len() as u32 + 1)?;
    }
    match task.step {
        Step::Prepare => told(&context, gate, || match task.units {
            Some(units) => prepare_units(&*job, &context, units),
            None => prepare(&*job, &context),
        })
        .map(|()| StepReport::Done),
        Step::Measure => match bind(&task.processors).map(|()| task.units)? {
            Some(units) => measure_units(&*job, &context, units, gate),
            None => job.measure(&context, gate).map(|measured| vec![measured]),
        }
        .map(StepReport::Measured),
        Step::Cleanup => {
            told(&context, gate, || cleanup(&*job, &context)).map(|()| StepReport::Done)
        }
    }
}

/// Limits this process, and the threads that it starts, to some processors.
fn bind(processors: &[u32]) -> Result<(), EngineError> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    processors
        .iter()
        .for_each(|processor| set.set(*processor as usize));
    sched_setaffinity(None, &set).map_err(|errno| {
        EngineError::call("bind to", format!("the processors {processors:?}"), errno)
    })
}

/// Checks that the work uses all clients of the target.
fn check_clients(job: &dyn Job, clients: u32) -> Result<(), EngineError> {
    let Profile {
        threads, processes, ..
    } = job.profile();
    let why = match job.one_client() {
        _ if clients == 1 => return Ok(()),
        Some(why) => why.to_owned(),
        None if job.backend().capabilities().helped => {
            "the threads of its backend share one client: use another backend".to_owned()
        }
        None if threads * processes < clients => {
            format!(
                "{clients} clients need {clients} threads or processes: add threads = {clients}"
            )
        }
        None => return Ok(()),
    };
    Err(EngineError {
        inapplicable: true,
        ..EngineError::new(why)
    })
}

/// Creates the files that the work needs, unless the backend touches none.
pub(crate) fn prepare(job: &dyn Job, context: &Context) -> Result<(), EngineError> {
    if touches_files(job, context) {
        job.prepare(context)
    } else {
        Ok(())
    }
}

/// Creates the files of all units, each in its own directory, and syncs all of them together.
fn prepare_units(job: &dyn Job, context: &Context, units: Units) -> Result<(), EngineError> {
    if !touches_files(job, context) {
        return Ok(());
    }
    let all = context.all_sets();
    fileset::make_anew(&all)?;
    let each = |preparing: Preparing| {
        let units = units.first..units.first.saturating_add(units.count);
        units.into_iter().try_for_each(|unit| {
            job.prepare(&Context {
                preparing,
                ..context.of_unit(unit)
            })
        })
    };
    each(Preparing::Files)?;
    fileset::sync(&all)?;
    fileset::wait_for_access_times();
    each(Preparing::Settling)?;
    fileset::sync(&all)
}

/// Measures units one after another. It asks the gate only before the first one and does not wait
/// between units.
fn measure_units(
    job: &dyn Job,
    context: &Context,
    units: Units,
    gate: &mut dyn Gate,
) -> Result<Vec<Measurement>, EngineError> {
    /// A gate that is open for all units after the first one.
    struct Open<'g>(&'g mut dyn Gate, bool);
    impl Gate for Open<'_> {
        fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
            if std::mem::replace(&mut self.1, true) {
                Ok(())
            } else {
                self.0.ready(ready)
            }
        }

        fn tell(&mut self, live: Live) {
            self.0.tell(live);
        }
    }
    let mut gate = Open(gate, false);
    let units = units.first..units.first.saturating_add(units.count);
    units
        .map(|unit| job.measure(&context.of_unit(unit), &mut gate))
        .collect()
}

fn cleanup(job: &dyn Job, context: &Context) -> Result<(), EngineError> {
    if touches_files(job, context) {
        job.cleanup(context)
    } else {
        Ok(())
    }
}

fn touches_files(job: &dyn Job, context: &Context) -> bool {
    context.backend(job.backend()).capabilities().real
}

/// Runs a step that is not measured, and reports its progress at intervals.
fn told(
    context: &Context,
    gate: &mut dyn Gate,
    step: impl FnOnce() -> Result<(), EngineError> + Send,
) -> Result<(), EngineError> {
    /// Wakes the thread that waits for the step, however the step ends.
    struct Ends<'e>(&'e AtomicBool, Thread);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.unpark();
        }
    }
    type Steps<S> = Mutex<Option<S>>;
    fn take<S: FnOnce() -> Result<(), EngineError>>(step: &Steps<S>) -> Result<(), EngineError> {
        let step = step.lock().unwrap_or_else(PoisonError::into_inner).take();
        step.map_or(Ok(()), |step| step())
    }
    let ended = AtomicBool::new(false);
    let step = Mutex::new(Some(step));
    thread::scope(|scope| {
        let ends = Ends(&ended, thread::current());
        let step = &step;
        let work = thread::Builder::new().spawn_scoped(scope, move || {
            let _ends = ends;
            take(step)
        });
        // If no thread can be started, the step runs without progress reports.
        let Ok(work) = work else { return take(step) };
        while !ended.load(Ordering::Acquire) {
            thread::park_timeout(task::EVERY);
            if !ended.load(Ordering::Acquire) {
                context
                    .progress
                    .live()
                    .into_iter()
                    .for_each(|live| gate.tell(live));
            }
        }
        work.join()
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    })
}

// The work of a background: a job that is repeated beside the measurement of another one until it
// is stopped.

/// Repeats the work of a task until [`Stop`] stops it. The files of the task exist. Work that uses
/// up its files gets new ones before the next repetition, without waiting for the device.
///
/// # Errors
///
/// Returns the error of the work, unless it was stopped before.
pub fn repeat(task: &Task, gate: &mut dyn Gate) -> Result<BackgroundWork, EngineError> {
    let job = workload::parse(&task.workload, &task.sizing)
        .map_err(|error| EngineError::new(error.to_string()))?;
    let job: Arc<dyn Job> = job.into();
    let profile = job.profile();
    let ends = Arc::new(AtomicBool::new(false));
    let operations = if profile.repeats_in_place {
        u64::MAX
    } else {
        profile.operations
    };
    let context = Context {
        operations,
        ends: Some(Arc::clone(&ends)),
        ..Context::new(task)?
    };
    let [asked, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let stop: Stop = {
        let (job, context, asked, done) = (
            Arc::clone(&job),
            context.clone(),
            Arc::clone(&asked),
            Arc::clone(&done),
        );
        let runs_programs = profile.program.is_some();
        Box::new(move || {
            asked.store(true, Ordering::Release);
            ends.store(true, Ordering::Release);
            // The work may start its next program after the first signal.
            while runs_programs && !done.load(Ordering::Acquire) {
                job.end_programs(&context);
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let before = thread_recorder::usage_with_children();
    let mut opening = Opening {
        gate,
        stop: Some(stop),
        started: None,
    };
    let worked = cycles(&*job, &profile, context, &asked, &mut opening);
    done.store(true, Ordering::Release);
    let cpu_seconds = thread_recorder::usage_with_children() - before;
    Ok(BackgroundWork {
        cpu_seconds,
        ..worked?
    })
}

/// A gate that waits only before the first repetition.
struct Opening<'g> {
    gate: &'g mut dyn Gate,
    stop: Option<Stop>,
    started: Option<Instant>,
}

impl Gate for Opening<'_> {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        let Some(stop) = self.stop.take() else {
            return Ok(());
        };
        self.gate.ready(ready)?;
        self.started = Some(Instant::now());
        self.gate.started(stop)
    }
}

fn cycles(
    job: &dyn Job,
    profile: &Profile,
    mut context: Context,
    asked: &AtomicBool,
    opening: &mut Opening<'_>,
) -> Result<BackgroundWork, EngineError> {
    let mut work = BackgroundWork::default();
    let is_over = || asked.load(Ordering::Acquire);
    // The files of a command stay as the command left them, unless the command has a script that
    // prepares them.
    let renews = profile.renewal == Renewal::Recreate
        && (profile.program.is_none() || job.params().contains_key("prepare"));
    loop {
        match job.measure(&context, opening) {
            Ok(measured) => {
                work.operations += measured.operations;
                work.bytes += measured.bytes;
            }
            // The stop killed a program of the work.
            Err(_) if is_over() => {}
            Err(error) => return Err(error),
        }
        work.seconds = opening
            .started
            .map_or(0.0, |started| started.elapsed().as_secs_f64());
        if is_over() {
            return Ok(work);
        }
        context.repetition = context.repetition.wrapping_add(1);
        if renews {
            let files = Context {
                preparing: Preparing::Files,
                ..context.clone()
            };
            match job.cleanup(&context).and_then(|()| job.prepare(&files)) {
                Err(error) if !is_over() => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::mpsc::{Sender, channel};

    use fsb_model::WorkloadSpec;

    use super::*;
    use crate::workload::testing::{task, with};

    /// Counts its openings, and sends the function that stops the work.
    struct CountedGate {
        opened: u32,
        stop: Sender<Stop>,
    }

    impl Gate for CountedGate {
        fn ready(&mut self, _ready: Ready) -> Result<(), EngineError> {
            self.opened += 1;
            Ok(())
        }

        fn started(&mut self, stop: Stop) -> Result<(), EngineError> {
            self.stop
                .send(stop)
                .map_err(|_| EngineError::new("the test has ended"))
        }
    }

    /// Runs a background in a directory until `enough` returns true.
    fn run(
        spec: &WorkloadSpec,
        root: &Path,
        enough: impl Fn() -> bool,
    ) -> Result<BackgroundWork, EngineError> {
        let of = |step| Task {
            background: true,
            ..task(step, spec, root, 1)
        };
        super::perform(
            &of(Step::Prepare),
            &mut CountedGate {
                opened: 0,
                stop: channel().0,
            },
        )?;
        let (stop, stopped) = channel();
        let measure = of(Step::Measure);
        let worked = thread::scope(|scope| {
            let work = scope.spawn(move || {
                let mut gate = CountedGate { opened: 0, stop };
                (repeat(&measure, &mut gate), gate.opened)
            });
            // The work may end by itself, with an error.
            if let Ok(stop) = stopped.recv() {
                while !enough() && !work.is_finished() {
                    thread::yield_now();
                }
                stop();
            }
            work.join().unwrap()
        });
        super::perform(
            &of(Step::Cleanup),
            &mut CountedGate {
                opened: 0,
                stop: channel().0,
            },
        )?;
        assert_eq!(worked.1, 1, "the gate is asked once");
        worked.0
    }

    #[test]
    fn work_is_repeated_in_a_directory_of_its_own_until_it_is_stopped() {
        let root = tempfile::tempdir().unwrap();
        let files =
            || std::fs::read_dir(root.path().join("fsb-background")).map_or(0, Iterator::count);
        let in_place = with(
            "write",
            &[
                ("file_size", "64K".into()),
                ("block_size", "4K".into()),
                ("overwrite", true.into()),
            ],
        );
        let worked = run(&in_place, root.path(), || files() > 0).unwrap();
        assert!(
            worked.bytes == worked.operations * 4096 && worked.seconds > 0.0,
            "{worked:?}"
        );
        // The background removes five files and creates them again until it is stopped.
        let storm = with("create", &[("files", 5.into())]);
        let made = RefCell::new(BTreeSet::new());
        let made_again = || {
            made.borrow_mut().extend(
                std::fs::metadata(root.path().join("fsb-background")).and_then(|it| it.modified()),
            );
            made.borrow().len() > 5
        };
        let worked = run(&storm, root.path(), made_again).unwrap();
        assert!(worked.operations > 5, "{worked:?}");
        assert!(
            std::fs::read_dir(root.path()).unwrap().next().is_none(),
            "nothing is left"
        );
    }

    #[test]
    fn a_command_without_an_end_is_killed_and_one_that_fails_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let began = || root.path().join("fsb-background/began").exists();
        let endless = with(
            "command",
            &[
                ("command", "touch began; while :; do :; done".into()),
                ("durability", "none".into()),
            ],
        );
        let worked = run(&endless, root.path(), began).unwrap();
        assert_eq!((worked.operations, worked.bytes), (0, 0));
        let error = run(
            &with("command", &[("command", "no-such-program-7".into())]),
            root.path(),
            || false,
        )
        .unwrap_err();
        assert!(error.message.contains("no-such-program-7"), "{error}");
    }
}
