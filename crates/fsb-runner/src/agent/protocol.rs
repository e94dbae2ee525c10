//! The protocol of runner and agent: versioned JSON lines.
//!
//! The runner sends one request at a time, and the agent answers with any number of progress lines
//! and one answer. The first request is `hello`. If the versions differ, two binaries are mixed,
//! and the conversation ends.

use std::collections::BTreeMap;
use std::time::Duration;

use fsb_engine::{Measurement, Sizing};
use fsb_model::observed::{Deferred, Observed, Rpcs, Spent};
use fsb_model::timeline::{Sustained, Timeline};
use fsb_model::trial::{Reason, Samples};
use fsb_model::{Amount, Interference, Outcome, Target, WorkloadSpec};
use fsb_testbed::{Opened, Progress, Provisioned, ServerUse, Setup, TestbedError};
use serde::{Deserialize, Serialize};

use crate::planner;

/// The version of the protocol that this program speaks.
pub const VERSION: u32 = 2;

/// A request of the runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRequest {
    /// Always first.
    Hello {
        /// [`VERSION`] of the runner.
        version: u32,
    },
    /// Make the media and set the controls of the run.
    Open(Box<Setup>),
    /// Make a target ready.
    Provision {
        /// The slot that it gets.
        slot: u32,
        /// The slice of the medium that it gets.
        slice: u32,
        /// The target.
        target: Box<Target>,
    },
    /// Measure a cell on targets that are ready.
    Measure(Box<MeasureRequest>),
    /// End the cell that is measured early, with the samples so far. It has no reply of its own.
    Stop,
    /// Tear down the target of a slot.
    Release(u32),
    /// Undo everything and end.
    Close,
}

/// The time that a budget leaves for a request, from the moment that the agent reads the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimit {
    /// No further repetition or round begins after it. The first one always does.
    pub repeat: Duration,
    /// A worker that still prepares or measures after it is killed.
    pub work: Duration,
    /// The agent waits no longer than this for the target to become idle.
    pub idle: Duration,
}

/// A cell to measure on targets that are ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeasureRequest {
    /// The targets, by their slots. A whole has one.
    pub slots: Vec<SlotTrial>,
    /// The workload, resolved; in rounds, that of a unit.
    pub workload: WorkloadSpec,
    /// The slot of the target that the background runs on; absent if that is the target of the
    /// case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_slot: Option<u32>,
    /// The base of its relative sizes.
    pub sizing: Sizing,
    /// The way in which samples are taken.
    pub method: Method,
    /// The run's seed with the block mixed in: data and offsets differ between blocks, not between
    /// targets.
    pub seed: u64,
    /// The attempt, from 1; 0 in the warm-up of a case in rounds. A trial is retried after
    /// interference.
    pub attempt: u32,
    /// eBPF programs observe the samples.
    #[serde(default)]
    pub trace: bool,
    /// The time after which a silent worker is killed.
    pub deadline: Duration,
    /// The time that the budget leaves; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<TimeLimit>,
}

/// The way in which samples are taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The whole workload on one target, while all others are idle.
    SequentialTrial {
        /// The amount of work.
        amount: Amount,
        /// Seconds after which a repetition ends early. Warm-up uses it to find out the amount of
        /// work.
        until_seconds: Option<f64>,
        /// The number of times that the target's journal is to be written in a sample of the steady
        /// state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sustain: Option<f64>,
    },
    /// Rounds of short samples on all targets, each of some units of the workload.
    Rounds {
        /// Each unit has files of its own.
        own_files: bool,
        /// Each round uses the same units again, because caches are emptied between rounds.
        reuse_files: bool,
        /// Operations of a unit.
        operations: u64,
        /// Units of a sample.
        units: u32,
        /// The order of slots in each round.
        orders: Vec<Vec<u32>>,
        /// The first round leads in: it has one unit and does not count.
        lead_in: bool,
        /// Seconds after which no further round begins; absent if all rounds are made.
        until_seconds: Option<f64>,
        /// Rounds that may be repeated because a neighbour was not idle.
        spares: u32,
    },
}

impl MeasureRequest {
    /// Returns the number of units whose files are made.
    pub fn units_made(&self) -> u32 {
        match &self.method {
            Method::SequentialTrial { .. } => 1,
            Method::Rounds {
                reuse_files,
                orders,
                lead_in,
                spares,
                units,
                ..
            } => planner::sets(
                *reuse_files,
                orders.len() as u32 - u32::from(*lead_in),
                *spares,
                *units,
            ),
        }
    }

