//! What is shown of a run or of a comparison, assembled once.
//!
//! A renderer decides where things stand and how they look, never what they are: whatever appears in two forms is
//! computed before. Targets and sets are columns, workloads and operations are rows; the column that the others are
//! compared with, the baseline, stands first.

use fsb_model::Better;
use fsb_stats::compare::Finding;
use fsb_stats::{Interval, Outcome, Verdict};

use crate::compare::operation::OperationRow;
use crate::judged::Judged;
use crate::mark;
use crate::run::curve::Scaling;
use crate::run::published::Published;
use crate::run::summary::Workload;
use crate::show::Paragraph;
use crate::show::{capital, counted};

/// A run or a comparison, ready to be shown.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// What columns and rows are called.
    pub(crate) words: Words,
    /// What is shown: the run, or the sets.
    pub(crate) title: String,
    /// The answer, in one sentence.
    pub(crate) answer: String,
    /// The answer for all rows together.
    pub(crate) overall: Option<String>,
    /// Names of the columns.
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Row<'a>>,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub(crate) theta: f64,
    /// Why there are numbers but no ranks, verdicts or findings.
    pub(crate) unjudged: Option<&'a str>,
    /// What the signs of the table mean, for a screen, which shows short names.
    pub(crate) legend: Vec<String>,
    /// The same in a sentence, with names in full.
    pub(crate) explanation: Option<String>,
    /// Whether there are further tables, size by size and run by run: [`View::details`].
    pub(crate) in_detail: bool,
    /// Regions of sizes where columns differ, the widest first; absent where none were looked for.
    pub(crate) findings: Option<Vec<&'a Finding>>,
    /// Rows that are curves over threads or requests under way.
    pub(crate) scaling: Vec<&'a Scaling>,
    /// Published values, where the run was made to stand beside them.
    pub(crate) published: Option<&'a Published>,
    /// What was shown, in a line, part by part.
    pub(crate) facts: Vec<String>,
    /// Findings that do not change the answer, a sentence each: deferred work, costs, resolution, the earlier run.
    pub(crate) notes: Vec<String>,
    /// What would settle the undecided rows.
    pub(crate) advice: Option<&'a str>,
    /// What has no value, with its reason.
    pub(crate) problems: &'a [String],
    /// Conditions in which the runs differ: shown before any number.
    pub(crate) conditions: Vec<String>,
    /// The trust in the numbers. `None` for comparisons and for runs without a value.
    pub(crate) trust: Option<TrustView>,
    /// What the reader must know.
    pub(crate) warnings: &'a [String],
    /// The number of warnings, from the first, that may change the meaning of the answer. The trust covers the others.
    pub(crate) urgent: usize,
    /// How the numbers were made.
    pub(crate) method: Vec<Paragraph>,
    /// The number of blocks of which a page shows the median: 1 if it shows every trial.
    pub(crate) group_size: u32,
}

/// The trust in the numbers of a run, as text.
#[derive(Debug)]
pub(crate) struct TrustView {
    /// The level with its strongest reason, in a line.
    pub(crate) line: String,
    pub(crate) is_high: bool,
    /// The command or action that raises it.
    pub(crate) help: Option<String>,
}

/// What columns and rows are called in a run, and in a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// `target` or `set`.
    pub(crate) column: &'static str,
    /// `workload` or `operation`.
    pub(crate) row: &'static str,
    /// How many findings a screen tells, and where the others are.
    pub(crate) told: usize,
    pub(crate) elsewhere: &'static str,
}

/// One workload, or one operation.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// As it is named in tables.
    pub(crate) label: String,
    /// What the data support, in a sentence.
    pub(crate) sentence: String,
    pub(crate) better: Better,
    /// What can be said about the row as a whole.
    pub(crate) outcome: Outcome,
    /// One a column.
    pub(crate) cells: Vec<CellView>,
    /// Whether another row has the total of which this one is a part. A screen shows it on demand.
    pub(crate) is_part: bool,
    /// What charts and further tables are made of.
    pub(crate) data: RowData<'a>,
}

/// What stands behind a row.
#[derive(Debug)]
pub(crate) enum RowData<'a> {
    /// A workload of a run.
    Workload(&'a Workload),
    /// An operation of sets.
    Operation(OperationRow<'a>),
}

/// One column in one row.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellView {
    /// The value with its unit, where there is one.
    pub(crate) value: Option<String>,
    /// The ends of its interval, where it has one.
    pub(crate) interval: Option<[String; 2]>,
    /// Half of that as a share of the value, where no column stands beside it.
    pub(crate) half_width: Option<f64>,
    /// Against the baseline.
    pub(crate) judged: Option<Judged>,
    /// Letters, and the marks of [`crate::mark`].
    pub(crate) mark: String,
    /// Why there is no value: `failed`.
    pub(crate) absence: &'static str,
    /// It has values but is not ranked beside others.
    pub(crate) unranked: bool,
}

