//! Published values beside ours.

use fsb_model::Unit;
use serde::Serialize;

use super::{CellView, View};

/// A published table, read by someone else and handed in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTable {
    /// Where it was published.
    pub title: String,
    /// What a reader must know to compare.
    pub note: String,
    /// Whether it belongs on the first screen too: where the run was made for it.
    pub first: bool,
    /// The values.
    pub rows: Vec<PublishedValue>,
}

/// One published value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedValue {
    /// What the row is called.
    pub row: String,
    /// The label of our workload that it belongs to.
    pub workload: String,
    /// The metric of it; the one that targets are compared by where none is named.
    pub metric: Option<String>,
    /// The unit of the value; times are shown in microseconds.
    pub unit: Unit,
    /// The file system, by its name in the registry.
    pub target: String,
    /// The value in base units.
    pub value: f64,
}

/// The table as it is shown: one column a target, ours and theirs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// Where it was published.
    pub title: String,
    /// What a reader must know to compare.
    pub note: String,
    /// Whether it belongs on the first screen too.
    pub first: bool,
    /// File systems that were published, in the table's order.
    pub file_systems: Vec<String>,
    /// One a workload of ours that was published.
    pub rows: Vec<PublishedRow>,
}

/// One workload, ours beside theirs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRow {
    /// Its name in the table.
    pub workload: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Our arithmetic means, by target; absent where we have none.
    pub ours: Vec<Option<f64>>,
    /// The published means, by file system in the table's order.
    pub theirs: Vec<Option<f64>>,
}

/// Matches by workload label, metric and file-system name. Rows that were not run are left out: they say nothing beside
/// ours.
pub(super) fn beside(view: &View, table: &PublishedTable) -> Published {
    let (mut file_systems, mut rows): (Vec<String>, Vec<&PublishedValue>) = (Vec::new(), Vec::new());
    for value in &table.rows {
        if !file_systems.contains(&value.target) {
            file_systems.push(value.target.clone());
        }
        if !rows.iter().any(|known| known.row == value.row) {
            rows.push(value);
        }
    }
    let theirs = |row: &str, target: &str| {
        let found = table.rows.iter().find(|value| value.row == row && value.target == target);
        found.map(|value| value.value).filter(|value| value.is_finite())
    };
    let rows = rows.into_iter().filter_map(|known| {
        let row = view.rows.iter().find(|row| row.workload == known.workload)?;
        let ours = |cell: &CellView| match &known.metric {
            None => cell.estimate.as_ref().filter(|_| row.unit == known.unit).map(|estimate| estimate.mean),
            Some(metric) => {
                let found = cell.secondary.iter().find(|secondary| secondary.metric == *metric);
                found.filter(|secondary| secondary.unit == known.unit).map(|secondary| secondary.description.mean)
            }
        };
        Some(PublishedRow {
            workload: known.row.clone(),
            unit: known.unit,
            ours: row.cells.iter().map(ours).collect(),
            theirs: file_systems.iter().map(|name| theirs(&known.row, name)).collect(),
        })
    });
    let (title, note) = (table.title.clone(), table.note.clone());
    Published { title, note, first: table.first, rows: rows.collect(), file_systems }
}

impl PublishedRow {
    /// A value as it is shown: times in microseconds, all others with their unit.
    pub fn show(&self, value: Option<f64>) -> String {
        match value {
            Some(value) if self.unit == Unit::Seconds => format!("{:.0} µs", value * 1e6),
            Some(value) => self.unit.show(value),
            None => "–".to_owned(),
        }
    }
}
