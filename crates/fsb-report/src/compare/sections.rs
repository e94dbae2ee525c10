//! The sections of a comparison's page, and their tables.

use fsb_model::Unit;
use fsb_model::units::Bytes;
use fsb_stats::compare::{ALL, Document, Finding, Pooled, PooledAgainst, SetSummary, Slice};
use fsb_stats::{Method, Verdict};

use crate::chart;
use crate::compare::detail::{Fixed, SizeLine, by_file_size, by_record_size, by_run};
use crate::compare::{cell, is_judged, line};
use crate::operation::{
    OperationRow, Selection, SetStatistics, UnitScale, is_about, p_value, t_word,
};
use crate::page::{Block, DataFile, FigureGroup, FigureLine, Figures, Opening, Section};
use crate::show::{capital, counted};
use crate::summary::latency::quantile_name;
use crate::table::{Table, TableCell, TableRow};
use crate::view::{Row, View};

/// The page folds findings beyond this number.
const FINDINGS: usize = 12;

/// Returns the sections between the overview and the method: findings, operations, fixed sizes, the
/// surface, the sets.
pub(crate) fn list(selection: Selection<'_>, view: &View<'_>) -> Vec<Section> {
    let mut sections: Vec<Section> = findings(view).into_iter().collect();
    sections.extend(
        view.rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| operation(view, row, place)),
    );
    sections.extend(all_operations(view));
    if selection.detail.is_some() {
        sections.extend(
            view.rows
                .iter()
                .enumerate()
                .flat_map(|(place, row)| halves(view, row, place)),
        );
    }
    sections.extend(surfaces(view));
    sections.push(Section::new(
        "sets",
        "Sets",
        vec![Block::table("sets", sets_table(&selection.sets()))],
    ));
    sections
}

/// Returns the section that names the files with the data, if there are any.
pub(crate) fn data(files: &[DataFile]) -> Option<Section> {
    (!files.is_empty()).then(|| Section::new("data", "Data", vec![Block::Files(files.to_vec())]))
}

/// Returns the charts over sizes of a run's matrix: a section for each operation, and the surface
/// of all.
pub(crate) fn of_matrix(document: &Document) -> Vec<Section> {
    let view = super::view(Selection {
        document,
        detail: None,
    });
    let mut sections: Vec<Section> = view
        .rows
        .iter()
        .enumerate()
        .filter_map(|(place, row)| {
            let charts = chart::of_row(&view, row, place);
            (!charts.is_empty()).then(|| {
                let blocks = vec![
                    Block::text("finding", &row.sentence),
                    Block::ChartsAbreast(charts),
                ];
                Section::new(
                    &format!("sizes-{place}"),
                    &format!("{}, by size", row.label),
                    blocks,
                )
            })
        })
        .collect();
    sections.extend(surfaces(&view));
    sections
}

fn surfaces(view: &View<'_>) -> Option<Section> {
    let panels = Some(chart::panels(view)).filter(|panels| !panels.is_empty())?;
    Some(Section::new(
        "surfaces",
        "Surface",
        vec![Block::Selectors, Block::Charts(panels)],
    ))
}

/// Returns the opening of the overview.
pub(crate) fn opening(view: &View<'_>) -> Opening {
    Opening {
        columns: None,
        caption: caption(view),
        total: None,
    }
}

fn findings(view: &View<'_>) -> Option<Section> {
    let found = view.findings.as_ref()?;
    let (shown, more) = found.split_at(found.len().min(FINDINGS));
    let note = "Regions of file size × record size where the runs agree that a set is faster or slower, the widest \
                first. The regions survived the search of all regions at 5 %. Their intervals are not widened for \
                this selection, so the difference of a small region may be overestimated.";
    let mut blocks = vec![Block::text("note", note), listed(shown)];
    if !more.is_empty() {
        blocks.push(Block::Details {
            summary: format!("{} more", more.len()),
            blocks: vec![listed(more)],
        });
    }
    Some(Section::new("findings", "Findings", blocks))
}

fn listed(findings: &[&Finding]) -> Block {
    Block::Findings(
        findings
            .iter()
            .map(|found| (found.faster, found.text.clone()))
            .collect(),
    )
}

