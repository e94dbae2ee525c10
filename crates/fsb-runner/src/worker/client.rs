//! The client of a worker: starts it, sends it tasks, and finds out why it ended.

use std::borrow::Cow;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsb_engine::{EngineError, Ready};
use fsb_model::errno::describe_spawn;
use fsb_sys::sandbox::Confinement;
use fsb_testbed::control::Held;
use fsb_testbed::host;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{Asked, Message, Opening};
use super::serve::Work;
use super::{AS_CALLER, WORKER_ARGUMENT};
use crate::agent::lines::{LineError, Lines};

/// The longest time that interrupted work may take to remove its files.
const REMOVING: Duration = Duration::from_secs(600);

/// The place and the limits of a worker.
#[derive(Debug, Clone, Default)]
pub struct Post {
    /// The paths that it may write, and its user; absent if it works as the user, anywhere.
    pub confinement: Option<Confinement>,
    /// Whether it accesses files with the rights of the invoking user, if it is not confined.
    pub as_invoking_user: bool,
    /// The resources that the controls of its target assign to it.
    pub held: Held,
    /// The file to which a worker that runs programs writes itself, so that a cgroup counts their processes.
    pub processes: Option<PathBuf>,
    /// The time after which a silent worker is killed.
    pub deadline: Option<Duration>,
    /// The end of the budget: a worker that has not answered by then is killed.
    pub until: Option<Instant>,
    /// Set when the work shall end early. Such a worker does not receive the terminal's signals.
    pub interrupted: Option<Arc<AtomicBool>>,
}

/// The reason why a task has no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A call failed.
    #[error("{0}")]
    Engine(EngineError),
    /// It was asked to end early.
    #[error("interrupted")]
    Interrupted,
    /// The worker died.
    #[error("the worker ended early: {0}")]
    Died(String),
    /// It was silent for too long, and was killed.
    #[error("the worker did not answer within {0:?} and was killed")]
    Deadline(Duration),
    /// The budget ended before the work did.
    #[error("the budget ended before the trial did")]
    OutOfTime,
    /// It could not be started or spoken to.
    #[error("cannot run a worker: {0}")]
    Start(String),
}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        WorkerError::Start(describe_spawn(&error))
    }
}

/// A worker that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// `None` once it was asked to end.
    lines: Option<Lines>,
    deadline: Option<Duration>,
    until: Option<Instant>,
    interrupted: Option<Arc<AtomicBool>>,
    /// Whether the child is, or becomes, the monitor of a worker that runs programs.
    monitored: bool,
    unconfined: Vec<String>,
    /// Processes that the kernel had killed for lack of memory before this one was started.
    oom_kills: Option<u64>,
}

