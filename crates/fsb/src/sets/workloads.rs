//! Groups cells into workloads: cells that differ only in the sizes of file and record form a grid.
//!
//! The names come from the cells of all compared runs, so that a run that measured one size is compared with a run that
//! measured ten.

use std::collections::BTreeMap;

use super::trials::OwnCell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellPlace<'w> {
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
    /// Names the workloads of all cells.
    pub(super) fn of<'t>(cells: impl Iterator<Item = &'t OwnCell>) -> Workloads {
        let mut labels: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut operations: BTreeMap<String, &str> = BTreeMap::new();
        for cell in cells {
            let known = labels.entry(cell.kind.clone()).or_default();
            if !known.contains(&cell.workload.as_str()) {
                known.push(&cell.workload);
            }
            operations.insert(cell.kind.clone(), &cell.operation);
        }
        let mut names: BTreeMap<String, Option<String>> = labels
            .iter()
            .map(|(kind, labels)| (kind.clone(), (labels.len() > 1).then(|| shared(operations[kind], labels))))
            .collect();
        forget_ambiguous(&mut names, &labels);
        Workloads { names }
    }

    /// The workload and the sizes of a cell.
    pub(super) fn place<'w>(&'w self, cell: &'w OwnCell) -> CellPlace<'w> {
        let name = self.names.get(&cell.kind).and_then(Option::as_deref);
        let OwnCell { file_size, record_size, .. } = *cell;
        CellPlace { workload: name.unwrap_or(&cell.workload), file_size, record_size }
    }
}

/// Drops names that two different workloads would share: their cells keep their own labels.
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

/// Returns the common part of labels: `random read, cold` of `random read 4K, cold` and `random read 64K, cold`.
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
    use serde_json::{Value, json};

    fn trial(label: &str, params: Value) -> OwnCell {
        let params = params.as_object().unwrap();
        OwnCell::new(label, "read", &params.clone().into_iter().collect())
    }

    fn names(cells: &[OwnCell]) -> Vec<String> {
        let workloads = Workloads::of(cells.iter());
        cells.iter().map(|cell| workloads.place(cell).workload.to_owned()).collect()
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
