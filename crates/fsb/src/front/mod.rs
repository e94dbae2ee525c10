//! The front process: checks a request whole, starts the supervisor, and makes the run.

mod space;
mod stage;
mod turn;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

use fsb_model::run::{SCHEMA, Segment};
use fsb_model::{Place, Plan, RunRecord, TargetKind, Trial};
use fsb_report::Report;
use fsb_runner::agent::Agent;
use fsb_runner::event::{Journal, Observer};
use fsb_runner::plan_file::Resolved;
use fsb_runner::resume as resuming;
use fsb_runner::run::{self, Run, RunError};
use fsb_runner::vm;
use fsb_store::{Claim, RunDirectory};
use fsb_testbed::ledger::{Owner, Replayed};
use fsb_testbed::lock::RunLock;
use fsb_testbed::{LocalTestbed, Testbed, control, host, ledger, medium};

use crate::author::{author, check_cache, command_line, holder};
use crate::exit::{self, Failure};
use crate::journal::Directory;
use crate::progress::{Progress, say, warn};
use crate::results::{self, Output};
use stage::Stage;

pub use stage::watcher;
pub use turn::{Turn, company};

/// Hardware threads that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Hardware threads that workers may use where `controls` bind them.
pub fn cpus_for(controls: &BTreeMap<String, String>) -> u32 {
    control::processors_left(controls).unwrap_or_else(cpus)
}

/// Hardware threads that workers may use in a run of the plan.
fn cpus_of(plan: &Plan) -> u32 {
    match plan.vm {
        Some(vm) => control::processors_left(&plan.controls).unwrap_or(vm.cpus),
        None => cpus_for(&plan.controls),
    }
}

