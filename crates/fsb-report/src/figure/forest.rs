//! The change of each target against the baseline, with its interval, case by case (a forest plot).

use fsb_model::Better;
use fsb_stats::{Interval, RandomEffects, quantile};

use super::plot::{Area, INK, MUTED, Plot, RADIUS, SMALL, Ticks};
use super::scene::{Anchor, Color, Item, Scene, color};
use crate::chart::axis::ratio_ticks;
use crate::fleet::{Fleet, FleetComparison, change, speed, speed_interval, summary_text};
use crate::show::{listed_or_counted, minus, percent};
use crate::view::{CellView, Row, View, brief_legend};

const BAND: Color = Color([0xe4, 0xe7, 0xea]);
/// With more columns than this, the changes have no room as text.
const IN_TEXT: usize = 2;

/// A ratio on the axis of changes, and its interval if it is judged.
pub(super) type Ratio = (f64, Option<Interval>);

fn ratio_of(view: &View<'_>, row: &Row<'_>, cell: &CellView) -> Option<Ratio> {
    let judged = cell.judged?;
    let (ratio, interval) = view.on_axis_of_changes(row, &judged);
    (ratio.is_finite() && ratio > 0.0).then(|| (ratio, judged.judged_interval().map(|_| interval)))
}

/// Returns whether any column is compared with the baseline.
pub(super) fn applies(view: &View<'_>) -> bool {
    let mut cells = view
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().skip(1).map(move |cell| (row, cell)));
    view.compares() && cells.any(|(row, cell)| ratio_of(view, row, cell).is_some())
}

/// Logarithms of ratios on the axis.
pub(crate) struct Scale {
    lo: f64,
    hi: f64,
    area: Area,
}

impl Scale {
    fn fit(view: &View<'_>, area: Area) -> Scale {
        let of_row = |row: &'_ Row<'_>| -> Vec<Ratio> {
            row.cells
                .iter()
                .skip(1)
                .filter_map(|cell| ratio_of(view, row, cell))
                .collect()
        };
        let found: Vec<Ratio> = view.rows.iter().flat_map(of_row).collect();
        Scale::around(&found, view.theta, area)
    }

    /// Returns a scale that contains all points. Ends of intervals extend it at most by the range
    /// of the points, or by the median length of an interval, so that one very wide interval does
    /// not compress the others.
    fn around(found: &[Ratio], theta: f64, area: Area) -> Scale {
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
        Scale {
            lo: lo - margin,
            hi: hi + margin,
            area,
        }
    }

    pub(super) fn x(&self, log: f64) -> f64 {
        let share = ((log - self.lo) / (self.hi - self.lo)).clamp(0.0, 1.0);
        self.area.left + share * (self.area.right - self.area.left)
    }

