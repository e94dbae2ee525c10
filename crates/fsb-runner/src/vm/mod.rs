//! Runs in a virtual machine: the VM proxy, an agent on the host between the runner and the agent in the guest.
//!
//! ```text
//! coordinator ──▶ supervisor ──▶ VM proxy (__vm-agent) ──▶ QEMU ─┊─▶ guest: PID 1 ──▶ agent ──▶ workers
//!      └──────── JSON lines ────────┘ └── the same lines, virtio-serial ──┘
//! ```
//!
//! The runner does not notice the guest: it speaks its protocol with the VM proxy. The proxy makes the disks, boots a
//! guest on the kernel that a target names, and forwards the lines. If a guest panics, hangs or is killed, its current
//! trial fails, and the next target boots another guest. The proxy detects a hanging guest: after half a minute of
//! silence it asks the guest over a separate port.
//!
//! Between a worker's `go` and its answer, no line of the protocol passes except the progress of long trials, which any
//! machine sends. Agent and relay wait in `read`, and so do the threads that carry the bytes of the port. They do not
//! affect the clock of a trial.

mod fault;
mod guest;
mod guests;
mod kernels;
mod qemu;
mod relay;
#[cfg(test)]
mod tests;

use std::os::unix::net::UnixStream;

use fsb_model::Warning;
use fsb_sys::sandbox;
use fsb_testbed::{Roots, Setup, TestbedError};
use fsb_vm::{kernel, machine};

pub use fsb_vm::guest::ROOT;
pub use fsb_vm::kernel::{cache_path, is_path, tidy};
pub use guest::serve as serve_in_guest;
use kernels::on_this_machine;
pub use kernels::{pin, releases};

/// The argument that makes the binary the agent of a run in a virtual machine.
pub const VM_AGENT_ARGUMENT: &str = "__vm-agent";

/// Returns whether this machine has QEMU and a kernel for it.
pub fn is_available() -> bool {
    let found = machine::find_qemu(machine::Architecture::HERE).and_then(|_| kernel::resolve(None)?.usable());
    found.is_ok()
}

/// Checks everything that can be known before anything is changed: requests, programs, kernels, modules, memory. The
/// initramfs that it builds stays in the user's cache. Returns warnings.
pub fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    let here = on_this_machine(setup)?;
    let mut warnings = fsb_testbed::vm::check(&here.setup)?;
    qemu::version()?;
    let (kernels, available) = kernels::Kernels::prepare(here)?;
    kernels.check_memory(setup)?;
    warnings.extend(available.warnings());
    Ok(warnings)
}

/// Serves a runner until it closes the connection. Finally ends guests and removes disks, also after an error.
pub fn serve(stream: UnixStream) -> Result<(), String> {
    let (mut guests, host_proc) = (guests::Qemu::default(), sandbox::host_proc());
    let mut relay = relay::Relay::new(&mut guests);
    relay.outside = host_proc.as_ref().map(Roots::through);
    relay.serve(stream)
}
