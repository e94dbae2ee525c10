//! elbencho: its results as CSV (`--csvfile`) and JSON (`--jsonfile`), a line per phase.
//!
//! Written from elbencho's documentation and source (3.x); not tried on its own output. A rate is
//! that of the whole work, until the slowest thread was done (`[last]`). elbencho appends to its
//! files. The n-th line of a phase with one label and one set of parameters belongs to the n-th
//! run.

use std::collections::HashMap;
use std::io::BufRead;

use fsb_model::metric::{Better, LATENCY_MEAN, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::{GapReason, Run};
use serde_json::Value;

use crate::draft::{Draft, MOST_RUNS, Name, Position, Runs, rate, time, too_much};
use crate::message;
use crate::text::{Lines, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads elbencho's CSV and JSON.
pub(crate) const TOOL: Tool = Tool {
    name: "elbencho",
    title: "elbencho",
    about: "CSV and JSON results of 2.1 to 3.x, by its documentation: one run per repetition of a phase",
    looks_for: "the heading 'ISO date,label,path type,…', or JSON with \"phase_type\" and \"last_done\"",
    values: "MiB/s or B/s, IOPS, entries/s; µs (lower is better)",
    repetition: "the n-th line of each phase, until its last thread is done",
    recognise: |head| {
        head_line(head).is_some_and(|line| is_csv(line) || is_live(line) || is_json(line))
    },
    read,
};

fn head_line(head: &[u8]) -> Option<&[u8]> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    Some(line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line))
}

fn is_csv(line: &[u8]) -> bool {
    line.starts_with(b"ISO date,label,path type,")
}

/// Returns whether the line is the heading of live statistics (`--livecsv`).
fn is_live(line: &[u8]) -> bool {
    line.starts_with(b"ISO Date,Label,Phase,")
}

fn is_json(line: &[u8]) -> bool {
    line.starts_with(b"{") && holds(line, b"\"phase_type\"") && holds(line, b"\"last_done\"")
}

/// The mean time of a whole file or directory: create, write and close, or stat, or remove.
const ENTRY_LATENCY_MEAN: MetricKind = MetricKind {
    name: "entry_latency_mean",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Latency,
    about: "Mean time of one file or directory (elbencho's entry latency).",
};

/// Files or directories a second.
const ENTRY_RATE: MetricKind = MetricKind {
    name: "entry_rate",
    unit: Unit::OperationsPerSecond,
    better: Better::Higher,
    role: Role::Rate,
    about: "Files or directories a second (elbencho's entries/s).",
};

/// The resolution of a time in seconds: a microsecond.
const RESOLUTION: f64 = 1e-6;

/// Columns that are compared as settings.
#[rustfmt::skip] // a table reads as one
static SETTINGS: [&str; 9] = [
    "path type", "paths", "dirs", "files", "direct IO", "random aligned", "IO depth", "shared paths", "truncate",
];

/// The columns of a metric, its unit in base units, and the unit as printed. The first that has a
/// number counts.
static VALUES: [(&str, &MetricKind, f64, &str); 6] = [
    ("bytes/s [last]", &THROUGHPUT, 1.0, "B/s"),
    ("MiB/s [last]", &THROUGHPUT, 1_048_576.0, "MiB/s"),
    ("IOPS [last]", &OPERATION_RATE, 1.0, "IOPS"),
    ("entries/s [last]", &ENTRY_RATE, 1.0, "entries/s"),
    ("IO lat us [avg]", &LATENCY_MEAN, 1e-6, "us"),
    ("Ent lat us [avg]", &ENTRY_LATENCY_MEAN, 1e-6, "us"),
];

