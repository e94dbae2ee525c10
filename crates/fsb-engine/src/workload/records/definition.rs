//! The definition of a workload that moves records.

use fsb_model::{Access, CacheState, Durability};

use crate::workload::spec::{Records, Rules};

/// The operation on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordAction {
    Read,
    Write,
    /// Written at the end, wherever that is.
    Append,
    /// Read or written, as the seed decides.
    Mix,
}

/// The content of the files before the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing: they are new.
    New,
    /// All their bytes.
    Written,
    /// One or the other: the parameter `overwrite` says which.
    Asked,
}

/// A member of the registry.
#[derive(Clone, Copy)]
pub(crate) struct RecordWorkload {
    /// In plans.
    pub(crate) name: &'static str,
    /// In records.
    pub(crate) operation: &'static str,
    pub(crate) about: &'static str,
    pub(crate) action: RecordAction,
    pub(crate) before: Before,
    /// The first one is the default.
    pub(crate) access: &'static [Access],
    /// Each record was visited once through the same open file before the clock.
    pub(crate) again: bool,
    /// The backends that it is about, the usual one first; any of them where there are none.
    pub(crate) backends: &'static [&'static str],
    pub(crate) file_size: &'static str,
    /// The usual record, where it does not follow from the access.
    pub(crate) block_size: Option<&'static str>,
}

impl RecordWorkload {
    /// A member to tell others from.
    pub(crate) const BASE: RecordWorkload = RecordWorkload {
        name: "",
        operation: "",
        about: "",
        action: RecordAction::Read,
        before: Before::Written,
        access: &[Access::Sequential],
        again: false,
        backends: &[],
        file_size: "size/8",
        block_size: None,
    };

    /// Returns the rules of the shared parameters.
    pub(crate) fn rules(&self) -> Rules {
        use CacheState::{Any, Cold, Out, Warm};
        let cache: &[CacheState] = match (self.action, self.before) {
            (RecordAction::Read, _) if self.again => &[Warm, Any, Out],
            (RecordAction::Read | RecordAction::Mix, _) => &[Warm, Cold, Any, Out],
            (RecordAction::Append, _) => &[Any],
            // One record, which is in memory once it was written, whatever may lie there beside it.
            (RecordAction::Write, _) if self.access == [Access::Same] => &[Any, Cold, Warm],
            (RecordAction::Write, Before::New) => &[Any, Warm, Out],
            (RecordAction::Write, Before::Written | Before::Asked) => CacheState::ALL,
        };
        let durability = if self.action == RecordAction::Read { &[Durability::None] } else { Durability::ALL };
        let RecordWorkload { name, file_size, block_size, access, backends, .. } = *self;
        let records = Records::Each;
        Rules { name, files: "1", file_size, block_size, records, access, durability, cache, backends }
    }
}
