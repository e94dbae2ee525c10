//! The walk from a target down to what holds its bytes: file systems, overlays, loop devices,
//! arrays, disks, memory.
//!
//! A name such as "durable" or "direct" is true only if every layer keeps it. The walk reads /sys
//! and the mounts of this process, and needs no root. A loop device names its file by a path, which
//! may lead elsewhere by now or in this mount namespace; root asks the device for the file system
//! of its file instead. Where neither answers, the walk ends with [`Layer::Unknown`].

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_model::Medium;
use fsb_model::run::Risk;
use fsb_model::storage::{Layer, StorageFlaw, StorageLayer, WriteCache, layers_text};
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::mountinfo::{self, Mount};
use fsb_sys::{Roots, loopdev, read_trimmed};

use crate::fs::{self, UNFLUSHED};
use crate::fuse::{self, Place, Server, Store};

/// File systems whose files are in memory, as mounts name them.
const MEMORY: [&str; 5] = ["tmpfs", "ramfs", "devtmpfs", "rootfs", "hugetlbfs"];
/// Names of block devices that are memory, before their numbers.
const MEMORY_DEVICES: [&str; 3] = ["ram", "zram", "nullb"];
/// Deeper stacks are a loop in the tree below /sys.
const DEEPEST: u32 = 3 * block::MOST_LAYERS;

/// The reason why the storage beneath a network file system is unknown.
const ELSEWHERE: &str = "another machine, or the host of this one, holds the data";

/// The advice for a loop device without direct I/O.
pub(crate) const ATTACH_DIRECT: &str = "attach it with losetup --direct-io=on";

/// One step of the walk: a layer, with the device or the mount that it is on this machine.
#[derive(Debug)]
pub(crate) struct Found {
    pub layer: StorageLayer,
    /// The directory below /sys of a block device.
    pub device: Option<PathBuf>,
    /// The mount of a file system.
    pub mount: Option<Mount>,
}

/// The storage beneath a path or a device.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub found: Vec<Found>,
}

impl Storage {
    /// Walks down from the file system that holds `path`. `device` is the device beneath a file
    /// system whose mount does not name it. `roots` show the processes of the machine, among which
    /// are the servers of FUSE mounts.
    pub fn beneath_path(path: &Path, device: Option<&Path>, roots: &Roots) -> Storage {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut walk = Walk::new(roots, mountinfo::read());
        walk.path(&path, 0);
        if let Some(device) =
            device.filter(|_| walk.found.iter().all(|found| found.device.is_none()))
        {
            walk.found
                .retain(|found| !matches!(found.layer.layer, Layer::Unknown { .. }));
            walk.device(device, walk.found.len() as u32);
        }
        Storage { found: walk.found }
    }

    /// Walks down from a device, by its directory below /sys.
    pub fn beneath_device(directory: &Path, roots: &Roots) -> Storage {
        let mut walk = Walk::new(roots, mountinfo::read());
        walk.device(directory, 0);
        Storage { found: walk.found }
    }