/// Returns the table of 2011: the statistics of every operation and of all together, with a column
/// for each. Returns `None` without the pool of all operations.
fn all_operations(view: &View<'_>) -> Option<Section> {
    let mut found: Vec<(&Row<'_>, &OperationRow<'_>)> = view
        .rows
        .iter()
        .filter_map(|row| Some((row, row.operation()?)))
        .collect();
    // The figure of 2011 begins with the pool.
    let pool = found
        .iter()
        .position(|(_, found)| found.operation.operation == ALL)?;
    found[..=pool].rotate_right(1);
    let scale = UnitScale::fit(found.iter().map(|(_, found)| found.operation));
    let row = |head: String, of: &dyn Fn(&OperationRow<'_>) -> Option<String>| {
        let cells = found.iter().map(|(_, found)| TableCell::from(of(found)));
        TableRow::new(head, cells.collect())
    };
    let mut rows: Vec<TableRow> = Vec::new();
    for (set, name) in view.names.iter().enumerate() {
        let own = POOLED.iter().map(|(title, of)| {
            row(format!("{name}, {title}"), &|found| {
                Some(of(found.sets[set].pooled?, scale))
            })
        });
        rows.extend(own);
    }
    for (set, name) in view.names.iter().enumerate().skip(1) {
        let against = AGAINST.iter().map(|(title, of)| {
            row(format!("{name}, {title} {}", view.baseline()), &|found| {
                Some(of(found.sets[set].classic?))
            })
        });
        rows.extend(against);
    }
    let head = std::iter::once("Statistic".to_owned())
        .chain(found.iter().map(|(row, _)| row.label.clone()));
    let table = Table::new(
        format!(
            "Classic: all values of each operation pooled, in {}",
            scale.name
        ),
        head,
        rows,
    );
    let note = "All operations in one table, as figure 5.3 of Beňas 2011 has them. The sections of the operations have the \
                verdicts.";
    Some(Section::new(
        "classic",
        "Classic summary",
        vec![Block::text("note", note), Block::table("classic", table)],
    ))
}

/// Returns the section of one operation.
fn operation(view: &View<'_>, row: &Row<'_>, place: usize) -> Option<Section> {
    let found = row.operation()?;
    let own: Vec<&Finding> = view
        .findings
        .iter()
        .flatten()
        .copied()
        .filter(|finding| is_about(finding, found.operation))
        .collect();
    let mut blocks = vec![Block::text("finding", &row.sentence)];
    if found.operation.operation == ALL {
        let note = "All operations in one pool, as in the figure of 2011. The pool hides differences between \
                    operations: read those first.";
        blocks.push(Block::text("note", note));
    }
    if !own.is_empty() {
        blocks.push(listed(&own));
    }
    blocks.push(Block::table("judged", judged_table(view, row, found)));
    blocks.extend(pairs_table(view, found).map(|table| Block::table("pairs", table)));
    let charts = chart::of_row(view, row, place);
    if !charts.is_empty() {
        blocks.push(Block::ChartsAbreast(charts));
    }
    blocks.extend(others_table(view, found).map(|table| Block::table("others", table)));
    blocks.extend(latencies_table(view, found).map(|table| Block::table("latency", table)));
    blocks.extend(timelines_table(view, found).map(|table| Block::table("timeline", table)));
    blocks.extend(folded(view, row, found));
    Some(Section {
        id: format!("operation-{place}"),
        title: row.label.clone(),
        is_row: true,
        blocks,
    })
}

/// Returns the folded blocks that few readers need: the verdict for every size, and the classic
/// statistics of 2011.
fn folded(view: &View<'_>, row: &Row<'_>, found: &OperationRow<'_>) -> Vec<Block> {
    let slices = [
        (&found.operation.by_file_size, "file size"),
        (&found.operation.by_record_size, "record size"),
    ];
    let judged = slices
        .iter()
        .filter_map(|(slices, what)| sizes_table(view, row, slices, what));
    let judged: Vec<Block> = judged.map(|table| Block::table("sizes", table)).collect();
    let note = "These statistics keep published tables comparable. Prefer the verdicts above: a uniform \
                10\u{a0}% slowdown is invisible to a t-test on pooled mixtures of sizes.";
    let mut classic = vec![
        Block::text("note", note),
        Block::table("classic", classic_table(view, found)),
        Block::Classic {
            compares: view.compares(),
        },
    ];
    classic.extend(
        slices
            .iter()
            .filter_map(|(slices, what)| classic_figures(view, found, slices, what))
            .map(Block::Figures),
    );
    let mut blocks = Vec::new();
    if !judged.is_empty() {
        let summary = "By file size and by record size, judged".to_owned();
        blocks.push(Block::Details {
            summary,
            blocks: judged,
        });
    }
    blocks.push(Block::Details {
        summary: "Classic statistics (Beňas 2011)".to_owned(),
        blocks: classic,
    });
    blocks
}

