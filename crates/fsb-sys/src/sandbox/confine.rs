//! Confinement of a worker: before it touches anything it gives up every way to write outside its
//! target.
//!
//! A worker that runs programs of the user is confined further, because those programs may be
//! hostile. It gets namespaces of its own for processes, System V and POSIX IPC, the network and
//! users; a root without reachable Unix sockets; a new session keyring; and limits. A monitor
//! (`fork_below`) outside these namespaces waits for it. `docs/methods/ownership.md` states what
//! that promises and what it does not.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use fsb_model::workload::ProgramLimits;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::error::{Refusal, TestbedError, attempt};
use crate::mount_isolation;
use crate::mountinfo::{self, Mount};

/// The rights that a worker keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The only directories that stay writable.
    pub writable: Vec<PathBuf>,
    /// The user to become.
    pub uid: u32,
    /// The group to become. The worker gives up all other groups.
    pub gid: u32,
    /// The only processors to run on; all of them if empty.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// The only NUMA nodes to allocate memory from; all of them if empty.
    #[serde(default)]
    pub memory_nodes: Vec<u32>,
    /// Resources of the user's programs; `None` if the worker runs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Programs>,
    /// The directory that those programs see as their read-only root. It holds another machine's
    /// files, and mount points for /dev, /proc, /sys, /run and /tmp of this machine. `None`: the
    /// root of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Request SIGKILL for when the *thread* that started this process ends. Needed only without a
    /// PID namespace.
    pub die_with_parent: bool,
}

/// Resources of the user's programs. In addition they get /dev/null and similar devices, and a
/// private /dev/shm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    /// Directories that the programs may write to, besides the target.
    pub writable: Vec<PathBuf>,
    /// Whether the programs share this machine's network. Otherwise they have their own loopback
    /// interface.
    pub network: bool,
    /// Size of their /dev/shm in bytes.
    pub scratch: u64,
    /// Limits of each worker's programs.
    pub limits: ProgramLimits,
}

/// Processes and threads of the worker itself, which count towards [`ProgramLimits::processes`] in
/// the kernel.
pub const OWN_PROCESSES: u64 = 8;

