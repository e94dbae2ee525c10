//! A flow as its threads execute it: compiled steps, the state that all threads share while the
//! clock runs, the files that a thread has open, and the result of an operation on them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fsb_model::flow::{Flow, FlowStep, Op, Quit, Spread, Thread};
use rustix::io::Errno;
use rustix::thread::{Timespec, futex};

use super::entries::{self, Set};
use crate::backend::{Backend, Directory, FileSlot};
use crate::clock::OperationKind;
use crate::data::DataSource;
use crate::error::EngineError;

/// Default bytes of one call of a step that moves a whole file.
const RECORD: u64 = 1 << 20;
/// The maximum number of writes that a thread may have in flight.
const MOST_UNDER_WAY: u64 = 256;

// Compiled steps: numbers replace names, and a step stores everything that it needs.

/// The compiled steps of one kind of thread.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) steps: Vec<CompiledStep>,
    pub(super) instances: u32,
    /// Descriptors whose files are opened before the clock starts, with the steps that define the
    /// files.
    pub(super) beforehand: Vec<(usize, usize)>,
    /// Names of its operations; steps refer to them by index.
    pub(super) titles: Vec<String>,
    /// Steps that rotate through all files of a set.
    pub(super) rings: Vec<usize>,
    /// The largest read and the largest write, in bytes.
    pub(super) largest: [u64; 2],
    /// Writes that it may have in flight.
    pub(super) under_way: u32,
}

/// One step.
#[derive(Debug)]
pub(super) struct CompiledStep {
    pub(super) op: Op,
    pub(super) set: Option<usize>,
    pub(super) fd: usize,
    /// Whether a descriptor is named.
    pub(super) names_fd: bool,
    pub(super) from: Option<usize>,
    pub(super) size: Spread,
    pub(super) record: u64,
    pub(super) random: bool,
    pub(super) ring: Option<usize>,
    pub(super) working_set: Option<u64>,
    pub(super) dsync: bool,
    pub(super) direct: bool,
    pub(super) iterations: u64,
    pub(super) value: u64,
    pub(super) nanoseconds: u64,
    pub(super) blocking: bool,
    pub(super) index: Option<Spread>,
    /// The index in the thread's titles, if it is counted.
    pub(super) title: usize,
    /// Semaphores or wake events that the step signals. For a waiting step, its own: one semaphore
    /// per instance, or one wake event.
    pub(super) targets: Vec<usize>,
    /// The step of the same thread whose operations the step refers to.
    pub(super) target: Option<usize>,
    /// Counted operations from here to the next step that is not counted, or to the end.
    pub(super) ahead: u64,
}

/// The points at which the threads of a flow wait.
#[derive(Debug, Default)]
struct SyncPoints {
    /// For each semaphore, the posts that a wait takes, and the posts that are possible before a
    /// blocking post waits.
    pub(super) semaphores: Vec<(u32, u32)>,
    /// Number of steps that wait for a wake event.
    wakes: usize,
}

/// Compiles all programs of a checked flow.
fn compile(flow: &Flow) -> (Vec<Program>, SyncPoints) {
    let mut points = SyncPoints::default();
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut own: Vec<Vec<Vec<usize>>> = Vec::new();
    for thread in &flow.threads {
        let instances = thread.instances() as usize;
        let waits = thread.steps.iter().map(|step| {
            let mine: Vec<usize> = match step.op {
                Op::SemaphoreWait => {
                    let value = u32::try_from(step.value.unwrap_or(1)).unwrap_or(u32::MAX / 4);
                    let high = u32::try_from(step.high_water.unwrap_or(u64::from(u32::MAX / 4)))
                        .unwrap_or(u32::MAX / 4);
                    let first = points.semaphores.len();
                    points
                        .semaphores
                        .extend(std::iter::repeat_n((value, high), instances));
                    (first..first + instances).collect()
                }
                Op::Block => {
                    points.wakes += 1;
                    vec![points.wakes - 1]
                }
                _ => Vec::new(),
            };
            if !mine.is_empty() {
                by_name.entry(step.title()).or_default().extend(&mine);
            }
            mine
        });
        own.push(waits.collect());
    }
    let programs = flow
        .threads
        .iter()
        .zip(own)
        .map(|(thread, own)| program(flow, thread, own, &by_name));
    (programs.collect(), points)
}

