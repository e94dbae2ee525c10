//! Tests through strace the system calls of a measure step, its locks, and the calls of flows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use fsb_engine::latency::count;
use fsb_engine::{Step, Task};
use serde_json::json;

use crate::common::{measure, perform, scratch, small, task};
use crate::files::Small;

/// Runs a step under strace. Returns the lines of the calls that the filter names. The trace file
/// is in `root`.
pub fn strace(root: &Path, filter: &str, task: &Task) -> Vec<String> {
    let trace = root.join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", &format!("trace={filter}"), "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_engine-step"))
        .arg(serde_json::to_string(task).expect("JSON"))
        .output()
        .expect("strace");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&trace).expect("the trace");
    std::fs::remove_file(&trace).expect("the trace");
    text.lines().map(str::to_owned).collect()
}

/// Returns the trace lines of a measure step between its readiness and its report.
fn trace(root: &Path, operations: u64, workload: &serde_json::Value) -> Vec<String> {
    perform(Step::Prepare, root, workload).expect("prepared");
    let measure = task(Step::Measure, root, operations, workload);
    let lines = strace(root, "%file,%desc,fsync,fdatasync,syncfs", &measure);
    perform(Step::Cleanup, root, workload).expect("cleaned up");
    // The program prints its readiness to stderr and the report to stdout. The timed part is
    // between the two.
    let after = lines
        .iter()
        .position(|line| line.contains("write(2, \"Ready"))
        .expect("ready");
    let before = lines
        .iter()
        .rposition(|line| line.contains("write(1, "))
        .expect("the report");
    lines[after + 1..before].to_vec()
}

/// Returns the names of the calls of a measure step after it was ready, in order.
fn calls(root: &Path, operations: u64, workload: &serde_json::Value) -> Vec<String> {
    trace(root, operations, workload)
        .iter()
        .filter_map(|line| name_of(line))
        .collect()
}

/// Returns the call of a line: `123 pwrite64(3, …` is a pwrite64. Resumed lines repeat an
/// unfinished call and return `None`.
pub fn name_of(line: &str) -> Option<String> {
    let call = line.split_once(' ')?.1.trim_start();
    (!call.starts_with("<...")).then(|| call.split('(').next().unwrap_or(call).to_owned())
}

/// Returns only the calls that matter to durability and data.
fn of_interest(calls: &[String]) -> Vec<&str> {
    #[rustfmt::skip]
    const ALL: [&str; 20] = [
        "pwrite64", "pread64", "fdatasync", "fsync", "syncfs", "renameat", "renameat2", "unlinkat", "mkdirat", "linkat",
        "symlinkat", "openat2", "copy_file_range", "fchmodat", "fchownat", "utimensat", "ftruncate", "setxattr", "getxattr", "listxattr",
    ];
    calls
        .iter()
        .map(String::as_str)
        .filter(|call| ALL.contains(call))
        .collect()
}

/// Checks the calls of one workload.
fn expect(workload: &serde_json::Value, operations: u64, expected: &[&str]) {
    let root = tempfile::tempdir().expect("a directory");
    let calls = calls(root.path(), operations, workload);
    assert_eq!(of_interest(&calls), expected, "{workload}");
}

