//! The statistics of an execution of ioping in its three forms.

use std::collections::BTreeMap;

use fsb_model::metric::{
    Better, LATENCY_MAX, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, MetricKind, Role,
    Unit,
};
use fsb_model::set::{GapReason, Histogram};

use crate::draft::{Draft, Name, Position, time};
use crate::percentile::percentile;
use crate::text::{self, split_unit, whole};
use crate::tool::ReadError;

const LATENCY_MIN: MetricKind = MetricKind {
    name: "latency_min",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Cost,
    about: "Time of the shortest operation.",
};

const LATENCY_DEVIATION: MetricKind = MetricKind {
    name: "latency_stddev",
    about: "Standard deviation of the times of single operations.",
    ..LATENCY_MIN
};

/// The statistics of an execution: seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Statistics {
    /// Requests that count. Those for warming up do not.
    pub valid: u64,
    /// Valid requests and those for warming up, if the line has both.
    all: Option<u64>,
    /// Bytes of a request.
    pub size: Option<u64>,
    pub line: u32,
    sum: f64,
    shortest: f64,
    mean: f64,
    longest: f64,
    deviation: f64,
    /// The unit of the last printed digit of the mean.
    tick: f64,
}

impl Statistics {
    /// Reads a raw line: valid requests, the sum of their times, requests and bytes per second of
    /// that sum, shortest, mean, longest, deviation. Since 1.0 times are nanoseconds, and all
    /// requests and the elapsed time follow.
    pub fn from_raw(text: &str, line: u32) -> Option<Statistics> {
        let fields: Option<Vec<u64>> = text
            .split(' ')
            .map(|field| whole(field.as_bytes()))
            .collect();
        let fields = fields?;
        let unit = match fields.len() {
            8 => 1e-6,
            10 => 1e-9,
            _ => return None,
        };
        let [
            valid,
            sum,
            rate,
            bytes,
            shortest,
            mean,
            longest,
            deviation,
            ..,
        ] = fields[..]
        else {
            return None;
        };
        let sum_of_means = valid.checked_mul(mean)?;
        let possible = sum_of_means.abs_diff(sum) <= valid && shortest <= mean && mean <= longest;
        let more = fields.get(8).is_none_or(|all| *all >= valid);
        if !possible || !more || bytes < rate || valid == 0 {
            return None;
        }
        let [sum, shortest, longest, deviation] =
            [sum, shortest, longest, deviation].map(|time| time as f64 * unit);
        let size = (bytes as f64 * sum / valid as f64 / 512.0).round() * 512.0;
        let size = (size > 0.0).then_some(size as u64);
        let all = fields.get(8).copied();
        let mean = sum / valid as f64;
        Some(Statistics {
            valid,
            all,
            size,
            line,
            sum,
            shortest,
            mean,
            longest,
            deviation,
            tick: unit,
        })
    }

    /// Returns those of whole nanoseconds: requests, sum, shortest, longest.
    pub fn from_counts(counts: [u64; 4], deviation: f64, line: u32) -> Statistics {
        let [valid, sum, shortest, longest] = counts;
        let [sum, shortest, longest] = [sum, shortest, longest].map(|time| time as f64 / 1e9);
        let mean = if valid > 0 { sum / valid as f64 } else { 0.0 };
        let (all, size, deviation) = (None, None, deviation / 1e9);
        Statistics {
            valid,
            all,
            size,
            line,
            sum,
            shortest,
            mean,
            longest,
            deviation,
            tick: 1e-9,
        }
    }

    /// Reads `140.9 us / 201.6 us / 234.5 us / 43.0 us`, or `0.1/0.3/0.4/0.1 ms` of 0.6.
    pub fn from_text(text: &str, line: u32) -> Option<Statistics> {
        let parts: Vec<&str> = text.split('/').map(str::trim).collect();
        let last = split_unit(parts.last()?).1;
        let times: Option<Vec<f64>> = parts.iter().map(|part| duration(part, last)).collect();
        let [shortest, mean, longest, deviation] = times?[..] else {
            return None;
        };
        let (number, unit) = split_unit(parts[1]);
        let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        let tick = duration(&format!("1{unit}"), last)? / 10f64.powi(digits as i32);
        let (all, size) = (None, None);
        Some(Statistics {
            valid: 1,
            all,
            size,
            line,
            sum: mean,
            shortest,
            mean,
            longest,
            deviation,
            tick,
        })
    }

    /// Adds another period. The deviation of both is unknown.
    fn plus(self, other: &Statistics) -> Statistics {
        let (valid, sum) = (self.valid.saturating_add(other.valid), self.sum + other.sum);
        Statistics {
            valid,
            all: self
                .all
                .zip(other.all)
                .map(|(one, other)| one.saturating_add(other)),
            line: other.line,
            sum,
            shortest: self.shortest.min(other.shortest),
            mean: sum / valid as f64,
            longest: self.longest.max(other.longest),
            deviation: 0.0,
            ..self
        }
    }

