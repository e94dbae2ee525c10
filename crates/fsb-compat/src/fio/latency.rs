//! Times of fio's operations: the mean, four percentiles, and the counts of json+.

use std::collections::BTreeMap;

use fsb_model::metric::{
    Better, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, LATENCY_P999, MetricKind, Role, Unit,
};

use serde_json::value::RawValue;

use super::document::{Direction, Times, table};

/// From submission to completion and with submission itself: fio's `lat`, where [`LATENCY_MEAN`] is its `clat`.
pub(super) const TOTAL_LATENCY_MEAN: MetricKind = MetricKind {
    name: "total_latency_mean",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Latency,
    about: "Mean time of one operation with its submission (fio's lat).",
};

/// The percentiles that are kept, in percent.
pub(super) static PERCENTILES: [(f64, MetricKind); 4] =
    [(50.0, LATENCY_P50), (90.0, LATENCY_P90), (99.0, LATENCY_P99), (99.9, LATENCY_P999)];

/// A number, and where it stands in the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub value: f64,
    pub offset: usize,
}

/// Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// How many were measured.
    pub count: u64,
    /// The mean of completion latency, or of total latency where there is no other.
    pub mean: Option<Found>,
    /// The mean with submission.
    pub total: Option<Found>,
    /// In the order of [`PERCENTILES`].
    pub percentiles: [Option<Found>; 4],
    /// Nanoseconds and how often.
    pub bins: BTreeMap<u64, u64>,
    /// The unit as printed.
    pub found_unit: &'static str,
}

impl Latency {
    /// The times of a direction. `number` reads a number of the document.
    pub fn of<'a>(direction: &Direction<'a>, number: impl Fn(&'a RawValue) -> Option<Found>) -> Self {
        let nanoseconds = direction.clat_ns.is_some() || direction.lat_ns.is_some();
        let (completion, total, found_unit, a_second) = if nanoseconds {
            (&direction.clat_ns, &direction.lat_ns, "ns", 1e9)
        } else {
            (&direction.clat, &direction.lat, "us", 1e6)
        };
        let seconds = |raw| number(raw).map(|found| Found { value: found.value / a_second, ..found });
        let mean = |times: &Option<Times<'a>>| times.as_ref().and_then(|times| times.mean).and_then(seconds);
        // With `lat_percentiles` fio counts the total latency instead.
        let counted = |times: &&Times| times.percentile.is_some() || times.bins.is_some();
        let kept = completion.as_ref().filter(counted).or(total.as_ref().filter(counted));
        let printed: BTreeMap<String, &RawValue> = table(kept.and_then(|times| times.percentile));
        let percentiles = PERCENTILES.each_ref().map(|(percent, _)| {
            let same = |key: &str| key.parse::<f64>().is_ok_and(|found| (found - percent).abs() < 1e-6);
            printed.iter().find(|(key, _)| same(key)).and_then(|(_, raw)| seconds(raw))
        });
        // Before 3.0 the counts stood beside constants of the format, by numbers of bins instead of times.
        let bins: BTreeMap<String, u64> = table(kept.filter(|_| nanoseconds).and_then(|times| times.bins));
        let bins = bins.into_iter().filter_map(|(time, count)| Some((time.parse().ok()?, count)));
        Latency {
            count: kept.or(completion.as_ref()).and_then(|times| times.count).unwrap_or(direction.total_ios),
            mean: mean(completion).or_else(|| mean(total)),
            total: completion.as_ref().and_then(|_| mean(total)),
            percentiles,
            bins: bins.filter(|(_, count)| *count > 0).collect(),
            found_unit,
        }
    }

    /// Adds another process that did the same at the same time. Means are weighted; percentiles come from the counts, or
    /// are lost where there are none.
    pub fn merge(&mut self, other: Latency) {
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let weigh = |a: Option<Found>, b: Option<Found>| match (a, b) {
            (Some(a), Some(b)) if mine + theirs > 0.0 => {
                Some(Found { value: (a.value * mine + b.value * theirs) / (mine + theirs), ..a })
            }
            _ => None,
        };
        self.mean = weigh(self.mean, other.mean);
        self.total = weigh(self.total, other.total);
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
            *percentile = percentile.and_then(|found| Some(Found { value: value? / 1e9, ..found }));
        }
    }
}

/// The time in whose bin the given share of all is reached, as fio takes it.
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
    /// The values to keep: a metric each. A percentile needs a hundred values beyond it to be one.
    pub fn values(&self) -> impl Iterator<Item = (&'static MetricKind, Found)> {
        let means = [(&LATENCY_MEAN, self.mean), (&TOTAL_LATENCY_MEAN, self.total)];
        let enough = |percent: f64| (100.0 - percent) * self.count as f64 >= 100.0 * 100.0 * (1.0 - 1e-9);
        let percentiles: Vec<_> = PERCENTILES
            .iter()
            .zip(self.percentiles)
            .filter(|((percent, _), _)| enough(*percent))
            .map(|((_, metric), found)| (metric, found))
            .collect();
        means.into_iter().chain(percentiles).filter_map(|(metric, found)| Some((metric, found?)))
    }
}
