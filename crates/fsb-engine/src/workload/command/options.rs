//! Parameters of the workload `command`.

use std::path::{Path, PathBuf};

use fsb_model::workload::ProgramLimits;
use fsb_model::{Better, Bytes, CacheState, Durability, Params};
use serde_json::{Value, json};

use super::program::Script;
use super::program::{Pattern, PrintedMetric};
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use crate::workload::params::Reader;
use crate::{ParamError, Sizing};

/// Default time limit of a command, in seconds.
const TIME_LIMIT: f64 = 3600.0;
/// The parameter that units of commands have.
pub(super) const PREPARE_INSIDE: &str = "prepare_inside";
/// Processes that a command may be given: Linux numbers 4,194,304 at most.
const MOST_PROCESSES: u64 = 1 << 22;
/// Open files of a process: a shell needs a few, and Linux allows 1,048,576 unless an administrator raises that.
const LEAST_FILES: u64 = 16;
const MOST_FILES: u64 = 1 << 20;
/// Bytes that a process of a shell needs.
const LEAST_MEMORY: u64 = 16 << 20;
/// Characters of a command in a label.
const SHOWN: usize = 48;

/// A program that runs beside the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) command: Script,
    /// Command that succeeds once the service is ready.
    pub(super) ready: Option<Script>,
    /// The signal that stops the service.
    pub(super) stop: i32,
}

/// Resolved parameters.
pub(super) struct Options {
    pub(super) command: Script,
    pub(super) setup: Option<Script>,
    pub(super) prepare: Option<Script>,
    pub(super) cleanup: Option<Script>,
    pub(super) verify: Option<Script>,
    pub(super) input: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
    pub(super) ok_exit: Vec<i32>,
    /// Seconds.
    pub(super) time_limit: f64,
    pub(super) limits: ProgramLimits,
    /// Programs share the network of the machine.
    pub(super) network: bool,
    pub(super) cache: CacheState,
    pub(super) durability: Durability,
    pub(super) metrics: Vec<PrintedMetric>,
    pub(super) services: Vec<Service>,
    /// The measuring worker runs `prepare` itself before each run: within a race round no other step runs in between.
    pub(super) prepare_inside: bool,
    label: Option<String>,
}

