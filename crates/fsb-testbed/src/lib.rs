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
pub mod ledger;
mod local;
pub mod lock;
pub mod medium;
pub mod optional;
pub mod privilege;
mod testbed;
pub mod vm;
pub mod watch;
mod watcher;

use serde::{Deserialize, Serialize};

pub use fs::Fake;
pub use fsb_sys::Roots;
pub use fsb_sys::error::{Kind, Refusal, TestbedError};
pub use local::{LocalTestbed, part_size, side_by_side};
pub use medium::part_bytes;
pub use privilege::worker_identity;
pub use testbed::{
    Abilities, ColdMethod, ColdReach, Counters, Maintained, Opened, OpenedPart, Provisioned, Quiet, Setup, Slot,
    Testbed,
};
pub use watcher::{WATCHER_ARGUMENT, Watcher, watch_coordinator};

/// The progress of a long preparation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The present step: `filling the image`.
    pub what: String,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}
