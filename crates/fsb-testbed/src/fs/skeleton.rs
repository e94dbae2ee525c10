//! A template for a file system. The tests compile and check it, so it is correct.
//!
//! Copy it to `NAME.rs`, and its table of options to `NAME.options`. Replace their contents, and add
//! `mod NAME;` and the line in the registry to `mod.rs`. The tests beside the registry check the
//! rest.

use std::path::Path;

use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::TestbedError;
use fsb_sys::mount as kernel;

use super::file_system::{FileSystem, Hazard, Inspection, MountRequest, Mounted, Tools, ask_about};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

/// A unit struct: members hold no state.
pub(super) struct Skeleton;

/// The program that formats it. Look for these options in the manual: overwrite without asking,
/// quiet, no discard. Switch off anything "lazy", because deferred work would run during a
/// measurement. `check` must repair nothing.
static TOOLS: Tools = Tools {
    package: "skeleton-progs",
    mkfs: "mkfs.skeleton",
    arguments: &["-f", "-q"],
    version: "-V",
    others: &[],
    check: &["fsck.skeleton", "-n"],
};

/// Name, values, default and effect of each option, from the manual.
static OPTIONS: OptionTable = OptionTable::new(include_str!("skeleton.options"));

impl FileSystem for Skeleton {
    /// As users write it, and as `mount -t` takes it.
    fn name(&self) -> &'static str {
        "skeleton"
    }

    /// Returns a one-line description for `fsb list file-systems`.
    fn about(&self) -> &'static str {
        "A file system that exists only to be copied."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    /// Returns the name in /proc/filesystems. Leave this out if it is the name above.
    fn driver(&self) -> Option<&'static str> {
        Some("skeleton")
    }

    /// Returns the module names for `modprobe`. modules.dep lists their dependencies. Modules that
    /// the driver requests at run time belong into `helper_modules`.
    fn modules(&self) -> &'static [&'static str] {
        &["skeleton"]
    }

    /// Returns the smallest image that mkfs accepts and that can hold a file. Find it by trying.
    fn minimum_size(&self) -> u64 {
        16 << 20
    }

    /// Returns the mount options of this file system alone. Those of every file system are in
    /// `options::COMMON`.
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    /// Only for requests that would fail later with a worse message. Leave this out if there are
    /// none.
    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        match spec.options.iter().find(|option| *option == "flesh") {
            Some(option) => {
                Err(TestbedError::request(format!("skeleton has no {option}"))
                    .advice("leave it out"))
            }
            None => Ok(()),
        }
    }

    /// Only if an option or the format itself weakens durability: see `ext.rs`, `f2fs.rs`.
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["nobarrier"])];
        HAZARDS
    }

    /// Only if the driver discards without being asked.
    fn discard_off(&self) -> Option<&'static str> {
        None
    }

    /// Only if it overwrites blocks in place: see `ext.rs`. For the properties of a file system
    /// that holds images (`magic`, `takes_nocow`, `numbers_volumes`) see `btrfs.rs`.
    fn writes_in_place(&self) -> bool {
        false
    }

    /// Only if mkfs chooses by the size of the device: arguments that give a slice the geometry of
    /// a large disk. See `ext.rs`.
    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        let size = large
            .block_size
            .filter(|_| !user.iter().any(|word| word.starts_with("-b")));
        size.map_or_else(Vec::new, |size| vec!["-b".to_owned(), size.to_string()])
    }

    /// Ask the file system's own tool, and test the parsing with its real output.
    fn inspect(&self, device: &Path) -> Inspection {
        let text = ask_about("dump.skeleton", &["--brief"], device);
        Inspection {
            features: text.split_whitespace().map(str::to_owned).collect(),
            geometry: Geometry::default(),
        }
    }

    /// Same as the default. FUSE servers start their process here: see `ntfs.rs`.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        kernel::mount(self.name(), request.source, request.point, request.options)?;
        Ok(Mounted::default())
    }

    /// Only if another driver may serve it: see `ext.rs`.
    fn served_by(&self, _: &Path) -> Option<String> {
        None
    }
}
