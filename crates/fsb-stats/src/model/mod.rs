//! Targets that exchange slices: log rates as block + target + slice of the medium.
//!
//! The position on the medium affects the speed of a file system, so targets use every slice in turn. The difference of
//! a pair by itself then varies from block to block with the slices. The model estimates the slices' effects by least
//! squares from all targets of the case and removes them. The pair's variance comes from the residuals of its own
//! differences, so that a noisy third target does not widen the interval.
//!
//! The fit takes degrees of freedom from those residuals. They are counted by k = the smaller of tr(RₐRₐᵀ) and
//! tr(RᵦRᵦᵀ). Here r = Ry are the pair's residual differences, and Rₜ are the columns of R that belong to target t. The
//! sum of squares expects at least k times the variance of a difference, however the two targets share it. The divisor
//! and the degrees of freedom are both k. Over whole rotations of T slices in n blocks, k = n − 3 + 2/T. For two
//! targets this is n − 2, as in a regression on the difference of their slices.
//!
//! If trials are missing, a third target's errors enter through the slices' effects. They are added to the extent to
//! which that target scatters more than the pair.

use std::collections::BTreeMap;

use crate::block_value::by_block;
use crate::difference::{Difference, Residuals};
use crate::error::AnalysisError;
use crate::matrix::{Matrix, dot};
use crate::sample::Sample;

/// The relative size below which a remainder counts as rounding.
const ROUNDING: f64 = 1e-12;

/// A value with its row of the design: one column per target, then one per slice, each without its mean over the block.
struct Observation {
    part: usize,
    log: f64,
    /// As in [`BlockValue::within`](crate::BlockValue::within).
    within: Option<f64>,
    centred: Vec<f64>,
}

/// The fit of a case.
pub(crate) struct Model {
    /// By block, then by target.
    blocks: BTreeMap<u32, BTreeMap<usize, Observation>>,
    targets: usize,
    /// Effects of targets, then of slices. Differences between those that share blocks are estimable.
    effects: Vec<f64>,
    /// A generalised inverse of the normal equations.
    inverse: Matrix,
    /// By target: its share in the normal equations.
    shares: Vec<Matrix>,
    /// By target: the variance of its values around the whole fit, overestimated rather than underestimated.
    noise: Vec<f64>,
}

impl Model {
    /// Fits the samples that share the blocks with this index ([`Sample::shares_blocks`]) and took turns on slices of
    /// one medium. Returns `None` if there are no such samples.
    pub(crate) fn of(samples: &[Sample], shared: usize) -> Result<Option<Model>, AnalysisError> {
        let mut parts: BTreeMap<u32, usize> = BTreeMap::new();
        let mut blocks: BTreeMap<u32, BTreeMap<usize, Observation>> = BTreeMap::new();
        for (target, sample) in samples.iter().enumerate() {
            if sample.shares_blocks != Some(shared) || !sample.has_parts() {
                continue;
            }
            let logs = by_block(&sample.values)?;
            for value in &sample.values {
                let next = parts.len();
                let part = *parts.entry(value.part.unwrap_or_default()).or_insert(next);
                let observation =
                    Observation { part, log: logs[&value.block], within: value.within, centred: Vec::new() };
                blocks.entry(value.block).or_default().insert(target, observation);
            }
        }
        Ok((!blocks.is_empty()).then(|| Model::fit(blocks, samples.len(), parts.len())))
    }

    fn fit(mut blocks: BTreeMap<u32, BTreeMap<usize, Observation>>, targets: usize, parts: usize) -> Model {
        let columns = targets + parts;
        let mut shares = vec![Matrix::zero(columns); targets];
        let mut right = vec![0.0; columns];
        for block in blocks.values_mut() {
            let size = block.len() as f64;
            let mut mean = vec![0.0; columns];
            for (target, observation) in block.iter() {
                mean[*target] += 1.0 / size;
                mean[targets + observation.part] += 1.0 / size;
            }
            for (target, observation) in block.iter_mut() {
                observation.centred = mean.iter().map(|mean| -mean).collect();
                observation.centred[*target] += 1.0;
                observation.centred[targets + observation.part] += 1.0;
                shares[*target].add_square(&observation.centred);
                right.iter_mut().zip(&observation.centred).for_each(|(sum, x)| *sum += x * observation.log);
            }
        }
        let mut normal = Matrix::zero(columns);
        shares.iter().for_each(|share| normal.add(share));
        let inverse = normal.inverse();
        let effects = inverse.times(&right);
        let (mut squares, mut counts) = (vec![0.0; targets], vec![0.0; targets]);
        for block in blocks.values() {
            let mean = block.values().map(|observation| observation.log).sum::<f64>() / block.len() as f64;
            for (target, observation) in block {
                squares[*target] += (observation.log - mean - dot(&observation.centred, &effects)).powi(2);
                counts[*target] += 1.0;
            }
        }
        // At most half of the values go into the means of blocks and into effects.
        let noise = squares.iter().zip(&counts).map(|(squares, count)| 2.0 * squares / f64::max(*count, 1.0)).collect();
        Model { blocks, targets, effects, inverse, shares, noise }
    }

