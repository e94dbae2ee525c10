//! Curves of the columns over a common axis: rates over threads, latencies by percentile, and
//! trials in their order.

use fsb_stats::Interval;

use super::bars::linear_step;
use super::font::width;
use super::plot::{GRID, INK, MARGIN, MUTED, Plot, RADIUS, SMALL, TEXT, WIDTH};
use super::scene::{Anchor, Scene, color};
use crate::axis::{second_ticks, unit, value_ticks};
use crate::summary::latency::quantile_name;
use crate::summary::{By, Scaling};
use crate::view::{Row, View};

/// The height of the area of the curves.
const HEIGHT: f64 = 190.0;

/// An axis from `lo` to `hi`. On a logarithmic axis these are logarithms, and so are the places of
/// the ticks.
struct Axis {
    lo: f64,
    hi: f64,
    ticks: Vec<(f64, String)>,
    title: String,
}

impl Axis {
    fn share(&self, place: f64) -> f64 {
        ((place - self.lo) / (self.hi - self.lo)).clamp(0.0, 1.0)
    }
}

/// A point, and the ends of its interval.
struct Point {
    x: f64,
    y: f64,
    ends: Option<[f64; 2]>,
}

/// The points of a column.
struct Curve {
    column: usize,
    points: Vec<Point>,
}

/// Returns the place of a value on an axis.
type Place = fn(f64) -> f64;

/// Returns a value axis for these values: from zero, or logarithmic if they differ by more than a
/// factor of 8. Returns it with the function that places a value.
fn value_axis(values: impl Iterator<Item = f64>, name: &str) -> Option<(Axis, Place)> {
    let (lo, hi) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if hi == 0.0 {
        return None;
    }
    let title = name.to_owned();
    if hi / lo > 8.0 {
        let (lo, hi) = (lo / 1.15, hi * 1.15);
        let (places, texts) = value_ticks(lo, hi);
        let ticks = places.into_iter().map(f64::ln).zip(texts).collect();
        return Some((
            Axis {
                lo: lo.ln(),
                hi: hi.ln(),
                ticks,
                title,
            },
            f64::ln as Place,
        ));
    }
    let (step, count) = linear_step(hi);
    Some((
        Axis {
            lo: 0.0,
            hi: step * count,
            ticks: (0..=count as usize)
                .map(|place| {
                    (
                        step * place as f64,
                        format!("{}", (step * place as f64 * 1e9).round() / 1e9),
                    )
                })
                .collect(),
            title,
        },
        |value| value,
    ))
}

fn draw(
    view: &View<'_>,
    title: &str,
    [x, y]: [&Axis; 2],
    curves: &[Curve],
    explanation: &str,
) -> Scene {
    let mut plot = Plot::new(title);
    if view.names.len() > 1 {
        plot.legend(&view.names, curves.iter().map(|curve| curve.column));
    }
    // Text has one direction, so the title of the vertical axis is above it.
    plot.y += 10.0;
    plot.text([MARGIN, plot.y], TEXT, Anchor::Start, INK, y.title.clone());
    plot.y += 8.0;
    let widest = y
        .ticks
        .iter()
        .map(|(_, text)| width(text, SMALL))
        .fold(0.0, f64::max);
    let (left, right) = (MARGIN + widest + 6.0, WIDTH - MARGIN - 6.0);
    let (top, bottom) = (plot.y, plot.y + HEIGHT);
    let at = |place: f64, height: f64| {
        [
            left + x.share(place) * (right - left),
            bottom - y.share(height) * (bottom - top),
        ]
    };
    for (place, text) in &y.ticks {
        let [_, line] = at(x.lo, *place);
        plot.line([left, line], [right, line], 0.5, GRID);
        let start = left - 4.0 - width(text, SMALL);
        plot.text(
            [start, line + 2.4],
            SMALL,
            Anchor::Start,
            MUTED,
            text.clone(),
        );
    }
    for (place, text) in &x.ticks {
        let [line, _] = at(*place, y.lo);
        plot.line([line, bottom], [line, bottom + 3.0], 0.6, MUTED);
        plot.text(
            [line, bottom + 10.0],
            SMALL,
            Anchor::Middle,
            MUTED,
            text.clone(),
        );
    }
    plot.line([left, bottom], [right, bottom], 0.6, MUTED);
    plot.text(
        [f64::midpoint(left, right), bottom + 21.0],
        TEXT,
        Anchor::Middle,
        INK,
        x.title.clone(),
    );
    for curve in curves {
        let color = color(curve.column);
        for pair in curve.points.windows(2) {
            plot.line(
                at(pair[0].x, pair[0].y),
                at(pair[1].x, pair[1].y),
                0.8,
                color,
            );
        }
        for point in &curve.points {
            if let Some([lo, hi]) = point.ends {
                plot.line(at(point.x, lo), at(point.x, hi), 1.1, color);
            }
            plot.marker(curve.column, at(point.x, point.y), RADIUS);
        }
    }
    plot.y = bottom + 28.0;
    plot.finish(view, explanation)
}

