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
    /// Open for reading and writing. QEMU gets this open file description, so the file needs no name. QEMU sets
    /// O_DIRECT on it if possible: to read the file too, open it again.
    pub file: OwnedFd,
    /// The serial number by which the guest finds the disk, at most 20 bytes: `fsb0`.
    pub serial: String,
}

/// The parameters of a machine.
#[derive(Debug)]
pub struct MachineSpec<'a> {
    /// The kernel to boot.
    pub kernel: &'a Kernel,
    /// The initramfs of the guest.
    pub initramfs: &'a Initramfs,
    /// Memory in bytes, all of it backed before the guest starts.
    pub memory: u64,
    /// Number of processors.
    pub cpus: u32,
    /// The disks, in the order of their serial numbers.
    pub disks: Vec<Disk>,
    /// A directory that the guest sees read-only as [`guest::ROOT`](crate::guest::ROOT). The guest runs programs from
    /// it.
    pub root: Option<PathBuf>,
    /// The acceleration that [`probe`](super::probe()) chose.
    pub acceleration: Acceleration,
    /// The socket that QEMU connects to the guest's port `fsb`.
    pub protocol: UnixStream,
    /// Time limits for a silent guest.
    pub patience: Patience,
    /// The program that runs the role [`LAUNCH_ARGUMENT`](super::LAUNCH_ARGUMENT), so that QEMU dies with the thread
    /// that boots it: `/proc/self/exe`.
    pub launcher: PathBuf,
}
