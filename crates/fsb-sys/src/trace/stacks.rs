//! Traces the waits and the CPU time of the threads of a process, with their kernel stacks. The
//! eBPF programs run when the kernel switches a thread off a processor or on again, when another
//! task wakes it, and at a timer while it runs. More of them trace contended locks, the requests
//! and cache flushes that block devices serve, commits of file systems, and the waits of the
//! kernel's threads that work for these.
//!
//! Needs root (CAP_BPF and CAP_PERFMON) and Linux 5.8, but no BTF, no kprobes and no hardware
//! counters. Process numbers are those of this process's PID namespace. Of other namespaces, only
//! threads with the names of kernel threads are traced.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::bpf::{
    ARRAY, Assembler, CALL_MAP_DELETE, CALL_MAP_LOOKUP, CALL_MAP_UPDATE, HASH, KTIME_NS, MAP,
    MAP_CREATE, MAP_DELETE, MAP_LOOKUP, MAP_UPDATE, NO_WAKEUP, PERF_EVENT, R0, R1, R2, R3, R4, R6,
    R7, R8, R9, R10, RANDOM, RING_BUFFER, RING_RESERVE, RING_SUBMIT, Register, Ring, STACK_ID,
    STACK_TRACE, TRACEPOINT, Tracefs, bpf, count_run_time, load, number, own_namespace,
    run_time_ns, sample_processor,
};
use crate::read_text;

/// Size of the ring in bytes: room for two hundred thousand records between two drains.
const RING: usize = 16 << 20;
/// The most threads that are off their processors at a time.
const MOST_TASKS: u64 = 16_384;
/// The most different stacks. The place of a stack in the map is a hash value, and a stack whose
/// place is taken has no id. With this number, that concerns less than one in a hundred, if a trial
/// has some hundred stacks.
const MOST_STACKS: u64 = 65_536;
/// The most block requests under way, and the most locks that threads wait for.
const MOST_UNDER_WAY: u64 = 16_384;
/// The most functions of a stack. The innermost ones are kept.
pub const DEEPEST: usize = 64;
/// Nanoseconds of CPU time between two samples.
pub const SAMPLE_NS: u64 = 500_000;

/// An observation. Times are on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// A thread was off its processor.
    Off {
        /// The number of the thread.
        thread: u32,
        /// The number of its process; 0 for a thread of another PID namespace, whose own number is
        /// that of the first one.
        process: u32,
        /// The first letters of its name, if they are among [`KERNEL_THREADS`] and its process is
        /// not followed.
        named: Option<[u8; 4]>,
        out_ns: u64,
        /// When another task or an interrupt woke it; `None` if it could run all the time.
        woken_ns: Option<u64>,
        in_ns: u64,
        /// Whether it waited for something else than a processor.
        blocked: bool,
        /// The stack of the wait; none if it could run. A thread of the kernel that waits for work
        /// has [none](StackId::is_user).
        stack: StackId,
    },
    /// A thread ran.
    Ran {
        /// The number of its process.
        process: u32,
        at_ns: u64,
        stack: StackId,
    },
    /// A block device began or ended a flush of its cache.
    Flush {
        /// Major and minor number of the device.
        device: (u32, u32),
        at_ns: u64,
        began: bool,
    },
    /// The followed block device completed a request other than a flush.
    Request {
        issued_ns: u64,
        completed_ns: u64,
        /// Its first sector, of 512 bytes.
        sector: u64,
        sectors: u32,
        /// The first letter of the operation, such as `W`; `F` for a write after a flush.
        operation: u8,
    },
    /// A thread acquired a lock that another one had, or gave up.
    Contended {
        /// The number of the thread.
        thread: u32,
        /// The number of its process.
        process: u32,
        from_ns: u64,
        to_ns: u64,
        stack: StackId,
    },
    /// A file system committed.
    Committed {
        /// The place of the kind in [`COMMITS`].
        kind: usize,
        /// Major and minor number of the file system's device; 0 if the kernel does not report it.
        device: (u32, u32),
        at_ns: u64,
    },
}

impl Observation {
    /// Returns the time of its end, at which a program wrote it.
    pub fn ended_ns(&self) -> u64 {
        match *self {
            Observation::Off { in_ns, .. } => in_ns,
            Observation::Ran { at_ns, .. }
            | Observation::Flush { at_ns, .. }
            | Observation::Committed { at_ns, .. } => at_ns,
            Observation::Request { completed_ns, .. } => completed_ns,
            Observation::Contended { to_ns, .. } => to_ns,
        }
    }
}

/// The tracepoints of commits, and whether their records have the device.
pub const COMMITS: [(&str, bool); 4] = [
    ("jbd2/jbd2_end_commit", true),
    ("ext4/ext4_fc_commit_stop", true),
    ("xfs/xfs_log_force", true),
    ("btrfs/btrfs_transaction_commit", false),
];

/// The begin of the names of kernel threads that are traced.
pub const KERNEL_THREADS: [&[u8; 4]; 6] = [b"jbd2", b"xfsa", b"btrf", b"f2fs", b"loop", b"kwor"];

/// The number of a kernel stack, valid as long as its [`StackWatch`]; negative if the kernel
/// recorded none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub i64);

