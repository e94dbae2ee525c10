//! Processes that the kernel ends together, and workers that can write only to their target.
//!
//! Three processes, each started by re-executing this program:
//!
//! ```text
//! coordinator ──clone(NEWPID|NEWNS)──▶ supervisor (PID 1) ──▶ agent ──▶ workers
//!   └──────────── socket pair (descriptor 3) ────────────────────┘
//! ```
//!
//! A worker that runs programs of the user forks once more: see `confine.rs`.
//!
//! The supervisor dies with the coordinator: the kernel sends it SIGKILL (`PR_SET_PDEATHSIG`), and
//! a pipe that only the coordinator holds open closes as well. It never changes its user, because
//! that would clear the death signal. When PID 1 of a PID namespace dies, the kernel kills
//! everything in it. With the last process goes the mount namespace, with it every mount, and with
//! the mounts the loop devices (autoclear) and images (unlinked). No clean-up code has to run.
//!
//! One more process, which outlives the coordinator by an instant, undoes what the kernel does not
//! clean up: see `fsb-testbed/src/watcher.rs`.

mod confine;

use std::ffi::{CStr, CString, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use fsb_model::errno::describe_spawn;
use serde::{Deserialize, Serialize};

use crate::error::{Refusal, TestbedError, Tried, describe};
use crate::magic;
use crate::process::change_descriptors;

pub use confine::{Confinement, OWN_PROCESSES, Programs, confine, join_new_session_keyring};

/// The descriptor number of the socket to the coordinator, in the supervisor and the agent.
const PROTOCOL: RawFd = 3;
/// The descriptor number of the pipe that closes when the coordinator dies, in the supervisor.
const LIFELINE: RawFd = 4;
/// The descriptor number of the coordinator's /proc, which shows the whole machine, in the agent.
/// Closed if there is none.
const HOST_PROC: RawFd = 5;

/// Returns the agent's end of the connection to the coordinator: the descriptor that [`launch`]
/// made and [`supervise`] passed on. Can be taken once. Children that start afterwards do not
/// inherit it.
pub fn protocol() -> Result<UnixStream, TestbedError> {
    fn missing(why: String) -> TestbedError {
        TestbedError::machine("no connection to the coordinator process")
            .tried(why)
            .advice("this entry point is only for fsb itself: use 'fsb run'")
    }
    // SAFETY: fcntl on a number that may or may not be open: it returns EBADF if it is not.
    let flags = unsafe { libc::fcntl(PROTOCOL, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(missing(format!(
            "descriptor {PROTOCOL} was not handed down"
        )));
    }
    // SAFETY: the descriptor is open and came through exec, so nothing in this program owns it yet.
    // It is marked close-on-exec below, by which the check above recognises a second call.
    let owned = unsafe { OwnedFd::from_raw_fd(PROTOCOL) };
    let stream = UnixStream::from(owned);
    stream
        .peer_addr()
        .map_err(|error| missing(format!("descriptor {PROTOCOL}: {}", describe(&error))))?;
    set_close_on_exec(stream.as_raw_fd()).map_err(|error| missing(describe(&error)))?;
    Ok(stream)
}

/// Returns the coordinator's /proc, which [`launch`] kept open: the agent's own shows only its PID
/// namespace. Returns `None` in processes that were not launched, and on a second call. Children of
/// this process do not inherit it.
pub fn host_proc() -> Option<OwnedFd> {
    // SAFETY: fcntl on a number that may or may not be open.
    let flags = unsafe { libc::fcntl(HOST_PROC, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return None;
    }
    // SAFETY: the descriptor is open and came through exec, so nothing in this program owns it yet.
    let owned = unsafe { OwnedFd::from_raw_fd(HOST_PROC) };
    set_close_on_exec(owned.as_raw_fd()).ok()?;
    (rustix::fs::fstatfs(&owned).ok()?.f_type as u64 == magic::PROC).then_some(owned)
}

/// Converts a wait status to an exit code as a shell does.
fn exit_code(status: libc::c_int) -> i32 {
    if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        128 + libc::WTERMSIG(status)
    }
}

fn set_close_on_exec(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: changes only the flag of a descriptor that the caller holds.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Marks all descriptors but standard input, output and error close-on-exec. A child gets the
/// descriptors that it needs afterwards.
pub fn close_on_exec() {
    // Linux before 5.11 does not know the flag.
    change_descriptors(libc::CLOSE_RANGE_CLOEXEC, |fd| drop(set_close_on_exec(fd)));
}

/// Returns whether the other end of the lifeline is closed. Async-signal-safe.
fn lifeline_is_cut(fd: RawFd, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
    ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

// The coordinator's side: makes the namespaces and starts the supervisor in them.
//
// This uses a raw `clone` and not `std::process`: the namespaces must exist before the supervisor's
// first instruction, and only the first process made in a new PID namespace becomes its init.
// Between `clone` and `exec` the child may only make system calls, so every string is prepared
// before.

/// The isolation between the run and the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Own PID and mount namespaces, made by root.
    PidAndMount,
    /// Own PID and mount namespaces inside an own user namespace, made without root.
    User,
    /// The kernel refused to make these namespaces. Only death signals end the processes.
    None,
}

impl Isolation {
    fn clone_flags(self) -> libc::c_int {
        match self {
            Isolation::PidAndMount => libc::CLONE_NEWPID | libc::CLONE_NEWNS,
            Isolation::User => libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS,
            Isolation::None => 0,
        }
    }
}

/// A running supervisor. Dropping the value kills everything below the supervisor and waits for
/// that, unless [`Launched::let_go`] was called.
#[derive(Debug)]
pub struct Launched {
    /// The supervisor's process id as the coordinator sees it.
    pub pid: i32,
    /// The connection to the agent.
    pub stream: UnixStream,
    /// The isolation between the run and the rest of the machine.
    pub isolation: Isolation,
    /// The write end of the lifeline. The supervisor ends when it closes, even if the death signal
    /// is lost.
    _lifeline: OwnedFd,
    status: Option<i32>,
    let_go: bool,
}

/// Time limit for the kernel to end a namespace. Its last unmount writes dirty data back.
const REAP: Duration = Duration::from_secs(30);

impl Launched {
    /// Returns the exit code of the supervisor if it has ended: the agent's, or 128 + the signal's
    /// number.
    pub fn try_wait(&mut self) -> Option<i32> {
        if self.status.is_none() {
            let mut status = 0;
            // SAFETY: waits for our own child, which only we wait for; `status` is valid.
            let pid = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) };
            if pid == self.pid {
                self.status = Some(exit_code(status));
            }
        }
        self.status
    }

    /// Waits at most `limit` for the supervisor to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let start = Instant::now();
        loop {
            let status = self.try_wait();
            if status.is_some() || start.elapsed() >= limit {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the supervisor, and so everything below it. Waits at most `limit` until it is gone,
    /// and returns whether it is.
    pub fn kill(&mut self, limit: Duration) -> bool {
        if self.try_wait().is_none() {
            // SAFETY: our own child, not yet waited for, so the number cannot belong to another
            // process.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        self.wait(limit).is_some()
    }

    /// Drops the value without another kill and without waiting. The supervisor was already killed,
    /// and the kernel ends the rest.
    pub fn let_go(mut self) {
        self.let_go = true;
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if !self.let_go {
            self.kill(REAP);
        }
    }
}

/// Starts this program again with `arguments` (without the program's own name) as the supervisor of
/// new namespaces.
///
/// Call this from the main thread while it is the only one. The death signal follows the *thread*
/// that cloned, and a forked copy of a lock that another thread held would never be released.
pub fn launch(arguments: &[OsString]) -> Result<Launched, TestbedError> {
    // Descriptors that a shell left open are only for this process. The child gets its own
    // descriptors later.
    close_on_exec();
    let root = rustix::process::geteuid().is_root();
    let wishes: &[Isolation] = if root {
        &[Isolation::PidAndMount, Isolation::None]
    } else {
        &[Isolation::User, Isolation::None]
    };
    let mut refusals = Vec::new();
    for isolation in wishes {
        match start(arguments, *isolation) {
            Ok(launched) => return Ok(launched),
            Err(refusal) => refusals.push(refusal),
        }
    }
    let advice = match root_is_mounted() {
        true => {
            "check the limits on processes (ulimit -u, pids.max) and the container's seccomp profile"
        }
        false => {
            "mount the directory of this chroot over itself first: mount --bind DIR DIR && chroot DIR"
        }
    };
    Err(TestbedError::machine("cannot start the supervisor process")
        .coded(&fsb_model::error::NO_SUPERVISOR)
        .field("root_is_mounted", root_is_mounted())
        .tried(Refusal::all(&refusals))
        .advice(advice))
}

/// Returns whether the root directory is a mount. In a chroot to a plain directory mounts cannot be
/// made private.
fn root_is_mounted() -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
    let root = rustix::fs::statx(CWD, "/", AtFlags::empty(), StatxFlags::empty());
    root.is_ok_and(|root| root.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn start(arguments: &[OsString], isolation: Isolation) -> Result<Launched, Refusal> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| Refusal::call("socketpair", &error))?;
    let (lifeline, lifeline_writer) = pipe()?;
    let (status, status_writer) = pipe()?;
    let (theirs, lifeline, status_writer) = (
        move_away(theirs)?,
        move_away(lifeline)?,
        move_away(status_writer)?,
    );
    // Without /proc, processes of others are not observed. Everything else works.
    let proc = std::fs::File::open("/proc")
        .ok()
        .map(move_away)
        .transpose()?;
    let descriptors = Descriptors {
        proc: proc.as_ref().map(AsRawFd::as_raw_fd),
        protocol: theirs.as_raw_fd(),
        lifeline: lifeline.as_raw_fd(),
        lifeline_writer: lifeline_writer.as_raw_fd(),
        status: status_writer.as_raw_fd(),
    };
    let prepared = Prepared::new(arguments, isolation, descriptors)?;

    let flags = isolation.clone_flags() | libc::SIGCHLD;
    // SAFETY: like fork(): no stack is given, so the child runs on a copy of ours. This process has
    // one thread by contract, and the child makes only system calls until it execs or exits.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        prepared.become_supervisor();
    }
    if pid < 0 {
        return Err(Refusal::call(
            format!("clone ({isolation:?})"),
            &io::Error::last_os_error(),
        ));
    }
    drop((theirs, lifeline, status_writer, proc));
    let mut launched = Launched {
        pid: pid as i32,
        stream: ours,
        isolation,
        _lifeline: lifeline_writer,
        status: None,
        let_go: false,
    };
    // exec closes this pipe. If a step before exec fails, the child writes its number and the error
    // into the pipe.
    let mut failure = Vec::new();
    std::fs::File::from(status)
        .read_to_end(&mut failure)
        .map_err(|error| Refusal::call("read from the supervisor", &error))?;
    match failure[..] {
        [] => Ok(launched),
        [step, a, b, c, d] => {
            launched.wait(REAP);
            let error = io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]));
            Err(Refusal::call(
                format!("{} ({isolation:?})", LaunchStep::NAMES[usize::from(step)]),
                &error,
            ))
        }
        _ => Err(format!("the supervisor ended before it started ({isolation:?})").into()),
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Refusal> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Refusal::call("pipe", &errno.into()))
}

