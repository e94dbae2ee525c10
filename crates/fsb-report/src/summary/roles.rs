//! Roles of machines: the cases of a run that resemble a role's work, what they show, and the suite
//! that emulates it.

use fsb_model::{Params, shell};
use fsb_stats::RankingOutcome;

use super::model::{Numbers, Workload};
use super::risks;
use super::trial_value::is_durable;
use crate::answer::resolution_text;

/// A role of a machine.
#[derive(Debug)]
pub struct Role {
    /// The name: `mail server`.
    pub machine: &'static str,
    /// The suite that emulates its work.
    pub suite: &'static str,
    /// The preset that measures the work of a program.
    pub preset: &'static str,
    /// Whether a workload resembles its work, by the resolved parameters.
    resembles: fn(&Params) -> bool,
}

/// All roles. Their suites are the runner's; a test of the program compares both.
pub static ROLES: &[Role] = &[
    Role {
        machine: "mail server",
        suite: "varmail",
        preset: "mail",
        resembles: |params| match word(params, "name") {
            "create" | "delete" => is_durable(params),
            "append" => word(params, "durability") == "each",
            _ => false,
        },
    },
    Role {
        machine: "database",
        suite: "oltp",
        preset: "postgresql",
        resembles: |params| match word(params, "name") {
            "write" => word(params, "access") == "random" && word(params, "durability") == "each",
            "read" => word(params, "access") == "random" && word(params, "cache") == "cold",
            "append" => word(params, "durability") == "each",
            _ => false,
        },
    },
    Role {
        machine: "build machine",
        suite: "untar-build",
        preset: "build",
        resembles: |params| match word(params, "name") {
            "scan" | "delete" => true,
            "create" => number(params, "threads") > 1,
            "read" => number(params, "files") > 1,
            _ => false,
        },
    },
];

/// Returns the roles whose work a workload with these parameters resembles, by their machines.
pub(crate) fn resembled(params: &Params) -> Vec<&'static str> {
    ROLES
        .iter()
        .filter(|role| (role.resembles)(params))
        .map(|role| role.machine)
        .collect()
}

fn word<'p>(params: &'p Params, name: &str) -> &'p str {
    params
        .get(name)
        .and_then(|value| value.as_str())
        .unwrap_or_default()
}

fn number(params: &Params, name: &str) -> u64 {
    params
        .get(name)
        .and_then(|value| value.as_u64())
        .unwrap_or_default()
}

/// Returns one or two sentences for each role; none if no case resembles the work of any.
pub(crate) fn lines(summary: &Numbers) -> Vec<String> {
    if !summary.compares() || summary.blocks == 0 {
        return Vec::new();
    }
    let found: Vec<Option<String>> = ROLES.iter().map(|role| results(summary, role)).collect();
    if found.iter().all(Option::is_none) {
        return Vec::new();
    }
    let line = |(role, found): (&Role, Option<String>)| {
        let measured = summary.suite == role.preset;
        let emulated = summary.suite == role.suite;
        let here = match &found {
            Some(found) if measured => format!("this run used its preset: {found}."),
            Some(found) if emulated => format!("this run emulated its work: {found}."),
            Some(found) => format!("among the workloads that resemble its work, {found}."),
            None => "no workload of this run resembles its work.".to_owned(),
        };
        let targets = targets(summary);
        let preset = (!measured).then(|| {
            format!(
                " A preset: sudo fsb run {targets} --preset {}.",
                role.preset
            )
        });
        let suite = (!emulated && !measured).then(|| {
            format!(
                " An emulation: sudo fsb run {targets} --suite {}",
                role.suite
            )
        });
        format!(
            "A {}: {here}{}{}",
            role.machine,
            preset.unwrap_or_default(),
            suite.unwrap_or_default()
        )
    };
    ROLES.iter().zip(found).map(line).collect()
}

