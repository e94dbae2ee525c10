//! The properties of a job that the runner needs before it starts it.

use std::path::PathBuf;

use fsb_model::metric::MetricKind;
use fsb_model::storage::Promise;
use fsb_model::workload::ProgramLimits;
use fsb_model::{Better, CacheState, Durability, Maintenance};
use serde::{Deserialize, Serialize};

use crate::backend::{self, CALLS};

/// The way in which the state before the first repetition is restored before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// A repetition leaves the state unchanged.
    Never,
    /// The files stay, but the cache must be cold again.
    Remount,
    /// Cleanup and prepare.
    Recreate,
    /// The worker restores the state after each pass over the data, outside the clock.
    Inside,
}

/// The properties of a job that the runner needs.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The name in tables: `read 1M, cold`.
    pub label: String,
    /// The operation on a file: write, read, append, create, stat, …
    pub operation: &'static str,
    /// Files in the set.
    pub files: u64,
    /// Bytes of each complete file.
    pub file_size: u64,
    /// Bytes that one operation moves, or 0 if it moves none.
    pub record_size: u64,
    /// Threads, resolved: never 0.
    pub threads: u32,
    /// Processes, each with its own files and one thread, or 1 if the worker does everything
    /// itself.
    pub processes: u32,
    /// Whether the job belongs to a matrix of sizes, from which a budget may choose.
    pub matrix: bool,
    /// The name of the backend in the registry.
    pub backend: String,
    /// The time by which data must be on the device.
    pub durability: Durability,
    /// The required content of the page cache when the clock starts.
    pub cache: CacheState,
    /// The metric that targets are compared by.
    pub primary: &'static MetricKind,
    /// The way in which the state before the first repetition is restored.
    pub renewal: Renewal,
    /// Operations in one whole pass over the data.
    pub operations: u64,
    /// Whether a repetition may do fewer operations than [`Profile::operations`].
    pub divisible: bool,
    /// Whether a repetition may do more operations, passing over the data again.
    pub repeats_in_place: bool,
    /// Whether it reads or overwrites records of complete files, which keep their names and sizes.
    pub in_place: bool,
    /// Whether the timed work waits for the device. Calibration must then cover seconds, not
    /// tenths.
    pub reaches_device: bool,
    /// Whether its timed work syncs files by itself, besides what its durability asks for.
    pub syncs_itself: bool,
    /// Whether cold means cold inodes and directories. POSIX_FADV_DONTNEED does not evict those.
    pub metadata_only: bool,
    /// Bytes needed on the target at the peak.
    pub space: u64,
    /// Files and directories needed on the target at the peak.
    pub inodes: u64,
    /// Bytes that the device must read for each operation of a cold repetition. The validity check
    /// rejects a result below it.
    pub cold_bytes_per_operation: u64,
    /// Whether the timed work changes nothing, so that a read-only file system serves it.
    pub reads_only: bool,
    /// Whether the job writes all the bytes that it moves.
    pub only_writes: bool,
    /// The share of its bytes that reach a device however well the file system compresses them. It
    /// is 1 unless the plan asks for data that compression or deduplication save.
    pub device_share: f64,
    /// Operations started per second, whether or not the earlier ones have finished. `None` if each
    /// operation waits for the previous one.
    pub rate: Option<u64>,
    /// The fewest operations of a trial for which its metric is meaningful.
    pub fewest: u64,
    /// The requirements of user programs, or `None` if the worker does everything itself.
    pub program: Option<ProgramNeeds>,
    /// The operation on the whole file system that the agent measures instead of a worker, or
    /// `None`.
    pub maintenance: Option<Maintenance>,
}

impl Profile {
    /// Returns whether its backend bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        backend::find(&self.backend).is_ok_and(|backend| backend.capabilities().direct)
    }

    /// Returns whether its backend lets the page cache keep nothing.
    pub fn is_uncached(&self) -> bool {
        backend::find(&self.backend).is_ok_and(|backend| backend.capabilities().uncached)
    }

    /// Returns whether it makes, renames or removes names, which are durable only after their
    /// directory was synced.
    pub fn changes_names(&self) -> bool {
        !self.in_place && self.operation != "append"
    }

    /// Returns the promises that its name or its own syncs make.
    pub fn promises(&self) -> Vec<Promise> {
        let is_durable = self.durability != Durability::None;
        let all = [
            (Promise::SyncedFiles, is_durable || self.syncs_itself),
            (Promise::SyncedNames, is_durable && self.changes_names()),
            (Promise::Direct, self.is_direct()),
        ];
        let made = all.into_iter().filter(|(_, made)| *made);
        made.map(|(promise, _)| promise).collect()
    }

    /// Returns the profile of one indivisible operation that leaves its files behind, moves no data
    /// and does not wait for the device. A workload replaces the fields that differ.
    pub(crate) fn base(
        operation: &'static str,
        primary: &'static MetricKind,
        label: String,
    ) -> Profile {
        Profile {
            label,
            operation,
            files: 1,
            file_size: 0,
            record_size: 0,
            threads: 1,
            processes: 1,
            matrix: false,
            backend: CALLS.name().to_owned(),
            durability: Durability::None,
            cache: CacheState::Any,
            primary,
            renewal: Renewal::Recreate,
            operations: 1,
            divisible: false,
            repeats_in_place: false,
            in_place: false,
            reaches_device: false,
            syncs_itself: false,
            metadata_only: false,
            space: 0,
            inodes: 1,
            cold_bytes_per_operation: 0,
            reads_only: false,
            only_writes: false,
            device_share: 1.0,
            rate: None,
            fewest: 1,
            program: None,
            maintenance: None,
        }
    }

    /// Returns the profile of work that changes nothing.
    pub(crate) fn reading(self) -> Profile {
        Profile {
            reads_only: true,
            ..self
        }
    }

    /// Returns the profile of work that uses its files up, so that each repetition needs new ones.
    pub(crate) fn consuming(self) -> Profile {
        Profile {
            renewal: Renewal::Recreate,
            repeats_in_place: false,
            ..self
        }
    }
}

/// The requirements of user programs, and the numbers that they print.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgramNeeds {
    /// Directories besides the target that they may write to.
    pub writable: Vec<PathBuf>,
    /// Whether they share the machine's network.
    pub network: bool,
    /// Limits of these programs.
    pub limits: ProgramLimits,
    /// The time limit of each program, in seconds.
    pub longest: f64,
    /// Whether all runs of a trial share one directory, instead of a new one for each run.
    pub reuse: bool,
    /// Whether they run in an existing directory of the user, as that user and not confined.
    pub here: bool,
    /// Numbers that the command prints, with their direction. Targets are compared by the first
    /// one.
    pub printed: Vec<(String, Better)>,
}
