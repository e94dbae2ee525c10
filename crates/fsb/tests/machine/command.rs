//! A user's command as the workload, on real file systems and in directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::*;

/// The command runs as the worker's user and can write only to the target and to its own temporary
/// directory.
#[test]
fn a_short_command_goes_in_rounds_and_stays_in_its_target() {
    needs!(root);
    needs!(program "mkfs.xfs");
    let (before, scratch) = (traces(), scratch());
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let line = "set -e; test $(id -u) != 0; echo > /dev/null; head -c 9 /dev/urandom > $TMPDIR/random; \
                ! touch /etc/fsb-mine 2> /dev/null; ! touch /tmp/fsb-mine 2> /dev/null; echo a >> \"$OPEN\"/a; \
                test $PWD = $FSB_TARGET; head -c 3000000 /dev/zero > big; echo size=$(wc -c < big)";
    let line = line.replace("\"$OPEN\"", open.to_str().unwrap());
    let arguments = words("run ext4 xfs --blocks 2 --control guest-memory=off --size 700M --out");
    let surrounding = [
        "run",
        "--prepare",
        "rm -f big",
        "--verify=test -f big",
        "--writable",
        open.to_str().unwrap(),
        "--",
    ];
    succeeds(
        scratch.path(),
        &[&arguments[..], &surrounding, &[&line]].concat(),
    );
    expect_no_traces(&before);
    assert!(fs::metadata(open.join("a")).is_ok() && !Path::new("/tmp/fsb-mine").exists());
    let (run, trials) = (
        scratch.path().join("run"),
        measured(&scratch.path().join("run")),
    );
    assert!(
        record(&run)["placement"]["side_by_side"].is_object(),
        "{}",
        record(&run)["placement"]
    );
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let samples = trial["samples"]["timed_ns"].as_array().map_or(0, Vec::len);
        assert!(samples >= 3, "rounds: {trial:#}");
        let time = metric(trial, "command_time");
        assert!(time > 0.0, "{time}");
        assert!(
            metric(trial, "space") >= 3e6 && metric(trial, "space") < 4e6,
            "{trial:#}"
        );
        assert!(metric(trial, "peak_memory") > 5e5, "{trial:#}");
        assert!(
            metric(trial, "device_bytes_per_operation") >= 3e6,
            "{trial:#}"
        );
        assert_eq!(trial["observed"]["output"], "size=3000000\n");
    }
}

/// The command fails if it finds what an earlier run left, on real file systems and in rounds of
/// short samples.
#[test]
fn each_run_in_rounds_starts_in_an_empty_directory_unless_it_reuses_one() {
    needs!(root);
    needs!(program "mkfs.xfs");
    let (before, scratch) = (traces(), scratch());
    let run = |out: &str, options: &[&str]| {
        let arguments = words("run ext4 xfs --blocks 1 --control guest-memory=off --size 700M");
        let command = ["--out", out, "--", "test ! -e made && touch made"];
        let output = fsb(
            scratch.path(),
            &[&arguments[..], options, &command].concat(),
        );
        (output, measured(&scratch.path().join(out)))
    };
    let (output, trials) = run("new", &[]);
    expect_code(&output, 0);
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert!(
            trial["samples"]["timed_ns"].as_array().map_or(0, Vec::len) >= 3,
            "rounds: {trial:#}"
        );
    }
    let (_, trials) = run("reused", &["--reuse"]);
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "failed"),
        "{trials:#?}"
    );
    expect_no_traces(&before);
}

