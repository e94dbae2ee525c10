//! Matrices of sizes: sweeps, estimates, workloads that the budget omits, and workers that share the work.

use crate::common::{fails, scratch};

#[test]
fn an_image_too_small_for_a_matrix_is_told_what_it_needs() {
    needs!(root);
    let scratch = scratch();
    let arguments = ["run", "ext4", "--suite", "iozone", "--size", "400M", "--out", "run"];
    fails(scratch.path(), &arguments, 3, "machine/no-space");
    assert!(!scratch.path().join("run").exists());
}
