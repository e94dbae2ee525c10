//! The section of cases beside a background.

use fsb_model::Unit;
use fsb_model::units::show_seconds;
use fsb_stats::Comparison;

use crate::page::{Block, Section};
use crate::summary::latency::quantile_name;
use crate::summary::neighbours::{factor, interval, lines, rate_text, share_text};
use crate::summary::{AloneAndBeside, BesideBackground, QuantileSlowdown, Slowdown, Summary};
use crate::table::{Table, TableCell, TableRow};

/// Returns the section of a page with a table for each case.
pub(super) fn section(summary: &Summary) -> Option<Section> {
    let tables = summary
        .neighbours
        .iter()
        .map(|one| Block::table("costs", table(summary, one)));
    let closed = summary.neighbours.iter().any(|one| !one.open_loop);
    let note = "Ratios are beside the background over alone, paired by block, with 95 % intervals. The longest operation is \
                a maximum over all blocks. The rate of the background is its own, from a second before each sample to its \
                end; alone, it ran for as long before the trial.";
    let loops = " Without a rate, an operation starts when the one before has ended, so percentiles miss the waits that a \
                 stall would cause to later ones.";
    let note = format!("{note}{}", if closed { loops } else { "" });
    let blocks: Vec<Block> = lines(summary)
        .into_iter()
        .map(|line| Block::text("", line))
        .chain(tables)
        .collect();
    (!summary.neighbours.is_empty()).then(|| {
        Section::new(
            "neighbours",
            "Beside a neighbour",
            blocks
                .into_iter()
                .chain([Block::text("note", note)])
                .collect(),
        )
    })
}

fn table(summary: &Summary, one: &BesideBackground) -> Table {
    let unit = summary.cases[one.alone].unit;
    let ratio = |text: String, comparison: &Comparison| {
        TableCell::new(text).with_small(format!(
            "{} ×{}",
            factor(comparison.ratio),
            interval(comparison)
        ))
    };
    let row = |(place, slowdown): (usize, &Option<Slowdown>)| {
        let Slowdown {
            time,
            alone,
            beside,
            quantiles,
            longest,
            background,
            ..
        } = slowdown.as_ref()?;
        let both = |show: &dyn Fn(f64) -> String, alone: f64, beside: f64| {
            format!("{} → {}", show(alone), show(beside))
        };
        let seconds = |found: AloneAndBeside| both(&show_seconds, found.alone, found.beside);
        let quantile = |found: Option<&QuantileSlowdown>| match found {
            Some(found) => ratio(
                format!("{}: {}", quantile_name(found.q), seconds(found.seconds)),
                &found.ratio,
            ),
            None => TableCell::new("–"),
        };
        let show = |value: f64| Unit::show(unit, value);
        let cells = vec![
            ratio(both(&show, *alone, *beside), time),
            quantile(quantiles.first()),
            quantile(quantiles.get(1)),
            TableCell::new(longest.map_or_else(|| "–".to_owned(), seconds)),
            TableCell::new(
                background
                    .as_ref()
                    .map_or_else(|| "–".to_owned(), rate_text),
            )
            .with_small(background.as_ref().map(share_text).unwrap_or_default()),
        ];
        Some(TableRow::of_column(
            place,
            &summary.targets[place].label(),
            cells,
        ))
    };
    let head = [
        "Target",
        "Alone → beside",
        "Median",
        "Highest percentile",
        "Longest",
        "Background",
    ]
    .map(str::to_owned);
    let caption = format!(
        "{} beside {}",
        summary.cases[one.alone].workload, one.background
    );
    Table::new(
        caption,
        head.to_vec(),
        one.targets.iter().enumerate().filter_map(row).collect(),
    )
}
