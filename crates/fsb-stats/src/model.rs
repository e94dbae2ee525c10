//! Targets that exchange slices: log rates as block + target + slice of the medium.
//!
//! The position on the medium affects the speed of a file system, so targets use every slice in
//! turn. The difference of a pair by itself then varies from block to block with the slices. The
//! model estimates the slices' effects by least squares from all targets of the case and removes
//! them. The pair's variance comes from the residuals of its own differences, so that a noisy third
//! target does not widen the interval.
//!
//! The fit takes degrees of freedom from those residuals. They are counted by k = the smaller of
//! tr(RₐRₐᵀ) and tr(RᵦRᵦᵀ). Here r = Ry are the pair's residual differences, and Rₜ are the columns
//! of R that belong to target t. The sum of squares expects at least k times the variance of a
//! difference, however the two targets share it. The divisor and the degrees of freedom are both k.
//! Over whole rotations of T slices in n blocks, k = n − 3 + 2/T. For two targets this is n − 2, as
//! in a regression on the difference of their slices.
//!
//! If trials are missing, a third target's errors enter through the slices' effects. They are added
//! to the extent to which that target scatters more than the pair.

use std::collections::BTreeMap;

use crate::comparison::{Difference, Residuals};
use crate::sample::{AnalysisError, Sample, by_block};

/// The relative size below which a remainder counts as rounding.
const ROUNDING: f64 = 1e-12;

/// A value with its row of the design: one column per target, then one per slice, each without its
/// mean over the block.
struct Observation {
    slice: usize,
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
    /// Effects of targets, then of slices. Differences between those that share blocks are
    /// estimable.
    effects: Vec<f64>,
    /// A generalised inverse of the normal equations.
    inverse: Matrix,
    /// By target: its share in the normal equations.
    shares: Vec<Matrix>,
    /// By target: the variance of its values around the whole fit, overestimated rather than
    /// underestimated.
    noise: Vec<f64>,
}

impl Model {
    /// Fits the samples that share the blocks with this index ([`Sample::shares_blocks`]) and took
    /// turns on slices of one medium. Returns `None` if there are no such samples.
    pub(crate) fn from_samples(
        samples: &[Sample],
        shared: usize,
    ) -> Result<Option<Model>, AnalysisError> {
        let mut slices: BTreeMap<u32, usize> = BTreeMap::new();
        let mut blocks: BTreeMap<u32, BTreeMap<usize, Observation>> = BTreeMap::new();
        for (target, sample) in samples.iter().enumerate() {
            if sample.shares_blocks != Some(shared) || !sample.has_slices() {
                continue;
            }
            let logs = by_block(&sample.values)?;
            for value in &sample.values {
                let next = slices.len();
                let slice = *slices
                    .entry(value.slice.unwrap_or_default())
                    .or_insert(next);
                let observation = Observation {
                    slice,
                    log: logs[&value.block],
                    within: value.within,
                    centred: Vec::new(),
                };
                blocks
                    .entry(value.block)
                    .or_default()
                    .insert(target, observation);
            }
        }
        Ok((!blocks.is_empty()).then(|| Model::fit(blocks, samples.len(), slices.len())))
    }

