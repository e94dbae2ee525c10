//! The flags that hold for a write: those of the open (O_DSYNC, O_SYNC, O_APPEND) and its own
//! (RWF_DSYNC, RWF_SYNC, RWF_APPEND).

use std::collections::HashMap;

use crate::call::{Call, CallKind, flags};

const DURABLE: u32 = flags::SYNC | flags::DATA_SYNC;

/// The open descriptors whose flags change every write.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteFlags(HashMap<u32, u32>);

/// The properties of one write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteMode {
    /// The write is durable when it returns.
    pub(crate) is_durable: bool,
    /// The write goes to the end of the file.
    pub(crate) appends: bool,
}

impl WriteFlags {
    /// Takes one more call. Returns the properties of a write or copy; other calls have none.
    pub(crate) fn add(&mut self, call: &Call) -> WriteMode {
        let own = match call.kind {
            CallKind::Open if call.result >= 0 => {
                self.set(call.handle, call.flags);
                return WriteMode::default();
            }
            CallKind::Duplicate if call.result >= 0 => {
                self.set(call.handle, self.held(call.other));
                return WriteMode::default();
            }
            CallKind::Close => {
                self.0.remove(&call.handle);
                return WriteMode::default();
            }
            CallKind::Write | CallKind::WriteAt => call.flags | self.held(call.handle),
            CallKind::Copy => self.held(call.other),
            _ => return WriteMode::default(),
        };
        WriteMode {
            is_durable: own & DURABLE != 0,
            appends: own & flags::APPEND != 0,
        }
    }

    /// Returns whether every write on the descriptor is durable.
    pub(crate) fn is_durable(&self, handle: u32) -> bool {
        self.held(handle) & DURABLE != 0
    }

    fn held(&self, handle: u32) -> u32 {
        self.0.get(&handle).copied().unwrap_or_default()
    }

    fn set(&mut self, handle: u32, given: u32) {
        let kept = given & (DURABLE | flags::APPEND);
        if kept != 0 {
            self.0.insert(handle, kept);
        }
    }
}
