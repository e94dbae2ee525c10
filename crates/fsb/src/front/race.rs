//! A race: which candidates this machine takes, who is in the next heat, and what is shown of it.

use std::path::Path;

use fsb_model::race::Refused;
use fsb_model::{Place, RunRecord, Trial};
use fsb_report::Report;
use fsb_report::choice::{self, Choice, Replay};
use fsb_report::run::ShownTrial;
use fsb_runner::plan_file::Resolved;
use fsb_runner::run::{self, Next};
use fsb_runner::work::Work;
use fsb_store::RunDirectory;
use fsb_testbed::ledger::Owner;
use fsb_testbed::{LocalTestbed, Testbed};

use super::stage::Stage;
use super::{Turn, check, make, make_absolute, new_record, next, space};
use crate::author::{author, holder};
use crate::progress::say;
use crate::results::{self, Output};
use crate::{code, exit};

/// Starts a race in the new directory `out`. Candidates that this machine refuses beforehand are left out, and told.
pub fn choose(mut resolved: Resolved, out: &Path, output: &Output, quiet: bool, turn: Turn) -> anyhow::Result<u8> {
    fsb_store::check_new(out, &author()).map_err(next::of_unwritable)?;
    make_absolute(&mut resolved.plan)?;
    let (mut record, work) = new_record(resolved)?;
    if let Some(fsb_model::run::Placement::InTurn { why }) = &record.placement {
        return Err(exit::failure(
            &code::NOT_RACED,
            format!(
                "candidates of a race are measured side by side, and these cannot be: {why} (file systems of one medium can)"
            ),
        ));
    }
    record.name = format!("choose · {}", record.plan.name);
    leave_out_refused(&mut record, &work)?;
    run::check_budget(&record, &work)?;
    let lock = check(&record, &work, turn)?;
    let directory = RunDirectory::create(out, &record, author(), &holder()).map_err(next::of_unwritable)?;
    let (stage, agent) = Stage::set(lock, &record)?;
    make(stage, agent, directory, (record, work, Vec::new()), output, quiet)
}

/// Asks of every candidate alone whether it can be raced. What is wrong with the reference is wrong with the request.
fn leave_out_refused(record: &mut RunRecord, work: &Work) -> anyhow::Result<()> {
    let alone = |at: usize| {
        let mut alone = record.clone();
        alone.plan.targets = vec![record.plan.targets[at].clone()];
        alone
    };
    let ask = |at: usize| -> anyhow::Result<()> {
        let record = alone(at);
        if record.plan.place == Place::Host {
            LocalTestbed::new(Owner::current()).check(&run::setup(&record)).map_err(next::of_refused)?;
        }
        space::check(&record, work)
    };
    ask(0)?;
    let refused: Vec<(usize, String)> =
        (1..record.plan.targets.len()).filter_map(|at| Some((at, ask(at).err()?.to_string()))).collect();
    let gone = |at: usize| refused.iter().any(|(known, _)| *known == at);
    let targets = std::mem::take(&mut record.plan.targets);
    let Some(race) = &mut record.plan.race else { return Ok(()) };
    race.refused.extend(refused.iter().map(|(at, why)| Refused { name: targets[*at].name.clone(), why: why.clone() }));
    // Places in the design are those of the plan: it goes on without what was refused.
    let moved = |at: &u32| (!gone(*at as usize)).then(|| (0..*at as usize).filter(|at| !gone(*at)).count() as u32);
    for heat in &mut race.first_stage {
        *heat = heat.iter().filter_map(moved).collect();
    }
    let whole = |places: &[u32]| places.iter().all(|at| !gone(*at as usize));
    race.factors.retain(|factor| whole(&factor.with) && whole(&factor.without));
    for factor in &mut race.factors {
        factor.with = factor.with.iter().filter_map(moved).collect();
        factor.without = factor.without.iter().filter_map(moved).collect();
    }
    let mut at = 0..;
    race.candidates.retain(|_| !gone(at.next().unwrap_or_default()));
    record.plan.targets = targets.into_iter().enumerate().filter(|(at, _)| !gone(*at)).map(|(_, one)| one).collect();
    if record.plan.targets.len() < 2 {
        let reasons: Vec<String> =
            race.refused.iter().map(|refused| format!("{}: {}", refused.name, refused.why)).collect();
        return Err(exit::failure(
            &code::UNABLE,
            format!("no candidate is left to race against the first one\n{}", reasons.join("\n")),
        ));
    }
    Ok(())
}

