//! The table of timelines: one trial per target, with its stalls.

use fsb_model::units::{show_count, show_seconds};

use super::joined_timeline::FEWEST;
use super::summary::{Summary, Workload};
use crate::page::table::{Table, TableCell, TableRow};
use crate::show::counted;

/// Returns the table of a workload's timelines, with one row per target. Returns `None` if no target has a timeline.
pub(super) fn table(summary: &Summary, workload: &Workload) -> Option<Table> {
    let cells = workload.cells.iter().enumerate();
    let rows: Vec<TableRow> = cells
        .filter_map(|(target, cell)| {
            let timeline = cell.timeline.as_ref()?;
            let longest = timeline.stalls.iter().max_by(|a, b| a.lasted.total_cmp(&b.lasted));
            let stalls = match timeline.stalls.len() {
                0 => "none".to_owned(),
                n => format!("{n}, {} in all", show_seconds(timeline.stalls.iter().map(|stall| stall.lasted).sum())),
            };
            let worst = longest.map_or_else(
                || TableCell::of("–"),
                |stall| TableCell { small: stall.meanwhile(), ..TableCell::of(show_seconds(stall.lasted)) },
            );
            let typical = format!("{}/s", show_count(timeline.typical()));
            let cells = vec![
                TableCell::of(timeline.block.to_string()),
                TableCell::of(typical),
                TableCell::of(show_seconds(timeline.longest())),
                TableCell::of(stalls),
                worst,
            ];
            Some(TableRow::of_column(target, &summary.targets[target].label(), cells))
        })
        .collect();
    let bin = workload.cells.iter().find_map(|cell| cell.timeline.as_ref())?.bin;
    let head = ["Target", "Block", "Typical rate", "Longest operation", "Stalls", "Longest stall"];
    let caption = format!(
        "One trial over time, that with the median value, in bins of {}; a stall is {} or more below a tenth of the typical \
         rate",
        show_seconds(bin),
        counted(FEWEST, "bin"),
    );
    Some(Table::new(caption, head.map(str::to_owned).to_vec(), rows))
}
