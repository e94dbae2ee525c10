//! `fsb compare old new --fail-if slower` with runs of a hundred thousand trials, beside an earlier
//! build of this program: wall time and the largest resident memory, in interleaved pairs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::compare::{program, verdict};
use crate::peers::{self, Median};

/// The environment variable with the path of the earlier build. Its runs are converted with
/// `scripts/upgrade-results` for this build.
const BEFORE: &str = "FSB_BEFORE";
/// Trials of each of the two runs.
const TRIALS: usize = 100_000;
/// The number of targets of a run.
const TARGETS: usize = 2;
/// The largest ratios of time and memory to those of the earlier build.
const GOALS: [f64; 2] = [0.35, 0.5];

/// Runs a command and prints its seconds and the kibibytes of its largest resident memory.
const MEASURE: &str = "
import resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, code)
";

/// Seconds and kibibytes of a comparison.
type Cost = [f64; 2];

/// Measures and prints.
pub fn run(directory: &Path, rounds: u32) -> anyhow::Result<()> {
    let ours = program()?;
    let before = env::var_os(BEFORE).map(PathBuf::from);
    let directory = peers::work_directory(directory)?;
    let maker = before.as_deref().unwrap_or(&ours);
    let runs = make_runs(maker, &directory.path().join("before"))?;
    println!("\nfsb compare of two runs of {TRIALS} trials with --fail-if slower");
    let Some(before) = before else {
        println!("{BEFORE} names no earlier build: this one alone");
        for _ in 0..rounds {
            let [seconds, memory] = cost(&ours, &runs)?;
            println!("{seconds:>9.3} s {:>9.0} KiB", memory);
        }
        return Ok(());
    };
    let converted = directory.path().join("now");
    let converted = ["old", "new"].map(|name| {
        let to = converted.join(name);
        (directory.path().join("before").join(name), to)
    });
    for (from, to) in &converted {
        copy(from, to)?;
    }
    let converted = converted.map(|(_, to)| to);
    let upgrade = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/upgrade-results");
    let status = Command::new(upgrade).args(&converted).status()?;
    ensure!(status.success(), "scripts/upgrade-results failed");
    println!(
        "{:>6} {:>18} {:>18}",
        "round", "before: s, MiB", "now: s, MiB"
    );
    let (mut times, mut memories) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(9) {
        // The order changes from round to round.
        let (was, is) = if round % 2 == 0 {
            let was = cost(&before, &runs)?;
            (was, cost(&ours, &converted)?)
        } else {
            let is = cost(&ours, &converted)?;
            (cost(&before, &runs)?, is)
        };
        println!(
            "{:>6} {:>9.3} {:>8.0} {:>9.3} {:>8.0}",
            round + 1,
            was[0],
            was[1] / 1024.0,
            is[0],
            is[1] / 1024.0
        );
        times.push(is[0] / was[0]);
        memories.push(is[1] / was[1]);
    }
    for (name, ratios, goal) in [("time", times, GOALS[0]), ("memory", memories, GOALS[1])] {
        let ratio = Median::from_values(ratios);
        println!(
            "{name:<7} now / before {ratio:.3}{}",
            verdict(ratio.value <= goal, goal)
        );
    }
    Ok(())
}

/// Makes two runs whose journals repeat the blocks of a short one, with values that differ.
fn make_runs(fsb: &Path, directory: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let runs = ["old", "new"].map(|name| directory.join(name));
    fs::create_dir_all(directory)?;
    for (seed, run) in runs.iter().enumerate() {
        let made = Command::new(fsb)
            .args([
                "run",
                "a=null",
                "b=null",
                "--blocks",
                "5",
                "-q",
                "--allow-concurrent",
            ])
            .args(["--seed", &seed.to_string(), "--size", "64M", "--out"])
            .arg(run)
            .output()
            .with_context(|| format!("cannot run {}", fsb.display()))?;
        ensure!(
            run.join(fsb_store::TRIALS_FILE).exists(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        repeat(run, seed as u64)?;
    }
    Ok(runs)
}

/// Repeats the trials of the first block of a run until it has [`TRIALS`].
fn repeat(run: &Path, seed: u64) -> anyhow::Result<()> {
    let path = run.join(fsb_store::TRIALS_FILE);
    let mut block: Vec<Value> = Vec::new();
    for line in fs::read_to_string(&path)?.lines() {
        let mut trial: Value = serde_json::from_str(line)?;
        if trial["phase"] == "measured" && trial["block"] == 1 && trial["outcome"] == "ok" {
            trial
                .as_object_mut()
                .context("a trial is an object")?
                .remove("crc32");
            block.push(trial);
        }
    }
    ensure!(block.len() > TARGETS, "the run has no block");
    let mut journal = Vec::new();
    for place in 0..TRIALS {
        let mut trial = block[place % block.len()].clone();
        let number = place / block.len() + 1;
        trial["id"] = format!("b{number}.{place}").into();
        trial["block"] = number.into();
        trial["order"] = place.into();
        // A fixed sequence of factors between 0.95 and 1.05.
        let step = (place as u64 * 7919 + seed * 104_729) % 1000;
        let factor = 0.95 + step as f64 / 10_000.0;
        for metric in trial["metrics"].as_array_mut().context("metrics")? {
            let value = metric["value"].as_f64().context("a value")?;
            metric["value"] = (value * factor).into();
        }
        journal.extend(fsb_store::journal_line(&trial)?);
    }
    fs::write(&path, journal)?;
    let record = run.join(fsb_store::RUN_FILE);
    let mut found: Value = serde_json::from_str(&fs::read_to_string(&record)?)?;
    let blocks = TRIALS.div_ceil(block.len());
    found["blocks_planned"] = blocks.into();
    found["plan"]["repetition"] = serde_json::json!({ "blocks": { "blocks": blocks } });
    found["stop_reason"] = serde_json::json!({ "kind": "requested", "blocks": blocks });
    fs::write(record, found.to_string())?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for name in [fsb_store::RUN_FILE, fsb_store::TRIALS_FILE] {
        fs::copy(from.join(name), to.join(name))?;
    }
    Ok(())
}

/// Returns the cost of a comparison. A gate that fails or cannot tell is an answer, too.
fn cost(fsb: &Path, [old, new]: &[PathBuf; 2]) -> anyhow::Result<Cost> {
    let output = Command::new("python3")
        .args(["-c", MEASURE])
        .arg(fsb)
        .args(["compare", "--fail-if", "slower"])
        .arg(format!("old={}", old.display()))
        .arg(format!("new={}", new.display()))
        .output()
        .context("cannot run python3")?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [seconds, memory, code] = numbers[..] else {
        anyhow::bail!("python3: {}", String::from_utf8_lossy(&output.stderr));
    };
    ensure!((0.0..=2.0).contains(&code), "fsb compare ended with {code}");
    Ok([seconds, memory])
}
