//! `fsb run --on HOST`: makes runs on other machines.
//!
//! ```text
//! fsb run --on HOST ──▶ ssh ─┊─▶ sh (start.sh) ──▶ [sudo] fsb __remote ──▶ fsb __remote-run ──▶ supervisor ──▶ …
//!      ▲                     ┊                                                  │
//!      └─────────────────────┊── record and trials (stdout), messages (stderr) ─┘
//! ```
//!
//! The host makes the run as if it were typed there. It stores no results: it sends each trial when
//! it has ended. When the connection ends, however that happens, the fsb of the host ends its run,
//! and the shell that started it removes it.

mod serve;
mod ssh;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use fsb_model::units::show_bytes;
use fsb_model::{Failure, Plan, RunRecord, Trial, code, failure, notice, shell};
use fsb_runner::event::{Event, Observer};
use fsb_runner::plan_file::{self, PlanFile};
use fsb_runner::resume as resuming;
use fsb_runner::schedule::BUDGET;
use fsb_store::owner::{self, holder, result_owner};
use fsb_store::{Claim, Contents, RunDirectory};
use fsb_testbed::privilege::NEEDS_ROOT;
use indicatif::MultiProgress;

use self::serve::{Job, Line, RemoteRequest};
use self::ssh::{Connection, Heard, Session, about, quote};
use crate::all_codes::all_codes;
use crate::exit::{self, Second, Signals};
use crate::message::{Level, Message, notify, say};
use crate::results::{self, Output};
use crate::run::progress::{Progress, Verbosity};
use crate::run::show;
use crate::run::stage::Turn;

pub use serve::{REMOTE_ARGUMENT, REMOTE_RUN_ARGUMENT, run as run_for_other_host, watch};

/// The time between two signs of life. The host ends its run after a minute without one.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The longest wait for the host's shell to find a directory, and for the copied program to start.
const ANSWER: Duration = Duration::from_secs(120);
/// The longest wait for the end of an interrupted run.
const GOODBYE: Duration = Duration::from_secs(30);
/// The longest time after which a signal is noticed.
const POLL: Duration = Duration::from_millis(200);

/// The host of a run, and the rights that it has there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHost {
    /// The name as ssh accepts it.
    pub name: String,
    /// Whether fsb runs there as root, by sudo.
    pub sudo: bool,
}

impl RemoteHost {
    /// Returns the host of `--on`.
    pub fn parse(text: &str, sudo: bool) -> anyhow::Result<RemoteHost> {
        let name = text.trim();
        if name.contains(',') {
            let message = format!("--on {text}: it names more than one host");
            let help = "measure many hosts with 'fsb fleet run PLAN.toml --hosts FILE'";
            return Err(failure::advised(&code::INVALID_VALUE, message, help));
        }
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
            return Err(failure::advised(
                &code::INVALID_VALUE,
                format!("--on {text}: '{name}' is not a host"),
                "write USER@HOST",
            ));
        }
        Ok(RemoteHost {
            name: name.to_owned(),
            sudo,
        })
    }
}

/// Returns the name of a host as that of a directory.
pub fn directory_name(host: &str) -> String {
    host.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !"-_.@".contains(letter),
        "-",
    )
}

/// The options of a run that hosts make.
pub struct RemoteRun<'a> {
    pub host: &'a RemoteHost,
    /// The run directory here.
    pub directory: &'a Path,
    /// The place for a copy of the run directory.
    pub results: Option<&'a Place>,
    /// Where the result of the run goes; `None` to print none.
    pub output: Option<&'a Output>,
    pub verbosity: Verbosity,
    pub turn: Turn,
    /// The progress of other hosts that make runs at the same time, each in a thread of its own.
    pub beside: Option<&'a MultiProgress>,
}

impl RemoteRun<'_> {
    /// Prints above the progress of other hosts.
    fn print(&self, print: impl FnOnce()) {
        match self.beside {
            Some(lines) => lines.suspend(print),
            None => print(),
        }
    }
}

/// Makes a new run of the plan on the host. `file` is the plan as the user wrote it, which the host
/// resolves.
pub fn start(file: &PlanFile, plan: &Plan, run: &RemoteRun<'_>) -> anyhow::Result<u8> {
    fsb_store::check_new(run.directory, &result_owner())?;
    if let Some(results) = run.results {
        results.check(run.directory)?;
    }
    let job = Job::Begin {
        plan: plan_file::write(file)?,
        settings: file.settings.unwritten(),
        verify: file.verify,
    };
    let wipe: Vec<PathBuf> = file
        .settings
        .list("wipe")
        .iter()
        .map(PathBuf::from)
        .collect();
    make(job, plan, &wipe, None, run)
}

