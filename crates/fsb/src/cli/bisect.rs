//! `fsb bisect`: since which candidate the work is slower.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fsb_model::setting::SettingCommand;
use fsb_model::units::parse_duration;
use fsb_model::variant::{self, PLACEHOLDER};
use fsb_model::workload::VERIFY_SAME;
use fsb_model::{Settings, WorkloadSpec, code, failure, setting};
use fsb_report::bisection::{Bisection, Candidate, Git, SCHEMA};
use fsb_runner::plan_file::{self, PlanFile, typed};
use fsb_stats::bisection::Ending;
use fsb_store::input;

use super::plan_text::workloads;
use super::run::{CommandArguments, check_units};
use super::settings::{SettingArguments, TakesSettings};
use crate::exit;
use crate::help::heading;
use crate::results::{self, DocumentFormat, json_text, print, print_data};
use crate::run::bisect::{self, Bisecting};
use crate::run::progress::Verbosity;
use crate::run::revisions;
use crate::run::stage::Turn;

const EXAMPLES: &str = "\
Examples:
  fsb bisect --good v1.0 --bad main --build make -- '{}/prog --selftest'
  fsb bisect --candidates 1.0,1.1,1.2,2.0 -- '/opt/{}/bin/prog'
  sudo fsb bisect --candidates @OPTIONS 'ext4,{}' --workload create,files=1000";

/// Find the commit, or member of a list, that made a command slower
///
/// Measures candidates in pairs, beside each other, only as long as it informs. {} in TARGET or
/// COMMAND is the candidate: the directory of a revision's tree, or the text of the list. The
/// answer is confirmed by fresh pairs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "fsb bisect [OPTIONS] --good REV --bad REV [TARGET] [-- COMMAND…]")]
pub struct Arguments {
    /// Directory or file system to measure on [default: .]
    #[arg(value_name = "TARGET", hide_short_help = true)]
    target: Option<String>,
    /// Revision that is fast
    #[arg(long, value_name = "REV", requires = "bad", conflicts_with = "candidates", help_heading = heading::TARGETS)]
    good: Option<String>,
    /// Later revision that is slow
    #[arg(long, value_name = "REV", requires = "good", help_heading = heading::TARGETS)]
    bad: Option<String>,
    /// Command that builds a revision in its tree; revisions that do not build are skipped
    #[arg(long, value_name = "CMD", requires = "good", help_heading = heading::TARGETS)]
    build: Option<String>,
    /// Take commits that touch PATH for ten times as likely; repeatable
    #[arg(long, value_name = "PATH", requires = "good", hide_short_help = true, help_heading = heading::TARGETS)]
    suspect: Vec<String>,
    /// List to bisect instead of revisions, from fast to slow: A,B,C or @FILE with one a line
    #[arg(long, value_name = "LIST", help_heading = heading::TARGETS)]
    candidates: Option<String>,
    #[command(flatten)]
    settings: SettingArguments<BisectSettings>,
    /// Workload to run instead of a command, KIND[,PARAM=VALUE…]; see 'fsb list workloads'
    #[arg(long = "workload", value_name = "KIND", hide_short_help = true, help_heading = heading::WORKLOAD)]
    workload: Option<String>,
    /// Measure although another fsb measures
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE)]
    allow_concurrent: bool,
    /// Wait until no other fsb measures, before each step
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE, conflicts_with = "allow_concurrent")]
    wait: bool,
    /// Directory of the bisection [default: fsb-results/TIME-bisect]
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    /// Resume the bisection in DIR, or print its answer
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT,
        conflicts_with_all = ["target", "good", "candidates", "out", "workload", "command"])]
    resume: Option<PathBuf>,
    /// Format of the answer: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DocumentFormat::Text, hide_possible_values = true,
        hide_short_help = true, help_heading = heading::OUTPUT)]
    format: DocumentFormat,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    command: CommandArguments,
}

/// The probability with which the answer may be wrong.
const ERROR: f64 = 0.01;
/// Time limit.
const BUDGET: &str = "1h";
/// The largest list of candidates that is read, and their largest number.
const LARGEST_LIST: u64 = 1 << 20;
const MOST_CANDIDATES: usize = 10_000;

/// The settings of `fsb bisect`.
#[derive(Debug)]
enum BisectSettings {}

impl TakesSettings for BisectSettings {
    const COMMAND: SettingCommand = SettingCommand::Bisect;
    const ABOUT: &'static [(&'static str, &'static str)] =
        &[("budget", "Time limit; no step begins after it")];

    fn defaults() -> Settings {
        Settings::default().with_text("budget", BUDGET)
    }
}

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    let settings = arguments.settings.given.clone();
    check_units(&settings)?;
    let budget = parse_duration(settings.text("budget").unwrap_or(BUDGET));
    let budget = budget.map_err(|error| failure::error(&code::INVALID_VALUE, error.to_string()))?;
    let (verbosity, format) = (arguments.verbosity, arguments.format);
    let turn = Turn::of_run(arguments.allow_concurrent, arguments.wait);
    let finished = match arguments.resume.clone() {
        Some(directory) => {
            check_resumed(&settings, arguments.command)?;
            let document = bisect::read(&directory)?;
            match document.ending {
                Some(_) => document,
                None => bisect::continue_from(
                    document,
                    &bisecting(&directory, budget, verbosity, turn),
                )?,
            }
        }
        None => {
            let out = arguments.out.clone();
            let out = out.unwrap_or_else(|| results::default_directory("bisect"));
            let document = document(arguments, settings)?;
            bisect::start(document, &bisecting(&out, budget, verbosity, turn))?
        }
    };
    match format {
        DocumentFormat::Json => print_data(&json_text(&finished)?)?,
        DocumentFormat::Text => print(&finished.screen(0))?,
    }
    Ok(match finished.ending {
        Some(Ending::Found { .. }) => exit::DONE,
        _ => exit::REQUEST,
    })
}

