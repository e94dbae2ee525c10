//! Random-effects meta-analysis: one ratio over many hosts whose true ratios differ.
//!
//! The estimate yᵢ of host i is normal around its own true log-ratio with the variance vᵢ. The true
//! log-ratios are normal around μ with the variance τ². The estimator of τ² is restricted maximum
//! likelihood (REML; Viechtbauer 2005). The estimate by the moments of Q (DerSimonian and Laird
//! 1986) is reported, too. The interval of μ is the one of Hartung and Knapp (2001) and Sidik and
//! Jonkman (2002). The prediction interval is the one of Higgins, Thompson and Spiegelhalter
//! (2009), with the standard error of Hartung and Knapp (IntHout, Ioannidis and Borm 2014).
//!
//! The functions here estimate the means of several groups with a common τ², because the test of a
//! property of the hosts ([`moderator`](crate::moderator)) needs them. Without a property, all
//! hosts are one group.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::comparison::Effect;
use crate::description::{f_upper, t_quantile, t_two_sided};
use crate::verdict::{Interval, exp};

/// The smallest standard error of a log-ratio: 0.01 %. Values without scatter would have infinite
/// weight.
const SMALLEST_ERROR: f64 = 1e-4;
/// The maximum number of steps of Fisher scoring.
const MOST_STEPS: u32 = 100;
/// Fisher scoring ends when a step changes τ² by less than this share of τ² and of the smallest
/// variance.
const TOLERANCE: f64 = 1e-10;
/// A prediction interval needs at least this number of hosts.
const FEWEST_PREDICTED: usize = 3;

/// The estimate of one comparison from several hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RandomEffects {
    /// The number of hosts.
    pub n: usize,
    /// The mean ratio, candidate / baseline: the exponential of the mean of the true log-ratios.
    pub ratio: f64,
    /// The 95 % interval of the mean ratio. Absent for one host.
    pub interval: Option<Interval>,
    /// The two-sided p-value of the hypothesis that the mean ratio is 1. Absent for one host.
    pub p_value: Option<f64>,
    /// The interval that contains the true ratio of the next host with a probability of 95 %.
    /// Absent below three hosts.
    pub prediction: Option<Interval>,
    /// The differences between hosts. Absent for one host.
    pub heterogeneity: Option<Heterogeneity>,
}

/// The differences between the true ratios of hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heterogeneity {
    /// The standard deviation of the true log-ratios: τ.
    pub tau: f64,
    /// The estimator of `tau`.
    pub method: TauMethod,
    /// The DerSimonian–Laird estimate of τ.
    pub tau_dl: f64,
    /// The share of the variance between estimates that is not due to their errors: I² (Higgins and
    /// Thompson 2002).
    pub i_squared: f64,
    /// Cochran's Q.
    pub q: f64,
    /// The p-value of the hypothesis that all true ratios are equal, by Welch's test. This test
    /// allows for the degrees of freedom of the hosts' standard errors.
    pub p_value: f64,
    /// The number of steps of Fisher scoring. Each step reads all hosts once.
    #[serde(skip)]
    pub steps: u32,
}

/// The estimator of τ².
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TauMethod {
    /// Restricted maximum likelihood.
    Reml,
    /// The moments of Q, because Fisher scoring did not converge within the maximum number of
    /// steps.
    DerSimonianLaird,
}

