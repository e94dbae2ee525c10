//! Files that fsb writes: reports in every format, published tables, and documents with a schema.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{
    command, expect_code, expect_refusals, fails, fast_plan, fsb, fsb_json, json, message,
    read_json, record, scratch, stdout, succeeds, words,
};

// `fsb report` and `fsb compare` for spreadsheets, papers and a local disk: summary.csv, xlsx,
// figures, commands.

/// Runs two targets on the null file system; the second one takes twice as long.
fn run(directory: &Path) {
    fast_plan(directory);
    let targets = ["plain=null", "slow=null,slowdown=100%"];
    let arguments = words("run fast.toml --seed 42 --blocks 6 --out run --quiet");
    succeeds(directory, &[&arguments[..], &targets].concat());
}

fn lines(table: &str) -> Vec<HashMap<String, String>> {
    csv::Reader::from_reader(table.as_bytes())
        .deserialize()
        .map(|line| line.expect("a line"))
        .collect()
}

#[test]
fn a_report_is_written_in_the_format_that_the_file_name_implies() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory);
    let write = |command: &str, file: &str| {
        succeeds(directory, &[command, "run", "-o", file]);
        fs::read(directory.join(file)).expect("the file is written")
    };
    for command in ["report", "compare"] {
        let table = String::from_utf8(write(command, "my-summary.csv")).expect("text");
        let slow: Vec<_> = lines(&table)
            .into_iter()
            .filter(|line| line["target"] == "slow")
            .collect();
        assert!(!slow.is_empty(), "{table}");
        for line in slow {
            assert_eq!(
                (&*line["baseline"], &*line["verdict"], &*line["leads"]),
                ("plain", "slower", "false"),
                "{line:?}"
            );
            assert_eq!(
                (&*line["n"], &*line["outcome"], &*line["level"]),
                ("6", "winner", "0.95"),
                "{line:?}"
            );
        }
        assert_eq!(
            stdout(&fsb(
                directory,
                &[command, "run", "--format", "summary-csv"]
            )),
            table
        );
        for (file, begins) in [
            ("a.tex", "% "),
            ("a.xlsx", "PK"),
            ("a.svg", "<svg "),
            ("a.png", "\u{fffd}PNG"),
            ("a.pdf", "%PDF-"),
        ] {
            let content = write(command, file);
            assert!(
                String::from_utf8_lossy(&content).starts_with(begins),
                "{command} -o {file}"
            );
        }
    }
    assert!(
        String::from_utf8(write("report", "trials.csv"))
            .expect("text")
            .starts_with("target,workload,")
    );
    // A pipe accepts binary formats.
    assert!(
        fsb(directory, "report run --format png")
            .stdout
            .starts_with(b"\x89PNG")
    );
}

#[test]
fn every_figure_of_a_run_is_written_under_a_stable_name() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory);
    let output = succeeds(directory, &["report", "run", "-o", "figures/of the run/"]);
    let printed = stdout(&output);
    let names: Vec<&str> = printed.lines().collect();
    for name in [
        "overview",
        "values",
        "trials-write-1m-durable",
        "latency-write-1m-durable-write",
    ] {
        for extension in ["svg", "png"] {
            let path = format!("figures/of the run/{name}.{extension}");
            assert!(names.contains(&path.as_str()), "{path} in {printed}");
        }
    }
    for name in &names {
        let content = fs::read(directory.join(name)).expect("a printed file");
        let begins: &[u8] = if name.ends_with("svg") {
            b"<svg "
        } else {
            b"\x89PNG"
        };
        assert!(content.starts_with(begins), "{name}");
    }
    assert_eq!(
        fs::read_dir(directory.join("figures/of the run"))
            .expect("a directory")
            .count(),
        names.len()
    );
    let again = fsb(directory, &["report", "run", "-o", "figures/of the run/"]);
    assert_eq!(stdout(&again), printed);
    fails(directory, "report run -o run/run.json/", 3, "output/failed");
}

