//! Names and initial states, as sections hold them.

use super::bytes::{Cut, put, put_bytes};
use crate::TraceError;
use crate::initial::{Initial, State};
use crate::path::{is_inside, leads_down};

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
        let shared = name.iter().zip(last).take_while(|(one, other)| one == other).count();
        put(&mut out, shared as u64);
        put_bytes(&mut out, &name[shared..]);
        last = name;
    }
    out
}

/// Adds the names of a section. Refuses names that lead out of the target.
pub(super) fn unpack_names(bytes: &[u8], count: usize, names: &mut Names) -> Result<(), TraceError> {
    let (mut cut, mut last) = (Cut(bytes), Vec::new());
    for _ in 0..count {
        let shared = cut.number()? as usize;
        if shared > last.len() {
            return Err(TraceError::damaged("a name refers to a prefix that does not exist"));
        }
        last.truncate(shared);
        last.extend_from_slice(cut.bytes()?);
        // Texts of symbolic links are names, too. A text that can be neither is refused.
        if !is_inside(&last) {
            return Err(TraceError::Outside(String::from_utf8_lossy(&last).into_owned()));
        }
        names.push(&last);
    }
    if cut.0.is_empty() { Ok(()) } else { Err(TraceError::damaged("a section holds more than its names")) }
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
            State::File { size, data: Some(data) } => {
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

pub(super) fn unpack_initial(bytes: &[u8], count: usize, names: u32) -> Result<Vec<Initial>, TraceError> {
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
            1 => State::File { size: cut.number()?, data: None },
            2 => {
                let (size, pieces) = (cut.number()?, cut.number()?);
                let (mut data, mut end) = (Vec::new(), 0u64);
                for _ in 0..pieces {
                    let (apart, length) = (cut.number()?, cut.number()?);
                    let place = end.checked_add(apart).and_then(|offset| Some((offset, offset.checked_add(length)?)));
                    let place = place.filter(|(_, after)| *after <= size);
                    let (offset, after) = place.ok_or_else(|| TraceError::damaged("data beyond the end of a file"))?;
                    data.push((offset, length));
                    end = after;
                }
                State::File { size, data: Some(data) }
            }
            3 => State::Link { to: Some(cut.bytes()?).filter(|to| leads_down(to)).unwrap_or(b"nowhere").to_vec() },
            4 => State::Same { name: known(cut.number()?)? },
            other => return Err(TraceError::damaged(format!("a file of an unknown kind, {other}"))),
        };
        states.push(Initial { name, state });
    }
    if cut.0.is_empty() { Ok(states) } else { Err(TraceError::damaged("a section holds more than its files")) }
}
