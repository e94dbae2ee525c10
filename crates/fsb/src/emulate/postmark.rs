//! `fsb postmark`: PostMark's command language, operations and text, on our engine.
//!
//! `fsb-compat` defines the meaning of the commands, the operations that follow from them, and the
//! printed text; the engine makes the calls on files. This module joins both. It checks a whole
//! file of commands before anything is changed, and each run again right before it starts. It
//! removes the files of a run however the run ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use fsb_compat::postmark::print::{self, PostmarkOutcome};
use fsb_compat::postmark::{self, Command, LANGUAGE_NEXT, Location, Settings, pool, source};
use fsb_compat::{identify, identify_file};
use fsb_engine::postmark::{Ended, Moment, RunOptions, Times};
use fsb_engine::workload;
use fsb_engine::{EngineError, Measurement, Sizing};
use fsb_model::metric::{
    CREATE_RATE, DELETE_ALONE_RATE, DELETE_RATE, OPERATION_RATE, READ_RATE, WRITE_RATE,
};
use fsb_model::postmark::{Act, Operation, Shape, Tally};
use fsb_model::trial::{NO_FILES, Reason};
use fsb_model::{Failure, Params, WorkloadSpec, code, failure, notice};
use fsb_report::show::counted;
use fsb_runner::worker::{Requester, Work, Worker, WorkerError, WorkerLimits};
use fsb_store::input::LARGEST_SCRIPT;
use fsb_store::owner::{self, Rights};
use fsb_testbed::access::{self, Obstacle};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Access;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::emulate::run_directory::{self, Execution, Recording, Values};
use crate::exit::{self, Second, Signals};
use crate::message::{notify, say};
use crate::run::space::{FreeSpace, Need};
use crate::run::stage::{Turn, warn_of_concurrent};
use crate::{results, wrong_kind};

const EXAMPLES: &str = "\
Examples:
  fsb postmark                            commands from standard input
  fsb postmark mail.pm                    commands from a file
  printf 'set location /srv/data\\nrun\\n' | fsb postmark > a.txt
  fsb compare a.txt b.txt                 compare with PostMark";

/// Simulate a mail server with PostMark's commands and report
///
/// Reads PostMark's commands from FILE, or else from .pmrc if it exists, and then from standard
/// input, one per line. Files: set size LOW HIGH, set number N, set subdirectories N, set location
/// [+-]DIR [WEIGHT]. Work: set seed N, set transactions N, set read BYTES, set write BYTES, set
/// buffering true|false, set bias read -1..10, set bias create -1..10 (-1 for neither). Control:
/// set report verbose|terse, show, run [FILE], load FILE, quit.
///
/// With the same seed, fsb repeats the operations of PostMark 1.53 file by file. It makes files in
/// the locations and removes them when a run ends. It refuses names that exist.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "fsb postmark [OPTIONS] [FILE]")]
pub struct Arguments {
    /// File of commands [default: .pmrc, if it exists]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Compare the data read with the data written; contents differ from PostMark's
    #[arg(long)]
    verify: bool,
    /// Keep the runs in a new directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run although another fsb measures; both results are affected
    #[arg(long)]
    allow_concurrent: bool,
}

/// The file that is read first if the command line names none, as PostMark does.
const USUAL_FILE: &str = ".pmrc";

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let file = arguments
        .file
        .clone()
        .or_else(|| Some(PathBuf::from(USUAL_FILE)).filter(|path| path.is_file()));
    let script = file.map(|path| read_script(&path)).transpose()?;
    let mut session = PostmarkSession::new(arguments.verify, Turn::new(arguments.allow_concurrent));
    if let Some(script) = &script {
        session.check(script)?;
    }
    run_directory::check(arguments.out.as_deref())?;
    session.recording = Recording::create(arguments.out.as_deref(), "postmark", "PostMark")?;
    if session.recording.is_some() {
        // A signal between two runs must not end the program before the directory is finished.
        session.signals = Some(Signals::catch(Second::Waits)?);
    }
    let ended = session.perform_all(script);
    if let Some(recording) = session.recording.take() {
        recording.finish(ended.is_ok(), &results::kept_output())?;
    }
    ended.map(|()| session.code())
}

