//! Traces system calls without stopping the tasks that make them: eBPF programs run at the kernel's raw tracepoints of
//! system calls, and at the tracepoint at which a task wakes another one.
//!
//! Needs root (CAP_BPF and CAP_PERFMON) and Linux 5.8. Task numbers are those of this process's namespace. The kernel
//! reports woken tasks by the numbers of its first PID namespace, so wakes are not traced in another namespace.
//!
//! The id of the wake tracepoint, and the offset of the woken task's number in its record, are read from tracefs. It
//! need not be mounted: a detached mount is sufficient and ends with its descriptor.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Size of the ring in bytes: room for more than two hundred thousand calls between two drains.
const RING: usize = 32 << 20;
/// Maximum number of watched tasks.
const MOST_TASKS: u32 = 16_384;

/// Commands of bpf(2), and the types of maps and programs.
const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const HASH: u64 = 1;
const RING_BUFFER: u64 = 27;
const TRACEPOINT: u64 = 5;
const RAW_TRACEPOINT: u64 = 17;
/// The licence of the instructions. The helpers that they call require it.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// A traced event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A call has ended.
    Ended(Ended),
    /// A task in a watched call was woken by a task in another watched call.
    Woken(Woken),
}

/// A task that was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    pub task: i32,
    /// The task that woke it.
    pub by: i32,
    /// The time, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The number of the waking task's call.
    pub number: u64,
    /// The arguments of that call.
    pub arguments: [u64; 6],
}

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The task that made the call.
    pub task: i32,
    pub number: u64,
    pub arguments: [u64; 6],
    /// The start time, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub end_ns: u64,
    /// An amount, or a negative error number.
    pub result: i64,
}

/// Traces chosen calls of chosen tasks until it is dropped.
#[derive(Debug)]
pub struct Watch {
    ring: Ring,
    tasks: OwnedFd,
    watched: HashSet<i32>,
    lost: u64,
    sees_wakes: bool,
    _kept: Vec<OwnedFd>,
}

impl Watch {
    /// Starts without tasks. `numbers` are call numbers of this machine. Memory that arguments point to is not read.
    ///
    /// # Errors
    /// Fails if the kernel is too old or was built without eBPF, or if this process lacks the privileges.
    pub fn open(numbers: &[i32]) -> io::Result<Watch> {
        let tasks = bpf(MAP_CREATE, &[HASH | 4 << 32, state::SIZE as u64 | u64::from(MOST_TASKS) << 32])?;
        let ring = bpf(MAP_CREATE, &[RING_BUFFER, (RING as u64) << 32])?;
        let namespace = std::fs::metadata("/proc/self/ns/pid")?;
        let known = Known {
            namespace: (device(namespace.dev()), namespace.ino()),
            tasks: tasks.as_raw_fd(),
            ring: ring.as_raw_fd(),
        };
        let begins = load(RAW_TRACEPOINT, &begins(&known, numbers))?;
        let ends = load(RAW_TRACEPOINT, &ends(&known))?;
        let mapped = Ring::map(&ring, RING)?;
        // Attach the end first. Otherwise a call could be recorded that no program at its end removes.
        let at_end = attach(c"sys_exit", &ends)?;
        let at_begin = attach(c"sys_enter", &begins)?;
        let mut kept = vec![at_end, at_begin, begins, ends, ring];
        // Without wakes, the calls are still useful.
        let wakes = attach_wakes(|number_at| load(TRACEPOINT, &wakes(&known, number_at)));
        let sees_wakes = wakes.is_ok();
        kept.extend(wakes.into_iter().flatten());
        Ok(Watch { ring: mapped, tasks, watched: HashSet::new(), lost: 0, sees_wakes, _kept: kept })
    }

    /// Returns whether wakes are traced.
    pub fn sees_wakes(&self) -> bool {
        self.sees_wakes
    }

