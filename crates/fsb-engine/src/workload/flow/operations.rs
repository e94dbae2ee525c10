//! The operations on files, and their calls.

use std::ops::ControlFlow;

use fsb_model::flow::{Op, Spread};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::entries::{self, Nothing, Set, Taken, Want};
use super::shared::{CompiledStep, FileRing, FlowShared, FlowSlot, OpResult, Opened};
use super::thread::{self, FlowThread};
use crate::backend::{FileSlot, Flush, OpenFlags, Session};
use crate::clock::OperationKind;
use crate::data::Data;
use crate::error::EngineError;

/// Ends an operation that finds no file.
macro_rules! taken {
    ($found:expr) => {
        match $found {
            Ok(taken) => taken,
            Err(nothing) => {
                return Ok(OpResult::Nothing {
                    there: nothing == Nothing::InUse,
                })
            }
        }
    };
}

impl FlowThread {
    /// Performs the operation of a step.
    #[inline]
    pub(super) fn perform(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        match step.op {
            Op::Create => self.create(step, shared),
            Op::Open => {
                let taken = taken!(self.take(step, shared, Want::Use));
                self.slots[step.fd].open = Some(self.open(step, shared, taken)?);
                Ok(OpResult::Done(OperationKind::Stat, 0))
            }
            Op::Close => self.close(step, shared),
            Op::ReadWhole => self.read_whole(step, shared),
            Op::WriteWhole => self.write_whole(step, shared),
            Op::Append => self.append(step, shared),
            Op::Read => self.read(step, shared),
            Op::Write => self.write(step, shared),
            Op::AioWrite => self.write_aside(step, shared),
            Op::AioWait => {
                let waited = self.aio.as_mut().map_or(Ok(()), |aio| {
                    aio.wait(|slot| shared.sets[slot.set].files.grown(slot.file, slot.end))
                });
                waited.map_err(|(slot, errno)| {
                    shared.refused("write to", slot.set, slot.file, errno)
                })?;
                Ok(OpResult::Done(OperationKind::Write, 0))
            }
            Op::Sync => {
                let Some(open) = &self.slots[step.fd].open else {
                    return Ok(OpResult::Skipped);
                };
                sync(&mut *self.session, open, shared)?;
                Ok(OpResult::Done(OperationKind::Sync, 0))
            }
            Op::SyncSet => {
                for open in self
                    .slots
                    .iter()
                    .filter_map(|slot| slot.open.as_ref())
                    .filter(|open| Some(open.set) == step.set)
                {
                    sync(&mut *self.session, open, shared)?;
                }
                Ok(OpResult::Done(OperationKind::Sync, 0))
            }
            Op::Delete => self.delete(step, shared),
            Op::Stat => self.stat(step, shared),
            Op::List => self.list(step, shared),
            Op::MakeDirectory => self.directory(step, shared, Want::Make),
            Op::RemoveDirectory => self.directory(step, shared, Want::Delete),
            _ => Ok(OpResult::Skipped),
        }
    }

    /// Takes a file of the step's set according to the step's index, the set's way of picking, or
    /// the rotation.
    #[inline]
    fn take(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
        want: Want,
    ) -> Result<Taken, Nothing> {
        let Some(set) = step.set.map(|set| &shared.sets[set]) else {
            return Err(Nothing::There);
        };
        let from = match &step.index {
            // As in filebench: the value times half of the files, wrapped around.
            Some(index) => Some(self.drawn_size(index).wrapping_mul(set.files.len() / 2)),
            None if set.is_random() => Some(entries::draw_below(set.files.len(), self.draw())),
            None => None,
        };
        set.files.take(want, from)
    }

    fn drawn_size(&mut self, spread: &Spread) -> u64 {
        match spread {
            Spread::Exact(size) => size.0,
            _ => entries::draw_size(spread, self.draw()),
        }
    }

    /// Opens a file that was taken.
    fn open(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
        taken: Taken,
    ) -> Result<Opened, EngineError> {
        let number = step.set.unwrap_or(0);
        let set = &shared.sets[number];
        let flags = if set.shape.read_only {
            OpenFlags::READ
        } else {
            OpenFlags::READ_WRITE
        };
        let slot = self.call_open(step, shared, taken.entry, flags);
        let slot = slot.map_err(|errno| shared.refused("open", number, taken.entry, errno))?;
        Ok(Opened {
            slot,
            set: number,
            file: taken.entry,
            generation: taken.generation,
            position: 0,
            orphan: false,
        })
    }

