//! The mounts of other targets that are ready at the same time, kept away from processes that work for one target, and
//! a mount namespace of its own for a FUSE server.
//!
//! A process with a mount namespace of its own has copies of all mounts there were when it began, and each copy keeps
//! its file system mounted: a worker of one target would stop the others from being unmounted, and so from being made
//! cold. mkfs.btrfs takes devices over parts of one image for the same device, and refuses where one of them is
//! mounted.
//!
//! A FUSE server must not hold what it serves. When a mount namespace ends, the process that leaves it last unmounts
//! what is in it, and unmounting a FUSE file system on a block device waits for its server. If all processes of the
//! namespace are killed at once, the last one to leave may be that server, waiting for itself: for ever, and with it
//! every `sync` and `drop_caches` of the machine (seen on Linux 6.18). So the server gets a mount namespace of its own.
//! Its mount reaches ours because the mount below is shared for that moment, and is then taken out of the server's.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::mountinfo::{self, Mount};

/// The source of the tmpfs that all targets are mounted on.
pub const MOUNT_ROOT: &str = "fsb";

/// Where other targets are mounted than the one at `own`, which may also be a device node of ours.
pub fn others(own: &Path) -> Vec<CString> {
    among(&mountinfo::read(), own)
}

/// Whether all targets are mounted below this one.
pub fn is_root(mount: &Mount) -> bool {
    mount.kind == "tmpfs" && mount.source == Path::new(MOUNT_ROOT)
}

fn among(mounts: &[Mount], own: &Path) -> Vec<CString> {
    let Some(root) = mounts.iter().filter(|mount| is_root(mount)).rfind(|root| own.starts_with(&root.point)) else {
        return Vec::new();
    };
    let below = mounts.iter().map(|mount| &mount.point).filter(|point| **point != root.point);
    let others = below.filter(|point| point.starts_with(&root.point) && !own.starts_with(point));
    // The last one first: a mount may lie on another.
    others.rev().filter_map(|point| CString::new(point.as_os_str().as_bytes()).ok()).collect()
}

/// Takes mounts out of the namespace of the calling process, which must be its own. One that is not there is no error.
pub fn detach(points: &[CString]) {
    for point in points {
        // SAFETY: a valid string.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    }
}

/// Makes `command` run where other targets than the one at `own` are not mounted. Where that is not allowed it runs all
/// the same.
pub fn hide_from(command: &mut Command, own: &Path) {
    let points = others(own);
    if points.is_empty() {
        return;
    }
    // SAFETY: system calls on strings made before, on the child itself between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let null = std::ptr::null();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            if libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(null, c"/".as_ptr(), null, private, null.cast()) == 0
            {
                detach(&points);
            }
            Ok(())
        });
    }
}

/// Makes `command` start in a mount namespace of its own, in which mounts on `root` reach ours.
pub fn start_apart(command: &mut Command, root: &Path) -> io::Result<()> {
    change(&path(root)?, libc::MS_SHARED)?;
    // SAFETY: one system call on the child itself between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::unshare(libc::CLONE_NEWNS) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Ok(())
}

/// Takes the mount at `point`, and those of other targets, out of the namespace of the process `pid`, which
/// [`start_apart`] prepared. Ours keeps them.
pub fn let_go(pid: u32, root: &Path, point: &Path) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
    let others = others(point);
    let (root, point) = (path(root)?, path(point)?);
    // SAFETY: like fork(); the child makes only system calls on strings made before, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = enter(&namespace).and_then(|()| change(&root, libc::MS_PRIVATE)).and_then(|()| {
            detach(&others);
            detach_one(&point)
        });
        let code = done.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child; `status` is valid.
    if child < 0 || unsafe { libc::waitpid(child, &mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    change(&root, libc::MS_PRIVATE)?;
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: an open descriptor of a mount namespace.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) })
}

fn change(mount: &CString, propagation: libc::c_ulong) -> io::Result<()> {
    // SAFETY: only the path is read where the propagation is changed.
    check(unsafe { libc::mount(std::ptr::null(), mount.as_ptr(), std::ptr::null(), propagation, std::ptr::null()) })
}

fn detach_one(point: &CString) -> io::Result<()> {
    // SAFETY: a valid string.
    check(unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_what_lies_on_our_tmpfs_beside_the_target() {
        let lines = [
            ("/", "ext4 /dev/vda1"),
            ("/run", "tmpfs tmpfs"),
            ("/run/fsb/mnt", "tmpfs fsb"),
            ("/run/fsb/mnt/t0", "ext4 /run/fsb/mnt/dev/loop0"),
            ("/run/fsb/mnt/t1", "tmpfs tmpfs"),
            ("/run/fsb/mnt/t10", "btrfs /run/fsb/mnt/dev/loop2"),
            ("/mnt", "xfs /dev/sdb"),
        ];
        let text: String = lines.iter().map(|(point, rest)| format!("1 1 0:1 / {point} rw - {rest} rw\n")).collect();
        let mounts = mountinfo::parse(text.as_bytes());
        assert_eq!(mounts.len(), lines.len());
        let beside = |own: &str| among(&mounts, Path::new(own));
        assert_eq!(beside("/run/fsb/mnt/t1/fsb"), [c"/run/fsb/mnt/t10".to_owned(), c"/run/fsb/mnt/t0".to_owned()]);
        assert_eq!(beside("/run/fsb/mnt/dev/loop1").len(), 3);
        assert!(beside("/mnt/.fsb-0a").is_empty() && beside("/run/fsb").is_empty());
    }
}
