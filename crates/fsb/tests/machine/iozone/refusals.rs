//! Unsupported requests are refused by name before anything is touched.

use super::{iozone, listing};
use crate::common::{expect_code, scratch, stderr};

/// Every file in it would be gone, those of others too.
#[test]
fn a_file_system_in_memory_is_never_unmounted() {
    needs!(root);
    let directory = scratch();
    let mount = |arguments: &[&str]| std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap();
    let point = directory.path().to_str().unwrap();
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", point]).success());
    std::fs::write(directory.path().join("other"), "other").unwrap();
    let output = iozone(std::path::Path::new("/"), &format!("-U {point} -s 64 -i 0 -f {point}/f"));
    let left = listing(directory.path());
    assert!(mount(&["umount", point]).success());
    expect_code(&output, 2);
    assert!(stderr(&output).contains("this is a tmpfs, which loses everything in it"), "{}", stderr(&output));
    assert_eq!(left, ["other"]);
}

#[test]
fn unmounting_needs_a_mount_point_that_holds_the_file() {
    needs!(root);
    let directory = scratch();
    for (line, expected) in
        [("-U DIR", "nothing is mounted there"), ("-U /proc", "is not below it"), ("-U /proc -t 2", "-U is not for -t")]
    {
        let output = iozone(directory.path(), &line.replace("DIR", directory.path().to_str().unwrap()));
        expect_code(&output, 2);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
