//! The parts of pages: sections, tables, charts, and the scripts that draw charts.
//!
//! A page contains every finding and number as text and tables. Scripts only add charts, which
//! Plotly draws from JSON in the page. A Content-Security-Policy forbids the page every request.

use std::io::Read;
use std::sync::LazyLock;

use askama::Template;
use flate2::read::GzDecoder;

use crate::chart::look::Chart;
use crate::palette::{hue, shape};
use crate::show::Paragraph;
use crate::table::{Table, TableRow};

/// The style sheet of pages.
pub const STYLE: &str = include_str!("../templates/style.css");

/// The script that draws all charts except the surface.
pub(crate) static PLOTLY: LazyLock<String> = LazyLock::new(|| {
    decompress(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/plotly-cartesian.min.js.gz"
    )))
});

fn decompress(script: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(script)
        .read_to_string(&mut text)
        .expect("the build script compressed a text");
    text
}

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
    /// Files with data.
    Files(Vec<DataFile>),
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

/// A file with data of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// The operation or workload whose values it holds, or a description of its content.
    pub content: String,
    /// The path, relative to the directory of the page.
    pub path: String,
}

/// A target or set as the overview names it.
pub(crate) struct ColumnItem {
    pub(crate) name: String,
    /// The description, the remark that the item is the baseline, and the risk.
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

    /// Returns the path of a file as a URL: every byte that could end a path segment's text is
    /// escaped.
    fn url(&self, path: &str) -> String {
        path.bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect()
    }

    fn nested<'b>(&self, blocks: &'b [Block]) -> Blocks<'b> {
        Blocks(blocks)
    }
}

impl Section {
    /// Returns a section that does not belong to the rows.
    pub(crate) fn new(id: &str, title: &str, blocks: Vec<Block>) -> Section {
        Section {
            id: id.to_owned(),
            title: title.to_owned(),
            is_row: false,
            blocks,
        }
    }
}

impl Block {
    /// Returns a paragraph.
    pub(crate) fn text(class: &'static str, text: impl Into<String>) -> Block {
        Block::Text {
            class,
            text: text.into(),
        }
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

/// A long table with a group of lines per size, and one line per column of the view in each group.
/// It has thousands of cells, so they are text alone.
pub(crate) struct Figures {
    pub(crate) caption: String,
    /// Heads of the columns after size and set.
    pub(crate) head: Vec<String>,
    pub(crate) size: &'static str,
    pub(crate) groups: Vec<FigureGroup>,
    /// Names of the view's columns.
    pub(crate) names: Vec<String>,
}

/// One size.
pub(crate) struct FigureGroup {
    pub(crate) size: String,
    pub(crate) lines: Vec<FigureLine>,
}

/// One column of the view at one size.
pub(crate) struct FigureLine {
    pub(crate) column: usize,
    pub(crate) cells: Texts,
}

/// Texts joined in one string. A string for each value of thousands of runs would take four times
/// the memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    text: String,
    /// The end of each text, in bytes.
    ends: Vec<usize>,
}

impl FromIterator<String> for Texts {
    fn from_iter<I: IntoIterator<Item = String>>(texts: I) -> Texts {
        let mut all = Texts::default();
        for text in texts {
            all.text.push_str(&text);
            all.ends.push(all.text.len());
        }
        all
    }
}

impl Texts {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.text[start..*end])
    }
}
