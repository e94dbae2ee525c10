//! Feeds the calls of a trace to the threads that replay them.
//!
//! Before the clock starts, the feeder loads as many blocks as a usual trace has. It loads the rest
//! of a longer trace during the replay, one block each time the oldest one is done, so that memory
//! does not grow with the trace. Calls wait only for earlier ones, so the lane that is furthest
//! behind can always continue.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsb_model::{CacheState, Params};
use fsb_trace::recordings::{self, Recording};
use fsb_trace::{
    Call, CallKind, Header, Initial, Order, Overhead, Reader as TraceReader, Skimmed, State,
    Totals, TracePart, Writer, flags,
};
use serde_json::Value;

use super::calls::{Batch, ReplayStep};
use crate::error::{EngineError, ParamError};
use crate::task::Sizing;
use crate::workload::parameter::{
    self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group,
};
use crate::workload::params::Reader;

/// Blocks that are loaded and not done at any time: a million calls.
const WINDOW: usize = 16;
/// The longest wait before a thread checks whether the replay is over.
const NAP: Duration = Duration::from_millis(50);

/// The state of reading the trace.
struct CallSource<R: Read> {
    reader: TraceReader<R>,
    order: Order,
    slots: Slots,
    origin_ns: Option<u64>,
    /// Blocks read so far.
    blocks: usize,
    ended: bool,
    unopened: u64,
}

/// The batches that wait for the threads.
#[derive(Default)]
struct Queues {
    lanes: Vec<VecDeque<Batch>>,
    /// Number of unfinished batches of each block.
    left: VecDeque<(usize, usize)>,
    ended: bool,
    stopped: bool,
}

/// Feeds calls to threads.
pub(super) struct Feeder {
    source: Mutex<CallSource<TraceBytes>>,
    queues: Mutex<Queues>,
    changed: Condvar,
    lanes: usize,
}

