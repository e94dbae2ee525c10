//! Invalid controls are refused before anything is changed.

use super::*;

/// Invalid values of `--control`.
const VALUES: &[&str] = &[
    "dirty-ratio=101%",
    "dirty-ratio=some",
    "dirty-bytes=1",
    "dirty-expire=5ms",
    "dirty-writeback=soon",
    "boost=perhaps",
    "swap=of",
    "scheduler=a b",
    "read-ahead=100",
    "read-ahead=1T",
    "barriers=maybe",
    "cpus=3-1",
    "numa=x",
    "services=--now",
    "read-ahead",
];

#[test]
fn wrong_values_are_refused() {
    let scratch = scratch();
    let requests =
        VALUES.iter().map(|value| (["run", "null", "--out", "run", "--control", value], "control/invalid-value"));
    let mut requests: Vec<(Vec<&str>, &str)> = requests.map(|(words, code)| (words.to_vec(), code)).collect();
    requests.push((vec!["run", "null", "--control", "read-ahed=1M"], "control/unknown"));
    let both = ["run", "null", "--control", "dirty-ratio=9%", "--control", "dirty-bytes=1G"];
    requests.push((both.to_vec(), "control/conflict"));
    let requests: Vec<(&[&str], &str)> = requests.iter().map(|(words, code)| (words.as_slice(), *code)).collect();
    expect_refusals("controls", scratch.path(), &requests);
    // These messages list properties of this machine.
    for value in ["governor=turbo", "cpus=9999"] {
        fails(scratch.path(), &["run", "null", "--out", "run", "--control", value], 2, "control/invalid-value");
    }
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn targets_differ_only_in_controls_of_one_target() {
    let scratch = scratch();
    let plan = |controls: &str| format!("targets = ['null', {{ target = 'bare=null', controls = {controls} }}]\n");
    let plans = [
        (plan("{ swap = 'off' }"), "control/not-per-target"),
        (plan("{ barriers = 'of' }"), "control/invalid-value"),
        (plan("{ bariers = 'off' }"), "control/unknown"),
    ];
    expect_refused_plans("controls_of_targets", scratch.path(), &plans);
}

#[test]
fn barriers_stay_where_others_would_lose_data() {
    let scratch = scratch();
    let directory = scratch.path().to_string_lossy().into_owned();
    let output = fsb_json(scratch.path(), &["run", &directory, "--control", "barriers=off"]);
    // If the disk under the directory is unknown, fsb cannot switch its cache off, and the machine lacks the control.
    let found = match output.status.code() {
        Some(2) => expect_error(&output, 2, "control/risks-data"),
        _ => message(&output, "warning/control-unavailable"),
    };
    assert_eq!(found["fields"]["control"], "barriers", "{found}");
}
