//! The half of a run on another host that runs there. `fsb __remote` reads a request, starts the
//! run as its child, and ends it when the connection has ended. The child writes the record and the
//! trials as lines.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fsb_model::error::Tried;
use fsb_model::{RunRecord, Settings, Trial, code, failure};
use fsb_runner::event::{Event, Journal, Observer};
use fsb_runner::plan_file::{self, PlanFile};
use fsb_store::Contents;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::run::coordinator::{self, Begun};
use crate::run::progress::{Progress, Verbosity};
use crate::run::stage::Turn;
use crate::{exit, message};

/// The first line that the host reads. After it, each line break shows that the connection lives.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoteRequest {
    /// The run to make.
    pub job: Job,
    /// Devices that the user permits to overwrite.
    pub wipe: Vec<PathBuf>,
    /// Whether to measure beside another run of the host.
    pub concurrent: bool,
    /// Whether the run waits until no other fsb measures.
    #[serde(default)]
    pub wait: bool,
    pub quiet: bool,
    pub verbose: bool,
}

/// The run that the host makes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// A new run of a plan file, with the parts of a plan that only a command line sets.
    Begin {
        plan: String,
        settings: Settings,
        verify: bool,
    },
    /// The rest of an interrupted run.
    Resume {
        record: Box<RunRecord>,
        trials: Vec<Trial>,
    },
}

/// A line that the host writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<'a> {
    /// The record of the run, which replaces the one before.
    Record(Box<Cow<'a, RunRecord>>),
    /// A trial that ended.
    Trial(Box<Cow<'a, Trial>>),
    /// All trials so far, which replace those before.
    Trials(Cow<'a, [Trial]>),
    /// A cell begins on all targets.
    Row {
        block: u32,
        workload: Cow<'a, str>,
        rounds: u32,
    },
    /// A sequential trial begins.
    Begin {
        target: Cow<'a, str>,
        workload: Cow<'a, str>,
    },
}

/// The argument that makes the binary the watcher of a run.
pub const REMOTE_ARGUMENT: &str = "__remote";
/// The argument that makes the binary the coordinator of the run.
pub const REMOTE_RUN_ARGUMENT: &str = "__remote-run";

/// Seconds of silence after which the connection counts as lost. The other half sends a line every
/// few seconds.
const SILENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// The time that a run has to end by itself after the connection was lost.
const GRACE: Duration = Duration::from_secs(15);
/// The time that the kernel has to end it then. A process whose call does not return ends later.
const LAST: Duration = Duration::from_secs(5);
/// The longest request in bytes.
const LONGEST: usize = 256 << 20;

/// Starts a run and watches it. Returns its exit code.
pub fn watch() -> anyhow::Result<u8> {
    choose_format()?;
    let request = receive()?;
    let mut child = Command::new("/proc/self/exe")
        .arg(REMOTE_RUN_ARGUMENT)
        .stdin(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_child(&child);
    std::thread::Builder::new()
        .name("connection".to_owned())
        .spawn(move || end_with_connection(pid))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A run that has ended already does not read it.
        let _ = stdin.write_all(&request);
    }
    let status = child.wait()?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(u8::try_from(code).unwrap_or(exit::MACHINE))
}

/// Makes messages JSON, whatever the environment of the host chooses.
fn choose_format() -> anyhow::Result<()> {
    message::choose(&["--message-format=json".into()])
        .map_err(|why| failure::error(&code::INVALID_VALUE, why))
}

/// Makes the run. Messages go to standard error, the record and the trials to standard output.
pub fn run() -> anyhow::Result<u8> {
    choose_format()?;
    // Without its watcher nothing would end the run.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let mut request = Vec::new();
    io::stdin().read_to_end(&mut request)?;
    let request: RemoteRequest = serde_json::from_slice(&request).map_err(|error| {
        failure::error(
            &code::FAILED_HOST,
            format!("the request cannot be read: {error}"),
        )
    })?;
    let begun = match request.job {
        Job::Begin {
            plan,
            settings,
            verify,
        } => {
            let file = plan_file::parse(&plan, "the plan")?;
            begin(PlanFile {
                settings: settings.over(file.settings),
                verify,
                ..file
            })?
        }
        Job::Resume { record, trials } => {
            let contents = Contents {
                record: *record,
                trials,
                warnings: Vec::new(),
            };
            let (begun, again) =
                coordinator::begin_again(contents, Path::new("the run"), &request.wipe)?;
            if !request.quiet {
                coordinator::say_retried(again);
            }
            begun
        }
    };
    let verbosity = Verbosity {
        quiet: request.quiet,
        verbose: request.verbose,
    };
    let progress = Progress::new(&begun.0.plan.targets, false, verbosity);
    let turn = Turn::of_run(request.concurrent, request.wait);
    coordinator::perform_streamed(begun, &mut Stream, &mut Reporter(progress), turn)
}

/// Returns the new run of a plan.
fn begin(file: PlanFile) -> anyhow::Result<Begun> {
    #[cfg(feature = "vm")]
    crate::run::kernels::unpack(&file)?;
    let cpus = coordinator::cpus_for(&file.controls);
    let mut resolved = file.resolve(cpus, coordinator::fresh_seed())?;
    fsb_runner::vm::pin(&mut resolved.plan)?;
    coordinator::begin(resolved)
}

/// Reads the request, up to its line break.
fn receive() -> anyhow::Result<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 64 << 10]);
    while let Some(count) = hear(&mut buffer).filter(|_| request.len() < LONGEST) {
        request.extend_from_slice(&buffer[..count]);
        if request.ends_with(b"\n") {
            return Ok(request);
        }
    }
    Err(failure::error(
        &code::LOST_HOST,
        "the connection ended before the request",
    ))
}

