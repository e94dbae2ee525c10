//! The hot loop: moves the records of a file set through a session.
//!
//! If there are few files, they are opened before the clock starts. In larger sets the operation
//! includes opening and closing, as in a program that reads many files. At depth 1 requests go one
//! at a time straight from the data pool. At higher depths the loop keeps the backend filled, and
//! each request has its own memory.
//!
//! Locks are fcntl locks, which the kernel keeps per process and byte range. The loop takes them
//! through separate descriptors, so that backends need no support for them.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::{io, iter, panic, slice, thread};

use fsb_model::Access;
use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::backend::{
    self, Backend, Completion, Directory, FileSlot, Flush, FlushRange, IoRequest, OpenFlags,
    Purpose, Queued, RangeLock, Session, SessionSetup, Verb,
};
use crate::clock::OperationKind;
use crate::data::{Data, DataSource, Memory, PAGE};
use crate::error::EngineError;
use crate::fileset::{Layout, Names};
use crate::order::Visits;
use crate::task::Context;
use crate::thread_recorder::ThreadRecorder;

/// The maximum number of files of a set that are opened before the clock starts.
pub(crate) const HELD_FILES: u64 = 16;

/// One thread's I/O loop.
pub(crate) struct IoLoop<'s> {
    // Dropped first, because its session waits for requests that point into the memory below.
    session: SetSession<'s>,
    /// The file that is open, if files do not stay open.
    current: Option<(u64, FileSlot)>,
    locks: Option<Locks>,
    source: Buffers,
    completed: Vec<Completion>,
    /// Records that the kernel was asked for and that were not read. Without space if there are
    /// none.
    ahead: VecDeque<u64>,
}

/// The memory that requests point into.
enum Buffers {
    Pool(Data),
    Buffer(Memory),
    RequestQueue(RequestQueue),
}

