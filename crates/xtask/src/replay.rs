//! A recorded program beside its replay without think times, on tmpfs, in interleaved pairs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use fsb_engine::{Sizing, Step, StepReport, Task};
use fsb_model::WorkloadSpec;
use serde_json::json;

use crate::backends::in_child;
use crate::bench::Options;
use crate::compare::program;
use crate::peers::{self, Median};

/// Files that the program writes, reads and deletes.
const FILES: u64 = 20_000;
/// Calls on each of them.
const CALLS: u64 = 22;
/// The budget: the least ratio of the program's time to the time of its replay.
const SHARE: f64 = 0.9;
/// Room for the files of one measurement.
const SIZE: u64 = 1 << 30;

/// Measures and prints. Without root it prints that it skips this part.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("\nreplay: left out, because only root mounts tmpfs and records by eBPF");
        return Ok(());
    }
    peers::leave_mounts()?;
    let directory = peers::work_directory(&options.dir)?;
    let place = directory.path().join("tmpfs");
    std::fs::create_dir(&place)?;
    peers::run(
        Command::new("mount")
            .args(["-t", "tmpfs", "tmpfs"])
            .arg(&place),
    )?;
    let compared = compare(directory.path(), &place, options.rounds);
    peers::unmount(&place);
    let ratio = compared?;
    let kept = if ratio.value >= SHARE {
        "kept"
    } else {
        "MISSED"
    };
    println!("program / replay             {ratio}  (budget {SHARE}: {kept})");
    Ok(())
}

/// Records the program, then measures both in pairs. Returns the program's time divided by that of
/// the replay.
fn compare(directory: &Path, place: &Path, rounds: u32) -> anyhow::Result<Median> {
    let calls = peers::compile("file_calls", directory)?;
    let trace = directory.join("file_calls.trace");
    let mut record = Command::new(program()?);
    record.arg("record").arg("-o").arg(&trace);
    record.arg("--root").arg(place).arg("--").arg(&calls);
    peers::run(record.arg(place).arg(FILES.to_string()))?;
    println!(
        "\nreplay of {} calls on tmpfs, {rounds} interleaved pairs, ns per call:",
        FILES * CALLS
    );
    println!("{:>6} {:>9} {:>9}", "pair", "program", "replay");
    let mut ratios = Vec::new();
    for pair in 0..rounds {
        // The order changes from pair to pair.
        let (program, replay) = if pair % 2 == 0 {
            let program = measure_program(&calls, place)?;
            (program, measure_replay(&trace, place)?)
        } else {
            let replay = measure_replay(&trace, place)?;
            (measure_program(&calls, place)?, replay)
        };
        println!("{:>6} {program:>9.1} {replay:>9.1}", pair + 1);
        ratios.push(program / replay);
    }
    Ok(Median::from_values(ratios))
}

/// Returns nanoseconds per call of the program.
fn measure_program(calls: &Path, place: &Path) -> anyhow::Result<f64> {
    let output = peers::run(Command::new(calls).arg(place).arg(FILES.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let ns: f64 = text.trim().parse().context("the program's nanoseconds")?;
    Ok(ns / (FILES * CALLS) as f64)
}

/// Returns nanoseconds per call of the replay.
fn measure_replay(trace: &Path, place: &Path) -> anyhow::Result<f64> {
    let workload = json!({"name": "replay", "trace": trace, "pace": "none"});
    let workload: WorkloadSpec = serde_json::from_value(workload)?;
    let step = |step: Step| -> anyhow::Result<StepReport> {
        let sizing = Sizing {
            size: SIZE,
            cpus: 1,
        };
        in_child(&Task::plain(step, workload.clone(), sizing, place, 1, 0))
    };
    step(Step::Prepare)?;
    let measured = step(Step::Measure)?.whole().context("a measurement")?;
    step(Step::Cleanup)?;
    ensure!(
        measured.operations == FILES * CALLS,
        "the replay made {} calls instead of {}",
        measured.operations,
        FILES * CALLS
    );
    Ok(measured.timed_ns as f64 / measured.operations as f64)
}
