//! Levels of interim analyses and of the final one.
//!
//! A case ends early only where a difference is significant for the whole page, or where its
//! interval is within the smallest ratio that matters. Interim analyses therefore need little of
//! the level. Each gets [`INTERIM_SHARE`] of α (Haybittle 1971, Peto et al. 1976), and the final
//! analysis gets the rest. With these levels, the probability that any analysis rejects between
//! equals is α.
//!
//! A budget or a number of blocks fixes the end of a run without regard to its results. Only there
//! is an analysis final. The rest of the level comes from paths of the t statistic under normal
//! errors, drawn once with a fixed seed. A path needs only sums and sums of squares.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fsb_model::stop::Analyses;
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng as _;
use rayon::prelude::*;

use crate::description::{t_quantile, t_two_sided};
use crate::in_parallel;

/// The share of α that each interim analysis has: 0.4 % of 5 %.
const INTERIM_SHARE: f64 = 0.08;

/// Paths are drawn in batches, each with a seed of its own, so that the result does not depend on
/// the processors.
const BATCHES: u64 = 64;
const BATCH: usize = 1560;
const PATHS: f64 = (BATCHES * BATCH as u64) as f64;
/// Final p-values above this are not kept: no analysis asks for a level as weak.
const KEPT: f64 = 0.2;
/// The weakest level that the kept p-values tell.
const WEAKEST: f64 = 0.1;
/// Levels in equal steps of their logarithms, between which shares are interpolated.
const LEVELS: usize = 48;
/// Fewer paths do not tell a probability well; at stronger levels they are summed, which is never
/// too small.
const STRONGEST: f64 = 200.0 / PATHS;

/// The analysis that a comparison is made at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Analysis {
    /// The only one: the number of blocks was fixed.
    Only,
    /// One that results may have ended, or one on the way.
    Interim,
    /// The last one of a run that a budget or a number of blocks ended.
    Final(Arc<Remainder>),
}

impl Analysis {
    /// Returns the analysis of a comparison whose last block is `last`, in a run with these
    /// analyses; `lost` degrees of freedom are the effects that its model fits.
    pub(crate) fn new(analyses: &Analyses, last: u32, lost: u32) -> Analysis {
        if ended_early(analyses, last) || analyses.ended_by_results {
            return Analysis::Interim;
        }
        let before: Vec<u32> = analyses
            .after
            .iter()
            .copied()
            .filter(|blocks| *blocks < last)
            .collect();
        if before.is_empty() {
            Analysis::Only
        } else {
            Analysis::Final(Remainder::compute(before, last, lost))
        }
    }

    /// Returns the level of this analysis at which all of them together have `alpha`.
    pub(crate) fn nominal(&self, alpha: f64) -> f64 {
        match self {
            Analysis::Only => alpha,
            Analysis::Interim => INTERIM_SHARE * alpha,
            Analysis::Final(remainder) => remainder.nominal(alpha),
        }
    }

    /// Returns the smallest level of all analyses together at which a p-value of this one is
    /// significant.
    pub(crate) fn overall(&self, p: f64) -> f64 {
        match self {
            Analysis::Only => p,
            Analysis::Interim => (p / INTERIM_SHARE).min(1.0),
            Analysis::Final(remainder) => remainder.overall(p),
        }
    }

    /// Returns whether the number of blocks was fixed, so that there is one level.
    pub(crate) fn is_only(&self) -> bool {
        matches!(self, Analysis::Only)
    }
}

/// Returns whether a comparison whose last block is `last` ended at an interim analysis, before its
/// run did.
pub(crate) fn ended_early(analyses: &Analyses, last: u32) -> bool {
    last < analyses.last_block && analyses.after.contains(&last)
}

/// By interim analyses, last block, and degrees of freedom lost.
type Known = BTreeMap<(Vec<u32>, u32, u32), Arc<Remainder>>;

/// The level that interim analyses leave to the final one.
#[derive(Debug, PartialEq)]
pub(crate) struct Remainder {
    /// The share of stronger levels than [`STRONGEST`].
    smallest: f64,
    /// The shares of α that are left, at levels from [`STRONGEST`] to [`WEAKEST`].
    shares: Vec<f64>,
}

