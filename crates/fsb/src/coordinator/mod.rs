//! The coordinator: checks the whole request, starts the supervisor, and makes the run.

mod judge;
mod record;
mod stage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

use fsb_codes::notice;
use fsb_model::plan::Refused;
use fsb_model::{Place, Plan, RunRecord, Target, Trial, Warning, shell};
use fsb_report::Report;
use fsb_report::choice::{self, Choice};
use fsb_report::summary::ReportTrial;
use fsb_runner::agent::{Agent, can_trace};
use fsb_runner::event::{Journal, Observer};
use fsb_runner::plan_file::Resolved;
use fsb_runner::schedule::{self, Run, RunError};
use fsb_runner::vm;
use fsb_runner::work::Work;
use fsb_store::{Claim, Contents, RunDirectory, StoreError};
use fsb_testbed::ledger::{self, Owner};
use fsb_testbed::lock::RunLock;
use fsb_testbed::privilege::{self, NEEDS_ROOT};
use fsb_testbed::{LocalTestbed, Testbed, TestbedError, control, host, medium};

use crate::exit::{self, Failure};
use crate::message::{notify, say, say_warning};
use crate::progress::{Progress, Verbosity, warn};
use crate::result_owner::{check_cache, command_line, holder, result_owner};
use crate::results::{self, Output};
use crate::{code, space, stored};
use record::{DirectoryJournal, close_segment, end_segment, make_absolute, resumable, segment};
use stage::{Stage, concurrent};

pub use record::{new_record, run_name};
pub use stage::{Leftover, Turn, leftovers, replay, warn_of_concurrent};

#[cfg(feature = "emulations")]
pub use stage::{tidy_up, watcher};

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
fn check(record: &RunRecord, work: &Work, turn: Turn) -> anyhow::Result<RunLock> {
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
        return Err(exit::advised(&code::CONFLICT, message, "add a target"));
    }
    if plan.place == Place::Vm || !LocalTestbed::may_leave(&schedule::setup(record)) {
        return Ok(());
    }
    can_trace().map_err(|why| {
        exit::advised(
            &code::NOT_TRACED,
            format!("--explain: {why}"),
            privilege::advice(),
        )
    })
}

