//! The FSBench side of a pair: the steps of a trial, each in a separate process.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use fsb_engine::{Step, StepReport};

use super::row::AgreeCase;
use crate::backends::{in_child, settle};

/// A case on a file system.
pub struct Ours<'r> {
    pub row: &'r AgreeCase,
    pub root: &'r Path,
    pub units: u64,
}

impl Ours<'_> {
    /// Creates the files.
    pub fn prepare(&self) -> anyhow::Result<()> {
        self.step(Step::Prepare, 0).map(drop)
    }

    /// Removes the files.
    pub fn cleanup(&self) -> anyhow::Result<()> {
        self.step(Step::Cleanup, 0).map(drop)
    }

    /// Returns the seconds of a unit, from the start of its first call to the end of its last one.
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

    /// Returns the files, unit by unit.
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

/// Establishes the initial state of each side: everything is on the device, and if the case begins cold, nothing is in
/// memory.
pub fn begin(row: &AgreeCase, root: &Path) -> anyhow::Result<()> {
    settle(root)?;
    if row.cold {
        std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop_caches")?;
    }
    Ok(())
}
