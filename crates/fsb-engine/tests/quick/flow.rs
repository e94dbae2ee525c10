//! Flows: their counts, their files, and their errors.

use std::fs;
use std::path::{Path, PathBuf};

use fsb_engine::latency::count;
use fsb_engine::{ClockSpec, EngineError, Gate, Ready, Step, worker};
use serde_json::{Value, json};

use crate::common::{files, measure, perform, scratch, small, task, whole};

#[test]
fn counts_balance_and_every_operation_has_its_latency() {
    for (name, kinds) in [
        (
            "fileserver",
            vec![
                "append",
                "close",
                "create",
                "delete",
                "open",
                "read-whole",
                "stat",
                "write-whole",
            ],
        ),
        ("webserver", vec!["append", "close", "open", "read-whole"]),
        (
            "webproxy",
            vec!["append", "close", "create", "delete", "open", "read-whole"],
        ),
        (
            "varmail",
            vec![
                "append",
                "close",
                "create",
                "delete",
                "open",
                "read-whole",
                "sync",
            ],
        ),
        (
            "videoserver",
            vec!["newvid", "vidreader", "vidremover", "wrtclose", "wrtopen"],
        ),
    ] {
        let root = scratch();
        let measured = whole(root.path(), &small(name, json!({})), 3000);
        assert_eq!(measured.operations, 3000, "{name}");
        let mut latency = measured.latency.clone();
        assert_eq!(
            count(&latency.remove("operation").unwrap()),
            Some(3000),
            "{name}"
        );
        let syncs = latency.remove("sync-at-end").and_then(|text| count(&text));
        assert!(syncs.is_none_or(|syncs| syncs == 1), "{name}: {syncs:?}");
        assert_eq!(
            latency.keys().map(String::as_str).collect::<Vec<_>>(),
            kinds,
            "{name}"
        );
        assert_eq!(
            latency
                .values()
                .map(|text| count(text).unwrap())
                .sum::<u64>(),
            3000,
            "{name}"
        );
        let counts = &measured.counts;
        for (kind, key) in [("create", "files_created"), ("delete", "files_deleted")] {
            let counted = latency.get(kind).map_or(0, |text| count(text).unwrap());
            assert!(
                counted == counts[key] || name == "videoserver",
                "{name}: {counts:?}"
            );
        }
        assert_eq!(
            measured.bytes,
            counts["bytes_read"] + counts["bytes_written"],
            "{name}"
        );
        assert!(counts["bytes_read"] > 100_000, "{name}: {counts:?}");
    }
}

/// One writer and readers that post to it: the ratio of writes to reads is fixed, whatever the
/// number of threads.
#[test]
fn semaphores_tie_writers_to_readers() {
    let flow = r#"
        name = "tied"
        [[fileset]]
        name = "data"
        files = 4
        size = "64K"
        [[thread]]
        name = "writer"
        steps = [
            { op = "semaphore-wait", name = "ration", value = 10, high_water = 20 },
            { op = "aio-write", set = "data", size = "2K", random = true, rotate = true, dsync = true, iterations = 2 },
            { op = "aio-wait" },
        ]
        [[thread]]
        name = "reader"
        threads = 5
        steps = [
            { op = "read", set = "data", size = "2K", random = true, rotate = true },
            { op = "semaphore-post", value = 1, target = "ration", blocking = true },
        ]
    "#;
    let root = scratch();
    let workload = json!({"name": "flow", "flow": flow, "verify": true, "durability": "each"});
    let measured = whole(root.path(), &workload, 13_000);
    let of = |name: &str| count(&measured.latency[name]).unwrap();
    assert_eq!(of("read") + of("aio-write") + of("aio-wait"), 13_000);
    // Ten reads, two writes, one wait. The number of posts that are not yet taken is bounded.
    assert!(
        (10_000u64.abs_diff(of("read"))) < 200,
        "{} reads",
        of("read")
    );
}

