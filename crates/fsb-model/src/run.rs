//! The record of a run: `run.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::geometry::Geometry;
use crate::host::{DeviceId, DeviceManifest, DeviceRates, HostManifest, VmRecord};
use crate::plan::{FEWEST_BLOCKS_JUDGED, Plan, Repetition};
use crate::stop::{Analyses, StopReason, StoppingRule};
use crate::storage::{StorageLayer, Unproven};
use crate::target::Target;
use crate::warning::Warning;
use crate::workload::{Amount, Cell, Params};

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/run/1";

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
    /// The amount of work of each cell in a trial, by label; empty until warm-up fixes it.
    #[serde(default)]
    pub amounts: BTreeMap<String, Amount>,
    /// The number of planned blocks; absent until warm-up fixes it.
    #[serde(default)]
    pub blocks_planned: Option<u32>,
    /// The rule by which the run ends; absent until warm-up fixes it.
    #[serde(default)]
    pub stopping_rule: Option<StoppingRule>,
    /// Whether targets are measured side by side; absent in the record of an MPI job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The rounds of each cell that is measured in rounds, by label; empty until warm-up fixes
    /// them. Other cells are measured in sequential trials, each with its amount.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rounds: BTreeMap<String, Rounds>,
    /// For each cell that is measured in rounds, by label: the parameters of a unit that differ
    /// from those of the whole workload, because a unit's own file is smaller. Two runs did the
    /// same work if their units are the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Params>,
    /// The numbers of blocks after which results are analysed, fixed before the first block. A cell
    /// may end at an interim analysis. Empty if the number of blocks is fixed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interim_analyses: Vec<u32>,
    /// The order of each block begun.
    #[serde(default)]
    pub order: Vec<BlockOrder>,
    /// One entry per start or resume.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// The machine.
    #[serde(default)]
    pub host: HostManifest,
    /// The media, by their text.
    #[serde(default)]
    pub media: BTreeMap<String, MediumRecord>,
    /// The rates of the raw devices beneath, measured just before they were formatted, by block and
    /// target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices_probed: BTreeMap<u32, BTreeMap<String, DeviceRates>>,
    /// The geometry that the plan's mkfs commands give a disk of
    /// [`LARGE_DISK`](crate::geometry::LARGE_DISK) bytes, by target; a target is missing where it
    /// is unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub large_disk: BTreeMap<String, Geometry>,
    /// The targets as they were made, by name.
    #[serde(default)]
    pub targets: BTreeMap<String, TargetRecord>,
    /// The effects of the controls of the run, by name. Those of a target's controls are in its
    /// record.
    #[serde(default)]
    pub controls: BTreeMap<String, ControlRecord>,
    /// The memory that was touched before the first block; absent if none was touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTouched>,
    /// Labels of the cells that allocate memory while they are measured, so that memory that was
    /// not touched affects them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_cells: Vec<String>,
    /// Conditions that the reader must know.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The host that made it, as `--on` named it; absent if this machine made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The virtual machine in which it was made; absent if it was made on the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmRecord>,
    /// The ranks of the MPI job that made it; absent for a run of one coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Ranks>,
    /// The command that made it with the options of another tool; absent for a run of `fsb run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation_of: Option<EmulatedTool>,
    /// Processors were emulated, which inflates CPU cost against I/O: a functional run without
    /// verdicts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The reason why no more blocks were made; absent until the run is complete.
    #[serde(default)]
    pub stop_reason: Option<StopReason>,
    /// The devices that the plan's names led to when this process resolved them, once. They are not
    /// stored, because device numbers are valid for one boot.
    #[serde(skip)]
    pub devices: BTreeMap<PathBuf, DeviceId>,
    /// Fields of newer minor versions, kept as found.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A command that measures with the options of another tool.
///
/// Each execution of a case in one process is a trial. The second execution of the same case is
/// that of block 2, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmulatedTool {
    /// The subcommand: `micro`, `iozone`, `postmark`, `filebench` or `fio`.
    pub command: String,
    /// Its arguments as the user typed them.
    pub arguments: Vec<String>,
}

/// The ranks of an MPI job. Names of hosts are not recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranks {
    /// The number of ranks on each host. The host of rank 0, which the record describes, is the
    /// first.
    pub by_host: Vec<u32>,
    /// The MPI library and its version: `Open MPI v5.0.7`.
    pub library: String,
    /// Whether ranks always read, on all hosts, what a rank on another host wrote.
    pub readers_on_other_hosts: bool,
}

/// The order in which a block measured targets and cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockOrder {
    /// The block, 0 for warm-up.
    pub block: u32,
    /// Names of targets.
    pub targets: Vec<String>,
    /// Labels of cells, the same for all targets of the block.
    pub cells: Vec<String>,
    /// The slice of the medium that each target has, in the order of `targets`; empty if each has
    /// the whole medium.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<u32>,
}

