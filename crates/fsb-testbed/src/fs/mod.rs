//! The family of file systems: one file a member, one line in [`REGISTRY`].
//!
//! A member says which program makes it, with which arguments nothing is left to do behind a measurement, how it is
//! mounted and how to read what came out. `skeleton.rs` is a commented member to copy.

mod age;
mod btrfs;
mod choice;
mod ext;
mod ext2;
mod ext3;
mod ext4;
mod f2fs;
mod hazard;
mod jfs;
mod journal;
mod large_disk;
mod met;
mod nilfs2;
mod ntfs;
mod ntfs3;
mod null;
mod other;
mod recipe;
mod reiserfs;
#[cfg(test)]
mod skeleton;
mod tmpfs;
mod xfs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fsb_model::{FileSystemSpec, Geometry, Medium};

use crate::error::TestbedError;
use crate::sys::mount as kernel;
use crate::sys::{Roots, program};

pub use age::Version;
pub use choice::Choice;
pub use hazard::{Cause, Hazard, requested_risks, risk_of_choice};
pub(crate) use hazard::{UNFLUSHED, risks_found, risks_of_device, risks_of_mount, unseen_risk};
pub use journal::Journal;
pub(crate) use large_disk::fit;
pub use large_disk::large_disk;
pub(crate) use met::{of_file, of_mount, own_read_ahead};
pub(crate) use ntfs::Server;
pub(crate) use null::Null;
pub use recipe::{Recipe, recipe};

/// Every file system that fsb knows.
pub static REGISTRY: &[&dyn FileSystem] = &[
    &ext2::EXT2,
    &ext3::EXT3,
    &ext4::EXT4,
    &xfs::Xfs,
    &btrfs::Btrfs,
    &reiserfs::Reiserfs,
    &jfs::Jfs,
    &f2fs::F2fs,
    &nilfs2::Nilfs2,
    &ntfs::Ntfs,
    &ntfs3::Ntfs3,
    &other::MINIX,
    &other::VFAT,
    &other::EXFAT,
    &tmpfs::Tmpfs,
    &null::NULL,
];

/// What a file system stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A block device, from a medium.
    Device,
    /// Memory; no medium.
    Memory,
    /// Nothing at all: the null file system.
    Nowhere,
}

/// The programs that make a file system.
#[derive(Debug)]
pub struct Tools {
    /// Its Debian package.
    pub package: &'static str,
    /// The program that formats.
    pub mkfs: &'static str,
    /// Its arguments before the user's: quiet, willing to overwrite, no discard, nothing left for later.
    pub arguments: &'static [&'static str],
    /// The argument that makes it tell its version.
    pub version: &'static str,
    /// Other programs without which it cannot be measured.
    pub others: &'static [&'static str],
}

/// What a freshly made file system says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Features, as its own tool names them.
    pub features: Vec<String>,
    /// Its layout.
    pub geometry: Geometry,
}

/// What is to be mounted.
#[derive(Debug)]
pub struct MountRequest<'a> {
    /// The block device; for file systems in memory their own name.
    pub source: &'a Path,
    /// An empty directory.
    pub point: &'a Path,
    /// As in `mount -o`, each.
    pub options: &'a [String],
    /// Bytes that a file system in memory may use.
    pub size: u64,
    /// Who must be able to write on it, for file systems that know no owners.
    pub owner: (u32, u32),
}

/// A mount that holds until it is unmounted.
#[derive(Debug, Default)]
pub struct Mounted {
    /// The process that serves it, for FUSE.
    pub(crate) server: Option<Server>,
}

/// A mounted file system on which nothing is open for writing.
#[derive(Debug)]
pub struct Idle<'a> {
    /// Where it is mounted.
    pub point: &'a Path,
    /// The block device.
    pub source: &'a Path,
}

