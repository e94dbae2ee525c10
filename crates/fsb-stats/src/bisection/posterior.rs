//! The posterior over the places of one change.
//!
//! A change in candidate k makes k and all later ones slower by the same unknown log ratio δ. The
//! mean of the n pairs of two candidates is then normal about δ if k is between them. Otherwise it
//! is normal about 0. The variance is σ² / n + τ², with the standard deviations σ of a log ratio
//! and τ of the effects of single builds. A build may have another layout in memory, so no number
//! of its pairs proves more than τ allows.
//!
//! δ has a flat prior and is integrated out. Under every k the ends differ by δ, so that all places
//! have the same constant. The distribution of σ² follows from the scatter within pairs of the same
//! two candidates (a scaled inverse χ² distribution under Jeffreys's prior). The likelihood is
//! averaged over its quantiles. That gives tails like those of Student's t (A. Gelman et al.,
//! Bayesian Data Analysis, third edition, section 3.2).

use std::collections::BTreeMap;
use std::f64::consts::PI;

use super::step::{Place, Step};
use crate::description::{chi_squared_quantile, mean_and_sd};

/// τ as a share of θ: differences of builds that are far below what matters.
const BUILD_EFFECT: f64 = 1.0 / 6.0;
/// The number of quantiles of σ².
const QUANTILES: u32 = 11;
/// The fewest pairs of a candidate that may show that it is between the ends.
const FEWEST_BETWEEN: usize = 5;

/// The pairs of two candidates.
struct Group {
    earlier: usize,
    later: usize,
    pairs: usize,
    mean: f64,
}

impl Group {
    /// Returns whether a change in this candidate is between both.
    fn is_across(&self, change: usize) -> bool {
        (self.earlier + 1..=self.later).contains(&change)
    }

    fn variance(&self, noise: f64, effect: f64) -> f64 {
        noise / self.pairs as f64 + effect.powi(2)
    }
}

/// All pairs so far.
pub(super) struct Data {
    groups: Vec<Group>,
    /// The sum of squared deviations within groups, and its degrees of freedom.
    scatter: f64,
    degrees: f64,
    /// τ.
    effect: f64,
}

impl Data {
    /// Groups the pairs of the steps. `theta` and `smallest_sd` are on the scale of logarithms.
    pub(super) fn new(steps: &[Step], theta: f64, smallest_sd: f64) -> Data {
        let mut pairs: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for step in steps.iter().filter(|step| !step.log_ratios.is_empty()) {
            let known = pairs.entry((step.earlier, step.later)).or_default();
            known.extend(&step.log_ratios);
        }
        let (mut groups, mut scatter, mut degrees) = (Vec::new(), 0.0, 0.0);
        for ((earlier, later), logs) in pairs {
            let (mean, sd) = mean_and_sd(&logs);
            let own = logs.len() as f64 - 1.0;
            if own > 0.0 {
                scatter += sd.powi(2) * own;
                degrees += own;
            }
            groups.push(Group {
                earlier,
                later,
                pairs: logs.len(),
                mean,
            });
        }
        Data {
            groups,
            scatter: scatter.max(smallest_sd.powi(2) * degrees),
            degrees,
            effect: theta * BUILD_EFFECT,
        }
    }

    fn noise(&self) -> f64 {
        self.scatter / self.degrees
    }

    /// Returns the pairs of a candidate with the good end.
    fn with_good(&self, later: usize) -> Option<&Group> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.earlier == 0 && group.later == later)
    }

    /// Returns the first candidate whose speed is between those of the good end and of the end of a
    /// range. It differs from the former by at least θ, and from both by this number of standard
    /// errors. `usable` has the candidates of the range before its end.
    pub(super) fn first_between(&self, usable: &[bool], theta: f64, errors: f64) -> Option<usize> {
        let end = self.with_good(usable.len())?;
        let noise = self.noise();
        let variance_of_end = end.variance(noise, self.effect);
        for group in &self.groups {
            let is_inside = group.earlier == 0 && usable.get(group.later) == Some(&true);
            if !is_inside || group.pairs < FEWEST_BETWEEN || group.mean > -theta {
                continue;
            }
            let variance = group.variance(noise, self.effect);
            let below_good = -group.mean > errors * variance.sqrt();
            let above_end = group.mean - end.mean > errors * (variance + variance_of_end).sqrt();
            if below_good && above_end {
                return Some(group.later);
            }
        }
        None
    }
}

