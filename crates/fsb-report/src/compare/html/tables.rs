//! The tables of a comparison that have a column a set.

use fsb_analysis::compare::{Operation, Pooled, PooledAgainst, SetSummary, Slice};
use fsb_analysis::{Method, Outcome, Verdict};
use fsb_model::Unit;
use fsb_model::units::Bytes;

use super::numbers::{Scale, p_value};
use crate::compare::view::{CellView, Row, View, t_word};
use crate::page::table::{Cell, Line, Table};
use crate::show::counted;

/// The answer: operations down, sets across.
pub(super) fn overview(view: &View<'_>) -> Table {
    let line = |(place, row): (usize, &Row<'_>)| Line {
        link: Some(format!("#operation-{place}")),
        ..line(row.label.clone(), cells(row.operation.unit, &row.cells, &row.outcome))
    };
    let caption = match (view.is_comparison(), view.is_judged()) {
        (false, _) => "Geometric means.".to_owned(),
        (true, false) => format!("Geometric means, and change against {}. Too few runs to judge.", view.baseline()),
        (true, true) => format!(
            "Geometric mean of {0}, and change against {0} with its 95 % interval{1} and verdict. Sets that share a \
             letter are not told apart; ? is undecided.",
            view.baseline(),
            if view.sets.len() > 2 { ", of all pairs together," } else { "" }
        ),
    };
    Table {
        caption,
        head: head(view, "Operation"),
        rows: view.rows.iter().enumerate().map(line).collect(),
        foot: None,
        head_targets: true,
    }
}

fn head(view: &View<'_>, first: &str) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(view.sets.iter().map(|set| set.name.clone())).collect()
}

fn line(head: String, cells: Vec<Cell>) -> Line {
    Line { head, target: None, link: None, cells }
}

