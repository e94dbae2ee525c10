//! The workers: the first one makes or removes directories, all share the files.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::Durability;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::copying::{self, CopySource};
use super::options::{Operation, Options};
use super::tree::{TreeFile, TreeNames};
use crate::EngineError;
use crate::backend::{Backend, Directory, OpenFlags, Session, Setup, Slot, files};
use crate::clock::Kind;

use crate::memory::Memory;
use crate::order;
use crate::rendezvous::Rendezvous;
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// What all workers look at.
pub(super) struct TreeThreads<'s> {
    pub(super) options: &'s Options,
    pub(super) set: &'s Path,
    /// Makes the calls.
    pub(super) backend: &'static dyn Backend,
    /// The directory that trees lie in.
    pub(super) root: &'s Directory,
    /// The tree that is there.
    pub(super) from: &'s TreeNames,
    /// The tree that is made.
    pub(super) to: &'s TreeNames,
    pub(super) leaves: &'s [TreeFile],
    /// The source where it is in memory.
    pub(super) memory: Option<&'s File>,
    pub(super) rendezvous: &'s Rendezvous,
    /// A worker has failed, which the others must know when they have met it.
    pub(super) failed: AtomicBool,
}

/// What one worker works with.
pub(super) struct ThreadState {
    files: Range<usize>,
    memory: Memory,
    session: Box<dyn Session>,
    /// The source where it is in memory.
    source: Option<Slot>,
}

impl TreeThreads<'_> {
    fn refused(&self, call: &str, name: &std::ffi::CString, errno: Errno) -> EngineError {
        EngineError::call(call, TreeNames::path(self.set, name), errno)
    }

    /// Makes the directories of this range, which belong to no file.
    fn make_directories(
        &self,
        directories: Range<usize>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        for name in &self.to.directories[directories] {
            let made = self.backend.namespace().make_directory(self.root, name, Mode::from_raw_mode(0o755));
            made.map_err(|errno| self.refused("make directory", name, errno))?;
            recorder.tick(Kind::Create, 0);
        }
        Ok(())
    }

    fn copy(
        &self,
        file: usize,
        ThreadState { memory, session, source, .. }: &mut ThreadState,
    ) -> Result<(), EngineError> {
        let (leaf, to) = (&self.leaves[file], &self.to.files[file]);
        let from = match *source {
            Some(slot) => CopySource { slot, offset: leaf.address, length: leaf.size },
            None => {
                let from = &self.from.files[file];
                let opened = session.open(self.root, from, OpenFlags::READ, leaf.size);
                let slot = opened.map_err(|errno| self.refused("open", from, errno))?;
                CopySource { slot, offset: 0, length: leaf.size }
            }
        };
        let copy = session.open(self.root, to, OpenFlags::WRITE.creating(0o644), leaf.size);
        let copy = copy.map_err(|errno| self.refused("create", to, errno))?;
        let copied = copying::copy(self.options.copy, &mut **session, from, copy, memory.as_mut());
        copied.map_err(|(call, errno)| self.refused(call, to, errno))?;
        // A file system may tell only now that it could not write.
        session.close(copy).map_err(|errno| self.refused("close", to, errno))?;
        match source {
            Some(_) => Ok(()),
            None => session.close(from.slot).map_err(|errno| self.refused("close", &self.from.files[file], errno)),
        }
    }

    fn copy_all(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        // Alone, a directory is made when its first file comes, as cp does; for others all must be there before.
        let alone = self.options.threads == 1;
        let all = self.to.directories.len();
        let mut made = 0;
        recorder.start();
        if !alone {
            let result = if recorder.rank == 0 { self.make_directories(0..all, recorder) } else { Ok(()) };
            // Threads meet even where one has failed, or the others would wait for it.
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            self.rendezvous.wait();
            result?;
            if self.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if recorder.rank > 0 {
                recorder.start();
            }
        }
        for file in state.files.clone() {
            let leaf = &self.leaves[file];
            if alone && made <= leaf.directory {
                self.make_directories(made..leaf.directory + 1, recorder)?;
                made = leaf.directory + 1;
            }
            self.copy(file, state)?;
            if !recorder.lap(Kind::Create, leaf.size) {
                break;
            }
        }
        if alone {
            self.make_directories(made..all, recorder)?;
        }
        Ok(())
    }

    fn delete_files(&self, state: &ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        for name in &self.from.files[state.files.clone()] {
            let removed = self.backend.namespace().unlink(self.root, name);
            removed.map_err(|errno| self.refused("remove", name, errno))?;
            if !recorder.lap(Kind::Delete, 0) {
                break;
            }
        }
        Ok(())
    }

    fn delete_all(&self, state: &ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        let result = self.delete_files(state, recorder);
        self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
        self.rendezvous.wait();
        result?;
        // What is not empty because another worker failed is for that one to tell.
        if recorder.rank > 0 || self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        for name in self.from.directories.iter().rev() {
            let removed = self.backend.namespace().remove_directory(self.root, name);
            removed.map_err(|errno| self.refused("remove directory", name, errno))?;
            recorder.tick(Kind::Delete, 0);
        }
        Ok(())
    }
}

impl ThreadJob for TreeThreads<'_> {
    type ThreadState = ThreadState;
    type Report = ();

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let files = self.leaves.len() as u64;
        let share = order::share(files, files, rank, self.options.threads);
        let first = share.first as usize;
        let mut session = self.backend.session(&Setup::plain(3))?;
        let adopt = |file: &File| {
            let file = file.try_clone().map_err(|error| files::errno_of(&error))?;
            session.adopt(file.into(), OpenFlags::READ)
        };
        let source = self.memory.map(adopt).transpose();
        let source = source.map_err(|errno| EngineError::system("open the source in memory", errno))?;
        let memory = Memory::new(self.options.block_size as usize);
        Ok(ThreadState { files: first..first + share.length as usize, memory, session, source })
    }

    fn run(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        match self.options.operation {
            Operation::Delete => self.delete_all(state, recorder),
            Operation::CopyInto | Operation::CopyWithin => self.copy_all(state, recorder),
        }
    }

    fn report(&self, _state: ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.options.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        _state: &mut ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let synced = recorder.sync(bytes, || self.backend.namespace().sync_file_system(self.root));
        synced.map_err(|errno| EngineError::call("syncfs of", self.set, errno))
    }
}
