//! IOzone's operations, one pass over one file at a time, with the very calls that IOzone 3.471
//! makes.
//!
//! The workloads of this crate's registry are made for fair comparison: incompressible data,
//! restored states, latencies. IOzone has its own conventions: the flags of open, the syncs and
//! reads before the clock starts, and the calls between the last record and the end of the clock. A
//! comparison with IOzone's results needs these, so this module implements them separately, and the
//! tests compare its calls with traces of the real tool.
//!
//! A [`Phase`] is data. [`perform`] performs it alone. [`perform_together`] performs several that
//! start and stop together, in threads or in processes that are this program again
//! ([`child_main`]). [`IoMethod`] determines the calls that move a record.

mod open;
mod phase;

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use open::{Fault, Records, open};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::backend::direct;
use crate::clock::Clock;
use crate::error::EngineError;
use crate::hash::Permutation;
use crate::memory::{Memory, SharedMemory};
use crate::processes::Children;
use crate::rendezvous::StartBarrier;

pub use open::{Existing, bring_to_rest, examine, remove};
pub use phase::{Check, Corruption};
pub use phase::{IoMethod, Msync, Operation, Phase, PhaseError, PhaseResult, Purge, Rest};

// Performs one pass over a file in the order of its records: the work before the clock, within it
// and after it.

/// Performs a phase alone, in this thread.
///
/// # Errors
/// The first call that was refused, the first corruption, or [`PhaseError::Interrupted`] soon after
/// `interrupted` is set.
pub fn perform(phase: &Phase, interrupted: &AtomicBool) -> Result<PhaseResult, PhaseError> {
    Pass {
        phase,
        interrupted,
        group: None,
        thread: false,
    }
    .perform()
}

/// Performs a phase as one of several; `thread` is whether they are threads of one process.
fn perform_with(
    phase: &Phase,
    interrupted: &AtomicBool,
    group: &GroupState,
    thread: bool,
) -> Result<PhaseResult, PhaseError> {
    Pass {
        phase,
        interrupted,
        group: Some(group),
        thread,
    }
    .perform()
}

/// The memory that the phases of a group share. All zeros at first.
#[derive(Debug, Default)]
#[repr(C)]
struct GroupState {
    start: StartBarrier,
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
        if self
            .group
            .is_some_and(|group| !group.start.wait(Some(self.interrupted)))
        {
            return Err(PhaseError::Interrupted);
        }
        if self.group.is_some() && self.locks() {
            file.lock(true)?;
        }
        self.measure(file, purger.as_mut())
    }

    /// Returns whether `-W` is about this pass: alone, IOzone locks for reading and writing from
    /// the start to the end only.
    fn locks(&self) -> bool {
        use Operation::{Read, Rewrite, Write};
        self.group.is_some() || matches!(self.phase.operation, Write | Rewrite | Read)
    }

    /// Does everything before the clock, except the lock of passes in a group.
    fn prepare(&self) -> Result<(Box<dyn Records + '_>, Option<Purger>), PhaseError> {
        let Phase {
            operation,
            cpu,
            purge,
            ..
        } = self.phase;
        if let Some(cpu) = cpu {
            bind(*cpu)?;
        }
        let alone = self.group.is_none();
        let mut file = open(self.phase, !alone)?;
        if alone && self.locks() {
            file.lock(true)?;
        }
        let at_random = matches!(operation, Operation::RandomRead | Operation::RandomWrite);
        file.prime(
            alone && !at_random && self.phase.rest.before,
            alone && *operation == Operation::Read,
        )?;
        Ok((file, purge.map(Purger::new)))
    }

    fn measure(
        &self,
        mut file: Box<dyn Records + '_>,
        purger: Option<&mut Purger>,
    ) -> Result<PhaseResult, PhaseError> {
        let phase = self.phase;
        let mut latencies = Vec::new();
        if phase.latencies {
            latencies.reserve_exact((phase.file_size / phase.record_size) as usize);
        }
        let usage = Usage::now(self.thread);
        let start = now();
        let moved = self.work(
            &mut *file,
            purger,
            Moved {
                latencies,
                ..Moved::default()
            },
        )?;
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
        let order = Order::new(phase.operation, phase.file_size / record, phase.stride);
        for place in order.places() {
            let offset = place * record;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(PhaseError::Interrupted);
            }
            if moved.stone.is_none() && self.stopped() {
                // Later passes read this file, so it must be complete. Records after the stonewall
                // do not count.
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
            let done = if writes {
                file.write(offset)
            } else {
                file.read(offset)
            };
            done.map_err(|fault| fault.at(phase, offset))?;
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
        file.drain()
            .map_err(|fault: Fault| fault.at(self.phase, 0))?;
        if let (Some(group), true) = (self.group, self.phase.stonewall) {
            group.is_stonewalled.store(true, Ordering::Release);
        }
        Ok(moved)
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.group
            .is_some_and(|group| group.is_stonewalled.load(Ordering::Relaxed))
    }
}

