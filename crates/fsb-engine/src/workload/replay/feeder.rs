//! Feeds the calls of a trace to the threads that replay them.
//!
//! Before the clock starts, the feeder loads as many blocks as a usual trace has. It loads the rest of a longer trace
//! during the replay, one block each time the oldest one is done, so that memory does not grow with the trace. Calls
//! wait only for earlier ones, so the lane that is furthest behind can always continue.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsb_trace::{Call, CallKind, Order, Reader, Skimmed, TracePart};

use super::calls::{Batch, ReplayStep};
use super::options::Options;
use crate::EngineError;

/// Blocks that are loaded and not done at any time: a million calls.
const WINDOW: usize = 16;
/// The longest wait before a thread checks whether the replay is over.
const NAP: Duration = Duration::from_millis(50);

/// The state of reading the trace.
struct Source<R: Read> {
    reader: Reader<R>,
    order: Order,
    slots: Slots,
    origin_ns: Option<u64>,
    /// Blocks read so far.
    blocks: usize,
    ended: bool,
    unopened: u64,
}

/// The batches that wait for the threads.
#[derive(Default)]
struct Queues {
    lanes: Vec<VecDeque<Batch>>,
    /// Number of unfinished batches of each block.
    left: VecDeque<(usize, usize)>,
    ended: bool,
    stopped: bool,
}

/// Feeds calls to threads.
pub(super) struct Feeder {
    source: Mutex<Source<Box<dyn super::options::Bytes>>>,
    queues: Mutex<Queues>,
    changed: Condvar,
    lanes: usize,
}

impl Feeder {
    pub(super) fn new(options: &Options, skimmed: &Skimmed) -> Result<Feeder, EngineError> {
        let lanes = options.totals.lanes.max(1);
        let mut order = Order::new(lanes, options.overhead.gap_ns);
        order.initial(&skimmed.initial);
        let source = Source {
            reader: options.source.reader()?,
            order,
            slots: Slots::default(),
            origin_ns: None,
            blocks: 0,
            ended: false,
            unopened: 0,
        };
        let queues = Queues { lanes: (0..lanes).map(|_| VecDeque::new()).collect(), ..Queues::default() };
        Ok(Feeder {
            source: Mutex::new(source),
            queues: Mutex::new(queues),
            changed: Condvar::new(),
            lanes: lanes as usize,
        })
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads as many blocks as the window allows.
    pub(super) fn fill(&self) -> Result<(), EngineError> {
        while self.queues().left.len() < WINDOW && self.bring()? {}
        Ok(())
    }

    /// Loads the rest, block by block, until the trace ends or the replay stops.
    pub(super) fn feed(&self) -> Result<(), EngineError> {
        loop {
            let mut queues = self.queues();
            while !queues.stopped && !queues.ended && queues.left.len() >= WINDOW {
                queues = self.changed.wait_timeout(queues, NAP).unwrap_or_else(PoisonError::into_inner).0;
            }
            if queues.stopped || queues.ended {
                return Ok(());
            }
            drop(queues);
            if let Err(error) = self.bring() {
                self.stop();
                return Err(error);
            }
        }
    }

    /// Stops the feeder: no thread needs further calls.
    pub(super) fn stop(&self) {
        self.queues().stopped = true;
        self.changed.notify_all();
    }

    /// Returns the number of calls on descriptors that the trace never opens.
    pub(super) fn unopened(&self) -> u64 {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).unopened
    }

