//! Maintenance of a file system: operations on the whole of it, which need root.

use serde::{Deserialize, Serialize};

/// An operation on a whole file system. The agent performs it, because workers are not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maintenance {
    /// A check of the unmounted file system that repairs nothing.
    Check,
    /// A freeze and a thaw of the mounted file system: FIFREEZE and FITHAW, as fsfreeze(8).
    Freeze,
    /// The creation of an empty subvolume.
    Subvolume,
    /// The creation of a read-only snapshot.
    Snapshot,
    /// The deletion of a snapshot, until it is committed.
    SnapshotDelete,
    /// The output of a snapshot as a stream.
    Send,
    /// The reduction of the mounted file system by a quarter of its size.
    Shrink,
    /// The defragmentation of all files of the mounted file system.
    Defragment,
}

impl Maintenance {
    /// Every operation.
    pub const ALL: [Maintenance; 8] = [
        Maintenance::Check,
        Maintenance::Freeze,
        Maintenance::Subvolume,
        Maintenance::Snapshot,
        Maintenance::SnapshotDelete,
        Maintenance::Send,
        Maintenance::Shrink,
        Maintenance::Defragment,
    ];

    /// Returns the name in workloads.
    pub fn name(self) -> &'static str {
        match self {
            Maintenance::Check => "fsck",
            Maintenance::Freeze => "freeze",
            Maintenance::Subvolume => "subvolume",
            Maintenance::Snapshot => "snapshot",
            Maintenance::SnapshotDelete => "snapshot-delete",
            Maintenance::Send => "send",
            Maintenance::Shrink => "shrink",
            Maintenance::Defragment => "defragment",
        }
    }
}
