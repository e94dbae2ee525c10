//! The operations on files: the calls that they are made of, and nothing beside them.

mod transfer;

use std::os::fd::{IntoRawFd, OwnedFd};

use fsb_model::flow::{Op, Spread};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::actor::{Actor, Rotor};
use super::draw;
use super::entries::{Nothing, Taken, Want};
use super::program::Act;
use super::stage::Stage;
use crate::EngineError;
use crate::clock::Kind;

/// How an operation ended.
pub(super) enum Did {
    /// It is done and moved so many bytes.
    Done(Kind, u64),
    /// It was not called for: somebody has the file open that should be deleted.
    Skipped,
    /// No file would do; whether there are any that others use now.
    Nothing { there: bool },
}

/// A file that a thread has open.
#[derive(Debug)]
pub(super) struct Opened {
    /// Absent where calls are pretended.
    fd: Option<OwnedFd>,
    pub(super) set: usize,
    pub(super) file: u64,
    generation: u32,
    position: u64,
    /// It was deleted while it was open.
    orphan: bool,
}

/// What a call asks of whoever finds no file.
macro_rules! taken {
    ($found:expr) => {
        match $found {
            Ok(taken) => taken,
            Err(nothing) => return Ok(Did::Nothing { there: nothing == Nothing::InUse }),
        }
    };
}

impl Actor {
    /// Does an operation.
    #[inline]
    pub(super) fn perform(&mut self, act: &Act, stage: &Stage) -> Result<Did, EngineError> {
        match act.op {
            Op::Create => self.create(act, stage),
            Op::Open => {
                let taken = taken!(self.take(act, stage, Want::Use));
                self.slots[act.fd].open = Some(self.open(act, stage, taken)?);
                Ok(Did::Done(Kind::Stat, 0))
            }
            Op::Close => self.close(act, stage),
            Op::ReadWhole => self.read_whole(act, stage),
            Op::WriteWhole => self.write_whole(act, stage),
            Op::Append => self.append(act, stage),
            Op::Read => self.read(act, stage),
            Op::Write => self.write(act, stage),
            Op::AioWrite => self.write_aside(act, stage),
            Op::AioWait => {
                let waited = self
                    .aio
                    .as_mut()
                    .map_or(Ok(()), |aio| aio.wait(|slot| stage.sets[slot.set].files.grown(slot.file, slot.end)));
                waited.map_err(|(slot, errno)| stage.refused("write to", slot.set, slot.file, errno))?;
                Ok(Did::Done(Kind::Write, 0))
            }
            Op::Sync => {
                let Some(open) = &self.slots[act.fd].open else { return Ok(Did::Skipped) };
                sync(open, stage)?;
                Ok(Did::Done(Kind::Sync, 0))
            }
            Op::SyncSet => {
                for open in
                    self.slots.iter().filter_map(|slot| slot.open.as_ref()).filter(|open| Some(open.set) == act.set)
                {
                    sync(open, stage)?;
                }
                Ok(Did::Done(Kind::Sync, 0))
            }
            Op::Delete => self.delete(act, stage),
            Op::Stat => self.stat(act, stage),
            Op::List => self.list(act, stage),
            Op::MakeDirectory => self.directory(act, stage, Want::Make),
            Op::RemoveDirectory => self.directory(act, stage, Want::Delete),
            _ => Ok(Did::Skipped),
        }
    }

    /// Takes a file of the act's set as its index, the set's way of picking, or the rotation has it.
    #[inline]
    fn take(&mut self, act: &Act, stage: &Stage, want: Want) -> Result<Taken, Nothing> {
        let Some(set) = act.set.map(|set| &stage.sets[set]) else { return Err(Nothing::There) };
        let from = match &act.index {
            // As filebench: the value times half of the files, taken round.
            Some(index) => Some(self.drawn_size(index).wrapping_mul(set.files.len() / 2)),
            None if set.is_random() => Some(draw::below(set.files.len(), self.draw())),
            None => None,
        };
        set.files.take(want, from)
    }

    fn drawn_size(&mut self, spread: &Spread) -> u64 {
        match spread {
            Spread::Exact(size) => size.0,
            _ => draw::size(spread, self.draw()),
        }
    }

    /// Opens a file that was taken.
    fn open(&mut self, act: &Act, stage: &Stage, taken: Taken) -> Result<Opened, EngineError> {
        let number = act.set.unwrap_or(0);
        let set = &stage.sets[number];
        let access = if set.shape.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let fd = self.call_open(act, stage, taken.entry, access);
        let fd = fd.map_err(|errno| stage.refused("open", number, taken.entry, errno))?;
        Ok(Opened { fd, set: number, file: taken.entry, generation: taken.generation, position: 0, orphan: false })
    }

