//! A plan: targets × suite × controls × repetition, as data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::place::{Place, VmSize};
use crate::race::Race;
use crate::target::Target;
use crate::units::Bytes;
use crate::workload::WorkloadSpec;

/// Fewer blocks than this are described, not judged.
pub const FEWEST_BLOCKS_JUDGED: u32 = 5;
/// More blocks than this are not made by `--budget` alone.
pub const MOST_BLOCKS: u32 = 30;
/// More blocks than this cannot be asked for.
pub const BLOCK_LIMIT: u32 = 10_000;

/// Seconds that work lasts at least which is held until a journal was written: two commits of those that commit every five.
pub const SUSTAINED: f64 = 10.0;

/// Seconds that the timed part of a visit should last where something reaches the device: the first tenths of a second
/// of durable writes run at half speed.
pub const VISIT: f64 = 2.0;

fn full_scale() -> f64 {
    1.0
}

fn is_full_scale(scale: &f64) -> bool {
    *scale == 1.0
}

/// How many blocks a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// As many blocks as fit the time, at most [`MOST_BLOCKS`].
    Budget {
        /// Seconds for the whole run.
        seconds: f64,
    },
    /// Exactly this number, unless the time ends before.
    Blocks {
        /// The number of measured blocks.
        blocks: u32,
        /// Seconds for the whole run; absent without a bound.
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
    /// The time the run may take, where it is limited.
    pub fn budget(&self) -> Option<Duration> {
        match *self {
            Repetition::Budget { seconds } | Repetition::Precision { seconds, .. } => {
                Some(Duration::from_secs_f64(seconds))
            }
            Repetition::Blocks { seconds, .. } => seconds.map(Duration::from_secs_f64),
        }
    }
}

/// Everything that decides what a run does, resolved: nothing here depends on defaults any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The name of the suite, or of the plan file.
    pub name: String,
    /// What is compared, first the one that others are compared with.
    pub targets: Vec<Target>,
    /// What is done.
    pub workloads: Vec<WorkloadSpec>,
    /// Controls that were asked for, by name.
    #[serde(default)]
    pub controls: BTreeMap<String, String>,
    /// How often.
    pub repetition: Repetition,
    /// Seconds that a timed stretch should last: of a second or more, everything is measured in visits instead of in
    /// rounds. Absent where that is not said: [`VISIT`] for visits where something reaches the device, and shorter ones
    /// for rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<f64>,
    /// Decides the order of everything and every byte of data.
    pub seed: u64,
    /// Targets take turns on the whole medium, though they could be measured side by side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_at_a_time: bool,
    /// One of the targets is to be chosen; absent where all are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<Race>,
    /// Targets that weaken durability may win against targets that do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub risky: bool,
    /// Every mkfs program chooses the geometry by the size of its slice; otherwise a slice gets the geometry of a large
    /// disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mkfs_defaults: bool,
    /// Size of the image that a medium is made of; suites scale with it.
    pub size: Bytes,
    /// What sizes of files, the image and the memory limit were multiplied with; they stand here as they are then.
    #[serde(default = "full_scale", skip_serializing_if = "is_full_scale")]
    pub scale: f64,
    /// Where images live.
    pub dir: PathBuf,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// Block devices whose content the user gave up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wipe: Vec<PathBuf>,
    /// Whom the workers run as.
    #[serde(default)]
    pub identity: Identity,
    /// Where it is carried out.
    #[serde(default, rename = "in", skip_serializing_if = "Place::is_host")]
    pub place: Place,
    /// Kernels of the virtual machine, as they were named; the machine's own or the newest where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// The virtual machine, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmSize>,
    /// What commands see as their root in the virtual machine, read-only: a directory of this one. Absent where none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
}

impl Plan {
    /// Targets of a block: all of them, or as many as a heat of a race has places.
    pub fn at_once(&self) -> usize {
        let places = self.race.as_ref().map_or(usize::MAX, |race| race.places as usize);
        self.targets.len().min(places)
    }

    /// Seconds that a timed stretch of a workload was asked to last, by itself or by the plan.
    pub fn stretch_of(&self, workload: &WorkloadSpec) -> Option<f64> {
        self.held(workload).or_else(|| workload.stretch.map(|stretch| stretch.0)).or(self.stretch)
    }

    /// Seconds that a workload lasts at least which is held until a journal was written.
    pub fn held(&self, workload: &WorkloadSpec) -> Option<f64> {
        workload.sustain.map(|_| workload.stretch.map_or(SUSTAINED, |stretch| stretch.0))
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
