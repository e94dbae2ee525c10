//! Runs: assembles the summary from a record and its trials. The submodules are the parts of a
//! report on a run.

mod cases;
mod causes;
mod costs;
mod device;
pub(crate) mod environment;
mod geometry;
pub(crate) mod headline;
pub(crate) mod interference;
pub(crate) mod latency;
mod method;
mod neighbours;
pub(crate) mod published;
mod report_trial;
pub(crate) mod risks;
mod roles;
mod samples;
mod scaling;
pub(crate) mod sections;
pub(crate) mod summary;
pub(crate) mod timeline;
mod traced;
mod traced_tables;
mod traced_work;
mod trust;
pub(crate) mod view;
mod warnings;
mod withheld;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use fsb_model::run::Placement;
use fsb_model::units::{show_bytes, show_duration};
use fsb_model::{Repetition, RunRecord, TargetKind, Trial, Unit, Warning, metric};
use fsb_stats::compare::{Document, Finding};
use fsb_stats::{Comparison, FEWEST_JUDGED, RankingOutcome, blocks_to_scale};

use crate::record_text::{placement_reason_text, stop_reason_text, sufficient_budget};
use crate::releases::Fact;
use crate::show::{counted, scale};

pub use cases::{CaseNow, case_states};
pub use causes::{Cause, CauseKind, Explanation};
pub use device::device_text;
pub(crate) use device::{bottom_device, disk_kind};
pub use environment::{EnvironmentRow, EnvironmentTable};
pub use latency::{Latency, Quantile};
pub use published::{
    ClaimValues, Published, PublishedClaim, PublishedClaims, PublishedLayout, PublishedRate,
    PublishedRow, PublishedSum, PublishedTable, PublishedValue,
};
pub use report_trial::{
    Cycles, MetricKind, ReportTrial, ShownCell, ShownExtras, ShownMetric, Times, writes,
};
pub use roles::{Program, ROLES, Role};
pub use summary::{
    AloneAndBeside, BackgroundRate, BesideBackground, By, CellChange, CellValue, EarlierRun, Lost,
    Measured, Overall, QuantileSlowdown, RateAlone, Scaling, Secondary, Slowdown, State, Summary,
    TargetSummary, TrialPoint, Trust, TrustLevel, Workload,
};
pub use timeline::{ShownWarmUp, WarmUps};
pub use traced::{TracedCause, TracedExplanation};
pub use traced_work::{
    CommitRate, KernelThreadTime, LockContention, PerOperation, RequestRate, TimeFrame, TracedWork,
};
pub use withheld::{Withheld, by_record as withheld_by_record, in_rounds};

impl Summary {
    /// Assembles the summary of a run. The first target of the plan is the one that others are
    /// compared with.
    pub fn of_run(record: &RunRecord, trials: &[Trial]) -> Summary {
        Summary::of_shown(record, &ReportTrial::all(trials))
    }

    /// Assembles the summary from trials that hold only the fields that reports show.
    pub fn of_shown(record: &RunRecord, trials: &[ReportTrial]) -> Summary {
        let targets = targets(record);
        let (cases, correlation) = cases::cases(record, trials);
        let overall = cases::overall(&cases, &targets, correlation, record.plan.theta);
        let blocks = blocks(trials);
        let scaling = scaling::curves(&cases, &targets, trials, record.plan.theta);
        let neighbours = neighbours::of_run(record, &cases, trials);
        let mut summary = Summary {
            name: record.name.clone(),
            suite: record.plan.name.clone(),
            headline: String::new(),
            answer: String::new(),
            overall_answer: None,
            unjudged: record.unjudged(),
            emulated: record.emulated,
            theta: record.plan.theta,
            baseline: 0,
            targets,
            left_out: left_out(record, &cases),
            cases,
            overall,
            correlation,
            blocks,
            advice: None,
            facts: facts(record, trials, blocks),
            stopped: stopped(record),
            ended_early: record.stop_reason.as_ref().is_some_and(warnings::is_early),
            earlier: None,
            trust: None,
            warnings: Vec::new(),
            urgent: 0,
            problems: Vec::new(),
            environment: environment::tables(record),
            method: Vec::new(),
            published: None,
            claims: None,
            scaling,
            neighbours,
            explanations: Vec::new(),
            traced_explanations: Vec::new(),
            traced_blocks: record.plan.explain.then(|| traced::blocks(trials)),
            findings: None,
            matrix: None,
        };
        if summary.unjudged.is_some() {
            headline::strip_verdicts(&mut summary);
        }
        let cases = || summary.cases.iter().filter(|case| case.withheld.is_none());
        let of_operations = cases()
            .filter(|case| case.metric == metric::OPERATION_RATE.name)
            .flat_map(significant);
        let explanations = causes::explanations(record, &of_operations.collect::<Vec<_>>(), trials);
        let differences: Vec<_> = cases().flat_map(significant).collect();
        summary.traced_explanations = traced::explanations(record, &differences, trials);
        summary.explanations = explanations;
        headline::add_findings(&mut summary);
        let preface = interference::preface(trials).or_else(|| headline::withheld(&summary));
        let simulated = headline::simulated(&summary).unwrap_or_default();
        summary.answer = simulated + &preface.unwrap_or_default() + &headline::headline(&summary);
        if let Some(line) = neighbours::strongest(&summary) {
            summary.answer = format!("{} {line}", summary.answer);
        }
        summary.overall_answer = headline::overall(&summary);
        let overall = summary.overall_answer.as_deref();
        summary.headline = overall.map_or_else(
            || summary.answer.clone(),
            |overall| format!("{} {overall}", summary.answer),
        );
        summary.advice = advice(&summary, record, seconds(record, trials));
        summary.problems = warnings::problems(&summary);
        summary.trust = trust::assess(&summary, record, trials);
        let (urgent, others) = warnings::warnings(&summary, record, trials);
        summary.urgent = urgent.len();
        summary.warnings = urgent.into_iter().chain(others).collect();
        summary.method = method::paragraphs(&summary, record);
        summary
    }

