//! `fsb bisect` on lists: answers, refusals, and bisections that continue.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::common::*;

/// Bisects candidates of the null file system, each with its slowdown in percent.
fn list(directory: &Path, candidates: &str, theta: &str, out: &str) -> std::process::Output {
    let arguments = [
        "bisect",
        "--candidates",
        candidates,
        "null,slowdown={}%",
        "--workload",
        "create,files=100",
        "--seed",
        "7",
        "--theta",
        theta,
        "--sample-time",
        "20ms",
        "--quiet",
        "--out",
        out,
    ];
    fsb(directory, &arguments)
}

fn document(directory: &Path, out: &str) -> Value {
    let text = fs::read_to_string(directory.join(out).join("bisect.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_list_is_bisected_and_the_answer_printed_again() {
    let scratch = scratch();
    let output = list(scratch.path(), "1,1,1,1,1,14,14,14", "3%", "b");
    expect_code(&output, 0);
    let known = document(scratch.path(), "b");
    assert_eq!(known["ending"]["end"], "found", "{known:#}");
    assert_eq!(known["ending"]["place"]["earlier"], 4);
    assert_eq!(known["ending"]["place"]["later"], 5);
    let ratio = known["ending"]["change"]["ratio"].as_f64().unwrap();
    assert!((0.7..1.0).contains(&ratio), "{ratio}");
    let again =
        ["report b", "bisect --resume b"].map(|line| stdout(&fsb(scratch.path(), &words(line))));
    assert_eq!(again, [stdout(&output), stdout(&output)]);
    let printed = fsb(scratch.path(), &words("bisect --resume b --format json"));
    assert_eq!(
        serde_json::from_str::<Value>(&stdout(&printed)).unwrap(),
        known
    );
}

#[test]
fn an_interrupted_bisection_continues_with_the_numbers_of_a_whole_one() {
    let scratch = scratch();
    expect_code(&list(scratch.path(), "1,1,1,14,14,14", "3%", "b"), 0);
    let whole = document(scratch.path(), "b");
    let mut cut = whole.clone();
    cut.as_object_mut().unwrap().remove("ending");
    let steps = cut["steps"].as_array_mut().unwrap();
    assert!(steps.len() > 3, "{steps:?}");
    // The directories of the last steps stay, as those of a killed one do.
    steps.truncate(2);
    fs::write(scratch.path().join("b/bisect.json"), cut.to_string()).unwrap();
    let report = stdout(&fsb(scratch.path(), &words("report b")));
    assert!(report.starts_with("unfinished: step-002"), "{report}");
    succeeds(scratch.path(), "bisect --resume b --quiet");
    assert_eq!(document(scratch.path(), "b"), whole);
}

#[test]
fn a_budget_that_ends_can_be_resumed() {
    let scratch = scratch();
    let arguments = words(
        "bisect --candidates 1,1,1,3 null,slowdown={}% --workload create,files=100 --seed 7 \
         --theta 0.1% --budget 1s --out b -q",
    );
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, 2);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("cannot tell within the budget"),
        "{message}"
    );
    assert!(message.contains("fsb bisect --resume b"), "{message}");
    assert!(document(scratch.path(), "b")["ending"].is_null());
}

#[test]
fn ends_without_a_difference_and_in_the_wrong_order_are_no_answer() {
    let scratch = scratch();
    for (candidates, out, end) in [
        ("5,5,5,5", "alike", "ends_alike"),
        ("30,30,1,1", "reversed", "reversed"),
    ] {
        let output = list(scratch.path(), candidates, "10%", out);
        expect_code(&output, 2);
        let known = document(scratch.path(), out);
        assert_eq!(known["ending"]["end"], end);
        let steps = known["steps"].as_array().unwrap();
        assert!(
            steps.iter().all(|step| step["purpose"] == "ends"),
            "{known:#}"
        );
    }
}

#[test]
fn wrong_requests_are_refused() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("full")).unwrap();
    fs::write(scratch.path().join("full/x"), "").unwrap();
    fs::write(scratch.path().join("bisect.json"), "{}").unwrap();
    let of_list = |rest: &'static [&'static str]| [&["bisect", "--candidates"], rest].concat();
    let requests = [
        (
            of_list(&["1", "null,slowdown={}%", "--workload", "create"]),
            "arguments/missing",
        ),
        (
            of_list(&["1,2", "null", "--workload", "create"]),
            "arguments/missing",
        ),
        (of_list(&["1,2", "null,slowdown={}%"]), "arguments/missing"),
        (of_list(&["@none", "--", "true", "{}"]), "input/unreadable"),
        (
            of_list(&["a,b", "null,slowdown={}%", "--workload", "create"]),
            "target/unknown-option",
        ),
        (
            of_list(&["1,2", "--out", "full", "--", "true", "{}"]),
            "store/not-empty",
        ),
        (
            words("bisect --workload create")
                .iter()
                .map(|word| &**word)
                .collect(),
            "arguments/missing",
        ),
        (
            vec!["bisect", "--resume", "full"],
            "bisect/invalid-directory",
        ),
        (vec!["bisect", "--resume", "."], "bisect/invalid-directory"),
    ];
    let requests: Vec<(&[&str], &str)> = requests
        .iter()
        .map(|(arguments, code)| (&arguments[..], *code))
        .collect();
    expect_refusals("bisect", scratch.path(), &requests);
}

#[test]
fn a_candidate_whose_work_fails_is_skipped() {
    let scratch = scratch();
    let list = "bisect --candidates 0.01,x,0.01,y,0.05 --sample-time 1ms --durable no --out b -q";
    let arguments = [&words(list)[..], &["--", "sleep {}"]].concat();
    let output = succeeds(scratch.path(), &arguments);
    let known = document(scratch.path(), "b");
    let place = &known["ending"]["place"];
    assert_eq!(
        (&place["earlier"], &place["later"]),
        (&2.into(), &4.into()),
        "{known:#}"
    );
    let text = stdout(&output);
    assert!(
        text.contains("Between them, y cannot be measured"),
        "{text}"
    );
    let reason = known["candidates"][3]["state"]["excluded"].as_str();
    assert!(
        reason.is_some_and(|reason| reason.contains("sleep y")),
        "{known:#}"
    );
}

#[test]
fn work_that_fails_once_costs_a_pair_and_work_that_fails_always_ends_with_an_error() {
    let scratch = scratch();
    let marks = scratch.path().join("marks");
    fs::create_dir(&marks).unwrap();
    fs::set_permissions(&marks, PermissionsExt::from_mode(0o777)).unwrap();
    let shown = marks.display();
    let once = format!("test -e {shown}/{{}} || {{ touch {shown}/{{}}; exit 3; }}; sleep {{}}");
    let list = "bisect --candidates 0.01,0.05 --sample-time 1ms --durable no -q";
    let writable = marks.to_str().unwrap();
    let arguments = [
        &words(list)[..],
        &["--out", "a", "--writable", writable, "--", &once],
    ]
    .concat();
    succeeds(scratch.path(), &arguments);
    let arguments = [&words(list)[..], &["--out", "b", "--", "sleep {}; exit 3"]].concat();
    let error = fails(scratch.path(), &arguments, 4, "bisect/end-failed");
    assert!(
        text_of(&error).contains("the good end 0.01 cannot be measured"),
        "{error}"
    );
}
