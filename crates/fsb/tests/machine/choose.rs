//! The fastest of many candidates: races on real file systems, and refused requests.

use serde_json::Value;

use crate::common::*;

/// A command that sleeps longer on a file system without `lazytime`: the test knows the true order,
/// the race does not. The difference is larger than what a busy machine adds.
const SLEEPER: &str =
    "grep -q ' lazytime\\|,lazytime' /proc/mounts && exec sleep 0.02; exec sleep 0.08";

fn choice(run: &std::path::Path) -> Value {
    json(run, "report . --format json")
}

#[test]
fn the_fastest_of_many_is_found_and_told_how_to_make() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    let arguments = [
        "choose", "ext4", "--budget", "90s", "--size", "1G", "--quiet", "--out", "run", "--",
        SLEEPER,
    ];
    let output = succeeds(scratch.path(), &arguments);
    expect_no_traces(&before);
    let text = stdout(&output);
    let typed = [
        "  mkfs.ext4 /dev/YOUR-DEVICE",
        "  mount -t ext4 -o lazytime /dev/YOUR-DEVICE /your/mountpoint",
        "  /dev/YOUR-DEVICE /your/mountpoint ext4 lazytime 0 2",
    ];
    assert!(text.contains(&typed.join("\n")), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let choice = choice(&scratch.path().join("run"));
    assert_eq!(
        (&choice["decided"], &choice["answer"][0]),
        (&true.into(), &"ext4,lazytime".into())
    );
    // A target that surely cannot win need not be surely slower.
    assert!(choice["answer"].as_array().unwrap().len() <= 3, "{text}");
    let candidates = choice["candidates"].as_array().unwrap();
    let winner = &candidates[0]["ratio"];
    assert!((1.8..4.2).contains(&winner.as_f64().unwrap()), "{winner}");
    // The race drops losers: except for the last race round, they are in no more race rounds than
    // candidates that may still win. Only the baseline is in all of them.
    let race_rounds = |one: &Value| one["race_rounds"].as_u64().unwrap();
    let slower = |one: &&Value| one["state"] == "slower" && one["name"] != "ext4";
    let mut losers = candidates.iter().filter(slower);
    assert!(
        candidates
            .iter()
            .filter(|one| one["state"] == "slower")
            .count()
            > 8,
        "{text}"
    );
    assert!(
        losers.all(|one| race_rounds(one) <= race_rounds(&candidates[0]) + 1),
        "{text}"
    );
    assert!(
        !text.contains("barrier"),
        "dangerous ones race where that is asked for: {text}"
    );
}