impl<'s> IoLoop<'s> {
    /// Creates an I/O loop with its memory touched and, if files are held, its files open.
    pub(crate) fn new(
        set: &'s OpenFileSet,
        io_options: IoOptions,
    ) -> Result<IoLoop<'s>, EngineError> {
        let record = io_options.largest_record as usize;
        let mut source = match io_options.verb {
            _ if io_options.depth > 1 => {
                Buffers::RequestQueue(RequestQueue::new(set.data, &io_options))
            }
            Verb::Write => Buffers::Pool(Data::new(set.data, record)),
            Verb::Read => Buffers::Buffer(Memory::new(record)),
        };
        let held = io_options.hold && io_options.files.count <= HELD_FILES;
        let files = if held {
            io_options.files.count as usize
        } else {
            1
        };
        let IoOptions {
            depth,
            record_size,
            largest_record,
            ..
        } = io_options;
        let setup = SessionSetup {
            files,
            held,
            depth,
            record_size: largest_record,
            memory: source.whole(),
        };
        let mut session = SetSession {
            session: set.backend.session(&setup)?,
            set,
            io_options,
            records_per_file: io_options.range.length / record_size.max(1),
            held: Vec::with_capacity(files),
            expected: (io_options.verify && io_options.verb == Verb::Read)
                .then(|| Data::new(set.data, record)),
            pass: 0,
        };
        if held {
            session.hold()?;
        }
        let locks = io_options
            .lock
            .map(|lock| Locks::open(lock, set, &io_options))
            .transpose()?;
        Ok(IoLoop {
            session,
            current: None,
            locks,
            source,
            completed: Vec::with_capacity(1),
            ahead: VecDeque::with_capacity(match io_options.prefetch {
                0 => 0,
                records => records as usize + 1,
            }),
        })
    }

    /// Moves the records in this order against the clock.
    pub(crate) fn run(
        &mut self,
        visits: &mut Visits,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        match &mut self.source {
            Buffers::RequestQueue(queue) => queue.run(&mut self.session, visits, recorder),
            Buffers::Pool(_) | Buffers::Buffer(_) => match self.is_plain() {
                _ if self.session.io_options.prefetch > 0 => self.run_prefetching(visits, recorder),
                true => self.run_plainly(visits, recorder),
                false => self.run_one_by_one(visits, recorder),
            },
        }
    }

    /// Returns whether an operation is one transfer, with no call before or after it.
    fn is_plain(&self) -> bool {
        let IoOptions {
            flush_each,
            evict_passes,
            ..
        } = self.session.io_options;
        !self.session.held.is_empty() && self.locks.is_none() && !flush_each && !evict_passes
    }

    /// Moves records of files that stay open, one transfer each. It is a function of its own
    /// without the conditions of the other loop, because they would cost more than its work.
    #[inline(never)]
    fn run_plainly(
        &mut self,
        visits: &mut Visits,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let IoOptions {
            kind, record_size, ..
        } = self.session.io_options;
        recorder.start();
        for item in visits.by_ref() {
            let (file, record) = self.session.locate(item);
            let (slot, offset) = (self.session.slot_of(file), self.session.offset(record));
            self.transfer(slot, file, offset, record_size)?;
            if !recorder.lap(kind, record_size) {
                break;
            }
        }
        Ok(())
    }

    /// Reads records that the kernel was asked for some records before.
    #[inline(never)]
    fn run_prefetching(
        &mut self,
        visits: &mut Visits,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let IoOptions {
            kind, record_size, ..
        } = self.session.io_options;
        let most = self.session.io_options.prefetch as usize;
        recorder.start();
        loop {
            // The next record is one of those ahead.
            while self.ahead.len() <= most
                && let Some(item) = visits.next()
            {
                self.session.prefetch(item)?;
                self.ahead.push_back(item);
            }
            let Some(item) = self.ahead.pop_front() else {
                return Ok(());
            };
            self.step(item)?;
            if !recorder.lap(kind, record_size) {
                return Ok(());
            }
        }
    }

    /// Moves the records that a feed names, at a depth above 1.
    pub(crate) fn run_fed(
        &mut self,
        feed: &mut dyn QueueFeed,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let Buffers::RequestQueue(queue) = &mut self.source else {
            return Err(EngineError::new("a feed needs a queue of requests"));
        };
        queue.run_fed(&mut self.session, feed, recorder)
    }

    #[inline(never)]
    fn run_one_by_one(
        &mut self,
        visits: &mut Visits,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let IoOptions {
            kind, record_size, ..
        } = self.session.io_options;
        recorder.start();
        while visits.more() {
            self.session.begin_pass(visits)?;
            let Some(item) = visits.next() else { break };
            self.step(item)?;
            if !recorder.lap(kind, record_size) {
                break;
            }
        }
        self.close_current()
    }

    /// Moves the record of an item. All of it is inlined, because calls would cost as much as the
    /// work itself.
    #[inline(always)]
    pub(crate) fn step(&mut self, item: u64) -> Result<(), EngineError> {
        self.step_over(item, 1)
    }

    /// Moves a record of several items of one file.
    #[inline(always)]
    pub(crate) fn step_over(&mut self, item: u64, items: u64) -> Result<(), EngineError> {
        let IoOptions {
            record_size,
            access,
            flush_each,
            ..
        } = self.session.io_options;
        let (file, record) = self.session.locate(item);
        let (slot, offset) = (self.seek(file)?, self.session.offset(record));
        if self.locks.is_some() {
            self.lock_record(file, offset, true)?;
        }
        self.transfer(slot, file, offset, items * record_size)?;
        if self.locks.is_some() {
            self.lock_record(file, offset, false)?;
        }
        if flush_each {
            self.flush(slot, file, Flush::Data)?;
        }
        if self.current.is_some()
            && (record + items == self.session.records_per_file || access != Access::Sequential)
        {
            self.close_current()?;
        }
        Ok(())
    }

    /// Moves the records in this order without a clock.
    pub(crate) fn pass_over(&mut self, visits: Visits) -> Result<(), EngineError> {
        for item in visits {
            self.step(item)?;
        }
        self.close_current()
    }

    /// Returns the open file, or opens it.
    #[inline]
    fn seek(&mut self, file: u64) -> Result<FileSlot, EngineError> {
        if let Some(slot) = self.session.held(file) {
            return Ok(slot);
        }
        match self.current {
            Some((open, slot)) if open == file => Ok(slot),
            _ => {
                self.close_current()?;
                self.open(file)
                    .inspect(|&slot| self.current = Some((file, slot)))
            }
        }
    }

    /// Opens a file for the I/O loop's purpose.
    pub(crate) fn open(&mut self, file: u64) -> Result<FileSlot, EngineError> {
        self.session.open(file)
    }

    pub(crate) fn close(&mut self, slot: FileSlot, file: u64) -> Result<(), EngineError> {
        self.session
            .session
            .close(slot)
            .map_err(|errno| self.session.set.refused("close", file, errno))
    }

    /// Closes the current file, if files do not stay open.
    pub(crate) fn close_current(&mut self) -> Result<(), EngineError> {
        match self.current.take() {
            Some((file, slot)) => self.close(slot, file),
            None => Ok(()),
        }
    }

    /// Syncs a file.
    pub(crate) fn flush(
        &mut self,
        slot: FileSlot,
        file: u64,
        what: Flush,
    ) -> Result<(), EngineError> {
        self.session.flush(slot, file, what)
    }

    /// Syncs the file of an item, which stays open.
    pub(crate) fn flush_file_of(&mut self, item: u64, what: Flush) -> Result<(), EngineError> {
        let (file, _) = self.session.locate(item);
        let slot = self.seek(file)?;
        self.flush(slot, file, what)
    }

    /// Syncs each open file.
    pub(crate) fn flush_held(&mut self, what: Flush) -> Result<(), EngineError> {
        for (index, file) in self
            .session
            .io_options
            .files
            .all()
            .enumerate()
            .take(self.session.held.len())
        {
            self.flush(self.session.held[index], file, what)?;
        }
        Ok(())
    }

    /// Begins the pass of the next visit. See [`IoOptions::evict_passes`].
    #[inline]
    pub(crate) fn begin_pass(&mut self, visits: &Visits) -> Result<(), EngineError> {
        self.session.begin_pass(visits)
    }

    /// Drops the data of the open files from the page cache.
    pub(crate) fn evict(&mut self) -> Result<(), EngineError> {
        self.session.evict()
    }

    /// Writes out the pages of some items of a file: sync_file_range.
    pub(crate) fn flush_range(&mut self, items: Range<u64>, flags: u32) -> Result<(), EngineError> {
        self.session.flush_range(items, flags)
    }

    /// Returns the number of calls that would have waited.
    pub(crate) fn would_wait(&self) -> u64 {
        self.session.session.would_wait()
    }

    /// Returns the bytes of a record.
    pub(crate) fn record_size(&self) -> u64 {
        self.session.io_options.record_size
    }

    /// Syncs everything that was written: by fsync of the one file, or by syncfs of a set.
    pub(crate) fn flush_all(&mut self) -> Result<(), EngineError> {
        match self.session.held[..] {
            [slot] => self.flush(slot, self.session.io_options.files.first, Flush::All),
            _ => self.sync_set(),
        }
    }

    /// Syncs everything that the threads of all clients wrote. Called in the first thread.
    pub(crate) fn flush_clients(&mut self) -> Result<(), EngineError> {
        let set = self.session.set;
        set.sync_clients(|| self.flush_all())
    }

    /// Syncs the whole file system, as far as the client of this thread holds it: syncfs.
    pub(crate) fn sync_set(&mut self) -> Result<(), EngineError> {
        self.session.set.sync()
    }

    /// Moves one record and returns when it is done.
    #[inline(always)]
    pub(crate) fn transfer(
        &mut self,
        slot: FileSlot,
        file: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), EngineError> {
        let SetSession {
            set, io_options, ..
        } = &self.session;
        let memory = match &mut self.source {
            Buffers::Pool(data) => data
                .window(set.layout.address(file) + offset, length as usize)
                .as_mut_ptr(),
            Buffers::Buffer(memory) => memory.as_mut().as_mut_ptr(),
            Buffers::RequestQueue(queue) => queue.load_one(set.layout.address(file) + offset),
        };
        let request = IoRequest {
            slot,
            verb: io_options.verb,
            offset,
            memory,
            length: length as usize,
            tag: 0,
        };
        // SAFETY: the memory belongs to this I/O loop, has at least the length of a record, and has
        // no other use before `finish` returns; a session that is dropped waits for requests in
        // flight.
        match unsafe { self.session.session.queue(&request) } {
            Ok(Queued::Done(moved)) if moved == request.length => {}
            answer => self.finish(request, answer, file)?,
        }
        match &mut self.session.expected {
            None => Ok(()),
            // SAFETY: the request is finished, and its memory was valid for its length.
            Some(_) => self.session.check(
                unsafe { slice::from_raw_parts(memory, length as usize) },
                file,
                offset,
            ),
        }
    }

    /// Completes a transfer that was not done in one call.
    fn finish(
        &mut self,
        mut request: IoRequest,
        answer: Result<Queued, Errno>,
        file: u64,
    ) -> Result<(), EngineError> {
        let mut answer = answer;
        loop {
            let moved = match answer {
                Ok(Queued::Done(moved)) => Ok(moved),
                Ok(Queued::Pending) => self.wait_for_one(),
                Ok(Queued::Busy) => Err(Errno::AGAIN),
                Err(errno) => Err(errno),
            };
            if advance(self.session.set, &mut request, moved, file)? {
                return Ok(());
            }
            // SAFETY: as in `transfer`; the rest is within the same memory.
            answer = unsafe { self.session.session.queue(&request) };
        }
    }

    fn wait_for_one(&mut self) -> Result<usize, Errno> {
        self.session.session.commit()?;
        self.completed.clear();
        while self.completed.is_empty() {
            self.session.session.reap(1, &mut self.completed)?;
        }
        self.completed[0].result
    }
}

