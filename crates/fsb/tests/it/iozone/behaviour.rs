//! It removes what it made, however it ends, and touches nothing else.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use super::{done, iozone, listing};
use crate::common::{Running, expect_code, needs_program, needs_root, scratch, stderr, stdout, wait_until};

fn stopped_by(signal: Signal, code: i32, line: &str, file: &str) {
    let directory = scratch();
    let mut arguments = vec!["iozone"];
    arguments.extend(line.split_whitespace());
    let running = Running::start(directory.path(), &arguments);
    wait_until("the file is there", Duration::from_secs(20), || directory.path().join(file).exists());
    std::thread::sleep(Duration::from_millis(30));
    running.signal(signal);
    let output = running.wait();
    expect_code(&output, code);
    assert!(stdout(&output).ends_with("\niozone: interrupted\n\nexiting iozone\n\n"), "{}", stdout(&output));
    let left = listing(directory.path());
    let expected = if line.contains("-w") { vec![file.to_owned()] } else { vec![] };
    assert_eq!(left, expected, "{line}");
}

/// Where this test was started by nohup, so is what it starts: hangups end neither.
fn hangups_arrive() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 0
}

#[test]
fn signals_end_it_and_it_cleans_up() {
    let endless = "--repeat-until 1h -s 256k -r 4k";
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -f f"), "f");
    stopped_by(Signal::TERM, 143, &format!("{endless} -i 0 -i 1 -f f"), "f");
    if hangups_arrive() {
        stopped_by(Signal::HUP, 129, &format!("{endless} -i 0 -f f"), "f");
        stopped_by(Signal::HUP, 129, &format!("{endless} -t 2 -i 0 -F a b"), "a");
    }
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -B -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -k 4 -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -i 0 -w -f f"), "f");
    stopped_by(Signal::INT, 130, &format!("{endless} -t 2 -T -i 0 -F a b"), "a");
    stopped_by(Signal::INT, 130, &format!("{endless} -t 2 -i 0 -F a b"), "a");
    stopped_by(Signal::TERM, 143, "-t 1 -s 256m -r 4k -i 0 -o -F a", "a");
}

#[test]
fn what_was_measured_before_an_interruption_is_reported() {
    let directory = scratch();
    let line = "iozone -R -s 64 -s 256m -r 4 -i 0 -o -f f";
    let running = Running::start(directory.path(), &line.split_whitespace().collect::<Vec<_>>());
    let second_row = || directory.path().join("f").metadata().is_ok_and(|metadata| metadata.len() > 64 << 10);
    wait_until("the second row", Duration::from_secs(20), second_row);
    running.signal(Signal::INT);
    let output = running.wait();
    expect_code(&output, 130);
    assert!(stdout(&output).contains("Excel output is below:\n\n\"Writer report\"\n"), "{}", stdout(&output));
}

