//! Controls that make no sense are refused before anything is touched.

use std::fs;

use super::*;

#[test]
fn a_scheduler_that_the_device_does_not_know_is_refused() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    let target = format!("ext4@{}", disk.path.display());
    for target in [target.as_str(), "ext4"] {
        let output = fsb(scratch.path(), &["run", target, "--control", "scheduler=cfq", "--size", "320M"]);
        expect_code(&output, 2);
        assert!(stderr(&output).contains("unknown scheduler 'cfq'"), "{}", stderr(&output));
    }
    // Nothing was written to it.
    assert!(fs::read(&disk.path).unwrap().iter().all(|byte| *byte == 0));
}
