//! Each file system is formatted, mounted, measured with a tiny plan, and removed afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::*;
use crate::devices::Disk;

/// Runs the tiny plan on `target`, expects the exit code `code`, and returns the trials.
fn tiny_run(
    target: &str,
    extra: &[&str],
    code: i32,
) -> (tempfile::TempDir, Vec<serde_json::Value>) {
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let arguments = [
        &["run", "tiny.toml", target, "--out", "run", "-q"][..],
        extra,
    ]
    .concat();
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, code);
    expect_no_traces(&before);
    let trials = counting(&scratch.path().join("run"));
    (scratch, trials)
}

/// Expects that all measured trials succeeded, and that the record describes the target.
fn expect_measured(target: &str, size: &str, driver: Option<&str>) {
    let (scratch, trials) = tiny_run(target, &["--size", size], 0);
    let measured: Vec<_> = trials
        .iter()
        .filter(|trial| trial["phase"] == "measured")
        .collect();
    assert_eq!(measured.len(), 7, "{trials:#?}");
    for trial in &measured {
        assert_eq!(
            trial["outcome"], "ok",
            "{target}: {}: {}",
            trial["workload"], trial["error"]
        );
        assert!(trial["metrics"][0]["value"].as_f64().unwrap() > 0.0);
        assert!(trial["observed"]["device_read_bytes"].is_u64(), "{trial:#}");
    }
    let record = record(&scratch.path().join("run"));
    let made = &record["targets"][target];
    assert!(
        made["mkfs_version"]
            .as_str()
            .is_some_and(|text| text.chars().any(|c| c.is_ascii_digit())),
        "{made:#}"
    );
    assert!(
        made["block_size"].as_u64().is_some_and(|size| size >= 512),
        "{made:#}"
    );
    assert!(
        !made["mount_options"].as_array().unwrap().is_empty(),
        "{made:#}"
    );
    if let Some(driver) = driver {
        assert!(
            made["driver"]
                .as_str()
                .is_some_and(|text| text.contains(driver)),
            "{made:#}"
        );
    }
}

macro_rules! real {
    ($name:ident, $target:literal, $size:literal, $driver:expr, [$($program:literal),*]) => {
        #[test]
        fn $name() {
            needs!(root);
            $(needs!(program $program);)*
            expect_measured($target, $size, $driver);
        }
    };
}

real!(
    ext2_is_measured_and_gone,
    "ext2",
    "64M",
    None,
    ["mkfs.ext2"]
);
real!(
    ext3_with_a_full_journal_is_measured_and_gone,
    "ext3,data=journal",
    "64M",
    None,
    ["mkfs.ext3"]
);
real!(
    ext3_with_an_ordered_journal_is_measured_and_gone,
    "ext3,data=ordered",
    "64M",
    None,
    ["mkfs.ext3"]
);
real!(
    ext3_with_a_writeback_journal_is_measured_and_gone,
    "ext3,data=writeback",
    "64M",
    None,
    ["mkfs.ext3"]
);
real!(
    ext4_is_measured_and_gone,
    "ext4",
    "64M",
    None,
    ["mkfs.ext4"]
);
real!(xfs_is_measured_and_gone, "xfs", "320M", None, ["mkfs.xfs"]);
real!(
    btrfs_is_measured_and_gone,
    "btrfs",
    "160M",
    None,
    ["mkfs.btrfs"]
);
real!(
    ntfs_is_measured_and_gone,
    "ntfs",
    "64M",
    Some("ntfs-3g"),
    ["mkntfs"]
);
real!(
    bindfs_is_measured_and_gone,
    "bindfs",
    "64M",
    Some("bindfs (FUSE) over ext4"),
    ["mkfs.ext4", "bindfs"]
);
real!(
    mergerfs_over_ext3_is_measured_and_gone,
    "mergerfs,over=ext3",
    "64M",
    Some("mergerfs (FUSE) over ext3"),
    ["mkfs.ext3", "mergerfs"]
);
real!(
    gocryptfs_is_measured_and_gone,
    "gocryptfs",
    "64M",
    Some("gocryptfs (FUSE) over ext4"),
    ["mkfs.ext4", "gocryptfs"]
);
real!(
    fuse2fs_is_measured_and_gone,
    "fuse2fs",
    "64M",
    Some("fuse2fs (FUSE)"),
    ["mkfs.ext4", "fuse2fs"]
);
real!(
    sshfs_is_measured_and_gone,
    "sshfs",
    "64M",
    Some("sshfs (FUSE) over ext4"),
    ["mkfs.ext4", "sshfs"]
);
real!(
    fuse_overlayfs_is_measured_and_gone,
    "fuse-overlayfs",
    "64M",
    Some("fuse-overlayfs (FUSE) over ext4"),
    ["mkfs.ext4", "fuse-overlayfs"]
);
real!(
    an_image_in_memory_is_measured_and_gone,
    "ext4@ram",
    "64M",
    None,
    ["mkfs.ext4"]
);

