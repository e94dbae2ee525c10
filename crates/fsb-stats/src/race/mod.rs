//! Races that find the fastest of many candidates in rounds and drop losers on the way.
//!
//! Each race round measures a few candidates together with the baseline. After each round `fit` fits all rounds so far,
//! and `half_width` gives intervals of all differences from the fastest candidate that hold at all interim analyses.
//! The race drops a candidate that is surely slower than another (successive elimination: E. Even-Dar, S. Mannor and Y.
//! Mansour, J. Mach. Learn. Res. 7, 2006), and it ends when no remaining candidate can be faster than the leader by
//! more than θ.
//!
//! The answer is worse than the best by more than θ with at most the requested error probability. For that the bounds
//! between the best candidate and each other one must hold, and they share the error evenly (Bonferroni). The intervals
//! of ratios to the baseline hold together with the same probability.

mod fit;

use fit::Fit;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use serde::Serialize;

use crate::Interval;
use crate::description::t_quantile;

pub use fit::Entry;

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
    /// It is surely slower than another candidate.
    Slower {
        /// The index of the faster candidate.
        than: usize,
        /// The number of race rounds up to that point.
        race_rounds: usize,
    },
    /// It has no values.
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
    /// Whether the race is over: no remaining candidate can be faster than the leader by more than θ.
    pub decided: bool,
    pub candidates: Vec<Known>,
}

/// The results of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The number of race rounds with a value of it.
    pub race_rounds: usize,
    /// Its speed as a ratio to the baseline's.
    pub ratio: Option<f64>,
    /// The interval of that ratio, which holds at all interim analyses and for all candidates together.
    pub interval: Option<Interval>,
    /// The largest possible ratio of its speed to the leader's.
    pub at_most: Option<f64>,
    /// The reason why it left the race.
    pub out: Option<Out>,
}

impl Race {
    /// Starts a race between this number of candidates, the baseline included.
    pub fn new(candidates: usize, settings: Settings) -> Race {
        Race { settings, out: vec![None; candidates], race_rounds: Vec::new(), fit: None }
    }

    /// Removes a candidate that cannot be measured.
    pub fn withdraw(&mut self, candidate: usize) {
        self.out[candidate] = Some(Out::Failed);
    }

    /// Adds the results of a race round, and drops candidates that are surely slower than the leader by now. A round
    /// without the baseline, or with the baseline alone, is ignored.
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

    /// Ends the race. While further rounds may follow, a single round is not enough to drop a candidate. After the last
    /// round the bounds alone decide.
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
            if self.bounds(leader, candidate).is_some_and(|(lo, _, _)| lo > 0.0) {
                self.out[candidate] = Some(Out::Slower { than: leader, race_rounds: self.race_rounds.len() });
            }
        }
    }

    /// Returns the candidates that may still win.
    pub fn left(&self) -> Vec<usize> {
        (0..self.out.len()).filter(|candidate| self.out[*candidate].is_none()).collect()
    }

    /// Returns the number of race rounds so far.
    pub fn race_rounds(&self) -> usize {
        self.race_rounds.len()
    }

    /// Returns the number of race rounds of a candidate.
    fn race_rounds_of(&self, candidate: usize) -> usize {
        self.race_rounds.iter().flatten().filter(|entry| entry.candidate == candidate).count()
    }

    /// Returns the fastest remaining candidate.
    fn leader(&self) -> Option<usize> {
        let fit = self.fit.as_ref()?;
        let speed = |candidate: usize| fit.difference(candidate, 0).map(|found| (candidate, found.estimate));
        self.left().into_iter().filter_map(speed).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(candidate, _)| candidate)
    }

    /// Returns how much faster `a` is than `b`, as a logarithm: lower bound, estimate, upper bound. An answer is wrong
    /// only if the best candidate is underestimated, so each end has the whole share of a pair.
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
            let left = self.left();
            let cannot_win = |rival: &usize| {
                *rival == leader || self.bounds(*rival, leader).is_some_and(|(_, _, most)| most <= limit)
            };
            left.iter().all(cannot_win)
        })
    }

    /// Returns the ratio of the candidates `with` an option to those `without`, and its interval, if the rounds were
    /// fixed in advance. `many` such t-intervals hold together with probability 1 minus the error.
    pub fn effect(&self, with: &[usize], without: &[usize], many: usize) -> Option<(f64, Interval)> {
        let fit = self.fit.as_ref()?;
        let (estimate, error) = fit.contrast(with, without)?;
        let half = t_quantile(1.0 - self.settings.error / many.max(1) as f64, fit.degrees) * error;
        let interval = Interval { lo: libm::exp(estimate - half), hi: libm::exp(estimate + half) };
        Some((libm::exp(estimate), interval))
    }

    pub fn standing(&self) -> Standing {
        let leader = self.leader();
        let known = |candidate: usize| {
            let bounds = self.interval(candidate, 0, self.share()).filter(|_| candidate != 0);
            let finite = bounds.filter(|(lo, _, hi)| lo.is_finite() && hi.is_finite());
            let most = leader.and_then(|leader| self.bounds(candidate, leader)).map(|(_, _, most)| libm::exp(most));
            Known {
                race_rounds: self.race_rounds_of(candidate),
                ratio: bounds.map(|(_, estimate, _)| libm::exp(estimate)),
                interval: finite.map(|(lo, _, hi)| Interval { lo: libm::exp(lo), hi: libm::exp(hi) }),
                at_most: most.filter(|most| most.is_finite() && Some(candidate) != leader),
                out: self.out[candidate].clone(),
            }
        };
        Standing { leader, decided: self.is_decided(), candidates: (0..self.out.len()).map(known).collect() }
    }
}

