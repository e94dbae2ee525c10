//! Numbers and sentences as people read them.

use fsb_stats::{Comparison, Interval, Verdict};
use serde::Serialize;
use textwrap::core::display_width;

use crate::visible;

/// Returns a number with its noun, such as `1 workload` or `12 workloads`.
pub fn counted(n: usize, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {one}s")
    }
}

/// Joins items: `ext4`, `ext4 and xfs`, `ext4, xfs and btrfs`.
pub fn listed<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [head @ .., last] => {
            let head: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", head.join(", "), last.as_ref())
        }
    }
}

/// Lists the items like [`listed`], or only counts them if a headline would consist of their names.
pub fn listed_or_counted<S: AsRef<str>>(items: &[S], noun: &str) -> String {
    const MOST: usize = 5;
    if items.len() <= MOST {
        listed(items)
    } else {
        counted(items.len(), noun)
    }
}

/// Returns the first few items and the number of the others, so that the text fits a line.
pub fn some_of(items: &[String], most: usize) -> String {
    if items.len() <= most {
        return items.join("; ");
    }
    format!(
        "{}; and {} more",
        items[..most].join("; "),
        items.len() - most
    )
}

/// Lists rows for a line below the table, at most twelve of them.
pub(crate) fn some_cases(rows: &[String]) -> String {
    some_of(rows, 12)
}

/// Lists statements with their rows. A statement that more than two rows share is printed once:
/// `xfs +13 % at 6 workloads, such as create 4K files, durable; btrfs +5 % at append 4K`.
pub(crate) fn describe_cases(told: &[(String, String)]) -> String {
    let lines = told.iter().enumerate().filter_map(|(at, (what, row))| {
        match told.iter().filter(|(other, _)| other == what).count() {
            count if count <= 2 => Some(format!("{what} at {row}")),
            count => (!told[..at].iter().any(|(other, _)| other == what))
                .then(|| format!("{what} at {count} workloads, such as {row}")),
        }
    });
    some_cases(&lines.collect::<Vec<_>>())
}

/// Formats a share as a percentage without needless digits: `3 %`, `2.5 %`.
pub fn percent(share: f64) -> String {
    // The sum turns −0 into 0.
    let value = (share * 1e4).round() / 100.0 + 0.0;
    format!("{value} %")
}

/// Formats a share as a percentage, rounded up to a tenth of a percent: of a bound, or of the least
/// that is detectable.
pub fn percent_above(share: f64) -> String {
    // Rounding up does not turn 24 % into 24.1 % because of a binary fraction.
    percent((share * 1e3 - 1e-6).ceil() / 1e3)
}

/// Formats a scale as `1/8` if it is one over a whole number.
pub(crate) fn scale(scale: f64) -> String {
    let below = 1.0 / scale;
    if below > 1.0 && (below - below.round()).abs() < 1e-9 {
        format!("1/{below:.0}")
    } else {
        format!("{scale}")
    }
}

/// Returns the text with a capital letter first.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(rest).collect()
    })
}

/// The text in place of a target that this machine cannot make.
pub(crate) const NOT_HERE: &str = "not available here";

/// A change as people read it, in parts, so that a table can align them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `+12 %`, `×14`, `÷14`.
    pub center: String,
    /// The interval. Absent where nothing is judged.
    pub interval: Option<IntervalText>,
}

/// An interval as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntervalText {
    /// The ends without a unit: `+9`, `+16`.
    Ends(String, String),
    /// It contains equality and reaches beyond ±100 %.
    TooWide,
}

/// The text in place of an interval, or of its half-width, above ±100 %.
pub const TOO_WIDE: &str = "over ±100 %";

impl IntervalText {
    /// Returns text such as `[+9 +16]`, which is at least `width` columns wide between the
    /// brackets. The lower end is beside the left bracket, the upper one beside the right.
    pub(crate) fn in_brackets(&self, width: usize) -> String {
        match self {
            IntervalText::Ends(lo, hi) => {
                let between = width
                    .saturating_sub(display_width(lo) + display_width(hi))
                    .max(1);
                format!("[{lo}{}{hi}]", " ".repeat(between))
            }
            IntervalText::TooWide => format!("[{TOO_WIDE:<width$}]"),
        }
    }

