//! The view of a run or of a comparison, assembled once for all formats.
//!
//! A renderer chooses position and style only; content that occurs in two formats is computed
//! before. Targets and sets are columns, workloads and operations are rows. The baseline, the
//! column that the others are compared with, is first.

use fsb_model::Better;
use fsb_stats::compare::Finding;
use fsb_stats::{Interval, RankingOutcome, Verdict};

use crate::judged::Judged;
use crate::mark::{self, Covered};
use crate::operation::OperationRow;
use crate::show::{Paragraph, counted};
use crate::summary::{Published, PublishedClaims, Scaling, TracedExplanation, Workload};

/// A run or a comparison, ready to be shown.
#[derive(Debug, Default)]
pub(crate) struct View<'a> {
    /// The words for columns and rows.
    pub(crate) words: Words,
    /// The title: the name of the run, or those of the sets.
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
    /// The reason why there are numbers but no ranks, verdicts or findings.
    pub(crate) unjudged: Option<&'a str>,
    /// An explanation of the table's signs for a screen, which shows short names.
    pub(crate) legend: Vec<String>,
    /// The explanation as a sentence with full names.
    pub(crate) explanation: Option<String>,
    /// Whether there are further tables, size by size and run by run: [`View::details`].
    pub(crate) in_detail: bool,
    /// Regions of sizes in which columns differ, the widest first. `None` if the analysis did not
    /// look for any.
    pub(crate) findings: Option<Vec<&'a Finding>>,
    /// Rows that are curves over threads, requests under way or rates.
    pub(crate) scaling: Vec<&'a Scaling>,
    /// The explanations of differences by traced samples, with the places of their columns.
    pub(crate) traced: Vec<(usize, &'a TracedExplanation)>,
    /// The same explanations in sentences, or the reason why there are none; also among the notes.
    pub(crate) explained: Vec<String>,
    /// Published values, if the run was made to be compared with them.
    pub(crate) published: Option<&'a Published>,
    /// Published statements, if the report has them.
    pub(crate) claims: Option<&'a PublishedClaims>,
    /// The comparisons of the order of the file systems with published ones, a sentence each.
    pub(crate) orders: Vec<&'a str>,
    /// The reason why published statements about the operations of the run are not shown.
    pub(crate) withheld_claims: Option<&'a str>,
    /// The facts of the run or of the sets, for one line.
    pub(crate) facts: Vec<String>,
    /// Findings that do not change the answer, a sentence each: deferred work, costs, resolution,
    /// the earlier run.
    pub(crate) notes: Vec<String>,
    /// Advice on deciding the undecided rows.
    pub(crate) advice: Option<&'a str>,
    /// Targets, cells and trials without a value, with the reasons.
    pub(crate) problems: &'a [String],
    /// Conditions in which the runs differ: shown before any number.
    pub(crate) conditions: Vec<String>,
    /// The changes of targets and of their ratios, before the table of all columns.
    pub(crate) changes: Vec<Changes>,
    /// The trust in the numbers. `None` for comparisons and for runs without a value.
    pub(crate) trust: Option<TrustView>,
    /// The warnings.
    pub(crate) warnings: &'a [String],
    /// The number of warnings, from the first, that may change the meaning of the answer. The trust
    /// covers the others.
    pub(crate) urgent: usize,
    /// The methods behind the numbers.
    pub(crate) method: Vec<Paragraph>,
    /// The number of blocks of which a page shows the median: 1 if it shows every trial.
    pub(crate) group_size: u32,
    /// Whether each row has a section of its own on a page.
    pub(crate) has_row_sections: bool,
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

/// Changes of targets, or of their ratios, from one run to another.
#[derive(Debug)]
pub(crate) struct Changes {
    /// `Target by target`.
    pub(crate) title: &'static str,
    /// For each set a sentence, and its details.
    pub(crate) sets: Vec<Vec<String>>,
}

impl Changes {
    /// Returns one text for each set.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.sets.iter().map(|set| set.join(" "))
    }
}

