//! `fsb filebench`: filebench's workload files, on our engine, with its text.
//!
//! `fsb-compat` defines the meaning of a file and the printed text; the work is a flow of the
//! engine. A worker performs it in a directory of its own below the one that the file names. The
//! whole file is checked before anything is changed. That directory is removed however a run ends,
//! because the undo ledger lists it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fsb_compat::filebench::personality::{self, Personality, SystemSize};
use fsb_compat::filebench::print::{self, Line, OperationClass};
use fsb_compat::filebench::wml::{self, Reading, Run, Script};
use fsb_compat::identify_file;
use fsb_engine::{EngineError, Job, Live, Measurement, Sizing, Step, Task, latency, workload};
use fsb_model::flow::{Flow, Op};
use fsb_model::trial::Reason;
use fsb_model::{Durability, WorkloadSpec, code, failure, notice};
use fsb_report::show::counted;
use fsb_runner::worker::{Steps, Worker, WorkerError, WorkerLimits};
use fsb_store::input::LARGEST_SCRIPT;
use fsb_store::owner::Rights;
use jiff::Timestamp;

use crate::emulate::own_directory::{self, OwnDirectory};
use crate::emulate::promises;
use crate::emulate::run_directory::{self, Execution, Recording, Values};
use crate::exit::{self, Second, Signals};
use crate::message::{notify, say};
use crate::run::space::{FreeSpace, Need};
use crate::run::stage;
use crate::run::stage::Turn;
use crate::{results, wrong_kind};

const EXAMPLES: &str = "\
Examples:
  fsb filebench varmail.f                              as written in the file
  fsb filebench --dir /srv/data --seconds 10 oltp.f    elsewhere, and shorter
  fsb filebench --set nfiles=500 fileserver.f > a.txt  with another variable
  fsb compare a.txt b.txt                              compare with filebench";

/// Run a filebench workload file and print filebench's results
///
/// Reads the workload language of filebench 1.4 and 1.5: set, eventgen, echo, run, psrun, cvar,
/// randvar, define fileset|file|process|flowop. Unsupported statements are reported with their
/// lines. fsb draws sizes and files with its own generator; waits and limits are filebench's.
///
/// fsb makes the files in a new directory in $dir and removes it at the end. After a kill, the next
/// fsb or 'fsb clean' removes it.
///
/// Files that come with fsb: copyfiles.f, createfiles.f, deletefiles.f, filemicro_statfile.f,
/// fileserver.f, fivestreamread.f, fivestreamreaddirect.f, fivestreamwrite.f,
/// fivestreamwritedirect.f, listdirs.f, makedirs.f, oltp.f, openfiles.f, randomread.f, randomrw.f,
/// randomwrite.f, removedirs.f, singlestreamread.f, singlestreamreaddirect.f, singlestreamwrite.f,
/// singlestreamwritedirect.f, varmail.f, videoserver.f, webproxy.f, webserver.f.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Workload file, or the name of one that comes with fsb
    #[arg(value_name = "FILE.f")]
    file: PathBuf,
    /// Sizes that filebench's documentation recommends, for files that come with fsb
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    system: Option<System>,
    /// Directory for files [default: $dir of FILE.f]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Length of each run in seconds [default: that of FILE.f]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
    seconds: Option<u64>,
    /// Set a variable, such as nfiles=500; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Compare the data read with the data written
    #[arg(long)]
    verify: bool,
    /// Seed of sizes, choices and contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Keep the runs in a new directory
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    out: Option<PathBuf>,
    /// Run although another fsb measures; both results are affected
    #[arg(long)]
    allow_concurrent: bool,
}

/// Systems with recommended sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// One or two disks: 50,000 files, or a file of 1 GiB
    Small,
    /// More than twenty disks: 100,000 files, or a file of 5 GiB; 256 threads of random reads and
    /// writes
    Large,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let script = script(arguments)?;
    let turn = Turn::new(arguments.allow_concurrent);
    let request = Choices {
        verify: arguments.verify,
        seed: arguments.seed,
        quiet: arguments.quiet,
        turn,
    };
    for run in &script.runs {
        check_run(run, &request)?;
    }
    run_directory::check(arguments.out.as_deref())?;
    let file = arguments.file.display();
    script
        .notes
        .iter()
        .for_each(|note| say(&format!("{file}:{note}", note = place(note))));
    measure_all(&script, &request, arguments)
}