fn program(
    flow: &Flow,
    thread: &Thread,
    own: Vec<Vec<usize>>,
    by_name: &BTreeMap<&str, Vec<usize>>,
) -> Program {
    let mut titles: Vec<String> = Vec::new();
    let mut rings = Vec::new();
    let mut steps = Vec::new();
    for (number, (step, own)) in thread.steps.iter().zip(own).enumerate() {
        let title = titles
            .iter()
            .position(|title| title == step.title())
            .unwrap_or(titles.len());
        if step.op.is_counted() && title == titles.len() {
            titles.push(step.title().to_owned());
        }
        let ring = step.rotate.then(|| {
            rings.push(number);
            rings.len() - 1
        });
        let name = step.target.as_deref();
        let targets = match step.op {
            Op::Wake | Op::SemaphorePost => name
                .and_then(|name| by_name.get(name))
                .cloned()
                .unwrap_or_default(),
            _ => own,
        };
        let same = name.and_then(|name| thread.steps.iter().position(|step| step.title() == name));
        steps.push(CompiledStep {
            op: step.op,
            set: step
                .set
                .as_ref()
                .and_then(|name| flow.filesets.iter().position(|set| set.name == *name)),
            fd: step.descriptor() as usize,
            names_fd: step.fd.is_some(),
            from: step.from.map(|fd| fd as usize),
            size: step.size.unwrap_or(Spread::Exact(fsb_model::Bytes(0))),
            record: step.record.map_or(RECORD, |record| record.0),
            random: step.random,
            ring,
            working_set: step.working_set.map(|size| size.0),
            dsync: step.dsync,
            direct: step.direct,
            iterations: step.iterations.unwrap_or(1),
            value: step.value.unwrap_or(1),
            nanoseconds: (step.seconds.unwrap_or(0.0) * 1e9) as u64,
            blocking: step.blocking,
            index: step.index,
            title,
            targets,
            target: same,
            ahead: 0,
        });
    }
    let mut ahead = 0;
    for step in steps.iter_mut().rev() {
        ahead = if step.op.is_counted() {
            ahead + step.iterations
        } else {
            0
        };
        step.ahead = ahead;
    }
    opened_like_their_users(thread, &mut steps);
    let beforehand = opened_beforehand(thread, &mut steps);
    let asynchronous = thread.steps.iter().filter(|step| step.op == Op::AioWrite);
    let under_way: u64 = asynchronous.map(|step| step.iterations.unwrap_or(1)).sum();
    Program {
        name: thread.name.clone(),
        beforehand,
        instances: thread.instances() as u32,
        titles,
        rings,
        largest: [false, true].map(|writes| {
            thread
                .steps
                .iter()
                .filter(|step| step.op.moves_data() && step.op.writes() == writes)
                .map(largest)
                .max()
                .unwrap_or(0)
        }),
        under_way: under_way.min(MOST_UNDER_WAY) as u32,
        steps,
    }
}

/// Copies `dsync` and O_DIRECT from the steps that move data to the steps that open their files,
/// because these are flags of open.
fn opened_like_their_users(thread: &Thread, steps: &mut [CompiledStep]) {
    for number in 0..steps.len() {
        let step = &thread.steps[number];
        if !step.op.moves_data() || step.set.is_some() || !(step.dsync || step.direct) {
            continue;
        }
        let opener = steps[..number].iter_mut().rev().find(|other| {
            matches!(other.op, Op::Open | Op::Create) && other.fd == step.descriptor() as usize
        });
        if let Some(opener) = opener {
            opener.dsync |= step.dsync;
            opener.direct |= step.direct;
        }
    }
}

