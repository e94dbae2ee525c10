//! Options of `fsb run` do what their line in the help says: each changes something that is looked at here.

use std::fs;

use crate::common::{expect_code, fast_plan, fsb, scratch, stderr, stdout};

/// A difference of 10 % is one at the usual 3 %, and none where only differences of 40 % matter.
#[test]
fn theta_decides_which_difference_matters() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let shown = |theta: &str, out: &str| {
        let arguments =
            ["run", "fast.toml", "null", "slow=null,slowdown=10%", "--seed", "42", "--blocks", "6", "-q", "--out", out];
        let output = fsb(scratch.path(), &[&arguments[..], &["--theta", theta]].concat());
        expect_code(&output, 0);
        stdout(&output)
    };
    let (small, large) = (shown("3%", "small"), shown("40%", "large"));
    assert!(small.starts_with("null is fastest at"), "{small}");
    assert!(!large.contains("is fastest at"), "{large}");
}

#[test]
fn quiet_shows_the_result_and_no_progress() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let run = |more: &[&str]| {
        let output =
            fsb(scratch.path(), &[&["run", "fast.toml", "null", "--seed", "42", "--blocks", "1"], more].concat());
        expect_code(&output, 0);
        assert!(stdout(&output).contains("report: "), "{}", stdout(&output));
        stderr(&output)
    };
    let (loud, quiet) = (run(&["--out", "loud"]), run(&["--out", "quiet", "--quiet"]));
    assert!(loud.lines().count() > quiet.lines().count(), "{loud}\n---\n{quiet}");
}

#[test]
fn an_unsafe_target_is_marked_in_every_output_and_does_not_win() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = ["run", "fast.toml", "slow=null,slowdown=60%", "quick=null", "--blocks", "6", "--seed", "42"];
    expect_code(&fsb(scratch.path(), &[&arguments[..], &["--out", "run", "-q"]].concat()), 0);
    let path = scratch.path().join("run/run.json");
    let mut record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let risk = serde_json::json!({ "cause": "barrier=0", "loss": "a power failure may lose synced data" });
    record["targets"]["quick"]["risks"] = serde_json::json!([risk]);
    fs::write(&path, record.to_string()).unwrap();
    let report = |format: &str| stdout(&fsb(scratch.path(), &["report", "run", "--format", format]));
    let screen = report("text").replace('\n', " ");
    assert!(screen.starts_with("slow is the only safe target at 12 workloads; quick (unsafe: a power"), "{screen}");
    assert!(!screen.contains("is fastest"), "{screen}");
    for (format, mark) in
        [("markdown", "quick (unsafe)"), ("html", "quick (unsafe)"), ("json", "\"unsafe\""), ("csv", ",barrier=0\n")]
    {
        assert!(report(format).contains(mark), "{format}");
    }
}
