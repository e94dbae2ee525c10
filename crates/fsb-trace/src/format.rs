//! The format on disk: a header, then sections in the order of the recording, then an end.
//!
//! A file begins with `fsbtrace` and two bytes of version. Each section is a letter, four numbers
//! and a zstd frame. The numbers are the number of items, the bytes of the content, the bytes of
//! the frame, and a CRC-32 of the frame. Each of them has four bytes, little-endian.
//!
//! Names and initial states come in sections of their own. Calls come in blocks of up to 65,536,
//! column by column. Their numbers are differences from the predicted ones, in LEB128. The
//! predictions continue from block to block, so a trace is read from its beginning.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read, Seek, SeekFrom, Write};

use serde::{Deserialize, Serialize};

use crate::call::{Call, CallKind, Initial, State, VERSION, flags};
use crate::codec::{Codec, Names, pack_initial, pack_names, unpack_initial, unpack_names};
use crate::{Gap, Remark, TraceError, TraceNote};

const MAGIC: &[u8; 8] = b"fsbtrace";
/// The beginning of the formats from before the first release.
const FORMER: &[u8; 8] = b"FSBTRACE";
/// Calls in a block.
const BLOCK: usize = 65_536;
/// Bytes of a section, unpacked: a block of the longest calls takes some five.
const LARGEST_SECTION: usize = 64 << 20;

const HEADER: u8 = b'H';
const NAMES: u8 = b'N';
const INITIAL: u8 = b'I';
const CALLS: u8 = b'C';
const END: u8 = b'E';

/// The facts that are known when a recording begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The recorded command, as it was typed; empty if names are hidden.
    #[serde(default)]
    pub program: String,
    /// The directory that all names are below; empty if names are hidden.
    #[serde(default)]
    pub root: String,
    /// The method that observed the calls: `ptrace`, `ebpf`, `strace`, …
    pub by: String,
    /// The version of fsb that wrote it.
    #[serde(default)]
    pub fsb: String,
    /// The kernel that it was recorded on.
    #[serde(default)]
    pub kernel: String,
    /// Processors of that machine.
    #[serde(default)]
    pub cpus: u32,
    /// When, in UTC.
    #[serde(default)]
    pub time: String,
    /// Names are replaced by meaningless ones.
    #[serde(default)]
    pub anonymous: bool,
    /// The time that recording added to each call.
    #[serde(default)]
    pub overhead: Overhead,
}

/// The time that recording added, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// To the time that a call took.
    pub call_ns: u64,
    /// To the time between two calls.
    pub gap_ns: u64,
}

/// The facts that are known when a recording has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls in the trace.
    pub calls: u64,
    /// Calls that a replay makes.
    pub replayed: u64,
    pub lanes: u32,
    /// Threads and processes.
    pub tasks: u64,
    /// Nanoseconds from the first call to the end of the last one.
    pub duration_ns: u64,
    /// The largest number of bytes that a call moved.
    pub largest: u64,
    /// Bytes read and written.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Bytes that the initial files hold.
    pub initial_bytes: u64,
    /// Bytes that a replay needs at most.
    #[serde(default)]
    pub space: u64,
    /// Files and directories that a replay needs at most.
    pub inodes: u64,
    /// Most descriptors open at once.
    pub descriptors: u32,
    /// The activity that the trace lacks; empty if it is complete.
    #[serde(default)]
    pub incomplete: Vec<Remark<Gap>>,
    #[serde(default)]
    pub notes: Vec<Remark<TraceNote>>,
    /// Calls on files outside the root.
    #[serde(default)]
    pub outside: u64,
    /// Seconds that the program ran, and the seconds of them that recording took, as far as they
    /// are known.
    #[serde(default)]
    pub recording_seconds: f64,
}

