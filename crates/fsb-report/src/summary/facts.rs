//! The facts of a run, for one line: medium, placement, kernels, blocks, seed, time.

use std::collections::BTreeSet;
use std::time::Duration;

use fsb_model::run::Placement;
use fsb_model::units::{show_bytes, show_duration};
use fsb_model::{Repetition, RunRecord};

use super::device;
use super::trial_value::{self, CompactTrial};
use crate::record_text::{placement_reason_text, stop_reason_text};
use crate::releases::Fact;
use crate::show::{counted, scale};

/// Returns the facts of a run: medium, device, placement, kernel, blocks, scale, seed, controls,
/// time.
pub(super) fn facts(record: &RunRecord, trials: &[CompactTrial], blocks: u32) -> Vec<Fact> {
    let mut facts = Vec::new();
    let media: BTreeSet<&str> = record
        .media
        .values()
        .map(|medium| medium.summary.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    if !media.is_empty() {
        facts.push(Fact::Text(
            media.into_iter().collect::<Vec<_>>().join(" and "),
        ));
    }
    let beneath: BTreeSet<String> = record
        .media
        .values()
        .filter_map(|medium| device::storage_text(record, &medium.device))
        .collect();
    if !beneath.is_empty() {
        facts.push(Fact::Text(
            beneath.into_iter().collect::<Vec<_>>().join(" and "),
        ));
    }
    facts.extend(
        device::fact(record)
            .into_iter()
            .chain(placement_fact(record))
            .map(Fact::Text),
    );
    let mut kernels: BTreeSet<&str> = trials
        .iter()
        .map(|trial| trial.what.kernel.as_str())
        .collect();
    if kernels.is_empty() {
        kernels.insert(&record.host.kernel);
    }
    if kernels.iter().any(|kernel| !kernel.is_empty()) {
        facts.push(Fact::Kernels(
            kernels.into_iter().map(str::to_owned).collect(),
        ));
    }
    facts.push(Fact::Text(match record.blocks_planned.or(asked(record)) {
        Some(planned) if record.stop_reason.is_none() && blocks < planned => {
            format!("{blocks} of {planned} blocks")
        }
        _ => counted(blocks as usize, "block"),
    }));
    facts.extend(interim_analyses(record, blocks).map(Fact::Text));
    if record.plan.scale != 1.0 {
        facts.push(Fact::Text(format!("scale {}", scale(record.plan.scale))));
    }
    facts.push(Fact::Text(format!("seed {}", record.plan.seed)));
    if !record.plan.controls.is_empty() {
        let held: Vec<String> = record
            .plan
            .controls
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        facts.push(Fact::Text(held.join(" ")));
    }
    if let Some(seconds) = seconds(record, trials) {
        facts.push(Fact::Text(show_duration(Duration::from_secs_f64(seconds))));
    }
    facts
}

/// Returns the reason why the run ended, if the plan did not fix the number of blocks alone.
pub(super) fn stopped(record: &RunRecord) -> Option<String> {
    let decided = !matches!(
        record.plan.repetition,
        Repetition::Blocks { seconds: None, .. }
    );
    record
        .stop_reason
        .as_ref()
        .filter(|_| decided)
        .map(stop_reason_text)
}

fn asked(record: &RunRecord) -> Option<u32> {
    match record.plan.repetition {
        Repetition::Blocks { blocks, .. } => Some(blocks),
        _ => None,
    }
}

/// Returns the duration of the run in seconds: the sum of its segments, killed ones up to their
/// last trial. Returns `None` if it is unknown.
pub(super) fn seconds(record: &RunRecord, trials: &[CompactTrial]) -> Option<f64> {
    let mut total = 0.0;
    for (index, segment) in record.segments.iter().enumerate() {
        let started = trial_value::seconds(&segment.started)?;
        let next = record
            .segments
            .get(index + 1)
            .and_then(|next| trial_value::seconds(&next.started))
            .unwrap_or(f64::INFINITY);
        let ended = segment
            .ended
            .as_deref()
            .and_then(trial_value::seconds)
            .unwrap_or_else(|| {
                trials
                    .iter()
                    .filter_map(|trial| trial.started)
                    .filter(|stamp| (started..next).contains(stamp))
                    .fold(started, f64::max)
            });
        total += (ended - started).max(0.0);
    }
    (total > 0.0).then_some(total)
}

/// Returns the placement of the targets, such as `side by side on 3 slices of 660 MiB, 9 rounds` or
/// `in turn: the targets are on different media`.
fn placement_fact(record: &RunRecord) -> Option<String> {
    match record.placement.as_ref()? {
        Placement::InTurn { reason } => Some(format!("in turn: {}", placement_reason_text(reason))),
        Placement::SideBySide {
            slices,
            slice_bytes,
        } => {
            let on = match slices {
                0 => String::new(),
                slices => format!(
                    " on {} of {}",
                    counted(*slices as usize, "slice"),
                    show_bytes(*slice_bytes as f64)
                ),
            };
            let rounds = rounds(record)
                .map(|rounds| format!(", {rounds}"))
                .unwrap_or_default();
            Some(format!("side by side{on}{rounds}"))
        }
    }
}

/// Returns the number of rounds, such as `9 rounds`, or `6 to 12 rounds` if cases differ.
fn rounds(record: &RunRecord) -> Option<String> {
    let rounds = || record.rounds.values().map(|rounds| rounds.rounds);
    let (fewest, most) = (rounds().min()?, rounds().max()?);
    Some(if fewest == most {
        counted(most as usize, "round")
    } else {
        format!("{fewest} to {most} rounds")
    })
}

/// Returns text such as `2 of 3 interim analyses`. Returns `None` if fewer than two were planned.
fn interim_analyses(record: &RunRecord, blocks: u32) -> Option<String> {
    if record.interim_analyses.len() < 2 {
        return None;
    }
    let taken = record
        .interim_analyses
        .iter()
        .filter(|analysis| **analysis <= blocks)
        .count();
    Some(format!(
        "{taken} of {} interim analyses",
        record.interim_analyses.len()
    ))
}
