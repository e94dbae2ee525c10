//! Keeps the mounts of other targets away from processes that work for one target, and gives a FUSE
//! server its own mount namespace.
//!
//! A process with its own mount namespace has copies of all mounts that existed when the namespace
//! was made. Each copy keeps its file system mounted. A worker of one target would therefore
//! prevent the other targets from being unmounted, and so from being made cold. Mounted copies also
//! stop mkfs.btrfs. It treats devices over slices of one image as the same device, and refuses to
//! run if one of them is mounted.
//!
//! A FUSE server must not hold the file system that it serves. When a mount namespace ends, the
//! process that leaves it last unmounts everything in it, and unmounting a FUSE file system on a
//! block device waits for its server. If all processes of the namespace are killed at once, that
//! last process may be the server. It then waits for itself forever, and with it every `sync` and
//! `drop_caches` of the machine (seen on Linux 6.18). The server therefore gets its own mount
//! namespace. Its mount reaches ours because the mount below is shared for that moment. Afterwards
//! the mount is removed from the server's namespace.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mountinfo::{self, Mount};

/// The source of the tmpfs that all targets are mounted on.
pub const MOUNT_ROOT: &str = "fsb";

/// Returns the mount points of all targets except those at `own`, each of which may also be a
/// device node of fsb.
pub fn others(own: &[PathBuf]) -> Vec<CString> {
    among(&mountinfo::read(), own)
}

/// Returns whether this is the mount below which all targets are mounted.
pub fn is_root(mount: &Mount) -> bool {
    mount.kind == "tmpfs" && mount.source == Path::new(MOUNT_ROOT)
}

fn among(mounts: &[Mount], own: &[PathBuf]) -> Vec<CString> {
    let is_own = |point: &Path| own.iter().any(|own| own.starts_with(point));
    let Some(root) = mounts
        .iter()
        .filter(|mount| is_root(mount))
        .rfind(|root| is_own(&root.point))
    else {
        return Vec::new();
    };
    let below = mounts
        .iter()
        .map(|mount| &mount.point)
        .filter(|point| **point != root.point);
    let others = below.filter(|point| point.starts_with(&root.point) && !is_own(point));
    // In reverse order, because a mount may cover an earlier one.
    others
        .rev()
        .filter_map(|point| CString::new(point.as_os_str().as_bytes()).ok())
        .collect()
}

/// Detaches mounts from the mount namespace of the calling process, which must be its own. Missing
/// mounts are ignored.
pub fn detach(points: &[CString]) {
    for point in points {
        // SAFETY: a valid string.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    }
}

/// Makes `command` run in a mount namespace without the other targets than the one at `own`. If the
/// kernel refuses the namespace, the command runs without it.
pub fn hide_from(command: &mut Command, own: &Path) {
    let points = others(&[own.to_owned()]);
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

/// Makes `command` start in its own mount namespace, from which mounts on `root` propagate to ours.
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

/// Detaches the mount at `point`, and those of other targets, from a mount namespace that
/// [`start_apart`] prepared. Our namespace keeps them. `own` are the other mounts that the
/// processes of that namespace work on.
pub fn let_go(namespace: &File, root: &Path, point: &Path, own: &[PathBuf]) -> io::Result<()> {
    let others = others(&[&[point.to_owned()], own].concat());
    let (root, point) = (path(root)?, path(point)?);
    // SAFETY: like fork(); the child makes only system calls on strings made before, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = enter(namespace)
            .and_then(|()| change(&root, libc::MS_PRIVATE))
            .and_then(|()| {
                detach(&others);
                detach_one(&point)
            });
        let code = done
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child; `status` is valid.
    if child < 0 || unsafe { libc::waitpid(child, &mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    keep_private(Path::new(std::ffi::OsStr::from_bytes(root.to_bytes())))?;
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Ends the propagation that [`start_apart`] began, for a process that mounted nothing.
pub fn keep_private(root: &Path) -> io::Result<()> {
    change(&path(root)?, libc::MS_PRIVATE)
}

fn path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: an open descriptor of a mount namespace.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) })
}

fn change(mount: &CString, propagation: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the kernel reads only the path when it changes the propagation.
    check(unsafe {
        libc::mount(
            std::ptr::null(),
            mount.as_ptr(),
            std::ptr::null(),
            propagation,
            std::ptr::null(),
        )
    })
}

fn detach_one(point: &CString) -> io::Result<()> {
    // SAFETY: a valid string.
    check(unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
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
        let text: String = lines
            .iter()
            .map(|(point, rest)| format!("1 1 0:1 / {point} rw - {rest} rw\n"))
            .collect();
        let mounts = mountinfo::parse(text.as_bytes());
        assert_eq!(mounts.len(), lines.len());
        let beside = |own: &str| {
            among(
                &mounts,
                &own.split(' ').map(PathBuf::from).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            beside("/run/fsb/mnt/t1/fsb"),
            [
                c"/run/fsb/mnt/t10".to_owned(),
                c"/run/fsb/mnt/t0".to_owned()
            ]
        );
        assert_eq!(
            beside("/run/fsb/mnt/t0/fsb /run/fsb/mnt/t1/fsb"),
            [c"/run/fsb/mnt/t10".to_owned()]
        );
        assert_eq!(beside("/run/fsb/mnt/dev/loop1").len(), 3);
        assert!(beside("/mnt/.fsb-0a").is_empty() && beside("/run/fsb").is_empty());
    }
}
