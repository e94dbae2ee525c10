//! Checks: one answer per case and candidate to the question whether the candidate is slower than
//! the baseline by more than θ.
//!
//! A check passes only if the interval of its ratio excludes such a slowdown. Gates add the answers
//! up to an exit code, and the formats of continuous integration print them one by one.

use fsb_model::set::GapReason;
use fsb_model::{Better, Unit};
use fsb_stats::compare::{Document, Finding, OURS, Operation};
use fsb_stats::{Comparison, Excess, Interval, Unjudged, Verdict};

use crate::compare::between::{unjudged_at, unjudged_of};
use crate::compare::case_label;
use crate::show::{Change, minus, percent, percent_above};
use crate::summary::costs::ComparedCost;
use crate::summary::{
    BoundState, CellState, MeasuredCell, Summary, TargetSummary, Workload, bounds,
};

/// One candidate at one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The label of the case.
    pub case: String,
    /// The operation on a file; empty if the case has none.
    pub operation: String,
    /// The target or set that is judged.
    pub candidate: String,
    /// The target or set that it is compared with; `None` if it is compared with a bound.
    pub baseline: Option<String>,
    /// The answer.
    pub outcome: CheckOutcome,
    /// The ratio of the candidate to the baseline with its interval, if it is judged.
    pub ratio: Option<(f64, Interval)>,
    /// The largest slowdown in that interval: 0.05 if the baseline may be faster by 5 %.
    pub up_to: Option<f64>,
    /// The verdict of the report, if there is one.
    pub verdict: Option<Verdict>,
    /// The direction that is good.
    pub better: Better,
    /// The answer in a sentence.
    pub text: String,
}

/// The answer of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The candidate is slower by more than θ, or beyond its bound.
    Slower,
    /// The candidate is slower by more than θ at some sizes of the operation.
    SlowerAtSizes,
    /// A slowdown of more than θ is excluded.
    Passed,
    /// A slowdown of more than θ remains possible.
    CannotTell,
    /// The report does not judge it.
    NotJudged,
    /// A run of the candidate or of the baseline has no value.
    Lost(GapReason),
    /// The candidate has no value.
    Missing,
    /// The slowdown is acknowledged.
    Acknowledged,
}

impl CheckOutcome {
    /// Returns whether a gate fails.
    pub fn fails(self) -> bool {
        matches!(self, CheckOutcome::Slower | CheckOutcome::SlowerAtSizes)
    }

    /// Returns whether a gate passes.
    pub fn passes(self) -> bool {
        matches!(self, CheckOutcome::Passed | CheckOutcome::Acknowledged)
    }

    /// Returns whether the candidate lacks a value that it should have.
    pub fn is_lost(self) -> bool {
        matches!(self, CheckOutcome::Lost(_) | CheckOutcome::Missing)
    }

    /// Returns the place among answers: what needs a reader is first.
    pub(crate) fn rank(self) -> usize {
        match self {
            CheckOutcome::Slower | CheckOutcome::SlowerAtSizes => 0,
            CheckOutcome::Lost(_) | CheckOutcome::Missing => 1,
            CheckOutcome::Acknowledged => 2,
            CheckOutcome::CannotTell => 3,
            CheckOutcome::Passed => 4,
            CheckOutcome::NotJudged => 5,
        }
    }

    /// Returns the name in formats for programs.
    pub fn name(self) -> &'static str {
        match self {
            CheckOutcome::Slower | CheckOutcome::SlowerAtSizes => "slower",
            CheckOutcome::Passed => "passed",
            CheckOutcome::CannotTell => "cannot_tell",
            CheckOutcome::NotJudged => "not_judged",
            CheckOutcome::Lost(_) | CheckOutcome::Missing => "no_value",
            CheckOutcome::Acknowledged => "acknowledged",
        }
    }

    /// Returns the name as people read it.
    pub fn words(self) -> String {
        self.name().replace('_', " ")
    }
}

impl Check {
    /// Returns a check without numbers.
    pub fn without_ratio(
        [case, candidate, baseline]: [&str; 3],
        outcome: CheckOutcome,
        text: String,
    ) -> Check {
        Check {
            case: case.to_owned(),
            operation: String::new(),
            candidate: candidate.to_owned(),
            baseline: Some(baseline.to_owned()),
            outcome,
            ratio: None,
            up_to: None,
            verdict: None,
            better: Better::Higher,
            text,
        }
    }

