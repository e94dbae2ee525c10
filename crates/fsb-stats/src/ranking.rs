//! All targets of one case: every pair, letters and an outcome, from one set of intervals.
//!
//! With more than two targets the intervals hold together, by Bonferroni's levels: of m pairs each
//! has 1 − α/m. Holm's levels are not simultaneous: once one is rejected, the others are shorter
//! than all of them together allow. Verdicts come from these intervals and from the corrections for
//! the page ([`hold_over_page`](crate::hold_over_page)). Letters and the outcome come from the
//! verdicts, so they cannot contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::Better;
use fsb_model::stop::Analyses;
use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::comparison::{Comparison, Difference};
use crate::model::Model;
use crate::sample::{AnalysisError, BlockValue, Sample, by_block};
use crate::sequential::{Analysis, ended_early};
use crate::terms::{Terms, Unjudged};
use crate::verdict::{Interval, Verdict};

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
    /// The p-value of equality after Holm's adjustment over the pairs of the case; absent where not
    /// judged.
    pub adjusted_p: Option<f64>,
    /// The p-value of a ratio of no more than θ, either way, at all analyses together; absent
    /// without an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_theta: Option<f64>,
    /// The p-value of equality after the adjustment over the pairs of all cases, once
    /// [`hold_over_page`](crate::hold_over_page) has seen them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_p: Option<f64>,
    /// [`Pair::p_theta`] after the adjustment over the pairs of all cases. The verdicts *faster*
    /// and *slower* need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_p_theta: Option<f64>,
    /// The standard deviation of one block's difference of logarithms; absent where they are not
    /// paired or not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

/// The result of a case as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RankingOutcome {
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
    /// Letters by target, `a` for the best; absent where the target has no values or nothing could
    /// be judged.
    pub letters: Vec<Option<String>>,
    /// The outcome of the case.
    pub outcome: RankingOutcome,
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

impl Pair {
    /// Removes the verdict, and with it the interval and p-values. The ratio stays.
    fn withhold(&mut self) {
        (
            self.comparison.verdict,
            self.comparison.interval,
            self.adjusted_p,
        ) = (Verdict::NotJudged, None, None);
        (self.comparison.effect, self.p_theta, self.spread) = (None, None, None);
    }
}

impl Ranking {
    /// Ranks targets by the trials of one workload, one entry per target, which is empty if the
    /// target has no trials.
    pub fn from_samples(
        samples: &[Vec<BlockValue>],
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        Ranking::of_run(samples, &Analyses::default(), better, theta)
    }

    /// Like [`Ranking::from_samples`] for a run with interim analyses. The intervals hold at all of
    /// them together.
    pub fn of_run(
        samples: &[Vec<BlockValue>],
        analyses: &Analyses,
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        let samples: Vec<Sample> = samples
            .iter()
            .map(|values| Sample::of_blocks(values.clone(), analyses))
            .collect();
        Ranking::of_samples(samples, &|_, _| Terms::default(), better, theta)
    }

    /// Ranks sets. Some of them may share blocks. `terms` gives the terms for comparing the runs of
    /// two sets, baseline and candidate.
    pub(crate) fn of_samples(
        samples: Vec<Sample>,
        terms: &dyn Fn(usize, usize) -> Terms,
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        let fits = fit_all(&samples, terms)?;
        let merits = samples
            .iter()
            .map(|sample| merit(sample, better))
            .collect::<Result<_, AnalysisError>>()?;
        let basis = Basis {
            samples,
            fits,
            better,
            theta,
        };
        let mut ranking = Ranking {
            merits,
            basis: Some(basis),
            ..Ranking::without_pairs(0, RankingOutcome::Nothing)
        };
        ranking.judge(&|fit| fit.difference.clone());
        ranking.conclude();
        Ok(ranking)
    }

    /// Judges every pair of the case by the difference that `moderated` returns, independent of
    /// other cases.
    pub(crate) fn judge(&mut self, moderated: &dyn Fn(&Fit) -> Difference) {
        let Some(Basis {
            fits,
            better,
            theta,
            ..
        }) = &self.basis
        else {
            return;
        };
        let log_theta = libm::log1p(*theta);
        let differences: Vec<Difference> = fits.iter().map(moderated).collect();
        let judged = differences
            .iter()
            .filter(|difference| difference.is_judged())
            .count();
        self.pairs.retain(|known| {
            !fits
                .iter()
                .any(|fit| (fit.baseline, fit.candidate) == (known.baseline, known.candidate))
        });
        for (fit, difference) in fits.iter().zip(&differences) {
            let level = match difference.is_judged() {
                true => 1.0 - (1.0 - LEVEL) / judged as f64,
                false => LEVEL,
            };
            self.pairs.push(Pair {
                baseline: fit.baseline,
                candidate: fit.candidate,
                comparison: difference.judged(level, &fit.analysis, *better, *theta),
                adjusted_p: None,
                p_theta: difference
                    .p_value_beyond(log_theta)
                    .map(|p| fit.analysis.overall(p)),
                page_p: None,
                page_p_theta: None,
                spread: fit.difference.spread().filter(|_| difference.is_judged()),
            });
        }
        self.pairs
            .sort_by_key(|pair| (pair.candidate, pair.baseline));
        let p_values: Vec<(usize, f64)> =
            (0..).zip(&self.pairs).filter_map(judged_p_value).collect();
        for (place, p) in holm(p_values) {
            self.pairs[place].adjusted_p = Some(p);
        }
    }

