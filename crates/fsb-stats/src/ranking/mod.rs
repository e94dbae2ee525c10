//! All targets of one row: every pair, letters and an outcome, from one set of intervals.
//!
//! With more than two targets the intervals stand at Holm's levels (Holm 1979): the pairs are taken in the order of
//! their p-values; of m pairs the i-th gets the level 1 − α/(m − i + 1), as long as its interval excludes 1; from the
//! first that does not, the rest stay at that level. So an interval excludes 1 exactly where Holm's test rejects,
//! and in rows of equal targets at most one in twenty shows any difference at all. Verdicts come from these
//! intervals, letters and outcome from the verdicts: they cannot contradict each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fsb_model::Better;
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
use crate::sequential::Boundary;
use crate::verdict::Verdict;

/// Two targets of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Place of the baseline.
    pub baseline: usize,
    /// Place of the candidate, always after the baseline.
    pub candidate: usize,
    /// How they compare.
    pub comparison: Comparison,
    /// The p-value after Holm's adjustment over the pairs of the row; absent where not judged.
    pub adjusted_p: Option<f64>,
    /// The same over the pairs of all rows, once [`hold_over_page`](crate::hold_over_page) has seen them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_p: Option<f64>,
    /// The standard deviation of one block's difference of logarithms; absent where they are not paired or not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

/// What can be said about a row as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// This one is faster than every other, by more than the smallest ratio that matters.
    Winner(usize),
    /// Nobody is faster than these by more than that, and they are equivalent to each other.
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

/// A row, ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranking {
    /// Every pair of targets that have blocks in common.
    pub pairs: Vec<Pair>,
    /// Letters by target, `a` for the best; absent where the target has no values or nothing could be judged.
    pub letters: Vec<Option<String>>,
    /// The row as a whole.
    pub outcome: Outcome,
    /// By target: its mean logarithm, the better the smaller; nothing where it has no values.
    #[serde(skip)]
    pub(crate) merits: Vec<Option<f64>>,
    /// Targets that are compared but may not win.
    #[serde(skip)]
    pub(crate) barred: BTreeSet<usize>,
}

impl Ranking {
    /// Ranks targets by the trials of one workload, one entry a target, empty where it has none.
    pub fn of(samples: &[Vec<BlockValue>], better: Better, theta: f64) -> Result<Ranking, AnalysisError> {
        Ranking::at_look(samples, &[], better, theta)
    }

    /// The same, where results are looked at after each of the numbers of blocks in `looks`, planned beforehand: the
    /// intervals hold at all looks together. Without looks, or with one, the number of blocks was fixed.
    pub fn at_look(
        samples: &[Vec<BlockValue>],
        looks: &[u32],
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        let samples: Vec<Sample> = samples.iter().map(|values| Sample::of_blocks(values.clone(), looks)).collect();
        Ranking::of_samples(&samples, &|_, _| Terms::default(), better, theta)
    }

    /// Ranks sets of which some took turns in the same blocks and others did not; `terms` are those on which the runs of two of
    /// them, baseline and candidate, are compared.
    pub(crate) fn of_samples(
        samples: &[Sample],
        terms: &dyn Fn(usize, usize) -> Terms,
        better: Better,
        theta: f64,
    ) -> Result<Ranking, AnalysisError> {
        let pairs = compare_all(samples, terms, better, theta)?;
        let merits = samples.iter().map(|sample| merit(sample, better)).collect::<Result<_, AnalysisError>>()?;
        let mut ranking =
            Ranking { pairs, letters: Vec::new(), outcome: Outcome::Nothing, merits, barred: BTreeSet::new() };
        ranking.conclude();
        Ok(ranking)
    }

    /// A row of so many targets without any comparison.
    pub fn without_pairs(targets: usize, outcome: Outcome) -> Ranking {
        Ranking {
            pairs: Vec::new(),
            letters: vec![None; targets],
            outcome,
            merits: vec![None; targets],
            barred: BTreeSet::new(),
        }
    }

