//! Runs that are continued, sets of runs, and records of other versions.

use std::fs;
use std::path::Path;

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

// Records of former and newer formats.

/// Runs a script of the repository on paths in a directory. Returns what it printed.
fn upgrade_results(directory: &Path, paths: &[&str]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/upgrade-results");
    let output = std::process::Command::new("python3")
        .arg(script)
        .args(paths)
        .current_dir(directory)
        .output()
        .unwrap();
    (output.status.success(), stdout(&output) + &stderr(&output))
}

/// Copies the run directory that fsb wrote before its first release.
fn former_run(copy: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/records/former");
    fs::create_dir(copy).unwrap();
    for file in ["run.json", "trials.jsonl"] {
        fs::copy(source.join(file), copy.join(file)).unwrap();
    }
}

#[test]
fn a_former_run_is_refused_with_the_command_that_converts_it() {
    let scratch = scratch();
    former_run(&scratch.path().join("run"));
    for command in [
        &["report", "run"][..],
        &["compare", "run", "run"],
        &["publish", "run", "-o", "page.html"],
        &["run", "--resume", "run"],
        #[cfg(feature = "history")]
        &["history", "add", "run", "--store", "index.sqlite"],
    ] {
        let error = fails(scratch.path(), command, 2, "store/former-format");
        assert_eq!(error["fields"]["path"], "run/run.json");
        let help = error["help"].as_str().unwrap();
        assert!(help.contains("'scripts/upgrade-results run'"), "{help}");
    }

    let written = fs::read(scratch.path().join("run/trials.jsonl")).unwrap();
    let (succeeded, printed) = upgrade_results(scratch.path(), &["run"]);
    assert!(succeeded && printed == "run: converted\n", "{printed}");
    let kept = fs::read(scratch.path().join("run/trials.jsonl.old")).unwrap();
    assert!(kept == written, "the former journal is kept");

    let report = fsb(scratch.path(), &["report", "run", "--format", "json"]);
    expect_code(&report, 0);
    let summary: Value = serde_json::from_slice(&report.stdout).unwrap();
    let slower = &summary["cases"][0]["cells"][1]["against"];
    assert_eq!((&summary["blocks"], &slower["n"]), (&json!(24), &json!(24)));
    assert_eq!(slower["verdict"], "slower", "{slower}");
    let converted = record(&scratch.path().join("run"));
    assert_eq!(converted["interim_analyses"], json!([6, 9, 12, 18, 24]));
    assert_eq!(converted["placement"]["side_by_side"]["slices"], 0);
    let compared = fsb(scratch.path(), &["compare", "old=run", "new=run"]);
    expect_code(&compared, 0);

    // A second conversion has nothing to do, and never replaces the copy of a former file.
    let (succeeded, printed) = upgrade_results(scratch.path(), &["run"]);
    assert!(
        succeeded && printed.contains("need no conversion"),
        "{printed}"
    );
    fs::copy(
        scratch.path().join("run/run.json.old"),
        scratch.path().join("run/run.json"),
    )
    .unwrap();
    let (succeeded, printed) = upgrade_results(scratch.path(), &["run"]);
    assert!(
        !succeeded && printed.contains("run.json.old exists"),
        "{printed}"
    );
}

/// Sentences of the first formats become objects, and the names of fields those of today.
#[test]
fn sentences_of_the_first_format_are_converted_to_objects() {
    let scratch = scratch();
    let run = scratch.path().join("set/run-1");
    fs::create_dir(scratch.path().join("set")).unwrap();
    former_run(&run);
    let mut first = record(&run);
    first["schema"] = "fsbench/run/1".into();
    first.as_object_mut().unwrap().remove("stop_reason");
    first["finished"] = "24 blocks as planned".into();
    first["stopping_rule"] = "24 blocks, as was asked for".into();
    first["placement"] = json!({ "in_turn": { "why": "--one-at-a-time" } });
    first["warnings"] = json!([
        "not alone: process 7 (fsb run ext4) and 3 more measured at the same time; …",
        "the moon was full",
    ]);
    fs::write(run.join("run.json"), first.to_string()).unwrap();
    let journal = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let lines = journal.lines().map(|line| {
        let mut trial: Value = serde_json::from_str(line).unwrap();
        let fields = trial.as_object_mut().unwrap();
        fields.remove("crc32");
        fields.remove("interference");
        trial["schema"] = "fsbench/trial/2".into();
        trial["disturbed"] = json!(["CPU steal 58 %", "others' I/O on the disk 4.5 MiB/s"]);
        trial["observed"] = json!({ "settled": true, "settle_seconds": 0.5 });
        trial.to_string() + "\n"
    });
    // The last line is cut off, as a machine that lost power leaves it.
    let text = lines.collect::<String>() + "{\"schema\":";
    fs::write(run.join("trials.jsonl"), text).unwrap();
    fails(
        scratch.path(),
        &["report", "set/run-1"],
        2,
        "store/former-format",
    );

    let (succeeded, printed) = upgrade_results(scratch.path(), &["set"]);
    assert!(
        succeeded && printed == "set/run-1: converted\n",
        "{printed}"
    );
    let converted = record(&run);
    assert_eq!(
        converted["stop_reason"],
        json!({ "kind": "requested", "blocks": 24 })
    );
    assert_eq!(
        converted["stopping_rule"],
        json!({ "kind": "blocks", "blocks": 24 })
    );
    assert_eq!(
        converted["placement"]["in_turn"]["reason"],
        json!({ "kind": "requested" })
    );
    assert_eq!(
        converted["warnings"],
        json!([
            { "kind": "concurrent", "run": "process 7 (fsb run ext4)", "more": 3 },
            { "kind": "described", "text": "the moon was full" },
        ])
    );
    let report = fsb(scratch.path(), &["report", "set/run-1", "--notes"]);
    expect_code(&report, 0);
    assert!(
        stdout(&report).contains("CPU steal 58 %"),
        "{}",
        stdout(&report)
    );
    let trials = trials(&run);
    assert_eq!(trials.len(), 50);
    assert_eq!(
        (
            &trials[0]["observed"]["idle"],
            &trials[0]["observed"]["quiesce_seconds"]
        ),
        (&json!(true), &json!(0.5))
    );
}

