//! Least squares over the rounds of a race.
//!
//! y = round + candidate + slice + e. Centring within each round removes its effect. Candidates are fixed effects
//! relative to the baseline, which is in every round. Slices of the medium are random effects, because a race may end
//! before every candidate was on every slice. The ratio of e's variance to theirs is estimated by restricted maximum
//! likelihood (H. D. Patterson and R. Thompson, Biometrika 58, 1971): a fixed ratio of 1 would cost a race three times
//! the rounds where slices differ ten times as much as values. The slice of a candidate does not depend on results, so
//! that differences stay unbiased whatever the slices' effects are.

use std::collections::{BTreeMap, BTreeSet};

/// The result of one candidate in one race round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The index of the candidate. 0 is the baseline, which is in every round.
    pub candidate: usize,
    /// Its slice of the medium. Absent if the medium has no slices.
    pub slice: Option<u32>,
    /// The logarithm of its speed. Larger is better.
    pub value: f64,
}

/// The weight of the pooled variance in the variance of a candidate, in values.
const PRIOR_VALUES: f64 = 4.0;
/// The ratios of e's variance to that of slices' effects that are tried, as penalties on the squares of the effects.
/// Above 1 they would gain little, and a race begins with few values to estimate them from.
const PENALTIES: [f64; 5] = [1.0, 0.25, 0.06, 0.015, 0.004];

/// The estimates of all candidates from the rounds so far.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    /// By candidate: its index in `effects`, if it was in any round.
    place: Vec<Option<usize>>,
    /// Estimated effects. That of the baseline is 0 and is left out.
    effects: Vec<f64>,
    /// The covariance of the effects in units of s².
    covariance: Square,
    /// The pooled variance.
    variance: f64,
    /// By candidate: its own variance, shrunk towards the pooled one and never below it.
    own: Vec<f64>,
    /// Degrees of freedom of the pooled variance.
    pub(super) degrees: f64,
}

/// A difference of two candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Difference {
    pub(super) estimate: f64,
    /// The variance in units of the square of `scale`.
    pub(super) v: f64,
    /// The standard deviation of a value.
    pub(super) scale: f64,
}

impl Fit {
    /// Fits the rounds of this number of candidates. The first candidate is in every round. Returns `None` if no
    /// degrees of freedom are left for the variance, or if the normal equations cannot be solved.
    pub(super) fn from_rounds(candidates: usize, race_rounds: &[Vec<Entry>]) -> Option<Fit> {
        let mut place = vec![None; candidates];
        let mut seen = 0;
        for entry in race_rounds.iter().flatten().filter(|entry| entry.candidate != 0) {
            if place[entry.candidate].is_none() {
                place[entry.candidate] = Some(seen);
                seen += 1;
            }
        }
        // A record may hold any number as a slice.
        let known: BTreeSet<u32> = race_rounds.iter().flatten().filter_map(|entry| entry.slice).collect();
        let slices: BTreeMap<u32, usize> = known.into_iter().zip(seen..).collect();
        let levels = slices.len();
        let layout = Layout { place: &place, slices: &slices };
        let size = seen + levels;
        let (mut normal, mut right) = (Square::zero(size), vec![0.0; size]);
        let (mut squares, mut values) = (0.0, 0usize);
        for race_round in race_rounds {
            for (row, y) in layout.centred(race_round) {
                for &(a, x) in &row {
                    right[a] += x * y;
                    for &(b, z) in &row {
                        *normal.at(a, b) += x * z;
                    }
                }
                squares += y * y;
                values += 1;
            }
        }
        let degrees = values as f64 - race_rounds.len() as f64 - seen as f64 - levels.saturating_sub(1) as f64;
        if degrees <= 0.0 {
            return None;
        }
        let penalties = if levels > 0 { &PENALTIES[..] } else { &PENALTIES[..1] };
        let (mut best, mut most_likely) = (None, f64::INFINITY);
        for penalty in penalties {
            let mut penalised = normal.clone();
            for slice in seen..size {
                *penalised.at(slice, slice) += penalty;
            }
            let (inverse, ln_determinant) = penalised.inverse()?;
            let effects = inverse.times(&right);
            let explained: f64 = effects.iter().zip(&right).map(|(effect, right)| effect * right).sum();
            let left = (squares - explained).max(f64::MIN_POSITIVE);
            // −2 times the logarithm of the restricted likelihood at its maximum over σ², but for a constant (S. R.
            // Searle, G. Casella and C. E. McCulloch, Variance Components, 1992, section 6.6).
            let fixed = values as f64 - race_rounds.len() as f64 - seen as f64;
            let unlikely = fixed * libm::log(left) + ln_determinant - levels as f64 * libm::log(*penalty);
            if unlikely < most_likely {
                (best, most_likely) = (Some((inverse, effects, left)), unlikely);
            }
        }
        let (inverse, effects, left) = best?;
        let variance = (left / degrees).max(f64::MIN_POSITIVE);
        let own = own_variances(&layout, candidates, race_rounds, &inverse, &effects, variance);
        Some(Fit { place, effects, covariance: inverse, variance, own, degrees })
    }