/// The next part of a trace.
#[derive(Debug)]
pub enum TracePart {
    /// The states of names before the first call.
    Initial(Vec<Initial>),
    /// Calls, in the order in which they ended.
    Calls(Vec<Call>),
    End(Box<Totals>),
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R: Read> {
    from: R,
    header: Header,
    codec: Codec,
    names: Names,
    calls: u64,
    ended: bool,
}

struct Section {
    tag: u8,
    count: usize,
    content: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// Fails if the input is not a trace, has another version, or is damaged.
    pub fn new(mut from: R) -> Result<Reader<R>, TraceError> {
        let mut magic = [0; 10];
        match from.read_exact(&mut magic) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(TraceError::NotATrace);
            }
            read => read?,
        }
        if magic[..8] == FORMER[..] {
            return Err(TraceError::Former);
        }
        if magic[..8] != MAGIC[..] {
            return Err(TraceError::NotATrace);
        }
        let version = u16::from_le_bytes([magic[8], magic[9]]);
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        let mut reader = Reader {
            from,
            header: Header::default(),
            codec: Codec::default(),
            names: Names::default(),
            calls: 0,
            ended: false,
        };
        let section = reader.section()?;
        if section.tag != HEADER {
            return Err(TraceError::damaged("it begins without a header"));
        }
        reader.header = serde_json::from_slice(&section.content)
            .map_err(|error| TraceError::damaged(error.to_string()))?;
        Ok(reader)
    }

    /// Returns the facts that were known when the recording began.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns all names so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the next part, or `None` after the end.
    ///
    /// # Errors
    /// Fails if the trace is cut off or damaged, or if a name in it leads out of the target.
    pub fn next_part(&mut self) -> Result<Option<TracePart>, TraceError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let Section {
                tag,
                count,
                content,
            } = self.section()?;
            match tag {
                NAMES => unpack_names(&content, count, &mut self.names)?,
                INITIAL => {
                    return unpack_initial(&content, count, self.names.len())
                        .map(|all| Some(TracePart::Initial(all)));
                }
                CALLS => {
                    let calls = self.codec.unpack(&content, count, self.names.len())?;
                    self.calls += calls.len() as u64;
                    return Ok(Some(TracePart::Calls(calls)));
                }
                END => return self.end(&content).map(Some),
                other => {
                    return Err(TraceError::damaged(format!(
                        "a section of an unknown kind, {other:#04x}"
                    )));
                }
            }
        }
    }

    fn end(&mut self, content: &[u8]) -> Result<TracePart, TraceError> {
        let totals: Totals = serde_json::from_slice(content)
            .map_err(|error| TraceError::damaged(error.to_string()))?;
        if totals.calls != self.calls {
            let message = format!(
                "{} calls came where its end counts {}",
                self.calls, totals.calls
            );
            return Err(TraceError::Damaged(message));
        }
        self.ended = true;
        Ok(TracePart::End(Box::new(totals)))
    }

    fn section(&mut self) -> Result<Section, TraceError> {
        let head = self.head()?;
        self.content(&head)
    }

    /// Reads the head of a section.
    fn head(&mut self) -> Result<[u8; 17], TraceError> {
        let mut head = [0; 17];
        self.exactly(&mut head)?;
        Ok(head)
    }

    fn content(&mut self, head: &[u8; 17]) -> Result<Section, TraceError> {
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (count, length, packed) = (number(1) as usize, number(5) as usize, number(9) as usize);
        if length > LARGEST_SECTION
            || packed > LARGEST_SECTION
            || (head[0] == CALLS && count > BLOCK)
        {
            return Err(TraceError::damaged(
                "a section larger than any that fsb writes",
            ));
        }
        let mut frame = Vec::new();
        // Memory grows with the data, not with the announced length.
        (&mut self.from)
            .take(packed as u64)
            .read_to_end(&mut frame)?;
        if frame.len() < packed {
            return Err(TraceError::Truncated { calls: self.calls });
        }
        if crc32fast::hash(&frame) != number(13) {
            return Err(TraceError::damaged("a section has the wrong checksum"));
        }
        let content = zstd::bulk::decompress(&frame, length).map_err(|error| {
            TraceError::damaged(format!("a section cannot be unpacked: {error}"))
        })?;
        if content.len() != length {
            return Err(TraceError::damaged("a section has the wrong length"));
        }
        Ok(Section {
            tag: head[0],
            count,
            content,
        })
    }

    fn exactly(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        match self.from.read_exact(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(TraceError::Truncated { calls: self.calls })
            }
            read => Ok(read?),
        }
    }
}

/// A trace without its calls.
#[derive(Debug, Clone)]
pub struct Skimmed {
    /// The facts that were known when the recording began.
    pub header: Header,
    /// The facts that were known when the recording had ended.
    pub totals: Totals,
    pub names: Names,
    /// The states of names before the first call.
    pub initial: Vec<Initial>,
}