/// Returns the sections of one row in detail: every record size, then every file size.
fn halves(view: &View<'_>, row: &Row<'_>, place: usize) -> impl Iterator<Item = Section> {
    let halves = [
        ("record", by_record_size(row, place, &view.names)),
        ("file", by_file_size(row, place, &view.names)),
    ];
    halves
        .into_iter()
        .filter_map(|(what, all)| {
            let with_lines = all.iter().filter(|fixed| !fixed.lines.is_empty());
            let blocks: Vec<Block> = with_lines.flat_map(|fixed| one_size(view, fixed)).collect();
            (!blocks.is_empty()).then(|| Section {
                id: format!("fixed-{what}-{place}"),
                title: format!("{} by fixed {what} size", row.label),
                is_row: false,
                blocks,
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
}

fn one_size(view: &View<'_>, fixed: &Fixed<'_>) -> [Block; 3] {
    let charts = chart::of_size(view, fixed);
    [
        Block::Title(fixed.title.clone()),
        Block::Charts(charts),
        Block::Figures(values(view, fixed)),
    ]
}

/// Returns the statistics of 2011 by file size or by record size. Returns `None` if there is only
/// one size.
fn classic_figures(
    view: &View<'_>,
    row: &OperationRow<'_>,
    slices: &[Slice],
    size: &'static str,
) -> Option<Figures> {
    let scale = UnitScale::fit([row.operation]);
    let group = |slice: &Slice| {
        let lines = view.names.iter().enumerate().filter_map(|(set, name)| {
            let found = SetStatistics::of_slice(slice, name);
            let pooled = found.pooled?;
            let own = POOLED.iter().map(|(_, of)| of(pooled, scale));
            let against = AGAINST
                .iter()
                .map(|(_, of)| found.classic.map(of).unwrap_or_default());
            let against = against.take(if view.compares() { AGAINST.len() } else { 0 });
            Some(FigureLine {
                column: set,
                cells: own.chain(against).collect(),
            })
        });
        FigureGroup {
            size: Bytes(slice.bytes).to_string(),
            lines: lines.collect(),
        }
    };
    let own = POOLED.iter().map(|(name, _)| (*name).to_owned());
    let against = against_heads(&AGAINST[..if view.compares() { AGAINST.len() } else { 0 }]);
    (slices.len() > 1).then(|| Figures {
        caption: format!("Classic by {size}, in {}{}", scale.name, beside(view)),
        head: own.chain(against).collect(),
        size,
        groups: slices.iter().map(group).collect(),
        names: view.names.clone(),
    })
}

fn beside(view: &View<'_>) -> String {
    if view.compares() {
        format!("; the changes and tests against {}", view.baseline())
    } else {
        String::new()
    }
}

/// Returns the heads of columns that compare with the baseline, whose name is in the caption.
fn against_heads(statistics: &[(&str, Against)]) -> impl Iterator<Item = String> {
    statistics.iter().map(|(name, _)| {
        name.trim_end_matches("against")
            .trim_end_matches([' ', ','])
            .to_owned()
    })
}

/// Returns the statistics of 2011 and every value at one fixed size.
fn values(view: &View<'_>, fixed: &Fixed<'_>) -> Figures {
    let scale = UnitScale::fit([fixed.operation]);
    let runs = fixed
        .lines
        .iter()
        .flat_map(|line| line.sets.iter().flatten())
        .flat_map(|single| single.values.iter().map(|value| value.run + 1))
        .max()
        .unwrap_or(0);
    // One cell has no regression.
    let beside_baseline = &AGAINST[..if view.compares() { BY_VALUES } else { 0 }];
    let group = |line: &SizeLine<'_>| {
        let lines = line.sets.iter().enumerate().filter_map(|(set, single)| {
            let single = single.as_ref()?;
            let found = line
                .classic
                .map(|classic| SetStatistics::of_cell(classic, &view.names[set]));
            let pooled = found.as_ref().and_then(|found| found.pooled);
            let own = POOLED
                .iter()
                .map(|(_, of)| pooled.map(|pooled| of(pooled, scale)).unwrap_or_default());
            let classic = found.as_ref().and_then(|found| found.classic);
            let against = beside_baseline
                .iter()
                .map(|(_, of)| classic.map(of).unwrap_or_default());
            let values = by_run(single.values, runs).map(|value| {
                value
                    .map(|value| scale.show(value.value))
                    .unwrap_or_default()
            });
            Some(FigureLine {
                column: set,
                cells: own.chain(against).chain(values).collect(),
            })
        });
        FigureGroup {
            size: Bytes(line.bytes).to_string(),
            lines: lines.collect(),
        }
    };
    let names = POOLED
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .chain(against_heads(beside_baseline));
    Figures {
        caption: format!(
            "{}: classic statistics and every value, in {}{}",
            fixed.title,
            scale.name,
            beside(view)
        ),
        head: names
            .chain((1..=runs).map(|place| format!("{} {place}", view.words.value)))
            .collect(),
        size: fixed.varies,
        groups: fixed.lines.iter().map(group).collect(),
        names: view.names.clone(),
    }
}

/// Returns the caption of the answer's table.
fn caption(view: &View<'_>) -> String {
    match (view.compares(), is_judged(view)) {
        (false, _) => "Geometric means.".to_owned(),
        (true, false) => format!(
            "Geometric means, and change against {}. Nothing is judged.",
            view.baseline()
        ),
        (true, true) => format!(
            "Geometric mean of {0}, and change against {0} with its 95 % interval{1} and verdict.",
            view.baseline(),
            if view.names.len() > 2 {
                ", of all pairs together,"
            } else {
                ""
            },
        ),
    }
}

/// Returns the table of the verdicts on one operation, with one row per set.
fn judged_table(view: &View<'_>, row: &Row<'_>, found: &OperationRow<'_>) -> Table {
    let mut head: Vec<String> = ["Set", "Geometric mean"].map(str::to_owned).into();
    if view.compares() {
        head.extend([format!("Against {}", view.baseline()), "n".to_owned()]);
        if found.operation.grid.is_some() {
            head.extend(["Cells", "better", "worse", "the same", "uncertain"].map(str::to_owned));
        }
    }
    let rows = view.names.iter().enumerate();
    let rows = rows
        .map(|(set, name)| TableRow::of_column(set, name, of_set(view, row, found, set)))
        .collect();
    let caption = match view.compares() {
        true => {
            "Judged on runs, targets of one run on its blocks. n: runs on the smaller side, or runs or blocks in common, \
             and the method. The counts of cells are descriptive."
        }
        false => "Geometric means.",
    };
    Table::new(caption, head, rows)
}

fn of_set(view: &View<'_>, row: &Row<'_>, found: &OperationRow<'_>, set: usize) -> Vec<TableCell> {
    let cell = &row.cells[set];
    let value = cell
        .value
        .clone()
        .unwrap_or_else(|| cell.absence.to_owned());
    let mut cells = vec![TableCell {
        text: value,
        letter: cell.mark.clone(),
        class: "value",
        ..TableCell::default()
    }];
    if !view.compares() {
        return cells;
    }
    let dash = || TableCell::new("–");
    cells.push(
        cell.judged
            .map_or_else(dash, |judged| TableCell::change(&judged, "")),
    );
    let estimate = found
        .operation
        .estimate
        .against
        .get(&view.names[set])
        .and_then(Option::as_ref);
    cells.push(estimate.map_or_else(dash, |found| {
        TableCell {
            text: found.n.to_string(),
            small: match found.method {
                Method::Paired | Method::PairedOnSlices => "blocks, paired",
                Method::PairedRuns => "runs, paired",
                Method::Welch if found.n == 1 => "run, Welch",
                Method::Welch => "runs, Welch",
            }
            .to_owned(),
            ..TableCell::default()
        }
    }));
    if found.operation.grid.is_some() {
        let counts = found.sets[set].grid.map(|grid| {
            [
                grid.cells,
                grid.faster,
                grid.slower,
                grid.same,
                grid.uncertain,
            ]
        });
        cells.extend((0..5).map(|count| counts.map(|counts| counts[count].to_string()).into()));
    }
    cells
}

/// Returns the table of all pairs, if there are more than two sets.
fn pairs_table(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let ranking = &found.operation.ranking;
    if view.names.len() < 3 || ranking.pairs.is_empty() {
        return None;
    }
    let all = 0..view.names.len();
    let rows = all.clone().map(|candidate| {
        let cells = all
            .clone()
            .map(|baseline| match candidate == baseline {
                true => TableCell::new("–"),
                false => verdict(ranking.verdict(found.places[baseline], found.places[candidate])),
            })
            .collect();
        TableRow::of_column(candidate, &view.names[candidate], cells)
    });
    let caption = "Each row against each column; the intervals of all pairs hold together at 95 %.";
    Some(Table::of_columns(
        caption,
        "Set",
        &view.names,
        rows.collect(),
    ))
}

fn verdict(verdict: Verdict) -> TableCell {
    let (class, sign) = match verdict {
        verdict if verdict.is_better() => ("better", "▲ "),
        verdict if verdict.is_worse() => ("worse", "▼ "),
        _ => ("", ""),
    };
    TableCell {
        class,
        ..TableCell::new(format!("{sign}{}", verdict.words()))
    }
}

/// Returns the table of the verdicts by size, with one row per size and one column per set.
fn sizes_table(view: &View<'_>, row: &Row<'_>, slices: &[Slice], what: &str) -> Option<Table> {
    let caption = match view.compares() {
        true => format!(
            "By {what}, judged on runs: geometric mean of {0}, and change against {0}",
            view.baseline()
        ),
        false => format!("By {what}: geometric means"),
    };
    let rows = slices
        .iter()
        .map(|slice| {
            let line = line(row, slice, &view.names);
            TableRow::new(
                line.head,
                line.cells
                    .iter()
                    .map(|cell| TableCell::shown(cell, false))
                    .collect(),
            )
        })
        .collect();
    (slices.len() > 1).then(|| Table::of_columns(caption, &capital(what), &view.names, rows))
}

/// Returns the table of an operation's other metrics, with one row per metric and one column per
/// set.
fn others_table(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let caption = match view.compares() {
        true => format!(
            "Other metrics: geometric mean of {0}, and change against {0}. Of times, less is better.",
            view.baseline()
        ),
        false => "Other metrics: geometric means.".to_owned(),
    };
    let rows: Vec<TableRow> = found
        .others
        .iter()
        .map(|operation| {
            let cells = view.names.iter().map(|name| {
                TableCell::shown(
                    &cell(operation, &SetStatistics::of_operation(operation, name)),
                    false,
                )
            });
            TableRow::new(operation.metric.replace('_', " "), cells.collect())
        })
        .collect();
    (!rows.is_empty()).then(|| Table::of_columns(caption, "Metric", &view.names, rows))
}

/// Returns the table of latency quantiles, with one row per set.
fn latencies_table(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let of_set = |name: &String| {
        found
            .operation
            .latencies
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let mut quantiles: Vec<f64> = view
        .names
        .iter()
        .flat_map(|name| of_set(name).iter().map(|found| found.q))
        .collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup();
    let rows = view.names.iter().enumerate().map(|(place, name)| {
        TableRow::of_column(
            place,
            name,
            quantiles
                .iter()
                .map(|q| {
                    of_set(name)
                        .iter()
                        .find(|found| found.q == *q)
                        .map(|found| Unit::Seconds.show(found.seconds))
                        .into()
                })
                .collect(),
        )
    });
    let caption = "Latencies of all runs together; – where fewer than 100 operations lie beyond";
    let head = std::iter::once("Set".to_owned()).chain(quantiles.iter().map(|q| quantile_name(*q)));
    (!quantiles.is_empty()).then(|| Table::new(caption, head, rows.collect()))
}

/// Returns the table of values over time, with one row per set. Returns `None` if no run has them.
fn timelines_table(view: &View<'_>, found: &OperationRow<'_>) -> Option<Table> {
    let unit = found.operation.unit;
    let row = |(place, name): (usize, &String)| {
        let runs = found
            .operation
            .timelines
            .get(name)
            .filter(|runs| !runs.is_empty())?;
        let values = || runs.iter().flatten().map(|(_, value)| *value);
        let cells = [
            runs.len().to_string(),
            values().count().to_string(),
            unit.show(values().fold(f64::MAX, f64::min)),
            unit.show(values().fold(0.0, f64::max)),
        ];
        Some(TableRow::of_column(
            place,
            name,
            cells.into_iter().map(TableCell::new).collect(),
        ))
    };
    let rows: Vec<TableRow> = view.names.iter().enumerate().filter_map(row).collect();
    let head = ["Set", "Runs", "Intervals", "Lowest", "Highest"];
    (!rows.is_empty()).then(|| Table::new("Intervals of all runs", head, rows))
}

/// Returns the table of the statistics of 2011 for the whole operation, with one row per statistic
/// and one column per set.
fn classic_table(view: &View<'_>, found: &OperationRow<'_>) -> Table {
    let scale = UnitScale::fit([found.operation]);
    let mut rows: Vec<TableRow> = POOLED
        .iter()
        .map(|(name, of)| TableRow::new(*name, of_each(found, |set| Some(of(set.pooled?, scale)))))
        .collect();
    if view.compares() {
        let against = AGAINST.iter().map(|(name, of)| {
            TableRow::new(
                format!("{name} {}", view.baseline()),
                of_each(found, |set| Some(of(set.classic?))),
            )
        });
        rows.extend(against);
    }
    Table::of_columns(
        format!("Classic: all values pooled, in {}", scale.name),
        "Statistic",
        &view.names,
        rows,
    )
}

fn of_each(
    found: &OperationRow<'_>,
    of: impl Fn(&SetStatistics<'_>) -> Option<String>,
) -> Vec<TableCell> {
    found
        .sets
        .iter()
        .map(|set| TableCell::from(of(set)))
        .collect()
}

/// A statistic of a set, and of a set beside the baseline.
type OfSet = fn(&Pooled, UnitScale) -> String;
type Against = fn(&PooledAgainst) -> String;

/// Statistics of a set, in the order of the figure of 2011.
const POOLED: [(&str, OfSet); 10] = [
    ("n", |pooled, _| pooled.n.to_string()),
    ("mean", |pooled, scale| scale.show(pooled.mean)),
    ("sd", |pooled, scale| {
        optional(pooled.sd, |sd| scale.show(sd))
    }),
    ("90 % interval", |pooled, scale| {
        optional(pooled.ci90, |[lo, hi]| {
            format!("{} – {}", scale.show(lo), scale.show(hi))
        })
    }),
    ("geometric mean", |pooled, scale| {
        scale.show(pooled.geometric_mean)
    }),
    ("median", |pooled, scale| scale.show(pooled.median)),
    ("first quartile", |pooled, scale| scale.show(pooled.q1)),
    ("third quartile", |pooled, scale| scale.show(pooled.q3)),
    ("minimum", |pooled, scale| scale.show(pooled.min)),
    ("maximum", |pooled, scale| scale.show(pooled.max)),
];

/// Statistics of a set against the baseline.
const AGAINST: [(&str, Against); 6] = [
    ("median against", |against| {
        format!("{:+.2} %", against.median_change * 100.0)
    }),
    ("t-test p against", |against| optional(against.t_p, p_value)),
    ("t-test against", |against| {
        optional(against.t_verdict, |verdict| t_word(verdict).to_owned())
    }),
    ("slope against", |against| {
        optional(against.slope, |slope| format!("{slope:.3}"))
    }),
    ("slope, standard error, against", |against| {
        optional(against.slope_se, |error| format!("{error:.4}"))
    }),
    ("slope, 90 % interval, against", |against| {
        optional(against.slope_ci90, |[lo, hi]| format!("{lo:.3} – {hi:.3}"))
    }),
];

/// The number of statistics in [`AGAINST`] that compare values; the others compare the means of
/// several cells.
const BY_VALUES: usize = 3;

fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// Returns the table of the sets as they were read.
fn sets_table(sets: &[&SetSummary]) -> Table {
    let row = |(place, set): (usize, &&SetSummary)| {
        let text = |text: String| TableCell {
            text,
            class: "text",
            ..TableCell::default()
        };
        let version = set
            .version
            .as_deref()
            .map(|version| format!(" {version}"))
            .unwrap_or_default();
        let blocks = set
            .blocks
            .map(|blocks| format!(", {}", counted(blocks, "block")))
            .unwrap_or_default();
        let cells = vec![
            text(format!("{}{version}", set.tool)),
            text(counted(set.runs, "run") + &blocks),
            text(if set.commands.is_empty() {
                "not recorded".to_owned()
            } else {
                set.commands.join("; ")
            }),
            text(files(&set.files)),
        ];
        TableRow::of_column(place, &set.name, cells)
    };
    let head = ["Set", "Tool", "Runs", "Command", "Files"];
    Table::new(
        "What was read",
        head,
        sets.iter().enumerate().map(row).collect(),
    )
}

/// Lists the first files by name, and the number of the others if there are many.
fn files(files: &[String]) -> String {
    const NAMED: usize = 24;
    match files.len() {
        n if n <= NAMED => files.join(" "),
        n => format!("{} and {} more", files[..NAMED].join(" "), n - NAMED),
    }
}
