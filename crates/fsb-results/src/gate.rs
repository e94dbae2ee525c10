//! Gates: exit codes that make a comparison fail on request.
//!
//! `--fail-if slower` has one rule. It fails if a set is shown to be slower than the baseline by
//! more than θ. It passes only if each compared case excludes such a slowdown. Otherwise it cannot
//! tell.

use std::fmt;
use std::path::{Path, PathBuf};

use fsb_model::code;
use fsb_model::notice::{self, Notice};
use fsb_model::set::GapReason;
use fsb_report::check::{self, Check, CheckOutcome};
use fsb_report::show::{counted, listed, percent, percent_above, some_of};
use fsb_report::{power_of, unjudged_of};
use fsb_stats::FEWEST_RUNS_JUDGED;
use fsb_stats::compare::Document;
use serde::Serialize;
use serde_json::Value;

use crate::acknowledged::Applied;
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

/// A target of the baseline's runs that other runs lack.
#[derive(Debug)]
pub struct AbsentTarget {
    /// The name that its set would have.
    pub set: String,
    /// The name of the baseline's set.
    pub baseline: String,
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
}

/// Returns a check for every operation of the baseline and every set, and one for each target that
/// runs lack.
pub fn checks(judged: &[Judged<'_>], absent: &[&AbsentTarget]) -> Vec<Check> {
    let of_documents = judged
        .iter()
        .flat_map(|judged| check::of_sets(judged.document, &judged.sets));
    let absent = absent
        .iter()
        .map(|target| check::missing_check("every workload", &target.set, &target.baseline, ""));
    of_documents.chain(absent).collect()
}

/// Returns the answer of the gate with its reason.
///
/// A set is slower if an operation as a whole is (the verdict `slower`, from the runs, in the
/// metric it is judged by), or if a finding is, with its whole interval beyond θ. The verdict
/// "probably slower" does not fail, because the sure part of the difference may be too small to
/// matter. Runs of several targets are several comparisons, each of a target with itself.
pub fn slower(judged: &[Judged<'_>], checks: &[Check], applied: &Applied) -> Answer {
    let mut answer = answer(judged, checks, &applied.passed);
    for (name, what, cases) in applied.parts() {
        answer.fields.push((name, cases.into()));
        answer.text = format!("{}; {what}: {}", answer.text, cases.join("; "));
    }
    answer
}

fn answer(judged: &[Judged<'_>], checks: &[Check], acknowledged: &[String]) -> Answer {
    let lost = Lost::from_checks(checks);
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
    let theta = judged
        .iter()
        .map(|judged| judged.document.settings.theta)
        .fold(0.0, f64::max);
    let open: Vec<&Check> = checks
        .iter()
        .filter(|check| !check.outcome.passes())
        .collect();
    let largest = checks
        .iter()
        .filter(|check| check.outcome != CheckOutcome::Acknowledged)
        .filter_map(|check| check.up_to)
        .reduce(f64::max);
    let some_lost = checks.iter().any(|check| check.outcome.is_lost());
    let failures: Vec<&String> = judged
        .iter()
        .flat_map(|judged| failures(judged.document))
        .collect();
    match largest {
        None if !some_lost && failures.is_empty() && acknowledged.is_empty() => {
            nothing_judged(judged)
        }
        _ if !failures.is_empty() || !open.is_empty() => {
            cannot_tell(judged, theta, &open, &failures, checks.len())
        }
        excluded => passed(checks.len() - acknowledged.len(), excluded, theta),
    }
}

/// Returns the answer of `judged` comparisons that exclude a slowdown of more than `excluded`.
fn passed(judged: usize, excluded: Option<f64>, theta: f64) -> Answer {
    let text = match excluded {
        None => "--fail-if slower: passed: all slowdowns are acknowledged".to_owned(),
        Some(excluded) => format!(
            "--fail-if slower: passed: {} {} a slowdown of more than {}, and the threshold is {}",
            counted(judged, "comparison"),
            if judged == 1 { "excludes" } else { "exclude" },
            percent_above(excluded),
            percent(theta)
        ),
    };
    Answer {
        exit: 0,
        notice: &notice::GATE_PASSED,
        fields: vec![("judged", judged.into()), ("excluded", excluded.into())],
        text,
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
    open: &[&Check],
    failures: &[&String],
    all: usize,
) -> Answer {
    let mut possible: Vec<(f64, String)> = open
        .iter()
        .filter_map(|check| Some((check.up_to?, name_of(check))))
        .collect();
    possible.sort_by(|one, other| other.0.total_cmp(&one.0));
    let with = |outcome: CheckOutcome| -> Vec<String> {
        let found = open.iter().filter(|check| check.outcome == outcome);
        found.map(|check| name_of(check)).collect()
    };
    let [unjudged, missing] = [CheckOutcome::NotJudged, CheckOutcome::Missing].map(with);
    let lost = GapReason::ALL.map(|why| (with(CheckOutcome::Lost(why)), why.words()));
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
    let operations = judged.iter().flat_map(|judged| &judged.document.operations);
    let levels = operations.filter(|operation| operation.primary);
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

/// Returns the name of a check: `new at write`.
fn name_of(check: &Check) -> String {
    format!("{} at {}", check.candidate, check.case)
}

/// A set that is slower than the baseline.
#[derive(Debug, Default, Serialize)]
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

impl Lost {
    /// Returns an entry for each set that is slower than a baseline.
    fn from_checks(checks: &[Check]) -> Vec<Lost> {
        let mut all: Vec<Lost> = Vec::new();
        for check in checks.iter().filter(|check| check.outcome.fails()) {
            let baseline = check.baseline.clone().unwrap_or_default();
            let place = all
                .iter()
                .position(|lost| lost.set == check.candidate && lost.baseline == baseline)
                .unwrap_or_else(|| {
                    all.push(Lost {
                        set: check.candidate.clone(),
                        baseline,
                        ..Lost::default()
                    });
                    all.len() - 1
                });
            let names = match check.outcome {
                CheckOutcome::SlowerAtSizes => &mut all[place].at_some_sizes,
                _ => &mut all[place].operations,
            };
            if !names.contains(&check.case) {
                names.push(check.case.clone());
            }
        }
        all
    }
}