/// The probabilities of a change in each candidate.
pub(super) struct Posterior {
    /// By candidate; that of the good end is 0.
    change: Vec<f64>,
    /// By candidate: the pairs with the good end.
    pairs: Vec<usize>,
    noise: f64,
    effect: f64,
    /// δ under the likeliest place.
    shift: f64,
}

impl Posterior {
    /// Computes the posterior of a change in the candidates that have these weights.
    pub(super) fn new(data: &Data, weights: &[f64]) -> Posterior {
        let last = weights.len() - 1;
        let mut groups: Vec<&Group> = data.groups.iter().collect();
        groups.retain(|group| group.later <= last);
        let total: f64 = weights[1..].iter().sum();
        // By quantile of σ², then by candidate.
        let mut likelihoods: Vec<Vec<f64>> = Vec::new();
        let mut highest = f64::NEG_INFINITY;
        for quantile in 0..QUANTILES {
            let probability = (f64::from(quantile) + 0.5) / f64::from(QUANTILES);
            let noise = data.scatter / chi_squared_quantile(probability, data.degrees);
            let mut all = vec![f64::NEG_INFINITY];
            for (change, weight) in weights.iter().enumerate().skip(1) {
                let likelihood = log_likelihood(&groups, change, noise, data.effect);
                all.push(likelihood + libm::log(weight / total));
            }
            highest = all.iter().copied().fold(highest, f64::max);
            likelihoods.push(all);
        }
        let mut change = vec![0.0; weights.len()];
        for all in &likelihoods {
            for (sum, likelihood) in change.iter_mut().zip(all) {
                *sum += libm::exp(likelihood - highest);
            }
        }
        let sum: f64 = change.iter().sum();
        change
            .iter_mut()
            .for_each(|probability| *probability /= sum);
        let mut pairs = vec![0; weights.len()];
        for group in groups.iter().filter(|group| group.earlier == 0) {
            pairs[group.later] = group.pairs;
        }
        let likeliest = (1..=last).max_by(|a, b| change[*a].total_cmp(&change[*b]));
        let noise = data.noise();
        Posterior {
            shift: shift(&groups, likeliest.unwrap_or(last), noise, data.effect),
            change,
            pairs,
            noise,
            effect: data.effect,
        }
    }

    /// Returns the index of the bad end of the range.
    pub(super) fn last(&self) -> usize {
        self.change.len() - 1
    }

    /// Returns the number of pairs of a candidate with the good end.
    pub(super) fn pairs_of(&self, candidate: usize) -> usize {
        self.pairs[candidate]
    }

    /// Returns σ / |δ|.
    pub(super) fn noise_to_signal(&self) -> f64 {
        self.noise.sqrt() / self.shift.abs()
    }

    /// Returns the probability of each place between neighbours that can be measured.
    pub(super) fn places(&self, usable: &[bool]) -> Vec<(Place, f64)> {
        let (mut places, mut earlier, mut sum) = (Vec::new(), 0, 0.0);
        for (later, probability) in self.change.iter().enumerate().skip(1) {
            sum += probability;
            if usable[later] {
                places.push((Place { earlier, later }, sum));
                (earlier, sum) = (later, 0.0);
            }
        }
        places
    }

    /// Returns the likeliest place with its probability.
    pub(super) fn likeliest(&self, usable: &[bool]) -> (Place, f64) {
        let mut best = (
            Place {
                earlier: 0,
                later: self.last(),
            },
            0.0,
        );
        for (place, probability) in self.places(usable) {
            if probability > best.1 {
                best = (place, probability);
            }
        }
        best
    }