    /// Returns what a probe of a FUSE server needs.
    pub fn store(&self) -> Store<'_> {
        Store {
            device: self.only_device(),
            unknown: self.unknown().or_else(|| self.served_beneath()),
        }
    }

    /// Returns why a layer cannot be seen. Returns `None` if all are known.
    pub fn unknown(&self) -> Option<&str> {
        self.found
            .iter()
            .find_map(|found| match &found.layer.layer {
                Layer::Unknown { reason } => Some(reason.as_str()),
                _ => None,
            })
    }

    /// Returns why nothing on this machine shows what becomes of syncs and of direct I/O, if a
    /// layer is a network file system, or one beneath the first is served by a FUSE server.
    pub fn elsewhere(&self) -> Option<&str> {
        let network = self.unknown().filter(|reason| *reason == ELSEWHERE);
        network.or_else(|| self.served_beneath())
    }

    /// As [`Storage::elsewhere`], but the first layer is the target itself.
    pub fn elsewhere_beneath(&self) -> Option<&str> {
        let is_remote = |mount: &Mount| fs::is_remote(&mount.kind);
        let first = self.found.first().and_then(|found| found.mount.as_ref());
        self.elsewhere().filter(|_| !first.is_some_and(is_remote))
    }

    fn served_beneath(&self) -> Option<&'static str> {
        for found in &self.found {
            if found.layer.depth > 0 && found.mount.as_ref().is_some_and(fuse::is_fuse) {
                return Some("a FUSE server lies beneath it, which is not probed");
            }
        }
        None
    }

    /// Returns the directory below /sys of the device that holds all data, if there is one. The
    /// devices beneath it are parts of it.
    pub fn only_device(&self) -> Option<&Path> {
        let mut devices = self
            .found
            .iter()
            .filter_map(|found| Some((found.layer.depth, found.device.as_deref()?)));
        let (depth, first) = devices.next()?;
        let is_only = devices.all(|(other, device)| other > depth || device == first);
        Some(first).filter(|_| is_only && self.unknown().is_none())
    }

    /// Returns the layers, as the record of a run keeps them.
    pub fn layers(&self) -> Vec<StorageLayer> {
        self.found.iter().map(|found| found.layer.clone()).collect()
    }

    /// Returns the layers as one text.
    pub fn to_text(&self) -> String {
        layers_text(&self.layers())
    }

    /// Returns the flaws of the layers, from the target down.
    pub fn flaws(&self) -> impl Iterator<Item = StorageFlaw> {
        self.found
            .iter()
            .filter_map(|found| StorageFlaw::of_layer(&found.layer.layer))
    }

    /// Returns the first flaw that loses synced data.
    pub fn loss(&self) -> Option<StorageFlaw> {
        self.flaws().find(StorageFlaw::loses_data)
    }

    /// Returns the loop device whose data is in the page cache of the file system beneath it.
    pub fn buffered(&self) -> Option<StorageFlaw> {
        self.flaws().find(|flaw| !flaw.loses_data())
    }

    /// Returns the risk of the storage.
    pub fn risk(&self) -> Option<Risk> {
        let (cause, loss) = match self.loss()? {
            StorageFlaw::Memory { holder } => {
                (format!("memory={holder}"), "a power failure loses all data")
            }
            StorageFlaw::Volatile => ("overlay=volatile".to_owned(), UNFLUSHED),
            StorageFlaw::Buffered { .. } => return None,
        };
        Some(Risk {
            cause,
            loss: loss.to_owned(),
        })
    }
}

/// Returns whether the plan itself asks for a medium in memory.
pub(crate) fn is_memory_medium(medium: &Medium) -> bool {
    [medium.name.as_str()]
        .into_iter()
        .chain(medium.members())
        .any(|name| name == "ram")
}

