//! Assembles the summary of a run.

use std::collections::BTreeSet;

use fsb_model::{RunRecord, TargetKind, Trial, Warning, metric};
use fsb_stats::compare::{Document, Finding};

use super::claims::PublishedClaims;
use super::model::{Summary, TargetSummary, TrustLevel, Workload};
use super::published::PublishedTable;
use super::report_trial::ReportTrial;
use super::{
    advice, cases, causes, earlier, environment, facts, headline, interference, match_published,
    method, neighbours, risks, scaling, traced, trust, warnings,
};

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
            reference: 0,
            targets,
            left_out: left_out(record, &cases),
            cases,
            overall,
            correlation,
            blocks,
            advice: None,
            facts: facts::facts(record, trials, blocks),
            stopped: facts::stopped(record),
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
        summary.advice = advice::advice(&summary, record, facts::seconds(record, trials));
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
        self.published = Some(match_published::beside(&self, table));
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
        self.earlier = earlier::compare_earlier((&self, record), (earlier, its_record));
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
