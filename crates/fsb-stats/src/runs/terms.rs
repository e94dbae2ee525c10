//! The terms on which runs are judged: the variation between them, and its source.

use serde::{Deserialize, Serialize};

use crate::prior::Prior;

/// The variation of one value, or of one ratio of two targets, between runs, known from other sources than the runs
/// compared.
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
    /// It was estimated from earlier runs of the same plan on the same machine.
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
    /// The two sides were measured in different sessions, and the variation between sessions is unknown.
    NoSharedSession,
    /// The report of a run does not judge the workload.
    Withheld,
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
    /// The number of sessions of each side, where they share none and have too few to show how sessions vary.
    pub apart: Option<[usize; 2]>,
    /// Comparisons on the page.
    pub page: usize,
    /// The smallest change that matters, as a logarithm.
    pub theta: f64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { prior: None, between_runs: None, between_sessions: None, apart: None, page: 1, theta: 0.0 }
    }
}

/// The standard error of a sum of independent estimates of variance, and its degrees of freedom (Welch 1947, Satterthwaite
/// 1946): as shares of the variance, so that nothing underflows. Without any spread the degrees of freedom are pooled.
pub(super) fn satterthwaite(parts: &[(f64, f64)]) -> (f64, f64) {
    let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let share = |(part, degrees): &(f64, f64)| (part / variance).powi(2) / degrees.max(1.0);
    let degrees = match variance > 0.0 {
        true => 1.0 / parts.iter().map(share).sum::<f64>(),
        false => parts.iter().map(|(_, degrees)| degrees).sum::<f64>().max(1.0),
    };
    (variance.sqrt(), degrees)
}
