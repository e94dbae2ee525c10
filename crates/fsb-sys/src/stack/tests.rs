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
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys") };
        for path in [roots.sys.join("dev/block"), roots.sys.join("block"), roots.proc.clone()] {
            std::fs::create_dir_all(path).unwrap();
        }
        Tree { directory, roots }
    }

    /// Adds a disk such as `sdq` or a partition such as `sdq/sdq1`.
    fn device(&self, path: &str, minor: u32) -> PathBuf {
        let directory = self.roots.sys.join("devices").join(path);
        std::fs::create_dir_all(directory.join("holders")).unwrap();
        std::fs::write(directory.join("dev"), format!("4000:{minor}\n")).unwrap();
        let links = [Some(format!("dev/block/4000:{minor}")), (!path.contains('/')).then(|| format!("block/{path}"))];
        for link in links.into_iter().flatten() {
            std::os::unix::fs::symlink(&directory, self.roots.sys.join(link)).unwrap();
        }
        if let Some((disk, partition)) = path.split_once('/') {
            std::fs::write(directory.join("partition"), partition.trim_start_matches(disk)).unwrap();
        }
        directory
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn hold(&self, device: &Path, holder: &Path) {
        std::os::unix::fs::symlink(holder, device.join("holders").join(holder.file_name().unwrap())).unwrap();
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
        ("md127", "md/level", "raid1", "sdq is a member of the array md127"),
        ("dm-90", "dm/uuid", "mpath-3600508", "sdq is a path of the multipath device data (dm-90)"),
        ("dm-90", "dm/uuid", "LVM-abc", "sdq is under the LVM volume data (dm-90)"),
        ("dm-90", "dm/uuid", "CRYPT-LUKS2-abc", "sdq is under the encrypted device data (dm-90)"),
        ("dm-90", "dm/uuid", "part1-mpath-3600508", "sdq is under the device-mapper device data (dm-90)"),
        ("bcache90", "size", "1", "sdq is the backing device of bcache90"),
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
    tree.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sds2 partition 1 0 -2\n");
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
    assert!(tree.uses(0).starts_with("sdq1 is under the encrypted device"));
    assert!(tree.uses(1).starts_with("sdq1 is under the encrypted device"));
    assert_eq!(tree.uses(2), "");
    tree.hold(&disk, &tree.device("md127", 127));
    assert_eq!(tree.uses(2), "sdq is a member of the array md127", "the disk is used as a whole");
}

#[test]
fn mounts_on_a_holder_are_found_too() {
    let tree = Tree::new();
    let (disk, crypt, array) = (tree.device("sdq", 0), tree.device("dm-90", 90), tree.device("md127", 127));
    tree.write("sys/devices/dm-90/dm/uuid", "CRYPT-x");
    tree.hold(&disk, &crypt);
    tree.hold(&crypt, &array);
    assert!(tree.uses(0).ends_with("; dm-90 is a member of the array md127"), "{}", tree.uses(0));
    let shares = look(DeviceNumber(4000, 0), &tree.roots).shares;
    assert_eq!(shares.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["sdq", "dm-90", "md127"]);
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
        tree.write(&format!("sys/devices/{name}/loop/backing_file"), "/srv/image\n");
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
    assert!(tree.uses(16).contains("sdq is a path of the multipath device"), "{}", tree.uses(16));
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
    assert_eq!(both[0], (4711, "qemu-system-x86 (process 4711) has sdq open".to_owned()));
    std::os::unix::fs::symlink("4712", tree.roots.proc.join("self")).unwrap();
    assert_eq!(openers(&devices, &tree.roots).len(), 1, "our own descriptors are no use by others");
    assert!(openers(&[(DeviceNumber(4000, 8), "sdr".to_owned())], &tree.roots).is_empty());
}
