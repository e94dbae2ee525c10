//! The summary table: one line per case and target, and the columns that the CSV file and the
//! spreadsheet share.

use std::borrow::Cow;

use fsb_model::set::GapReason;
use fsb_model::{Better, Unit};
use fsb_stats::compare::SetSummary;
use fsb_stats::{Interval, RankingOutcome, Unjudged, Verdict};

use crate::compare::{Selection, rows};
use crate::mark;
use crate::report::Report;
use crate::run::view::mark as mark_of;
use crate::summary::{CellState, MeasuredCell, Summary, TargetSummary, Workload};
use crate::view::Row;

/// One target at one case, or one set at one operation.
#[derive(Debug, Clone)]
pub(crate) struct SummaryLine<'a> {
    label: Cow<'a, str>,
    operation: &'a str,
    metric: &'a str,
    unit: Unit,
    better: Better,
    target: &'a str,
    /// `None` if there is only one target.
    baseline: Option<&'a str>,
    n: Option<usize>,
    estimate: Option<f64>,
    interval: Option<Interval>,
    against: Option<Against>,
    letters: Option<&'a str>,
    outcome: &'static str,
    /// Whether the target is the winner, one of the tied targets or a contender.
    leads: bool,
    withheld: Option<&'static str>,
    state: &'static str,
    causes: String,
    unjudged: Option<&'a str>,
    /// The mark in the table.
    mark: String,
    trust: Option<String>,
}

/// The target against the baseline.
#[derive(Debug, Clone, Copy)]
struct Against {
    ratio: f64,
    interval: Option<Interval>,
    level: Option<f64>,
    verdict: Verdict,
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Empty,
    Text(&'a str),
    Count(usize),
    /// In the base unit of the metric.
    Quantity(f64),
    Ratio(f64),
    /// In percent: 12 is 12 %.
    Percent(f64),
    Share(f64),
    Flag(bool),
}

/// A column of the summary table.
pub(crate) struct SummaryColumn {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) value: for<'l> fn(&'l SummaryLine<'_>) -> Value<'l>,
}

macro_rules! columns {
    ($($name:literal $about:literal |$line:ident| $value:expr;)*) => {
        &[$(SummaryColumn { name: $name, about: $about, value: |$line| $value }),*]
    };
}

/// The columns. Readers find them by name; new ones are added at the end.
pub(crate) static COLUMNS: &[SummaryColumn] = columns! {
    "label" "label of the case" |line| Value::Text(&line.label);
    "operation" "operation on a file" |line| Value::Text(line.operation);
    "metric" "metric that targets are compared by" |line| Value::Text(line.metric);
    "unit" "base unit of the metric" |line| Value::Text(if line.metric.is_empty() { "" } else { line.unit.name() });
    "better" "direction that is better" |line| Value::Text(line.better_name());
    "target" "target or set" |line| Value::Text(line.target);
    "baseline" "target that others are compared with" |line| text(line.baseline);
    "n" "blocks with a value; of a set, its runs or blocks" |line| line.n.map_or(Value::Empty, Value::Count);
    "estimate" "geometric mean" |line| number(line.estimate, Value::Quantity);
    "estimate_lo" "lower end of its 95 % interval" |line| number(line.interval.map(|found| found.lo), Value::Quantity);
    "estimate_hi" "upper end of its 95 % interval" |line| number(line.interval.map(|found| found.hi), Value::Quantity);
    "ratio" "value over the value of the baseline" |line| line.against(|found| Some(found.ratio), Value::Ratio);
    "change_percent" "(ratio - 1) in percent" |line| line.against(|found| Some(change(found.ratio)), Value::Percent);
    "change_lo" "lower end of its interval" |line| line.against(|found| Some(change(found.interval?.lo)), Value::Percent);
    "change_hi" "upper end of its interval" |line| line.against(|found| Some(change(found.interval?.hi)), Value::Percent);
    "level" "level of this interval, corrected for all pairs of the case" |line| line.against(|found| found.level.filter(|_| found.interval.is_some()), Value::Share);
    "verdict" "verdict on the target against the baseline" |line| text(line.against.map(|found| found.verdict.name()));
    "letters" "ranking letters: targets that share one are not significantly different" |line| text(line.letters);
    "outcome" "outcome of the case" |line| Value::Text(line.outcome);
    "leads" "whether the target is the winner, tied for it or a contender" |line| Value::Flag(line.leads);
    "withheld" "reason why the case is not judged although it has values" |line| text(line.withheld);
    "state" "whether the target has values, and why not" |line| Value::Text(line.state);
    "unsafe" "options that may lose synced data" |line| Value::Text(&line.causes);
    "unjudged" "reason why nothing of the run is judged" |line| text(line.unjudged);
    "mark" "letters and signs of the table" |line| Value::Text(&line.mark);
    "trust" "trust in the numbers of the run: low, fair or high" |line| text(line.trust.as_deref());
};

