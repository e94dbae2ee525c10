//! All of FSBench that needs root: file systems, media, controls, the undo ledger and the sandbox.
//!
//! Linux only, 5.12 or newer (`mount_setattr`, `fsopen`, `LOOP_CONFIGURE`). Nothing here prints: what a user must read
//! is an error, a warning or a note in a record.

#![expect(unsafe_code, reason = "namespaces, mounts and ioctls have no safe interface")]

mod caller;
pub mod control;
pub mod declared;
pub mod doctor;
mod error;
pub mod fs;
pub mod host;
mod identity;
pub mod ledger;
mod local;
pub mod lock;
pub mod medium;
pub mod optional;
pub mod privilege;
mod progress;
pub mod sandbox;
mod sys;
mod testbed;
pub mod trace;
pub mod vm;
pub mod watch;

pub use caller::{Caller, prepare_process};
pub use error::{Kind, Refusal, TestbedError};
pub use fs::Fake;
pub use identity::worker_identity;
pub use local::{LocalTestbed, part_size, side_by_side};
pub use medium::part_bytes;
pub use progress::Progress;
pub use sys::Roots;
pub use testbed::{
    Abilities, ColdMethod, ColdReach, Counters, Opened, OpenedPart, Provisioned, Quiet, Seat, Setup, Testbed,
};
