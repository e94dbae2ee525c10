//! Reading large runs: `fsb compare old new --fail-if slower`, `fsb report -o page.html` and a run
//! with a damaged line, beside an earlier build of this program: wall time and the largest resident
//! memory, in interleaved pairs. The growth with the number of trials is printed for this build.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::compare::{program, verdict};
use crate::peers::{self, Median};

/// The environment variable with the path of the earlier build, which reads the same run
/// directories.
pub const BEFORE: &str = "FSB_BEFORE";
/// Trials of each of the two runs. The last number is compared with the earlier build.
const TRIALS: [usize; 3] = [1_000, 10_000, 100_000];
/// The number of targets of a run.
const TARGETS: usize = 2;
/// The largest exponent of the time over the number of trials that is linear growth.
const LINEAR: f64 = 1.1;
/// The largest page of a run of any length, in bytes.
const PAGE: f64 = 3e6;

/// A use of runs, with the largest ratios of its time and memory to those of the earlier build.
struct Use {
    name: &'static str,
    arguments: fn(&Pair) -> Vec<String>,
    time: f64,
    memory: f64,
}

const USES: [Use; 3] = [
    Use {
        name: "fsb compare --fail-if slower",
        arguments: |pair| {
            let sets = [("old", &pair.old), ("new", &pair.new)];
            let sets = sets.map(|(name, run)| format!("{name}={}", run.display()));
            let command = ["compare", "--fail-if", "slower"].map(str::to_owned);
            command.into_iter().chain(sets).collect()
        },
        time: 0.3,
        memory: 0.5,
    },
    Use {
        name: "fsb report -o page.html",
        arguments: |pair| report(&pair.old, &pair.page),
        time: 0.5,
        memory: 1.0,
    },
    Use {
        name: "fsb report of a run with a damaged line",
        arguments: |pair| report(&pair.damaged, &pair.damaged.with_extension("html")),
        time: 0.5,
        memory: 1.0,
    },
];

fn report(run: &Path, page: &Path) -> Vec<String> {
    let [run, page] = [run, page].map(|path| path.display().to_string());
    vec!["report".to_owned(), run, "-o".to_owned(), page]
}

/// Two runs of one size, the first one again with a damaged line near its end, and the page that
/// reports are written to.
struct Pair {
    old: PathBuf,
    new: PathBuf,
    damaged: PathBuf,
    page: PathBuf,
}

/// Runs a command and prints its seconds and the kibibytes of its largest resident memory.
const MEASURE: &str = "
import resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, code)
";

/// Seconds and kibibytes of a command.
pub type Cost = [f64; 2];

/// Measures and prints.
pub fn run(directory: &Path, rounds: u32) -> anyhow::Result<()> {
    let ours = program()?;
    let directory = peers::work_directory(directory)?;
    let mut pairs = Vec::new();
    for trials in TRIALS {
        pairs.push(make_runs(
            &ours,
            &directory.path().join(trials.to_string()),
            trials,
        )?);
    }
    println!("\nreading runs of {TARGETS} targets: medians of {rounds} rounds");
    println!("{:<40} {:>8} {:>9} {:>9}", "", "trials", "s", "MiB");
    for one in &USES {
        growth(&ours, one, &pairs, rounds)?;
    }
    let page = fs::metadata(&pairs[TRIALS.len() - 1].page)?.len() as f64;
    println!(
        "{:<40} {:.2} MB{}",
        "the page",
        page / 1e6,
        verdict(page <= PAGE, PAGE / 1e6)
    );
    let Some(before) = env::var_os(BEFORE).map(PathBuf::from) else {
        println!("{BEFORE} names no earlier build: this one alone");
        return Ok(());
    };
    for one in &USES {
        let arguments = (one.arguments)(&pairs[TRIALS.len() - 1]);
        beside(
            &before,
            &ours,
            one.name,
            &arguments,
            [one.time, one.memory],
            rounds,
        )?;
    }
    Ok(())
}

