//! In a directory, fsb changes only its own sub-directory, and removes it.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use fsb_testbed::ledger::Owner;
use fsb_testbed::{ColdReach, Kind, LocalTestbed, Testbed};
use serde_json::Value;

use crate::stage::{directory, find, nothing_is_left, run, setup};

tests! {
    root_measures_a_directory_that_the_worker_cannot_reach,
    without_root_data_are_evicted_and_nothing_else_is_possible,
    places_that_cannot_be_measured_are_refused,
    null_targets_touch_nothing_and_need_no_root,
    requests_are_checked_whole,
}

const NOBODY: u32 = 65534;

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn root_measures_a_directory_that_the_worker_cannot_reach() {
    needs!(root);
    let dir = directory();
    // tempfile creates it with mode 0700, for root alone.
    let inner = dir.path().join("data");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("precious"), "untouched").unwrap();
    let lines = run(&setup(&[inner.to_str().unwrap()], 0, dir.path()), |_| {});
    let provisioned = find(&lines, "provisioned");
    assert!(
        provisioned["root"]
            .as_str()
            .unwrap()
            .starts_with("/run/fsb/mnt/"),
        "{provisioned:#}"
    );
    assert_eq!(provisioned["abilities"]["cold"], "drop_caches");
    assert_eq!(
        (find(&lines, "cold"), find(&lines, "exists")),
        (&Value::Bool(true), &Value::Bool(false))
    );
    assert_eq!(find(&lines, "worker")["inside"], 0);
    assert_eq!(
        std::fs::read_to_string(inner.join("precious")).unwrap(),
        "untouched"
    );
    assert_eq!(names(&inner), ["precious"]);
    nothing_is_left(dir.path());
}

fn without_root_data_are_evicted_and_nothing_else_is_possible() {
    needs!(root);
    let dir = directory();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for path in [dir.path(), &data] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut plan = setup(&[data.to_str().unwrap()], 0, dir.path());
    let state = dir.path().join("state");
    let as_nobody = |command: &mut std::process::Command| {
        command
            .uid(NOBODY)
            .gid(NOBODY)
            .env("XDG_STATE_HOME", &state);
    };
    let lines = run(&plan, as_nobody);
    let provisioned = find(&lines, "provisioned");
    assert_eq!(provisioned["abilities"]["cold"], "evict", "{lines:#?}");
    assert!(
        provisioned["root"]
            .as_str()
            .unwrap()
            .starts_with(data.to_str().unwrap())
    );
    assert_ne!(find(&lines, "isolation"), "pid_and_mount");
    assert_eq!(names(&data), Vec::<String>::new());
    assert!(names(&state.join("fsb/undo")).is_empty());

    plan.targets = vec!["ext4".parse().unwrap()];
    let lines = run(&plan, as_nobody);
    let error = find(&lines, "error");
    assert_eq!(error["kind"], "machine");
    assert!(
        error["advice"].as_str().unwrap().contains("sudo"),
        "{error:#}"
    );
}

fn places_that_cannot_be_measured_are_refused() {
    let dir = directory();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let file = dir.path().join("file");
    for (path, kind) in [
        ("/nonexistent/dir", Kind::Request),
        (file.to_str().unwrap(), Kind::Request),
        ("/proc/self", Kind::Request),
        ("/sys/kernel", Kind::Request),
    ] {
        let mut plan = setup(&[path], 0, dir.path());
        plan.identity = fsb_model::Identity::default();
        let refusal = LocalTestbed::new(Owner::current())
            .check(&plan)
            .unwrap_err();
        assert_eq!(refusal.kind, kind, "{path}: {refusal}");
    }
}

fn null_targets_touch_nothing_and_need_no_root() {
    let mut plan = setup(
        &["null", "null,slowdown=10%", "null,fail=enospc"],
        1 << 30,
        Path::new("/nonexistent"),
    );
    plan.identity = fsb_model::Identity::default();
    let mut testbed = LocalTestbed::new(Owner::current());
    assert_eq!(testbed.check(&plan).unwrap(), Vec::new());
    let opened = testbed.open(&plan, &mut |_| {}).unwrap();
    assert!(opened.media.is_empty() && opened.warnings.is_empty());
    // The record shows the requested controls as not set.
    assert!(
        opened.controls.keys().eq(plan.controls.keys()),
        "{opened:?}"
    );
    assert!(opened.controls.values().all(|control| !control.effective));
    let provisioned = testbed.provision(0, 0, &plan.targets[1]).unwrap();
    assert!(!provisioned.root.exists());
    assert!((provisioned.abilities.fake.unwrap().slowdown - 0.1).abs() < 1e-12);
    assert!(testbed.counters(0).is_none() && testbed.quiesce(0, Duration::MAX).unwrap().idle);
    let quiet = testbed.quiesce(0, Duration::ZERO).unwrap();
    assert_eq!(
        (quiet.idle, quiet.waited_seconds),
        (true, 0.0),
        "a null target has nothing to write"
    );
    testbed.make_cold(0, ColdReach::Machine).unwrap();
    testbed.release(0).unwrap();
    let failure = testbed.provision(0, 0, &plan.targets[2]).unwrap_err();
    assert_eq!(failure.kind, Kind::Trial);
    assert!(failure.to_string().contains("ENOSPC"));
}

fn requests_are_checked_whole() {
    let dir = directory();
    for (target, size, words) in [
        ("hammer2", 1 << 30, "unknown file system"),
        ("etx4", 1 << 30, "did you mean 'ext4'"),
        ("ext4@raid0:/dev/a+/dev/b", 1 << 30, "/dev/a does not exist"),
        ("tmpfs@ram", 1 << 30, "takes no medium"),
        (r#"tmpfs,mkfs="-x""#, 1 << 30, "takes no mkfs arguments"),
        ("null,speed=1", 1 << 30, "unknown option"),
        ("xfs", 64 << 20, "at least 300 MiB"),
        ("ext4", 1 << 60, "too little space"),
        ("ext4@ram", 1 << 50, "too little memory"),
    ] {
        let plan = setup(&[target], size, dir.path());
        let refusal = LocalTestbed::new(Owner::current())
            .check(&plan)
            .unwrap_err();
        if rustix::process::geteuid().is_root() {
            assert!(refusal.to_string().contains(words), "{target}: {refusal}");
        }
    }
    let mut plan = setup(&["null"], 0, dir.path());
    plan.controls
        .insert("page-cash".to_owned(), "remount".to_owned());
    assert!(
        LocalTestbed::new(Owner::current())
            .check(&plan)
            .unwrap_err()
            .to_string()
            .contains("page-cache")
    );
}
