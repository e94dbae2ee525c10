//! One column: the parts of its cells aligned below each other.

use comfy_table::Color;
use fsb_analysis::Verdict;
use textwrap::core::display_width;

use crate::show::Change;
use crate::visible;

/// A column, ready to be printed.
pub(crate) struct Column {
    pub(super) wide: Layout,
    /// The same with the percent sign in the title instead of in each cell.
    pub(super) narrow: Layout,
    pub(super) paint: Vec<Option<Color>>,
}

/// The text of a column.
pub(super) struct Layout {
    pub(super) title: String,
    pub(super) cells: Vec<String>,
    pub(super) width: usize,
}

impl Layout {
    fn new(title: String, cells: Vec<String>) -> Layout {
        let width = cells.iter().chain([&title]).map(|text| display_width(text)).max().unwrap_or(0);
        Layout { title, cells, width }
    }
}

/// The content of one cell.
#[derive(Clone)]
pub(crate) enum Part {
    /// A change and its mark.
    Change(Change, String),
    /// A value and its mark.
    Value(String, String),
    /// Why there is none.
    Words(String),
}

impl Column {
    /// Cells with their colours, under a title.
    pub(crate) fn new(title: &str, cells: Vec<(Part, Option<Color>)>) -> Column {
        let (parts, paint): (Vec<Part>, Vec<Option<Color>>) = cells.into_iter().unzip();
        let title = visible::line(title).into_owned();
        let set = |parts: &[Part]| aligned(parts).iter().map(|cell| visible::line(cell).into_owned()).collect();
        let without_percent: Vec<Part> = parts.iter().map(Part::without_percent).collect();
        let has_changes = parts.iter().any(|part| matches!(part, Part::Change(..)));
        let narrow =
            Layout::new(if has_changes { format!("{title}, %") } else { title.clone() }, set(&without_percent));
        Column { wide: Layout::new(title, set(&parts)), narrow, paint }
    }

    /// Returns the wide or the narrow layout.
    pub(super) fn layout(&self, is_narrow: bool) -> &Layout {
        if is_narrow { &self.narrow } else { &self.wide }
    }
}

impl Part {
    fn without_percent(&self) -> Part {
        match self {
            Part::Change(change, mark) => {
                let center = change.center.trim_end_matches(" %").to_owned();
                Part::Change(Change { center, ..change.clone() }, mark.clone())
            }
            other => other.clone(),
        }
    }
}

/// Pads every part to the width of its column.
fn aligned(parts: &[Part]) -> Vec<String> {
    let widest = |of: &dyn Fn(&Part) -> Option<&str>| parts.iter().filter_map(of).map(display_width).max().unwrap_or(0);
    let center = widest(&|part| match part {
        Part::Change(change, _) => Some(&change.center),
        _ => None,
    });
    let ends = parts.iter().filter_map(|part| match part {
        Part::Change(Change { ends: Some((lo, hi)), .. }, _) => Some(display_width(lo) + display_width(hi)),
        _ => None,
    });
    let inner = ends.max().unwrap_or(0);
    let value = widest(&|part| match part {
        Part::Value(value, _) => Some(value),
        _ => None,
    });
    let interval = if inner > 0 { inner + 4 } else { 0 };
    let shown = |part: &Part| match part {
        Part::Words(words) => words.clone(),
        Part::Value(text, mark) => format!("{} {mark}", pad_left(text, value)),
        Part::Change(change, mark) => {
            // The lower end stands at the left bracket, the upper one at the right.
            let ends = change.ends.as_ref().map(|(lo, hi)| {
                let hi = pad_left(hi, inner - display_width(lo));
                format!(" [{lo} {hi}]")
            });
            format!("{}{:interval$} {mark}", pad_left(&change.center, center), ends.unwrap_or_default())
        }
    };
    parts.iter().map(|part| shown(part).trim_end().to_owned()).collect()
}

fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(display_width(text))))
}

/// Blue and yellow are told apart by everyone; what is not sure is dim.
pub(crate) fn paint(verdict: Verdict) -> Option<Color> {
    match verdict {
        Verdict::Faster | Verdict::ProbablyFaster => Some(Color::Blue),
        Verdict::Slower | Verdict::ProbablySlower => Some(Color::Yellow),
        Verdict::PerhapsFaster | Verdict::PerhapsSlower | Verdict::Inconclusive => Some(Color::DarkGrey),
        Verdict::Equivalent | Verdict::NotJudged => None,
    }
}