#[test]
fn tmpfs_is_measured_where_it_makes_sense_and_says_so_where_not() {
    needs!(root);
    let (_scratch, trials) = tiny_run("tmpfs", &["--size", "64M"], 0);
    let outcome = |needle: &str| {
        let trial = trials.iter().find(|trial| {
            trial["phase"] == "measured" && trial["workload"].as_str().unwrap().contains(needle)
        });
        trial.unwrap_or_else(|| panic!("{needle}"))["outcome"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(outcome("cold"), "not_applicable");
    assert_eq!(outcome("durable"), "not_applicable");
    assert!(
        trials
            .iter()
            .any(|trial| trial["workload"] == "read 256K" && trial["outcome"] == "ok"),
        "{trials:#?}"
    );
    assert_eq!(outcome("rename"), "ok");
}

#[test]
fn encrypted_files_are_measured_before_and_after_a_remount() {
    needs!(root);
    needs!(program "mkfs.ext4", "lsattr");
    let (scratch, trials) = tiny_run("ext4,encrypt,noatime", &["--size", "64M"], 0);
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "ok"),
        "{trials:#?}"
    );
    let made = record(&scratch.path().join("run"))["targets"]["ext4,encrypt,noatime"].clone();
    assert!(
        made["features"]
            .as_array()
            .unwrap()
            .contains(&"encrypt".into()),
        "{made:#}"
    );
    assert!(
        made["mount_options"]
            .as_array()
            .unwrap()
            .contains(&"noatime".into()),
        "{made:#}"
    );
    // The directory of the target has the attribute of encrypted files.
    let before = traces();
    for (target, code) in [("ext4,encrypt", 0), ("ext4", 4)] {
        let arguments = [
            "run",
            target,
            "--size",
            "64M",
            "--blocks",
            "1",
            "--control",
            "guest-memory=off",
        ];
        let command = ["--", "echo text > file && lsattr file | grep -q '^[^ ]*E'"];
        let output = fsb(
            scratch.path(),
            &[&arguments[..], &["-q", "--out", target], &command].concat(),
        );
        expect_code(&output, code);
    }
    expect_no_traces(&before);
}