/// Resumes an interrupted run on the host that began it.
pub fn resume(wipe: &[PathBuf], run: &RemoteRun<'_>) -> anyhow::Result<u8> {
    let path = run.directory;
    let claim = Claim::take(path, result_owner(), &holder())?;
    let Contents {
        record, mut trials, ..
    } = claim.read()?;
    let made_on = record.on.as_deref().unwrap_or("this machine");
    if run.host.name != made_on {
        let message = format!("{}: the run was made on {made_on}", path.display());
        let help = record.on.as_ref().map_or_else(
            || "leave out --on".to_owned(),
            |host| format!("write --on {host}"),
        );
        return Err(failure::advised(&code::OTHER_HOST, message, help));
    }
    resuming::supersede(&record, &mut trials);
    if resuming::complete(&record, &trials) {
        let message = format!(
            "{}: the run is complete; 'fsb report' shows it",
            path.display()
        );
        return Err(failure::error(&code::RUN_COMPLETE, message));
    }
    let plan = record.plan.clone();
    let job = Job::Resume {
        record: Box::new(record),
        trials: trials.clone(),
    };
    make(job, &plan, wipe, Some((claim, trials)), run)
}

/// Makes the run on the host, after checks of what it can do.
fn make(
    job: Job,
    plan: &Plan,
    wipe: &[PathBuf],
    resumed: Option<(Claim, Vec<Trial>)>,
    run: &RemoteRun<'_>,
) -> anyhow::Result<u8> {
    let Verbosity { quiet, verbose } = run.verbosity;
    let (concurrent, wait) = (run.turn == Turn::Concurrent, run.turn == Turn::Waiting);
    let request = RemoteRequest {
        job,
        wipe: wipe.to_vec(),
        concurrent,
        wait,
        quiet,
        verbose,
    };
    let signals = Signals::catch(Second::Ends)?;
    let connection = {
        /// ssh may prompt, so hosts that make runs at the same time log in one after the other.
        static LOGIN: Mutex<()> = Mutex::new(());
        let _login = LOGIN.lock().unwrap_or_else(PoisonError::into_inner);
        if signals.is_interrupted() {
            return Err(signals.failure("interrupted: nothing was begun"));
        }
        Connection::open(&run.host.name, run.host.sudo)
    };
    if signals.is_interrupted() {
        return Err(signals.failure("interrupted: nothing was begun"));
    }
    let connection = connection?;
    let program = program_for(&connection)?;
    check_targets(&connection, plan)?;
    let session = connection.session(run.host.sudo)?;
    let (claim, trials) =
        resumed.map_or((None, Vec::new()), |(claim, trials)| (Some(claim), trials));
    let mut receiving = Receiving {
        host: &run.host.name,
        session,
        said: Vec::new(),
        failure: None,
        progress: None,
        claim,
        directory: None,
        record: None,
        trials,
        run,
        signals: &signals,
    };
    receiving.start(program, &request)?;
    receiving.follow()
}

/// The program that a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// This program, copied to the host.
    Copy,
    /// The fsb that is installed there.
    Own,
}

/// Returns the program that the host can run.
///
/// # Errors
///
/// If the host cannot run this version of fsb, or not as root.
fn program_for(connection: &Connection) -> anyhow::Result<Program> {
    let facts = &connection.facts;
    let unfit = |message: String, help: &str| {
        Err(about(&code::UNFIT_HOST, &connection.host, &message, help))
    };
    if let Some(why) = &facts.refused_sudo {
        return unfit(
            format!("sudo does not run commands: {why}"),
            "allow it without a password, or log in as root",
        );
    }
    if facts.system != "Linux" {
        return unfit(
            format!("it runs {}", facts.system),
            "fsb measures file systems of Linux",
        );
    }
    if facts.architecture == std::env::consts::ARCH {
        return Ok(Program::Copy);
    }
    let (here, version) = (
        std::env::consts::ARCH,
        concat!("fsb ", env!("CARGO_PKG_VERSION")),
    );
    let (there, own) = (&facts.architecture, &facts.own);
    if own == version {
        return Ok(Program::Own);
    }
    let own = if own.is_empty() {
        "no fsb".to_owned()
    } else {
        own.clone()
    };
    let help = format!("install {version} there, or run it from a machine that is {there}");
    unfit(
        format!("it is {there} with {own} in its PATH, and this is {version} for {here}"),
        &help,
    )
}

