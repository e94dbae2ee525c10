//! `fsb compare`: results of other tools and of fsb, from files to the JSON document.

mod output;
mod tools;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::compare::*;
use crate::common::{
    command, expect_code, fails, fast_plan, fast_suite, fsb, fsb_json, json, message, read_json,
    rewrite_trials, scratch, stderr, stdout, succeeds, text_of, trials, words, write_trials,
};
use output::check;

/// Runs a comparison that must fail with this error code. Returns the message with its causes, for
/// a snapshot.
fn refused(directory: &Path, arguments: &[&str], code: &str) -> String {
    text_of(&fails(
        directory,
        &[&["compare"], arguments].concat(),
        2,
        code,
    ))
}

/// Returns the names of the sets.
fn names(document: &Value) -> Vec<&str> {
    document["sets"]
        .as_array()
        .expect("sets")
        .iter()
        .filter_map(|set| set["name"].as_str())
        .collect()
}

/// Returns the number of files of a set.
fn files(document: &Value, set: usize) -> usize {
    document["sets"][set]["files"]
        .as_array()
        .expect("files")
        .len()
}

// Sets that the arguments name.

/// Copies runs of xfs into `directory` under other names.
fn copies(directory: &Path, names: &[&str]) {
    for (run, name) in (1..).zip(names) {
        let from = testdata(&format!("iozone-2010/xfs/xfs{}.iozone", (run - 1) % 5 + 1));
        let to = directory.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
}

#[test]
fn files_directories_and_quoted_patterns_make_the_same_set() {
    let scratch = scratch();
    copies(
        scratch.path(),
        &["d/f_1.iozone", "d/f_2.iozone", "d/f_10.iozone"],
    );
    let ways = [
        "a=d",
        "a=d/",
        "a=d/f_*.iozone",
        "a=d/*",
        "a=*/f_*",
        "a=d/f_1.iozone,d/f_2.iozone,d/f_10.iozone",
    ];
    for way in ways {
        let (document, _) = compare(scratch.path(), &[way, &set("b", "iozone-2010/ext4")]);
        let found: Vec<&str> = document["sets"][0]["files"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|file| file.as_str())
            .collect();
        let ends = found
            .iter()
            .zip(["f_1.iozone", "f_2.iozone", "f_10.iozone"]);
        assert!(
            found.len() == 3 && ends.clone().all(|(file, end)| file.ends_with(end)),
            "{way}: {found:?}"
        );
    }
}

#[test]
fn a_quoted_tilde_is_the_home_directory() {
    let scratch = scratch();
    copies(scratch.path(), &["home/d/f_1.iozone", "home/d/f_2.iozone"]);
    let mut fsb = command(
        scratch.path(),
        "compare --format json a=~/d/f_*.iozone,~/d/f_1.iozone",
    );
    let output = fsb
        .env("HOME", scratch.path().join("home"))
        .output()
        .unwrap();
    expect_code(&output, 0);
    assert_eq!(
        files(&serde_json::from_slice(&output.stdout).unwrap(), 0),
        2
    );
}

#[test]
fn names_are_derived_where_none_is_given() {
    let scratch = scratch();
    copies(
        scratch.path(),
        &[
            "one/r/ext4/a.iozone",
            "two/r/ext4/a.iozone",
            "xfs_1.iozone",
            "xfs_2.iozone",
            "x.y.iozone",
        ],
    );
    for (arguments, expected) in [
        (&["one/r/ext4", "xfs_*.iozone"][..], &["ext4", "xfs"][..]),
        (&["one/r/ext4", "two/r/ext4"], &["one/r/ext4", "two/r/ext4"]),
        (&["ext4=one/r/ext4", "two/r/ext4"], &["ext4", "r/ext4"]),
        (
            &["xfs_1.iozone,xfs_2.iozone", "x.y.iozone"],
            &["xfs", "x.y"],
        ),
        (
            &["one/r/ext4/*.iozone", "new kernel=two/r/ext4/*"],
            &["ext4", "new kernel"],
        ),
    ] {
        let (document, _) = compare(scratch.path(), arguments);
        assert_eq!(names(&document), expected, "{arguments:?}");
    }
}

#[test]
fn several_bare_files_are_sets_of_their_own_with_the_quoted_form() {
    let scratch = scratch();
    let files = words("xfs1.iozone xfs2.iozone ext4_1.iozone ext4_2.iozone");
    copies(scratch.path(), &files);
    let (document, bare) = compare(scratch.path(), &files);
    assert_eq!(names(&document), ["xfs1", "xfs2", "ext4_1", "ext4_2"]);
    let (document, quoted) = compare(scratch.path(), &["xfs=xfs*.iozone", "ext4=ext4_*.iozone"]);
    assert_eq!(
        (names(&document), self::files(&document, 0)),
        (vec!["xfs", "ext4"], 2)
    );
    let advice = "fsb compare 'xfs=xfs*.iozone' 'ext4=ext4_*.iozone'";
    assert!(
        bare.contains(advice) && !quoted.contains("fsb compare"),
        "{bare}\n{quoted}"
    );
}

#[test]
fn a_name_twice_is_refused_and_a_file_twice_is_read_once() {
    let scratch = scratch();
    copies(scratch.path(), &["a.iozone", "b.iozone"]);
    refused(
        scratch.path(),
        &["x=a.iozone", "x=b.iozone"],
        "compare/invalid-set",
    );
    refused(
        scratch.path(),
        &["a.iozone", "./a.iozone"],
        "compare/invalid-set",
    );
    std::os::unix::fs::symlink("a.iozone", scratch.path().join("link.iozone")).unwrap();
    for way in [
        "x=a.iozone,a.iozone",
        "x=a.iozone,./a.iozone",
        "x=a.iozone,link.iozone",
        "x=a.iozone,a.*",
    ] {
        let (document, warnings) = compare(scratch.path(), &[way, "b.iozone"]);
        assert_eq!(files(&document, 0), 1, "{way}");
        assert!(warnings.starts_with(&format!("'{way}' ")), "{warnings}");
    }
    let (document, warnings) = compare(scratch.path(), &["x=a.iozone", "y=a.iozone"]);
    assert!(
        warnings.starts_with("'x=a.iozone' and 'y=a.iozone' "),
        "{warnings}"
    );
    assert_eq!(
        document["operations"][0]["estimate"]["against"]["y"]["ratio"],
        1.0
    );
}

#[test]
fn paths_may_hold_equals_signs_commas_spaces_and_bytes_that_are_no_text() {
    let scratch = scratch();
    copies(
        scratch.path(),
        &["n=1,m=2/a b.iozone", "k=v.iozone", "c,d.iozone"],
    );
    for (argument, name) in [
        ("n=1,m=2", "n=1,m=2"),
        ("./k=v.iozone", "k=v"),
        ("k=v.iozone", "k=v"),
        ("set=k=v.iozone", "set"),
        ("set=c,d.iozone,k=v.iozone", "set"),
    ] {
        assert_eq!(
            names(&compare(scratch.path(), &[argument]).0),
            [name],
            "{argument}"
        );
    }
    assert_eq!(files(&compare(scratch.path(), &["*=v.iozone"]).0, 0), 1);
    let odd = OsStr::from_bytes(b"odd-\xff.iozone");
    fs::copy(
        testdata("iozone-2010/xfs/xfs1.iozone"),
        scratch.path().join(odd),
    )
    .unwrap();
    let output = command(scratch.path(), "compare --format json")
        .arg(odd)
        .output()
        .unwrap();
    expect_code(&output, 0);
}

#[test]
fn a_directory_with_results_of_several_tools_is_refused_with_the_list() {
    let scratch = scratch();
    copies(
        scratch.path(),
        &["mixed/run.iozone", "mixed/sub/run.iozone"],
    );
    fs::copy(
        testdata("tool-output/fio-3.33.json"),
        scratch.path().join("mixed/fio.json"),
    )
    .unwrap();
    let refusal = refused(scratch.path(), &["mixed"], "compare/invalid-set");
    let advice = "fsb compare fio=mixed/fio.json iozone=mixed/run.iozone";
    assert!(refusal.contains(advice), "{refusal}");
    let (document, _) = compare(scratch.path(), &["mixed/*.iozone"]);
    assert_eq!(files(&document, 0), 1);
}

#[test]
fn each_system_of_a_file_is_a_set() {
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name);
    let text = fs::read_to_string(testdata("tool-output/phoronix-10.8.6.xml")).unwrap();
    for (directory, text) in [
        ("both", text.clone()),
        // Results of one system each.
        ("one", without(&text, "ram")),
        ("two", without(&text, "disk")),
        ("three", without(&text, "disk")),
    ] {
        fs::create_dir(at(directory)).unwrap();
        fs::write(at(directory).join("composite.xml"), text).unwrap();
    }
    for (arguments, expected) in [
        (&["both/composite.xml"][..], &["disk", "ram"][..]),
        (
            &["old=both", "new=both/composite.xml"],
            &["old/disk", "old/ram", "new/disk", "new/ram"],
        ),
        (&["one", "two"], &["disk", "ram"]),
        (
            &["two/composite.xml", "three/composite.xml"],
            &["two/composite/ram", "three/composite/ram"],
        ),
        (&["disk=one", "ram=two"], &["disk", "ram"]),
        (&["all=one/composite.xml,two/composite.xml"], &["all"]),
        (&["both/composite.xml,two/composite.xml"], &["disk", "ram"]),
    ] {
        let (document, _) = compare(scratch.path(), arguments);
        assert_eq!(names(&document), expected, "{arguments:?}");
    }
    let document = check(scratch.path(), &["both"]);
    let runs: Vec<_> = document["sets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| set["runs"].as_u64())
        .collect();
    assert_eq!(runs, [Some(3), Some(3)]);
}

/// Removes the entries of a system from a composite.xml.
fn without(text: &str, system: &str) -> String {
    let start = format!("      <Entry>\n        <Identifier>{system}</Identifier>");
    let mut parts = text.split(&start);
    let head = parts.next().unwrap().to_owned();
    parts.fold(head, |kept, part| {
        kept + part.split_once("</Entry>\n").unwrap().1
    })
}

#[test]
fn unknown_files_in_a_directory_are_left_out_with_a_note() {
    let scratch = scratch();
    copies(
        scratch.path(),
        &["d/run.iozone", "d/.hidden.iozone", "d/sub/run.iozone"],
    );
    for (name, content) in [("notes.txt", "five runs on Monday"), ("empty", "")] {
        fs::write(scratch.path().join("d").join(name), content).unwrap();
    }
    let (document, warnings) = compare(scratch.path(), &["d"]);
    assert_eq!(files(&document, 0), 1);
    assert!(warnings.contains("empty, notes.txt"), "{warnings}");
    fs::create_dir(scratch.path().join("hollow")).unwrap();
    refused(scratch.path(), &["hollow"], "compare/no-match");
    fs::remove_file(scratch.path().join("d/run.iozone")).unwrap();
    refused(scratch.path(), &["d"], "compare/no-match");
}

#[test]
fn the_baseline_is_the_first_set_unless_another_is_named() {
    let scratch = scratch();
    let sets = [
        set("xfs", "iozone-2010/xfs"),
        set("ext4", "iozone-2010/ext4"),
    ];
    assert_eq!(
        compare(scratch.path(), &[&sets[0], &sets[1]]).0["baseline"],
        "xfs"
    );
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1], "--baseline", "ext4"]);
    assert_eq!(
        (&document["baseline"], names(&document)),
        (&"ext4".into(), vec!["xfs", "ext4"])
    );
    refused(
        scratch.path(),
        &[&sets[0], &sets[1], "--baseline", "exf4"],
        "compare/unknown-set",
    );
}