    #[inline]
    fn call_open(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
        file: u64,
        mut how: OpenFlags,
    ) -> Result<FileSlot, Errno> {
        // On Linux, filebench 1.5-alpha3 opens a file of a flowop with `dsync` with O_SYNC.
        how.flags.set(OFlags::SYNC, step.dsync);
        how.flags.set(OFlags::DIRECT, step.direct);
        let set = shared.set_of(step);
        let path = set.tree.entry(file, &mut self.path_buffer);
        self.session
            .open(&shared.root, path, how, set.files.size(file))
    }

    fn create(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        let taken = taken!(self.take(step, shared, Want::Make));
        let set = step.set.unwrap_or(0);
        let flags = OpenFlags::READ_WRITE.creating(0o644);
        let slot = self.call_open(step, shared, taken.entry, flags);
        let slot = slot.map_err(|errno| shared.refused("create", set, taken.entry, errno))?;
        let generation = shared.sets[set].files.made(taken.entry, true);
        self.report.tally.created += 1;
        self.slots[step.fd].open = Some(Opened {
            slot,
            set,
            file: taken.entry,
            generation,
            position: 0,
            orphan: false,
        });
        Ok(OpResult::Done(OperationKind::Create, 0))
    }

    fn close(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let slot = &mut self.slots[step.fd];
        let Some(open) = slot.open.take() else {
            return Ok(OpResult::Skipped);
        };
        slot.last = Some((open.set, open.file));
        close(&mut *self.session, open, shared)?;
        Ok(OpResult::Done(OperationKind::Close, 0))
    }

    fn delete(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        let slot = self.slots.get(step.fd).filter(|_| step.names_fd);
        let own = slot.and_then(|slot| slot.open.as_ref().map(|open| (open.set, open.file)));
        let last = slot.and_then(|slot| slot.last);
        let (set, file) = match (own, last) {
            (Some((set, file)), _) if shared.sets[set].files.take_own(file) => (set, file),
            (None, Some((set, file)))
                if shared.sets[set]
                    .files
                    .try_take(Want::Delete, file)
                    .is_some() =>
            {
                (set, file)
            }
            (Some(_), _) => return Ok(OpResult::Skipped),
            (None, Some(_)) if step.set.is_none() => return Ok(OpResult::Skipped),
            (None, _) => (
                step.set.unwrap_or(0),
                taken!(self.take(step, shared, Want::Delete)).entry,
            ),
        };
        let path = shared.sets[set].tree.entry(file, &mut self.path_buffer);
        let deleted = shared.backend.namespace().unlink(&shared.root, path);
        deleted.map_err(|errno| shared.refused("delete", set, file, errno))?;
        shared.sets[set].files.deleted(file);
        self.report.tally.deleted += 1;
        if step.names_fd {
            self.slots[step.fd].last = None;
            if let Some(open) = self.slots[step.fd].open.as_mut() {
                open.orphan = true;
            }
        }
        Ok(OpResult::Done(OperationKind::Delete, 0))
    }

    fn stat(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        if let Some(open) = self.slots[step.fd].open.as_ref().filter(|_| step.names_fd) {
            let told = self.session.size(open.slot, 0);
            told.map_err(|errno| shared.refused("stat", open.set, open.file, errno))?;
            return Ok(OpResult::Done(OperationKind::Stat, 0));
        }
        let file = taken!(self.take(step, shared, Want::Use)).entry;
        let set = step.set.unwrap_or(0);
        let path = shared.sets[set].tree.entry(file, &mut self.path_buffer);
        let told = shared.backend.namespace().stat(&shared.root, path);
        told.map_err(|errno| shared.refused("stat", set, file, errno))?;
        shared.sets[set].files.release(file);
        Ok(OpResult::Done(OperationKind::Stat, 0))
    }

    fn list(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let tree = &shared.sets[step.set.unwrap_or(0)].tree;
        let number = entries::draw_below(tree.directories(), self.draw());
        let path = tree.directory(number, &mut self.path_buffer);
        let refused = |errno| {
            EngineError::call(
                "list",
                shared.path.join(path.to_string_lossy().as_ref()),
                errno,
            )
        };
        let namespace = shared.backend.namespace();
        let directory = namespace
            .open_directory(&shared.root, path)
            .map_err(refused)?;
        namespace
            .list(&directory, &mut self.listing, 0, &mut |_| {
                ControlFlow::Continue(())
            })
            .map_err(refused)?;
        Ok(OpResult::Done(OperationKind::Readdir, 0))
    }

