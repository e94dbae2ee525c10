//! Heat map of the ratio on the grid of file size × record size.
//!
//! Colours show better and worse, not up and down, on a logarithmic scale around equality. People
//! with any colour vision can read them. Plotly cannot hatch a heat map, so a stroke marks every
//! uncertain cell.

use fsb_model::Better;
use fsb_stats::compare::{Cell, Colour, Operation};
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, short, size_axis};
use crate::axis::ratio_ticks;
use crate::escape::script_safe;
use crate::show::percent;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "heat",
    draw: Draw::Row(draw),
};

/// Limits of the end of the scale. Threefold is the highest, so that one extreme cell does not make
/// moderate ones look equal. A tenth is the lowest, so that noise does not look strong.
const ENDS: (f64, f64) = (1.1, 3.0);

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(found) = row.operation() else {
        return Vec::new();
    };
    let operation = found.operation;
    if operation.by_file_size.is_empty() || operation.cells.len() < 2 || view.names.len() < 2 {
        return Vec::new();
    }
    let plane = Plane::from_operation(operation);
    let end = plane
        .cells
        .iter()
        .flat_map(|at| at.cell.against.values())
        .map(|against| against.ratio.ln().abs());
    let end = end.fold(0.0, f64::max).clamp(ENDS.0.ln(), ENDS.1.ln());
    let names = view.names[1..].to_vec();
    let figures: Vec<Value> = names.iter().map(|name| plane.figure(name, end)).collect();
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 380,
        label: format!(
            "{}: speed of each candidate against {} by file size and record size",
            row.label,
            view.baseline()
        ),
        caption: format!(
            "Speed against {}, cell by cell: the ratio of geometric means. Hatched: not significantly different at a \
             false discovery rate of {}. Colours show where to look; the verdicts come from whole runs.",
            view.baseline(),
            percent(found.q)
        ),
        key: [
            ("better", "■", "better"),
            ("worse", "■", "worse"),
            ("muted", "╱", "uncertain"),
        ]
        .map(|(class, shape, text)| KeyEntry {
            class: class.to_owned(),
            shape,
            text: text.to_owned(),
        })
        .into(),
        choices: names,
        operation: None,
        json: script_safe(&figures),
    }]
}

/// The grid of one operation.
struct Plane<'a> {
    files: Vec<u64>,
    records: Vec<u64>,
    cells: Vec<At<'a>>,
    better: Better,
}

/// A cell and its place.
struct At<'a> {
    file: usize,
    record: usize,
    cell: &'a Cell,
}

impl<'a> Plane<'a> {
    fn from_operation(operation: &'a Operation) -> Plane<'a> {
        let files: Vec<u64> = operation
            .by_file_size
            .iter()
            .map(|slice| slice.bytes)
            .collect();
        let records: Vec<u64> = operation
            .by_record_size
            .iter()
            .map(|slice| slice.bytes)
            .collect();
        let cells = operation
            .cells
            .iter()
            .filter_map(|cell| {
                Some(At {
                    file: files.binary_search(&cell.file_size?).ok()?,
                    record: records.binary_search(&cell.record_size?).ok()?,
                    cell,
                })
            })
            .collect();
        Plane {
            files,
            records,
            cells,
            better: operation.better,
        }
    }

    fn figure(&self, candidate: &str, end: f64) -> Value {
        let blank = vec![vec![Value::Null; self.files.len()]; self.records.len()];
        let (mut z, mut changes) = (blank.clone(), blank);
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for At { file, record, cell } in &self.cells {
            let Some(against) = cell.against.get(candidate) else {
                continue;
            };
            let speed = if self.better == Better::Higher {
                against.ratio
            } else {
                1.0 / against.ratio
            };
            z[*record][*file] = short(speed.ln());
            changes[*record][*file] = short(against.ratio - 1.0);
            if against.colour == Colour::Uncertain {
                x.push(*file);
                y.push(*record);
            }
        }
        let (places, texts) = ratio_ticks((-end).exp(), end.exp(), 6);
        let heat = json!({
            "type": "heatmap", "z": z, "customdata": changes, "zmin": -end, "zmax": end, "xgap": 1, "ygap": 1,
            "colorscale": [[0, "var(--d0)"], [0.25, "var(--d1)"], [0.5, "var(--d2)"], [0.75, "var(--d3)"], [1, "var(--d4)"]],
            "hoverongaps": false, "hovertemplate": "%{x} file, %{y} records: %{customdata:+.1%}<extra></extra>",
            "colorbar": { "orientation": "h", "thickness": 9, "len": 0.9, "y": -0.2, "yanchor": "top", "outlinewidth": 0,
                          "tickvals": places, "ticktext": texts, "tickfont": { "size": 11 }, "tickangle": 0 },
        });
        let hatch = json!({
            "type": "scatter", "mode": "markers", "x": x, "y": y, "hoverinfo": "skip",
            "marker": { "symbol": "line-ne-open", "size": 10, "color": "var(--muted)", "line": { "width": 1.2 } },
        });
        let mut records = size_axis("record size", &self.records);
        records["showgrid"] = json!(false);
        let mut files = size_axis("file size", &self.files);
        files["showgrid"] = json!(false);
        json!({ "data": [heat, hatch], "layout": { "xaxis": files, "yaxis": records, "margin": { "b": 96 } } })
    }
}