/// A seed that nobody chose, short enough to be typed again.
pub fn fresh_seed() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond() as u64;
    (now ^ (u64::from(process::id()) << 17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}

/// `ext4-xfs-btrfs`, of characters that a shell leaves alone.
pub fn run_name(plan: &Plan) -> String {
    let names: Vec<_> = plan.targets.iter().map(|target| target.name.as_str()).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.,=".contains(c) { c } else { '-' };
    let name: String = names.join("-").chars().map(plain).take(60).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// Undoes what dead runs left: what was done, in lines, and whether all of it could be. Where a ledger has no place,
/// no run left anything.
pub fn replay() -> (Vec<String>, bool) {
    ledger::default_directory().map_or((Vec::new(), true), |place| told(ledger::replay(&place, &host::boot_id())))
}

fn told(replayed: Vec<Replayed>) -> (Vec<String>, bool) {
    let complete = !replayed.iter().any(Replayed::is_open);
    (replayed.into_iter().filter(Replayed::is_news).map(|entry| entry.to_string()).collect(), complete)
}

/// What dead runs left and [`replay`] would undo.
pub fn leftovers() -> (Vec<String>, bool) {
    let Ok(place) = ledger::default_directory() else { return (Vec::new(), true) };
    let describe = |(file, entry): (PathBuf, Result<ledger::Entry, fsb_testbed::Refusal>)| match entry {
        Ok(entry) if entry.owner.is_alive() => None,
        Ok(entry) => Some(format!("would undo: {}", entry.action)),
        Err(why) => Some(format!("would refuse: {}: {why}", file.display())),
    };
    (ledger::leftovers(&place).into_iter().filter_map(describe).collect(), true)
}

/// Checks the request against the machine and takes the lock. Nothing is touched.
fn check(record: &RunRecord, turn: Turn) -> anyhow::Result<RunLock> {
    let setup = run::setup(record);
    let warnings = match record.plan.place {
        Place::Host => LocalTestbed::new(Owner::current()).check(&setup)?,
        Place::Vm => vm::check(&setup)?,
    };
    for warning in warnings {
        warn(&warning, &say);
    }
    space::check(record)?;
    turn.take(&command_line())
}

/// Starts a run in the new directory `out`.
pub fn start(mut resolved: Resolved, out: &Path, output: &Output, quiet: bool, turn: Turn) -> anyhow::Result<u8> {
    fsb_store::check_new(out, &author())?;
    make_absolute(&mut resolved.plan)?;
    let record = new_record(resolved)?;
    let lock = check(&record, turn)?;
    let directory = RunDirectory::create(out, &record, author(), &holder())?;
    let (stage, agent) = Stage::set(lock, &record)?;
    make(stage, agent, directory, record, Vec::new(), output, quiet)
}

/// A run may be resumed from another working directory: what it names must stay what it was.
fn make_absolute(plan: &mut Plan) -> anyhow::Result<()> {
    let absolute = |path: &Path| {
        let path = crate::author::absolute(path)?;
        // run.json is text; a path that is none could not be found again.
        path.to_str().ok_or_else(|| exit::request(format!("{}: the path is not UTF-8", path.display())))?;
        anyhow::Ok(path)
    };
    plan.dir = absolute(&plan.dir)?;
    for path in &mut plan.wipe {
        *path = absolute(path)?;
    }
    for target in &mut plan.targets {
        if let TargetKind::Directory(path) = &mut target.kind {
            *path = absolute(path)?;
        }
    }
    Ok(())
}

/// Goes on with the run in `path`. Consent to wipe a device is not remembered: the name may be another disk's by now.
pub fn resume(path: &Path, wipe: &[PathBuf], output: &Output, quiet: bool, turn: Turn) -> anyhow::Result<u8> {
    let claim = Claim::take(path, author(), &holder())?;
    let contents = claim.read()?;
    if contents.record.plan.place == Place::Vm {
        check_cache()?;
        fsb_vm::kernel::tidy();
    }
    let mut record = resumable(contents, path)?.0;
    record.plan.wipe = wipe.to_vec();
    make_absolute(&mut record.plan)?;
    record.devices = medium::named_devices(&record.plan.targets, &record.plan.wipe);
    let lock = check(&record, turn)?;
    let (mut directory, contents) = RunDirectory::resume(claim)?;
    contents.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    let (_, trials, again) = resumable(contents, path)?;
    record.segments.push(segment(&record.plan)?);
    directory.rewrite_trials(&trials)?;
    if again > 0 && !quiet {
        let trials = if again == 1 { "trial of the unfinished block is" } else { "trials of the unfinished block are" };
        say(&format!("{again} {trials} made again"));
    }
    let (stage, agent) = Stage::set(lock, &record)?;
    make(stage, agent, directory, record, trials, output, quiet)
}

/// The record, the trials with those of the unfinished block marked, and how many were marked; or why the run cannot be
/// resumed.
fn resumable(contents: fsb_store::Contents, path: &Path) -> anyhow::Result<(RunRecord, Vec<Trial>, usize)> {
    let (record, mut trials) = (contents.record, contents.trials);
    let again = resuming::supersede(&record, &mut trials);
    if resuming::complete(&record, &trials) {
        return Err(exit::request(format!("{}: the run is complete; 'fsb report' shows it", path.display())));
    }
    resuming::same_kernel(&record, &kernel(&record.plan)?).map_err(exit::request)?;
    Ok((record, trials, again))
}

fn new_record(resolved: Resolved) -> anyhow::Result<RunRecord> {
    let Resolved { plan, cells, placement } = resolved;
    Ok(RunRecord {
        schema: SCHEMA.to_owned(),
        name: format!("{} · {}", run_name(&plan), plan.name),
        segments: vec![segment(&plan)?],
        devices: medium::named_devices(&plan.targets, &plan.wipe),
        plan,
        cells,
        amounts: Default::default(),
        blocks_planned: None,
        stopping_rule: None,
        placement: Some(placement),
        rounds: Default::default(),
        looks: Vec::new(),
        order: Vec::new(),
        host: Default::default(),
        media: Default::default(),
        targets: Default::default(),
        controls: Default::default(),
        warnings: Vec::new(),
        vm: None,
        emulated: false,
        finished: None,
        extra: Default::default(),
    })
}

fn segment(plan: &Plan) -> anyhow::Result<Segment> {
    Ok(Segment {
        boot_id: host::boot_id(),
        kernel: kernel(plan)?,
        fsb_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        ended: None,
    })
}

/// The kernel that targets are measured on, or the kernels: those of the virtual machine, where it is one.
fn kernel(plan: &Plan) -> anyhow::Result<String> {
    match plan.place {
        Place::Host => Ok(rustix::system::uname().release().to_string_lossy().into_owned()),
        Place::Vm => Ok(vm::releases(&plan.kernels)?.join(" and ")),
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Makes the run and shows what it found, or what was saved of it.
fn make(
    mut stage: Stage,
    agent: Agent,
    directory: RunDirectory,
    record: RunRecord,
    trials: Vec<Trial>,
    output: &Output,
    quiet: bool,
) -> anyhow::Result<u8> {
    let mut journal = Directory(directory);
    let mut progress = Progress::new(&record.plan.targets, quiet);
    let ended = perform(agent, &mut journal, &mut progress, record, trials, true);
    progress.finish();
    if ended.is_err() {
        stage.strike();
    }
    let mut directory = journal.0;
    match ended {
        Ok((mut record, trials)) => {
            record.warnings.extend(stage.undo_rest());
            record.warnings.extend(company(&mut stage.lock));
            if let Some(restored) = restored(&mut directory)? {
                say(&format!("warning: {restored}"));
            }
            close_segment(&mut directory, &mut record)?;
            show(&directory, &record, &trials, output)
        }
        Err(error) => {
            let failure = saved(&mut stage, &mut directory, error);
            // It was struck already: dropping it would wait for the kernel, and a person waits here.
            stage.leave();
            Err(failure)
        }
    }
}

/// Makes a run with the journal and observer given; what the subcommands share.
fn perform(
    agent: Agent,
    journal: &mut dyn Journal,
    observer: &mut dyn Observer,
    record: RunRecord,
    trials: Vec<Trial>,
    warmup: bool,
) -> Result<(RunRecord, Vec<Trial>), RunError> {
    let snapshot = record.clone();
    let mut widest = |trials: &[Trial]| results::widest_interval(&snapshot, trials);
    let mut look = |record: &RunRecord, trials: &[Trial]| results::look(record, trials);
    let cpus = cpus_of(&record.plan);
    run::measure(Run {
        agent,
        journal,
        observer,
        widest: &mut widest,
        look: &mut look,
        // A front end that makes one trial shows it as it was.
        repeats: if warmup { run::REPEATS } else { 0 },
        record,
        trials,
        cpus,
        warmup,
        started: Instant::now(),
    })
}

/// Makes a run that leaves no directory behind: the front end of the 2023 tool.
pub fn perform_unsaved(
    resolved: Resolved,
    journal: &mut dyn Journal,
    observer: &mut dyn Observer,
    turn: Turn,
) -> anyhow::Result<Vec<Trial>> {
    let record = new_record(resolved)?;
    let (mut stage, agent) = Stage::set(check(&record, turn)?, &record)?;
    match perform(agent, journal, observer, record, Vec::new(), false) {
        Ok((_, trials)) => {
            stage.undo_rest().into_iter().for_each(|warning| say(&format!("warning: {warning}")));
            company(&mut stage.lock).into_iter().for_each(|warning| say(&format!("warning: {warning}")));
            Ok(trials)
        }
        Err(error) => {
            stage.strike();
            let message = error.to_string();
            let code = stage.ending(&error.into());
            stage.leave();
            Err(Failure { code, message }.into())
        }
    }
}

fn close_segment(directory: &mut RunDirectory, record: &mut RunRecord) -> anyhow::Result<()> {
    if let Some(segment) = record.segments.last_mut() {
        segment.ended = Some(now());
    }
    Ok(directory.write_record(record)?)
}

fn show(directory: &RunDirectory, record: &RunRecord, trials: &[Trial], output: &Output) -> anyhow::Result<u8> {
    let summary = results::summary(record, trials);
    let shown = Report::of_run(&summary, trials);
    // The answer is told though its report cannot be written.
    let report = results::write(directory, &shown);
    output.emit(&shown)?;
    let report = report?;
    // Beside a table that a program reads, the path is for the person who watches.
    if output.is_first_screen() {
        results::print(&format!("report: {}\n", report.display()))?;
    } else {
        say(&format!("report: {}", report.display()));
    }
    Ok(results::code(trials))
}

/// Makes the run directory again where somebody deleted it, and says so.
fn restored(directory: &mut RunDirectory) -> anyhow::Result<Option<String>> {
    if !directory.is_deleted() {
        return Ok(None);
    }
    let path = directory.path().display().to_string();
    directory.restore()?;
    let now = directory.path().display();
    Ok(Some(format!("{path} was deleted during the run; what was measured is written again, to {now}")))
}

/// Ends an unfinished run: what is on disk is shown as far as it goes, and how to go on.
fn saved(stage: &mut Stage, directory: &mut RunDirectory, error: RunError) -> anyhow::Error {
    let mut message = error.to_string();
    let code = stage.ending(&error.into());
    match restored(directory) {
        Ok(None) => {}
        Ok(Some(restored)) => message += &format!("\n{restored}"),
        Err(error) => message += &format!("\n{error:#}: nothing of the run could be kept"),
    }
    let path = directory.path().display().to_string();
    if let Ok(mut contents) = directory.read() {
        contents.record.warnings.extend(company(&mut stage.lock));
        // A report of what there is: it must not keep the reason from being told.
        let _ = close_segment(directory, &mut contents.record);
        let summary = results::summary(&contents.record, &contents.trials);
        let _ = results::write(directory, &Report::of_run(&summary, &contents.trials));
        message +=
            &format!("\n{} trials are saved in {path}; go on with: fsb run --resume {path}", contents.trials.len());
    }
    Failure { code, message }.into()
}
