//! Which of many is the fastest: a race in heats, from which losers are dropped.
//!
//! Candidates are measured in heats of a few, each with the reference. After each heat all heats so far are fitted
//! (`fit`), and intervals of all differences from the fastest one follow that hold at every look (`bound`): a candidate
//! that is surely slower than another is dropped (successive elimination: E. Even-Dar, S. Mannor and Y. Mansour, J. Mach.
//! Learn. Res. 7, 2006), and the race ends when nobody left can be faster than the leader by more than θ. The probability
//! that the answer is worse than the best by more than θ is at most the error that was asked for: for that the bounds
//! between the best one and each other must hold, which share it evenly (Bonferroni). The intervals of ratios to the reference
//! hold together with the same probability.

mod bound;
mod draw;
mod entry;
mod fit;

use serde::Serialize;

use crate::Interval;
use crate::distribution::t_quantile;
use fit::Fit;

pub use draw::Drawn;
pub use entry::Entry;

/// What is asked of a race.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The probability with which the answer may be worse than the best by more than that.
    pub error: f64,
}

/// Why a candidate is not in the race any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Out {
    /// It is surely slower than this one.
    Slower {
        /// Which candidate.
        than: usize,
        /// After so many heats.
        heats: usize,
    },
    /// It has no values.
    Failed,
}

/// A race under way.
#[derive(Debug, Clone)]
pub struct Race {
    settings: Settings,
    out: Vec<Option<Out>>,
    heats: Vec<Vec<Entry>>,
    fit: Option<Fit>,
}

/// What a race knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The fastest so far; absent before the first heat.
    pub leader: Option<usize>,
    /// Nobody left can be faster than the leader by more than θ: the race is over.
    pub decided: bool,
    pub candidates: Vec<Known>,
}

/// What is known of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Heats that it has a value of.
    pub heats: usize,
    /// Its speed as a ratio of the reference's.
    pub ratio: Option<f64>,
    /// The interval of that ratio, which holds at all looks and for all candidates together.
    pub interval: Option<Interval>,
    /// The most that it may be faster than the leader, as a ratio.
    pub at_most: Option<f64>,
    /// Why it is not in the race any more.
    pub out: Option<Out>,
}

impl Race {
    /// Between so many candidates, the reference included.
    pub fn new(candidates: usize, settings: Settings) -> Race {
        Race { settings, out: vec![None; candidates], heats: Vec::new(), fit: None }
    }

    /// A candidate that cannot be measured takes no part any more.
    pub fn withdraw(&mut self, candidate: usize) {
        self.out[candidate] = Some(Out::Failed);
    }

    /// Adds what a heat measured, and drops those who are surely slower than another by now. A heat without the reference, or
    /// with nobody else, tells nothing.
    pub fn add(&mut self, heat: Vec<Entry>) {
        if heat.len() < 2 || !heat.iter().any(|entry| entry.candidate == 0) {
            return;
        }
        self.heats.push(heat);
        self.look();
    }

    /// Fits all heats so far, and drops those who are surely slower.
    fn look(&mut self) {
        self.fit = Fit::of(self.out.len(), &self.heats);
        let Some(leader) = self.leader() else { return };
        if self.heats_of(leader) >= FEWEST_HEATS {
            self.drop_slower(leader, FEWEST_HEATS);
        }
    }

    /// There is no heat after this one: once is luck as long as another heat may tell, but now the bounds alone say who is
    /// surely slower.
    pub fn conclude(&mut self) {
        if let Some(leader) = self.leader() {
            self.drop_slower(leader, 1);
        }
    }

    /// Drops those of at least so many heats that are surely slower than the leader.
    fn drop_slower(&mut self, leader: usize, fewest: usize) {
        for candidate in self.left() {
            if candidate == leader || self.heats_of(candidate) < fewest {
                continue;
            }
            if self.bounds(leader, candidate).is_some_and(|(lo, _, _)| lo > 0.0) {
                self.out[candidate] = Some(Out::Slower { than: leader, heats: self.heats.len() });
            }
        }
    }

    /// Candidates that may still win.
    pub fn left(&self) -> Vec<usize> {
        (0..self.out.len()).filter(|candidate| self.out[*candidate].is_none()).collect()
    }

    /// How many heats there were.
    pub fn heats(&self) -> usize {
        self.heats.len()
    }

    /// In how many heats a candidate was.
    fn heats_of(&self, candidate: usize) -> usize {
        self.heats.iter().flatten().filter(|entry| entry.candidate == candidate).count()
    }

    /// The fastest of those that are left.
    fn leader(&self) -> Option<usize> {
        let fit = self.fit.as_ref()?;
        let speed = |candidate: usize| fit.difference(candidate, 0).map(|found| (candidate, found.estimate));
        self.left().into_iter().filter_map(speed).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(candidate, _)| candidate)
    }

    /// How much faster `a` is than `b`, as a logarithm: at least, as estimated, at most. An answer is wrong only where the
    /// best one is underestimated, so that each end has the whole share of a pair.
    fn bounds(&self, a: usize, b: usize) -> Option<(f64, f64, f64)> {
        self.interval(a, b, 2.0 * self.share())
    }

    /// The same where both ends together miss the truth with this probability.
    fn interval(&self, a: usize, b: usize, error: f64) -> Option<(f64, f64, f64)> {
        let fit = self.fit.as_ref()?;
        let found = fit.difference(a, b)?;
        let half = found.scale * bound::half_width(found.v, fit.degrees, error);
        Some((found.estimate - half, found.estimate, found.estimate + half))
    }

    /// The error of one pair of all with the same candidate.
    fn share(&self) -> f64 {
        self.settings.error / (self.out.len().max(2) - 1) as f64
    }

    /// Whether nobody left can be faster than the leader by more than θ.
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

    /// What the candidates `with` an option are to those `without`, as a ratio with its interval, if the heats were fixed
    /// beforehand: t intervals of `many` such effects that hold together with the probability 1 less the error.
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
                heats: self.heats_of(candidate),
                ratio: bounds.map(|(_, estimate, _)| libm::exp(estimate)),
                interval: finite.map(|(lo, _, hi)| Interval { lo: libm::exp(lo), hi: libm::exp(hi) }),
                at_most: most.filter(|most| most.is_finite() && Some(candidate) != leader),
                out: self.out[candidate].clone(),
            }
        };
        Standing { leader, decided: self.is_decided(), candidates: (0..self.out.len()).map(known).collect() }
    }
}

/// Nobody is dropped after fewer heats while the race goes on.
const FEWEST_HEATS: usize = 2;

#[cfg(test)]
mod tests;
