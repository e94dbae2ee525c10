//! The tables of a comparison.

use fsb_model::Unit;
use fsb_stats::compare::{Operation, Pooled, PooledAgainst, SetSummary, Slice};
use fsb_stats::{Method, Verdict};

use super::operation::{OperationRow, SetStatistics, t_word};
use super::operation::{Scale, p_value};
use super::rows;
use super::view::{is_judged, line};
use crate::page::table::{Table, TableCell, TableRow};
use crate::run::latency::quantile_name;
use crate::show::{capital, counted};
use crate::view::{Row, View};

/// Returns the caption of the answer's table.
pub(super) fn caption(view: &View<'_>) -> String {
    match (view.compares(), is_judged(view)) {
        (false, _) => "Geometric means.".to_owned(),
        (true, false) => format!("Geometric means, and change against {}. Nothing is judged.", view.baseline()),
        (true, true) => format!(
            "Geometric mean of {0}, and change against {0} with its 95 % interval{1} and verdict.",
            view.baseline(),
            if view.names.len() > 2 { ", of all pairs together," } else { "" },
        ),
    }
}

/// Returns the table of the verdicts on one operation, with one row per set.
pub(super) fn judged(view: &View<'_>, row: &Row<'_>, found: &OperationRow<'_>) -> Table {
    let mut head: Vec<String> = ["Set", "Geometric mean"].map(str::to_owned).into();
    if view.compares() {
        head.extend([format!("Against {}", view.baseline()), "n".to_owned()]);
        if found.operation.grid.is_some() {
            head.extend(["Cells", "better", "worse", "the same", "uncertain"].map(str::to_owned));
        }
    }
    let rows = view.names.iter().enumerate();
    let rows = rows.map(|(set, name)| TableRow::of_column(set, name, of_set(view, row, found, set))).collect();
    let caption = match view.compares() {
        true => {
            "Judged on runs, targets of one run on its blocks. n: runs on the smaller side, or runs or blocks in common, \
             and the method. The counts of cells describe, they judge nothing."
        }
        false => "Geometric means.",
    };
    Table::new(caption, head, rows)
}

fn of_set(view: &View<'_>, row: &Row<'_>, found: &OperationRow<'_>, set: usize) -> Vec<TableCell> {
    let cell = &row.cells[set];
    let value = cell.value.clone().unwrap_or_else(|| cell.absence.to_owned());
    let mut cells = vec![TableCell { text: value, letter: cell.mark.clone(), class: "value", ..TableCell::default() }];
    if !view.compares() {
        return cells;
    }
    let dash = || TableCell::of("–");
    cells.push(cell.judged.map_or_else(dash, |judged| TableCell::change(&judged, "")));
    let estimate = found.operation.estimate.against.get(&view.names[set]).and_then(Option::as_ref);
    cells.push(estimate.map_or_else(dash, |found| {
        TableCell {
            text: found.n.to_string(),
            small: match found.method {
                Method::Paired | Method::PairedOnParts => "blocks, paired",
                Method::PairedRuns => "runs, paired",
                Method::Welch => "runs, Welch",
            }
            .to_owned(),
            ..TableCell::default()
        }
    }));
    if found.operation.grid.is_some() {
        let counts = found.sets[set].grid.map(|grid| [grid.cells, grid.faster, grid.slower, grid.same, grid.uncertain]);
        cells.extend((0..5).map(|count| counts.map_or_else(dash, |counts| TableCell::of(counts[count].to_string()))));
    }
    cells
}

/// Returns the table of all pairs, if there are more than two sets.
pub(super) fn pairs(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let ranking = &found.operation.ranking;
    if view.names.len() < 3 || ranking.pairs.is_empty() {
        return None;
    }
    let pair = |candidate: usize, baseline: usize| match candidate == baseline {
        true => TableCell::of("–"),
        false => verdict(ranking.verdict(found.places[baseline], found.places[candidate])),
    };
    let all = 0..view.names.len();
    let rows = all.clone().map(|candidate| {
        let cells = all.clone().map(|baseline| pair(candidate, baseline)).collect();
        TableRow::of_column(candidate, &view.names[candidate], cells)
    });
    let caption = "Each row against each column; all pairs stand together at 95 %.";
    Some(Table::of_columns(caption, "Set", &view.names, rows.collect()))
}

fn verdict(verdict: Verdict) -> TableCell {
    let (class, sign) = match verdict {
        verdict if verdict.is_better() => ("better", "▲ "),
        verdict if verdict.is_worse() => ("worse", "▼ "),
        _ => ("", ""),
    };
    TableCell { class, ..TableCell::of(format!("{sign}{}", verdict.words())) }
}

