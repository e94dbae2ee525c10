//! Data with a share that compression and deduplication save; the plan chooses the share.

use serde_json::Value;

use crate::common::mixtures::*;
use crate::common::{expect_code, expect_no_traces, fsb, scratch, traces, trials};

/// Returns the bytes that the device wrote per byte that the workload wrote.
fn written(trial: &Value) -> f64 {
    let moved: f64 = trial["workers"].as_array().unwrap().iter().map(|worker| worker["bytes"].as_f64().unwrap()).sum();
    trial["observed"]["device_write_bytes"].as_f64().unwrap() / moved
}

#[test]
fn a_file_system_that_compresses_writes_and_reads_less() {
    needs!(root);
    needs!(program "mkfs.btrfs");
    needs!(program "mkfs.ext4");
    needs!(program "mkntfs");
    let before = traces();
    let scratch = scratch();
    plan(scratch.path(), "{ compressible = '60%' }");
    let ntfs = "ntfs,compression,mkfs=\"-C\"";
    let targets = ["btrfs,compress=zstd:3", "btrfs,compress=lzo", ntfs, "ext4"];
    let output =
        fsb(scratch.path(), &[&["run", "plan.toml", "--size", "1200M", "--out", "run"][..], &targets].concat());
    expect_code(&output, 0);
    expect_no_traces(&before);
    let trials: Vec<_> = trials(&scratch.path().join("run"));
    // By the file system's own accounting: its free space compared with that of the empty file system.
    let space = |target: &str| -> f64 {
        let wrote = |trial: &&Value| trial["target"] == target && trial["operation"] == "write" && trial["block"] == 1;
        let metrics = trials.iter().find(wrote).unwrap()["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == "space").unwrap()["value"].as_f64().unwrap()
    };
    for target in ["btrfs,compress=zstd:3", "btrfs,compress=lzo", ntfs] {
        let share = space(target) / space("ext4");
        assert!((0.36..0.6).contains(&share), "{target}: {share}");
    }
    for trial in trials.iter().filter(|trial| trial["phase"] == "measured") {
        // Reads of compressed data pass the validity check for a cold cache if the bytes reach the device that must be
        // read however well they compress.
        assert_eq!(trial["outcome"], "ok", "{trial}");
        if trial["operation"] == "write" {
            let share = written(trial);
            let compresses = trial["target"] != "ext4";
            assert!(if compresses { (0.36..0.6).contains(&share) } else { share > 0.99 }, "{share}: {trial}");
        }
    }
}
