//! The comparison of 2011: its printed figure to the last digit, and SciPy's numbers on real files.

use serde_json::Value;

use super::{compare, operation, set, testdata};
use crate::common::scratch;

/// Operations as Figure 5.3 names them.
const PRINTED: [(&str, &str); 14] = [
    ("ALL", "ALL"),
    ("Write", "write"),
    ("Re-write", "rewrite"),
    ("Read", "read"),
    ("Re-read", "reread"),
    ("Random read", "random_read"),
    ("Random write", "random_write"),
    ("Backwards read", "backward_read"),
    ("Record rewrite", "record_rewrite"),
    ("Strided Read", "stride_read"),
    ("Fwrite", "fwrite"),
    ("Frewrite", "frewrite"),
    ("Fread", "fread"),
    ("Freread", "freread"),
];

/// Rounds to `decimals` as the figure does, and drops zeros at the end.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// Whether `classic` says what the figure prints.
fn agrees(classic: &Value, set: &str, statistic: &str, printed: &str) -> bool {
    let number = |text: &str| text.trim().parse::<f64>().expect("a printed number");
    let mib = |value: &Value| rounded(value.as_f64().expect("a value") / (1u64 << 20) as f64, 2) == number(printed);
    let against = &classic["against"]["ext4"];
    match statistic {
        "ci90_low" => mib(&classic["sets"][set]["ci90"][0]),
        "ci90_high" => mib(&classic["sets"][set]["ci90"][1]),
        "median_change_percent" => rounded(against["median_change"].as_f64().unwrap() * 100.0, 2) == number(printed),
        "t_p" => rounded(against["t_p"].as_f64().unwrap(), 4) == number(printed),
        "t_verdict" => against["t_verdict"] == printed,
        "slope_ci90" => {
            let (low, high) = printed.split_once(" - ").expect("an interval");
            let end = |end: usize| rounded(against["slope_ci90"][end].as_f64().unwrap(), 2);
            end(0) == number(low) && end(1) == number(high)
        }
        _ => mib(&classic["sets"][set][statistic]),
    }
}

#[test(machine)]
fn every_printed_digit_of_figure_5_3_agrees() {
    let scratch = scratch();
    let sets = [set("xfs", "iozone-2010/xfs"), set("ext4", "iozone-2010/ext4")];
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1]]);
    let mut table = csv::Reader::from_path(testdata("published/benas-2011-figure-5.3.csv")).unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for row in table.records() {
        let row = row.unwrap();
        let name = PRINTED.iter().find(|(printed, _)| *printed == &row[0]).expect("an operation of the figure").1;
        checked += 1;
        if !agrees(&operation(&document, name)["classic"], &row[1], &row[2], &row[3]) {
            wrong.push(format!("{row:?}: {:#}", operation(&document, name)["classic"]));
        }
    }
    assert_eq!(checked, 335);
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(document["operations"].as_array().unwrap().last().unwrap()["operation"], "ALL");
}

/// Walks what SciPy says and looks for the same in what we say.
fn differences(path: &str, expected: &Value, found: &Value, checked: &mut usize, wrong: &mut Vec<String>) {
    match expected {
        Value::Object(entries) => {
            entries
                .iter()
                .for_each(|(key, value)| differences(&format!("{path}/{key}"), value, &found[key], checked, wrong));
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
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(testdata(expected)).unwrap()).unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for entry in expected["operations"].as_array().unwrap() {
        let name = entry["operation"].as_str().unwrap();
        differences(name, entry, operation(&document, name), &mut checked, &mut wrong);
    }
    assert_eq!(expected["operations"].as_array().unwrap().len(), document["operations"].as_array().unwrap().len());
    assert!(checked >= least, "{checked}");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scipy_agrees_on_the_files_of_2010() {
    let sets = [set("xfs", "iozone-2010/xfs"), set("ext4", "iozone-2010/ext4")];
    expect_scipy(&sets, "expected/classic-iozone-2010.json", 14_000);
}

#[test]
fn scipy_agrees_on_files_of_another_version_with_other_sizes() {
    let sets = [set("ext3", "iozone-here/ext3"), set("ext4", "iozone-here/ext4")];
    expect_scipy(&sets, "expected/classic-iozone-here.json", 9_000);
}

#[test]
fn scipy_agrees_on_three_sets_that_overlap_in_part() {
    let sets = [set("xfs", "iozone-2010/xfs"), set("old", "iozone-2010/ext4"), set("new", "iozone-here/ext4")];
    expect_scipy(&sets, "expected/classic-three-sets.json", 600);
}