impl BlockOrder {
    /// Returns the slice of a target, or `None` if it has the whole medium.
    pub fn slice_of(&self, target: &str) -> Option<u32> {
        self.slices
            .get(self.targets.iter().position(|name| name == target)?)
            .copied()
    }
}

/// The placement of the targets of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// All at once, each on its slice of the medium or in its directory.
    SideBySide {
        /// Equal slices that targets rotate over; 0 if the targets have no medium to divide.
        slices: u32,
        /// Bytes of a slice, or of the image if there are no slices.
        slice_bytes: u64,
    },
    /// One after the other, each on the whole medium.
    InTurn {
        /// The reason why they are not measured side by side.
        reason: PlacementReason,
    },
}

/// The reason why the targets of a run are not measured side by side.
///
/// It is an object with the tag `kind` in `run.json`.
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
    /// A target has an external journal, whose medium is not divided.
    ExternalJournal,
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
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Placement {
    /// Returns the number of slices of the medium and their bytes, or `None` if targets have the
    /// whole medium.
    pub fn divided(&self) -> Option<(u32, u64)> {
        match *self {
            Placement::SideBySide {
                slices,
                slice_bytes,
            } if slices > 1 => Some((slices, slice_bytes)),
            _ => None,
        }
    }
}

/// The rounds of a cell in a block: fixed after warm-up, the same for all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rounds {
    /// Rounds that count.
    pub rounds: u32,
    /// Units of a sample.
    pub units: u32,
    /// Whether one more round, which does not count, comes first.
    #[serde(default = "leads_in", skip_serializing_if = "is_leading_in")]
    pub lead_in: bool,
}

fn leads_in() -> bool {
    true
}

fn is_leading_in(lead_in: &bool) -> bool {
    *lead_in
}

/// A part of a run without interruption.
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
    /// RFC 3339 in UTC; absent if the run was killed.
    #[serde(default)]
    pub ended: Option<String>,
}

/// A medium as it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MediumRecord {
    /// The block device, with the devices beneath it.
    pub device: DeviceManifest,
    /// Whether the loop device bypasses the host's page cache; absent for other devices.
    pub direct: Option<bool>,
    /// Bytes written over it before the first block, and how.
    pub filled: Option<String>,
    /// A short description for the line under the table: `loop 2 GiB, direct`.
    pub summary: String,
    /// The reason why targets on it are not judged: `members of raid0:loop+loop share one disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
}

/// Memory that was touched before the first trial, so that the hypervisor of a virtual machine
/// backs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryTouched {
    /// Bytes that the run may need.
    pub needed: u64,
    /// Bytes that were touched within the time for that.
    pub touched: u64,
    /// Whether the hypervisor may take back what was touched, because free pages are still reported
    /// to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

impl MemoryTouched {
    /// Returns a record of memory that stays backed once it is touched.
    pub fn new(needed: u64, touched: u64) -> MemoryTouched {
        MemoryTouched {
            needed,
            touched,
            reported: false,
        }
    }

    /// Returns whether all memory that the run may need was touched, and stays backed.
    pub fn is_complete(self) -> bool {
        self.touched >= self.needed && !self.reported
    }
}

impl RunRecord {
    /// Returns the record of a run that begins with a segment. The plan has its targets.
    pub fn new(plan: Plan, segment: Segment) -> RunRecord {
        RunRecord {
            schema: SCHEMA.to_owned(),
            name: plan.name.clone(),
            plan,
            cells: Vec::new(),
            amounts: BTreeMap::new(),
            blocks_planned: None,
            stopping_rule: None,
            placement: None,
            rounds: BTreeMap::new(),
            units: BTreeMap::new(),
            interim_analyses: Vec::new(),
            order: Vec::new(),
            segments: vec![segment],
            host: HostManifest::default(),
            media: BTreeMap::new(),
            devices_probed: BTreeMap::new(),
            large_disk: BTreeMap::new(),
            targets: BTreeMap::new(),
            controls: BTreeMap::new(),
            memory: None,
            memory_cells: Vec::new(),
            warnings: Vec::new(),
            on: None,
            vm: None,
            ranks: None,
            emulation_of: None,
            emulated: false,
            stop_reason: None,
            devices: BTreeMap::new(),
            extra: Map::new(),
        }
    }

    /// Returns the interim analyses of this run and how it ended.
    pub fn analyses(&self) -> Analyses {
        let last_block = self
            .order
            .iter()
            .map(|order| order.block)
            .max()
            .unwrap_or(0);
        // Without planned analyses, a run that is to reach a precision is analysed after each
        // block.
        let each = matches!(self.plan.repetition, Repetition::Precision { .. })
            && self.interim_analyses.is_empty();
        Analyses {
            after: if each {
                (FEWEST_BLOCKS_JUDGED..=last_block).collect()
            } else {
                self.interim_analyses.clone()
            },
            last_block,
            ended_by_results: !self
                .stop_reason
                .as_ref()
                .is_some_and(StopReason::is_planned),
        }
    }