/// Checks that the kernel of the host has the file systems of the plan, and the host their mkfs
/// programs. A host that does not list its modules, or lists one that it cannot load, finds it out
/// itself.
fn check_targets(connection: &Connection, plan: &Plan) -> anyhow::Result<()> {
    let Connection { host, facts, .. } = connection;
    let unfit = |message: String, help: &str| Err(about(&code::UNFIT_HOST, host, &message, help));
    if plan.place != fsb_model::Place::Host {
        return Ok(());
    }
    let is_known = |driver: &&str| {
        facts
            .drivers
            .as_ref()
            .is_none_or(|known| known.contains(*driver))
    };
    if let Some(driver) = fsb_testbed::fs::needed_drivers(&plan.targets)
        .into_iter()
        .find(|driver| !is_known(driver))
    {
        let help = "install a kernel that has it, leave its targets out, or add --in vm";
        return unfit(
            format!("its kernel {} has no {driver}", facts.release),
            help,
        );
    }
    if let Some(tools) = fsb_testbed::fs::needed_tools(&plan.targets)
        .find(|tools| !facts.programs.contains(tools.mkfs))
    {
        let help = format!(
            "install the package {} there, or leave its targets out",
            tools.package
        );
        return unfit(
            format!("the program {} is missing there", tools.mkfs),
            &help,
        );
    }
    Ok(())
}

/// A run that a host makes, and its run directory here.
struct Receiving<'a> {
    host: &'a str,
    session: Session,
    /// Lines of other programs on standard error: ssh, the shell and sudo.
    said: Vec<String>,
    /// The error with which fsb ended there.
    failure: Option<Message>,
    progress: Option<Progress>,
    /// The directory of a resumed run, until the host goes on with it.
    claim: Option<Claim>,
    directory: Option<RunDirectory>,
    record: Option<RunRecord>,
    trials: Vec<Trial>,
    run: &'a RemoteRun<'a>,
    signals: &'a Signals,
}

