//! I/O of the disk under the target that neither the target nor another ready target caused.

use std::path::{Path, PathBuf};

use fsb_sys::error::Refusal;
use fsb_sys::{Roots, block, mountinfo, read_trimmed};

use super::source::{Finish, Seen, Source, Watched};
use crate::{fs, host};

pub(super) struct OtherDeviceUse;

/// Bytes that the disk moved for others.
pub(super) const OTHERS: &str = "others_device_bytes";
/// Bytes that the target's device moved meanwhile, and those of other targets that are ready on the same disk.
pub(super) const OURS: &str = "target_device_bytes";
/// Cache flushes that these devices served meanwhile.
pub(super) const FLUSHES: &str = "target_device_flushes";
/// Bytes that the disk moved for others or for the file system that holds the image, which cannot be distinguished.
pub(super) const UNSURE: &str = "others_or_backing_device_bytes";

/// Stacks deeper than this are a loop in the tree.
const DEPTH: u32 = 8;

impl Source for OtherDeviceUse {
    fn name(&self) -> &'static str {
        "device"
    }

    fn about(&self) -> &'static str {
        "Bytes that the disk under the target read and wrote for other processes."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        let device = place.device.ok_or("the target has no device")?;
        bottom(place.roots, device).map(drop)
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let device = place.device?.to_owned();
        let bottom = bottom(place.roots, &device).ok()?;
        let mut own = on_the_same_disk(place, &device, &bottom);
        own.push(device);
        // The targets' counters are read before the disk's at both times.
        let (targets, disk) = (moved(&own)?, block::activity(&bottom.disk)?);
        Some(Box::new(move || {
            let (Some(disk_now), Some(targets_now)) = (block::activity(&bottom.disk), moved(&own)) else {
                return Seen::new();
            };
            let ours = targets_now.0.saturating_sub(targets.0);
            let flushed = targets_now.1.saturating_sub(targets.1);
            let others = bytes(&disk_now).saturating_sub(bytes(&disk)).saturating_sub(ours);
            let name = if bottom.in_place { OTHERS } else { UNSURE };
            let values = [(OURS, ours), (FLUSHES, flushed), (name, others)];
            values.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect()
        }))
    }
}

/// Returns the devices of other targets whose bytes the disk counts. Excludes the target's own device.
fn on_the_same_disk(place: &Watched<'_>, own: &Path, bottom: &Bottom) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = place.neighbours.iter().filter(|device| *device != own).cloned().collect();
    found.sort();
    found.dedup();
    found.retain(|device| self::bottom(place.roots, device).is_ok_and(|other| other.disk == bottom.disk));
    found
}

/// Returns bytes and flushes of all of them. Returns `None` if one of them has disappeared.
fn moved(devices: &[PathBuf]) -> Option<(u64, u64)> {
    devices.iter().try_fold((0, 0), |sum, device| {
        let activity = block::activity(device)?;
        Some((sum.0 + bytes(&activity), sum.1 + activity.flushes))
    })
}

fn bytes(activity: &block::Activity) -> u64 {
    activity.read_bytes + activity.write_bytes
}

/// The disk at the bottom of a stack of devices.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bottom {
    /// Its directory below /sys.
    pub disk: PathBuf,
    /// Whether the layers in between overwrite blocks in place.
    pub in_place: bool,
}

/// Returns the one disk under a device. Fails if several disks serve it, or none, because the requests to each are then
/// unknown.
pub(crate) fn bottom(roots: &Roots, directory: &Path) -> Result<Bottom, Refusal> {
    let mut bottom = Bottom { disk: directory.to_owned(), in_place: true };
    for _ in 0..DEPTH {
        let text = |file: &str| read_trimmed(&bottom.disk.join(file));
        if text("partition").is_some() {
            bottom.disk.pop();
        } else if let Some(file) = text("loop/backing_file") {
            let mount = mountinfo::holding(&mountinfo::read(), Path::new(&file));
            let below = mount.as_ref().and_then(host::device_of_mount).and_then(|number| number.directory(roots));
            let (Some(mount), Some(below)) = (mount, below) else {
                return Err("the disk under the image is not known".into());
            };
            bottom.in_place &= fs::of_mount(&mount).is_some_and(|member| member.writes_in_place());
            bottom.disk = below;
        } else {
            match members(&bottom.disk)[..] {
                [] => return Ok(bottom),
                [ref only] => bottom.disk.clone_from(only),
                _ => return Err("several disks are under the target".into()),
            }
        }
    }
    Err("the devices under the target are stacked too deep".into())
}

fn members(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("slaves")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.path().canonicalize().ok()).filter(|path| path.is_dir()).collect()
}
