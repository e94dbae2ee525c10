//! Output formats, the detail of one operation, and the gate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{compare, refused, set};
use crate::common::{
    JSON, expect_code, fails, fast_plan, fsb, fsb_json, message, read_json, scratch, stdout,
    succeeds, words,
};

fn two() -> [String; 2] {
    [
        set("xfs", "iozone-2010/xfs"),
        set("ext4", "iozone-2010/ext4"),
    ]
}

fn run(directory: &Path, more: &[&str]) -> std::process::Output {
    let sets = two();
    fsb(
        directory,
        &[&["compare", &sets[0], &sets[1]], more].concat(),
    )
}

#[test]
fn every_format_can_be_printed_and_written() {
    let scratch = scratch();
    for (format, file, needle) in [
        ("text", "r.txt", "random write"),
        ("csv", "r.csv", "workload,operation,metric,"),
        ("json", "r.json", "\"fsbench/comparison/1\""),
        ("markdown", "r.md", "| "),
        ("html", "r.html", "<!doctype html>"),
        ("junit", "r.junit.xml", "<testsuites "),
        ("comment", "r.comment.md", "slower by more than 3 %"),
        ("annotations", "r.annotations.txt", "::error title="),
        ("code-quality", "r.codequality.json", "\"fingerprint\""),
        ("bencher", "r.bmf.json", "\"value\""),
        ("benchmark-smaller", "r.smaller.json", "[]"),
        ("benchmark-bigger", "r.bigger.json", "\"unit\""),
        ("openmetrics", "r.prom", "# eof"),
    ] {
        let printed = run(scratch.path(), &["--format", format]);
        expect_code(&printed, 0);
        assert!(stdout(&printed).to_lowercase().contains(needle), "{format}");
        let written = run(scratch.path(), &["-o", file]);
        expect_code(&written, 0);
        assert!(written.stdout.is_empty(), "{file}");
        assert_eq!(
            fs::read_to_string(scratch.path().join(file)).unwrap(),
            stdout(&printed),
            "{file}"
        );
    }
    expect_code(
        &run(scratch.path(), &["-o", "table.dat", "--format", "csv"]),
        0,
    );
    assert!(scratch.path().join("table.dat").exists());
}

#[test]
fn wrong_requests_are_told_and_write_nothing() {
    let scratch = scratch();
    let sets = two();
    for (more, code) in [
        (&["--format", "jsn"][..], "output/unknown-format"),
        (&["-o", "report.docx"], "output/unknown-format"),
        (&["--theta", "0"], "arguments/invalid-value"),
        (&["--theta", "lots"], "arguments/invalid-value"),
        (&["--fail-if", "faster"], "arguments/invalid-value"),
        (&["--detail", "wriet"], "compare/unknown-operation"),
        (&["--detail", "pwrite"], "compare/unknown-operation"),
    ] {
        let arguments = [&[sets[0].as_str(), &sets[1]], more].concat();
        refused(scratch.path(), &arguments, code);
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    let arguments = [
        "compare",
        sets[0].as_str(),
        &sets[1],
        "-o",
        "no/such/report.html",
    ];
    let error = fails(scratch.path(), &arguments, 3, "store/io");
    let expected =
        serde_json::json!({ "path": "no/such/report.html", "call": "write", "errno": "ENOENT" });
    assert_eq!(error["fields"], expected);
}

#[test]
fn a_report_is_never_written_over_what_it_reports() {
    let scratch = scratch();
    fs::copy(
        super::testdata("tool-output/fio-3.33.json"),
        scratch.path().join("old.json"),
    )
    .unwrap();
    let before = fs::read(scratch.path().join("old.json")).unwrap();
    refused(
        scratch.path(),
        &["old.json", "-o", "./old.json"],
        "arguments/conflict",
    );
    assert_eq!(fs::read(scratch.path().join("old.json")).unwrap(), before);
}

#[test]
fn one_operation_is_found_by_each_of_its_names() {
    let scratch = scratch();
    let sets = two();
    for name in ["random_read", "randrd", "RANDOM_READ"] {
        let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1], "--detail", name]);
        let operations = document["operations"].as_array().unwrap();
        assert_eq!(
            (operations.len(), &operations[0]["operation"]),
            (1, &"random_read".into()),
            "{name}"
        );
    }
    expect_code(
        &run(scratch.path(), &["--detail", "iwrite", "-o", "detail.html"]),
        0,
    );
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1], "--detail", "all"]);
    assert_eq!(document["operations"][0]["operation"], "ALL");
}

