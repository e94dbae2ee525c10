//! The host's half of a testbed in a virtual machine: it checks the setup and makes and lends the disks before the
//! guest makes targets.
//!
//! This code needs no root, does not change the machine and does not start a virtual machine. Disks are files without a
//! name, or block devices of the user. A file disappears with the last process that holds it.

mod check;
mod disks;
mod needs;

#[cfg(test)]
pub(crate) use check::tests::setup as setup_of;
pub use check::{check, check_targets};
pub use disks::{Disks, HostDisk};
pub use needs::{Needs, needs};
