//! `fsb doctor --dir` on FUSE servers and on file systems of the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::fuse_servers::{FUSE_SERVERS, fuse_server};
use crate::common::*;

/// The answers of each file system: a line a property, a column a file system.
const CELLS: &str = include_str!("../common/fuse_cells.txt");

/// The kernel for which [`CELLS`] holds.
const KERNEL: &str = "6.18.";

/// Returns the expected answers of a file system by the name of the property. Leaves out those that
/// are not asserted.
fn expected(file_system: &str) -> BTreeMap<&'static str, &'static str> {
    let mut lines = CELLS.lines().filter(|line| !line.starts_with('#'));
    let heads: Vec<&str> = lines
        .next()
        .expect("the heads")
        .split_whitespace()
        .collect();
    let column = heads
        .iter()
        .position(|head| *head == file_system)
        .unwrap_or_else(|| panic!("no column {file_system}"));
    let cells = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let cells = cells.inspect(|cells| assert_eq!(cells.len(), heads.len(), "{cells:?}"));
    cells
        .map(|cells| (cells[0], cells[column]))
        .filter(|(_, answer)| *answer != "-")
        .collect()
}

/// Returns what the doctor prints about a directory.
fn examined(directory: &Path) -> Value {
    let directory = directory.display().to_string();
    let arguments = ["doctor", "--quick", "--format", "json", "--dir", &directory];
    json(Path::new("/"), &arguments)["directory"].clone()
}

/// Returns the answers by the name of the property: `yes`, `no`, the name of an error or of a
/// signal, or a number. A text follows each.
fn answers(directory: &Path) -> BTreeMap<String, (String, String)> {
    // On a busy machine, a server may take longer than the doctor waits.
    let mut found = examined(directory);
    for _ in 0..2 {
        if found["failure"].is_null() {
            break;
        }
        // As the failure says: calls that did not return in time leave the files of the probe.
        for left in probes_left(directory) {
            fs::remove_dir_all(&left).expect("the files of the probe are removed");
        }
        found = examined(directory);
    }
    assert_eq!(found["failure"], Value::Null, "{found:#}");
    let properties = found["properties"].as_array().expect("the properties");
    let answer = |property: &Value| {
        let text = property["text"].as_str().expect("a text");
        let answer = match (&property["errno"], &property["number"]) {
            (Value::String(errno), _) => errno.clone(),
            (_, Value::Number(number)) => number.to_string(),
            _ if text.contains("SIGBUS") => "SIGBUS".to_owned(),
            _ => property["state"].as_str().expect("a state").to_owned(),
        };
        (answer, text.to_owned())
    };
    let name = |property: &Value| property["name"].as_str().expect("a name").to_owned();
    properties
        .iter()
        .map(|property| (name(property), answer(property)))
        .collect()
}

/// Compares the answers of a directory with the table. A difference on another kernel, or another
/// version of the server than that of the table, is reported and is not a defect of fsb.
fn compare(file_system: &str, directory: &Path, installed: Option<String>) {
    let found = answers(directory);
    let mut expected = expected(file_system);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let versions = [
        (expected.remove("version"), installed),
        (Some(KERNEL), Some(kernel)),
    ];
    let differing: Vec<String> = versions
        .into_iter()
        .filter_map(|(table, installed)| Some((table?, installed?)))
        .filter(|(table, installed)| !installed.starts_with(table))
        .map(|(table, installed)| format!("{}, the table is for {table}", installed.trim()))
        .collect();
    let is_noise = |name: &str, answer: &str, found: &str| {
        match (name, answer, found) {
            // Only the device shows whether names were written, and other processes write to it,
            // too.
            ("fsync_directory", "no", "yes") => true,
            // On a busy machine, the other side of the server is not always seen in time.
            ("fsync_file", "no", "unknown") => true,
            // cryfs has its files open for moments only.
            ("direct_bypasses", "no", "unknown") => true,
            _ => false,
        }
    };
    let mut wrong = Vec::new();
    for (name, answer) in expected {
        let (found, text) = &found[name];
        let text = format!("{name}: {answer} expected, {found} found ({text})");
        if is_noise(name, answer, found) {
            fsb_testkit::left_out(&format!("a cell of {file_system}"), &text);
        } else if answer != found {
            wrong.push(text);
        }
    }
    if !wrong.is_empty() && !differing.is_empty() {
        let reason = format!("{} ({})", wrong.join("; "), differing.join("; "));
        fsb_testkit::left_out(&format!("cells of {file_system}"), &reason);
        return;
    }
    assert_eq!(wrong, Vec::<String>::new(), "{file_system}");
    assert_eq!(probes_left(directory), Vec::<PathBuf>::new());
}

/// Returns the directories of probes in `directory`.
fn probes_left(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("fsb-probe"))
        .collect()
}

