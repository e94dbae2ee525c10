//! Workers: the same binary again, in a process of its own, for all file work that is measured.
//!
//! A conversation has three parts. *Open*: the worker is started where the controls want it, and
//! confined. Then any number of *tasks*, each answered by progress, perhaps `ready` (the clock
//! starts at the word `go`), and one result. *Close*: the worker ends when its connection does, and
//! its descriptors with it. All commands use it: trials take a worker a step, `fsb iozone` and `fsb
//! postmark` one for all their passes and runs.
//!
//! Kinds of work are a family: a member implements [`Work`], and the binary registers it.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsb_engine::{EngineError, Gate, Live, Ready, StepReport, Stop, Task, worker};
use fsb_model::errno::describe_spawn;
use fsb_model::observed::BackgroundWork;
use fsb_model::trial::{NO_SPACE, OUT_OF_TIME, Reason, WORKER};
use fsb_sys::sandbox::{self, Confinement};
use fsb_testbed::control::Held;
use fsb_testbed::{SpaceBeneath, host};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lines::{LineError, Lines};

/// The argument that makes the binary a worker.
pub const WORKER_ARGUMENT: &str = "__worker";

/// The environment variable of a worker that accesses files with the rights of the invoking user.
pub const AS_CALLER: &str = "FSB_WORKER_AS_CALLER";

/// The first line that a worker reads: the paths that it can write and its user.
#[derive(Debug, Serialize, Deserialize)]
struct Opening<'a> {
    confinement: Option<std::borrow::Cow<'a, Confinement>>,
}

/// The word that starts the clock.
const GO: &str = "go";
/// The word that stops a background.
const STOP: &str = "stop";

/// Each further line except these words: a task.
#[derive(Debug, Serialize, Deserialize)]
struct Asked<T> {
    work: String,
    task: T,
}

/// A message of a worker, one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message<P, A> {
    /// The parts of its confinement that the kernel refused; sent first, and only if there are any.
    Unconfined(Vec<String>),
    /// Everything is ready for the word `go`.
    Ready(Ready),
    /// The progress of the task.
    Progress(P),
    /// The task is done. Its last message.
    Result(A),
    /// The task could not be done. Its last message.
    Error(EngineError),
}

// The client of a worker: starts it, sends it tasks, and finds out why it ended.

/// The longest time that interrupted work may take to remove its files.
const REMOVING: Duration = Duration::from_secs(600);

/// The confinement, the resources and the time limits of a worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerLimits {
    /// The paths that it may write, and its user; absent if it works as the user, anywhere.
    pub confinement: Option<Confinement>,
    /// Whether it accesses files with the rights of the invoking user, if it is not confined.
    pub as_invoking_user: bool,
    /// The resources that the controls of its target assign to it.
    pub held: Held,
    /// The files to which it writes itself, in this order: those of the cgroups that count the
    /// processes of its programs and limit a background.
    pub cgroups: Vec<PathBuf>,
    /// The time after which a silent worker is killed.
    pub deadline: Option<Duration>,
    /// The end of the budget: a worker that has not answered by then is killed.
    pub until: Option<Instant>,
    /// Set when the work shall end early. Such a worker does not receive the terminal's signals.
    pub interrupted: Option<Arc<AtomicBool>>,
    /// A connection. The work shall end early as soon as it can be read.
    pub stop: Option<Arc<OwnedFd>>,
    /// The space beneath a sparse image: a worker is killed when it is short, before it is full for
    /// everything else.
    pub space: Option<SpaceBeneath>,
}

/// The reason why a task has no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A call failed.
    #[error("{0}")]
    Engine(EngineError),
    /// The worker was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The worker died.
    #[error("the worker ended early: {0}")]
    Died(String),
    /// The worker was silent for too long, and was killed.
    #[error("the worker did not answer within {0:?} and was killed")]
    Deadline(Duration),
    /// The file system beneath the target is almost full.
    #[error(
        "the file system beneath the image is almost full, so the worker was killed: its files need more than the slice; use a larger --size, or a --dir with more space"
    )]
    FullBeneath,
    /// The budget ended before the work did.
    #[error("the budget ended before the trial did")]
    OutOfTime,
    /// The worker could not be started, or the connection to it failed.
    #[error("cannot run a worker: {0}")]
    Start(String),
}

