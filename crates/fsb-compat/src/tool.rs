//! The registry entry of a tool.

use std::io::BufRead;

use fsb_model::set::Run;

use crate::error::ReadError;

/// A tool whose results can be read.
pub struct Tool {
    /// Its name in lower case, as in [`Run::tool`].
    pub name: &'static str,
    /// One line of help: which versions and modes.
    pub about: &'static str,
    /// The feature that [`Tool::recognise`] looks for, for the message if no tool recognizes the file.
    pub looks_for: &'static str,
    /// Whether a file that starts with these bytes (at most 64 KiB) is its output.
    pub recognise: fn(&[u8]) -> bool,
    /// Reads the results: one run for each execution that the input holds. Paths are left empty.
    ///
    /// # Errors
    /// Fails if the input has no result, and names the missing part.
    pub read: fn(&mut dyn BufRead) -> Result<Vec<Run>, ReadError>,
}
