//! Unsupported requests are refused by name before anything is changed.

use super::{iozone_json, listing};
use crate::common::{expect_error, expect_refusals, scratch};

/// Unmounting it would delete every file in it, those of other users too.
#[test]
fn a_file_system_in_memory_is_never_unmounted() {
    needs!(root);
    let directory = scratch();
    let mount = |arguments: &[&str]| std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap();
    let point = directory.path().to_str().unwrap();
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", point]).success());
    std::fs::write(directory.path().join("other"), "other").unwrap();
    let output = iozone_json(std::path::Path::new("/"), &format!("-U {point} -s 64 -i 0 -f {point}/f"));
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
