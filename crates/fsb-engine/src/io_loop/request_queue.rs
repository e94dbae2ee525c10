//! Many requests under way at once, each with memory of its own.
//!
//! What is written lies in the pool of data already, and most requests point there: the fewer bytes this thread
//! touches, the fewer must change processors where a thread of the kernel does the work. Two requests whose bytes lie
//! at the same place of the pool differ in their stamps, so the second of them is copied to memory that its slot has
//! for itself.

use std::iter;

use super::options::call_of;
use super::{IoOptions, SetSession, advance};
use crate::EngineError;
use crate::backend::{Completion, Flush, IoRequest, Queued, Slot, Verb};
use crate::clock::Kind;
use crate::data::{Data, DataSource, Memory, PAGE};
use crate::order::Visits;
use crate::thread_recorder::ThreadRecorder;

/// The requests of one thread and all that they need.
pub(super) struct RequestQueue {
    /// Where written bytes come from.
    data: Option<Data>,
    /// Which places of the pool requests point to.
    occupied: Vec<bool>,
    record_size: usize,
    /// The memory of all slots, in one piece: a backend registers it as one.
    arena: Memory,
    slots: Vec<RequestSlot>,
    /// Slots without a request.
    free: Vec<u32>,
    /// Slots whose request is loaded but not queued.
    waiting: Vec<u32>,
    completed: Vec<Completion>,
    /// Requests that the backend has.
    under_way: usize,
}

/// A slot for a request, and what must be known of it when it completes.
struct RequestSlot {
    /// Where its memory begins, all of it.
    memory: *mut u8,
    /// The address whose bytes it holds, up to a multiple of the pool's period.
    holds: Option<u64>,
    /// The place of the pool that its request points to, instead of its memory.
    place: Option<usize>,
    file: u64,
    started: u64,
    request: IoRequest,
}

impl RequestQueue {
    pub(super) fn new(source: DataSource, io_options: &IoOptions) -> RequestQueue {
        let (depth, length) = (io_options.depth as usize, io_options.record_size as usize);
        let stride = length.next_multiple_of(PAGE);
        let mut arena = Memory::new(depth * stride);
        let data = (io_options.verb == Verb::Write).then(|| Data::new(source, length));
        let slots = arena.as_mut().chunks_exact_mut(stride).zip(0..io_options.depth).map(|(memory, tag)| {
            // Filled before the clock, for records of whole periods the copy is never needed again.
            let holds = data.as_ref().map(|data| data.fill(&mut memory[..length], 0, None));
            let memory = memory.as_mut_ptr();
            let request = IoRequest { slot: Slot(0), verb: io_options.verb, offset: 0, memory, length, tag };
            RequestSlot { memory, holds, place: None, file: 0, started: 0, request }
        });
        RequestQueue {
            slots: slots.collect(),
            occupied: if data.is_some() { vec![false; Data::places(length)] } else { Vec::new() },
            data,
            record_size: length,
            arena,
            // The last is taken first.
            free: (0..io_options.depth).rev().collect(),
            waiting: Vec::with_capacity(depth),
            completed: Vec::with_capacity(depth),
            under_way: 0,
        }
    }

    /// All memory that requests may point into.
    pub(super) fn whole(&mut self) -> impl Iterator<Item = &mut [u8]> {
        iter::once(self.arena.as_mut()).chain(self.data.as_mut().map(Data::whole))
    }

    /// Memory for a slot's request, with the record that begins at `address` in it where it is to be written.
    #[inline]
    fn load(&mut self, tag: u32, address: u64) -> *mut u8 {
        let request_slot = &mut self.slots[tag as usize];
        let Some(data) = &mut self.data else { return request_slot.memory };
        if let Some(place) = Data::place(address, self.record_size)
            && !std::mem::replace(&mut self.occupied[place], true)
        {
            request_slot.place = Some(place);
            return data.window(address, self.record_size).as_mut_ptr();
        }
        // SAFETY: a slot's memory has the length of a record, and no request points there now: the caller
        // has found it free.
        let memory = unsafe { std::slice::from_raw_parts_mut(request_slot.memory, self.record_size) };
        request_slot.holds = Some(data.fill(memory, address, request_slot.holds));
        request_slot.memory
    }

