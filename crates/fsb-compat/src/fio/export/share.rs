//! The share of a case that fio runs.

use crate::export::request::{ExportCase, Piece, Request, UnitPiece};

/// The share of a case that fio runs.
pub(super) struct Share<'r> {
    /// The repeated work.
    pub piece: &'r Piece,
    /// The number of repetitions.
    pub units: u64,
    /// Each repetition has its own files.
    pub own_files: bool,
}

/// Returns the number of records in all files.
pub(super) fn pass(piece: &Piece) -> u64 {
    let [files, file_size, block_size] = ["files", "file_size", "block_size"].map(|key| piece.number(key));
    files * (file_size / block_size.max(1))
}

/// Returns how many units fit in nine tenths of the space. The target needs the rest for itself.
fn fits(space: u64, piece: &Piece) -> u64 {
    (space / 10 * 9) / piece.space.max(1)
}

/// Returns the share of a case that fio runs. Units follow each other. Threads that share a unit's files would have to
/// wait for each other between two units, so such a case runs as a whole, as does one that accesses a part of several
/// files.
pub(super) fn of<'r>(row: &'r ExportCase, request: &Request) -> Share<'r> {
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
