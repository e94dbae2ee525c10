//! The first screen as Markdown, to paste into an issue, a mail or a paper.

use super::member::Format;
use crate::report::Report;
use crate::run::published::{Published, PublishedLayout};
use crate::view::{CellView, Detail, View};
use crate::{compare, visible};

pub(super) const FORMAT: Format = Format {
    name: "markdown",
    extension: "md",
    about: "the first screen as a table to paste into an issue",
    binary: false,
    write: |report, output| output.write_all(render(report).as_bytes()),
};

/// The headline, the table, findings, what they rest on, warnings.
pub fn render(report: &Report<'_>) -> String {
    let readable = report.readable();
    let view = readable.view();
    let mut lines = Vec::new();
    let conditions: Vec<String> = view.conditions.iter().map(|condition| format!("warning: {condition}")).collect();
    list(&mut lines, conditions.iter().map(String::as_str));
    lines.extend([format!("**{}**", escape(&view.headline())), String::new()]);
    if !view.rows.is_empty() {
        let rows = view.rows.iter().map(|row| (escape(&row.label), row.cells.as_slice()));
        table(&mut lines, &[view.words.row], &view.names, rows);
    }
    if let Some(explanation) = &view.explanation {
        lines.extend([escape(explanation), String::new()]);
    }
    for shown in compare::view::details(&view) {
        detail(&mut lines, &view, &shown);
    }
    let findings = view.findings.iter().flatten().map(|finding| finding.text.as_str());
    list(&mut lines, findings);
    if let Some(published) = view.published.filter(|published| published.first) {
        lines.extend([escape(&published.title), String::new()]);
        match published.layout {
            PublishedLayout::Tests | PublishedLayout::Rates => tests(&mut lines, &view, published),
            PublishedLayout::Configurations => configurations(&mut lines, &view, published),
        }
        lines.push(String::new());
    }
    lines.extend([escape(&view.facts.join(" · ")), String::new()]);
    let warnings: Vec<String> = view.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    let trust = view.trust.as_ref().map(|trust| trust.line.as_str());
    let first = view.problems.iter().map(String::as_str).chain(trust).chain(view.advice);
    let notes = view.notes.iter().map(String::as_str);
    list(&mut lines, first.chain(warnings.iter().map(String::as_str)).chain(notes));
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// An item a text, and an empty line.
fn list<'t>(lines: &mut Vec<String>, texts: impl Iterator<Item = &'t str>) {
    let before = lines.len();
    lines.extend(texts.map(|text| format!("- {}", escape(text))));
    if lines.len() > before {
        lines.push(String::new());
    }
}

/// Heads of labels, then of columns; rows of a label, which is Markdown already, and cells.
fn table<'c>(
    lines: &mut Vec<String>,
    labels: &[&str],
    heads: &[String],
    rows: impl Iterator<Item = (String, &'c [CellView])>,
) {
    let words = labels.iter().map(|label| (*label).to_owned());
    lines.push(table_row(words.chain(heads.iter().map(|head| escape(head)))));
    let dashes = labels.iter().map(|_| "---").chain(heads.iter().map(|_| "---:"));
    lines.push(table_row(dashes.map(str::to_owned)));
    lines.extend(rows.map(|(label, cells)| table_row(std::iter::once(label).chain(cells.iter().map(shown)))));
    lines.push(String::new());
}

fn detail(lines: &mut Vec<String>, view: &View<'_>, detail: &Detail) {
    lines.extend([escape(&detail.title), String::new()]);
    let rows = detail.lines.iter().map(|line| {
        let set = line.column.map(|column| format!(" | {}", escape(&view.names[column])));
        (format!("{}{}", line.head, set.unwrap_or_default()), line.cells.as_slice())
    });
    match &detail.heads {
        Some(heads) => table(lines, &[detail.varies, view.words.column], heads, rows),
        None => table(lines, &[detail.varies], &view.names, rows),
    }
}

/// A row a test, a column a file system.
fn tests(lines: &mut Vec<String>, view: &View<'_>, published: &Published) {
    let here = view.names.iter().map(|name| format!("{}, here", escape(name)));
    let there = published.file_systems.iter().map(|name| format!("{}, published", escape(name)));
    lines.push(table_row(std::iter::once(String::new()).chain(here).chain(there)));
    let columns = view.names.len() + published.file_systems.len();
    lines.push(table_row(std::iter::once("---".to_owned()).chain((0..columns).map(|_| "---:".to_owned()))));
    for row in &published.rows {
        let ours = row.ours.iter().map(|value| row.show(*value));
        let theirs = (0..row.theirs.len()).map(|place| row.show_theirs(place));
        lines.push(table_row(std::iter::once(escape(&row.label())).chain(ours).chain(theirs)));
    }
}

/// A row a file system, a column a test.
fn configurations(lines: &mut Vec<String>, view: &View<'_>, published: &Published) {
    let names = published.rows.iter().map(|row| escape(&row.workload));
    lines.push(table_row(std::iter::once(String::new()).chain(names)));
    lines.push(table_row(std::iter::once("---".to_owned()).chain(published.rows.iter().map(|_| "---:".to_owned()))));
    let targets: Vec<&str> = view.names.iter().map(String::as_str).collect();
    for one in published.configurations(&targets) {
        let name = format!("{}, {}", escape(one.name), if one.published { "published" } else { "here" });
        lines.push(table_row(std::iter::once(name).chain(one.values)));
    }
}

/// Numbers, letters and words of ours, which need no escapes.
fn shown(cell: &CellView) -> String {
    let value = match (&cell.judged, &cell.value) {
        (Some(judged), _) => judged.change().text(),
        (None, Some(value)) => value.clone(),
        (None, None) => return cell.absence.to_owned(),
    };
    let mark = if cell.mark.is_empty() { String::new() } else { format!(" {}", cell.mark) };
    let verdict = cell.verdict().map(|verdict| format!(", {}", verdict.words())).unwrap_or_default();
    format!("{value}{mark}{verdict}")
}

fn table_row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests;

/// Text that is nothing but text: it breaks no table, and no name in it becomes a link, an image, a list or HTML. What
/// would hide is written out.
pub(crate) fn escape(text: &str) -> String {
    let text = visible::line(text);
    let text = text.trim_start();
    let mut result = String::with_capacity(text.len());
    // A number with a point behind it begins a list.
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    for (at, c) in text.char_indices() {
        let behind = &text[at + c.len_utf8()..];
        let acts = match c {
            '|' | '*' | '_' | '`' | '<' | '[' | ']' | '~' | '\\' => true,
            '&' => behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '#'),
            // Some readers make a link of a bare address.
            ':' => behind.starts_with("//"),
            '.' => text[..at].to_ascii_lowercase().ends_with("www") || at == digits && at > 0,
            '#' | '+' | '-' | '>' | '=' => at == 0,
            ')' => at == digits && at > 0,
            _ => false,
        };
        if acts {
            result.push('\\');
        }
        result.push(c);
    }
    result
}
