//! What a worker does to itself before it touches anything: give up every way to write outside its target.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bind;
use crate::error::{Refusal, TestbedError, describe};
use crate::sys::beside;

/// What a worker may still do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The only directory that stays writable.
    pub writable: Option<PathBuf>,
    /// The user to become.
    pub uid: u32,
    /// The group to become; all other groups are given up.
    pub gid: u32,
    /// The only processors to run on; all where it is empty.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// The only NUMA nodes to take memory from; any where it is empty.
    #[serde(default)]
    pub memory_nodes: Vec<u32>,
    /// The worker runs programs of the user, which need /dev/null and its like, a directory for temporary files, and these
    /// directories; absent where it does everything itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<PathBuf>>,
    /// What those programs see as their root, read-only: a directory that holds another machine's files, and places for this
    /// one's /dev, /proc, /sys, /run and /tmp. Absent: this machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Ask for SIGKILL when the *thread* that started this process ends. Needed only where there is no PID namespace.
    pub die_with_parent: bool,
}

/// Confines the calling process, which must have one thread. Irreversible.
///
/// Everything but `writable` becomes read-only (and no device can be opened), the user changes, no capability and no
/// way to new privileges is left, and no core is dumped. The answer holds what could not be done without root; for
/// root, failing to give up root is an error.
///
/// The clock of a trial has not started yet: nothing here needs to be fast.
pub fn confine(confinement: &Confinement) -> Result<Vec<String>, TestbedError> {
    let root = rustix::process::geteuid().is_root();
    let mut notes = Vec::new();
    // SAFETY: a valid structure; only lowers a limit of our own process.
    let core = unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none)
    };
    check(core, "forbidding core dumps")?;
    lift_locked_memory();
    bind::to_processors(&confinement.cpus)?;
    bind::to_memory(&confinement.memory_nodes)?;
    if let Err(error) = own_mounts(confinement, root) {
        notes.push(format!("the worker is not held to its target by read-only mounts ({error})"));
    }
    drop_bounding_set();
    if root {
        become_user(confinement.uid, confinement.gid)?;
    }
    drop_capabilities(confinement.uid == 0)?;
    // SAFETY: set properties of our own process. Changing the user cleared the death signal, so it is set here.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbidding new privileges")?;
        libc::umask(0o022);
        if confinement.die_with_parent {
            let parent = libc::getppid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(127);
            }
        }
    }
    Ok(notes)
}

/// Memory that is registered with io_uring is locked, and unprivileged users may lock but a few MiB. Without root the
/// limit stays as it is: who is stopped by it says so.
fn lift_locked_memory() {
    let most = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid structure; a limit of our own process.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &most) };
}

fn check(result: libc::c_int, step: &str) -> Result<(), TestbedError> {
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(TestbedError::machine("the worker cannot be confined").tried(Refusal::call(step, &error)))
}

/// A mount namespace in which all is read-only but the target.
fn own_mounts(confinement: &Confinement, root: bool) -> Result<(), Refusal> {
    let step = |step: &str, result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(Refusal::call(step, &io::Error::last_os_error())),
    };
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let flags = if root { libc::CLONE_NEWNS } else { libc::CLONE_NEWUSER | libc::CLONE_NEWNS };
    // SAFETY: this process has one thread by contract, so nobody shares what is split off.
    step("unshare", unsafe { libc::unshare(flags) })?;
    if !root {
        let write = |path: &str, text: String| std::fs::write(path, text).map_err(|error| Refusal::call(path, &error));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("{0} {0} 1", own.0))?;
        write("/proc/self/gid_map", format!("{0} {0} 1", own.1))?;
    }
    let null = std::ptr::null();
    // SAFETY: constant strings, or null where the kernel ignores the argument.
    let private = unsafe { libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) };
    step("making mounts private", private)?;
    if let Some(path) = &confinement.writable {
        beside::detach(&beside::others(path));
    }
    let writable = confinement.writable.as_deref().map(c_path).transpose()?;
    if let Some(path) = &writable {
        // SAFETY: a valid path; a bind mount of a directory onto itself, in our own namespace.
        let bound = unsafe { libc::mount(path.as_ptr(), path.as_ptr(), null, libc::MS_BIND, null.cast()) };
        step("binding the target", bound)?;
    }
    let others = confinement.programs.iter().flatten();
    let others = others.map(|path| c_path(path)).collect::<Result<Vec<_>, _>>()?;
    if confinement.programs.is_some() {
        for path in &others {
            // SAFETY: as above.
            let bound = unsafe { libc::mount(path.as_ptr(), path.as_ptr(), null, libc::MS_BIND, null.cast()) };
            step(&format!("binding {}", path.to_string_lossy()), bound)?;
        }
        bind_devices();
        // SAFETY: constant strings; an empty file system in memory, in our own namespace.
        let scratch = unsafe {
            let options = c"mode=1777,size=50%";
            let name = c"tmpfs".as_ptr();
            libc::mount(name, c"/dev/shm".as_ptr(), name, libc::MS_NOSUID | libc::MS_NODEV, options.as_ptr().cast())
        };
        step("mounting a tmpfs on /dev/shm", scratch)?;
    }
    std::env::set_current_dir("/").map_err(|error| describe(&error))?;
    let locked = MountAttr { set: RDONLY | NOSUID | NODEV, clear: 0 };
    mount_setattr(c"/", libc::AT_RECURSIVE as u32, &locked).map_err(|error| Refusal::call("mount_setattr", &error))?;
    if let Some(path) = &writable {
        let open = MountAttr { set: 0, clear: RDONLY };
        mount_setattr(path, 0, &open).map_err(|error| Refusal::call("mount_setattr of the target", &error))?;
    }
    for path in &others {
        let open = MountAttr { set: 0, clear: RDONLY };
        let what = format!("mount_setattr of {}", path.to_string_lossy());
        mount_setattr(path, 0, &open).map_err(|error| Refusal::call(&what, &error))?;
    }
    if confinement.programs.is_some() {
        let device = MountAttr { set: 0, clear: RDONLY | NODEV };
        // One that is not there is missed by whoever needs it.
        DEVICES.iter().for_each(|path| drop(mount_setattr(path, 0, &device)));
        let open = MountAttr { set: 0, clear: RDONLY };
        mount_setattr(c"/dev/shm", 0, &open).map_err(|error| Refusal::call("mount_setattr of /dev/shm", &error))?;
    }
    confinement.root.as_deref().map_or(Ok(()), change_root)
}