/// Duplicates a descriptor to a number above those that [`Prepared::place_descriptors`] overwrites.
fn move_away(fd: impl AsFd) -> Result<OwnedFd, Refusal> {
    const ABOVE: RawFd = 16;
    rustix::io::fcntl_dupfd_cloexec(fd, ABOVE).map_err(|errno| {
        // The kernel returns EINVAL if the limit allows no descriptor above.
        let errno = if errno == rustix::io::Errno::INVAL {
            rustix::io::Errno::MFILE
        } else {
            errno
        };
        Refusal::call("moving a descriptor", &errno.into())
    })
}

/// The child's descriptors before they are moved to their final numbers.
#[derive(Clone, Copy)]
struct Descriptors {
    /// The /proc of the coordinator, which shows the whole machine.
    proc: Option<RawFd>,
    protocol: RawFd,
    lifeline: RawFd,
    lifeline_writer: RawFd,
    status: RawFd,
}

/// The steps at which a child may fail before it executes the program.
#[derive(Clone, Copy)]
enum LaunchStep {
    UserMap,
    Mounts,
    Descriptors,
    Parent,
    Exec,
}

impl LaunchStep {
    const NAMES: [&str; 5] = [
        "mapping the user",
        "making mounts private",
        "moving descriptors",
        "the parent died",
        "executing this program",
    ];
}

