//! The trait that every file system implements, and the types of its methods: choices that are
//! worth a race, hazards, the journal, and the mount options that several file systems share.
//!
//! A hazard is an option, a format or a device that may lose synced data where the defaults keep
//! it. A target with a hazard does other work than the targets beside it, because part of what
//! "durable" costs is left out. It is marked unsafe and wins against no safe target unless the user
//! asks for that.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsb_model::{FileSystemSpec, Geometry, Maintenance, Medium};
use fsb_sys::error::TestbedError;
use fsb_sys::zpool::Pool;
use fsb_sys::{Roots, mount as kernel, program};
use serde::{Deserialize, Serialize};

use super::kernel_compatibility::Version;
use super::nfs_server::Export;
use super::server_process::ServerProcess;
use crate::declared::DeclaredOption;
use crate::ledger::Action;

/// The storage that a file system needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A block device, from a medium.
    Device,
    /// Memory; no medium.
    Memory,
    /// A directory that the host of a virtual machine makes; no medium.
    Host,
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
    /// The arguments before the user's: quiet, overwriting, without discard and without deferred
    /// work.
    pub arguments: &'static [&'static str],
    /// The argument that prints its version.
    pub version: &'static str,
    /// Other programs that are needed to measure it.
    pub others: &'static [&'static str],
    /// The command, from the same package, that checks the unmounted file system without repairs;
    /// the device follows. Empty if there is none.
    pub check: &'static [&'static str],
}

impl MaintenanceCommands {
    /// Returns commands without any before and after.
    pub fn only(timed: Vec<String>) -> MaintenanceCommands {
        MaintenanceCommands {
            timed,
            ..MaintenanceCommands::default()
        }
    }
}

impl Tools {
    /// Returns the names of all programs.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        [self.mkfs]
            .into_iter()
            .chain(self.others.iter().copied())
            .chain(self.check.first().copied())
    }

    /// Returns the mkfs program of a target and its arguments before the user's.
    pub fn command<'s>(&self, spec: &'s FileSystemSpec) -> impl Iterator<Item = &'s str> + use<'s> {
        std::iter::once(spec.mkfs_program().unwrap_or(self.mkfs))
            .chain(self.arguments.iter().copied())
    }
}

/// The programs that change the features of a new file system.
#[derive(Debug)]
pub struct Tune {
    /// The program that changes features.
    pub program: &'static str,
    /// The driver that mounts the file system during a change, whatever its features.
    pub driver: &'static str,
    /// The command that completes the change: it checks and repairs. It ends with 0, or with 1
    /// after repairs.
    pub repair: &'static [&'static str],
}

/// The commands of a maintenance operation on the mounted file system. All programs are among
/// [`Tools::programs`] and [`FileSystem::maintenance_programs`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaintenanceCommands {
    /// Creates the subject of the operation.
    pub before: Vec<Vec<String>>,
    /// The operation itself.
    pub timed: Vec<String>,
    /// Restores the state before.
    pub after: Vec<Vec<String>>,
}

/// The commands of a subvolume. All programs are among [`Tools::programs`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubvolumeCommands {
    /// Make it, and limit its space.
    pub make: Vec<Vec<String>>,
    /// Remove it with its files, and restore the state before.
    pub remove: Vec<Vec<String>>,
}

/// The parts of commands that concern an external journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalJournal {
    /// The command that makes the journal before mkfs; the device follows. Empty if mkfs makes it.
    pub make: Vec<String>,
    /// Arguments of the mkfs program.
    pub mkfs: Vec<String>,
    /// Mount options.
    pub mount: Vec<String>,
    /// Arguments of the check.
    pub check: Vec<String>,
}

/// Features and geometry of a new file system, read by its own tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Features, as its own tool names them.
    pub features: Vec<String>,
    /// The layout.
    pub geometry: Geometry,
}

/// The result of formatting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Formatted {
    /// The whole command.
    pub command: Vec<String>,
    /// The commands that changed the file system afterwards.
    pub changes: Vec<Vec<String>>,
    /// The version that the program prints.
    pub version: Option<String>,
}

/// A file system that stays open in the kernel after its last unmount, as the pools of ZFS do.
pub trait Pooled: Sync {
    /// Makes it on `device` and closes it again. `options` are the options of the target, and
    /// `arguments` those of its mkfs program. Returns the command and the properties.
    fn make(
        &self,
        device: &Path,
        options: &[String],
        arguments: &[String],
    ) -> Result<(Vec<String>, Inspection), TestbedError>;
    /// Returns the action that closes it after a killed run.
    fn close_action(&self, device: &Path) -> Result<Action, TestbedError>;
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
    /// Whether prepared files are served read-only, as [`FileSystem::sealing`] describes.
    pub sealed: bool,
}

