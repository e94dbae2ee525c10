//! Execution of one step.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::task::{self, Context, Gate, Live, Measurement, Preparing, Ready, Step, StepReport, Task, Units};
use crate::workload::{self, Job};
use crate::{EngineError, fileset};

/// Performs one step. Only measure steps ask the gate.
pub fn perform(task: &Task, gate: &mut dyn Gate) -> Result<StepReport, EngineError> {
    let job = workload::parse(&task.workload, &task.sizing).map_err(|error| EngineError::new(error.to_string()))?;
    let context = Context::new(task)?;
    match task.step {
        Step::Prepare => told(&context, gate, || match task.units {
            Some(units) => prepare_units(&*job, &context, units),
            None => prepare(&*job, &context),
        })
        .map(|()| StepReport::Done),
        Step::Measure => match task.units {
            Some(units) => measure_units(&*job, &context, units, gate),
            None => job.measure(&context, gate).map(|measured| vec![measured]),
        }
        .map(StepReport::Measured),
        Step::Cleanup => told(&context, gate, || cleanup(&*job, &context)).map(|()| StepReport::Done),
    }
}

/// Creates the files that the work needs, unless the backend touches none.
pub(crate) fn prepare(job: &dyn Job, context: &Context) -> Result<(), EngineError> {
    if touches_files(job, context) { job.prepare(context) } else { Ok(()) }
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
        units.into_iter().try_for_each(|unit| job.prepare(&Context { preparing, ..context.of_unit(unit) }))
    };
    each(Preparing::Files)?;
    fileset::sync(&all)?;
    fileset::wait_for_access_times();
    each(Preparing::Settling)?;
    fileset::sync(&all)
}

/// Measures units one after another. It asks the gate only before the first one and does not wait between units.
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
            if std::mem::replace(&mut self.1, true) { Ok(()) } else { self.0.ready(ready) }
        }

        fn tell(&mut self, live: Live) {
            self.0.tell(live);
        }
    }
    let mut gate = Open(gate, false);
    let units = units.first..units.first.saturating_add(units.count);
    units.map(|unit| job.measure(&context.of_unit(unit), &mut gate)).collect()
}

fn cleanup(job: &dyn Job, context: &Context) -> Result<(), EngineError> {
    if touches_files(job, context) { job.cleanup(context) } else { Ok(()) }
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
                context.progress.live().into_iter().for_each(|live| gate.tell(live));
            }
        }
        work.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
    })
}