    /// Adds published values beside the summary's own, matched by workload and file system.
    #[must_use]
    pub fn with_published(mut self, table: &PublishedTable) -> Summary {
        self.published = Some(beside(&self, table));
        self
    }

    /// Adds published statements beside the same quantities of the run.
    #[must_use]
    pub fn with_claims(mut self, claims: PublishedClaims) -> Summary {
        self.claims = Some(claims);
        self
    }

    /// Adds the difference to an earlier run of the same plan.
    #[must_use]
    pub fn with_earlier_run(
        mut self,
        record: &RunRecord,
        earlier: &Summary,
        its_record: &RunRecord,
    ) -> Summary {
        self.earlier = compare_earlier((&self, record), (earlier, its_record));
        self
    }

    /// Adds the findings in the cells of a matrix, the widest first, and the warnings about them.
    #[must_use]
    pub fn with_findings(mut self, findings: Vec<Finding>, warnings: Vec<String>) -> Summary {
        self.method.push(method::findings(self.theta));
        if self
            .trust
            .as_ref()
            .is_some_and(|trust| trust.level == TrustLevel::Low)
        {
            return self;
        }
        self.findings = Some(
            findings
                .into_iter()
                .filter(|finding| {
                    !self
                        .cases
                        .iter()
                        .any(|case| case.operation == finding.operation && case.withheld.is_some())
                })
                .collect(),
        );
        self.warnings.extend(warnings);
        self
    }

    /// Adds the matrix of sizes as a comparison of targets.
    #[must_use]
    pub fn with_matrix(mut self, document: Document) -> Summary {
        self.matrix = Some(document);
        self
    }
}

/// Returns the workloads without a case that the run left out because of its budget.
fn left_out(record: &RunRecord, cases: &[Workload]) -> Vec<String> {
    let of_warning = |warning: &Warning| match warning {
        Warning::LeftOut { workloads, .. } | Warning::TooLong { workloads, .. } => {
            workloads.clone()
        }
        _ => Vec::new(),
    };
    let mut labels: Vec<String> = Vec::new();
    for label in record.warnings.iter().flat_map(of_warning) {
        if !labels.contains(&label) && cases.iter().all(|case| case.workload != label) {
            labels.push(label);
        }
    }
    labels
}

/// Returns the significant differences from the baseline.
fn significant(case: &Workload) -> impl Iterator<Item = (&str, usize)> {
    let sure = case.cells.iter().enumerate().filter(|(_, cell)| {
        cell.against
            .as_ref()
            .is_some_and(|against| against.verdict.is_sure())
    });
    sure.map(|(place, _)| (case.workload.as_str(), place))
}

fn targets(record: &RunRecord) -> Vec<TargetSummary> {
    let barred = risks::barred(record);
    let summarised = |(place, target): (usize, &fsb_model::Target)| TargetSummary {
        name: target.name.clone(),
        what: what(target),
        file_system: target.file_system().map(|spec| spec.fs.clone()),
        simulated: target.is_simulated(),
        failed: record
            .targets
            .get(&target.name)
            .and_then(|found| found.failed.clone()),
        unjudged: record.unjudged_target(target),
        unavailable: record
            .targets
            .get(&target.name)
            .and_then(|found| found.unavailable.clone()),
        risks: risks::of_target(record, &target.name).to_vec(),
        may_win: !barred.contains(&place),
    };
    record
        .plan
        .targets
        .iter()
        .enumerate()
        .map(summarised)
        .collect()
}