/// The two states of a file system that serves prepared files from a read-only layer.
///
/// While files are prepared and removed, the mount point shows a directory of the file system that
/// holds them. While a case is measured, the target is sealed: the mount point shows the target
/// itself, and what a case writes is discarded with the seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealing {
    /// The times that the space of prepared files is needed while they are sealed.
    pub copies: u64,
    /// Whether nothing can be written while the target is sealed.
    pub read_only: bool,
}

/// A program of the host that serves a directory to a guest.
#[derive(Debug)]
pub struct ShareServer {
    /// Its name.
    pub name: &'static str,
    /// Its Debian packages.
    pub package: &'static str,
    /// Directories outside PATH in which distributions keep it.
    pub places: &'static [&'static str],
}

/// A mount that holds until it is unmounted.
#[derive(Debug, Default)]
pub struct Mounted {
    /// The process that serves it, for FUSE.
    pub(crate) server: Option<ServerProcess>,
    /// The mount point of the file system beneath, which is unmounted after the server has ended.
    pub(crate) beneath: Option<PathBuf>,
    /// The exported file system that the NFS server of this machine has mounted.
    pub(crate) export: Option<Export>,
    /// The mount points of further clients of that export.
    pub(crate) client_points: Vec<PathBuf>,
    /// The pool that the kernel keeps open until it is exported.
    pub(crate) pool: Option<Pool>,
}

/// A mounted file system on which nothing is open for writing.
#[derive(Debug)]
pub struct Idle<'a> {
    /// The mount point.
    pub point: &'a Path,
    /// The block device.
    pub source: &'a Path,
}

/// The dependence of a file system on the size of its device.
#[derive(Debug)]
pub struct DeviceSize {
    /// Bytes from which on results no longer depend on the size.
    pub least: u64,
    /// Returns the new files with data after which a commit is expected on the smaller device of
    /// that kernel name, on which a file system with that geometry is mounted. Returns `None` if
    /// that is not known.
    pub new_files: fn(&str, &Geometry, &Roots) -> Option<u64>,
    /// Reads the places of a new file system on a device that it writes first; its files have that
    /// number of bytes. Returns `None` if they are not known.
    pub first_writes: fn(&Path, u64) -> Option<FirstWrites>,
}

/// The places of a new file system that are written first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstWrites {
    /// Offsets on the device of metadata and data.
    pub places: Vec<Range<u64>>,
    /// The offset of the first data.
    pub data: u64,
}

