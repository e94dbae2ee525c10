//! Namespaces that separate a worker from the rest of the machine.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};

use crate::error::{Refusal, attempt};
use crate::mount_isolation;
use crate::mountinfo::{self, Mount};

/// Gives this process its own mount namespace. Without root, it also gets a user namespace, in which it may change
/// mounts.
pub(super) fn unshare_mounts(root: bool) -> Result<(), Refusal> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(if root { libc::CLONE_NEWNS } else { libc::CLONE_NEWUSER | libc::CLONE_NEWNS })?;
    if !root {
        let write = |path: &str, text: String| fs::write(path, text).map_err(|error| Refusal::call(path, &error));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("{0} {0} 1", own.0))?;
        write("/proc/self/gid_map", format!("{0} {0} 1", own.1))?;
    }
    Ok(())
}

fn unshare(flags: libc::c_int) -> Result<(), Refusal> {
    // SAFETY: this process has one thread by contract, so no other thread is affected.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(Refusal::call("unshare", &io::Error::last_os_error())),
    }
}

/// Gives programs their own IPC objects, network and process numbers. Process numbers take effect at the next fork.
/// Returns notes about namespaces that the kernel refused.
pub(super) fn unshare_for_programs(network: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut attempt = |flag: libc::c_int, what: &str| {
        let unshared = unshare(flag);
        notes.extend(unshared.as_ref().err().map(|why| format!("{what} are shared with the machine ({why})")));
        unshared.is_ok()
    };
    attempt(libc::CLONE_NEWIPC, "semaphores and message queues (ipcs lists what is left)");
    attempt(libc::CLONE_NEWPID, "process numbers");
    if !network && attempt(libc::CLONE_NEWNET, "the network and abstract Unix sockets") {
        // Servers and their clients need the loopback interface. If it stays down they report the error.
        let _ = start_loopback();
    }
    notes
}

/// Does `ip link set lo up`.
fn start_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zeros are a valid request, and the name is shorter than its field.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Replaces the session keyring by an empty one. Does nothing on a kernel without keyrings.
///
/// # Errors
/// Fails if the kernel refuses a new keyring. The old one then stays.
pub fn join_new_session_keyring() -> io::Result<()> {
    /// linux/keyctl.h
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: no name is given; concerns our own process.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    match io::Error::last_os_error() {
        _ if joined >= 0 => Ok(()),
        error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        error => Err(error),
    }
}

