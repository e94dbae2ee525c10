//! A block device and everything beneath it.

use std::collections::BTreeMap;
use std::path::Path;

use fsb_model::host::DeviceManifest;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::mountinfo::Mount;
use fsb_sys::{Roots, mountinfo, read_trimmed};

use crate::fs;

/// Stacks deeper than this are a loop in the tree.
const DEPTH: u32 = 8;

/// The files of `queue` that affect performance.
const QUEUE: [&str; 19] = [
    "scheduler",
    "rotational",
    "write_cache",
    "fua",
    "nr_requests",
    "read_ahead_kb",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "discard_granularity",
    "discard_max_bytes",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "io_poll",
    "iostats",
];

/// Returns the device of that number (major, minor), with the devices beneath it down to the disks.
pub(crate) fn device_manifest(roots: &Roots, number: (u32, u32)) -> DeviceManifest {
    match DeviceNumber(number.0, number.1).directory(roots) {
        Some(directory) => of_directory(&directory, DEPTH),
        None => DeviceManifest { name: format!("{}:{}", number.0, number.1), ..DeviceManifest::default() },
    }
}

fn of_directory(directory: &Path, depth: u32) -> DeviceManifest {
    let text = |file: &str| read_trimmed(&directory.join(file));
    let first = |files: &[&str]| files.iter().find_map(|file| text(file));
    let queue = QUEUE.iter().filter_map(|name| Some(((*name).to_owned(), text(&format!("queue/{name}"))?)));
    let backing_file = text("loop/backing_file");
    let mut beneath = Vec::new();
    if depth > 0 {
        if text("partition").is_some() {
            beneath.extend(directory.parent().map(|disk| of_directory(disk, depth - 1)));
        }
        let members = std::fs::read_dir(directory.join("slaves")).into_iter().flatten();
        let mut members: Vec<_> = members.filter_map(|entry| entry.ok()?.path().canonicalize().ok()).collect();
        members.retain(|member| member.is_dir());
        members.sort();
        beneath.extend(members.iter().map(|member| of_directory(member, depth - 1)));
    }
    DeviceManifest {
        name: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        model: first(&["device/model", "dm/name", "md/level"]),
        serial: first(&["serial", "device/serial", "wwid", "device/wwid", "dm/uuid", "md/uuid"]),
        size_bytes: block::size(directory).unwrap_or(0),
        partition_start: text("start").and_then(|number| number.parse().ok()),
        queue: queue.collect::<BTreeMap<_, _>>(),
        backing: backing_file.map(|file| backing_of(&file)),
        beneath,
    }
}

/// Returns the file behind a loop device, with the file system that holds it.
fn backing_of(file: &str) -> String {
    match mountinfo::holding(&mountinfo::read(), Path::new(file)) {
        Some(mount) => format!("{file}, {} on {}", mount.kind, mount.source.display()),
        None => file.to_owned(),
    }
}

/// Returns the block device under a mount. `st_dev` names it, except on file systems that number their volumes
/// themselves.
pub(crate) fn device_of_mount(mount: &Mount) -> Option<DeviceNumber> {
    let number = DeviceNumber(mount.device.0, mount.device.1);
    if number.directory(&Roots::default()).is_some() {
        return Some(number);
    }
    // The sources of overlays and network file systems are not devices.
    if fs::of_mount(mount).is_some_and(|member| member.numbers_volumes()) {
        block::number_of(&mount.source)
    } else {
        None
    }
}
