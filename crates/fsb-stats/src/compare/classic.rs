//! The comparison of 2011, kept so that published tables stay comparable.
//!
//! P. Beňas, "Porovnání výkonnosti různých souborových systémů", bachelor's thesis, Brno University
//! of Technology (2011). Values of all common cells are pooled and described. Sets are compared by
//! medians, by a t-test with pooled variance, and by the slope of a line through the origin.

use indexmap::IndexMap;

use super::collected::{Matrix, Table};
use super::document::{Classic, Pooled, PooledAgainst, TVerdict};
use crate::description::{mean_and_sd, quantile_of_sorted, t_quantile, t_two_sided};

/// The level of the classic intervals.
const LEVEL: f64 = 0.90;
/// Up to this p the t-test calls two sets different.
const DIFFERENT: f64 = 0.1;

/// Pools the given cells of every set and compares each with the baseline.
pub(super) fn classic(
    table: &Table,
    columns: &[usize],
    names: &[&str],
    baseline: usize,
) -> Classic {
    let samples: Vec<Option<Pool>> = table
        .sets
        .iter()
        .enumerate()
        .map(|(place, set)| {
            let samples = table.samples.get(place).map_or(&[][..], Vec::as_slice);
            set.as_ref()
                .and_then(|matrix| Pool::new(matrix, table.cells.len(), columns, samples))
        })
        .collect();
    let sets = names.iter().zip(&samples).map(|(name, sample)| {
        (
            (*name).to_owned(),
            sample.as_ref().map(|sample| sample.pooled.clone()),
        )
    });
    let others = (0..names.len()).filter(|set| *set != baseline);
    let against: IndexMap<_, _> = others
        .map(|set| {
            let both = samples[baseline].as_ref().zip(samples[set].as_ref());
            (
                names[set].to_owned(),
                both.map(|(baseline, candidate)| Pool::against(baseline, candidate)),
            )
        })
        .collect();
    Classic {
        sets: sets.collect(),
        against,
    }
}

/// The pooled values of a set, and the mean of each cell.
struct Pool {
    /// The summary of the values. The values themselves are dropped, because those of thousands of
    /// runs would fill the memory.
    pooled: Pooled,
    mean: f64,
    sd: f64,
    /// One a column; NaN where the cell has no value.
    means: Vec<f64>,
}

impl Pool {
    /// Pools the values of cells, or the samples that they are means of.
    fn new(matrix: &Matrix, cells: usize, columns: &[usize], samples: &[f64]) -> Option<Pool> {
        let mut sorted = Vec::with_capacity(columns.len() * matrix.runs.len());
        let mut means = Vec::with_capacity(columns.len());
        for column in columns {
            let before = sorted.len();
            sorted.extend(matrix.column(*column, cells).map(|(_, value)| value));
            let values = &sorted[before..];
            means.push(values.iter().sum::<f64>() / values.len() as f64);
        }
        if !samples.is_empty() {
            sorted = samples.to_vec();
        }
        if sorted.is_empty() {
            return None;
        }
        let (mean, sd) = mean_and_sd(&sorted);
        let log_sum: f64 = sorted.iter().map(|value| libm::log(*value)).sum();
        let log_mean = log_sum / sorted.len() as f64;
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Pool {
            pooled: pooled(&sorted, mean, sd, log_mean),
            mean,
            sd,
            means,
        })
    }

    fn against(baseline: &Pool, candidate: &Pool) -> PooledAgainst {
        let t_p = t_test(baseline, candidate);
        let slope = Slope::fit(&baseline.means, &candidate.means);
        PooledAgainst {
            median_change: candidate.pooled.median / baseline.pooled.median - 1.0,
            t_p,
            t_verdict: t_p.map(|p| {
                if p <= DIFFERENT {
                    TVerdict::Diff
                } else {
                    TVerdict::Same
                }
            }),
            slope: slope.as_ref().map(|slope| slope.value),
            slope_se: slope.as_ref().and_then(|slope| slope.error),
            slope_ci90: slope.as_ref().and_then(Slope::interval),
        }
    }
}

