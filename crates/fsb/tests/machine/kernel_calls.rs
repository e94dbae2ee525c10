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

/// The interfaces through which calls have flags: the beginnings of the names of their backends,
/// and requests in flight.
const INTERFACES: [(&str, u32); 3] = [("", 1), ("libaio-", 8), ("uring-", 8)];

/// Returns workloads with the backend of a flag through each interface. `template` is lines of a
/// plan with a label in front of which the interface is put.
fn through_all_interfaces(flag: &str, templates: &[(&str, &str)]) -> String {
    let mut plan = String::new();
    for (interface, depth) in INTERFACES {
        for (label, lines) in templates {
            plan += &format!(
                "[[workload]]\nlabel = '{interface}{label}'\nbackend = '{interface}{flag}'\ndepth = {depth}\n{lines}\n"
            );
        }
    }
    plan
}

#[test]
fn uncached_io_is_measured_where_nothing_stays_in_the_page_cache() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs");
    // Reads end after some records, and what was read ahead stays.
    let plan = through_all_interfaces(
        "uncached",
        &[
            (
                "read",
                "name = 'read'\nfile_size = '8M'\nblock_size = '64K'\ncache = 'any'",
            ),
            (
                "write",
                "name = 'write'\nfile_size = '8M'\nblock_size = '64K'\ndurability = 'end'",
            ),
            (
                "overwrite",
                "name = 'random-write'\nfile_size = '8M'\ndurability = 'end'",
            ),
        ],
    );
    let trials = trials_of("ext4 xfs btrfs tmpfs overlay", &plan);
    // ext4 keeps overwritten pages. Everywhere, a sync(2) of another process can write pages in a
    // way that leaves them in the cache.
    let measured = |target: &str, interface: &str, label: &str| {
        let trial = &trials[&(target.to_owned(), format!("{interface}{label}"))];
        let is_kept = trial["error_code"] == "trial/not-uncached";
        assert!(trial["outcome"] == "ok" || is_kept, "{trial:#}");
        !is_kept
    };
    for (interface, _) in INTERFACES {
        for label in ["read", "write", "overwrite"] {
            let label = format!("{interface}{label}");
            compare(
                &trials,
                &label,
                &[("btrfs", "not_applicable"), ("overlay", "not_applicable")],
            );
        }
        compare(
            &trials,
            &format!("{interface}read"),
            &[("tmpfs", "not_applicable")],
        );
        for target in ["ext4", "xfs"] {
            let [read, write, overwrite] =
                ["read", "write", "overwrite"].map(|label| measured(target, interface, label));
            assert!(read, "{interface} on {target}: {trials:#?}");
            let keeps = target == "ext4";
            assert!(
                write || overwrite || keeps,
                "{interface} on {target}: {trials:#?}"
            );
        }
    }
    for trial in trials.values().filter(|trial| trial["outcome"] == "ok") {
        let observed = &trial["observed"];
        let resident = observed["resident_bytes_after"].as_f64().unwrap();
        let mut unread = 0.0;
        if trial["operation"] == "read" {
            let served = observed["device_read_bytes"].as_f64().unwrap();
            unread = (served - trial["workers"][0]["bytes"].as_f64().unwrap()).max(0.0);
        }
        assert!(resident - unread <= f64::from(8 << 17), "{trial:#}");
    }
}

#[test]
fn atomic_writes_are_measured_where_one_succeeds() {
    needs!(root);
    needs!(program "mkfs.xfs", "mkfs.btrfs");
    let plan = through_all_interfaces(
        "atomic",
        &[
            ("4K", "name = 'random-write'\nfile_size = '8M'"),
            (
                "16K",
                "name = 'random-write'\nfile_size = '8M'\nblock_size = '16K'",
            ),
            (
                "12K",
                "name = 'random-write'\nfile_size = '12M'\nblock_size = '12K'",
            ),
        ],
    );
    let trials = trials_of("xfs btrfs over=overlay,over=xfs", &plan);
    for (interface, _) in INTERFACES {
        for label in ["4K", "16K"] {
            compare(
                &trials,
                &format!("{interface}{label}"),
                &[
                    ("xfs", "ok"),
                    ("btrfs", "not_applicable"),
                    ("over", "not_applicable"),
                ],
            );
        }
        let over = &trials[&("over".to_owned(), format!("{interface}4K"))]["error"];
        assert!(
            over.as_str()
                .unwrap()
                .contains("statx reports atomic writes"),
            "{over}"
        );
        let odd = &trials[&("xfs".to_owned(), format!("{interface}12K"))];
        assert_eq!(odd["outcome"], "not_applicable");
        assert!(
            odd["error"].as_str().unwrap().contains("powers of two"),
            "{odd:#}"
        );
    }
}

#[test]
fn reads_that_would_wait_are_counted() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs");
    let plan = through_all_interfaces(
        "nowait",
        &[
            (
                "cold",
                "name = 'random-read'\nfile_size = '8M'\ncache = 'cold'",
            ),
            (
                "warm",
                "name = 'random-read'\nfile_size = '8M'\ncache = 'warm'",
            ),
        ],
    );
    let trials = trials_of("ext4 xfs tmpfs overlay", &plan);
    for (interface, _) in INTERFACES {
        let cold = format!("{interface}cold");
        compare(&trials, &cold, &[("ext4", "ok"), ("xfs", "ok")]);
        let warm = format!("{interface}warm");
        compare(
            &trials,
            &warm,
            &[
                ("ext4", "ok"),
                ("xfs", "ok"),
                ("tmpfs", "not_applicable"),
                ("overlay", "not_applicable"),
            ],
        );
        for target in ["ext4", "xfs"] {
            let waits = |label: &str| {
                let trial = &trials[&(target.to_owned(), label.to_owned())];
                trial["observed"]["counts"]["calls_that_would_wait"]
                    .as_u64()
                    .unwrap_or(0)
            };
            assert!(waits(&cold) > 0, "{cold} on {target}");
            assert_eq!(waits(&warm), 0, "{warm} on {target}");
        }
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
