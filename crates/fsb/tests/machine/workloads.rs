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
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
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

// Trees of files: copied into a target, within it, deleted.

#[test]
fn trees_are_copied_and_deleted_on_real_file_systems_and_leave_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let mut plan =
        "targets = ['ext4', 'xfs', 'btrfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                    [repetition]\nblocks = 1\nsample_time = '1ms'\n"
            .to_owned();
    for (set, operation, more) in [
        ("music", "copy-into", "verify = true"),
        ("portage", "copy-into", "threads = 2\nverify = true"),
        ("music", "copy-into", "copy = 'copy_file_range'"),
        ("music", "copy-within", "verify = true"),
        (
            "music",
            "copy-within",
            "verify = true\ncopy = 'copy_file_range'",
        ),
        ("music", "copy-within", "verify = true\ncopy = 'reflink'"),
        ("portage", "delete", ""),
    ] {
        plan += &format!(
            "[[workload]]\nname = 'filetree'\nset = '{set}'\nscale = 0.02\noperation = '{operation}'\n{more}\n"
        );
    }
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 0);
    let trials = counting(&directory.path().join("out"));
    let measured: Vec<_> = trials.iter().filter(|trial| trial["block"] == 1).collect();
    assert_eq!(measured.len(), 3 * 7, "{}", stderr(&output));
    for trial in measured {
        let (label, target) = (
            trial["workload"].as_str().unwrap(),
            trial["target"].as_str().unwrap(),
        );
        let outcome = match (label, target) {
            // The input is in memory, which is another file system: the kernel does not copy
            // between them.
            (label, _) if label.contains("into, copy_file_range") => "not_applicable",
            (label, "ext4") if label.contains("reflink") => "not_applicable",
            _ => "ok",
        };
        assert_eq!(
            trial["outcome"], outcome,
            "{label} on {target}: {}",
            trial["error"]
        );
        if outcome == "ok" && label.contains("into") {
            let bytes = trial["observed"]["resident_bytes_before"].as_u64();
            assert!(
                bytes.is_some_and(|bytes| bytes > 1 << 20),
                "the source was in memory: {}",
                trial["observed"]
            );
        }
    }
    drop(output);
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
    let output = fsb(
        scratch.path(),
        &[
            &["run", "plan.toml", "--size", "1200M", "--out", "run"][..],
            &targets,
        ]
        .concat(),
    );
    expect_code(&output, 0);
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

// The workload `cache-warm-up` on a file system whose caches are empty.

#[test]
fn a_cold_cache_warms_up_with_about_the_size_of_the_file_set() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    let workload = "cache-warm-up,file_size=128M";
    let options = [
        "--workload",
        workload,
        "--size",
        "512M",
        "--blocks",
        "2",
        "--control",
        "guest-memory=off",
    ];
    let run = [&["run", "ext4"][..], &options, &["--out", "run", "-q"]].concat();
    expect_code(&fsb(scratch.path(), &run), 0);
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run"));
    let trial = trials
        .iter()
        .find(|trial| trial["phase"] == "measured")
        .expect("a trial");
    assert_eq!(trial["outcome"], "ok", "{trial:#}");
    // Five reads for each record, and the device served nearly each record once.
    let read = trial["observed"]["device_read_bytes"].as_u64().unwrap();
    assert!((115 << 20..150 << 20).contains(&read), "{read}");
    let output = fsb(scratch.path(), &["report", "run", "--format", "json"]);
    expect_code(&output, 0);
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let found = &report["cases"][0]["cells"][0]["warm_up"];
    // The time constant is the size of the file set, unless the kernel or the device reads ahead.
    // If memory is not much faster than the device, each repetition has the reason why there is
    // none.
    match found["bytes"]["value"].as_f64() {
        Some(bytes) => assert!((8e6..200e6).contains(&bytes), "{found:#}"),
        None => assert_eq!(
            found["without"].as_array().map(Vec::len),
            Some(2),
            "{found:#}"
        ),
    }
    let page = fsb(scratch.path(), &["report", "run", "-o", "report.html"]);
    expect_code(&page, 0);
    let page = std::fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(
        page.contains("id=\"cache-warm-up-0\""),
        "the page has the chart of the warm-up"
    );
}