/// A phase: its fields by the names of the CSV.
struct Phase {
    line: u32,
    fields: HashMap<String, String>,
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut columns: Vec<String> = Vec::new();
    let mut repetitions = Repetitions::default();
    while let Some(line) = lines.next()? {
        let text = line.text();
        if text.is_empty() {
            continue;
        }
        if is_live(text.as_bytes()) {
            let why = "these are its live statistics; give fsb the file of --csvfile or --jsonfile";
            return Err(ReadError::refused(TOOL.name, why));
        }
        if is_csv(text.as_bytes()) {
            columns = text.split(',').map(str::to_owned).collect();
            continue;
        }
        if let Some(message) = message::find(&[], &line) {
            message.report(None, repetitions.first());
            continue;
        }
        let fields = if text.starts_with('{') {
            json_fields(&text)
        } else {
            csv_fields(&columns, &text)
        };
        match fields.filter(|_| line.ended && !line.too_long) {
            Some(fields) => repetitions.add(&Phase {
                line: line.number,
                fields,
            })?,
            None => repetitions.first().remark(
                line.number,
                format_args!("no phase, left out: '{}'", line.excerpt()),
            ),
        }
    }
    repetitions.finish()
}

fn csv_fields(columns: &[String], text: &str) -> Option<HashMap<String, String>> {
    let fields: Vec<&str> = text.split(',').collect();
    let has_phase =
        columns.len() == fields.len() && columns.iter().any(|column| column == "operation");
    has_phase.then(|| {
        columns
            .iter()
            .cloned()
            .zip(fields.into_iter().map(str::to_owned))
            .collect()
    })
}

/// Returns the values of a phase in JSON under the names of the CSV.
fn json_fields(text: &str) -> Option<HashMap<String, String>> {
    let phase: Value = serde_json::from_str(text).ok()?;
    let mut fields = HashMap::new();
    let mut keep = |name: String, value: &Value| {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // The CSV has 1 and 0.
        let value = match &*value {
            "true" => "1".to_owned(),
            "false" => "0".to_owned(),
            _ => value,
        };
        fields.insert(name, value);
    };
    keep("operation".to_owned(), phase.get("phase_type")?);
    for (name, path) in JSON_FIELDS {
        if let Some(value) = phase.pointer(path).filter(|value| !value.is_object()) {
            keep(name.to_owned(), value);
        }
    }
    for (prefix, part) in [("", ""), ("rwmix read ", "/rwmix_read")] {
        for (name, key) in [
            ("bytes/s", "bytes~1s"),
            ("IOPS", "iops"),
            ("entries/s", "entries~1s"),
        ] {
            if let Some(value) = phase.pointer(&format!("/last_done{part}/{key}")) {
                keep(format!("{prefix}{name} [last]"), value);
            }
        }
        for (name, key) in [("IO", "IO"), ("Ent", "entries")] {
            if let Some(value) = phase.pointer(&format!("/last_done/latency/{key}{part}/avg_us")) {
                keep(format!("{prefix}{name} lat us [avg]"), value);
            }
        }
    }
    Some(fields)
}

/// The names of the CSV, and the places of the same values in JSON.
static JSON_FIELDS: [(&str, &str); 17] = [
    ("label", "/label"),
    ("path type", "/config/path_type"),
    ("paths", "/config/paths"),
    ("hosts", "/config/hosts"),
    ("threads", "/config/threads"),
    ("dirs", "/config/dirs"),
    ("files", "/config/files"),
    ("file size", "/config/file_size"),
    ("block size", "/config/block_size"),
    ("direct IO", "/config/direct_io"),
    ("random", "/config/random_offsets"),
    ("random aligned", "/config/random_aligned"),
    ("IO depth", "/config/io_depth"),
    ("shared paths", "/config/shared_service_paths"),
    ("truncate", "/config/truncate_files"),
    ("version", "/config/version"),
    ("command", "/config/command"),
];

/// The runs while lines are read: the n-th has the n-th repetition of each phase.
#[derive(Default)]
struct Repetitions {
    drafts: Vec<Draft>,
    seen: HashMap<String, usize>,
}

