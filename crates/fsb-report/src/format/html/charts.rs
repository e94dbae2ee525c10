//! The charts of a run.

use fsb_analysis::{Comparison, Estimate};
use fsb_model::Better;
use plotly::common::{ErrorData, ErrorType, HoverInfo, Line, LineShape, Marker, MarkerSymbol, Mode, Title};
use plotly::layout::{Axis, AxisType, Shape, ShapeLayer, ShapeLine, ShapeType};
use plotly::{Layout, Scatter, Trace};

use crate::View;
use crate::page::axis::{ratio_ticks, second_ticks, unit};
use crate::page::chart::{Chart, brief, color, json, line, marker, plain};
use crate::show::Change;
use crate::view::{Quantile, Row};

/// The speed of a candidate over the baseline's: times upside down, so that right is faster everywhere.
fn speed(comparison: &Comparison, better: Better) -> Comparison {
    if better == Better::Higher { comparison.clone() } else { comparison.inverse() }
}

/// Ratios of all workloads against the reference: a dot and an interval each.
pub(super) fn ratios(view: &View) -> Option<Chart> {
    let others = view.targets.len().saturating_sub(1);
    let mut extremes = (0.9f64, 1.1f64);
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    for target in 1..view.targets.len() {
        let (mut x, mut y, mut up, mut down, mut texts) = (vec![], vec![], vec![], vec![], vec![]);
        for (index, row) in view.rows.iter().enumerate() {
            let Some(found) = &row.cells[target].against else { continue };
            let comparison = speed(found, row.better);
            let interval = comparison.interval.filter(|_| row.ranking.letters[target].is_some());
            let (lo, hi) = interval.map_or((comparison.ratio, comparison.ratio), |i| (i.lo, i.hi));
            extremes = (extremes.0.min(lo), extremes.1.max(hi));
            x.push(comparison.ratio.ln());
            up.push((hi / comparison.ratio).ln());
            down.push((comparison.ratio / lo).ln());
            let dodge = (target as f64 - (others as f64 + 1.0) / 2.0) * 0.66 / others as f64;
            y.push(index as f64 + dodge);
            texts.push(format!(
                "{}<br>{}: {}, {}",
                plain(&row.workload),
                plain(&view.targets[target].name),
                Change::of(found).text(),
                found.verdict.words()
            ));
        }
        if x.is_empty() {
            continue;
        }
        let bars = ErrorData::new(ErrorType::Data).array(up).array_minus(down).symmetric(false).width(0).thickness(2.0);
        traces.push(
            Scatter::new(x, y)
                .name(plain(&view.targets[target].name))
                .mode(Mode::Markers)
                .marker(marker(target, 9))
                .error_x(bars.color(color(target)))
                .hover_text_array(texts)
                .hover_info(HoverInfo::Text),
        );
    }
    if traces.is_empty() {
        return None;
    }
    // Wild intervals of noisy cells must not squeeze all others into a line; they run out of the picture instead.
    let (lo, hi) = (extremes.0.max(1e-3) * 0.97, extremes.1.min(1e3) * 1.03);
    let (places, texts) = ratio_ticks(lo, hi, 9);
    let reference = brief(view.reference_name(), view.targets.iter().map(|target| target.name.as_str()));
    let layout = Layout::new()
        .x_axis(
            Axis::new()
                .title(Title::with_text(format!("speed against {reference} (right is faster)")))
                .range(vec![lo.ln(), hi.ln()])
                .tick_values(places)
                .tick_text(texts)
                .zero_line(true),
        )
        .y_axis(
            Axis::new()
                .range(vec![view.rows.len() as f64 - 0.4, -0.6])
                .tick_values((0..view.rows.len()).map(|index| index as f64).collect())
                .tick_text(view.rows.iter().map(|row| plain(&row.workload)).collect::<Vec<_>>())
                .show_grid(false)
                .zero_line(false),
        )
        .shapes(vec![band(view.theta)]);
    Some(Chart {
        id: "ratios".to_owned(),
        height: 90 + view.rows.len() * (22 + 13 * others),
        label: format!("Speed of each target against {} at every workload, with intervals", view.reference_name()),
        caption: format!(
            "Speed against {}, with intervals. Right is faster, also where times were measured. The grey band is ±{}, \
             the smallest difference that matters here. The numbers are those of the table above.",
            view.reference_name(),
            crate::show::percent(view.theta)
        ),
        json: json(traces, layout),
    })
}

