//! Retries of trials affected by interference, and the number of blocks: whole runs on the null
//! file system, which simulates both interference and noise. Targets take turns unless a test
//! differs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::compare::compare;
use crate::common::{
    expect_code, fast_plan, fsb, fsb_json, json, message, messages, record, scratch, stdout,
    succeeds, trials, words,
};

fn run(directory: &Path, out: &str, arguments: &[&str]) -> Output {
    fast_plan(directory);
    let mut all = vec![
        "run",
        "fast.toml",
        "--seed",
        "42",
        "--one-at-a-time",
        "--out",
        out,
    ];
    all.extend(arguments);
    fsb_json(directory, &all)
}

fn text<'a>(trial: &'a Value, key: &str) -> &'a str {
    trial[key].as_str().unwrap()
}

/// Returns the table of measured trials without the column of their order.
fn table(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("trials.csv")).unwrap();
    let without_order = |line: &str| {
        let mut fields: Vec<&str> = line.split(',').collect();
        // Labels contain commas: the order is the eleventh field from the end.
        let place = fields.len() - 11;
        fields.remove(place);
        fields.join(",")
    };
    text.lines().map(without_order).collect()
}

#[test]
fn affected_trials_are_retried_and_the_last_attempt_is_analysed() {
    let scratch = scratch();
    let quiet = run(
        scratch.path(),
        "quiet",
        &["a=null", "b=null,slowdown=10%", "--blocks", "8"],
    );
    expect_code(&quiet, 0);
    let loud = run(
        scratch.path(),
        "loud",
        &[
            "a=null,interference=35%",
            "b=null,slowdown=10%,interference=5%",
            "--blocks",
            "8",
        ],
    );
    expect_code(&loud, 0);
    let all = trials(&scratch.path().join("loud"));
    let mut by_place: BTreeMap<(u64, &str, &str), Vec<&Value>> = BTreeMap::new();
    for trial in &all {
        let place = (
            trial["block"].as_u64().unwrap(),
            text(trial, "target"),
            text(trial, "workload"),
        );
        by_place.entry(place).or_default().push(trial);
    }
    let mut repeated = 0;
    let mut affected_to_the_end = 0;
    for ((block, ..), attempts) in &by_place {
        let is_affected = |trial: &Value| !trial["interference"].as_array().unwrap().is_empty();
        let (last, earlier) = attempts.split_last().unwrap();
        assert!(
            attempts.len() <= if *block == 0 { 1 } else { 3 },
            "warm-up is not repeated, and others at most twice"
        );
        for (number, trial) in (1..).zip(attempts) {
            assert_eq!(trial["attempt"], number);
        }
        let ids: BTreeSet<&str> = attempts.iter().map(|trial| text(trial, "id")).collect();
        assert_eq!(ids.len(), attempts.len());
        assert!(
            earlier
                .iter()
                .all(|trial| trial["superseded"] == true && is_affected(trial)),
            "{earlier:?}"
        );
        assert!(last["superseded"].is_null(), "{last}");
        assert!(
            *block == 0 || attempts.len() == 3 || !is_affected(last),
            "an affected trial that was not retried: {last}"
        );
        for pair in attempts.windows(2) {
            assert_eq!(
                pair[0]["order"].as_u64().unwrap() + 1,
                pair[1]["order"].as_u64().unwrap(),
                "made again at once"
            );
        }
        repeated += u32::from(attempts.len() > 1);
        affected_to_the_end += u32::from(*block > 0 && is_affected(last));
    }
    assert!(
        repeated > 5 && affected_to_the_end > 0,
        "{repeated} repeated, {affected_to_the_end} in vain"
    );
    // Every number equals that of the run without interference, except for trials affected in all
    // attempts.
    let loud_lines: BTreeSet<String> = table(&scratch.path().join("loud")).into_iter().collect();
    let quiet_lines = table(&scratch.path().join("quiet"));
    let differ: BTreeSet<&str> = quiet_lines
        .iter()
        .filter(|line| !loud_lines.contains(*line))
        .map(|line| line.rsplitn(11, ',').last().unwrap())
        .collect();
    assert_eq!(differ.len() as u32, affected_to_the_end, "{differ:?}");
    // The first screen shows a summary.
    assert!(!stdout(&loud).contains("warning: "), "{}", stdout(&loud));
    let retried = messages(&loud)
        .into_iter()
        .filter(|message| message["code"] == "note/retried")
        .count();
    assert!(
        retried as u32 >= repeated,
        "{retried} of {repeated} were printed"
    );
    // The report uses the same trials: those that count.
    let view = json(scratch.path(), "report loud --format json");
    let expected = format!(
        "{repeated} of 48 trials affected, {repeated} of them retried, {affected_to_the_end} affected to the end"
    );
    assert!(
        view["warnings"].to_string().contains(&expected),
        "{expected} in {view:#}"
    );
    for row in view["cases"].as_array().unwrap() {
        for cell in row["cells"].as_array().unwrap() {
            assert_eq!(
                cell["trials"].as_array().unwrap().len(),
                8,
                "one value a block"
            );
        }
    }
}

