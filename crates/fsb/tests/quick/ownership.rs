//! Other users who own directories of results and put files in the way.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::common::{
    FSB, JSON, Running, WAIT, below, expect_code, expect_error, fails, fast_plan, scratch,
    succeeds, trials, wait_until, words,
};

fn under_limits(directory: &Path, limits: &str, arguments: &[&str]) -> Output {
    let line = format!("{limits}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .arg("-c")
        .arg(line)
        .arg(FSB)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn two_do_not_go_on_with_one_run() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let first = Running::start(
        scratch.path(),
        "run fast.toml null --blocks 3000 --out one -q",
    );
    let one = scratch.path().join("one");
    wait_until("trials", WAIT, || !trials(&one).is_empty());
    let arguments = ["run", "--resume", "one", "--allow-concurrent", "-q"];
    let refused = fails(scratch.path(), &arguments, 3, "store/busy");
    let holder = refused["fields"]["holder"].as_str().unwrap();
    assert!(
        holder.contains(&format!("process {}", first.id())),
        "{refused}"
    );
    // The first run still writes to the directory.
    let there = trials(&one).len();
    wait_until("more trials", WAIT, || trials(&one).len() > there);
    first.signal(Signal::INT);
    expect_code(&first.wait(), 130);
    assert!(!one.join(".lock").exists());
}

#[test]
fn a_limit_on_files_ends_a_run_and_keeps_its_trials() {
    let scratch = scratch();
    fast_plan(scratch.path());
    // 40 KiB: the record fits, many trials do not.
    let arguments = [
        "run",
        "fast.toml",
        "null",
        "--blocks",
        "50",
        "--out",
        "one",
        "-q",
        JSON,
    ];
    let limited = under_limits(scratch.path(), "ulimit -f 80", &arguments);
    expect_error(&limited, 3, "run/journal");
    let one = scratch.path().join("one");
    let text = fs::read_to_string(one.join("trials.jsonl")).unwrap();
    assert!(
        text.ends_with('\n')
            && !trials(&one).is_empty()
            && trials(&one).len() == text.lines().count()
    );
    succeeds(scratch.path(), "report one");
}

#[test]
fn owners_can_read_their_results_whatever_the_mask() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = words("run fast.toml null --blocks 1 --out one -q");
    expect_code(&under_limits(scratch.path(), "umask 0777", &arguments), 0);
    let one = scratch.path().join("one");
    assert_eq!(fs::metadata(&one).unwrap().mode() & 0o777, 0o700);
    for path in below(&one) {
        assert_eq!(
            fs::metadata(&path).unwrap().mode() & 0o777,
            0o600,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_working_directory_that_is_gone_is_told() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("gone")).unwrap();
    let output = under_limits(
        scratch.path(),
        "cd gone && rmdir ../gone",
        &["run", "null", JSON],
    );
    expect_error(&output, 2, "store/no-working-directory");
}

#[test]
fn a_run_directory_that_is_deleted_is_made_again() {
    let scratch = scratch();
    fast_plan(scratch.path());
    let arguments = [
        "run",
        "fast.toml",
        "null",
        "--blocks",
        "3000",
        "--out",
        "one",
        "-q",
        JSON,
    ];
    let run = Running::start(scratch.path(), &arguments);
    let one = scratch.path().join("one");
    wait_until("trials", WAIT, || trials(&one).len() > 3);
    let known = trials(&one).len();
    // The run may write a file between the deletion of the others and the deletion of the
    // directory.
    wait_until("the directory is gone", WAIT, || {
        fs::remove_dir_all(&one).is_ok()
    });
    expect_error(&run.wait(), 3, "run/journal");
    assert!(trials(&one).len() >= known);
    succeeds(scratch.path(), "report one");
}