/// Returns the descriptors that are open before the clock starts, each with the step that opens it.
/// That step gets `dsync` and O_DIRECT of all steps on the descriptor.
fn opened_beforehand(thread: &Thread, steps: &mut [CompiledStep]) -> Vec<(usize, usize)> {
    let mut beforehand = Vec::new();
    for (fd, first) in thread.beforehand() {
        let opener = thread
            .steps
            .iter()
            .position(|step| std::ptr::eq(step, first))
            .unwrap_or(0);
        let users = thread
            .steps
            .iter()
            .filter(|step| step.op.moves_data() && !step.rotate && step.descriptor() == fd);
        for user in users {
            steps[opener].dsync |= user.dsync;
            steps[opener].direct |= user.direct;
        }
        beforehand.push((fd as usize, opener));
    }
    beforehand
}

/// Returns the most bytes that a step moves in one call.
fn largest(step: &FlowStep) -> u64 {
    match step.op {
        Op::ReadWhole | Op::WriteWhole => step.record.map_or(RECORD, |record| record.0),
        _ => step.size.map_or(1, |size| entries::largest_size(&size)),
    }
}

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
    /// The work of each thread so far, for steps that end the flow by the work of all threads;
    /// empty if there are none.
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
        let root = backend
            .namespace()
            .open_root(&path)
            .map_err(|errno| EngineError::call("open", &path, errno))?;
        let (programs, points) = compile(flow);
        let threads = flow.instances() as u32;
        let summed = flow
            .threads
            .iter()
            .flat_map(|thread| &thread.steps)
            .any(|step| {
                use fsb_model::flow::Op::{FinishOnBytes, FinishOnCount};
                matches!(step.op, FinishOnCount | FinishOnBytes) && step.target.is_none()
            });
        Ok(FlowShared {
            programs,
            sets: entries::sets(flow, source.seed),
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
            seats: (0..if summed { threads } else { 0 })
                .map(|_| CachePadded::default())
                .collect(),
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
        (0..self.threads)
            .map(|rank| &self.programs[self.role(rank).0])
            .collect()
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
        [0, 1].map(|which| {
            self.seats
                .iter()
                .map(|CachePadded(seat)| seat[which].load(Ordering::Relaxed))
                .sum()
        })
    }

    /// Builds the error of a failed call on a file.
    #[cold]
    pub(super) fn refused(&self, call: &str, set: usize, file: u64, errno: Errno) -> EngineError {
        EngineError::call(call, self.sets[set].tree.show(&self.path, file), errno)
    }
}

/// The result of an operation.
pub(super) enum OpResult {
    /// The step is done and moved this number of bytes.
    Done(OperationKind, u64),
    /// The step was skipped, because another thread has the file open that it would delete.
    Skipped,
    /// There was no suitable file; `there` is whether other threads use such files now.
    Nothing { there: bool },
}

/// A file that a thread has open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) slot: FileSlot,
    pub(super) set: usize,
    pub(super) file: u64,
    pub(super) generation: u32,
    pub(super) position: u64,
    /// The file was deleted while it was open.
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

/// The longest sleep of a thread before it checks whether the work is over.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// The maximum number of operations that a thread takes at once from the remaining ones.
const BATCH: u64 = 8;

/// The remaining operations: threads take them a few at a time.
#[derive(Debug)]
pub(super) struct OperationBudget {
    taken: CachePadded<AtomicU64>,
    total: u64,
}

/// On a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct CachePadded<T>(pub(super) T);

impl OperationBudget {
    fn new(total: u64) -> OperationBudget {
        OperationBudget {
            taken: CachePadded(AtomicU64::new(0)),
            total,
        }
    }

    /// Takes up to `wanted` operations. Returns 0 if none remain.
    #[inline]
    pub(super) fn take(&self, wanted: u64) -> u64 {
        let wanted = wanted.clamp(1, BATCH);
        let before = self.taken.0.fetch_add(wanted, Ordering::Relaxed);
        self.total.saturating_sub(before).min(wanted)
    }

