//! The geometry that a mkfs command gives a large disk.
//!
//! mkfs programs choose block size, number of inodes, journal and profiles by the size of the
//! device, and the slices of a benchmark are small. On less than 512 MiB, mke2fs makes blocks of 1
//! KiB, which reverses the ranking of two file systems. The mkfs program therefore first formats a
//! sparse file of the size of a large disk in memory, and its own tools read the result. So fsb
//! needs no table of defaults, which could be older than the tools or the administrator's
//! mke2fs.conf. The file system then converts the geometry into arguments for its slice
//! ([`FileSystem::fit`]).

use std::os::fd::AsRawFd;
use std::path::PathBuf;

use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::program;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::file_system::{FileSystem, Inspection};
use super::{foreign, of_target};

/// Returns the geometry that the target's mkfs command gives a disk of `bytes` bytes. Returns
/// `None` if the file system needs no mkfs, if the program is missing or fails, and for arguments
/// that name other devices or files.
///
/// The tested mkfs programs (e2fsprogs, xfsprogs, btrfs-progs, f2fs-tools, jfsutils, reiserfsprogs,
/// ntfs-3g, dosfstools, exfatprogs) take 0.01 to 0.2 s and up to 140 MiB of memory, which is free
/// again afterwards.
pub fn large_disk(spec: &FileSystemSpec, bytes: u64) -> Option<Geometry> {
    let member = of_target(spec).ok()?;
    foreign::check(spec).ok()?;
    let named = spec.mkfs_program();
    made_on(member, named, &spec.mkfs_arguments(), bytes)
        .map(|made| made.geometry)
        .filter(|geometry| *geometry != Geometry::default())
}

/// Runs the member's mkfs program, or the one that is named, with these arguments on a sparse file
/// of `bytes` in memory.
fn made_on(
    member: &dyn FileSystem,
    named: Option<&str>,
    arguments: &[String],
    bytes: u64,
) -> Option<Inspection> {
    // Only the kernel makes a pool, and only on a device.
    let tools = member.tools().filter(|_| member.pooled().is_none())?;
    let mkfs = program::find(named.unwrap_or(tools.mkfs))?;
    let file = memfd_create("fsb-large-disk", MemfdFlags::CLOEXEC).ok()?;
    ftruncate(&file, bytes).ok()?;
    // The programs run while the descriptor is open here.
    let path = PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        file.as_raw_fd()
    ));
    let shown = path.to_string_lossy().into_owned();
    let words = tools
        .arguments
        .iter()
        .map(|word| (*word).to_owned())
        .chain(arguments.iter().cloned())
        .chain([shown]);
    let output = program::run(&mkfs, &words.collect::<Vec<_>>()).ok()?;
    output.status.success().then(|| member.inspect(&path))
}

/// Returns the mkfs arguments, before the user's, that give a slice of `bytes` the geometry of a
/// large disk of `disk` bytes. Returns none for a slice that is as large, or if that geometry is
/// unknown.
pub(crate) fn fit(
    member: &dyn FileSystem,
    large: Option<&Geometry>,
    (bytes, disk): (u64, u64),
    user: &[String],
) -> Vec<String> {
    let large = large.filter(|_| bytes < disk);
    large.map_or_else(Vec::new, |large| member.fit(large, bytes, user))
}

#[cfg(test)]
mod tests {
    use fsb_model::geometry::LARGE_DISK;

    use super::*;
    use crate::fs::file_system::journal_for;
    use crate::fs::{REGISTRY, find};

    const SLICES: [u64; 7] = [
        300 << 20,
        397 << 20,
        496 << 20,
        661 << 20,
        1 << 30,
        2 << 30,
        20 << 30,
    ];

