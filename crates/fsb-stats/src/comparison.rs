//! The comparison of two samples: the difference by blocks or by runs, with its standard error and
//! degrees of freedom, and the judged ratio.
//!
//! Runs are compared by one mean of logarithms for each run, never by pooled blocks
//! ([`RunContrast`]).

use std::collections::BTreeMap;

use fsb_model::Better;
use serde::{Deserialize, Serialize};

use crate::description::{mean_and_sd, t_quantile, t_two_sided};
use crate::prior::{Known, Line, Prior};
use crate::sample::{AnalysisError, BlockValue, Method, Sample, by_block, logarithm};
use crate::sequential::Analysis;
use crate::terms::{Power, Terms, Unjudged, satterthwaite};
use crate::verdict::{Interval, Verdict, exp};
use crate::{FEWEST_JUDGED, FEWEST_RUNS_JUDGED, LEVEL};

/// Candidate over baseline, with its uncertainty and verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Candidate / baseline; whether more is better is the metric's matter.
    pub ratio: f64,
    /// The interval of the ratio; absent below two blocks.
    pub interval: Option<Interval>,
    /// The level of the interval: 0.95, or more where several intervals hold together.
    pub level: f64,
    /// The level of the analysis that the interval is of, where a run has interim analyses: with it
    /// all of them together keep `level`. Absent where the number of blocks was fixed beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_level: Option<f64>,
    /// Blocks in common, runs in common, or runs on the smaller side: see `method`.
    pub n: usize,
    /// The method of the comparison.
    pub method: Method,
    /// Two-sided probability of such a difference between equals, at any of the analyses; absent
    /// without an interval.
    pub p_value: Option<f64>,
    /// The verdict from the interval.
    pub verdict: Verdict,
    /// The reason why a pair that is compared by runs has no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Unjudged>,
    /// The changes that the comparison of runs can show; absent where blocks are compared, or
    /// nothing is known of how runs vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// The logarithm of the ratio with its error, for an analysis of several runs. Absent without
    /// an interval, and in a comparison that was read from a file.
    #[serde(skip)]
    pub effect: Option<Effect>,
}

/// A mean log-ratio with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The natural logarithm of candidate / baseline.
    pub log_ratio: f64,
    /// The standard error.
    pub error: f64,
    /// The degrees of freedom of the standard error.
    pub degrees: f64,
}

impl Effect {
    /// Returns the same estimate with the roles of baseline and candidate exchanged.
    pub fn inverse(self) -> Effect {
        Effect {
            log_ratio: -self.log_ratio,
            ..self
        }
    }
}

impl Comparison {
    /// Returns the same comparison with the roles of baseline and candidate exchanged.
    pub fn inverse(&self) -> Comparison {
        let inverted = |value: f64| (1.0 / value).clamp(f64::MIN_POSITIVE, f64::MAX);
        Comparison {
            ratio: inverted(self.ratio),
            interval: self.interval.map(|i| Interval {
                lo: inverted(i.hi),
                hi: inverted(i.lo),
            }),
            verdict: self.verdict.inverse(),
            effect: self.effect.map(Effect::inverse),
            ..self.clone()
        }
    }
}

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
    /// The residuals of the blocks' differences; empty where runs are compared, or without an
    /// error.
    pub(super) residuals: Residuals,
    pub(super) unjudged: Option<Unjudged>,
    pub(super) power: Option<Power>,
}

/// The maximum number of blocks for the exact expectation. With more blocks, the fit has almost no
/// effect on neighbours.
const MOST_EXACT: usize = 60;

/// The residuals of the differences of blocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Residuals {
    /// By block, in their order.
    pub by_block: Vec<(u32, f64)>,
    /// The sum of products of neighbours that is expected of independent blocks, in variances of a
    /// difference: what the fit makes.
    pub by_fit: f64,
    /// The derivative of that expectation with respect to the correlation of neighbouring blocks,
    /// at 0. For normal errors it is the variance of the sum, too.
    pub slope: f64,
    /// The mean over blocks of the variance of a difference that the samples within the block
    /// explain; `None` unless all tell.
    pub within: Option<f64>,
}