#[test]
fn the_tools_are_listed() {
    let scratch = scratch();
    let output = succeeds(scratch.path(), "list tools");
    let text = crate::common::stdout(&output);
    let known = fsb_compat::TOOLS.iter().map(|tool| tool.name);
    for tool in known {
        assert!(
            text.lines()
                .any(|line| line.starts_with(&format!("{tool} "))),
            "{tool} in {text}"
        );
    }
    assert!(stderr(&output).is_empty());
}

// Run directories of fsb as sets.

fn measure(directory: &Path, out: &str, targets: &[&str], seed: &str) {
    fast_plan(directory);
    measure_plan(directory, out, targets, seed);
}

/// Runs the plan that the directory has.
fn measure_plan(directory: &Path, out: &str, targets: &[&str], seed: &str) {
    let fixed = [
        "run",
        "fast.toml",
        "--out",
        out,
        "-q",
        "--seed",
        seed,
        "--blocks",
        "5",
    ];
    succeeds(directory, &[&fixed[..], targets].concat());
}

#[test]
fn each_target_is_a_set_and_blocks_pair_only_within_their_run() {
    let scratch = scratch();
    measure(
        scratch.path(),
        "one",
        &["a=null", "b=null,slowdown=100%"],
        "1",
    );
    measure(
        scratch.path(),
        "two",
        &["a=null", "b=null,slowdown=100%"],
        "2",
    );
    let method = |document: &serde_json::Value, set: &str| {
        let estimate = &document["operations"][0]["estimate"]["against"][set];
        (
            estimate["method"].as_str().unwrap().to_owned(),
            estimate["n"].as_u64().unwrap(),
        )
    };
    let (document, _) = compare(scratch.path(), &["one"]);
    assert_eq!(names(&document), ["a", "b"]);
    assert_eq!(method(&document, "b"), ("paired".to_owned(), 5));
    let (document, _) = compare(scratch.path(), &["old=one", "new=two/"]);
    assert_eq!(names(&document), ["old/a", "old/b", "new/a", "new/b"]);
    assert_eq!(method(&document, "old/b").0, "paired");
    assert_eq!(method(&document, "new/a").0, "welch");
    let (document, _) = compare(scratch.path(), &["one", "two"]);
    assert_eq!(names(&document), ["one/a", "one/b", "two/a", "two/b"]);
    // Two runs with one name are one set for each target, compared run by run.
    let (document, _) = compare(scratch.path(), &["both=one,two"]);
    let paired = ("paired_runs".to_owned(), 2);
    assert_eq!(
        (names(&document), method(&document, "both/b")),
        (vec!["both/a", "both/b"], paired)
    );
    let ratio = |document: &serde_json::Value, set: &str, at: usize| {
        document["operations"][at]["estimate"]["against"][set]["ratio"]
            .as_f64()
            .unwrap()
            .ln()
    };
    let halves = ["one", "two"].map(|run| ratio(&compare(scratch.path(), &[run]).0, "b", 0));
    assert!((ratio(&document, "both/b", 0) - (halves[0] + halves[1]) / 2.0).abs() < 1e-9);
    refused(
        scratch.path(),
        &[&format!("x=one,{}", &set("x", "iozone-2010/xfs")[2..])],
        "compare/invalid-set",
    );
    refused(
        scratch.path(),
        &["one", "-o", "one/run.json"],
        "arguments/conflict",
    );
}

