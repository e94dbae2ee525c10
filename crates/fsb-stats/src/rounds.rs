//! Analyses of the rounds within blocks: their share of the scatter, and whether they are
//! stationary.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::FEWEST_JUDGED;
use crate::description::{mean_and_sd, t_two_sided};
use crate::sample::{AnalysisError, logarithm};
use crate::verdict::exp;

/// The logarithms of the rates of one target in the rounds of one block, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundLogs {
    pub block: u32,
    pub logs: Vec<f64>,
}

/// The sources of a ratio's scatter, as relative standard deviations: 0.06 for 6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scatter {
    /// Of the ratio of one round, within a block.
    pub between_rounds: f64,
    /// Of the ratio of a whole block, beyond the effect of its rounds: layout, and everything else
    /// that each block creates again.
    pub between_blocks: f64,
}

/// Splits the variance of a block's difference by the method of moments. `spread` is the standard
/// deviation of that difference, without the effects of slices. Rounds of a block with the same
/// index are pairs. Returns `None` if no block has two rounds.
pub fn scatter(spread: f64, baseline: &[RoundLogs], candidate: &[RoundLogs]) -> Option<Scatter> {
    let baseline: BTreeMap<u32, &[f64]> = baseline
        .iter()
        .map(|rounds| (rounds.block, rounds.logs.as_slice()))
        .collect();
    let (mut squares, mut degrees, mut means, mut blocks) = (0.0, 0.0, 0.0, 0.0);
    for rounds in candidate {
        let Some(theirs) = baseline.get(&rounds.block) else {
            continue;
        };
        let differences: Vec<f64> = rounds
            .logs
            .iter()
            .zip(*theirs)
            .map(|(c, b)| c - b)
            .collect();
        let n = differences.len() as f64;
        if n < 2.0 {
            continue;
        }
        let mean = differences.iter().sum::<f64>() / n;
        squares += differences
            .iter()
            .map(|d| (d - mean) * (d - mean))
            .sum::<f64>();
        degrees += n - 1.0;
        means += 1.0 / n;
        blocks += 1.0;
    }
    if degrees == 0.0 {
        return None;
    }
    let rounds = squares / degrees;
    let beyond = (spread * spread - rounds * means / blocks).max(0.0);
    let [between_rounds, between_blocks] =
        [rounds, beyond].map(|variance| libm::expm1(variance.sqrt()).min(f64::MAX));
    Some(Scatter {
        between_rounds,
        between_blocks,
    })
}

/// The significance level of a trend: half of a hundredth, because the analysis looks for kinds as
/// well.
const TREND_LEVEL: f64 = 0.005;
/// Fewer rounds than this have no trend.
const FEWEST_ROUNDS: usize = 3;

/// The way in which the samples of a cell differ from each other beyond chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NotStationary {
    /// Rates rise or fall over the rounds of a block, in all blocks alike.
    Trend {
        /// The last round over the first: 0.88 for a loss of 12 %.
        change: f64,
        /// Two-sided probability of such a slope by chance.
        p_value: f64,
    },
    /// There are fast and slow samples and few between them.
    TwoKinds {
        /// The share of the fast ones.
        fast_share: f64,
        /// The rate.
        fast: f64,
        /// The rate of the slow ones.
        slow: f64,
    },
}

/// Judges the rates of one cell, round by round in each block. A trend is one that a t-test on the
/// slopes of the blocks finds (p < 0.005) and that changes the rate by more than `theta` from first
/// to last round. Trends are checked before kinds, because a trend can look like two kinds.
pub fn stationarity(
    blocks: &[Vec<f64>],
    theta: f64,
) -> Result<Option<NotStationary>, AnalysisError> {
    let logs = blocks
        .iter()
        .map(|block| block.iter().map(|rate| logarithm(*rate)).collect());
    let logs: Vec<Vec<f64>> = logs.collect::<Result<_, AnalysisError>>()?;
    if let Some(trend) = trend(&logs, theta) {
        return Ok(Some(trend));
    }
    let found = kinds(&logs.concat()).filter(|found| found.occur_throughout(&logs));
    Ok(found.map(|found| NotStationary::TwoKinds {
        fast_share: found.fast_share,
        fast: exp(found.fast),
        slow: exp(found.slow),
    }))
}

fn trend(blocks: &[Vec<f64>], theta: f64) -> Option<NotStationary> {
    let slopes: Vec<f64> = blocks
        .iter()
        .filter(|block| block.len() >= FEWEST_ROUNDS)
        .map(|block| slope(block))
        .collect();
    if slopes.len() < FEWEST_JUDGED {
        return None;
    }
    let rounds = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let (mean, sd) = mean_and_sd(&slopes);
    let change = mean * (rounds - 1) as f64;
    if change.abs() <= libm::log1p(theta) {
        return None;
    }
    let n = slopes.len() as f64;
    let p_value = t_two_sided(mean / (sd / n.sqrt()), n - 1.0);
    (p_value < TREND_LEVEL).then(|| NotStationary::Trend {
        change: exp(change),
        p_value,
    })
}

