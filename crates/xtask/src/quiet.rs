//! Compares reads after a heavy write with reads alone, in complete runs. The deferred work of one
//! trial must not slow the next one.
//!
//! Each block has its own random order of cells, so one run contains both: blocks in which the
//! heavy write came before a read, and blocks in which it came after.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use serde_json::Value;

use crate::compare::program;
use crate::peers::{self, Median};

/// The plan. fsb touches the memory of a virtual machine first. Otherwise the first workload would
/// pay for that. The heavy workload creates thousands of files without syncing them, so it leaves
/// all its writes as deferred work.
const PLAN: &str = "size = '1200M'\n[repetition]\nsample_time = '200ms'\n\
    [[workload]]\nname = 'create'\nfiles = 8000\nfile_size = '4K'\ndurability = 'none'\nlabel = 'heavy'\n\
    [[workload]]\nname = 'read'\nfile_size = '64M'\nblock_size = '1M'\ncache = 'cold'\nlabel = 'read, cold'\n\
    [[workload]]\nname = 'read'\nfile_size = '64M'\nblock_size = '1M'\ncache = 'warm'\nlabel = 'read, warm'\n";
const TARGETS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// The number of blocks per round. About half of the blocks are of each kind.
const BLOCKS_A_PAIR: u32 = 2;

/// Measures and prints. Without root it prints that it skips this part.
pub fn run(directory: &Path, rounds: u32) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("\nreads after a heavy write: left out, for file systems are made by root only");
        return Ok(());
    }
    let directory = peers::work_directory(directory)?;
    let plan = directory.path().join("plan.toml");
    fs::write(&plan, PLAN)?;
    let blocks = (rounds * BLOCKS_A_PAIR).to_string();
    println!("\nreads after a heavy write / reads alone, {blocks} blocks of one run:");
    let status = Command::new(program()?)
        .current_dir(directory.path())
        .args([
            "run",
            "plan.toml",
            "--blocks",
            &blocks,
            "--seed",
            "1",
            "--out",
            "run",
            "--quiet",
            "-o",
            "run.csv",
        ])
        .args(TARGETS)
        .status()?;
    // 4: some trials failed, and the results of the others exist.
    ensure!(
        matches!(status.code(), Some(0 | 4)),
        "fsb run failed: {status}"
    );
    let trials = fs::read_to_string(directory.path().join("run/trials.jsonl"))?;
    let trials: Vec<Value> = trials
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    for trial in trials.iter().filter(|trial| trial["outcome"] != "ok") {
        println!(
            "{}: {}",
            trial["id"].as_str().unwrap_or_default(),
            trial["error"].as_str().unwrap_or_default()
        );
    }
    for ((target, workload), [alone, after]) in rates(&trials) {
        let pairs = alone.len().min(after.len());
        ensure!(
            pairs > 0,
            "no block had the heavy write on that side of the read: take more rounds"
        );
        let ratio =
            Median::from_values(after.iter().zip(&alone).map(|(after, alone)| after / alone));
        println!("{target:<6} {workload:<11} {ratio}  ({pairs} pairs)");
    }
    println!("medians, with their 95 % intervals; 1 is what it should be");
    Ok(())
}

/// Returns the rates of reads by target and workload, in run order: before the heavy write of their
/// block, and after it.
fn rates(trials: &[Value]) -> BTreeMap<(String, String), [Vec<f64>; 2]> {
    let text = |trial: &Value, key: &str| trial[key].as_str().unwrap_or_default().to_owned();
    let mut heavy: BTreeMap<(u64, String), bool> = BTreeMap::new();
    let mut rates: BTreeMap<_, [Vec<f64>; 2]> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial["phase"] == "measured") {
        let (target, workload) = (text(trial, "target"), text(trial, "workload"));
        let been = heavy
            .entry((trial["block"].as_u64().unwrap_or(0), target.clone()))
            .or_default();
        if workload == "heavy" {
            *been = true;
        } else if let Some(rate) = trial["metrics"][0]["value"]
            .as_f64()
            .filter(|_| trial["superseded"] != true)
        {
            rates.entry((target, workload)).or_default()[usize::from(*been)].push(rate);
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_are_told_apart_by_what_came_before_them_in_their_block() {
        let trial = |block: u32, workload: &str, rate: f64, superseded: bool| {
            json!({"phase": "measured", "block": block, "target": "xfs", "workload": workload, "superseded": superseded,
                "metrics": [{"value": rate}]})
        };
        let trials = [
            trial(1, "read", 1.0, false),
            trial(1, "heavy", 9.0, false),
            trial(2, "heavy", 9.0, false),
            trial(2, "read", 7.0, true),
            trial(2, "read", 2.0, false),
            trial(3, "read", 3.0, false),
        ];
        let found = rates(&trials);
        assert_eq!(
            found[&("xfs".to_owned(), "read".to_owned())],
            [vec![1.0, 3.0], vec![2.0]]
        );
    }
}