/// Confines the calling process, which must have one thread. Irreversible.
///
/// Everything but `writable` becomes read-only, and no device can be opened. The process changes
/// its user, and keeps no capability and no way to new privileges. It cannot dump core, and no
/// other process of the same user may trace it. Returns notes about the steps that the kernel
/// refused. For root, failing to give up root is an error.
///
/// With `programs` this function forks and returns in the child only: see `fork_below`.
///
/// It runs before the clock of a trial starts, so it need not be fast.
pub fn confine(confinement: &Confinement) -> Result<Vec<String>, TestbedError> {
    let root = rustix::process::geteuid().is_root();
    let mut notes = Vec::new();
    super::close_on_exec();
    set_limit(libc::RLIMIT_CORE, 0, 0).map_err(|error| refused("forbidding core dumps", &error))?;
    lift_locked_memory();
    to_processors(&confinement.cpus)?;
    to_memory(&confinement.memory_nodes)?;
    if root && confinement.uid != 0 {
        // Programs must not read the keys of the root session that started the run.
        notes.extend(
            join_new_session_keyring()
                .err()
                .map(|why| format!("keys of root's session: {why}")),
        );
    }
    let mounts = unshare_mounts(root);
    if let Some(programs) = &confinement.programs {
        limit_programs(&programs.limits).map_err(|error| refused("limiting programs", &error))?;
        notes.extend(unshare_for_programs(programs.network));
        fork_below().map_err(|error| refused("starting the monitor process", &error))?;
    }
    // /proc becomes read-only with everything else.
    let proc = own_proc();
    match mounts.and_then(|()| arrange_mounts(confinement, root)) {
        Ok(open) => notes.extend(open),
        Err(error) => notes.push(format!(
            "no read-only mounts confine the worker to its target ({error})"
        )),
    }
    if confinement.programs.is_some() && root {
        // The kernel counts processes and stores keys per user namespace: each worker has its own
        // count and its own keys.
        let unshared = proc.and_then(|proc| unshare_users(&proc));
        notes.extend(unshared.err().map(|why| {
            format!(
                "its processes and keys count towards the limits of other \
            processes ({why})"
            )
        }));
    }
    if let Some(root) = &confinement.root {
        change_root(root)
            .map_err(|why| TestbedError::machine("the worker cannot be confined").tried(why))?;
    }
    drop_bounding_set();
    if root {
        become_user(confinement.uid, confinement.gid)?;
    }
    drop_capabilities(confinement.uid == 0)?;
    // SAFETY: set properties of our own process. Changing the user cleared the death signal, so it
    // is set here.
    unsafe {
        check(
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            "forbidding new privileges",
        )?;
        check(
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0),
            "forbidding to be traced",
        )?;
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

/// Lifts the limit of locked memory. Memory that is registered with io_uring is locked, and
/// unprivileged users may lock only a few MiB. Without root the limit stays. A worker that reaches
/// it reports the error.
fn lift_locked_memory() {
    let _ = set_limit(
        libc::RLIMIT_MEMLOCK,
        libc::RLIM_INFINITY,
        libc::RLIM_INFINITY,
    );
}

/// Sets the limits of programs, soft and hard, so that none can be raised again, and makes the
/// kernel's OOM killer prefer them to anything else on this machine.
fn limit_programs(limits: &ProgramLimits) -> io::Result<()> {
    let processes = limits.processes + OWN_PROCESSES;
    set_limit(libc::RLIMIT_NPROC, processes, processes)?;
    set_limit(
        libc::RLIMIT_NOFILE,
        limits.files.min(ProgramLimits::SOFT_FILES),
        limits.files,
    )?;
    if let Some(bytes) = limits.memory {
        set_limit(libc::RLIMIT_DATA, bytes, bytes)?;
    }
    // Without this the kernel chooses its victim by size alone.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

/// Sets a limit of this process. Only root can raise a hard limit. For other users a lower hard
/// limit stays.
fn set_limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: valid structures; limits of our own process.
    unsafe {
        if libc::getrlimit(resource, &mut now) != 0 {
            return Err(io::Error::last_os_error());
        }
        let wanted = libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        };
        if libc::setrlimit(resource, &wanted) == 0 {
            return Ok(());
        }
        let hard = hard.min(now.rlim_max);
        let allowed = libc::rlimit {
            rlim_cur: soft.min(hard),
            rlim_max: hard,
        };
        if libc::setrlimit(resource, &allowed) == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

fn check(result: libc::c_int, step: &str) -> Result<(), TestbedError> {
    if result == 0 {
        Ok(())
    } else {
        Err(refused(step, &io::Error::last_os_error()))
    }
}

fn refused(step: &str, error: &io::Error) -> TestbedError {
    TestbedError::machine("the worker cannot be confined").tried(Refusal::call(step, error))
}

/// A detached mount, and the path where it is attached after the root was changed.
type Kept = (OwnedFd, CString);

/// Makes all mounts read-only except the target and the directories that `programs` may write to.
/// The mount namespace must be the worker's own. Returns notes about parts of the machine that
/// programs can still reach.
fn arrange_mounts(confinement: &Confinement, root: bool) -> Result<Vec<String>, Refusal> {
    let mut notes = Vec::new();
    let null = std::ptr::null();
    // SAFETY: constant strings, or null where the kernel ignores the argument.
    let private = unsafe {
        libc::mount(
            null,
            c"/".as_ptr(),
            null,
            libc::MS_REC | libc::MS_PRIVATE,
            null.cast(),
        )
    };
    step("making mounts private", private)?;
    mount_isolation::detach(&mount_isolation::others(&confinement.writable));
    let writable: Vec<Kept> = confinement
        .writable
        .iter()
        .chain(
            confinement
                .programs
                .iter()
                .flat_map(|programs| &programs.writable),
        )
        .map(|path| keep(path))
        .collect::<Result<_, _>>()?;
    if let Some(programs) = &confinement.programs {
        // A guest has no users but fsb's, and its root cannot be exchanged.
        if root && confinement.root.is_none() {
            notes.extend(hide_sockets());
        }
        bind_devices();
        mount_scratch(programs.scratch)?;
        show_own_processes_and_queues();
    }
    for (tree, path) in &writable {
        move_mount(
            tree.as_fd(),
            "",
            CWD,
            path.as_c_str(),
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .map_err(|errno| {
            Refusal::call(format!("binding {}", path.to_string_lossy()), &errno.into())
        })?;
    }
    std::env::set_current_dir("/").map_err(|error| Refusal::call("chdir /", &error))?;
    let locked = MountAttr {
        set: RDONLY | NOSUID | NODEV,
        clear: 0,
    };
    mount_setattr(c"/", libc::AT_RECURSIVE as u32, &locked)
        .map_err(|error| Refusal::call("mount_setattr", &error))?;
    let open = MountAttr {
        set: 0,
        clear: RDONLY,
    };
    for (_, path) in &writable {
        let what = format!("mount_setattr of {}", path.to_string_lossy());
        mount_setattr(path, 0, &open).map_err(|error| Refusal::call(what, &error))?;
    }
    if confinement.programs.is_some() {
        let device = MountAttr {
            set: 0,
            clear: RDONLY | NODEV,
        };
        // A missing device is not an error here. A program that needs it fails.
        DEVICES
            .iter()
            .for_each(|path| drop(mount_setattr(path, 0, &device)));
        mount_setattr(SCRATCH, 0, &open)
            .map_err(|error| Refusal::call("mount_setattr of /dev/shm", &error))?;
    }
    confinement.root.as_deref().map_or(Ok(()), bind_places)?;
    Ok(notes)
}

fn step(step: &str, result: libc::c_int) -> Result<(), Refusal> {
    if result == 0 {
        Ok(())
    } else {
        Err(Refusal::call(step, &io::Error::last_os_error()))
    }
}

/// Clones the mount of `path` alone, without attaching it.
fn keep(path: &Path) -> Result<Kept, Refusal> {
    let tree = open_tree(
        CWD,
        path,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )
    .map_err(|errno| Refusal::call(format!("open_tree {}", path.display()), &errno.into()))?;
    Ok((tree, c_path(path)?))
}

const SCRATCH: &CStr = c"/dev/shm";

/// Mounts a /dev/shm of the worker's own, with room for `bytes`.
fn mount_scratch(bytes: u64) -> Result<(), Refusal> {
    let (name, flags) = (c"tmpfs".as_ptr(), libc::MS_NOSUID | libc::MS_NODEV);
    let options =
        CString::new(format!("mode=1777,size={bytes}")).map_err(|error| error.to_string())?;
    // SAFETY: strings that live as long as the call; an empty file system in memory, in our own
    // namespace.
    step("mounting a tmpfs on /dev/shm", unsafe {
        libc::mount(name, SCRATCH.as_ptr(), name, flags, options.as_ptr().cast())
    })
}

/// Binds [`PLACES`] of this machine, among them the target, below another root.
fn bind_places(root: &Path) -> Result<(), Refusal> {
    for name in PLACES {
        let (from, to) = (c_path(Path::new(name))?, c_path(&root.join(&name[1..]))?);
        let (null, flags) = (std::ptr::null(), libc::MS_BIND | libc::MS_REC);
        // SAFETY: valid paths; a bind mount in our own namespace.
        let mounted = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), null, flags, null.cast()) };
        step(&format!("binding {name} below {}", root.display()), mounted)?;
    }
    Ok(())
}