    /// Returns text such as `[+9, +16]`.
    pub(crate) fn with_comma(&self) -> String {
        match self {
            IntervalText::Ends(lo, hi) => format!("[{lo}, {hi}]"),
            IntervalText::TooWide => self.in_brackets(0),
        }
    }

    /// Returns the least width between the brackets.
    pub(crate) fn width(&self) -> usize {
        display_width(&self.in_brackets(0)) - 2
    }

    /// Returns text such as `+9 to +16`.
    pub(crate) fn in_words(&self) -> String {
        match self {
            IntervalText::Ends(lo, hi) => format!("{lo} to {hi}"),
            IntervalText::TooWide => TOO_WIDE.to_owned(),
        }
    }
}

/// The notation of a ratio: a percentage up to tenfold, a factor beyond.
#[derive(Clone, Copy)]
enum RatioScale {
    Percent(usize),
    Times,
    Over,
}

impl Change {
    /// Returns the change that a comparison found, without the interval if it is not judged.
    pub fn from_comparison(comparison: &Comparison) -> Change {
        Change::between(
            comparison.ratio,
            comparison
                .interval
                .filter(|_| comparison.verdict != Verdict::NotJudged),
        )
    }

    /// Returns a ratio as a change, with the ends of its interval if there is one.
    pub fn between(ratio: f64, interval: Option<Interval>) -> Change {
        let scale = RatioScale::new(ratio, interval);
        let center = match scale {
            RatioScale::Percent(_) => format!("{} %", unsigned_zero(scale.show(ratio))),
            RatioScale::Times => format!("×{}", scale.show(ratio)),
            RatioScale::Over => format!("÷{}", scale.show(ratio)),
        };
        Change {
            center,
            interval: interval.map(|interval| match scale {
                _ if interval.is_too_wide() => IntervalText::TooWide,
                // A division reads from the small divisor to the large one.
                RatioScale::Over => {
                    IntervalText::Ends(scale.show(interval.hi), scale.show(interval.lo))
                }
                _ => IntervalText::Ends(scale.show(interval.lo), scale.show(interval.hi)),
            }),
        }
    }

    /// Returns text such as `+12 % [+9 +16]`.
    pub fn text(&self) -> String {
        match &self.interval {
            Some(interval) => format!("{} {}", self.center, interval.in_brackets(0)),
            None => self.center.clone(),
        }
    }
}

impl RatioScale {
    fn new(ratio: f64, interval: Option<Interval>) -> RatioScale {
        match ratio {
            r if r >= 10.0 => RatioScale::Times,
            r if r <= 0.1 => RatioScale::Over,
            // Around equality whole numbers would print a narrow interval as "[+0 +1]".
            _ => match interval {
                Some(Interval { lo, hi }) if hi - lo < 0.015 && (ratio - 1.0).abs() < 0.1 => {
                    RatioScale::Percent(1)
                }
                _ => RatioScale::Percent(0),
            },
        }
    }

    fn show(self, ratio: f64) -> String {
        match self {
            RatioScale::Percent(decimals) => format!("{:+.decimals$}", (ratio - 1.0) * 100.0),
            RatioScale::Times => factor(ratio),
            RatioScale::Over => factor(1.0 / ratio),
        }
    }
}

/// Removes the sign of a zero. The end of an interval keeps it, because it shows the side of
/// equality.
fn unsigned_zero(text: String) -> String {
    if text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        text
    } else {
        text[1..].to_owned()
    }
}

fn factor(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{v:.1}"),
        v if v < 1e6 => format!("{v:.0}"),
        v => format!("{v:.1e}"),
    }
}

/// Replaces hyphens before numbers by minus signs. Names keep their hyphens.
pub fn minus(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = characters.next() {
        let number = characters.peek().is_some_and(char::is_ascii_digit);
        result.push(if c == '-' && number && !before.is_alphanumeric() {
            '−'
        } else {
            c
        });
        before = c;
    }
    result
}