/// The fake clock's times must not depend on the order in which threads run.
#[test]
fn pretended_runs_repeat_to_the_last_digit_whatever_waits_for_what() {
    for name in [
        "fileserver",
        "webserver",
        "webproxy",
        "varmail",
        "oltp",
        "videoserver",
    ] {
        let run = || {
            let workload = json!({"name": name, "file_size": 50_000});
            let mut task = task(Step::Measure, Path::new("/nowhere"), 4000, &workload);
            task.backend = Some("null".to_owned());
            task.clock = ClockSpec::Fake {
                seed: 3,
                slowdown: 1.0,
                noise: 0.05,
                sample: 0,
            };
            worker::perform(&task, &mut crate::common::Open)
                .unwrap()
                .whole()
                .expect("a measure step measures")
        };
        let first = run();
        assert_eq!(first, run(), "{name}");
        assert_eq!(first.operations, 4000, "{name}");
    }
}

/// Runs a function when the clock is about to start.
struct Meddler<F>(F);

impl<F: FnMut()> Gate for Meddler<F> {
    fn ready(&mut self, _ready: Ready) -> Result<(), EngineError> {
        (self.0)();
        Ok(())
    }
}

/// Returns the error of a workload whose files are changed as soon as it is ready.
fn meddled(workload: &Value, operations: u64, meddle: impl Fn(&[PathBuf])) -> EngineError {
    let root = scratch();
    perform(Step::Prepare, root.path(), workload).unwrap();
    let mut gate = Meddler(|| meddle(&files(root.path())));
    let ended = worker::perform(
        &task(Step::Measure, root.path(), operations, workload),
        &mut gate,
    );
    perform(Step::Cleanup, root.path(), workload).unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    match ended {
        Ok(_) => panic!("{workload} was measured"),
        Err(error) => error,
    }
}

#[test]
fn a_file_that_vanishes_or_changes_fails_the_trial_by_name() {
    let pages = small("webserver", json!({"threads": 3}));
    let error = meddled(&pages, 50_000, |files| fs::remove_file(&files[7]).unwrap());
    assert_eq!(error.errno, Some(libc::ENOENT), "{error}");
    assert!(
        error.message.starts_with("open /") && error.message.contains("bigfileset/0000"),
        "{error}"
    );
    let error = meddled(&pages, 50_000, |files| {
        use std::os::unix::fs::FileExt;
        let largest = files
            .iter()
            .max_by_key(|file| fs::metadata(file).unwrap().len())
            .unwrap();
        fs::OpenOptions::new()
            .write(true)
            .open(largest)
            .unwrap()
            .write_all_at(&[0x5a; 3], 3000)
            .unwrap();
    });
    assert!(
        error.message.contains("corrupted: ") && error.message.contains("holds 0x5a at offset 300"),
        "{error}"
    );
    let error = meddled(
        &small("webserver", json!({"verify": false})),
        50_000,
        |files| {
            let largest = files
                .iter()
                .max_by_key(|file| fs::metadata(file).unwrap().len())
                .unwrap();
            fs::OpenOptions::new()
                .write(true)
                .open(largest)
                .unwrap()
                .set_len(10)
                .unwrap();
        },
    );
    assert!(
        error.message.contains("it ended after 10 of the "),
        "{error}"
    );
    // The test also detects a file that was created behind the counters.
    let error = meddled(&small("varmail", json!({})), 500, |files| {
        fs::write(files[0].with_file_name("more"), []).unwrap()
    });
    assert!(
        error
            .message
            .contains(" files in 2 directories instead of "),
        "{error}"
    );
}

/// There are three files, and eight threads would create more, but no thread deletes any first.
const TOO_FEW: &str = r#"
    name = "crowd"
    [[fileset]]
    name = "few"
    files = 3
    size = "1K"
    [[thread]]
    name = "maker"
    threads = 8
    steps = [{ op = "create", set = "few" }, { op = "close" }, { op = "delete", set = "few" }]
"#;