impl StackId {
    /// Returns whether a sampled thread ran in user mode, or a waiting thread of the kernel waited
    /// for work.
    pub fn is_user(self) -> bool {
        self.0 == -i64::from(libc::EFAULT)
    }

    /// Returns whether the programs left the stack out, to save time. They do so for most waits of
    /// kernel threads.
    pub fn is_left_out(self) -> bool {
        self.0 == i64::from(NO_STACK)
    }
}

/// Traces the threads of one process at a time until it is dropped.
#[derive(Debug)]
pub struct StackWatch {
    ring: Ring,
    followed: OwnedFd,
    process: Option<u32>,
    devices: OwnedFd,
    device: Option<u32>,
    stacks: OwnedFd,
    lost: OwnedFd,
    reports_contention: bool,
    programs: Vec<OwnedFd>,
    counts_run_time: Option<OwnedFd>,
    _kept: Vec<OwnedFd>,
}

impl StackWatch {
    /// Starts without a process.
    ///
    /// # Errors
    /// Fails if the kernel is too old or was built without eBPF or tracepoints, or if this process
    /// lacks the privileges.
    pub fn open() -> io::Result<StackWatch> {
        StackWatch::with_room(MOST_STACKS)
    }

    /// Starts with room for a number of different stacks.
    fn with_room(most_stacks: u64) -> io::Result<StackWatch> {
        let map = |kind: u64, [key, value]: [u64; 2], entries: u64| {
            bpf(MAP_CREATE, &[kind | key << 32, value | entries << 32])
        };
        let (followed, devices) = (map(HASH, [4, 8], 4)?, map(HASH, [4, 8], 4)?);
        let (asleep, issued) = (
            map(HASH, [4, asleep::SIZE], MOST_TASKS)?,
            map(HASH, [8, 8], MOST_UNDER_WAY)?,
        );
        let contended = map(HASH, [16, 16], MOST_UNDER_WAY)?;
        let (stacks, lost) = (
            map(STACK_TRACE, [4, 8 * DEEPEST as u64], most_stacks)?,
            map(ARRAY, [4, 8], 1)?,
        );
        let ring = bpf(MAP_CREATE, &[RING_BUFFER, (RING as u64) << 32])?;
        let known = Known {
            namespace: own_namespace()?,
            followed: followed.as_raw_fd(),
            devices: devices.as_raw_fd(),
            asleep: asleep.as_raw_fd(),
            issued: issued.as_raw_fd(),
            contended: contended.as_raw_fd(),
            stacks: stacks.as_raw_fd(),
            lost: lost.as_raw_fd(),
            ring: ring.as_raw_fd(),
        };
        let tracefs = Tracefs::mount()?;
        let mut kept = vec![asleep, issued, contended];
        let switch = tracefs.tracepoint("sched/sched_switch")?;
        let at = Switch {
            name: switch.offset("char prev_comm[16]", 16)?,
            previous: switch.offset("pid_t prev_pid", 4)?,
            state: switch.offset("long prev_state", 8)?,
            next: switch.offset("pid_t next_pid", 4)?,
        };
        let waking = tracefs.tracepoint("sched/sched_waking")?;
        let woken = waking.offset("pid_t pid", 4)?;
        let mut programs = vec![
            (waking, wakes(&known, woken)),
            (switch, switches(&known, &at)),
        ];
        for (name, kind) in [
            ("block/block_rq_complete", kind::FLUSHED),
            ("block/block_rq_issue", kind::FLUSHES),
        ] {
            let request = tracefs.tracepoint(name)?;
            let at = Request {
                device: request.offset("dev_t dev", 4)?,
                sector: request.offset("sector_t sector", 8)?,
                sectors: request.offset("unsigned int nr_sector", 4)?,
                flags: request.flags()?,
            };
            let timed = if kind == kind::FLUSHES {
                issues(&known, &at)
            } else {
                completes(&known, &at)
            };
            programs.push((request.clone(), timed));
            programs.push((request, flushes(&known, &at, kind)));
        }
        // Linux 5.19 and later report contention.
        let contention =
            ["lock/contention_end", "lock/contention_begin"].map(|name| tracefs.tracepoint(name));
        let reports_contention = contention.iter().all(Result::is_ok);
        for (tracepoint, begins) in contention
            .into_iter()
            .flatten()
            .zip([false, true])
            .filter(|_| reports_contention)
        {
            let lock = tracepoint.offset("void * lock_addr", 8)?;
            let code = if begins {
                contends(&known, lock)
            } else {
                acquires(&known, lock)
            };
            programs.push((tracepoint, code));
        }
        for (place, (name, has_device)) in COMMITS.into_iter().enumerate() {
            // A file system that is not loaded has no tracepoints.
            let Ok(commit) = tracefs.tracepoint(name) else {
                continue;
            };
            let device = if has_device {
                Some(commit.offset("dev_t dev", 4)?)
            } else {
                None
            };
            programs.push((
                commit,
                commits(&known, device, kind::COMMITTED + place as u64),
            ));
        }
        let mapped = Ring::map(&ring, RING)?;
        let mut loaded = Vec::new();
        for (tracepoint, code) in programs {
            let program = load(TRACEPOINT, &code)?;
            kept.push(tracepoint.attach(&program)?);
            loaded.push(program);
        }
        let program = load(PERF_EVENT, &samples(&known))?;
        for processor in processors() {
            kept.push(sample_processor(processor, SAMPLE_NS, &program)?);
        }
        loaded.push(program);
        kept.push(ring);
        let (process, device) = (None, None);
        Ok(StackWatch {
            ring: mapped,
            followed,
            process,
            devices,
            device,
            stacks,
            lost,
            reports_contention,
            programs: loaded,
            counts_run_time: count_run_time().ok(),
            _kept: kept,
        })
    }

