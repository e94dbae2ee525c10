//! One pass over a file: what is done before the clock, within its time and after it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::open::open;
use super::order::Order;
use super::phase::{Operation, Phase, PhaseError, PhaseResult, Purge};
use super::probe::bind;
use super::records::{Fault, Records};
use super::start_barrier::StartBarrier;
use crate::memory::Memory;

/// Does a phase alone, in this thread.
///
/// # Errors
/// The first call that was refused, the first corruption, or [`PhaseError::Interrupted`] soon after `interrupted` is
/// set.
pub fn perform(phase: &Phase, interrupted: &AtomicBool) -> Result<PhaseResult, PhaseError> {
    Pass { phase, interrupted, barrier: None, thread: false }.perform()
}

/// Does a phase as one of several; `thread` is whether they are threads of one process.
pub(super) fn perform_with(
    phase: &Phase,
    interrupted: &AtomicBool,
    barrier: &StartBarrier,
    thread: bool,
) -> Result<PhaseResult, PhaseError> {
    Pass { phase, interrupted, barrier: Some(barrier), thread }.perform()
}

struct Pass<'p> {
    phase: &'p Phase,
    interrupted: &'p AtomicBool,
    barrier: Option<&'p StartBarrier>,
    thread: bool,
}

/// What was moved, and when.
#[derive(Default)]
struct Moved {
    /// Records before the stonewall.
    records: u64,
    /// When the stonewall was met, where work went on behind it.
    stone: Option<u64>,
    /// Whether all records were moved.
    whole: bool,
    latencies: Vec<(u64, u64)>,
}

impl Pass<'_> {
    fn perform(&self) -> Result<PhaseResult, PhaseError> {
        let ready = self.prepare();
        if let Some(barrier) = self.barrier {
            barrier.answer(ready.is_ok());
        }
        let (mut file, mut purger) = ready?;
        if self.barrier.is_some_and(|barrier| !barrier.word(self.interrupted)) {
            return Err(PhaseError::Interrupted);
        }
        if self.barrier.is_some() && self.locks() {
            file.lock(true)?;
        }
        self.measure(file, purger.as_mut())
    }

    /// Whether `-W` is about this pass: alone, IOzone locks for reading and writing from the start to the end only.
    fn locks(&self) -> bool {
        use Operation::{Read, Rewrite, Write};
        self.barrier.is_some() || matches!(self.phase.operation, Write | Rewrite | Read)
    }

    /// Everything before the clock but the lock of those that start together.
    fn prepare(&self) -> Result<(Box<dyn Records + '_>, Option<Purger>), PhaseError> {
        let Phase { operation, cpu, purge, .. } = self.phase;
        if let Some(cpu) = cpu {
            bind(*cpu)?;
        }
        let alone = self.barrier.is_none();
        let mut file = open(self.phase, !alone)?;
        if alone && self.locks() {
            file.lock(true)?;
        }
        let at_random = matches!(operation, Operation::RandomRead | Operation::RandomWrite);
        file.prime(alone && !at_random && self.phase.rest.before, alone && *operation == Operation::Read)?;
        Ok((file, purge.map(Purger::new)))
    }

    fn measure(&self, mut file: Box<dyn Records + '_>, purger: Option<&mut Purger>) -> Result<PhaseResult, PhaseError> {
        let phase = self.phase;
        let mut latencies = Vec::new();
        if phase.latencies {
            latencies.reserve_exact((phase.file_size / phase.record_size) as usize);
        }
        let usage = Usage::now(self.thread);
        let start = now();
        let moved = self.work(&mut *file, purger, Moved { latencies, ..Moved::default() })?;
        if phase.include_flush {
            file.flush()?;
        }
        if self.locks() {
            file.lock(false)?;
        }
        let open = match phase.include_close {
            true => file.close().map(|()| None)?,
            false => Some(file),
        };
        let stop = now();
        let used = Usage::now(self.thread).since(&usage);
        if let Some(mut file) = open {
            // What comes next starts on a file that is at rest.
            if phase.rest.after {
                file.flush()?;
            }
            file.close()?;
        }
        Ok(PhaseResult {
            nanoseconds: (moved.stone.unwrap_or(stop) - start).max(1),
            records: moved.records,
            full_nanoseconds: moved.whole.then(|| (stop - start).max(1)),
            user_nanoseconds: used.user,
            system_nanoseconds: used.system,
            wall_nanoseconds: stop - start,
            latencies: moved.latencies,
        })
    }

    /// Moves the records. Nothing here allocates, locks or formats.
    fn work(
        &self,
        file: &mut dyn Records,
        mut purger: Option<&mut Purger>,
        mut moved: Moved,
    ) -> Result<Moved, PhaseError> {
        let phase = self.phase;
        let record = phase.record_size;
        let writes = phase.operation.writes();
        let order = Order::of(phase.operation, phase.file_size / record, phase.stride);
        for place in order.places() {
            let offset = place * record;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(PhaseError::Interrupted);
            }
            if moved.stone.is_none() && self.stopped() {
                // A file that others will read must be finished; the rest of the work on it counts for nothing.
                if !phase_makes_file(phase.operation) {
                    return self.end(file, moved);
                }
                if phase.include_flush {
                    file.flush()?;
                }
                moved.stone = Some(now());
            }
            if let Some(purger) = &mut purger {
                purger.purge(record as usize);
            }
            let start = if phase.latencies { now() } else { 0 };
            let done = if writes { file.write(offset) } else { file.read(offset) };
            done.map_err(|fault| fault.of(phase, offset))?;
            if phase.latencies {
                moved.latencies.push((offset, now() - start));
            }
            // What was under way when somebody else finished does not count either.
            moved.records += u64::from(moved.stone.is_none() && !self.stopped());
        }
        moved.whole = true;
        self.end(file, moved)
    }

    fn end(&self, file: &mut dyn Records, moved: Moved) -> Result<Moved, PhaseError> {
        file.drain().map_err(|fault: Fault| fault.of(self.phase, 0))?;
        if let (Some(barrier), true) = (self.barrier, self.phase.stonewall) {
            barrier.finish();
        }
        Ok(moved)
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.barrier.is_some_and(StartBarrier::finished)
    }
}

fn phase_makes_file(operation: Operation) -> bool {
    matches!(operation, Operation::Write | Operation::Fwrite | Operation::Pwrite)
}

fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time so far, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Usage {
    user: u64,
    system: u64,
}

impl Usage {
    /// Of this thread, or of the whole process: the C library's asynchronous requests have threads of their own.
    fn now(thread: bool) -> Usage {
        // SAFETY: all bits zero are a valid structure of numbers, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(if thread { libc::RUSAGE_THREAD } else { libc::RUSAGE_SELF }, &mut usage);
            usage
        };
        let of = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Usage { user: of(usage.ru_utime), system: of(usage.ru_stime) }
    }

    fn since(self, earlier: &Usage) -> Usage {
        Usage { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// Memory as large as the processor's cache; going through it drives a record out of there.
struct Purger {
    memory: Memory,
    purge: Purge,
}

impl Purger {
    fn new(purge: Purge) -> Purger {
        Purger { memory: Memory::new(purge.cache), purge }
    }

    /// Reads a byte of each line that a record's lines would share a place with.
    fn purge(&mut self, record: usize) {
        let length = record.min(self.purge.cache);
        let lines = self.memory.as_mut()[..length].iter().step_by(self.purge.line);
        black_box(lines.fold(0u8, |sum, byte| sum ^ byte));
    }
}
