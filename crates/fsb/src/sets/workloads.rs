//! Which cells of ours are one workload: those that differ only in the sizes of file and record form a grid.
//!
//! The names are made from the cells of all runs that are compared, so that a run that measured one size meets the
//! run that measured ten.

use std::collections::BTreeMap;

use fsb_model::Trial;
use serde_json::Value;

/// The parameters that span a grid.
const FILE_SIZE: &str = "file_size";
const RECORD_SIZE: &str = "block_size";

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place<'w> {
    /// The name of the workload.
    pub(super) workload: &'w str,
    /// Bytes of a file.
    pub(super) file_size: Option<u64>,
    /// Bytes of a call.
    pub(super) record_size: Option<u64>,
}

/// The names of workloads, by kind.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    names: BTreeMap<String, Option<String>>,
}

impl Workloads {
    /// Names the workloads of all trials.
    pub(super) fn of<'t>(trials: impl Iterator<Item = &'t Trial>) -> Workloads {
        let mut labels: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut operations: BTreeMap<String, &str> = BTreeMap::new();
        for trial in trials {
            let kind = kind(trial);
            let known = labels.entry(kind.clone()).or_default();
            if !known.contains(&trial.workload.as_str()) {
                known.push(&trial.workload);
            }
            operations.insert(kind, &trial.operation);
        }
        let mut names: BTreeMap<String, Option<String>> = labels
            .iter()
            .map(|(kind, labels)| (kind.clone(), (labels.len() > 1).then(|| shared(operations[kind], labels))))
            .collect();
        forget_ambiguous(&mut names, &labels);
        Workloads { names }
    }

    /// The workload and the sizes of a trial.
    pub(super) fn place<'w>(&'w self, trial: &'w Trial) -> Place<'w> {
        let size = |key: &str| trial.params.get(key).and_then(Value::as_u64).filter(|size| *size > 0);
        let name = self.names.get(&kind(trial)).and_then(Option::as_deref);
        Place { workload: name.unwrap_or(&trial.workload), file_size: size(FILE_SIZE), record_size: size(RECORD_SIZE) }
    }
}

/// A name that would stand for two different things stands for none: their cells keep their own labels.
fn forget_ambiguous(names: &mut BTreeMap<String, Option<String>>, labels: &BTreeMap<String, Vec<&str>>) {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, name) in names.iter() {
        match name {
            Some(name) => *uses.entry(name.clone()).or_default() += 1,
            None => labels[kind].iter().for_each(|label| *uses.entry((*label).to_owned()).or_default() += 1),
        }
    }
    for name in names.values_mut() {
        if name.as_ref().is_some_and(|name| uses[name] > 1) {
            *name = None;
        }
    }
}

/// All that makes a trial another one, but for the sizes.
pub(super) fn kind(trial: &Trial) -> String {
    let others: BTreeMap<&String, &Value> =
        trial.params.iter().filter(|(key, _)| ![FILE_SIZE, RECORD_SIZE].contains(&key.as_str())).collect();
    format!("{} {}", trial.operation, serde_json::json!(others))
}

/// What labels have in common: `random read 4K, cold` and `random read 64K, cold` are `random read, cold`.
fn shared(operation: &str, labels: &[&str]) -> String {
    let mut parts = labels.iter().map(|label| label.split(", ").collect::<Vec<_>>());
    let first = parts.next().unwrap_or_default();
    let rest: Vec<Vec<&str>> = parts.collect();
    let what = first.first().copied().unwrap_or_default();
    let words: Vec<&str> = what
        .split(' ')
        .filter(|word| rest.iter().all(|parts| parts.first().is_some_and(|other| other.split(' ').any(|w| w == *word))))
        .collect();
    let what = if words.is_empty() { operation.to_owned() } else { words.join(" ") };
    let manner = first.iter().skip(1).filter(|part| rest.iter().all(|parts| parts[1..].contains(*part)));
    std::iter::once(what.as_str()).chain(manner.copied()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trial(label: &str, params: Value) -> Trial {
        serde_json::from_value(json!({
            "schema": fsb_model::trial::SCHEMA, "id": label, "phase": "measured", "block": 1, "order": 0, "attempt": 1,
            "target": "ext4", "kernel": "6.18", "workload": label, "operation": "read", "params": params,
            "started": "2026-01-01T00:00:00Z", "outcome": "ok",
        }))
        .unwrap()
    }

    fn names(trials: &[Trial]) -> Vec<String> {
        let workloads = Workloads::of(trials.iter());
        trials.iter().map(|trial| workloads.place(trial).workload.to_owned()).collect()
    }

    #[test]
    fn cells_that_differ_in_sizes_are_one_workload() {
        let cell = |label: &str, access: &str, size: u64| {
            trial(label, json!({"name": "read", "access": access, "file_size": 1 << 20, "block_size": size}))
        };
        let trials = [
            cell("read 4K, cold", "sequential", 4096),
            cell("read 64K, cold", "sequential", 65536),
            cell("random read 4K, cold", "random", 4096),
            cell("random read 8K, cold", "random", 8192),
            trial("rename 4K files", json!({"name": "rename", "files": 5})),
        ];
        assert_eq!(
            names(&trials),
            ["read, cold", "read, cold", "random read, cold", "random read, cold", "rename 4K files"]
        );
        let workloads = Workloads::of(trials.iter());
        let place = workloads.place(&trials[1]);
        assert_eq!((place.file_size, place.record_size), (Some(1 << 20), Some(65536)));
        assert_eq!(workloads.place(&trials[4]).file_size, None);
    }

    #[test]
    fn labels_without_a_common_word_leave_the_operation() {
        let cell = |label: &str, size: u64| trial(label, json!({"name": "read", "block_size": size}));
        assert_eq!(names(&[cell("small", 1), cell("large", 2)]), ["read", "read"]);
    }

    #[test]
    fn a_name_for_two_things_is_none() {
        let cell = |label: &str, files: u64, size: u64| {
            trial(label, json!({"name": "read", "files": files, "block_size": size}))
        };
        let trials = [cell("read 4K", 1, 4), cell("read 8K", 1, 8), cell("read 1K", 2, 1), cell("read 2K", 2, 2)];
        assert_eq!(names(&trials), ["read 4K", "read 8K", "read 1K", "read 2K"]);
    }
}
