//! Blocks of calls, column by column.
//!
//! A call is predicted from those before it. The predicted call begins when the last one of its lane has ended, is
//! about the last descriptor, continues at the position of that descriptor, and moves as much as it requests. Columns
//! hold the differences from the prediction, and only the fields that the kind of the call has.

use std::collections::HashMap;

use super::bytes::{Cut, put, put_bytes, put_signed};
use super::{MOST_LANES, MOST_NAMES};
use crate::TraceError;
use crate::call::{Call, CallKind, LOST_UNIT};

/// Lane, kind, gap, time, lost time, result, descriptor, other, name, second name, offset, length, flags.
const COLUMNS: usize = 13;

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
        if matches!(kind, CallKind::Open | CallKind::Duplicate) { self.newest.wrapping_add(1) } else { lane.handle }
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
                self.places.insert(call.handle, call.offset.wrapping_add(call.moved()));
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
            let [lane, kind, gap, took, lost, result, handle, other, name, second, offset, length, flags] =
                &mut columns;
            put_signed(lane, i64::from(call.lane) - i64::from(self.lane));
            self.lane = call.lane;
            kind.push(call.kind as u8);
            let last = *self.lane(call.lane);
            put_signed(gap, call.start_ns.wrapping_sub(last.end) as i64);
            put(took, call.took_ns);
            put(lost, call.lost_ns / LOST_UNIT);
            put_signed(result, call.result.wrapping_sub(Codec::expected_result(call)));
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
            self.learn(call);
        }
        let mut whole = Vec::with_capacity(columns.iter().map(|column| column.len() + 4).sum());
        columns.iter().for_each(|column| put_bytes(&mut whole, column));
        whole
    }

    /// Unpacks the calls of a block. `names` is the number of names that are known by then.
    pub(super) fn unpack(&mut self, bytes: &[u8], count: usize, names: u32) -> Result<Vec<Call>, TraceError> {
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
        let [lane, kind, gap, took, lost, result, handle, other, name, second, offset, length, flags] = columns;
        let number = kind.byte()?;
        let kind =
            CallKind::of(number).ok_or_else(|| TraceError::damaged(format!("a call of an unknown kind, {number}")))?;
        let mut call = Call::new(kind);
        call.lane = near(self.lane, lane.signed()?, MOST_LANES, "a lane")?;
        self.lane = call.lane;
        let last = *self.lane(call.lane);
        call.start_ns = last.end.wrapping_add(gap.signed()? as u64);
        call.took_ns = took.number()?;
        call.lost_ns = lost.number()?.saturating_mul(LOST_UNIT);
        if call.start_ns.checked_add(call.took_ns).is_none_or(|end| end > i64::MAX as u64) {
            return Err(TraceError::damaged("a call with an impossible time"));
        }
        let fields = kind.about().fields;
        if fields.handle {
            call.handle = near(self.expected_handle(kind, &last), handle.signed()?, u32::MAX, "a descriptor")?;
        }
        if fields.other {
            let (bound, what) =
                if kind.about().family == "process" { (MOST_LANES, "a lane") } else { (u32::MAX, "a descriptor") };
            call.other = near(call.handle, other.signed()?, bound, what)?;
        }
        if fields.name {
            call.name = near(last.name, name.signed()?, names.min(MOST_NAMES), "a name")?;
        }
        if fields.second {
            call.second = near(last.second, second.signed()?, names.min(MOST_NAMES), "a name")?;
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
        call.result = Codec::expected_result(&call).wrapping_add(result.signed()?);
        self.learn(&call);
        Ok(call)
    }
}

/// Returns a number below a bound, from its difference to another one.
fn near(expected: u32, difference: i64, bound: u32, what: &str) -> Result<u32, TraceError> {
    let number = i64::from(expected).checked_add(difference).and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number < bound).ok_or_else(|| TraceError::damaged(format!("{what} that does not exist")))
}
