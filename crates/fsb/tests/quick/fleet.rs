//! `fsb fleet`: runs of many hosts as one answer.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{
    expect_code, fails, fsb_json, has_message, messages, read_json, record, scratch, stderr,
    stdout, succeeds,
};

const PLAN: &str = "[repetition]\nblocks = 6\nsample_time = '1ms'\n[[workload]]\nname = 'rename'\nfiles = 100\n\
    [[workload]]\nname = 'create'\nfiles = 100\n";

/// Makes runs on the null file system, whose second target is slower by that share, and names their
/// hosts.
fn hosts(directory: &Path, slowdowns: &[&str]) {
    fs::write(directory.join("small.toml"), PLAN).unwrap();
    for (place, slowdown) in slowdowns.iter().enumerate() {
        let (seed, out) = (format!("{}", place + 1), format!("fleet/host{place}"));
        let target = format!("other=null,slowdown={slowdown}");
        let arguments =
            format!("run small.toml base=null {target} --seed {seed} --out {out} --quiet");
        succeeds(directory, &arguments);
        change(&directory.join(&out), |record| {
            record["on"] = format!("root@web{place}").into();
            // The definitions of the targets are the same on all hosts.
            record["plan"]["targets"][1]["file_system"]["options"] = serde_json::json!([]);
        });
    }
}

fn change(run: &Path, change: impl FnOnce(&mut Value)) {
    let mut record = record(run);
    change(&mut record);
    fs::write(run.join("run.json"), record.to_string()).unwrap();
}

