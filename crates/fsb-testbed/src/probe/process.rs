//! The process that makes the calls of the probe, and its parent, which waits for answers.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fsb_model::errno;
use fsb_sys::error::{Refusal, attempt};
use fsb_sys::{poll_until, process, random_name};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, open, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, fchdir, setrlimit};
use serde::{Deserialize, Serialize};

use super::property::{Answer, Property};
use super::surroundings::Surroundings;
use super::table::CELLS;
use super::trial_file;
use crate::access::{self, Obstacle};
use crate::control;
use crate::fuse::Findings;
use crate::ledger::{self, EntryHandle, Ledger, Owner};

/// The hidden argument of the process that makes the calls. The directory, the name of the
/// directory that it makes there, and the number of its first question or `server-findings` follow.
pub const PROBE_ARGUMENT: &str = "__probe";

/// The argument for the findings on the FUSE server instead of the questions.
const SERVER: &str = "server-findings";

/// The limit for one answer. A sync on a busy disk may last seconds.
const LIMIT: Duration = Duration::from_secs(15);

/// The limit for the removal of the directory: servers release closed files asynchronously, and
/// keep them under another name until then.
const REMOVAL: Duration = Duration::from_secs(3);

/// The properties of a directory's file system, as a probe found them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DirectoryProbe {
    /// The directory, with links resolved if that was possible.
    pub directory: PathBuf,
    /// The driver of its file system: `ext4`, `fuse.sshfs`. `None` if it is unknown.
    pub driver: Option<String>,
    /// The source of the mount. `None` if it is unknown.
    pub source: Option<PathBuf>,
    /// The properties, in the order of the table.
    pub properties: Vec<Property>,
    /// The reason why properties are missing. `None` if the probe found all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<ProbeFailure>,
}

impl DirectoryProbe {
    /// Returns the failure if calls in the directory do not return.
    pub fn hangs(&self) -> Option<&ProbeFailure> {
        self.failure.as_ref().filter(|failure| failure.hangs)
    }
}

/// The reason why a probe did not find everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFailure {
    /// The reason.
    pub text: String,
    /// The next step for the user. Empty if there is none.
    pub advice: String,
    /// Whether a call did not return, so that other calls in the directory would wait, too.
    pub hangs: bool,
}

impl ProbeFailure {
    fn new(text: String) -> ProbeFailure {
        ProbeFailure {
            text,
            advice: String::new(),
            hangs: false,
        }
    }
}

/// A line that the process writes.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// The directory of the probe is there.
    Ready {
        directory: PathBuf,
        driver: Option<String>,
        source: Option<PathBuf>,
    },
    /// The answer to a question.
    Found(Property),
    /// The calls that follow, while the FUSE server is probed.
    Begins(String),
    /// The findings on the FUSE server.
    Server(Findings),
    /// The process cannot begin.
    Failed(ProbeFailure),
    /// The files of the probe cannot be removed.
    Left(ProbeFailure),
    /// Every question has an answer, and the files are removed.
    Done,
}

/// Probes the file system of a directory. Makes files in a directory of its own in it, and removes
/// them. Returns even if calls there do not.
pub fn probe_directory(directory: &Path) -> DirectoryProbe {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let name = format!(".fsb-probe-{}", random_name());
    let mut found = DirectoryProbe {
        directory: absolute.clone(),
        ..DirectoryProbe::default()
    };
    let mut is_ready = false;
    // One process more than questions: the last one may only have to remove the files.
    for _ in 0..=CELLS.len() {
        let ended = ask(&absolute, &name, &mut found, &mut is_ready);
        let next = CELLS.get(found.properties.len());
        found.failure = match (ended, next) {
            (Ok(Ended::Done), _) => return found,
            (Ok(Ended::Died(status)), Some(cell)) if is_ready => {
                let killed = Answer::no(format!("kills the program ({})", name_of(status)));
                found.properties.push(cell.property(killed));
                continue;
            }
            (Ok(Ended::Died(status)), _) => Some(ProbeFailure::new(format!(
                "the process of the probe ended early: {status}"
            ))),
            (Ok(Ended::Hangs), next) => {
                let call = match next {
                    _ if !is_ready => ENTERING,
                    Some(cell) => cell.label,
                    None => REMOVING,
                };
                Some(hangs(call, is_ready, &name))
            }
            (Err(error), _) => Some(ProbeFailure::new(format!(
                "start the process of the probe: {}",
                errno::describe_io(&error)
            ))),
        };
        break;
    }
    found
}

