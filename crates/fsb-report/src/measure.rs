//! Measures: one value of one target at one case in one metric, for programs that store values over
//! time.

use std::collections::BTreeMap;

use fsb_model::{Better, Unit};
use fsb_stats::Interval;
use fsb_stats::compare::Operation;

use crate::compare::{Selection, rows};
use crate::operation::SetStatistics;
use crate::report::Report;
use crate::summary::{MeasuredCell, Summary, Workload};

/// One value of one target at one case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    /// The label of the case.
    pub(crate) case: String,
    /// The operation on a file.
    pub(crate) operation: String,
    /// The target or set.
    pub(crate) target: String,
    /// The name of the metric.
    pub(crate) metric: String,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// The value in the base unit.
    pub(crate) value: f64,
    /// The 95 % interval of the value, if it is known.
    pub(crate) interval: Option<Interval>,
    /// Whether targets are compared by this metric.
    pub(crate) is_primary: bool,
}

impl Measure {
    /// Returns the case and the target: `write 1M, durable / xfs`.
    pub(crate) fn name(&self) -> String {
        format!("{} / {}", self.case, self.target)
    }
}

/// Returns every finite value of a report. No two have the same case, target and metric: the
/// operation becomes a part of the case where it distinguishes them.
pub(crate) fn measures(report: &Report<'_>) -> Vec<Measure> {
    let mut measures = match report {
        Report::Run { summary, .. } => of_run(summary),
        Report::Comparison {
            document, detail, ..
        } => of_comparison(Selection {
            document,
            detail: *detail,
        }),
    };
    measures.retain(|measure| measure.value.is_finite());
    let key = |measure: &Measure| {
        let Measure {
            case,
            target,
            metric,
            ..
        } = measure;
        (case.clone(), target.clone(), metric.clone())
    };
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for measure in &measures {
        *counts.entry(key(measure)).or_default() += 1;
    }
    for measure in &mut measures {
        if counts[&key(measure)] > 1 {
            measure.case = format!("{}: {}", measure.case, measure.operation);
        }
    }
    measures
}

fn of_run(summary: &Summary) -> Vec<Measure> {
    let mut measures = Vec::new();
    for case in &summary.cases {
        for (target, cell) in summary.cells_of(case) {
            measures.extend(of_cell(case, &target.label(), cell));
        }
    }
    measures
}

fn of_cell(case: &Workload, target: &str, cell: &MeasuredCell) -> Vec<Measure> {
    let measure = |metric: &str, unit, better, value, interval| Measure {
        case: case.workload.clone(),
        operation: case.operation.clone(),
        target: target.to_owned(),
        metric: metric.to_owned(),
        unit,
        better,
        value,
        interval,
        is_primary: metric == case.metric,
    };
    let primary = cell.estimate.as_ref().map(|found| {
        let interval = found.interval.filter(|_| found.is_judged());
        measure(&case.metric, case.unit, case.better, found.value, interval)
    });
    let others = cell
        .secondary
        .iter()
        .filter(|other| other.metric != case.metric);
    let others = others.map(|other| {
        let (metric, mean) = (&other.metric, other.description.mean);
        measure(metric, other.unit, other.better, mean, other.interval)
    });
    primary.into_iter().chain(others).collect()
}

fn of_comparison(selection: Selection<'_>) -> Vec<Measure> {
    let names: Vec<&str> = selection
        .sets()
        .iter()
        .map(|set| set.name.as_str())
        .collect();
    let mut measures = Vec::new();
    for row in rows(selection) {
        let Some(found) = row.operation() else {
            continue;
        };
        for operation in std::iter::once(&found.operation).chain(&found.others) {
            let is_primary = std::ptr::eq(*operation, found.operation);
            measures.extend(of_operation(&row.label, operation, &names, is_primary));
        }
    }
    measures
}

fn of_operation(
    case: &str,
    operation: &Operation,
    names: &[&str],
    is_primary: bool,
) -> Vec<Measure> {
    let of_set = |name: &&str| {
        Some(Measure {
            case: case.to_owned(),
            operation: operation.operation.clone(),
            target: (*name).to_owned(),
            metric: operation.metric.clone(),
            unit: operation.unit,
            better: operation.better,
            value: SetStatistics::of_operation(operation, name).value?,
            interval: None,
            is_primary,
        })
    };
    names.iter().filter_map(of_set).collect()
}
