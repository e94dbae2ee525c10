//! The first screen as Markdown, to paste into an issue, a mail or a paper.

use super::member::Format;
use crate::report::Report;
use crate::summary::{Published, PublishedLayout};
use crate::view::{CellView, Detail, View};
use crate::{compare, visible};

pub(super) const FORMAT: Format = Format {
    name: "markdown",
    extension: "md",
    about: "the first screen as a table to paste into an issue",
    binary: false,
    checks: false,
    write: |report, output| output.write_all(render(report).as_bytes()),
};

/// Returns the changes of targets, the headline, the table, findings, their basis, and warnings.
pub fn render(report: &Report<'_>) -> String {
    let readable = report.readable();
    let view = readable.view();
    let mut lines = Vec::new();
    let first: Vec<String> = view
        .first_warnings()
        .map(|warning| format!("warning: {warning}"))
        .collect();
    list(&mut lines, first.iter().map(String::as_str));
    for found in &view.changes {
        lines.extend([format!("{}:", found.title), String::new()]);
        let texts: Vec<String> = found.texts().collect();
        list(&mut lines, texts.iter().map(String::as_str));
    }
    if !view.changes.is_empty() {
        lines.extend(["All sets:".to_owned(), String::new()]);
    }
    lines.extend([format!("**{}**", escape(&view.headline())), String::new()]);
    if !view.rows.is_empty() {
        let rows = view
            .rows
            .iter()
            .map(|row| (escape(&row.label), row.cells.as_slice()));
        table(&mut lines, &[view.words.row], &view.names, rows);
    }
    if let Some(explanation) = &view.explanation {
        lines.extend([escape(explanation), String::new()]);
    }
    for shown in compare::details(&view) {
        detail(&mut lines, &view, &shown);
    }
    let findings = view
        .findings
        .iter()
        .flatten()
        .map(|finding| finding.text.as_str());
    list(&mut lines, findings);
    if let Some(published) = view.published.filter(|published| published.first) {
        lines.extend([escape(&published.title), String::new()]);
        match published.layout {
            PublishedLayout::Tests | PublishedLayout::Rates => tests(&mut lines, &view, published),
            PublishedLayout::Configurations => configurations(&mut lines, &view, published),
        }
        lines.push(String::new());
    }
    for (group, rows) in view
        .claims
        .iter()
        .filter(|claims| claims.first)
        .flat_map(|claims| claims.groups())
    {
        let head = [escape(group), "here".to_owned(), "published".to_owned()];
        lines.push(table_row(head.into_iter()));
        lines.push(table_row(
            ["---", "---:", "---:"].map(str::to_owned).into_iter(),
        ));
        lines.extend(rows.iter().map(|claim| {
            table_row(
                [&claim.test, &claim.show_here(), &claim.published]
                    .map(|text| escape(text))
                    .into_iter(),
            )
        }));
        lines.push(String::new());
    }
    for sentence in view.orders.iter().copied().chain(view.withheld_claims) {
        lines.extend([escape(sentence), String::new()]);
    }
    lines.extend([escape(&view.facts.join(" · ")), String::new()]);
    let warnings: Vec<String> = view
        .later_warnings()
        .iter()
        .map(|warning| format!("warning: {warning}"))
        .collect();
    let trust = view.trust.as_ref().map(|trust| trust.line.as_str());
    let first = view
        .problems
        .iter()
        .map(String::as_str)
        .chain(trust)
        .chain(view.advice);
    let notes = view.notes.iter().map(String::as_str);
    list(
        &mut lines,
        first
            .chain(warnings.iter().map(String::as_str))
            .chain(notes),
    );
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
    lines.push(table_row(
        words.chain(heads.iter().map(|head| escape(head))),
    ));
    let dashes = labels
        .iter()
        .map(|_| "---")
        .chain(heads.iter().map(|_| "---:"));
    lines.push(table_row(dashes.map(str::to_owned)));
    lines.extend(
        rows.map(|(label, cells)| table_row(std::iter::once(label).chain(cells.iter().map(shown)))),
    );
    lines.push(String::new());
}

fn detail(lines: &mut Vec<String>, view: &View<'_>, detail: &Detail) {
    lines.extend([escape(&detail.title), String::new()]);
    let rows = detail.lines.iter().map(|line| {
        let set = line
            .column
            .map(|column| format!(" | {}", escape(&view.names[column])));
        (
            format!("{}{}", line.head, set.unwrap_or_default()),
            line.cells.as_slice(),
        )
    });
    match &detail.heads {
        Some(heads) => table(lines, &[detail.varies, view.words.column], heads, rows),
        None => table(lines, &[detail.varies], &view.names, rows),
    }
}