/// Binds numbers to the word or sign beside them, so that no line ends between `95` and `%`.
pub fn bound(text: &str) -> String {
    let mut result = text.to_owned();
    for sign in [" %", " KiB", " MiB", " GiB", " TiB"] {
        result = result.replace(sign, &sign.replace(' ', "\u{a0}"));
    }
    // Units that are words, or that words begin with, are bound only behind a number and before no
    // letter.
    for unit in ["min", "ms", "µs", "s", "h"] {
        let sign = format!(" {unit}");
        let mut bound = String::with_capacity(result.len());
        let mut rest = result.as_str();
        while let Some((before, behind)) = rest.split_once(&sign) {
            let is_unit = before.ends_with(|c: char| c.is_ascii_digit())
                && !behind.starts_with(|c: char| c.is_alphanumeric() || c == '/');
            bound += before;
            bound.push(if is_unit { '\u{a0}' } else { ' ' });
            bound += unit;
            rest = behind;
        }
        result = bound + rest;
    }
    for sign in ["≥ ", "≤ "] {
        result = result.replace(sign, &sign.replace(' ', "\u{a0}"));
    }
    result
}

/// Returns a term with its description in lines of at most `width` columns, if that leaves room for
/// words. Lines after the first are indented to the description.
pub fn entry(term: &str, text: &str, width: usize) -> String {
    let (term, text) = (&*visible::line(term), &*visible::line(text));
    let indent = " ".repeat(display_width(term));
    if width < indent.len() + NARROWEST {
        return format!("{term}{text}");
    }
    filled(text, width, term, &indent)
}

/// Wraps the lines of a message to `width` columns. Lines that begin with spaces are laid out
/// already and stay unchanged.
pub fn wrapped(text: &str, width: usize) -> String {
    visible::lines(text)
        .split('\n')
        .map(|line| match line.starts_with(' ') {
            true => line.to_owned(),
            false => filled(line, width, "", "  "),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Fills lines without breaking a word or a short command in quotation marks, because users copy
/// them.
fn filled(text: &str, width: usize, first: &str, rest: &str) -> String {
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(&whole_commands(&bound(text), width / 2), options).replace('\u{a0}', " ")
}

/// Binds the words of each command between quotation marks to each other, if it has at most
/// `longest` bytes.
fn whole_commands(text: &str, longest: usize) -> String {
    let mut result = String::with_capacity(text.len());
    for (index, part) in text.split('\'').enumerate() {
        if index > 0 {
            result.push('\'');
        }
        let is_command = ["fsb ", "sudo "]
            .iter()
            .any(|start| part.starts_with(start))
            && part.len() <= longest;
        result += &if is_command {
            part.replace(' ', "\u{a0}")
        } else {
            part.to_owned()
        };
    }
    result
}

/// The smallest number of columns that words are wrapped to.
const NARROWEST: usize = 24;

/// Whole numbers with thin groups of three: `144 738`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut result = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            result.push('\u{202f}');
        }
        result.push(digit);
    }
    result
}