    /// The request of a slot is finished: nothing points to its bytes any more.
    #[inline]
    fn unload(&mut self, tag: u32) {
        if let Some(place) = self.slots[tag as usize].place.take() {
            self.occupied[place] = false;
        }
    }

    /// As [`RequestQueue::load`], for a request that goes alone.
    pub(super) fn load_one(&mut self, address: u64) -> *mut u8 {
        self.unload(0);
        self.load(0, address)
    }

    /// Keeps the backend filled to its depth. All files are held: [`crate::workload`] sees to it.
    pub(super) fn run(
        &mut self,
        session: &mut SetSession<'_>,
        visits: &mut Visits,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let IoOptions { kind, record_size, flush_each, .. } = session.io_options;
        let mut going = true;
        recorder.start();
        loop {
            going = going && self.load_free(session, visits, recorder.last());
            if self.waiting.is_empty() && self.under_way == 0 {
                return Ok(());
            }
            self.completed.clear();
            self.launch(session)?;
            recorder.tick(kind, record_size * self.completed.len().max(1) as u64);
            for index in 0..self.completed.len() {
                let Completion { tag, result } = self.completed[index];
                let request_slot = &mut self.slots[tag as usize];
                if !advance(session.set, &mut request_slot.request, result, request_slot.file)? {
                    self.waiting.push(tag);
                    continue;
                }
                if session.expected.is_some() {
                    // SAFETY: the slot has completed, and its memory has the length of a record.
                    let found = unsafe { std::slice::from_raw_parts(request_slot.memory, self.record_size) };
                    session.check(found, request_slot.file, request_slot.request.offset)?;
                }
                if flush_each {
                    session.flush(request_slot.request.slot, request_slot.file, Flush::Data)?;
                    recorder.tick(Kind::Write, 0);
                }
                let started = request_slot.started;
                self.unload(tag);
                self.free.push(tag);
                going &= recorder.complete(started, record_size);
            }
        }
    }

    /// Loads all free slots; whether there is more to visit.
    fn load_free(&mut self, session: &SetSession<'_>, visits: &mut Visits, started: u64) -> bool {
        let record_size = session.io_options.record_size;
        while let Some(&tag) = self.free.last() {
            let Some(item) = visits.next() else { return false };
            self.free.pop();
            let (file, record) = session.locate(item);
            let offset = record * record_size;
            let memory = self.load(tag, session.set.layout.address(file) + offset);
            let request_slot = &mut self.slots[tag as usize];
            let slot = session.held[(file - session.io_options.files.first) as usize];
            request_slot.request = IoRequest { slot, offset, memory, length: self.record_size, ..request_slot.request };
            (request_slot.file, request_slot.started) = (file, started);
            self.waiting.push(tag);
        }
        true
    }

    /// Queues what waits, as much as there is room for, and collects what is finished: a batch, or all there is.
    fn launch(&mut self, session: &mut SetSession<'_>) -> Result<(), EngineError> {
        let mut queued = 0;
        // In the order of the visits: the kernel merges neighbours and reads ahead for a reader that goes forward.
        for &tag in &self.waiting {
            let RequestSlot { request, file, .. } = &self.slots[tag as usize];
            // SAFETY: each slot has memory of its own, which nobody touches until its completion was reaped; the
            // session is dropped before the memory and waits for what is under way.
            match unsafe { session.session.queue(request) } {
                Ok(Queued::Busy) => break,
                Ok(Queued::Pending) => self.under_way += 1,
                Ok(Queued::Done(moved)) => self.completed.push(Completion { tag, result: Ok(moved) }),
                Err(errno) => return Err(session.set.refused(call_of(request.verb), *file, errno)),
            }
            queued += 1;
        }
        self.waiting.drain(..queued);
        let least = if self.completed.is_empty() { self.under_way.min(session.io_options.batch as usize) } else { 0 };
        let done = self.completed.len();
        session
            .session
            .commit()
            .and_then(|()| session.session.reap(least, &mut self.completed))
            .map_err(|errno| EngineError::call("wait for requests on", &session.set.path, errno))?;
        self.under_way -= self.completed.len() - done;
        Ok(())
    }
}
