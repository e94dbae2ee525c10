//! smallfile 3.x: the JSON of `--output-json`.

use std::collections::BTreeMap;
use std::io::BufRead;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::set::{GapReason, Run};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::json::{Source, number};
use crate::text::{holds, whole_text};
use crate::tool::{ReadError, Tool};

/// Reads the JSON of smallfile.
pub(crate) const TOOL: Tool = Tool {
    name: "smallfile",
    title: "smallfile",
    about: "JSON of --output-json of 3.x: files per second of all threads, and MiB/s",
    looks_for: "JSON with \"params\" that have \"files_per_thread\"",
    values: "files/s and MiB/s, the sum of the rates of all threads",
    repetition: "a JSON file",
    recognise,
    read,
};

const MEBIBYTE: f64 = 1_048_576.0;

/// The ratio of the sum of the threads' rates to the rate of the whole run that is remarked on.
const UNEVEN: f64 = 1.1;

/// Parameters that are part of the name, that change no work, or that name places.
static NOT_COMPARED: [&str; 13] = [
    "host_set",
    "launch_by_daemon",
    "version",
    "top",
    "operation",
    "threads",
    "file_size",
    "fsync_after_modify",
    "network_sync_dir",
    "startup_timeout",
    "host_timeout",
    "total_hosts",
    "cleanup_delay_usec_per_file",
];

fn recognise(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    if holds(head, b" top test directory(s) : ") && holds(head, b" files/thread : ") {
        return true; // its text, which is refused
    }
    head.trim_ascii_start().starts_with(b"{")
        && holds(head, b"\"params\"")
        && holds(head, b"\"files_per_thread\"")
}

#[derive(Deserialize)]
struct Document<'a> {
    params: BTreeMap<String, Value>,
    #[serde(borrow)]
    results: Option<Results<'a>>,
}

#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow, rename = "filesPerSec")]
    files: Option<&'a RawValue>,
    /// The number of files, and the time of the slowest thread.
    #[serde(borrow, rename = "files")]
    count: Option<&'a RawValue>,
    #[serde(borrow)]
    elapsed: Option<&'a RawValue>,
    #[serde(borrow, rename = "MiBps")]
    mebibytes: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow, rename = "pctFilesDone")]
    done: Option<&'a RawValue>,
}

/// The percentage of the files below which smallfile 3.2 itself calls a test invalid
/// (`pct_files_min`).
const FEWEST_FILES: f64 = 70.0;

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, TOOL.name)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if !text.trim_start().starts_with('{') {
        return Err(ReadError::refused(
            TOOL.name,
            "as text; run smallfile with --output-json FILE",
        ));
    }
    let source = Source::new(text);
    let document: Document = serde_json::from_str(text).map_err(|error| {
        ReadError::refused(
            TOOL.name,
            format!(
                "its JSON is cut or damaged in line {}: {error}",
                error.line()
            ),
        )
    })?;
    let mut draft = Draft::new(TOOL.name);
    draft.run.version = document
        .params
        .get("version")
        .and_then(Value::as_str)
        .map(str::to_owned);
    if let Some(results) = &document.results {
        run(&document.params, results, &source, &mut draft)?;
    }
    let mut runs = Runs::new(TOOL.name);
    runs.push(draft)?;
    runs.finish(|| {
        "it holds no rate: smallfile prints none for less than a millisecond of work".to_owned()
    })
}

fn run(
    params: &BTreeMap<String, Value>,
    results: &Results,
    source: &Source,
    draft: &mut Draft,
) -> Result<(), ReadError> {
    let operation = params
        .get("operation")
        .map(plain)
        .unwrap_or_else(|| "operation".to_owned());
    let workload = workload(params);
    for (key, value) in params
        .iter()
        .filter(|(key, _)| !NOT_COMPARED.contains(&key.as_str()))
    {
        draft.setting(None, key, plain(value));
    }
    if let Some(status) = results
        .status
        .filter(|status| status.get() != "\"Success\"")
    {
        draft.fail(
            source.line_of(status),
            None,
            format_args!("smallfile ended with status {}", status.get()),
        );
    }
    if let Some(done) = results
        .done
        .filter(|done| number(done).is_some_and(|share| share < 100.0))
    {
        let share = number(done).unwrap_or_default();
        let text = format!(
            "{share:.2} % of the files were processed: a thread stops when another one has finished, so the rates \
             are those of less work"
        );
        match share < FEWEST_FILES {
            true => draft.fail(source.line_of(done), None, text),
            false => draft.remark(source.line_of(done), text),
        }
    }
    let over_all = results
        .count
        .and_then(number)
        .zip(results.elapsed.and_then(number))
        .map(|(count, time)| count / time);
    if let Some((raw, over_all)) = results
        .files
        .zip(over_all.filter(|rate| rate.is_finite() && *rate > 0.0))
    {
        let sum = number(raw).unwrap_or(over_all);
        if sum > over_all * UNEVEN {
            let text = format!(
                "the threads did not end together: their rates add up to {sum:.0} files/s, but all files took the time \
                 of {over_all:.0} files/s"
            );
            draft.remark(source.line_of(raw), text);
        }
    }
    let file_size = params
        .get("file_size")
        .and_then(Value::as_u64)
        .filter(|size| *size > 0)
        .map(|size| size << 10);
    let values = [
        (results.files, OPERATION_RATE, "files/s", 1.0),
        (results.mebibytes, THROUGHPUT, "MiB/s", MEBIBYTE),
    ];
    for (raw, metric, unit, factor) in values {
        let Some(raw) = raw else { continue };
        let place = Position {
            file_size,
            line: source.line_of(raw),
            ..Position::default()
        };
        let name = Name {
            workload: Some(&workload),
            operation: &operation,
        };
        match number(raw) {
            Some(value) => draft.add(name, &metric, unit, place, rate(value * factor))?,
            None => {
                draft.remark(
                    place.line,
                    format_args!("{}: no number; left out", metric.name),
                );
                draft.add(name, &metric, unit, place, Err(GapReason::Unreadable))?;
            }
        }
    }
    Ok(())
}

/// Returns the work: smallfile's operation, threads and sizes.
fn workload(params: &BTreeMap<String, Value>) -> String {
    let param = |name: &str| params.get(name).map_or_else(|| "?".to_owned(), plain);
    let hosts = param("total_hosts");
    let mut name = format!(
        "{}, {} threads, {} KiB",
        param("operation"),
        param("threads"),
        param("file_size")
    );
    if param("fsync_after_modify") == "Y" {
        name += ", fsync";
    }
    if hosts != "1" && hosts != "?" {
        name += &format!(", {hosts} hosts");
    }
    name
}

/// Returns a parameter as text without quotes.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
