//! Mount options: those of every file system, checks against the tables that members declare, and
//! the commands with which a user makes the same target by hand.

use std::path::Path;

use fsb_model::FileSystemSpec;
use fsb_model::nearest::nearest;
use fsb_sys::error::TestbedError;

use super::file_system::{FileSystem, Home};
use super::large_disk::{fit, large_disk};
use super::option_table::COMMON;
use super::{REGISTRY, of_target};
use crate::declared::{DeclaredOption, key};

/// Checks a target before anything is changed: its mount options against the table of the file
/// system, then the rest.
///
/// # Errors
///
/// If a value is none of those declared, if options exclude each other, or if only other file
/// systems declare the option. An option that no table declares is left to the driver, which may be
/// newer.
pub(crate) fn check(member: &dyn FileSystem, spec: &FileSystemSpec) -> Result<(), TestbedError> {
    // A program mkfs.NAME makes file systems without a table.
    if member.home() != Home::Nowhere && REGISTRY.iter().any(|known| known.name() == member.name())
    {
        spec.options
            .iter()
            .try_for_each(|option| check_option(member, option, &spec.options))?;
    }
    if let Some(beneath) = member.beneath() {
        beneath
            .options
            .iter()
            .try_for_each(|option| check_option(beneath.member, option, beneath.options))?;
    }
    if !spec.tune.is_empty() && member.tune().is_none() {
        return Err(
            TestbedError::request(format!("{} takes no tune arguments", member.name()))
                .coded(&fsb_model::error::UNKNOWN_OPTION)
                .field("option", "tune")
                .advice("only ext2, ext3 and ext4 are changed after mkfs, by tune2fs"),
        );
    }
    if spec.journal.is_some()
        && member
            .external_journal(Path::new("/"), spec.mkfs_words())
            .is_none()
    {
        return Err(
            TestbedError::request(format!("{} has no external journal", member.name()))
                .coded(&fsb_model::error::UNKNOWN_OPTION)
                .field("option", "journal")
                .advice("leave out journal=; ext3, ext4, xfs and reiserfs have one"),
        );
    }
    check_program(member, spec)?;
    if spec.journal.is_some() && !spec.tune.is_empty() {
        return Err(TestbedError::request(
            "a file system with an external journal takes no tune arguments",
        )
        .coded(&fsb_model::error::UNKNOWN_OPTION)
        .field("option", "tune")
        .advice("leave out tune= or journal="));
    }
    if spec.is_encrypted()
        && !member
            .options()
            .iter()
            .any(|option| option.name == fsb_model::ENCRYPT)
    {
        return Err(
            refused(member, fsb_model::ENCRYPT).advice("leave it out; ext4 and f2fs encrypt files")
        );
    }
    member.check(spec)
}

/// Refuses a mkfs program for a file system that another command makes.
fn check_program(member: &dyn FileSystem, spec: &FileSystemSpec) -> Result<(), TestbedError> {
    let (Some(tools), Some(program)) = (member.tools(), spec.mkfs_program()) else {
        return Ok(());
    };
    if tools.mkfs.starts_with("mk") {
        return Ok(());
    }
    let made_by = format!("{} is made by {}", member.name(), tools.mkfs);
    Err(
        TestbedError::request(format!("{made_by}, not by {program}"))
            .coded(&fsb_model::error::UNKNOWN_OPTION)
            .field("option", "mkfs")
            .advice("leave the program out of mkfs="),
    )
}

fn check_option(member: &dyn FileSystem, option: &str, all: &[String]) -> Result<(), TestbedError> {
    let name = key(option);
    let advice = || {
        format!(
            "'fsb list file-systems {}' shows its options",
            member.name()
        )
    };
    let declared = member
        .options()
        .iter()
        .chain(&*COMMON)
        .find(|declared| declared.name == name);
    let Some(declared) = declared else {
        let others: Vec<&str> = REGISTRY
            .iter()
            .filter(|other| other.home() != Home::Nowhere)
            .filter(|other| other.options().iter().any(|known| known.name == name))
            .map(|other| other.name())
            .collect();
        if REGISTRY.iter().any(|known| known.name() == option) {
            return Err(refused(member, option)
                .tried(format!("'{option}' is a file system"))
                .advice(format!(
                    "separate targets with spaces: {} {option}",
                    member.name()
                )));
        }
        // A FUSE server has more options than its manual lists.
        if others.is_empty() || member.driver() != Some(member.name()) {
            return Ok(());
        }
        return Err(refused(member, option)
            .tried(format!("'{name}' is an option of {}", others.join(", ")))
            .advice(advice()));
    };
    if let Err(why) = declared.parse(option) {
        let near = suggestion(member, option).map(|near| format!("did you mean '{near}'?"));
        return Err(refused(member, option)
            .tried(why)
            .advice(near.unwrap_or_else(advice)));
    }
    match declared.needs.filter(|needs| !needs.holds(all)) {
        Some(needs) => Err(refused(member, option).tried(needs.to_string())),
        None => Ok(()),
    }
}

