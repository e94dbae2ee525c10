//! The options of a replay, and the source of its trace: a file, or a small made-up trace. In the latter, one of two
//! threads writes the data that the other one reads.

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;

use fsb_model::{CacheState, Params};
use fsb_trace::{Call, CallKind, Header, Initial, Overhead, Skimmed, State, Totals, Writer, flags};
use serde_json::Value;

use crate::workload::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use crate::workload::params::Reader;
use crate::{EngineError, ParamError, Sizing};

/// The maximum number of threads.
const MOST_LANES: u32 = 1024;

/// The factor of think times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace(pub(super) f64);

/// Resolved parameters, and the totals and the overhead that the trace contains.
pub(super) struct Options {
    pub(super) source: Source,
    pub(super) pace: Pace,
    pub(super) cache: CacheState,
    force: bool,
    label: Option<String>,
    pub(super) totals: Totals,
    pub(super) overhead: Overhead,
}

/// The table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    let trace = ParameterDefault::Required("trace = \"app.trace\"");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new("trace", ParameterKind::Path, trace, "trace to replay: a file that 'fsb record' wrote"),
            Parameter::new("pace", ParameterKind::Pace, "recorded", "think time between calls"),
            Parameter::flag("force", "replay a trace although it is incomplete"),
        ],
    );
    all.extend(group(ParameterGroup::State, [parameter::cache(&caches())]));
    all.extend(group(ParameterGroup::Results, [parameter::label()]));
    let calls = ParameterDefault::Derived("counted in the trace");
    let about = "calls of the trace, so that a different one is refused";
    all.extend(group(
        ParameterGroup::Resolved,
        [Parameter::new("calls", ParameterKind::Number(0..=u64::MAX), calls, about)],
    ));
    all
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let trace = reader.text("trace")?.unwrap_or_default();
        let pace = pace(&mut reader)?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let force = reader.flag("force")?;
        let calls = reader.take("calls").and_then(Value::as_u64);
        let label = reader.text("label")?;
        let source = Source::of(&trace);
        let unfit = |reader: &Reader<'_>, message: String| Err(reader.error("trace", message));
        let skimmed = source.skim().map_err(|error| reader.error("trace", error.message))?;
        let (totals, overhead) = (skimmed.totals, skimmed.header.overhead);
        if calls.is_some_and(|calls| calls != totals.calls) {
            return unfit(&reader, format!("{} is not the trace that the run began with", source.text()));
        }
        if totals.replayed == 0 {
            return unfit(&reader, format!("{} holds no call that fsb can replay", source.text()));
        }
        if totals.lanes > MOST_LANES {
            let message = format!("{} threads at once are too many: at most {MOST_LANES}", totals.lanes);
            return unfit(&reader, message);
        }
        if let Some(reason) = totals.incomplete.first().filter(|_| !force) {
            let message = format!(
                "{} is incomplete: {reason} were not recorded, so a ranking may be wrong; replay it with --force \
                 (force = true)",
                source.text()
            );
            return unfit(&reader, message);
        }
        reader.finish();
        Ok(Options { source, pace, cache, force, label, totals, overhead })
    }

    pub(super) fn params(&self) -> Params {
        let mut params = crate::workload::params::of([
            ("trace", self.source.text().into()),
            ("calls", self.totals.calls.into()),
            ("cache", self.cache.name().into()),
            ("pace", self.pace.value()),
        ]);
        if self.force {
            params.insert("force".to_owned(), true.into());
        }
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), label.as_str().into());
        }
        params
    }

    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let mut label = format!("replay of {}", self.source.shown());
        label.push_str(&match self.pace.0 {
            0.0 => ", without think times".to_owned(),
            1.0 => String::new(),
            factor => format!(", think times × {factor}"),
        });
        if self.cache == CacheState::Cold {
            label.push_str(", cold");
        }
        if !self.totals.incomplete.is_empty() {
            label.push_str(", incomplete");
        }
        label
    }
}

impl Pace {
    fn value(self) -> Value {
        match self.0 {
            0.0 => "none".into(),
            1.0 => "recorded".into(),
            factor => factor.into(),
        }
    }
}

fn pace(reader: &mut Reader<'_>) -> Result<Pace, ParamError> {
    let Some(value) = reader.value("pace") else { return Ok(Pace(1.0)) };
    let number = || value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let factor = match value.as_str() {
        Some("recorded") => Some(1.0),
        Some("none") => Some(0.0),
        _ => number().filter(|factor| (0.0..=1000.0).contains(factor)),
    };
    let wanted = || reader.error("pace", format!("{value} is neither recorded nor none nor a factor such as 0.5"));
    factor.map(Pace).ok_or_else(wanted)
}

