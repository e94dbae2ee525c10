//! The long tables: every statistic size by size, and every value.
//!
//! There are thousands of cells here, so their markup is as little as HTML allows.

use fsb_analysis::compare::{Operation, Slice};
use fsb_model::units::Bytes;

use super::numbers::Scale;
use super::tables::{AGAINST, POOLED};
use crate::compare::view::{Fixed, View};

/// A table with a group of lines a size, and a line a set in each.
pub(super) struct Figures {
    pub(super) caption: String,
    /// Heads of the columns after size and set.
    pub(super) head: Vec<String>,
    pub(super) size: &'static str,
    pub(super) groups: Vec<Group>,
}

/// One size.
pub(super) struct Group {
    pub(super) size: String,
    pub(super) lines: Vec<FigureLine>,
}

/// One set at one size.
pub(super) struct FigureLine {
    pub(super) set: usize,
    pub(super) cells: Vec<String>,
}

/// The statistics of 2011 by file size or by record size.
pub(super) fn classic(view: &View<'_>, operation: &Operation, slices: &[Slice], size: &'static str) -> Option<Figures> {
    let scale = Scale::of([operation]);
    let group = |slice: &Slice| {
        let cells = view.slice_cells(slice);
        let lines = cells.iter().enumerate().filter_map(|(set, cell)| {
            let pooled = cell.pooled?;
            let own = POOLED.iter().map(|(_, of)| of(pooled, scale));
            let against = AGAINST.iter().map(|(_, of)| cell.classic.map(of).unwrap_or_default());
            let against = against.take(if view.is_comparison() { AGAINST.len() } else { 0 });
            Some(FigureLine { set, cells: own.chain(against).collect() })
        });
        Group { size: Bytes(slice.bytes).to_string(), lines: lines.collect() }
    };
    let own = POOLED.iter().map(|(name, _)| (*name).to_owned());
    let against =
        AGAINST.iter().map(|(name, _)| name.trim_end_matches("against").trim_end_matches([' ', ',']).to_owned());
    let against = against.take(if view.is_comparison() { AGAINST.len() } else { 0 });
    (slices.len() > 1).then(|| Figures {
        caption: format!("Classic by {size}, in {}{}", scale.name, beside(view)),
        head: own.chain(against).collect(),
        size,
        groups: slices.iter().map(group).collect(),
    })
}

fn beside(view: &View<'_>) -> String {
    if view.is_comparison() { format!("; the last columns against {}", view.baseline()) } else { String::new() }
}

/// Means, intervals and every value at one fixed size.
pub(super) fn values(fixed: &Fixed<'_>) -> Figures {
    let scale = Scale::of([fixed.operation]);
    let all = || fixed.lines.iter().flat_map(|line| line.sets.iter().flatten());
    let runs = all().flat_map(|single| single.values.iter().map(|value| value.run + 1)).max().unwrap_or(0);
    let group = |line: &crate::compare::view::Line<'_>| {
        let lines = line.sets.iter().enumerate().filter_map(|(set, single)| {
            let single = single.as_ref()?;
            let (lo, hi) =
                single.ci90.map_or((String::new(), String::new()), |[lo, hi]| (scale.show(lo), scale.show(hi)));
            let sd = single.sd.map(|sd| scale.show(sd)).unwrap_or_default();
            let mut cells = vec![single.values.len().to_string(), scale.show(single.mean), sd, lo, hi];
            let value = |run: usize| single.values.iter().find(|value| value.run == run);
            cells.extend((0..runs).map(|run| value(run).map(|value| scale.show(value.value)).unwrap_or_default()));
            Some(FigureLine { set, cells })
        });
        Group { size: Bytes(line.bytes).to_string(), lines: lines.collect() }
    };
    let names = ["n", "mean", "sd", "90 % from", "to"].map(str::to_owned);
    Figures {
        caption: format!("{}: means, 90 % t-intervals and every value, in {}", fixed.title, scale.name),
        head: names.into_iter().chain((1..=runs).map(|run| format!("run {run}"))).collect(),
        size: fixed.varies,
        groups: fixed.lines.iter().map(group).collect(),
    }
}