fn text(found: Option<&str>) -> Value<'_> {
    found.map_or(Value::Empty, Value::Text)
}

fn number(found: Option<f64>, of: fn(f64) -> Value<'static>) -> Value<'static> {
    found
        .filter(|value| value.is_finite())
        .map_or(Value::Empty, of)
}

fn change(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

impl SummaryLine<'_> {
    fn better_name(&self) -> &'static str {
        match self.better {
            _ if self.metric.is_empty() => "",
            Better::Higher => "higher",
            Better::Lower => "lower",
        }
    }

    fn against(
        &self,
        value: fn(Against) -> Option<f64>,
        of: fn(f64) -> Value<'static>,
    ) -> Value<'static> {
        number(self.against.and_then(value), of)
    }

    /// Returns the unit of the estimate.
    pub(crate) fn unit(&self) -> Unit {
        self.unit
    }
}

/// Returns the lines of a report, case by case.
pub(crate) fn lines<'a>(report: &'a Report<'_>) -> Vec<SummaryLine<'a>> {
    match report {
        Report::Run { summary, .. } => of_run(summary),
        Report::Comparison {
            document, detail, ..
        } => of_comparison(Selection {
            document,
            detail: *detail,
        }),
    }
}

fn of_run<'a>(summary: &'a Summary) -> Vec<SummaryLine<'a>> {
    summary
        .cases
        .iter()
        .flat_map(|row| {
            summary
                .targets
                .iter()
                .enumerate()
                .map(move |(place, target)| of_cell(summary, row, place, target))
        })
        .chain(summary.left_out.iter().flat_map(|label| {
            summary
                .targets
                .iter()
                .map(move |target| left_out(summary, label, target))
        }))
        .collect()
}

/// Returns the line of a workload that the budget left out.
fn left_out<'a>(
    summary: &'a Summary,
    label: &'a str,
    target: &'a TargetSummary,
) -> SummaryLine<'a> {
    SummaryLine {
        label: Cow::Borrowed(label),
        operation: "",
        metric: "",
        unit: Unit::Count,
        better: Better::Higher,
        target: &target.name,
        baseline: summary
            .targets
            .get(summary.baseline)
            .filter(|_| summary.is_comparison())
            .map(|target| &*target.name),
        n: None,
        estimate: None,
        interval: None,
        against: None,
        letters: None,
        outcome: outcome_name(&RankingOutcome::Nothing),
        leads: false,
        withheld: None,
        state: "left_out",
        causes: mark::causes(&target.risks),
        unjudged: summary.unjudged.as_deref().or(target.unjudged.as_deref()),
        mark: String::new(),
        trust: summary.trust.as_ref().map(|trust| trust.level.to_string()),
    }
}

fn of_cell<'a>(
    summary: &'a Summary,
    row: &'a Workload,
    place: usize,
    target: &'a TargetSummary,
) -> SummaryLine<'a> {
    let cell: &MeasuredCell = &row.cells[place];
    let estimate = cell.estimate.as_ref();
    let against = cell.against.as_ref().map(|found| Against {
        ratio: found.ratio,
        interval: found
            .interval
            .filter(|_| found.verdict != Verdict::NotJudged),
        level: Some(found.level),
        verdict: found.verdict,
    });
    SummaryLine {
        operation: &row.operation,
        metric: &row.metric,
        unit: row.unit,
        better: row.better,
        n: estimate.map(|found| found.n),
        estimate: estimate.map(|found| found.value),
        interval: estimate
            .filter(|found| found.is_judged())
            .and_then(|found| found.interval),
        against,
        letters: row.ranking.letters.get(place).and_then(Option::as_deref),
        outcome: outcome_name(&row.ranking.outcome),
        leads: leads(&row.ranking.outcome, place),
        withheld: row.withheld.as_ref().map(|found| found.name()),
        state: state_name(&cell.state),
        mark: mark_of(summary, cell),
        ..left_out(summary, &row.workload, target)
    }
}

