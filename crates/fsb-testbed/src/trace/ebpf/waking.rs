//! The tracepoint where a task wakes another one.
//!
//! Its number and where it holds the number of the woken task stand in tracefs, which need not be mounted: a mount that has no
//! place in the tree is enough, and ends with its descriptor.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

const EVENT: &str = "events/sched/sched_waking";
/// The namespace of processes that a machine begins with (`PROC_PID_INIT_INO`).
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

/// Attaches the program that is made for the place of the woken task's number.
///
/// # Errors
/// There is no such tracepoint, no right to it, or numbers are of another namespace.
pub(super) fn attach(program: impl FnOnce(i16) -> io::Result<OwnedFd>) -> io::Result<[OwnedFd; 2]> {
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

/// Where the number of the woken task stands, in a line as `field:pid_t pid; offset:24; size:4; signed:1;`, parts of it apart by tabs.
fn number_at(format: &str) -> Option<i16> {
    let line = format.lines().find(|line| line.trim_start().starts_with("field:pid_t pid;"))?;
    let rest = line.split("offset:").nth(1)?;
    let (offset, rest) = rest.split_once(';')?;
    rest.contains("size:4;").then(|| offset.parse().ok()).flatten()
}

/// The event on one processor: a program that is attached to it runs on all.
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
