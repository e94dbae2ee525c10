//! Tests through strace how backends reach the kernel.

use std::path::Path;

use fsb_engine::Step;
use serde_json::json;

use crate::common::{perform, scratch, task};
use crate::syscalls::{name_of, strace};

/// Returns the names of the calls of a whole measure step, and the lines of the trace.
fn calls(root: &Path, filter: &str, operations: u64, workload: &serde_json::Value) -> Vec<(String, String)> {
    perform(Step::Prepare, root, workload).expect("prepared");
    let trace = strace(root, filter, &task(Step::Measure, root, operations, workload));
    perform(Step::Cleanup, root, workload).expect("cleaned up");
    trace.into_iter().filter_map(|line| name_of(&line).map(|name| (name, line))).collect()
}

fn count(calls: &[(String, String)], wanted: &str) -> usize {
    calls.iter().filter(|(name, _)| name == wanted).count()
}

/// Checks that the kernel creates a ring.
fn uring() -> Result<(), String> {
    io_uring::IoUring::new(1).map(drop).map_err(|error| format!("io_uring ({error})"))
}

#[test]
fn a_ring_takes_a_batch_a_call() {
    needs!(program "strace");
    needs!(uring());
    let root = scratch();
    for name in ["read", "write"] {
        let workload = json!({
            "name": name, "backend": "uring", "depth": 32, "batch": 32, "access": "random", "file_size": "1M",
            "block_size": "4K", "cache": "any",
        });
        let calls = calls(root.path(), "io_uring_enter,io_uring_register,pread64,pwrite64", 1024, &workload);
        let enters = count(&calls, "io_uring_enter");
        // One call for each batch of 32. A write that had to wait may need a second one.
        assert!((32..=64).contains(&enters), "{name}: {enters} calls for 1024 requests");
        let registered = |what: &str| calls.iter().any(|(_, line)| line.contains(what));
        assert!(registered("IORING_REGISTER_BUFFERS") && registered("IORING_REGISTER_FILES"), "{name}");
        let plain = calls.iter().filter(|(call, line)| call.starts_with('p') && line.ends_with("= 4096"));
        assert_eq!(plain.count(), 0, "{name}");
    }
}

#[test]
fn files_are_opened_as_the_backend_says() {
    needs!(program "strace");
    for (backend, flag) in [
        ("direct", "O_DIRECT"),
        ("osync", "O_SYNC"),
        ("dsync", "O_DSYNC"),
        ("mmap", "O_RDWR"),
        ("stdio", "O_WRONLY"),
        // The last one, because the test ends here if it cannot run.
        ("uring-direct", "O_DIRECT"),
    ] {
        if backend.starts_with("uring") {
            needs!(uring());
        }
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let workload = json!({
            "name": "write", "backend": backend, "file_size": "64K", "block_size": "4K", "overwrite": true,
        });
        let calls = calls(root.path(), "openat", 16, &workload);
        // Only the session opens it relative to the set. `examine` uses its whole path.
        let opened = calls.iter().find(|(_, line)| line.contains("\"d00000/f00000000\""));
        let (_, line) = opened.expect("the file is opened");
        assert!(line.contains(flag), "{backend}: {line}");
        for other in ["O_DIRECT", "O_SYNC", "O_DSYNC"] {
            assert_eq!(line.contains(other), flag == other, "{backend}: {line}");
        }
    }
}

#[test]
fn mappings_and_streams_make_the_requested_calls() {
    needs!(program "strace");
    let root = scratch();
    let calls = |backend: &str, durability: &str| {
        let workload = json!({
            "name": "write", "backend": backend, "file_size": "64K", "block_size": "4K", "durability": durability,
        });
        calls(root.path(), "msync,fsync,fdatasync,write,pwrite64,lseek", 16, &workload)
    };
    for (backend, durability, msyncs, fsyncs) in [
        ("mmap", "none", 0, 0),
        ("mmap", "end", 1, 1),
        ("mmap", "each", 16, 0),
        ("mmap-async", "none", 16, 0),
        ("mmap-sync", "none", 16, 0),
    ] {
        let calls = calls(backend, durability);
        assert_eq!(count(&calls, "msync"), msyncs, "{backend} {durability}");
        assert_eq!(count(&calls, "fsync"), fsyncs, "{backend} {durability}");
        assert_eq!(count(&calls, "pwrite64"), 0, "{backend} {durability}");
    }
    for (how, calls) in [("MS_ASYNC", calls("mmap-async", "none")), ("MS_SYNC", calls("mmap-sync", "none"))] {
        assert!(calls.iter().filter(|(name, _)| name == "msync").all(|(_, line)| line.contains(how)), "{how}");
    }
    let stream = calls("stdio", "each");
    assert_eq!((count(&stream, "fdatasync"), count(&stream, "lseek"), count(&stream, "pwrite64")), (16, 0, 0));
}

/// Threads that share nothing do not wait for each other, so the number of futex calls does not grow with the work.
#[test]
fn no_call_of_a_futex_belongs_to_an_operation() {
    needs!(program "strace");
    for threads in [1, 2, 4, 8] {
        let futexes = |operations: u64| {
            let root = scratch();
            let workload = json!({
                "name": "read", "file_size": "4M", "block_size": "4K", "access": "random", "threads": threads,
            });
            let mut measure = task(Step::Measure, root.path(), operations, &workload);
            measure.backend = Some("null".to_owned());
            strace(root.path(), "futex", &measure).iter().filter(|line| line.contains("futex(")).count()
        };
        // Starting threads and waiting for them takes some calls, a few more or less from run to run.
        let allowed = 16 + 16 * threads;
        for operations in [1_000, 4_000_000] {
            let counted = futexes(operations);
            assert!(counted <= allowed, "{threads} threads: {counted} calls for {operations} operations");
        }
    }
}
