//! The typed conditions of a record as text: its stopping rule, the reason why it ended, its
//! placement, interference and warnings.

use std::collections::BTreeSet;
use std::time::Duration;

use fsb_model::plan::LONGEST_BUDGET;
use fsb_model::run::PlacementReason;
use fsb_model::units::{Bytes, show_bytes, show_duration, show_seconds};
use fsb_model::{
    Interference, RaceEnd, RunRecord, Shortfall, StopReason, StoppingRule, UnbackedMemory, Warning,
    WidestInterval,
};
use serde_json::{Map, Value};

use crate::show::{NOT_HERE, counted, listed};

/// Describes what is missing if blocks of a finished run were lost later, for example because a
/// file was not copied as a whole. `measured` has the block of each measured trial, in any order.
pub fn incomplete_text(
    record: &RunRecord,
    measured: impl IntoIterator<Item = u32>,
) -> Option<String> {
    let made = record.stop_reason.as_ref()?.blocks()?;
    let found = measured.into_iter().collect::<BTreeSet<u32>>().len();
    (found < made as usize).then(|| {
        format!(
            "trials.jsonl is incomplete: it holds {found} of the {} that the run made; copy the whole run directory again",
            counted(made as usize, "block")
        )
    })
}

/// Renders the rule by which a run ends: `5 blocks, as requested`.
pub fn stopping_rule_text(rule: &StoppingRule) -> String {
    match rule {
        StoppingRule::Blocks {
            blocks,
            budget_seconds: None,
        } => format!("{}, as requested", count(*blocks)),
        StoppingRule::Blocks {
            blocks,
            budget_seconds: Some(seconds),
        } => {
            format!(
                "{} or as many as {} hold, as requested",
                count(*blocks),
                duration(*seconds)
            )
        }
        StoppingRule::Budget {
            budget_seconds,
            most_blocks,
            planned,
        } => format!(
            "as many blocks as {} hold, at most {most_blocks}; planned after warm-up: {planned}",
            duration(*budget_seconds)
        ),
        StoppingRule::Precision {
            half_width,
            of_ratios,
            fewest_blocks,
            budget_seconds,
            planned,
        } => format!(
            "from {fewest_blocks} blocks on, one more each time until every {}'s 95 % interval is within ±{}, or until {} \
             hold no more; planned after warm-up: at most {planned}",
            judged(*of_ratios),
            percent(*half_width),
            duration(*budget_seconds)
        ),
        StoppingRule::InterimAnalyses {
            planned,
            budget_seconds,
            after,
            half_width,
        } => {
            let ends = match half_width {
                Some(half_width) => format!(
                    "when the intervals of its ratios are within ±{}",
                    percent(*half_width)
                ),
                None => "when it is decided and precise".to_owned(),
            };
            let after: Vec<String> = after.iter().map(u32::to_string).collect();
            format!(
                "{} or more within {}; interim analyses after {}: a workload ends {ends}, and the run when all have ended",
                count(*planned),
                duration(*budget_seconds),
                listed(&after)
            )
        }
        StoppingRule::Race {
            slots,
            round_seconds,
            error,
        } => format!(
            "race rounds of {slots} targets, about {:.0} s each, until no candidate left can be faster than the leader by \
             more than θ (wrong at most {:.0} times in 100), or until the budget holds no more",
            round_seconds.ceil(),
            error * 100.0
        ),
        StoppingRule::Unknown(found) => unknown(found),
    }
}

/// Returns what restricts a sentence on every workload to those that have values, if some have
/// none: the words after "every workload", and the end of the sentence.
fn with_values(without_values: u32) -> (&'static str, String) {
    match without_values {
        0 => ("", String::new()),
        without => (
            " with values",
            format!("; {} without values", counted(without as usize, "workload")),
        ),
    }
}