// Executes commands line by line, from files and from standard input.

/// The nesting limit of command files; a deeper one includes itself.
const DEEPEST: usize = 16;

/// State that lasts from line to line.
struct PostmarkSession {
    settings: Settings,
    /// Whether the data read is compared with the data written.
    verify: bool,
    turn: Turn,
    /// Whether a run did not finish.
    failed: bool,
    /// Runs that finished.
    finished: usize,
    /// The run directory, if there is one.
    recording: Option<Recording>,
    /// Signals that are also caught between runs, for the run directory.
    signals: Option<Signals>,
}

impl PostmarkSession {
    /// Returns a session with PostMark's initial settings.
    fn new(verify: bool, turn: Turn) -> PostmarkSession {
        PostmarkSession {
            settings: Settings::default(),
            verify,
            turn,
            failed: false,
            finished: 0,
            recording: None,
            signals: None,
        }
    }

    /// Prints the banner, and executes the commands of a file and of standard input.
    fn perform_all(&mut self, script: Option<Script>) -> anyhow::Result<()> {
        self.greet()?;
        let goes_on = script.map_or(Ok(true), |script| self.follow(&script))?;
        if goes_on { self.converse() } else { Ok(()) }
    }

    /// Prints the banner.
    fn greet(&self) -> anyhow::Result<()> {
        results::print(&print::banner(&format!(
            "fsb {}",
            env!("CARGO_PKG_VERSION")
        )))
    }

    /// Returns the exit code of the program.
    fn code(&self) -> u8 {
        if self.failed {
            exit::TRIALS
        } else {
            exit::DONE
        }
    }

    /// Checks a file of commands without executing it, so that fsb reports its errors before the
    /// first run.
    fn check(&self, script: &Script) -> anyhow::Result<()> {
        check_script(script, &mut self.settings.clone(), 1).map(drop)
    }

