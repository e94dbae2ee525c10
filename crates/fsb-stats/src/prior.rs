//! Variances borrowed over the cases of a page (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3,
//! 2004).
//!
//! The variances of all cases are taken for draws from a scaled F distribution: s² ~ s₀² F(d, d₀).
//! Its scale s₀² and its degrees of freedom d₀ follow from the mean and the variance of the
//! logarithms. The posterior variance of a case is (d₀ s₀² + d s²) / (d₀ + d) with d₀ + d degrees
//! of freedom. For variances between runs, [`Prior`] has one scale. For variances between blocks,
//! [`Line`] lets the scale follow from the variances within blocks, as limma's trend does.
//!
//! Smyth's cases are independent. The cases here are measured in the same runs and share their
//! random effects, which makes their variances similar and d₀ too large. So d₀ + d never exceeds d
//! times the number of effectively independent cases.

use std::collections::BTreeMap;

use statrs::function::gamma::digamma;

/// The fewest variances for a prior.
const FEWEST_VARIANCES: usize = 3;
/// Variances below this share of their median are raised to it, as limma does. Otherwise a
/// logarithm of zero would dominate the fit.
const SMALLEST_SHARE: f64 = 1e-5;

/// The assumed distribution of the variances of the cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prior {
    /// d₀.
    pub degrees: f64,
    /// s₀².
    pub variance: f64,
}

impl Prior {
    /// Fits the prior for one pair of sets from the variances of a page's cases, with their degrees
    /// of freedom, and from the residuals of each case. Returns `None` if there are too few cases,
    /// or if none varies.
    pub fn fit(
        variances: &[(f64, f64)],
        residuals: &[BTreeMap<(usize, u32), f64>],
    ) -> Option<Prior> {
        let fitted = Prior::fitted(variances)?;
        let mean_degrees =
            variances.iter().map(|(_, degrees)| degrees).sum::<f64>() / variances.len() as f64;
        let most = mean_degrees * (effective_cases(residuals) - 1.0);
        (most > 0.0).then_some(Prior {
            degrees: fitted.degrees.min(most),
            ..fitted
        })
    }

    /// From variances with their degrees of freedom, as if they were independent.
    fn fitted(variances: &[(f64, f64)]) -> Option<Prior> {
        if variances.len() < FEWEST_VARIANCES {
            return None;
        }
        let mut sorted: Vec<f64> = variances.iter().map(|(variance, _)| *variance).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = (sorted[middle] + sorted[(sorted.len() - 1) / 2]) / 2.0;
        if median <= 0.0 {
            return None;
        }
        let least = SMALLEST_SHARE * median;
        let n = variances.len() as f64;
        let logs: Vec<f64> = variances
            .iter()
            .map(|(s2, d)| libm::log(s2.max(least)) - digamma(d / 2.0) + libm::log(d / 2.0))
            .collect();
        let mean = logs.iter().sum::<f64>() / n;
        let spread = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let excess = spread
            - variances
                .iter()
                .map(|(_, d)| trigamma(d / 2.0))
                .sum::<f64>()
                / n;
        if excess <= 0.0 {
            let variance = variances.iter().map(|(s2, _)| s2.max(least)).sum::<f64>() / n;
            return Some(Prior {
                degrees: f64::INFINITY,
                variance,
            });
        }
        let half = inverse_trigamma(excess);
        Some(Prior {
            degrees: 2.0 * half,
            variance: libm::exp(mean + digamma(half) - libm::log(half)),
        })
    }

    /// Returns the variance and the degrees of freedom of a case, moderated by the other cases.
    pub fn posterior(&self, (variance, degrees): (f64, f64)) -> (f64, f64) {
        let degrees = degrees.max(0.0);
        let sum = self.degrees + degrees;
        (
            (self.degrees * self.variance + degrees * variance) / sum,
            sum,
        )
    }
}

/// A variance with what is known of it beforehand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub variance: f64,
    pub degrees: f64,
    /// The variance that the samples within a block explain.
    pub within: Option<f64>,
}

/// A prior whose scale may depend on the variance within blocks: ln s₀² = a + b ln w.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// d₀.
    degrees: f64,
    /// The logarithm of s₀² at the mean of ln w.
    intercept: f64,
    slope: f64,
    /// The mean of ln w.
    center: f64,
}