/// The holder of the bytes of a loop device.
enum Beneath {
    Device(PathBuf),
    Mount(Mount),
    Memory(&'static str),
    Hidden(&'static str),
}

struct Walk<'a> {
    roots: &'a Roots,
    mounts: Vec<Mount>,
    found: Vec<Found>,
}

impl<'a> Walk<'a> {
    fn new(roots: &'a Roots, mounts: Vec<Mount>) -> Walk<'a> {
        Walk {
            roots,
            mounts,
            found: Vec::new(),
        }
    }

    fn add(&mut self, depth: u32, layer: Layer) -> &mut Found {
        self.found.push(Found {
            layer: StorageLayer { depth, layer },
            device: None,
            mount: None,
        });
        self.found.last_mut().expect("a layer was added")
    }

    fn unknown(&mut self, depth: u32, reason: &str) {
        self.add(
            depth,
            Layer::Unknown {
                reason: reason.to_owned(),
            },
        );
    }

    /// Walks down from the file system that holds a path.
    fn path(&mut self, path: &Path, depth: u32) {
        match mountinfo::holding(&self.mounts, path) {
            Some(mount) => self.mount(&mount, depth),
            None => self.unknown(depth, "no mount holds it"),
        }
    }

    fn mount(&mut self, mount: &Mount, depth: u32) {
        let kind = mount.kind.as_str();
        if depth > DEEPEST {
            return self.unknown(depth, "too many layers");
        }
        if MEMORY.contains(&kind) {
            self.add(
                depth,
                Layer::Memory {
                    holder: kind.to_owned(),
                },
            )
            .mount = Some(mount.clone());
            return;
        }
        if kind == "overlay" {
            return self.overlay(mount, depth);
        }
        self.add(
            depth,
            Layer::FileSystem {
                driver: kind.to_owned(),
            },
        )
        .mount = Some(mount.clone());
        let devices = self.devices(mount);
        if devices.is_empty() && fuse::is_fuse(mount) {
            return self.fuse_server(mount, depth + 1);
        }
        if devices.is_empty() {
            self.unknown(depth + 1, why_no_device(kind));
        }
        for device in devices {
            self.device(&device, depth + 1);
        }
    }

    /// Walks down from the places in which the server of a mount keeps the data.
    fn fuse_server(&mut self, mount: &Mount, depth: u32) {
        let Some(server) = Server::of_mount(mount, self.roots) else {
            return self.unknown(depth, "its FUSE server is not visible to this user");
        };
        let paths: BTreeSet<PathBuf> = match server.place(mount) {
            Place::Paths(paths) => paths.into_iter().collect(),
            Place::Unknown(reason) => return self.unknown(depth, reason),
        };
        for path in paths {
            match block::number_of(&path) {
                Some(number) => match number.directory(self.roots) {
                    Some(device) => self.device(&device, depth),
                    None => self.unknown(depth, "its device is not there"),
                },
                None if is_visible(&path) => {
                    let path = path.canonicalize().unwrap_or(path);
                    self.path(&path, depth);
                }
                None => self.unknown(depth, "the files of its server are not visible here"),
            }
        }
    }

    /// Walks down from the upper directory of an overlay, which holds what is written to it.
    fn overlay(&mut self, mount: &Mount, depth: u32) {
        let options = &mount.super_options;
        let upper = options
            .iter()
            .find_map(|option| option.strip_prefix("upperdir="))
            .map(PathBuf::from);
        let volatile = options
            .iter()
            .any(|option| option == "volatile" || option == "fsync=volatile");
        self.add(
            depth,
            Layer::Overlay {
                upper: upper.clone(),
                volatile,
            },
        )
        .mount = Some(mount.clone());
        match upper {
            None => self.unknown(depth + 1, "the overlay is read-only"),
            Some(upper) if upper.is_absolute() && is_visible(&upper) => {
                self.path(&upper, depth + 1)
            }
            Some(_) => self.unknown(depth + 1, "the upper directory is not visible here"),
        }
    }

    /// Returns the block devices of a mounted file system: all those of a volume of btrfs, and a
    /// log of its own.
    fn devices(&self, mount: &Mount) -> Vec<PathBuf> {
        let Some(first) = device_of_mount(mount, self.roots) else {
            return Vec::new();
        };
        let mut devices = self.members_of_btrfs(&first);
        if devices.is_empty() {
            devices.push(first);
        }
        let others = mount.super_options.iter().filter_map(|option| {
            option
                .strip_prefix("logdev=")
                .or_else(|| option.strip_prefix("rtdev="))
        });
        devices.extend(
            others.filter_map(|path| block::number_of(Path::new(path))?.directory(self.roots)),
        );
        devices
    }

    /// Returns all devices of the mounted volume of btrfs that has this one. Returns none for other
    /// file systems.
    fn members_of_btrfs(&self, device: &Path) -> Vec<PathBuf> {
        let name = device.file_name().unwrap_or_default();
        let volumes = std::fs::read_dir(self.roots.sys.join("fs/btrfs"))
            .into_iter()
            .flatten()
            .flatten();
        let volume = volumes
            .map(|volume| volume.path().join("devices"))
            .find(|devices| devices.join(name).exists());
        let entries = volume
            .and_then(|devices| std::fs::read_dir(devices).ok())
            .into_iter()
            .flatten()
            .flatten();
        let mut members: Vec<PathBuf> = entries
            .filter_map(|entry| entry.path().canonicalize().ok())
            .collect();
        members.sort();
        members
    }

    /// Walks down from a block device.
    fn device(&mut self, directory: &Path, depth: u32) {
        if depth > DEEPEST {
            return self.unknown(depth, "too many layers");
        }
        let text = |file: &str| read_trimmed(&directory.join(file));
        let device = directory
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let members = block::members(directory);
        let mut below: Vec<PathBuf> = Vec::new();
        let layer = if is_memory_device(directory, &device) {
            Layer::Memory { holder: device }
        } else if text("partition").is_some() {
            below.extend(directory.parent().map(Path::to_owned));
            Layer::Stacked {
                device,
                role: Some("partition".to_owned()),
            }
        } else if let Some(file) = text("loop/backing_file") {
            let direct = text("loop/dio").map(|flag| flag == "1");
            Layer::Loop {
                device,
                file: Some(file.into()),
                direct,
            }
        } else if !members.is_empty() {
            below = members;
            Layer::Stacked {
                device,
                role: text("dm/name").or_else(|| text("md/level")),
            }
        } else {
            Layer::Disk {
                device,
                write_cache: text("queue/write_cache").and_then(|cache| WriteCache::parse(&cache)),
            }
        };
        let is_loop = matches!(layer, Layer::Loop { .. });
        self.add(depth, layer).device = Some(directory.to_owned());
        if is_loop {
            self.beneath_loop(directory, depth + 1);
        }
        for member in below {
            self.device(&member, depth + 1);
        }
    }

    fn beneath_loop(&mut self, directory: &Path, depth: u32) {
        match beneath_loop(directory, &self.mounts, self.roots) {
            Beneath::Device(device) => self.device(&device, depth),
            Beneath::Mount(mount) => self.mount(&mount, depth),
            Beneath::Memory(holder) => drop(self.add(
                depth,
                Layer::Memory {
                    holder: holder.to_owned(),
                },
            )),
            Beneath::Hidden(why) => self.unknown(depth, why),
        }
    }
}

fn why_no_device(kind: &str) -> &'static str {
    if fs::is_remote(kind) {
        ELSEWHERE
    } else {
        "its mount names no block device"
    }
}

/// Returns whether a path can be looked up here. A directory that the user may not search can be.
fn is_visible(path: &Path) -> bool {
    !std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns whether a block device keeps its data in memory: a RAM disk, compressed memory, and the
/// kernel's devices for tests.
fn is_memory_device(directory: &Path, name: &str) -> bool {
    MEMORY_DEVICES.iter().any(|prefix: &&str| {
        let number = name.strip_prefix(*prefix);
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    }) || read_trimmed(&directory.join("device/model")).is_some_and(|model| model == "scsi_debug")
}

/// Finds what holds the bytes of a loop device.
fn beneath_loop(directory: &Path, mounts: &[Mount], roots: &Roots) -> Beneath {
    let Some(backing) = loopdev::backing(directory) else {
        return Beneath::Hidden("nothing is attached to it");
    };
    let path = &backing.path;
    let is_deleted = path.to_string_lossy().ends_with(" (deleted)");
    if let Some(device) = backing
        .device
        .or_else(|| block::number_of(path).filter(|_| !is_deleted && backing.file.is_none()))
    {
        let device = device.directory(roots);
        return device.map_or(Beneath::Hidden("its device is not there"), Beneath::Device);
    }
    if path.to_string_lossy().starts_with("/memfd:") {
        return Beneath::Memory("memfd");
    }
    if let Some((number, _)) = backing.file {
        return mount_of_file(path, number, mounts).map_or(
            Beneath::Hidden("its file is not mounted here"),
            Beneath::Mount,
        );
    }
    match mountinfo::holding(mounts, path) {
        _ if is_deleted => Beneath::Hidden("its file was deleted"),
        Some(mount) if is_visible(path) => Beneath::Mount(mount),
        _ => Beneath::Hidden("its file is not visible here"),
    }
}

/// Returns the mount of the file system with that number. A subvolume of btrfs has a number that no
/// mount shows; then the directory of the file must have it.
fn mount_of_file(path: &Path, number: u64, mounts: &[Mount]) -> Option<Mount> {
    let DeviceNumber(major, minor) = DeviceNumber::from_raw(number);
    let directory = path.parent()?;
    let by_path = std::fs::metadata(directory)
        .is_ok_and(|found| found.dev() == number)
        .then(|| mountinfo::holding(mounts, directory))
        .flatten();
    by_path.or_else(|| {
        mounts
            .iter()
            .find(|mount| mount.device == (major, minor))
            .cloned()
    })
}

/// The mount of the file of a loop device and the device beneath it, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct LoopHolder {
    pub mount: Option<Mount>,
    /// The directory below /sys.
    pub device: Option<PathBuf>,
}

/// Returns what holds the bytes of the loop device with that directory.
pub(crate) fn holder_of_loop(directory: &Path, roots: &Roots) -> LoopHolder {
    match beneath_loop(directory, &mountinfo::read(), roots) {
        Beneath::Device(device) => LoopHolder {
            mount: None,
            device: Some(device),
        },
        Beneath::Mount(mount) => LoopHolder {
            device: device_of_mount(&mount, roots),
            mount: Some(mount),
        },
        Beneath::Memory(_) | Beneath::Hidden(_) => LoopHolder::default(),
    }
}

/// Returns the directory of the block device under a mount.
fn device_of_mount(mount: &Mount, roots: &Roots) -> Option<PathBuf> {
    number_below(mount, roots)?.directory(roots)
}

/// Returns the number of the block device under a mount of this machine.
pub(crate) fn number_of_mount(mount: &Mount) -> Option<DeviceNumber> {
    number_below(mount, &Roots::default())
}

/// Returns the block device under a mount. `st_dev` names it, except on file systems that number
/// their volumes themselves.
pub(crate) fn number_below(mount: &Mount, roots: &Roots) -> Option<DeviceNumber> {
    let number = DeviceNumber(mount.device.0, mount.device.1);
    if number.directory(roots).is_some() {
        return Some(number);
    }
    // The sources of overlays and network file systems are not devices.
    if fs::of_mount(mount).is_some_and(|member| member.numbers_volumes()) {
        block::number_of(&mount.source)
    } else {
        None
    }
}

/// Returns the risks of a device: it or a device beneath it has a volatile cache that the kernel
/// does not flush, or the file system that holds its image is mounted with a hazard.
pub(crate) fn risks_of_device(directory: &Path) -> Vec<Risk> {
    let mut found = Vec::new();
    for layer in Storage::beneath_device(directory, &Roots::default()).found {
        found.extend(layer.device.as_deref().and_then(unflushed_cache));
        let of_options = layer
            .mount
            .iter()
            .flat_map(fs::risks_of_mount)
            .filter(|risk| risk.loss == UNFLUSHED);
        found.extend(of_options.map(|risk| Risk {
            cause: format!("{} beneath the image", risk.cause),
            ..risk
        }));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the risk of a disk that reports a volatile cache (virtio-blk: `cache_type`; SCSI and
/// SATA: the one of scsi_disk) while the kernel treats the cache as not volatile
/// (`queue/write_cache`).
fn unflushed_cache(directory: &Path) -> Option<Risk> {
    let scsi = std::fs::read_dir(directory.join("device/scsi_disk"))
        .into_iter()
        .flatten()
        .flatten();
    let says = read_trimmed(&directory.join("cache_type")).or_else(|| {
        scsi.map(|entry| entry.path())
            .find_map(|disk| read_trimmed(&disk.join("cache_type")))
    })?;
    let never_flushes = read_trimmed(&directory.join("queue/write_cache"))
        .is_some_and(|mode| mode == "write through");
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    (says.contains("write back") && never_flushes).then(|| Risk {
        cause: format!("write cache of {name} not flushed"),
        loss: UNFLUSHED.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    //! Tests on trees of files that stand for /sys, with mounts as data.

    use super::*;

    struct Tree {
        directory: tempfile::TempDir,
        roots: Roots,
        mounts: Vec<Mount>,
    }

    impl Tree {
        fn new() -> Tree {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            let roots = Roots::below(&root);
            std::fs::create_dir_all(roots.sys.join("dev/block")).unwrap();
            Tree {
                directory,
                roots,
                mounts: Vec::new(),
            }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Adds a disk such as `sdq`, or a partition such as `sdq/sdq1`.
        fn device(&self, name: &str, minor: u32) -> PathBuf {
            let directory = self.path(&format!("sys/devices/{name}"));
            std::fs::create_dir_all(&directory).unwrap();
            let link = self.roots.sys.join(format!("dev/block/4000:{minor}"));
            std::os::unix::fs::symlink(&directory, link).unwrap();
            if name.contains('/') {
                self.write(&format!("sys/devices/{name}/partition"), "1");
            }
            directory
        }

        fn looped(&self, name: &str, minor: u32, file: &str, direct: &str) {
            self.device(name, minor);
            self.write(&format!("sys/devices/{name}/loop/backing_file"), file);
            self.write(&format!("sys/devices/{name}/loop/dio"), direct);
        }

        fn hold(&self, above: &Path, member: &Path) {
            std::fs::create_dir_all(above.join("slaves")).unwrap();
            std::os::unix::fs::symlink(
                member,
                above.join("slaves").join(member.file_name().unwrap()),
            )
            .unwrap();
        }

        /// Mounts device 4000:`minor` at `point` below the tree, which becomes a directory.
        fn mount(&mut self, kind: &str, minor: u32, point: &str, options: &[&str]) {
            std::fs::create_dir_all(self.path(point)).unwrap();
            self.mounts.push(Mount {
                device: (4000, minor),
                point: self.path(point),
                options: Vec::new(),
                kind: kind.to_owned(),
                source: kind.into(),
                super_options: options.iter().map(|option| (*option).to_owned()).collect(),
            });
        }

        fn beneath(&self, path: &str) -> Storage {
            let mut walk = Walk::new(&self.roots, self.mounts.clone());
            walk.path(&self.path(path), 0);
            Storage { found: walk.found }
        }

        /// Returns the layers beneath a path, with the tree's own directory left out.
        fn text(&self, path: &str) -> String {
            self.beneath(path)
                .to_text()
                .replace(&*self.path("").to_string_lossy(), "/")
        }
    }

    #[test]
    fn partitions_arrays_and_mapped_devices_lead_to_their_disks() {
        let mut tree = Tree::new();
        let (sdq, sdr) = (tree.device("sdq", 0), tree.device("sdr", 16));
        let partition = tree.device("sdq/sdq1", 1);
        let (array, mapped) = (tree.device("md7", 100), tree.device("dm-7", 101));
        tree.write("sys/devices/md7/md/level", "raid1\n");
        tree.write("sys/devices/dm-7/dm/name", "vg-data\n");
        tree.write("sys/devices/sdq/queue/write_cache", "write back\n");
        tree.hold(&array, &partition);
        tree.hold(&array, &sdr);
        tree.hold(&mapped, &array);
        tree.mount("xfs", 101, "data", &[]);
        assert_eq!(
            tree.text("data/x"),
            "xfs on dm-7 (vg-data) on md7 (raid1) on [sdq1 (partition) on sdq (write back); sdr]"
        );
        assert_eq!(tree.beneath("data/x").flaws().count(), 0);
        let depths = tree
            .beneath("data")
            .layers()
            .iter()
            .map(|layer| layer.depth)
            .collect::<Vec<_>>();
        assert_eq!(depths, [0, 1, 2, 3, 4, 3]);
        assert_eq!(
            Storage::beneath_device(&sdq, &tree.roots).to_text(),
            "sdq (write back)"
        );
    }

    #[test]
    fn memory_is_found_two_levels_down() {
        let mut tree = Tree::new();
        tree.mount("tmpfs", 900, "shm", &[]);
        let upper = format!("upperdir={}", tree.path("shm/upper").display());
        std::fs::create_dir_all(tree.path("shm/upper")).unwrap();
        tree.mount("overlay", 901, "merged", &["lowerdir=/x", &upper]);
        tree.write("merged/image", "");
        tree.looped(
            "loop7",
            7,
            &tree.path("merged/image").to_string_lossy(),
            "0",
        );
        tree.mount("ext4", 7, "target", &[]);
        assert_eq!(
            tree.text("target/fsb"),
            "ext4 on loop7 without direct I/O, file /merged/image on overlay with upper directory /shm/upper on tmpfs in \
             memory"
        );
        let storage = tree.beneath("target");
        assert_eq!(
            storage.loss(),
            Some(StorageFlaw::Memory {
                holder: "tmpfs".to_owned()
            })
        );
        assert_eq!(
            storage.buffered(),
            Some(StorageFlaw::Buffered {
                device: "loop7".to_owned()
            })
        );
        assert_eq!(storage.risk().unwrap().cause, "memory=tmpfs");
    }

    #[test]
    fn a_volatile_overlay_is_recognised_by_either_option() {
        for (option, is_volatile) in [
            ("volatile", true),
            ("fsync=volatile", true),
            ("fsync=auto", false),
        ] {
            let mut tree = Tree::new();
            tree.device("sdq", 0);
            tree.mount("ext4", 0, "disk", &[]);
            tree.mount(
                "overlay",
                901,
                "merged",
                &[&format!("upperdir={}", tree.path("disk").display()), option],
            );
            let storage = tree.beneath("merged");
            assert_eq!(storage.loss().is_some(), is_volatile, "{option}");
            assert_eq!(
                storage.risk().is_some_and(|risk| risk.loss == UNFLUSHED),
                is_volatile,
                "{option}"
            );
            assert!(
                tree.text("merged")
                    .ends_with("upper directory /disk on ext4 on sdq"),
                "{}",
                tree.text("merged")
            );
        }
    }

    #[test]
    fn devices_that_are_memory_are_known_by_their_names() {
        for (name, model, is_memory) in [
            ("ram0", "", true),
            ("zram12", "", true),
            ("nullb1", "", true),
            ("sdq", "scsi_debug", true),
            ("sdq", "Fast Disk", false),
            ("ramses", "", false),
            ("ram", "", false),
        ] {
            let tree = Tree::new();
            let device = tree.device(name, 0);
            tree.write(&format!("sys/devices/{name}/device/model"), model);
            let storage = Storage::beneath_device(&device, &tree.roots);
            assert_eq!(storage.loss().is_some(), is_memory, "{name} {model}");
        }
    }

    #[test]
    fn a_file_that_is_gone_or_elsewhere_is_not_known() {
        let mut tree = Tree::new();
        tree.device("sdq", 0);
        tree.mount("ext4", 0, "disk", &[]);
        for (minor, file, text) in [
            (1, "disk/image (deleted)", "not known: its file was deleted"),
            (2, "disk/absent", "not known: its file is not visible here"),
            (3, "disk", "ext4 on sdq"),
        ] {
            tree.looped(
                &format!("loop{minor}"),
                minor,
                &tree.path(file).to_string_lossy(),
                "1",
            );
            let point = format!("target{minor}");
            tree.mount("ext4", minor, &point, &[]);
            assert!(
                tree.text(&point).ends_with(&format!("/{file} on {text}")),
                "{}",
                tree.text(&point)
            );
            assert_eq!(tree.beneath(&point).flaws().count(), 0);
        }
        tree.looped("loop4", 4, "/memfd:image (deleted)", "0");
        tree.mount("ext4", 4, "target4", &[]);
        assert!(
            tree.text("target4").ends_with("memfd in memory"),
            "{}",
            tree.text("target4")
        );
        tree.mount("nfs4", 950, "net", &[]);
        assert_eq!(
            tree.text("net/x"),
            "nfs4 on not known: another machine, or the host of this one, holds the data"
        );
        tree.mount("overlay", 951, "absent", &["upperdir=/nowhere/else"]);
        assert!(
            tree.text("absent")
                .ends_with("on not known: the upper directory is not visible here")
        );
    }

    #[test]
    fn all_devices_of_a_volume_of_btrfs_are_beneath_it() {
        let mut tree = Tree::new();
        let (sdq, ram) = (tree.device("sdq", 0), tree.device("ram3", 1));
        std::fs::create_dir_all(tree.path("sys/fs/btrfs/0a0b/devices")).unwrap();
        for device in [&sdq, &ram] {
            let name = device.file_name().unwrap().to_string_lossy();
            std::os::unix::fs::symlink(
                device,
                tree.path(&format!("sys/fs/btrfs/0a0b/devices/{name}")),
            )
            .unwrap();
        }
        tree.mount("btrfs", 0, "pool", &[]);
        assert_eq!(tree.text("pool"), "btrfs on [ram3 in memory; sdq]");
    }

    #[test]
    fn a_stack_that_holds_itself_ends() {
        let mut tree = Tree::new();
        tree.mount("ext4", 7, "target", &[]);
        tree.write("target/image", "");
        tree.looped(
            "loop7",
            7,
            &tree.path("target/image").to_string_lossy(),
            "1",
        );
        assert!(tree.text("target").ends_with("not known: too many layers"));
    }

    #[test]
    fn media_in_memory_are_known_by_the_plan() {
        for (text, is_memory) in [
            ("ext4@ram", true),
            ("ext4@raid0:ram+ram", true),
            ("ext4", false),
            ("ext4@/dev/ram0", false),
        ] {
            let target: fsb_model::Target = text.parse().unwrap();
            assert_eq!(
                is_memory_medium(&target.file_system().unwrap().medium),
                is_memory,
                "{text}"
            );
        }
    }

    #[test]
    fn a_volatile_cache_that_is_not_flushed_is_a_risk() {
        let tree = tempfile::tempdir().unwrap();
        let disk = tree.path().join("vdb");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::write(disk.join("cache_type"), "write back\n").unwrap();
        for (mode, risks) in [("write back\n", 0), ("write through\n", 1)] {
            std::fs::write(disk.join("queue/write_cache"), mode).unwrap();
            assert_eq!(risks_of_device(&disk).len(), risks, "{mode}");
        }
        assert_eq!(
            risks_of_device(&disk)[0].cause,
            "write cache of vdb not flushed"
        );
    }
}