/// A file system that can be measured.
pub trait FileSystem: Sync {
    /// Returns the name in targets, and the kernel's for it.
    fn name(&self) -> &'static str;
    /// Returns one line for 'fsb list file-systems'.
    fn about(&self) -> &'static str;
    /// Returns the member for this target. Returns `None` if the target does not select another
    /// one.
    fn variant(&self, spec: &FileSystemSpec) -> Option<&'static dyn FileSystem> {
        let _ = spec;
        None
    }
    /// Returns the text of a target of it.
    fn example(&self) -> &'static str {
        self.name()
    }
    /// Returns the file system beneath it, which the medium holds.
    fn beneath(&self) -> Option<&Beneath> {
        None
    }
    /// Returns how it serves prepared files from a read-only layer. Returns `None` if it serves
    /// them as any other files.
    fn sealing(&self) -> Option<Sealing> {
        None
    }
    /// Returns the reason why it is measured only in a guest of a virtual machine. Returns `None`
    /// if it is not.
    fn only_in_a_guest(&self) -> Option<&'static str> {
        None
    }
    /// Returns the storage that it needs.
    fn home(&self) -> Home {
        Home::Device
    }
    /// Returns the programs that make it. Returns `None` if it needs no mkfs.
    fn tools(&self) -> Option<&'static Tools>;
    /// Returns the name of the driver in /proc/filesystems. Returns `None` if the kernel does not
    /// take part.
    fn driver(&self) -> Option<&'static str> {
        Some(self.name())
    }
    /// Returns the kernel modules of a driver that is not built in. Their dependencies are in
    /// modules.dep.
    fn modules(&self) -> &'static [&'static str];
    /// Returns the advice where a kernel lacks these modules. Returns `None` if kernels of
    /// distributions have them.
    fn module_advice(&self) -> Option<&'static str> {
        None
    }
    /// Returns the kernel modules that these mount options need beside [`FileSystem::modules`].
    fn modules_of_options(&self, options: &[String]) -> Vec<&'static str> {
        let _ = options;
        Vec::new()
    }
    /// Returns the program that serves it or builds it, with its Debian package. Returns `None` if
    /// the kernel alone does, or if the program is among [`FileSystem::tools`].
    fn server_program(&self) -> Option<(&'static str, &'static str)> {
        None
    }
    /// Returns further programs that this program starts, with their Debian packages.
    fn server_helpers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// Returns the version of this program, as it prints it.
    fn server_version(&self) -> Option<String> {
        None
    }
    /// Returns the commands that mount it by hand with the options of a target, in order. They have
    /// the placeholders `{dev}`, `{dir}` for the mount point of the file system beneath, and
    /// `{mnt}`. Returns none if [`FileSystem::mount_command`] does.
    fn by_hand(&self, options: &[String]) -> Vec<Vec<String>> {
        let _ = options;
        Vec::new()
    }
    /// Returns the files that this program reads beside its libraries. Fails if one is missing.
    fn server_files(&self) -> Result<Vec<PathBuf>, TestbedError> {
        Ok(Vec::new())
    }
    /// Returns modules that the driver requests at run time (checksums, character sets). A guest
    /// loads those that its kernel has beforehand.
    fn helper_modules(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the user's mkfs arguments and those that make a file system that `oldest`, the
    /// oldest kernel of the run, can mount. `program` is the version of the mkfs program, if known.
    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        let _ = (oldest, program);
        user.to_vec()
    }
    /// Returns arguments, before the user's, that give a slice of `bytes` the geometry `large` of a
    /// large disk, as far as mkfs would choose another one by the size of the slice. Omits choices
    /// that `user` makes. A journal gets at most an eighth of its slice.
    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        let _ = (large, bytes, user);
        Vec::new()
    }
    /// Returns how it is made, if it stays open in the kernel after its last unmount. Returns
    /// `None` if its mkfs program makes it and a mount is its only use.
    fn pooled(&self) -> Option<&'static dyn Pooled> {
        None
    }
    /// Returns the reason why its data is never in a cache of this kernel with these options.
    /// Returns `None` if it can be.
    fn why_not_warm(&self, options: &[String]) -> Option<String> {
        let _ = options;
        None
    }
    /// Returns the program of the host that serves its directory to a guest. Returns `None` if the
    /// hypervisor does.
    fn share_server(&self) -> Option<&'static ShareServer> {
        None
    }
    /// Returns the programs that change its features after mkfs. Returns `None` if it has none.
    fn tune(&self) -> Option<&'static Tune> {
        None
    }
    /// Returns the arguments for a journal on `device`, which is another one than that of the file
    /// system. `mkfs` are the arguments of the user. Returns `None` if it has no external journal.
    fn external_journal(&self, device: &Path, mkfs: &[String]) -> Option<ExternalJournal> {
        let _ = (device, mkfs);
        None
    }
    /// Returns the commands of an operation on the file system that is mounted at `point`. Returns
    /// `None` if it has no such operation.
    fn maintenance(&self, operation: Maintenance, point: &Path) -> Option<MaintenanceCommands> {
        let _ = (operation, point);
        None
    }
    /// Returns the commands that make `directory` a subvolume of the file system on `device`, which
    /// is mounted at `point`, with at most `space` bytes. Returns `None` if it has no subvolumes.
    fn subvolume(
        &self,
        point: &Path,
        device: &Path,
        directory: &Path,
        space: Option<u64>,
    ) -> Option<SubvolumeCommands> {
        let _ = (point, device, directory, space);
        None
    }
    /// Returns a target of it whose project quotas are on. Returns `None` if it has none.
    fn project_quotas(&self) -> Option<&'static str> {
        None
    }
    /// Returns whether the kernel checks the checksums of everything in it while it is mounted:
    /// `BTRFS_IOC_SCRUB`.
    fn scrubs(&self) -> bool {
        false
    }

    /// Returns the features of the file system on `device` that its driver uses, of those that mkfs
    /// and later changes `made`.
    fn used_features(&self, _device: &Path, made: &[String]) -> Vec<String> {
        made.to_vec()
    }

    /// Returns the programs of its maintenance operations besides [`FileSystem::tools`]. Targets
    /// can be made without them.
    fn maintenance_programs(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the mount options that it has beside those of every file system.
    fn options(&self) -> &'static [DeclaredOption] {
        &[]
    }
    /// Returns those of a target's options that its mount takes. mkfs takes the others.
    fn mount_options(&self, options: &[String]) -> Vec<String> {
        options.to_vec()
    }
    /// Returns a curated list of options that may make it faster, for races.
    fn choices(&self) -> &'static [Choice] {
        &[]
    }
    /// Returns the options and formats that weaken durability.
    fn hazards(&self) -> &'static [Hazard] {
        &[]
    }
    /// Returns how its behaviour follows the size of the device. Returns `None` if a slice of the
    /// same geometry behaves as a large disk.
    fn device_size(&self) -> Option<&'static DeviceSize> {
        None
    }
    /// Returns a note that belongs to each of its results.
    fn note(&self) -> Option<&'static str> {
        None
    }
    /// Returns the smallest size in bytes that the mkfs program accepts with default arguments.
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
    /// Reads features and geometry from the unmounted device, or from a file that holds the file
    /// system.
    fn inspect(&self, device: &Path) -> Inspection;
    /// Completes a new file system before it is mounted for the first time.
    fn prepare(&self, request: &MountRequest<'_>) -> Result<(), TestbedError> {
        let _ = request;
        Ok(())
    }
    /// Mounts it.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        kernel::mount(self.name(), request.source, request.point, request.options)?;
        Ok(Mounted::default())
    }
    /// Changes between sealed and not, as the request has it. Only file systems with
    /// [`FileSystem::sealing`] are asked to.
    fn mount_again(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let _ = request;
        Err(TestbedError::machine(format!(
            "{} has no seal",
            self.name()
        )))
    }
    /// Returns the command that mounts it by hand, without device and mount point.
    fn mount_command(&self, options: &[String], size: u64) -> Vec<String> {
        let _ = size;
        with_options(&["mount", "-t", self.name()], options)
    }
    /// Completes the deferred work that syncfs does not do. Work that this kernel cannot be asked
    /// for is skipped: the agent waits for an idle device in any case.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let _ = idle;
        Ok(())
    }
    /// Returns the magic number of statfs (linux/magic.h), for file systems that must be recognised
    /// under an image or a measured directory.
    fn magic(&self) -> Option<u64> {
        None
    }
    /// Returns whether it overwrites blocks in place: beside the blocks of an image it then writes
    /// only a few blocks of a journal. A copy-on-write file system also writes checksums and its
    /// trees, which look like writes of other processes.
    fn writes_in_place(&self) -> bool {
        false
    }
    /// Returns whether files have a flag that switches off copy-on-write, which would fragment an
    /// image with every write. A file system that returns true also has a `magic`.
    fn takes_nocow(&self) -> bool {
        false
    }
    /// Returns whether `st_dev` of its files is an anonymous device number. The mount's source then
    /// names the device.
    fn numbers_volumes(&self) -> bool {
        false
    }
    /// Returns the sysfs file of a read-ahead setting of its own, which overrides that of the block
    /// device `name`.
    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        let _ = (name, roots);
        None
    }
    /// Returns a counter of the passes over its journal while it is mounted from `device`, whose
    /// kernel name is `name`. Returns `None` if it has no journal or the kernel does not report it.
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
    refuse_mkfs(spec, why)?;
    refuse_medium(spec, why)
}

