//! Options of `fsb run` do what the help says: each test checks a change that the option makes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{
    Running, error_of, expect_code, expect_no_traces, fsb, fsb_json, scratch, stdout, tiny_plan,
    traces, wait_until,
};

/// An image cannot be measured in memory: the option refuses such a directory.
#[test]
fn dir_is_where_the_image_would_be() {
    needs!(root);
    let scratch = scratch();
    tiny_plan(scratch.path());
    for (directory, code) in [
        ("/dev/shm", "medium/directory-in-memory"),
        ("no/such", "medium/no-directory"),
    ] {
        let output = fsb_json(
            scratch.path(),
            &["run", "tiny.toml", "ext4", "--dir", directory, "-q"],
        );
        let refused = error_of(&output);
        assert_eq!(refused["code"], code, "{refused}");
        assert!(
            refused["fields"]["path"]
                .as_str()
                .is_some_and(|path| path.ends_with(directory)),
            "{refused}"
        );
    }
}

/// Returns some file below a directory.
fn some_file(directory: &Path) -> Option<PathBuf> {
    fs::read_dir(directory).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            some_file(&path)
        } else {
            Some(path)
        }
    })
}

#[test]
fn workers_run_as_the_user_and_group_that_were_asked_for() {
    needs!(root);
    let before = traces();
    for (options, expected) in [
        (&["--uid", "12345", "--gid", "23456"][..], (12345, 23456)),
        (&["--force-root-user"], (0, 0)),
    ] {
        let scratch = scratch();
        tiny_plan(scratch.path());
        let data = scratch.path().join("data");
        fs::create_dir(&data).unwrap();
        let line = [
            &["run", "tiny.toml", "./data", "--out", "run", "-q"],
            options,
        ]
        .concat();
        let running = Running::start(scratch.path(), &line);
        let mut seen = None;
        wait_until(
            "a file of a worker is there",
            Duration::from_secs(30),
            || {
                let owner = some_file(&data).and_then(|file| fs::metadata(file).ok());
                seen = owner.map(|file| (file.uid(), file.gid()));
                seen.is_some()
            },
        );
        // All is known.
        running.signal(rustix::process::Signal::INT);
        expect_code(&running.wait(), 130);
        assert_eq!(seen, Some(expected), "{options:?}");
    }
    expect_no_traces(&before);
}

#[test]
fn options_of_a_command_say_what_runs_around_it_and_which_exit_codes_are_no_failure() {
    needs!(root);
    let scratch = scratch();
    // Workers are not root, and root writes no results to a directory in which other users may
    // write.
    let allow =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(scratch.path(), 0o755);
    for name in ["data", "writable"] {
        fs::create_dir(scratch.path().join(name)).unwrap();
        allow(&scratch.path().join(name), 0o777);
    }
    let code = |arguments: &[&str]| {
        let run = ["run", "./data", "--blocks", "1", "-q"];
        let output = fsb(scratch.path(), &[&run[..], arguments].concat());
        output.status.code()
    };
    assert_eq!(
        code(&["--ok-exit", "3", "--", "sh", "-c", "exit 3"]),
        Some(0)
    );
    assert_eq!(
        code(&["--ok-exit", "3", "--", "sh", "-c", "exit 4"]),
        Some(4)
    );
    assert_eq!(
        code(&["--setup", "touch made", "--", "test", "-e", "made"]),
        Some(0)
    );
    assert_eq!(
        code(&["--setup", "touch made", "--", "test", "-e", "other"]),
        Some(4)
    );
    // The directory of each target is removed, so only another directory shows the commands that
    // ran at the end.
    let writable = scratch.path().join("writable");
    let (directory, cleanup) = (
        writable.to_str().unwrap(),
        format!("touch {}/cleaned", writable.display()),
    );
    assert_eq!(
        code(&["--writable", directory, "--cleanup", &cleanup, "--", "true"]),
        Some(0)
    );
    assert!(writable.join("cleaned").exists());

    let plan = fsb(scratch.path(), "run null --print-plan --cache cold -- true");
    let plan: toml::Table = stdout(&plan).parse().expect("a plan");
    assert_eq!(plan["workload"][0]["cache"].as_str(), Some("cold"));
}
