//! Metrics: named quantities with a unit and a direction.

use serde::{Deserialize, Serialize};

use crate::units;

/// The direction in which the metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better: rates.
    Higher,
    /// Less is better: times and costs.
    Lower,
}

/// A base unit. [`Unit::show`] converts values to units for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes moved in a second.
    BytesPerSecond,
    /// Operations finished in a second.
    OperationsPerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
}

impl Unit {
    /// Returns the name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::OperationsPerSecond => "operations_per_second",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
        }
    }

    /// Returns the value as people read it: `412 MiB/s`, `61.3 kop/s`, `12.0 ms`.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BytesPerSecond => format!("{}/s", units::show_bytes(value)),
            Unit::OperationsPerSecond => units::show_rate(value),
            Unit::Seconds => units::show_seconds(value),
            Unit::Bytes => units::show_bytes(value),
            // Means of counts have decimals.
            Unit::Count if value >= 0.0 && value.fract() == 0.0 => units::show_whole(value as u64),
            Unit::Count => units::show_count(value),
        }
    }
}

/// The role of a metric, which decides where it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The speed that targets are compared by.
    Rate,
    /// A percentile or mean of the time of one operation.
    Latency,
    /// A cost besides time.
    Cost,
}

/// A member of the registry of metrics.
#[derive(Debug)]
pub struct MetricKind {
    /// The name in records and tables.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The direction in which the metric improves.
    pub better: Better,
    /// The role.
    pub role: Role,
    /// One line for `fsb list metrics`.
    pub about: &'static str,
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $unit:ident, $better:ident, $role:ident, $about:literal;)*) => {
        $(#[doc = $about]
        pub const $constant: MetricKind = MetricKind {
            name: $name, unit: Unit::$unit, better: Better::$better, role: Role::$role, about: $about,
        };)*
        /// Every metric that fsb records itself.
        pub static REGISTRY: &[MetricKind] = &[$($constant),*];
    };
}