/// Returns the estimate from several hosts, or `None` without hosts.
pub fn random_effects(effects: &[Effect]) -> Option<RandomEffects> {
    let n = effects.len();
    match effects {
        [] => return None,
        [only] => {
            let ratio = exp(only.log_ratio);
            let (interval, p_value, prediction, heterogeneity) = (None, None, None, None);
            return Some(RandomEffects {
                n,
                ratio,
                interval,
                p_value,
                prediction,
                heterogeneity,
            });
        }
        _ => {}
    }
    let data = GroupedEffects::new(effects, vec![0; n], 1);
    let fit = data.fit();
    let (mean, error) = (fit.means[0], fit.errors[0]);
    let prediction = (n >= FEWEST_PREDICTED).then(|| {
        let sd = (fit.tau_squared + error * error).sqrt();
        Interval::around(mean, t_quantile(LEVEL, n as f64 - 2.0) * sd).exp()
    });
    let p_value = if error > 0.0 {
        t_two_sided(mean / error, fit.freedom)
    } else {
        f64::from(u8::from(mean == 0.0))
    };
    Some(RandomEffects {
        n,
        ratio: exp(mean),
        interval: Some(Interval::around(mean, t_quantile(LEVEL, fit.freedom) * error).exp()),
        p_value: Some(p_value),
        prediction,
        heterogeneity: Some(data.heterogeneity(&fit)),
    })
}

/// Estimates in groups. Each group has its own mean, and all groups have one τ².
#[derive(Debug, Clone)]
struct GroupedEffects {
    effects: Vec<Effect>,
    variances: Vec<f64>,
    /// The group of each estimate.
    pub groups: Vec<usize>,
    /// The number of groups. Each group has at least one estimate.
    count: usize,
}

/// The sums of the weights of a group, for one value of τ².
#[derive(Debug, Clone, Default)]
struct GroupSums {
    /// Σw.
    weight: f64,
    /// Σw².
    squares: f64,
    /// Σw³.
    cubes: f64,
    /// The weighted mean.
    mean: f64,
}

/// The sums over all groups, for one value of τ². `w` is the weight 1/(v + τ²), and `d` the
/// difference from the mean of the group.
#[derive(Debug, Clone)]
struct Sums {
    groups: Vec<GroupSums>,
    /// Σwd².
    residual: f64,
    /// Σw²d².
    residual_squares: f64,
    /// tr P = Σ(w − w²/Σw), with the inner sums over the group.
    trace: f64,
}

/// Means with standard errors, and their common τ².
#[derive(Debug, Clone)]
struct Fit {
    pub tau_squared: f64,
    method: TauMethod,
    steps: u32,
    pub means: Vec<f64>,
    /// The standard errors of the means by Hartung and Knapp.
    pub errors: Vec<f64>,
    /// The degrees of freedom of the standard errors: the number of estimates minus the number of
    /// groups.
    pub freedom: f64,
}

impl GroupedEffects {
    pub fn new(effects: &[Effect], groups: Vec<usize>, count: usize) -> GroupedEffects {
        let variances = effects
            .iter()
            .map(|effect| effect.error.max(SMALLEST_ERROR).powi(2))
            .collect();
        GroupedEffects {
            effects: effects.to_vec(),
            variances,
            groups,
            count,
        }
    }

    /// Returns the estimates as one group.
    pub fn together(&self) -> GroupedEffects {
        GroupedEffects {
            groups: vec![0; self.effects.len()],
            count: 1,
            ..self.clone()
        }
    }

    fn freedom(&self) -> f64 {
        self.effects.len() as f64 - self.count as f64
    }

    fn sums(&self, tau_squared: f64) -> Sums {
        let each = self.variances.iter().zip(&self.effects).zip(&self.groups);
        let each = each.map(|((variance, effect), group)| {
            (1.0 / (variance + tau_squared), effect.log_ratio, *group)
        });
        let mut groups = vec![GroupSums::default(); self.count];
        for (w, log_ratio, group) in each.clone() {
            let group = &mut groups[group];
            group.weight += w;
            group.squares += w * w;
            group.cubes += w * w * w;
            group.mean += w * log_ratio;
        }
        for group in &mut groups {
            group.mean /= group.weight;
        }
        let (mut residual, mut residual_squares, mut trace) = (0.0, 0.0, 0.0);
        for (w, log_ratio, group) in each {
            let group = &groups[group];
            let d = log_ratio - group.mean;
            residual += w * d * d;
            residual_squares += w * w * d * d;
            trace += w * (1.0 - w / group.weight);
        }
        Sums {
            groups,
            residual,
            residual_squares,
            trace,
        }
    }

