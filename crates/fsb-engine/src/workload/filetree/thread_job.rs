//! The workers: the first one makes or removes directories, all share the files.

use std::fs::File;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::Durability;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::FileTreeJob;
use super::copying;
use super::options::Operation;
use super::tree::{Names, TreeFile};
use crate::EngineError;
use crate::backend::Directory;
use crate::clock::Kind;
use crate::data::Memory;
use crate::fileset;
use crate::order;
use crate::rendezvous::Rendezvous;
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// What all workers look at.
pub(super) struct TreeThreads<'s> {
    pub(super) job: &'s FileTreeJob,
    pub(super) set: &'s Path,
    /// The directory that trees lie in; nothing is called where there is none.
    pub(super) root: Option<&'s Directory>,
    /// The tree that is there.
    pub(super) from: &'s Names,
    /// The tree that is made.
    pub(super) to: &'s Names,
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
}

impl TreeThreads<'_> {
    fn refused(&self, call: &str, name: &std::ffi::CString, errno: Errno) -> EngineError {
        EngineError::call(call, Names::path(self.set, name), errno)
    }

    /// Makes the directories of this range, which belong to no file.
    fn make_directories(
        &self,
        directories: Range<usize>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        for name in &self.to.directories[directories] {
            if let Some(root) = self.root {
                let made = rustix::fs::mkdirat(root.fd(), name, Mode::from_raw_mode(0o755));
                made.map_err(|errno| self.refused("make directory", name, errno))?;
            }
            recorder.tick(Kind::Create, 0);
        }
        Ok(())
    }

    fn copy(&self, file: usize, memory: &mut Memory) -> Result<(), EngineError> {
        let Some(root) = self.root else { return Ok(()) };
        let (leaf, to) = (&self.leaves[file], &self.to.files[file]);
        let own;
        let (source, offset) = match self.memory {
            Some(source) => (source.as_fd(), leaf.address),
            None => {
                let from = &self.from.files[file];
                let opened = rustix::fs::openat(root.fd(), from, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                own = opened.map_err(|errno| self.refused("open", from, errno))?;
                (own.as_fd(), 0)
            }
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let copy = rustix::fs::openat(root.fd(), to, flags, Mode::from_raw_mode(0o644));
        let copy = copy.map_err(|errno| self.refused("create", to, errno))?;
        let copied = copying::copy(self.job.0.copy, source, offset, leaf.size, copy.as_fd(), memory.as_mut());
        copied.map_err(|(call, errno)| self.refused(call, to, errno))?;
        // A file system may tell only now that it could not write.
        // SAFETY: the descriptor is ours, and nobody uses it after this.
        let closed = unsafe { rustix::io::try_close(copy.into_raw_fd()) };
        closed.map_err(|errno| self.refused("close", to, errno))
    }

    fn copy_all(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        // Alone, a directory is made when its first file comes, as cp does; for others all must be there before.
        let alone = self.job.0.threads == 1;
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
            self.copy(file, &mut state.memory)?;
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
            if let Some(root) = self.root {
                let removed = rustix::fs::unlinkat(root.fd(), name, AtFlags::empty());
                removed.map_err(|errno| self.refused("remove", name, errno))?;
            }
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
            if let Some(root) = self.root {
                let removed = rustix::fs::unlinkat(root.fd(), name, AtFlags::REMOVEDIR);
                removed.map_err(|errno| self.refused("remove directory", name, errno))?;
            }
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
        let share = order::share(files, files, rank, self.job.0.threads);
        let first = share.first as usize;
        Ok(ThreadState {
            files: first..first + share.length as usize,
            memory: Memory::new(self.job.0.block_size as usize),
        })
    }

    fn run(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        match self.job.0.operation {
            Operation::Delete => self.delete_all(state, recorder),
            Operation::CopyInto | Operation::CopyWithin => self.copy_all(state, recorder),
        }
    }

    fn report(&self, _state: ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.job.0.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        _state: &mut ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        if let Some(root) = self.root {
            fileset::sync_through(root, self.set)?;
        }
        recorder.tick(Kind::Sync, bytes);
        Ok(())
    }
}
