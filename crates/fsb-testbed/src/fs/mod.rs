//! The registry of file systems: each is one file and one line in [`REGISTRY`].
//!
//! A file system declares the program that makes it, the arguments with which that program leaves
//! no deferred work for a measurement, how it is mounted, and how its geometry is read.
//! `skeleton.rs` is a commented template to copy.

mod bcachefs;
mod btrfs;
mod ext;
mod f2fs;
mod file_system;
mod foreign;
mod fuse;
mod ganesha;
mod image;
mod jfs;
mod kernel_compatibility;
mod large_disk;
mod nfs;
mod nfs_server;
mod nilfs2;
mod ntfs;
mod null;
mod option_table;
mod options;
mod other;
mod over;
mod overlay;
mod reiserfs;
mod risk;
mod rpc_services;
mod server_process;
mod shared;
#[cfg(test)]
mod skeleton;
mod stacked;
mod tmpfs;
mod xfs;
mod zfs;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use file_system::version_in;
pub use file_system::{
    Beneath, Cause, Choice, DeviceSize, ExternalJournal, FileSystem, FirstWrites, Hazard, Home,
    Idle, Inspection, Journal, MaintenanceCommands, MountRequest, Mounted, Pooled, Sealing,
    ShareServer, SubvolumeCommands, Tools, Tune,
};
pub(crate) use file_system::{Formatted, UNFLUSHED, refuse_medium};
pub(crate) use foreign::check as check_foreign;
use fsb_model::{FileSystemSpec, Target};
use fsb_sys::error::TestbedError;
use fsb_sys::mountinfo::Mount;
use fsb_sys::{Roots, magic, mount as kernel, program};
pub(crate) use fuse::require_server;
pub use kernel_compatibility::Version;
pub(crate) use kernel_compatibility::advice_on_features;
pub(crate) use large_disk::fit;
pub use large_disk::large_disk;
pub(crate) use nfs_server::Export;
pub use null::Fake;
pub(crate) use null::Null;
pub use option_table::COMMON;
pub use options::{Recipe, recipe};
pub(crate) use options::{check, suggestion};
pub(crate) use over::unmount as unmount_beneath;
pub use risk::{requested_risks, risk_of_choice};
pub(crate) use risk::{risks_found, risks_of_mount, unseen_risk};
pub use server_process::ServerUse;

/// Every file system that fsb knows.
pub static REGISTRY: &[&dyn FileSystem] = &[
    &ext::EXT2,
    &ext::EXT3,
    &ext::EXT4,
    &xfs::Xfs,
    &btrfs::Btrfs,
    &bcachefs::Bcachefs,
    &reiserfs::Reiserfs,
    &jfs::Jfs,
    &f2fs::F2fs,
    &nilfs2::Nilfs2,
    &zfs::Zfs,
    &ntfs::Ntfs,
    &ntfs::Ntfs3,
    &other::MINIX,
    &other::VFAT,
    &other::EXFAT,
    &fuse::BINDFS,
    &fuse::MERGERFS,
    &fuse::GOCRYPTFS,
    &fuse::SSHFS,
    &fuse::FUSE_OVERLAYFS,
    &fuse::RCLONE,
    &fuse::FUSE2FS,
    &fuse::COMMAND,
    &nfs::NFS,
    &shared::NINE_P,
    &shared::VIRTIOFS,
    &overlay::OVERLAY,
    &image::EROFS,
    &image::SQUASHFS,
    &tmpfs::Tmpfs,
    &null::NULL,
];

/// Returns whether mounts of that type have their data on another machine, or on the host of this
/// one.
pub(crate) fn is_remote(mount: &str) -> bool {
    const REMOTE: [&str; 9] = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "virtiofs",
        "ceph",
        "afs",
        "glusterfs",
    ];
    REMOTE.contains(&mount)
}

/// Returns the file system of that name: one of the registry, or one that a program `mkfs.NAME`
/// makes. The error advises on the name.
pub fn find(name: &str) -> Result<&'static dyn FileSystem, TestbedError> {
    let member = REGISTRY
        .iter()
        .copied()
        .find(|member| member.name() == name);
    member
        .or_else(|| other::by_its_program(name))
        .ok_or_else(|| {
            let shown = fsb_model::nearest::shortened(name);
            TestbedError::request(format!("unknown file system '{shown}'"))
                .coded(&fsb_model::error::UNKNOWN_FILE_SYSTEM)
                .field("name", name)
                .advice(advice_on_name(name))
        })
}