    /// Returns how a run that did not finish can be completed, as a clause.
    pub fn completion(&self) -> String {
        match &self.emulation_of {
            None => "fsb run --resume completes it".to_owned(),
            Some(tool) => format!("fsb {} cannot resume it", tool.command),
        }
    }

    /// Returns whether a cell is a command that ran several times in one directory in each block.
    pub fn repeats_in_one_directory(&self, cell: &Cell) -> bool {
        let runs = match self.rounds.get(&cell.label) {
            Some(rounds) => rounds.rounds * rounds.units + u32::from(rounds.lead_in),
            None => self
                .amounts
                .get(&cell.label)
                .map_or(1, |amount| amount.repetitions),
        };
        runs > 1 && cell.workload.repeats_in_one_directory()
    }

    /// Returns the memory that was touched, if it was too little for this cell: its first use of a
    /// page may then wait for the hypervisor.
    pub fn memory_lacking(&self, label: &str) -> Option<MemoryTouched> {
        self.memory.filter(|memory| {
            !memory.is_complete() && self.memory_cells.iter().any(|cell| cell == label)
        })
    }

    /// Returns the reason why processors were emulated, if they were and it is known.
    pub fn emulation(&self) -> Option<&str> {
        let why = self
            .vm
            .as_ref()
            .filter(|_| self.emulated)?
            .acceleration
            .as_str();
        (!why.is_empty()).then_some(why)
    }

    /// Returns the reason why this run gives numbers but no ranks, verdicts or findings, or `None`
    /// if it gives them.
    pub fn unjudged(&self) -> Option<String> {
        if self.emulated {
            let why = self
                .emulation()
                .map(|why| format!(" (TCG: {why})"))
                .unwrap_or_default();
            return Some(format!("emulated{why}: a functional run"));
        }
        let targets: Option<Vec<String>> = self
            .plan
            .targets
            .iter()
            .map(|target| self.unjudged_target(target))
            .collect();
        targets?.into_iter().next()
    }

    /// Returns the reason why this target is not ranked beside others, which is that its medium
    /// cannot show the speed of a file system. Returns `None` if it is ranked.
    pub fn unjudged_target(&self, target: &Target) -> Option<String> {
        let medium = target.file_system()?.medium.to_string();
        self.media.get(&medium)?.unjudged.clone()
    }
}

/// A device on which a file system waits for commits that it does not need on a large disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SmallDevice {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes from which on results no longer depend on the size.
    pub least: u64,
    /// New files with data after which a commit is expected; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_files: Option<u64>,
}

impl SmallDevice {
    /// Returns text such as `it commits about every 99 new files`.
    pub fn commits_text(&self) -> String {
        let files = self.new_files.map_or_else(String::new, |files| {
            format!(" about every {files} new files")
        });
        format!("it commits{files}")
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
    /// The commands that changed the features of the new file system, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tune_commands: Vec<Vec<String>>,
    /// The commands that mount a target with a FUSE server by hand, in order. `{dev}` is the device
    /// in them, `{dir}` the mount point of the file system beneath, `{mnt}` that of the target.
    /// Empty for other targets, which mount(8) mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mount_commands: Vec<Vec<String>>,
    /// Features, as the file system's own tool names them.
    pub features: Vec<String>,
    /// Bytes of a file-system block.
    pub block_size: Option<u64>,
    /// The geometry of the file system that was made; absent where its tools do not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
    /// The limit of a device that is too small for the file system to behave as on a large disk;
    /// absent on other devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_device: Option<SmallDevice>,
    /// The reasons why synced data may be lost or damaged in a crash that the file system's
    /// defaults survive; empty for a safe target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    /// The requested mount options.
    pub requested_options: Vec<String>,
    /// Mount options in effect, from mountinfo.
    pub mount_options: Vec<String>,
    /// The driver that served it, if it is not the one named: `ext4` for ext2.
    pub driver: Option<String>,
    /// The medium's text.
    pub medium: Option<String>,
    /// The block device under a directory, with the devices beneath it. The devices of other
    /// targets are in `media`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceManifest>,
    /// The storage beneath its files, from their file system down to what holds the bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StorageLayer>,
    /// The promises of case names that it has not been shown to keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Unproven>,
    /// The name of the target of this run that is what lies beneath this one: the same file system
    /// without the FUSE server over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Facts for the reader: `directory: no remount`.
    pub notes: Vec<String>,
    /// The reason why nothing could be measured on it.
    pub failed: Option<String>,
    /// The reason why this machine cannot make it, if the plan marks it as optional.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The effects of its controls, by name.
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

/// The requested and the observed value of a control.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ControlRecord {
    /// The requested value.
    pub requested: String,
    /// The observed value.
    pub observed: String,
    /// Whether it took effect.
    pub effective: bool,
}