impl Buffers {
    /// Returns all memory that requests may point into.
    fn whole(&mut self) -> Vec<(*mut u8, usize)> {
        fn piece(memory: &mut [u8]) -> (*mut u8, usize) {
            (memory.as_mut_ptr(), memory.len())
        }
        match self {
            Buffers::Pool(data) => vec![piece(data.whole())],
            Buffers::Buffer(memory) => vec![piece(memory.as_mut())],
            Buffers::RequestQueue(queue) => queue.whole().map(piece).collect(),
        }
    }
}

/// The requests of one thread, with their memory.
///
/// The bytes to write are in the data pool already, and most requests point there. If this thread
/// touches fewer bytes, fewer cache lines move to another processor when a kernel thread does the
/// work. Two requests at the same place of the pool have different stamps, so the second one is
/// copied to its slot's own memory.
struct RequestQueue {
    /// The source of written bytes.
    data: Option<Data>,
    /// The places of the pool that requests point to now.
    occupied: Vec<bool>,
    record_size: usize,
    /// The memory of all slots, in one piece, because a backend registers it as one buffer.
    arena: Memory,
    slots: Vec<RequestSlot>,
    /// Slots without a request.
    free: Vec<u32>,
    /// Slots whose request is loaded but not queued.
    waiting: Vec<u32>,
    completed: Vec<Completion>,
    /// Requests that the backend has not completed.
    under_way: usize,
}

/// A record of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedRecord {
    /// The first item.
    pub(crate) item: u64,
    /// The number of items.
    pub(crate) items: u64,
    pub(crate) verb: Verb,
}

/// The next step of a queue that is fed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueStep {
    /// Submits a record.
    Submit(QueuedRecord),
    /// Waits for all requests, and then until the clock shows this time.
    WaitUntil(u64),
    /// Syncs the file of an item when all requests before it were submitted.
    Sync(u64, Flush),
    /// Writes out the pages of some items when all requests before it were submitted: the first,
    /// the end and the flags.
    SyncRange(u64, u64, u32),
    /// Drops the data of the files from the page cache.
    Evict,
    /// Ends when all requests have completed.
    End,
}

/// Decides the requests of a queue, with the waits and syncs between them.
pub(crate) trait QueueFeed {
    /// Returns the next step. `now` is the last reading of the clock.
    fn next(&mut self, now: u64) -> QueueStep;

    /// Accounts for a record that took these nanoseconds.
    fn complete(&mut self, verb: Verb, bytes: u64, ns: u64);
}

/// A slot for a request, with the data that its completion needs.
struct RequestSlot {
    /// The start of its memory.
    memory: *mut u8,
    /// The address whose bytes it holds, up to a multiple of the pool's period.
    holds: Option<u64>,
    /// The place of the pool that its request points to, if it does not use its own memory.
    place: Option<usize>,
    file: u64,
    started: u64,
    /// The offset and the bytes of the whole request.
    first: u64,
    bytes: u64,
    request: IoRequest,
}

impl RequestQueue {
    fn new(source: DataSource, io_options: &IoOptions) -> RequestQueue {
        let (depth, length) = (
            io_options.depth as usize,
            io_options.largest_record as usize,
        );
        let stride = length.next_multiple_of(PAGE);
        let mut arena = Memory::new(depth * stride);
        let data = (io_options.verb == Verb::Write).then(|| Data::new(source, length));
        let slots = arena
            .as_mut()
            .chunks_exact_mut(stride)
            .zip(0..io_options.depth)
            .map(|(memory, tag)| {
                // Filled before the clock starts. Records of whole periods never need the copy
                // again.
                let holds = data
                    .as_ref()
                    .map(|data| data.fill(&mut memory[..length], 0, None));
                let memory = memory.as_mut_ptr();
                let request = IoRequest {
                    slot: FileSlot(0),
                    verb: io_options.verb,
                    offset: 0,
                    memory,
                    length,
                    tag,
                };
                RequestSlot {
                    memory,
                    holds,
                    place: None,
                    file: 0,
                    started: 0,
                    first: 0,
                    bytes: 0,
                    request,
                }
            });
        RequestQueue {
            slots: slots.collect(),
            occupied: if data.is_some() {
                vec![false; Data::places(length)]
            } else {
                Vec::new()
            },
            data,
            record_size: length,
            arena,
            // The last entry is taken first.
            free: (0..io_options.depth).rev().collect(),
            waiting: Vec::with_capacity(depth),
            completed: Vec::with_capacity(depth),
            under_way: 0,
        }
    }