impl Worker {
    /// Starts a worker.
    pub fn open(post: &Post) -> Result<Worker, WorkerError> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORKER_ARGUMENT).stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        if post.as_invoking_user {
            command.env(AS_CALLER, "1");
        }
        if post.interrupted.is_some() {
            // No supervisor ends this worker: it dies with the process that started it. A Ctrl-C is for that process
            // alone.
            command.arg(std::process::id().to_string()).process_group(0);
        }
        post.held
            .start(&mut command, post.processes.as_deref())
            .map_err(|error| WorkerError::Start(error.to_string()))?;
        let oom_kills = host::oom_kills();
        let child = command.spawn()?;
        drop(command);
        // From here on this process must end the worker, also after an error.
        let lines = Some(Lines::of_worker(ours)?);
        let interrupted = post.interrupted.as_ref().map(Arc::clone);
        let monitored = post.confinement.as_ref().is_some_and(|confinement| confinement.programs.is_some());
        let (deadline, until, unconfined) = (post.deadline, post.until, Vec::new());
        let mut worker = Worker { child, lines, deadline, until, interrupted, monitored, unconfined, oom_kills };
        worker.send(&Opening { confinement: post.confinement.as_ref().map(Cow::Borrowed) })?;
        Ok(worker)
    }

    /// Sends a task without waiting for its result. Refuses if the work shall end early, because a short task would be
    /// done before the first check.
    pub fn ask<W: Work>(&mut self, task: &W::Task) -> Result<(), WorkerError> {
        if self.is_interrupted() {
            return Err(WorkerError::Interrupted);
        }
        self.send(&Asked { work: W::NAME.to_owned(), task })
    }

    /// Waits until the work is ready to start.
    pub fn ready<W: Work>(&mut self) -> Result<Ready, WorkerError> {
        match self.answer::<W>(&mut |_| {})? {
            Message::Ready(ready) => Ok(ready),
            Message::Error(error) => Err(WorkerError::Engine(error)),
            Message::Result(_) | Message::Progress(_) | Message::Unconfined(_) => {
                Err(WorkerError::Start("a worker answered 'result' before 'ready'".to_owned()))
            }
        }
    }

    /// Returns the parts of its confinement that the kernel refused. They are known once the worker is ready.
    pub fn unconfined(&self) -> &[String] {
        &self.unconfined
    }

    /// Starts the clock.
    pub fn go(&mut self) -> Result<(), WorkerError> {
        let sent = self.lines().and_then(|lines| lines.send_raw(b"go\n"));
        sent.map_err(|error| self.failure(error))
    }

    /// Waits for the result of the work, and passes its progress to `tell`.
    pub fn result<W: Work>(&mut self, tell: &mut dyn FnMut(W::Progress)) -> Result<W::Answer, WorkerError> {
        match self.answer::<W>(tell)? {
            Message::Result(answer) => Ok(answer),
            Message::Error(error) => Err(WorkerError::Engine(error)),
            Message::Ready(_) | Message::Progress(_) | Message::Unconfined(_) => {
                Err(WorkerError::Start("a worker answered 'ready' twice".to_owned()))
            }
        }
    }

    /// Does work that does not wait for a start.
    pub fn perform<W: Work>(
        &mut self,
        task: &W::Task,
        tell: &mut dyn FnMut(W::Progress),
    ) -> Result<W::Answer, WorkerError> {
        self.ask::<W>(task)?;
        self.result::<W>(tell)
    }

    /// Lets the next tasks go on after [`Post::until`].
    pub fn without_limit(self) -> Worker {
        // A struct with a destructor cannot be taken apart.
        let mut worker = self;
        worker.until = None;
        worker
    }

    /// Ends the worker and waits until it is gone: its descriptors must be closed before a remount.
    pub fn close(mut self) {
        self.lines = None;
        let _ = self.child.wait();
    }

    fn lines(&mut self) -> Result<&mut Lines, LineError> {
        self.lines.as_mut().ok_or(LineError::Closed)
    }

    fn send(&mut self, message: &impl Serialize) -> Result<(), WorkerError> {
        let sent = self.lines().and_then(|lines| lines.send(message));
        sent.map_err(|error| self.failure(error))
    }

    /// Returns the next answer. Progress is not an answer: it must not keep a worker alive that is stuck.
    fn answer<W: Work>(
        &mut self,
        tell: &mut dyn FnMut(W::Progress),
    ) -> Result<Message<W::Progress, W::Answer>, WorkerError> {
        let started = Instant::now();
        loop {
            let deadline = self.deadline.map(|deadline| deadline.saturating_sub(started.elapsed()));
            let until = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = deadline.into_iter().chain(until).min();
            match self.receive(left) {
                Ok(Message::Progress(progress)) => tell(progress),
                Ok(Message::Unconfined(notes)) => self.unconfined = notes,
                Ok(answer) => return Ok(answer),
                Err(LineError::Deadline(_)) => {
                    self.end();
                    if self.until.is_some_and(|until| Instant::now() >= until) {
                        return Err(WorkerError::OutOfTime);
                    }
                    return Err(WorkerError::Deadline(self.deadline.unwrap_or_default()));
                }
                Err(LineError::Interrupted) => return self.interrupt::<W>(),
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    fn receive<M: DeserializeOwned>(&mut self, deadline: Option<Duration>) -> Result<M, LineError> {
        let interrupted = self.interrupted.as_ref().map(Arc::clone);
        let stop = || interrupted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        self.lines()?.receive(deadline, &stop)
    }

    /// Ends work early. Waits for work that heeds interruptions: it removes its files, and its answer contains the
    /// result so far.
    fn interrupt<W: Work>(&mut self) -> Result<Message<W::Progress, W::Answer>, WorkerError> {
        let pid = Pid::from_child(&self.child);
        if W::HEEDS_INTERRUPTION && kill_process(pid, Signal::TERM).is_ok() {
            let ends = Instant::now() + REMOVING;
            loop {
                let left = ends.saturating_duration_since(Instant::now());
                let next = self.lines().and_then(|lines| lines.receive(Some(left), &|| false));
                match next {
                    Ok(Message::Progress(_) | Message::Ready(_) | Message::Unconfined(_)) => {}
                    Ok(answer) => return Ok(answer),
                    Err(_) => break,
                }
            }
        }
        self.end();
        Err(WorkerError::Interrupted)
    }

    fn failure(&mut self, error: LineError) -> WorkerError {
        // The connection closes when the process ends: its status says why.
        if matches!(error, LineError::Closed)
            && let Ok(status) = self.child.wait()
        {
            let how = match status.signal() {
                Some(signal) if host::oom_kills() > self.oom_kills => {
                    format!("killed by signal {signal}: the kernel ran out of memory; allow more (its memory cgroup)")
                }
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit status {}", status.code().unwrap_or(-1)),
            };
            return WorkerError::Died(self.last_words().map_or(how.clone(), |words| format!("{how}: {words}")));
        }
        self.end();
        WorkerError::Start(error.to_string())
    }

    /// Returns the error output of a worker that died, such as the place of a panic. Does not wait for other processes
    /// that still hold its standard error.
    fn last_words(&mut self) -> Option<String> {
        let mut stderr = self.child.stderr.take()?;
        let flags = rustix::fs::fcntl_getfl(&stderr).ok()?;
        rustix::fs::fcntl_setfl(&stderr, flags | rustix::fs::OFlags::NONBLOCK).ok()?;
        let mut bytes = Vec::new();
        // If no more can be read, `bytes` has the output so far.
        let _ = stderr.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
        (!lines.is_empty()).then(|| lines.join(" "))
    }

    /// Kills the worker and waits until it is gone. One that runs programs has a monitor, which gets SIGTERM: if the
    /// monitor were killed, no process could wait for the worker below it.
    fn end(&mut self) {
        let _ = match self.monitored {
            true => kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(io::Error::from),
            false => self.child.kill(),
        };
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