    /// Bars targets from winning: the outcome is that of the others. If no other target has values, all may win. Pairs
    /// and letters stay.
    pub fn bar(&mut self, targets: impl IntoIterator<Item = usize>) {
        self.barred = targets.into_iter().collect();
        if self.merits.iter().any(Option::is_some) {
            self.conclude();
        }
    }

    /// Whether a target may win.
    pub fn may_win(&self, target: usize) -> bool {
        let has_values = |other: usize| self.merits[other].is_some();
        !self.barred.contains(&target)
            || (0..self.merits.len()).all(|other| self.barred.contains(&other) || !has_values(other))
    }

    /// Takes every judgement away: verdicts, intervals, letters and the outcome. Ratios stay.
    pub fn withhold(&mut self) {
        for pair in &mut self.pairs {
            (pair.comparison.verdict, pair.comparison.interval, pair.adjusted_p) = (Verdict::NotJudged, None, None);
        }
        self.letters.fill(None);
        self.outcome = Outcome::NotJudged;
    }

    /// Letters and outcome from the verdicts on the pairs.
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

    /// How `candidate` compares with `baseline`, whichever way round the pair was made.
    pub fn comparison(&self, baseline: usize, candidate: usize) -> Option<Comparison> {
        let (first, second) = (baseline.min(candidate), baseline.max(candidate));
        // Pairs are made in this order.
        let found = self.pairs.binary_search_by_key(&(second, first), |pair| (pair.candidate, pair.baseline)).ok()?;
        let comparison = &self.pairs[found].comparison;
        Some(if baseline < candidate { comparison.clone() } else { comparison.inverse() })
    }

    /// The verdict on `candidate`; not judged where they share no block.
    pub fn verdict(&self, baseline: usize, candidate: usize) -> Verdict {
        self.comparison(baseline, candidate).map_or(Verdict::NotJudged, |comparison| comparison.verdict)
    }

    /// Whether a target is slower than every one of `others`, by more than the smallest ratio that matters.
    pub fn is_slower_than_all(&self, target: usize, others: &[usize]) -> bool {
        others.iter().all(|other| self.verdict(*other, target) == Verdict::Slower)
    }

    /// From best to worst: by how many beat it, then by its mean. (Where blocks are missing a mean alone may point
    /// the other way than the blocks in common.)
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
        // Where runs cannot be compared, sets that won within their own run may be anything beside those of another.
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