    /// Starts tracing a task.
    ///
    /// # Errors
    /// Fails if too many tasks are traced.
    pub fn add(&mut self, task: i32) -> io::Result<()> {
        // This keeps the count of lost records when a task is added again because it executed another program.
        self.remove(task);
        let state = [0u64; state::SIZE / 8];
        self.map(MAP_UPDATE, task, state.as_ptr() as u64)?;
        self.watched.insert(task);
        Ok(())
    }

    /// Stops tracing a task that has ended or changed its number.
    pub fn remove(&mut self, task: i32) {
        if self.watched.remove(&task) {
            self.lost += self.lost_by(task);
            let _ = self.map(MAP_DELETE, task, 0);
        }
    }

    /// Removes all events from the ring and passes them to `each`, in order.
    pub fn drain(&mut self, mut each: impl FnMut(Event)) {
        self.ring.drain(|record: Record| {
            let task = record.task as u32 as i32;
            each(if record.number == WAKES as u64 {
                Event::Woken(Woken {
                    task: record.result as i32,
                    by: task,
                    at_ns: record.start_ns,
                    number: record.end_ns,
                    arguments: arguments(&record.registers),
                })
            } else {
                Event::Ended(Ended {
                    task,
                    number: record.number,
                    arguments: arguments(&record.registers),
                    start_ns: record.start_ns,
                    end_ns: record.end_ns,
                    result: record.result,
                })
            });
        });
    }

    /// Returns the number of records that the ring had no room for.
    pub fn lost(&self) -> u64 {
        self.lost + self.watched.iter().map(|task| self.lost_by(*task)).sum::<u64>()
    }

    fn lost_by(&self, task: i32) -> u64 {
        let mut state = [0u64; state::SIZE / 8];
        let found = self.map(MAP_LOOKUP, task, state.as_mut_ptr() as u64);
        if found.is_ok() { state[state::LOST as usize / 8] } else { 0 }
    }

    /// Runs a map command on a task's entry. The kernel reads or writes the value at address `value`.
    fn map(&self, command: i32, task: i32, value: u64) -> io::Result<()> {
        let key = task as u32;
        number(command, &[self.tasks.as_raw_fd() as u64, (&raw const key) as u64, value]).map(drop)
    }
}

/// Encodes a device number as the kernel stores it internally.
fn device(number: u64) -> u64 {
    u64::from(rustix::fs::major(number)) << 20 | u64::from(rustix::fs::minor(number))
}

fn load(kind: u64, code: &[u64]) -> io::Result<OwnedFd> {
    let words = [kind | (code.len() as u64) << 32, code.as_ptr() as u64, LICENCE.as_ptr() as u64];
    bpf(PROGRAM_LOAD, &words).map_err(|error| {
        // Load again with a log, to get the reason. The verifier's messages are for developers of fsb.
        let mut said = vec![0u8; 1 << 16];
        let loud = [words[0], words[1], words[2], 1 | (said.len() as u64) << 32, said.as_mut_ptr() as u64];
        let _ = bpf(PROGRAM_LOAD, &loud);
        let said = String::from_utf8_lossy(&said).trim_end_matches('\0').trim().to_owned();
        let last = said.lines().rev().find(|line| !line.starts_with("processed")).unwrap_or_default();
        if last.is_empty() { error } else { io::Error::other(format!("{error}: {last}")) }
    })
}

fn attach(tracepoint: &CStr, program: &OwnedFd) -> io::Result<OwnedFd> {
    bpf(RAW_TRACEPOINT_OPEN, &[tracepoint.as_ptr() as u64, program.as_raw_fd() as u64])
}

