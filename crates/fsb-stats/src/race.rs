//! Races that find the fastest of many candidates in rounds and drop losers on the way.
//!
//! Each race round measures a few candidates together with the baseline. After each round `fit`
//! fits all rounds so far, and `half_width` gives intervals of all differences from the fastest
//! candidate that hold at all interim analyses. The race drops a candidate that is surely slower
//! than another (successive elimination: E. Even-Dar, S. Mannor and Y. Mansour, J. Mach. Learn.
//! Res. 7, 2006), and it ends when no remaining candidate can be faster than the leader by more
//! than θ.
//!
//! The answer is worse than the best by more than θ with at most the requested error probability.
//! For that the bounds between the best candidate and each other one must hold, and they share the
//! error evenly (Bonferroni). The intervals of ratios to the baseline hold together with the same
//! probability.

use std::collections::{BTreeMap, BTreeSet};

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use serde::Serialize;

use crate::Interval;
use crate::description::t_quantile;

// Least squares over the rounds of a race.
//
// y = round + candidate + slice + e. Centring within each round removes its effect. Candidates are
// fixed effects relative to the baseline, which is in every round. Slices of the medium are random
// effects, because a race may end before every candidate was on every slice. The ratio of e's
// variance to theirs is estimated by restricted maximum likelihood (H. D. Patterson and R.
// Thompson, Biometrika 58, 1971): a fixed ratio of 1 would cost a race three times the rounds where
// slices differ ten times as much as values. The slice of a candidate does not depend on results,
// so that differences stay unbiased whatever the slices' effects are.

/// The result of one candidate in one race round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The index of the candidate. 0 is the baseline, which is in every round.
    pub candidate: usize,
    /// The slice of the medium. Absent if the medium has no slices.
    pub slice: Option<u32>,
    /// The logarithm of its speed. Larger is better.
    pub value: f64,
}

/// The weight of the pooled variance in the variance of a candidate, in values.
const PRIOR_VALUES: f64 = 4.0;
/// The ratios of e's variance to that of slices' effects that are tried, as penalties on the
/// squares of the effects. Above 1 they would gain little, and a race begins with few values to
/// estimate them from.
const PENALTIES: [f64; 5] = [1.0, 0.25, 0.06, 0.015, 0.004];

/// The estimates of all candidates from the rounds so far.
#[derive(Debug, Clone)]
struct Fit {
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
    degrees: f64,
}

/// A difference of two candidates.
#[derive(Debug, Clone, Copy)]
struct Difference {
    estimate: f64,
    /// The variance in units of the square of `scale`.
    v: f64,
    /// The standard deviation of a value.
    scale: f64,
}

impl Fit {
    /// Fits the rounds of this number of candidates. The first candidate is in every round. Returns
    /// `None` if no degrees of freedom are left for the variance, or if the normal equations cannot
    /// be solved.
    fn from_rounds(candidates: usize, race_rounds: &[Vec<Entry>]) -> Option<Fit> {
        let mut place = vec![None; candidates];
        let mut seen = 0;
        for entry in race_rounds
            .iter()
            .flatten()
            .filter(|entry| entry.candidate != 0)
        {
            if place[entry.candidate].is_none() {
                place[entry.candidate] = Some(seen);
                seen += 1;
            }
        }
        // A record may hold any number as a slice.
        let known: BTreeSet<u32> = race_rounds
            .iter()
            .flatten()
            .filter_map(|entry| entry.slice)
            .collect();
        let slices: BTreeMap<u32, usize> = known.into_iter().zip(seen..).collect();
        let levels = slices.len();
        let layout = Layout {
            place: &place,
            slices: &slices,
        };
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
        let degrees = values as f64
            - race_rounds.len() as f64
            - seen as f64
            - levels.saturating_sub(1) as f64;
        if degrees <= 0.0 {
            return None;
        }
        let penalties = if levels > 0 {
            &PENALTIES[..]
        } else {
            &PENALTIES[..1]
        };
        let (mut best, mut most_likely) = (None, f64::INFINITY);
        for penalty in penalties {
            let mut penalised = normal.clone();
            for slice in seen..size {
                *penalised.at(slice, slice) += penalty;
            }
            let (inverse, ln_determinant) = penalised.inverse()?;
            let effects = inverse.times(&right);
            let explained: f64 = effects
                .iter()
                .zip(&right)
                .map(|(effect, right)| effect * right)
                .sum();
            let left = (squares - explained).max(f64::MIN_POSITIVE);
            // −2 times the logarithm of the restricted likelihood at its maximum over σ², but for a
            // constant (S. R. Searle, G. Casella and C. E. McCulloch, Variance Components, 1992,
            // section 6.6).
            let fixed = values as f64 - race_rounds.len() as f64 - seen as f64;
            let unlikely =
                fixed * libm::log(left) + ln_determinant - levels as f64 * libm::log(*penalty);
            if unlikely < most_likely {
                (best, most_likely) = (Some((inverse, effects, left)), unlikely);
            }
        }
        let (inverse, effects, left) = best?;
        let variance = (left / degrees).max(f64::MIN_POSITIVE);
        let own = own_variances(
            &layout,
            candidates,
            race_rounds,
            &inverse,
            &effects,
            variance,
        );
        Some(Fit {
            place,
            effects,
            covariance: inverse,
            variance,
            own,
            degrees,
        })
    }

