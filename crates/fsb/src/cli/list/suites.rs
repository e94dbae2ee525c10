//! The suites, each with the time that it takes and the kind of machine that it emulates.

use std::time::Duration;

use fsb_model::Repetition;
use fsb_model::units::show_duration;
use fsb_report::run::{Program, ROLES};
use fsb_report::show::entry;
use fsb_runner::plan_file::{PlanFile, typed};
use fsb_runner::schedule::{self, Expected};
use fsb_runner::suite::{REGISTRY, Suite};
use fsb_testbed::doctor;

use crate::coordinator;

/// Two file systems that most machines can make.
const TARGETS: [&str; 2] = ["ext4", "xfs"];

/// Returns the text of `fsb list suites` in lines of at most `columns` columns.
pub(super) fn text(columns: usize) -> String {
    let times: Vec<String> = REGISTRY.iter().map(time).collect();
    let name = REGISTRY.iter().map(|suite| suite.name.len()).max().unwrap_or(0);
    let time = times.iter().map(|time| time.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (suite, took) in REGISTRY.iter().zip(&times) {
        text += &entry(&format!("{:name$}  {took:time$}  ", suite.name), suite.about, columns);
        text.push('\n');
    }
    text.push('\n');
    let machines = || REGISTRY.iter().filter_map(|suite| Some((suite.machine?, suite.name)));
    let widest = machines().map(|(machine, _)| machine.len()).max().unwrap_or(0);
    let targets = TARGETS.join(" ");
    for (machine, suite) in machines() {
        let emulation = format!("fsb run {targets} --suite {suite}  # an emulation");
        let commands = match program_of(machine) {
            None => vec![emulation],
            Some((Program { plan, .. }, true)) => vec![format!("fsb run {targets} {plan}.toml"), emulation],
            Some((Program { plan, command }, false)) => {
                vec![emulation, format!("fsb run {targets} {plan}.toml  # needs {command}, which is not installed")]
            }
        };
        let mut asked = format!("A {machine}?");
        for command in commands {
            let head = std::mem::take(&mut asked);
            text += &(entry(&format!("{head:0$}  ", widest + 3), &command, columns) + "\n");
        }
    }
    text.push('\n');
    text += &entry(
        "",
        "Times are for two file systems. 'Up to' is the budget: --budget changes it, and fsb prints the workloads \
         that it leaves out. 'About' is the time of five blocks: --budget 10m chooses the workloads that fit ten \
         minutes, and --scale 1/8 makes all files smaller. Plans measure more: 'fsb list plans'.",
        columns,
    );
    text.push('\n');
    text
}

/// Returns the real program of a kind of machine, and whether it is installed.
fn program_of(machine: &str) -> Option<(Program, bool)> {
    let program = ROLES.iter().find(|role| role.machine == machine)?.program?;
    Some((program, doctor::has_program(program.command)))
}

/// Returns the description of one suite, with its time and its machine.
pub(super) fn about(suite: &Suite) -> String {
    let machine = suite.machine.map(|machine| format!(" It emulates the work of a {machine}.")).unwrap_or_default();
    format!("{}{machine} Two file systems take {}.", suite.about, time(suite))
}

/// Returns the suite for a kind of machine as a user names it: `mail`, `a mail server?`.
pub(super) fn of_machine(name: &str) -> Option<&'static str> {
    let wanted = name.trim_start_matches("a ").trim_end_matches('?').to_lowercase();
    let is_named = |machine: &str| machine == wanted || machine.split(' ').next() == Some(&wanted);
    REGISTRY.iter().find(|suite| suite.machine.is_some_and(is_named)).map(|suite| suite.name)
}

/// `up to 5 min`, `about 3 h`.
fn time(suite: &Suite) -> String {
    let plan = PlanFile {
        targets: TARGETS.iter().map(|name| typed(name)).collect(),
        suite: Some(suite.name.to_owned()),
        ..PlanFile::default()
    };
    // A test checks that all shipped suites resolve; if one did not, the missing time would not matter.
    let Ok(resolved) = plan.resolve(coordinator::cpus(), 1) else { return String::new() };
    match resolved.plan.repetition {
        Repetition::Budget { seconds }
        | Repetition::Precision { seconds, .. }
        | Repetition::Blocks { seconds: Some(seconds), .. } => {
            format!("up to {}", rough(Duration::from_secs_f64(seconds)))
        }
        Repetition::Blocks { .. } => match coordinator::new_record(resolved) {
            Ok((record, work)) => {
                let Expected { time, .. } = schedule::expected(&record, &work);
                format!("about {}", rough(time))
            }
            Err(_) => String::new(),
        },
    }
}

/// Whole minutes, hours from two on: the model is off by a factor of two or three.
fn rough(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 90.0 => show_duration(time),
        seconds if seconds < 2.0 * 3600.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 48.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_rough_as_the_model() {
        let of = |seconds: u64| rough(Duration::from_secs(seconds));
        assert_eq!([of(20), of(300), of(7199), of(8000), of(400_000)], ["20 s", "5 min", "120 min", "2 h", "5 days"]);
    }

    #[test]
    fn a_machine_finds_its_suite() {
        let found = ["mail", "a mail server?", "Database", "build machine"].map(of_machine);
        assert_eq!(found, ["varmail", "varmail", "oltp", "untar-build"].map(Some));
        assert_eq!((of_machine("server"), of_machine("")), (None, None));
    }

    #[test]
    fn every_suite_has_its_time() {
        for suite in REGISTRY {
            let time = time(suite);
            assert!(time.starts_with("up to ") || time.starts_with("about "), "{}: {time}", suite.name);
        }
    }
}
