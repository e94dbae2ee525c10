//! The data of the index: runs, series and values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsb_model::{Better, Unit};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Conditions of a measurement by name, as text.
pub type Conditions = BTreeMap<String, String>;
/// Labels that the user gave a run, by name.
pub type Labels = BTreeMap<String, String>;

/// The definition of a series: the measured work, its target and the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesKey {
    /// The tool that measured: `fsb`, `fio`.
    pub tool: String,
    /// The label of the case, or the job of another tool; may be empty.
    pub case: String,
    /// The operation: `write`.
    pub operation: String,
    /// The target with its options and medium, or the name that the user gave.
    pub target: String,
    /// The metric by which targets are compared: `throughput`.
    pub metric: String,
    /// The unit, by name.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The machine: processor, memory, hypervisor; empty for results of other tools.
    pub machine: String,
    /// The parameters of the work as JSON, or their digest if they are long. Work with different
    /// parameters belongs to different series.
    pub parameters: String,
}

impl SeriesKey {
    /// Returns the identity of the series, which depends only on its definition.
    pub fn id(&self) -> String {
        digest(self)
    }

    /// Returns the case and the target: `write 1M on xfs`.
    pub fn name(&self) -> String {
        let case = if self.case.is_empty() {
            &self.operation
        } else {
            &self.case
        };
        if self.target.is_empty() {
            case.clone()
        } else {
            format!("{case} on {}", self.target)
        }
    }

    /// Returns the direction in which the metric improves.
    pub fn better(&self) -> Better {
        if self.higher_is_better {
            Better::Higher
        } else {
            Better::Lower
        }
    }

    /// Returns a value with its unit as text.
    pub fn show(&self, value: f64) -> String {
        unit_named(&self.unit).show(value)
    }
}

/// Returns the unit with a name from a [`SeriesKey`]. Values with an unknown unit are plain
/// numbers.
pub fn unit_named(name: &str) -> Unit {
    let units = [
        Unit::BytesPerSecond,
        Unit::OperationsPerSecond,
        Unit::Seconds,
        Unit::Bytes,
        Unit::Count,
    ];
    units
        .into_iter()
        .find(|unit| unit.name() == name)
        .unwrap_or(Unit::Count)
}

/// A run with its values, for the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The run.
    pub run: IndexedRun,
    /// The values, at most one for each series.
    pub points: Vec<EntryPoint>,
    /// Targets that are not judged, with the reason, and cases whose trials all failed or were
    /// invalid.
    pub left_out: Vec<String>,
}

/// The value of a run in one series.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryPoint {
    /// The series.
    pub key: SeriesKey,
    /// The conditions that may change from run to run.
    pub conditions: Conditions,
    /// The mean over the blocks of the logarithm of the value.
    pub log_mean: f64,
    /// The squared standard error over the blocks; `None` for a single block.
    pub squared_error: Option<f64>,
    /// The number of blocks.
    pub blocks: u32,
}

/// Returns the identity of a value: the first 64 bits of the SHA-256 of its JSON, in hexadecimal.
pub(crate) fn digest(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    Sha256::digest(text)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A run of the index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedRun {
    /// The identity, a hash of the contents of the run.
    pub id: String,
    /// The run directory, or the file of another tool.
    pub source: PathBuf,
    /// The name that the user gave to the results of another tool; empty for a run of fsb.
    pub name: String,
    /// The tool that made it.
    pub tool: String,
    /// The time at which it began: RFC 3339 in UTC.
    pub at: String,
    /// Labels from the user: `commit` is `abc`.
    pub labels: Labels,
}

/// A run of the index in a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEntry {
    /// The identity.
    pub id: String,
    /// The time at which it began: RFC 3339 in UTC.
    pub at: String,
    /// The tool that made it.
    pub tool: String,
    /// The run directory, or the file of another tool.
    pub source: String,
    /// Labels from the user.
    pub labels: Labels,
}

impl From<&IndexedRun> for RunEntry {
    fn from(run: &IndexedRun) -> RunEntry {
        RunEntry {
            id: run.id.clone(),
            at: run.at.clone(),
            tool: run.tool.clone(),
            source: run.source.display().to_string(),
            labels: run.labels.clone(),
        }
    }
}

/// A series of the index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedSeries {
    /// The identity, a hash of the definition.
    pub id: String,
    /// The definition.
    pub key: SeriesKey,
}

/// The value of one run in a series.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPoint {
    /// The run.
    pub run: String,
    /// The time at which the run began: RFC 3339 in UTC.
    pub at: String,
    /// The identity of the environment of the run.
    pub environment: String,
    /// The mean over the blocks of the logarithm of the value.
    pub log_mean: f64,
    /// The squared standard error over the blocks; `None` for a single block.
    pub squared_error: Option<f64>,
    /// The number of blocks.
    pub blocks: u32,
}
