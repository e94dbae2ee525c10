//! The difference of two samples, with its standard error and degrees of freedom.

use std::collections::BTreeMap;

use fsb_model::Better;

use crate::FEWEST_JUDGED;
use crate::block_value::{BlockValue, Method};
use crate::comparison::Comparison;
use crate::description::mean_and_sd;
use crate::distribution::{t_quantile, t_two_sided};
use crate::error::{AnalysisError, logarithm};
use crate::interval::{Interval, exp};
use crate::prior::{Known, Line};
use crate::runs::{Power, Unjudged};
use crate::sequential::Analysis;
use crate::verdict::Verdict;

/// A mean difference of logarithms with its standard error: all that intervals of any level need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(super) mean: f64,
    pub(super) error: f64,
    pub(super) degrees: f64,
    pub(super) n: usize,
    pub(super) method: Method,
    /// The variance of one block's difference; 0 where none is known.
    pub(super) variance: f64,
    /// The residuals of the blocks' differences; empty where runs are compared, or without an error.
    pub(super) residuals: Residuals,
    pub(super) unjudged: Option<Unjudged>,
    pub(super) power: Option<Power>,
}

/// The maximum number of blocks for the exact expectation. With more blocks, the fit has almost no effect on
/// neighbours.
const MOST_EXACT: usize = 60;

/// The residuals of the differences of blocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Residuals {
    /// By block, in their order.
    pub by_block: Vec<(u32, f64)>,
    /// The sum of products of neighbours that is expected of independent blocks, in variances of a difference: what the fit
    /// makes.
    pub by_fit: f64,
    /// The derivative of that expectation with respect to the correlation of neighbouring blocks, at 0. For normal errors it is the
    /// variance of the sum, too.
    pub slope: f64,
    /// The mean over blocks of the variance of a difference that the samples within the block explain; `None` unless all tell.
    pub within: Option<f64>,
}

impl Residuals {
    /// Creates residuals. `covariance` is the covariance at two places if blocks are independent, in variances of a
    /// difference.
    pub fn new(by_block: Vec<(u32, f64)>, within: Option<f64>, covariance: &dyn Fn(usize, usize) -> f64) -> Residuals {
        let n = by_block.len();
        let neighbours: Vec<bool> = by_block.windows(2).map(|pair| pair[1].0 == pair[0].0 + 1).collect();
        let places = || (1..n).filter(|place| neighbours[place - 1]);
        let by_fit = places().map(|place| covariance(place - 1, place)).sum();
        if n > MOST_EXACT {
            return Residuals { by_block, by_fit, slope: places().count() as f64, within };
        }
        // Of covariance H, and of H + ρH(L + L')H if neighbours, which L marks, have the correlation ρ: to first order in ρ.
        let h: Vec<Vec<f64>> = (0..n).map(|row| (0..n).map(|column| covariance(row, column)).collect()).collect();
        let both = |row: usize, column: usize| {
            h[row][column - 1] * h[column][row - 1] + h[row][column] * h[column - 1][row - 1]
        };
        let products: f64 =
            places().flat_map(|row| places().map(move |column| (row, column))).map(|(r, c)| both(r, c)).sum();
        let trace: f64 = (0..n).map(|place| h[place][place]).sum();
        let slope = if trace > 0.0 { products - 2.0 * by_fit * by_fit / trace } else { 0.0 };
        Residuals { by_block, by_fit, slope: slope.max(0.0), within }
    }

    /// Pairs of neighbouring blocks.
    pub fn neighbours(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let pairs = self.by_block.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1);
        pairs.map(|pair| (pair[0].1, pair[1].1))
    }
}

impl Difference {
    /// An interval needs at least this many degrees of freedom.
    pub(crate) const FEWEST_DEGREES: f64 = 1.0 - 1e-9;

    /// Creates a difference from a model, which also gives the variance of one block's difference.
    pub(crate) fn fitted(
        mean: f64,
        error: f64,
        variance: f64,
        degrees: f64,
        n: usize,
        residuals: Residuals,
    ) -> Difference {
        let method = Method::PairedOnParts;
        Difference { mean, error, degrees, n, method, variance, residuals, unjudged: None, power: None }
    }

    /// Of blocks that tell no error.
    pub(crate) fn without_interval(mean: f64, n: usize) -> Difference {
        Difference::fitted(mean, 0.0, 0.0, 0.0, n, Residuals::default())
    }

