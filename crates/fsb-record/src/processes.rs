//! Processes that run already: their threads, children, working directories and open files.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::syscalls;

/// Returns a process and all that it created, the oldest first.
pub(crate) fn with_children(process: i32) -> Vec<i32> {
    let mut all = vec![process];
    let mut at = 0;
    while at < all.len() {
        for thread in threads(all[at]) {
            let path = format!("/proc/{}/task/{thread}/children", all[at]);
            let children = fs::read_to_string(path).unwrap_or_default();
            let children: Vec<i32> = children.split_whitespace().filter_map(|text| text.parse().ok()).collect();
            for child in children {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
        at += 1;
    }
    all
}

/// Returns its threads, itself included.
pub(crate) fn threads(process: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable_by_key(|thread| (*thread != process, *thread));
    threads
}

/// Returns the process that a thread belongs to.
pub(crate) fn process_of(thread: i32) -> Option<i32> {
    // A program may call itself anything, in any bytes.
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Returns whether the file of its program is setuid or setgid to another user or group than the recorder's.
pub(crate) fn lacks_rights(process: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = fs::metadata(format!("/proc/{process}/exe")) else { return false };
    // Where a group may not execute, the bit of setgid means something else.
    let (user, group) = (file.mode() & 0o4000 != 0, file.mode() & 0o2010 == 0o2010);
    user && file.uid() != rustix::process::geteuid().as_raw()
        || group && file.gid() != rustix::process::getegid().as_raw()
}

/// Returns the paths of files that the process has mapped shared and writable.
pub(crate) fn shared_mappings(process: i32) -> Vec<Vec<u8>> {
    let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let shared = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        // `address permissions offset device inode   path`: the kernel pads before the path only.
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let permissions = fields.nth(1)?;
        let path = fields.nth(3)?.trim_ascii_start();
        (permissions.get(1) == Some(&b'w') && permissions.get(3) == Some(&b's')).then(|| path.to_vec())
    });
    shared.collect()
}

/// Returns whether the process has an io_uring open, whose requests no tracer sees.
pub(crate) fn has_ring(process: i32) -> bool {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|to| to.as_os_str() == "anon_inode:[io_uring]")
}

/// Returns its working directory.
pub(crate) fn directory(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/cwd")).ok()
}

/// A file that is open already.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) fd: i32,
    pub(crate) path: Vec<u8>,
    pub(crate) flags: u32,
    pub(crate) place: u64,
}

/// Returns the regular files and directories that it has open.
pub(crate) fn open_files(process: i32) -> Vec<OpenFile> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open = entries.filter_map(|entry| {
        let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
        let path = fs::read_link(entry.path()).ok().filter(|path| path.is_absolute())?;
        let kind = fs::metadata(entry.path()).ok()?.file_type();
        if !(kind.is_file() || kind.is_dir()) {
            return None;
        }
        let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?;
        let number = |key: &str, base: u32| {
            let text = info.lines().find_map(|line| line.strip_prefix(key))?.trim();
            u64::from_str_radix(text, base).ok()
        };
        let flags = syscalls::open_flags(number("flags:", 8)? as i32);
        Some(OpenFile { fd, path: path.as_os_str().as_bytes().to_vec(), flags, place: number("pos:", 10)? })
    });
    let mut open: Vec<OpenFile> = open.collect();
    open.sort_unstable_by_key(|file| file.fd);
    open
}
