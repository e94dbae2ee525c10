//! Run directories of fsb as sets.

use std::fs;
use std::path::Path;

use super::{compare, names, refused, set};
use crate::common::{assert_messages, expect_code, fast_plan, fsb, scratch, trials};

fn measure(directory: &Path, out: &str, targets: &[&str], seed: &str) {
    fast_plan(directory);
    let fixed = ["run", "fast.toml", "--out", out, "-q", "--seed", seed, "--blocks", "5"];
    expect_code(&fsb(directory, &[&fixed[..], targets].concat()), 0);
}

#[test]
fn each_target_is_a_set_and_blocks_pair_only_within_their_run() {
    let scratch = scratch();
    measure(scratch.path(), "one", &["a=null", "b=null,slowdown=100%"], "1");
    measure(scratch.path(), "two", &["a=null", "b=null,slowdown=100%"], "2");
    let method = |document: &serde_json::Value, set: &str| {
        let estimate = &document["operations"][0]["estimate"]["against"][set];
        (estimate["method"].as_str().unwrap().to_owned(), estimate["n"].as_u64().unwrap())
    };
    let (document, _) = compare(scratch.path(), &["one"]);
    assert_eq!(names(&document), ["a", "b"]);
    assert_eq!(method(&document, "b"), ("paired".to_owned(), 5));
    let (document, _) = compare(scratch.path(), &["old=one", "new=two/"]);
    assert_eq!(names(&document), ["old/a", "old/b", "new/a", "new/b"]);
    assert_eq!(method(&document, "old/b").0, "paired");
    assert_eq!(method(&document, "new/a").0, "welch");
    let (document, _) = compare(scratch.path(), &["one", "two"]);
    assert_eq!(names(&document), ["one/a", "one/b", "two/a", "two/b"]);
    // Two runs with one name are one set for each target, compared run by run.
    let (document, _) = compare(scratch.path(), &["both=one,two"]);
    let paired = ("paired_runs".to_owned(), 2);
    assert_eq!((names(&document), method(&document, "both/b")), (vec!["both/a", "both/b"], paired));
    let ratio = |document: &serde_json::Value, set: &str, at: usize| {
        document["operations"][at]["estimate"]["against"][set]["ratio"].as_f64().unwrap().ln()
    };
    let halves = ["one", "two"].map(|run| ratio(&compare(scratch.path(), &[run]).0, "b", 0));
    assert!((ratio(&document, "both/b", 0) - (halves[0] + halves[1]) / 2.0).abs() < 1e-9);
    refused(scratch.path(), &[&format!("x=one,{}", &set("x", "iozone-2010/xfs")[2..])], "compare/invalid-set");
    refused(scratch.path(), &["one", "-o", "one/run.json"], "arguments/conflict");
}

#[test]
fn controls_that_differ_are_named() {
    let scratch = scratch();
    for (out, seed) in [("one", "1"), ("two", "2")] {
        measure(scratch.path(), out, &["a=null"], seed);
    }
    let hold = |run: &str, control: Option<[&str; 2]>| {
        let path = scratch.path().join(run).join("run.json");
        let mut record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let controls = record["controls"].as_object_mut().unwrap();
        controls.remove("idle");
        if let Some([requested, observed]) = control {
            let seen = serde_json::json!({ "requested": requested, "observed": observed, "effective": true });
            controls.insert("idle".to_owned(), seen);
        }
        fs::write(&path, record.to_string()).unwrap();
    };
    let said = || compare(scratch.path(), &["one", "two"]).0["warnings"].to_string();
    hold("one", None);
    hold("two", Some(["keep", "idle processors sleep"]));
    assert!(!said().contains("idle"), "who knew no control kept it: {}", said());
    hold("two", Some(["auto", "idle processors poll"]));
    assert!(said().contains("with another idle (two: idle processors poll; one: not recorded)"), "{}", said());
    hold("one", Some(["auto", "idle processors poll"]));
    assert!(!said().contains("idle"), "{}", said());
}

