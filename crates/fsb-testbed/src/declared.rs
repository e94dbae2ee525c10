//! Options that file systems, controls and media declare: name, values, default, group, help and
//! dependency.
//!
//! The tables are the only declarations. Checks, suggestions, `fsb list`, `docs/options.md` and
//! shell completion use them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use fsb_model::nearest::nearest;
use fsb_model::units::{parse_duration, parse_percent, show_size};
use fsb_model::{Bytes, units::UnitError};
use fsb_sys::error::Refusal;

/// An option that a file system declares.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredOption {
    /// The name, before any `=`.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: OptionKind,
    /// Accepts the name without a value, too.
    pub bare: bool,
    /// The value in a target that does not give one. Empty if the option is off by default.
    pub default: &'static str,
    /// The heading under which it is listed.
    pub group: OptionGroup,
    /// The effect, in one line.
    pub about: &'static str,
    /// The condition on other options without which it is refused.
    pub needs: Option<OptionNeeds>,
}

/// The values that an option or a control accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionKind {
    /// The name alone.
    Flag,
    /// One of these words. A driver may know more of them.
    Word(&'static [&'static str]),
    /// One of these words, which a level may follow: `zstd:3`.
    Level(&'static [&'static str]),
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// Bytes, such as `64K`.
    Size(RangeInclusive<u64>),
    /// A whole percentage; the `%` may be left out.
    WholePercent,
    /// A percentage such as `2.5%`.
    Percent,
    /// Bits per second, such as `100M`: 100 million.
    BitRate(RangeInclusive<u64>),
    /// A time such as `5s`; the range is in seconds.
    Time(RangeInclusive<f64>),
    /// Numbers and ranges, such as `0-3,5`.
    List,
    /// Text of this form.
    Text(&'static str),
}

/// The headings under which options are listed, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionGroup {
    /// When data and metadata reach the device.
    Durability,
    /// Storage of data.
    Data,
    /// Placement of data and metadata.
    Layout,
    /// Memory, threads and batches.
    Resources,
    /// Times, owners, names and permissions.
    Access,
    /// The network between client and server.
    Network,
    /// Values that the null file system makes up.
    Simulation,
}

impl OptionGroup {
    /// Returns the group of this name in a table of options.
    pub(crate) fn find(name: &str) -> Option<OptionGroup> {
        Some(match name {
            "durability" => OptionGroup::Durability,
            "data" => OptionGroup::Data,
            "layout" => OptionGroup::Layout,
            "resources" => OptionGroup::Resources,
            "access" => OptionGroup::Access,
            "network" => OptionGroup::Network,
            "simulation" => OptionGroup::Simulation,
            _ => return None,
        })
    }

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            OptionGroup::Durability => "Durability and journal",
            OptionGroup::Data => "Data",
            OptionGroup::Layout => "Layout and allocation",
            OptionGroup::Resources => "Memory, threads and batches",
            OptionGroup::Access => "Times, owners and names",
            OptionGroup::Network => "Network",
            OptionGroup::Simulation => "Simulation",
        }
    }
}

/// A condition on another option, which is written as in a target: `data=journal`, or a name for
/// any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionNeeds {
    /// The other option is given.
    With(&'static str),
    /// The other option is not given.
    Without(&'static str),
}

impl OptionNeeds {
    /// Returns whether the condition holds beside these options.
    pub fn holds(self, options: &[String]) -> bool {
        let given = |wanted: &str| {
            options
                .iter()
                .any(|option| option == wanted || key(option) == wanted)
        };
        match self {
            OptionNeeds::With(other) => given(other),
            OptionNeeds::Without(other) => !given(other),
        }
    }
}

impl fmt::Display for OptionNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionNeeds::With(other) => write!(f, "only with {other}"),
            OptionNeeds::Without(other) => write!(f, "not with {other}"),
        }
    }
}

/// Returns the name of an option as it is typed: `commit` of `commit=60`.
pub(crate) fn key(option: &str) -> &str {
    option.split_once('=').map_or(option, |(key, _)| key)
}

/// The value of an option or a control, as its kind parses it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OptionValue {
    /// A number, or bytes.
    Number(u64),
    /// A share: 0.1 for 10 %.
    Share(f64),
    /// A time.
    Time(Duration),
    /// Numbers in ascending order.
    List(Vec<u32>),
    /// Any other value.
    Text(String),
}

impl DeclaredOption {
    /// Returns the values in words, with their range.
    pub fn values(&self) -> String {
        let values = self.kind.values();
        if self.bare {
            format!("{values}, or no value")
        } else {
            values
        }
    }

