//! Conditions that the reader of a run must know, as data. `fsb-report` renders them as text.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::storage::StorageFlaw;

/// A condition of a run that its reader must know.
///
/// It is an object with the tag `kind` in `run.json`. A kind of a newer minor version is kept as
/// [`Warning::Unknown`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Other runs measured on the machine at the same time, so no case is judged.
    Concurrent {
        /// One of them: `process 7 (fsb run ext4)`.
        run: String,
        /// The number of others besides it.
        more: usize,
    },
    /// No lock is held, so another run of this user would not be noticed.
    NoLock {
        /// The reason for each place that was tried.
        reasons: Vec<String>,
    },
    /// The hypervisor may not back the virtual machine's free memory, so cases that allocate memory
    /// are not judged.
    UnbackedMemory {
        /// The cause.
        cause: UnbackedMemory,
    },
    /// The targets are on different media.
    DifferentMedia,
    /// The storage beneath a target makes names of cases false.
    Storage {
        /// The name of the target.
        target: String,
        /// The flaw of the storage.
        flaw: StorageFlaw,
    },
    /// A tmpfs may grow beyond the memory that is available.
    LargeTmpfs {
        /// Bytes that the tmpfs may hold.
        size: u64,
        /// Bytes of memory that are available.
        available: u64,
    },
    /// The run is in a container, so other containers share the machine.
    Container {
        /// The kind of container: `docker`.
        name: String,
    },
    /// An optional target is left out because this machine cannot make it.
    TargetUnavailable {
        /// The name of the target.
        target: String,
        /// The reason.
        reason: String,
    },
    /// A medium can discard, and mkfs and mount options keep discards out.
    DiscardKeptOut {
        /// The medium's text.
        medium: String,
    },
    /// A control did not take effect.
    ControlUnavailable {
        /// The control.
        control: String,
        /// The value that was requested.
        value: String,
        /// The reason.
        reason: String,
    },
    /// A control took effect only in part.
    ControlInexact {
        /// The control.
        control: String,
        /// The value that was requested.
        value: String,
        /// The value that was observed instead.
        observed: String,
    },
    /// A stopped service may be started again by another unit.
    ServiceMayRestart {
        /// The service.
        service: String,
        /// The unit that may start it.
        trigger: String,
    },
    /// The program slowed down a target on purpose, for calibration.
    InjectedSlowdown {
        /// The number of the target, from 1.
        target: u32,
        /// The share of its time that was added.
        share: f64,
    },
    /// Warm-up of these workloads alone took longer than the budget allows, so they are left out.
    TooLong {
        /// Labels of the workloads.
        workloads: Vec<String>,
        /// The budget in seconds.
        budget_seconds: f64,
    },
    /// The budget does not hold all workloads, so the last ones are left out.
    LeftOut {
        /// Labels of the workloads that are left out, in the plan's order.
        workloads: Vec<String>,
        /// The number of workloads that are measured.
        held: usize,
        /// The number of workloads in the plan.
        planned: usize,
        /// The budget in seconds.
        budget_seconds: f64,
        /// Seconds that would hold and judge all.
        needed_seconds: f64,
    },
    /// The budget does not hold all sizes of a matrix.
    SizesLeftOut {
        /// The number of pairs of a file size and a record size that are left out.
        left_out: usize,
        /// The number of pairs in the plan.
        planned: usize,
        /// File sizes in bytes that are left out.
        files: Vec<u64>,
        /// Record sizes in bytes that are left out.
        records: Vec<u64>,
        /// Seconds that would hold all.
        needed_seconds: f64,
    },
    /// The budget holds fewer blocks than can be judged.
    TooFewBlocks {
        /// The number of blocks that it holds.
        blocks: u32,
        /// The budget in seconds.
        budget_seconds: f64,
        /// Seconds that would be enough.
        needed_seconds: f64,
    },
    /// Making the directory of each run of a command takes longer than the command.
    LongPreparation {
        /// Label of the workload.
        workload: String,
        /// Seconds of making a directory, with `setup` and `prepare`: the mean of all targets.
        prepare_seconds: f64,
        /// Seconds of the command: the mean of all targets.
        command_seconds: f64,
    },
    /// A target, or the testbed, could not be torn down in the regular way.
    NotTakenDown {
        /// The name of the target; absent for the testbed as a whole.
        target: Option<String>,
        /// The error.
        error: String,
    },
    /// A change of the host could not be undone at the end of the run; it stays in the undo ledger.
    NotUndone {
        /// The ledger's entry and the error.
        entry: String,
    },
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

/// The cause why the hypervisor may not back the memory of a virtual machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum UnbackedMemory {
    /// The user requested that memory is left as it is.
    LeftAlone,
    /// The time for touching memory ended before all that the run may need was touched.
    TouchedInPart {
        /// Bytes that were touched.
        touched: u64,
        /// Bytes that the run may need.
        needed: u64,
        /// Seconds that it took.
        seconds: f64,
    },
    /// Memory could not be touched.
    Untouchable {
        /// The error.
        error: String,
    },
    /// The kernel reports free pages to the hypervisor, and that could not be stopped.
    Reported {
        /// The file that cannot be written.
        file: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Warning {
        serde_json::from_str(text).expect("a warning")
    }

    #[test]
    fn each_form_survives_a_round_trip() {
        let path = PathBuf::from("/sys/x");
        for warning in [
            Warning::Concurrent {
                run: "process 7 (fsb run ext4)".to_owned(),
                more: 2,
            },
            Warning::DifferentMedia,
            Warning::UnbackedMemory {
                cause: UnbackedMemory::Reported { file: path },
            },
        ] {
            let text = serde_json::to_string(&warning).expect("JSON");
            assert_eq!(read(&text), warning, "{text}");
        }
        assert_eq!(
            serde_json::to_string(&Warning::DifferentMedia).expect("JSON"),
            r#"{"kind":"different_media"}"#
        );
    }

    #[test]
    fn a_kind_of_a_newer_version_is_kept_as_found() {
        let text = r#"{"kind":"full_moon","phase":0.5}"#;
        let warning = read(text);
        assert!(matches!(warning, Warning::Unknown(_)), "{warning:?}");
        assert_eq!(serde_json::to_string(&warning).expect("JSON"), text);
    }
}
