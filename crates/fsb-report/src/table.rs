//! Tables as text in cells; the templates only lay them out.

use fsb_stats::Verdict;

use crate::judged::Judged;
use crate::show::{Change, minus};
use crate::view::CellView;

/// A table with a head, and a header for each line.
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<TableRow>,
    pub(crate) foot: Option<TableRow>,
    /// Whether header cells from the second on name the view's columns and carry their marks.
    pub(crate) heads_are_columns: bool,
}

/// A line of a table.
pub(crate) struct TableRow {
    pub(crate) head: String,
    /// The column of the view that the line is about. The line carries its mark.
    pub(crate) column: Option<usize>,
    pub(crate) link: Option<String>,
    pub(crate) cells: Vec<TableCell>,
}

/// A cell: its text, the smaller text below it, and its style.
#[derive(Default)]
pub(crate) struct TableCell {
    pub(crate) text: String,
    pub(crate) letter: String,
    /// Whether it is the row's winner.
    pub(crate) best: bool,
    pub(crate) small: String,
    pub(crate) class: &'static str,
}

impl Table {
    /// Returns a table without a foot, with heads that name no columns.
    pub(crate) fn new(
        caption: impl Into<String>,
        head: impl IntoIterator<Item: Into<String>>,
        rows: Vec<TableRow>,
    ) -> Table {
        Table {
            caption: caption.into(),
            head: head.into_iter().map(Into::into).collect(),
            rows,
            foot: None,
            heads_are_columns: false,
        }
    }

    /// Returns a table with a head of `first` and the columns of a view.
    pub(crate) fn of_columns(
        caption: impl Into<String>,
        first: &str,
        names: &[String],
        rows: Vec<TableRow>,
    ) -> Table {
        let head = std::iter::once(first).chain(names.iter().map(String::as_str));
        Table {
            heads_are_columns: true,
            ..Table::new(caption, head, rows)
        }
    }

    /// Returns the name of the view's column that a cell belongs to. A narrow screen shows it
    /// beside the cell.
    pub(crate) fn name_of(&self, cell: &usize) -> &str {
        let named = self.head.get(cell + 1).filter(|_| self.heads_are_columns);
        named.map_or("", String::as_str)
    }
}

impl TableRow {
    /// Returns a line that is not about a column of the view.
    pub(crate) fn new(head: impl Into<String>, cells: Vec<TableCell>) -> TableRow {
        TableRow {
            head: head.into(),
            column: None,
            link: None,
            cells,
        }
    }

    /// Returns a line about one column of the view.
    pub(crate) fn of_column(column: usize, name: &str, cells: Vec<TableCell>) -> TableRow {
        TableRow {
            column: Some(column),
            ..TableRow::new(name, cells)
        }
    }
}

impl TableCell {
    pub(crate) fn new(text: impl Into<String>) -> TableCell {
        TableCell {
            text: minus(&text.into()),
            ..TableCell::default()
        }
    }

    /// Returns the cell with smaller text below its own.
    pub(crate) fn with_small(self, small: impl Into<String>) -> TableCell {
        TableCell {
            small: small.into(),
            ..self
        }
    }

    /// Returns the cell of a view as text. `best` is true if its column wins the row.
    pub(crate) fn shown(cell: &CellView, best: bool) -> TableCell {
        match (&cell.judged, &cell.value) {
            (Some(judged), _) => TableCell {
                best,
                ..TableCell::change(judged, &cell.mark)
            },
            (None, Some(_)) => TableCell {
                best,
                ..TableCell::value(cell)
            },
            (None, None) => TableCell::absent(cell.absence),
        }
    }

    /// Returns the value alone, with its interval below.
    pub(crate) fn value(cell: &CellView) -> TableCell {
        let Some(value) = &cell.value else {
            return TableCell::absent(cell.absence);
        };
        TableCell {
            text: value.clone(),
            letter: cell.mark.clone(),
            small: cell
                .interval
                .as_ref()
                .map(|[lo, hi]| format!("[{lo}, {hi}]"))
                .unwrap_or_default(),
            class: "value",
            ..TableCell::default()
        }
    }

    /// Returns a change with its interval, verdict and mark.
    pub(crate) fn change(judged: &Judged, mark: &str) -> TableCell {
        let Change { center, interval } = judged.change();
        let interval = interval
            .map(|interval| format!("{} ", interval.with_comma()))
            .unwrap_or_default();
        TableCell {
            text: minus(&center),
            letter: mark.to_owned(),
            small: format!(
                "{}{}{}",
                minus(&interval),
                sign(judged.verdict),
                judged.verdict.words()
            ),
            class: class(judged.verdict),
            ..TableCell::default()
        }
    }

    pub(crate) fn absent(text: impl Into<String>) -> TableCell {
        TableCell {
            text: text.into(),
            class: "absent",
            ..TableCell::default()
        }
    }
}

/// Returns the style class of a verdict.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "better",
        Verdict::ProbablyFaster => "better probably",
        Verdict::Slower => "worse",
        Verdict::ProbablySlower => "worse probably",
        Verdict::Equivalent => "same",
        Verdict::PerhapsFaster
        | Verdict::PerhapsSlower
        | Verdict::Inconclusive
        | Verdict::NotJudged => "open",
    }
}

/// Returns a sign that conveys the verdict without colour.
fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster | Verdict::ProbablyFaster => "▲\u{a0}",
        Verdict::Slower | Verdict::ProbablySlower => "▼\u{a0}",
        Verdict::Equivalent => "=\u{a0}",
        Verdict::PerhapsFaster
        | Verdict::PerhapsSlower
        | Verdict::Inconclusive
        | Verdict::NotJudged => "",
    }
}

impl From<Option<String>> for TableCell {
    /// Returns the text, or a dash without one.
    fn from(text: Option<String>) -> TableCell {
        TableCell::new(text.unwrap_or_else(|| "–".to_owned()))
    }
}