/// Returns the file system with its options on its medium, or the directory, without the name.
fn what(target: &fsb_model::Target) -> String {
    match &target.kind {
        TargetKind::Directory(path) => path.display().to_string(),
        TargetKind::FileSystem(spec) => spec.to_string(),
    }
}

/// Returns the number of measured blocks that have trials.
fn blocks(trials: &[ReportTrial]) -> u32 {
    let blocks: BTreeSet<u32> = trials
        .iter()
        .filter(|trial| trial.counts())
        .map(|trial| trial.block)
        .collect();
    blocks.len() as u32
}

/// Returns the facts of a run: medium, device, placement, kernel, blocks, scale, seed, controls,
/// time.
fn facts(record: &RunRecord, trials: &[ReportTrial], blocks: u32) -> Vec<Fact> {
    let mut facts = Vec::new();
    let media: BTreeSet<&str> = record
        .media
        .values()
        .map(|medium| medium.summary.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    if !media.is_empty() {
        facts.push(Fact::Text(
            media.into_iter().collect::<Vec<_>>().join(" and "),
        ));
    }
    let beneath: BTreeSet<String> = record
        .media
        .values()
        .filter_map(|medium| device::storage_text(record, &medium.device))
        .collect();
    if !beneath.is_empty() {
        facts.push(Fact::Text(
            beneath.into_iter().collect::<Vec<_>>().join(" and "),
        ));
    }
    facts.extend(
        device::fact(record)
            .into_iter()
            .chain(placement_fact(record))
            .map(Fact::Text),
    );
    let mut kernels: BTreeSet<&str> = trials
        .iter()
        .map(|trial| trial.what.kernel.as_str())
        .collect();
    if kernels.is_empty() {
        kernels.insert(&record.host.kernel);
    }
    if kernels.iter().any(|kernel| !kernel.is_empty()) {
        facts.push(Fact::Kernels(
            kernels.into_iter().map(str::to_owned).collect(),
        ));
    }
    facts.push(Fact::Text(match record.blocks_planned.or(asked(record)) {
        Some(planned) if record.stop_reason.is_none() && blocks < planned => {
            format!("{blocks} of {planned} blocks")
        }
        _ => counted(blocks as usize, "block"),
    }));
    facts.extend(interim_analyses(record, blocks).map(Fact::Text));
    if record.plan.scale != 1.0 {
        facts.push(Fact::Text(format!("scale {}", scale(record.plan.scale))));
    }
    facts.push(Fact::Text(format!("seed {}", record.plan.seed)));
    if !record.plan.controls.is_empty() {
        let held: Vec<String> = record
            .plan
            .controls
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        facts.push(Fact::Text(held.join(" ")));
    }
    if let Some(seconds) = seconds(record, trials) {
        facts.push(Fact::Text(show_duration(Duration::from_secs_f64(seconds))));
    }
    facts
}

/// Returns the reason why the run ended, if the plan did not fix the number of blocks alone.
fn stopped(record: &RunRecord) -> Option<String> {
    let decided = !matches!(
        record.plan.repetition,
        Repetition::Blocks { seconds: None, .. }
    );
    record
        .stop_reason
        .as_ref()
        .filter(|_| decided)
        .map(stop_reason_text)
}

fn asked(record: &RunRecord) -> Option<u32> {
    match record.plan.repetition {
        Repetition::Blocks { blocks, .. } => Some(blocks),
        _ => None,
    }
}

/// Returns the duration of the run in seconds: the sum of its segments, killed ones up to their
/// last trial. Returns `None` if it is unknown.
fn seconds(record: &RunRecord, trials: &[ReportTrial]) -> Option<f64> {
    let mut total = 0.0;
    for (index, segment) in record.segments.iter().enumerate() {
        let started = report_trial::seconds(&segment.started)?;
        let next = record
            .segments
            .get(index + 1)
            .and_then(|next| report_trial::seconds(&next.started))
            .unwrap_or(f64::INFINITY);
        let last_trial = || {
            trials
                .iter()
                .filter_map(|trial| trial.started)
                .filter(|stamp| (started..next).contains(stamp))
                .fold(started, f64::max)
        };
        let ended = segment
            .ended
            .as_deref()
            .and_then(report_trial::seconds)
            .unwrap_or_else(last_trial);
        total += (ended - started).max(0.0);
    }
    (total > 0.0).then_some(total)
}

/// Returns the option that would narrow the intervals of undecided cases or allow verdicts, or the
/// reason why nothing is judged.
fn advice(summary: &Summary, record: &RunRecord, seconds: Option<f64>) -> Option<String> {
    if let Some(why) = summary.unjudged.as_deref().filter(|_| summary.blocks > 0) {
        return Some(format!("Values, without ranks or verdicts: {why}."));
    }
    if let Some(budget) = sufficient_budget(&record.warnings).filter(|_| summary.blocks > 0) {
        return Some(format!("--budget {budget} would hold and judge all"));
    }
    if !summary.is_comparison() || summary.blocks == 0 {
        return None;
    }
    let about = |blocks: u32| {
        let scaled = seconds? * f64::from(blocks) / f64::from(summary.blocks);
        Some(format!(" (about {})", rough(scaled)))
    };
    if !summary.is_judged() && (summary.blocks as usize) < FEWEST_JUDGED {
        let fewest = FEWEST_JUDGED as u32;
        return Some(format!(
            "--blocks {fewest} or more gives verdicts{}",
            about(fewest).unwrap_or_default()
        ));
    }
    let mut pairs = summary
        .cases
        .iter()
        .filter(|case| matches!(case.ranking.outcome, RankingOutcome::Undecided(_)))
        .flat_map(|case| &case.ranking.pairs);
    let judged = pairs.find(|pair| pair.adjusted_p.is_some())?;
    let Comparison {
        n,
        level,
        nominal_level,
        ..
    } = judged.comparison;
    let blocks = blocks_to_scale(n, nominal_level.unwrap_or(level), level, 0.5)?;
    // After an early end, as many blocks may do: an interim analysis has wider intervals than the
    // only one.
    let alone = nominal_level.is_some() && blocks <= summary.blocks;
    let how = if alone {
        ", without interim analyses,"
    } else {
        ""
    };
    Some(format!(
        "--blocks {blocks}{how} would halve the intervals{}",
        about(blocks).unwrap_or_default()
    ))
}

/// Formats an estimated duration: whole seconds, and whole minutes from 90 s to an hour.
fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => show_duration(Duration::from_secs_f64(s.round())),
        s if s < 3570.0 => format!("{:.0} min", s / 60.0),
        s => show_duration(Duration::from_secs_f64(s)),
    }
}