    fn directory(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
        want: Want,
    ) -> Result<OpResult, EngineError> {
        let Some((tree, entries)) = &shared.sets[step.set.unwrap_or(0)].empty else {
            return Ok(OpResult::Skipped);
        };
        let entry = taken!(entries.take(want, None)).entry;
        let path = tree.entry(entry, &mut self.path_buffer);
        let refused = |call, errno| {
            EngineError::call(
                call,
                shared.path.join(path.to_string_lossy().as_ref()),
                errno,
            )
        };
        let namespace = shared.backend.namespace();
        if want == Want::Make {
            let made = namespace.make_directory(&shared.root, path, Mode::from_raw_mode(0o755));
            made.map_err(|errno| refused("make directory", errno))?;
            entries.made(entry, false);
            self.report.tally.directories_made += 1;
            return Ok(OpResult::Done(OperationKind::Create, 0));
        }
        let removed = namespace.remove_directory(&shared.root, path);
        removed.map_err(|errno| refused("remove directory", errno))?;
        entries.deleted(entry);
        self.report.tally.directories_removed += 1;
        Ok(OpResult::Done(OperationKind::Delete, 0))
    }

    /// Opens files that no step opens: those that the steps that use them name.
    pub(super) fn open_beforehand(&mut self, shared: &FlowShared) -> Result<(), EngineError> {
        let program = &shared.programs[self.program];
        for &(fd, number) in &program.beforehand {
            let step = &program.steps[number];
            let set = step.set.unwrap_or(0);
            // Threads of one kind take one file after another. The choice must not depend on the
            // order of the threads.
            let found = shared.sets[set]
                .files
                .take(Want::Use, Some(u64::from(self.instance)));
            let taken = found.map_err(|_| self.starved(step, shared))?;
            self.slots[fd].open = Some(self.open(step, shared, taken)?);
        }
        for &number in &program.rings {
            let step = &program.steps[number];
            let entries = &shared.sets[step.set.unwrap_or(0)].files;
            let mut files = Vec::new();
            for file in (0..entries.len()).filter(|&file| entries.exists(file)) {
                if let Some(taken) = entries
                    .try_take(Want::Use, file)
                    .or_else(|| entries.take(Want::Use, Some(file)).ok())
                {
                    files.push(self.open(step, shared, taken)?);
                }
            }
            if files.is_empty() {
                return Err(self.starved(step, shared));
            }
            self.rings.push(FileRing {
                next: self.rank as usize % files.len(),
                files,
            });
        }
        Ok(())
    }

    /// Releases everything that the thread holds, outside the clock.
    pub(super) fn leave(&mut self, shared: &FlowShared) -> Result<(), EngineError> {
        if let Some(mut aio) = self.aio.take() {
            let waited = aio.wait(|slot| shared.sets[slot.set].files.grown(slot.file, slot.end));
            waited
                .map_err(|(slot, errno)| shared.refused("write to", slot.set, slot.file, errno))?;
        }
        let rings = self.rings.iter_mut().flat_map(|ring| ring.files.drain(..));
        for open in self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.open.take())
            .chain(rings)
        {
            close(&mut *self.session, open, shared)?;
        }
        Ok(())
    }
}

fn close(session: &mut dyn Session, open: Opened, shared: &FlowShared) -> Result<(), EngineError> {
    // A file system may report a failed write only now.
    session
        .close(open.slot)
        .map_err(|errno| shared.refused("close", open.set, open.file, errno))?;
    if !open.orphan {
        shared.sets[open.set].files.release(open.file);
    }
    Ok(())
}

fn sync(session: &mut dyn Session, open: &Opened, shared: &FlowShared) -> Result<(), EngineError> {
    let synced = session.flush(open.slot, Flush::All);
    synced.map_err(|errno| shared.refused("fsync", open.set, open.file, errno))
}

