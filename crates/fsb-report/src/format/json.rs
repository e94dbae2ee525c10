//! The view as JSON, for programs.

use serde::Serialize;

use super::Format;
use crate::View;

pub(super) const FORMAT: Format = Format {
    name: "json",
    extension: "json",
    about: "everything that the report shows, for programs (schema fsbench/report/1)",
    render: |view, _| render(view),
};

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/report/1";

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    #[serde(flatten)]
    view: &'a View,
}

/// The whole document.
pub fn render(view: &View) -> String {
    let report = Report { schema: SCHEMA, view };
    let mut text = serde_json::to_string_pretty(&report).expect("a view has only text keys and finite numbers");
    text.push('\n');
    text
}
