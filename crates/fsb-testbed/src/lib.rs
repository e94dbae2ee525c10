//! All of FSBench that needs root: file systems, media, controls, the undo ledger and the sandbox.
//!
//! Linux only, 5.12 or newer (`mount_setattr`, `fsopen`, `LOOP_CONFIGURE`). Nothing here prints: all text for the user
//! is an error, a warning or a note in a record.

#![forbid(unsafe_code)]

pub mod control;
pub mod declared;
pub mod doctor;
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
mod testbed;
pub mod vm;
pub mod watch;
mod watcher;

pub use fs::Fake;
pub use fsb_sys::Roots;
pub use fsb_sys::error::{Kind, Refusal, TestbedError};
pub use identity::worker_identity;
pub use local::{LocalTestbed, part_size, side_by_side};
pub use medium::part_bytes;
pub use progress::Progress;
pub use testbed::{
    Abilities, ColdMethod, ColdReach, Counters, Opened, OpenedPart, Provisioned, Quiet, Setup, Slot, Testbed,
};
pub use watcher::{WATCHER_ARGUMENT, Watcher, watch_coordinator};
