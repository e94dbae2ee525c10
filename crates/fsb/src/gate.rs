//! Gates: what makes a comparison fail where that was asked for.

use fsb_analysis::Verdict;
use fsb_analysis::compare::{Document, Finding, Operation};

use fsb_report::show::listed;

use crate::exit;
use crate::progress::say;

/// Fails where a set is slower than the baseline for sure and by more than matters: at an operation as a whole (the
/// verdict `slower`, from the runs, in the metric it is judged by), or in a finding whose whole interval lies beyond the smallest ratio that matters.
/// Probably slower does not fail: what is sure there may be too small to matter. Runs of several targets are several comparisons,
/// each of a target with itself.
pub fn slower(documents: &[Document]) -> u8 {
    let lost: Vec<String> = documents.iter().flat_map(losses).collect();
    if lost.is_empty() {
        return passed(documents);
    }
    // By how much stands in the comparison.
    say(&format!("fsb: --fail-if slower: failed: {}", lost.join("; ")));
    exit::GATE
}

/// A gate that could judge nothing has not been passed.
fn passed(documents: &[Document]) -> u8 {
    let judged = |operation: &&Operation| {
        operation.estimate.against.values().flatten().any(|estimate| estimate.verdict != Verdict::NotJudged)
    };
    let operations = || documents.iter().flat_map(|document| &document.operations);
    let primary = || operations().filter(|operation| operation.primary);
    let (judged, all) = (primary().filter(judged).count(), primary().count());
    if judged == 0 {
        say(match documents.iter().any(|document| document.withheld) {
            true => "fsb: --fail-if slower: nothing could be judged by these runs",
            false => "fsb: --fail-if slower: nothing could be judged: at least 5 runs of each set are needed",
        });
        return exit::REQUEST;
    }
    if judged < all {
        say(&format!("fsb: --fail-if slower: {judged} of {all} operations could be judged"));
    }
    exit::DONE
}

/// What each set is slower at: `ext4 is slower than xfs at write and fwrite, and at some sizes of read`.
fn losses(document: &Document) -> Vec<String> {
    let sets = || document.sets.iter().map(|set| set.name.as_str());
    sets()
        .filter_map(|set| {
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
            (!at.is_empty()).then(|| format!("{set} is slower than {} {}", document.baseline, at.join(", and ")))
        })
        .collect()
}

/// Operations as a whole at which a set has that verdict.
fn with(document: &Document, set: &str, verdict: Verdict) -> Vec<String> {
    let has = |operation: &&Operation| {
        let estimate = operation.estimate.against.get(set).and_then(Option::as_ref);
        operation.primary && estimate.is_some_and(|estimate| estimate.verdict == verdict)
    };
    let found = document.operations.iter().filter(has);
    found.map(|operation| named(operation.workload.as_deref(), &operation.operation)).collect()
}

/// The same as a list of names.
pub fn rows_with(document: &Document, set: &str, verdict: Verdict) -> String {
    listed(&with(document, set, verdict))
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