fn cells(unit: Unit, cells: &[CellView<'_>], outcome: &Outcome) -> Vec<Cell> {
    let cell =
        |(set, cell): (usize, &CellView<'_>)| Cell { best: *outcome == Outcome::Winner(set), ..summary(unit, cell) };
    cells.iter().enumerate().map(cell).collect()
}

fn summary(unit: Unit, cell: &CellView<'_>) -> Cell {
    match (cell.judged, cell.pooled) {
        (Some(judged), _) => Cell::change(judged.change(), judged.verdict, &cell.mark),
        (None, Some(pooled)) => Cell {
            text: unit.show(pooled.geometric_mean),
            letter: cell.mark.clone(),
            class: "value",
            ..Cell::default()
        },
        (None, None) => Cell::absent("no values"),
    }
}

/// One operation, judged: sets down.
pub(super) fn judged(view: &View<'_>, row: &Row<'_>) -> Table {
    let mut head: Vec<String> = ["Set", "Geometric mean"].map(str::to_owned).into();
    if view.is_comparison() {
        head.extend([format!("Against {}", view.baseline()), "Runs".to_owned()]);
        if row.operation.grid.is_some() {
            head.extend(["Cells", "better", "worse", "the same", "uncertain"].map(str::to_owned));
        }
    }
    let rows = view.sets.iter().zip(&row.cells).enumerate().map(|(set, (summary, cell))| Line {
        target: Some(set),
        ..line(summary.name.clone(), of_set(view, row, summary, cell))
    });
    Table {
        caption: match view.is_comparison() {
            true => {
                "Judged on runs. Runs: those on the smaller side, or blocks in common, and the method. The counts of \
                 cells describe, they judge nothing."
            }
            false => "Geometric means.",
        }
        .to_owned(),
        rows: rows.collect(),
        head,
        foot: None,
        head_targets: false,
    }
}

fn of_set(view: &View<'_>, row: &Row<'_>, set: &SetSummary, cell: &CellView<'_>) -> Vec<Cell> {
    let value =
        cell.pooled.map_or_else(|| "no values".to_owned(), |pooled| row.operation.unit.show(pooled.geometric_mean));
    let mut cells = vec![Cell { text: value, letter: cell.mark.clone(), class: "value", ..Cell::default() }];
    if !view.is_comparison() {
        return cells;
    }
    let dash = || Cell::of("–");
    cells.push(cell.judged.map_or_else(dash, |judged| Cell::change(judged.change(), judged.verdict, "")));
    let estimate = row.operation.estimate.against.get(&set.name).and_then(Option::as_ref);
    cells.push(estimate.map_or_else(dash, |found| Cell {
        text: found.n.to_string(),
        small: if found.method == Method::Paired { "blocks, paired" } else { "Welch" }.to_owned(),
        ..Cell::default()
    }));
    if row.operation.grid.is_some() {
        let counts = cell.grid.map(|grid| [grid.cells, grid.faster, grid.slower, grid.same, grid.uncertain]);
        cells.extend((0..5).map(|count| counts.map_or_else(dash, |counts| Cell::of(counts[count].to_string()))));
    }
    cells
}

/// More than two sets: each against each.
pub(super) fn pairs(view: &View<'_>, row: &Row<'_>) -> Option<Table> {
    if view.sets.len() < 3 || row.operation.ranking.pairs.is_empty() {
        return None;
    }
    let pair = |candidate: usize, baseline: usize| {
        if candidate == baseline {
            return Cell::of("–");
        }
        verdict(row.operation.ranking.verdict(row.places[baseline], row.places[candidate]))
    };
    let rows = (0..view.sets.len()).map(|candidate| Line {
        target: Some(candidate),
        ..line(
            view.sets[candidate].name.clone(),
            (0..view.sets.len()).map(|baseline| pair(candidate, baseline)).collect(),
        )
    });
    Some(Table {
        caption: "Each row against each column; all pairs stand together at 95 %.".to_owned(),
        rows: rows.collect(),
        head: head(view, "Set"),
        foot: None,
        head_targets: true,
    })
}

fn verdict(verdict: Verdict) -> Cell {
    let (class, sign) = match verdict {
        verdict if verdict.is_better() => ("better", "▲ "),
        verdict if verdict.is_worse() => ("worse", "▼ "),
        _ => ("", ""),
    };
    Cell { class, ..Cell::of(format!("{sign}{}", verdict.words())) }
}

/// One size a line, judged: sets across.
pub(super) fn sizes(view: &View<'_>, row: &Row<'_>, slices: &[Slice], what: &str) -> Option<Table> {
    let rows = slices.iter().map(|slice| {
        line(Bytes(slice.bytes).to_string(), cells(row.operation.unit, &view.slice_cells(slice), &Outcome::Nothing))
    });
    (slices.len() > 1).then(|| Table {
        caption: match view.is_comparison() {
            true => {
                format!("By {what}, judged on runs: geometric mean of {0}, and change against {0}", view.baseline())
            }
            false => format!("By {what}: geometric means"),
        },
        head: head(view, &capitalised(what)),
        rows: rows.collect(),
        foot: None,
        head_targets: true,
    })
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().collect::<String>() + characters.as_str()).unwrap_or_default()
}

/// The other metrics of an operation: metrics down, sets across.
pub(super) fn others(view: &View<'_>, row: &Row<'_>) -> Option<Table> {
    let rows: Vec<Line> = row.others.iter().map(|operation| other(view, operation)).collect();
    (!rows.is_empty()).then(|| Table {
        caption: match view.is_comparison() {
            true => format!(
                "Other metrics: geometric mean of {0}, and change against {0}. Of times, less is better.",
                view.baseline()
            ),
            false => "Other metrics: geometric means.".to_owned(),
        },
        head: head(view, "Metric"),
        rows,
        foot: None,
        head_targets: true,
    })
}

fn other(view: &View<'_>, operation: &Operation) -> Line {
    let cells = view.sets.iter().map(|set| summary(operation.unit, &CellView::of_operation(operation, &set.name)));
    line(operation.metric.replace('_', " "), cells.collect())
}

/// Quantiles of latencies: sets down.
pub(super) fn latencies(view: &View<'_>, row: &Row<'_>) -> Option<Table> {
    let of_set = |set: &SetSummary| row.operation.latencies.get(&set.name).map(Vec::as_slice).unwrap_or_default();
    let mut quantiles: Vec<f64> = view.sets.iter().flat_map(|set| of_set(set).iter().map(|found| found.q)).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup();
    let rows = view.sets.iter().enumerate().map(|(place, set)| {
        let at = |q: &f64| of_set(set).iter().find(|found| found.q == *q);
        let cell = |q: &f64| at(q).map_or_else(|| Cell::of("–"), |found| Cell::of(Unit::Seconds.show(found.seconds)));
        Line { target: Some(place), ..line(set.name.clone(), quantiles.iter().map(cell).collect()) }
    });
    let names = quantiles.iter().map(|q| crate::view::quantile_name(*q));
    (!quantiles.is_empty()).then(|| Table {
        caption: "Latencies of all runs together; – where fewer than 100 operations lie beyond".to_owned(),
        head: std::iter::once("Set".to_owned()).chain(names).collect(),
        rows: rows.collect(),
        foot: None,
        head_targets: false,
    })
}

/// The statistics of 2011 for the whole operation: statistics down, sets across.
pub(super) fn classic(view: &View<'_>, row: &Row<'_>) -> Table {
    let scale = Scale::of([row.operation]);
    let mut rows: Vec<Line> = POOLED
        .iter()
        .map(|(name, of)| line((*name).to_owned(), of_each(row, |cell| Some(of(cell.pooled?, scale)))))
        .collect();
    if view.is_comparison() {
        let against = AGAINST.iter().map(|(name, of)| {
            line(format!("{name} {}", view.baseline()), of_each(row, |cell| Some(of(cell.classic?))))
        });
        rows.extend(against);
    }
    Table {
        caption: format!("Classic: all values pooled, in {}", scale.name),
        head: head(view, "Statistic"),
        rows,
        foot: None,
        head_targets: true,
    }
}

fn of_each(row: &Row<'_>, of: impl Fn(&CellView<'_>) -> Option<String>) -> Vec<Cell> {
    row.cells.iter().map(|cell| Cell::of(of(cell).unwrap_or_else(|| "–".to_owned()))).collect()
}