impl Receiving<'_> {
    /// Copies the program, starts it, and sends it the request.
    fn start(&mut self, program: Program, request: &RemoteRequest) -> anyhow::Result<()> {
        let is_sent = match program {
            Program::Copy => self.copy()?,
            Program::Own => self.session.send(b"0\n").is_ok(),
        };
        // If the host reads no further, it says why.
        self.expect("fsb-version")?;
        let line = serde_json::to_string(request)? + "\n";
        if !is_sent || self.session.send(line.as_bytes()).is_err() {
            return Err(self.lost("before the run"));
        }
        Ok(())
    }

    /// Sends the program in chunks, because many hosts at once would each hold one in memory.
    /// Returns whether the host read all of it.
    fn copy(&mut self) -> anyhow::Result<bool> {
        /// Between two chunks a signal can end the copy.
        const CHUNK: usize = 256 << 10;
        let unread = "cannot read the program to copy";
        let mut file = fs::File::open("/proc/self/exe").context(unread)?;
        let size = file.metadata().context(unread)?.len();
        let mut is_sent = self.session.send(format!("{size}\n").as_bytes()).is_ok();
        self.expect("fsb-ready")?;
        if !self.run.verbosity.quiet {
            let text = format!("{}: copying fsb ({})", self.host, show_bytes(size as f64));
            let fields = [("host", self.host.into()), ("bytes", size.into())];
            self.run.print(|| notify(&notice::COPYING, fields, &text));
        }
        let mut chunk = vec![0; CHUNK];
        while is_sent && !self.signals.is_interrupted() {
            match file.read(&mut chunk).context(unread)? {
                0 => return Ok(true),
                count => is_sent = self.session.send(&chunk[..count]).is_ok(),
            }
        }
        Ok(false)
    }

    /// Waits for a line of the shell that begins with a word.
    fn expect(&mut self, word: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            if self.signals.is_interrupted() {
                return Err(self.signals.failure("interrupted: nothing was begun"));
            }
            match self.session.hear(POLL) {
                Ok(Some(Heard::Line(line))) => match line.strip_prefix("fsb-refused ") {
                    Some(why) => return Err(refused(self.host, why)),
                    None if line.starts_with(word) => return Ok(()),
                    None => {}
                },
                Ok(Some(Heard::Message(line))) => self.keep(line),
                Ok(None) => return Err(self.lost("before the run")),
                Err(_) if started.elapsed() < ANSWER => {}
                Err(_) => {
                    let message = format!("it did not answer within {} s", ANSWER.as_secs());
                    return Err(about(
                        &code::LOST_HOST,
                        self.host,
                        &message,
                        "a mount there may hang: run df there",
                    ));
                }
            }
        }
    }

    /// Stores the run until the host ends it, and prints its result.
    fn follow(&mut self) -> anyhow::Result<u8> {
        let mut interrupted: Option<Instant> = None;
        let mut beaten = Instant::now();
        let error = loop {
            if self.signals.is_interrupted() && interrupted.is_none() {
                interrupted = Some(Instant::now());
                // The host ends the run, as after Ctrl-C there.
                self.session.finish_input();
            }
            if interrupted.is_none() && beaten.elapsed() > HEARTBEAT {
                beaten = Instant::now();
                // If the connection has ended, so has the session.
                let _ = self.session.send(b"\n");
            }
            match self.session.hear(POLL) {
                Ok(Some(Heard::Line(line))) => {
                    if let Err(error) = self.store(&line) {
                        break Some(error);
                    }
                }
                Ok(Some(Heard::Message(line))) => self.report(line),
                Ok(None) => break None,
                Err(_) if interrupted.is_some_and(|since| since.elapsed() > GOODBYE) => {
                    let message = format!(
                        "interrupted; {}: the run has not ended after {} s, and may still run: look for fsb there with ps",
                        self.host,
                        GOODBYE.as_secs()
                    );
                    break Some(self.signals.failure(&message));
                }
                Err(_) => {}
            }
        };
        self.finish(error)
    }

    /// Stores a line of the run.
    fn store(&mut self, line: &str) -> anyhow::Result<()> {
        // A line without its end was cut off with the connection.
        let Some(line) = line.strip_suffix('\n') else {
            return Ok(());
        };
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| {
            about(
                &code::FAILED_HOST,
                self.host,
                &format!("its fsb sent an unknown line: {error}"),
                "report this error",
            )
        })?;
        match line {
            Line::Record(record) => {
                let record = RunRecord {
                    on: Some(self.host.to_owned()),
                    ..record.into_owned()
                };
                match &mut self.directory {
                    Some(directory) => directory.write_record(&record)?,
                    None => {
                        self.directory = Some(self.open(&record)?);
                        let verbosity = Verbosity {
                            verbose: false,
                            ..self.run.verbosity
                        };
                        let beside = self.run.beside.map(|lines| (self.host, lines));
                        self.progress = Some(Progress::on_host(
                            &record.plan.targets,
                            false,
                            verbosity,
                            beside,
                        ));
                    }
                }
                self.record = Some(record);
            }
            Line::Trial(trial) => {
                let trial = trial.into_owned();
                if let Some(directory) = &mut self.directory {
                    directory.append(&trial)?;
                }
                let is_new_block = self
                    .trials
                    .last()
                    .is_some_and(|last| last.block != trial.block);
                if let (true, Some(record), Some(progress)) =
                    (is_new_block, &self.record, &mut self.progress)
                {
                    progress.event(&Event::Block {
                        record,
                        trials: &self.trials,
                    });
                }
                self.trials.push(trial);
            }
            Line::Trials(trials) => {
                if let Some(directory) = &mut self.directory {
                    directory.rewrite_trials(&trials)?;
                }
                self.trials = trials.into_owned();
            }
            Line::Row {
                block,
                workload,
                rounds,
            } => self.show(&Event::Case {
                block,
                workload: &workload,
                rounds,
            }),
            Line::Begin { target, workload } => self.show(&Event::Trial {
                target: &target,
                workload: &workload,
            }),
        }
        Ok(())
    }

    /// Opens the run directory when the run has begun.
    fn open(&mut self, record: &RunRecord) -> anyhow::Result<RunDirectory> {
        let Some(claim) = self.claim.take() else {
            let path = self.run.directory;
            return Ok(RunDirectory::create(
                path,
                record,
                result_owner(),
                &holder(),
            )?);
        };
        let mut directory = RunDirectory::resume(claim)?.0;
        directory.rewrite_trials(&self.trials)?;
        directory.write_record(record)?;
        Ok(directory)
    }

    fn show(&mut self, event: &Event<'_>) {
        if let Some(progress) = &mut self.progress {
            progress.event(event);
        }
    }

    /// Prints a message of the fsb there. Keeps its error, and lines of other programs.
    fn report(&mut self, line: String) {
        match serde_json::from_str::<Message>(&line) {
            Ok(message) if message.level == Level::Error => self.failure = Some(message),
            Ok(mut message) => {
                message.fields.insert("host".to_owned(), self.host.into());
                if self.run.beside.is_some() {
                    message.message = format!("{}: {}", self.host, message.message);
                }
                match &self.progress {
                    Some(progress) => progress.relay(&message),
                    None => self.run.print(|| message.relay(&say)),
                }
            }
            Err(_) => self.keep(line),
        }
    }

    fn keep(&mut self, line: String) {
        /// A message quotes fewer.
        const MOST: usize = 20;
        self.said.push(line);
        self.said.drain(..self.said.len().saturating_sub(MOST));
    }

    /// Prints the result of a complete run, or ends with the trials so far.
    fn finish(&mut self, error: Option<anyhow::Error>) -> anyhow::Result<u8> {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
        let status = self.session.status();
        let (directory, record) = (self.directory.take(), self.record.take());
        let is_complete = record
            .as_ref()
            .is_some_and(|record| record.stop_reason.is_some());
        let ended_well = is_complete
            && self.failure.is_none()
            && matches!(status, None | Some(exit::DONE | exit::TRIALS));
        let error = match error {
            None if ended_well => None,
            None => Some(self.reason(status)),
            error => error,
        };
        match (directory, record, error) {
            (Some(directory), Some(record), None) => {
                let code = match self.run.output {
                    Some(output) => show::show(&directory, &record, &self.trials, output)?,
                    None => {
                        results::write_report(&directory, &record, &self.trials)?;
                        results::code(&self.trials)
                    }
                };
                self.run
                    .results
                    .map_or(Ok(()), |results| results.copy(directory.path()))?;
                Ok(code)
            }
            (Some(mut directory), _, Some(error)) => {
                let sudo = if self.run.host.sudo { " --sudo" } else { "" };
                let resume = format!(" --on {}{sudo}", shell::word(self.host));
                // Another run with the same budget would fit as little.
                let goes_on = exit::error_code(&error).name != BUDGET.name;
                let kept = show::keep_partial(
                    &mut directory,
                    Vec::new(),
                    goes_on.then_some(resume.as_str()),
                );
                Err(exit::wrapping(&error, format!("{error:#}{kept}")).into())
            }
            (_, _, error) => Err(error.unwrap_or_else(|| self.lost("before the run"))),
        }
    }

    /// Returns the reason why the run ended early.
    fn reason(&mut self, status: Option<u8>) -> anyhow::Error {
        if self.signals.is_interrupted() {
            return self
                .signals
                .failure(&format!("interrupted; {} has ended the run", self.host));
        }
        let Some(message) = self.failure.take() else {
            return self.lost("during the run");
        };
        let known = all_codes().find(|known| message.code.as_deref() == Some(known.name));
        let code = known.unwrap_or(&code::FAILED_HOST);
        if code.name == fsb_model::error::NEEDS_ROOT.name {
            let name = self.host.rsplit('@').next().unwrap_or(self.host);
            return about(
                code,
                self.host,
                NEEDS_ROOT,
                &format!("add --sudo, or log in as root: --on root@{name}"),
            );
        }
        let text = std::iter::once(&message.message).chain(&message.cause);
        let text: Vec<&str> = text.map(String::as_str).collect();
        let mut fields = message.fields;
        fields.insert("host".to_owned(), self.host.into());
        let message_here = format!("{}: {}", self.host, text.join(": "));
        Failure {
            exit: status.unwrap_or(code.exit),
            fields,
            help: message.help,
            ..Failure::new(code, message_here)
        }
        .into()
    }

    /// Returns the error of a session that ended without one of fsb.
    fn lost(&mut self, when: &str) -> anyhow::Error {
        while let Ok(Some(heard)) = self.session.hear(POLL) {
            match heard {
                Heard::Line(line) if line.starts_with("fsb-refused ") => {
                    return refused(self.host, line.trim_start_matches("fsb-refused "));
                }
                Heard::Message(line) => self.keep(line),
                Heard::Line(_) => {}
            }
        }
        let said = quote(self.said.iter().map(String::as_str));
        let said = if said.is_empty() {
            said
        } else {
            format!(": {said}")
        };
        match self.session.status() {
            None => {
                let help = "log in again; fsb there has ended the run, undone its changes and removed itself, or does so \
                            within two minutes";
                about(
                    &code::LOST_HOST,
                    self.host,
                    &format!("the connection ended {when}{said}"),
                    help,
                )
            }
            Some(status) => {
                let message = format!("fsb ended there {when} with exit code {status}{said}");
                about(
                    &code::FAILED_HOST,
                    self.host,
                    &message,
                    "look at the kernel's log there",
                )
            }
        }
    }
}

