//! The table of the first screen as a LaTeX `tabular`, for a paper. It needs no package.

use std::fmt::Write as _;

use super::member::Format;
use crate::report::Report;
use crate::show::minus;
use crate::view::{CellView, View};
use crate::{compare, visible};

pub(super) const FORMAT: Format = Format {
    name: "latex",
    extension: "tex",
    about: "the first screen's table as a LaTeX tabular for a paper",
    binary: false,
    checks: false,
    write: |report, output| output.write_all(render(report).as_bytes()),
};

/// Returns the tables, with the answer and the explanation of the signs as comments.
fn render(report: &Report<'_>) -> String {
    let readable = report.readable();
    let view = readable.view();
    let mut text = String::new();
    let comments = [view.title.clone(), view.headline(), view.facts.join(" · ")];
    let trust = view.trust.as_ref().map(|trust| trust.line.clone());
    let warnings = view.warnings[..view.urgent]
        .iter()
        .map(|warning| format!("warning: {warning}"));
    let warnings = warnings.chain(view.conditions.iter().cloned());
    let changes = view.titled_changes();
    let changes = changes
        .iter()
        .map(|(title, text)| format!("{title}: {text}"));
    let notes = view
        .explanation
        .iter()
        .cloned()
        .chain(view.unjudged.map(|why| format!("not judged: {why}")));
    comments
        .into_iter()
        .chain(notes)
        .chain(trust)
        .chain(warnings)
        .chain(changes)
        .for_each(|line| comment(&mut text, &line));
    let rows = view
        .rows
        .iter()
        .map(|row| (vec![row.label.clone()], row.cells.as_slice()));
    tabular(&mut text, &[view.words.row], &view.names, rows);
    for detail in compare::details(&view) {
        text.push('\n');
        comment(&mut text, &detail.title);
        let heads = detail.heads.as_ref().unwrap_or(&view.names);
        let labels: &[&str] = if detail.heads.is_some() {
            &[detail.varies, view.words.column]
        } else {
            &[detail.varies]
        };
        let rows = detail.lines.iter().map(|line| {
            (
                labels_of(&view, line.head.clone(), line.column),
                line.cells.as_slice(),
            )
        });
        tabular(&mut text, labels, heads, rows);
    }
    text
}

fn labels_of(view: &View<'_>, head: String, column: Option<usize>) -> Vec<String> {
    std::iter::once(head)
        .chain(column.map(|column| view.names[column].clone()))
        .collect()
}

/// Adds a comment, which ends with its line.
fn comment(text: &mut String, line: &str) {
    if !line.is_empty() {
        add(text, format_args!("% {}\n", visible::line(line)));
    }
}

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more)
        .expect("writing to a string does not fail");
}

/// Adds a table: columns of labels, then one column per target or set.
fn tabular<'c>(
    text: &mut String,
    labels: &[&str],
    heads: &[String],
    rows: impl Iterator<Item = (Vec<String>, &'c [CellView])>,
) {
    add(
        text,
        format_args!(
            "\\begin{{tabular}}{{{}{}}}\n\\hline\n",
            "l".repeat(labels.len()),
            "r".repeat(heads.len())
        ),
    );
    line(
        text,
        labels
            .iter()
            .map(|label| escape(label))
            .chain(heads.iter().map(|head| escape(head))),
    );
    text.push_str("\\hline\n");
    for (labels, cells) in rows {
        line(
            text,
            labels
                .iter()
                .map(|label| escape(label))
                .chain(cells.iter().map(shown)),
        );
    }
    text.push_str("\\hline\n\\end{tabular}\n");
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    add(
        text,
        format_args!("{} \\\\\n", cells.collect::<Vec<_>>().join(" & ")),
    );
}

/// Returns the change with its interval and mark, or the value with its interval, or the reason for
/// its absence.
fn shown(cell: &CellView) -> String {
    let text = match (&cell.judged, &cell.value, &cell.interval) {
        (Some(judged), ..) => judged.change().text(),
        (None, Some(value), Some([lo, hi])) => format!("{value} [{lo}, {hi}]"),
        (None, Some(value), None) => value.clone(),
        (None, None, _) => cell.absence.to_owned(),
    };
    let mark = if cell.mark.is_empty() {
        String::new()
    } else {
        format!(" {}", cell.mark)
    };
    escape(&minus(&format!("{text}{mark}")))
}

