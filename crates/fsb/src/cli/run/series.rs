//! `fsb run --runs N`: makes complete runs one after the other and stores them as a set.

use std::path::{Path, PathBuf};

use fsb_model::Plan;
use fsb_report::series;
use fsb_runner::plan_file::{self, PlanFile};
use fsb_runner::vm;
use fsb_store::{RUN_FILE, Reader};
use serde::{Deserialize, Serialize};

use crate::code;
use crate::coordinator::{self, Turn};
use crate::earlier::{RUN_OF_SET, SET_FILE, runs_of_set};
use crate::exit::{self, Failure};
use crate::progress::Verbosity;
use crate::results::{self, Output};
use crate::stderr::say;
use crate::{result_owner, stored};

const SCHEMA: &str = "fsbench/set/1";
/// The largest number of runs of a set.
pub const MOST_RUNS: u32 = 1000;

/// The file that describes a set of runs; stored beside them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunSet {
    schema: String,
    /// The requested number of runs.
    runs: u32,
    /// The seed of the first run, if one was given; each further run adds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

/// The options that all runs of a set share in addition to their plan.
pub struct Making<'a> {
    /// The format in which each run is printed.
    pub output: &'a Output,
    /// The amount of progress to print.
    pub verbosity: Verbosity,
    /// Whether the runs measure alone on the machine or beside others.
    pub turn: Turn,
    /// Devices that the user permits to overwrite.
    pub wipe: &'a [PathBuf],
}

/// Makes a new set of runs of the plan in a directory.
pub fn start(file: &PlanFile, runs: u32, directory: &Path, making: &Making<'_>) -> anyhow::Result<u8> {
    fsb_store::check_new(directory, &result_owner::result_owner())?;
    let set = RunSet { schema: SCHEMA.to_owned(), runs, seed: file.seed };
    make(&set, Some(file), directory, making)
}

/// Returns whether a directory is a set of runs.
pub fn is_set(directory: &Path) -> bool {
    directory.join(SET_FILE).is_file() && !directory.join(RUN_FILE).exists()
}

/// Resumes the interrupted run of a set and makes the runs that are missing.
pub fn resume(directory: &Path, making: &Making<'_>) -> anyhow::Result<u8> {
    const LARGEST: u64 = 1 << 20;
    let path = directory.join(SET_FILE);
    let wrong = |why: String| exit::failure(&code::INVALID_RUN_SET, format!("{}: {why}", path.display()));
    let text = fsb_store::input::read(&path, LARGEST).map_err(|error| wrong(error.to_string()))?;
    let set: RunSet = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if set.schema != SCHEMA || !(1..=MOST_RUNS).contains(&set.runs) {
        return Err(wrong(format!("not a set of this version ({SCHEMA})")));
    }
    if (1..=set.runs).all(|number| is_finished(&run_directory(directory, number))) {
        return Err(wrong("every run is finished; fsb report DIR shows each".to_owned()));
    }
    make(&set, None, directory, making)
}

fn run_directory(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{RUN_OF_SET}{number}"))
}

fn is_finished(run: &Path) -> bool {
    Reader::open(run).is_ok_and(|reader| reader.record.stop_reason.is_some())
}

/// Makes the runs that are missing. Without a plan, the plan is that of the first run.
fn make(set: &RunSet, file: Option<&PlanFile>, directory: &Path, making: &Making<'_>) -> anyhow::Result<u8> {
    let mut worst = exit::DONE;
    for number in 1..=set.runs {
        let path = run_directory(directory, number);
        if is_finished(&path) {
            continue;
        }
        if !making.verbosity.quiet {
            say(&format!("run {number} of {}: {}", set.runs, path.display()));
        }
        let made = match path.join(RUN_FILE).is_file() {
            true => coordinator::resume(&path, making.wipe, making.output, making.verbosity, making.turn),
            false => new_run(set, number, file, directory, making),
        };
        worst = worst.max(made.map_err(|error| unfinished(&error, set, directory))?);
    }
    results::print(&table(directory)?)?;
    Ok(worst)
}

fn new_run(
    set: &RunSet,
    number: u32,
    file: Option<&PlanFile>,
    directory: &Path,
    making: &Making<'_>,
) -> anyhow::Result<u8> {
    let mut file = match file {
        Some(file) => file.clone(),
        None => plan_of_set(directory, making)?,
    };
    file.seed = set.seed.map(|seed| seed.saturating_add(u64::from(number) - 1).min(i64::MAX as u64));
    let cpus = coordinator::cpus_for(&file.controls);
    let mut resolved = file.resolve(cpus, coordinator::fresh_seed())?;
    vm::pin(&mut resolved.plan)?;
    let path = run_directory(directory, number);
    // The set is stored once its first run is known to be possible.
    let begun = || write(set, directory);
    coordinator::start_in_set(resolved, &path, making.output, making.verbosity, making.turn, begun)
}

/// Returns the plan of the existing runs of a set.
fn plan_of_set(directory: &Path, making: &Making<'_>) -> anyhow::Result<PlanFile> {
    let runs = runs_of_set(directory);
    let first = runs
        .first()
        .ok_or_else(|| exit::failure(&code::INVALID_RUN_SET, format!("{} holds no run yet", directory.display())))?;
    let plan: Plan = Reader::open(first)?.record.plan;
    let file = plan_file::parse(&plan_file::print(&plan)?, "the plan of the set")?;
    Ok(PlanFile { wipe: making.wipe.to_vec(), ..file })
}

fn write(set: &RunSet, directory: &Path) -> anyhow::Result<()> {
    let path = directory.join(SET_FILE);
    if path.is_file() {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(set)? + "\n";
    Ok(result_owner::replace(&path, text.as_bytes())?)
}

/// Returns the error of a run, with the number of finished runs and the command that continues.
fn unfinished(error: &anyhow::Error, set: &RunSet, directory: &Path) -> anyhow::Error {
    let mut message = format!("{error:#}");
    if is_set(directory) {
        let finished = (1..=set.runs).filter(|number| is_finished(&run_directory(directory, *number))).count();
        let shown = directory.display();
        message += &format!(
            "\n{finished} of {} runs are finished; resume this one and make the others with:\n  fsb run --resume {shown}",
            set.runs
        );
    }
    Failure::wrapping(error, message).into()
}

/// Returns a table of the means of the runs and their differences.
fn table(directory: &Path) -> anyhow::Result<String> {
    let mut summaries = Vec::new();
    for path in runs_of_set(directory).iter().filter(|path| is_finished(path)) {
        let run = stored::read(path)?;
        summaries.push(results::summary_of_shown(&run.record, &run.trials));
    }
    let shown = directory.display();
    let table = series::screen(&summaries, 0);
    Ok(format!("\n{table}set: {shown}; compare it with another: fsb compare old={shown} new=DIR\n"))
}