    /// Returns whether the kernel reports contended locks.
    pub fn reports_contention(&self) -> bool {
        self.reports_contention
    }

    /// Follows the threads of this process and the requests of this device instead of the previous
    /// ones.
    ///
    /// # Errors
    /// Fails if the kernel does not take the numbers.
    pub fn follow(&mut self, process: Option<u32>, device: Option<(u32, u32)>) -> io::Result<()> {
        exchange(&self.followed, &mut self.process, process)?;
        exchange(
            &self.devices,
            &mut self.device,
            device.map(|(major, minor)| major << 20 | minor),
        )
    }

    /// Removes all observations so far and passes them to `each`, in the order of their ends.
    pub fn drain(&mut self, mut each: impl FnMut(Observation)) {
        self.ring.drain(|record: Record| {
            let Record {
                kind,
                out_ns,
                woken_ns,
                in_ns,
                stack,
                task,
                state,
            } = record;
            let (thread, process) = (task as u32, (task >> 32) as u32);
            each(match kind {
                kind::OFF => Observation::Off {
                    thread,
                    process,
                    named: (process == 0).then_some(((state >> 32) as u32).to_ne_bytes()),
                    out_ns,
                    woken_ns: (woken_ns > 0).then_some(woken_ns),
                    in_ns,
                    blocked: state & BLOCKED != 0,
                    stack: StackId(stack),
                },
                kind::RAN => Observation::Ran {
                    process,
                    at_ns: out_ns,
                    stack: StackId(stack),
                },
                kind::REQUEST => Observation::Request {
                    issued_ns: out_ns,
                    completed_ns: in_ns,
                    sector: stack as u64,
                    sectors: woken_ns as u32,
                    operation: state as u8,
                },
                kind::CONTENDED => Observation::Contended {
                    thread,
                    process,
                    from_ns: out_ns,
                    to_ns: in_ns,
                    stack: StackId(stack),
                },
                kind::FLUSHES | kind::FLUSHED => Observation::Flush {
                    device: device(task),
                    at_ns: out_ns,
                    began: kind == kind::FLUSHES,
                },
                _ => {
                    let kind = (kind - kind::COMMITTED) as usize;
                    Observation::Committed {
                        kind,
                        device: device(task),
                        at_ns: out_ns,
                    }
                }
            });
        });
    }

    /// Returns the addresses of a stack's functions, the innermost first. Returns `None` if the
    /// kernel recorded none.
    pub fn addresses(&self, stack: StackId) -> Option<Vec<u64>> {
        let id = u32::try_from(stack.0).ok()?;
        let mut addresses = [0u64; DEEPEST];
        let words = [
            self.stacks.as_raw_fd() as u64,
            (&raw const id) as u64,
            addresses.as_mut_ptr() as u64,
        ];
        number(MAP_LOOKUP, &words).ok()?;
        Some(
            addresses
                .into_iter()
                .take_while(|address| *address != 0)
                .collect(),
        )
    }

    /// Returns the nanoseconds that the programs have run on all processors. Returns `None` if the
    /// kernel does not count them.
    pub fn run_time_ns(&self) -> Option<u64> {
        self.counts_run_time.as_ref()?;
        self.programs
            .iter()
            .map(run_time_ns)
            .sum::<io::Result<u64>>()
            .ok()
    }

    /// Returns the number of observations or stacks that were lost because the ring or a map was
    /// full.
    pub fn lost(&self) -> u64 {
        let (id, mut count) = (0u32, 0u64);
        let words = [
            self.lost.as_raw_fd() as u64,
            (&raw const id) as u64,
            (&raw mut count) as u64,
        ];
        number(MAP_LOOKUP, &words).map_or(0, |_| count)
    }
}

/// Decodes a device number as the kernel stores it internally.
fn device(number: u64) -> (u32, u32) {
    ((number >> 20) as u32, number as u32 & 0xf_ffff)
}

/// Replaces the only key of a map, which is `own`.
fn exchange(map: &OwnedFd, own: &mut Option<u32>, key: Option<u32>) -> io::Result<()> {
    let command = |command: i32, key: u32| {
        let value = 1u64;
        let words = [
            map.as_raw_fd() as u64,
            (&raw const key) as u64,
            (&raw const value) as u64,
        ];
        number(command, &words[..if command == MAP_DELETE { 2 } else { 3 }])
    };
    if let Some(previous) = own.take() {
        // The map also keeps a process that has ended.
        command(MAP_DELETE, previous)?;
    }
    *own = key;
    key.map_or(Ok(0), |key| command(MAP_UPDATE, key)).map(drop)
}

