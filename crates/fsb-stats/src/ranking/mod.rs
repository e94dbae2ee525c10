//! All targets of one case: every pair, letters and an outcome, from one set of intervals.
//!
//! With more than two targets the intervals hold together, by Bonferroni's levels: of m pairs each has 1 − α/m. Holm's
//! levels are not simultaneous: once one is rejected, the others are shorter than all of them together allow. Verdicts
//! come from these intervals and from the corrections for the page ([`hold_over_page`](crate::hold_over_page)). Letters
//! and the outcome come from the verdicts, so they cannot contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::Better;
use fsb_model::stop::Analyses;
use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::block_value::{BlockValue, by_block};
use crate::comparison::Comparison;
use crate::difference::Difference;
use crate::error::AnalysisError;
use crate::letters::letters;
use crate::model::Model;
use crate::runs::Terms;
use crate::sample::Sample;
use crate::sequential::{Analysis, ended_early};
use crate::verdict::Verdict;

/// Two targets of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Index of the baseline.
    pub baseline: usize,
    /// Index of the candidate, always after the baseline.
    pub candidate: usize,
    /// The comparison of the two.
    pub comparison: Comparison,
    /// The p-value of equality after Holm's adjustment over the pairs of the case; absent where not judged.
    pub adjusted_p: Option<f64>,
    /// The p-value of a ratio of no more than θ, either way, at all analyses together; absent without an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_theta: Option<f64>,
    /// The p-value of equality after the adjustment over the pairs of all rows, once [`hold_over_page`](crate::hold_over_page)
    /// has seen them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_p: Option<f64>,
    /// The same for [`Pair::p_theta`]: what *faster* and *slower* need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_p_theta: Option<f64>,
    /// The standard deviation of one block's difference of logarithms; absent where they are not paired or not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

/// The result of a case as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// This one is faster than every other, by more than the smallest ratio that matters.
    Winner(usize),
    /// No target is faster than these by more than that, and they are equivalent to each other.
    Tie(Vec<usize>),
    /// Any of these may be the fastest.
    Undecided(Vec<usize>),
    /// Too few blocks.
    NotJudged,
    /// Only one of the targets that may win has values.
    Alone(usize),
    /// No target has values.
    Nothing,
}

/// The ranking of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranking {
    /// Every pair of targets that have blocks in common.
    pub pairs: Vec<Pair>,
    /// Letters by target, `a` for the best; absent where the target has no values or nothing could be judged.
    pub letters: Vec<Option<String>>,
    /// The outcome of the case.
    pub outcome: Outcome,
    /// By target: its mean logarithm, smaller is better. `None` if it has no values.
    #[serde(skip)]
    pub(crate) merits: Vec<Option<f64>>,
    /// Targets that are compared but may not win.
    #[serde(skip)]
    pub(crate) barred: BTreeSet<usize>,
    /// The data that the pairs are judged by; absent in a ranking that was read from a file.
    #[serde(skip)]
    pub(crate) basis: Option<Basis>,
}

/// The data that the pairs of a case are judged by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Basis {
    /// One entry a target.
    samples: Vec<Sample>,
    /// Every pair, in the order of [`Ranking::pairs`].
    pub fits: Vec<Fit>,
    better: Better,
    /// The smallest ratio that matters, minus 1.
    theta: f64,
}

/// A pair before it is judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    pub baseline: usize,
    pub candidate: usize,
    pub difference: Difference,
    pub analysis: Analysis,
    /// The run with the blocks that both share, or `None` if runs are compared.
    pub run: Option<usize>,
    /// The block of the interim analysis at which the pair ended before its run did.
    pub ended: Option<u32>,
}

impl Ranking {
    /// Ranks targets by the trials of one workload, one entry per target, which is empty if the target has no trials.
    pub fn of(samples: &[Vec<BlockValue>], better: Better, theta: f64) -> Result<Ranking, AnalysisError> {
        Ranking::of_run(samples, &Analyses::default(), better, theta)
    }

    /// Like [`Ranking::of`] for a run with interim analyses. The intervals hold at all of them together.
    pub fn of_run(
        samples: &[Vec<BlockValue>],
        analyses: &Analyses,
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        let samples: Vec<Sample> = samples.iter().map(|values| Sample::of_blocks(values.clone(), analyses)).collect();
        Ranking::of_samples(&samples, &|_, _| Terms::default(), better, theta)
    }