/// Gives the run in a page the schema and a name of the former format.
const FORMER_PAGE: &str = r#"
import base64, gzip, re, sys
with open(sys.argv[1]) as file:
    head, data, tail = re.split('(?<=id="fsbench-run">)([^<]*)', file.read(), maxsplit=1)
lines = gzip.decompress(base64.b64decode(data))
lines = lines.replace(b'"fsbench/run/1"', b'"fsbench/run/2"').replace(b'"slice_bytes"', b'"part_bytes"')
with open(sys.argv[1], "w") as file:
    file.write(head + base64.b64encode(gzip.compress(lines)).decode() + tail)
"#;

#[test]
fn a_former_page_is_converted() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = [
        "run",
        "fast.toml",
        "a=null",
        "b=null",
        "--blocks",
        "2",
        "--out",
        "run",
        "-q",
    ];
    expect_code(&fsb(scratch.path(), &arguments), 0);
    expect_code(
        &fsb(scratch.path(), &["publish", "run", "-o", "page.html"]),
        0,
    );
    let former = std::process::Command::new("python3")
        .args(["-c", FORMER_PAGE, "page.html"])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    assert!(former.status.success(), "{}", stderr(&former));
    let error = fails(
        scratch.path(),
        &["report", "page.html"],
        2,
        "store/former-format",
    );
    let help = error["help"].as_str().unwrap();
    assert!(
        help.contains("'scripts/upgrade-results page.html'"),
        "{help}"
    );
    let (succeeded, printed) = upgrade_results(scratch.path(), &["page.html"]);
    assert!(
        succeeded && printed == "page.html: converted\n",
        "{printed}"
    );
    expect_code(&fsb(scratch.path(), &["report", "page.html"]), 0);
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
    let line = text.lines().count();
    let start = text.trim_end().rfind('\n').unwrap();
    let digit = start + text[start..].find("\"value\":").unwrap() + "\"value\":".len();
    let mut changed = text.clone().into_bytes();
    changed[digit] = if changed[digit] == b'9' { b'8' } else { b'9' };
    fs::write(&journal, &changed).unwrap();
    // What continues the journal, or copies it, refuses it.
    for command in [
        &["publish", "run", "-o", "page.html"][..],
        &["run", "--resume", "run"],
    ] {
        let error = fails(scratch.path(), command, 2, "store/checksum");
        assert_eq!(
            (&error["fields"]["path"], &error["fields"]["line"]),
            (&"run/trials.jsonl".into(), &line.into())
        );
    }
    // What shows results uses the other trials, and names the line.
    let damage = format!("line {line}: the line was changed after it was written");
    for command in [
        &["report", "run"][..],
        &["compare", "run"],
        #[cfg(feature = "history")]
        &["history", "add", "run", "--store", "index.sqlite"],
    ] {
        let output = succeeds(scratch.path(), command);
        let printed = format!("{}{}", stdout(&output), stderr(&output)).replace('\n', " ");
        let printed: Vec<&str> = printed.split_whitespace().collect();
        assert!(
            printed.join(" ").contains(&damage),
            "{command:?}: {printed:?}"
        );
    }
    let gate = words("compare run --fail-if slower --message-format json");
    let output = fsb(scratch.path(), &gate);
    expect_code(&output, 2);
    let undecided = messages(&output);
    assert_eq!(undecided.last().unwrap()["fields"]["reason"], "low_trust");
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
    newer["schema"] = "fsbench/run/1.1".into();
    newer["stop_reason"] = json!({ "kind": "full_moon", "blocks": 5 });
    newer["stopping_rule"] = json!({ "kind": "moon", "phase": 0.5 });
    newer["placement"] = json!({ "in_turn": { "reason": { "kind": "eclipse" } } });
    newer["warnings"] = json!([{ "kind": "tide", "metres": 3 }]);
    newer["added"] = true.into();
    fs::write(run.join("run.json"), newer.to_string()).unwrap();
    rewrite_trials(&run, |trial| {
        trial["schema"] = "fsbench/trial/1.1".into();
        trial["interference"] = json!([{ "kind": "gravity", "newtons": 9.81 }]);
        trial["observed"]["altitude"] = 500.into();
    });
    let report = succeeds(scratch.path(), "report run --format html");
    let text = stdout(&report);
    for added in ["full_moon", "moon", "eclipse", "tide", "gravity"] {
        assert!(text.contains(added), "{added}: {text}");
    }
}