fn change_root(root: &Path) -> Result<(), Refusal> {
    rustix::process::chroot(root).map_err(|errno| Refusal::call("chroot", &errno.into()))?;
    std::env::set_current_dir("/").map_err(|error| Refusal::call("chdir", &error))
}

/// Directories of this machine that another machine's files cannot replace.
pub const PLACES: [&str; 5] = ["/dev", "/proc", "/sys", "/run", "/tmp"];

/// The devices that any program may expect.
const DEVICES: [&CStr; 5] = [
    c"/dev/null",
    c"/dev/zero",
    c"/dev/full",
    c"/dev/random",
    c"/dev/urandom",
];

/// Makes each device its own mount, so that it can be opened while all other devices cannot.
fn bind_devices() {
    let null = std::ptr::null();
    for path in DEVICES {
        // SAFETY: constant strings; a bind mount of a file onto itself, in our own namespace.
        unsafe {
            libc::mount(
                path.as_ptr(),
                path.as_ptr(),
                null,
                libc::MS_BIND,
                null.cast(),
            )
        };
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
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            raw.as_ptr(),
            size_of_val(&raw),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn c_path(path: &Path) -> Result<CString, Refusal> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path holds a zero byte".into())
}

/// Group before user: afterwards the process may change neither. Raw system calls, because this
/// process has one thread.
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
            return Err(TestbedError::machine("the worker cannot be confined")
                .tried("it could become root again"));
        }
    }
    Ok(())
}

