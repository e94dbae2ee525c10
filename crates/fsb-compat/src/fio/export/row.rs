//! A row's section: what of it is done, and by which part of fio.

use super::section::Section;
use super::{names, records};
use crate::export::request::{Piece, Request, Row, UnitPiece};

/// What of a row is done.
pub(super) struct Share<'r> {
    /// What is done so often.
    pub piece: &'r Piece,
    /// How often.
    pub units: u64,
    /// Each time on files of its own.
    pub own_files: bool,
}

/// Nine tenths of what a target may be filled with: it needs some for itself.
fn fits(space: u64, piece: &Piece) -> u64 {
    (space / 10 * 9) / piece.space.max(1)
}

/// The section that does the same as the row; or why fio cannot.
pub(super) fn section(row: &Row, request: &Request) -> Result<Section, String> {
    if row.whole.workload.sustain.is_some() {
        return Err("fio does not know when a journal was written, and this row goes on until then".to_owned());
    }
    let share = share(row, request);
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

/// Units follow each other; threads that share a unit's files would have to wait for each other between two units, so such a
/// row is done as a whole, as is one that visits a part of several files.
fn share<'r>(row: &'r Row, request: &Request) -> Share<'r> {
    let whole = Share { piece: &row.whole, units: 1, own_files: false };
    let Some(UnitPiece { piece, own_files }) = &row.unit else { return whole };
    let share = Share { piece, units: request.units, own_files: *own_files };
    if !own_files {
        return share;
    }
    let files = piece.number("files");
    let part = files > 1 && piece.number("block_size") > 0 && piece.operations < records::pass(piece);
    let is_data = !matches!(piece.workload.name.as_str(), "create" | "stat" | "delete");
    if piece.number("threads") > 1 && is_data || part && is_data {
        return whole;
    }
    Share { units: request.units.min(fits(request.space, piece)).max(1), ..share }
}
