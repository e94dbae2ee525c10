//! The risks of targets, mounts and devices: which hazards they have.

use fsb_model::FileSystemSpec;
use fsb_model::run::Risk;
use fsb_sys::mountinfo::Mount;
use fsb_sys::{Roots, program};

use super::file_system::{Cause, Choice, Features, FileSystem, Hazard, UNFLUSHED};
use super::{of_mount, of_target};

fn risks(member: &dyn FileSystem, options: &[String], features: &Features<'_>) -> Vec<Risk> {
    let beneath = member
        .beneath()
        .map_or(&[][..], |beneath| beneath.member.hazards());
    member
        .hazards()
        .iter()
        .chain(beneath)
        .filter_map(|hazard: &Hazard| {
            let cause = hazard.found_in(options, features)?;
            Some(Risk {
                cause,
                loss: hazard.loss.to_owned(),
            })
        })
        .collect()
}

/// Returns the risks of a requested target.
pub fn requested_risks(spec: &FileSystemSpec) -> Vec<Risk> {
    of_target(spec).map_or_else(
        |_| Vec::new(),
        |member| risks(member, &options(member, spec), &features(spec, None)),
    )
}

/// Returns the mount options of a target and those of the file system beneath it.
fn options(member: &dyn FileSystem, spec: &FileSystemSpec) -> Vec<String> {
    let beneath = member.beneath().map_or(&[][..], |beneath| beneath.options);
    [&spec.options, beneath].concat()
}

/// Returns the features that a target requests, and those that it has, if they are known.
fn features<'a>(spec: &'a FileSystemSpec, made: Option<&'a [String]>) -> Features<'a> {
    let mut requested = vec![spec.mkfs.as_slice()];
    requested.extend(spec.tune.iter().map(Vec::as_slice));
    Features { requested, made }
}

/// Returns the risk of a choice: its own, or the first hazard that it causes.
pub fn risk_of_choice(member: &dyn FileSystem, choice: &Choice) -> Option<String> {
    fn owned(words: &[&str]) -> Vec<String> {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    }
    // A hazard of the format exists with every option.
    let mkfs = owned(choice.mkfs);
    let features = Features {
        requested: vec![&mkfs],
        made: None,
    };
    let found = risks(member, &owned(choice.mount), &features);
    choice.risk.map(str::to_owned).or_else(|| {
        found
            .into_iter()
            .find(|risk| !is_of_format(member, risk))
            .map(|risk| risk.loss)
    })
}

fn is_of_format(member: &dyn FileSystem, risk: &Risk) -> bool {
    let is_format = |cause| match cause {
        Cause::Format(words) | Cause::Lacks(_, words) => words == risk.cause,
        Cause::Options(_) | Cause::Without(_) => false,
    };
    member
        .hazards()
        .iter()
        .any(|hazard| is_format(hazard.cause))
}

/// Returns the risks of a mounted target: from the request, from the options that the kernel shows,
/// and from the features that mkfs made, if they are known.
pub(crate) fn risks_found(
    member: &dyn FileSystem,
    spec: &FileSystemSpec,
    shown: &[String],
    made: Option<&[String]>,
) -> Vec<Risk> {
    let options = [&options(member, spec), shown].concat();
    let mut found = risks(member, &options, &features(spec, made));
    if member.pooled().is_some() {
        found.extend(unflushed_pools(&Roots::default()));
    }
    found
}

/// Returns the risk of a parameter of the module of ZFS, with which no pool flushes its devices.
fn unflushed_pools(roots: &Roots) -> Option<Risk> {
    let value = roots.sys_text("module/zfs/parameters/zfs_nocacheflush")?;
    (value.trim() == "1").then(|| Risk {
        cause: "zfs_nocacheflush=1".to_owned(),
        loss: UNFLUSHED.to_owned(),
    })
}

/// Returns the risks of an existing mount: from its options, and for ZFS from its property `sync`
/// and the parameters of the module.
pub(crate) fn risks_of_mount(mount: &Mount) -> Vec<Risk> {
    let options = mount.all_options();
    let mut found = of_mount(mount).map_or_else(Vec::new, |member| {
        risks(member, &options, &Features::default())
    });
    if mount.kind == "zfs" {
        found.extend(unflushed_pools(&Roots::default()));
        let arguments = ["get", "-H", "-o", "value", "sync"].map(AsRef::as_ref);
        let value = program::ask(
            "zfs",
            &[&arguments[..], &[mount.source.as_os_str()]].concat(),
        );
        let disabled = value.is_some_and(|value| value.trim() == "disabled");
        found.extend(disabled.then(|| Risk {
            cause: "sync=disabled".to_owned(),
            loss: UNFLUSHED.to_owned(),
        }));
    }
    found
}