/// Returns the placement of the targets, such as `side by side on 3 slices of 660 MiB, 9 rounds` or
/// `in turn: the targets are on different media`.
fn placement_fact(record: &RunRecord) -> Option<String> {
    match record.placement.as_ref()? {
        Placement::InTurn { reason } => Some(format!("in turn: {}", placement_reason_text(reason))),
        Placement::SideBySide {
            slices,
            slice_bytes,
        } => {
            let on = match slices {
                0 => String::new(),
                slices => format!(
                    " on {} of {}",
                    counted(*slices as usize, "slice"),
                    show_bytes(*slice_bytes as f64)
                ),
            };
            let rounds = rounds(record)
                .map(|rounds| format!(", {rounds}"))
                .unwrap_or_default();
            Some(format!("side by side{on}{rounds}"))
        }
    }
}

/// Returns the number of rounds, such as `9 rounds`, or `6 to 12 rounds` if cases differ.
fn rounds(record: &RunRecord) -> Option<String> {
    let rounds = || record.rounds.values().map(|rounds| rounds.rounds);
    let (fewest, most) = (rounds().min()?, rounds().max()?);
    Some(if fewest == most {
        counted(most as usize, "round")
    } else {
        format!("{fewest} to {most} rounds")
    })
}

/// Returns text such as `2 of 3 interim analyses`. Returns `None` if fewer than two were planned.
fn interim_analyses(record: &RunRecord, blocks: u32) -> Option<String> {
    if record.interim_analyses.len() < 2 {
        return None;
    }
    let taken = record
        .interim_analyses
        .iter()
        .filter(|analysis| **analysis <= blocks)
        .count();
    Some(format!(
        "{taken} of {} interim analyses",
        record.interim_analyses.len()
    ))
}

