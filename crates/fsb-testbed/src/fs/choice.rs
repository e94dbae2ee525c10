//! Options of a file system that are worth a race: a curated list beside each member.

/// An option, or a few that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Mount options, as `mount -o` takes them.
    pub mount: &'static [&'static str],
    /// Arguments for the mkfs program.
    pub mkfs: &'static [&'static str],
    /// Why it may be faster, in a line.
    pub why: &'static str,
    /// The loss that the defaults avoid, in a line, beside the file system's hazards; such an option is raced only
    /// where that is asked for ([`risk_of_choice`](crate::fs::risk_of_choice)).
    pub risk: Option<&'static str>,
    /// Options of one sort exclude each other; absent where it goes with all others.
    pub sort: Option<&'static str>,
}

impl Choice {
    /// A mount option.
    pub(super) const fn mount(mount: &'static [&'static str], why: &'static str) -> Choice {
        Choice { mount, mkfs: &[], why, risk: None, sort: None }
    }

    /// What is decided when it is made.
    pub(super) const fn mkfs(mkfs: &'static [&'static str], why: &'static str) -> Choice {
        Choice { mount: &[], mkfs, why, risk: None, sort: None }
    }

    /// What may be lost with it.
    pub(super) const fn risky(self, risk: &'static str) -> Choice {
        Choice { risk: Some(risk), ..self }
    }

    /// What it excludes.
    pub(super) const fn sort(self, sort: &'static str) -> Choice {
        Choice { sort: Some(sort), ..self }
    }
}

#[cfg(test)]
mod tests {
    use crate::fs::REGISTRY;

    #[test]
    fn choices_are_told_apart_and_say_why() {
        for member in REGISTRY {
            let mut known = std::collections::BTreeSet::new();
            for choice in member.choices() {
                let name = member.name();
                assert!(known.insert((choice.mount, choice.mkfs)), "{name}: {choice:?} twice");
                assert!(!choice.mount.is_empty() || !choice.mkfs.is_empty(), "{name}: {choice:?}");
                let lines = [Some(choice.why), choice.risk];
                for line in lines.into_iter().flatten() {
                    assert!((10..=70).contains(&line.chars().count()), "{name}: '{line}'");
                }
            }
        }
    }

    /// What a power failure may take that was promised to be there is a risk.
    #[test]
    fn barriers_and_checks_that_are_off_are_risky() {
        let dangerous = ["nobarrier", "barrier=0", "async_commit", "nodatasum", "nolog", "norecovery"];
        for member in REGISTRY {
            for choice in member.choices() {
                let words = choice.mount.iter().chain(choice.mkfs);
                let is_dangerous = words.into_iter().any(|word| dangerous.iter().any(|bad| word.contains(bad)));
                let risk = crate::fs::risk_of_choice(*member, choice);
                assert!(!is_dangerous || risk.is_some(), "{}: {choice:?}", member.name());
            }
        }
    }
}