fn phase_makes_file(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Write | Operation::Fwrite | Operation::Pwrite
    )
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
    /// Returns the time of this thread, or of the whole process: the C library's asynchronous
    /// requests have their own threads.
    fn now(thread: bool) -> Usage {
        // SAFETY: all bits zero are a valid structure of numbers, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(
                if thread {
                    libc::RUSAGE_THREAD
                } else {
                    libc::RUSAGE_SELF
                },
                &mut usage,
            );
            usage
        };
        fn nanoseconds(time: libc::timeval) -> u64 {
            time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
        }
        Usage {
            user: nanoseconds(usage.ru_utime),
            system: nanoseconds(usage.ru_stime),
        }
    }

    fn since(self, earlier: &Usage) -> Usage {
        Usage {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
        }
    }
}

/// Memory as large as the processor's cache. Reading it evicts a record from the cache.
struct Purger {
    memory: Memory,
    purge: Purge,
}

impl Purger {
    fn new(purge: Purge) -> Purger {
        Purger {
            memory: Memory::new(purge.cache),
            purge,
        }
    }

    /// Reads one byte of each cache line that replaces a line of the record.
    fn purge(&mut self, record: usize) {
        let length = record.min(self.purge.cache);
        let lines = self.memory.as_mut()[..length]
            .iter()
            .step_by(self.purge.line);
        black_box(lines.fold(0u8, |sum, byte| sum ^ byte));
    }
}

/// Seed of the random order. Like IOzone, the engine uses the same random order each time, but not
/// IOzone's order.
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
    fn new(operation: Operation, records: u64, stride: u64) -> Order {
        match operation {
            Operation::BackwardRead => Order::Backward(records),
            Operation::RecordRewrite => Order::Same(records),
            Operation::StrideRead => Order::Stride { records, stride },
            Operation::RandomRead | Operation::RandomWrite => {
                Order::Random(Permutation::new(records, SEED), records)
            }
            _ => Order::Forward(records),
        }
    }

    /// Returns record numbers, as many as the file has records.
    fn places(&self) -> Places<'_> {
        Places {
            order: self,
            done: 0,
            next: 0,
            wraps: 0,
        }
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
            Order::Random(permutation, records) if self.done < *records => {
                (*records, permutation.at(self.done))
            }
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
    /// Advances to the next place as IOzone does: by one stride. Beyond the end, or at the last
    /// record, it starts again one record further than the time before. A file that is too small
    /// for the stride is read at its start only. So the last record may never be read, and some
    /// records are read twice. The number of reads equals that of records.
    fn leap(&mut self, records: u64, stride: u64) {
        let after = self.next + 1;
        if after + stride >= records.saturating_sub(1) {
            self.wraps += 1;
            self.next = if records <= stride {
                0
            } else {
                self.wraps % records
            };
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

/// Returns the processors for `count` workers: those that this process may use, in turn, from
/// `first` on. Returns `None` if this process may not use `first`.
pub fn processors(first: u32, count: usize) -> Option<Vec<u32>> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut all: Vec<u32> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .map(|cpu| cpu as u32)
        .collect();
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
    sched_setaffinity(None, &set)
        .map_err(|errno| EngineError::call("bind to", format!("processor {cpu}"), errno))
}

/// Checks, on a temporary file, that files in `directory` can be written past the page cache in
/// records of `record` bytes.
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
        Ok(moved) => {
            return Err(EngineError::new(format!(
                "only {moved} of {record} bytes can be written in {shown}"
            )));
        }
        Err(Errno::INVAL) => {
            return Err(EngineError::new(format!(
                "records of {record} bytes cannot be written in {shown} with O_DIRECT: the device wants multiples of its block"
            )));
        }
        Err(errno) => return Err(refused("cannot write", errno)),
    }
    let file = File::from(file);
    let trial = &memory.as_mut()[..direct::trial_length(record)];
    match direct::overwrite(&file, &file, trial) {
        Ok(Some(true)) => {
            let message =
                format!("the file system of {shown} accepts O_DIRECT but uses the page cache");
            Err(EngineError::new(message))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(EngineError::new(format!(
            "cannot overwrite a file in {shown} with O_DIRECT: {error}"
        ))),
    }
}