    fn fit(
        mut blocks: BTreeMap<u32, BTreeMap<usize, Observation>>,
        targets: usize,
        slices: usize,
    ) -> Model {
        let columns = targets + slices;
        let mut shares = vec![Matrix::zero(columns); targets];
        let mut right = vec![0.0; columns];
        for block in blocks.values_mut() {
            let size = block.len() as f64;
            let mut mean = vec![0.0; columns];
            for (target, observation) in block.iter() {
                mean[*target] += 1.0 / size;
                mean[targets + observation.slice] += 1.0 / size;
            }
            for (target, observation) in block.iter_mut() {
                observation.centred = mean.iter().map(|mean| -mean).collect();
                observation.centred[*target] += 1.0;
                observation.centred[targets + observation.slice] += 1.0;
                shares[*target].add_square(&observation.centred);
                right
                    .iter_mut()
                    .zip(&observation.centred)
                    .for_each(|(sum, x)| *sum += x * observation.log);
            }
        }
        let mut normal = Matrix::zero(columns);
        shares.iter().for_each(|share| normal.add(share));
        let inverse = normal.inverse();
        let effects = inverse.times(&right);
        let (mut squares, mut counts) = (vec![0.0; targets], vec![0.0; targets]);
        for block in blocks.values() {
            let mean = block
                .values()
                .map(|observation| observation.log)
                .sum::<f64>()
                / block.len() as f64;
            for (target, observation) in block {
                squares[*target] +=
                    (observation.log - mean - dot(&observation.centred, &effects)).powi(2);
                counts[*target] += 1.0;
            }
        }
        // At most half of the values go into the means of blocks and into effects.
        let noise = squares
            .iter()
            .zip(&counts)
            .map(|(squares, count)| 2.0 * squares / f64::max(*count, 1.0))
            .collect();
        Model {
            blocks,
            targets,
            effects,
            inverse,
            shares,
            noise,
        }
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
            let (Some(b), Some(c)) = (block.get(&baseline), block.get(&candidate)) else {
                continue;
            };
            let mut design = vec![0.0; columns];
            design[candidate] += 1.0;
            design[baseline] -= 1.0;
            design[self.targets + c.slice] += 1.0;
            design[self.targets + b.slice] -= 1.0;
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
        let left = [(baseline, fitted[0]), (candidate, fitted[1])].map(|(target, fitted)| {
            n as f64 - 2.0 * fitted + spread.trace_of_product(&self.shares[target])
        });
        let degrees = left[0].min(left[1]);
        let mut contrast = vec![0.0; columns];
        (contrast[baseline], contrast[candidate]) = (-1.0, 1.0);
        let weights = self.inverse.times(&contrast);
        if degrees < Difference::FEWEST_DEGREES || !self.is_estimable(&contrast, &weights) {
            let mean = differences.iter().sum::<f64>() / n as f64;
            return Some(Difference::without_interval(mean, n));
        }
        let mut mean = dot(&contrast, &self.effects);
        for value in residuals
            .iter_mut()
            .map(|(_, residual)| residual)
            .chain([&mut mean])
        {
            if value.abs() <= ROUNDING * largest.max(1.0) {
                *value = 0.0;
            }
        }
        let squares: f64 = residuals.iter().map(|(_, residual)| residual.powi(2)).sum();
        let variance = squares / degrees;
        let shares: Vec<f64> = self
            .shares
            .iter()
            .map(|share| share.quadratic(&weights))
            .collect();
        let leverage = (shares.iter().sum::<f64>() / 2.0)
            .max(shares[baseline])
            .max(shares[candidate]);
        let others = (0..self.targets).filter(|target| ![baseline, candidate].contains(target));
        let error = (variance * leverage
            + others
                .map(|target| (self.noise[target] - variance / 2.0).max(0.0) * shares[target])
                .sum::<f64>())
        .sqrt();
        // If all targets vary alike with σ², residuals have the covariance (2δ − g'x) σ².
        let within = within.map(|sum| sum / n as f64);
        let residuals = Residuals::new(residuals, within, &|row, column| {
            f64::from(u8::from(row == column)) - dot(&weighted[row], &designs[column]) / 2.0
        });
        Some(Difference::fitted(
            mean, error, variance, degrees, n, residuals,
        ))
    }

    /// Returns whether the blocks determine the contrast. They do not if two targets never
    /// exchanged their slices.
    fn is_estimable(&self, contrast: &[f64], weights: &[f64]) -> bool {
        let mut normal = Matrix::zero(contrast.len());
        self.shares.iter().for_each(|share| normal.add(share));
        normal
            .times(weights)
            .iter()
            .zip(contrast)
            .all(|(told, wanted)| (told - wanted).abs() < 1e-6)
    }
}

