//! Latencies: HdrHistograms of all trials of a cell, merged.

use std::collections::BTreeMap;

use fsb_stats::histogram;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::trial_value::CompactTrial;

/// A quantile is printed only where at least this number of operations lies beyond it.
const FEWEST_BEYOND: f64 = 100.0;

/// Quantiles of tables.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// Quantiles of curves: denser, as far out as the rule allows.
const CURVE: [f64; 22] = [
    0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995,
    0.998, 0.999, 0.9995, 0.9999, 0.99999,
];

/// The latencies of one kind of operation in all trials of a cell together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The operation.
    pub operation: String,
    /// Operations.
    pub n: u64,
    /// Mean, seconds.
    pub mean: f64,
    /// The quantiles with enough operations beyond them.
    pub quantiles: Vec<Quantile>,
    /// Further quantiles, for the curve in the chart.
    pub curve: Vec<Quantile>,
}

/// A point of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// The share of operations that took at most this time.
    pub q: f64,
    /// Seconds.
    pub seconds: f64,
}

impl Latency {
    /// Returns the quantile at exactly `q`, if it is printed.
    pub fn at(&self, q: f64) -> Option<f64> {
        self.quantiles
            .iter()
            .find(|quantile| quantile.q == q)
            .map(|quantile| quantile.seconds)
    }
}

/// Merges the histograms of all trials by operation; latencies are never averaged. A histogram that
/// cannot be decoded is left out: it only describes a trial, whose value remains valid without it.
pub(crate) fn merged(trials: &[&CompactTrial]) -> Vec<Latency> {
    let mut histograms: BTreeMap<&str, Histogram<u64>> = BTreeMap::new();
    for (operation, text) in trials.iter().flat_map(|trial| &trial.extras().latency) {
        let Some(histogram) = histogram::decode(text) else {
            continue;
        };
        match histograms.get_mut(operation.as_str()) {
            // All histograms of one operation have the same bounds. One that does not fit is not
            // from FSBench and is left out.
            Some(sum) => drop(sum.add(histogram)),
            None => drop(histograms.insert(operation, histogram)),
        }
    }
    let mut latencies: Vec<Latency> = histograms
        .into_iter()
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(operation, histogram)| summary(operation, &histogram))
        .collect();
    latencies.sort_by(|a, b| b.n.cmp(&a.n).then_with(|| a.operation.cmp(&b.operation)));
    latencies
}

fn summary(operation: &str, histogram: &Histogram<u64>) -> Latency {
    let n = histogram.len();
    let printed = |q: &&f64| (1.0 - **q) * n as f64 >= FEWEST_BEYOND - 1e-6;
    let at = |q: &f64| Quantile {
        q: *q,
        seconds: histogram.value_at_quantile(*q) as f64 * 1e-9,
    };
    Latency {
        operation: operation.to_owned(),
        n,
        mean: histogram.mean() * 1e-9,
        quantiles: QUANTILES.iter().filter(printed).map(at).collect(),
        curve: CURVE.iter().filter(printed).map(at).collect(),
    }
}

/// Returns the name of a quantile, such as `p50` or `p99.9`.
pub(crate) fn quantile_name(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

/// Returns the position of a quantile on an axis: equal steps for each additional nine (90 %, 99 %,
/// 99.9 %).
pub(crate) fn stretched(q: f64) -> f64 {
    -(1.0 - q).log10()
}

/// Returns the quantiles that an axis up to this position has ticks for.
pub(crate) fn quantile_ticks(far: f64) -> Vec<f64> {
    let mut ticks = vec![0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    ticks.retain(|q| stretched(*q) <= far + 1e-9);
    ticks
}

/// Returns the quantiles that tables have columns for.
pub(crate) fn columns() -> &'static [f64] {
    &QUANTILES
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    fn encoded(values: impl Iterator<Item = u64>) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        values.for_each(|value| histogram.record(value).unwrap());
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&histogram, &mut bytes)
            .unwrap();
        STANDARD.encode(bytes)
    }

    #[test]
    fn merging_adds_counts_and_prints_only_what_is_supported() {
        let texts = [
            encoded((1..=6000).map(|i| i * 1000)),
            encoded((6001..=10_000).map(|i| i * 1000)),
        ];
        let mut sum = histogram::decode(&texts[0]).unwrap();
        sum.add(histogram::decode(&texts[1]).unwrap()).unwrap();
        let latency = summary("read", &sum);
        assert_eq!(latency.n, 10_000);
        // 100 of 10,000 lie beyond p99, only 10 beyond p99.9.
        let printed: Vec<f64> = latency
            .quantiles
            .iter()
            .map(|quantile| quantile.q)
            .collect();
        assert_eq!(printed, [0.5, 0.9, 0.99]);
        assert!((latency.at(0.5).unwrap() / 5e-3 - 1.0).abs() < 0.01);
        assert_eq!(latency.at(0.999), None);
    }

    #[test]
    fn garbage_is_left_out() {
        assert!(histogram::decode("not base64!").is_none());
        assert!(histogram::decode("AAAA").is_none());
    }

    #[test]
    fn names() {
        let names: Vec<String> = QUANTILES.iter().map(|q| quantile_name(*q)).collect();
        assert_eq!(names, ["p50", "p90", "p99", "p99.9", "p99.99"]);
    }
}
