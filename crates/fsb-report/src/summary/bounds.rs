//! Whether the 99th percentile of a case is below its bound, `p99_below`: the pass mark of a
//! program, such as etcd's 10 ms.
//!
//! A target passes if the whole 95 % interval of its 99th percentile is below the bound, and fails
//! if it is above. Otherwise the answer is open.

use fsb_model::units::{parse_duration, show_seconds};
use fsb_model::{Params, WorkloadSpec};
use fsb_stats::{Estimate, FEWEST_JUDGED, LEVEL, blocks_to_scale};

use super::advice::rough;
use super::model::{BoundAnswer, BoundState, MeasuredCell, Numbers, Workload};

/// Returns whether a workload of a plan has a bound that targets pass or fail.
pub fn is_judged(workload: &WorkloadSpec) -> bool {
    bound(&workload.params).is_some()
}

/// Returns the bound of a case without a rate, in seconds. A bound with a rate is that of a search
/// for the highest rate.
pub(super) fn bound(params: &Params) -> Option<f64> {
    if params.contains_key("rate") {
        return None;
    }
    let text = params.get("p99_below")?.as_str()?;
    Some(parse_duration(text).ok()?.as_secs_f64())
}

/// Answers for every target of the cases that have a bound. `per_block` is the time of a block in
/// seconds.
pub(super) fn answer(cases: &mut [Workload], is_judged: bool, per_block: Option<f64>) {
    for case in cases {
        let Some(below) = case.p99_below else {
            continue;
        };
        let is_judged = is_judged && case.withheld.is_none();
        for cell in &mut case.cells {
            cell.bound = Some(answer_of(cell, below, is_judged, per_block));
        }
    }
}

/// A value that is not durable as promised passes no bound for durable operations.
fn answer_of(
    cell: &MeasuredCell,
    below: f64,
    is_judged: bool,
    per_block: Option<f64>,
) -> BoundAnswer {
    let is_valid = is_judged && cell.lost.is_empty() && cell.unproven.is_empty();
    let estimate = cell
        .estimate
        .as_ref()
        .filter(|estimate| is_valid && estimate.is_judged());
    let interval = estimate.and_then(|estimate| estimate.interval);
    let (state, seconds) = match interval {
        Some(interval) if interval.hi < below => (BoundState::Pass, None),
        Some(interval) if interval.lo > below => (BoundState::Fail, None),
        _ => (
            BoundState::CannotTell,
            further_blocks(cell, estimate, below)
                .and_then(|blocks| Some(f64::from(blocks) * per_block?)),
        ),
    };
    BoundAnswer {
        below,
        state,
        seconds,
    }
}

/// Returns the further blocks after which the interval probably lies on one side of the bound, or
/// after which there is one.
fn further_blocks(cell: &MeasuredCell, estimate: Option<&Estimate>, below: f64) -> Option<u32> {
    let Some(estimate) = estimate else {
        let made = cell.estimate.as_ref()?.n;
        let further = FEWEST_JUDGED.checked_sub(made)?;
        return u32::try_from(further).ok().filter(|further| *further > 0);
    };
    let interval = estimate.interval?;
    let half_width = (interval.hi / interval.lo).ln() / 2.0;
    let distance = (below / estimate.value).ln().abs();
    let blocks = blocks_to_scale(estimate.n, LEVEL, LEVEL, distance / half_width)?;
    Some(blocks.saturating_sub(estimate.n as u32).max(1))
}

/// Returns a sentence per case with a bound: `append 2300, p99 below 10.0 ms: pass on ext4, p99
/// 3.10 ms [2.90 ms, 3.40 ms].`
pub fn lines(summary: &Numbers) -> Vec<String> {
    let mut lines = Vec::new();
    for case in &summary.cases {
        let mut answers = Vec::new();
        for (target, cell) in summary.targets.iter().zip(&case.cells) {
            if let Some(answer) = cell.bound {
                answers.push(sentence(&target.label(), cell, answer));
            }
        }
        if let Some(below) = case.cells.iter().find_map(|cell| cell.bound) {
            lines.push(format!("{}: {}.", name(case, below), answers.join("; ")));
        }
    }
    lines
}

/// Returns the name of a case with its bound: `append 2300, p99 below 10.0 ms`.
pub(crate) fn name(case: &Workload, bound: BoundAnswer) -> String {
    let workload = case.workload.trim_end_matches(", p99");
    format!("{workload}, p99 below {}", show_seconds(bound.below))
}