#[test]
fn controls_that_differ_are_named() {
    let scratch = scratch();
    for (out, seed) in [("one", "1"), ("two", "2")] {
        measure(scratch.path(), out, &["a=null"], seed);
    }
    let hold = |run: &str, control: Option<[&str; 2]>| {
        let path = scratch.path().join(run).join("run.json");
        let mut record = read_json(&path);
        let controls = record["controls"].as_object_mut().unwrap();
        controls.remove("idle");
        if let Some([requested, observed]) = control {
            let seen = serde_json::json!({ "requested": requested, "observed": observed, "effective": true });
            controls.insert("idle".to_owned(), seen);
        }
        fs::write(&path, record.to_string()).unwrap();
    };
    let said = || compare(scratch.path(), &["one", "two"]).0["warnings"].to_string();
    hold("one", None);
    hold("two", Some(["keep", "idle processors sleep"]));
    assert!(
        !said().contains("idle"),
        "who knew no control kept it: {}",
        said()
    );
    hold("two", Some(["auto", "idle processors poll"]));
    assert!(
        said().contains("with another idle (two: idle processors poll; one: not recorded)"),
        "{}",
        said()
    );
    hold("one", Some(["auto", "idle processors poll"]));
    assert!(!said().contains("idle"), "{}", said());
}

#[test]
fn the_report_and_the_comparison_tell_the_same_ratios_and_verdicts() {
    let scratch = scratch();
    fast_suite(scratch.path());
    measure_plan(
        scratch.path(),
        "run",
        &["a=null", "b=null,slowdown=100%"],
        "7",
    );
    let report = json(scratch.path(), "report run --format json");
    let (document, _) = compare(scratch.path(), &["run"]);
    let rows = report["cases"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let operations = document["operations"].as_array().unwrap();
    let mut order: Vec<_> = operations
        .iter()
        .map(|operation| &operation["workload"])
        .collect();
    order.dedup();
    assert!(
        order
            .into_iter()
            .eq(rows.iter().map(|row| &row["workload"])),
        "not in the plan's order"
    );
    for row in rows {
        let is_row = |operation: &&serde_json::Value| {
            operation["workload"] == row["workload"] && operation["metric"] == row["metric"]
        };
        let operation = operations.iter().find(is_row).unwrap();
        let ours = operation["estimate"]["against"]["b"]["ratio"]
            .as_f64()
            .unwrap();
        let theirs = row["cells"][1]["against"]["ratio"].as_f64().unwrap();
        assert!(
            (ours / theirs - 1.0).abs() < 1e-9,
            "{}: {ours} and {theirs}",
            row["workload"]
        );
        let verdicts = [
            &operation["estimate"]["against"]["b"],
            &row["cells"][1]["against"],
        ]
        .map(|found| &found["verdict"]);
        assert_eq!(verdicts[0], verdicts[1], "{}", row["workload"]);
    }
}

#[test]
fn cells_that_differ_in_sizes_only_are_a_grid() {
    let scratch = scratch();
    let cell = |name: &str, size: &str, block: &str| {
        format!(
            "[[workload]]\nname = '{name}'\nfile_size = '{size}'\nblock_size = '{block}'\ncache = 'warm'\n"
        )
    };
    let mut plan =
        "[controls]\nguest-memory = 'off'\n[repetition]\nsample_time = '1ms'\n".to_owned();
    for (size, block) in [("1M", "128K"), ("2M", "256K"), ("1M", "256K")] {
        plan += &cell("read", size, block).replace(
            "cache",
            &format!("label = 'read {block} of {size}, warm'\ncache"),
        );
    }
    let unlabelled = "[controls]\nguest-memory = 'off'\n[repetition]\nsample_time = '1ms'\n"
        .to_owned()
        + &["64K", "128K", "256K"]
            .map(|block| cell("read", "1M", block))
            .concat();
    for (name, text, workloads) in [("labelled", &plan, 3), ("grid", &unlabelled, 1)] {
        let file = format!("{name}.toml");
        fs::write(scratch.path().join(&file), text).unwrap();
        let run = format!("run {file} a=null b=null --blocks 5 --out {name} -q --seed 1");
        succeeds(scratch.path(), &run);
        let (document, _) = compare(scratch.path(), &[name]);
        let operations = document["operations"].as_array().unwrap().iter();
        let rates: Vec<_> = operations
            .filter(|operation| operation["metric"] == "throughput")
            .collect();
        assert_eq!(rates.len(), workloads, "{name}");
    }
    let (document, _) = compare(scratch.path(), &["grid"]);
    let grid = &document["operations"][0];
    assert_eq!(grid["workload"], "read, warm");
    let sizes: Vec<u64> = grid["by_record_size"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|slice| slice["bytes"].as_u64())
        .collect();
    assert_eq!(sizes, [65536, 131072, 262144]);
    assert_eq!(grid["grid"]["against"]["b"]["cells"], 3);
}

#[test]
fn failed_trials_are_counted_and_superseded_ones_are_not_used() {
    let scratch = scratch();
    measure(scratch.path(), "run", &["a=null", "b=null"], "5");
    let label = trials(&scratch.path().join("run"))[0]["workload"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut lines = Vec::new();
    for mut trial in trials(&scratch.path().join("run")) {
        if trial["target"] == "b"
            && trial["phase"] == "measured"
            && trial["workload"] == label.as_str()
        {
            match trial["block"].as_u64().unwrap() {
                1 => (trial["outcome"], trial["error"]) = ("failed".into(), "no space".into()),
                2 => (trial["outcome"], trial["error"]) = ("invalid".into(), "not cold".into()),
                3 => {
                    let mut old = trial.clone();
                    (old["id"], old["superseded"]) = ("first attempt".into(), true.into());
                    old["metrics"][0]["value"] = 1e30.into();
                    lines.push(old);
                }
                4 => {
                    let mut again = trial.clone();
                    again["id"] = "second attempt".into();
                    (again["attempt"], again["metrics"][0]["value"]) = (2.into(), 1e30.into());
                    lines.push(again);
                }
                _ => {}
            }
        }
        lines.push(trial);
    }
    write_trials(&scratch.path().join("run"), &lines);
    let (document, warnings) = compare(scratch.path(), &["run"]);
    let lost = "run, b: left out of 15 trials: 1 failed, 1 invalid";
    assert!(warnings.contains(lost), "{warnings}");
    let mut operations = document["operations"].as_array().unwrap().iter();
    let first = |operation: &&serde_json::Value| {
        operation["workload"].as_str().unwrap().starts_with(&label)
            && operation["better"] == "higher"
    };
    let pooled = &operations.find(first).unwrap()["classic"]["sets"]["b"];
    assert_eq!(
        pooled["n"], 3,
        "five blocks but for the failed and the invalid one"
    );
    assert_eq!(
        pooled["max"], 1e30,
        "the second attempt of block 4, and nothing of what was superseded in block 3"
    );
    assert!(pooled["median"].as_f64().unwrap() < 1e20);
}

#[test]
fn run_directories_that_cannot_be_read_are_refused() {
    let scratch = scratch();
    for (name, text, code) in [
        ("newer", "{\"schema\": \"fsbench/run/9\"}", "store/newer"),
        ("broken", "{", "store/syntax"),
    ] {
        fs::create_dir(scratch.path().join(name)).unwrap();
        fs::write(scratch.path().join(name).join("run.json"), text).unwrap();
        refused(scratch.path(), &[name], code);
    }
}

// The comparison of 2011: its printed figure to the last digit, and SciPy's numbers on real files.

/// Walks SciPy's values and compares each with the value of fsb.
fn differences(
    path: &str,
    expected: &Value,
    found: &Value,
    checked: &mut usize,
    wrong: &mut Vec<String>,
) {
    match expected {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| {
                differences(&format!("{path}/{key}"), value, &found[key], checked, wrong)
            });
        }
        Value::Array(items) => {
            assert_eq!(Some(items.len()), found.as_array().map(Vec::len), "{path}");
            for (at, value) in items.iter().enumerate() {
                differences(&format!("{path}/{at}"), value, &found[at], checked, wrong);
            }
        }
        Value::Number(number) => {
            let (expected, found) = (number.as_f64().unwrap(), found.as_f64().unwrap_or(f64::NAN));
            *checked += 1;
            let close = (expected - found).abs() <= 1e-9 * expected.abs().max(found.abs());
            if !close {
                wrong.push(format!("{path}: SciPy {expected}, fsb {found}"));
            }
        }
        other if other == found => {}
        other => wrong.push(format!("{path}: SciPy {other}, fsb {found}")),
    }
}

