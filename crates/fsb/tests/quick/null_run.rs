//! Whole runs on the null file system: coordinator, agent, workers, store and report, with
//! simulated calls and a simulated clock. Everything is exact.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{
    Running, command, expect_code, expect_no_traces, fails, fast_plan, fast_suite, fsb, json,
    record, scratch, stdout, succeeds, traces, trials, words,
};

/// Returns a line for each case of a report: its name, and the value and the mark of each target to
/// the last digit.
fn values(report: &Value) -> String {
    let mut text = String::new();
    for row in report["cases"].as_array().unwrap() {
        text += row["workload"].as_str().unwrap();
        for cell in row["cells"].as_array().unwrap() {
            let mark = cell["mark"].as_str().unwrap_or_default();
            text += &format!(" | {} {mark}", cell["estimate"]["value"]);
        }
        text.push('\n');
    }
    text
}

/// Returns the table of trials that a run wrote.
fn table(directory: &Path, run: &str) -> String {
    fs::read_to_string(directory.join(run).join("trials.csv")).unwrap()
}

fn run(directory: &Path, out: &str, arguments: &[&str]) -> std::process::Output {
    fast_plan(directory);
    measure(directory, out, arguments)
}

/// Runs the plan that the directory has.
fn measure(directory: &Path, out: &str, arguments: &[&str]) -> std::process::Output {
    let mut all = vec!["run", "fast.toml", "--seed", "42", "--out", out, "--quiet"];
    all.extend(arguments);
    fsb(directory, &all)
}

#[test]
fn a_whole_run_is_the_same_to_the_last_digit() {
    let before = traces();
    let scratch = scratch();
    let targets = words("null slow=null,slowdown=10% same=null --blocks 6");
    fast_suite(scratch.path());
    for out in ["one", "two"] {
        expect_code(&measure(scratch.path(), out, &targets), 0);
    }
    assert_eq!(table(scratch.path(), "one"), table(scratch.path(), "two"));
    let report = json(scratch.path(), "report one --format json");
    // The snapshot is of another run of the plan.
    insta::assert_snapshot!("values", values(&report));
    expect_no_traces(&before);
}

/// Rows with different certainty: a winner, a tie (both wait for the same limit), noise; and a
/// target for which no machine has enough space.
const SCREEN: &str = r#"
targets = ["plain=null", "slow=null,slowdown=14%", { target = "striped=ext4@raid0:loop+loop", optional = true }]
size = "1024T"
theta = "8%"
[repetition]
blocks = 12
sample_time = "20ms"
[[workload]]
name = "write"
file_size = "2M"
block_size = "256K"
durability = "end"
[[workload]]
name = "read"
file_size = "2M"
block_size = "4K"
cache = "warm"
[[workload]]
name = "flow"
label = "paced"
flow = """
name = "paced"
rate = 100
[[fileset]]
name = "mails"
files = 100
size = "4K"
preallocated = 0.5
[[thread]]
name = "reader"
steps = [
    { op = "create", set = "mails", fd = 1 },
    { op = "append", fd = 1, size = "4K" },
    { op = "close", fd = 1 },
    { op = "delete", set = "mails" },
    { op = "event-limit" },
]
"""
"#;

#[test]
fn a_report_decides_what_can_be_decided() {
    let scratch = scratch();
    fs::write(scratch.path().join("screen.toml"), SCREEN).unwrap();
    succeeds(scratch.path(), "run screen.toml --seed 42 --out out -q");
    let report = json(scratch.path(), "report out --format json");
    let mut marks = BTreeMap::new();
    for row in report["cases"].as_array().unwrap() {
        let cells = row["cells"].as_array().unwrap();
        assert!(
            cells[2]["estimate"].is_null(),
            "no machine has this space: {row:#}"
        );
        let cells = cells
            .iter()
            .map(|cell| cell["mark"].as_str().unwrap_or_default());
        marks.insert(row["workload"].as_str().unwrap(), cells.collect::<Vec<_>>());
    }
    let expected = [
        ("write 256K, durable", vec!["a?", "a?", ""]),
        ("read 4K, warm", vec!["a", "b", ""]),
        ("paced", vec!["a", "a", ""]),
    ];
    assert_eq!(marks, BTreeMap::from(expected));
}

/// A case with a background, whose simulated times are three times as long.
const BESIDE: &str = r#"
[repetition]
blocks = 6
[[workload]]
name = "write"
file_size = "1M"
block_size = "4K"
overwrite = true
durability = "each"
sample_time = "1s"
background = { name = "create", label = "a storm of new files", files = 100 }
"#;