    /// Returns the change as people read it: `−12 % [−15 −9]`.
    pub fn change(&self) -> Option<String> {
        let (ratio, interval) = self.ratio?;
        Some(minus(&Change::between(ratio, Some(interval)).text()))
    }

    /// Returns the names of the candidate and of the baseline: `new vs old`.
    pub fn pair(&self) -> String {
        match &self.baseline {
            Some(baseline) => format!("{} vs {baseline}", self.candidate),
            None => self.candidate.clone(),
        }
    }

    /// Withdraws a positive answer: something other than the ratio forbids it.
    pub fn refuse(&mut self, why: &str) {
        if !self.outcome.is_lost() {
            self.outcome = CheckOutcome::CannotTell;
            self.up_to = None;
            self.text = format!("{} at {}: cannot tell: {why}", self.candidate, self.case);
        }
    }
}

/// The ratio of a candidate to the baseline, and the answer that follows from it.
struct JudgedRatio {
    ratio: f64,
    interval: Interval,
    verdict: Verdict,
    better: Better,
    /// Whether it is a cost, not a speed.
    is_cost: bool,
}

impl JudgedRatio {
    /// Returns what is judged of a comparison; `None` if nothing is.
    fn new(found: Option<&Comparison>, better: Better, is_cost: bool) -> Option<JudgedRatio> {
        let found = found.filter(|found| found.verdict != Verdict::NotJudged)?;
        Some(JudgedRatio {
            ratio: found.ratio,
            interval: found.interval?,
            verdict: found.verdict,
            better,
            is_cost,
        })
    }

    /// Returns the largest slowdown in the interval.
    fn up_to(&self) -> f64 {
        largest_slowdown(self.interval, self.better)
    }

    fn outcome(&self, theta: f64) -> CheckOutcome {
        // Among equal times, the end of an interval may be beyond θ by a rounding error.
        match self.verdict {
            Verdict::Slower => CheckOutcome::Slower,
            _ if self.up_to() <= theta * (1.0 + 1e-9) => CheckOutcome::Passed,
            _ => CheckOutcome::CannotTell,
        }
    }

    /// Completes a check that has names only.
    fn complete(self, theta: f64, check: Check) -> Check {
        let (outcome, up_to) = (self.outcome(theta), self.up_to());
        let [is_worse, is_not_worse, may_be_worse] = match self.is_cost {
            false => ["is slower", "is not slower", "may be slower"],
            true => ["needs more", "does not need more", "may need more"],
        };
        let mut check = Check {
            outcome,
            ratio: Some((self.ratio, self.interval)),
            up_to: Some(up_to),
            verdict: Some(self.verdict),
            better: self.better,
            ..check
        };
        let baseline = check.baseline.as_deref().unwrap_or_default();
        let (case, candidate) = (&check.case, &check.candidate);
        let (change, theta) = (check.change().unwrap_or_default(), percent(theta));
        check.text = match outcome {
            CheckOutcome::Slower => {
                format!(
                    "{candidate} {is_worse} than {baseline} at {case}: {change}, and the threshold is {theta}"
                )
            }
            CheckOutcome::Passed => {
                format!(
                    "{candidate} {is_not_worse} than {baseline} by more than {theta} at {case}: {change}"
                )
            }
            _ => format!(
                "cannot tell: {candidate} {may_be_worse} than {baseline} by up to {} at {case}: {change}",
                percent_above(up_to)
            ),
        };
        check
    }
}

/// Returns the largest slowdown in an interval of a ratio; 0 if it has none.
fn largest_slowdown(interval: Interval, better: Better) -> f64 {
    match better {
        Better::Higher => (1.0 / interval.lo - 1.0).max(0.0),
        Better::Lower => (interval.hi - 1.0).max(0.0),
    }
}

/// Returns the checks of a comparison for `sets`, which do not include the baseline. Each operation
/// counts in the metric that it is judged by.
pub fn of_sets(document: &Document, sets: &[&str]) -> Vec<Check> {
    sets.iter().flat_map(|set| of_set(document, set)).collect()
}

/// Returns the checks of a comparison for every set but the baseline.
pub fn of_document(document: &Document) -> Vec<Check> {
    let names = document.sets.iter().map(|set| set.name.as_str());
    let others: Vec<&str> = names.filter(|name| *name != document.baseline).collect();
    of_sets(document, &others)
}

