//! Tasks as a plan would make them, and flows.

#![allow(dead_code, reason = "each of the two test programs uses a part")]

use std::fs;
use std::path::{Path, PathBuf};

use fsb_engine::{EngineError, Gate, Measurement, Ready, Sizing, Step, Task, worker};
use fsb_model::WorkloadSpec;
use serde_json::{Value, json};

/// A gate that opens at once.
pub struct Open;

impl Gate for Open {
    fn ready(&mut self, _ready: Ready) -> Result<(), EngineError> {
        Ok(())
    }
}

/// A task as a plan would make it; `workload` is `{"name": …, parameters}`.
pub fn task(step: Step, root: &Path, operations: u64, workload: &Value) -> Task {
    let workload: WorkloadSpec = serde_json::from_value(workload.clone()).expect("a workload");
    Task::plain(
        step,
        workload,
        Sizing {
            size: 64 << 20,
            cpus: 2,
        },
        root,
        42,
        operations,
    )
}

/// Prepares or cleans up.
pub fn perform(step: Step, root: &Path, workload: &Value) -> Result<(), EngineError> {
    worker::perform(&task(step, root, 0, workload), &mut Open).map(drop)
}

/// Measures.
pub fn measure(root: &Path, operations: u64, workload: &Value) -> Result<Measurement, EngineError> {
    let report = worker::perform(&task(Step::Measure, root, operations, workload), &mut Open)?;
    Ok(report.whole().expect("a measure step measures"))
}

/// A directory in memory where there is one: for tests that ask nothing of a device and would wait
/// for it for nothing.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a directory")
}

/// A small personality with further parameters.
pub fn small(name: &str, more: Value) -> Value {
    let mut workload =
        json!({"name": name, "files": 80, "file_size": 5000, "threads": 4, "verify": true});
    workload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    workload
}

/// All three steps.
pub fn whole(root: &Path, workload: &Value, operations: u64) -> Measurement {
    perform(Step::Prepare, root, workload).unwrap();
    let measured = measure(root, operations, workload).unwrap();
    perform(Step::Cleanup, root, workload).unwrap();
    assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    measured
}

/// Files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}
