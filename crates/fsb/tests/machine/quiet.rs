//! The target is idle between trials: deferred work of one trial is not written during the next.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{counting, expect_code, expect_no_traces, fsb, record, scratch, traces};

/// Much deferred work: deleted and kept inodes, a journal full of them, and data.
const HEAVY: &str =
    "[[workload]]\nname = 'create'\nfiles = 4000\nfile_size = '4K'\nlabel = 'heavy'\ndurability = 'none'\n";
/// One operation reads a whole file: the speed of the disk decides how often a file is read, not how much of it.
const READ: &str = "[[workload]]\nname = 'read'\nfile_size = '16M'\nblock_size = '16M'\ncache = 'cold'\nlabel = 'cold'\n\
    [[workload]]\nname = 'read'\nfile_size = '16M'\nblock_size = '16M'\ncache = 'warm'\nlabel = 'warm'\n";

/// Measures one block of these workloads on each file system. Returns the trials of the reads.
fn reads(directory: &Path, out: &str, workloads: &str) -> Vec<Value> {
    let plan = format!(
        "targets = ['ext2', 'ext3', 'ext4', 'xfs', 'btrfs']\nsize = '320M'\none_at_a_time = true\nseed = 3\n[controls]\nguest-memory = 'off'\n\
         [repetition]\nblocks = 1\nsample_time = '50ms'\n{workloads}"
    );
    fs::write(directory.join("plan.toml"), plan).unwrap();
    expect_code(&fsb(directory, &["run", "plan.toml", "--out", out, "-q"]), 0);
    let measured = |trial: &Value| trial["phase"] == "measured" && trial["superseded"].is_null();
    let mut trials: Vec<Value> = counting(&directory.join(out)).into_iter().filter(measured).collect();
    for trial in &trials {
        assert_eq!(trial["observed"]["idle"], true, "{trial}");
        assert!(trial["observed"]["quiesce_seconds"].as_f64().unwrap() > 0.0, "{trial}");
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
    let cells = order.as_array().unwrap().iter().find(|block| block["block"] == 1).unwrap()["cells"].clone();
    assert_eq!(cells[0], "heavy", "take a seed with which the heavy write comes first");
    // A read transfers whole blocks of the device: per requested byte it reads the same in both runs.
    let share = |trial: &Value| {
        let asked: u64 =
            trial["workers"].as_array().unwrap().iter().map(|worker| worker["bytes"].as_u64().unwrap()).sum();
        trial["observed"]["device_read_bytes"].as_f64().unwrap() / asked as f64
    };
    assert_eq!(after.len(), 10, "two reads on each of five file systems");
    for trial in &after {
        let what = format!("{} at {}", trial["target"], trial["workload"]);
        assert_eq!(trial["observed"]["device_write_bytes"], 0, "{what} wrote while it was read: {trial}");
        let same = |other: &&Value| other["target"] == trial["target"] && other["workload"] == trial["workload"];
        let same = alone.iter().find(same).unwrap();
        assert_eq!(same["observed"]["device_write_bytes"], 0, "{what}, alone");
        let [with, without] = [share(trial), share(same)];
        // A warm read does not reach the device. A few blocks of metadata are stored beside cold data.
        assert!((with - without).abs() < 0.01, "{what}: {with} bytes read for a byte, alone {without}");
    }
    expect_no_traces(&before);
}
