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

/// `equal within 1 %`, `no difference larger than 6 %`, `a difference of no more than 8 %`, `undecided`.
pub(crate) fn words(resolution: Resolution) -> String {
    match resolution {
        Resolution::EqualWithin(change) => format!("equal within {}", bound(change)),
        Resolution::NoDifferenceAbove(change) => format!("no difference larger than {}", bound(change)),
        Resolution::NoMoreThan(change) => format!("a difference of no more than {}", bound(change)),
        Resolution::Undecided(_) => "undecided".to_owned(),
    }
}

/// A line below the table for each kind of row without a winner.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let rows_with = |wanted: fn(Resolution) -> bool| {
        let of = |row: &Workload| {
            let resolution = row.resolution.filter(|resolution| wanted(*resolution))?;
            Some(format!("{} at {}", bound(resolution.change()), row.workload))
        };
        some_rows(&summary.rows.iter().filter_map(of).collect::<Vec<_>>())
    };
    let lines = [
        ("Equal within ", rows_with(|found| matches!(found, Resolution::EqualWithin(_)))),
        ("No difference larger than ", rows_with(|found| matches!(found, Resolution::NoDifferenceAbove(_)))),
        ("A difference of no more than ", rows_with(|found| matches!(found, Resolution::NoMoreThan(_)))),
        ("Undecided, up to ", rows_with(|found| matches!(found, Resolution::Undecided(_)))),
    ];
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

    #[test]
    fn only_rows_without_a_difference_say_so() {
        let said = [Resolution::NoDifferenceAbove(0.06), Resolution::NoMoreThan(0.06), Resolution::Undecided(0.4)];
        assert_eq!(said.map(|found| words(found).contains("no difference")), [true, false, false]);
    }
}
