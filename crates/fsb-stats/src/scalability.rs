//! The universal scalability law: X(n) = λn / (1 + σ(n − 1) + κn(n − 1)), with the rate X of n
//! clients (Gunther, "Guerrilla Capacity Planning", 2007, chapter 4).
//!
//! Dividing by X makes the law linear: n / X = a + b(n − 1) + cn(n − 1), with a = 1/λ, b = σ/λ and
//! c = κ/λ. The fit minimises the squares of the relative errors of n / X, because scatter of rates
//! is relative. b and c are not negative. Each combination of the two at zero or above is solved,
//! and the best one that is feasible is the solution (Lawson and Hanson 1974). Intervals are
//! percentile bootstraps over blocks, as those of [`knee`](crate::knee()).

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::sample::{logarithms, resampled};
use crate::verdict::Interval;
use crate::{AnalysisError, FEWEST_JUDGED};

/// Resamples of the bootstrap.
const RESAMPLES: usize = 1000;
/// The same blocks give the same interval.
const SEED: u64 = 17;
/// The law has three parameters, so that three levels fit exactly whatever they are.
const FEWEST_LEVELS: usize = 4;

/// A parameter of the law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// The estimate.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Interval,
}

/// The law as fitted to a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalability {
    /// The rate of one client without contention, λ.
    pub lambda: Parameter,
    /// Contention, σ: 0.05 if 5 % of the work is serial.
    pub sigma: Parameter,
    /// Coherency, κ: the share of the work that is added for each pair of clients.
    pub kappa: Parameter,
    /// The number of clients with the highest rate, √((1 − σ)/κ). `None` if κ is 0: no peak is
    /// seen.
    pub peak: Option<f64>,
    /// The largest relative error of a level: 0.02 if the law misses a rate by 2 %.
    pub misfit: f64,
}

/// Fits the law to a curve of rates. `levels` are numbers of clients, and `blocks` holds the rates
/// at all levels, in their order, block by block. Returns `None` for fewer than four levels, or too
/// few blocks to judge.
///
/// # Errors
/// Fails if a rate is not positive.
pub fn scalability(
    levels: &[u64],
    blocks: &[Vec<f64>],
) -> Result<Option<Scalability>, AnalysisError> {
    if levels.len() < FEWEST_LEVELS
        || blocks.len() < FEWEST_JUDGED
        || !blocks.iter().all(|block| block.len() == levels.len())
    {
        return Ok(None);
    }
    let logs: Vec<Vec<f64>> = blocks
        .iter()
        .map(|block| logarithms(block))
        .collect::<Result<_, _>>()?;
    let rates = mean_rates(&logs.iter().collect::<Vec<_>>());
    let Some(found) = fit(levels, &rates) else {
        return Ok(None);
    };
    let mut random = Pcg64::seed_from_u64(SEED);
    let all: Vec<[f64; 3]> = (0..RESAMPLES)
        .filter_map(|_| fit(levels, &mean_rates(&resampled(&logs, &mut random))))
        .collect();
    let [_, sigma, kappa] = found;
    let misfit = levels
        .iter()
        .zip(&rates)
        .map(|(n, rate)| (law(found, *n as f64) / rate - 1.0).abs())
        .fold(0.0, f64::max);
    let peak = (kappa > 0.0 && sigma < 1.0).then(|| ((1.0 - sigma) / kappa).sqrt().max(1.0));
    let [lambda, sigma, kappa] = [0, 1, 2].map(|at| {
        let mut values: Vec<f64> = all.iter().map(|found| found[at]).collect();
        values.sort_by(f64::total_cmp);
        let tail = values.len() / 40;
        let ends = values.get(tail).zip(values.iter().rev().nth(tail));
        let (lo, hi) = ends.unwrap_or((&found[at], &found[at]));
        Parameter {
            value: found[at],
            interval: Interval {
                lo: lo.min(found[at]),
                hi: hi.max(found[at]),
            },
        }
    });
    Ok(Some(Scalability {
        lambda,
        sigma,
        kappa,
        peak,
        misfit,
    }))
}

/// The rate of n clients.
fn law([lambda, sigma, kappa]: [f64; 3], n: f64) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

fn mean_rates(drawn: &[&Vec<f64>]) -> Vec<f64> {
    (0..drawn[0].len())
        .map(|level| drawn.iter().map(|block| block[level]).sum::<f64>() / drawn.len() as f64)
        .map(libm::exp)
        .collect()
}

/// Returns λ, σ and κ, or `None` if no solution has a positive λ.
fn fit(levels: &[u64], rates: &[f64]) -> Option<[f64; 3]> {
    // Rows of the linear problem, divided by n / X, so that the right side is 1.
    let rows: Vec<[f64; 3]> = levels
        .iter()
        .zip(rates)
        .map(|(n, rate)| {
            let n = *n as f64;
            [rate / n, rate / n * (n - 1.0), rate * (n - 1.0)]
        })
        .collect();
    let mut best: Option<(f64, [f64; 3])> = None;
    for used in [&[0, 1, 2][..], &[0, 1], &[0, 2], &[0]] {
        let Some([a, b, c]) = solve(&rows, used) else {
            continue;
        };
        let errors = rows
            .iter()
            .map(|row| 1.0 - (row[0] * a + row[1] * b + row[2] * c));
        let error = errors.map(|error| error * error).sum();
        let is_feasible = a > 0.0 && b >= 0.0 && c >= 0.0;
        if is_feasible && best.is_none_or(|(least, _)| error < least) {
            best = Some((error, [1.0 / a, b / a, c / a]));
        }
    }
    best.map(|(_, parameters)| parameters)
}

