//! One operation of one workload, in all sets.

use std::borrow::Cow;

use fsb_model::Unit;
use fsb_stats::Method;
use fsb_stats::compare::{
    Classic, Colour, Document, Finding, GridAgainst, Operation, Pooled, PooledAgainst, SetSummary,
    Slice, TVerdict, TargetByTarget,
};

use crate::axis;
use crate::judged::Judged;

/// One operation of one workload, in the metric that sets are compared by and in all others.
#[derive(Debug)]
pub(crate) struct OperationRow<'a> {
    /// The operation in the metric that sets are compared by: a rate, if there is one.
    pub(crate) operation: &'a Operation,
    /// The operation in the other metrics.
    pub(crate) others: Vec<&'a Operation>,
    /// The index in the document of each column of the view. The ranking of the operation uses
    /// these indices.
    pub(crate) places: Vec<usize>,
    /// One entry per set, the baseline first.
    pub(crate) sets: Vec<SetStatistics<'a>>,
    /// The false discovery rate at which the colours of the cells hold.
    pub(crate) q: f64,
}

/// The statistics of one set at one operation, or at one of its sizes.
#[derive(Debug, Clone)]
pub(crate) struct SetStatistics<'a> {
    /// The geometric mean that its comparison is of: that of its runs, or of its pooled values
    /// where runs share no cells.
    pub(crate) value: Option<f64>,
    /// The statistics of its pooled values, if it has any.
    pub(crate) pooled: Option<&'a Pooled>,
    /// The comparison of its pooled values with those of the baseline.
    pub(crate) classic: Option<&'a PooledAgainst>,
    /// The comparison of its runs with those of the baseline.
    pub(crate) judged: Option<Judged>,
    /// The comparison of its cells with those of the baseline.
    pub(crate) grid: Option<&'a GridAgainst>,
}

impl<'a> SetStatistics<'a> {
    /// Returns the statistics of a set at an operation.
    pub(crate) fn of_operation(operation: &'a Operation, name: &str) -> SetStatistics<'a> {
        let estimate = operation
            .estimate
            .against
            .get(name)
            .and_then(Option::as_ref);
        let grid = operation
            .grid
            .as_ref()
            .and_then(|grid| grid.against.get(name))
            .and_then(Option::as_ref);
        let of_runs = operation.estimate.values.get(name).copied().flatten();
        let found = SetStatistics::new(
            name,
            &operation.classic,
            estimate.map(Judged::of_runs),
            grid,
        );
        SetStatistics {
            value: of_runs.or(found.value),
            ..found
        }
    }

    /// Returns the statistics of a set at one of the operation's sizes.
    pub(crate) fn of_slice(slice: &'a Slice, name: &str) -> SetStatistics<'a> {
        let grid = slice.grid.against.get(name).and_then(Option::as_ref);
        SetStatistics::new(name, &slice.classic, grid.and_then(Judged::of_grid), grid)
    }

    /// Returns the statistics of a set in one cell, whose runs are not judged.
    pub(crate) fn of_cell(classic: &'a Classic, name: &str) -> SetStatistics<'a> {
        SetStatistics::new(name, classic, None, None)
    }

    fn new(
        name: &str,
        classic: &'a Classic,
        judged: Option<Judged>,
        grid: Option<&'a GridAgainst>,
    ) -> Self {
        let pooled = classic.sets.get(name).and_then(Option::as_ref);
        SetStatistics {
            value: pooled.map(|pooled| pooled.geometric_mean),
            pooled,
            classic: classic.against.get(name).and_then(Option::as_ref),
            judged,
            grid,
        }
    }
}

/// Returns whether a finding is about an operation.
pub(crate) fn is_about(found: &Finding, operation: &Operation) -> bool {
    (&found.workload, &found.operation, &found.metric)
        == (&operation.workload, &operation.operation, &operation.metric)
}

/// Returns `DIFF` or `SAME`.
pub(crate) fn t_word(verdict: TVerdict) -> &'static str {
    match verdict {
        TVerdict::Diff => "DIFF",
        TVerdict::Same => "SAME",
    }
}

/// Returns the name in JSON and CSV.
pub(crate) fn method_name(method: Method) -> &'static str {
    match method {
        Method::Paired => "paired",
        Method::PairedOnSlices => "paired_on_slices",
        Method::PairedRuns => "paired_runs",
        Method::Welch => "welch",
    }
}

/// Returns the name in CSV.
pub(crate) fn colour_word(colour: Colour) -> &'static str {
    match colour {
        Colour::Faster => "faster",
        Colour::Slower => "slower",
        Colour::Same => "same",
        Colour::Uncertain => "uncertain",
    }
}