/// The table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Command, Duration, ExitCodes, Number, Paths, Size, Tables};
    let ProgramLimits { processes, files, .. } = ProgramLimits::default();
    let command = ParameterDefault::Required("command = \"make -j2\"");
    let codes = ParameterDefault::Value("0".into());
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new("command", Command, command, "command to measure, in the target's directory"),
            Parameter::new("setup", Command, Absent, "command to run once for each trial, before the others"),
            Parameter::new("prepare", Command, Absent, "command to run before each run, not measured"),
            Parameter::new("cleanup", Command, Absent, "command to run after each trial"),
            Parameter::new("input", Paths, Absent, "files and directories to copy into the target before setup"),
            Parameter::new("ok_exit", ExitCodes, codes, "exit codes that are no failure"),
        ],
    );
    all.extend(group(
        ParameterGroup::State,
        [
            parameter::cache(&[CacheState::Any, CacheState::Cold, CacheState::Warm]),
            parameter::durability(&[Durability::End, Durability::None]),
        ],
    ));
    let limit = Duration(1.0..=7.0 * 86_400.0);
    all.extend(group(
        ParameterGroup::Programs,
        [
            Parameter::new(
                "service",
                Tables(&["command", "ready", "stop"]),
                Absent,
                "programs that run beside the command, such as a server",
            ),
            Parameter::new("writable", Paths, Absent, "directories outside the target that commands may write to"),
            Parameter::flag("network", "share the network of this machine with commands"),
            Parameter::new("time_limit", limit, "1h", "time limit of each command"),
            Parameter::new(
                "process_limit",
                Number(1..=MOST_PROCESSES),
                processes,
                "maximum number of processes and threads",
            ),
            Parameter::new(
                "file_limit",
                Number(LEAST_FILES..=MOST_FILES),
                files,
                "maximum number of open files per process",
            ),
            Parameter::new("memory_limit", Size(0..=u64::MAX), "0", "maximum memory per process; 0 for all"),
        ],
    ));
    let keys = Tables(&["name", "pattern", "pointer", "better"]);
    all.extend(group(
        ParameterGroup::Results,
        [
            Parameter::new(
                "metric",
                keys,
                Absent,
                "numbers to read from the output; targets are compared by the first",
            ),
            Parameter::new("verify", Command, Absent, "command to run after each sample, which must succeed"),
            parameter::label(),
        ],
    ));
    let inside = "the worker that measures runs 'prepare' itself";
    all.extend(group(ParameterGroup::Resolved, [Parameter::flag(PREPARE_INSIDE, inside)]));
    all
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let command = script(&mut reader, "command")?.ok_or_else(|| reader.error("command", "it is missing"))?;
        let [setup, prepare, cleanup, verify] = {
            let mut of = |key| script(&mut reader, key);
            [of("setup")?, of("prepare")?, of("cleanup")?, of("verify")?]
        };
        let input = paths(&mut reader, "input")?;
        let writable = paths(&mut reader, "writable")?;
        let ok_exit = exits(&mut reader)?;
        let time_limit = reader.duration("time_limit")?.unwrap_or(TIME_LIMIT);
        let limits = limits(&mut reader)?;
        let network = reader.flag("network")?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let durability = reader.word("durability", Durability::ALL, Durability::name)?;
        let metrics = metrics(&mut reader)?;
        let services = services(&mut reader)?;
        let prepare_inside = reader.flag(PREPARE_INSIDE)?;
        if prepare_inside && cache == CacheState::Cold {
            return Err(reader.error(PREPARE_INSIDE, "'prepare' would warm the files that the command reads"));
        }
        let label = reader.text("label")?;
        reader.finish();
        Ok(Options {
            command,
            setup,
            prepare,
            cleanup,
            verify,
            input,
            writable,
            ok_exit,
            time_limit,
            limits,
            network,
            cache,
            durability,
            metrics,
            services,
            prepare_inside,
            label,
        })
    }

    pub(super) fn params(&self) -> Params {
        let mut params = Params::new();
        let mut add = |key: &str, value: Value| drop(params.insert(key.to_owned(), value));
        add("command", self.command.value());
        let scripts =
            [("setup", &self.setup), ("prepare", &self.prepare), ("cleanup", &self.cleanup), ("verify", &self.verify)];
        for (key, script) in scripts {
            if let Some(script) = script {
                add(key, script.value());
            }
        }
        for (key, paths) in [("input", &self.input), ("writable", &self.writable)] {
            if !paths.is_empty() {
                add(key, json!(paths));
            }
        }
        if self.ok_exit != [0] {
            add("ok_exit", json!(self.ok_exit));
        }
        add("time_limit", format!("{}s", self.time_limit).into());
        add("process_limit", self.limits.processes.into());
        add("file_limit", self.limits.files.into());
        if let Some(bytes) = self.limits.memory {
            add("memory_limit", json!(Bytes(bytes)));
        }
        if self.network {
            add("network", true.into());
        }
        add("cache", self.cache.name().into());
        add("durability", self.durability.name().into());
        if !self.metrics.is_empty() {
            add("metric", self.metrics.iter().map(PrintedMetric::value).collect());
        }
        let service = |service: &Service| {
            let mut value = json!({ "command": service.command.value(), "stop": signal_name(service.stop) });
            if let Some(ready) = &service.ready {
                value["ready"] = ready.value();
            }
            value
        };
        if !self.services.is_empty() {
            add("service", self.services.iter().map(service).collect());
        }
        if self.prepare_inside {
            add(PREPARE_INSIDE, true.into());
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params
    }

    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let text = self.command.shown();
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // The report compares the first printed metric, if there is one.
        let mut label = self.metrics.first().map_or_else(String::new, |metric| format!("{} of ", metric.name));
        label.extend(text.chars().take(SHOWN));
        if text.chars().count() > SHOWN {
            label.push('…');
        }
        label.push_str(match self.cache {
            CacheState::Cold => ", cold",
            CacheState::Warm => ", warm",
            _ => "",
        });
        if self.durability == Durability::End {
            label.push_str(", durable");
        }
        label
    }
}

/// Reads the limits of programs, except time.
fn limits(reader: &mut Reader<'_>) -> Result<ProgramLimits, ParamError> {
    let processes = reader.number("process_limit")?;
    let files = reader.number("file_limit")?;
    let memory = Some(reader.number("memory_limit")?).filter(|bytes| *bytes > 0);
    if memory.is_some_and(|bytes| bytes < LEAST_MEMORY) {
        return Err(reader.error("memory_limit", format!("give at least {}, or 0 for no limit", Bytes(LEAST_MEMORY))));
    }
    Ok(ProgramLimits { processes, files, memory })
}

/// Reads a command: a line for the shell, or a list of words.
fn script(reader: &mut Reader<'_>, key: &'static str) -> Result<Option<Script>, ParamError> {
    let Some(value) = reader.take(key) else { return Ok(None) };
    Script::from_value(value).map(Some).map_err(|why| reader.error(key, why))
}