/// Refuses mkfs arguments for a member that is not formatted.
pub(super) fn refuse_mkfs(spec: &FileSystemSpec, why: &str) -> Result<(), TestbedError> {
    if spec.mkfs.is_empty() {
        return Ok(());
    }
    Err(takes_none(spec, "mkfs arguments", why))
}

/// Refuses a medium for a member without a device.
pub(crate) fn refuse_medium(spec: &FileSystemSpec, why: &str) -> Result<(), TestbedError> {
    if spec.medium == Medium::default() {
        return Ok(());
    }
    let medium = format!("medium '{}'", spec.medium);
    Err(takes_none(spec, &medium, why).advice(format!("leave out @{}", spec.medium)))
}

fn takes_none(spec: &FileSystemSpec, what: &str, why: &str) -> TestbedError {
    TestbedError::request(format!("{} takes no {what}: {why}", spec.fs))
        .coded(&fsb_model::error::NO_MKFS)
}

/// An option, or a few that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Mount options, as `mount -o` takes them.
    pub mount: &'static [&'static str],
    /// Arguments for the mkfs program.
    pub mkfs: &'static [&'static str],
    /// The reason why it may be faster, in a line.
    pub why: &'static str,
    /// The loss that the defaults avoid, in a line, beside the file system's hazards. Such an
    /// option takes part in a race only if the user asks for that
    /// ([`risk_of_choice`](crate::fs::risk_of_choice)).
    pub risk: Option<&'static str>,
    /// The group of options that exclude each other. `None` if the option can be combined with all
    /// others.
    pub sort: Option<&'static str>,
    /// Whether its effect on a device that is too small ([`DeviceSize`]) is another one than on a
    /// large disk.
    pub follows_size: bool,
}

