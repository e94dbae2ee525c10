//! Doing one step, here or for a caller at the other end of a pipe.

use std::io::{self, BufRead, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::progress::{self, Live};
use crate::task::{Gate, Ready, Step, StepReport, Task};
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

/// What a worker says, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Everything is ready for the word `go`; only of measure steps.
    Ready(Ready),
    /// How far the step has come, now and then.
    Progress(Live),
    /// The step is done. The last message.
    Result(StepReport),
    /// The step could not be done. The last message.
    Error(EngineError),
}

/// Serves one step: reads a [`Task`] as a line of JSON, says [`Message::Ready`], waits for the line `go`, says
/// [`Message::Result`] or [`Message::Error`]. An error of this function is one of the pipe itself.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let result = match serde_json::from_str::<Task>(&line) {
        Ok(task) => perform(&task, &mut PipeGate { input: &mut input, output: &mut output }),
        Err(error) => Err(EngineError::new(format!("the request is no task: {error}"))),
    };
    say(&mut output, &result.map_or_else(Message::Error, Message::Result))
}

fn say(output: &mut impl Write, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    output.write_all(line.as_bytes())?;
    output.flush()
}

struct PipeGate<'p, I, O> {
    input: &'p mut I,
    output: &'p mut O,
}

impl<I: BufRead, O: Write> Gate for PipeGate<'_, I, O> {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        let gone = |error: io::Error| EngineError::new(format!("the agent cannot be reached: {error}"));
        say(self.output, &Message::Ready(ready)).map_err(gone)?;
        let mut line = String::new();
        self.input.read_line(&mut line).map_err(gone)?;
        match line.trim_end() {
            "go" => Ok(()),
            "" => Err(EngineError::new("the agent hung up before the start")),
            other => Err(EngineError::new(format!("expected the word go, not '{other}'"))),
        }
    }

    fn tell(&mut self, live: Live) {
        // An agent that is gone is noticed at the result.
        let _ = say(self.output, &Message::Progress(live));
    }
}
