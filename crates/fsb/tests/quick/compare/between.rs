//! Comparisons between runs: the run is the unit.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::contract::check;
use super::{compare, set};
use crate::common::{expect_code, fast_plan, fsb, fsb_json, has_message, message, scratch, stdout, trials};

/// Measures the run that the others are copies of.
fn measure(directory: &Path) {
    fast_plan(directory);
    let run = ["run", "fast.toml", "a=null", "b=null", "--out", "base/run", "-q", "--seed", "1", "--blocks", "5"];
    expect_code(&fsb(directory, &run), 0);
}

/// Copies the run. The rates of the copy are `speed` times those of the first block, with a random factor that depends
/// on `luck` and workload. No trial of the copy is affected by interference.
fn copy(directory: &Path, name: &str, luck: u64, speed: impl Fn(&str) -> f64, record: impl FnOnce(&mut Value)) {
    let (from, to) = (directory.join("base/run"), directory.join(name));
    fs::create_dir_all(&to).unwrap();
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(from.join("run.json")).unwrap()).unwrap();
    record(&mut stored);
    fs::write(to.join("run.json"), stored.to_string()).unwrap();
    let mut lines = Vec::new();
    for mut trial in trials(&from) {
        let (label, block) = (trial["workload"].as_str().unwrap().len() as u64, trial["block"].as_u64().unwrap());
        let target = trial["target"].as_str().unwrap().to_owned();
        let spread = |number: u64| (number % 7) as f64 / 7.0 - 0.5;
        let own = u64::from(target.as_bytes()[0]);
        let chance = 0.02 * spread(luck * 5 + label * 3)
            + 0.01 * spread(luck * own + label * 2)
            + 0.004 * spread(block * 3 + label);
        trial["interference"] = serde_json::json!([]);
        if let Some(value) = trial.pointer_mut("/metrics/0/value") {
            *value = (1e6 * speed(&target) * chance.exp()).into();
        }
        lines.push(trial.to_string());
    }
    fs::write(to.join("trials.jsonl"), lines.join("\n") + "\n").unwrap();
}

/// Makes copies `old1`, `old2` … and `new1`, `new2` …; `speed` returns the speed of each target in the new ones.
fn both_sides(directory: &Path, runs: u64, speed: impl Fn(&str) -> f64, record: impl Fn(&mut Value)) {
    for number in 1..=runs {
        copy(directory, &format!("old{number}"), number, |_| 1.0, |_| ());
        copy(directory, &format!("new{number}"), number + 4, &speed, &record);
    }
}

fn gate(directory: &Path, old: &str, new: &str, more: &[&str]) -> Output {
    let sides = [format!("old={old}"), format!("new={new}")];
    let arguments = ["compare", &sides[0], &sides[1], "--fail-if", "slower"];
    fsb_json(directory, &[&arguments[..], more].concat())
}

/// Returns the sets that failed the gate.
fn slower(output: &Output) -> Vec<String> {
    let failed = message(output, "warning/gate-failed");
    let sets = failed["fields"]["slower"].as_array().expect("sets").iter();
    sets.map(|set| format!("{} < {}", set["set"].as_str().unwrap(), set["baseline"].as_str().unwrap())).collect()
}

/// Returns the reason why the gate could not decide.
fn undecided(output: &Output) -> Value {
    message(output, "warning/gate-undecided")["fields"].clone()
}

