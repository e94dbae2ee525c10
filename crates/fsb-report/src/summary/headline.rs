//! The answer in a sentence, and one finding per case.

use std::mem::discriminant;

use fsb_model::Better;
use fsb_stats::{
    Comparison, FEWEST_JUDGED, Interval, Ranking, RankingOutcome, Resolution, Verdict,
};

use super::model::{Numbers, TargetSummary, Workload};
use super::trial_value::CompactTrial;
use super::withheld::Withheld;
use super::{interference, neighbours, risks};
use crate::answer::{CountedOutcome, RowAnswer, TallyWords, bound, tally, unjudged_answer};
use crate::show::{
    Change, Paragraph, TOO_WIDE, capital, counted, listed, listed_or_counted, some_cases,
};

/// Returns the whole answer: what precedes it, the answer itself, and the strongest effect of a
/// background.
pub(crate) fn answer(summary: &Numbers, trials: &[CompactTrial]) -> String {
    let simulated = simulated(summary).unwrap_or_default();
    let preface = interference::preface(trials).or_else(|| withheld(summary));
    let answer = simulated + &preface.unwrap_or_default() + &headline(summary);
    match neighbours::strongest(summary) {
        Some(line) => format!("{answer} {line}"),
        None => answer,
    }
}

/// Returns the answer: the number of workloads at which each target is fastest, the ties and the
/// undecided ones.
fn headline(summary: &Numbers) -> String {
    let total = summary.cases.len();
    if summary.blocks == 0 {
        return "Nothing was measured.".to_owned();
    }
    if !summary.has_values() {
        return format!(
            "Nothing was measured: no value at {}.",
            match summary.cases.as_slice() {
                [case] => case.workload.clone(),
                cases => counted(cases.len(), "workload"),
            }
        );
    }
    if let Some(why) = &summary.unjudged {
        let scope = format!(
            "{} in {} on {}",
            counted(total, "workload"),
            counted(summary.blocks as usize, "block"),
            listed_or_counted(&names(summary), "target")
        );
        return unjudged_answer(why, &scope);
    }
    if !summary.is_comparison() {
        let workloads = counted(total, "workload");
        return format!(
            "{}: {workloads} in {}.",
            summary.baseline_name(),
            counted(summary.blocks as usize, "block")
        );
    }
    if are_all_withheld(summary) {
        let reasons = withheld_reasons(summary);
        let (workloads, blocks) = (
            counted(total, "workload"),
            counted(summary.blocks as usize, "block"),
        );
        let because: Vec<String> = reasons.iter().map(|(why, _)| why.summarized()).collect();
        return format!(
            "{workloads}, {blocks}: not judged: {}; {}.",
            listed(&because),
            reasons[0].0.remedy()
        );
    }
    if !summary.is_judged()
        && summary
            .cases
            .iter()
            .any(|case| case.ranking.outcome == RankingOutcome::NotJudged)
    {
        let (workloads, blocks) = (
            counted(total, "workload"),
            counted(summary.blocks as usize, "block"),
        );
        return format!("{workloads}, {blocks}: described, not judged.");
    }
    if let [case] = summary.cases.as_slice() {
        return risks::preface(summary) + &case.finding;
    }
    if let Some(answer) = risks::only_safe(summary) {
        return answer;
    }
    let outcomes: Vec<CountedOutcome<'_>> = summary
        .cases
        .iter()
        .map(|case| CountedOutcome {
            outcome: &case.ranking.outcome,
            resolution: case.resolution,
        })
        .collect();
    let words = TallyWords {
        best: "fastest",
        row: "workload",
        alone: "on one target only",
        theta: summary.theta,
    };
    let answer = tally(&names(summary), &outcomes, words);
    let faster = risks::faster(summary);
    format!(
        "{}{}{faster}.",
        risks::preface(summary),
        answer.trim_end_matches('.')
    )
}

