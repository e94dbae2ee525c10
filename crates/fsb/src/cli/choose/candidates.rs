//! Candidates of a race: the name of a file system means its defaults and all its curated options; a target with
//! options is one candidate.

use fsb_model::race::{Candidate, Refused};
use fsb_model::{FileSystemSpec, Target, TargetKind};
use fsb_testbed::doctor;
use fsb_testbed::fs::{self, Choice, FileSystem};

use crate::{code, exit};

/// A target with its description.
#[derive(Debug, Clone)]
pub struct Raced {
    pub target: Target,
    pub beside: Candidate,
    /// The option that it adds to a file system's defaults, if it adds exactly one of the list.
    pub choice: Option<&'static Choice>,
}

/// Returns all candidates of the arguments, the baseline first, and named targets that do not race because they are
/// unsafe. Without `risky`, unsafe and otherwise risky options do not take part. With `only`, the name of a file system
/// means one candidate: its defaults.
pub fn all(arguments: &[String], risky: bool, only: bool) -> anyhow::Result<(Vec<Raced>, Vec<Refused>)> {
    let here = of_this_machine();
    let arguments = if arguments.is_empty() { &here } else { arguments };
    if arguments.is_empty() {
        return Err(exit::failure(
            &code::UNABLE,
            "this machine can format no file system that has options to choose from: see 'fsb doctor'",
        ));
    }
    let mut raced: Vec<Raced> = Vec::new();
    let mut refused: Vec<Refused> = Vec::new();
    for argument in arguments {
        for one in of(argument, risky, only)? {
            let unsafe_by = one.target.file_system().map(fs::requested_risks).unwrap_or_default();
            if let Some(risk) = unsafe_by.first().filter(|_| !risky) {
                let why = format!("unsafe: {} ({}); --risky lets it race", risk.loss, risk.cause);
                refused.push(Refused { name: one.target.name, why });
            } else if !raced.iter().any(|known| known.target.kind == one.target.kind) {
                raced.push(one);
            }
        }
    }
    Ok((raced, refused))
}

/// Returns the file systems with a list of options that this machine can make and mount; the commonest baseline first.
fn of_this_machine() -> Vec<String> {
    let here = doctor::file_systems();
    let is_here = |fs: &&&dyn FileSystem| here.iter().any(|known| known.name == fs.name() && known.is_here());
    let listed = fs::REGISTRY.iter().filter(|fs| !fs.choices().is_empty());
    let mut names: Vec<String> = listed.filter(is_here).map(|fs| fs.name().to_owned()).collect();
    // The best-known file system has the longest list.
    names.sort_by_key(|name| std::cmp::Reverse(fs::find(name).map_or(0, |fs| fs.choices().len())));
    names
}

fn of(argument: &str, risky: bool, only: bool) -> anyhow::Result<Vec<Raced>> {
    let target: Target = argument.parse::<Target>()?;
    let TargetKind::FileSystem(spec) = &target.kind else {
        return Err(exit::failure(
            &code::NOT_RACED,
            format!(
                "{argument}: a directory has no options to choose from: name a file system such as ext4, or use \
                fsb run {argument}"
            ),
        ));
    };
    let member = fs::find(&spec.fs)?;
    let is_bare = spec.options.is_empty() && spec.mkfs.is_empty();
    let why = if is_bare { "its defaults" } else { "as named" };
    let risk = fs::requested_risks(spec).into_iter().next().map(|risk| risk.loss);
    let own = Raced { beside: Candidate { why: why.to_owned(), risk }, target: target.clone(), choice: None };
    if !is_bare || only {
        return Ok(vec![own]);
    }
    let offered = member.choices().iter().filter(|choice| risky || fs::risk_of_choice(member, choice).is_none());
    Ok(std::iter::once(own).chain(offered.map(|choice| with(member, spec, &[choice]))).collect())
}

/// Returns a file system with these options in addition to its defaults.
pub fn with(member: &'static dyn FileSystem, spec: &FileSystemSpec, choices: &[&'static Choice]) -> Raced {
    let mut spec = spec.clone();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for choice in choices {
        spec.options.extend(owned(choice.mount));
        spec.mkfs.extend(owned(choice.mkfs));
    }
    let risk = choices.iter().find_map(|choice| fs::risk_of_choice(member, choice));
    let why = choices.iter().map(|choice| choice.why).collect::<Vec<_>>().join("; ");
    let beside = Candidate { why, risk };
    let kind = TargetKind::FileSystem(spec);
    let mut target = Target { name: String::new(), kind, controls: Default::default(), kernel: None, optional: false };
    // Its own text is the name, so that users can type it again.
    target.name = "x".to_owned();
    let text = target.to_string();
    target.name = text.strip_prefix("x=").unwrap_or(&text).to_owned();
    Raced { target, beside, choice: if let [choice] = choices { Some(*choice) } else { None } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str], risky: bool) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        all(&arguments, risky, false).unwrap().0.into_iter().map(|raced| raced.target.name).collect()
    }

    #[test]
    fn a_name_stands_for_all_its_options_and_a_target_for_itself() {
        let found = names(&["ext4", "xfs,noatime", "ext4,noatime"], false);
        assert_eq!(found[0], "ext4");
        assert_eq!(found.iter().filter(|name| *name == "ext4,noatime").count(), 1);
        assert!(found.contains(&"ext4,mkfs=\"-O fast_commit\"".to_owned()), "{found:?}");
        assert!(found.contains(&"xfs,noatime".to_owned()) && !found.contains(&"xfs".to_owned()));
        assert!(!found.iter().any(|name| name.contains("barrier")), "{found:?}");
        assert!(names(&["ext4"], true).contains(&"ext4,barrier=0".to_owned()));
    }

    #[test]
    fn an_unsafe_target_races_only_if_risk_is_accepted_and_then_carries_it() {
        let arguments = ["xfs".to_owned(), "ext4,barrier=0".to_owned()];
        let (raced, refused) = all(&arguments, false, false).unwrap();
        assert!(!raced.iter().any(|raced| raced.target.name.starts_with("ext4")));
        assert_eq!(refused.len(), 1);
        let why = "unsafe: a power failure may lose synced data (barrier=0); --risky lets it race";
        assert_eq!((refused[0].name.as_str(), refused[0].why.as_str()), ("ext4,barrier=0", why));
        let (raced, refused) = all(&arguments, true, false).unwrap();
        let named = raced.iter().find(|raced| raced.target.name == "ext4,barrier=0").unwrap();
        assert_eq!(named.beside.risk.as_deref(), Some("a power failure may lose synced data"));
        assert!(refused.is_empty());
    }

    #[test]
    fn every_name_is_its_target() {
        for member in fs::REGISTRY {
            for raced in of(member.name(), true, false).unwrap() {
                let again: Target = raced.target.name.parse().unwrap();
                assert_eq!(again.kind, raced.target.kind, "{}", raced.target.name);
            }
        }
    }

    #[test]
    fn only_the_targets_that_are_named_race_where_that_is_asked_for() {
        let named = ["ext4".to_owned(), "ext4,noatime".to_owned()];
        assert_eq!(all(&named, false, true).unwrap().0.len(), 2);
    }
}
