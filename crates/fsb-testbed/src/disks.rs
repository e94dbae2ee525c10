//! The disks of the machine and their partitions: what each is, and whether a run may use it.
//!
//! The answers come from the checks of the medium `device`. Nothing is opened for writing, because
//! udev examines each device that was.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fsb_model::host::DeviceManifest;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::attempt;
use fsb_sys::mountinfo::{self, Mount};
use fsb_sys::pinned::{Pinned, Unpinned};
use fsb_sys::{Roots, read_trimmed, stack};
use serde::{Serialize, Serializer};

use crate::medium::{self, CLAIMED};
use crate::{host, storage};

/// A block device with a size: a disk, a partition, an array, a mapped device or an attached loop
/// device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disk {
    /// The device node.
    pub path: PathBuf,
    /// The disk of a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_of: Option<PathBuf>,
    /// The model, or the kernel's name of an array or a mapped device.
    pub model: Option<String>,
    /// The interface with its speed.
    pub interface: Option<String>,
    /// The file of a loop device, with the file system that holds it.
    pub backing: Option<String>,
    /// Bytes.
    pub size_bytes: u64,
    /// Whether the kernel takes it for a rotating disk.
    pub rotational: Option<bool>,
    /// Rotations per minute, if the disk reports them.
    pub rotations_per_minute: Option<u32>,
    /// Bytes of a sector, the least that the device moves.
    pub logical_sector_bytes: Option<u64>,
    /// Bytes that the device writes at once.
    pub physical_sector_bytes: Option<u64>,
    /// The kernel's `queue/write_cache`: `write back` or `write through`.
    pub write_cache: Option<String>,
}

/// The use of a device, as far as it decides whether a run may have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DiskState {
    /// A file system on it is mounted.
    Mounted {
        /// The driver.
        file_system: String,
        /// The first mount point that may be written, or the first.
        #[serde(serialize_with = "as_text")]
        point: PathBuf,
        /// Whether no mount may be written.
        read_only: bool,
    },
    /// The kernel or a program uses it: `sdb1 is swap space`.
    Used {
        /// Each use.
        uses: Vec<String>,
    },
    /// The kernel refuses writes to it.
    ReadOnly,
    /// It holds only zeros, or only bytes 0xff, wherever it was read.
    Empty,
    /// It has signatures, or data of an unknown kind.
    Holds {
        /// The types of the signatures: `ext4`, `gpt`.
        signatures: Vec<String>,
    },
    /// Its content cannot be read.
    Unknown {
        /// The reason.
        reason: String,
        /// Whether root could read it.
        needs_root: bool,
    },
}

/// Writes a path as text. A byte that is not UTF-8 becomes U+FFFD.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Returns the block devices with a size, each disk before its partitions.
pub fn list() -> Vec<Disk> {
    list_at(&Roots::default())
}

/// Returns the state of a device of [`list`]. Root's answer is complete: other users cannot read
/// devices, and do not see the processes of others.
pub fn state(disk: &Disk) -> DiskState {
    state_at(disk, &Roots::default(), &content)
}

fn list_at(roots: &Roots) -> Vec<Disk> {
    let mut disks = Vec::new();
    for directory in sorted(&roots.sys.join("block")) {
        let Ok(directory) = directory.canonicalize() else {
            continue;
        };
        let whole = disk(&directory, None, roots);
        let path = whole.as_ref().map(|disk| disk.path.clone());
        disks.extend(whole);
        for partition in sorted(&directory) {
            if partition.join("partition").exists() {
                disks.extend(disk(&partition, path.clone(), roots));
            }
        }
    }
    disks
}

/// Returns the entries of a directory below /sys: `sda2` before `sda10`, as the kernel numbers
/// them.
fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_by_key(|path| {
        let name = name_of(path);
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: u64 = name[letters.len()..].parse().unwrap_or(0);
        (letters.to_owned(), number)
    });
    paths
}

fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the device with this directory below /sys. Returns `None` if it has no size, such as a
/// drive without a medium or a loop device without a file.
fn disk(directory: &Path, partition_of: Option<PathBuf>, roots: &Roots) -> Option<Disk> {
    let number = block::number_in(directory)?;
    let manifest = host::device_manifest(roots, (number.0, number.1));
    let queue = match &manifest.beneath[..] {
        [whole, ..] if manifest.partition_start.is_some() => &whole.queue,
        _ => &manifest.queue,
    };
    let text = |name: &str| queue.get(name).cloned();
    let bytes = |name: &str| text(name)?.parse().ok();
    let disk = Disk {
        path: roots.dev().join(node_name(&manifest)),
        partition_of,
        rotational: text("rotational").map(|flag| flag == "1"),
        logical_sector_bytes: bytes("logical_block_size"),
        physical_sector_bytes: bytes("physical_block_size"),
        write_cache: text("write_cache"),
        model: manifest.model,
        interface: manifest.interface,
        backing: manifest.backing,
        size_bytes: manifest.size_bytes,
        rotations_per_minute: manifest.rotations_per_minute,
    };
    (disk.size_bytes > 0).then_some(disk)
}

/// Returns the name of the node below /dev: the kernel writes `!` for `/` in names of directories.
fn node_name(manifest: &DeviceManifest) -> String {
    manifest.name.replace('!', "/")
}

fn state_at(
    disk: &Disk,
    roots: &Roots,
    content: &dyn Fn(&Path, DeviceNumber) -> DiskState,
) -> DiskState {
    let Some((number, directory)) = directory_of(disk, roots) else {
        return DiskState::Unknown {
            reason: "it was removed".to_owned(),
            needs_root: false,
        };
    };
    if let Some(mounted) = mounted(number, roots) {
        return mounted;
    }
    let uses = uses_of(number, roots);
    if !uses.is_empty() {
        return DiskState::Used { uses };
    }
    if read_trimmed(&directory.join("ro")).as_deref() == Some("1") {
        return DiskState::ReadOnly;
    }
    let state = content(&disk.path, number);
    if disk.partition_of.is_some() && has_partition_table(&state) {
        // An extended partition holds the tables of the logical ones, which are beside it.
        let whole = block::number_in(&block::whole_disk(&directory));
        let uses = whole.map_or_else(Vec::new, |whole| uses_of(whole, roots));
        if !uses.is_empty() {
            return DiskState::Used { uses };
        }
    }
    state
}

/// Returns how the kernel and other processes use a device, or one that shares its content.
fn uses_of(number: DeviceNumber, roots: &Roots) -> Vec<String> {
    let stack = stack::look(number, roots);
    let openers = stack::openers(&stack.shares, roots);
    let mut uses = stack.uses;
    uses.extend(openers.into_iter().map(|(_, text)| text));
    uses
}

/// Returns whether a device holds a DOS partition table.
fn has_partition_table(state: &DiskState) -> bool {
    match state {
        DiskState::Holds { signatures } => signatures.iter().any(|found| found == "dos"),
        _ => false,
    }
}

fn directory_of(disk: &Disk, roots: &Roots) -> Option<(DeviceNumber, PathBuf)> {
    let name = disk.path.strip_prefix(roots.dev()).ok()?;
    let name = name.to_string_lossy().replace('/', "!");
    let link = roots.sys.join("class/block").join(name);
    let directory = link.canonicalize().ok()?;
    Some((block::number_in(&directory)?, directory))
}

fn is_read_only(mount: &Mount) -> bool {
    mount.all_options().iter().any(|option| option == "ro")
}

/// Returns the mount of a device that this process sees. A mount over a single file, as containers
/// have them, is none.
fn mounted(number: DeviceNumber, roots: &Roots) -> Option<DiskState> {
    let text = std::fs::read(roots.proc.join("thread-self/mountinfo")).unwrap_or_default();
    let mut found: Option<Mount> = None;
    for mount in mountinfo::parse(&text) {
        if storage::number_below(&mount, roots) != Some(number) || mount.point.is_file() {
            continue;
        }
        if found
            .as_ref()
            .is_none_or(|found| is_read_only(found) && !is_read_only(&mount))
        {
            found = Some(mount);
        }
    }
    let mount = found?;
    Some(DiskState::Mounted {
        read_only: is_read_only(&mount),
        file_system: mount.kind,
        point: mount.point,
    })
}

