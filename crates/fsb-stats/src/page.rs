//! All cases of a page together, and one ratio over many workloads ([`overall`]).
//!
//! All cases of a run contribute to estimates that one case does not allow: the scale of variances
//! ([`Line`]) and the correlation of neighbouring blocks ([`correlation`]). A case that ended at an
//! interim analysis keeps the estimates of that analysis, so that it stays decided.
//!
//! Each case excludes equality by chance once in twenty times. With twelve cases of equal targets
//! every second page would show a significant difference. So every difference must be confirmed
//! over all pairs of all cases: of pages of equal targets at most one in twenty shows a significant
//! difference. A ratio beyond θ is confirmed in the same way, with the p-value of the nearest ratio
//! within θ.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::Better;
use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::comparison::{Comparison, Difference, Residuals};
use crate::prior::{Known, Line, effective_cases};
use crate::ranking::{Fit, Pair, Ranking, holm};
use crate::sample::{AnalysisError, Method, logarithm};
use crate::verdict::exp;

/// The level of a page whose pairs are compared by block. With it, one page of equals in twenty
/// shows a significant difference even if neighbouring blocks have a correlation of 0.17.
const ALPHA_OF_BLOCKS: f64 = 0.03;
/// The expected correlation of neighbouring blocks before a run: mean and standard deviation. Runs
/// on idle and on busy machines had -0.06 to +0.12.
const USUAL: (f64, f64) = (0.13, 0.1);
/// The limit of the correlation. A larger one would make intervals of any width, because too little
/// independent information is left.
const LARGEST_CORRELATION: f64 = 0.8;

/// Judges all pairs with the estimates of the page, and adjusts their p-values over it. A pair
/// whose interval excludes equality without being confirmed becomes *perhaps* faster or slower.
/// Letters and outcomes follow. Returns the correlation of neighbouring blocks, pooled over the
/// page, or `None` if there are too few blocks for it.
pub fn hold_over_page<'a>(
    rankings: impl IntoIterator<Item = &'a mut Ranking>,
) -> Option<Correlation> {
    let mut rankings: Vec<&mut Ranking> = rankings.into_iter().collect();
    let correlation = moderate(&mut rankings);
    confirm(rankings);
    correlation
}

/// Like [`hold_over_page`] for groups without common variances, such as those of different metrics.
/// The correction covers all groups together.
pub fn hold_groups_over_page<'a>(groups: impl IntoIterator<Item = &'a mut [Ranking]>) {
    let mut all: Vec<&mut Ranking> = Vec::new();
    for group in groups {
        let mut group: Vec<&mut Ranking> = group.iter_mut().collect();
        moderate(&mut group);
        all.extend(group);
    }
    confirm(all);
}

/// Judges the pairs of each run with the estimates from all cases of the run.
fn moderate(rankings: &mut [&mut Ranking]) -> Option<Correlation> {
    let mut contexts: BTreeMap<(usize, Option<u32>), Context> = BTreeMap::new();
    let keys: BTreeSet<(usize, Option<u32>)> = rankings
        .iter()
        .flat_map(|ranking| ranking.fits())
        .filter_map(|fit| Some((fit.run?, fit.ended)))
        .collect();
    let whole: BTreeSet<(usize, Option<u32>)> = keys.iter().map(|(run, _)| (*run, None)).collect();
    for (run, ended) in keys.into_iter().chain(whole) {
        let mut rows = Vec::with_capacity(rankings.len());
        for ranking in rankings.iter() {
            let is_meant = |fit: &Fit| fit.run == Some(run) && fit.difference.is_judged();
            let mut fits = match ended {
                Some(block) => ranking.fits_up_to(block),
                None => Vec::new(),
            };
            fits.retain(is_meant);
            if ended.is_none() {
                fits.extend(ranking.fits().iter().filter(|fit| is_meant(fit)).cloned());
            }
            rows.push(fits);
        }
        contexts.insert((run, ended), Context::from_fits(&rows));
    }
    for ranking in rankings.iter_mut() {
        ranking.judge(
            &|fit| match fit.run.and_then(|run| contexts.get(&(run, fit.ended))) {
                Some(context) => context.moderated(&fit.difference),
                None => fit.difference.clone(),
            },
        );
    }
    contexts
        .iter()
        .find(|((_, ended), _)| ended.is_none())
        .and_then(|(_, context)| context.correlation)
}