/// Runs a bpf(2) command that creates a descriptor.
fn bpf(command: i32, words: &[u64]) -> io::Result<OwnedFd> {
    let made = number(command, words)?;
    // SAFETY: the kernel has just made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Runs a bpf(2) command. The words are the start of its `union bpf_attr`; the rest is zero.
fn number(command: i32, words: &[u64]) -> io::Result<i32> {
    let mut attributes = [0u64; 16];
    attributes[..words.len()].copy_from_slice(words);
    // SAFETY: addresses among the words are of memory that outlives the call and is as large as the command expects.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(&attributes)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

const EVENT: &str = "events/sched/sched_waking";
/// The initial PID namespace of a machine (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u64 = 2;
/// The first published size of `struct perf_event_attr`.
const SIZE: u64 = 64;
/// Requests of `linux/perf_event.h`: PERF_EVENT_IOC_SET_BPF and PERF_EVENT_IOC_ENABLE.
const SET_PROGRAM: u64 = 0x4004_2408;
const ENABLE: u64 = 0x2400;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Attaches the wake program. `program` loads it for the offset of the woken task's number.
///
/// # Errors
/// Fails if the tracepoint does not exist, this process lacks the privileges, or task numbers are of another namespace.
fn attach_wakes(program: impl FnOnce(i16) -> io::Result<OwnedFd>) -> io::Result<[OwnedFd; 2]> {
    if std::fs::read_link("/proc/self/ns/pid")?.as_os_str() != FIRST_NAMESPACE {
        return Err(io::Error::other("numbers of tasks are of another namespace"));
    }
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    let unknown = || io::Error::other("the tracepoint looks otherwise than known");
    let id: u64 = text(&root, "id")?.trim().parse().map_err(|_| unknown())?;
    let program = program(number_at(&text(&root, "format")?).ok_or_else(unknown)?)?;
    let event = event(id)?;
    // SAFETY: requests on a descriptor of ours that take numbers.
    let attached = unsafe {
        libc::ioctl(event.as_raw_fd(), SET_PROGRAM as _, program.as_raw_fd()) == 0
            && libc::ioctl(event.as_raw_fd(), ENABLE as _, 0) == 0
    };
    if attached { Ok([event, program]) } else { Err(io::Error::last_os_error()) }
}

fn text(root: &OwnedFd, name: &str) -> io::Result<String> {
    let mut text = String::new();
    let file = openat(root, format!("{EVENT}/{name}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the offset of the woken task's number from a line such as `field:pid_t pid; offset:24; size:4; signed:1;`,
/// whose parts are separated by tabs.
fn number_at(format: &str) -> Option<i16> {
    let line = format.lines().find(|line| line.trim_start().starts_with("field:pid_t pid;"))?;
    let rest = line.split("offset:").nth(1)?;
    let (offset, rest) = rest.split_once(';')?;
    rest.contains("size:4;").then(|| offset.parse().ok()).flatten()
}

/// Opens the event on one processor. A program that is attached to it runs on all of them.
fn event(id: u64) -> io::Result<OwnedFd> {
    let mut attributes = [0u64; SIZE as usize / 8];
    (attributes[0], attributes[1]) = (TYPE_TRACEPOINT | SIZE << 32, id);
    // SAFETY: attributes as large as they say; of all tasks, on the first processor, in no group.
    let made = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_mut_ptr(), -1, 0, -1, CLOSE_ON_EXEC) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

// The eBPF programs, written as instructions, and the ring that the kernel writes their records into, with the layout
// of its `bpf_ringbuf`. One program runs at the start of a call, one at its end, and one when a task wakes another
// one.
//
// They are about a hundred instructions and need no compiler for another machine, so only this crate builds them. The
// layout of an instruction and the numbers of helpers are those of `linux/bpf.h`.

/// Registers. A helper takes its arguments in R1 to R5 and returns its result in R0. R6 to R9 survive the call. R10 is
/// the end of the stack.
type Register = u8;
const R0: Register = 0;
const R1: Register = 1;
const R2: Register = 2;
const R3: Register = 3;
const R4: Register = 4;
const R6: Register = 6;
const R7: Register = 7;
const R8: Register = 8;
const R9: Register = 9;
const R10: Register = 10;

/// Numbers of helpers.
const CALL_MAP_LOOKUP: i32 = 1;
const KTIME_NS: i32 = 5;
const READ_KERNEL: i32 = 113;
const NAMESPACE_TASK: i32 = 120;
const RING_RESERVE: i32 = 131;
const RING_SUBMIT: i32 = 132;
/// A flag of RING_SUBMIT: wake no reader.
const NO_WAKEUP: i32 = 1;
/// Marks a loaded number as the descriptor of a map.
const MAP: Register = 1;

/// The number of a record of a wake. The result is the number of the woken task, the end is the number of the waking
/// task's call, and the registers are those of that call.
const WAKES: i32 = 1 << 30;

/// The offset of the argument registers in `struct pt_regs`, and the number of bytes that hold them all.
#[cfg(target_arch = "x86_64")]
const REGISTERS: (i32, i32) = (56, 64);
/// The offset of the argument registers in `struct pt_regs`, and the number of bytes that hold them all.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: (i32, i32) = (0, 64);

/// Selects a call's arguments from the registers that were read.
fn arguments(registers: &[u64; 8]) -> [u64; 6] {
    // The registers are in the order r10, r9, r8, rax, rcx, rdx, rsi, rdi; arguments are in rdi, rsi, rdx, r10, r8, r9.
    #[cfg(target_arch = "x86_64")]
    let order = [7, 6, 5, 0, 2, 1];
    #[cfg(not(target_arch = "x86_64"))]
    let order = [0, 1, 2, 3, 4, 5];
    order.map(|at: usize| registers[at])
}

/// The layout of a task's state between the start of a call and its end. All fields have eight bytes.
mod state {
    /// The start time of the call.
    pub(super) const START: i16 = 0;
    /// The number of the call plus one; 0 outside a call.
    pub(super) const CALL: i16 = 8;
    /// Records that the ring had no room for.
    pub(super) const LOST: i16 = 16;
    /// Eight registers.
    pub(super) const REGISTERS: i16 = 24;
    /// The size of the state in bytes.
    pub(super) const SIZE: usize = 88;
}

/// Assembles instructions, and patches the jumps to their end.
#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    to_end: Vec<usize>,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, number: i32) {
        let word = u64::from(code)
            | u64::from(to) << 8
            | u64::from(from) << 12
            | u64::from(offset as u16) << 16
            | u64::from(number as u32) << 32;
        self.code.push(word);
    }

    fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    fn set(&mut self, to: Register, number: i32) {
        self.push(0xb7, to, 0, 0, number);
    }

    fn add(&mut self, to: Register, number: i32) {
        self.push(0x07, to, 0, 0, number);
    }

    fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x79, to, from, offset, 0);
    }

    /// Loads four bytes. The upper half of the register becomes 0.
    fn load_half(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x61, to, from, offset, 0);
    }

    fn store_half(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x63, to, from, offset, 0);
    }

    fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x7b, to, from, offset, 0);
    }

    fn store_number(&mut self, to: Register, offset: i16, number: i32) {
        self.push(0x7a, to, 0, offset, number);
    }

    /// Loads a number of eight bytes, or the descriptor of a map.
    fn wide(&mut self, to: Register, number: u64, what: Register) {
        self.push(0x18, to, what, 0, number as i32);
        self.push(0, 0, 0, 0, (number >> 32) as i32);
    }

    fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    fn end_if_equal(&mut self, register: Register, number: i32) {
        self.to_end.push(self.code.len());
        self.push(0x15, register, 0, 0, number);
    }

    fn end_unless_equal(&mut self, register: Register, number: i32) {
        self.to_end.push(self.code.len());
        self.push(0x55, register, 0, 0, number);
    }

    fn end_if_same(&mut self, one: Register, other: Register) {
        self.to_end.push(self.code.len());
        self.push(0x1d, one, other, 0, 0);
    }

    fn end(&mut self) {
        self.to_end.push(self.code.len());
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Skips `over` instructions if the register equals `number`.
    fn skip_if_equal(&mut self, register: Register, number: i32, over: i16) {
        self.push(0x15, register, 0, over, number);
    }

    fn skip_unless_equal(&mut self, register: Register, number: i32, over: i16) {
        self.push(0x55, register, 0, over, number);
    }

    /// Ends the program with the return value `answer`.
    fn finish(mut self, answer: i32) -> Vec<u64> {
        let end = self.code.len();
        for at in std::mem::take(&mut self.to_end) {
            self.code[at] |= ((end - at - 1) as u64 & 0xffff) << 16;
        }
        self.set(R0, answer);
        self.push(0x95, 0, 0, 0, 0);
        self.code
    }

    /// Reserves an empty record in R0. If the ring has no room, counts a lost record in the state at R8 and ends.
    fn reserve(&mut self, known: &Known) {
        self.wide(R1, known.ring as u64, MAP);
        self.set(R2, size_of::<Record>() as i32);
        self.set(R3, 0);
        self.call(RING_RESERVE);
        self.skip_unless_equal(R0, 0, 4);
        self.load(R1, R8, state::LOST);
        self.add(R1, 1);
        self.store(R8, state::LOST, R1);
        self.end();
    }

    /// Submits the record in R0 with the number of the current task and the registers in the state at R8.
    fn submit(&mut self) {
        self.load(R1, R10, -8);
        self.store(R0, 32, R1);
        for at in 0..8 {
            self.load(R1, R8, state::REGISTERS + 8 * at);
            self.store(R0, 40 + 8 * at, R1);
        }
        self.copy(R1, R0);
        self.set(R2, NO_WAKEUP);
        self.call(RING_SUBMIT);
    }

    /// Loads the address of the current task's state into R8. Ends if the task is not watched.
    fn find_task(&mut self, known: &Known) {
        // The helper writes the task number and the process number, as this process counts them: eight bytes on the
        // stack.
        self.wide(R1, known.namespace.0, 0);
        self.wide(R2, known.namespace.1, 0);
        self.copy(R3, R10);
        self.add(R3, -8);
        self.set(R4, 8);
        self.call(NAMESPACE_TASK);
        self.end_unless_equal(R0, 0);
        self.wide(R1, known.tasks as u64, MAP);
        self.copy(R2, R10);
        self.add(R2, -8);
        self.call(CALL_MAP_LOOKUP);
        self.end_if_equal(R0, 0);
        self.copy(R8, R0);
    }
}

