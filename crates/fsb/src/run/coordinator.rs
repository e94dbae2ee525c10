//! The coordinator: checks the whole request, starts the supervisor, and makes the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

use fsb_model::{Place, Plan, RunRecord, Target, Trial, Warning, code, failure, notice};
use fsb_runner::agent::{Agent, can_trace};
use fsb_runner::event::{Journal, Observer};
use fsb_runner::plan_file::Resolved;
use fsb_runner::schedule::{self, Run, RunError};
use fsb_runner::vm;
use fsb_runner::work::Work;
use fsb_store::owner::{command_line, holder, result_owner};
use fsb_store::{Claim, Contents, RunDirectory};
use fsb_testbed::ledger::{self, Owner};
use fsb_testbed::lock::RunLock;
use fsb_testbed::privilege::{self};
use fsb_testbed::{LocalTestbed, Testbed, TestbedError, control, host, medium};

use super::backends;
use super::next_command::{advise_on_refused, advise_on_unwritable};
use super::record::{
    DirectoryJournal, MemoryJournal, close_segment, end_segment, make_absolute, new_record,
    resumable, segment,
};
use super::show::{restored, saved, show};
use super::stage::{Stage, Turn, check_cache, concurrent, warn_of_concurrent};
use super::{judge, record};
use crate::exit;
use crate::message::{notify, say, say_warning};
use crate::results::{self, Output};
use crate::run::progress::{Progress, Verbosity, warn};
use crate::run::space;

/// Returns the number of hardware threads that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Returns the number of hardware threads that workers may use if `controls` bind them.
pub fn cpus_for(controls: &BTreeMap<String, String>) -> u32 {
    control::processors_left(controls).unwrap_or_else(cpus)
}

/// Returns the number of hardware threads that workers may use in a run of the plan.
fn cpus_of(plan: &Plan) -> u32 {
    match plan.vm {
        Some(vm) => control::processors_left(&plan.controls).unwrap_or(vm.cpus),
        None => cpus_for(&plan.controls),
    }
}

