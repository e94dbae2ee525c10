//! Performs one pass over a file in the order of its records: the work before the clock, within it and after it.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::open::{Fault, Records, open};
use super::phase::{Operation, Phase, PhaseError, PhaseResult, Purge};
use crate::EngineError;
use crate::barrier::StartBarrier;
use crate::clock::Clock;
use crate::memory::Memory;
use crate::permutation::Permutation;
use crate::residency::resident_bytes;

/// Performs a phase alone, in this thread.
///
/// # Errors
/// The first call that was refused, the first corruption, or [`PhaseError::Interrupted`] soon after `interrupted` is
/// set.
pub fn perform(phase: &Phase, interrupted: &AtomicBool) -> Result<PhaseResult, PhaseError> {
    Pass { phase, interrupted, group: None, thread: false }.perform()
}

/// Performs a phase as one of several; `thread` is whether they are threads of one process.
pub(super) fn perform_with(
    phase: &Phase,
    interrupted: &AtomicBool,
    group: &GroupState,
    thread: bool,
) -> Result<PhaseResult, PhaseError> {
    Pass { phase, interrupted, group: Some(group), thread }.perform()
}

/// The memory that the phases of a group share. All zeros at first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct GroupState {
    pub(super) start: StartBarrier,
    /// Whether a phase has moved all its records.
    is_stonewalled: AtomicBool,
}

struct Pass<'p> {
    phase: &'p Phase,
    interrupted: &'p AtomicBool,
    group: Option<&'p GroupState>,
    thread: bool,
}

/// The records that a pass moved, and their times.
#[derive(Default)]
struct Moved {
    /// Records before the stonewall.
    records: u64,
    /// Time at which the pass reached the stonewall, if it continued after it.
    stone: Option<u64>,
    /// Whether all records were moved.
    whole: bool,
    latencies: Vec<(u64, u64)>,
}

impl Pass<'_> {
    fn perform(&self) -> Result<PhaseResult, PhaseError> {
        let ready = self.prepare();
        if let Some(group) = self.group {
            group.start.answer(ready.is_ok());
        }
        let (mut file, mut purger) = ready?;
        if self.group.is_some_and(|group| !group.start.wait(Some(self.interrupted))) {
            return Err(PhaseError::Interrupted);
        }
        if self.group.is_some() && self.locks() {
            file.lock(true)?;
        }
        self.measure(file, purger.as_mut())
    }

    /// Whether `-W` is about this pass: alone, IOzone locks for reading and writing from the start to the end only.
    fn locks(&self) -> bool {
        use Operation::{Read, Rewrite, Write};
        self.group.is_some() || matches!(self.phase.operation, Write | Rewrite | Read)
    }

    /// Does everything before the clock, except the lock of passes in a group.
    fn prepare(&self) -> Result<(Box<dyn Records + '_>, Option<Purger>), PhaseError> {
        let Phase { operation, cpu, purge, .. } = self.phase;
        if let Some(cpu) = cpu {
            bind(*cpu)?;
        }
        let alone = self.group.is_none();
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
            // The next pass starts on a file whose data is on the device.
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
                // Later passes read this file, so it must be complete. Records after the stonewall do not count.
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
            // A record in flight when another pass finished does not count either.
            moved.records += u64::from(moved.stone.is_none() && !self.stopped());
        }
        moved.whole = true;
        self.end(file, moved)
    }

    fn end(&self, file: &mut dyn Records, moved: Moved) -> Result<Moved, PhaseError> {
        file.drain().map_err(|fault: Fault| fault.of(self.phase, 0))?;
        if let (Some(group), true) = (self.group, self.phase.stonewall) {
            group.is_stonewalled.store(true, Ordering::Release);
        }
        Ok(moved)
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.group.is_some_and(|group| group.is_stonewalled.load(Ordering::Relaxed))
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
    /// Returns the time of this thread, or of the whole process: the C library's asynchronous requests have their own
    /// threads.
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

/// Memory as large as the processor's cache. Reading it evicts a record from the cache.
struct Purger {
    memory: Memory,
    purge: Purge,
}

impl Purger {
    fn new(purge: Purge) -> Purger {
        Purger { memory: Memory::new(purge.cache), purge }
    }

    /// Reads one byte of each cache line that replaces a line of the record.
    fn purge(&mut self, record: usize) {
        let length = record.min(self.purge.cache);
        let lines = self.memory.as_mut()[..length].iter().step_by(self.purge.line);
        black_box(lines.fold(0u8, |sum, byte| sum ^ byte));
    }
}

/// Seed of the random order. Like IOzone, the engine uses the same random order each time, but not IOzone's order.
const SEED: u64 = 0x10_2011;

/// The places of all records, in the order of an operation.
#[derive(Debug, Clone)]
enum Order {
    Forward(u64),
    Backward(u64),
    Same(u64),
    Random(Permutation, u64),
    Stride { records: u64, stride: u64 },
}

impl Order {
    fn of(operation: Operation, records: u64, stride: u64) -> Order {
        match operation {
            Operation::BackwardRead => Order::Backward(records),
            Operation::RecordRewrite => Order::Same(records),
            Operation::StrideRead => Order::Stride { records, stride },
            Operation::RandomRead | Operation::RandomWrite => Order::Random(Permutation::new(records, SEED), records),
            _ => Order::Forward(records),
        }
    }

    /// Returns record numbers, as many as the file has records.
    fn places(&self) -> Places<'_> {
        Places { order: self, done: 0, next: 0, wraps: 0 }
    }
}

/// Goes through an [`Order`].
#[derive(Debug)]
struct Places<'o> {
    order: &'o Order,
    done: u64,
    /// For strides: the next place, and how often the end was reached.
    next: u64,
    wraps: u64,
}