/// Matches by workload label, metric and file-system name. Cases that the run did not measure are
/// omitted.
fn beside(summary: &Summary, table: &PublishedTable) -> Published {
    let (mut file_systems, mut rows): (Vec<String>, Vec<&PublishedValue>) =
        (Vec::new(), Vec::new());
    for value in &table.rows {
        if !file_systems.contains(&value.target) {
            file_systems.push(value.target.clone());
        }
        if !rows.iter().any(|known| known.row == value.row) {
            rows.push(value);
        }
    }
    let theirs = |row: &str, target: &str| {
        let found = table
            .rows
            .iter()
            .find(|value| value.row == row && value.target == target);
        found
            .map(|value| value.value)
            .filter(|value| value.is_finite())
    };
    let printed = |row: &str| {
        let of = |name: &String| {
            table
                .rows
                .iter()
                .find(|value| value.row == row && value.target == *name)
        };
        file_systems
            .iter()
            .map(|name| of(name)?.rate.as_ref()?.printed.clone())
            .collect()
    };
    let rows = rows.into_iter().filter_map(|known| {
        let row = summary
            .cases
            .iter()
            .find(|row| row.workload == known.workload)?;
        let ours = |cell: &Measured| match (&known.metric, &known.rate) {
            (None, Some(rate)) => {
                let time = cell
                    .estimate
                    .as_ref()
                    .filter(|_| row.unit == Unit::Seconds)
                    .map(|estimate| estimate.mean);
                time.map(|seconds| rate.amount / seconds)
            }
            (None, None) => cell
                .estimate
                .as_ref()
                .filter(|_| row.unit == known.unit)
                .map(|estimate| estimate.mean),
            (Some(metric), _) => {
                let found = cell
                    .secondary
                    .iter()
                    .find(|secondary| secondary.metric == *metric);
                found
                    .filter(|secondary| secondary.unit == known.unit)
                    .map(|secondary| secondary.description.mean)
            }
        };
        Some(PublishedRow {
            workload: known.row.clone(),
            unit: known.unit,
            ours: row.cells.iter().map(ours).collect(),
            theirs: file_systems
                .iter()
                .map(|name| theirs(&known.row, name))
                .collect(),
            group: known.rate.as_ref().map(|rate| rate.group.clone()),
            printed: if known.rate.is_some() {
                printed(&known.row)
            } else {
                Vec::new()
            },
        })
    });
    let mut rows = rows.collect();
    table.sums.iter().for_each(|sum| sum.add_to(&mut rows));
    let (title, note) = (table.title.clone(), table.note.clone());
    let absent = summary
        .targets
        .iter()
        .filter(|target| target.unavailable.is_some());
    let unavailable = absent.map(TargetSummary::label).collect();
    Published {
        title,
        note,
        first: table.first,
        layout: table.layout,
        rows,
        file_systems,
        unavailable,
    }
}

/// Compares the cases that have the same units and values in both runs; `None` without any.
fn compare_earlier(
    (now, record): (&Summary, &RunRecord),
    (then, earlier): (&Summary, &RunRecord),
) -> Option<EarlierRun> {
    let mut cases = 0;
    let mut changes: Vec<CellChange> = Vec::new();
    let old_cases: HashMap<&str, &Workload> = then
        .cases
        .iter()
        .rev()
        .map(|old| (&*old.workload, old))
        .collect();
    for case in &now.cases {
        let Some(old) = old_cases.get(&*case.workload) else {
            continue;
        };
        if record.units.get(&case.workload) != earlier.units.get(&case.workload) {
            continue;
        }
        let before = changes.len();
        let cells = now.targets.iter().zip(case.cells.iter().zip(&old.cells));
        changes.extend(cells.filter_map(|(target, (cell, old_cell))| {
            Some(CellChange {
                workload: case.workload.clone(),
                target: target.name.clone(),
                then: compared_value(then, old, old_cell)?,
                now: compared_value(now, case, cell)?,
            })
        }));
        cases += usize::from(changes.len() > before);
    }
    changes.retain(|change| change.distance().is_finite());
    changes.sort_by(|one, other| one.distance().total_cmp(&other.distance()));
    let (lower, upper) = (
        changes.get((changes.len().max(1) - 1) / 2)?,
        changes.get(changes.len() / 2)?,
    );
    let median = ((lower.distance() + upper.distance()) / 2.0).exp_m1();
    let started = earlier.segments.first()?.started.clone();
    Some(EarlierRun {
        started,
        cases,
        median,
        most: changes.pop()?,
    })
}

fn compared_value(summary: &Summary, case: &Workload, cell: &Measured) -> Option<CellValue> {
    if summary.is_comparison() {
        return cell
            .against
            .as_ref()
            .map(|against| CellValue::Ratio(against.ratio));
    }
    let value = cell.estimate.as_ref()?.value;
    Some(CellValue::Value(value, case.unit.show(value)))
}

#[cfg(test)]
mod tests;
