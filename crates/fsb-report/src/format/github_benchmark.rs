//! Arrays for github-action-benchmark. The action takes one direction for a whole file, so each
//! direction is a format of its own.

use std::io::{self, Write};

use fsb_model::Better;
use serde::Serialize;

use super::member::Format;
use crate::measure::measures;
use crate::report::Report;

/// Values of which less is better, for `tool: customSmallerIsBetter`.
pub(super) const SMALLER: Format = Format {
    name: "benchmark-smaller",
    extension: "smaller.json",
    about: "times for github-action-benchmark, customSmallerIsBetter (a.smaller.json)",
    binary: false,
    checks: false,
    write: |report, output| write(report, Better::Lower, output),
};

/// Values of which more is better, for `tool: customBiggerIsBetter`.
pub(super) const BIGGER: Format = Format {
    name: "benchmark-bigger",
    extension: "bigger.json",
    about: "rates for github-action-benchmark, customBiggerIsBetter (a.bigger.json)",
    binary: false,
    checks: false,
    write: |report, output| write(report, Better::Higher, output),
};

#[derive(Serialize)]
struct Benchmark {
    name: String,
    unit: &'static str,
    value: f64,
    /// The half-width of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
}

fn write(report: &Report<'_>, better: Better, output: &mut dyn Write) -> io::Result<()> {
    let mut benchmarks = Vec::new();
    for measure in measures(report) {
        if measure.is_primary && measure.better == better {
            let half = measure.interval.map(|found| (found.hi - found.lo) / 2.0);
            benchmarks.push(Benchmark {
                name: measure.name(),
                unit: measure.unit.name(),
                value: measure.value,
                range: half.map(|half| format!("± {half:.3e}")),
            });
        }
    }
    serde_json::to_writer_pretty(&mut *output, &benchmarks)?;
    output.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    #[test]
    fn each_value_is_in_the_file_of_its_direction() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let report = Report::of_run(&summary, &trials);
        let read = |format: &Format| -> Vec<serde_json::Value> {
            serde_json::from_str(&format.render(&report)).expect("JSON")
        };
        let [smaller, bigger] = [&SMALLER, &BIGGER].map(read);
        assert_eq!((smaller.len(), bigger.len()), (0, 2 * summary.cases.len()));
        for one in &bigger {
            assert!(one["name"].is_string() && one["unit"].is_string() && one["value"].is_f64());
        }
    }
}
