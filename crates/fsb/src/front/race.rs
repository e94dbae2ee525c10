//! A race: which candidates this machine takes, who is in the next heat, and what is shown of it.

use fsb_model::{RaceEnd, RunRecord, Trial};
use fsb_report::Report;
use fsb_report::choice::{self, Choice, Replay};
use fsb_report::run::ShownTrial;
use fsb_runner::run::Next;
use fsb_store::RunDirectory;

use crate::exit;
use crate::results::{self, Output};
use crate::stderr::say;

/// Who is in the next heat, or why there is none.
pub(super) fn heats(record: &RunRecord, trials: &[Trial]) -> Next {
    let shown = ShownTrial::all(trials);
    let replay = Replay::of(record, &shown);
    if let Some(error) = replay.without_loss.get(&0).cloned().or_else(|| failed_at_warm_up(record, &shown)) {
        return Next::End(RaceEnd::BaselineFailed { target: record.plan.targets[0].name.clone(), error });
    }
    let in_first_stage = record.plan.race.as_ref().is_some_and(|race| replay.blocks.len() < race.first_stage.len());
    if !in_first_stage && replay.race.left().len() < 2 && replay.race.heats() > 0 {
        return Next::End(RaceEnd::OthersSlower);
    }
    if !in_first_stage && replay.race.is_decided() {
        return Next::End(RaceEnd::NoneFaster);
    }
    let drawn = replay.draw(record);
    if drawn.len() < 2 {
        return Next::End(RaceEnd::NoneLeft);
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