    /// Returns all memory that requests may point into.
    fn whole(&mut self) -> impl Iterator<Item = &mut [u8]> {
        iter::once(self.arena.as_mut()).chain(self.data.as_mut().map(Data::whole))
    }

    /// Returns the memory for a slot's request. For a write, it holds the record that begins at
    /// `address`.
    #[inline]
    fn load(&mut self, tag: u32, address: u64) -> *mut u8 {
        let request_slot = &mut self.slots[tag as usize];
        let Some(data) = &mut self.data else {
            return request_slot.memory;
        };
        if let Some(place) = Data::place(address, self.record_size)
            && !std::mem::replace(&mut self.occupied[place], true)
        {
            request_slot.place = Some(place);
            return data.window(address, self.record_size).as_mut_ptr();
        }
        // SAFETY: a slot's memory has the length of a record, and no request points there now: the
        // caller has found it free.
        let memory =
            unsafe { std::slice::from_raw_parts_mut(request_slot.memory, self.record_size) };
        request_slot.holds = Some(data.fill(memory, address, request_slot.holds));
        request_slot.memory
    }

    /// Releases the place of a finished request: nothing points to its bytes any more.
    #[inline]
    fn unload(&mut self, tag: u32) {
        if let Some(place) = self.slots[tag as usize].place.take() {
            self.occupied[place] = false;
        }
    }

    /// Like [`RequestQueue::load`], for a single request.
    fn load_one(&mut self, address: u64) -> *mut u8 {
        self.unload(0);
        self.load(0, address)
    }

    /// Keeps the backend filled to its depth. [`crate::workload`] ensures that all files are held.
    #[inline(never)]
    fn run(
        &mut self,
        session: &mut SetSession<'_>,
        visits: &mut Visits,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let IoOptions {
            kind,
            record_size,
            flush_each,
            ..
        } = session.io_options;
        let mut going = true;
        recorder.start();
        loop {
            self.completed.clear();
            going = going && self.load_free(session, visits, recorder.last())?;
            if self.waiting.is_empty() && self.under_way == 0 && self.completed.is_empty() {
                return Ok(());
            }
            self.launch(session)?;
            recorder.tick(kind, record_size * self.completed.len().max(1) as u64);
            for index in 0..self.completed.len() {
                let Completion { tag, result } = self.completed[index];
                let request_slot = &mut self.slots[tag as usize];
                if !advance(
                    session.set,
                    &mut request_slot.request,
                    result,
                    request_slot.file,
                )? {
                    self.waiting.push(tag);
                    continue;
                }
                if session.expected.is_some() {
                    // SAFETY: the slot has completed, and its memory has the length of a record.
                    let found = unsafe {
                        std::slice::from_raw_parts(request_slot.memory, self.record_size)
                    };
                    session.check(found, request_slot.file, request_slot.request.offset)?;
                }
                if flush_each {
                    session.flush(request_slot.request.slot, request_slot.file, Flush::Data)?;
                    recorder.tick(OperationKind::Write, 0);
                }
                let started = request_slot.started;
                self.unload(tag);
                self.free.push(tag);
                going &= recorder.complete(started, record_size);
            }
        }
    }

    /// Keeps the backend filled with the records of a feed, and does what belongs between them.
    fn run_fed(
        &mut self,
        session: &mut SetSession<'_>,
        feed: &mut dyn QueueFeed,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        let (mut going, mut held_back) = (true, None);
        loop {
            while going && held_back.is_none() && !self.free.is_empty() {
                match feed.next(recorder.last()) {
                    QueueStep::Submit(record) => self.load_record(session, record, recorder.last()),
                    QueueStep::End => going = false,
                    step => held_back = Some(step),
                }
            }
            let is_idle = self.waiting.is_empty() && self.under_way == 0;
            match held_back {
                Some(QueueStep::WaitUntil(ns)) if is_idle => {
                    going = recorder.wait_within_time(ns);
                    held_back = None;
                }
                Some(QueueStep::Sync(item, what)) if self.waiting.is_empty() => {
                    let (file, _) = session.locate(item);
                    let slot = session.slot_of(file);
                    recorder.sync(session.io_options.record_size, || {
                        session.flush(slot, file, what)
                    })?;
                    held_back = None;
                }
                Some(QueueStep::SyncRange(first, end, flags)) if self.waiting.is_empty() => {
                    recorder.sync(session.io_options.record_size, || {
                        session.flush_range(first..end, flags)
                    })?;
                    held_back = None;
                }
                Some(QueueStep::Evict) if is_idle => {
                    session.evict()?;
                    held_back = None;
                }
                None if is_idle => return Ok(()),
                _ => going &= self.collect(session, feed, recorder)?,
            }
        }
    }