    /// Returns the mean of some candidates minus the mean of others, with the standard error, or
    /// `None` if one was in no round.
    fn contrast(&self, with: &[usize], without: &[usize]) -> Option<(f64, f64)> {
        let (estimate, v) = self.mean_difference(with, without)?;
        Some((estimate, (v.max(0.0) * self.variance).sqrt()))
    }

    /// Returns the difference of two means of effects, and its variance as a share of that of one
    /// value. Returns `None` if a candidate has no effect.
    fn mean_difference(&self, with: &[usize], without: &[usize]) -> Option<(f64, f64)> {
        let mut weights = Vec::new();
        for (all, sign) in [(with, 1.0), (without, -1.0)] {
            for candidate in all.iter().filter(|candidate| **candidate != 0) {
                weights.push((self.place[*candidate]?, sign / all.len() as f64));
            }
        }
        let (mut estimate, mut v) = (0.0, 0.0);
        for (a, x) in &weights {
            estimate += self.effects[*a] * x;
            for (b, y) in &weights {
                v += x * y * self.covariance.get(*a, *b);
            }
        }
        Some((estimate, v))
    }

    /// Returns the difference of `a` and `b`, or `None` if one was in no round.
    fn difference(&self, a: usize, b: usize) -> Option<Difference> {
        let (estimate, v) = self.mean_difference(&[a], &[b])?;
        Some(Difference {
            estimate,
            v,
            scale: ((self.own[a] + self.own[b]) / 2.0)
                .max(self.variance)
                .sqrt(),
        })
    }
}

/// Returns the variance of each candidate. It divides each squared residual by the share of a
/// value's variance that the fit leaves in it, and pools them with [`PRIOR_VALUES`] values of the
/// common variance (as G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, moderates variances of
/// few values). The result is not below the common variance, so that a noisy candidate is judged by
/// its own noise.
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
            let pairs = row
                .iter()
                .flat_map(|&(a, x)| row.iter().map(move |&(b, z)| (a, b, x * z)));
            let leverage = 1.0 / race_round.len() as f64
                + pairs.map(|(a, b, x)| x * inverse.get(a, b)).sum::<f64>();
            // A value that determines its own effect carries no information on the variance.
            if leverage < 0.95 {
                let (squares, values) = &mut sums[entry.candidate];
                *squares += (y - fitted).powi(2) / (1.0 - leverage);
                *values += 1.0;
            }
        }
    }
    sums.into_iter()
        .map(|(squares, values)| (squares / values).max(variance))
        .collect()
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
        let mut mean: Vec<(usize, f64)> = Vec::new();
        for column in race_round.iter().flat_map(|entry| self.columns(entry)) {
            match mean.iter_mut().find(|(known, _)| *known == column) {
                Some((_, sum)) => *sum += 1.0 / many,
                None => mean.push((column, 1.0 / many)),
            }
        }
        let level = race_round.iter().map(|entry| entry.value).sum::<f64>() / many;
        let mut rows = Vec::with_capacity(race_round.len());
        for entry in race_round {
            let own: Vec<usize> = self.columns(entry).collect();
            let mut row = mean.clone();
            for (column, value) in &mut row {
                *value = f64::from(u8::from(own.contains(column))) - *value;
            }
            rows.push((row, entry.value - level));
        }
        rows
    }

    fn columns(&self, entry: &Entry) -> impl Iterator<Item = usize> {
        let slice = entry
            .slice
            .and_then(|slice| self.slices.get(&slice).copied());
        self.place[entry.candidate].into_iter().chain(slice)
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
        Square {
            size,
            cells: vec![0.0; size * size],
        }
    }

    fn at(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.cells[row * self.size + column]
    }

    fn get(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.size + column]
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.size)
            .map(|row| {
                let columns = vector.iter().enumerate();
                columns
                    .map(|(column, value)| self.get(row, column) * value)
                    .sum()
            })
            .collect()
    }

    /// Inverts by Gauss and Jordan without pivoting, which a positive definite matrix does not
    /// need. Returns the inverse and the logarithm of the determinant, or `None` if a pivot is too
    /// small.
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
                for (cell, old) in self.cells[row * size..(row + 1) * size]
                    .iter_mut()
                    .zip(&old)
                {
                    *cell -= factor * old;
                }
                *self.at(row, pivot) = -factor;
            }
            for (column, old) in old.iter().enumerate() {
                *self.at(pivot, column) = if column == pivot {
                    1.0 / head
                } else {
                    old / head
                };
            }
        }
        Some((self, ln_determinant))
    }
}

/// The settings of a race.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The probability that the answer is worse than the best by more than θ.
    pub error: f64,
}

/// The reason why a candidate left the race.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Out {
    /// The candidate is surely slower than another one.
    Slower {
        /// The index of the faster candidate.
        than: usize,
        /// The upper bound of the ratio of its speed to that of the faster candidate, below 1.
        at_most: f64,
        /// The number of race rounds up to that point.
        race_rounds: usize,
    },
    /// The candidate has no values.
    Failed,
}

/// A race under way.
#[derive(Debug, Clone)]
pub struct Race {
    settings: Settings,
    out: Vec<Option<Out>>,
    race_rounds: Vec<Vec<Entry>>,
    fit: Option<Fit>,
}

/// The state of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The fastest so far. Absent before the first race round.
    pub leader: Option<usize>,
    /// Whether the race is over: no remaining candidate can be faster than the leader by more than
    /// θ.
    pub decided: bool,
    pub candidates: Vec<Known>,
}

