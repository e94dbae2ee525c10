//! Devices that other users try to exchange during a run, and devices that are in use.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::*;
use crate::disk::Disk;

/// Makes `link` lead to `to` in one step, as an attacker would.
fn lead(link: &Path, to: &Path) {
    let next = link.with_extension("next");
    std::os::unix::fs::symlink(to, &next).unwrap();
    std::fs::rename(&next, link).unwrap();
}

fn disks() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["mkfs.ext4", "losetup"])
}

/// Runs ext4 on `named`, calls `exchange` while the first disk is filled, and expects the run to be made on that disk.
fn attacked(named: &Path, scratch: &Path, first: &Disk, second: &Disk, exchange: impl FnOnce()) {
    tiny_plan(scratch);
    let before = second.content();
    let target = format!("ext4@{}", named.display());
    let running = Running::start(scratch, &["run", "tiny.toml", &target, "--blocks", "2", "--out", "run", "-q"]);
    wait_until("the disk is being filled", Duration::from_secs(60), || first.is_begun());
    exchange();
    let output = running.wait();
    assert!(second.content() == before, "a device that nobody named was written to: {}", stderr(&output));
    expect_code(&output, 0);
    let record = record(&scratch.join("run"));
    let made = &record["targets"][target.as_str()];
    let command = made["mkfs_command"].as_array().unwrap();
    assert_eq!(command.last().unwrap(), named.to_str().unwrap(), "as it was named: {made:#}");
    let medium = &record["media"][named.to_str().unwrap()];
    assert_eq!(medium["device"]["name"], first.name(), "{medium:#}");
    assert!(!record.to_string().contains("/run/fsb"), "no private node is shown: {record:#}");
}

#[test]
fn a_link_that_is_changed_while_its_device_is_filled_leads_the_run_nowhere_else() {
    needs!(disks());
    let traces = traces();
    {
        let (scratch, first, second) = (scratch(), Disk::new(192), Disk::formatted(192));
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&first.path, &link).unwrap();
        attacked(&link, scratch.path(), &first, &second, || lead(&link, &second.path));
    }
    expect_no_traces(&traces);
}

#[test]
fn a_directory_that_is_changed_while_the_device_is_filled_leads_the_run_nowhere_else() {
    needs!(disks());
    let (scratch, first, second) = (scratch(), Disk::new(192), Disk::formatted(192));
    for (directory, disk) in [("a", &first), ("b", &second)] {
        std::fs::create_dir(scratch.path().join(directory)).unwrap();
        std::os::unix::fs::symlink(&disk.path, scratch.path().join(directory).join("disk")).unwrap();
    }
    let link = scratch.path().join("by-id");
    std::os::unix::fs::symlink("a", &link).unwrap();
    attacked(&link.join("disk"), scratch.path(), &first, &second, || lead(&link, Path::new("b")));
}

#[test]
fn a_node_that_is_made_anew_with_another_number_leads_the_run_nowhere_else() {
    needs!(disks());
    let (scratch, first, second) = (scratch(), Disk::new(192), Disk::formatted(192));
    let node = scratch.path().join("node");
    let copy = |disk: &Disk| {
        let _ = std::fs::remove_file(&node);
        let made = Command::new("cp").arg("-a").args([&disk.path, &node]).status().unwrap();
        assert!(made.success());
    };
    copy(&first);
    if std::fs::File::open(&node).is_err() {
        needs!(Err("a temporary directory that is mounted with devices"));
    }
    attacked(&node, scratch.path(), &first, &second, || copy(&second));
}

#[test]
fn every_file_system_is_made_on_a_named_device() {
    needs!(disks());
    for (fs, mkfs) in [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs"), ("ntfs", "mkntfs")] {
        needs!(program mkfs);
        let (scratch, disk) = (scratch(), Disk::new(320));
        tiny_plan(scratch.path());
        let link = scratch.path().join("disk");
        std::os::unix::fs::symlink(&disk.path, &link).unwrap();
        let target = format!("{fs}@{}", link.display());
        let output = fsb(scratch.path(), &["run", "tiny.toml", &target, "--blocks", "2", "--out", "run", "-q"]);
        expect_code(&output, 0);
        let trials = counting(&scratch.path().join("run"));
        assert!(trials.iter().all(|trial| trial["outcome"] == "ok"), "{trials:#?}");
        let record = record(&scratch.path().join("run"));
        assert!(record["targets"][target.as_str()]["block_size"].is_u64(), "{record:#}");
    }
}

#[test]
fn a_device_that_a_process_has_open_is_refused_with_its_name() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(64));
    tiny_plan(scratch.path());
    let before = disk.content();
    let device = std::fs::File::open(&disk.path).unwrap();
    let mut other = Command::new("sleep").arg("600").stdin(Stdio::from(device)).spawn().unwrap();
    let target = format!("ext4@{}", disk.path.display());
    let wipe = disk.path.to_str().unwrap();
    let refused = fsb_json(scratch.path(), &["run", "tiny.toml", &target, "--wipe", wipe, "--out", "run", "-q"]);
    other.kill().unwrap();
    other.wait().unwrap();
    let refused = expect_error(&refused, 2, "device/in-use");
    assert_eq!(refused["fields"]["pids"][0], other.id(), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(&disk.name()), "{refused}");
    assert!(disk.content() == before);
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_resumed_run_writes_to_no_other_device_than_it_was_begun_on() {
    needs!(disks());
    let (scratch, first, second) = (scratch(), Disk::new(64), Disk::formatted(64));
    tiny_plan(scratch.path());
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&first.path, &link).unwrap();
    let target = format!("ext4@{}", link.display());
    expect_code(&fsb(scratch.path(), &["run", "tiny.toml", &target, "--out", "run", "-q"]), 0);
    // Truncate the journal as if the run had been interrupted in its last block.
    let run = scratch.path().join("run");
    let text = std::fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    std::fs::write(run.join("trials.jsonl"), lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let mut record = record(&run);
    record["stop_reason"] = serde_json::Value::Null;
    record["blocks_planned"] = 2.into();
    std::fs::write(run.join("run.json"), record.to_string()).unwrap();

    lead(&link, &second.path);
    let before = second.content();
    let wipe = link.to_str().unwrap();
    let refused = fsb_json(scratch.path(), &["run", "--resume", "run", "--wipe", wipe, "-q"]);
    assert!(second.content() == before, "another device was written to");
    expect_error(&refused, 2, "run/other-device");
    lead(&link, &first.path);
    expect_code(&fsb(scratch.path(), &["run", "--resume", "run", "--wipe", wipe, "-q"]), 0);
}
