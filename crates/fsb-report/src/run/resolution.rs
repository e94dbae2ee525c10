//! What rows without a winner say.

use fsb_analysis::Resolution;

use super::summary::{Summary, Workload};
use crate::show::some_rows;

/// A bound as people read it, rounded away from nothing: `6 %`, `0.8 %`.
pub(crate) fn bound(change: f64) -> String {
    let percent = change * 100.0 - 1e-9;
    let rounded = if percent <= 1.0 { (percent * 10.0).ceil() / 10.0 } else { percent.ceil() };
    // Not "-0 %".
    format!("{} %", if rounded > 0.0 { rounded } else { 0.0 })
}

/// `equal within 1 %`, `no difference above 6 %`.
pub(crate) fn words(resolution: Resolution) -> String {
    match resolution {
        Resolution::EqualWithin(change) => format!("equal within {}", bound(change)),
        Resolution::NoDifferenceAbove(change) => format!("no difference above {}", bound(change)),
    }
}

/// Two lines below the table, where there are such rows: which are equal, and which are not decided.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let said = |wanted: fn(Resolution) -> bool| {
        let of = |row: &Workload| {
            let resolution = row.resolution.filter(|resolution| wanted(*resolution))?;
            Some(format!("{} at {}", bound(resolution.change()), row.workload))
        };
        some_rows(&summary.rows.iter().filter_map(of).collect::<Vec<_>>())
    };
    let equal = said(|resolution| matches!(resolution, Resolution::EqualWithin(_)));
    let open = said(|resolution| matches!(resolution, Resolution::NoDifferenceAbove(_)));
    let lines = [("Equal within ", equal), ("? no difference above ", open)];
    lines.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(start, rows)| format!("{start}{rows}.")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_never_rounded_down() {
        for (change, text) in
            [(0.06, "6 %"), (0.0601, "7 %"), (0.0123, "2 %"), (0.01, "1 %"), (0.0081, "0.9 %"), (0.0, "0 %")]
        {
            assert_eq!(bound(change), text);
        }
    }
}
