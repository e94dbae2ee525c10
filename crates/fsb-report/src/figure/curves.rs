//! Curves of the columns over a common axis: rates over threads, latencies by percentile, and
//! trials in their order.

use fsb_stats::{Estimate, Interval};

use super::font::width;
use super::plot::{GRID, INK, MARGIN, MUTED, Plot, RADIUS, SMALL, TEXT, WIDTH};
use super::scene::{Anchor, Scene, color};
use crate::axis::{ValueAxis, second_ticks, unit};
use crate::summary::latency::{quantile_name, quantile_ticks, stretched};
use crate::summary::{By, Scaling};
use crate::view::{Row, View};

/// The height of the area of the curves.
const HEIGHT: f64 = 190.0;

/// The horizontal axis.
struct Across {
    lo: f64,
    hi: f64,
    ticks: Vec<(f64, String)>,
    title: &'static str,
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

/// Curves with their axes and words.
struct Curves<'a> {
    title: &'a str,
    x: Across,
    y: ValueAxis,
    y_title: &'a str,
    curves: Vec<Curve>,
    explanation: &'a str,
}

fn draw(view: &View<'_>, figure: &Curves<'_>) -> Scene {
    let (x, y) = (&figure.x, &figure.y);
    let mut plot = Plot::new(figure.title);
    if view.names.len() > 1 {
        plot.legend(&view.names, figure.curves.iter().map(|curve| curve.column));
    }
    // Text has one direction, so the title of the vertical axis is above it.
    plot.y += 10.0;
    let title = figure.y_title.to_owned();
    plot.text([MARGIN, plot.y], TEXT, Anchor::Start, INK, title);
    plot.y += 8.0;
    let mut widest = 0.0f64;
    for (_, text) in &y.ticks {
        widest = widest.max(width(text, SMALL));
    }
    let (left, right) = (MARGIN + widest + 6.0, WIDTH - MARGIN - 6.0);
    let (top, bottom) = (plot.y, plot.y + HEIGHT);
    let at = |place: f64, value: f64| {
        let share = ((place - x.lo) / (x.hi - x.lo)).clamp(0.0, 1.0);
        [
            left + share * (right - left),
            bottom - y.share(value) * (bottom - top),
        ]
    };
    for (value, text) in &y.ticks {
        let [_, line] = at(x.lo, *value);
        plot.line([left, line], [right, line], 0.5, GRID);
        let start = [left - 4.0 - width(text, SMALL), line + 2.4];
        plot.text(start, SMALL, Anchor::Start, MUTED, text.clone());
    }
    for (place, text) in &x.ticks {
        let [line, _] = at(*place, y.lo);
        plot.line([line, bottom], [line, bottom + 3.0], 0.6, MUTED);
        let below = [line, bottom + 10.0];
        plot.text(below, SMALL, Anchor::Middle, MUTED, text.clone());
    }
    plot.line([left, bottom], [right, bottom], 0.6, MUTED);
    let middle = [f64::midpoint(left, right), bottom + 21.0];
    plot.text(middle, TEXT, Anchor::Middle, INK, x.title.to_owned());
    for Curve { column, points } in &figure.curves {
        let color = color(*column);
        for pair in points.windows(2) {
            let [from, to] = [&pair[0], &pair[1]].map(|point| at(point.x, point.y));
            plot.line(from, to, 0.8, color);
        }
        for point in points {
            if let Some([lo, hi]) = point.ends {
                plot.line(at(point.x, lo), at(point.x, hi), 1.1, color);
            }
            plot.marker(*column, at(point.x, point.y), RADIUS);
        }
    }
    plot.y = bottom + 28.0;
    plot.finish(view, figure.explanation)
}

