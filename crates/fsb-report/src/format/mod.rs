//! The formats that a view can be shown in. A new one is a file and a line in [`FORMATS`].

pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
pub mod terminal;

use fsb_model::Trial;

use crate::View;

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
    pub render: fn(&View, &[Trial]) -> String,
}

/// Every format.
pub static FORMATS: &[Format] = &[terminal::FORMAT, csv::FORMAT, json::FORMAT, markdown::FORMAT, html::FORMAT];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}
