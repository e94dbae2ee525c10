//! The undo actions, among them the removal of a cgroup that a run left behind.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_sys::blkpg::{self, Partition};
use fsb_sys::block::DeviceNumber;
use fsb_sys::error::{Refusal, attempt};
use fsb_sys::zpool::Pool;
use fsb_sys::{
    Roots, cgroup, dm, loopdev, magic, md, mountinfo, poll_until, read_trimmed, swap, systemd,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::access::{self, Obstacle};

/// Names of directories that [`Action::RemoveDirectory`] may remove.
pub(crate) const DIRECTORY_PREFIX: &str = ".fsb-";
/// The beginning of the names of mapped devices that [`Action::RemoveMapping`] may remove.
pub(crate) const MAPPING_PREFIX: &str = "fsb-";
/// Partitions that fsb adds begin and end at multiples of these bytes.
pub(crate) const GRAIN: u64 = 1 << 20;

/// An action that undoes one change. Undoing it twice has the same effect as undoing it once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Write the old value back into a file of /proc or /sys.
    WriteFile {
        /// The file.
        path: PathBuf,
        /// The old value.
        value: String,
    },
    /// Remove a directory that fsb made, with everything in it.
    RemoveDirectory {
        /// The path, which ends in a name that only fsb gives: `.fsb-` and a random number.
        path: PathBuf,
        /// The user that the directory may have been given to. Otherwise it belongs to the user who
        /// runs fsb.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<u32>,
        /// The mount that holds it. `None` if the directory does not outlive its mount.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mount: Option<MountOfDirectory>,
    },
    /// Take a loop device out of the kernel.
    RemoveLoop {
        /// N of `/dev/loopN`.
        index: u32,
        /// Create a new one in its place, because it existed before.
        again: bool,
        /// The file that fsb attached to it. If another file is attached, another process uses the
        /// device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<PathBuf>,
    },
    /// Stop an array of the kernel's md that fsb made.
    StopArray {
        /// N of `/dev/mdN`.
        number: u32,
        /// Names of its members, sorted. An array with other members belongs to another program.
        members: Vec<String>,
    },
    /// Export a pool of ZFS that fsb made, and remove the node of its device.
    ExportPool {
        /// Number of the device: major.
        major: u32,
        /// Number of the device: minor.
        minor: u32,
    },
    /// Remove a device of the device mapper that fsb made.
    RemoveMapping {
        /// The name, which begins with `fsb-`.
        name: String,
    },
    /// Remove a partition from the kernel that fsb added and that no table on the disk contains.
    RemovePartition {
        /// Number of the disk: major.
        major: u32,
        /// Number of the disk: minor.
        minor: u32,
        /// The partition. Another partition of that number belongs to another program.
        partition: Partition,
    },
    /// Switch a swap area on.
    SwapOn {
        /// The file or device.
        path: PathBuf,
        /// The priority. It is negative if the kernel chose it, and will choose it again.
        priority: i32,
    },
    /// Start a unit of systemd.
    StartUnit {
        /// The name, with its suffix.
        unit: String,
    },
    /// Remove a cgroup that fsb made, with the processes in it and the cgroups below it.
    RemoveCgroup {
        /// The directory, whose name begins with `fsb-`.
        path: PathBuf,
    },
}

/// The mount that holds a directory of fsb. While it is away, the directory is neither gone nor can
/// it be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOfDirectory {
    /// The mount point.
    pub point: PathBuf,
    /// The driver, as named when mounting.
    pub kind: String,
    /// The mounted source.
    pub source: PathBuf,
}

impl MountOfDirectory {
    /// Returns the mount that holds `directory`. Returns `None` for files in memory, which end with
    /// their mount.
    pub(crate) fn holding(directory: &Path) -> Option<MountOfDirectory> {
        let real = directory.canonicalize().ok()?;
        let mount = mountinfo::holding(&mountinfo::read(), &real)?;
        (!magic::is_memory(&real)).then_some(MountOfDirectory {
            point: mount.point,
            kind: mount.kind,
            source: mount.source,
        })
    }