impl Residuals {
    /// Creates residuals. `covariance` is the covariance at two places if blocks are independent,
    /// in variances of a difference.
    pub fn new(
        by_block: Vec<(u32, f64)>,
        within: Option<f64>,
        covariance: &dyn Fn(usize, usize) -> f64,
    ) -> Residuals {
        let n = by_block.len();
        let places: Vec<usize> = (1..n)
            .filter(|place| by_block[*place].0 == by_block[place - 1].0 + 1)
            .collect();
        let by_fit = places
            .iter()
            .map(|place| covariance(place - 1, *place))
            .sum();
        if n > MOST_EXACT {
            return Residuals {
                by_block,
                by_fit,
                slope: places.len() as f64,
                within,
            };
        }
        // Of covariance H, and of H + ρH(L + L')H if neighbours, which L marks, have the
        // correlation ρ: to first order in ρ.
        let h: Vec<Vec<f64>> = (0..n)
            .map(|row| (0..n).map(|column| covariance(row, column)).collect())
            .collect();
        let mut products = 0.0;
        for &r in &places {
            for &c in &places {
                products += h[r][c - 1] * h[c][r - 1] + h[r][c] * h[c - 1][r - 1];
            }
        }
        let trace: f64 = (0..n).map(|place| h[place][place]).sum();
        let slope = if trace > 0.0 {
            products - 2.0 * by_fit * by_fit / trace
        } else {
            0.0
        };
        Residuals {
            by_block,
            by_fit,
            slope: slope.max(0.0),
            within,
        }
    }

    /// Pairs of neighbouring blocks.
    pub fn neighbours(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let pairs = self
            .by_block
            .windows(2)
            .filter(|pair| pair[1].0 == pair[0].0 + 1);
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
        let method = Method::PairedOnSlices;
        Difference {
            mean,
            error,
            degrees,
            n,
            method,
            variance,
            residuals,
            unjudged: None,
            power: None,
        }
    }

    /// Of blocks that tell no error.
    pub(crate) fn without_interval(mean: f64, n: usize) -> Difference {
        Difference::fitted(mean, 0.0, 0.0, 0.0, n, Residuals::default())
    }

    fn paired(
        baseline: &[BlockValue],
        candidate: &[BlockValue],
    ) -> Result<Option<Difference>, AnalysisError> {
        let baseline: BTreeMap<u32, &BlockValue> =
            baseline.iter().map(|value| (value.block, value)).collect();
        let candidate: BTreeMap<u32, &BlockValue> =
            candidate.iter().map(|value| (value.block, value)).collect();
        let (mut differences, mut within) = (Vec::new(), Some(0.0));
        for (block, c) in candidate {
            let Some(b) = baseline.get(&block) else {
                continue;
            };
            differences.push((block, logarithm(c.value)? - logarithm(b.value)?));
            within = within.and_then(|sum| Some(sum + (b.within? + c.within?)));
        }
        let within = within.map(|sum| sum / differences.len() as f64);
        Ok(Difference::of_differences(&differences, within))
    }

    /// From one difference of logarithms a block.
    pub(crate) fn of_blocks(differences: &[f64]) -> Option<Difference> {
        Difference::of_differences(
            &(1..).zip(differences.iter().copied()).collect::<Vec<_>>(),
            None,
        )
    }

    fn of_differences(differences: &[(u32, f64)], within: Option<f64>) -> Option<Difference> {
        if differences.is_empty() {
            return None;
        }
        let n = differences.len();
        let (mean, sd) = mean_and_sd(
            &differences
                .iter()
                .map(|(_, difference)| *difference)
                .collect::<Vec<_>>(),
        );
        let degrees = (n as f64 - 1.0).max(1.0);
        let by_block: Vec<(u32, f64)> = differences
            .iter()
            .map(|(block, d)| (*block, d - mean))
            .collect();
        // Each residual has the mean taken out, which all blocks share.
        let residuals = Residuals::new(by_block, within, &|row, column| {
            f64::from(u8::from(row == column)) - 1.0 / n as f64
        });
        let fitted =
            Difference::fitted(mean, sd / (n as f64).sqrt(), sd * sd, degrees, n, residuals);
        Some(Difference {
            method: Method::Paired,
            ..fitted
        })
    }