    /// Ranks sets. Some of them may share blocks. `terms` gives the terms for comparing the runs of two sets, baseline
    /// and candidate.
    pub(crate) fn of_samples(
        samples: &[Sample],
        terms: &dyn Fn(usize, usize) -> Terms,
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        let fits = fit_all(samples, terms)?;
        let merits = samples.iter().map(|sample| merit(sample, better)).collect::<Result<_, AnalysisError>>()?;
        let basis = Basis { samples: samples.to_vec(), fits, better, theta };
        let mut ranking = Ranking { merits, basis: Some(basis), ..Ranking::without_pairs(0, Outcome::Nothing) };
        ranking.judge(&|fit| fit.difference.clone());
        ranking.conclude();
        Ok(ranking)
    }

    /// Judges every pair of the case by the difference that `moderated` returns, independent of other cases.
    pub(crate) fn judge(&mut self, moderated: &dyn Fn(&Fit) -> Difference) {
        let Some(Basis { fits, better, theta, .. }) = &self.basis else { return };
        let log_theta = libm::log1p(*theta);
        let differences: Vec<Difference> = fits.iter().map(moderated).collect();
        let judged = differences.iter().filter(|difference| difference.is_judged()).count();
        let level = |difference: &Difference| match difference.is_judged() {
            true => 1.0 - (1.0 - LEVEL) / judged as f64,
            false => LEVEL,
        };
        let pair = |(fit, difference): (&Fit, &Difference)| Pair {
            baseline: fit.baseline,
            candidate: fit.candidate,
            comparison: difference.judged(level(difference), &fit.analysis, *better, *theta),
            adjusted_p: None,
            p_theta: difference.p_value_beyond(log_theta).map(|p| fit.analysis.overall(p)),
            page_p: None,
            page_p_theta: None,
            spread: fit.difference.spread().filter(|_| difference.is_judged()),
        };
        let described = |known: &Pair| {
            let is_same = |fit: &Fit| (fit.baseline, fit.candidate) == (known.baseline, known.candidate);
            !fits.iter().any(is_same)
        };
        let judged: Vec<Pair> = fits.iter().zip(&differences).map(pair).collect();
        self.pairs.retain(described);
        self.pairs.extend(judged);
        self.pairs.sort_by_key(|pair| (pair.candidate, pair.baseline));
        let p_values: Vec<(usize, f64)> = (0..).zip(&self.pairs).filter_map(judged_p_value).collect();
        for (place, p) in holm(p_values) {
            self.pairs[place].adjusted_p = Some(p);
        }
    }

    /// The pairs that share the blocks of a run, with the values up to `block` alone.
    pub(crate) fn fits_up_to(&self, block: u32) -> Vec<Fit> {
        let samples = self.basis.iter().flat_map(|basis| &basis.samples).map(|sample| sample.up_to(block));
        // The same values were fitted before.
        let fits = fit_all(&samples.collect::<Vec<_>>(), &|_, _| Terms::default()).unwrap_or_default();
        fits.into_iter().filter(|fit| fit.run.is_some()).collect()
    }

    /// The samples, one for each target.
    pub(crate) fn samples(&self) -> &[Sample] {
        self.basis.as_ref().map_or(&[], |basis| &basis.samples)
    }

    /// The smallest ratio that matters, less 1.
    pub(crate) fn theta(&self) -> f64 {
        self.basis.as_ref().map_or(0.0, |basis| basis.theta)
    }

    /// The direction that is good.
    pub(crate) fn better(&self) -> Better {
        self.basis.as_ref().map_or(Better::Higher, |basis| basis.better)
    }

    /// All pairs before they are judged.
    pub(crate) fn fits(&self) -> &[Fit] {
        self.basis.as_ref().map_or(&[], |basis| &basis.fits)
    }

    /// The verdict of an interval alone, before the page confirms it.
    pub(crate) fn verdict_of_interval(&self, pair: &Pair) -> Verdict {
        match pair.comparison.interval.zip(self.basis.as_ref()) {
            Some((interval, basis)) => Verdict::of_ratio(interval, basis.theta, basis.better),
            None => pair.comparison.verdict,
        }
    }

    /// Returns a ranking of this number of targets without any comparison.
    pub fn without_pairs(targets: usize, outcome: Outcome) -> Ranking {
        Ranking {
            pairs: Vec::new(),
            letters: vec![None; targets],
            outcome,
            merits: vec![None; targets],
            barred: BTreeSet::new(),
            basis: None,
        }
    }

