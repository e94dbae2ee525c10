//! Kernels short enough for a table.
//!
//! Several kernels give targets names such as `ext4%6.12.117+deb12-amd64`, which are identities:
//! JSON, CSV and the journal keep them. Text for people contains the part of a release that
//! distinguishes the kernels of the run, and each release once in full.

use std::collections::BTreeSet;

use serde::Serialize;

/// The releases that names carry behind `%`, with their short forms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Releases {
    /// Full and short forms, the longest first, because one may be the beginning of another.
    pairs: Vec<(String, String)>,
}

impl Releases {
    /// Returns the releases of all names that occur together.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Releases {
        let mut full: Vec<&str> = Vec::new();
        for release in names.into_iter().flat_map(releases_in) {
            if !full.contains(&release) {
                full.push(release);
            }
        }
        let mut pairs: Vec<(String, String)> = full
            .iter()
            .map(|release| ((*release).to_owned(), shortest(release, &full).to_owned()))
            .collect();
        pairs.retain(|(full, shown)| full != shown);
        pairs.sort_by_key(|(full, _)| std::cmp::Reverse(full.len()));
        Releases { pairs }
    }

    /// Returns whether no release becomes shorter.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns a name, or a text with names in it, with the short form of every release.
    pub fn shorten(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('%').filter(|_| !self.is_empty()) {
            let (before, behind) = rest.split_at(at + 1);
            result.push_str(before);
            rest = behind;
            let end = behind
                .find(|c: char| !is_of_release(c))
                .unwrap_or(behind.len());
            let found = self
                .pairs
                .iter()
                .find(|(full, _)| behind[..end].trim_end_matches('.') == full);
            if let Some((full, shown)) = found {
                result.push_str(shown);
                rest = &behind[full.len()..];
            }
        }
        result + rest
    }

    /// Returns the facts of a run as texts that name each shortened release in full: in the fact on
    /// kernels if it has all of them, else at the end.
    pub(crate) fn explain(&self, facts: &[Fact]) -> Vec<String> {
        let mut explained = false;
        let mut texts: Vec<String> = Vec::new();
        for fact in facts {
            texts.push(match fact {
                Fact::Kernels(kernels)
                    if !self.is_empty()
                        && self.pairs.iter().all(|(full, _)| kernels.contains(full)) =>
                {
                    explained = true;
                    Fact::Kernels(
                        kernels
                            .iter()
                            .map(|kernel| {
                                match self.pairs.iter().find(|(full, _)| full == kernel) {
                                    Some((full, shown)) => format!("{full} (%{shown})"),
                                    None => kernel.clone(),
                                }
                            })
                            .collect(),
                    )
                    .to_text()
                }
                fact => fact.to_text(),
            });
        }
        if !explained {
            texts.extend(self.definitions());
        }
        texts
    }

    /// Returns a fact for each shortened release, such as `%6.1 is Linux 6.1.0-56-amd64`.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = String> {
        let pairs: BTreeSet<&(String, String)> = self.pairs.iter().collect();
        pairs
            .into_iter()
            .map(|(full, shown)| format!("%{shown} is Linux {full}"))
    }
}

/// A fact of a run, for one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Fact {
    /// The releases of the kernels.
    Kernels(Vec<String>),
    /// Any other fact.
    Text(String),
}

impl Fact {
    /// Returns the fact as text.
    pub fn to_text(&self) -> String {
        match self {
            Fact::Kernels(releases) => format!("Linux {}", releases.join(" and ")),
            Fact::Text(text) => text.clone(),
        }
    }
}

impl From<Fact> for String {
    fn from(fact: Fact) -> String {
        fact.to_text()
    }
}

/// Returns every `%RELEASE` of a name.
fn releases_in(name: &str) -> impl Iterator<Item = &str> {
    name.split('%').skip(1).filter_map(|behind| {
        let release = &behind[..behind
            .find(|c: char| !is_of_release(c))
            .unwrap_or(behind.len())];
        let is_release = release.starts_with(|c: char| c.is_ascii_digit()) && release.contains('.');
        is_release.then_some(release)
    })
}

fn is_of_release(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.+~".contains(c)
}

