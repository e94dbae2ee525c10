//! The comparison of 2011: its printed figure to the last digit, and SciPy's numbers on real files.

use serde_json::Value;

use super::{compare, operation, set, testdata};
use crate::common::scratch;

/// Walks SciPy's values and compares each with the value of fsb.
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