/// strace is an oracle for the files that tar finds: it unlinks a file that exists before it makes
/// its own. The command adds the calls to a file outside of the target.
#[test]
fn tar_makes_the_same_calls_in_new_directories_as_after_prepare_removed_its_files() {
    needs!(root);
    needs!(fsb_testkit::programs(&["tar", "strace"]));
    let (before, scratch) = (traces(), scratch());
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let open = open.to_str().unwrap();
    let setup = "mkdir src && for file in 1 2 3 4 5; do echo $file > src/$file; done && tar cf src.tar src && rm -r src";
    let unlinks = |out: &str, options: &[&str]| {
        let log = format!("{open}/{out}");
        let line = format!(
            "strace -f -e trace=unlink,unlinkat -o $TMPDIR/calls tar xf src.tar && cat $TMPDIR/calls >> {log}"
        );
        let arguments = words("run ext4 --blocks 1 --control guest-memory=off --size 400M");
        let command = [
            "--setup",
            setup,
            "--writable",
            open,
            "--out",
            out,
            "--",
            &line,
        ];
        succeeds(
            scratch.path(),
            &[&arguments[..], options, &command].concat(),
        );
        let trials = measured(&scratch.path().join(out));
        assert!(
            trials.iter().all(|trial| trial["outcome"] == "ok"),
            "{trials:#?}"
        );
        let calls = fs::read_to_string(&log).unwrap();
        assert!(
            calls.matches("exited with 0").count() >= 4,
            "several runs: {calls}"
        );
        calls.matches("unlink").count()
    };
    assert_eq!(unlinks("new", &[]), 0);
    assert_eq!(
        unlinks("prepared", &["--reuse", "--prepare", "rm -rf src"]),
        0
    );
    assert!(unlinks("reused", &["--reuse"]) >= 5);
    expect_no_traces(&before);
}

/// A slice of 350 MiB holds the files of one run, and not those of all rounds.
#[test]
fn the_files_of_a_run_are_removed_before_the_next() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    let arguments = words("run ext4 --blocks 1 --control guest-memory=off --size 350M --out run");
    let setup = [
        "--setup",
        "head -c 60000000 /dev/zero > data",
        "--",
        "cp data copy && test $(ls | wc -l) = 2",
    ];
    succeeds(scratch.path(), &[&arguments[..], &setup].concat());
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    assert_eq!(trials[0]["outcome"], "ok", "{trials:#?}");
    assert!(metric(&trials[0], "space") < 150e6, "{trials:#?}");
}

/// A sample of 25 ms would have several runs of a command that allocates 60 MB in a few.
#[test]
fn a_sample_has_only_as_many_runs_as_the_slice_has_room_for() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    let arguments = words("run ext4 --blocks 1 --control guest-memory=off --size 350M --out run");
    let command = ["--durable", "no", "--", "fallocate", "-l", "60M", "big"];
    succeeds(scratch.path(), &[&arguments[..], &command].concat());
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    assert_eq!(trials[0]["outcome"], "ok", "{trials:#?}");
    let space = metric(&trials[0], "space");
    assert!(
        (60e6..70e6).contains(&space),
        "the space of one run: {space}"
    );
}

/// Each command fails with its own message; the others continue, and none leaves anything behind.
#[test]
fn commands_that_misbehave_fail_alone() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    let bad = [
        (
            "code",
            "echo it is broken >&2; exit 3",
            "exit status 3: it is broken",
        ),
        ("signal", "kill -KILL $$", "killed by signal 9"),
        (
            "stubborn",
            "trap '' TERM INT HUP; while true; do sleep 0.1; done",
            "not done after 2 s (time_limit)",
        ),
        ("full", "cat /dev/zero > big", "the target is full"),
        ("elsewhere", "echo > /etc/fsb-mine", "Read-only file system"),
        (
            "bomb",
            "ulimit -u 300; b() { b | b & }; b; exec sleep 9",
            "not done after 2 s (time_limit)",
        ),
    ];
    let mut plan = String::new();
    for (label, command, _) in bad {
        plan += &format!(
            "[[workload]]\nname = 'command'\nlabel = '{label}'\ncommand = \"{command}\"\ntime_limit = '2s'\n"
        );
    }
    plan += "[[workload]]\nname = 'command'\nlabel = 'metric'\ncommand = 'echo none today'\n\
             metric = [{ name = 'tps', pattern = 'tps = ([0-9]+)', better = 'higher' }]\n\
             [[workload]]\nname = 'command'\nlabel = 'service'\ncommand = 'true'\n\
             service = [{ command = 'echo no port; exit 1', ready = 'false' }]\n\
             [[workload]]\nname = 'command'\nlabel = 'daemon'\ncommand = 'setsid -f sleep 3571'\n\
             [[workload]]\nname = 'command'\nlabel = 'good'\ncommand = 'echo > good; test ! -e big'\n\
             [repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let output = fsb(scratch.path(), "run plan.toml ext4 --size 400M --out run");
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    let of = |label: &str| {
        trials
            .iter()
            .find(|trial| trial["workload"] == label)
            .unwrap_or_else(|| panic!("{trials:#?}"))
    };
    let others = [
        ("metric", "", "none today"),
        (
            "service",
            "",
            "the service ended before it was ready: no port",
        ),
    ];
    for (label, _, expected) in bad.iter().chain(&others) {
        let trial = of(label);
        assert_eq!(trial["outcome"], "failed", "{trial:#}");
        assert!(
            trial["error"].as_str().unwrap().contains(expected),
            "{label}: {}",
            trial["error"]
        );
        assert!(
            stdout(&output).contains(expected) || stderr(&output).contains(expected),
            "{}",
            stdout(&output)
        );
    }
    for label in ["daemon", "good"] {
        assert_eq!(of(label)["outcome"], "ok", "{:#}", of(label));
    }
    let sleeps = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        fs::read_to_string(entry.path().join("cmdline"))
            .is_ok_and(|line| line.contains("sleep\0") && line.contains("3571"))
    });
    assert_eq!(sleeps.count(), 0, "the daemon is gone");
    assert!(!Path::new("/etc/fsb-mine").exists());
}