/// The results of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The number of race rounds with a value of it.
    pub race_rounds: usize,
    /// The speed as a ratio to the baseline's.
    pub ratio: Option<f64>,
    /// The interval of that ratio, which holds at all interim analyses and for all candidates
    /// together.
    pub interval: Option<Interval>,
    /// The largest possible ratio of its speed to the leader's.
    pub at_most: Option<f64>,
    /// The reason why it left the race.
    pub out: Option<Out>,
}

impl Race {
    /// Starts a race between this number of candidates, the baseline included.
    pub fn new(candidates: usize, settings: Settings) -> Race {
        Race {
            settings,
            out: vec![None; candidates],
            race_rounds: Vec::new(),
            fit: None,
        }
    }

    /// Removes a candidate that cannot be measured.
    pub fn withdraw(&mut self, candidate: usize) {
        self.out[candidate] = Some(Out::Failed);
    }

    /// Adds the results of a race round, and drops candidates that are surely slower than the
    /// leader by now. A round without the baseline, or with the baseline alone, is ignored.
    pub fn add(&mut self, race_round: Vec<Entry>) {
        if race_round.len() < 2 || !race_round.iter().any(|entry| entry.candidate == 0) {
            return;
        }
        self.race_rounds.push(race_round);
        self.analyse();
    }

    /// Fits all rounds so far, and drops candidates that are surely slower than the leader.
    fn analyse(&mut self) {
        self.fit = Fit::from_rounds(self.out.len(), &self.race_rounds);
        let Some(leader) = self.leader() else { return };
        if self.race_rounds_of(leader) >= FEWEST_RACE_ROUNDS {
            self.drop_slower(leader, FEWEST_RACE_ROUNDS);
        }
    }

    /// Ends the race. While further rounds may follow, a single round is not enough to drop a
    /// candidate. After the last round the bounds alone decide.
    pub fn conclude(&mut self) {
        if let Some(leader) = self.leader() {
            self.drop_slower(leader, 1);
        }
    }

    /// Drops the candidates with at least `fewest` rounds that are surely slower than the leader.
    fn drop_slower(&mut self, leader: usize, fewest: usize) {
        for candidate in self.left() {
            if candidate == leader || self.race_rounds_of(candidate) < fewest {
                continue;
            }
            let Some((lead, _, _)) = self
                .bounds(leader, candidate)
                .filter(|(lead, _, _)| *lead > 0.0)
            else {
                continue;
            };
            let race_rounds = self.race_rounds.len();
            self.out[candidate] = Some(Out::Slower {
                than: leader,
                at_most: libm::exp(-lead),
                race_rounds,
            });
        }
    }

    /// Returns the candidates that may still win.
    pub fn left(&self) -> Vec<usize> {
        (0..self.out.len())
            .filter(|candidate| self.out[*candidate].is_none())
            .collect()
    }

    /// Returns the number of race rounds so far.
    pub fn race_rounds(&self) -> usize {
        self.race_rounds.len()
    }

    /// Returns the number of race rounds of a candidate.
    fn race_rounds_of(&self, candidate: usize) -> usize {
        self.race_rounds
            .iter()
            .flatten()
            .filter(|entry| entry.candidate == candidate)
            .count()
    }