    /// Returns the spellings that a suggestion may name: the name, and each word with it.
    pub fn spellings(&self) -> Vec<String> {
        let words: &[&str] = match self.kind {
            OptionKind::Word(words) | OptionKind::Level(words) => words,
            _ => &[],
        };
        let with_words = words.iter().map(|word| format!("{}={word}", self.name));
        let alone = (self.bare || words.is_empty()).then(|| self.name.to_owned());
        alone.into_iter().chain(with_words).collect()
    }

    /// Parses an option of this name.
    ///
    /// # Errors
    ///
    /// If a value is missing, superfluous or none of the kind, with the nearest word.
    pub(crate) fn parse(&self, option: &str) -> Result<OptionValue, Refusal> {
        match (option.split_once('='), &self.kind) {
            (None, OptionKind::Flag) => Ok(OptionValue::Text(String::new())),
            (Some(_), OptionKind::Flag) => Err(format!("'{}' takes no value", self.name).into()),
            (None, _) if self.bare => Ok(OptionValue::Text(String::new())),
            (None, kind) => Err(format!("'{}' needs a value: {}", self.name, kind.values()).into()),
            (Some((_, text)), kind) => kind.parse(text),
        }
    }
}

impl OptionKind {
    /// Returns the values in words, with their range.
    pub fn values(&self) -> String {
        match self {
            OptionKind::Flag => "no value".to_owned(),
            OptionKind::Word(words) => words.join(", "),
            OptionKind::Level(words) => format!("{}, with or without :LEVEL", words.join(", ")),
            OptionKind::Number(range) => match *range.end() {
                u64::MAX => format!("number from {}", range.start()),
                most => format!("number from {} to {most}", range.start()),
            },
            OptionKind::Size(range) => match *range.end() {
                u64::MAX => format!("size from {}", Bytes(*range.start())),
                most => format!("size from {} to {}", Bytes(*range.start()), Bytes(most)),
            },
            OptionKind::WholePercent => "percentage from 0% to 100%".to_owned(),
            OptionKind::Percent => "percentage".to_owned(),
            OptionKind::BitRate(range) => {
                let [least, most] = [*range.start(), *range.end()].map(show_bit_rate);
                format!("bits per second from {least} to {most}")
            }
            OptionKind::Time(range) => format!(
                "time from {} to {}",
                seconds(*range.start()),
                seconds(*range.end())
            ),
            OptionKind::List => "numbers and ranges, such as 0-3,5".to_owned(),
            OptionKind::Text(form) => (*form).to_owned(),
        }
    }

    /// Parses a value.
    ///
    /// # Errors
    ///
    /// If the text is none of the values. A word is refused only if a declared one is near, because
    /// drivers know more.
    pub(crate) fn parse(&self, text: &str) -> Result<OptionValue, Refusal> {
        fn number(text: &str) -> Option<u64> {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse::<u64>().ok())?
        }
        let expected = || Refusal::from(format!("'{text}' is not a {}", self.values()));
        match self {
            OptionKind::Flag => Err("a value is not accepted".into()),
            OptionKind::Word(words) => near_word(text, words),
            OptionKind::Level(words) => match text.split_once(':') {
                None => near_word(text, words),
                Some((word, level)) if number(level.trim_start_matches('-')).is_some() => {
                    near_word(word, words)
                }
                Some((_, level)) => Err(format!("the level '{level}' is not a number").into()),
            },
            OptionKind::Number(range) => number(text)
                .filter(|value| range.contains(value))
                .map(OptionValue::Number)
                .ok_or_else(expected),
            OptionKind::Size(range) => {
                let bytes: Bytes = text.parse().map_err(|error: UnitError| error.to_string())?;
                if bytes.0 < *range.start() {
                    return Err(format!("give {} at least", show_size(*range.start())).into());
                }
                if bytes.0 > *range.end() {
                    return Err(format!("give {} at most", show_size(*range.end())).into());
                }
                Ok(OptionValue::Number(bytes.0))
            }
            OptionKind::WholePercent => {
                let digits = text.strip_suffix('%').unwrap_or(text).trim_end();
                match number(digits).ok_or("give a whole percentage, such as 20%")? {
                    percent @ 0..=100 => Ok(OptionValue::Number(percent)),
                    _ => Err("give between 0% and 100%".into()),
                }
            }
            OptionKind::Percent => parse_percent(text)
                .map(OptionValue::Share)
                .map_err(|error| error.to_string().into()),
            OptionKind::BitRate(range) => {
                let rate = bit_rate(text)
                    .ok_or_else(|| format!("'{text}' is not bits per second, such as 100M"))?;
                let [least, most] = [*range.start(), *range.end()].map(show_bit_rate);
                match range.contains(&rate) {
                    true => Ok(OptionValue::Number(rate)),
                    false => Err(format!("give between {least} and {most} bits per second").into()),
                }
            }
            OptionKind::Time(range) => {
                let time = parse_duration(text).map_err(|error| error.to_string())?;
                if range.contains(&time.as_secs_f64()) {
                    return Ok(OptionValue::Time(time));
                }
                let [least, most] = [*range.start(), *range.end()].map(seconds);
                Err(format!("give between {least} and {most}").into())
            }
            OptionKind::List => list(text).map(OptionValue::List).ok_or_else(expected),
            OptionKind::Text(_) => Ok(OptionValue::Text(text.to_owned())),
        }
    }
}

