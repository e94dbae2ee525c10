//! Failures during a run: the failed trial or target is marked, and the others continue.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::failures::*;
use crate::common::*;

// Full, failing, read-only and missing targets.

#[test]
fn pretended_failures_are_marked_with_their_reason() {
    let scratch = scratch();
    for (name, reason) in [("enospc", "ENOSPC"), ("eio", "EIO"), ("erofs", "EROFS")] {
        let target = format!("bad=null,fail={name}");
        let output = tiny(&[&target, "good=null"], name, scratch.path());
        expect_code(&output, 4);
        let run = scratch.path().join(name);
        assert!(
            outcomes(&run, "bad")
                .iter()
                .all(|(_, outcome, error)| outcome == "failed" && error == reason)
        );
        assert!(
            outcomes(&run, "good")
                .iter()
                .all(|(_, outcome, _)| outcome == "ok")
        );
    }
}

#[test]
fn too_few_open_files_are_answered_with_the_limit_on_open_files() {
    let before = traces();
    let scratch = scratch();
    fast_plan(scratch.path());
    let mut refused = 0;
    for limit in [5, 6, 7, 9, 11, 13, 16, 18, 64] {
        let (line, out) = (
            format!("ulimit -n {limit}; exec \"$0\" \"$@\""),
            format!("run-{limit}"),
        );
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &line,
            FSB,
            "run",
            "fast.toml",
            "null",
            "--blocks",
            "1",
            "--out",
            &out,
            JSON,
        ]);
        let output = command.current_dir(scratch.path()).output().unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{limit}: {}",
            stderr(&output)
        );
        if output.status.code() == Some(3) {
            refused += 1;
            assert_eq!(
                error_of(&output)["fields"]["errno"],
                "EMFILE",
                "{limit}: {}",
                stderr(&output)
            );
        }
    }
    assert!(refused > 4, "{refused} runs met the limit");
    expect_no_traces(&before);
}

// Faults during servers' work on real files.

#[test]
fn workloads_larger_than_the_target_are_refused_beforehand() {
    let directory = scratch();
    let large = "[[workload]]\nname = 'fileserver'\nfiles = 40000\n";
    let plan = format!(
        "targets = ['ext4']\nsize = '320M'\nmkfs_defaults = true\n{SHORT}sample_time = '1ms'\n{large}{OTHERS}"
    );
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let code = if is_root {
        "machine/no-space"
    } else {
        "testbed/needs-root"
    };
    fails(directory.path(), "run plan.toml --out out", 3, code);
    assert!(!directory.path().join("out").exists());
}

#[test]
fn too_few_files_fail_one_trial() {
    let directory = in_memory();
    std::fs::create_dir(directory.path().join("target")).unwrap();
    let few = "[[workload]]\nname = 'flow'\nlabel = 'few'\ndurability = 'none'\nflow = '''\nname = 'few'\n\
               [[fileset]]\nname = 'mails'\nfiles = 3\nsize = '1K'\n\
               [[thread]]\nname = 'reader'\nsteps = [ { op = 'delete', set = 'mails', iterations = 10 } ]\n'''\n";
    // Long enough for more than three deletions on the busiest machine.
    let plan = format!("targets = ['./target']\n{SHORT}sample_time = '300ms'\n{few}{OTHERS}");
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), "run plan.toml --out out");
    expect_code(&output, 4);
    expect_one_failure(&directory.path().join("out"), "few", &["trial/no-files"]);
    assert_eq!(
        std::fs::read_dir(directory.path().join("target"))
            .unwrap()
            .count(),
        0
    );
}

/// Another process deletes the files of the file server, but no other files.
#[test]
fn files_that_vanish_fail_one_trial() {
    let directory = in_memory();
    let target = directory.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let served =
        "[[workload]]\nname = 'fileserver'\nfiles = 300\nfile_size = '8K'\ndurability = 'none'\n";
    let plan = format!("targets = ['./target']\n{SHORT}sample_time = '500ms'\n{served}{OTHERS}");
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let running = Running::start(directory.path(), "run plan.toml --out out");
    let over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                mails(&target, false)
                    .iter()
                    .for_each(|path| drop(std::fs::remove_file(path)));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let output = running.wait();
        over.store(true, Ordering::Relaxed);
        output
    });
    expect_code(&output, 4);
    // Its set may already be incomplete when it is checked, and that error has no code.
    expect_one_failure(&directory.path().join("out"), "fileserver", &["ENOENT", ""]);
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

/// `--verify` works for every workload with many files.
#[test]
fn all_that_can_compare_does_where_it_is_asked_for() {
    let directory = scratch();
    let run = |suite: &str, more: &[&str]| {
        let options = [
            &[
                "run",
                "null",
                "--suite",
                suite,
                "--scale",
                "1/64",
                "--verify",
                "--print-plan",
            ],
            more,
        ]
        .concat();
        fsb(directory.path(), &options)
    };
    for (suite, verified) in [
        ("postmark", 4),
        ("filetree", 7),
        ("untar-build", 2),
        ("varmail", 1),
        ("fileserver", 1),
        ("webserver", 1),
        ("webproxy", 1),
        ("oltp", 1),
        ("videoserver", 1),
    ] {
        let output = run(suite, &[]);
        expect_code(&output, 0);
        let found = stdout(&output).matches("verify = true").count();
        assert!(found >= verified, "{suite}: {found}\n{}", stdout(&output));
    }
    expect_error(&run("fsbench", &[JSON]), 2, "plan/invalid");
}
