//! The newer calls of the kernel on real file systems: RWF_DONTCACHE, RWF_ATOMIC, RWF_NOWAIT, and
//! workloads of one call.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::common::*;

/// Runs a plan of workloads on targets. Returns the first measured trial of each case by target and
/// label.
fn trials_of(targets: &str, workloads: &str) -> BTreeMap<(String, String), Value> {
    let before = traces();
    let scratch = scratch();
    let plan = format!(
        "name = 'calls'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\nsample_time = '1ms'\n{workloads}"
    );
    fs::write(scratch.path().join("calls.toml"), plan).expect("the plan is written");
    let command = format!("run calls.toml {targets} --size 1300M --out run -q --one-at-a-time");
    let output = fsb(scratch.path(), &command);
    expect_no_traces(&before);
    let all = measured(&scratch.path().join("run"));
    assert!(!all.is_empty(), "{}", stderr(&output));
    let text = |trial: &Value, key: &str| trial[key].as_str().unwrap_or_default().to_owned();
    all.into_iter()
        .map(|trial| ((text(&trial, "target"), text(&trial, "workload")), trial))
        .collect()
}

/// Compares the outcomes of all targets in a case with those expected, in the same order. A refusal
/// names its errno.
fn compare(trials: &BTreeMap<(String, String), Value>, label: &str, expected: &[(&str, &str)]) {
    for (target, outcome) in expected {
        let trial = &trials[&((*target).to_owned(), label.to_owned())];
        let error = trial["error"].as_str().unwrap_or_default();
        assert_eq!(trial["outcome"], *outcome, "{label} on {target}: {error}");
        if *outcome == "not_applicable" {
            assert!(names_errno(error), "{label} on {target}: {error}");
        }
    }
}

/// Returns whether a refusal names the error of a call that is missing.
fn names_errno(error: &str) -> bool {
    ["EOPNOTSUPP", "ENOTTY"]
        .iter()
        .any(|name| error.contains(name))
}

const UNCACHED: &str = r#"
[[workload]]
name = "read"
label = "read"
file_size = "8M"
block_size = "64K"
cache = "any"
backend = "uncached"
[[workload]]
name = "write"
label = "write"
file_size = "8M"
block_size = "64K"
durability = "end"
backend = "uncached"
[[workload]]
name = "random-write"
label = "overwrite"
file_size = "8M"
durability = "end"
backend = "uncached"
"#;

#[test]
fn uncached_io_is_measured_where_nothing_stays_in_the_page_cache() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs");
    let trials = trials_of("ext4 xfs btrfs tmpfs overlay", UNCACHED);
    for label in ["read", "write", "overwrite"] {
        compare(
            &trials,
            label,
            &[("btrfs", "not_applicable"), ("overlay", "not_applicable")],
        );
    }
    compare(&trials, "read", &[("tmpfs", "not_applicable")]);
    // ext4 keeps overwritten pages. Everywhere, a sync(2) of another process can write pages in a
    // way that leaves them in the cache.
    let measured = |target: &str| {
        let own = trials.iter().filter(|((of, _), _)| of == target);
        own.filter(|((_, label), trial)| {
            let is_kept = trial["error_code"] == "trial/not-uncached";
            assert!(trial["outcome"] == "ok" || is_kept, "{label}: {trial:#}");
            !is_kept
        })
        .count()
    };
    assert!(measured("xfs") >= 1, "{trials:#?}");
    assert!(measured("ext4") >= 1, "{trials:#?}");
    for trial in trials.values().filter(|trial| trial["outcome"] == "ok") {
        let resident = trial["observed"]["resident_bytes_after"].as_u64().unwrap();
        assert!(resident <= 8 << 17, "{trial:#}");
    }
}

const ATOMIC: &str = r#"
[[workload]]
name = "random-write"
label = "4K"
file_size = "8M"
backend = "atomic"
[[workload]]
name = "random-write"
label = "16K"
file_size = "8M"
block_size = "16K"
backend = "atomic"
[[workload]]
name = "random-write"
label = "12K"
file_size = "12M"
block_size = "12K"
backend = "atomic"
"#;