/// Accepts a word unless a declared one is so near that it must be meant.
fn near_word(text: &str, words: &[&str]) -> Result<OptionValue, Refusal> {
    match nearest(text, words.iter().copied()) {
        Some(near) if near != text => {
            Err(format!("'{text}' is not one of {}", words.join(", ")).into())
        }
        _ if text.is_empty() => Err("the value is empty".into()),
        _ => Ok(OptionValue::Text(text.to_owned())),
    }
}

/// The prefixes of bits per second, which are decimal, from the largest on.
const BIT_RATE_PREFIXES: [(char, u64); 3] = [('G', 1_000_000_000), ('M', 1_000_000), ('K', 1000)];

/// Parses bits per second: `100M` or `64000`.
pub(crate) fn bit_rate(text: &str) -> Option<u64> {
    let prefix = BIT_RATE_PREFIXES
        .iter()
        .find(|(letter, _)| text.ends_with([*letter, letter.to_ascii_lowercase()]));
    let (digits, factor) =
        prefix.map_or((text, 1), |(_, factor)| (&text[..text.len() - 1], *factor));
    let number: u64 = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())??;
    number.checked_mul(factor)
}

/// Formats bits per second as a user writes them.
fn show_bit_rate(rate: u64) -> String {
    let prefix = BIT_RATE_PREFIXES
        .iter()
        .find(|(_, factor)| rate != 0 && rate.is_multiple_of(*factor));
    prefix.map_or_else(
        || rate.to_string(),
        |(letter, factor)| format!("{}{letter}", rate / factor),
    )
}

/// Formats a time as a user writes it.
fn seconds(seconds: f64) -> String {
    const DAY: f64 = 86_400.0;
    match seconds {
        days if days >= DAY => format!("{} days", (days / DAY).floor()),
        seconds if seconds >= 1.0 => format!("{seconds}s"),
        short => format!("{}us", (short * 1e6).round()),
    }
}

/// Parses a list of numbers as the kernel writes it: `0-3,5`. Returns `None` for any other text.
pub(crate) fn list(text: &str) -> Option<Vec<u32>> {
    /// More than any kernel has.
    const MOST: u32 = 1 << 16;
    fn number(text: &str) -> Option<u32> {
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse::<u32>().ok())?
    }
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_parse_their_values_and_refuse_others() {
        let kinds = [
            (OptionKind::Number(0..=9), "9", "10"),
            (OptionKind::Size(4096..=1 << 30), "64k", "1k"),
            (OptionKind::WholePercent, "20%", "2.5%"),
            (OptionKind::Percent, "2.5%", "often"),
            (OptionKind::BitRate(1000..=10_000_000_000), "2500k", "100"),
            (OptionKind::BitRate(1000..=10_000_000_000), "1G", "1T"),
            (OptionKind::Time(0.5..=10.0), "5s", "11s"),
            (OptionKind::List, "0-3,5", "3-1"),
            (
                OptionKind::Word(&["journal", "ordered"]),
                "journal",
                "jornal",
            ),
            (OptionKind::Level(&["zstd", "lzo"]), "zstd:15", "zstd:much"),
        ];
        for (kind, right, wrong) in kinds {
            assert!(kind.parse(right).is_ok(), "{kind:?}: {right}");
            assert!(kind.parse(wrong).is_err(), "{kind:?}: {wrong}");
        }
        assert!(
            OptionKind::Word(&["journal"])
                .parse("something-new")
                .is_ok()
        );
    }

    #[test]
    fn bit_rates_have_decimal_prefixes() {
        assert_eq!(
            ["64000", "100M", "1g"].map(bit_rate),
            [Some(64_000), Some(100_000_000), Some(1_000_000_000)]
        );
        assert_eq!(
            [
                "",
                "M",
                "1.5M",
                "-1",
                "99999999999999999999",
                "99999999999G"
            ]
            .map(bit_rate),
            [None; 6]
        );
        assert_eq!(
            [1500, 2_000_000, 10_000_000_000].map(show_bit_rate),
            ["1500", "2M", "10G"]
        );
    }

    #[test]
    fn needs_are_about_names_and_values() {
        let options = ["data=journal".to_owned(), "noatime".to_owned()];
        assert!(!OptionNeeds::Without("data=journal").holds(&options));
        assert!(OptionNeeds::Without("data=ordered").holds(&options));
        assert!(
            OptionNeeds::With("data").holds(&options)
                && OptionNeeds::With("noatime").holds(&options)
        );
    }
}