/// A comparison, or one operation of it in detail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) document: &'a Document,
    /// The operation, or the workload, that is shown size by size; absent for the overview of all.
    pub(crate) detail: Option<&'a str>,
}

/// Returns whether the operation, or its workload, is the one in detail; all are without one.
fn is_in(operation: &Operation, detail: Option<&str>) -> bool {
    detail.is_none_or(|name| {
        operation.operation == name || operation.workload.as_deref() == Some(name)
    })
}

impl<'a> Selection<'a> {
    /// Returns the operations that are shown, in the document's order.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &'a Operation> + use<'a> {
        let detail = self.detail;
        let operations = self.document.operations.iter();
        operations.filter(move |operation| is_in(operation, detail))
    }

    /// Returns the comparisons of targets with themselves, of these operations.
    pub(crate) fn by_target(&self) -> Cow<'a, TargetByTarget> {
        let all = &self.document.by_target;
        if self.detail.is_none() {
            return Cow::Borrowed(all);
        }
        let mut found = all.clone();
        for document in found.documents_mut() {
            document
                .operations
                .retain(|operation| is_in(operation, self.detail));
        }
        Cow::Owned(found)
    }

    /// Returns the baseline, then the other sets in their order.
    pub(crate) fn sets(&self) -> Vec<&'a SetSummary> {
        let is_baseline = |set: &&SetSummary| set.name == self.document.baseline;
        let others = self.document.sets.iter().filter(|set| !is_baseline(set));
        self.document
            .sets
            .iter()
            .filter(is_baseline)
            .chain(others)
            .collect()
    }
}

/// A unit for tables and axes, with the number of base units in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UnitScale {
    pub(crate) divisor: f64,
    pub(crate) name: &'static str,
}

impl UnitScale {
    /// Returns the unit of operations that are shown together: MiB/s for rates in bytes, as in
    /// published tables, and for times a unit that suits the smallest median.
    pub(crate) fn fit<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> UnitScale {
        let mut operations = operations.into_iter().peekable();
        let unit = operations
            .peek()
            .map_or(Unit::Count, |operation| operation.unit);
        let medians = operations
            .flat_map(|operation| operation.classic.sets.values().flatten())
            .map(|pooled| pooled.median);
        match unit {
            Unit::BytesPerSecond => UnitScale {
                divisor: 1048576.0,
                name: "MiB/s",
            },
            Unit::OperationsPerSecond => UnitScale {
                divisor: 1.0,
                name: "operations/s",
            },
            other => {
                let found = axis::unit(other, medians.fold(f64::MAX, f64::min));
                UnitScale {
                    divisor: found.divisor,
                    name: found.name,
                }
            }
        }
    }

    /// Formats a value with two digits after the point, as in published tables, and with more if it
    /// is below 1.
    pub(crate) fn show(self, value: f64) -> String {
        let value = value / self.divisor;
        let decimals = if value == 0.0 || value.abs() >= 1.0 {
            2
        } else {
            (3.0 - value.abs().log10().floor()).min(12.0) as usize
        };
        format!("{value:.decimals$}")
    }
}

/// Formats a probability with four digits after the point, and a tiny one with an exponent:
/// `0.0340`, `1.0e-9`.
pub(crate) fn p_value(p: f64) -> String {
    if p >= 1e-4 || p == 0.0 {
        format!("{p:.4}")
    } else {
        format!("{p:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_after_the_point_and_small_ones_four_in_all() {
        let scale = UnitScale {
            divisor: 1048576.0,
            name: "MiB/s",
        };
        for (value, text) in [
            (1231.0149, "1231.01"),
            (50.43, "50.43"),
            (9.678, "9.68"),
            (0.034_512, "0.03451"),
            (0.0, "0.00"),
        ] {
            assert_eq!(scale.show(value * 1048576.0), text);
        }
        assert_eq!(
            (p_value(0.0), p_value(0.0345), p_value(1e-9)),
            ("0.0000".into(), "0.0345".into(), "1.0e-9".into())
        );
    }
}