macro_rules! servers {
    ($($test:ident $server:literal)*) => {
        $(#[test]
        fn $test() {
            needs!(root);
            let server = fuse_server($server);
            if server.is_installed_for_tests() {
                needs!(server.available());
            } else {
                wants!(server.available());
            }
            let mount = server.mount();
            compare(server.name, &mount.point, server.installed_version());
        })*
    };
}

servers! {
    bindfs_does_what_the_table_says "bindfs"
    mergerfs_does_what_the_table_says "mergerfs"
    gocryptfs_does_what_the_table_says "gocryptfs"
    encfs_does_what_the_table_says "encfs"
    cryfs_does_what_the_table_says "cryfs"
    sshfs_does_what_the_table_says "sshfs"
    unionfs_does_what_the_table_says "unionfs"
    fuse_overlayfs_does_what_the_table_says "fuse-overlayfs"
    ntfs_3g_does_what_the_table_says "ntfs-3g"
    fuse2fs_does_what_the_table_says "fuse2fs"
    rclone_does_what_the_table_says "rclone"
    glusterfs_does_what_the_table_says "glusterfs"
    davfs2_does_what_the_table_says "davfs2"
}

#[test]
fn every_server_is_mounted_and_leaves_nothing() {
    needs!(root);
    for server in &FUSE_SERVERS {
        if let Err(missing) = server.available() {
            fsb_testkit::left_out(server.name, &missing);
            continue;
        }
        let mount = server.mount();
        let id = (server.name != "davfs2").then(|| mount.server_id());
        let (point, file) = (mount.point.clone(), mount.point.join("file"));
        fs::write(&file, "text").unwrap_or_else(|error| panic!("{}: {error}", server.name));
        assert_eq!(fs::read(&file).unwrap(), b"text", "{}", server.name);
        drop(mount);
        assert!(!point.exists(), "{}", server.name);
        let is_left = id.is_some_and(|id| Path::new(&format!("/proc/{id}")).exists());
        assert!(!is_left, "{}", server.name);
    }
}

/// A mount that a test made. Dropping it unmounts.
struct Mounted(PathBuf);