/// The capabilities that a worker keeps if it must run as root: power over files, none over the
/// machine. CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID
/// (linux/capability.h: 0 to 4).
const FILE_CAPABILITIES: u32 = 0b1_1111;

/// Empties the bounding set, so that no exec can regain a capability. An error means that the
/// process may not drop capabilities, and so cannot regain any either, or that the number is beyond
/// the last capability.
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
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    // {effective, permitted, inheritable}, of the low and of the high 32 capabilities.
    let mut data = [[0u32; 3]; 2];
    // SAFETY: structures as capget(2) and capset(2) have them for version 3. Only existing
    // capabilities are kept.
    unsafe {
        let got = libc::syscall(libc::SYS_capget, &header, data.as_mut_ptr());
        check(got as libc::c_int, "reading capabilities")?;
        let kept = data[0][1] & keep;
        data = [[kept, kept, 0], [0; 3]];
        let set = libc::syscall(libc::SYS_capset, &header, data.as_ptr());
        check(set as libc::c_int, "giving up capabilities")
    }
}

/// linux/mempolicy.h: allocate from these nodes, or fail.
const MPOL_BIND: libc::c_int = 2;

/// Binds this process to `cpus`. Changes nothing if the list is empty.
fn to_processors(cpus: &[u32]) -> Result<(), TestbedError> {
    if cpus.is_empty() {
        return Ok(());
    }
    fn fail(tried: Refusal) -> TestbedError {
        TestbedError::trial("the worker cannot be bound to its processors").tried(tried)
    }
    if !cpus.iter().all(|cpu| (*cpu as usize) < CpuSet::MAX_CPU) {
        return Err(fail(
            format!("fsb binds to the first {} at most", CpuSet::MAX_CPU).into(),
        ));
    }
    let mut wanted = CpuSet::new();
    cpus.iter().for_each(|cpu| wanted.set(*cpu as usize));
    sched_setaffinity(None, &wanted)
        .map_err(|errno| fail(Refusal::call("sched_setaffinity", &errno.into())))?;
    // A cpuset may reduce the set without an error.
    match sched_getaffinity(None) {
        Ok(bound) if bound == wanted => Ok(()),
        Ok(bound) => Err(fail(
            format!(
                "only {} of {} are allowed here",
                bound.count(),
                wanted.count()
            )
            .into(),
        )),
        Err(errno) => Err(fail(Refusal::call("sched_getaffinity", &errno.into()))),
    }
}

/// Binds this process's memory to `nodes`. Changes nothing if the list is empty.
fn to_memory(nodes: &[u32]) -> Result<(), TestbedError> {
    let Some(last) = nodes.iter().max() else {
        return Ok(());
    };
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask = vec![0 as libc::c_ulong; *last as usize / BITS + 1];
    nodes
        .iter()
        .for_each(|node| mask[*node as usize / BITS] |= 1 << (*node as usize % BITS));
    // The kernel takes one bit less than the given number.
    let bits = mask.len() * BITS + 1;
    // SAFETY: a mask of at least that many bits less one, read only.
    let answer = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), bits) };
    if answer == 0 {
        return Ok(());
    }
    Err(
        TestbedError::trial("the worker's memory cannot be bound to its NUMA nodes")
            .tried(Refusal::call("set_mempolicy", &io::Error::last_os_error())),
    )
}

/// Number of steps after which the monitor kills a stopped worker. Steps are counted, not time:
/// while the monitor itself is stopped with the worker, at most one step passes. The other steps
/// are long enough for a run that is stopped and continued, where the monitor continues an instant
/// before the worker.
const STOPPED: u32 = 5;
static STEP: libc::timespec = libc::timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Forks. Returns in the child. The parent becomes the monitor and never returns. The calling
/// process must have one thread.
///
/// # Errors
///
/// The kernel's answer to `fork`: the limit of processes, or no memory.
///
/// A worker that runs programs of the user is PID 1 of its own PID namespace if the kernel allows
/// one. When the worker ends, the kernel then ends everything that its programs started, and those
/// programs can neither stop nor kill the worker. A process enters a new PID namespace only by
/// being forked into it. The parent stays outside as the monitor: it has no open file, keeps the
/// rights of the agent, kills a worker that another process stopped, and ends as the worker ended.
fn fork_below() -> io::Result<()> {
    let heard = signals(&[libc::SIGCHLD, libc::SIGTERM]);
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: this process has one thread by contract. Signals are blocked before the fork, so that
    // a SIGTERM that arrives early is one that the monitor handles.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &heard, before.as_mut_ptr());
        let parent = libc::getpid();
        match libc::fork() {
            -1 => {
                let error = io::Error::last_os_error();
                libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
                Err(error)
            }
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // In our own PID namespace the parent has the number 0.
                if ![0, parent].contains(&libc::getppid()) {
                    libc::_exit(127);
                }
                libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
                Ok(())
            }
            worker => watch(worker, &heard),
        }
    }
}

