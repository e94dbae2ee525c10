//! A user's command as the workload, on real file systems and in directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::command::*;
use crate::common::*;

#[test]
fn options_of_a_command_are_refused_without_a_command() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["run", "null", "--prepare", "true"], "arguments/conflict"),
        (&["run", "null", "--metric", "tps=([0-9]+)", "--", "true"], "arguments/missing"),
        (&["run", "null", "--metric", "tps", "--better", "higher", "--", "true"], "arguments/invalid-value"),
        (&["run", "null", "--metric", "tps=[0-9]", "--better", "higher", "--", "true"], "plan/invalid"),
        (&["run", "null", "--better", "higher", "--", "true"], "arguments/missing"),
        (&["run", "null", "--durable", "perhaps", "--", "true"], "arguments/invalid-value"),
        (&["run", "null", "--suite", "quick", "--", "true"], "arguments/conflict"),
        (&["run", "null", "--time-limit", "never", "--", "true"], "plan/invalid"),
        (&["run", "null", "--root", "/", "--", "true"], "plan/invalid"),
        (&["run", "ext4", "--in", "vm", "--root", "/", "--suite", "quick"], "plan/invalid"),
        (&["run", "ext4", "--in", "vm", "--root", "/no/such", "--", "true"], "plan/invalid"),
        (&["run", "ext4", "--in", "vm", "--writable", "/srv", "--", "true"], "plan/invalid"),
    ];
    expect_refusals("command", scratch.path(), requests);
}

#[test]
fn blocks_with_a_budget_end_with_whichever_is_first() {
    let scratch = scratch();
    let run = |blocks: &str, budget: &str, out: &str| {
        let arguments = ["run", ".", "--blocks", blocks, "--budget", budget, "--out", out, "--", "sleep", "0.3"];
        let output = fsb(scratch.path(), &arguments);
        expect_code(&output, 0);
        stdout(&fsb(scratch.path(), &["report", out, "--notes"])).replace("\n  ", " ")
    };
    let bounded = run("500", "5s", "bounded");
    // A block that waits for a busy disk longer than those before is cut off.
    let ends = [": another would have passed the budget", ", the last one not whole: the budget ended"];
    assert!(ends.iter().any(|end| bounded.contains(&format!(" of 500 planned blocks{end}"))), "{bounded}");
    let made = measured(&scratch.path().join("bounded")).len();
    assert!((1..500).contains(&made), "{made}");
    run("3", "10m", "whole");
    assert_eq!(measured(&scratch.path().join("whole")).len(), 3);
}

/// The first run of a program reads it from disk, so its time does not predict the next.
#[test]
fn a_slow_first_run_leaves_enough_blocks() {
    let scratch = scratch();
    let mark = scratch.path().join("open");
    fs::create_dir(&mark).unwrap();
    fs::set_permissions(&mark, fs::Permissions::from_mode(0o777)).unwrap();
    let open = mark.to_str().unwrap();
    let line = format!("test -e {open}/mark || sleep 8; touch {open}/mark; sleep 0.3");
    let arguments = ["run", ".", "--budget", "30s", "--out", "run", "--writable", open, "--", &line];
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, 0);
    let blocks = measured(&scratch.path().join("run")).len();
    assert!(blocks >= 5, "{blocks} blocks\n{}", stderr(&output));
    let warnings = record(&scratch.path().join("run"))["warnings"].to_string();
    assert!(!warnings.contains("too_few_blocks"), "{warnings}");
}

/// Headline, table, environment, report: the headline is the verdict, so that no sign needs a legend.
#[test]
fn a_single_case_needs_five_lines() {
    let scratch = scratch();
    let targets = ["run", "null", "slow=null,slowdown=50%", "--blocks", "6", "--out", "run", "-q", "--", "true"];
    let output = fsb(scratch.path(), &targets);
    expect_code(&output, 0);
    let screen = stdout(&output);
    assert_eq!(screen.lines().count(), 5, "{screen}");
    assert!(screen.contains("95 % interval"), "{screen}");
}
