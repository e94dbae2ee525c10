//! QEMU: its command line, its console, its end.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::error::VmError;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;

/// The first argument of this program where it only waits to become QEMU; [`launch_main`] plays that role.
pub const LAUNCH_ARGUMENT: &str = "__vm-machine";

/// Who executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceleration {
    /// The processor, through KVM.
    Kvm,
    /// QEMU's translator: a functional run, whose numbers are not compared with native ones.
    Emulated,
}

/// A disk of the guest: the host's file or block device behind it.
#[derive(Debug)]
pub struct Disk {
    /// Open for reading and writing; QEMU gets this very description, so a file without a name will do.
    pub file: OwnedFd,
    /// By which the guest knows it, 20 bytes at most: `fsb0`.
    pub serial: String,
}

/// What a machine is made of.
#[derive(Debug)]
pub struct MachineSpec<'a> {
    /// What it boots.
    pub kernel: &'a Kernel,
    /// What that starts from.
    pub initramfs: &'a Initramfs,
    /// Bytes of memory, all backed before the guest starts.
    pub memory: u64,
    /// Processors.
    pub cpus: u32,
    /// In the order of their serials.
    pub disks: Vec<Disk>,
    /// From [`probe`].
    pub acceleration: Acceleration,
    /// The guest's end of the protocol: its port `fsb`.
    pub protocol: UnixStream,
    /// The program that plays [`LAUNCH_ARGUMENT`], so that QEMU dies with the thread that boots it: `/proc/self/exe`.
    pub launcher: PathBuf,
}

/// Why a machine runs no more. `Display` is half a sentence for "guest stopped: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guest switched itself off.
    PoweredOff,
    /// Its kernel panicked: the reason.
    Panicked(String),
    /// Its kernel says that it hangs: the reason.
    Hung(String),
    /// QEMU ended by itself: status and last words.
    Failed(String),
    /// QEMU was killed by a signal that was not ours: its number.
    Killed(i32),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::PoweredOff => f.write_str("it switched itself off"),
            Stop::Panicked(why) => write!(f, "kernel panic: {why}"),
            Stop::Hung(why) => write!(f, "its kernel hangs: {why}"),
            Stop::Failed(why) => write!(f, "QEMU failed: {why}"),
            Stop::Killed(signal) => write!(f, "QEMU was killed by signal {signal}"),
        }
    }
}

/// A machine that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Machine {}

impl Machine {
    /// Starts QEMU. Does not wait for the guest: what comes first over the protocol says that it is up.
    pub fn boot(spec: MachineSpec<'_>) -> Result<Machine, VmError> {
        let _ = spec;
        Err(VmError::machine("cannot boot"))
    }

    /// At most `lines` last lines of the guest's console, oldest first.
    pub fn console_tail(&self, lines: usize) -> Vec<String> {
        let _ = lines;
        Vec::new()
    }

    /// Why the machine runs no more; absent while it does.
    pub fn stopped(&mut self) -> Option<Stop> {
        None
    }

    /// QEMU's process id.
    pub fn pid(&self) -> u32 {
        0
    }

    /// Ends it at once and waits until it is gone.
    pub fn kill(&mut self) {}
}

/// How this host can run guests: boots that kernel with KVM if it is there, for a bounded time, and settles for
/// emulation if it does not come up. Remembered below `cache` until the host boots again. The text says how it was
/// found, for the record.
pub fn probe(
    kernel: &Kernel,
    initramfs: &Initramfs,
    launcher: &std::path::Path,
    cache: &std::path::Path,
) -> (Acceleration, String) {
    let _ = (kernel, initramfs, launcher, cache);
    (Acceleration::Emulated, String::new())
}

/// The least memory that a guest with that initramfs boots with, in bytes: less is refused before the boot.
pub fn least_memory(initramfs: &Initramfs) -> u64 {
    initramfs.size
}

/// Plays [`LAUNCH_ARGUMENT`]: asks to die with its parent and becomes the program that the arguments (those after the
/// role's own) name. Returns only why that failed.
pub fn launch_main(arguments: &[OsString]) -> VmError {
    let _ = arguments;
    VmError::machine("cannot start QEMU")
}
