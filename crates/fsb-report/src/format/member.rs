//! What a format is.

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
    /// Makes the whole text.
    pub render: fn(&Report<'_>) -> String,
}
