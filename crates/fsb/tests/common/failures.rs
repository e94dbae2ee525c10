//! Full, failing, read-only and missing targets: one trial or target is marked, the others
//! continue.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::common::*;

pub fn tiny(target: &[&str], out: &str, directory: &Path) -> Output {
    tiny_plan(directory);
    let mut arguments = vec!["run", "tiny.toml", "--size", "64M", "-q", "--out", out];
    arguments.extend(target);
    fsb(directory, &arguments)
}

/// Returns the workload of a trial, its outcome, and the cause of its failure: the kernel's error
/// if there was one, otherwise the code.
fn outcome(trial: &Value) -> (String, String, String) {
    let text = |key: &str| trial[key].as_str().unwrap_or_default().to_owned();
    let cause = if trial["errno"].is_null() {
        "error_code"
    } else {
        "errno"
    };
    (text("workload"), text("outcome"), text(cause))
}

/// Returns the outcomes of a target's measured trials.
pub fn outcomes(run: &Path, target: &str) -> Vec<(String, String, String)> {
    let measured = trials(run)
        .into_iter()
        .filter(|trial| trial["phase"] == "measured" && trial["target"] == target);
    measured.map(|trial| outcome(&trial)).collect()
}

// Faults during servers' work on real files.

pub const SHORT: &str = "[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n";
/// Small workloads of three kinds that fit everywhere. None is durable: a device may take ten
/// seconds to become idle.
pub const OTHERS: &str = "[[workload]]\nname = 'postmark'\nnumber = 50\ntransactions = 100\nverify = true\n\
                      [[workload]]\nname = 'untar-build'\nfiles = 60\ndurability = 'none'\nverify = true\n\
                      [[workload]]\nname = 'filetree'\nset = 'portage'\nscale = 0.005\ndurability = 'none'\nverify = true\n";

/// Expects that in block 1 the workload with this label prefix failed for one of these causes, and
/// that all others have values.
pub fn expect_one_failure(out: &Path, label: &str, causes: &[&str]) {
    let trials = counting(out)
        .into_iter()
        .filter(|trial| trial["block"] == 1);
    let outcomes: Vec<_> = trials.map(|trial| outcome(&trial)).collect();
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    for (workload, outcome, cause) in &outcomes {
        if workload.starts_with(label) {
            assert!(
                outcome == "failed" && causes.contains(&cause.as_str()),
                "{workload}: {outcome}: {cause}"
            );
        } else {
            assert_eq!(outcome, "ok", "{workload}: {cause}");
        }
    }
}

/// Returns the files of a personality's set below a directory.
pub fn mails(directory: &Path, within: bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(mails(&path, within || path.ends_with("bigfileset")));
        } else if within {
            found.push(path);
        }
    }
    found
}