/// Returns the numbers of the processors that are online. Without /sys, returns as many numbers
/// from 0 on as this process may use processors.
fn processors() -> Vec<u32> {
    let text = read_text("/sys/devices/system/cpu/online").unwrap_or_default();
    let online: Vec<u32> = text
        .trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect();
    let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    if online.is_empty() {
        (0..count).collect()
    } else {
        online
    }
}

/// The names of the kernel's functions by their addresses.
#[derive(Debug)]
pub struct Symbols {
    /// Ordered by address.
    functions: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Reads /proc/kallsyms.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the kernel hides the addresses from this process.
    pub fn read() -> io::Result<Symbols> {
        let symbols = Symbols::parse(&read_text("/proc/kallsyms")?);
        if symbols.functions.is_empty() {
            return Err(io::Error::other(
                "the kernel hides addresses in /proc/kallsyms (kernel.kptr_restrict)",
            ));
        }
        Ok(symbols)
    }

    /// Parses lines such as `ffffffff812197ac t jbd2_journal_commit_transaction [jbd2]`. Leaves out
    /// data, and addresses that are hidden.
    fn parse(text: &str) -> Symbols {
        let mut functions: Vec<(u64, Box<str>)> = text
            .lines()
            .filter_map(|line: &str| {
                let mut fields = line.split_ascii_whitespace();
                let (address, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
                let address = u64::from_str_radix(address, 16)
                    .ok()
                    .filter(|address| *address > 0)?;
                matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.into()))
            })
            .collect();
        functions.sort_by_key(|(address, _)| *address);
        Symbols { functions }
    }

    /// Returns the name of the function that an address is in, without the suffix of a part that
    /// the compiler made (`.cold`, `.constprop.0`). Returns `None` for an address below all
    /// functions.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (_, name) = self.functions.get(after.checked_sub(1)?)?;
        name.split('.').next()
    }
}

// The eBPF programs. A thread that is switched off gets an entry in a map, under the number that
// the first PID namespace gives it, because the tracepoints know only that number. The entry
// becomes a record when the thread is switched on.

/// The bits of a thread's state in which it waits for something else than a processor: sleeping,
/// with signals or without, stopped, traced, parked, or idle.
const BLOCKED: u64 = 0xcf;
/// The bits of the state in which a thread of the kernel waits for work: it sleeps and admits
/// signals, or is idle. It waits for disks, locks and memory in another state.
const FOR_WORK: i32 = 0x81;
/// A flag of STACK_ID: the stack in user mode. Threads of the kernel have none, and the kernel
/// answers EFAULT at once.
const USER_STACK: i32 = 1 << 8;
/// The number of waits of kernel threads of which one has a stack, at random. A power of two.
const KERNEL_STACKS: i32 = 8;
/// The id of a stack that the programs left out.
const NO_STACK: i32 = -libc::ENODATA;
/// The id of a stack whose place in the map is taken by another one: `-EEXIST`.
const PLACE_TAKEN: i32 = -libc::EEXIST;
/// The bits of the state of a thread that has ended.
const ENDED: i32 = 0x30;

/// The kinds of records.
mod kind {
    pub(super) const OFF: u64 = 0;
    pub(super) const RAN: u64 = 1;
    pub(super) const FLUSHES: u64 = 2;
    pub(super) const FLUSHED: u64 = 3;
    pub(super) const REQUEST: u64 = 4;
    pub(super) const CONTENDED: u64 = 5;
    /// The first one of [`super::COMMITS`]. The others follow.
    pub(super) const COMMITTED: u64 = 16;
}

/// The entry of a thread that is off its processor. All fields have eight bytes.
mod asleep {
    pub(super) const OUT: i16 = 0;
    pub(super) const WOKEN: i16 = 8;
    pub(super) const STACK: i16 = 16;
    pub(super) const TASK: i16 = 24;
    pub(super) const STATE: i16 = 32;
    /// The size in bytes.
    pub(super) const SIZE: u64 = 40;
}

/// A record as the programs write it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Record {
    kind: u64,
    /// Of a sample, a flush or a commit, its only time.
    out_ns: u64,
    /// Of a request, its number of sectors.
    woken_ns: u64,
    in_ns: u64,
    /// Of a request, its first sector.
    stack: i64,
    /// The thread, with its process in the upper half; of a flush or a commit, the device.
    task: u64,
    /// The name of a thread of the kernel is in its upper half. Of a request, the first letter of
    /// its operation.
    state: u64,
}

/// The offsets of the fields of a record.
mod record {
    pub(super) const KIND: i16 = 0;
    pub(super) const OUT: i16 = 8;
    pub(super) const WOKEN: i16 = 16;
    pub(super) const IN: i16 = 24;
    pub(super) const STACK: i16 = 32;
    pub(super) const TASK: i16 = 40;
    pub(super) const STATE: i16 = 48;
    /// All but the kind.
    pub(super) const FIELDS: [i16; 6] = [OUT, WOKEN, IN, STACK, TASK, STATE];
}

/// The origin of the value of a field of a record.
enum Origin {
    Register(Register),
    /// Eight bytes at an offset from the address in a register.
    Word(Register, i16),
    /// Four bytes at an offset from the address in a register.
    Half(Register, i16),
}

