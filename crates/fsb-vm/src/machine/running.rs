//! A running virtual machine, and the reasons that it stops.

use command_fds::CommandFdExt;
use std::fmt;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use command_fds::FdMapping;
use fsb_model::errno::describe_spawn;
use fsb_model::units::show_duration;

use super::arguments::Plan;
use super::console::{Console, Trouble};
use super::heartbeat::Heartbeat;
use super::launch::LAUNCH_ARGUMENT;
use super::spec::MachineSpec;
use super::{memory, qemu};
use crate::error::{VmError, refused};

/// The reason that a machine stopped. `Display` is half a sentence for "guest stopped: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guest switched itself off.
    PoweredOff,
    /// The guest's PID 1 stopped: the reason.
    Refused(String),
    /// Its kernel panicked: the reason.
    Panicked(String),
    /// Its kernel's watchdog found it hanging: the reason.
    Hung(String),
    /// The guest gave no sign of life for this time, did not answer, and was killed. Contains the message of its
    /// kernel's watchdog, if there was one: under emulation a watchdog also reports harmless delays.
    Silent(Duration, Option<String>),
    /// QEMU ended by itself: its exit status or its last error message.
    Failed(String),
    /// QEMU was killed by a signal: its number.
    Killed(i32),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::PoweredOff => f.write_str("it powered off"),
            Stop::Refused(why) => f.write_str(why),
            Stop::Panicked(why) => write!(f, "kernel panic: {why}"),
            Stop::Hung(why) => write!(f, "its kernel hangs: {why}"),
            Stop::Silent(time, hang) => {
                write!(f, "it hangs: fsb ended it after {} without a sign of life", show_duration(*time))?;
                hang.as_ref().map_or(Ok(()), |hang| write!(f, " (its kernel said: {hang})"))
            }
            Stop::Failed(why) => write!(f, "QEMU failed: {why}"),
            Stop::Killed(signal) => write!(f, "QEMU was killed by signal {signal}"),
        }
    }
}

impl Stop {
    /// The reason for a machine that was stopped because it was silent for `time`, with the trouble on its console.
    pub(super) fn of_silence(time: Duration, trouble: Option<Trouble>) -> Stop {
        match trouble {
            Some(Trouble::Panic(why)) => Stop::Panicked(why),
            Some(Trouble::Hang(why)) => Stop::Silent(time, Some(why)),
            None => Stop::Silent(time, None),
        }
    }
}

/// A running machine. Dropping it kills it.
#[derive(Debug)]
pub struct Machine {
    pub(super) child: Child,
    pub(super) console: Arc<Mutex<Console>>,
    /// Error messages of QEMU.
    pub(super) complaints: Arc<Mutex<String>>,
    pub(super) readers: Vec<JoinHandle<()>>,
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) stop: Option<Stop>,
}

impl Machine {
    /// Starts QEMU without waiting for the guest. The first message over the protocol shows that the guest is up.
    ///
    /// QEMU dies with the *thread* that calls this, so that thread must live as long as the machine is needed.
    pub fn boot(spec: MachineSpec<'_>) -> Result<Machine, VmError> {
        let qemu = qemu::find(qemu::Architecture::HERE)?;
        memory::check(spec.memory, spec.initramfs)?;
        let mut aio = Vec::new();
        for disk in &spec.disks {
            aio.push(qemu::probe_disk(&qemu, &spec.launcher, disk)?);
        }
        let plan = Plan::of(&spec, &aio)?;
        let launcher = spec.launcher.clone();
        let failed = |error: std::io::Error| VmError::machine("no socket pair").tried(error.to_string());
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let heartbeat = Heartbeat::new(ours, spec.patience).map_err(failed)?;
        let mut machine = Machine::start(&qemu, &launcher, &plan.arguments(), plan.descriptors(spec, theirs))?;
        machine.heartbeat = Some(heartbeat);
        Ok(machine)
    }