fn refused(member: &dyn FileSystem, option: &str) -> TestbedError {
    TestbedError::request(format!(
        "{} refuses the mount option '{option}'",
        member.name()
    ))
    .coded(&fsb_model::error::UNKNOWN_OPTION)
    .field("option", option)
}

/// Returns the declared option that is nearest to a refused one.
pub(crate) fn suggestion(member: &dyn FileSystem, option: &str) -> Option<String> {
    let declared = member.options().iter().chain(&*COMMON);
    let spellings: Vec<String> = declared
        .clone()
        .flat_map(DeclaredOption::spellings)
        .collect();
    let near = nearest(option, spellings.iter().map(String::as_str));
    near.or_else(|| nearest(key(option), declared.map(|declared| declared.name)))
        .filter(|near| *near != option && *near != key(option))
        .map(str::to_owned)
}

/// The commands that make and mount a file system by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Makes it; the device follows. Empty if it needs no mkfs.
    pub mkfs: Vec<String>,
    /// Mounts it; device and mount point follow.
    pub mount: Vec<String>,
    pub home: Home,
}

/// Returns the recipe for a target on a device of `size` bytes that supports discard or does not. A
/// file system in memory may be filled up to `size`. A device gets the geometry of a disk of
/// `like_disk` bytes, if that is given.
pub fn recipe(
    spec: &FileSystemSpec,
    size: u64,
    can_discard: bool,
    like_disk: Option<u64>,
) -> Result<Recipe, TestbedError> {
    let member = of_target(spec)?;
    check(member, spec)?;
    if member.home() == Home::Nowhere {
        return Err(TestbedError::request(format!(
            "{} has no storage: nothing can mount it",
            spec.fs
        )));
    }
    if !member.by_hand(&spec.options).is_empty() {
        let what = format!("{}: no single command mounts it", spec.fs);
        return Err(TestbedError::request(what).advice(
            "run it with fsb run; fsb report --commands then prints the commands that mount it by hand",
        ));
    }
    if member.pooled().is_some() {
        let what = format!("{}: a script of fsb makes no pools", spec.fs);
        return Err(TestbedError::request(what)
            .advice("leave it out, or make and mount the pool and name its directory"));
    }
    if spec.is_encrypted() {
        let what = format!("{}: mount does not encrypt files", spec.fs);
        return Err(TestbedError::request(what).advice("leave out encrypt"));
    }
    let tools = member.tools().into_iter();
    let mkfs = tools.flat_map(|tools| tools.command(spec));
    let fitted = like_disk.map_or_else(Vec::new, |disk| {
        fit(
            member,
            large_disk(spec, disk).as_ref(),
            (size, disk),
            spec.mkfs_words(),
        )
    });
    let mut options = spec.options.clone();
    let decided = options
        .iter()
        .any(|option| matches!(option.split('=').next(), Some("discard" | "nodiscard")));
    options.extend(
        member
            .discard_off()
            .filter(|_| can_discard && !decided)
            .map(str::to_owned),
    );
    Ok(Recipe {
        mkfs: mkfs
            .map(str::to_owned)
            .chain(fitted)
            .chain(spec.mkfs_words().iter().cloned())
            .collect(),
        mount: member.mount_command(&options, size),
        home: member.home(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{REGISTRY, find};
    use super::*;

    fn refusal(target: &str) -> Option<String> {
        let target: fsb_model::Target = target.parse().unwrap();
        let spec = target.file_system().unwrap();
        check(find(&spec.fs).unwrap(), spec)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn options_of_other_file_systems_are_refused_by_name() {
        let text = refusal("ext4,compress=zstd").unwrap();
        assert!(
            text.contains("ext4 refuses the mount option 'compress=zstd'"),
            "{text}"
        );
        assert!(text.contains("'compress' is an option of btrfs"), "{text}");
        assert!(
            refusal("xfs,data=journal")
                .unwrap()
                .contains("'data' is an option of ext2, ext3, ext4")
        );
        assert!(
            refusal("btrfs,allocsize=64k")
                .unwrap()
                .contains("'allocsize' is an option of xfs")
        );
    }

    #[test]
    fn wrong_values_and_conflicts_are_refused() {
        for (target, said) in [
            ("ext4,data=jornal", "did you mean 'data=journal'?"),
            ("btrfs,compress=zst:3", "did you mean 'compress=zstd'?"),
            ("ext4,commit=often", "'often' is not a number"),
            (
                "xfs,allocsize",
                "'allocsize' needs a value: size from 4K to 1G",
            ),
            ("ext4,noatime=1", "'noatime' takes no value"),
            ("ext4,data=journal,delalloc", "not with data=journal"),
            ("xfs,tune=\"-j\"", "xfs takes no tune arguments"),
            ("btrfs,journal=loop", "btrfs has no external journal"),
            ("ext2,journal=loop", "ext2 has no external journal"),
            ("ext3,encrypt", "ext3 does not encrypt files"),
            (
                "xfs,encrypt",
                "'encrypt' is an option of ext2, ext3, ext4, f2fs",
            ),
            ("ntfs,encrypt", "ext4 and f2fs encrypt files"),
            ("ext4,encrypt=aes", "'encrypt' takes no value"),
            ("ext4,journal=loop,tune=\"-m 0\"", "takes no tune arguments"),
        ] {
            let text = refusal(target).unwrap_or_else(|| panic!("{target} is accepted"));
            assert!(text.contains(said), "{target}: {text}");
        }
    }

    #[test]
    fn declared_and_unknown_options_are_left_to_the_driver() {
        for target in [
            "ext4,noatime,data=journal,commit=60,stripe=16,some_new_option=7",
            "reiserfs,journal=\"/dev/sdc1\"",
            "btrfs,compress,discard=async,subvol=a",
            "btrfs,compress-force=zstd:-5",
            "xfs,logbsize=256k,inode64",
            "ext4,barrier,errors=remount-ro",
            "ext4,encrypt,inlinecrypt",
            "tmpfs,size=50%,huge=always",
            "ntfs,discard,big_writes",
        ] {
            assert_eq!(refusal(target), None, "{target}");
        }
    }

    #[test]
    fn choices_and_hazards_use_declared_options() {
        for member in REGISTRY
            .iter()
            .filter(|member| member.home() != Home::Nowhere)
        {
            for option in member.choices().iter().flat_map(|choice| choice.mount) {
                let all = [(*option).to_owned()];
                let known = member
                    .options()
                    .iter()
                    .chain(&*COMMON)
                    .any(|declared| declared.name == key(option));
                assert!(known, "{}: {option} is not declared", member.name());
                check_option(*member, option, &all).unwrap();
            }
        }
    }

    #[test]
    fn a_table_has_each_option_once() {
        for member in REGISTRY {
            let mut names = std::collections::BTreeSet::new();
            for option in member.options() {
                let (name, member) = (option.name, member.name());
                assert!(names.insert(name), "{member}: {name} twice");
            }
        }
    }

    fn recipe_of(text: &str, can_discard: bool) -> Result<Recipe, TestbedError> {
        let target: fsb_model::Target = text.parse().unwrap();
        recipe(target.file_system().unwrap(), 1 << 30, can_discard, None)
    }

    #[test]
    fn every_member_has_commands_or_needs_none() {
        for member in REGISTRY {
            let Ok(recipe) = recipe_of(member.example(), false) else {
                let is_never_made = member.home() == Home::Nowhere || member.pooled().is_some();
                let is_stacked = !member.by_hand(&[]).is_empty();
                assert!(is_never_made || is_stacked, "{}", member.name());
                continue;
            };
            assert_eq!(
                recipe.mkfs.first().map(String::as_str),
                member.tools().map(|tools| tools.mkfs)
            );
            assert!(!recipe.mount.is_empty(), "{}", member.name());
        }
    }

    #[test]
    fn the_users_options_follow_the_defaults() {
        let recipe = recipe_of("xfs,noatime,mkfs=\"-m crc=0\"", true).unwrap();
        assert_eq!(recipe.mkfs, ["mkfs.xfs", "-f", "-q", "-K", "-m", "crc=0"]);
        assert_eq!(recipe.mount, ["mount", "-t", "xfs", "-o", "noatime"]);
        let discards = |text, can| recipe_of(text, can).unwrap().mount.join(" ");
        assert_eq!(discards("btrfs", true), "mount -t btrfs -o nodiscard");
        assert_eq!(
            discards("btrfs,discard=async", true),
            "mount -t btrfs -o discard=async"
        );
        assert_eq!(discards("btrfs", false), "mount -t btrfs");
        assert_eq!(
            discards("tmpfs", false),
            "mount -t tmpfs -o size=1073741824"
        );
        assert!(recipe_of("ntfs", false).unwrap().mount[0].contains("ntfs-3g"));
        assert!(
            recipe_of("ext5", false)
                .unwrap_err()
                .to_string()
                .contains("did you mean")
        );
    }
}