impl Skimmed {
    /// Reads a trace from its beginning and skips the calls.
    ///
    /// # Errors
    /// Fails if the input is not a trace, has another version, is cut off or damaged, or if a name
    /// in it leads out of the target.
    pub fn read(from: impl Read + Seek) -> Result<Skimmed, TraceError> {
        let mut reader = Reader::new(from)?;
        let mut initial = Vec::new();
        loop {
            let head = reader.head()?;
            if head[0] == CALLS {
                let packed = u32::from_le_bytes([head[9], head[10], head[11], head[12]]);
                reader.from.seek(SeekFrom::Current(i64::from(packed)))?;
                continue;
            }
            let section = reader.content(&head)?;
            match head[0] {
                NAMES => unpack_names(&section.content, section.count, &mut reader.names)?,
                INITIAL => initial.extend(unpack_initial(
                    &section.content,
                    section.count,
                    reader.names.len(),
                )?),
                END => {
                    let totals: Totals = serde_json::from_slice(&section.content)
                        .map_err(|error| TraceError::damaged(error.to_string()))?;
                    let Reader { header, names, .. } = reader;
                    return Ok(Skimmed {
                        header,
                        totals,
                        names,
                        initial,
                    });
                }
                HEADER => return Err(TraceError::damaged("it has two headers")),
                other => {
                    return Err(TraceError::damaged(format!(
                        "a section of an unknown kind, {other:#04x}"
                    )));
                }
            }
        }
    }
}

/// zstd's own choice between speed and size.
const LEVEL: i32 = 3;
/// Bytes of memory that a replay needs at most for a copy from or to files outside the trace.
const COPY_PIECE: u64 = 1 << 20;
/// XATTR_SIZE_MAX of Linux.
const LARGEST_ATTRIBUTE: u64 = 64 << 10;
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
    /// Fails if the trace cannot be written.
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
        let written = self
            .disguise
            .as_ref()
            .map_or_else(|| name.to_vec(), |disguise| disguise.name(name));
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
                let bytes = data
                    .as_ref()
                    .map_or(*size, |data| data.iter().map(|(_, length)| length).sum());
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
        if self.initial.len() >= BLOCK {
            self.flush_initial()
        } else {
            Ok(())
        }
    }

    /// Adds the next call.
    pub fn call(&mut self, call: &Call) -> Result<(), TraceError> {
        self.count(call);
        self.calls.push(*call);
        if self.calls.len() >= BLOCK {
            self.flush_calls()
        } else {
            Ok(())
        }
    }

    fn count(&mut self, call: &Call) {
        let totals = &mut self.totals;
        totals.calls += 1;
        totals.replayed += u64::from(call.kind.is_replayed());
        totals.lanes = totals.lanes.max(call.lane + 1);
        let first = *self.first_ns.get_or_insert(call.start_ns);
        totals.duration_ns = totals.duration_ns.max(call.end_ns().saturating_sub(first));
        match call.kind {
            CallKind::Read | CallKind::ReadAt => {
                totals.read_bytes = totals.read_bytes.saturating_add(call.moved())
            }
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
            CallKind::Write | CallKind::WriteAt => {
                Some((call.handle, call.offset.saturating_add(call.moved())))
            }
            CallKind::Allocate if call.result >= 0 => {
                Some((call.handle, call.offset.saturating_add(call.length)))
            }
            CallKind::Copy if call.clones() && call.result >= 0 => {
                Some((call.other, call.target.saturating_add(call.length)))
            }
            CallKind::Copy => Some((call.other, call.target.saturating_add(call.moved()))),
            _ => None,
        };
        if let Some((name, end)) =
            end.and_then(|(handle, end)| Some((*self.open.get(&handle)?, end)))
        {
            let reach = self.reach.entry(name).or_default();
            if end > *reach {
                totals.space = totals.space.saturating_add(end - *reach);
                *reach = end;
            }
        }
        if call.kind.moves() {
            // A replay makes a call that the kernel made without memory of the program in pieces.
            let most = if call.flags & flags::COPIED != 0 {
                COPY_PIECE
            } else {
                u64::MAX
            };
            totals.largest = totals.largest.max(call.moved().min(most));
        }
        if matches!(
            call.kind,
            CallKind::SetAttribute | CallKind::SetAttributeName
        ) {
            totals.largest = totals.largest.max(call.length.min(LARGEST_ATTRIBUTE));
        }
        let makes = matches!(
            call.kind,
            CallKind::MakeDirectory | CallKind::Link | CallKind::SymbolicLink
        ) || (call.kind == CallKind::Open
            && call.flags & (flags::CREATE | flags::TEMPORARY) != 0);
        totals.inodes += u64::from(makes && call.result >= 0);
        totals.descriptors = totals.descriptors.max(self.open.len() as u32);
    }

    fn flush_names(&mut self) -> Result<(), TraceError> {
        let names = std::mem::take(&mut self.names);
        self.name_bytes = 0;
        if names.is_empty() {
            Ok(())
        } else {
            self.section(NAMES, names.len(), &pack_names(&names))
        }
    }

    fn flush_initial(&mut self) -> Result<(), TraceError> {
        self.flush_names()?;
        let initial = std::mem::take(&mut self.initial);
        if initial.is_empty() {
            Ok(())
        } else {
            self.section(INITIAL, initial.len(), &pack_initial(&initial))
        }
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
            return Err(TraceError::Unfit(
                "a section would be larger than any reader takes".to_owned(),
            ));
        }
        let packed = zstd::bulk::compress(content, LEVEL)?;
        let mut head = vec![tag];
        for number in [
            count as u32,
            content.len() as u32,
            packed.len() as u32,
            crc32fast::hash(&packed),
        ] {
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

    /// Ends the trace. Returns the stream, the totals and the number of bytes. Facts that only the
    /// recorder knows are taken from `known`; the writer has counted the others.
    ///
    /// # Errors
    /// Fails if the trace cannot be written.
    pub fn finish(mut self, known: Totals) -> Result<(W, Totals, u64), TraceError> {
        self.flush_calls()?;
        let Totals {
            tasks,
            mut incomplete,
            notes,
            outside,
            recording_seconds,
            ..
        } = known;
        if let Some(disguise) = &self.disguise {
            for gap in &mut incomplete {
                gap.disguise(|name| {
                    String::from_utf8_lossy(&disguise.name(name.as_bytes())).into_owned()
                });
            }
        }
        let counted = std::mem::take(&mut self.totals);
        let tasks = tasks.max(u64::from(counted.lanes));
        let totals = Totals {
            tasks,
            incomplete,
            notes,
            outside,
            recording_seconds,
            ..counted
        };
        let json = serde_json::to_vec(&totals).map_err(std::io::Error::from)?;
        self.section(END, 1, &json)?;
        self.out.flush()?;
        Ok((self.out, totals, self.bytes))
    }
}

