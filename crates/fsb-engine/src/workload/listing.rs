//! Lists directories: readdir and scan.
//!
//! Each thread has a contiguous share of the directories. A repetition with fewer operations than
//! entries ends in the middle of a directory. A repetition with more operations lists the thread's
//! directories again.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;

use fsb_model::{CacheState, Durability};

use super::measure::{Subject, measure_set};
use super::names::{open_directory, refused};
use super::params;
use super::spec::{Change, Rules, SimpleWorkload, Spec};
use crate::backend::Directory;
use crate::clock::OperationKind;
use crate::error::EngineError;
use crate::fileset::{Content, Layout};
use crate::io_loop::OpenFileSet;
use crate::order::{self, Visits};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// The buffer size of glibc's readdir.
const BUFFER: usize = 32 << 10;

/// The unit of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingUnit {
    /// A directory, read to its end.
    Directory,
    /// An entry whose attributes are read.
    Entry,
}

/// Lists the directories against the clock.
pub(super) fn measure(
    spec: &Spec,
    unit: ListingUnit,
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<Measurement, EngineError> {
    let set = spec.open_set(context)?;
    let threads = ListThreads {
        spec,
        unit,
        set: &set,
        context,
    };
    Ok(measure_set(&threads, &set, Subject::NAMES, profile, context, gate)?.0)
}

struct ListThreads<'a> {
    spec: &'a Spec,
    unit: ListingUnit,
    set: &'a OpenFileSet,
    context: &'a Context,
}

struct ThreadState {
    directories: Visits,
    /// Remaining operations, if an operation is an entry.
    entries: u64,
    buffer: Vec<MaybeUninit<u8>>,
}