fn expect_scipy(sets: &[String], expected: &str, least: usize) {
    let scratch = scratch();
    let arguments: Vec<&str> = sets.iter().map(String::as_str).collect();
    let (document, _) = compare(scratch.path(), &arguments);
    let expected = read_json(testdata(expected));
    let (mut checked, mut wrong) = (0, Vec::new());
    for entry in expected["operations"].as_array().unwrap() {
        let name = entry["operation"].as_str().unwrap();
        differences(
            name,
            entry,
            operation(&document, name),
            &mut checked,
            &mut wrong,
        );
    }
    assert_eq!(
        expected["operations"].as_array().unwrap().len(),
        document["operations"].as_array().unwrap().len()
    );
    assert!(checked >= least, "{checked}");
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn scipy_agrees_on_the_files_of_2010() {
    let sets = [
        set("xfs", "iozone-2010/xfs"),
        set("ext4", "iozone-2010/ext4"),
    ];
    expect_scipy(&sets, "expected/classic-iozone-2010.json", 14_000);
}

#[test]
fn scipy_agrees_on_files_of_another_version_with_other_sizes() {
    let sets = [
        set("ext3", "iozone-here/ext3"),
        set("ext4", "iozone-here/ext4"),
    ];
    expect_scipy(&sets, "expected/classic-iozone-here.json", 9_000);
}

#[test]
fn scipy_agrees_on_three_sets_that_overlap_in_part() {
    let sets = [
        set("xfs", "iozone-2010/xfs"),
        set("old", "iozone-2010/ext4"),
        set("new", "iozone-here/ext4"),
    ];
    expect_scipy(&sets, "expected/classic-three-sets.json", 600);
}

// Comparisons between runs: the run is the unit.

/// Measures the run that the others are copies of.
fn measure_base(directory: &Path) {
    measure(directory, "base/run", &["a=null", "b=null"], "1");
}

/// Copies the run. The rates of the copy are `speed` times those of the first block, with a random
/// factor that depends on `luck` and workload. No trial of the copy is affected by interference.
fn copy(
    directory: &Path,
    name: &str,
    luck: u64,
    speed: impl Fn(&str) -> f64,
    record: impl FnOnce(&mut Value),
) {
    let (from, to) = (directory.join("base/run"), directory.join(name));
    fs::create_dir_all(&to).unwrap();
    let mut stored = read_json(from.join("run.json"));
    record(&mut stored);
    fs::write(to.join("run.json"), stored.to_string()).unwrap();
    let mut lines = Vec::new();
    for mut trial in trials(&from) {
        let (label, block) = (
            trial["workload"].as_str().unwrap().len() as u64,
            trial["block"].as_u64().unwrap(),
        );
        let target = trial["target"].as_str().unwrap().to_owned();
        let spread = |number: u64| (number % 7) as f64 / 7.0 - 0.5;
        let own = u64::from(target.as_bytes()[0]);
        let chance = 0.02 * spread(luck * 5 + label * 3)
            + 0.01 * spread(luck * own + label * 2)
            + 0.004 * spread(block * 3 + label);
        trial["interference"] = serde_json::json!([]);
        if let Some(value) = trial.pointer_mut("/metrics/0/value") {
            *value = (1e6 * speed(&target) * chance.exp()).into();
        }
        lines.push(trial);
    }
    write_trials(&to, &lines);
}

/// Makes copies `old1`, `old2` … and `new1`, `new2` …; `speed` returns the speed of each target in
/// the new ones.
fn both_sides(
    directory: &Path,
    runs: u64,
    speed: impl Fn(&str) -> f64,
    record: impl Fn(&mut Value),
) {
    for number in 1..=runs {
        copy(directory, &format!("old{number}"), number, |_| 1.0, |_| ());
        copy(
            directory,
            &format!("new{number}"),
            number + 4,
            &speed,
            &record,
        );
    }
}

fn gate(directory: &Path, old: &str, new: &str, more: &[&str]) -> Output {
    let sides = [format!("old={old}"), format!("new={new}")];
    let arguments = ["compare", &sides[0], &sides[1], "--fail-if", "slower"];
    fsb_json(directory, &[&arguments[..], more].concat())
}

/// Returns the sets that failed the gate.
fn slower(output: &Output) -> Vec<String> {
    let failed = message(output, "warning/gate-failed");
    let sets = failed["fields"]["slower"].as_array().expect("sets").iter();
    sets.map(|set| {
        format!(
            "{} < {}",
            set["set"].as_str().unwrap(),
            set["baseline"].as_str().unwrap()
        )
    })
    .collect()
}

/// Returns the reason why the gate could not decide.
fn undecided(output: &Output) -> Value {
    message(output, "warning/gate-undecided")["fields"].clone()
}

/// Returns the output with wrapped lines joined.
fn unwrapped(output: &Output) -> String {
    stdout(output)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the verdict on a set against the baseline.
fn verdict(operation: &Value, set: &str) -> String {
    let against = &operation["estimate"]["against"][set];
    against["verdict"].as_str().expect("a verdict").to_owned()
}

const THREE: [&str; 2] = ["old1,old2,old3", "new1,new2,new3"];

#[test]
fn one_run_on_each_side_has_no_verdict_unless_the_variation_is_stated() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(
        scratch.path(),
        1,
        |target| if target == "b" { 0.6 } else { 1.0 },
        |_| (),
    );
    let output = gate(scratch.path(), "old1", "new1", &[]);
    expect_code(&output, 2);
    assert_eq!(undecided(&output)["reason"], "one_run");
    assert!(unwrapped(&output).starts_with("Target by target: "));
    // Five blocks of one run judge its targets.
    let verdicts = |more: &[&str]| {
        let sets = [&["old=old1", "new=new1"], more].concat();
        let (document, _) = compare(scratch.path(), &sets);
        ["old/b", "new/a", "new/b"].map(|set| verdict(&document["operations"][0], set))
    };
    assert_eq!(verdicts(&[])[1..], ["not_judged", "not_judged"]);
    assert_ne!(verdicts(&[])[0], "not_judged");
    assert_eq!(verdicts(&["--between", "2%"])[2], "slower");
    let stated = ["old=old1", "new=new1", "--between", "2%"];
    let (document, _) = compare(scratch.path(), &stated);
    let change = &document["by_target"]["changes"][1];
    assert_eq!(change["baseline"], "old/b");
    assert_eq!(verdict(&change["operations"][0], "new/b"), "slower");
    // One workload in detail is the only one in each document.
    let workload = change["operations"][0]["workload"].as_str().unwrap();
    let (narrow, _) = compare(
        scratch.path(),
        &[&stated[..], &["--detail", workload]].concat(),
    );
    for document in [
        &narrow["by_target"]["changes"][1],
        &narrow["by_target"]["ratios"][0],
    ] {
        let mut operations = document["operations"].as_array().unwrap().iter();
        assert!(operations.all(|operation| operation["workload"] == workload));
    }
    for form in ["text", "markdown", "html", "latex"] {
        let line = [&["compare"][..], &stated, &["--format", form]].concat();
        let output = unwrapped(&fsb(scratch.path(), &line[..]));
        let (_, after) = output.split_once("Target by target").expect(form);
        assert!(
            after.contains("new/b against old/b, in these runs"),
            "{form}: {after}"
        );
    }
    let output = gate(scratch.path(), "old1", "new1", &["--between", "2%"]);
    expect_code(&output, 1);
    assert_eq!(slower(&output), ["new/b < old/b"]);
    // If nothing is known, a gate does not pass.
    let output = gate(scratch.path(), "old1", "new1", &["--between", "100%"]);
    expect_code(&output, 2);
    let open = undecided(&output);
    assert_eq!(
        (&open["reason"], &open["undecided"], &open["unjudged"]),
        (&"undecided".into(), &6.into(), &0.into())
    );
    assert!(open["possible"].as_f64().unwrap() > 1.0, "{open}");
}

#[test]
fn sets_without_a_common_case_are_not_called_described() {
    let scratch = scratch();
    measure_base(scratch.path());
    for (name, workload) in [("written", "write 1M, durable"), ("read", "read 1M, cold")] {
        copy(
            scratch.path(),
            name,
            1,
            |target| if target == "b" { 0.6 } else { 1.0 },
            |_| (),
        );
        let run = scratch.path().join(name);
        let kept: Vec<Value> = trials(&run)
            .into_iter()
            .filter(|trial| trial["workload"] == workload)
            .collect();
        write_trials(&run, &kept);
    }
    let (document, _) = compare(scratch.path(), &["written", "read"]);
    for operation in document["operations"].as_array().unwrap() {
        let sets = operation["classic"]["sets"].as_object().unwrap().values();
        assert_eq!(sets.filter(|set| !set.is_null()).count(), 2, "{operation}");
    }
}

#[test]
fn three_runs_on_each_side_are_judged_as_three_values() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(
        scratch.path(),
        3,
        |target| if target == "b" { 0.6 } else { 1.0 },
        |_| (),
    );
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 1);
    assert_eq!(slower(&output), ["new/b < old/b"]);
    let document = check(
        scratch.path(),
        &[&format!("old={}", THREE[0]), &format!("new={}", THREE[1])],
    );
    let sizes = |set: usize| {
        (
            document["sets"][set]["runs"].as_u64(),
            document["sets"][set]["blocks"].as_u64(),
        )
    };
    assert_eq!(sizes(0), (Some(3), Some(15)));
    let estimate = &document["operations"][0]["estimate"]["against"]["new/a"];
    assert_eq!(
        (&estimate["method"], &estimate["n"]),
        (&"welch".into(), &3.into())
    );
    assert!(
        estimate["power"]["detectable"].as_f64().unwrap() < 0.2,
        "{estimate}"
    );
    let output = gate(scratch.path(), THREE[0], "old1,old2,new1", &[]);
    expect_code(&output, 2);
    assert_eq!(undecided(&output)["reason"], "common_data");
}

