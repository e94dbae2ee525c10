//! What a chart is, and what draws one.

use crate::compare::detail::Fixed;
use crate::view::{Row, View};

/// A chart and the words that belong to it.
pub(crate) struct Chart {
    pub(crate) id: String,
    pub(crate) height: usize,
    /// What the chart shows, for a screen reader.
    pub(crate) label: String,
    pub(crate) caption: String,
    pub(crate) key: Vec<KeyEntry>,
    /// Where there are several figures to choose from: their names. `json` is an array then.
    pub(crate) choices: Vec<String>,
    /// The operation whose table it stands above; absent where it is about the row as a whole.
    pub(crate) operation: Option<String>,
    pub(crate) json: String,
}

/// What a colour and a shape stand for.
pub(crate) struct KeyEntry {
    pub(crate) class: String,
    pub(crate) shape: &'static str,
    pub(crate) text: String,
}

/// A member of the registry of charts.
pub(crate) struct ChartKind {
    /// Unique; charts are called after it.
    pub(crate) name: &'static str,
    pub(crate) draw: Draw,
}

/// Where a chart belongs, and what it is made of. The name is that of its kind. What a view does not hold is not drawn.
pub(crate) enum Draw {
    /// On the page as a whole.
    Overview(fn(&View<'_>, &str) -> Vec<Chart>),
    /// With a row, whose place is given.
    Row(fn(&View<'_>, &Row<'_>, &str, usize) -> Vec<Chart>),
    /// With a size of a row in detail.
    Size(fn(&View<'_>, &Fixed<'_>, &str) -> Chart),
    /// Once on the page, for all rows together, with selectors.
    Panel(fn(&View<'_>, &str) -> Option<Chart>),
}
