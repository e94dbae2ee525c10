//! Full, failing, read-only and missing targets: one trial or target is marked, the others continue.

use crate::common::*;

pub fn tiny(target: &[&str], out: &str, directory: &std::path::Path) -> std::process::Output {
    tiny_plan(directory);
    let mut arguments = vec!["run", "tiny.toml", "--size", "64M", "-q", "--out", out];
    arguments.extend(target);
    fsb(directory, &arguments)
}

/// Returns the outcomes of a target's measured trials by workload.
pub fn outcomes(run: &std::path::Path, target: &str) -> Vec<(String, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    trials(run)
        .iter()
        .filter(|trial| trial["phase"] == "measured" && trial["target"] == target)
        .map(|trial| (text(&trial["workload"]), text(&trial["outcome"]), text(&trial["error"])))
        .collect()
}
