//! `trials.csv`: one line a trial and metric, for R, pandas and a spreadsheet.
//!
//! Measured trials only; rates and latencies, not costs. A trial without a value has one line, of the metric that
//! its workload is compared by, with an empty value and the reason as its outcome. Columns are read by name; new ones
//! come only at the end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::str::FromStr;

use fsb_model::metric::{self, Role};
use fsb_model::{Bytes, Outcome};
use serde_json::Value;

use crate::mark;
use crate::run::{MetricKind, ReportTrial, ShownMetric, Summary};

/// Makes a text harmless in its cell.
type Escape = fn(&str) -> Cow<'_, str>;

/// The columns.
pub(in crate::format) const COLUMNS: [&str; 18] = [
    "target",
    "workload",
    "operation",
    "file_size",
    "record_size",
    "threads",
    "block",
    "order",
    "metric",
    "value",
    "unit",
    "outcome",
    "kernel",
    "cache",
    "backend",
    "durability",
    "part",
    "unsafe",
];

/// Writes the file as a run directory holds it. Where nothing is judged by the run, one more column says why in every
/// line.
pub(super) fn write(trials: &[ReportTrial], summary: &Summary, output: &mut dyn Write) -> io::Result<()> {
    let unjudged = summary.unjudged.as_deref();
    let mut writer = ::csv::WriterBuilder::new().from_writer(output);
    let with = |record: &[String], last: &str| match unjudged {
        Some(_) => [record, &[last.to_owned()]].concat(),
        None => record.to_vec(),
    };
    let unjudged = unjudged.map(text);
    let unjudged = unjudged.as_deref();
    writer.write_record(with(&COLUMNS.map(str::to_owned), UNJUDGED))?;
    for record in records(trials, summary, text) {
        writer.write_record(with(&record, unjudged.unwrap_or_default()))?;
    }
    writer.flush()
}

/// Returns the lines, their texts escaped by `escape`.
pub(in crate::format) fn records<'a>(
    trials: &'a [ReportTrial],
    summary: &'a Summary,
    escape: Escape,
) -> impl Iterator<Item = [String; 18]> + 'a {
    let counted = || trials.iter().filter(|trial| trial.counts());
    let mut kinds: HashMap<&str, &MetricKind> = HashMap::new();
    for trial in counted() {
        if let Some(metric) = trial.primary() {
            kinds.entry(&trial.what.workload).or_insert(metric.kind);
        }
    }
    counted().flat_map(move |trial| {
        let lines = lines(trial, &kinds).into_iter();
        lines.map(move |(metric, value)| record(trial, metric, value, summary, escape))
    })
}

/// The metrics of a trial that belong here, with their values; for one without a value, what it would have measured.
fn lines<'a>(
    trial: &'a ReportTrial,
    kinds: &HashMap<&str, &'a MetricKind>,
) -> Vec<(Option<&'a MetricKind>, Option<f64>)> {
    if trial.outcome != Outcome::Ok {
        return vec![(kinds.get(&*trial.what.workload).copied(), None)];
    }
    let belongs = |(place, metric): &(usize, ShownMetric<'_>)| {
        *place == 0 || metric::find(&metric.kind.name).is_some_and(|kind| kind.role != Role::Cost)
    };
    trial.metrics().enumerate().filter(belongs).map(|(_, metric)| (Some(metric.kind), Some(metric.value))).collect()
}

fn record(
    trial: &ReportTrial,
    metric: Option<&MetricKind>,
    value: Option<f64>,
    summary: &Summary,
    text: Escape,
) -> [String; 18] {
    let target = summary.targets.iter().find(|target| target.name == trial.what.target);
    let param = |key: &str| match trial.what.params.get(key) {
        Some(Value::String(found)) => text(found).into_owned(),
        Some(Value::Null) | None => String::new(),
        Some(number @ Value::Number(_)) => number.to_string(),
        Some(other) => text(&other.to_string()).into_owned(),
    };
    let size = |key: &str| {
        let text = param(key);
        Bytes::from_str(&text).map_or(text, |bytes| bytes.0.to_string())
    };
    [
        text(&trial.what.target).into_owned(),
        text(&trial.what.workload).into_owned(),
        text(&trial.what.operation).into_owned(),
        size("file_size"),
        size("block_size"),
        param("threads"),
        trial.block.to_string(),
        trial.order.to_string(),
        metric.map(|metric| text(&metric.name).into_owned()).unwrap_or_default(),
        value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default(),
        metric.map(|metric| metric.unit.name().to_owned()).unwrap_or_default(),
        text(&trial.reason()).into_owned(),
        text(&trial.what.kernel).into_owned(),
        param("cache"),
        param("backend"),
        param("durability"),
        trial.slice.map(|slice| slice.to_string()).unwrap_or_default(),
        target.map(|target| text(&mark::causes(&target.risks)).into_owned()).unwrap_or_default(),
    ]
}