    /// Returns the longest silence of an agent that measures this. Each step of each target has the
    /// worker's deadline, and between repetitions the agent needs a remount.
    pub fn silence(&self) -> Duration {
        let steps = match &self.method {
            Method::SequentialTrial { amount, .. } => 3 * amount.repetitions.max(1) + 2,
            Method::Rounds { orders, spares, .. } => orders.len() as u32 + spares + 3,
        };
        self.deadline * steps * self.slots.len().max(1) as u32
    }
}

/// One target's trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotTrial {
    /// The slot of the target.
    pub slot: u32,
    /// A seed that differs between all trials, for the fake clock of the null file system.
    pub trial_seed: u64,
    /// The text that replaces `{}` in the commands of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A message of the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Greeting.
    Hello {
        /// [`VERSION`] of the agent.
        version: u32,
    },
    /// Progress before the answer.
    Progress(Progress),
    /// The media are made.
    Opened(Box<Opened>),
    /// The target is ready.
    Provisioned(Box<Provisioned>),
    /// The results of the trials, by slot.
    Measured(Vec<(u32, TrialReply)>),
    /// Done.
    Done,
    /// The request failed.
    Failed(TestbedError),
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReply {
    /// Whether it has values.
    pub outcome: Outcome,
    /// The reason why it did not end well.
    pub reason: Option<Reason>,
    /// The measured values; absent if nothing was run.
    pub measured: Option<Measured>,
    /// The observations besides the measured values.
    pub observed: Observed,
    /// The interference with it.
    pub interference: Vec<Interference>,
    /// The samples of a trial in rounds.
    #[serde(default)]
    pub samples: Samples,
    /// Seconds of its steps, for the planner.
    pub spent: Spent,
    /// The target is gone (a remount failed), so nothing more can run on it in this block.
    pub target_lost: bool,
    /// The budget ended before the trial did.
    #[serde(default)]
    pub out_of_time: bool,
}

/// The longest time that a reply may report for one trial: three years.
const LONGEST_SECONDS: f64 = 1e8;

impl TrialReply {
    /// Returns whether all times are possible ones. A hostile guest can report any number, and
    /// estimates add them up.
    pub(crate) fn has_possible_times(&self) -> bool {
        let Spent {
            prepare,
            set_up,
            measure,
            cleanup,
        } = self.spent;
        let longest_ns = (LONGEST_SECONDS * 1e9) as u64;
        let in_range = |times: &[u64]| {
            let sum = times.iter().try_fold(0u64, |sum, ns| sum.checked_add(*ns));
            sum.is_some_and(|sum| sum <= longest_ns)
        };
        let timed = self
            .measured
            .as_ref()
            .map_or(0, |measured| measured.work.timed_ns);
        [prepare, set_up, measure, cleanup]
            .iter()
            .all(|seconds| (0.0..=LONGEST_SECONDS).contains(seconds))
            && in_range(&[timed])
            && in_range(&self.samples.timed_ns)
            && in_range(&self.samples.unit_ns)
    }
}

/// The sums over all repetitions of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The sums of the measurements. Timelines and printed numbers are below, one a repetition.
    pub work: Measurement,
    /// Bytes read and written by the device; `None` if it has no counters.
    pub device_bytes: Option<u64>,
    /// Flushes served by the device; `None` if it has no counters.
    pub device_flushes: Option<u64>,
    /// Bytes written by the device; `None` if it has no counters.
    #[serde(default)]
    pub device_written: Option<u64>,
    /// The remote procedure calls of the NFS client; absent for other targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpcs: Option<Rpcs>,
    /// CPU seconds and memory of the FUSE server; absent for other targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// Bytes that the workload's files took of the file system; absent if the file system is not
    /// the target's own, or if they took none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<u64>,
    /// The deferred work; absent if nothing was written, or if the device is not the target's own.
    #[serde(default)]
    pub deferred: Option<Deferred>,
    /// The timeline of each repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Numbers that a command printed, by name: one each repetition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub printed: BTreeMap<String, Vec<f64>>,
    /// The steady state of the last repetition, if the plan asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Sustained>,
}
