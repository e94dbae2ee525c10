//! Directories on mounts that lie, that keep users out, or that go away: fsb measures what can be
//! measured, and names the true reason where it cannot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::*;

/// A directory `data` below `within`, seen through a mount at `view`, which ends with this value.
pub struct View {
    pub data: PathBuf,
    pub point: PathBuf,
}

impl View {
    fn new(within: &Path) -> View {
        let [data, point] = ["data", "view"].map(|name| within.join(name));
        for path in [&data, &point] {
            fs::create_dir(path).unwrap();
        }
        View { data, point }
    }

    /// Mounts `data` with bindfs.
    pub fn bind(within: &Path, options: &[&str]) -> View {
        let view = View::new(within);
        view.bind_again(options);
        view
    }

    pub fn bind_again(&self, options: &[&str]) {
        let mut command = Command::new("bindfs");
        let mounted = command
            .args(options)
            .args([&self.data, &self.point])
            .output();
        let mounted = mounted.unwrap();
        assert!(mounted.status.success(), "{}", stderr(&mounted));
    }

    pub fn unmount(&self) {
        let unmounted = Command::new("umount").arg(&self.point).output().unwrap();
        assert!(unmounted.status.success(), "{}", stderr(&unmounted));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // A test that unmounted it has nothing left to unmount.
        let _ = Command::new("umount").arg("-l").arg(&self.point).output();
    }
}

pub const RUN: &str =
    "run ./view --workload create,files=20 --blocks 1 --allow-concurrent -q --out run";

fn expect_all_measured(run: &Path) {
    for trial in trials(run) {
        assert!(
            matches!(
                trial["outcome"].as_str(),
                Some("ok" | "not_applicable" | "invalid")
            ),
            "{}: {}",
            trial["workload"],
            trial["error"]
        );
    }
}

#[test]
fn a_mount_without_allow_other_is_refused_before_anything_is_made() {
    needs!(root);
    needs!(program "bindfs");
    let scratch = scratch();
    let view = View::bind(scratch.path(), &["--no-allow-other"]);
    let error = fails(scratch.path(), RUN, 3, "target/directory-not-writable");
    let text = text_of(&error);
    assert!(
        text.contains("allow_other") && text.contains("--force-root-user"),
        "{text}"
    );
    assert_eq!(fs::read_dir(&view.data).unwrap().count(), 0);
    assert!(!scratch.path().join("run").exists());
    succeeds(
        scratch.path(),
        &[&words(RUN)[..], &["--force-root-user"]].concat(),
    );
    expect_all_measured(&scratch.path().join("run"));
}

#[test]
fn a_dead_server_is_named() {
    needs!(root);
    needs!(program "bindfs");
    let scratch = scratch();
    let view = View::new(scratch.path());
    let mut server = Command::new("bindfs")
        .args(["-f"])
        .args([&view.data, &view.point])
        .spawn()
        .unwrap();
    wait_until("the mount", Duration::from_secs(10), || {
        fs::read_to_string("/proc/self/mounts")
            .unwrap()
            .contains(view.point.to_str().unwrap())
    });
    server.kill().unwrap();
    server.wait().unwrap();
    let error = fails(scratch.path(), RUN, 3, "target/directory-not-writable");
    let text = text_of(&error);
    assert!(
        text.contains("has died") && text.contains("umount"),
        "{text}"
    );
    let doctor = fsb(scratch.path(), "doctor --quick --dir ./view");
    assert!(stdout(&doctor).contains("has died"), "{}", stdout(&doctor));
    let fio = scratch.path().join("a.fio");
    fs::write(&fio, "[a]\nrw=write\nbs=4k\nsize=64k\n").unwrap();
    for emulation in [
        "fio --dir ./view a.fio",
        "iozone -s 64k -i 0 -f ./view/file",
    ] {
        let refused = fsb(scratch.path(), emulation);
        let text = stderr(&refused);
        assert!(text.contains("has died"), "{emulation}: {text}");
    }
}

#[test]
fn owners_and_modes_that_the_file_system_decides_are_no_replacement() {
    needs!(root);
    needs!(program "bindfs");
    for options in [
        &["--force-user=nobody", "--force-group=nogroup"][..],
        &["--create-for-user=nobody", "--chown-ignore"],
        &["--perms=0777", "--chown-deny", "--chmod-ignore"],
    ] {
        let scratch = scratch();
        let view = View::bind(scratch.path(), options);
        succeeds(scratch.path(), RUN);
        expect_all_measured(&scratch.path().join("run"));
        assert_eq!(fs::read_dir(&view.data).unwrap().count(), 0, "{options:?}");
    }
    let scratch = scratch();
    let view = View::bind(scratch.path(), &["--chown-ignore"]);
    let output = fsb(scratch.path(), RUN);
    expect_code(&output, 4);
    for trial in trials(&scratch.path().join("run")) {
        let reason = trial["error"].as_str().unwrap_or_default();
        assert!(
            reason.contains("gives the directory to user 0") && !reason.contains("replaced"),
            "{reason}"
        );
    }
    assert_eq!(fs::read_dir(&view.data).unwrap().count(), 0);
}