/// Returns the file system of a target, which its options may select among variants.
pub fn of_target(spec: &FileSystemSpec) -> Result<&'static dyn FileSystem, TestbedError> {
    let member = find(&spec.fs)?;
    Ok(member.variant(spec).unwrap_or(member))
}

/// Names of file systems that fsb cannot format, as users write them.
const MOUNTED_ONLY: &[&str] = &[
    "nfs3",
    "nfs4",
    "cifs",
    "smb",
    "smbfs",
    "smb3",
    "ceph",
    "cephfs",
    "glusterfs",
    "lustre",
    "9p",
    "virtiofs",
    "overlayfs",
    "ecryptfs",
    "afs",
];

/// Returns the remedy for a name that is not a file system's.
fn advice_on_name(name: &str) -> String {
    let lower = name.to_lowercase();
    if MOUNTED_ONLY.contains(&lower.as_str()) || name.contains(":/") {
        return "fsb cannot format it: mount it and name its directory, such as fsb run /mnt/nas"
            .to_owned();
    }
    if name.contains('@') {
        return "after @ write loop, ram or the path of a device, such as ext4@/dev/sdb1"
            .to_owned();
    }
    let plain = lower.strip_prefix("mkfs.").unwrap_or(&lower);
    match fsb_model::nearest::nearest(plain, REGISTRY.iter().map(|member| member.name())) {
        Some(near) => format!("did you mean '{near}'? 'fsb list file-systems' shows all"),
        None => "'fsb list file-systems' shows all; a directory starts with / or ., a plan ends with .toml".to_owned(),
    }
}

/// Finds the mkfs program of a target: the one that the target names, or the installed one.
pub(crate) fn mkfs(tools: &Tools, spec: &FileSystemSpec) -> Result<PathBuf, TestbedError> {
    let Some(named) = spec.mkfs_program() else {
        return program::require(tools.mkfs, tools.package);
    };
    program::find(named).ok_or_else(|| {
        TestbedError::machine(format!("the program {named} is missing"))
            .coded(&fsb_model::error::TOOL_MISSING)
            .field("program", named)
            .tried("looked for a file that can be executed")
            .advice("correct the path in mkfs=, or leave it out")
    })
}

/// Finds all programs of a target: mkfs, and those beside it.
pub(crate) fn programs(tools: &Tools, spec: &FileSystemSpec) -> Result<Vec<PathBuf>, TestbedError> {
    // The first name is that of the installed mkfs program.
    let others = tools.programs().skip(1);
    let others = others.map(|name| program::require(name, tools.package));
    std::iter::once(mkfs(tools, spec)).chain(others).collect()
}

/// Runs the mkfs program on `device`: its defaults, then `extra`, which therefore takes precedence.
pub(crate) fn format(
    (tools, mkfs): (&Tools, &Path),
    device: &Path,
    extra: &[String],
) -> Result<Formatted, TestbedError> {
    let mut arguments: Vec<OsString> = tools.arguments.iter().map(OsString::from).collect();
    arguments.extend(extra.iter().map(OsString::from));
    arguments.push(device.into());
    let output = program::run_alone(mkfs, &arguments, device)?;
    let mut command = vec![mkfs.display().to_string()];
    command.extend(
        arguments
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned()),
    );
    if !output.status.success() {
        let mut complaint = program::complaint(&output);
        if complaint.is_empty() {
            // mkfs.f2fs with -q is silent about errors, too.
            arguments.retain(|argument| argument != "-q");
            complaint = program::complaint(&program::run_alone(mkfs, &arguments, device)?);
        }
        return Err(
            TestbedError::trial(format!("{} failed ({})", mkfs.display(), output.status))
                .tried(format!("{}: {complaint}", command.join(" "))),
        );
    }
    Ok(Formatted {
        command,
        changes: Vec::new(),
        version: version_of(mkfs, tools),
    })
}

/// Makes the external journal on its device, if mkfs does not.
pub(crate) fn make_journal(
    member: &dyn FileSystem,
    journal: &ExternalJournal,
    device: &Path,
) -> Result<(), TestbedError> {
    let (Some(tools), Some((name, arguments))) = (member.tools(), journal.make.split_first())
    else {
        return Ok(());
    };
    let arguments: Vec<OsString> = arguments
        .iter()
        .map(OsString::from)
        .chain([device.into()])
        .collect();
    let output = program::run_alone(&program::require(name, tools.package)?, &arguments, device)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(TestbedError::trial(format!(
            "the external journal was not made ({})",
            output.status
        ))
        .tried(format!(
            "{}: {}",
            journal.make.join(" "),
            program::complaint(&output)
        ))),
    }
}