    /// Executes the commands of a file. Returns whether it ended without `quit`.
    fn follow(&mut self, script: &Script) -> anyhow::Result<bool> {
        results::print(&format!(
            "Reading configuration from file '{}'\n",
            script.path.display()
        ))?;
        for (index, line) in script.lines.iter().enumerate() {
            if !self.perform(line, &script.place(index))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Executes the commands of standard input. After an error a terminal gets the message and the
    /// next prompt; a pipe ends the session.
    fn converse(&mut self) -> anyhow::Result<()> {
        let typed = io::stdin().is_terminal();
        let standard_input = io::stdin().as_fd().try_clone_to_owned()?;
        let mut input = BufReader::new(File::from(standard_input));
        for number in 1.. {
            results::print(print::PROMPT)?;
            let line = match read_line(&mut input, self.signals.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    results::print("\n")?;
                    return Err(self.interrupted(&Signals::catch(Second::Waits)?, BETWEEN));
                }
                line => line.context("cannot read commands from standard input")?,
            };
            if line.is_empty() {
                break;
            }
            match self.perform(&line, &format!("standard input:{number}")) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error)
                    if typed
                        && error
                            .downcast_ref::<Failure>()
                            .is_some_and(Failure::may_be_tried_again) =>
                {
                    say(&format!("{error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Executes a line. Returns whether another one may follow.
    fn perform(&mut self, line: &str, place: &str) -> anyhow::Result<bool> {
        match postmark::parse(line, &mut self.settings).map_err(|error| wrong(place, &error))? {
            Command::Done(remark) => {
                if let Some(remark) = remark {
                    say(&format!("{place}: {remark}"));
                }
            }
            Command::Show(file) => {
                let directory = std::env::current_dir().unwrap_or_default();
                emit(
                    file.as_deref(),
                    &self.settings.show(&directory.to_string_lossy()),
                )?;
            }
            Command::Help(beginning) => results::print(&print::help(beginning.as_deref()))?,
            Command::Load(path) => {
                let script = read_script(Path::new(&path)).with_context(|| place.to_owned())?;
                self.check(&script)?;
                return self.follow(&script);
            }
            Command::Run(file) => self.run(file.as_deref(), place)?,
            Command::Quit => return Ok(false),
        }
        Ok(true)
    }

    fn run(&mut self, file: Option<&str>, place: &str) -> anyhow::Result<()> {
        check_run(&self.settings).with_context(|| place.to_owned())?;
        check_report(file).with_context(|| place.to_owned())?;
        // A signal during a run removes its files first; between two runs it ends the program.
        let signals = Signals::catch(Second::Waits)?;
        let started = run_directory::now();
        let ended = run(self, &signals)?;
        // A signal that arrives as the run ends does not discard its report.
        let late = match &self.signals {
            Some(signals) => signals.check(),
            None => signals.let_go(),
        };
        match ended {
            RunResult::Report(text, values) => {
                self.finished += 1;
                let kept = self.keep(started, Ok(*values));
                emit(file, &text).and(kept).and(late)
            }
            RunResult::Failed(why) => {
                self.failed = true;
                let reason = match &why {
                    Some((text, errno)) => Reason {
                        errno: errno.map(str::to_owned),
                        ..text.clone().into()
                    },
                    None => Reason::new(&NO_FILES, "the pool ran out of files"),
                };
                self.keep(started, Err(reason))?;
                if let Some((why, errno)) = why {
                    let fields = [
                        ("place", place.into()),
                        ("reason", why.as_str().into()),
                        ("errno", errno.into()),
                    ];
                    notify(&notice::RUN_FAILED, fields, &format!("{place}: run: {why}"));
                }
                Ok(())
            }
            RunResult::Interrupted => {
                Err(self.interrupted(&signals, "interrupted: the files of this run are removed"))
            }
        }
    }
}

impl PostmarkSession {
    /// Returns the error of a session that a signal ended, and prints how many runs finished.
    fn interrupted(&self, signals: &Signals, message: &str) -> anyhow::Error {
        if self.finished > 0 {
            let runs = counted(self.finished, "run");
            let text = format!("warning: interrupted after {runs}");
            notify(&notice::MEASURED_IN_PART, [], &text);
        }
        signals.failure(message)
    }

    /// Adds a run to the run directory.
    fn keep(&mut self, started: Timestamp, result: Result<Values, Reason>) -> anyhow::Result<()> {
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        let mut workload = WorkloadSpec::new("postmark", parameters(&self.settings, self.verify));
        let sizing = Sizing { size: 0, cpus: 1 };
        // The workload has narrower limits than PostMark.
        let label = workload::parse(&workload, &sizing)
            .map_or_else(|_| "postmark".to_owned(), |job| job.profile().label.clone());
        workload.params.extend(beside(&self.settings));
        recording.add(Execution {
            label,
            operation: "transaction".to_owned(),
            workload,
            directory: directories(&self.settings).swap_remove(0),
            started,
            result,
        })
    }
}

/// Returns the parameters of the workload `postmark` for these settings.
fn parameters(settings: &Settings, verify: bool) -> Params {
    let mut params = settings.shape.params();
    params.extend([
        ("read".to_owned(), settings.read_block.into()),
        ("write".to_owned(), settings.write_block.into()),
        ("buffering".to_owned(), settings.buffered.into()),
        ("verify".to_owned(), verify.into()),
    ]);
    params
}

/// Returns the parameters that the workload `postmark` lacks.
fn beside(settings: &Settings) -> Params {
    let mut locations = Vec::new();
    for Location { path, weight } in &settings.locations {
        locations.push(json!([path, weight]));
    }
    Params::from_iter([
        ("seed".to_owned(), settings.seed.into()),
        ("locations".to_owned(), locations.into()),
    ])
}

fn wrong(place: &str, error: &str) -> anyhow::Error {
    failure::error(
        &code::INVALID_POSTMARK,
        format!("{place}: {error}; {LANGUAGE_NEXT}"),
    )
}

/// Checks a file of commands. Returns whether it ends without `quit`.
fn check_script(script: &Script, settings: &mut Settings, depth: usize) -> anyhow::Result<bool> {
    for (index, line) in script.lines.iter().enumerate() {
        let place = script.place(index);
        match postmark::parse(line, settings).map_err(|error| wrong(&place, &error))? {
            Command::Quit => return Ok(false),
            Command::Run(file) => {
                check_run(settings).with_context(|| place.clone())?;
                check_report(file.as_deref()).context(place)?;
            }
            Command::Show(file) => check_report(file.as_deref()).context(place)?,
            Command::Load(_) if depth == DEEPEST => {
                return Err(failure::error(
                    &code::INVALID_POSTMARK,
                    format!("{place}: load: command files load each other without end"),
                ));
            }
            Command::Load(path) => {
                let loaded = read_script(Path::new(&path)).context(place)?;
                if !check_script(&loaded, settings, depth + 1)? {
                    return Ok(false);
                }
            }
            Command::Done(_) | Command::Help(_) => {}
        }
    }
    Ok(true)
}

/// The message after a signal while no run was in progress.
const BETWEEN: &str = "interrupted between two runs";

/// Returns the next line with its end, or nothing at the end of the input.
///
/// # Errors
/// The input cannot be read. The kind is `Interrupted` if a signal of `signals` has come.
fn read_line(input: &mut BufReader<File>, signals: Option<&Signals>) -> io::Result<String> {
    // A signal that comes right before a wait does not end it.
    const GLANCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 200_000_000,
    };
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        while input.buffer().is_empty() {
            if signals.is_some_and(Signals::is_interrupted) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut inputs = [PollFd::new(input.get_ref(), PollFlags::IN)];
            match poll(&mut inputs, Some(&GLANCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        // A line is in the buffer, or a part of it.
        if input.fill_buf()?.is_empty() {
            break;
        }
        let here = input.buffer();
        let end = here.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(here.len(), |end| end + 1);
        line.extend_from_slice(&here[..length]);
        input.consume(length);
    }
    String::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Prints the text, or appends it to a file.
fn emit(file: Option<&str>, text: &str) -> anyhow::Result<()> {
    let Some(path) = file else {
        return results::print(text);
    };
    let mut file = owner::append(Path::new(path))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write to {path}"))
}

/// The lines of a file.
#[derive(Debug)]
struct Script {
    /// The path as the user named it.
    path: PathBuf,
    /// The lines in their order.
    lines: Vec<String>,
}

/// Reads a file of commands, or a pipe of the shell.
fn read_script(path: &Path) -> anyhow::Result<Script> {
    let other = |kind| wrong_kind::failure(path, kind, "fsb postmark", &code::INVALID_POSTMARK);
    let text = fsb_store::input::read_text_or_pipe(path, LARGEST_SCRIPT).map_err(|error| {
        let message = format!("cannot read commands from {}: {error}", path.display());
        other(identify_file(path))
            .unwrap_or_else(|| failure::failed_call(&code::UNREADABLE, &error, message))
    })?;
    other(identify(text.as_bytes())).map_or(Ok(()), Err)?;
    Ok(Script {
        path: path.to_owned(),
        lines: text.lines().map(str::to_owned).collect(),
    })
}

impl Script {
    /// Returns the place of a line for messages: `FILE:LINE`.
    fn place(&self, index: usize) -> String {
        format!("{}:{}", self.path.display(), index + 1)
    }
}

// One run.

/// The result of a run.
enum RunResult {
    /// The run finished; its report and its values.
    Report(String, Box<Values>),
    /// The run failed; the reason and the name of the kernel's error, unless they were printed
    /// already.
    Failed(Option<(String, Option<&'static str>)>),
    /// A signal interrupted the run.
    Interrupted,
}

/// Runs of PostMark's, as work that a worker does.
#[derive(Debug)]
pub enum Runs {}

#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    settings: Settings,
    verify: bool,
}

/// Times and counts of a run that finished.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    times: Times,
    tally: Tally,
}

impl Work for Runs {
    const NAME: &'static str = "postmark";
    type Task = Asked;
    type Progress = Moment;
    type Answer = Result<Done, Ended>;
    // The files of a run that is interrupted are removed.
    const HEEDS_INTERRUPTION: bool = true;

    fn perform(
        task: Asked,
        requester: &mut Requester<'_, Moment>,
    ) -> Result<Self::Answer, EngineError> {
        let Asked { settings, verify } = task;
        let (text, twister) = source(&settings);
        let mut pool = pool(&settings, twister);
        let options = RunOptions {
            locations: locations(&settings),
            read_block: settings.read_block,
            write_block: settings.write_block,
            buffered: settings.buffered,
            text: (!verify).then_some(text.as_slice()),
        };
        let interrupted = requester.interrupted();
        let ended = fsb_engine::postmark::run(&options, &mut pool, &interrupted, &mut |moment| {
            requester.tell(moment)
        });
        Ok(ended.map(|times| Done {
            times,
            tally: *pool.tally(),
        }))
    }
}

/// Makes the files, works on them, removes them, and prints its progress.
fn run(session: &mut PostmarkSession, signals: &Signals) -> anyhow::Result<RunResult> {
    let (settings, verify) = (&session.settings, session.verify);
    let mut lock = session.turn.take("fsb postmark")?;
    let mut printed = Ok(());
    let mut tell = |moment: Moment| {
        if printed.is_ok() {
            printed = tell(moment);
        }
    };
    let rights = rights(settings)?;
    let asked = Asked {
        settings: settings.clone(),
        verify,
    };
    let ended = perform(&asked, rights, signals, &mut tell);
    warn_of_concurrent(&mut lock);
    if let Some(recording) = &mut session.recording {
        recording.note_others(&mut lock);
    }
    let Done { times, tally } = match ended {
        Ok(Ok(done)) => done,
        Ok(Err(Ended::Interrupted)) => {
            results::print("\n")?;
            return Ok(RunResult::Interrupted);
        }
        Ok(Err(error @ (Ended::Failed(_) | Ended::Left { .. }))) => {
            results::print("\n")?;
            let left = if matches!(error, Ended::Failed(_)) {
                ". The files of this run are removed"
            } else {
                ""
            };
            return Ok(RunResult::Failed(Some((
                format!("{error}{left}"),
                error.errno_name(),
            ))));
        }
        Err(error) => {
            results::print("\n")?;
            // The worker has ended, so the coordinator removes the files.
            let left = match rights.act(|| remove_left(settings)).flatten() {
                Ok(()) => ". The files of this run are removed".to_owned(),
                Err(why) => format!("; and its files are not all removed: {why}"),
            };
            return Ok(RunResult::Failed(Some((
                format!("{error}{left}"),
                error.errno(),
            ))));
        }
    };
    printed?;
    if times.out_of_files {
        return Ok(RunResult::Failed(None));
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let outcome = PostmarkOutcome {
        tally,
        deleted_alone: times.deleted_alone,
        total: seconds(times.total),
        creation: seconds(times.creation),
        transactions: seconds(times.transactions),
        deletion: seconds(times.deletion),
    };
    if let Some(note) = print::rounded(&outcome.tally) {
        say(&format!("note: {note}"));
    }
    let values = values(&settings.shape, &times, &outcome);
    Ok(RunResult::Report(
        print::report(settings, &outcome),
        Box::new(values),
    ))
}

/// Returns the rates that PostMark prints, with the time of the clock instead of whole seconds. The
/// first one is that of transactions.
fn values(shape: &Shape, times: &Times, outcome: &PostmarkOutcome) -> Values {
    let tally = &outcome.tally;
    let transactions = u64::from(shape.transactions);
    let all = [
        (&OPERATION_RATE, transactions, outcome.transactions),
        (&READ_RATE, tally.bytes_read, outcome.total),
        (&WRITE_RATE, tally.bytes_written, outcome.total),
        (&CREATE_RATE, tally.created, outcome.total),
        (&DELETE_RATE, tally.deleted, outcome.total),
        (&DELETE_ALONE_RATE, times.deleted_alone, outcome.deletion),
    ];
    let mut metrics = Vec::new();
    for (kind, amount, seconds) in all {
        if seconds > 0.0 {
            metrics.push(kind.metric(amount as f64 / seconds));
        }
    }
    let mut work = Measurement {
        timed_ns: times.total,
        operations: transactions,
        bytes: tally.bytes_read + tally.bytes_written,
        ..Measurement::default()
    };
    let counts = [
        ("files_created", tally.created),
        ("files_read", tally.read),
        ("files_appended", tally.appended),
        ("files_deleted", tally.deleted),
        ("bytes_read", tally.bytes_read),
        ("bytes_written", tally.bytes_written),
    ];
    for (name, count) in counts {
        work.counts.insert(name.to_owned(), count);
    }
    Values { metrics, work }
}

fn perform(
    asked: &Asked,
    rights: Rights,
    signals: &Signals,
    tell: &mut dyn FnMut(Moment),
) -> Result<Result<Done, Ended>, WorkerError> {
    let interrupted = Some(Arc::clone(signals.flag()));
    Worker::open(&WorkerLimits {
        interrupted,
        as_invoking_user: rights == Rights::InvokingUser,
        ..WorkerLimits::default()
    })?
    .perform::<Runs>(asked, tell)
}

fn tell(moment: Moment) -> anyhow::Result<()> {
    let text = match moment {
        Moment::MakingDirectories => print::MAKING_DIRECTORIES,
        Moment::Creating => print::CREATING,
        Moment::Transacting => return results::print(&[print::DONE, print::TRANSACTING].concat()),
        Moment::Tenth => print::DOT,
        Moment::OutOfFiles => print::OUT_OF_FILES,
        Moment::Deleting => print::DELETING,
        Moment::RemovingDirectories => print::REMOVING_DIRECTORIES,
        Moment::MadeDirectories
        | Moment::Transacted
        | Moment::Deleted
        | Moment::RemovedDirectories => print::DONE,
    };
    results::print(text)
}

// Checks of a run before anything is changed.

/// The units in which file systems allocate space: blocks of data, and metadata of each file.
const BLOCK: u64 = 4096;
const NOTE: u64 = 512;

/// Returns the directories that the settings name for the files of a run.
fn locations(settings: &Settings) -> Vec<PathBuf> {
    settings
        .locations
        .iter()
        .map(|location| PathBuf::from(&location.path))
        .collect()
}

/// Returns the user whose privileges create the files.
fn rights(settings: &Settings) -> anyhow::Result<Rights> {
    let locations = locations(settings);
    let here = locations.is_empty().then_some(Path::new("."));
    Ok(Rights::over(
        locations.iter().map(PathBuf::as_path).chain(here),
    )?)
}

/// Checks that the directories can hold the files, that the names are free, and that the files fit.
fn check_run(settings: &Settings) -> anyhow::Result<()> {
    let directories = directories(settings);
    rights(settings)?;
    for directory in &directories {
        check_directory(directory, settings)?;
    }
    check_space(settings, &directories)
}

/// Checks that the report can be appended to the file.
fn check_report(file: Option<&str>) -> anyhow::Result<()> {
    let Some(path) = file.map(Path::new) else {
        return Ok(());
    };
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let shown = path.display();
    if path.is_dir() {
        return Err(failure::error(
            &code::UNWRITABLE,
            format!("cannot add a report to {shown}: it is a directory"),
        ));
    }
    if !parent.is_dir() {
        return Err(failure::error(
            &code::UNWRITABLE,
            format!(
                "cannot add a report to {shown}: no directory {}",
                parent.display()
            ),
        ));
    }
    let failure = format!("cannot add a report to {shown}");
    owner::check(path).map_err(|error| owner::unwritable(failure, error))?;
    let writable = if path.exists() { path } else { parent };
    let denied = |_| {
        failure::error(
            &code::OUTPUT_FAILED,
            format!("cannot add a report to {shown}: it may not be written"),
        )
    };
    rustix::fs::access(writable, Access::WRITE_OK).map_err(denied)
}

fn check_directory(directory: &Path, settings: &Settings) -> anyhow::Result<()> {
    let shown = directory.display();
    let unreachable = std::fs::metadata(directory)
        .err()
        .and_then(|error| access::obstacle(directory, &error));
    if let Some(Obstacle { why, advice }) = unreachable {
        return Err(failure::error(
            &code::DIRECTORY,
            format!("location {shown} cannot be used: {why}: {advice}"),
        ));
    }
    if !directory.is_dir() {
        return Err(failure::error(
            &code::DIRECTORY,
            format!("location {shown} is not a directory: make it first, or name another one"),
        ));
    }
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        failure::failed_call(
            &code::DIRECTORY_NOT_WRITABLE,
            &errno.into(),
            format!("location {shown} cannot be written to: {errno}"),
        )
    })?;
    let entries = std::fs::read_dir(directory).map_err(|error| {
        failure::failed_call(
            &code::DIRECTORY_NOT_WRITABLE,
            &error,
            format!("location {shown} cannot be read: {error}"),
        )
    })?;
    let taken = entries
        .flatten()
        .map(|entry| entry.file_name())
        .find(|name| is_ours(name, settings));
    match taken {
        None => Ok(()),
        Some(name) => Err(failure::about(
            &code::DIRECTORY,
            [
                ("path", shown.to_string().into()),
                ("name", name.to_string_lossy().into()),
            ],
            format!(
                "'{}' is in {shown} already, and a run makes and removes a file or directory of that name: \
             name another location, or remove it",
                name.to_string_lossy()
            ),
        )),
    }
}

/// Removes the files of a run whose worker could not remove them. Their names were free when the
/// run began.
fn remove_left(settings: &Settings) -> io::Result<()> {
    for directory in directories(settings) {
        for entry in std::fs::read_dir(directory)?
            .flatten()
            .filter(|entry| is_ours(&entry.file_name(), settings))
        {
            if !entry.file_type()?.is_dir() {
                std::fs::remove_file(entry.path())?;
                continue;
            }
            // A run makes only numbered files in it. `remove_dir` reports a directory that holds
            // anything else, which stays.
            for file in std::fs::read_dir(entry.path())?.flatten() {
                if file
                    .file_name()
                    .to_str()
                    .is_some_and(|name| name.parse::<u64>().is_ok())
                {
                    std::fs::remove_file(file.path())?;
                }
            }
            std::fs::remove_dir(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the directories of the files: the working directory if the settings name none.
fn directories(settings: &Settings) -> Vec<PathBuf> {
    let named = locations(settings);
    if named.is_empty() {
        vec![PathBuf::from(".")]
    } else {
        named
    }
}

/// Returns whether a run would create a file or directory of that name.
fn is_ours(name: &OsStr, settings: &Settings) -> bool {
    let shape = &settings.shape;
    let number = |text: &str| {
        let plain = text == "0" || !text.starts_with(['0', '+']);
        text.parse::<u64>().ok().filter(|_| plain)
    };
    let Some(name) = name.to_str() else {
        return false;
    };
    if shape.subdirectories > 1 {
        return name
            .strip_prefix('s')
            .and_then(number)
            .is_some_and(|number| number < u64::from(shape.subdirectories));
    }
    let most = u64::from(shape.number) + u64::from(shape.transactions);
    number(name).is_some_and(|number| (1..=most).contains(&number))
}

fn check_space(settings: &Settings, directories: &[PathBuf]) -> anyhow::Result<()> {
    let (mut rooms, mut devices) = (BTreeMap::new(), Vec::new());
    for path in directories {
        let Some((metadata, room)) = std::fs::metadata(path).ok().zip(FreeSpace::at(path)) else {
            return Ok(());
        };
        devices.push(metadata.dev());
        rooms.entry(metadata.dev()).or_insert(room);
    }
    let shape = &settings.shape;
    // No pool holds more; most hold far less, and then it is worth going through the operations.
    let places = 2 * u64::from(shape.number);
    let subdirectories = if shape.subdirectories > 1 {
        u64::from(shape.subdirectories)
    } else {
        0
    };
    let directories_made = subdirectories * directories.len() as u64;
    let most = Need {
        bytes: places * taken(shape.size_high) + directories_made * BLOCK,
        files: places + directories_made,
    };
    if rooms.values().all(|room| room.holds(most)) {
        return Ok(());
    }
    // If not even the first files fit, the operations, which may be many, need not be simulated.
    let least = u64::from(shape.number) * taken(shape.size_low);
    let free = rooms
        .values()
        .fold(0u64, |sum, room| sum.saturating_add(room.bytes));
    if least > free {
        let need = Need {
            bytes: least,
            files: u64::from(shape.number),
        };
        return rooms
            .values()
            .next()
            .map_or(Ok(()), |room| Err(too_much(need, room)));
    }
    for (device, mut need) in peaks(settings, &devices) {
        need.bytes += directories_made * BLOCK;
        need.files += directories_made;
        if !rooms[&device].holds(need) {
            return Err(too_much(need, &rooms[&device]));
        }
    }
    Ok(())
}

fn too_much(need: Need, room: &FreeSpace) -> anyhow::Error {
    failure::error(
        &code::NO_SPACE,
        format!(
            "this run {}: 'set number' and 'set size' make it smaller",
            room.lacks(need)
        ),
    )
}

/// Returns the space that a file of that size takes.
fn taken(size: u32) -> u64 {
    u64::from(size).next_multiple_of(BLOCK) + NOTE
}

/// Returns the peak need on each device. The operations of a run follow from its settings alone.
fn peaks(settings: &Settings, devices: &[u64]) -> BTreeMap<u64, Need> {
    let mut pool = pool(settings, source(settings).1);
    let mut now: BTreeMap<u64, Need> = devices
        .iter()
        .map(|device| (*device, Need::default()))
        .collect();
    let mut most = now.clone();
    let mut follow = |operation: Option<Operation>| {
        let Some(Operation { act, file, bytes }) = operation else {
            return;
        };
        let device = devices[file.location as usize];
        let (Some(need), Some(peak)) = (now.get_mut(&device), most.get_mut(&device)) else {
            return;
        };
        match act {
            Act::Create => {
                *need = Need {
                    bytes: need.bytes + taken(bytes),
                    files: need.files + 1,
                }
            }
            Act::Append { at } => need.bytes = need.bytes + taken(at + bytes) - taken(at),
            Act::Delete => {
                *need = Need {
                    bytes: need.bytes - taken(bytes),
                    files: need.files - 1,
                }
            }
            Act::Read => {}
        }
        *peak = Need {
            bytes: peak.bytes.max(need.bytes),
            files: peak.files.max(need.files),
        };
    };
    for _ in 0..settings.shape.number {
        follow(pool.create());
    }
    for _ in 0..settings.shape.transactions {
        if pool.is_exhausted() {
            break;
        }
        follow(pool.use_one());
        follow(pool.exchange());
    }
    most
}