/// Opens a file that disappears when it is closed: it has no name at all, or is removed as soon as
/// it is open.
fn unnamed(directory: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let number =
                crate::hash::mix(Clock::Monotonic.now() ^ (u64::from(std::process::id()) << 32));
            let name = directory.join(format!(".fsb-direct-{number:016x}"));
            let file = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode);
            // Some file systems make the file before they refuse the flag. An older file belongs to
            // another program.
            if !matches!(file, Err(Errno::EXIST)) {
                let _ = rustix::fs::unlink(&name);
            }
            file
        }
        other => other,
    }
}

// Runs several passes that start together. With a stonewall, the first pass that finishes stops the
// others.

/// The results of all passes of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// One result per pass, in order.
    pub results: Vec<PhaseResult>,
    /// From the start signal to the end of the last pass.
    pub nanoseconds: u64,
}

/// Performs phases together: in threads, or in processes of `program`. `program` is this program,
/// which calls [`child_main`] when its first argument is [`CHILD_ARGUMENT`].
///
/// # Errors
/// The error of the first phase that failed, as of [`perform`].
pub fn perform_together(
    phases: &[Phase],
    program: Option<&Path>,
    interrupted: &AtomicBool,
) -> Result<GroupResult, PhaseError> {
    match program {
        Some(program) => processes(phases, program, interrupted),
        None => threads(phases, interrupted),
    }
}

type Ended = (Result<PhaseResult, PhaseError>, Instant);

fn threads(phases: &[Phase], interrupted: &AtomicBool) -> Result<GroupResult, PhaseError> {
    let group = GroupState::default();
    thread::scope(|scope| {
        let run = |phase| {
            let group = &group;
            thread::Builder::new()
                .spawn_scoped(scope, move || -> Ended {
                    (
                        perform_with(phase, interrupted, group, true),
                        Instant::now(),
                    )
                })
                .inspect_err(|_| group.start.answer(false))
        };
        let members: Vec<_> = phases.iter().map(run).collect();
        let start = begin(&group, phases, || interrupted.load(Ordering::Relaxed));
        let ended = members.into_iter().map(|member| match member {
            Ok(member) => member.join().unwrap_or_else(|_| panicked()),
            Err(error) => (Err(no_thread(&error).into()), Instant::now()),
        });
        conclude(ended.collect(), start)
    })
}

/// Starts the phases once all are ready. Aborts them if one is not ready, or if `in_vain` reports
/// that it will not be.
fn begin(group: &GroupState, phases: &[Phase], mut in_vain: impl FnMut() -> bool) -> Instant {
    let count = phases.len() as u32;
    if group.start.all_ready(count, &mut in_vain) {
        return group.start.run(count, in_vain);
    }
    group.start.abort();
    Instant::now()
}

fn no_thread(error: &io::Error) -> EngineError {
    EngineError::spawn("start a thread of the test", error)
}

fn panicked() -> Ended {
    (
        Err(EngineError::new("a thread of the test ended unexpectedly").into()),
        Instant::now(),
    )
}

/// Returns the first failure, or all results. A phase that fails before the start interrupts the
/// others, so any other error takes precedence over `Interrupted`.
fn conclude(ended: Vec<Ended>, start: Instant) -> Result<GroupResult, PhaseError> {
    let last = ended.iter().map(|(_, end)| *end).max().unwrap_or(start);
    let mut results = Vec::new();
    let mut left = None;
    for (result, _) in ended {
        match result {
            Ok(result) => results.push(result),
            Err(PhaseError::Interrupted) => left = Some(PhaseError::Interrupted),
            Err(error) => return Err(error),
        }
    }
    match left {
        Some(left) => Err(left),
        None => Ok(GroupResult {
            results,
            nanoseconds: last.saturating_duration_since(start).as_nanos().max(1) as u64,
        }),
    }
}

