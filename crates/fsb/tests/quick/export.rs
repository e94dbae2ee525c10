//! `fsb export`: plans for other tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::export::*;
use crate::common::{expect_refusals, scratch};

#[test]
fn the_default_suite_becomes_a_job_file_and_a_script() {
    let directory = scratch();
    let targets = [
        "ext4",
        "nolazy=xfs,noatime,mkfs=\"-m crc=0\"",
        "tmpfs",
        "/srv/data",
        "btrfs@/dev/sdb1",
        "ext4@ram",
    ];
    let (jobs, script, told) = exported(
        directory.path(),
        &[&["--suite", "quick"], &targets[..]].concat(),
    );
    // The geometry of a large disk, which needs the mkfs programs on the machine.
    let geometry = [
        " -b 4096 -I 256 -i 16384 -J size=256",
        " -l size=64m",
        " -d single -m dup",
    ];
    let script = geometry
        .iter()
        .fold(script, |script, words| script.replace(words, ""));
    insta::assert_snapshot!("quick_jobs", jobs);
    insta::assert_snapshot!("quick_script", script);
    insta::assert_snapshot!("quick_told", told);
    let mode = fs::metadata(directory.path().join("out/quick.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    let shell = Command::new("sh")
        .arg("-n")
        .arg(directory.path().join("out/quick.sh"))
        .status()
        .unwrap();
    assert!(shell.success());
}

#[test]
fn rows_of_all_kinds_have_their_options_or_a_reason() {
    let directory = scratch();
    fs::write(directory.path().join("many.toml"), MANY).unwrap();
    let (jobs, _, _) = exported(directory.path(), &["many.toml"]);
    insta::assert_snapshot!("many_jobs", jobs);
}

/// A script without targets works in the directory in which it is called.
#[test]
fn without_a_target_the_script_works_where_it_is_called() {
    let directory = scratch();
    let (_, script, _) = exported(directory.path(), &[]);
    assert!(script.contains("root=$(cd . && pwd)/fsb-cases"), "{script}");
}

#[test]
fn targets_that_cannot_be_exported_are_refused_with_a_remedy() {
    let directory = scratch();
    let requests: &[(&[&str], &str)] = &[
        (
            &["export", "foi", "--suite", "quick"],
            "arguments/invalid-value",
        ),
        (&["export", "fio", "--suite", "qick"], "plan/unknown-suite"),
        (&["export", "fio", "missing.toml"], "plan/unreadable"),
        (&["export", "fio", "a.toml", "b.toml"], "plan/several"),
        (&["export", "fio", "--suite", "varmail"], "plan/unfit"),
        (&["export", "fio", "null"], "testbed/refused"),
        (&["export", "fio", "ext5"], "target/unknown-file-system"),
        (
            &["export", "fio", "ext4", "--units", "0"],
            "arguments/invalid-value",
        ),
        (&["export"], "arguments/missing"),
    ];
    expect_refusals("export", directory.path(), requests);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