#[test]
fn a_gate_passes_only_if_a_slowdown_of_theta_is_excluded_everywhere() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(scratch.path(), 3, |_| 1.0, |_| ());
    let [old, new] = THREE;
    let output = gate(scratch.path(), old, new, &["--theta", "10%"]);
    expect_code(&output, 0);
    let passed = message(&output, "note/gate-passed")["fields"].clone();
    assert_eq!(passed["judged"], 6);
    let excluded = passed["excluded"].as_f64().unwrap();
    assert!((0.001..0.1).contains(&excluded), "{passed}");
    // The same runs exclude no slowdown of less than that.
    let output = gate(
        scratch.path(),
        old,
        new,
        &["--theta", &format!("{}%", excluded * 50.0)],
    );
    expect_code(&output, 2);
    assert_eq!(undecided(&output)["reason"], "undecided");
    // A case that the new runs have no value of is not passed either.
    for number in 1..=3 {
        let run = scratch.path().join(format!("new{number}"));
        rewrite_trials(&run, |trial| {
            if trial["workload"] == "create 4K files, durable" {
                (trial["outcome"], trial["error"]) = ("failed".into(), "no space".into());
            }
        });
    }
    let output = gate(scratch.path(), old, new, &["--theta", "10%"]);
    expect_code(&output, 2);
    let missing = undecided(&output)["missing"].clone();
    assert_eq!(
        missing,
        serde_json::json!([
            "new/a at create 4K files, durable",
            "new/b at create 4K files, durable"
        ])
    );
}

#[test]
fn a_target_that_the_new_runs_lack_is_not_passed() {
    let scratch = scratch();
    measure_base(scratch.path());
    let without_b = |record: &mut Value| {
        record["plan"]["targets"]
            .as_array_mut()
            .unwrap()
            .retain(|target| target["name"] != "b");
    };
    both_sides(scratch.path(), 3, |_| 1.0, without_b);
    for number in 1..=3 {
        let run = scratch.path().join(format!("new{number}"));
        let kept: Vec<Value> = trials(&run)
            .into_iter()
            .filter(|trial| trial["target"] != "b")
            .collect();
        write_trials(&run, &kept);
    }
    let output = gate(scratch.path(), THREE[0], THREE[1], &["--theta", "10%"]);
    expect_code(&output, 2);
    assert_eq!(
        undecided(&output)["missing"],
        serde_json::json!(["new/b at every workload"])
    );
    // The other way round, the baseline has nothing to compare it with.
    let output = gate(scratch.path(), THREE[1], THREE[0], &["--theta", "10%"]);
    expect_code(&output, 0);
}

