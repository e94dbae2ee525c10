//! Arrays of the kernel's md driver without a superblock: the driver writes no metadata to the
//! members.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::block::{self, DeviceNumber};
use super::pinned::Pinned;
use super::{Roots, poll_until, program, read_trimmed};
use crate::error::{Refusal, attempt};

// linux/raid/md_u.h
const SET_ARRAY_INFO: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<ArrayInfo>(9, 0x23);
const ADD_NEW_DISK: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<DiskInfo>(9, 0x21);
const RUN_ARRAY: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<Param>(9, 0x30);
const STOP_ARRAY: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(9, 0x32);
/// `MD_DISK_ACTIVE` and `MD_DISK_SYNC` as bits.
const IN_USE: i32 = 1 << 1 | 1 << 2;

/// `mdu_array_info_t`.
#[repr(C)]
#[derive(Default)]
struct ArrayInfo {
    major_version: i32,
    minor_version: i32,
    patch_version: i32,
    ctime: u32,
    level: i32,
    size: i32,
    nr_disks: i32,
    raid_disks: i32,
    md_minor: i32,
    not_persistent: i32,
    utime: u32,
    state: i32,
    active_disks: i32,
    working_disks: i32,
    failed_disks: i32,
    spare_disks: i32,
    layout: i32,
    chunk_size: i32,
}

/// `mdu_disk_info_t`.
#[repr(C)]
struct DiskInfo {
    number: i32,
    major: i32,
    minor: i32,
    raid_disk: i32,
    state: i32,
}

/// `mdu_param_t`. The kernel no longer reads its fields.
#[repr(C)]
#[derive(Default)]
struct Param {
    personality: i32,
    chunk_size: i32,
    max_fault: i32,
}

/// The module parameter, below /sys, for the layout of a RAID-0 whose members differ in size.
pub const LAYOUT: &str = "module/raid0/parameters/default_layout";

/// Time limit for the last user of an array to close it, and for a device node to appear.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns `/dev/mdN`.
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/md{number}"))
}

/// A level of arrays.
#[derive(Debug)]
pub struct Level {
    /// The name that /proc/mdstat has for it.
    pub name: &'static str,
    /// The name for users.
    pub shown: &'static str,
    /// The kernel modules that it needs if they are not built in.
    pub modules: &'static [&'static str],
    /// The kernel's number of it.
    pub level: i32,
    /// The kernel's number of the layout that mdadm chooses.
    layout: i32,
    /// The smallest number of members.
    pub least: usize,
    /// Whether it divides data into chunks.
    pub has_chunks: bool,
}

/// Data in stripes.
pub static RAID0: Level = Level {
    name: "raid0",
    shown: "RAID-0",
    modules: &["raid0"],
    level: 0,
    layout: 0,
    least: 2,
    has_chunks: true,
};

/// A copy on each member.
pub static RAID1: Level = Level {
    name: "raid1",
    shown: "RAID-1",
    modules: &["raid1"],
    level: 1,
    layout: 0,
    least: 2,
    has_chunks: false,
};

/// Data and parity in stripes, left-symmetric.
pub static RAID5: Level = Level {
    name: "raid5",
    shown: "RAID-5",
    modules: &["raid456"],
    level: 5,
    layout: 2,
    least: 3,
    has_chunks: true,
};

/// Two copies near each other, in stripes.
pub static RAID10: Level = Level {
    name: "raid10",
    shown: "RAID-10",
    modules: &["raid10"],
    level: 10,
    layout: 0x102,
    least: 2,
    has_chunks: true,
};

/// Checks that the kernel can make an array of that level, and loads its module if necessary.
pub fn has(level: &Level, roots: &Roots) -> Result<(), Refusal> {
    let known = || {
        let text = std::fs::read_to_string(roots.proc.join("mdstat")).unwrap_or_default();
        let personalities = text
            .lines()
            .find_map(|line| line.strip_prefix("Personalities :"))
            .map(str::to_owned);
        personalities.map(|all| all.contains(&format!("[{}]", level.name)))
    };
    if known() == Some(true) {
        return Ok(());
    }
    if let Some(modprobe) = program::find("modprobe") {
        // The messages of modprobe add nothing: the next check shows the result.
        let _ = program::run(&modprobe, level.modules);
    }
    match known() {
        Some(true) => Ok(()),
        Some(false) => Err(format!("this kernel's md has no {}", level.name).into()),
        None => Err("this kernel has no md".into()),
    }
}

/// Returns the highest unused number. mdadm also counts down from there.
pub fn free_number(roots: &Roots) -> Option<u32> {
    (0..128)
        .rev()
        .find(|number| !roots.sys.join(format!("block/md{number}")).exists())
}

/// Makes an array of `members` with chunks of `chunk` bytes and starts it, without a superblock and
/// as if its copies and its parity were those of its data. Stops a partly configured array on
/// failure.
pub fn start(
    level: &Level,
    number: u32,
    members: &[DeviceNumber],
    chunk: u32,
) -> Result<(), Refusal> {
    let device = make(number)?;
    let started = configure(level, &device, members, chunk);
    if started.is_err() {
        // The array is incomplete. The caller reports the first error, which explains the failure.
        let _ = call(&device, STOP_ARRAY, std::ptr::null::<Param>());
    }
    started
}

