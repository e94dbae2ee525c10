//! Earlier runs of the same plan on the same machine: what runs vary by when nothing was changed between them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsb_analysis::compare::{Variation, variation};
use fsb_model::RunRecord;
use fsb_model::host::DeviceManifest;
use fsb_store::{RUN_FILE, Reader};

use super::argument::Argument;
use super::own::OwnRun;
use super::workloads::Workloads;
use super::{Source, own_sets};
use crate::author;

/// No more than this many earlier runs are read, the last ones by name.
const MOST: usize = 12;

/// Estimates the variation of the runs that are in the same directories as these and had the same plan. `None` where there
/// are too few.
///
/// What cannot be read is not taken: only the width of intervals depends on it, and the answer says how many runs were.
pub fn earlier_runs(compared: &[PathBuf]) -> Option<Variation> {
    let first = Reader::open(compared.first()?).ok()?.record;
    let known: BTreeSet<PathBuf> = compared.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let parents: BTreeSet<&Path> = known.iter().filter_map(|path| path.parent()).collect();
    let mut paths: Vec<PathBuf> = parents.into_iter().flat_map(siblings).filter(|path| !known.contains(path)).collect();
    alphanumeric_sort::sort_path_slice(&mut paths);
    let is_alike = |path: &PathBuf| Reader::open(path).is_ok_and(|reader| are_alike(&first, &reader.record));
    let paths: Vec<PathBuf> = paths.into_iter().rev().filter(is_alike).take(MOST).collect();
    let runs: Vec<OwnRun> = paths.iter().filter_map(|path| OwnRun::read(path).ok()).collect();
    if runs.len() < fsb_analysis::FEWEST_RUNS_JUDGED {
        return None;
    }
    let argument = Argument { text: "earlier runs".into(), name: None, paths };
    let mut source = Source { argument, files: Vec::new(), runs };
    let workloads = Workloads::of(source.runs.iter().flat_map(|run| &run.trials.cells));
    let sets = own_sets(&mut source, &workloads, &mut Vec::new()).ok()?;
    variation(sets.into_iter().map(|(_, set)| set).collect()).ok()
}

/// Run directories in a directory.
fn siblings(parent: &Path) -> Vec<PathBuf> {
    let entries = author::looking(|| std::fs::read_dir(parent).map(|entries| entries.flatten().collect::<Vec<_>>()));
    let entries = entries.ok().and_then(Result::ok).unwrap_or_default();
    entries.into_iter().map(|entry| entry.path()).filter(|path| path.join(RUN_FILE).is_file()).collect()
}

/// Whether a run did what another one did, on the same machine: the same plan but for seed and repetition, processor, disk
/// and major version.
fn are_alike(one: &RunRecord, other: &RunRecord) -> bool {
    let plan = |record: &RunRecord| {
        let plan = &record.plan;
        (plan.targets.clone(), plan.workloads.clone(), plan.controls.clone(), plan.size, plan.one_at_a_time)
    };
    let machine = |record: &RunRecord| {
        let host = &record.host;
        let disks: Vec<Vec<String>> = record.media.values().map(|medium| disks(&medium.device)).collect();
        let version = record.segments.last().map(|segment| segment.fsb_version.split('.').next().map(str::to_owned));
        (host.architecture.clone(), host.cpu.clone(), host.cpus, host.hypervisor.clone(), disks, version)
    };
    plan(one) == plan(other) && one.plan.scale == other.plan.scale && machine(one) == machine(other)
}

/// Model and serial number of the disks beneath.
fn disks(device: &DeviceManifest) -> Vec<String> {
    let own = device.model.iter().chain(&device.serial).cloned();
    own.chain(device.beneath.iter().flat_map(disks)).collect()
}