/// Returns the workload file with the changes of the command line.
fn script(arguments: &Arguments) -> anyhow::Result<Script> {
    let file = arguments.file.display();
    let shipped = shipped(&arguments.file);
    let text = match shipped {
        Some(personality) => personality.text.to_owned(),
        None => read(&arguments.file)?,
    };
    let mut values = recommended(arguments.system, shipped)?;
    // The last value of a variable holds.
    values.extend(
        arguments
            .set
            .iter()
            .map(|text| assignment(text))
            .collect::<anyhow::Result<Vec<_>>>()?,
    );
    let stem = arguments
        .file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let name: String = stem
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect();
    let reading = Reading {
        name: name.trim(),
        implied: arguments.seconds,
        values: &values,
    };
    let mut script = wml::read(&text, &reading).map_err(|problems| {
        let lines: Vec<_> = problems
            .iter()
            .map(|problem| format!("{file}:{}", place(problem)))
            .collect();
        of_other_kind(&arguments.file).unwrap_or_else(|| {
            failure::error(
                &code::INVALID_FILEBENCH,
                format!("fsb cannot run this workload:\n{}", lines.join("\n")),
            )
        })
    })?;
    for run in &mut script.runs {
        run.seconds = arguments.seconds.unwrap_or(run.seconds);
        if let Some(directory) = &arguments.dir {
            run.directory.clone_from(directory);
        }
    }
    Ok(script)
}

/// Returns the file that comes with the program, unless there is a file of that name.
fn shipped(path: &Path) -> Option<&'static Personality> {
    let name = path
        .to_str()
        .filter(|_| std::fs::symlink_metadata(path).is_err())?;
    personality::find(name)
}

/// Returns the recommended values of the variables of a file.
fn recommended(
    system: Option<System>,
    shipped: Option<&'static Personality>,
) -> anyhow::Result<Vec<(String, String)>> {
    let Some(system) = system else {
        return Ok(Vec::new());
    };
    let size = match system {
        System::Small => SystemSize::Small,
        System::Large => SystemSize::Large,
    };
    let values = shipped
        .map(|personality| personality.recommended(size))
        .unwrap_or_default();
    if values.is_empty() {
        let why = match shipped {
            Some(personality) => format!(
                "filebench recommends no such sizes for {}",
                personality.name
            ),
            None => "the file is not one that comes with fsb: use --set NAME=VALUE".to_owned(),
        };
        return Err(failure::error(&code::CONFLICT, format!("--system: {why}")));
    }
    Ok(values)
}

/// Returns `12: message`, as compilers print it.
fn place(remark: &wml::Remark) -> String {
    format!("{}: {}", remark.line, remark.message)
}

/// Returns the failure of a file that another command reads.
fn of_other_kind(path: &Path) -> Option<anyhow::Error> {
    wrong_kind::failure(
        path,
        identify_file(path),
        "fsb filebench",
        &code::INVALID_FILEBENCH,
    )
}

fn read(path: &Path) -> anyhow::Result<String> {
    fsb_store::input::read_text(path, LARGEST_SCRIPT).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::IsADirectory => {
                "it is not a file; name one such as varmail.f".to_owned()
            }
            _ => error.to_string(),
        };
        let message = format!("cannot read {}: {why}", path.display());
        if let Some(other) = of_other_kind(path) {
            return other;
        }
        match error.kind() {
            std::io::ErrorKind::NotFound => failure::advised_call(
                &code::UNREADABLE,
                &error,
                message,
                "name a file, or one that comes with fsb, such as copyfiles.f",
            ),
            _ => failure::failed_call(&code::UNREADABLE, &error, message),
        }
    })
}

