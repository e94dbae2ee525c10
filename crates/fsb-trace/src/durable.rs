//! Writes that are durable when they return: on files that were opened with O_DSYNC or O_SYNC, or with RWF_DSYNC or
//! RWF_SYNC.

use std::collections::HashSet;

use crate::call::{Call, CallKind, flags};

const DURABLE: u32 = flags::SYNC | flags::DATA_SYNC;

/// The open descriptors on which every write is durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct DurableDescriptors(HashSet<u32>);

impl DurableDescriptors {
    /// Takes one more call. Returns whether it is a durable write.
    pub(crate) fn add(&mut self, call: &Call) -> bool {
        match call.kind {
            CallKind::Open if call.result >= 0 && call.flags & DURABLE != 0 => {
                self.0.insert(call.handle);
                false
            }
            CallKind::Duplicate if call.result >= 0 && self.0.contains(&call.other) => {
                self.0.insert(call.handle);
                false
            }
            CallKind::Close => {
                self.0.remove(&call.handle);
                false
            }
            CallKind::Write | CallKind::WriteAt => call.flags & DURABLE != 0 || self.0.contains(&call.handle),
            CallKind::Copy => self.0.contains(&call.other),
            _ => false,
        }
    }
}
