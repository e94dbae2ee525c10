//! The record of a run: `run.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::geometry::Geometry;
use crate::host::{DeviceId, DeviceManifest, DeviceRates, HostManifest};
use crate::place::VmRecord;
use crate::plan::{FEWEST_BLOCKS_JUDGED, Plan, Repetition};
use crate::stop::{Analyses, StopReason, StoppingRule};
use crate::target::Target;
use crate::warning::Warning;
use crate::workload::{Amount, Cell, Params};

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/run/2";

/// Everything about a run except its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunRecord {
    /// Always [`SCHEMA`] in what this version writes.
    pub schema: String,
    /// The name: targets and suite.
    pub name: String,
    /// The request, resolved.
    pub plan: Plan,
    /// The plan's cells, in the plan's order.
    pub cells: Vec<Cell>,
    /// How much each cell does in a trial, by label; empty until warm-up fixed it.
    #[serde(default)]
    pub amounts: BTreeMap<String, Amount>,
    /// How many blocks the run set out to make; absent until warm-up fixed it.
    #[serde(default)]
    pub blocks_planned: Option<u32>,
    /// The rule by which the run ends; absent until warm-up fixed it.
    #[serde(default)]
    pub stopping_rule: Option<StoppingRule>,
    /// Whether targets are measured side by side; absent in records of versions that had no parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// How each cell that is measured in rounds is, by label; empty until warm-up fixed it. Other cells are measured in
    /// visits, each as its amount says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rounds: BTreeMap<String, Rounds>,
    /// Of cells that are measured in rounds, by label, the parameters that a unit has otherwise than the whole: a unit's own file
    /// is smaller than the workload's. Two runs did the same work where their units are the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Params>,
    /// After how many blocks results are looked at, fixed before the first one: a cell may end at a look. Empty where
    /// the number of blocks was fixed beforehand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
    /// The order of each block begun.
    #[serde(default)]
    pub order: Vec<BlockOrder>,
    /// One entry a start or resume.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// The machine.
    #[serde(default)]
    pub host: HostManifest,
    /// What the media were, by their text.
    #[serde(default)]
    pub media: BTreeMap<String, MediumRecord>,
    /// What the raw devices beneath did just before they were formatted, by block and target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices_probed: BTreeMap<u32, BTreeMap<String, DeviceRates>>,
    /// The geometry that the plan's mkfs commands give a disk of [`LARGE_DISK`](crate::geometry::LARGE_DISK) bytes, by target; a target is missing
    /// where it is unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub large_disk: BTreeMap<String, Geometry>,
    /// What the targets turned out to be, by name.
    #[serde(default)]
    pub targets: BTreeMap<String, TargetRecord>,
    /// What the controls of the run did, by name; those of visits stand with the targets.
    #[serde(default)]
    pub controls: BTreeMap<String, ControlRecord>,
    /// The memory that was touched before the first block; absent where none had to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTouched>,
    /// Labels of the cells that allocate memory while they are measured, so that memory that was not touched affects them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_cells: Vec<String>,
    /// Conditions that the reader must know.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The virtual machine that it was made in; absent where it was made on the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmRecord>,
    /// Processors were emulated, which inflates CPU cost against I/O: a functional run, whose numbers judge nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The reason why no more blocks were made; absent until the run is complete.
    #[serde(default, alias = "finished")]
    pub stop_reason: Option<StopReason>,
    /// Which devices the plan's names led to when this process resolved them, once. Not stored: numbers last for a boot.
    #[serde(skip)]
    pub devices: BTreeMap<PathBuf, DeviceId>,
    /// Fields of newer minor versions, kept as found.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// In which order a block visited targets and cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockOrder {
    /// The block, 0 for warm-up.
    pub block: u32,
    /// Names of targets.
    pub targets: Vec<String>,
    /// Labels of cells, the same for all targets of the block.
    pub cells: Vec<String>,
    /// Which part of the medium each target has, in the order of `targets`; empty where each has the whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u32>,
}

impl BlockOrder {
    /// The part that a target has; absent where it has the whole.
    pub fn part_of(&self, target: &str) -> Option<u32> {
        self.parts.get(self.targets.iter().position(|name| name == target)?).copied()
    }
}

/// Where the targets of a block are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// All at once, each on its part of the medium, or in its directory.
    SideBySide {
        /// Equal parts that targets rotate over; 0 where the targets are directories or nothing is real.
        parts: u32,
        /// Bytes of a part; of the image where there are none.
        part_bytes: u64,
    },
    /// One after the other, each on the whole medium.
    InTurn {
        /// The reason why they are not measured side by side.
        #[serde(alias = "why")]
        reason: PlacementReason,
    },
}

/// The reason why the targets of a run are not measured side by side.
///
/// It is an object with the tag `kind` in `run.json`. Records of schema version 1 hold a sentence instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlacementReason {
    /// The user requested it with `--one-at-a-time`.
    Requested,
    /// No workload of the plan can be split into samples.
    UnsplittableWorkloads,
    /// The targets need different kernels.
    DifferentKernels,
    /// The targets have different controls, and a disk has one setting of each.
    DifferentControls,
    /// The memory limit applies to one target at a time.
    MemoryLimit,
    /// The targets are on different media.
    DifferentMedia,
    /// Several targets are in memory, and each may fill it.
    SharedMemory,
    /// The targets are of several kinds: file systems on a medium, in memory, directories.
    MixedKinds,
    /// The medium cannot be divided into slices.
    IndivisibleMedium {
        /// The cause, from the testbed.
        cause: String,
    },
    /// There are more targets than slices can be numbered.
    TooManyTargets,
    /// There are no targets.
    NoTargets,
    /// The sentence of a record that was written with schema version 1.
    #[serde(untagged)]
    Text(String),
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Placement {
    /// How many parts the medium is divided into, and their bytes; absent where targets have the whole.
    pub fn divided(&self) -> Option<(u32, u64)> {
        match *self {
            Placement::SideBySide { parts, part_bytes } if parts > 1 => Some((parts, part_bytes)),
            _ => None,
        }
    }
}

