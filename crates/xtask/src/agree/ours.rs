//! Our side of a pair: the steps that a trial takes, each in a process of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use fsb_engine::{Step, StepReport};

use super::row::Row;
use crate::backends::{in_child, settle};

/// A row on a file system.
pub struct Ours<'r> {
    pub row: &'r Row,
    pub root: &'r Path,
    pub units: u64,
}

impl Ours<'_> {
    /// Makes the files.
    pub fn prepare(&self) -> anyhow::Result<()> {
        self.step(Step::Prepare, 0).map(drop)
    }

    /// Removes the files.
    pub fn cleanup(&self) -> anyhow::Result<()> {
        self.step(Step::Cleanup, 0).map(drop)
    }

    /// Seconds of a unit, from the start of its first call to the end of its last one.
    pub fn measure(&self, pair: u32) -> anyhow::Result<f64> {
        if !self.row.prepared {
            self.prepare()?;
        }
        begin(self.row, self.root)?;
        let StepReport::Measured(measured) = self.step(Step::Measure, pair)? else {
            anyhow::bail!("the measure step measured nothing")
        };
        if !self.row.prepared {
            self.cleanup()?;
        }
        let units = measured.len() as u64;
        ensure!(units == if self.row.own_files() { self.units } else { 1 }, "{units} units were measured");
        Ok(measured.iter().map(|unit| unit.timed_ns as f64 * 1e-9).sum::<f64>() / self.units as f64)
    }

    /// The files, unit by unit.
    pub fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut waiting = vec![self.root.join("fsb-set")];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
                let entry = entry?;
                if entry.file_type()?.is_dir() { waiting.push(entry.path()) } else { found.push(entry.path()) }
            }
        }
        found.sort();
        Ok(found)
    }

    fn step(&self, step: Step, pair: u32) -> anyhow::Result<StepReport> {
        in_child(&self.row.task(step, self.root, self.units, pair))
    }
}

/// The state that either side begins in: all is on the device, and where the row begins cold nothing is in memory.
pub fn begin(row: &Row, root: &Path) -> anyhow::Result<()> {
    settle(root)?;
    if row.cold {
        std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop_caches")?;
    }
    Ok(())
}