    /// Returns the mean of some candidates minus the mean of others, with the standard error, or `None` if one was in
    /// no round.
    pub(super) fn contrast(&self, with: &[usize], without: &[usize]) -> Option<(f64, f64)> {
        let weighted = |all: &[usize], sign: f64| -> Option<Vec<(usize, f64)>> {
            let weight = sign / all.len().max(1) as f64;
            let raced = all.iter().filter(|candidate| **candidate != 0);
            raced.map(|candidate| Some((self.place[*candidate]?, weight))).collect()
        };
        let weights = [weighted(with, 1.0)?, weighted(without, -1.0)?].concat();
        let estimate = weights.iter().map(|(at, weight)| self.effects[*at] * weight).sum();
        let pairs = weights.iter().flat_map(|a| weights.iter().map(move |b| (a, b)));
        let v: f64 = pairs.map(|((a, x), (b, y))| x * y * self.covariance.get(*a, *b)).sum();
        Some((estimate, (v.max(0.0) * self.variance).sqrt()))
    }

    /// Returns the difference of `a` and `b`, or `None` if one was in no round.
    pub(super) fn difference(&self, a: usize, b: usize) -> Option<Difference> {
        let place = |candidate: usize| if candidate == 0 { Some(None) } else { self.place[candidate].map(Some) };
        let (at, bt) = (place(a)?, place(b)?);
        let effect = |at: Option<usize>| at.map_or(0.0, |at| self.effects[at]);
        let shared = |a: Option<usize>, b: Option<usize>| a.zip(b).map_or(0.0, |(a, b)| self.covariance.get(a, b));
        Some(Difference {
            estimate: effect(at) - effect(bt),
            v: shared(at, at) + shared(bt, bt) - 2.0 * shared(at, bt),
            scale: ((self.own[a] + self.own[b]) / 2.0).max(self.variance).sqrt(),
        })
    }
}

/// Returns the variance of each candidate. It divides each squared residual by the share of a value's variance that the
/// fit leaves in it, and pools them with [`PRIOR_VALUES`] values of the common variance (as G. K. Smyth, Stat. Appl.
/// Genet. Mol. Biol. 3, 2004, moderates variances of few values). The result is not below the common variance, so that
/// a noisy candidate is judged by its own noise.
fn own_variances(
    layout: &Layout<'_>,
    candidates: usize,
    race_rounds: &[Vec<Entry>],
    inverse: &Square,
    effects: &[f64],
    variance: f64,
) -> Vec<f64> {
    let mut sums = vec![(PRIOR_VALUES * variance, PRIOR_VALUES); candidates];
    for race_round in race_rounds {
        for (entry, (row, y)) in race_round.iter().zip(layout.centred(race_round)) {
            let fitted: f64 = row.iter().map(|&(at, x)| x * effects[at]).sum();
            let pairs = row.iter().flat_map(|&(a, x)| row.iter().map(move |&(b, z)| (a, b, x * z)));
            let leverage = 1.0 / race_round.len() as f64 + pairs.map(|(a, b, x)| x * inverse.get(a, b)).sum::<f64>();
            // A value that determines its own effect carries no information on the variance.
            if leverage < 0.95 {
                let (squares, values) = &mut sums[entry.candidate];
                *squares += (y - fitted).powi(2) / (1.0 - leverage);
                *values += 1.0;
            }
        }
    }
    sums.into_iter().map(|(squares, values)| (squares / values).max(variance)).collect()
}