    /// From runs: a standard error with its degrees of freedom, and the reason why it is not
    /// judged, if any.
    fn of_runs(
        mean: f64,
        (error, degrees): (f64, f64),
        n: usize,
        method: Method,
        unjudged: Option<Unjudged>,
        power: Option<Power>,
    ) -> Difference {
        Difference {
            mean,
            error,
            degrees,
            n,
            method,
            variance: 0.0,
            residuals: Residuals::default(),
            unjudged,
            power,
        }
    }

    /// Returns the mean difference of logarithms.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the standard deviation of one block's difference.
    pub(crate) fn spread(&self) -> Option<f64> {
        (!self.is_of_runs()).then(|| self.variance.sqrt())
    }

    fn is_of_runs(&self) -> bool {
        matches!(self.method, Method::Welch | Method::PairedRuns)
    }

    /// Of a single run the variation between runs must be known from elsewhere; sides that share no
    /// session say nothing of how sessions vary.
    fn has_interval(&self) -> bool {
        let known = match self.is_of_runs() {
            true => match self.unjudged {
                Some(Unjudged::FewRuns) => self.n >= 2,
                Some(_) => false,
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

    /// Probability of a difference at least as far from 0, either way, if the true one is the
    /// nearest within ±`theta`, a logarithm.
    pub(crate) fn p_value_beyond(&self, theta: f64) -> Option<f64> {
        if !self.has_interval() || self.mean.abs() <= theta {
            return self.has_interval().then_some(1.0);
        }
        let [below, above] = [self.mean.abs() - theta, self.mean.abs() + theta]
            .map(|distance| 0.5 * t_two_sided(distance / self.error, self.degrees));
        Some(below + above)
    }

    /// Returns the difference with its variance moderated by `prior`, and with its standard error
    /// times `inflation`.
    pub(crate) fn moderated(&self, prior: Option<&Line>, inflation: f64) -> Difference {
        let moderated = match prior {
            Some(prior) if !self.is_of_runs() && self.is_judged() => {
                let (variance, degrees) = prior.posterior(&self.known());
                // Without any scatter of its own, its error is that of a mean over blocks.
                let error = match self.variance > 0.0 {
                    true => self.error * (variance / self.variance).sqrt(),
                    false => (variance / self.n as f64).sqrt(),
                };
                Difference {
                    error,
                    degrees,
                    ..self.clone()
                }
            }
            _ => self.clone(),
        };
        match self.is_of_runs() {
            true => moderated,
            false => Difference {
                error: moderated.error * inflation,
                ..moderated
            },
        }
    }

    /// Returns the squared standard error in variances of one block's difference.
    pub(crate) fn leverage(&self) -> f64 {
        if self.variance > 0.0 {
            self.error * self.error / self.variance
        } else {
            1.0 / self.n as f64
        }
    }

    /// Returns the variance of one block's difference with its degrees of freedom, and the part
    /// that rounds explain if it is positive.
    pub(crate) fn known(&self) -> Known {
        let within = self.residuals.within.filter(|within| *within > 0.0);
        Known {
            variance: self.variance,
            degrees: self.degrees,
            within,
        }
    }

    pub(crate) fn is_judged(&self) -> bool {
        let enough = if self.is_of_runs() {
            self.unjudged.is_none()
        } else {
            self.n >= FEWEST_JUDGED
        };
        enough && self.has_interval()
    }

    /// Returns the interval on the scale of logarithms.
    pub(crate) fn interval(&self, level: f64) -> Option<Interval> {
        let half = t_quantile(level, self.degrees) * self.error;
        self.has_interval()
            .then_some(Interval::around(self.mean, half))
    }

    /// Judged by the interval of `level`, which all analyses hold together.
    pub(crate) fn judged(
        &self,
        level: f64,
        analysis: &Analysis,
        better: Better,
        theta: f64,
    ) -> Comparison {
        let nominal_level = 1.0 - analysis.nominal(1.0 - level);
        let interval = self.interval(nominal_level);
        let verdict = match interval {
            Some(interval) if self.is_judged() => Verdict::from_interval(interval, theta, better),
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
            effect: interval.map(|_| Effect {
                log_ratio: self.mean,
                error: self.error,
                degrees: self.degrees,
            }),
        }
    }
}

/// The means of one side's runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunMeans {
    /// Means of logarithms, by the number of the run.
    means: BTreeMap<u32, f64>,
    /// The mean of the squared standard errors of the runs' means, and its degrees of freedom; 0
    /// where no run has blocks.
    within: f64,
    within_degrees: f64,
}

/// Two sides before they are judged.
///
/// Blocks of one run share its random effects (allocation, placement, the state of the host), so
/// the run is the unit. Each side is a sample of run means with equal weights, and the sides are
/// compared by Welch's method. Three runs on a side leave two degrees of freedom for a variance;
/// [`Prior`] borrows the rest from the other cases of the page. If the runs cannot show a component
/// themselves (one run on a side, sides without a common session), it is added as a given one
/// ([`Between`]) or leaves the pair unjudged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunContrast {
    /// Runs of the baseline and of the candidate.
    Independent(RunMeans, RunMeans),
    /// Differences, candidate less baseline, of targets that took turns in each of the runs.
    Paired(RunMeans),
}

impl RunMeans {
    /// From logarithms with the number of their run.
    fn from_logs(logs: impl Iterator<Item = (u32, f64)>) -> RunMeans {
        let mut by_run: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (run, log) in logs {
            by_run.entry(run).or_default().push(log);
        }
        let (mut squares, mut known, mut within_degrees) = (0.0, 0, 0);
        let mut means = BTreeMap::new();
        for (run, logs) in by_run {
            let (mean, sd) = mean_and_sd(&logs);
            means.insert(run, mean);
            if logs.len() > 1 {
                squares += sd * sd / logs.len() as f64;
                known += 1;
                within_degrees += logs.len() - 1;
            }
        }
        RunMeans {
            means,
            within: squares / f64::from(known.max(1)),
            within_degrees: within_degrees as f64,
        }
    }

