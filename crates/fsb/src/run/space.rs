//! The free space of a directory's file system, checked before anything is written.

use std::path::{Path, PathBuf};

use fsb_engine::Profile;
use fsb_model::run::Placement;
use fsb_model::target::FileSystemSpec;
use fsb_model::units::show_bytes;
use fsb_model::{Place, Plan, RunRecord, code, failure};
use fsb_runner::work::{ParsedCell, Work};
use fsb_testbed::medium::{self, MediumRequest};

/// The space that a file system must hold at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes, with the metadata of the file system about them.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// The space that a file system has free for this user.
#[derive(Debug, Clone)]
pub struct FreeSpace {
    /// A directory on it.
    pub path: PathBuf,
    /// `u64::MAX` if the file system does not report its size.
    pub bytes: u64,
    /// Files and directories. `None` if the file system reports no limit.
    files: Option<u64>,
}

impl FreeSpace {
    /// Returns the free space of the file system of `path`; `None` if statfs fails.
    pub fn at(path: &Path) -> Option<FreeSpace> {
        let reported = fsb_sys::space::FreeSpace::at(path).ok()?;
        Some(FreeSpace {
            path: path.to_owned(),
            bytes: reported.bytes.unwrap_or(u64::MAX),
            files: reported.inodes,
        })
    }

    /// Returns whether `bytes` bytes fit.
    pub fn holds_bytes(&self, bytes: u64) -> bool {
        bytes <= self.bytes
    }

    /// Returns the number of files that fit, if it is less than `files`.
    fn too_few_files(&self, files: u64) -> Option<u64> {
        self.files.filter(|limit| files > *limit)
    }

    /// Returns whether both bytes and files fit.
    pub fn holds(&self, need: Need) -> bool {
        self.holds_bytes(need.bytes) && self.too_few_files(need.files).is_none()
    }

    /// Returns text such as `needs 3 GiB and 7 files at once, and /srv has 1 GiB free and room for
    /// 5 files`. Names only what the file system limits.
    pub fn lacks(&self, need: Need) -> String {
        let bytes =
            (self.bytes < u64::MAX).then(|| format!("{} free", show_bytes(self.bytes as f64)));
        let files = self.files.map(|files| format!("room for {files} files"));
        let limits: Vec<String> = bytes.into_iter().chain(files).collect();
        format!(
            "needs {} and {} files at once, and {} has {}",
            show_bytes(need.bytes as f64),
            need.files,
            self.path.display(),
            limits.join(" and ")
        )
    }
}

// Checks that a plan's files fit its targets, before anything is changed.

/// A file system may be filled with data up to this share of its device.
const FILLED: f64 = 0.9;

/// Checks that the largest workload fits every target, with room for the file system's metadata.
pub fn check_run(record: &RunRecord, work: &Work) -> anyhow::Result<()> {
    let plan = &record.plan;
    let mut largest: Option<(&str, &Profile)> = None;
    let mut most: (u64, &str) = (0, "");
    for ParsedCell { cell, profile, .. } in &work.cells {
        most = most.max((profile.inodes, &cell.label));
        if largest
            .as_ref()
            .is_none_or(|(_, known)| profile.space > known.space)
        {
            largest = Some((&cell.label, profile));
        }
    }
    let Some((label, profile)) = largest else {
        return Ok(());
    };
    for directory in plan.targets.iter().filter_map(|target| target.directory()) {
        check_directory(directory, label, profile.space, most.0)?;
    }
    for target in &plan.targets {
        let Some(spec) = target.file_system().filter(|spec| spec.fs != "null") else {
            continue;
        };
        let Some(capacity) = capacity(record, spec) else {
            continue;
        };
        if profile.space as f64 > capacity as f64 * FILLED {
            let (needed, there) = (
                show_bytes(profile.space as f64),
                show_bytes(capacity as f64),
            );
            let free = show_bytes(capacity as f64 * FILLED);
            let advice = enlarge(record, spec, profile.space as f64 / FILLED);
            return Err(failure::error(
                &code::NO_SPACE,
                format!(
                    "'{label}' needs {needed}, and {} of {there} has {free} beside the file system's own: {advice}, or a \
                 smaller file_size in the plan",
                    medium::called(&spec.medium, plan.place == Place::Vm)
                ),
            ));
        }
        let ratio = record
            .large_disk
            .get(&target.name)
            .and_then(|geometry| geometry.bytes_per_inode);
        // The number that mkfs would choose for the slice is unknown before it is made.
        if let Some(ratio) = ratio.filter(|_| !plan.mkfs_defaults) {
            check_inodes(record, spec, (capacity, ratio), most)?;
        }
    }
    Ok(())
}