/// All data that the child needs, prepared before the fork.
struct Prepared {
    /// Owns the strings that `argv` points to.
    _arguments: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    uid_map: CString,
    gid_map: CString,
    descriptors: Descriptors,
    isolation: Isolation,
}

/// Returns the line that maps an id of a namespace to the same id.
fn id_map(id: u32) -> CString {
    // Digits and spaces are not zero bytes.
    CString::new(format!("{id} {id} 1")).unwrap_or_default()
}

impl Prepared {
    fn new(
        arguments: &[OsString],
        isolation: Isolation,
        descriptors: Descriptors,
    ) -> Result<Self, Refusal> {
        let name = std::env::args_os()
            .next()
            .unwrap_or_else(|| OsString::from("fsb"));
        let arguments: Vec<CString> = std::iter::once(&name)
            .chain(arguments)
            .map(|argument| CString::new(argument.clone().into_vec()))
            .collect::<Result<_, _>>()
            .map_err(|_| "an argument holds a zero byte".to_owned())?;
        let argv = arguments
            .iter()
            .map(|argument| argument.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Ok(Prepared {
            _arguments: arguments,
            argv,
            uid_map: id_map(uid),
            gid_map: id_map(gid),
            descriptors,
            isolation,
        })
    }

    /// Runs in the child: only system calls from here on. Never returns.
    fn become_supervisor(&self) -> ! {
        let step = self.try_become_supervisor();
        let errno = io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(0)
            .to_ne_bytes();
        let message = [step as u8, errno[0], errno[1], errno[2], errno[3]];
        // SAFETY: a valid buffer and the status pipe; then this copy of the process ends without
        // running destructors.
        unsafe {
            libc::write(
                self.descriptors.status,
                message.as_ptr().cast(),
                message.len(),
            );
            libc::_exit(127)
        }
    }

    /// Returns the step that failed; on success the process has become another program.
    fn try_become_supervisor(&self) -> LaunchStep {
        // SAFETY: plain system calls on our own process and descriptors. The copy of the lifeline's
        // write end is closed first, or this process would keep its own lifeline open.
        unsafe {
            libc::close(self.descriptors.lifeline_writer);
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        if self.isolation == Isolation::User && !self.map_user() {
            return LaunchStep::UserMap;
        }
        if !self.make_mounts_private() {
            return LaunchStep::Mounts;
        }
        let Some(lifeline) = self.place_descriptors() else {
            return LaunchStep::Descriptors;
        };
        // The coordinator may have died before the death signal was requested.
        if lifeline_is_cut(lifeline, 0) {
            return LaunchStep::Parent;
        }
        // SAFETY: `argv` is a null-terminated array of strings that live as long as `self`.
        unsafe { libc::execv(c"/proc/self/exe".as_ptr(), self.argv.as_ptr()) };
        LaunchStep::Exec
    }

    /// Maps only our own user and group into the new user namespace.
    fn map_user(&self) -> bool {
        write_file(c"/proc/self/setgroups", c"deny")
            && write_file(c"/proc/self/uid_map", &self.uid_map)
            && write_file(c"/proc/self/gid_map", &self.gid_map)
    }

    /// Separates the mounts of this namespace from those outside, in both directions. /proc must
    /// show the new PID namespace if the kernel allows it; the old one still resolves /proc/self.
    fn make_mounts_private(&self) -> bool {
        let null = std::ptr::null();
        // SAFETY: system calls with constant strings or null where the kernel ignores the argument.
        unsafe {
            if self.isolation == Isolation::None {
                // Fails without privilege. Then nothing can be mounted either.
                if libc::unshare(libc::CLONE_NEWNS) != 0 {
                    return true;
                }
                return libc::mount(
                    null,
                    c"/".as_ptr(),
                    null,
                    libc::MS_REC | libc::MS_PRIVATE,
                    null.cast(),
                ) == 0;
            }
            if libc::mount(
                null,
                c"/".as_ptr(),
                null,
                libc::MS_REC | libc::MS_PRIVATE,
                null.cast(),
            ) != 0
            {
                return false;
            }
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            libc::mount(
                c"proc".as_ptr(),
                c"/proc".as_ptr(),
                c"proc".as_ptr(),
                flags,
                null.cast(),
            );
        }
        true
    }

    /// Moves the socket, the lifeline and our /proc to the numbers that the supervisor and the
    /// agent expect. Only these survive exec.
    fn place_descriptors(&self) -> Option<RawFd> {
        // SAFETY: duplicates our own descriptors, which are above all final numbers. Without /proc,
        // the inherited descriptor with its number is closed, because the agent would take it for
        // /proc.
        let placed = unsafe {
            match self.descriptors.proc {
                Some(proc) => libc::dup2(proc, HOST_PROC),
                None => libc::close(HOST_PROC),
            };
            libc::dup2(self.descriptors.protocol, PROTOCOL) == PROTOCOL
                && libc::dup2(self.descriptors.lifeline, LIFELINE) == LIFELINE
        };
        placed.then_some(LIFELINE)
    }
}

/// Async-signal-safe `echo text > path`.
fn write_file(path: &CStr, text: &CStr) -> bool {
    // SAFETY: constant or prepared strings that end in zero, and a descriptor of our own.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let length = text.count_bytes();
        let written = libc::write(fd, text.as_ptr().cast(), length);
        libc::close(fd);
        written == length as isize
    }
}

// The supervisor: starts the agent, reaps ended children, and ends with the agent or with the
// coordinator.

/// The name of the supervisor's process. In the machine's lists of processes, users recognise a run
/// by it.
pub const SUPERVISOR: &CStr = c"fsb-supervisor";
/// The exit code for a process that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

/// Runs this program with `arguments` as the agent and waits for it. Returns the agent's exit code,
/// or 128 + the number of the signal that ended it. Every process that the agent leaves behind ends
/// too. If the supervisor is PID 1 the kernel ends them, otherwise this function does.
///
/// The agent finds its connection with [`protocol`].
pub fn supervise(arguments: &[OsString]) -> Result<i32, TestbedError> {
    fn fail(step: &str, error: &io::Error) -> TestbedError {
        let text = format!("{step}: {}", describe_spawn(error));
        TestbedError::machine("the supervisor process cannot work").tried(Tried {
            text,
            errno: error.raw_os_error(),
        })
    }
    die_with_parent();
    // A re-executed process is called `exe`. An error is ignored: only the name is lost.
    let _ = rustix::thread::set_name(SUPERVISOR);
    if lifeline_is_cut(LIFELINE, 0) {
        return Ok(KILLED);
    }
    set_close_on_exec(LIFELINE).map_err(|error| fail("the lifeline is missing", &error))?;
    become_reaper();
    let children = watch_children().map_err(|error| fail("signalfd", &error))?;

    let mut command = Command::new("/proc/self/exe");
    command.args(arguments);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    // SAFETY: only system calls on our own process between fork and exec.
    unsafe {
        command.pre_exec(|| {
            die_with_parent();
            unblock_signals();
            Ok(())
        });
    }
    let agent = command
        .spawn()
        .map_err(|error| fail("starting the agent", &error))?
        .id() as i32;
    // SAFETY: the agent has its own copy; as long as ours is open the coordinator cannot see that
    // the agent is gone. Nothing else in this process owns the number.
    drop(unsafe { OwnedFd::from_raw_fd(PROTOCOL) });

    let status = wait_for(agent, &children);
    end_leftovers();
    Ok(status)
}

/// Unblocks all signals of this thread. A shell with blocked SIGCHLD waits for ever for its
/// background jobs.
pub fn unblock_signals() {
    // SAFETY: an initialised signal set on the stack.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

/// Lets the kernel end a program with the thread that starts it.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: only a system call on our own process between fork and exec.
    unsafe {
        command.pre_exec(|| {
            die_with_parent();
            Ok(())
        });
    }
}

fn die_with_parent() {
    // SAFETY: sets a property of our own process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Makes orphans our children even if this process is not PID 1.
fn become_reaper() {
    // SAFETY: sets a property of our own process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Returns a descriptor that becomes readable when a child ends. SIGCHLD stays blocked in this
/// process. `Command` lets its children inherit that, so the agent unblocks it before it starts.
fn watch_children() -> io::Result<OwnedFd> {
    // SAFETY: an initialised signal set on the stack; the new descriptor is ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn wait_for(agent: i32, children: &OwnedFd) -> i32 {
    loop {
        if let Some(status) = reap(agent) {
            return status;
        }
        let mut polled = [
            libc::pollfd {
                fd: children.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            },
            libc::pollfd {
                fd: LIFELINE,
                events: 0,
                revents: 0,
            },
        ];
        // SAFETY: two valid pollfds.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        if polled[1].revents != 0 {
            return KILLED;
        }
        drain(children);
    }
}

/// Reaps every ended child. Returns the agent's exit code if it is among them.
fn reap(agent: i32) -> Option<i32> {
    let mut agent_status = None;
    loop {
        let mut status = 0;
        // SAFETY: waits for any child without blocking; `status` is valid.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            pid if pid <= 0 => return agent_status,
            pid if pid == agent => agent_status = Some(exit_code(status)),
            _ => {}
        }
    }
}

fn drain(children: &OwnedFd) {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 4];
    while rustix::io::read(children, &mut buffer).is_ok_and(|length| length > 0) {}
}

/// Kills the processes that the agent left, if this process is not PID 1. New orphans appear as
/// their parents die, so this repeats until no child is left.
fn end_leftovers() {
    if rustix::process::getpid().is_init() {
        return;
    }
    loop {
        for pid in children_of(rustix::process::getpid().as_raw_nonzero().get()) {
            // SAFETY: our own child, which only we wait for, so the number is still its.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // SAFETY: waits for any child; the status is not needed.
        if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 {
            return;
        }
    }
}

fn children_of(parent: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let stat = crate::read_text(format!("/proc/{pid}/stat")).unwrap_or_default();
            crate::process::stat_field(&stat, 4) == Some(parent as u64)
        })
        .collect()
}