/// Where differences do not matter.
fn band(theta: f64) -> Shape {
    Shape::new()
        .shape_type(ShapeType::Rect)
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .y_ref("paper")
        .x0(-theta.ln_1p())
        .x1(theta.ln_1p())
        .y0(0.0)
        .y1(1.0)
        .fill_color("var(--band)")
        .line(ShapeLine::new().width(0.0))
}

/// One workload: estimates with their intervals at the left, every trial in run order at the right.
pub(super) fn trials(view: &View, row: &Row, index: usize) -> Option<Chart> {
    if view.unjudged.is_some() {
        // Targets side by side are a ranking, whatever stands beside them.
        return None;
    }
    let typical = row.cells.iter().filter_map(|cell| cell.estimate.as_ref()).map(|e| e.value).fold(0.0, f64::max);
    if typical == 0.0 {
        return None;
    }
    let axis_unit = unit(row.unit, typical);
    let mut traces = Vec::new();
    for (target, cell) in row.cells.iter().enumerate().filter(|(target, _)| view.targets[*target].unjudged.is_none()) {
        let Some(estimate) = &cell.estimate else { continue };
        traces.push(estimate_trace(view, row, target, estimate, axis_unit.divisor));
        traces.extend(run_order(view, row, target, axis_unit.divisor));
    }
    let last = f64::from(row.cells.iter().flat_map(|cell| &cell.trials).map(|point| point.block).max().unwrap_or(1));
    let shown = |target: &usize| row.cells[*target].estimate.is_some() && view.targets[*target].unjudged.is_none();
    let present: Vec<usize> = (0..row.cells.len()).filter(shown).collect();
    let layout = Layout::new()
        .x_axis(
            Axis::new()
                .domain(&[0.0, 0.24])
                .range(vec![-0.6, row.cells.len() as f64 - 0.4])
                .tick_values(present.iter().map(|target| *target as f64).collect())
                .tick_text(present.iter().map(|target| letter_of(row, *target)).collect::<Vec<_>>())
                .show_grid(false)
                .zero_line(false)
                .title(Title::with_text("estimate")),
        )
        .x_axis2(
            Axis::new()
                .domain(&[0.29, 1.0])
                .range(vec![0.4, last + 0.6])
                .title(Title::with_text("block"))
                .tick0(1.0)
                .dtick((last / 10.0).ceil())
                .show_grid(false)
                .zero_line(false),
        )
        .y_axis(Axis::new().title(Title::with_text(axis_unit.name)).zero_line(false));
    Some(Chart {
        id: format!("trials-{index}"),
        height: 300,
        label: format!("{}: estimates with intervals, and every trial in run order", row.workload),
        caption: "Left: estimates with their 95 % intervals and letters. Right: every trial, in run order within its \
                  block; a ring marks an outlier. The numbers are those of the tables below."
            .to_owned(),
        json: json(traces, layout),
    })
}

/// Under an estimate stands its letter, for the key above the chart names the target already.
fn letter_of(row: &Row, target: usize) -> String {
    let mark = &row.cells[target].mark;
    if mark.is_empty() { " ".to_owned() } else { mark.clone() }
}

fn estimate_trace(view: &View, row: &Row, target: usize, estimate: &Estimate, divisor: f64) -> Box<dyn Trace> {
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let (lo, hi) = interval.map_or((estimate.value, estimate.value), |i| (i.lo, i.hi));
    let text = match interval {
        Some(_) => format!("{} [{}, {}]", row.unit.show(estimate.value), row.unit.show(lo), row.unit.show(hi)),
        None => row.unit.show(estimate.value),
    };
    let bars = ErrorData::new(ErrorType::Data)
        .array(vec![(hi - estimate.value) / divisor])
        .array_minus(vec![(estimate.value - lo) / divisor])
        .symmetric(false)
        .width(0)
        .thickness(2.0);
    Scatter::new(vec![target as f64], vec![estimate.value / divisor])
        .name(plain(&view.targets[target].name))
        .mode(Mode::Markers)
        .marker(marker(target, 10))
        .error_y(bars.color(color(target)))
        .hover_text(format!("{}: {text}", plain(&view.targets[target].name)))
        .hover_info(HoverInfo::Text)
}

