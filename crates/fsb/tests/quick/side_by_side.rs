//! Targets that are all ready at once, each on its slice of the medium, and measured in rounds.

use serde_json::Value;

use crate::common::side_by_side::*;
use crate::common::{expect_code, fsb, record, scratch, stderr, trials};

#[test]
fn a_target_that_cannot_be_made_leaves_the_others() {
    let scratch = scratch();
    let output = run(scratch.path(), &["a=null", "b=null,fail=mount", "c=null"], &["--blocks", "2"]);
    let code = output.status.code();
    assert!(code == Some(4) || code == Some(0), "{code:?}: {}", stderr(&output));
    for trial in measured(scratch.path()) {
        let outcome = if trial["target"] == "b" { "failed" } else { "ok" };
        assert_eq!(trial["outcome"], outcome, "{trial}");
    }
}

#[test]
fn samples_of_seconds_are_sequential_trials() {
    let scratch = scratch();
    let seconds = |sample_time: &str| {
        std::fs::write(
            scratch.path().join("write.toml"),
            format!(
                "[repetition]\nblocks = 2\nsample_time = '{sample_time}'\n[[workload]]\nname = 'write'\nfile_size = '1M'\n\
                 block_size = '4K'\naccess = 'random'\ndurability = 'each'\n"
            ),
        )
        .unwrap();
        let out = format!("run-{sample_time}");
        expect_code(&fsb(scratch.path(), &["run", "write.toml", "a=null", "b=null", "--out", &out, "-q"]), 0);
        let trials = trials(&scratch.path().join(&out)).into_iter().filter(|trial| trial["phase"] == "measured");
        let timed = |trial: Value| {
            let each = trial["stretches"]["timed_ns"].as_array().map(|each| each[0].as_f64().unwrap());
            each.unwrap_or_else(|| trial["workers"][0]["timed_ns"].as_f64().unwrap()) * 1e-9
        };
        let rounds = record(&scratch.path().join(&out))["rounds"].as_object().is_some_and(|rounds| !rounds.is_empty());
        (rounds, trials.map(timed).fold(f64::INFINITY, f64::min))
    };
    let (rounds, shortest) = seconds("300ms");
    assert!(rounds && shortest > 0.2, "{shortest}");
    let (rounds, shortest) = seconds("2s");
    assert!(!rounds && shortest > 1.0, "{shortest}");
}

/// Beside cases with short samples, one workload runs in sequential trials of the given length, if the budget permits.
#[test]
fn one_workload_of_a_plan_may_be_measured_in_visits() {
    let scratch = scratch();
    let workload = "[[workload]]\nname = 'write'\nfile_size = '1M'\nblock_size = '4K'\ndurability = 'each'\n";
    std::fs::write(
        scratch.path().join("mixed.toml"),
        format!("{workload}access = 'random'\nsample_time = '1500ms'\n{workload}"),
    )
    .unwrap();
    let arguments = ["run", "mixed.toml", "a=null", "b=null", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &[&arguments[..], &["--blocks", "2"]].concat()), 0);
    let record = record(&scratch.path().join("run"));
    let rounds: Vec<&String> = record["rounds"].as_object().unwrap().keys().collect();
    assert_eq!(rounds, ["write 4K, durable each"]);
    let visits: Vec<Value> =
        measured(scratch.path()).into_iter().filter(|trial| trial["workload"] != "write 4K, durable each").collect();
    assert_eq!(visits.len(), 4);
    for visit in visits {
        let seconds = visit["workers"][0]["timed_ns"].as_f64().unwrap() * 1e-9;
        assert!(visit["stretches"].is_null() && (1.0..4.0).contains(&seconds), "{seconds} s: {visit}");
    }
}
