//! A user's command as the workload, on real file systems and in directories.

use std::path::Path;

use serde_json::Value;

use crate::common::*;

/// Returns a metric of a trial by name.
pub fn metric(trial: &Value, name: &str) -> f64 {
    let metrics = trial["metrics"].as_array().unwrap_or_else(|| panic!("no metrics: {trial:#}"));
    let found = metrics.iter().find(|metric| metric["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {trial:#}"))["value"].as_f64().unwrap()
}

pub fn measured(run: &Path) -> Vec<Value> {
    counting(run).into_iter().filter(|trial| trial["phase"] == "measured").collect()
}