    /// Submits the waiting requests and accounts for finished ones. Returns whether to continue.
    fn collect(
        &mut self,
        session: &mut SetSession<'_>,
        feed: &mut dyn QueueFeed,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<bool, EngineError> {
        let IoOptions {
            kind, record_size, ..
        } = session.io_options;
        self.completed.clear();
        self.launch(session)?;
        recorder.tick(kind, record_size * self.completed.len().max(1) as u64);
        let mut going = true;
        for index in 0..self.completed.len() {
            let Completion { tag, result } = self.completed[index];
            let request_slot = &mut self.slots[tag as usize];
            if !advance(
                session.set,
                &mut request_slot.request,
                result,
                request_slot.file,
            )? {
                self.waiting.push(tag);
                continue;
            }
            let RequestSlot {
                started,
                bytes,
                file,
                request: IoRequest { slot, verb, .. },
                ..
            } = *request_slot;
            if session.expected.is_some() {
                // SAFETY: the slot has completed, and its memory has the length of the largest
                // record.
                let found =
                    unsafe { std::slice::from_raw_parts(request_slot.memory, bytes as usize) };
                session.check(found, file, request_slot.first)?;
            }
            if session.io_options.flush_each && verb == Verb::Write {
                session.flush(slot, file, Flush::Data)?;
                recorder.tick(OperationKind::Write, 0);
            }
            self.unload(tag);
            self.free.push(tag);
            if !recorder.is_ramping() {
                feed.complete(verb, bytes, recorder.last().saturating_sub(started));
            }
            going &= recorder.complete(started, bytes);
        }
        Ok(going)
    }

    /// Loads a record into a free slot. Records of several sizes, and those of a mix, use the
    /// memory of their slots.
    fn load_record(&mut self, session: &SetSession<'_>, record: QueuedRecord, started: u64) {
        let Some(tag) = self.free.pop() else { return };
        let (file, place) = session.locate(record.item);
        let (offset, bytes) = (
            session.offset(place),
            record.items * session.io_options.record_size,
        );
        let request_slot = &mut self.slots[tag as usize];
        if let (Some(data), Verb::Write) = (&self.data, record.verb) {
            // SAFETY: a slot's memory has the length of the largest record, and the slot is free:
            // no request points there.
            let memory =
                unsafe { std::slice::from_raw_parts_mut(request_slot.memory, bytes as usize) };
            data.fill(memory, session.set.layout.address(file) + offset, None);
        }
        let (slot, memory, length) = (session.slot_of(file), request_slot.memory, bytes as usize);
        request_slot.request = IoRequest {
            slot,
            verb: record.verb,
            offset,
            memory,
            length,
            tag,
        };
        (request_slot.file, request_slot.started) = (file, started);
        (request_slot.first, request_slot.bytes) = (offset, bytes);
        self.waiting.push(tag);
    }

    /// Loads all free slots. Returns whether more items are left.
    fn load_free(
        &mut self,
        session: &mut SetSession<'_>,
        visits: &mut Visits,
        started: u64,
    ) -> Result<bool, EngineError> {
        while let Some(&tag) = self.free.last() {
            session.begin_pass(visits)?;
            let Some(item) = visits.next() else {
                return Ok(false);
            };
            self.free.pop();
            let (file, record) = session.locate(item);
            let offset = session.offset(record);
            let memory = match self.data {
                Some(_) => self.load(tag, session.set.layout.address(file) + offset),
                None => self.slots[tag as usize].memory,
            };
            let request_slot = &mut self.slots[tag as usize];
            let slot = session.slot_of(file);
            request_slot.request = IoRequest {
                slot,
                offset,
                memory,
                length: self.record_size,
                ..request_slot.request
            };
            (request_slot.file, request_slot.started) = (file, started);
            // Requests that wait go first.
            if !self.waiting.is_empty() || !self.queue(session, tag)? {
                self.waiting.push(tag);
            }
        }
        Ok(true)
    }

    /// Queues the request of a slot. Returns false if the backend has no room for it.
    #[inline]
    fn queue(&mut self, session: &mut SetSession<'_>, tag: u32) -> Result<bool, EngineError> {
        let RequestSlot { request, file, .. } = &self.slots[tag as usize];
        // SAFETY: each slot has its own memory, which no code touches until its completion is
        // reaped; the session is dropped before the memory and waits for requests in flight.
        match unsafe { session.session.queue(request) } {
            Ok(Queued::Busy) => return Ok(false),
            Ok(Queued::Pending) => self.under_way += 1,
            Ok(Queued::Done(moved)) => self.completed.push(Completion {
                tag,
                result: Ok(moved),
            }),
            Err(errno) => return Err(session.set.refused(call_of(request.verb), *file, errno)),
        }
        Ok(true)
    }

    /// Queues the waiting requests, as far as the backend accepts them, and collects finished ones:
    /// a batch, or all there are.
    fn launch(&mut self, session: &mut SetSession<'_>) -> Result<(), EngineError> {
        let mut queued = 0;
        // In the order of the visits, because the kernel merges neighbours and reads ahead for a
        // sequential reader.
        while let Some(&tag) = self.waiting.get(queued)
            && self.queue(session, tag)?
        {
            queued += 1;
        }
        self.waiting.drain(..queued);
        let least = if self.completed.is_empty() {
            self.under_way.min(session.io_options.batch as usize)
        } else {
            0
        };
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

/// One I/O loop's locks.
struct Locks {
    lock: Lock,
    verb: Verb,
    /// The file of the first slot.
    first: u64,
    /// The session with the descriptors for the locks.
    session: Box<dyn Session>,
    slots: Vec<FileSlot>,
}

impl Locks {
    /// Opens the descriptors for the locks.
    fn open(lock: Lock, set: &OpenFileSet, io_options: &IoOptions) -> Result<Locks, EngineError> {
        let IoOptions { verb, files, .. } = *io_options;
        let flags = match verb {
            Verb::Read => OpenFlags::READ,
            Verb::Write => OpenFlags::READ_WRITE,
        };
        let mut session =
            backend::plain(set.backend).session(&SessionSetup::plain(files.count as usize))?;
        let slots = files
            .all()
            .map(|file| {
                let opened =
                    session.open(&set.root, set.names.path(file), flags, set.layout.file_size);
                opened.map_err(|errno| set.refused("open", file, errno))
            })
            .collect::<Result<_, _>>()?;
        Ok(Locks {
            lock,
            verb,
            first: files.first,
            session,
            slots,
        })
    }

    /// Returns whether each record is locked separately.
    #[inline]
    fn by_record(&self) -> bool {
        self.lock == Lock::Record
    }

    /// Locks or unlocks all files, if they are locked as a whole.
    fn all(&mut self, set: &OpenFileSet, take: bool) -> Result<(), EngineError> {
        if self.by_record() {
            return Ok(());
        }
        let files = self.first..self.first + self.slots.len() as u64;
        files
            .into_iter()
            .try_for_each(|file| self.range(set, file, (0, 0), take))
    }

    /// Takes or releases the lock on a range of a file. Waits until the lock is available. A length
    /// of 0 means the whole file.
    fn range(
        &mut self,
        set: &OpenFileSet,
        file: u64,
        (offset, length): (u64, u64),
        take: bool,
    ) -> Result<(), EngineError> {
        let Some(&slot) = self.slots.get(file.wrapping_sub(self.first) as usize) else {
            return Ok(());
        };
        let lock = match self.verb {
            _ if !take => RangeLock::Release,
            Verb::Read => RangeLock::Shared,
            Verb::Write => RangeLock::Exclusive,
        };
        let locked = self.session.lock(slot, lock, offset, length);
        locked.map_err(|errno| set.refused(if take { "lock" } else { "unlock" }, file, errno))
    }
}

/// The set, its names and its directory, shared by all threads of a job.
pub(crate) struct OpenFileSet {
    pub(crate) backend: &'static dyn Backend,
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) names: Names,
    pub(crate) root: Directory,
    /// The directory as each further client of a network file system sees it.
    clients: Vec<Directory>,
    pub(crate) data: DataSource,
}

impl OpenFileSet {
    /// Opens the set's directory and prepares all names.
    pub(crate) fn open(
        backend: &'static dyn Backend,
        context: &Context,
        layout: Layout,
    ) -> Result<OpenFileSet, EngineError> {
        let open = |path: &PathBuf| {
            backend
                .namespace()
                .open_root(path)
                .map_err(|errno| EngineError::call("open", path, errno))
        };
        let path = context.set();
        let clients = context
            .client_sets()
            .map(|path| open(&path))
            .collect::<Result<_, _>>()?;
        let (root, names) = (open(&path)?, Names::new(&layout));
        Ok(OpenFileSet {
            backend,
            names,
            path,
            layout,
            root,
            clients,
            data: context.data(),
        })
    }

    /// Returns the number of clients that access the set.
    pub(crate) fn client_count(&self) -> u32 {
        self.clients.len() as u32 + 1
    }

    /// Makes [`OpenFileSet::root`] lead through the client of this thread or process, which needs a
    /// descriptor table of its own.
    pub(crate) fn use_client(&self, rank: u32, own_table: bool) -> Result<(), EngineError> {
        let further = (rank % self.client_count())
            .checked_sub(1)
            .map(|client| &self.clients[client as usize]);
        let (Some(Directory(Some(own))), Directory(Some(root))) = (further, &self.root) else {
            return Ok(());
        };
        if !own_table {
            return Err(EngineError::new(
                "a thread that uses a client of its own needs a descriptor table of its own",
            ));
        }
        // SAFETY: both numbers stay open, and `root` leads to the same directory as before.
        match unsafe { libc::dup3(own.as_raw_fd(), root.as_raw_fd(), libc::O_CLOEXEC) } {
            -1 => Err(EngineError::io(
                "change the client of",
                &self.path,
                &io::Error::last_os_error(),
            )),
            _ => Ok(()),
        }
    }

    /// Writes out what the client of this thread holds: syncfs.
    pub(crate) fn sync(&self) -> Result<(), EngineError> {
        self.sync_through(&self.root)
    }

    fn sync_through(&self, directory: &Directory) -> Result<(), EngineError> {
        let synced = self.backend.namespace().sync_file_system(directory);
        synced.map_err(|errno| EngineError::call("syncfs of", &self.path, errno))
    }

    /// Calls `sync_own` in the first thread, whose client is the first, and at the same time writes
    /// out what the further clients hold.
    pub(crate) fn sync_clients(
        &self,
        sync_own: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        thread::scope(|scope| {
            let others = self
                .clients
                .iter()
                .map(|client| {
                    let thread = thread::Builder::new()
                        .spawn_scoped(scope, move || self.sync_through(client));
                    thread.map_err(|error| {
                        EngineError::spawn("start a thread that syncs a client", &error)
                    })
                })
                .collect::<Result<Vec<_>, _>>()?;
            sync_own()?;
            others.into_iter().try_for_each(|other| {
                other
                    .join()
                    .unwrap_or_else(|payload| panic::resume_unwind(payload))
            })
        })
    }

    /// Returns the error of a refused call on a file.
    #[cold]
    pub(crate) fn refused(&self, call: &str, file: u64, errno: Errno) -> EngineError {
        EngineError::call(call, self.names.show(&self.path, file), errno)
    }
}

/// Options of an I/O loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoOptions {
    pub(crate) purpose: Purpose,
    pub(crate) verb: Verb,
    /// The kind of operation for the fake clock.
    pub(crate) kind: OperationKind,
    /// Bytes of an item.
    pub(crate) record_size: u64,
    /// Bytes of the largest record.
    pub(crate) largest_record: u64,
    /// The part of each file that records are in.
    pub(crate) range: ByteRange,
    pub(crate) access: Access,
    /// The files that this I/O loop may access: all of the set, or those of one process.
    pub(crate) files: Files,
    /// Open all files before the clock, if they are few.
    pub(crate) hold: bool,
    /// Call fdatasync after each record.
    pub(crate) flush_each: bool,
    /// The number of requests in flight.
    pub(crate) depth: u32,
    /// The number of requests that are reaped together, if that many are in flight.
    pub(crate) batch: u32,
    /// Compare each record with the bytes that were written there.
    pub(crate) verify: bool,
    /// Lock each file or record during the access.
    pub(crate) lock: Option<Lock>,
    /// Flags of open(2) besides those of the purpose and of the backend.
    pub(crate) open_flags: OFlags,
    /// Drop the data of the open files from the page cache before each pass but the first.
    pub(crate) evict_passes: bool,
    /// The advice about the access that the kernel gets for each file.
    pub(crate) advice: Option<Advice>,
    /// Records that the kernel is asked for before each is read. Files must stay open.
    pub(crate) prefetch: u32,
}

/// A session on a set of files.
struct SetSession<'s> {
    session: Box<dyn Session>,
    set: &'s OpenFileSet,
    io_options: IoOptions,
    records_per_file: u64,
    /// Slots of files that stay open, starting with the first of this I/O loop's files.
    held: Vec<FileSlot>,
    /// The expected content of records, if it is checked.
    expected: Option<Data>,
    /// The pass of the last record.
    pass: u64,
}

