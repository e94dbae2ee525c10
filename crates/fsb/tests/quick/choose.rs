//! The fastest of many candidates: races on real file systems, and refused requests.

use crate::common::*;

#[test]
fn an_unsafe_candidate_wins_only_if_risk_is_accepted_and_its_risk_is_named() {
    let scratch = scratch();
    let race = |more: &[&str]| {
        let targets = ["choose", "null,slowdown=40%", "null,slowdown=20%", "null,unsafe", "--budget", "20s"];
        let output = fsb_json(scratch.path(), &[&targets[..], more].concat());
        expect_code(&output, 0);
        output
    };
    let safe = race(&["--out", "safe"]);
    let answer = stdout(&safe);
    assert!(answer.starts_with("null,slowdown=20% is the fastest of 2"), "{answer}");
    assert_eq!(message(&safe, "note/not-raced")["fields"]["target"], "null,unsafe");
    let risky = race(&["--risky", "--out", "risky"]);
    assert!(!has_message(&risky, "note/not-raced"), "{}", stderr(&risky));
    let answer = stdout(&risky);
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