impl Line {
    /// Fits a line to the variances of a page, each of which counts as `share` of an independent
    /// one. `None` if there are too few, or if none varies.
    pub fn fit(known: &[Known], share: f64) -> Option<Line> {
        let follows = known.iter().all(|known| known.within.is_some());
        let effects = if follows { 2.0 } else { 1.0 };
        let independent = share * known.len() as f64;
        if independent < FEWEST_VARIANCES as f64 + effects - 1.0 {
            return None;
        }
        let mut sorted: Vec<f64> = known.iter().map(|known| known.variance).collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        if median <= 0.0 {
            return None;
        }
        let mut points = Vec::with_capacity(known.len());
        for known in known {
            let half = known.degrees / 2.0;
            let log = libm::log(known.variance.max(SMALLEST_SHARE * median));
            let place = libm::log(known.within.unwrap_or(1.0).max(f64::MIN_POSITIVE));
            points.push((place, log - digamma(half) + libm::log(half)));
        }
        let n = known.len() as f64;
        let mean = points.iter().map(|(_, log)| log).sum::<f64>() / n;
        let center = points.iter().map(|(place, _)| place).sum::<f64>() / n;
        let (mut squares, mut products) = (0.0, 0.0);
        for (place, log) in &points {
            squares += (place - center).powi(2);
            products += (place - center) * (log - mean);
        }
        // More scatter within blocks never means less between them.
        let slope = if squares > 0.0 {
            f64::max(products / squares, 0.0)
        } else {
            0.0
        };
        // Variances that share a target scatter less than independent ones around what is fitted to
        // them.
        let spread = points
            .iter()
            .map(|(place, log)| (log - mean - slope * (place - center)).powi(2))
            .sum::<f64>()
            / (n * (1.0 - effects / independent));
        // As if the spread were a standard error larger: of few cases it is known badly, and
        // variances that are taken for more alike than they are make lucky cases significant.
        let upper = spread * (1.0 + (2.0 / (independent - effects)).sqrt());
        let excess = upper
            - known
                .iter()
                .map(|known| trigamma(known.degrees / 2.0))
                .sum::<f64>()
                / n;
        let mean_degrees = known.iter().map(|known| known.degrees).sum::<f64>() / n;
        let half = if excess > 0.0 {
            inverse_trigamma(excess)
        } else {
            f64::INFINITY
        };
        let scale = if half.is_finite() {
            digamma(half) - libm::log(half)
        } else {
            0.0
        };
        // What all variances together tell of one scale.
        let degrees = f64::min(2.0 * half * share, mean_degrees * (independent - effects));
        Some(Line {
            degrees,
            intercept: mean + scale,
            slope,
            center,
        })
    }

    /// Returns a variance and its degrees of freedom, moderated by the other cases of the page.
    pub fn posterior(&self, known: &Known) -> (f64, f64) {
        let place = known.within.map_or(self.center, |within| {
            libm::log(within.max(f64::MIN_POSITIVE))
        });
        let variance = libm::exp(self.intercept + self.slope * (place - self.center));
        Prior {
            degrees: self.degrees,
            variance,
        }
        .posterior((known.variance, known.degrees))
    }
}

/// Returns the number of independent cases with as much information on the variance as these, whose
/// runs share random effects. For m cases it is m / (1 + (m − 1) ρ²). Here ρ² is the mean square of
/// the correlation of two cases over their runs, corrected for its expectation by chance.
///
/// Each case has its residuals by side and run.
pub(crate) fn effective_cases(cases: &[BTreeMap<(usize, u32), f64>]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (place, one) in cases.iter().enumerate() {
        for other in &cases[..place] {
            let common = common(one, other);
            let mut sides: Vec<usize> = common.iter().map(|(side, ..)| *side).collect();
            sides.dedup();
            let degrees = common.len() as f64 - sides.len() as f64;
            let (mut aa, mut ab, mut bb) = (0.0, 0.0, 0.0);
            for (_, a, b) in &common {
                aa += a * a;
                ab += a * b;
                bb += b * b;
            }
            if degrees > 1.5 && aa * bb > 0.0 {
                let chance = 1.0 / degrees;
                sum += (f64::powi(ab, 2) / (aa * bb) - chance) / (1.0 - chance);
                pairs += 1.0;
            }
        }
    }
    let m = cases.len() as f64;
    if pairs == 0.0 {
        // Nothing tells how much the cases share.
        return 1.0;
    }
    m / (1.0 + (m - 1.0) * f64::clamp(sum / pairs, 0.0, 1.0))
}

/// Returns the side and both residuals of each run that two cases have in common. The cases are
/// merged in the order of their runs: a page of thousands of cases has millions of pairs.
fn common(
    one: &BTreeMap<(usize, u32), f64>,
    other: &BTreeMap<(usize, u32), f64>,
) -> Vec<(usize, f64, f64)> {
    let mut others = other.iter().peekable();
    let mut found = Vec::with_capacity(one.len());
    for (run, a) in one {
        while others.next_if(|(before, _)| *before < run).is_some() {}
        if let Some((_, b)) = others.next_if(|(same, _)| *same == run) {
            found.push((run.0, *a, *b));
        }
    }
    found
}

/// Returns the second derivative of ln Γ: by recurrence up to 10, then by its asymptotic series.
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x
        + y / 2.0
        + y / x
            * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0))))
}