fn of_set(document: &Document, set: &str) -> Vec<Check> {
    let is_own = document.sets.iter().all(|set| set.tool == OURS);
    let primary = || document.operations.iter().filter(|one| one.primary);
    let of_baseline = primary().filter(|one| {
        has_values(one, &document.baseline) || one.gaps.contains_key(&document.baseline)
    });
    let mut checks = Vec::new();
    for operation in of_baseline {
        let check = of_operation(document, operation, set, is_own);
        // Other operations of the workload tell whether it is slower.
        let is_known_otherwise = is_coarse_time(operation)
            && operation.workload.is_some()
            && primary().any(|other| {
                other.workload == operation.workload
                    && of_operation(document, other, set, is_own).ratio.is_some()
            });
        if !is_known_otherwise {
            checks.push(check);
        }
    }
    let missing = document.missing.get(set).into_iter().flatten();
    checks.extend(missing.map(|(workload, operation)| {
        let case = case_label(workload.as_deref(), operation, is_own);
        missing_check(&case, set, &document.baseline, "")
    }));
    checks
}

fn of_operation(document: &Document, operation: &Operation, set: &str, is_own: bool) -> Check {
    let case = case_label(operation.workload.as_deref(), &operation.operation, is_own);
    let names = [case.as_str(), set, &document.baseline];
    let check = Check {
        operation: operation.operation.clone(),
        ..Check::without_ratio(names, CheckOutcome::NotJudged, String::new())
    };
    let mut gaps = [set, document.baseline.as_str()].into_iter();
    if let Some(why) = gaps.find_map(|name| operation.gaps.get(name)) {
        return Check {
            outcome: CheckOutcome::Lost(*why),
            text: format!("{set} at {case}: {}", why.words()),
            ..check
        };
    }
    if !has_values(operation, set) {
        return missing_check(&case, set, &document.baseline, "");
    }
    let level = operation.estimate.against.get(set).and_then(Option::as_ref);
    let judged = level
        .filter(|level| level.verdict != Verdict::NotJudged)
        .and_then(|level| {
            let [lo, hi] = level.ci95?;
            Some(JudgedRatio {
                ratio: level.ratio,
                interval: Interval { lo, hi },
                verdict: level.verdict,
                better: operation.better,
                is_cost: false,
            })
        });
    let Some(judged) = judged else {
        let why = document.unjudged.clone();
        let why = why
            .or_else(|| unjudged_at(operation))
            .or_else(|| unjudged_of(document));
        let text = not_judged(set, &case, why.as_deref().unwrap_or("no interval"));
        return Check { text, ..check };
    };
    let check = judged.complete(document.settings.theta, check);
    let regions = slower_regions(document, operation, set);
    let whole = check.up_to;
    let mut check = match regions.first() {
        Some(found) if !check.outcome.fails() => at_sizes(found, check),
        _ => check,
    };
    // The largest slowdown of all sizes is what has to be acknowledged.
    check.up_to = whole;
    for found in regions {
        let [lo, hi] = found.ci95;
        let of_region = largest_slowdown(Interval { lo, hi }, check.better);
        check.up_to = Some(check.up_to.map_or(of_region, |known| known.max(of_region)));
    }
    check
}

/// Returns the findings by which a set is slower at some sizes, with their whole intervals beyond
/// θ.
fn slower_regions<'d>(
    document: &'d Document,
    operation: &Operation,
    set: &str,
) -> Vec<&'d Finding> {
    let mut regions = Vec::new();
    for found in &document.findings {
        let is_same =
            (&found.workload, &found.operation) == (&operation.workload, &operation.operation);
        let is_slower = !found.faster && beyond(found, document.settings.theta);
        if found.candidate == set && is_same && is_slower {
            regions.push(found);
        }
    }
    regions
}

/// Returns whether the whole interval is on one side of 1, further from it than the smallest ratio
/// that matters.
fn beyond(found: &Finding, theta: f64) -> bool {
    let least = theta.ln_1p();
    let [lo, hi] = found.ci95.map(f64::ln);
    hi < -least || lo > least
}

fn at_sizes(found: &Finding, check: Check) -> Check {
    let [lo, hi] = found.ci95;
    let interval = Interval { lo, hi };
    Check {
        outcome: CheckOutcome::SlowerAtSizes,
        ratio: Some((found.ratio, interval)),
        up_to: Some(largest_slowdown(interval, check.better)),
        text: found.text.clone(),
        ..check
    }
}

fn has_values(operation: &Operation, set: &str) -> bool {
    operation.classic.sets.get(set).is_some_and(Option::is_some)
}