/// The first word of the arguments of a change that is made while the file system is mounted.
const MOUNTED: &str = "mounted";

/// The time limit for an unmount after such a change.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the program that changes the features of the unmounted file system, once with each of
/// `runs`, and then the check that completes the changes. Mounts the file system at `point` for a
/// run that begins with `mounted`. Returns the commands, each with the device as its last word.
pub(crate) fn tune(
    member: &dyn FileSystem,
    device: &Path,
    point: &Path,
    runs: &[Vec<String>],
) -> Result<Vec<Vec<String>>, TestbedError> {
    let (Some(tune), Some(tools), false) = (member.tune(), member.tools(), runs.is_empty()) else {
        return Ok(Vec::new());
    };
    let command = |words: &[&str], run: &[String]| -> Vec<String> {
        let device = device.to_string_lossy().into_owned();
        words
            .iter()
            .map(|word| (*word).to_owned())
            .chain(run.iter().cloned())
            .chain([device])
            .collect()
    };
    // A program sees the target at `visible`: its device, or the point where it is mounted.
    let perform = |command: &[String], visible: &Path| -> Result<(), TestbedError> {
        let program = program::require(&command[0], tools.package)?;
        let output = program::run_alone(&program, &command[1..], visible)?;
        let is_repaired = command[0] == tune.repair[0] && output.status.code() == Some(1);
        if output.status.success() || is_repaired {
            return Ok(());
        }
        Err(
            TestbedError::trial(format!("{} failed ({})", command[0], output.status)).tried(
                format!("{}: {}", command.join(" "), program::complaint(&output)),
            ),
        )
    };
    let mut commands = Vec::new();
    for run in runs {
        match run.split_first().filter(|(first, _)| *first == MOUNTED) {
            None => {
                let change = command(&[tune.program], run);
                perform(&change, device)?;
                commands.push(change);
            }
            Some((_, run)) => {
                let change = command(&[tune.program], run);
                kernel::mount(tune.driver, device, point, &[])?;
                let changed = perform(&change, point);
                let unmounted = kernel::unmount_patiently(point, PATIENCE);
                changed?;
                unmounted?;
                let mount = command(
                    &["mount", "-t", tune.driver, "--target", "/mnt", "--source"],
                    &[],
                );
                commands.extend([mount, change, command(&["umount"], &[])]);
            }
        }
    }
    let repair = command(tune.repair, &[]);
    perform(&repair, device)?;
    commands.push(repair);
    Ok(commands)
}

/// Returns what the medium of a target holds: the file system beneath, with the arguments of mkfs
/// and the medium of the target. Returns `None` for a target that is over no other one.
pub fn target_beneath(spec: &FileSystemSpec) -> Option<FileSystemSpec> {
    let beneath = of_target(spec).ok()?.beneath()?;
    Some(FileSystemSpec {
        fs: beneath.member.name().to_owned(),
        server: Vec::new(),
        init: Vec::new(),
        options: beneath.options.to_vec(),
        ..spec.clone()
    })
}

/// Returns the version line of the installed mkfs program.
pub(crate) fn version(tools: &Tools) -> Option<String> {
    version_of(&program::find(tools.mkfs)?, tools)
}

/// Returns the version line of a mkfs program, from stdout or stderr.
pub(crate) fn version_of(mkfs: &Path, tools: &Tools) -> Option<String> {
    let output = program::run(mkfs, &[tools.version]).ok()?;
    let text = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&text)).map(str::to_owned)
}

/// Returns the programs of a file system that are missing.
pub(crate) fn missing_programs(tools: &Tools) -> Vec<PathBuf> {
    tools
        .programs()
        .filter(|name| program::find(name).is_none())
        .map(PathBuf::from)
        .collect()
}

/// Returns whether /proc/filesystems lists the driver.
pub(crate) fn kernel_has(roots: &Roots, driver: &str) -> bool {
    let listed = roots.proc_text("filesystems").unwrap_or_default();
    listed
        .lines()
        .any(|line| line.split_whitespace().last() == Some(driver))
}