/// Reads one path or several and makes them absolute, because the agent works in another directory.
fn paths(reader: &mut Reader<'_>, key: &'static str) -> Result<Vec<PathBuf>, ParamError> {
    let Some(value) = reader.take(key) else { return Ok(Vec::new()) };
    let list = match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let path = |value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains('\0'));
        let text = text.ok_or_else(|| reader.error(key, format!("{value} is not a path")))?;
        Ok(std::path::absolute(Path::new(text)).unwrap_or_else(|_| PathBuf::from(text)))
    };
    list.iter().map(path).collect()
}

fn exits(reader: &mut Reader<'_>) -> Result<Vec<i32>, ParamError> {
    let Some(value) = reader.take("ok_exit") else { return Ok(vec![0]) };
    let list = match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let code = |value: &Value| value.as_i64().filter(|code| (0..=255).contains(code)).map(|code| code as i32);
    let codes: Option<Vec<i32>> = list.iter().map(code).collect();
    codes
        .filter(|codes| !codes.is_empty())
        .ok_or_else(|| reader.error("ok_exit", format!("{value} is not a list of exit codes, such as [0, 1]")))
}

/// Reads the tables of a list. Returns an error if a table has a key that is not declared.
fn tables<'v>(
    reader: &mut Reader<'v>,
    key: &'static str,
) -> Result<Vec<&'v serde_json::Map<String, Value>>, ParamError> {
    let known = reader.keys(key);
    let Some(value) = reader.take(key) else { return Ok(Vec::new()) };
    let list: Vec<&Value> = match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    let table = |value: &'v Value| {
        let table = value.as_object().ok_or_else(|| reader.error(key, format!("{value} is not a table")))?;
        match table.keys().find(|own| !known.contains(&own.as_str())) {
            None => Ok(table),
            Some(own) => {
                let unknown = fsb_model::nearest::unknown("key", own, known.iter().copied());
                Err(reader.error(key, unknown))
            }
        }
    };
    list.into_iter().map(table).collect()
}

fn metrics(reader: &mut Reader<'_>) -> Result<Vec<PrintedMetric>, ParamError> {
    const KEY: &str = "metric";
    let tables = tables(reader, KEY)?;
    let mut metrics: Vec<PrintedMetric> = Vec::new();
    for table in tables {
        let text = |key: &str| table.get(key).and_then(Value::as_str);
        let name = text("name").filter(|name| is_name(name));
        let name =
            name.ok_or_else(|| reader.error(KEY, "give each a name of letters, digits and _: name = \"tps\""))?;
        if metrics.iter().any(|known| known.name == name) || fsb_model::metric::find(name).is_some() {
            return Err(reader.error(KEY, format!("'{name}' is the name of another metric")));
        }
        let pattern = match (text("pattern"), text("pointer")) {
            (Some(pattern), None) => Pattern::expression(pattern),
            (None, Some(pointer)) => Pattern::pointer(pointer),
            _ => Err("give a pattern (a regular expression) or a pointer (into JSON)".to_owned()),
        };
        let pattern = pattern.map_err(|why| reader.error(KEY, format!("{name}: {why}")))?;
        let better = match text("better") {
            Some("higher") => Better::Higher,
            Some("lower") => Better::Lower,
            _ => {
                return Err(reader.error(KEY, format!("{name}: say which is better: better = \"higher\" or \"lower\"")));
            }
        };
        metrics.push(PrintedMetric { name: name.to_owned(), pattern, better });
    }
    Ok(metrics)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The signals that a service may be stopped by.
const SIGNALS: [(&str, i32); 5] = [
    ("SIGTERM", libc::SIGTERM),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGHUP", libc::SIGHUP),
    ("SIGKILL", libc::SIGKILL),
];

fn signal_name(signal: i32) -> &'static str {
    SIGNALS.iter().find(|(_, number)| *number == signal).map_or("SIGTERM", |(name, _)| name)
}

fn services(reader: &mut Reader<'_>) -> Result<Vec<Service>, ParamError> {
    const KEY: &str = "service";
    let tables = tables(reader, KEY)?;
    let service = |table: &serde_json::Map<String, Value>| {
        let command = table.get("command").ok_or_else(|| reader.error(KEY, "give each a command"))?;
        let command = Script::from_value(command).map_err(|why| reader.error(KEY, why))?;
        let ready = table.get("ready").map(Script::from_value).transpose().map_err(|why| reader.error(KEY, why))?;
        let stop = match table.get("stop") {
            None => libc::SIGTERM,
            Some(value) => {
                let known = SIGNALS.iter().find(|(name, _)| value.as_str() == Some(name));
                let names = SIGNALS.map(|(name, _)| name).join(", ");
                known.ok_or_else(|| reader.error(KEY, format!("stop = {value} is none of {names}")))?.1
            }
        };
        Ok(Service { command, ready, stop })
    };
    tables.into_iter().map(service).collect()
}
