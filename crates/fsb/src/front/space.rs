//! Whether a plan's files fit its targets: asked before anything is touched.

use std::path::Path;

use fsb_engine::{Profile, Sizing, workload};
use fsb_model::target::FileSystemSpec;
use fsb_model::units::show_bytes;
use fsb_model::{Place, Plan, RunRecord};
use fsb_testbed::medium::{self, MediumRequest};

use super::cpus_of;
use crate::exit;

/// A file system may be filled with data up to this share of its device.
const FILLED: f64 = 0.9;

/// The most any workload needs must fit every target, with room for the file system's own tables.
pub fn check(record: &RunRecord) -> anyhow::Result<()> {
    let plan = &record.plan;
    let sizing = Sizing { size: plan.size.0, cpus: cpus_of(plan) };
    let mut largest: Option<(&str, Profile)> = None;
    let mut most_inodes = 0;
    for cell in &record.cells {
        let job = workload::parse(&cell.workload, &sizing).map_err(|error| exit::request(error.to_string()))?;
        let profile = job.profile();
        most_inodes = most_inodes.max(profile.inodes);
        if largest.as_ref().is_none_or(|(_, known)| profile.space > known.space) {
            largest = Some((&cell.label, profile));
        }
    }
    let Some((label, profile)) = largest else { return Ok(()) };
    for directory in plan.targets.iter().filter_map(|target| target.directory()) {
        check_directory(directory, label, profile.space, most_inodes)?;
    }
    for spec in plan.targets.iter().filter_map(|target| target.file_system()).filter(|spec| spec.fs != "null") {
        let Some(capacity) = capacity(plan, spec) else { continue };
        if profile.space as f64 > capacity as f64 * FILLED {
            let (needed, there) = (show_bytes(profile.space as f64), show_bytes(capacity as f64));
            let free = show_bytes(capacity as f64 * FILLED);
            // In whole mebibytes, for that is what people type.
            let enough = (profile.space as f64 / FILLED / f64::from(1 << 20)).ceil();
            let advice = match spec.medium.name.as_str() {
                "device" => "take a larger device".to_owned(),
                _ => format!("give --size {enough}M or more"),
            };
            return Err(exit::machine(format!(
                "'{label}' needs {needed}, and {} of {there} has {free} beside the file system's own: {advice}, or a \
                 smaller file_size in the plan",
                medium::called(&spec.medium, plan.place == Place::Vm)
            )));
        }
    }
    Ok(())
}

/// Bytes of the device that a file system is made on, as far as that is known beforehand.
fn capacity(plan: &Plan, spec: &FileSystemSpec) -> Option<u64> {
    let Plan { size, dir, seed, wipe, .. } = plan;
    let request = MediumRequest { medium: &spec.medium, size: size.0, dir, seed: *seed, wipe, keep_discard: false };
    medium::find(&spec.medium.name).ok()?.check(&request).ok()
}

/// What a directory's file system has free must hold the workload as well.
fn check_directory(directory: &Path, label: &str, space: u64, inodes: u64) -> anyhow::Result<()> {
    let Ok(free) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let available = free.f_bavail.saturating_mul(free.f_frsize);
    if space > available {
        let (needed, available) = (show_bytes(space as f64), show_bytes(available as f64));
        let advice = "give a smaller --size, for the suite's files scale with it";
        let path = directory.display();
        return Err(exit::machine(format!("'{label}' needs {needed}, and {path} has {available} free: {advice}")));
    }
    // Some file systems make inodes as they need them and report none.
    if free.f_files > 0 && inodes > free.f_favail {
        let path = directory.display();
        return Err(exit::machine(format!(
            "'{label}' makes {inodes} files, and {path} has room for {}",
            free.f_favail
        )));
    }
    Ok(())
}