/// Refuses consent to overwrite a device that no target is on: such a run would measure another
/// medium.
fn check_wipe(record: &RunRecord) -> anyhow::Result<()> {
    let specs = record.plan.targets.iter().filter_map(Target::file_system);
    let arguments = specs
        .flat_map(|spec| spec.media())
        .filter_map(|medium| medium.argument.as_deref());
    let measured: Vec<&Path> = arguments
        .flat_map(|argument| argument.split('+'))
        .map(Path::new)
        .collect();
    let number = |path: &Path| record.devices.get(path);
    let is_measured = |wiped: &Path| {
        measured.iter().any(|path| {
            *path == wiped || number(wiped).is_some_and(|own| number(path) == Some(own))
        })
    };
    match record.plan.wipe.iter().find(|wiped| !is_measured(wiped)) {
        None => Ok(()),
        Some(wiped) => Err(exit::advised(
            &code::CONFLICT,
            format!("--wipe {}: no target is on this device", wiped.display()),
            format!("add the device to a target: ext4@{}", wiped.display()),
        )),
    }
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
    let directory = RunDirectory::create(out, &record, result_owner(), &holder())
        .map_err(advise_on_unwritable)?;
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
        .map_err(|error| exit::failure(&code::INVALID_WORKLOAD, error.to_string()))?;
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
        return Err(exit::advised(
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
fn run_and_show(
    mut stage: Stage,
    agent: Agent,
    directory: RunDirectory,
    begun: Begun,
    output: &Output,
    verbosity: Verbosity,
) -> anyhow::Result<u8> {
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
            show(&directory, &record, &trials, output)
        }
        Err(error) => {
            let failure = saved(&mut stage, &mut directory, error);
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

/// Makes a run that leaves no directory behind, for the command of the 2023 tool.
pub fn perform_unsaved(
    resolved: Resolved,
    journal: &mut dyn Journal,
    observer: &mut dyn Observer,
    turn: Turn,
) -> anyhow::Result<(RunRecord, Vec<Trial>)> {
    let (record, work) = new_record(resolved)?;
    let (mut stage, agent) = Stage::set(check(&record, &work, turn)?, &record)?;
    match measure(agent, journal, observer, (record, work, Vec::new()), false) {
        Ok(made) => {
            stage
                .undo_rest()
                .iter()
                .for_each(|warning| warn(warning, &say));
            warn_of_concurrent(&mut stage.lock);
            Ok(made)
        }
        Err(error) => Err(torn_down(stage, error)),
    }
}

/// Writes the report of a complete run and shows it. Returns the exit code.
pub fn show(
    directory: &RunDirectory,
    record: &RunRecord,
    trials: &[Trial],
    output: &Output,
) -> anyhow::Result<u8> {
    if record.plan.race.is_some() {
        return show_race(directory, record, trials, output);
    }
    let summary = stored::with_last_run(results::summary(record, trials), record, directory.path());
    let shown = Report::of_run(&summary, trials);
    // Print the results even if the report cannot be written.
    let report = results::write(directory, &shown);
    output.emit(&shown)?;
    let report = report?;
    // If a program reads the table, print the path for the user.
    if output.is_first_screen() {
        results::print(&format!("report: {}\n", report.display()))?;
    } else {
        say(&format!("report: {}", report.display()));
    }
    Ok(results::code(trials))
}

/// Creates the run directory again if another program deleted it, and returns a message about it.
fn restored(directory: &mut RunDirectory) -> anyhow::Result<Option<String>> {
    if !directory.is_deleted() {
        return Ok(None);
    }
    let path = directory.path().display().to_string();
    directory.restore()?;
    let now = directory.path().display();
    Ok(Some(format!(
        "{path} was deleted during the run; fsb wrote the results again, to {now}"
    )))
}

/// Ends an unfinished run: shows the saved results and the command that resumes the run.
fn saved(stage: &mut Stage, directory: &mut RunDirectory, error: RunError) -> anyhow::Error {
    let mut message = error.to_string();
    // Another run with the same budget would fit as little.
    let goes_on = !matches!(error, RunError::Budget(_));
    let failure = stage.ending(&error.into(), String::new());
    match restored(directory) {
        Ok(None) => {}
        Ok(Some(restored)) => message += &format!("\n{restored}"),
        Err(error) => message += &format!("\n{error:#}: the results of the run are lost"),
    }
    message += &keep_partial(
        directory,
        concurrent(&mut stage.lock),
        goes_on.then_some(""),
    );
    Failure { message, ..failure }.into()
}

/// Writes the report of an unfinished run. Returns the text about it that follows the error: the
/// saved trials, and the command with `options` that resumes the run, unless it would end in the
/// same way.
pub fn keep_partial(
    directory: &mut RunDirectory,
    warnings: Vec<Warning>,
    options: Option<&str>,
) -> String {
    let path = directory.path().display().to_string();
    let Ok(mut contents) = directory.read() else {
        return String::new();
    };
    contents.record.warnings.extend(warnings);
    let mut text = String::new();
    // Ignore errors of the partial report: they must not hide the reason.
    let _ = close_segment(directory, &mut contents.record);
    if contents.record.plan.race.is_some() {
        text += &race_so_far(directory, &contents.record, &contents.trials);
    } else {
        let summary = results::summary(&contents.record, &contents.trials);
        let _ = results::write(directory, &Report::of_run(&summary, &contents.trials));
    }
    if let Some(options) = options {
        // Warm-up trials are not results.
        let saved = match contents
            .trials
            .iter()
            .filter(|trial| trial.counts())
            .count()
        {
            0 => format!("no trial is finished; the run directory is {path}"),
            1 => format!("1 trial is saved in {path}"),
            saved => format!("{saved} trials are saved in {path}"),
        };
        text += &format!("\n{saved}; resume with:\n  fsb run --resume {path}{options}");
    }
    text
}

// Starts a race: checks which candidates this machine accepts, then creates the run directory.

/// Starts a race in the new directory `out`. Candidates that this machine refuses beforehand are
/// left out and printed.
pub fn choose(
    mut resolved: Resolved,
    out: &Path,
    output: &Output,
    verbosity: Verbosity,
    turn: Turn,
) -> anyhow::Result<u8> {
    fsb_store::check_new(out, &result_owner()).map_err(advise_on_unwritable)?;
    make_absolute(&mut resolved.plan)?;
    turn.wait(&command_line())?;
    let (mut record, work) = new_record(resolved)?;
    if let Some(fsb_model::run::Placement::InTurn { reason }) = &record.placement {
        let reason = fsb_report::placement_reason_text(reason);
        let message = format!(
            "a race measures its candidates side by side, which is impossible here: {reason}; name file systems on \
             one medium"
        );
        return Err(exit::failure(&code::NOT_RACED, message));
    }
    record.name = format!("choose · {}", record.plan.name);
    leave_out_refused(&mut record, &work)?;
    schedule::check_budget(&record, &work)?;
    let lock = check(&record, &work, turn)?;
    let directory = RunDirectory::create(out, &record, result_owner(), &holder())
        .map_err(advise_on_unwritable)?;
    let (stage, agent) = Stage::set(lock, &record)?;
    run_and_show(
        stage,
        agent,
        directory,
        (record, work, Vec::new()),
        output,
        verbosity,
    )
}

/// Checks each candidate alone and leaves out those that cannot race. An error of the baseline is
/// one of the request.
fn leave_out_refused(record: &mut RunRecord, work: &Work) -> anyhow::Result<()> {
    let alone = |at: usize| {
        let mut alone = record.clone();
        alone.plan.targets = vec![record.plan.targets[at].clone()];
        alone
    };
    let ask = |at: usize| -> anyhow::Result<()> {
        let record = alone(at);
        if record.plan.place == Place::Host {
            LocalTestbed::new(Owner::current())
                .check(&schedule::setup(&record))
                .map_err(advise_on_refused)?;
        }
        space::check_run(&record, work)
    };
    ask(0)?;
    let refused: Vec<(usize, String)> = (1..record.plan.targets.len())
        .filter_map(|at| Some((at, ask(at).err()?.to_string())))
        .collect();
    let gone = |at: usize| refused.iter().any(|(known, _)| *known == at);
    let targets = std::mem::take(&mut record.plan.targets);
    let Some(race) = &mut record.plan.race else {
        return Ok(());
    };
    race.refused.extend(refused.iter().map(|(at, why)| Refused {
        name: targets[*at].name.clone(),
        why: why.clone(),
    }));
    // Indices in the design are those of the plan: the design continues without the refused
    // candidates.
    let moved = |at: &u32| {
        (!gone(*at as usize)).then(|| (0..*at as usize).filter(|at| !gone(*at)).count() as u32)
    };
    for race_round in &mut race.first_stage {
        *race_round = race_round.iter().filter_map(moved).collect();
    }
    let whole = |places: &[u32]| places.iter().all(|at| !gone(*at as usize));
    race.factors
        .retain(|factor| whole(&factor.with) && whole(&factor.without));
    for factor in &mut race.factors {
        factor.with = factor.with.iter().filter_map(moved).collect();
        factor.without = factor.without.iter().filter_map(moved).collect();
    }
    let mut at = 0..;
    race.candidates
        .retain(|_| !gone(at.next().unwrap_or_default()));
    record.plan.targets = targets
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !gone(*at))
        .map(|(_, one)| one)
        .collect();
    if record.plan.targets.len() < 2 {
        let reasons: Vec<String> = race
            .refused
            .iter()
            .map(|refused| format!("{}: {}", refused.name, refused.why))
            .collect();
        let message = format!(
            "no candidate is left to race against the first one\n{}",
            reasons.join("\n")
        );
        return Err(exit::failure(&code::UNABLE, message));
    }
    Ok(())
}

// The result of a race on the screen and in its directory.

/// Shows the result of the race.
fn show_race(
    directory: &RunDirectory,
    record: &RunRecord,
    trials: &[Trial],
    output: &Output,
) -> anyhow::Result<u8> {
    let shown = ReportTrial::all(trials);
    let Some(choice) = Choice::from_run(record, &shown) else {
        return Ok(exit::TRIALS);
    };
    let written = results::write_choice(directory, &choice, &as_run(record, trials));
    output.emit_choice(&choice)?;
    let path = written?;
    if output.is_first_screen() {
        results::print(&format!("report: {}\n", path.display()))?;
    } else {
        say(&format!("report: {}", path.display()));
    }
    // Too few rounds for an answer are no failure of a trial.
    Ok(if choice.has_answer() || choice.race_rounds > 0 {
        exit::DONE
    } else {
        exit::TRIALS
    })
}

/// Returns the first screen of an interrupted race; empty if it has no answer yet. Writes the
/// race's files.
fn race_so_far(directory: &RunDirectory, record: &RunRecord, trials: &[Trial]) -> String {
    let shown = ReportTrial::all(trials);
    let Some(choice) = Choice::from_run(record, &shown) else {
        return String::new();
    };
    let _ = results::write_choice(directory, &choice, &as_run(record, trials));
    if choice.has_answer() {
        format!("\n{}", choice::screen(&choice, 0).trim_end())
    } else {
        String::new()
    }
}

/// Returns a report for the table of trials, which needs no summary.
fn as_run<'a>(record: &RunRecord, trials: &'a [Trial]) -> Report<'a> {
    let summary = results::summary(record, &[]);
    Report::Run {
        summary: std::borrow::Cow::Owned(summary),
        trials: std::borrow::Cow::Owned(ReportTrial::all(trials)),
    }
}

// The command to type next, where rights are missing.

/// The directories in which sudo looks for programs by default.
const SUDO_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Returns the error with the commands that would be accepted, each only if this machine can run
/// it.
fn advise_on_refused(error: TestbedError) -> anyhow::Error {
    if error.code != fsb_model::error::NEEDS_ROOT.name {
        return error.into();
    }
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let program = std::env::current_exe().ok();
    let commands = next_commands(
        &words,
        program.as_deref(),
        privilege::prefix(),
        vm::is_available(),
    );
    let width = commands
        .iter()
        .map(|(command, _)| command.chars().count())
        .max()
        .unwrap_or(0);
    let lines: String = commands
        .iter()
        .map(|(command, what)| format!("\n  {command:width$}  # {what}"))
        .collect();
    exit::failure(
        &fsb_model::error::NEEDS_ROOT,
        format!("{NEEDS_ROOT}. Next:{lines}"),
    )
}

/// Returns the error about a results directory that cannot be written, with another directory if
/// one may work.
fn advise_on_unwritable(error: StoreError) -> anyhow::Error {
    match &error {
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            exit::advised(
                &code::DIRECTORY_NOT_WRITABLE,
                error,
                "name a directory for results: --out $(mktemp -d)",
            )
        }
        _ => error.into(),
    }
}