#[test]
fn a_case_affected_by_interference_is_marked_and_not_retried() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let targets = ["a=null,interference=35%", "b=null"];
    let arguments = words("run fast.toml --seed 42 --blocks 3 --out run -q");
    succeeds(scratch.path(), &[&arguments[..], &targets].concat());
    let all = trials(&scratch.path().join("run"));
    assert!(
        all.iter()
            .all(|trial| trial["attempt"] == 1 && trial["superseded"].is_null())
    );
    let affected = |target: &str| {
        all.iter()
            .filter(|trial| trial["target"] == target && trial["interference"][0].is_object())
            .count()
    };
    assert!(
        affected("a") > 3 && affected("b") == 0,
        "{} and {}",
        affected("a"),
        affected("b")
    );
}

#[test]
fn trials_are_not_retried_if_most_of_them_are_affected() {
    let scratch = scratch();
    expect_code(
        &run(
            scratch.path(),
            "run",
            &["a=null,interference=80%", "--blocks", "4", "-q"],
        ),
        0,
    );
    let all = trials(&scratch.path().join("run"));
    let attempts = |blocks: std::ops::RangeInclusive<u64>| {
        all.iter()
            .filter(|trial| blocks.contains(&trial["block"].as_u64().unwrap()))
            .count()
    };
    let (in_first, in_others) = (attempts(1..=2), attempts(3..=4));
    assert!(
        in_first > 6,
        "the first ones are made again, for who knows: {in_first}"
    );
    assert_eq!(in_others, 6, "one attempt a cell and block");
}

#[test]
fn affected_trials_are_kept_if_the_user_wishes() {
    let scratch = scratch();
    expect_code(
        &run(
            scratch.path(),
            "run",
            &[
                "a=null,interference=35%",
                "--blocks",
                "6",
                "--keep-affected",
                "-q",
            ],
        ),
        0,
    );
    let all = trials(&scratch.path().join("run"));
    let is_affected = |trial: &&Value| !trial["interference"].as_array().unwrap().is_empty();
    assert!(
        all.iter().any(|trial| is_affected(&trial)),
        "some are affected"
    );
    assert!(
        all.iter()
            .all(|trial| trial["attempt"] == 1 && trial["superseded"].is_null()),
        "{all:#?}"
    );
}

/// If targets take turns, interference during a sequential trial affects only one target.
#[test]
fn verdicts_on_sequential_trials_that_were_mostly_affected_are_withheld() {
    let scratch = scratch();
    let targets = [
        "a=null,interference=80%",
        "b=null,slowdown=50%,interference=80%",
        "--blocks",
        "6",
        "-q",
    ];
    let output = run(scratch.path(), "run", &targets);
    expect_code(&output, 0);
    let report = json(scratch.path(), "report run --format json");
    assert_eq!(report["trust"]["level"], "low");
    for row in report["cases"].as_array().unwrap() {
        assert_eq!(row["ranking"]["outcome"], "not_judged", "{row:#}");
    }
    let (document, _) = compare(scratch.path(), &["run"]);
    for operation in document["operations"].as_array().unwrap() {
        let verdict = &operation["estimate"]["against"]["b"]["verdict"];
        assert_eq!(verdict, "not_judged", "{operation:#}");
    }
}

