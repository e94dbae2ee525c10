//! Completions and manual pages, which come from the same definition as `--help`; and suggestions for typing errors.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::shell::*;
use crate::common::{FSB, expect_code, expect_refusals, fails, fsb, scratch, stdout};

#[test]
fn zsh_and_fish_have_completions_and_other_shells_are_told_which() {
    let directory = scratch();
    for (name, sign) in [("zsh", "#compdef fsb"), ("fish", "complete -c fsb")] {
        let output = fsb(directory.path(), &["completions", name]);
        expect_code(&output, 0);
        assert!(stdout(&output).contains(sign) && stdout(&output).contains("theta"), "{name}");
        if Path::new("/usr/bin").join(name).exists() {
            expect_code(&shell(name, &["-n"], &stdout(&output)), 0);
        }
    }
    fails(directory.path(), &["completions", "bush"], 2, "arguments/invalid-value");
}

#[test]
fn a_slip_of_the_finger_is_told_what_was_meant() {
    let directory = scratch();
    let (command, option) = ("arguments/unknown-command", "arguments/unknown-option");
    let lines = [
        ("rnu ext4", command),
        ("cmpare a b", command),
        ("completion bash", command),
        ("completions bush", "arguments/invalid-value"),
        ("kernel lst", command),
        ("run --bloks 3 ext4", option),
        ("run --tehta 3% ext4", option),
        ("run ext5", "target/unknown-file-system"),
        ("run databse.toml", "plan/unreadable"),
        ("micro --iteratons 4", option),
        ("iozone --alow-concurrent", "iozone/invalid-options"),
        ("postmark --verfy", option),
        ("filebench --secnds 3 x.f", option),
        ("compare --basline a b c", option),
        ("report --formt csv x", option),
        ("list suits", "list/unknown-family"),
        ("doctor --quik", option),
    ]
    .map(|(line, code)| (line.split(' ').collect::<Vec<_>>(), code));
    let requests: Vec<(&[&str], &str)> = lines.iter().map(|(words, code)| (words.as_slice(), *code)).collect();
    expect_refusals("slips", directory.path(), &requests);
}

#[test]
fn the_binary_alone_knows_its_suites_plans_and_templates() {
    let directory = scratch();
    let alone = directory.path().join("fsb");
    fs::copy(FSB, &alone).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&alone);
        command.current_dir(directory.path()).env_clear().env("PATH", "/usr/bin:/bin").env("COLUMNS", "10000");
        command.args(arguments);
        command.output().expect("the copy starts")
    };
    let plans = run(&["list", "plans"]);
    expect_code(&plans, 0);
    for plan in stdout(&plans).lines().filter_map(|line| line.split_whitespace().next()) {
        // A plan for another machine may name a kernel that is missing here, which is a warning.
        for path in [plan.to_owned(), format!("plans/{plan}")] {
            let output = run(&["run", &path, "--print-plan"]);
            expect_code(&output, 0);
            assert!(stdout(&output).contains("[[workload]]"), "{plan}");
        }
    }
    let suites = stdout(&run(&["list", "suites"]));
    let suites = suites.lines().take_while(|line| !line.is_empty());
    for suite in suites.filter_map(|line| line.split_whitespace().next()) {
        expect_code(&run(&["run", "null", "--suite", suite, "--print-plan"]), 0);
    }
    let line = ["run", "null", "--suite", "varmail", "--scale", "1/64", "--blocks", "1", "--out", "out", "-q"];
    expect_code(&run(&line), 0);
    assert!(fs::read_to_string(directory.path().join("out/report.html")).unwrap().len() > 100_000);
}
