//! Records of earlier and newer versions.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::*;

/// Copies a recorded run directory.
fn recorded(scratch: &Path, version: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/records").join(version);
    let copy = scratch.join(version);
    fs::create_dir(&copy).unwrap();
    for file in ["run.json", "trials.jsonl"] {
        fs::copy(source.join(file), copy.join(file)).unwrap();
    }
    copy
}

#[test]
fn every_earlier_version_is_reported_and_compared() {
    let scratch = scratch();
    for version in ["run-1-trial-1", "run-1-trial-2", "run-2-trial-2"] {
        let run = recorded(scratch.path(), version);
        let written = fs::read(run.join("trials.jsonl")).unwrap();
        let report = fsb(scratch.path(), &["report", version, "--format", "json"]);
        expect_code(&report, 0);
        let summary: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(summary["blocks"], 5, "{version}");
        let labels: Vec<&str> =
            summary["rows"].as_array().unwrap().iter().map(|row| row["workload"].as_str().unwrap()).collect();
        assert_eq!(labels, ["write 1M, durable", "append 4K, durable each", "create 4K files"], "{version}");
        let slower = &summary["rows"][1]["cells"][1]["against"];
        assert_eq!((slower["n"].as_u64(), slower["ratio"].as_f64().unwrap() < 1.0), (Some(5), true), "{slower}");
        let screen = stdout(&fsb(scratch.path(), &["report", version, "--notes"])).replace("\n  ", " ");
        assert!(screen.contains("CPU steal 3 %: 2 of 45 trials"), "{screen}");
        let compared = fsb(scratch.path(), &["compare", &format!("old={version}"), &format!("new={version}")]);
        expect_code(&compared, 0);
        assert_eq!(fs::read(run.join("trials.jsonl")).unwrap(), written, "a reader changes nothing");
    }
}

/// Kinds and fields that this version does not know are kept and printed.
#[test]
fn a_newer_minor_version_is_reported_with_what_it_added() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = ["run", "fast.toml", "null", "b=null", "--blocks", "5", "--seed", "3", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &arguments), 0);
    let run = scratch.path().join("run");
    let mut newer = record(&run);
    newer["schema"] = "fsbench/run/2.1".into();
    newer["stop_reason"] = json!({ "kind": "full_moon", "blocks": 5 });
    newer["stopping_rule"] = json!({ "kind": "moon", "phase": 0.5 });
    newer["placement"] = json!({ "in_turn": { "reason": { "kind": "eclipse" } } });
    newer["warnings"] = json!([{ "kind": "tide", "metres": 3 }]);
    newer["added"] = true.into();
    fs::write(run.join("run.json"), newer.to_string()).unwrap();
    let lines = trials(&run).into_iter().map(|mut trial| {
        trial["schema"] = "fsbench/trial/3.1".into();
        trial["interference"] = json!([{ "kind": "gravity", "newtons": 9.81 }]);
        trial["observed"]["altitude"] = 500.into();
        trial.to_string() + "\n"
    });
    let lines: String = lines.collect();
    fs::write(run.join("trials.jsonl"), lines).unwrap();
    let report = fsb(scratch.path(), &["report", "run", "--format", "html"]);
    expect_code(&report, 0);
    let text = stdout(&report);
    for added in ["full_moon", "moon", "eclipse", "tide", "gravity"] {
        assert!(text.contains(added), "{added}: {text}");
    }
}
