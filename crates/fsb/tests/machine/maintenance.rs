//! Workloads whose operations concern a whole file system and are performed by the agent.

use std::collections::BTreeMap;

use crate::common::*;
use crate::devices::Disk;

/// Measures `workload` once on each target, and returns the trials of the block by target.
fn measured(targets: &[&str], workload: &str) -> BTreeMap<String, serde_json::Value> {
    let before = traces();
    let scratch = scratch();
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    let options = [
        "--workload",
        workload,
        "--size",
        "640M",
        "--blocks",
        "1",
        "--control",
        "guest-memory=off",
    ];
    let run = [&["run"], targets, &options, &["--out", "run", "-q"]].concat();
    succeeds(scratch.path(), &run);
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run"))
        .into_iter()
        .filter(|trial| trial["phase"] == "measured");
    trials
        .map(|trial| (trial["target"].as_str().unwrap().to_owned(), trial))
        .collect()
}

#[test]
fn unmounted_file_systems_are_checked_from_the_device_and_directories_are_not() {
    needs!(root);
    needs!(program "e2fsck", "xfs_repair", "btrfs", "ntfs-3g");
    let trials = measured(
        &["ext4", "xfs", "btrfs", "ntfs", "./data"],
        "fsck,files=300",
    );
    for target in ["ext4", "xfs", "btrfs"] {
        let trial = &trials[target];
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["metrics"][0]["name"], "maintenance_time", "{trial:#}");
        assert!(
            trial["metrics"][0]["value"].as_f64().unwrap() > 0.0,
            "{trial:#}"
        );
        assert!(
            trial["observed"]["device_read_bytes"].as_u64().unwrap() >= 300 * 64,
            "{trial:#}"
        );
    }
    // The kernel counts ticks: a short check can have none.
    let used = |name: &str| {
        ["ext4", "xfs", "btrfs"].map(|target| trials[target]["observed"][name].as_f64().unwrap())
    };
    assert!(
        [used("user_seconds"), used("system_seconds")]
            .concat()
            .iter()
            .sum::<f64>()
            > 0.0,
        "{trials:#?}"
    );
    for (target, reason) in [
        ("ntfs", "no program that checks"),
        ("./data", "in use by others"),
    ] {
        assert_eq!(
            trials[target]["outcome"], "not_applicable",
            "{:#}",
            trials[target]
        );
        assert!(
            trials[target]["error"].as_str().unwrap().contains(reason),
            "{:#}",
            trials[target]
        );
    }
}

#[test]
fn no_file_system_of_this_machine_is_frozen() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    let run = words("run ext4 --workload freeze,files=10 --blocks 1 --out run -q");
    expect_code(&fsb(scratch.path(), &run), 4);
    let trials = trials(&scratch.path().join("run"));
    assert!(
        !trials.is_empty()
            && trials
                .iter()
                .all(|trial| trial["outcome"] == "not_applicable"),
        "{trials:#?}"
    );
    assert!(
        trials[0]["error"].as_str().unwrap().contains("--in vm"),
        "{:#}",
        trials[0]
    );
}

/// Runs targets with external journals beside one without, and returns the run directory.
fn with_journals(targets: &[&str], extra: &[&str]) -> tempfile::TempDir {
    let before = traces();
    let scratch = scratch();
    let options = words("--workload create,files=50,durability=each --workload fsck,files=50");
    let rest = words("--size 640M --blocks 1 --control guest-memory=off --out run -q");
    let run = [&["run"], targets, &options, &rest, extra].concat();
    succeeds(scratch.path(), &run);
    expect_no_traces(&before);
    scratch
}

#[test]
fn external_journals_are_made_mounted_checked_and_gone() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs");
    let before = traces();
    let targets = [
        "ext4,journal=loop",
        "ext3,journal=loop,data=journal",
        "xfs,journal=loop",
    ];
    let scratch = with_journals(&targets, &[]);
    let record = record(&scratch.path().join("run"));
    assert_eq!(
        record["placement"]["in_turn"]["reason"]["kind"], "external_journal",
        "{}",
        record["placement"]
    );
    assert!(
        record["media"]["journal:loop"]["summary"]
            .as_str()
            .unwrap()
            .starts_with("journal on loop 80")
    );
    for target in targets {
        let made = &record["targets"][target];
        let words = made["mkfs_command"].to_string();
        assert!(
            words.contains("device=/dev/loop") || words.contains("logdev=/dev/loop"),
            "{made:#}"
        );
        assert!(
            made["notes"]
                .to_string()
                .contains("its journal is on /dev/loop"),
            "{made:#}"
        );
    }
    let log = record["targets"]["xfs,journal=loop"]["mount_options"].to_string();
    assert!(log.contains("logdev=/dev/loop"), "{log}");
    for trial in counting(&scratch.path().join("run")) {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
    }
    expect_no_traces(&before);
}