/// Inverts the trigamma function, which falls, by bisection on the logarithm.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (libm::log(1e-8), libm::log(1e12));
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if trigamma(libm::exp(middle)) > value {
            low = middle
        } else {
            high = middle
        }
    }
    libm::exp(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::comparison::RunContrast;
    use crate::sample::{BlockValue, Sample};
    use crate::terms::Terms;

    fn numbers(value: &Value) -> Vec<f64> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|number| number.as_f64().unwrap())
            .collect()
    }

    #[track_caller]
    fn close(ours: f64, theirs: &Value, what: &str) {
        let theirs = theirs.as_f64().unwrap();
        assert!(
            (ours - theirs).abs() <= 1e-7 * theirs.abs().max(1e-12),
            "{what}: {ours} is not SciPy's {theirs}"
        );
    }

    fn sample(logs: &[f64]) -> Sample {
        let values = (0..)
            .zip(logs)
            .map(|(run, log)| BlockValue::new(run, libm::exp(*log)))
            .collect();
        Sample::of_runs(values)
    }

    /// `tests/oracle/runs.py` computes the same with NumPy and SciPy.
    #[test]
    fn priors_and_moderated_intervals_are_those_of_scipy() {
        let oracle: Value =
            serde_json::from_str(include_str!("../tests/oracle/runs.json")).unwrap();
        for page in oracle["pages"].as_array().unwrap() {
            let name = page["name"].as_str().unwrap();
            let cases: Vec<RunContrast> = page["cases"]
                .as_array()
                .unwrap()
                .iter()
                .map(|case| {
                    let side = |key: &str| sample(&numbers(&case[key]));
                    RunContrast::between(&side("baseline"), &side("candidate"))
                        .unwrap()
                        .unwrap()
                })
                .collect();
            let residuals: Vec<_> = cases.iter().map(RunContrast::residuals).collect();
            close(effective_cases(&residuals), &page["effective_cases"], name);
            let prior = RunContrast::prior(&cases);
            assert_eq!(prior.is_none(), page["prior"].is_null(), "{name}");
            if let Some(prior) = prior {
                close(prior.degrees, &page["prior"]["degrees"], name);
                close(prior.variance, &page["prior"]["variance"], name);
            }
            for (contrast, case) in cases.iter().zip(page["cases"].as_array().unwrap()) {
                let difference = contrast.difference(&Terms {
                    prior,
                    ..Terms::default()
                });
                let interval = difference.interval(0.95).unwrap();
                close(interval.lo, &case["ci95"][0], name);
                close(interval.hi, &case["ci95"][1], name);
                close(difference.p_value().unwrap(), &case["p"], name);
            }
        }
    }

    /// `tests/oracle/limma.R` has them from limma's `fitFDist` and `squeezeVar`.
    #[test]
    fn priors_of_independent_cases_are_those_of_limma() {
        let pages: Value =
            serde_json::from_str(include_str!("../tests/oracle/limma.json")).unwrap();
        for page in pages.as_array().unwrap() {
            let name = page["name"].as_str().unwrap();
            let known: Vec<_> = numbers(&page["variances"])
                .into_iter()
                .zip(numbers(&page["degrees"]))
                .collect();
            let prior = Prior::fitted(&known).unwrap();
            let near = |ours: f64, theirs: f64| {
                assert!(
                    (ours / theirs - 1.0).abs() < 1e-6,
                    "{name}: {ours} {theirs}"
                )
            };
            match page["prior"][0].as_f64() {
                Some(degrees) => near(prior.degrees, degrees),
                None => assert!(prior.degrees.is_infinite(), "{name}: {}", prior.degrees),
            }
            near(prior.variance, page["prior"][1].as_f64().unwrap());
            for (known, theirs) in known.into_iter().zip(numbers(&page["posterior"])) {
                // With infinite degrees of freedom, the posterior variance is the prior variance.
                let ours = if prior.degrees.is_finite() {
                    prior.posterior(known).0
                } else {
                    prior.variance
                };
                assert!(
                    (ours / theirs - 1.0).abs() < 1e-6,
                    "{name}: {known:?}: {ours} {theirs}"
                );
            }
        }
    }

    #[test]
    fn trigamma_has_its_known_values_and_its_inverse() {
        let squared = std::f64::consts::PI.powi(2);
        assert!((trigamma(1.0) - squared / 6.0).abs() < 1e-12);
        assert!((trigamma(0.5) - squared / 2.0).abs() < 1e-12);
        for x in [0.01, 0.5, 3.0, 40.0, 1e5] {
            assert!(
                (inverse_trigamma(trigamma(x)) / x - 1.0).abs() < 1e-7,
                "{x}"
            );
        }
    }

    #[test]
    fn cases_that_share_all_their_luck_lend_each_other_nothing() {
        let luck = [[0.02, -0.03, 0.01], [-0.04, 0.01, 0.02]];
        let case = |scale: f64| {
            let side = |side: usize| sample(&luck[side].map(|log| scale * log));
            RunContrast::between(&side(0), &side(1)).unwrap().unwrap()
        };
        let shared: Vec<RunContrast> = (1..=12)
            .map(|scale| case(1.0 + 0.1 * f64::from(scale)))
            .collect();
        assert_eq!(RunContrast::prior(&shared), None);
    }
}
