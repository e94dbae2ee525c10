//! A disk that fills up while a workload writes to it.

use crate::common::failures::*;
use crate::common::*;

#[test]
fn a_disk_that_fills_up_in_the_middle_fails_one_trial() {
    needs!(root);
    let directory = scratch();
    // The workload makes more files than there are inodes, which fsb cannot predict if mkfs chooses
    // their number.
    let creates =
        "{ op = 'create', set = 'mails', fd = 1 }, { op = 'close', fd = 1 }, ".repeat(500);
    let grows = format!(
        "[[workload]]\nname = 'flow'\nlabel = 'grows'\nflow = '''\nname = 'grows'\n\
         [[fileset]]\nname = 'mails'\nfiles = 1000\nsize = '1K'\npreallocated = 0.1\n\
         [[thread]]\nname = 'writer'\nsteps = [ {creates}]\n'''\n"
    );
    let plan = format!(
        "targets = ['few=ext4,mkfs=\"-T largefile\"']\nsize = '320M'\nmkfs_defaults = true\n{SHORT}sample_time = '2s'\n{grows}{OTHERS}"
    );
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), "run plan.toml --out out");
    expect_code(&output, 4);
    expect_one_failure(&directory.path().join("out"), "grows", &["ENOSPC"]);
    assert!(
        stdout(&output).contains("ENOSPC") && stderr(&output).contains("ENOSPC"),
        "{}",
        stdout(&output)
    );
}
