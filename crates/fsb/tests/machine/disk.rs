//! Loop devices of tests.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{stderr, stdout, wait_until};

/// A loop device of a test; dropping it removes it.
pub struct Disk {
    pub path: PathBuf,
    image: tempfile::NamedTempFile,
}

impl Disk {
    /// Creates an empty disk.
    pub fn new(megabytes: u64) -> Disk {
        Disk::attached(megabytes, &["--find", "--show"])
    }

    fn attached(megabytes: u64, arguments: &[&str]) -> Disk {
        let image = tempfile::NamedTempFile::new().expect("an image");
        image.as_file().set_len(megabytes << 20).expect("an image");
        let output = Command::new("losetup").args(arguments).arg(image.path()).output().expect("losetup runs");
        assert!(output.status.success(), "{}", stderr(&output));
        Disk { path: stdout(&output).trim().into(), image }
    }

    /// Creates a disk with an ext4 on it.
    pub fn formatted(megabytes: u64) -> Disk {
        let disk = Disk::new(megabytes);
        disk.run("mkfs.ext4", &["-q", "-F"]);
        disk
    }

    /// Creates a disk with one partition of `sectors` from `first` on, which only the kernel knows, and an ext4 on it.
    pub fn partitioned(megabytes: u64, first: u32, sectors: u32) -> Disk {
        let disk = Disk::attached(megabytes, &["--find", "--show", "--partscan"]);
        let numbers = ["1".to_owned(), first.to_string(), sectors.to_string()];
        let added = Command::new("addpart").arg(&disk.path).args(numbers).status().expect("addpart runs");
        assert!(added.success());
        let formatted = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.partition()).status();
        assert!(formatted.expect("mkfs.ext4 runs").success());
        disk
    }

    fn partition(&self) -> PathBuf {
        format!("{}p1", self.path.display()).into()
    }

    /// Runs the program with its arguments and the device.
    pub fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).arg(&self.path).output().expect("the program runs");
        assert!(output.status.success(), "{program}: {}", stderr(&output));
    }

    /// Mounts the disk on `directory` until the result is dropped.
    pub fn mount(&self, directory: &Path) -> Mounted<'_> {
        self.mount_device(self.path.clone(), directory)
    }

    /// Mounts the only partition on `directory` until the result is dropped.
    pub fn mount_partition(&self, directory: &Path) -> Mounted<'_> {
        self.mount_device(self.partition(), directory)
    }

    fn mount_device(&self, device: PathBuf, directory: &Path) -> Mounted<'_> {
        let mounted = Command::new("mount").arg(&device).arg(directory).status().expect("mount runs");
        assert!(mounted.success());
        Mounted { device, _disk: self }
    }

    pub fn name(&self) -> String {
        self.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    /// Returns the whole content.
    pub fn content(&self) -> Vec<u8> {
        self.run("blockdev", &["--flushbufs"]);
        std::fs::read(self.image.path()).expect("the image")
    }

    /// Returns whether anything was written to its start.
    pub fn is_begun(&self) -> bool {
        let mut start = [0u8; 4096];
        self.image.as_file().read_exact_at(&mut start, 0).expect("the image");
        start.iter().any(|byte| *byte != 0)
    }

    /// Returns the number of bytes that were read from the disk since it was created.
    pub fn bytes_read(&self) -> u64 {
        let counters = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name())).expect("its counters");
        let sectors = counters.split_whitespace().nth(2).and_then(|text| text.parse::<u64>().ok());
        sectors.expect("a number") * 512
    }

    /// Waits until the disk is not mounted in any namespace.
    pub fn wait_until_free(&self) {
        let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
        wait_until("the disk is free", Duration::from_secs(20), || {
            std::fs::File::options().read(true).custom_flags(exclusive).open(&self.path).is_ok()
        });
    }

    /// Returns the path of a setting of its queue.
    pub fn setting(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{file}", self.name()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.path).output();
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

/// A mounted disk or partition.
pub struct Mounted<'a> {
    device: PathBuf,
    _disk: &'a Disk,
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.device).status();
    }
}
