//! Controls that make no sense are refused before anything is touched.

use std::fs;

use super::*;

/// `--control`, and what the message must hold.
const TABLE: &[(&str, &str)] = &[
    ("dirty-ratio=101%", "between 0% and 100%"),
    ("dirty-ratio=some", "whole percentage"),
    ("dirty-bytes=1", "bytes or more"),
    ("dirty-expire=5ms", "10 ms"),
    ("dirty-writeback=soon", "is not a duration"),
    ("governor=turbo", "unknown governor 'turbo'"),
    ("boost=perhaps", "known are keep, off, on"),
    ("swap=of", "did you mean 'off'"),
    ("scheduler=a b", "not a name of a scheduler"),
    ("read-ahead=100", "whole pages"),
    ("read-ahead=1T", "at most"),
    ("barriers=maybe", "known are keep, off"),
    ("cpus=3-1", "not a list of processors"),
    ("cpus=9999", "no processor 9999"),
    ("numa=x", "not a list of nodes"),
    ("services=--now", "not a name of a unit"),
    ("read-ahed=1M", "did you mean 'read-ahead'"),
    ("read-ahead", "read-ahead=VALUE: keep, SIZE"),
];

#[test]
fn wrong_values_are_refused_with_what_is_right() {
    let scratch = scratch();
    for (control, word) in TABLE {
        let output = fsb(scratch.path(), &["run", "null", "--control", control, "--out", "run"]);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(word), "{control}: {}", stderr(&output));
        assert!(!scratch.path().join("run").exists(), "{control}");
    }
    let both = ["run", "null", "--control", "dirty-ratio=9%", "--control", "dirty-bytes=1G"];
    let output = fsb(scratch.path(), &both);
    expect_code(&output, 2);
    assert!(stderr(&output).contains("exclude each other"), "{}", stderr(&output));
}

#[test]
fn targets_differ_only_in_what_ends_with_their_visit() {
    let scratch = scratch();
    for (controls, word) in [
        ("{ swap = 'off' }", "the control swap holds for the whole run"),
        ("{ barriers = 'of' }", "did you mean 'off'"),
        ("{ bariers = 'off' }", "did you mean 'barriers'"),
    ] {
        let plan = format!("targets = ['null', {{ target = 'bare=null', controls = {controls} }}]\n");
        fs::write(scratch.path().join("plan.toml"), plan).unwrap();
        let output = fsb(scratch.path(), &["run", "plan.toml"]);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(word) && stderr(&output).contains("bare"), "{}", stderr(&output));
    }
}

#[test]
fn barriers_stay_where_others_would_lose_data() {
    let scratch = scratch();
    let directory = scratch.path().to_string_lossy().into_owned();
    let output = fsb(scratch.path(), &["run", &directory, "--control", "barriers=off"]);
    // Where the disk under the directory is not known there is nothing to switch off, and no refusal.
    if output.status.code() == Some(2) {
        assert!(stderr(&output).contains("others' data at risk"), "{}", stderr(&output));
    } else {
        assert!(stderr(&output).contains("barriers=off is not available"), "{}", stderr(&output));
    }
}