/// `xfs is fastest at append 4K, durable each; no difference larger than 6 % at random read 4K,
/// cold`.
fn results(summary: &Numbers, role: &Role) -> Option<String> {
    let is_whole = [role.suite, role.preset].contains(&summary.suite.as_str());
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for case in summary
        .cases
        .iter()
        .filter(|case| is_whole || case.roles.contains(&role.machine))
    {
        let said = outcome(summary, case);
        match groups.iter_mut().find(|(known, _)| *known == said) {
            Some((_, cases)) => cases.push(case.workload.clone()),
            None => groups.push((said, vec![case.workload.clone()])),
        }
    }
    let groups = groups
        .iter()
        .map(|(said, cases)| format!("{said} at {}", cases.join("; at ")));
    let said: Vec<String> = groups.collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn outcome(summary: &Numbers, case: &Workload) -> String {
    let names = |targets: &[usize]| risks::names(summary, targets);
    match (&case.ranking.outcome, case.resolution) {
        (RankingOutcome::Winner(target), _) => format!("{} is fastest", names(&[*target])),
        (RankingOutcome::Tie(tied), Some(found)) => {
            format!("{} are {}", names(tied), resolution_text(found))
        }
        (RankingOutcome::Undecided(open), Some(found)) => {
            format!("{} between {}", resolution_text(found), names(open))
        }
        (RankingOutcome::Tie(targets) | RankingOutcome::Undecided(targets), None) => {
            format!("{} are not significantly different", names(targets))
        }
        (RankingOutcome::NotJudged, _) => "nothing is judged".to_owned(),
        (RankingOutcome::Alone(_) | RankingOutcome::Nothing, _) => {
            "there is nothing to compare".to_owned()
        }
    }
}

/// Returns the targets of this run on the usual medium, as a shell takes them.
fn targets(summary: &Numbers) -> String {
    // A target on several kernels is one target here.
    let mut targets: Vec<String> = summary
        .targets
        .iter()
        .map(|target| shell::word(target.what.split('%').next().unwrap_or(&target.what)))
        .collect();
    targets.dedup();
    targets.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    #[test]
    fn each_role_gets_the_results_of_its_rows_and_a_command() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 10);
        let lines = lines(&Summary::of_run(&record, &trials));
        assert_eq!(lines.len(), ROLES.len(), "{lines:?}");
        for (line, role) in lines.iter().zip(ROLES) {
            assert!(
                line.starts_with(&format!(
                    "A {}: among the workloads that resemble its work, ",
                    role.machine
                )),
                "{line}"
            );
            assert!(
                line.ends_with(&format!("sudo fsb run ext4 xfs --suite {}", role.suite)),
                "{line}"
            );
        }
        assert!(
            lines[0].contains("append 4K, durable each") && !lines[0].contains("read 1M"),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].contains("random write 4K, durable each"),
            "{}",
            lines[1]
        );
        assert!(lines[2].contains("read 4K files, cold"), "{}", lines[2]);
    }

    #[test]
    fn a_preset_comes_before_an_emulation() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
        let database =
            |record: &fsb_model::RunRecord| lines(&Summary::of_run(record, &trials))[1].clone();
        let line = database(&record);
        let real = line
            .find("A preset: sudo fsb run ext4 xfs --preset postgresql.")
            .unwrap();
        assert!(real < line.find("An emulation: ").unwrap(), "{line}");
        record.plan.name = "oltp".to_owned();
        let line = database(&record);
        assert!(
            line.starts_with("A database: this run emulated its work: ")
                && line.contains("--preset postgresql"),
            "{line}"
        );
        record.plan.name = "postgresql".to_owned();
        let line = database(&record);
        assert!(
            line.starts_with("A database: this run used its preset: "),
            "{line}"
        );
        assert!(
            !line.contains("oltp") && !line.contains("--preset"),
            "{line}"
        );
    }

    #[test]
    fn a_run_of_the_work_itself_says_so() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
        record.plan.name = "varmail".to_owned();
        let lines = lines(&Summary::of_run(&record, &trials));
        assert!(
            lines[0].starts_with("A mail server: this run emulated its work: "),
            "{}",
            lines[0]
        );
        assert!(!lines[0].contains("--suite"), "{}", lines[0]);
    }

    #[test]
    fn a_label_of_the_user_changes_no_role() {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 10);
        let renamed = |label: &str| {
            if label == "append 4K, durable each" {
                "log".to_owned()
            } else {
                label.to_owned()
            }
        };
        record
            .cells
            .iter_mut()
            .for_each(|cell| cell.label = renamed(&cell.label));
        trials
            .iter_mut()
            .for_each(|trial| trial.workload = renamed(&trial.workload));
        let lines = lines(&Summary::of_run(&record, &trials));
        assert!(
            lines[0].contains("at log") && lines[1].contains("at log"),
            "{lines:?}"
        );
        let plain = Params::from([
            ("name".to_owned(), "write".into()),
            ("label".to_owned(), "durable each".into()),
        ]);
        assert_eq!(resembled(&plain), [""; 0]);
    }
}