/// Draws rates over threads, requests under way or requested rates.
pub(super) fn scaling(view: &View<'_>, curve: &Scaling) -> Option<Scene> {
    let rows = view.cases_of(curve)?;
    let columns = view.names.len();
    let mut most = 0.0f64;
    for estimate in rows
        .iter()
        .flat_map(|row| &row.cells)
        .flat_map(|cell| &cell.estimate)
    {
        most = most.max(estimate.value);
    }
    let unit = unit(rows.first()?.unit, most);
    let mut curves = Vec::new();
    for column in 0..columns {
        // Intervals of several columns do not hide each other.
        let beside =
            (column as f64 - (columns as f64 - 1.0) / 2.0) * f64::min(0.08, 0.5 / columns as f64);
        let mut points = Vec::new();
        for (level, row) in rows.iter().enumerate() {
            if let Some(estimate) = row
                .cells
                .get(column)
                .and_then(|cell| cell.estimate.as_ref())
            {
                points.push(Point {
                    x: level as f64 + beside,
                    y: estimate.value / unit.divisor,
                    ends: ends(estimate).map(|ends| ends.map(|end| end / unit.divisor)),
                });
            }
        }
        if !points.is_empty() {
            curves.push(Curve { column, points });
        }
    }
    let levels = curve.levels.iter().enumerate();
    let what = if curve.by == By::Rate {
        ", 99th percentile"
    } else {
        ""
    };
    let by = curve.by.words();
    let figure = Curves {
        title: &curve.what,
        x: Across {
            lo: -0.5,
            hi: curve.levels.len() as f64 - 0.5,
            ticks: levels
                .map(|(place, level)| (place as f64, level.to_string()))
                .collect(),
            title: by,
        },
        y: ValueAxis::from_zero(&values(&curves))?,
        y_title: unit.name,
        explanation: &format!(
            "{}{what} by {by}. Vertical lines: 95 % intervals.",
            curve.what
        ),
        curves,
    };
    Some(draw(view, &figure))
}

fn ends(estimate: &Estimate) -> Option<[f64; 2]> {
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    interval.map(|Interval { lo, hi }| [lo, hi])
}

/// Returns the values of all points, and the ends of their intervals.
fn values(curves: &[Curve]) -> Vec<f64> {
    let mut values = Vec::new();
    for point in curves.iter().flat_map(|curve| &curve.points) {
        values.push(point.y);
        values.extend(point.ends.into_iter().flatten());
    }
    values
}

/// Draws the latencies of an operation by percentile. Each additional nine has the same width.
pub(super) fn latency(view: &View<'_>, row: &Row<'_>, operation: &str) -> Option<Scene> {
    let mut curves = Vec::new();
    let mut far = 0.0f64;
    for (column, cell) in row.workload()?.cells.iter().enumerate() {
        let mut points = Vec::new();
        for point in cell.latency_curve(operation) {
            if point.seconds > 0.0 {
                points.push(Point {
                    x: stretched(point.q),
                    y: point.seconds,
                    ends: None,
                });
            }
        }
        if points.len() > 2 {
            far = points.iter().fold(far, |far, point| far.max(point.x));
            curves.push(Curve { column, points });
        }
    }
    if curves.is_empty() {
        return None;
    }
    let figure = Curves {
        title: &row.label,
        x: Across {
            lo: 0.0,
            hi: far.max(0.5),
            ticks: quantile_ticks(far)
                .into_iter()
                .map(|q| (stretched(q), quantile_name(q)))
                .collect(),
            title: "percentile of operations",
        },
        y: ValueAxis::logarithmic(&values(&curves), second_ticks)?,
        y_title: &format!("latency of {operation}"),
        curves,
        explanation: "Latency by percentile, all trials together, on a logarithmic scale; lower is better.",
    };
    Some(draw(view, &figure))
}

/// Draws every trial of a case, block by block.
pub(super) fn trials(view: &View<'_>, row: &Row<'_>) -> Option<Scene> {
    let workload = row.workload().filter(|_| view.group_size == 1)?;
    let (mut last, mut most) = (1, 0.0f64);
    for trial in workload.cells.iter().flat_map(|cell| &cell.trials) {
        (last, most) = (last.max(trial.block), most.max(trial.value));
    }
    let unit = unit(workload.unit, most);
    let mut curves = Vec::new();
    for (column, cell) in workload.cells.iter().enumerate() {
        let points: Vec<Point> = cell
            .trials
            .iter()
            .map(|trial| Point {
                x: f64::from(trial.block),
                y: trial.value / unit.divisor,
                ends: None,
            })
            .collect();
        if !points.is_empty() {
            curves.push(Curve { column, points });
        }
    }
    let step = last.div_ceil(10).max(1);
    let figure = Curves {
        title: &row.label,
        x: Across {
            lo: 0.5,
            hi: f64::from(last) + 0.5,
            ticks: (1..=last)
                .step_by(step as usize)
                .map(|block| (f64::from(block), block.to_string()))
                .collect(),
            title: "block",
        },
        y: ValueAxis::from_zero(&values(&curves))?,
        y_title: unit.name,
        curves,
        explanation: "Every trial with a value, by block.",
    };
    Some(draw(view, &figure))
}