/// The kernel objects that the programs use.
struct Known {
    /// Device and inode of the PID namespace whose task numbers are used.
    namespace: (u64, u64),
    /// The map of tasks.
    tasks: i32,
    ring: i32,
}

/// Builds the program that runs at the start of a call. It stores the time, the call number and the arguments.
fn begins(known: &Known, numbers: &[i32]) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.load(R7, R1, 8);
    for (at, number) in numbers.iter().enumerate() {
        // Skip the other comparisons and the jump to the end behind them.
        asm.skip_if_equal(R7, *number, (numbers.len() - at) as i16);
    }
    asm.end();
    asm.find_task(known);
    asm.load(R3, R6, 0);
    asm.add(R3, REGISTERS.0);
    asm.copy(R1, R8);
    asm.add(R1, i32::from(state::REGISTERS));
    asm.set(R2, REGISTERS.1);
    asm.call(READ_KERNEL);
    asm.add(R7, 1);
    asm.store(R8, state::CALL, R7);
    asm.call(KTIME_NS);
    asm.store(R8, state::START, R0);
    asm.finish(0)
}

/// Builds the program that runs at the end of a call. It writes a record into the ring.
fn ends(known: &Known) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.load(R7, R1, 8);
    asm.find_task(known);
    asm.load(R9, R8, state::CALL);
    asm.end_if_equal(R9, 0);
    // Take the time first: the rest of the program does not belong to the call.
    asm.call(KTIME_NS);
    asm.store(R10, -16, R0);
    asm.store_number(R8, state::CALL, 0);
    asm.reserve(known);
    asm.add(R9, -1);
    asm.store(R0, 0, R9);
    asm.load(R1, R8, state::START);
    asm.store(R0, 8, R1);
    asm.load(R1, R10, -16);
    asm.store(R0, 16, R1);
    asm.store(R0, 24, R7);
    asm.submit();
    asm.finish(0)
}