/// The kernel objects that the programs use.
struct Known {
    namespace: (u64, u64),
    /// The processes whose threads are followed.
    followed: i32,
    /// The devices whose requests are.
    devices: i32,
    asleep: i32,
    /// When each request was issued, by its first sector.
    issued: i32,
    /// When a thread began to wait for a lock, and its stack, by the address of the lock and the
    /// thread.
    contended: i32,
    stacks: i32,
    lost: i32,
    ring: i32,
}

/// The offsets of fields in a record of `sched_switch`.
struct Switch {
    name: i16,
    previous: i16,
    state: i16,
    next: i16,
}

/// The offsets of fields in a record of a block request.
struct Request {
    device: i16,
    sector: i16,
    sectors: i16,
    flags: i16,
}

/// Offsets on the stack, from its end. [`Assembler::number_task`] writes the number of the current
/// thread.
const CURRENT: i16 = -8;
const ENTRY: i16 = -56;
const KEY: i16 = -64;
const ZERO: i16 = -72;
const LOCK: i16 = -88;

impl Assembler {
    /// Stores the eight or sixteen bytes at `value` on the stack under the key at `key`.
    fn update(&mut self, known: &Known, map: i32, [key, value]: [i16; 2]) {
        self.wide(R1, map as u64, MAP);
        for (register, place) in [(R2, key), (R3, value)] {
            self.copy(register, R10);
            self.add(register, i32::from(place));
        }
        self.set(R4, 0);
        self.call(CALL_MAP_UPDATE);
        let stored = self.jump_if_equal(R0, 0);
        self.count_lost(known);
        self.land(stored);
    }

    fn delete(&mut self, map: i32, key: i16) {
        self.wide(R1, map as u64, MAP);
        self.copy(R2, R10);
        self.add(R2, i32::from(key));
        self.call(CALL_MAP_DELETE);
    }

    /// Ends unless the context in R6 is that of a request of a followed device, other than a flush.
    /// The first letter of its operation is in R7, and its first sector on the stack, at [`KEY`].
    fn expect_request(&mut self, known: &Known, at: &Request) {
        self.load_half(R1, R6, at.device);
        self.store_half(R10, KEY, R1);
        self.look_up(known.devices, KEY);
        self.end_if_equal(R0, 0);
        self.load_byte(R7, R6, at.flags);
        let carries_data = self.jump_unless_equal(R7, i32::from(b'F'));
        self.load_byte(R1, R6, at.flags + 1);
        self.end_unless_equal(R1, i32::from(b'W'));
        self.land(carries_data);
        self.load(R1, R6, at.sector);
        self.store(R10, KEY, R1);
    }

    /// Ends unless the current thread is followed. Stores the lock of the context in R6 and the
    /// thread on the stack, at [`LOCK`].
    fn expect_lock(&mut self, known: &Known, lock: i16) {
        self.expect_followed(known);
        self.load(R1, R6, lock);
        self.store(R10, LOCK, R1);
        self.load(R1, R10, CURRENT);
        self.store(R10, LOCK + 8, R1);
    }

    /// Looks up the key at `key` on the stack. Sets R0 to the address of the value, or to 0 if the
    /// map has no such key.
    fn look_up(&mut self, map: i32, key: i16) {
        self.wide(R1, map as u64, MAP);
        self.copy(R2, R10);
        self.add(R2, i32::from(key));
        self.call(CALL_MAP_LOOKUP);
    }

    /// Ends unless the current thread belongs to a followed process.
    fn expect_followed(&mut self, known: &Known) {
        self.number_task(known.namespace);
        self.look_up(known.followed, -4);
        self.end_if_equal(R0, 0);
    }

    /// Stores the id of the kernel stack of the context in R6 into R0. The id is negative if there
    /// is none. If the place of the stack in the map is taken, uses the place that it has without
    /// its innermost function.
    fn stack_id(&mut self, known: &Known) {
        let found = [0, 1].map(|skipped| {
            self.call_stack_id(known, skipped);
            self.jump_unless_equal(R0, PLACE_TAKEN)
        });
        self.count_lost(known);
        self.set(R0, PLACE_TAKEN);
        found.into_iter().for_each(|jump| self.land(jump));
    }

    /// Stores the answer of STACK_ID for the context in R6 into R0. The low bits of `flags` are the
    /// number of functions to skip.
    fn call_stack_id(&mut self, known: &Known, flags: i32) {
        self.copy(R1, R6);
        self.wide(R2, known.stacks as u64, MAP);
        self.set(R3, flags);
        self.call(STACK_ID);
    }

    fn count_lost(&mut self, known: &Known) {
        self.store_number(R10, ZERO, 0);
        self.look_up(known.lost, ZERO);
        let none = self.jump_if_equal(R0, 0);
        self.set(R1, 1);
        self.add_atomically(R0, 0, R1);
        self.land(none);
    }