    /// Returns the number of operations that threads have taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken.0.load(Ordering::Relaxed).min(self.total)
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// A counter that threads wait for, and the number of waiting threads.
#[derive(Debug, Default)]
pub(super) struct Counter {
    value: AtomicU32,
    sleepers: AtomicU32,
}

impl Counter {
    pub(super) fn value(&self) -> u32 {
        self.value.load(Ordering::SeqCst)
    }

    fn add(&self, more: u32) {
        self.value.fetch_add(more, Ordering::SeqCst);
        self.wake();
    }

    /// Takes `wanted`, or takes nothing and returns the current value as an error.
    fn try_take(&self, wanted: u32) -> Result<(), u32> {
        self.value
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |found| {
                found.checked_sub(wanted)
            })
            .map(drop)
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // The only possible error is an invalid address.
            let _ = futex::wake(&self.value, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Sleeps while it has this value, but at most for `most` and for [`LONGEST_SLEEP`].
    pub(super) fn sleep(&self, seen: u32, most: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let most = most.min(LONGEST_SLEEP);
        let timeout = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        // A spurious wake-up, a changed value or a timeout: the waiting thread checks again.
        let _ = futex::wait(&self.value, futex::Flags::PRIVATE, seen, Some(&timeout));
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A semaphore as in filebench: a wait takes several posts at once, and a blocking post waits until
/// there is room for it.
#[derive(Debug)]
pub(super) struct Semaphore {
    pub(super) posts: CachePadded<Counter>,
    pub(super) room: Counter,
    value: u32,
}

impl Semaphore {
    fn new((value, high_water): (u32, u32)) -> Semaphore {
        let room = Counter {
            value: AtomicU32::new(high_water),
            ..Counter::default()
        };
        Semaphore {
            posts: CachePadded::default(),
            room,
            value,
        }
    }

    /// Announces a thread that waits, which makes room for as many more posts as it takes.
    pub(super) fn arrive(&self) {
        self.room.add(self.value);
    }

    /// Takes the posts of one wait, or returns the current number of posts as an error.
    pub(super) fn try_take(&self) -> Result<(), u32> {
        self.posts.0.try_take(self.value)
    }

    /// Posts, or returns the current room as an error. Only a `blocking` post needs room.
    pub(super) fn try_post(&self, posts: u32, blocking: bool) -> Result<(), u32> {
        if blocking {
            self.room.try_take(posts)?;
        }
        let before = self.posts.0.value.fetch_add(posts, Ordering::SeqCst);
        if before < self.value && before.saturating_add(posts) >= self.value {
            self.posts.0.wake();
        }
        Ok(())
    }
}

/// The flag that ends the work of all threads.
#[derive(Debug, Default)]
pub(super) struct StopFlag {
    over: AtomicBool,
    /// For threads that sleep until a point in time.
    sleep: Counter,
}

impl StopFlag {
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the work: threads begin no more steps.
    pub(super) fn finish(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            self.sleep.add(1);
        }
    }

    /// Sleeps for `nanoseconds`, or less.
    pub(super) fn sleep(&self, nanoseconds: u64) {
        if !self.is_over() {
            self.sleep.sleep(0, Duration::from_nanos(nanoseconds));
        }
    }
}

/// An event by which threads wake waiting steps.
#[derive(Debug, Default)]
pub(super) struct WakeEvent(pub(super) Counter);

impl WakeEvent {
    pub(super) fn wake(&self) {
        self.0.add(1);
    }
}

/// A rate limit. Events arrive at a fixed rate from the start of the clock on. A thread reserves
/// the events that it needs and waits until they have arrived.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// Nanoseconds of one of the 2^20 parts of an event, so that MiB and events are reserved alike.
    part_ns: f64,
    reserved: CachePadded<AtomicU64>,
    /// Time of the first reservation; 0 before it.
    origin: AtomicU64,
}

/// Parts of an event. A bandwidth limit reserves one part per byte.
pub(super) const PARTS: u64 = 1 << 20;

impl RateLimiter {
    fn new(rate: f64) -> RateLimiter {
        RateLimiter {
            part_ns: 1e9 / rate / PARTS as f64,
            reserved: CachePadded::default(),
            origin: AtomicU64::new(0),
        }
    }

