//! DLIO and MLPerf Storage: the file `summary.json` of a training run.
//!
//! Written from published results (MLPerf Storage 1.0) and the source of DLIO; not tried on its own
//! output. A file is one run: its epochs read the same files again and are no repetitions of it.

use std::io::BufRead;

use fsb_model::metric::{Better, MetricKind, Role, THROUGHPUT, Unit};
use fsb_model::set::Run;
use serde_json::Value;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::text::{LineIndex, holds, whole_text};
use crate::tool::{ReadError, Tool};

/// Reads DLIO's summaries.
pub(crate) const TOOL: Tool = Tool {
    name: "dlio",
    title: "DLIO",
    about: "summary.json of DLIO and MLPerf Storage, training: one run per file, the mean of its epochs",
    looks_for: "JSON with \"num_accelerators\" and \"metric\"",
    values: "MiB/s (printed as MB/s), samples/s, % of accelerator time",
    repetition: "a file: the mean of its epochs",
    recognise: |head| {
        head.trim_ascii_start()
            .strip_prefix("\u{feff}".as_bytes())
            .unwrap_or(head)
            .trim_ascii_start()
            .starts_with(b"{")
            && holds(head, b"\"num_accelerators\"")
            && holds(head, b"\"metric\"")
    },
    read,
};

/// Samples a second, of all accelerators.
const SAMPLE_RATE: MetricKind = MetricKind {
    name: "sample_rate",
    unit: Unit::OperationsPerSecond,
    better: Better::Higher,
    role: Role::Rate,
    about: "Training samples a second, of all accelerators.",
};

/// The share of time in which accelerators compute instead of waiting for data.
const ACCELERATOR_UTILIZATION: MetricKind = MetricKind {
    name: "accelerator_utilization",
    unit: Unit::Count,
    better: Better::Higher,
    role: Role::Cost,
    about: "Share of time in which accelerators compute, as DLIO prints it in percent.",
};

/// The keys of values: metric, size of the unit, and the unit that is meant.
static VALUES: [(&str, &MetricKind, f64, &str); 3] = [
    // DLIO divides by 1024 × 1024, whatever the name says.
    (
        "train_io_mean_MB_per_second",
        &THROUGHPUT,
        1_048_576.0,
        "MiB/s",
    ),
    (
        "train_throughput_mean_samples_per_second",
        &SAMPLE_RATE,
        1.0,
        "samples/s",
    ),
    (
        "train_au_mean_percentage",
        &ACCELERATOR_UTILIZATION,
        0.01,
        "%",
    ),
];

static SETTINGS: [&str; 5] = [
    "num_hosts",
    "num_files_train",
    "num_files_eval",
    "num_samples_per_file",
    "epochs",
];

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, TOOL.name)?;
    let text = text.trim_start_matches('\u{feff}');
    let summary: Value = serde_json::from_str(text).map_err(|error| {
        ReadError::refused(TOOL.name, format!("its JSON is cut or damaged: {error}"))
    })?;
    let lines = LineIndex::new(text);
    let line = |key: &str| {
        text.find(&format!("\"{key}\""))
            .map_or(1, |at| lines.line(at))
    };
    let mut draft = Draft::new(TOOL.name);
    let accelerators = summary
        .get("num_accelerators")
        .map(ToString::to_string)
        .unwrap_or_default();
    let workload = format!("{accelerators} accelerators");
    let name = Name {
        workload: Some(&workload),
        operation: "train_read",
    };
    let metric = summary.get("metric").unwrap_or(&Value::Null);
    for (key, kind, unit, found) in VALUES {
        let Some(printed) = metric.get(key) else {
            continue;
        };
        let place = Position {
            line: line(key),
            ..Position::default()
        };
        match printed.as_f64() {
            Some(number) => draft.add(name, kind, found, place, rate(number * unit))?,
            None => draft.remark(
                place.line,
                format_args!("{key}: '{printed}' is not a number; left out"),
            ),
        }
    }
    for (key, value) in SETTINGS
        .iter()
        .filter_map(|key| Some((key, summary.get(*key)?)))
    {
        draft.setting(Some(&workload), key, value);
    }
    let expectation = "train_au_meet_expectation";
    if let Some(verdict) = metric
        .get(expectation)
        .and_then(Value::as_str)
        .filter(|verdict| *verdict != "success")
    {
        let text =
            "the accelerators waited for more than the benchmark allows; the values are kept";
        draft.remark(
            line(expectation),
            format_args!("{expectation} is '{verdict}': {text}"),
        );
    }
    let mut runs = Runs::new(TOOL.name);
    runs.push(draft)?;
    runs.finish(|| "it holds no value of a training run".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "{
    \"start\": \"2026-01-02T03:04:05\",
    \"num_accelerators\": 4,
    \"num_hosts\": 1,
    \"metric\": {
        \"train_au_percentage\": [91.0, 93.0],
        \"train_au_mean_percentage\": 92.0,
        \"train_au_meet_expectation\": \"success\",
        \"train_throughput_samples_per_second\": [40.0, 42.0],
        \"train_throughput_mean_samples_per_second\": 41.0,
        \"train_io_mean_MB_per_second\": 5732.0
    },
    \"epochs\": 2
}
";

    fn parse(text: &str) -> Run {
        assert!((TOOL.recognise)(text.as_bytes()));
        let others = crate::TOOLS.iter().filter(|tool| tool.name != TOOL.name);
        assert!(
            others
                .clone()
                .all(|tool| !(tool.recognise)(text.as_bytes()))
        );
        read(&mut text.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn a_summary_is_one_run_with_the_means_of_its_epochs() {
        let run = parse(SUMMARY);
        let point = |metric: &str| {
            run.series
                .iter()
                .find(|series| series.metric == metric)
                .unwrap()
                .points[0]
        };
        assert_eq!(
            (point("throughput").value, point("throughput").line),
            (5732.0 * 1_048_576.0, 11)
        );
        assert_eq!(
            (
                point("sample_rate").value,
                point("accelerator_utilization").value
            ),
            (41.0, 0.92)
        );
        assert!(run.series.iter().all(|series| series.points.len() == 1));
        assert_eq!(run.series[0].workload.as_deref(), Some("4 accelerators"));
        assert!(
            run.warnings.is_empty()
                && run
                    .settings
                    .iter()
                    .any(|s| s.name == "epochs" && s.value == "2")
        );
    }

    #[test]
    fn a_run_below_the_expectation_and_a_bad_number_have_remarks() {
        let run = parse(&SUMMARY.replace("success", "fail").replace("41.0,", "null,"));
        let remarks: Vec<_> = run.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            remarks[0],
            "line 10: train_throughput_mean_samples_per_second: 'null' is not a number; left out"
        );
        assert!(remarks[1].starts_with("line 8: train_au_meet_expectation is 'fail'"));
        let cut = read(&mut &SUMMARY.as_bytes()[..200])
            .unwrap_err()
            .to_string();
        assert!(cut.contains("cut or damaged: EOF while parsing"), "{cut}");
    }
}