    /// Of the values of one set.
    pub fn of_sample(sample: &Sample) -> Result<RunMeans, AnalysisError> {
        let logs = sample
            .values
            .iter()
            .zip(&sample.runs)
            .map(|(value, run)| Ok((*run, logarithm(value.value)?)));
        Ok(RunMeans::from_logs(
            logs.collect::<Result<Vec<_>, AnalysisError>>()?.into_iter(),
        ))
    }

    /// Of the differences of two sets that took turns in the same blocks, candidate less baseline.
    pub fn of_pairs(baseline: &Sample, candidate: &Sample) -> Result<RunMeans, AnalysisError> {
        let runs: BTreeMap<u32, u32> = baseline
            .values
            .iter()
            .zip(&baseline.runs)
            .map(|(value, run)| (value.block, *run))
            .collect();
        let (base, other) = (by_block(&baseline.values)?, by_block(&candidate.values)?);
        let common = other
            .iter()
            .filter_map(|(block, log)| Some((*runs.get(block)?, log - base.get(block)?)));
        Ok(RunMeans::from_logs(common))
    }

    pub fn runs(&self) -> usize {
        self.means.len()
    }

    /// Returns the variance of a run's mean that its blocks explain; 0 where no run has several.
    pub fn within(&self) -> f64 {
        self.within
    }

    /// By side and run: its distance from the mean.
    pub fn residuals(&self, side: usize) -> BTreeMap<(usize, u32), f64> {
        let mean = self.moments().0;
        self.means
            .iter()
            .map(|(run, log)| ((side, *run), log - mean))
            .collect()
    }

    /// Returns the mean of the runs, and the variance of one of them.
    pub fn moments(&self) -> (f64, f64) {
        let (mean, sd) = mean_and_sd(&self.means.values().copied().collect::<Vec<_>>());
        (mean, sd * sd)
    }

    pub fn degrees(&self) -> f64 {
        self.runs() as f64 - 1.0
    }
}

impl RunContrast {
    /// Fits the prior of the variances between runs to the cases of a page.
    pub(crate) fn prior(cases: &[RunContrast]) -> Option<Prior> {
        let variances: Vec<(f64, f64)> = cases.iter().flat_map(RunContrast::variances).collect();
        let residuals: Vec<BTreeMap<(usize, u32), f64>> =
            cases.iter().map(RunContrast::residuals).collect();
        Prior::fit(&variances, &residuals)
    }

