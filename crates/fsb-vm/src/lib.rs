//! Micro-VMs: any file system, on any kernel, without root.
//!
//! ```text
//! kernel/     finds and fetches kernels and their modules: this host, packages
//! initramfs/  builds the initramfs: fsb as /init, mkfs programs, modules
//! modules     kernel modules: their dependencies and their load order
//! machine/    QEMU: its command line, its console, its end
//! guest       fsb as PID 1 of the guest
//! ```
//!
//! This crate does not know file systems, plans or the agent's protocol. The caller gets a running
//! machine, and the program in the guest gets a stream to the host. This crate prints only on the
//! guest's console.

#![forbid(unsafe_code)]

mod error;
pub mod guest;
pub mod initramfs;
mod input;
pub mod kernel;
pub mod machine;
mod modules;

pub use error::{Kind, VmError};
pub use initramfs::{Contents, Initramfs};
pub use kernel::{Kernel, Origin};
pub use machine::{Acceleration, Disk, Machine, MachineSpec, Share, Stop};