/// Trials of one target, and rings around its outliers.
fn run_order(view: &View, row: &Row, target: usize, divisor: f64) -> Vec<Box<dyn Trace>> {
    let cell = &row.cells[target];
    let name = plain(&view.targets[target].name);
    let place = |block: u32, order: u32| f64::from(block) + offset(row, block, order);
    let x: Vec<f64> = cell.trials.iter().map(|point| place(point.block, point.order)).collect();
    let y: Vec<f64> = cell.trials.iter().map(|point| point.value / divisor).collect();
    let texts: Vec<String> =
        cell.trials.iter().map(|p| format!("{name}, block {}: {}", p.block, row.unit.show(p.value))).collect();
    let outliers: Vec<usize> = (0..x.len()).filter(|index| cell.trials[*index].outlier).collect();
    let pick = |values: &[f64]| outliers.iter().map(|index| values[*index]).collect::<Vec<f64>>();
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    if !outliers.is_empty() {
        let ring =
            Marker::new().color(color(target)).symbol(MarkerSymbol::CircleOpen).size(15).line(Line::new().width(1.5));
        let rings = Scatter::new(pick(&x), pick(&y)).name("outlier").mode(Mode::Markers).marker(ring);
        traces.push(rings.x_axis("x2").hover_info(HoverInfo::Skip));
    }
    let points = Scatter::new(x, y)
        .name(name)
        .mode(Mode::LinesMarkers)
        .marker(marker(target, 7))
        .line(line(target, 0.6).shape(LineShape::Linear))
        .x_axis("x2")
        .hover_text_array(texts)
        .hover_info(HoverInfo::Text);
    traces.push(points);
    traces
}

/// Trials of a block stand beside each other in the order in which they were made.
fn offset(row: &Row, block: u32, order: u32) -> f64 {
    let orders = row.cells.iter().flat_map(|cell| &cell.trials).filter(|point| point.block == block);
    let (mut before, mut all) = (0.0, 0.0);
    for point in orders {
        all += 1.0;
        before += f64::from(u8::from(point.order < order));
    }
    (before - (all - 1.0) / 2.0) * 0.6 / f64::max(row.cells.len() as f64, 2.0)
}

/// How long an operation took: quantiles on a scale that stretches the slow end.
pub(super) fn latency(view: &View, row: &Row, index: usize, operation: &str) -> Option<Chart> {
    if view.unjudged.is_some() {
        return None;
    }
    let mut traces = Vec::new();
    let (mut far, mut lo, mut hi) = (0.0f64, f64::MAX, 0.0f64);
    for (target, cell) in row.cells.iter().enumerate().filter(|(target, _)| view.targets[*target].unjudged.is_none()) {
        let found = cell.latency.iter().find(|latency| latency.operation == operation);
        let Some(curve) = found.map(|latency| &latency.curve).filter(|curve| curve.len() > 2) else { continue };
        for point in curve {
            (far, lo, hi) = (far.max(stretched(point.q)), lo.min(point.seconds), hi.max(point.seconds));
        }
        traces.push(curve_trace(&view.targets[target].name, target, curve));
    }
    if traces.is_empty() {
        return None;
    }
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let quantiles: Vec<f64> = quantiles.into_iter().filter(|q| stretched(*q) <= far + 1e-9).collect();
    let (lo, hi) = (lo / 1.15, hi * 1.15);
    let (places, texts) = second_ticks(lo, hi);
    let layout = Layout::new()
        .x_axis(
            Axis::new()
                .tick_values(quantiles.iter().map(|q| stretched(*q)).collect())
                .tick_text(quantiles.iter().map(|q| crate::view::quantile_name(*q)).collect::<Vec<_>>())
                .title(Title::with_text("percentile of operations"))
                .zero_line(false),
        )
        .y_axis(
            Axis::new()
                .type_(AxisType::Log)
                .range(vec![lo.log10(), hi.log10()])
                .tick_values(places)
                .tick_text(texts)
                .zero_line(false),
        );
    Some(Chart {
        id: format!("latency-{index}-{operation}"),
        height: 260,
        label: format!("{}: latency of {operation} by percentile", row.workload),
        caption: format!("Latency of {operation} by percentile, all trials together; lower is better."),
        json: json(traces, layout),
    })
}

/// Equal steps for each nine more: 90 %, 99 %, 99.9 %.
fn stretched(q: f64) -> f64 {
    -(1.0 - q).log10()
}

fn curve_trace(name: &str, target: usize, curve: &[Quantile]) -> Box<dyn Trace> {
    let name = plain(name);
    let text = |point: &Quantile| {
        let seconds = fsb_model::units::show_seconds(point.seconds);
        format!("{name}, {}: {seconds}", crate::view::quantile_name(point.q))
    };
    let texts: Vec<String> = curve.iter().map(text).collect();
    let (x, y) = curve.iter().map(|point| (stretched(point.q), point.seconds)).unzip();
    Scatter::new(x, y)
        .name(name)
        .mode(Mode::LinesMarkers)
        .marker(marker(target, 5))
        .line(line(target, 1.8))
        .hover_text_array(texts)
        .hover_info(HoverInfo::Text)
}