    #[inline]
    fn call_open(&mut self, act: &Act, stage: &Stage, file: u64, access: OFlags) -> Result<Option<OwnedFd>, Errno> {
        let Some(root) = &stage.root else { return Ok(None) };
        let mut flags = access | OFlags::CLOEXEC;
        flags.set(OFlags::DSYNC, act.dsync);
        flags.set(OFlags::DIRECT, act.direct);
        let path = stage.sets[act.set.unwrap_or(0)].tree.entry(file, &mut self.scratch);
        rustix::fs::openat(root.fd(), path, flags, Mode::from_raw_mode(0o644)).map(Some)
    }

    fn create(&mut self, act: &Act, stage: &Stage) -> Result<Did, EngineError> {
        let taken = taken!(self.take(act, stage, Want::Make));
        let set = act.set.unwrap_or(0);
        let access = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let fd = self.call_open(act, stage, taken.entry, access);
        let fd = fd.map_err(|errno| stage.refused("create", set, taken.entry, errno))?;
        let generation = stage.sets[set].files.made(taken.entry, true);
        self.report.tally.created += 1;
        self.slots[act.fd].open = Some(Opened { fd, set, file: taken.entry, generation, position: 0, orphan: false });
        Ok(Did::Done(Kind::Create, 0))
    }

    fn close(&mut self, act: &Act, stage: &Stage) -> Result<Did, EngineError> {
        let slot = &mut self.slots[act.fd];
        let Some(open) = slot.open.take() else { return Ok(Did::Skipped) };
        slot.last = Some((open.set, open.file));
        close(open, stage)?;
        Ok(Did::Done(Kind::Close, 0))
    }

    fn delete(&mut self, act: &Act, stage: &Stage) -> Result<Did, EngineError> {
        let slot = self.slots.get(act.fd).filter(|_| act.names_fd);
        let own = slot.and_then(|slot| slot.open.as_ref().map(|open| (open.set, open.file)));
        let last = slot.and_then(|slot| slot.last);
        let (set, file) = match (own, last) {
            (Some((set, file)), _) if stage.sets[set].files.take_own(file) => (set, file),
            (None, Some((set, file))) if stage.sets[set].files.try_take(Want::Delete, file).is_some() => (set, file),
            (Some(_), _) => return Ok(Did::Skipped),
            (None, Some(_)) if act.set.is_none() => return Ok(Did::Skipped),
            (None, _) => (act.set.unwrap_or(0), taken!(self.take(act, stage, Want::Delete)).entry),
        };
        if let Some(root) = &stage.root {
            let path = stage.sets[set].tree.entry(file, &mut self.scratch);
            let deleted = rustix::fs::unlinkat(root.fd(), path, AtFlags::empty());
            deleted.map_err(|errno| stage.refused("delete", set, file, errno))?;
        }
        stage.sets[set].files.deleted(file);
        self.report.tally.deleted += 1;
        if act.names_fd {
            self.slots[act.fd].last = None;
            if let Some(open) = self.slots[act.fd].open.as_mut() {
                open.orphan = true;
            }
        }
        Ok(Did::Done(Kind::Delete, 0))
    }

    fn stat(&mut self, act: &Act, stage: &Stage) -> Result<Did, EngineError> {
        if let Some(open) = self.slots[act.fd].open.as_ref().filter(|_| act.names_fd) {
            if let Some(fd) = &open.fd {
                let told = rustix::fs::fstat(fd);
                told.map_err(|errno| stage.refused("stat", open.set, open.file, errno))?;
            }
            return Ok(Did::Done(Kind::Stat, 0));
        }
        let file = taken!(self.take(act, stage, Want::Use)).entry;
        let set = act.set.unwrap_or(0);
        if let Some(root) = &stage.root {
            let path = stage.sets[set].tree.entry(file, &mut self.scratch);
            let told = rustix::fs::statat(root.fd(), path, AtFlags::empty());
            told.map_err(|errno| stage.refused("stat", set, file, errno))?;
        }
        stage.sets[set].files.release(file);
        Ok(Did::Done(Kind::Stat, 0))
    }