    /// Returns the pairs that share the blocks of a run, with the values up to `block` alone.
    pub(crate) fn fits_up_to(&self, block: u32) -> Vec<Fit> {
        let samples = self
            .basis
            .iter()
            .flat_map(|basis| &basis.samples)
            .map(|sample| sample.up_to(block));
        // The same values were fitted before.
        let fits =
            fit_all(&samples.collect::<Vec<_>>(), &|_, _| Terms::default()).unwrap_or_default();
        fits.into_iter().filter(|fit| fit.run.is_some()).collect()
    }

    /// Returns the samples, one for each target.
    pub(crate) fn samples(&self) -> &[Sample] {
        self.basis.as_ref().map_or(&[], |basis| &basis.samples)
    }

    /// Drops the values and the pairs before they are judged. Verdicts stay, and no page changes
    /// them any more.
    pub(crate) fn forget_values(&mut self) {
        if let Some(basis) = &mut self.basis {
            (basis.samples, basis.fits) = (Vec::new(), Vec::new());
        }
    }

    /// Returns the smallest ratio that matters, less 1.
    pub(crate) fn theta(&self) -> f64 {
        self.basis.as_ref().map_or(0.0, |basis| basis.theta)
    }

    /// Returns the direction that is good.
    pub(crate) fn better(&self) -> Better {
        self.basis
            .as_ref()
            .map_or(Better::Higher, |basis| basis.better)
    }

    /// Returns all pairs before they are judged.
    pub(crate) fn fits(&self) -> &[Fit] {
        self.basis.as_ref().map_or(&[], |basis| &basis.fits)
    }

    /// Returns the verdict of an interval alone, before the page confirms it.
    pub(crate) fn verdict_of_interval(&self, pair: &Pair) -> Verdict {
        match pair.comparison.interval.zip(self.basis.as_ref()) {
            Some((interval, basis)) => Verdict::of_ratio(interval, basis.theta, basis.better),
            None => pair.comparison.verdict,
        }
    }

    /// Returns a ranking of this number of targets without any comparison.
    pub fn without_pairs(targets: usize, outcome: RankingOutcome) -> Ranking {
        Ranking {
            pairs: Vec::new(),
            letters: vec![None; targets],
            outcome,
            merits: vec![None; targets],
            barred: BTreeSet::new(),
            basis: None,
        }
    }

    /// Bars targets from winning, so that the outcome is that of the others. If no other target has
    /// values, all may win. Targets that are `unproven`, because their values are not known to be
    /// what the case says, are barred only if another target that is not `risky` has values that
    /// are. Pairs and letters stay.
    pub fn bar(&mut self, risky: &[usize], unproven: &[usize]) {
        self.barred = risky.iter().copied().collect();
        let is_known = |target: &usize| {
            self.merits[*target].is_some() && !risky.contains(target) && !unproven.contains(target)
        };
        if (0..self.merits.len()).any(|target| is_known(&target)) {
            self.barred.extend(unproven);
        }
        if self.merits.iter().any(Option::is_some) {
            self.conclude();
        }
    }

    /// Returns whether a target may win.
    pub fn may_win(&self, target: usize) -> bool {
        !self.barred.contains(&target)
            || (0..self.merits.len())
                .all(|other| self.barred.contains(&other) || self.merits[other].is_none())
    }

    /// Removes all verdicts: verdicts, intervals, letters and the outcome. Ratios stay.
    pub fn withhold(&mut self) {
        self.pairs.iter_mut().for_each(Pair::withhold);
        self.letters.fill(None);
        (self.outcome, self.basis) = (RankingOutcome::NotJudged, None);
    }

    /// Removes the verdicts on all pairs of a target for which `unjudged` returns a reason. Their
    /// ratios stay.
    pub(crate) fn withhold_pairs(&mut self, unjudged: &dyn Fn(usize) -> Option<Unjudged>) {
        for pair in &mut self.pairs {
            if let Some(reason) = unjudged(pair.baseline).or_else(|| unjudged(pair.candidate)) {
                pair.withhold();
                (pair.comparison.unjudged, pair.comparison.power) = (Some(reason), None);
            }
        }
    }

