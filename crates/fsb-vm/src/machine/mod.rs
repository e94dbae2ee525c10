//! QEMU: its command line, its console, its end.

mod console;
mod launch;
mod qemu;
mod share;

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use command_fds::{CommandFdExt, FdMapping};
use console::{Console, Trouble};
use fsb_model::errno::describe_spawn;
use fsb_model::units::{show_bytes, show_duration};
use qemu::{Plan, name, text};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::error::{VmError, refused};
use crate::guest;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;

pub use launch::{LAUNCH_ARGUMENT, launch_main};
pub use qemu::{Acceleration, Aio, Architecture, Disk, MachineSpec, Patience, find_qemu};
use share::Served;
pub use share::Share;

/// The reason that a machine stopped. `Display` is half a sentence for "guest stopped: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guest switched itself off.
    PoweredOff,
    /// The guest's PID 1 stopped: the reason.
    Refused(String),
    /// The kernel panicked: the reason.
    Panicked(String),
    /// The kernel's watchdog reported that the kernel hangs: the reason.
    Hung(String),
    /// The guest gave no sign of life for this time, did not answer, and was killed. Contains the
    /// message of its kernel's watchdog, if there was one: under emulation a watchdog also reports
    /// harmless delays.
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
                write!(
                    f,
                    "it hangs: fsb ended it after {} without a sign of life",
                    show_duration(*time)
                )?;
                hang.as_ref()
                    .map_or(Ok(()), |hang| write!(f, " (its kernel said: {hang})"))
            }
            Stop::Failed(why) => write!(f, "QEMU failed: {why}"),
            Stop::Killed(signal) => write!(f, "QEMU was killed by signal {signal}"),
        }
    }
}

impl Stop {
    /// Returns the reason for a machine that was stopped because it was silent for `time`, with the
    /// trouble on its console.
    fn of_silence(time: Duration, trouble: Option<Trouble>) -> Stop {
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
    child: Child,
    console: Arc<Mutex<Console>>,
    /// Error messages of QEMU.
    complaints: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    heartbeat: Option<Heartbeat>,
    stop: Option<Stop>,
    /// The servers of its shared directories.
    servers: Vec<Served>,
}

impl Machine {
    /// Starts QEMU without waiting for the guest. The first message over the protocol shows that
    /// the guest is up.
    ///
    /// QEMU dies with the *thread* that calls this, so that thread must live as long as the machine
    /// is needed.
    pub fn boot(spec: MachineSpec<'_>) -> Result<Machine, VmError> {
        let qemu = qemu::find_qemu(qemu::Architecture::HERE)?;
        check_memory(spec.memory, spec.initramfs)?;
        let mut aio = Vec::new();
        for disk in &spec.disks {
            aio.push(qemu::probe_disk(&qemu, &spec.launcher, disk)?);
        }
        let plan = Plan::new(&spec, &aio)?;
        let launcher = spec.launcher.clone();
        let (mut servers, mut sockets) = (Vec::new(), Vec::new());
        for share in &spec.shares {
            if let Some((served, socket)) = share.serve(&launcher)? {
                servers.push(served);
                sockets.push(socket);
            }
        }
        fn failed(error: std::io::Error) -> VmError {
            VmError::machine("no socket pair").tried(&error)
        }
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let heartbeat = Heartbeat::new(ours, spec.patience).map_err(failed)?;
        let mut machine = Machine::start(
            &qemu,
            &launcher,
            &plan.arguments(),
            plan.descriptors(spec, theirs, sockets),
        )?;
        for server in &mut servers {
            if let Some(errors) = server.errors() {
                machine.hear_complaints(errors)?;
            }
        }
        machine.servers = servers;
        machine.heartbeat = Some(heartbeat);
        Ok(machine)
    }

    fn start(
        qemu: &std::path::Path,
        launcher: &std::path::Path,
        arguments: &[String],
        descriptors: Vec<FdMapping>,
    ) -> Result<Machine, VmError> {
        let mut command = Command::new(launcher);
        command
            .arg(LAUNCH_ARGUMENT)
            .arg(std::process::id().to_string())
            .arg(qemu)
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.fd_mappings(descriptors).map_err(|error| {
            VmError::machine("cannot hand over descriptors").tried(error.to_string())
        })?;
        let mut child = command
            .spawn()
            .map_err(|error| refused("execute", launcher, error))?;
        let console = Arc::new(Mutex::new(Console::default()));
        let complaints = Arc::new(Mutex::new(String::new()));
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        // From here on, an error drops the machine and so kills the child.
        let readers = Vec::new();
        let mut machine = Machine {
            child,
            console,
            complaints,
            readers,
            heartbeat: None,
            stop: None,
            servers: Vec::new(),
        };
        if let Some(out) = out {
            let console = Arc::clone(&machine.console);
            machine.hear(move || listen(out, |bytes| lock(&console).take(bytes)))?;
        }
        if let Some(out) = errors {
            machine.hear_complaints(out)?;
        }
        Ok(machine)
    }

