//! What a format is.

use std::io::{self, Write};

use crate::report::Report;

/// A member of the registry of formats.
#[derive(Debug)]
pub struct Format {
    /// The name that `--format` takes.
    pub name: &'static str,
    /// The file-name extension that implies it, without the dot.
    pub extension: &'static str,
    /// One line for `fsb list formats`.
    pub about: &'static str,
    /// Writes the whole text, piece by piece: a long run's table of trials is larger than what `fsb report` may hold in
    /// memory. The writer should be buffered.
    pub write: fn(&Report<'_>, &mut dyn Write) -> io::Result<()>,
}

impl Format {
    /// Returns the whole text.
    pub fn render(&self, report: &Report<'_>) -> String {
        let mut text = Vec::new();
        (self.write)(report, &mut text).expect("writing to a vector does not fail");
        String::from_utf8(text).expect("formats write text")
    }
}
