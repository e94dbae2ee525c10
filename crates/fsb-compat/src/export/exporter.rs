//! The registry entry of a tool that plans can be exported to, and the exported files.

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

/// A plan in the format of another tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The files. Their names hold no directory.
    pub files: Vec<ExportFile>,
    /// The number of cases in the files.
    pub rows: usize,
    /// The labels of the cases that the tool cannot run, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFile {
    pub name: String,
    /// The content.
    pub text: String,
    /// The file is a script that the user runs.
    pub is_program: bool,
}
