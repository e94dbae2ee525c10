//! A disk for tests; devices that other users try to exchange during a run, and devices that are in
//! use.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::*;

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

    /// Creates an empty disk whose loop device has further options of losetup.
    pub fn attached_with(megabytes: u64, options: &[&str]) -> Disk {
        Disk::attached(megabytes, &[&["--find", "--show"], options].concat())
    }

    fn attached(megabytes: u64, arguments: &[&str]) -> Disk {
        let image = tempfile::NamedTempFile::new().expect("an image");
        image.as_file().set_len(megabytes << 20).expect("an image");
        let output = Command::new("losetup")
            .args(arguments)
            .arg(image.path())
            .output()
            .expect("losetup runs");
        assert!(output.status.success(), "{}", stderr(&output));
        Disk {
            path: stdout(&output).trim().into(),
            image,
        }
    }

    /// Creates a disk with an ext4 on it.
    pub fn formatted(megabytes: u64) -> Disk {
        let disk = Disk::new(megabytes);
        disk.run("mkfs.ext4", &["-q", "-F"]);
        disk
    }

    /// Creates a disk with one partition of `sectors` from `first` on, which only the kernel knows,
    /// and an ext4 on it.
    pub fn partitioned(megabytes: u64, first: u32, sectors: u32) -> Disk {
        let disk = Disk::attached(megabytes, &["--find", "--show", "--partscan"]);
        let numbers = ["1".to_owned(), first.to_string(), sectors.to_string()];
        let added = Command::new("addpart")
            .arg(&disk.path)
            .args(numbers)
            .status()
            .expect("addpart runs");
        assert!(added.success());
        let formatted = Command::new("mkfs.ext4")
            .args(["-q", "-F"])
            .arg(disk.partition())
            .status();
        assert!(formatted.expect("mkfs.ext4 runs").success());
        disk
    }

    fn partition(&self) -> PathBuf {
        format!("{}p1", self.path.display()).into()
    }

    /// Runs the program with its arguments and the device.
    pub fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program)
            .args(arguments)
            .arg(&self.path)
            .output()
            .expect("the program runs");
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
        let mounted = Command::new("mount")
            .arg(&device)
            .arg(directory)
            .status()
            .expect("mount runs");
        assert!(mounted.success());
        Mounted {
            device,
            _disk: self,
        }
    }

    pub fn name(&self) -> String {
        self.path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    }

    /// Returns the whole content.
    pub fn content(&self) -> Vec<u8> {
        self.run("blockdev", &["--flushbufs"]);
        std::fs::read(self.image.path()).expect("the image")
    }

    /// Returns whether anything was written to its start.
    pub fn is_begun(&self) -> bool {
        let mut start = [0u8; 4096];
        self.image
            .as_file()
            .read_exact_at(&mut start, 0)
            .expect("the image");
        start.iter().any(|byte| *byte != 0)
    }

    /// Returns the number of bytes that were read from the disk since it was created.
    pub fn bytes_read(&self) -> u64 {
        let counters = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name()))
            .expect("its counters");
        let sectors = counters
            .split_whitespace()
            .nth(2)
            .and_then(|text| text.parse::<u64>().ok());
        sectors.expect("a number") * 512
    }

    /// Waits until the disk is not mounted in any namespace.
    pub fn wait_until_free(&self) {
        let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
        wait_until("the disk is free", Duration::from_secs(20), || {
            std::fs::File::options()
                .read(true)
                .custom_flags(exclusive)
                .open(&self.path)
                .is_ok()
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
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
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

/// Makes `link` lead to `to` in one step, as an attacker would.
fn lead(link: &Path, to: &Path) {
    let next = link.with_extension("next");
    std::os::unix::fs::symlink(to, &next).unwrap();
    std::fs::rename(&next, link).unwrap();
}

fn disks() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["mkfs.ext4", "losetup"])
}

/// Runs ext4 on `named`, calls `exchange` while the first disk is filled, and expects the run to be
/// made on that disk.
fn attacked(named: &Path, scratch: &Path, first: &Disk, second: &Disk, exchange: impl FnOnce()) {
    tiny_plan(scratch);
    let before = second.content();
    let target = format!("ext4@{}", named.display());
    let running = Running::start(
        scratch,
        &format!("run tiny.toml {target} --blocks 2 --out run -q"),
    );
    wait_until("the disk is being filled", Duration::from_secs(60), || {
        first.is_begun()
    });
    exchange();
    let output = running.wait();
    assert!(
        second.content() == before,
        "a device that nobody named was written to: {}",
        stderr(&output)
    );
    expect_code(&output, 0);
    let record = record(&scratch.join("run"));
    let made = &record["targets"][target.as_str()];
    let command = made["mkfs_command"].as_array().unwrap();
    assert_eq!(
        command.last().unwrap(),
        named.to_str().unwrap(),
        "as it was named: {made:#}"
    );
    let medium = &record["media"][named.to_str().unwrap()];
    assert_eq!(medium["device"]["name"], first.name(), "{medium:#}");
    assert!(
        !record.to_string().contains("/run/fsb"),
        "no private node is shown: {record:#}"
    );
}

#[test]
fn a_link_that_is_changed_while_its_device_is_filled_leads_the_run_nowhere_else() {
    needs!(disks());
    let traces = traces();
    {
        let (scratch, first, second) = (scratch(), Disk::new(192), Disk::formatted(192));
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&first.path, &link).unwrap();
        attacked(&link, scratch.path(), &first, &second, || {
            lead(&link, &second.path)
        });
    }
    expect_no_traces(&traces);
}