/// Parses text such as `nfiles=500` or `$nfiles=500` as the workload file has it.
fn assignment(text: &str) -> anyhow::Result<(String, String)> {
    let pair = text
        .split_once('=')
        .map(|(name, value)| (name.trim().trim_start_matches('$'), value.trim()));
    match pair {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(failure::error(
            &code::INVALID_VALUE,
            format!("--set {text}: write NAME=VALUE, such as nfiles=500"),
        )),
    }
}

// Checks of a run before anything is changed.

/// Checks the directory, the flow (by asking the engine) and the free space.
fn check_run(run: &Run, request: &Choices) -> anyhow::Result<()> {
    let directory = &run.directory;
    own_directory::check(directory, "filebench")?;
    Rights::below(directory)?;
    let (spec, sizing) = request.workload(run);
    let job = workload::parse(&spec, &sizing)
        .map_err(|error| failure::error(&code::INVALID_WORKLOAD, error.to_string()))?;
    check_space(directory, job.as_ref())?;
    promises::warn_not_durable(directory, &job.profile().promises());
    Ok(())
}

fn check_space(directory: &Path, job: &dyn Job) -> anyhow::Result<()> {
    let profile = job.profile();
    let need = Need {
        bytes: profile.space,
        files: profile.inodes,
    };
    match FreeSpace::at(directory) {
        Some(room) if !room.holds(need) => Err(failure::error(
            &code::NO_SPACE,
            format!(
                "this workload {}: set fewer or smaller files, such as --set nfiles=1000",
                room.lacks(need)
            ),
        )),
        _ => Ok(()),
    }
}

// The runs of a file, each from making the files to removing them.

/// The interval between progress lines if standard error is not a terminal.
const SELDOM: Duration = Duration::from_secs(5);

/// Options of all runs.
struct Choices {
    /// Whether the data read is compared with the data written.
    verify: bool,
    /// Decides sizes, picks and contents.
    seed: u64,
    /// Whether progress is hidden.
    quiet: bool,
    /// Whether the run refuses to start while another fsb measures.
    turn: stage::Turn,
}

impl Choices {
    /// Returns the run as a workload of the engine.
    fn workload(&self, run: &Run) -> (WorkloadSpec, Sizing) {
        let mut params = vec![
            ("flow", run.flow.to_toml().into()),
            ("verify", self.verify.into()),
        ];
        // Like filebench, sync only if the file says so.
        if !run.flow.is_durable_each() {
            params.push(("durability", Durability::None.name().into()));
        }
        let params = params
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        (WorkloadSpec::new("flow", params), Sizing { size: 0, cpus })
    }

    fn task(&self, run: &Run, step: Step, root: &Path) -> Task {
        let (workload, sizing) = self.workload(run);
        let whole = Task::plain(step, workload, sizing, root, self.seed, u64::MAX);
        Task {
            until_seconds: Some(run.seconds as f64),
            ..whole
        }
    }
}

/// State that lasts from run to run.
struct MeasuringSession<'r> {
    /// Runs that finished.
    finished: usize,
    /// The run directory, if there is one.
    recording: Option<Recording>,
    request: &'r Choices,
    started: Instant,
    signals: Signals,
    told: Instant,
}

/// The reason why a run did not finish.
enum Failed {
    /// A signal came.
    Interrupted,
    /// A step was refused, or its worker died.
    Why(WorkerError),
}

impl From<WorkerError> for Failed {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Interrupted => Failed::Interrupted,
            error => Failed::Why(error),
        }
    }
}

/// Makes all runs; the exit code.
fn measure_all(script: &Script, request: &Choices, arguments: &Arguments) -> anyhow::Result<u8> {
    let mut lock = request.turn.take("fsb filebench")?;
    stage::tidy_up();
    let _watcher = stage::watcher();
    let now = Instant::now();
    // A second signal must not end the program before the files are removed.
    let name = arguments.file.file_stem().unwrap_or_default();
    let recording = Recording::create(
        arguments.out.as_deref(),
        "filebench",
        &name.to_string_lossy(),
    )?;
    let mut session = MeasuringSession {
        finished: 0,
        recording,
        request,
        started: now,
        signals: Signals::catch(Second::Waits)?,
        told: now,
    };
    let ended = session.run_all(script);
    stage::warn_of_concurrent(&mut lock);
    if let Some(mut recording) = session.recording.take() {
        recording.note_others(&mut lock);
        recording.finish(ended.is_ok(), &results::kept_output())?;
    }
    ended
}