/// Renders the reason why a run ended, as it follows "it ended after": `5 blocks as planned`.
pub fn stop_reason_text(reason: &StopReason) -> String {
    match reason {
        StopReason::Requested { blocks } => format!("{} as planned", count(*blocks)),
        StopReason::BudgetPlanned { blocks, most: true } => {
            format!(
                "{} as planned, the most that a budget makes",
                count(*blocks)
            )
        }
        StopReason::BudgetPlanned {
            blocks,
            most: false,
        } => {
            format!("{} as planned, as many as the budget holds", count(*blocks))
        }
        StopReason::Undecided {
            blocks,
            open,
            workloads,
        } => {
            format!(
                "{} as planned; {open} of {} to the end",
                count(*blocks),
                counted(*workloads, "workload")
            )
        }
        StopReason::Decided {
            blocks,
            without_values,
        } => {
            let (every, rest) = with_values(*without_values);
            format!(
                "{}: every workload{every} is decided and precise{rest}",
                count(*blocks)
            )
        }
        StopReason::Precise {
            blocks,
            half_width,
            reached: None,
            without_values,
            ..
        } => {
            let (every, rest) = with_values(*without_values);
            format!(
                "{}: the intervals of the ratios of every workload{every} are within ±{}{rest}",
                count(*blocks),
                percent(*half_width)
            )
        }
        StopReason::Precise {
            blocks,
            half_width,
            of_ratios,
            reached: Some(reached),
            without_values,
        } => format!(
            "{}: every {}'s 95 % interval is within ±{} (requested: ±{}){}",
            count(*blocks),
            judged(*of_ratios),
            percent(*reached),
            percent(*half_width),
            with_values(*without_values).1
        ),
        StopReason::Imprecise { blocks, shortfall } => {
            format!(
                "{}, all that the budget holds{}",
                count(*blocks),
                shortfall_text(shortfall.as_ref())
            )
        }
        StopReason::BudgetWouldBePassed {
            blocks,
            planned,
            shortfall,
        } => format!(
            "{blocks} of {planned} planned blocks: another would have passed the budget{}",
            shortfall_text(shortfall.as_ref())
        ),
        StopReason::BudgetCut { blocks, planned } => {
            format!(
                "{blocks} of {planned} planned blocks, the last one not whole: the budget ended"
            )
        }
        StopReason::Hopeless { blocks, failed } => {
            let what = if *failed {
                "every trial failed"
            } else {
                "no workload applies to these targets"
            };
            format!(
                "{}: {what}, in warm-up too; more blocks would not change that",
                count(*blocks)
            )
        }
        StopReason::NoValues { blocks } => {
            format!(
                "{}: no cell has a value; more blocks would not change that",
                count(*blocks)
            )
        }
        StopReason::OutputsDiffer {
            blocks,
            workload,
            targets: [one, other],
            output: [first, second],
        } => {
            format!(
                "{}: {one} and {other} print different output at {workload}: '{first}' and '{second}'",
                count(*blocks)
            )
        }
        StopReason::Race { rounds, reason } => {
            format!(
                "{}: {}",
                counted(*rounds as usize, "race round"),
                race_end_text(reason)
            )
        }
        StopReason::Unknown(found) => unknown(found),
    }
}

fn race_end_text(reason: &RaceEnd) -> String {
    match reason {
        RaceEnd::BaselineFailed { target, error } => {
            format!("{target} cannot be measured: {error}")
        }
        RaceEnd::OthersSlower => "all others are significantly slower".to_owned(),
        RaceEnd::NoneFaster => {
            "no candidate left can be faster than the leader by more than θ".to_owned()
        }
        RaceEnd::NoneLeft => "no candidate is left to race".to_owned(),
        RaceEnd::Budget => "the budget ended".to_owned(),
    }
}

/// Renders the reason why targets are not measured side by side.
pub fn placement_reason_text(reason: &PlacementReason) -> String {
    match reason {
        PlacementReason::Requested => "--one-at-a-time".to_owned(),
        PlacementReason::UnsplittableWorkloads => {
            "its workloads cannot be split into samples".to_owned()
        }
        PlacementReason::DifferentKernels => "the targets are on different kernels".to_owned(),
        PlacementReason::DifferentControls => "the controls of the targets differ".to_owned(),
        PlacementReason::MemoryLimit => {
            "the memory limit applies to one target at a time".to_owned()
        }
        PlacementReason::DifferentMedia => "the targets are on different media".to_owned(),
        PlacementReason::ExternalJournal => {
            "the medium of an external journal is not divided".to_owned()
        }
        PlacementReason::SharedMemory => {
            "the targets would share the memory that each may fill".to_owned()
        }
        PlacementReason::MixedKinds => {
            "the targets are of several kinds: file systems on a medium, in memory, directories"
                .to_owned()
        }
        PlacementReason::IndivisibleMedium { cause } => cause.clone(),
        PlacementReason::TooManyTargets => "there are too many targets".to_owned(),
        PlacementReason::NoTargets => "there are no targets".to_owned(),
        PlacementReason::Unknown(found) => unknown(found),
    }
}

/// Renders interference in few words and a number: `CPU steal 3 %`.
pub fn interference_text(interference: &Interference) -> String {
    sized(interference, "")
}

/// Returns the text of the largest of several interferences of one kind, with "up to".
pub(crate) fn largest_interference_text(interference: &Interference) -> String {
    sized(interference, "up to ")
}

