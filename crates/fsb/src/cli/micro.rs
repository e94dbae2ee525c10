//! `fsb micro`: the 2023 tool's own command line, on one directory.
//!
//! The options come from a table in `fsb-compat`, so that the command line and `settings.ini` cannot differ; the table
//! is passed to clap.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fsb_codes::notice::{self, Notice};
use fsb_compat::pokorny::{KEYS, Level, Options};
use fsb_input::LARGEST_SCRIPT;
use fsb_model::units::show_seconds;
use fsb_model::{Outcome, Trial};
use fsb_runner::plan_file::{PlanFile, RepetitionFile, Resolved, typed};
use fsb_stats::{describe, t_interval};

use super::help::heading;
use crate::coordinator::{self, Turn};
use crate::journal::Nowhere;
use crate::progress::{Progress, Verbosity};
use crate::stderr::{notify, say};
use crate::{author, code, exit, results};

/// The file of settings in the current directory.
const SETTINGS: &str = "settings.ini";

/// Options that only the complete help page lists.
const RARE: [&str; 7] = ["benchmark", "uid", "gid", "forceRootUser", "minLogLevel", "sink", "logFile"];

/// An option of fsb, not a setting of the 2023 tool.
const CONCURRENT: &str = "allow-concurrent";

const ABOUT: &str = "Micro-benchmark one directory, with the options of the 2023 tool";

const DETAILS: &str = "\
Measures the mean time of an iteration, cycle by cycle. Option names are the 2023 tool's (--fileCount) or lower-case \
(--file-count). fsb reads settings.ini in the working directory first.";

const EXAMPLES: &str = "\
Examples:
  fsb micro create --output /srv/data --fileCount 1000
  fsb micro read --output /srv/data --blockSize 4 --random --exportOutput r.csv
  fsb micro --benchmark write --output /srv/data --iterations 20 --multiThreaded";

/// Returns the heading of an option on the complete help page.
fn heading_of(key: &str) -> &'static str {
    match key {
        "output" | "benchmark" | "fileCount" | "blockSize" | "blockCount" | "random" => heading::WORKLOAD,
        "iterations" | "runCount" | "useWarmup" | "warmupCycleCount" => heading::TIME,
        "exportOutput" | "minLogLevel" | "sink" | "logFile" => heading::OUTPUT,
        _ => heading::MACHINE,
    }
}