    /// Returns τ² by the moments of Q.
    fn der_simonian_laird(&self) -> f64 {
        let sums = self.sums(0.0);
        if sums.trace > 0.0 {
            ((sums.residual - self.freedom()) / sums.trace).max(0.0)
        } else {
            0.0
        }
    }

    /// Returns τ² by restricted maximum likelihood and the number of steps, or `None` if Fisher
    /// scoring does not converge.
    fn restricted_maximum_likelihood(&self, start: f64) -> Option<(f64, u32)> {
        let smallest = self.variances.iter().copied().fold(f64::MAX, f64::min);
        let mut tau_squared = start;
        for step in 1..=MOST_STEPS {
            let sums = self.sums(tau_squared);
            // The share of the group in tr PP.
            let information: f64 = sums
                .groups
                .iter()
                .map(|group| {
                    let share = group.squares / group.weight;
                    group.squares - 2.0 * group.cubes / group.weight + share * share
                })
                .sum();
            if information.is_nan() || information <= 0.0 {
                return None;
            }
            let next = (tau_squared + (sums.residual_squares - sums.trace) / information).max(0.0);
            if (next - tau_squared).abs() <= TOLERANCE * (next + smallest) {
                return Some((next, step));
            }
            tau_squared = next;
        }
        None
    }

    /// Fits the means of all groups. Requires a group with at least two estimates.
    pub fn fit(&self) -> Fit {
        let start = self.der_simonian_laird();
        let (tau_squared, steps, method) = match self.restricted_maximum_likelihood(start) {
            Some((tau_squared, steps)) => (tau_squared, steps, TauMethod::Reml),
            None => (start, MOST_STEPS, TauMethod::DerSimonianLaird),
        };
        let (sums, freedom) = (self.sums(tau_squared), self.freedom());
        let scale = sums.residual / freedom;
        let errors = sums
            .groups
            .iter()
            .map(|group| (scale / group.weight).sqrt())
            .collect();
        let means = sums.groups.iter().map(|group| group.mean).collect();
        Fit {
            tau_squared,
            method,
            steps,
            means,
            errors,
            freedom,
        }
    }

    /// Returns the F statistic of Knapp and Hartung (2003) of equal group means, with τ² by the
    /// moments of Q.
    pub fn f_statistic(&self) -> f64 {
        let Sums {
            groups, residual, ..
        } = self.sums(self.der_simonian_laird());
        let weight: f64 = groups.iter().map(|group| group.weight).sum();
        let mean = groups
            .iter()
            .map(|group| group.weight * group.mean)
            .sum::<f64>()
            / weight;
        let between: f64 = groups
            .iter()
            .map(|group| group.weight * (group.mean - mean).powi(2))
            .sum();
        let between = between / (self.count as f64 - 1.0);
        (between / (residual / self.freedom())).min(f64::MAX)
    }

    /// Describes the differences between the estimates of one group.
    fn heterogeneity(&self, fit: &Fit) -> Heterogeneity {
        let (k, sums) = (self.effects.len() as f64, self.sums(0.0));
        let (q, total) = (sums.residual, sums.groups[0].weight);
        // The typical variance of an estimate (Higgins and Thompson 2002).
        let typical = (k - 1.0) / sums.trace;
        let i_squared = fit.tau_squared / (fit.tau_squared + typical);
        // The test of Welch (1951).
        let unknown: f64 = self
            .variances
            .iter()
            .zip(&self.effects)
            .map(|(variance, effect)| {
                (1.0 - 1.0 / (variance * total)).powi(2) / effect.degrees.max(f64::MIN_POSITIVE)
            })
            .sum();
        let squares = k * k - 1.0;
        let f = q / (k - 1.0) / (1.0 + 2.0 * (k - 2.0) / squares * unknown);
        Heterogeneity {
            tau: fit.tau_squared.sqrt(),
            method: fit.method,
            tau_dl: self.der_simonian_laird().sqrt(),
            i_squared,
            q,
            p_value: f_upper(f, k - 1.0, squares / (3.0 * unknown)),
            steps: fit.steps,
        }
    }
}

