//! fio: JSON and json+, one document or several, with or without text around them.

mod document;
mod export;
mod reader;
mod recognise;

use std::io::BufRead;

use fsb_model::set::Run;

use crate::error::ReadError;
use crate::lines::holds;
use crate::tool::Tool;

pub(crate) use export::EXPORTER;
use recognise::{is_terse, is_text};

/// Reads fio's JSON.
pub(crate) const TOOL: Tool = Tool {
    name: reader::NAME,
    about: "JSON and json+ of 2.x and 3.x: per job and direction, grouped or not, unified",
    looks_for: "JSON with \"fio version\", from --output-format=json or json+",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    holds(head, document::FIRST_KEY.as_bytes()) || is_text(head) || is_terse(head)
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    reader::read(input)
}
