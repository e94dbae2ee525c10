//! What every format shows of a comparison, assembled once.
//!
//! The baseline stands first everywhere, then the other sets in their order.

mod detail;
mod facts;
mod headline;
mod method;
mod rows;

use fsb_analysis::compare::{
    CellValue, Classic, Colour, Document, Finding, GridAgainst, Operation, Pooled, PooledAgainst, RunLevel, SetSummary,
    Slice, TVerdict,
};
use fsb_analysis::{Interval, Method, Outcome, Verdict};

use super::Page;
use crate::show::Change;
pub use crate::view::Paragraph;
pub use detail::{Fixed, Line, Single};

/// A comparison, ready to be shown.
#[derive(Debug)]
pub struct View<'a> {
    /// The comparison.
    pub document: &'a Document,
    /// The answer, in one sentence.
    pub headline: String,
    /// The baseline, then the others.
    pub sets: Vec<&'a SetSummary>,
    /// One row an operation and workload; the pool of all operations last.
    pub rows: Vec<Row<'a>>,
    /// The findings on what is shown.
    pub findings: Vec<&'a Finding>,
    /// Tools, runs and cells, part by part.
    pub facts: Vec<String>,
    /// How the numbers were made.
    pub method: Vec<Paragraph>,
}

/// One operation of one workload.
#[derive(Debug)]
pub struct Row<'a> {
    /// As it is named in tables.
    pub label: String,
    /// In the metric that sets are compared by: a rate, where there is one.
    pub operation: &'a Operation,
    /// Where the sets of [`View::sets`] stand in the document, as the operation's ranking numbers them.
    pub places: Vec<usize>,
    /// In the other metrics.
    pub others: Vec<&'a Operation>,
    /// What can be said about the row as a whole; places are those in [`View::sets`].
    pub outcome: Outcome,
    /// One cell a set.
    pub cells: Vec<CellView<'a>>,
    /// What the data support, in a sentence.
    pub sentence: String,
}

/// One set at one operation, or at one of its sizes.
#[derive(Debug, Clone)]
pub struct CellView<'a> {
    /// The statistics of its pooled values, where it has any.
    pub pooled: Option<&'a Pooled>,
    /// Pooled beside the baseline.
    pub classic: Option<&'a PooledAgainst>,
    /// The runs beside the baseline's.
    pub judged: Option<Judged>,
    /// The cells beside the baseline's.
    pub grid: Option<&'a GridAgainst>,
    /// Letters; `?` where the row is undecided and this set may be the best; else empty.
    pub mark: String,
}

/// Candidate over baseline, judged on runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The ratio.
    pub ratio: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
    /// What the interval says.
    pub verdict: Verdict,
}

impl<'a> View<'a> {
    /// Assembles what a page shows.
    pub fn of(page: &Page<'a>) -> View<'a> {
        let document = page.document;
        let sets = facts::baseline_first(document);
        let rows = rows::rows(page, &sets);
        let shown = |found: &&Finding| page.operations().any(|operation| is_about(found, operation));
        let mut view = View {
            document,
            headline: String::new(),
            findings: document.findings.iter().filter(shown).collect(),
            facts: facts::facts(document, &sets),
            sets,
            rows,
            method: Vec::new(),
        };
        headline::add_sentences(&mut view);
        view.headline = headline::headline(&view);
        view.method = method::paragraphs(&view);
        view
    }

    /// The name of the set that the others are compared with.
    pub fn baseline(&self) -> &'a str {
        &self.document.baseline
    }

    /// Whether sets are compared at all: there are several, and nothing forbids it.
    pub fn is_comparison(&self) -> bool {
        self.sets.len() > 1 && self.document.unjudged.is_none()
    }

    /// Whether any row has letters.
    pub fn is_judged(&self) -> bool {
        self.rows.iter().any(|row| row.operation.letters.values().any(Option::is_some))
    }

    /// How many metrics stand beside those of the rows.
    pub fn other_metrics(&self) -> usize {
        self.rows.iter().map(|row| row.others.len()).sum()
    }

    /// One size, a cell a set.
    pub fn slice_cells<'s>(&self, slice: &'s Slice) -> Vec<CellView<'s>> {
        let cell = |set: &&SetSummary| {
            let grid = slice.grid.against.get(&set.name).and_then(Option::as_ref);
            CellView::of(&set.name, &slice.classic, grid.and_then(Judged::of_grid), grid)
        };
        self.sets.iter().map(cell).collect()
    }
}

impl<'a> CellView<'a> {
    /// One set at one operation, without a mark.
    pub fn of_operation(operation: &'a Operation, name: &str) -> CellView<'a> {
        let estimate = operation.estimate.against.get(name).and_then(Option::as_ref);
        let grid = operation.grid.as_ref().and_then(|grid| grid.against.get(name)).and_then(Option::as_ref);
        CellView::of(name, &operation.classic, estimate.map(Judged::of_runs), grid)
    }

    fn of(name: &str, classic: &'a Classic, judged: Option<Judged>, grid: Option<&'a GridAgainst>) -> CellView<'a> {
        CellView {
            pooled: classic.sets.get(name).and_then(Option::as_ref),
            classic: classic.against.get(name).and_then(Option::as_ref),
            judged,
            grid,
            mark: String::new(),
        }
    }
}

impl Judged {
    fn of_runs(found: &RunLevel) -> Judged {
        Judged { ratio: found.ratio, ci95: found.ci95, verdict: found.verdict }
    }

    fn of_grid(found: &GridAgainst) -> Option<Judged> {
        Some(Judged { ratio: found.ratio?, ci95: found.ci95, verdict: found.verdict })
    }

    /// The change as people read it; without the interval where it is not judged.
    pub fn change(&self) -> Change {
        let judged = self.ci95.filter(|_| self.verdict != Verdict::NotJudged);
        Change::between(self.ratio, judged.map(|[lo, hi]| Interval { lo, hi }))
    }
}

/// Whether a finding is about an operation.
pub(crate) fn is_about(found: &Finding, operation: &Operation) -> bool {
    (&found.workload, &found.operation, &found.metric) == (&operation.workload, &operation.operation, &operation.metric)
}

/// The arithmetic mean of a cell's runs, as in the classic regression.
pub(crate) fn mean(values: &[CellValue]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().map(|value| value.value).sum::<f64>() / values.len() as f64)
}

/// `DIFF` or `SAME`.
pub(crate) fn t_word(verdict: TVerdict) -> &'static str {
    match verdict {
        TVerdict::Diff => "DIFF",
        TVerdict::Same => "SAME",
    }
}

/// The name in JSON and CSV.
pub(crate) fn method_name(method: Method) -> &'static str {
    match method {
        Method::Paired => "paired",
        Method::Welch => "welch",
    }
}

/// The name in CSV.
pub(crate) fn colour_word(colour: Colour) -> &'static str {
    match colour {
        Colour::Faster => "faster",
        Colour::Slower => "slower",
        Colour::Same => "same",
        Colour::Uncertain => "uncertain",
    }
}
