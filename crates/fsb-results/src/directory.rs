//! Results directories: the runs in them, the runs of a set, and the earlier runs of a plan.

use std::fs;
use std::path::{Path, PathBuf};

use fsb_model::RunRecord;
use fsb_model::host::{DeviceManifest, HostManifest};
use fsb_store::{RUN_FILE, Reader, owner};

/// The file whose presence makes a directory of runs a set.
pub const SET_FILE: &str = "set.json";

/// The prefix of the names of a set's run directories: `run-1`, `run-2`, …
pub const RUN_OF_SET: &str = "run-";

/// A finished run of the same plan on the same machine.
#[derive(Debug)]
pub struct EarlierRun {
    /// The run directory.
    pub path: PathBuf,
    /// The record.
    pub record: RunRecord,
}

/// Returns the directory that holds a run beside others: the parent of a run directory, or the
/// parent of its set.
pub fn results_directory(run: &Path) -> Option<PathBuf> {
    let run = std::path::absolute(run).ok()?;
    let parent = run.parent()?;
    if parent.join(SET_FILE).is_file() {
        parent.parent().map(Path::to_owned)
    } else {
        Some(parent.to_owned())
    }
}

/// Returns the finished runs in `directory` that began before this one, measured the same plan and
/// ran on the same machine; the oldest first. The runs of sets are included. Directories and
/// records that cannot be read are skipped.
pub fn earlier_runs(record: &RunRecord, directory: &Path) -> Vec<EarlierRun> {
    let Some(began) = started(record) else {
        return Vec::new();
    };
    let mut found = runs_of_plan(record, directory);
    found.retain(|earlier| started(&earlier.record).is_some_and(|time| time < began));
    found
}

/// Returns the finished runs in `directory` without a known change up to this one: the same plan,
/// machine, kernel, version of this program, geometry and features; the oldest first.
pub fn unchanged_runs(record: &RunRecord, directory: &Path) -> Vec<EarlierRun> {
    let mut found = runs_of_plan(record, directory);
    found.retain(|run| is_unchanged(&run.record, record));
    found
}

fn runs_of_plan(record: &RunRecord, directory: &Path) -> Vec<EarlierRun> {
    let mut found: Vec<EarlierRun> = run_directories(directory)
        .into_iter()
        .filter_map(|path| {
            let earlier = Reader::open(&path).ok()?.record;
            Some(EarlierRun {
                path,
                record: earlier,
            })
        })
        .filter(|earlier| {
            earlier.record.stop_reason.is_some() && same_plan(&earlier.record, record)
        })
        .collect();
    found.sort_by(|one, other| started(&one.record).cmp(&started(&other.record)));
    found
}

fn is_unchanged(one: &RunRecord, other: &RunRecord) -> bool {
    let [one, other] = [one, other].map(|record| {
        let software = record.segments.last();
        let media = record.media.values();
        let disks: Vec<_> = media.map(|medium| disks_beneath(&medium.device)).collect();
        let targets = record.targets.iter();
        let targets = targets.map(|(name, target)| (name, &target.geometry, &target.features));
        (
            software.map(|segment| (&segment.kernel, &segment.fsb_version)),
            disks,
            targets.collect::<Vec<_>>(),
        )
    });
    one == other
}

/// Returns the model and the serial number of each disk.
fn disks_beneath(device: &DeviceManifest) -> Vec<String> {
    let own = device.model.iter().chain(&device.serial).cloned();
    own.chain(device.beneath.iter().flat_map(disks_beneath))
        .collect()
}

/// Returns the time at which a run began: RFC 3339 in UTC, which sorts as text.
fn started(record: &RunRecord) -> Option<&str> {
    record
        .segments
        .first()
        .map(|segment| segment.started.as_str())
}

/// Returns whether two runs measure the same work on the same targets in the same place, on the
/// same machine.
fn same_plan(one: &RunRecord, other: &RunRecord) -> bool {
    same_machine(&one.host, &other.host)
        && one.placement == other.placement
        && one.plan.requests_the_same(&other.plan)
}

fn same_machine(one: &HostManifest, other: &HostManifest) -> bool {
    /// Kernels reserve different amounts of the same memory.
    const RESERVED: f64 = 0.02;
    let memory = one.memory_bytes as f64;
    one.architecture == other.architecture
        && one.cpu == other.cpu
        && one.cpus == other.cpus
        && one.hypervisor == other.hypervisor
        && (memory - other.memory_bytes as f64).abs() <= memory * RESERVED
}

