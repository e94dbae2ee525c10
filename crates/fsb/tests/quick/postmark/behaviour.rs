//! `fsb postmark` removes the files that it made, however it ends, and changes no others.

use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::{listing, script};
use crate::common::postmark::*;
use crate::common::{JSON, Running, expect_code, expect_error, message, scratch, stdout, wait_until};

/// Commands that take minutes.
const ENDLESS: &str = "set number 300\nset transactions 2000000000\nset subdirectories 3\nrun\nset number 1\nrun\n";

#[test]
fn signals_end_it_and_it_cleans_up() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = scratch();
        let running = start(directory.path(), ENDLESS);
        running.signal(signal);
        let output = running.wait();
        expect_error(&output, code, "run/interrupted");
        // Of two runs, the second does not begin.
        assert!(stdout(&output).matches("Creating files").count() <= 1, "{}", stdout(&output));
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}

#[test]
fn a_killed_run_leaves_no_files() {
    let directory = scratch();
    let running = start(directory.path(), ENDLESS);
    running.signal(Signal::KILL);
    running.wait();
    wait_until("the files are gone", Duration::from_secs(30), || listing(directory.path()).is_empty());
}

#[test]
fn a_killed_worker_leaves_no_files_and_is_told() {
    let directory = scratch();
    let running = start(directory.path(), &ENDLESS.replace("set number 1\nrun\n", ""));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.id())).unwrap();
    let worker = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(worker, Signal::KILL).unwrap();
    let output = running.wait();
    expect_code(&output, 4);
    message(&output, "warning/run-failed");
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn names_that_are_taken_are_refused_and_others_left_alone() {
    let directory = scratch();
    let name = |name: &str| directory.path().join(name);
    for other in ["0", "01", "1001", "s", "s3", "note"] {
        std::fs::write(name(other), other).unwrap();
    }
    let lines = "set transactions 500\nset number 500\nrun\nset subdirectories 3\nrun\n";
    expect_code(&script(directory.path(), lines), 0);
    assert_eq!(listing(directory.path()), ["0", "01", "1001", "note", "s", "s3"]);
    for taken in ["17", "1000", "s0", "s2"] {
        std::fs::write(name(taken), "mine").unwrap();
        let error = expect_error(&script(directory.path(), lines), 2, "directory/unusable");
        assert_eq!(error["fields"]["name"], taken, "{error}");
        assert_eq!(std::fs::read(name(taken)).unwrap(), b"mine");
        std::fs::remove_file(name(taken)).unwrap();
    }
}

#[test]
fn a_pool_that_would_not_fit_is_refused_beforehand() {
    let directory = scratch();
    let output = script(directory.path(), "set size 1000000000\nset number 60000\nrun\n");
    expect_error(&output, 3, "machine/no-space");
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
}

#[test]
fn a_pool_that_runs_empty_is_a_failed_run_and_the_next_one_follows() {
    let directory = scratch();
    let output =
        script(directory.path(), "set number 2\nset bias create 0\nrun\nset bias create 5\nset number 500\nrun\n");
    expect_code(&output, 4);
    let text = stdout(&output);
    assert!(text.contains("out of files!\nFor this workload") && text.contains("seconds total"), "{text}");
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn a_file_that_vanishes_ends_the_run_by_name_and_the_next_one_follows() {
    let directory = scratch();
    let lines = "set number 30\nset bias create -1\nset transactions 2000000000\nset bias read 10\nrun\n\
                 set transactions 100\nrun\n";
    let running = start(directory.path(), lines);
    wait_until("all files are there", Duration::from_secs(30), || listing(directory.path()).len() == 30);
    std::fs::remove_file(directory.path().join("7")).unwrap();
    let output = running.wait();
    expect_code(&output, 4);
    let fields = message(&output, "warning/run-failed")["fields"].clone();
    assert_eq!((&fields["place"], &fields["errno"]), (&"script:5".into(), &"ENOENT".into()), "{fields}");
    assert!(stdout(&output).contains("seconds total"));
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn a_file_with_other_bytes_is_found_out_where_that_is_asked_for() {
    for buffering in [true, false] {
        let directory = scratch();
        let lines = format!(
            "set buffering {buffering}\nset size 3000\nset number 30\nset bias create -1\nset bias read 10\n\
             set transactions 2000000000\nrun\n"
        );
        std::fs::write(directory.path().join("script"), lines).unwrap();
        let running = Running::start(directory.path(), &["postmark", "--verify", "script", JSON]);
        let whole = |name: &String| std::fs::metadata(directory.path().join(name)).is_ok_and(|file| file.len() == 3000);
        wait_until("all files are written", Duration::from_secs(30), || {
            let files = listing(directory.path());
            files.len() == 30 && files.iter().all(whole)
        });
        let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("7")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4], 1234).unwrap();
        let output = running.wait();
        expect_code(&output, 4);
        let fields = message(&output, "warning/run-failed")["fields"].clone();
        assert!(fields["reason"].as_str().unwrap().contains(" 7 ") && fields["errno"].is_null(), "{fields}");
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}
