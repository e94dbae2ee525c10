//! The sections of a trace: calls in blocks, column by column, names, and initial states.
//!
//! A call is predicted from those before it. The predicted call begins when the last one of its
//! lane has ended, is about the last descriptor, continues at the position of that descriptor, and
//! moves as much as it requests. Columns hold the differences from the prediction, and only the
//! fields that the kind of the call has.

use std::collections::HashMap;

use crate::TraceError;
use crate::call::{Call, CallKind, Initial, LOST_UNIT, State, is_inside, leads_down};

/// Appends a number.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a difference: small ones of either sign are short.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends bytes with their number before them.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes numbers from the coordinator.
#[derive(Debug, Clone, Copy, Default)]
struct Cut<'b>(&'b [u8]);

impl<'b> Cut<'b> {
    fn byte(&mut self) -> Result<u8, TraceError> {
        let (first, rest) = self.0.split_first().ok_or_else(short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, TraceError> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            if shift > 63 || (shift == 63 && byte > 1) {
                return Err(TraceError::damaged("a number of more than 64 bits"));
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    fn signed(&mut self) -> Result<i64, TraceError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn short(&mut self) -> Result<u32, TraceError> {
        u32::try_from(self.number()?)
            .map_err(|_| TraceError::damaged("a number of more than 32 bits"))
    }

    fn bytes(&mut self) -> Result<&'b [u8], TraceError> {
        let length = usize::try_from(self.number()?)
            .ok()
            .filter(|length| *length <= self.0.len());
        let (bytes, rest) = self.0.split_at(length.ok_or_else(short)?);
        self.0 = rest;
        Ok(bytes)
    }
}

fn short() -> TraceError {
    TraceError::damaged("a section is shorter than its contents")
}

/// The maximum number of lanes of a trace. No program has more.
const MOST_LANES: u32 = 1 << 16;
/// More descriptors or names than these at once would fill memory.
const MOST_NAMES: u32 = 1 << 26;

/// Lane, kind, gap, time, lost time, result, descriptor, other, name, second name, offset, length,
/// flags, offset in the destination.
const COLUMNS: usize = 14;

/// The state that predicts the next call.
#[derive(Debug, Default)]
pub(super) struct Codec {
    lane: u32,
    lanes: Vec<Lane>,
    /// The newest descriptor.
    newest: u32,
    /// The positions of descriptors, as far as calls reveal them.
    places: HashMap<u32, u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    end: u64,
    handle: u32,
    name: u32,
    second: u32,
    length: u64,
}

impl Codec {
    fn lane(&mut self, lane: u32) -> &mut Lane {
        let at = lane as usize;
        if self.lanes.len() <= at {
            self.lanes.resize(at + 1, Lane::default());
        }
        &mut self.lanes[at]
    }

    fn expected_handle(&self, kind: CallKind, lane: &Lane) -> u32 {
        if matches!(kind, CallKind::Open | CallKind::Duplicate) {
            self.newest.wrapping_add(1)
        } else {
            lane.handle
        }
    }

    fn learn(&mut self, call: &Call) {
        let fields = call.kind.about().fields;
        let lane = self.lane(call.lane);
        lane.end = call.end_ns();
        if fields.handle {
            lane.handle = call.handle;
        }
        if fields.name {
            lane.name = call.name;
        }
        if fields.second {
            lane.second = call.second;
        }
        if fields.length {
            lane.length = call.length;
        }
        if fields.handle && matches!(call.kind, CallKind::Open | CallKind::Duplicate) {
            self.newest = self.newest.max(call.handle);
        }
        match call.kind {
            CallKind::Close => {
                self.places.remove(&call.handle);
            }
            CallKind::Seek if call.result >= 0 => {
                self.places.insert(call.handle, call.result as u64);
            }
            kind if kind.moves() => {
                self.places
                    .insert(call.handle, call.offset.wrapping_add(call.moved()));
            }
            _ => {}
        }
    }

    /// Returns the predicted result of a call.
    fn expected_result(call: &Call) -> i64 {
        match call.kind {
            kind if kind.moves() || kind == CallKind::Copy => call.length as i64,
            CallKind::Seek => call.offset as i64,
            _ => 0,
        }
    }

    pub(super) fn pack(&mut self, calls: &[Call]) -> Vec<u8> {
        let mut columns: [Vec<u8>; COLUMNS] = Default::default();
        for call in calls {
            let [
                lane,
                kind,
                gap,
                took,
                lost,
                result,
                handle,
                other,
                name,
                second,
                offset,
                length,
                flags,
                target,
            ] = &mut columns;
            put_signed(lane, i64::from(call.lane) - i64::from(self.lane));
            self.lane = call.lane;
            kind.push(call.kind as u8);
            let last = *self.lane(call.lane);
            put_signed(gap, call.start_ns.wrapping_sub(last.end) as i64);
            put(took, call.took_ns);
            put(lost, call.lost_ns / LOST_UNIT);
            put_signed(
                result,
                call.result.wrapping_sub(Codec::expected_result(call)),
            );
            let fields = call.kind.about().fields;
            if fields.handle {
                let expected = self.expected_handle(call.kind, &last);
                put_signed(handle, i64::from(call.handle) - i64::from(expected));
            }
            if fields.other {
                put_signed(other, i64::from(call.other) - i64::from(call.handle));
            }
            if fields.name {
                put_signed(name, i64::from(call.name) - i64::from(last.name));
            }
            if fields.second {
                put_signed(second, i64::from(call.second) - i64::from(last.second));
            }
            if fields.offset {
                let expected = self.places.get(&call.handle).copied().unwrap_or_default();
                put_signed(offset, call.offset.wrapping_sub(expected) as i64);
            }
            if fields.length {
                put_signed(length, call.length.wrapping_sub(last.length) as i64);
            }
            if fields.flags {
                put(flags, u64::from(call.flags));
            }
            if fields.target {
                put_signed(target, call.target.wrapping_sub(call.offset) as i64);
            }
            self.learn(call);
        }
        let mut whole = Vec::with_capacity(columns.iter().map(|column| column.len() + 4).sum());
        columns
            .iter()
            .for_each(|column| put_bytes(&mut whole, column));
        whole
    }

    /// Unpacks the calls of a block. `names` is the number of names that are known by then.
    pub(super) fn unpack(
        &mut self,
        bytes: &[u8],
        count: usize,
        names: u32,
    ) -> Result<Vec<Call>, TraceError> {
        let mut whole = Cut(bytes);
        let mut columns = [Cut::default(); COLUMNS];
        for column in &mut columns {
            *column = Cut(whole.bytes()?);
        }
        if columns[1].0.len() != count {
            return Err(TraceError::damaged("a block has the wrong number of calls"));
        }
        let mut calls = Vec::with_capacity(count);
        for _ in 0..count {
            calls.push(self.call(&mut columns, names)?);
        }
        if !whole.0.is_empty() || columns.iter().any(|column| !column.0.is_empty()) {
            return Err(TraceError::damaged("a block holds more than its calls"));
        }
        Ok(calls)
    }

    fn call(&mut self, columns: &mut [Cut<'_>; COLUMNS], names: u32) -> Result<Call, TraceError> {
        let [
            lane,
            kind,
            gap,
            took,
            lost,
            result,
            handle,
            other,
            name,
            second,
            offset,
            length,
            flags,
            target,
        ] = columns;
        let number = kind.byte()?;
        let kind = CallKind::from_number(number)
            .ok_or_else(|| TraceError::damaged(format!("a call of an unknown kind, {number}")))?;
        let mut call = Call::new(kind);
        call.lane = near(self.lane, lane.signed()?, MOST_LANES, "a lane")?;
        self.lane = call.lane;
        let last = *self.lane(call.lane);
        call.start_ns = last.end.wrapping_add(gap.signed()? as u64);
        call.took_ns = took.number()?;
        call.lost_ns = lost.number()?.saturating_mul(LOST_UNIT);
        if call
            .start_ns
            .checked_add(call.took_ns)
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(TraceError::damaged("a call with an impossible time"));
        }
        let fields = kind.about().fields;
        if fields.handle {
            call.handle = near(
                self.expected_handle(kind, &last),
                handle.signed()?,
                u32::MAX,
                "a descriptor",
            )?;
        }
        if fields.other {
            let (bound, what) = if kind.about().family == "process" {
                (MOST_LANES, "a lane")
            } else {
                (u32::MAX, "a descriptor")
            };
            call.other = near(call.handle, other.signed()?, bound, what)?;
        }
        if fields.name {
            call.name = near(last.name, name.signed()?, names.min(MOST_NAMES), "a name")?;
        }
        if fields.second {
            call.second = near(
                last.second,
                second.signed()?,
                names.min(MOST_NAMES),
                "a name",
            )?;
        }
        if fields.offset {
            let expected = self.places.get(&call.handle).copied().unwrap_or_default();
            call.offset = expected.wrapping_add(offset.signed()? as u64);
        }
        if fields.length {
            call.length = last.length.wrapping_add(length.signed()? as u64);
        }
        if fields.flags {
            call.flags = flags.short()?;
        }
        if fields.target {
            call.target = call.offset.wrapping_add(target.signed()? as u64);
        }
        call.result = Codec::expected_result(&call).wrapping_add(result.signed()?);
        self.learn(&call);
        Ok(call)
    }
}

/// Returns a number below a bound, from its difference to another one.
fn near(expected: u32, difference: i64, bound: u32, what: &str) -> Result<u32, TraceError> {
    let number = i64::from(expected)
        .checked_add(difference)
        .and_then(|number| u32::try_from(number).ok());
    number
        .filter(|number| *number < bound)
        .ok_or_else(|| TraceError::damaged(format!("{what} that does not exist")))
}

/// All names so far, by number; 0 is the root.
#[derive(Debug, Clone)]
pub struct Names(Vec<Box<[u8]>>);

impl Default for Names {
    fn default() -> Names {
        Names(vec![Box::default()])
    }
}

impl Names {
    /// Returns the name of a number.
    pub fn get(&self, number: u32) -> &[u8] {
        self.0.get(number as usize).map_or(b"", |name| name)
    }

    /// Returns the number of names, including the root.
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns `false`, because the root is always there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, name: &[u8]) {
        self.0.push(name.into());
    }
}

/// Packs each name as its difference from the one before it.
pub(super) fn pack_names(names: &[Vec<u8>]) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), &b""[..]);
    for name in names {
        let shared = name
            .iter()
            .zip(last)
            .take_while(|(one, other)| one == other)
            .count();
        put(&mut out, shared as u64);
        put_bytes(&mut out, &name[shared..]);
        last = name;
    }
    out
}

