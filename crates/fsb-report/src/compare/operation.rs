//! One operation of one workload, as the sets did it.

use fsb_analysis::Method;
use fsb_analysis::compare::{Classic, Colour, Finding, GridAgainst, Operation, Pooled, PooledAgainst, Slice, TVerdict};

use crate::judged::Judged;

/// One operation of one workload, in the metric that sets are compared by and in all others.
#[derive(Debug)]
pub(crate) struct OperationRow<'a> {
    /// In the metric that sets are compared by: a rate, where there is one.
    pub(crate) operation: &'a Operation,
    /// In the other metrics.
    pub(crate) others: Vec<&'a Operation>,
    /// Where the columns of the view stand in the document, as the operation's ranking numbers them.
    pub(crate) places: Vec<usize>,
    /// One a set, the baseline first.
    pub(crate) sets: Vec<SetStatistics<'a>>,
    /// The false discovery rate that the cells' colours hold at.
    pub(crate) q: f64,
}

/// One set at one operation, or at one of its sizes.
#[derive(Debug, Clone)]
pub(crate) struct SetStatistics<'a> {
    /// The statistics of its pooled values, where it has any.
    pub(crate) pooled: Option<&'a Pooled>,
    /// Pooled beside the baseline.
    pub(crate) classic: Option<&'a PooledAgainst>,
    /// The runs beside the baseline's.
    pub(crate) judged: Option<Judged>,
    /// The cells beside the baseline's.
    pub(crate) grid: Option<&'a GridAgainst>,
}

impl<'a> SetStatistics<'a> {
    /// At an operation.
    pub(crate) fn of_operation(operation: &'a Operation, name: &str) -> SetStatistics<'a> {
        let estimate = operation.estimate.against.get(name).and_then(Option::as_ref);
        let grid = operation.grid.as_ref().and_then(|grid| grid.against.get(name)).and_then(Option::as_ref);
        SetStatistics::of(name, &operation.classic, estimate.map(Judged::of_runs), grid)
    }

    /// At one of its sizes.
    pub(crate) fn of_slice(slice: &'a Slice, name: &str) -> SetStatistics<'a> {
        let grid = slice.grid.against.get(name).and_then(Option::as_ref);
        SetStatistics::of(name, &slice.classic, grid.and_then(Judged::of_grid), grid)
    }

    fn of(name: &str, classic: &'a Classic, judged: Option<Judged>, grid: Option<&'a GridAgainst>) -> Self {
        SetStatistics {
            pooled: classic.sets.get(name).and_then(Option::as_ref),
            classic: classic.against.get(name).and_then(Option::as_ref),
            judged,
            grid,
        }
    }
}

/// Whether a finding is about an operation.
pub(crate) fn is_about(found: &Finding, operation: &Operation) -> bool {
    (&found.workload, &found.operation, &found.metric) == (&operation.workload, &operation.operation, &operation.metric)
}

/// `DIFF` or `SAME`.
pub(crate) fn t_word(verdict: TVerdict) -> &'static str {
    match verdict {
        TVerdict::Diff => "DIFF",
        TVerdict::Same => "SAME",
    }
}

/// The name in JSON and CSV.
pub(crate) fn method_name(method: Method) -> &'static str {
    match method {
        Method::Paired => "paired",
        Method::PairedOnParts => "paired_on_parts",
        Method::PairedRuns => "paired_runs",
        Method::Welch => "welch",
    }
}

/// The name in CSV.
pub(crate) fn colour_word(colour: Colour) -> &'static str {
    match colour {
        Colour::Faster => "faster",
        Colour::Slower => "slower",
        Colour::Same => "same",
        Colour::Uncertain => "uncertain",
    }
}
