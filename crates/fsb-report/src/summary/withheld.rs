//! Cases that are not judged although they have values: the reasons, and what would help.

use std::collections::HashMap;

use fsb_model::run::MemoryTouched;
use fsb_model::units::show_bytes;
use fsb_model::{Outcome, RunRecord, UnbackedMemory, Warning};
use serde::Serialize;

use super::trial_value::CompactTrial;
use crate::record_text::{MORE_MEMORY, unbacked_memory_help, unbacked_memory_text};
use crate::show::{counted, listed};

/// A reason why a case is not judged although it has values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Withheld {
    /// Another run measured at the same time.
    Concurrent,
    /// Many trials of the run have no value.
    Lost {
        /// Trials without a value.
        lost: usize,
        /// All trials of cells that have values.
        trials: usize,
    },
    /// The case writes, and free memory of the virtual machine was not touched first.
    Memory {
        /// The cause, as the run warned.
        cause: String,
        /// The action against the cause; `None` if there is none.
        #[serde(skip)]
        help: Option<&'static str>,
    },
    /// Targets take turns, and most trials were affected by interference or invalid. Interference
    /// during a sequential trial affects one target alone. In rounds it affects all targets, and
    /// intervals hold (docs/calibration.md).
    Spoilt {
        /// Trials of the case.
        trials: usize,
        /// Trials that were affected by interference.
        affected: usize,
        /// Other invalid trials.
        invalid: usize,
    },
}

impl Withheld {
    /// Returns the code of the reason, as in JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Withheld::Concurrent => "concurrent",
            Withheld::Lost { .. } => "lost",
            Withheld::Memory { .. } => "memory",
            Withheld::Spoilt { .. } => "spoilt",
        }
    }

    /// Returns the reason as text, such as `of 20 trials 11 affected by interference` or `another
    /// run measured at the same time`.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Withheld::Concurrent => "another run measured at the same time".to_owned(),
            Withheld::Lost { lost, trials } => {
                let have = if *lost == 1 { "has" } else { "have" };
                format!("{lost} of {} {have} no value", counted(*trials, "trial"))
            }
            Withheld::Memory { cause, .. } => cause.clone(),
            Withheld::Spoilt {
                trials,
                affected,
                invalid,
            } => {
                let kinds = [(affected, "affected by interference"), (invalid, "invalid")];
                let kinds: Vec<String> = kinds
                    .iter()
                    .filter(|(count, _)| **count > 0)
                    .map(|(count, kind)| format!("{count} {kind}"))
                    .collect();
                format!("of {} {}", counted(*trials, "trial"), listed(&kinds))
            }
        }
    }

    /// Returns the reason for several cases together.
    pub(super) fn summarized(&self) -> String {
        match self {
            Withheld::Spoilt { .. } => {
                "most trials were affected by interference or invalid".to_owned()
            }
            other => other.to_text(),
        }
    }

    /// Returns the action that makes a verdict possible, for the line of trust.
    pub(super) fn help(&self) -> Option<&'static str> {
        match self {
            Withheld::Concurrent => Some("run it again without another run beside it"),
            Withheld::Lost { .. } => Some("fsb report --notes shows why"),
            Withheld::Memory { .. } | Withheld::Spoilt { .. } => None,
        }
    }

    /// Returns the condition for a verdict, or the action that leads to it: `fsb would judge with
    /// no other run beside it`.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Withheld::Concurrent => "fsb would judge with no other run beside it",
            Withheld::Lost { .. } => "fsb would judge with values of three quarters of the trials",
            Withheld::Memory { help, .. } => {
                help.unwrap_or("fsb would judge with memory that was touched first")
            }
            Withheld::Spoilt { .. } => "fsb would judge on an idle machine (see fsb doctor)",
        }
    }
}

/// Returns the reason why no case of a run is judged.
pub(super) fn of_run(record: &RunRecord, trials: &[CompactTrial]) -> Option<Withheld> {
    if record.warnings.iter().any(is_concurrent) {
        return Some(Withheld::Concurrent);
    }
    let (lost, trials) = lost(trials);
    (4 * lost > trials).then_some(Withheld::Lost { lost, trials })
}

