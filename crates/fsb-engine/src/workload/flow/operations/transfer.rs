//! Operations that move bytes: to and from files that are open.

use std::ops::ControlFlow;

use crate::EngineError;
use crate::backend::Session;
use crate::clock::Kind;
use crate::data::Data;
use crate::workload::flow::opened::{FileRing, FlowSlot, OpResult, Opened};
use crate::workload::flow::program::CompiledStep;
use crate::workload::flow::sets::Set;
use crate::workload::flow::shared::FlowShared;
use crate::workload::flow::thread::FlowThread;
use crate::workload::flow::{async_writes, draw};

impl FlowThread {
    pub(super) fn read_whole(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let Some(open) = &self.slots[step.fd].open else { return Ok(OpResult::Skipped) };
        let set = &shared.sets[open.set];
        let least = set.files.size(open.file);
        let refused = |errno| shared.refused("read from", open.set, open.file, errno);
        let buffer = &mut self.memory.as_mut()[..step.record as usize];
        let (data, mut wrong) = (&mut self.data, Ok(()));
        self.session.rewind(open.slot).map_err(refused)?;
        let read = self.session.read_to_end(open.slot, buffer, least, &mut |at, found| {
            if shared.verify {
                wrong = compare(data, shared, open, at, found);
            }
            if wrong.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let bytes = read.map_err(refused)?;
        wrong?;
        if bytes < least && !open.orphan {
            return Err(shorter(shared, open, bytes, least));
        }
        self.report.tally.read(bytes);
        Ok(OpResult::Done(Kind::Read, bytes))
    }

    pub(super) fn write_whole(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let source = step.from.unwrap_or(step.fd);
        let Some((set, file)) = self.slots[source].open.as_ref().map(|open| (open.set, open.file)) else {
            return Ok(OpResult::Skipped);
        };
        let whole = shared.sets[set].size(file);
        let Some(open) = &self.slots[step.fd].open else { return Ok(OpResult::Skipped) };
        let mut offset = 0;
        while offset < whole {
            let length = step.record.min(whole - offset) as usize;
            offset += write_at(&mut *self.session, &mut self.data, shared, open, offset, length)?;
        }
        shared.sets[open.set].files.grown(open.file, whole);
        self.report.tally.wrote(whole);
        Ok(OpResult::Done(Kind::Write, whole))
    }

    pub(super) fn append(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let size = self.drawn_size(&step.size);
        let Some(open) = &self.slots[step.fd].open else { return Ok(OpResult::Skipped) };
        if size == 0 {
            self.report.tally.wrote(0);
            return Ok(OpResult::Done(Kind::Write, 0));
        }
        let set = &shared.sets[open.set];
        let end = self.session.seek_to_end(open.slot, set.files.size(open.file));
        let end = end.map_err(|errno| shared.refused("seek in", open.set, open.file, errno))?;
        let largest = draw::largest(&step.size);
        let mut written = 0;
        while written < size {
            let length = largest.min(size - written) as usize;
            written += write_on(&mut *self.session, &mut self.data, shared, open, end + written, length)?;
        }
        set.files.grown(open.file, end + size);
        self.report.tally.wrote(size);
        Ok(OpResult::Done(Kind::Write, size))
    }

    /// Bytes of the next record, and what decides where it lies in a file.
    #[inline]
    fn drawn_record(&mut self, step: &CompiledStep) -> (u64, u64) {
        let size = self.drawn_size(&step.size).clamp(1, draw::largest(&step.size));
        (size, if step.random { self.draw() } else { 0 })
    }

    /// Where the next record of a file begins.
    #[inline]
    fn place(step: &CompiledStep, shared: &FlowShared, open: &Opened, length: u64, bits: u64) -> u64 {
        if !step.random {
            return open.position;
        }
        let span = step.working_set.unwrap_or_else(|| shared.sets[open.set].size(open.file));
        draw::below((span / length.max(1)).max(1), bits) * length
    }

    pub(super) fn read(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let (size, bits) = self.drawn_record(step);
        let Some(open) = chosen(&mut self.slots, &mut self.rings, step) else { return Ok(OpResult::Skipped) };
        let mut offset = Self::place(step, shared, open, size, bits);
        let refused = |errno| shared.refused("read from", open.set, open.file, errno);
        let whole = shared.sets[open.set].files.size(open.file);
        let buffer = &mut self.memory.as_mut()[..size as usize];
        let mut count = self.session.read_at(open.slot, buffer, offset, whole).map_err(refused)?;
        if count == 0 && offset > 0 && !step.random {
            // At the end: it begins again.
            offset = 0;
            count = self.session.read_at(open.slot, buffer, 0, whole).map_err(refused)?;
        }
        if shared.verify {
            compare(&mut self.data, shared, open, offset, &buffer[..count])?;
        }
        let count = count as u64;
        open.position = offset + count;
        self.report.tally.read(count);
        Ok(OpResult::Done(Kind::Read, count))
    }

    pub(super) fn write(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let (size, bits) = self.drawn_record(step);
        let Some(open) = chosen(&mut self.slots, &mut self.rings, step) else { return Ok(OpResult::Skipped) };
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
        Ok(OpResult::Done(Kind::Write, size))
    }

    /// A write that is not waited for.
    pub(super) fn write_aside(&mut self, step: &CompiledStep, shared: &FlowShared) -> Result<OpResult, EngineError> {
        let (size, bits) = self.drawn_record(step);
        let Some(open) = chosen(&mut self.slots, &mut self.rings, step) else { return Ok(OpResult::Skipped) };
        let offset = Self::place(step, shared, open, size, bits);
        open.position = offset + size;
        let set = &shared.sets[open.set];
        if let Some(aio) = &mut self.aio {
            let refused = |errno| shared.refused("write to", open.set, open.file, errno);
            let descriptor = self.session.descriptor(open.slot).map_err(refused)?;
            let slot = async_writes::WriteSlot::new(open.set, open.file, offset + size);
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
        Ok(OpResult::Done(Kind::Write, size))
    }
}

/// The open file that a step works on.
#[inline]
fn chosen<'a>(slots: &'a mut [FlowSlot], rings: &'a mut [FileRing], step: &CompiledStep) -> Option<&'a mut Opened> {
    let Some(ring) = step.ring else { return slots[step.fd].open.as_mut() };
    let ring = &mut rings[ring];
    let next = ring.next;
    ring.next = if next + 1 == ring.files.len() { 0 } else { next + 1 };
    ring.files.get_mut(next)
}

/// The bytes that belong at a place of a file.
#[inline]
fn content<'d>(data: &'d mut Data, set: &Set, open: &Opened, offset: u64, length: usize) -> &'d [u8] {
    data.window(set.address(open.file, open.generation) + offset, length)
}

/// Writes at a place, perhaps less than asked for.
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
    written.map(|written| written as u64).map_err(|errno| shared.refused("write to", open.set, open.file, errno))
}

/// Writes where the file's own position is, which is known.
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
    written.map(|written| written as u64).map_err(|errno| shared.refused("write to", open.set, open.file, errno))
}

/// Compares what was read with what was written.
fn compare(data: &mut Data, shared: &FlowShared, open: &Opened, offset: u64, found: &[u8]) -> Result<(), EngineError> {
    let set = &shared.sets[open.set];
    let expected = content(data, set, open, offset, found.len());
    match Data::difference(expected, found) {
        None => Ok(()),
        Some(place) => {
            let path = set.tree.show(&shared.path, open.file);
            Err(EngineError::corrupted(&path, offset + place as u64, expected[place], found[place]))
        }
    }
}

/// A file has lost bytes.
#[cold]
fn shorter(shared: &FlowShared, open: &Opened, bytes: u64, least: u64) -> EngineError {
    let path = shared.sets[open.set].tree.show(&shared.path, open.file);
    let message =
        format!("read from {}: it ended after {bytes} of the {least} bytes that were written", path.display());
    EngineError { path: Some(path), ..EngineError::new(message) }
}