#[test]
fn durability_is_what_it_says() {
    needs!(program "strace");
    for name in ["write", "append"] {
        let workload = |durability: &str| json!({"name": name, "file_size": "16K", "block_size": "4K", "durability": durability});
        expect(&workload("none"), 4, &["pwrite64"; 4]);
        expect(
            &workload("end"),
            4,
            &["pwrite64", "pwrite64", "pwrite64", "pwrite64", "fsync"],
        );
        expect(&workload("each"), 4, &["pwrite64", "fdatasync"].repeat(4));
    }
    let update = |durability: &str| json!({"name": "read-modify-write", "file_size": "16K", "block_size": "4K", "durability": durability});
    let end = [["pread64", "pwrite64"].repeat(4), vec!["fsync"]].concat();
    expect(&update("end"), 4, &end);
    expect(
        &update("each"),
        4,
        &["pread64", "pwrite64", "fdatasync"].repeat(4),
    );
    let set =
        |name: &str, durability: &str| json!({"name": name, "files": 3, "durability": durability});
    expect(&set("create", "none"), 3, &["pwrite64"; 3]);
    expect(
        &set("create", "end"),
        3,
        &["pwrite64", "pwrite64", "pwrite64", "syncfs"],
    );
    expect(&set("create", "each"), 3, &["pwrite64", "fsync"].repeat(3));
    expect(
        &set("write", "end"),
        3,
        &["pwrite64", "pwrite64", "pwrite64", "syncfs"],
    );
    expect(&set("delete", "none"), 3, &["unlinkat"; 3]);
    expect(
        &set("delete", "end"),
        3,
        &["unlinkat", "unlinkat", "unlinkat", "syncfs"],
    );
    expect(&set("delete", "each"), 3, &["unlinkat", "fsync"].repeat(3));
    expect(&set("copy-up", "none"), 3, &["pwrite64"; 3]);
    expect(&set("copy-up", "each"), 3, &["pwrite64", "fsync"].repeat(3));
    expect(&set("rename", "each"), 3, &["renameat", "fsync"].repeat(3));
    expect(
        &set("move", "each"),
        3,
        &["renameat", "fsync", "fsync"].repeat(3),
    );
    expect(
        &set("exchange", "each"),
        3,
        &["renameat2", "fsync"].repeat(3),
    );
    expect(
        &set("tmpfile", "each"),
        3,
        &["pwrite64", "fsync", "linkat", "fsync"].repeat(3),
    );
    expect(&set("copy-range", "none"), 3, &["copy_file_range"; 12]);
    expect(&json!({"name": "openat2", "files": 3}), 3, &["openat2"; 3]);
    for (name, call) in [
        ("mkdir", "mkdirat"),
        ("link", "linkat"),
        ("symlink", "symlinkat"),
        ("rmdir", "unlinkat"),
    ] {
        expect(&set(name, "none"), 3, &[call; 3]);
        expect(&set(name, "end"), 3, &[call, call, call, "syncfs"]);
        expect(&set(name, "each"), 3, &[call, "fsync"].repeat(3));
    }
    // After the clock, chmod and chown check on one file that the file system stores permissions.
    let stored = ["fchmodat"; 2];
    for (name, call, after) in [
        ("chmod", "fchmodat", &stored[..]),
        ("chown", "fchownat", &stored),
        ("utimens", "utimensat", &[]),
    ] {
        expect(&set(name, "none"), 3, &[&[call; 3][..], after].concat());
        expect(
            &set(name, "end"),
            3,
            &[&[call, call, call, "syncfs"][..], after].concat(),
        );
        expect(
            &set(name, "each"),
            3,
            &[&[call, "fsync"].repeat(3)[..], after].concat(),
        );
    }
    for name in ["setxattr", "setfacl"] {
        expect(&set(name, "none"), 3, &["setxattr"; 3]);
        expect(
            &set(name, "end"),
            3,
            &["setxattr", "setxattr", "setxattr", "syncfs"],
        );
        expect(&set(name, "each"), 3, &["setxattr", "fsync"].repeat(3));
    }
    let ends = |durability: &str| json!({"name": "truncate", "file_size": "16K", "block_size": "4K", "durability": durability});
    expect(&ends("none"), 4, &["ftruncate"; 4]);
    expect(
        &ends("end"),
        4,
        &["ftruncate", "ftruncate", "ftruncate", "ftruncate", "fsync"],
    );
    expect(&ends("each"), 4, &["ftruncate", "fdatasync"].repeat(4));
    let threads = json!({"name": "write", "file_size": "32K", "block_size": "4K", "durability": "end", "threads": 2});
    expect(&threads, 8, &[&["pwrite64"; 8][..], &["fsync"]].concat());
}

