//! The cases of a suite as the runner sees them.

use fsb_engine::{Sizing, Step, Task};
use fsb_model::{Bytes, CacheState};
use fsb_runner::plan_file::{PlanFile, typed};
use fsb_runner::work::CellUnit;

/// A case with its unit.
pub struct AgreeCase {
    /// The label in tables.
    pub label: String,
    /// Its position in the suite, from 1.
    pub number: usize,
    /// Whether nothing of its files may be in memory.
    pub cold: bool,
    /// Whether its files exist before the measurement.
    pub prepared: bool,
    unit: CellUnit,
}

/// Returns the cases that have units and one of the labels `possible`.
pub fn all(suite: &str, image: Bytes, possible: &[String]) -> anyhow::Result<Vec<AgreeCase>> {
    let plan = PlanFile {
        targets: vec![typed("ext4")],
        suite: Some(suite.to_owned()),
        size: Some(image),
        ..PlanFile::default()
    };
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let cells = plan.resolve(cpus, 1)?.work.cells;
    let row = |(number, cell): (usize, fsb_runner::work::ParsedCell)| {
        let label = cell.cell.label;
        possible.contains(&label).then_some(())?;
        Some(AgreeCase {
            cold: cell.profile.cache == CacheState::Cold,
            // A case that only writes and does not overwrite creates its files itself.
            prepared: !cell.profile.only_writes || cell.cell.workload.params.get("overwrite") == Some(&true.into()),
            unit: cell.unit?,
            label,
            number,
        })
    };
    Ok((1..).zip(cells).filter_map(row).collect())
}

impl AgreeCase {
    /// Returns whether each unit has its own files.
    pub fn own_files(&self) -> bool {
        self.unit.own_files
    }

    /// Returns the bytes of a unit's files.
    pub fn space(&self) -> u64 {
        self.unit.space
    }

    /// Returns the task of a step with this number of units.
    pub fn task(&self, step: Step, root: &std::path::Path, units: u64, repetition: u32) -> Task {
        let own = self.own_files().then_some(fsb_engine::Units { first: 0, count: units as u32 });
        let operations = if own.is_some() { self.unit.operations } else { self.unit.operations * units };
        let sizing = Sizing { size: 0, cpus: 1 };
        let plain = Task::plain(step, self.unit.workload.clone(), sizing, root, 42, operations);
        Task { repetition, units: own, ..plain }
    }
}
