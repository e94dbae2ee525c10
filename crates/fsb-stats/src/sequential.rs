//! Looking at results more than once.
//!
//! Whoever tests at each of several looks and stops at the first that rejects is wrong more often than the level says.
//! So every look gets the same smaller level, chosen such that equals are told apart at any look with the probability α
//! (Pocock 1977; the intervals are the repeated confidence intervals of Jennison and Turnbull 1989: they hold at all
//! looks together, whatever ends the run). The level is one of p-values, because the degrees of freedom grow from look to
//! look. It comes from paths of the t statistic under normal errors, drawn once with a fixed seed: sums and sums of
//! squares are all that a path needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rand_distr::{ChiSquared, Distribution as _, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng as _;
use rayon::prelude::*;

use crate::distribution::{t_quantile, t_two_sided};
use crate::in_parallel;

/// Paths are drawn in batches, each with a seed of its own, so that the result does not depend on the processors.
const BATCHES: u64 = 64;
const BATCH: usize = 1560;
const PATHS: f64 = (BATCHES * BATCH as u64) as f64;
/// Smallest p-values above this are not kept: nobody asks for a level as weak.
const KEPT: f64 = 0.1;
/// Fewer paths than this do not tell a probability well; there the sum over the looks stands in, which is never too small.
const FEWEST_PATHS: usize = 200;

/// By looks and degrees of freedom lost.
type Known = BTreeMap<(Vec<u32>, u32), Arc<Boundary>>;

/// What several looks at one comparison cost.
#[derive(Debug)]
pub(crate) struct Boundary {
    /// How many looks there are.
    looks: f64,
    /// The smallest p-value of each path over its looks, sorted, as far as they are small.
    smallest: Vec<f64>,
}

impl Boundary {
    /// Of looks after so many blocks each; `lost` degrees of freedom are the effects that the model fits. `None` where
    /// there is one look only, or none.
    pub(crate) fn of(looks: &[u32], lost: u32) -> Option<Arc<Boundary>> {
        static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
        if looks.len() < 2 {
            return None;
        }
        let key = (looks.to_vec(), lost);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(known.entry(key).or_insert_with(|| Arc::new(Boundary::drawn(looks, lost)))))
    }

    fn drawn(looks: &[u32], lost: u32) -> Boundary {
        let steps: Vec<Step> = Step::all(looks, lost);
        let draw = || (0..BATCHES).into_par_iter().flat_map_iter(|batch| small_p_values(&steps, batch)).collect();
        let mut smallest: Vec<f64> = in_parallel(draw);
        smallest.sort_by(f64::total_cmp);
        Boundary { looks: looks.len() as f64, smallest }
    }

    /// The level of each look at which all of them together have `alpha`.
    pub(crate) fn nominal(&self, alpha: f64) -> f64 {
        let rank = alpha * PATHS;
        let place = rank as usize;
        match self.smallest.get(place) {
            Some(above) if place >= FEWEST_PATHS => {
                let below = self.smallest[place - 1];
                below + (above - below) * rank.fract()
            }
            _ => alpha / self.looks,
        }
    }

    /// The probability that any look shows a p-value as small, between equals.
    pub(crate) fn overall(&self, p: f64) -> f64 {
        let below = self.smallest.partition_point(|smallest| *smallest <= p);
        let sum = (p * self.looks).min(1.0);
        if p >= KEPT { sum } else { sum.min(below.max(FEWEST_PATHS) as f64 / PATHS) }
    }
}

/// What a path adds between one look and the next.
struct Step {
    /// Blocks before it, and those that it adds.
    before: f64,
    added: f64,
    /// The sum of squares within what it adds; nothing where that is a single block.
    within: Option<ChiSquared<f64>>,
    /// Degrees of freedom behind it.
    degrees: f64,
    /// Smaller t statistics are of no interest.
    least: f64,
}

impl Step {
    fn all(looks: &[u32], lost: u32) -> Vec<Step> {
        let befores = std::iter::once(0).chain(looks.iter().copied());
        let step = |(before, after): (u32, &u32)| {
            let added = after.saturating_sub(before).max(1);
            let fresh = if before == 0 { after.saturating_sub(lost).max(1) } else { added - 1 };
            let degrees = f64::from(after.saturating_sub(lost).max(1));
            Step {
                before: f64::from(before),
                added: f64::from(added),
                within: ChiSquared::new(f64::from(fresh)).ok().filter(|_| fresh > 0),
                degrees,
                least: t_quantile(1.0 - KEPT, degrees),
            }
        };
        befores.zip(looks).map(step).collect()
    }
}

/// The smallest p-value of each path, where it is small.
fn small_p_values(steps: &[Step], batch: u64) -> Vec<f64> {
    let mut random = Pcg64::seed_from_u64(batch);
    let mut found = Vec::new();
    for _ in 0..BATCH {
        let (mut sum, mut squares, mut smallest) = (0.0f64, 0.0f64, f64::INFINITY);
        for Step { before, added, within, degrees, least } in steps {
            let normal: f64 = StandardNormal.sample(&mut random);
            let more = normal * added.sqrt();
            squares += within.as_ref().map_or(0.0, |within| within.sample(&mut random));
            if *before > 0.0 {
                let apart = sum / before - more / added;
                squares += before * added / (before + added) * apart * apart;
            }
            sum += more;
            let t = sum / (before + added).sqrt() / (squares / degrees).sqrt();
            if t.abs() > *least {
                smallest = smallest.min(t_two_sided(t, *degrees));
            }
        }
        if smallest < KEPT {
            found.push(smallest);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_needs_no_correction() {
        assert!(Boundary::of(&[], 1).is_none() && Boundary::of(&[9], 1).is_none());
    }

    #[test]
    fn levels_and_probabilities_are_inverse_to_each_other() {
        let boundary = Boundary::of(&[6, 9, 12], 1).unwrap();
        let mut last = 0.0;
        for alpha in [1e-5, 1e-4, 5e-4, 0.0018, 0.0025, 0.01, 0.025, 0.05] {
            let nominal = boundary.nominal(alpha);
            assert!(nominal > last && nominal >= alpha / 3.0 && nominal < alpha, "{alpha}: {nominal}");
            let back = boundary.overall(nominal);
            assert!(back >= 0.99 * alpha && back <= (1.05 * alpha).max(0.0021), "{alpha}: {nominal}, {back}");
            last = nominal;
        }
        assert_eq!((boundary.overall(0.0), boundary.overall(1.0)), (0.0, 1.0));
    }

    #[test]
    fn levels_are_those_of_an_independent_simulation() {
        let oracle: serde_json::Value = serde_json::from_str(include_str!("../tests/oracle/looks.json")).unwrap();
        for case in oracle["cases"].as_array().unwrap() {
            let looks: Vec<u32> = serde_json::from_value(case["looks"].clone()).unwrap();
            let (lost, alpha) = (case["lost"].as_u64().unwrap() as u32, case["alpha"].as_f64().unwrap());
            let theirs = case["nominal"].as_f64().unwrap();
            let ours = Boundary::of(&looks, lost).unwrap().nominal(alpha);
            // Both are simulated: four standard errors of ours, and as many of theirs.
            let tolerance = 4.0 * ((1.0 / (alpha * PATHS)).sqrt() + case["relative_error"].as_f64().unwrap());
            assert!((ours / theirs - 1.0).abs() < tolerance, "{case}: {ours}");
        }
    }
}