    pub(crate) fn paired(
        baseline: &[BlockValue],
        candidate: &[BlockValue],
    ) -> Result<Option<Difference>, AnalysisError> {
        let baseline: BTreeMap<u32, &BlockValue> = baseline.iter().map(|value| (value.block, value)).collect();
        let candidate: BTreeMap<u32, &BlockValue> = candidate.iter().map(|value| (value.block, value)).collect();
        let common = || candidate.iter().filter_map(|(block, c)| Some((*block, *baseline.get(block)?, *c)));
        let difference =
            |(block, b, c): (u32, &BlockValue, &BlockValue)| Ok((block, logarithm(c.value)? - logarithm(b.value)?));
        let differences: Vec<(u32, f64)> = common().map(difference).collect::<Result<_, AnalysisError>>()?;
        let within: Option<f64> = common().map(|(_, b, c)| Some(b.within? + c.within?)).sum();
        let within = within.map(|sum| sum / differences.len() as f64);
        Ok(Difference::of_differences(&differences, within))
    }

    /// From one difference of logarithms a block.
    pub(crate) fn of_blocks(differences: &[f64]) -> Option<Difference> {
        Difference::of_differences(&(1..).zip(differences.iter().copied()).collect::<Vec<_>>(), None)
    }

    fn of_differences(differences: &[(u32, f64)], within: Option<f64>) -> Option<Difference> {
        if differences.is_empty() {
            return None;
        }
        let n = differences.len();
        let (mean, sd) = mean_and_sd(&differences.iter().map(|(_, difference)| *difference).collect::<Vec<_>>());
        let degrees = (n as f64 - 1.0).max(1.0);
        let by_block: Vec<(u32, f64)> = differences.iter().map(|(block, d)| (*block, d - mean)).collect();
        // Each residual has the mean taken out, which all blocks share.
        let covariance = |row: usize, column: usize| f64::from(u8::from(row == column)) - 1.0 / n as f64;
        let residuals = Residuals::new(by_block, within, &covariance);
        let fitted = Difference::fitted(mean, sd / (n as f64).sqrt(), sd * sd, degrees, n, residuals);
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
        Difference { mean, error, degrees, n, method, variance: 0.0, residuals: Residuals::default(), unjudged, power }
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

    /// Two-sided probability of such a difference between equals, at this analysis alone.
    pub(crate) fn p_value(&self) -> Option<f64> {
        self.p_value_beyond(0.0)
    }

    /// Probability of a difference at least as far from 0, either way, if the true one is the nearest within ±`theta`, a
    /// logarithm.
    pub(crate) fn p_value_beyond(&self, theta: f64) -> Option<f64> {
        let beyond = |distance: f64| match () {
            () if distance <= 0.0 => 1.0 - 0.5 * t_two_sided(distance / self.error, self.degrees),
            () => 0.5 * t_two_sided(distance / self.error, self.degrees),
        };
        match () {
            () if !self.has_interval() => None,
            () if self.mean.abs() <= theta => Some(1.0),
            () => Some(beyond(self.mean.abs() - theta) + beyond(self.mean.abs() + theta)),
        }
    }

    /// The same with what the page tells of its variance, and with its standard error times `inflation`.
    pub(crate) fn moderated(&self, prior: Option<&Line>, inflation: f64) -> Difference {
        let moderated = match prior {
            Some(prior) if !self.is_of_runs() && self.is_judged() => {
                let (variance, degrees) = prior.posterior(&self.known());
                // Without any scatter of its own, its error is that of a mean over blocks.
                let error = match self.variance > 0.0 {
                    true => self.error * (variance / self.variance).sqrt(),
                    false => (variance / self.n as f64).sqrt(),
                };
                Difference { error, degrees, ..self.clone() }
            }
            _ => self.clone(),
        };
        match self.is_of_runs() {
            true => moderated,
            false => Difference { error: moderated.error * inflation, ..moderated },
        }
    }

    /// The squared standard error in variances of one block's difference.
    pub(crate) fn leverage(&self) -> f64 {
        if self.variance > 0.0 { self.error * self.error / self.variance } else { 1.0 / self.n as f64 }
    }

    /// The variance of one block's difference. Samples that do not scatter at all tell nothing of it.
    pub(crate) fn known(&self) -> Known {
        let within = self.residuals.within.filter(|within| *within > 0.0);
        Known { variance: self.variance, degrees: self.degrees, within }
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

    /// Judged by the interval of `level`, which all analyses hold together.
    pub(crate) fn judged(&self, level: f64, analysis: &Analysis, better: Better, theta: f64) -> Comparison {
        let nominal_level = 1.0 - analysis.nominal(1.0 - level);
        let interval = self.interval(nominal_level);
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
            p_value: self.p_value().map(|p| analysis.overall(p)),
            nominal_level: (!analysis.is_only()).then_some(nominal_level),
            verdict,
            unjudged: self.unjudged,
            power: self.power,
        }
    }
}
