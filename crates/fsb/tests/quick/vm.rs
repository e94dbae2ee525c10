//! Requests for virtual machines that are refused before fsb looks for a kernel.

use crate::common::*;

#[test]
fn no_disk_of_a_host_fails_on_purpose() {
    let scratch = scratch();
    let output = fsb_json(scratch.path(), &["run", "ext4@fault:error+loop", "--size", "64M"]);
    let (exit, code) = match rustix::process::geteuid().is_root() {
        true => (2, "target/only-in-vm"),
        false => (3, "testbed/needs-root"),
    };
    expect_error(&output, exit, code);
}

#[test]
fn requests_that_make_no_sense_are_refused_without_a_kernel() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["run", "ext4", "--kernel", "6.1"], "plan/invalid"),
        (&["run", "ext4", "--memory", "1G"], "plan/invalid"),
        (&["run", "ext4", "--in", "wm"], "plan/invalid"),
        (&["run", "/tmp", "--in", "vm"], "plan/invalid"),
        (&["run", "ext4", "--in", "vm", "--cpus", "0"], "plan/out-of-range"),
    ];
    expect_refusals("vm", scratch.path(), requests);
}