/// Returns the slope of the least-squares line through the rounds of a block.
fn slope(logs: &[f64]) -> f64 {
    let middle = (logs.len() - 1) as f64 / 2.0;
    let (mut product, mut squares) = (0.0, 0.0);
    for (round, log) in logs.iter().enumerate() {
        let place = round as f64 - middle;
        product += place * log;
        squares += place * place;
    }
    product / squares
}

/// The fewest samples for a test of kinds.
const FEWEST: usize = 20;
/// Samples of two kinds: each kind has at least this share of the samples.
const SHARE: f64 = 0.1;
/// The kinds differ by more than this ratio.
const RATIO: f64 = 1.25;
/// The difference of the kinds is at least this many times the scatter within them. For a normal
/// distribution cut in the middle it is 2.7 times, for a uniform one 3.5 times.
const SCATTERS: f64 = 5.0;

/// Logarithms that come in two kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kinds {
    /// The share of the faster kind.
    pub fast_share: f64,
    /// The means of the faster and of the slower kind.
    pub fast: f64,
    pub slow: f64,
}

impl Kinds {
    /// Returns whether the rarer kind occurs in a third of the blocks. Slow samples in only a block
    /// or two are outliers of the run.
    fn occur_throughout(&self, blocks: &[Vec<f64>]) -> bool {
        let (middle, rarer_is_fast) = (f64::midpoint(self.fast, self.slow), self.fast_share < 0.5);
        3 * blocks
            .iter()
            .filter(|block| block.iter().any(|log| (*log > middle) == rarer_is_fast))
            .count()
            >= blocks.len()
    }
}

