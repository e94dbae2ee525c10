//! `fsb compare`: other tools' results and ours, from files to the contract.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{expect_code, fsb, stderr, stdout};

/// A file or directory of the repository's test data.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name).canonicalize().expect("test data")
}

/// `NAME=` and a path of the test data.
pub fn set(name: &str, path: &str) -> String {
    format!("{name}={}", testdata(path).display())
}

/// The contract, and what was said on standard error.
pub fn compare(directory: &Path, arguments: &[&str]) -> (Value, String) {
    let output = fsb(directory, &[&["compare", "--format", "json"], arguments].concat());
    expect_code(&output, 0);
    (serde_json::from_str(&stdout(&output)).expect("JSON"), stderr(&output))
}

/// The entry of an operation.
pub fn operation<'d>(document: &'d Value, name: &str) -> &'d Value {
    let operations = document["operations"].as_array().expect("operations");
    let found = operations.iter().find(|operation| operation["operation"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {} operations", operations.len()))
}