/// Builds the program that runs when a task wakes another one, whose number is at offset `number_at` of the event. It
/// writes a record with the call of the waking task if both tasks are watched and in watched calls. A task that an
/// interrupt wakes appears to be woken by the interrupted task. Such a wake is left out if the interrupted task is in
/// no watched call.
fn wakes(known: &Known, number_at: i16) -> Vec<u64> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.find_task(known);
    asm.load(R7, R8, state::CALL);
    asm.end_if_equal(R7, 0);
    asm.load_half(R1, R6, number_at);
    asm.load_half(R2, R10, -8);
    asm.end_if_same(R1, R2);
    asm.store_half(R10, -24, R1);
    asm.wide(R1, known.tasks as u64, MAP);
    asm.copy(R2, R10);
    asm.add(R2, -24);
    asm.call(CALL_MAP_LOOKUP);
    asm.end_if_equal(R0, 0);
    asm.load(R9, R0, state::CALL);
    asm.end_if_equal(R9, 0);
    asm.call(KTIME_NS);
    asm.store(R10, -16, R0);
    asm.reserve(known);
    asm.store_number(R0, 0, WAKES);
    asm.load(R1, R10, -16);
    asm.store(R0, 8, R1);
    asm.add(R7, -1);
    asm.store(R0, 16, R7);
    asm.load_half(R1, R10, -24);
    asm.store(R0, 24, R1);
    asm.submit();
    // Other listeners of this tracepoint must receive the event too.
    asm.finish(1)
}

