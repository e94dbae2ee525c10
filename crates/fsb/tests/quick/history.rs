//! `fsb history`: runs on the null file system are copied with other times and values, so that
//! their series are known.

use std::fs;

use serde_json::{Value, json};

use crate::common::history::{Series, expect_writers_to_lose_nothing};
use crate::common::{
    JSON, expect_code, fails, fsb_json, message, read_json, stderr, stdout, succeeds, trials,
    words, write_trials,
};

fn environments(document: &Value) -> &Vec<Value> {
    document["series"][0]["environments"]
        .as_array()
        .expect("environments")
}

#[test]
fn a_step_is_found_with_its_size_place_and_labels() {
    let mut series = Series::new();
    series.add(30, 1.0, "6.1").add(8, 0.9, "6.1");
    series.index();
    let [last, first] = [29, 30].map(|number| series.run(number).display().to_string());
    series.history(&["add", &last, "--label", "commit=abc"]);
    series.history(&[
        "add",
        &first,
        "--label",
        "commit=def",
        "--label",
        "branch=main",
    ]);
    let document = series.show(&[]);
    let found = &environments(&document)[0];
    assert_eq!(found["levels"].as_array().unwrap().len(), 2, "{found:#}");
    let change = &found["changes"][0];
    assert_eq!(
        (&change["first_after"], &change["verdict"]),
        (&json!(30), &json!("slower"))
    );
    let differences = json!([{"name": "branch", "before": null, "after": "main"},
                             {"name": "commit", "before": "abc", "after": "def"}]);
    assert_eq!(change["differences"], differences);
    let text = series.history(&["changes"]);
    let line = text
        .lines()
        .find(|line| line.contains("read 1M, cold on a=null"))
        .expect("a line");
    assert!(
        line.starts_with("2026-01-02 06:00  ") && line.contains("slower -10 %"),
        "{line}"
    );
    assert!(line.contains("commit: abc → def"), "{line}");
    // The target b varies by less than matters.
    let line = text
        .lines()
        .find(|line| line.contains("read 1M, cold on b=null"))
        .expect("a line");
    assert!(line.contains("no change found; with 38 runs"), "{line}");
    assert!(
        text.contains("changes in 3; no change found in 3, where one of 3 % half-way"),
        "{text}"
    );
    let shown = series.history(&["show", "read 1M, cold on a=null"]);
    assert!(
        shown.contains("Runs vary by ") && shown.contains("after the run of 2026-01-02 05:00"),
        "{shown}"
    );
}