impl Feeder {
    pub(super) fn new(options: &ReplayOptions, skimmed: &Skimmed) -> Result<Feeder, EngineError> {
        let lanes = options.totals.lanes.max(1);
        let mut order = Order::new(lanes, options.overhead.gap_ns);
        order.initial(&skimmed.initial);
        let source = CallSource {
            reader: options.source.reader()?,
            order,
            slots: Slots::default(),
            origin_ns: None,
            blocks: 0,
            ended: false,
            unopened: 0,
        };
        let queues = Queues {
            lanes: (0..lanes).map(|_| VecDeque::new()).collect(),
            ..Queues::default()
        };
        Ok(Feeder {
            source: Mutex::new(source),
            queues: Mutex::new(queues),
            changed: Condvar::new(),
            lanes: lanes as usize,
        })
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads as many blocks as the window allows.
    pub(super) fn fill(&self) -> Result<(), EngineError> {
        while self.queues().left.len() < WINDOW && self.bring()? {}
        Ok(())
    }

    /// Loads the rest, block by block, until the trace ends or the replay stops.
    pub(super) fn feed(&self) -> Result<(), EngineError> {
        loop {
            let mut queues = self.queues();
            while !queues.stopped && !queues.ended && queues.left.len() >= WINDOW {
                queues = self
                    .changed
                    .wait_timeout(queues, NAP)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if queues.stopped || queues.ended {
                return Ok(());
            }
            drop(queues);
            if let Err(error) = self.bring() {
                self.stop();
                return Err(error);
            }
        }
    }

    /// Stops the feeder: no thread needs further calls.
    pub(super) fn stop(&self) {
        self.queues().stopped = true;
        self.changed.notify_all();
    }

    /// Returns the number of calls on descriptors that the trace never opens.
    pub(super) fn unopened(&self) -> u64 {
        self.source
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unopened
    }

    /// Returns the next calls of a lane, which has done the calls of `done`. Returns `None` at the
    /// end.
    pub(super) fn next(
        &self,
        lane: u32,
        done: Option<&Batch>,
        given_up: impl Fn() -> bool,
    ) -> Option<Batch> {
        let mut queues = self.queues();
        if let Some(done) = done {
            if let Some(block) = queues
                .left
                .iter_mut()
                .find(|(block, _)| *block == done.block)
            {
                block.1 -= 1;
            }
            while queues.left.front().is_some_and(|(_, left)| *left == 0) {
                queues.left.pop_front();
                self.changed.notify_all();
            }
        }
        loop {
            if let Some(batch) = queues
                .lanes
                .get_mut(lane as usize)
                .and_then(VecDeque::pop_front)
            {
                return Some(batch);
            }
            if queues.ended || queues.stopped || given_up() {
                return None;
            }
            queues = self
                .changed
                .wait_timeout(queues, NAP)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Loads one block. Returns whether there may be more.
    fn bring(&self) -> Result<bool, EngineError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let batches = source.next_block(self.lanes)?;
        let (block, ended) = (source.blocks, source.ended);
        drop(source);
        let mut queues = self.queues();
        if let Some(batches) = batches {
            let with_calls = batches
                .iter()
                .filter(|batch| !batch.steps.is_empty())
                .count();
            queues.left.push_back((block, with_calls));
            for (queue, batch) in queues.lanes.iter_mut().zip(batches) {
                if !batch.steps.is_empty() {
                    queue.push_back(Batch { block, ..batch });
                }
            }
        }
        queues.ended = ended;
        self.changed.notify_all();
        Ok(!ended)
    }
}

impl<R: Read> CallSource<R> {
    /// Reads the next block, lane by lane. Returns `None` at the end of the trace.
    fn next_block(&mut self, lanes: usize) -> Result<Option<Vec<Batch>>, EngineError> {
        loop {
            let part = self.reader.next_part();
            match part.map_err(|error| EngineError::new(format!("read the trace: {error}")))? {
                Some(TracePart::Calls(calls)) => {
                    self.blocks += 1;
                    let mut batches: Vec<Batch> = (0..lanes).map(|_| Batch::default()).collect();
                    calls.iter().for_each(|call| self.add(call, &mut batches));
                    return Ok(Some(batches));
                }
                Some(TracePart::Initial(_)) => {}
                Some(TracePart::End(_)) | None => {
                    self.ended = true;
                    return Ok(None);
                }
            }
        }
    }

    fn add(&mut self, call: &Call, batches: &mut [Batch]) {
        let origin = *self.origin_ns.get_or_insert(call.start_ns);
        let turn = self.order.turn(call, self.reader.names());
        let (slot, other, opened) = self.slots.find(call);
        // Only a hand-made trace has more lanes than its end states.
        let Some(batch) = batches.get_mut(call.lane as usize) else {
            return;
        };
        let first_of_all = turn.number == 1 && turn.waits.is_empty();
        let think_ns = if first_of_all {
            call.start_ns.saturating_sub(origin)
        } else {
            turn.think_ns
        };
        let before = batch.waits.len() as u32;
        batch.waits.extend(turn.waits);
        let unopened = call.kind.is_replayed() && !opened;
        self.unopened += u64::from(unopened);
        // The think time before a wait for a child is at most the time since the recording began.
        let think_ns = if call.kind == CallKind::Wait {
            think_ns.min(call.start_ns)
        } else {
            think_ns
        };
        batch.steps.push(ReplayStep {
            call: *call,
            slot,
            other,
            think_ns,
            after_ns: turn.after_ns,
            unopened,
            waits: before..batch.waits.len() as u32,
        });
    }
}

/// The place of each open descriptor of the trace.
///
/// Only the lane that released a place uses it again, because its own order is certain. Memory
/// grows with the descriptors that are open at once, not with the trace.
#[derive(Debug, Default)]
struct Slots {
    places: HashMap<u32, u32>,
    free: HashMap<u32, Vec<u32>>,
    next: u32,
}

impl Slots {
    /// Returns a new place for the descriptor that a call opens. Keeps the place only if the
    /// recorded call succeeded.
    fn take(&mut self, call: &Call) -> u32 {
        let again = self.free.get_mut(&call.lane).and_then(Vec::pop);
        let place = again.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        if call.result < 0 {
            // If the replayed call opens a descriptor after all, it is closed at once.
            self.free.entry(call.lane).or_default().push(place);
        } else if let Some(lost) = self.places.insert(call.handle, place) {
            // No recorder uses a number twice, but a hand-made trace may.
            self.free.entry(call.lane).or_default().push(lost);
        }
        place
    }

    /// Returns the places of a call's descriptors, and whether all of them were opened.
    fn find(&mut self, call: &Call) -> (u32, u32, bool) {
        fn find(places: &HashMap<u32, u32>, handle: u32) -> Option<u32> {
            places.get(&handle).copied()
        }
        match call.kind {
            CallKind::Open => (self.take(call), 0, true),
            CallKind::Duplicate => {
                let old = find(&self.places, call.other);
                (self.take(call), old.unwrap_or_default(), old.is_some())
            }
            CallKind::Close => match self.places.remove(&call.handle) {
                Some(place) => {
                    self.free.entry(call.lane).or_default().push(place);
                    (place, 0, true)
                }
                None => (0, 0, false),
            },
            CallKind::Copy => {
                let both = (
                    find(&self.places, call.handle),
                    find(&self.places, call.other),
                );
                (
                    both.0.unwrap_or_default(),
                    both.1.unwrap_or_default(),
                    both.0.is_some() && both.1.is_some(),
                )
            }
            CallKind::SyncFileSystem if call.handle == 0 => (u32::MAX, 0, true),
            _ if call.handle == 0 => (0, 0, call.kind.is_about_names()),
            _ => {
                let place = find(&self.places, call.handle);
                (place.unwrap_or_default(), 0, place.is_some())
            }
        }
    }
}

// The options of a replay, and the source of its trace: a file, or a small made-up trace. In the
// latter, one of two threads writes the data that the other one reads.

/// The maximum number of threads.
const MOST_LANES: u32 = 1024;

/// The factor of think times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace(pub(super) f64);

/// Resolved parameters, and the totals and the overhead that the trace contains.
pub(super) struct ReplayOptions {
    pub(super) source: TraceSource,
    pub(super) pace: Pace,
    pub(super) cache: CacheState,
    force: bool,
    label: Option<String>,
    pub(super) totals: Totals,
    overhead: Overhead,
}

/// Returns the table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    let trace = ParameterDefault::Required("trace = \"app.trace\"");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new(
                "trace",
                ParameterKind::Path,
                trace,
                "trace to replay: a file that 'fsb record' wrote, or recording:NAME of a preset",
            ),
            Parameter::new(
                "pace",
                ParameterKind::Pace,
                "recorded",
                "think time between calls",
            ),
            Parameter::flag("force", "replay a trace although it is incomplete"),
        ],
    );
    all.extend(group(ParameterGroup::State, [parameter::cache(&caches())]));
    all.extend(group(ParameterGroup::Results, [parameter::label()]));
    let calls = ParameterDefault::Derived("counted in the trace");
    let about = "calls of the trace, so that a different one is refused";
    all.extend(group(
        ParameterGroup::Resolved,
        [Parameter::new(
            "calls",
            ParameterKind::Number(0..=u64::MAX),
            calls,
            about,
        )],
    ));
    all
}

