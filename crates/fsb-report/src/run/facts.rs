//! The facts of a run in a line, and advice on more blocks.

use std::collections::BTreeSet;
use std::time::Duration;

use fsb_model::run::Placement;
use fsb_model::units::{show_bytes, show_duration};
use fsb_model::{Repetition, RunRecord, TargetKind};
use fsb_stats::{Comparison, FEWEST_JUDGED, Outcome, blocks_to_scale};

use super::report_trial::{self, ReportTrial};
use super::summary::{Summary, TargetSummary, Workload};
use super::{device, risks, unjudged};
use crate::record_text::{placement_reason_text, stop_reason_text};
use crate::show::{counted, scale};
use crate::warning::sufficient_budget;

pub(super) fn targets(record: &RunRecord) -> Vec<TargetSummary> {
    let barred = risks::barred(record);
    let summarised = |(place, target): (usize, &fsb_model::Target)| TargetSummary {
        name: target.name.clone(),
        what: what(target),
        file_system: target.file_system().map(|spec| spec.fs.clone()),
        failed: record.targets.get(&target.name).and_then(|found| found.failed.clone()),
        unjudged: record.unjudged_target(target),
        unavailable: record.targets.get(&target.name).and_then(|found| found.unavailable.clone()),
        risks: risks::of(record, &target.name).to_vec(),
        may_win: !barred.contains(&place),
    };
    record.plan.targets.iter().enumerate().map(summarised).collect()
}

/// Returns the file system with its options on its medium, or the directory, without the name.
fn what(target: &fsb_model::Target) -> String {
    match &target.kind {
        TargetKind::Directory(path) => path.display().to_string(),
        TargetKind::FileSystem(spec) => spec.to_string(),
    }
}

/// Returns the number of measured blocks that have trials.
pub(super) fn blocks(trials: &[ReportTrial]) -> u32 {
    let blocks: BTreeSet<u32> = trials.iter().filter(|trial| trial.counts()).map(|trial| trial.block).collect();
    blocks.len() as u32
}

/// Returns the facts of a run: medium, device, placement, kernel, blocks, scale, seed, controls, time.
pub(super) fn facts(record: &RunRecord, trials: &[ReportTrial], blocks: u32) -> Vec<String> {
    let mut facts = Vec::new();
    let media: BTreeSet<&str> =
        record.media.values().map(|medium| medium.summary.as_str()).filter(|text| !text.is_empty()).collect();
    if !media.is_empty() {
        facts.push(media.into_iter().collect::<Vec<_>>().join(" and "));
    }
    let beneath: BTreeSet<String> =
        record.media.values().filter_map(|medium| device::storage_text(record, &medium.device)).collect();
    if !beneath.is_empty() {
        facts.push(beneath.into_iter().collect::<Vec<_>>().join(" and "));
    }
    facts.extend(device::fact(record));
    facts.extend(placement_fact(record));
    let kernels: BTreeSet<&str> = trials.iter().map(|trial| trial.what.kernel.as_str()).collect();
    let own = Some(record.host.kernel.as_str());
    let kernels: Vec<&str> = if kernels.is_empty() { own.into_iter().collect() } else { kernels.into_iter().collect() };
    if kernels.iter().any(|kernel| !kernel.is_empty()) {
        facts.push(format!("Linux {}", kernels.join(" and ")));
    }
    facts.push(match record.blocks_planned.or(asked(record)) {
        Some(planned) if record.stop_reason.is_none() && blocks < planned => format!("{blocks} of {planned} blocks"),
        _ => counted(blocks as usize, "block"),
    });
    facts.extend(interim_analyses(record, blocks));
    if record.plan.scale != 1.0 {
        facts.push(format!("scale {}", scale(record.plan.scale)));
    }
    facts.push(format!("seed {}", record.plan.seed));
    if !record.plan.controls.is_empty() {
        let held: Vec<String> = record.plan.controls.iter().map(|(name, value)| format!("{name}={value}")).collect();
        facts.push(held.join(" "));
    }
    if let Some(seconds) = seconds(record, trials) {
        facts.push(show_duration(Duration::from_secs_f64(seconds)));
    }
    facts
}

/// Returns the reason why the run ended, if the plan did not fix the number of blocks alone.
pub(super) fn stopped(record: &RunRecord) -> Option<String> {
    let decided = !matches!(record.plan.repetition, Repetition::Blocks { seconds: None, .. });
    record.stop_reason.as_ref().filter(|_| decided).map(stop_reason_text)
}

fn asked(record: &RunRecord) -> Option<u32> {
    match record.plan.repetition {
        Repetition::Blocks { blocks, .. } => Some(blocks),
        _ => None,
    }
}

