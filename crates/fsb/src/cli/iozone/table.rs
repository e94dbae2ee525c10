//! Measurements with one process: a row for each pair of sizes, a number for each operation.

use fsb_compat::iozone::print::{self, Report};
use fsb_compat::iozone::sequence::{self, MatrixRow, Operation, Piece};
use fsb_compat::iozone::table_sheet;
use fsb_engine::classic::{self, Existing, PhaseResult};

use super::phases::{cpu_percent, operation, phase, value};
use super::repeat::Repeat;
use super::session::{IozoneSession, Reports, processors};
use crate::results;

/// Measures all rows. Updates the output of `-R` and `-b` row by row, because a run may be interrupted.
pub fn run(session: &mut IozoneSession, reports: &mut Reports) -> anyhow::Result<()> {
    let options = session.options;
    results::print(&print::heading(options))?;
    let mut report = Report::default();
    for sizes in sequence::rows(options) {
        classic::sync_all();
        report.start(sizes);
        let measured = row(session, sizes, &mut report);
        if options.report {
            reports.text = format!("{}{}", print::REPORTS, print::reports(options, &report));
        }
        if options.sheet.is_some() {
            reports.sheet = table_sheet(options, &report)?;
        }
        measured?;
        results::print("\n")?;
        session.made.clear()?;
    }
    Ok(())
}

fn row(session: &mut IozoneSession, sizes: MatrixRow, report: &mut Report) -> anyhow::Result<()> {
    let options = session.options;
    results::print(&print::row(sizes))?;
    for piece in sequence::pieces(options) {
        match piece {
            Piece::Do(operation, column) => {
                let result = measure(session, operation, sizes)?;
                let number = value(options.unit, result.nanoseconds, result.records, sizes.record << 10);
                report.put(column, number, cpu_percent(&result));
                results::print(&print::number(column, number))?;
            }
            Piece::Silently(operation) => _ = measure(session, operation, sizes)?,
            Piece::Zero(column) => {
                report.put(column, 0, 0.0);
                results::print(&print::zero(column))?;
            }
            Piece::Blank(test) => results::print(print::blank(test))?,
        }
    }
    Ok(())
}

/// Measures an operation, once, or as often as `--repeat-until` requires; sums its times.
fn measure(session: &mut IozoneSession, which: Operation, sizes: MatrixRow) -> anyhow::Result<PhaseResult> {
    let options = session.options;
    // A table has no mix.
    let Some(operation) = operation(which) else { return Ok(PhaseResult::default()) };
    session.note(which, std::slice::from_ref(&options.file));
    let cpu = processors(options, 1)[0];
    let mut phase = phase(options, operation, &options.file, sizes, 0, cpu);
    let mut repeat = Repeat::new(options, which, sizes);
    // Writing a new file first removes the old one; a stream creates a file only if there was none.
    let fresh = which == Operation::Fwrite && classic::examine(&options.file) == Ok(Existing::Nothing);
    let mut sum = PhaseResult::default();
    loop {
        if let Some(remount) = &mut session.remount {
            remount.cycle()?;
        }
        if fresh && sum.records > 0 {
            classic::remove(&options.file)?;
        }
        phase.rest = repeat.rest();
        let result = session.worker.pass(&phase)?;
        session.latencies.write(which, None, sizes.record << 10, &result, options.latency_files)?;
        sum.nanoseconds += result.nanoseconds;
        sum.records += result.records;
        sum.user_nanoseconds += result.user_nanoseconds;
        sum.system_nanoseconds += result.system_nanoseconds;
        sum.wall_nanoseconds += result.wall_nanoseconds;
        if repeat.enough(sum.nanoseconds) {
            break;
        }
    }
    if repeat.owes_rest() {
        classic::bring_to_rest(&options.file)?;
    }
    Ok(sum)
}
