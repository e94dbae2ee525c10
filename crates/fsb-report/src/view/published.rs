//! Published values beside ours.

use fsb_model::Unit;
use serde::Serialize;

use super::View;

/// A published table, read by someone else and handed in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTable {
    /// Where it was published.
    pub title: String,
    /// What a reader must know to compare.
    pub note: String,
    /// The unit of the values; times are shown in microseconds.
    pub unit: Unit,
    /// The values.
    pub rows: Vec<PublishedValue>,
}

/// One published value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedValue {
    /// The label of our workload that it belongs to.
    pub workload: String,
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
    /// The unit of the values.
    pub unit: Unit,
    /// File systems that were published, in the table's order.
    pub file_systems: Vec<String>,
    /// One a workload of ours that was published.
    pub rows: Vec<PublishedRow>,
}

/// One workload, ours beside theirs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRow {
    /// Its label.
    pub workload: String,
    /// Our arithmetic means, by target; absent where we have none.
    pub ours: Vec<Option<f64>>,
    /// The published means, by file system in the table's order.
    pub theirs: Vec<Option<f64>>,
}

/// Matches by workload label and file-system name. Rows that were not run are left out: they say nothing beside ours.
pub(super) fn beside(view: &View, table: &PublishedTable) -> Published {
    let mut file_systems: Vec<String> = Vec::new();
    for value in &table.rows {
        if !file_systems.contains(&value.target) {
            file_systems.push(value.target.clone());
        }
    }
    let theirs = |workload: &str, target: &str| {
        let found = table.rows.iter().find(|value| value.workload == workload && value.target == target);
        found.map(|value| value.value).filter(|value| value.is_finite())
    };
    let rows = view
        .rows
        .iter()
        .filter(|row| row.unit == table.unit)
        .map(|row| PublishedRow {
            workload: row.workload.clone(),
            ours: row.cells.iter().map(|cell| cell.estimate.as_ref().map(|estimate| estimate.mean)).collect(),
            theirs: file_systems.iter().map(|name| theirs(&row.workload, name)).collect(),
        })
        .filter(|row| row.theirs.iter().any(Option::is_some))
        .collect();
    Published { title: table.title.clone(), note: table.note.clone(), unit: table.unit, file_systems, rows }
}
