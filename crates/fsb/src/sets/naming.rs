//! Names of sets: the given ones, and for the others the shortest unique end of their path.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use crate::{code, exit};

/// A set that needs a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// Possible names, the best first; only one if the user gave it.
    pub(super) names: Vec<String>,
    /// The argument that it came from, for messages.
    pub(super) argument: String,
}

impl Wish {
    /// Returns the wish for a given name.
    pub(super) fn given(name: String, argument: String) -> Wish {
        Wish { names: vec![name], argument }
    }

    /// Returns the ends of a path: `xfs`, else `old/xfs`, else `2010/old/xfs`.
    pub(super) fn derived(path: &Path, argument: String) -> Wish {
        let mut parts: Vec<String> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect();
        parts.reverse();
        let join = |n: usize| parts[..n].iter().rev().map(String::as_str).collect::<Vec<_>>().join("/");
        // The root directory has only one name.
        let names =
            if parts.is_empty() { vec![path.display().to_string()] } else { (1..=parts.len()).map(join).collect() };
        Wish { names, argument }
    }

    /// Returns the names of a target of a run directory: `ext4`, else `new/ext4`, else `results/new/ext4`.
    pub(super) fn target(directory: &Path, target: &str, argument: String) -> Wish {
        let mut wish = Wish::derived(directory, argument);
        wish.names.iter_mut().for_each(|name| *name = format!("{name}/{target}"));
        wish.names.insert(0, target.to_owned());
        wish
    }
}

/// Chooses the names. Two sets with the same name take longer ones, if they have any.
pub(super) fn settle(wishes: &[Wish]) -> anyhow::Result<Vec<String>> {
    let mut length = vec![0; wishes.len()];
    loop {
        let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (set, wish) in wishes.iter().enumerate() {
            holders.entry(&wish.names[length[set]]).or_default().push(set);
        }
        let Some(rivals) = holders.values().find(|rivals| rivals.len() > 1) else {
            return Ok(wishes.iter().zip(&length).map(|(wish, length)| wish.names[*length].clone()).collect());
        };
        let movable: Vec<usize> =
            rivals.iter().copied().filter(|set| length[*set] + 1 < wishes[*set].names.len()).collect();
        if movable.is_empty() {
            return Err(exit::failure(&code::INVALID_SET, twice(&wishes[rivals[0]], &wishes[rivals[1]])));
        }
        movable.into_iter().for_each(|set| length[set] += 1);
    }
}

fn twice(one: &Wish, other: &Wish) -> String {
    format!(
        "two sets are named '{}' ({} and {}): give each a name of its own (NAME=PATH), or make them one set, with \
         its paths separated by commas (NAME=PATH,PATH)",
        one.names[0], one.argument, other.argument
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(path: &str) -> Wish {
        Wish::derived(Path::new(path), path.to_owned())
    }

    #[test]
    fn the_shortest_end_that_is_unique_is_the_name() {
        let wishes = [derived("a/x/ext4"), derived("b/x/ext4"), derived("/c/xfs"), derived("ext4")];
        assert_eq!(settle(&wishes).unwrap(), ["a/x/ext4", "b/x/ext4", "xfs", "ext4"]);
        assert_eq!(settle(&[derived("a/x"), derived("b/x")]).unwrap(), ["a/x", "b/x"]);
        assert_eq!(settle(&[derived("/")]).unwrap(), ["/"]);
        let target = |run: &str| Wish::target(Path::new(run), "ext4", run.to_owned());
        assert_eq!(settle(&[target("old"), target("new"), derived("xfs")]).unwrap(), ["old/ext4", "new/ext4", "xfs"]);
        assert_eq!(settle(&[target("old")]).unwrap(), ["ext4"]);
    }

    #[test]
    fn a_given_name_stays_and_the_derived_one_gives_way() {
        let given = Wish::given("ext4".to_owned(), "ext4=a".to_owned());
        assert_eq!(settle(&[given.clone(), derived("b/ext4")]).unwrap(), ["ext4", "b/ext4"]);
        let error = settle(&[given.clone(), given]).unwrap_err().to_string();
        assert!(error.contains("two sets are named 'ext4'"), "{error}");
        assert!(settle(&[derived("a/x"), derived("a/x")]).is_err());
    }
}
