//! The hot loop: moves the records of a file set through a session.
//!
//! Files are opened before the clock where there are few of them; in larger sets opening and closing belong to the
//! operation, as they do for whoever reads many files. A synchronous backend gets one request at a time straight from
//! the data pool; an asynchronous one is kept filled to its depth, each request with memory of its own.

use std::path::PathBuf;

use fsb_model::Access;
use rustix::io::Errno;

use crate::EngineError;
use crate::backend::{Backend, Completion, Flush, Handle, Purpose, Queued, Request, Session, Setup, Slot, Verb};
use crate::clock::Kind;
use crate::data::{Data, Memory};
use crate::fileset::{Layout, Names};
use crate::lane::Lane;
use crate::order::Visits;

/// Sets of up to so many files are opened before the clock.
pub(crate) const HELD_FILES: u64 = 16;

/// What all threads of a job look at: the set, its names, its directory.
pub(crate) struct Stage {
    pub(crate) backend: &'static dyn Backend,
    pub(crate) set: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) names: Names,
    pub(crate) root: Handle,
    pub(crate) seed: u64,
}

impl Stage {
    /// Opens the set's directory and writes out all names.
    pub(crate) fn open(
        backend: &'static dyn Backend,
        set: PathBuf,
        layout: Layout,
        seed: u64,
    ) -> Result<Stage, EngineError> {
        let root = backend.tree().open_root(&set).map_err(|errno| EngineError::call("open", &set, errno))?;
        Ok(Stage { backend, names: Names::new(&layout), set, layout, root, seed })
    }

    /// A call on a file was refused.
    #[cold]
    pub(crate) fn refused(&self, call: &str, file: u64, errno: Errno) -> EngineError {
        EngineError::call(call, self.names.show(&self.set, file), errno)
    }
}

/// What a pump does with its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) purpose: Purpose,
    pub(crate) verb: Verb,
    /// For the fake clock.
    pub(crate) kind: Kind,
    pub(crate) record_size: u64,
    pub(crate) access: Access,
    /// Open all files before the clock, if they are few.
    pub(crate) hold: bool,
    /// fdatasync after each record.
    pub(crate) flush_each: bool,
    pub(crate) depth: u32,
}

/// One thread's pump.
pub(crate) struct Pump<'s> {
    // First, for it is dropped first: it waits for requests that point into the memory below.
    session: Box<dyn Session>,
    stage: &'s Stage,
    manner: Manner,
    records_per_file: u64,
    /// Slots of files that stay open, by file.
    held: Vec<Slot>,
    /// The file that is open, where they do not stay open.
    current: Option<(u64, Slot)>,
    source: Source,
    flights: Vec<Flight>,
    landed: Vec<Completion>,
}

/// Where requests point.
enum Source {
    Pool(Data),
    Buffer(Memory),
}

/// An asynchronous request and its memory.
struct Flight {
    memory: Memory,
    file: u64,
    started: u64,
    request: Request,
}

