//! The seam to the runner: a testbed makes targets ready, keeps them so, and takes them away.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fsb_model::host::{DeviceId, DeviceRates, HostManifest};
use fsb_model::place::{VmRecord, VmSize};
use fsb_model::run::{ControlRecord, MediumRecord, MemoryTouched, TargetRecord};
use fsb_model::{Geometry, Identity, Target, Warning};
use fsb_sys::error::TestbedError;
use serde::{Deserialize, Serialize};

use crate::control::Held;
use crate::fs::Fake;
use crate::medium::Part;
use crate::progress::Progress;
use crate::watch::{DeviceCourse, Watch};

/// The place of a target that is ready, numbered by whoever provisions: several targets can be ready at once.
pub type Seat = u32;

/// Everything a testbed must know of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// All targets of the run.
    pub targets: Vec<Target>,
    /// Bytes of an image.
    pub size: u64,
    /// Into how many equal parts each medium is divided; with 1 it is whole.
    #[serde(default = "whole")]
    pub parts: u32,
    /// Where images live.
    pub dir: PathBuf,
    /// Block devices whose content the user gave up.
    pub wipe: Vec<PathBuf>,
    /// Which devices the names among targets and `wipe` led to when the front resolved them: what leads elsewhere later is
    /// refused. Empty where nobody looked before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<PathBuf, DeviceId>,
    /// Controls that were asked for, by name; all others take their defaults. Targets may differ from them.
    pub controls: BTreeMap<String, String>,
    /// Seconds that preparing the machine may take, as far as it can be cut short: touching a guest's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<f64>,
    /// Bytes of memory that the run may use at once: as many of a guest's free memory are touched. Absent for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_needed: Option<u64>,
    /// Whom the workers run as.
    pub identity: Identity,
    /// Decides what media are filled with.
    pub seed: u64,
    /// The virtual machine that targets are made in; absent where they are made on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmSize>,
    /// Kernels of the virtual machine, as they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// What programs of the user see as their root in the virtual machine: a directory of this one. Absent where none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Release of the oldest kernel of the run, where there are several: every target is made with features that it
    /// can mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_kernel: Option<String>,
    /// The geometry that the targets' mkfs commands give a large disk, by target: smaller slices are given the same. A
    /// target that is missing here is made as its mkfs program chooses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub large_disk: BTreeMap<String, Geometry>,
    /// How the guest is to fail, in fsb's own tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

fn whole() -> u32 {
    1
}

/// What was found and made by [`Testbed::open`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// What the media are, by their text.
    pub media: BTreeMap<String, MediumRecord>,
    /// The parts that targets have of them, by their text; none of a medium that is whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Vec<OpenedPart>>,
    /// What the controls of the run did, by name.
    pub controls: BTreeMap<String, ControlRecord>,
    /// The memory that was touched; absent where none had to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTouched>,
    /// The machine.
    pub host: HostManifest,
    /// Conditions that the reader must know.
    pub warnings: Vec<Warning>,
    /// The virtual machine, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmRecord>,
    /// Its processors are emulated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
}

/// A part of a medium that was divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedPart {
    /// Its device, as people know it: `/dev/loop3`.
    pub device: PathBuf,
    /// Where it lies on the medium.
    pub place: Part,
}

/// A target that is ready for workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provisioned {
    /// What it turned out to be.
    pub record: TargetRecord,
    /// Where workers work: it exists, is empty and belongs to the worker's user.
    pub root: PathBuf,
    /// What can be done and proved on it.
    pub abilities: Abilities,
    /// Bytes that the worker's user may fill.
    pub free_bytes: u64,
    /// Files that can be made; `u64::MAX` where the file system sets no limit.
    pub free_inodes: u64,
    /// What the raw device beneath did just before it was formatted; absent where there is none of its own.
    #[serde(default)]
    pub device: Option<DeviceRates>,
    /// How the processes that measure are to be held.
    #[serde(default)]
    pub held: Held,
    /// Conditions of this target in this block that the reader must know.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// What can be done and proved on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Abilities {
    /// How its data are made cold; absent where they never are.
    pub cold: Option<ColdMethod>,
    /// All that is cached of it lies in the kernel's caches, which can be emptied while it is mounted: not so where a
    /// FUSE server keeps a cache of its own.
    pub kernel_caches_only: bool,
    /// Whether data can be made durable at all.
    pub durable: bool,
    /// Whether device counters exist.
    pub counters: bool,
    /// The null file system: nothing is real.
    pub fake: Option<Fake>,
    /// Why it cannot be made cold; empty where it can.
    pub why_not_cold: String,
    /// Why nothing is durable on it; empty where it is.
    pub why_not_durable: String,
}

