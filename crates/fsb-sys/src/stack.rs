//! Finds the users of a block device: of the device itself, of everything above and beside it and,
//! for loop devices, beneath it. The kernel's own claim (O_EXCL) covers mounts, swap and arrays. It
//! does not cover loop devices, other paths to the same disk, and processes such as a virtual
//! machine that uses the device as its disk.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::block::{self, DeviceNumber};
use crate::mountinfo::{self, Mount};
use crate::{Roots, loopdev, read_trimmed, swap};

/// The users found.
#[derive(Debug, Default)]
pub struct Stack {
    /// Devices that share content with the device, in whole or in part, with their names.
    pub shares: Vec<(DeviceNumber, String)>,
    /// Descriptions of how the kernel uses these devices: `sdb1 is mounted at /srv`.
    pub uses: Vec<String>,
}

/// Examines the device with that number. `roots` must show the whole machine.
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
    /// Visited directories below /sys.
    seen: BTreeSet<PathBuf>,
    found: Stack,
}

impl Look<'_> {
    /// Examines the device, other paths to its disk, and the device beneath a loop device.
    fn device(&mut self, directory: &Path) {
        self.above(directory);
        let disk = block::whole_disk(directory);
        if disk != directory {
            // The disk itself contains the partition's bytes. The other partitions do not.
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
            // If only a partition is examined, the other path's disk counts as a whole.
            self.alone(&other);
            for text in &mut self.found.uses[before..] {
                text.push_str(&format!(" ({name} is the same disk by another path)"));
            }
        }
        self.beneath_loop(directory);
    }

    /// Examines the device itself, its partitions, and everything above them.
    fn above(&mut self, directory: &Path) {
        if !self.alone(directory) {
            return;
        }
        for partition in partitions(directory) {
            self.above(&partition);
        }
        let holders = entries(&directory.join("holders"))
            .into_iter()
            .filter_map(|holder| holder.canonicalize().ok());
        for above in holders.chain(self.loops_on(directory)) {
            self.above(&above);
        }
    }

    /// Examines one device for direct users. Returns `false` if it was examined before.
    fn alone(&mut self, directory: &Path) -> bool {
        if !self.seen.insert(directory.to_owned()) {
            return false;
        }
        let name = name_of(directory);
        let number = block::number_in(directory);
        self.found
            .shares
            .extend(number.map(|number| (number, name.clone())));
        let is_it = |path: &Path| {
            path == Path::new("/dev").join(&name)
                || (path.is_absolute() && number.is_some() && block::number_of(path) == number)
        };
        for mount in &self.mounts {
            // btrfs numbers its volumes itself, so compare the source too.
            if number == Some(DeviceNumber(mount.device.0, mount.device.1)) || is_it(&mount.source)
            {
                self.found
                    .uses
                    .push(format!("{name} is mounted at {}", mount.point.display()));
                break;
            }
        }
        if self.swaps.iter().any(|area| is_it(&area.path)) {
            self.found.uses.push(format!("{name} is swap space"));
        }
        if directory.join("bcache").exists() {
            self.found.uses.push(format!("{name} belongs to a bcache"));
        }
        // This directory lists only mounted volumes. A mount names only one of several devices.
        let mut volumes = entries(&self.roots.sys.join("fs/btrfs")).into_iter();
        let mounted = self
            .found
            .uses
            .iter()
            .any(|text| text.starts_with(&format!("{name} is mounted")));
        if !mounted && volumes.any(|volume| volume.join("devices").join(&name).exists()) {
            self.found
                .uses
                .push(format!("{name} belongs to a mounted btrfs"));
        }
        for holder in entries(&directory.join("holders")) {
            self.found
                .uses
                .push(format!("{name} is {}", role_of(&holder)));
        }
        for looped in self.loops_on(directory) {
            self.found
                .uses
                .push(format!("{} is attached to {name}", name_of(&looped)));
        }
        true
    }

    /// Returns the loop devices that show the bytes of this device.
    fn loops_on(&self, directory: &Path) -> Vec<PathBuf> {
        let number = block::number_in(directory);
        let path = Path::new("/dev").join(name_of(directory));
        let on_it = |backing: &loopdev::Backing| match (backing.device, backing.file) {
            (Some(device), _) => Some(device) == number,
            (None, Some(_)) => false,
            (None, None) => backing.path == path,
        };
        self.loops()
            .into_iter()
            .filter(|(_, backing)| on_it(backing))
            .map(|(looped, _)| looped)
            .collect()
    }

    /// Examines the image of a loop device: the device behind it, or other loop devices on the same
    /// file.
    fn beneath_loop(&mut self, directory: &Path) {
        let Some(own) = loopdev::backing(directory) else {
            return;
        };
        match own.device {
            Some(number) => {
                if let Some(beneath) = number.directory(self.roots) {
                    self.device(&beneath);
                }
                // The loop device itself is not another user of the device beneath it.
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
        let disks = entries(&self.roots.sys.join("block"))
            .into_iter()
            .filter_map(|disk| disk.canonicalize().ok());
        let loops = disks.filter(|disk| disk.join("loop").is_dir());
        loops
            .filter_map(|disk| loopdev::backing(&disk).map(|backing| (disk, backing)))
            .collect()
    }

    /// Returns other disks with the same world-wide name: other paths to the disk, joined by a
    /// multipath device or not.
    fn other_paths(&self, disk: &Path) -> Vec<PathBuf> {
        let Some(own) = world_wide_name(disk) else {
            return Vec::new();
        };
        let disks = entries(&self.roots.sys.join("block"))
            .into_iter()
            .filter_map(|other| other.canonicalize().ok());
        disks
            .filter(|other| other != disk && world_wide_name(other).as_ref() == Some(&own))
            .collect()
    }
}

fn world_wide_name(disk: &Path) -> Option<String> {
    ["wwid", "device/wwid"]
        .iter()
        .find_map(|file| read_trimmed(&disk.join(file)))
}

fn name_of(directory: &Path) -> String {
    directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn partitions(disk: &Path) -> Vec<PathBuf> {
    entries(disk)
        .into_iter()
        .filter(|path| path.join("partition").exists())
        .collect()
}

/// Describes the role of a device for its holder: `a path of the multipath device mpatha (dm-0)`.
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
    if name.starts_with("bcache") {
        format!("the backing device of {name}")
    } else {
        format!("part of {name}")
    }
}

/// Returns the ids of other processes that have one of the devices open, each with a description
/// such as `qemu-system-x86 (process 4711) has sdb open`. Only root sees the processes of other
/// users.
pub fn openers(devices: &[(DeviceNumber, String)], roots: &Roots) -> Vec<(u32, String)> {
    let own = std::fs::read_link(roots.proc.join("self")).ok();
    let own = own.map_or_else(
        || std::process::id().to_string(),
        |own| own.to_string_lossy().into_owned(),
    );
    let mut found = Vec::new();
    for process in entries(&roots.proc) {
        let id = name_of(&process);
        let Some(number) = id.parse().ok().filter(|_| id != own) else {
            continue;
        };
        let open = entries(&process.join("fd")).into_iter().find_map(|fd| {
            let metadata = std::fs::metadata(fd).ok()?;
            let number = DeviceNumber::from_raw(metadata.rdev());
            metadata
                .file_type()
                .is_block_device()
                .then(|| devices.iter().find(|(known, _)| *known == number))?
        });
        if let Some((_, name)) = open {
            let command = read_trimmed(&process.join("comm")).unwrap_or_default();
            found.push((number, format!("{command} (process {id}) has {name} open")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    //! Tests on artificial trees of devices. Their names and numbers do not occur on real machines.

    use super::*;

    struct Tree {
        directory: tempfile::TempDir,
        roots: Roots,
    }

    impl Tree {
        fn new() -> Tree {
            let directory = tempfile::tempdir().unwrap();
            // The code compares canonical paths.
            let root = directory.path().canonicalize().unwrap();
            let roots = Roots::below(&root);
            for path in [
                roots.sys.join("dev/block"),
                roots.sys.join("block"),
                roots.proc.clone(),
            ] {
                std::fs::create_dir_all(path).unwrap();
            }
            Tree { directory, roots }
        }

        /// Adds a disk such as `sdq` or a partition such as `sdq/sdq1`.
        fn device(&self, path: &str, minor: u32) -> PathBuf {
            let directory = self.roots.sys.join("devices").join(path);
            std::fs::create_dir_all(directory.join("holders")).unwrap();
            std::fs::write(directory.join("dev"), format!("4000:{minor}\n")).unwrap();
            let links = [
                Some(format!("dev/block/4000:{minor}")),
                (!path.contains('/')).then(|| format!("block/{path}")),
            ];
            for link in links.into_iter().flatten() {
                std::os::unix::fs::symlink(&directory, self.roots.sys.join(link)).unwrap();
            }
            if let Some((disk, partition)) = path.split_once('/') {
                std::fs::write(
                    directory.join("partition"),
                    partition.trim_start_matches(disk),
                )
                .unwrap();
            }
            directory
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn hold(&self, device: &Path, holder: &Path) {
            std::os::unix::fs::symlink(
                holder,
                device.join("holders").join(holder.file_name().unwrap()),
            )
            .unwrap();
        }

        fn uses(&self, minor: u32) -> String {
            look(DeviceNumber(4000, minor), &self.roots).uses.join("; ")
        }
    }

    #[test]
    fn a_device_that_nobody_uses_is_free() {
        let tree = Tree::new();
        tree.device("sdq", 0);
        tree.device("sdq/sdq1", 1);
        let other = tree.device("sdr", 16);
        let array = tree.device("md127", 100);
        tree.hold(&other, &array);
        assert_eq!([tree.uses(0), tree.uses(1)], ["", ""]);
    }

    #[test]
    fn holders_are_named_by_what_they_are() {
        for (holder, file, text, says) in [
            (
                "md127",
                "md/level",
                "raid1",
                "sdq is a member of the array md127",
            ),
            (
                "dm-90",
                "dm/uuid",
                "mpath-3600508",
                "sdq is a path of the multipath device data (dm-90)",
            ),
            (
                "dm-90",
                "dm/uuid",
                "LVM-abc",
                "sdq is under the LVM volume data (dm-90)",
            ),
            (
                "dm-90",
                "dm/uuid",
                "CRYPT-LUKS2-abc",
                "sdq is under the encrypted device data (dm-90)",
            ),
            (
                "dm-90",
                "dm/uuid",
                "part1-mpath-3600508",
                "sdq is under the device-mapper device data (dm-90)",
            ),
            (
                "bcache90",
                "size",
                "1",
                "sdq is the backing device of bcache90",
            ),
            ("drbd90", "size", "1", "sdq is part of drbd90"),
        ] {
            let tree = Tree::new();
            let (disk, above) = (tree.device("sdq", 0), tree.device(holder, 9));
            tree.write(&format!("sys/devices/{holder}/{file}"), text);
            if holder.starts_with("dm") {
                tree.write(&format!("sys/devices/{holder}/dm/name"), "data\n");
            }
            tree.hold(&disk, &above);
            assert_eq!(tree.uses(0), says);
            assert_eq!(tree.uses(9), "", "the volume itself may be given");
        }
    }

    #[test]
    fn a_member_of_a_cache_a_pool_of_btrfs_and_swap_are_used() {
        let tree = Tree::new();
        tree.device("sdq", 0);
        tree.write("sys/devices/sdq/bcache/block_size", "1");
        tree.device("sdr", 1);
        tree.write("sys/fs/btrfs/0a0b/devices/sdr/size", "1");
        tree.device("sds", 2);
        tree.device("sds/sds2", 3);
        tree.write(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/sds2 partition 1 0 -2\n",
        );
        assert_eq!(tree.uses(0), "sdq belongs to a bcache");
        assert_eq!(tree.uses(1), "sdr belongs to a mounted btrfs");
        assert_eq!([tree.uses(2), tree.uses(3)], ["sds2 is swap space"; 2]);
    }

    #[test]
    fn partitions_are_part_of_their_disk_and_not_of_each_other() {
        let tree = Tree::new();
        let disk = tree.device("sdq", 0);
        let (first, _) = (tree.device("sdq/sdq1", 1), tree.device("sdq/sdq2", 2));
        let crypt = tree.device("dm-90", 90);
        tree.write("sys/devices/dm-90/dm/uuid", "CRYPT-x");
        tree.hold(&first, &crypt);
        assert!(
            tree.uses(0)
                .starts_with("sdq1 is under the encrypted device")
        );
        assert!(
            tree.uses(1)
                .starts_with("sdq1 is under the encrypted device")
        );
        assert_eq!(tree.uses(2), "");
        tree.hold(&disk, &tree.device("md127", 127));
        assert_eq!(
            tree.uses(2),
            "sdq is a member of the array md127",
            "the disk is used as a whole"
        );
    }

    #[test]
    fn mounts_on_a_holder_are_found_too() {
        let tree = Tree::new();
        let (disk, crypt, array) = (
            tree.device("sdq", 0),
            tree.device("dm-90", 90),
            tree.device("md127", 127),
        );
        tree.write("sys/devices/dm-90/dm/uuid", "CRYPT-x");
        tree.hold(&disk, &crypt);
        tree.hold(&crypt, &array);
        assert!(
            tree.uses(0)
                .ends_with("; dm-90 is a member of the array md127"),
            "{}",
            tree.uses(0)
        );
        let shares = look(DeviceNumber(4000, 0), &tree.roots).shares;
        assert_eq!(
            shares
                .iter()
                .map(|(_, name)| name.as_str())
                .collect::<Vec<_>>(),
            ["sdq", "dm-90", "md127"]
        );
    }

    #[test]
    fn loop_devices_are_seen_through() {
        let tree = Tree::new();
        tree.device("sdq", 0);
        tree.device("sdq/sdq1", 1);
        tree.device("loop90", 90);
        tree.write("sys/devices/loop90/loop/backing_file", "/dev/sdq1\n");
        assert_eq!(tree.uses(0), "loop90 is attached to sdq1");
        assert_eq!(tree.uses(1), "loop90 is attached to sdq1");

        // Two loop devices on one file.
        let (one, array) = (tree.device("loop91", 91), tree.device("md127", 127));
        tree.device("loop92", 92);
        for name in ["loop91", "loop92"] {
            tree.write(
                &format!("sys/devices/{name}/loop/backing_file"),
                "/srv/image\n",
            );
        }
        assert_eq!(tree.uses(92), "");
        tree.hold(&one, &array);
        assert_eq!(tree.uses(92), "loop91 is a member of the array md127");
    }

    #[test]
    fn another_path_to_the_same_disk_is_the_same_disk() {
        let tree = Tree::new();
        let (one, other) = (tree.device("sdq", 0), tree.device("sdr", 16));
        let (_, second) = (tree.device("sdq/sdq1", 1), tree.device("sdr/sdr1", 17));
        tree.device("sdq/sdq2", 2);
        for disk in ["sdq", "sdr"] {
            tree.write(&format!("sys/devices/{disk}/device/wwid"), "naa.600508b4\n");
        }
        assert_eq!([tree.uses(0), tree.uses(1)], ["", ""]);
        tree.hold(&second, &tree.device("md127", 127));
        let says = "sdr1 is a member of the array md127 (sdr is the same disk by another path)";
        assert_eq!([tree.uses(0), tree.uses(1), tree.uses(2)], [says, says, ""]);
        // With both paths joined, the multipath device is free but its paths are not.
        let joined = tree.device("dm-90", 90);
        tree.write("sys/devices/dm-90/dm/uuid", "mpath-600508b4");
        tree.hold(&one, &joined);
        assert!(
            tree.uses(16)
                .contains("sdq is a path of the multipath device"),
            "{}",
            tree.uses(16)
        );
        assert_eq!(tree.uses(90), "");
        assert!(other.exists());
    }

    #[test]
    fn processes_that_have_a_device_open_are_named() {
        if !fsb_testkit::root_for("processes_that_have_a_device_open_are_named") {
            return;
        }
        let tree = Tree::new();
        let node = tree.directory.path().join("node");
        let mode = rustix::fs::Mode::RUSR;
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &node,
            rustix::fs::FileType::BlockDevice,
            mode,
            rustix::fs::makedev(4000, 7),
        );
        made.unwrap();
        for process in ["4711", "4712", "sys"] {
            tree.write(&format!("proc/{process}/comm"), "qemu-system-x86\n");
            std::fs::create_dir(tree.roots.proc.join(process).join("fd")).unwrap();
            std::os::unix::fs::symlink(&node, tree.roots.proc.join(process).join("fd/3")).unwrap();
        }
        let devices = [(DeviceNumber(4000, 7), "sdq".to_owned())];
        let both = openers(&devices, &tree.roots);
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(
            both[0],
            (
                4711,
                "qemu-system-x86 (process 4711) has sdq open".to_owned()
            )
        );
        std::os::unix::fs::symlink("4712", tree.roots.proc.join("self")).unwrap();
        assert_eq!(
            openers(&devices, &tree.roots).len(),
            1,
            "our own descriptors are no use by others"
        );
        assert!(openers(&[(DeviceNumber(4000, 8), "sdr".to_owned())], &tree.roots).is_empty());
    }
}