/// Returns a sentence such as `Overall: xfs +2 % [-1 +6], btrfs -51 % [-52 -50] against ext4 (in
/// this run).` Returns `None` if no target is compared over several cases. Of more targets than a
/// sentence holds, it names the fastest and the slowest.
pub(crate) fn overall(summary: &Numbers) -> Option<String> {
    const NAMED: usize = 4;
    let is_answered =
        summary.cases.len() > 1 && summary.is_judged() && risks::only_safe(summary).is_none();
    if summary.unjudged.is_some() || !is_answered {
        return None;
    }
    let targets = summary.targets.iter().zip(&summary.overall);
    let changes: Vec<String> = targets
        .filter_map(|(target, overall)| {
            let comparison = &overall.as_ref()?.comparison;
            (comparison.verdict != Verdict::NotJudged).then(|| {
                format!(
                    "{} {}",
                    target.label(),
                    Change::from_comparison(comparison).text()
                )
            })
        })
        .collect();
    let changes = match changes.len() {
        0 => return None,
        1..=NAMED => changes.join(", "),
        _ => ends_of_overall(summary)?,
    };
    Some(format!(
        "Overall: {changes} against {} (in this run).",
        summary.baseline_name()
    ))
}

/// Returns the fastest and the slowest target over all cases: `from xfs +4 % [+2 +6] to btrfs -85 %
/// [-87 -83]`.
fn ends_of_overall(summary: &Numbers) -> Option<String> {
    /// Longer text would fill the screen with names.
    const LONGEST: usize = 120;
    let targets = summary.targets.iter().zip(&summary.overall);
    let mut found: Vec<(&TargetSummary, &Comparison)> = targets
        .filter_map(|(target, overall)| Some((target, &overall.as_ref()?.comparison)))
        .collect();
    found.retain(|(_, comparison)| comparison.verdict != Verdict::NotJudged);
    found.sort_by(|(_, a), (_, b)| b.ratio.total_cmp(&a.ratio));
    let shown = |(target, comparison): &(&TargetSummary, &Comparison)| {
        format!(
            "{} {}",
            target.label(),
            Change::from_comparison(comparison).text()
        )
    };
    let text = format!("from {} to {}", shown(found.first()?), shown(found.last()?));
    (text.len() <= LONGEST).then_some(text)
}

/// Returns the beginning of a headline if some cases are withheld: their number, the reasons and
/// the remedies.
fn withheld(summary: &Numbers) -> Option<String> {
    let all = summary.cases.len();
    are_some_withheld(summary).then(|| {
        withheld_reasons(summary)
            .into_iter()
            .map(|(why, cases)| {
                format!(
                    "Not judged at {} of {all} workloads: {}; {}. ",
                    cases.len(),
                    why.summarized(),
                    why.remedy()
                )
            })
            .collect()
    })
}

/// Returns whether the answer names the reasons why cases are not judged. It has no room for them
/// if it begins with interference, unless they are the whole answer.
pub(crate) fn names_withheld(summary: &Numbers, trials: &[CompactTrial]) -> bool {
    are_all_withheld(summary)
        || are_some_withheld(summary) && interference::preface(trials).is_none()
}

fn are_some_withheld(summary: &Numbers) -> bool {
    let withheld = summary
        .cases
        .iter()
        .filter(|case| case.withheld.is_some())
        .count();
    (1..summary.cases.len()).contains(&withheld) && summary.is_comparison()
}

fn are_all_withheld(summary: &Numbers) -> bool {
    summary.cases.len() > 1 && summary.cases.iter().all(|case| case.withheld.is_some())
}

/// Returns each kind of reason why cases are not judged, with the labels of its cases. The first
/// reason of a kind represents all.
pub(crate) fn withheld_reasons(summary: &Numbers) -> Vec<(&Withheld, Vec<String>)> {
    let mut reasons: Vec<(&Withheld, Vec<String>)> = Vec::new();
    for case in &summary.cases {
        let Some(found) = &case.withheld else {
            continue;
        };
        match reasons
            .iter_mut()
            .find(|(known, _)| discriminant(*known) == discriminant(found))
        {
            Some((_, cases)) => cases.push(case.workload.clone()),
            None => reasons.push((found, vec![case.workload.clone()])),
        }
    }
    reasons
}

