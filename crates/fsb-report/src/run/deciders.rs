//! Who decides for a machine asks by its name: which rows of a run tell something of its work, what they say, and which
//! suite does that work.

use fsb_analysis::Outcome;
use fsb_model::shell;

use super::summary::{Summary, Workload};
use super::{resolution, risks};

/// A kind of machine.
#[derive(Debug)]
pub struct Decider {
    /// As people call it.
    pub machine: &'static str,
    /// The suite of its work.
    pub suite: &'static str,
    /// Whether a row is part of its work, too: by what it does and what it is called.
    resembles: fn(&str, &str) -> bool,
}

/// Those that ask most often. Their suites are the runner's; a test of the program compares both.
pub static DECIDERS: &[Decider] = &[
    Decider {
        machine: "mail server",
        suite: "varmail",
        resembles: |operation, label| {
            ["create", "delete"].contains(&operation) && label.ends_with("durable")
                || operation == "append" && label.contains("durable each")
        },
    },
    Decider {
        machine: "database",
        suite: "oltp",
        resembles: |operation, label| {
            label.starts_with("random write") && label.contains("durable each")
                || label.starts_with("random read") && label.contains("cold")
                || operation == "append" && label.contains("durable each")
        },
    },
    Decider {
        machine: "build machine",
        suite: "untar-build",
        resembles: |operation, label| {
            operation == "scan"
                || operation == "create" && label.contains("threads")
                || ["read", "delete"].contains(&operation) && label.contains(" files")
        },
    },
];

/// What is said to each, a sentence or two; nothing where no row resembles anybody's work.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    if !summary.compares() || summary.blocks == 0 {
        return Vec::new();
    }
    let said: Vec<Option<String>> = DECIDERS.iter().map(|decider| here(summary, decider)).collect();
    if said.iter().all(Option::is_none) {
        return Vec::new();
    }
    let line = |(decider, said): (&Decider, Option<String>)| {
        let own = summary.suite == decider.suite;
        let here = match (&said, own) {
            (Some(said), true) => format!("this run did its work: {said}."),
            (Some(said), false) => format!("of what resembles its work, {said}."),
            (None, _) => "this run did nothing that resembles its work.".to_owned(),
        };
        let next = if own { String::new() } else { format!(" Its work itself: {}", command(summary, decider)) };
        format!("A {}: {here}{next}", decider.machine)
    };
    DECIDERS.iter().zip(said).map(line).collect()
}

/// `xfs is fastest at append 4K, durable each; no difference larger than 6 % at random read 4K, cold`.
fn here(summary: &Summary, decider: &Decider) -> Option<String> {
    let is_told =
        |row: &&Workload| summary.suite == decider.suite || (decider.resembles)(&row.operation, &row.workload);
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for row in summary.rows.iter().filter(is_told) {
        let said = outcome(summary, row);
        match groups.iter_mut().find(|(known, _)| *known == said) {
            Some((_, rows)) => rows.push(row.workload.clone()),
            None => groups.push((said, vec![row.workload.clone()])),
        }
    }
    let groups = groups.iter().map(|(said, rows)| format!("{said} at {}", rows.join("; at ")));
    let said: Vec<String> = groups.collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn outcome(summary: &Summary, row: &Workload) -> String {
    let names = |targets: &[usize]| risks::names(summary, targets);
    match (&row.ranking.outcome, row.resolution) {
        (Outcome::Winner(target), _) => format!("{} is fastest", names(&[*target])),
        (Outcome::Tie(tied), Some(found)) => format!("{} are {}", names(tied), resolution::words(found)),
        (Outcome::Undecided(open), Some(found)) => format!("{} between {}", resolution::words(found), names(open)),
        (Outcome::Tie(targets) | Outcome::Undecided(targets), None) => {
            format!("{} are not significantly different", names(targets))
        }
        (Outcome::NotJudged, _) => "nothing is judged".to_owned(),
        (Outcome::Alone(_) | Outcome::Nothing, _) => "there is nothing to compare".to_owned(),
    }
}

/// What a shell takes, with the targets of this run on the usual medium.
fn command(summary: &Summary, decider: &Decider) -> String {
    // A target on several kernels is one target here.
    let of_target = |text: &str| shell::word(text.split('%').next().unwrap_or(text));
    let mut targets: Vec<String> = summary.targets.iter().map(|target| of_target(&target.what)).collect();
    targets.dedup();
    format!("sudo fsb run {} --suite {}", targets.join(" "), decider.suite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_decider_is_told_what_the_rows_say_and_what_to_run() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 10);
        let lines = lines(&Summary::of_run(&record, &trials));
        assert_eq!(lines.len(), DECIDERS.len(), "{lines:?}");
        for (line, decider) in lines.iter().zip(DECIDERS) {
            assert!(line.starts_with(&format!("A {}: of what resembles its work, ", decider.machine)), "{line}");
            assert!(line.ends_with(&format!("sudo fsb run ext4 xfs --suite {}", decider.suite)), "{line}");
        }
        assert!(lines[0].contains("append 4K, durable each") && !lines[0].contains("read 1M"), "{}", lines[0]);
        assert!(lines[1].contains("random write 4K, durable each"), "{}", lines[1]);
        assert!(lines[2].contains("read 4K files, cold"), "{}", lines[2]);
    }

    #[test]
    fn a_run_of_the_work_itself_says_so() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
        record.plan.name = "varmail".to_owned();
        let lines = lines(&Summary::of_run(&record, &trials));
        assert!(lines[0].starts_with("A mail server: this run did its work: "), "{}", lines[0]);
        assert!(!lines[0].contains("--suite"), "{}", lines[0]);
    }
}
