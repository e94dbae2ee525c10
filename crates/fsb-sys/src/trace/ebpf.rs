//! Traces system calls without stopping the tasks that make them: eBPF programs run at the kernel's
//! raw tracepoints of system calls, and at the tracepoint at which a task wakes another one.
//!
//! Needs root (CAP_BPF and CAP_PERFMON) and Linux 5.8. Task numbers are those of this process's
//! namespace. The kernel reports woken tasks by the numbers of its first PID namespace, so wakes
//! are not traced in another namespace.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::bpf::{
    Assembler, CALL_MAP_LOOKUP, HASH, KTIME_NS, MAP, MAP_CREATE, MAP_DELETE, MAP_LOOKUP,
    MAP_UPDATE, NO_WAKEUP, R0, R1, R2, R3, R6, R7, R8, R9, R10, RAW_TRACEPOINT, READ_KERNEL,
    RING_BUFFER, RING_RESERVE, RING_SUBMIT, Ring, TRACEPOINT, Tracefs, attach, bpf, load, number,
    own_namespace,
};

/// Size of the ring in bytes. It holds more than two hundred thousand calls between two drains.
const RING: usize = 32 << 20;
/// Maximum number of watched tasks.
const MOST_TASKS: u32 = 16_384;

/// A traced event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A call has ended.
    Ended(Ended),
    /// A task in a watched call woke a task in another watched call.
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
    /// The result of the call: an amount, or a negative error number.
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
    /// Starts without tasks. `numbers` are call numbers of this machine. Memory that arguments
    /// point to is not read.
    ///
    /// # Errors
    /// Fails if the kernel is too old or was built without eBPF, or if this process lacks the
    /// privileges.
    pub fn open(numbers: &[i32]) -> io::Result<Watch> {
        let tasks = bpf(
            MAP_CREATE,
            &[
                HASH | 4 << 32,
                state::SIZE as u64 | u64::from(MOST_TASKS) << 32,
            ],
        )?;
        let ring = bpf(MAP_CREATE, &[RING_BUFFER, (RING as u64) << 32])?;
        let known = Known {
            namespace: own_namespace()?,
            tasks: tasks.as_raw_fd(),
            ring: ring.as_raw_fd(),
        };
        let begins = load(RAW_TRACEPOINT, &begins(&known, numbers))?;
        let ends = load(RAW_TRACEPOINT, &ends(&known))?;
        let mapped = Ring::map(&ring, RING)?;
        // Attach the end first. Otherwise a call could be recorded that no program at its end
        // removes.
        let at_end = attach(c"sys_exit", &ends)?;
        let at_begin = attach(c"sys_enter", &begins)?;
        let mut kept = vec![at_end, at_begin, begins, ends, ring];
        // Without wakes, the calls are still useful.
        let wakes = attach_wakes(|number_at| load(TRACEPOINT, &wakes(&known, number_at)));
        let sees_wakes = wakes.is_ok();
        kept.extend(wakes.into_iter().flatten());
        Ok(Watch {
            ring: mapped,
            tasks,
            watched: HashSet::new(),
            lost: 0,
            sees_wakes,
            _kept: kept,
        })
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
        // This keeps the count of lost records when a task is added again because it executed
        // another program.
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

    /// Returns the number of records that were lost because the ring was full.
    pub fn lost(&self) -> u64 {
        self.lost
            + self
                .watched
                .iter()
                .map(|task| self.lost_by(*task))
                .sum::<u64>()
    }

    fn lost_by(&self, task: i32) -> u64 {
        let mut state = [0u64; state::SIZE / 8];
        let found = self.map(MAP_LOOKUP, task, state.as_mut_ptr() as u64);
        if found.is_ok() {
            state[state::LOST as usize / 8]
        } else {
            0
        }
    }

    /// Runs a map command on a task's entry. The kernel reads or writes the value at address
    /// `value`.
    fn map(&self, command: i32, task: i32, value: u64) -> io::Result<()> {
        let key = task as u32;
        number(
            command,
            &[
                self.tasks.as_raw_fd() as u64,
                (&raw const key) as u64,
                value,
            ],
        )
        .map(drop)
    }
}

/// The initial PID namespace of a machine (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Attaches the wake program. `program` loads it for the offset of the woken task's number.
///
/// # Errors
/// Fails if the tracepoint does not exist, this process lacks the privileges, or task numbers are
/// of another namespace.
fn attach_wakes(program: impl FnOnce(i16) -> io::Result<OwnedFd>) -> io::Result<[OwnedFd; 2]> {
    if std::fs::read_link("/proc/self/ns/pid")?.as_os_str() != FIRST_NAMESPACE {
        return Err(io::Error::other(
            "numbers of tasks are of another namespace",
        ));
    }
    let waking = Tracefs::mount()?.tracepoint("sched/sched_waking")?;
    let program = program(waking.offset("pid_t pid", 4)?)?;
    Ok([waking.attach(&program)?, program])
}

// The eBPF programs. One runs at the start of a call, one at its end, and one when a task wakes
// another one.

/// The number of a record of a wake. The result is the number of the woken task, the end is the
/// number of the waking task's call, and the registers are those of that call.
const WAKES: i32 = 1 << 30;

/// The offset of the argument registers in `struct pt_regs`, and the number of bytes that hold them
/// all.
#[cfg(target_arch = "x86_64")]
const REGISTERS: (i32, i32) = (56, 64);
/// The offset of the argument registers in `struct pt_regs`, and the number of bytes that hold them
/// all.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: (i32, i32) = (0, 64);

/// Selects a call's arguments from the registers that were read.
fn arguments(registers: &[u64; 8]) -> [u64; 6] {
    // The registers are in the order r10, r9, r8, rax, rcx, rdx, rsi, rdi; arguments are in rdi,
    // rsi, rdx, r10, r8, r9.
    #[cfg(target_arch = "x86_64")]
    let order = [7, 6, 5, 0, 2, 1];
    #[cfg(not(target_arch = "x86_64"))]
    let order = [0, 1, 2, 3, 4, 5];
    order.map(|at: usize| registers[at])
}

/// The layout of a task's state between the start of a call and its end. All fields have eight
/// bytes.
mod state {
    /// The start time of the call.
    pub(super) const START: i16 = 0;
    /// The number of the call plus one; 0 outside a call.
    pub(super) const CALL: i16 = 8;
    /// The number of records that were lost because the ring was full.
    pub(super) const LOST: i16 = 16;
    /// Eight registers.
    pub(super) const REGISTERS: i16 = 24;
    /// The size of the state in bytes.
    pub(super) const SIZE: usize = 88;
}

impl Assembler {
    /// Reserves an empty record in R0. If the ring is full, counts a lost record in the state at R8
    /// and ends.
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

    /// Submits the record in R0 with the number of the current task and the registers in the state
    /// at R8.
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
        self.number_task(known.namespace);
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

/// Builds the program that runs at the start of a call. It stores the time, the call number and the
/// arguments.
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

/// Builds the program that runs when a task wakes another one, whose number is at offset
/// `number_at` of the event. It writes a record with the call of the waking task if both tasks are
/// watched and in watched calls. A task that an interrupt wakes appears to be woken by the
/// interrupted task. Such a wake is left out if the interrupted task is in no watched call.
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