    /// Candidate and baseline run by run; `None` where a side is empty or no run has both.
    pub fn between(
        baseline: &Sample,
        candidate: &Sample,
    ) -> Result<Option<RunContrast>, AnalysisError> {
        let contrast = match baseline.is_paired_with(candidate) {
            true => RunContrast::Paired(RunMeans::of_pairs(baseline, candidate)?),
            false => RunContrast::Independent(
                RunMeans::of_sample(baseline)?,
                RunMeans::of_sample(candidate)?,
            ),
        };
        let is_whole = contrast.sides().all(|side| side.runs() > 0);
        Ok(is_whole.then_some(contrast))
    }

    /// Of mean logarithms, one for each run.
    pub fn of_logarithms(baseline: &[f64], candidate: &[f64]) -> RunContrast {
        let [baseline, candidate] =
            [baseline, candidate].map(|logs| RunMeans::from_logs((0..).zip(logs.iter().copied())));
        RunContrast::Independent(baseline, candidate)
    }

    /// Of mean differences of logarithms, one for each run.
    pub fn of_differences(differences: &[f64]) -> RunContrast {
        RunContrast::Paired(RunMeans::from_logs((0..).zip(differences.iter().copied())))
    }

    fn sides(&self) -> impl Iterator<Item = &RunMeans> {
        let (first, second) = match self {
            RunContrast::Independent(baseline, candidate) => (baseline, Some(candidate)),
            RunContrast::Paired(differences) => (differences, None),
        };
        std::iter::once(first).chain(second)
    }

    /// Returns the variance between the runs of each side with its degrees of freedom. A side with
    /// a single run is left out.
    fn variances(&self) -> impl Iterator<Item = (f64, f64)> {
        self.sides()
            .filter(|side| side.runs() > 1)
            .map(|side| (side.moments().1, side.degrees()))
    }

    /// By side and run: its distance from the mean of the side.
    pub(crate) fn residuals(&self) -> BTreeMap<(usize, u32), f64> {
        self.sides()
            .enumerate()
            .flat_map(|(place, side)| side.residuals(place))
            .collect()
    }

