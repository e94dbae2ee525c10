//! A summary from a record and its trials.

use fsb_model::{RunRecord, Trial, Warning, metric};
use fsb_stats::compare::{Document, Finding};

use super::published::PublishedTable;
use super::report_trial::ReportTrial;
use super::summary::{Summary, TrustLevel, Workload};
use super::{
    beside, causes, compare_earlier, environment, facts, headline, interference, method, rows, scaling, trust,
    unjudged, warnings,
};

/// Returns the workloads without a row that the run left out because of its budget.
fn left_out(record: &RunRecord, rows: &[Workload]) -> Vec<String> {
    let of_warning = |warning: &Warning| match warning {
        Warning::LeftOut { workloads, .. } | Warning::TooLong { workloads, .. } => workloads.clone(),
        _ => Vec::new(),
    };
    let mut labels: Vec<String> = Vec::new();
    for label in record.warnings.iter().flat_map(of_warning) {
        if !labels.contains(&label) && rows.iter().all(|row| row.workload != label) {
            labels.push(label);
        }
    }
    labels
}

/// Returns the significant differences from the baseline in a rate of operations.
fn significant(row: &Workload) -> impl Iterator<Item = (&str, usize)> {
    let cells = row.cells.iter().enumerate().filter(|_| row.metric == metric::OPERATION_RATE.name);
    let sure = cells.filter(|(_, cell)| cell.against.as_ref().is_some_and(|against| against.verdict.is_sure()));
    sure.map(|(place, _)| (row.workload.as_str(), place))
}

impl Summary {
    /// Assembles the summary of a run. The first target of the plan is the one that others are compared with.
    pub fn of_run(record: &RunRecord, trials: &[Trial]) -> Summary {
        Summary::of_shown(record, &ReportTrial::all(trials))
    }

    /// Assembles the summary from trials that hold only the fields that reports show.
    pub fn of_shown(record: &RunRecord, trials: &[ReportTrial]) -> Summary {
        let targets = facts::targets(record);
        let (rows, correlation) = rows::rows(record, trials);
        let overall = rows::overall(&rows, &targets, correlation, record.plan.theta);
        let blocks = facts::blocks(trials);
        let scaling = scaling::curves(&rows, &targets, trials, record.plan.theta);
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
            left_out: left_out(record, &rows),
            rows,
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
            scaling,
            explanations: Vec::new(),
            findings: None,
            matrix: None,
        };
        if summary.unjudged.is_some() {
            unjudged::strip(&mut summary);
        }
        let differences = summary.rows.iter().filter(|row| row.withheld.is_none()).flat_map(significant);
        summary.explanations = causes::explanations(record, &differences.collect::<Vec<_>>(), trials);
        headline::add_findings(&mut summary);
        let preface = interference::preface(trials).or_else(|| headline::withheld(&summary));
        summary.answer = preface.unwrap_or_default() + &headline::headline(&summary);
        summary.overall_answer = headline::overall(&summary);
        let overall = summary.overall_answer.as_deref();
        summary.headline =
            overall.map_or_else(|| summary.answer.clone(), |overall| format!("{} {overall}", summary.answer));
        summary.advice = facts::advice(&summary, record, facts::seconds(record, trials));
        summary.problems = warnings::problems(&summary);
        summary.trust = trust::of(&summary, record, trials);
        let (urgent, others) = warnings::warnings(&summary, record, trials);
        summary.urgent = urgent.len();
        summary.warnings = urgent.into_iter().chain(others).collect();
        summary.method = method::paragraphs(&summary, record);
        summary
    }

    /// Adds published values beside the summary's own, matched by workload and file system.
    #[must_use]
    pub fn with_published(mut self, table: &PublishedTable) -> Summary {
        self.published = Some(beside::beside(&self, table));
        self
    }

    /// Adds the difference to an earlier run of the same plan.
    #[must_use]
    pub fn with_earlier_run(mut self, record: &RunRecord, earlier: &Summary, its_record: &RunRecord) -> Summary {
        self.earlier = compare_earlier::compare((&self, record), (earlier, its_record));
        self
    }

    /// Adds the findings in the cells of a matrix, the widest first, and the warnings about them.
    #[must_use]
    pub fn with_findings(mut self, findings: Vec<Finding>, warnings: Vec<String>) -> Summary {
        self.method.push(method::findings(self.theta));
        if self.trust.as_ref().is_some_and(|trust| trust.level == TrustLevel::Low) {
            return self;
        }
        let is_withheld = |finding: &Finding| {
            let of = |row: &Workload| row.operation == finding.operation && row.withheld.is_some();
            self.rows.iter().any(of)
        };
        self.findings = Some(findings.into_iter().filter(|finding| !is_withheld(finding)).collect());
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