/// Solves the normal equations for some of the columns; the others are 0. `None` if they are
/// singular.
fn solve(rows: &[[f64; 3]], used: &[usize]) -> Option<[f64; 3]> {
    let n = used.len();
    // Columns differ by orders of magnitude.
    let scale: Vec<f64> = used
        .iter()
        .map(|at| rows.iter().map(|row| row[*at].powi(2)).sum::<f64>().sqrt())
        .collect();
    let column = |row: &[f64; 3], at: usize| row[used[at]] / scale[at];
    let mut matrix: Vec<Vec<f64>> = (0..n)
        .map(|at| {
            let products = (0..n).map(|other| {
                rows.iter()
                    .map(|row| column(row, at) * column(row, other))
                    .sum()
            });
            products
                .chain([rows.iter().map(|row| column(row, at)).sum()])
                .collect()
        })
        .collect();
    for pivot in 0..n {
        let best = (pivot..n).max_by(|one, other| {
            matrix[*one][pivot]
                .abs()
                .total_cmp(&matrix[*other][pivot].abs())
        })?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        let (above, below) = matrix.split_at_mut(pivot + 1);
        for row in below {
            let factor = row[pivot] / above[pivot][pivot];
            row.iter_mut()
                .zip(&above[pivot])
                .skip(pivot)
                .for_each(|(value, by)| *value -= factor * by);
        }
    }
    let mut scaled = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|at| matrix[row][at] * scaled[at]).sum();
        scaled[row] = (matrix[row][n] - known) / matrix[row][row];
    }
    let mut solution = [0.0; 3];
    for (at, value) in used.iter().zip(scaled.iter().zip(&scale)) {
        solution[*at] = value.0 / value.1;
    }
    solution
        .iter()
        .all(|value| value.is_finite())
        .then_some(solution)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use rand_pcg::rand_core::Rng;

    use super::*;

    const LEVELS: [u64; 6] = [1, 2, 4, 8, 16, 32];

    fn curve(parameters: [f64; 3], blocks: usize, scatter: f64) -> Vec<Vec<f64>> {
        let mut random = Pcg64::seed_from_u64(3);
        let mut drawn =
            || 1.0 + scatter * ((random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5);
        (0..blocks)
            .map(|_| {
                LEVELS
                    .iter()
                    .map(|n| law(parameters, *n as f64) * drawn())
                    .collect()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_curve_of_the_law_gives_its_parameters(lambda in 1.0f64..1e9, sigma in 0.0f64..0.9, kappa in 1e-6f64..0.1) {
            let found = scalability(&LEVELS, &curve([lambda, sigma, kappa], 5, 0.0)).unwrap().unwrap();
            prop_assert!((found.lambda.value / lambda - 1.0).abs() < 1e-6, "{found:?}");
            prop_assert!((found.sigma.value - sigma).abs() < 1e-6 && (found.kappa.value / kappa - 1.0).abs() < 1e-3);
            prop_assert!(found.misfit < 1e-6);
            let peak = ((1.0 - sigma) / kappa).sqrt().max(1.0);
            prop_assert!((found.peak.unwrap() / peak - 1.0).abs() < 1e-3);
        }

        #[test]
        fn no_curve_gives_negative_costs(rates in prop::collection::vec(1.0f64..1e6, 6)) {
            let found = scalability(&LEVELS, &vec![rates; 5]).unwrap();
            prop_assert!(found.is_none_or(|found| found.sigma.value >= 0.0 && found.kappa.value >= 0.0));
        }
    }

    #[test]
    fn a_curve_that_grows_linearly_or_faster_has_no_contention_and_no_peak() {
        for factor in [1.0, 1.1] {
            let rates: Vec<f64> = (0..6)
                .map(|at| 100.0 * libm::pow(2.0 * factor, f64::from(at)))
                .collect();
            let found = scalability(&LEVELS, &vec![rates; 5]).unwrap().unwrap();
            assert_eq!(
                (found.sigma.value, found.kappa.value, found.peak),
                (0.0, 0.0, None),
                "{found:?}"
            );
        }
    }

    #[test]
    fn intervals_hold_the_true_parameters_of_a_scattered_curve() {
        let found = scalability(&LEVELS, &curve([1e3, 0.1, 0.002], 12, 0.1))
            .unwrap()
            .unwrap();
        for (parameter, truth) in [
            (found.lambda, 1e3),
            (found.sigma, 0.1),
            (found.kappa, 0.002),
        ] {
            let Interval { lo, hi } = parameter.interval;
            assert!(
                lo < hi && lo <= truth && truth <= hi,
                "{parameter:?} {truth}"
            );
        }
    }

    #[test]
    fn few_levels_and_few_blocks_are_not_fitted() {
        assert_eq!(
            scalability(&[1, 2, 4], &vec![vec![1.0, 2.0, 3.0]; 9]),
            Ok(None)
        );
        assert_eq!(
            scalability(&LEVELS, &curve([1.0, 0.1, 0.01], 4, 0.0)),
            Ok(None)
        );
        let mut bad = curve([1.0, 0.1, 0.01], 6, 0.0);
        bad[1][2] = 0.0;
        assert!(scalability(&LEVELS, &bad).is_err());
    }
}