#[test]
fn tables_beside_the_page_hold_the_statistics_and_every_value() {
    let scratch = scratch();
    expect_code(
        &run(
            scratch.path(),
            &["-o", "page.html", "-o", "tables/of-2010/"],
        ),
        0,
    );
    let tables = scratch.path().join("tables/of-2010");
    let mut names: Vec<String> = fs::read_dir(&tables)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names.len(),
        13 + 1,
        "an operation each, and the statistics: {names:?}"
    );
    assert!(
        names.contains(&"random_read.csv".to_owned())
            && names.contains(&"statistics.csv".to_owned()),
        "{names:?}"
    );
    let lines = |name: &str| -> Vec<std::collections::HashMap<String, String>> {
        csv::Reader::from_path(tables.join(name))
            .unwrap()
            .deserialize()
            .map(|line| line.unwrap())
            .collect()
    };
    let reads = lines("random_read.csv");
    // Two sets of five runs.
    let cells = reads
        .iter()
        .filter(|line| line["set"] == "xfs" && line["run"] == "3")
        .count();
    assert_eq!((reads.len(), cells), (2 * 5 * cells, 163));
    let first = &reads[0];
    assert!(
        first["path"].ends_with(".iozone") && first["unit"] == "bytes_per_second",
        "{first:?}"
    );
    // The mean of the values of a cell is the mean that the statistics have.
    let is_cell = |line: &&std::collections::HashMap<String, String>| {
        ["set", "file_size", "record_size"]
            .iter()
            .all(|key| line[*key] == first[*key])
    };
    let values: Vec<f64> = reads
        .iter()
        .filter(is_cell)
        .map(|line| line["value"].parse().unwrap())
        .collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let statistics = lines("statistics.csv");
    let of_cell = statistics.iter().filter(is_cell).filter(|line| {
        line["operation"] == "random_read" && line["scope"] == "cell" && line["statistic"] == "mean"
    });
    let found: Vec<f64> = of_cell.map(|line| line["value"].parse().unwrap()).collect();
    assert!(
        matches!(found[..], [one] if (one - mean).abs() < mean * 1e-9),
        "{found:?} {mean}"
    );
    // The page links to each of them.
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    for name in &names {
        assert!(
            page.contains(&format!("<a href=\"tables/of-2010/{name}\">")),
            "{name}"
        );
    }
    fs::create_dir(scratch.path().join("pages")).unwrap();
    expect_code(
        &run(
            scratch.path(),
            &["-o", "pages/page.html", "-o", "two words/"],
        ),
        0,
    );
    let page = fs::read_to_string(scratch.path().join("pages/page.html")).unwrap();
    assert!(
        page.contains("<a href=\"../two%20words/statistics.csv\">../two words/statistics.csv</a>")
    );
    // An input is never overwritten.
    fs::create_dir(scratch.path().join("own")).unwrap();
    fs::copy(
        super::testdata("tool-output/fio-3.33.json"),
        scratch.path().join("own/statistics.csv"),
    )
    .unwrap();
    refused(
        scratch.path(),
        &["own/statistics.csv", "-o", "own/"],
        "arguments/conflict",
    );
}

#[test]
fn the_page_has_one_table_of_all_operations_and_statistics_of_each_cell() {
    let scratch = scratch();
    expect_code(&run(scratch.path(), &["-o", "page.html"]), 0);
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    let summary = page
        .split_once("id=\"classic\"")
        .unwrap()
        .1
        .split_once("</section>")
        .unwrap()
        .0;
    // Figure 5.3: xfs, all operations and random read.
    for value in [
        "952.81",
        "410.68",
        "ext4, t-test against xfs",
        "ALL",
        "random read",
        "−8.10 %",
    ] {
        assert!(summary.contains(value), "{value}: {summary}");
    }
    assert!(
        page.contains("ext4, as in 2011"),
        "linear axes can be chosen"
    );
    expect_code(
        &run(scratch.path(), &["--detail", "randrd", "-o", "detail.html"]),
        0,
    );
    let detail = fs::read_to_string(scratch.path().join("detail.html")).unwrap();
    assert!(
        detail.contains("classic statistics and every value") && !detail.contains("id=\"classic\""),
        "the detail"
    );
}