/// Adjusts the p-values of all judged pairs over the page.
pub(crate) fn confirm(mut rankings: Vec<&mut Ranking>) {
    let (mut equal, mut within_theta) = (Vec::new(), Vec::new());
    for (row, ranking) in rankings.iter().enumerate() {
        for (place, pair) in ranking.pairs.iter().enumerate() {
            if pair.adjusted_p.is_some() {
                equal.extend(pair.comparison.p_value.map(|p| ((row, place), p)));
                within_theta.extend(pair.p_theta.map(|p| ((row, place), p)));
            }
        }
    }
    let (equal, within_theta) = (holm(equal), holm(within_theta));
    for ((row, place), p) in equal {
        rankings[row].pairs[place].page_p = Some(p);
    }
    for ((row, place), p) in within_theta {
        rankings[row].pairs[place].page_p_theta = Some(p);
    }
    for ranking in &mut rankings {
        for place in 0..ranking.pairs.len() {
            let pair = &ranking.pairs[place];

            if pair.page_p.is_some() {
                let verdict = ranking.verdict_of_interval(pair);
                let [matters, differs] =
                    [pair.page_p_theta, pair.page_p].map(|p| p.is_some_and(|p| p <= alpha(pair)));
                ranking.pairs[place].comparison.verdict = verdict.confirmed(matters, differs);
            }
        }
        if !ranking.pairs.is_empty() {
            ranking.conclude();
        }
    }
}

/// Returns whether this pair differs significantly by more than θ on a page of `of` pairs, whatever
/// the other pairs show.
pub(crate) fn is_borne_out(pair: &Pair, of: usize) -> bool {
    pair.p_theta.is_some_and(|p| p * of as f64 <= alpha(pair))
}

/// Returns the level of the page of a pair.
fn alpha(pair: &Pair) -> f64 {
    match pair.comparison.method {
        Method::Paired | Method::PairedOnSlices => ALPHA_OF_BLOCKS,
        Method::PairedRuns | Method::Welch => 1.0 - LEVEL,
    }
}

/// Estimates from all cases of a run that each case uses.
#[derive(Debug, Clone, Copy, Default)]
struct Context {
    /// The prior of pairs with known variances within blocks.
    by_within: Option<Line>,
    /// The prior of other pairs.
    alone: Option<Line>,
    correlation: Option<Correlation>,
}

impl Context {
    /// Returns the estimates from the judged pairs of each case.
    fn from_fits(rows: &[Vec<Fit>]) -> Context {
        let differences: Vec<&Difference> =
            rows.iter().flatten().map(|fit| &fit.difference).collect();
        let residuals: Vec<BTreeMap<(usize, u32), f64>> = differences
            .iter()
            .map(|difference| {
                let by_block = difference.residuals.by_block.iter();
                by_block.map(|(block, left)| ((0, *block), *left)).collect()
            })
            .collect();
        let share = effective_cases(&residuals) / residuals.len().max(1) as f64;
        let (by_within, alone): (Vec<Known>, Vec<Known>) = differences
            .iter()
            .map(|difference| difference.known())
            .partition(|known| known.within.is_some());
        Context {
            by_within: Line::fit(&by_within, share),
            alone: Line::fit(&alone, share),
            correlation: correlation(&differences, share),
        }
    }

    fn moderated(&self, difference: &Difference) -> Difference {
        let line = if difference.known().within.is_some() {
            self.by_within
        } else {
            self.alone
        };
        difference.moderated(line.as_ref(), inflation(self.correlation))
    }
}

/// [`Correlation::inflation`], or that of what is usual.
fn inflation(correlation: Option<Correlation>) -> f64 {
    correlation.map_or_else(|| inflation_of(USUAL.0), Correlation::inflation)
}

fn inflation_of(correlation: f64) -> f64 {
    let correlation = correlation.clamp(0.0, LARGEST_CORRELATION);
    ((1.0 + correlation) / (1.0 - correlation)).sqrt()
}

/// The correlation of neighbouring blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Correlation {
    /// The estimate from the page alone.
    pub estimate: f64,
    /// The standard error.
    pub error: f64,
}

