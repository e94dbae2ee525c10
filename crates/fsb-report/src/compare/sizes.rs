//! The long tables: every statistic size by size, and every value.

use fsb_analysis::compare::{CellValue, Slice};
use fsb_model::units::Bytes;

use super::detail::{Fixed, SizeLine};
use super::numbers::Scale;
use super::operation::{OperationRow, SetStatistics};
use super::tables::{AGAINST, POOLED};
use super::values::by_run;
use crate::page::table::{FigureGroup, FigureLine, Figures};
use crate::view::View;

/// The statistics of 2011 by file size or by record size.
pub(super) fn classic(
    view: &View<'_>,
    row: &OperationRow<'_>,
    slices: &[Slice],
    size: &'static str,
) -> Option<Figures> {
    let scale = Scale::of([row.operation]);
    let group = |slice: &Slice| {
        let lines = view.names.iter().enumerate().filter_map(|(set, name)| {
            let found = SetStatistics::of_slice(slice, name);
            let pooled = found.pooled?;
            let own = POOLED.iter().map(|(_, of)| of(pooled, scale));
            let against = AGAINST.iter().map(|(_, of)| found.classic.map(of).unwrap_or_default());
            let against = against.take(if view.compares() { AGAINST.len() } else { 0 });
            Some(FigureLine { column: set, cells: own.chain(against).collect() })
        });
        FigureGroup { size: Bytes(slice.bytes).to_string(), lines: lines.collect() }
    };
    let own = POOLED.iter().map(|(name, _)| (*name).to_owned());
    let against =
        AGAINST.iter().map(|(name, _)| name.trim_end_matches("against").trim_end_matches([' ', ',']).to_owned());
    let against = against.take(if view.compares() { AGAINST.len() } else { 0 });
    (slices.len() > 1).then(|| Figures {
        caption: format!("Classic by {size}, in {}{}", scale.name, beside(view)),
        head: own.chain(against).collect(),
        size,
        groups: slices.iter().map(group).collect(),
        names: view.names.clone(),
    })
}

fn beside(view: &View<'_>) -> String {
    if view.compares() { format!("; the last columns against {}", view.baseline()) } else { String::new() }
}

/// Means, intervals and every value at one fixed size.
pub(super) fn values(view: &View<'_>, fixed: &Fixed<'_>) -> Figures {
    let scale = Scale::of([fixed.operation]);
    let all = || fixed.lines.iter().flat_map(|line| line.sets.iter().flatten());
    let runs = all().flat_map(|single| single.values.iter().map(|value| value.run + 1)).max().unwrap_or(0);
    let group = |line: &SizeLine<'_>| {
        let lines = line.sets.iter().enumerate().filter_map(|(set, single)| {
            let single = single.as_ref()?;
            let (lo, hi) =
                single.ci90.map_or((String::new(), String::new()), |[lo, hi]| (scale.show(lo), scale.show(hi)));
            let sd = single.sd.map(|sd| scale.show(sd)).unwrap_or_default();
            let described = [single.values.len().to_string(), scale.show(single.mean), sd, lo, hi];
            let value = |value: Option<&CellValue>| value.map(|value| scale.show(value.value)).unwrap_or_default();
            let values = by_run(single.values, runs).map(value);
            Some(FigureLine { column: set, cells: described.into_iter().chain(values).collect() })
        });
        FigureGroup { size: Bytes(line.bytes).to_string(), lines: lines.collect() }
    };
    let names = ["n", "mean", "sd", "90 % from", "to"].map(str::to_owned);
    Figures {
        caption: format!("{}: means, 90 % t-intervals and every value, in {}", fixed.title, scale.name),
        head: names.into_iter().chain((1..=runs).map(|run| format!("run {run}"))).collect(),
        size: fixed.varies,
        groups: fixed.lines.iter().map(group).collect(),
        names: view.names.clone(),
    }
}