    /// Returns the fastest remaining candidate.
    fn leader(&self) -> Option<usize> {
        let fit = self.fit.as_ref()?;
        self.left()
            .into_iter()
            .filter_map(|candidate| {
                fit.difference(candidate, 0)
                    .map(|found| (candidate, found.estimate))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(candidate, _)| candidate)
    }

    /// Returns how much faster `a` is than `b`, as a logarithm: lower bound, estimate, upper bound.
    /// An answer is wrong only if the best candidate is underestimated, so each end has the whole
    /// share of a pair.
    fn bounds(&self, a: usize, b: usize) -> Option<(f64, f64, f64)> {
        self.interval(a, b, 2.0 * self.share())
    }

    /// Returns the same bounds, where both ends together miss the truth with probability `error`.
    fn interval(&self, a: usize, b: usize, error: f64) -> Option<(f64, f64, f64)> {
        let fit = self.fit.as_ref()?;
        let found = fit.difference(a, b)?;
        let half = found.scale * half_width(found.v, fit.degrees, error);
        Some((found.estimate - half, found.estimate, found.estimate + half))
    }

    /// Returns the error share of one pair, among all pairs with the same candidate.
    fn share(&self) -> f64 {
        self.settings.error / (self.out.len().max(2) - 1) as f64
    }

    /// Returns whether no remaining candidate can be faster than the leader by more than θ.
    pub fn is_decided(&self) -> bool {
        let limit = libm::log1p(self.settings.theta);
        self.leader().is_some_and(|leader| {
            self.left().into_iter().all(|rival| {
                let bounds = self.bounds(rival, leader);
                rival == leader || bounds.is_some_and(|(_, _, most)| most <= limit)
            })
        })
    }

    /// Returns the ratio of the candidates `with` an option to those `without`, and its interval,
    /// if the rounds were fixed in advance. `many` such t-intervals hold together with probability
    /// 1 minus the error.
    pub fn effect(
        &self,
        with: &[usize],
        without: &[usize],
        many: usize,
    ) -> Option<(f64, Interval)> {
        let fit = self.fit.as_ref()?;
        let (estimate, error) = fit.contrast(with, without)?;
        let half = t_quantile(1.0 - self.settings.error / many.max(1) as f64, fit.degrees) * error;
        let interval = Interval {
            lo: libm::exp(estimate - half),
            hi: libm::exp(estimate + half),
        };
        Some((libm::exp(estimate), interval))
    }

    pub fn standing(&self) -> Standing {
        let leader = self.leader();
        Standing {
            leader,
            decided: self.is_decided(),
            candidates: (0..self.out.len())
                .map(|candidate| self.known(candidate, leader))
                .collect(),
        }
    }

    fn known(&self, candidate: usize, leader: Option<usize>) -> Known {
        let bounds = self
            .interval(candidate, 0, self.share())
            .filter(|_| candidate != 0);
        let finite = bounds.filter(|(lo, _, hi)| lo.is_finite() && hi.is_finite());
        let most = leader
            .and_then(|leader| self.bounds(candidate, leader))
            .map(|(_, _, most)| libm::exp(most));

        Known {
            race_rounds: self.race_rounds_of(candidate),
            ratio: bounds.map(|(_, estimate, _)| libm::exp(estimate)),
            interval: finite.map(|(lo, _, hi)| Interval {
                lo: libm::exp(lo),
                hi: libm::exp(hi),
            }),
            at_most: most.filter(|most| most.is_finite() && Some(candidate) != leader),
            out: self.out[candidate].clone(),
        }
    }
}

/// A candidate stays in a running race for at least this number of rounds.
const FEWEST_RACE_ROUNDS: usize = 2;

/// The prior precision φ of a difference in units of σ. The bound is narrowest where 1/v is about
/// sixteen times that, which is what a race of forty candidates needs to separate losers from
/// others.
const PRECISION: f64 = 0.25;

/// Returns the half-width of the interval for a difference with the variance s²·`v`, in units of s,
/// or infinity if the degrees of freedom are too few. `error` is the probability that the interval
/// ever misses the truth.
///
/// A difference δ of two candidates is estimated by least squares with the variance σ²v, and σ² by
/// s² with ν degrees of freedom. The prior of δ/σ is normal with the precision φ. The other priors
/// leave everything else open (right Haar: flat on effects, 1/σ on the scale). The Bayes factor
/// against a difference of δ₀ is
///
/// ```text
/// B = √(φ/(φ+z)) · ((1 + t²/ν · φ/(φ+z)) / (1 + t²/ν))^(−(ν+1)/2)     z = 1/v, t = (d − δ₀)/(s√v)
/// ```
///
/// If δ₀ is the truth, B is a martingale of mean 1 under normal errors whatever σ is, so that the
/// probability that it ever reaches 1/α is at most α (Ville). The values δ₀ that it does not reject
/// are therefore an interval that holds at all interim analyses together, whatever decides their
/// times. It is Lai's t mixture (T. L. Lai, Ann. Statist. 4, 1976; H. Wang and A. Ramdas,
/// arXiv:2310.03722, 2023) for a contrast of a linear model (M. Lindon and others,
/// arXiv:2210.08589, 2022).
fn half_width(v: f64, degrees: f64, error: f64) -> f64 {
    if degrees <= 0.0 || v <= 0.0 {
        return f64::INFINITY;
    }
    let z = 1.0 / v;
    let ln_a = (((PRECISION + z) / PRECISION).ln() - 2.0 * error.ln()) / (degrees + 1.0);
    let rest = 1.0 - libm::exp(ln_a) * PRECISION / (PRECISION + z);
    if rest <= 0.0 {
        return f64::INFINITY;
    }
    (v * degrees * libm::expm1(ln_a) / rest).sqrt()
}

/// A candidate and its slice of the medium in the next race round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    pub candidate: usize,
    pub slice: u32,
}

impl Race {
    /// Draws the next race round of at most `places` candidates: the baseline, and those of the
    /// remaining candidates with the fewest rounds, at random among equals. Of all assignments of
    /// slices, it chooses the one that puts candidates on the slices where they were least often.
    /// Among equal assignments it chooses at random, without regard to the results.
    pub fn draw(&self, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot = Pcg64::seed_from_u64(
            seed ^ (self.race_rounds.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        let mut others: Vec<(usize, u64, usize)> = self
            .left()
            .into_iter()
            .filter(|candidate| *candidate != 0)
            .map(|candidate| (self.race_rounds_of(candidate), lot.next_u64(), candidate))
            .collect();
        others.sort_unstable();
        let others = others
            .into_iter()
            .take(places.saturating_sub(1))
            .map(|(_, _, candidate)| candidate);
        let chosen: Vec<usize> = std::iter::once(0).chain(others).collect();
        self.placed(chosen, places, &mut lot)
    }

    /// Puts these candidates on slices for the next race round.
    pub fn place(&self, chosen: Vec<usize>, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot = Pcg64::seed_from_u64(
            seed ^ (self.race_rounds.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        self.placed(chosen, places, &mut lot)
    }

    fn placed(&self, chosen: Vec<usize>, places: usize, lot: &mut Pcg64) -> Vec<Drawn> {
        let slices = self.slices(&chosen, places, lot);
        chosen
            .into_iter()
            .zip(slices)
            .map(|(candidate, slice)| Drawn { candidate, slice })
            .collect()
    }

    fn slices(&self, chosen: &[usize], places: usize, lot: &mut Pcg64) -> Vec<u32> {
        let mut cost = vec![vec![0; places]; chosen.len()];
        for (candidate, cost) in chosen.iter().zip(&mut cost) {
            for (slice, cost) in (0u32..).zip(cost) {
                let entries = self.race_rounds.iter().flatten();
                let times = entries
                    .filter(|entry| entry.candidate == *candidate && entry.slice == Some(slice))
                    .count();
                *cost = times.pow(2);
            }
        }
        let mut best: Option<((usize, u64), Vec<u32>)> = None;
        for way in ways(chosen.len(), places) {
            let sum = way
                .iter()
                .enumerate()
                .map(|(at, slice)| cost[at][*slice as usize])
                .sum();
            let rank = (sum, lot.next_u64());
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, way));
            }
        }
        best.map(|(_, way)| way).unwrap_or_default()
    }
}

/// Returns all ways to give each of this number of candidates a different slice.
fn ways(candidates: usize, slices: usize) -> Vec<Vec<u32>> {
    let mut ways = vec![Vec::new()];
    for _ in 0..candidates {
        let mut longer = Vec::new();
        for way in &ways {
            let free = (0..slices as u32).filter(|slice| !way.contains(slice));
            longer.extend(free.map(|slice| [&way[..], &[slice]].concat()));
        }
        ways = longer;
    }
    ways
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal, StudentT};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
    use rayon::prelude::*;

