//! Options of `fsb run` do what the help says: each test checks a change that the option makes.

use std::fs;

use serde_json::Value;

use crate::common::{
    command, expect_code, expect_refusals, fast_plan, fsb, json, read_json, scratch, stderr,
    stdout, succeeds, words,
};

/// A difference of 10 % matters at the usual 3 %, but not if only differences of 40 % matter.
#[test]
fn theta_decides_which_difference_matters() {
    let scratch = scratch();
    let plan = "[repetition]\nsample_time = '1ms'\n[[workload]]\nname = 'rename'\nfiles = 100\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let winners = |theta: &str, out: &str| {
        let run = "run plan.toml null slow=null,slowdown=10% --seed 42 --blocks 16 -q";
        succeeds(
            scratch.path(),
            &format!("{run} --theta {theta} --out {out}"),
        );
        let report = json(scratch.path(), &format!("report {out} --format json"));
        let rows = report["rows"].as_array().unwrap().clone();
        let has_winner = |row: &Value| row["ranking"]["outcome"].get("winner").is_some();
        rows.iter().filter(|row| has_winner(row)).count()
    };
    assert_eq!((winners("3%", "small"), winners("40%", "large")), (1, 0));
}

#[test]
fn the_length_of_samples_is_that_of_the_option_then_of_the_plan_then_of_the_environment() {
    let scratch = scratch();
    let plan = |line: &str| {
        let workload = "[[workload]]\nname = 'rename'\nfiles = 100\n";
        fs::write(
            scratch.path().join("plan.toml"),
            format!("targets = ['null']\n{line}\n{workload}"),
        )
        .unwrap();
    };
    let planned = |arguments: &[&str]| {
        let mut command = command(
            scratch.path(),
            &[&["run", "plan.toml", "--print-plan"], arguments].concat(),
        );
        let output = command.env("FSB_SAMPLE_TIME", "30ms").output().unwrap();
        expect_code(&output, 0);
        let printed: toml::Table = stdout(&output).parse().unwrap();
        printed["repetition"]["sample_time"]
            .as_str()
            .map(str::to_owned)
    };
    plan("");
    assert_eq!(planned(&[]).as_deref(), Some("0.03s"));
    plan("[repetition]\nsample_time = '20ms'");
    assert_eq!(planned(&[]).as_deref(), Some("0.02s"));
    assert_eq!(
        planned(&["--sample-time", "10ms"]).as_deref(),
        Some("0.01s")
    );
}

#[test]
fn quiet_shows_the_result_and_no_progress() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let run = |more: &[&str]| {
        let output = succeeds(
            scratch.path(),
            &[
                &["run", "fast.toml", "null", "--seed", "42", "--blocks", "1"],
                more,
            ]
            .concat(),
        );
        assert!(stdout(&output).contains("report: "), "{}", stdout(&output));
        stderr(&output)
    };
    let (loud, quiet) = (run(&["--out", "loud"]), run(&["--out", "quiet", "--quiet"]));
    assert!(
        loud.lines().count() > quiet.lines().count(),
        "{loud}\n---\n{quiet}"
    );
}

#[test]
fn an_unsafe_target_is_marked_in_every_output_and_does_not_win() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = words("run fast.toml slow=null,slowdown=60% quick=null --blocks 6 --seed 42");
    succeeds(
        scratch.path(),
        &[&arguments[..], &["--out", "run", "-q"]].concat(),
    );
    let path = scratch.path().join("run/run.json");
    let mut record = read_json(&path);
    let risk =
        serde_json::json!({ "cause": "barrier=0", "loss": "a power failure may lose synced data" });
    record["targets"]["quick"]["risks"] = serde_json::json!([risk]);
    fs::write(&path, record.to_string()).unwrap();
    let report =
        |format: &str| stdout(&fsb(scratch.path(), &["report", "run", "--format", format]));
    let document: Value = serde_json::from_str(&report("json")).unwrap();
    assert_eq!(document["targets"][1]["may_win"], false);
    for row in document["rows"].as_array().unwrap() {
        let outcome = row["ranking"]["outcome"].to_string();
        assert!(!outcome.contains("winner"), "{outcome}");
    }
    for (format, mark) in [
        ("markdown", "quick (unsafe)"),
        ("html", "quick (unsafe)"),
        ("csv", ",barrier=0\n"),
    ] {
        assert!(report(format).contains(mark), "{format}");
    }
}

