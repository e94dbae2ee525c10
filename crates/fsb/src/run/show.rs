//! The end of a run: the text that the user sees, and the files that the run directory keeps.

use fsb_model::stop::StopReason;
use fsb_model::{Failure, RunRecord, Trial, Warning};
use fsb_report::choice::{self, Choice};
use fsb_report::summary::CompactTrial;
use fsb_report::{Report, WIDTH, text};
use fsb_results::summary;
use fsb_runner::schedule::RunError;
use fsb_store::RunDirectory;

use super::gate::JudgedRun;
use super::record::close_segment;
use super::stage::{Stage, concurrent};
use crate::exit;
use crate::message::say;
use crate::results::{self, Output};

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
    let summary = summary::of_trials(
        record,
        &CompactTrial::all(trials),
        summary::last_run(record, directory.path()).as_ref(),
    );
    let gate = output.gate.as_deref();
    let judged = gate.map(|gate| JudgedRun::new(gate, &summary, record));
    let mut shown = Report::of_run(&summary, trials);
    if let Some(checks) = judged.as_ref().and_then(JudgedRun::checks) {
        shown = shown.with_checks(checks);
    }
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
    let code = match record.stop_reason {
        Some(StopReason::OutputsDiffer { .. }) => exit::GATE,
        _ => results::code(trials),
    };
    Ok(match judged {
        Some(judged) => judged.finish(code),
        None => code,
    })
}

/// Creates the run directory again if another program deleted it, and returns a message about it.
pub(super) fn restored(directory: &mut RunDirectory) -> anyhow::Result<Option<String>> {
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
pub(super) fn saved(
    stage: &mut Stage,
    directory: &mut RunDirectory,
    error: RunError,
    options: Option<&str>,
) -> anyhow::Error {
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
        options.filter(|_| goes_on),
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
        let summary = summary::of_run_in_memory(&contents.record, &contents.trials);
        let report = Report::of_run(&summary, &contents.trials);
        let written = results::write(directory, &report);
        let made = contents.trials.iter().filter(|trial| trial.counts());
        let made = made.map(|trial| trial.block).max().unwrap_or(0);
        let planned = contents.record.blocks_planned.unwrap_or(made);
        // Without verdicts, the headline says why there are none.
        let answer = text::answer_so_far(&report, (made, planned), WIDTH, true)
            .or_else(|| (made > 0).then(|| text::headline(&report, WIDTH)));
        if let Some(answer) = answer {
            text += &format!("\n{}", answer.trim_end());
        }
        if let Ok(page) = written {
            text += &format!("\nreport: {}", page.display());
        }
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

/// Shows the result of the race.
fn show_race(
    directory: &RunDirectory,
    record: &RunRecord,
    trials: &[Trial],
    output: &Output,
) -> anyhow::Result<u8> {
    let shown = CompactTrial::all(trials);
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
    let shown = CompactTrial::all(trials);
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
    let summary = summary::of_run_in_memory(record, &[]);
    Report::Run {
        summary: std::borrow::Cow::Owned(summary),
        trials: std::borrow::Cow::Owned(CompactTrial::all(trials)),
        checks: None,
    }
}
