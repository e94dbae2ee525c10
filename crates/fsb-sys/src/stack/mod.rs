//! Who uses a block device: not it alone, but all that stands above it, beside it and, for loop devices, beneath it.
//! The kernel's own claim (O_EXCL) covers mounts, swap and arrays; it knows nothing of loop devices, of other paths to
//! the same disk, and of processes such as a virtual machine that has the device for its disk.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::block::{self, DeviceNumber};
use super::mountinfo::{self, Mount};
use super::{Roots, loopdev, read_trimmed, swap};

/// What was found about a device.
#[derive(Debug, Default)]
pub struct Stack {
    /// Devices whose content is that of the device, in whole or in part, with their names.
    pub shares: Vec<(DeviceNumber, String)>,
    /// How the kernel uses them: `sdb1 is mounted at /srv`.
    pub uses: Vec<String>,
}

/// Looks at the device of that number. `roots` must show the whole machine.
pub fn look(number: DeviceNumber, roots: &Roots) -> Stack {
    let mut look = Look {
        roots,
        mounts: mountinfo::read_everywhere(roots),
        swaps: swap::active(roots),
        seen: BTreeSet::new(),
        found: Stack::default(),
    };
    if let Some(directory) = number.directory(roots) {
        look.device(&directory);
    }
    look.found
}

struct Look<'a> {
    roots: &'a Roots,
    mounts: Vec<Mount>,
    swaps: Vec<swap::SwapArea>,
    /// Directories below /sys.
    seen: BTreeSet<PathBuf>,
    found: Stack,
}

impl Look<'_> {
    /// The device, whatever else is the same disk or part of it, and what it is a window on.
    fn device(&mut self, directory: &Path) {
        self.above(directory);
        let disk = block::whole_disk(directory);
        if disk != directory {
            // The disk as a whole, for the partition's bytes are its; but not the neighbours.
            self.alone(&disk);
        }
        let partition = read_trimmed(&directory.join("partition"));
        for other in self.other_paths(&disk) {
            let name = name_of(&other);
            let same = match &partition {
                Some(number) => partitions(&other)
                    .into_iter()
                    .find(|own| read_trimmed(&own.join("partition")).as_ref() == Some(number)),
                None => Some(other.clone()),
            };
            let before = self.found.uses.len();
            if let Some(same) = same {
                self.above(&same);
            }
            // As a whole, where only a partition of it is looked at.
            self.alone(&other);
            for text in &mut self.found.uses[before..] {
                text.push_str(&format!(" ({name} is the same disk by another path)"));
            }
        }
        self.beneath_loop(directory);
    }

    /// The device itself, its partitions, and everything above them.
    fn above(&mut self, directory: &Path) {
        if !self.alone(directory) {
            return;
        }
        for partition in partitions(directory) {
            self.above(&partition);
        }
        let holders = entries(&directory.join("holders")).into_iter().filter_map(|holder| holder.canonicalize().ok());
        for above in holders.chain(self.loops_on(directory)) {
            self.above(&above);
        }
    }

    /// One device and who uses it directly; whether it was not looked at before.
    fn alone(&mut self, directory: &Path) -> bool {
        if !self.seen.insert(directory.to_owned()) {
            return false;
        }
        let name = name_of(directory);
        let number = block::number_in(directory);
        self.found.shares.extend(number.map(|number| (number, name.clone())));
        let is_it = |path: &Path| {
            path == Path::new("/dev").join(&name)
                || (path.is_absolute() && number.is_some() && block::number_of(path) == number)
        };
        for mount in &self.mounts {
            // btrfs numbers its volumes itself.
            if number == Some(DeviceNumber(mount.device.0, mount.device.1)) || is_it(&mount.source) {
                self.found.uses.push(format!("{name} is mounted at {}", mount.point.display()));
                break;
            }
        }
        if self.swaps.iter().any(|area| is_it(&area.path)) {
            self.found.uses.push(format!("{name} is swap space"));
        }
        if directory.join("bcache").exists() {
            self.found.uses.push(format!("{name} belongs to a bcache"));
        }
        // Only what is mounted is here; a mount names one device of several.
        let mut volumes = entries(&self.roots.sys.join("fs/btrfs")).into_iter();
        let mounted = self.found.uses.iter().any(|text| text.starts_with(&format!("{name} is mounted")));
        if !mounted && volumes.any(|volume| volume.join("devices").join(&name).exists()) {
            self.found.uses.push(format!("{name} belongs to a mounted btrfs"));
        }
        for holder in entries(&directory.join("holders")) {
            self.found.uses.push(format!("{name} is {}", role_of(&holder)));
        }
        for looped in self.loops_on(directory) {
            self.found.uses.push(format!("{} is attached to {name}", name_of(&looped)));
        }
        true
    }

    /// Loop devices that show the bytes of this one.
    fn loops_on(&self, directory: &Path) -> Vec<PathBuf> {
        let number = block::number_in(directory);
        let path = Path::new("/dev").join(name_of(directory));
        let on_it = |backing: &loopdev::Backing| match (backing.device, backing.file) {
            (Some(device), _) => Some(device) == number,
            (None, Some(_)) => false,
            (None, None) => backing.path == path,
        };
        self.loops().into_iter().filter(|(_, backing)| on_it(backing)).map(|(looped, _)| looped).collect()
    }

    /// What a loop device shows must not be in use elsewhere: the device behind it, or its file through another one.
    fn beneath_loop(&mut self, directory: &Path) {
        let Some(own) = loopdev::backing(directory) else { return };
        match own.device {
            Some(number) => {
                if let Some(beneath) = number.directory(self.roots) {
                    self.device(&beneath);
                }
                // That it stands on it is no use by somebody else.
                let itself = format!("{} is attached to ", name_of(directory));
                self.found.uses.retain(|text| !text.starts_with(&itself));
            }
            None => {
                for (looped, other) in self.loops() {
                    let same = match (own.file, other.file) {
                        (Some(own), Some(other)) => own == other,
                        _ => own.path == other.path,
                    };
                    if same && looped != directory {
                        self.above(&looped);
                    }
                }
            }
        }
    }

    fn loops(&self) -> Vec<(PathBuf, loopdev::Backing)> {
        let disks = entries(&self.roots.sys.join("block")).into_iter().filter_map(|disk| disk.canonicalize().ok());
        let loops = disks.filter(|disk| disk.join("loop").is_dir());
        loops.filter_map(|disk| loopdev::backing(&disk).map(|backing| (disk, backing))).collect()
    }

    /// Other disks with the world-wide name of this one: paths that no multipath device joins, or that one does.
    fn other_paths(&self, disk: &Path) -> Vec<PathBuf> {
        let Some(own) = world_wide_name(disk) else { return Vec::new() };
        let disks = entries(&self.roots.sys.join("block")).into_iter().filter_map(|other| other.canonicalize().ok());
        disks.filter(|other| other != disk && world_wide_name(other).as_ref() == Some(&own)).collect()
    }
}