#[test]
fn a_set_that_is_too_small_for_its_threads_says_so() {
    let root = scratch();
    let crowd = json!({"name": "flow", "flow": TOO_FEW, "durability": "none"});
    perform(Step::Prepare, root.path(), &crowd).unwrap();
    let error = measure(root.path(), 100_000, &crowd).unwrap_err();
    let (why, help) = (
        "too few files: create finds none among the 3 files of the set few",
        "8 threads need a larger set",
    );
    assert!(
        error.message.starts_with(why) && error.message.contains(help),
        "{error}"
    );
    perform(Step::Cleanup, root.path(), &crowd).unwrap();
    // Any number of threads may read one file, and wait for each other to create and delete one.
    for name in ["webserver", "varmail"] {
        let measured = whole(
            root.path(),
            &small(name, json!({"files": 1, "threads": 8})),
            20_000,
        );
        // A thread without a file gives up its next operation when the others are done.
        assert!(
            (19_900..=20_000).contains(&measured.operations),
            "{name}: {}",
            measured.operations
        );
    }
}

/// A flow that ends when no work is left.
#[test]
fn a_flow_may_end_when_its_files_are_used_up() {
    let flow = r#"
        name = "makefiles"
        quit = "all-done"
        [[fileset]]
        name = "new"
        files = 500
        size = "1K"
        width = 20
        preallocated = 0.0
        [[thread]]
        name = "maker"
        threads = 3
        steps = [{ op = "create", set = "new" }, { op = "write-whole" }, { op = "close" }]
    "#;
    let root = scratch();
    let measured = whole(
        root.path(),
        &json!({"name": "flow", "flow": flow, "durability": "none"}),
        1_000_000,
    );
    assert_eq!(
        (measured.operations, measured.counts["files_created"]),
        (1500, 500)
    );
    let first = json!({"name": "flow", "flow": flow.replace("all-done", "first-done"), "durability": "none"});
    let measured = whole(root.path(), &first, 1_000_000);
    assert!(
        (1490..=1500).contains(&measured.operations),
        "{}",
        measured.operations
    );
    let until = flow.replace(
        "{ op = \"close\" }",
        "{ op = \"close\" }, { op = \"finish-on-count\", value = 300 }",
    );
    let measured = whole(
        root.path(),
        &json!({"name": "flow", "flow": until, "durability": "none"}),
        1_000_000,
    );
    assert!(
        (300..330).contains(&measured.operations),
        "{}",
        measured.operations
    );
}

#[test]
fn parameters_change_what_they_name_and_nothing_else() {
    let of = |params: Value| {
        let spec = serde_json::from_value(params).unwrap();
        let sizing = fsb_engine::Sizing {
            size: 2 << 30,
            cpus: 2,
        };
        fsb_engine::workload::parse(&spec, &sizing)
            .map(|job| (job.profile().label, job.profile().threads))
            .map_err(|error| error.message)
    };
    let label = |params| of(params).unwrap();
    assert_eq!(
        label(json!({"name": "varmail"})),
        ("varmail, each write synced".to_owned(), 16)
    );
    assert_eq!(
        label(json!({"name": "fileserver", "threads": 1})),
        ("fileserver, durable, 1 thread".to_owned(), 1)
    );
    assert_eq!(label(json!({"name": "oltp", "threads": 20})).1, 31);
    assert_eq!(
        label(json!({"name": "webproxy", "files": 500, "file_size": "4K", "pick": "random", "durability": "none"})).0,
        "webproxy, 500 files, files of 4K, random files"
    );
    assert_eq!(
        label(json!({"name": "videoserver", "file_size": "size/400", "rate": 0})).0,
        "videoserver, files of 5.12 MiB, no limit, durable"
    );
    for (params, said) in [
        (
            json!({"name": "varmail", "durability": "end"}),
            "'end' is not allowed: use each",
        ),
        (
            json!({"name": "varmail", "pick": "best"}),
            "is not allowed: use rotate or random",
        ),
        (json!({"name": "varmail", "threads": 2000}), "at most 1024"),
        (
            json!({"name": "flow", "flow": "name = 3"}),
            "flow: TOML parse error at line 1",
        ),
        (
            json!({"name": "oltp", "files": 5000}),
            "rotate keeps all files open",
        ),
    ] {
        let error = of(params.clone()).unwrap_err();
        assert!(error.contains(said), "{params}: {error}");
    }
}