#[test]
fn a_directory_that_is_changed_while_the_device_is_filled_leads_the_run_nowhere_else() {
    needs!(disks());
    let (scratch, first, second) = (scratch(), Disk::new(192), Disk::formatted(192));
    for (directory, disk) in [("a", &first), ("b", &second)] {
        std::fs::create_dir(scratch.path().join(directory)).unwrap();
        std::os::unix::fs::symlink(&disk.path, scratch.path().join(directory).join("disk"))
            .unwrap();
    }
    let link = scratch.path().join("by-id");
    std::os::unix::fs::symlink("a", &link).unwrap();
    attacked(&link.join("disk"), scratch.path(), &first, &second, || {
        lead(&link, Path::new("b"))
    });
}

#[test]
fn a_node_that_is_made_anew_with_another_number_leads_the_run_nowhere_else() {
    needs!(disks());
    let (scratch, first, second) = (scratch(), Disk::new(192), Disk::formatted(192));
    let node = scratch.path().join("node");
    let copy = |disk: &Disk| {
        let _ = std::fs::remove_file(&node);
        let made = Command::new("cp")
            .arg("-a")
            .args([&disk.path, &node])
            .status()
            .unwrap();
        assert!(made.success());
    };
    copy(&first);
    if std::fs::File::open(&node).is_err() {
        needs!(Err("a temporary directory that is mounted with devices"));
    }
    attacked(&node, scratch.path(), &first, &second, || copy(&second));
}

#[test]
fn every_file_system_is_made_on_a_named_device() {
    needs!(disks());
    for (fs, mkfs) in [
        ("ext4", "mkfs.ext4"),
        ("xfs", "mkfs.xfs"),
        ("btrfs", "mkfs.btrfs"),
        ("ntfs", "mkntfs"),
    ] {
        needs!(program mkfs);
        let (scratch, disk) = (scratch(), Disk::new(320));
        tiny_plan(scratch.path());
        let link = scratch.path().join("disk");
        std::os::unix::fs::symlink(&disk.path, &link).unwrap();
        let target = format!("{fs}@{}", link.display());
        succeeds(
            scratch.path(),
            &format!("run tiny.toml {target} --blocks 2 --out run -q"),
        );
        let trials = counting(&scratch.path().join("run"));
        assert!(
            trials.iter().all(|trial| trial["outcome"] == "ok"),
            "{trials:#?}"
        );
        let record = record(&scratch.path().join("run"));
        assert!(
            record["targets"][target.as_str()]["block_size"].is_u64(),
            "{record:#}"
        );
    }
}

#[test]
fn disks_are_listed_with_the_command_that_each_takes() {
    needs!(disks());
    let scratch = scratch();
    let (empty, formatted) = (Disk::new(64), Disk::formatted(64));
    let (mounted, swap) = (Disk::formatted(64), Disk::new(64));
    let point = scratch.path().join("a point");
    std::fs::create_dir(&point).unwrap();
    let _mount = mounted.mount(&point);
    swap.run("mkswap", &[]);
    swap.run("swapon", &[]);
    let list = json(scratch.path(), "list disks --format json");
    let found = |disk: &Disk| {
        let path = disk.path.to_str().unwrap();
        let entries = list.as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["path"] == path);
        entry.unwrap_or_else(|| panic!("{path} in {list}")).clone()
    };
    let command = |disk: &Disk| found(disk)["commands"][0]["command"].clone();
    let state = |disk: &Disk| found(disk)["state"].clone();
    let states = [&empty, &formatted, &mounted, &swap].map(state);
    assert_eq!(states, ["empty", "holds", "mounted", "used"]);
    assert_eq!(found(&empty)["size_bytes"], 64 << 20);
    assert_eq!(found(&empty)["logical_sector_bytes"], 512);
    assert_eq!(found(&formatted)["signatures"][0], "ext4");
    assert_eq!(found(&swap)["commands"].as_array().unwrap().len(), 0);
    let path = formatted.path.display();
    assert_eq!(
        command(&formatted),
        format!("fsb run ext4@{path} --wipe {path}")
    );
    assert_eq!(
        command(&empty),
        format!("fsb run ext4@{}", empty.path.display())
    );
    assert_eq!(command(&mounted), format!("fsb run '{}'", point.display()));
    // The commands are accepted as printed.
    for disk in [&empty, &formatted, &mounted] {
        let line = command(disk);
        let words = shlex::split(line.as_str().unwrap()).unwrap();
        let mut words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        words.push("--print-plan");
        let printed = stderr(&succeeds(scratch.path(), &words[..]));
        assert!(!printed.contains("cannot run the plan"), "{printed}");
    }
    let one = stdout(&succeeds(
        scratch.path(),
        &["list", "disks", swap.path.to_str().unwrap()],
    ));
    assert!(one.contains("is swap space"), "{one}");
}

