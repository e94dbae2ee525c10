//! Runs in a virtual machine: the agent of the host, which stands between the runner and the agent in the guest.
//!
//! ```text
//! front ──▶ supervisor ──▶ agent of the host (__vm-agent) ──▶ QEMU ─┊─▶ guest: PID 1 ──▶ agent ──▶ workers
//!   └──────── JSON lines ──────────┘ └── the same lines, virtio-serial ─┘
//! ```
//!
//! The runner does not know: it speaks its protocol to the agent of the host. That one makes the disks, boots a guest
//! on the kernel that a target asks for, and passes the lines on. A guest that panics, hangs or is killed costs the
//! trial that it was in; the next target boots another one. That a guest hangs is noticed by asking it, after a silence
//! of half a minute, over a port of its own.
//!
//! Between a worker's `go` and its answer no line of the protocol passes, but for what long trials tell of their rate on
//! any machine: agent and relay wait in `read`, and so do the threads that carry the bytes of the port. What the clock of
//! a trial sees of all this is nothing.

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

/// Whether this machine has QEMU and a kernel for it.
pub fn is_available() -> bool {
    let found = machine::find_qemu(machine::Architecture::HERE).and_then(|_| kernel::resolve(None)?.usable());
    found.is_ok()
}

/// Everything that can be known before anything is touched: requests, programs, kernels, modules, memory. What is made
/// for it (the initramfs) stays in the user's cache. Returns warnings.
pub fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    let here = on_this_machine(setup)?;
    let mut warnings = fsb_testbed::vm::check(&here.setup)?;
    qemu::version()?;
    let (kernels, available) = kernels::Kernels::prepare(here)?;
    kernels.check_memory(setup)?;
    warnings.extend(available.warnings());
    Ok(warnings)
}

/// Serves a runner until it closes the connection. Guests and disks are gone in the end, whatever happened.
pub fn serve(stream: UnixStream) -> Result<(), String> {
    let (mut guests, host_proc) = (guests::Qemu::default(), sandbox::host_proc());
    let mut relay = relay::Relay::new(&mut guests);
    relay.outside = host_proc.as_ref().map(Roots::through);
    relay.serve(stream)
}