/// A step of the method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Paragraph {
    /// The subject.
    pub title: &'static str,
    /// The description.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_stats::Method;

    #[test]
    fn a_share_of_nothing_has_no_sign() {
        assert_eq!([percent(-0.0), percent_above(0.0)], ["0 %", "0 %"]);
    }

    #[test]
    fn an_interval_beyond_a_hundred_percent_has_no_ends() {
        let text = |ratio, lo, hi| Change::between(ratio, Some(Interval { lo, hi })).text();
        assert_eq!(text(1.11, 0.03, 38.0), "+11 % [over ±100 %]");
        assert_eq!(text(0.9, 0.44, 1.82), "-10 % [over ±100 %]");
        assert_eq!(text(0.9, 0.46, 1.82), "-10 % [-54 +82]");
        // The verdict on a difference rests on these ends.
        assert_eq!(text(30.0, 10.0, 90.0), "×30 [10 90]");
    }

    #[test]
    fn facts_shared_by_many_rows_are_printed_once() {
        let told = |all: &[(&str, &str)]| {
            describe_cases(
                &all.iter()
                    .map(|(what, row)| ((*what).to_owned(), (*row).to_owned()))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            told(&[("xfs +13 %", "a"), ("btrfs +5 %", "b"), ("xfs +13 %", "c")]),
            "xfs +13 % at a; btrfs +5 % at b; xfs +13 % at c"
        );
        let many = [
            ("xfs +13 %", "a"),
            ("btrfs +5 %", "b"),
            ("xfs +13 %", "c"),
            ("xfs +13 %", "d"),
        ];
        assert_eq!(
            told(&many),
            "xfs +13 % at 3 workloads, such as a; btrfs +5 % at b"
        );
    }

    #[test]
    fn many_names_are_a_number() {
        let names: Vec<String> = (0..6).map(|place| format!("t{place}")).collect();
        assert_eq!(listed_or_counted(&names, "target"), "6 targets");
        assert_eq!(
            listed_or_counted(&names[..5], "target"),
            "t0, t1, t2, t3 and t4"
        );
    }

    fn comparison(ratio: f64, lo: f64, hi: f64, verdict: Verdict) -> Comparison {
        Comparison {
            ratio,
            interval: Some(Interval { lo, hi }),
            level: 0.95,
            nominal_level: None,
            n: 10,
            method: Method::Paired,
            p_value: Some(0.5),
            verdict,
            unjudged: None,
            power: None,
            effect: None,
        }
    }

    #[test]
    fn changes_read_like_sentences() {
        for (ratio, lo, hi, text) in [
            (1.12, 1.09, 1.16, "+12 % [+9 +16]"),
            (0.69, 0.65, 0.73, "-31 % [-35 -27]"),
            (1.005, 0.999, 1.011, "+0.5 % [-0.1 +1.1]"),
            (1.0, 0.9, 1.1, "0 % [-10 +10]"),
            (14.2, 12.0, 17.0, "×14 [12 17]"),
            (0.05, 0.04, 0.0625, "÷20 [16 25]"),
            (10.2, 9.6, 11.0, "×10 [9.6 11]"),
        ] {
            assert_eq!(
                Change::from_comparison(&comparison(ratio, lo, hi, Verdict::Inconclusive)).text(),
                text
            );
        }
        assert_eq!(
            Change::from_comparison(&comparison(1.12, 1.09, 1.16, Verdict::NotJudged)).text(),
            "+12 %"
        );
    }

    #[test]
    fn only_numbers_get_a_minus() {
        assert_eq!(minus("-31 % [-35 -27]"), "−31 % [−35 −27]");
        assert_eq!(
            bound("files ≥ 4 MiB: +3 %"),
            "files ≥\u{a0}4\u{a0}MiB: +3\u{a0}%"
        );
        assert_eq!(
            bound("4 min 31 s, 100 ms; 3 sets, at 5 s"),
            "4\u{a0}min 31\u{a0}s, 100\u{a0}ms; 3 sets, at 5\u{a0}s"
        );
        assert_eq!(minus("small-inodes raid-0"), "small-inodes raid-0");
    }

    #[test]
    fn an_explanation_is_printed_beside_its_term() {
        let text = "read records that were fully written, in 5 s";
        assert_eq!(
            entry("read  ", text, 34),
            "read  read records that were fully\n      written, in 5 s"
        );
        assert_eq!(entry("read  ", text, 1000), format!("read  {text}"));
        assert_eq!(entry("read  ", text, 20), format!("read  {text}"));
        assert_eq!(
            entry("na\u{1b}me  ", "of \u{202e}a\nprocess", 80),
            "na\\u{1b}me  of \\u{202e}a\\nprocess"
        );
    }

    #[test]
    fn messages_are_wrapped_where_nothing_is_copied_from() {
        let text = "the machine is busy: wait, or see 'fsb doctor' and --allow-concurrent\n  fsb run --resume a/long/path";
        let expected = "the machine is busy: wait, or see\n  'fsb doctor' and\n  --allow-concurrent\n  fsb run --resume a/long/path";
        assert_eq!(wrapped(text, 34), expected);
        assert_eq!(
            wrapped("/a/path-that/is-longer/than-the-line it is", 12),
            "/a/path-that/is-longer/than-the-line\n  it is"
        );
        assert_eq!(wrapped("one\n\ntwo", 12), "one\n\ntwo");
    }

    #[test]
    fn words() {
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(
            (counted(1, "tie"), counted(0, "tie")),
            ("1 tie".into(), "0 ties".into())
        );
        assert_eq!(
            (percent(0.03), percent(0.025)),
            ("3 %".into(), "2.5 %".into())
        );
        assert_eq!(
            some_of(&["a".into(), "b".into(), "c".into()], 2),
            "a; b; and 1 more"
        );
        assert_eq!(
            (grouped(144_738.4), grouped(12.0)),
            ("144\u{202f}738".into(), "12".into())
        );
    }
}