/// The column with the reason why nothing is judged, in tables of such runs and comparisons.
pub(super) const UNJUDGED: &str = "unjudged";

/// Returns a text as a cell of a table that a spreadsheet may open. A text that would begin a formula there gets an
/// apostrophe in front, which spreadsheets take as the sign of text. Numbers are written without this function.
pub(in crate::format) fn text(text: &str) -> Cow<'_, str> {
    const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    // A text that begins with apostrophes before a formula gets one more, so that it differs from a quoted one.
    let begins = text.trim_start_matches('\'').starts_with(FORMULAS);
    if begins { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use fsb_model::run::Risk;
    use fsb_model::{RunRecord, Trial};

    use super::*;
    use crate::sample;

    fn table(record: &RunRecord, trials: &[Trial]) -> String {
        let mut text = Vec::new();
        write(&ReportTrial::all(trials), &Summary::of_run(record, trials), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn rows(record: &RunRecord, trials: &[Trial]) -> Vec<std::collections::BTreeMap<String, String>> {
        let text = table(record, trials);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), COLUMNS);
        reader.deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn every_rate_and_latency_of_measured_trials_is_there_to_the_last_digit() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 5);
        let rows = rows(&record, &trials);
        for trial in &trials {
            let own: Vec<_> = rows
                .iter()
                .filter(|row| row["order"] == trial.order.to_string())
                .map(|row| (row["metric"].as_str(), row["value"].parse::<f64>().unwrap(), row["outcome"].as_str()))
                .collect();
            let expected: Vec<_> = trial.metrics[..4].iter().map(|m| (m.name.as_str(), m.value, "ok")).collect();
            assert_eq!(own, expected, "costs are left out");
        }
        assert_eq!(rows[0]["kernel"], "6.18.44");
        assert_eq!((rows[0]["file_size"].as_str(), rows[0]["record_size"].as_str()), ("268435456", "1048576"));
        assert_eq!((rows[0]["durability"].as_str(), rows[0]["cache"].as_str()), ("end", "any"));
    }

    #[test]
    fn a_trial_without_a_value_has_one_line_with_its_reason() {
        let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 5);
        let rows = rows(&record, &trials);
        let lost: Vec<_> = rows.iter().filter(|row| row["outcome"] != "ok").collect();
        let [lost] = lost.as_slice() else { panic!("{lost:?}") };
        assert_eq!(lost["outcome"], "failed: write to /target/f0000: No space left on device (ENOSPC)");
        assert_eq!((lost["metric"].as_str(), lost["value"].as_str()), ("throughput", ""));
        assert_eq!(lost["unit"], "bytes_per_second");
    }

    #[test]
    fn warm_up_and_superseded_trials_are_left_out() {
        let (record, mut trials) = sample::run(&["ext4"], 2);
        trials.truncate(2);
        trials[0].superseded = true;
        trials[1].phase = fsb_model::Phase::Warmup;
        assert_eq!(table(&record, &trials).lines().count(), 1);
    }

    #[test]
    fn odd_names_and_texts_survive() {
        let (record, mut trials) = sample::run(&["ext4"], 1);
        trials.truncate(1);
        trials[0].target = "a,\"b\"\nc".to_owned();
        trials[0].params.insert("file_size".to_owned(), "4K".into());
        trials[0].params.remove("threads");
        let rows = rows(&record, &trials);
        assert_eq!(rows[0]["target"], "a,\"b\"\nc");
        assert_eq!((rows[0]["file_size"].as_str(), rows[0]["threads"].as_str()), ("4096", ""));
    }

    #[test]
    fn each_line_of_an_unjudged_run_says_so() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 1);
        record.emulated = true;
        let text = table(&record, &trials);
        let mut lines = text.lines();
        assert!(lines.next().unwrap().ends_with(",durability,part,unsafe,unjudged"));
        assert!(lines.clone().count() > 8 && lines.all(|line| line.ends_with(",emulated: a functional run")));
    }

    #[test]
    fn lines_of_unsafe_targets_name_the_cause() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 2);
        let risk =
            |cause: &str| Risk { cause: cause.to_owned(), loss: "a power failure may lose synced data".to_owned() };
        record.targets.get_mut("xfs").unwrap().risks = vec![risk("nobarrier"), risk("write cache")];
        for row in rows(&record, &trials) {
            assert_eq!(row["unsafe"], if row["target"] == "xfs" { "nobarrier, write cache" } else { "" });
        }
    }
}
