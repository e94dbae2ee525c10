//! The typed conditions of a record as text: its stopping rule, the reason why it ended, its placement, interference.
//! Warnings are in [`crate::warning_text`].

use std::time::Duration;

use fsb_model::run::PlacementReason;
use fsb_model::units::show_duration;
use fsb_model::{Interference, RaceEnd, Shortfall, StopReason, StoppingRule, WidestInterval};
use serde_json::{Map, Value};

use crate::show::{counted, listed};

/// Renders the rule by which a run ends: `5 blocks, as requested`.
pub fn stopping_rule_text(rule: &StoppingRule) -> String {
    match rule {
        StoppingRule::Blocks { blocks, budget_seconds: None } => format!("{}, as requested", count(*blocks)),
        StoppingRule::Blocks { blocks, budget_seconds: Some(seconds) } => {
            format!("{} or as many as {} hold, as requested", count(*blocks), duration(*seconds))
        }
        StoppingRule::Budget { budget_seconds, most_blocks, planned } => format!(
            "as many blocks as {} hold, at most {most_blocks}; planned after warm-up: {planned}",
            duration(*budget_seconds)
        ),
        StoppingRule::Precision { half_width, of_ratios, fewest_blocks, budget_seconds, planned } => format!(
            "from {fewest_blocks} blocks on, one more each time until every {}'s 95 % interval is within ±{}, or until {} \
             hold no more; planned after warm-up: at most {planned}",
            judged(*of_ratios),
            percent(*half_width),
            duration(*budget_seconds)
        ),
        StoppingRule::InterimAnalyses { planned, budget_seconds, after, half_width } => {
            let ends = match half_width {
                Some(half_width) => format!("when the intervals of its ratios are within ±{}", percent(*half_width)),
                None => "when it is decided and precise".to_owned(),
            };
            let after: Vec<String> = after.iter().map(u32::to_string).collect();
            format!(
                "{} within {}; interim analyses after {}: a workload ends {ends}, and the run when all have ended",
                count(*planned),
                duration(*budget_seconds),
                listed(&after)
            )
        }
        StoppingRule::Race { slots, round_seconds, error } => format!(
            "race rounds of {slots} targets, about {:.0} s each, until no candidate left can be faster than the leader by \
             more than θ (wrong at most {:.0} times in 100), or until the budget holds no more",
            round_seconds.ceil(),
            error * 100.0
        ),
        StoppingRule::Text(text) => text.clone(),
        StoppingRule::Unknown(found) => unknown(found),
    }
}

/// Renders the reason why a run ended, as it follows "it ended after": `5 blocks as planned`.
pub fn stop_reason_text(reason: &StopReason) -> String {
    match reason {
        StopReason::Requested { blocks } => format!("{} as planned", count(*blocks)),
        StopReason::BudgetPlanned { blocks, most: true } => {
            format!("{} as planned, the most that a budget makes", count(*blocks))
        }
        StopReason::BudgetPlanned { blocks, most: false } => {
            format!("{} as planned, as many as the budget holds", count(*blocks))
        }
        StopReason::Undecided { blocks, open, workloads } => {
            format!("{} as planned; {open} of {} to the end", count(*blocks), counted(*workloads, "workload"))
        }
        StopReason::Decided { blocks } => format!("{}: every workload is decided and precise", count(*blocks)),
        StopReason::Precise { blocks, half_width, reached: None, .. } => {
            format!("{}: the intervals of every workload's ratios are within ±{}", count(*blocks), percent(*half_width))
        }
        StopReason::Precise { blocks, half_width, of_ratios, reached: Some(reached) } => format!(
            "{}: every {}'s 95 % interval is within ±{} (requested: ±{})",
            count(*blocks),
            judged(*of_ratios),
            percent(*reached),
            percent(*half_width)
        ),
        StopReason::Imprecise { blocks, shortfall } => {
            format!("{}, all that the budget holds{}", count(*blocks), shortfall_text(shortfall.as_ref()))
        }
        StopReason::BudgetWouldBePassed { blocks, planned, shortfall } => format!(
            "{blocks} of {planned} planned blocks: another would have passed the budget{}",
            shortfall_text(shortfall.as_ref())
        ),
        StopReason::BudgetCut { blocks, planned } => {
            format!("{blocks} of {planned} planned blocks, the last one not whole: the budget ended")
        }
        StopReason::Hopeless { blocks, failed } => {
            let what = if *failed { "every trial failed" } else { "no workload applies to these targets" };
            format!("{}: {what}, in warm-up too; more blocks would not change that", count(*blocks))
        }
        StopReason::NoValues { blocks } => {
            format!("{}: no cell has a value; more blocks would not change that", count(*blocks))
        }
        StopReason::Race { rounds, reason } => {
            format!("{}: {}", counted(*rounds as usize, "race round"), race_end_text(reason))
        }
        StopReason::Text(text) => text.clone(),
        StopReason::Unknown(found) => unknown(found),
    }
}

fn race_end_text(reason: &RaceEnd) -> String {
    match reason {
        RaceEnd::BaselineFailed { target, error } => format!("{target} cannot be measured: {error}"),
        RaceEnd::OthersSlower => "all others are significantly slower".to_owned(),
        RaceEnd::NoneFaster => "no candidate left can be faster than the leader by more than θ".to_owned(),
        RaceEnd::NoneLeft => "no candidate is left to race".to_owned(),
        RaceEnd::Budget => "the budget ended".to_owned(),
    }
}