metrics! {
    THROUGHPUT = "throughput", BytesPerSecond, Higher, Rate, "Bytes moved by the workload, per second of the timed samples.";
    OPERATION_RATE = "operation_rate", OperationsPerSecond, Higher, Rate, "Operations finished, per second of the timed samples.";
    ITERATION_TIME = "iteration_time", Seconds, Lower, Rate, "Mean time of one iteration of the 2023 micro-benchmark.";
    COMMAND_TIME = "command_time", Seconds, Lower, Rate, "Time of one run of a command, until its work is durable, where it is.";
    REPLAY_TIME = "replay_time", Seconds, Lower, Rate, "Time of one replay of a trace, from its first call to its last one, with the syncs that were recorded.";
    TREE_TIME = "tree_time", Seconds, Lower, Rate, "Time of one pass over a tree of files, from the first call until all of it is durable, where it is.";
    MAINTENANCE_TIME = "maintenance_time", Seconds, Lower, Rate, "Time of one operation on a whole file system: a check, a freeze and a thaw, a snapshot.";
    STONEWALL_RATE = "stonewall_rate", BytesPerSecond, Higher, Rate, "Bytes moved by all workers, per second, until \
        the first of them finished.";
    WORKER_RATE_MIN = "worker_rate_min", BytesPerSecond, Higher, Rate, "Bytes per second of the slowest worker, over its own time.";
    WORKER_RATE_MEAN = "worker_rate_mean", BytesPerSecond, Higher, Rate, "Mean of the workers' bytes per second, each over its own time.";
    WORKER_RATE_MAX = "worker_rate_max", BytesPerSecond, Higher, Rate, "Bytes per second of the fastest worker, over its own time.";
    STONEWALL_OPERATION_RATE = "stonewall_operation_rate", OperationsPerSecond, Higher, Rate, "Operations of all workers, \
        per second, until the first of them finished.";
    WORKER_OPERATION_RATE_MIN = "worker_operation_rate_min", OperationsPerSecond, Higher, Rate, "Operations per second of the slowest worker, over its own time.";
    WORKER_OPERATION_RATE_MEAN = "worker_operation_rate_mean", OperationsPerSecond, Higher, Rate, "Mean of the workers' operations per second, each over its own time.";
    WORKER_OPERATION_RATE_MAX = "worker_operation_rate_max", OperationsPerSecond, Higher, Rate, "Operations per second of the fastest worker, over its own time.";
    READ_RATE = "read_rate", BytesPerSecond, Higher, Rate, "Bytes read, per second of a whole run of PostMark: \
        creation, transactions, deletion.";
    WRITE_RATE = "write_rate", BytesPerSecond, Higher, Rate, "Bytes written, per second of a whole run of PostMark.";
    CREATE_RATE = "create_rate", OperationsPerSecond, Higher, Rate, "Files created, per second of a whole run of \
        PostMark.";
    DELETE_RATE = "delete_rate", OperationsPerSecond, Higher, Rate, "Files deleted, per second of a whole run of \
        PostMark.";
    CREATE_ALONE_RATE = "create_alone_rate", OperationsPerSecond, Higher, Rate, "Files created before the \
        transactions of PostMark, per second of creation.";
    DELETE_ALONE_RATE = "delete_alone_rate", OperationsPerSecond, Higher, Rate, "Files deleted after the transactions \
        of PostMark, per second of deletion.";
    UNPACK_RATE = "unpack_rate", OperationsPerSecond, Higher, Rate, "Files, directories and links unpacked, per second until they are durable, where they are.";
    STAT_RATE = "stat_rate", OperationsPerSecond, Higher, Rate, "Entries of a tree listed and asked for their attributes, per second.";
    READ_FILES_RATE = "read_files_rate", OperationsPerSecond, Higher, Rate, "Files of a tree opened, read and closed, per second.";
    COMPILE_RATE = "compile_rate", OperationsPerSecond, Higher, Rate, "Sources of a tree compiled, per second: a \
        measure of the processor.";
    REMOVE_RATE = "remove_rate", OperationsPerSecond, Higher, Rate, "Entries of a tree removed, per second until that is durable, where it is.";
    BEFORE_STEADY = "before_steady", Count, Higher, Cost, "The rate before the journal had been written for the first time, over that of the steady state.";
    STEADY_DRIFT = "steady_drift", Count, Higher, Cost, "The rate of the later half of the steady part over that of its first half: 1 is steady.";
    JOURNAL_TURNS = "journal_turns", Count, Higher, Cost, "Number of times that the journal was written from end to \
        end during the sample.";
    LATENCY_MEAN = "latency_mean", Seconds, Lower, Latency, "Mean time of one operation.";
    LATENCY_P50 = "latency_p50", Seconds, Lower, Latency, "Median time of one operation.";
    LATENCY_P90 = "latency_p90", Seconds, Lower, Latency, "Time within which nine of ten operations finished.";
    LATENCY_P99 = "latency_p99", Seconds, Lower, Latency, "Time within which 99 of 100 operations finished.";
    LATENCY_P999 = "latency_p999", Seconds, Lower, Latency, "Time within which 999 of 1000 operations finished.";
    LATENCY_MAX = "latency_max", Seconds, Lower, Latency, "Time of the longest operation: the longest stall that a program saw.";
    CPU_PER_OPERATION = "cpu_per_operation", Seconds, Lower, Cost, "CPU seconds of the worker, and of the FUSE server if the target has one, user and system, per operation.";
    SERVER_CPU_PER_OPERATION = "server_cpu_per_operation", Seconds, Lower, Cost, "CPU seconds of the processes of the FUSE server, per operation.";
    SERVER_MEMORY = "server_memory", Bytes, Lower, Cost, "The most bytes of memory that the processes of the FUSE server had at the end of a sample.";
    DEVICE_BYTES_PER_OPERATION = "device_bytes_per_operation", Bytes, Lower, Cost, "Bytes that the device read and wrote, per operation.";
    DEFERRED_BYTES_PER_OPERATION = "deferred_bytes_per_operation", Bytes, Lower, Cost, "Bytes of deferred work: what the device wrote from the end of the sample until the target was idle, per operation.";
    DEFERRED_FLUSHES_PER_OPERATION = "deferred_flushes_per_operation", Count, Lower, Cost, "Cache flushes of deferred work: those from the end of the sample until the target was idle, per operation.";
    DEFERRED_TIME_PER_OPERATION = "deferred_time_per_operation", Seconds, Lower, Cost, "Seconds of deferred work: from the end of the sample until the target was idle, per operation, beyond those that the same calls take on an idle target.";
    THROUGHPUT_WITH_DEFERRED = "throughput_with_deferred", BytesPerSecond, Higher, Rate, "Bytes moved, per second until the target was idle.";
    OPERATION_RATE_WITH_DEFERRED = "operation_rate_with_deferred", OperationsPerSecond, Higher, Rate, "Operations finished, per second until the target was idle.";
    TREE_TIME_WITH_DEFERRED = "tree_time_with_deferred", Seconds, Lower, Rate, "Time of one pass over a tree of files until the target was idle.";
    SHARE_OF_DEVICE = "share_of_device", Count, Higher, Cost, "The rate as a share of the raw device's rate with one \
        request at a time, measured just before formatting: 1 is as fast.";
    WRITE_AMPLIFICATION = "write_amplification", Count, Lower, Cost, "Bytes the device wrote, deferred work included, \
        for each byte written.";
    EXTENTS_PER_FILE = "extents_per_file", Count, Lower, Cost, "Extents of the files that were read, for each file: 1 without \
        fragmentation.";
    PEAK_MEMORY = "peak_memory", Bytes, Lower, Cost, "Bytes of memory that the largest process of a command had.";
    FAILED_RUNS = "failed_runs", Count, Lower, Cost, "Runs of a command that ended with another exit code than 0, where such codes are permitted.";
    SHELL_START = "shell_start", Seconds, Lower, Cost, "Time of the shell that runs a command in this directory, on a line that does nothing: the least of all samples.";
    SPACE = "space", Bytes, Lower, Cost, "Bytes that all files of the workload occupy after writeback: the free space \
        of the empty file system less the free space with them.";
    RPCS_PER_OPERATION = "rpcs_per_operation", Count, Lower, Cost, "Remote procedure calls of the NFS client, per operation: each is one round trip to the server.";
    WIRE_BYTES_PER_OPERATION = "wire_bytes_per_operation", Bytes, Lower, Cost, "Bytes of the NFS client's calls and of their replies, without the headers of TCP and IP, per operation.";
    DEVICE_FLUSHES_PER_OPERATION = "device_flushes_per_operation", Count, Lower, Cost, "Cache flushes that the device served, per operation.";
}