/// Prints why a run failed.
fn report_failed(run: &Run, why: &WorkerError) {
    let place = run
        .line
        .map_or_else(String::new, |line| format!("line {line}: "));
    let fields = [
        ("line", run.line.into()),
        ("reason", why.to_string().into()),
        ("errno", why.errno().into()),
    ];
    let text = format!("{place}run: {why}. The files of this run are removed");
    notify(&notice::RUN_FAILED, fields, &text);
}

impl MeasuringSession<'_> {
    /// Makes all runs. Returns the exit code.
    fn run_all(&mut self, script: &Script) -> anyhow::Result<u8> {
        results::print(&print::banner(&format!(
            "fsb {}",
            env!("CARGO_PKG_VERSION")
        )))?;
        for line in &script.said {
            self.say(line)?;
        }
        let mut code = exit::DONE;
        for run in &script.runs {
            let started = run_directory::now();
            match self.run(run)? {
                Ok(measurement) => {
                    self.finished += 1;
                    self.keep(run, started, Ok(measurement))?;
                }
                Err(Failed::Interrupted) => {
                    let (done, all) = (self.finished, counted(script.runs.len(), "run"));
                    let text = format!("warning: interrupted after {done} of {all}");
                    notify(&notice::MEASURED_IN_PART, [], &text);
                    return Err(self
                        .signals
                        .failure("interrupted: the files of this run are removed"));
                }
                Err(Failed::Why(why)) => {
                    report_failed(run, &why);
                    code = exit::TRIALS;
                    self.keep(run, started, Err(why.reason()))?;
                }
            }
        }
        Ok(code)
    }

    /// Adds a run to the run directory.
    fn keep(
        &mut self,
        run: &Run,
        started: Timestamp,
        result: Result<Measurement, Reason>,
    ) -> anyhow::Result<()> {
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        let (mut workload, sizing) = self.request.workload(run);
        let job = workload::parse(&workload, &sizing)
            .map_err(|error| failure::error(&code::INVALID_WORKLOAD, error.to_string()))?;
        let profile = job.profile();
        workload.params = job.params();
        workload
            .params
            .insert("seconds".to_owned(), run.seconds.into());
        recording.add(Execution {
            label: profile.label.clone(),
            operation: profile.operation.to_owned(),
            workload,
            directory: run.directory.clone(),
            started,
            result: result.and_then(|work| Values::from_engine(&profile, work)),
        })
    }

    fn at(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn say(&self, message: &str) -> anyhow::Result<()> {
        results::print(&print::moment(self.at(), message))
    }

    /// One run; the outer error is one of printing.
    fn run(&mut self, run: &Run) -> anyhow::Result<Result<Measurement, Failed>> {
        let own = OwnDirectory::make(&run.directory)?;
        let measured = self.measure(run, &own);
        self.say("Shutting down processes")?;
        own.remove()?;
        measured
    }

    fn measure(
        &mut self,
        run: &Run,
        root: &OwnDirectory,
    ) -> anyhow::Result<Result<Measurement, Failed>> {
        self.say("Populating and pre-allocating filesets")?;
        for set in &run.flow.filesets {
            let made = (set.files as f64 * set.preallocated).round();
            let text = format!(
                "{}: {} files, avg. dir. width = {}, {} leafdirs, {made} files made beforehand",
                set.name, set.files, set.width.mean, set.directories
            );
            self.say(&text)?;
        }
        if let Err(failed) = self.step(run, Step::Prepare, root, "files made")? {
            return Ok(Err(failed));
        }
        self.say("Population and pre-allocation of filesets completed")?;
        for thread in &run.flow.threads {
            self.say(&format!(
                "Starting {} {} instances",
                thread.processes, thread.process
            ))?;
        }
        let measurement = match self.step(run, Step::Measure, root, "operations")? {
            Ok(Some(measurement)) => measurement,
            Ok(None) => {
                return Ok(Err(Failed::Why(WorkerError::Engine(EngineError::new(
                    "the worker measured nothing",
                )))));
            }
            Err(failed) => return Ok(Err(failed)),
        };
        let seconds = measurement.timed_ns as f64 * 1e-9;
        self.say(&format!("Run took {seconds:.0} seconds..."))?;
        results::print(&print::results(
            self.at(),
            seconds,
            &breakdown_lines(&run.flow, &measurement),
        ))?;
        Ok(Ok(measurement))
    }

    fn step(
        &mut self,
        run: &Run,
        step: Step,
        root: &OwnDirectory,
        what: &str,
    ) -> anyhow::Result<Result<Option<Measurement>, Failed>> {
        let task = self.request.task(run, step, &root.path);
        let mut printed = Ok(());
        let result = self.perform(&task, root.rights, what, &mut printed);
        printed.map(|()| result.map_err(Failed::from))
    }

    fn perform(
        &mut self,
        task: &Task,
        rights: Rights,
        what: &str,
        printed: &mut anyhow::Result<()>,
    ) -> Result<Option<Measurement>, WorkerError> {
        let interrupted = Some(Arc::clone(self.signals.flag()));
        let mut worker = Worker::open(&WorkerLimits {
            interrupted,
            as_invoking_user: rights == Rights::InvokingUser,
            ..WorkerLimits::default()
        })?;
        worker.ask::<Steps>(task)?;
        if task.step == Step::Measure {
            worker.ready::<Steps>()?;
            *printed = self.say("Running...");
            worker.go()?;
        }
        let report = worker.result::<Steps>(&mut |Live { done, of }| self.tell(done, of, what))?;
        worker.close();
        Ok(report.whole())
    }

    fn tell(&mut self, done: u64, of: u64, what: &str) {
        if self.request.quiet || self.told.elapsed() < SELDOM {
            return;
        }
        self.told = Instant::now();
        let of = if of > 0 {
            format!(" of {of}")
        } else {
            String::new()
        };
        say(&format!("{:.0} s: {done}{of} {what}", self.at()));
    }
}

