//! The first screen: the answer, the table, what it rests on.

use comfy_table::Color;
use fsb_analysis::{Outcome, Verdict};
use fsb_model::Better;

use super::Format;
use crate::View;
use crate::screen::{Column, Names, Part, WIDTH, paint, paragraph, tables};
use crate::show::{Change, counted, percent};
use crate::view::{CellView, Published, PublishedLayout, PublishedRow, Row};

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen: headline, table, warnings",
    render: |view, _| first_screen(view, false),
};

/// More findings than this are counted, not told.
const FINDINGS: usize = 7;

/// The first screen, with colours where `color` is true. Lines end without spaces; the last one with a newline.
pub fn first_screen(view: &View, color: bool) -> String {
    let view = &view.shortened();
    let mut lines = Vec::new();
    paragraph(&mut lines, WIDTH, &view.headline, "", "");
    let names = Names::of(view.targets.iter().map(|target| target.name.as_str()));
    let columns: Vec<Column> = (0..view.targets.len()).map(|target| column(view, target, &names)).collect();
    let labels: Vec<&str> = view.rows.iter().map(|row| row.workload.as_str()).collect();
    lines.extend(tables(&labels, &columns, WIDTH, color));
    for note in notes(view, &names) {
        paragraph(&mut lines, WIDTH, &note, "  ", "  ");
    }
    findings(&mut lines, view);
    published(&mut lines, view, &names, color);
    lines.push(String::new());
    paragraph(&mut lines, WIDTH, &view.facts.join(" · "), "", "  ");
    if let Some(stopped) = &view.stopped {
        paragraph(&mut lines, WIDTH, &format!("ended after {stopped}"), "", "  ");
    }
    for problem in &view.problems {
        paragraph(&mut lines, WIDTH, problem, "", "  ");
    }
    for warning in &view.warnings {
        paragraph(&mut lines, WIDTH, &format!("warning: {warning}"), "", "  ");
    }
    lines.join("\n") + "\n"
}

/// Ours, then theirs, where the run was made to stand beside them.
fn published(lines: &mut Vec<String>, view: &View, names: &Names, color: bool) {
    let Some(published) = view.published.as_ref().filter(|published| published.first) else { return };
    lines.push(String::new());
    paragraph(lines, WIDTH, &published.title, "", "");
    if published.layout == PublishedLayout::Configurations {
        return configurations(lines, view, published, color);
    }
    let labels: Vec<&str> = published.rows.iter().map(|row| row.workload.as_str()).collect();
    let column = |title: &str, values: &dyn Fn(&PublishedRow) -> Option<f64>| {
        let part = |row: &PublishedRow| Part::Value(row.show(values(row)), String::new());
        Column::new(title, published.rows.iter().map(|row| (part(row), None)).collect())
    };
    let ours: Vec<Column> =
        (0..view.targets.len()).map(|target| column(names.shown(target), &|row| row.ours[target])).collect();
    let theirs: Vec<Column> =
        published.file_systems.iter().enumerate().map(|(at, name)| column(name, &|row| row.theirs[at])).collect();
    lines.extend(tables(&labels, &ours, WIDTH, color));
    lines.push(String::new());
    lines.push("Published:".to_owned());
    lines.extend(tables(&labels, &theirs, WIDTH, color));
}

/// The same where rows are file systems: ours above theirs.
fn configurations(lines: &mut Vec<String>, view: &View, published: &Published, color: bool) {
    let targets: Vec<&str> = view.targets.iter().map(|target| target.name.as_str()).collect();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        published.configurations(&targets).into_iter().partition(|configuration| configuration.published);
    for (part, title) in [(ours, None), (theirs, Some("Published:"))] {
        if let Some(title) = title {
            lines.extend([String::new(), title.to_owned()]);
        }
        let labels: Vec<&str> = part.iter().map(|configuration| configuration.name).collect();
        let column = |at: usize, row: &PublishedRow| {
            let value = |values: &[String]| Part::Value(values[at].clone(), String::new());
            Column::new(&row.workload, part.iter().map(|one| (value(&one.values), None)).collect())
        };
        let columns: Vec<Column> = published.rows.iter().enumerate().map(|(at, row)| column(at, row)).collect();
        lines.extend(tables(&labels, &columns, WIDTH, color));
    }
}

/// The widest first; the rest is counted.
fn findings(lines: &mut Vec<String>, view: &View) {
    let Some(found) = &view.findings else { return };
    lines.push(String::new());
    if found.is_empty() {
        let text = format!("No region of sizes differs by more than {} for sure.", percent(view.theta));
        return paragraph(lines, WIDTH, &text, "", "");
    }
    for finding in found.iter().take(FINDINGS) {
        paragraph(lines, WIDTH, &finding.text, "- ", "  ");
    }
    if found.len() > FINDINGS {
        let more = counted(found.len() - FINDINGS, "more finding");
        paragraph(lines, WIDTH, &format!("and {more} in the report"), "  ", "  ");
    }
}

/// One target's column.
fn column(view: &View, target: usize, names: &Names) -> Column {
    let cells = view.rows.iter().map(|row| {
        let cell = &row.cells[target];
        (part(view, row, cell), color_of(cell))
    });
    Column::new(names.shown(target), cells.collect())
}

fn color_of(cell: &CellView) -> Option<Color> {
    cell.against.as_ref().and_then(|comparison| paint(comparison.verdict))
}

fn part(view: &View, row: &Row, cell: &CellView) -> Part {
    let Some(estimate) = &cell.estimate else {
        return Part::Words(cell.absence().unwrap_or_default().to_owned());
    };
    if let Some(comparison) = &cell.against {
        return Part::Change(Change::of(comparison), cell.mark.clone());
    }
    let value = row.unit.show(estimate.value);
    let alone = !view.is_comparison() && view.unjudged.is_none();
    let half = estimate.interval.filter(|_| alone && estimate.is_judged());
    match half {
        Some(interval) => {
            let half = interval.relative_half_width() * 100.0;
            let decimals = if half < 9.95 { 1 } else { 0 };
            Part::Value(format!("{value} ±{half:.decimals$} %"), String::new())
        }
        None => Part::Value(value, cell.mark.clone()),
    }
}

/// What the signs of the table mean, where they occur.
fn notes(view: &View, names: &Names) -> Vec<String> {
    let mut notes = names.legend();
    let compared = view.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.against.as_ref());
    let (mut any, mut judged) = (false, false);
    for comparison in compared {
        any = true;
        judged |= comparison.verdict != Verdict::NotJudged;
    }
    if any {
        let interval = if judged { ", 95 % interval" } else { "" };
        let letters = if view.is_judged() { " Same letter: not told apart." } else { "" };
        let less =
            if view.rows.iter().any(|row| row.better == Better::Lower) { " Of times, less is better." } else { "" };
        let reference = names.shown(view.reference);
        notes.push(format!("Change against {reference}{interval}.{letters}{less}"));
    } else if view.rows.iter().any(|row| row.ranking.outcome != Outcome::Nothing)
        && !view.is_comparison()
        && view.unjudged.is_none()
    {
        notes.push("Estimate and half-width of its 95 % interval.".to_owned());
    }
    notes.extend(view.advice.clone());
    notes
}

#[cfg(test)]
mod tests;
