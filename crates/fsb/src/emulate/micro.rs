//! `fsb micro`: the 2023 tool's own command line, on one directory.
//!
//! The options come from a table in `fsb-compat`, so that the command line and `settings.ini`
//! cannot differ; the table is passed to clap.

use fsb_results::summary;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use fsb_compat::pokorny::{Benchmark, KEYS, Level, LogFormat, Options, samples_csv};
use fsb_model::nearest::unknown;
use fsb_model::notice;
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::setting::SettingValue;
use fsb_model::units::{show_bytes, show_duration};
use fsb_model::{
    Outcome, Repetition, RunRecord, Settings, StopReason, Trial, UnbackedMemory, Warning, code,
    failure,
};
use fsb_report::show::{counted, percent};
use fsb_report::{Report, device_text};
use fsb_runner::event::{Event, Observer};
use fsb_runner::plan_file::{PlanFile, Resolved, typed};
use fsb_stats::{describe, normality, quantile, t_interval, warm_up_length};
use fsb_store::input::LARGEST_SCRIPT;
use fsb_store::owner;
use fsb_sys::error::Refusal;
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::emulate::run_directory;
use crate::help::heading;
use crate::message::{self, Message, MessageFormat, notify};
use crate::results::Output;
use crate::run::coordinator::{self, OwnRun};
use crate::run::progress::{Progress, Verbosity};
use crate::run::record::{MemoryJournal, new_record};
use crate::run::space::{FreeSpace, Need};
use crate::run::stage::Turn;
use crate::{exit, results};

/// The file of settings in the current directory.
const SETTINGS: &str = "settings.ini";

/// Options that only the complete help page lists.
const RARE: [&str; 9] = [
    "warmupCycleCount",
    "benchmark",
    "uid",
    "gid",
    "forceRootUser",
    "minLogLevel",
    "sink",
    "logFile",
    "logFormat",
];

/// Options of fsb, not settings of the 2023 tool.
const CONCURRENT: &str = "allow-concurrent";
const PRECISION: &str = "precision";
const BUDGET: &str = "budget";
const REPORT: &str = "report";
const OUT: &str = "out";
const HELP_OPTION: &str = "help-option";

const ABOUT: &str = "Micro-benchmark one directory, with the options of Pokorný 2023";

const DETAILS: &str = "\
Measures the mean time of an iteration, cycle by cycle. Option names are those of the tool of \
M. Pokorný's thesis (2023), such as --fileCount, or lower-case, such as --file-count. fsb reads settings.ini in the \
working directory first.";

const EXAMPLES: &str = "\
Examples:
  fsb micro create --output /srv/data --fileCount 1000
  fsb micro read --output /srv/data --blockSize 4 --random --exportOutput r.csv
  fsb micro --benchmark write --output /srv/data --iterations 20 --multiThreaded
  fsb micro read --output /srv/data --precision 2%";

/// Returns the heading of an option on the complete help page.
fn heading_of(key: &str) -> &'static str {
    match key {
        "output" | "benchmark" | "fileCount" | "blockSize" | "blockCount" | "random" => {
            heading::WORKLOAD
        }
        "iterations" | "runCount" | "useWarmup" | "warmupCycleCount" => heading::TIME,
        "exportOutput" | "minLogLevel" | "sink" | "logFile" | "logFormat" => heading::OUTPUT,
        _ => heading::MACHINE,
    }
}