/// Returns the output with wrapped lines joined.
fn unwrapped(output: &Output) -> String {
    stdout(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

const THREE: [&str; 2] = ["old1,old2,old3", "new1,new2,new3"];

#[test]
fn one_run_on_each_side_has_no_verdict_unless_the_variation_is_stated() {
    let scratch = scratch();
    measure(scratch.path());
    both_sides(scratch.path(), 1, |target| if target == "b" { 0.6 } else { 1.0 }, |_| ());
    let output = gate(scratch.path(), "old1", "new1", &[]);
    expect_code(&output, 2);
    assert_eq!(undecided(&output)["reason"], "one_run");
    let unknown = "one run on each side: the variation between runs is unknown";
    let shown = unwrapped(&output);
    assert!(shown.starts_with("Target by target: "), "{shown}");
    assert!(shown.contains(&format!("All sets: 12 workloads, {unknown}.")), "{shown}");
    assert!(shown.contains(&format!("new/b against old/b, in these runs (n = 1): not judged, {unknown}")), "{shown}");
    let output = gate(scratch.path(), "old1", "new1", &["--between", "2%"]);
    expect_code(&output, 1);
    assert_eq!(slower(&output), ["new/b < old/b"]);
    assert!(unwrapped(&output).contains("2 % between runs as stated"), "{}", unwrapped(&output));
    let output = gate(scratch.path(), "old1", "new1", &["--between", "100%"]);
    expect_code(&output, 0);
    assert!(!has_message(&output, "warning/gate-failed"));
    // A gate that passes because nothing is known reports that.
    let open = message(&output, "note/gate-open");
    assert!(open["fields"]["undecided"].as_u64().unwrap() > 0, "{open}");
}

#[test]
fn three_runs_on_each_side_are_judged_as_three_values() {
    let scratch = scratch();
    measure(scratch.path());
    both_sides(scratch.path(), 3, |target| if target == "b" { 0.6 } else { 1.0 }, |_| ());
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 1);
    assert_eq!(slower(&output), ["new/b < old/b"]);
    let shown = unwrapped(&output);
    assert!(shown.contains("new/b against old/b, in these runs (n = 3): slower at "), "{shown}");
    assert!(shown.contains("is detectable (median of 12 comparisons)"), "{shown}");
    let document = check(scratch.path(), &[&format!("old={}", THREE[0]), &format!("new={}", THREE[1])]);
    let sizes = |set: usize| (document["sets"][set]["runs"].as_u64(), document["sets"][set]["blocks"].as_u64());
    assert_eq!(sizes(0), (Some(3), Some(15)));
    let estimate = &document["operations"][0]["estimate"]["against"]["new/a"];
    assert_eq!((&estimate["method"], &estimate["n"]), (&"welch".into(), &3.into()));
    assert!(estimate["power"]["detectable"].as_f64().unwrap() < 0.2, "{estimate}");
    let output = gate(scratch.path(), THREE[0], "old1,old2,new1", &[]);
    expect_code(&output, 0);
}

#[test]
fn the_gate_refuses_runs_of_low_trust_by_name() {
    let scratch = scratch();
    measure(scratch.path());
    both_sides(scratch.path(), 3, |_| 0.6, |_| ());
    let path = scratch.path().join("new2/run.json");
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    record["warnings"] = serde_json::json!([{ "kind": "concurrent", "run": "process 7", "more": 0 }]);
    fs::write(&path, record.to_string()).unwrap();
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 2);
    assert_eq!(undecided(&output), serde_json::json!({ "reason": "low_trust", "runs": ["new2"] }));
}

#[test]
fn sides_of_different_sessions_need_the_variation_between_sessions() {
    let scratch = scratch();
    measure(scratch.path());
    both_sides(scratch.path(), 3, |_| 0.6, |record| record["segments"][0]["boot_id"] = "another boot".into());
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 2);
    assert_eq!(undecided(&output)["reason"], "no_shared_session");
    expect_code(&gate(scratch.path(), THREE[0], THREE[1], &["--between", "2%"]), 1);
    // Three runs in each of three sessions show the variation between sessions.
    for number in 1..=3 {
        for side in ["old", "new"] {
            let path = scratch.path().join(format!("{side}{number}/run.json"));
            let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            record["segments"][0]["boot_id"] = format!("{side} {number}").into();
            fs::write(&path, record.to_string()).unwrap();
        }
    }
    expect_code(&gate(scratch.path(), THREE[0], THREE[1], &[]), 1);
}

