//! `fsb iozone`: the calls, the text and the behaviour of IOzone.

mod calls;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::iozone::*;
use crate::common::{
    Running, expect_code, expect_error, expect_refusals, scratch, stderr, wait_until,
};

/// Returns the path of real traces and outputs.
fn testdata(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).join(path)
}

// fsb prints the same text as IOzone for the same command, except for the numbers and the name.

/// Returns the words of a command, with its files in the current directory.
fn local(command: &str) -> String {
    let words = command.split_whitespace().skip(1);
    words
        .map(|word| {
            word.trim_start_matches("/mnt/test/")
                .trim_start_matches("m/")
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the lines that must agree, with measured numbers made equal.
fn comparable(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let own = line.contains("Revision")
            || line.contains("Build:")
            || line.starts_with("\tRun began:");
        let names = line.contains("Contributors")
            || line.starts_with("\t             ")
            || line.contains("is not IOzone");
        let command =
            line.starts_with("\tCommand line used:") || line.starts_with("\tTime Resolution");
        // A clock with microseconds is too coarse for some numbers, and IOzone prints that.
        let coarse =
            line.starts_with("Timer resolution is poor") || line.starts_with("reported inaccurate");
        if !(own || names || command || coarse || line.contains("Without the stonewall")) {
            lines.push(masked(line));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn masked(line: &str) -> String {
    let throughput = ["Children see", "Parent sees", "Min ", "Max ", "Avg "];
    if let (Some((before, after)), true) = (
        line.split_once("= "),
        throughput
            .iter()
            .any(|start| line.trim_start().starts_with(start)),
    ) {
        // Right-aligned in ten places, or as wide as it is: `= 4263913.00 kB/sec`.
        let number = after.trim_start().split(' ').next().unwrap_or_default();
        let end = after.find(number).unwrap_or(0) + number.len();
        assert!(
            end >= 10 && number.len() > 3 && number.as_bytes()[number.len() - 3] == b'.',
            "{line}"
        );
        return format!("{before}= #{}", &after[end..]);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_row = words.len() > 2
        && words
            .iter()
            .all(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    if is_row {
        // The sizes with their columns, the count of the numbers after them, and the trailing
        // blanks.
        let blanks = line.len() - line.trim_end().len();
        return format!(
            "{} + {} numbers + {blanks} blanks, {} wide",
            &line[..24],
            words.len() - 2,
            line.len()
        );
    }
    match words.split_first() {
        Some((file, values))
            if file.starts_with('"') && values.iter().all(|value| value.parse::<f64>().is_ok()) =>
        {
            format!(
                "{file} + {} values{}",
                values.len(),
                if line.ends_with(' ') { " " } else { "" }
            )
        }
        _ => line.to_owned(),
    }
}

fn agrees(directory: &Path, name: &str) {
    let theirs = std::fs::read_to_string(testdata("tool-output").join(name)).unwrap();
    let command = theirs
        .lines()
        .find_map(|line| line.trim().strip_prefix("Command line used: "))
        .unwrap();
    let ours = done(directory, &local(command));
    let (theirs, ours) = (comparable(&theirs), comparable(&ours));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
}

#[test]
fn the_text_is_that_of_the_real_tool_for_every_command_that_was_recorded() {
    let directory = scratch();
    for name in ["single", "N", "O", "R", "R-b", "cpu", "sync", "throughput"] {
        agrees(directory.path(), &format!("iozone-3.471-{name}.txt"));
    }
}

#[test]
fn o_direct_prints_what_it_does_with_the_real_tool() {
    let directory = scratch();
    agrees(directory.path(), "iozone-3.471-directio.txt");
}

// `fsb iozone` removes the files that it made, however it ends, and changes no others.

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
        run(
            "truncate",
            &["-s", &format!("{megabytes}M"), image.to_str().unwrap()],
        );
        run(
            "mkfs.ext4",
            &["-q", "-O", "^has_journal", image.to_str().unwrap()],
        );
        std::fs::create_dir(directory.path().join("mnt")).unwrap();
        let mounted = Mounted(directory);
        run(
            "mount",
            &[
                "-o",
                "loop,noatime",
                image.to_str().unwrap(),
                mounted.point().to_str().unwrap(),
            ],
        );
        mounted
    }

    fn point(&self) -> std::path::PathBuf {
        self.0.path().join("mnt")
    }

    fn options(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let point = self.point();
        let line = mounts
            .lines()
            .find(|line| line.split(' ').nth(1) == point.to_str())
            .unwrap_or_default();
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
    Path::new("/dev/loop-control")
        .exists()
        .then_some(())
        .ok_or_else(|| "loop devices".to_owned())
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
    let status = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&point)
        .status()
        .unwrap();
    assert!(status.success());
    let shown = point.canonicalize().unwrap();
    for line in ["-s 64 -i 0 -f x", "-a -g 64 -f x", "-t 2 -s 64 -i 0 -F x y"] {
        let output = iozone_json(&point, line);
        let error = expect_error(&output, 2, "directory/unusable");
        assert_eq!(
            error["fields"]["path"],
            shown.to_str().unwrap(),
            "{line}: {error}"
        );
        assert!(output.stdout.is_empty(), "{line}");
    }
    expect_code(&iozone(&point, "-s 64 -r 4 -i 0 -f there"), 2);
    // Reading needs only read permission on the file.
    done(&point, "-s 64 -r 4 -i 1 -f there");
    assert_eq!(listing(&point), ["lost+found", "there"]);
}

/// Another process fills the file system after the check. A store into a mapping has no error to
/// return: the kernel sends a signal, which must not end the program before it removes the file.
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
        wait_until("the file is there", Duration::from_secs(20), || {
            point.join("f").exists()
        });
        let ended = AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| fill(&point.join("other"), &ended));
            let output = running.wait();
            ended.store(true, Ordering::Relaxed);
            output
        });
        expect_code(&output, 3);
        // The last record before the end may have been written in part.
        let told = [
            "No space left on device (ENOSPC)",
            "or the file system is full",
        ];
        assert!(
            told.iter().any(|told| stderr(&output).contains(told)),
            "{means}: {}",
            stderr(&output)
        );
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

// Unsupported requests are refused by name before anything is changed.

/// Unmounting it would delete every file in it, those of other users too.
#[test]
fn a_file_system_in_memory_is_never_unmounted() {
    needs!(root);
    let directory = scratch();
    let mount = |arguments: &[&str]| {
        std::process::Command::new(arguments[0])
            .args(&arguments[1..])
            .status()
            .unwrap()
    };
    let point = directory.path().to_str().unwrap();
    assert!(
        mount(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=1m,mode=755",
            "none",
            point
        ])
        .success()
    );
    std::fs::write(directory.path().join("other"), "other").unwrap();
    let output = iozone_json(
        std::path::Path::new("/"),
        &format!("-U {point} -s 64 -i 0 -f {point}/f"),
    );
    let left = listing(directory.path());
    assert!(mount(&["umount", point]).success());
    expect_error(&output, 2, "iozone/invalid-options");
    assert_eq!(left, ["other"]);
}

#[test]
fn unmounting_needs_a_mount_point_that_holds_the_file() {
    needs!(root);
    let directory = scratch();
    let point = directory.path().to_str().unwrap();
    let code = "iozone/invalid-options";
    let requests: &[(&[&str], &str)] = &[
        (&["iozone", "-U", point], code),
        (&["iozone", "-U", "/proc"], code),
        (&["iozone", "-U", "/proc", "-t", "2"], code),
    ];
    expect_refusals("iozone_unmount", directory.path(), requests);
}