/// Returns the beginning of a headline if a target is simulated.
fn simulated(summary: &Numbers) -> Option<String> {
    let simulated: Vec<String> = summary
        .targets
        .iter()
        .filter(|target| target.simulated)
        .map(TargetSummary::label)
        .collect();
    match simulated.len() {
        0 => None,
        all if all == summary.targets.len() => {
            Some("Simulated times: no file system is measured. ".to_owned())
        }
        _ => Some(format!(
            "Simulated times on {}: no file system is measured there. ",
            listed(&simulated)
        )),
    }
}

/// Writes each case's finding.
pub(crate) fn add_findings(summary: &mut Numbers) {
    let names = names(summary);
    let findings: Vec<String> = summary
        .cases
        .iter()
        .map(|case| finding(summary, &names, case))
        .collect();
    for (case, finding) in summary.cases.iter_mut().zip(findings) {
        case.finding = finding;
    }
}

fn names(summary: &Numbers) -> Vec<String> {
    summary.labels()
}

fn finding(summary: &Numbers, names: &[String], case: &Workload) -> String {
    let faster = risks::faster_at(summary, case);
    let at = &case.workload;
    let details = match &case.ranking.outcome {
        RankingOutcome::Winner(winner) => margin(summary, case, *winner),
        RankingOutcome::Tie(tied) => losers(summary, case, tied),
        RankingOutcome::Undecided(open) => {
            directions(summary, case, open) + &losers(summary, case, open)
        }
        RankingOutcome::Alone(only) if barred_have_values(summary, case) => {
            let losers = losers(summary, case, &[*only]);
            let kind = risks::kind_of_contenders(summary, case);
            return format!(
                "{} is the only {kind} at {at}{losers}{faster}.",
                names[*only]
            );
        }
        RankingOutcome::Alone(only) if !summary.is_comparison() => return alone(case, *only),
        RankingOutcome::NotJudged if !summary.is_comparison() && summary.unjudged.is_none() => {
            return format!("No value at {at}.");
        }
        _ => String::new(),
    };
    let unjudged = match (&summary.unjudged, &case.withheld) {
        (Some(why), _) => format!(": {why}"),
        (None, Some(why)) => format!(": {}; {}", why.to_text(), why.remedy()),
        (None, None) => format!(": fewer than {FEWEST_JUDGED} blocks in common"),
    };
    RowAnswer {
        at,
        names,
        outcome: &case.ranking.outcome,
        resolution: case.resolution,
        is_pair: false,
        unjudged,
        details: details + &faster,
    }
    .sentence()
}

/// Names the contenders that are probably or perhaps faster than another one.
fn directions(summary: &Numbers, case: &Workload, open: &[usize]) -> String {
    let pairs = open
        .iter()
        .flat_map(|faster| open.iter().map(move |slower| (*faster, *slower)));
    let name = |target: usize| summary.targets[target].label();
    pairs
        .filter_map(
            |(faster, slower)| match case.ranking.verdict(slower, faster) {
                verdict @ (Verdict::ProbablyFaster | Verdict::PerhapsFaster) => Some(format!(
                    "; {} is {} than {}",
                    name(faster),
                    verdict.words(),
                    name(slower)
                )),
                _ => None,
            },
        )
        .collect()
}

/// The headline names at most this number of rivals that are not the closest.
const RIVALS_NAMED: usize = 3;

