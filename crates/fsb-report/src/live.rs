//! A run while it is measured: its progress, the time that is left, its table so far, and its
//! interference.

use std::time::Duration;

use fsb_model::units::show_duration;
use fsb_model::{Outcome, Phase, RunRecord, Trial};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::releases::Releases;
use crate::show::counted;
use crate::{interference_text, stop_reason_text, visible};

/// The newest notes that are shown.
const NOTES: usize = 8;

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is measured now.
    Measuring,
    /// It made all its blocks.
    Complete,
    /// It was stopped, or an error ended it. It can be resumed.
    Interrupted,
    /// Its process was killed. It can be resumed.
    Killed,
}

impl RunState {
    /// Returns the state of a run. `is_in_use` is whether a process writes to its directory; `None`
    /// if that is unknown.
    pub fn new(record: &RunRecord, is_in_use: Option<bool>) -> RunState {
        let has_ended = record
            .segments
            .last()
            .is_some_and(|segment| segment.ended.is_some());
        match (has_ended, &record.stop_reason) {
            (true, Some(_)) => RunState::Complete,
            (true, None) => RunState::Interrupted,
            (false, _) if is_in_use == Some(false) => RunState::Killed,
            (false, _) => RunState::Measuring,
        }
    }
}

/// A view of a run that may still be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRun {
    /// The name of the run.
    pub name: String,
    /// Whether it goes on.
    pub state: RunState,
    /// The present block, or the reason why the run ended.
    pub progress: String,
    /// Trials of measured blocks that ended.
    pub done: u64,
    /// Trials of all blocks that are planned; 0 until warm-up has fixed their number.
    pub of: u64,
    /// The time so far, and an estimate of the time that is left.
    pub time: String,
    /// The table so far; empty before the first measured block.
    pub table: String,
    /// The number of trials that interference affected, in words; empty if there is none.
    pub affected: String,
    /// The newest trials that were retried or failed, with the reason, the oldest first.
    pub notes: Vec<String>,
}

impl LiveRun {
    /// Returns the view of a run at the time `now`.
    pub fn new(
        record: &RunRecord,
        trials: &[Trial],
        table: String,
        state: RunState,
        now: Timestamp,
    ) -> LiveRun {
        let measured = trials.iter().filter(|trial| trial.counts());
        let done = measured.count() as u64;
        let of = u64::from(record.blocks_planned.unwrap_or(0))
            * record.cells.len() as u64
            * record.plan.targets.len() as u64;
        let affected = trials
            .iter()
            .filter(|trial| !trial.interference.is_empty())
            .count();
        let affected = match affected {
            0 => String::new(),
            affected => format!("interference affected {}", counted(affected, "trial")),
        };
        LiveRun {
            name: record.name.clone(),
            state,
            progress: progress(record, state, done, of),
            done: if of > 0 { done.min(of) } else { done },
            of,
            time: time(record, trials, state, (done, of), now),
            table,
            affected,
            notes: notes(record, trials),
        }
    }

    /// Returns the view as text for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.progress);
        for part in [&self.time, &self.affected]
            .into_iter()
            .filter(|part| !part.is_empty())
        {
            text += &format!("{part}\n");
        }
        if !self.table.is_empty() {
            text += &format!("\n{}", self.table);
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        visible::lines(&text).into_owned()
    }
}

/// Returns the present block with the number of trials, or how the run ended.
fn progress(record: &RunRecord, state: RunState, done: u64, of: u64) -> String {
    let trials = match of {
        0 => String::new(),
        _ => format!(", {} of {of} trials", done.min(of)),
    };
    match state {
        RunState::Complete => {
            let reason = record
                .stop_reason
                .as_ref()
                .map(stop_reason_text)
                .unwrap_or_default();
            format!("complete: {reason}")
        }
        RunState::Interrupted => format!("interrupted{trials}"),
        RunState::Killed => format!("its process was killed{trials}"),
        RunState::Measuring => match (
            record.order.last().map(|order| order.block),
            record.blocks_planned,
        ) {
            (None, _) => "preparing".to_owned(),
            (Some(0), _) => "warm-up".to_owned(),
            (Some(block), Some(planned)) if block <= planned => {
                format!("block {block} of {planned}{trials}")
            }
            (Some(block), _) => format!("block {block}{trials}"),
        },
    }
}

