//! A file system over another one of the same target: the medium holds the file system beneath, and
//! the target is mounted over a directory of it.
//!
//! The option `over=` names the file system beneath, with its own mount options in double quotes:
//! `over=xfs`, `over="ext4,data=journal"`. The arguments `mkfs=` and `tune=` are those of the file
//! system beneath. It is mounted beside the mount point of the target, and unmounted with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::target::last_value;
use fsb_model::{FileSystemSpec, Medium, Target};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::mount as kernel;

use super::file_system::{Beneath, FileSystem, MountRequest};
use super::{bcachefs, btrfs, ext, f2fs, jfs, nilfs2, ntfs, other, reiserfs, xfs};

/// The option that names the file system beneath.
pub(super) const OVER: &str = "over";

/// The directory of the file system beneath that holds the files of the target.
const DATA: &str = "data";

/// The members that the kernel mounts from one device. A FUSE server, a network client or an
/// overlay beneath would be a second thing under test.
pub(super) static HOLDERS: [&dyn FileSystem; 14] = [
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
    &ntfs::Ntfs3,
    &other::MINIX,
    &other::VFAT,
    &other::EXFAT,
];

/// The file system beneath a target that names none.
pub(super) static USUAL: Beneath = Beneath {
    member: &ext::EXT4,
    options: &[],
};

impl Beneath {
    /// Returns the file system that the last `over=` among these options names. Returns `None`
    /// without that option. Lives as long as the program, so callers keep the result.
    ///
    /// # Errors
    ///
    /// Fails if its value is not a file system that the kernel mounts from a device.
    pub(super) fn from_options(options: &[String]) -> Result<Option<Beneath>, TestbedError> {
        let Some(value) = last_value(options, OVER) else {
            return Ok(None);
        };
        let refused = |why: String| {
            TestbedError::request(format!("the option '{OVER}={value}' is refused"))
                .coded(&fsb_model::error::UNKNOWN_OPTION)
                .field("option", format!("{OVER}={value}"))
                .tried(why)
                .advice("name a file system that the kernel mounts from a device, such as over=xfs or over=\"ext4,data=journal\"")
        };
        let text = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(value);
        let target: Target = text.parse().map_err(|error| refused(format!("{error}")))?;
        let Some(spec) = target.file_system() else {
            return Err(refused("it is a directory".to_owned()));
        };
        let holder = HOLDERS.iter().find(|holder| holder.name() == spec.fs);
        let Some(member) = holder.copied() else {
            return Err(refused(format!(
                "{} is not mounted by the kernel from a device",
                spec.fs
            )));
        };
        let options = FileSystemSpec {
            options: Vec::new(),
            ..spec.clone()
        };
        if !options.is_default() || options.medium != Medium::default() {
            return Err(refused(
                "arguments of mkfs and the medium belong to the target itself".to_owned(),
            ));
        }
        if spec.is_encrypted() {
            return Err(refused("files over it are not encrypted".to_owned()));
        }
        Ok(Some(Beneath {
            member,
            options: spec.options.clone().leak(),
        }))
    }

    /// Mounts it beside the mount point of `request`, with `discard_off` if the request has that
    /// option. Returns its mount point and the directory for the files of the target.
    pub(super) fn mount(
        &self,
        request: &MountRequest<'_>,
    ) -> Result<(PathBuf, PathBuf), TestbedError> {
        let point = point_beneath(request.point);
        let failed = |verb, path: &Path, error: &std::io::Error| {
            TestbedError::trial("the file system beneath could not be set up")
                .tried(attempt(verb, path, error))
        };
        std::fs::create_dir_all(&point).map_err(|error| failed("make", &point, &error))?;
        let mut options = self.options.to_vec();
        let discard_off = self.member.discard_off();
        options.extend(
            request
                .options
                .iter()
                .filter(|option| Some(option.as_str()) == discard_off)
                .cloned(),
        );
        self.member.mount(&MountRequest {
            point: &point,
            options: &options,
            ..*request
        })?;
        let directory = point.join(DATA);
        if let Err(error) = std::fs::create_dir_all(&directory) {
            let _ = unmount(&point);
            return Err(failed("make", &directory, &error));
        }
        Ok((point, directory))
    }
}

/// Returns the mount point of the file system beneath a target that is mounted at `point`.
pub(super) fn point_beneath(point: &Path) -> PathBuf {
    let mut beneath = point.to_owned();
    beneath.add_extension("beneath");
    beneath
}

/// Returns the directory for the files of a target that is mounted at `point`, while the file
/// system beneath is mounted.
pub(super) fn directory_beneath(point: &Path) -> PathBuf {
    point_beneath(point).join(DATA)
}

/// Unmounts a file system beneath and removes its mount point.
pub(crate) fn unmount(point: &Path) -> Result<Option<String>, TestbedError> {
    /// The time limit while processes on it still end.
    const PATIENCE: Duration = Duration::from_secs(10);
    let unmounted = kernel::unmount_patiently(point, PATIENCE);
    // An empty directory on fsb's tmpfs.
    let _ = std::fs::remove_dir(point);
    unmounted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(option: &str) -> Result<Option<Beneath>, TestbedError> {
        Beneath::from_options(&["noatime".to_owned(), option.to_owned()])
    }

    #[test]
    fn over_names_a_file_system_with_its_options() {
        assert!(named("x=xfs").unwrap().is_none());
        let xfs = named("over=xfs").unwrap().unwrap();
        assert_eq!((xfs.member.name(), xfs.options.len()), ("xfs", 0));
        let ext4 = named(r#"over="ext4,data=journal,noatime""#)
            .unwrap()
            .unwrap();
        assert_eq!(ext4.member.name(), "ext4");
        assert_eq!(ext4.options, ["data=journal", "noatime"]);
    }

    #[test]
    fn over_refuses_what_no_device_holds() {
        for option in [
            "over=tmpfs",
            "over=null",
            "over=nfs",
            "over=ntfs",
            "over=bindfs",
            "over=overlay",
            "over=squashfs",
            r#"over="ext4,encrypt""#,
            "over=/srv",
            "over=",
            "over=ext5",
            "over=ext4@ram",
        ] {
            assert!(named(option).is_err(), "{option}");
        }
    }
}
