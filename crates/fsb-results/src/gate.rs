//! Gates: exit codes that make a comparison fail on request.
//!
//! `--fail-if slower` has one rule. It fails if a set is shown to be slower than the baseline by
//! more than θ. It passes only if each compared case excludes such a slowdown. Otherwise it cannot
//! tell.

use std::fmt;
use std::path::{Path, PathBuf};

use fsb_model::notice::{self, Notice};
use fsb_model::set::GapReason;
use fsb_model::{Better, Unit, code};
use fsb_report::show::{counted, listed, percent, percent_above, some_of};
use fsb_report::{case_label, power_of, unjudged_of};
use fsb_stats::compare::{Document, Finding, OURS, Operation};
use fsb_stats::{FEWEST_RUNS_JUDGED, Unjudged, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::sets;

/// A message names at most this number of cases.
const NAMED: usize = 3;

/// The answer of a gate.
#[derive(Debug)]
pub struct Answer {
    /// The exit code: 0 passed, 1 failed, 2 cannot tell.
    pub exit: u8,
    /// The kind of the message.
    pub notice: &'static Notice,
    /// The fields of the message.
    pub fields: Vec<(&'static str, Value)>,
    /// The message.
    pub text: String,
}

impl Answer {
    fn undecided<const N: usize>(fields: [(&'static str, Value); N], why: &str) -> Answer {
        Answer {
            exit: code::REQUEST,
            notice: &notice::GATE_UNDECIDED,
            fields: fields.into(),
            text: format!("--fail-if slower: cannot tell: {why}"),
        }
    }
}

/// A comparison, and the sets that a gate judges.
pub struct Judged<'d> {
    /// The comparison.
    pub document: &'d Document,
    /// Names of sets, without the baseline.
    pub sets: Vec<&'d str>,
}

/// An operation of a set, compared with the baseline.
struct Case<'d> {
    set: &'d str,
    name: String,
    state: CaseState,
    /// The workload, if the case is a time that the tool's clock is too coarse for.
    coarse_time_of: Option<&'d str>,
}

/// A target of the baseline's runs that other runs lack.
#[derive(Debug)]
pub struct AbsentTarget {
    /// The name that its set would have.
    pub set: String,
}

/// The answer of a case to the question whether it is slower.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CaseState {
    /// The largest slowdown in its interval: 0.05 if the baseline may be faster by 5 %.
    UpTo(f64),
    NotJudged,
    /// A run of the set or of the baseline has no value.
    Lost(GapReason),
    /// The set has no value, and the baseline has.
    Missing,
}

impl<'d> Judged<'d> {
    /// Returns the comparison with every set but the baseline.
    pub fn all(document: &'d Document) -> Judged<'d> {
        let names = document.sets.iter().map(|set| set.name.as_str());
        Judged {
            document,
            sets: names.filter(|name| *name != document.baseline).collect(),
        }
    }

    /// Returns every operation of the baseline for every set.
    fn cases(&self) -> Vec<Case<'d>> {
        self.sets
            .iter()
            .flat_map(|set| self.cases_of(set))
            .collect()
    }

    fn cases_of(&self, set: &'d str) -> Vec<Case<'d>> {
        let document = self.document;
        let mut cases = Vec::new();
        for operation in primary(document) {
            if has_values(operation, &document.baseline)
                || operation.gaps.contains_key(&document.baseline)
            {
                let workload = operation.workload.as_deref();
                cases.push(Case {
                    set,
                    name: name_of(document, operation),
                    state: state(document, operation, set),
                    coarse_time_of: workload.filter(|_| is_coarse_time(operation)),
                });
            }
        }
        // Other operations of the workload tell whether it is slower.
        cases.retain(|case| {
            case.coarse_time_of.is_none()
                || !primary(document).any(|operation| {
                    operation.workload.as_deref() == case.coarse_time_of
                        && matches!(state(document, operation, set), CaseState::UpTo(_))
                })
        });
        let missing = document.missing.get(set).into_iter().flatten();
        cases.extend(missing.map(|(workload, operation)| Case {
            set,
            name: case_label(workload.as_deref(), operation, is_own(document)),
            state: CaseState::Missing,
            coarse_time_of: None,
        }));
        cases
    }
}

/// Returns the answer of the gate with its reason.
///
/// A set is slower if an operation as a whole is (the verdict `slower`, from the runs, in the
/// metric it is judged by), or if a finding is, with its whole interval beyond θ. The verdict
/// "probably slower" does not fail, because the sure part of the difference may be too small to
/// matter. Runs of several targets are several comparisons, each of a target with itself.
pub fn slower(judged: &[Judged<'_>], absent: Vec<&AbsentTarget>) -> Answer {
    let mut lost_sets: Vec<Lost> = Vec::new();
    for judged in judged {
        lost_sets.extend(
            judged
                .sets
                .iter()
                .filter_map(|set| lost(judged.document, set)),
        );
    }
    let lost = lost_sets;
    if !lost.is_empty() {
        // The comparison shows by how much.
        let text: Vec<String> = lost.iter().map(ToString::to_string).collect();
        return Answer {
            exit: code::GATE,
            notice: &notice::GATE_FAILED,
            fields: vec![("slower", serde_json::to_value(&lost).unwrap_or_default())],
            text: format!("--fail-if slower: failed: {}", text.join("; ")),
        };
    }
    let absent = absent.into_iter().map(|target| Case {
        set: &target.set,
        name: "every workload".to_owned(),
        state: CaseState::Missing,
        coarse_time_of: None,
    });
    let cases: Vec<Case<'_>> = judged
        .iter()
        .flat_map(Judged::cases)
        .chain(absent)
        .collect();
    let theta = judged
        .iter()
        .map(|judged| judged.document.settings.theta)
        .fold(0.0, f64::max);
    let (mut open, mut largest) = (Vec::new(), None);
    for case in &cases {
        let CaseState::UpTo(slowdown) = case.state else {
            open.push(case);
            continue;
        };
        largest = Some(largest.map_or(slowdown, |largest: f64| largest.max(slowdown)));
        // Among equal times, the end of an interval may be beyond θ by a rounding error.
        if slowdown > theta * (1.0 + 1e-9) {
            open.push(case);
        }
    }
    let some_lost = cases
        .iter()
        .any(|case| matches!(case.state, CaseState::Missing | CaseState::Lost(_)));
    let failures: Vec<&String> = judged
        .iter()
        .flat_map(|judged| failures(judged.document))
        .collect();
    match largest {
        None if !some_lost && failures.is_empty() => nothing_judged(judged),
        _ if !failures.is_empty() || !open.is_empty() => {
            cannot_tell(judged, theta, &open, &failures, cases.len())
        }
        excluded => {
            let excluded = excluded.unwrap_or_default();
            let text = format!(
                "--fail-if slower: passed: {} exclude a slowdown of more than {}, and the threshold is {}",
                counted(cases.len(), "comparison"),
                percent_above(excluded),
                percent(theta)
            );
            Answer {
                exit: 0,
                notice: &notice::GATE_PASSED,
                fields: vec![
                    ("judged", cases.len().into()),
                    ("excluded", excluded.into()),
                ],
                text,
            }
        }
    }
}

/// Returns the failed runs and missing values of a comparison with their files and lines.
fn failures(document: &Document) -> &[String] {
    if document.withheld {
        &[]
    } else {
        &document.warnings[..document.urgent]
    }
}

/// Prints the cases that do not exclude a slowdown of more than θ, and the failed runs.
fn cannot_tell(
    judged: &[Judged<'_>],
    theta: f64,
    open: &[&Case<'_>],
    failures: &[&String],
    all: usize,
) -> Answer {
    let mut possible: Vec<(f64, String)> = open
        .iter()
        .filter_map(|case| match case.state {
            CaseState::UpTo(slowdown) => Some((slowdown, format!("{} at {}", case.set, case.name))),
            CaseState::NotJudged | CaseState::Missing | CaseState::Lost(_) => None,
        })
        .collect();
    possible.sort_by(|one, other| other.0.total_cmp(&one.0));
    let in_state = |state: CaseState| -> Vec<String> {
        let found = open.iter().filter(|case| case.state == state);
        found
            .map(|case| format!("{} at {}", case.set, case.name))
            .collect()
    };
    let [unjudged, missing] = [CaseState::NotJudged, CaseState::Missing].map(in_state);
    let lost = GapReason::ALL.map(|why| (in_state(CaseState::Lost(why)), why.words()));
    let mut parts = Vec::new();
    if !possible.is_empty() {
        let shown = possible
            .iter()
            .map(|(slowdown, name)| format!("{name} by up to {}", percent_above(*slowdown)));
        parts.push(format!(
            "{} of {all} comparisons do not exclude a slowdown of more than {}: {}",
            possible.len(),
            percent(theta),
            some_of(&shown.collect::<Vec<_>>(), NAMED)
        ));
    }
    let known = [(&unjudged, "not judged"), (&missing, "without a value")];
    for (names, what) in known
        .into_iter()
        .chain(lost.iter().map(|(names, why)| (names, *why)))
    {
        if !names.is_empty() {
            parts.push(format!(
                "{} of {all} {what}: {}",
                names.len(),
                some_of(names, NAMED)
            ));
        }
    }
    let failures: Vec<String> = failures.iter().map(|text| (*text).clone()).collect();
    if !failures.is_empty() {
        parts.push(some_of(&failures, NAMED));
    }
    let mut text = parts.join("; ");
    if let Some(power) = judged
        .iter()
        .find_map(|judged| power_of(judged.document))
        .filter(|_| !possible.is_empty())
    {
        text = format!("{text}. {power}");
    }
    let fields = [
        ("reason", "undecided".into()),
        ("undecided", possible.len().into()),
        ("unjudged", unjudged.len().into()),
        ("missing", missing.into()),
        ("failures", failures.into()),
        (
            "possible",
            possible.first().map(|(largest, _)| *largest).into(),
        ),
    ];
    Answer::undecided(fields, &text)
}

/// Prints the reason why no case is judged.
fn nothing_judged(judged: &[Judged<'_>]) -> Answer {
    let withheld = judged.iter().any(|judged| judged.document.withheld);
    let reason = judged
        .iter()
        .find_map(|judged| unjudged_of(judged.document));
    let levels = judged.iter().flat_map(|judged| primary(judged.document));
    let mut levels = levels.flat_map(|operation| operation.estimate.against.values().flatten());
    let unjudged = levels.find_map(|level| level.unjudged);
    let unjudged = serde_json::to_value(unjudged).unwrap_or_default();
    let (kind, why) = match reason.filter(|_| !withheld) {
        _ if withheld => (
            "withheld".into(),
            "these runs are too few to judge".to_owned(),
        ),
        Some(reason) => (unjudged, reason),
        None => (
            "few_runs".into(),
            format!("at least {FEWEST_RUNS_JUDGED} runs on each side are needed"),
        ),
    };
    Answer::undecided([("reason", kind)], &why)
}

/// Refuses sets that have data in common, which are equal however fast they are. Returns `None` if
/// there are none.
///
/// # Errors
///
/// A file cannot be read.
pub fn refused_copies(inputs: &[(usize, PathBuf)]) -> anyhow::Result<Option<Answer>> {
    let Some(same) = sets::same_content(inputs)? else {
        return Ok(None);
    };
    let [one, other] = same.map(|path| path.display());
    let common = match same[0] == same[1] {
        true => one.to_string(),
        false => format!("{one} and {other} are the same"),
    };
    let files = same.map(Path::to_string_lossy).to_vec();
    Ok(Some(Answer::undecided(
        [("reason", "common_data".into()), ("files", files.into())],
        &format!("two sets have data in common: {common}"),
    )))
}

/// Refuses files that were written to while they were read. Returns `None` if there are none.
pub fn refused_changes(changed: &[PathBuf]) -> Option<Answer> {
    let files: Vec<_> = changed.iter().map(|path| path.to_string_lossy()).collect();
    let text = format!("written to while it was read: {}", files.join(", "));
    let fields = [
        ("reason", "changed".into()),
        ("files", files.clone().into()),
    ];
    (!changed.is_empty()).then(|| Answer::undecided(fields, &text))
}

/// Refuses runs that are not trusted enough to decide a gate, each with the reason. Returns `None`
/// if there are none.
pub fn refused(of_low_trust: &[(PathBuf, String)]) -> Option<Answer> {
    let (mut reasons, mut runs) = (Vec::new(), Vec::new());
    for (path, why) in of_low_trust {
        reasons.push(format!("{}: {why}", path.display()));
        runs.push(path.to_string_lossy());
    }
    let text = format!("a run of low trust cannot decide: {}", reasons.join("; "));
    let fields = [("reason", "low_trust".into()), ("runs", runs.into())];
    (!reasons.is_empty()).then(|| Answer::undecided(fields, &text))
}

/// Returns the operations in the metric that each is judged by.
fn primary(document: &Document) -> impl Iterator<Item = &Operation> {
    document
        .operations
        .iter()
        .filter(|operation| operation.primary)
}

/// Returns the verdict of an operation about a set.
fn verdict(operation: &Operation, set: &str) -> Option<Verdict> {
    Some(operation.estimate.against.get(set)?.as_ref()?.verdict)
}

fn has_values(operation: &Operation, set: &str) -> bool {
    operation.classic.sets.get(set).is_some_and(Option::is_some)
}

/// Returns what a set's interval of an operation says about a slowdown.
fn state(document: &Document, operation: &Operation, set: &str) -> CaseState {
    let lost = operation
        .gaps
        .get(set)
        .or_else(|| operation.gaps.get(&document.baseline));
    if let Some(why) = lost {
        return CaseState::Lost(*why);
    }
    if !has_values(operation, set) {
        return CaseState::Missing;
    }
    let level = operation.estimate.against.get(set).and_then(Option::as_ref);
    let interval = level
        .filter(|level| level.verdict != Verdict::NotJudged)
        .and_then(|level| level.ci95);
    match (interval, operation.better) {
        (None, _) => CaseState::NotJudged,
        (Some([lo, _]), Better::Higher) => CaseState::UpTo((1.0 / lo - 1.0).max(0.0)),
        (Some([_, hi]), Better::Lower) => CaseState::UpTo((hi - 1.0).max(0.0)),
    }
}

/// Returns whether an operation is judged by a time of which the tool's clock shows a few ticks at
/// most.
fn is_coarse_time(operation: &Operation) -> bool {
    let is_below = operation
        .gaps
        .values()
        .any(|why| *why == GapReason::BelowClock);
    let mut levels = operation.estimate.against.values().flatten();
    operation.unit == Unit::Seconds
        && (is_below || levels.any(|level| level.unjudged == Some(Unjudged::Resolution)))
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
        let at = [
            ("at", &self.operations),
            ("at some sizes of", &self.at_some_sizes),
        ];
        let at = at.iter().filter(|(_, names)| !names.is_empty());
        let at: Vec<String> = at
            .map(|(at, names)| format!("{at} {}", listed(names)))
            .collect();
        write!(
            f,
            "{} is slower than {} {}",
            self.set,
            self.baseline,
            at.join(", and ")
        )
    }
}

/// Returns where a set is slower than the baseline; `None` if it is slower nowhere.
fn lost(document: &Document, set: &str) -> Option<Lost> {
    let whole = with(document, set, Verdict::Slower);
    let theta = document.settings.theta;
    let mut parts: Vec<String> = Vec::new();
    for found in document
        .findings
        .iter()
        .filter(|found| found.candidate == set && !found.faster)
    {
        let name = case_label(
            found.workload.as_deref(),
            &found.operation,
            is_own(document),
        );
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
    found
        .map(|operation| name_of(document, operation))
        .collect()
}

fn name_of(document: &Document, operation: &Operation) -> String {
    case_label(
        operation.workload.as_deref(),
        &operation.operation,
        is_own(document),
    )
}

/// Returns whether all sets are runs of FSBench.
fn is_own(document: &Document) -> bool {
    document.sets.iter().all(|set| set.tool == OURS)
}

/// Returns whether the whole interval is on one side of 1, further from it than the smallest ratio
/// that matters.
fn beyond(found: &Finding, theta: f64) -> bool {
    let least = theta.ln_1p();
    let [lo, hi] = found.ci95.map(f64::ln);
    hi < -least || lo > least
}