/// The typed options; [`Options`] interprets them.
#[derive(Debug)]
pub struct Arguments {
    typed: Vec<(&'static str, String)>,
    precision: Option<String>,
    budget: Option<String>,
    report: Option<PathBuf>,
    out: Option<PathBuf>,
    help_option: Option<String>,
    allow_concurrent: bool,
}

impl Arguments {
    /// Returns one block, or the blocks that a precision takes.
    fn repetition(&self) -> anyhow::Result<Settings> {
        let mut settings = match self.precision {
            Some(_) => Settings::default(),
            None => Settings::default().with_number("blocks", 1),
        };
        for (name, text) in [(PRECISION, &self.precision), (BUDGET, &self.budget)] {
            if let Some(text) = text {
                let read = settings.read(name, text);
                read.map_err(|why| {
                    failure::error(&code::INVALID_VALUE, format!("--{name}: {why}"))
                })?;
            }
        }
        Ok(settings)
    }
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let benchmark = Arg::new("operation")
            .value_name("create|read|write")
            .conflicts_with("benchmark");
        let concurrent = Arg::new(CONCURRENT)
            .long(CONCURRENT)
            .action(ArgAction::SetTrue);
        let command = command
            .about(ABOUT)
            .long_about(format!("{ABOUT}\n\n{DETAILS}"))
            .arg(benchmark.help("Operation to measure").hide_short_help(true))
            .override_usage("fsb micro [create|read|write] [--output DIR] [OPTIONS]")
            .after_help(EXAMPLES);
        let command = KEYS.iter().fold(command, |command, key| {
            let mut arg = Arg::new(key.name)
                .long(kebab(key.name))
                .alias(key.name)
                .value_name(key.value)
                .help(key.about);
            if key.name != kebab(key.name) {
                arg = arg.alias(key.name);
            }
            if key.is_switch() {
                arg = arg.num_args(0..=1).default_missing_value("true");
            }
            command.arg(
                arg.help_heading(heading_of(key.name))
                    .hide_short_help(RARE.contains(&key.name)),
            )
        });
        let precision = Arg::new(PRECISION)
            .long(PRECISION)
            .value_name("P")
            .help_heading(heading::TIME);
        let command = command.arg(precision.help("Add blocks of cycles until mean is within ±P"));
        let budget = Arg::new(BUDGET)
            .long(BUDGET)
            .value_name("TIME")
            .requires(PRECISION)
            .help_heading(heading::TIME);
        let command = command.arg(
            budget
                .help("Time limit of --precision [default: 5m]")
                .hide_short_help(true),
        );
        let report = Arg::new(REPORT)
            .long(REPORT)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf));
        let report = report
            .help("Report with diagrams, such as a.html")
            .help_heading(heading::OUTPUT);
        let command = command.arg(report.hide_short_help(true));
        let out = Arg::new(OUT)
            .long(OUT)
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf));
        let out = out
            .help("Keep the run in a new directory")
            .help_heading(heading::OUTPUT);
        let command = command.arg(out.hide_short_help(true));
        let about = Arg::new(HELP_OPTION)
            .long(HELP_OPTION)
            .value_name("NAME")
            .help_heading(heading::OUTPUT);
        let command = command.arg(
            about
                .help("Print help on one option and exit")
                .hide_short_help(true),
        );
        let help = "Measure although another fsb measures";
        command.arg(
            concurrent
                .help(help)
                .help_heading(heading::MACHINE)
                .hide_short_help(true),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut typed = Vec::new();
        if let Some(operation) = matches.get_one::<String>("operation") {
            typed.push(("benchmark", operation.clone()));
        }
        for key in KEYS {
            if let Some(value) = matches.get_one::<String>(key.name) {
                typed.push((key.name, value.clone()));
            }
        }
        let own = |name| matches.get_one::<String>(name).cloned();
        let (precision, budget) = (own(PRECISION), own(BUDGET));
        let report = matches.get_one::<PathBuf>(REPORT).cloned();
        let out = matches.get_one::<PathBuf>(OUT).cloned();
        let (help_option, allow_concurrent) = (own(HELP_OPTION), matches.get_flag(CONCURRENT));
        Ok(Arguments {
            typed,
            precision,
            budget,
            report,
            out,
            help_option,
            allow_concurrent,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn kebab(camel: &str) -> String {
    camel
        .chars()
        .flat_map(|c| {
            c.is_ascii_uppercase()
                .then_some('-')
                .into_iter()
                .chain([c.to_ascii_lowercase()])
        })
        .collect()
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    if let Some(name) = &arguments.help_option {
        results::print(&help_on(name)?)?;
        return Ok(exit::DONE);
    }
    let mut options = options(arguments)?;
    let mut log = Log::open(&options)?;
    message::log_to(log.clone());
    if let Some(path) = &options.export_output {
        owner::check_option("--exportOutput", path, "results.csv")?;
    }
    run_directory::check(arguments.out.as_deref())?;
    let report = report(arguments)?;
    warn_of_options(&options, arguments.precision.is_some());
    let repetition = arguments.repetition()?;
    // A wrong --precision or --budget is refused before the pilot.
    let resolved = plan(&options, &repetition)?;
    let requested = resolved.plan.repetition;
    check_space(&options, &resolved)?;
    let turn = Turn::new(arguments.allow_concurrent);
    if arguments.precision.is_some()
        && let Some(code) = choose_amounts(&mut options, &mut log, turn)?
    {
        return Ok(code);
    }
    log_estimate(&options, &log)?;
    if let Repetition::Precision { half_width, .. } = requested {
        let (cycles, asked) = (
            counted(options.run_count as usize, "cycle"),
            percent(half_width),
        );
        let text = format!("blocks of {cycles}, from {FEWEST_BLOCKS_JUDGED} on until ±{asked}");
        log.write(Level::Info, &text)?;
    }
    let mut journal = MemoryJournal {
        out: arguments.out.clone(),
        ..MemoryJournal::default()
    };
    let run = measure(&options, &repetition, &mut log, turn, &mut journal)?;
    let code = show(&run, &options, &report, &mut log);
    if let Some(directory) = journal.directory {
        // Trials that the budget cut are in the directory as well.
        let all = directory.0.read()?.trials;
        run_directory::close(directory.0, run.record, &all, &log.written())?;
    }
    match run.unfinished {
        Some(error) => Err(error),
        None => code,
    }
}

/// Returns the destination of `--report`. A wrong name is refused before the measurement.
fn report(arguments: &Arguments) -> anyhow::Result<Output> {
    let mut report = Output::default();
    report.to.files.extend(arguments.report.clone());
    if let Some(path) = &arguments.report {
        report.resolve()?;
        owner::check_option("--report", path, "results.html")?;
    }
    Ok(report)
}

/// Logs the results of a run, which may have ended early, and writes the requested files. Returns
/// the exit code.
fn show(run: &OwnRun, options: &Options, report: &Output, log: &mut Log) -> anyhow::Result<u8> {
    if run.unfinished.is_some() && run.trials.is_empty() {
        return Ok(exit::TRIALS);
    }
    let code = finish(&run.record, &run.trials, options, log)?;
    if code == exit::DONE && !report.to.files.is_empty() {
        let summary = summary::of_run_in_memory(&run.record, &run.trials);
        report.emit(&Report::of_run(&summary, &run.trials))?;
    }
    if run.unfinished.is_some() {
        let mut cycles = 0;
        for trial in &run.trials {
            cycles += trial.observed.seconds_per_iteration.len();
        }
        let of = match run.record.plan.repetition {
            Repetition::Precision { .. } => String::new(),
            _ => format!(" of {}", options.run_count),
        };
        let text = format!("interrupted after {cycles}{of} cycles: the results are theirs");
        warn(&notice::MEASURED_IN_PART, &text);
    }
    Ok(code)
}

/// Warns of options without effect and of a measured directory that is a default.
fn warn_of_options(options: &Options, has_precision: bool) {
    let chooses_iterations = has_precision && !options.is_given("iterations");
    if options.multi_threaded && options.iterations < SHARED && !chooses_iterations {
        let text =
            "10 iterations or fewer run in one thread, as in Pokorný's tool: raise --iterations";
        warn(&notice::ONE_THREAD, text);
    }
    let threads = threads(options);
    if threads > options.iterations && !chooses_iterations {
        let text = format!(
            "{} of {threads} threads have no work, because a cycle has only {}: raise --iterations, or lower --threadCount",
            threads - options.iterations,
            iterations(options)
        );
        warn(&notice::IDLE_THREADS, &text);
    }
    if options.output.is_none() {
        let text = format!("no --output: measuring {}", default_directory().display());
        warn(&notice::DEFAULT_DIRECTORY, &text);
    }
}

/// Returns the number of threads that share the iterations of a cycle.
fn threads(options: &Options) -> u64 {
    match options.threads() {
        0 => coordinator::cpus().into(),
        threads => threads,
    }
}

/// Returns the directory that is measured.
fn measured_directory(options: &Options) -> PathBuf {
    options.output.clone().unwrap_or_else(default_directory)
}

/// Returns the directory of temporary files, in which the 2023 tool works by default, so that it
/// does not fill the current one. An empty TMPDIR names none.
fn default_directory() -> PathBuf {
    match std::env::temp_dir() {
        empty if empty.as_os_str().is_empty() => PathBuf::from("/tmp"),
        directory => directory,
    }
}

// The amounts of work, which are known before anything is written.

/// A device of this rate, in bytes a second, gives the time of a warning about large amounts.
const FAST_DEVICE: u64 = 1 << 30;
/// Amounts that such a device takes longer to write are rarely meant.
const LONG: Duration = Duration::from_secs(3600);

/// The files that the cycles of a block make, of which each iteration removes its own.
struct Amounts {
    /// Warm-up and measured cycles.
    cycles: u64,
    /// Files of all iterations.
    files: u64,
    /// Bytes of a file; 0 for create.
    file_size: u64,
}

impl Amounts {
    fn new(options: &Options) -> Amounts {
        let warm_up = if options.use_warmup {
            options.warmup_cycle_count
        } else {
            0
        };
        let cycles = options.run_count.saturating_add(warm_up);
        let is_create = options.benchmark == Benchmark::Create;
        let file_size = options.block_size.saturating_mul(options.block_count) << 10;
        Amounts {
            cycles,
            files: cycles
                .saturating_mul(options.iterations)
                .saturating_mul(options.files()),
            file_size: if is_create { 0 } else { file_size },
        }
    }

    /// Returns the bytes that are written in all.
    fn bytes(&self) -> u64 {
        self.files.saturating_mul(self.file_size)
    }

    /// Returns the size of a file and of all.
    fn sizes(&self) -> String {
        let (size, all) = (self.file_size as f64, self.bytes() as f64);
        format!("{}: {}", show_bytes(size), show_bytes(all))
    }

    /// Returns a warning if even a fast device needs [`LONG`] to write all bytes.
    fn rarely_meant(&self) -> Option<String> {
        let time = Duration::from_secs(self.bytes() / FAST_DEVICE);
        (time > LONG).then(|| {
            format!(
                "a file has {} (blockSize × blockCount), and {} are written in all, which take {} on a device that writes \
                 {} in a second: lower --blockCount, --iterations or --runCount",
                show_bytes(self.file_size as f64),
                show_bytes(self.bytes() as f64),
                show_duration(time),
                show_bytes(FAST_DEVICE as f64)
            )
        })
    }
}

/// Checks that the files of all threads fit into the free space, before anything is written.
fn check_space(options: &Options, resolved: &Resolved) -> anyhow::Result<()> {
    let directory = measured_directory(options);
    let (Some(cell), Some(room)) = (resolved.work.cells.first(), FreeSpace::at(&directory)) else {
        return Ok(());
    };
    let need = Need {
        bytes: cell.profile.space,
        files: cell.profile.inodes,
    };
    if room.holds(need) {
        return Ok(());
    }
    let size = Amounts::new(options).file_size;
    let lower = if size == 0 {
        "--fileCount"
    } else {
        "--blockCount, --blockSize, --fileCount"
    };
    let mut files = counted(options.files() as usize, "file");
    if size > 0 {
        files = format!("{files} of {}", show_bytes(size as f64));
    }
    if threads(options) > 1 {
        files = format!("{files} in each of {} threads", threads(options));
    }
    Err(failure::advised(
        &code::NO_SPACE,
        format!("this run {}: it makes {files}", room.lacks(need)),
        format!("lower {lower} or --threadCount, or name a larger file system with --output"),
    ))
}

/// Logs what the cycles of a block write, and warns of amounts that are rarely meant.
fn log_estimate(options: &Options, log: &Log) -> anyhow::Result<()> {
    // A missing directory is refused next.
    if !measured_directory(options).is_dir() {
        return Ok(());
    }
    let amounts = Amounts::new(options);
    let (cycles, each) = (
        counted(amounts.cycles as usize, "cycle"),
        iterations(options),
    );
    let files = counted(amounts.files as usize, "file");
    let work = match options.benchmark {
        Benchmark::Create => "created".to_owned(),
        Benchmark::Read => format!("of {}, written and read", amounts.sizes()),
        Benchmark::Write => format!("of {}, written", amounts.sizes()),
    };
    if let Some(text) = amounts.rarely_meant() {
        warn(&notice::MICRO_LARGE, &text);
    }
    let text = format!("estimate: {cycles} of {each}:\n  {files} {work}");
    log.write(Level::Info, &text)
}

/// Returns the help on one option, with its forms on the command line and in the file of settings.
fn help_on(name: &str) -> anyhow::Result<String> {
    let wanted = name.trim_start_matches('-');
    let Some(key) = KEYS
        .iter()
        .find(|key| key.name == wanted || kebab(key.name) == wanted)
    else {
        let message = unknown("option", wanted, KEYS.iter().map(|key| key.name));
        return Err(failure::error(&code::INVALID_MICRO, message));
    };
    let (name, value) = (
        key.name,
        if key.is_switch() {
            "true|false"
        } else {
            key.value
        },
    );
    let lower = kebab(name);
    let other = if lower == name {
        String::new()
    } else {
        format!(", --{lower} {value}")
    };
    let without = if key.is_switch() {
        "\nWithout a value it means true."
    } else {
        ""
    };
    Ok(format!(
        "--{name} {value}{other}\n{SETTINGS}: {name} = {value}\n\n{}.{without}\n",
        key.about
    ))
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    let mut options = Options::default();
    match fsb_store::input::read_text(Path::new(SETTINGS), LARGEST_SCRIPT) {
        Ok(text) => options.set_from_ini(&text).map_err(|error| {
            failure::error(&code::INVALID_INPUT, format!("{SETTINGS}: {error}"))
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(failure::failed_call(
                &code::UNREADABLE,
                &error,
                format!("cannot read {SETTINGS}: {error}"),
            ));
        }
    }
    for (name, value) in &arguments.typed {
        options
            .set(name, value)
            .map_err(|error| failure::error(&code::INVALID_MICRO, format!("--{error}")))?;
    }
    Ok(options)
}

/// Returns an account of the options as a number.
fn account(
    option: &str,
    text: Option<&String>,
    find: fn(&str) -> Result<u32, Refusal>,
) -> anyhow::Result<Option<u32>> {
    let number = text.map(|text| find(text)).transpose();
    number.map_err(|why| failure::error(&code::INVALID_MICRO, format!("--{option}: {why}")))
}

// The trials of `fsb micro`: their phases in the log, and the pilot that chooses iterations and
// warm-up.

/// The duration of a cycle if fsb chooses the iterations: twice the least that the thesis asks for
/// (section 4.4.3), because the pilot only estimates it.
const CYCLE: Duration = Duration::from_millis(200);
/// The cycles of the pilot trial, from which fsb chooses iterations and warm-up.
const PILOT_CYCLES: u64 = 20;
/// The maximum number of iterations that fsb chooses.
const MOST_ITERATIONS: u64 = 100_000;
/// The fewest iterations that threads share.
const SHARED: u64 = 11;

/// Returns the settings with the user that workers run as.
fn as_user(mut settings: Settings, options: &Options) -> anyhow::Result<Settings> {
    let user = account("uid", options.user.as_ref(), fsb_sys::account::uid)?;
    let group = account("gid", options.group.as_ref(), fsb_sys::account::gid)?;
    for (name, id) in [("uid", user), ("gid", group)] {
        if let Some(id) = id {
            settings = settings.with_number(name, id.into());
        }
    }
    settings.set(
        "force_root_user",
        SettingValue::Flag(options.force_root_user),
    );
    Ok(settings)
}

/// Returns the plan of one workload on one directory.
fn plan(options: &Options, repetition: &Settings) -> anyhow::Result<Resolved> {
    let output = measured_directory(options);
    // An absolute path cannot be mistaken for a file system.
    let target = owner::absolute(&output)?;
    let typed = PlanFile {
        settings: as_user(repetition.clone().with_text("name", "micro"), options)?,
        targets: vec![typed(&target.display().to_string())],
        workloads: vec![options.workload()],
        // The 2023 tool did not touch memory first; keep its convention.
        controls: [("guest-memory".to_owned(), "off".to_owned())].into(),
        ..PlanFile::default()
    };
    Ok(typed.resolve(coordinator::cpus(), coordinator::fresh_seed())?)
}

/// Makes the trials, and logs the phases of each.
fn measure(
    options: &Options,
    repetition: &Settings,
    log: &mut Log,
    turn: Turn,
    journal: &mut MemoryJournal,
) -> anyhow::Result<OwnRun> {
    let (mut record, work) = new_record(plan(options, repetition)?)?;
    record.emulation_of = Some(run_directory::tool("micro"));
    let verbosity = Verbosity {
        quiet: options.min_log_level > Level::Info,
        verbose: false,
    };
    let progress = Progress::new(&record.plan.targets, false, verbosity);
    let mut observer = EndTimes {
        progress,
        ended: Vec::new(),
    };
    let made = coordinator::perform_own((record, work), journal, &mut observer, turn);
    observer.progress.finish();
    let mut run = made?;
    // Of many blocks, the phases are details.
    let level = if run.trials.len() > 1 {
        Level::Debug
    } else {
        Level::Info
    };
    for (trial, ended) in run.trials.iter().zip(&observer.ended) {
        log_phases(trial, *ended, level, log)?;
    }
    // A trial that the budget cut does not count.
    // Neither does one that was interrupted before its first cycle ended.
    let unfinished = run.unfinished.is_some();
    run.trials
        .retain(|trial| trial.counts() && !(unfinished && trial.outcome != Outcome::Ok));
    Ok(run)
}

/// Shows the progress, and notes when trials end. The plan of the blocks is not shown, because the
/// log says when they end.
struct EndTimes {
    progress: Progress,
    ended: Vec<Timestamp>,
}

const NOT_TOUCHED: &str = "memory that this virtual machine uses for the first time is slow, and is not touched first, \
                           as in Pokorný's tool: add cycles with --warmupCycleCount";

impl Observer for EndTimes {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Planned { .. } => return,
            // The durable writes of its text are not those of this tool.
            Event::Warning(Warning::UnbackedMemory {
                cause: UnbackedMemory::LeftAlone,
            }) => {
                // A pilot and the measurement apply the same control.
                static ONCE: Once = Once::new();
                ONCE.call_once(|| warn(&notice::MEMORY_NOT_TOUCHED, NOT_TOUCHED));
                return;
            }
            Event::Ended { .. } => self.ended.push(Timestamp::now()),
            _ => {}
        }
        self.progress.event(event);
    }
}

/// Logs when warm-up, cycles and clean-up of a trial began and ended. The lines carry these times,
/// although they are written after the trial: a process that measures does not print.
fn log_phases(trial: &Trial, ended: Timestamp, level: Level, log: &mut Log) -> anyhow::Result<()> {
    let (spans, samples) = (
        &trial.observed.cycle_spans_ns,
        &trial.observed.seconds_per_iteration,
    );
    if trial.outcome != Outcome::Ok || spans.len() < samples.len() {
        return Ok(());
    }
    let (now, clock) = (Timestamp::now(), clock_gettime(ClockId::Monotonic));
    let now_ns = clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64;
    let at = |ns: u64| before(now, Duration::from_nanos(now_ns.saturating_sub(ns)));
    let (warm_up, measured) = spans.split_at(spans.len() - samples.len());
    for (name, spans) in [("warm-up", warm_up), ("measurement", measured)] {
        let (Some([begin, _]), Some([_, end])) = (spans.first(), spans.last()) else {
            continue;
        };
        log.write_at(
            at(*begin),
            level,
            &format!("{name} begins: {}", counted(spans.len(), "cycle")),
        )?;
        if name != "warm-up" {
            for (number, (span, sample)) in (1..).zip(measured.iter().zip(samples)) {
                let text = format!(
                    "cycle {number}: {:.3} µs per iteration, {:.3} ms",
                    sample * 1e6,
                    milliseconds(span)
                );
                log.write_at(at(span[1]), Level::Debug, &text)?;
            }
        }
        log.write_at(at(*end), level, &format!("{name} ends"))?;
    }
    let cleanup = trial
        .observed
        .spent_seconds
        .map_or(0.0, |spent| spent.cleanup);
    log.write_at(
        before(ended, Duration::from_secs_f64(cleanup)),
        level,
        "clean-up begins",
    )?;
    log.write_at(ended, level, "clean-up ends")
}

fn before(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_sub(duration).unwrap_or(time)
}

/// Returns the duration of a cycle in milliseconds.
fn milliseconds([start, end]: &[u64; 2]) -> f64 {
    end.saturating_sub(*start) as f64 * 1e-6
}

/// Chooses the iterations and the warm-up cycles that were not set, from a pilot trial without
/// warm-up. Returns the exit code if the pilot fails.
///
/// The iterations let a cycle last [`CYCLE`]. The warm-up is as long as that of the pilot, in
/// iterations, and at least one cycle.
fn choose_amounts(options: &mut Options, log: &mut Log, turn: Turn) -> anyhow::Result<Option<u8>> {
    let chooses_iterations = !options.is_given("iterations");
    let chooses_warm_up = options.use_warmup && !options.is_given("warmupCycleCount");
    if !chooses_iterations && !chooses_warm_up {
        return Ok(None);
    }
    if chooses_iterations && options.multi_threaded {
        options.iterations = options.iterations.max(SHARED);
    }
    let pilot = Options {
        run_count: PILOT_CYCLES,
        use_warmup: false,
        ..options.clone()
    };
    log.write(
        Level::Info,
        &format!("pilot: {PILOT_CYCLES} cycles of {}", iterations(&pilot)),
    )?;
    let once = Settings::default().with_number("blocks", 1);
    let OwnRun {
        trials, unfinished, ..
    } = measure(&pilot, &once, log, turn, &mut MemoryJournal::default())?;
    if let Some(error) = unfinished {
        return Err(error);
    }
    if let Some(code) = failure(&trials)? {
        return Ok(Some(code));
    }
    let observed = &trials[0].observed;
    if chooses_iterations {
        let cycle = describe(&cycle_milliseconds(&trials))?.mean * 1e-3 / pilot.iterations as f64;
        let fewest = if options.multi_threaded { SHARED } else { 1 };
        options.iterations =
            ((CYCLE.as_secs_f64() / cycle).ceil() as u64).clamp(fewest, MOST_ITERATIONS);
    }
    if chooses_warm_up {
        let warm_up = warm_up_length(&observed.seconds_per_iteration)? as u64 * pilot.iterations;
        options.warmup_cycle_count = warm_up.div_ceil(options.iterations).max(1);
    }
    let warm_up = if options.use_warmup {
        options.warmup_cycle_count
    } else {
        0
    };
    let text = format!(
        "chosen: {}, {} of warm-up",
        iterations(options),
        counted(warm_up as usize, "cycle")
    );
    log.write(Level::Info, &text)?;
    Ok(None)
}

/// Returns the number of iterations of a cycle, as text.
fn iterations(options: &Options) -> String {
    counted(options.iterations as usize, "iteration")
}

/// Returns the durations of the measured cycles of all trials.
fn cycle_milliseconds(trials: &[Trial]) -> Vec<f64> {
    let of_trial = |trial: &Trial| {
        let spans = &trial.observed.cycle_spans_ns;
        let warm_up = spans
            .len()
            .saturating_sub(trial.observed.seconds_per_iteration.len());
        spans[warm_up..]
            .iter()
            .map(milliseconds)
            .collect::<Vec<_>>()
    };
    trials.iter().flat_map(of_trial).collect()
}

/// Logs the reason of the first trial that did not end well. Returns the exit code for it.
fn failure(trials: &[Trial]) -> anyhow::Result<Option<u8>> {
    trials.first().context("no trial was made")?;
    let Some(failed) = trials.iter().find(|trial| trial.outcome != Outcome::Ok) else {
        return Ok(None);
    };
    let reason = failed.reason();
    let lines = [format!("error: {reason}")];
    let code = failed.error_code.as_deref();
    message::emit(&Message::new(message::Level::Error, code, reason), &lines);
    Ok(Some(exit::TRIALS))
}

// The results of `fsb micro`: statistics of the cycles, their precision and the exported samples.

/// Logs the results, and writes the exported samples. Returns the exit code.
fn finish(
    record: &RunRecord,
    trials: &[Trial],
    options: &Options,
    log: &mut Log,
) -> anyhow::Result<u8> {
    if let Some(code) = failure(trials)? {
        return Ok(code);
    }
    let samples: Vec<f64> = trials
        .iter()
        .flat_map(|trial| trial.observed.seconds_per_iteration.iter().copied())
        .collect();
    let blocks = if trials.len() > 1 {
        format!(" in {} blocks", trials.len())
    } else {
        String::new()
    };
    let cycles = counted(samples.len(), "cycle");
    log.write(
        Level::Info,
        &format!(
            "{}:\n  {cycles} of {}{blocks}",
            trials[0].workload,
            iterations(options)
        ),
    )?;
    for target in record.targets.values() {
        let kind = target.driver.as_deref().unwrap_or("unknown file system");
        // Each part has a line of its own, because the lines are long with time and level.
        let place = target
            .device
            .as_ref()
            .map(|device| format!(" on {}", device_text(device).replace(", ", "\n  ")));
        log.write(
            Level::Info,
            &format!("directory: {kind}{}", place.unwrap_or_default()),
        )?;
    }
    let microseconds: Vec<f64> = samples.iter().map(|sample| sample * 1e6).collect();
    log.write(
        Level::Info,
        &statistics("time of an iteration", "µs", &microseconds)?,
    )?;
    log.write(
        Level::Info,
        &statistics("duration of a cycle", "ms", &cycle_milliseconds(trials))?,
    )?;
    if trials.len() == 1 {
        warn_of_samples(&microseconds)?;
    }
    log_precision(record, trials.len(), log)?;
    let mut affected = trials.iter().filter(|trial| !trial.interference.is_empty());
    if let Some(first) = affected.next() {
        let causes: Vec<String> = first
            .interference
            .iter()
            .map(fsb_report::interference_text)
            .collect();
        let which = match trials.len() {
            1 => String::new(),
            all => format!(" in {} of {all} blocks, the first", affected.count() + 1),
        };
        let text = format!(
            "interference{which}: {}; measure again on an idle machine",
            causes.join(", ")
        );
        warn(&notice::MICRO_INTERFERENCE, &text);
    }
    if let Some(path) = &options.export_output {
        owner::replace(path, samples_csv(&samples).as_bytes())?;
    }
    Ok(exit::DONE)
}

/// Returns the statistics of the 2023 tool: mean, median, standard deviation, percentiles, and two
/// intervals of the mean by Student's t, which take the cycles as independent.
fn statistics(title: &str, unit: &str, samples: &[f64]) -> anyhow::Result<String> {
    let all = describe(samples)?;
    let mut lines = vec![
        format!("{title}:"),
        format!("  mean                {:.3} {unit}", all.mean),
        format!("  median              {:.3} {unit}", all.median),
        match all.n {
            1 => "  standard deviation  unknown with one cycle".to_owned(),
            _ => format!("  standard deviation  {:.3} {unit}", all.sd),
        },
    ];
    for percent in [5, 25, 75, 95] {
        let value = quantile(samples, f64::from(percent) / 100.0)?;
        lines.push(format!(
            "  {:<18}  {value:.3} {unit}",
            format!("{percent}th percentile")
        ));
    }
    for (name, level) in [("99 %", 0.99), ("99.9 %", 0.999)] {
        let interval = match t_interval(samples, level)? {
            // No time is below zero, so an interval that ends there holds as often.
            Some(interval) => {
                format!("{:.3} to {:.3} {unit}", interval.lo.max(0.0), interval.hi)
            }
            None => "unknown with one cycle".to_owned(),
        };
        lines.push(format!("  {:<18}  {interval}", format!("{name} interval")));
    }
    Ok(lines.join("\n"))
}

/// Half the width of the interval of the mean, as a share of it, that the thesis asks for (2.4.4).
const WIDEST: f64 = 0.05;
/// A distribution is called not normal if a normal one would look so in at most this share of runs.
const RARELY_NORMAL: f64 = 0.001;

/// Warns of samples that the thesis takes for signs of an error (2.4.4): an interval of the mean
/// that is too wide, and a distribution that is not normal.
fn warn_of_samples(microseconds: &[f64]) -> anyhow::Result<()> {
    let all = describe(microseconds)?;
    if let Some(interval) = t_interval(microseconds, 0.99)? {
        let half = (interval.hi - interval.lo) / 2.0 / all.mean;
        if half > WIDEST {
            let text = format!(
                "the 99 % interval of the mean is ±{}, wider than ±5 %: raise --runCount, or use --precision 5%",
                percent(half)
            );
            warn(&notice::MICRO_WIDE, &text);
        }
    }
    let Some(test) = normality(microseconds)?.filter(|test| test.p < RARELY_NORMAL) else {
        return Ok(());
    };
    let text = format!(
        "the cycles are not normally distributed (Shapiro-Wilk W = {:.3}, p < {RARELY_NORMAL}): the intervals may not \
         hold; minimum {:.3}, median {:.3}, maximum {:.3} µs: see the samples with --exportOutput",
        test.w, all.min, all.median, all.max
    );
    warn(&notice::MICRO_NOT_NORMAL, &text);
    Ok(())
}

/// Logs whether the blocks reached the precision of `--precision`.
fn log_precision(record: &RunRecord, blocks: usize, log: &mut Log) -> anyhow::Result<()> {
    let Repetition::Precision {
        half_width,
        seconds,
    } = record.plan.repetition
    else {
        return Ok(());
    };
    let (asked, blocks) = (percent(half_width), counted(blocks, "block"));
    let shortfall = match &record.stop_reason {
        Some(StopReason::Precise { reached, .. }) => {
            let reached =
                reached.map_or_else(String::new, |reached| format!("±{} ", percent(reached)));
            let text = format!(
                "precision {reached}reached after {blocks}\n  (±{asked} requested)\n  It is that of the 95 % interval of \
                 the mean\n  of blocks, which allows for stopping early;\n  the intervals of cycles do not."
            );
            return log.write(Level::Info, &text);
        }
        Some(
            StopReason::BudgetWouldBePassed { shortfall, .. }
            | StopReason::Imprecise { shortfall, .. },
        ) => shortfall,
        _ => &None,
    };
    let found = match shortfall
        .as_ref()
        .and_then(|shortfall| shortfall.widest.half_width)
    {
        Some(found) => format!("the 95 % interval of their mean is ±{}", percent(found)),
        None => format!("the mean is judged from {FEWEST_BLOCKS_JUDGED} on"),
    };
    let budget = show_duration(Duration::from_secs_f64(seconds));
    let text = format!(
        "precision ±{asked} not reached: {budget} held {blocks}, and {found}; raise --budget"
    );
    warn(&notice::MICRO_IMPRECISE, &text);
    Ok(())
}

// The log of the 2023 tool: results, warnings and errors with time and level, on the console and in
// a file. All messages of the process go through it.

/// The 2023 tool's log, with the requested sinks. Clones write to the same ones.
#[derive(Clone)]
struct Log(Arc<Sinks>);

struct Sinks {
    least: Level,
    format: LogFormat,
    console: bool,
    file: Option<File>,
    /// Everything that was written, for the run directory.
    written: Mutex<String>,
}

impl Log {
    /// Opens the requested destinations.
    fn open(options: &Options) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let failure = format!("cannot write --logFile {}", path.display());
            owner::append(path).map_err(|error| owner::unwritable(failure, error))
        };
        let file = options
            .sinks
            .file
            .then(|| open(&options.log_file))
            .transpose()?;
        Ok(Log(Arc::new(Sinks {
            least: options.min_log_level,
            format: options.log_format,
            console: options.sinks.console,
            file,
            written: Mutex::default(),
        })))
    }

    /// Writes text with the current time.
    fn write(&self, level: Level, text: &str) -> anyhow::Result<()> {
        self.write_at(Timestamp::now(), level, text)
    }

    /// Writes text about an event at `time`.
    fn write_at(&self, time: Timestamp, level: Level, text: &str) -> anyhow::Result<()> {
        let sinks = &*self.0;
        if level < sinks.least {
            return Ok(());
        }
        let lines = stamped(time, level, text, sinks.format);
        // Without the console, errors go there all the same: the program ends with them.
        if level == Level::Error || sinks.console && level == Level::Warning {
            match sinks.format {
                LogFormat::Text => message::print_line(lines.trim_end()),
                LogFormat::Json => message::print_as_is(&lines),
            }
        } else if sinks.console {
            results::print(&lines)?;
        }
        self.append(&lines)
    }

    /// Returns everything that was written, for the run directory.
    fn written(&self) -> String {
        let written = self.0.written.lock();
        written.map(|text| text.clone()).unwrap_or_default()
    }

    fn append(&self, lines: &str) -> anyhow::Result<()> {
        if let Ok(mut written) = self.0.written.lock() {
            written.push_str(lines);
        }
        if let Some(mut file) = self.0.file.as_ref() {
            file.write_all(lines.as_bytes())?;
        }
        Ok(())
    }
}

