//! Doing one step, here or for a caller at the other end of a pipe.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::task::{Gate, Ready, Step, StepReport, Task};
use crate::{EngineError, workload};

/// Does one step. The gate is asked by measure steps only.
pub fn perform(task: &Task, gate: &mut dyn Gate) -> Result<StepReport, EngineError> {
    let job = workload::parse(&task.workload, &task.sizing).map_err(|error| EngineError::new(error.to_string()))?;
    let context = Context::new(task)?;
    match task.step {
        Step::Prepare => job.prepare(&context).map(|()| StepReport::Done),
        Step::Measure => job.measure(&context, gate).map(|measured| StepReport::Measured(Box::new(measured))),
        Step::Cleanup => job.cleanup(&context).map(|()| StepReport::Done),
    }
}

/// What a worker says, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Everything is ready for the word `go`; only of measure steps.
    Ready(Ready),
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
}
