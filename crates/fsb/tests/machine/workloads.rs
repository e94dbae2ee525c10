//! Workloads on real file systems: flows and personalities, trees of files, data that compresses,
//! caches that warm up.

use std::fs;

use serde_json::Value;

use crate::common::*;

#[test]
fn personalities_run_on_real_file_systems_and_leave_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let mut plan = "targets = ['ext4', 'xfs', 'btrfs', 'tmpfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                    [repetition]\nblocks = 1\nsample_time = '1ms'\n"
        .to_owned();
    for name in PERSONALITIES {
        let files = if name == "oltp" { 4 } else { 150 };
        let none = if ["varmail", "oltp"].contains(&name) {
            ""
        } else {
            "durability = 'none'\n"
        };
        plan += &format!(
            "[[workload]]\nname = '{name}'\nfiles = {files}\nfile_size = '40K'\nthreads = 5\n{none}verify = true\n"
        );
    }
    plan += "[[workload]]\nname = 'fileserver'\nfiles = 150\nfile_size = '4K'\n\
             [[workload]]\nname = 'flow'\nlabel = 'too few'\ndurability = 'none'\nflow = \"\"\"\nname = 'crowd'\n\
             [[fileset]]\nname = 'few'\nfiles = 3\nsize = '1K'\n[[thread]]\nname = 'maker'\nthreads = 2\n\
             steps = [{ op = 'create', set = 'few' }, { op = 'close' }]\n\"\"\"\n[[workload]]\nname = 'flow'\n";
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), "run plan.toml --out out");
    expect_code(&output, 4);
    let trials = counting(&directory.path().join("out"));
    let measured: Vec<_> = trials.iter().filter(|trial| trial["block"] == 1).collect();
    assert_eq!(measured.len(), 4 * 9, "{}", stderr(&output));
    for trial in measured {
        let (label, target) = (
            trial["workload"].as_str().unwrap(),
            trial["target"].as_str().unwrap(),
        );
        let outcome = match label {
            "too few" => "failed",
            label
                if target == "tmpfs" && (label.contains("durable") || label.contains("synced")) =>
            {
                "not_applicable"
            }
            _ => "ok",
        };
        assert_eq!(
            trial["outcome"], outcome,
            "{label} on {target}: {}",
            trial["error"]
        );
        if outcome == "failed" {
            assert_eq!(trial["error_code"], "trial/no-files", "{}", trial["error"]);
        }
    }
    expect_no_traces(&before);
}

// Data with a share that compression and deduplication save; the plan chooses the share.

/// Returns the bytes that the device wrote per byte that the workload wrote.
fn written(trial: &Value) -> f64 {
    let moved: f64 = trial["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|worker| worker["bytes"].as_f64().unwrap())
        .sum();
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
    mixture_plan(scratch.path(), "{ compressible = '60%' }");
    let ntfs = "ntfs,compression,mkfs=\"-C\"";
    let targets = ["btrfs,compress=zstd:3", "btrfs,compress=lzo", ntfs, "ext4"];
    succeeds(
        scratch.path(),
        &[
            &["run", "plan.toml", "--size", "1200M", "--out", "run"][..],
            &targets,
        ]
        .concat(),
    );
    expect_no_traces(&before);
    let trials: Vec<_> = trials(&scratch.path().join("run"));
    // By the file system's own accounting: its free space compared with that of the empty file
    // system.
    let space = |target: &str| -> f64 {
        let wrote = |trial: &&Value| {
            trial["target"] == target && trial["operation"] == "write" && trial["block"] == 1
        };
        let metrics = trials.iter().find(wrote).unwrap()["metrics"]
            .as_array()
            .unwrap();
        metrics
            .iter()
            .find(|metric| metric["name"] == "space")
            .unwrap()["value"]
            .as_f64()
            .unwrap()
    };
    for target in ["btrfs,compress=zstd:3", "btrfs,compress=lzo", ntfs] {
        let share = space(target) / space("ext4");
        assert!((0.36..0.6).contains(&share), "{target}: {share}");
    }
    for trial in trials.iter().filter(|trial| trial["phase"] == "measured") {
        // Reads of compressed data pass the validity check for a cold cache if the bytes reach the
        // device that must be read however well they compress.
        assert_eq!(trial["outcome"], "ok", "{trial}");
        if trial["operation"] == "write" {
            let share = written(trial);
            let compresses = trial["target"] != "ext4";
            assert!(
                if compresses {
                    (0.36..0.6).contains(&share)
                } else {
                    share > 0.99
                },
                "{share}: {trial}"
            );
        }
    }
}