    /// Derives letters and outcome from the verdicts on the pairs.
    pub(crate) fn conclude(&mut self) {
        let order = self.by_merit();
        let contest: Vec<usize> = order
            .iter()
            .copied()
            .filter(|target| self.may_win(*target))
            .collect();
        self.outcome = self.find_outcome(&contest);
        self.letters = vec![None; self.merits.len()];
        if self.outcome != RankingOutcome::NotJudged
            && self
                .pairs
                .iter()
                .any(|pair| pair.comparison.verdict != Verdict::NotJudged)
        {
            let places: Vec<usize> = (0..order.len()).collect();
            let shown = letters(&places, |a, b| self.verdict(order[a], order[b]).is_sure());
            for (target, letters) in order.iter().zip(shown) {
                self.letters[*target] = Some(letters);
            }
        }
    }

    /// Returns the comparison of `candidate` with `baseline`, or the inverse one if the pair is
    /// stored the other way round.
    pub fn comparison(&self, baseline: usize, candidate: usize) -> Option<Comparison> {
        let (first, second) = (baseline.min(candidate), baseline.max(candidate));
        // Pairs are sorted in this order.
        let found = self
            .pairs
            .binary_search_by_key(&(second, first), |pair| (pair.candidate, pair.baseline))
            .ok()?;
        let comparison = &self.pairs[found].comparison;
        Some(if baseline < candidate {
            comparison.clone()
        } else {
            comparison.inverse()
        })
    }

    /// Returns the verdict on `candidate`. It is not judged if they share no block.
    pub fn verdict(&self, baseline: usize, candidate: usize) -> Verdict {
        self.comparison(baseline, candidate)
            .map_or(Verdict::NotJudged, |comparison| comparison.verdict)
    }

    /// Returns whether a target is slower than every one of `others`, by more than the smallest
    /// ratio that matters.
    pub fn is_slower_than_all(&self, target: usize, others: &[usize]) -> bool {
        others
            .iter()
            .all(|other| self.verdict(*other, target) == Verdict::Slower)
    }

    /// Returns the targets from best to worst: by the number of targets that beat it, then by its
    /// mean. (If blocks are missing, the mean alone may point the other way than the blocks in
    /// common.)
    fn by_merit(&self) -> Vec<usize> {
        let present: Vec<usize> = (0..self.merits.len())
            .filter(|target| self.merits[*target].is_some())
            .collect();
        let mut keyed = Vec::with_capacity(present.len());
        for (target, merit) in self.merits.iter().enumerate() {
            keyed.extend(merit.map(|merit| (self.beaten_by(target, &present), merit, target)));
        }
        keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        keyed.into_iter().map(|(_, _, target)| target).collect()
    }

    fn beaten_by(&self, target: usize, among: &[usize]) -> usize {
        among
            .iter()
            .filter(|other| self.verdict(target, **other) == Verdict::Faster)
            .count()
    }

    fn find_outcome(&self, order: &[usize]) -> RankingOutcome {
        let (Some(best), others) = (order.first().copied(), order.len().saturating_sub(1)) else {
            return RankingOutcome::Nothing;
        };
        if others == 0 {
            return RankingOutcome::Alone(best);
        }
        let contest: Vec<&Comparison> = self
            .pairs
            .iter()
            .filter(|pair| order.contains(&pair.baseline) && order.contains(&pair.candidate))
            .map(|pair| &pair.comparison)
            .collect();
        // If runs cannot be compared, the winner within one run may be slower than sets of another
        // run.
        if contest
            .iter()
            .all(|comparison| comparison.verdict == Verdict::NotJudged)
            || contest
                .iter()
                .any(|comparison| comparison.unjudged.is_some())
        {
            return RankingOutcome::NotJudged;
        }
        if order[1..]
            .iter()
            .all(|other| self.verdict(*other, best) == Verdict::Faster)
        {
            return RankingOutcome::Winner(best);
        }
        let top: Vec<usize> = order
            .iter()
            .copied()
            .filter(|target| self.beaten_by(*target, order) == 0)
            .collect();
        let are_equivalent = top.iter().all(|a| {
            top.iter()
                .all(|b| a == b || self.verdict(*a, *b) == Verdict::Equivalent)
        });
        if top.len() > 1 && are_equivalent {
            return RankingOutcome::Tie(top);
        }
        RankingOutcome::Undecided(self.contenders(order, top))
    }

    /// Returns targets that may be the fastest: the unbeaten; if there is only one, also those it
    /// does not beat; if there is none (a circle, possible only if blocks are missing), all.
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
    Ok((!logs.is_empty()).then_some(if better == Better::Higher {
        -mean
    } else {
        mean
    }))
}