impl ReplayOptions {
    pub(super) fn parse(
        name: &str,
        params: &Params,
        sizing: &Sizing,
    ) -> Result<ReplayOptions, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let trace = reader.text("trace")?.unwrap_or_default();
        let pace = pace(&mut reader)?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let force = reader.flag("force")?;
        let calls = reader.take("calls").and_then(Value::as_u64);
        let label = reader.text("label")?;
        let source = TraceSource::parse(&trace);
        let unfit = |reader: &Reader<'_>, message: String| Err(reader.error("trace", message));
        let skimmed = source
            .skim()
            .map_err(|error| reader.error("trace", error.message))?;
        let (totals, overhead) = (skimmed.totals, skimmed.header.overhead);
        if calls.is_some_and(|calls| calls != totals.calls) {
            return unfit(
                &reader,
                format!("{} is not the trace that the run began with", source.text()),
            );
        }
        if totals.replayed == 0 {
            return unfit(
                &reader,
                format!("{} holds no call that fsb can replay", source.text()),
            );
        }
        if totals.lanes > MOST_LANES {
            let message = format!(
                "{} threads at once are too many: at most {MOST_LANES}",
                totals.lanes
            );
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
        Ok(ReplayOptions {
            source,
            pace,
            cache,
            force,
            label,
            totals,
            overhead,
        })
    }

