//! Whether a plan's files fit its targets: asked before anything is touched.

use std::path::Path;

use fsb_engine::Profile;
use fsb_model::run::Placement;
use fsb_model::target::FileSystemSpec;
use fsb_model::units::show_bytes;
use fsb_model::{Place, Plan, RunRecord};
use fsb_runner::work::{ParsedCell, Work};
use fsb_testbed::fs;
use fsb_testbed::medium::{self, MediumRequest};

use crate::exit;
use crate::space::Room;

/// A file system may be filled with data up to this share of its device.
const FILLED: f64 = 0.9;

/// The most any workload needs must fit every target, with room for the file system's own tables.
pub fn check(record: &RunRecord, work: &Work) -> anyhow::Result<()> {
    let plan = &record.plan;
    let mut largest: Option<(&str, &Profile)> = None;
    let mut most: (u64, &str) = (0, "");
    for ParsedCell { cell, profile, .. } in &work.cells {
        most = most.max((profile.inodes, &cell.label));
        if largest.as_ref().is_none_or(|(_, known)| profile.space > known.space) {
            largest = Some((&cell.label, profile));
        }
    }
    let Some((label, profile)) = largest else { return Ok(()) };
    for directory in plan.targets.iter().filter_map(|target| target.directory()) {
        check_directory(directory, label, profile.space, most.0)?;
    }
    for spec in plan.targets.iter().filter_map(|target| target.file_system()).filter(|spec| spec.fs != "null") {
        let Some(capacity) = capacity(record, spec) else { continue };
        if profile.space as f64 > capacity as f64 * FILLED {
            let (needed, there) = (show_bytes(profile.space as f64), show_bytes(capacity as f64));
            let free = show_bytes(capacity as f64 * FILLED);
            let advice = enlarge(record, spec, profile.space as f64 / FILLED);
            return Err(exit::machine(format!(
                "'{label}' needs {needed}, and {} of {there} has {free} beside the file system's own: {advice}, or a \
                 smaller file_size in the plan",
                medium::called(&spec.medium, plan.place == Place::Vm)
            )));
        }
        check_inodes(record, spec, capacity, most)?;
    }
    Ok(())
}

/// What makes a file system so many bytes large.
fn enlarge(record: &RunRecord, spec: &FileSystemSpec, bytes: f64) -> String {
    /// The part of the image that no target has.
    const BESIDE: f64 = 1.04;
    let plan = &record.plan;
    let bytes = match record.placement.as_ref().and_then(Placement::divided) {
        Some((parts, _)) => bytes * f64::from(parts) * BESIDE,
        None => bytes,
    };
    match spec.medium.name.as_str() {
        "device" => "take a larger device".to_owned(),
        // In whole mebibytes, for that is what people type, and what is typed is multiplied by the scale.
        _ => format!("give --size {}M or more", (bytes / plan.scale / f64::from(1 << 20)).ceil()),
    }
}

/// Inodes that a file system keeps for itself, generously.
const KEPT_INODES: u64 = 16;

/// Some file systems have as many inodes for ever as mkfs gave them.
fn check_inodes(
    record: &RunRecord,
    spec: &FileSystemSpec,
    capacity: u64,
    (inodes, label): (u64, &str),
) -> anyhow::Result<()> {
    let inodes = inodes + KEPT_INODES;
    let Ok(member) = fs::find(&spec.fs) else { return Ok(()) };
    let of = |bytes| member.inodes(bytes, &spec.mkfs);
    let Some(there) = of(capacity).filter(|there| *there < inodes) else { return Ok(()) };
    // So large that what mkfs makes by itself is enough; no size does where the user says how many there are.
    let enough = (0..24).map(|doublings| capacity << doublings).find(|bytes| of(*bytes).is_some_and(|of| of >= inodes));
    let larger = enough.map_or_else(String::new, |bytes| format!(", or {}", enlarge(record, spec, bytes as f64)));
    Err(exit::machine(format!(
        "'{label}' makes {inodes} files and directories, and {} on {} has room for {there}: give it more with \
         mkfs=\"-N {inodes}\"{larger}",
        spec.fs, spec.medium
    )))
}

/// Bytes of the device that a file system is made on, as far as that is known beforehand.
fn capacity(record: &RunRecord, spec: &FileSystemSpec) -> Option<u64> {
    if let Some((_, bytes)) = record.placement.as_ref().and_then(Placement::divided) {
        return Some(bytes);
    }
    let Plan { size, dir, seed, wipe, .. } = &record.plan;
    let (medium, size, devices) = (&spec.medium, size.0, Some(&record.devices));
    let request = MediumRequest { size, seed: *seed, wipe, devices, ..MediumRequest::new(medium, dir) };
    medium::find(&spec.medium.name).ok()?.check(&request).ok()
}

/// What a directory's file system has free must hold the workload as well.
fn check_directory(directory: &Path, label: &str, space: u64, inodes: u64) -> anyhow::Result<()> {
    let Some(room) = Room::of(directory) else { return Ok(()) };
    let path = directory.display();
    if !room.holds_bytes(space) {
        let (needed, available) = (show_bytes(space as f64), show_bytes(room.bytes as f64));
        let advice = "give a smaller --size, for the suite's files scale with it";
        return Err(exit::machine(format!("'{label}' needs {needed}, and {path} has {available} free: {advice}")));
    }
    if !room.holds_files(inodes) {
        return Err(exit::machine(format!("'{label}' makes {inodes} files, and {path} has room for {}", room.files)));
    }
    Ok(())
}