/// Returns a random seed that is short enough to be typed again.
pub fn fresh_seed() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond() as u64;
    (now ^ (u64::from(process::id()) << 17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}

/// Checks the request against the machine and takes the lock. Changes nothing.
pub(super) fn check(record: &RunRecord, work: &Work, turn: Turn) -> anyhow::Result<RunLock> {
    host::check_memory_limit()?;
    check_wipe(record)?;
    // A run that cannot leave anything behind needs no ledger.
    if record.plan.place == Place::Host && LocalTestbed::may_leave(&schedule::setup(record)) {
        ledger::default_directory()?;
    }
    let warnings = check_testbed(record).map_err(|error| match record.plan.place {
        Place::Host => advise_on_refused(error),
        Place::Vm => error.into(),
    })?;
    for warning in warnings {
        warn(&warning, &say);
    }
    check_explain(record)?;
    space::check_run(record, work)?;
    if record.plan.place == Place::Host {
        backends::check(record, work)?;
    }
    turn.take(&command_line())
}

/// Refuses traced blocks that would explain nothing, or that this machine cannot make. A virtual
/// machine traces its samples itself.
fn check_explain(record: &RunRecord) -> anyhow::Result<()> {
    let plan = &record.plan;
    if !plan.explain {
        return Ok(());
    }
    if plan.targets.len() < 2 {
        let message = "--explain explains differences between targets, and there is only one";
        return Err(failure::advised(&code::CONFLICT, message, "add a target"));
    }
    if plan.place == Place::Vm || !LocalTestbed::may_leave(&schedule::setup(record)) {
        return Ok(());
    }
    can_trace().map_err(|why| {
        failure::advised(
            &code::NOT_TRACED,
            format!("--explain: {why}"),
            privilege::advice(),
        )
    })
}

/// Refuses consent to overwrite a device that no target is on: such a run would measure another
/// medium.
fn check_wipe(record: &RunRecord) -> anyhow::Result<()> {
    let mut measured: Vec<&Path> = Vec::new();
    for spec in record.plan.targets.iter().filter_map(Target::file_system) {
        for medium in spec.media() {
            measured.extend(medium.members().map(Path::new));
        }
    }
    for wiped in &record.plan.wipe {
        let number = record.devices.get(wiped);
        let is_measured = measured.iter().any(|path| {
            path == wiped || number.is_some_and(|own| record.devices.get(*path) == Some(own))
        });
        if !is_measured {
            return Err(failure::advised(
                &code::CONFLICT,
                format!("--wipe {}: no target is on this device", wiped.display()),
                format!("add the device to a target: ext4@{}", wiped.display()),
            ));
        }
    }
    Ok(())
}

/// Checks the targets and controls of a run against the place of the run.
fn check_testbed(record: &RunRecord) -> Result<Vec<Warning>, TestbedError> {
    let setup = schedule::setup(record);
    match record.plan.place {
        Place::Host => LocalTestbed::new(Owner::current()).check(&setup),
        Place::Vm => vm::check(&setup),
    }
}

/// Checks a plan that is only printed. The plan may be for another machine: a requirement that this
/// machine lacks is a note, and only a wrong request is an error.
pub fn check_plan(resolved: Resolved) -> anyhow::Result<()> {
    /// Requests that are wrong on this machine alone.
    const OF_MACHINE: [&str; 2] = ["target/no-directory", "device/"];
    let Err(error) = checked(resolved) else {
        return Ok(());
    };
    let name = exit::error_code(&error).name;
    if exit::code(&error) == exit::REQUEST && !OF_MACHINE.iter().any(|area| name.starts_with(area))
    {
        return Err(error);
    }
    say(&format!("note: this machine cannot run the plan: {error}"));
    Ok(())
}

/// Returns the run of a plan, its work, and the conditions that the user must know. Checks the plan
/// against its budget and this machine, and changes nothing.
pub fn checked(mut resolved: Resolved) -> anyhow::Result<(RunRecord, Work, Vec<Warning>)> {
    make_absolute(&mut resolved.plan)?;
    let (record, work) = new_record(resolved)?;
    schedule::check_budget(&record, &work)?;
    let warnings = check_testbed(&record)?;
    Ok((record, work, warnings))
}

/// Starts a run in the new directory `out`.
pub fn start(
    resolved: Resolved,
    out: &Path,
    output: &Output,
    verbosity: Verbosity,
    turn: Turn,
) -> anyhow::Result<u8> {
    start_in_set(resolved, out, output, verbosity, turn, || Ok(()))
}

/// Starts a run of a set in the new directory `out`; calls `begun` once the directory is made.
pub fn start_in_set(
    resolved: Resolved,
    out: &Path,
    output: &Output,
    verbosity: Verbosity,
    turn: Turn,
    begun: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<u8> {
    fsb_store::check_new(out, &result_owner()).map_err(advise_on_unwritable)?;
    turn.wait(&command_line())?;
    let (record, work, trials) = begin(resolved)?;
    let lock = check(&record, &work, turn)?;
    let directory = record::create(out, &record)?;
    begun()?;
    let (stage, agent) = Stage::set(lock, &record)?;
    run_and_show(
        stage,
        agent,
        directory,
        (record, work, trials),
        output,
        verbosity,
    )
}

/// Returns a new run of the plan.
pub fn begin(mut resolved: Resolved) -> anyhow::Result<Begun> {
    make_absolute(&mut resolved.plan)?;
    let (record, work) = new_record(resolved)?;
    schedule::check_budget(&record, &work)?;
    Ok((record, work, Vec::new()))
}

/// Returns the run in a directory as it continues, and the number of its trials that are retried.
/// Consent to wipe a device is not remembered: its name may belong to another disk by now.
pub fn begin_again(
    contents: Contents,
    path: &Path,
    wipe: &[PathBuf],
) -> anyhow::Result<(Begun, usize)> {
    let (mut record, trials, again) = resumable(contents, path)?;
    record.plan.wipe = wipe.to_vec();
    make_absolute(&mut record.plan)?;
    record.devices = medium::named_devices(&record.plan.targets, &record.plan.wipe);
    let work = Work::from_record(&record, cpus_of(&record.plan))
        .map_err(|error| failure::error(&code::INVALID_WORKLOAD, error.to_string()))?;
    record::continue_clock(&record, &trials);
    record.segments.push(segment(&record.plan)?);
    Ok(((record, work, trials), again))
}

/// Resumes the run in `path`.
pub fn resume(
    path: &Path,
    wipe: &[PathBuf],
    output: &Output,
    verbosity: Verbosity,
    turn: Turn,
) -> anyhow::Result<u8> {
    let claim = Claim::take(path, result_owner(), &holder())?;
    let contents = claim.read()?;
    if contents.record.plan.place == Place::Vm {
        check_cache()?;
        vm::tidy();
    }
    if let Some(host) = &contents.record.on {
        let message = format!("{}: the run was made on {host}", path.display());
        return Err(failure::advised(
            &code::OTHER_HOST,
            message,
            format!("add --on {host}"),
        ));
    }
    turn.wait(&command_line())?;
    let ((record, work, trials), again) = begin_again(contents, path, wipe)?;
    let lock = check(&record, &work, turn)?;
    let (mut directory, contents) = RunDirectory::resume(claim)?;
    for warning in &contents.warnings {
        notify(
            &notice::JOURNAL,
            [("path", path.to_string_lossy().into())],
            &format!("warning: {warning}"),
        );
    }
    directory.rewrite_trials(&trials)?;
    if !verbosity.quiet {
        say_retried(again);
    }
    let (stage, agent) = Stage::set(lock, &record)?;
    run_and_show(
        stage,
        agent,
        directory,
        (record, work, trials),
        output,
        verbosity,
    )
}

/// Prints how many trials of an unfinished block are retried.
pub fn say_retried(again: usize) {
    let trials = if again == 1 {
        "trial of the unfinished block is"
    } else {
        "trials of the unfinished block are"
    };
    if again > 0 {
        notify(
            &notice::BLOCK_RETRIED,
            [("trials", again.into())],
            &format!("{again} {trials} retried"),
        );
    }
}

/// The record of a run, its work, and its trials so far.
pub type Begun = (RunRecord, Work, Vec<Trial>);

/// Makes the run and prints its results, or the results that were saved before it failed.
pub(super) fn run_and_show(
    stage: Stage,
    agent: Agent,
    directory: RunDirectory,
    begun: Begun,
    output: &Output,
    verbosity: Verbosity,
) -> anyhow::Result<u8> {
    let (directory, record, trials) =
        run_and_store(stage, agent, directory, begun, verbosity, Some(""))?;
    show(&directory, &record, &trials, output)
}

/// Makes a step of a bisection, a run in the new directory `out`. Prints no results. Returns the
/// label of its case and its trials.
pub fn make(
    resolved: Resolved,
    out: &Path,
    verbosity: Verbosity,
    turn: Turn,
) -> anyhow::Result<(String, Vec<Trial>)> {
    turn.wait(&command_line())?;
    let (record, work, trials) = begin(resolved)?;
    let lock = check(&record, &work, turn)?;
    let directory = record::create(out, &record)?;
    let (stage, agent) = Stage::set(lock, &record)?;
    let begun = (record, work, trials);
    // An interrupted step is made again.
    let (_, record, trials) = run_and_store(stage, agent, directory, begun, verbosity, None)?;
    let labels: Vec<String> = record.cells.into_iter().map(|cell| cell.label).collect();
    Ok((labels.join(", "), trials))
}

/// Makes the run, and stores it as far as it was made. `options` belong to the command that resumes
/// it, which is not printed if they are `None`.
fn run_and_store(
    mut stage: Stage,
    agent: Agent,
    directory: RunDirectory,
    begun: Begun,
    verbosity: Verbosity,
    options: Option<&str>,
) -> anyhow::Result<(RunDirectory, RunRecord, Vec<Trial>)> {
    let mut journal = DirectoryJournal(directory);
    let mut progress = Progress::new(
        &begun.0.plan.targets,
        begun.0.plan.race.is_some(),
        verbosity,
    );
    let ended = measure(agent, &mut journal, &mut progress, begun, true);
    progress.finish();
    if ended.is_err() {
        stage.strike();
    }
    let mut directory = journal.0;
    match ended {
        Ok((mut record, trials)) => {
            record.warnings.extend(stage.undo_rest());
            record.warnings.extend(concurrent(&mut stage.lock));
            if let Some(restored) = restored(&mut directory)? {
                say_warning(restored);
            }
            close_segment(&mut directory, &mut record)?;
            Ok((directory, record, trials))
        }
        Err(error) => {
            let failure = saved(&mut stage, &mut directory, error, options);
            // The run was torn down already: dropping it would wait for the kernel while the user
            // waits.
            stage.leave();
            Err(failure)
        }
    }
}

/// Makes a run with the given journal and observer; the subcommands share this code.
fn measure(
    agent: Agent,
    journal: &mut dyn Journal,
    observer: &mut dyn Observer,
    (record, work, trials): Begun,
    warmup: bool,
) -> Result<(RunRecord, Vec<Trial>), RunError> {
    let mut judge = judge::for_run(&record);
    schedule::measure(Run {
        agent,
        journal,
        observer,
        judge: &mut *judge,
        // A command that makes a single trial shows it as it was.
        repeats: if warmup { schedule::REPEATS } else { 0 },
        record,
        trials,
        work,
        warmup,
        started: Instant::now(),
    })
}

/// Makes a run that another machine stores: its record and trials go to `journal` alone. Returns
/// the exit code.
pub fn perform_streamed(
    (record, work, trials): Begun,
    journal: &mut dyn Journal,
    observer: &mut dyn Observer,
    turn: Turn,
) -> anyhow::Result<u8> {
    let lock = check(&record, &work, turn)?;
    let (mut stage, agent) = Stage::set(lock, &record)?;
    journal.record(&record).map_err(RunError::Journal)?;
    match measure(agent, journal, observer, (record, work, trials), true) {
        Ok((mut record, trials)) => {
            record.warnings.extend(stage.undo_rest());
            record.warnings.extend(concurrent(&mut stage.lock));
            // By the clock of this host, which began the segment.
            end_segment(&mut record);
            journal.record(&record).map_err(RunError::Journal)?;
            Ok(results::code(&trials))
        }
        Err(error) => Err(torn_down(stage, error)),
    }
}

/// Tears an unfinished run down and returns its error.
fn torn_down(mut stage: Stage, error: RunError) -> anyhow::Error {
    stage.strike();
    let message = error.to_string();
    let failure = stage.ending(&error.into(), message);
    stage.leave();
    failure.into()
}

/// A run of the command of the 2023 tool.
pub struct OwnRun {
    pub record: RunRecord,
    pub trials: Vec<Trial>,
    /// The reason why the run ended early. The trials are those that were made before.
    pub unfinished: Option<anyhow::Error>,
}

/// Makes a run for the command of the 2023 tool. `journal` receives the record and the trials.
pub fn perform_own(
    (record, work): (RunRecord, Work),
    journal: &mut MemoryJournal,
    observer: &mut dyn Observer,
    turn: Turn,
) -> anyhow::Result<OwnRun> {
    let lock = check(&record, &work, turn)?;
    journal.open(&record)?;
    let (mut stage, mut agent) = Stage::set(lock, &record)?;
    agent.keep_samples();
    let begun = (record, work, Vec::new());
    match measure(agent, journal, observer, begun, false) {
        Ok((mut record, trials)) => {
            for warning in stage.undo_rest() {
                warn(&warning, &say);
                record.warnings.push(warning);
            }
            warn_of_concurrent(&mut stage.lock);
            record.warnings.extend(concurrent(&mut stage.lock));
            Ok(OwnRun {
                record,
                trials,
                unfinished: None,
            })
        }
        Err(error) => {
            let Some(mut record) = journal.record.take() else {
                return Err(torn_down(stage, error));
            };
            record.warnings.extend(concurrent(&mut stage.lock));
            Ok(OwnRun {
                record,
                trials: std::mem::take(&mut journal.trials),
                unfinished: Some(torn_down(stage, error)),
            })
        }
    }
}
