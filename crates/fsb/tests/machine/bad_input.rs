//! Bad input causes no panic, starts no work, and is answered with its error.

use std::fs;
use std::path::Path;

use crate::common::bad_input::*;
use crate::common::{expect_code, expect_no_traces, fsb, scratch, stderr, stdout, traces};

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
    for (target, message) in [
        ("ext4@/dev/null", "not a block device"),
        ("ext4@/dev/no-such-device", "no-such-device"),
        ("ext4@/etc/passwd", "not a block device"),
    ] {
        let output = fsb(scratch.path(), &["run", target]);
        assert_eq!(output.status.code(), Some(2), "{target}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{target}: {}", stderr(&output));
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
    for (target, said) in [
        ("ext4,noatme", "did you mean 'noatime'?"),
        ("ext4,data=jornal", "did you mean 'data=journal'?"),
        ("xfs,alocsize=64k", "did you mean 'allocsize'?"),
    ] {
        let output = fsb(scratch.path(), &["run", target, "xfs", "--out", "run"]);
        expect_code(&output, 2);
        let text = stderr(&output);
        assert!(text.contains("refuses the mount option") && text.contains(said), "{target}: {text}");
    }
    assert!(!scratch.path().join("run").exists());
    expect_no_traces(&before);
}