/// A small symmetric matrix in full, as of normal equations.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    fn zero(size: usize) -> Matrix {
        Matrix {
            size,
            cells: vec![0.0; size * size],
        }
    }

    fn add(&mut self, other: &Matrix) {
        self.cells
            .iter_mut()
            .zip(&other.cells)
            .for_each(|(cell, more)| *cell += more);
    }

    fn add_square(&mut self, x: &[f64]) {
        for (row, a) in self.cells.chunks_exact_mut(self.size).zip(x) {
            row.iter_mut().zip(x).for_each(|(cell, b)| *cell += a * b);
        }
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.cells
            .chunks_exact(self.size)
            .map(|row| dot(row, x))
            .collect()
    }

    /// xᵀ·M·x.
    fn quadratic(&self, x: &[f64]) -> f64 {
        dot(&self.times(x), x)
    }

    /// Returns the trace of the product of two symmetric matrices.
    fn trace_of_product(&self, other: &Matrix) -> f64 {
        dot(&self.cells, &other.cells)
    }

    /// Returns a generalised inverse by sweeping (Beaton 1964). Rows that depend on earlier ones
    /// are zero.
    fn inverse(&self) -> Matrix {
        let n = self.size;
        let mut a = self.cells.clone();
        let mut swept = vec![false; n];
        for k in 0..n {
            let pivot = a[k * n + k];
            if pivot <= 1e-9 * self.cells[k * n + k].max(f64::MIN_POSITIVE) {
                continue;
            }
            swept[k] = true;
            for i in (0..n).filter(|i| *i != k) {
                let factor = a[i * n + k] / pivot;
                for j in (0..n).filter(|j| *j != k) {
                    a[i * n + j] -= factor * a[k * n + j];
                }
            }
            for i in (0..n).filter(|i| *i != k) {
                a[i * n + k] /= pivot;
                a[k * n + i] /= -pivot;
            }
            a[k * n + k] = 1.0 / pivot;
        }
        for (place, cell) in a.iter_mut().enumerate() {
            if !swept[place / n] || !swept[place % n] {
                *cell = 0.0;
            }
        }
        Matrix { size: n, cells: a }
    }
}