impl WorkerError {
    /// Returns the name of the kernel's error, if a system call failed.
    pub fn errno(&self) -> Option<&'static str> {
        if let WorkerError::Engine(error) = self {
            error.errno_name()
        } else {
            None
        }
    }

    /// Returns the reason of a failed trial.
    pub fn reason(&self) -> Reason {
        let code = match self {
            WorkerError::Engine(error) => return error.clone().into(),
            WorkerError::OutOfTime => &OUT_OF_TIME,
            WorkerError::FullBeneath => &NO_SPACE,
            WorkerError::Died(_) | WorkerError::Deadline(_) => &WORKER,
            WorkerError::Interrupted | WorkerError::Start(_) => return self.to_string().into(),
        };
        Reason::new(code, self.to_string())
    }
}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        let message = format!("cannot run a worker: {}", describe_spawn(&error));
        WorkerError::Engine(EngineError {
            errno: error.raw_os_error(),
            ..EngineError::new(message)
        })
    }
}

/// A worker that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// The connection; `None` after it was closed, which ends the worker.
    lines: Option<Lines>,
    deadline: Option<Duration>,
    until: Option<Instant>,
    interrupted: Option<Arc<AtomicBool>>,
    stop: Option<Arc<OwnedFd>>,
    space: Option<SpaceBeneath>,
    /// Whether the child is, or becomes, the monitor of a worker that runs programs.
    monitored: bool,
    unconfined: Vec<String>,
    /// Processes that the kernel had killed for lack of memory before this one was started.
    oom_kills: Option<u64>,
}

impl Worker {
    /// Starts a worker.
    pub fn open(limits: &WorkerLimits) -> Result<Worker, WorkerError> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(WORKER_ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        if limits.as_invoking_user {
            command.env(AS_CALLER, "1");
        }
        if limits.interrupted.is_some() {
            // No supervisor ends this worker: it dies with the process that started it. A Ctrl-C is
            // for that process alone.
            command.arg(std::process::id().to_string()).process_group(0);
        }
        limits
            .held
            .start(&mut command, &limits.cgroups)
            .map_err(|error| WorkerError::Start(error.to_string()))?;
        let oom_kills = host::oom_kills();
        let child = command.spawn()?;
        drop(command);
        // From here on this process must end the worker, also after an error.
        let lines = Some(Lines::of_worker(ours)?);
        let interrupted = limits.interrupted.as_ref().map(Arc::clone);
        let monitored = limits
            .confinement
            .as_ref()
            .is_some_and(|confinement| confinement.programs.is_some());
        let (deadline, until, unconfined) = (limits.deadline, limits.until, Vec::new());
        let space = limits.space.clone();
        let mut worker = Worker {
            child,
            lines,
            deadline,
            until,
            interrupted,
            stop: limits.stop.clone(),
            space,
            monitored,
            unconfined,
            oom_kills,
        };
        worker.send(&Opening {
            confinement: limits.confinement.as_ref().map(Cow::Borrowed),
        })?;
        Ok(worker)
    }

    /// Sends a task without waiting for its result. Refuses if the work shall end early, because a
    /// short task would be done before the first check.
    pub fn ask<W: Work>(&mut self, task: &W::Task) -> Result<(), WorkerError> {
        if self.is_interrupted() {
            return Err(WorkerError::Interrupted);
        }
        self.send(&Asked {
            work: W::NAME.to_owned(),
            task,
        })
    }

    /// Waits until the work is ready to start.
    pub fn ready<W: Work>(&mut self) -> Result<Ready, WorkerError> {
        match self.answer::<W>(&mut |_| {})? {
            Message::Ready(ready) => Ok(ready),
            Message::Error(error) => Err(WorkerError::Engine(error)),
            Message::Result(_) | Message::Progress(_) | Message::Unconfined(_) => Err(
                WorkerError::Start("a worker answered 'result' before 'ready'".to_owned()),
            ),
        }
    }