#[test]
fn earlier_runs_of_the_plan_judge_ratios_of_targets() {
    let scratch = scratch();
    measure(scratch.path());
    both_sides(scratch.path(), 1, |target| if target == "b" { 0.6 } else { 1.0 }, |_| ());
    let ratio = |output: &Output| {
        let shown = unwrapped(output);
        shown.split_once("difference in differences").expect("the ratios").1.to_owned()
    };
    let judged = "new/b over new/a against old/b over old/a, in these runs (n = 1): slower at ";
    let output = gate(scratch.path(), "old1", "new1", &[]);
    assert!(!ratio(&output).contains(judged), "{}", ratio(&output));
    for number in 1..=4 {
        copy(scratch.path(), &format!("earlier{number}"), number + 9, |_| 1.0, |_| ());
    }
    copy(scratch.path(), "elsewhere", 1, |_| 1.0, |record| record["host"]["cpu"] = "another processor".into());
    let output = gate(scratch.path(), "old1", "new1", &[]);
    expect_code(&output, 2);
    assert!(ratio(&output).contains(judged), "{}", ratio(&output));
    assert!(ratio(&output).contains("in 4 earlier runs"), "{}", ratio(&output));
}

#[test]
fn conditions_that_differ_stand_before_any_number() {
    let scratch = scratch();
    measure(scratch.path());
    both_sides(
        scratch.path(),
        1,
        |_| 1.0,
        |record| {
            record["segments"][0]["kernel"] = "7.7.7".into();
            record["targets"]["a"]["features"] = serde_json::json!(["bigalloc"]);
        },
    );
    let output = fsb(scratch.path(), &["compare", "old1", "new1"]);
    expect_code(&output, 0);
    let shown = unwrapped(&output);
    assert!(shown.starts_with("warning: the runs differ in the kernel release (old1: "), "{shown}");
    // Standard error has it as well.
    compare(scratch.path(), &["old1", "new1"]);
    let document = check(scratch.path(), &["old1", "new1", "--between", "5%"]);
    let conditions = document["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1, "features are known of one side only: {conditions:?}");
    assert_eq!(conditions[0]["condition"], "kernel");
    assert_eq!(conditions[0]["observed"][1], serde_json::json!({"runs": ["new1"], "value": ["7.7.7"]}));
}

#[test]
fn three_results_of_another_tool_on_each_side_are_judged() {
    let scratch = scratch();
    let runs = |name: &str, file: &str| {
        let files: Vec<String> =
            (1..=3).map(|run| set("", &format!("iozone-2010/{file}{run}.iozone"))[1..].to_owned()).collect();
        format!("{name}={}", files.join(","))
    };
    let sets = [runs("xfs", "xfs/xfs"), runs("ext4", "ext4/ext4_")];
    let output = fsb(scratch.path(), &["compare", &sets[0], &sets[1]]);
    expect_code(&output, 0);
    let shown = unwrapped(&output);
    assert!(shown.contains("Only 3 runs: intervals hold within one session."), "{shown}");
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1]]);
    let verdict = |operation: &Value| operation["estimate"]["against"]["ext4"]["verdict"].as_str().unwrap().to_owned();
    let verdicts: Vec<String> = document["operations"].as_array().unwrap().iter().map(verdict).collect();
    assert!(verdicts.iter().any(|verdict| verdict == "slower"), "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| verdict != "not_judged"), "{verdicts:?}");
}

#[test]
fn an_unsafe_target_is_marked_in_a_comparison_and_does_not_win() {
    let scratch = scratch();
    let targets = ["run", "null,slowdown=30%", "null,unsafe", "--budget", "20s", "--seed", "7", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &targets), 0);
    let compared = |arguments: &[&str]| {
        let output = fsb(scratch.path(), &[&["compare", "run"], arguments].concat());
        expect_code(&output, 0);
        stdout(&output)
    };
    let text = compared(&[]);
    assert!(text.contains("null,unsafe (unsafe)"), "{text}");
    assert!(!text.contains("null,unsafe is") && !text.contains("null,unsafe (unsafe) is faster at"), "{text}");
    let json: Value = serde_json::from_str(&compared(&["--format", "json"])).unwrap();
    assert_eq!(json["sets"][1]["name"], "null,unsafe (unsafe)");
    let outcomes = json["operations"].as_array().unwrap().iter().map(|found| found["ranking"]["outcome"].to_string());
    assert!(outcomes.clone().all(|outcome| !outcome.contains("winner")), "{:?}", outcomes.collect::<Vec<_>>());
    // The mark may be omitted.
    compared(&["--baseline", "null,unsafe"]);
}
