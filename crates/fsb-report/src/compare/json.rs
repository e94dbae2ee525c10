//! The comparison for programs: the contract `fsbench/comparison/1`.

use fsb_analysis::compare::Document;

use super::{Format, Page};

pub(super) const FORMAT: Format = Format {
    name: "json",
    extension: "json",
    about: "every statistic, finding and warning, for programs (schema fsbench/comparison/1)",
    render,
};

/// The whole document; of a page in detail, with that operation alone.
pub fn render(page: &Page<'_>) -> String {
    let mut text = match page.detail {
        None => pretty(page.document),
        Some(_) => pretty(&narrowed(page)),
    };
    text.push('\n');
    text
}

fn pretty(document: &Document) -> String {
    serde_json::to_string_pretty(document).expect("a document has only text keys and finite numbers")
}

fn narrowed(page: &Page<'_>) -> Document {
    let shown = |operation: &str, workload: Option<&str>| {
        page.operations().any(|other| other.operation == operation && other.workload.as_deref() == workload)
    };
    let findings = page.document.findings.iter();
    Document {
        operations: page.operations().cloned().collect(),
        findings: findings.filter(|found| shown(&found.operation, found.workload.as_deref())).cloned().collect(),
        ..page.document.clone()
    }
}