fn signals(numbers: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is initialised before it is read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(set.as_mut_ptr(), *number);
        }
        set.assume_init()
    }
}

/// Runs the monitor. SIGTERM asks it to kill the worker. It ends only after the worker, and with
/// the same status.
fn watch(worker: libc::pid_t, heard: &libc::sigset_t) -> ! {
    // SAFETY: properties and descriptors of our own process. Standard error stays open, for the
    // reason of a kill.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(libc::SYS_close_range, 0, 1, 0);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
    let mut steps_left: Option<u32> = None;
    loop {
        let mut status = 0;
        // SAFETY: waits for our own child without blocking; `status` is valid.
        while unsafe {
            libc::waitpid(
                worker,
                &mut status,
                libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED,
            )
        } > 0
        {
            if libc::WIFSTOPPED(status) {
                steps_left = Some(STOPPED);
            } else if libc::WIFCONTINUED(status) {
                steps_left = None;
            } else {
                end_as(status);
            }
        }
        if steps_left == Some(0) {
            steps_left = None;
            let why = b"it was stopped by a signal and did not continue\n";
            // SAFETY: a valid buffer; our own child, not yet waited for.
            unsafe {
                libc::write(2, why.as_ptr().cast(), why.len());
                libc::kill(worker, libc::SIGKILL);
            }
            continue;
        }
        let time = if steps_left.is_some() {
            &raw const STEP
        } else {
            null()
        };
        // SAFETY: waits for blocked signals; the time is valid or absent.
        let signal = unsafe { libc::sigtimedwait(heard, null_mut(), time) };
        if signal < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
            steps_left = steps_left.map(|left| left - 1);
        }
        if signal == libc::SIGTERM {
            // SAFETY: our own child, not yet waited for.
            unsafe { libc::kill(worker, libc::SIGKILL) };
        }
    }
}

/// Ends this process as its child ended, so that the agent, which waits for it, sees the child's
/// status.
fn end_as(status: libc::c_int) -> ! {
    // SAFETY: signals of our own process; then it ends without running destructors.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            libc::signal(signal, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_UNBLOCK, &signals(&[signal]), null_mut());
            libc::raise(signal);
        }
        libc::_exit(super::exit_code(status))
    }
}

// Namespaces that separate a worker from the rest of the machine.

/// Gives this process its own mount namespace. Without root, it also gets a user namespace, in
/// which it may change mounts.
fn unshare_mounts(root: bool) -> Result<(), Refusal> {
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    unshare(if root {
        libc::CLONE_NEWNS
    } else {
        libc::CLONE_NEWUSER | libc::CLONE_NEWNS
    })?;
    if !root {
        let write = |path: &str, text: String| {
            fs::write(path, text).map_err(|error| Refusal::call(path, &error))
        };
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

/// Gives programs their own IPC objects, network and process numbers. Process numbers take effect
/// at the next fork. Returns notes about namespaces that the kernel refused.
fn unshare_for_programs(network: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut attempt = |flag: libc::c_int, what: &str| {
        let unshared = unshare(flag);
        notes.extend(
            unshared
                .as_ref()
                .err()
                .map(|why| format!("{what} are shared with the machine ({why})")),
        );
        unshared.is_ok()
    };
    attempt(
        libc::CLONE_NEWIPC,
        "semaphores and message queues (ipcs lists what is left)",
    );
    attempt(libc::CLONE_NEWPID, "process numbers");
    if !network && attempt(libc::CLONE_NEWNET, "the network and abstract Unix sockets") {
        // Servers and their clients need the loopback interface. If it stays down they report the
        // error.
        let _ = crate::network::bring_loopback_up();
    }
    notes
}

/// Replaces the session keyring by an empty one. Does nothing on a kernel without keyrings.
///
/// # Errors
/// Fails if the kernel refuses a new keyring. The old one then stays.
pub fn join_new_session_keyring() -> io::Result<()> {
    /// linux/keyctl.h
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: no name is given; concerns our own process.
    let joined = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<u8>(),
        )
    };
    match io::Error::last_os_error() {
        _ if joined >= 0 => Ok(()),
        error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        error => Err(error),
    }
}

