//! The parts of eBPF programs: the assembler of their instructions, the maps and the ring that they
//! write, and the tracepoints and timers that they run at.
//!
//! The programs are written as instructions. They are a few hundred and need no compiler for
//! another machine. The layout of an instruction and the numbers of helpers are those of
//! `linux/bpf.h`.
//!
//! Programs, maps and attachments are descriptors of this process. They end with it, however it
//! ends.
//!
//! The ids of tracepoints, and the offsets of fields in their records, are read from tracefs. It
//! need not be mounted: a detached mount is sufficient and ends with its descriptor.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Commands of bpf(2), and the types of maps and programs.
pub(super) const MAP_CREATE: i32 = 0;
pub(super) const MAP_LOOKUP: i32 = 1;
pub(super) const MAP_UPDATE: i32 = 2;
pub(super) const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
const OBJECT_INFO: i32 = 15;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const ENABLE_STATISTICS: i32 = 32;
pub(super) const PERF_EVENT: u64 = 7;
pub(super) const HASH: u64 = 1;
pub(super) const ARRAY: u64 = 2;
pub(super) const STACK_TRACE: u64 = 7;
pub(super) const RING_BUFFER: u64 = 27;
pub(super) const TRACEPOINT: u64 = 5;
pub(super) const RAW_TRACEPOINT: u64 = 17;
/// The licence of the instructions. The helpers that they call require it.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// Returns device and inode of this process's PID namespace, as the kernel stores them.
pub(super) fn own_namespace() -> io::Result<(u64, u64)> {
    let namespace = std::fs::metadata("/proc/self/ns/pid")?;
    Ok((device(namespace.dev()), namespace.ino()))
}

/// Encodes a device number as the kernel stores it internally.
fn device(number: u64) -> u64 {
    u64::from(rustix::fs::major(number)) << 20 | u64::from(rustix::fs::minor(number))
}

pub(super) fn load(kind: u64, code: &[u64]) -> io::Result<OwnedFd> {
    let words = [
        kind | (code.len() as u64) << 32,
        code.as_ptr() as u64,
        LICENCE.as_ptr() as u64,
    ];
    bpf(PROGRAM_LOAD, &words).map_err(|error| {
        // Load again with a log, to get the reason. The verifier's messages are for developers of
        // fsb.
        let mut said = vec![0u8; 1 << 16];
        let loud = [
            words[0],
            words[1],
            words[2],
            1 | (said.len() as u64) << 32,
            said.as_mut_ptr() as u64,
        ];
        let _ = bpf(PROGRAM_LOAD, &loud);
        let said = String::from_utf8_lossy(&said)
            .trim_end_matches('\0')
            .trim()
            .to_owned();
        let last = said
            .lines()
            .rev()
            .find(|line| !line.starts_with("processed"))
            .unwrap_or_default();
        if last.is_empty() {
            error
        } else {
            io::Error::other(format!("{error}: {last}"))
        }
    })
}

pub(super) fn attach(tracepoint: &CStr, program: &OwnedFd) -> io::Result<OwnedFd> {
    bpf(
        RAW_TRACEPOINT_OPEN,
        &[tracepoint.as_ptr() as u64, program.as_raw_fd() as u64],
    )
}

/// Runs a bpf(2) command that creates a descriptor.
pub(super) fn bpf(command: i32, words: &[u64]) -> io::Result<OwnedFd> {
    let made = number(command, words)?;
    // SAFETY: the kernel has just made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Runs a bpf(2) command. The words are the start of its `union bpf_attr`; the rest is zero.
pub(super) fn number(command: i32, words: &[u64]) -> io::Result<i32> {
    let mut attributes = [0u64; 16];
    attributes[..words.len()].copy_from_slice(words);
    // SAFETY: addresses among the words are of memory that outlives the call and is as large as the
    // command expects.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(&attributes),
        )
    };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer as i32)
    }
}

/// Lets the kernel count how long programs run, until the returned descriptor is closed (Linux
/// 5.8).
pub(super) fn count_run_time() -> io::Result<OwnedFd> {
    bpf(ENABLE_STATISTICS, &[0])
}