/// A record as the programs write it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Record {
    number: u64,
    start_ns: u64,
    end_ns: u64,
    result: i64,
    /// The task number. The process number is in the upper half.
    task: u64,
    registers: [u64; 8],
}

/// Flags in the length of a record: one that is still being written, and one that is to be skipped.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// The size of the header of each record in bytes.
const HEAD: u64 = 8;

/// The reader's mappings of the ring. The first page holds the read position, the second the write position. The
/// records follow, mapped twice in a row so that none is split.
#[derive(Debug)]
struct Ring {
    read: *mut u8,
    written: *mut u8,
    page: usize,
    size: usize,
}

impl Ring {
    fn map(ring: &impl AsRawFd, size: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let map = |length, protection, at: usize| {
            // SAFETY: a new mapping at an address that the kernel chooses; failure is checked.
            let address = unsafe {
                libc::mmap(null_mut(), length, protection, libc::MAP_SHARED, ring.as_raw_fd(), at as libc::off_t)
            };
            if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address.cast::<u8>()) }
        };
        let read = map(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let written = map(page + 2 * size, libc::PROT_READ, page).inspect_err(|_| {
            // SAFETY: the mapping above.
            unsafe { libc::munmap(read.cast(), page) };
        })?;
        Ok(Ring { read, written, page, size })
    }

    /// Removes all records that were written before this call.
    fn drain(&mut self, mut each: impl FnMut(Record)) {
        // SAFETY: the counters are at the beginning of pages that are mapped as long as this lives, and so are records
        // below `until`. The kernel writes no record again before the reader's counter has passed it.
        unsafe {
            let read = &*self.read.cast::<AtomicU64>();
            let until = (*self.written.cast::<AtomicU64>()).load(Ordering::Acquire);
            let mut at = read.load(Ordering::Relaxed);
            while at < until {
                let head = self.written.add(self.page + (at as usize & (self.size - 1)));
                let mut length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                while length & BUSY != 0 {
                    // The program on another processor is still writing the record.
                    std::thread::yield_now();
                    length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                }
                if length & DISCARDED == 0 {
                    each(head.add(HEAD as usize).cast::<Record>().read());
                }
                at += (u64::from(length & !DISCARDED) + HEAD).next_multiple_of(8);
                read.store(at, Ordering::Release);
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mappings, of these lengths.
        unsafe {
            libc::munmap(self.read.cast(), self.page);
            libc::munmap(self.written.cast(), self.page + 2 * self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_where_the_kernel_says() {
        let format = "name: sched_waking\nID: 300\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
        assert_eq!(number_at(format), Some(24));
        assert_eq!(number_at("field:pid_t pid;\toffset:24;\tsize:8;\tsigned:1;"), None);
        assert_eq!(number_at(""), None);
    }
}
