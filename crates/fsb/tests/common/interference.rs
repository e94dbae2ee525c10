//! Retries of trials affected by interference, and the number of blocks: whole runs on the null file system, which
//! simulates both interference and noise. Targets take turns unless a test differs.

use std::path::Path;

use serde_json::Value;

use crate::common::{fast_plan, fsb_json};

pub fn run(directory: &Path, out: &str, arguments: &[&str]) -> std::process::Output {
    fast_plan(directory);
    let mut all = vec!["run", "fast.toml", "--seed", "42", "--one-at-a-time", "--out", out];
    all.extend(arguments);
    fsb_json(directory, &all)
}

pub fn text<'a>(trial: &'a Value, key: &str) -> &'a str {
    trial[key].as_str().unwrap()
}