fn answer(directory: &Path, arguments: &[&str], code: i32) -> Value {
    let output = fsb_json(
        directory,
        &[&["fleet", "compare", "--format", "json"], arguments].concat(),
    );
    expect_code(&output, code);
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[test]
fn runs_of_many_hosts_are_one_answer() {
    let scratch = scratch();
    hosts(scratch.path(), &["20%", "24%", "28%"]);
    let document = answer(scratch.path(), &["fleet"], 0);
    let names: Vec<&str> = document["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|host| host["name"].as_str())
        .collect();
    assert_eq!(names, ["root@web0", "root@web1", "root@web2"]);
    let comparisons = document["comparisons"].as_array().unwrap();
    assert!(!comparisons.is_empty());
    for comparison in comparisons {
        assert_eq!(
            (
                &comparison["target"],
                comparison["hosts"].as_array().unwrap().len()
            ),
            (&"other".into(), 3)
        );
        let ratio = comparison["together"]["ratio"].as_f64().unwrap();
        // The simulated calls are slower by 24 % on average; the work between them is not.
        assert!((0.75..0.95).contains(&ratio), "{comparison}");
        assert_eq!(comparison["verdicts"]["faster"], 0, "{comparison}");
    }
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/fleet.json");
    let schema = read_json(schema);
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    // The parent and its directories are the same hosts, and each counts once.
    let same = answer(scratch.path(), &["fleet/host0", "fleet"], 0);
    assert_eq!(same["hosts"].as_array().unwrap().len(), 3);
    let text = succeeds(scratch.path(), "fleet compare fleet --each");
    let text = stdout(&text);
    assert!(
        text.starts_with("3 hosts; baseline: base\n")
            && text.contains("other is ")
            && text.contains("the mean of 3 hosts;"),
        "{text}"
    );
    assert!(text.contains("    root@web1  −"), "{text}");
    for (file, start) in [
        ("a.html", "<!doctype html>"),
        ("a.svg", "<svg "),
        ("a.pdf", "%PDF"),
        ("a.png", "\u{fffd}PNG"),
    ] {
        succeeds(scratch.path(), &["fleet", "compare", "fleet", "-o", file]);
        let content = fs::read(scratch.path().join(file)).unwrap();
        assert!(
            String::from_utf8_lossy(&content).starts_with(start),
            "{file}"
        );
    }
    // With the other baseline the ratios are inverted.
    let inverse = answer(scratch.path(), &["fleet", "--baseline", "other"], 0);
    let ratio = |document: &Value| {
        document["comparisons"][0]["together"]["ratio"]
            .as_f64()
            .unwrap()
    };
    assert!((ratio(&document) * ratio(&inverse) - 1.0).abs() < 1e-9);
}

#[test]
fn a_host_without_results_is_listed_and_stops_no_other() {
    let scratch = scratch();
    hosts(scratch.path(), &["10%", "12%", "14%", "16%"]);
    let at = |host: &str| scratch.path().join("fleet").join(host);
    fs::write(at("host1").join("run.json"), "{").unwrap();
    change(&at("host2"), |record| {
        record["segments"][0]["fsb_version"] = "0.0.1".into()
    });
    // A later run of the same host.
    change(&at("host3"), |record| {
        record["on"] = "root@web0".into();
        record["segments"][0]["started"] = "2000-01-01T00:00:00Z".into();
    });
    let output = fsb_json(scratch.path(), "fleet compare --format json fleet missing");
    expect_code(&output, 2);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["hosts"].as_array().unwrap().len(), 2);
    let left_out: Vec<(&str, &str)> = document["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| {
            (
                left["host"].as_str().unwrap(),
                left["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        left_out.iter().map(|(host, _)| *host).collect::<Vec<_>>(),
        ["fleet/host1", "root@web0", "missing"]
    );
    assert!(
        left_out[1].1.contains("2000-01-01") && left_out[2].1.contains("No such file"),
        "{left_out:?}"
    );
    assert!(
        document["warnings"][0]
            .as_str()
            .unwrap()
            .contains("different versions of fsb"),
        "{document}"
    );
    assert!(
        has_message(&output, "warning/host-left-out"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_comparison_of_runs_of_several_hosts_names_the_command_of_fleets() {
    let scratch = scratch();
    hosts(scratch.path(), &["20%", "24%"]);
    let command = |runs: &[&str]| {
        let output = fsb_json(scratch.path(), &[&["compare"], runs].concat());
        expect_code(&output, 0);
        let notes = messages(&output)
            .into_iter()
            .filter_map(|note| Some(note["message"].as_str()?.to_owned()));
        notes
            .filter(|note| note.contains("fsb fleet compare"))
            .collect::<Vec<_>>()
    };
    let both = ["fleet/host0", "fleet/host1"];
    let note = "2 hosts made these runs; for one answer of all of them: fsb fleet compare fleet/host0 fleet/host1";
    assert_eq!(
        (command(&both), command(&both[..1])),
        (vec![note.to_owned()], Vec::new())
    );
    let error = fails(scratch.path(), "compare fleet", 2, "compare/no-match");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .ends_with("one answer of all hosts: fsb fleet compare fleet"),
        "{error}"
    );
}

#[test]
fn requests_without_an_answer_are_errors() {
    let scratch = scratch();
    hosts(scratch.path(), &["10%"]);
    let refused = |arguments: &[&str], code: &str, part: &str| {
        let error = fails(scratch.path(), &[&["fleet"], arguments].concat(), 2, code);
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    };
    refused(
        &["compare", "missing"],
        "compare/nothing-to-compare",
        "missing",
    );
    refused(
        &["compare", "fleet", "--baseline", "xfs"],
        "compare/nothing-to-compare",
        "no target xfs",
    );
    refused(
        &["compare", "fleet", "-o", "a.docx"],
        "output/unknown-format",
        "docx",
    );
    fs::write(scratch.path().join("hosts"), "root@a\nroot@a\n").unwrap();
    refused(
        &["run", "small.toml", "--hosts", "hosts"],
        "input/invalid",
        "line 2",
    );
    refused(
        &["run", "small.toml", "--hosts", "none"],
        "input/unreadable",
        "none",
    );
    fs::write(scratch.path().join("hosts"), "# nothing\n").unwrap();
    refused(
        &["run", "small.toml", "--hosts", "hosts"],
        "input/invalid",
        "names no host",
    );
    fs::write(scratch.path().join("hosts"), "root@a\n").unwrap();
    fs::write(
        scratch.path().join("one.toml"),
        "targets = ['null']\nsuite = 'quick'\n",
    )
    .unwrap();
    refused(
        &["run", "one.toml", "--hosts", "hosts"],
        "plan/unfit",
        "two targets",
    );
}

#[test]
fn a_run_on_several_hosts_is_refused_with_the_command_for_them() {
    let scratch = scratch();
    let request = "run null --on one,two";
    let error = fails(scratch.path(), request, 2, "arguments/invalid-value");
    let help = error["help"].as_str().unwrap();
    assert!(help.contains("fsb fleet run"), "{help}");
}