    /// Reserves a record, writes it and submits it. Fields that are not among `fields` are 0.
    fn write_record(&mut self, known: &Known, kind: u64, fields: &[(i16, Origin)]) {
        self.wide(R1, known.ring as u64, MAP);
        self.set(R2, size_of::<Record>() as i32);
        self.set(R3, 0);
        self.call(RING_RESERVE);
        let reserved = self.jump_unless_equal(R0, 0);
        self.count_lost(known);
        let lost = self.jump();
        self.land(reserved);
        self.store_number(R0, record::KIND, kind as i32);
        for field in record::FIELDS {
            match fields.iter().find(|(own, _)| *own == field) {
                None => self.store_number(R0, field, 0),
                Some((_, Origin::Register(register))) => self.store(R0, field, *register),
                Some((_, Origin::Word(base, offset))) => {
                    self.load(R1, *base, *offset);
                    self.store(R0, field, R1);
                }
                Some((_, Origin::Half(base, offset))) => {
                    self.load_half(R1, *base, *offset);
                    self.store(R0, field, R1);
                }
            }
        }
        self.copy(R1, R0);
        self.set(R2, NO_WAKEUP);
        self.call(RING_SUBMIT);
        self.land(lost);
    }
}

/// Builds the program that runs when a processor switches from one thread to another one.
fn switches(known: &Known, at: &Switch) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    // The next thread: its entry becomes a record.
    asm.load_half(R1, R6, at.next);
    let idles = asm.jump_if_equal(R1, 0);
    asm.store_half(R10, KEY, R1);
    asm.look_up(known.asleep, KEY);
    let unknown = asm.jump_if_equal(R0, 0);
    asm.copy(R8, R0);
    asm.call(KTIME_NS);
    asm.copy(R7, R0);
    let fields = [
        (record::IN, Origin::Register(R7)),
        (record::OUT, Origin::Word(R8, asleep::OUT)),
        (record::WOKEN, Origin::Word(R8, asleep::WOKEN)),
        (record::STACK, Origin::Word(R8, asleep::STACK)),
        (record::TASK, Origin::Word(R8, asleep::TASK)),
        (record::STATE, Origin::Word(R8, asleep::STATE)),
    ];
    asm.write_record(known, kind::OFF, &fields);
    asm.delete(known.asleep, KEY);
    [idles, unknown].into_iter().for_each(|jump| asm.land(jump));
    // The previous thread, which is still the current one. An idle processor has none.
    asm.load_half(R1, R6, at.previous);
    asm.end_if_equal(R1, 0);
    asm.set(R9, 0);
    asm.call_number_task(known.namespace);
    let elsewhere = asm.jump_unless_equal(R0, 0);
    asm.look_up(known.followed, -4);
    let followed = asm.jump_unless_equal(R0, 0);
    asm.land(elsewhere);
    // Threads of the kernel are recorded without a process, by their number in the first namespace.
    asm.load_half(R9, R6, at.name);
    let named = KERNEL_THREADS.map(|name| asm.jump_if_equal(R9, i32::from_ne_bytes(*name)));
    asm.end();
    named.into_iter().for_each(|jump| asm.land(jump));
    asm.load_half(R1, R6, at.previous);
    asm.store(R10, CURRENT, R1);
    asm.land(followed);
    asm.load(R7, R6, at.state);
    asm.end_if_any(R7, ENDED);
    // To walk a stack takes longer than all else here. A thread that could run needs none.
    asm.set(R0, NO_STACK);
    let blocked = asm.jump_if_any(R7, BLOCKED as i32);
    let runnable = asm.jump();
    asm.land(blocked);
    let own = asm.jump_if_equal(R9, 0);
    // Neither does a thread of the kernel that waits for work. Of its other waits, some suffice.
    let for_work = asm.jump_if_any(R7, FOR_WORK);
    asm.call(RANDOM);
    asm.copy(R1, R0);
    asm.set(R0, NO_STACK);
    let left_out = asm.jump_if_any(R1, KERNEL_STACKS - 1);
    asm.land(own);
    asm.stack_id(known);
    let walked = asm.jump();
    asm.land(for_work);
    asm.call_stack_id(known, USER_STACK);
    [runnable, left_out, walked]
        .into_iter()
        .for_each(|jump| asm.land(jump));
    asm.store(R10, ENTRY + asleep::STACK, R0);
    asm.load(R1, R10, CURRENT);
    asm.store(R10, ENTRY + asleep::TASK, R1);
    asm.store(R10, ENTRY + asleep::STATE, R7);
    asm.store_half(R10, ENTRY + asleep::STATE + 4, R9);
    asm.store_number(R10, ENTRY + asleep::WOKEN, 0);
    asm.call(KTIME_NS);
    asm.store(R10, ENTRY + asleep::OUT, R0);
    asm.load_half(R1, R6, at.previous);
    asm.store_half(R10, KEY, R1);
    asm.update(known, known.asleep, [KEY, ENTRY]);
    // Other listeners of this tracepoint must receive the event too.
    asm.finish(1)
}

/// Builds the program that runs when a thread is woken, whose number is at offset `number_at`. It
/// notes the time in the entry of a followed thread.
fn wakes(known: &Known, number_at: i16) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.load_half(R1, R1, number_at);
    asm.store_half(R10, KEY, R1);
    asm.look_up(known.asleep, KEY);
    asm.end_if_equal(R0, 0);
    asm.copy(R8, R0);
    asm.load(R1, R8, asleep::WOKEN);
    asm.end_unless_equal(R1, 0);
    asm.call(KTIME_NS);
    asm.store(R8, asleep::WOKEN, R0);
    asm.finish(1)
}