/// Returns the table of the verdicts by size, with one row per size and one column per set.
pub(super) fn sizes(view: &View<'_>, row: &Row<'_>, slices: &[Slice], what: &str) -> Option<Table> {
    let shown = |slice: &Slice| {
        let line = line(row, slice, &view.names);
        TableRow::new(line.head, line.cells.iter().map(|cell| TableCell::shown(cell, false)).collect())
    };
    let caption = match view.compares() {
        true => format!("By {what}, judged on runs: geometric mean of {0}, and change against {0}", view.baseline()),
        false => format!("By {what}: geometric means"),
    };
    let rows = slices.iter().map(shown).collect();
    (slices.len() > 1).then(|| Table::of_columns(caption, &capital(what), &view.names, rows))
}

/// Returns the table of an operation's other metrics, with one row per metric and one column per set.
pub(super) fn others(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let other = |operation: &&Operation| {
        let cell = |name: &String| rows::cell(operation, &SetStatistics::of_operation(operation, name));
        let cells = view.names.iter().map(|name| TableCell::shown(&cell(name), false));
        TableRow::new(operation.metric.replace('_', " "), cells.collect())
    };
    let caption = match view.compares() {
        true => format!(
            "Other metrics: geometric mean of {0}, and change against {0}. Of times, less is better.",
            view.baseline()
        ),
        false => "Other metrics: geometric means.".to_owned(),
    };
    let rows: Vec<TableRow> = found.others.iter().map(other).collect();
    (!rows.is_empty()).then(|| Table::of_columns(caption, "Metric", &view.names, rows))
}

/// Returns the table of latency quantiles, with one row per set.
pub(super) fn latencies(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let of_set = |name: &String| found.operation.latencies.get(name).map(Vec::as_slice).unwrap_or_default();
    let mut quantiles: Vec<f64> = view.names.iter().flat_map(|name| of_set(name).iter().map(|found| found.q)).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup();
    let rows = view.names.iter().enumerate().map(|(place, name)| {
        let at = |q: &f64| of_set(name).iter().find(|found| found.q == *q);
        let cell = |q: &f64| {
            at(q).map_or_else(|| TableCell::of("–"), |found| TableCell::of(Unit::Seconds.show(found.seconds)))
        };
        TableRow::of_column(place, name, quantiles.iter().map(cell).collect())
    });
    let caption = "Latencies of all runs together; – where fewer than 100 operations lie beyond";
    let head = std::iter::once("Set".to_owned()).chain(quantiles.iter().map(|q| quantile_name(*q))).collect();
    (!quantiles.is_empty()).then(|| Table::new(caption, head, rows.collect()))
}

/// Returns the table of the statistics of 2011 for the whole operation, with one row per statistic and one column per
/// set.
pub(super) fn classic(view: &View<'_>, found: &OperationRow<'_>) -> Table {
    let scale = Scale::of([found.operation]);
    let mut rows: Vec<TableRow> = POOLED
        .iter()
        .map(|(name, of)| TableRow::new(*name, of_each(found, |set| Some(of(set.pooled?, scale)))))
        .collect();
    if view.compares() {
        let against = AGAINST.iter().map(|(name, of)| {
            TableRow::new(format!("{name} {}", view.baseline()), of_each(found, |set| Some(of(set.classic?))))
        });
        rows.extend(against);
    }
    Table::of_columns(format!("Classic: all values pooled, in {}", scale.name), "Statistic", &view.names, rows)
}

fn of_each(found: &OperationRow<'_>, of: impl Fn(&SetStatistics<'_>) -> Option<String>) -> Vec<TableCell> {
    found.sets.iter().map(|set| TableCell::of(of(set).unwrap_or_else(|| "–".to_owned()))).collect()
}

/// A statistic of a set, and of a set beside the baseline.
type OfSet = fn(&Pooled, Scale) -> String;
type Against = fn(&PooledAgainst) -> String;

/// Statistics of a set, in the order of the figure of 2011.
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

/// Statistics of a set against the baseline.
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

/// Returns the table of the sets as they were read.
pub(super) fn sets(sets: &[&SetSummary]) -> Table {
    let row = |(place, set): (usize, &&SetSummary)| {
        let text = |text: String| TableCell { text, class: "text", ..TableCell::default() };
        let version = set.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        let blocks = set.blocks.map(|blocks| format!(", {}", counted(blocks, "block"))).unwrap_or_default();
        let cells = vec![
            text(format!("{}{version}", set.tool)),
            text(counted(set.runs, "run") + &blocks),
            text(if set.commands.is_empty() { "not recorded".to_owned() } else { set.commands.join("; ") }),
            text(files(&set.files)),
        ];
        TableRow::of_column(place, &set.name, cells)
    };
    let head = ["Set", "Tool", "Runs", "Command", "Files"].map(str::to_owned).into();
    Table::new("What was read", head, sets.iter().enumerate().map(row).collect())
}

/// Lists the first files by name, and the number of the others if there are many.
fn files(files: &[String]) -> String {
    const NAMED: usize = 24;
    match files.len() {
        n if n <= NAMED => files.join(" "),
        n => format!("{} and {} more", files[..NAMED].join(" "), n - NAMED),
    }
}
