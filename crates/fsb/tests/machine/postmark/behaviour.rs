//! `fsb postmark` removes the files that it made, however it ends, and changes no others.

use std::process::Command;

use super::listing;
use crate::common::postmark::*;
use crate::common::{expect_code, message, scratch};

/// Another process takes the space after fsb has checked it.
#[test]
fn a_disk_that_fills_up_ends_the_run_and_is_emptied() {
    needs!(root);
    let directory = scratch();
    let mount = |arguments: &[&str]| assert!(Command::new("mount").args(arguments).status().unwrap().success());
    let point = directory.path().to_str().unwrap();
    mount(&["-t", "tmpfs", "-o", "size=16m,mode=755", "none", point]);
    let run = || {
        let lines = "set size 1000 20000\nset number 300\nset bias read 0\nset transactions 2000000000\nrun\n";
        let running = start(directory.path(), lines);
        // Take the rest of the space, so that the next file that grows finds none.
        let filled = std::fs::write(directory.path().join("other"), vec![7; 16 << 20]);
        assert!(filled.is_err());
        running.wait()
    };
    let output = std::panic::catch_unwind(run);
    let left = listing(directory.path());
    assert!(Command::new("umount").arg(point).status().unwrap().success());
    let output = output.unwrap();
    expect_code(&output, 4);
    assert_eq!(message(&output, "warning/run-failed")["fields"]["errno"], "ENOSPC");
    assert_eq!(left, ["other"]);
}