/// Returns whether an operation is judged by a time of which the tool's clock shows a few ticks at
/// most.
fn is_coarse_time(operation: &Operation) -> bool {
    let mut gaps = operation.gaps.values();
    let is_below = gaps.any(|why| *why == GapReason::BelowClock);
    let mut levels = operation.estimate.against.values().flatten();
    operation.unit == fsb_model::Unit::Seconds
        && (is_below || levels.any(|level| level.unjudged == Some(Unjudged::Resolution)))
}

fn not_judged(candidate: &str, case: &str, why: &str) -> String {
    format!(
        "{candidate} at {case} is not judged: {}",
        why.trim_end_matches('.')
    )
}

/// Returns the check of a candidate without a value where the baseline has one.
pub fn missing_check(case: &str, candidate: &str, baseline: &str, why: &str) -> Check {
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    };
    let text = format!("{candidate} has no value at {case}{why}");
    Check::without_ratio([case, candidate, baseline], CheckOutcome::Missing, text)
}

/// Returns the checks of a run: every target against the baseline, and the bounds of its cases.
pub fn of_run(summary: &Summary) -> Vec<Check> {
    let mut checks = Vec::new();
    for case in &summary.cases {
        for (place, (target, cell)) in summary.cells_of(case).enumerate() {
            if place != summary.baseline {
                checks.push(of_cell(summary, case, target, cell));
            }
            checks.extend(of_bound(case, target, cell));
        }
    }
    let baseline = summary.baseline_name();
    for label in &summary.left_out {
        for target in others(summary) {
            let why = "the budget left it out";
            checks.push(missing_check(label, &target.label(), &baseline, why));
        }
    }
    checks
}

fn others(summary: &Summary) -> impl Iterator<Item = &TargetSummary> {
    let all = summary.targets.iter().enumerate();
    all.filter(|(place, _)| *place != summary.baseline)
        .map(|(_, target)| target)
}

pub(crate) fn of_cell(
    summary: &Summary,
    case: &Workload,
    target: &TargetSummary,
    cell: &MeasuredCell,
) -> Check {
    let (label, candidate, baseline) = (&case.workload, target.label(), summary.baseline_name());
    let base = &case.cells[summary.baseline];
    let check = Check {
        operation: case.operation.clone(),
        ..Check::without_ratio(
            [label, &candidate, &baseline],
            CheckOutcome::NotJudged,
            String::new(),
        )
    };
    match &cell.state {
        CellState::Measured => {}
        CellState::NotApplicable(why) | CellState::Unavailable(why) => {
            return Check {
                text: not_judged(&candidate, label, why),
                ..check
            };
        }
        CellState::Failed(why) | CellState::Invalid(why) | CellState::Missing(why) => {
            return Check {
                operation: check.operation,
                ..missing_check(label, &candidate, &baseline, why)
            };
        }
    }
    let judged = JudgedRatio::new(cell.against.as_ref(), case.better, false);
    let Some(judged) = judged else {
        let why = summary.unjudged.as_deref().or(target.unjudged.as_deref());
        let text = match why.or_else(|| base.reason()) {
            Some(why) => not_judged(&candidate, label, why),
            None => format!("{candidate}: {}", case.finding.trim_end_matches('.')),
        };
        return Check { text, ..check };
    };
    let mut check = judged.complete(summary.theta, check);
    let lost = cell.lost.first().or_else(|| base.lost.first());
    if let Some(lost) = lost
        && check.outcome == CheckOutcome::Passed
    {
        check.refuse(&lost.reason);
    }
    check
}

/// Returns the check of a cost of a run, of which less is better. `names` are those of the cost at
/// its case, the target and the baseline.
pub(crate) fn of_cost(names: [&str; 3], found: Option<&ComparedCost>, theta: f64) -> Check {
    let [case, candidate, _] = names;
    let text = not_judged(candidate, case, "its values are not known, or too few");
    let check = Check::without_ratio(names, CheckOutcome::NotJudged, text);
    match found {
        None => check,
        Some(ComparedCost::Excess(found, unit)) => of_excess(found, *unit, theta, check),
        Some(ComparedCost::Ratio(found)) => {
            match JudgedRatio::new(Some(found), Better::Lower, true) {
                None => check,
                Some(judged) => judged.complete(theta, check),
            }
        }
    }
}

