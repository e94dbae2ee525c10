//! What fsb does as PID 1 of the guest.
//!
//! PID 1 only looks after the machine: it mounts, loads modules, moves the bytes between the port and its one child,
//! gives back those of the port that asks whether it lives, reaps whoever is left to it, and switches off. The child is
//! this program again and serves the run; it waits for its own children, which a PID 1 that reaps everybody could not.

mod ready;
mod root;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{WaitOptions, WaitStatus, wait};
use rustix::system::{RebootCommand, reboot};

use crate::error::VmError;

pub(crate) use ready::{HEARTBEAT_PORT, PORT};
pub(crate) use root::ROOT_TAG;

/// The first argument of the one child of the guest's PID 1, which serves the run.
pub const GUEST_ARGUMENT: &str = "__vm-guest";

/// The word of the kernel's command line that makes fsb, as PID 1, a guest's.
pub(crate) const WORD: &str = "fsb.guest";

/// Where programs of the host's user find the files of the host, beside this guest's own /dev and its like.
pub const ROOT: &str = "/fsb-root";

/// The word that says that the host shares a directory.
pub(crate) const ROOT_WORD: &str = "fsb.root";

/// The word that asks the guest for nothing but [`READY`].
pub(crate) const PROBE_WORD: &str = "fsb.probe";

/// What every line of the guest's own begins with on its console.
pub(crate) const PREFIX: &str = "fsb-guest: ";

/// What it says when it was only asked whether it comes up.
pub(crate) const READY: &str = "ready";

/// The list of modules to load, in the initramfs.
pub(crate) const MODULES: &str = "/etc/fsb/modules";

/// A module of that list: `-` before the path of one that may fail.
pub(crate) fn module_line(path: &str, required: bool) -> String {
    format!("{}{path}\n", if required { "" } else { "-" })
}

/// Whether this process is PID 1 of a guest or the child that serves there, from its arguments.
pub fn is_guest(arguments: &[OsString]) -> bool {
    is_child(arguments) || is_first()
}

fn is_child(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|argument| argument == GUEST_ARGUMENT)
}

/// PID 1 that the kernel itself started: in a container, or in a run's own namespace, PID 1 is somebody else's.
fn is_first() -> bool {
    if std::process::id() != 1 {
        return false;
    }
    // Before anything is mounted there is no /proc to ask; then nobody but the kernel has started this.
    let text = fs::read_to_string("/proc/cmdline");
    text.map_or_else(|_| fs::metadata(MODULES).is_ok(), |text| text.split_whitespace().any(|word| word == WORD))
        && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// Makes the guest ready and gives the stream to the host.
///
/// As PID 1 this never returns: it mounts what Linux programs expect, loads the modules, starts itself again as its
/// one child, then reaps orphans and moves the stream's bytes, and switches the guest off when that child ends. In
/// the child it returns at once. So who serves is an ordinary process, which waits for its children itself.
pub fn begin() -> Result<UnixStream, VmError> {
    if std::process::id() == 1 {
        if let Err(error) = first() {
            say(&error.to_string());
        }
        power_off();
    }
    take_stream().map_err(|error| VmError::machine("the guest's port is not there").tried(error.to_string()))
}

/// Standard input is the stream, until somebody reads from it by mistake.
fn take_stream() -> io::Result<UnixStream> {
    let stream: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(UnixStream::from(stream))
}

/// PID 1's life.
fn first() -> Result<(), VmError> {
    ready::mount_all()?;
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if line.split_whitespace().any(|word| word == PROBE_WORD) {
        say(READY);
        return Ok(());
    }
    ready::load_modules(MODULES.as_ref())?;
    if line.split_whitespace().any(|word| word == ROOT_WORD) {
        root::mount_root(ROOT.as_ref())?;
    }
    let port = ready::port(PORT)?;
    give_back(ready::port(HEARTBEAT_PORT)?)?;
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| VmError::machine("no socket pair").tried(error.to_string()))?;
    let child = Command::new("/proc/self/exe")
        .arg(GUEST_ARGUMENT)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
        .env("HOME", "/root")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(|error| VmError::machine("cannot start the guest's agent").tried(error.to_string()))?;
    let moved = connect(port, ours)?;
    let status = reap_until(child.id());
    if let Some(how) = status.map_or_else(|| Some("for an unknown reason".into()), unusual) {
        say(&format!("its agent ended: {how}"));
    }
    // The last answer is still on its way.
    moved.wait(Duration::from_secs(5));
    Ok(())
}

