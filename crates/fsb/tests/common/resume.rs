//! `--resume`: fsb retries the whole unfinished block, and nothing else.

use std::fs;
use std::path::Path;

use crate::common::*;

/// Truncates the file after `keep` trials, within a line.
pub fn cut(run: &Path, keep: usize) {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let lines: Vec<_> = text.lines().take(keep).collect();
    fs::write(run.join("trials.jsonl"), lines.join("\n") + "\n{\"schema\":\"fsben").unwrap();
    let mut record = record(run);
    record["stop_reason"] = serde_json::Value::Null;
    fs::write(run.join("run.json"), record.to_string()).unwrap();
}