/// Returns the fewest leading parts, at least two, that no other release begins with.
fn shortest<'a>(release: &'a str, all: &[&str]) -> &'a str {
    let ends = release
        .char_indices()
        .filter(|(_, c)| "-_.+~".contains(*c))
        .map(|(at, _)| at)
        .skip(1);
    ends.map(|end| &release[..end])
        .find(|part| {
            all.iter().filter(|other| **other != release).all(|other| {
                other
                    .strip_prefix(part)
                    .is_none_or(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            })
        })
        .unwrap_or(release)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: &str = "ext4%6.1.0-56-amd64";
    const NEW: &str = "ext4%6.12.117+deb12-amd64";

    #[test]
    fn as_much_of_a_release_is_shown_as_tells_it_from_the_others() {
        for (names, shown) in [
            (&[OLD, NEW][..], &["ext4%6.1", "ext4%6.12"][..]),
            (
                &["a%6.1.0-55-amd64", "a%6.1.0-56-amd64"],
                &["a%6.1.0-55", "a%6.1.0-56"],
            ),
            (
                &["a%6.1.0-56-amd64", "a%6.1.0-56-cloud-amd64"],
                &["a%6.1.0-56-amd64", "a%6.1.0-56-cloud"],
            ),
            (
                &["a%6.1", "a%6.1.5", "a%6.1.50"],
                &["a%6.1", "a%6.1.5", "a%6.1.50"],
            ),
            (&["old/xfs%6.1.0-56-amd64"], &["old/xfs%6.1"]),
            (
                &["ext4,x=5%", "xfs,x=50%,y", "a%b"],
                &["ext4,x=5%", "xfs,x=50%,y", "a%b"],
            ),
        ] {
            let releases = Releases::from_names(names.iter().copied());
            let found: Vec<String> = names.iter().map(|name| releases.shorten(name)).collect();
            assert_eq!(found, shown);
        }
    }

    #[test]
    fn sentences_lose_nothing_else() {
        let releases = Releases::from_names([OLD, NEW]);
        let text = format!("+3 % against {OLD}. {NEW}: 4; {NEW}#2, 95 % of {OLD}");
        assert_eq!(
            releases.shorten(&text),
            "+3 % against ext4%6.1. ext4%6.12: 4; ext4%6.12#2, 95 % of ext4%6.1"
        );
        // A name that only begins like one that is shown in part stays.
        assert_eq!(
            releases.shorten("ext4%6.1.0-56-amd64-more"),
            "ext4%6.1.0-56-amd64-more"
        );
    }

    #[test]
    fn the_whole_release_is_told_once() {
        let releases = Releases::from_names([OLD, NEW]);
        let text = |text: &str| Fact::Text(text.to_owned());
        let kernels = |kernels: &[&str]| {
            Fact::Kernels(kernels.iter().map(|kernel| (*kernel).to_owned()).collect())
        };
        let (old, new) = ("6.1.0-56-amd64", "6.12.117+deb12-amd64");
        let facts = releases.explain(&[text("vm"), kernels(&[old, "6.5", new])]);
        assert_eq!(
            facts,
            [
                "vm",
                "Linux 6.1.0-56-amd64 (%6.1) and 6.5 and 6.12.117+deb12-amd64 (%6.12)"
            ]
        );
        let definitions = [
            "%6.1 is Linux 6.1.0-56-amd64",
            "%6.12 is Linux 6.12.117+deb12-amd64",
        ];
        assert_eq!(releases.explain(&[text("3 blocks")])[1..], definitions);
        assert_eq!(releases.explain(&[kernels(&[old])])[1..], definitions);
        // Only data name kernels.
        assert_eq!(
            releases.explain(&[text("Linux 6.1.0-56-amd64 and 6.12.117+deb12-amd64")])[1..],
            definitions
        );
        let facts = Releases::from_names(["ext4", "xfs"])
            .explain(&[text("xfs: iozone"), kernels(&["6.1"])]);
        assert_eq!(facts, ["xfs: iozone", "Linux 6.1"]);
    }

    proptest! {
        #[test]
        fn kernels_that_differ_look_different(
            releases in proptest::collection::btree_set("[1-9]\\.[0-9]{1,2}(\\.[0-9]{1,3}(-[0-9]{1,2}(-[a-z]{1,4})?)?)?", 1..6)
        ) {
            let names: Vec<String> = releases.iter().map(|release| format!("ext4%{release}")).collect();
            let short = Releases::from_names(names.iter().map(String::as_str));
            let shown: std::collections::BTreeSet<String> = names.iter().map(|name| short.shorten(name)).collect();
            prop_assert_eq!(shown.len(), names.len());
            for name in &names {
                prop_assert!(name.starts_with(&short.shorten(name)));
            }
        }
    }
}
