//! Comparisons of what rows hold beside speed: CPU time and space between targets, deferred work within each.

use fsb_analysis::{BlockValue, Comparison, Ranking, hold_over_page};
use fsb_model::metric::WITH_DEFERRED;
use fsb_model::{Better, RunRecord};

use super::summary::{Measured, Secondary, Workload};

/// CPU seconds of an operation.
pub(super) const CPU: &str = "cpu_per_operation";
/// Bytes that the files take.
pub(super) const SPACE: &str = "space";

/// A comparison of one metric of one row, and the cell that it belongs to.
struct Place {
    row: usize,
    target: usize,
    metric: String,
}

/// Compares costs with the reference's, and rates with deferred work with those without, all corrected together for
/// their number.
pub(super) fn compare(rows: &mut [Workload], record: &RunRecord) {
    let mut places: Vec<Place> = Vec::new();
    let mut rankings: Vec<Ranking> = Vec::new();
    let is_ranked = |target: usize| record.unjudged_target(&record.plan.targets[target]).is_none();
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.withheld.is_none()) {
        for (target, cell) in row.cells.iter().enumerate().filter(|(target, _)| is_ranked(0) && is_ranked(*target)) {
            for found in &cell.secondary {
                let Some((samples, better)) = samples(row, target, found) else { continue };
                let Ok(ranking) = Ranking::at_look(&samples, &record.looks, better, record.plan.theta) else {
                    continue;
                };
                places.push(Place { row: number, target, metric: found.metric.clone() });
                rankings.push(ranking);
            }
        }
    }
    hold_over_page(&mut rankings);
    for (place, ranking) in places.iter().zip(&rankings) {
        let secondary = &mut rows[place.row].cells[place.target].secondary;
        if let Some(found) = secondary.iter_mut().find(|found| found.metric == place.metric) {
            found.against = ranking.comparison(0, 1);
        }
    }
}

/// Whether values of a metric are compared with others.
pub(super) fn is_compared(metric: &str) -> bool {
    metric == CPU || metric == SPACE || metric.ends_with(WITH_DEFERRED)
}

/// The values to compare and the direction that is good. Returns `None` for metrics that are not compared, and where a
/// value is zero.
fn samples(row: &Workload, target: usize, found: &Secondary) -> Option<([Vec<BlockValue>; 2], Better)> {
    // Both rates of a trial are of one part of the medium, which cancels out.
    let without_part = |points: &[BlockValue]| points.iter().map(|point| BlockValue { part: None, ..*point }).collect();
    let (samples, better): ([Vec<BlockValue>; 2], Better) = match found.metric.as_str() {
        CPU | SPACE if target > 0 => {
            ([row.cells[0].beside(&found.metric)?.points.clone(), found.points.clone()], Better::Lower)
        }
        metric if metric.ends_with(WITH_DEFERRED) => {
            ([without_part(&row.cells[target].values()), without_part(&found.points)], row.better)
        }
        _ => return None,
    };
    let positive = samples.iter().flatten().all(|point| point.value.is_finite() && point.value > 0.0);
    positive.then_some((samples, better))
}

/// The comparison of a metric of a cell, if it is significant and differs by more than matters.
pub(super) fn significant(cell: &Measured, is_meant: impl Fn(&str) -> bool) -> Option<&Comparison> {
    let found = cell.secondary.iter().find(|secondary| is_meant(&secondary.metric))?;
    found.against.as_ref().filter(|comparison| comparison.verdict.is_sure())
}