#[test]
fn beside_a_background_a_run_is_exact_too() {
    let scratch = scratch();
    fs::write(scratch.path().join("beside.toml"), BESIDE).unwrap();
    let arguments = words("run beside.toml null slow=null,slowdown=10% --seed 42 -q --out");
    let runs = ["one", "two"].map(|out| fsb(scratch.path(), &[&arguments[..], &[out]].concat()));
    runs.iter().for_each(|output| expect_code(output, 0));
    assert_eq!(table(scratch.path(), "one"), table(scratch.path(), "two"));
    let report = json(scratch.path(), "report one --format json");
    let found = &report["neighbours"][0];
    assert_eq!((&found["alone"], &found["beside"]), (&0.into(), &1.into()));
    let targets = found["targets"].as_array().unwrap();
    for target in targets {
        assert_eq!(target["time"]["verdict"], "slower");
        // The median, and the 90th percentile.
        let quantiles = target["quantiles"].as_array().unwrap().iter();
        let ratios = quantiles.map(|quantile| &quantile["ratio"]["ratio"]);
        for ratio in ratios.chain([&target["time"]["ratio"]]) {
            assert!((2.9..3.1).contains(&ratio.as_f64().unwrap()), "{target:#}");
        }
        let longest = ["alone", "beside"].map(|when| target["longest"][when].as_f64());
        assert!(longest[1] > longest[0], "{target:#}");
        let rate = target["background"]["operations"].as_f64().unwrap();
        assert!((999.0..1001.0).contains(&rate), "{target:#}");
    }
    assert_eq!(targets[1]["against"]["verdict"], "inconclusive");
    // Alone and beside are next to each other in every block, on one target after the other.
    let trials = trials(&scratch.path().join("one"));
    for pair in trials.chunks(2) {
        assert_eq!(
            (&pair[0]["block"], &pair[0]["target"]),
            (&pair[1]["block"], &pair[1]["target"])
        );
        assert_ne!(pair[0]["workload"], pair[1]["workload"]);
    }
}

#[test]
fn the_target_of_a_background_has_no_case_beside_it() {
    let scratch = scratch();
    let plan = BESIDE.replace("files = 100", "files = 100, target = \"noise\"");
    fs::write(scratch.path().join("beside.toml"), plan).unwrap();
    let arguments = words("run beside.toml null noise=null --seed 42 -q --out run");
    succeeds(scratch.path(), &arguments);
    for trial in trials(&scratch.path().join("run")) {
        let is_own = trial["workload"].as_str().unwrap().ends_with(" on noise")
            && trial["target"] == "noise";
        assert_eq!(
            trial["outcome"],
            if is_own { "not_applicable" } else { "ok" },
            "{trial:#}"
        );
    }
    let report = json(scratch.path(), "report run --format json");
    let targets = &report["neighbours"][0]["targets"];
    assert!(
        targets[0]["time"]["ratio"].as_f64() > Some(2.5) && targets[1].is_null(),
        "{targets:#}"
    );
}

#[test]
fn a_background_that_makes_no_sense_is_refused() {
    let scratch = scratch();
    let run = |background: &str, code: &str| {
        let arguments = [
            "run",
            "null",
            "--suite",
            "quick",
            "--background",
            background,
            "--out",
            "run",
        ];
        fails(scratch.path(), &arguments, 2, code);
        assert!(!scratch.path().join("run").exists());
    };
    run("wriet", "plan/invalid");
    run("fsck", "plan/invalid");
    run("write,size", "arguments/invalid-value");
}

#[test]
fn another_seed_is_another_run() {
    let scratch = scratch();
    fast_plan(scratch.path());
    for (seed, out) in [("1", "one"), ("2", "two")] {
        succeeds(
            scratch.path(),
            &format!("run fast.toml null --seed {seed} --blocks 1 --out {out} -q"),
        );
    }
    assert_ne!(table(scratch.path(), "one"), table(scratch.path(), "two"));
}