/// The suffix of the name of a rate that includes deferred work, up to the time when the target is
/// idle. Before it is the name of the same rate inside the clock.
pub const WITH_DEFERRED: &str = "_with_deferred";

/// A measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// The name, usually one of [`REGISTRY`].
    pub name: String,
    /// The value in base units.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    /// The direction in which the metric improves.
    pub better: Better,
}

impl MetricKind {
    /// Returns a value of this kind.
    pub fn metric(&self, value: f64) -> Metric {
        Metric {
            name: self.name.to_owned(),
            value,
            unit: self.unit,
            better: self.better,
        }
    }
}

/// Returns the registered kind of that name, or `None`.
pub fn find(name: &str) -> Option<&'static MetricKind> {
    REGISTRY.iter().find(|kind| kind.name == name)
}

/// Returns the least, the mean and the greatest of rates, none of which is negative. The mean of
/// none is not a number.
pub fn spread(rates: &[f64]) -> [f64; 3] {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = rates.iter().copied().fold(0.0, f64::max);
    [
        least,
        rates.iter().sum::<f64>() / rates.len() as f64,
        greatest,
    ]
}

/// Returns whether a metric is a time of one operation, also one that only its tool knows.
pub fn is_latency(name: &str) -> bool {
    find(name).map_or(name.contains("latency"), |kind| kind.role == Role::Latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_described() {
        for (index, kind) in REGISTRY.iter().enumerate() {
            assert!(
                !kind.about.is_empty() && !kind.about.contains('\n'),
                "{}",
                kind.name
            );
            assert!(
                REGISTRY[..index]
                    .iter()
                    .all(|other| other.name != kind.name),
                "{}",
                kind.name
            );
            let json = serde_json::to_string(&kind.metric(1.5)).unwrap();
            assert_eq!(
                serde_json::from_str::<Metric>(&json).unwrap(),
                kind.metric(1.5)
            );
            assert!(json.contains(kind.unit.name()));
        }
    }
}