/// Returns the time of the last segment so far. While the run is measured, also returns an estimate
/// of the time that is left: the mean time per trial since the first measured one, times the trials
/// that are left, within the budget.
fn time(
    record: &RunRecord,
    trials: &[Trial],
    state: RunState,
    (done, of): (u64, u64),
    now: Timestamp,
) -> String {
    let parsed = |text: &str| text.parse::<Timestamp>().ok();
    let Some(segment) = record.segments.last() else {
        return String::new();
    };
    let Some(started) = parsed(&segment.started) else {
        return String::new();
    };
    let end = segment.ended.as_deref().and_then(parsed).unwrap_or(now);
    let elapsed = seconds_between(started, end);
    let shown =
        |seconds: f64| show_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let so_far = shown(elapsed.round());
    match state {
        RunState::Measuring => {}
        // The time of its end is not known.
        RunState::Killed => return String::new(),
        RunState::Complete | RunState::Interrupted => return so_far,
    }
    let budget = record
        .plan
        .repetition
        .budget()
        .map(|budget| (budget.as_secs_f64() - elapsed).max(0.0));
    let of_segment = trials
        .iter()
        .filter(|trial| trial.phase == Phase::Measured && trial.started >= segment.started);
    let (mut made, mut first) = (0_u64, None);
    for trial in of_segment {
        made += 1;
        first = first.or(Some(&trial.started));
    }
    let since = first
        .and_then(|first| parsed(first))
        .map(|first| seconds_between(first, now));
    let estimate = since
        .filter(|_| of > done)
        .map(|since| since / made as f64 * (of - done) as f64);
    match (estimate, budget) {
        (Some(estimate), budget) => {
            format!(
                "{so_far} so far, about {} left",
                shown(
                    budget
                        .map_or(estimate, |budget| estimate.min(budget))
                        .round()
                )
            )
        }
        (None, Some(budget)) => format!("{so_far} so far, at most {} left", shown(budget.round())),
        (None, None) => format!("{so_far} so far"),
    }
}

fn seconds_between(one: Timestamp, other: Timestamp) -> f64 {
    other.duration_since(one).as_secs_f64().max(0.0)
}

