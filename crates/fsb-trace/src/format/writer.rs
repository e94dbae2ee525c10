//! Writes a trace during a recording.

use std::collections::HashMap;
use std::io::Write;

use super::codec::Codec;
use super::content::{pack_initial, pack_names};
use super::{BLOCK, CALLS, END, HEADER, Header, INITIAL, LARGEST_SECTION, MAGIC, NAMES, Totals, VERSION};
use crate::TraceError;
use crate::anonymous::Disguise;
use crate::call::{Call, CallKind, flags};
use crate::initial::{Initial, State};

/// zstd's own choice between speed and size.
const LEVEL: i32 = 3;
/// Bytes of names that are written at once.
const NAME_BYTES: usize = 4 << 20;

/// Writes calls in the order in which they ended.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    codec: Codec,
    numbers: HashMap<Box<[u8]>, u32>,
    disguise: Option<Disguise>,
    names: Vec<Vec<u8>>,
    name_bytes: usize,
    initial: Vec<Initial>,
    calls: Vec<Call>,
    totals: Totals,
    first_ns: Option<u64>,
    /// Names of open descriptors, and how far files were written.
    open: HashMap<u32, u32>,
    reach: HashMap<u32, u64>,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(out: W, header: &Header) -> Result<Writer<W>, TraceError> {
        let mut writer = Writer {
            out,
            codec: Codec::default(),
            numbers: HashMap::new(),
            disguise: header.anonymous.then(Disguise::default),
            names: Vec::new(),
            name_bytes: 0,
            initial: Vec::new(),
            calls: Vec::with_capacity(BLOCK),
            totals: Totals::default(),
            first_ns: None,
            open: HashMap::new(),
            reach: HashMap::new(),
            bytes: 0,
        };
        writer.out.write_all(MAGIC)?;
        writer.out.write_all(&VERSION.to_le_bytes())?;
        writer.bytes = 10;
        let json = serde_json::to_vec(header).map_err(std::io::Error::from)?;
        writer.section(HEADER, 1, &json)?;
        Ok(writer)
    }

    /// Returns the number of a name below the root.
    pub fn name(&mut self, name: &[u8]) -> Result<u32, TraceError> {
        if name.is_empty() {
            return Ok(0);
        }
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = self.numbers.len() as u32 + 1;
        self.numbers.insert(name.into(), number);
        let written = self.disguise.as_ref().map_or_else(|| name.to_vec(), |disguise| disguise.name(name));
        self.name_bytes += written.len();
        self.names.push(written);
        if self.name_bytes > NAME_BYTES {
            self.flush_names()?;
        }
        Ok(number)
    }

    /// Adds the state of a name before the first call.
    pub fn initial(&mut self, mut initial: Initial) -> Result<(), TraceError> {
        match &mut initial.state {
            State::File { size, data } => {
                let bytes = data.as_ref().map_or(*size, |data| data.iter().map(|(_, length)| length).sum());
                self.totals.initial_bytes = self.totals.initial_bytes.saturating_add(bytes);
                self.totals.space = self.totals.space.saturating_add(bytes);
            }
            State::Link { to } => {
                if let Some(disguise) = &self.disguise {
                    *to = disguise.name(to);
                }
            }
            _ => {}
        }
        self.totals.inodes += 1;
        self.initial.push(initial);
        if self.initial.len() >= BLOCK { self.flush_initial() } else { Ok(()) }
    }

    /// Adds the next call.
    pub fn call(&mut self, call: &Call) -> Result<(), TraceError> {
        self.count(call);
        self.calls.push(*call);
        if self.calls.len() >= BLOCK { self.flush_calls() } else { Ok(()) }
    }

    fn count(&mut self, call: &Call) {
        let totals = &mut self.totals;
        totals.calls += 1;
        totals.replayed += u64::from(call.kind.is_replayed());
        totals.lanes = totals.lanes.max(call.lane + 1);
        let first = *self.first_ns.get_or_insert(call.start_ns);
        totals.duration_ns = totals.duration_ns.max(call.end_ns().saturating_sub(first));
        match call.kind {
            CallKind::Read | CallKind::ReadAt => totals.read_bytes = totals.read_bytes.saturating_add(call.moved()),
            CallKind::Write | CallKind::WriteAt | CallKind::Copy => {
                totals.written_bytes = totals.written_bytes.saturating_add(call.moved());
            }
            CallKind::Open if call.result >= 0 => {
                self.open.insert(call.handle, call.name);
            }
            CallKind::Duplicate if call.result >= 0 => {
                let name = self.open.get(&call.other).copied().unwrap_or_default();
                self.open.insert(call.handle, name);
            }
            CallKind::Close => {
                self.open.remove(&call.handle);
            }
            _ => {}
        }
        let end = match call.kind {
            CallKind::Write | CallKind::WriteAt => Some((call.handle, call.offset.saturating_add(call.moved()))),
            CallKind::Allocate if call.result >= 0 => Some((call.handle, call.offset.saturating_add(call.length))),
            CallKind::Copy => Some((call.other, call.moved())),
            _ => None,
        };
        if let Some((name, end)) = end.and_then(|(handle, end)| Some((*self.open.get(&handle)?, end))) {
            let reach = self.reach.entry(name).or_default();
            if end > *reach {
                totals.space = totals.space.saturating_add(end - *reach);
                *reach = end;
            }
        }
        if call.kind.moves() {
            totals.largest = totals.largest.max(call.moved());
        }
        let makes = matches!(call.kind, CallKind::MakeDirectory | CallKind::Link | CallKind::SymbolicLink)
            || (call.kind == CallKind::Open && call.flags & (flags::CREATE | flags::TEMPORARY) != 0);
        totals.inodes += u64::from(makes && call.result >= 0);
        totals.descriptors = totals.descriptors.max(self.open.len() as u32);
    }

    fn flush_names(&mut self) -> Result<(), TraceError> {
        let names = std::mem::take(&mut self.names);
        self.name_bytes = 0;
        if names.is_empty() { Ok(()) } else { self.section(NAMES, names.len(), &pack_names(&names)) }
    }

    fn flush_initial(&mut self) -> Result<(), TraceError> {
        self.flush_names()?;
        let initial = std::mem::take(&mut self.initial);
        if initial.is_empty() { Ok(()) } else { self.section(INITIAL, initial.len(), &pack_initial(&initial)) }
    }

    fn flush_calls(&mut self) -> Result<(), TraceError> {
        self.flush_initial()?;
        if self.calls.is_empty() {
            return Ok(());
        }
        let calls = std::mem::take(&mut self.calls);
        let packed = self.codec.pack(&calls);
        self.section(CALLS, calls.len(), &packed)?;
        self.calls = calls;
        self.calls.clear();
        Ok(())
    }

    fn section(&mut self, tag: u8, count: usize, content: &[u8]) -> Result<(), TraceError> {
        if content.len() > LARGEST_SECTION {
            return Err(TraceError::Unfit("a section would be larger than any reader takes".to_owned()));
        }
        let packed = zstd::bulk::compress(content, LEVEL)?;
        let mut head = vec![tag];
        for number in [count as u32, content.len() as u32, packed.len() as u32, crc32fast::hash(&packed)] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        self.out.write_all(&head)?;
        self.out.write_all(&packed)?;
        self.bytes += (head.len() + packed.len()) as u64;
        Ok(())
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.totals.calls
    }

    /// Ends the trace. Returns the stream, the totals and the number of bytes. Facts that only the recorder knows are
    /// taken from `known`; the writer has counted the others.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, known: Totals) -> Result<(W, Totals, u64), TraceError> {
        self.flush_calls()?;
        let Totals { tasks, incomplete, notes, outside, recording_seconds, .. } = known;
        let counted = std::mem::take(&mut self.totals);
        let tasks = tasks.max(u64::from(counted.lanes));
        let totals = Totals { tasks, incomplete, notes, outside, recording_seconds, ..counted };
        let json = serde_json::to_vec(&totals).map_err(std::io::Error::from)?;
        self.section(END, 1, &json)?;
        self.out.flush()?;
        Ok((self.out, totals, self.bytes))
    }
}