/// Interference affects only one side of a comparison if each run has one target, in rounds, too.
#[test]
fn runs_of_one_target_that_were_mostly_affected_are_compared_without_a_verdict() {
    let scratch = scratch();
    for (out, target) in [
        ("old", "a=null,interference=100%"),
        ("new", "a=null,slowdown=50%"),
    ] {
        expect_code(
            &run(scratch.path(), out, &[target, "--blocks", "6", "-q"]),
            0,
        );
    }
    let compared = stdout(&fsb(
        scratch.path(),
        "compare old new --between 1% --format json",
    ));
    let document: serde_json::Value = serde_json::from_str(&compared).expect("a comparison");
    for operation in document["operations"].as_array().expect("operations") {
        for level in operation["estimate"]["against"]
            .as_object()
            .into_iter()
            .flat_map(|against| against.values())
        {
            // A maximum is never judged.
            let reason = if operation["metric"] == "latency_max" {
                "maximum"
            } else {
                "withheld"
            };
            assert_eq!(
                (&level["verdict"], &level["unjudged"]),
                (&"not_judged".into(), &reason.into()),
                "{level}"
            );
        }
    }
}

#[test]
fn a_run_whose_repetitions_all_succeed_is_the_quiet_run() {
    let scratch = scratch();
    expect_code(
        &run(scratch.path(), "quiet", &["a=null", "--blocks", "5", "-q"]),
        0,
    );
    let loud = run(
        scratch.path(),
        "loud",
        &["a=null,interference=20%", "--blocks", "5", "-q"],
    );
    expect_code(&loud, 0);
    assert!(
        table(&scratch.path().join("quiet")) == table(&scratch.path().join("loud")),
        "an affected number is analysed"
    );
    let trials = trials(&scratch.path().join("loud"));
    let superseded = trials.iter().filter(|trial| trial["superseded"] == true);
    assert_eq!(superseded.count(), 5);
}

#[test]
fn an_interrupted_run_with_repetitions_is_resumed_to_the_same_numbers() {
    let scratch = scratch();
    let targets = ["a=null,interference=15%", "--blocks", "4", "-q"];
    expect_code(&run(scratch.path(), "whole", &targets), 0);
    expect_code(&run(scratch.path(), "cut", &targets), 0);
    // As if the run had been killed after the first attempt of a trial of block 3 that was to be
    // retried.
    let cut = scratch.path().join("cut");
    let lines = fs::read_to_string(cut.join("trials.jsonl")).unwrap();
    let all = trials(&cut);
    let place = all
        .iter()
        .position(|trial| trial["block"] == 3 && trial["superseded"] == true)
        .expect("one is repeated");
    let kept: String = lines
        .lines()
        .take(place + 1)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(cut.join("trials.jsonl"), kept).unwrap();
    let mut run: Value = record(&cut);
    run["stop_reason"] = Value::Null;
    fs::write(cut.join("run.json"), run.to_string()).unwrap();
    succeeds(scratch.path(), "run --resume cut -q");
    assert!(
        table(&scratch.path().join("whole")) == table(&cut),
        "another table after the resume"
    );
}

/// Trials repeated beside a busy machine would have other values.
const ALONE: &[&str] = &["--one-at-a-time", "--keep-affected"];

