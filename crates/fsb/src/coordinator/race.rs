//! The result of a race on the screen and in its directory.

use fsb_model::{RunRecord, Trial};
use fsb_report::Report;
use fsb_report::choice::{self, Choice};
use fsb_report::run::ReportTrial;
use fsb_store::RunDirectory;

use crate::exit;
use crate::results::{self, Output};
use crate::stderr::say;

/// Shows the result of the race.
pub(super) fn show(
    directory: &RunDirectory,
    record: &RunRecord,
    trials: &[Trial],
    output: &Output,
) -> anyhow::Result<u8> {
    let shown = ReportTrial::all(trials);
    let Some(choice) = Choice::of(record, &shown) else { return Ok(exit::TRIALS) };
    let written = results::write_choice(directory, &choice, &as_run(record, trials));
    output.emit_choice(&choice)?;
    let path = written?;
    if output.is_first_screen() {
        results::print(&format!("report: {}\n", path.display()))?;
    } else {
        say(&format!("report: {}", path.display()));
    }
    // Too few rounds for an answer are no failure of a trial.
    Ok(if choice.has_answer() || choice.race_rounds > 0 { exit::DONE } else { exit::TRIALS })
}

/// Returns the first screen of an interrupted race; empty if it has no answer yet. Writes the race's files.
pub(super) fn so_far(directory: &RunDirectory, record: &RunRecord, trials: &[Trial]) -> String {
    let shown = ReportTrial::all(trials);
    let Some(choice) = Choice::of(record, &shown) else { return String::new() };
    let _ = results::write_choice(directory, &choice, &as_run(record, trials));
    if choice.has_answer() { format!("\n{}", choice::screen(&choice, 0).trim_end()) } else { String::new() }
}

/// Returns a report for the table of trials, which needs no summary.
fn as_run<'a>(record: &RunRecord, trials: &'a [Trial]) -> Report<'a> {
    let summary = results::summary(record, &[]);
    Report::Run { summary: std::borrow::Cow::Owned(summary), trials: std::borrow::Cow::Owned(ReportTrial::all(trials)) }
}
