//! hyperfine 1.x: the JSON of `--export-json`. Each of its times is a repetition.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use fsb_model::metric::{Better, COMMAND_TIME, MetricKind, PEAK_MEMORY, Role, Unit};
use fsb_model::set::Run;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::draft::{Draft, MOST_REPETITIONS, MOST_RUNS, Name, Position, Runs, time, too_much};
use crate::json::{Elements, Source, number};
use crate::text::{holds, whole_text};
use crate::tool::{ReadError, Tool};

/// Reads the JSON of hyperfine.
pub(crate) const TOOL: Tool = Tool {
    name: "hyperfine",
    title: "hyperfine",
    about: "JSON of --export-json of 1.x: commands are workloads; of one file alone, sets",
    looks_for: "JSON with \"results\" that have \"command\", \"mean\" and \"stddev\"",
    values: "s of each command; s of CPU time, bytes of memory (lower is better)",
    repetition: "a time in `times`",
    recognise,
    read,
};

/// The operation, as in runs of a command by fsb.
const OPERATION: &str = "command";

/// Processor time of a command, of which hyperfine prints the means over all repetitions.
const USER_TIME: MetricKind = MetricKind {
    name: "user_time",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Cost,
    about: "Processor time that the command spent in programs, mean over its repetitions.",
};

/// See [`USER_TIME`].
const SYSTEM_TIME: MetricKind = MetricKind {
    name: "system_time",
    about: "Processor time that the command spent in the kernel, mean over its repetitions.",
    ..USER_TIME
};

fn recognise(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    if OTHER_FORMS.iter().any(|form| holds(head, form.as_bytes())) {
        return true;
    }
    let keys = ["\"results\"", "\"command\"", "\"mean\"", "\"stddev\""];
    head.trim_ascii_start().starts_with(b"{") && keys.iter().all(|key| holds(head, key.as_bytes()))
}

/// Parts of the text, CSV and Markdown of hyperfine, which do not hold single times.
static OTHER_FORMS: [&str; 3] = [
    "  Time (mean ± σ): ",
    "command,mean,stddev,median,user,system,min,max",
    "| Command | Mean [",
];

/// A command with its repetitions.
#[derive(Deserialize)]
struct Benchmark<'a> {
    command: String,
    #[serde(borrow)]
    mean: Option<&'a RawValue>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    times: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    memory_usage_byte: Vec<&'a RawValue>,
    /// `null` where a signal ended the command.
    #[serde(borrow, default)]
    exit_codes: Vec<&'a RawValue>,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, TOOL.name)?;
    let source = Source::new(&text);
    let start = text
        .find("\"results\"")
        .and_then(|at| text[at..].find('[').map(|open| at + open + 1));
    let start = start.filter(|_| {
        text.trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with('{')
    });
    let start = start.ok_or_else(|| {
        ReadError::refused(TOOL.name, "without single times; use --export-json FILE")
    })?;
    let mut elements = Elements::new(&text, start);
    let (mut export, mut damage) = (Export::new(&source), None);
    for raw in elements.by_ref() {
        match serde_json::from_str::<Benchmark>(raw.get()) {
            Ok(benchmark) => export.take(&benchmark, source.line_of(raw))?,
            Err(error) => {
                damage = damage.or(Some((
                    source.line_of(raw),
                    format!("no result of a command ({error})"),
                )))
            }
        }
    }
    let cut = elements.damage.map(|(at, why)| {
        (
            source.line(at),
            format!("the JSON is cut or damaged here ({why})"),
        )
    });
    let damage = damage.or(cut);
    let mut runs = Runs::new(TOOL.name);
    for draft in export.drafts {
        runs.push(draft)?;
    }
    if let (Some((line, text)), Some(run)) = (&damage, runs.first_mut()) {
        let text = format!("{text}; the other commands are read");
        run.warnings.push(fsb_model::set::Remark {
            line: Some(*line),
            text,
        });
    }
    runs.finish(|| match damage {
        Some((line, text)) => format!("in line {line}: {text}, and no command is complete"),
        None => "no command in it has a time".to_owned(),
    })
}