/// Opens this process's directory in /proc on a private copy of the mount, which later changes of mounts do not affect.
pub(super) fn own_proc() -> Result<OwnedFd, Refusal> {
    let refused = |errno: rustix::io::Errno| attempt("open", Path::new("/proc/self"), &errno.into());
    let proc = clone_of(Path::new("/proc")).map_err(refused)?;
    rustix::fs::openat(&proc, "self", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(refused)
}

/// Gives this process a user namespace in which every user and group keeps its number. Nothing looks different, but the
/// kernel counts processes per user and namespace, and stores users' keyrings per namespace. Only a process outside may
/// write such a map, so a child forked before writes it. `proc` is from [`own_proc`].
pub(super) fn unshare_users(proc: &OwnedFd) -> Result<(), Refusal> {
    const ALL: &str = "0 0 4294967295";
    let refused = |what: &str| Refusal::call(what, &io::Error::last_os_error());
    let (ready, ready_writer) = super::launch::pipe()?;
    // SAFETY: this process has one thread by contract; the child makes system calls and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ready_writer);
        let write = |name: &str| {
            let file = rustix::fs::openat(proc, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            File::from(file).write_all(ALL.as_bytes())
        };
        let mut byte = [0];
        let mapped =
            File::from(ready).read_exact(&mut byte).and_then(|()| write("gid_map")).and_then(|()| write("uid_map"));
        let errno = mapped.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: ends the child.
        unsafe { libc::_exit(errno) };
    }
    if child < 0 {
        return Err(refused("fork"));
    }
    let unshared = unshare(libc::CLONE_NEWUSER);
    if unshared.is_ok() {
        // If the child has ended, its status shows the error.
        let _ = File::from(ready_writer).write_all(&[1]);
    } else {
        drop(ready_writer);
    }
    let mut status = 0;
    // SAFETY: waits for our own child; `status` is valid.
    if unsafe { libc::waitpid(child, &mut status, 0) } != child {
        return Err(refused("waitpid"));
    }
    unshared?;
    match super::exit_code(status) {
        0 => Ok(()),
        errno => Err(Refusal::call("mapping users", &io::Error::from_raw_os_error(errno))),
    }
}

/// Mounts a /proc of our own PID namespace and a /dev/mqueue of our own IPC namespace over those of the machine. If the
/// kernel refuses, the machine's stay visible; their objects are still not ours.
pub(super) fn show_own_processes_and_queues() {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let mount = |name: &std::ffi::CStr, point: &std::ffi::CStr| {
        // SAFETY: constant strings; a mount in our own namespace.
        unsafe { libc::mount(name.as_ptr(), point.as_ptr(), name.as_ptr(), flags, std::ptr::null()) };
    };
    if rustix::process::getpid().is_init() {
        mount(c"proc", c"/proc");
    }
    if Path::new("/dev/mqueue").is_dir() {
        mount(c"mqueue", c"/dev/mqueue");
    }
}

/// Returns whether a file system may hold Unix sockets of users of this machine and can be a lower layer of an overlay.
/// Network and FUSE file systems are excluded: an overlay reads with root's rights, which those often refuse. `known`
/// is /proc/filesystems.
fn may_hold_sockets(mount: &Mount, known: &str) -> bool {
    const WITHOUT_SOCKETS: [&str; 6] = ["fuseblk", "squashfs", "erofs", "iso9660", "cramfs", "romfs"];
    let kind = mount.kind.as_str();
    // File systems without a device have `nodev` before the name.
    let has_device = known.lines().any(|line| line.strip_prefix('\t') == Some(kind));
    matches!(kind, "tmpfs" | OVERLAY) || (has_device && !WITHOUT_SOCKETS.contains(&kind))
}

const OVERLAY: &str = "overlay";

/// The directory on which the new root is built, on a tmpfs that is unmounted afterwards.
const STAGING: &str = "/dev/shm";

/// Replaces the root by one in which Unix sockets with a path cannot be reached, including those bound later: a
/// descriptor sent through one would keep the target's file system in use. Returns notes about sockets that stay
/// reachable.
///
/// Each file system appears through a read-only overlay. It shows the same files with other inodes, and the kernel
/// finds a socket by its inode.
pub(super) fn hide_sockets() -> Vec<String> {
    match root_without_sockets() {
        Ok(notes) => notes,
        Err(why) => vec![format!("Unix sockets of the machine can be reached ({why})")],
    }
}

fn root_without_sockets() -> Result<Vec<String>, Refusal> {
    let staging = Path::new(STAGING);
    let (empty, root) = (staging.join("empty"), staging.join("root"));
    let refused = |what: &'static str| move |errno: rustix::io::Errno| Refusal::call(what, &errno.into());
    let (tmpfs, none) = (c"tmpfs".as_ptr(), std::ptr::null());
    // SAFETY: constant strings; a mount in our own namespace.
    if unsafe { libc::mount(tmpfs, c"/dev/shm".as_ptr(), tmpfs, libc::MS_NOSUID | libc::MS_NODEV, none) } != 0 {
        return Err(Refusal::call("mounting a tmpfs", &io::Error::last_os_error()));
    }
    let built = (|| {
        for directory in [&empty, &root] {
            fs::create_dir(directory).map_err(|error| attempt("make", directory, &error))?;
        }
        let mut notes = Vec::new();
        attach(&overlay(Path::new("/"), &empty, false).map_err(refused("an overlay of /"))?, &root)
            .map_err(refused("mounting the new root"))?;
        let mounts = mountinfo::read();
        let known = crate::read_text("/proc/filesystems").unwrap_or_default();
        // Targets are mounted below a directory that only root can use.
        let targets = mounts.iter().find(|mount| mount_isolation::is_root(mount)).map(|mount| mount.point.clone());
        for (at, mount) in mounts.iter().enumerate() {
            let point = &mount.point;
            let covered = mounts[at + 1..].iter().any(|other| other.point == *point);
            let Ok(below) = point.strip_prefix("/") else { continue };
            if covered || below.as_os_str().is_empty() || point.starts_with(staging) {
                continue;
            }
            // A mount point that cannot be examined is hidden by another mount.
            let Ok(kind) = fs::symlink_metadata(point).map(|found| found.file_type()) else { continue };
            if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
                continue;
            }
            let is_target = targets.as_ref().is_some_and(|targets| point.starts_with(targets));
            let covering = kind.is_dir() && !is_target && may_hold_sockets(mount, &known);
            let tree = if covering {
                overlay(point, &empty, mount.options.iter().any(|option| option == "noexec")).or_else(|errno| {
                    notes.push(format!("Unix sockets below {} can be reached (overlay: {errno})", point.display()));
                    clone_of(point)
                })
            } else {
                clone_of(point)
            };
            // A mount that cannot be attached is left out, for example one whose mount point is below a hidden one.
            let _ = tree.and_then(|tree| attach(&tree, &root.join(below)));
        }
        std::env::set_current_dir(&root).map_err(|error| attempt("change to", &root, &error))?;
        rustix::process::pivot_root(".", ".").map_err(refused("pivot_root"))?;
        unmount(".", UnmountFlags::DETACH).map_err(refused("leaving the old root"))?;
        Ok(notes)
    })();
    if built.is_err() {
        // The machine's own root stays as it was.
        let _ = std::env::set_current_dir("/");
        let _ = unmount(&root, UnmountFlags::DETACH);
        let _ = unmount(staging, UnmountFlags::DETACH);
    }
    built
}

/// Makes a read-only overlay of a directory, without attaching it. The kernel requires two layers: the second is
/// `empty`.
fn overlay(directory: &Path, empty: &Path, noexec: bool) -> rustix::io::Result<OwnedFd> {
    let escaped = directory.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:");
    let context = fsopen(OVERLAY, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "lowerdir", format!("{escaped}:{}", empty.display()))?;
    fsconfig_create(context.as_fd())?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, noexec);
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Clones the mount at `point`, without the mounts below it and without attaching it.
fn clone_of(point: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_NO_AUTOMOUNT;
    open_tree(CWD, point, flags)
}

fn attach(tree: &OwnedFd, point: &Path) -> rustix::io::Result<()> {
    move_mount(tree.as_fd(), "", CWD, point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
