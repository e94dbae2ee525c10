//! A flame graph of the difference in traced samples: time by class and function, coloured by the
//! difference to the baseline.

use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, plain, short};
use crate::axis::unit;
use crate::escape::script_safe;
use crate::summary::{TimeFrame, TracedExplanation, TracedWork};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "flame",
    draw: Draw::Row(draw),
};

/// The height of a row of frames, in pixels.
const ROW: usize = 18;

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let traced = view
        .traced
        .iter()
        .filter(|(_, found)| found.workload == row.label);
    let shown: Vec<(usize, &TracedExplanation, &TracedWork)> = traced
        .filter_map(|(column, found)| {
            Some((
                *column,
                *found,
                found.work.as_ref().filter(|work| !work.frames.is_empty())?,
            ))
        })
        .collect();
    let depths = shown
        .iter()
        .flat_map(|(.., work)| &work.frames)
        .map(|frame| frame.depth as usize + 1);
    let Some(depth) = depths.max() else {
        return Vec::new();
    };
    let figures: Vec<Value> = shown
        .iter()
        .map(|(_, found, work)| figure(found, &work.frames, depth))
        .collect();
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 70 + ROW * depth,
        label: format!(
            "{}: flame graph of the difference in time per operation, traced",
            row.label
        ),
        caption: format!(
            "Time per operation by class (the lowest row) and by function of the kernel: a function is above its caller. The \
             width is the mean of the target and {}; the colour shows which of them needs more. Functions with less than \
             half a percent of the time are left out.",
            view.baseline()
        ),
        key: [
            ("better", "■", "the target needs less time"),
            ("worse", "■", "the target needs more time"),
        ]
        .map(|(class, shape, text)| KeyEntry {
            class: class.to_owned(),
            shape,
            text: text.to_owned(),
        })
        .into(),
        choices: shown
            .iter()
            .map(|(column, ..)| view.charted(*column))
            .collect(),
        operation: None,
        json: script_safe(&figures),
    }]
}

/// Returns the place where each frame begins: after the ones beside it, above its caller.
fn begins(frames: &[TimeFrame]) -> Vec<f64> {
    // The end of the last frame of each depth, within the same caller.
    let mut ends = vec![0.0];
    frames
        .iter()
        .map(|frame| {
            let depth = frame.depth as usize;
            ends.truncate(depth + 1);
            let begin = ends[depth];
            ends[depth] += frame.seconds.mean();
            ends.push(begin);
            begin
        })
        .collect()
}

fn figure(found: &TracedExplanation, frames: &[TimeFrame], depth: usize) -> Value {
    let whole: f64 = frames
        .iter()
        .filter(|frame| frame.depth == 0)
        .map(|frame| frame.seconds.mean())
        .sum();
    let scale = unit(fsb_model::Unit::Seconds, whole);
    let show = |seconds: f64| short(seconds / scale.divisor);
    let values = |value: &dyn Fn(&TimeFrame) -> f64| {
        frames
            .iter()
            .map(|frame| show(value(frame)))
            .collect::<Vec<_>>()
    };
    let end = frames
        .iter()
        .map(|frame| frame.seconds.difference().abs())
        .fold(0.0, f64::max);
    // Colours show better and worse, not up and down.
    let colours = values(&|frame| -frame.seconds.difference());
    let texts: Vec<[Value; 3]> = frames
        .iter()
        .map(|frame| {
            [
                frame.seconds.baseline,
                frame.seconds.candidate,
                frame.seconds.difference(),
            ]
            .map(show)
        })
        .collect();
    let (baseline, candidate) = (plain(&found.baseline), plain(&found.candidate));
    let bars = json!({
        "type": "bar", "orientation": "h", "width": 0.94,
        "base": begins(frames).into_iter().map(show).collect::<Vec<_>>(), "x": values(&|frame| frame.seconds.mean()),
        "y": frames.iter().map(|frame| frame.depth).collect::<Vec<_>>(),
        "text": frames.iter().map(|frame| plain(&frame.name)).collect::<Vec<_>>(),
        "textposition": "inside", "insidetextanchor": "start", "textangle": 0, "constraintext": "inside",
        "insidetextfont": { "color": "var(--ink)", "size": 11 },
        "customdata": texts,
        "hovertemplate": format!(
            "%{{text}}<br>{candidate}: %{{customdata[1]}} {unit}<br>{baseline}: %{{customdata[0]}} {unit}<br>difference: \
             %{{customdata[2]}} {unit}<extra></extra>",
            unit = scale.name
        ),
        "marker": {
            "color": colours, "cmin": show(-end), "cmax": show(end),
            "colorscale": [[0, "var(--d1)"], [0.5, "var(--d2)"], [1, "var(--d3)"]],
            "line": { "color": "var(--rule)", "width": 0.5 },
        },
    });
    let layout = json!({
        "barmode": "overlay", "uniformtext": { "mode": "hide", "minsize": 10 },
        "xaxis": { "title": { "text": format!("{} per operation", scale.name) }, "range": [0, show(whole)], "zeroline": false },
        "yaxis": { "range": [-0.5, depth as f64 - 0.5], "showticklabels": false, "showgrid": false, "zeroline": false },
    });
    json!({ "data": [bars], "layout": layout })
}

#[cfg(test)]
mod tests {
    use crate::summary::PerOperation;

    use super::*;

    #[test]
    fn a_frame_begins_with_its_caller_or_after_its_neighbour() {
        let frame = |depth: u32, seconds: f64| TimeFrame {
            depth,
            name: String::new(),
            seconds: PerOperation {
                candidate: seconds,
                baseline: seconds,
            },
        };
        let frames = [
            frame(0, 5.0),
            frame(1, 2.0),
            frame(2, 1.0),
            frame(1, 3.0),
            frame(2, 2.0),
            frame(0, 1.0),
            frame(1, 1.0),
        ];
        assert_eq!(begins(&frames), [0.0, 0.0, 0.0, 2.0, 2.0, 5.0, 5.0]);
    }
}