/// Completes the check of a cost without a ratio, because values are 0.
fn of_excess(found: &Excess, unit: Unit, theta: f64, check: Check) -> Check {
    let [before, now] = found.means.map(|mean| match mean == 0.0 {
        true => "0".to_owned(),
        false => unit.show(mean),
    });
    // Blocks without any do not exclude a share of blocks that have some.
    let is_zero = found.means == [0.0, 0.0];
    let (outcome, up_to, needs) = match found.is_more {
        Some(true) => (CheckOutcome::Slower, None, "needs more"),
        Some(false) if is_zero => (CheckOutcome::Passed, None, "does not need more"),
        Some(false) => (CheckOutcome::Passed, Some(theta), "does not need more"),
        None => (CheckOutcome::CannotTell, None, "may need more"),
    };
    let hint = match outcome {
        CheckOutcome::CannotTell => "cannot tell: ",
        _ => "",
    };
    let blocks = if is_zero { " in every block" } else { "" };
    let (case, candidate) = (&check.case, &check.candidate);
    let baseline = check.baseline.as_deref().unwrap_or_default();
    let text = format!(
        "{hint}{candidate} {needs} than {baseline} at {case}: {now} instead of {before}{blocks}"
    );
    Check {
        outcome,
        up_to,
        better: Better::Lower,
        text,
        ..check
    }
}

/// Returns the check of a bound of the 99th percentile.
fn of_bound(case: &Workload, target: &TargetSummary, cell: &MeasuredCell) -> Option<Check> {
    let bound = cell.bound?;
    let (text, name) = (
        bounds::sentence(&target.label(), cell, bound),
        bounds::name(case, bound),
    );
    let outcome = match bound.state {
        BoundState::Pass => CheckOutcome::Passed,
        BoundState::Fail => CheckOutcome::Slower,
        BoundState::CannotTell => CheckOutcome::CannotTell,
    };
    let text = format!("{name}: {text}");
    Some(Check {
        operation: case.operation.clone(),
        baseline: None,
        better: Better::Lower,
        ..Check::without_ratio([&name, &target.label(), ""], outcome, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};

    fn of(checks: &[Check], wanted: CheckOutcome) -> Vec<&str> {
        let found = checks.iter().filter(|check| check.outcome == wanted);
        found.map(|check| check.case.as_str()).collect()
    }

    #[test]
    fn a_case_passes_only_if_a_slowdown_is_excluded() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let checks = of_run(&summary);
        assert_eq!(checks.len(), 2 * summary.cases.len());
        assert!(of(&checks, CheckOutcome::Slower).contains(&"create 4K files, durable"));
        assert!(of(&checks, CheckOutcome::Passed).contains(&"scan 4K files, cold"));
        assert!(of(&checks, CheckOutcome::CannotTell).contains(&"delete 4K files, durable"));
        assert!(of(&checks, CheckOutcome::NotJudged).contains(&"write 1M, durable"));
        for check in &checks {
            let up_to = check.up_to.unwrap_or(f64::INFINITY);
            assert!(check.outcome != CheckOutcome::Passed || up_to <= summary.theta * (1.0 + 1e-9));
            assert!(check.outcome != CheckOutcome::CannotTell || up_to > summary.theta);
            assert!(!check.text.is_empty());
        }
    }

    #[test]
    fn lost_trials_do_not_pass() {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 12);
        let passed = |trials: &[_]| {
            let summary = Summary::of_run(&record, trials);
            of(&of_run(&summary), CheckOutcome::Passed).contains(&"scan 4K files, cold")
        };
        assert!(passed(&trials));
        let wanted = |trial: &&mut fsb_model::Trial| {
            trial.workload == "scan 4K files, cold" && trial.target == "xfs" && trial.block == 3
        };
        let lost = trials.iter_mut().find(wanted).expect("a trial");
        lost.outcome = fsb_model::Outcome::Failed;
        lost.error = Some("No space left on device".to_owned());
        lost.metrics.clear();
        assert!(!passed(&trials));
    }

    #[test]
    fn an_operation_that_is_slower_at_some_sizes_has_the_finding_as_its_text() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 4, 1 << 22));
        let checks = of_document(&document);
        assert!(
            checks.iter().any(|check| check.outcome.fails()),
            "{checks:#?}"
        );
        for check in checks
            .iter()
            .filter(|check| check.outcome == CheckOutcome::SlowerAtSizes)
        {
            assert!(
                document
                    .findings
                    .iter()
                    .any(|found| found.text == check.text)
            );
        }
    }
}
