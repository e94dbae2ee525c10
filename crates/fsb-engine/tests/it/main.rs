//! Tests on the real kernel: what is written and called, and what the hot loop costs.

#![expect(unsafe_code, reason = "an allocator that counts, and ioctls")]
#![expect(clippy::print_stdout, reason = "the allocation test prints its counts")]

// Its `#[test]` instead of libtest's: what cannot run here is shown as ignored.
#[macro_use]
extern crate fsb_testkit;

mod allocations;
mod backends;
mod determinism;
mod disk_full;
mod extents;
mod flow;
mod locks;
mod postmark;
mod syscalls;

use std::path::Path;

use fsb_engine::{EngineError, Gate, Measurement, Ready, Sizing, Step, Task, worker};
use fsb_model::WorkloadSpec;

/// A gate that opens at once.
pub struct Open;

impl Gate for Open {
    fn ready(&mut self, _ready: Ready) -> Result<(), EngineError> {
        Ok(())
    }
}

/// A task as a plan would make it; `workload` is `{"name": …, parameters}`.
pub fn task(step: Step, root: &Path, operations: u64, workload: &serde_json::Value) -> Task {
    let workload: WorkloadSpec = serde_json::from_value(workload.clone()).expect("a workload");
    Task::plain(step, workload, Sizing { size: 64 << 20, cpus: 2 }, root, 42, operations)
}

/// Prepares or cleans up.
pub fn perform(step: Step, root: &Path, workload: &serde_json::Value) -> Result<(), EngineError> {
    worker::perform(&task(step, root, 0, workload), &mut Open).map(drop)
}

/// Measures.
pub fn measure(root: &Path, operations: u64, workload: &serde_json::Value) -> Result<Measurement, EngineError> {
    let report = worker::perform(&task(Step::Measure, root, operations, workload), &mut Open)?;
    Ok(report.whole().expect("a measure step measures"))
}

/// A directory in memory where there is one: for tests that ask nothing of a device and would wait for it for nothing.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory")
}

/// Ends a test that cannot run here: it is shown as ignored. Where nothing may be left out (CI), that is a failure.
pub fn skip(reason: &str) {
    fsb_testkit::skip(reason);
}

fn main() -> std::process::ExitCode {
    fsb_testkit::main(None)
}
