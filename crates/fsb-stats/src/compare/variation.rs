//! The variation between runs of one plan, estimated from runs between which nothing changed.

use std::collections::BTreeMap;

use super::collected::Collected;
use super::region::Frame;
use super::table::{primary, tables};
use super::{OURS, Request};
use crate::FEWEST_RUNS_JUDGED;
use crate::distribution::chi_squared_quantile;
use crate::error::AnalysisError;
use crate::prior::effective_cases;
use crate::runs::{Between, BetweenSource, RunMeans};

/// The variation between runs of one plan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Variation {
    /// Of one value of one target.
    pub values: Option<Between>,
    /// Of the ratio of a target to the first one.
    pub ratios: Option<Between>,
    /// Whether each of the runs was made in a session of its own: their variation is that of sessions, too.
    pub of_sessions: bool,
}

/// Estimates the variation between runs by moments, pooled over cases and targets. Each set holds the runs of one
/// target. The result is the variance of the runs' means minus the part that the blocks of a run explain.
pub fn variation(mut sets: Vec<Collected>) -> Result<Variation, AnalysisError> {
    let mut tables = tables(&mut sets, 0);
    tables.retain(|table| !table.cells.is_empty());
    let is_primary = primary(&tables);
    tables.iter_mut().zip(is_primary).for_each(|(table, primary)| table.primary = primary);
    let frame = Frame::new(&sets, &Request::new(0, 0.0), &[])?;
    let (mut values, mut ratios) = (Vec::new(), Vec::new());
    for table in tables.iter().filter(|table| table.primary) {
        let samples = frame.samples(table, &(0..table.cells.len()).collect::<Vec<_>>());
        for (set, sample) in samples.iter().enumerate() {
            values.push(RunMeans::of_sample(sample)?);
            if set > 0 && sample.is_paired_with(&samples[0]) {
                ratios.push(RunMeans::of_pairs(&samples[0], sample)?);
            }
        }
    }
    let sessions: std::collections::BTreeSet<&String> = sets.iter().flat_map(|set| &set.sessions).collect();
    let runs = sets.iter().map(Collected::run_count).max().unwrap_or(0);
    Ok(Variation { values: between(&values), ratios: between(&ratios), of_sessions: sessions.len() >= runs })
}

/// The upper bound of the variation, at 80 %, because the estimate from a few runs may be far too small by chance. `None`
/// of fewer runs than can be judged, and if even the bound is not above what the blocks explain.
fn between(cases: &[RunMeans]) -> Option<Between> {
    const TAIL: f64 = 0.2;
    let cases: Vec<&RunMeans> = cases.iter().filter(|case| case.runs() >= FEWEST_RUNS_JUDGED).collect();
    let runs = cases.iter().map(|case| case.runs()).min()?;
    let all: f64 = cases.iter().map(|case| case.degrees()).sum();
    let mean = |of: &dyn Fn(&RunMeans) -> f64| cases.iter().map(|case| case.degrees() * of(case)).sum::<f64>() / all;
    let (total, within) = (mean(&|case| case.moments().1), mean(&|case| case.within()));
    let residuals: Vec<BTreeMap<(usize, u32), f64>> = cases.iter().map(|case| case.residuals(0)).collect();
    let degrees = all / cases.len() as f64 * effective_cases(&residuals);
    let bound = total * degrees / chi_squared_quantile(TAIL, degrees) - within;
    let source = BetweenSource::EarlierRuns { runs, degrees };
    (bound > 0.0).then(|| Between { sd: bound.sqrt(), source })
}

impl Collected {
    /// This set over another one of the same runs, block by block: what ratios of two targets are compared with.
    pub fn over(&self, other: &Collected, name: String) -> Result<Collected, AnalysisError> {
        use fsb_model::Unit;
        use fsb_model::set::{Point, Run, Series};

        let by_block: BTreeMap<Option<u32>, u32> =
            other.runs.iter().zip(0..).map(|(facts, place)| (facts.block, place)).collect();
        let mut ratio = Collected::new(name.clone(), Some(name));
        for (facts, number) in self.runs.iter().zip(0..) {
            let Some(partner) = by_block.get(&facts.block) else { continue };
            let mut series = Vec::new();
            for column in &self.columns {
                let Some(beneath) = other.columns.iter().find(|beneath| beneath.key == column.key) else { continue };
                let values = beneath.rows.iter().filter(|row| row.run == *partner).flat_map(|row| beneath.points(row));
                let values: BTreeMap<_, f64> =
                    values.map(|(size, value)| (beneath.sizes[size as usize], value)).collect();
                let points = column.rows.iter().filter(|row| row.run == number).flat_map(|row| column.points(row));
                let points = points.filter_map(|(size, value)| {
                    let size = column.sizes[size as usize];
                    let value = value / values.get(&size)?;
                    let is_value = value.is_finite() && value > 0.0;
                    is_value.then_some(Point { file_size: size.file, record_size: size.record, value, line: 0 })
                });
                series.push(Series {
                    workload: column.key.workload.clone(),
                    operation: column.key.operation.clone(),
                    metric: column.key.metric.clone(),
                    unit: Unit::Count,
                    better: column.better,
                    found_unit: String::new(),
                    points: points.collect(),
                    gaps: Vec::new(),
                });
            }
            ratio.push(&Run {
                tool: OURS.to_owned(),
                path: self.files.texts[facts.file as usize].clone(),
                block: facts.block,
                sessions: self.sessions.iter().cloned().collect(),
                series,
                ..Run::default()
            })?;
        }
        Ok(ratio)
    }
}