    /// Returns whether the topmost mount at its point is of the same kind and source. Numbers of
    /// devices do not count: file systems without a device get another one at each mount.
    fn is_there(&self) -> bool {
        mountinfo::at(&self.point)
            .is_some_and(|mount| mount.kind == self.kind && mount.source == self.source)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::WriteFile { path, value } => {
                write!(f, "write '{value}' back to {}", path.display())
            }
            Action::RemoveDirectory { path, .. } => write!(f, "remove {}", path.display()),
            Action::RemoveLoop {
                index, again: true, ..
            } => write!(f, "renew /dev/loop{index}"),
            Action::RemoveLoop {
                index,
                again: false,
                ..
            } => write!(f, "remove /dev/loop{index}"),
            Action::StopArray { number, .. } => write!(f, "stop the array /dev/md{number}"),
            Action::ExportPool { major, minor } => {
                let pool = Pool::of_number(DeviceNumber(*major, *minor));
                write!(f, "export the pool {}", pool.name())
            }
            Action::RemoveMapping { name } => write!(f, "remove the mapped device {name}"),
            Action::RemovePartition {
                major,
                minor,
                partition,
            } => {
                write!(
                    f,
                    "remove partition {} of {major}:{minor} from the kernel",
                    partition.number
                )
            }
            Action::SwapOn { path, .. } => write!(f, "switch swap on {} on again", path.display()),
            Action::StartUnit { unit } => write!(f, "start {unit} again"),
            Action::RemoveCgroup { path } => write!(f, "remove the cgroup {}", path.display()),
        }
    }
}

impl Action {
    /// Returns whether the change survives a reboot.
    pub(super) fn survives_boot(&self) -> bool {
        matches!(self, Action::RemoveDirectory { .. })
    }

    /// Returns the setting that only one run at a time may change. Two runs that changed it would
    /// each restore the value that the other one set.
    pub(super) fn subject(&self) -> Option<String> {
        match self {
            Action::WriteFile { path, .. } | Action::SwapOn { path, .. } => {
                Some(path.display().to_string())
            }
            Action::StartUnit { unit } => Some(unit.clone()),
            Action::RemoveDirectory { .. }
            | Action::RemoveLoop { .. }
            | Action::StopArray { .. }
            | Action::ExportPool { .. }
            | Action::RemoveMapping { .. }
            | Action::RemovePartition { .. }
            | Action::RemoveCgroup { .. } => None,
        }
    }

    /// Undoes the change. Returns a description of the effect, or the reason for the failure.
    pub(super) fn undo(&self, roots: &Roots) -> Result<String, Refusal> {
        match self {
            Action::WriteFile { path, value } => restore(path, value, roots),
            Action::RemoveDirectory { path, uid, .. } => remove_directory(path, *uid),
            Action::RemoveLoop {
                index,
                again,
                image,
            } => loopdev::renew(*index, *again, image.as_deref()).map(|others| match others {
                Some(others) => format!(
                    "left /dev/loop{index} to the process that attached {}",
                    others.display()
                ),
                None => self.to_string(),
            }),
            Action::StopArray { number, members } => md::stop(*number, members),
            Action::ExportPool { major, minor } => {
                Pool::of_number(DeviceNumber(*major, *minor)).remove()
            }
            Action::RemoveMapping { name } => dm::remove(name),
            Action::RemovePartition {
                major,
                minor,
                partition,
            } => blkpg::remove(DeviceNumber(*major, *minor), partition, roots),
            Action::SwapOn { path, priority } => swap_on(path, *priority),
            Action::StartUnit { unit } => systemd::start(unit).map(|()| format!("started {unit}")),
            Action::RemoveCgroup { path } => remove(path),
        }
    }
}

