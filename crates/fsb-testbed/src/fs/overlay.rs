//! overlayfs: an upper layer that is written to, over lower layers that are only read.
//!
//! The files that a case prepares are in the lowest layer while it is measured. Their directories
//! are in each lower layer, so that a name is looked up in all of them. The upper layer begins
//! empty.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_model::target::{DIRECTORY, MOUNT_POINT, last_value};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::mount as kernel;

use super::file_system::{Hazard, MountRequest, Sealing, with_options};
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

    fn by_hand(&self, options: &[String]) -> Vec<Vec<String>> {
        let layers = Layers::new(options, Path::new(DIRECTORY));
        let make = ["mkdir".to_owned()].into_iter();
        let make = make.chain(layers.all().map(|path| path.display().to_string()));
        let mount = with_options(&["mount", "-t", "overlay"], &layers.mount_options(options));
        let places = ["overlay", MOUNT_POINT].map(str::to_owned);
        vec![make.collect(), mount.into_iter().chain(places).collect()]
    }

    fn mount(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError> {
        let layers = Layers::new(request.options, directory);
        if !request.sealed {
            make(&layers.files)?;
            return kernel::bind(&layers.files, request.point);
        }
        let options = layers.mount_options(request.options);
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

    /// Returns all directories.
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let others = self.others.iter();
        others.chain([&self.files, &self.upper, &self.work])
    }

    /// Returns the options of a mount of them, among those of the target. The kernel takes the
    /// highest lower layer first.
    fn mount_options(&self, options: &[String]) -> Vec<String> {
        let own = options.iter().filter(|option| key(option) != "lower");
        let lower: Vec<_> = self
            .others
            .iter()
            .chain([&self.files])
            .map(|layer| layer.to_string_lossy())
            .collect();
        let directories = [
            format!("lowerdir={}", lower.join(":")),
            format!("upperdir={}", self.upper.display()),
            format!("workdir={}", self.work.display()),
        ];
        own.cloned().chain(directories).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_in_all_layers_and_files_are_in_the_lowest() {
        let options = ["lower=3", "metacopy=on"].map(str::to_owned);
        let layers = Layers::new(&options, Path::new("/b"));
        assert_eq!(
            layers.mount_options(&options),
            [
                "metacopy=on",
                "lowerdir=/b/1:/b/2:/b/files",
                "upperdir=/b/upper",
                "workdir=/b/work"
            ]
        );
        let by_hand: Vec<String> = Overlay
            .by_hand(&[])
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(
            by_hand,
            [
                "mkdir {dir}/files {dir}/upper {dir}/work",
                "mount -t overlay -o lowerdir={dir}/files,upperdir={dir}/upper,workdir={dir}/work overlay {mnt}"
            ]
        );
    }

    #[test]
    fn a_layer_has_the_directories_and_no_files() {
        let tree = tempfile::tempdir().unwrap();
        let (from, to) = (tree.path().join("files"), tree.path().join("1"));
        std::fs::create_dir_all(from.join("a/b")).unwrap();
        std::fs::write(from.join("a/f"), "x").unwrap();
        copy_directories(&from, &to).unwrap();
        assert!(to.join("a/b").is_dir() && !to.join("a/f").exists());
    }
}
