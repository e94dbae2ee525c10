//! Runs that are continued, sets of runs, and records of other versions.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::*;

// `--resume`: fsb retries the whole unfinished block, and nothing else.

/// Makes a run on the null file system whose last trials are cut off, as if it had been killed.
fn interrupted(keep: usize) -> tempfile::TempDir {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = words("run fast.toml a=null b=null --blocks 3 --seed 5 --out run -q");
    succeeds(scratch.path(), &arguments);
    cut(&scratch.path().join("run"), keep);
    scratch
}

#[test]
fn a_resumed_run_has_the_numbers_of_one_that_was_never_interrupted() {
    let whole = interrupted(10_000);
    let table = fs::read_to_string(whole.path().join("run/trials.csv")).unwrap();
    // Three cells on two targets: warm-up, block 1, and half of block 2.
    let cut = interrupted(6 * 2 + 3);
    let output = fsb_json(cut.path(), "run --resume run");
    expect_code(&output, 0);
    assert_eq!(
        message(&output, "note/block-retried")["fields"]["trials"],
        3
    );
    assert_eq!(message(&output, "warning/journal")["fields"]["path"], "run");
    let without_order = |table: &str| {
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let mut rows: Vec<Vec<String>> = reader
            .records()
            .flatten()
            .map(|row| {
                row.iter()
                    .enumerate()
                    .filter(|(column, _)| *column != 7)
                    .map(|(_, field)| field.to_owned())
                    .collect()
            })
            .collect();
        rows.sort();
        rows
    };
    let resumed = fs::read_to_string(cut.path().join("run/trials.csv")).unwrap();
    assert_eq!(without_order(&resumed), without_order(&table));
    let trials = trials(&cut.path().join("run"));
    assert_eq!(
        trials
            .iter()
            .filter(|trial| trial["superseded"] == true)
            .count(),
        3
    );
    assert_eq!(
        record(&cut.path().join("run"))["segments"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn an_interrupted_warm_up_is_made_again() {
    let cut = interrupted(4);
    let run = cut.path().join("run");
    let mut record = record(&run);
    record["amounts"] = serde_json::json!({});
    record["blocks_planned"] = serde_json::Value::Null;
    fs::write(run.join("run.json"), record.to_string()).unwrap();
    succeeds(cut.path(), "run --resume run -q");
    let counting = trials(&run)
        .iter()
        .filter(|trial| trial["superseded"] != true)
        .count();
    assert_eq!(counting, 6 * 4);
}

#[test]
fn a_complete_run_and_another_kernel_are_refused() {
    let scratch = scratch();
    fast_plan(scratch.path());
    succeeds(scratch.path(), "run fast.toml null --blocks 1 --out run -q");
    fails(scratch.path(), "run --resume run", 2, "run/complete");

    let cut = interrupted(9);
    let run = cut.path().join("run");
    let mut record = record(&run);
    record["segments"][0]["kernel"] = "2.6.18".into();
    fs::write(run.join("run.json"), record.to_string()).unwrap();
    fails(cut.path(), "run --resume run", 2, "run/other-kernel");
}

// `--runs N`: complete runs that are stored as a set.

/// Makes a set of runs of a small plan, with the seeds 41, 42, ….
fn make(directory: &Path, runs: &str, out: &str) {
    fast_plan(directory);
    let targets = [
        "null",
        "slow=null,slowdown=10%",
        "--blocks",
        "3",
        "--seed",
        "41",
        "--out",
        out,
        "-q",
    ];
    let output = succeeds(
        directory,
        &[&["run", "fast.toml", "--runs", runs][..], &targets].concat(),
    );
    let title = format!("{runs} runs: means with the standard deviation (sd) between runs");
    assert!(stdout(&output).contains(&title), "{}", stdout(&output));
}

fn seed(run: &Path) -> u64 {
    record(run)["plan"]["seed"].as_u64().unwrap()
}

#[test]
fn a_set_holds_complete_runs_and_is_compared_as_one() {
    let scratch = scratch();
    make(scratch.path(), "3", "old");
    make(scratch.path(), "2", "new");
    for number in 1..=3 {
        let run = scratch.path().join(format!("old/run-{number}"));
        assert_eq!(seed(&run), 40 + number);
        assert!(run.join("report.html").is_file() && record(&run)["stop_reason"].is_object());
    }
    let output = succeeds(scratch.path(), "compare old=old new=new");
    let text = stdout(&output);
    assert!(
        text.contains("old") && text.contains("new") && text.contains("read 1M, cold"),
        "{text}"
    );
}

#[test]
fn a_set_is_resumed_with_the_runs_that_are_missing() {
    let scratch = scratch();
    make(scratch.path(), "3", "set");
    let set = scratch.path().join("set");
    let first = fs::read(set.join("run-1/trials.jsonl")).unwrap();
    fs::remove_dir_all(set.join("run-3")).unwrap();
    // The second run was interrupted before its first block.
    let mut interrupted = record(&set.join("run-2"));
    interrupted["stop_reason"] = serde_json::Value::Null;
    fs::write(set.join("run-2/run.json"), interrupted.to_string()).unwrap();
    fs::write(set.join("run-2/trials.jsonl"), "").unwrap();
    let output = succeeds(scratch.path(), "run --resume set -q");
    assert!(
        stdout(&output).contains("3 runs: means"),
        "{}",
        stdout(&output)
    );
    assert_eq!(
        (seed(&set.join("run-2")), seed(&set.join("run-3"))),
        (42, 43)
    );
    assert!(record(&set.join("run-2"))["stop_reason"].is_object());
    assert_eq!(fs::read(set.join("run-1/trials.jsonl")).unwrap(), first);
    fails(scratch.path(), "run --resume set -q", 2, "run/invalid-set");
}

#[test]
fn a_set_is_not_made_where_something_is() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("full")).unwrap();
    fs::write(scratch.path().join("full/file"), "x").unwrap();
    let output = fsb(scratch.path(), "run null --runs 2 --out full");
    expect_code(&output, 2);
    let output = fsb(scratch.path(), "run null --runs 0 --out set");
    expect_code(&output, 2);
    assert!(!scratch.path().join("set").exists());
}

/// A set has the name of its directory; separate runs in one directory have their own names.
#[test]
fn patterns_in_one_directory_are_sets_of_their_own() {
    let scratch = scratch();
    fast_plan(scratch.path());
    for run in ["old-1", "old-2", "new-1", "new-2"] {
        let out = format!("all/{run}");
        let arguments = format!("run fast.toml null --blocks 1 --out {out} -q");
        fs::create_dir_all(scratch.path().join("all")).unwrap();
        succeeds(scratch.path(), &arguments);
    }
    let output = succeeds(scratch.path(), "compare all/old-* all/new-*");
    assert!(
        stdout(&output).contains("old-1/null") && stdout(&output).contains("new-1/null"),
        "{}",
        stdout(&output)
    );
}

// Records of earlier and newer versions.

/// Copies a recorded run directory.
fn recorded(scratch: &Path, version: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/records")
        .join(version);
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
    for version in [
        "run-1-trial-1",
        "run-1-trial-2",
        "run-2-trial-2",
        "run-2-trial-3",
    ] {
        let run = recorded(scratch.path(), version);
        let written = fs::read(run.join("trials.jsonl")).unwrap();
        let report = succeeds(scratch.path(), &["report", version, "--format", "json"]);
        let summary: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(summary["blocks"], 5, "{version}");
        let labels: Vec<&str> = summary["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["workload"].as_str().unwrap())
            .collect();
        assert_eq!(
            labels,
            [
                "write 1M, durable",
                "append 4K, durable each",
                "create 4K files"
            ],
            "{version}"
        );
        let slower = &summary["rows"][1]["cells"][1]["against"];
        assert_eq!(
            (
                slower["n"].as_u64(),
                slower["ratio"].as_f64().unwrap() < 1.0
            ),
            (Some(5), true),
            "{slower}"
        );
        let screen =
            stdout(&fsb(scratch.path(), &["report", version, "--notes"])).replace("\n  ", " ");
        assert!(screen.contains("CPU steal 3 %: 2 of 45 trials"), "{screen}");
        succeeds(
            scratch.path(),
            &[
                "compare",
                &format!("old={version}"),
                &format!("new={version}"),
            ],
        );
        assert_eq!(
            fs::read(run.join("trials.jsonl")).unwrap(),
            written,
            "a reader changes nothing"
        );
    }
}

/// A changed digit leaves JSON with another value. Every reader of a journal finds it.
#[test]
fn a_changed_digit_in_a_journal_is_found_with_its_line() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = words("run fast.toml a=null b=null --blocks 2 --seed 3 --out run -q");
    succeeds(scratch.path(), &arguments);
    let journal = scratch.path().join("run/trials.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let start = text.match_indices('\n').nth(4).unwrap().0;
    let digit = start + text[start..].find("\"value\":").unwrap() + "\"value\":".len();
    let mut changed = text.clone().into_bytes();
    changed[digit] = if changed[digit] == b'9' { b'8' } else { b'9' };
    fs::write(&journal, &changed).unwrap();
    for command in [
        &["report", "run"][..],
        &["compare", "run"],
        &["publish", "run", "-o", "page.html"],
        &["run", "--resume", "run"],
        #[cfg(feature = "history")]
        &["history", "add", "run", "--store", "index.sqlite"],
    ] {
        let error = fails(scratch.path(), command, 2, "store/checksum");
        assert_eq!(
            (&error["fields"]["path"], &error["fields"]["line"]),
            (&"run/trials.jsonl".into(), &6.into())
        );
    }
    // A line of this version has a checksum.
    let start = text.find(",\"crc32\"").unwrap();
    let end = start + text[start..].find('}').unwrap();
    fs::write(&journal, format!("{}{}", &text[..start], &text[end..])).unwrap();
    let error = fails(scratch.path(), "report run", 2, "store/checksum");
    assert_eq!(error["fields"]["line"], 1);
}

/// Kinds and fields that this version does not know are kept and printed.
#[test]
fn a_newer_minor_version_is_reported_with_what_it_added() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = words("run fast.toml null b=null --blocks 5 --seed 3 --out run -q");
    succeeds(scratch.path(), &arguments);
    let run = scratch.path().join("run");
    let mut newer = record(&run);
    newer["schema"] = "fsbench/run/2.1".into();
    newer["stop_reason"] = json!({ "kind": "full_moon", "blocks": 5 });
    newer["stopping_rule"] = json!({ "kind": "moon", "phase": 0.5 });
    newer["placement"] = json!({ "in_turn": { "reason": { "kind": "eclipse" } } });
    newer["warnings"] = json!([{ "kind": "tide", "metres": 3 }]);
    newer["added"] = true.into();
    fs::write(run.join("run.json"), newer.to_string()).unwrap();
    rewrite_trials(&run, |trial| {
        trial["schema"] = "fsbench/trial/4.1".into();
        trial["interference"] = json!([{ "kind": "gravity", "newtons": 9.81 }]);
        trial["observed"]["altitude"] = 500.into();
    });
    let report = succeeds(scratch.path(), "report run --format html");
    let text = stdout(&report);
    for added in ["full_moon", "moon", "eclipse", "tide", "gravity"] {
        assert!(text.contains(added), "{added}: {text}");
    }
}
