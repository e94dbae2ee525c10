//! `fsb iozone` removes the files that it made, however it ends, and changes no others.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{done, iozone, iozone_json, listing};
use crate::common::{Running, expect_code, expect_error, scratch, stderr, wait_until};

/// A small ext4 on a loop device; dropping it unmounts it.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(megabytes: u32) -> Mounted {
        let directory = scratch();
        let image = directory.path().join("image");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program}: {}", stderr(&output));
        };
        run("truncate", &["-s", &format!("{megabytes}M"), image.to_str().unwrap()]);
        run("mkfs.ext4", &["-q", "-O", "^has_journal", image.to_str().unwrap()]);
        std::fs::create_dir(directory.path().join("mnt")).unwrap();
        let mounted = Mounted(directory);
        run("mount", &["-o", "loop,noatime", image.to_str().unwrap(), mounted.point().to_str().unwrap()]);
        mounted
    }

    fn point(&self) -> std::path::PathBuf {
        self.0.path().join("mnt")
    }

    fn options(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let point = self.point();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == point.to_str()).unwrap_or_default();
        line.split(' ').nth(3).unwrap_or_default().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.point()).status();
    }
}

fn mounts() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["mkfs.ext4"])?;
    Path::new("/dev/loop-control").exists().then_some(()).ok_or_else(|| "loop devices".to_owned())
}

#[test]
fn the_file_system_is_mounted_anew_between_tests_with_the_same_options() {
    needs!(mounts());
    let mounted = Mounted::new(16);
    let options = mounted.options();
    assert!(options.contains("noatime"), "{options}");
    let point = mounted.point();
    let line = format!("-U {0} -i 0 -i 1 -s 1m -r 64k -f {0}/f", point.display());
    let text = done(Path::new("/"), &line);
    assert!(text.contains("iozone test complete."), "{text}");
    assert_eq!(mounted.options(), options);
    assert_eq!(listing(&point), ["lost+found"]);
}

#[test]
fn a_file_system_that_is_too_small_is_found_out_before_anything_is_written() {
    needs!(mounts());
    let mounted = Mounted::new(16);
    let output = iozone_json(&mounted.point(), "-s 100m -r 1m -i 0 -f f");
    expect_error(&output, 3, "machine/no-space");
    assert!(output.stdout.is_empty());
    assert_eq!(listing(&mounted.point()), ["lost+found"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_found_out_before_anything_is_done() {
    needs!(mounts());
    let mounted = Mounted::new(16);
    let point = mounted.point();
    done(&point, "-i 0 -w -s 64 -r 4 -f there");
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&point).status().unwrap();
    assert!(status.success());
    let shown = point.canonicalize().unwrap();
    for line in ["-s 64 -i 0 -f x", "-a -g 64 -f x", "-t 2 -s 64 -i 0 -F x y"] {
        let output = iozone_json(&point, line);
        let error = expect_error(&output, 2, "directory/unusable");
        assert_eq!(error["fields"]["path"], shown.to_str().unwrap(), "{line}: {error}");
        assert!(output.stdout.is_empty(), "{line}");
    }
    expect_code(&iozone(&point, "-s 64 -r 4 -i 0 -f there"), 2);
    // Reading needs only read permission on the file.
    done(&point, "-s 64 -r 4 -i 1 -f there");
    assert_eq!(listing(&point), ["lost+found", "there"]);
}

/// Another process fills the file system after the check. A store into a mapping has no error to return: the kernel
/// sends a signal, which must not end the program before it removes the file.
#[test]
fn a_disk_that_fills_up_ends_the_test_and_is_emptied() {
    needs!(mounts());
    for (means, files) in [
        ("", "-s 8m -f f"),
        ("-B", "-s 8m -f f"),
        ("-k 4", "-s 8m -f f"),
        ("-t 2", "-s 4m -F f g"),
        ("-t 2 -T", "-s 4m -F f g"),
    ] {
        let mounted = Mounted::new(16);
        let point = mounted.point();
        let line = format!("iozone {means} --repeat-until 1h -r 64k -i 0 -+n {files}");
        let running = Running::start(&point, &line.split_whitespace().collect::<Vec<_>>());
        wait_until("the file is there", Duration::from_secs(20), || point.join("f").exists());
        let ended = AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| fill(&point.join("other"), &ended));
            let output = running.wait();
            ended.store(true, Ordering::Relaxed);
            output
        });
        expect_code(&output, 3);
        // The last record before the end may have been written in part.
        let told = ["No space left on device (ENOSPC)", "or the file system is full"];
        assert!(told.iter().any(|told| stderr(&output).contains(told)), "{means}: {}", stderr(&output));
        assert_eq!(listing(&point), ["lost+found", "other"], "{means}");
    }
}

/// Takes all free space of a file system, also space that others release.
fn fill(path: &Path, ended: &AtomicBool) {
    let mut file = std::fs::File::create(path).unwrap();
    while !ended.load(Ordering::Relaxed) {
        if std::io::Write::write_all(&mut file, &[7; 65_536]).is_err() {
            std::thread::yield_now();
        }
    }
}
