//! The times of operations: means, percentiles and counts.

use std::collections::BTreeMap;

use fsb_model::metric::{
    Better, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, LATENCY_P999, MetricKind, Role,
    Unit,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::document::{Fields, table};
use super::source::{Found, Source};
use crate::draft::Draft;

/// The latency that includes the submission: fio's `lat`. [`LATENCY_MEAN`] is fio's `clat`.
pub(crate) const TOTAL_LATENCY_MEAN: MetricKind = MetricKind {
    name: "total_latency_mean",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Latency,
    about: "Mean time of one operation with its submission (fio's lat).",
};

/// The percentiles that are kept, in percent.
pub(super) static PERCENTILES: [(f64, MetricKind); 4] = [
    (50.0, LATENCY_P50),
    (90.0, LATENCY_P90),
    (99.0, LATENCY_P99),
    (99.9, LATENCY_P999),
];

/// Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// The number of operations measured.
    pub count: u64,
    /// The mean of completion latency, or of total latency if fio printed no other.
    pub mean: Option<Found>,
    /// The mean latency that includes the submission.
    pub total: Option<Found>,
    /// The percentiles, in the order of [`PERCENTILES`].
    pub percentiles: [Option<Found>; 4],
    /// The number of operations by latency in nanoseconds.
    pub bins: BTreeMap<u64, u64>,
    /// The unit as printed.
    pub found_unit: &'static str,
}

impl Latency {
    /// Returns the times of a direction. `operations` is their number if fio does not print how
    /// many were timed.
    pub fn from_direction(
        direction: &Fields,
        operations: u64,
        source: &Source,
        draft: &mut Draft,
    ) -> Self {
        let nanoseconds = direction.get("clat_ns").is_some() || direction.get("lat_ns").is_some();
        let (completion, total, found_unit, a_second) = if nanoseconds {
            ("clat_ns", "lat_ns", "ns", 1e9)
        } else {
            ("clat", "lat", "us", 1e6)
        };
        let (completion, total) = (direction.object(completion), direction.object(total));
        let [mean, total_mean] = [&completion, &total].map(|times| {
            let mean = source.number(times.as_ref()?, "mean", draft)?;
            Some(mean.divided_by(a_second))
        });
        // With `lat_percentiles`, fio counts total latencies instead of completion latencies.
        let kept = completion
            .iter()
            .chain(&total)
            .find(|times| times.get("percentile").is_some() || times.get("bins").is_some());
        let all = kept.and_then(|times| times.get("percentile"));
        let printed: BTreeMap<String, &RawValue> = table(all);
        let percentiles = PERCENTILES.each_ref().map(|(percent, _)| {
            let mut same = printed.iter().filter(|(key, _)| is_percent(key, *percent));
            let (key, raw) = same.next()?;
            let is_repeated =
                all.is_some_and(|all| all.get().matches(&format!("\"{key}\"")).count() > 1);
            if is_repeated || same.next().is_some() {
                draft.remark(
                    source.line(raw),
                    format_args!("percentile {key} occurs twice; left out"),
                );
                return None;
            }
            Some(source.parse(raw, draft)?.divided_by(a_second))
        });
        // Before 3.0 the counts had bin numbers instead of times as keys, beside constants of the
        // format.
        let bins = kept
            .filter(|_| nanoseconds)
            .and_then(|times| times.get("bins"));
        Latency {
            count: kept
                .or(completion.as_ref())
                .and_then(|times| times.count("N"))
                .unwrap_or(operations),
            total: completion.as_ref().and(total_mean),
            mean: mean.or(total_mean),
            percentiles,
            bins: bins.map_or_else(BTreeMap::new, |raw| counts(raw, source, draft)),
            found_unit,
        }
    }

    /// Returns the percentiles of operations that are counted by latency.
    pub fn from_bins(bins: &BTreeMap<u64, u64>, count: u64, line: u32) -> Self {
        let percentiles = PERCENTILES.each_ref().map(|(percent, _)| {
            let value = quantile(bins, percent / 100.0)? / 1e9;
            Some(Found { value, line })
        });
        Latency {
            count,
            percentiles,
            found_unit: "ns",
            ..Latency::default()
        }
    }

    /// Adds another process that did the same work at the same time. Means are weighted.
    /// Percentiles come from the counts, or are lost if there are none.
    pub fn merge(&mut self, other: Latency) {
        let (mine, theirs) = (self.count as f64, other.count as f64);
        for (own, other) in [(&mut self.mean, other.mean), (&mut self.total, other.total)] {
            let both = own.zip(other).filter(|_| mine + theirs > 0.0);
            *own = both.map(|(a, b)| Found {
                value: (a.value * mine + b.value * theirs) / (mine + theirs),
                ..a
            });
        }
        if other.bins.is_empty() {
            self.bins.clear();
        } else if !self.bins.is_empty() {
            for (time, count) in other.bins {
                let sum = self.bins.entry(time).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        self.count = self.count.saturating_add(other.count);
        for (percentile, (percent, _)) in self.percentiles.iter_mut().zip(&PERCENTILES) {
            let value = quantile(&self.bins, percent / 100.0);
            *percentile = percentile.and_then(|found| {
                Some(Found {
                    value: value? / 1e9,
                    ..found
                })
            });
        }
    }
}

/// Returns the time of the bin that reaches the given share of all operations, as fio computes it.
fn quantile(bins: &BTreeMap<u64, u64>, share: f64) -> Option<f64> {
    let all: f64 = bins.values().map(|count| *count as f64).sum();
    let mut sum = 0.0;
    let reached = bins.iter().find(|(_, count)| {
        sum += **count as f64;
        sum >= share * all
    });
    reached.map(|(time, _)| *time as f64)
}

impl Latency {
    /// Returns the values to keep, one per metric. A percentile is kept only if at least a hundred
    /// operations are beyond it.
    pub fn values(&self) -> impl Iterator<Item = (&'static MetricKind, Found)> {
        let means = [
            (&LATENCY_MEAN, self.mean),
            (&TOTAL_LATENCY_MEAN, self.total),
        ];
        let mut values: Vec<(&'static MetricKind, Option<Found>)> = means.to_vec();
        for ((percent, metric), found) in PERCENTILES.iter().zip(self.percentiles) {
            if (100.0 - percent) * self.count as f64 >= 100.0 * 100.0 * (1.0 - 1e-9) {
                values.push((metric, found));
            }
        }
        values
            .into_iter()
            .filter_map(|(metric, found)| Some((metric, found?)))
    }
}

/// Returns the operations by latency; none if a count is not a whole number.
fn counts(raw: &RawValue, source: &Source, draft: &mut Draft) -> BTreeMap<u64, u64> {
    let printed: BTreeMap<String, Value> = table(Some(raw));
    let mut bins = BTreeMap::new();
    for (time, count) in printed
        .iter()
        .filter_map(|(time, count)| Some((time.parse().ok()?, count)))
    {
        let Some(count) = count.as_u64() else {
            draft.remark(
                source.line(raw),
                format_args!("'{count}' in a bin is not a count; the bins are left out"),
            );
            return BTreeMap::new();
        };
        bins.insert(time, count);
    }
    bins.retain(|_, count| *count > 0);
    bins
}

/// Returns whether a key of percentiles, such as `99.000000`, is that of `percent`.
pub(super) fn is_percent(key: &str, percent: f64) -> bool {
    key.parse::<f64>()
        .is_ok_and(|found| (found - percent).abs() < 1e-6)
}
