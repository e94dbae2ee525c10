//! `fsb compare`: results of other tools and of fsb, from files to the JSON document.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{expect_code, fsb_json, messages, stderr, stdout};

/// Returns a file or directory of the repository's test data.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
        .canonicalize()
        .expect("test data")
}

/// Returns `NAME=` and a path of the test data.
pub fn set(name: &str, path: &str) -> String {
    format!("{name}={}", testdata(path).display())
}

/// Returns the JSON document, and the text of its warnings. Standard error has each of them as
/// well.
pub fn compare(directory: &Path, arguments: &[&str]) -> (Value, String) {
    let output = fsb_json(
        directory,
        &[&["compare", "--format", "json"], arguments].concat(),
    );
    expect_code(&output, 0);
    let document: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let warnings: Vec<&str> = document["warnings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let count = |key: &str| document[key].as_array().map_or(0, Vec::len);
    let printed = messages(&output)
        .iter()
        .filter(|message| message["level"] == "warning")
        .count();
    assert_eq!(
        printed,
        count("warnings") + count("conditions"),
        "{}",
        stderr(&output)
    );
    let warnings = warnings.join("\n");
    (document, warnings)
}

/// Returns the entry of an operation.
pub fn operation<'d>(document: &'d Value, name: &str) -> &'d Value {
    let operations = document["operations"].as_array().expect("operations");
    let found = operations
        .iter()
        .find(|operation| operation["operation"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {} operations", operations.len()))
}
