//! The fastest of many: races on real file systems, and what is refused.

use serde_json::Value;

use crate::common::*;

/// Who is told by its mount options that it is slow, sleeps longer: the truth is known, and the race is not told.
const SLEEPER: &str = "grep -q ' lazytime\\|,lazytime' /proc/mounts && exec sleep 0.02; exec sleep 0.03";

fn choice(run: &std::path::Path) -> Value {
    let output = fsb(run, &["report", ".", "--format", "json"]);
    expect_code(&output, 0);
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test(machine)]
fn the_fastest_of_many_is_found_and_told_how_to_make() {
    needs_root();
    let (before, scratch) = (traces(), scratch());
    let arguments = ["choose", "ext4", "--budget", "90s", "--size", "1G", "--quiet", "--out", "run", "--", SLEEPER];
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, 0);
    expect_no_traces(&before);
    let text = stdout(&output);
    assert!(text.starts_with("ext4,lazytime is the fastest of "), "{text}");
    assert!(text.contains("mount -t ext4 -o lazytime DEVICE DIRECTORY"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let choice = choice(&scratch.path().join("run"));
    assert_eq!((&choice["decided"], &choice["answer"][0]), (&true.into(), &"ext4,lazytime".into()));
    // Who surely wins nothing need not be surely slower.
    assert!(choice["answer"].as_array().unwrap().len() <= 3, "{text}");
    let candidates = choice["candidates"].as_array().unwrap();
    let winner = &candidates[0]["ratio"];
    assert!((winner.as_f64().unwrap() - 1.45).abs() < 0.2, "{winner}");
    // Losers are given up: they are in no more heats than who may win, but for the last one that was drawn. In all heats is the
    // reference alone.
    let heats = |one: &Value| one["heats"].as_u64().unwrap();
    let slower = |one: &&Value| one["state"] == "slower" && one["name"] != "ext4";
    let mut losers = candidates.iter().filter(slower);
    assert!(candidates.iter().filter(|one| one["state"] == "slower").count() > 8, "{text}");
    assert!(losers.all(|one| heats(one) <= heats(&candidates[0]) + 1), "{text}");
    assert!(!text.contains("barrier"), "dangerous ones race where that is asked for: {text}");
}

#[test]
fn an_unsafe_candidate_wins_only_if_risk_is_accepted_and_its_risk_is_named() {
    let scratch = scratch();
    let race = |more: &[&str]| {
        let targets = ["choose", "null,slowdown=40%", "null,slowdown=20%", "null,unsafe", "--budget", "20s"];
        let output = fsb(scratch.path(), &[&targets[..], more].concat());
        expect_code(&output, 0);
        (stdout(&output), stderr(&output))
    };
    let (answer, progress) = race(&["--out", "safe"]);
    assert!(answer.starts_with("null,slowdown=20% is the fastest of 2"), "{answer}");
    assert!(progress.starts_with("note: null,unsafe is not raced: unsafe: "), "{progress}");
    let (answer, _) = race(&["--risky", "--out", "risky"]);
    assert!(answer.starts_with("null,unsafe is unsafe: "), "{answer}");
    assert!(answer.contains("null,unsafe (unsafe) is the fastest of 3"), "{answer}");
    fails(scratch.path(), &["choose", "null", "null,unsafe"], 2, "choose/not-a-candidate");
}

#[test]
fn candidates_are_listed_with_their_reasons() {
    let scratch = scratch();
    let listed = |arguments: &[&str]| {
        let output = fsb(scratch.path(), &[&["choose", "--list"], arguments].concat());
        expect_code(&output, 0);
        stdout(&output)
    };
    let safe = listed(&["ext4", "xfs"]);
    assert!(safe.contains("ext4,noatime") && safe.contains("xfs") && !safe.contains("RISK"), "{safe}");
    assert!(safe.contains("the first one is the baseline of every race round"), "{safe}");
    let risky = listed(&["ext4", "--risky"]);
    assert!(risky.contains("RISK: a power failure may lose synced data"), "{risky}");
}

#[test]
fn wrong_races_are_refused() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["choose", "ext4,noatime", "--", "true"], "choose/not-a-candidate"),
        (&["choose", "/srv"], "choose/not-a-candidate"),
        (&["choose", "ext4", "xfs", "--effects", "--", "true"], "choose/not-a-candidate"),
        (&["choose", "ext4", "--suite", "varmail", "--", "true"], "arguments/conflict"),
        (&["choose", "ext5"], "target/unknown-file-system"),
    ];
    expect_refusals("choose", scratch.path(), requests);
}