/// The first and the last calls of the process, which belong to no question.
const ENTERING: &str = "entering the directory";
const REMOVING: &str = "removing the files";

/// Returns the failure of a call that does not return. `name` is the directory of the probe, which
/// is there if the process `is_ready`.
fn hangs(call: &str, is_ready: bool, name: &str) -> ProbeFailure {
    let advice = "the file system hangs: end its server, or unmount it (umount --lazy)";
    let left = format!(", and remove {name} from the directory");
    ProbeFailure {
        text: format!("no answer within {} s: {call}", LIMIT.as_secs()),
        advice: format!("{advice}{}", if is_ready { &left } else { "" }),
        hangs: true,
    }
}

/// The end of a process of the probe.
enum Ended {
    /// It reported its end, or a failure.
    Done,
    /// It ended without a report.
    Died(ExitStatus),
    /// It did not report anything in time.
    Hangs,
}

/// Probes the FUSE server that holds a directory, as the first target of a run would be probed.
/// Returns even if calls there do not. The undo ledger knows the directory of the probe before it
/// is made, so that nothing is left if both processes are killed. If the ledger cannot be written,
/// `notes` gets a note instead.
pub(crate) fn probe_server(directory: &Path, notes: &mut Vec<String>) -> Findings {
    let entry = ledger_entry(directory);
    let name = match &entry {
        Ok((_, name, _)) => name.clone(),
        Err(why) => {
            notes.push(format!(
                "the FUSE server is probed without an entry in the undo ledger: {why}"
            ));
            format!("{}{}", ledger::DIRECTORY_PREFIX, random_name())
        }
    };
    let is_recorded = entry.is_ok();
    let found = match server_findings(directory, &name, is_recorded) {
        // The removal would not return either. The entry stays for 'fsb clean'.
        Err(Unfound::Hangs(reason)) => return Findings::unknown(&reason),
        Err(Unfound::Ended(reason)) => Findings::unknown(&reason),
        Ok(findings) => findings,
    };
    // The process has removed its directory, unless it was killed.
    match entry.map(|(ledger, _, handle)| ledger.undo(handle)) {
        Ok(Err(error)) => Findings::unknown(&error.to_string()),
        Ok(Ok(_)) | Err(_) => found,
    }
}

/// Records the directory of a probe before it is made. Returns the ledger, the name and the entry.
fn ledger_entry(directory: &Path) -> Result<(Ledger, String, EntryHandle), Refusal> {
    let place = ledger::default_directory()?;
    let ledger = Ledger::open(&place, Owner::current(), control::RULES)?;
    let uid = rustix::process::geteuid().as_raw();
    let (path, handle) = ledger.record_directory(directory, uid)?;
    let name = path.file_name().unwrap_or_default();
    Ok((ledger, name.to_string_lossy().into_owned(), handle))
}

/// The reason why nothing was found out about a server.
enum Unfound {
    /// A call did not return.
    Hangs(String),
    /// The process failed or was killed.
    Ended(String),
}

/// Probes the server in a directory with that name. `is_recorded` is whether the undo ledger knows
/// it.
fn server_findings(directory: &Path, name: &str, is_recorded: bool) -> Result<Findings, Unfound> {
    let (mut findings, mut failure) = (None, None);
    let mut calls = ENTERING.to_owned();
    let ended = converse(
        directory,
        name.as_ref(),
        SERVER,
        &mut |report| match report {
            Report::Begins(next) => calls = next,
            Report::Server(found) => {
                findings = Some(found);
                REMOVING.clone_into(&mut calls);
            }
            Report::Failed(found) | Report::Left(found) => failure = Some(found.text),
            Report::Ready { .. } | Report::Found(_) | Report::Done => {}
        },
    );
    let left = match is_recorded {
        true => format!("{name} may stay in the directory until 'fsb clean'"),
        false => format!("remove {name} from the directory if it is there"),
    };
    let ended = match ended {
        Ok(Ended::Hangs) => {
            let text = hangs(&calls, true, name).text;
            return Err(Unfound::Hangs(format!("{text}; {left}")));
        }
        Ok(Ended::Done) => "the probe found no FUSE server".to_owned(),
        Ok(Ended::Died(status)) => {
            format!("the process of the probe ended early: {status}; {left}")
        }
        Err(error) => format!(
            "start the process of the probe: {}",
            errno::describe_io(&error)
        ),
    };
    match (findings, failure) {
        (_, Some(failure)) => Err(Unfound::Ended(failure)),
        (Some(findings), None) => Ok(findings),
        (None, None) => Err(Unfound::Ended(ended)),
    }
}