#[test]
fn a_held_file_is_opened_before_the_clock_and_a_set_within() {
    needs!(program "strace");
    let root = tempfile::tempdir().expect("a directory");
    let one = json!({"name": "read", "file_size": "64K", "block_size": "4K", "access": "random"});
    let calls_of_one = calls(root.path(), 16, &one);
    assert_eq!(of_interest(&calls_of_one), ["pread64"; 16]);
    assert!(!calls_of_one.iter().any(|call| call == "lseek"));
    let set = json!({"name": "read", "files": 20, "file_size": "4K"});
    let calls_of_set = calls(root.path(), 20, &set);
    let start: Vec<_> = calls_of_set
        .iter()
        .map(String::as_str)
        .filter(|call| *call != "close")
        .take(6)
        .collect();
    assert_eq!(
        start,
        [
            "openat", "pread64", "openat", "pread64", "openat", "pread64"
        ]
    );
}

#[test]
fn random_offsets_cover_the_file_exactly() {
    needs!(program "strace");
    let root = tempfile::tempdir().expect("a directory");
    let workload =
        json!({"name": "read", "file_size": "400K", "block_size": "4K", "access": "random"});
    let trace = trace(root.path(), 200, &workload);
    let offsets: Vec<u64> = trace
        .iter()
        .filter(|line| line.contains("pread64("))
        .map(|line| {
            let arguments = line.rsplit_once(") = 4096").expect("a whole record").0;
            arguments
                .rsplit(", ")
                .next()
                .expect("an offset")
                .parse()
                .expect("a number")
        })
        .collect();
    let every: Vec<u64> = (0..100).map(|block| block * 4096).collect();
    for pass in [&offsets[..100], &offsets[100..]] {
        assert_ne!(pass, every, "that is not a random order");
        let mut sorted = pass.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, every);
    }
    assert_ne!(offsets[..100], offsets[100..]);
}

/// The calls of two passes over two records, each with what it locks.
fn traced(name: &str, lock: &str) -> Vec<String> {
    let root = scratch();
    let workload = json!({"name": name, "file_size": "8K", "block_size": "4K", "lock": lock});
    perform(Step::Prepare, root.path(), &workload).expect("prepared");
    let lines = strace(
        root.path(),
        "fcntl,pread64,pwrite64",
        &task(Step::Measure, root.path(), 4, &workload),
    );
    let word = |line: &String| {
        let word = |needle: &str, word: String| line.contains(needle).then_some(word);
        let start = || {
            line.split("l_start=")
                .nth(1)
                .and_then(|rest| rest.split(',').next())
                .unwrap_or_default()
        };
        word(
            "F_SETLKW, {l_type=F_WRLCK",
            format!("write-lock {}", start()),
        )
        .or_else(|| {
            word(
                "F_SETLKW, {l_type=F_RDLCK",
                format!("read-lock {}", start()),
            )
        })
        .or_else(|| word("F_SETLKW, {l_type=F_UNLCK", format!("unlock {}", start())))
        .or_else(|| word("pread64(", "read".to_owned()))
        .or_else(|| word("pwrite64(", "write".to_owned()))
    };
    // Warming up reads the file as well, in one call.
    let calls: Vec<String> = lines
        .iter()
        .filter(|line| !line.contains(", 8192, "))
        .filter_map(word)
        .collect();
    let first = calls
        .iter()
        .position(|call| call.contains("lock"))
        .expect("a lock");
    calls[first..].to_vec()
}

#[test]
fn locks_are_taken_around_records_or_passes() {
    needs!(program "strace");
    let pass = [
        "read-lock 0",
        "read",
        "unlock 0",
        "read-lock 4096",
        "read",
        "unlock 4096",
    ];
    assert_eq!(traced("read", "record"), [pass, pass].concat());
    let pass = ["write-lock 0", "write", "write", "unlock 0"];
    assert_eq!(traced("rewrite", "file"), [pass, pass].concat());
    assert_eq!(traced("write", "file"), [pass, pass].concat());
}

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
        for line in lines
            .iter()
            .filter(|line| !line.contains("openat(") || line.contains("0000"))
        {
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
        assert!(
            found.abs_diff(counted) <= 16,
            "{what}: {found} calls, {counted} counted"
        )
    };
    near(found["unlinkat"], of("delete"), "delete");
    near(found["fsync"], of("sync"), "sync");
    // The directory is looked through afterwards.
    near(found["openat"], of("create") + of("open") + 2, "open");
    near(found["lseek"], of("append") + of("read-whole"), "seek");
    assert_eq!(operations, measured.operations);
}

