//! File systems over another one: overlays, and read-only images.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::*;

/// Cases that only read, and cases that change the files that were prepared.
const PLAN: &str = r#"
name = "layers"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "10ms"
[[workload]]
name = "stat"
files = 64
files_per_directory = 8
[[workload]]
name = "scan"
files = 64
files_per_directory = 8
[[workload]]
name = "lookup"
depth = 2
width = 4
[[workload]]
name = "read"
files = 16
file_size = "64K"
cache = "cold"
[[workload]]
name = "copy-up"
files = 32
file_size = "64K"
durability = "end"
[[workload]]
name = "rename"
files = 64
[[workload]]
name = "delete"
files = 64
durability = "end"
"#;

/// Operations of [`PLAN`] that a read-only file system serves.
const READS: [&str; 4] = ["stat", "scan", "lookup", "read"];

/// Measures [`PLAN`] on ext4 and the target, and returns the run directory with its record.
fn measure(target: &str, size: &str) -> (tempfile::TempDir, Vec<Value>, Value) {
    let before = traces();
    let scratch = scratch();
    std::fs::write(scratch.path().join("layers.toml"), PLAN).unwrap();
    let line = [
        "run",
        "layers.toml",
        "ext4",
        target,
        "--size",
        size,
        "--out",
        "run",
        "-q",
    ];
    expect_code(&fsb(scratch.path(), &line[..]), 0);
    expect_no_traces(&before);
    let run = scratch.path().join("run");
    let (trials, record) = (measured(&run), record(&run));
    (scratch, trials, record)
}

/// Expects a value for each operation that `serves`, and the reason for each other one.
fn expect_outcomes(trials: &[Value], target: &str, serves: impl Fn(&str) -> bool) {
    let own: Vec<_> = trials
        .iter()
        .filter(|trial| trial["target"] == target)
        .collect();
    assert_eq!(own.len(), 7, "{own:#?}");
    for trial in own {
        let operation = trial["operation"].as_str().unwrap();
        if serves(operation) {
            assert_eq!(trial["outcome"], "ok", "{target}: {trial:#}");
            assert!(trial["metrics"][0]["value"].as_f64().unwrap() > 0.0);
        } else {
            assert_eq!(trial["outcome"], "not_applicable", "{trial:#}");
            let why = trial["reason"].to_string() + &trial["error"].to_string();
            assert!(why.contains("read-only"), "{trial:#}");
        }
    }
}

fn bytes_written(trials: &[Value], target: &str, operation: &str) -> u64 {
    let trial = trials
        .iter()
        .find(|trial| trial["target"] == target && trial["operation"] == operation);
    let trial = trial.unwrap_or_else(|| panic!("{target} has no {operation}: {trials:#?}"));
    trial["observed"]["device_write_bytes"]
        .as_u64()
        .unwrap_or_else(|| panic!("{trial:#}"))
}

#[test]
fn an_overlay_copies_the_files_of_its_lower_layer() {
    needs!(root);
    let target = "overlay,lower=3";
    let (_scratch, trials, record) = measure(target, "256M");
    expect_outcomes(&trials, target, |_| true);
    let options = record["targets"][target]["mount_options"].to_string();
    assert_eq!(
        options.matches("/data/").count(),
        5,
        "three layers and two directories: {options}"
    );
    // One byte of each file is written; the overlay copies all 64 KiB of it.
    let [plain, copied] = ["ext4", target].map(|target| bytes_written(&trials, target, "copy-up"));
    assert!(
        copied > plain * 3 && copied > 32 * (64 << 10),
        "{plain} {copied}"
    );
    let layers = record["targets"][target]["storage"].to_string();
    assert!(
        layers.contains("overlay") && layers.contains("ext4"),
        "{layers}"
    );
}

#[test]
fn an_overlay_lies_over_the_file_system_that_it_names() {
    needs!(root);
    needs!(program "mkfs.xfs");
    let target = "overlay,over=xfs";
    let (_scratch, trials, record) = measure(target, "800M");
    expect_outcomes(&trials, target, |_| true);
    let made = &record["targets"][target];
    assert!(
        made["mkfs_command"].to_string().contains("mkfs.xfs"),
        "{made:#}"
    );
}

#[test]
fn an_overlay_without_syncs_is_unsafe() {
    needs!(root);
    let (_scratch, _, record) = measure("overlay,volatile", "256M");
    let risks = record["targets"]["overlay,volatile"]["risks"].to_string();
    assert!(risks.contains("volatile"), "{risks}");
}

#[test]
fn an_image_of_erofs_serves_what_reads() {
    needs!(root);
    needs!(program "mkfs.erofs");
    let (_scratch, trials, _) = measure("erofs", "256M");
    expect_outcomes(&trials, "erofs", |operation| READS.contains(&operation));
}

#[test]
fn an_image_of_squashfs_serves_what_reads() {
    needs!(root);
    needs!(program "mksquashfs");
    let target = "squashfs,pack=zstd,block=64K";
    let (_scratch, trials, _) = measure(target, "256M");
    expect_outcomes(&trials, target, |operation| READS.contains(&operation));
}

#[test]
fn options_of_an_overlay_that_fsb_sets_are_refused() {
    needs!(root);
    let scratch = scratch();
    for target in [
        "overlay,lower=0",
        "overlay,over=tmpfs",
        "overlay,over=overlay",
        "overlay,ro",
        "overlay,encrypt",
    ] {
        let output = fsb(scratch.path(), &["run", target, "--blocks", "1"][..]);
        expect_code(&output, 2);
    }
}

/// Kills the coordinator while a target of layers is measured, and expects no trace of it.
fn leaves_nothing(target: &str) {
    let before = traces();
    let scratch = scratch();
    std::fs::write(scratch.path().join("layers.toml"), PLAN).unwrap();
    let line = [
        "run",
        "layers.toml",
        target,
        "--size",
        "128M",
        "--blocks",
        "50",
        "--out",
        "run",
        "-q",
    ];
    let child = Running::start(scratch.path(), &line[..]);
    let run: &Path = &scratch.path().join("run");
    wait_until("a measured trial", Duration::from_secs(120), || {
        trials(run).len() > 8
    });
    let shown = format!("/run/fsb/holder-{}-", child.id());
    let is_shown = || holders().iter().any(|file| file.starts_with(&shown));
    assert!(is_shown(), "{:?}", holders());
    child.signal(rustix::process::Signal::KILL);
    child.wait();
    expect_no_traces(&before);
    wait_until("no file shows the run to others", WAIT, || !is_shown());
}

/// Returns the files that show runs to others.
fn holders() -> Vec<String> {
    let entries = std::fs::read_dir("/run/fsb")
        .into_iter()
        .flatten()
        .flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned());
    paths.filter(|path| path.contains("/holder-")).collect()
}

#[test]
fn a_killed_run_leaves_no_overlay() {
    needs!(root);
    leaves_nothing("overlay,lower=3");
}

#[test]
fn a_killed_run_leaves_no_image() {
    needs!(root);
    needs!(program "mksquashfs");
    leaves_nothing("squashfs");
}