    /// Returns the parts of its confinement that the kernel refused. They are known once the worker
    /// is ready.
    pub fn unconfined(&self) -> &[String] {
        &self.unconfined
    }

    /// Starts the clock.
    pub fn go(&mut self) -> Result<(), WorkerError> {
        self.tell(GO)
    }

    /// Starts a background that is ready, and returns when its work has begun.
    pub(crate) fn start_background(&mut self) -> Result<(), WorkerError> {
        self.go()?;
        self.ready::<Backgrounds>().map(drop)
    }

    /// Stops a background, ends its worker and returns its work.
    pub(crate) fn stop_background(mut self) -> Result<BackgroundWork, WorkerError> {
        // The answer of a worker that failed is waiting, with the reason.
        let _ = self
            .lines()
            .and_then(|lines| lines.send_raw(format!("{STOP}\n").as_bytes()));
        let work = self.result::<Backgrounds>(&mut |_| {})?;
        self.close();
        Ok(work)
    }

    fn tell(&mut self, word: &str) -> Result<(), WorkerError> {
        let sent = self
            .lines()
            .and_then(|lines| lines.send_raw(format!("{word}\n").as_bytes()));
        sent.map_err(|error| self.failure(error))
    }

    /// Waits for the result of the work, and passes its progress to `tell`.
    pub fn result<W: Work>(
        &mut self,
        tell: &mut dyn FnMut(W::Progress),
    ) -> Result<W::Answer, WorkerError> {
        match self.answer::<W>(tell)? {
            Message::Result(answer) => Ok(answer),
            Message::Error(error) => Err(WorkerError::Engine(error)),
            Message::Ready(_) | Message::Progress(_) | Message::Unconfined(_) => Err(
                WorkerError::Start("a worker answered 'ready' twice".to_owned()),
            ),
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

    /// Returns the number of its process; that of the monitor if it runs programs.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Lets the next tasks go on after [`WorkerLimits::until`] and [`WorkerLimits::stop`], and also
    /// where [`WorkerLimits::space`] is short.
    pub fn without_limit(self) -> Worker {
        // A struct with a destructor cannot be taken apart.
        let mut worker = self;
        worker.until = None;
        worker.stop = None;
        worker.space = None;
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

    /// Returns the next answer. Progress is not an answer: it must not keep a worker alive that is
    /// stuck.
    fn answer<W: Work>(
        &mut self,
        tell: &mut dyn FnMut(W::Progress),
    ) -> Result<Message<W::Progress, W::Answer>, WorkerError> {
        let started = Instant::now();
        loop {
            let deadline = self
                .deadline
                .map(|deadline| deadline.saturating_sub(started.elapsed()));
            let until = self
                .until
                .map(|until| until.saturating_duration_since(Instant::now()));
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
                Err(LineError::Interrupted) if self.is_interrupted() => {
                    return self.interrupt::<W>();
                }
                Err(LineError::Interrupted) => {
                    self.end();
                    return Err(WorkerError::FullBeneath);
                }
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        is_set(self.interrupted.as_ref()) || is_readable(self.stop.as_ref())
    }

    fn receive<M: DeserializeOwned>(&mut self, deadline: Option<Duration>) -> Result<M, LineError> {
        let (interrupted, stop) = (self.interrupted.clone(), self.stop.clone());
        let space = self.space.clone();
        self.lines()?.receive(deadline, &|| {
            is_set(interrupted.as_ref())
                || is_readable(stop.as_ref())
                || space.as_ref().is_some_and(SpaceBeneath::is_short)
        })
    }

    /// Ends work early. Waits for work that heeds interruptions: it removes its files, and its
    /// answer contains the result so far.
    fn interrupt<W: Work>(&mut self) -> Result<Message<W::Progress, W::Answer>, WorkerError> {
        let pid = Pid::from_child(&self.child);
        if W::HEEDS_INTERRUPTION && kill_process(pid, Signal::TERM).is_ok() {
            let ends = Instant::now() + REMOVING;
            loop {
                let left = ends.saturating_duration_since(Instant::now());
                let next = self
                    .lines()
                    .and_then(|lines| lines.receive(Some(left), &|| false));
                match next {
                    Ok(Message::Progress(_) | Message::Unconfined(_)) => {}
                    // It waits for a start that does not come, and has measured nothing.
                    Ok(Message::Ready(_)) | Err(_) => break,
                    Ok(answer) => return Ok(answer),
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
                    format!(
                        "killed by signal {signal}: the kernel ran out of memory; allow more (its memory cgroup)"
                    )
                }
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit status {}", status.code().unwrap_or(-1)),
            };
            return WorkerError::Died(
                self.last_words()
                    .map_or(how.clone(), |words| format!("{how}: {words}")),
            );
        }
        self.end();
        WorkerError::Start(error.to_string())
    }

    /// Returns the error output of a worker that died, such as the place of a panic. Does not wait
    /// for other processes that still hold its standard error.
    fn last_words(&mut self) -> Option<String> {
        let mut stderr = self.child.stderr.take()?;
        let flags = rustix::fs::fcntl_getfl(&stderr).ok()?;
        rustix::fs::fcntl_setfl(&stderr, flags | rustix::fs::OFlags::NONBLOCK).ok()?;
        let mut bytes = Vec::new();
        // If no more can be read, `bytes` has the output so far.
        let _ = stderr.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(2)
            .collect();
        (!lines.is_empty()).then(|| lines.join(" "))
    }

    /// Kills the worker and waits until it is gone. One that runs programs has a monitor, which
    /// gets SIGTERM: if the monitor were killed, no process could wait for the worker below it.
    fn end(&mut self) {
        let _ = match self.monitored {
            true => {
                kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(io::Error::from)
            }
            false => self.child.kill(),
        };
        let _ = self.child.wait();
    }
}

fn is_set(flag: Option<&Arc<AtomicBool>>) -> bool {
    flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Returns whether the connection has something to read, or is closed.
fn is_readable(connection: Option<&Arc<OwnedFd>>) -> bool {
    connection.is_some_and(|connection| {
        let mut sockets = [PollFd::new(&**connection, PollFlags::IN)];
        poll(&mut sockets, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    })
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.end();
        }
    }
}

// The worker's side of the conversation.

/// A kind of work that workers perform.
pub trait Work {
    /// The name in the protocol.
    const NAME: &'static str;
    /// The request.
    type Task: Serialize + DeserializeOwned;
    /// The progress report.
    type Progress: Serialize + DeserializeOwned;
    /// The result.
    type Answer: Serialize + DeserializeOwned;

    /// Performs the task. Work that checks [`Requester::interrupted`] ends early with an answer;
    /// other work is killed.
    fn perform(
        task: Self::Task,
        requester: &mut Requester<'_, Self::Progress>,
    ) -> Result<Self::Answer, EngineError>;

    /// Whether the work checks [`Requester::interrupted`] because it must remove something before
    /// the worker ends.
    const HEEDS_INTERRUPTION: bool = false;
}

/// A member of the family: its name, and how a task of its kind is served.
#[derive(Debug, Clone, Copy)]
pub struct WorkKind {
    name: &'static str,
    serve: fn(&str, &mut Connection) -> io::Result<()>,
}

impl WorkKind {
    /// Returns the member that is `W`.
    pub const fn new<W: Work>() -> WorkKind {
        WorkKind {
            name: W::NAME,
            serve: serve_task::<W>,
        }
    }

    /// Returns the name in the protocol.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// The worker's end of the connection.
#[derive(Debug)]
struct Connection {
    input: BufReader<UnixStream>,
    interrupted: Arc<AtomicBool>,
    /// Whether SIGTERM sets the flag already: a run of `fsb iozone` may ask for millions of passes.
    heeds: bool,
}

/// The process that requested the running work.
#[derive(Debug)]
pub struct Requester<'c, P> {
    connection: &'c mut Connection,
    progress: PhantomData<P>,
}

impl<P: Serialize> Requester<'_, P> {
    /// Reports that everything is ready, and returns when the clock may start.
    pub fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        fn gone(error: io::Error) -> EngineError {
            EngineError::new(format!("the agent cannot be reached: {error}"))
        }
        self.connection
            .send(&Message::<(), ()>::Ready(ready))
            .map_err(gone)?;
        let mut line = String::new();
        self.connection.input.read_line(&mut line).map_err(gone)?;
        match line.trim_end() {
            GO => Ok(()),
            "" => Err(EngineError::new(
                "the agent closed the connection before the start",
            )),
            other => Err(EngineError::new(format!(
                "expected the word go, not '{other}'"
            ))),
        }
    }

    /// Reports the progress of the work. The result shows whether the agent is gone.
    pub fn tell(&mut self, progress: P) {
        let _ = self.connection.send(&Message::<P, ()>::Progress(progress));
    }

    /// Returns the flag that is set when the work shall end early.
    pub fn interrupted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.connection.interrupted)
    }
}