/// Returns the advice that makes a file system `bytes` large.
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
        // In whole mebibytes, as users type sizes. fsb multiplies the typed size by the scale.
        _ => format!(
            "give --size {}M or more",
            (bytes / plan.scale / f64::from(1 << 20)).ceil()
        ),
    }
}

/// A generous number of inodes that a file system reserves.
const KEPT_INODES: u64 = 16;

/// Checks the number of inodes, which mkfs fixes for some file systems.
fn check_inodes(
    record: &RunRecord,
    spec: &FileSystemSpec,
    (capacity, bytes_per_inode): (u64, u64),
    (inodes, label): (u64, &str),
) -> anyhow::Result<()> {
    let inodes = inodes + KEPT_INODES;
    // A number that the user names is the same on the large disk and on the slice.
    let is_named = spec.mkfs.iter().any(|word| word.starts_with("-N"));
    let there = if is_named {
        record.plan.like_disk.0
    } else {
        capacity
    } / bytes_per_inode;
    if there >= inodes {
        return Ok(());
    }
    let larger = if is_named {
        String::new()
    } else {
        format!(
            ", or {}",
            enlarge(record, spec, (inodes * bytes_per_inode) as f64)
        )
    };
    Err(failure::error(
        &code::NO_SPACE,
        format!(
            "'{label}' makes {inodes} files and directories, but {} on {} has room for {there}: add mkfs=\"-N \
             {inodes}\" to the target{larger}",
            spec.fs, spec.medium
        ),
    ))
}

/// Returns the size of the device of a file system in bytes, if it is known beforehand.
fn capacity(record: &RunRecord, spec: &FileSystemSpec) -> Option<u64> {
    if let Some((_, bytes)) = record.placement.as_ref().and_then(Placement::divided) {
        return Some(bytes);
    }
    let Plan {
        size,
        dir,
        seed,
        wipe,
        ..
    } = &record.plan;
    let (medium, size, devices) = (&spec.medium, size.0, Some(&record.devices));
    let request = MediumRequest {
        size,
        seed: *seed,
        wipe,
        devices,
        ..MediumRequest::new(medium, dir)
    };
    medium::find(&spec.medium.name).ok()?.check(&request).ok()
}

/// Checks that the workload fits into the free space of a directory's file system.
fn check_directory(directory: &Path, label: &str, space: u64, inodes: u64) -> anyhow::Result<()> {
    let Some(room) = FreeSpace::at(directory) else {
        return Ok(());
    };
    let path = directory.display();
    if !room.holds_bytes(space) {
        let (needed, available) = (show_bytes(space as f64), show_bytes(room.bytes as f64));
        let advice = "use a smaller --size: the suite's files scale with it";
        return Err(failure::error(
            &code::NO_SPACE,
            format!("'{label}' needs {needed}, and {path} has {available} free: {advice}"),
        ));
    }
    if let Some(limit) = room.too_few_files(inodes) {
        return Err(failure::error(
            &code::NO_SPACE,
            format!("'{label}' makes {inodes} files, and {path} has room for {limit}"),
        ));
    }
    Ok(())
}
