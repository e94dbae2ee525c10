//! A block device that was looked up by name once. From then on it is an open descriptor and a
//! number, whatever the name leads to later. Other users may own a link in the path, and udev moves
//! the links below /dev/disk when signatures change.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::host::DeviceId;
use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, makedev, mknodat, open,
};
use rustix::io::Errno;

use crate::block::{self, DeviceNumber};
use crate::error::{Refusal, TestbedError, attempt};
use crate::{Roots, poll_until, read_trimmed};

/// The reason why a path leads to no usable device.
#[derive(Debug)]
pub enum Unpinned {
    /// The path cannot be opened.
    Missing(io::Error),
    /// The path leads to something else than a block device.
    NoBlockDevice,
    /// The device cannot be opened.
    Refused(io::Error),
}

/// A block device that is kept open, so that the kernel gives its number to no other device.
#[derive(Debug)]
pub struct Pinned {
    shown: PathBuf,
    number: DeviceNumber,
    /// Open for reading, not exclusive.
    fd: OwnedFd,
}

impl Pinned {
    /// Resolves and opens `path` once.
    pub fn open(path: &Path) -> Result<Pinned, Unpinned> {
        let (found, number) = find(path)?;
        let fd = reopen(&found, number, OFlags::RDONLY).map_err(Unpinned::Refused)?;
        Ok(Pinned {
            shown: path.to_owned(),
            number,
            fd,
        })
    }

    /// Opens a device whose number is known. Fails if `path` leads to another device.
    pub fn known(path: &Path, number: DeviceNumber) -> io::Result<Pinned> {
        let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        expect(&fd, number)?;
        Ok(Pinned {
            shown: path.to_owned(),
            number,
            fd,
        })
    }

    /// Wraps an open device with the name `path`.
    pub fn new(fd: OwnedFd, path: PathBuf) -> io::Result<Pinned> {
        let number = number_behind(&fd)?.ok_or_else(another)?;
        Ok(Pinned {
            shown: path,
            number,
            fd,
        })
    }

    /// Returns the path as it was named.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// Returns the device number together with the sequence number, which distinguishes devices
    /// that had the same number.
    pub fn id(&self, roots: &Roots) -> DeviceId {
        id_of(self.number, roots)
    }

    /// Returns the descriptor that keeps the device, open for reading.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns the owned descriptor that keeps the device.
    pub fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    /// Opens the same device once more, as [`block::open`] does.
    pub fn open_again(&self, write: bool, exclusive: bool) -> io::Result<OwnedFd> {
        expect(&self.fd, self.number)?;
        reopen(&self.fd, self.number, block::flags(write, exclusive))
    }

    /// Locks the device, which makes udev leave it alone. udev may hold the lock itself for an
    /// instant. If the lock fails, udev may probe the device once more, which is not worth a
    /// failure.
    pub fn lock_against_udev(&self) {
        poll_until(Duration::from_secs(5), || {
            flock(&self.fd, FlockOperation::NonBlockingLockExclusive) != Err(Errno::AGAIN)
        });
    }

    /// Releases the lock for a program that insists on locking the device itself.
    pub fn unlock(&self) {
        // Releasing our own lock cannot fail.
        let _ = flock(&self.fd, FlockOperation::Unlock);
    }
}

/// Returns the device that `path` leads to now. Returns `None` if it leads to none.
pub fn id_at(path: &Path, roots: &Roots) -> Option<DeviceId> {
    find(path).ok().map(|(_, number)| id_of(number, roots))
}

fn id_of(number: DeviceNumber, roots: &Roots) -> DeviceId {
    let disk = number
        .directory(roots)
        .map(|directory| block::whole_disk(&directory));
    let sequence = disk.and_then(|disk| read_trimmed(&disk.join("diskseq"))?.parse().ok());
    DeviceId {
        major: number.0,
        minor: number.1,
        sequence,
    }
}

/// Examines `path` before opening it, because opening a tape or a pipe has side effects.
fn find(path: &Path) -> Result<(OwnedFd, DeviceNumber), Unpinned> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let found = found.map_err(|errno| Unpinned::Missing(errno.into()))?;
    match number_behind(&found) {
        Ok(Some(number)) => Ok((found, number)),
        Ok(None) => Err(Unpinned::NoBlockDevice),
        Err(error) => Err(Unpinned::Refused(error)),
    }
}