impl SetSession<'_> {
    /// Returns the slot of a file that stays open.
    #[inline]
    fn held(&self, file: u64) -> Option<FileSlot> {
        self.held
            .get(file.wrapping_sub(self.io_options.files.first) as usize)
            .copied()
    }

    /// Returns the slot of a file that stays open, as all files do at a depth above 1.
    #[inline]
    fn slot_of(&self, file: u64) -> FileSlot {
        self.held[(file - self.io_options.files.first) as usize]
    }

    /// Returns the file of an item and the record in that file. Divisions cost as much as the rest
    /// of the loop.
    #[inline]
    fn locate(&self, item: u64) -> (u64, u64) {
        if self.set.layout.files == 1 {
            (0, item)
        } else if self.records_per_file == 1 {
            (item, 0)
        } else {
            (item / self.records_per_file, item % self.records_per_file)
        }
    }

    /// Drops the data of the open files from the page cache if a pass begins, except the first one.
    #[inline]
    fn begin_pass(&mut self, visits: &Visits) -> Result<(), EngineError> {
        if !self.io_options.evict_passes || !visits.more() || visits.pass() == self.pass {
            return Ok(());
        }
        self.pass = visits.pass();
        self.evict()
    }

    /// Drops the data of the open files from the page cache.
    fn evict(&mut self) -> Result<(), EngineError> {
        for (slot, file) in self.held.iter().zip(self.io_options.files.all()) {
            let evicted = self.session.advise(*slot, 0, 0, Advice::DontNeed);
            evicted.map_err(|errno| self.set.refused("drop from the cache", file, errno))?;
        }
        Ok(())
    }

    /// Returns the offset of a record in its file.
    #[inline]
    fn offset(&self, record: u64) -> u64 {
        self.io_options.range.first + record * self.io_options.record_size
    }

    fn open(&mut self, file: u64) -> Result<FileSlot, EngineError> {
        let OpenFileSet {
            layout,
            names,
            root,
            ..
        } = self.set;
        let purpose = self.io_options.purpose;
        let verb = if purpose == Purpose::Create {
            "create"
        } else {
            "open"
        };
        let flags = OpenFlags::from(purpose).with(self.io_options.open_flags);
        let opened = self
            .session
            .open(root, names.path(file), flags, layout.file_size);
        let slot = opened.map_err(|errno| self.set.refused(verb, file, errno))?;
        if let Some(advice) = self.io_options.advice {
            let ByteRange { first, length } = self.io_options.range;
            self.advise(slot, file, first, length, advice)?;
        }
        Ok(slot)
    }

    /// Advises the kernel about a range of an open file.
    fn advise(
        &mut self,
        slot: FileSlot,
        file: u64,
        offset: u64,
        length: u64,
        advice: Advice,
    ) -> Result<(), EngineError> {
        self.session
            .advise(slot, offset, length, advice)
            .map_err(|errno| self.set.refused("advise the kernel about", file, errno))
    }

    /// Asks the kernel to read the record of an item, whose file stays open.
    fn prefetch(&mut self, item: u64) -> Result<(), EngineError> {
        let (file, record) = self.locate(item);
        let (slot, offset) = (self.slot_of(file), self.offset(record));
        let length = self.io_options.record_size;
        self.advise(slot, file, offset, length, Advice::WillNeed)
    }

    /// Writes out the pages of some items of a file that stays open.
    fn flush_range(&mut self, items: Range<u64>, flags: u32) -> Result<(), EngineError> {
        let (file, record) = self.locate(items.start);
        let offset = self.offset(record);
        let length = (items.end - items.start) * self.io_options.record_size;
        self.flush(
            self.slot_of(file),
            file,
            Flush::Range(FlushRange {
                offset,
                length,
                flags,
            }),
        )
    }

    fn flush(&mut self, slot: FileSlot, file: u64, what: Flush) -> Result<(), EngineError> {
        let call = match what {
            Flush::Data => "fdatasync of",
            Flush::All => "fsync of",
            Flush::Range(_) => "sync_file_range of",
        };
        self.session
            .flush(slot, what)
            .map_err(|errno| self.set.refused(call, file, errno))
    }
}

