//! The two variances of a ratio: between rounds of a block, and between blocks beyond the effect of the rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Of the ratio of a whole block, beyond the effect of its rounds: layout, and everything else that each block
    /// creates again.
    pub between_blocks: f64,
}

/// Splits the variance of a block's difference by the method of moments. `spread` is the standard deviation of that
/// difference, without the effects of slices. Rounds of a block with the same index are pairs. Returns `None` if no
/// block has two rounds.
pub fn scatter(spread: f64, baseline: &[RoundLogs], candidate: &[RoundLogs]) -> Option<Scatter> {
    let baseline: BTreeMap<u32, &[f64]> =
        baseline.iter().map(|rounds| (rounds.block, rounds.logs.as_slice())).collect();
    let (mut squares, mut degrees, mut means, mut blocks) = (0.0, 0.0, 0.0, 0.0);
    for rounds in candidate {
        let Some(theirs) = baseline.get(&rounds.block) else { continue };
        let differences: Vec<f64> = rounds.logs.iter().zip(*theirs).map(|(c, b)| c - b).collect();
        let n = differences.len() as f64;
        if n < 2.0 {
            continue;
        }
        let mean = differences.iter().sum::<f64>() / n;
        squares += differences.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>();
        degrees += n - 1.0;
        means += 1.0 / n;
        blocks += 1.0;
    }
    if degrees == 0.0 {
        return None;
    }
    let rounds = squares / degrees;
    let beyond = (spread * spread - rounds * means / blocks).max(0.0);
    let relative = |variance: f64| libm::expm1(variance.sqrt()).min(f64::MAX);
    Some(Scatter { between_rounds: relative(rounds), between_blocks: relative(beyond) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::StandardNormal;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::SeedableRng as _;

    /// The variances that were put in, as they come out over many runs of twelve blocks of nine rounds.
    fn recovered(rounds: f64, blocks: f64) -> (f64, f64) {
        const RUNS: usize = 400;
        let mut random = Pcg64::seed_from_u64(5);
        let (mut within, mut beyond) = (0.0, 0.0);
        for _ in 0..RUNS {
            let mut normal =
                |sd: f64| sd * <StandardNormal as rand_distr::Distribution<f64>>::sample(&StandardNormal, &mut random);
            let (mut a, mut b, mut means) = (Vec::new(), Vec::new(), Vec::new());
            for block in 1..=12 {
                let luck = normal(blocks);
                let base: Vec<f64> = (0..9).map(|_| 20.0 + normal(0.5)).collect();
                let other: Vec<f64> = base.iter().map(|base| base + luck + normal(rounds)).collect();
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
        assert!((rounds / 0.06 - 1.0).abs() < 0.02 && (blocks / 0.03 - 1.0).abs() < 0.05, "{rounds} {blocks}");
        // Truncated at nothing: a little is left where there is none.
        let (rounds, blocks) = recovered(0.06, 0.0);
        assert!((rounds / 0.06 - 1.0).abs() < 0.02 && blocks < 0.012, "{rounds} {blocks}");
    }

    #[test]
    fn single_rounds_tell_nothing() {
        let one = [RoundLogs { block: 1, logs: vec![3.0] }];
        assert_eq!(scatter(0.1, &one, &one), None);
        assert_eq!(scatter(0.1, &one, &[]), None);
    }
}