/// Returns the lead of the winner over its closest rival, and over the others. Of many others, it
/// names the slowest.
fn margin(summary: &Numbers, case: &Workload, winner: usize) -> String {
    // The closest rival is the one that the winner leads by the smallest ratio of speeds.
    let lead = |ratio: f64| {
        if case.better == Better::Higher {
            ratio
        } else {
            1.0 / ratio
        }
    };
    let rivals =
        (0..case.cells.len()).filter(|target| *target != winner && case.ranking.may_win(*target));
    let mut rivals: Vec<(usize, f64)> = rivals
        .filter_map(|rival| Some((rival, lead(case.ranking.comparison(rival, winner)?.ratio))))
        .collect();
    rivals.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let rivals: Vec<usize> = rivals.into_iter().map(|(rival, _)| rival).collect();
    let Some((closest, others)) = rivals.split_first() else {
        return String::new();
    };
    let Change { center, interval } = change_of_lead(summary, case, winner, *closest);
    let what = if case.better == Better::Higher {
        ""
    } else {
        " in time"
    };
    let interval = interval
        .map(|interval| format!(" (95 % CI {})", interval.in_words()))
        .unwrap_or_default();
    let said = |rival: usize, change: &str| match winner == summary.baseline {
        true => format!("{} {change}", summary.targets[rival].label()),
        false => format!("{change} against {}", summary.targets[rival].label()),
    };
    let shown = |rival: &usize| {
        said(
            *rival,
            &change_of_lead(summary, case, winner, *rival).text(),
        )
    };
    let others = match others {
        many if many.len() > RIVALS_NAMED => {
            let slowest = many.last().map(shown).unwrap_or_default();
            format!(
                "; {} are slower, up to {slowest}",
                counted(many.len(), "other")
            )
        }
        few => few
            .iter()
            .map(|rival| format!("; {}", shown(rival)))
            .collect(),
    };
    format!(
        ": {}{interval}{others}",
        said(*closest, &format!("{center}{what}"))
    )
}

/// Returns the change between the winner and a rival. Like the table, the headline gives the change
/// against the baseline if the baseline is one of the two.
fn change_of_lead(summary: &Numbers, case: &Workload, winner: usize, rival: usize) -> Change {
    let (baseline, candidate) = if winner == summary.baseline {
        (winner, rival)
    } else {
        (rival, winner)
    };
    let found = case.ranking.comparison(baseline, candidate);
    found.map_or(
        Change {
            center: String::new(),
            interval: None,
        },
        |found| Change::from_comparison(&found),
    )
}

/// Names the targets that are slower than every contender, then those that are slower than some of
/// them.
fn losers(summary: &Numbers, case: &Workload, contenders: &[usize]) -> String {
    let name = |target: usize| summary.targets[target].label();
    let others = || {
        (0..case.cells.len())
            .filter(|target| !case.cells[*target].trials.is_empty() && !contenders.contains(target))
    };
    let slower_than_all = |target: &usize| case.ranking.is_slower_than_all(*target, contenders);
    let slower: Vec<String> = others().filter(slower_than_all).map(name).collect();
    let of_all = match slower.len() {
        0 => String::new(),
        1 => format!("; {} is slower", slower[0]),
        _ => format!("; {} are slower", listed(&slower)),
    };
    let of_some = others()
        .filter(|target| !slower_than_all(target))
        .filter_map(|target| {
            let faster = contenders
                .iter()
                .filter(|contender| case.ranking.is_slower_than_all(target, &[**contender]));
            let faster: Vec<String> = faster.map(|contender| name(*contender)).collect();
            (!faster.is_empty())
                .then(|| format!("; {} is slower than {}", name(target), listed(&faster)))
        });
    of_all + &of_some.collect::<String>()
}

/// Returns whether a target that may not win was measured at this case.
fn barred_have_values(summary: &Numbers, case: &Workload) -> bool {
    let cells = summary.cells_of(case);
    let mut places = cells.into_iter().enumerate();
    places.any(|(place, (_, cell))| !case.ranking.may_win(place) && !cell.trials.is_empty())
}

