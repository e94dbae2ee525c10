//! Tables of mount options: text files with a line an option.
//!
//! ```text
//! [durability]
//! data | word journal ordered writeback | ordered | how data reaches the device
//! delalloc | flag | | allocate blocks when data is written back | without data=journal
//! ```
//!
//! * `[GROUP]` names the [`OptionGroup`] of the lines below it. `#` begins a comment.
//! * The columns are name, values, default, effect and, if there is one, a condition: `with OPTION`
//!   or `without OPTION`.
//! * The values are a kind of [`OptionKind`] and its argument: `flag`, `word A B`, `level A B`,
//!   `number 0..9`, `size 4K..1G`, `percent`, `time 0..10` (seconds), `bit-rate 8000..9000`,
//!   `text FORM`. A range without an end has no upper limit. After `word?` the name alone is
//!   accepted, too.
//! * The default is empty if the option is off by default.

use std::ops::{Deref, RangeInclusive};
use std::sync::OnceLock;

use fsb_model::Bytes;

use crate::declared::{DeclaredOption, OptionGroup, OptionKind, OptionNeeds};

/// The options of one driver, which the first reader parses.
#[derive(Debug)]
pub struct OptionTable {
    text: &'static str,
    options: OnceLock<Vec<DeclaredOption>>,
}

impl OptionTable {
    /// Makes the table of a text. Lines that are wrong are left out; a test checks every table.
    pub(super) const fn new(text: &'static str) -> OptionTable {
        OptionTable {
            text,
            options: OnceLock::new(),
        }
    }
}

/// The options of every mounted file system, from mount(8).
pub static COMMON: OptionTable = OptionTable::new(include_str!("common.options"));

impl Deref for OptionTable {
    type Target = [DeclaredOption];

    fn deref(&self) -> &[DeclaredOption] {
        self.options
            .get_or_init(|| lines(self.text).filter_map(|(_, option)| option).collect())
    }
}

/// Returns each line that declares an option, and the option unless the line is wrong.
fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, Option<DeclaredOption>)> {
    let mut group = None;
    text.lines().filter_map(move |line| {
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        match line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            Some(name) => {
                group = OptionGroup::find(name);
                group.is_none().then_some((line, None))
            }
            None => Some((line, group.and_then(|group| option(group, line)))),
        }
    })
}

/// Parses a line.
fn option(group: OptionGroup, line: &'static str) -> Option<DeclaredOption> {
    let mut columns = line.split('|').map(str::trim);
    let (name, values, default, about) = (
        columns.next()?,
        columns.next()?,
        columns.next()?,
        columns.next()?,
    );
    let needs = match columns.next() {
        Some(condition) => Some(match condition.split_once(' ')? {
            ("with", other) => OptionNeeds::With(other),
            ("without", other) => OptionNeeds::Without(other),
            _ => return None,
        }),
        None => None,
    };
    let (word, argument) = values.split_once(' ').unwrap_or((values, ""));
    let words = || &*argument.split(' ').collect::<Vec<_>>().leak();
    let kind = match word.trim_end_matches('?') {
        "flag" => OptionKind::Flag,
        "word" => OptionKind::Word(words()),
        "level" => OptionKind::Level(words()),
        "number" => OptionKind::Number(range(argument, |text| text.parse().ok())?),
        "size" => OptionKind::Size(range(argument, |text| Some(text.parse::<Bytes>().ok()?.0))?),
        "bit-rate" => OptionKind::BitRate(range(argument, |text| text.parse().ok())?),
        "time" => {
            let (least, most) = argument.split_once("..")?;
            OptionKind::Time(least.parse().ok()?..=most.parse().ok()?)
        }
        "percent" => OptionKind::Percent,
        "text" => OptionKind::Text(argument),
        _ => return None,
    };
    Some(DeclaredOption {
        name,
        kind,
        bare: word.ends_with('?'),
        default,
        group,
        about,
        needs,
    })
}

fn range(text: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<RangeInclusive<u64>> {
    let (least, most) = text.split_once("..")?;
    let most = if most.is_empty() {
        u64::MAX
    } else {
        parse(most)?
    };
    Some(parse(least)?..=most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_table_declares_an_option() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/fs");
        let mut tables = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "options")
            {
                let text = std::fs::read_to_string(&path).unwrap().leak();
                for (line, option) in lines(text) {
                    let option = option.unwrap_or_else(|| panic!("{}: {line}", path.display()));
                    assert!(
                        !option.name.is_empty() && !option.about.is_empty(),
                        "{line}"
                    );
                    assert!(!option.bare || option.kind != OptionKind::Flag, "{line}");
                    assert!(
                        option.default.is_empty() || option.kind.parse(option.default).is_ok(),
                        "{line}"
                    );
                }
                tables += 1;
            }
        }
        assert!(tables > 10, "{folder} has {tables} tables");
    }

    #[test]
    fn a_line_has_every_property_of_an_option() {
        let text = "# comment\n\n[data]\n\
            dax | word? always never | never | no page cache | without data=journal\n\
            allocsize | size 4K..1G | | space\nage | number 3.. | | years | with dax\n";
        let all: Vec<DeclaredOption> = lines(text).map(|(_, option)| option.unwrap()).collect();
        assert_eq!(
            all[0],
            DeclaredOption {
                name: "dax",
                kind: OptionKind::Word(&["always", "never"]),
                bare: true,
                default: "never",
                group: OptionGroup::Data,
                about: "no page cache",
                needs: Some(OptionNeeds::Without("data=journal")),
            }
        );
        assert_eq!(all[1].kind, OptionKind::Size(4096..=1 << 30));
        assert_eq!(all[2].kind, OptionKind::Number(3..=u64::MAX));
        assert_eq!(all[2].needs, Some(OptionNeeds::With("dax")));
    }

    #[test]
    fn wrong_lines_declare_nothing() {
        for line in [
            "a | flag",
            "a | flog | | effect",
            "a | number 1 | | effect",
            "a | size x..y | | effect",
            "a | flag | | effect | beside b",
        ] {
            assert_eq!(option(OptionGroup::Data, line), None, "{line}");
        }
        assert_eq!(lines("[dada]\na | flag | | effect\n").count(), 2);
        assert!(OptionTable::new("[dada]\na | flag | | effect\n").is_empty());
    }
}
