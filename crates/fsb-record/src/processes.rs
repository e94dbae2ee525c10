//! Processes that run already: their threads, children, working directories and open files.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::syscalls;

/// A process and all that it made, the oldest first.
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

/// Its threads, itself included.
pub(crate) fn threads(process: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable_by_key(|thread| (*thread != process, *thread));
    threads
}

/// Where it works.
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

/// The regular files and directories that it has open.
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