/// Returns the error of a host that cannot store or run the program, from the kind of the reason
/// and its text.
fn refused(host: &str, line: &str) -> anyhow::Error {
    let (kind, why) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let help = match kind {
        "space" => "make room there, or set TMPDIR there to another directory",
        "library" => "copy a static fsb (make dist), which needs no library of the host",
        _ => "set TMPDIR there to a directory in which the user may run programs",
    };
    about(&code::UNFIT_HOST, host, why, help)
}

// `--results`: copies run directories to another place after the run.

/// A place for copies of run directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A destination of rsync.
    Rsync(String),
}

impl Place {
    /// Parses `DIR` or `rsync:DESTINATION`.
    ///
    /// # Errors
    ///
    /// If the destination is empty, would be read as an option, or rsync is not installed.
    pub fn parse(text: &str) -> anyhow::Result<Place> {
        let Some(destination) = text.strip_prefix("rsync:") else {
            return Ok(Place::Directory(text.into()));
        };
        if destination.is_empty() || destination.starts_with('-') {
            let message = format!("--results {text}: rsync has no destination");
            return Err(failure::advised(
                &code::INVALID_VALUE,
                message,
                "write --results rsync:HOST:DIR",
            ));
        }
        let version = Command::new("rsync")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !version.is_ok_and(|status| status.success()) {
            return Err(failure::advised(
                &code::UNABLE,
                "--results: rsync does not run",
                "install the package rsync",
            ));
        }
        Ok(Place::Rsync(destination.to_owned()))
    }

