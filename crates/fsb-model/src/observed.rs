//! The observations of a trial besides its metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::storage::Promise;
use crate::timeline::Sustained;
use crate::traced::Traced;

/// The observations of a trial: the evidence for its validity, and what it cost. A field is absent
/// where nothing was observed.
///
/// Fields of newer minor versions are kept as found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Observed {
    /// Bytes of the workload's files that were in memory before the clock started, as far as they
    /// were examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes_before: Option<u64>,
    /// Bytes of the workload's files that were in memory after the clock stopped, as far as they
    /// were examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes_after: Option<u64>,
    /// Seconds that reading the clock takes, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_cost_seconds: Option<f64>,
    /// Bytes that the device read inside the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_read_bytes: Option<u64>,
    /// Bytes that the device wrote inside the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_write_bytes: Option<u64>,
    /// Bytes that the device wrote inside the clock to holes of the sparse image under it, which an
    /// earlier write had not filled. Absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hole_bytes: Option<u64>,
    /// Flushes that the device served inside the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_flushes: Option<u64>,
    /// The remote procedure calls of the NFS client inside the clock; absent for other targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpcs: Option<Rpcs>,
    /// CPU seconds of the processes of the target's FUSE server inside the clock; absent for other
    /// targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_seconds: Option<f64>,
    /// The most bytes of memory that these processes had at the end of a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_memory_bytes: Option<u64>,
    /// The properties of direct or uncached I/O on the target, for workloads that request it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<Direct>,
    /// The promises of the case's name that the target has not been shown to keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Promise>,
    /// CPU seconds of all processes of the machine inside the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cpu_seconds: Option<f64>,
    /// CPU seconds of the worker in user mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_seconds: Option<f64>,
    /// CPU seconds of the worker in the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_seconds: Option<f64>,
    /// Whether the target was idle each time the clock started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<bool>,
    /// Seconds until the target was idle, all repetitions together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiesce_seconds: Option<f64>,
    /// Parts of the worker's confinement that the kernel refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfined: Vec<String>,
    /// Seconds of each phase of the trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent_seconds: Option<Spent>,
    /// Work that the target did after the clock stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Deferred>,
    /// Repetitions or rounds that the time limit did not allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions_left_out: Option<u32>,
    /// Rounds in which this target moved data during a sample of another target. Such a round was
    /// retried if a spare one was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds_not_idle: Option<u32>,
    /// The end of what a command printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The result of a trial that continued until its target was in a steady state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Sustained>,
    /// The work of the background of the case; absent for a case that is measured alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundWork>,
    /// Numbers that the workload counted, by name: `files_created`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// The effect of the memory limit; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<MemoryUse>,
    /// Counters of possible interference between start and result, by name, in base units.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub watched: BTreeMap<String, f64>,
    /// Mount options in effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
    /// The observed values of the requested controls of the target, by name; those of the run are
    /// in the run's record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, String>,
    /// Seconds per iteration, one value a measured cycle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seconds_per_iteration: Vec<f64>,
    /// Start and end of each cycle, warm-up cycles first, in nanoseconds of the monotonic clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycle_spans_ns: Vec<[u64; 2]>,
    /// The time of worker threads by kernel stack; only in a traced trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traced: Option<Box<Traced>>,
    /// The moments at which the ranks of an MPI job left the barrier before the clock started;
    /// absent for other trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barrier: Option<BarrierSkew>,
    /// Fields of newer minor versions, kept as found.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The distribution of the times between the first rank that left a barrier and each other rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarrierSkew {
    /// Seconds until half of the ranks had left it.
    pub median_seconds: f64,
    /// Seconds until nine of ten ranks had left it.
    pub p90_seconds: f64,
    /// Seconds until the last rank had left it.
    pub longest_seconds: f64,
    /// The largest error of the clock of another host, in seconds; 0 if all ranks were on one host.
    pub clock_error_seconds: f64,
}

/// The properties of direct or uncached I/O at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Direct {
    /// The number of bytes of which offsets and lengths must be multiples; absent where the kernel
    /// does not report it.
    pub alignment: Option<u32>,
    /// Whether data goes to the page cache all the same, or stays in it after uncached I/O; absent
    /// where it is unknown before the work.
    pub buffered: Option<bool>,
}

/// The work of a background: from its start, a second before each sample, until the sample has
/// ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BackgroundWork {
    /// Operations that ended. A command counts each run that ended by itself.
    pub operations: u64,
    /// Bytes moved; 0 for a command.
    pub bytes: u64,
    /// Seconds in which the background ran, the sum over all samples.
    pub seconds: f64,
    /// CPU seconds of the background's processes; 0 for an operation that the agent performs, such
    /// as `snapshot-delete`.
    pub cpu_seconds: f64,
    /// Operations that ended while the background ran without the case, once before each trial.
    pub alone_operations: u64,
    /// Bytes moved while the background ran without the case.
    pub alone_bytes: u64,
    /// Seconds in which the background ran without the case; 0 if it did not.
    pub alone_seconds: f64,
}

