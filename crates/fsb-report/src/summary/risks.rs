//! Unsafe targets: the rule which of them may win, and the statements of a report on them.

use fsb_model::RunRecord;
use fsb_model::run::Risk;
use fsb_model::storage::Promise;
use fsb_stats::{RankingOutcome, Verdict};

use super::model::{Numbers, TargetSummary, Workload};
use super::unproven;
use crate::mark;
use crate::show::{counted, listed, some_cases};

/// Returns the risks of a target of the plan.
pub(crate) fn of_target<'a>(record: &'a RunRecord, target: &str) -> &'a [Risk] {
    record.targets.get(target).map_or(&[], |found| &found.risks)
}

/// Returns the places of targets that may not win: unsafe ones beside safe ones, unless the plan
/// lets them. A target that was not made or failed counts as neither.
pub(crate) fn barred(record: &RunRecord) -> Vec<usize> {
    let targets = &record.plan.targets;
    let made: Vec<usize> = (0..targets.len())
        .filter(|place| {
            record
                .targets
                .get(&targets[*place].name)
                .is_some_and(|found| found.failed.is_none())
        })
        .collect();
    let barred: Vec<usize> = made
        .iter()
        .copied()
        .filter(|place| !of_target(record, &targets[*place].name).is_empty())
        .collect();
    if record.plan.risky || barred.len() == made.len() {
        Vec::new()
    } else {
        barred
    }
}

/// Names the risk of every unsafe target that is among the best of a case, before the answer does.
pub(crate) fn preface(summary: &Numbers) -> String {
    let is_best = |place: usize| {
        summary
            .cases
            .iter()
            .any(|case| match &case.ranking.outcome {
                RankingOutcome::Winner(winner) => *winner == place,
                RankingOutcome::Tie(tied) => tied.contains(&place),
                _ => false,
            })
    };
    let targets = summary.targets.iter().enumerate();
    let best = targets.filter(|(place, target)| !target.risks.is_empty() && is_best(*place));
    best.map(|(_, target)| format!("{}. ", mark::statement(&target.name, &target.risks)))
        .collect()
}

/// Returns the barred targets that are faster than every contender of a case, as text such as `;
/// ext4,barrier=0 (unsafe: a power failure may lose synced data) is faster at 3`.
pub(crate) fn faster(summary: &Numbers) -> String {
    let said = barred_targets(summary).filter_map(|(place, target)| {
        let wins = summary
            .cases
            .iter()
            .filter(|case| beats_contenders(case, place))
            .count();
        (wins > 0).then(|| {
            format!(
                "; {} is faster at {wins}",
                mark::name_with_loss(&target.name, &target.risks)
            )
        })
    });
    said.collect()
}

/// Names the targets that may not win and are faster than every contender of one case.
pub(crate) fn faster_at(summary: &Numbers, case: &Workload) -> String {
    let targets = summary.targets.iter().enumerate();
    let said = targets
        .filter(|(place, _)| !case.ranking.may_win(*place) && beats_contenders(case, *place));
    said.map(|(place, target)| {
        let unproven = &case.cells[place].unproven;
        if unproven.is_empty() {
            let name = mark::name_with_loss(&target.name, &target.risks);
            format!("; {name} is faster")
        } else {
            format!(
                "; {} ({}) is faster",
                target.label(),
                unproven::text(unproven)
            )
        }
    })
    .collect()
}

/// Names what the targets that may win at a case have in common: `safe target`, or `target known to
/// be durable`.
pub(crate) fn kind_of_contenders(summary: &Numbers, case: &Workload) -> String {
    let is_unsafe = |place: &usize| !summary.targets[*place].may_win;
    if (0..case.cells.len()).any(|place| is_unsafe(&place)) {
        return "safe target".to_owned();
    }
    let unproven = case.cells.iter().flat_map(|cell| &cell.unproven);
    match unproven.max() {
        Some(Promise::Direct) => "target known to be direct".to_owned(),
        _ => "target known to be durable".to_owned(),
    }
}

/// Returns the answer if exactly one target is safe: `ext4 is the only safe target; …`.
pub(crate) fn only_safe(summary: &Numbers) -> Option<String> {
    let mut safe = summary.targets.iter().filter(|target| target.may_win);
    let (Some(only), None) = (safe.next(), safe.next()) else {
        return None;
    };
    let workloads = counted(summary.cases.len(), "workload");
    let faster = faster(summary);
    let faster = if faster.is_empty() {
        "; no unsafe target is faster".to_owned()
    } else {
        faster
    };
    (summary.targets.len() > 1).then(|| {
        format!(
            "{} is the only safe target at {workloads}{faster}.",
            only.name
        )
    })
}

/// Returns the statement that unsafe targets do different work if a case is durable.
pub(crate) fn durable(summary: &Numbers) -> Option<String> {
    let cases: Vec<String> = summary
        .cases
        .iter()
        .filter(|case| case.durable)
        .map(|case| case.workload.clone())
        .collect();
    let targets = summary
        .targets
        .iter()
        .filter(|target| !target.risks.is_empty());
    let targets: Vec<String> = targets
        .map(|target| mark::statement(&target.name, &target.risks))
        .collect();
    let another = summary.targets.iter().any(|target| target.risks.is_empty());
    (!cases.is_empty() && !targets.is_empty()).then(|| {
        let work = if another {
            "an unsafe target does different work than a safe one"
        } else {
            "no target is safe"
        };
        format!(
            "durable cases ({}): {work}: {}",
            some_cases(&cases),
            targets.join("; ")
        )
    })
}

fn barred_targets(summary: &Numbers) -> impl Iterator<Item = (usize, &TargetSummary)> {
    summary
        .targets
        .iter()
        .enumerate()
        .filter(|(_, target)| !target.may_win)
}

/// Returns whether a target is faster than the winner of a case, or than every target that may be
/// the winner.
fn beats_contenders(case: &Workload, place: usize) -> bool {
    let beats = |contender: &usize| case.ranking.verdict(*contender, place) == Verdict::Faster;
    match &case.ranking.outcome {
        RankingOutcome::Winner(contender) | RankingOutcome::Alone(contender) => beats(contender),
        RankingOutcome::Tie(contenders) | RankingOutcome::Undecided(contenders) => {
            contenders.iter().all(beats)
        }
        RankingOutcome::NotJudged | RankingOutcome::Nothing => false,
    }
}

/// Returns the names of targets as tables and sentences show them.
pub(crate) fn names(summary: &Numbers, places: &[usize]) -> String {
    listed(
        &places
            .iter()
            .map(|place| summary.targets[*place].label())
            .collect::<Vec<_>>(),
    )
}