/// Accounts for the bytes that a request moved. Returns whether the request is complete. A short
/// write continues, and so does a request that a signal stopped before it began. A short read is an
/// error, because the bytes existed when the clock started.
#[inline]
fn advance(
    set: &OpenFileSet,
    request: &mut IoRequest,
    moved: Result<usize, Errno>,
    file: u64,
) -> Result<bool, EngineError> {
    // Nearly all requests move all their bytes at once.
    if moved == Ok(request.length) {
        return Ok(true);
    }
    advance_partly(set, request, moved, file)
}

/// As [`advance`], for a request that did not move all its bytes.
fn advance_partly(
    set: &OpenFileSet,
    request: &mut IoRequest,
    moved: Result<usize, Errno>,
    file: u64,
) -> Result<bool, EngineError> {
    let call = call_of(request.verb);
    if moved == Err(Errno::INTR) {
        return Ok(false);
    }
    let moved = moved.map_err(|errno| set.refused(call, file, errno))?;
    if request.verb == Verb::Read || moved == 0 || moved > request.length {
        let path = set.names.show(&set.path, file);
        let IoRequest { length, offset, .. } = request;
        let message = format!(
            "{call} {}: {moved} bytes came instead of {length} at offset {offset}",
            path.display()
        );
        return Err(EngineError {
            path: Some(path),
            ..EngineError::new(message)
        });
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

/// A part of a file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) length: u64,
}

/// Some files of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Files {
    /// Returns their numbers.
    fn all(self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Each record while it is moved.
    Record,
    /// The file during a pass.
    File,
}

impl Lock {
    /// In the order of the help text.
    pub(crate) const ALL: &'static [Lock] = &[Lock::Record, Lock::File];

    /// Returns the word in plans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lock::Record => "record",
            Lock::File => "file",
        }
    }
}