/// Builds the program that runs after each [`SAMPLE_NS`] of CPU time of a processor.
fn samples(known: &Known) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.expect_followed(known);
    asm.stack_id(known);
    asm.copy(R7, R0);
    asm.call(KTIME_NS);
    asm.copy(R8, R0);
    let fields = [
        (record::OUT, Origin::Register(R8)),
        (record::STACK, Origin::Register(R7)),
        (record::TASK, Origin::Word(R10, CURRENT)),
    ];
    asm.write_record(known, kind::RAN, &fields);
    asm.finish(0)
}

/// Builds the program that runs when a block device gets a request or has served one. Only cache
/// flushes are recorded: their flags begin with `F`, and no `W` follows, which would be a write
/// that a flush precedes.
fn flushes(known: &Known, at: &Request, kind: u64) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.load_byte(R7, R1, at.flags);
    asm.end_unless_equal(R7, i32::from(b'F'));
    asm.load_byte(R7, R1, at.flags + 1);
    asm.end_if_equal(R7, i32::from(b'W'));
    asm.load_half(R7, R1, at.device);
    asm.call(KTIME_NS);
    asm.copy(R8, R0);
    asm.write_record(
        known,
        kind,
        &[
            (record::OUT, Origin::Register(R8)),
            (record::TASK, Origin::Register(R7)),
        ],
    );
    asm.finish(1)
}

/// Builds the program that runs when a block device gets a request. It notes the time of a followed
/// device's.
fn issues(known: &Known, at: &Request) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.expect_request(known, at);
    asm.call(KTIME_NS);
    asm.store(R10, ENTRY, R0);
    asm.update(known, known.issued, [KEY, ENTRY]);
    asm.finish(1)
}

/// Builds the program that runs when a block device has served a request.
fn completes(known: &Known, at: &Request) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.expect_request(known, at);
    asm.look_up(known.issued, KEY);
    asm.end_if_equal(R0, 0);
    asm.load(R8, R0, 0);
    asm.delete(known.issued, KEY);
    asm.call(KTIME_NS);
    asm.copy(R9, R0);
    let fields = [
        (record::OUT, Origin::Register(R8)),
        (record::IN, Origin::Register(R9)),
        (record::WOKEN, Origin::Half(R6, at.sectors)),
        (record::STACK, Origin::Word(R6, at.sector)),
        (record::STATE, Origin::Register(R7)),
    ];
    asm.write_record(known, kind::REQUEST, &fields);
    asm.finish(1)
}

/// Builds the program that runs when a thread begins to wait for a lock, whose address is at offset
/// `lock`. It notes the time and the stack. A lock that is first spun for and then slept for begins
/// twice, and the first time counts.
fn contends(known: &Known, lock: i16) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.expect_lock(known, lock);
    asm.look_up(known.contended, LOCK);
    asm.end_unless_equal(R0, 0);
    asm.stack_id(known);
    asm.store(R10, ENTRY + 8, R0);
    asm.call(KTIME_NS);
    asm.store(R10, ENTRY, R0);
    asm.update(known, known.contended, [LOCK, ENTRY]);
    asm.finish(1)
}

/// Builds the program that runs when a thread has the lock that it waited for, or gives up.
fn acquires(known: &Known, lock: i16) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.expect_lock(known, lock);
    asm.look_up(known.contended, LOCK);
    asm.end_if_equal(R0, 0);
    asm.load(R7, R0, 0);
    asm.load(R8, R0, 8);
    asm.delete(known.contended, LOCK);
    asm.call(KTIME_NS);
    asm.copy(R9, R0);
    let fields = [
        (record::OUT, Origin::Register(R7)),
        (record::IN, Origin::Register(R9)),
        (record::STACK, Origin::Register(R8)),
        (record::TASK, Origin::Word(R10, CURRENT)),
    ];
    asm.write_record(known, kind::CONTENDED, &fields);
    asm.finish(1)
}