/// Returns the reason why this case is not judged.
pub(super) fn of_case(record: &RunRecord, label: &str, own: &[&CompactTrial]) -> Option<Withheld> {
    let cause = match record.memory {
        Some(_) => record.memory_lacking(label).map(lacking),
        // Memory could not be touched at all.
        None => {
            let cause =
                unbacked_memory(record).filter(|_| own.iter().any(|trial| trial.what.writes()));
            cause.map(|cause| (unbacked_memory_text(cause), unbacked_memory_help(cause)))
        }
    };
    spoilt(record, label, own).or(cause.map(|(cause, help)| Withheld::Memory { cause, help }))
}

/// Returns the cause and the action against it.
fn lacking(memory: MemoryTouched) -> (String, Option<&'static str>) {
    if memory.touched >= memory.needed {
        return (
            "the hypervisor may take back memory that was touched".to_owned(),
            None,
        );
    }
    let (touched, needed) = (
        show_bytes(memory.touched as f64),
        show_bytes(memory.needed as f64),
    );
    let cause =
        format!("only {touched} of the {needed} of memory that the run may need was touched");
    (cause, Some(MORE_MEMORY))
}

/// Returns the cause why the hypervisor may not back the memory that the run used. Returns `None`
/// if it does.
pub(super) fn unbacked_memory(record: &RunRecord) -> Option<&UnbackedMemory> {
    record.warnings.iter().find_map(|warning| match warning {
        Warning::UnbackedMemory { cause } => Some(cause),
        _ => None,
    })
}

fn is_concurrent(warning: &Warning) -> bool {
    matches!(warning, Warning::Concurrent { .. })
}

/// Returns whether interference or failed validity checks affect most trials of a case, so that
/// more blocks may help.
pub(super) fn is_spoilt(record: &RunRecord, label: &str, own: &[&CompactTrial]) -> bool {
    spoilt(record, label, own).is_some()
}

/// Returns whether every target has several samples of the case in each block, so that interference
/// affects all alike.
pub fn in_rounds(record: &RunRecord, label: &str) -> bool {
    record
        .rounds
        .get(label)
        .is_some_and(|rounds| rounds.rounds > 1)
}

/// Returns the labels of cases that have no verdict because of the run's memory or a concurrent
/// run; `writes` tells whether a case writes. The report withholds the same cases.
pub fn by_record(record: &RunRecord, writes: impl Fn(&str) -> bool) -> Vec<String> {
    let concurrent = record.warnings.iter().any(is_concurrent);
    let labels = record.cells.iter().map(|cell| &cell.label);
    labels
        .filter(|label| {
            concurrent
                || (match record.memory {
                    Some(_) => record.memory_lacking(label).is_some(),
                    None => writes(label) && unbacked_memory(record).is_some(),
                })
        })
        .cloned()
        .collect()
}

fn spoilt(record: &RunRecord, label: &str, own: &[&CompactTrial]) -> Option<Withheld> {
    if in_rounds(record, label) {
        return None;
    }
    let affected = own
        .iter()
        .filter(|trial| !trial.extras().interference.is_empty())
        .count();
    let invalid = own
        .iter()
        .filter(|trial| trial.outcome == Outcome::Invalid && trial.extras().interference.is_empty())
        .count();
    let found = Withheld::Spoilt {
        trials: own.len(),
        affected,
        invalid,
    };
    (2 * (affected + invalid) > own.len()).then_some(found)
}

/// Counts trials without a value, and all trials. Cells without any value are not counted, because
/// they are not compared.
fn lost(trials: &[CompactTrial]) -> (usize, usize) {
    /// Trials of one cell.
    #[derive(Default)]
    struct Counted {
        all: usize,
        lost: usize,
        measured: bool,
    }
    let mut cells: HashMap<(&str, &str), Counted> = HashMap::new();
    for trial in trials.iter().filter(|trial| trial.counts()) {
        let cell = cells
            .entry((&trial.what.target, &trial.what.workload))
            .or_default();
        cell.all += 1;
        cell.lost += usize::from(matches!(trial.outcome, Outcome::Failed | Outcome::Invalid));
        cell.measured |= trial.outcome == Outcome::Ok;
    }
    let measured = cells.into_values().filter(|cell| cell.measured);
    measured.fold((0, 0), |(lost, all), cell| {
        (lost + cell.lost, all + cell.all)
    })
}
