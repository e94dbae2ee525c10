//! The change of each target against the baseline, with its interval, case by case (a forest plot).

use fsb_stats::{Interval, quantile};

use super::plot::{Area, INK, MUTED, Plot, RADIUS, SMALL, Ticks};
use super::scene::{Anchor, Color, Item, Scene, color};
use crate::axis::ratio_ticks;
use crate::show::{listed_or_counted, minus, percent};
use crate::view::{CellView, Row, View, brief_legend};

const BAND: Color = Color([0xe4, 0xe7, 0xea]);
/// With more columns than this, the changes have no room as text.
const IN_TEXT: usize = 2;

/// A ratio on the axis of changes, and its interval if it is judged.
pub(crate) type Ratio = (f64, Option<Interval>);

fn ratio_of(view: &View<'_>, row: &Row<'_>, cell: &CellView) -> Option<Ratio> {
    let judged = cell.judged?;
    let (ratio, interval) = view.on_axis_of_changes(row, &judged);
    (ratio.is_finite() && ratio > 0.0).then(|| (ratio, judged.judged_interval().map(|_| interval)))
}

/// Returns whether any column is compared with the baseline.
pub(crate) fn applies(view: &View<'_>) -> bool {
    let mut cells = view
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().skip(1).map(move |cell| (row, cell)));
    view.compares() && cells.any(|(row, cell)| ratio_of(view, row, cell).is_some())
}

/// Logarithms of ratios on the axis.
pub(crate) struct RatioScale {
    lo: f64,
    hi: f64,
    area: Area,
}

impl RatioScale {
    fn fit(view: &View<'_>, area: Area) -> RatioScale {
        let found: Vec<Ratio> = view
            .rows
            .iter()
            .flat_map(|row| -> Vec<Ratio> {
                row.cells
                    .iter()
                    .skip(1)
                    .filter_map(|cell| ratio_of(view, row, cell))
                    .collect()
            })
            .collect();
        RatioScale::around(&found, view.theta, area)
    }

    /// Returns a scale that contains all points. Ends of intervals extend it at most by the range
    /// of the points, or by the median length of an interval, so that one very wide interval does
    /// not compress the others.
    pub(crate) fn around(found: &[Ratio], theta: f64, area: Area) -> RatioScale {
        let theta = 1.5 * theta.ln_1p();
        let logs = found.iter().map(|(ratio, _)| ratio.ln());
        let (lo, hi) = logs.fold((-theta, theta), |(lo, hi), log| (lo.min(log), hi.max(log)));
        let ends = || found.iter().filter_map(|(_, interval)| *interval);
        let lengths = ends()
            .map(|end| end.hi.ln() - end.lo.ln())
            .filter(|length| length.is_finite());
        let median = quantile(&lengths.collect::<Vec<f64>>(), 0.5).unwrap_or_default();
        let beyond = (hi - lo).max(0.1).max(median);
        let (lo, hi) = ends().fold((lo, hi), |(least, most), end| {
            (
                least.min(end.lo.ln().max(lo - beyond)),
                most.max(end.hi.ln().min(hi + beyond)),
            )
        });
        let margin = 0.04 * (hi - lo);
        RatioScale {
            lo: lo - margin,
            hi: hi + margin,
            area,
        }
    }

    pub(crate) fn x(&self, log: f64) -> f64 {
        let share = ((log - self.lo) / (self.hi - self.lo)).clamp(0.0, 1.0);
        self.area.left + share * (self.area.right - self.area.left)
    }

    pub(crate) fn ticks(&self) -> Ticks {
        let (places, texts) = ratio_ticks(self.lo.exp(), self.hi.exp(), 9);
        Ticks(
            places
                .into_iter()
                .map(|log| self.x(log))
                .zip(texts.into_iter().map(|text| {
                    if text == "equal" {
                        "0 %".to_owned()
                    } else {
                        text
                    }
                }))
                .collect(),
        )
    }
}

/// Returns the change with its mark, as in the table.
fn change_text(cell: &CellView) -> String {
    let change = cell.judged.map(|judged| minus(&judged.change().text()));
    change
        .map(|change| format!("{change} {}", cell.mark).trim_end().to_owned())
        .unwrap_or_default()
}

/// Returns the distance between the points of a case. Many targets at many cases are closer
/// together, to fit a page.
fn pitch(rows: usize, others: usize) -> f64 {
    const PAGE: f64 = 620.0;
    match others {
        1 => 13.0,
        2 => 9.5,
        _ => (PAGE / (rows * others) as f64).clamp(4.5, 7.0),
    }
}

