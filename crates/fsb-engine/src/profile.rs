//! What the runner must know of a job before it starts it.

use std::path::PathBuf;

use fsb_model::metric::MetricKind;
use fsb_model::workload::ProgramLimits;
use fsb_model::{Better, CacheState, Durability};
use serde::{Deserialize, Serialize};

use crate::backend::CALLS;

/// How the state before the first repetition is restored before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// A repetition leaves the state as it found it.
    Never,
    /// The files stay; the cache must be cold again.
    Remount,
    /// Cleanup and prepare.
    Recreate,
    /// The worker restores it itself after each pass over the data, outside the clock.
    Inside,
}

/// What the runner must know of a job.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The name in tables: `read 1M, cold`.
    pub label: String,
    /// What is done to a file: write, read, append, create, stat, …
    pub operation: &'static str,
    /// Files in the set.
    pub files: u64,
    /// Bytes of each file when it is whole.
    pub file_size: u64,
    /// Bytes that one operation moves; 0 where none are.
    pub record_size: u64,
    /// Threads, resolved: never 0.
    pub threads: u32,
    /// Processes, each with files of its own and one thread; 1 where the worker does everything itself.
    pub processes: u32,
    /// One of a matrix of sizes, from which a budget may choose.
    pub matrix: bool,
    /// How calls reach the kernel: a member of the registry of backends.
    pub backend: String,
    /// When data must be on the device.
    pub durability: Durability,
    /// What the page cache must hold when the clock starts.
    pub cache: CacheState,
    /// The metric that targets are compared by.
    pub primary: &'static MetricKind,
    /// How the state before the first repetition is restored.
    pub renewal: Renewal,
    /// Operations in one whole pass over the data.
    pub operations: u64,
    /// A repetition may do fewer operations than [`Profile::operations`].
    pub divisible: bool,
    /// A repetition may do more operations, passing over the data again.
    pub repeats_in_place: bool,
    /// The timed part waits for the device: calibration must then cover seconds, not tenths.
    pub reaches_device: bool,
    /// Cold means cold inodes and directories, which POSIX_FADV_DONTNEED cannot bring about.
    pub metadata_only: bool,
    /// Bytes needed on the target at the peak.
    pub space: u64,
    /// Files and directories needed on the target at the peak.
    pub inodes: u64,
    /// Bytes that the device must read for each operation of a cold repetition, for it to be believed.
    pub cold_bytes_per_operation: u64,
    /// All bytes that it moves are written by it.
    pub only_writes: bool,
    /// The share of its bytes that reach a device however well the file system compresses them: 1 unless the plan asks for
    /// data that compression or deduplication save.
    pub device_share: f64,
    /// Operations a second that are started, whatever became of those before; absent where each waits for the one before.
    pub rate: Option<u64>,
    /// Operations that a trial has at least, or its metric says nothing.
    pub fewest: u64,
    /// What programs of the user need; absent where the worker does everything itself.
    pub program: Option<ProgramNeeds>,
}

impl Profile {
    /// One indivisible operation that leaves its files behind. It moves no data and does not wait for the device.
    /// A workload replaces the fields that differ.
    pub(crate) fn base(operation: &'static str, primary: &'static MetricKind, label: String) -> Profile {
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
            reaches_device: false,
            metadata_only: false,
            space: 0,
            inodes: 1,
            cold_bytes_per_operation: 0,
            only_writes: false,
            device_share: 1.0,
            rate: None,
            fewest: 1,
            program: None,
        }
    }
}

/// What programs of the user need, and what is known of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgramNeeds {
    /// Directories beside the target that they may write into.
    pub writable: Vec<PathBuf>,
    /// Whether they share the network of the machine.
    pub network: bool,
    /// Limits of these programs.
    pub limits: ProgramLimits,
    /// Seconds that each may take.
    pub longest: f64,
    /// Numbers that the command prints, with their direction. The first one is what targets are compared by.
    pub printed: Vec<(String, Better)>,
}