fn world_wide_name(disk: &Path) -> Option<String> {
    ["wwid", "device/wwid"].iter().find_map(|file| read_trimmed(&disk.join(file)))
}

fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn partitions(disk: &Path) -> Vec<PathBuf> {
    entries(disk).into_iter().filter(|path| path.join("partition").exists()).collect()
}

/// `a path of the multipath device mpatha (dm-0)`.
fn role_of(holder: &Path) -> String {
    let name = name_of(holder);
    let text = |file: &str| read_trimmed(&holder.join(file));
    if let Some(uuid) = text("dm/uuid").or_else(|| text("dm/name")) {
        let kind = match uuid.split('-').next().unwrap_or_default() {
            "mpath" => "a path of the multipath device",
            "LVM" => "under the LVM volume",
            "CRYPT" => "under the encrypted device",
            _ => "under the device-mapper device",
        };
        return format!("{kind} {} ({name})", text("dm/name").unwrap_or_default());
    }
    if name.starts_with("md") {
        return format!("a member of the array {name}");
    }
    if name.starts_with("bcache") { format!("the backing device of {name}") } else { format!("part of {name}") }
}

/// Returns the ids of processes that have one of the devices open, this one excepted, each with
/// `qemu-system-x86 (process 4711) has sdb open`. Only root sees the processes of others.
pub fn openers(devices: &[(DeviceNumber, String)], roots: &Roots) -> Vec<(u32, String)> {
    let own = std::fs::read_link(roots.proc.join("self")).ok();
    let own = own.map_or_else(|| std::process::id().to_string(), |own| own.to_string_lossy().into_owned());
    let mut found = Vec::new();
    for process in entries(&roots.proc) {
        let id = name_of(&process);
        let Some(number) = id.parse().ok().filter(|_| id != own) else { continue };
        let open = entries(&process.join("fd")).into_iter().find_map(|fd| {
            let metadata = std::fs::metadata(fd).ok()?;
            let number = DeviceNumber::from_raw(metadata.rdev());
            metadata.file_type().is_block_device().then(|| devices.iter().find(|(known, _)| *known == number))?
        });
        if let Some((_, name)) = open {
            let command = read_trimmed(&process.join("comm")).unwrap_or_default();
            found.push((number, format!("{command} (process {id}) has {name} open")));
        }
    }
    found
}

#[cfg(test)]
mod tests;