/// Returns the split of the sorted logarithms with the least scatter within, if it meets the
/// criteria for kinds.
fn kinds(logs: &[f64]) -> Option<Kinds> {
    let n = logs.len();
    if n < FEWEST {
        return None;
    }
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let center = sorted.iter().sum::<f64>() / n as f64;
    let total: f64 = sorted.iter().map(|log| log - center).sum();
    let squares: f64 = sorted.iter().map(|log| (log - center).powi(2)).sum();
    let fewest = (SHARE * n as f64).ceil() as usize;
    let mut below = 0.0;
    let mut best: Option<(f64, usize, f64)> = None;
    for (count, log) in sorted.iter().enumerate() {
        if count >= fewest && n - count >= fewest {
            let (low, high) = (below / count as f64, (total - below) / (n - count) as f64);
            let between = low * low * count as f64 + high * high * (n - count) as f64;
            if best.is_none_or(|(most, ..)| between > most) {
                best = Some((between, count, high - low));
            }
        }
        below += log - center;
    }
    let (between, count, apart) = best?;
    let within = ((squares - between).max(0.0) / (n - 2) as f64).sqrt();
    let [slow, fast] = [&sorted[..count], &sorted[count..]]
        .map(|logs| logs.iter().sum::<f64>() / logs.len() as f64);
    let fast_share = (n - count) as f64 / n as f64;
    (apart > libm::log(RATIO) && within * SCATTERS < apart).then_some(Kinds {
        fast_share,
        fast,
        slow,
    })
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// Returns the mean estimates of the variances over many simulated runs of twelve blocks with
    /// nine rounds.
    fn recovered(rounds: f64, blocks: f64) -> (f64, f64) {
        const RUNS: usize = 400;
        let mut random = Pcg64::seed_from_u64(5);
        let (mut within, mut beyond) = (0.0, 0.0);
        for _ in 0..RUNS {
            let mut normal = |sd: f64| {
                sd * <StandardNormal as rand_distr::Distribution<f64>>::sample(
                    &StandardNormal,
                    &mut random,
                )
            };
            let (mut a, mut b, mut means) = (Vec::new(), Vec::new(), Vec::new());
            for block in 1..=12 {
                let luck = normal(blocks);
                let base: Vec<f64> = (0..9).map(|_| 20.0 + normal(0.5)).collect();
                let other: Vec<f64> = base
                    .iter()
                    .map(|base| base + luck + normal(rounds))
                    .collect();
                means.push(other.iter().zip(&base).map(|(o, b)| o - b).sum::<f64>() / 9.0);
                a.push(RoundLogs { block, logs: base });
                b.push(RoundLogs { block, logs: other });
            }
            let (_, spread) = crate::description::mean_and_sd(&means);
            let found = scatter(spread, &a, &b).unwrap();
            within += libm::log1p(found.between_rounds).powi(2) / RUNS as f64;
            beyond += libm::log1p(found.between_blocks).powi(2) / RUNS as f64;
        }
        (within.sqrt(), beyond.sqrt())
    }

    #[test]
    fn both_variances_are_found_again() {
        let (rounds, blocks) = recovered(0.06, 0.03);
        assert!(
            (rounds / 0.06 - 1.0).abs() < 0.02 && (blocks / 0.03 - 1.0).abs() < 0.05,
            "{rounds} {blocks}"
        );
        // Truncated at nothing: a little is left where there is none.
        let (rounds, blocks) = recovered(0.06, 0.0);
        assert!(
            (rounds / 0.06 - 1.0).abs() < 0.02 && blocks < 0.012,
            "{rounds} {blocks}"
        );
    }

    #[test]
    fn single_rounds_tell_nothing() {
        let one = [RoundLogs {
            block: 1,
            logs: vec![3.0],
        }];
        assert_eq!(scatter(0.1, &one, &one), None);
        assert_eq!(scatter(0.1, &one, &[]), None);
    }

    fn normal(random: &mut Pcg64) -> f64 {
        StandardNormal.sample(random)
    }

    /// Returns nine rounds in each of twelve blocks, 20 k/s with a scatter of blocks, each sample
    /// changed by a function.
    fn cell(random: &mut Pcg64, change: impl Fn(&mut Pcg64, usize) -> f64) -> Vec<Vec<f64>> {
        let block = |random: &mut Pcg64| {
            let luck = 0.03 * normal(random);
            (0..9)
                .map(|round| 20e3 * libm::exp(luck + change(random, round)))
                .collect()
        };
        (0..12).map(|_| block(random)).collect()
    }

    fn share(
        change: impl Fn(&mut Pcg64, usize) -> f64,
        found: impl Fn(Option<NotStationary>) -> bool,
    ) -> f64 {
        const CELLS: usize = 2000;
        let mut random = Pcg64::seed_from_u64(77);
        let fires = (0..CELLS)
            .filter(|_| found(stationarity(&cell(&mut random, &change), 0.03).unwrap()))
            .count();
        fires as f64 / CELLS as f64
    }

    #[test]
    fn stationary_samples_are_seldom_called_drifting() {
        type Noise = fn(&mut Pcg64, usize) -> f64;
        let noises: [(&str, Noise); 5] = [
            ("quiet", |random, _| 0.02 * normal(random)),
            ("noisy", |random, _| 0.2 * normal(random)),
            ("wild", |random, _| 0.8 * normal(random)),
            ("uniform", |random, _| {
                (random.next_u64() % 1000) as f64 * 1e-3
            }),
            ("skewed", |random, _| {
                0.3 * libm::log((1 + random.next_u64() % 1000) as f64 * 1e-3)
            }),
        ];
        for (name, noise) in noises {
            let fires = share(noise, |found| found.is_some());
            assert!(fires < 0.01, "{name}: {fires}");
        }
        assert_eq!(stationarity(&vec![vec![5.0; 9]; 12], 0.03), Ok(None));
    }

    #[test]
    fn a_loss_over_the_rounds_is_found() {
        let falling =
            |random: &mut Pcg64, round: usize| 0.05 * normal(random) - 0.12 * round as f64 / 8.0;
        let found = share(
            falling,
            |found| matches!(found, Some(NotStationary::Trend { change, .. }) if (0.8..0.97).contains(&change)),
        );
        assert!(found > 0.95, "{found}");
    }

    #[test]
    fn a_trend_smaller_than_what_matters_is_none() {
        let falling =
            |random: &mut Pcg64, round: usize| 0.002 * normal(random) - 0.01 * round as f64 / 8.0;
        assert_eq!(share(falling, |found| found.is_some()), 0.0);
    }

    #[test]
    fn two_kinds_are_found_with_their_shares() {
        let kinds = |random: &mut Pcg64, _| {
            let slow = random.next_u64() % 100 >= 62;
            0.06 * normal(random)
                + if slow {
                    libm::log(6.5 / 20.0)
                } else {
                    libm::log(17.7 / 20.0)
                }
        };
        let found = share(kinds, |found| match found {
            Some(NotStationary::TwoKinds {
                fast_share,
                fast,
                slow,
            }) => {
                (0.45..0.78).contains(&fast_share)
                    && (fast / 17.7e3 - 1.0).abs() < 0.06
                    && (slow / 6.5e3 - 1.0).abs() < 0.06
            }
            _ => false,
        });
        assert!(found > 0.99, "{found}");
    }

    #[test]
    fn a_block_in_which_all_was_slow_makes_no_kind() {
        let mut random = Pcg64::seed_from_u64(8);
        let mut blocks = cell(&mut random, |random, _| 0.01 * normal(random));
        blocks.truncate(9);
        blocks[5].iter_mut().for_each(|rate| *rate *= 0.6);
        assert_eq!(stationarity(&blocks, 0.03), Ok(None));
    }

    #[test]
    fn few_samples_are_of_no_kind() {
        let two = vec![vec![1.0, 1.0, 9.0, 9.0]; 4];
        assert_eq!(stationarity(&two, 0.03), Ok(None));
    }
}