/// Returns the run directories in a directory and in the sets there. It looks with the rights of
/// the invoking user.
pub fn run_directories(directory: &Path) -> Vec<PathBuf> {
    let found = owner::looking(|| {
        let mut runs = Vec::new();
        for path in subdirectories(directory) {
            match path.join(RUN_FILE).is_file() {
                true => runs.push(path),
                false => runs.extend(runs_of_set(&path)),
            }
        }
        runs
    });
    found.unwrap_or_default()
}

/// Returns the run directories of a set, in the order of their numbers; empty if there are none.
pub fn runs_of_set(directory: &Path) -> Vec<PathBuf> {
    let mut runs = Vec::new();
    for path in subdirectories(directory) {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(RUN_OF_SET)?.parse::<u32>().ok());
        if let Some(number) = number.filter(|_| path.join(RUN_FILE).is_file()) {
            runs.push((number, path));
        }
    }
    runs.sort_by_key(|(number, _)| *number);
    runs.into_iter().map(|(_, path)| path).collect()
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fsb_runner::plan_file;
    use serde_json::json;

    use super::*;

    fn record(started: &str, change: impl FnOnce(&mut RunRecord)) -> RunRecord {
        let plan = "targets = ['null', 'null']\n[[workload]]\nname = 'rename'\nfiles = 10\n";
        let resolved = plan_file::parse(plan, "p").unwrap().resolve(2, 7).unwrap();
        let mut record: RunRecord = serde_json::from_value(json!({
            "schema": fsb_model::run::SCHEMA, "name": "p", "cells": [], "plan": resolved.plan,
            "segments": [{"started": started, "kernel": "6.18", "boot_id": "b", "fsb_version": "1", "user": "root", "cgroup": ""}],
        }))
        .unwrap();
        record.stop_reason = Some(fsb_model::StopReason::Requested { blocks: 5 });
        change(&mut record);
        record
    }

    fn store(directory: &Path, name: &str, record: &RunRecord) {
        let path = directory.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(RUN_FILE), serde_json::to_string(record).unwrap()).unwrap();
    }

    #[test]
    fn only_finished_runs_of_the_same_plan_and_machine_are_earlier_runs() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str, record: RunRecord| store(directory.path(), name, &record);
        at(
            "seed",
            record("2026-11-01T00:00:00Z", |record| record.plan.seed = 99),
        );
        at("set/run-2", record("2026-11-02T00:00:00Z", |_| ()));
        at("set/notes", record("2026-11-02T00:00:01Z", |_| ()));
        at(
            "unfinished",
            record("2026-11-03T00:00:00Z", |record| record.stop_reason = None),
        );
        at(
            "size",
            record("2026-11-03T00:00:00Z", |record| record.plan.size.0 /= 2),
        );
        at(
            "machine",
            record("2026-11-03T00:00:00Z", |record| record.host.cpus = 99),
        );
        at(
            "target",
            record("2026-11-03T00:00:00Z", |record| {
                drop(record.plan.targets.pop())
            }),
        );
        at("later", record("2026-11-05T00:00:00Z", |_| ()));
        fs::create_dir(directory.path().join("empty")).unwrap();
        fs::create_dir(directory.path().join("damaged")).unwrap();
        fs::write(directory.path().join("damaged").join(RUN_FILE), "{").unwrap();
        let this = record("2026-11-04T00:00:00Z", |_| ());
        at("this", this.clone());
        let found: Vec<PathBuf> = earlier_runs(&this, directory.path())
            .into_iter()
            .map(|earlier| earlier.path)
            .collect();
        assert_eq!(
            found,
            [
                directory.path().join("seed"),
                directory.path().join("set/run-2")
            ]
        );
    }

    #[test]
    fn the_runs_of_a_set_are_in_the_order_of_their_numbers() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["run-2", "run-10", "run-1", "run-x", "notes"] {
            store(
                directory.path(),
                name,
                &record("2026-11-01T00:00:00Z", |_| ()),
            );
        }
        fs::create_dir(directory.path().join("run-3")).unwrap();
        let runs = runs_of_set(directory.path());
        assert_eq!(
            runs,
            ["run-1", "run-2", "run-10"].map(|name| directory.path().join(name))
        );
    }

    #[test]
    fn the_runs_of_a_set_are_searched_beside_the_set() {
        let directory = tempfile::tempdir().unwrap();
        let results = directory.path();
        fs::create_dir(results.join("a-set")).unwrap();
        assert_eq!(
            results_directory(&results.join("run-3")),
            Some(results.to_owned())
        );
        assert_eq!(
            results_directory(&results.join("a-set/run-3")),
            Some(results.join("a-set"))
        );
        fs::write(results.join("a-set").join(SET_FILE), "{}").unwrap();
        assert_eq!(
            results_directory(&results.join("a-set/run-3")),
            Some(results.to_owned())
        );
    }
}
