//! The test whether a property of the hosts explains why their ratios differ.
//!
//! Hosts with the same value of the property are a group. The statistic is the F of Knapp and Hartung (2003) of equal
//! group means in a mixed-effects model with a common τ². Its probability comes from permutations of the property over
//! the hosts (Higgins and Thompson 2004). The F distribution would need normal ratios: two unusual hosts that share a
//! property by chance would seem to prove it. The permutations end as soon as the result cannot be significant (Besag
//! and Clifford 1991).

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::comparison::Effect;
use crate::description::t_quantile;
use crate::random_effects::GroupedEffects;
use crate::verdict::{Interval, exp};

/// The largest corrected probability that is significant. (1 − LEVEL is a little more than it.)
const ALPHA: f64 = 0.05;
/// The seed of the permutations: the same results give the same answer.
const SEED: u64 = 0x0066_6c65_6574;
/// The fewest permutations of a test that is significant.
const FEWEST: u32 = 999;
/// For each test that the correction counts, this number of permutations, so that the smallest corrected probability is
/// 0.01.
const FOR_EACH_TEST: u32 = 100;

/// The difference between groups of hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moderator {
    /// The groups, in the order of their numbers.
    pub groups: Vec<GroupMean>,
    /// The probability of such a difference if the property has no effect, times the number of tests. An upper bound if
    /// the permutations ended early.
    pub p_value: f64,
    /// The number of permutations.
    pub permutations: u32,
    /// The share of τ² that the groups explain: R².
    pub explained: f64,
}

/// The mean of a group of hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupMean {
    /// The number of hosts.
    pub n: usize,
    /// The mean ratio.
    pub ratio: f64,
    /// The 95 % interval of the mean ratio.
    pub interval: Interval,
}

impl Moderator {
    /// Whether the difference between the groups is significant after the correction.
    pub fn is_significant(&self) -> bool {
        self.p_value <= ALPHA
    }
}

/// Tests the difference between groups. `groups` has the group of each estimate, numbered from 0 without gaps, at least
/// two estimates in each; `tests` is the number of properties that are tested. Returns `None` for fewer than two groups.
pub fn moderator(effects: &[Effect], groups: &[usize], tests: usize) -> Option<Moderator> {
    let count = groups.iter().max()? + 1;
    let sizes: Vec<usize> = (0..count).map(|group| groups.iter().filter(|other| **other == group).count()).collect();
    if count < 2 || sizes.iter().any(|size| *size < 2) {
        return None;
    }
    let mut data = GroupedEffects::new(effects, groups.to_vec(), count);
    let fit = data.fit();
    let whole = data.together().fit();
    let group = |(place, size): (usize, &usize)| {
        let (mean, half) = (fit.means[place], t_quantile(LEVEL, fit.freedom) * fit.errors[place]);
        GroupMean { n: *size, ratio: exp(mean), interval: Interval { lo: mean - half, hi: mean + half }.exp() }
    };
    let explained = if whole.tau_squared > 0.0 { 1.0 - fit.tau_squared / whole.tau_squared } else { 0.0 };
    let found = sizes.iter().enumerate().map(group).collect();
    let (p_value, permutations) = permute(&mut data, tests);
    Some(Moderator { groups: found, p_value, permutations, explained: explained.max(0.0) })
}

/// Returns the corrected probability, and the number of permutations.
fn permute(data: &mut GroupedEffects, tests: usize) -> (f64, u32) {
    let observed = data.f_statistic() * (1.0 - 1e-9);
    let for_tests = FOR_EACH_TEST.saturating_mul(u32::try_from(tests).unwrap_or(u32::MAX));
    let most = FEWEST.max(for_tests.saturating_sub(1));
    let corrected = |exceeding: u32, of: u32| f64::from(exceeding) / f64::from(of) * tests as f64;
    let mut random = Pcg64::seed_from_u64(SEED);
    // The observed order is one of the permutations.
    let mut exceeding = 1;
    for permutation in 1..=most {
        shuffle(&mut data.groups, &mut random);
        exceeding += u32::from(data.f_statistic() >= observed);
        if corrected(exceeding, most + 1) > ALPHA {
            return (corrected(exceeding, permutation + 1).min(1.0), permutation);
        }
    }
    (corrected(exceeding, most + 1).min(1.0), most)
}

/// Puts the values in random order (Fisher and Yates).
fn shuffle(values: &mut [usize], random: &mut Pcg64) {
    for place in (1..values.len()).rev() {
        let other = (u128::from(random.next_u64()) * (place as u128 + 1)) >> 64;
        values.swap(place, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    fn hosts(ratios: &[f64], scatter: f64, seed: u64) -> Vec<Effect> {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let host = |ratio: &f64| Effect { log_ratio: ratio + scatter * normal(), error: 0.01, degrees: 12.0 };
        ratios.iter().map(host).collect()
    }

    #[test]
    fn two_hosts_of_forty_that_differ_are_found() {
        let mut ratios = vec![0.09; 40];
        (ratios[7], ratios[30]) = (-0.2, -0.25);
        let groups: Vec<usize> = (0..40).map(|host| usize::from(host == 7 || host == 30)).collect();
        let found = moderator(&hosts(&ratios, 0.02, 1), &groups, 10).unwrap();
        assert!(found.is_significant() && found.explained > 0.8, "{found:?}");
        assert_eq!((found.groups[0].n, found.groups[1].n), (38, 2));
        assert!(found.groups[0].interval.lo > 1.0 && found.groups[1].interval.hi < 1.0, "{found:?}");
        // The same hosts, and a property that others share.
        let others: Vec<usize> = (0..40).map(|host| host % 2).collect();
        assert!(!moderator(&hosts(&ratios, 0.02, 1), &others, 10).unwrap().is_significant());
    }

    #[test]
    fn four_hosts_in_two_groups_prove_nothing() {
        let effects = hosts(&[0.0, 0.0, 0.5, 0.5], 0.001, 2);
        assert!(
            !moderator(&effects, &[0, 0, 1, 1], 1).unwrap().is_significant(),
            "there are three ways to divide them"
        );
        assert_eq!(moderator(&effects, &[0, 0, 0, 0], 1), None);
        assert_eq!(moderator(&effects, &[0, 0, 0, 1], 1), None);
    }

    #[test]
    fn properties_without_effect_are_rarely_significant() {
        let significant = |seed: u64| {
            let effects = hosts(&[0.1; 24], 0.05, seed);
            let groups: Vec<usize> = (0..24).map(|host| host % 3).collect();
            moderator(&effects, &groups, 1).unwrap().is_significant()
        };
        let found = (0..300).filter(|seed| significant(*seed)).count();
        // 15 are expected, with a standard deviation of 4.
        assert!((3..=30).contains(&found), "{found} of 300");
    }

    #[test]
    fn permutations_end_when_the_result_is_clear() {
        let effects = hosts(&[0.1; 30], 0.05, 3);
        let groups: Vec<usize> = (0..30).map(|host| host % 2).collect();
        let found = moderator(&effects, &groups, 10).unwrap();
        assert!(found.p_value > 0.05 && found.permutations < FEWEST, "{found:?}");
    }
}