fn next_commands(
    words: &[String],
    program: Option<&Path>,
    prefix: Option<&str>,
    has_vm: bool,
) -> Vec<(String, &'static str)> {
    let (typed, arguments) = words
        .split_first()
        .map_or(("fsb", &[][..]), |(first, rest)| (first.as_str(), rest));
    let line = |program: &str, more: &[&str]| {
        let words = std::iter::once(program)
            .chain(arguments.iter().map(String::as_str))
            .chain(more.iter().copied());
        shell::line(words)
    };
    let mut commands = Vec::new();
    match prefix {
        Some(prefix) => commands.push((
            format!("{prefix} {}", line(&found_by_sudo(typed, program), &[])),
            "as root",
        )),
        None => commands.push((
            line(typed, &[]),
            "as root: log in as root first, sudo is not installed",
        )),
    }
    if has_vm {
        commands.push((
            line(typed, &["--in", "vm"]),
            "in a virtual machine, without root",
        ));
    }
    commands.push((format!("{typed} run ."), "this directory, without root"));
    commands
}

/// As it was typed, or with its path where sudo would not find it.
fn found_by_sudo(typed: &str, program: Option<&Path>) -> String {
    let by_name = !typed.contains('/');
    let hidden = program.filter(|program| {
        program
            .parent()
            .is_none_or(|directory| !SUDO_PATH.iter().any(|known| directory == Path::new(known)))
    });
    hidden
        .filter(|_| by_name)
        .map_or_else(|| PathBuf::from(typed), Path::to_path_buf)
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(words: &str, program: &str, prefix: Option<&str>, has_vm: bool) -> Vec<String> {
        let words = shlex::split(words).unwrap();
        let commands = next_commands(&words, Some(Path::new(program)), prefix, has_vm);
        commands.into_iter().map(|(command, _)| command).collect()
    }

    #[test]
    fn the_next_command_is_the_one_that_was_typed_and_works() {
        assert_eq!(
            commands(
                "fsb run ext4 'small=ext4,mkfs=\"-i 32704\"'",
                "/usr/bin/fsb",
                Some("sudo"),
                true
            ),
            [
                "sudo fsb run ext4 'small=ext4,mkfs=\"-i 32704\"'",
                "fsb run ext4 'small=ext4,mkfs=\"-i 32704\"' --in vm",
                "fsb run .",
            ]
        );
    }

    #[test]
    fn sudo_is_told_where_the_program_is_that_it_would_not_find() {
        assert_eq!(
            commands("fsb run xfs", "/home/u/.cargo/bin/fsb", Some("sudo"), false)[0],
            "sudo /home/u/.cargo/bin/fsb run xfs"
        );
        assert_eq!(
            commands("target/fsb run xfs", "/src/target/fsb", Some("sudo"), false)[0],
            "sudo target/fsb run xfs"
        );
    }

    #[test]
    fn absent_programs_are_not_advised() {
        let commands = commands("fsb run xfs", "/usr/bin/fsb", None, false);
        assert_eq!(commands, ["fsb run xfs", "fsb run ."]);
    }
}