#[test]
fn the_report_and_the_comparison_tell_the_same_ratios_and_verdicts() {
    let scratch = scratch();
    measure(scratch.path(), "run", &["a=null", "b=null,slowdown=100%"], "7");
    let report = fsb(scratch.path(), &["report", "run", "--format", "json"]);
    expect_code(&report, 0);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let (document, _) = compare(scratch.path(), &["run"]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let operations = document["operations"].as_array().unwrap();
    let mut order: Vec<_> = operations.iter().map(|operation| &operation["workload"]).collect();
    order.dedup();
    assert!(order.into_iter().eq(rows.iter().map(|row| &row["workload"])), "not in the plan's order");
    for row in rows {
        let is_row = |operation: &&serde_json::Value| {
            operation["workload"] == row["workload"] && operation["metric"] == row["metric"]
        };
        let operation = operations.iter().find(is_row).unwrap();
        let ours = operation["estimate"]["against"]["b"]["ratio"].as_f64().unwrap();
        let theirs = row["cells"][1]["against"]["ratio"].as_f64().unwrap();
        assert!((ours / theirs - 1.0).abs() < 1e-9, "{}: {ours} and {theirs}", row["workload"]);
        let verdicts =
            [&operation["estimate"]["against"]["b"], &row["cells"][1]["against"]].map(|found| &found["verdict"]);
        assert_eq!(verdicts[0], verdicts[1], "{}", row["workload"]);
    }
}

#[test]
fn cells_that_differ_in_sizes_only_are_a_grid() {
    let scratch = scratch();
    let cell = |name: &str, size: &str, block: &str| {
        format!("[[workload]]\nname = '{name}'\nfile_size = '{size}'\nblock_size = '{block}'\ncache = 'warm'\n")
    };
    let mut plan = "[controls]\nguest-memory = 'off'\n[repetition]\nsample_time = '1ms'\n".to_owned();
    for (size, block) in [("1M", "128K"), ("2M", "256K"), ("1M", "256K")] {
        plan += &cell("read", size, block).replace("cache", &format!("label = 'read {block} of {size}, warm'\ncache"));
    }
    let unlabelled = "[controls]\nguest-memory = 'off'\n[repetition]\nsample_time = '1ms'\n".to_owned()
        + &["64K", "128K", "256K"].map(|block| cell("read", "1M", block)).concat();
    for (name, text, workloads) in [("labelled", &plan, 3), ("grid", &unlabelled, 1)] {
        let file = format!("{name}.toml");
        fs::write(scratch.path().join(&file), text).unwrap();
        let run = ["run", &file, "a=null", "b=null", "--blocks", "5", "--out", name, "-q", "--seed", "1"];
        expect_code(&fsb(scratch.path(), &run), 0);
        let (document, _) = compare(scratch.path(), &[name]);
        let operations = document["operations"].as_array().unwrap().iter();
        let rates: Vec<_> = operations.filter(|operation| operation["metric"] == "throughput").collect();
        assert_eq!(rates.len(), workloads, "{name}");
    }
    let (document, _) = compare(scratch.path(), &["grid"]);
    let grid = &document["operations"][0];
    assert_eq!(grid["workload"], "read, warm");
    let sizes: Vec<u64> =
        grid["by_record_size"].as_array().unwrap().iter().filter_map(|slice| slice["bytes"].as_u64()).collect();
    assert_eq!(sizes, [65536, 131072, 262144]);
    assert_eq!(grid["grid"]["against"]["b"]["cells"], 3);
}

#[test]
fn failed_trials_are_counted_and_superseded_ones_are_not_used() {
    let scratch = scratch();
    measure(scratch.path(), "run", &["a=null", "b=null"], "5");
    let path = scratch.path().join("run/trials.jsonl");
    let label = trials(&scratch.path().join("run"))[0]["workload"].as_str().unwrap().to_owned();
    let mut lines = Vec::new();
    for mut trial in trials(&scratch.path().join("run")) {
        if trial["target"] == "b" && trial["phase"] == "measured" && trial["workload"] == label.as_str() {
            match trial["block"].as_u64().unwrap() {
                1 => (trial["outcome"], trial["error"]) = ("failed".into(), "no space".into()),
                2 => (trial["outcome"], trial["error"]) = ("invalid".into(), "not cold".into()),
                3 => {
                    let mut old = trial.clone();
                    old["superseded"] = true.into();
                    old["metrics"][0]["value"] = 1e30.into();
                    lines.push(old.to_string());
                }
                4 => {
                    let mut again = trial.clone();
                    (again["attempt"], again["metrics"][0]["value"]) = (2.into(), 1e30.into());
                    lines.push(again.to_string());
                }
                _ => {}
            }
        }
        lines.push(trial.to_string());
    }
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let (document, warnings) = compare(scratch.path(), &["run"]);
    // A run on a busy machine may have more warnings.
    let of_target: Vec<&str> = warnings.lines().filter(|warning| warning.starts_with("run, b: ")).collect();
    assert_messages("compare_left_out", scratch.path(), &of_target.join("\n"));
    let mut operations = document["operations"].as_array().unwrap().iter();
    let first = |operation: &&serde_json::Value| {
        operation["workload"].as_str().unwrap().starts_with(&label) && operation["better"] == "higher"
    };
    let pooled = &operations.find(first).unwrap()["classic"]["sets"]["b"];
    assert_eq!(pooled["n"], 3, "five blocks but for the failed and the invalid one");
    assert_eq!(pooled["max"], 1e30, "the second attempt of block 4, and nothing of what was superseded in block 3");
    assert!(pooled["median"].as_f64().unwrap() < 1e20);
}

#[test]
fn run_directories_that_cannot_be_read_are_refused() {
    let scratch = scratch();
    for (name, text, code) in
        [("newer", "{\"schema\": \"fsbench/run/3\"}", "store/newer"), ("broken", "{", "store/syntax")]
    {
        fs::create_dir(scratch.path().join(name)).unwrap();
        fs::write(scratch.path().join(name).join("run.json"), text).unwrap();
        refused(scratch.path(), &[name], code);
    }
}
