//! A file system to copy: it is compiled with the tests and walked by them, so what it shows is true.
//!
//! Copy it to `NAME.rs`, replace what it says, and add `mod NAME;` and the line in the registry to `mod.rs`.
//! The tests beside the registry check the rest.

use std::path::Path;

use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::TestbedError;
use fsb_sys::mount as kernel;

use super::file_system::{FileSystem, Hazard, Inspection, MountRequest, Mounted, Tools, ask_about};
use crate::declared::{DeclaredOption, OptionGroup, OptionKind};

/// A unit struct: members hold no state.
pub(super) struct Skeleton;

/// What formats it. Look in the manual for: overwrite without asking, quiet, no discard, and anything "lazy" to be
/// switched off, for what mkfs postpones would run behind somebody's measurement.
static TOOLS: Tools =
    Tools { package: "skeleton-progs", mkfs: "mkfs.skeleton", arguments: &["-f", "-q"], version: "-V", others: &[] };

/// Name, values, default and effect of each option, from the manual.
static OPTIONS: &[DeclaredOption] = &[
    DeclaredOption::flag(OptionGroup::Data, "flesh", "an option that the check below refuses"),
    DeclaredOption::value(OptionGroup::Layout, "bones", OptionKind::Number(1..=206), "206", "bones that are allocated"),
];

impl FileSystem for Skeleton {
    /// As users write it, and as `mount -t` takes it.
    fn name(&self) -> &'static str {
        "skeleton"
    }

    /// What a reader of `fsb list file-systems` should know of it, in one line.
    fn about(&self) -> &'static str {
        "A file system that exists only to be copied."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    /// The name in /proc/filesystems. Leave this out where it is the name above.
    fn driver(&self) -> Option<&'static str> {
        Some("skeleton")
    }

    /// What `modprobe` would be given. What it depends on is known to modules.dep; what it asks for while it runs
    /// belongs into `helper_modules`.
    fn modules(&self) -> &'static [&'static str] {
        &["skeleton"]
    }

    /// Try it: the smallest image that mkfs takes and that can hold a file.
    fn minimum_size(&self) -> u64 {
        16 << 20
    }

    /// The mount options that are its own. Those of every file system are in `options::COMMON`.
    fn options(&self) -> &'static [DeclaredOption] {
        OPTIONS
    }

    /// Only what would fail later with a worse message. Leave this out where there is nothing.
    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        match spec.options.iter().find(|option| *option == "flesh") {
            Some(option) => Err(TestbedError::request(format!("skeleton has no {option}")).advice("leave it out")),
            None => Ok(()),
        }
    }

    /// Only where an option or the format itself weakens durability: see `ext.rs`, `f2fs.rs`.
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["nobarrier"])];
        HAZARDS
    }

    /// Only where the driver discards without being asked.
    fn discard_off(&self) -> Option<&'static str> {
        None
    }

    /// Only where it writes again what it wrote before at the same place: see `ext.rs`. What is to be known of one that
    /// holds images (`magic`, `takes_nocow`, `numbers_volumes`) is in `btrfs.rs`.
    fn writes_in_place(&self) -> bool {
        false
    }

    /// Only where mkfs chooses by the size of the device: arguments that give a slice what a large disk gets. See `ext.rs`.
    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        let size = large.block_size.filter(|_| !user.iter().any(|word| word.starts_with("-b")));
        size.map_or_else(Vec::new, |size| vec!["-b".to_owned(), size.to_string()])
    }

    /// Ask the file system's own tool, and test the parsing with its real output.
    fn inspect(&self, device: &Path) -> Inspection {
        let text = ask_about("dump.skeleton", &["--brief"], device);
        Inspection { features: text.split_whitespace().map(str::to_owned).collect(), geometry: Geometry::default() }
    }

    /// The default does just this. FUSE servers start their process here: see `ntfs.rs`.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        kernel::mount(self.name(), request.source, request.point, request.options)?;
        Ok(Mounted::default())
    }

    /// Only where another driver may serve it: see `ext.rs`.
    fn served_by(&self, _: &Path) -> Option<String> {
        None
    }
}