    /// Reserves parts of events. Returns the time at which they will have arrived.
    pub(super) fn reserve(&self, parts: u64, now: u64) -> u64 {
        let origin =
            match self
                .origin
                .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => now,
                Err(origin) => origin,
            };
        let before = self.reserved.0.fetch_add(parts, Ordering::Relaxed);
        origin + ((before + parts) as f64 * self.part_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_descriptor_that_is_open_beforehand_has_the_flags_of_all_its_steps() {
        let flow = Flow::from_toml(
            "name = \"mixed\"\n[[fileset]]\nname = \"files\"\nfiles = 1\nsize = 4096\n[[thread]]\nname = \"one\"\nsteps = [\n\
             { op = \"read\", set = \"files\", size = 10 },\n\
             { op = \"write\", set = \"files\", size = 10, dsync = true },\n\
             { op = \"read\", set = \"files\", fd = 2, size = 10 },\n\
             { op = \"read\", set = \"files\", fd = 2, size = 10, direct = true },\n]\n",
        )
        .unwrap();
        let (programs, _) = compile(&flow);
        let Program {
            beforehand, steps, ..
        } = &programs[0];
        let flags: Vec<_> = beforehand
            .iter()
            .map(|&(fd, at)| (fd, at, steps[at].dsync, steps[at].direct))
            .collect();
        assert_eq!(flags, [(0, 0, true, false), (2, 2, false, true)]);
    }

    #[test]
    fn no_more_tickets_are_given_than_there_are() {
        let budget = OperationBudget::new(1001);
        let taken: u64 = thread::scope(|scope| {
            let taker = || {
                std::iter::from_fn(|| Some(budget.take(5)).filter(|&taken| taken > 0)).sum::<u64>()
            };
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(taker)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!((taken, budget.taken(), budget.take(1)), (1001, 1001, 0));
    }

    #[test]
    fn posts_are_taken_together_and_blocking_ones_need_room() {
        let semaphore = Semaphore::new((3, 2));
        assert_eq!(semaphore.try_post(1, true), Ok(()));
        assert_eq!(semaphore.try_post(1, true), Ok(()));
        assert_eq!(
            semaphore.try_post(1, true),
            Err(0),
            "two are the most before a thread waits"
        );
        assert_eq!(semaphore.try_take(), Err(2));
        semaphore.arrive();
        assert_eq!(semaphore.try_post(1, true), Ok(()));
        assert_eq!(semaphore.try_take(), Ok(()));
        assert_eq!(
            (semaphore.try_post(9, false), semaphore.posts.0.value()),
            (Ok(()), 9)
        );
    }

    #[test]
    fn who_sleeps_is_woken_by_a_post() {
        let semaphore = Semaphore::new((2, 100));
        thread::scope(|scope| {
            scope.spawn(|| assert!((0..2000).all(|_| semaphore.try_post(1, false).is_ok())));
            for _ in 0..1000 {
                while let Err(seen) = semaphore.try_take() {
                    semaphore.posts.0.sleep(seen, LONGEST_SLEEP);
                }
            }
        });
        assert_eq!(semaphore.posts.0.value(), 0);
    }

    #[test]
    fn events_come_at_their_rate() {
        let rate_limiter = RateLimiter::new(1000.0);
        assert_eq!(rate_limiter.reserve(PARTS, 50), 1_000_050);
        assert_eq!(rate_limiter.reserve(2 * PARTS, 99), 3_000_050);
    }
}
