//! A plan: targets × suite × controls × repetition, as data.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::geometry::LARGE_DISK;
use crate::setting::{self, Settings};
pub use crate::setting::{BLOCK_LIMIT, LONGEST_BUDGET};
use crate::target::Target;
use crate::units::Bytes;
use crate::workload::{BackgroundLimit, WorkloadSpec};

/// The place where targets are made and measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On this machine and its kernel.
    #[default]
    Host,
    /// In a virtual machine that lives as long as the run.
    Vm,
}

impl Place {
    /// All places, the default first.
    pub const ALL: [Place; 2] = [Place::Host, Place::Vm];

    /// Returns the name in plans and after `--in`.
    pub fn name(self) -> &'static str {
        match self {
            Place::Host => "host",
            Place::Vm => "vm",
        }
    }

    pub(crate) fn is_host(&self) -> bool {
        *self == Place::Host
    }
}

/// The directory of a guest with the host's files and the guest's own /dev, /proc and similar.
/// Programs of the host's user run in it.
pub const GUEST_ROOT: &str = "/fsb-root";

/// The requested size of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VmSize {
    /// Bytes of memory. All of it is backed before the kernel starts.
    pub memory: Bytes,
    /// Virtual processors.
    pub cpus: u32,
}

/// The fewest blocks that are judged. Fewer are only described.
pub const FEWEST_BLOCKS_JUDGED: u32 = 5;
/// The maximum number of blocks that `--budget` alone makes.
pub const MOST_BLOCKS: u32 = 30;

/// The shortest duration, in seconds, of work that continues until a journal was written: two
/// commits of journals that commit every five seconds.
pub const SUSTAINED: f64 = 10.0;

/// The duration, in seconds, of a sample of a sequential trial that reaches the device. The first
/// tenths of a second of durable writes run at half speed.
pub const VISIT: f64 = 2.0;

impl Default for Plan {
    /// Returns a plan without targets and workloads. Settings have the defaults of
    /// [`SETTINGS`](crate::setting::SETTINGS); the seed is 0.
    fn default() -> Plan {
        Plan {
            name: String::new(),
            targets: Vec::new(),
            workloads: Vec::new(),
            controls: BTreeMap::new(),
            repetition: Repetition::Budget {
                seconds: setting::BUDGET,
            },
            sample_time: None,
            seed: 0,
            one_at_a_time: false,
            keep_affected: false,
            race: None,
            risky: false,
            mkfs_defaults: false,
            like_disk: large_disk(),
            explain: false,
            size: setting::IMAGE,
            scale: full_scale(),
            dir: PathBuf::from("."),
            theta: setting::THETA,
            wipe: Vec::new(),
            identity: Identity::default(),
            place: Place::Host,
            kernels: Vec::new(),
            vm: None,
            root: None,
        }
    }
}

fn full_scale() -> f64 {
    1.0
}

fn is_full_scale(scale: &f64) -> bool {
    *scale == 1.0
}

/// The number of blocks that a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// As many blocks as the time allows, at most [`MOST_BLOCKS`].
    Budget {
        /// Seconds for the whole run.
        seconds: f64,
    },
    /// Exactly this number, unless the time ends before.
    Blocks {
        /// The number of measured blocks.
        blocks: u32,
        /// Seconds for the whole run; absent for no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
    },
    /// Until every interval's half-width is below `half_width`, within the time.
    Precision {
        /// Relative half-width, 0.02 for 2 %.
        half_width: f64,
        /// Seconds for the whole run.
        seconds: f64,
    },
}

impl Repetition {
    /// Returns the time that the run may take, or `None` if it is not limited.
    pub fn budget(&self) -> Option<Duration> {
        match *self {
            Repetition::Budget { seconds } | Repetition::Precision { seconds, .. } => {
                Some(Duration::from_secs_f64(seconds))
            }
            Repetition::Blocks { seconds, .. } => seconds.map(Duration::from_secs_f64),
        }
    }
}

/// Everything that decides what a run does. All defaults are resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The name of the suite, or of the plan file.
    pub name: String,
    /// The targets. The first one is the baseline.
    pub targets: Vec<Target>,
    /// The workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// The requested controls, by name.
    #[serde(default)]
    pub controls: BTreeMap<String, String>,
    /// The number of blocks.
    pub repetition: Repetition,
    /// Seconds that a sample should last. From 1 second on, everything is measured in sequential
    /// trials instead of rounds. If absent, it is [`VISIT`] for sequential trials that reach the
    /// device, and shorter for rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_time: Option<f64>,
    /// The seed, which decides the order of everything and every byte of data.
    pub seed: u64,
    /// Targets take turns on the whole medium, though they could be measured side by side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_at_a_time: bool,
    /// Trials that interference affected are kept; otherwise they are retried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_affected: bool,
    /// The race that chooses one of the targets; absent if all are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<Race>,
    /// Targets that weaken durability may win against targets that do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub risky: bool,
    /// Every mkfs program chooses the geometry by the size of its slice; otherwise a slice gets the
    /// geometry of a large disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mkfs_defaults: bool,
    /// Size of the large disk whose geometry slices get, and of the devices of file systems whose
    /// behaviour follows it.
    #[serde(default = "large_disk")]
    pub like_disk: Bytes,
    /// Traced blocks follow the measured ones, to explain differences.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Size of the image that a medium is made of; suites scale with it.
    pub size: Bytes,
    /// The factor that sizes of files, the image and the memory limit were multiplied with. The
    /// plan holds the products.
    #[serde(default = "full_scale", skip_serializing_if = "is_full_scale")]
    pub scale: f64,
    /// The directory of images.
    pub dir: PathBuf,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// Block devices whose content the user allowed to be destroyed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wipe: Vec<PathBuf>,
    /// The user that the workers run as.
    #[serde(default)]
    pub identity: Identity,
    /// The place where the plan runs.
    #[serde(default, rename = "in", skip_serializing_if = "Place::is_host")]
    pub place: Place,
    /// Kernels of the virtual machine, as the user named them. If empty, it is the machine's own
    /// kernel or the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// The virtual machine, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmSize>,
    /// A directory of this machine that commands in the virtual machine see as their root,
    /// read-only. Absent if no command runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
}

