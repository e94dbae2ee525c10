//! A program that serves a mounted file system: ntfs-3g through FUSE, or nfs-ganesha.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{poll_until, program};
use rustix::process::{Pid, Signal, kill_process};

/// The limit for mounting, and for writing everything and ending.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that lives as long as its mount.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
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
        Ok(ServerProcess { child, complaints })
    }

    /// Waits until the server has ended or `is_ready`. Returns why it does not serve: its end, or
    /// the limit.
    pub(super) fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<(), Refusal> {
        let mut ended = None;
        let ready = poll_until(PATIENCE, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some() || is_ready()
        });
        match ended {
            Some(status) => Err(status.to_string().into()),
            None if ready => Ok(()),
            None => Err("it was not ready in time".into()),
        }
    }

    /// Returns the last lines of its standard error.
    pub(super) fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self
            .complaints
            .rewind()
            .and_then(|()| self.complaints.read_to_end(&mut text));
        program::last_lines(&text)
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to end.
    pub(super) fn terminate(&self) {
        // The process number is the child's own until this process has waited for it.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Waits until the server of an unmounted file system has written everything and ended, and
    /// kills it at the limit. Returns whether it ended by itself.
    pub(super) fn end(&mut self, limit: Duration) -> bool {
        let ended = poll_until(limit, || matches!(self.child.try_wait(), Ok(Some(_))));
        if !ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        ended
    }

    /// Like [`ServerProcess::end`], with the limit of a slow server.
    pub(crate) fn end_patiently(&mut self) -> bool {
        self.end(PATIENCE)
    }
}