    /// Returns the difference of two targets, or `None` if they have no block in common.
    pub(crate) fn difference(&self, baseline: usize, candidate: usize) -> Option<Difference> {
        let columns = self.effects.len();
        let (mut differences, mut residuals, mut largest) = (Vec::new(), Vec::new(), 0.0f64);
        // Of R's columns: the trace, from its parts.
        let (mut spread, mut fitted) = (Matrix::zero(columns), [0.0, 0.0]);
        let (mut designs, mut weighted) = (Vec::new(), Vec::new());
        let mut within = Some(0.0);
        for (number, block) in &self.blocks {
            let (Some(b), Some(c)) = (block.get(&baseline), block.get(&candidate)) else { continue };
            let mut design = vec![0.0; columns];
            design[candidate] += 1.0;
            design[baseline] -= 1.0;
            design[self.targets + c.part] += 1.0;
            design[self.targets + b.part] -= 1.0;
            let weights = self.inverse.times(&design);
            fitted[0] -= dot(&weights, &b.centred);
            fitted[1] += dot(&weights, &c.centred);
            spread.add_square(&weights);
            within = within.and_then(|sum: f64| Some(sum + b.within? + c.within?));
            differences.push(c.log - b.log);
            residuals.push((*number, c.log - b.log - dot(&design, &self.effects)));
            designs.push(design);
            weighted.push(weights);
            largest = largest.max(b.log.abs()).max(c.log.abs());
        }
        if differences.is_empty() {
            return None;
        }
        let n = differences.len();
        let left = |target: usize, fitted: f64| n as f64 - 2.0 * fitted + spread.trace_of_product(&self.shares[target]);
        let degrees = left(baseline, fitted[0]).min(left(candidate, fitted[1]));
        let mut contrast = vec![0.0; columns];
        (contrast[baseline], contrast[candidate]) = (-1.0, 1.0);
        let weights = self.inverse.times(&contrast);
        if degrees < Difference::FEWEST_DEGREES || !self.is_estimable(&contrast, &weights) {
            let mean = differences.iter().sum::<f64>() / n as f64;
            return Some(Difference::without_interval(mean, n));
        }
        let exact = |value: f64| if value.abs() <= ROUNDING * largest.max(1.0) { 0.0 } else { value };
        residuals.iter_mut().for_each(|(_, residual)| *residual = exact(*residual));
        let squares: f64 = residuals.iter().map(|(_, residual)| residual.powi(2)).sum();
        let variance = squares / degrees;
        let shares: Vec<f64> = self.shares.iter().map(|share| share.quadratic(&weights)).collect();
        let leverage = (shares.iter().sum::<f64>() / 2.0).max(shares[baseline]).max(shares[candidate]);
        let others = (0..self.targets).filter(|target| ![baseline, candidate].contains(target));
        let beyond = |target: usize| (self.noise[target] - variance / 2.0).max(0.0) * shares[target];
        let error = (variance * leverage + others.map(beyond).sum::<f64>()).sqrt();
        // If all targets vary alike with σ², residuals have the covariance (2δ − g'x) σ².
        let covariance = |row: usize, column: usize| {
            f64::from(u8::from(row == column)) - dot(&weighted[row], &designs[column]) / 2.0
        };
        let residuals = Residuals::new(residuals, within.map(|sum| sum / n as f64), &covariance);
        Some(Difference::fitted(exact(dot(&contrast, &self.effects)), error, variance, degrees, n, residuals))
    }

    /// Returns whether the blocks determine the contrast. They do not if two targets never exchanged their slices.
    fn is_estimable(&self, contrast: &[f64], weights: &[f64]) -> bool {
        let mut normal = Matrix::zero(contrast.len());
        self.shares.iter().for_each(|share| normal.add(share));
        normal.times(weights).iter().zip(contrast).all(|(told, wanted)| (told - wanted).abs() < 1e-6)
    }
}

#[cfg(test)]
mod tests;
