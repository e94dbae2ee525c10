//! fio: JSON and json+, one document or several, with or without text around them.

mod document;
mod export;
mod job;
mod latency;
mod options;
mod reader;

use std::io::BufRead;

use fsb_model::set::Run;

use crate::error::ReadError;
use crate::lines::holds;
use crate::tool::Tool;

pub(crate) use export::EXPORTER;

/// Reads fio's JSON.
pub(crate) const TOOL: Tool = Tool {
    name: "fio",
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

/// Whether this is the report for people: `fio-3.33` on a line of its own, and lines of jobs.
fn is_text(head: &[u8]) -> bool {
    let version = head.split(|byte| *byte == b'\n').any(|line| is_version(line.trim_ascii()));
    version && (holds(head, b": (groupid=") || holds(head, b": (g="))
}

/// Whether this is the terse report: `3;fio-3.33;…`.
fn is_terse(head: &[u8]) -> bool {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    first.split(|byte| *byte == b';').nth(1).is_some_and(is_version)
}

fn is_version(text: &[u8]) -> bool {
    text.strip_prefix(b"fio-").is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}