#[test]
fn the_gate_fails_where_a_set_is_slower_and_says_which() {
    let scratch = scratch();
    let slower = run(scratch.path(), &["--fail-if", "slower", JSON]);
    expect_code(&slower, 1);
    let failed = message(&slower, "warning/gate-failed");
    let [lost] = failed["fields"]["slower"].as_array().unwrap().as_slice() else {
        panic!("one set: {failed}")
    };
    assert_eq!(
        (&lost["set"], &lost["baseline"]),
        (&"ext4".into(), &"xfs".into())
    );
    let whole = serde_json::json!(["write", "record rewrite", "fwrite"]);
    assert_eq!(lost["operations"], whole);
    let parts = lost["at_some_sizes"].as_array().unwrap();
    assert!(
        !parts.is_empty()
            && whole
                .as_array()
                .unwrap()
                .iter()
                .all(|name| !parts.contains(name)),
        "{lost}"
    );
    assert!(
        stdout(&slower).contains("random write"),
        "the comparison is printed all the same"
    );
    // A difference of this size does not matter if half the speed is acceptable.
    expect_code(
        &run(scratch.path(), &["--fail-if", "slower", "--theta", "100%"]),
        0,
    );
    // A set is not compared with itself, nor with a copy of one of its files.
    let aa = set("all", "iozone-aa/ext4");
    let itself = fsb_json(
        scratch.path(),
        &[
            "compare",
            &aa,
            &aa.replace("all=", "same="),
            "--fail-if",
            "slower",
        ],
    );
    expect_code(&itself, 2);
    assert_eq!(
        message(&itself, "warning/gate-undecided")["fields"]["reason"],
        "common_data"
    );
    fs::copy(
        super::testdata("iozone-2010/xfs/xfs1.iozone"),
        scratch.path().join("copy.iozone"),
    )
    .unwrap();
    let copied = format!(
        "{},copy.iozone",
        set("ext4", "iozone-2010/ext4/ext4_1.iozone")
    );
    let copied = fsb_json(
        scratch.path(),
        &[
            "compare",
            &set("xfs", "iozone-2010/xfs"),
            &copied,
            "--fail-if",
            "slower",
        ],
    );
    expect_code(&copied, 2);
    let files = message(&copied, "warning/gate-undecided")["fields"]["files"].clone();
    assert!(
        files[0].as_str().unwrap().ends_with("xfs1.iozone") && files[1] == "copy.iozone",
        "{files}"
    );
    // Single runs are not judged: the gate is neither passed nor failed.
    let ones = [
        set("a", "iozone-2010/xfs/xfs1.iozone"),
        set("b", "iozone-2010/ext4/ext4_1.iozone"),
    ];
    let unjudged = fsb_json(
        scratch.path(),
        &["compare", &ones[0], &ones[1], "--fail-if", "slower"],
    );
    expect_code(&unjudged, 2);
    assert_eq!(
        message(&unjudged, "warning/gate-undecided")["fields"]["reason"],
        "one_run"
    );
}

#[test]
fn acknowledged_slowdowns_pass_up_to_their_amount_and_day() {
    let scratch = scratch();
    let gate = |entries: &[[&str; 3]], code| {
        let entries = entries.iter().map(|[case, up_to, until]| {
            format!("[[acknowledged]]\ncase = '{case}'\nup_to = '{up_to}'\nuntil = '{until}'\nreason = 'known'\n")
        });
        fs::write(
            scratch.path().join("known.toml"),
            entries.collect::<String>(),
        )
        .unwrap();
        let more = [
            "--fail-if",
            "slower",
            "--acknowledge",
            "known.toml",
            "-o",
            "g.junit.xml",
            JSON,
        ];
        let output = run(scratch.path(), &more);
        expect_code(&output, code);
        let report = fs::read_to_string(scratch.path().join("g.junit.xml")).unwrap();
        (output, count(&report, "testsuite", "failures"))
    };
    let (passed, failures) = gate(&[["*", "100%", "9999-12-31"]], 0);
    let passed = message(&passed, "note/gate-passed")["fields"].clone();
    let known = passed["acknowledged"].to_string();
    assert!(
        known.contains("ext4 at write until 9999-12-31, known"),
        "{passed}"
    );
    assert!(passed["excluded"].as_f64().unwrap() <= 0.03, "{passed}");
    assert_eq!(failures, 0);
    let entries = [
        ["write", "100%", "9999-12-31"],
        ["fwrite", "100%", "2020-12-31"],
        ["record rewrite", "4%", "9999-12-31"],
        ["no such case", "4%", "9999-12-31"],
    ];
    let (failed, left) = gate(&entries, 1);
    let fields = message(&failed, "warning/gate-failed")["fields"].clone();
    assert!(
        !fields["slower"][0]["operations"]
            .to_string()
            .contains("\"write\""),
        "{fields}"
    );
    let refused = fields["not_acknowledged"].to_string();
    assert!(
        refused.contains("fwrite: its acknowledgement expired on 2020-12-31"),
        "{fields}"
    );
    assert!(
        refused.contains("record rewrite: it may be slower by up to"),
        "{fields}"
    );
    assert_eq!(fields["unused"][0], "no such case");
    assert!(left > 1);
    fs::write(
        scratch.path().join("wrong.toml"),
        "[[acknowledged]]\ncase = 1\n",
    )
    .unwrap();
    let [one, other] = two();
    let wrong = [
        "compare",
        &one,
        &other,
        "--fail-if",
        "slower",
        "--acknowledge",
        "wrong.toml",
    ];
    fails(scratch.path(), &wrong, 2, "input/invalid");
    let missing = [
        "compare",
        &one,
        &other,
        "--fail-if",
        "slower",
        "--acknowledge",
        "no.toml",
    ];
    fails(scratch.path(), &missing, 2, "input/invalid");
    let alone = ["compare", &one, &other, "--acknowledge", "wrong.toml"];
    expect_code(&fsb(scratch.path(), &alone), 2);
}