    /// Bars targets from winning, so that the outcome is that of the others. If no other target has values, all may
    /// win. Pairs and letters stay.
    pub fn bar(&mut self, targets: impl IntoIterator<Item = usize>) {
        self.barred = targets.into_iter().collect();
        if self.merits.iter().any(Option::is_some) {
            self.conclude();
        }
    }

    /// Returns whether a target may win.
    pub fn may_win(&self, target: usize) -> bool {
        let has_values = |other: usize| self.merits[other].is_some();
        !self.barred.contains(&target)
            || (0..self.merits.len()).all(|other| self.barred.contains(&other) || !has_values(other))
    }

    /// Removes all verdicts: verdicts, intervals, letters and the outcome. Ratios stay.
    pub fn withhold(&mut self) {
        for pair in &mut self.pairs {
            (pair.comparison.verdict, pair.comparison.interval, pair.adjusted_p) = (Verdict::NotJudged, None, None);
        }
        self.letters.fill(None);
        (self.outcome, self.basis) = (Outcome::NotJudged, None);
    }

    /// Derives letters and outcome from the verdicts on the pairs.
    pub(crate) fn conclude(&mut self) {
        let order = self.by_merit();
        let contest: Vec<usize> = order.iter().copied().filter(|target| self.may_win(*target)).collect();
        self.outcome = self.find_outcome(&contest);
        self.letters = vec![None; self.merits.len()];
        if self.outcome != Outcome::NotJudged
            && self.pairs.iter().any(|pair| pair.comparison.verdict != Verdict::NotJudged)
        {
            let places: Vec<usize> = (0..order.len()).collect();
            let shown = letters(&places, |a, b| self.verdict(order[a], order[b]).is_sure());
            for (target, letters) in order.iter().zip(shown) {
                self.letters[*target] = Some(letters);
            }
        }
    }

    /// Returns the comparison of `candidate` with `baseline`, or the inverse one if the pair is stored the other way
    /// round.
    pub fn comparison(&self, baseline: usize, candidate: usize) -> Option<Comparison> {
        let (first, second) = (baseline.min(candidate), baseline.max(candidate));
        // Pairs are sorted in this order.
        let found = self.pairs.binary_search_by_key(&(second, first), |pair| (pair.candidate, pair.baseline)).ok()?;
        let comparison = &self.pairs[found].comparison;
        Some(if baseline < candidate { comparison.clone() } else { comparison.inverse() })
    }

    /// Returns the verdict on `candidate`. It is not judged if they share no block.
    pub fn verdict(&self, baseline: usize, candidate: usize) -> Verdict {
        self.comparison(baseline, candidate).map_or(Verdict::NotJudged, |comparison| comparison.verdict)
    }

    /// Returns whether a target is slower than every one of `others`, by more than the smallest ratio that matters.
    pub fn is_slower_than_all(&self, target: usize, others: &[usize]) -> bool {
        others.iter().all(|other| self.verdict(*other, target) == Verdict::Slower)
    }

    /// Returns the targets from best to worst: by the number of targets that beat it, then by its mean. (If blocks are
    /// missing, the mean alone may point the other way than the blocks in common.)
    fn by_merit(&self) -> Vec<usize> {
        let present: Vec<usize> = (0..self.merits.len()).filter(|target| self.merits[*target].is_some()).collect();
        let key = |target: usize| Some((self.beaten_by(target, &present), self.merits[target]?, target));
        let mut keyed: Vec<(usize, f64, usize)> = present.iter().filter_map(|target| key(*target)).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        keyed.into_iter().map(|(_, _, target)| target).collect()
    }

    fn beaten_by(&self, target: usize, among: &[usize]) -> usize {
        among.iter().filter(|other| self.verdict(target, **other) == Verdict::Faster).count()
    }

    fn find_outcome(&self, order: &[usize]) -> Outcome {
        let (Some(best), others) = (order.first().copied(), order.len().saturating_sub(1)) else {
            return Outcome::Nothing;
        };
        if others == 0 {
            return Outcome::Alone(best);
        }
        let of_contest = |pair: &&Pair| order.contains(&pair.baseline) && order.contains(&pair.candidate);
        let contest = || self.pairs.iter().filter(of_contest).map(|pair| &pair.comparison);
        // If runs cannot be compared, the winner within one run may be slower than sets of another run.
        if contest().all(|comparison| comparison.verdict == Verdict::NotJudged)
            || contest().any(|comparison| comparison.unjudged.is_some())
        {
            return Outcome::NotJudged;
        }
        if order[1..].iter().all(|other| self.verdict(*other, best) == Verdict::Faster) {
            return Outcome::Winner(best);
        }
        let top: Vec<usize> = order.iter().copied().filter(|target| self.beaten_by(*target, order) == 0).collect();
        let equivalent = |a: usize, b: usize| a == b || self.verdict(a, b) == Verdict::Equivalent;
        if top.len() > 1 && top.iter().all(|a| top.iter().all(|b| equivalent(*a, *b))) {
            return Outcome::Tie(top);
        }
        Outcome::Undecided(self.contenders(order, top))
    }

