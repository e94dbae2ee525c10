//! Comparisons between runs in words: why one is not judged, which change it can detect, and how a
//! target changed.

use std::collections::BTreeSet;

use fsb_model::units::Bytes;
use fsb_stats::compare::{
    Condition, ConditionDifference, ConditionValue, Document, Observed, Operation, RunLevel,
    SetSummary, TargetByTarget,
};
use fsb_stats::{BetweenSource, FEWEST_RUNS_JUDGED, Interval, Method, Unjudged, Verdict};

use crate::show::{Change, capital, counted, percent, percent_above};
use crate::view::Changes;

/// Returns the reason why a comparison of runs has no verdict. Returns `None` if any operation is
/// judged, or if the cause is not a lack of runs.
pub fn unjudged_of(document: &Document) -> Option<String> {
    let between_runs = || {
        judged_by(document)
            .flat_map(|operation| operation.estimate.against.values().flatten())
            .filter(|level| is_between_runs(level))
    };
    if document.unjudged.is_some()
        || document.withheld
        || between_runs().any(|level| level.unjudged.is_none())
    {
        return None;
    }
    between_runs().find_map(|level| level.unjudged).map(reason)
}

fn reason(unjudged: Unjudged) -> String {
    match unjudged {
        Unjudged::OneRun => "one run on each side: the variation between runs is unknown".to_owned(),
        Unjudged::FewRuns => {
            format!("fewer than {FEWEST_RUNS_JUDGED} runs on a side: too few to estimate the variation between runs")
        }
        Unjudged::NoSharedSession => {
            "the sides were measured in different sessions (boot and day): the variation between sessions is unknown"
                .to_owned()
        }
        Unjudged::Withheld => "withheld in the report of a run (see the warnings)".to_owned(),
        Unjudged::Failed => "a run failed (see the warnings)".to_owned(),
        Unjudged::NoValue => "a run has no value (see the warnings)".to_owned(),
        Unjudged::Maximum => "a maximum depends on a single operation".to_owned(),
        Unjudged::Resolution => "its times are a few ticks of the tool's clock".to_owned(),
    }
}

/// Returns the reason why an operation has no verdict.
pub(crate) fn unjudged_at(operation: &Operation) -> Option<String> {
    let gap = operation
        .gaps
        .values()
        .next()
        .map(|why| why.words().to_owned());
    let mut levels = operation.estimate.against.values().flatten();
    levels.find_map(|level| level.unjudged).map(reason).or(gap)
}

/// Returns the action that leads to a verdict, for a comparison of runs without one.
pub fn remedy_of(document: &Document) -> Option<String> {
    let levels =
        judged_by(document).flat_map(|operation| operation.estimate.against.values().flatten());
    let unjudged: BTreeSet<Unjudged> = levels.filter_map(|level| level.unjudged).collect();
    let stated = "state how much runs vary, for example with --between 5%";
    match unjudged.first()? {
        Unjudged::Withheld | Unjudged::Maximum | Unjudged::Resolution => None,
        Unjudged::Failed | Unjudged::NoValue => {
            Some("repeat the runs that failed, and name only complete ones".to_owned())
        }
        Unjudged::NoSharedSession => Some(format!(
            "measure both sides in one session by turns, or {stated}"
        )),
        _ => Some(format!(
            "make at least {FEWEST_RUNS_JUDGED} runs on each side (NAME=RUN,RUN,RUN), in the same session, or {stated}"
        )),
    }
}

/// Returns the smallest change that the comparisons between runs detect, and the number of runs
/// that would detect what matters. Returns `None` if no runs are compared, or if their variation is
/// unknown.
pub fn power_of(document: &Document) -> Option<String> {
    let levels: Vec<&RunLevel> = judged_by(document)
        .flat_map(|operation| operation.estimate.against.values().flatten())
        .filter(|level| is_between_runs(level))
        .collect();
    // Comparisons that are not judged have fewer runs, so they do not describe the judged ones.
    let judged: Vec<&RunLevel> = levels
        .iter()
        .copied()
        .filter(|level| level.unjudged.is_none())
        .collect();
    let levels = if judged.is_empty() { levels } else { judged };
    let runs = levels.iter().map(|level| level.n).min()?;
    let powers: Vec<_> = levels
        .iter()
        .filter_map(|level| Some((level, level.power?)))
        .collect();
    let mut needed: Vec<u32> = powers
        .iter()
        .map(|(_, power)| power.runs_needed.unwrap_or(u32::MAX))
        .collect();
    needed.sort_unstable();
    let theta = percent(document.settings.theta);
    let needed = match *needed.get(needed.len() / 2)? {
        u32::MAX => format!("more runs alone would not show {theta}"),
        enough if enough as usize <= runs => format!("they suffice for {theta}"),
        enough => format!(
            "{theta} needs about {} on each side",
            counted(enough as usize, "run")
        ),
    };
    let with = counted(runs, "run");
    let judged = powers.iter().filter(|(level, _)| level.unjudged.is_none());
    let mut detectable: Vec<f64> = judged.map(|(_, power)| power.detectable).collect();
    detectable.sort_by(f64::total_cmp);
    let Some(middle) = detectable.get(detectable.len() / 2) else {
        return Some(format!("As estimated from {with} on a side, {needed}."));
    };
    let source = between_text(document)
        .map(|text| format!(" ({text})"))
        .unwrap_or_default();
    Some(format!(
        "With {with} on a side{source} a change of {} is detectable (median of {}); {needed}.",
        percent_above(*middle),
        counted(detectable.len(), "comparison")
    ))
}

