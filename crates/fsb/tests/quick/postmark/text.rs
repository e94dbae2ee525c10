//! The output equals that of PostMark except for values of a finer clock.

use super::{pipe, script};
use crate::common::{command, expect_code, fsb, scratch, stderr, stdout};

#[test]
fn reports_and_settings_are_added_to_files_and_read_by_compare() {
    let directory = scratch();
    let lines = "set transactions 1000\nrun report\nrun report\nshow settings\nset report terse\nrun terse\nquit\n";
    let output = script(directory.path(), lines);
    expect_code(&output, 0);
    assert!(!stdout(&output).contains("seconds total"), "{}", stdout(&output));
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(read("report").matches("seconds total").count(), 2);
    assert!(read("settings").starts_with("Current configuration is:\n"));
    assert_eq!(read("terse").split_whitespace().count(), 13);
    let compared = fsb(directory.path(), &["compare", "report"]);
    expect_code(&compared, 0);
    assert!(stdout(&compared).contains("transaction") && !stdout(&compared).contains("whole seconds"));
}

#[test]
fn a_usual_file_is_read_and_files_load_each_other() {
    let directory = scratch();
    std::fs::write(directory.path().join(".pmrc"), "set number 77\nload more\n").unwrap();
    std::fs::write(directory.path().join("more"), "set transactions 88\n").unwrap();
    let output = pipe(command(directory.path(), &["postmark"]), "show\n");
    expect_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("Reading configuration from file '.pmrc'\nReading configuration from file 'more'\npm>"));
    assert!(text.contains("The base number of files is 77\nTransactions: 88\n"), "{text}");
}

#[test]
fn what_is_wrong_is_said_with_its_line_before_anything_is_done() {
    let directory = scratch();
    let refused = |lines: &str, said: &str| {
        let output = script(directory.path(), lines);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(said), "{lines}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{lines}: {}", stdout(&output));
    };
    refused("run\nset nomber 3\n", "script:2: unknown command 'set nomber': did you mean 'set number'?");
    refused("run\n\nset size 10k\n", "script:3: set size: '10k' is not a whole number");
    refused("load missing\n", "script:1: cannot read commands from missing");
    refused("load script\n", "load each other");
    refused("set location nowhere\nrun\n", "script:2: location nowhere is not a directory");
    refused("run no/where\n", "script:1: cannot add a report to no/where: no directory no");
    let missing = fsb(directory.path(), &["postmark", "missing"]);
    expect_code(&missing, 2);
    let piped = pipe(command(directory.path(), &["postmark"]), "set number 3\nrum\nrun\n");
    expect_code(&piped, 2);
    assert!(stderr(&piped).contains("standard input:2: unknown command 'rum': did you mean 'run'?"));
    assert!(!stdout(&piped).contains("Creating"));
}