/// A table beside the first one: sizes or runs down.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) title: String,
    /// What the lines differ in: `file size`.
    pub(crate) varies: &'static str,
    /// Heads of the columns, where they are not the names.
    pub(crate) heads: Option<Vec<String>>,
    pub(crate) lines: Vec<DetailLine>,
}

/// A line of a further table.
#[derive(Debug)]
pub(crate) struct DetailLine {
    /// The size.
    pub(crate) head: String,
    /// The column of the view that the line is about, where its cells are not one a column.
    pub(crate) column: Option<usize>,
    pub(crate) cells: Vec<CellView>,
}

impl View<'_> {
    /// The name of the column that the others are compared with.
    pub(crate) fn baseline(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The one remedy that is printed beside the trust. `None` if nothing is judged, whatever is done.
    pub(crate) fn remedy(&self) -> Option<&str> {
        let of_trust = || self.trust.as_ref()?.help.as_deref();
        self.advice.or_else(of_trust).filter(|_| self.unjudged.is_none())
    }

    /// Both answers, as a screen begins.
    pub(crate) fn headline(&self) -> String {
        match &self.overall {
            Some(overall) => format!("{} {overall}", self.answer),
            None => self.answer.clone(),
        }
    }

    /// Whether all rows are times, so that charts show changes of time, as the table does.
    fn is_in_time(&self) -> bool {
        self.rows.iter().all(|row| row.better == Better::Lower)
    }

    /// The title of the axis on which charts show changes: `change of speed against ext4 (right is faster)`.
    pub(crate) fn axis_of_changes(&self, baseline: &str) -> String {
        let is_mixed = !self.is_in_time() && self.rows.iter().any(|row| row.better == Better::Lower);
        match (self.is_in_time(), is_mixed) {
            (true, _) => format!("change of time against {baseline} (left is faster)"),
            (_, true) => format!("change of speed against {baseline} (right is faster; of times the inverse)"),
            _ => format!("change of speed against {baseline} (right is faster)"),
        }
    }

    /// A ratio and its interval on that axis.
    pub(crate) fn on_axis_of_changes(&self, row: &Row<'_>, judged: &Judged) -> (f64, Interval) {
        // As it is, where larger means more of what the axis shows.
        judged.speed(if self.is_in_time() { Better::Higher } else { row.better })
    }

    /// Whether columns are set against each other at all: there are several, and nothing forbids it.
    pub(crate) fn compares(&self) -> bool {
        self.names.len() > 1 && self.unjudged.is_none()
    }
}

impl<'a> Row<'a> {
    /// The workload of a run that the row is about.
    pub(crate) fn workload(&self) -> Option<&'a Workload> {
        match &self.data {
            RowData::Workload(workload) => Some(workload),
            RowData::Operation(_) => None,
        }
    }

    /// The operation of sets that the row is about.
    pub(crate) fn operation(&self) -> Option<&OperationRow<'a>> {
        match &self.data {
            RowData::Workload(_) => None,
            RowData::Operation(operation) => Some(operation),
        }
    }
}

/// Explains the marks that occur in a table in as few words as a screen has room for.
pub(crate) fn brief_legend(rows: &[Row<'_>], theta: f64) -> Option<String> {
    explained(mark::legend(&marks(rows), theta, None))
}

/// Explains the marks that occur in a table: letters from three columns on, else signs.
pub(crate) fn legend_of_marks(rows: &[Row<'_>], theta: f64) -> Option<String> {
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let cases = rows.iter().filter(|row| row.cells.iter().any(|cell| cell.verdict().is_some())).count();
    let cases = counted(cases, "case");
    let covered = if columns > 2 { format!("all pairs at {cases}") } else { cases };
    explained(mark::legend(&marks(rows), theta, Some(&covered)))
}

fn marks<'a>(rows: &'a [Row<'_>]) -> Vec<&'a str> {
    rows.iter().flat_map(|row| &row.cells).map(|cell| cell.mark.as_str()).collect()
}

fn explained(texts: Vec<String>) -> Option<String> {
    (!texts.is_empty()).then(|| capital(&texts.join("; ")) + ".")
}

impl CellView {
    /// The verdict, where the cell is judged.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.judged.map(|judged| judged.verdict).filter(|verdict| *verdict != Verdict::NotJudged)
    }
}
