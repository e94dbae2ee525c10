//! The level of a curve beyond which no gain is shown.
//!
//! No law is fitted: a curve has as many points as levels, which are few. A gain is shown where a
//! later level is faster by more than matters in a one-sided paired t-test at 5 %, by Bonferroni
//! over the later levels. The largest of several noisy means is too large. If the means decided,
//! every third curve with a scatter of 6 % would stop too late. The interval is a percentile
//! bootstrap over blocks (Efron and Tibshirani 1993, chapter 13), because blocks are the
//! replicates.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use serde::Serialize;

use crate::description::{mean_and_sd, t_quantile};
use crate::sample::{logarithms, resampled};
use crate::{AnalysisError, FEWEST_JUDGED, LEVEL};

/// The number of resamples of the bootstrap.
const RESAMPLES: usize = 2000;
/// The seed of the bootstrap. A fixed seed makes the interval reproducible.
const SEED: u64 = 17;

/// The end of a curve's gains; places among its levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// The least level beyond which no gain is shown.
    pub level: usize,
    /// Lower end of the 95 % interval.
    pub lo: usize,
    /// Upper end of the 95 % interval.
    pub hi: usize,
}

/// Returns the knee of a curve of rates: `blocks` holds the rates of all levels, in their order,
/// block by block. Absent where the blocks are too few to judge, or where there are fewer than
/// three levels. `theta` is the smallest ratio that matters, 0.03 for 3 %.
pub fn knee(blocks: &[Vec<f64>], theta: f64) -> Result<Option<Knee>, AnalysisError> {
    let levels = blocks.first().map_or(0, Vec::len);
    if blocks.len() < FEWEST_JUDGED
        || levels < 3
        || blocks.iter().any(|block| block.len() != levels)
    {
        return Ok(None);
    }
    let logs: Vec<Vec<f64>> = blocks
        .iter()
        .map(|block| logarithms(block))
        .collect::<Result<_, _>>()?;
    let mut random = Pcg64::seed_from_u64(SEED);
    let mut found: Vec<usize> = (0..RESAMPLES)
        .map(|_| of_means(&resampled(&logs, &mut random), theta))
        .collect();
    found.sort_unstable();
    let tail = RESAMPLES / 40;
    let level = (0..levels)
        .find(|level| !shows_gain(&logs, *level, theta))
        .unwrap_or(0);
    Ok(Some(Knee {
        level,
        lo: found[tail].min(level),
        hi: found[RESAMPLES - 1 - tail].max(level),
    }))
}

/// Returns whether a later level is faster than this one by more than `theta`.
fn shows_gain(blocks: &[Vec<f64>], level: usize, theta: f64) -> bool {
    let later = level + 1..blocks[0].len();
    let alpha = (1.0 - LEVEL) / later.len().max(1) as f64;
    let matters = libm::log1p(theta);
    later.into_iter().any(|later| {
        let gains: Vec<f64> = blocks
            .iter()
            .map(|block| block[later] - block[level])
            .collect();
        let (mean, sd) = mean_and_sd(&gains);
        let n = gains.len() as f64;
        mean - matters > t_quantile(1.0 - 2.0 * alpha, n - 1.0) * sd / n.sqrt()
    })
}

/// Returns the least level that no higher one exceeds by more than `theta`, by the means of the
/// blocks.
fn of_means(blocks: &[&Vec<f64>], theta: f64) -> usize {
    let means: Vec<f64> = (0..blocks[0].len())
        .map(|level: usize| {
            blocks.iter().map(|block| block[level]).sum::<f64>() / blocks.len() as f64
        })
        .collect();
    let matters = libm::log1p(theta);
    (0..means.len())
        .find(|level| {
            let mut later = means[level + 1..].iter();
            !later.any(|later| later - means[*level] > matters)
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rand_pcg::rand_core::Rng;

    use super::*;

    /// Blocks of a curve with a scatter of so much.
    fn curve(rates: &[f64], blocks: usize, scatter: f64) -> Vec<Vec<f64>> {
        let mut random = Pcg64::seed_from_u64(3);
        let mut drawn =
            || 1.0 + scatter * ((random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5);
        (0..blocks)
            .map(|_| rates.iter().map(|rate| rate * drawn()).collect())
            .collect()
    }

    #[test]
    fn a_curve_stops_where_no_later_level_is_faster() {
        let at = |rates: &[f64]| knee(&curve(rates, 8, 0.01), 0.03).unwrap().unwrap();
        assert_eq!(
            at(&[100.0, 190.0, 192.0, 191.0]),
            Knee {
                level: 1,
                lo: 1,
                hi: 1
            }
        );
        assert_eq!(
            at(&[100.0, 200.0, 300.0, 400.0]).level,
            3,
            "it gains to the last"
        );
        assert_eq!(at(&[100.0, 80.0, 70.0, 60.0]).level, 0, "it never gains");
        assert_eq!(
            at(&[100.0, 90.0, 150.0, 150.0]).level,
            2,
            "a dip is not an end"
        );
    }

    #[test]
    fn scatter_widens_the_interval() {
        let wide = knee(&curve(&[100.0, 190.0, 205.0, 210.0], 6, 0.4), 0.03)
            .unwrap()
            .unwrap();
        assert!(wide.lo < wide.hi, "{wide:?}");
        assert!((wide.lo..=wide.hi).contains(&wide.level));
    }

    #[test]
    fn few_blocks_and_few_levels_are_not_judged() {
        assert_eq!(knee(&curve(&[1.0, 2.0, 3.0], 4, 0.1), 0.03), Ok(None));
        assert_eq!(knee(&curve(&[1.0, 2.0], 9, 0.1), 0.03), Ok(None));
        assert_eq!(knee(&[], 0.03), Ok(None));
        let mut bad = curve(&[1.0, 2.0, 3.0], 6, 0.1);
        bad[2][1] = -1.0;
        assert!(knee(&bad, 0.03).is_err());
    }
}