/// Returns the advice where a kernel lacks this module of a file system. Returns `None` if kernels
/// of distributions have it.
pub fn module_advice(module: &str) -> Option<&'static str> {
    let mut members = REGISTRY
        .iter()
        .filter(|member| member.modules().contains(&module));
    members.find_map(|member| member.module_advice())
}

/// Returns the drivers, as /proc/filesystems names them, without which these targets cannot be
/// mounted on a machine itself. Optional targets need none.
pub fn needed_drivers(targets: &[Target]) -> BTreeSet<&'static str> {
    needed(targets)
        .flat_map(with_beneath)
        .filter_map(FileSystem::driver)
        .collect()
}

/// Returns the programs without which these targets cannot be made on a machine itself. Optional
/// targets need none, nor do those that name a mkfs program of their own.
pub fn needed_tools(targets: &[Target]) -> impl Iterator<Item = &'static Tools> {
    let installed = targets.iter().filter(|target| {
        let spec = target.file_system();
        spec.is_none_or(|spec| spec.mkfs_program().is_none())
    });
    needed(installed).filter_map(FileSystem::tools)
}

/// Returns the file system, and the one beneath it.
pub(crate) fn with_beneath(
    member: &'static dyn FileSystem,
) -> impl Iterator<Item = &'static dyn FileSystem> {
    let beneath = member.beneath().map(|beneath| beneath.member);
    [member].into_iter().chain(beneath)
}

fn needed<'t>(
    targets: impl IntoIterator<Item = &'t Target>,
) -> impl Iterator<Item = &'static dyn FileSystem> {
    let specs = targets
        .into_iter()
        .filter(|target| !target.optional)
        .filter_map(Target::file_system);
    let members = specs.filter_map(|spec| of_target(spec).ok());
    members.filter(|member| member.only_in_a_guest().is_none())
}

/// Returns the file system of a mount, including mounts that fsb did not make.
pub(crate) fn of_mount(mount: &Mount) -> Option<&'static dyn FileSystem> {
    let named = REGISTRY
        .iter()
        .copied()
        .find(|member| member.name() == mount.kind);
    named.or_else(|| by_magic(magic::of_path(&mount.point)?))
}

/// Returns the file system that holds an open file, if the file system declares its magic number.
pub(crate) fn of_file(file: impl AsFd) -> Option<&'static dyn FileSystem> {
    by_magic(magic::of_file(file)?)
}

fn by_magic(number: u64) -> Option<&'static dyn FileSystem> {
    REGISTRY
        .iter()
        .copied()
        .find(|member| member.magic() == Some(number))
}

