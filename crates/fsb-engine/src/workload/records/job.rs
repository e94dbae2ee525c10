//! The job of a workload that moves records: the state that it needs and restores.

use fsb_model::Durability;

use super::definition::{RecordAction, RecordWorkload};
use super::options::Options;
use crate::backend::Purpose;
use crate::fileset::Content;
use crate::io_loop::{HELD_FILES, Lock};
use crate::workload::spec::Spec;

/// New files of up to this number of bytes are made anew by the worker itself, between two passes. Larger ones take
/// long enough for a process a repetition, before which the target is settled.
const RENEWED_INSIDE: u64 = 64 << 20;

/// The way in which a worker restores the state before the next pass, outside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restore {
    /// There is nothing to restore, or others do it.
    Nothing,
    /// Closes the files and opens them again.
    Reopen,
    /// Removes them and creates them again.
    Anew,
}

/// A workload that moves records, with its parameters.
pub(crate) struct RecordsJob {
    pub(super) member: RecordWorkload,
    pub(super) spec: Spec,
    /// The files hold all their bytes before.
    pub(super) written: bool,
    pub(super) options: Options,
}

impl RecordsJob {
    pub(super) fn restore(&self) -> Restore {
        let Spec { layout, threads, backend, .. } = &self.spec;
        let files = self.spec.files_per_process();
        let small = files <= HELD_FILES && files * layout.file_size <= RENEWED_INSIDE;
        match self.member.action {
            RecordAction::Append => Restore::Nothing,
            // What begins cold begins with a remount, which is not a worker's to make.
            _ if self.spec.cache.begins_cold() => Restore::Nothing,
            // Threads that share a file would have to agree on which of them removes it.
            RecordAction::Write if !self.written && *threads == 1 && small => Restore::Anew,
            RecordAction::Write if !self.written => Restore::Nothing,
            _ if files > HELD_FILES => Restore::Nothing,
            _ if self.options.close => Restore::Reopen,
            // What was read or written again through the same open file would be another workload.
            _ if backend.capabilities().remembers && !self.member.again => Restore::Reopen,
            _ => Restore::Nothing,
        }
    }

    /// Whether each pass is a stretch of its own, with something to do before or after it.
    pub(super) fn in_rounds(&self) -> bool {
        let locked = self.options.lock == Some(Lock::File);
        self.restore() != Restore::Nothing || self.options.close || self.spec.durability == Durability::End || locked
    }

    pub(super) fn content(&self) -> Content {
        match self.restore() {
            _ if self.written => Content::Full,
            Restore::Anew => Content::Directories,
            _ => Content::Empty,
        }
    }

    pub(super) fn purposes(&self) -> (Purpose, Option<Purpose>) {
        match self.member.action {
            RecordAction::Read => (Purpose::Read, None),
            RecordAction::Append => (Purpose::Append, None),
            RecordAction::Write if self.restore() == Restore::Anew => (Purpose::Create, None),
            RecordAction::Write => (Purpose::Write, None),
            RecordAction::Mix => (Purpose::Read, Some(Purpose::Write)),
        }
    }
}