impl Repetitions {
    fn first(&mut self) -> &mut Draft {
        if self.drafts.is_empty() {
            self.drafts.push(Draft::new(TOOL.name));
        }
        &mut self.drafts[0]
    }

    fn add(&mut self, phase: &Phase) -> Result<(), ReadError> {
        let round = self.seen.entry(phase.key()).or_default();
        if self.drafts.len() <= *round {
            if *round == MOST_RUNS {
                return Err(too_much(TOOL.name, MOST_RUNS, "runs"));
            }
            self.drafts.push(Draft::new(TOOL.name));
        }
        let draft = &mut self.drafts[*round];
        *round += 1;
        phase.keep(draft)
    }

    fn finish(self) -> Result<Vec<Run>, ReadError> {
        let mut runs = Runs::new(TOOL.name);
        self.drafts
            .into_iter()
            .try_for_each(|draft| runs.push(draft))?;
        runs.finish(|| "it holds no phase with a rate".to_owned())
    }
}

impl Phase {
    fn get(&self, name: &str) -> Option<&str> {
        self.fields
            .get(name)
            .map(|text| text.trim())
            .filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|text| whole(text.as_bytes()))
    }

    fn operation(&self) -> &str {
        self.get("operation").unwrap_or_default()
    }

    /// Returns the text that repetitions of a phase share.
    fn key(&self) -> String {
        let names = [
            "operation",
            "label",
            "hosts",
            "threads",
            "file size",
            "block size",
            "random",
        ];
        let fields = names
            .iter()
            .chain(&SETTINGS)
            .map(|name| self.get(name).unwrap_or_default());
        fields.collect::<Vec<_>>().join("\u{1}")
    }

    /// Returns the label, the threads and the share of reads of a mixed phase.
    fn workload(&self) -> String {
        let count = |name: &str, one: &str, more: &str| {
            let number = self.number(name)?;
            Some(format!("{number} {}", if number == 1 { one } else { more }))
        };
        let hosts = count("hosts", "host", "hosts").filter(|text| text != "1 host");
        let mixed = self
            .operation()
            .starts_with("RWMIX")
            .then(|| self.operation().to_lowercase());
        let label = self.get("label").map(str::to_owned);
        let parts = [label, hosts, count("threads", "thread", "threads"), mixed];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn keep(&self, draft: &mut Draft) -> Result<(), ReadError> {
        draft.run.clock_resolution = Some(RESOLUTION);
        if draft.run.version.is_none() {
            draft.run.version = self.get("version").map(str::to_owned);
        }
        let workload = self.workload();
        for (prefix, operation) in [("", self.operation()), ("rwmix read ", "READ")] {
            let operation = name_of(operation, self.get("random") == Some("1"));
            let name = Name {
                workload: Some(&workload),
                operation: &operation,
            };
            self.keep_values(prefix, name, draft)?;
        }
        for (name, value) in SETTINGS
            .iter()
            .filter_map(|name| Some((name, self.get(name)?)))
        {
            draft.setting(Some(&workload), name, value);
        }
        Ok(())
    }

    fn keep_values(&self, prefix: &str, name: Name, draft: &mut Draft) -> Result<(), ReadError> {
        let (file_size, record_size) = (self.size("file size"), self.size("block size"));
        let place = Position {
            file_size,
            record_size,
            line: self.line,
        };
        let mut known = "";
        for (column, metric, unit, found) in VALUES {
            let column = format!("{prefix}{column}");
            let Some(text) = self.get(&column).filter(|_| metric.name != known) else {
                continue;
            };
            known = metric.name;
            let Some(number) = whole(text.as_bytes()) else {
                draft.remark(
                    self.line,
                    format_args!("{column}: '{text}' is not a number; left out"),
                );
                draft.add(name, metric, found, place, Err(GapReason::Unreadable))?;
                continue;
            };
            draft.add(
                name,
                metric,
                found,
                place,
                value(metric, number as f64 * unit),
            )?;
        }
        Ok(())
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|bytes| *bytes > 0)
    }
}

