//! The eBPF programs, written as instructions, and the ring that the kernel writes their records into, with the layout
//! of its `bpf_ringbuf`. One program runs at the start of a call, one at its end, and one when a task wakes another
//! one.
//!
//! They are about a hundred instructions and need no compiler for another machine, so only this crate builds them. The
//! layout of an instruction and the numbers of helpers are those of `linux/bpf.h`.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
const MAP_LOOKUP: i32 = 1;
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
pub(super) const WAKES: i32 = 1 << 30;

/// The offset of the argument registers in `struct pt_regs`, and the number of bytes that hold them all.
#[cfg(target_arch = "x86_64")]
const REGISTERS: (i32, i32) = (56, 64);
/// The offset of the argument registers in `struct pt_regs`, and the number of bytes that hold them all.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: (i32, i32) = (0, 64);

/// Selects a call's arguments from the registers that were read.
pub(super) fn arguments(registers: &[u64; 8]) -> [u64; 6] {
    // The registers are in the order r10, r9, r8, rax, rcx, rdx, rsi, rdi; arguments are in rdi, rsi, rdx, r10, r8, r9.
    #[cfg(target_arch = "x86_64")]
    let order = [7, 6, 5, 0, 2, 1];
    #[cfg(not(target_arch = "x86_64"))]
    let order = [0, 1, 2, 3, 4, 5];
    order.map(|at: usize| registers[at])
}

/// The layout of a task's state between the start of a call and its end. All fields have eight bytes.
pub(super) mod state {
    /// The start time of the call.
    pub(in super::super) const START: i16 = 0;
    /// The number of the call plus one; 0 outside a call.
    pub(in super::super) const CALL: i16 = 8;
    /// Records that the ring had no room for.
    pub(in super::super) const LOST: i16 = 16;
    /// Eight registers.
    pub(in super::super) const REGISTERS: i16 = 24;
    /// The size of the state in bytes.
    pub(in super::super) const SIZE: usize = 88;
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
        self.call(MAP_LOOKUP);
        self.end_if_equal(R0, 0);
        self.copy(R8, R0);
    }
}

/// The kernel objects that the programs use.
pub(super) struct Known {
    /// Device and inode of the PID namespace whose task numbers are used.
    pub(super) namespace: (u64, u64),
    /// The map of tasks.
    pub(super) tasks: i32,
    pub(super) ring: i32,
}

/// Builds the program that runs at the start of a call. It stores the time, the call number and the arguments.
pub(super) fn begins(known: &Known, numbers: &[i32]) -> Vec<u64> {
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
pub(super) fn ends(known: &Known) -> Vec<u64> {
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
pub(super) fn wakes(known: &Known, number_at: i16) -> Vec<u64> {
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
    asm.call(MAP_LOOKUP);
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
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) result: i64,
    /// The task number. The process number is in the upper half.
    pub(super) task: u64,
    pub(super) registers: [u64; 8],
}

/// Flags in the length of a record: one that is still being written, and one that is to be skipped.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// The size of the header of each record in bytes.
const HEAD: u64 = 8;

/// The reader's mappings of the ring. The first page holds the read position, the second the write position. The
/// records follow, mapped twice in a row so that none is split.
#[derive(Debug)]
pub(super) struct Ring {
    read: *mut u8,
    written: *mut u8,
    page: usize,
    size: usize,
}

impl Ring {
    pub(super) fn map(ring: &impl AsRawFd, size: usize) -> io::Result<Ring> {
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
    pub(super) fn drain(&mut self, mut each: impl FnMut(Record)) {
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