/// Refuses settings and options of a command for a bisection that has its own.
fn check_resumed(settings: &Settings, command: CommandArguments) -> anyhow::Result<()> {
    if let Some(name) = settings.names().find(|name| *name != "budget") {
        let message = format!("--resume: the bisection has its own {name}: leave --{name} out");
        return Err(failure::error(&code::CONFLICT, message));
    }
    command.workload(None, false, None).map(drop)
}

fn bisecting(
    directory: &Path,
    budget: Duration,
    verbosity: Verbosity,
    turn: Turn,
) -> Bisecting<'_> {
    Bisecting {
        directory,
        budget,
        verbosity,
        turn,
    }
}

/// Returns a bisection that nothing was measured of.
fn document(arguments: Arguments, mut settings: Settings) -> anyhow::Result<Bisection> {
    let (candidates, git) = candidates(&arguments)?;
    if candidates.len() < 2 {
        return Err(failure::advised(
            &code::MISSING,
            "a bisection needs at least two candidates",
            "name the good end first and the bad end last: --candidates A,B,C",
        ));
    }
    let target = arguments.target.unwrap_or_else(|| ".".to_owned());
    let workload = workload(arguments.workload, arguments.command)?;
    if !target.contains(PLACEHOLDER) && !variant::has_placeholder(&workload) {
        return Err(failure::advised(
            &code::MISSING,
            "neither the target nor the command has {}: all candidates would be the same",
            "write {} where they differ, such as -- '{}/prog --selftest'",
        ));
    }
    if workload.params.contains_key(VERIFY_SAME) {
        return Err(failure::advised(
            &code::CONFLICT,
            "--verify-same: candidates of a bisection may print different output",
            "let the command fail instead, or compare two candidates with fsb run --versus",
        ));
    }
    let theta = settings.quantity("theta").unwrap_or(setting::THETA);
    settings.unset("budget");
    let file = PlanFile {
        settings,
        targets: vec![typed(&target)],
        workloads: vec![workload],
        ..PlanFile::default()
    };
    Ok(Bisection {
        schema: SCHEMA.to_owned(),
        theta,
        error: ERROR,
        candidates,
        git,
        plan: plan_file::write(&file)?,
        steps: Vec::new(),
        ending: None,
    })
}

/// Returns the candidates in their order, and the repository if they are revisions.
fn candidates(arguments: &Arguments) -> anyhow::Result<(Vec<Candidate>, Option<Git>)> {
    if let Some(list) = &arguments.candidates {
        return Ok((listed(list)?, None));
    }
    let (Some(good), Some(bad)) = (&arguments.good, &arguments.bad) else {
        return Err(failure::advised(
            &code::MISSING,
            "nothing to bisect",
            "name both ends: --good REV --bad REV, or a list: --candidates A,B,C",
        ));
    };
    let repository =
        revisions::repository("run fsb bisect in the repository, or name --candidates")?;
    let candidates = revisions::candidates(&repository, good, bad, &arguments.suspect)?;
    let git = Git {
        repository: repository.to_string_lossy().into_owned(),
        build: arguments.build.clone(),
    };
    Ok((candidates, Some(git)))
}

/// Returns the members of a list, or the lines of a file.
fn listed(list: &str) -> anyhow::Result<Vec<Candidate>> {
    let mut names: Vec<String> = Vec::new();
    match list.strip_prefix('@') {
        Some(path) => {
            let text = input::read_text(Path::new(path), LARGEST_LIST).map_err(|error| {
                let message = format!("--candidates {list}: {error}");
                failure::failed_call(&code::UNREADABLE, &error, message)
            })?;
            names.extend(text.lines().map(|line| line.trim().to_owned()));
        }
        None => names.extend(list.split(',').map(|name| name.trim().to_owned())),
    }
    names.retain(|name| !name.is_empty());
    if names.len() > MOST_CANDIDATES {
        let message = format!("--candidates: more than {MOST_CANDIDATES} candidates");
        return Err(failure::error(&code::INVALID_VALUE, message));
    }
    let mut candidates = Vec::with_capacity(names.len());
    for name in names {
        candidates.push(Candidate::new(name, None));
    }
    Ok(candidates)
}

/// Returns the one workload.
fn workload(text: Option<String>, command: CommandArguments) -> anyhow::Result<WorkloadSpec> {
    let named = workloads(text.as_slice())?;
    match (
        named.into_iter().next(),
        command.workload(None, true, None)?,
    ) {
        (Some(_), Some(_)) => Err(failure::error(
            &code::CONFLICT,
            "a command excludes --workload: give one of them",
        )),
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (None, None) => Err(failure::advised(
            &code::MISSING,
            "nothing to measure",
            "write a command after --, or name a --workload",
        )),
    }
}