impl Correlation {
    /// A larger correlation is reported.
    const REMARKABLE: f64 = 0.1;

    /// Returns whether the correlation is significantly larger than usual.
    pub fn is_remarkable(self) -> bool {
        self.estimate > Correlation::REMARKABLE && self.estimate > 2.0 * self.error
    }

    /// Returns the factor by which the correlation makes standard errors larger: 1 for a negative
    /// correlation.
    pub fn inflation(self) -> f64 {
        inflation_of(self.expected())
    }

    /// Returns the mean of the estimate and of [`USUAL`], weighted by precision.
    fn expected(self) -> f64 {
        let (mean, sd) = USUAL;
        let (told, usual) = (1.0 / (self.error * self.error), 1.0 / (sd * sd));
        (self.estimate * told + mean * usual) / (told + usual)
    }
}

/// Pools the products of neighbouring residuals over all pairs of targets, less what the fits
/// themselves make. If the correlation is ρ, the variance of a mean is larger than that of
/// independent blocks by (1 + ρ)/(1 − ρ), as in an autoregressive process of first order. Each pair
/// counts as `share` of an independent one. `None` where no blocks are neighbours.
fn correlation(differences: &[&Difference], share: f64) -> Option<Correlation> {
    let (mut products, mut slope) = (0.0, 0.0);
    for difference in differences
        .iter()
        .filter(|difference| difference.variance > 0.0)
    {
        let residuals = &difference.residuals;
        let sum: f64 = residuals.neighbours().map(|(a, b)| a * b).sum();
        products += sum / difference.variance - residuals.by_fit;
        slope += residuals.slope;
    }
    // The slope is the variance of the sum, too.
    (share * slope > 1e-9).then(|| Correlation {
        estimate: products / slope,
        error: 1.0 / (share * slope).sqrt(),
    })
}

/// One workload's share in the whole.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    /// The weight; equal weights are the default everywhere.
    pub weight: f64,
    /// All targets of the workload. The direction of its metric counts: times enter upside down, so
    /// that more is faster.
    pub ranking: &'a Ranking,
}

/// Returns the weighted geometric mean of ratios given as `(ratio, weight)`.
pub fn geometric_mean(ratios: &[(f64, f64)]) -> Result<f64, AnalysisError> {
    let total = total_weight(ratios.iter().map(|(_, weight)| *weight))?;
    let logs = ratios
        .iter()
        .map(|(ratio, weight)| Ok(logarithm(*ratio)? * (weight / total)));
    Ok(exp(logs.sum::<Result<f64, AnalysisError>>()?))
}

