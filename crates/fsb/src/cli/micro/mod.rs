//! `fsb micro`: the 2023 tool's own command line, on one directory.
//!
//! The options come from a table in `fsb-compat`, so that the command line and `settings.ini` cannot differ; the table
//! is passed to clap.

mod log;
mod measure;
mod statistics;

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fsb_codes::notice;
use fsb_compat::pokorny::{KEYS, Level, Options};
use fsb_model::Repetition;
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_report::show::{counted, percent};
use fsb_runner::plan_file::RepetitionFile;
use fsb_store::input::LARGEST_SCRIPT;

use super::help::heading;
use crate::coordinator::Turn;
use crate::{code, exit, result_owner};
use log::Log;
use measure::{choose_amounts, measure, plan};

/// The file of settings in the current directory.
const SETTINGS: &str = "settings.ini";

/// Options that only the complete help page lists.
const RARE: [&str; 8] =
    ["warmupCycleCount", "benchmark", "uid", "gid", "forceRootUser", "minLogLevel", "sink", "logFile"];

/// Options of fsb, not settings of the 2023 tool.
const CONCURRENT: &str = "allow-concurrent";
const PRECISION: &str = "precision";
const BUDGET: &str = "budget";

const ABOUT: &str = "Micro-benchmark one directory, with the options of the 2023 tool";

const DETAILS: &str = "\
Measures the mean time of an iteration, cycle by cycle. Option names are the 2023 tool's (--fileCount) or lower-case \
(--file-count). fsb reads settings.ini in the working directory first.";

const EXAMPLES: &str = "\
Examples:
  fsb micro create --output /srv/data --fileCount 1000
  fsb micro read --output /srv/data --blockSize 4 --random --exportOutput r.csv
  fsb micro --benchmark write --output /srv/data --iterations 20 --multiThreaded
  fsb micro read --output /srv/data --precision 2%";

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
    precision: Option<String>,
    budget: Option<String>,
    allow_concurrent: bool,
}

impl Arguments {
    /// Returns one block, or the blocks that a precision takes.
    fn repetition(&self) -> RepetitionFile {
        let (precision, budget) = (self.precision.clone(), self.budget.clone());
        let blocks = precision.is_none().then_some(1);
        RepetitionFile { blocks, precision, budget, sample_time: None }
    }
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
        let precision = Arg::new(PRECISION).long(PRECISION).value_name("P").help_heading(heading::TIME);
        let command = command.arg(precision.help("Add blocks of cycles until mean is within ±P"));
        let budget = Arg::new(BUDGET).long(BUDGET).value_name("TIME").requires(PRECISION).help_heading(heading::TIME);
        let command = command.arg(budget.help("Time limit of --precision [default: 5m]").hide_short_help(true));
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
        let own = |name| matches.get_one::<String>(name).cloned();
        let (precision, budget) = (own(PRECISION), own(BUDGET));
        Ok(Arguments { typed, precision, budget, allow_concurrent: matches.get_flag(CONCURRENT) })
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
    let mut options = options(arguments)?;
    let mut log = Log::open(&options)?;
    if let Some(path) = &options.export_output {
        if path.is_dir() {
            return Err(exit::advised(
                &code::UNWRITABLE,
                format!("--exportOutput {} is a directory", path.display()),
                "name a file, such as results.csv",
            ));
        }
        result_owner::check(path).map_err(|error| {
            exit::failure(
                &code::UNWRITABLE,
                format!("cannot write --exportOutput {}: {}", path.display(), result_owner::reason(error)),
            )
        })?;
    }
    let chooses_iterations = arguments.precision.is_some() && !options.is_given("iterations");
    if options.multi_threaded && options.iterations <= 10 && !chooses_iterations {
        let text = "10 iterations or fewer run in one thread, as in the 2023 tool: raise --iterations";
        log.warn(&notice::ONE_THREAD, text)?;
    }
    if options.output.is_none() {
        let text = format!("no --output: measuring {}", std::env::temp_dir().display());
        log.warn(&notice::DEFAULT_DIRECTORY, &text)?;
    }
    let repetition = arguments.repetition();
    // A wrong --precision or --budget is refused before the pilot.
    let requested = plan(&options, &repetition)?.plan.repetition;
    let turn = Turn::of(arguments.allow_concurrent);
    if arguments.precision.is_some()
        && let Some(code) = choose_amounts(&mut options, &mut log, turn)?
    {
        return Ok(code);
    }
    if let Repetition::Precision { half_width, .. } = requested {
        let (cycles, asked) = (counted(options.run_count as usize, "cycle"), percent(half_width));
        let text = format!("blocks of {cycles}, from {FEWEST_BLOCKS_JUDGED} on until ±{asked}");
        log.write(Level::Info, &text)?;
    }
    let (record, trials) = measure(&options, &repetition, &mut log, turn)?;
    statistics::finish(&record, &trials, &options, &mut log)
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    let mut options = Options::default();
    match fsb_store::input::read_text(Path::new(SETTINGS), LARGEST_SCRIPT) {
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
