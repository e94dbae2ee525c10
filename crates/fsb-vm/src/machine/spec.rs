//! The parameters of a virtual machine.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::heartbeat::Patience;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;

/// The component that executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceleration {
    /// The processor, through KVM.
    Kvm,
    /// QEMU's translator: a functional run, whose numbers are not compared with native ones.
    Emulated,
}

/// A disk of the guest: the host's file or block device behind it.
#[derive(Debug)]
pub struct Disk {
    /// Open for reading and writing; QEMU gets this very description, so a file without a name will do. It sets O_DIRECT
    /// on it where it can: to read the file as well, open it again.
    pub file: OwnedFd,
    /// By which the guest knows it, 20 bytes at most: `fsb0`.
    pub serial: String,
}

/// The parts of a machine.
#[derive(Debug)]
pub struct MachineSpec<'a> {
    /// The kernel that it boots.
    pub kernel: &'a Kernel,
    /// The initramfs that the kernel starts from.
    pub initramfs: &'a Initramfs,
    /// Bytes of memory, all backed before the guest starts.
    pub memory: u64,
    /// Processors.
    pub cpus: u32,
    /// In the order of their serials.
    pub disks: Vec<Disk>,
    /// A directory that the guest sees read-only, as [`guest::ROOT`](crate::guest::ROOT): where programs are run from.
    pub root: Option<PathBuf>,
    /// From [`probe`](super::probe()).
    pub acceleration: Acceleration,
    /// The guest's end of the protocol: its port `fsb`.
    pub protocol: UnixStream,
    /// With a guest that says nothing.
    pub patience: Patience,
    /// The program that plays [`LAUNCH_ARGUMENT`](super::LAUNCH_ARGUMENT), so that QEMU dies with the thread that boots it: `/proc/self/exe`.
    pub launcher: PathBuf,
}