impl Remainder {
    fn compute(before: Vec<u32>, last: u32, lost: u32) -> Arc<Remainder> {
        static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
        let key = (before, last, lost);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remainder) = known.get(&key) {
            return Arc::clone(remainder);
        }
        let drawn = Arc::new(Remainder::drawn(&key.0, last, lost));
        known.insert(key, Arc::clone(&drawn));
        drawn
    }

    fn drawn(before: &[u32], last: u32, lost: u32) -> Remainder {
        let analyses: Vec<u32> = before.iter().copied().chain([last]).collect();
        let steps: Vec<PathStep> = PathStep::all(&analyses, lost);
        let mut paths: Vec<(f64, f64)> = in_parallel(|| {
            let batches = (0..BATCHES).into_par_iter();
            batches
                .flat_map_iter(|batch| small_p_values(&steps, batch))
                .collect()
        });
        paths.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let smallest = (1.0 - INTERIM_SHARE * before.len() as f64).max(INTERIM_SHARE);
        Remainder {
            smallest,
            shares: (0..=LEVELS)
                .map(|step| (level_left(&paths, level(step)) / level(step)).max(smallest))
                .collect(),
        }
    }

    fn nominal(&self, alpha: f64) -> f64 {
        alpha * self.share(alpha)
    }

    /// Returns the share of α that is left.
    fn share(&self, alpha: f64) -> f64 {
        if alpha < STRONGEST {
            return self.smallest;
        }
        let place = LEVELS as f64 * (alpha / STRONGEST).ln() / (WEAKEST / STRONGEST).ln();
        let step = (place as usize).min(LEVELS - 1);
        let (below, above) = (self.shares[step], self.shares[step + 1]);
        below + (above - below) * (place - step as f64).min(1.0)
    }

    /// Inverts [`Remainder::nominal`], which rises, by bisection.
    fn overall(&self, p: f64) -> f64 {
        let (mut low, mut high) = (p, p / self.smallest);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.nominal(middle) >= p {
                high = middle
            } else {
                low = middle
            }
        }
        high.min(1.0)
    }
}

/// Returns the level at this step of [`LEVELS`].
fn level(step: usize) -> f64 {
    STRONGEST * (WEAKEST / STRONGEST).powf(step as f64 / LEVELS as f64)
}

/// Returns the level of the final analysis at which all together reject with the probability
/// `alpha`, from sorted paths: the final p-value and the smallest one before.
fn level_left(paths: &[(f64, f64)], alpha: f64) -> f64 {
    let limit = INTERIM_SHARE * alpha;
    let rejected = paths.iter().filter(|(_, before)| *before <= limit).count();
    let (mut left, mut below) = (alpha * PATHS - rejected as f64, 0.0);
    for (p, _) in paths.iter().filter(|(_, before)| *before > limit) {
        if left < 1.0 {
            return below + (p - below) * left.max(0.0);
        }
        (left, below) = (left - 1.0, *p);
    }
    below
}

