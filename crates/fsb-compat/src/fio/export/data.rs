//! The content of files with a compressible or duplicate share.

use serde_json::Value;

use super::section::Section;
use crate::export::request::Piece;

/// Sectors of 512 bytes, each with its compressible part at the end: as fsb fills files.
const CHUNK: u64 = 512;

/// Adds the options for the parameter `data`.
pub(super) fn add(section: &mut Section, piece: &Piece) {
    let Some(Value::Object(shares)) = piece.workload.params.get("data") else { return };
    let percent = |key: &str| {
        let text = shares.get(key)?.as_str()?.trim_end_matches('%');
        text.parse::<f64>().ok().map(|percent| percent.round().clamp(0.0, 100.0) as u64)
    };
    section.set("refill_buffers", 1);
    if let Some(percent) = percent("compressible") {
        section.set("buffer_compress_percentage", percent);
        section.set("buffer_compress_chunk", CHUNK);
    }
    if let Some(percent) = percent("duplicate") {
        section.set("dedupe_percentage", percent);
    }
    section.remark("fio fills its buffers inside the timed part; fsb prepares its data in advance.");
}