impl Iterator for Places<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let (records, place) = match self.order {
            Order::Forward(records) => (*records, self.done),
            Order::Backward(records) => (*records, records.wrapping_sub(self.done + 1)),
            Order::Same(records) => (*records, 0),
            Order::Random(permutation, records) if self.done < *records => (*records, permutation.at(self.done)),
            Order::Random(_, records) => (*records, 0),
            Order::Stride { records, .. } => (*records, self.next),
        };
        if self.done == records {
            return None;
        }
        self.done += 1;
        if let Order::Stride { records, stride } = self.order {
            self.leap(*records, *stride);
        }
        Some(place)
    }
}

impl Places<'_> {
    /// Advances to the next place as IOzone does: by one stride. Beyond the end, or at the last record, it starts again
    /// one record further than the time before. A file that is too small for the stride is read at its start only. So
    /// the last record may never be read, and some records are read twice. The number of reads equals that of records.
    fn leap(&mut self, records: u64, stride: u64) {
        let after = self.next + 1;
        if after + stride >= records.saturating_sub(1) {
            self.wraps += 1;
            self.next = if records <= stride { 0 } else { self.wraps % records };
        } else {
            self.next = after + stride - 1;
        }
    }
}

/// Resolution of the clock that times the passes, in seconds.
pub fn clock_resolution() -> f64 {
    let time = rustix::time::clock_getres(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Writes out everything that is dirty on this machine, as IOzone does before each row.
pub fn sync_all() {
    rustix::fs::sync();
}

/// Returns the processors for `count` workers: those that this process may use, in turn, from `first` on. Returns
/// `None` if this process may not use `first`.
pub fn processors(first: u32, count: usize) -> Option<Vec<u32>> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut all: Vec<u32> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32).collect();
    let start = all.iter().position(|cpu| *cpu == first)?;
    all.rotate_left(start);
    Some(all.into_iter().cycle().take(count).collect())
}

/// Runs this thread on one processor only.
fn bind(cpu: u32) -> Result<(), EngineError> {
    let mut set = CpuSet::new();
    if (cpu as usize) < CpuSet::MAX_CPU {
        set.set(cpu as usize);
    }
    sched_setaffinity(None, &set).map_err(|errno| EngineError::call("bind to", format!("processor {cpu}"), errno))
}

/// Checks, on a temporary file, that files in `directory` can be written past the page cache in records of `record`
/// bytes.
///
/// # Errors
/// The file system refuses O_DIRECT or the size, or it accepts both but still uses the page cache.
pub fn check_direct(directory: &Path, record: u64) -> Result<(), EngineError> {
    let shown = directory.display();
    let refused = |what: &str, errno: Errno| {
        let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
        EngineError::new(format!("{what} in {shown} with O_DIRECT: {error}"))
    };
    let file = unnamed(directory).map_err(|errno| refused("cannot open a file", errno))?;
    let mut memory = Memory::new(record as usize);
    match rustix::io::pwrite(&file, memory.as_mut(), 0) {
        Ok(moved) if moved as u64 == record => {}
        Ok(moved) => return Err(EngineError::new(format!("only {moved} of {record} bytes can be written in {shown}"))),
        Err(Errno::INVAL) => {
            return Err(EngineError::new(format!(
                "records of {record} bytes cannot be written in {shown} with O_DIRECT: the device wants multiples of its block"
            )));
        }
        Err(errno) => return Err(refused("cannot write", errno)),
    }
    match resident_bytes(&File::from(file), record) {
        Some(cached) if cached > 0 => {
            let message = format!("the file system of {shown} accepts O_DIRECT but uses the page cache");
            Err(EngineError::new(message))
        }
        _ => Ok(()),
    }
}

/// Opens a file that disappears when it is closed: it has no name at all, or is removed as soon as it is open.
fn unnamed(directory: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let number = crate::mix(Clock::Monotonic.now() ^ (u64::from(std::process::id()) << 32));
            let name = directory.join(format!(".fsb-direct-{number:016x}"));
            let file = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode);
            // Some file systems make the file before they refuse the flag. An older file belongs to another program.
            if !matches!(file, Err(Errno::EXIST)) {
                let _ = rustix::fs::unlink(&name);
            }
            file
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(operation: Operation, records: u64, stride: u64) -> Vec<u64> {
        Order::of(operation, records, stride).places().collect()
    }

    #[test]
    fn simple_orders_are_what_their_names_say() {
        assert_eq!(places(Operation::Write, 4, 17), [0, 1, 2, 3]);
        assert_eq!(places(Operation::BackwardRead, 4, 17), [3, 2, 1, 0]);
        assert_eq!(places(Operation::RecordRewrite, 3, 17), [0, 0, 0]);
        let mut random = places(Operation::RandomRead, 1000, 17);
        assert_eq!(random, places(Operation::RandomWrite, 1000, 17));
        assert!(random.windows(2).any(|pair| pair[1] < pair[0]));
        random.sort_unstable();
        assert_eq!(random, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn strides_are_those_of_the_real_tool() {
        let trace = include_str!("../../testdata/iozone-strace/05-stride-read.strace");
        let (_, reading) = trace.split_once("O_RDONLY").unwrap();
        let seeks = reading.lines().filter_map(|line| line.strip_prefix("lseek(3, ")?.split(',').next()?.parse().ok());
        let expected: Vec<u64> = std::iter::once(0).chain(seeks).map(|offset: u64| offset / 65_536).collect();
        assert_eq!(places(Operation::StrideRead, 64, 17), expected[..64]);
        assert_eq!(places(Operation::StrideRead, 4, 17), [0; 4]);
        assert_eq!(places(Operation::StrideRead, 1, 17), [0]);
    }
}
