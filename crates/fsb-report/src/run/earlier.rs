//! The difference between a run and an earlier run of the same plan.

use serde::Serialize;

use crate::show::{Change, counted, percent};

/// The difference between this run and an earlier run of the same plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierRun {
    /// When the earlier run began, RFC 3339 in UTC.
    pub started: String,
    /// The number of cases that have values in both runs.
    pub cases: usize,
    /// The median of the differences, as a share: 0.03 for 3 %.
    pub median: f64,
    /// The cell that differs most.
    pub most: CellChange,
}

/// One cell in two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellChange {
    /// The label of the case.
    pub workload: String,
    /// The target.
    pub target: String,
    /// The earlier run's value.
    pub then: CellValue,
    /// This run's value.
    pub now: CellValue,
}

/// The quantity that two runs are compared by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CellValue {
    /// The ratio to the baseline, of a run with several targets.
    Ratio(f64),
    /// The value of the only target, and its text.
    Value(f64, String),
}

impl CellValue {
    pub(super) fn number(&self) -> f64 {
        match self {
            CellValue::Ratio(value) | CellValue::Value(value, _) => *value,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            CellValue::Ratio(ratio) => Change::between(*ratio, None).center,
            CellValue::Value(_, text) => text.clone(),
        }
    }
}

impl CellChange {
    /// Returns the absolute difference of the logarithms.
    pub(super) fn distance(&self) -> f64 {
        (self.now.number() / self.then.number()).ln().abs()
    }
}

impl EarlierRun {
    /// `the run of 2026-11-24 15:30 UTC differed by 3 % (median over 12 cases), most at create, 2 threads: xfs −3 %
    /// then, −11 % now`.
    pub(crate) fn line(&self) -> String {
        let CellChange { workload, target, then, now } = &self.most;
        let when = self.started.get(..16).unwrap_or(&self.started).replace('T', " ");
        let median = percent((self.median * 1e3).round() / 1e3);
        let cases = counted(self.cases, "case");
        let (then, now) = (then.text(), now.text());
        if self.cases == 1 {
            return format!("the run of {when} UTC differed by {median}: {target} {then} then, {now} now");
        }
        format!(
            "the run of {when} UTC differed by {median} (median over {cases}), most at {workload}: {target} {then} then, \
             {now} now"
        )
    }
}