/// How data are made cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColdMethod {
    /// Unmount, `drop_caches`, mount: data and metadata.
    Remount,
    /// `drop_caches` alone: data and metadata that nobody uses.
    DropCaches,
    /// `POSIX_FADV_DONTNEED` by the worker itself: data only.
    Evict,
}

/// What is emptied when a target is made cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColdReach {
    /// The caches of the whole machine.
    Machine,
    /// Those of the target where unmounting it empties them: programs that the work runs stay in memory. The whole machine's
    /// elsewhere.
    Target,
}

impl ColdMethod {
    /// The kernel's caches are emptied, of data and of metadata.
    pub(crate) fn empties_kernel_caches(self) -> bool {
        self != ColdMethod::Evict
    }
}

/// What device and machine did since they were started. Differences mean something, absolute values do not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes the device read.
    pub read_bytes: u64,
    /// Bytes the device wrote.
    pub write_bytes: u64,
    /// Cache flushes the device served.
    pub flushes: u64,
    /// Seconds that all processors were busy, kernel threads included.
    pub cpu_seconds: f64,
}

/// How long it took until nothing moved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// Seconds waited, the syncfs included.
    pub waited_seconds: f64,
    /// Whether it became quiet; false where the bound was reached first.
    pub settled: bool,
}

/// Owns what targets stand on, and makes them ready, each on a seat of its own.
///
/// Call order: `check`, `open`, then for each visit `provision`, any of `make_cold`, `drop_caches`, `quiesce`, `sync`, `counters`,
/// `watch`, and `release`; `close` at the end.
pub trait Testbed {
    /// Everything that can be known before anything is touched. The answer holds warnings.
    fn check(&mut self, setup: &Setup) -> Result<Vec<Warning>, TestbedError>;
    /// Makes and fills the media and sets the controls of the run.
    fn open(&mut self, setup: &Setup, progress: &mut dyn FnMut(Progress)) -> Result<Opened, TestbedError>;
    /// Sets the controls of the visit, formats and mounts a target anew on that part of its medium, and gives it the
    /// seat. What had the seat is released first; other seats stay as they are. A target without a medium takes no
    /// notice of the part. An error of kind [`Kind::Trial`](crate::Kind::Trial) concerns this target only.
    fn provision(&mut self, seat: Seat, part: u32, target: &Target) -> Result<Provisioned, TestbedError>;
    /// Empties the caches of the target, and of others as far as `reach` says. Its root path stays valid, open files do
    /// not survive.
    fn make_cold(&mut self, seat: Seat, reach: ColdReach) -> Result<(), TestbedError>;
    /// Empties the caches of the kernel for all targets, without a remount. What is dirty stays.
    fn drop_caches(&mut self) -> Result<(), TestbedError>;
    /// Writes everything out and waits until nothing moves on the target's device, at most ten seconds and no longer than
    /// `left`. Does nothing if `left` is zero.
    fn quiesce(&mut self, seat: Seat, left: Duration) -> Result<Quiet, TestbedError>;
    /// Writes out what the target has to write, and nothing more: cheap enough for after each stretch.
    fn sync(&mut self, seat: Seat) -> Result<(), TestbedError>;
    /// The counters of the target's own device now; absent where that is unknown. The kernel counts the flushes of a
    /// partition for its whole disk only.
    fn counters(&self, seat: Seat) -> Option<Counters>;
    /// Bytes that the worker's user may still fill, where the file system is the target's own.
    fn free_bytes(&self, seat: Seat) -> Option<u64>;
    /// Begins to watch what may disturb a measurement on the target; absent where nothing is real. What the devices of
    /// all seats do is ours.
    fn watch(&self, seat: Seat) -> Option<Watch>;
    /// Begins to read the counters of the target's device again and again; absent where there is none.
    fn course(&self, seat: Seat) -> Option<DeviceCourse>;
    /// The file to which a worker of the target writes itself to be counted: of the cgroup that holds all workers of the
    /// target to `most` processes. Absent where no cgroup can; limits of processes bound each worker then.
    fn count_processes(&mut self, _seat: Seat, _most: u64) -> Option<PathBuf> {
        None
    }
    /// Takes the target of that seat away, and restores what the controls of its visit changed and no other seat still
    /// needs. An empty seat needs nothing.
    fn release(&mut self, seat: Seat) -> Result<(), TestbedError>;
    /// Releases every seat, also where one of them fails; the first error is the answer.
    fn release_all(&mut self) -> Result<(), TestbedError>;
    /// Takes everything away. Idempotent.
    fn close(&mut self);
}
