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
use super::tree::{Leaf, Names};
use crate::EngineError;
use crate::backend::Handle;
use crate::board::Board;
use crate::clock::Kind;
use crate::data::Memory;
use crate::fileset;
use crate::lane::Lane;
use crate::order;
use crate::team::Crew;

/// What all workers look at.
pub(super) struct Hauliers<'s> {
    pub(super) job: &'s FileTreeJob,
    pub(super) set: &'s Path,
    /// The directory that trees lie in; nothing is called where there is none.
    pub(super) root: Option<&'s Handle>,
    /// The tree that is there.
    pub(super) from: &'s Names,
    /// The tree that is made.
    pub(super) to: &'s Names,
    pub(super) leaves: &'s [Leaf],
    /// The source where it is in memory.
    pub(super) memory: Option<&'s File>,
    pub(super) board: &'s Board,
    /// A worker has failed, which the others must know when they have met it.
    pub(super) failed: AtomicBool,
}

/// What one worker works with.
pub(super) struct Kit {
    files: Range<usize>,
    memory: Memory,
}

impl Hauliers<'_> {
    fn refused(&self, call: &str, name: &std::ffi::CString, errno: Errno) -> EngineError {
        EngineError::call(call, Names::path(self.set, name), errno)
    }

    /// Makes the directories of this range, which belong to no file.
    fn make_directories(&self, directories: Range<usize>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        for name in &self.to.directories[directories] {
            if let Some(root) = self.root {
                let made = rustix::fs::mkdirat(root.fd(), name, Mode::from_raw_mode(0o755));
                made.map_err(|errno| self.refused("make directory", name, errno))?;
            }
            lane.tick(Kind::Create, 0);
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

    fn copy_all(&self, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        // Alone, a directory is made when its first file comes, as cp does; for others all must be there before.
        let alone = self.job.0.threads == 1;
        let all = self.to.directories.len();
        let mut made = 0;
        lane.start();
        if !alone {
            let result = if lane.rank == 0 { self.make_directories(0..all, lane) } else { Ok(()) };
            // Threads meet even where one has failed, or the others would wait for it.
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            self.board.meet();
            result?;
            if self.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if lane.rank > 0 {
                lane.start();
            }
        }
        for file in kit.files.clone() {
            let leaf = &self.leaves[file];
            if alone && made <= leaf.directory {
                self.make_directories(made..leaf.directory + 1, lane)?;
                made = leaf.directory + 1;
            }
            self.copy(file, &mut kit.memory)?;
            if !lane.lap(Kind::Create, leaf.size) {
                break;
            }
        }
        if alone {
            self.make_directories(made..all, lane)?;
        }
        Ok(())
    }

    fn delete_files(&self, kit: &Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        for name in &self.from.files[kit.files.clone()] {
            if let Some(root) = self.root {
                let removed = rustix::fs::unlinkat(root.fd(), name, AtFlags::empty());
                removed.map_err(|errno| self.refused("remove", name, errno))?;
            }
            if !lane.lap(Kind::Delete, 0) {
                break;
            }
        }
        Ok(())
    }

    fn delete_all(&self, kit: &Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        lane.start();
        let result = self.delete_files(kit, lane);
        self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
        self.board.meet();
        result?;
        // What is not empty because another worker failed is for that one to tell.
        if lane.rank > 0 || self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        for name in self.from.directories.iter().rev() {
            if let Some(root) = self.root {
                let removed = rustix::fs::unlinkat(root.fd(), name, AtFlags::REMOVEDIR);
                removed.map_err(|errno| self.refused("remove directory", name, errno))?;
            }
            lane.tick(Kind::Delete, 0);
        }
        Ok(())
    }
}

impl Crew for Hauliers<'_> {
    type Kit = Kit;
    type Report = ();

    fn equip(&self, rank: u32) -> Result<Kit, EngineError> {
        let files = self.leaves.len() as u64;
        let share = order::share(files, files, rank, self.job.0.threads);
        let first = share.first as usize;
        Ok(Kit { files: first..first + share.length as usize, memory: Memory::new(self.job.0.block_size as usize) })
    }

    fn work(&self, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        match self.job.0.operation {
            Operation::Delete => self.delete_all(kit, lane),
            Operation::CopyInto | Operation::CopyWithin => self.copy_all(kit, lane),
        }
    }

    fn report(&self, _kit: Kit) {}

    fn closes(&self) -> bool {
        self.job.0.durability == Durability::End
    }

    fn close(&self, _kit: &mut Kit, bytes: u64, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        if let Some(root) = self.root {
            fileset::sync_through(root, self.set)?;
        }
        lane.tick(Kind::Sync, bytes);
        Ok(())
    }
}
