//! The output equals that of PostMark except for values of a finer clock.

use super::{pipe, script};
use crate::common::{JSON, assert_messages, command, expect_code, expect_error, fails, fsb, scratch, stdout, text_of};

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
fn errors_are_reported_by_line_before_anything_is_done() {
    let directory = scratch();
    let mut all = String::new();
    for (lines, code) in [
        ("run\nset nomber 3\n", "postmark/invalid-command"),
        ("run\n\nset size 10k\n", "postmark/invalid-command"),
        ("load missing\n", "input/unreadable"),
        ("load script\n", "postmark/invalid-command"),
        ("set location nowhere\nrun\n", "directory/unusable"),
        ("run no/where\n", "output/unwritable"),
    ] {
        let output = script(directory.path(), lines);
        all += &format!("{lines}{}\n\n", text_of(&expect_error(&output, 2, code)));
        assert!(output.stdout.is_empty(), "{lines}: {}", stdout(&output));
    }
    fails(directory.path(), &["postmark", "missing"], 2, "input/unreadable");
    let piped = pipe(command(directory.path(), &["postmark", JSON]), "set number 3\nrum\nrun\n");
    all += &text_of(&expect_error(&piped, 2, "postmark/invalid-command"));
    assert_messages("postmark", directory.path(), &all);
    assert!(!stdout(&piped).contains("Creating"));
}