/// Returns the newest trials that were retried or failed.
fn notes(record: &RunRecord, trials: &[Trial]) -> Vec<String> {
    let releases = Releases::from_names(
        record
            .plan
            .targets
            .iter()
            .map(|target| target.name.as_str()),
    );
    let mut notes: Vec<String> = trials
        .iter()
        .rev()
        .filter_map(|trial| {
            let target = releases.shorten(&trial.target);
            let retried = if trial.superseded { ", retried" } else { "" };
            if !trial.interference.is_empty() {
                let why: Vec<String> = trial.interference.iter().map(interference_text).collect();
                return Some(format!(
                    "{target}: {}: affected by interference ({}){retried}",
                    trial.workload,
                    why.join(", ")
                ));
            }
            let has_failed = matches!(trial.outcome, Outcome::Failed | Outcome::Invalid);
            has_failed.then(|| format!("{target}: {}: {}{retried}", trial.workload, trial.reason()))
        })
        .take(NOTES)
        .collect();
    notes.reverse();
    notes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(changes: Value) -> RunRecord {
        let mut record = json!({
            "schema": fsb_model::run::SCHEMA, "name": "a · quick", "cells": [
                {"label": "read", "workload": {"name": "read"}}, {"label": "write", "workload": {"name": "write"}}],
            "plan": {"name": "quick", "targets": [{"name": "a", "directory": "/a"}], "workloads": [], "seed": 1,
                     "repetition": {"budget": {"seconds": 300.0}}, "size": "2G", "dir": ".", "theta": 0.03},
            "segments": [{"boot_id": "", "kernel": "6.18", "fsb_version": "0", "started": "2026-01-01T00:00:00Z"}],
        });
        let (Value::Object(record), Value::Object(changes)) = (&mut record, changes) else {
            unreachable!()
        };
        record.extend(changes);
        serde_json::from_value(Value::Object(record.clone())).unwrap()
    }

    fn trial(block: u32, workload: &str, changes: Value) -> Trial {
        let mut trial = json!({
            "schema": fsb_model::trial::SCHEMA, "id": "t", "phase": if block == 0 { "warmup" } else { "measured" },
            "block": block, "order": 0, "attempt": 1, "target": "a", "kernel": "6.18", "workload": workload,
            "operation": workload, "params": {"name": workload}, "outcome": "ok",
            "started": format!("2026-01-01T00:{block:02}:00Z"),
        });
        let (Value::Object(trial), Value::Object(changes)) = (&mut trial, changes) else {
            unreachable!()
        };
        trial.extend(changes);
        serde_json::from_value(Value::Object(trial.clone())).unwrap()
    }

    fn live(record: &RunRecord, trials: &[Trial], is_in_use: Option<bool>, now: &str) -> LiveRun {
        let state = RunState::new(record, is_in_use);
        LiveRun::new(record, trials, String::new(), state, now.parse().unwrap())
    }

    #[test]
    fn the_time_left_is_that_of_the_missing_trials_within_the_budget() {
        let order =
            |last: u32| (0..=last).map(|block| json!({"block": block, "targets": [], "cells": []}));
        let begun = record(json!({}));
        let found = live(&begun, &[], Some(true), "2026-01-01T00:00:20Z");
        assert_eq!(
            (&*found.progress, &*found.time),
            ("preparing", "20 s so far, at most 4 min 40 s left")
        );
        let planned = record(json!({"blocks_planned": 3, "order": order(1).collect::<Vec<_>>()}));
        let trials = [
            trial(0, "read", json!({})),
            trial(1, "read", json!({})),
            trial(1, "write", json!({})),
        ];
        let found = live(&planned, &trials, Some(true), "2026-01-01T00:01:40Z");
        // Two trials in 40 s, and four are left.
        assert_eq!((found.done, found.of), (2, 6));
        assert_eq!(
            (&*found.progress, &*found.time),
            (
                "block 1 of 3, 2 of 6 trials",
                "1 min 40 s so far, about 1 min 20 s left"
            )
        );
        let found = live(&planned, &trials, Some(true), "2026-01-01T00:04:30Z");
        assert_eq!(
            found.time, "4 min 30 s so far, about 30 s left",
            "the budget ends the run"
        );
    }

    #[test]
    fn a_run_is_measured_until_its_segment_ends_or_its_process_is_gone() {
        let open = record(json!({}));
        assert_eq!(RunState::new(&open, Some(true)), RunState::Measuring);
        assert_eq!(RunState::new(&open, None), RunState::Measuring);
        assert_eq!(RunState::new(&open, Some(false)), RunState::Killed);
        let ended = json!([{"boot_id": "", "kernel": "6.18", "fsb_version": "0", "started": "2026-01-01T00:00:00Z",
                            "ended": "2026-01-01T00:01:05Z"}]);
        let stopped = record(json!({"segments": ended}));
        let found = live(&stopped, &[], Some(false), "2026-02-01T00:00:00Z");
        assert_eq!(
            (found.state, &*found.progress, &*found.time),
            (RunState::Interrupted, "interrupted", "1 min 05 s")
        );
        let complete =
            record(json!({"segments": ended, "stop_reason": {"kind": "requested", "blocks": 3}}));
        assert_eq!(RunState::new(&complete, Some(false)), RunState::Complete);
    }

    #[test]
    fn affected_and_failed_trials_are_notes_and_hidden_characters_are_written_out() {
        let steal =
            json!({"interference": [{"kind": "cpu_steal", "share": 0.05}], "superseded": true});
        let failed = json!({"outcome": "failed", "error": "no space\u{1b}[2J"});
        let trials = [trial(1, "read", steal), trial(1, "write", failed)];
        let text = live(
            &record(json!({})),
            &trials,
            Some(true),
            "2026-01-01T00:02:00Z",
        )
        .to_text();
        assert!(text.contains("interference affected 1 trial\n"), "{text}");
        assert!(
            text.contains("a: read: affected by interference (") && text.contains("), retried\n"),
            "{text}"
        );
        assert!(
            text.contains("a: write: failed: no space") && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