/// A candidate stays in a running race for at least this number of rounds.
const FEWEST_RACE_ROUNDS: usize = 2;

/// The prior precision φ of a difference in units of σ. The bound is narrowest where 1/v is about sixteen times that,
/// which is what a race of forty candidates needs to separate losers from others.
const PRECISION: f64 = 0.25;

/// Returns the half-width of the interval for a difference with the variance s²·`v`, in units of s, or infinity if the
/// degrees of freedom are too few. `error` is the probability that the interval ever misses the truth.
///
/// A difference δ of two candidates is estimated by least squares with the variance σ²v, and σ² by s² with ν degrees of
/// freedom. The prior of δ/σ is normal with the precision φ. The other priors leave everything else open (right Haar:
/// flat on effects, 1/σ on the scale). The Bayes factor against a difference of δ₀ is
///
/// ```text
/// B = √(φ/(φ+z)) · ((1 + t²/ν · φ/(φ+z)) / (1 + t²/ν))^(−(ν+1)/2)     z = 1/v, t = (d − δ₀)/(s√v)
/// ```
///
/// If δ₀ is the truth, B is a martingale of mean 1 under normal errors whatever σ is, so that the probability that it
/// ever reaches 1/α is at most α (Ville). The values δ₀ that it does not reject are therefore an interval that holds at
/// all interim analyses together, whatever decides their times. It is Lai's t mixture (T. L. Lai, Ann. Statist. 4,
/// 1976; H. Wang and A. Ramdas, arXiv:2310.03722, 2023) for a contrast of a linear model (M. Lindon and others,
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
    /// Draws the next race round of at most `places` candidates: the baseline, and those of the remaining candidates
    /// with the fewest rounds, at random among equals. Of all assignments of slices, it chooses the one that puts
    /// candidates on the slices where they were least often. Among equal assignments it chooses at random, without
    /// regard to the results.
    pub fn draw(&self, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot =
            Pcg64::seed_from_u64(seed ^ (self.race_rounds.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut others: Vec<(usize, u64, usize)> = self
            .left()
            .into_iter()
            .filter(|candidate| *candidate != 0)
            .map(|candidate| (self.race_rounds_of(candidate), lot.next_u64(), candidate))
            .collect();
        others.sort_unstable();
        let others = others.into_iter().take(places.saturating_sub(1)).map(|(_, _, candidate)| candidate);
        let chosen: Vec<usize> = std::iter::once(0).chain(others).collect();
        self.placed(chosen, places, &mut lot)
    }

    /// Puts these candidates on slices for the next race round.
    pub fn place(&self, chosen: Vec<usize>, places: usize, seed: u64) -> Vec<Drawn> {
        let mut lot =
            Pcg64::seed_from_u64(seed ^ (self.race_rounds.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.placed(chosen, places, &mut lot)
    }

    fn placed(&self, chosen: Vec<usize>, places: usize, lot: &mut Pcg64) -> Vec<Drawn> {
        let slices = self.slices(&chosen, places, lot);
        chosen.into_iter().zip(slices).map(|(candidate, slice)| Drawn { candidate, slice }).collect()
    }

    fn slices(&self, chosen: &[usize], places: usize, lot: &mut Pcg64) -> Vec<u32> {
        let often = |candidate: usize, slice: u32| {
            let there = |entry: &&Entry| entry.candidate == candidate && entry.slice == Some(slice);
            self.race_rounds.iter().flatten().filter(there).count()
        };
        let cost: Vec<Vec<usize>> = chosen
            .iter()
            .map(|candidate| (0..places as u32).map(|slice| often(*candidate, slice).pow(2)).collect())
            .collect();
        let mut best: Option<((usize, u64), Vec<u32>)> = None;
        for way in ways(chosen.len(), places) {
            let sum = way.iter().enumerate().map(|(at, slice)| cost[at][*slice as usize]).sum();
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
        let longer = |way: Vec<u32>| {
            let free: Vec<u32> = (0..slices as u32).filter(|slice| !way.contains(slice)).collect();
            free.into_iter().map(move |slice| way.iter().copied().chain([slice]).collect())
        };
        ways = ways.into_iter().flat_map(longer).collect();
    }
    ways
}

#[cfg(test)]
mod tests;