#[test]
fn atomic_writes_are_measured_where_one_succeeds() {
    needs!(root);
    needs!(program "mkfs.xfs", "mkfs.btrfs");
    let trials = trials_of("xfs btrfs over=overlay,over=xfs", ATOMIC);
    for label in ["4K", "16K"] {
        compare(
            &trials,
            label,
            &[
                ("xfs", "ok"),
                ("btrfs", "not_applicable"),
                ("over", "not_applicable"),
            ],
        );
    }
    let over = &trials[&("over".to_owned(), "4K".to_owned())]["error"];
    assert!(
        over.as_str()
            .unwrap()
            .contains("statx reports atomic writes"),
        "{over}"
    );
    let odd = &trials[&("xfs".to_owned(), "12K".to_owned())];
    assert_eq!(odd["outcome"], "not_applicable");
    assert!(
        odd["error"].as_str().unwrap().contains("powers of two"),
        "{odd:#}"
    );
}

const NOWAIT: &str = r#"
[[workload]]
name = "random-read"
label = "cold"
file_size = "8M"
cache = "cold"
backend = "nowait"
[[workload]]
name = "random-read"
label = "warm"
file_size = "8M"
cache = "warm"
backend = "nowait"
"#;

#[test]
fn reads_that_would_wait_are_counted() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs");
    let trials = trials_of("ext4 xfs tmpfs overlay", NOWAIT);
    compare(
        &trials,
        "warm",
        &[
            ("ext4", "ok"),
            ("xfs", "ok"),
            ("tmpfs", "not_applicable"),
            ("overlay", "not_applicable"),
        ],
    );
    compare(&trials, "cold", &[("ext4", "ok"), ("xfs", "ok")]);
    for target in ["ext4", "xfs"] {
        let waits = |label: &str| {
            let trial = &trials[&(target.to_owned(), label.to_owned())];
            trial["observed"]["counts"]["calls_that_would_wait"]
                .as_u64()
                .unwrap_or(0)
        };
        assert!(waits("cold") > 0, "{target}");
        assert_eq!(waits("warm"), 0, "{target}");
    }
}

#[test]
fn workloads_of_newer_calls_are_measured_or_not_applicable() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs");
    const NAMES: [&str; 8] = [
        "statx",
        "openat2",
        "exchange",
        "tmpfile",
        "copy-range",
        "reflink-range",
        "write-hint",
        "verity",
    ];
    let mut plan = NAMES
        .map(|name| {
            format!(
                "[[workload]]\nname = '{name}'\nlabel = '{name}'\nfiles = 20\nfile_size = '256K'\n"
            )
        })
        .concat();
    plan += "[[workload]]\nname = 'fallocate'\nlabel = 'write-zeroes'\nmode = 'write-zeroes'\nfile_size = '1M'\n";
    let trials = trials_of("ext4 xfs btrfs", &plan);
    for name in [
        "statx",
        "openat2",
        "exchange",
        "tmpfile",
        "copy-range",
        "write-hint",
    ] {
        compare(
            &trials,
            name,
            &[("ext4", "ok"), ("xfs", "ok"), ("btrfs", "ok")],
        );
    }
    compare(
        &trials,
        "reflink-range",
        &[("ext4", "not_applicable"), ("xfs", "ok"), ("btrfs", "ok")],
    );
    // Whether the kernel has fs-verity, and the device writes zeros, is not ours to say.
    for name in ["verity", "write-zeroes"] {
        for target in ["ext4", "xfs", "btrfs"] {
            let trial = &trials[&(target.to_owned(), name.to_owned())];
            let is_clear = match trial["outcome"].as_str().unwrap() {
                "ok" => true,
                "not_applicable" => names_errno(trial["error"].as_str().unwrap()),
                _ => false,
            };
            assert!(is_clear, "{name} on {target}: {trial:#}");
        }
    }
}
