//! Controls hold while a run measures, and are restored afterwards.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_machine_is_as_asked_during_a_run_and_as_before_after_it() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    // Not a value that the kernel would choose, so that the test sees a restored value.
    fs::write(disk.setting("read_ahead_kb"), "512").unwrap();
    let sysctls = ["dirty_ratio", "dirty_bytes", "dirty_expire_centisecs", "dirty_background_ratio"];
    let queue = ["scheduler", "wbt_lat_usec", "read_ahead_kb", "write_cache"].map(|file| disk.setting(file));
    const MASK: &str = "/sys/devices/virtual/workqueue/cpumask";
    let now = || sysctls.map(vm).into_iter().chain(queue.iter().map(read)).chain([read(MASK)]).collect::<Vec<_>>();
    let as_they_were = now();
    let target = format!("btrfs@{}", disk.path.display());
    let controls = [
        "dirty-bytes=64M",
        "dirty-expire=5s",
        "dirty-background-ratio=3%",
        "scheduler=mq-deadline",
        "wbt=3ms",
        "read-ahead=1M",
        "barriers=off",
        "cpus=0",
        "kernel-cpus=0",
        "numa=0",
    ];
    let run = start(scratch.path(), &[&target], &controls, &disk.path);
    wait_until("the controls of the visit", PATIENCE, || read(disk.setting("read_ahead_kb")) == "1024");
    assert_eq!(read(disk.setting("write_cache")), "write through");
    assert_eq!(vm("dirty_bytes"), (64 << 20).to_string());
    assert_eq!(vm("dirty_ratio"), "0");
    assert_eq!(vm("dirty_expire_centisecs"), "500");
    assert_eq!(vm("dirty_background_ratio"), "3");
    assert_eq!(u32::from_str_radix(&read(MASK), 16), Ok(1));
    assert!(read(disk.setting("scheduler")).contains("[mq-deadline]"));
    assert_eq!(read(disk.setting("wbt_lat_usec")), "3000");
    // btrfs does not use the read-ahead of its device.
    wait_until("read-ahead of btrfs", PATIENCE, || btrfs_read_ahead(&disk).as_deref() == Some("1024"));
    let bound = |file: &str, word: &str| of_workers(file).iter().any(|text| text.contains(word));
    wait_until("workers on one processor", PATIENCE, || bound("status", "Cpus_allowed_list:\t0\n"));
    wait_until("workers' memory from one node", PATIENCE, || bound("numa_maps", "bind:0"));
    let coordinator = run.id();
    run.signal(rustix::process::Signal::INT);
    expect_code(&run.wait(), 130);
    is_gone(coordinator);
    assert_eq!(now(), as_they_were);
    expect_nothing_to_undo(scratch.path());
}

fn btrfs_read_ahead(disk: &Disk) -> Option<String> {
    let mounted = fs::read_dir("/sys/fs/btrfs").ok()?.flatten().map(|entry| entry.path());
    let ours = mounted.into_iter().find(|path| path.join("devices").join(disk.name()).exists())?;
    Some(read(ours.join("bdi/read_ahead_kb")))
}

#[test]
fn one_target_without_barriers_differs_from_the_other_in_that_alone() {
    needs!(root);
    let scratch = scratch();
    let targets = "targets = ['ext4', { target = 'ext4', controls = { barriers = 'off' } }]\nsize = '320M'\n";
    fs::write(scratch.path().join("plan.toml"), format!("{targets}{PLAN}").replace("blocks = 50", "blocks = 1"))
        .unwrap();
    let output = fsb(scratch.path(), &["run", "plan.toml", "--out", "run", "-q"]);
    expect_code(&output, 0);
    let run = scratch.path().join("run");
    let written = |target: &str| {
        let all = counting(&run).into_iter();
        all.filter(|trial| trial["target"] == target && trial["operation"] == "write").collect::<Vec<_>>()
    };
    let (with, without) = (written("ext4"), written("ext4 barriers off"));
    assert_eq!((with.len(), without.len()), (2, 2));
    for trial in with {
        assert!(trial["observed"]["device_flushes"].as_u64().unwrap() > 0, "{trial:#}");
        assert!(trial["requested"]["controls"].get("barriers").is_none(), "{trial:#}");
    }
    for trial in without {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["observed"]["device_flushes"], 0, "{trial:#}");
        assert_eq!(trial["requested"]["controls"]["barriers"], "off");
        assert!(trial["observed"]["controls"]["barriers"].as_str().unwrap().starts_with("off"), "{trial:#}");
    }
    let record = record(&run);
    let seen =
        |target: &str| record["targets"][target]["controls"]["barriers"]["observed"].as_str().unwrap().to_owned();
    let off = seen("ext4 barriers off");
    assert!(seen("ext4").starts_with("on") && off.starts_with("off"), "{off}");
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains(&off));
}

#[test]
fn missing_controls_are_recorded_and_reported() {
    needs!(root);
    if Path::new("/sys/devices/system/cpu/cpufreq/policy0").exists() {
        skip!("the processors have a frequency governor");
    }
    let scratch = scratch();
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let arguments = ["run", "plan.toml", "tmpfs", "--blocks", "1", "--size", "64M", "--out", "run", "-q"];
    let controls = ["--control", "governor=performance", "--control", "scheduler=none"];
    let output = fsb(scratch.path(), &[arguments.as_slice(), &controls].concat());
    let record = record(&scratch.path().join("run"));
    let governor = &record["controls"]["governor"];
    assert_eq!((&governor["requested"], &governor["effective"]), (&"performance".into(), &false.into()));
    assert_eq!(record["targets"]["tmpfs"]["controls"]["scheduler"]["effective"], false);
    let warnings = record["warnings"].as_array().unwrap();
    for (control, value) in [("governor", "performance"), ("scheduler", "none")] {
        let is_it = |warning: &&serde_json::Value| {
            warning["kind"] == "control_unavailable" && warning["control"] == control && warning["value"] == value
        };
        assert_eq!(warnings.iter().filter(is_it).count(), 1, "{warnings:?}");
        // The first screen wraps long lines.
        assert!(stdout(&output).replace("\n ", "").contains(&format!("{control}={value}")), "{}", stdout(&output));
    }
}
