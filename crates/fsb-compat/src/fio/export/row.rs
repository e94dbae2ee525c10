//! Builds the section of a case from the share of the case that fio runs.

use super::section::Section;
use super::{names, records, share};
use crate::export::request::{ExportCase, Request};

/// Returns the section that does the same as the case, or the reason why fio cannot.
pub(super) fn section(row: &ExportCase, request: &Request) -> Result<Section, String> {
    if row.whole.workload.sustain.is_some() {
        return Err("fio cannot detect that a journal was written, which ends this case".to_owned());
    }
    let share = share::of(row, request);
    let mut section = match row.whole.workload.name.as_str() {
        "create" | "stat" | "delete" => names::section(&share)?,
        name => records::section(records::direction(name, share.piece)?, &share)?,
    };
    section.durable = !matches!(share.piece.word("durability"), "none" | "");
    let all = if share.own_files { ", each on files of its own" } else { "" };
    let operations = share.piece.operations;
    match share.units {
        1 => section.remark(format!("{operations} operations.")),
        units => section.remark(format!("{units} units of {operations} operations{all}.")),
    }
    Ok(section)
}