/// Who is in the next heat, or why there is none.
pub(super) fn heats(record: &RunRecord, trials: &[Trial]) -> Next {
    let shown = ShownTrial::all(trials);
    let replay = Replay::of(record, &shown);
    if let Some(why) = replay.without_loss.get(&0).cloned().or_else(|| failed_at_warm_up(record, &shown)) {
        return Next::Enough(format!("{} cannot be measured: {why}", record.plan.targets[0].name));
    }
    let in_first_stage = record.plan.race.as_ref().is_some_and(|race| replay.blocks.len() < race.first_stage.len());
    if !in_first_stage && replay.race.left().len() < 2 && replay.race.heats() > 0 {
        return Next::Enough("all others are surely slower".to_owned());
    }
    if !in_first_stage && replay.race.is_decided() {
        return Next::Enough("nobody left can be faster than the leader by more than θ".to_owned());
    }
    let drawn = replay.draw(record);
    if drawn.len() < 2 {
        return Next::Enough("nobody is left to race".to_owned());
    }
    let standing = Choice::of(record, &shown).map(|choice| choice::standing(&choice)).unwrap_or_default();
    let targets = drawn.iter().map(|drawn| (record.plan.targets[drawn.candidate].name.clone(), drawn.part)).collect();
    Next::Heat { targets, standing }
}

/// Why the reference gave nothing at all at warm-up: then no heat would tell anything.
fn failed_at_warm_up(record: &RunRecord, trials: &[ShownTrial]) -> Option<String> {
    let reference = &record.plan.targets.first()?.name;
    let own = || trials.iter().filter(|trial| trial.what.target == *reference && !trial.superseded);
    let is_good = |trial: &ShownTrial| trial.outcome == fsb_model::Outcome::Ok;
    if own().any(is_good) {
        return None;
    }
    let bad = own().next()?;
    Some(format!("{}: {}", bad.what.workload, bad.extras().error.as_deref().unwrap_or("it gave no value")))
}

/// Shows what the race found.
pub(super) fn show(
    directory: &RunDirectory,
    record: &RunRecord,
    trials: &[Trial],
    output: &Output,
) -> anyhow::Result<u8> {
    let shown = ShownTrial::all(trials);
    let Some(choice) = Choice::of(record, &shown) else { return Ok(exit::TRIALS) };
    let written = results::write_choice(directory, &choice, &as_run(record, trials));
    output.emit_choice(&choice)?;
    let path = written?;
    if output.is_first_screen() {
        results::print(&format!("report: {}\n", path.display()))?;
    } else {
        say(&format!("report: {}", path.display()));
    }
    Ok(if choice.has_answer() { exit::DONE } else { exit::TRIALS })
}

/// What is known of a race that was interrupted.
pub(super) fn so_far(directory: &RunDirectory, record: &RunRecord, trials: &[Trial]) -> String {
    let shown = ShownTrial::all(trials);
    let Some(choice) = Choice::of(record, &shown) else { return String::new() };
    let _ = results::write_choice(directory, &choice, &as_run(record, trials));
    if choice.has_answer() { format!("\n{}", choice::screen(&choice, 0).trim_end()) } else { String::new() }
}

/// For the table of trials, which needs no summary.
fn as_run<'a>(record: &RunRecord, trials: &'a [Trial]) -> Report<'a> {
    let summary = results::summary(record, &[]);
    Report::Run { summary: std::borrow::Cow::Owned(summary), trials: std::borrow::Cow::Owned(ShownTrial::all(trials)) }
}
