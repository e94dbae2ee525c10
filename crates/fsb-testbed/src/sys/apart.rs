//! A FUSE server must not hold what it serves.
//!
//! When a mount namespace ends, whoever leaves it last unmounts what is in it, and unmounting a FUSE file system on a
//! block device waits for its server. If all processes of the namespace are killed at once, the last one to leave may be
//! that server, waiting for itself: for ever, and with it every `sync` and `drop_caches` of the machine (seen on Linux
//! 6.18). So the server gets a mount namespace of its own. Its mount reaches ours because the mount below is shared for
//! that moment, and is then taken out of the server's.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::beside;

/// Makes `command` start in a mount namespace of its own, in which mounts on `root` reach ours.
pub(crate) fn start_apart(command: &mut Command, root: &Path) -> io::Result<()> {
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
pub(crate) fn let_go(pid: u32, root: &Path, point: &Path) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
    let others = beside::others(point);
    let (root, point) = (path(root)?, path(point)?);
    // SAFETY: like fork(); the child makes only system calls on strings made before, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = enter(&namespace).and_then(|()| change(&root, libc::MS_PRIVATE)).and_then(|()| {
            beside::detach(&others);
            detach(&point)
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

fn detach(point: &CString) -> io::Result<()> {
    // SAFETY: a valid string.
    check(unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
