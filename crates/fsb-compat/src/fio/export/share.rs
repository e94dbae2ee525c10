//! How much of a row is done.

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

/// Records of all files.
pub(super) fn pass(piece: &Piece) -> u64 {
    let [files, file_size, block_size] = ["files", "file_size", "block_size"].map(|key| piece.number(key));
    files * (file_size / block_size.max(1))
}

/// Nine tenths of what a target may be filled with: it needs some for itself.
fn fits(space: u64, piece: &Piece) -> u64 {
    (space / 10 * 9) / piece.space.max(1)
}

/// Units follow each other; threads that share a unit's files would have to wait for each other between two units, so such a
/// row is done as a whole, as is one that visits a part of several files.
pub(super) fn of<'r>(row: &'r Row, request: &Request) -> Share<'r> {
    let whole = Share { piece: &row.whole, units: 1, own_files: false };
    let Some(UnitPiece { piece, own_files }) = &row.unit else { return whole };
    let share = Share { piece, units: request.units, own_files: *own_files };
    if !own_files {
        return share;
    }
    let is_data = !matches!(piece.workload.name.as_str(), "create" | "stat" | "delete");
    let part = piece.number("files") > 1 && piece.operations < pass(piece);
    if is_data && (part || piece.number("threads") > 1) {
        return whole;
    }
    Share { units: request.units.min(fits(request.space, piece)).max(1), ..share }
}