// Files that stay open: opened before the clock starts, and closed, reopened or created again
// between two samples.

impl IoLoop<'_> {
    /// Closes the files that stay open.
    pub(crate) fn close_held(&mut self) -> Result<(), EngineError> {
        // Closing any descriptor of a file releases the process's locks on it, so the locks are
        // released first.
        self.locks = None;
        self.session.let_go()
    }

    /// Opens them again.
    pub(crate) fn open_held(&mut self) -> Result<(), EngineError> {
        self.session.hold()?;
        let SetSession {
            set, io_options, ..
        } = &self.session;
        self.locks = io_options
            .lock
            .map(|lock| Locks::open(lock, set, io_options))
            .transpose()?;
        Ok(())
    }

    /// Allocates or frees the record of an item, or the first record of its file: fallocate.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        item: u64,
        how: FallocateFlags,
        at_start: bool,
    ) -> Result<(), EngineError> {
        let IoOptions {
            record_size,
            flush_each,
            ..
        } = self.session.io_options;
        let (file, record) = self.session.locate(item);
        let slot = self.seek(file)?;
        let offset = self.session.offset(if at_start { 0 } else { record });
        let done = self
            .session
            .session
            .allocate(slot, how, offset, record_size);
        done.map_err(|errno| self.session.set.refused("fallocate", file, errno))?;
        if flush_each {
            self.flush(slot, file, Flush::Data)
        } else {
            Ok(())
        }
    }

    /// Cuts the record of an item off the end of its file, or adds it there: ftruncate.
    #[inline]
    pub(crate) fn truncate(&mut self, item: u64, grow: bool) -> Result<(), EngineError> {
        let IoOptions {
            record_size,
            flush_each,
            ..
        } = self.session.io_options;
        let (file, record) = self.session.locate(item);
        let slot = self.seek(file)?;
        let records = if grow {
            record + 1
        } else {
            self.session.records_per_file - record - 1
        };
        let done = self.session.session.truncate(slot, records * record_size);
        done.map_err(|errno| self.session.set.refused("truncate", file, errno))?;
        if flush_each {
            self.flush(slot, file, Flush::Data)
        } else {
            Ok(())
        }
    }

    /// Removes the files, which must be closed, so that they can be created again.
    pub(crate) fn unlink_held(&mut self) -> Result<(), EngineError> {
        let SetSession {
            set, io_options, ..
        } = &self.session;
        for file in io_options.files.all() {
            let removed = set
                .backend
                .namespace()
                .unlink(&set.root, set.names.path(file));
            removed.map_err(|errno| set.refused("delete", file, errno))?;
        }
        Ok(())
    }

    /// Locks or unlocks a record, if each record is locked separately.
    #[inline(never)]
    fn lock_record(&mut self, file: u64, offset: u64, take: bool) -> Result<(), EngineError> {
        let SetSession {
            set, io_options, ..
        } = &self.session;
        match self.locks.as_mut().filter(|locks| locks.by_record()) {
            Some(locks) => locks.range(set, file, (offset, io_options.record_size), take),
            None => Ok(()),
        }
    }

    /// Locks the files that are locked as a whole, until [`IoLoop::unlock_files`].
    pub(crate) fn lock_files(&mut self) -> Result<(), EngineError> {
        self.locks
            .as_mut()
            .map_or(Ok(()), |locks| locks.all(self.session.set, true))
    }

    /// Releases the locks.
    pub(crate) fn unlock_files(&mut self) -> Result<(), EngineError> {
        self.locks
            .as_mut()
            .map_or(Ok(()), |locks| locks.all(self.session.set, false))
    }
}

impl SetSession<'_> {
    /// Opens all files of this I/O loop.
    fn hold(&mut self) -> Result<(), EngineError> {
        for file in self.io_options.files.all() {
            let slot = self.open(file)?;
            self.held.push(slot);
        }
        Ok(())
    }

    fn let_go(&mut self) -> Result<(), EngineError> {
        // The last is closed first.
        for file in self.io_options.files.all().rev() {
            let Some(slot) = self.held.pop() else { break };
            self.session
                .close(slot)
                .map_err(|errno| self.set.refused("close", file, errno))?;
        }
        Ok(())
    }

    /// Compares a record with the bytes that were written there.
    #[inline(never)]
    fn check(&mut self, found: &[u8], file: u64, offset: u64) -> Result<(), EngineError> {
        let address = self.set.layout.address(file) + offset;
        let Some(expected) = self
            .expected
            .as_mut()
            .map(|data| data.window(address, found.len()))
        else {
            return Ok(());
        };
        match Data::difference(expected, found) {
            None => Ok(()),
            Some(place) => {
                let path = self.set.names.show(&self.set.path, file);
                Err(EngineError::corrupted(
                    &path,
                    offset + place as u64,
                    expected[place],
                    found[place],
                ))
            }
        }
    }
}