/// Returns the pairs of samples whose difference has a value.
fn fit_all(
    samples: &[Sample],
    terms: &dyn Fn(usize, usize) -> Terms,
) -> Result<Vec<Fit>, AnalysisError> {
    let mut models = BTreeMap::new();
    for shared in samples
        .iter()
        .filter_map(|sample| sample.shares_blocks)
        .collect::<BTreeSet<_>>()
    {
        models.extend(Model::from_samples(samples, shared)?.map(|model| (shared, model)));
    }
    let mut fits = Vec::new();
    for candidate in 1..samples.len() {
        for baseline in 0..candidate {
            let (b, c): (&Sample, &Sample) = (&samples[baseline], &samples[candidate]);
            let run = b.shares_blocks.filter(|_| b.is_compared_by_block(c));
            let difference = match run.and_then(|shared| models.get(&shared)) {
                Some(model) if b.has_slices() && c.has_slices() => {
                    model.difference(baseline, candidate)
                }
                _ => b.difference(c, &terms(baseline, candidate))?,
            };
            let Some(difference) = difference else {
                continue;
            };
            let last = run.map(|shared| last_block(samples, shared));
            let analysis = match last.zip(run) {
                Some((last, shared)) => Analysis::new(&b.analyses, last, lost(samples, shared)),
                None => Analysis::Only,
            };
            let ended = last.filter(|last| ended_early(&b.analyses, *last));
            fits.push(Fit {
                baseline,
                candidate,
                difference,
                analysis,
                run,
                ended,
            });
        }
    }
    Ok(fits)
}

/// Returns the last block of a case in a run.
fn last_block(samples: &[Sample], shared: usize) -> u32 {
    let sharing = samples
        .iter()
        .filter(|sample| sample.shares_blocks == Some(shared));
    sharing
        .flat_map(|sample| &sample.values)
        .map(|value| value.block)
        .max()
        .unwrap_or(0)
}

/// Returns the degrees of freedom that the model of a pair takes. At most two slice effects belong
/// to a pair, as the module `model` explains.
fn lost(samples: &[Sample], shared: usize) -> u32 {
    let sharing = samples
        .iter()
        .filter(|sample| sample.shares_blocks == Some(shared));
    let slices: BTreeSet<u32> = sharing
        .flat_map(|sample| &sample.values)
        .filter_map(|value| value.slice)
        .collect();
    1 + (slices.len() as u32).saturating_sub(1).min(2)
}

