//! An importer: how it recognises its input, and the trace that it returns.

use std::io::{BufRead, Read as _};

use crate::resolve::Sink;
use crate::{Gap, Remark, TraceError, TraceNote};

/// Facts for the end of the trace that are known after an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Threads and processes.
    pub tasks: u64,
    /// Calls outside the root.
    pub outside: u64,
    /// Calls that the tool could not see.
    pub incomplete: Vec<Remark<Gap>>,
    pub notes: Vec<Remark<TraceNote>>,
    /// Lines that were not understood, and the first of them.
    pub skipped: u64,
}

/// A tool whose traces can be read.
#[derive(Debug)]
pub struct Importer {
    /// The name of the tool.
    pub name: &'static str,
    /// The options that the tool must have been run with.
    pub about: &'static str,
    /// Whether a file that begins like this is its own.
    pub recognise: fn(&[u8]) -> bool,
    pub read: Read,
}

/// A sink of any kind, for code that needs a sink of a certain kind.
pub(crate) struct Any<'s>(pub(crate) &'s mut dyn Sink);

impl Sink for Any<'_> {
    fn name(&mut self, name: &[u8]) -> Result<u32, TraceError> {
        self.0.name(name)
    }

    fn initial(&mut self, initial: crate::Initial) -> Result<(), TraceError> {
        self.0.initial(initial)
    }

    fn call(&mut self, call: &crate::Call) -> Result<(), TraceError> {
        self.0.call(call)
    }
}

/// Reads a tool's text: names below this directory, and relative ones begin there.
pub type Read = fn(&mut dyn BufRead, &[u8], &mut dyn Sink) -> Result<Imported, TraceError>;

/// The longest line that is read; strace shortens texts, but lists of many pieces are long.
const LONGEST: u64 = 1 << 20;

/// Calls `each` with every line and its number; bytes that are no text become replacement
/// characters.
pub(super) fn each(
    from: &mut dyn BufRead,
    mut each: impl FnMut(u64, &str) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let (mut bytes, mut line) = (Vec::new(), 0);
    loop {
        bytes.clear();
        line += 1;
        (&mut *from).take(LONGEST).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() as u64 == LONGEST && bytes.last() != Some(&b'\n') {
            return Err(TraceError::Line {
                line,
                message: "it is longer than any line of a trace".to_owned(),
            });
        }
        each(
            line,
            String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']),
        )?;
    }
}

/// Nanoseconds up to which times of a log are accepted: 146 years, so that the sum of two is a time
/// of a trace.
pub(super) const LATEST: u64 = i64::MAX as u64 / 2;

/// Parses seconds as nanoseconds. Returns `None` if the text is not a number or is later than
/// [`LATEST`].
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = if fraction.is_empty() {
        0
    } else {
        format!("{fraction:0<9}").parse().ok()?
    };
    whole
        .checked_mul(1_000_000_000)?
        .checked_add(fraction)
        .filter(|time| *time <= LATEST)
}
