//! What a page consists of: sections of blocks, from top to bottom.

use askama::Template;

use super::table::{Figures, Table, TableRow};
use crate::chart::look::Chart;
use crate::chart::look::{hue, shape};
use crate::show::Paragraph;

/// A part of the page that the contents lead to.
pub(crate) struct Section {
    pub(crate) id: String,
    pub(crate) title: String,
    /// It is one of the rows, which stand together in the contents.
    pub(crate) is_row: bool,
    pub(crate) blocks: Vec<Block>,
}

/// What a run and a comparison say in their own words at the beginning.
pub(crate) struct Opening {
    /// What is compared, where that is more than names.
    pub(crate) columns: Option<Block>,
    /// What the answer's table says of itself.
    pub(crate) caption: String,
    /// Its last line.
    pub(crate) total: Option<TableRow>,
}

/// A piece of a section.
pub(crate) enum Block {
    /// A title within a section.
    Title(String),
    /// A paragraph; the class says how it looks.
    Text {
        class: &'static str,
        text: String,
    },
    /// What is compared.
    Columns(Vec<ColumnItem>),
    Table {
        class: &'static str,
        table: Table,
    },
    Figures(Figures),
    /// Below each other.
    Charts(Vec<Chart>),
    /// Side by side where there is room.
    ChartsAbreast(Vec<Chart>),
    /// A list under a label.
    List {
        label: &'static str,
        class: &'static str,
        items: Vec<String>,
    },
    /// Each with whether the candidate is faster.
    Findings(Vec<(bool, String)>),
    /// Warnings: shown, and folded.
    Warnings {
        shown: Vec<String>,
        more: Vec<String>,
    },
    Method(Vec<Paragraph>),
    /// What the classic statistics say; of a comparison more of them.
    Classic {
        compares: bool,
    },
    /// Where the page's script puts what chooses a surface.
    Selectors,
    /// Folded away.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
}

/// A target or set as the overview names it.
pub(crate) struct ColumnItem {
    pub(crate) name: String,
    /// What it is, and that the others are compared with it.
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
    /// A section that is no row.
    pub(crate) fn new(id: &str, title: &str, blocks: Vec<Block>) -> Section {
        Section { id: id.to_owned(), title: title.to_owned(), is_row: false, blocks }
    }
}

impl Block {
    /// A paragraph.
    pub(crate) fn text(class: &'static str, text: impl Into<String>) -> Block {
        Block::Text { class, text: text.into() }
    }

    /// A table; the class says how wide its columns are.
    pub(crate) fn table(class: &'static str, table: Table) -> Block {
        Block::Table { class, table }
    }

    /// Charts that the block draws.
    pub(crate) fn charts(&self) -> usize {
        match self {
            Block::Charts(charts) | Block::ChartsAbreast(charts) => charts.len(),
            Block::Details { blocks, .. } => blocks.iter().map(Block::charts).sum(),
            _ => 0,
        }
    }
}