    pub(super) fn params(&self) -> Params {
        let mut params = crate::workload::params::from_pairs([
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
    let Some(value) = reader.value("pace") else {
        return Ok(Pace(1.0));
    };
    let number = || value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let factor = match value.as_str() {
        Some("recorded") => Some(1.0),
        Some("none") => Some(0.0),
        _ => number().filter(|factor| (0.0..=1000.0).contains(factor)),
    };
    factor.map(Pace).ok_or_else(|| {
        reader.error(
            "pace",
            format!("{value} is neither recorded nor none nor a factor such as 0.5"),
        )
    })
}

/// Returns the states of the cache that a replay can start with.
fn caches() -> [CacheState; 2] {
    [CacheState::Any, CacheState::Cold]
}

/// Returns the bytes of the made-up trace.
fn trace() -> Vec<u8> {
    write().unwrap_or_default()
}

/// Writes the made-up trace of two threads: one writes the data that the other one reads.
fn write() -> Result<Vec<u8>, fsb_trace::TraceError> {
    let mut out = Writer::new(
        Vec::new(),
        &Header {
            by: "example".to_owned(),
            ..Header::default()
        },
    )?;
    let there = out.name(b"there")?;
    let [directory, new, renamed] = [
        out.name(b"made")?,
        out.name(b"made/new")?,
        out.name(b"made/renamed")?,
    ];
    out.initial(Initial {
        name: there,
        state: State::File {
            size: 10_000,
            data: None,
        },
    })?;
    let (read, write) = (flags::READ, flags::WRITE | flags::CREATE);
    let mut now = 0;
    let mut add = |lane: u32, call: Call| {
        now += 1000;
        out.call(&Call {
            lane,
            start_ns: now,
            took_ns: 500,
            ..call
        })
    };
    fn on(kind: CallKind, handle: u32) -> fsb_trace::Call {
        Call {
            handle,
            ..Call::new(kind)
        }
    }
    fn moved(kind: CallKind, handle: u32, offset: u64, length: u64) -> fsb_trace::Call {
        Call {
            offset,
            length,
            result: length as i64,
            ..on(kind, handle)
        }
    }
    add(
        0,
        Call {
            other: 1,
            ..Call::new(CallKind::Spawn)
        },
    )?;
    add(
        0,
        Call {
            name: directory,
            length: 0o755,
            ..Call::new(CallKind::MakeDirectory)
        },
    )?;
    add(
        0,
        Call {
            name: new,
            flags: write,
            length: 0o644,
            ..on(CallKind::Open, 1)
        },
    )?;
    for at in 0..8 {
        add(0, moved(CallKind::Write, 1, at * 4096, 4096))?;
    }
    add(0, on(CallKind::DataSync, 1))?;
    add(
        0,
        Call {
            name: new,
            second: renamed,
            ..Call::new(CallKind::Rename)
        },
    )?;
    add(
        1,
        Call {
            name: new,
            result: -2,
            ..Call::new(CallKind::StatName)
        },
    )?;
    add(
        1,
        Call {
            name: renamed,
            flags: read,
            ..on(CallKind::Open, 2)
        },
    )?;
    for at in 0..4 {
        add(1, moved(CallKind::ReadAt, 2, at * 8192, 8192))?;
    }
    add(0, on(CallKind::Close, 1))?;
    add(1, on(CallKind::Close, 2))?;
    add(
        1,
        Call {
            name: there,
            flags: read,
            ..on(CallKind::Open, 3)
        },
    )?;
    add(
        1,
        Call {
            length: 16_384,
            result: 10_000,
            ..on(CallKind::Read, 3)
        },
    )?;
    add(1, on(CallKind::Close, 3))?;
    add(1, Call::new(CallKind::Exit))?;
    add(
        0,
        Call {
            other: 1,
            ..Call::new(CallKind::Wait)
        },
    )?;
    add(
        0,
        Call {
            name: renamed,
            ..Call::new(CallKind::Unlink)
        },
    )?;
    add(
        0,
        Call {
            name: directory,
            ..Call::new(CallKind::RemoveDirectory)
        },
    )?;
    out.finish(Totals::default()).map(|(bytes, ..)| bytes)
}

/// The name of the made-up trace.
pub(super) const EXAMPLE: &str = "example";

/// A file, a recording that is part of the program, or the made-up trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceSource {
    Example,
    Recording(&'static Recording),
    File(PathBuf),
}

/// The bytes of a trace.
type TraceBytes = Box<dyn Read + Send>;

impl TraceSource {
    fn parse(text: &str) -> TraceSource {
        if let Some(recording) = recordings::find(text) {
            return TraceSource::Recording(recording);
        }
        match text {
            EXAMPLE => TraceSource::Example,
            // The agent works in another directory.
            path => {
                TraceSource::File(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)))
            }
        }
    }

    fn text(&self) -> String {
        match self {
            TraceSource::Example => EXAMPLE.to_owned(),
            TraceSource::Recording(recording) => {
                format!("{}{}", recordings::PREFIX, recording.name)
            }
            TraceSource::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// Returns its name in labels.
    fn shown(&self) -> String {
        match self {
            TraceSource::Example => EXAMPLE.to_owned(),
            TraceSource::Recording(recording) => recording.name.to_owned(),
            TraceSource::File(path) => path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        }
    }

    fn failed(&self, error: impl std::fmt::Display) -> EngineError {
        EngineError::new(format!("read the trace {}: {error}", self.text()))
    }

    /// Reads everything but the calls.
    pub(super) fn skim(&self) -> Result<Skimmed, EngineError> {
        let skimmed = match self {
            TraceSource::Example => Skimmed::read(Cursor::new(trace())),
            TraceSource::Recording(recording) => Skimmed::read(Cursor::new(recording.bytes)),
            TraceSource::File(path) => Skimmed::read(open(path)?),
        };
        skimmed.map_err(|error| self.failed(error))
    }

    fn reader(&self) -> Result<TraceReader<TraceBytes>, EngineError> {
        let bytes: TraceBytes = match self {
            TraceSource::Example => Box::new(Cursor::new(trace())),
            TraceSource::Recording(recording) => Box::new(Cursor::new(recording.bytes)),
            TraceSource::File(path) => Box::new(open(path)?),
        };
        TraceReader::new(bytes).map_err(|error| self.failed(error))
    }
}

fn open(path: &Path) -> Result<BufReader<File>, EngineError> {
    let file = fsb_store::input::open(path)
        .map_err(|error| EngineError::io("read the trace", path, &error))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}