    /// Returns whether these can be the statistics of an execution that had the given periods.
    fn includes(&self, periods: &Statistics) -> bool {
        self.valid >= periods.valid
            && self.all >= periods.all
            && self.sum >= periods.sum * 0.999_999
            && self.shortest <= periods.shortest
            && self.longest >= periods.longest
    }

    /// Adds the times to a run. ioping's rate is the inverse of the mean, and says nothing else.
    pub fn add(&self, operation: &str, draft: &mut Draft) -> Result<(), ReadError> {
        let name = Name {
            workload: None,
            operation,
        };
        let place = Position {
            file_size: None,
            record_size: self.size,
            line: self.line,
        };
        draft.run.clock_resolution = Some(self.tick);
        if self.valid == 0 {
            draft.remark(self.line, "no request completed that is not for warming up");
            return draft.add(name, &LATENCY_MEAN, "ns", place, Err(GapReason::Zero));
        }
        draft.add(name, &LATENCY_MEAN, "ns", place, time(self.mean))?;
        for (metric, value) in [
            (LATENCY_MIN, self.shortest),
            (LATENCY_DEVIATION, self.deviation),
        ] {
            // The deviation of one request is zero.
            if value > 0.0 {
                draft.add(name, &metric, "ns", place, time(value))?;
            }
        }
        draft.add(name, &LATENCY_MAX, "ns", place, time(self.longest))
    }
}

/// Parses `201.6 us`, or `0.3` in the unit of another number.
fn duration(text: &str, unit: &str) -> Option<f64> {
    let (number, own) = split_unit(text);
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("min", 60.0),
        ("hour", 3600.0),
        ("day", 86_400.0),
    ];
    let own = if own.is_empty() { unit } else { own };
    let (_, factor) = units.into_iter().find(|(known, _)| *known == own)?;
    number.parse::<f64>().ok().map(|value| value * factor)
}

/// Parses the size of a request: `4 KiB`, `4096 bytes`, `512 B`, behind a time of day where there
/// is one.
pub(super) fn size(text: &str) -> Option<u64> {
    let mut words = text.rsplit(' ');
    let (unit, number) = (words.next()?, words.next()?);
    text::size(&format!("{number} {unit}"))
}

/// Returns the statistics of each execution, and a remark about lines that were put together. With
/// `-p` and `-P` an execution prints a line for each period, and with `-B` their sum as the last
/// one. Requests for warming up are part of the first period and of the sum, so only these have
/// more requests than valid ones.
pub(super) fn executions(raw: &[Statistics]) -> Vec<(Statistics, Option<String>)> {
    let mut found: Vec<(Statistics, Option<String>)> = Vec::new();
    let mut at = 0;
    while let Some(first) = raw.get(at) {
        let periods = 1 + raw[at + 1..]
            .iter()
            .take_while(|one| one.all == Some(one.valid))
            .count();
        let sum = raw[at + 1..at + periods]
            .iter()
            .fold(*first, |sum, one| sum.plus(one));
        let total = raw
            .get(at + periods)
            .filter(|total| periods > 1 && total.includes(&sum));
        at += periods + usize::from(total.is_some());
        found.push(match (total, periods) {
            (Some(total), _) => (
                *total,
                Some(format!("the sum of the {periods} lines before it (-p, -P)")),
            ),
            (None, 1) => (*first, None),
            (None, _) => (
                sum,
                Some(format!(
                    "the sum of {periods} lines of periods of one execution (-p, -P)"
                )),
            ),
        });
    }
    found
}

/// Adds the percentiles that enough requests support, and the times of all requests.
pub(super) fn add_percentiles(
    operation: &str,
    size: Option<u64>,
    times: &BTreeMap<u64, u64>,
    line: u32,
    draft: &mut Draft,
) -> Result<(), ReadError> {
    let name = Name {
        workload: None,
        operation,
    };
    let place = Position {
        file_size: None,
        record_size: size,
        line,
    };
    for (share, metric) in [(0.5, LATENCY_P50), (0.9, LATENCY_P90), (0.99, LATENCY_P99)] {
        if let Some(nanoseconds) = percentile(times, share) {
            draft.add(name, &metric, "ns", place, time(nanoseconds as f64 / 1e9))?;
        }
    }
    if !times.is_empty() {
        let bins = times
            .iter()
            .map(|(nanoseconds, often)| (*nanoseconds, *often))
            .collect();
        draft.run.histograms.push(Histogram {
            workload: None,
            operation: operation.to_owned(),
            bins,
        });
    }
    Ok(())
}