fn processes(
    phases: &[Phase],
    program: &Path,
    interrupted: &AtomicBool,
) -> Result<GroupResult, PhaseError> {
    fn refused(error: io::Error) -> EngineError {
        EngineError::io("share memory with", "the test's processes", &error)
    }
    let memory = rustix::fs::memfd_create("fsb-start", MemfdFlags::CLOEXEC)
        .map_err(|errno| refused(errno.into()))?;
    let memory = File::from(memory);
    memory
        .set_len(size_of::<GroupState>() as u64)
        .map_err(refused)?;
    // SAFETY: zeros are a value, and only the processes below get the file.
    let group = unsafe { SharedMemory::<GroupState>::of_file(&memory)? };
    let (mut children, mut outputs) = (Children::default(), Vec::new());
    for phase in phases {
        let task =
            serde_json::to_string(phase).map_err(|error| EngineError::new(error.to_string()))?;
        let mut command = Command::new(program);
        command
            .args([CHILD_ARGUMENT, &std::process::id().to_string(), &task])
            .stdout(Stdio::piped());
        command.stdin(memory.try_clone().map_err(refused)?);
        let child = children.spawn(&mut command);
        let child = child
            .map_err(|error| EngineError::spawn(format!("start {}", program.display()), &error))?;
        outputs.push(child.stdout);
    }
    thread::scope(|scope| {
        let listen = |output: Option<ChildStdout>| {
            thread::Builder::new().spawn_scoped(scope, move || -> (String, Instant) {
                let mut text = String::new();
                if let Some(mut output) = output {
                    // A pipe that cannot be read counts as one without output.
                    let _ = output.read_to_string(&mut text);
                }
                (text, Instant::now())
            })
        };
        let members: Result<Vec<_>, _> = outputs.into_iter().map(listen).collect();
        let members = members.map_err(|error| {
            // The reader threads wait for the children to end.
            children.kill();
            no_thread(&error)
        })?;
        let start = begin(&group, phases, || {
            interrupted.load(Ordering::Relaxed)
                || members.iter().any(thread::ScopedJoinHandle::is_finished)
        });
        while !members.iter().all(thread::ScopedJoinHandle::is_finished) {
            if interrupted.load(Ordering::Relaxed) {
                children.kill();
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        let ended = members
            .into_iter()
            .zip(phases)
            .map(|(member, phase)| match member.join() {
                Ok((text, end)) => (answer(&text, phase, interrupted), end),
                Err(_) => panicked(),
            });
        conclude(ended.collect(), start)
    })
}

/// Parses the answer of a child process. Without a valid answer, returns `Interrupted` if the group
/// was interrupted, and an error that names the file otherwise.
fn answer(text: &str, phase: &Phase, interrupted: &AtomicBool) -> Result<PhaseResult, PhaseError> {
    match serde_json::from_str::<Result<PhaseResult, PhaseError>>(text) {
        Ok(result) => result,
        Err(_) if interrupted.load(Ordering::Relaxed) => Err(PhaseError::Interrupted),
        Err(_) => {
            let path = phase.path.display();
            Err(EngineError::new(format!(
                "the process that worked on {path} ended without a result: was it killed?"
            ))
            .into())
        }
    }
}

/// The first argument of a child process.
pub const CHILD_ARGUMENT: &str = "__iozone-child";

/// Performs the phase in `task` for the process with the number `parent`, and returns the answer to
/// print.
///
/// A child process is this program again. Its standard input is the shared memory. It prints one
/// answer, the result, to standard output. It dies with the process that started it.
pub fn child_main(parent: &str, task: &str) -> String {
    let result = serve(parent, task);
    // Results are numbers and errors are text, so serializing them does not fail.
    serde_json::to_string(&result).unwrap_or_default()
}

fn serve(parent: &str, task: &str) -> Result<PhaseResult, PhaseError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| EngineError::call("tie this process to", "its parent", errno))?;
    // It may have died before this process asked to follow it.
    if rustix::process::getppid()
        .map(|pid| pid.to_string())
        .as_deref()
        != Some(parent)
    {
        return Err(PhaseError::Interrupted);
    }
    let phase: Phase = serde_json::from_str(task)
        .map_err(|error| EngineError::new(format!("the request is not a phase: {error}")))?;
    // SAFETY: the parent made the file for this value, and gave it to such processes alone.
    let group = unsafe { SharedMemory::<GroupState>::of_file(io::stdin())? };
    perform_with(&phase, &AtomicBool::new(false), &group, false)
}

