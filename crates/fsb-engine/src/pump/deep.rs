//! Many requests under way at once, each with memory of its own.
//!
//! What is written lies in the pool of data already, and most requests point there: the fewer bytes this thread touches,
//! the fewer must change processors where a thread of the kernel does the work. Two requests whose bytes lie at the same
//! place of the pool differ in their stamps, so the second of them is copied to memory that its flight has for itself.

use std::iter;

use super::{Manner, Rig, advance, call_of};
use crate::EngineError;
use crate::backend::{Completion, Flush, Queued, Request, Slot, Verb};
use crate::clock::Kind;
use crate::data::{Data, Memory, PAGE};
use crate::lane::Lane;
use crate::order::Visits;

/// The requests of one thread and all that they need.
pub(super) struct Deep {
    /// Where written bytes come from.
    data: Option<Data>,
    /// Which places of the pool requests point to.
    taken: Vec<bool>,
    record_size: usize,
    /// The memory of all flights, in one piece: a backend registers it as one.
    arena: Memory,
    flights: Vec<Flight>,
    /// Flights that are not under way.
    free: Vec<u32>,
    /// Flights that are loaded but not queued.
    waiting: Vec<u32>,
    landed: Vec<Completion>,
    /// Flights that the backend has.
    under_way: usize,
}

/// A request and what must be known of it when it lands.
struct Flight {
    /// Where its memory begins, all of it.
    memory: *mut u8,
    /// The address whose bytes it holds, up to a multiple of the pool's period.
    holds: Option<u64>,
    /// The place of the pool that its request points to, instead of its memory.
    place: Option<usize>,
    file: u64,
    started: u64,
    request: Request,
}

impl Deep {
    pub(super) fn new(seed: u64, manner: &Manner) -> Deep {
        let (depth, length) = (manner.depth as usize, manner.record_size as usize);
        let stride = length.next_multiple_of(PAGE);
        let mut arena = Memory::new(depth * stride);
        let data = (manner.verb == Verb::Write).then(|| Data::new(seed, length));
        let flights = arena.as_mut().chunks_exact_mut(stride).zip(0..manner.depth).map(|(memory, tag)| {
            // Filled before the clock, for records of whole periods the copy is never needed again.
            let holds = data.as_ref().map(|data| data.fill(&mut memory[..length], 0, None));
            let memory = memory.as_mut_ptr();
            let request = Request { slot: Slot(0), verb: manner.verb, offset: 0, memory, length, tag };
            Flight { memory, holds, place: None, file: 0, started: 0, request }
        });
        Deep {
            flights: flights.collect(),
            taken: if data.is_some() { vec![false; Data::places(length)] } else { Vec::new() },
            data,
            record_size: length,
            arena,
            // The last is taken first.
            free: (0..manner.depth).rev().collect(),
            waiting: Vec::with_capacity(depth),
            landed: Vec::with_capacity(depth),
            under_way: 0,
        }
    }

    /// All memory that requests may point into.
    pub(super) fn whole(&mut self) -> impl Iterator<Item = &mut [u8]> {
        iter::once(self.arena.as_mut()).chain(self.data.as_mut().map(Data::whole))
    }

    /// Memory for a flight's request, with the record that begins at `address` in it where it is to be written.
    #[inline]
    fn load(&mut self, tag: u32, address: u64) -> *mut u8 {
        let flight = &mut self.flights[tag as usize];
        let Some(data) = &mut self.data else { return flight.memory };
        if let Some(place) = Data::place(address, self.record_size)
            && !std::mem::replace(&mut self.taken[place], true)
        {
            flight.place = Some(place);
            return data.window(address, self.record_size).as_mut_ptr();
        }
        // SAFETY: a flight's memory has the length of a record, and no request points there now: who loads a flight
        // has found it free.
        let memory = unsafe { std::slice::from_raw_parts_mut(flight.memory, self.record_size) };
        flight.holds = Some(data.fill(memory, address, flight.holds));
        flight.memory
    }