pub(crate) fn draw(view: &View<'_>) -> Scene {
    let others = view.names.len() - 1;
    let with_text = others <= IN_TEXT;
    let pitch = pitch(view.rows.len(), others);
    let height = (pitch * others as f64 + 3.0).max(14.0);
    let texts: Vec<Vec<String>> = view
        .rows
        .iter()
        .map(|row| {
            row.cells[1..]
                .iter()
                .filter(|_| with_text)
                .map(change_text)
                .collect()
        })
        .collect();
    let area = Area::beside(
        view.rows.iter().map(|row| row.label.as_str()),
        texts.iter().flatten().map(String::as_str),
    );
    let scale = RatioScale::fit(view, area);
    let compared = listed_or_counted(&view.names[1..], view.words.column);
    let mut plot = Plot::new(&format!("{compared} against {}", view.baseline()));
    plot.legend(&view.names, 1..view.names.len());
    let axis = view.axis_of_changes(view.baseline());
    let labels = view.rows.iter().map(|row| row.label.as_str());
    let top = plot.cases(labels, height, area, &scale.ticks(), &axis);
    let bottom = top + height * view.rows.len() as f64;
    let theta = view.theta.ln_1p();
    let (radius, size) = (RADIUS.min(0.42 * pitch), f64::min(6.0, pitch + 0.5));
    plot.add(Item::rectangle(
        [scale.x(-theta), top],
        [scale.x(theta), bottom],
        BAND,
    ));
    plot.line([scale.x(0.0), top], [scale.x(0.0), bottom], 0.8, MUTED);
    for (place, row) in view.rows.iter().enumerate() {
        let first = top + height * place as f64 + (height - pitch * others as f64) / 2.0;
        for (column, cell) in row.cells.iter().enumerate().skip(1) {
            let y = first + pitch * (column as f64 - 0.5);
            match ratio_of(view, row, cell) {
                Some(ratio) => point(&mut plot, &scale, column, [y, radius], ratio),
                None => {
                    let text = if cell.absence.is_empty() {
                        "not compared"
                    } else {
                        cell.absence
                    };
                    plot.text(
                        [area.left + 3.0, y + 0.35 * size],
                        size,
                        Anchor::Start,
                        color(column),
                        text.to_owned(),
                    );
                }
            }
            if let Some(text) = texts[place].get(column - 1) {
                let at = [area.right + 8.0, y + 2.4];
                plot.text(
                    at,
                    SMALL,
                    Anchor::Start,
                    if others == 1 { INK } else { color(column) },
                    text.clone(),
                );
            }
        }
    }
    plot.finish(view, &explanation(view))
}

pub(crate) fn point(
    plot: &mut Plot,
    scale: &RatioScale,
    column: usize,
    [y, radius]: [f64; 2],
    (ratio, interval): Ratio,
) {
    let color = color(column);
    if let Some(Interval { lo, hi }) = interval {
        plot.line([scale.x(lo.ln()), y], [scale.x(hi.ln()), y], 1.1, color);
        // An interval that goes beyond the axis ends in an arrow.
        let ends = [
            (lo.ln() < scale.lo, scale.area.left, 1.0),
            (hi.ln() > scale.hi, scale.area.right, -1.0),
        ];
        for (_, x, inwards) in ends.into_iter().filter(|(is_beyond, ..)| *is_beyond) {
            let points = vec![
                [x, y],
                [x + 4.0 * inwards, y - radius],
                [x + 4.0 * inwards, y + radius],
            ];
            plot.add(Item::Polygon {
                points,
                color,
                outline: None,
            });
        }
    }
    plot.marker(column, [scale.x(ratio.ln()), y], radius);
}

fn explanation(view: &View<'_>) -> String {
    let mut judged = view.cells().filter_map(|cell| cell.judged);
    let intervals = match judged.any(|judged| judged.judged_interval().is_some()) {
        true if view.names.len() > 2 => "lines: 95 % intervals of all pairs of a case together. ",
        true => "lines: 95 % intervals. ",
        false => "there are too few values for intervals. ",
    };
    let marks = brief_legend(&view.rows, view.theta)
        .map(|marks| format!(" {marks}"))
        .unwrap_or_default();
    format!(
        "Points: ratio of geometric means on a logarithmic scale; {intervals}Grey: ±{}, the smallest difference that \
         matters.{marks}",
        percent(view.theta)
    )
}
