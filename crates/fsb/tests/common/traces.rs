//! Recorded programs: the recorded calls, and their replay.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::*;

pub fn record_program(directory: &Path, arguments: &[&str], program: &[&str]) -> Output {
    let all = [&["record", "-o", "../app.trace"], arguments, &["--"], program].concat();
    fsb_json(directory, &all)
}

/// Returns the summary of the trace beside the directory.
pub fn summary(directory: &Path) -> Value {
    let output = fsb(directory, &["trace", "show", "--format", "json", "../app.trace"]);
    expect_code(&output, 0);
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// Returns the count of a call in a summary, 0 if the program never made it.
pub fn count(summary: &Value, call: &str) -> u64 {
    summary["kinds"][call]["calls"].as_u64().unwrap_or_default()
}

/// Returns how often activity of that kind is missing from the trace of a summary.
pub fn missing(summary: &Value, what: &str) -> Option<u64> {
    let gaps = summary["incomplete"].as_array().expect("a list");
    gaps.iter().find(|gap| gap["what"] == what)?["times"].as_u64()
}