/// Returns the geometric mean of the workloads' speed ratios of `candidate` to `baseline`, with an
/// interval.
///
/// It is the weighted sum of the workloads' own estimates, each from all of its blocks. The unit is
/// the block: the residuals of each workload are summed by block before they are squared (a
/// cluster-robust variance; Liang and Zeger 1986), so that workloads with a common random effect of
/// a block do not count as independent. A workload that ended early has fewer blocks. The degrees
/// of freedom are Satterthwaite's, for blocks with unequal weights. The ratio is one of speeds:
/// more than 1 is faster. `correlation` is that of neighbouring blocks
/// ([`hold_over_page`](crate::hold_over_page)). The interval is one of `compared` that hold
/// together (Bonferroni). Returns `None` if a workload does not compare the two by block.
pub fn overall(
    workloads: &[Weighted<'_>],
    baseline: usize,
    candidate: usize,
    correlation: Option<Correlation>,
    theta: f64,
    compared: usize,
) -> Result<Option<Comparison>, AnalysisError> {
    let total = total_weight(workloads.iter().map(|workload| workload.weight))?;
    let mut mean = 0.0;
    // By block: the sum of residuals, and its variance if workloads are independent.
    let mut blocks: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    let mut last: Option<&Fit> = None;
    for workload in workloads {
        let Some(fit) = workload.ranking.fits().iter().find(|fit| {
            (fit.baseline, fit.candidate) == (baseline, candidate) && fit.run.is_some()
        }) else {
            return Ok(None);
        };
        let sign = if workload.ranking.better() == Better::Higher {
            1.0
        } else {
            -1.0
        };
        let share = sign * workload.weight / total;
        let difference = &fit.difference;
        mean += share * difference.mean;
        let residuals = &difference.residuals.by_block;
        // The fit took a part of the residuals. The scale corrects for that with the degrees of
        // freedom.
        let scale = share * (difference.leverage() / difference.degrees).sqrt();
        for (block, residual) in residuals {
            let (sum, variance) = blocks.entry(*block).or_default();
            *sum += scale * residual;
            *variance += (scale * scale) * difference.variance;
        }
        if last.is_none_or(|last| last.ended.is_some() && fit.ended.is_none()) {
            last = Some(fit);
        }
    }
    let Some(last) = last else { return Ok(None) };
    let squares: f64 = blocks.values().map(|(sum, _)| sum * sum).sum();
    let variance: f64 = blocks.values().map(|(_, variance)| variance).sum();
    let fourth: f64 = blocks
        .values()
        .map(|(_, variance)| variance * variance)
        .sum();
    let alike = if fourth > 0.0 {
        variance * variance / fourth
    } else {
        blocks.len() as f64
    };
    let inflation = inflation(correlation);
    let n = blocks.len();
    let difference = Difference::fitted(
        mean,
        inflation * squares.sqrt(),
        0.0,
        (alike - 1.0).max(1.0),
        n,
        Residuals::default(),
    );
    let difference = Difference {
        method: Method::Paired,
        ..difference
    };
    let level = 1.0 - (1.0 - LEVEL) / compared.max(1) as f64;
    Ok(Some(difference.judged(
        level,
        &last.analysis,
        Better::Higher,
        theta,
    )))
}

fn total_weight(weights: impl ExactSizeIterator<Item = f64>) -> Result<f64, AnalysisError> {
    if weights.len() == 0 {
        return Err(AnalysisError::Empty);
    }
    weights.into_iter().try_fold(0.0, |sum, weight| {
        if weight.is_finite() && weight > 0.0 {
            Ok(sum + weight)
        } else {
            Err(AnalysisError::Weight(weight))
        }
    })
}

#[cfg(test)]
mod tests {
    use fsb_model::Better;

    use super::*;
    use crate::ranking::RankingOutcome;
    use crate::sample::BlockValue;
    use crate::verdict::Verdict;

    /// Two targets whose second one is faster by `gain`, with a scatter of a few per cent.
    fn row(gain: f64) -> Ranking {
        let scatter = [0.02, -0.03, 0.01, 0.03, -0.02, -0.01, 0.025, -0.025];
        let values = |center: f64, sign: f64| {
            let value = |(block, noise): (u32, &f64)| {
                BlockValue::new(block, center * libm::exp(sign * noise))
            };
            (1..).zip(&scatter).map(value).collect::<Vec<_>>()
        };
        Ranking::from_samples(
            &[values(100.0, 1.0), values(100.0 * gain, -0.5)],
            Better::Higher,
            0.03,
        )
        .unwrap()
    }

    #[test]
    fn an_unconfirmed_difference_keeps_its_direction() {
        let verdicts = |rows: usize| {
            let mut page: Vec<Ranking> = (0..rows).map(|_| row(1.05)).collect();
            page.iter_mut().skip(1).for_each(|other| *other = row(1.0));
            hold_over_page(&mut page);
            (
                page[0].verdict(0, 1),
                page[0].verdict(1, 0),
                page[0].outcome.clone(),
            )
        };
        assert_eq!(verdicts(1).0, Verdict::ProbablyFaster);
        let (there, back, outcome) = verdicts(12);
        assert_eq!(
            (there, back),
            (Verdict::PerhapsFaster, Verdict::PerhapsSlower)
        );
        assert_eq!(outcome, RankingOutcome::Undecided(vec![1, 0]));
        assert_eq!(
            row(1.05).pairs[0]
                .comparison
                .interval
                .map(|interval| interval.lo > 1.0),
            Some(true)
        );
    }

    fn blocks(values: &[f64]) -> Vec<BlockValue> {
        (1..)
            .zip(values)
            .map(|(block, value)| BlockValue::new(block, *value))
            .collect()
    }

    #[test]
    fn weights_matter_and_must_be_weights() {
        assert!((geometric_mean(&[(4.0, 1.0), (1.0, 1.0)]).unwrap() - 2.0).abs() < 1e-12);
        assert!((geometric_mean(&[(8.0, 1.0), (1.0, 2.0)]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), Err(AnalysisError::Empty));
        assert_eq!(
            geometric_mean(&[(2.0, 0.0)]),
            Err(AnalysisError::Weight(0.0))
        );
        assert_eq!(
            geometric_mean(&[(-2.0, 1.0)]),
            Err(AnalysisError::NotPositive(-2.0))
        );
    }

    fn ranked(baseline: &[f64], candidate: &[f64], better: Better) -> Ranking {
        Ranking::from_samples(&[blocks(baseline), blocks(candidate)], better, 0.03).unwrap()
    }

    fn combined(rows: &[Ranking]) -> Option<Comparison> {
        let workloads: Vec<Weighted<'_>> = rows
            .iter()
            .map(|ranking| Weighted {
                weight: 1.0,
                ranking,
            })
            .collect();
        let none = Correlation {
            estimate: 0.0,
            error: 1e-9,
        };
        overall(&workloads, 0, 1, Some(none), 0.03, 1).unwrap()
    }

    #[test]
    fn times_enter_upside_down() {
        let rate = ranked(&[1.0; 6], &[2.0; 6], Better::Higher);
        let time = ranked(&[1.0; 6], &[2.0; 6], Better::Lower);
        let doubled = combined(std::slice::from_ref(&rate)).unwrap();
        assert!((doubled.ratio - 2.0).abs() < 1e-12);
        assert_eq!(doubled.verdict, Verdict::Faster);
        let balanced = combined(&[rate, time]).unwrap();
        assert_eq!(
            (balanced.ratio, balanced.verdict),
            (1.0, Verdict::Equivalent)
        );
    }

    const NOISE: [f64; 8] = [0.03, -0.05, 0.02, 0.04, -0.03, -0.02, 0.05, -0.04];

    /// Eight blocks, or the first of them, in which the candidate differs by `luck`.
    fn noisy(luck: &[f64]) -> Ranking {
        let values: Vec<f64> = luck.iter().map(|luck| libm::exp(*luck)).collect();
        ranked(&vec![1.0; values.len()], &values, Better::Higher)
    }

    #[test]
    fn the_interval_is_that_of_the_mean_over_workloads_in_each_block() {
        let other: Vec<f64> = NOISE.iter().rev().map(|noise| 0.5 * noise + 0.1).collect();
        let means: Vec<f64> = NOISE
            .iter()
            .zip(&other)
            .map(|(a, b)| (a + b) / 2.0)
            .collect();
        let (whole, paired) = (
            combined(&[noisy(&NOISE), noisy(&other)]).unwrap(),
            noisy(&means),
        );
        let (ours, theirs) = (
            whole.interval.unwrap(),
            paired.pairs[0].comparison.interval.unwrap(),
        );
        assert!(
            (ours.lo / theirs.lo - 1.0).abs() < 1e-9 && (ours.hi / theirs.hi - 1.0).abs() < 1e-9,
            "{ours:?} {theirs:?}"
        );
    }

    #[test]
    fn a_workload_that_ended_early_keeps_the_blocks_of_the_others() {
        let whole = combined(&[noisy(&NOISE), noisy(&NOISE[..5])]).unwrap();
        assert_eq!(whole.n, 8);
        let cut = combined(&[noisy(&NOISE[..5]), noisy(&NOISE[..5])]).unwrap();
        assert!(
            whole.interval.unwrap().relative_half_width()
                < cut.interval.unwrap().relative_half_width()
        );
        assert_eq!(combined(&[noisy(&NOISE), noisy(&[])]), None);
    }

    #[test]
    fn shared_luck_is_not_averaged_out() {
        let opposite: Vec<f64> = NOISE.iter().map(|noise| -noise).collect();
        let shared = combined(&[noisy(&NOISE), noisy(&NOISE)])
            .unwrap()
            .interval
            .unwrap();
        let one = noisy(&NOISE).pairs[0].comparison.interval.unwrap();
        assert!((shared.lo / one.lo - 1.0).abs() < 1e-9);
        assert!(
            combined(&[noisy(&NOISE), noisy(&opposite)])
                .unwrap()
                .interval
                .unwrap()
                .relative_half_width()
                < 1e-9
        );
    }
}