#[test]
fn a_known_slowdown_is_found_and_no_difference_is_not() {
    let scratch = scratch();
    fast_suite(scratch.path());
    let output = measure(
        scratch.path(),
        "run",
        &["a=null", "b=null", "c=null,slowdown=100%", "--blocks", "6"],
    );
    expect_code(&output, 0);
    let report = succeeds(scratch.path(), "report run --format json");
    let view: serde_json::Value = serde_json::from_str(&stdout(&report)).expect("JSON");
    assert_eq!(view["schema"], "fsbench/report/1");
    for row in view["cases"].as_array().unwrap() {
        let verdict = |cell: usize| {
            row["cells"][cell]["against"]["verdict"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(verdict(2), "slower", "{}", row["workload"]);
        assert!(
            !["faster", "slower"].contains(&verdict(1).as_str()),
            "{}",
            row["workload"]
        );
    }
}

#[test]
fn each_block_measures_every_target_and_cell_once_in_its_own_order() {
    let scratch = scratch();
    expect_code(
        &run(
            scratch.path(),
            "run",
            &["a=null", "b=null", "c=null", "--blocks", "4"],
        ),
        0,
    );
    let record = record(&scratch.path().join("run"));
    let cells = record["cells"].as_array().unwrap().len();
    let trials = trials(&scratch.path().join("run"));
    assert_eq!(
        trials.len(),
        cells * 3 * 5,
        "a warm-up block and four measured ones"
    );
    let order: Vec<_> = record["order"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|order| order["block"] != 0)
        .collect();
    assert!(
        order
            .windows(2)
            .any(|pair| pair[0]["targets"] != pair[1]["targets"]),
        "always the same order of targets"
    );
    for (position, trial) in trials.iter().enumerate() {
        assert_eq!(trial["order"], position);
        let block = trial["block"].as_u64().unwrap() as usize;
        assert_eq!(
            trial["phase"],
            if block == 0 { "warmup" } else { "measured" }
        );
        let block_order = &record["order"][block];
        let place = position % (cells * 3);
        assert_eq!(trial["workload"], block_order["cells"][place / 3]);
        assert_eq!(trial["target"], block_order["targets"][place % 3]);
    }
}

#[test]
fn traced_blocks_follow_the_measured_ones_and_rank_nothing() {
    let scratch = scratch();
    let targets = ["a=null", "b=null,slowdown=100%", "--blocks", "5"];
    expect_code(&run(scratch.path(), "plain", &targets), 0);
    expect_code(
        &run(
            scratch.path(),
            "traced",
            &[&targets[..], &["--explain"]].concat(),
        ),
        0,
    );
    let [plain, traced] = ["plain", "traced"].map(|run| trials(&scratch.path().join(run)));
    let (more, measured): (Vec<_>, Vec<_>) =
        traced.iter().partition(|trial| trial["phase"] == "traced");
    assert_eq!(measured.len(), plain.len());
    assert!(
        measured
            .iter()
            .zip(&plain)
            .all(|(one, other)| one["metrics"] == other["metrics"])
    );
    assert!(!more.is_empty());
    for trial in more {
        assert!(
            (6..=10).contains(&trial["block"].as_u64().unwrap()),
            "{trial}"
        );
        let problem = &trial["observed"]["traced"]["problem"];
        assert!(
            problem
                .as_str()
                .is_some_and(|problem| problem.contains("simulated target")),
            "{trial}"
        );
    }
    let report = |run: &str| -> serde_json::Value {
        json(scratch.path(), &["report", run, "--format", "json"])
    };
    let [plain, traced] = ["plain", "traced"].map(report);
    assert_eq!(
        (&plain["cases"], &plain["blocks"]),
        (&traced["cases"], &traced["blocks"])
    );
    assert_eq!(plain.get("traced_explanations"), None);
    let first = &traced["traced_explanations"][0];
    assert_eq!(
        (&first["candidate"], &first["causes"]),
        (&"b".into(), &serde_json::json!([])),
        "{first}"
    );
}

#[test]
fn one_target_has_no_difference_to_explain() {
    let scratch = scratch();
    fails(
        scratch.path(),
        "run null --explain",
        2,
        "arguments/conflict",
    );
}

#[test]
fn the_plan_that_is_printed_resolves_to_itself() {
    let scratch = scratch();
    let arguments = words("run null b=null,slowdown=2% --seed 7 --theta 5% --print-plan");
    let first = succeeds(
        scratch.path(),
        &[&arguments[..], &["--budget", "90s", "--size", "1G"]].concat(),
    );
    fs::write(scratch.path().join("plan.toml"), &first.stdout).unwrap();
    let second = succeeds(scratch.path(), "run plan.toml --print-plan");
    assert_eq!(stdout(&first), stdout(&second));
    assert!(
        stdout(&first).contains("file_size = 134217728"),
        "{}",
        stdout(&first)
    );
    let entries: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
    assert_eq!(entries.len(), 1, "printing a plan makes nothing");
}

#[test]
fn precision_stops_as_soon_as_every_cell_is_narrow_enough() {
    let scratch = scratch();
    let plan = "[repetition]\nsample_time = '20ms'\n[[workload]]\nname = 'rename'\nfiles = 200\n";
    fs::write(scratch.path().join("fast.toml"), plan).unwrap();
    let output = measure(
        scratch.path(),
        "run",
        &["a=null", "b=null", "--precision", "50%", "--budget", "2m"],
    );
    expect_code(&output, 0);
    let reason = record(&scratch.path().join("run"))["stop_reason"].clone();
    assert_eq!(
        (&reason["kind"], &reason["half_width"]),
        (&"precise".into(), &0.5.into()),
        "{reason}"
    );
}

#[test]
fn every_format_can_be_printed_and_written() {
    let scratch = scratch();
    expect_code(
        &run(
            scratch.path(),
            "run",
            &["a=null", "b=null", "--blocks", "2"],
        ),
        0,
    );
    for (format, file, needle) in [
        ("text", "r.txt", "write 1M, durable"),
        ("csv", "r.csv", "target,workload,operation,"),
        ("json", "r.json", "\"schema\""),
        ("markdown", "r.md", "| "),
        ("html", "r.html", "<!doctype html>"),
        (
            "junit",
            "r.junit.xml",
            "<testcase name=\"write 1M, durable\"",
        ),
        ("comment", "r.comment.md", "cannot tell"),
        ("annotations", "r.annotations.txt", "::warning title="),
        ("code-quality", "r.codequality.json", "\"fingerprint\""),
        ("bencher", "r.bmf.json", "\"write 1M, durable / b\""),
        (
            "benchmark-bigger",
            "r.bigger.json",
            "\"write 1M, durable / b\"",
        ),
        (
            "openmetrics",
            "r.prom",
            "case=\"write 1M, durable\",target=\"b\"",
        ),
    ] {
        let printed = succeeds(scratch.path(), &["report", "run", "--format", format]);
        assert!(
            stdout(&printed)
                .to_lowercase()
                .contains(&needle.to_lowercase()),
            "{format}: {}",
            stdout(&printed)
        );
        succeeds(scratch.path(), &["report", "run", "-o", file]);
        let written = fs::read_to_string(scratch.path().join(file)).unwrap();
        assert!(
            written.to_lowercase().contains(&needle.to_lowercase()),
            "{file}"
        );
    }
    let table = fs::read_to_string(scratch.path().join("run/trials.csv")).unwrap();
    assert_eq!(
        fs::read_to_string(scratch.path().join("r.csv")).unwrap(),
        table
    );
}

#[test]
fn a_closed_pipe_is_success() {
    let scratch = scratch();
    expect_code(&run(scratch.path(), "run", &["null", "--blocks", "1"]), 0);
    let mut child = command(scratch.path(), "report run --format html")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    expect_code(&output, 0);
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_second_run_is_told_who_holds_the_machine() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let first = Running::start(
        scratch.path(),
        "run fast.toml null --blocks 500 --out one -q",
    );
    crate::common::wait_until(
        "the first run has trials",
        std::time::Duration::from_secs(20),
        || !trials(&scratch.path().join("one")).is_empty(),
    );
    let refused = fails(scratch.path(), "run null --out two", 3, "testbed/busy");
    assert_eq!(refused["fields"]["pid"], first.id());
    drop(first);
    assert!(!scratch.path().join("two").exists());
}

#[test]
fn runs_of_the_same_second_have_directories_of_their_own() {
    let scratch = scratch();
    fast_plan(scratch.path());
    for _ in 0..4 {
        succeeds(scratch.path(), "run null fast.toml --blocks 1 -q");
    }
    assert_eq!(
        std::fs::read_dir(scratch.path().join("fsb-results"))
            .unwrap()
            .count(),
        4
    );
}

#[test]
fn a_run_tells_how_far_the_last_run_of_its_plan_was() {
    let scratch = scratch();
    let targets = ["null", "slow=null,slowdown=10%", "--blocks", "6"];
    let first = run(scratch.path(), "one", &targets);
    expect_code(&first, 0);
    assert!(!stdout(&first).contains(" then, "), "{}", stdout(&first));
    // Both runs may end within a second.
    let path = scratch.path().join("one/run.json");
    let mut earlier = record(&scratch.path().join("one"));
    earlier["segments"][0]["started"] = "2024-02-03T04:05:06Z".into();
    fs::write(&path, earlier.to_string()).unwrap();
    let second = run(scratch.path(), "two", &targets);
    expect_code(&second, 0);
    let line = "the run of 2024-02-03 04:05 utc differed by 0 % (median over ";
    let again = fsb(scratch.path(), "report two --notes");
    assert!(
        stdout(&again).to_lowercase().contains(line),
        "{}",
        stdout(&again)
    );
    // Another plan has no earlier run.
    let other = run(
        scratch.path(),
        "three",
        &["null", "slow=null,slowdown=20%", "--blocks", "6"],
    );
    assert!(!stdout(&other).contains(" then, "), "{}", stdout(&other));
}
