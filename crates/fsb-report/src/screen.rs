//! Text for terminals: paragraphs, and columns side by side within a width.
//!
//! If the table is wider than the screen, labels are abbreviated. Columns that still do not fit
//! follow in further groups, each beside the baseline, the first column. Then labels wrap.
//! [`crate::visible`] writes out the hidden characters of every text.

use std::borrow::Cow;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, TableStyle};
use fsb_stats::Verdict;
use textwrap::core::display_width;
use textwrap::{Options, wrap};

use crate::mark::UNSAFE;
use crate::show::{Change, IntervalText, bound};
use crate::visible;

/// The width of a screen of unknown width.
pub const WIDTH: usize = 80;
/// Labels are not wrapped narrower than this.
const LABEL: usize = 16;
/// Labels up to this width are not wrapped to get another column beside them.
const WHOLE_LABEL: usize = 26;
/// The space between columns.
const COLUMN_GAP: usize = 2;

/// Appends a paragraph in lines that fit, without spaces at their ends. Numbers keep their units;
/// only a word wider than a line is broken.
pub(crate) fn paragraph(
    lines: &mut Vec<String>,
    width: usize,
    text: &str,
    first: &str,
    rest: &str,
) {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest);
    lines.extend(
        wrap(&bound(&visible::line(text)), options)
            .into_iter()
            .map(|line| line.trim_end().replace('\u{a0}', " ")),
    );
}

/// Returns tables with one row per label, in as many groups of columns as the width requires; an
/// empty line precedes each.
pub(crate) fn tables(
    labels: &[&str],
    columns: &[ScreenColumn],
    width: usize,
    color: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    if !labels.is_empty() {
        let labels = labels.iter().map(|label| visible::line(label)).collect();
        let (labels, is_narrow) = fitting(labels, columns, width);
        for group in groups(&labels, columns, is_narrow, width) {
            lines.push(String::new());
            lines.extend(table(&labels, &group, is_narrow, width, color));
        }
    }
    lines
}

/// Abbreviates the labels if the table does not fit otherwise, and then narrows the columns.
fn fitting<'a>(
    labels: Vec<Cow<'a, str>>,
    columns: &[ScreenColumn],
    width: usize,
) -> (Vec<Cow<'a, str>>, bool) {
    let taken = |is_narrow| {
        columns
            .iter()
            .map(|column| COLUMN_GAP + column.layout(is_narrow).width)
            .sum::<usize>()
    };
    if widest(&labels) + taken(false) <= width {
        return (labels, false);
    }
    let labels: Vec<Cow<'_, str>> = labels
        .into_iter()
        .map(|label| abbreviate(&label).into())
        .collect();
    let is_narrow =
        widest(&labels) + taken(false) > width && widest(&labels) + taken(true) <= width;
    (labels, is_narrow)
}

