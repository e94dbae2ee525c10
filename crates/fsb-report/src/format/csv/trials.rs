//! `trials.csv`: one line a trial and metric, for R, pandas and a spreadsheet.
//!
//! Measured trials only; rates and latencies, not costs. A trial without a value has one line, of
//! the metric that its workload is compared by, with an empty value and the reason as its outcome.
//! Columns are read by name; new ones come only at the end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::str::FromStr;

use fsb_model::metric::{self, Role};
use fsb_model::{Bytes, Outcome};
use serde_json::Value;

use crate::mark;
use crate::summary::{CompactTrial, MetricKind, Summary};

/// Makes a text harmless in its cell.
type Escape = fn(&str) -> Cow<'_, str>;

/// The columns.
pub(in crate::format) const TRIAL_COLUMNS: [&str; 18] = [
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
    "slice",
    "unsafe",
];

/// Writes trials.csv. If nothing of the run is judged, each line has one more column with the
/// reason.
pub(super) fn write_trials(
    trials: &[CompactTrial],
    summary: &Summary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let unjudged = summary.unjudged.as_deref();
    let mut writer = ::csv::WriterBuilder::new().from_writer(output);
    let with = |record: &[String], last: &str| match unjudged {
        Some(_) => [record, &[last.to_owned()]].concat(),
        None => record.to_vec(),
    };
    let unjudged = unjudged.map(text);
    let unjudged = unjudged.as_deref();
    writer.write_record(with(&TRIAL_COLUMNS.map(str::to_owned), UNJUDGED))?;
    for record in trial_records(trials, summary, text) {
        writer.write_record(with(&record, unjudged.unwrap_or_default()))?;
    }
    writer.flush()
}

/// Returns the lines, their texts escaped by `escape`.
pub(in crate::format) fn trial_records<'a>(
    trials: &'a [CompactTrial],
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

/// Returns the metrics of a trial for this file, with their values. A trial without values has the
/// metrics that it would have measured.
fn lines<'a>(
    trial: &'a CompactTrial,
    kinds: &HashMap<&str, &'a MetricKind>,
) -> Vec<(Option<&'a MetricKind>, Option<f64>)> {
    if trial.outcome != Outcome::Ok {
        return vec![(kinds.get(&*trial.what.workload).copied(), None)];
    }
    trial
        .metrics()
        .enumerate()
        .filter(|(place, metric)| {
            *place == 0
                || metric::find(&metric.kind.name).is_some_and(|kind| kind.role != Role::Cost)
        })
        .map(|(_, metric)| (Some(metric.kind), Some(metric.value)))
        .collect()
}

fn record(
    trial: &CompactTrial,
    metric: Option<&MetricKind>,
    value: Option<f64>,
    summary: &Summary,
    text: Escape,
) -> [String; 18] {
    let target = summary
        .targets
        .iter()
        .find(|target| target.name == trial.what.target);
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
        metric
            .map(|metric| text(&metric.name).into_owned())
            .unwrap_or_default(),
        value
            .filter(|value| value.is_finite())
            .map(|value| value.to_string())
            .unwrap_or_default(),
        metric
            .map(|metric| metric.unit.name().to_owned())
            .unwrap_or_default(),
        text(&trial.reason()).into_owned(),
        text(&trial.what.kernel).into_owned(),
        param("cache"),
        param("backend"),
        param("durability"),
        trial
            .slice
            .map(|slice| slice.to_string())
            .unwrap_or_default(),
        target
            .map(|target| text(&mark::causes(&target.risks)).into_owned())
            .unwrap_or_default(),
    ]
}

/// The column with the reason why nothing is judged, in tables of such runs and comparisons.
pub(super) const UNJUDGED: &str = "unjudged";

/// Returns a text as a cell of a table that a spreadsheet may open. A text that would begin a
/// formula there gets an apostrophe in front, which spreadsheets take as the sign of text. Numbers
/// are written without this function.
pub(in crate::format) fn text(text: &str) -> Cow<'_, str> {
    const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    // A text that begins with apostrophes before a formula gets one more, so that it differs from a
    // quoted one.
    let begins = text.trim_start_matches('\'').starts_with(FORMULAS);
    if begins {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}
