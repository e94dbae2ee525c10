//! Requests for virtual machines that are refused before a kernel is looked for.

use crate::common::vm::*;
use crate::common::*;

#[test]
fn no_disk_of_a_host_fails_on_purpose() {
    let scratch = scratch();
    let output = fsb(scratch.path(), &["run", "ext4@fault:error+loop", "--size", "64M"]);
    let refused = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!([2, 3].contains(&output.status.code().unwrap()), "{refused}");
    assert!(refused.contains("only in a virtual machine") || refused.contains("needs root"), "{refused}");
}

#[test]
fn requests_that_make_no_sense_are_refused_without_a_kernel() {
    let scratch = scratch();
    let refused = |arguments: &[&str]| {
        let mut command = command(scratch.path(), &[&["run"], arguments, &["--out", "run"]].concat());
        command.env("XDG_CACHE_HOME", scratch.path().join("cache")).output().unwrap()
    };
    expect(&refused(&["ext4", "--kernel", "6.1"]), 2, &["--in vm"]);
    expect(&refused(&["ext4", "--memory", "1G"]), 2, &["--in vm", "memory-limit"]);
    expect(&refused(&["ext4", "--in", "wm"]), 2, &["did you mean 'vm'"]);
    expect(&refused(&["/tmp", "--in", "vm"]), 2, &["does not see it"]);
    expect(&refused(&["ext4", "--in", "vm", "--cpus", "0"]), 2, &["between 1"]);
}
