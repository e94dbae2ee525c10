//! The answer, the table, findings and warnings, to paste into an issue or a paper.

use fsb_analysis::Verdict;

use super::short::shortened;
use super::view::{CellView, Row, View};
use super::{Format, Page};
use crate::format::markdown::{escape, table_row};
use crate::show::percent;

pub(super) const FORMAT: Format = Format {
    name: "markdown",
    extension: "md",
    about: "headline, table, findings and warnings to paste into an issue or a paper",
    render,
};

/// The whole text.
pub fn render(page: &Page<'_>) -> String {
    let (document, releases) = shortened(page.document);
    let mut view = View::of(&Page { document: &document, ..*page });
    releases.explain(&mut view.facts);
    let mut lines = vec![format!("**{}**", escape(&view.headline)), String::new()];
    if !view.rows.is_empty() {
        table(&mut lines, &view);
    }
    for (title, texts) in [
        ("Findings", view.findings.iter().map(|found| found.text.as_str()).collect::<Vec<_>>()),
        ("Warnings", view.document.warnings.iter().map(String::as_str).collect()),
    ] {
        if !texts.is_empty() {
            lines.extend([format!("{title}:"), String::new()]);
            lines.extend(texts.iter().map(|text| format!("- {}", escape(text))));
            lines.push(String::new());
        }
    }
    lines.push(escape(&view.facts.join(" · ")));
    lines.join("\n") + "\n"
}

fn table(lines: &mut Vec<String>, view: &View<'_>) {
    let names = view.sets.iter().map(|set| escape(&set.name));
    lines.push(table_row(std::iter::once("operation".to_owned()).chain(names)));
    lines.push(table_row(std::iter::once("---".to_owned()).chain(view.sets.iter().map(|_| "---:".to_owned()))));
    for row in &view.rows {
        let cells = row.cells.iter().map(|cell| shown(row, cell));
        lines.push(table_row(std::iter::once(escape(&row.label)).chain(cells)));
    }
    lines.push(String::new());
    if view.is_comparison() {
        let judged = if view.is_judged() {
            let level = if view.sets.len() > 2 { "95 % interval of all pairs together" } else { "95 % interval" };
            let theta = percent(view.document.settings.theta);
            format!(", {level}. Same letter: not told apart; ? undecided at {theta}.")
        } else {
            ".".to_owned()
        };
        let baseline = escape(view.baseline());
        lines.push(format!("Geometric mean of {baseline}, and change against {baseline}{judged}"));
        lines.push(String::new());
    }
}

fn shown(row: &Row<'_>, cell: &CellView<'_>) -> String {
    let mark = if cell.mark.is_empty() { String::new() } else { format!(" {}", cell.mark) };
    match (cell.judged, cell.pooled) {
        (Some(judged), _) => {
            let verdict = match judged.verdict {
                Verdict::NotJudged => String::new(),
                verdict => format!(", {}", verdict.words()),
            };
            format!("{}{mark}{verdict}", judged.change().text())
        }
        (None, Some(pooled)) => format!("{}{mark}", row.operation.unit.show(pooled.geometric_mean)),
        (None, None) => "no values".to_owned(),
    }
}

#[cfg(test)]
mod tests;
