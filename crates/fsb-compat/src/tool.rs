//! What the registry knows of a tool.

use std::io::BufRead;

use fsb_model::set::Run;

use crate::error::ReadError;

/// A tool whose results can be read.
pub struct Tool {
    /// Its name in lower case, as in [`Run::tool`].
    pub name: &'static str,
    /// One line of help: which versions and modes.
    pub about: &'static str,
    /// What [`Tool::recognise`] looks for, for the message when nobody finds anything.
    pub looks_for: &'static str,
    /// Whether a file that starts with these bytes (at most 64 KiB) is its output.
    pub recognise: fn(&[u8]) -> bool,
    /// Reads the results: one run for each execution that the input holds. Paths are left empty.
    ///
    /// # Errors
    /// An input without a single result is refused, with what was missing.
    pub read: fn(&mut dyn BufRead) -> Result<Vec<Run>, ReadError>,
}