#[test]
fn the_documents_follow_their_schemas() {
    let mut series = Series::new();
    series
        .add(12, 1.0, "6.1")
        .add(12, 0.5, "6.1")
        .add(3, 0.5, "6.2");
    series.index();
    let runs = [0, 26].map(|number| series.run(number).display().to_string());
    let commands: [(&str, &[&str]); 3] = [
        ("history", &["changes"]),
        ("history", &["export"]),
        ("history-diff", &["diff", &runs[0], &runs[1]]),
    ];
    for (schema, arguments) in commands {
        let schema = format!(
            "{}/../../docs/schema/{schema}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let schema = read_json(schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let printed = series.history(&[arguments, &["--format", "json"]].concat());
        let document: Value = serde_json::from_str(&printed).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{arguments:?}: {errors:?}");
        assert!(!document["series"].as_array().unwrap().is_empty());
    }
}

#[test]
fn each_series_is_a_table_and_a_test_of_otava() {
    let mut series = Series::new();
    series.add(12, 1.0, "6.1");
    series.index();
    let arguments = [
        "history",
        "export",
        "--format",
        "otava",
        "--store",
        "index.sqlite",
    ];
    fails(series.path(), &arguments, 2, "arguments/conflict");
    series.history(&["export", "--format", "otava", "-o", "otava/"]);
    let directory = series.path().join("otava");
    let configuration = fs::read_to_string(directory.join("otava.yaml")).unwrap();
    let document = series.history(&["export", "--format", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let all = document["series"].as_array().unwrap();
    assert_eq!(configuration.matches("type: csv").count(), all.len());
    for one in all {
        let name = format!("{}.csv", one["id"].as_str().unwrap());
        assert!(configuration.contains(&name), "{configuration}");
        let table = fs::read_to_string(directory.join(name)).unwrap();
        let mut rows = table.lines();
        assert_eq!(rows.next(), Some("time,run,source,value"));
        for row in rows {
            let mut fields = row.split(',');
            let (time, value) = (fields.next().unwrap(), fields.next_back().unwrap());
            assert!(time.ends_with('Z') && value.parse::<f64>().is_ok(), "{row}");
        }
    }
}

#[test]
fn another_kernel_is_another_environment_and_no_regression() {
    let mut series = Series::new();
    series.add(30, 1.0, "6.1").add(15, 0.8, "6.2");
    series.index();
    let document = series.show(&[]);
    let [before, after] = &environments(&document)[..] else {
        panic!("{document:#}")
    };
    assert_eq!(
        (&before["changes"], &after["changes"]),
        (&json!([]), &json!([]))
    );
    let differences = json!([{"name": "kernel", "before": "6.1", "after": "6.2"}]);
    assert_eq!(after["since"]["differences"], differences);
    assert!((after["since"]["ratio"].as_f64().unwrap() - 0.8).abs() < 0.02);
    let text = series.history(&["changes"]);
    assert!(
        text.contains("other environment") && text.contains("no change found; with 15 runs"),
        "{text}"
    );
    assert!(!text.contains("slower"), "{text}");
    let across = series.show(&["--across", "kernel"]);
    let change = &environments(&across)[0]["changes"][0];
    assert_eq!(
        (&change["verdict"], &change["differences"]),
        (&json!("slower"), &differences)
    );
    let names = words("history changes --across colour --store index.sqlite");
    fails(series.path(), &names, 2, "arguments/invalid-value");
}

#[test]
fn runs_that_show_nothing_cannot_tell_whether_anything_changed() {
    let mut series = Series::new();
    series.add(1, 1.0, "6.1");
    series.index();
    let text = series.history(&["changes"]);
    assert!(
        text.contains("cannot tell; with 1 run ") && !text.contains("no change found"),
        "{text}"
    );
    // Seven of ten runs are 15 to 40 % slower.
    for level in [0.8, 1.0, 0.7, 0.6, 1.0, 0.75, 0.62, 0.72, 0.84] {
        series.add(1, level, "6.1");
    }
    series.index();
    let text = series
        .history(&["changes"])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("a=null") && text.contains("cannot tell; with 10 runs "),
        "{text}"
    );
    assert!(
        text.contains("6 series of up to 10 runs: ") && text.contains("; 3 cannot tell, because"),
        "{text}"
    );
    let document: Value =
        serde_json::from_str(&series.history(&["changes", "--format", "json"])).unwrap();
    assert_eq!(document["series"], json!([]));
    let unchanged = document["unchanged"].as_array().unwrap();
    let [one, other] = ["a", "b"].map(|target| {
        let name = format!("read 1M, cold on {target}=null");
        unchanged
            .iter()
            .find(|series| series["name"] == name.as_str())
            .expect("a series")
    });
    assert_eq!(
        (&one["runs"], &one["detectable"]),
        (&json!(10), &Value::Null)
    );
    assert!(
        (0.03..0.5).contains(&other["detectable"].as_f64().unwrap()),
        "{other}"
    );
    let level = environments(&series.show(&[]))[0]["levels"][0].clone();
    assert_eq!(
        (&level["runs"], &level["detectable"]),
        (&json!(10), &Value::Null)
    );
    let shown = series.history(&["show", "read 1M, cold on b=null"]);
    assert!(
        shown.contains("no change found; with 10 runs a change of "),
        "{shown}"
    );
}

#[test]
fn a_run_that_lost_blocks_is_named_and_left_out() {
    let mut series = Series::new();
    series.add(2, 1.0, "6.1");
    let lost = series.run(1);
    let kept: Vec<Value> = trials(&lost)
        .into_iter()
        .filter(|trial| trial["block"] != 2)
        .collect();
    write_trials(&lost, &kept);
    let why = "trials.jsonl is incomplete: it holds 2 of the 3 blocks that the run made";
    let added = series.fsb(&["add", "run-000", "run-001"]);
    expect_code(&added, 0);
    assert!(
        stderr(&added).contains(&format!("run-001: left out: {why}")),
        "{}",
        stderr(&added)
    );
    assert!(stderr(&added).contains("1 run added"), "{}", stderr(&added));
    let compared = succeeds(series.path(), "compare run-000 run-001");
    let shown = stdout(&compared)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(shown.contains(&format!("run-001: {why}")), "{shown}");
}

#[test]
fn order_repetition_and_rebuilding_do_not_change_the_index() {
    let mut series = Series::new();
    series.add(6, 1.0, "6.1").add(2, 1.0, "6.2");
    series.index();
    let export = series.history(&["export", "--format", "json"]);
    series.index();
    assert_eq!(series.history(&["export", "--format", "json"]), export);
    let rebuilt = series.fsb(&["rebuild", JSON]);
    assert_eq!(
        message(&rebuilt, "note/indexed")["fields"],
        serde_json::json!({"change": "read", "runs": 8})
    );
    assert_eq!(series.history(&["export", "--format", "json"]), export);
    fs::remove_file(series.path().join("index.sqlite")).unwrap();
    for name in series.names().iter().rev() {
        series.history(&["add", name]);
    }
    assert_eq!(series.history(&["export", "--format", "json"]), export);
}

#[test]
fn writers_at_once_lose_nothing_and_a_killed_one_leaves_whole_runs() {
    let series = Series::new();
    expect_writers_to_lose_nothing(series, |series| {
        fs::remove_file(series.path().join("index.sqlite")).unwrap()
    });
}

#[test]
fn two_runs_are_compared_with_the_variation_of_the_others() {
    let mut series = Series::new();
    series.add(2, 1.0, "6.1");
    series.index();
    let [one, other] = [0, 1].map(|number| series.run(number).display().to_string());
    let few = series.history(&["diff", &one, &other]);
    assert!(few.contains("variation between runs unknown"), "{few}");
    series
        .add(10, 1.0, "6.1")
        .add(1, 0.5, "6.1")
        .add(1, 1.0, "6.2");
    series.index();
    let [slow, kernel] = [12, 13].map(|number| series.run(number).display().to_string());
    let text = series.history(&["diff", &one, &slow]);
    let after = text
        .split("read 1M, cold on a=null\n")
        .nth(1)
        .expect("the series");
    assert!(after.lines().next().unwrap().ends_with(" slower"), "{text}");
    let document: Value =
        serde_json::from_str(&series.history(&["diff", &one, &slow, "--format", "json"])).unwrap();
    assert_eq!(document["after"]["source"], slow, "{document:#}");
    let all = document["series"].as_array().unwrap();
    let found = all
        .iter()
        .find(|series| series["case"] == "read 1M, cold" && series["target"] == "a=null")
        .unwrap();
    assert_eq!(
        (&found["verdict"], &found["same_environment"]),
        (&json!("slower"), &json!(true)),
        "{found:#}"
    );
    let ratio = found["after"].as_f64().unwrap() / found["before"].as_f64().unwrap();
    assert!(
        (found["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9,
        "{found:#}"
    );
    let text = series.history(&["diff", &one, &kernel]);
    assert!(
        text.contains("kernel: 6.1 → 6.2") && text.contains("other environment"),
        "{text}"
    );
    assert!(
        !text.contains("slower") && !text.contains("faster"),
        "{text}"
    );
}

#[test]
fn results_of_other_tools_need_a_time() {
    let series = Series::new();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../fsb-stats/testdata/tool-output/fio-3.33.json"
    );
    let named = format!("ext4={file}");
    let add = ["history", "add", &named, "--store", "index.sqlite"];
    fails(series.path(), &add, 2, "history/no-time");
    series.history(&[
        "add",
        &named,
        "--at",
        "2026-01-31T18:00:00+01:00",
        "--label",
        "commit=abc",
    ]);
    series.history(&["add", &named, "--at", "2026-01-31T17:00"]);
    let table = series.history(&["export"]);
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert!(!rows.is_empty(), "{table}");
    for row in rows {
        assert!(
            row.contains(",fio,") && row.contains(",ext4,") && row.contains("2026-01-31T17:00:00Z"),
            "{row}"
        );
        assert!(row.contains("abc"), "a label is kept: {row}");
    }
}

#[test]
fn pruned_runs_leave_the_index_and_stay_on_disk() {
    let mut series = Series::new();
    series.add(30, 1.0, "6.1");
    series.index();
    fs::remove_dir_all(series.run(29)).unwrap();
    let kept = series.fsb(&["rebuild", JSON]);
    let path = message(&kept, "warning/not-indexed")["fields"]["path"].clone();
    assert!(path.as_str().unwrap().ends_with("run-029"), "{path}");
    assert!(series.history(&["prune", "--missing"]).contains("run-029"));
    series.history(&["prune", "--before", "2026-01-02"]);
    let left = series.history(&["export"]);
    assert!(
        !left.contains("run-023") && left.contains("run-024") && !left.contains("run-029"),
        "{left}"
    );
    assert!(series.run(0).join("run.json").is_file());
    fails(
        series.path(),
        "history prune --store index.sqlite",
        2,
        "arguments/missing",
    );
}

#[test]
fn unfinished_runs_and_unknown_names_are_refused() {
    let mut series = Series::new();
    fails(
        series.path(),
        "history list --store index.sqlite",
        2,
        "history/missing",
    );
    series.add(2, 1.0, "6.1");
    let path = series.run(1).join("run.json");
    let mut record = read_json(&path);
    record["stop_reason"] = Value::Null;
    fs::write(&path, record.to_string()).unwrap();
    let names = series.names();
    let output = fsb_json(
        series.path(),
        &[
            "history",
            "add",
            &names[0],
            &names[1],
            "--store",
            "index.sqlite",
        ],
    );
    expect_code(&output, 0);
    message(&output, "warning/not-indexed");
    let listed = series.history(&["list"]);
    assert!(
        listed.lines().count() >= 6 && listed.contains("read 1M, cold on a=null"),
        "{listed}"
    );
    fails(
        series.path(),
        "history show nothing --store index.sqlite",
        2,
        "history/unknown-series",
    );
    fails(
        series.path(),
        "history show read --store index.sqlite",
        2,
        "history/unknown-series",
    );
    fails(
        series.path(),
        "history diff zz zz --store index.sqlite",
        2,
        "history/unknown-run",
    );
    fs::write(
        series.path().join("text.sqlite"),
        "no database at all, but long enough to be one\n".repeat(40),
    )
    .unwrap();
    fails(
        series.path(),
        "history list --store text.sqlite",
        2,
        "history/not-a-history",
    );
}