/// Returns the nanoseconds that a program has run on all processors, as far as the kernel
/// [counts](count_run_time) them.
pub(super) fn run_time_ns(program: &OwnedFd) -> io::Result<u64> {
    // The begin of `struct bpf_prog_info`, up to `run_time_ns`. No sizes are set, so the kernel
    // writes no arrays.
    let mut info = [0u64; 25];
    number(
        OBJECT_INFO,
        &[
            program.as_raw_fd() as u64 | (size_of_val(&info) as u64) << 32,
            info.as_mut_ptr() as u64,
        ],
    )?;
    Ok(info[24])
}

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u64 = 2;
/// `PERF_TYPE_SOFTWARE`, with the event `PERF_COUNT_SW_CPU_CLOCK`, whose number is 0.
const TYPE_SOFTWARE: u64 = 1;
/// The first published size of `struct perf_event_attr`.
const SIZE: u64 = 64;
/// Requests of `linux/perf_event.h`: PERF_EVENT_IOC_SET_BPF and PERF_EVENT_IOC_ENABLE.
const SET_PROGRAM: u64 = 0x4004_2408;
const ENABLE: u64 = 0x2400;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// A mount of tracefs that no path leads to. It ends with its descriptor.
#[derive(Debug)]
pub(super) struct Tracefs {
    root: OwnedFd,
}

/// A tracepoint: its number, and the layout of its records.
#[derive(Debug, Clone)]
pub(super) struct Tracepoint {
    id: u64,
    format: String,
}

impl Tracefs {
    pub(super) fn mount() -> io::Result<Tracefs> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let root = fsmount(
            context.as_fd(),
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_RDONLY,
        )?;
        Ok(Tracefs { root })
    }

    /// Returns the tracepoint with a name such as `sched/sched_waking`.
    ///
    /// # Errors
    /// Fails if the kernel does not have it.
    pub(super) fn tracepoint(&self, name: &str) -> io::Result<Tracepoint> {
        let text = |file: &str| -> io::Result<String> {
            let path = format!("events/{name}/{file}");
            let mut text = String::new();
            let file = openat(
                &self.root,
                path,
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            std::fs::File::from(file).read_to_string(&mut text)?;
            Ok(text)
        };
        let id = text("id")?.trim().parse().map_err(|_| unknown())?;
        Ok(Tracepoint {
            id,
            format: text("format")?,
        })
    }
}

fn unknown() -> io::Error {
    io::Error::other("the tracepoint looks otherwise than known")
}

impl Tracepoint {
    /// Returns the offset of a field of `size` bytes, such as `pid_t pid`, in a record.
    ///
    /// # Errors
    /// Fails if the kernel's records have no such field.
    pub(super) fn offset(&self, field: &str, size: u32) -> io::Result<i16> {
        offset(&self.format, field, size).ok_or_else(unknown)
    }

    /// Returns the offset of the text that describes the operation of a block request, such as
    /// `WFS`. Its size differs between kernels.
    ///
    /// # Errors
    /// Fails if the kernel's records have no such field.
    pub(super) fn flags(&self) -> io::Result<i16> {
        let offsets = [8, 10]
            .into_iter()
            .find_map(|size| offset(&self.format, &format!("char rwbs[{size}]"), size));
        offsets.ok_or_else(unknown)
    }

    /// Runs the program at this tracepoint until the returned descriptor is closed.
    pub(super) fn attach(&self, program: &OwnedFd) -> io::Result<OwnedFd> {
        // A program that is attached to the event of one processor runs on all of them.
        run_at(event([TYPE_TRACEPOINT | SIZE << 32, self.id], 0)?, program)
    }
}

/// Returns the offset of a field from a line such as `field:pid_t pid; offset:24; size:4;
/// signed:1;`, whose parts are separated by tabs.
fn offset(format: &str, field: &str, size: u32) -> Option<i16> {
    let begin = format!("field:{field};");
    let line = format
        .lines()
        .find(|line| line.trim_start().starts_with(&begin))?;
    let rest = line.split("offset:").nth(1)?;
    let (offset, rest) = rest.split_once(';')?;
    rest.contains(&format!("size:{size};"))
        .then(|| offset.parse().ok())
        .flatten()
}

/// Runs the program on that processor each time the processor was busy for `period_ns`, until the
/// returned descriptor is closed. Needs no hardware counter.
pub(super) fn sample_processor(
    processor: u32,
    period_ns: u64,
    program: &OwnedFd,
) -> io::Result<OwnedFd> {
    let mut attributes = [0u64; 3];
    (attributes[0], attributes[2]) = (TYPE_SOFTWARE | SIZE << 32, period_ns);
    run_at(event(attributes, processor)?, program)
}