impl Choice {
    /// Returns a choice of mount options.
    pub(super) const fn mount(mount: &'static [&'static str], why: &'static str) -> Choice {
        Choice {
            mount,
            mkfs: &[],
            why,
            risk: None,
            sort: None,
            follows_size: false,
        }
    }

    /// Returns a choice of mkfs arguments.
    pub(super) const fn mkfs(mkfs: &'static [&'static str], why: &'static str) -> Choice {
        Choice {
            mount: &[],
            mkfs,
            why,
            risk: None,
            sort: None,
            follows_size: false,
        }
    }

    /// Returns the same choice with a possible loss.
    pub(super) const fn risky(self, risk: &'static str) -> Choice {
        Choice {
            risk: Some(risk),
            ..self
        }
    }

    /// Returns the same choice, whose effect follows the size of the device.
    pub(super) const fn following_size(self) -> Choice {
        Choice {
            follows_size: true,
            ..self
        }
    }

    /// Returns the same choice in a group of options that exclude each other.
    pub(super) const fn sort(self, sort: &'static str) -> Choice {
        Choice {
            sort: Some(sort),
            ..self
        }
    }
}

/// A hazard of a file system, declared in its own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hazard {
    /// The sign.
    pub cause: Cause,
    /// The loss, in a few words.
    pub loss: &'static str,
}

/// The sign of a hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Mount options with the same effect, as they are typed or as the kernel shows them.
    Options(&'static [&'static str]),
    /// A feature that mkfs enables by default is missing.
    Without(&'static str),
    /// A feature that mkfs does not enable by default is missing; and the format without it, in a
    /// few words.
    Lacks(&'static str, &'static str),
    /// The format itself, in a few words.
    Format(&'static str),
}

/// The loss where caches are not flushed.
pub(crate) const UNFLUSHED: &str = "a power failure may lose synced data";

impl Hazard {
    /// Returns the hazard of mount options that switch off flushes.
    pub(super) const fn unflushed(options: &'static [&'static str]) -> Hazard {
        Hazard {
            cause: Cause::Options(options),
            loss: UNFLUSHED,
        }
    }

    /// Returns the hazard of mount options with which a commit does not wait for data.
    pub(super) const fn writeback(options: &'static [&'static str]) -> Hazard {
        Hazard {
            cause: Cause::Options(options),
            loss: "after a crash, files may hold deleted data",
        }
    }

    /// Returns the hazard of a format that keeps no journal.
    pub(super) const fn no_journal(cause: Cause) -> Hazard {
        Hazard {
            cause,
            loss: "after a crash, fsck may have to discard files",
        }
    }

    /// Returns the option, feature or format that shows the hazard. Returns `None` if the target
    /// does not have it.
    pub(super) fn found_in(&self, options: &[String], features: &Features<'_>) -> Option<String> {
        match self.cause {
            Cause::Options(names) => options
                .iter()
                .find(|option| names.contains(&option.as_str()))
                .cloned(),
            Cause::Without(feature) => {
                (!features.has(feature, true)).then(|| format!("without {feature}"))
            }
            Cause::Lacks(feature, words) => {
                (!features.has(feature, false)).then(|| words.to_owned())
            }
            Cause::Format(words) => Some(words.to_owned()),
        }
    }
}

/// The feature of a journal within an ext file system.
pub(crate) const HAS_JOURNAL: &str = "has_journal";

/// The features of a file system, as they are known.
#[derive(Debug, Default)]
pub(super) struct Features<'a> {
    /// The arguments of mkfs, and those of each later change, in order.
    pub requested: Vec<&'a [String]>,
    /// The features that the file system has. The arguments decide if they are unknown (`None`).
    pub made: Option<&'a [String]>,
}