impl ThreadJob for ListThreads<'_> {
    type ThreadState = ThreadState;
    type Report = ();

    fn set(&self) -> Option<&OpenFileSet> {
        Some(self.set)
    }

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let Spec {
            layout,
            threads,
            access,
            ..
        } = *self.spec;
        let (all, operations) = (layout.directories(), self.context.operations);
        let mut share = match self.unit {
            ListingUnit::Directory => order::share(all, operations, rank, threads),
            ListingUnit::Entry => order::share(all, all, rank, threads),
        };
        let mut entries = u64::MAX;
        if self.unit == ListingUnit::Entry {
            entries = entries_of(&layout, &share, operations);
            share.operations = if entries == 0 { 0 } else { u64::MAX };
        }
        let directories = Visits::new(
            all,
            share,
            access,
            self.context.seed,
            self.context.repetition,
        );
        Ok(ThreadState {
            directories,
            entries,
            buffer: vec![MaybeUninit::new(0); BUFFER],
        })
    }

    fn run(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        while let Some(directory) = state.directories.next() {
            let more = match self.unit {
                ListingUnit::Directory => self.list(directory, state, recorder)?,
                ListingUnit::Entry => self.scan(directory, state, recorder)?,
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _state: ThreadState) {}
}

impl ListThreads<'_> {
    /// Reads a directory to its end: one operation.
    fn list(
        &self,
        directory: u64,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<bool, EngineError> {
        let handle = open_directory(self.set, &self.set.names, directory)?;
        let mut seen = 0;
        self.entries(directory, &handle, state, &mut |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        })?;
        self.all_seen(directory, seen)?;
        drop(handle);
        Ok(recorder.lap(OperationKind::Readdir, seen))
    }

    /// Reads the attributes of each entry, one operation each, until the directory or the
    /// operations end.
    fn scan(
        &self,
        directory: u64,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<bool, EngineError> {
        let handle = open_directory(self.set, &self.set.names, directory)?;
        let tree = self.set.backend.namespace();
        let (mut seen, mut going, mut failure) = (0, true, None);
        self.entries(directory, &handle, state, &mut |name, left| {
            if let Err(errno) = tree.stat(&handle, name) {
                failure = Some(self.refused_entry(directory, name, errno));
                return ControlFlow::Break(());
            }
            seen += 1;
            *left -= 1;
            going = recorder.lap(OperationKind::Stat, 0) && *left > 0;
            if going {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        failure.map_or(Ok(()), Err)?;
        if going {
            self.all_seen(directory, seen)?;
        }
        Ok(going)
    }

    /// Calls `visit` with each entry and the number of remaining operations.
    fn entries(
        &self,
        directory: u64,
        handle: &Directory,
        state: &mut ThreadState,
        visit: &mut dyn FnMut(&CStr, &mut u64) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let files = self.set.layout.files_in(directory);
        let ThreadState {
            entries, buffer, ..
        } = state;
        let listed = self.set.backend.namespace().list(
            handle,
            buffer,
            files.end - files.start,
            &mut |name: &CStr| visit(name, entries),
        );
        listed.map_err(|errno| refused(self.set, &self.set.names, "list", directory, errno))
    }

    /// Checks that a listing was complete: a directory that hides files would look fast.
    fn all_seen(&self, directory: u64, seen: u64) -> Result<(), EngineError> {
        let files = self.set.layout.files_in(directory);
        let expected = files.end - files.start;
        if seen == expected {
            return Ok(());
        }
        let path = self.set.path.join(Layout::directory_name(directory));
        let message = format!(
            "list {}: {seen} entries came instead of {expected}",
            path.display()
        );
        Err(EngineError {
            path: Some(path),
            ..EngineError::new(message)
        })
    }

    #[cold]
    fn refused_entry(&self, directory: u64, name: &CStr, errno: rustix::io::Errno) -> EngineError {
        let path = self
            .set
            .path
            .join(Layout::directory_name(directory))
            .join(name.to_string_lossy().as_ref());
        EngineError::call("stat", path, errno)
    }
}

/// Returns the number of entries, of `operations` in all, that a thread reads. A thread makes whole
/// passes over its own directories, and reads a share of the rest in proportion to its entries, so
/// that the shares of all threads add up.
fn entries_of(layout: &Layout, share: &order::Share, operations: u64) -> u64 {
    if share.length == 0 {
        return 0;
    }
    let first = layout.files_in(share.first).start;
    let last = layout.files_in(share.first + share.length - 1).end;
    let rest = operations % layout.files;
    let up_to =
        |entry: u64| (u128::from(entry) * u128::from(rest) / u128::from(layout.files)) as u64;
    operations / layout.files * (last - first) + up_to(last) - up_to(first)
}

/// Lists directories, names only. An operation is a directory read to its end: the kernel returns
/// entries in whole buffers, so the time of a single entry cannot be measured.
pub(super) static READDIR: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "readdir",
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::BASE
    },
    about: "read every directory to its end, names only; an operation is a directory",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("file_size", 0.into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| {
        let layout = &spec.layout;
        let entries = layout.files.min(layout.files_per_directory);
        let profile = spec.profile("readdir", format!("readdir {entries} entries"));
        Profile {
            operations: layout.directories(),
            cold_bytes_per_operation: profile.cold_bytes_per_operation * layout.files
                / layout.directories(),
            ..profile.reading()
        }
    },
    measure: |spec, profile, context, gate| {
        measure(spec, ListingUnit::Directory, profile, context, gate)
    },
};

/// Lists directories and asks for the attributes of each entry, as `ls -l`, backups and indexers
/// do.
pub(super) static SCAN: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "scan",
        durability: &[Durability::None],
        cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
        ..Rules::BASE
    },
    about: "read every directory and ask for the attributes of each entry, as ls -l does",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("file_size", 0.into()),
        ])
    },
    content: Content::Full,
    change: Change::Nothing,
    profile: |spec| spec.profile("scan", "readdir + stat".to_owned()).reading(),
    measure: |spec, profile, context, gate| {
        measure(spec, ListingUnit::Entry, profile, context, gate)
    },
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_add_up_and_nobody_overruns(
            files in 1u64..500, files_per_directory in 1u64..60, operations in 0u64..1500, threads in 1u32..9,
        ) {
            let layout = Layout { files, file_size: 0, files_per_directory };
            let all = layout.directories();
            let parts: Vec<u64> = (0..threads)
                .map(|rank| entries_of(&layout, &order::share(all, all, rank, threads), operations))
                .collect();
            prop_assert_eq!(parts.iter().sum::<u64>(), operations);
        }
    }
}