    /// The request of a flight is finished: nothing points to its bytes any more.
    #[inline]
    fn unload(&mut self, tag: u32) {
        if let Some(place) = self.flights[tag as usize].place.take() {
            self.taken[place] = false;
        }
    }

    /// As [`Deep::load`], for a request that goes alone.
    pub(super) fn load_one(&mut self, address: u64) -> *mut u8 {
        self.unload(0);
        self.load(0, address)
    }

    /// Keeps the backend filled to its depth. All files are held: [`crate::workload`] sees to it.
    pub(super) fn run(
        &mut self,
        rig: &mut Rig<'_>,
        visits: &mut Visits,
        lane: &mut Lane<'_>,
    ) -> Result<(), EngineError> {
        let Manner { kind, record_size, flush_each, .. } = rig.manner;
        let mut going = true;
        lane.start();
        loop {
            going = going && self.load_free(rig, visits, lane.last());
            if self.waiting.is_empty() && self.under_way == 0 {
                return Ok(());
            }
            self.landed.clear();
            self.launch(rig)?;
            lane.tick(kind, record_size * self.landed.len().max(1) as u64);
            for index in 0..self.landed.len() {
                let Completion { tag, result } = self.landed[index];
                let flight = &mut self.flights[tag as usize];
                if !advance(rig.stage, &mut flight.request, result, flight.file)? {
                    self.waiting.push(tag);
                    continue;
                }
                if rig.expected.is_some() {
                    // SAFETY: the flight has landed, and its memory has the length of a record.
                    let found = unsafe { std::slice::from_raw_parts(flight.memory, self.record_size) };
                    rig.check(found, flight.file, flight.request.offset)?;
                }
                if flush_each {
                    rig.flush(flight.request.slot, flight.file, Flush::Data)?;
                    lane.tick(Kind::Write, 0);
                }
                let started = flight.started;
                self.unload(tag);
                self.free.push(tag);
                going &= lane.complete(started, record_size);
            }
        }
    }

    /// Loads all free flights; whether there is more to visit.
    fn load_free(&mut self, rig: &Rig<'_>, visits: &mut Visits, started: u64) -> bool {
        let record_size = rig.manner.record_size;
        while let Some(&tag) = self.free.last() {
            let Some(item) = visits.next() else { return false };
            self.free.pop();
            let (file, record) = rig.locate(item);
            let offset = record * record_size;
            let memory = self.load(tag, rig.stage.layout.address(file) + offset);
            let flight = &mut self.flights[tag as usize];
            let slot = rig.held[(file - rig.manner.files.first) as usize];
            flight.request = Request { slot, offset, memory, length: self.record_size, ..flight.request };
            (flight.file, flight.started) = (file, started);
            self.waiting.push(tag);
        }
        true
    }

    /// Queues what waits, as much as there is room for, and collects what is finished: a batch, or all there is.
    fn launch(&mut self, rig: &mut Rig<'_>) -> Result<(), EngineError> {
        let mut queued = 0;
        // In the order of the visits: the kernel merges neighbours and reads ahead of who goes forward.
        for &tag in &self.waiting {
            let Flight { request, file, .. } = &self.flights[tag as usize];
            // SAFETY: each flight has memory of its own, which nobody touches until its completion was reaped; the
            // session is dropped before the memory and waits for what is under way.
            match unsafe { rig.session.queue(request) } {
                Ok(Queued::Busy) => break,
                Ok(Queued::Pending) => self.under_way += 1,
                Ok(Queued::Done(moved)) => self.landed.push(Completion { tag, result: Ok(moved) }),
                Err(errno) => return Err(rig.stage.refused(call_of(request.verb), *file, errno)),
            }
            queued += 1;
        }
        self.waiting.drain(..queued);
        let least = if self.landed.is_empty() { self.under_way.min(rig.manner.batch as usize) } else { 0 };
        let done = self.landed.len();
        rig.session
            .commit()
            .and_then(|()| rig.session.reap(least, &mut self.landed))
            .map_err(|errno| EngineError::call("wait for requests on", &rig.stage.set, errno))?;
        self.under_way -= self.landed.len() - done;
        Ok(())
    }
}