    fn list(&mut self, act: &Act, stage: &Stage) -> Result<Did, EngineError> {
        let tree = &stage.sets[act.set.unwrap_or(0)].tree;
        let number = draw::below(tree.directories(), self.draw());
        let path = tree.directory(number, &mut self.scratch);
        if let Some(root) = &stage.root {
            let refused = |errno| EngineError::call("list", stage.path.join(path.to_string_lossy().as_ref()), errno);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(root.fd(), path, flags, Mode::empty()).map_err(refused)?;
            let mut entries = RawDir::new(&directory, &mut self.listing);
            while let Some(entry) = entries.next() {
                entry.map_err(refused)?;
            }
        }
        Ok(Did::Done(Kind::Readdir, 0))
    }

    fn directory(&mut self, act: &Act, stage: &Stage, want: Want) -> Result<Did, EngineError> {
        let Some((tree, entries)) = &stage.sets[act.set.unwrap_or(0)].empty else { return Ok(Did::Skipped) };
        let entry = taken!(entries.take(want, None)).entry;
        let path = tree.entry(entry, &mut self.scratch);
        let refused = |call, errno| EngineError::call(call, stage.path.join(path.to_string_lossy().as_ref()), errno);
        if want == Want::Make {
            if let Some(root) = &stage.root {
                let made = rustix::fs::mkdirat(root.fd(), path, Mode::from_raw_mode(0o755));
                made.map_err(|errno| refused("make directory", errno))?;
            }
            entries.made(entry, false);
            self.report.tally.directories_made += 1;
            return Ok(Did::Done(Kind::Create, 0));
        }
        if let Some(root) = &stage.root {
            let removed = rustix::fs::unlinkat(root.fd(), path, AtFlags::REMOVEDIR);
            removed.map_err(|errno| refused("remove directory", errno))?;
        }
        entries.deleted(entry);
        self.report.tally.directories_removed += 1;
        Ok(Did::Done(Kind::Delete, 0))
    }

    /// Opens what no step opens: files that are named by the steps that use them.
    pub(super) fn open_beforehand(&mut self, stage: &Stage) -> Result<(), EngineError> {
        let program = &stage.programs[self.program];
        for &(fd, number) in &program.beforehand {
            let act = &program.acts[number];
            let set = act.set.unwrap_or(0);
            // Threads of one kind take one file after another; which, must not depend on who is there first.
            let found = stage.sets[set].files.take(Want::Use, Some(u64::from(self.instance)));
            let taken = found.map_err(|_| self.starved(act, stage))?;
            self.slots[fd].open = Some(self.open(act, stage, taken)?);
        }
        for &number in &program.rotors {
            let act = &program.acts[number];
            let entries = &stage.sets[act.set.unwrap_or(0)].files;
            let mut files = Vec::new();
            for file in (0..entries.len()).filter(|&file| entries.exists(file)) {
                if let Some(taken) =
                    entries.try_take(Want::Use, file).or_else(|| entries.take(Want::Use, Some(file)).ok())
                {
                    files.push(self.open(act, stage, taken)?);
                }
            }
            if files.is_empty() {
                return Err(self.starved(act, stage));
            }
            self.rotors.push(Rotor { next: self.rank as usize % files.len(), files });
        }
        Ok(())
    }

    /// Gives back all that it has: outside the clock.
    pub(super) fn leave(&mut self, stage: &Stage) -> Result<(), EngineError> {
        if let Some(mut aio) = self.aio.take() {
            let waited = aio.wait(|slot| stage.sets[slot.set].files.grown(slot.file, slot.end));
            waited.map_err(|(slot, errno)| stage.refused("write to", slot.set, slot.file, errno))?;
        }
        let rotors = self.rotors.iter_mut().flat_map(|rotor| rotor.files.drain(..));
        for open in self.slots.iter_mut().filter_map(|slot| slot.open.take()).chain(rotors) {
            close(open, stage)?;
        }
        Ok(())
    }
}

fn close(open: Opened, stage: &Stage) -> Result<(), EngineError> {
    if let Some(fd) = open.fd {
        // A file system may tell only now that it could not write.
        // SAFETY: the descriptor is ours, and nobody uses it after this.
        let closed = unsafe { rustix::io::try_close(fd.into_raw_fd()) };
        closed.map_err(|errno| stage.refused("close", open.set, open.file, errno))?;
    }
    if !open.orphan {
        stage.sets[open.set].files.release(open.file);
    }
    Ok(())
}

fn sync(open: &Opened, stage: &Stage) -> Result<(), EngineError> {
    let Some(fd) = &open.fd else { return Ok(()) };
    rustix::fs::fsync(fd).map_err(|errno| stage.refused("fsync", open.set, open.file, errno))
}