fn alone(case: &Workload, only: usize) -> String {
    let Some(estimate) = &case.cells[only].estimate else {
        return format!("No value at {}.", case.workload);
    };
    let interval = estimate
        .interval
        .filter(|_| estimate.is_judged())
        .map(|found| match found {
            wide if wide.relative_half_width() > 1.0 => format!(" (95 % CI {TOO_WIDE})"),
            Interval { lo, hi } => format!(
                " (95 % CI {} to {})",
                case.unit.show(lo),
                case.unit.show(hi)
            ),
        })
        .unwrap_or_default();
    format!(
        "{}: {}{interval}.",
        case.workload,
        case.unit.show(estimate.value)
    )
}

/// Returns a line below the table for each kind of case without a winner.
pub(crate) fn resolution_lines(summary: &Numbers) -> Vec<String> {
    let cases_with = |wanted: fn(Resolution) -> bool| {
        some_cases(
            &summary
                .cases
                .iter()
                .filter_map(|case| {
                    let resolution = case.resolution.filter(|resolution| wanted(*resolution))?;
                    Some(format!(
                        "{} at {}",
                        bound(resolution.change()),
                        case.workload
                    ))
                })
                .collect::<Vec<_>>(),
        )
    };
    let lines = [
        (
            "Equal within ",
            cases_with(|found| matches!(found, Resolution::EqualWithin(_))),
        ),
        (
            "No difference larger than ",
            cases_with(|found| matches!(found, Resolution::NoDifferenceAbove(_))),
        ),
        (
            "A difference of no more than ",
            cases_with(|found| matches!(found, Resolution::NoMoreThan(_))),
        ),
        (
            "Undecided, up to ",
            cases_with(|found| matches!(found, Resolution::Undecided(_))),
        ),
    ];
    lines
        .into_iter()
        .filter(|(_, cases)| !cases.is_empty())
        .map(|(start, cases)| format!("{start}{cases}."))
        .collect()
}

// Runs that give numbers and judge nothing: on an emulated machine, on an array whose members share
// one disk.

/// Removes the comparisons of targets: ranks, letters, ratios, overall results. Measured values
/// remain.
pub(crate) fn strip_verdicts(cases: &mut [Workload]) {
    for case in cases {
        let outcome = match case.ranking.outcome {
            RankingOutcome::Nothing => RankingOutcome::Nothing,
            _ => RankingOutcome::NotJudged,
        };
        case.ranking = Ranking::without_pairs(case.cells.len(), outcome);
        case.resolution = None;
        for cell in &mut case.cells {
            (cell.against, cell.scatter) = (None, None);
            cell.mark.clear();
            cell.secondary
                .iter_mut()
                .for_each(|secondary| secondary.against = None);
        }
    }
}

/// Returns the paragraph on the reason, for the methods.
pub(crate) fn unjudged_method(summary: &Numbers, why: &str) -> Paragraph {
    let more = if summary.emulated {
        " Emulated processors multiply the time that code takes, but not that of the device, so the order of targets \
         says nothing about a real machine. Such numbers show that a plan runs and how much it writes; fsb never \
         compares them with native ones."
    } else {
        " All members share one disk, so the run cannot measure what an array gains."
    };
    Paragraph {
        title: "Why nothing is judged",
        text: format!("{}.{more}", capital(why)),
    }
}

/// Runs of this kind, for the tests of all formats.
#[cfg(test)]
pub(crate) mod samples {
    use fsb_model::run::MediumRecord;
    use fsb_model::{RunRecord, Trial};

    use crate::sample;

    /// On emulated processors.
    pub(crate) fn emulated(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
        let (mut record, trials) = sample::run(targets, blocks);
        record.emulated = true;
        (record, trials)
    }

    /// With an array whose members share one disk.
    pub(crate) fn one_disk(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
        let (mut record, trials) = sample::run(targets, blocks);
        let why = "members of raid0:loop+loop share one disk".to_owned();
        let medium = MediumRecord {
            unjudged: Some(why),
            ..record.media["loop"].clone()
        };
        record.media = [("raid0:loop+loop".to_owned(), medium)].into();
        (record, trials)
    }
}