fn sized(interference: &Interference, limit: &str) -> String {
    match interference {
        Interference::CpuSteal { share } => format!("CPU steal {limit}{:.0} %", share * 100.0),
        Interference::OtherProcesses { share } => {
            format!("other processes' CPU {limit}{:.0} %", share * 100.0)
        }
        Interference::OtherDiskIo { bytes_per_second } => {
            format!(
                "others' I/O on the disk {limit}{:.1} MiB/s",
                bytes_per_second / f64::from(1 << 20)
            )
        }
        Interference::ThermalThrottling { events } => {
            format!("processors throttled because of their temperature, events {events:.0}")
        }
        Interference::Stopped { processes } => {
            format!("stopped by a signal for a while, processes {processes:.0}")
        }
        Interference::Unknown(found) => unknown(found),
    }
}

/// Renders a kind of a newer minor version: as it was found.
fn unknown(found: &Map<String, Value>) -> String {
    Value::Object(found.clone()).to_string()
}

fn shortfall_text(shortfall: Option<&Shortfall>) -> String {
    let Some(Shortfall {
        widest: WidestInterval {
            half_width,
            workload,
        },
        half_width: requested,
    }) = shortfall
    else {
        return String::new();
    };
    let requested = percent(*requested);
    match half_width {
        Some(half_width) => {
            format!(
                "; {workload} is still within ±{} only (requested: ±{requested})",
                percent(*half_width)
            )
        }
        None => {
            format!("; {workload} has too few values for an interval (requested: ±{requested})")
        }
    }
}

fn judged(of_ratios: bool) -> &'static str {
    if of_ratios { "ratio" } else { "cell" }
}

fn count(blocks: u32) -> String {
    counted(blocks as usize, "block")
}

