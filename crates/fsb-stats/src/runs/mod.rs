//! Comparisons between runs: one mean of logarithms for each run, never pooled blocks.
//!
//! Blocks of one run share its random effects (allocation, placement, the state of the host), so the run is the unit.
//! Each side is a sample of run means with equal weights, and the sides are compared by Welch's method. Three runs on a
//! side leave two degrees of freedom for a variance; [`Prior`] borrows the rest from the other cases of the page. If
//! the runs cannot show a component themselves (one run on a side, sides without a common session), it is added as a
//! given one ([`Between`]) or leaves the pair unjudged.

mod power;
mod terms;

use std::collections::BTreeMap;

use crate::FEWEST_RUNS_JUDGED;
use crate::block_value::{Method, by_block};
use crate::description::mean_and_sd;
use crate::difference::Difference;
use crate::error::{AnalysisError, logarithm};
use crate::prior::Prior;
use crate::sample::Sample;
pub use power::Power;
pub(crate) use terms::Terms;
use terms::satterthwaite;
pub use terms::{Between, BetweenSource, Unjudged};

/// The means of one side's runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunMeans {
    /// Means of logarithms, by the number of the run.
    means: BTreeMap<u32, f64>,
    /// The mean of the squared standard errors of the runs' means, and its degrees of freedom; 0 where no run has blocks.
    within: f64,
    within_degrees: f64,
}

/// Two sides before they are judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunContrast {
    /// Runs of the baseline and of the candidate.
    Independent(RunMeans, RunMeans),
    /// Differences, candidate less baseline, of targets that took turns in each of the runs.
    Paired(RunMeans),
}

impl RunMeans {
    /// From logarithms with the number of their run.
    fn of(logs: impl Iterator<Item = (u32, f64)>) -> RunMeans {
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
        RunMeans { means, within: squares / f64::from(known.max(1)), within_degrees: within_degrees as f64 }
    }

    /// Of the values of one set.
    pub fn of_sample(sample: &Sample) -> Result<RunMeans, AnalysisError> {
        let logs = sample.values.iter().zip(&sample.runs).map(|(value, run)| Ok((*run, logarithm(value.value)?)));
        Ok(RunMeans::of(logs.collect::<Result<Vec<_>, AnalysisError>>()?.into_iter()))
    }

    /// Of the differences of two sets that took turns in the same blocks, candidate less baseline.
    pub fn of_pairs(baseline: &Sample, candidate: &Sample) -> Result<RunMeans, AnalysisError> {
        let runs: BTreeMap<u32, u32> =
            baseline.values.iter().zip(&baseline.runs).map(|(value, run)| (value.block, *run)).collect();
        let (base, other) = (by_block(&baseline.values)?, by_block(&candidate.values)?);
        let common = other.iter().filter_map(|(block, log)| Some((*runs.get(block)?, log - base.get(block)?)));
        Ok(RunMeans::of(common))
    }

    pub fn runs(&self) -> usize {
        self.means.len()
    }

    /// The variance of a run's mean that its blocks explain; 0 where no run has several.
    pub fn within(&self) -> f64 {
        self.within
    }

    /// By side and run: its distance from the mean.
    pub fn residuals(&self, side: usize) -> BTreeMap<(usize, u32), f64> {
        let mean = self.moments().0;
        self.means.iter().map(|(run, log)| ((side, *run), log - mean)).collect()
    }