/// The words for columns and rows, in a run and in a comparison.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Words {
    /// `target` or `set`.
    pub(crate) column: &'static str,
    /// `workload` or `operation`.
    pub(crate) row: &'static str,
    /// The word for one value of a column: `block` of one run, `run` of another tool, or `value`.
    pub(crate) value: &'static str,
    /// The number of findings that a screen shows; `elsewhere` names the place of the others.
    pub(crate) shown: usize,
    pub(crate) elsewhere: &'static str,
}

/// One workload, or one operation.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// The name in tables.
    pub(crate) label: String,
    /// The conclusion that the data support, in a sentence.
    pub(crate) sentence: String,
    pub(crate) better: Better,
    /// The outcome of the row as a whole.
    pub(crate) outcome: RankingOutcome,
    /// One cell per column.
    pub(crate) cells: Vec<CellView>,
    /// Whether it is a part of a total in another row. A screen shows it on demand.
    pub(crate) is_part: bool,
    /// The data for charts and further tables.
    pub(crate) data: RowData<'a>,
}

/// The data behind a row.
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
    /// The value with its unit, if there is one.
    pub(crate) value: Option<String>,
    /// The ends of its interval, if it has one.
    pub(crate) interval: Option<[String; 2]>,
    /// Half the width of the interval as a share of the value, if the view has no other column.
    pub(crate) half_width: Option<f64>,
    /// The comparison with the baseline.
    pub(crate) judged: Option<Judged>,
    /// Letters, and the marks of [`crate::mark`].
    pub(crate) mark: String,
    /// The reason for a missing value: `failed`.
    pub(crate) absence: &'static str,
    /// Whether it has values but is not ranked beside others.
    pub(crate) unranked: bool,
}

/// A table in addition to the first one, with one row per size or per run.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) title: String,
    /// The size by which the lines differ: `file size`.
    pub(crate) varies: &'static str,
    /// Heads of the columns, if they are not the names.
    pub(crate) heads: Option<Vec<String>>,
    pub(crate) lines: Vec<DetailLine>,
}

/// A line of a further table.
#[derive(Debug)]
pub(crate) struct DetailLine {
    /// The size.
    pub(crate) head: String,
    /// The column of the view that the line is about, if its cells are not one per column.
    pub(crate) column: Option<usize>,
    pub(crate) cells: Vec<CellView>,
}