impl Action {
    /// Returns the reason why the change can neither be found nor be gone: the file system that
    /// shows it is not mounted here.
    pub(super) fn out_of_reach(&self, roots: &Roots) -> Option<String> {
        match self {
            Action::RemoveDirectory { path, mount, .. } => {
                let mount = mount.as_ref()?;
                let is_missing = std::fs::symlink_metadata(path)
                    .is_err_and(|error| error.kind() == ErrorKind::NotFound);
                (is_missing && !mount.is_there()).then(|| {
                    format!(
                        "{} ({}) is not mounted at {}; mount it there and run 'fsb clean'",
                        mount.source.display(),
                        mount.kind,
                        mount.point.display()
                    )
                })
            }
            Action::SwapOn { .. } | Action::StartUnit { .. } => None,
            Action::WriteFile { .. }
            | Action::RemoveLoop { .. }
            | Action::StopArray { .. }
            | Action::RemovePartition { .. }
            | Action::ExportPool { .. }
            | Action::RemoveMapping { .. }
            | Action::RemoveCgroup { .. } => {
                // Tests have a machine of their own.
                let is_real = *roots == Roots::default();
                let missing = [&roots.proc, &roots.sys]
                    .into_iter()
                    .find(|root| is_real && !magic::is_pseudo(root))?;
                Some(format!(
                    "{} is not mounted here; run 'fsb clean' where it is",
                    missing.display()
                ))
            }
        }
    }

    /// Returns the file that the action writes, if it writes one.
    pub(crate) fn written(&self) -> Option<&Path> {
        match self {
            Action::WriteFile { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// Writes the old value back. A file that no longer exists needs no undo.
fn restore(path: &Path, value: &str, roots: &Roots) -> Result<String, Refusal> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err("its name now belongs to something else".into());
    }
    // Only files of the kernel may be written, except in tests, which have a machine of their own.
    if *roots == Roots::default() && path.exists() && !magic::is_pseudo(path) {
        return Err("it is not a file of the kernel".into());
    }
    if fsb_sys::read_trimmed(path).as_deref() == Some(value.trim()) {
        return Ok(format!("{} holds '{value}' already", path.display()));
    }
    // Not `fs::write`, which would create a missing file.
    let opened = File::options()
        .write(true)
        .truncate(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path);
    match opened.and_then(|mut file| file.write_all(value.as_bytes())) {
        Ok(()) => Ok(format!("wrote '{value}' back to {}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(format!("{} is gone", path.display()))
        }
        Err(error) => Err(attempt("write", path, &error)),
    }
}

/// Removes the directory. Never follows a link, and refuses a directory that belongs to another
/// user.
fn remove_directory(path: &Path, uid: Option<u32>) -> Result<String, Refusal> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(format!("{} is gone", path.display()));
        }
        Err(error) => {
            return Err(match access::obstacle(path, &error) {
                Some(Obstacle { why, advice }) => {
                    format!("{why}; {advice}, and run 'fsb clean'").into()
                }
                None => attempt("examine", path, &error),
            });
        }
    };
    if !metadata.is_dir() {
        return Err("its name now belongs to something else".into());
    }
    let owners = [Some(rustix::process::geteuid().as_raw()), uid];
    if !owners.contains(&Some(metadata.uid())) && !is_mapped(path, metadata.uid()) {
        return Err(format!("it belongs to user {} now", metadata.uid()).into());
    }
    fsb_store::remove_tree(path).map_err(|error| attempt("remove", path, &error))?;
    Ok(format!("removed {}", path.display()))
}

/// Returns whether the file system gives every new file of this process to `owner`.
fn is_mapped(path: &Path, owner: u32) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(std::io::Error::from)
        .and_then(shown_by_file_system)
        .is_ok_and(|(uid, _)| uid == owner)
}