impl FlowThread {
    fn read_whole(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        let Some(open) = &self.slots[step.fd].open else {
            return Ok(OpResult::Skipped);
        };
        let set = &shared.sets[open.set];
        let least = set.files.size(open.file);
        let refused = |errno| shared.refused("read from", open.set, open.file, errno);
        let buffer = &mut self.memory.as_mut()[..step.record as usize];
        let (data, mut wrong) = (&mut self.data, Ok(()));
        self.session.rewind(open.slot).map_err(refused)?;
        let read = self
            .session
            .read_to_end(open.slot, buffer, least, &mut |at, found| {
                if shared.verify {
                    wrong = compare(data, shared, open, at, found);
                }
                if wrong.is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        let bytes = read.map_err(refused)?;
        wrong?;
        if bytes < least && !open.orphan {
            return Err(shorter(shared, open, bytes, least));
        }
        self.report.tally.read(bytes);
        Ok(OpResult::Done(OperationKind::Read, bytes))
    }

    fn write_whole(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        let source = step.from.unwrap_or(step.fd);
        let Some((set, file)) = self.slots[source]
            .open
            .as_ref()
            .map(|open| (open.set, open.file))
        else {
            return Ok(OpResult::Skipped);
        };
        let whole = shared.sets[set].size(file);
        let Some(open) = &self.slots[step.fd].open else {
            return Ok(OpResult::Skipped);
        };
        let mut offset = 0;
        while offset < whole {
            let length = step.record.min(whole - offset) as usize;
            offset += write_at(
                &mut *self.session,
                &mut self.data,
                shared,
                open,
                offset,
                length,
            )?;
        }
        shared.sets[open.set].files.grown(open.file, whole);
        self.report.tally.wrote(whole);
        Ok(OpResult::Done(OperationKind::Write, whole))
    }

    fn append(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        let size = self.drawn_size(&step.size);
        let Some(open) = &self.slots[step.fd].open else {
            return Ok(OpResult::Skipped);
        };
        if size == 0 {
            self.report.tally.wrote(0);
            return Ok(OpResult::Done(OperationKind::Write, 0));
        }
        let set = &shared.sets[open.set];
        let end = self
            .session
            .seek_to_end(open.slot, set.files.size(open.file));
        let end = end.map_err(|errno| shared.refused("seek in", open.set, open.file, errno))?;
        let largest = entries::largest_size(&step.size);
        let mut written = 0;
        while written < size {
            let length = largest.min(size - written) as usize;
            written += write_on(
                &mut *self.session,
                &mut self.data,
                shared,
                open,
                end + written,
                length,
            )?;
        }
        set.files.grown(open.file, end + size);
        self.report.tally.wrote(size);
        Ok(OpResult::Done(OperationKind::Write, size))
    }

    /// Returns the bytes of the next record, and the bits that determine its place in a file.
    #[inline]
    fn drawn_record(&mut self, step: &CompiledStep) -> (u64, u64) {
        let size = self
            .drawn_size(&step.size)
            .clamp(1, entries::largest_size(&step.size));
        (size, if step.random { self.draw() } else { 0 })
    }

    /// Returns the offset of the next record of a file.
    #[inline]
    fn place(
        step: &CompiledStep,
        shared: &FlowShared,
        open: &Opened,
        length: u64,
        bits: u64,
    ) -> u64 {
        if !step.random {
            return open.position;
        }
        let span = step
            .working_set
            .unwrap_or_else(|| shared.sets[open.set].size(open.file));
        entries::draw_below((span / length.max(1)).max(1), bits) * length
    }

    fn read(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let (size, bits) = self.drawn_record(step);
        let Some(open) = chosen(&mut self.slots, &mut self.rings, step) else {
            return Ok(OpResult::Skipped);
        };
        let mut offset = Self::place(step, shared, open, size, bits);
        let refused = |errno| shared.refused("read from", open.set, open.file, errno);
        let whole = shared.sets[open.set].files.size(open.file);
        let buffer = &mut self.memory.as_mut()[..size as usize];
        let mut count = self
            .session
            .read_at(open.slot, buffer, offset, whole)
            .map_err(refused)?;
        if count == 0 && offset > 0 && !step.random {
            // At the end of the file, reading begins again.
            offset = 0;
            count = self
                .session
                .read_at(open.slot, buffer, 0, whole)
                .map_err(refused)?;
        }
        if shared.verify {
            compare(&mut self.data, shared, open, offset, &buffer[..count])?;
        }
        let count = count as u64;
        open.position = offset + count;
        self.report.tally.read(count);
        Ok(OpResult::Done(OperationKind::Read, count))
    }

    fn write(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let (size, bits) = self.drawn_record(step);
        let Some(open) = chosen(&mut self.slots, &mut self.rings, step) else {
            return Ok(OpResult::Skipped);
        };
        let offset = Self::place(step, shared, open, size, bits);
        let mut written = 0;
        while written < size {
            written += write_at(
                &mut *self.session,
                &mut self.data,
                shared,
                open,
                offset + written,
                (size - written) as usize,
            )?;
        }
        open.position = offset + size;
        shared.sets[open.set].files.grown(open.file, offset + size);
        self.report.tally.wrote(size);
        Ok(OpResult::Done(OperationKind::Write, size))
    }

    /// Starts an asynchronous write.
    fn write_aside(
        &mut self,
        step: &CompiledStep,
        shared: &FlowShared,
    ) -> Result<OpResult, EngineError> {
        let (size, bits) = self.drawn_record(step);
        let Some(open) = chosen(&mut self.slots, &mut self.rings, step) else {
            return Ok(OpResult::Skipped);
        };
        let offset = Self::place(step, shared, open, size, bits);
        open.position = offset + size;
        let set = &shared.sets[open.set];
        if let Some(aio) = &mut self.aio {
            let descriptor = self
                .session
                .descriptor(open.slot)
                .map_err(|errno| shared.refused("write to", open.set, open.file, errno))?;
            let slot = thread::WriteSlot::new(open.set, open.file, offset + size);
            let address = set.address(open.file, open.generation) + offset;
            let data = &self.data;
            aio.write(descriptor, (slot, offset, size as usize), |memory| {
                data.fill(memory, address, None);
            })
            .map_err(|(slot, errno)| shared.refused("write to", slot.set, slot.file, errno))?;
        } else {
            set.files.grown(open.file, offset + size);
        }
        self.report.tally.wrote(size);
        Ok(OpResult::Done(OperationKind::Write, size))
    }
}

/// Returns the open file that a step works on.
#[inline]
fn chosen<'a>(
    slots: &'a mut [FlowSlot],
    rings: &'a mut [FileRing],
    step: &CompiledStep,
) -> Option<&'a mut Opened> {
    let Some(ring) = step.ring else {
        return slots[step.fd].open.as_mut();
    };
    let ring = &mut rings[ring];
    let next = ring.next;
    ring.next = if next + 1 == ring.files.len() {
        0
    } else {
        next + 1
    };
    ring.files.get_mut(next)
}

