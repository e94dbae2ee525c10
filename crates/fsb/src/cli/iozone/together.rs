//! Throughput mode: several processes or threads at once, with a block of lines for each operation.

use std::path::PathBuf;

use fsb_compat::iozone::Options;
use fsb_compat::iozone::options::Unit;
use fsb_compat::iozone::print::{self, Child, ThroughputTest};
use fsb_compat::iozone::sequence::{self, MatrixRow, Operation};
use fsb_compat::iozone::throughput_sheet;
use fsb_engine::classic::{self, Existing, GroupResult, Phase, PhaseResult};

use super::phases::{operations, phase};
use super::repeat::Repeat;
use super::session::{IozoneSession, Reports, processors};
use crate::results;

/// Measures all numbers of processes.
pub fn run(session: &mut IozoneSession, reports: &mut Reports) -> anyhow::Result<()> {
    let options = session.options;
    let Some(sizes) = sequence::rows(options).first().copied() else { return Ok(()) };
    let files = sequence::files(options);
    let mut runs: Vec<Vec<ThroughputTest>> = Vec::new();
    for count in sequence::counts(options) {
        results::print(&print::intro(options, sizes))?;
        runs.push(Vec::new());
        let files = &files[..count as usize];
        for operation in sequence::throughput(options) {
            classic::sync_all();
            session.note(operation, files);
            let test = measure(session, operation, sizes, files)?;
            results::print(&print::block(options, &test))?;
            if let Some(run) = runs.last_mut() {
                run.push(test);
            }
            report(options, sizes, &runs, reports)?;
        }
        session.made.clear()?;
        results::print("\n\n")?;
    }
    Ok(())
}

fn report(
    options: &Options,
    sizes: MatrixRow,
    runs: &[Vec<ThroughputTest>],
    reports: &mut Reports,
) -> anyhow::Result<()> {
    reports.beside = print::without_stonewall(options, runs);
    if options.report {
        reports.text = print::throughput_report(options, sizes, runs);
    }
    if options.sheet.is_some() {
        reports.sheet = throughput_sheet(options, sizes, runs)?;
    }
    Ok(())
}

/// Measures an operation of all processes, once, or as often as `--repeat-until` requires; sums the times of each
/// process.
fn measure(
    session: &mut IozoneSession,
    operation: Operation,
    sizes: MatrixRow,
    files: &[PathBuf],
) -> anyhow::Result<ThroughputTest> {
    let options = session.options;
    let mut phases = phases(options, operation, sizes, files);
    // A stream overwrites an existing file.
    let met_none = || files.iter().all(|file| classic::examine(file) == Ok(Existing::Nothing));
    let fresh = operation.makes_file() && (operation != Operation::Fwrite || met_none());
    let mut repeat = Repeat::new(options, operation, sizes);
    let mut sums = vec![Some(PhaseResult { full_nanoseconds: Some(0), ..PhaseResult::default() }); files.len()];
    let mut nanoseconds = 0;
    loop {
        phases.iter_mut().for_each(|phase| phase.rest = repeat.rest());
        let result = session.worker.passes_together(&phases, options.threads)?;
        for (rank, result) in result.results.iter().enumerate() {
            session.latencies.write(operation, Some(rank), sizes.record << 10, result, options.latency_files)?;
        }
        nanoseconds += add(&mut sums, result);
        let least = sums.iter().flatten().map(|sum| sum.nanoseconds).min().unwrap_or(u64::MAX);
        if repeat.enough(least) {
            break;
        }
        if fresh {
            // The first pass found no files, or removed those of an earlier run; the others must find none, too.
            files.iter().try_for_each(|file| classic::remove(file).map(|_| ()))?;
        }
    }
    if repeat.owes_rest() {
        files.iter().try_for_each(|file| classic::bring_to_rest(file))?;
    }
    let children = sums.iter().flatten().map(|sum| child(options, sizes, sum)).collect();
    Ok(ThroughputTest { operation, children, seconds: nanoseconds as f64 * 1e-9 })
}

fn phases(options: &Options, operation: Operation, sizes: MatrixRow, files: &[PathBuf]) -> Vec<Phase> {
    let cpus = processors(options, files.len());
    let operations = operations(options, operation, files.len() as u32);
    let members = files.iter().zip(operations).zip(cpus).enumerate();
    members.map(|(rank, ((file, operation), cpu))| phase(options, operation, file, sizes, rank as u32, cpu)).collect()
}

/// Adds a pass of all processes to the sums of each. Returns the time of the pass.
fn add(sums: &mut [Option<PhaseResult>], result: GroupResult) -> u64 {
    for (sum, result) in sums.iter_mut().flatten().zip(result.results) {
        sum.nanoseconds += result.nanoseconds;
        sum.records += result.records;
        sum.full_nanoseconds = sum.full_nanoseconds.zip(result.full_nanoseconds).map(|(sum, more)| sum + more);
        sum.user_nanoseconds += result.user_nanoseconds;
        sum.system_nanoseconds += result.system_nanoseconds;
        sum.wall_nanoseconds += result.wall_nanoseconds;
    }
    result.nanoseconds
}

fn child(options: &Options, sizes: MatrixRow, sum: &PhaseResult) -> Child {
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let amount = |records: u64| match options.unit {
        Unit::Operations => records as f64,
        Unit::Kilobytes | Unit::Microseconds => (records * sizes.record) as f64,
    };
    let passes = sizes.file / sizes.record;
    Child {
        moved: amount(sum.records),
        rate: amount(sum.records) / seconds(sum.nanoseconds),
        full: sum.full_nanoseconds.map(|full| amount(passes) / seconds(full)),
        wall: seconds(sum.wall_nanoseconds),
        cpu: seconds(sum.user_nanoseconds + sum.system_nanoseconds),
    }
}