    fn hear(&mut self, listen: impl FnOnce() + Send + 'static) -> Result<(), VmError> {
        let reader = std::thread::Builder::new().name("console".into());
        let thread = reader.spawn(listen).map_err(|error| {
            VmError::machine("no thread to hear the guest").tried(describe_spawn(&error))
        })?;
        self.readers.push(thread);
        Ok(())
    }

    /// Keeps the error messages of QEMU, or of a server beside it.
    fn hear_complaints(&mut self, from: impl Read + Send + 'static) -> Result<(), VmError> {
        let complaints = Arc::clone(&self.complaints);
        self.hear(move || {
            listen(from, |bytes| {
                let mut text = lock(&complaints);
                if text.len() < 16 * 1024 {
                    text.push_str(&String::from_utf8_lossy(bytes));
                }
            });
        })
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

    /// Checks the heartbeat. Call this repeatedly while a booted guest owes an answer. After a long
    /// silence it asks the guest for a sign of life, and kills a guest that does not answer.
    pub fn look_after(&mut self) {
        let silent = self
            .heartbeat
            .as_mut()
            .and_then(|heartbeat| heartbeat.look(Instant::now()));
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

    fn ended(&mut self, status: ExitStatus) {
        // Both pipes end with QEMU, which has no children, so this reads all of its output.
        for reader in std::mem::take(&mut self.readers) {
            let _ = reader.join();
        }
        let mut console = lock(&self.console);
        console.end();
        let words = lock(&self.complaints);
        let words = words
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty());
        let stop = match (console.trouble(), status.signal()) {
            (Some(Trouble::Panic(why)), _) => Stop::Panicked(why),
            (Some(Trouble::Hang(why)), None) => Stop::Hung(why),
            // QEMU aborts after a KVM failure and prints the reason.
            (_, Some(signal)) => match words {
                Some(words) => Stop::Failed(format!("{words} (signal {signal})")),
                None => Stop::Killed(signal),
            },
            (None, None) if status.success() => {
                console.refusal().map_or(Stop::PoweredOff, Stop::Refused)
            }
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
fn listen(mut from: impl Read, mut take: impl FnMut(&[u8])) {
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
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

// The guest's heartbeat: checks whether a silent guest is still alive.
//
// A kernel that panics prints a message on its console, and so do its watchdogs. A guest that stops
// entirely prints nothing: its processors wait for each other with interrupts off, or QEMU itself
// was stopped. Every guest therefore has a second port, and its PID 1 echoes each byte. The host
// sends a byte only after a long silence. Most trials end before that. Otherwise the byte wakes one
// thread of the guest.

/// Maximum time that one call of [`Heartbeat::look`] counts. While the host itself was suspended,
/// the guest could not answer.
const STEP: Duration = Duration::from_secs(1);

/// The host's end of the heartbeat port.
#[derive(Debug)]
struct Heartbeat {
    stream: UnixStream,
    patience: Patience,
    looked: Option<Instant>,
    /// Time since the last sign of life.
    silent: Duration,
    /// Time since the open question.
    asked: Option<Duration>,
}

impl Heartbeat {
    /// Makes a heartbeat over `stream`, whose other end is the port.
    pub fn new(stream: UnixStream, patience: Patience) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Heartbeat {
            stream,
            patience,
            looked: None,
            silent: Duration::ZERO,
            asked: None,
        })
    }

    /// Resets the silence: the guest sent data on another channel, or owes no answer.
    pub fn heard(&mut self) {
        (self.looked, self.silent) = (None, Duration::ZERO);
        if let Some(waited) = &mut self.asked {
            // An answer to the last question may still arrive and count for the next one. It is a
            // sign of life all the same.
            *waited = Duration::ZERO;
        }
    }

    /// Checks the heartbeat once. The host calls this repeatedly while it waits for an answer.
    /// Returns the length of the silence if it exceeds the limits.
    pub fn look(&mut self, now: Instant) -> Option<Duration> {
        let step = self
            .looked
            .map_or(Duration::ZERO, |looked| {
                now.saturating_duration_since(looked)
            })
            .min(STEP);
        self.looked = Some(now);
        self.silent += step;
        let Some(waited) = &mut self.asked else {
            // An error means that QEMU closed the connection. Other code detects the end of QEMU.
            if self.silent >= self.patience.silence && self.stream.write(b"?").is_ok() {
                self.asked = Some(Duration::ZERO);
            }
            return None;
        };
        *waited += step;
        let late = *waited >= self.patience.answer;
        if self.answered() {
            self.asked = None;
            self.silent = Duration::ZERO;
            return None;
        }
        late.then_some(self.silent)
    }

    fn answered(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::Interrupted && self.answered(),
        }
    }
}

// Checks before the boot that the guest has enough memory and that this host can provide it.

const MIB: u64 = 1 << 20;

/// Memory that a distribution's kernel takes before its first program runs, in bytes.
const KERNEL: u64 = 160 * MIB;

/// Returns the least memory in bytes with which a guest with that initramfs boots.
/// [`Machine::boot`] refuses less. While the kernel unpacks the archive, memory holds it twice.
pub fn least_memory(initramfs: &Initramfs) -> u64 {
    (KERNEL + 2 * initramfs.size).next_multiple_of(32 * MIB)
}

/// Refuses a machine with too little memory, or with more than this host has available.
fn check_memory(memory: u64, initramfs: &Initramfs) -> Result<(), VmError> {
    let least = least_memory(initramfs);
    if memory < least {
        return Err(VmError::machine(format!(
            "{} is too little memory for the guest",
            show_bytes(memory as f64)
        ))
        .tried(format!(
            "its kernel and programs take {}",
            show_bytes(least as f64)
        ))
        .advice(format!("use --memory {}M", least / MIB)));
    }
    match available(&fs::read_to_string("/proc/meminfo").unwrap_or_default()) {
        Some(free) if free < memory => Err(VmError::machine(format!(
            "the guest's {} of memory do not fit this machine",
            show_bytes(memory as f64)
        ))
        .tried(format!("{} are available", show_bytes(free as f64)))
        .advice("give it less with --memory, or end what uses memory here")),
        _ => Ok(()),
    }
}

/// Returns `MemAvailable` in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

// Checks with a boot whether KVM works on this host. On some hosts the device exists and every
// guest hangs.

const DEVICE: &str = "/dev/kvm";
/// Time limit for the first output. A kernel prints its first line within tenths of a second.
const SILENCE: Duration = Duration::from_secs(5);
/// Time limit for the boot.
const LIMIT: Duration = Duration::from_secs(20);

/// Time for which a failed probe is cached. A busy host may have been the only reason.
const DOUBT: Duration = Duration::from_secs(3600);

/// The cached result, valid until the host boots again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    boot_id: String,
    acceleration: Acceleration,
    how: String,
    /// Time of the probe in seconds since 1970.
    #[serde(default)]
    found: u64,
}

/// Determines how this host can run guests. If KVM is available, boots that kernel with it within a
/// time limit, and chooses emulation if the boot fails. Caches the result below `cache` until the
/// host boots again, a failure for an hour. The returned text describes the result for the record.
pub fn probe(
    kernel: &Kernel,
    initramfs: &Initramfs,
    launcher: &Path,
    cache: &Path,
) -> (Acceleration, String) {
    if !Path::new(DEVICE).exists() {
        return (Acceleration::Emulated, format!("no {DEVICE}"));
    }
    // The permission can change at any time, and the check is cheap, so it is not cached.
    if let Err(error) = access(DEVICE, Access::READ_OK | Access::WRITE_OK) {
        return (
            Acceleration::Emulated,
            format!("{DEVICE} cannot be opened: {error}"),
        );
    }
    let path = cache.join("acceleration.json");
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    if let Some(known) = recall(&path, boot_id.trim(), now) {
        return (known.acceleration, known.how);
    }
    let (acceleration, how) = match boots(kernel, initramfs, launcher) {
        Ok(time) => (
            Acceleration::Kvm,
            format!("a guest came up with KVM in {}", show_duration(time)),
        ),
        Err(why) => (
            Acceleration::Emulated,
            format!("{DEVICE} is there, but {why}"),
        ),
    };
    let memory = Memory {
        boot_id: boot_id.trim().to_owned(),
        acceleration,
        how: how.clone(),
        found: now,
    };
    remember(&path, &memory);
    (acceleration, how)
}

fn recall(path: &Path, boot_id: &str, now: u64) -> Option<Memory> {
    let memory: Memory = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    // The difference is absolute, so that a clock that was set back does not extend the validity.
    let holds =
        memory.acceleration == Acceleration::Kvm || now.abs_diff(memory.found) < DOUBT.as_secs();
    (!boot_id.is_empty() && memory.boot_id == boot_id && holds).then_some(memory)
}

/// Caches the result. An error is ignored: it only costs another probe.
fn remember(path: &Path, memory: &Memory) {
    let write = || -> Option<()> {
        let directory = path.parent()?;
        fs::create_dir_all(directory).ok()?;
        let file = tempfile::NamedTempFile::new_in(directory).ok()?;
        serde_json::to_writer(file.as_file(), memory).ok()?;
        file.persist(path).ok()?;
        Some(())
    };
    let _ = write();
}

/// Boots a guest until it prints that it is ready.
fn boots(kernel: &Kernel, initramfs: &Initramfs, launcher: &Path) -> Result<Duration, String> {
    let start = Instant::now();
    let mut machine = start_with(Acceleration::Kvm, kernel, initramfs, launcher)
        .map_err(|error| error.to_string())?;
    loop {
        let (ready, spoke) = {
            let console = lock(&machine.console);
            (console.ready(), console.spoke())
        };
        if ready {
            return Ok(start.elapsed());
        }
        if let Some(stop) = machine.stopped() {
            // The last line may have arrived after the check.
            return if lock(&machine.console).ready() {
                Ok(start.elapsed())
            } else {
                Err(format!("the guest stopped: {stop}"))
            };
        }
        if start.elapsed() > LIMIT || (!spoke && start.elapsed() > SILENCE) {
            return Err(format!(
                "a guest did not come up in {}",
                show_duration(start.elapsed())
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a machine for the probe only: no disks, no port, and the kernel's own messages as a sign
/// of life.
fn start_with(
    acceleration: Acceleration,
    kernel: &Kernel,
    initramfs: &Initramfs,
    launcher: &Path,
) -> Result<Machine, VmError> {
    let qemu = qemu::find_qemu(Architecture::HERE)?;
    let plan = Plan {
        architecture: Architecture::HERE,
        acceleration,
        memory: least_memory(initramfs),
        cpus: 1,
        name: name(kernel),
        kernel: text(&initramfs.kernel)?,
        initramfs: text(&initramfs.path)?,
        words: vec![guest::WORD.to_owned(), guest::PROBE_WORD.to_owned()],
        protocol: false,
        root: None,
        disks: Vec::new(),
        shares: Default::default(),
    };
    Machine::start(&qemu, launcher, &plan.arguments(), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_guest_is_reported_with_the_trouble_on_its_console() {
        let reported = |trouble: Option<Trouble>| {
            Stop::of_silence(Duration::from_secs(120), trouble).to_string()
        };
        let silence = reported(None);
        assert!(
            silence.starts_with("it hangs: fsb ended it after ")
                && silence.ends_with("without a sign of life")
        );
        let stall = "rcu: INFO: rcu_preempt self-detected stall on CPU";
        assert_eq!(
            reported(Some(Trouble::Hang(stall.into()))),
            format!("{silence} (its kernel said: {stall})")
        );
        assert_eq!(
            reported(Some(Trouble::Panic("Fatal exception".into()))),
            "kernel panic: Fatal exception"
        );
    }

    const PATIENCE: Patience = Patience {
        silence: Duration::from_secs(3),
        answer: Duration::from_secs(5),
    };

    struct Play {
        heartbeat: Heartbeat,
        guest: UnixStream,
        now: Instant,
    }

    impl Play {
        fn new() -> Self {
            let (ours, guest) = UnixStream::pair().unwrap();
            guest.set_nonblocking(true).unwrap();
            Play {
                heartbeat: Heartbeat::new(ours, PATIENCE).unwrap(),
                guest,
                now: Instant::now(),
            }
        }

        fn look_after(&mut self, seconds: u64) -> Option<Duration> {
            self.now += Duration::from_secs(seconds);
            self.heartbeat.look(self.now)
        }

        /// Returns the number of questions since the last call.
        fn questions(&mut self) -> usize {
            self.guest.read(&mut [0; 64]).unwrap_or(0)
        }
    }

    #[test]
    fn a_guest_is_asked_after_a_silence_and_lives_as_long_as_it_answers() {
        let mut play = Play::new();
        for round in 0..10 {
            for second in 0..4 {
                assert_eq!(play.look_after(u64::from(second > 0)), None, "{round}");
                assert_eq!(
                    play.questions(),
                    usize::from(second == 3),
                    "{round}, {second}"
                );
            }
            play.guest.write_all(b"?").unwrap();
            assert_eq!(play.look_after(0), None);
        }
    }

    #[test]
    fn a_guest_that_gives_no_answer_is_given_up() {
        let mut play = Play::new();
        let looks: Vec<_> = (0..9).map(|_| play.look_after(1)).collect();
        assert_eq!(looks[..8], [None; 8]);
        assert_eq!(looks[8], Some(Duration::from_secs(8)));
        assert_eq!(play.questions(), 1);
    }

    #[test]
    fn a_guest_that_was_heard_otherwise_is_not_asked() {
        let mut play = Play::new();
        for _ in 0..10 {
            assert_eq!((play.look_after(1), play.look_after(1)), (None, None));
            play.heartbeat.heard();
        }
        assert_eq!(play.questions(), 0);
    }

    #[test]
    fn a_host_that_stood_still_itself_has_not_waited() {
        let mut play = Play::new();
        assert_eq!(
            (
                play.look_after(0),
                play.look_after(3600),
                play.look_after(3600)
            ),
            (None, None, None)
        );
        assert_eq!(play.questions(), 0);
        assert_eq!((play.look_after(3600), play.questions()), (None, 1));
        assert_eq!(play.look_after(3600), None);
    }

    #[test]
    fn a_closed_connection_gives_no_verdict() {
        let mut play = Play::new();
        drop(std::mem::replace(
            &mut play.guest,
            UnixStream::pair().unwrap().0,
        ));
        assert!((0..20).all(|_| play.look_after(1).is_none()));
    }

    #[test]
    fn too_little_and_too_much_are_refused() {
        let path = std::path::PathBuf::new();
        let initramfs = Initramfs {
            kernel: path.clone(),
            path,
            modules: Vec::new(),
            image_hash: String::new(),
            module_hashes: Default::default(),
            missing: Vec::new(),
            size: 40 * MIB,
            reused: false,
            held: Default::default(),
        };
        let least = least_memory(&initramfs);
        assert_eq!(least % (32 * MIB), 0);
        let little = check_memory(least - 1, &initramfs).unwrap_err().to_string();
        assert!(
            little.ends_with(&format!("use --memory {}M", least / MIB)),
            "{little}"
        );
        let much = check_memory(u64::MAX, &initramfs).unwrap_err().to_string();
        assert!(
            much.contains("do not fit this machine") && much.contains("are available"),
            "{much}"
        );
    }

    #[test]
    fn available_memory_is_read() {
        assert_eq!(
            available("MemTotal: 5 kB\nMemAvailable:   23 kB\n"),
            Some(23 * 1024)
        );
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert_eq!(available("MemAvailable: 99999999999999999999 kB\n"), None);
    }

    #[test]
    fn a_probe_result_holds_until_the_next_boot() {
        let cache = tempfile::tempdir().unwrap();
        let path = cache.path().join("deep/acceleration.json");
        let kvm = Memory {
            boot_id: "a".into(),
            acceleration: Acceleration::Kvm,
            how: "it came up".into(),
            found: 1_000_000,
        };
        remember(&path, &kvm);
        assert_eq!(recall(&path, "b", 1_000_000), None);
        assert_eq!(recall(&path, "a", 9_000_000), Some(kvm));
        let none = Memory {
            boot_id: "a".into(),
            acceleration: Acceleration::Emulated,
            how: "it did not".into(),
            found: 1_000_000,
        };
        remember(&path, &none);
        assert_eq!(
            (recall(&path, "a", 1_003_600), recall(&path, "a", 996_000)),
            (None, None)
        );
        assert_eq!(recall(&path, "a", 1_003_599), Some(none));
        fs::write(&path, "garbage").unwrap();
        assert_eq!(recall(&path, "a", 1_000_000), None);
        assert_eq!(recall(&path, "", 1_000_000), None);
    }
}
