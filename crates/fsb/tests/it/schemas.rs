//! What a run writes is what the published schemas say.

use crate::common::{expect_code, fast_plan, fsb, record, scratch, trials, turn};

fn validator(text: &str) -> jsonschema::Validator {
    let schema: serde_json::Value = serde_json::from_str(text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

#[test]
fn run_record_and_trials_fit_their_schemas() {
    let _turn = turn();
    let scratch = scratch();
    fast_plan(scratch.path());
    let targets =
        ["run", "fast.toml", "null", "broken=null,fail=enospc", "--blocks", "2", "--out", "run", "-q", "--seed", "3"];
    expect_code(&fsb(scratch.path(), &targets), 4);
    let run = scratch.path().join("run");
    let of_runs = validator(include_str!("../../schema/run.json"));
    let of_trials = validator(include_str!("../../schema/trial.json"));
    let check = |validator: &jsonschema::Validator, value: &serde_json::Value| {
        let errors: Vec<_> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
    };
    check(&of_runs, &record(&run));
    let trials = trials(&run);
    assert!(trials.iter().any(|trial| trial["outcome"] == "ok"));
    assert!(trials.iter().any(|trial| trial["outcome"] == "failed"));
    trials.iter().for_each(|trial| check(&of_trials, trial));
    // The schemas refuse something, too.
    let mut wrong = trials[0].clone();
    wrong["phase"] = "sometimes".into();
    assert!(!of_trials.is_valid(&wrong));
}