#[test]
fn files_that_are_only_read_stay() {
    let directory = scratch();
    done(directory.path(), "-i 0 -w -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), ["kept"]);
    done(directory.path(), "-i 1 -i 5 -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), ["kept"]);
    done(directory.path(), "-i 4 -s 64 -r 4 -f kept");
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

/// It was not written by this program, so a test that looks at it stops before anything was written.
#[test]
fn a_foreign_file_stays_when_a_test_stops_before_it_wrote() {
    let directory = scratch();
    let foreign: Vec<u8> = (0..65_536u32).map(|at| (at * 7 % 251) as u8).collect();
    for (line, name) in [
        ("-i 1 -i 2 -s 64 -f f", "f"),
        ("-i 1 -i 4 -R -s 64 -f f", "f"),
        ("-t 1 -i 1 -i 2 -s 64 -F f", "f"),
        ("-t 1 -T -i 1 -i 2 -s 64 -F f", "f"),
    ] {
        std::fs::write(directory.path().join(name), &foreign).unwrap();
        expect_code(&iozone(directory.path(), line), 1);
        assert!(std::fs::read(directory.path().join(name)).unwrap() == foreign, "{line}: it was changed");
    }
}

#[test]
fn an_existing_file_is_overwritten_and_other_files_are_not_touched() {
    let directory = scratch();
    std::fs::write(directory.path().join("f"), vec![1; 1 << 20]).unwrap();
    std::fs::write(directory.path().join("other"), "other").unwrap();
    done(directory.path(), "-s 64 -r 4 -f f -w -i 0");
    assert_eq!(directory.path().join("f").metadata().unwrap().len(), 64 << 10);
    done(directory.path(), "-s 64 -r 4 -f f");
    assert_eq!(listing(directory.path()), ["other"]);
    assert_eq!(std::fs::read(directory.path().join("other")).unwrap(), b"other");
}

#[test]
fn without_names_files_are_called_as_iozone_calls_them() {
    let directory = scratch();
    done(directory.path(), "-w -i 0 -s 64 -r 4");
    done(directory.path(), "-w -t 2 -i 0 -s 64 -r 4");
    assert_eq!(listing(directory.path()), ["iozone.DUMMY.0", "iozone.DUMMY.1", "iozone.tmp"]);
}

/// A small ext4 on a loop device, unmounted when it goes.
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

fn needs_mounts() {
    needs_root();
    needs_program("mkfs.ext4");
    if !Path::new("/dev/loop-control").exists() {
        fsb_testkit::skip("needs loop devices");
    }
}

#[test(machine)]
fn the_file_system_is_mounted_anew_between_tests_with_the_same_options() {
    needs_mounts();
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

#[test(machine)]
fn a_file_system_that_is_too_small_is_found_out_before_anything_is_written() {
    needs_mounts();
    let mounted = Mounted::new(16);
    let output = iozone(&mounted.point(), "-s 100m -r 1m -i 0 -f f");
    expect_code(&output, 3);
    assert!(stderr(&output).contains("is too small for these tests") && output.stdout.is_empty());
    assert_eq!(listing(&mounted.point()), ["lost+found"]);
}

#[test(machine)]
fn a_directory_that_cannot_be_written_is_found_out_before_anything_is_done() {
    needs_mounts();
    let mounted = Mounted::new(16);
    let point = mounted.point();
    done(&point, "-i 0 -w -s 64 -r 4 -f there");
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&point).status().unwrap();
    assert!(status.success());
    let shown = point.canonicalize().unwrap();
    for line in ["-s 64 -i 0 -f x", "-a -g 64 -f x", "-t 2 -s 64 -i 0 -F x y"] {
        let output = iozone(&point, line);
        expect_code(&output, 2);
        let said = stderr(&output);
        assert!(said.contains(&format!("no file can be made in {}", shown.display())), "{line}: {said}");
        assert!(output.stdout.is_empty() && !said.contains("remove"), "{line}: {said}");
    }
    expect_code(&iozone(&point, "-s 64 -r 4 -i 0 -f there"), 2);
    // Reading takes no more than a file.
    done(&point, "-s 64 -r 4 -i 1 -f there");
    assert_eq!(listing(&point), ["lost+found", "there"]);
}

/// Somebody else takes the space after the check. A store into a mapping has no error to return: the kernel sends a
/// signal, which must not end the program with the file in its place.
#[test(machine)]
fn a_disk_that_fills_up_ends_the_test_and_is_emptied() {
    needs_mounts();
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
        // The last record before the end may have gone in half.
        let told = ["No space left on device (ENOSPC)", "or the file system is full"];
        assert!(told.iter().any(|told| stderr(&output).contains(told)), "{means}: {}", stderr(&output));
        assert_eq!(listing(&point), ["lost+found", "other"], "{means}");
    }
}

/// Takes all space of a file system, and what others give back.
fn fill(path: &Path, ended: &AtomicBool) {
    let mut file = std::fs::File::create(path).unwrap();
    while !ended.load(Ordering::Relaxed) {
        if std::io::Write::write_all(&mut file, &[7; 65_536]).is_err() {
            std::thread::yield_now();
        }
    }
}