/// Returns the duration of the run in seconds: the sum of its segments, killed ones up to their last trial. Returns
/// `None` if it is unknown.
pub(super) fn seconds(record: &RunRecord, trials: &[ReportTrial]) -> Option<f64> {
    let mut total = 0.0;
    for (index, segment) in record.segments.iter().enumerate() {
        let started = report_trial::seconds(&segment.started)?;
        let next = record
            .segments
            .get(index + 1)
            .and_then(|next| report_trial::seconds(&next.started))
            .unwrap_or(f64::INFINITY);
        let last_trial = || {
            let within = |stamp: &f64| (started..next).contains(stamp);
            trials.iter().filter_map(|trial| trial.started).filter(within).fold(started, f64::max)
        };
        let ended = segment.ended.as_deref().and_then(report_trial::seconds).unwrap_or_else(last_trial);
        total += (ended - started).max(0.0);
    }
    (total > 0.0).then_some(total)
}

/// Returns the option that would narrow the intervals of undecided rows or allow verdicts, or the reason why nothing is
/// judged.
pub(super) fn advice(summary: &Summary, record: &RunRecord, seconds: Option<f64>) -> Option<String> {
    if let Some(why) = summary.unjudged.as_deref().filter(|_| summary.blocks > 0) {
        return Some(unjudged::advice(why));
    }
    if let Some(budget) = sufficient_budget(&record.warnings).filter(|_| summary.blocks > 0) {
        return Some(format!("--budget {budget} would hold and judge all"));
    }
    if !summary.is_comparison() || summary.blocks == 0 {
        return None;
    }
    let about = |blocks: u32| {
        let scaled = seconds? * f64::from(blocks) / f64::from(summary.blocks);
        Some(format!(" (about {})", rough(scaled)))
    };
    if !summary.is_judged() && (summary.blocks as usize) < FEWEST_JUDGED {
        let fewest = FEWEST_JUDGED as u32;
        return Some(format!("--blocks {fewest} or more gives verdicts{}", about(fewest).unwrap_or_default()));
    }
    let is_undecided = |row: &&Workload| matches!(row.ranking.outcome, Outcome::Undecided(_));
    let mut pairs = summary.rows.iter().filter(is_undecided).flat_map(|row| &row.ranking.pairs);
    let judged = pairs.find(|pair| pair.adjusted_p.is_some())?;
    let Comparison { n, level, nominal_level, .. } = judged.comparison;
    let blocks = blocks_to_scale(n, nominal_level.unwrap_or(level), level, 0.5)?;
    Some(format!("--blocks {blocks} would halve the intervals{}", about(blocks).unwrap_or_default()))
}

/// Formats an estimated duration: whole seconds, and whole minutes from 90 s to an hour.
fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => show_duration(Duration::from_secs_f64(s.round())),
        s if s < 3570.0 => format!("{:.0} min", s / 60.0),
        s => show_duration(Duration::from_secs_f64(s)),
    }
}

/// `side by side on 3 parts of 660 MiB, 9 rounds`; `in turn: the targets are on different media`.
pub(super) fn placement_fact(record: &RunRecord) -> Option<String> {
    match record.placement.as_ref()? {
        Placement::InTurn { reason } => Some(format!("in turn: {}", placement_reason_text(reason))),
        Placement::SideBySide { parts, part_bytes } => {
            let on = match parts {
                0 => String::new(),
                parts => format!(" on {} of {}", counted(*parts as usize, "part"), show_bytes(*part_bytes as f64)),
            };
            let rounds = rounds(record).map(|rounds| format!(", {rounds}")).unwrap_or_default();
            Some(format!("side by side{on}{rounds}"))
        }
    }
}

/// `9 rounds`; `6 to 12 rounds` where rows differ.
pub(super) fn rounds(record: &RunRecord) -> Option<String> {
    let rounds = || record.rounds.values().map(|rounds| rounds.rounds);
    let (fewest, most) = (rounds().min()?, rounds().max()?);
    Some(if fewest == most { counted(most as usize, "round") } else { format!("{fewest} to {most} rounds") })
}

/// `2 of 3 interim analyses`; `None` if fewer than two were planned.
pub(super) fn interim_analyses(record: &RunRecord, blocks: u32) -> Option<String> {
    if record.interim_analyses.len() < 2 {
        return None;
    }
    let taken = record.interim_analyses.iter().filter(|analysis| **analysis <= blocks).count();
    Some(format!("{taken} of {} interim analyses", record.interim_analyses.len()))
}
