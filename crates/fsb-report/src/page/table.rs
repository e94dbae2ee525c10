//! Tables of a page, as text in cells; the templates only lay them out.

use fsb_analysis::Verdict;

use crate::show::{Change, minus};

/// A table with a head, and a header for each line.
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Line>,
    pub(crate) foot: Option<Line>,
    /// Where given, header cells from the second on belong to these targets and carry their mark.
    pub(crate) head_targets: bool,
}

/// A line of a table.
pub(crate) struct Line {
    pub(crate) head: String,
    /// Where given, the line belongs to this target and carries its mark.
    pub(crate) target: Option<usize>,
    pub(crate) link: Option<String>,
    pub(crate) cells: Vec<Cell>,
}

/// A cell: what it says, what stands smaller below it, and how it is coloured.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) letter: String,
    /// It is the row's winner.
    pub(crate) best: bool,
    pub(crate) small: String,
    pub(crate) class: &'static str,
}

impl Cell {
    pub(crate) fn of(text: impl Into<String>) -> Cell {
        Cell { text: minus(&text.into()), ..Cell::default() }
    }

    /// A change with its interval, verdict and mark.
    pub(crate) fn change(change: Change, verdict: Verdict, mark: &str) -> Cell {
        let interval = change.ends.map(|(lo, hi)| format!("[{lo}, {hi}] ")).unwrap_or_default();
        Cell {
            text: minus(&change.center),
            letter: mark.to_owned(),
            small: format!("{}{}{}", minus(&interval), sign(verdict), verdict.words()),
            class: class(verdict),
            ..Cell::default()
        }
    }

    pub(crate) fn absent(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), class: "absent", ..Cell::default() }
    }
}

/// How a verdict is coloured.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "better",
        Verdict::ProbablyFaster => "better probably",
        Verdict::Slower => "worse",
        Verdict::ProbablySlower => "worse probably",
        Verdict::Equivalent => "same",
        Verdict::Inconclusive | Verdict::NotJudged => "open",
    }
}

/// A sign for the verdict that needs no colour.
fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster | Verdict::ProbablyFaster => "▲ ",
        Verdict::Slower | Verdict::ProbablySlower => "▼ ",
        Verdict::Equivalent => "= ",
        Verdict::Inconclusive | Verdict::NotJudged => "",
    }
}
