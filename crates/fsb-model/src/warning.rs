//! Conditions that the reader of a run must know, as data. `fsb-report` renders them as text.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::storage::StorageFlaw;

/// A condition of a run that its reader must know.
///
/// It is an object with the tag `kind` in `run.json`. A kind of a newer minor version is kept as
/// [`Warning::Unknown`]. Records of schema version 1 hold sentences instead, which are read as
/// [`Warning::Text`]; [`Warning::upgraded`] finds the conditions that change verdicts in them.
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
    /// A directory is in memory, so its files are never cold and never durable. Earlier versions
    /// wrote it; this one writes `storage`.
    DirectoryInMemory {
        /// The directory.
        path: PathBuf,
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
    /// A sentence of a record that was written with schema version 1.
    #[serde(untagged)]
    Text(String),
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
    /// The sentence of a record that was written with schema version 1.
    Described {
        /// The cause in words.
        text: String,
    },
}

/// The beginning of the sentence about concurrent runs in schema version 1.
const CONCURRENT_1: &str = "not alone: ";
/// The beginning of the sentence about unbacked memory in schema version 1.
const UNBACKED_1: &str = "unreliable: ";
/// The beginning of the sentence about media in schema version 1.
const DIFFERENT_MEDIA_1: &str = "the targets are on different media";

impl Warning {
    /// Replaces a sentence of schema version 1 by the condition that it describes, if that
    /// condition changes a verdict or the level of trust. Returns every other warning unchanged.
    #[must_use]
    pub fn upgraded(self) -> Warning {
        let Warning::Text(text) = self else {
            return self;
        };
        if let Some(rest) = text.strip_prefix(CONCURRENT_1) {
            let named = rest
                .split_once(" measured at the same time")
                .map_or(rest, |(run, _)| run);
            let several = named
                .strip_suffix(" more")
                .and_then(|named| named.rsplit_once(" and "));
            let several = several.and_then(|(run, more)| Some((run, more.parse().ok()?)));
            let (run, more) = several.unwrap_or((named, 0));
            return Warning::Concurrent {
                run: run.to_owned(),
                more,
            };
        }
        if let Some(cause) = text.strip_prefix(UNBACKED_1) {
            let text = cause.split(';').next().unwrap_or(cause).to_owned();
            return Warning::UnbackedMemory {
                cause: UnbackedMemory::Described { text },
            };
        }
        if text.starts_with(DIFFERENT_MEDIA_1) {
            return Warning::DifferentMedia;
        }
        Warning::Text(text)
    }
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
            Warning::Text("a sentence".to_owned()),
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

    #[test]
    fn sentences_of_version_1_that_change_verdicts_become_conditions() {
        let upgraded = |text: &str| Warning::Text(text.to_owned()).upgraded();
        let tail = "measured at the same time; the runs measured each other";
        assert_eq!(
            upgraded(&format!("not alone: process 7 (fsb run ext4) {tail}")),
            Warning::Concurrent {
                run: "process 7 (fsb run ext4)".to_owned(),
                more: 0
            }
        );
        assert_eq!(
            upgraded(&format!(
                "not alone: process 7 (fsb run ext4) and 3 more {tail}"
            )),
            Warning::Concurrent {
                run: "process 7 (fsb run ext4)".to_owned(),
                more: 3
            }
        );
        let cause = UnbackedMemory::Described {
            text: "guest memory was left as it was".to_owned(),
        };
        assert_eq!(
            upgraded("unreliable: guest memory was left as it was; rates can be off"),
            Warning::UnbackedMemory { cause }
        );
        assert_eq!(
            upgraded(
                "the targets are on different media: file system and medium are compared together"
            ),
            Warning::DifferentMedia
        );
        assert_eq!(
            upgraded("/dev/sdb can discard"),
            Warning::Text("/dev/sdb can discard".to_owned())
        );
    }
}
