//! The first screen: the answer, the table, the findings, what they rest on.

use fsb_analysis::Verdict;
use fsb_analysis::compare::Slice;
use fsb_model::units::Bytes;
use fsb_model::{Better, Unit};

use super::short::shortened;
use super::view::{CellView, View};
use super::{Format, Page};
use crate::screen::{Column, Names, Part, WIDTH, paint, paragraph, tables};
use crate::show::counted;

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen: headline, table, findings, warnings",
    render: |page| screen(page, WIDTH, false),
};

/// More findings than this are counted, not told.
const FINDINGS: usize = 10;

/// The first screen in `width` columns (80 at least), with colours where `color` is true. Lines end without spaces;
/// the last one with a newline.
pub fn screen(page: &Page<'_>, width: usize, color: bool) -> String {
    let (document, releases) = shortened(page.document);
    let mut view = View::of(&Page { document: &document, ..*page });
    releases.explain(&mut view.facts);
    let mut screen = Screen { width: width.max(WIDTH), color, lines: Vec::new() };
    screen.say(&view.headline, "", "");
    let names = Names::of(view.sets.iter().map(|set| set.name.as_str()));
    let labels: Vec<&str> = view.rows.iter().map(|row| row.label.as_str()).collect();
    let rows: Vec<(Unit, &[CellView<'_>])> =
        view.rows.iter().map(|row| (row.operation.unit, row.cells.as_slice())).collect();
    screen.table(&labels, &rows, &names);
    for note in notes(&view, &names) {
        screen.say(&note, "  ", "  ");
    }
    if page.detail.is_some() {
        details(&mut screen, &view, &names);
    }
    findings(&mut screen, &view);
    screen.lines.push(String::new());
    screen.say(&view.facts.join(" · "), "", "  ");
    for warning in &view.document.warnings {
        screen.say(&format!("warning: {warning}"), "", "  ");
    }
    screen.lines.join("\n") + "\n"
}

/// Lines as they come.
struct Screen {
    width: usize,
    color: bool,
    lines: Vec<String>,
}

impl Screen {
    fn say(&mut self, text: &str, first: &str, rest: &str) {
        paragraph(&mut self.lines, self.width, text, first, rest);
    }

    /// Labels down, sets across.
    fn table(&mut self, labels: &[&str], rows: &[(Unit, &[CellView<'_>])], names: &Names) {
        let sets = rows.first().map_or(0, |(_, cells)| cells.len());
        let column = |set: usize| {
            let cells = rows.iter().map(|(unit, cells)| {
                let cell = &cells[set];
                (part(*unit, cell), cell.judged.and_then(|judged| paint(judged.verdict)))
            });
            Column::new(names.shown(set), cells.collect())
        };
        let columns: Vec<Column> = (0..sets).map(column).collect();
        self.lines.extend(tables(labels, &columns, self.width, self.color));
    }
}

fn part(unit: Unit, cell: &CellView<'_>) -> Part {
    match (cell.judged, cell.pooled) {
        (Some(judged), _) => Part::Change(judged.change(), cell.mark.clone()),
        (None, Some(pooled)) => Part::Value(unit.show(pooled.geometric_mean), cell.mark.clone()),
        (None, None) => Part::Words("no values".to_owned()),
    }
}

/// What the signs of the table mean, where they occur, and what stands elsewhere.
fn notes(view: &View<'_>, names: &Names) -> Vec<String> {
    let mut notes = names.legend();
    if view.rows.is_empty() {
        return notes;
    }
    let mut note = "Geometric means.".to_owned();
    if view.is_comparison() {
        let judged = view.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.judged);
        let interval = match judged.clone().any(|judged| judged.verdict != Verdict::NotJudged) {
            true if view.sets.len() > 2 => ", 95 % interval of all pairs together",
            true => ", 95 % interval",
            false => "",
        };
        note = format!("Geometric mean of {0}, and change against {0}{interval}.", names.shown(0));
        if view.is_judged() {
            note += " Same letter: not told apart.";
        }
        if view.rows.iter().any(|row| row.operation.better == Better::Lower) {
            note += " Of times, less is better.";
        }
    }
    notes.push(note);
    if view.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.mark == "?") {
        notes.push(format!(
            "? undecided at {}: more runs narrow the interval",
            crate::show::percent(view.document.settings.theta)
        ));
    }
    if view.other_metrics() > 0 {
        notes.push(format!(
            "Latencies and other metrics ({}) stand in the other formats.",
            counted(view.other_metrics(), "row")
        ));
    }
    notes
}

/// One operation size by size.
fn details(screen: &mut Screen, view: &View<'_>, names: &Names) {
    for row in &view.rows {
        let operation = row.operation;
        for (what, slices) in [("file size", &operation.by_file_size), ("record size", &operation.by_record_size)] {
            if slices.is_empty() {
                continue;
            }
            screen.lines.push(String::new());
            screen.say(&format!("{}, by {what}:", row.label), "", "");
            let labels: Vec<String> = slices.iter().map(|slice| Bytes(slice.bytes).to_string()).collect();
            let cells: Vec<Vec<CellView<'_>>> = slices.iter().map(|slice: &Slice| view.slice_cells(slice)).collect();
            let rows: Vec<(Unit, &[CellView<'_>])> =
                cells.iter().map(|cells| (operation.unit, cells.as_slice())).collect();
            screen.table(&labels.iter().map(String::as_str).collect::<Vec<_>>(), &rows, names);
        }
    }
}

/// The widest first; the rest is counted.
fn findings(screen: &mut Screen, view: &View<'_>) {
    let Some(more) = (!view.findings.is_empty()).then(|| view.findings.len().saturating_sub(FINDINGS)) else { return };
    screen.lines.push(String::new());
    for found in view.findings.iter().take(FINDINGS) {
        screen.say(&found.text, "- ", "  ");
    }
    if more > 0 {
        screen.say(
            &format!("and {} in the formats markdown, html and json", counted(more, "more finding")),
            "  ",
            "  ",
        );
    }
}

#[cfg(test)]
mod tests;