/// Names the source of the variation that was added, if any was.
fn between_text(document: &Document) -> Option<String> {
    let few = judged_by(document)
        .flat_map(|operation| operation.estimate.against.values().flatten())
        .filter(|level| is_between_runs(level))
        .any(|level| level.n < FEWEST_RUNS_JUDGED);
    let (what, between) = match document.settings.between_runs.filter(|_| few) {
        Some(between) => ("runs", between),
        None => ("sessions", document.settings.between_sessions?),
    };
    let sd = format!("{} between {what}", percent(between.sd));
    Some(match between.source {
        BetweenSource::Stated => format!("{sd} as stated"),
        BetweenSource::EarlierRuns { runs, .. } => {
            format!("{sd} in {}", counted(runs, "earlier run"))
        }
    })
}

/// Describes the changes of each target, then of each ratio of targets.
pub(super) fn changes(found: &TargetByTarget) -> Vec<Changes> {
    let parts = [
        ("Target by target", &found.changes),
        (
            "Ratios of targets (difference in differences)",
            &found.ratios,
        ),
    ];
    let mut changes = Vec::new();
    for (title, documents) in parts {
        let mut sets = Vec::new();
        for document in documents {
            for set in &document.sets {
                if set.name != document.baseline {
                    sets.push(change_of(document, &set.name));
                }
            }
        }
        sets.retain(|lines| !lines.is_empty());
        if !sets.is_empty() {
            changes.push(Changes { title, sets });
        }
    }
    changes
}

/// Describes the changes of a set from the baseline: a sentence, then details. Empty if they have
/// no operation in common.
fn change_of(document: &Document, set: &str) -> Vec<String> {
    let runs = |name: &str| {
        let found: Option<&SetSummary> = document.sets.iter().find(|summary| summary.name == name);
        found.map_or(0, |summary| summary.runs)
    };
    let (own, others) = (runs(set), runs(&document.baseline));
    let n = if own == others {
        format!("n = {own}")
    } else {
        format!("n = {own} and {others}")
    };
    let levels: Vec<(String, &RunLevel)> = judged_by(document)
        .filter_map(|operation| {
            Some((
                name(operation),
                operation.estimate.against.get(set)?.as_ref()?,
            ))
        })
        .collect();
    let with = |wanted: &dyn Fn(Verdict) -> bool| -> Vec<String> {
        let found = levels.iter().filter(|(_, level)| wanted(level.verdict));
        found
            .map(|(name, level)| format!("{name} {}", change(level)))
            .collect()
    };
    let head = format!("{set} against {}, in these runs ({n})", document.baseline);
    if levels.is_empty() {
        return Vec::new();
    }
    if levels
        .iter()
        .all(|(_, level)| level.verdict == Verdict::NotJudged)
    {
        let mut unjudged = levels.iter().filter_map(|(_, level)| level.unjudged);
        let why = match document.withheld {
            true => "withheld (see the warnings)".to_owned(),
            false => (unjudged.next()).map_or_else(|| "too few values".to_owned(), reason),
        };
        return vec![
            format!("{head}: not judged, {why}."),
            format!("{}.", with(&|_| true).join("; ")),
        ];
    }
    let all = counted(levels.len(), "workload");
    let theta = percent(document.settings.theta);
    let (mut counts, mut lines) = (Vec::new(), Vec::new());
    for verdict in Verdict::ALL {
        let names = with(&|found| found == verdict);
        if names.is_empty() {
            continue;
        }
        let n = names.len();
        counts.push(match verdict {
            Verdict::Equivalent => format!("equal within {theta} at {n}"),
            Verdict::Inconclusive => format!("no significant difference at {n}"),
            other => format!("{} at {n}", other.words()),
        });
        if !matches!(verdict, Verdict::Equivalent | Verdict::Inconclusive) {
            lines.push(format!(
                "{}: {}.",
                capital(verdict.words()),
                names.join("; ")
            ));
        }
    }
    lines.insert(0, format!("{head}: {} of {all}.", counts.join(", ")));
    lines.extend(power_of(document));
    lines
}

