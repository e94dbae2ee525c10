//! Documents of the program match the published schemas. `compare/contract.rs` checks comparisons of other tools.

use std::fs;
use std::path::Path;

use crate::common::{expect_code, fast_plan, fsb, record, scratch, stdout, trials};

fn validator(text: &str) -> jsonschema::Validator {
    let schema: serde_json::Value = serde_json::from_str(text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

fn check(validator: &jsonschema::Validator, value: &serde_json::Value) {
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
}

/// Returns the JSON document that a command prints.
fn document(directory: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = fsb(directory, arguments);
    expect_code(&output, 0);
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[test]
fn run_record_trials_report_and_comparison_fit_their_schemas() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let targets =
        ["run", "fast.toml", "null", "broken=null,fail=enospc", "--blocks", "2", "--out", "run", "-q", "--seed", "3"];
    expect_code(&fsb(scratch.path(), &targets), 4);
    let run = scratch.path().join("run");
    let of_runs = validator(include_str!("../../schema/run.json"));
    let of_trials = validator(include_str!("../../schema/trial.json"));
    check(&of_runs, &record(&run));
    let trials = trials(&run);
    assert!(trials.iter().any(|trial| trial["outcome"] == "ok"));
    assert!(trials.iter().any(|trial| trial["outcome"] == "failed"));
    trials.iter().for_each(|trial| check(&of_trials, trial));
    // The schemas refuse wrong documents, too.
    let mut wrong = trials[0].clone();
    wrong["phase"] = "sometimes".into();
    assert!(!of_trials.is_valid(&wrong));

    let of_reports = validator(include_str!("../../schema/report.json"));
    let report = document(scratch.path(), &["report", "run", "--format", "json"]);
    check(&of_reports, &report);
    let mut wrong = report.clone();
    wrong["rows"][0]["cells"][0]["state"]["state"] = "sometimes".into();
    assert!(!of_reports.is_valid(&wrong));
    let of_comparisons = validator(include_str!("../../schema/comparison.json"));
    check(&of_comparisons, &document(scratch.path(), &["compare", "run", "--format", "json"]));
}

#[test]
fn reports_of_suites_fit_the_schema() {
    let scratch = scratch();
    let validator = validator(include_str!("../../schema/report.json"));
    fs::write(scratch.path().join("small.toml"), "[repetition]\nsample_time = '1ms'\nblocks = 3\n").unwrap();
    for suite in ["quick", "scaling", "open-loop", "postmark"] {
        let run = ["run", "small.toml", "--suite", suite, "null", "slow=null,slowdown=10%", "--scale", "1/64"];
        expect_code(&fsb(scratch.path(), &[&run[..], &["--out", suite, "-q"]].concat()), 0);
        check(&validator, &document(scratch.path(), &["report", suite, "--format", "json"]));
    }
}

#[test]
fn the_choice_of_a_race_fits_its_schema() {
    let scratch = scratch();
    let race = ["choose", "null,slowdown=40%", "null,slowdown=20%", "null,unsafe", "--budget", "5s"];
    expect_code(&fsb(scratch.path(), &[&race[..], &["--risky", "--out", "race", "-q"]].concat()), 0);
    let validator = validator(include_str!("../../schema/choice.json"));
    let choice = document(scratch.path(), &["report", "race", "--format", "json"]);
    check(&validator, &choice);
    let mut wrong = choice;
    wrong["candidates"][0]["state"] = "sometimes".into();
    assert!(!validator.is_valid(&wrong));
}

/// Returns the errors that editors would mark in a plan.
fn faults(validator: &jsonschema::Validator, plan: &str) -> Vec<String> {
    let value: serde_json::Value = toml::from_str(plan).expect("the plan is TOML");
    validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn plans_and_suites_fit_the_schema_for_editors() {
    let validator = validator(include_str!("../../schema/plan.json"));
    let suites = concat!(env!("CARGO_MANIFEST_DIR"), "/../fsb-runner/src/suite");
    let files = fs::read_dir(suites).expect("suites").map(|entry| entry.expect("an entry").path());
    let suites = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let suites = suites.map(|path| fs::read_to_string(path).expect("a suite"));
    let shipped = fsb_runner::shipped_plan::REGISTRY.iter().map(|plan| plan.text.to_owned());
    let scratch = scratch();
    let resolved = ["quick", "iozone", "postmark", "filetree", "varmail"].map(|suite| {
        let output = fsb(scratch.path(), &["run", "ext4", "--suite", suite, "--print-plan"]);
        expect_code(&output, 0);
        stdout(&output)
    });
    let mut plans = 0;
    for plan in suites.chain(shipped).chain(resolved) {
        assert_eq!(faults(&validator, &plan), Vec::<String>::new(), "{plan}");
        plans += 1;
    }
    assert!(plans > 30, "{plans}");
}

#[test]
fn the_schema_for_editors_marks_what_fsb_refuses() {
    let validator = validator(include_str!("../../schema/plan.json"));
    let workload = |line: &str| format!("[[workload]]\nname = \"read\"\n{line}\n");
    assert_eq!(faults(&validator, &workload("rate = \"100..800/s\"\np99_below = \"1ms\"")), Vec::<String>::new());
    for plan in [
        "suit = \"quick\"".to_owned(),
        "[controls]\nswop = \"off\"".to_owned(),
        workload("cache = \"lukewarm\""),
        workload("threads = 2000"),
        workload("overwrite = true"),
        workload("p99_below = \"1ms\""),
        "[[workload]]\nname = \"command\"".to_owned(),
    ] {
        assert!(!faults(&validator, &plan).is_empty(), "{plan}");
    }
}
