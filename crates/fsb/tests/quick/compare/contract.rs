//! `--format json` conforms to the published schema for every comparison.

use std::path::Path;

use serde_json::Value;

use super::{compare, set};
use crate::common::{expect_code, fast_plan, fsb, scratch};

fn validator() -> jsonschema::Validator {
    let schema = serde_json::from_str(include_str!("../../../schema/comparison.json")).expect("JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

/// Checks the schema, and properties that a schema cannot express.
pub(super) fn check(directory: &Path, arguments: &[&str]) -> Value {
    let (document, _) = compare(directory, arguments);
    let errors: Vec<String> =
        validator().iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{arguments:?}: {} errors: {:#?}", errors.len(), &errors[..errors.len().min(10)]);
    let sets: Vec<&str> = super::names(&document);
    assert!(sets.contains(&document["baseline"].as_str().unwrap()));
    for operation in document["operations"].as_array().unwrap() {
        let slices = ["by_file_size", "by_record_size"].map(|key| operation[key].as_array().unwrap());
        let slices = slices.into_iter().flatten();
        let grids = slices.clone().map(|slice| &slice["grid"]).chain([&operation["grid"]]);
        grids.filter(|grid| !grid.is_null()).for_each(|grid| check_grid(grid, &sets, &document));
        slices.map(|slice| &slice["classic"]).chain([&operation["classic"]]).for_each(|classic| {
            assert_eq!(keys(&classic["sets"]), sets, "{operation}");
            assert_eq!(keys(&classic["against"]).len(), sets.len() - 1);
        });
    }
    document
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn check_grid(grid: &Value, sets: &[&str], document: &Value) {
    let others: Vec<&str> = sets.iter().copied().filter(|name| document["baseline"] != *name).collect();
    assert_eq!(keys(&grid["against"]), others);
    for against in grid["against"].as_object().unwrap().values().filter(|against| !against.is_null()) {
        let count = |key: &str| against[key].as_u64().unwrap();
        assert_eq!(
            count("cells"),
            ["faster", "slower", "same", "uncertain"].map(count).iter().sum::<u64>(),
            "{against}"
        );
    }
}

#[test]
fn iozone_sets_fit_the_schema_and_end_with_all() {
    let scratch = scratch();
    let sets = [set("xfs", "iozone-2010/xfs"), set("ext4", "iozone-2010/ext4"), set("new", "iozone-here/ext4")];
    let document = check(scratch.path(), &[&sets[0], &sets[1], "--baseline", "ext4", "--theta", "5%"]);
    assert_eq!(document["settings"]["theta"], 0.05);
    let operations = document["operations"].as_array().unwrap();
    let last = operations.last().unwrap();
    assert_eq!((operations.len(), &last["operation"]), (14, &"ALL".into()));
    assert!(operations.iter().all(|operation| operation["workload"].is_null()));
    assert!(operations.iter().all(|operation| operation["unit"] == "bytes_per_second"));
    assert_eq!(document["coverage"]["common"], 2119);
    let findings = document["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|found| found["baseline"] == "ext4" && found["candidate"] == "xfs"));
    check(scratch.path(), &[&sets[0], &sets[1], &sets[2]]);
    check(scratch.path(), &[&sets[0]]);
}

#[test]
fn results_of_other_tools_fit_the_schema() {
    let scratch = scratch();
    for name in ["fio-3.33.json", "fio-3.33-jsonplus.json", "bonnie++-2.00a.txt", "postmark-1.53.txt"] {
        let sets = ["a", "b"].map(|set| super::set(set, &format!("tool-output/{name}")));
        let document = check(scratch.path(), &[&sets[0], &sets[1]]);
        for operation in document["operations"].as_array().unwrap() {
            let estimate = &operation["estimate"]["against"]["b"];
            assert_eq!((&estimate["ratio"], &estimate["verdict"]), (&1.0.into(), &"not_judged".into()), "{name}");
        }
    }
}

#[test]
fn a_run_of_ours_fits_the_schema_alone_and_beside_other_tools() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let run =
        ["run", "fast.toml", "null", "slow=null,slowdown=10%", "--blocks", "5", "--out", "run", "-q", "--seed", "3"];
    expect_code(&fsb(scratch.path(), &run), 0);
    let document = check(scratch.path(), &["run"]);
    assert_eq!(super::names(&document), ["null", "slow"]);
    let operations = document["operations"].as_array().unwrap();
    assert!(operations.iter().all(|operation| operation["workload"].is_string()));
    assert!(operations.iter().any(|operation| operation["metric"] == "latency_p50" && operation["better"] == "lower"));
    assert!(!operations.iter().any(|operation| operation["metric"] == "cpu_per_operation"), "costs judge nothing");
    let mixed =
        check(scratch.path(), &["run", &set("xfs", "iozone-2010/xfs"), &set("fio", "tool-output/fio-3.33.json")]);
    assert_eq!(mixed["sets"].as_array().unwrap().len(), 4);
}

#[test]
fn the_schema_refuses_something_too() {
    let scratch = scratch();
    let (document, _) = compare(scratch.path(), &[&set("xfs", "iozone-2010/xfs"), &set("ext4", "iozone-2010/ext4")]);
    let validator = validator();
    assert!(validator.is_valid(&document));
    for (pointer, wrong) in [
        ("/schema", "fsbench/comparison/2".into()),
        ("/operations/0/estimate/against/ext4/verdict", "better".into()),
        ("/operations/0/classic/sets/xfs/mean", Value::Null),
        ("/operations/0/classic/against/ext4/t_verdict", "diff".into()),
        ("/operations/0/grid/against/ext4/cells", (-1).into()),
        ("/findings/0/file_size", serde_json::json!([1])),
    ] {
        let mut broken = document.clone();
        *broken.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = wrong;
        assert!(!validator.is_valid(&broken), "{pointer}");
    }
}
