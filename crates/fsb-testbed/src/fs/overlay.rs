//! overlayfs: an upper layer that is written to, over lower layers that are only read.
//!
//! The files that a case prepares are in the lowest layer while it is measured. Their directories
//! are in each lower layer, so that a name is looked up in all of them. The upper layer begins
//! empty.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_model::target::last_value;
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::mount as kernel;

use super::file_system::{Hazard, MountRequest, Sealing};
use super::option_table::OptionTable;
use super::stacked::{Stacked, Upper};
use crate::declared::{DeclaredOption, key};

/// The lowest layer. Files are prepared here before the overlay is mounted.
const FILES: &str = "files";
const UPPER: &str = "upper";
/// The directory in which the kernel makes files before it renames them into the upper layer.
const WORK: &str = "work";

struct Overlay;

pub(super) static OVERLAY: Stacked = Stacked::new(&Overlay);

static OPTIONS: OptionTable = OptionTable::new(include_str!("overlay.options"));

impl Upper for Overlay {
    fn name(&self) -> &'static str {
        "overlay"
    }

    fn about(&self) -> &'static str {
        "overlayfs over ext4 unless over= names another one; prepared files are in the lowest of its lower layers."
    }

    fn modules(&self) -> &'static [&'static str] {
        &["overlay"]
    }

    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["volatile"])];
        HAZARDS
    }

    fn sealing(&self) -> Sealing {
        // A write to a prepared file copies it to the upper layer.
        Sealing {
            copies: 2,
            read_only: false,
        }
    }

    fn change(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError> {
        let Layers {
            files,
            others,
            upper,
            work,
        } = Layers::new(request.options, directory);
        for directory in others.iter().chain([&upper, &work]) {
            remove(directory)?;
        }
        if !request.sealed {
            return Ok(());
        }
        others
            .iter()
            .try_for_each(|layer| copy_directories(&files, layer))?;
        [upper, work]
            .iter()
            .try_for_each(|directory| make(directory))
    }

    fn mount(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError> {
        let layers = Layers::new(request.options, directory);
        if !request.sealed {
            make(&layers.files)?;
            return kernel::bind(&layers.files, request.point);
        }
        let own = request
            .options
            .iter()
            .filter(|option| key(option) != "lower");
        let options: Vec<String> = own.cloned().chain(layers.options()).collect();
        kernel::mount_at_once("overlay", Path::new("overlay"), request.point, &options)
    }
}

/// The directories of an overlay.
struct Layers {
    files: PathBuf,
    /// The lower layers above the lowest one.
    others: Vec<PathBuf>,
    upper: PathBuf,
    work: PathBuf,
}

impl Layers {
    fn new(options: &[String], directory: &Path) -> Layers {
        Layers {
            files: directory.join(FILES),
            others: (1..lower(options))
                .map(|number| directory.join(number.to_string()))
                .collect(),
            upper: directory.join(UPPER),
            work: directory.join(WORK),
        }
    }

    /// Returns the mount options that name them. The kernel takes the highest lower layer first.
    fn options(&self) -> [String; 3] {
        let lower: Vec<_> = self
            .others
            .iter()
            .chain([&self.files])
            .map(|layer| layer.to_string_lossy())
            .collect();
        [
            format!("lowerdir={}", lower.join(":")),
            format!("upperdir={}", self.upper.display()),
            format!("workdir={}", self.work.display()),
        ]
    }
}

/// Returns the number of lower layers.
fn lower(options: &[String]) -> usize {
    last_value(options, "lower")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> TestbedError {
    TestbedError::trial("the layers of the overlay could not be made")
        .tried(attempt(verb, path, error))
}

/// Makes a directory unless it exists.
fn make(directory: &Path) -> Result<(), TestbedError> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(failed("make", directory, &error))
        }
        _ => Ok(()),
    }
}

fn remove(directory: &Path) -> Result<(), TestbedError> {
    match fsb_store::remove_tree(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(failed("remove", directory, &error))
        }
        _ => Ok(()),
    }
}

/// Copies the directories of a tree without their files.
fn copy_directories(from: &Path, to: &Path) -> Result<(), TestbedError> {
    make(to)?;
    let metadata = std::fs::symlink_metadata(from).map_err(|error| failed("stat", from, &error))?;
    std::os::unix::fs::chown(to, Some(metadata.uid()), Some(metadata.gid()))
        .and_then(|()| std::fs::set_permissions(to, metadata.permissions()))
        .map_err(|error| failed("chown", to, &error))?;
    let entries = std::fs::read_dir(from).map_err(|error| failed("read", from, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed("read", from, &error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy_directories(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
