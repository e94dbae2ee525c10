//! How numbers were made, paragraph by paragraph.

use serde::Serialize;

/// A step of the method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Paragraph {
    /// What it is about.
    pub title: &'static str,
    /// How it is done.
    pub text: String,
}