impl Connection {
    /// Makes SIGTERM set the flag, and the death of the parent process as well. The work then ends
    /// early, and removes its files.
    fn heed_interruption(&mut self) -> io::Result<()> {
        if !self.heeds {
            signal_hook::flag::register(
                signal_hook::consts::SIGTERM,
                Arc::clone(&self.interrupted),
            )?;
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            self.heeds = true;
        }
        Ok(())
    }

    /// Returns whether the other side is gone. It may have died before the signal of its death was
    /// requested.
    fn is_orphan(&self) -> bool {
        let socket = self.input.get_ref();
        let mut sockets = [PollFd::new(socket, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP;
        poll(&mut sockets, Some(&Timespec::default())).is_ok()
            && sockets[0].revents().intersects(gone)
    }

    fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.input.get_ref().write_all(&line)
    }

    /// Returns the next line without its end, or `None` if the other side has closed.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.input.read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }
}

fn serve_task<W: Work>(task: &str, connection: &mut Connection) -> io::Result<()> {
    if W::HEEDS_INTERRUPTION {
        connection.heed_interruption()?;
        if connection.is_orphan() {
            return Ok(());
        }
    }
    let ended = match serde_json::from_str(task) {
        Ok(task) => W::perform(
            task,
            &mut Requester {
                connection,
                progress: PhantomData,
            },
        ),
        Err(error) => Err(EngineError::new(format!(
            "the request is not a task: {error}"
        ))),
    };
    connection.send(&ended.map_or_else(Message::<(), W::Answer>::Error, Message::Result))
}

/// The main function of a worker that can do `kinds`. The exit code says little: answers are lines.
pub fn worker_main(kinds: &[WorkKind]) -> i32 {
    // rustix asks once, by /proc/self/auxv on kernels before 6.4, which a process that changed its
    // user may not read.
    let _ = rustix::param::page_size();
    match move_away_from_stdin().and_then(|socket| converse(socket, kinds)) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn converse(socket: UnixStream, kinds: &[WorkKind]) -> io::Result<()> {
    let mut connection = Connection {
        input: BufReader::new(socket),
        interrupted: Arc::default(),
        heeds: false,
    };
    let Some(opening) = connection.line()? else {
        return Ok(());
    };
    let opening: Opening<'_> = serde_json::from_str(&opening)?;
    // A worker that cannot be confined answers every task with that error.
    let refused = match opening.confinement.as_deref().map(sandbox::confine) {
        Some(Err(why)) => Some(why),
        Some(Ok(notes)) if !notes.is_empty() => {
            connection.send(&Message::<(), ()>::Unconfined(notes))?;
            None
        }
        Some(Ok(_)) | None => None,
    };
    while let Some(line) = connection.line()? {
        let asked: Asked<Box<RawValue>> = serde_json::from_str(&line)?;
        let kind = kinds.iter().find(|kind| kind.name == asked.work);
        match (&refused, kind) {
            (Some(why), _) => connection.fail(format!("cannot confine the worker: {why}"))?,
            (None, None) => connection.fail(format!("a worker knows no '{}'", asked.work))?,
            (None, Some(kind)) => (kind.serve)(asked.task.get(), &mut connection)?,
        }
    }
    Ok(())
}

impl Connection {
    fn fail(&self, message: String) -> io::Result<()> {
        self.send(&Message::<(), ()>::Error(EngineError::new(message)))
    }
}

/// Takes the conversation off descriptor 0, so that nothing a library reads or prints can get into
/// it.
fn move_away_from_stdin() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(socket))
}

