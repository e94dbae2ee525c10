//! Numbers of one operation, all in one unit.

use fsb_analysis::compare::Operation;
use fsb_model::Unit;

use crate::chart::axis;

/// A unit for tables and axes, and what base units are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) divisor: f64,
    pub(crate) name: &'static str,
}

impl Scale {
    /// The unit of operations that are shown together: MiB/s as in published tables; times by their size.
    pub(crate) fn of<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Scale {
        let mut operations = operations.into_iter().peekable();
        let unit = operations.peek().map_or(Unit::Count, |operation| operation.unit);
        let medians =
            operations.flat_map(|operation| operation.classic.sets.values().flatten()).map(|pooled| pooled.median);
        match unit {
            Unit::BytesPerSecond => Scale { divisor: 1048576.0, name: "MiB/s" },
            Unit::OperationsPerSecond => Scale { divisor: 1.0, name: "operations/s" },
            other => {
                let found = axis::unit(other, medians.fold(f64::MAX, f64::min));
                Scale { divisor: found.divisor, name: found.name }
            }
        }
    }

    /// Two digits after the point, as in published tables; more where they would hide the number.
    pub(crate) fn show(self, value: f64) -> String {
        let value = value / self.divisor;
        let decimals =
            if value == 0.0 || value.abs() >= 1.0 { 2 } else { (3.0 - value.abs().log10().floor()).min(12.0) as usize };
        format!("{value:.decimals$}")
    }
}

/// A probability: `0.034`; a tiny one with its magnitude.
pub(crate) fn p_value(p: f64) -> String {
    if p >= 1e-4 || p == 0.0 { format!("{p:.4}") } else { format!("{p:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_after_the_point_and_small_ones_four_in_all() {
        let scale = Scale { divisor: 1048576.0, name: "MiB/s" };
        for (value, text) in
            [(1231.0149, "1231.01"), (50.43, "50.43"), (9.678, "9.68"), (0.034_512, "0.03451"), (0.0, "0.00")]
        {
            assert_eq!(scale.show(value * 1048576.0), text);
        }
        assert_eq!((p_value(0.0), p_value(0.0345), p_value(1e-9)), ("0.0000".into(), "0.0345".into(), "1.0e-9".into()));
    }
}