/// Replaces names. A part of a name is always replaced by the same other part, with a key that is
/// then discarded.
#[derive(Debug, Default)]
pub struct Disguise(RandomState, RandomState);

impl Disguise {
    /// Returns another name of as many parts. Parts of twelve bytes or more keep their length;
    /// shorter ones get twelve letters.
    pub fn name(&self, name: &[u8]) -> Vec<u8> {
        let parts: Vec<Vec<u8>> = name
            .split(|byte| *byte == b'/')
            .map(|part| self.part(part))
            .collect();
        parts.join(&b'/')
    }

    fn part(&self, part: &[u8]) -> Vec<u8> {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        if part.is_empty() {
            return Vec::new();
        }
        let whole = (u128::from(self.0.hash_one(part)) << 64) | u128::from(self.1.hash_one(part));
        // Twelve letters of five bits make two equal ones unlikely among millions; longer names
        // repeat them.
        (0..part.len().max(12))
            .map(|at: usize| LETTERS[(whole >> (5 * (at % 24))) as usize & 31])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::call::{ALL_KINDS, Call, Initial, State};
    use crate::{CallKind, TraceError, Unseen};

    fn written(calls: &[Call], names: &[&[u8]], initial: &[Initial]) -> Vec<u8> {
        let mut writer = Writer::new(
            Vec::new(),
            &Header {
                by: "test".to_owned(),
                ..Header::default()
            },
        )
        .unwrap();
        for name in names {
            writer.name(name).unwrap();
        }
        initial
            .iter()
            .for_each(|one| writer.initial(one.clone()).unwrap());
        calls.iter().for_each(|call| writer.call(call).unwrap());
        writer.finish(Totals::default()).unwrap().0
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Call>, Vec<Initial>, Names), TraceError> {
        let mut reader = Reader::new(bytes)?;
        let (mut calls, mut initial) = (Vec::new(), Vec::new());
        while let Some(part) = reader.next_part()? {
            match part {
                TracePart::Calls(block) => calls.extend(block),
                TracePart::Initial(block) => initial.extend(block),
                TracePart::End(_) => {}
            }
        }
        Ok((calls, initial, reader.names().clone()))
    }

    /// Keeps only the fields that the kind has.
    fn stored(mut call: Call) -> Call {
        let fields = call.kind.about().fields;
        for (has, field) in [
            (fields.handle, &mut call.handle),
            (fields.other, &mut call.other),
            (fields.name, &mut call.name),
            (fields.second, &mut call.second),
            (fields.flags, &mut call.flags),
        ] {
            *field = if has { *field } else { 0 };
        }
        if call.kind.about().family == "process" {
            call.other %= 1 << 16;
        }
        call.offset = if fields.offset { call.offset } else { 0 };
        call.length = if fields.length { call.length } else { 0 };
        call.target = if fields.target { call.target } else { 0 };
        call
    }

    fn any_call() -> impl Strategy<Value = Call> {
        let numbers = (
            0..40u32,
            0..ALL_KINDS.len(),
            0..u64::MAX / 4,
            0..u64::MAX / 4,
            any::<i64>(),
        );
        let more = (
            0..u32::MAX,
            0..u32::MAX,
            0..3u32,
            0..3u32,
            any::<u64>(),
            any::<u64>(),
            any::<u32>(),
            any::<u64>(),
        );
        (numbers, more).prop_map(|((lane, kind, start_ns, took_ns, result), more)| {
            let (handle, other, name, second, offset, length, flags, target) = more;
            let kind = ALL_KINDS[kind].kind;
            stored(Call {
                lane,
                kind,
                start_ns,
                took_ns,
                lost_ns: u64::from(lane) * 64,
                result,
                handle,
                other,
                name,
                second,
                offset,
                length,
                flags,
                target,
            })
        })
    }

    proptest! {
        #[test]
        fn any_calls_come_back(calls in proptest::collection::vec(any_call(), 0..200)) {
            let bytes = written(&calls, &[b"a", b"a/b"], &[]);
            prop_assert_eq!(read(&bytes).unwrap().0, calls);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..600usize, with: u8) {
            let _ = read(&[&b"fsbtrace\x01\x00"[..], &bytes].concat());
            let calls: Vec<Call> = (0..50).map(|at| Call { start_ns: at * 1000, ..Call::new(CallKind::Exit) }).collect();
            let mut whole = written(&calls, &[b"a/b/c"], &[]);
            let at = at % whole.len();
            whole[at] ^= with;
            if let Ok((read, ..)) = read(&whole) {
                prop_assert_eq!(read, calls);
            }
        }
    }

    #[test]
    fn names_and_files_come_back() {
        let holes = Some(vec![(0, 4096), (1 << 30, 100)]);
        let states = [
            State::Directory,
            State::File {
                size: 7,
                data: None,
            },
            State::File {
                size: (1 << 30) + 200,
                data: holes,
            },
            State::Link {
                to: b"x/y".to_vec(),
            },
            State::Same { name: 2 },
        ];
        let initial: Vec<Initial> = states
            .into_iter()
            .enumerate()
            .map(|(at, state)| Initial {
                name: at as u32,
                state,
            })
            .collect();
        let bytes = written(
            &[],
            &[b"dir/one", b"dir/two", b"else", b"dir/one"],
            &initial,
        );
        // The fourth name is the first one.
        let (_, found, names) = read(&written(
            &[],
            &[b"dir/one", b"dir/two", b"else", b"five"],
            &initial,
        ))
        .unwrap();
        assert_eq!(found, initial);
        assert_eq!(
            (names.get(2), names.get(0), names.len()),
            (&b"dir/two"[..], &b""[..], 5)
        );
        assert!(
            matches!(read(&bytes), Err(TraceError::Damaged(_))),
            "a file without a name"
        );
    }

    #[test]
    fn a_usual_call_takes_few_bytes() {
        let mut calls = Vec::new();
        let mut now = 0;
        for at in 0..200_000u64 {
            let kind = if at % 4 == 3 {
                CallKind::DataSync
            } else {
                CallKind::WriteAt
            };
            // Times that nothing can compress.
            let noise = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
            now += 3000 + noise;
            let call = Call {
                kind,
                start_ns: now,
                took_ns: 1000 + noise,
                handle: 3 + (at % 3) as u32,
                ..Call::new(kind)
            };
            now += call.took_ns;
            calls.push(if kind == CallKind::WriteAt {
                Call {
                    offset: (at * 7919 % 10_000) * 4096,
                    length: 4096,
                    result: 4096,
                    ..call
                }
            } else {
                call
            });
        }
        let bytes = written(&calls, &[], &[]);
        assert_eq!(read(&bytes).unwrap().0, calls);
        assert!(
            bytes.len() as u64 <= 10 * calls.len() as u64,
            "{} bytes a call",
            bytes.len() / calls.len()
        );
    }

    #[test]
    fn incomplete_trace_files_are_refused() {
        let calls = vec![
            Call {
                result: -2,
                ..Call::new(CallKind::StatName)
            };
            1000
        ];
        let bytes = written(&calls, &[], &[]);
        assert!(matches!(read(b""), Err(TraceError::NotATrace)));
        assert!(matches!(
            read(b"1234 openat(AT_FDCWD, ..."),
            Err(TraceError::NotATrace)
        ));
        let of_version = |version| [&b"fsbtrace"[..], &[version, 0], &bytes[10..]].concat();
        let said = read(&of_version(4)).unwrap_err().to_string();
        assert_eq!(
            said,
            "it is a trace of version 4, and this fsb reads version 1; use the fsb that wrote it"
        );
        let calls_then_nothing = bytes.len() - 40;
        assert!(matches!(
            read(&bytes[..calls_then_nothing]),
            Err(TraceError::Truncated { calls: 1000 })
        ));
        for end in 10..bytes.len() {
            assert!(
                matches!(read(&bytes[..end]), Err(TraceError::Truncated { .. })),
                "{end}"
            );
        }
        for name in ["../etc/passwd", "/etc/passwd", "a/../../b"] {
            let said = read(&written(&[], &[name.as_bytes()], &[]))
                .unwrap_err()
                .to_string();
            assert!(said.contains("leads out of the target"), "{said}");
        }
    }

    #[test]
    fn a_trace_from_before_the_release_is_refused_with_the_command_that_converts_it() {
        let bytes = written(&[], &[], &[]);
        let error = read(&[&b"FSBTRACE\x03\x00"[..], &bytes[10..]].concat()).unwrap_err();
        assert!(matches!(error, TraceError::Former));
        assert!(
            error.to_string().contains("scripts/upgrade-results"),
            "{error}"
        );
    }

    #[test]
    fn gaps_of_an_anonymous_trace_have_no_names() {
        let mut writer = Writer::new(
            Vec::new(),
            &Header {
                anonymous: true,
                ..Header::default()
            },
        )
        .unwrap();
        let disguised = writer.name(b"customers/smith").unwrap();
        let gap = Gap {
            files: vec!["customers/smith".to_owned()],
            ..Gap::new(Unseen::SharedMapping, 2)
        };
        let (bytes, totals, _) = writer
            .finish(Totals {
                incomplete: vec![gap.into()],
                ..Totals::default()
            })
            .unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        while reader.next_part().unwrap().is_some() {}
        let name = String::from_utf8_lossy(reader.names().get(disguised)).into_owned();
        let shown = totals.incomplete[0].to_string();
        assert_eq!(
            shown,
            format!("stores to shared mappings of files (2 times: {name})")
        );
        assert!(!shown.contains("smith"));
    }

    #[test]
    fn parts_stay_apart_and_alike() {
        let disguise = Disguise::default();
        let (one, two) = (
            disguise.name(b"customers/smith-and-sons"),
            disguise.name(b"customers/jones"),
        );
        assert!(!one.windows(5).any(|part| part == b"smith"));
        assert_eq!(
            one.split(|byte| *byte == b'/').next(),
            two.split(|byte| *byte == b'/').next()
        );
        assert_ne!(one, two);
        assert_eq!(one.len(), 12 + 1 + 14);
        assert_eq!(disguise.name(b""), b"");
        assert_ne!(Disguise::default().name(b"jones"), disguise.name(b"jones"));
    }
}