/// Steps of trials: the engine's tasks.
#[derive(Debug)]
pub enum Steps {}

impl Work for Steps {
    const NAME: &'static str = "step";
    type Task = Task;
    type Progress = Live;
    type Answer = StepReport;

    fn perform(task: Task, requester: &mut Requester<'_, Live>) -> Result<StepReport, EngineError> {
        worker::perform(&task, requester)
    }
}

/// Steps of trials that end with the cycle that runs if they are interrupted.
#[derive(Debug)]
pub enum Cycles {}

impl Work for Cycles {
    const NAME: &'static str = "cycles";
    type Task = Task;
    type Progress = Live;
    type Answer = StepReport;
    // The answer has the samples of the cycles that ended.
    const HEEDS_INTERRUPTION: bool = true;

    fn perform(task: Task, requester: &mut Requester<'_, Live>) -> Result<StepReport, EngineError> {
        Steps::perform(task, requester)
    }
}

impl Gate for Requester<'_, Live> {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        Requester::ready(self, ready)
    }

    fn tell(&mut self, live: Live) {
        Requester::tell(self, live);
    }

    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        Some(Requester::interrupted(self))
    }

    fn started(&mut self, stop: Stop) -> Result<(), EngineError> {
        fn gone(error: io::Error) -> EngineError {
            EngineError::new(format!("the agent cannot be reached: {error}"))
        }
        // The agent sends the next word after the answer to this call, so nothing of it is in the
        // buffer yet.
        let mut words = BufReader::new(self.connection.input.get_ref().try_clone().map_err(gone)?);
        std::thread::Builder::new()
            .name("fsb-stop".to_owned())
            .spawn(move || {
                // At its end the agent is gone.
                let _ = words.read_line(&mut String::new());
                stop();
            })
            .map_err(|error| {
                EngineError::new(format!(
                    "start a thread that waits for the end: {}",
                    describe_spawn(&error)
                ))
            })?;
        self.connection
            .send(&Message::<(), ()>::Ready(Ready::default()))
            .map_err(gone)
    }
}

