//! Bad input causes no panic, starts no work, and gets its error.

use std::fs;
use std::path::Path;

use crate::common::bad_input::*;
use crate::common::{expect_code, expect_no_traces, fails, scratch, stderr, stdout, traces, words};

#[test]
fn bad_input_touches_nothing_and_never_panics() {
    let before = traces();
    for (line, exit, _) in TABLE {
        let (output, scratch) = run_line(line, "text");
        expect_code(&output, *exit);
        let said = format!("{}{}", stderr(&output), stdout(&output));
        assert!(
            !said.contains("panicked") && !said.contains("RUST_BACKTRACE"),
            "fsb {line} panicked: {said}"
        );
        let names = |directory: &Path| fs::read_dir(directory).unwrap().count();
        let untouched = self::scratch();
        make_files(untouched.path());
        assert_eq!(
            names(scratch.path()),
            names(untouched.path()),
            "fsb {line} left something in its directory"
        );
    }
    expect_no_traces(&before);
}

#[test]
fn block_devices_that_are_none_are_refused() {
    needs!(root);
    let scratch = scratch();
    for path in ["/dev/null", "/dev/no-such-device", "/etc/passwd"] {
        let error = fails(
            scratch.path(),
            &["run", &format!("ext4@{path}")],
            2,
            "device/not-a-device",
        );
        assert_eq!(error["fields"]["path"], path, "{error}");
    }
}

/// fsb asks the driver before anything is made, so that no trials fail an hour later.
#[test]
fn a_misspelt_mount_option_is_refused_before_anything_is_made() {
    needs!(root);
    needs!(program "mkfs.ext4");
    needs!(program "mkfs.xfs");
    let before = traces();
    let scratch = scratch();
    // The message quotes the driver, so it differs between kernels.
    for (target, option) in [
        ("ext4,noatme", "noatme"),
        ("ext4,data=jornal", "data=jornal"),
        ("xfs,alocsize=64k", "alocsize=64k"),
    ] {
        let arguments = ["run", target, "xfs", "--out", "run"];
        let error = fails(scratch.path(), &arguments, 2, "target/unknown-option");
        assert_eq!(error["fields"]["option"], option, "{error}");
    }
    assert!(!scratch.path().join("run").exists());
    expect_no_traces(&before);
}

#[test]
fn an_image_too_small_for_a_matrix_is_told_what_it_needs() {
    needs!(root);
    let scratch = scratch();
    let arguments = words("run ext4 --suite iozone --size 400M --out run");
    fails(scratch.path(), &arguments, 3, "machine/no-space");
    assert!(!scratch.path().join("run").exists());
}