/// Returns a duration as text. `Duration::from_secs_f64` would panic on some numbers, and run
/// records come from files.
fn duration(seconds: f64) -> String {
    show_duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Returns a share as text with up to two decimals: `3 %` or `2.84 %`.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Names of workloads that a warning lists at most.
const NAMED: usize = 8;

/// Renders a warning of a run: what happened, then the remedy where there is one.
pub fn warning_text(warning: &Warning) -> String {
    match warning {
        Warning::Concurrent { run, more } => {
            let more = if *more == 0 {
                String::new()
            } else {
                format!(" and {more} more")
            };
            format!("{run}{more} measured at the same time; the runs affected each other")
        }
        Warning::NoLock { reasons } => format!(
            "no lock is held, so another run of this user would not be noticed: {}; set a directory for it: \
             export HOME=$(mktemp -d)",
            reasons.join("; ")
        ),
        Warning::UnbackedMemory { cause } => format!(
            "{}; in this virtual machine, rates of durable writes can be off by factors",
            unbacked_memory_text(cause)
        ),
        Warning::DifferentMedia => different_media_text().to_owned(),
        Warning::Storage { target, flaw } if flaw.loses_data() => {
            format!("{target} is unsafe: {flaw}: never cold, never durable")
        }
        Warning::Storage { target, flaw } => {
            format!("{target}: {flaw}: never direct; attach it with losetup --direct-io=on")
        }
        Warning::LargeTmpfs { size, available } => format!(
            "tmpfs may grow to {}, but only {} of memory are available: choose a smaller --size",
            bytes(*size),
            bytes(*available)
        ),
        Warning::Container { name } => {
            format!("in a container ({name}): other containers share the machine")
        }
        Warning::TargetUnavailable { target, reason } => {
            format!("{target} is {NOT_HERE}: {reason}")
        }
        Warning::DiscardKeptOut { medium } => {
            format!("{medium} can discard: mkfs and mount options keep discards out")
        }
        Warning::ControlUnavailable {
            control,
            value,
            reason,
        } => {
            format!("control {control}={value} is not available: {reason}")
        }
        Warning::ControlInexact {
            control,
            value,
            observed,
        } => format!("control {control}={value}: {observed}"),
        Warning::ServiceMayRestart { service, trigger } => {
            format!("{service} may be started again by {trigger}: stop it too")
        }
        Warning::InjectedSlowdown { target, share } => {
            format!(
                "not a measurement: target {target} was slowed down by {} % for calibration",
                share * 100.0
            )
        }
        Warning::TooLong {
            workloads,
            budget_seconds,
        } => format!(
            "left out: {} did not finish one trial within half of the budget of {}; use a larger --budget",
            workloads.join("; "),
            duration(*budget_seconds)
        ),
        Warning::LeftOut {
            workloads,
            held,
            planned,
            budget_seconds,
            ..
        } => {
            let named = workloads[..workloads.len().min(NAMED)].join("; ");
            let more = match workloads.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            format!(
                "{} hold {held} of {planned} workloads; left out: {named}{more}",
                duration(*budget_seconds)
            )
        }
        Warning::SizesLeftOut {
            left_out,
            planned,
            files,
            records,
            ..
        } => {
            let parts = [("files of ", files), ("records of ", records)];
            let parts = parts.into_iter().filter(|(_, sizes)| !sizes.is_empty());
            let parts: Vec<String> = parts
                .map(|(what, sizes)| format!("{what}{}", sizes_text(sizes)))
                .collect();
            format!(
                "the budget left out {left_out} of {planned} sizes: {}",
                parts.join("; ")
            )
        }
        Warning::TooFewBlocks {
            blocks,
            budget_seconds,
            ..
        } => format!(
            "{} hold {}, too few to judge: the report only describes the numbers",
            duration(*budget_seconds),
            counted(*blocks as usize, "block"),
        ),
        Warning::LongPreparation {
            workload,
            prepare_seconds,
            command_seconds,
        } => format!(
            "{workload}: making the directory of a run takes {}, the command {}; --reuse runs it in one directory instead, \
             where runs find the files of earlier ones",
            show_seconds(*prepare_seconds),
            show_seconds(*command_seconds)
        ),
        Warning::NotTakenDown {
            target: Some(target),
            error,
        } => format!("tearing down {target}: {error}"),
        Warning::NotTakenDown {
            target: None,
            error,
        } => format!("tearing down the testbed: {error}"),
        Warning::NotUndone { entry } => entry.clone(),
        Warning::Unknown(fields) => {
            format!(
                "a newer version of fsb warned: {}",
                serde_json::Value::Object(fields.clone())
            )
        }
    }
}

/// Returns the cause of [`Warning::UnbackedMemory`].
pub(crate) fn unbacked_memory_text(cause: &UnbackedMemory) -> String {
    match cause {
        UnbackedMemory::LeftAlone => {
            "guest memory was left as it was (control guest-memory=off)".to_owned()
        }
        UnbackedMemory::TouchedInPart {
            touched,
            needed,
            seconds,
        } => format!(
            "the hypervisor backs only {} of the {} of memory that the run may need, after {seconds:.1} s",
            bytes(*touched),
            bytes(*needed)
        ),
        UnbackedMemory::Untouchable { error } => format!("free memory cannot be backed: {error}"),
        UnbackedMemory::Reported { file } => {
            format!(
                "free-page reporting stays on: {} cannot be written",
                file.display()
            )
        }
    }
}

/// The remedy if time was too short to touch all the memory that a run may need.
pub(crate) const MORE_MEMORY: &str = "with a larger --budget more memory is backed first";

/// Returns the remedy for memory that the hypervisor does not back.
pub(crate) fn unbacked_memory_help(cause: &UnbackedMemory) -> Option<&'static str> {
    match cause {
        UnbackedMemory::TouchedInPart { .. } => Some(MORE_MEMORY),
        UnbackedMemory::LeftAlone => Some("leave out the control guest-memory=off"),
        UnbackedMemory::Reported { .. } => Some("root may stop it: run with sudo"),
        UnbackedMemory::Untouchable { .. } => None,
    }
}

pub(crate) fn different_media_text() -> &'static str {
    "the targets are on different media: file system and medium are compared together"
}

fn bytes(bytes: u64) -> String {
    show_bytes(bytes as f64)
}

fn sizes_text(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| Bytes(*size).to_string()).collect();
    sizes.join(", ")
}

/// Returns the `--budget` that would hold and judge everything that the budget left out. Returns
/// `None` if it left out nothing, or if no run may take so long.
pub(crate) fn sufficient_budget(warnings: &[Warning]) -> Option<String> {
    let needed = warnings
        .iter()
        .filter_map(|warning| match warning {
            Warning::LeftOut { needed_seconds, .. }
            | Warning::SizesLeftOut { needed_seconds, .. }
            | Warning::TooFewBlocks { needed_seconds, .. } => Some(*needed_seconds),
            _ => None,
        })
        .reduce(f64::max)?;
    (needed <= LONGEST_BUDGET).then(|| budget_argument(needed))
}

