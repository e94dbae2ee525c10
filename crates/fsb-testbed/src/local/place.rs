//! The devices of targets, as far as controls act on them.

use std::path::Path;

use fsb_model::{Target, TargetKind};
use fsb_sys::{Roots, block, mountinfo};

use crate::control::TargetDevice;
use crate::fs::{self, Home};
use crate::host;

fn none(why: &str) -> TargetDevice {
    TargetDevice { why_none: why.to_owned(), ..TargetDevice::default() }
}

/// Returns the device of a target before anything is made. The loop device of an image does not exist yet.
pub(super) fn of_target(target: &Target) -> TargetDevice {
    match &target.kind {
        TargetKind::Directory(path) => of_directory(path),
        TargetKind::FileSystem(spec) => match fs::find(&spec.fs).map(|member| member.home()) {
            Ok(Home::Device) => match spec.medium.argument.as_deref() {
                Some(path) if spec.medium.name == "device" => of_device(Path::new(path)),
                _ => TargetDevice { is_image: true, ..none("the image is not attached yet") },
            },
            _ => none(&format!("{} has no device", spec.fs)),
        },
    }
}

/// Returns the device itself, or the disk that it is a partition of.
pub(super) fn of_device(path: &Path) -> TargetDevice {
    let roots = Roots::default();
    let Some(directory) = block::number_of(path).and_then(|number| number.directory(&roots)) else {
        return none("the device is not there");
    };
    let disk = block::whole_disk(&directory);
    let others = block::partitions_in_use(&disk, &directory);
    let shared_with = (!others.is_empty()).then(|| format!("{} in use", others.join(", ")));
    TargetDevice { device: Some(disk), shared_with, ..TargetDevice::default() }
}

/// Returns the disk under a directory, which holds the directory's whole file system.
pub(crate) fn of_directory(path: &Path) -> TargetDevice {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mount = mountinfo::holding(&mountinfo::read(), &path);
    let number = mount.as_ref().and_then(host::device_of_mount);
    match number.and_then(|number| number.directory(&Roots::default())) {
        Some(directory) => TargetDevice {
            device: Some(block::whole_disk(&directory)),
            shared_with: Some("the file system that the directory is on".to_owned()),
            ..TargetDevice::default()
        },
        None => none("the device under the directory is not known"),
    }
}