/// A file system that can be measured.
pub trait FileSystem: Sync {
    /// Its name in targets, and the kernel's for it.
    fn name(&self) -> &'static str;
    /// One line for 'fsb list file-systems'.
    fn about(&self) -> &'static str;
    /// What it stands on.
    fn home(&self) -> Home {
        Home::Device
    }
    /// What makes it; absent where it needs no making.
    fn tools(&self) -> Option<&'static Tools>;
    /// The name of the driver in /proc/filesystems; absent where the kernel has no part in it.
    fn driver(&self) -> Option<&'static str> {
        Some(self.name())
    }
    /// Kernel modules that bring the driver, where it is not built in. What they depend on is known to modules.dep.
    fn modules(&self) -> &'static [&'static str];
    /// Modules that the driver asks for while it runs (checksums, tables of characters), where the kernel has them: who
    /// boots a kernel of his own loads them beforehand.
    fn helper_modules(&self) -> &'static [&'static str] {
        &[]
    }
    /// The user's mkfs arguments, with those added that make what `oldest`, the oldest kernel of the run, can mount.
    /// `program` is the version of the mkfs program, where it is known.
    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        let _ = (oldest, program);
        user.to_vec()
    }
    /// Arguments, before the user's, that give a slice of `bytes` the geometry `large` of a large disk, as far as mkfs
    /// would choose another one by the size of the slice. What `user` decides is left out. A journal gets at most
    /// an eighth of its slice.
    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        let _ = (large, bytes, user);
        Vec::new()
    }
    /// Options that may make it faster, for a race of all of them: a curated list, what nobody would take for granted.
    fn choices(&self) -> &'static [Choice] {
        &[]
    }
    /// The options and formats that weaken durability.
    fn hazards(&self) -> &'static [Hazard] {
        &[]
    }
    /// The bytes below which a slice of the same geometry still differs from a large disk, and a note on how it differs.
    fn small_slice(&self) -> Option<(u64, &'static str)> {
        None
    }
    /// What a reader of any of its results must know.
    fn note(&self) -> Option<&'static str> {
        None
    }
    /// The fewest bytes that its mkfs program accepts with default arguments.
    fn minimum_size(&self) -> u64;
    /// Refuses what can be seen to be wrong before anything is touched.
    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        let _ = spec;
        Ok(())
    }
    /// The mount option without which it would discard behind a measurement on a device that can.
    fn discard_off(&self) -> Option<&'static str> {
        None
    }
    /// Reads features and geometry from the unmounted device, or from a file that holds the file system.
    fn inspect(&self, device: &Path) -> Inspection;
    /// Mounts it.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        kernel::mount(self.name(), request.source, request.point, request.options)?;
        Ok(Mounted::default())
    }
    /// The command that does the same by hand, before device and mount point.
    fn mount_command(&self, options: &[String], size: u64) -> Vec<String> {
        let _ = size;
        recipe::with_options(&["mount", "-t", self.name()], options)
    }
    /// Does now, by its own means, what it would do behind a measurement: what syncfs leaves to later. What this kernel
    /// cannot do is left out; whether the device is quiet afterwards is looked at in any case.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let _ = idle;
        Ok(())
    }
    /// What statfs says where it is (linux/magic.h), for those that must be known where they hold somebody's files.
    fn magic(&self) -> Option<u64> {
        None
    }
    /// Whether it writes a block where it was: what it writes beside an image is a few blocks of a journal then. Others
    /// write a block's new place, its checksum and the tree above it, and nobody can tell that from somebody else's writes.
    fn writes_in_place(&self) -> bool {
        false
    }
    /// Whether files take the flag that switches copy on write off, without which an image would be scattered anew with
    /// every write. It says its `magic`, too.
    fn takes_nocow(&self) -> bool {
        false
    }
    /// Whether it numbers its volumes itself: `st_dev` of its files is no device then, and only the mount's source is.
    fn numbers_volumes(&self) -> bool {
        false
    }
    /// The file in which it keeps a read-ahead of its own, whatever the block device `name` says, while it is mounted from
    /// there.
    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        let _ = (name, roots);
        None
    }
    /// What tells how often its journal has been written while it is mounted from `device`, the kernel's `name`; absent
    /// where it has none, or the kernel does not tell.
    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        let _ = (device, name, roots);
        None
    }
    /// The driver that serves it once mounted, where that is not the one named.
    fn served_by(&self, device: &Path) -> Option<String> {
        let _ = device;
        None
    }
}

