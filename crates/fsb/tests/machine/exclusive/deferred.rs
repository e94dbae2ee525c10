//! Deferred work: the work of a target between the end of the sample and the moment at which the
//! target is idle.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{expect_no_traces, measured, metric, record, scratch, succeeds, traces, words};

/// In samples and in sequential trials: unflushed data is written later, flushed data was written
/// before.
#[test]
fn deferred_work_is_counted_until_the_target_is_idle() {
    needs!(root);
    for program in ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"] {
        needs!(program program);
    }
    let before = traces();
    let scratch = scratch();
    let row = |durability: &str, sample_time: &str| {
        format!(
            "[[workload]]\nname = 'write'\nfile_size = '16M'\ndurability = '{durability}'\nsample_time = '{sample_time}'\n\
             label = '{durability} {sample_time}'\n"
        )
    };
    let rows = [("none", "20ms"), ("end", "20ms"), ("none", "1s")];
    let plan: String = rows
        .iter()
        .map(|(durability, sample_time)| row(durability, sample_time))
        .collect();
    let reads = "[[workload]]\nname = 'read'\nfile_size = '16M'\ncache = 'warm'\n";
    std::fs::write(
        scratch.path().join("plan.toml"),
        format!("{plan}{reads}[repetition]\nblocks = 2\n[controls]\nguest-memory = \"off\"\n"),
    )
    .unwrap();
    let run = words("run plan.toml ext4 xfs btrfs --size 1200M --out run");
    succeeds(scratch.path(), &run);
    expect_no_traces(&before);
    let (mut seen, mut took_time) = (0, false);
    for trial in &measured(&scratch.path().join("run")) {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        let label = trial["workload"].as_str().unwrap();
        if trial["operation"] == "read" {
            assert!(
                trial["observed"].get("deferred").is_none(),
                "a read leaves nothing: {trial}"
            );
            continue;
        }
        let (left, times) = (
            metric(trial, "deferred_bytes_per_operation"),
            metric(trial, "write_amplification"),
        );
        let said = format!(
            "{label} on {}: {left} bytes an operation, {times} times",
            trial["target"]
        );
        let (rate, until_rest) = (
            metric(trial, "throughput"),
            metric(trial, "throughput_with_deferred"),
        );
        assert!(until_rest <= rate, "{trial}");
        match label {
            // Each byte is written once; metadata and logs add little.
            "none 20ms" => assert!(
                left > 0.8e6 && (0.99..1.6).contains(&times) && until_rest < rate * 0.9,
                "{said}"
            ),
            // Data overwritten in memory is written out at most once. On a busy machine the extra
            // time can be shorter than the wait on an idle target that is subtracted from it, but
            // not in every trial.
            "none 1s" => {
                assert!(left > 0.0 && times < 1.6, "{said}");
                took_time |= until_rest < rate;
            }
            _ => {
                assert!(left < 0.3e6 && (0.99..1.6).contains(&times), "{said}");
                assert!(
                    trial["latency"].get("sync-at-end").is_some(),
                    "the flush at the end has a duration: {trial}"
                );
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 3 * 3 * 2);
    assert!(took_time, "what was left took no time on any target");
}

// The target is idle between trials: deferred work of one trial is not written during the next.

/// Much deferred work: deleted and kept inodes, a journal full of them, and data.
const HEAVY: &str = "[[workload]]\nname = 'create'\nfiles = 4000\nfile_size = '4K'\nlabel = 'heavy'\ndurability = 'none'\n";
/// One operation reads a whole file: the speed of the disk decides how often a file is read, not
/// how much of it.
const READ: &str = "[[workload]]\nname = 'read'\nfile_size = '16M'\nblock_size = '16M'\ncache = 'cold'\nlabel = 'cold'\n\
    [[workload]]\nname = 'read'\nfile_size = '16M'\nblock_size = '16M'\ncache = 'warm'\nlabel = 'warm'\n";

/// Measures one block of these workloads on each file system. Returns the trials of the reads. They
/// update no times of access: a journal would write those some seconds later, on a slow machine
/// during another sample.
fn reads(directory: &Path, out: &str, workloads: &str) -> Vec<Value> {
    let plan = format!(
        "targets = ['ext2,noatime', 'ext3,noatime', 'ext4,noatime', 'xfs,noatime', 'btrfs,noatime']\nsize = '320M'\n\
         one_at_a_time = true\nseed = 3\n[controls]\nguest-memory = 'off'\n\
         [repetition]\nblocks = 1\nsample_time = '50ms'\n{workloads}"
    );
    fs::write(directory.join("plan.toml"), plan).unwrap();
    succeeds(directory, &["run", "plan.toml", "--out", out, "-q"]);
    let mut trials = measured(&directory.join(out));
    for trial in &trials {
        assert_eq!(trial["observed"]["idle"], true, "{trial}");
        assert!(
            trial["observed"]["quiesce_seconds"].as_f64().unwrap() > 0.0,
            "{trial}"
        );
    }
    trials.retain(|trial| trial["workload"] != "heavy");
    trials
}

#[test]
fn a_read_after_a_heavy_write_does_what_a_read_alone_does() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    let alone = reads(scratch.path(), "alone", READ);
    let after = reads(scratch.path(), "after", &format!("{HEAVY}{READ}"));
    let order = record(&scratch.path().join("after"))["order"].clone();
    let cells = order
        .as_array()
        .unwrap()
        .iter()
        .find(|block| block["block"] == 1)
        .unwrap()["cells"]
        .clone();
    assert_eq!(
        cells[0], "heavy",
        "take a seed with which the heavy write comes first"
    );
    // A read transfers whole blocks of the device: per requested byte it reads the same in both
    // runs.
    let share = |trial: &Value| {
        let asked: u64 = trial["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| worker["bytes"].as_u64().unwrap())
            .sum();
        trial["observed"]["device_read_bytes"].as_f64().unwrap() / asked as f64
    };
    let is_unwritten = |trial: &Value| {
        // sync(2) of any process of the machine writes the superblock of a clean ext2, and commits
        // what a journal holds since the mount (ext4 stores the mount point when the first file is
        // opened). What the heavy write left behind would be megabytes.
        let is_affected = !trial["interference"].as_array().unwrap().is_empty();
        let most = 64 << 10;
        is_affected || trial["observed"]["device_write_bytes"].as_u64().unwrap() <= most
    };
    assert_eq!(after.len(), 10, "two reads on each of five file systems");
    for trial in &after {
        let what = format!("{} at {}", trial["target"], trial["workload"]);
        assert!(
            is_unwritten(trial),
            "{what} wrote while it was read: {trial}"
        );
        let same = |other: &&Value| {
            other["target"] == trial["target"] && other["workload"] == trial["workload"]
        };
        let same = alone.iter().find(same).unwrap();
        assert!(
            is_unwritten(same),
            "{what} wrote while it was read alone: {same}"
        );
        let [with, without] = [share(trial), share(same)];
        // A warm read does not reach the device. A few blocks of metadata are stored beside cold
        // data.
        assert!(
            (with - without).abs() < 0.01,
            "{what}: {with} bytes read for a byte, alone {without}"
        );
    }
    expect_no_traces(&before);
}
