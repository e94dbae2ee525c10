//! Requests to the analysis, and comparisons of sets.

use std::path::PathBuf;

use anyhow::Context;
use fsb_stats::compare::{Collected, Document, Request, Single, Variation, compare_collected};
use fsb_stats::{Between, BetweenSource};

use crate::sets;
use crate::sets::{Apart, Sets};

/// The known variation between runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requests {
    pub(super) theta: f64,
    pub(super) stated: Option<Between>,
    pub(super) history: Variation,
}

impl Requests {
    /// Returns requests with the variation that the user states, or else with that of earlier runs beside `runs`.
    pub(super) fn of(theta: f64, between: Option<f64>, runs: &[PathBuf]) -> Requests {
        let stated = between.map(|sd| Between { sd, source: BetweenSource::Stated });
        let history = if stated.is_none() { sets::earlier_runs(runs) } else { None };
        Requests { theta, stated, history: history.unwrap_or_default() }
    }

    /// Returns the request for values of one target. It uses the variation between sessions if earlier runs were made
    /// in several sessions. With one run on a side it uses only the variation that the user states.
    pub(super) fn of_values(&self, baseline: usize) -> Request {
        let sessions = self.history.values.filter(|_| self.history.of_sessions);
        Request {
            between_runs: self.stated,
            between_sessions: self.stated.or(sessions),
            ..Request::new(baseline, self.theta)
        }
    }

    /// Returns the request for ratios of two targets; the first set is the baseline.
    pub(super) fn of_ratios(&self) -> Request {
        let sessions = self.history.ratios.filter(|_| self.history.of_sessions);
        Request {
            between_runs: self.stated.or(self.history.ratios),
            between_sessions: self.stated.or(sessions),
            ..Request::new(0, self.theta)
        }
    }
}

/// Compares the sets, and adds the warnings and conditions of their runs to the document. Withholds verdicts that the
/// runs do not permit.
pub(super) fn compared(
    sets: Vec<Collected>,
    read: &Sets,
    request: &Request,
    single: Single<'_>,
) -> anyhow::Result<Document> {
    let mut document = compare_collected(sets, request, single).context("cannot compare these sets")?;
    document.warnings.splice(0..0, read.warnings.iter().cloned());
    document.conditions.clone_from(&read.conditions);
    match read.apart.clone() {
        Some(Apart { why, unjudged: Some(unjudged) }) => document.unjudge(unjudged, why),
        Some(Apart { why, unjudged: None }) => document.withhold(why),
        None => {}
    }
    for ((workload, reason), runs) in &read.withheld {
        let why = format!("{workload}: not judged: {reason} in {}", runs.join(", "));
        document.withhold_at(workload, why);
    }
    Ok(document)
}
