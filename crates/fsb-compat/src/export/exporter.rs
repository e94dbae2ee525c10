//! What the registry knows of a tool that plans can be written for.

use crate::export::request::Request;

/// A tool that plans can be written for.
pub struct Exporter {
    /// The tool, as on the command line.
    pub name: &'static str,
    /// One line for `fsb list exporters`.
    pub about: &'static str,
    /// Writes the plan.
    pub export: fn(&Request) -> Export,
}

/// A plan in another tool's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The files, with names that need no directory.
    pub files: Vec<ExportFile>,
    /// How many rows are in them.
    pub rows: usize,
    /// The labels of rows that the tool cannot do, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFile {
    pub name: String,
    /// What it holds.
    pub text: String,
    /// Somebody runs it.
    pub is_program: bool,
}