/// Opens this process's directory in /proc on a private copy of the mount, which later changes of
/// mounts do not affect.
fn own_proc() -> Result<OwnedFd, Refusal> {
    let refused =
        |errno: rustix::io::Errno| attempt("open", Path::new("/proc/self"), &errno.into());
    let proc = clone_of(Path::new("/proc")).map_err(refused)?;
    rustix::fs::openat(
        &proc,
        "self",
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(refused)
}

/// Gives this process a user namespace in which every user and group keeps its number. Nothing
/// looks different, but the kernel counts processes per user and namespace, and stores users'
/// keyrings per namespace. Only a process outside may write such a map, so a child forked before
/// writes it. `proc` is from [`own_proc`].
fn unshare_users(proc: &OwnedFd) -> Result<(), Refusal> {
    const ALL: &str = "0 0 4294967295";
    let refused = |what: &str| Refusal::call(what, &io::Error::last_os_error());
    let (ready, ready_writer) = super::pipe()?;
    // SAFETY: this process has one thread by contract; the child makes system calls and ends
    // without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ready_writer);
        let write = |name: &str| {
            let file =
                rustix::fs::openat(proc, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            File::from(file).write_all(ALL.as_bytes())
        };
        let mut byte = [0];
        let mapped = File::from(ready)
            .read_exact(&mut byte)
            .and_then(|()| write("gid_map"))
            .and_then(|()| write("uid_map"));
        let errno = mapped
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
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
        errno => Err(Refusal::call(
            "mapping users",
            &io::Error::from_raw_os_error(errno),
        )),
    }
}

/// Mounts a /proc of our own PID namespace and a /dev/mqueue of our own IPC namespace over those of
/// the machine. If the kernel refuses, the machine's stay visible; their objects are still not
/// ours.
fn show_own_processes_and_queues() {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let mount = |name: &std::ffi::CStr, point: &std::ffi::CStr| {
        // SAFETY: constant strings; a mount in our own namespace.
        unsafe {
            libc::mount(
                name.as_ptr(),
                point.as_ptr(),
                name.as_ptr(),
                flags,
                std::ptr::null(),
            )
        };
    };
    if rustix::process::getpid().is_init() {
        mount(c"proc", c"/proc");
    }
    if Path::new("/dev/mqueue").is_dir() {
        mount(c"mqueue", c"/dev/mqueue");
    }
}

/// Returns whether a file system may hold Unix sockets of users of this machine and can be a lower
/// layer of an overlay. Network and FUSE file systems are excluded: an overlay reads with root's
/// rights, which those often refuse. `known` is /proc/filesystems.
fn may_hold_sockets(mount: &Mount, known: &str) -> bool {
    const WITHOUT_SOCKETS: [&str; 6] =
        ["fuseblk", "squashfs", "erofs", "iso9660", "cramfs", "romfs"];
    let kind = mount.kind.as_str();
    // File systems without a device have `nodev` before the name.
    let has_device = known
        .lines()
        .any(|line| line.strip_prefix('\t') == Some(kind));
    matches!(kind, "tmpfs" | OVERLAY) || (has_device && !WITHOUT_SOCKETS.contains(&kind))
}

const OVERLAY: &str = "overlay";

/// The directory on which the new root is built, on a tmpfs that is unmounted afterwards.
const STAGING: &str = "/dev/shm";

/// Replaces the root by one in which Unix sockets with a path cannot be reached, including those
/// bound later: a descriptor sent through one would keep the target's file system in use. Returns
/// notes about sockets that stay reachable.
///
/// Each file system appears through a read-only overlay. It shows the same files with other inodes,
/// and the kernel finds a socket by its inode.
fn hide_sockets() -> Vec<String> {
    match root_without_sockets() {
        Ok(notes) => notes,
        Err(why) => vec![format!(
            "Unix sockets of the machine can be reached ({why})"
        )],
    }
}

fn root_without_sockets() -> Result<Vec<String>, Refusal> {
    let staging = Path::new(STAGING);
    let (empty, root) = (staging.join("empty"), staging.join("root"));
    let refused =
        |what: &'static str| move |errno: rustix::io::Errno| Refusal::call(what, &errno.into());
    let (tmpfs, none) = (c"tmpfs".as_ptr(), std::ptr::null());
    // SAFETY: constant strings; a mount in our own namespace.
    if unsafe {
        libc::mount(
            tmpfs,
            c"/dev/shm".as_ptr(),
            tmpfs,
            libc::MS_NOSUID | libc::MS_NODEV,
            none,
        )
    } != 0
    {
        return Err(Refusal::call(
            "mounting a tmpfs",
            &io::Error::last_os_error(),
        ));
    }
    let built = (|| {
        for directory in [&empty, &root] {
            fs::create_dir(directory).map_err(|error| attempt("make", directory, &error))?;
        }
        let mut notes = Vec::new();
        attach(
            &overlay(Path::new("/"), &empty, false).map_err(refused("an overlay of /"))?,
            &root,
        )
        .map_err(refused("mounting the new root"))?;
        let mounts = mountinfo::read();
        let known = crate::read_text("/proc/filesystems").unwrap_or_default();
        // Targets are mounted below a directory that only root can use.
        let targets = mounts
            .iter()
            .find(|mount| mount_isolation::is_root(mount))
            .map(|mount| mount.point.clone());
        for (at, mount) in mounts.iter().enumerate() {
            let point = &mount.point;
            let covered = mounts[at + 1..].iter().any(|other| other.point == *point);
            let Ok(below) = point.strip_prefix("/") else {
                continue;
            };
            if covered || below.as_os_str().is_empty() || point.starts_with(staging) {
                continue;
            }
            // A mount point that cannot be examined is hidden by another mount.
            let Ok(kind) = fs::symlink_metadata(point).map(|found| found.file_type()) else {
                continue;
            };
            if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
                continue;
            }
            let is_target = targets
                .as_ref()
                .is_some_and(|targets| point.starts_with(targets));
            let covering = kind.is_dir() && !is_target && may_hold_sockets(mount, &known);
            let tree = if covering {
                overlay(
                    point,
                    &empty,
                    mount.options.iter().any(|option| option == "noexec"),
                )
                .or_else(|errno| {
                    notes.push(format!(
                        "Unix sockets below {} can be reached (overlay: {errno})",
                        point.display()
                    ));
                    clone_of(point)
                })
            } else {
                clone_of(point)
            };
            // A mount that cannot be attached is left out, for example one whose mount point is
            // below a hidden one.
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

/// Makes a read-only overlay of a directory, without attaching it. The kernel requires two layers:
/// the second is `empty`.
fn overlay(directory: &Path, empty: &Path, noexec: bool) -> rustix::io::Result<OwnedFd> {
    let escaped = directory
        .to_string_lossy()
        .replace('\\', "\\\\")
        .replace(':', "\\:");
    let context = fsopen(OVERLAY, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(
        context.as_fd(),
        "lowerdir",
        format!("{escaped}:{}", empty.display()),
    )?;
    fsconfig_create(context.as_fd())?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, noexec);
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Clones the mount at `point`, without the mounts below it and without attaching it.
fn clone_of(point: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_NO_AUTOMOUNT;
    open_tree(CWD, point, flags)
}

fn attach(tree: &OwnedFd, point: &Path) -> rustix::io::Result<()> {
    move_mount(
        tree.as_fd(),
        "",
        CWD,
        point,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `look` on its own thread, because both bindings apply to the calling thread.
    fn apart<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(look).join().unwrap()
    }

    #[test]
    fn a_processor_that_is_there_can_be_chosen() {
        let first = apart(|| {
            let all = sched_getaffinity(None).unwrap();
            let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
            to_processors(&[first as u32]).unwrap();
            let bound = sched_getaffinity(None).unwrap();
            (bound.count(), bound.is_set(first))
        });
        assert_eq!(first, (1, true));
        assert!(apart(|| to_processors(&[CpuSet::MAX_CPU as u32 - 1])).is_err());
        assert!(apart(|| to_processors(&[1 << 15])).is_err());
    }

    #[test]
    fn no_binding_changes_nothing() {
        apart(|| {
            let before = sched_getaffinity(None).unwrap();
            to_processors(&[]).unwrap();
            to_memory(&[]).unwrap();
            assert!(sched_getaffinity(None).unwrap() == before);
        });
    }
}