    /// Returns the next calls of a lane, which has done the calls of `done`. Returns `None` at the end.
    pub(super) fn next(&self, lane: u32, done: Option<&Batch>, given_up: impl Fn() -> bool) -> Option<Batch> {
        let mut queues = self.queues();
        if let Some(done) = done {
            if let Some(block) = queues.left.iter_mut().find(|(block, _)| *block == done.block) {
                block.1 -= 1;
            }
            while queues.left.front().is_some_and(|(_, left)| *left == 0) {
                queues.left.pop_front();
                self.changed.notify_all();
            }
        }
        loop {
            if let Some(batch) = queues.lanes.get_mut(lane as usize).and_then(VecDeque::pop_front) {
                return Some(batch);
            }
            if queues.ended || queues.stopped || given_up() {
                return None;
            }
            queues = self.changed.wait_timeout(queues, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Loads one block. Returns whether there may be more.
    fn bring(&self) -> Result<bool, EngineError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let batches = source.next_block(self.lanes)?;
        let (block, ended) = (source.blocks, source.ended);
        drop(source);
        let mut queues = self.queues();
        if let Some(batches) = batches {
            let with_calls = batches.iter().filter(|batch| !batch.steps.is_empty()).count();
            queues.left.push_back((block, with_calls));
            for (queue, batch) in queues.lanes.iter_mut().zip(batches) {
                if !batch.steps.is_empty() {
                    queue.push_back(Batch { block, ..batch });
                }
            }
        }
        queues.ended = ended;
        self.changed.notify_all();
        Ok(!ended)
    }
}

impl<R: Read> Source<R> {
    /// Reads the next block, lane by lane. Returns `None` at the end of the trace.
    fn next_block(&mut self, lanes: usize) -> Result<Option<Vec<Batch>>, EngineError> {
        loop {
            let part = self.reader.next_part();
            match part.map_err(|error| EngineError::new(format!("read the trace: {error}")))? {
                Some(TracePart::Calls(calls)) => {
                    self.blocks += 1;
                    let mut batches: Vec<Batch> = (0..lanes).map(|_| Batch::default()).collect();
                    calls.iter().for_each(|call| self.add(call, &mut batches));
                    return Ok(Some(batches));
                }
                Some(TracePart::Initial(_)) => {}
                Some(TracePart::End(_)) | None => {
                    self.ended = true;
                    return Ok(None);
                }
            }
        }
    }

    fn add(&mut self, call: &Call, batches: &mut [Batch]) {
        let origin = *self.origin_ns.get_or_insert(call.start_ns);
        let turn = self.order.turn(call, self.reader.names());
        let (slot, other, opened) = self.slots.of(call);
        // Only a hand-made trace has more lanes than its end states.
        let Some(batch) = batches.get_mut(call.lane as usize) else { return };
        let first_of_all = turn.number == 1 && turn.waits.is_empty();
        let think_ns = if first_of_all { call.start_ns.saturating_sub(origin) } else { turn.think_ns };
        let before = batch.waits.len() as u32;
        batch.waits.extend(turn.waits);
        let unopened = call.kind.is_replayed() && !opened;
        self.unopened += u64::from(unopened);
        // The think time before a wait for a child is at most the time since the recording began.
        let think_ns = if call.kind == CallKind::Wait { think_ns.min(call.start_ns) } else { think_ns };
        batch.steps.push(ReplayStep {
            call: *call,
            slot,
            other,
            think_ns,
            after_ns: turn.after_ns,
            unopened,
            waits: before..batch.waits.len() as u32,
        });
    }
}

/// The place of each open descriptor of the trace.
///
/// Only the lane that released a place uses it again, because its own order is certain. Memory grows with the
/// descriptors that are open at once, not with the trace.
#[derive(Debug, Default)]
struct Slots {
    places: HashMap<u32, u32>,
    free: HashMap<u32, Vec<u32>>,
    next: u32,
}

impl Slots {
    /// Returns a new place for the descriptor that a call opens. Keeps the place only if the recorded call succeeded.
    fn take(&mut self, call: &Call) -> u32 {
        let again = self.free.get_mut(&call.lane).and_then(Vec::pop);
        let place = again.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        if call.result < 0 {
            // If the replayed call opens a descriptor after all, it is closed at once.
            self.free.entry(call.lane).or_default().push(place);
        } else if let Some(lost) = self.places.insert(call.handle, place) {
            // No recorder uses a number twice, but a hand-made trace may.
            self.free.entry(call.lane).or_default().push(lost);
        }
        place
    }

    /// Returns the places of a call's descriptors, and whether all of them were opened.
    fn of(&mut self, call: &Call) -> (u32, u32, bool) {
        let find = |places: &HashMap<u32, u32>, handle: u32| places.get(&handle).copied();
        match call.kind {
            CallKind::Open => (self.take(call), 0, true),
            CallKind::Duplicate => {
                let old = find(&self.places, call.other);
                (self.take(call), old.unwrap_or_default(), old.is_some())
            }
            CallKind::Close => match self.places.remove(&call.handle) {
                Some(place) => {
                    self.free.entry(call.lane).or_default().push(place);
                    (place, 0, true)
                }
                None => (0, 0, false),
            },
            CallKind::Copy => {
                let both = (find(&self.places, call.handle), find(&self.places, call.other));
                (both.0.unwrap_or_default(), both.1.unwrap_or_default(), both.0.is_some() && both.1.is_some())
            }
            CallKind::SyncFileSystem if call.handle == 0 => (u32::MAX, 0, true),
            _ if call.handle == 0 => (0, 0, call.kind.is_about_names()),
            _ => {
                let place = find(&self.places, call.handle);
                (place.unwrap_or_default(), 0, place.is_some())
            }
        }
    }
}
