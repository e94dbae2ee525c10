//! `--runs N`: complete runs that are stored as a set.

use std::fs;
use std::path::Path;

use crate::common::*;

/// Makes a set of runs of a small plan, with the seeds 41, 42, ….
fn make(directory: &Path, runs: &str, out: &str) {
    fast_plan(directory);
    let targets = ["null", "slow=null,slowdown=10%", "--blocks", "3", "--seed", "41", "--out", out, "-q"];
    let output = fsb(directory, &[&["run", "fast.toml", "--runs", runs][..], &targets].concat());
    expect_code(&output, 0);
    let title = format!("{runs} runs: means with the standard deviation (sd) between runs");
    assert!(stdout(&output).contains(&title), "{}", stdout(&output));
}

fn seed(run: &Path) -> u64 {
    record(run)["plan"]["seed"].as_u64().unwrap()
}

#[test]
fn a_set_holds_complete_runs_and_is_compared_as_one() {
    let scratch = scratch();
    make(scratch.path(), "3", "old");
    make(scratch.path(), "2", "new");
    for number in 1..=3 {
        let run = scratch.path().join(format!("old/run-{number}"));
        assert_eq!(seed(&run), 40 + number);
        assert!(run.join("report.html").is_file() && record(&run)["stop_reason"].is_object());
    }
    let output = fsb(scratch.path(), &["compare", "old=old", "new=new"]);
    expect_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("old") && text.contains("new") && text.contains("read 1M, warm"), "{text}");
}

#[test]
fn a_set_is_resumed_with_the_runs_that_are_missing() {
    let scratch = scratch();
    make(scratch.path(), "3", "set");
    let set = scratch.path().join("set");
    let first = fs::read(set.join("run-1/trials.jsonl")).unwrap();
    fs::remove_dir_all(set.join("run-3")).unwrap();
    // The second run was interrupted before its first block.
    let mut interrupted = record(&set.join("run-2"));
    interrupted["stop_reason"] = serde_json::Value::Null;
    fs::write(set.join("run-2/run.json"), interrupted.to_string()).unwrap();
    fs::write(set.join("run-2/trials.jsonl"), "").unwrap();
    let output = fsb(scratch.path(), &["run", "--resume", "set", "-q"]);
    expect_code(&output, 0);
    assert!(stdout(&output).contains("3 runs: means"), "{}", stdout(&output));
    assert_eq!((seed(&set.join("run-2")), seed(&set.join("run-3"))), (42, 43));
    assert!(record(&set.join("run-2"))["stop_reason"].is_object());
    assert_eq!(fs::read(set.join("run-1/trials.jsonl")).unwrap(), first);
    fails(scratch.path(), &["run", "--resume", "set", "-q"], 2, "run/invalid-set");
}

#[test]
fn a_set_is_not_made_where_something_is() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("full")).unwrap();
    fs::write(scratch.path().join("full/file"), "x").unwrap();
    let output = fsb(scratch.path(), &["run", "null", "--runs", "2", "--out", "full"]);
    expect_code(&output, 2);
    let output = fsb(scratch.path(), &["run", "null", "--runs", "0", "--out", "set"]);
    expect_code(&output, 2);
    assert!(!scratch.path().join("set").exists());
}

/// A set has the name of its directory; separate runs in one directory have their own names.
#[test]
fn patterns_in_one_directory_are_sets_of_their_own() {
    let scratch = scratch();
    fast_plan(scratch.path());
    for run in ["old-1", "old-2", "new-1", "new-2"] {
        let out = format!("all/{run}");
        let arguments = ["run", "fast.toml", "null", "--blocks", "1", "--out", &out, "-q"];
        fs::create_dir_all(scratch.path().join("all")).unwrap();
        expect_code(&fsb(scratch.path(), &arguments), 0);
    }
    let output = fsb(scratch.path(), &["compare", "all/old-*", "all/new-*"]);
    expect_code(&output, 0);
    assert!(stdout(&output).contains("old-1/null") && stdout(&output).contains("new-1/null"), "{}", stdout(&output));
}
