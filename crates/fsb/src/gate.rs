//! Gates: exit codes that make a comparison fail on request.

use std::fmt;
use std::path::{Path, PathBuf};

use fsb_codes::notice;
use fsb_report::run::{Summary, TrustLevel};
use fsb_report::show::{counted, listed, percent};
use fsb_report::unjudged_of;
use fsb_stats::compare::{Document, Finding, Operation};
use fsb_stats::{FEWEST_RUNS_JUDGED, Verdict};
use serde::Serialize;

use crate::message::notify;
use crate::{exit, stored};

/// A comparison, and the sets that a gate judges.
pub struct Judged<'d> {
    /// The comparison.
    pub document: &'d Document,
    /// Names of sets, without the baseline.
    pub sets: Vec<&'d str>,
}

impl<'d> Judged<'d> {
    /// Returns the comparison with every set but the baseline.
    pub fn all(document: &'d Document) -> Judged<'d> {
        let names = document.sets.iter().map(|set| set.name.as_str());
        Judged { document, sets: names.filter(|name| *name != document.baseline).collect() }
    }
}

/// Fails if a set is surely slower than the baseline, by more than the smallest ratio that matters. Either an operation
/// as a whole is slower (the verdict `slower`, from the runs, in the metric it is judged by), or a finding is, with its
/// whole interval beyond that ratio. The verdict "probably slower" does not fail, because the sure part of the
/// difference may be too small to matter. Runs of several targets are several comparisons, each of a target with
/// itself.
pub fn slower(judged: &[Judged<'_>]) -> u8 {
    let lost = |judged: &Judged<'_>| -> Vec<Lost> {
        judged.sets.iter().filter_map(|set| lost(judged.document, set)).collect()
    };
    let lost: Vec<Lost> = judged.iter().flat_map(lost).collect();
    if lost.is_empty() {
        return passed(judged);
    }
    // The comparison shows by how much.
    let text: Vec<String> = lost.iter().map(ToString::to_string).collect();
    let fields = [("slower", serde_json::to_value(&lost).unwrap_or_default())];
    notify(&notice::GATE_FAILED, fields, &format!("--fail-if slower: failed: {}", text.join("; ")));
    exit::GATE
}

/// Prints which of these runs are not trusted enough to decide a gate, and the reason; returns `None` if all are.
pub fn refused(runs: &[PathBuf]) -> anyhow::Result<Option<u8>> {
    let reason = |path: &Path| -> anyhow::Result<Option<String>> {
        let stored = stored::read(path)?;
        let trust = Summary::of_shown(&stored.record, &stored.trials).trust;
        let low = trust.filter(|trust| trust.level == TrustLevel::Low);
        Ok(low.map(|trust| format!("{}: {}", path.display(), trust.because.join("; "))))
    };
    let (mut reasons, mut refused) = (Vec::new(), Vec::new());
    for path in runs {
        if let Some(reason) = reason(path)? {
            reasons.push(reason);
            refused.push(path.to_string_lossy());
        }
    }
    if reasons.is_empty() {
        return Ok(None);
    }
    let text = format!("--fail-if slower: cannot tell: a run of low trust cannot decide: {}", reasons.join("; "));
    notify(&notice::GATE_UNDECIDED, [("reason", "low_trust".into()), ("runs", refused.into())], &text);
    Ok(Some(exit::REQUEST))
}

/// Returns the exit code of a gate that did not fail: one that could judge nothing has not passed.
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
        let levels = judged.iter().flat_map(|judged| primary(judged.document));
        let mut levels = levels.flat_map(|operation| operation.estimate.against.values().flatten());
        let unjudged = levels.find_map(|level| level.unjudged);
        let unjudged = serde_json::to_value(unjudged).unwrap_or_default();
        let (kind, why) = match reason.filter(|_| !withheld) {
            _ if withheld => ("withheld".into(), "these runs are too few to judge".to_owned()),
            Some(reason) => (unjudged, reason),
            None => ("few_runs".into(), format!("at least {FEWEST_RUNS_JUDGED} runs on each side are needed")),
        };
        let text = format!("--fail-if slower: cannot tell: {why}");
        notify(&notice::GATE_UNDECIDED, [("reason", kind)], &text);
        return exit::REQUEST;
    }
    let is_open = |judged: &Judged<'_>, operation: &Operation| {
        let open = |set: &&str| verdict(operation, set).is_some_and(is_undecided);
        judged.sets.iter().any(open)
    };
    let undecided =
        judged.iter().map(|judged| primary(judged.document).filter(|operation| is_open(judged, operation)).count());
    let (undecided, unjudged) = (undecided.sum::<usize>(), all - count);
    let open = [(undecided, "undecided"), (unjudged, "not judged")];
    let open = open.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} of {all} {state}"));
    let open: Vec<String> = open.collect();
    if open.is_empty() {
        let theta = judged.iter().map(|judged| judged.document.settings.theta).fold(0.0, f64::max);
        let (theta, all_judged) = (percent(theta), counted(all, "comparison"));
        let text = format!("--fail-if slower: passed: no set is slower by more than {theta} in {all_judged}");
        notify(&notice::GATE_PASSED, [("judged", all.into())], &text);
    } else {
        let fields = [("undecided", undecided.into()), ("unjudged", unjudged.into())];
        let text = format!("--fail-if slower: passed, because no set is shown to be slower; {}", open.join(", "));
        notify(&notice::GATE_OPEN, fields, &text);
    }
    exit::DONE
}