/// Starts a process for the questions that are open, and adds its answers.
fn ask(
    directory: &Path,
    name: &str,
    found: &mut DirectoryProbe,
    is_ready: &mut bool,
) -> io::Result<Ended> {
    let first = found.properties.len().to_string();
    converse(
        directory,
        name.as_ref(),
        &first,
        &mut |report| match report {
            Report::Ready {
                directory,
                driver,
                source,
            } => {
                (found.directory, found.driver, found.source) = (directory, driver, source);
                *is_ready = true;
            }
            Report::Found(property) => found.properties.push(property),
            Report::Failed(failure) | Report::Left(failure) => found.failure = Some(failure),
            Report::Begins(_) | Report::Server(_) | Report::Done => {}
        },
    )
}

/// Starts a process of the probe, and hands its reports over as they arrive. `task` is its last
/// argument.
fn converse(
    directory: &Path,
    name: &OsStr,
    task: &str,
    hand_over: &mut dyn FnMut(Report),
) -> io::Result<Ended> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(PROBE_ARGUMENT)
        .arg(directory)
        .arg(name)
        .arg(task);
    if let Some(own) = std::env::args_os().next() {
        command.arg0(own);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null());
    // If this process is killed, the child cannot write its answers, and removes its files.
    process::detach(&mut command);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let reports = reports(&mut child)?;
    loop {
        let report = match reports.recv_timeout(LIMIT) {
            Ok(report) => report,
            Err(RecvTimeoutError::Timeout) => {
                // It may never end. Nothing waits for it.
                let _ = child.kill();
                return Ok(Ended::Hangs);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Died(child.wait()?)),
        };
        if let Report::Done = report {
            child.wait()?;
            return Ok(Ended::Done);
        }
        hand_over(report);
    }
}

/// Returns the reports of the child as they arrive.
fn reports(child: &mut Child) -> io::Result<Receiver<Report>> {
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (sender, receiver) = channel();
    std::thread::Builder::new().spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines
            .filter_map(|line| serde_json::from_str(&line).ok())
            .all(|report| sender.send(report).is_ok());
    })?;
    Ok(receiver)
}

fn name_of(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGBUS) => "SIGBUS".to_owned(),
        Some(libc::SIGSEGV) => "SIGSEGV".to_owned(),
        _ => status.to_string(),
    }
}

/// Runs the process of the probe: makes the calls and writes the answers to standard output.
/// Returns its exit code.
pub fn probe_main(arguments: &[OsString]) -> i32 {
    process::close_inherited();
    // The name that process listings show. It would be `exe` otherwise.
    let _ = rustix::thread::set_name(c"fsb-probe");
    // A cell that gets SIGBUS leaves no core file in the directory.
    let no_core = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, no_core);
    let [directory, name, first] = arguments else {
        return 2;
    };
    // `None`: the findings on the server.
    let first: Option<usize> = match first.to_str() {
        Some(SERVER) => None,
        Some(text) if text.parse::<usize>().is_ok() => text.parse().ok(),
        _ => return 2,
    };
    let is_first = first.is_none_or(|first| first == 0);
    let written = match Trial::begin(Path::new(directory), Path::new(name), is_first) {
        Ok(trial) => trial.answer(first),
        Err(failure) => write(&Report::Failed(failure)).and_then(|()| write(&Report::Done)),
    };
    i32::from(written.is_err())
}