fn run_at(event: OwnedFd, program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: requests on a descriptor of ours that take numbers.
    let attached = unsafe {
        libc::ioctl(event.as_raw_fd(), SET_PROGRAM as _, program.as_raw_fd()) == 0
            && libc::ioctl(event.as_raw_fd(), ENABLE as _, 0) == 0
    };
    if attached {
        Ok(event)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Opens an event of all tasks on one processor. `first` are the first words of its attributes.
fn event<const N: usize>(first: [u64; N], processor: u32) -> io::Result<OwnedFd> {
    let mut attributes = [0u64; SIZE as usize / 8];
    attributes[..N].copy_from_slice(&first);
    // SAFETY: attributes as large as they say; of all tasks, on one processor, in no group.
    let made = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_mut_ptr(),
            -1,
            processor,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

/// Registers. A helper takes its arguments in R1 to R5 and returns its result in R0. R6 to R9
/// survive the call. R10 is the end of the stack.
pub(super) type Register = u8;
pub(super) const R0: Register = 0;
pub(super) const R1: Register = 1;
pub(super) const R2: Register = 2;
pub(super) const R3: Register = 3;
pub(super) const R4: Register = 4;
pub(super) const R6: Register = 6;
pub(super) const R7: Register = 7;
pub(super) const R8: Register = 8;
pub(super) const R9: Register = 9;
pub(super) const R10: Register = 10;

/// Numbers of helpers.
pub(super) const CALL_MAP_LOOKUP: i32 = 1;
pub(super) const CALL_MAP_UPDATE: i32 = 2;
pub(super) const CALL_MAP_DELETE: i32 = 3;
pub(super) const KTIME_NS: i32 = 5;
pub(super) const RANDOM: i32 = 7;
pub(super) const STACK_ID: i32 = 27;
pub(super) const READ_KERNEL: i32 = 113;
const NAMESPACE_TASK: i32 = 120;
pub(super) const RING_RESERVE: i32 = 131;
pub(super) const RING_SUBMIT: i32 = 132;
/// A flag of RING_SUBMIT: wake no reader.
pub(super) const NO_WAKEUP: i32 = 1;
/// Marks a loaded number as the descriptor of a map.
pub(super) const MAP: Register = 1;

/// Assembles instructions, and patches the jumps to their end.
#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    to_end: Vec<usize>,
}

impl Assembler {
    pub(super) fn push(
        &mut self,
        code: u8,
        to: Register,
        from: Register,
        offset: i16,
        number: i32,
    ) {
        let word = u64::from(code)
            | u64::from(to) << 8
            | u64::from(from) << 12
            | u64::from(offset as u16) << 16
            | u64::from(number as u32) << 32;
        self.code.push(word);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    pub(super) fn set(&mut self, to: Register, number: i32) {
        self.push(0xb7, to, 0, 0, number);
    }

    pub(super) fn add(&mut self, to: Register, number: i32) {
        self.push(0x07, to, 0, 0, number);
    }

    pub(super) fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x79, to, from, offset, 0);
    }

    /// Loads four bytes. The upper half of the register becomes 0.
    pub(super) fn load_half(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x61, to, from, offset, 0);
    }

    /// Loads one byte. The rest of the register becomes 0.
    pub(super) fn load_byte(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x71, to, from, offset, 0);
    }

    pub(super) fn store_half(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x63, to, from, offset, 0);
    }

    pub(super) fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x7b, to, from, offset, 0);
    }

    pub(super) fn store_number(&mut self, to: Register, offset: i16, number: i32) {
        self.push(0x7a, to, 0, offset, number);
    }

    /// Adds a register to eight bytes in memory, atomically.
    pub(super) fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// Loads a number of eight bytes, or the descriptor of a map.
    pub(super) fn wide(&mut self, to: Register, number: u64, what: Register) {
        self.push(0x18, to, what, 0, number as i32);
        self.push(0, 0, 0, 0, (number >> 32) as i32);
    }

    pub(super) fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    pub(super) fn end_if_equal(&mut self, register: Register, number: i32) {
        self.to_end.push(self.code.len());
        self.push(0x15, register, 0, 0, number);
    }

    pub(super) fn end_unless_equal(&mut self, register: Register, number: i32) {
        self.to_end.push(self.code.len());
        self.push(0x55, register, 0, 0, number);
    }

    /// Ends if the register has any bit of `mask`.
    pub(super) fn end_if_any(&mut self, register: Register, mask: i32) {
        self.to_end.push(self.code.len());
        self.push(0x45, register, 0, 0, mask);
    }

    pub(super) fn end_if_same(&mut self, one: Register, other: Register) {
        self.to_end.push(self.code.len());
        self.push(0x1d, one, other, 0, 0);
    }

    pub(super) fn end(&mut self) {
        self.to_end.push(self.code.len());
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Jumps forward to where [`Assembler::land`] is called with the result, if the register equals
    /// `number`.
    pub(super) fn jump_if_equal(&mut self, register: Register, number: i32) -> usize {
        self.push(0x15, register, 0, 0, number);
        self.code.len() - 1
    }

    pub(super) fn jump_unless_equal(&mut self, register: Register, number: i32) -> usize {
        self.push(0x55, register, 0, 0, number);
        self.code.len() - 1
    }

    /// Jumps if the register has any bit of `mask`.
    pub(super) fn jump_if_any(&mut self, register: Register, mask: i32) -> usize {
        self.push(0x45, register, 0, 0, mask);
        self.code.len() - 1
    }

    pub(super) fn jump(&mut self) -> usize {
        self.push(0x05, 0, 0, 0, 0);
        self.code.len() - 1
    }

    /// Makes a jump end here.
    pub(super) fn land(&mut self, jump: usize) {
        self.code[jump] |= ((self.code.len() - jump - 1) as u64 & 0xffff) << 16;
    }

    /// Skips `over` instructions if the register equals `number`.
    pub(super) fn skip_if_equal(&mut self, register: Register, number: i32, over: i16) {
        self.push(0x15, register, 0, over, number);
    }

    pub(super) fn skip_unless_equal(&mut self, register: Register, number: i32, over: i16) {
        self.push(0x55, register, 0, over, number);
    }

    /// Ends the program with the return value `answer`.
    pub(super) fn finish(mut self, answer: i32) -> Vec<u64> {
        let end = self.code.len();
        for at in std::mem::take(&mut self.to_end) {
            self.code[at] |= ((end - at - 1) as u64 & 0xffff) << 16;
        }
        self.set(R0, answer);
        self.push(0x95, 0, 0, 0, 0);
        self.code
    }

    /// Writes the numbers of the current task and of its process, as the namespace counts them,
    /// into the last eight bytes of the stack: the process in the upper half. Ends in another
    /// namespace.
    pub(super) fn number_task(&mut self, namespace: (u64, u64)) {
        self.call_number_task(namespace);
        self.end_unless_equal(R0, 0);
    }

    /// Does the same, but goes on in another namespace: R0 is 0 in the own one.
    pub(super) fn call_number_task(&mut self, namespace: (u64, u64)) {
        self.wide(R1, namespace.0, 0);
        self.wide(R2, namespace.1, 0);
        self.copy(R3, R10);
        self.add(R3, -8);
        self.set(R4, 8);
        self.call(NAMESPACE_TASK);
    }
}