/// Backgrounds: the engine's tasks, repeated until the word `stop`. A second `ready` says that the
/// work has begun.
#[derive(Debug)]
pub enum Backgrounds {}

impl Work for Backgrounds {
    const NAME: &'static str = "background";
    type Task = Task;
    type Progress = Live;
    type Answer = BackgroundWork;

    fn perform(
        task: Task,
        requester: &mut Requester<'_, Live>,
    ) -> Result<BackgroundWork, EngineError> {
        fsb_engine::repeat(&task, requester)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use fsb_engine::{Sizing, Step};
    use serde_json::json;

    use super::*;

    /// Returns the messages of a worker that knows steps, for this input.
    fn answers(input: &str) -> Vec<Message<(), StepReport>> {
        answers_of::<Steps>(input)
    }

    /// Returns the messages of a worker that knows this kind of work.
    fn answers_of<W: Work>(input: &str) -> Vec<Message<(), W::Answer>> {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let worker = std::thread::spawn(move || converse(theirs, &[WorkKind::new::<W>()]));
        (&ours)
            .write_all(format!("{{\"confinement\":null}}\n{input}").as_bytes())
            .expect("written");
        ours.shutdown(Shutdown::Write).expect("shut down");
        let lines = BufReader::new(ours)
            .lines()
            .map(|line| line.expect("a line"));
        let said = lines
            .map(|line| serde_json::from_str(&line).expect("a message"))
            .collect();
        worker.join().expect("no panic").expect("served");
        said
    }

    fn asked(root: &std::path::Path, step: Step) -> String {
        let workload = json!({"name": "read", "file_size": "64K", "block_size": "4K"});
        let workload = serde_json::from_value(workload).expect("a workload");
        let task = Task::plain(
            step,
            workload,
            Sizing {
                size: 64 << 20,
                cpus: 2,
            },
            root,
            42,
            16,
        );
        json!({"work": "step", "task": task}).to_string() + "\n"
    }

    #[test]
    fn an_interruption_does_not_wait_for_a_worker_that_waits_for_its_start() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let child = Command::new("sleep").arg("3600").spawn().expect("a child");
        let mut worker = Worker {
            child,
            lines: Some(Lines::of_worker(ours).expect("lines")),
            deadline: None,
            until: None,
            interrupted: None,
            stop: None,
            space: None,
            monitored: false,
            unconfined: Vec::new(),
            oom_kills: None,
        };
        let ready = Message::<(), ()>::Ready(Ready::default());
        let line = serde_json::to_string(&ready).expect("JSON") + "\n";
        (&theirs).write_all(line.as_bytes()).expect("written");
        let answer = worker.interrupt::<Cycles>();
        assert!(matches!(answer, Err(WorkerError::Interrupted)));
    }