#[test]
fn commands_are_those_of_the_recorded_targets() {
    let scratch = scratch();
    let directory = scratch.path();
    run(directory);
    // The null file system has no commands: use those that a run as root records.
    let path = directory.join("run/run.json");
    let mut record = read_json(&path);
    let targets = &mut record["plan"]["targets"];
    targets[0]["file_system"] =
        serde_json::json!({ "fs": "ext4", "options": ["noatime"], "medium": { "name": "loop" } });
    targets[1]["file_system"] =
        serde_json::json!({ "fs": "xfs", "mkfs": ["-m", "crc=0"], "medium": { "name": "loop" } });
    let command = |words: &str| Value::from_iter(words.split(' '));
    record["targets"]["plain"] = serde_json::json!({
        "mkfs_command": command("/usr/sbin/mkfs.ext4 -F -q -E nodiscard -b 4096 /dev/loop0"),
        "requested_options": ["noatime"],
        "mount_options": ["rw", "noatime"],
    });
    record["targets"]["slow"] = serde_json::json!({
        "mkfs_command": command("/usr/sbin/mkfs.xfs -f -q -K -l size=64m -m crc=0 /dev/loop1"),
    });
    fs::write(&path, record.to_string()).expect("the record is written");
    let all = succeeds(directory, "report run --commands");
    for line in [
        "mkfs.ext4 /dev/YOUR-DEVICE",
        "mkfs.xfs -m crc=0 /dev/YOUR-DEVICE",
    ] {
        assert!(
            stdout(&all).lines().any(|found| found == line),
            "{}",
            stdout(&all)
        );
    }
    let one = succeeds(directory, "report run --commands slow");
    assert!(
        stdout(&all).ends_with(&stdout(&one)) && !stdout(&one).contains("ext4"),
        "{}",
        stdout(&one)
    );
    fails(
        directory,
        "report run --commands slo",
        2,
        "report/unknown-target",
    );
}

#[test]
fn commands_and_formats_that_make_no_sense_are_refused() {
    let scratch = scratch();
    run(scratch.path());
    expect_refusals(
        "report_files_refusals",
        scratch.path(),
        &[
            (
                &["report", "run", "--commands", "slo"],
                "report/unknown-target",
            ),
            (
                &["report", "run", "--commands", "slow", "-o", "x.csv"],
                "arguments/conflict",
            ),
            (
                &["report", "run", "-o", "summary.ods"],
                "output/unknown-format",
            ),
            (
                &["compare", "run", "--commands"],
                "arguments/unknown-option",
            ),
        ],
    );
}

/// Standard output is a pipe in tests, which has no color by default.
#[test]
fn colour_follows_the_option_and_the_environment() {
    let scratch = scratch();
    run(scratch.path());
    let has_colour = |arguments: &[&str], variable: Option<&str>| {
        let mut report = command(scratch.path(), &[&["report", "run"], arguments].concat());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            report.env_remove(name);
        }
        report.envs(variable.map(|name| (name, "1")));
        stdout(&report.output().unwrap()).contains("\x1b[")
    };
    for (arguments, variable, expected) in [
        (&[][..], None, false),
        (&["--color", "always"], None, true),
        (&["--color", "always"], Some("NO_COLOR"), true),
        (&[], Some("CLICOLOR_FORCE"), true),
        (&["--color", "never"], Some("CLICOLOR_FORCE"), false),
    ] {
        assert_eq!(
            has_colour(arguments, variable),
            expected,
            "{arguments:?} {variable:?}"
        );
    }
}

#[test]
fn a_path_that_is_not_a_run_is_explained() {
    let scratch = scratch();
    let run = scratch.path().join("set/run-1");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("run.json"), "{}").unwrap();
    let requests: [(&[&str], &str); 4] = [
        (&["report", "set"], "store/no-run"),
        (&["report", "nowhere"], "store/no-run"),
        (&["report", "out.csv"], "store/no-run"),
        (
            &["run", "null", "--input", "nosuch", "--", "true"],
            "input/unreadable",
        ),
    ];
    expect_refusals("no_run", scratch.path(), &requests);
}

// Published tables beside runs, which are recognized by their workloads.

/// Returns the names of the rows of a published table.
fn names(published: &Value) -> Vec<&str> {
    let rows = published["rows"].as_array().expect("rows").iter();
    rows.filter_map(|row| row["workload"].as_str()).collect()
}

