//! Micro-VMs: any file system, on any kernel, without root.
//!
//! ```text
//! kernel/     where kernels and their modules come from: this host, packages
//! initramfs/  what the guest starts from: fsb as /init, mkfs programs, modules
//! modules/    kernel modules: what each needs, in what order they load
//! machine/    QEMU: its command line, its console, its end
//! guest/      what fsb does as PID 1 of the guest
//! ```
//!
//! Nothing here knows file systems, plans or the agent's protocol: a machine is given to whoever serves a run, and the
//! guest hands a stream to whoever serves it. Nothing prints.

#![forbid(unsafe_code)]

mod cache;
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
pub use machine::{Acceleration, Disk, Machine, MachineSpec, Stop};