/// Prints the cost of each size, and the exponent of the time between the last two.
fn growth(fsb: &Path, one: &Use, pairs: &[Pair], rounds: u32) -> anyhow::Result<()> {
    let mut last = Vec::new();
    for (trials, pair) in TRIALS.iter().zip(pairs) {
        let arguments = (one.arguments)(pair);
        let (mut seconds, mut memory) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let [time, kibibytes] = cost(fsb, &arguments)?;
            seconds.push(time);
            memory.push(kibibytes / 1024.0);
        }
        let [seconds, memory] = [seconds, memory].map(|values| Median::from_values(values).value);
        println!("{:<40} {trials:>8} {seconds:>9.3} {memory:>9.0}", one.name);
        last.push((*trials as f64, seconds));
    }
    if let [.., (few, short), (many, long)] = last[..] {
        let exponent = (long / short).ln() / (many / few).ln();
        println!(
            "{:<40} time grows with trials^{exponent:.2}{}",
            one.name,
            verdict(exponent <= LINEAR, LINEAR)
        );
    }
    Ok(())
}

/// Prints the ratios of time and memory to those of the earlier build. `goals` are the largest
/// ones.
pub fn beside(
    before: &Path,
    ours: &Path,
    name: &str,
    arguments: &[String],
    goals: Cost,
    rounds: u32,
) -> anyhow::Result<()> {
    println!("\n{name} beside the earlier build");
    println!(
        "{:>6} {:>18} {:>18}",
        "round", "before: s, MiB", "now: s, MiB"
    );
    let (mut times, mut memories) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(9) {
        // The order changes from round to round.
        let (was, is) = if round % 2 == 0 {
            let was = cost(before, arguments)?;
            (was, cost(ours, arguments)?)
        } else {
            let is = cost(ours, arguments)?;
            (cost(before, arguments)?, is)
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
    for (name, ratios, goal) in [("time", times, goals[0]), ("memory", memories, goals[1])] {
        let ratio = Median::from_values(ratios);
        println!(
            "{name:<7} now / before {ratio:.3}{}",
            verdict(ratio.value <= goal, goal)
        );
    }
    Ok(())
}

/// Makes two runs whose journals repeat the blocks of a short one, with values that differ.
fn make_runs(fsb: &Path, directory: &Path, trials: usize) -> anyhow::Result<Pair> {
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
        repeat(run, seed as u64, trials)?;
    }
    let [old, new] = runs;
    let damaged = directory.join("damaged");
    fs::create_dir_all(&damaged)?;
    fs::copy(
        old.join(fsb_store::RUN_FILE),
        damaged.join(fsb_store::RUN_FILE),
    )?;
    let mut journal = fs::read(old.join(fsb_store::TRIALS_FILE))?;
    // A byte in a line near the end.
    let at = journal.len() - journal.len() / 50;
    journal[at] ^= 1;
    fs::write(damaged.join(fsb_store::TRIALS_FILE), journal)?;
    Ok(Pair {
        old,
        new,
        damaged,
        page: directory.join("page.html"),
    })
}

/// Repeats the trials of the first block of a run until it has `trials`.
fn repeat(run: &Path, seed: u64, trials: usize) -> anyhow::Result<()> {
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
    for place in 0..trials {
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
    let blocks = trials.div_ceil(block.len());
    found["blocks_planned"] = blocks.into();
    found["plan"]["repetition"] = serde_json::json!({ "blocks": { "blocks": blocks } });
    found["stop_reason"] = serde_json::json!({ "kind": "requested", "blocks": blocks });
    fs::write(record, found.to_string())?;
    Ok(())
}

/// Returns the cost of a command. A gate that fails or cannot tell is an answer, too.
fn cost(fsb: &Path, arguments: &[String]) -> anyhow::Result<Cost> {
    let output = Command::new("python3")
        .args(["-c", MEASURE])
        .arg(fsb)
        .args(arguments)
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
    ensure!(
        (0.0..=2.0).contains(&code),
        "fsb {arguments:?} ended with {code}"
    );
    Ok([seconds, memory])
}