/// Adds the names of a section. Refuses names that lead out of the target.
pub(super) fn unpack_names(
    bytes: &[u8],
    count: usize,
    names: &mut Names,
) -> Result<(), TraceError> {
    let (mut cut, mut last) = (Cut(bytes), Vec::new());
    for _ in 0..count {
        let shared = cut.number()? as usize;
        if shared > last.len() {
            return Err(TraceError::damaged(
                "a name refers to a prefix that does not exist",
            ));
        }
        last.truncate(shared);
        last.extend_from_slice(cut.bytes()?);
        // Texts of symbolic links are names, too. A text that can be neither is refused.
        if !is_inside(&last) {
            return Err(TraceError::Outside(
                String::from_utf8_lossy(&last).into_owned(),
            ));
        }
        names.push(&last);
    }
    if cut.0.is_empty() {
        Ok(())
    } else {
        Err(TraceError::damaged("a section holds more than its names"))
    }
}

pub(super) fn pack_initial(states: &[Initial]) -> Vec<u8> {
    let mut out = Vec::new();
    for Initial { name, state } in states {
        put(&mut out, u64::from(*name));
        match state {
            State::Directory => out.push(0),
            State::File { size, data: None } => {
                out.push(1);
                put(&mut out, *size);
            }
            State::File {
                size,
                data: Some(data),
            } => {
                out.push(2);
                put(&mut out, *size);
                put(&mut out, data.len() as u64);
                let mut end = 0;
                for (offset, length) in data {
                    put(&mut out, offset.wrapping_sub(end));
                    put(&mut out, *length);
                    end = offset.wrapping_add(*length);
                }
            }
            State::Link { to } => {
                out.push(3);
                put_bytes(&mut out, to);
            }
            State::Same { name } => {
                out.push(4);
                put(&mut out, u64::from(*name));
            }
        }
    }
    out
}