#[test]
fn the_gate_refuses_runs_of_low_trust_by_name() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(scratch.path(), 3, |_| 0.6, |_| ());
    let path = scratch.path().join("new2/run.json");
    let mut record = read_json(&path);
    record["warnings"] =
        serde_json::json!([{ "kind": "concurrent", "run": "process 7", "more": 0 }]);
    fs::write(&path, record.to_string()).unwrap();
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 2);
    assert_eq!(
        undecided(&output),
        serde_json::json!({ "reason": "low_trust", "runs": ["new2"] })
    );
}

#[test]
fn sides_of_different_sessions_need_the_variation_between_sessions() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(
        scratch.path(),
        3,
        |_| 0.6,
        |record| record["segments"][0]["boot_id"] = "another boot".into(),
    );
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 2);
    assert_eq!(undecided(&output)["reason"], "no_shared_session");
    expect_code(
        &gate(scratch.path(), THREE[0], THREE[1], &["--between", "2%"]),
        1,
    );
    // Three runs in each of three sessions show the variation between sessions.
    for number in 1..=3 {
        for side in ["old", "new"] {
            let path = scratch.path().join(format!("{side}{number}/run.json"));
            let mut record = read_json(&path);
            record["segments"][0]["boot_id"] = format!("{side} {number}").into();
            fs::write(&path, record.to_string()).unwrap();
        }
    }
    expect_code(&gate(scratch.path(), THREE[0], THREE[1], &[]), 1);
}

#[test]
fn earlier_runs_of_the_plan_judge_ratios_of_targets() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(
        scratch.path(),
        1,
        |target| if target == "b" { 0.6 } else { 1.0 },
        |_| (),
    );
    let ratio = |output: &Output| {
        let shown = unwrapped(output);
        shown
            .split_once("difference in differences")
            .expect("the ratios")
            .1
            .to_owned()
    };
    let judged = "new/b over new/a against old/b over old/a, in these runs (n = 1): slower at ";
    let output = gate(scratch.path(), "old1", "new1", &[]);
    assert!(!ratio(&output).contains(judged), "{}", ratio(&output));
    for number in 1..=4 {
        copy(
            scratch.path(),
            &format!("earlier{number}"),
            number + 9,
            |_| 1.0,
            |_| (),
        );
    }
    copy(
        scratch.path(),
        "elsewhere",
        1,
        |_| 1.0,
        |record| record["host"]["cpu"] = "another processor".into(),
    );
    let output = gate(scratch.path(), "old1", "new1", &[]);
    expect_code(&output, 2);
    assert!(ratio(&output).contains(judged), "{}", ratio(&output));
    assert!(
        ratio(&output).contains("in 4 earlier runs"),
        "{}",
        ratio(&output)
    );
}

#[test]
fn conditions_that_differ_stand_before_any_number() {
    let scratch = scratch();
    measure_base(scratch.path());
    both_sides(
        scratch.path(),
        1,
        |_| 1.0,
        |record| {
            record["segments"][0]["kernel"] = "7.7.7".into();
            record["targets"]["a"]["features"] = serde_json::json!(["bigalloc"]);
        },
    );
    let shown = stdout(&succeeds(scratch.path(), "compare old1 new1"));
    assert!(shown.starts_with("warning: "), "{shown}");
    let document = check(scratch.path(), &["old1", "new1", "--between", "5%"]);
    let conditions = document["conditions"].as_array().unwrap();
    assert_eq!(
        conditions.len(),
        1,
        "features are known of one side only: {conditions:?}"
    );
    assert_eq!(conditions[0]["condition"], "kernel");
    assert_eq!(
        conditions[0]["observed"][1],
        serde_json::json!({"runs": ["new1"], "value": ["7.7.7"]})
    );
}

#[test]
fn three_results_of_another_tool_on_each_side_are_judged() {
    let scratch = scratch();
    let runs = |name: &str, file: &str| {
        let files: Vec<String> = (1..=3)
            .map(|run| set("", &format!("iozone-2010/{file}{run}.iozone"))[1..].to_owned())
            .collect();
        format!("{name}={}", files.join(","))
    };
    let sets = [runs("xfs", "xfs/xfs"), runs("ext4", "ext4/ext4_")];
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1]]);
    let operations = document["operations"].as_array().unwrap().iter();
    let verdicts: Vec<String> = operations.map(|found| verdict(found, "ext4")).collect();
    assert!(verdicts.contains(&"slower".to_owned()), "{verdicts:?}");
    assert!(!verdicts.contains(&"not_judged".to_owned()), "{verdicts:?}");
}

#[test]
fn an_unsafe_target_is_marked_in_a_comparison_and_does_not_win() {
    let scratch = scratch();
    measure(
        scratch.path(),
        "run",
        &["null,slowdown=30%", "null,unsafe"],
        "7",
    );
    let (document, _) = compare(scratch.path(), &["run"]);
    assert_eq!(document["sets"][1]["name"], "null,unsafe (unsafe)");
    for operation in document["operations"].as_array().unwrap() {
        let outcome = operation["ranking"]["outcome"].to_string();
        assert!(!outcome.contains("winner"), "{outcome}");
    }
    // The mark may be omitted.
    compare(scratch.path(), &["run", "--baseline", "null,unsafe"]);
}

// Malformed files: refused with the readers that were tried, or read as far as possible, with a
// warning.

/// Returns one of five runs of IOzone as text.
fn iozone(run: u32) -> String {
    fs::read_to_string(testdata(&format!("iozone-2010/xfs/xfs{run}.iozone"))).unwrap()
}

/// Compares the first run with the same run after `change`.
fn changed(directory: &Path, change: impl FnOnce(String) -> Vec<u8>) -> (Value, String) {
    fs::write(directory.join("changed.iozone"), change(iozone(1))).unwrap();
    compare(
        directory,
        &[
            &set("good", "iozone-2010/xfs/xfs1.iozone"),
            "bad=changed.iozone",
        ],
    )
}

fn values(document: &Value, set: &str, name: &str) -> u64 {
    operation(document, name)["classic"]["sets"][set]["n"]
        .as_u64()
        .unwrap()
}

/// Returns the number of cells that only the good file has.
fn lost(document: &Value) -> u64 {
    document["coverage"]["only"]["good"].as_u64().unwrap()
}