// A test of whether a property of the hosts explains the differences between their ratios.
//
// Hosts with the same value of the property are a group. The null hypothesis is that all groups
// have the same mean. The statistic is the F of Knapp and Hartung (2003) in a mixed-effects model
// with a common τ². Its p-value comes from permutations of the property over the hosts (Higgins and
// Thompson 2004). The F distribution assumes normal ratios: with it, two unusual hosts that share a
// property by chance would make the property significant. The permutations end as soon as the
// result cannot be significant (Besag and Clifford 1991).

/// The largest corrected p-value that is significant. `1 − LEVEL` is slightly larger because of
/// rounding.
const ALPHA: f64 = 0.05;
/// The seed of the permutations. A fixed seed makes the p-value reproducible.
const SEED: u64 = 0x0066_6c65_6574;
/// The minimum number of permutations of a significant test.
const FEWEST: u32 = 999;
/// The number of permutations per test that the correction counts. With it, the smallest possible
/// corrected p-value is 0.01.
const FOR_EACH_TEST: u32 = 100;

/// The difference between groups of hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moderator {
    /// The groups, in the order of their numbers.
    pub groups: Vec<GroupMean>,
    /// The p-value of the hypothesis that the property has no effect, times the number of tests. An
    /// upper bound if the permutations ended early.
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
    /// Returns whether the difference between the groups is significant after the correction.
    pub fn is_significant(&self) -> bool {
        self.p_value <= ALPHA
    }
}

/// Tests the difference between groups. `groups` has the group of each estimate, numbered from 0
/// without gaps, at least two estimates in each; `tests` is the number of properties that are
/// tested. Returns `None` for fewer than two groups.
pub fn moderator(effects: &[Effect], groups: &[usize], tests: usize) -> Option<Moderator> {
    let count = groups.iter().max()? + 1;
    let sizes: Vec<usize> = (0..count)
        .map(|group| groups.iter().filter(|other| **other == group).count())
        .collect();
    if count < 2 || sizes.iter().any(|size| *size < 2) {
        return None;
    }
    let mut data = GroupedEffects::new(effects, groups.to_vec(), count);
    let fit = data.fit();
    let whole = data.together().fit();
    let mut found = Vec::with_capacity(count);
    for (n, (mean, error)) in sizes.into_iter().zip(fit.means.iter().zip(&fit.errors)) {
        let half = t_quantile(LEVEL, fit.freedom) * error;
        found.push(GroupMean {
            n,
            ratio: exp(*mean),
            interval: Interval::around(*mean, half).exp(),
        });
    }
    let explained = if whole.tau_squared > 0.0 {
        1.0 - fit.tau_squared / whole.tau_squared
    } else {
        0.0
    };

    let (p_value, permutations) = permute(&mut data, tests);
    Some(Moderator {
        groups: found,
        p_value,
        permutations,
        explained: explained.max(0.0),
    })
}

