//! Gates: what makes a comparison fail where that was asked for.

use std::path::{Path, PathBuf};

use fsb_analysis::compare::{Document, Finding, Operation};
use fsb_analysis::{FEWEST_RUNS_JUDGED, Verdict};
use fsb_report::run::{Summary, TrustLevel};
use fsb_report::show::listed;
use fsb_report::unjudged_of;

use crate::stderr::say;
use crate::{exit, stored};

/// A comparison, and those of its sets that a gate judges.
pub struct Judged<'d> {
    /// The comparison.
    pub document: &'d Document,
    /// Names of sets; the baseline is none of them.
    pub sets: Vec<&'d str>,
}

impl<'d> Judged<'d> {
    /// Every set but the baseline.
    pub fn all(document: &'d Document) -> Judged<'d> {
        let names = document.sets.iter().map(|set| set.name.as_str());
        Judged { document, sets: names.filter(|name| *name != document.baseline).collect() }
    }
}

/// Fails where a set is slower than the baseline for sure and by more than matters: at an operation as a whole (the
/// verdict `slower`, from the runs, in the metric it is judged by), or in a finding whose whole interval lies beyond the smallest ratio that matters.
/// Probably slower does not fail: what is sure there may be too small to matter. Runs of several targets are several comparisons,
/// each of a target with itself.
pub fn slower(judged: &[Judged<'_>]) -> u8 {
    let lost = |judged: &Judged<'_>| -> Vec<String> {
        let document = judged.document;
        let of_set = |set: &&str| Some(format!("{set} is slower than {} {}", document.baseline, lost(document, set)?));
        judged.sets.iter().filter_map(of_set).collect()
    };
    let lost: Vec<String> = judged.iter().flat_map(lost).collect();
    if lost.is_empty() {
        return passed(judged);
    }
    // By how much stands in the comparison.
    say(&format!("--fail-if slower: failed: {}", lost.join("; ")));
    exit::GATE
}

/// Says which of these runs have too low a trust to decide a gate, and why; `None` where each can.
pub fn refused(runs: &[PathBuf]) -> anyhow::Result<Option<u8>> {
    let reason = |path: &Path| -> anyhow::Result<Option<String>> {
        let stored = stored::read(path)?;
        let trust = Summary::of_shown(&stored.record, &stored.trials).trust;
        let low = trust.filter(|trust| trust.level == TrustLevel::Low);
        Ok(low.map(|trust| format!("{}: {}", path.display(), trust.because.join("; "))))
    };
    let mut reasons = Vec::new();
    for path in runs {
        reasons.extend(reason(path)?);
    }
    if reasons.is_empty() {
        return Ok(None);
    }
    say(&format!("--fail-if slower: cannot tell: a run of low trust cannot decide: {}", reasons.join("; ")));
    Ok(Some(exit::REQUEST))
}

/// A gate that could judge nothing has not been passed.
fn passed(judged: &[Judged<'_>]) -> u8 {
    let count = |judged: &Judged<'_>| {
        let has = |operation: &&Operation| judged.sets.iter().any(|set| is_judged(operation, set));
        primary(judged.document).filter(has).count()
    };
    let all: usize = judged.iter().map(|judged| primary(judged.document).count()).sum();
    let count: usize = judged.iter().map(count).sum();
    if count == 0 {
        let withheld = judged.iter().any(|judged| judged.document.withheld);
        let reason = judged.iter().find_map(|judged| unjudged_of(judged.document));
        say(&match reason.filter(|_| !withheld) {
            _ if withheld => "--fail-if slower: cannot tell: these runs are too few to judge".to_owned(),
            Some(reason) => format!("--fail-if slower: cannot tell: {reason}"),
            None => {
                format!("--fail-if slower: cannot tell: at least {FEWEST_RUNS_JUDGED} runs on each side are needed")
            }
        });
        return exit::REQUEST;
    }
    if count < all {
        say(&format!("--fail-if slower: {count} of {all} operations could be judged"));
    }
    exit::DONE
}

/// Operations in the metric that each is judged by.
fn primary(document: &Document) -> impl Iterator<Item = &Operation> {
    document.operations.iter().filter(|operation| operation.primary)
}

/// What an operation says of a set.
fn verdict(operation: &Operation, set: &str) -> Option<Verdict> {
    Some(operation.estimate.against.get(set)?.as_ref()?.verdict)
}

fn is_judged(operation: &Operation, set: &str) -> bool {
    verdict(operation, set).is_some_and(|verdict| verdict != Verdict::NotJudged)
}

/// What a set is slower at: `at write and fwrite, and at some sizes of read`.
fn lost(document: &Document, set: &str) -> Option<String> {
    let whole = with(document, set, Verdict::Slower);
    let theta = document.settings.theta;
    let mut parts: Vec<String> = Vec::new();
    for found in document.findings.iter().filter(|found| found.candidate == set && !found.faster) {
        let name = named(found.workload.as_deref(), &found.operation);
        // What was told of the whole is not told of its sizes again.
        if beyond(found, theta) && !whole.contains(&name) && !parts.contains(&name) {
            parts.push(name);
        }
    }
    let at = [("at", &whole), ("at some sizes of", &parts)];
    let at = at.iter().filter(|(_, names)| !names.is_empty());
    let at: Vec<String> = at.map(|(at, names)| format!("{at} {}", listed(names))).collect();
    (!at.is_empty()).then(|| at.join(", and "))
}

/// Operations as a whole at which a set has that verdict.
fn with(document: &Document, set: &str, wanted: Verdict) -> Vec<String> {
    let found = primary(document).filter(|operation| verdict(operation, set) == Some(wanted));
    found.map(|operation| named(operation.workload.as_deref(), &operation.operation)).collect()
}

/// As tables name it.
fn named(workload: Option<&str>, operation: &str) -> String {
    workload.map_or_else(|| operation.replace('_', " "), str::to_owned)
}

/// Whether the interval lies wholly on one side, further from 1 than matters.
fn beyond(found: &Finding, theta: f64) -> bool {
    let least = theta.ln_1p();
    let [lo, hi] = found.ci95.map(f64::ln);
    hi < -least || lo > least
}