/// Builds the program that runs when a file system has committed. `device` is the offset of its
/// device in the record.
fn commits(known: &Known, device: Option<i16>, kind: u64) -> Vec<u64> {
    let mut asm = Assembler::default();
    match device {
        Some(device) => asm.load_half(R7, R1, device),
        None => asm.set(R7, 0),
    }
    asm.call(KTIME_NS);
    asm.copy(R8, R0);
    asm.write_record(
        known,
        kind,
        &[
            (record::OUT, Origin::Register(R8)),
            (record::TASK, Origin::Register(R7)),
        ],
    );
    asm.finish(1)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn functions_are_found_by_the_addresses_within_them() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t ext4_sync_file\nffffffff81000200 t sync_it.constprop.0\n\
                    ffffffff81000300 d some_data\n0000000000000000 T hidden\nffffffffc0000000 t xfs_log_force\t[xfs]\n";
        let symbols = Symbols::parse(text);
        assert_eq!(symbols.name(0xffff_ffff_8100_0180), Some("ext4_sync_file"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0200), Some("sync_it"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0010), Some("xfs_log_force"));
        assert_eq!(symbols.name(0x10), None);
        assert_eq!(
            Symbols::parse("0000000000000000 T _text\n").functions.len(),
            0
        );
    }

    /// With room for one stack, that of the wait below or that of a sample has none.
    #[test]
    fn a_stack_whose_place_is_taken_is_counted_as_lost() {
        if !fsb_testkit::root_for("a_stack_whose_place_is_taken_is_counted_as_lost") {
            return;
        }
        let mut watch = StackWatch::with_room(1).expect("programs that the kernel accepts");
        watch
            .follow(Some(std::process::id()), None)
            .expect("follow");
        let file = tempfile::NamedTempFile::new().expect("file");
        let mut stacks = std::collections::BTreeSet::new();
        for _ in 0..200 {
            file.as_file().write_all(b"x").expect("write");
            file.as_file().sync_all().expect("sync");
            let child = std::process::Command::new("true").status();
            assert!(child.expect("true").success());
            watch.drain(|observation| {
                if let Observation::Off { process, stack, .. } = observation
                    && process == std::process::id()
                {
                    stacks.insert(stack);
                }
            });
            if stacks.contains(&StackId(PLACE_TAKEN.into())) {
                break;
            }
        }
        assert!(
            stacks.contains(&StackId(PLACE_TAKEN.into())) && watch.lost() > 0,
            "{stacks:?}, {} lost",
            watch.lost()
        );
    }

    /// A child that waits for its standard input is off its processor until this process writes
    /// there.
    #[test]
    fn a_thread_that_waits_for_a_pipe_is_seen_with_its_stack() {
        if !fsb_testkit::root_for("a_thread_that_waits_for_a_pipe_is_seen_with_its_stack") {
            return;
        }
        let mut watch = StackWatch::open().expect("programs that the kernel accepts");
        let symbols = Symbols::read().expect("names of functions");
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        watch.follow(Some(child.id()), None).expect("follow");
        let (mut input, mut output) = (
            child.stdin.take().expect("pipe"),
            child.stdout.take().expect("pipe"),
        );
        let mut byte = [0u8];
        let state = || {
            crate::process::state(
                &std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?,
            )
        };
        for _ in 0..100 {
            // On a shared processor each byte could otherwise be there before the child asks for
            // it.
            while state() != Some('S') {
                std::thread::yield_now();
            }
            input.write_all(b"x").expect("write");
            std::io::Read::read_exact(&mut output, &mut byte).expect("read");
        }
        drop(input);
        child.wait().expect("end");
        watch.follow(None, None).expect("no process");
        let mut waits = Vec::new();
        watch.drain(|observation| {
            if let Observation::Off {
                process,
                named: None,
                out_ns,
                woken_ns,
                in_ns,
                blocked: true,
                stack,
                ..
            } = observation
            {
                assert_eq!(process, child.id());
                assert!(
                    out_ns < in_ns
                        && woken_ns.is_none_or(|woken| (out_ns..=in_ns).contains(&woken))
                );
                waits.push(stack);
            }
        });
        let is_read = |stack: &StackId| {
            let addresses = watch.addresses(*stack).unwrap_or_default();
            addresses.iter().any(|address| {
                symbols
                    .name(*address)
                    .is_some_and(|name| name.contains("pipe_read"))
            })
        };
        assert!(waits.iter().any(is_read), "{} waits", waits.len());
        assert_eq!(watch.lost(), 0);
        assert!(watch.run_time_ns() > Some(0), "{:?}", watch.run_time_ns());
    }

    /// Two threads that make and remove a directory in the same one need its lock.
    #[test]
    fn a_lock_that_two_threads_want_is_seen_with_the_function_that_requested_it() {
        if !fsb_testkit::root_for(
            "a_lock_that_two_threads_want_is_seen_with_the_function_that_requested_it",
        ) {
            return;
        }
        let mut watch = StackWatch::open().expect("programs that the kernel accepts");
        if !watch.reports_contention() {
            eprintln!("skipped: this kernel does not report contended locks");
            return;
        }
        let symbols = Symbols::read().expect("names of functions");
        let place = tempfile::tempdir().expect("directory");
        watch
            .follow(Some(std::process::id()), None)
            .expect("follow");
        let mut stacks = Vec::new();
        for _ in 0..200 {
            std::thread::scope(|scope| {
                for name in ["a", "b"] {
                    let path = place.path().join(name);
                    scope.spawn(move || {
                        for _ in 0..200 {
                            std::fs::create_dir(&path).expect("create");
                            std::fs::remove_dir(&path).expect("remove");
                        }
                    });
                }
            });
            watch.drain(|observation| {
                if let Observation::Contended {
                    process,
                    from_ns,
                    to_ns,
                    stack,
                    ..
                } = observation
                {
                    assert_eq!(process, std::process::id());
                    assert!(from_ns <= to_ns);
                    stacks.push(stack);
                }
            });
            let requested = |stack: &StackId| {
                let addresses = watch.addresses(*stack).unwrap_or_default();
                let mut names = addresses
                    .iter()
                    .filter_map(|address| symbols.name(*address));
                names.any(|name| name.contains("rmdir") || name.contains("mkdir"))
            };
            if stacks.iter().any(requested) {
                return;
            }
        }
        panic!("{} contended locks, none of a directory", stacks.len());
    }
}