impl Features<'_> {
    /// Returns whether the file system has a feature. `by_default` is whether mkfs enables it
    /// without arguments.
    fn has(&self, feature: &str, by_default: bool) -> bool {
        if let Some(made) = self.made {
            return made.iter().any(|made| made == feature);
        }
        let mut has = by_default;
        for words in &self.requested {
            let mut is_list = false;
            for word in *words {
                let list = word.strip_prefix("-O").unwrap_or(match is_list {
                    true => word,
                    false => "",
                });
                is_list = word == "-O";
                for part in list.split(',') {
                    match part.strip_prefix('^') {
                        Some(off) if off == feature => has = false,
                        None if part == feature => has = true,
                        // mke2fs(8): clears all features.
                        None if part == "none" => has = false,
                        _ => {}
                    }
                }
            }
            // mke2fs(8) and tune2fs(8): both options make a journal, whatever -O says beside them.
            let makes_journal = |word: &String| word == "-j" || word.starts_with("-J");
            has |= feature == HAS_JOURNAL && words.iter().any(makes_journal);
        }
        has
    }
}

/// Counts how often the journal of a mounted file system has been written from end to end, since
/// some time in the past.
pub struct Journal(Box<dyn Fn() -> Option<f64> + Send>);

impl Journal {
    /// Returns a journal whose turns this function reads.
    pub(super) fn new(turns: impl Fn() -> Option<f64> + Send + 'static) -> Journal {
        Journal(Box::new(turns))
    }

    /// Returns the number of turns. Only differences between two calls are meaningful.
    pub fn turns(&self) -> Option<f64> {
        (self.0)()
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({:?})", self.turns())
    }
}

/// Returns the size of the journal on a slice of `bytes`: that of the large disk, but at most an
/// eighth of the slice, in whole mebibytes.
pub(super) fn journal_for(bytes: u64, large: u64) -> u64 {
    const SHARE: u64 = 8;
    large.min(bytes / SHARE) >> 20 << 20
}

/// Reads `N` bytes of the device from `offset` on, as the file system's driver last wrote them.
pub(super) fn bytes_at<const N: usize>(device: &Path, offset: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open(device)
        .ok()?
        .read_exact_at(&mut bytes, offset)
        .ok()?;
    Some(bytes)
}

/// The file system beneath a target.
#[derive(Clone, Copy)]
pub struct Beneath {
    /// The member that the medium holds.
    pub member: &'static dyn FileSystem,
    /// Its mount options.
    pub options: &'static [String],
}

/// Returns the first line with a digit. Skips the complaint and the usage of a program that does
/// not know the option.
pub(super) fn version_in(text: &str) -> Option<&str> {
    let mut lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.to_lowercase().starts_with("usage"));
    lines.find(|line| {
        line.contains(|c: char| c.is_ascii_digit())
            && !["unrecognized", "invalid", "unknown"]
                .iter()
                .any(|word| line.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use crate::fs::REGISTRY;

    #[test]
    fn choices_are_told_apart_and_say_why() {
        for member in REGISTRY {
            let mut known = std::collections::BTreeSet::new();
            for choice in member.choices() {
                let name = member.name();
                assert!(
                    known.insert((choice.mount, choice.mkfs)),
                    "{name}: {choice:?} twice"
                );
                assert!(
                    !choice.mount.is_empty() || !choice.mkfs.is_empty(),
                    "{name}: {choice:?}"
                );
                let lines = [Some(choice.why), choice.risk];
                for line in lines.into_iter().flatten() {
                    assert!(
                        (10..=70).contains(&line.chars().count()),
                        "{name}: '{line}'"
                    );
                }
            }
        }
    }

    /// An option that may lose promised data in a power failure is a risk.
    #[test]
    fn barriers_and_checks_that_are_off_are_risky() {
        let dangerous = [
            "nobarrier",
            "barrier=0",
            "async_commit",
            "nodatasum",
            "nolog",
            "norecovery",
        ];
        for member in REGISTRY {
            for choice in member.choices() {
                let words = choice.mount.iter().chain(choice.mkfs);
                let is_dangerous = words
                    .into_iter()
                    .any(|word| dangerous.iter().any(|bad| word.contains(bad)));
                let risk = crate::fs::risk_of_choice(*member, choice);
                assert!(
                    !is_dangerous || risk.is_some(),
                    "{}: {choice:?}",
                    member.name()
                );
            }
        }
    }
}