/// Returns the values of an attribute of the first element of that name.
fn count(report: &str, element: &str, attribute: &str) -> usize {
    let tag = report.split_once(&format!("<{element} ")).unwrap().1;
    let value = tag.split_once(&format!("{attribute}=\"")).unwrap().1;
    value.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn test_cases_agree_with_the_exit_code_of_the_gate() {
    let scratch = scratch();
    let report = |name: &str, sets: &[String; 2], more: &[&str], code| {
        let file = format!("{name}.junit.xml");
        let gate = [
            "compare",
            &sets[0],
            &sets[1],
            "--fail-if",
            "slower",
            "-o",
            &file,
        ];
        expect_code(&fsb(scratch.path(), &[&gate, more].concat()), code);
        let text = fs::read_to_string(scratch.path().join(file)).unwrap();
        let [tests, failures, errors, skipped] = ["tests", "failures", "errors", "skipped"]
            .map(|attribute| count(&text, "testsuite", attribute));
        assert_eq!(text.matches("<testcase ").count(), tests);
        (tests, failures, errors + skipped)
    };
    let (tests, failures, _) = report("slower", &two(), &[], 1);
    assert!(failures > 3 && failures < tests);
    let (tests, failures, open) = report("passed", &two(), &["--theta", "100%"], 0);
    assert!(tests > 3 && failures + open == 0);
    // A copy would pass every test without measuring anything.
    let aa = set("all", "iozone-aa/ext4");
    let copies = [aa.clone(), aa.replace("all=", "same=")];
    let (tests, failures, open) = report("copies", &copies, &[], 2);
    assert!(tests > 3 && failures == 0 && open == tests);
    let ones = [
        set("a", "iozone-2010/xfs/xfs1.iozone"),
        set("b", "iozone-2010/ext4/ext4_1.iozone"),
    ];
    let (tests, failures, open) = report("ones", &ones, &[], 2);
    assert!(tests > 3 && failures == 0 && open == tests);
}

/// Two workloads whose units have files of their own, and two on one whole file.
const SIZES: &str = r#"
[repetition]
sample_time = "1ms"
[[workload]]
name = "write"
block_size = "1M"
durability = "end"
[[workload]]
name = "create"
file_size = "4K"
durability = "end"
[[workload]]
name = "write"
access = "random"
block_size = "4K"
overwrite = true
durability = "each"
[[workload]]
name = "read"
block_size = "1M"
cache = "warm"
"#;

/// One of the runs has larger slices, and therefore larger files. Units with files of their own do
/// the same work; workloads on the whole file do not, and latencies do not replace their rates.
#[test]
fn runs_of_other_sizes_are_compared_where_their_units_are_the_same() {
    let scratch = scratch();
    fs::write(scratch.path().join("sizes.toml"), SIZES).unwrap();
    for (name, size) in [("small", "1G"), ("large", "2G")] {
        let run = [
            "run",
            "sizes.toml",
            "null",
            "--size",
            size,
            "--blocks",
            "5",
            "--seed",
            "4",
            "-q",
            "--out",
            name,
        ];
        succeeds(scratch.path(), &run);
    }
    let (document, warnings) = compare(scratch.path(), &["old=small", "new=large"]);
    assert_eq!(document["conditions"][0]["condition"], "slice_size");
    let own_files = ["create 4K files, durable", "write 1M, durable"];
    assert_eq!(workloads(&document), BTreeSet::from(own_files));
    for name in ["random write 4K, durable each", "read 1M, warm"] {
        assert!(warnings.contains(name), "{warnings}");
    }

    // A run that does not record its units is compared by whole workloads.
    let record = scratch.path().join("small/run.json");
    let mut known = read_json(&record);
    assert!(known.as_object_mut().unwrap().remove("units").is_some());
    fs::write(&record, known.to_string()).unwrap();
    let (document, _) = compare(scratch.path(), &["old=small", "new=small"]);
    assert_eq!(workloads(&document).len(), 4);
    let (document, _) = compare(scratch.path(), &["old=small", "new=large"]);
    assert_eq!(
        workloads(&document),
        BTreeSet::from(["create 4K files, durable"])
    );
}

fn workloads(document: &Value) -> BTreeSet<&str> {
    let operations = document["operations"].as_array().unwrap().iter();
    operations
        .filter_map(|operation| operation["workload"].as_str())
        .collect()
}

/// A sample in rounds and a sequential trial measure different quantities, and the comparison warns
/// of that.
#[test]
fn rounds_beside_sequential_trials_are_reported() {
    let scratch = scratch();
    crate::common::fast_plan(scratch.path());
    for (name, way) in [("rounds", "--quiet"), ("visits", "--one-at-a-time")] {
        let run = format!("run fast.toml null --blocks 5 --seed 4 {way} --out {name}");
        succeeds(scratch.path(), &run);
    }
    let (_, warnings) = compare(scratch.path(), &["rounds", "visits"]);
    assert!(
        warnings.contains("sequential trials in visits"),
        "{warnings}"
    );
    assert!(!warnings.contains("file sizes differ"), "{warnings}");
}

#[test]
fn a_closed_pipe_is_success() {
    let scratch = scratch();
    let sets = two();
    let mut child = crate::common::command(
        scratch.path(),
        &["compare", &sets[0], &sets[1], "--format", "csv"],
    )
    .stdout(std::process::Stdio::piped())
    .stderr(std::process::Stdio::null())
    .spawn()
    .unwrap();
    drop(child.stdout.take());
    expect_code(&child.wait_with_output().unwrap(), 0);
}

// `--format json` conforms to the published schema for every comparison.

fn validator() -> jsonschema::Validator {
    let schema =
        serde_json::from_str(include_str!("../../../schema/comparison.json")).expect("JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

/// Checks the schema, and properties that a schema cannot express.
pub(super) fn check(directory: &Path, arguments: &[&str]) -> Value {
    let (document, _) = compare(directory, arguments);
    let errors: Vec<String> = validator()
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        errors.is_empty(),
        "{arguments:?}: {} errors: {:#?}",
        errors.len(),
        &errors[..errors.len().min(10)]
    );
    let sets: Vec<&str> = super::names(&document);
    assert!(sets.contains(&document["baseline"].as_str().unwrap()));
    for operation in document["operations"].as_array().unwrap() {
        let slices =
            ["by_file_size", "by_record_size"].map(|key| operation[key].as_array().unwrap());
        let slices = slices.into_iter().flatten();
        let grids = slices
            .clone()
            .map(|slice| &slice["grid"])
            .chain([&operation["grid"]]);
        grids
            .filter(|grid| !grid.is_null())
            .for_each(|grid| check_grid(grid, &sets, &document));
        slices
            .map(|slice| &slice["classic"])
            .chain([&operation["classic"]])
            .for_each(|classic| {
                assert_eq!(keys(&classic["sets"]), sets, "{operation}");
                assert_eq!(keys(&classic["against"]).len(), sets.len() - 1);
            });
    }
    document
}

fn keys(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn check_grid(grid: &Value, sets: &[&str], document: &Value) {
    let others: Vec<&str> = sets
        .iter()
        .copied()
        .filter(|name| document["baseline"] != *name)
        .collect();
    assert_eq!(keys(&grid["against"]), others);
    for against in grid["against"]
        .as_object()
        .unwrap()
        .values()
        .filter(|against| !against.is_null())
    {
        let count = |key: &str| against[key].as_u64().unwrap();
        assert_eq!(
            count("cells"),
            ["faster", "slower", "same", "uncertain"]
                .map(count)
                .iter()
                .sum::<u64>(),
            "{against}"
        );
    }
}

#[test]
fn iozone_sets_fit_the_schema_and_end_with_all() {
    let scratch = scratch();
    let sets = [
        set("xfs", "iozone-2010/xfs"),
        set("ext4", "iozone-2010/ext4"),
        set("new", "iozone-here/ext4"),
    ];
    let document = check(
        scratch.path(),
        &[&sets[0], &sets[1], "--baseline", "ext4", "--theta", "5%"],
    );
    assert_eq!(document["settings"]["theta"], 0.05);
    let operations = document["operations"].as_array().unwrap();
    let last = operations.last().unwrap();
    assert_eq!((operations.len(), &last["operation"]), (14, &"ALL".into()));
    assert!(
        operations
            .iter()
            .all(|operation| operation["workload"].is_null())
    );
    assert!(
        operations
            .iter()
            .all(|operation| operation["unit"] == "bytes_per_second")
    );
    assert_eq!(document["coverage"]["common"], 2119);
    let findings = document["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    assert!(
        findings
            .iter()
            .all(|found| found["baseline"] == "ext4" && found["candidate"] == "xfs")
    );
    check(scratch.path(), &[&sets[0], &sets[1], &sets[2]]);
    check(scratch.path(), &[&sets[0]]);
}

#[test]
fn results_of_other_tools_fit_the_schema() {
    let scratch = scratch();
    for name in [
        "fio-3.33.json",
        "fio-3.33-jsonplus.json",
        "bonnie++-2.00a.txt",
        "postmark-1.53.txt",
    ] {
        let sets = ["a", "b"].map(|set| super::set(set, &format!("tool-output/{name}")));
        let document = check(scratch.path(), &[&sets[0], &sets[1]]);
        // A rate that was too fast to measure has no ratio.
        let operations = document["operations"].as_array().unwrap().iter();
        for operation in operations.filter(|operation| operation["gaps"].is_null()) {
            let estimate = &operation["estimate"]["against"]["b"];
            assert_eq!(
                (&estimate["ratio"], &estimate["verdict"]),
                (&1.0.into(), &"not_judged".into()),
                "{name}"
            );
        }
    }
}

#[test]
fn a_run_of_ours_fits_the_schema_alone_and_beside_other_tools() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let run = words("run fast.toml null slow=null,slowdown=10% --blocks 5 --out run -q --seed 3");
    succeeds(scratch.path(), &run);
    let document = check(scratch.path(), &["run"]);
    assert_eq!(super::names(&document), ["null", "slow"]);
    let operations = document["operations"].as_array().unwrap();
    assert!(
        operations
            .iter()
            .all(|operation| operation["workload"].is_string())
    );
    assert!(operations.iter().any(|operation| operation["metric"] == "latency_p50" && operation["better"] == "lower"));
    assert!(
        !operations
            .iter()
            .any(|operation| operation["metric"] == "cpu_per_operation"),
        "costs judge nothing"
    );
    let mixed = check(
        scratch.path(),
        &[
            "run",
            &set("xfs", "iozone-2010/xfs"),
            &set("fio", "tool-output/fio-3.33.json"),
        ],
    );
    assert_eq!(mixed["sets"].as_array().unwrap().len(), 4);
}

#[test]
fn the_schema_refuses_something_too() {
    let scratch = scratch();
    let (document, _) = compare(
        scratch.path(),
        &[
            &set("xfs", "iozone-2010/xfs"),
            &set("ext4", "iozone-2010/ext4"),
        ],
    );
    let validator = validator();
    assert!(validator.is_valid(&document));
    for (pointer, wrong) in [
        ("/schema", "fsbench/comparison/2".into()),
        (
            "/operations/0/estimate/against/ext4/verdict",
            "better".into(),
        ),
        ("/operations/0/classic/sets/xfs/mean", Value::Null),
        (
            "/operations/0/classic/against/ext4/t_verdict",
            "diff".into(),
        ),
        ("/operations/0/grid/against/ext4/cells", (-1).into()),
        ("/findings/0/file_size", serde_json::json!([1])),
    ] {
        let mut broken = document.clone();
        *broken
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer} is not there")) = wrong;
        assert!(!validator.is_valid(&broken), "{pointer}");
    }
}