/// Flags in the length of a record: one that is still being written, and one that is to be skipped.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// The size of the header of each record in bytes.
const HEAD: u64 = 8;

/// The reader's mappings of the ring. The first page holds the read position, the second the write
/// position. The records follow, mapped twice in a row so that none is split.
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
                libc::mmap(
                    null_mut(),
                    length,
                    protection,
                    libc::MAP_SHARED,
                    ring.as_raw_fd(),
                    at as libc::off_t,
                )
            };
            if address == libc::MAP_FAILED {
                Err(io::Error::last_os_error())
            } else {
                Ok(address.cast::<u8>())
            }
        };
        let read = map(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let written = map(page + 2 * size, libc::PROT_READ, page).inspect_err(|_| {
            // SAFETY: the mapping above.
            unsafe { libc::munmap(read.cast(), page) };
        })?;
        Ok(Ring {
            read,
            written,
            page,
            size,
        })
    }

    /// Removes all records that were written before this call. Each is an `R`, as the programs
    /// wrote it: any bits must be valid in it.
    pub(super) fn drain<R: Copy>(&mut self, mut each: impl FnMut(R)) {
        // SAFETY: the counters are at the beginning of pages that are mapped as long as this lives,
        // and so are records below `until`. The kernel writes no record again before the reader's
        // counter has passed it.
        unsafe {
            let read = &*self.read.cast::<AtomicU64>();
            let until = (*self.written.cast::<AtomicU64>()).load(Ordering::Acquire);
            let mut at = read.load(Ordering::Relaxed);
            while at < until {
                let head = self
                    .written
                    .add(self.page + (at as usize & (self.size - 1)));
                let mut length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                while length & BUSY != 0 {
                    // The program on another processor is still writing the record.
                    std::thread::yield_now();
                    length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                }
                if length & DISCARDED == 0 {
                    each(head.add(HEAD as usize).cast::<R>().read());
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
    fn a_field_is_found_where_the_kernel_says() {
        let format = "name: sched_waking\nID: 300\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
        assert_eq!(offset(format, "pid_t pid", 4), Some(24));
        assert_eq!(offset(format, "pid_t prev_pid", 4), None);
        assert_eq!(
            offset(
                "field:pid_t pid;\toffset:24;\tsize:8;\tsigned:1;",
                "pid_t pid",
                4
            ),
            None
        );
        assert_eq!(offset("", "pid_t pid", 4), None);
    }
}