#[test]
fn a_device_becomes_a_journal_only_if_it_is_empty_or_given_up() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let disk = Disk::new(80);
    let path = disk.path.to_str().unwrap();
    let target = format!("ext4,journal=\"{path}\"");
    let scratch = with_journals(&[&target], &[]);
    assert!(record(&scratch.path().join("run"))["targets"][&target].is_object());
    // It now holds a journal.
    let run = [
        "run",
        &target,
        "--workload",
        "create,files=50",
        "--blocks",
        "1",
        "-q",
    ];
    let refused = expect_error(&fsb_json(scratch.path(), &run), 2, "device/not-empty");
    assert!(
        refused["help"].as_str().unwrap().contains("--wipe"),
        "{refused}"
    );
    with_journals(&[&target], &["--wipe", path]);
    // One device is not both.
    let both = format!("{target}@{path}");
    expect_error(
        &fsb_json(scratch.path(), &["run", &both, "--wipe", path, "-q"]),
        2,
        "device/named-twice",
    );
}

#[test]
fn mounted_file_systems_shrink_and_are_defragmented_where_they_can_be() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "e4defrag", "xfs_fsr");
    let trials = measured(&["ext4", "btrfs"], "shrink,files=50,file_size=64K");
    assert_eq!(trials["btrfs"]["outcome"], "ok", "{:#}", trials["btrfs"]);
    assert_eq!(trials["btrfs"]["metrics"][0]["name"], "maintenance_time");
    assert_eq!(
        trials["ext4"]["outcome"], "not_applicable",
        "{:#}",
        trials["ext4"]
    );
    assert!(
        trials["ext4"]["error"]
            .as_str()
            .unwrap()
            .contains("does not shrink")
    );
    let trials = measured(&["ext4", "ext3", "xfs", "btrfs"], "defragment,files=16");
    for target in ["ext4", "xfs", "btrfs"] {
        let trial = &trials[target];
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        // The blocks of the files have moved: all 4 MiB, or nearly so.
        let moved = trial["observed"]["device_write_bytes"].as_u64().unwrap();
        assert!(moved >= 2 << 20, "{target}: {trial:#}");
    }
    assert!(
        trials["ext3"]["error"]
            .as_str()
            .unwrap()
            .contains("no program that defragments"),
        "{:#}",
        trials["ext3"]
    );
}

#[test]
fn a_scrub_reads_the_files_of_a_mounted_btrfs_from_the_device() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.btrfs");
    let trials = measured(&["ext4", "btrfs"], "scrub,files=64,file_size=256K");
    let trial = &trials["btrfs"];
    assert_eq!(trial["outcome"], "ok", "{trial:#}");
    assert_eq!(trial["metrics"][0]["name"], "maintenance_time", "{trial:#}");
    // Each scrub reads the 16 MiB of data.
    assert!(
        trial["observed"]["device_read_bytes"].as_u64().unwrap() >= 16 << 20,
        "{trial:#}"
    );
    assert_eq!(
        trials["ext4"]["outcome"], "not_applicable",
        "{:#}",
        trials["ext4"]
    );
    assert!(
        trials["ext4"]["error"]
            .as_str()
            .unwrap()
            .contains("no online check of ext4"),
        "{:#}",
        trials["ext4"]
    );
}

#[test]
fn subvolumes_and_snapshots_are_measured_where_there_are_any() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.btrfs");
    for workload in [
        "subvolume",
        "snapshot",
        "snapshot-writable",
        "snapshot-delete",
        "send",
        "send-incremental",
    ] {
        let trials = measured(
            &["ext4", "btrfs"],
            &format!("{workload},files=50,file_size=64K"),
        );
        assert_eq!(trials["btrfs"]["outcome"], "ok", "{:#}", trials["btrfs"]);
        assert_eq!(trials["btrfs"]["metrics"][0]["name"], "maintenance_time");
        assert_eq!(
            trials["ext4"]["outcome"], "not_applicable",
            "{:#}",
            trials["ext4"]
        );
        assert!(
            trials["ext4"]["error"]
                .as_str()
                .unwrap()
                .contains("no subvolumes and snapshots")
        );
    }
}

#[test]
fn files_of_an_aged_file_system_have_more_extents_and_come_from_the_device() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    let workloads =
        words("--workload aged-read,bytes=112M,turnover=0 --workload aged-read,bytes=112M");
    let options = words("--size 160M --blocks 1 --control guest-memory=off --verify --out run -q");
    succeeds(
        scratch.path(),
        &[&["run", "ext4"][..], &workloads, &options].concat(),
    );
    expect_no_traces(&before);
    let found = |age: &str| {
        let trials = trials(&scratch.path().join("run")).into_iter();
        let mut measured = trials.filter(|trial| trial["phase"] == "measured");
        let trial = measured
            .find(|trial| trial["workload"].as_str().unwrap().contains(age))
            .unwrap();
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert!(
            trial["observed"]["device_read_bytes"].as_u64().unwrap() > 90 << 20,
            "{trial:#}"
        );
        let metrics = trial["metrics"].as_array().unwrap().iter();
        let extents = metrics
            .filter(|metric| metric["name"] == "extents_per_file")
            .collect::<Vec<_>>();
        (
            extents[0]["value"].as_f64().unwrap(),
            trial["observed"]["counts"]["bytes_written_before"]
                .as_u64()
                .unwrap(),
        )
    };
    let ((new, once), (aged, often)) = (found(", new"), found("turnover 4"));
    assert!(
        new >= 0.9 && aged > 1.2 * new,
        "{new} and {aged} extents a file"
    );
    assert!(often > 4 * once, "{often} bytes after {once}");
}