/// Returns seconds as an argument of `--budget`, rounded up: `90s`, `4m`, `12h`.
fn budget_argument(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{:.0}s", (seconds.max(1.0) / 10.0).ceil() * 10.0),
        seconds if seconds < 36_000.0 => format!("{:.0}m", (seconds / 60.0).ceil()),
        _ => format!("{:.0}h", (seconds / 3600.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_state_what_ends_the_run() {
        let precision = StoppingRule::Precision {
            half_width: 0.025,
            of_ratios: false,
            fewest_blocks: 5,
            budget_seconds: 300.0,
            planned: 23,
        };
        let text = stopping_rule_text(&precision);
        assert!(
            text.contains("every cell's") && text.contains("±2.5 %") && text.contains("at most 23"),
            "{text}"
        );
        let text = stopping_rule_text(&StoppingRule::Budget {
            budget_seconds: 60.0,
            most_blocks: 30,
            planned: 7,
        });
        assert!(text.contains("at most 30") && text.ends_with('7'), "{text}");
        let fixed = |budget_seconds| {
            stopping_rule_text(&StoppingRule::Blocks {
                blocks: 9,
                budget_seconds,
            })
        };
        assert_eq!(fixed(None), "9 blocks, as requested");
        assert_eq!(
            fixed(Some(60.0)),
            "9 blocks or as many as 1 min 00 s hold, as requested"
        );
    }

    #[test]
    fn half_widths_are_not_rounded_to_the_requested_value() {
        assert_eq!(
            [percent(0.03), percent(0.0284), percent(0.1)],
            ["3 %", "2.84 %", "10 %"]
        );
        let shortfall = |half_width| {
            let widest = WidestInterval {
                half_width,
                workload: "w".to_owned(),
            };
            shortfall_text(Some(&Shortfall {
                widest,
                half_width: 0.03,
            }))
        };
        assert_eq!(
            shortfall(Some(0.051)),
            "; w is still within ±5.1 % only (requested: ±3 %)"
        );
        assert_eq!(
            shortfall(None),
            "; w has too few values for an interval (requested: ±3 %)"
        );
    }

    #[test]
    fn interference_has_few_words_and_a_number() {
        let texts = [
            Interference::CpuSteal { share: 0.03 },
            Interference::OtherDiskIo {
                bytes_per_second: 3.0 * f64::from(1 << 20),
            },
        ];
        let texts = texts.each_ref().map(interference_text);
        assert_eq!(
            texts,
            ["CPU steal 3 %", "others' I/O on the disk 3.0 MiB/s"]
        );
    }

    #[test]
    fn budgets_are_round_and_never_too_small() {
        let arguments = [0.1, 82.4, 148.5, 4860.0, 36_001.0].map(budget_argument);
        assert_eq!(arguments, ["10s", "90s", "3m", "81m", "11h"]);
    }

    #[test]
    fn one_budget_holds_everything_that_was_left_out() {
        let few = Warning::TooFewBlocks {
            blocks: 1,
            budget_seconds: 60.0,
            needed_seconds: 200.0,
        };
        let sizes = Warning::SizesLeftOut {
            left_out: 7,
            planned: 10,
            files: Vec::new(),
            records: Vec::new(),
            needed_seconds: 400.0,
        };
        assert_eq!(sufficient_budget(&[few, sizes]).as_deref(), Some("7m"));
        assert_eq!(sufficient_budget(&[Warning::DifferentMedia]), None);
        let many = Warning::TooFewBlocks {
            blocks: 1,
            budget_seconds: 60.0,
            needed_seconds: 1e7,
        };
        assert_eq!(sufficient_budget(&[many]), None, "no run may take so long");
    }

    #[test]
    fn workloads_that_are_left_out_are_named_up_to_a_number() {
        let workloads: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
        let warning = Warning::LeftOut {
            workloads,
            held: 2,
            planned: 12,
            budget_seconds: 60.0,
            needed_seconds: 200.0,
        };
        assert_eq!(
            warning_text(&warning),
            "1 min 00 s hold 2 of 12 workloads; left out: w0; w1; w2; w3; w4; w5; w6; w7; and 2 more"
        );
    }

    #[test]
    fn sizes_that_are_left_out_are_listed() {
        let sizes = vec![2, 4];
        let warning = Warning::SizesLeftOut {
            left_out: 7,
            planned: 10,
            files: sizes.clone(),
            records: sizes,
            needed_seconds: 61.0,
        };
        assert_eq!(
            warning_text(&warning),
            "the budget left out 7 of 10 sizes: files of 2, 4; records of 2, 4"
        );
    }

    #[test]
    fn no_number_in_a_file_makes_the_text_fail() {
        for seconds in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let warning = Warning::TooFewBlocks {
                blocks: 1,
                budget_seconds: seconds,
                needed_seconds: seconds,
            };
            assert!(!warning_text(&warning).is_empty());
        }
    }
}