/// Other users may not read devices, and learn which command root needs.
#[test]
fn an_ordinary_user_sees_disks_without_their_content() {
    needs!(disks());
    let (scratch, disk) = (in_memory(), Disk::formatted(64));
    let path = disk.path.to_str().unwrap();
    let mut command = command(scratch.path(), &["list", "disks", path, "--format", "json"]);
    let output = std::os::unix::process::CommandExt::gid(
        std::os::unix::process::CommandExt::uid(&mut command, 65_534),
        65_534,
    )
    .output()
    .unwrap();
    expect_code(&output, 0);
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found[0]["state"], "unknown");
    assert_eq!(found[0]["needs_root"], true);
    assert_eq!(found[0]["size_bytes"], 64 << 20);
}

/// `wipefs` and `blkid` report nothing on a device whose reads fail.
#[test]
fn a_disk_that_cannot_be_read_is_not_written_over() {
    needs!(disks());
    needs!(program "strace");
    let (scratch, disk) = (scratch(), Disk::formatted(64));
    tiny_plan(scratch.path());
    let before = disk.content();
    let path = disk.path.to_str().unwrap();
    let unreadable = |arguments: &[&str]| {
        let fsb = command(scratch.path(), arguments);
        Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-P", path])
            .args(["-e", "inject=read,pread64:error=EIO"])
            .arg(fsb.get_program())
            .args(fsb.get_args())
            .current_dir(scratch.path())
            .env("COLUMNS", "10000")
            .output()
            .unwrap()
    };
    let listed = unreadable(&["list", "disks", path, "--format", "json"]);
    expect_code(&listed, 0);
    let listed: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!(listed[0]["state"], "unknown", "{listed}");
    assert!(
        listed[0]["reason"].as_str().unwrap().contains("EIO"),
        "{listed}"
    );
    let target = format!("ext4@{path}");
    let run = ["run", "tiny.toml", &target, "--out", "run", "-q"];
    let refused = unreadable(&run);
    expect_code(&refused, 2);
    let refused = stderr(&refused);
    assert!(refused.contains("cannot tell whether"), "{refused}");
    assert!(
        refused.contains("EIO") && refused.contains("dmesg"),
        "{refused}"
    );
    assert!(disk.content() == before, "nothing was written");
}

#[test]
fn a_device_that_a_process_has_open_is_refused_with_its_name() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(64));
    tiny_plan(scratch.path());
    let before = disk.content();
    let device = std::fs::File::open(&disk.path).unwrap();
    let mut other = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::from(device))
        .spawn()
        .unwrap();
    let target = format!("ext4@{}", disk.path.display());
    let wipe = disk.path.to_str().unwrap();
    let refused = fsb_json(
        scratch.path(),
        &format!("run tiny.toml {target} --wipe {wipe} --out run -q"),
    );
    other.kill().unwrap();
    other.wait().unwrap();
    let refused = expect_error(&refused, 2, "device/in-use");
    assert_eq!(refused["fields"]["pids"][0], other.id(), "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains(&disk.name()),
        "{refused}"
    );
    assert!(disk.content() == before);
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_resumed_run_writes_to_no_other_device_than_it_was_begun_on() {
    needs!(disks());
    let (scratch, first, second) = (scratch(), Disk::new(64), Disk::formatted(64));
    tiny_plan(scratch.path());
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&first.path, &link).unwrap();
    let target = format!("ext4@{}", link.display());
    succeeds(
        scratch.path(),
        &["run", "tiny.toml", &target, "--out", "run", "-q"],
    );
    // Truncate the journal as if the run had been interrupted in its last block.
    let run = scratch.path().join("run");
    let text = std::fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    std::fs::write(
        run.join("trials.jsonl"),
        lines[..lines.len() - 1].join("\n") + "\n",
    )
    .unwrap();
    let mut record = record(&run);
    record["stop_reason"] = serde_json::Value::Null;
    record["blocks_planned"] = 2.into();
    std::fs::write(run.join("run.json"), record.to_string()).unwrap();

    lead(&link, &second.path);
    let before = second.content();
    let wipe = link.to_str().unwrap();
    let refused = fsb_json(
        scratch.path(),
        &["run", "--resume", "run", "--wipe", wipe, "-q"],
    );
    assert!(second.content() == before, "another device was written to");
    expect_error(&refused, 2, "run/other-device");
    lead(&link, &first.path);
    succeeds(
        scratch.path(),
        &["run", "--resume", "run", "--wipe", wipe, "-q"],
    );
}