#[test]
fn the_operations_of_2006_stand_beside_their_table() {
    let scratch = scratch();
    let directory = scratch.path();
    let plan = "targets = ['reiserfs=null', 'jfs=null']\nsuite = 'horvath-2006'\n\
                [repetition]\nblocks = 1\nsample_time = '1ms'\n";
    fs::write(directory.join("plan.toml"), plan).unwrap();
    succeeds(directory, "run plan.toml --scale 1/64 --seed 1 --out out");
    let published = |from: Value| from["published"].clone();
    let table = published(json(directory, "report out --format json"));
    // Memory holds a file of 64 MiB, so our values of one row are of memory. His are not.
    let own = "sequential write|rewrite|read|reread|random read|random write";
    assert_eq!(names(&table).join("|"), own);
    assert_eq!(table["rows"][3]["here"], "from memory");
    assert!(table["rows"][2].get("here").is_none(), "{table:#}");
    let screen = stdout(&succeeds(directory, "report out"));
    let (ours, theirs) = screen.split_once("Published:").expect("both tables");
    assert!(
        ours.contains("reread, from memory") && !theirs.contains("reread, from memory"),
        "{screen}"
    );
    for row in table["rows"].as_array().unwrap() {
        assert!(row["ours"].as_array().unwrap().iter().all(Value::is_number));
        assert_eq!(row["theirs"].as_array().unwrap().len(), 4, "{row}");
    }
    // 113 MiB/s.
    assert_eq!(table["rows"][0]["theirs"][0], 118_489_088.0);
    // The same trials on a machine with less memory than the file.
    let path = directory.join("out/run.json");
    let mut record = read_json(&path);
    record["host"]["memory_bytes"] = (48 << 20).into();
    fs::write(&path, record.to_string()).unwrap();
    let small = published(json(directory, "report out --format json"));
    assert!(small["rows"][3].get("here").is_none(), "{small:#}");
    assert_ne!(small["note"], table["note"]);
}

#[test]
fn the_tests_of_2023_stand_beside_tables_6_1_to_6_3() {
    let scratch = scratch();
    let directory = scratch.path();
    let plan =
        "targets = ['ext2=null', 'ext4=null']\nsuite = 'fsbench'\n[repetition]\nblocks = 1\n";
    fs::write(directory.join("plan.toml"), plan).unwrap();
    let text = stdout(&succeeds(directory, "run plan.toml --seed 1 --out out"));
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let table = json(directory, "report out --format json")["published"].clone();
    assert_eq!(names(&table).len(), 9);
    // Rates of Appendix C, and the numbers as printed.
    for (at, group, name, rate, printed) in [
        (0, "Table 6.1", "create 1000 files", 2918.0, "2918"),
        (
            1,
            "Table 6.2",
            "sequential read 512 KB",
            780.0 * 1048576.0,
            "97.5",
        ),
        (
            6,
            "Table 6.3",
            "sequential write 4096 KB",
            78.2 * 1048576.0,
            "9.8",
        ),
        (
            7,
            "Table 6.3",
            "random write 512 KB",
            167.0 * 1048576.0,
            "20.9",
        ),
    ] {
        let row = &table["rows"][at];
        let found = (&row["group"], &row["workload"], &row["printed"][0]);
        assert_eq!(found, (&group.into(), &name.into(), &printed.into()));
        let theirs = row["theirs"][0].as_f64().unwrap();
        assert!((theirs / rate - 1.0).abs() < 1e-3, "{row}");
        assert!(row["ours"].as_array().unwrap().iter().all(Value::is_number));
    }
}

// Published statements, which are recognized by the operations, their state and the file systems.