/// Renders the reason why targets are not measured side by side.
pub fn placement_reason_text(reason: &PlacementReason) -> String {
    match reason {
        PlacementReason::Requested => "--one-at-a-time".to_owned(),
        PlacementReason::UnsplittableWorkloads => "its workloads cannot be split into samples".to_owned(),
        PlacementReason::DifferentKernels => "the targets are on different kernels".to_owned(),
        PlacementReason::DifferentControls => "the controls of the targets differ".to_owned(),
        PlacementReason::MemoryLimit => "the memory limit applies to one target at a time".to_owned(),
        PlacementReason::DifferentMedia => "the targets are on different media".to_owned(),
        PlacementReason::SharedMemory => "the targets would share the memory that each may fill".to_owned(),
        PlacementReason::MixedKinds => {
            "the targets are of several kinds: file systems on a medium, in memory, directories".to_owned()
        }
        PlacementReason::IndivisibleMedium { cause } => cause.clone(),
        PlacementReason::TooManyTargets => "there are too many targets".to_owned(),
        PlacementReason::NoTargets => "there are no targets".to_owned(),
        PlacementReason::Text(text) => text.clone(),
        PlacementReason::Unknown(found) => unknown(found),
    }
}

/// Renders interference in few words and a number: `CPU steal 3 %`.
pub fn interference_text(interference: &Interference) -> String {
    sized(interference, "")
}

/// The same for the largest of several of that kind.
pub(crate) fn largest_interference_text(interference: &Interference) -> String {
    sized(interference, "up to ")
}

fn sized(interference: &Interference, limit: &str) -> String {
    match interference {
        Interference::CpuSteal { share } => format!("CPU steal {limit}{:.0} %", share * 100.0),
        Interference::OtherProcesses { share } => format!("other processes' CPU {limit}{:.0} %", share * 100.0),
        Interference::OtherDiskIo { bytes_per_second } => {
            format!("others' I/O on the disk {limit}{:.1} MiB/s", bytes_per_second / f64::from(1 << 20))
        }
        Interference::ThermalThrottling { events } => format!("processors throttled by heat, events {events:.0}"),
        Interference::Stopped { processes } => format!("stopped by a signal for a while, processes {processes:.0}"),
        Interference::Text(text) => text.clone(),
        Interference::Unknown(found) => unknown(found),
    }
}

/// Renders a kind of a newer minor version: as it was found.
fn unknown(found: &Map<String, Value>) -> String {
    Value::Object(found.clone()).to_string()
}

fn shortfall_text(shortfall: Option<&Shortfall>) -> String {
    let Some(Shortfall { widest: WidestInterval { half_width, workload }, half_width: requested }) = shortfall else {
        return String::new();
    };
    let requested = percent(*requested);
    match half_width {
        Some(half_width) => {
            format!("; {workload} is still within ±{} only (requested: ±{requested})", percent(*half_width))
        }
        None => format!("; {workload} has too few values for an interval (requested: ±{requested})"),
    }
}

fn judged(of_ratios: bool) -> &'static str {
    if of_ratios { "ratio" } else { "cell" }
}

fn count(blocks: u32) -> String {
    counted(blocks as usize, "block")
}

fn duration(seconds: f64) -> String {
    show_duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// `3 %`, `2.84 %`: never rounded to the requested value when it is more.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
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
        assert!(text.contains("every cell's") && text.contains("±2.5 %") && text.contains("at most 23"), "{text}");
        let text = stopping_rule_text(&StoppingRule::Budget { budget_seconds: 60.0, most_blocks: 30, planned: 7 });
        assert!(text.contains("at most 30") && text.ends_with('7'), "{text}");
        let fixed = |budget_seconds| stopping_rule_text(&StoppingRule::Blocks { blocks: 9, budget_seconds });
        assert_eq!(fixed(None), "9 blocks, as requested");
        assert_eq!(fixed(Some(60.0)), "9 blocks or as many as 1 min 00 s hold, as requested");
    }

    #[test]
    fn half_widths_are_not_rounded_to_the_requested_value() {
        assert_eq!([percent(0.03), percent(0.0284), percent(0.1)], ["3 %", "2.84 %", "10 %"]);
        let shortfall = |half_width| {
            let widest = WidestInterval { half_width, workload: "w".to_owned() };
            shortfall_text(Some(&Shortfall { widest, half_width: 0.03 }))
        };
        assert_eq!(shortfall(Some(0.051)), "; w is still within ±5.1 % only (requested: ±3 %)");
        assert_eq!(shortfall(None), "; w has too few values for an interval (requested: ±3 %)");
    }

    #[test]
    fn interference_has_few_words_and_a_number() {
        let texts = [
            Interference::CpuSteal { share: 0.03 },
            Interference::OtherDiskIo { bytes_per_second: 3.0 * f64::from(1 << 20) },
            Interference::Text("as an older version wrote it".to_owned()),
        ];
        let texts = texts.each_ref().map(interference_text);
        assert_eq!(texts, ["CPU steal 3 %", "others' I/O on the disk 3.0 MiB/s", "as an older version wrote it"]);
    }
}
