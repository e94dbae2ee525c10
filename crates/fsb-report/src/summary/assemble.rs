//! Assembles the summary of a run from all of its inputs.

use std::collections::BTreeSet;

use fsb_model::{RunRecord, TargetKind, Trial, Warning, metric};

use super::inputs::SummaryInputs;
use super::model::{Numbers, Summary, TargetSummary, Workload};
use super::trial_value::CompactTrial;
use super::{
    advice, bounds, cases, causes, earlier, environment, facts, headline, match_published, matrix,
    method, neighbours, over, risks, scaling, traced, trust, warnings,
};

impl Summary {
    /// Assembles the summary of a run.
    pub fn new(inputs: &SummaryInputs<'_>) -> Summary {
        let SummaryInputs { record, trials, .. } = *inputs;
        let numbers = Numbers::new(record, trials);
        let answer = headline::answer(&numbers, trials);
        let overall_answer = headline::overall(&numbers);
        let trust = trust::assess(&numbers, record, trials);
        let (mut warnings, others) = warnings::warnings(&numbers, record, trials);
        let urgent = warnings.len();
        warnings.extend(others);
        let mut method = method::paragraphs(&numbers, record);
        let matrix = matrix::Matrix::new(&numbers, trust.as_ref(), inputs);
        warnings.extend(matrix.warnings);
        method.extend(matrix.method);
        Summary {
            headline: match &overall_answer {
                Some(overall) => format!("{answer} {overall}"),
                None => answer.clone(),
            },
            answer,
            overall_answer,
            advice: advice::advice(&numbers, record, facts::seconds(record, trials)),
            facts: facts::facts(record, trials, numbers.blocks),
            stopped: facts::stopped(record),
            ended_early: record.stop_reason.as_ref().is_some_and(warnings::is_early),
            earlier: inputs.earlier.and_then(|(earlier, its_trials)| {
                let then = Numbers::new(earlier, its_trials);
                earlier::compare_earlier((&numbers, record), (&then, earlier))
            }),
            trust,
            warnings,
            urgent,
            problems: warnings::problems(record, &numbers),
            environment: environment::tables(record),
            method,
            published: inputs
                .published
                .map(|table| match_published::beside(&numbers, table, (record, trials))),
            claims: inputs.claims.cloned(),
            findings: matrix.findings,
            matrix: matrix.document,
            numbers,
        }
    }

    /// Assembles the summary of a run from its record and its trials alone.
    pub fn of_run(record: &RunRecord, trials: &[Trial]) -> Summary {
        Summary::of_shown(record, &CompactTrial::all(trials))
    }

    /// Assembles the same summary from trials that hold only the fields that reports show.
    pub fn of_shown(record: &RunRecord, trials: &[CompactTrial]) -> Summary {
        Summary::new(&SummaryInputs::new(record, trials))
    }
}

impl Numbers {
    /// Computes the numbers of a run.
    pub fn new(record: &RunRecord, trials: &[CompactTrial]) -> Numbers {
        let theta = record.plan.theta;
        let unjudged = record.unjudged();
        let targets = targets(record);
        let (mut cases, correlation) = cases::cases(record, trials);
        let mut overall = cases::overall(&cases, &targets, correlation, theta);
        let scaling = scaling::curves(&cases, &targets, trials, theta);
        let neighbours = neighbours::of_run(record, &cases, trials);
        if unjudged.is_some() {
            headline::strip_verdicts(&mut cases);
            overall.fill(None);
        }
        let seconds = facts::seconds(record, trials);
        let per_block = seconds.map(|seconds| seconds / f64::from(blocks(trials).max(1)));
        bounds::answer(&mut cases, unjudged.is_none(), per_block);
        let judged = || cases.iter().filter(|case| case.withheld.is_none());
        let operations: Vec<_> = judged()
            .filter(|case| case.metric == metric::OPERATION_RATE.name)
            .flat_map(significant)
            .collect();
        let differences: Vec<_> = judged().flat_map(significant).collect();
        let mut numbers = Numbers {
            explanations: causes::explanations(record, &operations, trials),
            traced_explanations: traced::explanations(record, &differences, trials),
            traced_blocks: record.plan.explain.then(|| traced::blocks(trials)),
            name: record.name.clone(),
            suite: record.plan.name.clone(),
            unjudged,
            emulated: record.emulated,
            theta,
            baseline: 0,
            targets,
            left_out: left_out(record, &cases),
            cases,
            overall,
            correlation,
            blocks: blocks(trials),
            per_block,
            scaling,
            neighbours,
        };
        headline::add_findings(&mut numbers);
        numbers
    }
}

/// Returns the workloads without a case that the run left out because of its budget.
fn left_out(record: &RunRecord, cases: &[Workload]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for label in record.warnings.iter().flat_map(|warning| match warning {
        Warning::LeftOut { workloads, .. } | Warning::TooLong { workloads, .. } => {
            workloads.clone()
        }
        _ => Vec::new(),
    }) {
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
        over: over::of_target(record, &target.name),
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
fn blocks(trials: &[CompactTrial]) -> u32 {
    let blocks: BTreeSet<u32> = trials
        .iter()
        .filter(|trial| trial.counts())
        .map(|trial| trial.block)
        .collect();
    blocks.len() as u32
}
