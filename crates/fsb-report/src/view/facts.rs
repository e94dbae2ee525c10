//! The run in a line, and what more blocks would do.

use std::collections::BTreeSet;
use std::time::Duration;

use fsb_analysis::{FEWEST_JUDGED, Outcome, blocks_to_scale};
use fsb_model::units::show_duration;
use fsb_model::{Repetition, RunRecord, TargetKind, Trial};
use jiff::Timestamp;

use super::{TargetView, View, unjudged};
use crate::show::{counted, percent};

pub(super) fn targets(record: &RunRecord) -> Vec<TargetView> {
    let view = |target: &fsb_model::Target| TargetView {
        name: target.name.clone(),
        what: what(target),
        file_system: target.file_system().map(|spec| spec.fs.clone()),
        failed: record.targets.get(&target.name).and_then(|found| found.failed.clone()),
        unjudged: record.unjudged_target(target),
        unavailable: record.targets.get(&target.name).and_then(|found| found.unavailable.clone()),
    };
    record.plan.targets.iter().map(view).collect()
}

/// The file system with its options on its medium, without the name.
fn what(target: &fsb_model::Target) -> String {
    match &target.kind {
        TargetKind::Directory(path) => path.display().to_string(),
        TargetKind::FileSystem(spec) => spec.to_string(),
    }
}

/// Measured blocks that have trials.
pub(super) fn blocks(trials: &[Trial]) -> u32 {
    let blocks: BTreeSet<u32> = trials.iter().filter(|trial| trial.counts()).map(|trial| trial.block).collect();
    blocks.len() as u32
}

/// Medium, kernel, blocks, seed, time.
pub(super) fn facts(record: &RunRecord, trials: &[Trial], blocks: u32) -> Vec<String> {
    let mut facts = Vec::new();
    let media: BTreeSet<&str> =
        record.media.values().map(|medium| medium.summary.as_str()).filter(|summary| !summary.is_empty()).collect();
    if !media.is_empty() {
        facts.push(media.into_iter().collect::<Vec<_>>().join(" and "));
    }
    let kernels: BTreeSet<&str> = trials.iter().map(|trial| trial.kernel.as_str()).collect();
    let own = Some(record.host.kernel.as_str());
    let kernels: Vec<&str> = if kernels.is_empty() { own.into_iter().collect() } else { kernels.into_iter().collect() };
    if kernels.iter().any(|kernel| !kernel.is_empty()) {
        facts.push(format!("Linux {}", kernels.join(" and ")));
    }
    facts.push(match record.blocks_planned.or(asked(record)) {
        Some(planned) if record.finished.is_none() && blocks < planned => format!("{blocks} of {planned} blocks"),
        _ => counted(blocks as usize, "block"),
    });
    if record.plan.scale != 1.0 {
        facts.push(format!("scale {}", scale(record.plan.scale)));
    }
    facts.push(format!("seed {}", record.plan.seed));
    if let Some(seconds) = seconds(record, trials) {
        facts.push(show_duration(Duration::from_secs_f64(seconds)));
    }
    facts
}

/// `1/8` where it is one over a whole number.
pub(super) fn scale(scale: f64) -> String {
    let below = 1.0 / scale;
    if below > 1.0 && (below - below.round()).abs() < 1e-9 { format!("1/{below:.0}") } else { format!("{scale}") }
}

/// Why no more blocks were made, where it was not said beforehand how many to make.
pub(super) fn stopped(record: &RunRecord) -> Option<String> {
    let decided = !matches!(record.plan.repetition, Repetition::Blocks { .. });
    record.finished.clone().filter(|_| decided)
}

fn asked(record: &RunRecord) -> Option<u32> {
    match record.plan.repetition {
        Repetition::Blocks { blocks } => Some(blocks),
        _ => None,
    }
}

/// How long the run took: its segments, the killed ones up to their last trial.
pub(super) fn seconds(record: &RunRecord, trials: &[Trial]) -> Option<f64> {
    let time = |text: &str| text.parse::<Timestamp>().ok().map(|stamp| stamp.as_nanosecond() as f64 * 1e-9);
    let mut total = 0.0;
    for (index, segment) in record.segments.iter().enumerate() {
        let started = time(&segment.started)?;
        let next = record.segments.get(index + 1).and_then(|next| time(&next.started)).unwrap_or(f64::INFINITY);
        let last_trial = || {
            let within = |stamp: &f64| (started..next).contains(stamp);
            trials.iter().filter_map(|trial| time(&trial.started)).filter(within).fold(started, f64::max)
        };
        let ended = segment.ended.as_deref().and_then(time).unwrap_or_else(last_trial);
        total += (ended - started).max(0.0);
    }
    (total > 0.0).then_some(total)
}

/// What would settle the undecided rows, or make rows that can be judged.
pub(super) fn advice(view: &View, seconds: Option<f64>) -> Option<String> {
    if let Some(why) = view.unjudged.as_deref().filter(|_| view.blocks > 0) {
        return Some(unjudged::advice(why));
    }
    if !view.is_comparison() || view.blocks == 0 {
        return None;
    }
    let about = |blocks: u32| {
        let scaled = seconds? * f64::from(blocks) / f64::from(view.blocks);
        Some(format!(" (about {})", rough(scaled)))
    };
    if !view.is_judged() && (view.blocks as usize) < FEWEST_JUDGED {
        let fewest = FEWEST_JUDGED as u32;
        return Some(format!(
            "{}: described, not judged; --blocks {fewest} or more gives verdicts{}",
            counted(view.blocks as usize, "block"),
            about(fewest).unwrap_or_default()
        ));
    }
    let undecided = view.rows.iter().any(|row| matches!(row.ranking.outcome, Outcome::Undecided(_)));
    let blocks = blocks_to_scale(view.blocks as usize, 0.5).filter(|_| undecided)?;
    Some(format!(
        "? undecided at {}: --blocks {blocks} would halve the interval{}",
        percent(view.theta),
        about(blocks).unwrap_or_default()
    ))
}

/// A duration that is only a guess: whole minutes.
fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => show_duration(Duration::from_secs_f64(s.round())),
        s if s < 3570.0 => format!("{:.0} min", s / 60.0),
        s => show_duration(Duration::from_secs_f64(s)),
    }
}