    /// Returns the smallest range that holds the change with probability 1 − error.
    pub(super) fn range(&self, usable: &[bool], error: f64) -> Place {
        let places = self.places(usable);
        let (mut first, mut last, mut left) = (0, places.len() - 1, error);
        while first < last {
            let (low, high) = (places[first].1, places[last].1);
            if low.min(high) > left {
                break;
            }
            left -= low.min(high);
            if low <= high {
                first += 1;
            } else {
                last -= 1;
            }
        }
        Place {
            earlier: places[first].0.earlier,
            later: places[last].0.later,
        }
    }

    /// Returns the information in nats about the place that is expected from this number of pairs
    /// of a candidate with the good end.
    ///
    /// The pairs tell only whether the change is at or before the candidate. Its own effect, which
    /// earlier pairs of it share, makes further ones tell less.
    pub(super) fn information(&self, candidate: usize, pairs: f64) -> f64 {
        let is_slow: f64 = self.change[..=candidate].iter().sum();
        let known = self.pairs[candidate] as f64;
        let effect = self.effect.powi(2);
        let shrinkage = if known > 0.0 {
            effect / (effect + self.noise / known)
        } else {
            0.0
        };
        let separation = self.shift.abs() * (1.0 - shrinkage);
        let variance = self.noise / pairs + effect * (1.0 - shrinkage);
        mutual_information(is_slow, separation / variance.sqrt())
    }
}

/// Returns Σ w ȳ and Σ w over the groups that a change is across.
fn sums(groups: &[&Group], change: usize, noise: f64, effect: f64) -> (f64, f64) {
    let (mut first, mut second) = (0.0, 0.0);
    for group in groups.iter().filter(|group| group.is_across(change)) {
        let weight = 1.0 / group.variance(noise, effect);
        first += weight * group.mean;
        second += weight;
    }
    (first, second)
}

/// Returns the estimate of δ under a change.
fn shift(groups: &[&Group], change: usize, noise: f64, effect: f64) -> f64 {
    let (first, second) = sums(groups, change, noise, effect);
    first / second
}

/// Returns the logarithm of the likelihood of a change, without the constant that all share.
fn log_likelihood(groups: &[&Group], change: usize, noise: f64, effect: f64) -> f64 {
    let (first, second) = sums(groups, change, noise, effect);
    let mut log = 0.5 * first * first / second - 0.5 * libm::log(second);
    for group in groups {
        let variance = group.variance(noise, effect);
        log -= 0.5 * (group.mean.powi(2) / variance + libm::log(variance));
    }
    log
}

/// Returns the mutual information, in nats, of a binary variable that is 1 with this probability
/// and a normal one whose mean it moves by `separation` standard deviations.
fn mutual_information(probability: f64, separation: f64) -> f64 {
    const POINTS: u32 = 48;
    const REACH: f64 = 5.0;
    // Distributions that are further apart do not overlap, and the points would be too far apart.
    let separation = separation.min(2.0 * REACH);
    let width = (separation + 2.0 * REACH) / f64::from(POINTS);
    let density = |z: f64| libm::exp(-0.5 * z * z) / (2.0 * PI).sqrt();
    let mut entropy = 0.0;
    for point in 0..POINTS {
        let y = (f64::from(point) + 0.5) * width - REACH;
        let mixed = (1.0 - probability) * density(y) + probability * density(y - separation);
        if mixed > 0.0 {
            entropy -= mixed * libm::log(mixed) * width;
        }
    }
    entropy - 0.5 * (libm::log(2.0 * PI) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_difference_tells_all_and_none_tells_nothing() {
        let bit = libm::log(2.0);
        for separation in [8.0, 10.0, 40.0, 300.0, 1e6] {
            let found = mutual_information(0.5, separation);
            assert!((found - bit).abs() < 1e-3, "{separation}: {found}");
        }
        assert!(mutual_information(0.5, 0.0).abs() < 1e-3);
        assert!(mutual_information(1.0, 300.0).abs() < 1e-3);
    }
}