fn large_disk() -> Bytes {
    Bytes(LARGE_DISK)
}

impl Plan {
    /// Returns whether two plans request the same measurements; seeds and lengths of budgets may
    /// differ. A race requests others each time.
    pub fn requests_the_same(&self, other: &Plan) -> bool {
        self.race.is_none()
            && other.race.is_none()
            && self.targets == other.targets
            && self.workloads == other.workloads
            && self.controls == other.controls
            && discriminant(&self.repetition) == discriminant(&other.repetition)
            && match (serde_json::to_value(self), serde_json::to_value(other)) {
                (Ok(one), Ok(other)) => setting::same_work(&one, &other),
                _ => false,
            }
    }

    /// Returns the plan with the values that `settings` gives, and with the defaults of settings
    /// that it does not give. Values that the resolver computes from several settings stay.
    ///
    /// # Errors
    ///
    /// The plan cannot hold a value.
    pub fn with_settings(&self, settings: &Settings) -> Result<Plan, serde_json::Error> {
        let mut stored = serde_json::to_value(self)?;
        settings.store(&mut stored);
        serde_json::from_value(stored)
    }

    /// Returns the settings of a plan file that resolve to the values of this plan.
    ///
    /// # Errors
    ///
    /// The plan is not JSON.
    pub fn settings(&self) -> Result<Settings, serde_json::Error> {
        Ok(Settings::from_stored(&serde_json::to_value(self)?))
    }

    /// Returns the number of targets in a block: all of them, or as many as a race round has slots.
    pub fn at_once(&self) -> usize {
        let places = self
            .race
            .as_ref()
            .map_or(usize::MAX, |race| race.places as usize);
        self.targets.len().min(places)
    }

    /// Returns the limits of the processes of all backgrounds.
    pub fn background_limits(&self) -> impl Iterator<Item = BackgroundLimit> {
        self.workloads
            .iter()
            .filter_map(|workload| workload.background.as_ref()?.limit?.of_processes())
    }

    /// Returns the seconds that the workload, or else the plan, asks a sample to last.
    pub fn sample_time_of(&self, workload: &WorkloadSpec) -> Option<f64> {
        self.held(workload)
            .or_else(|| workload.sample_time.map(|sample_time| sample_time.0))
            .or(self.sample_time)
    }

    /// Returns the least seconds of a workload that continues until a journal was written, or
    /// `None` for other workloads.
    pub fn held(&self, workload: &WorkloadSpec) -> Option<f64> {
        workload.sustain.map(|_| {
            workload
                .sample_time
                .map_or(SUSTAINED, |sample_time| sample_time.0)
        })
    }
}

/// The user that workers run as.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Identity {
    /// `--uid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// `--gid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// `--force-root-user`.
    #[serde(default)]
    pub force_root: bool,
}

// A race: it chooses one of many targets, and measures a few of them in each round.

/// The parameters of a race. The plan's targets are the candidates. The first one is the baseline,
/// which is in every race round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Race {
    /// The maximum number of targets of a race round, the baseline included. All of them are ready
    /// at the same time.
    pub places: u32,
    /// The probability with which the answer may be worse than the best by more than the plan's θ.
    pub error: f64,
    /// Descriptions of the targets, in their order.
    pub candidates: Vec<Candidate>,
    /// Candidates that this kernel or the tools refuse, with the reasons. They are not raced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Race rounds of the first stage, which are fixed beforehand, as places of their targets in
    /// the plan. The effects of options are estimated from these rounds alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_stage: Vec<Vec<u32>>,
    /// The options whose effects are estimated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
}

/// The description of a candidate, besides its target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Candidate {
    /// The reason why it may be faster, or a description.
    pub why: String,
    /// The data that may be lost with it; absent if it keeps all data that the defaults keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// A candidate that was not raced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// The target's name.
    pub name: String,
    /// The tool or kernel that refused it, and the reason.
    pub why: String,
}

/// An option whose effect is estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Factor {
    /// The option as it is written after the file system's name.
    pub option: String,
    /// Places in the plan of the targets that have it, among those of the first stage.
    pub with: Vec<u32>,
    /// Places of the targets of the first stage that do not have it.
    pub without: Vec<u32>,
}