    /// Targets that may be the fastest: the unbeaten; if that is one alone, also those it does not beat; if there is none
    /// (a circle, possible only where blocks are missing), all.
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

/// The mean logarithm of a sample, turned such that less is better.
fn merit(sample: &Sample, better: Better) -> Result<Option<f64>, AnalysisError> {
    let logs = by_block(&sample.values)?;
    let mean = logs.values().sum::<f64>() / logs.len() as f64;
    Ok((!logs.is_empty()).then_some(if better == Better::Higher { -mean } else { mean }))
}

/// The boundary for the interim analyses of the run that these samples share.
fn boundary(samples: &[Sample], shared: usize) -> Option<Arc<Boundary>> {
    let sharing = || samples.iter().filter(|sample| sample.shares_blocks == Some(shared));
    let parts: BTreeSet<u32> = sharing().flat_map(|sample| &sample.values).filter_map(|value| value.part).collect();
    let blocks = sharing().map(|sample| sample.values.len()).max().unwrap_or(0);
    let looks = sharing().map(|sample| &*sample.looks).next().unwrap_or_default();
    boundary_of(blocks as u32, looks, parts.len() as u32)
}

/// Blocks beyond the last look are one more. Of parts no more than two effects are a pair's: see the module `model`.
pub(crate) fn boundary_of(blocks: u32, looks: &[u32], parts: u32) -> Option<Arc<Boundary>> {
    let mut looks = looks.to_vec();
    if looks.last().is_some_and(|last| blocks > *last) {
        looks.push(blocks);
    }
    Boundary::of(&looks, 1 + parts.saturating_sub(1).min(2))
}

/// A pair before it is judged.
struct Compared {
    baseline: usize,
    candidate: usize,
    difference: Difference,
    /// The cost of interim analyses, where it took part in some.
    boundary: Option<Arc<Boundary>>,
}

/// All pairs, at Holm's levels.
fn compare_all(
    samples: &[Sample],
    terms: &dyn Fn(usize, usize) -> Terms,
    better: Better,
    theta: f64,
) -> Result<Vec<Pair>, AnalysisError> {
    let (mut models, mut boundaries) = (BTreeMap::new(), BTreeMap::new());
    for shared in samples.iter().filter_map(|sample| sample.shares_blocks).collect::<BTreeSet<_>>() {
        models.extend(Model::of(samples, shared)?.map(|model| (shared, model)));
        boundaries.extend(boundary(samples, shared).map(|boundary| (shared, boundary)));
    }
    let mut compared = Vec::new();
    for candidate in 1..samples.len() {
        for baseline in 0..candidate {
            let (b, c): (&Sample, &Sample) = (&samples[baseline], &samples[candidate]);
            let run = b.shares_blocks.filter(|_| b.is_compared_by_block(c));
            let difference = match run.and_then(|shared| models.get(&shared)) {
                Some(model) if b.has_parts() && c.has_parts() => model.difference(baseline, candidate),
                _ => b.difference(c, &terms(baseline, candidate))?,
            };
            let boundary = run.and_then(|shared| boundaries.get(&shared)).cloned();
            compared.extend(difference.map(|difference| Compared { baseline, candidate, difference, boundary }));
        }
    }
    let mut steps: Vec<Option<Step>> = (0..compared.len()).map(|_| None).collect();
    for step in holm(&compared) {
        let index = step.index;
        steps[index] = Some(step);
    }
    let pair = |(pair, step): (&Compared, &Option<Step>)| {
        let level = step.as_ref().map_or(LEVEL, |step| step.level);
        Pair {
            baseline: pair.baseline,
            candidate: pair.candidate,
            comparison: pair.difference.judged(level, pair.boundary.as_deref(), better, theta),
            adjusted_p: step.as_ref().map(|step| step.adjusted_p),
            page_p: None,
            spread: pair.difference.spread().filter(|_| step.is_some()),
        }
    };
    Ok(compared.iter().zip(&steps).map(pair).collect())
}

struct Step {
    index: usize,
    level: f64,
    adjusted_p: f64,
}

/// With interim analyses, every hypothesis of Holm's has the boundary of its own level (Maurer and Bretz 2013).
fn holm(compared: &[Compared]) -> Vec<Step> {
    let nominal =
        |pair: &Compared, alpha: f64| pair.boundary.as_ref().map_or(alpha, |boundary| boundary.nominal(alpha));
    let p_value = |pair: &Compared| {
        let p = pair.difference.p_value().unwrap_or(1.0);
        pair.boundary.as_ref().map_or(p, |boundary| boundary.overall(p))
    };
    let judged = compared.iter().enumerate().filter(|(_, pair)| pair.difference.is_judged());
    let mut ordered: Vec<(f64, f64, usize, &Compared)> =
        judged.map(|(index, pair)| (p_value(pair), pair.difference.p_value().unwrap_or(1.0), index, pair)).collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut remaining = ordered.len();
    let mut rejecting = true;
    let mut largest: f64 = 0.0;
    let mut steps = Vec::with_capacity(ordered.len());
    for (place, (p, _, index, pair)) in ordered.iter().enumerate() {
        if rejecting {
            remaining = ordered.len() - place;
        }
        let level = 1.0 - (1.0 - LEVEL) / remaining as f64;
        largest = largest.max(p * (ordered.len() - place) as f64).min(1.0);
        let interval = pair.difference.interval(1.0 - nominal(pair, 1.0 - level));
        rejecting = rejecting && interval.is_some_and(|i| i.lo > 0.0 || i.hi < 0.0);
        steps.push(Step { index: *index, level, adjusted_p: largest });
    }
    steps
}

#[cfg(test)]
mod tests;