fn judged_p_value((place, pair): (usize, &Pair)) -> Option<(usize, f64)> {
    Some((
        place,
        pair.comparison
            .p_value
            .filter(|_| pair.comparison.verdict != Verdict::NotJudged)?,
    ))
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

/// Returns the compact letter display: the letters of each target. Targets that share a letter are
/// not significantly different. `order` is a permutation of the targets from best to worst.
///
/// Insert and absorb, after Piepho 2004 ("An algorithm for a letter-based representation of
/// all-pairwise comparisons", J. Comput. Graph. Stat. 13). The first column holds all targets.
/// Every pair that differs splits the columns that hold both, and a column inside another is
/// absorbed. Two targets then share a column exactly if they do not differ.
fn letters(order: &[usize], differs: impl Fn(usize, usize) -> bool) -> Vec<String> {
    // Columns hold ranks, so that comparing them as sequences sorts them by merit.
    let mut columns: Vec<Vec<usize>> = vec![(0..order.len()).collect()];
    for better in 0..order.len() {
        for worse in better + 1..order.len() {
            if differs(order[better], order[worse]) {
                columns = absorb(split(columns, better, worse));
            }
        }
    }
    columns.sort();
    let mut result = vec![String::new(); order.len()];
    for (index, column) in columns.iter().enumerate() {
        for rank in column {
            result[order[*rank]].push_str(&letter(index));
        }
    }
    result
}

/// Splits every column that holds both targets into two, each without one of them.
fn split(columns: Vec<Vec<usize>>, first: usize, second: usize) -> Vec<Vec<usize>> {
    let mut split = Vec::new();
    for column in columns {
        if column.contains(&first) && column.contains(&second) {
            for gone in [second, first] {
                split.push(
                    column
                        .iter()
                        .copied()
                        .filter(|rank| *rank != gone)
                        .collect(),
                );
            }
        } else {
            split.push(column);
        }
    }
    split
}

/// Drops columns that are subsets of another.
fn absorb(mut columns: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    columns.sort_by_key(|column| std::cmp::Reverse(column.len()));
    let mut kept: Vec<Vec<usize>> = Vec::with_capacity(columns.len());
    for column in columns {
        if !kept
            .iter()
            .any(|larger| column.iter().all(|rank| larger.contains(rank)))
        {
            kept.push(column);
        }
    }
    kept
}

/// a, b, … z, a1, b1, …
fn letter(index: usize) -> String {
    let character = char::from(b'a' + (index % 26) as u8);
    match index / 26 {
        0 => character.to_string(),
        round => format!("{character}{round}"),
    }
}

/// The largest change that remains possible in a case without a winner, as a share: 0.06 for 6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "change", rename_all = "snake_case")]
pub enum Resolution {
    /// The best are equivalent, and differ by no more than this.
    EqualWithin(f64),
    /// All intervals between the contenders contain equality and reach no farther than this.
    NoDifferenceAbove(f64),
    /// An interval between contenders excludes equality; none reaches farther than this.
    NoMoreThan(f64),
    /// An interval between contenders reaches this far, beyond [`Resolution::LARGEST`].
    Undecided(f64),
}

impl Resolution {
    /// If a larger change than this remains possible, the case is undecided.
    pub const LARGEST: f64 = 0.25;

    /// Returns the largest change that remains possible.
    pub fn change(self) -> f64 {
        match self {
            Resolution::EqualWithin(change)
            | Resolution::NoDifferenceAbove(change)
            | Resolution::NoMoreThan(change)
            | Resolution::Undecided(change) => change,
        }
    }
}

impl Ranking {
    /// Returns the largest change that the intervals between the contenders leave possible, or
    /// `None` if a target wins or none is judged.
    pub fn resolution(&self) -> Option<Resolution> {
        match &self.outcome {
            RankingOutcome::Tie(tied) => self
                .intervals(tied)
                .map(possible_change)
                .reduce(f64::max)
                .map(Resolution::EqualWithin),
            RankingOutcome::Undecided(open) => {
                // The change of a pair that was not compared is unknown.
                let is_whole =
                    self.intervals(open).count() == open.len() * open.len().saturating_sub(1) / 2;
                let change = self
                    .intervals(open)
                    .map(possible_change)
                    .reduce(f64::max)
                    .filter(|_| is_whole)?;
                Some(match () {
                    () if change > Resolution::LARGEST => Resolution::Undecided(change),
                    () if self.intervals(open).any(|interval| !interval.contains(1.0)) => {
                        Resolution::NoMoreThan(change)
                    }
                    () => Resolution::NoDifferenceAbove(change),
                })
            }
            _ => None,
        }
    }

    /// Returns the judged intervals between these targets.
    fn intervals(&self, targets: &[usize]) -> impl Iterator<Item = Interval> {
        let pairs = self
            .pairs
            .iter()
            .filter(|pair| targets.contains(&pair.baseline) && targets.contains(&pair.candidate));
        pairs.filter_map(|pair| judged_interval(&pair.comparison))
    }
}

fn judged_interval(comparison: &Comparison) -> Option<Interval> {
    comparison
        .interval
        .filter(|_| comparison.verdict != Verdict::NotJudged)
}

/// Returns the larger of the two ratios that the interval leaves possible, whichever target is the
/// baseline, as a change.
fn possible_change(interval: Interval) -> f64 {
    interval.hi.max(1.0 / interval.lo).min(f64::MAX) - 1.0
}

#[cfg(test)]
mod tests {
    use fsb_model::Better;
    use proptest::prelude::*;

    use super::*;
    use crate::sample::BlockValue;

    fn blocks(values: &[f64]) -> Vec<BlockValue> {
        (1..)
            .zip(values)
            .map(|(block, value)| BlockValue::new(block, *value))
            .collect()
    }

    /// Ten blocks around `center`, with a scatter of ±`spread` that differs by `phase`.
    fn around(center: f64, spread: f64, phase: usize) -> Vec<BlockValue> {
        let pattern = [0.3, -0.8, 0.9, -0.2, 0.5, -0.6, 0.1, -0.9, 0.7, 0.0];
        blocks(
            &(0..10)
                .map(|i| center * (1.0 + spread * pattern[(i * (phase + 1) + phase) % 10]))
                .collect::<Vec<_>>(),
        )
    }

    fn rank(samples: &[Vec<BlockValue>]) -> Ranking {
        Ranking::from_samples(samples, Better::Higher, 0.03).unwrap()
    }

    fn shown(ranking: &Ranking) -> Vec<&str> {
        ranking
            .letters
            .iter()
            .map(|letters| letters.as_deref().unwrap_or("-"))
            .collect()
    }

    #[test]
    fn the_fastest_wins_and_has_the_letter_a() {
        let samples = [
            around(100.0, 0.01, 0),
            around(130.0, 0.01, 2),
            around(70.0, 0.01, 6),
        ];
        let ranking = rank(&samples);
        assert_eq!(
            (ranking.outcome.clone(), shown(&ranking)),
            (RankingOutcome::Winner(1), vec!["b", "a", "c"])
        );
        let times = Ranking::from_samples(&samples, Better::Lower, 0.03).unwrap();
        assert_eq!(
            (times.outcome.clone(), shown(&times)),
            (RankingOutcome::Winner(2), vec!["b", "c", "a"])
        );
        assert_eq!(times.verdict(0, 1), Verdict::Slower);
        assert_eq!(times.verdict(1, 0), Verdict::Faster);
    }

    #[test]
    fn equals_at_the_top_tie() {
        let ranking = rank(&[
            around(100.0, 0.005, 0),
            around(100.5, 0.005, 2),
            around(90.0, 0.005, 6),
        ]);
        assert_eq!(
            (ranking.outcome.clone(), shown(&ranking)),
            (RankingOutcome::Tie(vec![1, 0]), vec!["a", "a", "b"])
        );
    }

    #[test]
    fn overlapping_intervals_are_undecided() {
        let ranking = rank(&[
            around(100.0, 0.2, 0),
            around(103.0, 0.2, 2),
            around(50.0, 0.01, 6),
        ]);
        assert_eq!(
            (ranking.outcome.clone(), shown(&ranking)),
            (RankingOutcome::Undecided(vec![1, 0]), vec!["a", "a", "b"])
        );
    }

    #[test]
    fn missing_targets_are_left_out_of_the_contest() {
        let ranking = rank(&[around(100.0, 0.01, 0), vec![], around(70.0, 0.01, 6)]);
        assert_eq!(
            (ranking.outcome.clone(), shown(&ranking)),
            (RankingOutcome::Winner(0), vec!["a", "-", "b"])
        );
        assert_eq!(
            ranking.pairs[0].comparison.level, LEVEL,
            "one pair needs no adjustment"
        );
        assert_eq!(
            rank(&[vec![], around(1.0, 0.1, 0)]).outcome,
            RankingOutcome::Alone(1)
        );
        assert_eq!(rank(&[vec![], vec![]]).outcome, RankingOutcome::Nothing);
        assert_eq!(rank(&[]).outcome, RankingOutcome::Nothing);
    }

    #[test]
    fn few_blocks_are_not_judged_and_may_still_win_later() {
        let few = |values: &[f64]| blocks(values);
        let ranking = rank(&[few(&[1.0, 1.1, 1.2]), few(&[9.0, 9.1, 9.2])]);
        assert_eq!(
            (ranking.outcome.clone(), shown(&ranking)),
            (RankingOutcome::NotJudged, vec!["-", "-"])
        );
        // Two judged targets and one with three blocks: it may be the fastest, so no target has
        // won.
        let mixed = rank(&[
            around(100.0, 0.01, 0),
            around(130.0, 0.01, 2),
            few(&[500.0, 510.0, 490.0]),
        ]);
        assert_eq!(mixed.outcome, RankingOutcome::Undecided(vec![2, 1]));
    }

    #[test]
    fn intervals_of_a_row_hold_together() {
        let ranking = rank(&[
            around(100.0, 0.01, 0),
            around(100.2, 0.01, 2),
            around(70.0, 0.01, 6),
        ]);
        assert!(
            ranking
                .pairs
                .iter()
                .all(|pair| (pair.comparison.level - (1.0 - 0.05 / 3.0)).abs() < 1e-12)
        );
    }

    #[test]
    fn a_barred_target_is_compared_and_does_not_win() {
        let samples = [
            around(100.0, 0.01, 0),
            around(130.0, 0.01, 2),
            around(70.0, 0.01, 6),
        ];
        let mut ranking = rank(&samples);
        ranking.bar(&[1], &[]);
        assert_eq!(
            (ranking.outcome.clone(), shown(&ranking)),
            (RankingOutcome::Winner(0), vec!["b", "a", "c"])
        );
        assert_eq!(ranking.verdict(0, 1), Verdict::Faster);
        crate::hold_over_page([&mut ranking]);
        assert_eq!(
            ranking.outcome,
            RankingOutcome::Winner(0),
            "the page does not lift the bar"
        );
        ranking.bar(&[1, 2], &[]);
        assert_eq!(ranking.outcome, RankingOutcome::Alone(0));
        ranking.bar(&[0, 1, 2], &[]);
        assert_eq!(
            ranking.outcome,
            RankingOutcome::Winner(1),
            "if all are barred, all may win"
        );
        // The second is not known to be what the case says, as long as another target is.
        ranking.bar(&[], &[1]);
        assert_eq!(ranking.outcome, RankingOutcome::Winner(0));
        ranking.bar(&[0, 2], &[1]);
        assert_eq!(ranking.outcome, RankingOutcome::Alone(1));
        ranking.bar(&[], &[0, 1, 2]);
        assert_eq!(ranking.outcome, RankingOutcome::Winner(1));
        let mut nothing = rank(&[vec![], vec![]]);
        nothing.bar(&[0], &[]);
        assert_eq!(nothing.outcome, RankingOutcome::Nothing);
    }

    #[test]
    fn slower_than_all_means_every_one() {
        // The third is slower than the first; its wide interval reaches the second.
        let ranking = rank(&[
            around(130.0, 0.01, 0),
            around(103.0, 0.15, 2),
            around(96.0, 0.05, 6),
        ]);
        assert_eq!(ranking.verdict(0, 2), Verdict::Slower);
        assert_ne!(ranking.verdict(1, 2), Verdict::Slower);
        assert!(ranking.is_slower_than_all(2, &[0]) && !ranking.is_slower_than_all(2, &[0, 1]));
    }

    fn any_row() -> impl Strategy<Value = Vec<Vec<BlockValue>>> {
        let value = (0u32..14, 0.8f64..1.3);
        let target = prop::collection::vec(value, 0..14).prop_map(|pairs| {
            pairs
                .into_iter()
                .map(|(block, value)| BlockValue::new(block, value))
                .collect::<Vec<_>>()
        });
        prop::collection::vec(target, 0..6)
    }

    /// Complete blocks with centres that really differ, so that every verdict occurs.
    fn complete_row() -> impl Strategy<Value = Vec<Vec<BlockValue>>> {
        (2usize..6, 5usize..11).prop_flat_map(|(targets, n)| {
            prop::collection::vec(
                (0.9f64..1.15, prop::collection::vec(0.98f64..1.02, n)),
                targets,
            )
            .prop_map(|rows| {
                rows.into_iter()
                    .map(|(c, noise)| blocks(&noise.iter().map(|x| c * x).collect::<Vec<_>>()))
                    .collect()
            })
        })
    }

    fn consistent(samples: &[Vec<BlockValue>], better: Better) -> Result<(), TestCaseError> {
        let ranking = Ranking::from_samples(samples, better, 0.03).unwrap();
        for pair in &ranking.pairs {
            let comparison = &pair.comparison;
            let interval = comparison.interval;
            if comparison.verdict == Verdict::NotJudged {
                continue;
            }
            let interval = interval.unwrap();
            // The verdict and the printed interval agree.
            let excludes = interval.lo > 1.0 || interval.hi < 1.0;
            prop_assert!(!comparison.verdict.differs() || excludes);
            prop_assert!(comparison.verdict != Verdict::Inconclusive || !excludes);
            // Letters and verdicts agree.
            let (a, b) = (
                ranking.letters[pair.baseline].as_ref(),
                ranking.letters[pair.candidate].as_ref(),
            );
            let (a, b) = (a.unwrap(), b.unwrap());
            prop_assert_eq!(
                a.chars().any(|letter| b.contains(letter)),
                !comparison.verdict.is_sure()
            );
            // What the interval excludes, Holm's test rejects.
            let p = pair.adjusted_p.unwrap();
            prop_assert!(p < 0.05 + 1e-9 || !excludes, "{p} {interval:?}");
        }
        // The winner is the one with nothing but an a, alone.
        if let RankingOutcome::Winner(winner) = ranking.outcome {
            prop_assert_eq!(ranking.letters[winner].as_deref(), Some("a"));
            let others = ranking
                .letters
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != winner);
            prop_assert!(
                others
                    .flat_map(|(_, letters)| letters)
                    .all(|letters| !letters.contains('a'))
            );
        }
        if let RankingOutcome::Tie(top) | RankingOutcome::Undecided(top) = &ranking.outcome {
            prop_assert!(top.len() > 1);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn intervals_verdicts_letters_and_outcome_never_contradict(samples in any_row()) {
            consistent(&samples, Better::Higher)?;
            consistent(&samples, Better::Lower)?;
        }

        #[test]
        fn nor_do_they_in_complete_blocks(samples in complete_row()) {
            consistent(&samples, Better::Higher)?;
            consistent(&samples, Better::Lower)?;
        }

        #[test]
        fn adjusted_p_values_are_in_the_order_of_p_values(samples in complete_row()) {
            let ranking = rank(&samples);
            let mut pairs = ranking.pairs.clone();
            pairs.sort_by(|a, b| a.comparison.p_value.partial_cmp(&b.comparison.p_value).unwrap());
            for two in pairs.windows(2) {
                prop_assert!(two[0].adjusted_p <= two[1].adjusted_p);
                prop_assert!(two[0].adjusted_p >= two[0].comparison.p_value);
            }
        }

        #[test]
        fn the_order_of_the_targets_changes_no_finding(samples in complete_row()) {
            let forward = rank(&samples);
            let reversed: Vec<_> = samples.iter().rev().cloned().collect();
            let backward = rank(&reversed);
            let last = samples.len() - 1;
            for a in 0..samples.len() {
                for b in 0..samples.len() {
                    prop_assert_eq!(forward.verdict(a, b), backward.verdict(last - a, last - b));
                }
                prop_assert_eq!(&forward.letters[a], &backward.letters[last - a]);
            }
        }
    }

    fn letters_of(order: &[usize], pairs: &[(usize, usize)]) -> Vec<String> {
        letters(order, |a, b| {
            pairs.contains(&(a, b)) || pairs.contains(&(b, a))
        })
    }

    #[test]
    fn the_best_has_a() {
        assert_eq!(
            letters_of(&[1, 0, 2], &[(0, 1), (0, 2), (1, 2)]),
            ["b", "a", "c"]
        );
        assert_eq!(letters_of(&[0, 1, 2], &[]), ["a", "a", "a"]);
        assert_eq!(letters_of(&[0, 1, 2], &[(0, 2)]), ["a", "ab", "b"]);
        assert_eq!(letters_of(&[], &[]), Vec::<String>::new());
    }

    #[test]
    fn groups_may_overlap() {
        let pairs = [(0, 6), (0, 7), (1, 6), (1, 7), (3, 7)];
        let shown = letters_of(&[0, 1, 2, 3, 4, 5, 6, 7], &pairs);
        assert_eq!(shown, ["a", "a", "abc", "ab", "abc", "abc", "bc", "c"]);
    }

    #[test]
    fn there_are_more_letters_than_the_alphabet_has() {
        assert_eq!(
            (letter(25), letter(26), letter(53)),
            ("z".into(), "a1".into(), "b2".into())
        );
    }

    proptest! {
        #[test]
        fn a_shared_letter_means_not_told_apart(bits in prop::collection::vec(any::<bool>(), 36)) {
            let n = 9;
            let differs = |a: usize, b: usize| {
                let (low, high) = (a.min(b), a.max(b));
                bits[high * (high - 1) / 2 + low]
            };
            let order: Vec<usize> = (0..n).rev().collect();
            let shown = letters(&order, differs);
            for high in 1..n {
                for low in 0..high {
                    let shared = shown[low].chars().any(|letter| shown[high].contains(letter));
                    prop_assert_eq!(shared, !differs(low, high));
                }
            }
            prop_assert!(shown[order[0]].contains('a'));
        }
    }

    /// Returns the resolution of two targets with this interval and verdict.
    fn of_two(lo: f64, hi: f64, verdict: Verdict) -> Option<Resolution> {
        let samples = [
            blocks(&[1.0, 1.1, 0.9, 1.0, 1.05]),
            blocks(&[1.0, 0.9, 1.1, 1.05, 1.0]),
        ];
        let mut ranking = Ranking::from_samples(&samples, Better::Higher, 0.03).unwrap();
        let comparison = &mut ranking.pairs[0].comparison;
        (comparison.interval, comparison.verdict) = (Some(Interval { lo, hi }), verdict);
        ranking.conclude();
        ranking.resolution()
    }

    #[test]
    fn a_resolution_derives_from_the_interval() {
        let near = |found: Option<Resolution>, expected: Resolution| {
            let found = found.unwrap();
            assert!(
                (found.change() - expected.change()).abs() < 1e-9,
                "{found:?} {expected:?}"
            );
            assert_eq!(
                std::mem::discriminant(&found),
                std::mem::discriminant(&expected),
                "{found:?}"
            );
        };
        near(
            of_two(0.98, 1.01, Verdict::Equivalent),
            Resolution::EqualWithin(1.0 / 0.98 - 1.0),
        );
        near(
            of_two(0.95, 1.04, Verdict::Inconclusive),
            Resolution::NoDifferenceAbove(1.0 / 0.95 - 1.0),
        );
        near(
            of_two(0.93, 0.99, Verdict::PerhapsSlower),
            Resolution::NoMoreThan(1.0 / 0.93 - 1.0),
        );
        near(
            of_two(1.01, 1.08, Verdict::ProbablyFaster),
            Resolution::NoMoreThan(0.08),
        );
        near(
            of_two(0.70, 1.05, Verdict::Inconclusive),
            Resolution::Undecided(1.0 / 0.70 - 1.0),
        );
        near(
            of_two(1.01, 1.48, Verdict::PerhapsFaster),
            Resolution::Undecided(0.48),
        );
        assert_eq!(of_two(1.04, 1.48, Verdict::Faster), None);
        assert_eq!(of_two(0.70, 1.05, Verdict::NotJudged), None);
    }

    proptest! {
        #[test]
        fn the_order_of_targets_changes_no_resolution(
            rows in prop::collection::vec(prop::collection::vec(0.7f64..1.4, 8), 2..5), higher in any::<bool>(),
        ) {
            let better = if higher { Better::Higher } else { Better::Lower };
            let samples: Vec<Vec<BlockValue>> = rows.iter().map(|values| blocks(values)).collect();
            let reversed: Vec<Vec<BlockValue>> = samples.iter().rev().cloned().collect();
            let of = |samples: &[Vec<BlockValue>]| Ranking::from_samples(samples, better, 0.03).unwrap().resolution();
            match (of(&samples), of(&reversed)) {
                (Some(one), Some(other)) => {
                    prop_assert_eq!(std::mem::discriminant(&one), std::mem::discriminant(&other));
                    prop_assert!((one.change() / other.change() - 1.0).abs() < 1e-9, "{:?} {:?}", one, other);
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
