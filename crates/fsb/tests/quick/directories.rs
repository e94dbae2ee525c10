//! Existing directories are measured as they are: fsb changes only its own sub-directory and removes it.

use std::fs;

use crate::common::*;

/// A budget that is certainly too small is refused before anything is made.
#[test]
fn a_budget_that_holds_nothing_is_refused() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("data")).unwrap();
    let plan = "[[workload]]\nname = 'read'\nfile_size = '4G'\ncache = 'any'\nsample_time = '10s'\n";
    fs::write(scratch.path().join("huge.toml"), plan).unwrap();
    let arguments = ["run", "huge.toml", "./data", "--budget", "1s", "--out", "run"];
    fails(scratch.path(), &arguments, 2, "run/budget-too-small");
    assert!(!scratch.path().join("run").exists());
}