#[test]
fn no_space_for_a_flow_is_an_error_with_call_and_file() {
    needs!(root);
    let small = needs!(Small::mount("1m").ok_or("a tmpfs that can be mounted"));
    let workload = json!({"name": "webserver", "files": 5, "file_size": 1000, "threads": 3});
    perform(Step::Prepare, small.path(), &workload).unwrap();
    let ended = measure(small.path(), 1_000_000, &workload);
    let cleaned = perform(Step::Cleanup, small.path(), &workload);
    let left = fs::read_dir(small.path()).unwrap().count();
    let error = ended.unwrap_err();
    assert_eq!((error.errno, left), (Some(libc::ENOSPC), 0), "{error}");
    assert!(
        error.message.starts_with("write to /") && error.message.contains("logfiles/"),
        "{error}"
    );
    cleaned.unwrap();
}

// Tests through strace how backends reach the kernel.

/// Returns the names of the calls of a whole measure step, and the lines of the trace.
fn calls_and_lines(
    root: &Path,
    filter: &str,
    operations: u64,
    workload: &serde_json::Value,
) -> Vec<(String, String)> {
    perform(Step::Prepare, root, workload).expect("prepared");
    let trace = strace(
        root,
        filter,
        &task(Step::Measure, root, operations, workload),
    );
    perform(Step::Cleanup, root, workload).expect("cleaned up");
    trace
        .into_iter()
        .filter_map(|line| name_of(&line).map(|name| (name, line)))
        .collect()
}

fn times(calls: &[(String, String)], wanted: &str) -> usize {
    calls.iter().filter(|(name, _)| name == wanted).count()
}

/// Checks that the kernel creates a ring.
fn uring() -> Result<(), String> {
    io_uring::IoUring::new(1)
        .map(drop)
        .map_err(|error| format!("io_uring ({error})"))
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
        let calls = calls_and_lines(
            root.path(),
            "io_uring_enter,io_uring_register,pread64,pwrite64",
            1024,
            &workload,
        );
        let enters = times(&calls, "io_uring_enter");
        // One call for each batch of 32. A write that had to wait may need a second one.
        assert!(
            (32..=64).contains(&enters),
            "{name}: {enters} calls for 1024 requests"
        );
        let registered = |what: &str| calls.iter().any(|(_, line)| line.contains(what));
        assert!(
            registered("IORING_REGISTER_BUFFERS") && registered("IORING_REGISTER_FILES"),
            "{name}"
        );
        let plain = calls
            .iter()
            .filter(|(call, line)| call.starts_with('p') && line.ends_with("= 4096"));
        assert_eq!(plain.count(), 0, "{name}");
    }
}

#[test]
fn requests_of_libaio_have_the_flag_of_the_backend() {
    needs!(program "strace");
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    // strace prints a number for a flag that it does not know.
    for (backend, flags, expected) in [
        ("libaio", ["aio_rw_flags=RWF_", "aio_rw_flags=0x"], 0),
        (
            "libaio-uncached",
            ["aio_rw_flags=RWF_DONTCACHE", "aio_rw_flags=0x80"],
            16,
        ),
        (
            "libaio-nowait",
            ["aio_rw_flags=RWF_NOWAIT", "aio_rw_flags=0x8,"],
            16,
        ),
    ] {
        let workload = json!({
            "name": "read", "backend": backend, "file_size": "64K", "block_size": "4K", "cache": "any",
        });
        let calls = calls_and_lines(root.path(), "io_submit", 16, &workload);
        let flagged = calls
            .iter()
            .filter(|(_, line)| flags.iter().any(|flag| line.contains(flag)));
        assert_eq!(flagged.count(), expected, "{backend}: {calls:?}");
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
        ("libaio-direct", "O_DIRECT"),
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
        let calls = calls_and_lines(root.path(), "openat", 16, &workload);
        // Only the session opens it relative to the set. `examine` uses its whole path.
        let opened = calls
            .iter()
            .find(|(_, line)| line.contains("\"d00000/f00000000\""));
        let (_, line) = opened.expect("the file is opened");
        assert!(line.contains(flag), "{backend}: {line}");
        for other in ["O_DIRECT", "O_SYNC", "O_DSYNC"] {
            assert_eq!(line.contains(other), flag == other, "{backend}: {line}");
        }
    }
}

