//! Workloads whose operations concern a whole file system and are performed by the agent.

use std::collections::BTreeMap;

use crate::common::*;

/// Measures `workload` once on each target, and returns the trials of the block by target.
fn measured(targets: &[&str], workload: &str) -> BTreeMap<String, serde_json::Value> {
    let before = traces();
    let scratch = scratch();
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    let options = ["--workload", workload, "--size", "640M", "--blocks", "1", "--control", "guest-memory=off"];
    let run = [&["run"], targets, &options, &["--out", "run", "-q"]].concat();
    expect_code(&fsb(scratch.path(), &run), 0);
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run")).into_iter().filter(|trial| trial["phase"] == "measured");
    trials.map(|trial| (trial["target"].as_str().unwrap().to_owned(), trial)).collect()
}

#[test]
fn unmounted_file_systems_are_checked_from_the_device_and_directories_are_not() {
    needs!(root);
    needs!(program "e2fsck", "xfs_repair", "btrfs", "ntfs-3g");
    let trials = measured(&["ext4", "xfs", "btrfs", "ntfs", "./data"], "fsck,files=300");
    for target in ["ext4", "xfs", "btrfs"] {
        let trial = &trials[target];
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["metrics"][0]["name"], "maintenance_time", "{trial:#}");
        assert!(trial["metrics"][0]["value"].as_f64().unwrap() > 0.0, "{trial:#}");
        assert!(trial["observed"]["device_read_bytes"].as_u64().unwrap() >= 300 * 64, "{trial:#}");
        assert!(trial["observed"]["user_seconds"].as_f64().unwrap() > 0.0, "{trial:#}");
    }
    for (target, reason) in [("ntfs", "no program that checks"), ("./data", "in use by others")] {
        assert_eq!(trials[target]["outcome"], "not_applicable", "{:#}", trials[target]);
        assert!(trials[target]["error"].as_str().unwrap().contains(reason), "{:#}", trials[target]);
    }
}

#[test]
fn no_file_system_of_this_machine_is_frozen() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    let run = ["run", "ext4", "--workload", "freeze,files=10", "--blocks", "1", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &run), 4);
    let trials = trials(&scratch.path().join("run"));
    assert!(!trials.is_empty() && trials.iter().all(|trial| trial["outcome"] == "not_applicable"), "{trials:#?}");
    assert!(trials[0]["error"].as_str().unwrap().contains("--in vm"), "{:#}", trials[0]);
}