impl View<'_> {
    /// Returns the name of the column that the others are compared with.
    pub(crate) fn baseline(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Returns the cells of all rows.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &CellView> {
        self.rows.iter().flat_map(|row| &row.cells)
    }

    /// Returns whether a column has values but is not ranked beside the others.
    pub(crate) fn is_unranked(&self, column: usize) -> bool {
        self.rows
            .iter()
            .any(|row| row.cells.get(column).is_some_and(|cell| cell.unranked))
    }

    /// Returns the name of a column in charts: `xfs, not ranked`.
    pub(crate) fn charted(&self, column: usize) -> String {
        let note = if self.is_unranked(column) {
            ", not ranked"
        } else {
            ""
        };
        format!("{}{note}", self.names[column])
    }

    /// Returns the one remedy that is printed beside the trust. Returns `None` if nothing is judged
    /// in any case.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.advice
            .or_else(|| self.trust.as_ref()?.help.as_deref())
            .filter(|_| self.unjudged.is_none())
    }

    /// Returns both answers, as a screen begins.
    pub(crate) fn headline(&self) -> String {
        match &self.overall {
            Some(overall) => format!("{} {overall}", self.answer),
            None => self.answer.clone(),
        }
    }

    /// Returns the changes of each set with the title of its part.
    pub(crate) fn titled_changes(&self) -> Vec<(&'static str, String)> {
        let mut texts = Vec::new();
        for found in &self.changes {
            for text in found.texts() {
                texts.push((found.title, text));
            }
        }
        texts
    }

    /// Returns the warnings that precede the answer: differences of conditions, and the failures of
    /// a comparison.
    pub(crate) fn first_warnings(&self) -> impl Iterator<Item = &str> {
        let failures = if self.trust.is_none() {
            &self.warnings[..self.urgent]
        } else {
            &[]
        };
        self.conditions.iter().chain(failures).map(String::as_str)
    }

    /// Returns the warnings that follow the tables.
    pub(crate) fn later_warnings(&self) -> &[String] {
        if self.trust.is_none() {
            &self.warnings[self.urgent..]
        } else {
            self.warnings
        }
    }

    /// Returns the cases of a curve. Returns `None` if a row is not a case of a run.
    pub(crate) fn cases_of(&self, curve: &Scaling) -> Option<Vec<&Workload>> {
        curve
            .cases
            .iter()
            .map(|case| self.rows[*case].workload())
            .collect()
    }

    /// Returns whether all rows are times, so that charts show changes of time, as the table does.
    fn is_in_time(&self) -> bool {
        self.rows.iter().all(|row| row.better == Better::Lower)
    }

    /// Returns the title of the axis on which charts show changes: `change of speed against ext4
    /// (right is faster)`.
    pub(crate) fn axis_of_changes(&self, baseline: &str) -> String {
        let is_mixed =
            !self.is_in_time() && self.rows.iter().any(|row| row.better == Better::Lower);
        match (self.is_in_time(), is_mixed) {
            (true, _) => format!("change of time against {baseline} (left is faster)"),
            (_, true) => format!(
                "change of speed against {baseline} (right is faster; of times the inverse)"
            ),
            _ => format!("change of speed against {baseline} (right is faster)"),
        }
    }

    /// Returns a ratio and its interval on that axis.
    pub(crate) fn on_axis_of_changes(&self, row: &Row<'_>, judged: &Judged) -> (f64, Interval) {
        // On an axis of time, the ratio is not inverted.
        judged.speed(if self.is_in_time() {
            Better::Higher
        } else {
            row.better
        })
    }

    /// Returns whether columns are compared at all: there are several, and nothing forbids it.
    pub(crate) fn compares(&self) -> bool {
        self.names.len() > 1 && self.unjudged.is_none()
    }
}

impl<'a> Row<'a> {
    /// Returns the workload of a run that the row is about.
    pub(crate) fn workload(&self) -> Option<&'a Workload> {
        match &self.data {
            RowData::Workload(workload) => Some(workload),
            RowData::Operation(_) => None,
        }
    }

    /// Returns the operation of sets that the row is about.
    pub(crate) fn operation(&self) -> Option<&OperationRow<'a>> {
        match &self.data {
            RowData::Workload(_) => None,
            RowData::Operation(operation) => Some(operation),
        }
    }
}

/// Explains the marks that occur in a table, in the words of a screen.
pub(crate) fn brief_legend(rows: &[Row<'_>], theta: f64) -> Option<String> {
    mark::legend(
        &marks(rows),
        theta,
        if rows.len() == 1 {
            Covered::OneRow
        } else {
            Covered::AllRows
        },
    )
}

/// Explains the marks that occur in a table: letters from three columns on, else signs.
pub(crate) fn legend_of_marks(rows: &[Row<'_>], theta: f64) -> Option<String> {
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let cases = rows
        .iter()
        .filter(|row| {
            // The letters of a row whose baseline has no value compare the others.
            let mut cells = row.cells.iter();
            cells.any(|cell| cell.verdict().is_some() || mark::has_letter(&cell.mark))
        })
        .count();
    let cases = counted(cases, "case");
    let covered = if columns > 2 {
        format!("all pairs at {cases}")
    } else {
        cases
    };
    mark::legend(&marks(rows), theta, Covered::Named(&covered))
}

fn marks<'a>(rows: &'a [Row<'_>]) -> Vec<&'a str> {
    rows.iter()
        .flat_map(|row| &row.cells)
        .map(|cell| cell.mark.as_str())
        .collect()
}

impl CellView {
    /// Returns the verdict, if the cell is judged.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.judged
            .map(|judged| judged.verdict)
            .filter(|verdict| *verdict != Verdict::NotJudged)
    }
}
