//! Matrices of sizes: sweeps, estimates, what a budget leaves out, and workers that share the work.

use crate::common::{expect_code, fsb, scratch, stderr};

#[test]
fn an_image_too_small_for_a_matrix_is_told_what_it_needs() {
    needs!(root);
    let scratch = scratch();
    let output = fsb(scratch.path(), &["run", "ext4", "--suite", "iozone", "--size", "400M", "--out", "run"]);
    expect_code(&output, 3);
    let said = stderr(&output);
    assert!(said.contains("512M file' needs 512 MiB") && said.contains("give --size 569M or more"), "{said}");
    assert!(!scratch.path().join("run").exists());
}