/// Returns the operations in the metric that each is judged by.
fn primary(document: &Document) -> impl Iterator<Item = &Operation> {
    document.operations.iter().filter(|operation| operation.primary)
}

/// Returns the verdict of an operation about a set.
fn verdict(operation: &Operation, set: &str) -> Option<Verdict> {
    Some(operation.estimate.against.get(set)?.as_ref()?.verdict)
}

/// Returns whether a set with this verdict may still be slower by more than the smallest ratio that matters.
fn is_undecided(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Inconclusive | Verdict::ProbablySlower | Verdict::PerhapsSlower)
}

fn is_judged(operation: &Operation, set: &str) -> bool {
    verdict(operation, set).is_some_and(|verdict| verdict != Verdict::NotJudged)
}

/// A set that is slower than the baseline.
#[derive(Debug, Serialize)]
struct Lost {
    set: String,
    baseline: String,
    /// Operations at which it is slower as a whole.
    operations: Vec<String>,
    /// Operations with some sizes at which the set is slower.
    at_some_sizes: Vec<String>,
}

/// `ext4 is slower than xfs at write and fwrite, and at some sizes of read`.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = [("at", &self.operations), ("at some sizes of", &self.at_some_sizes)];
        let at = at.iter().filter(|(_, names)| !names.is_empty());
        let at: Vec<String> = at.map(|(at, names)| format!("{at} {}", listed(names))).collect();
        write!(f, "{} is slower than {} {}", self.set, self.baseline, at.join(", and "))
    }
}

/// Returns where a set is slower than the baseline; `None` if it is slower nowhere.
fn lost(document: &Document, set: &str) -> Option<Lost> {
    let whole = with(document, set, Verdict::Slower);
    let theta = document.settings.theta;
    let mut parts: Vec<String> = Vec::new();
    for found in document.findings.iter().filter(|found| found.candidate == set && !found.faster) {
        let name = named(found.workload.as_deref(), &found.operation);
        // If an operation is slower as a whole, do not report its sizes again.
        if beyond(found, theta) && !whole.contains(&name) && !parts.contains(&name) {
            parts.push(name);
        }
    }
    (!(whole.is_empty() && parts.is_empty())).then(|| Lost {
        set: set.to_owned(),
        baseline: document.baseline.clone(),
        operations: whole,
        at_some_sizes: parts,
    })
}

/// Returns the operations that have that verdict as a whole for a set.
fn with(document: &Document, set: &str, wanted: Verdict) -> Vec<String> {
    let found = primary(document).filter(|operation| verdict(operation, set) == Some(wanted));
    found.map(|operation| named(operation.workload.as_deref(), &operation.operation)).collect()
}

/// Returns the name that tables use.
fn named(workload: Option<&str>, operation: &str) -> String {
    workload.map_or_else(|| operation.replace('_', " "), str::to_owned)
}

/// Returns whether the whole interval is on one side of 1, further from it than the smallest ratio that matters.
fn beyond(found: &Finding, theta: f64) -> bool {
    let least = theta.ln_1p();
    let [lo, hi] = found.ci95.map(f64::ln);
    hi < -least || lo > least
}
