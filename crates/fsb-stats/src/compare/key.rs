//! The keys of values: operation, workload and metric; file size and record size.

use fsb_model::Unit;
use fsb_model::set::Series;

/// File size and record size in bytes, where the tool has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Size {
    pub file: Option<u64>,
    pub record: Option<u64>,
}

/// The subject of a table. Values with equal keys are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub workload: Option<String>,
    pub operation: String,
    pub metric: String,
    pub unit: Unit,
}

/// Workload and operation, independent of the metric.
pub(super) type Subject = (Option<String>, String);

impl Key {
    pub fn subject(&self) -> Subject {
        (self.workload.clone(), self.operation.clone())
    }

    pub fn of(series: &Series) -> Key {
        Key {
            workload: series.workload.clone(),
            operation: series.operation.clone(),
            metric: series.metric.clone(),
            unit: series.unit,
        }
    }
}