/// The runs of a file: the first repetitions of all commands, then the second ones, and so on.
struct Export<'a> {
    source: &'a Source<'a>,
    drafts: Vec<Draft>,
    /// The number of commands with a name.
    named: HashMap<String, usize>,
    values: usize,
}

impl<'a> Export<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        Export {
            source,
            drafts: Vec::new(),
            named: HashMap::new(),
            values: 0,
        }
    }

    fn take(&mut self, benchmark: &Benchmark, line: u32) -> Result<(), ReadError> {
        let workload = self.workload(benchmark);
        let mean: Vec<&RawValue> = benchmark.mean.into_iter().collect();
        if benchmark.times.is_empty() {
            let text = format!(
                "{workload}: the file holds the mean of its repetitions only, which counts as one run"
            );
            self.draft(0)?.remark(line, text);
        }
        let times = if benchmark.times.is_empty() {
            &mean
        } else {
            &benchmark.times
        };
        for (repetition, raw) in times.iter().enumerate() {
            if let Some(failure) = benchmark
                .exit_codes
                .get(repetition)
                .and_then(|code| failure(&workload, code))
            {
                let line = self.source.line_of(benchmark.exit_codes[repetition]);
                self.draft(repetition)?.fail(line, Some(&workload), failure);
            }
            self.add(repetition, &workload, &COMMAND_TIME, "s", raw)?;
        }
        for (repetition, raw) in benchmark
            .memory_usage_byte
            .iter()
            .enumerate()
            .take(times.len())
        {
            self.add(repetition, &workload, &PEAK_MEMORY, "B", raw)?;
        }
        for (raw, metric) in [(benchmark.user, USER_TIME), (benchmark.system, SYSTEM_TIME)] {
            // A mean of all repetitions is one value, whatever their number is.
            if let Some(raw) = raw.filter(|raw| number(raw) != Some(0.0)) {
                self.add(0, &workload, &metric, "s", raw)?;
            }
        }
        Ok(())
    }

    /// Returns the name of a command: that of `--command-name` or the command itself, with the
    /// parameters that it does not show, and a number if the file repeats it.
    fn workload(&mut self, benchmark: &Benchmark) -> String {
        let mut name: String = benchmark.command.trim().to_owned();
        for (key, value) in &benchmark.parameters {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            if !name.contains(&value) {
                name += &format!(", {key} {value}");
            }
        }
        let count = self.named.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            format!("{name} #{count}")
        } else {
            name
        }
    }

    fn add(
        &mut self,
        repetition: usize,
        workload: &str,
        metric: &MetricKind,
        unit: &str,
        raw: &RawValue,
    ) -> Result<(), ReadError> {
        self.values += 1;
        if self.values > MOST_REPETITIONS {
            return Err(too_much(TOOL.name, MOST_REPETITIONS, "values"));
        }
        let line = self.source.line_of(raw);
        let draft = self.draft(repetition)?;
        let Some(value) = number(raw) else {
            draft.remark(
                line,
                format_args!("{workload}: {} is not a number; left out", metric.name),
            );
            return Ok(());
        };
        let name = Name {
            workload: Some(workload),
            operation: OPERATION,
        };
        draft.add(
            name,
            metric,
            unit,
            Position {
                line,
                ..Position::default()
            },
            time(value),
        )
    }

    fn draft(&mut self, repetition: usize) -> Result<&mut Draft, ReadError> {
        if repetition >= MOST_RUNS {
            return Err(too_much(TOOL.name, MOST_RUNS, "runs"));
        }
        while self.drafts.len() <= repetition {
            self.drafts.push(Draft::new(TOOL.name));
        }
        Ok(&mut self.drafts[repetition])
    }
}

/// Returns the failure that an exit code means.
fn failure(command: &str, code: &RawValue) -> Option<String> {
    match code.get() {
        "0" => None,
        "null" => Some(format!("'{command}' failed: a signal ended it")),
        code => Some(format!("'{command}' failed: exit code {code}")),
    }
}