    /// Returns targets that may be the fastest: the unbeaten; if there is only one, also those it does not beat; if
    /// there is none (a circle, possible only if blocks are missing), all.
    fn contenders(&self, order: &[usize], top: Vec<usize>) -> Vec<usize> {
        match top[..] {
            [] => order.to_vec(),
            [only] => order
                .iter()
                .copied()
                .filter(|other| *other == only || self.verdict(*other, only) != Verdict::Faster)
                .collect(),
            _ => top,
        }
    }
}

/// Returns the mean logarithm of a sample, with its sign such that less is better.
fn merit(sample: &Sample, better: Better) -> Result<Option<f64>, AnalysisError> {
    let logs = by_block(&sample.values)?;
    let mean = logs.values().sum::<f64>() / logs.len() as f64;
    Ok((!logs.is_empty()).then_some(if better == Better::Higher { -mean } else { mean }))
}

/// Returns the pairs of samples whose difference has a value.
fn fit_all(samples: &[Sample], terms: &dyn Fn(usize, usize) -> Terms) -> Result<Vec<Fit>, AnalysisError> {
    let mut models = BTreeMap::new();
    for shared in samples.iter().filter_map(|sample| sample.shares_blocks).collect::<BTreeSet<_>>() {
        models.extend(Model::of(samples, shared)?.map(|model| (shared, model)));
    }
    let mut fits = Vec::new();
    for candidate in 1..samples.len() {
        for baseline in 0..candidate {
            let (b, c): (&Sample, &Sample) = (&samples[baseline], &samples[candidate]);
            let run = b.shares_blocks.filter(|_| b.is_compared_by_block(c));
            let difference = match run.and_then(|shared| models.get(&shared)) {
                Some(model) if b.has_parts() && c.has_parts() => model.difference(baseline, candidate),
                _ => b.difference(c, &terms(baseline, candidate))?,
            };
            let Some(difference) = difference else { continue };
            let last = run.map(|shared| last_block(samples, shared));
            let analysis = match last.zip(run) {
                Some((last, shared)) => Analysis::of(&b.analyses, last, lost(samples, shared)),
                None => Analysis::Only,
            };
            let ended = last.filter(|last| ended_early(&b.analyses, *last));
            fits.push(Fit { baseline, candidate, difference, analysis, run, ended });
        }
    }
    Ok(fits)
}

/// Returns the last block of a case in a run.
fn last_block(samples: &[Sample], shared: usize) -> u32 {
    let sharing = samples.iter().filter(|sample| sample.shares_blocks == Some(shared));
    sharing.flat_map(|sample| &sample.values).map(|value| value.block).max().unwrap_or(0)
}

/// Returns the degrees of freedom that the model of a pair takes. At most two slice effects belong to a pair, as the
/// module `model` explains.
fn lost(samples: &[Sample], shared: usize) -> u32 {
    let sharing = samples.iter().filter(|sample| sample.shares_blocks == Some(shared));
    let parts: BTreeSet<u32> = sharing.flat_map(|sample| &sample.values).filter_map(|value| value.part).collect();
    1 + (parts.len() as u32).saturating_sub(1).min(2)
}

fn judged_p_value((place, pair): (usize, &Pair)) -> Option<(usize, f64)> {
    Some((place, pair.comparison.p_value.filter(|_| pair.comparison.verdict != Verdict::NotJudged)?))
}

/// Returns Holm's adjusted p-values (Holm 1979), each with its place.
pub(crate) fn holm<P>(mut p_values: Vec<(P, f64)>) -> Vec<(P, f64)> {
    p_values.sort_by(|a, b| a.1.total_cmp(&b.1));
    let count = p_values.len();
    let mut largest: f64 = 0.0;
    for (place, (_, p)) in p_values.iter_mut().enumerate() {
        largest = largest.max(*p * (count - place) as f64).min(1.0);
        *p = largest;
    }
    p_values
}

#[cfg(test)]
mod tests;