/// Writes a report. Fails if the parent has ended.
fn write(report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

/// The directory of the probe, which is the working directory of this process.
struct Trial {
    /// The probed directory, and its path.
    parent: (OwnedFd, PathBuf),
    name: PathBuf,
    mode: u32,
}

impl Trial {
    /// Makes the directory, or enters the one that an earlier process made.
    fn begin(directory: &Path, name: &Path, is_first: bool) -> Result<Trial, ProbeFailure> {
        let failed = |call: &str, error: Errno| failure(directory, call, error);
        let path = directory.canonicalize().map_err(|error| {
            failed("resolve", Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = open(&path, flags, Mode::empty()).map_err(|errno| failed("open", errno))?;
        if is_first {
            mkdirat(&parent, name, Mode::RWXU)
                .map_err(|errno| failed("make a directory in", errno))?;
        }
        let entered = openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())
            .and_then(|own| fchdir(&own).and_then(|()| fstat(&own)));
        match entered {
            Ok(stat) => Ok(Trial {
                parent: (parent, path),
                name: name.to_owned(),
                mode: stat.st_mode,
            }),
            Err(errno) => {
                let _ = unlinkat(&parent, name, AtFlags::REMOVEDIR);
                Err(failed("enter a new directory in", errno))
            }
        }
    }

    /// Answers the questions from the given one on, or finds what the server does, and removes the
    /// directory.
    fn answer(self, first: Option<usize>) -> io::Result<()> {
        let written = self.answers(first);
        let left = self.remove();
        written?;
        if let Err(errno) = left {
            let path = self.parent.1.join(&self.name);
            write(&Report::Left(failure(&path, "remove", errno)))?;
        }
        write(&Report::Done)
    }

    fn answers(&self, first: Option<usize>) -> io::Result<()> {
        let surroundings = Surroundings::new(&self.parent.1, self.mode);
        let mount = surroundings.mount.as_ref();
        write(&Report::Ready {
            directory: self.parent.1.clone(),
            driver: mount.map(|mount| mount.kind.clone()),
            source: mount.map(|mount| mount.source.clone()),
        })?;
        let Some(first) = first else {
            let mut written = Ok(());
            let findings = surroundings.probe_server(&mut |calls| {
                if written.is_ok() {
                    written = write(&Report::Begins(calls.to_owned()));
                }
            });
            written?;
            return findings.map_or(Ok(()), |found| write(&Report::Server(found)));
        };
        for (index, cell) in CELLS.iter().enumerate().skip(first) {
            trial_file::begin_cell(index);
            write(&Report::Found(cell.find(&surroundings)))?;
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Errno> {
        trial_file::remove_all(CELLS.len());
        let _ = rustix::process::chdir("/");
        let mut result = Ok(());
        poll_until(REMOVAL, || {
            result = unlinkat(&self.parent.0, &self.name, AtFlags::REMOVEDIR);
            !matches!(result, Err(Errno::NOTEMPTY | Errno::BUSY))
        });
        result
    }
}

/// Returns why a call on a path failed, with the next step.
fn failure(path: &Path, call: &str, error: Errno) -> ProbeFailure {
    let error = io::Error::from(error);
    let failed = attempt(call, path, &error);
    let (text, advice) = match (access::obstacle(path, &error), error.kind()) {
        (Some(Obstacle { why, advice }), _) => (format!("{failed}: {why}"), advice),
        (None, ErrorKind::NotFound | ErrorKind::NotADirectory) => (
            failed.to_string(),
            "name an existing directory with --dir".to_owned(),
        ),
        (None, _) => (
            failed.to_string(),
            "name a directory that you may write to with --dir".to_owned(),
        ),
    };
    ProbeFailure {
        text,
        advice,
        hangs: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_the_call_and_the_next_step() {
        let found = failure(Path::new("/nonexistent"), "resolve", Errno::NOENT);
        assert_eq!(
            found.text,
            "resolve /nonexistent: No such file or directory (ENOENT)"
        );
        assert!(found.advice.contains("--dir"), "{found:?}");
    }

    #[test]
    fn a_call_that_does_not_return_is_named() {
        let found = hangs("direct I/O", true, ".fsb-x");
        assert_eq!(found.text, "no answer within 15 s: direct I/O");
        assert!(found.advice.contains("remove .fsb-x"), "{found:?}");
        assert!(!hangs(ENTERING, false, ".fsb-x").advice.contains(".fsb-x"));
    }

    #[test]
    fn reports_survive_the_pipe() {
        let property = CELLS[0].property(Answer::refused(Errno::INVAL));
        let line = serde_json::to_string(&Report::Found(property.clone())).unwrap();
        let Report::Found(read) = serde_json::from_str(&line).unwrap() else {
            panic!("{line}");
        };
        assert_eq!(read, property);
        assert_eq!(read.errno.as_deref(), Some("EINVAL"));
        assert!(!read.consequence.is_empty());
    }
}