#[test]
fn workloads_are_named_on_the_command_line_with_their_parameters() {
    let scratch = scratch();
    let read = "read,access=random,block_size=8K,threads=2,file_size=1M";
    let output = succeeds(
        scratch.path(),
        &[
            "run",
            "null",
            "--workload",
            read,
            "--workload",
            "stat",
            "--print-plan",
        ],
    );
    let plan: toml::Table = stdout(&output).parse().expect("a plan");
    let workloads = plan["workload"].as_array().expect("workloads");
    let names: Vec<&str> = workloads
        .iter()
        .filter_map(|workload| workload["name"].as_str())
        .collect();
    assert_eq!(names, ["read", "stat"]);
    let of = |key: &str| &workloads[0][key];
    assert_eq!(
        (of("access").as_str(), of("block_size").as_integer()),
        (Some("random"), Some(8192))
    );
    assert_eq!(
        (of("threads").as_integer(), of("file_size").as_integer()),
        (Some(2), Some(1 << 20))
    );

    let several = "read, file_size = [1M, 2M], threads=1";
    let output = succeeds(
        scratch.path(),
        &["run", "null", "--workload", several, "--print-plan"],
    );
    let plan: toml::Table = stdout(&output).parse().expect("a plan");
    let sizes = plan["workload"]
        .as_array()
        .expect("workloads")
        .iter()
        .map(|workload| &workload["file_size"]);
    assert_eq!(
        sizes.map(|size| size.as_integer()).collect::<Vec<_>>(),
        [Some(1 << 20), Some(2 << 20)]
    );

    let unknown = ["run", "null", "--workload", "randread"];
    let parameter = ["run", "null", "--workload", "read,acces=random"];
    let no_value = ["run", "null", "--workload", "read,random"];
    let twice = ["run", "null", "--workload", "read,threads=1,threads=2"];
    let beside_suite = ["run", "null", "--workload", "read", "--suite", "quick"];
    let beside_command = ["run", "null", "--workload", "read", "--", "true"];
    let race = words("choose null null --only --workload read -- true");
    let suite = ["run", "null", "--suite", "random-write"];
    let requests: [(&[&str], &str); 8] = [
        (&unknown, "plan/invalid"),
        (&parameter, "plan/invalid"),
        (&no_value, "arguments/invalid-value"),
        (&twice, "arguments/invalid-value"),
        (&beside_suite, "arguments/conflict"),
        (&beside_command, "arguments/conflict"),
        (&race, "arguments/conflict"),
        (&suite, "plan/unknown-suite"),
    ];
    expect_refusals("workload_option", scratch.path(), &requests);
}

#[test]
fn a_command_that_names_a_file_of_the_working_directory_is_warned_of_it() {
    let scratch = scratch();
    fs::write(scratch.path().join("small.tar"), "").unwrap();
    let codes = |arguments: &[&str]| -> Vec<String> {
        let run = ["run", "null", "--blocks", "1"];
        let mut command = command(scratch.path(), &[&run[..], arguments].concat());
        let output = command
            .env("FSB_MESSAGE_FORMAT", "json")
            .output()
            .expect("the program starts");
        let messages = stderr(&output);
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        messages
            .filter_map(|message| message["code"].as_str().map(str::to_owned))
            .collect()
    };
    let has = |codes: &[String], code: &str| codes.iter().any(|found| found == code);
    let warning = "warning/not-in-target";
    let named = codes(&["--", "true", "small.tar"]);
    assert!(has(&named, warning), "{named:?}");
    let other = codes(&["--", "true", "small"]);
    assert!(!has(&other, warning), "{other:?}");
    let copied = codes(&["--input", "small.tar", "--", "true", "small.tar"]);
    assert!(!has(&copied, warning), "{copied:?}");
}