fn change(level: &RunLevel) -> String {
    let interval = level.ci95.filter(|_| level.verdict != Verdict::NotJudged);
    Change::between(level.ratio, interval.map(|[lo, hi]| Interval { lo, hi })).text()
}

fn name(operation: &Operation) -> String {
    operation
        .workload
        .clone()
        .unwrap_or_else(|| operation.operation.replace('_', " "))
}

fn judged_by(document: &Document) -> impl Iterator<Item = &Operation> {
    document
        .operations
        .iter()
        .filter(|operation| operation.primary)
}

fn is_between_runs(level: &RunLevel) -> bool {
    matches!(level.method, Method::Welch | Method::PairedRuns)
}

/// Returns a condition that is not the same in all runs: `the runs differ in the kernel release
/// (old: 6.1; new: 6.12)`.
pub fn condition_text(found: &ConditionDifference) -> String {
    let what = condition_name(found.condition);
    let target = found
        .target
        .as_ref()
        .map(|target| format!(" of {target}"))
        .unwrap_or_default();
    let common = in_all(&found.observed);
    let values: Vec<String> = found
        .observed
        .iter()
        .map(|value| {
            format!(
                "{}: {}",
                value.runs.join(", "),
                observed_text(&value.value, &common)
            )
        })
        .collect();
    format!("the runs differ in {what}{target} ({})", values.join("; "))
}

fn condition_name(condition: Condition) -> &'static str {
    match condition {
        Condition::Disk => "the disk model",
        Condition::Medium => "the medium",
        Condition::DeviceRead => "the raw device's sequential read",
        Condition::DeviceWrite => "the raw device's sequential write",
        Condition::DeviceRandomRead => "the raw device's random read",
        Condition::DeviceFlushedWrite => "the raw device's flushed write",
        Condition::Kernel => "the kernel release",
        Condition::FsbVersion => "the version of fsb",
        Condition::Targets => "the number of targets",
        Condition::SliceSize => "the slice size",
        Condition::BlockSize => "the block size",
        Condition::InodeSize => "the inode size",
        Condition::BytesPerInode => "the bytes for each inode",
        Condition::Profiles => "the profiles",
        Condition::Features => "the features",
        Condition::Risks => "the risks",
    }
}

/// Texts that every value has, which are no difference.
fn in_all(values: &[ConditionValue]) -> BTreeSet<&String> {
    let mut texts = values.iter().map(|value| match &value.value {
        Observed::Texts(texts) => texts.iter().collect(),
        _ => BTreeSet::new(),
    });
    let first = texts.next().unwrap_or_default();
    texts.fold(first, |common, texts| &common & &texts)
}

fn observed_text(value: &Observed, common: &BTreeSet<&String>) -> String {
    match value {
        Observed::Bytes(bytes) => Bytes(*bytes).to_string(),
        Observed::Count(count) => count.to_string(),
        Observed::Texts(texts) => {
            let own: Vec<&str> = texts
                .iter()
                .filter(|text| !common.contains(text))
                .map(String::as_str)
                .collect();
            if own.is_empty() {
                "none of these".to_owned()
            } else {
                own.join(", ")
            }
        }
        Observed::Rate {
            mean,
            ci95: [lo, hi],
            unit,
        } => {
            format!(
                "{} [{}, {}]",
                unit.show(*mean),
                unit.show(*lo),
                unit.show(*hi)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Unit;

    use super::*;

    fn difference(condition: Condition, target: Option<&str>, values: [Observed; 2]) -> String {
        let observed = ["old", "new"].into_iter().zip(values);
        let observed = observed
            .map(|(run, value)| ConditionValue {
                runs: vec![run.to_owned()],
                value,
            })
            .collect();
        condition_text(&ConditionDifference {
            condition,
            target: target.map(str::to_owned),
            observed,
        })
    }

    #[test]
    fn conditions_name_only_what_differs() {
        let texts =
            |texts: &[&str]| Observed::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(
            difference(
                Condition::Features,
                Some("ext4"),
                [texts(&["extent", "64bit"]), texts(&["extent"])]
            ),
            "the runs differ in the features of ext4 (old: 64bit; new: none of these)"
        );
        assert_eq!(
            difference(
                Condition::BlockSize,
                Some("ext4"),
                [Observed::Bytes(1024), Observed::Bytes(4096)]
            ),
            "the runs differ in the block size of ext4 (old: 1K; new: 4K)"
        );
        let rate = |mean: f64| Observed::Rate {
            mean,
            ci95: [0.9 * mean, 1.1 * mean],
            unit: Unit::OperationsPerSecond,
        };
        let said = difference(
            Condition::DeviceRandomRead,
            None,
            [rate(1000.0), rate(2000.0)],
        );
        assert!(
            said.starts_with("the runs differ in the raw device's random read (old: "),
            "{said}"
        );
    }
}