fn widest(labels: &[Cow<'_, str>]) -> usize {
    labels
        .iter()
        .map(|label| display_width(label))
        .max()
        .unwrap_or(0)
}

/// Cuts a text to one line of that width at a word, with an ellipsis where words are missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = visible::line(text);
    if display_width(&text) <= width {
        return text.into_owned();
    }
    let mut line = String::new();
    for word in text.split(' ') {
        if display_width(&line) + display_width(word) + 2 > width {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    line.trim_end_matches([',', ';', ':']).to_owned() + "…"
}

/// Returns the baseline with as many of the others as fit beside it, in groups.
fn groups<'a>(
    labels: &[Cow<'_, str>],
    columns: &'a [ScreenColumn],
    is_narrow: bool,
    width: usize,
) -> Vec<Vec<&'a ScreenColumn>> {
    let Some((reference, others)) = columns.split_first() else {
        return Vec::new();
    };
    let widest = widest(labels);
    let label = if widest <= WHOLE_LABEL { widest } else { LABEL };
    let room = width.saturating_sub(label + COLUMN_GAP + reference.layout(is_narrow).width);
    let mut groups: Vec<Vec<&ScreenColumn>> = Vec::new();
    let mut left = 0;
    for column in others {
        let needed = COLUMN_GAP + column.layout(is_narrow).width;
        match groups.last_mut() {
            Some(group) if needed <= left => group.push(column),
            _ => {
                groups.push(vec![reference, column]);
                left = room;
            }
        }
        left = left.saturating_sub(needed);
    }
    if groups.is_empty() {
        vec![vec![reference]]
    } else {
        groups
    }
}

/// Returns one group as lines. Labels take the space that the columns leave.
fn table(
    labels: &[Cow<'_, str>],
    group: &[&ScreenColumn],
    is_narrow: bool,
    width: usize,
    color: bool,
) -> Vec<String> {
    let layouts: Vec<&Layout> = group
        .iter()
        .map(|column| column.layout(is_narrow))
        .collect();
    let taken: usize = layouts.iter().map(|layout| COLUMN_GAP + layout.width).sum();
    let room = width.saturating_sub(taken).max(LABEL);
    let mut table = Table::new();
    table
        .load_style(TableStyle::new())
        .set_content_arrangement(ContentArrangement::Disabled);
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let header = layouts.iter().map(|layout| Cell::new(&layout.title));
    table.set_header(std::iter::once(Cell::new("")).chain(header));
    for (index, label) in labels.iter().enumerate() {
        let label = wrap(label, Options::new(room).subsequent_indent("  ")).join("\n");
        let cells = layouts.iter().zip(group);
        let cells =
            cells.map(|(layout, column)| painted(&layout.cells[index], column.paint[index], color));
        table.add_row(std::iter::once(Cell::new(label)).chain(cells));
    }
    for column in table.column_iter_mut() {
        column
            .set_padding((0, COLUMN_GAP as u16))
            .set_cell_alignment(CellAlignment::Left);
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

fn painted(text: &str, paint: Option<Color>, color: bool) -> Cell {
    match paint.filter(|_| color) {
        Some(paint) => Cell::new(text).fg(paint),
        None => Cell::new(text),
    }
}

/// Replacements, in order. The result stays readable without a legend: `randread` and `randwrite`
/// are fio's words, and an fsync follows each operation that is durable on its own.
const SHORT: [(&str, &str); 4] = [
    ("random read", "randread"),
    ("random write", "randwrite"),
    (", durable each", ", fsync"),
    ("4K files", "4K"),
];

/// Returns a label with its long words abbreviated: `randwrite 4K, fsync` for `random write 4K,
/// durable each`.
fn abbreviate(label: &str) -> String {
    let label = SHORT.iter().fold(label.to_owned(), |label, (long, short)| {
        label.replace(long, short)
    });
    match label
        .strip_suffix(" threads")
        .and_then(|rest| rest.rsplit_once(", "))
    {
        Some((rest, threads)) => format!("{rest} ×{threads}"),
        None => label,
    }
}

/// A column, ready to be printed.
pub(crate) struct ScreenColumn {
    pub(super) wide: Layout,
    /// The layout with the percent sign in the title instead of in each cell.
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
        let width = cells
            .iter()
            .chain([&title])
            .map(|text| display_width(text))
            .max()
            .unwrap_or(0);
        Layout {
            title,
            cells,
            width,
        }
    }
}

/// The content of one cell.
#[derive(Clone)]
pub(crate) enum CellPart {
    /// A change and its mark.
    Change(Change, String),
    /// A value and its mark.
    Value(String, String),
    /// The reason for a missing value.
    Words(String),
}

impl ScreenColumn {
    /// Returns a column of cells with their colours, under a title.
    pub(crate) fn new(title: &str, cells: Vec<(CellPart, Option<Color>)>) -> ScreenColumn {
        let (parts, paint): (Vec<CellPart>, Vec<Option<Color>>) = cells.into_iter().unzip();
        let title = visible::line(title).into_owned();
        let set = |parts: &[CellPart]| {
            aligned(parts)
                .iter()
                .map(|cell| visible::line(cell).into_owned())
                .collect()
        };
        let without_percent: Vec<CellPart> = parts.iter().map(CellPart::without_percent).collect();
        let has_changes = parts
            .iter()
            .any(|part| matches!(part, CellPart::Change(..)));
        let narrow = Layout::new(
            if has_changes {
                format!("{title}, %")
            } else {
                title.clone()
            },
            set(&without_percent),
        );
        ScreenColumn {
            wide: Layout::new(title, set(&parts)),
            narrow,
            paint,
        }
    }

    /// Returns the wide or the narrow layout.
    pub(super) fn layout(&self, is_narrow: bool) -> &Layout {
        if is_narrow { &self.narrow } else { &self.wide }
    }
}

impl CellPart {
    fn without_percent(&self) -> CellPart {
        match self {
            CellPart::Change(change, mark) => {
                let center = change.center.trim_end_matches(" %").to_owned();
                CellPart::Change(
                    Change {
                        center,
                        ..change.clone()
                    },
                    mark.clone(),
                )
            }
            other => other.clone(),
        }
    }
}

/// Pads every part to the width of its column.
fn aligned(parts: &[CellPart]) -> Vec<String> {
    let widest = |of: &dyn Fn(&CellPart) -> Option<&str>| {
        parts
            .iter()
            .filter_map(of)
            .map(display_width)
            .max()
            .unwrap_or(0)
    };
    let center = widest(&|part| match part {
        CellPart::Change(change, _) => Some(&change.center),
        _ => None,
    });
    let intervals = parts.iter().filter_map(|part| match part {
        CellPart::Change(Change { interval, .. }, _) => interval.as_ref(),
        _ => None,
    });
    let inner = intervals.map(IntervalText::width).max().unwrap_or(0);
    let value = widest(&|part| match part {
        CellPart::Value(value, _) => Some(value),
        _ => None,
    });
    let interval = if inner > 0 { inner + 3 } else { 0 };
    let shown = |part: &CellPart| match part {
        CellPart::Words(words) => words.clone(),
        CellPart::Value(text, mark) => format!("{} {mark}", pad_left(text, value)),
        CellPart::Change(change, mark) => {
            let shown = change
                .interval
                .as_ref()
                .map(|interval| format!(" {}", interval.in_brackets(inner)));
            format!(
                "{}{:interval$} {mark}",
                pad_left(&change.center, center),
                shown.unwrap_or_default()
            )
        }
    };
    parts
        .iter()
        .map(|part| shown(part).trim_end().to_owned())
        .collect()
}

fn pad_left(text: &str, width: usize) -> String {
    format!(
        "{}{text}",
        " ".repeat(width.saturating_sub(display_width(text)))
    )
}

/// Returns the colour of a verdict. People with colour blindness can distinguish blue from yellow.
pub(crate) fn paint(verdict: Verdict) -> Option<Color> {
    match verdict {
        Verdict::Faster | Verdict::ProbablyFaster => Some(Color::Blue),
        Verdict::Slower | Verdict::ProbablySlower => Some(Color::Yellow),
        Verdict::PerhapsFaster | Verdict::PerhapsSlower | Verdict::Inconclusive => {
            Some(Color::DarkGrey)
        }
        Verdict::Equivalent | Verdict::NotJudged => None,
    }
}

/// Longer names are shortened.
const NAME: usize = 18;
/// The sign for an omission.
const GAP: char = '…';
/// Words are not cut shorter than this.
const SHORTEST: usize = 3;

/// Names in full and as a table shows them.
pub(crate) struct Names {
    full: Vec<String>,
    shown: Vec<String>,
}

impl Names {
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
        let full: Vec<String> = names
            .into_iter()
            .map(|name| visible::line(name).into_owned())
            .collect();
        // A shortened name keeps the mark of an unsafe target.
        let bare: Vec<&str> = full
            .iter()
            .map(|name| name.strip_suffix(UNSAFE).unwrap_or(name))
            .collect();
        let cut: Vec<String> = bare.iter().map(|name| cut_name(name, NAME)).collect();
        let mut shown: Vec<String> = Vec::new();
        for (place, name) in bare.iter().enumerate() {
            let alike: Vec<&str> = (0..full.len())
                .filter(|other| *other != place && cut[*other] == cut[place])
                .map(|other| bare[other])
                .collect();
            let short = if alike.is_empty() {
                cut[place].clone()
            } else {
                difference(name, &alike)
            };
            shown.push(numbered(short, &shown, &cut[place + 1..]));
        }
        for (shown, full) in shown.iter_mut().zip(&full) {
            if full.ends_with(UNSAFE) {
                shown.push_str(UNSAFE);
            }
        }
        Names { full, shown }
    }

    pub(crate) fn shown(&self, place: usize) -> &str {
        self.shown.get(place).map_or("", String::as_str)
    }

    /// Returns the name as a table shows it.
    pub(crate) fn short(&self, name: &str) -> Option<&str> {
        let name = visible::line(name);
        self.full
            .iter()
            .position(|full| *full == name)
            .map(|place| self.shown(place))
    }

    /// Replaces names in a line by the shortened names of the table.
    pub(crate) fn shorten(&self, line: &str) -> String {
        let mut pairs: Vec<_> = self
            .full
            .iter()
            .zip(&self.shown)
            .filter(|(full, shown)| full != shown)
            .collect();
        // One name may be the beginning of another.
        pairs.sort_by_key(|(full, _)| std::cmp::Reverse(full.len()));
        pairs
            .into_iter()
            .fold(line.to_owned(), |line, (full, shown)| {
                line.replace(full.as_str(), shown)
            })
    }

    /// Returns one line for every name that was shortened.
    pub(crate) fn legend(&self) -> Vec<String> {
        let pairs = self.shown.iter().zip(&self.full);
        pairs
            .filter(|(shown, full)| shown != full)
            .map(|(shown, full)| format!("{shown} is {full}"))
            .collect()
    }
}

/// Returns the beginning of a name that is wider than `width` columns, with a sign for the
/// omission.
pub fn cut_name(name: &str, width: usize) -> String {
    if display_width(name) <= width {
        return name.to_owned();
    }
    let mut short = String::new();
    for c in name.chars() {
        if display_width(&short) + display_width(c.encode_utf8(&mut [0; 4])) + 1 > width {
            break;
        }
        short.push(c);
    }
    short.push(GAP);
    short
}

/// Returns the first word, and as few others as distinguish the name from those that begin alike.
/// The longest words are cut first.
fn difference(name: &str, alike: &[&str]) -> String {
    if display_width(name) <= NAME {
        return name.to_owned();
    }
    let own = words(name);
    let mut others: Vec<Vec<&str>> = alike.iter().map(|other| words(other)).collect();
    let mut kept = vec![false; own.len()];
    loop {
        let lacking = |word: &&str| others.iter().filter(|other| !other.contains(word)).count();
        let telling = (1..own.len())
            .rev()
            .max_by_key(|place| lacking(&own[*place]));
        let Some(place) = telling.filter(|place| lacking(&own[*place]) > 0) else {
            break;
        };
        kept[place] = true;
        others.retain(|other| other.contains(&own[place]));
    }
    let telling = own
        .iter()
        .zip(&kept)
        .skip(1)
        .filter(|(_, kept)| **kept)
        .map(|(word, _)| word);
    let mut shown: Vec<String> = own
        .iter()
        .take(1)
        .chain(telling)
        .map(|word| (*word).to_owned())
        .collect();
    if shown.len() < 2 {
        return cut_name(name, NAME);
    }
    loop {
        let text = shown.join(&GAP.to_string());
        let longest = shown.iter_mut().max_by_key(|word| display_width(word));
        match longest {
            Some(word) if display_width(&text) > NAME && display_width(word) > SHORTEST => {
                _ = word.pop()
            }
            _ => return cut_name(&text, NAME),
        }
    }
}

/// Splits a name into the words of options and media.
fn words(name: &str) -> Vec<&str> {
    name.split(|c: char| ",@%=/ \"".contains(c))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Adds a number to a name that another one before it has, or one after it.
fn numbered(name: String, before: &[String], behind: &[String]) -> String {
    let taken = |name: &String| before.contains(name);
    if !(taken(&name) || name.contains(GAP) && behind.contains(&name)) {
        return name;
    }
    let candidates = (before.len() + 1..).map(|n| {
        let number = format!("#{n}");
        cut_name(&name, NAME - number.len()) + &number
    });
    candidates
        .into_iter()
        .find(|name| !taken(name) && !behind.contains(name))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_cut_to_its_columns() {
        for (width, expected) in [(5, "naïve"), (4, "naï…"), (0, "…")] {
            assert_eq!(cut_name("naïve", width), expected);
        }
        assert_eq!(
            cut_name("磁盘", 3),
            "磁…",
            "each of these is two columns wide"
        );
    }

    #[test]
    fn labels_of_the_default_suite_stay_apart() {
        let labels = [
            ("write 1M, durable", "write 1M, durable"),
            ("random write 4K, durable each", "randwrite 4K, fsync"),
            ("create 4K files, durable", "create 4K, durable"),
            (
                "create 4K files, durable, 2 threads",
                "create 4K, durable ×2",
            ),
            ("readdir + stat, cold", "readdir + stat, cold"),
        ];
        labels
            .iter()
            .for_each(|(long, short)| assert_eq!(abbreviate(long), *short));
    }

    fn shown<S: AsRef<str>>(names: &[S]) -> Vec<String> {
        let shown = Names::new(names.iter().map(AsRef::as_ref));
        (0..names.len())
            .map(|place| shown.shown(place).to_owned())
            .collect()
    }

    #[test]
    fn names_that_begin_alike_show_what_differs() {
        let long = "ext4,noatime,data=";
        let names = [
            format!("{long}journal,mkfs=\"-O ^has_journal -b 1024\""),
            format!("{long}journal,mkfs=\"-O ^has_journal -b 4096\""),
            format!("{long}ordered,mkfs=\"-O ^has_journal -b 1024\""),
            format!("{long}writeback"),
            "ext4".to_owned(),
            "xfs,allocsize=512k@/dev/sdb1".to_owned(),
        ];
        let expected = [
            "ext4…journal…1024",
            "ext4…4096",
            "ext4…ordered",
            "ext4…writeback",
            "ext4",
            "xfs,allocsize=512…",
        ];
        assert_eq!(shown(&names), expected);
    }

    #[test]
    fn lines_have_the_names_of_the_table() {
        let names = Names::new([
            "xfs,allocsize=512k@/dev/sdb1",
            "xfs,allocsize=512k@/dev/sdb1#2",
            "xfs",
        ]);
        let line = names.shorten("xfs,allocsize=512k@/dev/sdb1#2 +5 % and xfs -3 % at delete");
        assert_eq!(
            line,
            format!("{} +5 % and xfs -3 % at delete", names.shown(1))
        );
    }

    #[test]
    fn equal_ends_get_numbers() {
        let names = [
            "a-name-that-is-far-too-long",
            "a-name-that-is-far-too-long#2",
            "a-nam…#2",
        ];
        let found = shown(&names);
        assert_eq!(found[2], "a-nam…#2");
        assert!(
            found[0] != found[1] && found[1] != found[2] && found[0] != found[2],
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn columns_are_narrow_and_unlike(names in proptest::collection::btree_set("[aé漢](,[ab]{0,4}){0,7}", 1..9)) {
            let names: Vec<String> = names.into_iter().collect();
            let found = shown(&names);
            let different: std::collections::BTreeSet<&String> = found.iter().collect();
            prop_assert_eq!(different.len(), names.len(), "{:?}", found);
            for (short, name) in found.iter().zip(&names) {
                prop_assert!(display_width(short) <= NAME && (display_width(name) > NAME || short == name), "{}", short);
            }
        }
    }
}
