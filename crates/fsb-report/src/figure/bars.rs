//! The values of targets that are not compared, with their intervals, one panel per unit.

use fsb_model::Unit;
use fsb_stats::Interval;

use super::plot::{Area, INK, Plot, SMALL, Ticks};
use super::scene::{Anchor, Item, Scene, color};
use crate::axis::{AxisUnit, linear_step, unit};
use crate::view::{CellView, Row, RowData, View};

/// With more columns than this, the values have no room as text.
const IN_TEXT: usize = 2;

fn unit_of(row: &Row<'_>) -> Unit {
    match &row.data {
        RowData::Workload(workload) => workload.unit,
        RowData::Operation(found) => found.operation.unit,
    }
}

/// Returns the value of a column, and its interval if it has one.
fn value(row: &Row<'_>, column: usize) -> Option<(f64, Option<Interval>)> {
    match &row.data {
        RowData::Workload(workload) => {
            let estimate = workload.cells.get(column)?.estimate.as_ref()?;
            Some((
                estimate.value,
                estimate.interval.filter(|_| estimate.is_judged()),
            ))
        }
        RowData::Operation(found) => Some((found.sets.get(column)?.value?, None)),
    }
}

/// Returns the panels: cases with the same unit, in the order of the first of them.
fn panels<'v, 'a>(view: &'v View<'a>) -> Vec<(Unit, Vec<&'v Row<'a>>)> {
    let mut panels: Vec<(Unit, Vec<&Row<'a>>)> = Vec::new();
    for row in view
        .rows
        .iter()
        .filter(|row| (0..view.names.len()).any(|column| value(row, column).is_some()))
    {
        match panels.iter_mut().find(|(unit, _)| *unit == unit_of(row)) {
            Some((_, rows)) => rows.push(row),
            None => panels.push((unit_of(row), vec![row])),
        }
    }
    panels
}

pub(super) fn draw(view: &View<'_>) -> Scene {
    let mut plot = Plot::new(&view.title);
    if view.names.len() > 1 {
        plot.legend(&view.names, 0..view.names.len());
    }
    let panels = panels(view);
    let all = || panels.iter().flat_map(|(_, rows)| rows);
    let text = |row: &Row<'_>, column: usize| value_text(&row.cells[column]);
    let with_text = view.names.len() <= IN_TEXT;
    let texts: Vec<String> = match with_text {
        true => all()
            .flat_map(|row| (0..view.names.len()).map(|column| text(row, column)))
            .collect(),
        false => Vec::new(),
    };
    let area = Area::beside(
        all().map(|row| row.label.as_str()),
        texts.iter().map(String::as_str),
    );
    for (unit, rows) in &panels {
        panel(&mut plot, view, area, *unit, rows, |row, column| {
            with_text.then(|| text(row, column))
        });
    }
    if panels.is_empty() {
        plot.y += 14.0;
        plot.text(
            [super::plot::MARGIN, plot.y],
            super::plot::TEXT,
            Anchor::Start,
            INK,
            "no values".to_owned(),
        );
        plot.y += 8.0;
    }
    plot.finish(view, &explanation(view))
}

/// Returns `410 MiB/s [399 422]`, or the reason why the value is missing.
fn value_text(cell: &CellView) -> String {
    let Some(value) = &cell.value else {
        return cell.absence.to_owned();
    };
    let Some([lo, hi]) = &cell.interval else {
        return value.clone();
    };
    let unit = value.split_once(' ').map_or("", |(_, unit)| unit);
    let bare = |end: &str| {
        end.strip_suffix(unit)
            .map(|number| number.trim_end().to_owned())
    };
    match (bare(lo), bare(hi)) {
        (Some(lo), Some(hi)) => format!("{value} [{lo} {hi}]"),
        _ => format!("{value} [{lo} {hi}]"),
    }
}

fn panel(
    plot: &mut Plot,
    view: &View<'_>,
    area: Area,
    of: Unit,
    rows: &[&Row<'_>],
    text: impl Fn(&Row<'_>, usize) -> Option<String>,
) {
    let columns = view.names.len();
    let most = rows
        .iter()
        .flat_map(|row| (0..columns).filter_map(|column| value(row, column)));
    let most = most
        .map(|(value, interval)| interval.map_or(value, |interval| interval.hi.min(2.0 * value)));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let AxisUnit { divisor, name } = unit(of, most);
    let (step, count) = linear_step(most / divisor);
    let x = |value: f64| {
        area.left + (value / divisor / (step * count)).clamp(0.0, 1.0) * (area.right - area.left)
    };
    let ticks = Ticks(
        (0..=count as usize)
            .map(|place| {
                let at = step * place as f64;
                (x(at * divisor), format!("{}", (at * 1e9).round() / 1e9))
            })
            .collect(),
    );
    let pitch = if columns == 1 { 12.0 } else { 8.5 };
    let height = (pitch * columns as f64 + 4.0).max(15.0);
    let axis = match (name, of) {
        ("", _) => "value".to_owned(),
        (name, Unit::Seconds) => format!("{name} (less is better)"),
        (name, _) => name.to_owned(),
    };
    let top = plot.cases(
        rows.iter().map(|row| row.label.as_str()),
        height,
        area,
        &ticks,
        &axis,
    );
    for (place, row) in rows.iter().enumerate() {
        let first = top + height * place as f64 + (height - pitch * columns as f64) / 2.0;
        for column in 0..columns {
            let y = first + pitch * (column as f64 + 0.5);
            if let Some((value, interval)) = value(row, column) {
                let half = pitch * 0.36;
                plot.add(Item::rectangle(
                    [area.left, y - half],
                    [x(value), y + half],
                    color(column),
                ));
                if let Some(Interval { lo, hi }) = interval {
                    plot.line([x(lo), y], [x(hi), y], 1.0, INK);
                    [lo, hi].iter().for_each(|end| {
                        plot.line([x(*end), y - 2.0], [x(*end), y + 2.0], 1.0, INK)
                    });
                }
            }
            if let Some(text) = text(row, column) {
                plot.text([area.right + 8.0, y + 2.4], SMALL, Anchor::Start, INK, text);
            }
        }
    }
    plot.y += 4.0;
}

fn explanation(view: &View<'_>) -> String {
    let has_interval = view.cells().any(|cell| cell.interval.is_some());
    let intervals = if has_interval {
        "; lines: 95 % intervals"
    } else {
        ""
    };
    let why = view
        .unjudged
        .map(|why| format!(" Not judged: {why}."))
        .unwrap_or_default();
    format!("Bars: geometric means{intervals}.{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_intervals_have_the_unit_only_if_it_differs() {
        let cell = |interval: [&str; 2]| CellView {
            value: Some("998 KiB/s".to_owned()),
            interval: Some(interval.map(str::to_owned)),
            ..CellView::default()
        };
        assert_eq!(
            value_text(&cell(["990 KiB/s", "1003 KiB/s"])),
            "998 KiB/s [990 1003]"
        );
        assert_eq!(
            value_text(&cell(["990 KiB/s", "1.02 MiB/s"])),
            "998 KiB/s [990 KiB/s 1.02 MiB/s]"
        );
        assert_eq!(
            value_text(&CellView {
                absence: "failed",
                ..CellView::default()
            }),
            "failed"
        );
    }
}