/// Returns the owner and the mode that the file system shows for a directory that this process
/// makes with mode 0700. Most show those; others have fixed modes, or give root's files to another
/// user. Makes the directory below `directory`, and removes it.
pub(crate) fn shown_by_file_system(directory: impl AsFd) -> std::io::Result<(u32, u32)> {
    let name = format!("{DIRECTORY_PREFIX}{}", fsb_sys::random_name());
    rustix::fs::mkdirat(&directory, &name, Mode::RWXU)?;
    let shown = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW);
    rustix::fs::unlinkat(&directory, &name, AtFlags::REMOVEDIR)?;
    let shown = shown?;
    Ok((shown.st_uid, shown.st_mode & 0o7777))
}

/// Switches a swap area on. Refuses a file that another user than root could have filled, because
/// the kernel would read other processes' memory from it.
fn swap_on(path: &Path, priority: i32) -> Result<String, Refusal> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata)
            if !metadata.file_type().is_block_device()
                && (!metadata.is_file() || metadata.uid() != 0 || metadata.mode() & 0o022 != 0) =>
        {
            Err("it is neither a block device nor a file that only root may write".into())
        }
        _ => swap::on(path, priority),
    }
}

/// The time limit for killed processes to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills the processes in the cgroup and below it, and removes both. Returns a description, or the
/// reason for the failure.
pub(super) fn remove(path: &Path) -> Result<String, Refusal> {
    let named = cgroup::is_own(path);
    // Any directory may have this name, but only the kernel creates directories with this file.
    let is_cgroup = path.join("cgroup.procs").exists();
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(format!("{} is gone", path.display()));
        }
        Err(error) => return Err(attempt("examine", path, &error)),
        Ok(metadata) if named && is_cgroup && metadata.is_dir() => {}
        Ok(_) => return Err("it is not a cgroup of fsb".into()),
    }
    let mut answer = Ok(());
    poll_until(PATIENCE, || {
        answer = remove_tree(path);
        answer.is_ok()
    });
    answer
        .map(|()| format!("removed the cgroup {}", path.display()))
        .map_err(|error| attempt("remove", path, &error))
}

/// Removes children first, because the kernel removes only empty cgroups.
fn remove_tree(path: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    {
        remove_tree(&entry.path())?;
    }
    kill_members(path);
    std::fs::remove_dir(path)
}

/// Kills the processes of the cgroup by their ids in this PID namespace. The id 0 is a process of
/// another namespace, which this process cannot signal.
fn kill_members(path: &Path) {
    let members = read_trimmed(&path.join("cgroup.procs")).unwrap_or_default();
    let own = rustix::process::getpid();
    let pids = members
        .lines()
        .filter_map(|line| Pid::from_raw(line.trim().parse().ok()?));
    for pid in pids.filter(|pid| *pid != own) {
        // The process may have ended already.
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cgroups_of_ours_are_removed() {
        let tree = tempfile::tempdir().unwrap();
        let other = tree.path().join("fsb-data");
        std::fs::create_dir(&other).unwrap();
        assert_eq!(
            remove(&other).unwrap_err(),
            "it is not a cgroup of fsb".into()
        );
        std::fs::write(other.join("cgroup.procs"), "").unwrap();
        let foreign = tree.path().join("system");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("cgroup.procs"), "").unwrap();
        assert_eq!(
            remove(&foreign).unwrap_err(),
            "it is not a cgroup of fsb".into()
        );
        assert!(
            remove(&tree.path().join("fsb-gone"))
                .unwrap()
                .ends_with("is gone")
        );
    }

    #[test]
    fn processes_left_in_a_cgroup_are_killed() {
        let hierarchies = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(Path::new);
        let root = hierarchies
            .into_iter()
            .find(|path| path.join("cgroup.procs").exists())
            .unwrap_or(hierarchies[1]);
        let path = root.join(format!("fsb-test-{}", std::process::id()));
        if std::fs::create_dir(&path).is_err() {
            fsb_testkit::left_out(
                "processes_left_in_a_cgroup_are_killed",
                "needs root, and cgroups that can be made",
            );
            return;
        }
        let below = path.join("below");
        std::fs::create_dir(&below).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        std::fs::write(below.join("cgroup.procs"), child.id().to_string()).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
        assert!(!child.wait().unwrap().success());
    }
}
