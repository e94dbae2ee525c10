//! Recorded programs: the recorded calls, and their replay.

use std::path::Path;
use std::process::Output;

use crate::common::*;

pub fn record_program(directory: &Path, arguments: &[&str], program: &[&str]) -> Output {
    let all = [&["record", "-o", "../app.trace"], arguments, &["--"], program].concat();
    fsb_json(directory, &all)
}

pub fn shown(directory: &Path) -> String {
    let output = fsb(directory, &["trace", "show", "../app.trace"]);
    expect_code(&output, 0);
    stdout(&output)
}

/// Returns the count of a call in the output of `fsb trace show`.
pub fn count(shown: &str, call: &str) -> u64 {
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(call));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
}
