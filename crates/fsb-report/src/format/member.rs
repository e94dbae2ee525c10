//! The description of an output format.

use std::io::{self, Write};

use crate::report::Report;

/// A member of the registry of formats.
#[derive(Debug)]
pub struct Format {
    /// The name that `--format` takes.
    pub name: &'static str,
    /// The end of the file names that imply it, without the first dot: `csv`, `summary.csv`.
    pub extension: &'static str,
    /// One line for `fsb list formats`.
    pub about: &'static str,
    /// Whether it is binary. Binary formats are not printed on a terminal.
    pub binary: bool,
    /// Whether it prints the answers of a gate: [`Report::with_checks`].
    pub checks: bool,
    /// Writes the whole text, piece by piece: a long run's table of trials is larger than what `fsb
    /// report` may hold in memory. The writer should be buffered.
    pub write: fn(&Report<'_>, &mut dyn Write) -> io::Result<()>,
}

impl Format {
    /// Returns the whole file.
    pub fn render_bytes(&self, report: &Report<'_>) -> Vec<u8> {
        let mut file = Vec::new();
        (self.write)(report, &mut file).expect("writing to a vector does not fail");
        file
    }

    /// Returns the whole text.
    ///
    /// # Panics
    ///
    /// If the format is binary.
    pub fn render(&self, report: &Report<'_>) -> String {
        String::from_utf8(self.render_bytes(report))
            .expect("formats that are not binary write text")
    }
}