impl message::Log for Log {
    /// Writes a message of the process. A sink that fails has failed for the results, too, which
    /// report it.
    fn write(&self, message: &Message, text: &str) {
        let level = match message.level {
            message::Level::Error => Level::Error,
            message::Level::Warning => Level::Warning,
            message::Level::Note => Level::Info,
        };
        let sinks = &*self.0;
        if message::format() == MessageFormat::Text {
            let _ = self.write_at(Timestamp::now(), level, text);
        } else if level >= sinks.least {
            // Programs read messages as such.
            if sinks.console || level == Level::Error {
                message::print(message);
            }
            let _ = self.append(&stamped(Timestamp::now(), level, text, sinks.format));
        }
    }
}

/// Logs a warning.
fn warn(notice: &notice::Notice, text: &str) {
    notify(notice, [], text);
}

/// Returns the lines of a text, each with time and level, or one object for programs.
fn stamped(time: Timestamp, level: Level, text: &str, format: LogFormat) -> String {
    let (time, level) = (time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"), level_name(level));
    match format {
        LogFormat::Json => {
            let time = time.to_string();
            let object = serde_json::json!({"time": time, "level": level, "message": text});
            format!("{object}\n")
        }
        LogFormat::Text => text
            .lines()
            .map(|line| format!("{time} [{level}] {line}\n"))
            .collect(),
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_amounts_of_listing_6_6_are_named() {
        let mut options = Options::default();
        for (name, value) in [
            ("fileCount", "1"),
            ("iterations", "10"),
            ("blockSize", "512"),
            ("blockCount", "65536"),
        ] {
            options.set(name, value).unwrap();
        }
        let amounts = Amounts::new(&options);
        assert_eq!((amounts.cycles, amounts.files), (33, 330));
        assert_eq!(amounts.bytes(), 330 * (32 << 30));
        let warning = amounts.rarely_meant().unwrap();
        assert!(
            warning.contains("32.0 GiB") && warning.contains("10.3 TiB"),
            "{warning}"
        );
        // Section 6.2.1 has the same test with files of 8 MiB.
        options.set("blockCount", "16").unwrap();
        let amounts = Amounts::new(&options);
        assert_eq!((amounts.file_size, amounts.rarely_meant()), (8 << 20, None));
        options.set("benchmark", "create").unwrap();
        assert_eq!(Amounts::new(&options).bytes(), 0);
    }

    #[test]
    fn intervals_of_times_end_at_zero_and_one_cycle_has_no_deviation() {
        let text = statistics("time", "µs", &[1.0, 1000.0]).unwrap();
        assert!(text.contains("99 % interval       0.000 to "), "{text}");
        let one = statistics("time", "µs", &[3.0]).unwrap();
        assert_eq!(one.matches("unknown with one cycle").count(), 3, "{one}");
        assert!(one.contains("standard deviation  unknown"), "{one}");
    }
}
