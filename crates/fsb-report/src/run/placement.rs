//! Where targets were while they were measured, and how often results were looked at.

use fsb_model::RunRecord;
use fsb_model::run::Placement;
use fsb_model::units::show_bytes;

use crate::record_text::placement_reason_text;
use crate::show::counted;

/// `side by side on 3 parts of 660 MiB, 9 rounds`; `in turn: the targets are on different media`.
pub(super) fn fact(record: &RunRecord) -> Option<String> {
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
pub(super) fn looks(record: &RunRecord, blocks: u32) -> Option<String> {
    if record.looks.len() < 2 {
        return None;
    }
    let taken = record.looks.iter().filter(|look| **look <= blocks).count();
    Some(format!("{taken} of {} interim analyses", record.looks.len()))
}
