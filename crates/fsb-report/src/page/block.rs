//! The elements of a page: sections of blocks, from top to bottom.

use askama::Template;

use super::table::{Figures, Table, TableRow};
use crate::chart::look::Chart;
use crate::chart::look::{hue, shape};
use crate::show::Paragraph;

/// A section of the page, with an entry in the contents.
pub(crate) struct Section {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Whether it is one of the rows, which are grouped in the contents.
    pub(crate) is_row: bool,
    pub(crate) blocks: Vec<Block>,
}

/// The opening of the overview, which differs between a run and a comparison.
pub(crate) struct Opening {
    /// The targets with remarks on each. `None` for a comparison.
    pub(crate) columns: Option<Block>,
    /// The caption of the answer's table.
    pub(crate) caption: String,
    /// The last line of that table.
    pub(crate) total: Option<TableRow>,
}

/// A piece of a section.
pub(crate) enum Block {
    /// A title within a section.
    Title(String),
    /// A paragraph. The class selects its style.
    Text {
        class: &'static str,
        text: String,
    },
    /// The columns that are compared.
    Columns(Vec<ColumnItem>),
    Table {
        class: &'static str,
        table: Table,
    },
    Figures(Figures),
    /// Charts below each other.
    Charts(Vec<Chart>),
    /// Charts side by side, if there is room.
    ChartsAbreast(Vec<Chart>),
    /// A list under a label.
    List {
        label: &'static str,
        class: &'static str,
        items: Vec<String>,
    },
    /// Findings, each with whether the candidate is faster.
    Findings(Vec<(bool, String)>),
    /// Warnings: shown, and folded.
    Warnings {
        shown: Vec<String>,
        more: Vec<String>,
    },
    Method(Vec<Paragraph>),
    /// An explanation of the classic statistics. That of a comparison covers more of them.
    Classic {
        compares: bool,
    },
    /// The place where the page's script puts the selectors of a surface.
    Selectors,
    /// Folded blocks.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
}

/// A target or set as the overview names it.
pub(crate) struct ColumnItem {
    pub(crate) name: String,
    /// Its description, the remark that it is the baseline, and its risk.
    pub(crate) remarks: Vec<String>,
    pub(crate) failed: Option<String>,
}

/// Blocks as markup.
#[derive(Template)]
#[template(path = "blocks.html")]
pub(crate) struct Blocks<'a>(pub(crate) &'a [Block]);

impl Blocks<'_> {
    fn shape(&self, column: &usize) -> &'static str {
        shape(*column)
    }

    fn style(&self, column: &usize) -> usize {
        hue(*column)
    }

    fn nested<'b>(&self, blocks: &'b [Block]) -> Blocks<'b> {
        Blocks(blocks)
    }
}

impl Section {
    /// Returns a section that does not belong to the rows.
    pub(crate) fn new(id: &str, title: &str, blocks: Vec<Block>) -> Section {
        Section { id: id.to_owned(), title: title.to_owned(), is_row: false, blocks }
    }
}

impl Block {
    /// Returns a paragraph.
    pub(crate) fn text(class: &'static str, text: impl Into<String>) -> Block {
        Block::Text { class, text: text.into() }
    }

    /// Returns a table. The class sets the widths of its columns.
    pub(crate) fn table(class: &'static str, table: Table) -> Block {
        Block::Table { class, table }
    }

    /// Returns the number of charts that the block draws.
    pub(crate) fn charts(&self) -> usize {
        match self {
            Block::Charts(charts) | Block::ChartsAbreast(charts) => charts.len(),
            Block::Details { blocks, .. } => blocks.iter().map(Block::charts).sum(),
            _ => 0,
        }
    }
}
