//! Bad input causes no panic, starts no work, and gets its error.

use serde_json::json;

use crate::common::bad_input::*;
use crate::common::{command, error_of, expect_code, scratch, stderr, stdout};

#[test]
fn bad_input_has_its_exit_code_and_error_code() {
    assert!(TABLE.len() >= 60, "{}", TABLE.len());
    let mut wrong = Vec::new();
    for (line, exit, code) in TABLE {
        let (output, _scratch) = run_line(line, "json");
        let error = error_of(&output);
        if output.status.code() != Some(*exit) || error["code"] != *code {
            let found = output.status.code();
            wrong.push(format!("fsb {line}\n  wanted {exit} {code}, got {found:?}: {}", stderr(&output)));
        }
        let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(stderr(&output).lines().all(is_json), "fsb {line}: {}", stderr(&output));
        assert!(error["help"].as_str().is_some_and(|help| !help.is_empty()), "fsb {line}: {error}");
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TABLE.len(), wrong.join("\n"));
}

#[test]
fn fields_name_what_an_error_is_about() {
    let expect = |line: &str, expected: serde_json::Value| {
        let (output, scratch) = run_line(line, "json");
        let directory = scratch.path().display().to_string();
        let found = error_of(&output)["fields"].to_string().replace(&directory, "DIR");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&found).unwrap(), expected, "{line}");
    };
    expect("run DIR/unknown-key.toml", json!({ "path": "DIR/unknown-key.toml", "line": 2, "column": 1 }));
    expect("run --nonsense ext4", json!({ "argument": "--nonsense" }));
    expect("run null --blocks many", json!({ "argument": "--blocks <N>", "value": "many" }));
    expect("report DIR/full", json!({ "path": "DIR/full" }));
    expect("run DIR/missing", json!({ "path": "DIR/missing", "errno": "ENOENT" }));
    expect("run exxt4@loop", json!({ "name": "exxt4" }));
    let newer = json!({ "path": "DIR/newer/run.json", "found": "fsbench/run/3", "expected": "fsbench/run/2" });
    expect("report DIR/newer", newer);
}

/// The option has the same effect as the variable and takes precedence.
#[test]
fn the_option_chooses_the_format_of_messages() {
    let scratch = scratch();
    let is_json = |arguments: &[&str], format: &str| {
        let output = command(scratch.path(), arguments).env("FSB_MESSAGE_FORMAT", format).output().unwrap();
        expect_code(&output, 2);
        assert_eq!(stderr(&output).starts_with("error: "), error_of(&output).is_null(), "{}", stderr(&output));
        !error_of(&output).is_null()
    };
    assert!(is_json(&["--message-format", "json", "run", "exxt4"], "text"));
    assert!(!is_json(&["run", "exxt4", "--message-format=text"], "json"));
    // A format that does not exist is refused in text.
    assert!(!is_json(&["list", "suites", "--message-format=xml"], "json"));
    assert!(!is_json(&["list", "suites"], "xml"));
}

/// The text of every message of the table.
#[test]
fn messages_of_bad_input_match_their_snapshot() {
    let mut messages = String::new();
    for (line, _, _) in TABLE {
        let (output, scratch) = run_line(line, "text");
        let directory = scratch.path().display().to_string();
        let text = format!("{}{}", stderr(&output), stdout(&output)).replace(&directory, "DIR");
        // Usage and lists of options belong to the snapshots of help.
        let text = text.split("\n\n").next().unwrap_or_default();
        messages += &format!("$ fsb {line}\n{}\n\n", text.trim_end());
    }
    insta::assert_snapshot!("bad_input_messages", messages);
}