#[cfg(test)]
mod tests {
    use super::phase::{Check, IoMethod, Operation, Rest};
    use super::*;

    fn places(operation: Operation, records: u64, stride: u64) -> Vec<u64> {
        Order::new(operation, records, stride).places().collect()
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
        let seeks = reading.lines().filter_map(|line| {
            line.strip_prefix("lseek(3, ")?
                .split(',')
                .next()?
                .parse()
                .ok()
        });
        let expected: Vec<u64> = std::iter::once(0)
            .chain(seeks)
            .map(|offset: u64| offset / 65_536)
            .collect();
        assert_eq!(places(Operation::StrideRead, 64, 17), expected[..64]);
        assert_eq!(places(Operation::StrideRead, 4, 17), [0; 4]);
        assert_eq!(places(Operation::StrideRead, 1, 17), [0]);
    }

    fn phase(operation: Operation, path: &Path, rank: u32) -> Phase {
        Phase {
            operation,
            path: path.to_owned(),
            file_size: 1 << 20,
            record_size: 4096,
            stride: 17,
            method: IoMethod::Calls,
            mix: false,
            direct: false,
            sync: false,
            data_sync: false,
            include_flush: false,
            include_close: false,
            lock: true,
            check: Check::Diagnose,
            purge: None,
            latencies: true,
            rank,
            cpu: None,
            stonewall: true,
            rest: Rest::ALWAYS,
        }
    }

    fn together(phases: &[Phase]) -> Result<GroupResult, PhaseError> {
        perform_together(phases, None, &AtomicBool::new(false))
    }

    #[test]
    fn writers_finish_their_files_and_readers_stop_with_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let of = |operation| -> Vec<Phase> {
            (0..3)
                .map(|rank| phase(operation, &directory.path().join(rank.to_string()), rank))
                .collect()
        };
        let written = together(&of(Operation::Write)).unwrap();
        assert!(
            written
                .results
                .iter()
                .all(|result| result.full_nanoseconds.is_some() && result.latencies.len() == 256)
        );
        assert!(written.results.iter().any(|result| result.records == 256));
        assert!(
            written
                .results
                .iter()
                .all(|result| written.nanoseconds >= result.nanoseconds)
        );
        let read = together(&of(Operation::Read)).unwrap();
        let moved: Vec<usize> = read
            .results
            .iter()
            .map(|result| result.latencies.len())
            .collect();
        assert!(
            moved.contains(&256) && moved.iter().all(|moved| *moved <= 256),
            "{moved:?}"
        );
        assert!(
            read.results
                .iter()
                .all(|result| result.full_nanoseconds.is_some() == (result.latencies.len() == 256))
        );
    }

    #[test]
    fn one_that_cannot_start_lets_nobody_start_and_is_the_one_to_tell() {
        let directory = tempfile::tempdir().unwrap();
        let (good, bad) = (
            directory.path().join("good"),
            directory.path().join("missing/bad"),
        );
        let error = together(&[
            phase(Operation::Write, &good, 0),
            phase(Operation::Write, &bad, 1),
        ])
        .unwrap_err();
        assert!(error.to_string().contains("missing/bad"), "{error}");
        assert_eq!(
            good.metadata().unwrap().len(),
            0,
            "the other one was opened, and not written"
        );
    }

    #[test]
    fn a_file_is_opened_with_the_requested_durability() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "x").unwrap();
        for (sync, data_sync, expected) in [
            (false, false, 0),
            (false, true, libc::O_DSYNC),
            (true, false, libc::O_SYNC),
            (true, true, libc::O_SYNC),
        ] {
            let phase = Phase {
                sync,
                data_sync,
                ..phase(Operation::Write, &path, 0)
            };
            let file = open::open_for(&phase, false).unwrap();
            let flags = rustix::fs::fcntl_getfl(&file).unwrap().bits() as i32;
            assert_eq!(
                flags & libc::O_SYNC,
                expected,
                "sync {sync}, data_sync {data_sync}"
            );
        }
    }

    #[test]
    fn an_interrupted_group_ends_before_it_starts() {
        let directory = tempfile::tempdir().unwrap();
        let phases = [phase(Operation::Write, &directory.path().join("f"), 0)];
        let error = perform_together(&phases, None, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error, PhaseError::Interrupted);
    }
}
