//! Bad input causes no panic, starts no work, and is answered with its error.

use std::fs;
use std::path::Path;

use crate::common::bad_input::*;
use crate::common::{expect_code, expect_no_traces, expect_refusals, fails, scratch, stderr, stdout, traces};

#[test]
fn bad_input_touches_nothing_and_never_panics() {
    let before = traces();
    for (line, exit, _) in TABLE {
        let (output, scratch) = run_line(line, "text");
        expect_code(&output, *exit);
        let said = format!("{}{}", stderr(&output), stdout(&output));
        assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "fsb {line} panicked: {said}");
        let names = |directory: &Path| fs::read_dir(directory).unwrap().count();
        let untouched = self::scratch();
        make_files(untouched.path());
        assert_eq!(names(scratch.path()), names(untouched.path()), "fsb {line} left something in its directory");
    }
    assert_eq!(traces(), before);
}

#[test]
fn block_devices_that_are_none_are_refused() {
    needs!(root);
    let scratch = scratch();
    for path in ["/dev/null", "/dev/no-such-device", "/etc/passwd"] {
        let error = fails(scratch.path(), &["run", &format!("ext4@{path}")], 2, "device/not-a-device");
        assert_eq!(error["fields"]["path"], path, "{error}");
    }
}

/// The driver is asked before anything is made: no row of failures an hour later.
#[test]
fn a_misspelt_mount_option_is_refused_before_anything_is_made() {
    needs!(root);
    needs!(program "mkfs.ext4");
    needs!(program "mkfs.xfs");
    let before = traces();
    let scratch = scratch();
    let code = "target/unknown-option";
    let requests: &[(&[&str], &str)] = &[
        (&["run", "ext4,noatme", "xfs", "--out", "run"], code),
        (&["run", "ext4,data=jornal", "xfs", "--out", "run"], code),
        (&["run", "xfs,alocsize=64k", "xfs", "--out", "run"], code),
    ];
    expect_refusals("mount_options", scratch.path(), requests);
    assert!(!scratch.path().join("run").exists());
    expect_no_traces(&before);
}