#[test]
fn files_that_no_reader_knows_are_named() {
    let scratch = scratch();
    let write = |name: &str, content: &[u8]| fs::write(scratch.path().join(name), content).unwrap();
    write("empty", b"");
    write("text", b"hello\n");
    write(
        "binary",
        &(0..=255u8)
            .cycle()
            .skip(17)
            .take(100_000)
            .collect::<Vec<u8>>(),
    );
    File::create(scratch.path().join("sparse"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let unknown = "compare/unknown-tool";
    for (name, code) in [
        ("empty", "compare/empty"),
        ("text", unknown),
        ("binary", unknown),
        ("sparse", unknown),
    ] {
        for argument in [
            name.to_owned(),
            format!("a={name}"),
            format!("a={}", scratch.path().join(name).display()),
        ] {
            let error = fails(scratch.path(), &["compare", &argument], 2, code);
            assert!(
                error["fields"]["path"]
                    .as_str()
                    .is_some_and(|path| path.ends_with(name)),
                "{argument}: {error}"
            );
        }
    }
    let good = set("good", "iozone-2010/xfs");
    refused(scratch.path(), &[&good, "bad=text"], unknown);
    refused(scratch.path(), &["missing"], "input/unreadable");
    refused(scratch.path(), &["a=missing/*.iozone"], "compare/no-match");
    refused(scratch.path(), &["a=x[1"], "compare/invalid-set");
    refused(scratch.path(), &[], "arguments/missing");
}

#[test]
fn a_truncated_file_keeps_its_whole_lines() {
    let scratch = scratch();
    let (document, warnings) = changed(scratch.path(), |text| text.as_bytes()[..15_000].to_vec());
    assert!(warnings.contains("changed.iozone:126: "), "{warnings}");
    assert_eq!(lost(&document), 811);
    assert!(values(&document, "bad", "write") > 90);
}

#[test]
fn a_half_overwritten_file_keeps_its_first_half() {
    let scratch = scratch();
    for garbage in [0u8, 0xff, b'x'] {
        let (document, warnings) = changed(scratch.path(), |text| {
            let mut bytes = text.into_bytes();
            bytes[12_000..20_000].fill(garbage);
            bytes
        });
        assert!(warnings.contains("changed.iozone:104: "), "{warnings}");
        assert_eq!(lost(&document), 780);
        assert!(values(&document, "bad", "write") > 70);
    }
}

/// Data after the table needs bounded memory, whatever it is: a gigabyte would not fit this limit.
#[test]
fn a_huge_tail_needs_no_memory() {
    let scratch = scratch();
    let path = scratch.path().join("tail.iozone");
    fs::write(&path, iozone(1)).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let mut command = std::process::Command::new("sh");
    let limited = command.args([
        "-c",
        "ulimit -v 600000; exec \"$0\" compare a=tail.iozone --format json",
        crate::common::FSB,
    ]);
    let output = limited.current_dir(scratch.path()).output().unwrap();
    crate::common::expect_code(&output, 0);
}

#[test]
fn line_ends_of_windows_make_no_difference() {
    let scratch = scratch();
    let (document, _) = changed(scratch.path(), |text| {
        text.replace('\n', "\r\n").into_bytes()
    });
    assert_eq!(lost(&document), 0);
    let both = &operation(&document, "ALL")["classic"]["sets"];
    assert_eq!(both["good"], both["bad"]);
}

#[test]
fn a_decimal_comma_is_read() {
    let scratch = scratch();
    let name = "iozone-3.471-throughput.txt";
    let text = fs::read_to_string(testdata(&format!("tool-output/{name}"))).unwrap();
    let mut bytes = text.clone().into_bytes();
    for at in 1..bytes.len() - 1 {
        if text.as_bytes()[at] == b'.'
            && [at - 1, at + 1]
                .iter()
                .all(|at| text.as_bytes()[*at].is_ascii_digit())
        {
            bytes[at] = b',';
        }
    }
    fs::write(scratch.path().join("comma.txt"), bytes).unwrap();
    let (document, _) = compare(
        scratch.path(),
        &[
            &set("good", &format!("tool-output/{name}")),
            "bad=comma.txt",
        ],
    );
    let operations = document["operations"].as_array().unwrap();
    assert!(operations.len() >= 10);
    for operation in operations {
        assert_eq!(
            operation["classic"]["sets"]["good"],
            operation["classic"]["sets"]["bad"]
        );
    }
}

#[test]
fn a_number_that_overflows_costs_its_cell_and_nothing_else() {
    let scratch = scratch();
    for huge in ["99999999999999999999999", "1e999", &"9".repeat(400)] {
        let (document, warnings) = changed(scratch.path(), |text| {
            text.replacen("361555", huge, 1).into_bytes()
        });
        assert!(warnings.contains("changed.iozone:27: "), "{warnings}");
        assert_eq!(lost(&document), 13);
    }
}

#[test]
fn of_a_cell_that_stands_twice_one_counts() {
    let scratch = scratch();
    let (document, warnings) = changed(scratch.path(), |text| {
        let mut lines: Vec<&str> = text.lines().collect();
        let twice = lines
            .iter()
            .position(|line| line.split_whitespace().take(2).eq(["64", "16"]))
            .unwrap();
        lines.insert(twice, lines[twice]);
        (lines.join("\n") + "\n").into_bytes()
    });
    assert!(warnings.contains("changed.iozone:39: "), "{warnings}");
    assert_eq!(
        values(&document, "bad", "write"),
        values(&document, "good", "write")
    );
}

#[test]
fn one_run_is_described_and_not_judged() {
    let scratch = scratch();
    let sets = [
        set("a", "iozone-2010/xfs/xfs1.iozone"),
        set("b", "iozone-2010/ext4/ext4_1.iozone"),
    ];
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1]]);
    assert!(document["findings"].as_array().unwrap().is_empty());
    for operation in document["operations"].as_array().unwrap() {
        let estimate = &operation["estimate"]["against"]["b"];
        assert_eq!(
            (&estimate["verdict"], &estimate["ci95"]),
            (&"not_judged".into(), &Value::Null)
        );
        assert!(operation["classic"]["against"]["b"]["median_change"].is_number());
    }
}

#[test]
fn sets_with_nothing_in_common_are_told_what_each_has() {
    let scratch = scratch();
    let sets = [
        set("ours", "iozone-2010/xfs"),
        set("mail", "tool-output/postmark-1.53.txt"),
    ];
    let no_operation = refused(
        scratch.path(),
        &[&sets[0], &sets[1]],
        "compare/nothing-to-compare",
    );
    let text = iozone(1);
    let size = |line: &str| {
        line.split_whitespace()
            .next()
            .and_then(|word| word.parse::<u32>().ok())
    };
    for (name, small) in [("small.iozone", true), ("large.iozone", false)] {
        let kept = text
            .lines()
            .filter(|line| size(line).is_none_or(|size| (size == 4) == small));
        fs::write(
            scratch.path().join(name),
            kept.map(|line| format!("{line}\n")).collect::<String>(),
        )
        .unwrap();
    }
    let no_size = refused(
        scratch.path(),
        &["large.iozone", "small.iozone"],
        "compare/nothing-to-compare",
    );
    for (refusal, sets) in [
        (
            no_operation,
            [
                "ours (iozone) has write ",
                "mail (postmark) has transaction ",
            ],
        ),
        (
            no_size,
            ["large (iozone) has write ", "small (iozone) has write "],
        ),
    ] {
        assert!(sets.iter().all(|set| refusal.contains(set)), "{refusal}");
    }
}

// Results of runs that failed.

