//! A table to paste into an issue or a mail.

use fsb_analysis::Verdict;

use super::Format;
use crate::View;
use crate::show::{Change, percent};
use crate::view::{CellView, Published, PublishedLayout, Row};
use crate::visible;

pub(super) const FORMAT: Format = Format {
    name: "markdown",
    extension: "md",
    about: "the first screen as a table to paste into an issue",
    render: |view, _| render(view),
};

/// The headline, the table, what it rests on.
pub fn render(view: &View) -> String {
    let view = &view.shortened();
    let mut lines = vec![format!("**{}**", escape(&view.headline)), String::new()];
    let names = view.targets.iter().map(|target| escape(&target.name));
    lines.push(table_row(std::iter::once("workload".to_owned()).chain(names)));
    lines.push(table_row(std::iter::once("---".to_owned()).chain(view.targets.iter().map(|_| "---:".to_owned()))));
    for row in &view.rows {
        let cells = row.cells.iter().map(|cell| shown(view, row, cell));
        lines.push(table_row(std::iter::once(escape(&row.workload)).chain(cells)));
    }
    lines.push(String::new());
    let compared = view.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.against.is_some());
    if view.compares() && compared {
        let judged = if view.is_judged() {
            format!(", 95 % interval. Same letter: not told apart at {}; ? undecided.", percent(view.theta))
        } else {
            ".".to_owned()
        };
        lines.push(format!("Change against {}{judged}", escape(view.reference_name())));
        lines.push(String::new());
    }
    for finding in view.findings.iter().flatten() {
        lines.push(format!("- {}", escape(&finding.text)));
    }
    if view.findings.as_ref().is_some_and(|findings| !findings.is_empty()) {
        lines.push(String::new());
    }
    if let Some(published) = view.published.as_ref().filter(|published| published.first) {
        lines.push(escape(&published.title));
        lines.push(String::new());
        if published.layout == PublishedLayout::Configurations {
            configurations(&mut lines, view, published);
        } else {
            tests(&mut lines, view, published);
        }
        lines.push(String::new());
    }
    lines.push(escape(&view.facts.join(" · ")));
    let stopped = view.stopped.iter().map(|stopped| format!("ended after {stopped}"));
    let notes = stopped.chain(view.advice.iter().chain(&view.problems).cloned());
    let notes: Vec<String> = notes.chain(view.warnings.iter().map(|warning| format!("warning: {warning}"))).collect();
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes.iter().map(|note| format!("- {}", escape(note))));
    }
    lines.join("\n") + "\n"
}

/// A row a test, a column a file system.
fn tests(lines: &mut Vec<String>, view: &View, published: &Published) {
    let here = view.targets.iter().map(|target| format!("{}, here", escape(&target.name)));
    let there = published.file_systems.iter().map(|name| format!("{}, published", escape(name)));
    lines.push(table_row(std::iter::once(String::new()).chain(here).chain(there)));
    let columns = view.targets.len() + published.file_systems.len();
    lines.push(table_row(std::iter::once("---".to_owned()).chain((0..columns).map(|_| "---:".to_owned()))));
    for row in &published.rows {
        let values = row.ours.iter().chain(&row.theirs).map(|value| row.show(*value));
        lines.push(table_row(std::iter::once(escape(&row.workload)).chain(values)));
    }
}

/// A row a file system, a column a test.
fn configurations(lines: &mut Vec<String>, view: &View, published: &Published) {
    let names = published.rows.iter().map(|row| escape(&row.workload));
    lines.push(table_row(std::iter::once(String::new()).chain(names)));
    lines.push(table_row(std::iter::once("---".to_owned()).chain(published.rows.iter().map(|_| "---:".to_owned()))));
    let targets: Vec<&str> = view.targets.iter().map(|target| target.name.as_str()).collect();
    for one in published.configurations(&targets) {
        let name = format!("{}, {}", escape(one.name), if one.published { "published" } else { "here" });
        lines.push(table_row(std::iter::once(name).chain(one.values)));
    }
}

fn shown(view: &View, row: &Row, cell: &CellView) -> String {
    let Some(estimate) = &cell.estimate else { return cell.absence().unwrap_or_default().to_owned() };
    let value = match &cell.against {
        Some(comparison) => Change::of(comparison).text(),
        None => row.unit.show(estimate.value),
    };
    let verdict = match &cell.against {
        Some(comparison) if view.is_judged() && comparison.verdict != Verdict::NotJudged => {
            format!(", {}", comparison.verdict.words())
        }
        _ => String::new(),
    };
    let mark = if cell.mark.is_empty() { String::new() } else { format!(" {}", cell.mark) };
    format!("{value}{mark}{verdict}")
}

pub(crate) fn table_row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view::samples;

    #[test]
    fn a_table_for_an_issue() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 6);
        insta::assert_snapshot!(render(&View::of_run(&record, &trials)));
    }

    #[test]
    fn an_emulated_run_is_not_judged() {
        let (record, trials) = samples::emulated(&["reiserfs", "jfs"], 6);
        insta::assert_snapshot!(render(&View::of_run(&record, &trials)));
    }

    #[test]
    fn nothing_is_said_of_what_is_not_there() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 5);
        let text = render(&View::of_run(&record, &[]));
        assert!(!text.contains("Change against"), "{text}");
        // Of a target that no block reached nobody needs the list of all workloads.
        assert!(text.lines().any(|line| line.starts_with("- xfs: ") && !line.contains("write 1M")), "{text}");
        assert!(render(&View::of_run(&record, &trials)).contains("Change against ext4, 95 % interval."));
    }

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(escape("a|b*c_d<e\nf"), "a\\|b\\*c\\_d\\<e\\\\nf");
    }
}
