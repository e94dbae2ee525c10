//! `fsb compare`: other tools' results and ours, from files to the contract.

mod bad_input;
mod between;
mod classic;
mod contract;
mod output;
mod runs;
mod sets;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{expect_code, fails, fsb, stderr, stdout};

/// A file or directory of the repository's test data.
fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name).canonicalize().expect("test data")
}

/// `NAME=` and a path of the test data.
fn set(name: &str, path: &str) -> String {
    format!("{name}={}", testdata(path).display())
}

/// The contract, and what was said on standard error.
fn compare(directory: &Path, arguments: &[&str]) -> (Value, String) {
    let output = fsb(directory, &[&["compare", "--format", "json"], arguments].concat());
    expect_code(&output, 0);
    (serde_json::from_str(&stdout(&output)).expect("JSON"), stderr(&output))
}

/// Runs a comparison that must fail with this error code. Returns the message with its causes.
fn refused(directory: &Path, arguments: &[&str], code: &str) -> String {
    let error = fails(directory, &[&["compare"], arguments].concat(), 2, code);
    let causes = error["cause"].as_array().into_iter().flatten();
    let texts = std::iter::once(&error["message"]).chain(causes).filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join(": ")
}

/// The entry of an operation.
fn operation<'d>(document: &'d Value, name: &str) -> &'d Value {
    let operations = document["operations"].as_array().expect("operations");
    let found = operations.iter().find(|operation| operation["operation"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {} operations", operations.len()))
}

/// The names of the sets.
fn names(document: &Value) -> Vec<&str> {
    document["sets"].as_array().expect("sets").iter().filter_map(|set| set["name"].as_str()).collect()
}

/// How many runs a set has: values of its first operation in its first cell.
fn files(document: &Value, set: usize) -> usize {
    document["sets"][set]["files"].as_array().expect("files").len()
}