/// How a cell is measured in a block: fixed after warm-up, the same for all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rounds {
    /// Rounds that count.
    pub rounds: u32,
    /// Units of a stretch.
    pub units: u32,
    /// Whether one more round comes first that does not count.
    #[serde(default = "leads_in", skip_serializing_if = "is_leading_in")]
    pub lead_in: bool,
}

fn leads_in() -> bool {
    true
}

fn is_leading_in(lead_in: &bool) -> bool {
    *lead_in
}

/// A stretch of a run without interruption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Segment {
    /// Kernel's boot id.
    pub boot_id: String,
    /// Kernel release.
    pub kernel: String,
    /// Version of this program.
    pub fsb_version: String,
    /// RFC 3339 in UTC.
    pub started: String,
    /// RFC 3339 in UTC; absent where it was killed.
    #[serde(default)]
    pub ended: Option<String>,
}

/// A medium as it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MediumRecord {
    /// The block device, and what it stands on.
    pub device: DeviceManifest,
    /// Whether the loop device bypasses the host's page cache; absent where it is no loop device.
    pub direct: Option<bool>,
    /// Bytes written over it before the first block, and how.
    pub filled: Option<String>,
    /// In few words, for the line under the table: `loop 2 GiB, direct`.
    pub summary: String,
    /// Why targets on it are not judged: `members of raid0:loop+loop share one disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
}

/// Memory that a virtual machine's hypervisor was made to back before anything was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryTouched {
    /// Bytes that the run may need.
    pub needed: u64,
    /// Bytes that were touched within the time for that.
    pub touched: u64,
    /// Whether the hypervisor may take back what was touched, because free pages are still reported to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

impl MemoryTouched {
    /// Memory that stays backed once it is touched.
    pub fn of(needed: u64, touched: u64) -> MemoryTouched {
        MemoryTouched { needed, touched, reported: false }
    }

    /// Whether all that the run may need was touched, and stays backed.
    pub fn is_complete(self) -> bool {
        self.touched >= self.needed && !self.reported
    }
}

impl RunRecord {
    /// The interim analyses of this run and how it ended.
    pub fn analyses(&self) -> Analyses {
        let last_block = self.order.iter().map(|order| order.block).max().unwrap_or(0);
        // Without planned analyses, a run that is to reach a precision is analysed after each block.
        let each = matches!(self.plan.repetition, Repetition::Precision { .. }) && self.looks.is_empty();
        Analyses {
            after: if each { (FEWEST_BLOCKS_JUDGED..=last_block).collect() } else { self.looks.clone() },
            last_block,
            ended_by_results: !self.stop_reason.as_ref().is_some_and(StopReason::is_planned),
        }
    }

    /// The memory that was touched, where it was too little for this cell: its first use of a page may then wait for the
    /// hypervisor.
    pub fn memory_lacking(&self, label: &str) -> Option<MemoryTouched> {
        self.memory.filter(|memory| !memory.is_complete() && self.memory_cells.iter().any(|cell| cell == label))
    }

    /// Why this run gives numbers but no ranks, verdicts or findings; absent where it gives them.
    pub fn unjudged(&self) -> Option<String> {
        if self.emulated {
            return Some("emulated: a functional run".to_owned());
        }
        let targets: Option<Vec<String>> =
            self.plan.targets.iter().map(|target| self.unjudged_target(target)).collect();
        targets?.into_iter().next()
    }

    /// Why this target is not ranked beside others: its medium is none that a file system could be judged on.
    pub fn unjudged_target(&self, target: &Target) -> Option<String> {
        let medium = target.file_system()?.medium.to_string();
        self.media.get(&medium)?.unjudged.clone()
    }
}

/// A target as it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TargetRecord {
    /// The mkfs program with its version.
    pub mkfs_version: Option<String>,
    /// The whole command.
    pub mkfs_command: Vec<String>,
    /// Features, as the file system's own tool names them.
    pub features: Vec<String>,
    /// Bytes of a file-system block.
    pub block_size: Option<u64>,
    /// The geometry of the file system that was made; absent where its tools do not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
    /// The reasons why synced data may be lost or damaged in a crash that the file system's defaults survive; empty for a safe target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    /// Mount options that were asked for.
    pub requested_options: Vec<String>,
    /// Mount options in effect, from mountinfo.
    pub mount_options: Vec<String>,
    /// The driver that served it, where it is not the one named: `ext4` for ext2.
    pub driver: Option<String>,
    /// The medium's text.
    pub medium: Option<String>,
    /// What a reader should know: `directory: no remount`.
    pub notes: Vec<String>,
    /// Why nothing could be measured on it.
    pub failed: Option<String>,
    /// Why this machine cannot make it, where the plan expects that some cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// What the controls of its visits did, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, ControlRecord>,
    /// Release of the kernel that it was measured on, in a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// A reason why a target is unsafe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Risk {
    /// The option or device that causes it: `barrier=0`.
    pub cause: String,
    /// The possible loss: `a power failure may lose synced data`.
    pub loss: String,
}

/// What a control was asked to do and did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ControlRecord {
    /// What was asked.
    pub requested: String,
    /// What was seen.
    pub observed: String,
    /// Whether it took effect.
    pub effective: bool,
}
