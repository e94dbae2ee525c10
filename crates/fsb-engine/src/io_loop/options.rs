//! Options of the loop, and the file set that it works on.

use std::path::PathBuf;

use fsb_model::Access;
use rustix::io::Errno;

use crate::EngineError;
use crate::backend::{Backend, Directory, Flush, IoRequest, Purpose, Session, Slot, Verb};
use crate::clock::OperationKind;
use crate::data::{Data, DataSource};
use crate::fileset::{Layout, Names};
use std::ops::Range;

/// The set, its names and its directory, shared by all threads of a job.
pub(crate) struct OpenFileSet {
    pub(crate) backend: &'static dyn Backend,
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) names: Names,
    pub(crate) root: Directory,
    pub(crate) data: DataSource,
}

impl OpenFileSet {
    /// Opens the set's directory and prepares all names.
    pub(crate) fn open(
        backend: &'static dyn Backend,
        path: PathBuf,
        layout: Layout,
        data: DataSource,
    ) -> Result<OpenFileSet, EngineError> {
        let root = backend.namespace().open_root(&path).map_err(|errno| EngineError::call("open", &path, errno))?;
        Ok(OpenFileSet { backend, names: Names::new(&layout), path, layout, root, data })
    }

    /// Returns the error of a refused call on a file.
    #[cold]
    pub(crate) fn refused(&self, call: &str, file: u64, errno: Errno) -> EngineError {
        EngineError::call(call, self.names.show(&self.path, file), errno)
    }
}

/// Options of an I/O loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoOptions {
    pub(crate) purpose: Purpose,
    pub(crate) verb: Verb,
    /// The kind of operation for the fake clock.
    pub(crate) kind: OperationKind,
    pub(crate) record_size: u64,
    pub(crate) access: Access,
    /// The files that this I/O loop may access: all of the set, or those of one process.
    pub(crate) files: Files,
    /// Open all files before the clock, if they are few.
    pub(crate) hold: bool,
    /// Call fdatasync after each record.
    pub(crate) flush_each: bool,
    /// The number of requests in flight.
    pub(crate) depth: u32,
    /// The number of requests that are reaped together, if that many are in flight.
    pub(crate) batch: u32,
    /// Compare each record with the bytes that were written there.
    pub(crate) verify: bool,
    /// Lock each file or record during the access.
    pub(crate) lock: Option<Lock>,
}

/// A session on a set of files.
pub(super) struct SetSession<'s> {
    pub(super) session: Box<dyn Session>,
    pub(super) set: &'s OpenFileSet,
    pub(super) io_options: IoOptions,
    pub(super) records_per_file: u64,
    /// Slots of files that stay open, starting with the first of this I/O loop's files.
    pub(super) held: Vec<Slot>,
    /// The expected content of records, if it is checked.
    pub(super) expected: Option<Data>,
}

impl SetSession<'_> {
    /// Returns the slot of a file that stays open.
    #[inline]
    pub(super) fn held(&self, file: u64) -> Option<Slot> {
        self.held.get(file.wrapping_sub(self.io_options.files.first) as usize).copied()
    }

    /// Returns the file of an item and the record in that file. Divisions cost as much as the rest of the loop.
    #[inline]
    pub(super) fn locate(&self, item: u64) -> (u64, u64) {
        if self.set.layout.files == 1 {
            (0, item)
        } else if self.records_per_file == 1 {
            (item, 0)
        } else {
            (item / self.records_per_file, item % self.records_per_file)
        }
    }

    pub(super) fn open(&mut self, file: u64) -> Result<Slot, EngineError> {
        let OpenFileSet { layout, names, root, .. } = self.set;
        let purpose = self.io_options.purpose;
        let verb = if purpose == Purpose::Create { "create" } else { "open" };
        self.session
            .open(root, names.path(file), purpose.into(), layout.file_size)
            .map_err(|errno| self.set.refused(verb, file, errno))
    }

    pub(super) fn flush(&mut self, slot: Slot, file: u64, what: Flush) -> Result<(), EngineError> {
        let call = match what {
            Flush::Data => "fdatasync of",
            Flush::All => "fsync of",
        };
        self.session.flush(slot, what).map_err(|errno| self.set.refused(call, file, errno))
    }
}

/// Accounts for the bytes that a request moved. Returns whether the request is complete. A short write continues, and
/// so does a request that a signal stopped before it began. A short read is an error, because the bytes existed when
/// the clock started.
#[inline]
pub(super) fn advance(
    set: &OpenFileSet,
    request: &mut IoRequest,
    moved: Result<usize, Errno>,
    file: u64,
) -> Result<bool, EngineError> {
    let call = call_of(request.verb);
    if moved == Err(Errno::INTR) {
        return Ok(false);
    }
    let moved = moved.map_err(|errno| set.refused(call, file, errno))?;
    if moved == request.length {
        return Ok(true);
    }
    if request.verb == Verb::Read || moved == 0 || moved > request.length {
        let path = set.names.show(&set.path, file);
        let IoRequest { length, offset, .. } = request;
        let message = format!("{call} {}: {moved} bytes came instead of {length} at offset {offset}", path.display());
        return Err(EngineError { message, errno: None, path: Some(path), inapplicable: false });
    }
    request.offset += moved as u64;
    request.length -= moved;
    request.memory = request.memory.wrapping_add(moved);
    Ok(false)
}

pub(super) fn call_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "read from",
        Verb::Write => "write to",
    }
}

/// Some files of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Files {
    /// Returns their numbers.
    pub(crate) fn all(self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Each record while it is moved.
    Record,
    /// The file during a pass.
    File,
}

impl Lock {
    /// In the order of the help text.
    pub(crate) const ALL: &'static [Lock] = &[Lock::Record, Lock::File];

    /// Returns the word in plans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lock::Record => "record",
            Lock::File => "file",
        }
    }
}