/// The positions of effects in the normal equations: candidates, then slices.
struct Layout<'a> {
    place: &'a [Option<usize>],
    slices: &'a BTreeMap<u32, usize>,
}

impl Layout<'_> {
    /// Returns the rows of a round and their values, minus the means of the round.
    fn centred(&self, race_round: &[Entry]) -> Vec<(Vec<(usize, f64)>, f64)> {
        let many = race_round.len().max(1) as f64;
        let columns = |entry: &Entry| {
            let slice = entry.slice.and_then(|slice| self.slices.get(&slice).copied());
            self.place[entry.candidate].into_iter().chain(slice)
        };
        let mut mean: Vec<(usize, f64)> = Vec::new();
        for column in race_round.iter().flat_map(columns) {
            match mean.iter_mut().find(|(known, _)| *known == column) {
                Some((_, sum)) => *sum += 1.0 / many,
                None => mean.push((column, 1.0 / many)),
            }
        }
        let level = race_round.iter().map(|entry| entry.value).sum::<f64>() / many;
        let row = |entry: &Entry| {
            let own: Vec<usize> = columns(entry).collect();
            let of = |&(column, mean): &(usize, f64)| (column, f64::from(u8::from(own.contains(&column))) - mean);
            (mean.iter().map(of).collect(), entry.value - level)
        };
        race_round.iter().map(row).collect()
    }
}

/// A symmetric matrix.
#[derive(Debug, Clone)]
struct Square {
    size: usize,
    cells: Vec<f64>,
}

impl Square {
    fn zero(size: usize) -> Square {
        Square { size, cells: vec![0.0; size * size] }
    }

    fn at(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.cells[row * self.size + column]
    }