#[test]
fn mkfs_arguments_and_mount_options_reach_the_file_system() {
    needs!(root);
    let (scratch, _) = tiny_run(
        "small=ext4,noatime,mkfs=\"-b 1024 -O ^has_journal\"",
        &["--size", "64M"],
        0,
    );
    let record = record(&scratch.path().join("run"));
    let made = &record["targets"]["small"];
    assert_eq!(made["block_size"], 1024);
    let list = |key: &str| {
        made[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(
        list("mount_options").contains(&"noatime".to_owned()),
        "{made:#}"
    );
    assert!(
        !list("features").contains(&"has_journal".to_owned()),
        "{made:#}"
    );
    assert!(
        list("mkfs_command").contains(&"^has_journal".to_owned()),
        "{made:#}"
    );
}

/// As Đorđević et al. converted one file system: generic ext2, ext3, and ext2 again. mkfs.ext3
/// makes a journal in any case.
#[test]
fn conversions_between_ext2_and_ext3_are_measured_as_the_file_systems_that_they_make() {
    needs!(root);
    needs!(program "tune2fs", "e2fsck");
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let there = r#"there=ext3,tune="-O ^has_journal",tune="-j -J size=8",data=journal"#;
    let back = r#"back=ext2,tune="-j -J size=8",tune="-O ^has_journal""#;
    let mounted = r#"mounted=ext3,tune="-O ^has_journal",tune="mounted -j -J size=8",data=journal"#;
    let gained = r#"gained=ext2,tune="mounted -j -J size=8""#;
    let run = [
        "run",
        "tiny.toml",
        "ext2",
        there,
        back,
        mounted,
        gained,
        "--size",
        "256M",
        "--out",
        "run",
        "-q",
    ];
    succeeds(scratch.path(), &run);
    expect_no_traces(&before);
    let record = record(&scratch.path().join("run"));
    let made = |target: &str| record["targets"][target].clone();
    let has_journal = |target: &str| {
        made(target)["features"]
            .as_array()
            .unwrap()
            .iter()
            .any(|feature| feature == "has_journal")
    };
    assert_eq!(
        ["ext2", "there", "back", "mounted", "gained"].map(has_journal),
        [false, true, false, true, true]
    );
    let programs = |target: &str| -> Vec<String> {
        let commands = made(target)["tune_commands"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        commands
            .iter()
            .map(|words| words[0].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(programs("ext2"), [""; 0]);
    assert_eq!(programs("there"), ["tune2fs", "tune2fs", "e2fsck"]);
    assert_eq!(programs("back"), ["tune2fs", "tune2fs", "e2fsck"]);
    assert_eq!(
        programs("mounted"),
        ["tune2fs", "mount", "tune2fs", "umount", "e2fsck"]
    );
    // A converted ext3 is as safe as any other, and a converted ext2 is not. The driver of ext4
    // uses the journal of an ext2; that of ext2 ignores it.
    assert!(
        made("there")["risks"].is_null() && made("back")["risks"][0].is_object(),
        "{record:#}"
    );
    assert_eq!(
        made("gained")["risks"].is_null(),
        made("gained")["driver"] == "ext4",
        "{record:#}"
    );
    for trial in measured(&scratch.path().join("run")) {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
    }
    let commands = stdout(&fsb(scratch.path(), "report run --commands"));
    for line in [
        "tune2fs -j -J size=8 /dev/YOUR-DEVICE",
        "e2fsck -f -y /dev/YOUR-DEVICE",
    ] {
        assert!(commands.lines().any(|found| found == line), "{commands}");
    }
}

#[test]
fn a_block_device_is_measured_only_when_it_is_empty_or_given_up() {
    needs!(root);
    let scratch = scratch();
    tiny_plan(scratch.path());
    let disk = Disk::new(64);
    let wipe = disk.path.to_str().unwrap();
    let target = format!("disk=ext4@{wipe}");
    let run = |out: &str, extra: &[&str]| {
        let words = [
            "run",
            "tiny.toml",
            &target,
            "--size",
            "64M",
            "--out",
            out,
            "-q",
        ];
        fsb_json(scratch.path(), &[&words[..], extra].concat())
    };
    expect_code(&run("empty", &[]), 0);
    // It now holds an ext4.
    let refused = expect_error(&run("full", &[]), 2, "device/not-empty");
    assert_eq!(refused["fields"]["signatures"][0], "ext4", "{refused}");
    assert!(
        refused["help"].as_str().unwrap().contains("--wipe"),
        "{refused}"
    );
    expect_code(&run("wiped", &["--wipe", wipe]), 0);

    let mount = scratch.path().join("mounted");
    std::fs::create_dir(&mount).unwrap();
    disk.run("mkfs.ext4", &["-q", "-F"]);
    let mounted = disk.mount(&mount);
    let refused = run("mounted-run", &["--wipe", wipe]);
    drop(mounted);
    let refused = expect_error(&refused, 2, "device/in-use");
    assert_eq!(refused["fields"]["uses"], 1, "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("mounted"),
        "{refused}"
    );
}

// The record of a target contains its geometry, which is that of a large disk, and its risks.

const PLAN: &str = r#"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
[[workload]]
name = "create"
files = 30
"#;

/// Runs the plan on these targets. Returns the record.
fn measure(scratch: &Path, arguments: &[&str]) -> serde_json::Value {
    fs::write(scratch.join("plan.toml"), PLAN).unwrap();
    let out = arguments.join("").replace(['-', ','], "");
    succeeds(
        scratch,
        &[&["run", "plan.toml", "--out", &out, "-q"], arguments].concat(),
    );
    record(&scratch.join(out))
}

#[test]
fn slices_of_300_mib_have_the_geometry_of_a_large_disk() {
    needs!(root);
    let scratch = scratch();
    let found = measure(
        scratch.path(),
        &["ext2", "ext4", "xfs", "btrfs", "--size", "1300M"],
    );
    for (name, target) in found["targets"].as_object().unwrap() {
        let (made, large) = (&target["geometry"], &found["large_disk"][name]);
        for choice in ["block_size", "node_size", "inode_size", "profiles"] {
            assert_eq!(made[choice], large[choice], "{name}: {choice}");
        }
        assert_eq!(made["block_size"], 4096, "{name}");
    }
    let ext4 = &found["targets"]["ext4"]["geometry"];
    assert_eq!(found["large_disk"]["ext4"]["bytes_per_inode"], 16_384);
    assert!(
        (16_000..17_000).contains(&ext4["bytes_per_inode"].as_u64().unwrap()),
        "{ext4}"
    );
    let journal = ext4["journal_bytes"].as_u64().unwrap();
    assert!(
        (32 << 20..=48 << 20).contains(&journal),
        "an eighth of a slice of some 320 MiB, not {journal}"
    );
}

#[test]
fn a_target_may_name_its_own_mkfs_program() {
    needs!(root);
    let scratch = scratch();
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let (own, log) = (scratch.path().join("mkfs.ext4"), scratch.path().join("log"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\nexec $(PATH=$PATH:/sbin:/usr/sbin command -v mkfs.ext4) \"$@\"\n",
        log.display()
    );
    fs::write(&own, script).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    // From the directory of the run, as a shell takes it.
    let target = "own=ext4,mkfs=\"./mkfs.ext4 -m 0\"";
    succeeds(
        scratch.path(),
        &["run", "plan.toml", "ext4", target, "--out", "run", "-q"],
    );
    let found = record(&scratch.path().join("run"));
    let command = |name: &str| found["targets"][name]["mkfs_command"].clone();
    assert_eq!(command("own")[0], own.to_str().unwrap());
    assert_ne!(command("ext4")[0], command("own")[0]);
    assert_eq!(
        found["targets"]["own"]["mkfs_version"],
        found["targets"]["ext4"]["mkfs_version"]
    );
    let calls = fs::read_to_string(&log).unwrap();
    let devices = calls.lines().filter(|line| line.contains("-m 0"));
    assert!(devices.count() >= 2, "a large disk and the slice: {calls}");

    fs::remove_file(&own).unwrap();
    let error = fails(
        scratch.path(),
        &["run", "plan.toml", target, "--out", "none"],
        3,
        "testbed/tool-missing",
    );
    assert_eq!(error["fields"]["program"], own.to_str().unwrap());
}

#[test]
fn with_the_defaults_of_mkfs_a_small_ext4_differs_from_a_large_one() {
    needs!(root);
    let scratch = scratch();
    let found = measure(
        scratch.path(),
        &["ext4", "--size", "320M", "--mkfs-defaults"],
    );
    assert_eq!(found["targets"]["ext4"]["geometry"]["block_size"], 1024);
    assert_eq!(found["large_disk"]["ext4"]["block_size"], 4096);
}

#[test]
fn weakened_durability_is_recorded_for_each_target() {
    needs!(root);
    let scratch = scratch();
    let targets = [
        "ext4",
        "ext4,barrier=0",
        "ext4,mkfs=\"-O ^has_journal\"",
        "ext4,data=writeback",
        "xfs",
    ];
    let found = measure(
        scratch.path(),
        &[&targets[..], &["--size", "1700M"]].concat(),
    );
    let causes = |name: &str| {
        let risks = found["targets"][name]["risks"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        risks
            .iter()
            .map(|risk| risk["cause"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (name, cause) in [
        (targets[1], "barrier=0"),
        (targets[2], "without has_journal"),
        (targets[3], "data=writeback"),
    ] {
        assert_eq!(causes(name), [cause], "{name}");
    }
    assert!(causes("ext4").is_empty() && causes("xfs").is_empty());
    let found = measure(
        scratch.path(),
        &["xfs", "--size", "320M", "--control", "barriers=off"],
    );
    assert_eq!(found["targets"]["xfs"]["risks"][0]["cause"], "barriers=off");
}

/// Runs a case that creates 1000 files on these targets, durably. Returns the records of the
/// targets, and the measured trials of btrfs.
fn create_durably(
    targets: &[&str],
    more: &[&str],
) -> (Vec<(String, serde_json::Value)>, Vec<serde_json::Value>) {
    let scratch = scratch();
    let workload = words("--workload create,files=1000,durability=end --blocks 2 --out run -q");
    let before = traces();
    let output = fsb(
        scratch.path(),
        &[&["run"], targets, &workload, more].concat(),
    );
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        stderr(&output)
    );
    expect_no_traces(&before);
    let run = scratch.path().join("run");
    let is_btrfs = |trial: &serde_json::Value| {
        trial["target"]
            .as_str()
            .is_some_and(|name| name.starts_with("btrfs"))
    };
    let trials = counting(&run)
        .into_iter()
        .filter(|trial| trial["phase"] == "measured" && is_btrfs(trial));
    let found = record(&run)["targets"].as_object().unwrap().clone();
    (found.into_iter().collect(), trials.collect())
}

#[test]
fn btrfs_on_an_image_makes_no_commit_that_a_large_disk_does_not_need() {
    needs!(root);
    for medium in ["", "@ram"] {
        let targets = [format!("ext4{medium}"), format!("btrfs{medium}")];
        let (found, trials) = create_durably(&[&targets[0], &targets[1]], &["--size", "700M"]);
        assert!(
            found.iter().all(|(_, made)| made["small_device"].is_null()),
            "{found:#?}"
        );
        let made = &found
            .iter()
            .find(|(name, _)| name.starts_with("btrfs"))
            .unwrap()
            .1;
        assert_eq!(made["geometry"]["profiles"]["metadata"], "DUP");
        assert!(
            made["notes"]
                .to_string()
                .contains("a sparse device of 100 GiB"),
            "{made:#}"
        );
        assert_eq!(trials.len(), 2);
        for trial in &trials {
            assert_eq!(trial["outcome"], "ok", "{}", trial["error"]);
            let samples = trial["samples"]["timed_ns"].as_array().unwrap().len() as u64
                * trial["samples"]["units"].as_u64().unwrap();
            let flushes = trial["observed"]["device_flushes"].as_u64().unwrap();
            // A commit flushes twice. On the slice alone there are more than ten commits in each
            // sample.
            assert!(
                flushes <= 4 * samples,
                "{flushes} flushes in {samples} samples"
            );
        }
    }
}

#[test]
fn btrfs_on_a_small_device_is_not_judged_where_it_commits_more_often_than_on_a_large_disk() {
    needs!(root);
    needs!(program "losetup", "mkfs.btrfs");
    let disk = Disk::new(700);
    let target = format!("btrfs@{}", disk.path.display());
    let (found, trials) = create_durably(&[&target], &[]);
    let small = &found[0].1["small_device"];
    assert_eq!(small["bytes"], 700 << 20, "{small}");
    assert!(
        (60..140).contains(&small["new_files"].as_u64().unwrap()),
        "{small}"
    );
    for trial in &trials {
        assert_eq!(
            (&trial["outcome"], &trial["error_code"]),
            (&"invalid".into(), &"trial/small-device".into())
        );
    }
    let listed = fsb(Path::new("/"), &["choose", &target, "--list"]);
    let listed = stdout(&listed);
    assert!(
        listed.contains("-n 4096")
            && listed.contains("not raced: its effect on a device of this size"),
        "{listed}"
    );
}

#[test]
fn a_command_that_writes_more_than_its_slice_does_not_fill_the_disk_beneath() {
    needs!(root);
    needs!(program "losetup", "mkfs.ext4", "mkfs.btrfs");
    let (scratch, disk) = (scratch(), Disk::formatted(4096));
    let images = scratch.path().join("images");
    fs::create_dir(&images).unwrap();
    let mounted = disk.mount(&images);
    let words = [
        "run",
        "btrfs",
        "--dir",
        images.to_str().unwrap(),
        "--size",
        "300M",
        "--blocks",
        "1",
        "--out",
        "run",
        "-q",
    ];
    let output = fsb(
        scratch.path(),
        &[&words[..], &["--", "cat /dev/zero > big"]].concat(),
    );
    expect_code(&output, 4);
    let trials = counting(&scratch.path().join("run"));
    let error = trials.last().unwrap();
    assert_eq!(error["error_code"], "trial/no-space", "{error:#}");
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .contains("the file system beneath the image is almost full"),
        "{error:#}"
    );
    drop(mounted);
    disk.wait_until_free();
}
