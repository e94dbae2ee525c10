//! Metrics for Bencher: the Bencher Metric Format, which `bencher run --adapter json` reads.
//!
//! Source: bencher.dev/docs/reference/bencher-metric-format.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::member::Format;
use crate::measure::measures;
use crate::report::Report;

pub(super) const FORMAT: Format = Format {
    name: "bencher",
    extension: "bmf.json",
    about: "values for Bencher, with intervals: Bencher Metric Format (a.bmf.json)",
    binary: false,
    checks: false,
    write,
};

#[derive(Serialize)]
struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// Writes an object by benchmark, then by measure. Names of measures are slugs: Bencher accepts 64
/// characters.
fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    let mut benchmarks: BTreeMap<String, BTreeMap<String, Metric>> = BTreeMap::new();
    for measure in measures(report) {
        let metric = Metric {
            value: measure.value,
            lower_value: measure.interval.map(|found| found.lo),
            upper_value: measure.interval.map(|found| found.hi),
        };
        let of_benchmark = benchmarks.entry(measure.name()).or_default();
        of_benchmark.insert(measure.metric.replace('_', "-"), metric);
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
    fn values_lie_within_their_bounds() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let text = FORMAT.render(&Report::of_run(&summary, &trials));
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            found.as_object().expect("an object").len(),
            2 * summary.cases.len()
        );
        let metric = &found["write 1M, durable / xfs"]["throughput"];
        let [value, lo, hi] = ["value", "lower_value", "upper_value"]
            .map(|name| metric[name].as_f64().expect("a number"));
        assert!(lo < value && value < hi, "{metric}");
    }
}