/// Writes a result of fio with one job for each entry: its name, the kernel's error, and the rate
/// in KiB/s.
fn fio_result(directory: &Path, name: &str, jobs: &[(&str, i32, u64)]) {
    let jobs = jobs.iter().map(|(job, error, rate)| {
        serde_json::json!({
            "jobname": job, "groupid": 0, "error": error, "job options": {"rw": "write", "bs": "4k", "size": "1g"},
            "write": {"io_bytes": rate * 1024, "total_ios": 1000, "bw_bytes": rate * 1024, "iops": rate / 4},
        })
    });
    let document = serde_json::json!({"fio version": "fio-3.36", "jobs": jobs.collect::<Vec<_>>()});
    fs::write(
        directory.join(name),
        serde_json::to_string_pretty(&document).unwrap(),
    )
    .unwrap();
}

/// Writes `old1` to `old3` with the jobs `r` and `w`, and `new1` to `new3` with these jobs.
fn fio_sides(directory: &Path, new: &[(&str, i32, u64)]) {
    for run in 0..3 {
        let jobs = |jobs: &[(&'static str, i32, u64)]| -> Vec<(&'static str, i32, u64)> {
            jobs.iter()
                .map(|(job, error, rate)| (*job, *error, rate + 40 * run))
                .collect()
        };
        fio_result(
            directory,
            &format!("old{}", run + 1),
            &jobs(&[("r", 0, 40_000), ("w", 0, 40_000)]),
        );
        let new: Vec<(&str, i32, u64)> = new
            .iter()
            .map(|(job, error, rate)| (*job, *error, rate + 40 * run))
            .collect();
        fio_result(directory, &format!("new{}", run + 1), &new);
    }
}

#[test]
fn rows_that_differ_in_an_ignored_setting_are_compared() {
    let scratch = scratch();
    fio_sides(scratch.path(), &[("r", 0, 40_000), ("w", 0, 60_000)]);
    for run in 1..=3 {
        let path = scratch.path().join(format!("new{run}"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("\"bs\": \"4k\"", "\"bs\": \"8k\"")).unwrap();
    }
    let sides = ["old=old1,old2,old3", "new=new1,new2,new3"];
    let compare = ["compare", sides[0], sides[1]];
    let nothing = fails(scratch.path(), &compare, 2, "compare/nothing-to-compare");
    assert!(
        text_of(&nothing).contains("--ignore block_size"),
        "{nothing}"
    );
    for name in ["block_size", "bs", "record_size"] {
        let arguments = [&compare[..], &["--ignore", name, "--format", "json"]].concat();
        let output = succeeds(scratch.path(), &arguments);
        let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let warnings = document["warnings"].to_string();
        assert!(
            warnings.contains("ignored on request: block_size (old: 4K; new: 8K)"),
            "{warnings}"
        );
        assert!(!warnings.contains("different settings"), "{warnings}");
        assert_eq!(document["operations"][0]["workload"], "r");
    }
    for (setting, part) in [
        ("iodepths", "did you mean 'iodepth'"),
        ("iodepth", "no set differs in it"),
    ] {
        let arguments = [&compare[..], &["--ignore", "bs", "--ignore", setting]].concat();
        let refused = fails(scratch.path(), &arguments, 2, "compare/unknown-setting");
        assert!(text_of(&refused).contains(part), "{refused}");
    }
}

#[test]
fn cases_of_runs_that_differ_in_an_ignored_parameter_are_compared() {
    let scratch = scratch();
    for (name, threads) in [("old", "1"), ("new", "2")] {
        let workload = format!("create,threads={threads},files=10");
        let arguments = [
            "run",
            "null",
            "--workload",
            &workload,
            "--blocks",
            "2",
            "--sample-time",
            "1ms",
            "--out",
            name,
        ];
        succeeds(scratch.path(), &arguments);
    }
    fails(
        scratch.path(),
        "compare old new",
        2,
        "compare/nothing-to-compare",
    );
    let output = succeeds(
        scratch.path(),
        "compare old new --ignore threads --format json",
    );
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(
        document["warnings"]
            .to_string()
            .contains("ignored on request: threads (old: 1; new: 2)")
    );
    // In one run, the parameter distinguishes two cases.
    let both = "run null --workload create,threads=1,files=10 --workload create,threads=2,files=10 --blocks 2 \
                --sample-time 1ms --out both";
    succeeds(scratch.path(), both);
    let refused = fails(
        scratch.path(),
        "compare old both --ignore threads",
        2,
        "arguments/invalid-value",
    );
    assert!(
        text_of(&refused).contains("would become one row"),
        "{refused}"
    );
}

#[test]
fn a_failed_job_is_not_judged_in_any_format_and_does_not_pass() {
    let scratch = scratch();
    fio_sides(scratch.path(), &[("r", 0, 40_000), ("w", 28, 90_000)]);
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 2);
    let failures = undecided(&output)["failures"].to_string();
    assert!(
        failures.contains("job 'w' failed: no space left on device (28)"),
        "{failures}"
    );
    let sides = [format!("old={}", THREE[0]), format!("new={}", THREE[1])];
    for format in ["text", "markdown", "html", "latex", "svg", "json", "xlsx"] {
        let file = format!("report.{format}");
        let arguments = [
            "compare", &sides[0], &sides[1], "--format", format, "-o", &file,
        ];
        succeeds(scratch.path(), &arguments);
        let report = fs::read(scratch.path().join(&file)).unwrap();
        let report = String::from_utf8_lossy(&report);
        let named = report
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("&#39;", "'");
        assert!(
            format == "xlsx" || named.contains("no space left on device (28)"),
            "{format}: {report}"
        );
        assert!(!report.contains("+125"), "{format}: {report}");
    }
    let shown = stdout(&fsb(scratch.path(), &["compare", &sides[0], &sides[1]]));
    assert!(shown.starts_with("warning: new: new1:"), "{shown}");
}

#[test]
fn a_missing_job_and_a_dead_run_beside_good_ones_do_not_pass() {
    let scratch = scratch();
    fio_sides(scratch.path(), &[("r", 0, 40_000)]);
    let output = gate(scratch.path(), THREE[0], THREE[1], &[]);
    expect_code(&output, 2);
    assert_eq!(
        undecided(&output)["missing"],
        serde_json::json!(["new at w: write"])
    );
    // Equal files would be copies.
    fio_sides(scratch.path(), &[("r", 0, 40_010), ("w", 0, 40_010)]);
    expect_code(&gate(scratch.path(), THREE[0], THREE[1], &[]), 0);
    fio_result(scratch.path(), "dead", &[("r", 122, 10), ("w", 122, 10)]);
    let output = gate(scratch.path(), THREE[0], "new1,new2,new3,dead", &[]);
    expect_code(&output, 2);
    let failures = undecided(&output)["failures"].to_string();
    assert!(
        failures.contains("dead:") && failures.contains("new: 1 of 4 runs has no value"),
        "{failures}"
    );
}

#[test]
fn sets_without_a_value_are_refused_with_the_cause() {
    let scratch = scratch();
    fio_sides(scratch.path(), &[("w", 122, 90_000)]);
    let text = refused(
        scratch.path(),
        &["old=old1", "new=new1"],
        "compare/nothing-to-compare",
    );
    assert!(
        text.contains("new1:") && text.contains("disk quota exceeded (122)"),
        "{text}"
    );
}