/// The blocks of a path between one analysis and the next.
struct PathStep {
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

impl PathStep {
    fn all(analyses: &[u32], lost: u32) -> Vec<PathStep> {
        let (mut steps, mut before) = (Vec::new(), 0);
        for (place, &after) in analyses.iter().enumerate() {
            let added = after.saturating_sub(before).max(1);
            let fresh = if before == 0 {
                after.saturating_sub(lost).max(1)
            } else {
                added - 1
            };
            let degrees = f64::from(after.saturating_sub(lost).max(1));
            let kept = if place + 1 == analyses.len() {
                KEPT
            } else {
                INTERIM_SHARE * KEPT
            };

            steps.push(PathStep {
                before: f64::from(before),

                added: f64::from(added),
                within: ChiSquared::new(f64::from(fresh)).ok().filter(|_| fresh > 0),
                degrees,
                least: t_quantile(1.0 - kept, degrees),
            });
            before = after;
        }
        steps
    }
}

/// Returns the p-value of each path at its end and the smallest one before, where either is small.
fn small_p_values(steps: &[PathStep], batch: u64) -> Vec<(f64, f64)> {
    let mut random = Pcg64::seed_from_u64(batch);
    let mut found = Vec::new();
    for _ in 0..BATCH {
        let (mut sum, mut squares, mut last, mut smallest) = (0.0f64, 0.0f64, 1.0f64, 1.0f64);
        for PathStep {
            before,
            added,
            within,
            degrees,
            least,
        } in steps
        {
            smallest = smallest.min(last);
            let normal: f64 = StandardNormal.sample(&mut random);
            let more = normal * added.sqrt();
            squares += within
                .as_ref()
                .map_or(0.0, |within| within.sample(&mut random));
            if *before > 0.0 {
                let apart = sum / before - more / added;
                squares += before * added / (before + added) * apart * apart;
            }
            sum += more;
            let t = sum / (before + added).sqrt() / (squares / degrees).sqrt();
            last = if t.abs() > *least {
                t_two_sided(t, *degrees)
            } else {
                1.0
            };
        }
        if last < 1.0 || smallest < 1.0 {
            found.push((last, smallest));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remainder(before: &[u32], last: u32, lost: u32) -> Arc<Remainder> {
        Remainder::compute(before.to_vec(), last, lost)
    }

    #[test]
    fn an_analysis_follows_from_how_the_run_ended() {
        let run = |last_block, ended_by_results| Analyses {
            after: vec![6, 9, 12],
            last_block,
            ended_by_results,
        };
        let level = |analyses: &Analyses, last| Analysis::new(analyses, last, 1).nominal(0.05);
        assert_eq!(
            level(&Analyses::default(), 7),
            0.05,
            "a fixed number of blocks"
        );
        assert_eq!(
            level(&run(6, false), 6),
            0.05,
            "nothing was analysed before the end"
        );
        assert_eq!(
            level(&run(12, false), 6),
            0.004,
            "decided at an interim analysis"
        );
        assert_eq!(level(&run(12, true), 12), 0.004, "decided at the last one");
        assert!(
            (0.042..0.049).contains(&level(&run(12, false), 12)),
            "{}",
            level(&run(12, false), 12)
        );
        // The clock left the last blocks out.
        assert!((0.042..0.049).contains(&level(&run(12, false), 11)));
    }

    #[test]
    fn levels_and_probabilities_are_inverse_to_each_other() {
        let remainder = remainder(&[6, 9], 12, 1);
        let mut last = 0.0;
        for alpha in [
            1e-5, 1e-4, 5e-4, 0.0018, 0.0025, 0.01, 0.025, 0.05, 0.2, 0.9,
        ] {
            let nominal = remainder.nominal(alpha);
            assert!(
                nominal > last && nominal >= 0.84 * alpha * (1.0 - 1e-12) && nominal < alpha,
                "{alpha}: {nominal}"
            );
            let back = remainder.overall(nominal);
            assert!(
                (back / alpha - 1.0).abs() < 0.02 || back == 1.0,
                "{alpha}: {nominal}, {back}"
            );
            last = nominal;
        }
        assert_eq!((remainder.overall(0.0), remainder.overall(1.0)), (0.0, 1.0));
    }

    #[test]
    fn levels_are_those_of_an_independent_simulation() {
        let oracle: serde_json::Value =
            serde_json::from_str(include_str!("../tests/oracle/interim_analyses.json")).unwrap();
        for case in oracle["cases"].as_array().unwrap() {
            let mut before: Vec<u32> =
                serde_json::from_value(case["interim_analyses"].clone()).unwrap();
            let last = before.pop().unwrap();
            let (lost, alpha) = (
                case["lost"].as_u64().unwrap() as u32,
                case["alpha"].as_f64().unwrap(),
            );
            let theirs = case["nominal"].as_f64().unwrap();
            let ours = remainder(&before, last, lost).nominal(alpha);
            // Both are simulated: four standard errors of ours, and as many of theirs.
            let tolerance =
                4.0 * ((1.0 / (alpha * PATHS)).sqrt() + case["relative_error"].as_f64().unwrap());
            assert!((ours / theirs - 1.0).abs() < tolerance, "{case}: {ours}");
        }
    }
}