    pub(super) fn ticks(&self) -> Ticks {
        let (places, texts) = ratio_ticks(self.lo.exp(), self.hi.exp(), 9);
        let text = |text: String| {
            if text == "equal" {
                "0 %".to_owned()
            } else {
                text
            }
        };
        Ticks(
            places
                .into_iter()
                .map(|log| self.x(log))
                .zip(texts.into_iter().map(text))
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

pub(super) fn draw(view: &View<'_>) -> Scene {
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
    let scale = Scale::fit(view, area);
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

pub(super) fn point(
    plot: &mut Plot,
    scale: &Scale,
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
    let mut judged = view
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .filter_map(|cell| cell.judged);
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

// Forest plots of a fleet: all comparisons with their means, and the hosts of one comparison.

/// The height of a line with a label.
const LINE: f64 = 13.0;
/// Half the height of a diamond.
const DIAMOND: f64 = 4.0;
/// With more hosts than this, their names have no room.
const NAMED: usize = 60;
/// The height of the lines of more hosts.
const PAGE: f64 = 600.0;
/// Scales contain at least changes of this size.
const SMALLEST: f64 = 0.03;
/// The column whose color and marker a host and a mean have.
const HOST: usize = 0;
const MEAN: usize = 1;

const EXPLANATION: &str = "Diamonds: mean ratio of all hosts by a random-effects model (REML), with the 95 % interval of \
    Hartung, Knapp, Sidik and Jonkman; lines through them: 95 % prediction interval for the next host.";

/// Lays out the means of all comparisons.
pub(super) fn of_all_comparisons(fleet: &Fleet) -> Scene {
    let shown: Vec<(&FleetComparison, &RandomEffects)> = fleet
        .comparisons
        .iter()
        .filter_map(|one| Some((one, one.together.as_ref()?)))
        .collect();
    let several = shown.iter().any(|(one, _)| one.target != shown[0].0.target);
    let labels: Vec<String> = shown
        .iter()
        .map(|(one, _)| match several {
            true => format!("{}: {}", one.target, one.workload),
            false => one.workload.clone(),
        })
        .collect();
    let texts: Vec<String> = shown
        .iter()
        .map(|(one, mean)| change(mean.ratio, mean.interval, one.better))
        .collect();
    let area = Area::beside(
        labels.iter().map(String::as_str),
        texts.iter().map(String::as_str),
    );
    let points: Vec<Ratio> = shown
        .iter()
        .map(|(one, mean)| widest(mean, one.better))
        .collect();
    let scale = Scale::around(&points, SMALLEST, area);
    let target = shown
        .first()
        .filter(|_| !several)
        .map_or("targets", |(one, _)| one.target.as_str());
    let title = format!(
        "{target} against {}, {} hosts",
        fleet.baseline,
        fleet.hosts.len()
    );
    let mut plot = Plot::new(&title);
    let top = plot.cases(
        labels.iter().map(String::as_str),
        LINE,
        area,
        &scale.ticks(),
        &axis(fleet),
    );
    zero(&mut plot, &scale, top, shown.len() as f64 * LINE);
    for (place, (one, mean)) in shown.iter().enumerate() {
        let y = top + LINE * (place as f64 + 0.5);
        diamond(&mut plot, &scale, y, mean, one.better);
        plot.text(
            [area.right + 8.0, y + 2.4],
            SMALL,
            Anchor::Start,
            INK,
            texts[place].clone(),
        );
    }
    plot.paragraph(EXPLANATION);
    let sentences: Vec<&str> = shown.iter().map(|(one, _)| one.sentence.as_str()).collect();
    plot.end(title, sentences.join(" "))
}

/// Lays out the hosts of one comparison below their mean.
pub(super) fn of_hosts(fleet: &Fleet, comparison: &FleetComparison) -> Scene {
    let FleetComparison {
        hosts,
        better,
        together,
        ..
    } = comparison;
    let is_named = hosts.len() <= NAMED;
    let height = if is_named {
        LINE
    } else {
        PAGE / hosts.len() as f64
    };
    let labels: Vec<&str> = hosts
        .iter()
        .map(|host| if is_named { host.host.as_str() } else { "" })
        .collect();
    let texts: Vec<String> = match is_named {
        true => hosts
            .iter()
            .map(|host| change(host.ratio, Some(host.interval), *better))
            .collect(),
        false => Vec::new(),
    };
    let mean_text = together
        .as_ref()
        .map(|mean| change(mean.ratio, mean.interval, *better));
    let all_texts = texts.iter().chain(&mean_text).map(String::as_str);
    let area = Area::beside(
        labels.iter().copied().chain(["mean of all hosts"]),
        all_texts,
    );
    let ratio = |(ratio, interval): (f64, Interval)| {
        (
            speed(ratio, *better),
            Some(speed_interval(interval, *better)),
        )
    };
    let points: Vec<Ratio> = hosts
        .iter()
        .map(|host| ratio((host.ratio, host.interval)))
        .collect();
    let of_mean = together.iter().map(|mean| widest(mean, *better));
    let scale = Scale::around(
        &points.iter().copied().chain(of_mean).collect::<Vec<_>>(),
        SMALLEST,
        area,
    );
    let title = format!(
        "{} against {}: {}",
        comparison.target, fleet.baseline, comparison.workload
    );
    let mut plot = Plot::new(&title);
    if let Some(mean) = together {
        let top = plot.cases(
            ["mean of all hosts"].into_iter(),
            LINE,
            area,
            &scale.ticks(),
            "",
        );
        zero(&mut plot, &scale, top, LINE);
        diamond(&mut plot, &scale, top + LINE / 2.0, mean, *better);
        let text = mean_text.unwrap_or_default();
        plot.text(
            [area.right + 8.0, top + LINE / 2.0 + 2.4],
            SMALL,
            Anchor::Start,
            INK,
            text,
        );
    }
    let top = plot.cases(
        labels.iter().copied(),
        height,
        area,
        &scale.ticks(),
        &axis(fleet),
    );
    zero(&mut plot, &scale, top, height * hosts.len() as f64);
    for (place, ratio) in points.iter().enumerate() {
        let y = top + height * (place as f64 + 0.5);
        point(
            &mut plot,
            &scale,
            HOST,
            [y, (0.4 * height).min(2.6)],
            *ratio,
        );
        if let Some(text) = texts.get(place) {
            plot.text(
                [area.right + 8.0, y + 2.4],
                SMALL,
                Anchor::Start,
                INK,
                text.clone(),
            );
        }
    }
    plot.paragraph(&comparison.sentence);
    plot.paragraph(&format!(
        "Points: ratio of each host with its interval, the smallest first. {EXPLANATION}"
    ));
    let summary = together
        .as_ref()
        .map(|mean| summary_text(comparison, mean))
        .unwrap_or_default();
    plot.paragraph(&summary);
    plot.end(title, format!("{} {summary}", comparison.sentence))
}

fn axis(fleet: &Fleet) -> String {
    format!(
        "change of speed against {} (right is faster)",
        fleet.baseline
    )
}

/// Returns the mean with its prediction interval, or else its interval, as ratios of speed.
fn widest(mean: &RandomEffects, better: Better) -> Ratio {
    let interval = mean.prediction.or(mean.interval);
    (
        speed(mean.ratio, better),
        interval.map(|interval| speed_interval(interval, better)),
    )
}

/// Adds the line of equality.
fn zero(plot: &mut Plot, scale: &Scale, top: f64, height: f64) {
    plot.line(
        [scale.x(0.0), top],
        [scale.x(0.0), top + height],
        0.8,
        MUTED,
    );
}

/// Adds a mean with its interval and the prediction interval.
fn diamond(plot: &mut Plot, scale: &Scale, y: f64, mean: &RandomEffects, better: Better) {
    let ends = |interval: Interval| {
        let Interval { lo, hi } = speed_interval(interval, better);
        [scale.x(lo.ln()), scale.x(hi.ln())]
    };
    let x = scale.x(speed(mean.ratio, better).ln());
    if let Some([lo, hi]) = mean.prediction.map(ends) {
        plot.line([lo, y], [hi, y], 1.0, color(MEAN));
    }
    // A diamond that is narrower than a line would not be visible.
    let [lo, hi] = mean.interval.map_or([x, x], ends);
    let points = vec![
        [lo.min(x - 1.5), y],
        [x, y - DIAMOND],
        [hi.max(x + 1.5), y],
        [x, y + DIAMOND],
    ];
    plot.add(Item::Polygon {
        points,
        color: color(MEAN),
        outline: None,
    });
}
