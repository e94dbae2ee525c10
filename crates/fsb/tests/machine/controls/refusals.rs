//! Invalid controls are refused before anything is changed.

use std::fs;

use super::*;

#[test]
fn a_scheduler_that_the_device_does_not_know_is_refused() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    let target = format!("ext4@{}", disk.path.display());
    for target in [target.as_str(), "ext4"] {
        let arguments = ["run", target, "--control", "scheduler=cfq", "--size", "320M"];
        fails(scratch.path(), &arguments, 2, "control/invalid-value");
    }
    // Nothing was written to it.
    assert!(fs::read(&disk.path).unwrap().iter().all(|byte| *byte == 0));
}