#[test]
fn precision_adds_blocks_until_every_cell_is_narrow() {
    let scratch = scratch();
    fs::write(
        scratch.path().join("two.toml"),
        "[repetition]\nsample_time = '20ms'\n[[workload]]\nname = 'rename'\nfiles = 200\n\
         [[workload]]\nname = 'delete'\nfiles = 200\ndurability = 'each'\n",
    )
    .unwrap();
    let measure = |out: &str, target: &str, precision: &str, budget: &str| {
        let arguments = [
            "run",
            "two.toml",
            target,
            "--seed",
            "7",
            "--precision",
            precision,
            "--budget",
            budget,
            "--out",
            out,
        ];
        let output = fsb_json(scratch.path(), &[&arguments[..], ALONE].concat());
        expect_code(&output, 0);
        output
    };
    let blocks = |out: &str| {
        let all = trials(&scratch.path().join(out));
        all.iter()
            .map(|trial| trial["block"].as_u64().unwrap())
            .max()
            .unwrap()
    };
    let widest = |out: &str| {
        let view = json(scratch.path(), &["report", out, "--format", "json"]);
        let cells: Vec<&Value> = view["cases"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|row| row["cells"].as_array().unwrap())
            .collect();
        let half = |cell: &&Value| {
            let interval = &cell["estimate"]["interval"];
            (interval["hi"].as_f64().unwrap() / interval["lo"].as_f64().unwrap()).sqrt() - 1.0
        };
        cells.iter().map(half).fold(0.0, f64::max)
    };
    let quiet = measure("quiet", "null,noise=0.1%", "10%", "60s");
    assert_eq!(
        blocks("quiet"),
        5,
        "cells that are narrow from the start take no more than five blocks"
    );
    let noisy = measure("noisy", "null,noise=20%", "10%", "60s");
    let made = blocks("noisy");
    assert!(made > 5, "noisy cells take more");
    assert!(widest("noisy") <= 0.1 && widest("quiet") <= 0.1);
    // One block fewer would not have sufficed: the rule was checked after every block.
    let noisy_record = record(&scratch.path().join("noisy"));
    let rule = &noisy_record["stopping_rule"];
    assert_eq!(
        (
            &rule["kind"],
            &rule["fewest_blocks"],
            &rule["half_width"],
            &rule["of_ratios"]
        ),
        (&"precision".into(), &5.into(), &0.1.into(), &false.into())
    );
    let reason = &noisy_record["stop_reason"];
    assert_eq!(
        (&reason["kind"], &reason["blocks"]),
        (&"precise".into(), &made.into()),
        "{reason}"
    );
    assert!(reason["reached"].as_f64().unwrap() <= 0.1, "{reason}");
    for (output, name) in [(&noisy, "noisy"), (&quiet, "quiet")] {
        let rule = record(&scratch.path().join(name))["stopping_rule"].clone();
        assert_eq!(
            message(output, "note/stopping-rule")["fields"]["rule"],
            rule
        );
    }
    // With several targets the precision is that of their ratios.
    let pair = words("run two.toml null,noise=0.1% null,noise=0.1% --seed 7 --precision 30%");
    succeeds(
        scratch.path(),
        &[&pair[..], ALONE, &["--out", "2", "-q"]].concat(),
    );
    let reason = record(&scratch.path().join("2"))["stop_reason"].clone();
    assert_eq!(
        (&reason["kind"], &reason["blocks"], &reason["of_ratios"]),
        (&"precise".into(), &5.into(), &true.into()),
        "{reason}"
    );
    // The run warns that the budget is too small for the precision, and names the workload with the
    // widest interval.
    let hopeless = measure("hopeless", "null,noise=40%", "0.1%", "5s");
    let warning = stdout(&hopeless);
    assert!(
        warning.contains("warning: the run ended after "),
        "{warning}"
    );
    assert!(blocks("hopeless") >= 5);
}

#[test]
fn a_precision_that_no_cell_can_have_ends_after_a_block() {
    let scratch = scratch();
    let output = run(
        scratch.path(),
        "run",
        &[
            "null,fail=eio",
            "--precision",
            "3%",
            "--budget",
            "60s",
            "-q",
        ],
    );
    expect_code(&output, 4);
    let reason = record(&scratch.path().join("run"))["stop_reason"].clone();
    let expected = serde_json::json!({ "kind": "hopeless", "blocks": 1, "failed": true });
    assert_eq!(reason, expected);
}

#[test]
fn a_budget_says_its_rule_and_what_it_did() {
    let scratch = scratch();
    let output = run(scratch.path(), "run", &["null", "--budget", "4s"]);
    expect_code(&output, 0);
    let record = record(&scratch.path().join("run"));
    let rule = &record["stopping_rule"];
    assert_eq!(
        (&rule["kind"], &rule["budget_seconds"]),
        (&"budget".into(), &4.0.into()),
        "{rule}"
    );
    assert_eq!(
        message(&output, "note/stopping-rule")["fields"]["rule"],
        *rule
    );
    assert!(record["stop_reason"]["kind"].is_string(), "{record:#}");
}