fn value(metric: &MetricKind, value: f64) -> Result<f64, GapReason> {
    if metric.unit == Unit::Seconds {
        time(value)
    } else {
        rate(value)
    }
}

/// Returns the name of a phase. A phase of reads and writes reports its writes.
fn name_of(phase: &str, is_random: bool) -> String {
    let name = match phase {
        "MKDIRS" => "directory_create",
        "RMDIRS" => "directory_remove",
        "RMFILES" => "file_remove",
        "STAT" => "file_stat",
        "READ" if is_random => "random_read",
        "READ" => "read",
        phase if phase == "WRITE" || phase.starts_with("RWMIX") => {
            if is_random {
                "random_write"
            } else {
                "write"
            }
        }
        other => return other.to_lowercase(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use fsb_model::set::Series;

    use super::*;

    const HEADING: &str = "ISO date,label,path type,paths,hosts,threads,dirs,files,file size,block size,direct IO,random,\
                           random aligned,IO depth,shared paths,truncate,operation,time ms [first],time ms [last],\
                           entries/s [first],entries/s [last],IOPS [first],IOPS [last],MiB/s [first],MiB/s [last],\
                           IO lat us [avg],Ent lat us [avg],rwmix read IOPS [last],version,command\n";

    fn row(threads: u32, operation: &str, rates: &str) -> String {
        format!(
            "2026-01-02T03:04:05,,dir,1,1,{threads},1,8,1048576,65536,0,0,,1,1,0,{operation},9,11,{rates},3.1-1,\"elbencho\" \"-w\"\n"
        )
    }

    fn parse(text: &str) -> Vec<Run> {
        assert!((TOOL.recognise)(text.as_bytes()));
        let others = crate::TOOLS.iter().filter(|tool| tool.name != TOOL.name);
        assert!(
            others
                .clone()
                .all(|tool| !(tool.recognise)(text.as_bytes()))
        );
        read(&mut text.as_bytes()).unwrap()
    }

    fn series<'r>(run: &'r Run, operation: &str, metric: &str) -> &'r Series {
        run.series
            .iter()
            .find(|series| series.operation == operation && series.metric == metric)
            .unwrap()
    }

    #[test]
    fn each_phase_is_an_operation_and_each_repetition_a_run() {
        let [write, stat] = [
            row(4, "WRITE", "40,30,700,500,44,31,90,800,"),
            row(4, "STAT", "900,800,,,,,,5,"),
        ];
        let runs = parse(&format!(
            "{HEADING}{write}{stat}{}{write}{stat}",
            row(8, "WRITE", "1,2,3,4,5,6,7,8,")
        ));
        assert_eq!(runs.len(), 2);
        let throughput = series(&runs[0], "write", "throughput");
        // The rate of the whole work, not that until the fastest thread was done.
        assert_eq!(
            (throughput.points[0].value, throughput.points[0].line),
            (31.0 * 1_048_576.0, 2)
        );
        assert_eq!(
            (
                throughput.points[0].file_size,
                throughput.points[0].record_size
            ),
            (Some(1 << 20), Some(1 << 16))
        );
        assert_eq!(
            series(&runs[1], "file_stat", "entry_rate").points[0].value,
            800.0
        );
        assert!((series(&runs[0], "write", "latency_mean").points[0].value - 90e-6).abs() < 1e-12);
        let workloads: Vec<_> = runs[0]
            .series
            .iter()
            .filter_map(|series| series.workload.as_deref())
            .collect();
        assert!(workloads.contains(&"4 threads") && workloads.contains(&"8 threads"));
        assert_eq!(runs[0].version.as_deref(), Some("3.1-1"));
        assert!(
            runs[0]
                .settings
                .iter()
                .any(|setting| setting.name == "IO depth" && setting.value == "1")
        );
    }

    #[test]
    fn json_has_the_values_of_the_csv() {
        let phase = "{\"phase_type\":\"READ\",\"phase_id\":\"x\",\"config\":{\"path_type\":\"dir\",\"hosts\":\"1\",\"threads\":\"4\",\
                     \"file_size\":\"1048576\",\"block_size\":\"4096\",\"direct_io\":\"false\",\"random_offsets\":\"true\",\
                     \"io_depth\":\"1\",\"shared_service_paths\":\"true\",\"truncate_files\":\"false\",\"version\":\"3.1-1\"},\"first_done\":{\"iops\":\"9\"},\"last_done\":{\"elapsed_time_ms\":\"11\",\
                     \"entries/s\":\"20\",\"iops\":\"5000\",\"bytes/s\":\"20480000\",\"latency\":{\"IO\":{\"min_us\":\"1\",\
                     \"avg_us\":\"190\",\"max_us\":\"900\"}}}}\n";
        let runs = parse(&format!("{phase}{phase}"));
        assert_eq!(runs.len(), 2);
        assert_eq!(
            series(&runs[1], "random_read", "throughput").points[0].value,
            20_480_000.0
        );
        assert!(
            (series(&runs[1], "random_read", "latency_mean").points[0].value - 190e-6).abs()
                < 1e-12
        );
        assert_eq!(
            series(&runs[1], "random_read", "operation_rate").points[0].value,
            5000.0
        );
        for (name, value) in [("direct IO", "0"), ("shared paths", "1"), ("truncate", "0")] {
            assert!(
                runs[0]
                    .settings
                    .iter()
                    .any(|setting| setting.name == name && setting.value == value),
                "{name}"
            );
        }
    }

    #[test]
    fn mixed_phases_have_both_directions() {
        let runs = parse(&format!(
            "{HEADING}{}",
            row(4, "RWMIX30", "40,30,700,500,44,31,90,800,200")
        ));
        assert_eq!(
            series(&runs[0], "write", "operation_rate").points[0].value,
            500.0
        );
        let read = series(&runs[0], "read", "operation_rate");
        assert_eq!(
            (read.points[0].value, read.workload.as_deref()),
            (200.0, Some("4 threads, rwmix30"))
        );
    }

    #[test]
    fn failed_cut_and_foreign_lines_have_no_values_and_times_are_not_labels() {
        let killed = parse(&format!(
            "{HEADING}{}Killed\n",
            row(4, "WRITE", "40,30,700,500,44,31,90,800,")
        ));
        assert_eq!(
            (
                killed[0].failures[0].text.as_str(),
                killed[0].failures[0].line
            ),
            ("Killed", Some(3))
        );
        let good = row(4, "WRITE", "40,30,700,x,44,31,90,800,");
        let runs = parse(&format!("{HEADING}note\n{good}{}", good.trim_end()));
        let remarks: Vec<_> = runs[0].warnings.iter().map(ToString::to_string).collect();
        assert_eq!(remarks[0], "line 2: no phase, left out: 'note'");
        assert_eq!(
            remarks[1],
            "line 3: IOPS [last]: 'x' is not a number; left out"
        );
        assert!(remarks[2].starts_with("line 4: no phase") && runs.len() == 1);
        assert_eq!(
            series(&runs[0], "write", "operation_rate").gaps[0].why,
            GapReason::Unreadable
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            format!(
                "{HEADING}{}",
                row(4, "WRITE", "40,30,700,500,44,31,90,800,").repeat(9)
            ),
        )
        .unwrap();
        assert_eq!(crate::read_file(file.path()).unwrap().len(), 9);
        let live = "ISO Date,Label,Phase,RuntimeMS,Rank\n";
        assert!((TOOL.recognise)(live.as_bytes()));
        assert!(
            read(&mut live.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("live statistics")
        );
    }
}