impl BackgroundWork {
    /// Returns work beside a case as work without one.
    pub fn into_alone(self) -> BackgroundWork {
        let BackgroundWork {
            operations,
            bytes,
            seconds,
            ..
        } = self;
        BackgroundWork {
            alone_operations: operations,
            alone_bytes: bytes,
            alone_seconds: seconds,
            ..BackgroundWork::default()
        }
    }

    /// Adds the work of another run.
    pub fn add(&mut self, other: &BackgroundWork) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        self.alone_operations += other.alone_operations;
        self.alone_bytes += other.alone_bytes;
        self.alone_seconds += other.alone_seconds;
    }
}

/// The remote procedure calls of an NFS client, as its kernel counts them (mountstats). Each call
/// is one round trip.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rpcs {
    /// Calls that ended.
    pub calls: u64,
    /// Transmissions beyond one for each call.
    pub retransmissions: u64,
    /// Bytes of the calls, without the headers of TCP and IP.
    pub sent_bytes: u64,
    /// Bytes of the replies, without the headers of TCP and IP.
    pub received_bytes: u64,
    /// Bytes of the replies to READ.
    pub read_bytes: u64,
    /// Calls by procedure, as mountstats names them. NFS 4 sends several operations in one call,
    /// which has the name of the main one.
    pub procedures: BTreeMap<String, u64>,
}

impl Rpcs {
    /// Returns the calls since an earlier reading of the same counters.
    pub fn since(&self, earlier: &Rpcs) -> Rpcs {
        let procedures = self.procedures.iter().map(|(name, calls)| {
            (
                name.clone(),
                calls.saturating_sub(earlier.procedures.get(name).copied().unwrap_or(0)),
            )
        });
        Rpcs {
            calls: self.calls.saturating_sub(earlier.calls),
            retransmissions: self.retransmissions.saturating_sub(earlier.retransmissions),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            procedures: procedures.filter(|(_, calls)| *calls > 0).collect(),
        }
    }

    /// Adds the calls of another sample.
    pub fn add(&mut self, more: &Rpcs) {
        self.calls += more.calls;
        self.retransmissions += more.retransmissions;
        self.sent_bytes += more.sent_bytes;
        self.received_bytes += more.received_bytes;
        self.read_bytes += more.read_bytes;
        for (name, calls) in &more.procedures {
            *self.procedures.entry(name.clone()).or_default() += calls;
        }
    }
}

/// The effect of a memory limit during a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MemoryUse {
    /// The mechanism: `cgroup v1`, `cgroup v2` or `locked memory`. Results of different mechanisms
    /// are not compared.
    pub mechanism: String,
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// The largest use in bytes; absent where it is not counted.
    pub peak_bytes: Option<u64>,
    /// Bytes of page cache that are charged to the limit.
    pub cache_bytes: Option<u64>,
    /// Whether the limit was reached; absent where it is not counted.
    pub reached: Option<bool>,
    /// The number of processes that the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
}

/// Work that a target did after the clock stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deferred {
    /// Operations that deferred it.
    pub operations: u64,
    /// Bytes that the device wrote.
    pub bytes: u64,
    /// Flushes that the device served.
    pub flushes: u64,
    /// Seconds beyond those that the same calls take on an idle target.
    pub seconds: f64,
}

impl Deferred {
    /// Returns bytes, flushes and seconds per operation, or `None` if no operation deferred work.
    pub fn per_operation(&self) -> Option<[f64; 3]> {
        (self.operations > 0).then(|| {
            [self.bytes as f64, self.flushes as f64, self.seconds]
                .map(|amount| amount / self.operations as f64)
        })
    }
}

/// Seconds of each phase of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spent {
    /// Preparing, all repetitions together.
    pub prepare: f64,
    /// Remounting, quiescing, starting workers, warming up.
    pub set_up: f64,
    /// Between start and result.
    pub measure: f64,
    /// Removing what was made.
    pub cleanup: f64,
}

impl Spent {
    /// Returns the sum of all phases.
    pub fn total(&self) -> f64 {
        self.prepare + self.set_up + self.measure + self.cleanup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_sample_are_a_difference_and_samples_add_up() {
        let rpcs = |calls, read| Rpcs {
            calls,
            sent_bytes: 100 * calls,
            read_bytes: read,
            procedures: [("READ".to_owned(), calls), ("OPEN".to_owned(), 1)].into(),
            ..Rpcs::default()
        };
        let mut sample = rpcs(7, 4096).since(&rpcs(5, 1024));
        assert_eq!(
            (sample.calls, sample.sent_bytes, sample.read_bytes),
            (2, 200, 3072)
        );
        assert_eq!(sample.procedures, [("READ".to_owned(), 2)].into());
        sample.add(&rpcs(1, 1));
        assert_eq!(
            (
                sample.calls,
                sample.procedures["READ"],
                sample.procedures["OPEN"]
            ),
            (3, 3, 1)
        );
    }
}