/// Returns the bytes that belong at an offset of a file.
#[inline]
fn content<'d>(
    data: &'d mut Data,
    set: &Set,
    open: &Opened,
    offset: u64,
    length: usize,
) -> &'d [u8] {
    data.window(set.address(open.file, open.generation) + offset, length)
}

/// Writes at an offset, perhaps fewer bytes than requested.
#[inline]
fn write_at(
    session: &mut dyn Session,
    data: &mut Data,
    shared: &FlowShared,
    open: &Opened,
    offset: u64,
    length: usize,
) -> Result<u64, EngineError> {
    let bytes = content(data, &shared.sets[open.set], open, offset, length);
    let written = session.write_at(open.slot, bytes, offset);
    written
        .map(|written| written as u64)
        .map_err(|errno| shared.refused("write to", open.set, open.file, errno))
}

/// Writes at the file's own position, which is known.
#[inline]
fn write_on(
    session: &mut dyn Session,
    data: &mut Data,
    shared: &FlowShared,
    open: &Opened,
    offset: u64,
    length: usize,
) -> Result<u64, EngineError> {
    let bytes = content(data, &shared.sets[open.set], open, offset, length);
    let written = session.write(open.slot, bytes);
    written
        .map(|written| written as u64)
        .map_err(|errno| shared.refused("write to", open.set, open.file, errno))
}

/// Compares the data that was read with the data that was written.
fn compare(
    data: &mut Data,
    shared: &FlowShared,
    open: &Opened,
    offset: u64,
    found: &[u8],
) -> Result<(), EngineError> {
    let set = &shared.sets[open.set];
    let expected = content(data, set, open, offset, found.len());
    match Data::difference(expected, found) {
        None => Ok(()),
        Some(place) => {
            let path = set.tree.show(&shared.path, open.file);
            Err(EngineError::corrupted(
                &path,
                offset + place as u64,
                expected[place],
                found[place],
            ))
        }
    }
}

/// Builds the error of a file that has lost bytes.
#[cold]
fn shorter(shared: &FlowShared, open: &Opened, bytes: u64, least: u64) -> EngineError {
    let path = shared.sets[open.set].tree.show(&shared.path, open.file);
    let message = format!(
        "read from {}: it ended after {bytes} of the {least} bytes that were written",
        path.display()
    );
    EngineError {
        path: Some(path),
        ..EngineError::new(message)
    }
}
