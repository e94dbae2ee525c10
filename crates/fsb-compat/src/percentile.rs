//! Percentiles of times of single operations.

use std::collections::BTreeMap;

/// Operations beyond a percentile that it needs to be read.
const BEYOND: u64 = 100;

/// Returns the time within which a share of the operations ended. Returns `None` if too few took
/// longer. `times` has the number of operations by time.
pub(crate) fn percentile(times: &BTreeMap<u64, u64>, share: f64) -> Option<u64> {
    let count: u64 = times.values().sum();
    let (mut seen, needed) = (0, (share * count as f64).ceil() as u64);
    if count.saturating_sub(needed) < BEYOND {
        return None;
    }
    times.iter().find_map(|(time, often)| {
        seen += often;
        (seen >= needed).then_some(*time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_a_hundred_operations_beyond_it() {
        let times = BTreeMap::from([(5, 900), (7, 100)]);
        assert_eq!(
            (percentile(&times, 0.5), percentile(&times, 0.9)),
            (Some(5), Some(5))
        );
        assert_eq!(percentile(&times, 0.95), None);
        assert_eq!(
            percentile(&BTreeMap::from([(5, 899), (7, 101)]), 0.9),
            Some(7)
        );
        assert_eq!(percentile(&BTreeMap::new(), 0.5), None);
    }
}