/// Returns the corrected p-value, and the number of permutations.
fn permute(data: &mut GroupedEffects, tests: usize) -> (f64, u32) {
    let observed = data.f_statistic() * (1.0 - 1e-9);
    let for_tests = FOR_EACH_TEST.saturating_mul(u32::try_from(tests).unwrap_or(u32::MAX));
    let most = FEWEST.max(for_tests.saturating_sub(1));
    let corrected = |exceeding: u32, of: u32| f64::from(exceeding) / f64::from(of) * tests as f64;
    let mut random = Pcg64::seed_from_u64(SEED);
    // The observed order counts as one of the permutations.
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
    use proptest::prelude::*;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    fn effect(log_ratio: f64, error: f64) -> Effect {
        Effect {
            log_ratio,
            error,
            degrees: 9.0,
        }
    }

    #[test]
    fn few_hosts_have_no_intervals_that_they_cannot_give() {
        assert_eq!(random_effects(&[]), None);
        let one = random_effects(&[effect(0.1, 0.02)]).unwrap();
        assert!(one.interval.is_none() && one.prediction.is_none() && one.heterogeneity.is_none());
        assert!((one.ratio.ln() - 0.1).abs() < 1e-15);
        let two = random_effects(&[effect(0.1, 0.02), effect(0.12, 0.02)]).unwrap();
        assert!(two.interval.is_some() && two.prediction.is_none());
        // One degree of freedom.
        let half = (two.interval.unwrap().hi / two.ratio).ln();
        assert!((half - 12.706_204_736 * 0.01).abs() < 1e-9, "{half}");
    }

    #[test]
    fn equal_hosts_have_no_heterogeneity_and_different_ones_have() {
        let equal: Vec<Effect> = (0..10)
            .map(|host| effect(0.1 + 0.001 * f64::from(host % 2), 0.02))
            .collect();
        let found = random_effects(&equal).unwrap().heterogeneity.unwrap();
        assert!(
            found.tau == 0.0 && found.i_squared == 0.0 && found.p_value > 0.9,
            "{found:?}"
        );
        let different: Vec<Effect> = (0..10)
            .map(|host| effect(0.1 * f64::from(host % 2), 0.005))
            .collect();
        let found = random_effects(&different).unwrap().heterogeneity.unwrap();
        assert!(
            found.i_squared > 0.95 && found.p_value < 1e-6 && (0.04..0.07).contains(&found.tau),
            "{found:?}"
        );
    }

    #[test]
    fn values_without_scatter_are_finite() {
        let found =
            random_effects(&[effect(0.1, 0.0), effect(0.2, 0.0), effect(0.3, 0.5)]).unwrap();
        let prediction = found.prediction.unwrap();
        assert!(
            prediction.lo.is_finite() && prediction.hi.is_finite() && prediction.lo < found.ratio
        );
        let same = random_effects(&[effect(0.0, 0.0); 4]).unwrap();
        assert_eq!((same.ratio, same.p_value), (1.0, Some(1.0)));
    }

    #[test]
    fn the_statistic_of_groups_is_that_of_metafor() {
        let all: serde_json::Value =
            serde_json::from_str(include_str!("../tests/oracle/random_effects.json")).unwrap();
        let numbers = |value: &serde_json::Value| -> Vec<f64> {
            value
                .as_array()
                .unwrap()
                .iter()
                .map(|number| number.as_f64().unwrap())
                .collect()
        };
        let mut compared = 0;
        for case in all
            .as_array()
            .unwrap()
            .iter()
            .filter(|case| !case["moderator"].is_null())
        {
            let (y, v) = (numbers(&case["y"]), numbers(&case["v"]));
            let effects: Vec<Effect> = y
                .iter()
                .zip(&v)
                .map(|(y, v)| effect(*y, v.sqrt()))
                .collect();
            let groups = numbers(&case["moderator"]["groups"])
                .iter()
                .map(|group| *group as usize - 1)
                .collect::<Vec<_>>();
            let count = groups.iter().max().unwrap() + 1;
            let (ours, theirs) = (
                GroupedEffects::new(&effects, groups, count).f_statistic(),
                &case["moderator"]["f"],
            );
            assert!(
                (ours / theirs.as_f64().unwrap() - 1.0).abs() < 1e-9,
                "{}: {ours} {theirs}",
                case["name"]
            );
            compared += 1;
        }
        assert_eq!(compared, 3);
    }

    fn effects(most: usize) -> impl Strategy<Value = Vec<Effect>> {
        let one = (-2.0f64..2.0, 1e-4f64..0.5, 1.0f64..40.0);
        let one = one.prop_map(|(log_ratio, error, degrees)| Effect {
            log_ratio,
            error,
            degrees,
        });
        prop::collection::vec(one, 3..most)
    }

    proptest! {
        #[test]
        fn every_number_is_finite_and_the_mean_is_inside(effects in effects(30)) {
            let found = random_effects(&effects).unwrap();
            let (interval, prediction) = (found.interval.unwrap(), found.prediction.unwrap());
            prop_assert!(interval.lo <= found.ratio && found.ratio <= interval.hi);
            prop_assert!(prediction.lo <= found.ratio && found.ratio <= prediction.hi);
            let logs = || effects.iter().map(|effect| effect.log_ratio);
            let (least, most) = (logs().fold(f64::MAX, f64::min), logs().fold(f64::MIN, f64::max));
            prop_assert!((least - 1e-9..=most + 1e-9).contains(&found.ratio.ln()));
            let between = found.heterogeneity.unwrap();
            prop_assert!(between.tau.is_finite() && (0.0..=1.0).contains(&between.i_squared));
            prop_assert!((0.0..=1.0).contains(&between.p_value) && between.steps <= MOST_STEPS);
        }

        #[test]
        fn exchanged_roles_invert_the_ratio(effects in effects(20)) {
            let inverse: Vec<Effect> = effects.iter().map(|effect| effect.inverse()).collect();
            let (found, inverse) = (random_effects(&effects).unwrap(), random_effects(&inverse).unwrap());
            prop_assert!((found.ratio * inverse.ratio - 1.0).abs() < 1e-9);
            prop_assert!((found.interval.unwrap().lo * inverse.interval.unwrap().hi - 1.0).abs() < 1e-6);
        }
    }

    fn hosts(ratios: &[f64], scatter: f64, seed: u64) -> Vec<Effect> {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let host = |ratio: &f64| Effect {
            log_ratio: ratio + scatter * normal(),
            error: 0.01,
            degrees: 12.0,
        };
        ratios.iter().map(host).collect()
    }

    #[test]
    fn two_hosts_of_forty_that_differ_are_found() {
        let mut ratios = vec![0.09; 40];
        (ratios[7], ratios[30]) = (-0.2, -0.25);
        let groups: Vec<usize> = (0..40)
            .map(|host| usize::from(host == 7 || host == 30))
            .collect();
        let found = moderator(&hosts(&ratios, 0.02, 1), &groups, 10).unwrap();
        assert!(found.is_significant() && found.explained > 0.8, "{found:?}");
        assert_eq!((found.groups[0].n, found.groups[1].n), (38, 2));
        assert!(
            found.groups[0].interval.lo > 1.0 && found.groups[1].interval.hi < 1.0,
            "{found:?}"
        );
        // The same hosts, divided by a property that does not separate the unusual ones.
        let others: Vec<usize> = (0..40).map(|host| host % 2).collect();
        assert!(
            !moderator(&hosts(&ratios, 0.02, 1), &others, 10)
                .unwrap()
                .is_significant()
        );
    }

    #[test]
    fn four_hosts_in_two_groups_prove_nothing() {
        let effects = hosts(&[0.0, 0.0, 0.5, 0.5], 0.001, 2);
        assert!(
            !moderator(&effects, &[0, 0, 1, 1], 1)
                .unwrap()
                .is_significant(),
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
        // The expected number is 15, with a standard deviation of 4.
        assert!((3..=30).contains(&found), "{found} of 300");
    }

    #[test]
    fn permutations_end_when_the_result_is_clear() {
        let effects = hosts(&[0.1; 30], 0.05, 3);
        let groups: Vec<usize> = (0..30).map(|host| host % 2).collect();
        let found = moderator(&effects, &groups, 10).unwrap();
        assert!(
            found.p_value > 0.05 && found.permutations < FEWEST,
            "{found:?}"
        );
    }
}
