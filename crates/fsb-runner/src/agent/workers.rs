//! Workers: the same binary again, confined to the target, one a step of a trial.

use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fsb_engine::{EngineError, Live, Measurement, Ready, StepReport, Task};
use fsb_testbed::control::Held;
use fsb_testbed::sandbox::{self, Confinement};
use serde::{Deserialize, Serialize};

use super::lines::{LineError, Lines};

/// The argument that makes the binary a worker.
pub const WORKER_ARGUMENT: &str = "__worker";

/// The first line that a worker reads: where it may write and as whom, before its task.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    confinement: Option<Confinement>,
    task: Task,
}

/// What a worker answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready(Ready),
    Progress(Live),
    Result(StepReport),
    Error(EngineError),
}

/// Why a step has no result.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A call failed.
    #[error("{0}")]
    Engine(EngineError),
    /// The worker died.
    #[error("the worker ended early: {0}")]
    Died(String),
    /// It said nothing for too long, and was killed.
    #[error("the worker did not answer within {0:?} and was killed")]
    Deadline(Duration),
    /// It could not be started or spoken to.
    #[error("cannot run a worker: {0}")]
    Start(String),
}

/// A worker that was started.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    lines: Lines,
    deadline: Duration,
}

impl Worker {
    /// Starts a worker on `task`.
    pub fn start(
        task: &Task,
        confinement: Option<&Confinement>,
        held: &Held,
        deadline: Duration,
    ) -> Result<Self, StepError> {
        let start = |error: io::Error| StepError::Start(error.to_string());
        let (ours, theirs) = UnixStream::pair().map_err(start)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(WORKER_ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        sandbox::hold(&mut command, held).map_err(|error| StepError::Start(error.to_string()))?;
        let child = command.spawn().map_err(start)?;
        let lines = Lines::new(ours).map_err(start)?;
        let mut worker = Worker { child, lines, deadline };
        #[derive(Serialize)]
        struct OrderRef<'a> {
            confinement: Option<&'a Confinement>,
            task: &'a Task,
        }
        worker.lines.send(&OrderRef { confinement, task }).map_err(|error| worker.failure(error))?;
        Ok(worker)
    }

    /// Waits until the worker stands at the line.
    pub fn ready(&mut self) -> Result<Ready, StepError> {
        match self.answer(&mut |_| {})? {
            Answer::Ready(ready) => Ok(ready),
            Answer::Error(error) => Err(StepError::Engine(error)),
            Answer::Result(_) | Answer::Progress(_) => {
                Err(StepError::Start("a worker answered 'result' before 'ready'".to_owned()))
            }
        }
    }

    /// Starts the clock.
    pub fn go(&mut self) -> Result<(), StepError> {
        self.lines.send_raw(b"go\n").map_err(|error| self.failure(error))
    }

    /// Waits for the end of the step; `tell` is told how far it has come.
    pub fn result(mut self, tell: &mut dyn FnMut(Live)) -> Result<Option<Measurement>, StepError> {
        let result = match self.answer(tell)? {
            Answer::Result(StepReport::Measured(measurement)) => Ok(Some(*measurement)),
            Answer::Result(StepReport::Done) => Ok(None),
            Answer::Error(error) => Err(StepError::Engine(error)),
            Answer::Ready(_) | Answer::Progress(_) => {
                Err(StepError::Start("a worker answered 'ready' twice".to_owned()))
            }
        };
        // A worker ends by itself once it has answered; its file descriptors must be closed before a remount.
        let _ = self.child.wait();
        result
    }

    /// The next answer. Progress is none: it must not keep a worker alive that gets nowhere.
    fn answer(&mut self, tell: &mut dyn FnMut(Live)) -> Result<Answer, StepError> {
        let started = Instant::now();
        loop {
            let left = self.deadline.saturating_sub(started.elapsed());
            match self.lines.receive(Some(left), &|| false) {
                Ok(Answer::Progress(live)) => tell(live),
                Ok(answer) => return Ok(answer),
                Err(LineError::Deadline(_)) => return Err(self.failure(LineError::Deadline(self.deadline))),
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    fn failure(&mut self, error: LineError) -> StepError {
        if let LineError::Deadline(deadline) = error {
            self.end();
            return StepError::Deadline(deadline);
        }
        // The connection closes when the process ends: its status says why.
        if matches!(error, LineError::Closed)
            && let Ok(status) = self.child.wait()
        {
            let how = match status.signal() {
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit status {}", status.code().unwrap_or(-1)),
            };
            return StepError::Died(self.last_words().map_or(how.clone(), |words| format!("{how}: {words}")));
        }
        self.end();
        StepError::Start(error.to_string())
    }

    /// What a worker that died said last, such as the place of a panic. Whoever else still holds its standard error is
    /// not waited for.
    fn last_words(&mut self) -> Option<String> {
        let mut stderr = self.child.stderr.take()?;
        let flags = rustix::fs::fcntl_getfl(&stderr).ok()?;
        rustix::fs::fcntl_setfl(&stderr, flags | rustix::fs::OFlags::NONBLOCK).ok()?;
        let mut bytes = Vec::new();
        // What was read before there was no more is there.
        let _ = stderr.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
        (!lines.is_empty()).then(|| lines.join(" "))
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.end();
        }
    }
}

/// Runs a step that is not measured to its end.
pub(crate) fn run_step(
    task: &Task,
    confinement: Option<&Confinement>,
    held: &Held,
    deadline: Duration,
    tell: &mut dyn FnMut(Live),
) -> Result<(), StepError> {
    Worker::start(task, confinement, held, deadline)?.result(tell).map(|_| ())
}

/// The main function of a worker. The exit code is for nobody: the answer was a line.
pub fn worker_main() -> i32 {
    match serve() {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn serve() -> io::Result<()> {
    let socket = move_away_from_stdin()?;
    // rustix asks once, by /proc/self/auxv on kernels before 6.4; who has changed his user may not read that any more.
    let _ = rustix::param::page_size();
    let mut input = BufReader::new(socket.try_clone()?);
    let mut line = Vec::new();
    io::BufRead::read_until(&mut input, b'\n', &mut line)?;
    let order: Order = serde_json::from_slice(&line)?;
    if let Some(confinement) = &order.confinement
        && let Err(error) = sandbox::confine(confinement)
    {
        let error = EngineError {
            message: format!("cannot confine the worker: {error}"),
            errno: None,
            path: None,
            inapplicable: false,
        };
        return answer_error(&socket, &error);
    }
    // The engine reads the task as its own first line, then "go".
    let mut task = serde_json::to_vec(&order.task)?;
    task.push(b'\n');
    fsb_engine::worker::serve(BufReader::new(task.as_slice().chain(input)), &socket)
}

fn answer_error(mut socket: &UnixStream, error: &EngineError) -> io::Result<()> {
    let mut line = serde_json::to_vec(&serde_json::json!({ "error": error }))?;
    line.push(b'\n');
    socket.write_all(&line)
}

/// Takes the conversation off descriptor 0, so that nothing a library reads or prints can get into it.
fn move_away_from_stdin() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(socket))
}