    pub(super) fn start(
        qemu: &std::path::Path,
        launcher: &std::path::Path,
        arguments: &[String],
        descriptors: Vec<FdMapping>,
    ) -> Result<Machine, VmError> {
        let mut command = Command::new(launcher);
        command.arg(LAUNCH_ARGUMENT).arg(std::process::id().to_string()).arg(qemu).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .fd_mappings(descriptors)
            .map_err(|error| VmError::machine("cannot hand over descriptors").tried(error.to_string()))?;
        let mut child = command.spawn().map_err(|error| refused("execute", launcher, error))?;
        let console = Arc::new(Mutex::new(Console::default()));
        let complaints = Arc::new(Mutex::new(String::new()));
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        // From here on, an error drops the machine and so kills the child.
        let readers = Vec::new();
        let mut machine = Machine { child, console, complaints, readers, heartbeat: None, stop: None };
        let reader = || std::thread::Builder::new().name("console".into());
        let unheard = |error| VmError::machine("no thread to hear the guest").tried(describe_spawn(&error));
        if let Some(out) = out {
            let console = Arc::clone(&machine.console);
            let thread = reader().spawn(move || listen(out, |bytes| lock(&console).take(bytes)));
            machine.readers.push(thread.map_err(unheard)?);
        }
        if let Some(out) = errors {
            let complaints = Arc::clone(&machine.complaints);
            let thread = reader().spawn(move || {
                listen(out, |bytes| {
                    let mut text = lock(&complaints);
                    if text.len() < 16 * 1024 {
                        text.push_str(&String::from_utf8_lossy(bytes));
                    }
                });
            });
            machine.readers.push(thread.map_err(unheard)?);
        }
        Ok(machine)
    }

    /// Returns at most `lines` last lines of the guest's console, oldest first.
    pub fn console_tail(&self, lines: usize) -> Vec<String> {
        lock(&self.console).tail(lines)
    }

    /// Returns the reason that the machine stopped, or `None` while it runs.
    pub fn stopped(&mut self) -> Option<Stop> {
        if self.stop.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended(status);
        }
        self.stop.clone()
    }

    /// Checks the heartbeat. Call this repeatedly while a booted guest owes an answer. After a long silence it asks the
    /// guest for a sign of life, and kills a guest that does not answer.
    pub fn look_after(&mut self) {
        let silent = self.heartbeat.as_mut().and_then(|heartbeat| heartbeat.look(Instant::now()));
        if let Some(time) = silent
            && self.stopped().is_none()
        {
            self.kill();
            let trouble = lock(&self.console).trouble();
            self.stop = Some(Stop::of_silence(time, trouble));
        }
    }

    /// Resets the silence: the guest sent data, or owes an answer from now on.
    pub fn heard(&mut self) {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.heard();
        }
    }

    /// Returns QEMU's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills QEMU and waits until it has ended.
    pub fn kill(&mut self) {
        if self.stopped().is_none() {
            let _ = self.child.kill();
            if let Ok(status) = self.child.wait() {
                self.ended(status);
            }
        }
    }

    pub(super) fn ended(&mut self, status: ExitStatus) {
        // Both pipes end with QEMU, which has no children, so this reads all of its output.
        for reader in std::mem::take(&mut self.readers) {
            let _ = reader.join();
        }
        let mut console = lock(&self.console);
        console.end();
        let words = lock(&self.complaints);
        let words = words.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let stop = match (console.trouble(), status.signal()) {
            (Some(Trouble::Panic(why)), _) => Stop::Panicked(why),
            (Some(Trouble::Hang(why)), None) => Stop::Hung(why),
            // QEMU aborts after a KVM failure and prints the reason.
            (_, Some(signal)) => match words {
                Some(words) => Stop::Failed(format!("{words} (signal {signal})")),
                None => Stop::Killed(signal),
            },
            (None, None) if status.success() => console.refusal().map_or(Stop::PoweredOff, Stop::Refused),
            (None, None) => Stop::Failed(words.map_or_else(|| status.to_string(), str::to_owned)),
        };
        self.stop = Some(stop);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Passes all bytes to `take` until the other side closes.
pub(super) fn listen(mut from: impl Read, mut take: impl FnMut(&[u8])) {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => take(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Locks the mutex even if it is poisoned: no operation leaves the data inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_guest_is_reported_with_the_trouble_on_its_console() {
        let reported = |trouble: Option<Trouble>| Stop::of_silence(Duration::from_secs(120), trouble).to_string();
        let silence = reported(None);
        assert!(silence.starts_with("it hangs: fsb ended it after ") && silence.ends_with("without a sign of life"));
        let stall = "rcu: INFO: rcu_preempt self-detected stall on CPU";
        assert_eq!(reported(Some(Trouble::Hang(stall.into()))), format!("{silence} (its kernel said: {stall})"));
        assert_eq!(reported(Some(Trouble::Panic("Fatal exception".into()))), "kernel panic: Fatal exception");
    }
}