pub(super) fn unpack_initial(
    bytes: &[u8],
    count: usize,
    names: u32,
) -> Result<Vec<Initial>, TraceError> {
    let mut cut = Cut(bytes);
    let known = |number: u64| {
        let number = u32::try_from(number).ok().filter(|number| *number < names);
        number.ok_or_else(|| TraceError::damaged("a file without a name"))
    };
    let mut states = Vec::with_capacity(count.min(65_536));
    for _ in 0..count {
        let name = known(cut.number()?)?;
        let state = match cut.byte()? {
            0 => State::Directory,
            1 => State::File {
                size: cut.number()?,
                data: None,
            },
            2 => {
                let (size, pieces) = (cut.number()?, cut.number()?);
                let (mut data, mut end) = (Vec::new(), 0u64);
                for _ in 0..pieces {
                    let (apart, length) = (cut.number()?, cut.number()?);
                    let place = end
                        .checked_add(apart)
                        .and_then(|offset| Some((offset, offset.checked_add(length)?)));
                    let place = place.filter(|(_, after)| *after <= size);
                    let (offset, after) = place
                        .ok_or_else(|| TraceError::damaged("data beyond the end of a file"))?;
                    data.push((offset, length));
                    end = after;
                }
                State::File {
                    size,
                    data: Some(data),
                }
            }
            3 => State::Link {
                to: Some(cut.bytes()?)
                    .filter(|to| leads_down(to))
                    .unwrap_or(b"nowhere")
                    .to_vec(),
            },
            4 => State::Same {
                name: known(cut.number()?)?,
            },
            other => {
                return Err(TraceError::damaged(format!(
                    "a file of an unknown kind, {other}"
                )));
            }
        };
        states.push(Initial { name, state });
    }
    if cut.0.is_empty() {
        Ok(states)
    } else {
        Err(TraceError::damaged("a section holds more than its files"))
    }
}