/// As filebench does on Linux.
#[test]
fn a_flow_opens_files_of_durable_steps_with_o_sync() {
    needs!(program "strace");
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let flow = "name = \"f\"\n[[fileset]]\nname = \"data\"\nfiles = 1\nsize = \"64K\"\npreallocated = 1.0\n\
        [[thread]]\nname = \"t\"\nthreads = 1\nsteps = [\n\
        { op = \"open\", set = \"data\", fd = 1 },\n{ op = \"write\", fd = 1, size = \"4K\", dsync = true },\n\
        { op = \"close\", fd = 1 },\n]\n";
    let calls = calls_and_lines(
        root.path(),
        "openat",
        4,
        &json!({ "name": "flow", "flow": flow }),
    );
    let written: Vec<&String> = calls
        .iter()
        .map(|(_, line)| line)
        .filter(|line| line.contains("O_RDWR"))
        .collect();
    assert!(
        !written.is_empty() && written.iter().all(|line| line.contains("O_SYNC")),
        "{calls:?}"
    );
}

#[test]
fn mappings_and_streams_make_the_requested_calls() {
    needs!(program "strace");
    let root = scratch();
    let calls = |backend: &str, durability: &str| {
        let workload = json!({
            "name": "write", "backend": backend, "file_size": "64K", "block_size": "4K", "durability": durability,
        });
        calls_and_lines(
            root.path(),
            "msync,fsync,fdatasync,write,pwrite64,lseek",
            16,
            &workload,
        )
    };
    for (backend, durability, msyncs, fsyncs) in [
        ("mmap", "none", 0, 0),
        ("mmap", "end", 1, 1),
        ("mmap", "each", 16, 0),
        ("mmap-async", "none", 16, 0),
        ("mmap-sync", "none", 16, 0),
    ] {
        let calls = calls(backend, durability);
        assert_eq!(times(&calls, "msync"), msyncs, "{backend} {durability}");
        assert_eq!(times(&calls, "fsync"), fsyncs, "{backend} {durability}");
        assert_eq!(times(&calls, "pwrite64"), 0, "{backend} {durability}");
    }
    for (how, calls) in [
        ("MS_ASYNC", calls("mmap-async", "none")),
        ("MS_SYNC", calls("mmap-sync", "none")),
    ] {
        assert!(
            calls
                .iter()
                .filter(|(name, _)| name == "msync")
                .all(|(_, line)| line.contains(how)),
            "{how}"
        );
    }
    let stream = calls("stdio", "each");
    assert_eq!(
        (
            times(&stream, "fdatasync"),
            times(&stream, "lseek"),
            times(&stream, "pwrite64")
        ),
        (16, 0, 0)
    );
}

/// Threads that share nothing do not wait for each other, so the number of futex calls does not
/// grow with the work.
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
            strace(root.path(), "futex", &measure)
                .iter()
                .filter(|line| line.contains("futex("))
                .count()
        };
        // Starting threads and waiting for them takes some calls, a few more or less from run to
        // run.
        let allowed = 16 + 16 * threads;
        for operations in [1_000, 4_000_000] {
            let counted = futexes(operations);
            assert!(
                counted <= allowed,
                "{threads} threads: {counted} calls for {operations} operations"
            );
        }
    }
}
