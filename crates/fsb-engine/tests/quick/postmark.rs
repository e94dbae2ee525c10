//! The mail server: its counts, its files, and its errors.

use std::fs;
use std::path::{Path, PathBuf};

use fsb_engine::latency::count;
use fsb_engine::{EngineError, Gate, Measurement, Ready, Step, StepReport, worker};
use serde_json::{Value, json};

use crate::common::{measure, perform, scratch, task};

/// Returns a small workload with further parameters.
fn pool(more: Value) -> Value {
    let mut workload =
        json!({"name": "postmark", "number": 60, "transactions": 400, "size_high": 5000});
    workload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    workload
}

/// Performs all three steps.
fn whole(root: &Path, workload: &Value, transactions: u64) -> Measurement {
    perform(Step::Prepare, root, workload).unwrap();
    let measured = measure(root, transactions, workload).unwrap();
    perform(Step::Cleanup, root, workload).unwrap();
    assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    measured
}

#[test]
fn counts_balance_and_every_operation_has_its_latency() {
    for (workers, more) in [
        (1, json!({"verify": true})),
        (
            1,
            json!({"buffering": false, "durability": "each", "subdirectories": 3, "verify": true}),
        ),
        (
            3,
            json!({"threads": 3, "durability": "end", "verify": true}),
        ),
        (
            3,
            json!({"processes": 3, "durability": "end", "subdirectories": 2, "verify": true}),
        ),
    ] {
        let root = scratch();
        let measured = whole(root.path(), &pool(more.clone()), 400 * workers);
        let counts = &measured.counts;
        assert_eq!(counts["files_created"], counts["files_deleted"], "{more}");
        assert!(
            counts["files_created"] > 60 * workers
                && counts["bytes_written"] > counts["files_created"] * 500
        );
        for (operation, key) in [
            ("create", "files_created"),
            ("read", "files_read"),
            ("append", "files_appended"),
            ("delete", "files_deleted"),
        ] {
            assert_eq!(
                count(&measured.latency[operation]),
                Some(counts[key]),
                "{more}: {operation}"
            );
        }
        assert_eq!(count(&measured.latency["transaction"]), Some(400 * workers));
        assert_eq!(
            (measured.operations, measured.workers.len() as u64),
            (400 * workers, workers)
        );
        let alone = |name: &str| measured.rates[name].amount;
        assert_eq!(alone("create_alone_rate"), 60 * workers, "{more}");
        assert!(alone("delete_alone_rate") > 0 && alone("read_rate") == counts["bytes_read"]);
        assert!(measured.rates.values().all(|rate| rate.timed_ns > 0));
        assert!(
            measured.timed_ns < measured.rates["read_rate"].timed_ns,
            "the transactions are a part of the whole"
        );
    }
}

/// Threads and processes work on the same files. Each worker has its own pool.
#[test]
fn operations_depend_only_on_seed_and_worker_number() {
    let of = |more: Value, transactions| whole(scratch().path(), &pool(more), transactions).counts;
    let threads = of(json!({"threads": 2}), 800);
    assert_eq!(
        threads,
        of(
            json!({"threads": 2, "durability": "end", "buffering": false, "write": 4096}),
            800
        )
    );
    assert_eq!(threads, of(json!({"processes": 2}), 800));
    let one = of(json!({}), 400);
    assert!(
        one["bytes_read"] < threads["bytes_read"] && one["bytes_read"] * 2 != threads["bytes_read"]
    );
}

/// Runs a function on the pool's directory when the clock is about to start.
struct Meddler<F>(F);

impl<F: FnMut()> Gate for Meddler<F> {
    fn ready(&mut self, _ready: Ready) -> Result<(), EngineError> {
        (self.0)();
        Ok(())
    }
}

/// Returns the error of a pool whose directory is changed as soon as there are files.
fn meddled(
    workload: &Value,
    transactions: u64,
    meddle: impl Fn(PathBuf) + Send + Copy + 'static,
) -> EngineError {
    let root = scratch();
    perform(Step::Prepare, root.path(), workload).unwrap();
    let files = root.path().join("fsb-set/p0");
    let mut gate = Meddler(|| {
        let files = files.clone();
        // The pool's own clock does not wait for this.
        std::thread::spawn(move || {
            while !files.join("60").exists() {
                std::thread::yield_now();
            }
            meddle(files);
        });
    });
    let ended = worker::perform(
        &task(Step::Measure, root.path(), transactions, workload),
        &mut gate,
    );
    perform(Step::Cleanup, root.path(), workload).unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    match ended {
        Ok(StepReport::Measured(measured)) => panic!("it was measured: {:?}", measured[0].counts),
        Ok(StepReport::Done) => panic!("a measure step measures"),
        Err(error) => error,
    }
}

#[test]
fn a_file_that_vanishes_or_changes_fails_the_trial_by_name() {
    // Many reads of few files, so that the change is detected soon.
    let reads = |more: Value| {
        let mut workload =
            pool(json!({"bias_read": 10, "bias_create": -1, "transactions": 3_000_000}));
        workload
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        workload
    };
    for (workers, more) in [
        (1, json!({})),
        (2, json!({"threads": 2})),
        (2, json!({"processes": 2})),
    ] {
        let transactions = 3_000_000 * workers;
        let error = meddled(&reads(more), transactions, |files| {
            fs::remove_file(files.join("7")).unwrap()
        });
        assert_eq!(error.errno, Some(libc::ENOENT), "{error}");
        assert!(
            error.message.starts_with("open to read ") && error.message.contains("/p0/7: "),
            "{error}"
        );
    }
    let error = meddled(
        &reads(json!({"verify": true, "buffering": false})),
        3_000_000,
        |files| {
            use std::os::unix::fs::FileExt;
            let file = fs::OpenOptions::new()
                .write(true)
                .open(files.join("7"))
                .unwrap();
            file.write_all_at(&[0x5a; 3], 300).unwrap();
        },
    );
    assert!(
        error.message.contains("corrupted: ")
            && error.message.contains("/p0/7 holds 0x5a at offset 30"),
        "{error}"
    );
    let error = meddled(&reads(json!({})), 3_000_000, |files| {
        fs::OpenOptions::new()
            .write(true)
            .open(files.join("7"))
            .unwrap()
            .set_len(10)
            .unwrap();
    });
    assert!(
        error.message.contains("/p0/7: it ended before the"),
        "{error}"
    );
}

#[test]
fn a_pool_that_runs_out_of_files_says_what_would_help() {
    let root = scratch();
    let workload = pool(json!({"number": 5, "bias_create": 0, "threads": 2}));
    perform(Step::Prepare, root.path(), &workload).unwrap();
    let error = measure(root.path(), 800, &workload).unwrap_err();
    assert!(
        error
            .message
            .contains("ran out of files after 5 of 400 transactions: take more files"),
        "{error}"
    );
    perform(Step::Cleanup, root.path(), &workload).unwrap();
}
