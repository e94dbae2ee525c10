//! Advice on deciding the undecided cases.

use std::time::Duration;

use fsb_model::RunRecord;
use fsb_model::units::show_duration;
use fsb_stats::{Comparison, FEWEST_JUDGED, RankingOutcome, blocks_to_scale};

use super::model::Numbers;
use crate::record_text::sufficient_budget;

/// Returns the option that would narrow the intervals of undecided cases or allow verdicts, or the
/// reason why nothing is judged.
pub(super) fn advice(
    summary: &Numbers,
    record: &RunRecord,
    seconds: Option<f64>,
) -> Option<String> {
    if let Some(why) = summary.unjudged.as_deref().filter(|_| summary.blocks > 0) {
        return Some(format!("Values, without ranks or verdicts: {why}."));
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
        return Some(format!(
            "--blocks {fewest} or more gives verdicts{}",
            about(fewest).unwrap_or_default()
        ));
    }
    let mut pairs = summary
        .cases
        .iter()
        .filter(|case| matches!(case.ranking.outcome, RankingOutcome::Undecided(_)))
        .flat_map(|case| &case.ranking.pairs);
    let judged = pairs.find(|pair| pair.adjusted_p.is_some())?;
    let Comparison {
        n,
        level,
        nominal_level,
        ..
    } = judged.comparison;
    let blocks = blocks_to_scale(n, nominal_level.unwrap_or(level), level, 0.5)?;
    // After an early end, as many blocks may do: an interim analysis has wider intervals than the
    // only one.
    let alone = nominal_level.is_some() && blocks <= summary.blocks;
    let how = if alone {
        ", without interim analyses,"
    } else {
        ""
    };
    Some(format!(
        "--blocks {blocks}{how} would halve the intervals{}",
        about(blocks).unwrap_or_default()
    ))
}

/// Formats an estimated duration: whole seconds, and whole minutes from 90 s to an hour.
pub(crate) fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => show_duration(Duration::from_secs_f64(s.round())),
        s if s < 3570.0 => format!("{:.0} min", s / 60.0),
        s => show_duration(Duration::from_secs_f64(s)),
    }
}