impl Mounted {
    fn new(arguments: &[&str], point: &Path) -> Mounted {
        fs::create_dir(point).unwrap();
        let output = Command::new("mount").args(arguments).arg(point).output();
        expect_code(&output.expect("mount runs"), 0);
        Mounted(point.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn file_systems_of_the_kernel_do_what_the_table_says() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mount");
    let scratch = scratch();
    let point = |name: &str| scratch.path().join(name);
    for (name, mkfs) in [
        ("ext4", &["mkfs.ext4", "-q", "-F"][..]),
        ("xfs", &["mkfs.xfs", "-q"]),
        ("btrfs", &["mkfs.btrfs", "-q"]),
    ] {
        let image = point(&format!("{name}.img"));
        fs::File::create_new(&image)
            .unwrap()
            .set_len(512 << 20)
            .unwrap();
        let made = Command::new(mkfs[0]).args(&mkfs[1..]).arg(&image).output();
        expect_code(&made.expect("mkfs runs"), 0);
        let mounted = Mounted::new(&["-o", "loop", image.to_str().unwrap()], &point(name));
        compare(name, &mounted.0, None);
        if name == "ext4" {
            compare_overlay(&mounted.0, &point("overlay"));
        }
    }
    let tmpfs = Mounted::new(&["-t", "tmpfs", "none"], &point("tmpfs"));
    compare("tmpfs", &tmpfs.0, None);
}

/// Compares an overlay with all layers below `directory`.
fn compare_overlay(directory: &Path, point: &Path) {
    let layers = ["lower", "upper", "work"].map(|layer| {
        let path = directory.join(layer);
        fs::create_dir(&path).unwrap();
        format!("{layer}dir={}", path.display())
    });
    let options = layers.join(",");
    let overlay = Mounted::new(&["-t", "overlay", "none", "-o", &options], point);
    compare("overlay", &overlay.0, None);
    check_pages(&overlay.0);
}

/// Checks that the pages of a file on an overlay are found by a mapping, and that a count of them
/// (cachestat) is refused instead of taken for none.
fn check_pages(overlay: &Path) {
    let path = overlay.join("pages");
    fs::write(&path, [1; 65_536]).unwrap();
    let file = fs::File::open(&path).unwrap();
    let mapping = fsb_sys::file_mapping::FileMapping::new(&file, 65_536).unwrap();
    assert!(mapping.resident_pages().unwrap() > 0);
    let counted = fsb_sys::page_cache::of_file(&file);
    if counted == Err(rustix::io::Errno::NOSYS) {
        return;
    }
    assert_eq!(counted, Err(rustix::io::Errno::OPNOTSUPP));
    let below = fs::File::open(overlay.parent().unwrap().join("ext4/upper/pages")).unwrap();
    assert!(fsb_sys::page_cache::of_file(&below).unwrap().cached > 0);
    fs::remove_file(path).unwrap();
}

#[test]
fn a_server_that_has_ended_or_hangs_is_reported_and_the_doctor_ends() {
    needs!(root);
    let server = fuse_server("bindfs");
    needs!(server.available());
    let mut mount = server.mount();
    let point = mount.point.display().to_string();
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(mount.server_id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    let arguments = ["doctor", "--quick", "--format", "json", "--dir", &point];
    signal(rustix::process::Signal::STOP);
    let output = fsb_json(Path::new("/"), &arguments);
    signal(rustix::process::Signal::CONT);
    let error = expect_error(&output, 3, "testbed/unable");
    assert!(error["help"].as_str().unwrap().contains("hangs"), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["directory"]["failure"]["hangs"], true, "{found:#}");
    mount.kill_server();
    let found = examined(&mount.point);
    let text = found["failure"]["text"].as_str().expect("a failure");
    assert!(text.contains("ENOTCONN"), "{text}");
    let advice = found["failure"]["advice"].as_str().unwrap();
    assert!(advice.contains("umount"), "{advice}");
}

#[test]
fn a_killed_doctor_leaves_no_file() {
    needs!(root);
    let server = fuse_server("bindfs");
    needs!(server.available());
    let mount = server.mount();
    let probes = || -> Vec<PathBuf> {
        let entries = fs::read_dir(&mount.point).unwrap().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let point = mount.point.display().to_string();
    let arguments = ["doctor", "--quick", "--dir", &point];
    let mut doctor = Running::start(Path::new("/"), &arguments);
    wait_until("the doctor makes its files", WAIT, || {
        !probes().is_empty() || doctor.ended().is_some()
    });
    if doctor.is_running() {
        doctor.signal(rustix::process::Signal::KILL);
    }
    doctor.wait();
    wait_until("its files are gone", WAIT, || probes().is_empty());
}

/// Returns the process of the probe in a directory, if there is one.
fn probe_in(directory: &str) -> Option<rustix::process::Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    for process in processes {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        if words.get(1..3) == Some(&[b"__probe", directory.as_bytes()]) {
            let id = process.file_name().to_str()?.parse().ok()?;
            return rustix::process::Pid::from_raw(id);
        }
    }
    None
}

/// Starts fio with a job that writes below `point`. Returns it once its probe runs, with the probe,
/// or when it has ended.
fn fio_with_probe(scratch: &Path, point: &str) -> (Running, Option<rustix::process::Pid>) {
    let job = "[a]\nrw=write\nbs=4k\nsize=64k\nfsync=1\n";
    fs::write(scratch.join("job.fio"), job).unwrap();
    let mut fio = Running::start(scratch, &["fio", "job.fio", "--dir", point]);
    let mut probe = None;
    wait_until("the probe runs", WAIT, || {
        probe = probe_in(point);
        probe.is_some() || fio.ended().is_some()
    });
    (fio, probe)
}

#[test]
fn a_probe_of_fio_that_is_killed_leaves_no_file() {
    needs!(root);
    let server = fuse_server("bindfs");
    needs!(server.available());
    let (mount, scratch) = (server.mount(), scratch());
    let point = mount.point.display().to_string();
    let kill = |pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    let is_empty = || fs::read_dir(&mount.point).unwrap().next().is_none();
    for kills_both in [false, true] {
        let (mut fio, probe) = fio_with_probe(scratch.path(), &point);
        if kills_both && fio.is_running() {
            fio.signal(rustix::process::Signal::KILL);
        }
        if let Some(probe) = probe {
            // It may have ended by now.
            let _ = kill(probe);
        }
        fio.wait();
        wait_until("the probe has ended", WAIT, || probe_in(&point).is_none());
        if kills_both {
            clean(scratch.path(), &[]);
        }
        assert!(is_empty(), "both: {kills_both}");
    }
}

/// A server that does not reply must not stop a program that only asks about it.
#[test]
fn a_probe_of_fio_does_not_wait_for_a_server_that_hangs() {
    needs!(root);
    let server = fuse_server("bindfs");
    needs!(server.available());
    let (mount, scratch) = (server.mount(), scratch());
    let point = mount.point.display().to_string();
    let server = rustix::process::Pid::from_raw(mount.server_id() as i32).unwrap();
    let (fio, _) = fio_with_probe(scratch.path(), &point);
    rustix::process::kill_process(server, rustix::process::Signal::STOP).unwrap();
    wait_until("the probe is given up", WAIT, || probe_in(&point).is_none());
    rustix::process::kill_process(server, rustix::process::Signal::CONT).unwrap();
    fio.wait();
    clean(scratch.path(), &[]);
    assert!(fs::read_dir(&mount.point).unwrap().next().is_none());
}