    #[test]
    fn one_worker_does_task_after_task_until_the_connection_ends() {
        let root = tempfile::tempdir().expect("a directory");
        let (prepare, measure) = (
            asked(root.path(), Step::Prepare),
            asked(root.path(), Step::Measure),
        );
        match &answers(&format!("{prepare}{measure}go\n{measure}go\n"))[..] {
            [
                Message::Result(StepReport::Done),
                Message::Ready(ready),
                Message::Result(StepReport::Measured(first)),
                Message::Ready(_),
                Message::Result(StepReport::Measured(second)),
            ] => {
                assert_eq!(
                    (ready.file_bytes, ready.resident_bytes),
                    (65_536, Some(65_536))
                );
                assert_eq!((first[0].operations, second[0].bytes), (16, 65_536));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_background_reports_its_start_and_ends_with_the_connection() {
        let root = tempfile::tempdir().expect("a directory");
        let workload =
            json!({"name": "write", "file_size": "64K", "block_size": "4K", "overwrite": true});
        let workload = serde_json::from_value(workload).expect("a workload");
        let task = Task::plain(
            Step::Prepare,
            workload,
            Sizing {
                size: 64 << 20,
                cpus: 2,
            },
            root.path(),
            42,
            16,
        );
        let task = Task {
            background: true,
            ..task
        };
        let prepare = json!({"work": "step", "task": task});
        answers(&format!("{prepare}\n"));
        let repeat = json!({"work": "background", "task": Task { step: Step::Measure, ..task }});
        match &answers_of::<Backgrounds>(&format!("{repeat}\ngo\n"))[..] {
            [Message::Ready(_), Message::Ready(_), Message::Result(work)] => {
                assert!(work.seconds > 0.0, "{work:?}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_invalid_task_is_answered_and_the_connection_continues() {
        let root = tempfile::tempdir().expect("a directory");
        let errors: Vec<_> = answers(
            "{\"work\":\"step\",\"task\":{\"step\":\"fly\"}}\n{\"work\":\"fly\",\"task\":1}\n",
        )
        .into_iter()
        .map(|message| match message {
            Message::Error(error) => error.message,
            other => panic!("{other:?}"),
        })
        .collect();
        assert!(
            errors[0].starts_with("the request is not a task"),
            "{errors:?}"
        );
        assert_eq!(errors[1], "a worker knows no 'fly'");
        answers(&asked(root.path(), Step::Prepare));
        match &answers(&asked(root.path(), Step::Measure))[..] {
            [Message::Ready(_), Message::Error(error)] => {
                assert!(error.message.contains("closed the connection"), "{error}")
            }
            other => panic!("{other:?}"),
        }
    }
}
