//! A program that serves a mounted file system: a FUSE server, or nfs-ganesha.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{poll_until, process, program};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// The limit for mounting, and for writing everything and ending.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The use of the processes of a FUSE server since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// CPU seconds, in user mode and in the kernel.
    pub cpu_seconds: f64,
    /// Bytes of memory that they occupy now.
    pub memory_bytes: u64,
}

/// A server that lives as long as its mount.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    /// Its own mount namespace, which all its processes share: a daemon that left its parent, and
    /// programs that it runs. `None` for a server without one, and after the server has ended.
    namespace: Option<Namespace>,
    /// The status with which the child ended.
    status: Option<ExitStatus>,
    complaints: File,
}

impl ServerProcess {
    /// Executes the command without input, in the C locale. Keeps its standard error for
    /// [`ServerProcess::complaint`].
    pub(super) fn start(command: &mut Command) -> Result<ServerProcess, TestbedError> {
        // A file, because a full pipe would block the server.
        let complaints = rustix::fs::memfd_create("server", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|errno| {
                TestbedError::machine("no memory for a log").tried(&std::io::Error::from(errno))
            })?;
        let complaints = File::from(complaints);
        let log = complaints
            .try_clone()
            .map_err(|error| TestbedError::machine("descriptor").tried(&error))?;
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().map_err(|error| {
            TestbedError::machine(attempt(
                "cannot execute",
                command.get_program().as_ref(),
                &error,
            ))
        })?;
        Ok(ServerProcess {
            child,
            namespace: None,
            status: None,
            complaints,
        })
    }

    /// Like [`ServerProcess::start`], for a command that
    /// [`start_apart`](fsb_sys::mount_isolation::start_apart) prepared.
    pub(super) fn start_apart(command: &mut Command) -> Result<ServerProcess, TestbedError> {
        let server = ServerProcess::start(command)?;
        let namespace = Namespace::of_process(server.child.id());
        Ok(ServerProcess {
            namespace: namespace.filter(|own| Some(own.inode) != inode(std::process::id())),
            ..server
        })
    }

    /// Waits until `is_ready`, or until the server has ended. A program that ended with success may
    /// have left a daemon, which is the server then. Returns why it does not serve: its end, or the
    /// limit.
    pub(super) fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<(), Refusal> {
        let mut over = false;
        let ready = poll_until(PATIENCE, || {
            over = !self.is_running();
            over || is_ready()
        });
        match self.status {
            Some(status) if over => Err(status.to_string().into()),
            _ if ready => Ok(()),
            _ => Err(format!("it was not ready after {} s", PATIENCE.as_secs()).into()),
        }
    }

    /// Returns whether the server, or a daemon that it left, is running.
    pub(crate) fn is_running(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        match self.status {
            None => true,
            Some(status) => status.success() && !self.processes().is_empty(),
        }
    }

    /// Returns how the server ended and the end of its standard error, if it does not run although
    /// its file system is mounted.
    pub(crate) fn failure(&mut self) -> Option<String> {
        if self.is_running() {
            return None;
        }
        let status = self.status.map(|status| status.to_string());
        let status = status.unwrap_or_else(|| "its processes ended".to_owned());
        Some(match self.complaint() {
            complaint if complaint.is_empty() => format!("{status}, without a message"),
            complaint => format!("{status}: {complaint}"),
        })
    }

    /// Returns the last lines of its standard error.
    pub(crate) fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self
            .complaints
            .rewind()
            .and_then(|()| self.complaints.read_to_end(&mut text));
        program::last_lines(&text)
    }

    /// Returns its mount namespace. A server that becomes a daemon may end its first process at any
    /// time, and the descriptor keeps the namespace.
    pub(crate) fn namespace(&self) -> std::io::Result<File> {
        match &self.namespace {
            Some(namespace) => namespace.file.try_clone(),
            None => File::open(format!("/proc/{}/ns/mnt", self.child.id())),
        }
    }

    /// Returns the ids of its processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let Some(Namespace { inode: own, .. }) = self.namespace else {
            return Vec::from_iter(self.status.is_none().then(|| self.child.id()));
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|id| inode(*id) == Some(own))
            .collect()
    }

    /// Returns the CPU time and the memory of its processes so far.
    pub(crate) fn usage(&self) -> ServerUse {
        let page = rustix::param::page_size() as u64;
        let mut usage = ServerUse::default();
        for id in self.processes() {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            usage.cpu_seconds += process::cpu_seconds(id).unwrap_or(0.0);
            usage.memory_bytes += process::stat_field(&stat, 24).unwrap_or(0) * page;
        }
        usage
    }

    /// Asks the server to end.
    pub(super) fn terminate(&self) {
        // The process number is the child's own until this process has waited for it.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Waits until the server of an unmounted file system has written everything and ended, and
    /// kills its processes at the limit. Returns whether it ended by itself.
    pub(super) fn end(&mut self, limit: Duration) -> bool {
        /// The limit for the end of processes that were killed.
        const DYING: Duration = Duration::from_secs(10);
        let ended = poll_until(limit, || self.has_ended());
        if !ended {
            poll_until(DYING, || {
                if self.status.is_none() {
                    let _ = self.child.kill();
                }
                for id in self.processes() {
                    let _ = Pid::from_raw(id as i32).map(|pid| kill_process(pid, Signal::KILL));
                }
                self.has_ended()
            });
        }
        // What is mounted in it is unmounted now.
        self.namespace = None;
        ended
    }

    fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some() && self.processes().is_empty()
    }

    /// Like [`ServerProcess::end`], with the limit of a slow server.
    pub(crate) fn end_patiently(&mut self) -> bool {
        self.end(PATIENCE)
    }
}

/// A mount namespace.
#[derive(Debug)]
struct Namespace {
    inode: u64,
    /// Prevents another namespace from getting the same inode.
    file: File,
}

impl Namespace {
    /// Returns that of a process. Returns `None` if the process has ended.
    fn of_process(id: u32) -> Option<Namespace> {
        let file = File::open(format!("/proc/{id}/ns/mnt")).ok()?;
        let inode = file.metadata().ok()?.ino();
        Some(Namespace { inode, file })
    }
}

/// Returns the inode of the mount namespace of a process. Returns `None` if the process has ended.
fn inode(id: u32) -> Option<u64> {
    std::fs::metadata(format!("/proc/{id}/ns/mnt"))
        .ok()
        .map(|metadata| metadata.ino())
}
