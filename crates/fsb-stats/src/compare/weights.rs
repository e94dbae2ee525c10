//! Contrasts between candidate and baseline: the observed one, and possible ones without any difference.

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// The maximum number of contrasts. A p-value of 5 % is then known to ±1.4 %.
const MOST: usize = 999;

/// The seed of the random contrasts. The same data always give the same findings.
const SEED: u64 = 0x5eed_f00d;

/// Contrasts of norm 1, the observed one first: runs with their weights, without those of weight zero.
#[derive(Debug)]
pub(super) struct Weights {
    pub contrasts: Vec<Vec<(usize, f32)>>,
}

impl Weights {
    /// Exchanges labels among `baseline` + `candidate` runs, in this order: all ways if they are few, else a random
    /// sample.
    pub fn of_runs(baseline: usize, candidate: usize) -> Weights {
        let runs = baseline + candidate;
        let ways = assignments(runs, candidate);
        let labels = match ways {
            Some(ways) if ways <= MOST + 1 => every_assignment(baseline, candidate),
            _ => random_assignments(baseline, candidate),
        };
        // The numbers of centred runs sum to zero, so the weights of one side, the smaller one, are sufficient. With
        // the other side's share added they are (1/n + 1/m) / √(1/n + 1/m).
        let weight = (1.0 / baseline as f64 + 1.0 / candidate as f64).sqrt() as f32;
        let side = candidate <= baseline;
        // Between sides of one size each assignment has a mirror image with the same |w·u|: half of them are enough.
        let mirrored = |labels: &Vec<bool>| baseline == candidate && !labels[runs - 1];
        let contrast = |labels: Vec<bool>| -> Vec<(usize, f32)> {
            (0..runs).filter(|run| labels[*run] == side).map(|run| (run, weight)).collect()
        };
        Weights { contrasts: labels.into_iter().filter(|labels| !mirrored(labels)).map(contrast).collect() }
    }

    /// Returns random directions in the space of block differences, the diagonal first.
    pub(crate) fn of_blocks(blocks: usize) -> Weights {
        let mut generator = Pcg64::seed_from_u64(SEED);
        let mut direction = || {
            let drawn: Vec<f64> = (0..blocks).map(|_| StandardNormal.sample(&mut generator)).collect();
            let norm = drawn.iter().map(|x: &f64| x * x).sum::<f64>().sqrt();
            drawn.into_iter().map(|x| (x / norm) as f32).enumerate().collect::<Vec<(usize, f32)>>()
        };
        let observed = (0..blocks).map(|block| (block, 1.0 / (blocks as f32).sqrt())).collect();
        Weights { contrasts: std::iter::once(observed).chain((0..MOST).map(|_| direction())).collect() }
    }
}

/// Returns the number of ways in which runs can be chosen, or `None` if it overflows.
fn assignments(runs: usize, chosen: usize) -> Option<usize> {
    (0..chosen.min(runs - chosen)).try_fold(1usize, |ways, i| Some(ways.checked_mul(runs - i)? / (i + 1)))
}

/// All assignments, the observed one (candidates last) first.
fn every_assignment(baseline: usize, candidate: usize) -> Vec<Vec<bool>> {
    let runs = baseline + candidate;
    let mut chosen: Vec<usize> = (0..candidate).collect();
    let mut found = Vec::new();
    loop {
        // Counted from the end, so that the first combination is the observed one.
        let mut labels = vec![false; runs];
        chosen.iter().for_each(|place| labels[runs - 1 - place] = true);
        found.push(labels);
        let Some(last) = (0..candidate).rev().find(|i| chosen[*i] < runs - candidate + i) else { return found };
        chosen[last] += 1;
        for i in last + 1..candidate {
            chosen[i] = chosen[i - 1] + 1;
        }
    }
}

fn random_assignments(baseline: usize, candidate: usize) -> Vec<Vec<bool>> {
    let mut generator = Pcg64::seed_from_u64(SEED);
    let mut labels: Vec<bool> = (0..baseline + candidate).map(|run| run >= baseline).collect();
    let mut found = vec![labels.clone()];
    for _ in 0..MOST {
        // Fisher–Yates, written out so that findings do not change with a library's version.
        for last in (1..labels.len()).rev() {
            labels.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
        }
        found.push(labels.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn few_runs_are_assigned_in_every_way_once() {
        let all = every_assignment(6, 6);
        assert_eq!((all.len(), assignments(12, 6)), (924, Some(924)));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 924);
        assert!(all.iter().all(|labels| labels.iter().filter(|candidate| **candidate).count() == 6));
        assert!(all[0][6..].iter().all(|candidate| *candidate));
        assert_eq!(every_assignment(5, 7)[0].iter().position(|candidate| *candidate), Some(5));
    }

    /// Applied to a direction that follows the labels exactly, the observed contrast gives 1, and no other gives more.
    #[test]
    fn contrasts_have_norm_one() {
        for (baseline, candidate) in [(5, 5), (5, 9), (9, 5), (40, 40)] {
            let (b, c) = (baseline as f32, candidate as f32);
            let norm = (b * (c / (b + c)).powi(2) + c * (b / (b + c)).powi(2)).sqrt();
            let number = |run: usize| if run < baseline { -c / (b + c) / norm } else { b / (b + c) / norm };
            let apply =
                |contrast: &Vec<(usize, f32)>| contrast.iter().map(|(run, w)| w * number(*run)).sum::<f32>().abs();
            let weights = Weights::of_runs(baseline, candidate);
            assert!((apply(&weights.contrasts[0]) - 1.0).abs() < 1e-5, "{baseline} {candidate}");
            assert!(weights.contrasts.len() > 100 && weights.contrasts.iter().all(|c| apply(c) < 1.0 + 1e-5));
        }
        for contrast in Weights::of_blocks(5).contrasts {
            assert!((contrast.iter().map(|(_, w)| w * w).sum::<f32>() - 1.0).abs() < 1e-5, "{contrast:?}");
        }
    }

    #[test]
    fn many_runs_are_sampled() {
        assert_eq!(Weights::of_runs(100, 101).contrasts.len(), MOST + 1);
        assert_eq!(assignments(500, 250), None);
    }
}
