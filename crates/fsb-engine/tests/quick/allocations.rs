//! Between the first and the last timed call nothing allocates: four times the operations need no
//! further allocation.
//!
//! The counting needs a separate process, because other tests allocate, too. So the test runs this
//! binary again, with only the counting in it.

use std::process::Command;

use fsb_engine::backend::{Backend, ProbeTarget, Verb};
use fsb_engine::{Step, backend};
use fsb_testkit::allocations::{self, CountingAllocator};
use serde_json::json;

use crate::common::{measure, perform, scratch};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Counts the allocations of the worker threads alone while this number of operations is measured.
fn counted(workload: &serde_json::Value, operations: u64) -> u64 {
    // In the build directory for backends that bypass the cache, because a file system in memory
    // may refuse them.
    let backend = workload["backend"].as_str().unwrap_or("psync");
    let capabilities = backend::find(backend).expect("a backend").capabilities();
    let bypasses = capabilities.keeps_nothing() || backend == "nowait";
    let root = if bypasses { beside() } else { scratch() };
    perform(Step::Prepare, root.path(), workload).expect("prepared");
    let before = allocations::so_far();
    let measured = measure(root.path(), operations, workload).expect("measured");
    assert_eq!(measured.operations, operations);
    allocations::so_far() - before
}

/// Creates a directory in the build directory.
fn beside() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Returns whether the file system of the build directory takes the calls of a backend, which
/// backends with flags of their own say before they measure.
fn is_applicable(backend: &dyn Backend) -> bool {
    let root = beside();
    let place = ProbeTarget {
        directory: root.path(),
        file: None,
        verb: Verb::Write,
        record_size: 4096,
    };
    match backend.examine(&place) {
        Err(error) if error.inapplicable => {
            fsb_testkit::left_out(backend.name(), &error.to_string());
            false
        }
        _ => true,
    }
}

/// Compares the allocations for a part of the work with those for all of it.
fn compare(workload: &serde_json::Value) {
    let whole = if workload["name"] == "readdir" {
        80
    } else {
        800
    };
    let (few, many) = (counted(workload, whole / 4), counted(workload, whole));
    assert!(few > 0, "the count works: equipping a thread allocates");
    assert_eq!(
        few, many,
        "{workload}: {few} allocations, then {many} with four times the operations"
    );
}

#[test]
#[ignore = "started by the test below, alone in its process"]
fn count() {
    allocations::excuse_this_thread();
    for workload in [
        json!({"name": "read", "access": "random", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "read", "access": "random", "file_size": "4M", "block_size": "4K", "threads": 2}),
        json!({"name": "write", "access": "random", "file_size": "4M", "block_size": "4K", "durability": "end"}),
        json!({"name": "write", "file_size": "4M", "block_size": "4K", "durability": "each"}),
        json!({"name": "append", "file_size": "4M", "block_size": "1K"}),
        json!({"name": "backward-read", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "stride-read", "file_size": "4M", "block_size": "4K", "verify": true}),
        json!({"name": "record-rewrite", "file_size": "4M", "block_size": "4K", "lock": "record"}),
        json!({"name": "random-mix", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "sequential-mix", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "sparse-write", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "stride-write", "file_size": "4M", "block_size": "4K", "allocate": "blocks"}),
        json!({"name": "random-mix", "file_size": "4M", "block_size": "4K", "backend": "libaio", "depth": 8}),
        json!({"name": "random-read", "file_size": "4M", "block_size": "4K", "sequential": "30%"}),
        json!({"name": "read-modify-write", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "preadv", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "fwrite", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "read", "files": 800, "file_size": "4K", "files_per_directory": 100}),
        json!({"name": "create", "files": 800, "files_per_directory": 100, "threads": 2, "durability": "end"}),
        json!({"name": "stat", "files": 800, "files_per_directory": 100, "access": "random"}),
        json!({"name": "scan", "files": 800, "files_per_directory": 100, "threads": 2}),
        json!({"name": "readdir", "files": 800, "files_per_directory": 10}),
        json!({"name": "rename", "files": 800, "files_per_directory": 10, "durability": "each"}),
        json!({"name": "delete", "files": 800, "files_per_directory": 100}),
        json!({"name": "copy-up", "files": 800, "files_per_directory": 100}),
        json!({"name": "move", "files": 800, "files_per_directory": 10, "durability": "each"}),
        json!({"name": "mkdir", "files": 800, "files_per_directory": 100, "threads": 2}),
        json!({"name": "symlink", "files": 800, "files_per_directory": 100}),
        json!({"name": "readlink", "files": 800, "files_per_directory": 100}),
        json!({"name": "chmod", "files": 800, "files_per_directory": 100, "durability": "each"}),
        json!({"name": "setxattr", "files": 800, "files_per_directory": 100, "durability": "each"}),
        json!({"name": "getxattr", "files": 800, "files_per_directory": 100}),
        json!({"name": "setfacl", "files": 800, "files_per_directory": 100}),
        json!({"name": "statx", "files": 800, "files_per_directory": 100, "access": "random"}),
        json!({"name": "openat2", "files": 800, "files_per_directory": 100}),
        json!({"name": "exchange", "files": 800, "files_per_directory": 100, "durability": "each"}),
        json!({"name": "tmpfile", "files": 800, "files_per_directory": 100, "durability": "each"}),
        json!({"name": "copy-range", "files": 800, "file_size": "4K", "files_per_directory": 100}),
        json!({"name": "write-hint", "files": 800, "files_per_directory": 100}),
        json!({"name": "statfs", "files": 800, "files_per_directory": 100}),
        json!({"name": "truncate", "file_size": "4M", "block_size": "4K"}),
        json!({"name": "lookup", "operation": "open", "depth": 3, "width": 5, "access": "random"}),
    ] {
        compare(&workload);
    }
    let mail = |transactions: u64| json!({"name": "postmark", "number": 50, "transactions": transactions, "threads": 2, "subdirectories": 3});
    let [few, many] = [200, 800].map(|transactions| counted(&mail(transactions), 2 * transactions));
    assert_eq!(few, many, "a mail server's transactions allocate");
    for name in [
        "fileserver",
        "webserver",
        "webproxy",
        "varmail",
        "oltp",
        "videoserver",
    ] {
        let files = if name == "oltp" { 20 } else { 200 };
        let small = json!({"name": name, "files": files, "file_size": 20_000, "threads": 2, "verify": true});
        let [few, many] = [2_000, 8_000].map(|operations| counted(&small, operations));
        assert_eq!(few, many, "{name} allocates");
    }
    for backend in backend::REGISTRY
        .iter()
        .filter(|backend| backend.capabilities().real && is_applicable(**backend))
    {
        for (name, durability) in [("read", "none"), ("write", "end"), ("write", "each")] {
            let depth = backend.capabilities().depth.min(8);
            compare(&json!({
                "name": name, "backend": backend.name(), "depth": depth, "batch": depth, "access": "random",
                "file_size": "4M", "block_size": "4K", "cache": "any", "durability": durability,
            }));
        }
    }
    println!("COUNTED");
}

#[test]
fn the_hot_loop_allocates_nothing() {
    let this = std::env::current_exe().expect("this binary");
    let arguments = [
        "--ignored",
        "--exact",
        "allocations::count",
        "--nocapture",
        "--test-threads=1",
    ];
    let output = Command::new(this)
        .args(arguments)
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("COUNTED"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