fn pooled(sorted: &[f64], mean: f64, sd: f64, log_mean: f64) -> Pooled {
    let n = sorted.len();
    let enough = n >= 2;
    Pooled {
        n,
        mean,
        sd: enough.then_some(sd),
        ci90: enough
            .then(|| t_quantile(LEVEL, (n - 1) as f64) * sd / (n as f64).sqrt())
            .map(|half| [mean - half, mean + half]),
        geometric_mean: crate::verdict::exp(log_mean),
        median: quantile_of_sorted(sorted, 0.5),
        q1: quantile_of_sorted(sorted, 0.25),
        q3: quantile_of_sorted(sorted, 0.75),
        min: sorted[0],
        max: sorted[n - 1],
    }
}

/// Student's t-test of two samples with one variance, two-sided.
fn t_test(a: &Pool, b: &Pool) -> Option<f64> {
    let (n_a, n_b) = (a.pooled.n as f64, b.pooled.n as f64);
    let degrees = n_a + n_b - 2.0;
    if degrees < 1.0 {
        return None;
    }
    let variance = ((n_a - 1.0) * a.sd.powi(2) + (n_b - 1.0) * b.sd.powi(2)) / degrees;
    let error = (variance * (1.0 / n_a + 1.0 / n_b)).sqrt();
    let difference = b.mean - a.mean;
    // Equal values without any spread: no difference, rather than nothing to divide by.
    Some(if difference == 0.0 {
        1.0
    } else {
        t_two_sided(difference / error, degrees)
    })
}

/// The line through the origin that is nearest to the points (x: baseline, y: candidate), by total
/// least squares.
struct Slope {
    value: f64,
    error: Option<f64>,
    n: usize,
}

fn sum_of_points(points: &[(f64, f64)], term: impl Fn(f64, f64) -> f64) -> f64 {
    points.iter().map(|(x, y)| term(*x, *y)).sum()
}

impl Slope {
    /// a = (−B + √(B² + 4A²)) / 2A with A = Σxy and B = Σ(x² − y²);
    /// SE = √(Σd² / Σ(x − x̄)² / (n − 1)) with d = |ax − y| / √(a² + 1).
    fn fit(baseline: &[f64], candidate: &[f64]) -> Option<Slope> {
        let points: Vec<(f64, f64)> = baseline
            .iter()
            .copied()
            .zip(candidate.iter().copied())
            .filter(|(x, y)| !x.is_nan() && !y.is_nan())
            .collect();
        let n = points.len();
        // Scaled, so that squares of large rates stay finite: the slope has no unit.
        let scale = points.iter().map(|(x, y)| x.max(*y)).fold(0.0, f64::max);
        if n == 0 || scale == 0.0 {
            return None;
        }
        let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x / scale, y / scale)).collect();
        let (a, b) = (
            sum_of_points(&points, |x, y| x * y),
            sum_of_points(&points, |x, y| x * x - y * y),
        );
        // The same root either way round; each form is exact where the other one subtracts equals.
        let root = b.hypot(2.0 * a);
        let value = if b > 0.0 {
            2.0 * a / (b + root)
        } else {
            (root - b) / (2.0 * a)
        };
        let mean = sum_of_points(&points, |x, _| x) / n as f64;
        let spread = sum_of_points(&points, |x, _| (x - mean).powi(2));
        let distance =
            sum_of_points(&points, |x, y| (value * x - y).powi(2)) / (value * value + 1.0);
        let error = (distance / spread / (n as f64 - 1.0)).sqrt();
        value.is_finite().then_some(Slope {
            value,
            error: error.is_finite().then_some(error),
            n,
        })
    }

    fn interval(&self) -> Option<[f64; 2]> {
        let half = t_quantile(LEVEL, (self.n - 1) as f64) * self.error?;
        Some([self.value - half, self.value + half])
    }
}
