//! Targets that are all ready at once, each on its slice of the medium, and measured in rounds.

use std::path::Path;

use serde_json::Value;

use crate::common::{fsb, tiny_plan, trials};

pub fn run(directory: &Path, targets: &[&str], more: &[&str]) -> std::process::Output {
    tiny_plan(directory);
    fsb(directory, &[&["run", "tiny.toml", "--out", "run", "-q"], targets, more].concat())
}

pub fn measured(directory: &Path) -> Vec<Value> {
    trials(&directory.join("run")).into_iter().filter(|trial| trial["phase"] == "measured").collect()
}