    /// Judged on these terms.
    pub fn difference(&self, terms: &Terms) -> Difference {
        let least = self.sides().map(RunMeans::runs).min().unwrap_or(0);
        let most = self.sides().map(RunMeans::runs).max().unwrap_or(0);
        let (mean, method) = match self {
            RunContrast::Independent(baseline, candidate) => {
                (candidate.moments().0 - baseline.moments().0, Method::Welch)
            }
            RunContrast::Paired(differences) => (differences.moments().0, Method::PairedRuns),
        };
        let few = least < FEWEST_RUNS_JUDGED;
        let apart = terms
            .apart
            .filter(|_| matches!(self, RunContrast::Independent(..)));
        // The variance of one run on each side, the runs, and the degrees of freedom.
        let mut sides: Vec<(f64, f64, f64)> = Vec::new();
        for side in self.sides() {
            let mut own = (side.moments().1, side.degrees());
            if few && terms.between_runs.is_some() {
                own = (side.within, side.within_degrees.max(1.0));
            } else if let Some(prior) = terms.prior {
                own = prior.posterior(own);
            }
            sides.push((own.0, side.runs() as f64, own.1));
        }
        let (unjudged, stated) = match (few, apart, terms.between_runs, terms.between_sessions) {
            (true, _, None, _) if most == 1 => (Some(Unjudged::OneRun), None),
            (true, _, None, _) => (Some(Unjudged::FewRuns), None),
            (true, None, Some(between), _) => (
                None,
                Some((between, sides.iter().map(|side| side.1).collect())),
            ),
            (false, None, ..) => (None, None),
            (_, Some(_), _, None) => (Some(Unjudged::NoSharedSession), None),
            (_, Some(sessions), _, Some(between)) => (None, Some((between, weights(&sessions)))),
        };
        let mut parts: Vec<(f64, f64)> = sides
            .iter()
            .map(|(variance, runs, degrees)| (variance / runs, *degrees))
            .collect();
        let mut fixed = 0.0;
        if let Some((between, runs)) = &stated {
            let runs: &Vec<f64> = runs;
            for (side, runs) in self.sides().zip(runs) {
                // Runs that scatter by more than what is stated are not as alike as stated.
                let excess = match few && side.runs() > 1 {
                    true => side.moments().1 - side.within,
                    false => 0.0,
                };
                fixed += excess.max(between.sd * between.sd) / runs;
            }
            parts.push((fixed, between.degrees()));
        }
        // A single run shows no variation; only a prior or a stated component tells one.
        let is_known = least > 1 || terms.prior.is_some() || stated.is_some();
        let stated = stated.as_ref().map(|(between, _)| (between, fixed, few));
        let power = Power::from_sides(&sides, stated, terms).filter(|_| is_known);
        let (error, degrees) = satterthwaite(&parts);
        Difference::of_runs(mean, (error, degrees), least, method, unjudged, power)
    }
}

impl Sample {
    /// Returns the mean difference of logarithms of `candidate` from this sample. Comparisons
    /// between runs use `terms`.
    pub fn difference(
        &self,
        candidate: &Sample,
        terms: &Terms,
    ) -> Result<Option<Difference>, AnalysisError> {
        if self.is_compared_by_block(candidate) {
            return Difference::paired(&self.values, &candidate.values);
        }
        Ok(RunContrast::between(self, candidate)?.map(|contrast| contrast.difference(terms)))
    }
}

fn weights(sessions: &[usize; 2]) -> Vec<f64> {
    sessions.iter().map(|sessions| *sessions as f64).collect()
}

/// Compares by block: d = ln(candidate / baseline) in every common block, exp(d̄ ± t·s/√n).
///
/// `theta` is the smallest ratio that matters, 0.03 for 3 %. `None` where no block is in common. A
/// block that occurs twice counts with its last value.
pub fn paired(
    baseline: &[BlockValue],
    candidate: &[BlockValue],
    better: Better,
    theta: f64,
) -> Result<Option<Comparison>, AnalysisError> {
    Ok(Difference::paired(baseline, candidate)?
        .map(|difference| difference.judged(LEVEL, &Analysis::Only, better, theta)))
}

/// Compares two independent samples of runs on logarithms by Welch's method; `None` where a side is
/// empty.
pub fn welch(
    baseline: &[f64],
    candidate: &[f64],
    better: Better,
    theta: f64,
) -> Result<Option<Comparison>, AnalysisError> {
    let [baseline, candidate] = [baseline, candidate].map(|values| {
        let values = (0..).zip(values).map(|(run, v)| BlockValue::new(run, *v));
        Sample::of_runs(values.collect())
    });
    let contrast = RunContrast::between(&baseline, &candidate)?;
    Ok(contrast.map(|contrast| {
        contrast
            .difference(&Terms::default())
            .judged(LEVEL, &Analysis::Only, better, theta)
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::verdict::Verdict;

    fn blocks(values: &[f64]) -> Vec<BlockValue> {
        (1..)
            .zip(values)
            .map(|(block, value)| BlockValue::new(block, *value))
            .collect()
    }

    #[test]
    fn a_rate_that_doubles_is_faster_and_a_time_that_doubles_is_slower() {
        let (once, twice) = (
            blocks(&[100.0, 110.0, 95.0, 105.0, 99.0]),
            blocks(&[201.0, 219.0, 191.0, 210.0, 197.0]),
        );
        let rate = paired(&once, &twice, Better::Higher, 0.03)
            .unwrap()
            .unwrap();
        assert_eq!(rate.verdict, Verdict::Faster);
        assert!(rate.ratio > 1.98 && rate.ratio < 2.02, "{}", rate.ratio);
        let time = paired(&once, &twice, Better::Lower, 0.03).unwrap().unwrap();
        assert_eq!((time.ratio, time.verdict), (rate.ratio, Verdict::Slower));
    }

    #[test]
    fn only_blocks_in_common_count() {
        let long = blocks(&[100.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        let short = vec![BlockValue::new(2, 50.0), BlockValue::new(9, 70.0)];
        let comparison = paired(&long, &short, Better::Higher, 0.03)
            .unwrap()
            .unwrap();
        assert_eq!(
            (comparison.n, comparison.verdict, comparison.interval),
            (1, Verdict::NotJudged, None)
        );
        assert!((comparison.ratio - 0.5).abs() < 1e-12);
        assert_eq!(paired(&long, &[], Better::Higher, 0.03), Ok(None));
        assert_eq!(welch(&[1.0], &[], Better::Higher, 0.03), Ok(None));
    }

    #[test]
    fn without_any_spread_the_interval_is_a_point() {
        let (a, b) = (blocks(&[100.0; 6]), blocks(&[90.0; 6]));
        let exact = paired(&a, &b, Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!((exact.verdict, exact.p_value), (Verdict::Slower, Some(0.0)));
        let same = paired(&a, &a, Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!(
            (same.verdict, same.ratio, same.p_value),
            (Verdict::Equivalent, 1.0, Some(1.0))
        );
        let welch = welch(&[100.0; 6], &[90.0; 7], Better::Higher, 0.03)
            .unwrap()
            .unwrap();
        assert_eq!((welch.verdict, welch.n), (Verdict::Slower, 6));
    }

    #[test]
    fn a_value_that_is_not_a_rate_is_an_error() {
        let (good, bad) = (blocks(&[1.0; 5]), blocks(&[1.0, 2.0, 0.0, 1.0, 1.0]));
        assert_eq!(
            paired(&good, &bad, Better::Higher, 0.03),
            Err(AnalysisError::NotPositive(0.0))
        );
        assert_eq!(
            welch(&[1.0, -3.0], &[1.0], Better::Higher, 0.03),
            Err(AnalysisError::NotPositive(-3.0))
        );
    }

    proptest! {
        #[test]
        fn exchanging_the_roles_inverts_the_finding(
            a in prop::collection::vec(1.0f64..3.0, 5..12),
            b in prop::collection::vec(1.0f64..3.0, 5..12),
        ) {
            for (there, back) in [
                (paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03), paired(&blocks(&b), &blocks(&a), Better::Higher, 0.03)),
                (welch(&a, &b, Better::Lower, 0.03), welch(&b, &a, Better::Lower, 0.03)),
            ] {
                let (there, back) = (there.unwrap().unwrap(), back.unwrap().unwrap());
                prop_assert_eq!(there.verdict, back.verdict.inverse());
                let (i, j) = (there.interval.unwrap(), back.inverse().interval.unwrap());
                prop_assert!((i.lo / j.lo - 1.0).abs() < 1e-9 && (i.hi / j.hi - 1.0).abs() < 1e-9);
                prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
            }
        }

        #[test]
        fn another_unit_changes_no_verdict(
            a in prop::collection::vec(1.0f64..3.0, 5..12), factor in 1e-9f64..1e9, slowdown in 0.5f64..1.5,
        ) {
            let b: Vec<f64> = a.iter().enumerate().map(|(i, v)| v * slowdown * (1.0 + 0.01 * i as f64)).collect();
            let scaled = |values: &[f64]| blocks(&values.iter().map(|v| v * factor).collect::<Vec<_>>());
            let plain = paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03).unwrap().unwrap();
            let other = paired(&scaled(&a), &scaled(&b), Better::Higher, 0.03).unwrap().unwrap();
            prop_assert!((plain.ratio / other.ratio - 1.0).abs() < 1e-9);
            prop_assert_eq!(plain.verdict, other.verdict);
        }

        #[test]
        fn nothing_is_ever_infinite(exponents in prop::collection::vec((-300.0f64..300.0, -300.0f64..300.0), 1..9)) {
            let a: Vec<f64> = exponents.iter().map(|(e, _)| libm::pow(10.0, *e)).collect();
            let b: Vec<f64> = exponents.iter().map(|(_, e)| libm::pow(10.0, *e)).collect();
            for comparison in [
                paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03).unwrap().unwrap(),
                welch(&a, &b, Better::Higher, 0.03).unwrap().unwrap(),
            ] {
                for comparison in [comparison.inverse(), comparison] {
                    prop_assert!(comparison.ratio.is_finite() && comparison.ratio > 0.0);
                    prop_assert!(comparison.p_value.is_none_or(|p| (0.0..=1.0).contains(&p)));
                    let ends = comparison.interval.map_or([1.0, 1.0], |i| [i.lo, i.hi]);
                    prop_assert!(ends.iter().all(|end| end.is_finite() && *end > 0.0));
                    prop_assert!(ends[0] <= ends[1]);
                }
            }
        }
    }
}
