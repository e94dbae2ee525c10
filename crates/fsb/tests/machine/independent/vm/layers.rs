//! Media and file systems that are made of others, in guests: this machine's kernel may lack them.

use super::*;
use crate::common::expect_code;

/// Measures [`PLAN`] on the targets in one guest, and returns the record of the run.
fn measure(targets: &[&str]) -> Result<serde_json::Value, String> {
    let kernel = kernel()?;
    let scratch = scratch();
    let arguments = [targets, &["--size", "192M", "--out", "run"]].concat();
    let output = run(scratch.path(), &kernel, &arguments).output().unwrap();
    expect_code(&output, 0);
    let run = scratch.path().join("run");
    let outcomes = outcomes(&run);
    assert!(!outcomes.is_empty());
    for (target, outcome) in outcomes {
        assert_eq!(outcome, "ok", "{target}: {:#?}", trials(&run));
    }
    Ok(record(&run))
}

#[test]
fn arrays_of_every_level_are_measured() {
    let targets = [
        "ext4@raid0:chunk=512K+loop+loop",
        "ext4@raid1:loop+loop",
        "ext4@raid5:loop+loop+loop",
        "ext4@raid10:chunk=64K+loop+loop",
    ];
    let record = needs!(measure(&targets));
    for (medium, level, chunk) in [
        ("raid0:chunk=512K+loop+loop", "RAID-0", "524288"),
        ("raid5:loop+loop+loop", "RAID-5", "524288"),
        ("raid10:chunk=64K+loop+loop", "RAID-10", "65536"),
    ] {
        let made = &record["media"][medium];
        assert!(
            made["summary"].as_str().unwrap().starts_with(level),
            "{made:#}"
        );
        assert_eq!(made["device"]["queue"]["chunk_size"], chunk, "{made:#}");
    }
    let size = |medium: &str| {
        record["media"][medium]["device"]["size_bytes"]
            .as_u64()
            .unwrap()
    };
    // Two members of 96 MiB, three of 64 MiB.
    assert_eq!(size("raid1:loop+loop"), 96 << 20);
    assert_eq!(size("raid5:loop+loop+loop"), 128 << 20);
}

#[test]
fn mapped_devices_are_measured() {
    let targets = [
        "ext4@luks:loop",
        "ext4@lvm:loop",
        "ext4@lvm:kind=thin+loop",
        "ext4@lvm:kind=snapshot+loop",
    ];
    let record = needs!(measure(&targets));
    for (medium, says) in [
        ("luks:loop", "aes-xts-plain64"),
        ("lvm:loop", "logical volume"),
        ("lvm:kind=thin+loop", "thin volume"),
        ("lvm:kind=snapshot+loop", "snapshot"),
    ] {
        let made = &record["media"][medium];
        assert!(made["summary"].as_str().unwrap().contains(says), "{made:#}");
    }
}

/// Returns what a run left in `directory` beside its plan and its results.
fn left(directory: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        names.push(entry.unwrap().file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name != "run" && name != "tiny.toml");
    names
}

#[test]
fn directories_of_the_host_are_measured_and_removed() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let targets = ["9p", "nine-loose=9p,cache=loose", "virtiofs"];
    let arguments = [&targets[..], &["--dir", ".", "--out", "run"]].concat();
    let output = run(scratch.path(), &kernel, &arguments).output().unwrap();
    expect_code(&output, 0);
    let run = scratch.path().join("run");
    for trial in trials(&run) {
        let is_cold = trial["workload"].as_str().unwrap().contains("cold");
        let expected = if is_cold { "not_applicable" } else { "ok" };
        assert_eq!(trial["outcome"], expected, "{trial:#}");
    }
    let record = record(&run);
    for (target, served) in [
        ("9p", "security_model=passthrough"),
        ("nine-loose", "security_model=passthrough"),
        ("virtiofs", "virtiofsd"),
    ] {
        let about = &record["targets"][target];
        assert!(about["notes"].to_string().contains(served), "{about:#}");
        assert_eq!(about["unproven"][0]["promise"], "synced_files", "{about:#}");
        assert!(about["storage"].as_array().unwrap().len() > 2, "{about:#}");
    }
    assert_eq!(left(scratch.path()), Vec::<String>::new());
}
