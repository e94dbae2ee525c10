//! Warnings of a run as text.

use std::time::Duration;

use fsb_model::plan::LONGEST_BUDGET;
use fsb_model::units::{Bytes, show_bytes, show_duration};
use fsb_model::{UnbackedMemory, Warning};

use crate::show::{NOT_HERE, counted};

/// Names of workloads that a warning lists at most.
const NAMED: usize = 8;

/// Renders a warning of a run: what happened, then the remedy where there is one.
pub fn warning_text(warning: &Warning) -> String {
    match warning {
        Warning::Concurrent { run, more } => {
            let more = if *more == 0 { String::new() } else { format!(" and {more} more") };
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
        Warning::DirectoryInMemory { path } => format!("{} is in memory: never cold, never durable", path.display()),
        Warning::LargeTmpfs { size, available } => format!(
            "tmpfs may grow to {}, but only {} of memory are available: choose a smaller --size",
            bytes(*size),
            bytes(*available)
        ),
        Warning::Container { name } => format!("in a container ({name}): other containers share the machine"),
        Warning::TargetUnavailable { target, reason } => format!("{target} is {NOT_HERE}: {reason}"),
        Warning::DiscardKeptOut { medium } => {
            format!("{medium} can discard: mkfs and mount options keep discards out")
        }
        Warning::ControlUnavailable { control, value, reason } => {
            format!("control {control}={value} is not available: {reason}")
        }
        Warning::ControlInexact { control, value, observed } => format!("control {control}={value}: {observed}"),
        Warning::ServiceMayRestart { service, trigger } => {
            format!("{service} may be started again by {trigger}: stop it too")
        }
        Warning::InjectedSlowdown { target, share } => {
            format!("not a measurement: target {target} was slowed down by {} % for calibration", share * 100.0)
        }
        Warning::TooLong { workloads, budget_seconds } => format!(
            "left out: {} did not finish one trial within half of the budget of {}; use a larger --budget",
            workloads.join("; "),
            duration(*budget_seconds)
        ),
        Warning::LeftOut { workloads, held, planned, budget_seconds, .. } => {
            let named = workloads[..workloads.len().min(NAMED)].join("; ");
            let more = match workloads.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            format!("{} hold {held} of {planned} workloads; left out: {named}{more}", duration(*budget_seconds))
        }
        Warning::SizesLeftOut { left_out, planned, files, records, .. } => {
            let parts = [("files of ", files), ("records of ", records)];
            let parts = parts.into_iter().filter(|(_, sizes)| !sizes.is_empty());
            let parts: Vec<String> = parts.map(|(what, sizes)| format!("{what}{}", sizes_text(sizes))).collect();
            format!("the budget left out {left_out} of {planned} sizes: {}", parts.join("; "))
        }
        Warning::TooFewBlocks { blocks, budget_seconds, .. } => format!(
            "{} hold {}, too few to judge: the report only describes the numbers",
            duration(*budget_seconds),
            counted(*blocks as usize, "block"),
        ),
        Warning::NotTakenDown { target: Some(target), error } => format!("tearing down {target}: {error}"),
        Warning::NotTakenDown { target: None, error } => format!("tearing down the testbed: {error}"),
        Warning::NotUndone { entry } => entry.clone(),
        Warning::Text(text) => text.clone(),
        Warning::Unknown(fields) => {
            format!("a newer version of fsb warned: {}", serde_json::Value::Object(fields.clone()))
        }
    }
}

/// The cause of [`Warning::UnbackedMemory`].
pub(crate) fn unbacked_memory_text(cause: &UnbackedMemory) -> String {
    match cause {
        UnbackedMemory::LeftAlone => "guest memory was left as it was (--control guest-memory=off)".to_owned(),
        UnbackedMemory::TouchedInPart { touched, needed, seconds } => format!(
            "the hypervisor backs only {} of the {} of memory that the run may need, after {seconds:.1} s",
            bytes(*touched),
            bytes(*needed)
        ),
        UnbackedMemory::Untouchable { error } => format!("free memory cannot be backed: {error}"),
        UnbackedMemory::Reported { file } => {
            format!("free-page reporting stays on: {} cannot be written", file.display())
        }
        UnbackedMemory::Described { text } => text.clone(),
    }
}

/// The remedy if time was too short to touch all the memory that a run may need.
pub(crate) const MORE_MEMORY: &str = "with a larger --budget more memory is backed first";

/// Returns the remedy for memory that the hypervisor does not back.
pub(crate) fn unbacked_memory_help(cause: &UnbackedMemory) -> Option<&'static str> {
    match cause {
        UnbackedMemory::TouchedInPart { .. } => Some(MORE_MEMORY),
        UnbackedMemory::LeftAlone => Some("leave out --control guest-memory=off"),
        UnbackedMemory::Reported { .. } => Some("root may stop it: run with sudo"),
        UnbackedMemory::Untouchable { .. } | UnbackedMemory::Described { .. } => None,
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

/// `Duration::from_secs_f64` without its panics: run records come from files.
fn duration(seconds: f64) -> String {
    show_duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Returns the `--budget` that would hold and judge everything that the budget left out. Returns `None` if it left out
/// nothing, or if no run may take so long.
pub(crate) fn sufficient_budget(warnings: &[Warning]) -> Option<String> {
    let needed = |warning: &Warning| match warning {
        Warning::LeftOut { needed_seconds, .. }
        | Warning::SizesLeftOut { needed_seconds, .. }
        | Warning::TooFewBlocks { needed_seconds, .. } => Some(*needed_seconds),
        _ => None,
    };
    let needed = warnings.iter().filter_map(needed).reduce(f64::max)?;
    (needed <= LONGEST_BUDGET).then(|| budget_argument(needed))
}

/// Seconds as an argument of `--budget`, rounded up: `90s`, `4m`, `12h`.
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
    fn budgets_are_round_and_never_too_small() {
        let arguments = [0.1, 82.4, 148.5, 4860.0, 36_001.0].map(budget_argument);
        assert_eq!(arguments, ["10s", "90s", "3m", "81m", "11h"]);
    }

    #[test]
    fn one_budget_holds_everything_that_was_left_out() {
        let few = Warning::TooFewBlocks { blocks: 1, budget_seconds: 60.0, needed_seconds: 200.0 };
        let sizes = Warning::SizesLeftOut {
            left_out: 7,
            planned: 10,
            files: Vec::new(),
            records: Vec::new(),
            needed_seconds: 400.0,
        };
        assert_eq!(sufficient_budget(&[few, sizes]).as_deref(), Some("7m"));
        assert_eq!(sufficient_budget(&[Warning::DifferentMedia]), None);
        let many = Warning::TooFewBlocks { blocks: 1, budget_seconds: 60.0, needed_seconds: 1e7 };
        assert_eq!(sufficient_budget(&[many]), None, "no run may take so long");
    }

    #[test]
    fn workloads_that_are_left_out_are_named_up_to_a_number() {
        let workloads: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
        let warning = Warning::LeftOut { workloads, held: 2, planned: 12, budget_seconds: 60.0, needed_seconds: 200.0 };
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
        assert_eq!(warning_text(&warning), "the budget left out 7 of 10 sizes: files of 2, 4; records of 2, 4");
    }

    #[test]
    fn no_number_in_a_file_makes_the_text_fail() {
        for seconds in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let warning = Warning::TooFewBlocks { blocks: 1, budget_seconds: seconds, needed_seconds: seconds };
            assert!(!warning_text(&warning).is_empty());
        }
    }
}