    use super::*;

    const PLACES: usize = 4;
    const THETA: f64 = 0.03;
    const ERROR: f64 = 0.05;
    const CANDIDATES: usize = 40;

    /// The true speed of a candidate, as a logarithm. That of the baseline, which comes first, is
    /// 0.
    type Truth = fn(&mut Pcg64, usize) -> f64;

    /// A family of truths and of noise.
    #[derive(Debug, Clone, Copy)]
    struct Family {
        truth: Truth,
        /// Standard deviation of a value.
        noise: f64,
        /// Standard deviation of the slices' effects.
        slices: f64,
        /// Degrees of freedom of the errors' t distribution.
        tails: f64,
        /// A factor on the noise of every fourth candidate.
        uneven: f64,
    }

    fn uniform(random: &mut Pcg64) -> f64 {
        (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(random: &mut Pcg64) -> f64 {
        StandardNormal.sample(random)
    }

    /// The result of one race.
    #[derive(Debug, Clone, Copy, Default)]
    struct Ended {
        /// Whether the answer is within θ of the best.
        right: bool,
        /// Whether the interval of the answer's ratio to the baseline contains the truth.
        held: bool,
        /// Whether the best candidate was dropped as slower than one that is really slower.
        wronged: bool,
        /// Measured samples, those of the baseline included.
        spent: usize,
    }

    /// The plan of a race.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Plan {
        /// Losers are dropped, and the race ends when it is decided.
        Race,
        /// All candidates are measured this number of times, and the one with the best mean is the
        /// answer.
        Equally(usize),
    }

    impl Family {
        fn run(&self, seed: u64, plan: Plan) -> Ended {
            /// Longer races count as undecided.
            const MOST_RACE_ROUNDS: usize = 1500;
            let mut random = Pcg64::seed_from_u64(seed);
            let truth: Vec<f64> = (0..CANDIDATES)
                .map(|at| (self.truth)(&mut random, at))
                .collect();
            let slices: Vec<f64> = (0..PLACES)
                .map(|_| self.slices * normal(&mut random))
                .collect();
            let errors = StudentT::new(self.tails).unwrap();
            // A t of ν degrees of freedom has the variance ν/(ν-2).
            let scale = self.noise / (self.tails / (self.tails - 2.0)).sqrt();
            let mut race = Race::new(
                CANDIDATES,
                Settings {
                    theta: THETA,
                    error: ERROR,
                },
            );
            let mut ended = Ended::default();
            let race_rounds = match plan {
                Plan::Race => MOST_RACE_ROUNDS,
                Plan::Equally(turns) => (turns * (CANDIDATES - 1)).div_ceil(PLACES - 1),
            };
            for _ in 0..race_rounds {
                let level = 0.3 * normal(&mut random);
                let entries =
                    race.draw(PLACES, seed)
                        .into_iter()
                        .map(|Drawn { candidate, slice }| {
                            let uneven = if candidate % 4 == 3 { self.uneven } else { 1.0 };
                            let error: f64 = errors.sample(&mut random);
                            let value = level
                                + truth[candidate]
                                + slices[slice as usize]
                                + scale * uneven * error;
                            Entry {
                                candidate,
                                slice: Some(slice),
                                value,
                            }
                        });
                let entries: Vec<Entry> = entries.collect();
                ended.spent += entries.len();
                match plan {
                    Plan::Race => race.add(entries),
                    Plan::Equally(_) => race.race_rounds.push(entries),
                }
                if plan == Plan::Race && race.is_decided() {
                    race.conclude();
                    // In an answer of several candidates, none is surely slower than the leader.
                    let leader = race.leader().unwrap_or(0);
                    let surely = |other: &usize| {
                        race.bounds(leader, *other)
                            .is_some_and(|(lo, _, _)| lo > 0.0)
                    };
                    assert!(
                        !race
                            .left()
                            .iter()
                            .any(|other| *other != leader && surely(other)),
                        "seed {seed}"
                    );
                    break;
                }
            }
            if plan != Plan::Race {
                race.fit = Fit::from_rounds(CANDIDATES, &race.race_rounds);
            }
            let best = truth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let leader = race.leader().unwrap_or(0);
            ended.right = truth[leader] >= best - libm::log1p(THETA) - 1e-12;
            ended.held = race.standing().candidates[leader]
                .interval
                .is_none_or(|known| known.contains(truth[leader].exp()));
            let winner = truth.iter().position(|value| *value == best).unwrap_or(0);
            ended.wronged =
                matches!(race.out[winner], Some(Out::Slower { than, .. }) if truth[than] < best);
            ended
        }

        fn many(&self, races: u64, plan: Plan) -> Share {
            let all: Vec<Ended> = (0..races)
                .into_par_iter()
                .map(|seed| self.run(seed, plan))
                .collect();
            let share = |of: fn(&Ended) -> bool| {
                all.iter().filter(|race| of(race)).count() as f64 / races as f64
            };
            let spent = all.iter().map(|race| race.spent as f64).sum::<f64>() / races as f64;
            Share {
                right: share(|race| race.right),
                held: share(|race| race.held),
                wronged: share(|race| race.wronged),
                spent,
            }
        }
    }

    #[derive(Debug, Clone, Copy)]
    struct Share {
        right: f64,
        held: f64,
        wronged: f64,
        /// Mean number of measurements.
        spent: f64,
    }

    /// Options as they are: some do nothing, some help, many cost.
    fn options(random: &mut Pcg64, at: usize) -> f64 {
        let (kind, size) = (uniform(random), uniform(random));
        match kind {
            _ if at == 0 => 0.0,
            kind if kind < 0.25 => 0.0,
            kind if kind < 0.4 => 0.15 * size,
            _ => -0.4 * size,
        }
    }

    fn spread(random: &mut Pcg64, at: usize) -> f64 {
        if at == 0 { 0.0 } else { 0.15 * normal(random) }
    }

    fn one_winner(random: &mut Pcg64, at: usize) -> f64 {
        if at == 7 { 0.12 } else { 0.02 * normal(random) }
    }

    /// The hardest truth: one candidate is better by just more than θ, and all others are equal.
    fn slippage(_: &mut Pcg64, at: usize) -> f64 {
        if at == 7 {
            libm::log1p(THETA) * 1.001
        } else {
            0.0
        }
    }

    const PLAIN: Family = Family {
        truth: options,
        noise: 0.03,
        slices: 0.03,
        tails: 5.0,
        uneven: 1.0,
    };

    /// Returns the number of measurements per candidate that an equal plan needs to be right in 95
    /// % of all runs whatever the truth is, including [`slippage`] (R. E. Bechhofer, Ann. Math.
    /// Statist. 25, 1954, for these race rounds and this noise), by simulation.
    fn turns_of_an_equal_plan(family: &Family, races: u64) -> usize {
        let hardest = Family {
            truth: slippage,
            ..*family
        };
        let is_enough =
            |turns: &usize| hardest.many(races, Plan::Equally(*turns)).right >= 1.0 - ERROR;
        (1..200).step_by(2).find(is_enough).unwrap_or(200)
    }

    /// Forty candidates: in all families 95 % of the answers are right, in a quarter of the time of
    /// an equal plan.
    #[test]
    fn races_are_right_and_take_a_quarter_of_the_time() {
        check(60, 120);
    }

    /// The same with thousands of races: `cargo test --release -p fsb-stats race -- --ignored
    /// --nocapture`.
    #[test]
    #[ignore = "minutes"]
    fn thousands_of_races_are_right_and_take_a_quarter_of_the_time() {
        check(2000, 1000);
    }

    /// The hardest fields end undecided or late, so that only their errors are asserted. `cargo
    /// test --release -p fsb-stats hardest -- --ignored --nocapture` prints the lines of
    /// docs/methods/choose.md.
    #[test]
    #[ignore = "minutes"]
    fn the_hardest_fields_are_decided_late_and_not_wrongly() {
        let hardest = Family {
            truth: slippage,
            ..PLAIN
        };
        for (name, family) in [
            ("just beyond θ", hardest),
            (
                "just beyond θ, slices that differ",
                Family {
                    slices: 0.3,
                    ..hardest
                },
            ),
        ] {
            let share = family.many(60, Plan::Race);
            println!("{name}: {share:?}");
            assert!(
                share.right >= 0.85 && share.held >= 0.85 && share.wronged <= 0.05,
                "{name}: {share:?}"
            );
        }
    }

    fn check(races: u64, plans: u64) {
        let turns = turns_of_an_equal_plan(&PLAIN, plans);
        let equal = PLAIN.many(1, Plan::Equally(turns)).spent;
        println!("equally: {turns} times each, {equal} measurements");
        // At most 3 standard deviations of this number of races below.
        let least = 1.0 - ERROR - 3.0 * (ERROR * (1.0 - ERROR) / races as f64).sqrt();
        for (name, truth) in [
            ("options", options as Truth),
            ("spread", spread),
            ("one winner", one_winner),
        ] {
            let family = Family { truth, ..PLAIN };
            let kinds = [
                ("", family),
                (
                    ", heavy tails",
                    Family {
                        tails: 3.0,
                        ..family
                    },
                ),
                (
                    ", every 4th noisier",
                    Family {
                        uneven: 2.0,
                        ..family
                    },
                ),
                (
                    ", slices that differ",
                    Family {
                        slices: 0.3,
                        ..family
                    },
                ),
            ];
            for (kind, family) in kinds {
                let share = family.many(races, Plan::Race);
                println!(
                    "{name}{kind}: right {:.1} %, best wronged {:.1} %, interval held {:.1} %, {:.0} measurements: {:.1} %",
                    share.right * 100.0,
                    share.wronged * 100.0,
                    share.held * 100.0,
                    share.spent,
                    share.spent / equal * 100.0
                );
                assert!(
                    share.right >= least && share.held >= least,
                    "{name}{kind}: {share:?}"
                );
                // Noisier candidates would need more turns of an equal plan, too.
                assert!(
                    kind.contains("noisier") || share.spent <= equal / 4.0,
                    "{name}{kind}: {} of {equal}",
                    share.spent
                );
            }
        }
    }

    #[test]
    fn nobody_is_surely_slower_among_equals() {
        let equals = Family {
            truth: |_, _| 0.0,
            ..PLAIN
        };
        let dropped = |seed: u64| {
            let mut race = Race::new(
                8,
                Settings {
                    theta: THETA,
                    error: ERROR,
                },
            );
            let mut random = Pcg64::seed_from_u64(seed);
            for _ in 0..60 {
                let level = normal(&mut random);
                let entries =
                    race.draw(PLACES, seed)
                        .into_iter()
                        .map(|Drawn { candidate, slice }| Entry {
                            candidate,
                            slice: Some(slice),
                            value: level + equals.noise * normal(&mut random),
                        });
                let entries = entries.collect();
                race.add(entries);
            }
            race.out.iter().any(Option::is_some)
        };
        let wrong = (0..200)
            .into_par_iter()
            .filter(|seed| dropped(*seed))
            .count();
        // Here the difference of any pair could be found significant, not only of pairs with the
        // best.
        assert!(wrong <= 20, "{wrong} of 200");
    }

    #[test]
    fn a_race_round_holds_the_reference_and_those_measured_least() {
        let mut race = Race::new(
            6,
            Settings {
                theta: THETA,
                error: ERROR,
            },
        );
        race.withdraw(4);
        let mut counts = [0; 6];
        for race_round in 0..8 {
            let drawn = race.draw(PLACES, 5);
            assert_eq!(drawn[0].candidate, 0);
            let mut slices: Vec<u32> = drawn.iter().map(|drawn| drawn.slice).collect();
            slices.sort_unstable();
            assert_eq!(slices, [0, 1, 2, 3]);
            drawn.iter().for_each(|drawn| counts[drawn.candidate] += 1);
            race.add(
                drawn
                    .iter()
                    .map(|drawn| Entry {
                        candidate: drawn.candidate,
                        slice: Some(drawn.slice),
                        value: f64::from(race_round),
                    })
                    .collect(),
            );
        }
        assert_eq!(counts, [8, 6, 6, 6, 0, 6]);
    }

    #[test]
    fn race_rounds_without_the_reference_or_with_nobody_else_tell_nothing() {
        let mut race = Race::new(
            3,
            Settings {
                theta: THETA,
                error: ERROR,
            },
        );
        let entry = |candidate| Entry {
            candidate,
            slice: None,
            value: 1.0,
        };
        race.add(vec![entry(1), entry(2)]);
        race.add(vec![entry(0)]);
        assert_eq!(race.race_rounds(), 0);
        let standing = race.standing();
        assert!(standing.leader.is_none() && !standing.decided);
    }

    /// A race may end before all candidates were measured twice. One that is surely slower in its
    /// only round is not in the answer.
    #[test]
    fn a_candidate_slower_in_its_only_round_is_not_in_the_answer() {
        let mut race = Race::new(
            6,
            Settings {
                theta: THETA,
                error: ERROR,
            },
        );
        let entry = |candidate: usize, value: f64| Entry {
            candidate,
            slice: None,
            value,
        };
        let noise = |at: usize| 0.002 * ((at * 7 % 5) as f64 - 2.0);
        for race_round in 0..12 {
            let rival = if race_round == 11 {
                5
            } else {
                2 + race_round % 3
            };
            race.add(vec![
                entry(0, noise(race_round)),
                entry(1, 0.4 + noise(race_round + 1)),
                entry(rival, noise(race_round + 3)),
            ]);
        }
        assert!(race.is_decided() && race.left().contains(&5));
        race.conclude();
        assert_eq!((race.race_rounds_of(5), race.left()), (1, vec![1]));
    }

    /// B as in the module documentation.
    fn bayes_factor(t: f64, v: f64, degrees: f64) -> f64 {
        let shrunk = PRECISION / (PRECISION + 1.0 / v);
        let u = t * t / degrees;
        shrunk.sqrt() * ((1.0 + u * shrunk) / (1.0 + u)).powf(-(degrees + 1.0) / 2.0)
    }

    #[test]
    fn at_its_ends_the_bayes_factor_is_one_over_the_error() {
        for (v, degrees, error) in [
            (0.1, 40.0, 0.05),
            (0.5, 60.0, 1e-3),
            (1.0, 25.0, 1e-4),
            (0.02, 300.0, 6e-4),
        ] {
            let half = half_width(v, degrees, error);
            let factor = bayes_factor(half / f64::sqrt(v), v, degrees);
            assert!(
                (factor * error - 1.0).abs() < 1e-9,
                "{v} {degrees} {error}: {factor}"
            );
        }
    }

    #[test]
    fn few_degrees_of_freedom_bound_nothing() {
        assert!(
            half_width(0.5, 0.0, 0.05).is_infinite() && half_width(0.5, 2.0, 1e-4).is_infinite()
        );
        assert!(half_width(0.5, 200.0, 1e-4) < half_width(0.5, 20.0, 1e-4));
    }

    fn entry(candidate: usize, slice: u32, value: f64) -> Entry {
        Entry {
            candidate,
            slice: Some(slice),
            value,
        }
    }

    #[test]
    fn an_inverse_times_its_matrix_is_one() {
        let cells = vec![4.0, 1.0, 0.5, 1.0, 3.0, 0.2, 0.5, 0.2, 2.0];
        let matrix = Square { size: 3, cells };
        let (inverse, ln_determinant) = matrix.clone().inverse().unwrap();
        assert!(
            (ln_determinant.exp() - 21.29).abs() < 1e-9,
            "{ln_determinant}"
        );
        for row in 0..3 {
            for column in 0..3 {
                let sum: f64 = (0..3)
                    .map(|at| matrix.get(row, at) * inverse.get(at, column))
                    .sum();
                assert!(
                    (sum - f64::from(u8::from(row == column))).abs() < 1e-12,
                    "{row} {column}: {sum}"
                );
            }
        }
    }

    /// `tests/oracle/race_fit.R` has them from lme4 and from generalised least squares.
    #[test]
    fn fits_are_those_of_restricted_maximum_likelihood() {
        let oracle = include_str!("../tests/oracle/race_fit.json");
        let races: serde_json::Value = serde_json::from_str(oracle).unwrap();
        for race in races.as_array().unwrap() {
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let rows: Vec<[f64; 4]> = serde_json::from_value(race["rows"].clone()).unwrap();
            let in_round = |round: f64| rows.iter().filter(move |row| row[0] == round);
            let race_rounds: Vec<Vec<Entry>> = (1..=rows.len() / 4)
                .map(|round| {
                    in_round(round as f64)
                        .map(|row| entry(row[1] as usize, row[2] as u32, row[3]))
                        .collect()
                })
                .collect();
            let candidates = race["candidates"].as_u64().unwrap() as usize;
            let fit = Fit::from_rounds(candidates, &race_rounds).unwrap();
            let near = |ours: f64, theirs: &serde_json::Value, of: &str| {
                assert!(
                    (ours - number(theirs)).abs() <= 1e-9 * number(theirs).abs().max(0.01),
                    "{of}: {ours} {theirs}"
                );
            };
            near(
                fit.variance,
                &race["variance"],
                &format!("the variance of {}", race["name"]),
            );
            assert_eq!(fit.degrees, number(&race["degrees"]));
            for candidate in 1..candidates {
                let found = fit.difference(candidate, 0).unwrap();
                let name = format!("candidate {candidate} of {}", race["name"]);
                near(found.estimate, &race["effects"][candidate - 1], &name);
                near(found.v, &race["v"][candidate - 1], &name);
            }
        }
    }

    /// Without noise, the differences between candidates that never met are exact, through the
    /// baseline.
    #[test]
    fn effects_without_noise_are_found_exactly() {
        let race_rounds: Vec<Vec<Entry>> = (0..12u32)
            .map(|race_round| {
                let level = f64::from(race_round) * 3.0;
                let pair = if race_round % 2 == 0 {
                    [(1, 0.1), (2, -0.2)]
                } else {
                    [(3, 0.3), (4, 0.05)]
                };
                let all = [(0, 0.0), pair[0], pair[1]];
                all.into_iter()
                    .map(|(who, effect)| entry(who, (race_round + who as u32) % 3, level + effect))
                    .collect()
            })
            .collect();
        let fit = Fit::from_rounds(6, &race_rounds).unwrap();
        let found = fit.difference(3, 2).unwrap();
        assert!(
            (found.estimate - 0.5).abs() < 1e-9 && found.v > 0.0 && found.scale < 1e-6,
            "{found:?}"
        );
        assert!(fit.difference(5, 0).is_none(), "it was in no race round");
    }

    /// Without slices, the difference from the baseline in the same rounds is the mean of the
    /// differences.
    #[test]
    fn two_candidates_are_the_paired_difference() {
        let values = [(1.0, 1.5), (2.0, 2.2), (0.5, 1.1), (3.0, 3.9)];
        let plain = |candidate, value| Entry {
            candidate,
            slice: None,
            value,
        };
        let race_rounds: Vec<Vec<Entry>> = values
            .iter()
            .map(|(a, b)| vec![plain(0, *a), plain(1, *b)])
            .collect();
        let found = Fit::from_rounds(2, &race_rounds)
            .unwrap()
            .difference(1, 0)
            .unwrap();
        let differences: Vec<f64> = values.iter().map(|(a, b)| b - a).collect();
        let mean = differences.iter().sum::<f64>() / 4.0;
        let s2 = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 3.0;
        assert!((found.estimate - mean).abs() < 1e-12);
        // Each value has half the variance of a difference.
        assert!(
            (found.v * found.scale.powi(2) - s2 / 4.0).abs() < 1e-12,
            "{found:?}"
        );
    }
}