/// Measures two null targets, then writes the names of file systems into the record.
fn run_as(directory: &Path, plan: &str, file_systems: [&str; 2]) {
    let targets = "targets = ['plain=null', 'slow=null,slowdown=100%']\n[repetition]\nblocks = 2\nsample_time = '1ms'\n";
    fs::write(directory.join("plan.toml"), format!("{targets}{plan}")).unwrap();
    succeeds(directory, "run plan.toml --seed 1 --out out -q");
    let path = directory.join("out/run.json");
    let mut record = read_json(&path);
    for (target, name) in record["plan"]["targets"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(file_systems)
    {
        target["file_system"] = serde_json::json!({ "fs": name, "medium": { "name": "loop" } });
    }
    fs::write(&path, record.to_string()).unwrap();
}

fn matrix(operation: &str, files: &str, records: &str, cache: &str) -> String {
    format!(
        "[[workload]]\nname = '{operation}'\nfile_size = '{files}'\nblock_size = '{records}'\ncache = '{cache}'\n"
    )
}

#[test]
fn differences_of_2011_are_beside_those_of_the_run() {
    let scratch = scratch();
    let directory = scratch.path();
    let of = |operation: &str, cache: &str| matrix(operation, "64K..128K", "4K..8K", cache);
    let plan = of("write", "any") + &of("reread", "cold") + &of("stride-read", "cold");
    run_as(directory, &plan, ["ext4", "xfs"]);
    let report = json(directory, "report out --format json");
    let claims = &report["claims"];
    assert!(
        claims["title"]
            .as_str()
            .unwrap()
            .contains("Beňas 2011, section 5.3"),
        "{report:#}"
    );
    let claim = |test: &str| {
        claims["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["test"] == test)
            .unwrap()
    };
    // He remounted before he read again.
    let reread = claim("reread");
    assert_eq!(
        (&reread["group"], &reread["published"]),
        (
            &"ext4 and xfs".into(),
            &"ext4 faster: -5 % med, -12 % reg".into(),
        )
    );
    let here = |name: &str| reread["here"][name].as_f64().unwrap();
    assert!(
        here("median_change") < -0.2 && here("slope_change") < -0.2,
        "{reread:#}"
    );
    assert!(reread["here"]["different"].is_boolean(), "{reread:#}");
    assert!(
        claim("stride-read")["here"]["median_change"]
            .as_f64()
            .unwrap()
            < -0.2,
        "{claims:#}"
    );
    // The run has no file of these sizes, and no fwrite.
    for test in [
        "write, files from 2M, records from 8K",
        "fwrite, files up to 256K and from 4M",
    ] {
        assert!(claim(test)["here"].is_null(), "{claims:#}");
    }
    assert_ne!(
        claims["first"], true,
        "ninety lines are not for the first screen"
    );
}

#[test]
fn differences_of_2011_are_not_beside_another_state_or_other_options() {
    let scratch = scratch();
    let claims = |plan: &str, file_systems: [&str; 2]| {
        let directory = tempfile::tempdir_in(scratch.path()).unwrap();
        run_as(directory.path(), plan, file_systems);
        let report = stdout(&fsb(directory.path(), "report out --format json"));
        serde_json::from_str::<Value>(&report)
            .unwrap()
            .get("claims")
            .cloned()
    };
    let has_claims = |plan: &str, file_systems| claims(plan, file_systems).is_some();
    let read = |cache: &str| matrix("read", "64K..128K", "4K..8K", cache);
    assert!(has_claims(&read("cold"), ["ext3", "ext2"]));
    assert!(
        !has_claims(&read("cold"), ["ext4", "nilfs2"]),
        "he did not measure nilfs2"
    );
    // He remounted. What the run measured otherwise is named, and the rest is shown.
    let other = claims(&read("any"), ["ext3", "ext2"]).unwrap();
    assert_eq!(other["rows"].as_array().map(Vec::len), Some(0), "{other:#}");
    let reason = other["withheld"].as_str().unwrap();
    assert!(
        reason.contains("read (here backend=psync,cache=any"),
        "{reason}"
    );
    let mixed = read("cold") + &matrix("reread", "64K..128K", "4K..8K", "any");
    let mixed = claims(&mixed, ["ext4", "xfs"]).unwrap();
    assert!(!mixed["rows"].as_array().unwrap().is_empty(), "{mixed:#}");
    assert!(
        mixed["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| !row["test"].as_str().unwrap().starts_with("reread")),
        "{mixed:#}"
    );
    let reason = mixed["withheld"].as_str().unwrap();
    assert!(
        reason.contains("reread (here backend=psync,cache=any"),
        "{reason}"
    );
    let single =
        "[[workload]]\nname = 'read'\nfile_size = '64K'\nblock_size = '4K'\ncache = 'cold'\n";
    assert!(
        !has_claims(single, ["ext3", "ext2"]),
        "he measured a matrix"
    );
}

#[test]
fn rates_of_2006_are_beside_those_of_files_in_memory() {
    let scratch = scratch();
    let directory = scratch.path();
    let plan = matrix("write", "64K..256K", "4K..128K", "warm")
        + &matrix("random-write", "128K..256K", "128K", "warm");
    run_as(directory, &plan, ["ext3", "jfs"]);
    let claims = json(directory, "report out --format json")["claims"].clone();
    // Only targets of the run, and `null` where the run has no operation.
    let tests = "random-write, jfs against ext3|write, ext3|write, jfs|read, ext3|read, jfs";
    let rows = claims["rows"].as_array().unwrap().iter();
    let found: Vec<&str> = rows
        .clone()
        .filter_map(|row| row["test"].as_str())
        .collect();
    assert_eq!(found.join("|"), tests);
    let published = rows.clone().filter_map(|row| row["published"].as_str());
    assert!(published.take(3).eq(["+36 %", "360 MiB/s", "639 MiB/s"]));
    assert!(claims["rows"][0]["here"]["mean_change"].is_number());
    assert!(
        rows.clone()
            .skip(1)
            .take(2)
            .all(|row| row["here"]["rate"].is_number())
    );
    assert!(rows.skip(3).all(|row| row["here"].is_null()));
    // Only the order of his file systems can be compared, so one of them is not enough.
    let other = tempfile::tempdir_in(directory).unwrap();
    run_as(other.path(), &plan, ["ext3", "ext4"]);
    assert_eq!(
        json(other.path(), "report out --format json").get("claims"),
        None
    );
}

// Documents of the program match the published schemas. `compare/output.rs` checks comparisons of
// other tools.

fn validator(text: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

fn check(validator: &jsonschema::Validator, value: &Value) {
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
}

/// Returns the JSON document that a command prints.
fn document(directory: &Path, arguments: &[&str]) -> Value {
    json(directory, arguments)
}

#[test]
fn run_record_trials_report_and_comparison_fit_their_schemas() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let targets =
        words("run fast.toml null broken=null,fail=enospc --blocks 2 --out run -q --seed 3");
    expect_code(&fsb(scratch.path(), &targets), 4);
    let run = scratch.path().join("run");
    let of_runs = validator(include_str!("../../schema/run.json"));
    let of_trials = validator(include_str!("../../schema/trial.json"));
    check(&of_runs, &record(&run));
    let journal = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let trials: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(trials.iter().any(|trial| trial["outcome"] == "ok"));
    assert!(trials.iter().any(|trial| trial["outcome"] == "failed"));
    trials.iter().for_each(|trial| check(&of_trials, trial));
    // The schemas refuse wrong documents, too.
    let mut wrong = trials[0].clone();
    wrong["phase"] = "sometimes".into();
    assert!(!of_trials.is_valid(&wrong));

    let of_reports = validator(include_str!("../../schema/report.json"));
    let report = document(scratch.path(), &["report", "run", "--format", "json"]);
    check(&of_reports, &report);
    let mut wrong = report.clone();
    wrong["cases"][0]["cells"][0]["state"]["state"] = "sometimes".into();
    assert!(!of_reports.is_valid(&wrong));
    let of_comparisons = validator(include_str!("../../schema/comparison.json"));
    check(
        &of_comparisons,
        &document(scratch.path(), &["compare", "run", "--format", "json"]),
    );
}

#[test]
fn reports_of_suites_fit_the_schema() {
    let scratch = scratch();
    let validator = validator(include_str!("../../schema/report.json"));
    fs::write(
        scratch.path().join("small.toml"),
        "[repetition]\nsample_time = '1ms'\nblocks = 3\n",
    )
    .unwrap();
    for suite in ["scaling", "open-loop", "postmark"] {
        let run = [
            "run",
            "small.toml",
            "--suite",
            suite,
            "null",
            "slow=null,slowdown=10%",
            "--scale",
            "1/64",
        ];
        succeeds(
            scratch.path(),
            &[&run[..], &["--out", suite, "-q"]].concat(),
        );
        check(
            &validator,
            &document(scratch.path(), &["report", suite, "--format", "json"]),
        );
    }
}

#[test]
fn the_choice_of_a_race_fits_its_schema() {
    let scratch = scratch();
    let race = words("choose null,slowdown=40% null,slowdown=20% null,unsafe --budget 5s");
    succeeds(
        scratch.path(),
        &[&race[..], &["--risky", "--out", "race", "-q"]].concat(),
    );
    let validator = validator(include_str!("../../schema/choice.json"));
    let choice = document(scratch.path(), &["report", "race", "--format", "json"]);
    check(&validator, &choice);
    let mut wrong = choice;
    wrong["candidates"][0]["state"] = "sometimes".into();
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn a_bisection_fits_its_schema() {
    let scratch = scratch();
    let bisect = words("bisect --candidates 1,1,30 null,slowdown={}% --workload create,files=10");
    let output = succeeds(
        scratch.path(),
        &[
            &bisect[..],
            &words("--sample-time 20ms --format json --out b -q")[..],
        ]
        .concat(),
    );
    let validator = validator(include_str!("../../schema/bisect.json"));
    let mut answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    check(&validator, &answer);
    assert_eq!(answer["ending"]["place"]["later"], 2);
    answer["steps"][0]["purpose"] = "guess".into();
    assert!(!validator.is_valid(&answer));
}

#[test]
fn the_summary_of_a_trace_fits_its_schema() {
    let scratch = scratch();
    let log =
        "fio version 2 iolog\ndata add\ndata open\ndata write 0 4096\ndata sync 0 0\ndata close\n";
    fs::write(scratch.path().join("fio.log"), log).unwrap();
    succeeds(scratch.path(), "trace import fio.log -o fio.trace");
    let validator = validator(include_str!("../../schema/trace.json"));
    let summary = document(
        scratch.path(),
        &["trace", "show", "fio.trace", "--format", "json"],
    );
    check(&validator, &summary);
    assert_eq!(summary["writes"]["sizes"], serde_json::json!([[4096, 1]]));
    let mut wrong = summary;
    wrong["notes"] = serde_json::json!({});
    assert!(!validator.is_valid(&wrong));
}

/// Returns the errors that editors would mark in a plan.
fn faults(validator: &jsonschema::Validator, plan: &str) -> Vec<String> {
    let value: Value = toml::from_str(plan).expect("the plan is TOML");
    validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn plans_and_suites_fit_the_schema_for_editors() {
    let validator = validator(include_str!("../../schema/plan.json"));
    let suites = concat!(env!("CARGO_MANIFEST_DIR"), "/../fsb-runner/src/suite");
    let files = fs::read_dir(suites)
        .expect("suites")
        .map(|entry| entry.expect("an entry").path());
    let suites = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    let suites = suites.map(|path| fs::read_to_string(path).expect("a suite"));
    let shipped = fsb_runner::shipped_plan::REGISTRY
        .iter()
        .map(|plan| plan.text.to_owned());
    let scratch = scratch();
    let resolved = ["quick", "iozone", "postmark", "filetree", "varmail"].map(|suite| {
        let output = succeeds(
            scratch.path(),
            &["run", "ext4", "--suite", suite, "--print-plan"],
        );
        stdout(&output)
    });
    let mut plans = 0;
    for plan in suites.chain(shipped).chain(resolved) {
        assert_eq!(faults(&validator, &plan), Vec::<String>::new(), "{plan}");
        plans += 1;
    }
    assert!(plans > 30, "{plans}");
}

#[test]
fn the_schema_for_editors_marks_what_fsb_refuses() {
    let validator = validator(include_str!("../../schema/plan.json"));
    let workload = |line: &str| format!("[[workload]]\nname = \"read\"\n{line}\n");
    assert_eq!(
        faults(
            &validator,
            &workload("rate = \"100..800/s\"\np99_below = \"1ms\"")
        ),
        Vec::<String>::new()
    );
    for plan in [
        "suit = \"quick\"".to_owned(),
        "[controls]\nswop = \"off\"".to_owned(),
        workload("cache = \"lukewarm\""),
        workload("threads = 2000"),
        workload("overwrite = true"),
        workload("latency_from = \"call\""),
        "[[workload]]\nname = \"command\"".to_owned(),
    ] {
        assert!(!faults(&validator, &plan).is_empty(), "{plan}");
    }
}

// Runs on emulated processors: numbers everywhere, verdicts nowhere.

const SMALL: &str = r#"
name = "small"
[repetition]
blocks = 5
sample_time = "1ms"
[[workload]]
name = "write"
file_size = ["64K", "256K"]
[[workload]]
name = "read"
file_size = ["64K", "256K"]
cache = "warm"
"#;

/// Makes a run of two targets whose speeds differ by half. Its record is marked as emulated or not.
fn run_marked(directory: &Path, out: &str, emulated: bool) {
    fs::write(directory.join("small.toml"), SMALL).unwrap();
    let arguments = format!("run small.toml null slow=null,slowdown=50% --seed 7 --out {out} -q");
    succeeds(directory, &arguments);
    if emulated {
        let path = directory.join(out).join("run.json");
        let mut record = read_json(&path);
        assert!(
            record.get("emulated").is_none(),
            "native runs do not speak of it"
        );
        record["emulated"] = true.into();
        fs::write(&path, record.to_string()).unwrap();
    }
}

#[test]
fn a_report_shows_numbers_and_judges_nothing() {
    let scratch = scratch();
    run_marked(scratch.path(), "out", true);
    for format in ["text", "markdown", "csv", "json", "html"] {
        let output = succeeds(scratch.path(), &["report", "out", "--format", format]);
        let text = stdout(&output);
        assert!(
            text.to_lowercase().contains("emulated: a functional run"),
            "{format}: {text}"
        );
        // The script of the charts is third-party code; a report without charts does not contain
        // it.
        for word in ["faster", "slower", "fastest", "equivalent"] {
            assert!(!text.contains(word), "{format} says {word}");
        }
    }
}

#[test]
fn emulated_and_native_runs_are_never_compared() {
    let scratch = scratch();
    run_marked(scratch.path(), "native", false);
    run_marked(scratch.path(), "emulated", true);
    for (sets, unjudged) in [
        (
            ["native", "emulated"],
            "emulated and native runs are never compared",
        ),
        (["emulated", "again=emulated"], "emulated: a functional run"),
    ] {
        let arguments = [
            &["compare"][..],
            &sets,
            &["--format", "json", "--fail-if", "slower"],
        ]
        .concat();
        let compared = fsb_json(scratch.path(), &arguments);
        expect_code(&compared, 2);
        message(&compared, "warning/gate-undecided");
        let document: Value = serde_json::from_str(&stdout(&compared)).unwrap();
        assert!(
            document["warnings"][0]
                .as_str()
                .unwrap()
                .contains("emulated"),
            "{document}"
        );
        assert_eq!(document["findings"], serde_json::json!([]));
        for operation in document["operations"].as_array().unwrap() {
            let (estimate, classic) = (
                &operation["estimate"]["against"],
                &operation["classic"]["against"],
            );
            for (set, against) in estimate
                .as_object()
                .unwrap()
                .iter()
                .chain(classic.as_object().unwrap())
            {
                assert!(against.is_null(), "{set}: {against}");
            }
            assert!(
                operation["classic"]["sets"]
                    .as_object()
                    .unwrap()
                    .values()
                    .all(|set| set["mean"].is_number())
            );
        }
        assert_eq!(document["unjudged"], unjudged);
        check(
            &validator(include_str!("../../schema/comparison.json")),
            &document,
        );
        let show = |format: &str| {
            let arguments = ["compare", sets[0], sets[1], "--format", format];
            stdout(&succeeds(scratch.path(), &arguments))
        };
        for format in ["text", "markdown", "html"] {
            assert!(show(format).contains("nothing is judged"), "{format}");
        }
        assert!(!show("text").contains('%'), "{}", show("text"));
        let table = show("csv");
        assert!(!table.contains("_ratio,"), "{table}");
        assert!(
            table.lines().skip(1).all(|line| line.ends_with(unjudged)),
            "{table}"
        );
    }
}