/// Returns the risk of a network file system that a client cannot see. Returns `None` for a local
/// one.
pub(crate) fn unseen_risk(mount: &Mount) -> Option<&'static str> {
    mount.kind.starts_with("nfs").then_some(
        "the server may export it async, which a client cannot see: then a crash of the server may lose synced data",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(text: &str) -> Vec<String> {
        let target: fsb_model::Target = text.parse().unwrap();
        requested_risks(target.file_system().unwrap())
            .into_iter()
            .map(|risk| risk.cause)
            .collect()
    }

    #[test]
    fn options_that_weaken_durability_are_recognised() {
        for (target, cause) in [
            ("ext4,barrier=0", "barrier=0"),
            ("overlay,over=\"ext4,nobarrier\"", "nobarrier"),
            ("bindfs,over=\"ext4,nobarrier\"", "nobarrier"),
            ("ext4,noatime,nobarrier", "nobarrier"),
            ("ext3,data=writeback", "data=writeback"),
            ("ext4,mkfs=\"-O ^has_journal\"", "without has_journal"),
            (
                "ext4,mkfs=\"-O fast_commit,^has_journal\"",
                "without has_journal",
            ),
            ("ext4,mkfs=\"-O^has_journal\"", "without has_journal"),
            ("ext3,tune=\"-O ^has_journal\"", "without has_journal"),
            ("xfs,nobarrier", "nobarrier"),
            ("btrfs,nobarrier", "nobarrier"),
            ("f2fs,fsync_mode=nobarrier", "fsync_mode=nobarrier"),
            ("jfs,nointegrity", "nointegrity"),
            ("nilfs2,nobarrier", "nobarrier"),
            ("reiserfs,barrier=none", "barrier=none"),
            ("zfs,recordsize=16k,sync=disabled", "sync=disabled"),
            ("bcachefs,journal_flush_disabled", "journal_flush_disabled"),
            ("ext4,mkfs=\"-O none\"", "without has_journal"),
            (
                "ext3,tune=\"-j\",tune=\"mounted -O ^has_journal\"",
                "without has_journal",
            ),
            ("ext2", "no journal"),
            ("ext2,tune=\"-L -O\"", "no journal"),
            ("ext2,tune=\"-j\",tune=\"-O ^has_journal\"", "no journal"),
            ("vfat", "no journal"),
            ("null,unsafe", "unsafe"),
        ] {
            assert_eq!(requested(target), [cause], "{target}");
        }
    }

    #[test]
    fn pools_are_unsafe_while_the_module_flushes_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert_eq!(unflushed_pools(&roots), None);
        let place = tree.path().join("module/zfs/parameters");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("zfs_nocacheflush"), "0\n").unwrap();
        assert_eq!(unflushed_pools(&roots), None);
        std::fs::write(place.join("zfs_nocacheflush"), "1\n").unwrap();
        let found = unflushed_pools(&roots).unwrap();
        assert_eq!(found.cause, "zfs_nocacheflush=1");
    }

    #[test]
    fn defaults_and_harmless_options_are_safe() {
        for target in [
            "ext4",
            "ext4,barrier=1",
            "ext4,commit=60",
            "xfs",
            "btrfs,nodatacow",
            "zfs,sync=always,logbias=throughput",
            "bcachefs,nocow",
            "f2fs",
            "tmpfs",
            "null",
        ] {
            assert!(requested(target).is_empty(), "{target}");
        }
        for journal in ["-j", "-O has_journal"] {
            let converted = format!("ext3,tune=\"-O ^has_journal\",tune=\"{journal}\"");
            assert!(requested(&converted).is_empty(), "{converted}");
        }
        for journal in [
            "tune=\"mounted -j\"",
            "tune=\"-j\"",
            "tune=\"-J size=4\"",
            "tune=\"-O has_journal\"",
            "mkfs=\"-j\"",
            "mkfs=\"-J size=4\"",
            "mkfs=\"-O none,has_journal\"",
        ] {
            let converted = format!("ext2,{journal}");
            assert!(requested(&converted).is_empty(), "{converted}");
        }
    }

    #[test]
    fn each_risk_shown_by_the_kernel_is_recognised_once() {
        let target: fsb_model::Target = "ext4,barrier=0".parse().unwrap();
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let spec = target.file_system().unwrap();
        let ext4 = super::super::find("ext4").unwrap();
        let found = risks_found(
            ext4,
            spec,
            &words(&["rw", "nobarrier"]),
            Some(&words(&["extent"])),
        );
        let causes: Vec<_> = found.iter().map(|risk| risk.cause.as_str()).collect();
        assert_eq!(causes, ["barrier=0", "without has_journal"]);
        assert!(
            risks_found(ext4, spec, &[], None).len() == 1,
            "features that are unknown are not missing"
        );
        // The driver of ext2 ignores the journal, and the file system has no other feature.
        let target: fsb_model::Target = "ext2,mkfs=\"-O none,has_journal\"".parse().unwrap();
        let (spec, ext2) = (target.file_system().unwrap(), super::super::find("ext2"));
        let ext2 = ext2.unwrap();
        assert!(risks_found(ext2, spec, &[], None).is_empty());
        let found = risks_found(ext2, spec, &[], Some(&[]));
        assert_eq!(found[0].cause, "no journal");
    }
}