/// The file system of that name: a member, or what a program `mkfs.NAME` makes; else the nearest name.
pub fn find(name: &str) -> Result<&'static dyn FileSystem, TestbedError> {
    let member = REGISTRY.iter().copied().find(|member| member.name() == name);
    member.or_else(|| other::by_its_program(name)).ok_or_else(|| {
        let known: Vec<_> = REGISTRY.iter().map(|member| member.name()).collect();
        TestbedError::request(fsb_model::nearest::unknown("file system", name, known.iter().copied()))
            .coded(&fsb_model::error::UNKNOWN_FILE_SYSTEM)
            .field("name", name)
            .advice("'fsb list file-systems' shows all; a directory starts with / or .")
    })
}

/// What formatting did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Formatted {
    /// The whole command.
    pub command: Vec<String>,
    /// The program's first words about itself.
    pub version: Option<String>,
}

/// Runs the member's mkfs program on `device`: its defaults, then `extra`, so that the latter win.
pub(crate) fn format(tools: &Tools, device: &Path, extra: &[String]) -> Result<Formatted, TestbedError> {
    let mkfs = program::require(tools.mkfs, tools.package)?;
    let mut arguments: Vec<OsString> = tools.arguments.iter().map(OsString::from).collect();
    arguments.extend(extra.iter().map(OsString::from));
    arguments.push(device.into());
    let output = program::run_alone(&mkfs, &arguments, device)?;
    let mut command = vec![mkfs.display().to_string()];
    command.extend(arguments.iter().map(|argument| argument.to_string_lossy().into_owned()));
    if !output.status.success() {
        let complaint = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        return Err(TestbedError::trial(format!("{} failed ({})", tools.mkfs, output.status)).tried(format!(
            "{}: {}",
            command.join(" "),
            program::last_lines(complaint)
        )));
    }
    Ok(Formatted { command, version: version(tools) })
}

/// The first line that the mkfs program says of itself, on whichever output.
pub(crate) fn version(tools: &Tools) -> Option<String> {
    let output = program::run(&program::find(tools.mkfs)?, &[tools.version]).ok()?;
    let text = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&text)).map(str::to_owned)
}

/// A program that does not know the question complains, and shows its usage.
fn version_in(text: &str) -> Option<&str> {
    let complaint = |line: &str| ["unrecognized", "invalid", "unknown"].iter().any(|word| line.contains(word));
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.to_lowercase().starts_with("usage"));
    lines.find(|line| line.contains(|c: char| c.is_ascii_digit()) && !complaint(line))
}

/// What of a member's programs is missing, with the package that brings it.
pub(crate) fn missing_programs(tools: &Tools) -> Vec<PathBuf> {
    let needed = std::iter::once(&tools.mkfs).chain(tools.others);
    needed.filter(|name| program::find(name).is_none()).map(PathBuf::from).collect()
}

/// Whether /proc/filesystems lists the driver.
pub(crate) fn kernel_has(roots: &Roots, driver: &str) -> bool {
    let listed = roots.proc_text("filesystems").unwrap_or_default();
    listed.lines().any(|line| line.split_whitespace().last() == Some(driver))
}

/// Output of a tool that was asked about a device.
fn ask_about(name: &str, arguments: &[&str], device: &Path) -> String {
    let mut words: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).collect();
    words.push(device.as_os_str());
    program::ask(name, &words).unwrap_or_default()
}

