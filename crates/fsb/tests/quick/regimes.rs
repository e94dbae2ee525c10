//! In the cache, larger than the cache, past the cache: memory limits, validity checks, scales, and the end of a
//! matrix.

use std::fs;

use crate::common::regimes::*;
use crate::common::*;

#[test]
fn absurd_limits_and_files_that_fit_are_refused_before_anything_is_touched() {
    let scratch = scratch();
    fs::write(scratch.path().join("out.toml"), OUT).unwrap();
    let requests: &[(&[&str], &str)] = &[
        (&["--control", "memory-limit=1M"], "control/invalid-value"),
        (&["--control", "memory-limit=much"], "control/invalid-value"),
        (&["--control", "memory-limit=32M:rope"], "control/invalid-value"),
        (&["--control", "memory-limit=48M"], "plan/invalid"),
        (&["--scale", "0"], "plan/invalid"),
        (&["--scale", "1/4096"], "plan/invalid"),
    ];
    let requests: Vec<(Vec<&str>, &str)> = requests
        .iter()
        .map(|(extra, code)| ([&["run", "out.toml", "null", "--out", "run"], *extra].concat(), *code))
        .collect();
    let requests: Vec<(&[&str], &str)> = requests.iter().map(|(words, code)| (words.as_slice(), *code)).collect();
    expect_refusals("regimes", scratch.path(), &requests);
    let keep = ["run", "out.toml", "null", "--out", "run", "--control", "memory-limit=keep"];
    fails(scratch.path(), &keep, 2, "plan/invalid");
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_limit_above_memory_is_refused() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    let arguments = ["run", "warm.toml", "null", "--out", "run", "--control", "memory-limit=900T"];
    fails(scratch.path(), &arguments, 2, "control/invalid-value");
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_matrix_ends_in_findings_of_every_pair() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    let targets = ["a=null", "b=null,slowdown=20%", "c=null"];
    let arguments = [&["run", "warm.toml", "--seed", "7", "--out", "run", "-q"][..], &targets].concat();
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, 0);
    let screen = stdout(&output);
    let findings: Vec<&str> = screen.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(
        findings,
        [
            "- b is slower than a at read, warm: −16 % (95 % CI −18…−13), 9 of 9 cells",
            "- b is slower than a at rewrite, warm: −16 % (95 % CI −21…−11), 9 of 9 cells",
            "- c is faster than b at read, warm: +19 % (95 % CI +15…+22), 9 of 9 cells",
            "- c is faster than b at rewrite, warm: +20 % (95 % CI +12…+28), 9 of 9 cells",
        ]
    );
    let page = fs::read_to_string(scratch.path().join("run/report.html")).unwrap();
    let section = page.split("id=\"findings\"").nth(1).expect("a section of its own").replace('\u{a0}', " ");
    for finding in &findings {
        assert!(section.contains(finding.trim_start_matches("- ")), "{finding}");
    }
    // The same rectangles as those of fsb compare.
    let compared = fsb(scratch.path(), &["compare", "run", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(stdout(&compared).as_str()).unwrap();
    let told: Vec<&str> =
        document["findings"].as_array().unwrap().iter().map(|f| f["text"].as_str().unwrap()).collect();
    assert!(!told.is_empty() && told.iter().all(|text| screen.contains(text)), "{told:?}");
    // One block is only described: there are no findings.
    let few = fsb(scratch.path(), &[&arguments[..3], &["9", "--blocks", "1", "--out", "few", "-q"], &targets].concat());
    expect_code(&few, 0);
    assert!(!fs::read_to_string(scratch.path().join("few/report.html")).unwrap().contains("id=\"findings\""));
}

#[test]
fn a_scale_is_recorded_shown_and_not_compared_silently() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    let arguments = |out, scale| ["run", "warm.toml", "null", "--seed", "7", "--out", out, "-q", "--scale", scale];
    let output = fsb(scratch.path(), &arguments("half", "50%"));
    expect_code(&output, 0);
    assert!(stdout(&output).contains(" · scale 1/2 · "), "{}", stdout(&output));
    let recorded = record(&scratch.path().join("half"));
    assert_eq!((&recorded["plan"]["scale"], &recorded["plan"]["size"]), (&0.5.into(), &(1u64 << 30).into()));
    let sizes: Vec<u64> =
        recorded["cells"].as_array().unwrap().iter().filter_map(|c| c["workload"]["file_size"].as_u64()).collect();
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&(32 << 10)), Some(&(128 << 10))));
    expect_code(&fsb(scratch.path(), &arguments("whole", "1")), 0);
    let compared = fsb(scratch.path(), &["compare", "half", "whole"]);
    expect_code(&compared, 0);
    let text = stdout(&compared);
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("measured at different scales (half: 0.5; whole: 1)"), "{text}");
}

/// One run was limited by a cgroup of version 1, the other by one of version 2.
#[test]
fn limits_by_different_means_are_shown_and_not_judged() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    for (target, mechanism) in [("null", "cgroup v1"), ("slow=null,slowdown=50%", "cgroup v2")] {
        let out = mechanism.replace(' ', "-");
        let output = fsb(scratch.path(), &["run", "warm.toml", target, "--seed", "7", "--out", &out, "-q"]);
        expect_code(&output, 0);
        let path = scratch.path().join(&out).join("trials.jsonl");
        let held = trials(&scratch.path().join(&out)).into_iter().map(|mut trial| {
            trial["observed"]["memory_limit"] =
                serde_json::json!({"mechanism": mechanism, "limit_bytes": 32 << 20, "reached": true});
            trial.to_string() + "\n"
        });
        let held: String = held.collect();
        fs::write(path, held).unwrap();
    }
    let alike = fsb(scratch.path(), &["compare", "cgroup-v1", "a=cgroup-v1", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(stdout(&alike).as_str()).unwrap();
    assert_eq!(document["unjudged"], serde_json::Value::Null);
    let arguments = ["compare", "cgroup-v1", "cgroup-v2", "--format", "json", "--fail-if", "slower"];
    let compared = fsb_json(scratch.path(), &arguments);
    expect_code(&compared, 2);
    message(&compared, "warning/gate-undecided");
    let document: serde_json::Value = serde_json::from_str(stdout(&compared).as_str()).unwrap();
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("different means") && warning.contains("cgroup-v1: cgroup v1; cgroup-v2: cgroup v2"),
        "{warning}"
    );
    assert!(document["findings"].as_array().unwrap().is_empty());
    let operations = document["operations"].as_array().unwrap();
    assert!(!operations.is_empty());
    for operation in operations {
        let against = &operation["estimate"]["against"]["slow"];
        assert_eq!(against["verdict"], "not_judged", "{operation:#}");
        assert!(against["ci95"].is_null() && against["ratio"].is_number());
    }
    let screen = fsb(scratch.path(), &["compare", "cgroup-v1", "cgroup-v2"]);
    assert!(stdout(&screen).contains("described, not judged"), "{}", stdout(&screen));
}