/// Returns the file of a read-ahead setting of its own, for a file system that is mounted from the
/// block device `name`.
pub(crate) fn own_read_ahead(name: &str, roots: &Roots) -> Option<PathBuf> {
    REGISTRY
        .iter()
        .find_map(|member| member.own_read_ahead(name, roots))
        .filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> impl Iterator<Item = &'static dyn FileSystem> {
        REGISTRY
            .iter()
            .copied()
            .chain([&skeleton::Skeleton as &dyn FileSystem])
    }

    #[test]
    fn members_that_the_kernel_mounts_from_one_device_hold_other_file_systems() {
        let is_holder = |member: &&&dyn FileSystem| {
            member.home() == Home::Device
                && member.driver() == Some(member.name())
                && member.server_program().is_none()
                && member.beneath().is_none()
                && member.pooled().is_none()
                && member.example() == member.name()
        };
        let names = |members: Vec<&&dyn FileSystem>| -> Vec<&str> {
            members.into_iter().map(|member| member.name()).collect()
        };
        let expected = names(REGISTRY.iter().filter(is_holder).collect());
        assert_eq!(names(over::HOLDERS.iter().collect()), expected);
    }

    #[test]
    fn a_silent_mkfs_is_asked_again_for_its_reason() {
        if !fsb_testkit::has_program("mkfs.f2fs") {
            fsb_testkit::left_out("a_silent_mkfs_is_asked_again", "needs mkfs.f2fs");
            return;
        }
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(200 << 20).unwrap();
        let tools = find("f2fs").unwrap().tools().unwrap();
        let mkfs = program::find(tools.mkfs).unwrap();
        let zoned = format((tools, &mkfs), image.path(), &["-m".to_owned()]).unwrap_err();
        assert!(
            zoned.tried.contains("Error:") && zoned.tried.contains("zoned"),
            "{zoned}"
        );
    }

    #[test]
    fn members_are_unique_and_described() {
        let mut names = BTreeSet::new();
        for member in members() {
            assert!(names.insert(member.name()), "{} twice", member.name());
            assert!(
                !member.about().is_empty() && !member.about().contains('\n'),
                "{}",
                member.name()
            );
            assert!(
                member
                    .name()
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-'),
                "{}",
                member.name()
            );
            let target: Target = member.example().parse().unwrap();
            member.check(target.file_system().unwrap()).unwrap();
        }
    }

    #[test]
    fn device_file_systems_declare_tools_driver_and_least_size() {
        let of_command = |member: &&dyn FileSystem| member.name() == fsb_model::target::FUSE;
        for member in
            members().filter(|member| member.home() == Home::Device && !of_command(member))
        {
            let tools = member
                .tools()
                .unwrap_or_else(|| panic!("{} has no tools", member.name()));
            assert!(
                !tools.package.is_empty() && !tools.mkfs.is_empty(),
                "{}",
                member.name()
            );
            assert!(
                member.driver().is_some() && member.minimum_size() >= 1 << 20,
                "{}",
                member.name()
            );
            assert!(!member.modules().is_empty(), "{}", member.name());
        }
    }

    #[test]
    fn needed_drivers_are_those_of_the_targets_that_must_be_mounted() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let optional = Target {
            optional: true,
            ..target("btrfs")
        };
        let targets = [
            target("ext4"),
            target("fast=xfs,noatime"),
            target("ntfs"),
            target("null"),
            optional,
        ];
        assert_eq!(
            Vec::from_iter(needed_drivers(&targets)),
            ["ext4", "fuseblk", "xfs"]
        );
        assert!(needed_drivers(&[target("/srv"), target("nfs")]).is_empty());
    }

    #[test]
    fn members_with_nocow_or_volumes_declare_a_magic_number() {
        for member in members().filter(|member| member.takes_nocow() || member.numbers_volumes()) {
            assert!(
                member.magic().is_some(),
                "{} is known by its magic number alone",
                member.name()
            );
        }
        let in_place = members()
            .filter(|member| member.writes_in_place())
            .map(|member| member.name());
        assert_eq!(
            in_place.collect::<Vec<_>>(),
            ["ext2", "ext3", "ext4", "xfs"]
        );
    }

    #[test]
    fn todays_kernel_and_tools_need_no_arguments() {
        let words = ["-L".to_owned(), "x".to_owned()];
        for member in members() {
            assert_eq!(
                member.mkfs_for(&words, Version(99, 0), None),
                words,
                "{}",
                member.name()
            );
            assert_eq!(
                member.mkfs_for(&words, Version(3, 0), None),
                words,
                "{}",
                member.name()
            );
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        assert_eq!(find("xfs").unwrap().name(), "xfs");
        let error = find("btfrs").err().unwrap();
        assert_eq!(error.kind, crate::Kind::Request);
        assert!(
            error.to_string().contains("did you mean 'btrfs'"),
            "{error}"
        );
    }

    #[test]
    fn an_error_message_is_not_read_as_a_version() {
        assert_eq!(
            version_in("mkfs.udf: unrecognized option '--version'\n"),
            None
        );
        assert_eq!(
            version_in("mkudffs from udftools 2.3\nUsage:\n\tmkudffs\n"),
            Some("mkudffs from udftools 2.3")
        );
        assert_eq!(
            version_in("\nmke2fs 1.47.0 (5-Feb-2023)\n"),
            Some("mke2fs 1.47.0 (5-Feb-2023)")
        );
        assert_eq!(
            version_in("mkfs.x: invalid option -- '-'\nUsage: mkfs.x device\nup to 1024 bytes\n"),
            None
        );
    }

    #[test]
    fn mkfs_that_fails_says_why() {
        let tools = Tools {
            package: "coreutils",
            mkfs: "ls",
            arguments: &["-d"],
            version: "--version",
            others: &[],
            check: &[],
        };
        let ls = program::find("ls").unwrap();
        let made_by = (&tools, ls.as_path());
        let error = format(made_by, Path::new("/no/such/device"), &["--".to_owned()]).unwrap_err();
        assert_eq!(error.kind, crate::Kind::Trial);
        assert!(error.to_string().contains("No such file"), "{error}");
        let made = format(made_by, Path::new("/dev/null"), &[]).unwrap();
        assert!(
            made.command
                .ends_with(&["-d".to_owned(), "/dev/null".to_owned()]),
            "{made:?}"
        );
        assert!(made.version.unwrap().contains("coreutils"));
    }
}
