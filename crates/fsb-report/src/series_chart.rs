//! The chart of a series of runs in the order of time: an SVG element for a page with the style
//! sheet of reports.

use askama::Template;
use fsb_model::Unit;

use crate::axis::{self, ValueAxis};
use crate::palette::hue;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = HEIGHT - 34.0;
/// The largest number of dates below the axis.
const DATES: usize = 6;

/// A series of runs.
#[derive(Debug, Clone)]
pub struct SeriesChart {
    /// The name, for a screen reader.
    pub title: String,
    /// The findings in one sentence, for a screen reader.
    pub description: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The runs, in the order of time.
    pub points: Vec<ChartPoint>,
    /// The levels between changes.
    pub levels: Vec<ChartLevel>,
    /// The first and the last run at which each change may be, with 95 % confidence.
    pub changes: Vec<[usize; 2]>,
}

/// A run.
#[derive(Debug, Clone)]
pub struct ChartPoint {
    /// The date or the time, for the axis.
    pub date: String,
    /// The value.
    pub value: f64,
    /// The number of its environment, which chooses the colour.
    pub environment: usize,
    /// The address of the run.
    pub href: String,
    /// The text beside the pointer.
    pub text: String,
}

/// A level: runs between changes.
#[derive(Debug, Clone)]
pub struct ChartLevel {
    /// The first run.
    pub first: usize,
    /// The last run.
    pub last: usize,
    /// The mean.
    pub mean: f64,
    /// The ends of its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// The number of its environment.
    pub environment: usize,
}

/// The chart, laid out.
#[derive(Template)]
#[template(path = "series_chart.html")]
struct Drawing<'a> {
    series: &'a SeriesChart,
    unit: &'static str,
    ticks: Vec<(f64, String)>,
    dates: Vec<(f64, &'a str)>,
    bands: Vec<Rectangle>,
    levels: Vec<Line>,
    points: Vec<Dot<'a>>,
    breaks: Vec<f64>,
}

/// A place that a change may have (without a colour), or the interval of a level.
struct Rectangle {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    color: Option<usize>,
}

struct Line {
    left: f64,
    right: f64,
    y: f64,
    color: usize,
}

struct Dot<'a> {
    x: f64,
    y: f64,
    color: usize,
    point: &'a ChartPoint,
}

/// Draws a series. Returns an empty text for a series without a value.
pub fn svg(series: &SeriesChart) -> String {
    let mut values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    values.extend(
        series
            .levels
            .iter()
            .filter_map(|level| level.interval)
            .flatten(),
    );
    let unit = axis::unit(series.unit, values.iter().copied().fold(0.0, f64::max));
    values.iter_mut().for_each(|value| *value /= unit.divisor);
    let Some(axis) = ValueAxis::around(&values) else {
        return String::new();
    };
    let y = |value: f64| tenth(BOTTOM - axis.share(value / unit.divisor) * (BOTTOM - TOP));
    let step = (RIGHT - LEFT) / series.points.len() as f64;
    // The border before a run, and its middle.
    let border = |run: usize| tenth(LEFT + run as f64 * step);
    let x = |run: usize| tenth(LEFT + (run as f64 + 0.5) * step);
    let every = series.points.len().div_ceil(DATES).max(1);
    let dates = series.points.iter().enumerate().step_by(every);
    let changes = series.changes.iter().map(|[first, last]| Rectangle {
        left: x(first.saturating_sub(1)),
        top: TOP,
        width: tenth(x(*last) - x(first.saturating_sub(1))),
        height: BOTTOM - TOP,
        color: None,
    });
    let intervals = series.levels.iter().filter_map(|level| {
        let [lo, hi] = level.interval?;
        let (left, right) = (border(level.first), border(level.last + 1));
        let color = Some(hue(level.environment));
        Some(Rectangle {
            left,
            top: y(hi),
            width: tenth(right - left),
            height: tenth(y(lo) - y(hi)),
            color,
        })
    });
    let dots = series
        .points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.value > 0.0);
    let dots = dots.map(|(run, point)| Dot {
        x: x(run),
        y: y(point.value),
        color: hue(point.environment),
        point,
    });
    let pairs = series.points.windows(2).enumerate();
    let breaks = pairs.filter(|(_, two)| two[0].environment != two[1].environment);
    let drawing = Drawing {
        series,
        unit: unit.name,
        ticks: axis
            .ticks
            .iter()
            .map(|(value, text)| (y(value * unit.divisor), text.clone()))
            .collect(),
        dates: dates
            .map(|(run, point)| (x(run), point.date.as_str()))
            .collect(),
        bands: changes.chain(intervals).collect(),
        levels: series
            .levels
            .iter()
            .map(|level| Line {
                left: border(level.first),
                right: border(level.last + 1),
                y: y(level.mean),
                color: hue(level.environment),
            })
            .collect(),
        points: dots.collect(),
        breaks: breaks.map(|(run, _)| border(run + 1)).collect(),
    };
    drawing.render().expect("writing to a string does not fail")
}

/// Rounds a coordinate to a tenth of a pixel.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> SeriesChart {
        let point = |(run, value): (usize, &f64)| ChartPoint {
            date: format!("2026-01-{:02}", run + 1),
            value: *value,
            environment: usize::from(run > 2),
            href: format!("run/{run}"),
            text: "<b>".to_owned(),
        };
        SeriesChart {
            title: "write \"1M\" on <xfs>".to_owned(),
            description: "No change.".to_owned(),
            unit: Unit::BytesPerSecond,
            points: values.iter().enumerate().map(point).collect(),
            levels: vec![ChartLevel {
                first: 0,
                last: 2,
                mean: values[0],
                interval: Some([90e6, 110e6]),
                environment: 0,
            }],
            changes: vec![[1, 2]],
        }
    }

    #[test]
    fn every_run_level_and_change_is_drawn_and_names_are_escaped() {
        let drawn = svg(&series(&[100e6, 101e6, 99e6, 40e6]));
        assert_eq!(
            (
                drawn.matches("<circle").count(),
                drawn.matches("class=\"change\"").count()
            ),
            (4, 1),
            "{drawn}"
        );
        assert_eq!(
            (
                drawn.matches("class=\"level ").count(),
                drawn.matches("class=\"break\"").count()
            ),
            (1, 1)
        );
        assert!(
            drawn.contains("MiB/s") && !drawn.contains("<xfs>") && !drawn.contains("<b>"),
            "{drawn}"
        );
        assert!(
            !drawn.contains("NaN") && !drawn.contains("style="),
            "{drawn}"
        );
        let wide = svg(&series(&[1e6, 100e6, 1e9, 1e3]));
        assert!(
            wide.contains(">1000</text>") && !wide.contains("NaN"),
            "{wide}"
        );
        assert!(svg(&series(&[100e6])).contains("<circle"));
        let empty = SeriesChart {
            points: Vec::new(),
            levels: Vec::new(),
            changes: Vec::new(),
            ..series(&[1.0])
        };
        assert_eq!(svg(&empty), "");
    }
}
