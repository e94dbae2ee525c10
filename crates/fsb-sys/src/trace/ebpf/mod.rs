//! Traces system calls without stopping the tasks that make them: eBPF programs run at the kernel's raw tracepoints of
//! system calls, and at the tracepoint at which a task wakes another one.
//!
//! Needs root (CAP_BPF and CAP_PERFMON) and Linux 5.8. Task numbers are those of this process's namespace. The kernel
//! reports woken tasks by the numbers of its first PID namespace, so wakes are not traced in another namespace.
//!
//! The id of the wake tracepoint, and the offset of the woken task's number in its record, are read from tracefs. It
//! need not be mounted: a detached mount is sufficient and ends with its descriptor.

mod program;

use std::collections::HashSet;
use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use program::{Known, Record, Ring, state};

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
        let begins = load(RAW_TRACEPOINT, &program::begins(&known, numbers))?;
        let ends = load(RAW_TRACEPOINT, &program::ends(&known))?;
        let mapped = Ring::map(&ring, RING)?;
        // Attach the end first. Otherwise a call could be recorded that no program at its end removes.
        let at_end = attach(c"sys_exit", &ends)?;
        let at_begin = attach(c"sys_enter", &begins)?;
        let mut kept = vec![at_end, at_begin, begins, ends, ring];
        // Without wakes, the calls are still useful.
        let wakes = attach_wakes(|number_at| load(TRACEPOINT, &program::wakes(&known, number_at)));
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
            each(if record.number == program::WAKES as u64 {
                Event::Woken(Woken {
                    task: record.result as i32,
                    by: task,
                    at_ns: record.start_ns,
                    number: record.end_ns,
                    arguments: program::arguments(&record.registers),
                })
            } else {
                Event::Ended(Ended {
                    task,
                    number: record.number,
                    arguments: program::arguments(&record.registers),
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