impl<'s> Pump<'s> {
    /// A pump with its memory touched and, where they are held, its files open.
    pub(crate) fn new(stage: &'s Stage, manner: Manner) -> Result<Pump<'s>, EngineError> {
        let record = manner.record_size as usize;
        let hold = manner.hold && stage.layout.files <= HELD_FILES;
        let mut source = match manner.verb {
            Verb::Write => Source::Pool(Data::new(stage.seed, record)),
            Verb::Read => Source::Buffer(Memory::new(record)),
        };
        let asynchronous = stage.backend.capabilities().depth > 1;
        let mut flights: Vec<Flight> =
            (0..if asynchronous { manner.depth } else { 0 }).map(|tag| Flight::new(tag, manner.verb, record)).collect();
        let mut memory: Vec<_> = flights.iter_mut().map(|flight| (flight.request.memory, record)).collect();
        memory.push(source.whole());
        let files = if hold { stage.layout.files as usize } else { 1 };
        let setup = Setup { files, depth: manner.depth, record_size: manner.record_size, memory };
        let mut pump = Pump {
            session: stage.backend.session(&setup)?,
            stage,
            manner,
            records_per_file: stage.layout.file_size / manner.record_size.max(1),
            held: Vec::with_capacity(files),
            current: None,
            source,
            landed: Vec::with_capacity(flights.len()),
            flights,
        };
        if hold {
            for file in 0..stage.layout.files {
                let slot = pump.open(file)?;
                pump.held.push(slot);
            }
        }
        Ok(pump)
    }

    /// Moves the records in this order against the clock.
    pub(crate) fn run(&mut self, visits: &mut Visits, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        if self.flights.is_empty() { self.run_one_by_one(visits, lane) } else { self.run_deep(visits, lane) }
    }

    fn run_one_by_one(&mut self, visits: &mut Visits, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let Manner { kind, record_size, access, flush_each, .. } = self.manner;
        let last_record = self.records_per_file.saturating_sub(1);
        lane.start();
        for item in visits {
            let (file, record) = self.locate(item);
            let slot = self.seek(file)?;
            self.transfer(slot, file, record * record_size, record_size)?;
            if flush_each {
                self.flush(slot, file, Flush::Data)?;
            }
            if self.current.is_some() && (record == last_record || access == Access::Random) {
                self.close_current()?;
            }
            if !lane.lap(kind, record_size) {
                break;
            }
        }
        self.close_current()
    }

    /// The file and the record in it that an item is. Divisions cost as much as the rest of the loop.
    #[inline]
    fn locate(&self, item: u64) -> (u64, u64) {
        if self.stage.layout.files == 1 {
            (0, item)
        } else if self.records_per_file == 1 {
            (item, 0)
        } else {
            (item / self.records_per_file, item % self.records_per_file)
        }
    }

    /// The open file, opened now if need be.
    #[inline]
    fn seek(&mut self, file: u64) -> Result<Slot, EngineError> {
        if let Some(&slot) = self.held.get(file as usize) {
            return Ok(slot);
        }
        match self.current {
            Some((open, slot)) if open == file => Ok(slot),
            _ => {
                self.close_current()?;
                self.open(file).inspect(|&slot| self.current = Some((file, slot)))
            }
        }
    }

    /// Opens a file for the pump's purpose.
    pub(crate) fn open(&mut self, file: u64) -> Result<Slot, EngineError> {
        let Stage { layout, names, root, .. } = self.stage;
        let purpose = self.manner.purpose;
        let verb = if purpose == Purpose::Create { "create" } else { "open" };
        self.session
            .open(root, names.path(file), purpose, layout.file_size)
            .map_err(|errno| self.stage.refused(verb, file, errno))
    }

    /// Closes a file.
    pub(crate) fn close(&mut self, slot: Slot, file: u64) -> Result<(), EngineError> {
        self.session.close(slot).map_err(|errno| self.stage.refused("close", file, errno))
    }

    fn close_current(&mut self) -> Result<(), EngineError> {
        match self.current.take() {
            Some((file, slot)) => self.close(slot, file),
            None => Ok(()),
        }
    }

    /// Brings a file onto the device.
    pub(crate) fn flush(&mut self, slot: Slot, file: u64, what: Flush) -> Result<(), EngineError> {
        let call = match what {
            Flush::Data => "fdatasync of",
            Flush::All => "fsync of",
        };
        self.session.flush(slot, what).map_err(|errno| self.stage.refused(call, file, errno))
    }

    /// Brings everything that was written onto the device: by fsync of the one file, or by syncfs of a set.
    pub(crate) fn flush_all(&mut self) -> Result<(), EngineError> {
        match self.held[..] {
            [slot] => self.flush(slot, 0, Flush::All),
            _ => {
                let Stage { backend, root, set, .. } = self.stage;
                backend.tree().sync_file_system(root).map_err(|errno| EngineError::call("syncfs of", set, errno))
            }
        }
    }

    /// Moves one record and returns when it is done.
    #[inline]
    pub(crate) fn transfer(&mut self, slot: Slot, file: u64, offset: u64, length: u64) -> Result<(), EngineError> {
        let memory = match &mut self.source {
            Source::Pool(data) => data.window(self.stage.layout.address(file) + offset, length as usize).as_mut_ptr(),
            Source::Buffer(memory) => memory.as_mut().as_mut_ptr(),
        };
        let request = Request { slot, verb: self.manner.verb, offset, memory, length: length as usize, tag: 0 };
        // SAFETY: the memory is this pump's own, has at least the length of a record, and is used for nothing else
        // before `finish` returns; a session that is dropped waits for what is under way.
        match unsafe { self.session.queue(&request) } {
            Ok(Queued::Done(moved)) if moved == request.length => Ok(()),
            answer => self.finish(request, answer, file),
        }
    }

    /// The rest of a transfer that was not done in one go.
    #[cold]
    fn finish(&mut self, mut request: Request, answer: Result<Queued, Errno>, file: u64) -> Result<(), EngineError> {
        let mut answer = answer;
        loop {
            let moved = match answer {
                Ok(Queued::Done(moved)) => Ok(moved),
                Ok(Queued::Pending) => self.wait_for_one(),
                Ok(Queued::Busy) => Err(Errno::AGAIN),
                Err(errno) => Err(errno),
            };
            if advance(self.stage, &mut request, moved, file)? {
                return Ok(());
            }
            // SAFETY: as in `transfer`; what remains lies within the same memory.
            answer = unsafe { self.session.queue(&request) };
        }
    }

    fn wait_for_one(&mut self) -> Result<usize, Errno> {
        self.session.commit()?;
        self.landed.clear();
        while self.landed.is_empty() {
            self.session.reap(1, &mut self.landed)?;
        }
        self.landed[0].result
    }

    /// Keeps the backend filled to its depth. All files are held: [`crate::workload`] sees to it.
    fn run_deep(&mut self, visits: &mut Visits, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let Manner { kind, record_size, flush_each, .. } = self.manner;
        let depth = self.flights.len();
        let mut free: Vec<u32> = (0..depth as u32).collect();
        let mut waiting: Vec<u32> = Vec::with_capacity(depth);
        let mut going = true;
        lane.start();
        loop {
            while going && let Some(tag) = free.pop() {
                let Some(item) = visits.next() else {
                    free.push(tag);
                    going = false;
                    break;
                };
                let (file, record) = self.locate(item);
                self.load(tag, file, record * record_size, lane.last());
                waiting.push(tag);
            }
            if free.len() == depth {
                return Ok(());
            }
            self.landed.clear();
            self.launch(&mut waiting)?;
            lane.tick(kind, record_size * self.landed.len().max(1) as u64);
            for index in 0..self.landed.len() {
                let Completion { tag, result } = self.landed[index];
                let flight = &mut self.flights[tag as usize];
                if !advance(self.stage, &mut flight.request, result, flight.file)? {
                    waiting.push(tag);
                    continue;
                }
                let (slot, file, started) = (flight.request.slot, flight.file, flight.started);
                if flush_each {
                    self.flush(slot, file, Flush::Data)?;
                    lane.tick(Kind::Write, 0);
                }
                free.push(tag);
                going &= lane.complete(started, record_size);
            }
        }
    }

    /// Makes a request ready to be queued.
    fn load(&mut self, tag: u32, file: u64, offset: u64, started: u64) {
        let length = self.manner.record_size as usize;
        let flight = &mut self.flights[tag as usize];
        let memory = flight.memory.as_mut();
        if let Source::Pool(data) = &mut self.source {
            memory.copy_from_slice(data.window(self.stage.layout.address(file) + offset, length));
        }
        let slot = self.held[file as usize];
        flight.request = Request { slot, offset, memory: memory.as_mut_ptr(), length, ..flight.request };
        (flight.file, flight.started) = (file, started);
    }

    /// Queues what waits, as much as there is room for, and collects what is finished: at least one.
    fn launch(&mut self, waiting: &mut Vec<u32>) -> Result<(), EngineError> {
        while let Some(&tag) = waiting.last() {
            let Flight { request, file, .. } = &self.flights[tag as usize];
            // SAFETY: each flight has memory of its own, which nobody touches until its completion was reaped; the
            // session is dropped before the memory and waits for what is under way.
            match unsafe { self.session.queue(request) } {
                Ok(Queued::Busy) => break,
                Ok(Queued::Pending) => {}
                Ok(Queued::Done(moved)) => self.landed.push(Completion { tag, result: Ok(moved) }),
                Err(errno) => return Err(self.stage.refused(call_of(request.verb), *file, errno)),
            }
            waiting.pop();
        }
        let least = usize::from(self.landed.is_empty());
        self.session
            .commit()
            .and_then(|()| self.session.reap(least, &mut self.landed))
            .map_err(|errno| EngineError::call("wait for requests on", &self.stage.set, errno))
    }
}

impl Source {
    /// All memory that requests may point into.
    fn whole(&mut self) -> (*mut u8, usize) {
        let memory = match self {
            Source::Pool(data) => data.whole(),
            Source::Buffer(memory) => memory.as_mut(),
        };
        (memory.as_mut_ptr(), memory.len())
    }
}

impl Flight {
    fn new(tag: u32, verb: Verb, length: usize) -> Flight {
        let mut memory = Memory::new(length);
        let pointer = memory.as_mut().as_mut_ptr();
        let request = Request { slot: Slot(0), verb, offset: 0, memory: pointer, length, tag };
        Flight { memory, file: 0, started: 0, request }
    }
}

/// Accounts for what a request moved; whether it is complete. A short write goes on, a short read is an error: the
/// bytes were there when the clock started.
#[inline]
fn advance(stage: &Stage, request: &mut Request, moved: Result<usize, Errno>, file: u64) -> Result<bool, EngineError> {
    let call = call_of(request.verb);
    let moved = moved.map_err(|errno| stage.refused(call, file, errno))?;
    if moved == request.length {
        return Ok(true);
    }
    if request.verb == Verb::Read || moved == 0 || moved > request.length {
        let path = stage.names.show(&stage.set, file);
        let Request { length, offset, .. } = request;
        let message = format!("{call} {}: {moved} bytes came instead of {length} at offset {offset}", path.display());
        return Err(EngineError { message, errno: None, path: Some(path) });
    }
    request.offset += moved as u64;
    request.length -= moved;
    request.memory = request.memory.wrapping_add(moved);
    Ok(false)
}

fn call_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "read from",
        Verb::Write => "write to",
    }
}
