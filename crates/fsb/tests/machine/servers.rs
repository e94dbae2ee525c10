//! FUSE servers under test: their command, their failures, and their costs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::*;

/// Writes a program that gets a directory and a mount point.
fn server(directory: &Path, name: &str, script: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the tiny plan on `target`, expects the exit code `code` and no trace, and returns the
/// trials that count.
fn run(directory: &Path, targets: &[&str], code: i32) -> Vec<serde_json::Value> {
    let before = traces();
    tiny_plan(directory);
    let arguments = [
        &["run", "tiny.toml"][..],
        targets,
        &["--size", "128M", "--out", "run", "-q"],
    ]
    .concat();
    let output = fsb(directory, &arguments);
    expect_code(&output, code);
    expect_no_traces(&before);
    counting(&directory.join("run"))
}

/// Returns the errors of all trials on `target`, each once.
fn errors(trials: &[serde_json::Value], target: &str) -> Vec<String> {
    let own = trials.iter().filter(|trial| trial["target"] == target);
    let mut errors: Vec<String> = own
        .filter_map(|trial| trial["error"].as_str())
        .map(str::to_owned)
        .collect();
    errors.dedup();
    errors
}

#[test]
fn a_server_by_its_command_is_measured_beside_the_target_beneath() {
    needs!(root);
    needs!(program "mkfs.ext4", "bindfs");
    let scratch = scratch();
    // It leaves a daemon.
    server(
        scratch.path(),
        "myfs",
        r#"exec bindfs -o allow_other "$1" "$2""#,
    );
    let trials = run(scratch.path(), &["ext4", "fuse:./myfs {dir} {mnt}"], 0);
    let measured: Vec<_> = trials
        .iter()
        .filter(|trial| trial["target"] == "myfs" && trial["phase"] == "measured")
        .collect();
    assert_eq!(measured.len(), 7, "{trials:#?}");
    for trial in measured {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let value = |name: &str| {
            let metrics = trial["metrics"].as_array().unwrap();
            let found = metrics.iter().find(|metric| metric["name"] == name);
            found.unwrap_or_else(|| panic!("{name}: {trial:#}"))["value"]
                .as_f64()
                .unwrap()
        };
        let of_server = value("server_cpu_per_operation");
        assert!(
            of_server >= 0.0 && value("cpu_per_operation") > of_server,
            "{trial:#}"
        );
        assert!(value("server_memory") > 0.0, "{trial:#}");
    }
    let record = record(&scratch.path().join("run"));
    assert_eq!(record["targets"]["myfs"]["over"], "ext4");
    assert!(record["targets"]["ext4"]["over"].is_null());
}

#[test]
fn a_server_gets_a_device_that_its_own_command_formats() {
    needs!(root);
    needs!(program "mkfs.ext4", "fuse2fs");
    let scratch = scratch();
    let target =
        r#"fuse:fuse2fs -f -o allow_other {dev} {mnt},init="mkfs.ext4 -q -F -b 4096 {dev}""#;
    let trials = run(scratch.path(), &[target], 0);
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "ok"),
        "{trials:#?}"
    );
}

#[test]
fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    server(
        scratch.path(),
        "myfs",
        "echo 'no configuration' >&2; exit 3",
    );
    let trials = run(scratch.path(), &["ext4", "fuse:./myfs {dir} {mnt}"], 4);
    let errors = errors(&trials, "myfs");
    assert!(!errors.is_empty());
    for error in errors {
        for part in ["myfs does not serve", "exit status: 3", "no configuration"] {
            assert!(error.contains(part), "{error}");
        }
    }
    let ext4 = trials.iter().filter(|trial| trial["target"] == "ext4");
    assert!(ext4.clone().count() > 0);
    assert!(
        ext4.clone().all(|trial| trial["outcome"] == "ok"),
        "the other target is measured"
    );
}

/// Writes `myfs`, which crashes once: while it serves the first files of a workload after the
/// journal has a line with `text`. It looks for files without a pause and without another process,
/// because they are there for moments. Its connection is lost before it ends, as it is on a busy
/// machine.
fn crashing_server(directory: &Path, text: &str) {
    let script = format!(
        r#"bindfs -f -o allow_other "$1" "$2" &
pid=$!
crashed="{0}/crashed"
[ -e "$crashed" ] && {{ wait $pid; exit; }}
until grep -qs '{text}' "{0}/run/trials.jsonl"; do kill -0 $pid 2>/dev/null || exit 0; done
appeared() {{ for file in "$1"/fsb/fsb-set/*; do [ -e "$file" ] && return; done; return 1; }}
until appeared "$1"; do kill -0 $pid 2>/dev/null || exit 0; done
touch "$crashed"
echo 'assertion failed' >&2
kill -9 $pid
wait $pid 2>/dev/null
sleep 0.5
exit 1"#,
        directory.display(),
    );
    server(directory, "myfs", &script);
}

#[test]
fn a_server_that_crashes_costs_its_trial_and_a_new_one_serves_the_next() {
    needs!(root);
    needs!(program "mkfs.ext4", "bindfs");
    let scratch = scratch();
    crashing_server(scratch.path(), r#""phase":"measured""#);
    let target = "fuse:./myfs {dir} {mnt}";
    let trials = run(scratch.path(), &[target, "--blocks", "4"], 4);
    let lost: Vec<_> = trials
        .iter()
        .filter(|trial| trial["error_code"] == "trial/server-ended")
        .collect();
    assert!(!lost.is_empty(), "{trials:#?}");
    assert!(
        lost[0]["error"]
            .as_str()
            .unwrap()
            .contains("exit status: 1: assertion failed"),
        "{lost:#?}"
    );
    let last = trials.last().unwrap();
    assert_eq!(last["outcome"], "ok", "a new server serves: {trials:#?}");
}

#[test]
fn a_server_that_crashes_in_the_warm_up_is_named_although_all_values_are_there() {
    needs!(root);
    needs!(program "mkfs.ext4", "bindfs");
    let scratch = scratch();
    // Any line: the first trial of the warm-up.
    crashing_server(scratch.path(), "schema");
    tiny_plan(scratch.path());
    let target = "fuse:./myfs {dir} {mnt}";
    let arguments = ["run", "tiny.toml", target, "--size", "128M", "--out", "run"];
    let said = stdout(&succeeds(scratch.path(), &arguments[..]));
    assert!(said.contains("of the warm-up failed"), "{said}");
    let notes = stdout(&succeeds(scratch.path(), "report run --notes"));
    assert!(
        notes.contains("exit status: 1: assertion failed"),
        "{notes}"
    );
}

#[test]
fn a_server_without_allow_other_is_refused_for_other_users() {
    needs!(root);
    needs!(program "mkfs.ext4", "fuse2fs");
    let scratch = scratch();
    let trials = run(
        scratch.path(),
        &["fuse:fuse2fs -f {dev} {mnt},over=ext4"],
        4,
    );
    let errors = errors(&trials, "fuse2fs,over=ext4");
    assert!(
        errors.iter().all(|error| error.contains("allow_other")) && !errors.is_empty(),
        "{errors:?}"
    );
}