/// Returns the states of the cache that a replay can start with.
fn caches() -> [CacheState; 2] {
    [CacheState::Any, CacheState::Cold]
}

/// Returns the bytes of the made-up trace.
pub(super) fn trace() -> Vec<u8> {
    write().unwrap_or_default()
}

/// Writes the made-up trace of two threads: one writes the data that the other one reads.
fn write() -> Result<Vec<u8>, fsb_trace::TraceError> {
    let mut out = Writer::new(Vec::new(), &Header { by: "example".to_owned(), ..Header::default() })?;
    let there = out.name(b"there")?;
    let [directory, new, renamed] = [out.name(b"made")?, out.name(b"made/new")?, out.name(b"made/renamed")?];
    out.initial(Initial { name: there, state: State::File { size: 10_000, data: None } })?;
    let (read, write) = (flags::READ, flags::WRITE | flags::CREATE);
    let mut now = 0;
    let mut add = |lane: u32, call: Call| {
        now += 1000;
        out.call(&Call { lane, start_ns: now, took_ns: 500, ..call })
    };
    let on = |kind: CallKind, handle: u32| Call { handle, ..Call::new(kind) };
    let moved = |kind: CallKind, handle: u32, offset: u64, length: u64| Call {
        offset,
        length,
        result: length as i64,
        ..on(kind, handle)
    };
    add(0, Call { other: 1, ..Call::new(CallKind::Spawn) })?;
    add(0, Call { name: directory, length: 0o755, ..Call::new(CallKind::MakeDirectory) })?;
    add(0, Call { name: new, flags: write, length: 0o644, ..on(CallKind::Open, 1) })?;
    for at in 0..8 {
        add(0, moved(CallKind::Write, 1, at * 4096, 4096))?;
    }
    add(0, on(CallKind::DataSync, 1))?;
    add(0, Call { name: new, second: renamed, ..Call::new(CallKind::Rename) })?;
    add(1, Call { name: new, result: -2, ..Call::new(CallKind::StatName) })?;
    add(1, Call { name: renamed, flags: read, ..on(CallKind::Open, 2) })?;
    for at in 0..4 {
        add(1, moved(CallKind::ReadAt, 2, at * 8192, 8192))?;
    }
    add(0, on(CallKind::Close, 1))?;
    add(1, on(CallKind::Close, 2))?;
    add(1, Call { name: there, flags: read, ..on(CallKind::Open, 3) })?;
    add(1, Call { length: 16_384, result: 10_000, ..on(CallKind::Read, 3) })?;
    add(1, on(CallKind::Close, 3))?;
    add(1, Call::new(CallKind::Exit))?;
    add(0, Call { other: 1, ..Call::new(CallKind::Wait) })?;
    add(0, Call { name: renamed, ..Call::new(CallKind::Unlink) })?;
    add(0, Call { name: directory, ..Call::new(CallKind::RemoveDirectory) })?;
    out.finish(Totals::default()).map(|(bytes, ..)| bytes)
}

/// The name of the made-up trace.
pub(super) const EXAMPLE: &str = "example";

/// A file, or the made-up trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Example,
    File(PathBuf),
}

/// Bytes of a trace.
pub(super) trait Bytes: Read + Seek + Send {}
impl<T: Read + Seek + Send> Bytes for T {}

impl Source {
    pub(super) fn of(text: &str) -> Source {
        match text {
            EXAMPLE => Source::Example,
            // The agent works in another directory.
            path => Source::File(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Source::Example => EXAMPLE.to_owned(),
            Source::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// Returns its name in labels.
    pub(super) fn shown(&self) -> String {
        match self {
            Source::Example => EXAMPLE.to_owned(),
            Source::File(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    fn open(&self) -> Result<Box<dyn Bytes>, EngineError> {
        match self {
            Source::Example => Ok(Box::new(Cursor::new(trace()))),
            Source::File(path) => {
                let file = fsb_input::open(path).map_err(|error| EngineError::io("read the trace", path, &error))?;
                Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
            }
        }
    }

    fn failed(&self, error: impl std::fmt::Display) -> EngineError {
        EngineError::new(format!("read the trace {}: {error}", self.text()))
    }

    /// Reads everything but the calls.
    pub(super) fn skim(&self) -> Result<Skimmed, EngineError> {
        Skimmed::read(self.open()?).map_err(|error| self.failed(error))
    }

    pub(super) fn reader(&self) -> Result<fsb_trace::Reader<Box<dyn Bytes>>, EngineError> {
        let mut bytes = self.open()?;
        bytes.seek(SeekFrom::Start(0)).map_err(|error| self.failed(error))?;
        fsb_trace::Reader::new(bytes).map_err(|error| self.failed(error))
    }
}