/// Makes the array's node. The kernel creates it if /dev is its own.
fn make(number: u32) -> Result<OwnedFd, Refusal> {
    let parameter = Path::new("/sys/module/md_mod/parameters/new_array");
    std::fs::write(parameter, format!("md{number}"))
        .map_err(|error| attempt("write to", parameter, &error))?;
    let node = path(number);
    poll_until(PATIENCE, || block::number_of(&node).is_some());
    open(number)
}

/// Opens the node and checks that it is the array's: the kernel numbers arrays as it names them.
fn open(number: u32) -> Result<OwnedFd, Refusal> {
    /// MD_MAJOR of linux/major.h.
    const MAJOR: u32 = 9;
    let node = path(number);
    let refused = |error: io::Error| attempt("open", &node, &error);
    let device = Pinned::known(&node, DeviceNumber(MAJOR, number)).map_err(refused)?;
    device.open_again(true, false).map_err(refused)
}

fn configure(
    level: &Level,
    device: &OwnedFd,
    members: &[DeviceNumber],
    chunk: u32,
) -> Result<(), Refusal> {
    let refused = |what: &str, error: &io::Error| Refusal::call(what, error);
    let count = members.len() as i32;
    let info = ArrayInfo {
        minor_version: 90,
        raid_disks: count,
        nr_disks: count,
        not_persistent: 1,
        state: 1,
        active_disks: count,
        working_disks: count,
        level: level.level,
        layout: level.layout,
        chunk_size: if level.has_chunks { chunk as i32 } else { 0 },
        ..ArrayInfo::default()
    };
    call(device, SET_ARRAY_INFO, &info).map_err(|error| refused("SET_ARRAY_INFO", &error))?;
    for (place, member) in (0..).zip(members) {
        let (major, minor) = (member.0 as i32, member.1 as i32);
        let disk = DiskInfo {
            number: place,
            major,
            minor,
            raid_disk: place,
            state: IN_USE,
        };
        call(device, ADD_NEW_DISK, &disk)
            .map_err(|error| refused(&format!("ADD_NEW_DISK {}:{}", member.0, member.1), &error))?;
    }
    call(device, RUN_ARRAY, &Param::default()).map_err(|error| refused("RUN_ARRAY", &error))
}

fn call<T>(device: &OwnedFd, request: rustix::ioctl::Opcode, argument: *const T) -> io::Result<()> {
    // SAFETY: the kernel reads a structure of the size that the request's number names, which is
    // that of T, or nothing for STOP_ARRAY.
    match unsafe { libc::ioctl(device.as_raw_fd(), request as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the names of an array's members, as /sys has them. Returns an empty list if the array
/// does not exist.
pub fn members(number: u32, roots: &Roots) -> Vec<String> {
    let slaves = std::fs::read_dir(roots.sys.join(format!("block/md{number}/slaves")))
        .into_iter()
        .flatten();
    let mut names: Vec<String> = slaves
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// Stops the array with these members. Leaves an array of that number with other members alone.
/// Describes the result.
pub fn stop(number: u32, names: &[String]) -> Result<String, Refusal> {
    let roots = Roots::default();
    let found = members(number, &roots);
    let shown = path(number);
    // An array without members still needs STOP_ARRAY in these states: it was stopped before, or
    // made and never started.
    let state = read_trimmed(&roots.sys.join(format!("block/md{number}/md/array_state")));
    if found.is_empty() && !state.is_some_and(|state| state == "clear" || state == "inactive") {
        return Ok(format!("{} is gone", shown.display()));
    }
    if !found.is_empty() && found != names {
        return Ok(format!("{} is another array now", shown.display()));
    }
    let device = open(number)?;
    let mut answer = Ok(());
    poll_until(PATIENCE, || {
        answer = call(&device, STOP_ARRAY, std::ptr::null::<Param>());
        !answer
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
    });
    answer.map_err(|error| Refusal::call("STOP_ARRAY", &error))?;
    Ok(format!("stopped {}", shown.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels_header() {
        assert_eq!(size_of::<ArrayInfo>(), 72);
        assert_eq!(size_of::<DiskInfo>(), 20);
        assert_eq!(size_of::<Param>(), 12);
        assert_eq!((SET_ARRAY_INFO, STOP_ARRAY), (0x4048_0923, 0x0932));
    }

    #[test]
    fn a_kernel_without_md_says_so() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert_eq!(
            has(&RAID0, &roots).unwrap_err(),
            "this kernel has no md".into()
        );
        std::fs::write(
            tree.path().join("mdstat"),
            "Personalities : [raid1]\nunused devices: <none>\n",
        )
        .unwrap();
        assert_eq!(
            has(&RAID0, &roots).unwrap_err(),
            "this kernel's md has no raid0".into()
        );
        std::fs::write(
            tree.path().join("mdstat"),
            "Personalities : [raid1] [raid0]\n",
        )
        .unwrap();
        assert_eq!(has(&RAID0, &roots), Ok(()));
        std::fs::create_dir_all(tree.path().join("block/md127")).unwrap();
        assert_eq!(free_number(&roots), Some(126));
        assert!(members(127, &roots).is_empty());
    }

    #[test]
    fn an_array_that_is_not_there_needs_no_stopping() {
        assert!(
            stop(4000, &["loop0".to_owned()])
                .unwrap()
                .contains("is gone")
        );
    }
}