    /// Checks, before the run, that the copy of a run directory would be new.
    pub fn check(&self, run: &Path) -> anyhow::Result<()> {
        match self {
            Place::Directory(parent) => Ok(fsb_store::check_new(
                &parent.join(name(run)?),
                &result_owner(),
            )?),
            Place::Rsync(_) => Ok(()),
        }
    }

    /// Copies a run directory. The copy has the name of the directory.
    pub fn copy(&self, run: &Path) -> anyhow::Result<()> {
        let copied = match self {
            Place::Directory(parent) => copy_files(run, &parent.join(name(run)?)),
            Place::Rsync(destination) => rsync(run, destination),
        };
        copied.map_err(|error| {
            let message = format!(
                "the results are in {} and were not copied: {error:#}",
                run.display()
            );
            let fields = fsb_model::code::fields([("path", run.display().to_string().into())]);
            let help = "copy the directory yourself";
            let text = format!("{message}; {help}");
            Failure {
                fields,
                help: Some(help.to_owned()),
                ..Failure::new(&code::RESULTS_NOT_COPIED, text)
            }
            .into()
        })
    }
}

fn name(run: &Path) -> anyhow::Result<&std::ffi::OsStr> {
    let missing = || {
        failure::error(
            &code::INVALID_VALUE,
            format!("{} has no name to copy it to", run.display()),
        )
    };
    run.file_name().ok_or_else(missing)
}

fn copy_files(run: &Path, to: &Path) -> anyhow::Result<()> {
    result_owner()
        .act(|| fs::create_dir_all(to))
        .flatten()
        .with_context(|| format!("make {}", to.display()))?;
    for entry in fs::read_dir(run)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name() != ".lock" {
            owner::replace(&to.join(entry.file_name()), &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn rsync(run: &Path, destination: &str) -> anyhow::Result<()> {
    // Without the trailing slash that would copy the contents alone. A relative name with a colon
    // is not a host.
    let source = std::path::absolute(run)?;
    let mut command = Command::new("rsync");
    command
        .args(["-a", "--exclude=.lock", "--"])
        .arg(source)
        .arg(destination);
    let output = command.stdin(Stdio::null()).output().context("run rsync")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "rsync: {}", quote(said.lines()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_of_rsync_is_not_an_option() {
        assert_eq!(
            Place::parse("/srv/results").unwrap(),
            Place::Directory("/srv/results".into())
        );
        for text in ["rsync:", "rsync:--rsh=sh"] {
            let error = Place::parse(text).unwrap_err();
            assert_eq!(exit::error_code(&error).name, code::INVALID_VALUE.name);
        }
    }
}