#[test]
fn a_file_system_without_blocks_is_measured() {
    needs!(root);
    let scratch = scratch();
    let view = View::new(scratch.path());
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-t", "ramfs", "ramfs"]).arg(&view.point);
    assert!(mounted.status().unwrap().success());
    succeeds(scratch.path(), RUN);
    let run = record(&scratch.path().join("run"));
    assert!(
        run["targets"]["./view"]["notes"]
            .to_string()
            .contains("no blocks"),
        "{:#}",
        run["targets"]
    );
    let fio = scratch.path().join("a.fio");
    fs::write(&fio, "[a]\nrw=write\nbs=4k\nsize=64k\n").unwrap();
    succeeds(
        scratch.path(),
        "fio -q --allow-concurrent --dir ./view a.fio",
    );
}

/// Runs one workload on `./view`. Returns the outcome of each trial with its reason.
fn outcomes_of(directory: &Path, workload: &str) -> Vec<(String, String)> {
    let run = "run ./view --blocks 1 --force-root-user --allow-concurrent -q --out run --workload";
    fsb(directory, &[&words(run)[..], &[workload]].concat());
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = trials(&directory.join("run")).into_iter();
    let outcomes: Vec<_> = all
        .map(|trial| (text(&trial["outcome"]), text(&trial["error"])))
        .collect();
    assert!(!outcomes.is_empty());
    outcomes
}

#[test]
fn refused_direct_io_of_aligned_records_is_not_blamed_on_sectors() {
    needs!(root);
    needs!(program "mergerfs");
    let scratch = scratch();
    let view = View::new(scratch.path());
    let mut mount = Command::new("mergerfs");
    let mounted = mount
        .args(["-o", "allow_other,cache.files=off,direct_io=true"])
        .args([&view.data, &view.point])
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    for (outcome, reason) in outcomes_of(scratch.path(), "write,file_size=4M,backend=direct") {
        assert_eq!(outcome, "not_applicable", "{reason}");
        assert!(!reason.contains("multiple"), "{reason}");
    }
}

#[test]
fn calls_that_a_server_lacks_are_not_applicable_whatever_it_answers() {
    needs!(root);
    needs!(program "rclone");
    let scratch = scratch();
    let view = View::new(scratch.path());
    let mounted = Command::new("rclone")
        .args([
            "mount",
            "--daemon",
            "--allow-other",
            "--config",
            "/dev/null",
        ])
        .args([&view.data, &view.point])
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    for workload in ["link,files=20", "setxattr,files=20"] {
        for (outcome, reason) in outcomes_of(scratch.path(), workload) {
            assert_eq!(outcome, "not_applicable", "{workload}: {reason}");
            assert!(reason.contains("EIO"), "{workload}: {reason}");
        }
        fs::remove_dir_all(scratch.path().join("run")).unwrap();
    }
    // Its statfs reports no free inodes, which is not so.
    for (outcome, reason) in outcomes_of(scratch.path(), "create,files=20") {
        assert_eq!(outcome, "ok", "{reason}");
    }
}

#[test]
fn on_a_read_only_root_the_ledger_is_in_run() {
    needs!(root);
    needs!(program "unshare", "mount");
    let scratch = scratch();
    fs::create_dir(scratch.path().join("view")).unwrap();
    fs::create_dir_all("/var/lib").unwrap();
    let script = format!(
        "mount -t tmpfs -o ro tmpfs /var/lib && cd '{}' && exec '{FSB}' {RUN}",
        scratch.path().display()
    );
    let output = shell("unshare", &["-m", "sh"], &script);
    expect_code(&output, 0);
    expect_all_measured(&scratch.path().join("run"));
    expect_nothing_to_undo(scratch.path());
}

/// Containers deny io_uring by a filter, which sysctls do not show.
#[test]
fn a_filter_that_denies_io_uring_is_named_before_anything_is_made() {
    needs!(root);
    needs!(program "bwrap");
    let scratch = scratch();
    fs::create_dir(scratch.path().join("view")).unwrap();
    // Loads the number of the call; for io_uring_setup (425) the call fails with EPERM.
    let program: [(u16, u8, u8, u32); 4] = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, 425),
        (0x06, 0, 0, 0x0005_0001),
        (0x06, 0, 0, 0x7FFF_0000),
    ];
    let filter: Vec<u8> = program
        .iter()
        .flat_map(|(code, yes, no, value)| {
            let [first, second] = code.to_ne_bytes();
            let [a, b, c, d] = value.to_ne_bytes();
            [first, second, *yes, *no, a, b, c, d]
        })
        .collect();
    fs::write(scratch.path().join("filter"), filter).unwrap();
    let script = format!(
        "cd '{}' && export COLUMNS=10000 && exec bwrap --dev-bind / / --seccomp 9 '{FSB}' run ./view --workload write,backend=uring \
         --blocks 1 --allow-concurrent -q --out run 9<filter",
        scratch.path().display()
    );
    let output = shell("sh", &[], &script);
    expect_code(&output, 3);
    let text = stderr(&output);
    assert!(
        text.contains("seccomp") && !text.contains("io_uring_disabled"),
        "{text}"
    );
    assert!(!scratch.path().join("run").exists());
}