    /// Returns the file systems whose programs are installed, with the geometry of a large disk.
    fn here() -> Vec<(&'static dyn FileSystem, Inspection)> {
        let found = REGISTRY
            .iter()
            .filter(|member| member.tools().is_some())
            .filter_map(|member| {
                let made = made_on(*member, None, &[], LARGE_DISK);
                if made.is_none() {
                    fsb_testkit::left_out(
                        &format!("geometry of {}", member.name()),
                        "its mkfs program makes no large disk here",
                    );
                }
                Some((*member, made?))
            });
        found.collect()
    }

    #[test]
    fn every_slice_gets_the_geometry_of_a_large_disk() {
        for (member, large) in here() {
            for bytes in SLICES {
                let arguments = fit(member, Some(&large.geometry), (bytes, LARGE_DISK), &[]);
                let name = format!(
                    "{} on {} MiB with {arguments:?}",
                    member.name(),
                    bytes >> 20
                );
                let made = made_on(member, None, &arguments, bytes)
                    .unwrap_or_else(|| panic!("{name} cannot be made"));
                assert_eq!(made.features, large.features, "{name}");
                let choices: Vec<_> = made
                    .geometry
                    .differences(&large.geometry)
                    .into_iter()
                    .filter(|found| found.is_a_choice())
                    .collect();
                assert!(choices.is_empty(), "{name}: {choices:?}");
                if let Some((found, large)) = made
                    .geometry
                    .journal_bytes
                    .zip(large.geometry.journal_bytes)
                {
                    // mkfs.jfs refuses a tenth of the slice.
                    let least = journal_for(bytes, large).min(((bytes / 11) >> 20) << 20);
                    assert!(
                        (least..=large).contains(&found),
                        "{name}: a journal of {found} bytes"
                    );
                }
            }
        }
    }

    #[test]
    fn without_the_arguments_a_small_ext4_is_another_file_system() {
        let ext4 = find("ext4").unwrap();
        let Some(large) = made_on(ext4, None, &[], LARGE_DISK) else {
            return;
        };
        let small = made_on(ext4, None, &[], 496 << 20).unwrap();
        assert!(
            small
                .geometry
                .differences(&large.geometry)
                .iter()
                .any(|difference| difference.is_a_choice())
        );
    }

    #[test]
    fn the_users_geometry_is_kept_on_slice_and_large_disk() {
        for text in [
            "ext4,mkfs=\"-b 1024\"",
            "ext4,mkfs=\"-T largefile -J size=8\"",
            "ext4,mkfs=\"-O ^has_journal\"",
            "xfs,mkfs=\"-l size=128m -i size=1024\"",
            "btrfs,mkfs=\"-m single -n 4096\"",
        ] {
            let target: fsb_model::Target = text.parse().unwrap();
            let spec = target.file_system().unwrap();
            let member = find(&spec.fs).unwrap();
            let Some(large) = large_disk(spec, LARGE_DISK) else {
                continue;
            };
            let arguments = [
                fit(member, Some(&large), (1 << 30, LARGE_DISK), &spec.mkfs),
                spec.mkfs.clone(),
            ]
            .concat();
            let made = made_on(member, None, &arguments, 1 << 30)
                .unwrap_or_else(|| panic!("{text}: {arguments:?}"));
            let differences = made.geometry.differences(&large);
            assert!(
                !differences
                    .iter()
                    .any(|difference| difference.is_a_choice()),
                "{text}: {differences:?}"
            );
        }
    }

    #[test]
    fn nothing_is_made_for_what_needs_no_mkfs_or_names_other_devices() {
        for text in [
            "null",
            "tmpfs",
            "ext4,mkfs=\"-J device=/dev/null\"",
            "ext4,mkfs=\"--no-such-option\"",
        ] {
            let target: fsb_model::Target = text.parse().unwrap();
            assert_eq!(
                large_disk(target.file_system().unwrap(), LARGE_DISK),
                None,
                "{text}"
            );
        }
        assert!(
            fit(
                find("ext4").unwrap(),
                Some(&Geometry {
                    block_size: Some(4096),
                    ..Geometry::default()
                }),
                (LARGE_DISK, LARGE_DISK),
                &[]
            )
            .is_empty()
        );
    }
}