/// Draws rates over threads, requests under way or requested rates.
pub(super) fn scaling(view: &View<'_>, curve: &Scaling) -> Option<Scene> {
    let rows = view.cases_of(curve)?;
    let estimates = || {
        rows.iter()
            .flat_map(|row| &row.cells)
            .filter_map(|cell| cell.estimate.as_ref())
    };
    let most = estimates()
        .map(|estimate| estimate.value)
        .fold(0.0, f64::max);
    let unit = unit(rows.first()?.unit, most);
    let ends = |interval: Option<Interval>| interval.map(|Interval { lo, hi }| [lo, hi]);
    let judged =
        |estimate: &fsb_stats::Estimate| ends(estimate.interval.filter(|_| estimate.is_judged()));
    let all = estimates().flat_map(|estimate| {
        judged(estimate)
            .into_iter()
            .flatten()
            .chain([estimate.value])
    });
    let (y, place) = value_axis(all.map(|value| value / unit.divisor), unit.name)?;
    let levels = curve
        .levels
        .iter()
        .enumerate()
        .map(|(place, level)| (place as f64, level.to_string()));
    let end = curve.levels.len() as f64 - 0.5;
    let x = Axis {
        lo: -0.5,
        hi: end,
        ticks: levels.collect(),
        title: curve.by.words().to_owned(),
    };
    let columns = view.names.len();
    let of_column = |column: usize| {
        Curve {
            column,
            points: rows
                .iter()
                .enumerate()
                .filter_map(|(level, row)| {
                    let estimate = row.cells.get(column)?.estimate.as_ref()?;
                    let on_axis = |value: f64| place(value / unit.divisor);
                    // Intervals of several columns do not hide each other.
                    let beside = (column as f64 - (columns as f64 - 1.0) / 2.0)
                        * f64::min(0.08, 0.5 / columns as f64);
                    let ends = judged(estimate).map(|ends| ends.map(on_axis));
                    Some(Point {
                        x: level as f64 + beside,
                        y: on_axis(estimate.value),
                        ends,
                    })
                })
                .collect(),
        }
    };
    let curves: Vec<Curve> = (0..columns)
        .map(of_column)
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let what = if curve.by == By::Rate {
        ", 99th percentile"
    } else {
        ""
    };
    let explanation = format!(
        "{}{what} by {}. Vertical lines: 95 % intervals.",
        curve.what,
        curve.by.words()
    );
    Some(draw(view, &curve.what, [&x, &y], &curves, &explanation))
}

/// Draws the latencies of an operation by percentile. Each additional nine has the same width.
pub(super) fn latency(view: &View<'_>, row: &Row<'_>, operation: &str) -> Option<Scene> {
    let stretched = |q: f64| -(1.0 - q).log10();
    let cells = row.workload()?.cells.iter().enumerate();
    let curves: Vec<Curve> = cells
        .filter_map(|(column, cell)| {
            let found = cell
                .latency
                .iter()
                .find(|latency| latency.operation == operation)?;
            let points = found.curve.iter().filter(|point| point.seconds > 0.0);
            let points = points
                .map(|point| Point {
                    x: stretched(point.q),
                    y: point.seconds.ln(),
                    ends: None,
                })
                .collect();
            Some(Curve { column, points })
        })
        .filter(|curve| curve.points.len() > 2)
        .collect();
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let far = points().map(|point| point.x).fold(0.0, f64::max);
    let (lo, hi) = points().fold((f64::MAX, f64::MIN), |(lo, hi), point| {
        (lo.min(point.y), hi.max(point.y))
    });
    if curves.is_empty() {
        return None;
    }
    let (lo, hi) = (lo.exp() / 1.15, hi.exp() * 1.15);
    let (places, texts) = second_ticks(lo, hi);
    let title = format!("latency of {operation}");
    let y = Axis {
        lo: lo.ln(),
        hi: hi.ln(),
        ticks: places.into_iter().map(f64::ln).zip(texts).collect(),
        title,
    };
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
        .into_iter()
        .filter(|q| stretched(*q) <= far + 1e-9);
    let ticks = quantiles
        .map(|q| (stretched(q), quantile_name(q)))
        .collect();
    let x = Axis {
        lo: 0.0,
        hi: far.max(0.5),
        ticks,
        title: "percentile of operations".to_owned(),
    };
    let explanation =
        "Latency by percentile, all trials together, on a logarithmic scale; lower is better.";
    Some(draw(view, &row.label, [&x, &y], &curves, explanation))
}

/// Draws every trial of a case, block by block.
pub(super) fn trials(view: &View<'_>, row: &Row<'_>) -> Option<Scene> {
    let workload = row.workload().filter(|_| view.group_size == 1)?;
    let values = || workload.cells.iter().flat_map(|cell| &cell.trials);
    let unit = unit(
        workload.unit,
        values().map(|trial| trial.value).fold(0.0, f64::max),
    );
    let (y, place) = value_axis(values().map(|trial| trial.value / unit.divisor), unit.name)?;
    let last = values().map(|trial| trial.block).max().unwrap_or(1);
    let step = last.div_ceil(10).max(1);
    let ticks = (1..=last)
        .step_by(step as usize)
        .map(|block| (f64::from(block), block.to_string()))
        .collect();
    let x = Axis {
        lo: 0.5,
        hi: f64::from(last) + 0.5,
        ticks,
        title: "block".to_owned(),
    };
    let curves: Vec<Curve> = workload
        .cells
        .iter()
        .enumerate()
        .map(|(column, cell)| Curve {
            column,
            points: cell
                .trials
                .iter()
                .map(|trial| Point {
                    x: f64::from(trial.block),
                    y: place(trial.value / unit.divisor),
                    ends: None,
                })
                .collect(),
        })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    Some(draw(
        view,
        &row.label,
        [&x, &y],
        &curves,
        "Every trial with a value, by block.",
    ))
}