/// Waits for bytes of the other half. Returns `None` if the connection has ended or was silent for
/// too long.
fn hear(buffer: &mut [u8]) -> Option<usize> {
    let stdin = io::stdin();
    loop {
        let heard = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&SILENCE));
        let count = heard.and_then(|ready| {
            if ready == 0 {
                Ok(0)
            } else {
                rustix::io::read(&stdin, &mut *buffer)
            }
        });
        match count {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return None,
            Ok(count) => return Some(count),
        }
    }
}

/// Ends the run when the connection has ended: first like Ctrl-C, then by force. The kernel and the
/// run's own watcher undo the rest.
fn end_with_connection(run: Pid) {
    let mut buffer = [0; 512];
    while hear(&mut buffer).is_some() {}
    let _ = kill_process(run, Signal::TERM);
    std::thread::sleep(GRACE);
    let _ = kill_process(run, Signal::KILL);
    std::thread::sleep(LAST);
    // The shell removes the program now, although a call of the kernel still holds the process.
    std::process::exit(i32::from(exit::MACHINE));
}

/// The journal of the run: the other half stores it.
struct Stream;

impl Journal for Stream {
    fn record(&mut self, record: &RunRecord) -> Result<(), Tried> {
        send(&Line::Record(Box::new(Cow::Borrowed(record))))
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), Tried> {
        send(&Line::Trial(Box::new(Cow::Borrowed(trial))))
    }

    fn rewrite(&mut self, trials: &[Trial]) -> Result<(), Tried> {
        send(&Line::Trials(Cow::Borrowed(trials)))
    }
}

fn send(line: &Line<'_>) -> Result<(), Tried> {
    let mut text = serde_json::to_vec(line).map_err(|error| error.to_string())?;
    text.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&text)
        .and_then(|()| stdout.flush())
        .map_err(|error| Tried::call("cannot send results", &error))
}

/// Prints the events of the run, and sends those that move the other half's progress.
struct Reporter(Progress);

impl Observer for Reporter {
    fn event(&mut self, event: &Event<'_>) {
        let line = match event {
            Event::Case {
                block,
                workload,
                rounds,
            } => Line::Row {
                block: *block,
                workload: Cow::Borrowed(workload),
                rounds: *rounds,
            },
            Event::Trial { target, workload } => Line::Begin {
                target: Cow::Borrowed(target),
                workload: Cow::Borrowed(workload),
            },
            _ => return self.0.event(event),
        };
        // A lost connection fails the next trial.
        let _ = send(&line);
        self.0.event(event);
    }
}