// Converts a measurement to the lines of filebench's breakdown.

/// Returns one line per operation of the file, in its order; steps of the same name share a line.
fn breakdown_lines(flow: &Flow, measured: &Measurement) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let counted = flow
        .threads
        .iter()
        .flat_map(|thread| &thread.steps)
        .filter(|step| step.op.is_counted());
    for step in counted {
        let name = step.title();
        if !lines.iter().any(|line| line.name == name) {
            lines.push(breakdown_line(name, step.op, measured));
        }
    }
    lines
}

fn breakdown_line(name: &str, op: Op, measured: &Measurement) -> Line {
    let histogram = measured
        .latency
        .get(name)
        .and_then(|text| latency::decode(text).ok());
    let histogram = histogram.filter(|histogram| !histogram.is_empty());
    let seconds = |ns: f64| ns * 1e-9;
    let of = |value: &dyn Fn(&hdrhistogram::Histogram<u64>) -> f64| {
        histogram.as_ref().map_or(0.0, |h| seconds(value(h)))
    };
    Line {
        name: name.to_owned(),
        operations: histogram.as_ref().map_or(0, hdrhistogram::Histogram::len),
        bytes: measured
            .counts
            .get(&format!("{name}_bytes"))
            .copied()
            .unwrap_or(0),
        mean: of(&|histogram| histogram.mean()),
        least: of(&|histogram| histogram.min() as f64),
        most: of(&|histogram| histogram.max() as f64),
        kind: match op {
            Op::Read | Op::ReadWhole => OperationClass::Read,
            op if op.writes() => OperationClass::Write,
            _ => OperationClass::Other,
        },
    }
}