/// Shows this machine's own places, the target among them, below another root, and goes there.
fn change_root(root: &Path) -> Result<(), Refusal> {
    for name in PLACES {
        let (from, to) = (c_path(Path::new(name))?, c_path(&root.join(&name[1..]))?);
        let (null, flags) = (std::ptr::null(), libc::MS_BIND | libc::MS_REC);
        // SAFETY: valid paths; a bind mount in our own namespace.
        if unsafe { libc::mount(from.as_ptr(), to.as_ptr(), null, flags, null.cast()) } != 0 {
            return Err(Refusal::call(format!("binding {name} below {}", root.display()), &io::Error::last_os_error()));
        }
    }
    rustix::process::chroot(root).map_err(|errno| Refusal::call("chroot", &errno.into()))?;
    std::env::set_current_dir("/").map_err(|error| Refusal::call("chdir", &error))
}

/// Places of a machine that no other's files stand for.
pub const PLACES: [&str; 5] = ["/dev", "/proc", "/sys", "/run", "/tmp"];

/// The devices that any program may expect.
const DEVICES: [&CStr; 5] = [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random", c"/dev/urandom"];

/// Each becomes a mount of its own, which can be opened where all others cannot.
fn bind_devices() {
    let null = std::ptr::null();
    for path in DEVICES {
        // SAFETY: constant strings; a bind mount of a file onto itself, in our own namespace.
        unsafe { libc::mount(path.as_ptr(), path.as_ptr(), null, libc::MS_BIND, null.cast()) };
    }
}

// linux/mount.h: MOUNT_ATTR_*.
const RDONLY: u64 = 0x1;
const NOSUID: u64 = 0x2;
const NODEV: u64 = 0x4;

struct MountAttr {
    set: u64,
    clear: u64,
}

fn mount_setattr(path: &std::ffi::CStr, flags: u32, attr: &MountAttr) -> io::Result<()> {
    // The kernel's struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
    let raw: [u64; 4] = [attr.set, attr.clear, 0, 0];
    // SAFETY: a valid path and a structure of the size that is passed.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, raw.as_ptr(), size_of_val(&raw))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_path(path: &Path) -> Result<CString, Refusal> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path holds a zero byte".into())
}

/// Group before user: afterwards there is no right to change either. Raw calls, for this process has one thread.
fn become_user(uid: u32, gid: u32) -> Result<(), TestbedError> {
    // SAFETY: changes only our own credentials.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()), "giving up groups")?;
        check(libc::setresgid(gid, gid, gid), "changing the group")?;
        check(libc::setresuid(uid, uid, uid), "changing the user")?;
    }
    if uid != 0 {
        // SAFETY: must fail; if it does not, this process is still root.
        let regained = unsafe { libc::setresuid(0, 0, 0) } == 0;
        if regained {
            return Err(TestbedError::machine("the worker cannot be confined").tried("it could become root again"));
        }
    }
    Ok(())
}

/// The capabilities that a worker keeps when root was forced: power over files, none over the machine.
/// CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID (linux/capability.h: 0 to 4).
const FILE_CAPABILITIES: u32 = 0b1_1111;

/// What no exec may bring back. Errors mean that there is no right to drop, so nothing to bring back either, or that
/// the number is beyond the last capability.
fn drop_bounding_set() {
    for capability in 0..64 {
        // SAFETY: drops a right of our own process.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

fn drop_capabilities(keep_files: bool) -> Result<(), TestbedError> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    /// `_LINUX_CAPABILITY_VERSION_3`.
    const VERSION: u32 = 0x2008_0522;
    let keep = if keep_files { FILE_CAPABILITIES } else { 0 };
    let header = Header { version: VERSION, pid: 0 };
    // {effective, permitted, inheritable}, of the low and of the high 32 capabilities.
    let mut data = [[0u32; 3]; 2];
    // SAFETY: structures as capget(2) and capset(2) have them for version 3. Only rights that are there are kept.
    unsafe {
        let got = libc::syscall(libc::SYS_capget, &header, data.as_mut_ptr());
        check(got as libc::c_int, "reading capabilities")?;
        let kept = data[0][1] & keep;
        data = [[kept, kept, 0], [0; 3]];
        let set = libc::syscall(libc::SYS_capset, &header, data.as_ptr());
        check(set as libc::c_int, "giving up capabilities")
    }
}