/// Returns text that LaTeX prints as it is. Signs that text fonts lack are set in mathematics.
fn escape(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 8);
    for letter in visible::line(text).chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => result.extend(['\\', letter]),
            '\\' => result.push_str("\\textbackslash{}"),
            '^' => result.push_str("\\textasciicircum{}"),
            '~' => result.push_str("\\textasciitilde{}"),
            '<' => result.push_str("$<$"),
            '>' => result.push_str("$>$"),
            '|' => result.push_str("\\textbar{}"),
            '"' => result.push_str("{\\char34}"),
            '−' => result.push_str("$-$"),
            '+' => result.push_str("$+$"),
            '×' => result.push_str("$\\times$"),
            '÷' => result.push_str("$\\div$"),
            '±' => result.push_str("$\\pm$"),
            '≥' => result.push_str("$\\ge$"),
            '≤' => result.push_str("$\\le$"),
            'µ' | 'μ' => result.push_str("$\\mu$"),
            '†' => result.push_str("$\\dagger$"),
            '·' => result.push_str("$\\cdot$"),
            '…' => result.push_str("\\dots{}"),
            '–' => result.push_str("--"),
            '\u{a0}' | '\u{202f}' => result.push('~'),
            // After the end of a line, LaTeX reads it as the argument of the line end.
            '[' | ']' => result.extend(['{', letter, '}']),
            _ => result.push(letter),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use fsb_model::{RunRecord, Trial};

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone, workloads};
    use crate::summary::Summary;
    use crate::summary::headline::samples;

    fn of_run((record, trials): &(RunRecord, Vec<Trial>)) -> String {
        render(&Report::of_run(&Summary::of_run(record, trials), trials))
    }

    /// Checks what LaTeX would stop at: braces and environments that do not match, characters with
    /// a meaning, lines of a table with another number of cells than it has columns.
    fn check(text: &str) {
        let mut columns = None;
        for line in text.lines().filter(|line| !line.starts_with('%')) {
            if let Some(begun) = line.strip_prefix("\\begin{tabular}{") {
                assert!(columns.is_none(), "nested: {line}");
                columns = Some(
                    begun
                        .trim_end_matches('}')
                        .chars()
                        .filter(|kind| "lr".contains(*kind))
                        .count(),
                );
                continue;
            }
            match line {
                "" => assert_eq!(columns, None, "an empty line in a table"),
                "\\hline" => assert!(columns.is_some()),
                "\\end{tabular}" => assert!(columns.take().is_some()),
                _ => check_line(line, columns.expect("text outside of a table")),
            }
        }
        assert_eq!(columns, None, "the table does not end");
    }

    fn check_line(line: &str, columns: usize) {
        let body = line
            .strip_suffix(" \\\\")
            .unwrap_or_else(|| panic!("no end: {line}"));
        let (mut cells, mut depth, mut in_mathematics) = (1, 0, false);
        let mut letters = body.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => {
                    let next = letters.next().expect("something after a backslash");
                    assert!(
                        next.is_ascii_alphabetic() || "&%$#_{}".contains(next),
                        "\\{next} in {line}"
                    );
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                '$' => in_mathematics = !in_mathematics,
                '&' => {
                    assert!(depth == 0 && !in_mathematics, "{line}");
                    cells += 1;
                }
                '%' | '#' | '_' | '^' | '"' => panic!("{letter} in {line}"),
                '<' | '>' => assert!(in_mathematics, "{line}"),
                _ => assert!(
                    letter.is_ascii() || letter.is_alphabetic(),
                    "{letter} in {line}"
                ),
            }
            assert!(depth >= 0, "{line}");
        }
        assert!(
            depth == 0 && !in_mathematics && cells == columns,
            "{cells} cells: {line}"
        );
    }

    #[test]
    fn a_table_of_three_targets() {
        let text = of_run(&sample::run(&["ext4", "xfs", "tmpfs"], 6));
        check(&text);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn every_table_can_be_typeset() {
        for run in [
            sample::run(&["ext4"], 6),
            sample::run(&["ext4", "xfs"], 2),
            sample::micro(&["ext4", "xfs"], 6),
            samples::emulated(&["reiserfs", "jfs"], 6),
            (sample::run(&["ext4", "xfs"], 5).0, Vec::new()),
            sample::run(&["a&b_c#d%e$f", "\\input{x}^~<>|{[", "\\end{tabular}"], 6),
        ] {
            check(&of_run(&run));
        }
        for document in [
            compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20)),
            compared(&workloads(&["ext4", "xfs", "btrfs"], 6)),
        ] {
            for detail in [None, Some("write")] {
                check(&render(&Report::of_comparison(&document, detail)));
            }
        }
    }

    #[test]
    fn names_are_printed_as_they_are() {
        assert_eq!(escape("a_b & 5 % {x}"), "a\\_b \\& 5 \\% \\{x\\}");
        assert_eq!(
            escape("\\^~"),
            "\\textbackslash{}\\textasciicircum{}\\textasciitilde{}"
        );
        assert_eq!(escape("\"a\nb"), "{\\char34}a\\textbackslash{}nb");
        assert_eq!(
            escape("+3 [+1 +5] ÷2 µs"),
            "$+$3 {[}$+$1 $+$5{]} $\\div$2 $\\mu$s"
        );
    }
}