/// The typed options; [`Options`] interprets them.
#[derive(Debug)]
pub struct Arguments {
    typed: Vec<(&'static str, String)>,
    allow_concurrent: bool,
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let benchmark = Arg::new("operation").value_name("create|read|write").conflicts_with("benchmark");
        let concurrent = Arg::new(CONCURRENT).long(CONCURRENT).action(ArgAction::SetTrue);
        let command = command
            .about(ABOUT)
            .long_about(format!("{ABOUT}\n\n{DETAILS}"))
            .arg(benchmark.help("Operation to measure").hide_short_help(true))
            .override_usage("fsb micro [create|read|write] [--output DIR] [OPTIONS]")
            .after_help(EXAMPLES);
        let command = KEYS.iter().fold(command, |command, key| {
            let mut arg =
                Arg::new(key.name).long(kebab(key.name)).alias(key.name).value_name(key.value).help(key.about);
            if key.name != kebab(key.name) {
                arg = arg.alias(key.name);
            }
            if key.is_switch() {
                arg = arg.num_args(0..=1).default_missing_value("true");
            }
            command.arg(arg.help_heading(heading_of(key.name)).hide_short_help(RARE.contains(&key.name)))
        });
        let help = "Measure although another fsb measures";
        command.arg(concurrent.help(help).help_heading(heading::MACHINE).hide_short_help(true))
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
        Ok(Arguments { typed, allow_concurrent: matches.get_flag(CONCURRENT) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn kebab(camel: &str) -> String {
    camel
        .chars()
        .flat_map(|c| c.is_ascii_uppercase().then_some('-').into_iter().chain([c.to_ascii_lowercase()]))
        .collect()
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let options = options(arguments)?;
    let mut log = Log::open(&options)?;
    if let Some(path) = &options.export_output {
        if path.is_dir() {
            return Err(exit::advised(
                &code::UNWRITABLE,
                format!("--exportOutput {} is a directory", path.display()),
                "name a file, such as results.csv",
            ));
        }
        author::check(path).map_err(|error| {
            exit::failure(
                &code::UNWRITABLE,
                format!("cannot write --exportOutput {}: {}", path.display(), author::reason(error)),
            )
        })?;
    }
    if options.multi_threaded && options.iterations <= 10 {
        let text = "10 iterations or fewer run in one thread, as in the 2023 tool: raise --iterations";
        log.warn(&notice::ONE_THREAD, text)?;
    }
    if options.output.is_none() {
        let text = format!("no --output: measuring {}", std::env::temp_dir().display());
        log.warn(&notice::DEFAULT_DIRECTORY, &text)?;
    }
    let resolved = plan(&options)?;
    let turn = Turn::of(arguments.allow_concurrent);
    let verbosity = Verbosity { quiet: options.min_log_level > Level::Info, verbose: false };
    let mut progress = Progress::new(&resolved.plan.targets, false, verbosity);
    let trials = coordinator::perform_unsaved(resolved, &mut Nowhere, &mut progress, turn);
    progress.finish();
    finish(&trials?, &options, &mut log)
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    let mut options = Options::default();
    match fsb_input::read_text(Path::new(SETTINGS), LARGEST_SCRIPT) {
        Ok(text) => options
            .set_from_ini(&text)
            .map_err(|error| exit::failure(&code::INVALID_INPUT, format!("{SETTINGS}: {error}")))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(exit::failure(&code::UNREADABLE, format!("cannot read {SETTINGS}: {error}"))),
    }
    for (name, value) in &arguments.typed {
        options.set(name, value).map_err(|error| exit::failure(&code::INVALID_MICRO, format!("--{error}")))?;
    }
    Ok(options)
}

fn plan(options: &Options) -> anyhow::Result<Resolved> {
    // The 2023 tool works in the directory of temporary files by default, so that it does not fill the current one.
    let output = options.output.clone().unwrap_or_else(std::env::temp_dir);
    // An absolute path cannot be mistaken for a file system.
    let target = author::absolute(&output)?;
    let typed = PlanFile {
        name: Some("micro".to_owned()),
        targets: vec![typed(&target.display().to_string())],
        workloads: vec![options.workload()],
        identity: options.identity.clone(),
        repetition: RepetitionFile { blocks: Some(1), ..RepetitionFile::default() },
        // The 2023 tool did not touch memory first; keep its convention.
        controls: [("guest-memory".to_owned(), "off".to_owned())].into(),
        ..PlanFile::default()
    };
    Ok(typed.resolve(coordinator::cpus(), coordinator::fresh_seed())?)
}

fn finish(trials: &[Trial], options: &Options, log: &mut Log) -> anyhow::Result<u8> {
    let trial = trials.first().context("no trial was made")?;
    if trial.outcome != Outcome::Ok {
        log.write(Level::Error, &trial.reason())?;
        return Ok(exit::TRIALS);
    }
    let samples = &trial.observed.seconds_per_iteration;
    for (cycle, sample) in samples.iter().enumerate() {
        log.write(Level::Debug, &format!("cycle {}: {:.3} µs an iteration", cycle + 1, sample * 1e6))?;
    }
    log.write(Level::Info, &summary(trial, samples)?)?;
    if !trial.interference.is_empty() {
        let causes: Vec<String> = trial.interference.iter().map(fsb_report::interference_text).collect();
        let text = format!("interference: {}; measure again on an idle machine", causes.join(", "));
        log.warn(&notice::MICRO_INTERFERENCE, &text)?;
    }
    if let Some(path) = &options.export_output {
        let rows: String = samples.iter().map(|sample| format!("{}\n", sample * 1e6)).collect();
        author::replace(path, rows.as_bytes())?;
    }
    Ok(exit::DONE)
}

/// Returns mean, median, standard deviation and the two intervals of the 2023 tool.
fn summary(trial: &Trial, samples: &[f64]) -> anyhow::Result<String> {
    let all = describe(samples)?;
    let count = |n: usize| if n == 1 { "1 cycle".to_owned() } else { format!("{n} cycles") };
    let mut lines = vec![
        format!("{}: time of one iteration, {}", trial.workload, count(all.n)),
        format!("  mean                 {}", show_seconds(all.mean)),
        format!("  median               {}", show_seconds(all.median)),
        format!("  standard deviation   {}", show_seconds(all.sd)),
    ];
    for (name, level) in [("99 %", 0.99), ("99.9 %", 0.999)] {
        let interval = match t_interval(samples, level)? {
            Some(interval) => format!("{} to {}", show_seconds(interval.lo), show_seconds(interval.hi)),
            None => "unknown with one cycle".to_owned(),
        };
        lines.push(format!("  {name:<6} interval      {interval}"));
    }
    Ok(lines.join("\n"))
}

/// The 2023 tool's log: results and warnings to the requested sinks.
struct Log {
    least: Level,
    console: bool,
    file: Option<File>,
}

impl Log {
    fn open(options: &Options) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            author::append(path).map_err(|error| {
                exit::failure(
                    &code::UNWRITABLE,
                    format!("cannot write --logFile {}: {}", path.display(), author::reason(error)),
                )
            })
        };
        let file = options.sinks.file.then(|| open(&options.log_file)).transpose()?;
        Ok(Log { least: options.min_log_level, console: options.sinks.console, file })
    }

    fn write(&mut self, level: Level, text: &str) -> anyhow::Result<()> {
        if level < self.least {
            return Ok(());
        }
        if self.console && level >= Level::Warning {
            say(text);
        } else if self.console {
            results::print(&format!("{text}\n"))?;
        }
        self.append(level, text)
    }

    /// Prints a warning on standard error.
    fn warn(&mut self, notice: &Notice, text: &str) -> anyhow::Result<()> {
        if Level::Warning < self.least {
            return Ok(());
        }
        if self.console {
            notify(notice, [], text);
        }
        self.append(Level::Warning, text)
    }

    fn append(&mut self, level: Level, text: &str) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
            for line in text.lines() {
                writeln!(file, "{now} [{}] {line}", level_name(level))?;
            }
        }
        Ok(())
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