/// A row a test, a column a file system.
fn tests(lines: &mut Vec<String>, view: &View<'_>, published: &Published) {
    let here = view
        .names
        .iter()
        .map(|name| format!("{}, here", escape(name)));
    let there = published
        .file_systems
        .iter()
        .map(|name| format!("{}, published", escape(name)));
    lines.push(table_row(
        std::iter::once(String::new()).chain(here).chain(there),
    ));
    let columns = view.names.len() + published.file_systems.len();
    lines.push(table_row(
        std::iter::once("---".to_owned()).chain((0..columns).map(|_| "---:".to_owned())),
    ));
    for row in &published.rows {
        let ours = row.ours.iter().map(|value| row.show(*value));
        let theirs = (0..row.theirs.len()).map(|place| row.show_theirs(place));
        lines.push(table_row(
            std::iter::once(escape(&row.label()))
                .chain(ours)
                .chain(theirs),
        ));
    }
}

/// A row a file system, a column a test.
fn configurations(lines: &mut Vec<String>, view: &View<'_>, published: &Published) {
    let names = published.rows.iter().map(|row| escape(&row.workload));
    lines.push(table_row(std::iter::once(String::new()).chain(names)));
    lines.push(table_row(
        std::iter::once("---".to_owned()).chain(published.rows.iter().map(|_| "---:".to_owned())),
    ));
    let targets: Vec<&str> = view.names.iter().map(String::as_str).collect();
    for one in published.configurations(&targets) {
        let name = format!(
            "{}, {}",
            escape(one.name),
            if one.published { "published" } else { "here" }
        );
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
    let mark = if cell.mark.is_empty() {
        String::new()
    } else {
        format!(" {}", cell.mark)
    };
    let verdict = cell
        .verdict()
        .map(|verdict| format!(", {}", verdict.words()))
        .unwrap_or_default();
    format!("{value}{mark}{verdict}")
}

/// Returns a row of a table; its cells are Markdown already.
pub(crate) fn table_row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Text that is nothing but text: it breaks no table, and no name in it becomes a link, an image, a
/// list or HTML. What would hide is written out.
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
    use super::escape;

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(escape("a|b*c_d<e\nf"), "a\\|b\\*c\\_d\\<e\\\\nf");
    }

    mod comparison {
        use crate::format::markdown::render;
        use crate::report::Report;
        use crate::sample_sets::{compared, iozone};

        fn shown(sets: &[fsb_model::set::Set]) -> String {
            render(&Report::of_comparison(&compared(sets), None))
        }

        #[test]
        fn two_sets_for_an_issue() {
            insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 5, 4, 1 << 22)));
        }

        #[test]
        fn three_sets_for_a_paper() {
            insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4", "btrfs"], 6, 4, 1 << 22)));
        }

        #[test]
        fn single_runs() {
            insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 1, 4, 1 << 20)));
        }

        #[test]
        fn names_cannot_break_the_table() {
            let text = shown(&iozone(&["a|b", "*bold*<script>"], 5, 2, 1 << 20));
            assert!(
                text.contains("| operation | a\\|b | \\*bold\\*\\<script> |"),
                "{text}"
            );
        }
    }

    mod run {
        use fsb_model::{RunRecord, Trial};

        use crate::format::markdown::render;
        use crate::report::Report;
        use crate::sample;
        use crate::summary::Summary;
        use crate::summary::headline::samples;

        fn shown((record, trials): &(RunRecord, Vec<Trial>)) -> String {
            render(&Report::of_run(&Summary::of_run(record, trials), trials))
        }

        #[test]
        fn a_table_for_an_issue() {
            insta::assert_snapshot!(shown(&sample::run(&["ext4", "xfs", "tmpfs"], 6)));
        }

        #[test]
        fn an_emulated_run_is_not_judged() {
            insta::assert_snapshot!(shown(&samples::emulated(&["reiserfs", "jfs"], 6)));
        }

        #[test]
        fn nothing_is_said_of_what_is_not_there() {
            let (record, trials) = sample::run(&["ext4", "xfs"], 5);
            let text = shown(&(record.clone(), Vec::new()));
            assert!(!text.contains("Change against"), "{text}");
            // The line on a target that no block reached does not list all workloads.
            assert!(
                text.lines()
                    .any(|line| line.starts_with("- xfs: ") && !line.contains("write 1M")),
                "{text}"
            );
            assert!(
                shown(&(record, trials)).contains("Change against ext4, 95 % interval per row.")
            );
        }
    }
}
