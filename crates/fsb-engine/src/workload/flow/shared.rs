//! The state that all threads of a flow share while the clock runs, the files that a thread has open, and the result of
//! an operation on them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fsb_model::flow::{Flow, Quit};
use rustix::io::Errno;

use super::entries::{self, Set};
use super::program::{self, CompiledStep, Program};
use super::sync::{CachePadded, OperationBudget, RateLimiter, Semaphore, StopFlag, WakeEvent};
use crate::EngineError;
use crate::backend::{Backend, Directory, Slot};
use crate::clock::OperationKind;
use crate::data::DataSource;

/// The state that threads share; none of it needs a lock.
pub(super) struct FlowShared {
    pub(super) programs: Vec<Program>,
    pub(super) sets: Vec<Set>,
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) wake_events: Vec<WakeEvent>,
    pub(super) budget: OperationBudget,
    pub(super) end: StopFlag,
    pub(super) rate_limiter: Option<RateLimiter>,
    pub(super) quit: Quit,
    pub(super) threads: u32,
    pub(super) source: DataSource,
    pub(super) repetition: u32,
    pub(super) verify: bool,
    /// The backend that makes the calls.
    pub(super) backend: &'static dyn Backend,
    /// The directory that contains all sets.
    pub(super) root: Directory,
    pub(super) path: PathBuf,
    /// The work of each thread so far, for steps that end the flow by the work of all threads; empty if there are none.
    seats: Vec<CachePadded<[AtomicU64; 2]>>,
}

impl FlowShared {
    pub(super) fn new(
        flow: &Flow,
        source: DataSource,
        path: PathBuf,
        operations: u64,
        backend: &'static dyn Backend,
    ) -> Result<FlowShared, EngineError> {
        let root = backend.namespace().open_root(&path).map_err(|errno| EngineError::call("open", &path, errno))?;
        let (programs, points) = program::compile(flow);
        let threads = flow.instances() as u32;
        let finishes = |step: &fsb_model::flow::Step| {
            use fsb_model::flow::Op::{FinishOnBytes, FinishOnCount};
            matches!(step.op, FinishOnCount | FinishOnBytes) && step.target.is_none()
        };
        let summed = flow.threads.iter().flat_map(|thread| &thread.steps).any(finishes);
        Ok(FlowShared {
            programs,
            sets: entries::of(flow, source.seed),
            semaphores: points.semaphores.into_iter().map(Semaphore::new).collect(),
            wake_events: (0..points.wakes).map(|_| WakeEvent::default()).collect(),
            budget: OperationBudget::new(operations),
            end: StopFlag::default(),
            rate_limiter: flow.rate.map(RateLimiter::new),
            quit: flow.quit,
            threads,
            source,
            repetition: 0,
            verify: false,
            backend,
            root,
            path,
            seats: (0..if summed { threads } else { 0 }).map(|_| CachePadded::default()).collect(),
        })
    }

    /// Returns the set that a step names, or else the first one.
    #[inline]
    pub(super) fn set_of(&self, step: &CompiledStep) -> &Set {
        &self.sets[step.set.unwrap_or(0)]
    }

    /// Returns the index of the program that a thread performs, and the number of its instance.
    pub(super) fn role(&self, rank: u32) -> (usize, u32) {
        let mut first = 0;
        for (number, program) in self.programs.iter().enumerate() {
            if rank < first + program.instances {
                return (number, rank - first);
            }
            first += program.instances;
        }
        // Ranks are below the number of threads.
        (0, 0)
    }

    /// Returns the program of each thread.
    pub(super) fn threads(&self) -> Vec<&Program> {
        (0..self.threads).map(|rank| &self.programs[self.role(rank).0]).collect()
    }

    /// Publishes the work of a thread so far.
    #[inline]
    pub(super) fn show(&self, rank: u32, operations: u64, bytes: u64) {
        if let Some(CachePadded([shown_operations, shown_bytes])) = self.seats.get(rank as usize) {
            shown_operations.store(operations, Ordering::Relaxed);
            shown_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the operations and bytes of all threads so far.
    pub(super) fn shown(&self) -> [u64; 2] {
        [0, 1].map(|which| self.seats.iter().map(|CachePadded(seat)| seat[which].load(Ordering::Relaxed)).sum())
    }

    /// Builds the error of a failed call on a file.
    #[cold]
    pub(super) fn refused(&self, call: &str, set: usize, file: u64, errno: Errno) -> EngineError {
        EngineError::call(call, self.sets[set].tree.show(&self.path, file), errno)
    }
}

/// The result of an operation.
pub(super) enum OpResult {
    /// It is done and moved this number of bytes.
    Done(OperationKind, u64),
    /// It was skipped, because another thread has the file open that it would delete.
    Skipped,
    /// There was no suitable file; `there` is whether other threads use such files now.
    Nothing { there: bool },
}

/// A file that a thread has open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) slot: Slot,
    pub(super) set: usize,
    pub(super) file: u64,
    pub(super) generation: u32,
    pub(super) position: u64,
    /// It was deleted while it was open.
    pub(super) orphan: bool,
}

/// A descriptor of a thread.
#[derive(Default)]
pub(super) struct FlowSlot {
    pub(super) open: Option<Opened>,
    /// The file that was open last.
    pub(super) last: Option<(usize, u64)>,
}

/// All files of a set, which a thread uses one after another.
pub(super) struct FileRing {
    pub(super) files: Vec<Opened>,
    pub(super) next: usize,
}