/// How a process ended, unless all was well.
fn unusual(status: WaitStatus) -> Option<String> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(format!("{status:?}")),
    }
}

/// Reaps everybody until that child ends.
fn reap_until(child: u32) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == child => return Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// A line for the host, which reads the console.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stdout(), "{PREFIX}{text}");
    let _ = io::stdout().flush();
}

/// Writes everything back and switches the guest off.
pub fn power_off() -> ! {
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    // Where the kernel cannot, the host ends the machine.
    let _ = reboot(RebootCommand::Restart);
    loop {
        std::thread::park();
    }
}

const CHUNK: usize = 32 * 1024;

/// Between two tries to be heard by the host.
const PAUSE: Duration = Duration::from_millis(100);

/// Ends when all that was said has reached the port.
struct Moved(Receiver<()>);

impl Moved {
    pub fn wait(&self, limit: Duration) {
        // Nothing is ever sent: the channel closes when the thread ends.
        let _ = self.0.recv_timeout(limit);
    }
}

/// Moves bytes both ways until one side ends.
fn connect(port: File, stream: UnixStream) -> Result<Moved, VmError> {
    let start = || -> io::Result<Moved> {
        let (from_port, to_stream) = (port.try_clone()?, stream.try_clone()?);
        std::thread::Builder::new().name("from host".into()).spawn(move || {
            let _ = copy(from_port, &to_stream);
            // The host is gone: so is the reason to go on.
            let _ = to_stream.shutdown(Shutdown::Both);
        })?;
        let (alive, moved) = channel();
        std::thread::Builder::new().name("to host".into()).spawn(move || {
            let _alive = alive;
            let _ = copy(&stream, port);
        })?;
        Ok(Moved(moved))
    };
    start().map_err(unserved)
}

/// Answers the question whether this guest lives, as long as it does.
fn give_back(port: File) -> Result<(), VmError> {
    let start = || -> io::Result<()> {
        let out = port.try_clone()?;
        std::thread::Builder::new().name("heartbeat".into()).spawn(move || echo(port, out, PAUSE))?;
        Ok(())
    };
    start().map_err(unserved)
}

fn unserved(error: io::Error) -> VmError {
    VmError::machine("cannot serve the guest's port").tried(error.to_string())
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives back what comes. The question is put once, and a guest that leaves it open is taken for one that hangs: a read
/// or write that fails, for want of memory say, is made again.
fn echo(mut from: impl Read, mut to: impl Write, pause: Duration) {
    let mut buffer = [0; 64];
    loop {
        match from.read(&mut buffer) {
            Ok(count) if count > 0 => {
                while to.write_all(&buffer[..count]).is_err() {
                    std::thread::sleep(pause);
                }
            }
            // Without a listener nothing comes; a listener may return.
            _ => std::thread::sleep(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails every other time.
    struct Failing(UnixStream, u32);

    impl Failing {
        fn turn(&mut self) -> io::Result<&mut UnixStream> {
            self.1 += 1;
            if self.1 % 2 == 1 { Err(rustix::io::Errno::NOMEM.into()) } else { Ok(&mut self.0) }
        }
    }

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.turn()?.read(buffer)
        }
    }

    impl Write for Failing {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            self.turn()?.write(buffer)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_guest_short_of_memory_answers_all_the_same() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        host.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (port, out) = (Failing(guest.try_clone().unwrap(), 0), Failing(guest, 0));
        std::thread::spawn(move || echo(port, out, Duration::from_millis(1)));
        for _ in 0..5 {
            host.write_all(b"?").unwrap();
            host.read_exact(&mut [0]).unwrap();
        }
    }
}
