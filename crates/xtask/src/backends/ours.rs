//! Our side of a pair: the engine, through the path that every trial takes, in a process of its own.
//!
//! As fio does with its jobs and the agent with its workers, the process becomes a session of its own. The kernel
//! shares the processors out between sessions. Two processes in one session, or one beside a compiler in its session,
//! would each get less.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use fsb_engine::{EngineError, Gate, Measurement, Ready, Sizing, Step, StepReport, Task, worker};
use fsb_model::{Bytes, WorkloadSpec};
use serde_json::json;

use super::cell::{Cell, DEPTH};
use super::{Cost, settle};
use crate::peers;

/// Operations are chosen to take about so long, in seconds.
const LENGTH: f64 = 0.4;
/// Operations of the first try.
const FEW: u64 = 256;

/// A cell with its file prepared.
pub struct Ours<'p> {
    root: &'p Path,
    workload: WorkloadSpec,
    size: Bytes,
}

impl<'p> Ours<'p> {
    /// Makes the file.
    pub fn prepare(root: &'p Path, cell: &Cell, size: Bytes) -> anyhow::Result<Ours<'p>> {
        let depth = if cell.deep { DEPTH } else { 1 };
        let mut workload = json!({
            "name": if cell.writes { "write" } else { "read" },
            "backend": cell.backend,
            "file_size": size.0,
            "block_size": cell.block_size(),
            "access": if cell.random { "random" } else { "sequential" },
            "cache": "any",
            "depth": depth,
            "batch": depth,
        });
        if cell.writes {
            workload["overwrite"] = true.into();
        }
        let ours = Ours { root, workload: serde_json::from_value::<WorkloadSpec>(workload)?, size };
        ours.step(Step::Prepare, 0)?;
        Ok(ours)
    }

    /// Returns the file that both sides work on.
    pub fn file(&self) -> PathBuf {
        self.root.join("fsb-set/d00000/f00000000")
    }

    /// Returns the number of operations that take about as long as one side of a pair should, at most `most`.
    pub fn calibrate(&self, most: u64) -> anyhow::Result<u64> {
        let mut operations = FEW.min(most);
        loop {
            let seconds = self.measure(operations)?.seconds * operations as f64;
            if seconds >= LENGTH / 4.0 || operations == most {
                return Ok(most.min((operations as f64 * LENGTH / seconds).ceil() as u64));
            }
            operations = most.min(operations * 4);
        }
    }

    pub fn measure(&self, operations: u64) -> anyhow::Result<Cost> {
        settle(self.root)?;
        let Some(measured) = self.step(Step::Measure, operations)?.whole() else {
            bail!("the measure step measured nothing")
        };
        let Measurement { timed_ns, operations: done, user_seconds, system_seconds, .. } = measured;
        ensure!(done == operations, "the engine did {done} operations instead of {operations}");
        let each = |seconds: f64| seconds / done as f64;
        Ok(Cost { seconds: each(timed_ns as f64 * 1e-9), cpu: each(user_seconds + system_seconds) })
    }

    pub fn cleanup(&self) -> anyhow::Result<()> {
        self.step(Step::Cleanup, 0).map(drop)
    }

    fn step(&self, step: Step, operations: u64) -> anyhow::Result<StepReport> {
        let sizing = Sizing { size: self.size.0, cpus: 1 };
        let task = Task::plain(step, self.workload.clone(), sizing, self.root, 42, operations);
        in_child(&task)
    }
}

/// Performs a step in a separate process.
pub fn in_child(task: &Task) -> anyhow::Result<StepReport> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(STEP).arg(serde_json::to_string(task)?);
    // SAFETY: setsid is one call that a forked process may make.
    unsafe { child.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    let answer = peers::run(&mut child)?.stdout;
    serde_json::from_slice(&answer).context("the report of a step")
}

/// The name of the command that performs one step.
pub const STEP: &str = "step";

/// Performs a step in the child process, and prints its report in JSON.
pub fn step(task: &str) -> anyhow::Result<()> {
    let task: Task = serde_json::from_str(task)?;
    println!("{}", serde_json::to_string(&worker::perform(&task, &mut Open)?)?);
    Ok(())
}

/// A gate that opens at once.
struct Open;

impl Gate for Open {
    fn ready(&mut self, _: Ready) -> Result<(), EngineError> {
        Ok(())
    }
}
