//! The difference of two samples, with its standard error and degrees of freedom.

use fsb_model::Better;

use crate::FEWEST_JUDGED;
use crate::block_value::{BlockValue, Method, by_block};
use crate::comparison::Comparison;
use crate::description::mean_and_sd;
use crate::distribution::{t_quantile, t_two_sided};
use crate::error::AnalysisError;
use crate::interval::{Interval, exp};
use crate::runs::{Power, Unjudged};
use crate::sequential::Boundary;
use crate::verdict::Verdict;

/// A mean difference of logarithms with its standard error: all that intervals of any level need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference {
    pub(super) mean: f64,
    pub(super) error: f64,
    pub(super) degrees: f64,
    pub(super) n: usize,
    pub(super) method: Method,
    /// The variance of one block's difference; 0 where none is known.
    pub(super) variance: f64,
    pub(super) unjudged: Option<Unjudged>,
    pub(super) power: Option<Power>,
}

impl Difference {
    /// An interval needs at least this many degrees of freedom.
    pub(crate) const FEWEST_DEGREES: f64 = 1.0 - 1e-9;

    /// From a model, which also says how much one block's difference varies.
    pub(crate) fn fitted(mean: f64, error: f64, variance: f64, degrees: f64, n: usize) -> Difference {
        Difference { mean, error, degrees, n, method: Method::PairedOnParts, variance, unjudged: None, power: None }
    }

    /// Of blocks that tell no error.
    pub(crate) fn without_interval(mean: f64, n: usize) -> Difference {
        Difference::fitted(mean, 0.0, 0.0, 0.0, n)
    }

    pub(crate) fn paired(
        baseline: &[BlockValue],
        candidate: &[BlockValue],
    ) -> Result<Option<Difference>, AnalysisError> {
        let (baseline, candidate) = (by_block(baseline)?, by_block(candidate)?);
        let differences: Vec<f64> =
            baseline.iter().filter_map(|(block, b)| candidate.get(block).map(|c| c - b)).collect();
        Ok(Difference::of_blocks(&differences))
    }

    /// From one difference of logarithms a block.
    pub(crate) fn of_blocks(differences: &[f64]) -> Option<Difference> {
        if differences.is_empty() {
            return None;
        }
        let n = differences.len();
        let (mean, sd) = mean_and_sd(differences);
        let degrees = (n as f64 - 1.0).max(1.0);
        let fitted = Difference::fitted(mean, sd / (n as f64).sqrt(), sd * sd, degrees, n);
        Some(Difference { method: Method::Paired, ..fitted })
    }

    /// From runs: a standard error with its degrees of freedom, and the reason why it is not judged, if any.
    pub(crate) fn of_runs(
        mean: f64,
        (error, degrees): (f64, f64),
        n: usize,
        method: Method,
        unjudged: Option<Unjudged>,
        power: Option<Power>,
    ) -> Difference {
        Difference { mean, error, degrees, n, method, variance: 0.0, unjudged, power }
    }

    /// The mean difference of logarithms.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of one block's difference.
    pub(crate) fn spread(&self) -> Option<f64> {
        (!self.is_of_runs()).then(|| self.variance.sqrt())
    }

    pub(super) fn is_of_runs(&self) -> bool {
        matches!(self.method, Method::Welch | Method::PairedRuns)
    }

    /// Of a single run the variation between runs must be known from elsewhere; sides that share no session say nothing of how
    /// sessions vary.
    pub(super) fn has_interval(&self) -> bool {
        let known = match self.is_of_runs() {
            true => match self.unjudged {
                Some(Unjudged::OneRun | Unjudged::NoSharedSession | Unjudged::Withheld) => false,
                Some(Unjudged::FewRuns) => self.n >= 2,
                None => true,
            },
            false => self.n >= 2,
        };
        known && self.degrees >= Difference::FEWEST_DEGREES
    }

    /// Two-sided probability of such a difference between equals, at this look alone.
    pub(crate) fn p_value(&self) -> Option<f64> {
        match () {
            () if !self.has_interval() => None,
            () if self.mean == 0.0 => Some(1.0),
            () => Some(t_two_sided(self.mean / self.error, self.degrees)),
        }
    }

    pub(crate) fn is_judged(&self) -> bool {
        let enough = if self.is_of_runs() { self.unjudged.is_none() } else { self.n >= FEWEST_JUDGED };
        enough && self.has_interval()
    }

    /// The interval on the scale of logarithms.
    pub(crate) fn interval(&self, level: f64) -> Option<Interval> {
        let half = t_quantile(level, self.degrees) * self.error;
        self.has_interval().then_some(Interval { lo: self.mean - half, hi: self.mean + half })
    }

    /// Judged by the interval of `level`, which holds at all looks of `boundary` together if there is one.
    pub(crate) fn judged(&self, level: f64, boundary: Option<&Boundary>, better: Better, theta: f64) -> Comparison {
        let nominal_level = boundary.map(|boundary| 1.0 - boundary.nominal(1.0 - level));
        let interval = self.interval(nominal_level.unwrap_or(level));
        let verdict = match interval {
            Some(interval) if self.is_judged() => Verdict::of(interval, theta, better),
            _ => Verdict::NotJudged,
        };
        Comparison {
            ratio: exp(self.mean),
            interval: interval.map(Interval::exp),
            level,
            n: self.n,
            method: self.method,
            p_value: self.p_value().map(|p| boundary.map_or(p, |boundary| boundary.overall(p))),
            nominal_level,
            verdict,
            unjudged: self.unjudged,
            power: self.power,
        }
    }
}
