//! `--resume`: fsb retries the whole unfinished block, and nothing else.

use std::fs;

use crate::common::resume::*;
use crate::common::*;

/// Makes a run on the null file system whose last trials are cut off, as if it had been killed.
fn interrupted(keep: usize) -> tempfile::TempDir {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = ["run", "fast.toml", "a=null", "b=null", "--blocks", "3", "--seed", "5", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &arguments), 0);
    cut(&scratch.path().join("run"), keep);
    scratch
}

#[test]
fn a_resumed_run_has_the_numbers_of_one_that_was_never_interrupted() {
    let whole = interrupted(10_000);
    let table = fs::read_to_string(whole.path().join("run/trials.csv")).unwrap();
    // Twelve cells on two targets: warm-up, block 1, and half of block 2.
    let cut = interrupted(24 * 2 + 11);
    let output = fsb_json(cut.path(), &["run", "--resume", "run"]);
    expect_code(&output, 0);
    assert_eq!(message(&output, "note/block-retried")["fields"]["trials"], 11);
    assert_eq!(message(&output, "warning/journal")["fields"]["path"], "run");
    let without_order = |table: &str| {
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let mut rows: Vec<Vec<String>> = reader
            .records()
            .flatten()
            .map(|row| {
                row.iter().enumerate().filter(|(column, _)| *column != 7).map(|(_, field)| field.to_owned()).collect()
            })
            .collect();
        rows.sort();
        rows
    };
    let resumed = fs::read_to_string(cut.path().join("run/trials.csv")).unwrap();
    assert_eq!(without_order(&resumed), without_order(&table));
    let trials = trials(&cut.path().join("run"));
    assert_eq!(trials.iter().filter(|trial| trial["superseded"] == true).count(), 11);
    assert_eq!(record(&cut.path().join("run"))["segments"].as_array().unwrap().len(), 2);
}

#[test]
fn an_interrupted_warm_up_is_made_again() {
    let cut = interrupted(7);
    let run = cut.path().join("run");
    let mut record = record(&run);
    record["amounts"] = serde_json::json!({});
    record["blocks_planned"] = serde_json::Value::Null;
    fs::write(run.join("run.json"), record.to_string()).unwrap();
    expect_code(&fsb(cut.path(), &["run", "--resume", "run", "-q"]), 0);
    let counting = trials(&run).iter().filter(|trial| trial["superseded"] != true).count();
    assert_eq!(counting, 24 * 4);
}

#[test]
fn a_complete_run_and_another_kernel_are_refused() {
    let scratch = scratch();
    fast_plan(scratch.path());
    expect_code(&fsb(scratch.path(), &["run", "fast.toml", "null", "--blocks", "1", "--out", "run", "-q"]), 0);
    fails(scratch.path(), &["run", "--resume", "run"], 2, "run/complete");

    let cut = interrupted(30);
    let run = cut.path().join("run");
    let mut record = record(&run);
    record["segments"][0]["kernel"] = "2.6.18".into();
    fs::write(run.join("run.json"), record.to_string()).unwrap();
    fails(cut.path(), &["run", "--resume", "run"], 2, "run/other-kernel");
}
