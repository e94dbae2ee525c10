//! Where a trace comes from.

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;

use fsb_trace::{Call, Header, Initial, Kind, Reader, Skimmed, State, Totals, Writer, flags};

use crate::EngineError;

/// The name of a small trace that is made up.
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
            // The agent works elsewhere.
            path => Source::File(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Source::Example => EXAMPLE.to_owned(),
            Source::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// What labels call it.
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

    /// Everything but the calls.
    pub(super) fn skim(&self) -> Result<Skimmed, EngineError> {
        Skimmed::read(self.open()?).map_err(|error| self.failed(error))
    }

    pub(super) fn reader(&self) -> Result<Reader<Box<dyn Bytes>>, EngineError> {
        let mut bytes = self.open()?;
        bytes.seek(SeekFrom::Start(0)).map_err(|error| self.failed(error))?;
        Reader::new(bytes).map_err(|error| self.failed(error))
    }
}

/// Its bytes.
fn trace() -> Vec<u8> {
    write().unwrap_or_default()
}

/// The trace is small: two threads, one of which writes what the other one reads.
fn write() -> Result<Vec<u8>, fsb_trace::TraceError> {
    let mut out = Writer::new(Vec::new(), &Header { by: "nobody".to_owned(), ..Header::default() })?;
    let there = out.name(b"there")?;
    let [directory, new, renamed] = [out.name(b"made")?, out.name(b"made/new")?, out.name(b"made/renamed")?];
    out.initial(Initial { name: there, state: State::File { size: 10_000, data: None } })?;
    let (read, write) = (flags::READ, flags::WRITE | flags::CREATE);
    let mut now = 0;
    let mut add = |lane: u32, call: Call| {
        now += 1000;
        out.call(&Call { lane, start_ns: now, took_ns: 500, ..call })
    };
    let on = |kind: Kind, handle: u32| Call { handle, ..Call::new(kind) };
    let moved = |kind: Kind, handle: u32, offset: u64, length: u64| Call {
        offset,
        length,
        result: length as i64,
        ..on(kind, handle)
    };
    add(0, Call { other: 1, ..Call::new(Kind::Spawn) })?;
    add(0, Call { name: directory, length: 0o755, ..Call::new(Kind::MakeDirectory) })?;
    add(0, Call { name: new, flags: write, length: 0o644, ..on(Kind::Open, 1) })?;
    for at in 0..8 {
        add(0, moved(Kind::Write, 1, at * 4096, 4096))?;
    }
    add(0, on(Kind::DataSync, 1))?;
    add(0, Call { name: new, second: renamed, ..Call::new(Kind::Rename) })?;
    add(1, Call { name: new, result: -2, ..Call::new(Kind::StatName) })?;
    add(1, Call { name: renamed, flags: read, ..on(Kind::Open, 2) })?;
    for at in 0..4 {
        add(1, moved(Kind::ReadAt, 2, at * 8192, 8192))?;
    }
    add(0, on(Kind::Close, 1))?;
    add(1, on(Kind::Close, 2))?;
    add(1, Call { name: there, flags: read, ..on(Kind::Open, 3) })?;
    add(1, Call { length: 16_384, result: 10_000, ..on(Kind::Read, 3) })?;
    add(1, on(Kind::Close, 3))?;
    add(1, Call::new(Kind::Exit))?;
    add(0, Call { other: 1, ..Call::new(Kind::Wait) })?;
    add(0, Call { name: renamed, ..Call::new(Kind::Unlink) })?;
    add(0, Call { name: directory, ..Call::new(Kind::RemoveDirectory) })?;
    out.finish(Totals::default()).map(|(bytes, ..)| bytes)
}
