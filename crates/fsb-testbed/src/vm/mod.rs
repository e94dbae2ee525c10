//! The host's half of a testbed in a virtual machine: what is checked, made and lent before the guest makes targets.
//!
//! Nothing here needs root, changes the machine or knows how a virtual machine is started. Disks are files without a
//! name, or block devices of the user's; they go with the last process that holds them.

mod check;
mod disks;
mod needs;

#[cfg(test)]
pub(crate) use check::tests::setup as setup_of;
pub use check::{check, check_targets};
pub use disks::{Disks, HostDisk};
pub use needs::{Needs, needs};
