//! `fsb watch`: runs on the null file system, from another process.

use std::time::Duration;

use rustix::process::Signal;

use crate::common::{Running, fails, fast_plan, scratch, stdout, succeeds, wait_until, words};

/// The longest time of a few blocks on the null file system, on a busy machine.
const SOON: Duration = Duration::from_secs(120);

#[test]
fn a_run_is_shown_while_it_is_measured_and_after_it_was_stopped_or_killed() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let watch = || {
        let output = succeeds(scratch.path(), "watch run");
        stdout(&output)
    };
    let start =
        |arguments: &[&str]| Running::start(scratch.path(), &[arguments, &["--quiet"]].concat());
    let begun = || {
        let mut seen = String::new();
        wait_until("results of a block", SOON, || {
            let is_begun = scratch.path().join("run/run.json").exists();
            seen = if is_begun { watch() } else { String::new() };
            seen.contains(": block ")
                && seen.contains("read 1M, cold")
                && seen.contains(" so far, about ")
        });
        seen
    };
    let run = start(&words(
        "run fast.toml a=null b=null --blocks 10000 --out run",
    ));
    let seen = begun();
    assert!(
        seen.contains(" of 10000, ")
            && seen.contains(" trials\n")
            && seen.contains(" so far, about "),
        "{seen}"
    );
    assert!(!seen.contains("resume"), "{seen}");
    run.signal(Signal::INT);
    assert_eq!(run.wait().status.code(), Some(130));
    let seen = watch();
    assert!(
        seen.contains(": interrupted, ") && seen.ends_with("resume with: fsb run --resume run\n"),
        "{seen}"
    );
    let run = start(&["run", "--resume", "run"]);
    begun();
    run.signal(Signal::KILL);
    run.wait();
    let seen = watch();
    assert!(
        seen.contains("its process was killed")
            && seen.ends_with("resume with: fsb run --resume run\n"),
        "{seen}"
    );
}

#[test]
fn the_newest_run_is_shown_without_an_argument() {
    let scratch = scratch();
    fast_plan(scratch.path());
    fails(scratch.path(), "watch", 2, "arguments/missing");
    fails(scratch.path(), "watch .", 2, "store/no-run");
    succeeds(scratch.path(), "run fast.toml null --blocks 3 --quiet");
    let output = succeeds(scratch.path(), "watch");
    let seen = stdout(&output);
    assert!(
        seen.contains(": complete: ") && seen.contains("report: fsb report fsb-results/"),
        "{seen}"
    );
}
