//! The process that touches files: this binary again, so that a run can be ended at any moment.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use fsb_engine::{Measurement, StepReport, Task};
use fsb_runner::agent::WORKER_ARGUMENT;
use serde_json::{Value, json};

use crate::author::Rights;
use crate::roles::AS_CALLER;

/// How often it is asked whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// Why a step has no result.
pub enum Failed {
    /// Somebody asked for it.
    Interrupted,
    /// It was refused, or the process died.
    Why(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Why(format!("cannot run a worker: {error}"))
    }
}

/// What is told while a step goes on.
pub enum Moment {
    /// The measured work begins.
    Running,
    /// So many files, or operations, are done, of so many where that is known.
    Progress {
        /// So many.
        done: u64,
        /// Of so many; 0 where nobody knows.
        of: u64,
    },
}

/// Does one step. `interrupted` is asked now and then; the process is gone when this returns.
pub fn perform(
    task: &Task,
    rights: Rights,
    interrupted: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Moment),
) -> Result<Option<Measurement>, Failed> {
    let mut worker = Worker::start(task, rights)?;
    loop {
        if interrupted() {
            return Err(Failed::Interrupted);
        }
        let answer = match worker.answers.recv_timeout(LOOK) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(Failed::Why(worker.obituary())),
        };
        let Some((kind, value)) = answer.as_object().and_then(|object| object.iter().next()) else { continue };
        match kind.as_str() {
            "ready" => {
                tell(Moment::Running);
                worker.stream.write_all(b"go\n")?;
            }
            "progress" => {
                let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
                tell(Moment::Progress { done: number("done"), of: number("of") });
            }
            "error" => {
                let message = value.get("message").and_then(Value::as_str);
                return Err(Failed::Why(message.unwrap_or("the worker did not say why").to_owned()));
            }
            "result" => {
                let report: StepReport = serde_json::from_value(value.clone())
                    .map_err(|error| Failed::Why(format!("the worker said what is no result: {error}")))?;
                return Ok(match report {
                    StepReport::Measured(measurement) => Some(*measurement),
                    StepReport::Done => None,
                });
            }
            _ => {}
        }
    }
}

struct Worker {
    child: Child,
    stream: UnixStream,
    answers: Receiver<Value>,
}

impl Worker {
    fn start(task: &Task, rights: Rights) -> io::Result<Worker> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORKER_ARGUMENT).arg(std::process::id().to_string());
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        if rights == Rights::Caller {
            command.env(AS_CALLER, "1");
        }
        // A Ctrl-C is for this process, which then ends the other.
        let child = command.process_group(0).spawn()?;
        // It is ours to end from here on, whatever fails.
        let (sender, answers) = mpsc::channel();
        let worker = Worker { child, stream: ours.try_clone()?, answers };
        drop(command);
        let mut order = serde_json::to_vec(&json!({ "confinement": null, "task": task }))?;
        order.push(b'\n');
        ours.write_all(&order)?;
        std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
            for line in BufReader::new(ours).lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else { break };
                if sender.send(answer).is_err() {
                    break;
                }
            }
        })?;
        Ok(worker)
    }

    /// What the status of the process says.
    fn obituary(&mut self) -> String {
        let ended = match self.child.wait() {
            Ok(status) => match status.signal() {
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit status {}", status.code().unwrap_or(-1)),
            },
            Err(error) => error.to_string(),
        };
        format!("the worker ended early: {ended}")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