    /// The mean of the runs, and the variance of one of them.
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
        let residuals: Vec<BTreeMap<(usize, u32), f64>> = cases.iter().map(RunContrast::residuals).collect();
        Prior::of(&variances, &residuals)
    }

    /// Candidate and baseline run by run; `None` where a side is empty or no run has both.
    pub fn of(baseline: &Sample, candidate: &Sample) -> Result<Option<RunContrast>, AnalysisError> {
        let contrast = match baseline.is_paired_with(candidate) {
            true => RunContrast::Paired(RunMeans::of_pairs(baseline, candidate)?),
            false => RunContrast::Independent(RunMeans::of_sample(baseline)?, RunMeans::of_sample(candidate)?),
        };
        let is_whole = contrast.sides().all(|side| side.runs() > 0);
        Ok(is_whole.then_some(contrast))
    }

    /// Of mean logarithms, one for each run.
    pub fn of_logarithms(baseline: &[f64], candidate: &[f64]) -> RunContrast {
        let side = |logs: &[f64]| RunMeans::of((0..).zip(logs.iter().copied()));
        RunContrast::Independent(side(baseline), side(candidate))
    }

    /// Of mean differences of logarithms, one for each run.
    pub fn of_differences(differences: &[f64]) -> RunContrast {
        RunContrast::Paired(RunMeans::of((0..).zip(differences.iter().copied())))
    }

    fn sides(&self) -> impl Iterator<Item = &RunMeans> {
        let (first, second) = match self {
            RunContrast::Independent(baseline, candidate) => (baseline, Some(candidate)),
            RunContrast::Paired(differences) => (differences, None),
        };
        std::iter::once(first).chain(second)
    }

    /// The variance of one run on each side, with its degrees of freedom; nothing of a single run.
    fn variances(&self) -> impl Iterator<Item = (f64, f64)> {
        self.sides().filter(|side| side.runs() > 1).map(|side| (side.moments().1, side.degrees()))
    }

    /// By side and run: its distance from the mean of the side.
    pub(crate) fn residuals(&self) -> BTreeMap<(usize, u32), f64> {
        self.sides().enumerate().flat_map(|(place, side)| side.residuals(place)).collect()
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
        let apart = terms.apart.filter(|_| matches!(self, RunContrast::Independent(..)));
        // The variance of one run on each side, the runs, and the degrees of freedom.
        let of_run = |side: &RunMeans| match terms.between_runs.filter(|_| few) {
            Some(_) => (side.within, side.runs() as f64, side.within_degrees.max(1.0)),
            None => {
                let own = (side.moments().1, side.degrees());
                let (variance, degrees) = terms.prior.map_or(own, |prior| prior.posterior(own));
                (variance, side.runs() as f64, degrees)
            }
        };
        let sides: Vec<(f64, f64, f64)> = self.sides().map(of_run).collect();
        let (unjudged, stated) = match (few, apart) {
            (true, _) if terms.between_runs.is_none() => {
                (Some(if most == 1 { Unjudged::OneRun } else { Unjudged::FewRuns }), None)
            }
            (true, None) => {
                (None, terms.between_runs.map(|between| (between, sides.iter().map(|side| side.1).collect())))
            }
            (true, Some(_)) if terms.between_sessions.is_none() => (Some(Unjudged::NoSharedSession), None),
            (true, Some(sessions)) => (None, terms.between_sessions.map(|between| (between, weights(&sessions)))),
            (false, None) => (None, None),
            (false, Some(_)) if terms.between_sessions.is_none() => (Some(Unjudged::NoSharedSession), None),
            (false, Some(sessions)) => (None, terms.between_sessions.map(|between| (between, weights(&sessions)))),
        };
        let mut parts: Vec<(f64, f64)> =
            sides.iter().map(|(variance, runs, degrees)| (variance / runs, *degrees)).collect();
        // Runs that scatter by more than what is stated are not as alike as stated.
        let excess = |side: &RunMeans| if few && side.runs() > 1 { side.moments().1 - side.within } else { 0.0 };
        let fixed = stated.as_ref().map_or(0.0, |(between, runs): &(Between, Vec<f64>)| {
            let sides = self.sides().map(|side| excess(side).max(between.sd * between.sd));
            sides.zip(runs).map(|(variance, runs)| variance / runs).sum()
        });
        parts.extend(stated.as_ref().map(|(between, _)| (fixed, between.degrees())));
        // A single run shows no variation; only a prior or a stated component tells one.
        let is_known = least > 1 || terms.prior.is_some() || stated.is_some();
        let power = is_known
            .then(|| power::of(&sides, stated.as_ref().map(|(between, _)| (between, fixed, few)), terms))
            .flatten();
        let (error, degrees) = satterthwaite(&parts);
        Difference::of_runs(mean, (error, degrees), least, method, unjudged, power)
    }
}

impl Sample {
    /// Returns the mean difference of logarithms of `candidate` from this sample. Comparisons between runs use `terms`.
    pub fn difference(&self, candidate: &Sample, terms: &Terms) -> Result<Option<Difference>, AnalysisError> {
        if self.is_compared_by_block(candidate) {
            return Difference::paired(&self.values, &candidate.values);
        }
        Ok(RunContrast::of(self, candidate)?.map(|contrast| contrast.difference(terms)))
    }
}

fn weights(sessions: &[usize; 2]) -> Vec<f64> {
    sessions.iter().map(|sessions| *sessions as f64).collect()
}