fn of_comparison(selection: Selection<'_>) -> Vec<SummaryLine<'_>> {
    let sets = selection.sets();
    let mut lines = Vec::new();
    for row in rows(selection) {
        lines.extend((0..sets.len()).filter_map(|place| of_set(selection, &sets, &row, place)));
    }
    lines
}

fn of_set<'a>(
    selection: Selection<'a>,
    sets: &[&'a SetSummary],
    row: &Row<'a>,
    place: usize,
) -> Option<SummaryLine<'a>> {
    let found = row.operation()?;
    let (set, operation) = (sets[place], found.operation);
    let estimate = found.sets[place].value;
    let against = operation
        .estimate
        .against
        .get(&set.name)
        .and_then(Option::as_ref);
    let level = || {
        Some(
            operation
                .ranking
                .comparison(*found.places.first()?, *found.places.get(place)?)?
                .level,
        )
    };
    Some(SummaryLine {
        label: Cow::Owned(row.label.clone()),
        operation: &operation.operation,
        metric: &operation.metric,
        unit: operation.unit,
        better: operation.better,
        target: &set.name,
        baseline: (sets.len() > 1).then_some(&*selection.document.baseline),
        n: estimate.map(|_| against.map_or(set.blocks.unwrap_or(set.runs), |against| against.n)),
        estimate,
        interval: None,
        against: against.map(|against| Against {
            ratio: against.ratio,
            interval: against
                .ci95
                .map(|[lo, hi]| Interval { lo, hi })
                .filter(|_| against.verdict != Verdict::NotJudged),
            level: level(),
            verdict: against.verdict,
        }),
        letters: operation.letters.get(&set.name).and_then(Option::as_deref),
        outcome: outcome_name(&row.outcome),
        leads: leads(&row.outcome, place),
        withheld: against
            .and_then(|against| against.unjudged)
            .map(unjudged_name),
        state: match operation.gaps.get(&set.name) {
            Some(GapReason::Failed) => "failed",
            _ if estimate.is_some() => "measured",
            _ => "missing",
        },
        causes: String::new(),
        unjudged: selection.document.unjudged.as_deref(),
        mark: row.cells[place].mark.clone(),
        trust: None,
    })
}

/// Returns the code of the reason why runs are not judged, as in JSON.
fn unjudged_name(unjudged: Unjudged) -> &'static str {
    match unjudged {
        Unjudged::OneRun => "one_run",
        Unjudged::FewRuns => "few_runs",
        Unjudged::NoSharedSession => "no_shared_session",
        Unjudged::Withheld => "withheld",
        Unjudged::Failed => "failed",
        Unjudged::NoValue => "no_value",
        Unjudged::Maximum => "maximum",
        Unjudged::Resolution => "resolution",
    }
}

fn leads(outcome: &RankingOutcome, place: usize) -> bool {
    match outcome {
        RankingOutcome::Winner(winner) => *winner == place,
        RankingOutcome::Tie(places) | RankingOutcome::Undecided(places) => places.contains(&place),
        RankingOutcome::NotJudged | RankingOutcome::Alone(_) | RankingOutcome::Nothing => false,
    }
}

/// Returns the code of an outcome, as in JSON.
fn outcome_name(outcome: &RankingOutcome) -> &'static str {
    match outcome {
        RankingOutcome::Winner(_) => "winner",
        RankingOutcome::Tie(_) => "tie",
        RankingOutcome::Undecided(_) => "undecided",
        RankingOutcome::NotJudged => "not_judged",
        RankingOutcome::Alone(_) => "alone",
        RankingOutcome::Nothing => "nothing",
    }
}

/// Returns the code of a state, as in JSON.
fn state_name(state: &CellState) -> &'static str {
    match state {
        CellState::Measured => "measured",
        CellState::NotApplicable(_) => "not_applicable",
        CellState::Unavailable(_) => "unavailable",
        CellState::Failed(_) => "failed",
        CellState::Invalid(_) => "invalid",
        CellState::Missing(_) => "missing",
    }
}
