//! All of FSBench that needs root: file systems, media, controls and the undo ledger.
//!
//! Linux only, 5.12 or newer (`mount_setattr`, `fsopen`, `LOOP_CONFIGURE`). Nothing here prints:
//! all text for the user is an error, a warning or a note in a record.

#![forbid(unsafe_code)]

pub mod access;
pub mod control;
pub mod declared;
pub mod disks;
pub mod doctor;
pub mod fs;
mod fuse;
pub mod host;
pub mod ledger;
mod limit;
mod local;
pub mod lock;
pub mod medium;
pub mod privilege;
pub mod probe;
mod restrict;
mod storage;
mod testbed;
pub mod vm;
pub mod watch;
mod watcher;

use serde::{Deserialize, Serialize};

pub use control::ColdMethod;
pub use fs::{Fake, ServerUse};
pub use fsb_sys::Roots;
pub use fsb_sys::error::{Kind, Refusal, TestbedError};
pub use local::{
    LocalTestbed, ONE_AT_A_TIME, behaves_as_large, directory_record, side_by_side, slice_size,
};
pub use medium::{SpaceBeneath, slice_bytes};
pub use privilege::worker_identity;
pub use testbed::{
    Abilities, Available, ColdReach, Counters, LimitLists, Maintained, Opened, OpenedSlice,
    Provisioned, Quiet, RepeatableMaintenance, Setup, Slot, Testbed, available_targets,
};
pub use watcher::{WATCHER_ARGUMENT, Watcher, watch_coordinator};

/// Work that may last, so that its progress is reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Activity {
    /// fsb checks whether QEMU can use hardware acceleration.
    FindAcceleration,
    /// A guest boots.
    BootGuest {
        /// The release of its kernel.
        kernel: String,
    },
    /// Each block of a medium is written once. Counts bytes.
    FillMedium {
        /// The medium: `image`, `ram`, or the path of a device.
        medium: String,
    },
    /// Pages leave the swap areas, which are switched off. Counts bytes.
    SwitchSwapOff,
    /// Free memory is written, so that the hypervisor backs it. Counts bytes.
    TouchMemory,
    /// A workload makes its files. Counts files.
    MakeFiles,
    /// A workload runs. Counts operations.
    Measure,
    /// A workload removes its files. Counts files.
    RemoveFiles,
}

/// The progress of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The activity.
    pub activity: Activity,
    /// Finished items.
    pub done: u64,
    /// All items; 0 if their number is unknown.
    pub total: u64,
}
