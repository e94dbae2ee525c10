//! Latencies of whole sets: histograms are merged, never averaged.

use std::collections::BTreeMap;

use super::document::{BySet, LatencyQuantile};
use super::key::Key;
use super::region::Frame;

/// The quantiles that are shown.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];
/// A quantile is shown where at least this number of values lies beyond it.
const FEWEST_BEYOND: f64 = 100.0;

/// By set, of all its runs together; empty where a set has no histogram of the operation.
pub(super) fn quantiles(frame: &Frame, key: &Key) -> BySet<Vec<LatencyQuantile>> {
    frame.by_set(|set| {
        let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
        // A workload's name may have been dropped to compare different tools.
        let same = |workload: &Option<String>| key.workload.is_none() || *workload == key.workload;
        let of_key = frame.sets[set].latencies.iter();
        let of_key = of_key.filter(|((workload, operation), _)| *operation == key.operation && same(workload));
        for (_, bins) in of_key {
            for (nanoseconds, count) in bins {
                let sum = merged.entry(*nanoseconds).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        of_bins(&merged)
    })
}

fn of_bins(bins: &BTreeMap<u64, u64>) -> Vec<LatencyQuantile> {
    let total = bins.values().fold(0u64, |sum, count| sum.saturating_add(*count));
    let enough = |q: &f64| (1.0 - q) * total as f64 >= FEWEST_BEYOND - 1e-6;
    let at = |q: f64| {
        let rank = (q * total as f64).ceil() as u64;
        let mut seen = 0u64;
        bins.iter().find_map(|(nanoseconds, count)| {
            seen = seen.saturating_add(*count);
            (seen >= rank).then_some(*nanoseconds as f64 * 1e-9)
        })
    };
    QUANTILES.into_iter().filter(enough).filter_map(|q| Some(LatencyQuantile { q, seconds: at(q)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks_and_only_where_enough_lies_beyond() {
        let bins: BTreeMap<u64, u64> = (1..=1000).map(|nanoseconds| (nanoseconds * 1000, 1)).collect();
        let found = of_bins(&bins);
        assert_eq!(found.iter().map(|quantile| quantile.q).collect::<Vec<_>>(), [0.5, 0.9]);
        assert!((found[0].seconds - 500e-6).abs() < 1e-12 && (found[1].seconds - 900e-6).abs() < 1e-12);
        assert!(of_bins(&BTreeMap::new()).is_empty());
    }
}
