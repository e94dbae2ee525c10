//! The units of the Phoronix Test Suite: free text of each test's author.

use fsb_model::metric::{Better, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::GapReason;

use crate::draft::{rate, time};

/// The metric of a test, and the factor from its unit to the base unit.
pub(super) struct Scale {
    pub metric: MetricKind,
    pub factor: f64,
    /// Whether the unit becomes part of the operation's name, because the metric does not imply it.
    pub in_name: bool,
}

/// The time of a test, or of one of its operations.
const TIME: MetricKind = MetricKind {
    name: "time",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Rate,
    about: "The time that the test printed: of the whole test or of one operation.",
};

/// A number in a unit that fsb does not know.
const SCORE: MetricKind = MetricKind {
    name: "score",
    unit: Unit::Count,
    better: Better::Higher,
    role: Role::Rate,
    about: "The number that the test printed, in its own unit.",
};

/// The units of the published tests of disks, in the spelling of the tests. `Mb/s` is a rate of bits and has no line.
#[rustfmt::skip] // a table reads as one
static SCALES: [(&[&str], MetricKind, f64); 14] = [
    (&["byte/s", "bytes/s", "B/s"], THROUGHPUT, 1.0),
    (&["KB/s", "kB/s"], THROUGHPUT, 1e3),
    (&["MB/s", "MB/sec"], THROUGHPUT, 1e6),
    (&["GB/s", "GB/sec"], THROUGHPUT, 1e9),
    (&["KiB/s"], THROUGHPUT, 1024.0),
    (&["MiB/s", "MiB/sec"], THROUGHPUT, 1_048_576.0),
    (&["GiB/s", "GiB/sec"], THROUGHPUT, 1_073_741_824.0),
    (&["IOPS", "Files/s", "Op/s", "Ops/sec", "ops/sec", "ops/s", "Operations Per Second"], OPERATION_RATE, 1.0),
    (&["TPS", "Transactions Per Second", "Requests Per Second", "Queries Per Second"], OPERATION_RATE, 1.0),
    (&["Seconds", "seconds", "sec", "s"], TIME, 1.0),
    (&["Milliseconds", "Milli-Seconds", "ms"], TIME, 1e-3),
    (&["Microseconds", "usecs", "usec", "us"], TIME, 1e-6),
    (&["Nanoseconds", "ns"], TIME, 1e-9),
    (&["Bytes", "bytes"], MetricKind { name: "size", unit: Unit::Bytes, ..SCORE }, 1.0),
];

impl Scale {
    /// Returns the metric of a unit and of the direction that the file states: `HIB` (higher is better) or `LIB`.
    /// Returns `None` if neither the file nor the unit gives a direction.
    pub fn of(scale: &str, proportion: &str) -> Option<Scale> {
        let stated = match proportion {
            "HIB" => Some(Better::Higher),
            "LIB" => Some(Better::Lower),
            _ => None,
        };
        let known = SCALES.iter().find(|(spellings, ..)| spellings.contains(&scale));
        Some(match known {
            Some((_, metric, factor)) => {
                let metric = MetricKind { better: stated.unwrap_or(metric.better), ..*metric };
                Scale { metric, factor: *factor, in_name: false }
            }
            None => Scale { metric: MetricKind { better: stated?, ..SCORE }, factor: 1.0, in_name: true },
        })
    }
}

/// Returns a value of a metric, or the reason why a zero is none.
pub(super) fn measured(value: f64, metric: &MetricKind) -> Result<f64, GapReason> {
    if metric.unit == Unit::Seconds { time(value) } else { rate(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_of_the_file_has_precedence_over_that_of_the_unit() {
        let better = |scale: &str, proportion: &str| Scale::of(scale, proportion).map(|scale| scale.metric.better);
        assert_eq!(better("Seconds", "LIB"), Some(Better::Lower));
        assert_eq!(better("Seconds", "HIB"), Some(Better::Higher));
        assert_eq!(better("IOPS", ""), Some(Better::Higher));
        assert_eq!(better("Frames Per Second", "HIB"), Some(Better::Higher));
        assert_eq!(better("Frames Per Second", ""), None);
    }

    #[test]
    fn every_spelling_is_listed_once() {
        let all: Vec<&str> = SCALES.iter().flat_map(|(spellings, ..)| spellings.iter().copied()).collect();
        for (place, spelling) in all.iter().enumerate() {
            assert!(!all[..place].contains(spelling), "{spelling}");
        }
    }
}
