//! Flows: their counts, their files, and their errors.

use std::collections::BTreeMap;
use std::fs;

use fsb_engine::Step;
use fsb_engine::latency::count;
use serde_json::json;

use crate::common::{measure, perform, small, task};
use crate::disk_full::Small;
use crate::syscalls::{name_of, strace};

#[test]
fn calls_are_as_many_as_the_counters_say() {
    needs!(program "strace");
    let root = tempfile::tempdir().unwrap();
    let workload = small("varmail", json!({}));
    perform(Step::Prepare, root.path(), &workload).unwrap();
    let operations = 13 * 4 * 20;
    // What the step does before it is ready, it does for no operations too.
    let calls = |operations| {
        let lines = strace(
            root.path(),
            "openat,unlinkat,fsync,write,close,lseek",
            &task(Step::Measure, root.path(), operations, &workload),
        );
        let mut calls = BTreeMap::<String, u64>::new();
        for line in lines.iter().filter(|line| !line.contains("openat(") || line.contains("0000")) {
            if let Some(name) = name_of(line) {
                *calls.entry(name).or_default() += 1;
            }
        }
        calls
    };
    let found = calls(operations);
    perform(Step::Cleanup, root.path(), &workload).unwrap();
    perform(Step::Prepare, root.path(), &workload).unwrap();
    let measured = measure(root.path(), operations, &workload).unwrap();
    perform(Step::Cleanup, root.path(), &workload).unwrap();
    let of = |name: &str| count(&measured.latency[name]).unwrap();
    // Which thread stops where differs from run to run, by a pass of each at most.
    let near = |found: u64, counted: u64, what: &str| {
        assert!(found.abs_diff(counted) <= 16, "{what}: {found} calls, {counted} counted")
    };
    near(found["unlinkat"], of("delete"), "delete");
    near(found["fsync"], of("sync"), "sync");
    // The directory is looked through afterwards.
    near(found["openat"], of("create") + of("open") + 2, "open");
    near(found["lseek"], of("append") + of("read-whole"), "seek");
    assert_eq!(operations, measured.operations);
}

#[test]
fn no_space_is_an_error_with_call_and_file() {
    needs!(root);
    let small = needs!(Small::mount("1m").ok_or("a tmpfs that can be mounted"));
    let workload = json!({"name": "webserver", "files": 5, "file_size": 1000, "threads": 3});
    perform(Step::Prepare, small.path(), &workload).unwrap();
    let ended = measure(small.path(), 1_000_000, &workload);
    let cleaned = perform(Step::Cleanup, small.path(), &workload);
    let left = fs::read_dir(small.path()).unwrap().count();
    let error = ended.unwrap_err();
    assert_eq!((error.errno, left), (Some(libc::ENOSPC), 0), "{error}");
    assert!(error.message.starts_with("write to /") && error.message.contains("logfiles/"), "{error}");
    cleaned.unwrap();
}