/// Returns the answer of a target: `pass on ext4, p99 3.10 ms [2.90 ms, 3.40 ms]`.
pub(crate) fn sentence(target: &str, cell: &MeasuredCell, answer: BoundAnswer) -> String {
    let value = match &cell.estimate {
        None => "which has no value".to_owned(),
        Some(estimate) => match estimate.interval {
            None => format!("p99 {}", show_seconds(estimate.value)),
            Some(interval) => format!(
                "p99 {} [{}, {}]",
                show_seconds(estimate.value),
                show_seconds(interval.lo),
                show_seconds(interval.hi)
            ),
        },
    };
    let state = match (answer.state, answer.seconds) {
        (BoundState::Pass, _) => "pass".to_owned(),
        (BoundState::Fail, _) => "fail".to_owned(),
        (BoundState::CannotTell, None) => "cannot tell".to_owned(),
        (BoundState::CannotTell, Some(seconds)) => {
            format!("cannot tell before about {} more", rough(seconds))
        }
    };
    format!("{state} on {target}, {value}")
}

/// Returns the worst answer of all targets and cases. `None` if no case has a bound.
pub fn worst(summary: &Numbers) -> Option<BoundState> {
    let mut states = Vec::new();
    for cell in summary.cells() {
        states.extend(cell.bound.map(|answer| answer.state));
    }
    let from_worst = [BoundState::Fail, BoundState::CannotTell, BoundState::Pass];
    from_worst.into_iter().find(|state| states.contains(state))
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::LATENCY_P99;

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    /// Returns a run of one case with a bound of 10 ms, where the p99 of ext4 and xfs is `millis`,
    /// with a scatter of `spread`.
    fn run(millis: [f64; 2], spread: f64, blocks: u32) -> Summary {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], blocks);
        let label = record.cells[0].label.clone();
        record.cells.truncate(1);
        trials.retain(|trial| trial.workload == label);
        for trial in &mut trials {
            let place = usize::from(trial.target == "xfs");
            let swing = 1.0 + spread * (f64::from(trial.block % 3) - 1.0);
            let seconds = millis[place] * 1e-3 * swing;
            trial.metrics = vec![LATENCY_P99.metric(seconds)];
            trial.params.insert("p99_below".to_owned(), "10ms".into());
        }
        Summary::of_run(&record, &trials)
    }

    #[test]
    fn a_target_passes_fails_or_cannot_be_judged() {
        let summary = run([4.0, 20.0], 0.05, 9);
        let [line] = &lines(&summary)[..] else {
            panic!()
        };
        let (_, answers) = line.split_once(", p99 below 10.0 ms: ").unwrap();
        let (first, second) = answers.split_once("; ").unwrap();
        assert!(first.starts_with("pass on ext4, p99 4.00 ms [3."), "{line}");
        assert!(second.starts_with("fail on xfs, p99 20.0 ms [1"), "{line}");
        assert_eq!(worst(&summary), Some(BoundState::Fail));
        let open = run([4.0, 10.0], 0.05, 9);
        assert_eq!(worst(&open), Some(BoundState::CannotTell));
        let kept = run([4.0, 5.0], 0.05, 9);
        assert_eq!(worst(&kept), Some(BoundState::Pass));
    }

    #[test]
    fn more_time_is_asked_for_where_it_would_help() {
        let summary = run([9.0, 9.0], 0.3, 9);
        let answer = summary.cases[0].cells[0].bound.unwrap();
        assert_eq!(answer.state, BoundState::CannotTell);
        assert!(answer.seconds.unwrap() > 0.0);
        let [line] = &lines(&summary)[..] else {
            panic!()
        };
        assert!(line.contains("cannot tell before about "), "{line}");
    }

    #[test]
    fn few_blocks_tell_nothing_and_a_rate_has_no_bound_of_its_own() {
        let few = run([4.0, 4.0], 0.05, 2);
        assert_eq!(worst(&few), Some(BoundState::CannotTell));
        assert!(few.cases[0].cells[0].bound.unwrap().seconds.unwrap() > 0.0);
        let with_rate = [("p99_below", "10ms".into()), ("rate", 1000.into())];
        let params = with_rate.map(|(key, value)| (key.to_owned(), value));
        assert_eq!(bound(&params.into_iter().collect()), None);
    }
}