    fn get(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.size + column]
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        let row = |row: usize| (0..self.size).map(|column| self.get(row, column) * vector[column]).sum();
        (0..self.size).map(row).collect()
    }

    /// Inverts by Gauss and Jordan without pivoting, which a positive definite matrix does not need. Returns the inverse
    /// and the logarithm of the determinant, or `None` if a pivot is too small.
    fn inverse(mut self) -> Option<(Square, f64)> {
        const SMALLEST: f64 = 1e-9;
        let size = self.size;
        let mut ln_determinant = 0.0;
        for pivot in 0..size {
            let head = self.get(pivot, pivot);
            if head < SMALLEST {
                return None;
            }
            ln_determinant += libm::log(head);
            let old: Vec<f64> = self.cells[pivot * size..(pivot + 1) * size].to_vec();
            for row in (0..size).filter(|row| *row != pivot) {
                let factor = self.get(row, pivot) / head;
                if factor == 0.0 {
                    continue;
                }
                for (cell, old) in self.cells[row * size..(row + 1) * size].iter_mut().zip(&old) {
                    *cell -= factor * old;
                }
                *self.at(row, pivot) = -factor;
            }
            for (column, old) in old.iter().enumerate() {
                *self.at(pivot, column) = if column == pivot { 1.0 / head } else { old / head };
            }
        }
        Some((self, ln_determinant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(candidate: usize, slice: u32, value: f64) -> Entry {
        Entry { candidate, slice: Some(slice), value }
    }

    #[test]
    fn an_inverse_times_its_matrix_is_one() {
        let cells = vec![4.0, 1.0, 0.5, 1.0, 3.0, 0.2, 0.5, 0.2, 2.0];
        let matrix = Square { size: 3, cells };
        let (inverse, ln_determinant) = matrix.clone().inverse().unwrap();
        assert!((ln_determinant.exp() - 21.29).abs() < 1e-9, "{ln_determinant}");
        for row in 0..3 {
            for column in 0..3 {
                let sum: f64 = (0..3).map(|at| matrix.get(row, at) * inverse.get(at, column)).sum();
                assert!((sum - f64::from(u8::from(row == column))).abs() < 1e-12, "{row} {column}: {sum}");
            }
        }
    }

    /// `tests/oracle/race_fit.R` has them from lme4 and from generalised least squares.
    #[test]
    fn fits_are_those_of_restricted_maximum_likelihood() {
        let oracle = include_str!("../../tests/oracle/race_fit.json");
        let races: serde_json::Value = serde_json::from_str(oracle).unwrap();
        for race in races.as_array().unwrap() {
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let rows: Vec<[f64; 4]> = serde_json::from_value(race["rows"].clone()).unwrap();
            let in_round = |round: f64| rows.iter().filter(move |row| row[0] == round);
            let race_rounds: Vec<Vec<Entry>> = (1..=rows.len() / 4)
                .map(|round| in_round(round as f64).map(|row| entry(row[1] as usize, row[2] as u32, row[3])).collect())
                .collect();
            let candidates = race["candidates"].as_u64().unwrap() as usize;
            let fit = Fit::from_rounds(candidates, &race_rounds).unwrap();
            let near = |ours: f64, theirs: &serde_json::Value, of: &str| {
                assert!(
                    (ours - number(theirs)).abs() <= 1e-9 * number(theirs).abs().max(0.01),
                    "{of}: {ours} {theirs}"
                );
            };
            near(fit.variance, &race["variance"], &format!("the variance of {}", race["name"]));
            assert_eq!(fit.degrees, number(&race["degrees"]));
            for candidate in 1..candidates {
                let found = fit.difference(candidate, 0).unwrap();
                let name = format!("candidate {candidate} of {}", race["name"]);
                near(found.estimate, &race["effects"][candidate - 1], &name);
                near(found.v, &race["v"][candidate - 1], &name);
            }
        }
    }

    /// Without noise, the differences between candidates that never met are exact, through the baseline.
    #[test]
    fn effects_without_noise_are_found_exactly() {
        let race_rounds: Vec<Vec<Entry>> = (0..12u32)
            .map(|race_round| {
                let level = f64::from(race_round) * 3.0;
                let pair = if race_round % 2 == 0 { [(1, 0.1), (2, -0.2)] } else { [(3, 0.3), (4, 0.05)] };
                let all = [(0, 0.0), pair[0], pair[1]];
                all.into_iter().map(|(who, effect)| entry(who, (race_round + who as u32) % 3, level + effect)).collect()
            })
            .collect();
        let fit = Fit::from_rounds(6, &race_rounds).unwrap();
        let found = fit.difference(3, 2).unwrap();
        assert!((found.estimate - 0.5).abs() < 1e-9 && found.v > 0.0 && found.scale < 1e-6, "{found:?}");
        assert!(fit.difference(5, 0).is_none(), "it was in no race round");
    }

    /// Without slices, the difference from the baseline in the same rounds is the mean of the differences.
    #[test]
    fn two_candidates_are_the_paired_difference() {
        let values = [(1.0, 1.5), (2.0, 2.2), (0.5, 1.1), (3.0, 3.9)];
        let plain = |candidate, value| Entry { candidate, slice: None, value };
        let race_rounds: Vec<Vec<Entry>> = values.iter().map(|(a, b)| vec![plain(0, *a), plain(1, *b)]).collect();
        let found = Fit::from_rounds(2, &race_rounds).unwrap().difference(1, 0).unwrap();
        let differences: Vec<f64> = values.iter().map(|(a, b)| b - a).collect();
        let mean = differences.iter().sum::<f64>() / 4.0;
        let s2 = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 3.0;
        assert!((found.estimate - mean).abs() < 1e-12);
        // Each value has half the variance of a difference.
        assert!((found.v * found.scale.powi(2) - s2 / 4.0).abs() < 1e-12, "{found:?}");
    }
}
