//! The changes that a comparison of runs can show, and the number of runs that θ needs.

use serde::{Deserialize, Serialize};

use super::{Between, Terms, satterthwaite};
use crate::LEVEL;
use crate::distribution::t_quantile;

/// The two-sided level whose upper end is exceeded by one value in five, and by one in ten.
const ONE_IN_FIVE: f64 = 0.6;
const ONE_IN_TEN: f64 = 0.8;
/// More runs than this on a side are not proposed.
const MOST_RUNS: u32 = 999;

/// The changes that a comparison of runs can show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Power {
    /// The change that such a comparison shows in four cases of five, on a page of as many comparisons; 0.06 for 6 %.
    pub detectable: f64,
    /// Runs on each side at which θ is that change, and at which equals are shown to be equal within θ; absent where no
    /// number of runs suffices.
    pub runs_needed: Option<u32>,
}

/// Returns the changes that a comparison of these sides can show, or `None` if the runs show no variation at all. Each
/// side has the variance of one run, the number of runs and the degrees of freedom of that variance. A stated component
/// adds `fixed` to the variance of the difference. If the sides are `few`, more runs reduce that component.
pub(super) fn of(sides: &[(f64, f64, f64)], stated: Option<(&Between, f64, bool)>, terms: &Terms) -> Option<Power> {
    let fixed = stated.map_or(0.0, |(_, fixed, _)| fixed);
    let stated_degrees = stated.map_or(f64::INFINITY, |(between, ..)| between.degrees());
    let now: Vec<(f64, f64)> = sides.iter().map(|(variance, runs, degrees)| (variance / runs, *degrees)).collect();
    let (error, degrees) = satterthwaite(&[&now[..], &[(fixed, stated_degrees)]].concat());
    if error <= 0.0 {
        return None;
    }
    let alpha = (1.0 - LEVEL) / terms.page.max(1) as f64;
    let reach =
        |error: f64, degrees: f64| error * (t_quantile(1.0 - alpha, degrees) + t_quantile(ONE_IN_FIVE, degrees));
    let suffices = |runs: u32| {
        let n = f64::from(runs);
        let mut parts: Vec<(f64, f64)> =
            sides.iter().map(|(variance, had, degrees)| (variance / n, degrees + n - had)).collect();
        parts.extend(stated.map(|(between, fixed, few)| match few {
            true => (sides.len() as f64 * between.sd * between.sd / n, stated_degrees),
            false => (fixed, stated_degrees),
        }));
        let (error, degrees) = satterthwaite(&parts);
        let equal = error * (t_quantile(LEVEL, degrees) + t_quantile(ONE_IN_TEN, degrees));
        reach(error, degrees).max(equal) <= terms.theta
    };
    let runs_needed = suffices(MOST_RUNS).then(|| {
        let (mut low, mut high) = (2, MOST_RUNS);
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if suffices(middle) { high = middle } else { low = middle }
        }
        high
    });
    let detectable = libm::expm1(reach(error, degrees));
    detectable.is_finite().then_some(Power { detectable, runs_needed })
}