/// For members without a device: a medium or mkfs arguments would be ignored, and nothing is.
fn refuse_mkfs_and_medium(spec: &FileSystemSpec, why: &str) -> Result<(), TestbedError> {
    let refused = |what: String| {
        TestbedError::request(format!("{} takes no {what}: {why}", spec.fs)).coded(&fsb_model::error::NO_MKFS)
    };
    if !spec.mkfs.is_empty() {
        return Err(refused("mkfs arguments".to_owned()));
    }
    if spec.medium != Medium::default() {
        return Err(refused(format!("medium '{}'", spec.medium)).advice(format!("leave out @{}", spec.medium)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> impl Iterator<Item = &'static dyn FileSystem> {
        REGISTRY.iter().copied().chain([&skeleton::Skeleton as &dyn FileSystem])
    }

    #[test]
    fn members_are_unique_and_described() {
        let mut names = std::collections::BTreeSet::new();
        for member in members() {
            assert!(names.insert(member.name()), "{} twice", member.name());
            assert!(!member.about().is_empty() && !member.about().contains('\n'), "{}", member.name());
            assert!(member.name().chars().all(|c| c.is_ascii_alphanumeric()), "{}", member.name());
            let target: fsb_model::Target = member.name().parse().unwrap();
            member.check(target.file_system().unwrap()).unwrap();
        }
    }

    #[test]
    fn what_stands_on_a_device_has_tools_a_driver_and_a_least_size() {
        for member in members().filter(|member| member.home() == Home::Device) {
            let tools = member.tools().unwrap_or_else(|| panic!("{} has no tools", member.name()));
            assert!(!tools.package.is_empty() && !tools.mkfs.is_empty(), "{}", member.name());
            assert!(member.driver().is_some() && member.minimum_size() >= 1 << 20, "{}", member.name());
            assert!(!member.modules().is_empty(), "{}", member.name());
        }
    }

    #[test]
    fn what_is_said_of_files_of_others_can_be_found_out() {
        for member in members().filter(|member| member.takes_nocow() || member.numbers_volumes()) {
            assert!(member.magic().is_some(), "{} is known by its magic number alone", member.name());
        }
        let in_place = members().filter(|member| member.writes_in_place()).map(|member| member.name());
        assert_eq!(in_place.collect::<Vec<_>>(), ["ext2", "ext3", "ext4", "xfs"]);
    }

    #[test]
    fn todays_kernel_and_tools_need_no_arguments() {
        let words = ["-L".to_owned(), "x".to_owned()];
        for member in members() {
            assert_eq!(member.mkfs_for(&words, Version(99, 0), None), words, "{}", member.name());
            assert_eq!(member.mkfs_for(&words, Version(3, 0), None), words, "{}", member.name());
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        assert_eq!(find("xfs").unwrap().name(), "xfs");
        let error = find("btfrs").err().unwrap();
        assert_eq!(error.kind, crate::Kind::Request);
        assert!(error.to_string().contains("did you mean 'btrfs'"), "{error}");
    }

    #[test]
    fn a_complaint_is_no_version() {
        assert_eq!(version_in("mkfs.udf: unrecognized option '--version'\n"), None);
        assert_eq!(version_in("mkudffs from udftools 2.3\nUsage:\n\tmkudffs\n"), Some("mkudffs from udftools 2.3"));
        assert_eq!(version_in("\nmke2fs 1.47.0 (5-Feb-2023)\n"), Some("mke2fs 1.47.0 (5-Feb-2023)"));
        assert_eq!(version_in("mkfs.x: invalid option -- '-'\nUsage: mkfs.x device\nup to 1024 bytes\n"), None);
    }

    #[test]
    fn mkfs_that_fails_says_why() {
        let tools = Tools { package: "coreutils", mkfs: "ls", arguments: &["-d"], version: "--version", others: &[] };
        let error = format(&tools, Path::new("/no/such/device"), &["--".to_owned()]).unwrap_err();
        assert_eq!(error.kind, crate::Kind::Trial);
        assert!(error.to_string().contains("No such file"), "{error}");
        let made = format(&tools, Path::new("/dev/null"), &[]).unwrap();
        assert!(made.command.ends_with(&["-d".to_owned(), "/dev/null".to_owned()]), "{made:?}");
        assert!(made.version.unwrap().contains("coreutils"));
    }
}
