//! Names short enough to head a column.

use textwrap::core::display_width;

use crate::mark::UNSAFE;
use crate::visible;

/// Longer names are shortened.
const NAME: usize = 18;
/// What stands for what was left out.
const GAP: char = '…';
/// Words are not cut shorter than this.
const SHORTEST: usize = 3;

/// Names in full and as a table shows them.
pub(crate) struct Names {
    full: Vec<String>,
    shown: Vec<String>,
}

impl Names {
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
        let full: Vec<String> = names.into_iter().map(|name| visible::line(name).into_owned()).collect();
        // A shortened name keeps the mark of an unsafe target.
        let bare: Vec<&str> = full.iter().map(|name| name.strip_suffix(UNSAFE).unwrap_or(name)).collect();
        let cut: Vec<String> = bare.iter().map(|name| cut(name, NAME)).collect();
        let mut shown: Vec<String> = Vec::new();
        for (place, name) in bare.iter().enumerate() {
            let alike: Vec<&str> = (0..full.len())
                .filter(|other| *other != place && cut[*other] == cut[place])
                .map(|other| bare[other])
                .collect();
            let short = if alike.is_empty() { cut[place].clone() } else { difference(name, &alike) };
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

    /// As a table shows the name.
    pub(crate) fn short(&self, name: &str) -> Option<&str> {
        let name = visible::line(name);
        self.full.iter().position(|full| *full == name).map(|place| self.shown(place))
    }

    /// A line with those names as a table shows them that were shortened.
    pub(crate) fn shorten(&self, line: &str) -> String {
        let mut pairs: Vec<_> = self.full.iter().zip(&self.shown).filter(|(full, shown)| full != shown).collect();
        // One may be the beginning of another.
        pairs.sort_by_key(|(full, _)| std::cmp::Reverse(full.len()));
        pairs.into_iter().fold(line.to_owned(), |line, (full, shown)| line.replace(full.as_str(), shown))
    }

    /// One line for every name that was shortened.
    pub(crate) fn legend(&self) -> Vec<String> {
        let pairs = self.shown.iter().zip(&self.full);
        pairs.filter(|(shown, full)| shown != full).map(|(shown, full)| format!("{shown} is {full}")).collect()
    }
}

/// The beginning, where the whole is wider than `width`.
fn cut(name: &str, width: usize) -> String {
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

/// The first word, and as few others as tell the name from those that begin alike; the longest are cut first.
fn difference(name: &str, alike: &[&str]) -> String {
    if display_width(name) <= NAME {
        return name.to_owned();
    }
    let own = words(name);
    let mut others: Vec<Vec<&str>> = alike.iter().map(|other| words(other)).collect();
    let mut kept = vec![false; own.len()];
    loop {
        let lacking = |word: &&str| others.iter().filter(|other| !other.contains(word)).count();
        let telling = (1..own.len()).rev().max_by_key(|place| lacking(&own[*place]));
        let Some(place) = telling.filter(|place| lacking(&own[*place]) > 0) else { break };
        kept[place] = true;
        others.retain(|other| other.contains(&own[place]));
    }
    let telling = own.iter().zip(&kept).skip(1).filter(|(_, kept)| **kept).map(|(word, _)| word);
    let mut shown: Vec<String> = own.iter().take(1).chain(telling).map(|word| (*word).to_owned()).collect();
    if shown.len() < 2 {
        return cut(name, NAME);
    }
    loop {
        let text = shown.join(&GAP.to_string());
        let longest = shown.iter_mut().max_by_key(|word| display_width(word));
        match longest {
            Some(word) if display_width(&text) > NAME && display_width(word) > SHORTEST => drop(word.pop()),
            _ => return cut(&text, NAME),
        }
    }
}

/// What options and media consist of.
fn words(name: &str) -> Vec<&str> {
    name.split(|c: char| ",@%=/ \"".contains(c)).filter(|word| !word.is_empty()).collect()
}

/// With a number behind where the name is taken, by one before it or by the name of one that follows.
fn numbered(name: String, before: &[String], behind: &[String]) -> String {
    let taken = |name: &String| before.contains(name);
    if !(taken(&name) || name.contains(GAP) && behind.contains(&name)) {
        return name;
    }
    let candidates = (before.len() + 1..).map(|n| {
        let number = format!("#{n}");
        cut(&name, NAME - number.len()) + &number
    });
    candidates.into_iter().find(|name| !taken(name) && !behind.contains(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown<S: AsRef<str>>(names: &[S]) -> Vec<String> {
        let shown = Names::of(names.iter().map(AsRef::as_ref));
        (0..names.len()).map(|place| shown.shown(place).to_owned()).collect()
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
        let expected =
            ["ext4…journal…1024", "ext4…4096", "ext4…ordered", "ext4…writeback", "ext4", "xfs,allocsize=512…"];
        assert_eq!(shown(&names), expected);
    }

    #[test]
    fn lines_have_the_names_of_the_table() {
        let names = Names::of(["xfs,allocsize=512k@/dev/sdb1", "xfs,allocsize=512k@/dev/sdb1#2", "xfs"]);
        let line = names.shorten("xfs,allocsize=512k@/dev/sdb1#2 +5 % and xfs -3 % at delete");
        assert_eq!(line, format!("{} +5 % and xfs -3 % at delete", names.shown(1)));
    }

    #[test]
    fn equal_ends_get_numbers() {
        let names = ["a-name-that-is-far-too-long", "a-name-that-is-far-too-long#2", "a-nam…#2"];
        let found = shown(&names);
        assert_eq!(found[2], "a-nam…#2");
        assert!(found[0] != found[1] && found[1] != found[2] && found[0] != found[2], "{found:?}");
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
