//! `fsb filebench`: performs a workload file, prints filebench's text, and leaves nothing.

use std::process::Command;

use crate::common::filebench::*;
use crate::common::{JSON, expect_code, message, scratch};

/// Another process takes the space after fsb has checked it.
#[test]
fn a_disk_that_fills_up_ends_the_run_and_is_emptied() {
    needs!(root);
    let directory = scratch();
    let point = directory.path().to_str().unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=48m", "none", point];
    assert!(Command::new("mount").args(mount).status().unwrap().success());
    let run = || {
        let running = start(directory.path(), &[JSON]);
        // Take the rest of the space, so that the next file that grows finds none.
        assert!(std::fs::write(directory.path().join("other"), vec![7; 48 << 20]).is_err());
        running.wait()
    };
    let output = std::panic::catch_unwind(run);
    let left = listing(directory.path());
    assert!(Command::new("umount").arg(point).status().unwrap().success());
    let output = output.unwrap();
    expect_code(&output, 4);
    assert_eq!(message(&output, "warning/run-failed")["fields"]["errno"], "ENOSPC");
    assert_eq!(left, [directory.path().join("other")]);
}
