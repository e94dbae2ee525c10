//! The trait that every file system implements, and the types of its methods.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use fsb_model::{FileSystemSpec, Geometry, Medium};

use super::age::Version;
use super::choice::Choice;
use super::fuse_server::FuseServer;
use super::hazard::Hazard;
use super::journal::Journal;
use crate::declared::DeclaredOption;
use crate::error::TestbedError;
use crate::sys::mount as kernel;
use crate::sys::{Roots, program};

/// The storage that a file system needs.
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
    /// Its arguments before the user's: quiet, overwriting, without discard and without deferred work.
    pub arguments: &'static [&'static str],
    /// The argument that prints its version.
    pub version: &'static str,
    /// Other programs that are needed to measure it.
    pub others: &'static [&'static str],
}

/// Features and geometry of a new file system, read by its own tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Features, as its own tool names them.
    pub features: Vec<String>,
    /// Its layout.
    pub geometry: Geometry,
}

/// The arguments of a mount.
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
    /// User and group that must be able to write, for file systems without owners.
    pub owner: (u32, u32),
}

/// A mount that holds until it is unmounted.
#[derive(Debug, Default)]
pub struct Mounted {
    /// The process that serves it, for FUSE.
    pub(crate) server: Option<FuseServer>,
}

/// A mounted file system on which nothing is open for writing.
#[derive(Debug)]
pub struct Idle<'a> {
    /// The mount point.
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
    /// Returns the storage that it needs.
    fn home(&self) -> Home {
        Home::Device
    }
    /// Returns the programs that make it. Returns `None` if it needs no mkfs.
    fn tools(&self) -> Option<&'static Tools>;
    /// Returns the name of the driver in /proc/filesystems. Returns `None` if the kernel does not take part.
    fn driver(&self) -> Option<&'static str> {
        Some(self.name())
    }
    /// Returns the kernel modules of a driver that is not built in. Their dependencies are in modules.dep.
    fn modules(&self) -> &'static [&'static str];
    /// Returns modules that the driver requests at run time (checksums, character sets). A guest loads those that its
    /// kernel has beforehand.
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
    /// Returns the mount options that it has beside those of every file system.
    fn options(&self) -> &'static [DeclaredOption] {
        &[]
    }
    /// Returns a curated list of options that may make it faster, for races.
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
    /// Returns a note that belongs to each of its results.
    fn note(&self) -> Option<&'static str> {
        None
    }
    /// The fewest bytes that its mkfs program accepts with default arguments.
    fn minimum_size(&self) -> u64;
    /// Refuses invalid requests before anything is changed.
    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        let _ = spec;
        Ok(())
    }
    /// Returns the mount option that switches off discards during a measurement.
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
    /// Returns the command that mounts it by hand, without device and mount point.
    fn mount_command(&self, options: &[String], size: u64) -> Vec<String> {
        let _ = size;
        with_options(&["mount", "-t", self.name()], options)
    }
    /// Completes the deferred work that syncfs does not do. Work that this kernel cannot be asked for is skipped: the
    /// agent waits for an idle device in any case.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let _ = idle;
        Ok(())
    }
    /// Returns the magic number of statfs (linux/magic.h), for file systems that must be recognised under an image or a
    /// measured directory.
    fn magic(&self) -> Option<u64> {
        None
    }
    /// Whether it overwrites blocks in place: beside the blocks of an image it then writes only a few blocks of a journal.
    /// A copy-on-write file system also writes checksums and its trees, which look like writes of other processes.
    fn writes_in_place(&self) -> bool {
        false
    }
    /// Whether files have a flag that switches off copy-on-write, which would fragment an image with every write. A file
    /// system that returns true also has a `magic`.
    fn takes_nocow(&self) -> bool {
        false
    }
    /// Whether `st_dev` of its files is an anonymous device number. The mount's source then names the device.
    fn numbers_volumes(&self) -> bool {
        false
    }
    /// Returns the sysfs file of a read-ahead setting of its own, which overrides that of the block device `name`.
    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        let _ = (name, roots);
        None
    }
    /// Returns a counter of the passes over its journal while it is mounted from `device`, whose kernel name is `name`.
    /// Returns `None` if it has no journal or the kernel does not report it.
    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        let _ = (device, name, roots);
        None
    }
    /// Returns the driver that serves it once mounted, if it is a different one.
    fn served_by(&self, device: &Path) -> Option<String> {
        let _ = device;
        None
    }
}

/// Returns the words of `PROGRAM -o OPTIONS`, or of `PROGRAM` if there are no options.
pub(super) fn with_options(program: &[&str], options: &[String]) -> Vec<String> {
    let mut words: Vec<String> = program.iter().map(|&word| word.to_owned()).collect();
    if !options.is_empty() {
        words.extend(["-o".to_owned(), options.join(",")]);
    }
    words
}

/// Returns the output of a tool that reads a device.
pub(super) fn ask_about(name: &str, arguments: &[&str], device: &Path) -> String {
    let mut words: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    words.push(device.as_os_str());
    program::ask(name, &words).unwrap_or_default()
}

/// Refuses a medium and mkfs arguments for a member without a device, which would ignore them.
pub(super) fn refuse_mkfs_and_medium(spec: &FileSystemSpec, why: &str) -> Result<(), TestbedError> {
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