/// If everything fails in warm-up and in the first block, the run ends without using its budget.
#[test]
fn a_run_in_which_all_fails_ends_after_a_block() {
    needs!(root);
    let scratch = scratch();
    let arguments = words("run ext4 --size 400M --control guest-memory=off --out run --");
    let output = fsb(
        scratch.path(),
        &[&arguments[..], &["/no/such/program"]].concat(),
    );
    let trials = measured(&scratch.path().join("run"));
    assert_eq!(trials.len(), 1, "{}", stderr(&output));
    assert_eq!(
        trials[0]["error_code"], "trial/command-failed",
        "{trials:#?}"
    );
}

#[test]
fn without_root_a_command_runs_in_a_directory_that_is_left_as_it_was() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = public_copy();
    let arguments = [
        "run",
        ".",
        "--blocks",
        "1",
        "--out",
        "run",
        "--prepare",
        "rm -rf t",
        "--",
    ];
    let line = "mkdir t; echo one > t/one; ! touch ../../mine 2> /dev/null; sleep 0.01; cat t/one";
    let output = as_nobody(
        binary.path(),
        scratch.path(),
        &[&arguments[..], &[line]].concat(),
    );
    expect_code(&output, 0);
    let trials = measured(&scratch.path().join("run"));
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "ok"),
        "{trials:#?}"
    );
    assert_eq!(trials[0]["observed"]["output"], "one\n");
    // HOME, where fsb keeps the undo ledger, is this directory.
    let left = fs::read_dir(scratch.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    assert_eq!(
        left.filter(|name| name != ".local").collect::<Vec<_>>(),
        ["run"]
    );
    expect_no_traces(&before);
}

/// Two builds of one program, of which one writes three times as much: the gate on bytes fails, and
/// the same program against itself differs in none.
#[test]
fn variants_alternate_on_one_file_system_and_their_costs_are_gated() {
    needs!(root);
    let (before, scratch) = (traces(), scratch());
    for (name, megabytes) in [("old", 1), ("new", 3)] {
        let program = scratch.path().join(name);
        let script = format!("#!/bin/sh\nhead -c {megabytes}M /dev/zero > \"$1\"\n");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let lead = "run ext4 --blocks 6 --sample-time 20ms --size 700M -q --out";
    let run = |out: &str, versus: [&str; 2], gate: &str| {
        let more = [
            "--versus",
            versus[0],
            versus[1],
            "--fail-if",
            gate,
            "--",
            "{} file",
        ];
        fsb(
            scratch.path(),
            &[&words(lead)[..], &[out], &more].concat()[..],
        )
    };
    let failed = run(
        "run",
        ["old=./old", "new=./new"],
        "new more bytes than old by 50 %",
    );
    expect_code(&failed, 1);
    assert!(
        stderr(&failed).contains("failed: new needs more than old at bytes of {} file"),
        "{}",
        stderr(&failed)
    );
    for trial in measured(&scratch.path().join("run")) {
        let megabytes = if trial["target"] == "new" { 3e6 } else { 1e6 };
        let bytes = metric(&trial, "device_bytes_per_operation");
        assert!((megabytes..megabytes + 1e6).contains(&bytes), "{trial:#}");
    }
    let same = run("same", ["one=./old", "two=./old"], "two more bytes by 50 %");
    expect_code(&same, 0);
    expect_no_traces(&before);
}