/// Returns the inner product.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use fsb_model::Better;
    use fsb_model::stop::Analyses;
    use rand_distr::{Distribution, StandardNormal};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::SeedableRng as _;
    use serde_json::Value;

    use super::*;
    use crate::comparison::Comparison;
    use crate::page::{Correlation, Weighted, overall};
    use crate::ranking::Ranking;
    use crate::sample::BlockValue;
    use crate::sequential::Analysis;
    use crate::terms::Terms;

    fn on_slice(block: u32, value: f64, slice: u32) -> BlockValue {
        BlockValue {
            slice: Some(slice),
            ..BlockValue::new(block, value)
        }
    }

    fn normal(random: &mut Pcg64) -> f64 {
        StandardNormal.sample(random)
    }

    fn samples(values: Vec<Vec<BlockValue>>) -> Vec<Sample> {
        values
            .into_iter()
            .map(|values| Sample::of_blocks(values, &Analyses::default()))
            .collect()
    }

    fn compared(model: &Model, baseline: usize, candidate: usize) -> Option<Comparison> {
        Some(model.difference(baseline, candidate)?.judged(
            0.95,
            &Analysis::Only,
            Better::Higher,
            0.03,
        ))
    }

    /// Targets that rotate over as many parts; `missing` trials are left out.
    struct Run<'a> {
        targets: u32,
        blocks: u32,
        slice_effect: f64,
        /// By target.
        scatter: &'a [f64],
        missing: &'a [(u32, u32)],
    }

    impl Run<'_> {
        /// Equal targets; blocks differ by far more than all else.
        fn drawn(&self, random: &mut Pcg64) -> Vec<Sample> {
            let lucks: Vec<f64> = (0..self.blocks).map(|_| 0.5 * normal(random)).collect();
            let effect = |slice: u32| {
                self.slice_effect * (2.0 * f64::from(slice) / f64::from(self.targets - 1) - 1.0)
            };
            let mut values = vec![Vec::new(); self.targets as usize];
            for block in 1..=self.blocks {
                for target in 0..self.targets {
                    let slice = (target + block) % self.targets;
                    let log = lucks[block as usize - 1]
                        + effect(slice)
                        + self.scatter[target as usize] * normal(random);
                    if !self.missing.contains(&(block, target)) {
                        values[target as usize].push(on_slice(block, libm::exp(log), slice));
                    }
                }
            }
            samples(values)
        }

        /// Returns the share of intervals that contain 1, over the first pair and the pair of first
        /// and last target.
        fn coverage(&self) -> f64 {
            const RUNS: usize = 2500;
            let mut random = Pcg64::seed_from_u64(11);
            let mut held = 0;
            for _ in 0..RUNS {
                let model = Model::from_samples(&self.drawn(&mut random), 0)
                    .unwrap()
                    .unwrap();
                for candidate in [1, self.targets as usize - 1] {
                    held += usize::from(
                        compared(&model, 0, candidate)
                            .unwrap()
                            .interval
                            .unwrap()
                            .contains(1.0),
                    );
                }
            }
            held as f64 / (2 * RUNS) as f64
        }
    }

    #[test]
    fn intervals_hold_the_truth_with_slices_and_without() {
        let noisy_last = [1.0, 1.0, 1.0, 5.0];
        for (targets, blocks) in [(2, 6), (3, 6), (3, 7), (3, 12), (4, 8)] {
            for slice_effect in if blocks == 6 {
                &[0.0, 0.05][..]
            } else {
                &[0.05]
            } {
                let slice_effect = *slice_effect;
                for missing in [&[][..], &[(2, 1), (5, 0)][..]] {
                    for unequal in [false, true] {
                        let scatter: Vec<f64> = (0..targets as usize)
                            .map(|target| {
                                if unequal {
                                    0.02 * noisy_last[target + 4 - targets as usize]
                                } else {
                                    0.02
                                }
                            })
                            .collect();
                        let coverage = Run {
                            targets,
                            blocks,
                            slice_effect,
                            scatter: &scatter,
                            missing,
                        }
                        .coverage();
                        // 95 %, and three standard errors of the simulation: where the interval is
                        // exact it lies on either side.
                        assert!(
                            coverage > 0.940,
                            "{targets} {blocks} {slice_effect} {missing:?} {unequal}: {coverage}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn intervals_of_means_over_cases_hold_together_on_slices() {
        const RUNS: usize = 4000;
        let run = Run {
            targets: 3,
            blocks: 6,
            slice_effect: 0.05,
            scatter: &[0.02; 3],
            missing: &[],
        };
        let uncorrelated = Some(Correlation {
            estimate: 0.0,
            error: 1e-9,
        });
        let mut random = Pcg64::seed_from_u64(12);
        let mut coverage = |compared: usize| {
            let holds = |_: &usize| {
                let mut case = || {
                    let samples = run.drawn(&mut random);
                    Ranking::of_samples(samples, &|_, _| Terms::default(), Better::Higher, 0.03)
                        .unwrap()
                };
                let cases = [case(), case()];
                let cases = cases.each_ref().map(|ranking| Weighted {
                    weight: 1.0,
                    ranking,
                });
                let over_all = |candidate| {
                    overall(&cases, 0, candidate, uncorrelated, 0.03, compared)
                        .unwrap()
                        .unwrap()
                };
                (1..=compared).all(|candidate| over_all(candidate).interval.unwrap().contains(1.0))
            };
            (0..RUNS).filter(holds).count() as f64 / RUNS as f64
        };
        for compared in [1, 2] {
            let coverage = coverage(compared);
            assert!(coverage > 0.940, "{compared} compared: {coverage}");
        }
    }

    #[test]
    fn differences_between_slices_widen_no_interval() {
        let width = |slice_effect: f64| {
            let run = Run {
                targets: 3,
                blocks: 9,
                slice_effect,
                scatter: &[0.01; 3],
                missing: &[],
            };
            let model = Model::from_samples(&run.drawn(&mut Pcg64::seed_from_u64(3)), 0)
                .unwrap()
                .unwrap();
            let comparison = compared(&model, 0, 2).unwrap();
            (
                comparison.ratio,
                comparison.interval.unwrap().relative_half_width(),
            )
        };
        let ((ratio, plain), (other, with_slices)) = (width(0.0), width(0.2));
        assert!(
            (ratio / other - 1.0).abs() < 1e-12 && (plain / with_slices - 1.0).abs() < 1e-9,
            "{plain} {with_slices}"
        );
    }

    #[test]
    fn the_fit_is_that_of_numpy() {
        let oracle: Value =
            serde_json::from_str(include_str!("../tests/oracle/least_squares.json")).unwrap();
        for case in oracle["cases"].as_array().unwrap() {
            let mut values = vec![Vec::new(); case["targets"].as_u64().unwrap() as usize];
            for value in case["values"].as_array().unwrap() {
                let whole = |place: usize| value[place].as_u64().unwrap() as u32;
                let rate = value[3].as_f64().unwrap();
                values[whole(1) as usize].push(on_slice(whole(0), rate, whole(2)));
            }
            let model = Model::from_samples(&samples(values), 0).unwrap().unwrap();
            for pair in case["pairs"].as_array().unwrap() {
                let place = |key: &str| pair[key].as_u64().unwrap() as usize;
                let ours = compared(&model, place("baseline"), place("candidate")).unwrap();
                let interval = ours.interval.unwrap();
                let numbers = [ours.ratio, interval.lo, interval.hi, ours.p_value.unwrap()];
                let theirs = [
                    &pair["ratio"],
                    &pair["ci95"][0],
                    &pair["ci95"][1],
                    &pair["p"],
                ]
                .map(|n| n.as_f64().unwrap());
                assert!(
                    numbers
                        .iter()
                        .zip(theirs)
                        .all(|(a, b)| (a / b - 1.0).abs() < 1e-8),
                    "{pair}: {numbers:?}"
                );
                assert_eq!(ours.n, place("n"));
            }
        }
    }

    #[test]
    fn targets_that_never_exchange_slices_tell_no_difference() {
        let fixed = |slice: u32| {
            (1..=8)
                .map(|block| on_slice(block, f64::from(block), slice))
                .collect()
        };
        let model = Model::from_samples(&samples(vec![fixed(0), fixed(1)]), 0)
            .unwrap()
            .unwrap();
        let found = compared(&model, 0, 1).unwrap();
        assert_eq!((found.interval, found.p_value, found.n), (None, None, 8));
    }

    #[test]
    fn equal_values_stay_exact() {
        let values = |factor: f64| {
            let value = |block: u32| factor * if block.is_multiple_of(2) { 1e8 } else { 3e8 };
            (1..=9)
                .map(|block| on_slice(block, value(block), block % 3))
                .collect::<Vec<_>>()
        };
        let shifted = |by: u32| {
            values(1.0)
                .into_iter()
                .map(|v| BlockValue {
                    slice: v.slice.map(|p| (p + by) % 3),
                    ..v
                })
                .collect()
        };
        let model = Model::from_samples(&samples(vec![values(1.0), shifted(1), shifted(2)]), 0)
            .unwrap()
            .unwrap();
        for (baseline, candidate) in [(0, 1), (0, 2), (1, 2)] {
            let found = compared(&model, baseline, candidate).unwrap();
            assert_eq!((found.ratio, found.p_value), (1.0, Some(1.0)));
            assert_eq!(
                found.interval.map(|interval| (interval.lo, interval.hi)),
                Some((1.0, 1.0))
            );
        }
    }

    #[test]
    fn without_slices_no_model_is_fitted() {
        let values: Vec<BlockValue> = (1..=6).map(|block| BlockValue::new(block, 1.0)).collect();
        assert!(
            Model::from_samples(&samples(vec![values.clone(), values]), 0)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn linearly_dependent_columns_are_left_out() {
        // The third column is the sum of the first two.
        let mut matrix = Matrix::zero(3);
        for row in [[1.0, 0.0, 1.0], [0.5, 2.0, 2.5], [1.0, 1.0, 2.0]] {
            matrix.add_square(&row);
        }
        let inverse = matrix.inverse();
        for unit in 0..3 {
            let mut x = vec![0.0; 3];
            x[unit] = 1.0;
            let (once, back) = (
                matrix.times(&x),
                matrix.times(&inverse.times(&matrix.times(&x))),
            );
            assert!(
                once.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12),
                "{once:?} {back:?}"
            );
        }
    }
}