/// A statistic of a set, and of a set beside the baseline.
type OfSet = fn(&Pooled, Scale) -> String;
type Against = fn(&PooledAgainst) -> String;

/// In the order of the figure of 2011.
pub(super) const POOLED: [(&str, OfSet); 10] = [
    ("n", |pooled, _| pooled.n.to_string()),
    ("mean", |pooled, scale| scale.show(pooled.mean)),
    ("sd", |pooled, scale| optional(pooled.sd, |sd| scale.show(sd))),
    ("90 % interval", |pooled, scale| {
        optional(pooled.ci90, |[lo, hi]| format!("{} – {}", scale.show(lo), scale.show(hi)))
    }),
    ("geometric mean", |pooled, scale| scale.show(pooled.geometric_mean)),
    ("median", |pooled, scale| scale.show(pooled.median)),
    ("first quartile", |pooled, scale| scale.show(pooled.q1)),
    ("third quartile", |pooled, scale| scale.show(pooled.q3)),
    ("minimum", |pooled, scale| scale.show(pooled.min)),
    ("maximum", |pooled, scale| scale.show(pooled.max)),
];

/// Beside the baseline.
pub(super) const AGAINST: [(&str, Against); 6] = [
    ("median against", |against| format!("{:+.2} %", against.median_change * 100.0)),
    ("t-test p against", |against| optional(against.t_p, p_value)),
    ("t-test against", |against| optional(against.t_verdict, |verdict| t_word(verdict).to_owned())),
    ("slope against", |against| optional(against.slope, |slope| format!("{slope:.3}"))),
    ("slope, standard error, against", |against| optional(against.slope_se, |error| format!("{error:.4}"))),
    ("slope, 90 % interval, against", |against| optional(against.slope_ci90, |[lo, hi]| format!("{lo:.3} – {hi:.3}"))),
];

fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// The sets as they were read.
pub(super) fn sets(view: &View<'_>) -> Table {
    let row = |(place, set): (usize, &&SetSummary)| {
        let text = |text: String| Cell { text, class: "text", ..Cell::default() };
        let version = set.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        let unit = if set.pairing.is_some() { "block" } else { "run" };
        Line {
            target: Some(place),
            ..line(
                set.name.clone(),
                vec![
                    text(format!("{}{version}", set.tool)),
                    text(counted(set.runs, unit)),
                    text(if set.commands.is_empty() { "not recorded".to_owned() } else { set.commands.join("; ") }),
                    text(files(&set.files)),
                ],
            )
        }
    };
    Table {
        caption: "What was read".to_owned(),
        head: ["Set", "Tool", "Runs", "Command", "Files"].map(str::to_owned).into(),
        rows: view.sets.iter().enumerate().map(row).collect(),
        foot: None,
        head_targets: false,
    }
}

/// The first files by name; of very many, how many more there are.
fn files(files: &[String]) -> String {
    const NAMED: usize = 24;
    match files.len() {
        n if n <= NAMED => files.join(" "),
        n => format!("{} and {} more", files[..NAMED].join(" "), n - NAMED),
    }
}
