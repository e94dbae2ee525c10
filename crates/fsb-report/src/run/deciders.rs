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
    /// The suite that emulates its work.
    pub suite: &'static str,
    /// The real program, if a plan measures it.
    pub program: Option<Program>,
    /// Whether a row is part of its work, too: by what it does and what it is called.
    resembles: fn(&str, &str) -> bool,
}

/// A plan that measures a real program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The plan's name, without its ending.
    pub plan: &'static str,
    /// The command that must be installed.
    pub command: &'static str,
}

/// Those that ask most often. Their suites are the runner's; a test of the program compares both.
pub static DECIDERS: &[Decider] = &[
    Decider {
        machine: "mail server",
        suite: "varmail",
        program: None,
        resembles: |operation, label| {
            ["create", "delete"].contains(&operation) && label.ends_with("durable")
                || operation == "append" && label.contains("durable each")
        },
    },
    Decider {
        machine: "database",
        suite: "oltp",
        program: Some(Program { plan: "postgresql", command: "pgbench" }),
        resembles: |operation, label| {
            label.starts_with("random write") && label.contains("durable each")
                || label.starts_with("random read") && label.contains("cold")
                || operation == "append" && label.contains("durable each")
        },
    },
    Decider {
        machine: "build machine",
        suite: "untar-build",
        program: Some(Program { plan: "build", command: "make" }),
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
        let measured = decider.program.is_some_and(|program| summary.suite == program.plan);
        let emulated = summary.suite == decider.suite;
        let here = match &said {
            Some(said) if measured => format!("this run measured a real one: {said}."),
            Some(said) if emulated => format!("this run emulated its work: {said}."),
            Some(said) => format!("of what resembles its work, {said}."),
            None => "this run did nothing that resembles its work.".to_owned(),
        };
        let targets = targets(summary);
        let program = decider.program.filter(|_| !measured).map(|Program { plan, command }| {
            format!(" A real one, if {command} is installed: sudo fsb run {targets} {plan}.toml.")
        });
        let suite = (!emulated && !measured)
            .then(|| format!(" An emulation: sudo fsb run {targets} --suite {}", decider.suite));
        format!("A {}: {here}{}{}", decider.machine, program.unwrap_or_default(), suite.unwrap_or_default())
    };
    DECIDERS.iter().zip(said).map(line).collect()
}

/// `xfs is fastest at append 4K, durable each; no difference larger than 6 % at random read 4K, cold`.
fn here(summary: &Summary, decider: &Decider) -> Option<String> {
    let is_whole =
        decider.suite == summary.suite || decider.program.is_some_and(|program| program.plan == summary.suite);
    let is_told = |row: &&Workload| is_whole || (decider.resembles)(&row.operation, &row.workload);
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

/// The targets of this run on the usual medium, as a shell takes them.
fn targets(summary: &Summary) -> String {
    // A target on several kernels is one target here.
    let of_target = |text: &str| shell::word(text.split('%').next().unwrap_or(text));
    let mut targets: Vec<String> = summary.targets.iter().map(|target| of_target(&target.what)).collect();
    targets.dedup();
    targets.join(" ")
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
    fn a_real_program_comes_before_its_emulation() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
        let database = |record: &fsb_model::RunRecord| lines(&Summary::of_run(record, &trials))[1].clone();
        let line = database(&record);
        let real = line.find("A real one, if pgbench is installed: sudo fsb run ext4 xfs postgresql.toml.").unwrap();
        assert!(real < line.find("An emulation: ").unwrap(), "{line}");
        record.plan.name = "oltp".to_owned();
        let line = database(&record);
        assert!(
            line.starts_with("A database: this run emulated its work: ") && line.contains("postgresql.toml"),
            "{line}"
        );
        record.plan.name = "postgresql".to_owned();
        let line = database(&record);
        assert!(line.starts_with("A database: this run measured a real one: "), "{line}");
        assert!(!line.contains("oltp") && !line.contains("pgbench"), "{line}");
    }

    #[test]
    fn a_run_of_the_work_itself_says_so() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
        record.plan.name = "varmail".to_owned();
        let lines = lines(&Summary::of_run(&record, &trials));
        assert!(lines[0].starts_with("A mail server: this run emulated its work: "), "{}", lines[0]);
        assert!(!lines[0].contains("--suite"), "{}", lines[0]);
    }
}
