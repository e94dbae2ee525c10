//! Doing one step.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

use crate::context::Context;
use crate::progress;
use crate::task::{Gate, Step, StepReport, Task};
use crate::workload::Job;
use crate::{EngineError, workload};

/// Does one step. The gate is asked by measure steps only.
pub fn perform(task: &Task, gate: &mut dyn Gate) -> Result<StepReport, EngineError> {
    let job = workload::parse(&task.workload, &task.sizing).map_err(|error| EngineError::new(error.to_string()))?;
    let context = Context::new(task)?;
    match task.step {
        Step::Prepare => told(&context, gate, || prepare(&*job, &context)).map(|()| StepReport::Done),
        Step::Measure => job.measure(&context, gate).map(|measured| StepReport::Measured(Box::new(measured))),
        Step::Cleanup => told(&context, gate, || cleanup(&*job, &context)).map(|()| StepReport::Done),
    }
}

/// Makes the files that the work needs, unless the backend touches none.
pub(crate) fn prepare(job: &dyn Job, context: &Context) -> Result<(), EngineError> {
    if touches_files(job, context) { job.prepare(context) } else { Ok(()) }
}

fn cleanup(job: &dyn Job, context: &Context) -> Result<(), EngineError> {
    if touches_files(job, context) { job.cleanup(context) } else { Ok(()) }
}

fn touches_files(job: &dyn Job, context: &Context) -> bool {
    context.backend(job.backend()).capabilities().real
}

/// Does a step that is not measured, and tells now and then how far it has come.
fn told(
    context: &Context,
    gate: &mut dyn Gate,
    step: impl FnOnce() -> Result<(), EngineError> + Send,
) -> Result<(), EngineError> {
    /// Wakes the thread that waits for the step, however it ends.
    struct Ends<'e>(&'e AtomicBool, Thread);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.unpark();
        }
    }
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&ended, thread::current());
        let work = scope.spawn(move || {
            let _ends = ends;
            step()
        });
        while !ended.load(Ordering::Acquire) {
            thread::park_timeout(progress::EVERY);
            if !ended.load(Ordering::Acquire) {
                context.progress.live().into_iter().for_each(|live| gate.tell(live));
            }
        }
        work.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
    })
}