/// Reads what is on an unused device, if `path` still leads to the one with that number.
fn content(path: &Path, number: DeviceNumber) -> DiskState {
    let is_root = rustix::process::geteuid().is_root();
    let unknown = |reason: String, error: Option<&std::io::Error>| DiskState::Unknown {
        reason,
        needs_root: !is_root
            && error.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied),
    };
    let device = match Pinned::open(path) {
        Ok(device) => device,
        Err(Unpinned::Missing(error) | Unpinned::Refused(error)) => {
            return unknown(attempt("open", path, &error).to_string(), Some(&error));
        }
        Err(Unpinned::NoBlockDevice) => {
            return unknown(format!("{} is not a block device", path.display()), None);
        }
    };
    if device.number() != number {
        let reason = format!("{} leads to another device", path.display());
        return unknown(reason, None);
    }
    // The claim ends at once: others may mount the device while it is read.
    match device.open_again(false, true).map(drop) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            let uses = vec![CLAIMED.to_owned()];
            return DiskState::Used { uses };
        }
        Err(error) => return unknown(attempt("open", path, &error).to_string(), Some(&error)),
        Ok(()) => {}
    }
    match medium::content(&device) {
        Ok(found) if found.is_empty() => DiskState::Empty,
        Ok(signatures) => DiskState::Holds { signatures },
        Err(why) => unknown(why.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree {
        directory: tempfile::TempDir,
        roots: Roots,
    }

    impl Tree {
        fn new() -> Tree {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            let roots = Roots::below(&root);
            let tree = Tree { directory, roots };
            for folder in ["dev/block", "block", "class/block"] {
                std::fs::create_dir_all(tree.roots.sys.join(folder)).unwrap();
            }
            std::fs::create_dir_all(&tree.roots.proc).unwrap();
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Adds a disk such as `sdq` or a partition such as `sdq/sdq1`, with a size in sectors.
        fn device(&self, path: &str, minor: u32, sectors: u64) {
            let place = format!("sys/devices/{path}");
            self.write(&format!("{place}/dev"), &format!("4000:{minor}\n"));
            self.write(&format!("{place}/size"), &format!("{sectors}\n"));
            let name = path.rsplit('/').next().unwrap();
            let mut links = vec![
                format!("dev/block/4000:{minor}"),
                format!("class/block/{name}"),
            ];
            if path.contains('/') {
                self.write(&format!("{place}/partition"), "1\n");
                self.write(&format!("{place}/start"), "2048\n");
            } else {
                links.push(format!("block/{path}"));
            }
            for link in links {
                let target = self.roots.sys.join("devices").join(path);
                std::os::unix::fs::symlink(target, self.roots.sys.join(link)).unwrap();
            }
        }

        fn mount(&self, lines: &str) {
            self.write("proc/thread-self/mountinfo", lines);
        }

        /// Returns the states by device, if every unused one is empty.
        fn states(&self) -> Vec<(String, DiskState)> {
            let mut states = Vec::new();
            for disk in list_at(&self.roots) {
                let state = state_at(&disk, &self.roots, &|_, _| DiskState::Empty);
                states.push((name_of(&disk.path), state));
            }
            states
        }
    }

    #[test]
    fn a_disk_has_its_facts_and_its_partitions_share_them() {
        let tree = Tree::new();
        tree.device("sdq", 0, 8192);
        tree.device("sdq/sdq10", 10, 1024);
        tree.device("sdq/sdq2", 2, 2048);
        tree.device("sr7", 90, 0);
        for (file, text) in [
            ("device/model", "Fast Disk  "),
            ("queue/rotational", "0"),
            ("queue/logical_block_size", "512"),
            ("queue/physical_block_size", "4096"),
            ("queue/write_cache", "write back"),
        ] {
            tree.write(&format!("sys/devices/sdq/{file}"), text);
        }
        let disks = list_at(&tree.roots);
        let names: Vec<String> = disks.iter().map(|disk| name_of(&disk.path)).collect();
        assert_eq!(names, ["sdq", "sdq2", "sdq10"], "a drive without a medium");
        assert_eq!(disks[0].model.as_deref(), Some("Fast Disk"));
        assert_eq!(
            (disks[0].size_bytes, disks[1].size_bytes),
            (4 << 20, 1 << 20)
        );
        for disk in &disks {
            let sectors = (disk.logical_sector_bytes, disk.physical_sector_bytes);
            assert_eq!(sectors, (Some(512), Some(4096)), "{:?}", disk.path);
            assert_eq!(disk.rotational, Some(false));
            assert_eq!(disk.write_cache.as_deref(), Some("write back"));
        }
        assert_eq!(disks[1].partition_of.as_ref(), Some(&disks[0].path));
    }

    #[test]
    fn every_use_of_a_device_is_found() {
        let tree = Tree::new();
        tree.device("sdq", 0, 8192);
        tree.device("sdq/sdq1", 1, 1024);
        tree.device("sdq/sdq2", 2, 1024);
        tree.device("sdr", 16, 8192);
        tree.device("sds", 32, 8192);
        tree.device("sdt", 48, 8192);
        tree.write("sys/devices/sdr/holders/md127/md/level", "raid1\n");
        tree.write("sys/devices/sds/ro", "1\n");
        // The first mount is read-only, and the second is not.
        tree.mount(
            "30 1 4000:1 / /srv/old ro - xfs /dev/sdq1 ro\n31 1 4000:1 / /srv/new rw - xfs /dev/sdq1 rw\n",
        );
        tree.write(
            "proc/7/mountinfo",
            "31 1 4000:1 / /srv/new rw - xfs /dev/sdq1 rw\n",
        );
        std::fs::create_dir_all(tree.roots.proc.join("7/ns")).unwrap();
        std::os::unix::fs::symlink("mnt:[1]", tree.roots.proc.join("7/ns/mnt")).unwrap();
        let uses = |text: &str| DiskState::Used {
            uses: vec![text.to_owned()],
        };
        let mounted = DiskState::Mounted {
            file_system: "xfs".to_owned(),
            point: "/srv/new".into(),
            read_only: false,
        };
        let expected = [
            ("sdq", uses("sdq1 is mounted at /srv/new")),
            ("sdq1", mounted),
            ("sdq2", DiskState::Empty),
            ("sdr", uses("sdr is a member of the array md127")),
            ("sds", DiskState::ReadOnly),
            ("sdt", DiskState::Empty),
        ];
        for (found, (name, state)) in tree.states().iter().zip(expected) {
            assert_eq!((found.0.as_str(), &found.1), (name, &state));
        }
        assert_eq!(tree.states().len(), 6);
    }

    #[test]
    fn an_extended_partition_is_used_if_another_of_its_disk_is() {
        let tree = Tree::new();
        tree.device("sdq", 0, 8192);
        tree.device("sdq/sdq2", 2, 2);
        tree.device("sdq/sdq5", 5, 1024);
        let table = |_: &Path, _: DeviceNumber| DiskState::Holds {
            signatures: vec!["dos".to_owned()],
        };
        let state = || state_at(&list_at(&tree.roots)[1], &tree.roots, &table);
        assert!(matches!(state(), DiskState::Holds { .. }), "{:?}", state());
        let mount = "31 1 4000:5 / /srv/new rw - xfs /dev/sdq5 rw\n";
        tree.mount(mount);
        tree.write("proc/7/mountinfo", mount);
        std::fs::create_dir_all(tree.roots.proc.join("7/ns")).unwrap();
        std::os::unix::fs::symlink("mnt:[1]", tree.roots.proc.join("7/ns/mnt")).unwrap();
        let uses = vec!["sdq5 is mounted at /srv/new".to_owned()];
        assert_eq!(state(), DiskState::Used { uses });
    }

    #[test]
    fn a_mount_point_that_is_not_utf_8_is_written_nevertheless() {
        use std::os::unix::ffi::OsStrExt;
        let point = std::ffi::OsStr::from_bytes(b"/srv/\xff");
        let state = DiskState::Mounted {
            file_system: "xfs".to_owned(),
            point: point.into(),
            read_only: false,
        };
        let text = serde_json::to_string(&state).unwrap();
        assert!(text.contains("/srv/\u{fffd}"), "{text}");
    }

    /// The kernel gives no device these numbers. Containers have no loop device.
    #[test]
    fn a_name_that_leads_to_another_device_is_not_read() {
        let path = Path::new("/dev/loop0");
        if Pinned::open(path).is_err() {
            return;
        }
        let state = content(path, DeviceNumber(4000, 1));
        let DiskState::Unknown { reason, .. } = state else {
            panic!("{state:?}");
        };
        assert_eq!(reason, "/dev/loop0 leads to another device");
    }

    #[test]
    fn a_device_that_cannot_be_read_is_not_called_empty() {
        let tree = Tree::new();
        tree.device("sdq", 0, 8192);
        let disk = &list_at(&tree.roots)[0];
        let state = state_at(disk, &tree.roots, &content);
        assert!(
            matches!(
                state,
                DiskState::Unknown {
                    needs_root: false,
                    ..
                }
            ),
            "{state:?}"
        );
    }
}
