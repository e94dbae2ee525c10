//! The terms on which runs are judged: the variation between them and its source, and the changes
//! that a comparison of runs can then show.

use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::description::t_quantile;
use crate::prior::Prior;

/// The variation of one value, or of one ratio of two targets, between runs, known from other
/// sources than the runs compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Between {
    /// The standard deviation of logarithms, 0.05 for 5 %.
    pub sd: f64,
    pub source: BetweenSource,
}

/// The source of a variation between runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BetweenSource {
    /// The user stated it.
    Stated,
    /// The variation was estimated from earlier runs of the same plan on the same machine.
    EarlierRuns {
        /// The number of runs.
        runs: usize,
        /// The degrees of freedom.
        degrees: f64,
    },
}

impl Between {
    pub(super) fn degrees(&self) -> f64 {
        match self.source {
            BetweenSource::Stated => f64::INFINITY,
            BetweenSource::EarlierRuns { degrees, .. } => degrees,
        }
    }
}

/// The reason why a pair has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unjudged {
    /// There is one run on each side: the variation between runs is unknown.
    OneRun,
    /// A side has fewer than [`FEWEST_RUNS_JUDGED`](crate::FEWEST_RUNS_JUDGED) runs.
    FewRuns,
    /// The two sides were measured in different sessions, and the variation between sessions is
    /// unknown.
    NoSharedSession,
    /// The report of a run does not judge the workload.
    Withheld,
    /// A run of one side failed.
    Failed,
    /// A run of one side has no value.
    NoValue,
    /// The metric is a maximum, which depends on a single operation.
    Maximum,
    /// The times are a few ticks of the tool's clock.
    Resolution,
}

/// Knowledge about a pair of sets that holds for every case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Terms {
    /// The prior of the variances between runs.
    pub prior: Option<Prior>,
    /// The variation between runs, for sides of fewer than [`FEWEST_RUNS_JUDGED`] runs.
    pub between_runs: Option<Between>,
    /// The variation between sessions, for sides that share none.
    pub between_sessions: Option<Between>,
    /// The number of sessions of each side, where they share none and have too few to show how
    /// sessions vary.
    pub apart: Option<[usize; 2]>,
    /// Comparisons on the page.
    pub page: usize,
    /// The smallest change that matters, as a logarithm.
    pub theta: f64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            prior: None,
            between_runs: None,
            between_sessions: None,
            apart: None,
            page: 1,
            theta: 0.0,
        }
    }
}

/// Returns the standard error of a sum of independent estimates of variance, and its degrees of
/// freedom (Welch 1947, Satterthwaite 1946). The parts are shares of the variance, so that nothing
/// underflows. Without any spread the degrees of freedom are pooled.
pub(super) fn satterthwaite(parts: &[(f64, f64)]) -> (f64, f64) {
    let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let degrees = match variance > 0.0 {
        true => {
            1.0 / parts
                .iter()
                .map(|(part, degrees)| (part / variance).powi(2) / degrees.max(1.0))
                .sum::<f64>()
        }
        false => parts
            .iter()
            .map(|(_, degrees)| degrees)
            .sum::<f64>()
            .max(1.0),
    };
    (variance.sqrt(), degrees)
}

/// The two-sided level whose upper end is exceeded by one value in five, and by one in ten.
const ONE_IN_FIVE: f64 = 0.6;
const ONE_IN_TEN: f64 = 0.8;
/// More runs than this on a side are not proposed.
const MOST_RUNS: u32 = 999;

/// The changes that a comparison of runs can show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Power {
    /// The change that such a comparison shows in four cases of five, on a page of as many
    /// comparisons; 0.06 for 6 %.
    pub detectable: f64,
    /// Runs on each side at which θ is that change, and at which equals are shown to be equal
    /// within θ; absent where no number of runs suffices.
    pub runs_needed: Option<u32>,
}

impl Power {
    /// Returns the changes that a comparison of these sides can show, or `None` if the runs show no
    /// variation at all. Each side has the variance of one run, the number of runs and the degrees
    /// of freedom of that variance. A stated component adds `fixed` to the variance of the
    /// difference. If the sides are `few`, more runs reduce that component.
    pub(crate) fn from_sides(
        sides: &[(f64, f64, f64)],
        stated: Option<(&Between, f64, bool)>,
        terms: &Terms,
    ) -> Option<Power> {
        let fixed = stated.map_or(0.0, |(_, fixed, _)| fixed);
        let stated_degrees = stated.map_or(f64::INFINITY, |(between, ..)| between.degrees());
        let now: Vec<(f64, f64)> = sides
            .iter()
            .map(|(variance, runs, degrees)| (variance / runs, *degrees))
            .collect();
        let (error, degrees) = satterthwaite(&[&now[..], &[(fixed, stated_degrees)]].concat());
        if error <= 0.0 {
            return None;
        }
        let alpha = (1.0 - LEVEL) / terms.page.max(1) as f64;
        let reach = |error: f64, degrees: f64| {
            error * (t_quantile(1.0 - alpha, degrees) + t_quantile(ONE_IN_FIVE, degrees))
        };
        let suffices = |runs: u32| {
            let n = f64::from(runs);
            let mut parts: Vec<(f64, f64)> = sides
                .iter()
                .map(|(variance, had, degrees)| (variance / n, degrees + n - had))
                .collect();
            parts.extend(stated.map(|(between, fixed, few)| match few {
                true => (
                    sides.len() as f64 * between.sd * between.sd / n,
                    stated_degrees,
                ),
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
                if suffices(middle) {
                    high = middle
                } else {
                    low = middle
                }
            }
            high
        });
        let detectable = libm::expm1(reach(error, degrees));
        detectable.is_finite().then_some(Power {
            detectable,
            runs_needed,
        })
    }
}
