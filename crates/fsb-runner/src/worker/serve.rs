//! The worker's side of the conversation.

use std::io::{self, BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsb_engine::{EngineError, Ready};
use fsb_sys::sandbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::protocol::{Asked, Message, Opening};

/// A kind of work that workers perform.
pub trait Work {
    /// Its name in the protocol.
    const NAME: &'static str;
    /// The request.
    type Task: Serialize + DeserializeOwned;
    /// The progress report.
    type Progress: Serialize + DeserializeOwned;
    /// The result.
    type Answer: Serialize + DeserializeOwned;

    /// Performs the task. Work that checks [`Desk::interrupted`] ends early with an answer; other work is killed.
    fn perform(task: Self::Task, desk: &mut Desk<'_, Self::Progress>) -> Result<Self::Answer, EngineError>;

    /// Whether the work checks [`Desk::interrupted`] because it must remove something before the worker ends.
    const HEEDS_INTERRUPTION: bool = false;
}

/// A member of the family: its name, and how a task of its kind is served.
#[derive(Debug, Clone, Copy)]
pub struct WorkKind {
    name: &'static str,
    serve: fn(&str, &mut Connection) -> io::Result<()>,
}

impl WorkKind {
    /// The member that is `W`.
    pub const fn of<W: Work>() -> WorkKind {
        WorkKind { name: W::NAME, serve: serve_task::<W> }
    }

    /// Its name in the protocol.
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

/// The connection of running work to the process that requested it.
#[derive(Debug)]
pub struct Desk<'c, P> {
    connection: &'c mut Connection,
    progress: PhantomData<P>,
}

impl<P: Serialize> Desk<'_, P> {
    /// Reports that everything is ready, and returns when the clock may start.
    pub fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        let gone = |error: io::Error| EngineError::new(format!("the agent cannot be reached: {error}"));
        self.connection.send(&Message::<(), ()>::Ready(ready)).map_err(gone)?;
        let mut line = String::new();
        self.connection.input.read_line(&mut line).map_err(gone)?;
        match line.trim_end() {
            "go" => Ok(()),
            "" => Err(EngineError::new("the agent closed the connection before the start")),
            other => Err(EngineError::new(format!("expected the word go, not '{other}'"))),
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
    /// Makes SIGTERM set the flag, and the death of the parent process as well. The work then ends early, and removes
    /// its files.
    fn heed_interruption(&mut self) -> io::Result<()> {
        if !self.heeds {
            signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&self.interrupted))?;
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            self.heeds = true;
        }
        Ok(())
    }

    /// Returns whether the other side is gone. It may have died before the signal of its death was requested.
    fn is_orphan(&self) -> bool {
        let socket = self.input.get_ref();
        let mut sockets = [PollFd::new(socket, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP;
        poll(&mut sockets, Some(&Timespec::default())).is_ok() && sockets[0].revents().intersects(gone)
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
        Ok(task) => W::perform(task, &mut Desk { connection, progress: PhantomData }),
        Err(error) => Err(EngineError::new(format!("the request is not a task: {error}"))),
    };
    connection.send(&ended.map_or_else(Message::<(), W::Answer>::Error, Message::Result))
}

/// The main function of a worker that can do `kinds`. The exit code says little: answers are lines.
pub fn worker_main(kinds: &[WorkKind]) -> i32 {
    // rustix asks once, by /proc/self/auxv on kernels before 6.4, which a process that changed its user may not read.
    let _ = rustix::param::page_size();
    match move_away_from_stdin().and_then(|socket| converse(socket, kinds)) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn converse(socket: UnixStream, kinds: &[WorkKind]) -> io::Result<()> {
    let mut connection = Connection { input: BufReader::new(socket), interrupted: Arc::default(), heeds: false };
    let Some(opening) = connection.line()? else { return Ok(()) };
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

/// Takes the conversation off descriptor 0, so that nothing a library reads or prints can get into it.
fn move_away_from_stdin() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(socket))
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use fsb_engine::{Sizing, Step, StepReport, Task};
    use serde_json::json;

    use super::*;
    use crate::worker::Steps;

    /// Returns the messages of a worker that knows steps, for this input.
    fn answers(input: &str) -> Vec<Message<(), StepReport>> {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let worker = std::thread::spawn(move || converse(theirs, &[WorkKind::of::<Steps>()]));
        (&ours).write_all(format!("{{\"confinement\":null}}\n{input}").as_bytes()).expect("written");
        ours.shutdown(Shutdown::Write).expect("shut down");
        let lines = BufReader::new(ours).lines().map(|line| line.expect("a line"));
        let said = lines.map(|line| serde_json::from_str(&line).expect("a message")).collect();
        worker.join().expect("no panic").expect("served");
        said
    }

    fn asked(root: &std::path::Path, step: Step) -> String {
        let workload = json!({"name": "read", "file_size": "64K", "block_size": "4K"});
        let workload = serde_json::from_value(workload).expect("a workload");
        let task = Task::plain(step, workload, Sizing { size: 64 << 20, cpus: 2 }, root, 42, 16);
        json!({"work": "step", "task": task}).to_string() + "\n"
    }

    #[test]
    fn one_worker_does_task_after_task_until_the_connection_ends() {
        let root = tempfile::tempdir().expect("a directory");
        let (prepare, measure) = (asked(root.path(), Step::Prepare), asked(root.path(), Step::Measure));
        match &answers(&format!("{prepare}{measure}go\n{measure}go\n"))[..] {
            [
                Message::Result(StepReport::Done),
                Message::Ready(ready),
                Message::Result(StepReport::Measured(first)),
                Message::Ready(_),
                Message::Result(StepReport::Measured(second)),
            ] => {
                assert_eq!((ready.file_bytes, ready.resident_bytes), (65_536, Some(65_536)));
                assert_eq!((first[0].operations, second[0].bytes), (16, 65_536));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_invalid_task_is_answered_and_the_connection_continues() {
        let root = tempfile::tempdir().expect("a directory");
        let errors: Vec<_> =
            answers("{\"work\":\"step\",\"task\":{\"step\":\"fly\"}}\n{\"work\":\"fly\",\"task\":1}\n")
                .into_iter()
                .map(|message| match message {
                    Message::Error(error) => error.message,
                    other => panic!("{other:?}"),
                })
                .collect();
        assert!(errors[0].starts_with("the request is not a task"), "{errors:?}");
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