/// Opens the device again through its descriptor, not through a name.
fn reopen(fd: &OwnedFd, number: DeviceNumber, flags: OFlags) -> io::Result<OwnedFd> {
    let again = open(
        format!("/proc/self/fd/{}", fd.as_raw_fd()),
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    expect(&again, number)?;
    Ok(again)
}

fn expect(fd: &OwnedFd, number: DeviceNumber) -> io::Result<()> {
    if number_behind(fd)? == Some(number) {
        Ok(())
    } else {
        Err(another())
    }
}

fn another() -> io::Error {
    io::Error::other("this is another device")
}

fn number_behind(fd: &OwnedFd) -> io::Result<Option<DeviceNumber>> {
    let stat = fstat(fd)?;
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    Ok(is_block.then(|| DeviceNumber::from_raw(stat.st_rdev)))
}

/// A private device node on a tmpfs that no other process sees. Dropping the value removes it.
///
/// mkfs programs, mount and FUSE servers open a device by its path, and some resolve the path once
/// more themselves. A link below /proc/self/fd would lead them back to the name, which other users
/// may change. A device node holds only the device number.
#[derive(Debug)]
pub struct Node {
    path: PathBuf,
    number: DeviceNumber,
}

impl Node {
    /// Makes a node in `directory` under the kernel's name of the device. `shown` is the name for
    /// messages.
    ///
    /// # Errors
    ///
    /// Fails if no device node can be made. A path is not an alternative, because it can change
    /// between its check and its use.
    pub fn make(
        directory: Option<&Path>,
        number: DeviceNumber,
        shown: &Path,
    ) -> Result<Node, TestbedError> {
        let fail = |tried: Refusal| {
            TestbedError::machine(format!(
                "{} cannot be formatted safely: nothing was changed",
                shown.display()
            ))
            .tried(tried)
            .advice(
                "run as root where device nodes can be made (CAP_MKNOD; not in a user namespace)",
            )
        };
        let directory =
            directory.ok_or_else(|| fail("no place for a private device node".into()))?;
        let path = directory.join(name_of(number));
        // Removes the node of a medium that has been closed.
        let _ = std::fs::remove_file(&path);
        mknodat(
            CWD,
            &path,
            FileType::BlockDevice,
            Mode::RUSR | Mode::WUSR,
            makedev(number.0, number.1),
        )
        .map_err(|errno| fail(attempt("mknod", &path, &errno.into())))?;
        let node = Node { path, number };
        // On a tmpfs of a user namespace, or with a seccomp profile that only pretends to run
        // mknod, the node does not work.
        match block::open(&node.path, false, false) {
            Ok(_) if node.is_intact() => Ok(node),
            Ok(_) => Err(fail(
                format!("mknod {}: it is another device", node.path.display()).into(),
            )),
            Err(error) => Err(fail(attempt("open", &node.path, &error))),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path still holds the node that was made.
    pub fn verify(&self, shown: &Path) -> Result<(), TestbedError> {
        if self.is_intact() {
            return Ok(());
        }
        let what = format!(
            "the private node of {} was replaced by another",
            shown.display()
        );
        Err(TestbedError::machine(what).tried(format!("stat {}", self.path.display())))
    }

    fn is_intact(&self) -> bool {
        let is_link =
            std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.is_symlink());
        !is_link && block::number_of(&self.path) == Some(self.number)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // An error is ignored: the node is on a private tmpfs that goes away anyway.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns a name such as `sda1`, by which drivers, tools and /sys know the device.
fn name_of(number: DeviceNumber) -> String {
    let directory = number.directory(&Roots::default());
    let name = directory
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("{}-{}", number.0, number.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_devices_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        // Opening it would wait for a writer.
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(Pinned::open(&pipe), Err(Unpinned::NoBlockDevice)));
        assert!(matches!(
            Pinned::open(Path::new("/dev/null")),
            Err(Unpinned::NoBlockDevice)
        ));
        assert!(matches!(
            Pinned::open(&directory.path().join("none")),
            Err(Unpinned::Missing(_))
        ));
        assert_eq!(id_at(&pipe, &Roots::default()), None);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_device() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        let partition = tree.path().join("devices/sda/sda1");
        std::fs::create_dir_all(&partition).unwrap();
        std::fs::create_dir_all(tree.path().join("dev/block")).unwrap();
        std::fs::write(partition.join("partition"), "1\n").unwrap();
        std::os::unix::fs::symlink(&partition, tree.path().join("dev/block/8:1")).unwrap();
        let id = || id_of(DeviceNumber(8, 1), &roots);
        assert_eq!(
            id(),
            DeviceId {
                major: 8,
                minor: 1,
                sequence: None
            }
        );
        let mut before = id();
        for sequence in ["3\n", "9\n"] {
            std::fs::write(tree.path().join("devices/sda/diskseq"), sequence).unwrap();
            assert_ne!(id(), before);
            before = id();
        }
    }
}
