//! Each file system is formatted, mounted, written, made cold, and torn down. Idle, it has no
//! deferred work: its journal is empty.

use std::process::Command;

use serde_json::Value;

use crate::stage::{
    Coordinator, TestDevice, directory, eventually, find, must, nothing_is_left, run, setup,
};

tests! {
    ext2,
    ext3_with_its_journal_modes,
    ext4_with_arguments_for_mkfs,
    xfs,
    btrfs,
    ntfs_through_fuse,
    tmpfs_is_neither_cold_nor_durable,
    images_in_memory,
    images_on_other_file_systems,
    targets_take_turns_on_one_medium,
    refusals_of_mkfs_and_mount_are_quoted,
    discard_stays_possible_after_a_run,
    ext3_and_ext4_empty_their_journals,
    xfs_empties_its_log,
    btrfs_and_ext2_come_to_rest,
}

const FILE: u64 = 4 << 20;

fn bytes(lines: &[Value], moment: &str, counter: &str) -> u64 {
    find(lines, moment)[counter]
        .as_u64()
        .unwrap_or_else(|| panic!("no {counter} {moment}: {lines:#?}"))
}

/// Runs one target on an image. Returns the lines and the record of the target.
fn sequential_trial(target: &str, size: u64) -> (Vec<Value>, Value) {
    let dir = directory();
    let lines = run(&setup(&[target], size, dir.path()), |_| {});
    assert_eq!(find(&lines, "isolation"), "pid_and_mount");
    assert_eq!(
        find(&lines, "exists"),
        false,
        "the root is gone after the release: {lines:#?}"
    );
    let worker = find(&lines, "worker");
    assert_eq!(
        (&worker["inside"], &worker["notes"]),
        (&Value::from(0), &serde_json::json!([])),
        "{worker:#}"
    );
    for attempt in worker["attempts"].as_array().unwrap() {
        assert_eq!(attempt["errno"], libc::EROFS, "{attempt}");
    }
    nothing_is_left(dir.path());
    let record = find(&lines, "provisioned")["record"].clone();
    (lines, record)
}

fn on_a_device(target: &str, size: u64) -> (Vec<Value>, Value) {
    let (lines, record) = sequential_trial(target, size);
    let medium = &find(&lines, "opened")["media"]["loop"];
    assert_eq!(medium["direct"], true, "{medium:#}");
    assert_eq!(
        medium["device"]["queue"]["discard_max_bytes"], "0",
        "{medium:#}"
    );
    assert_eq!(medium["device"]["size_bytes"], size);
    assert!(
        medium["device"]["backing"]
            .as_str()
            .unwrap()
            .contains(" on "),
        "{medium:#}"
    );
    assert_eq!(find(&lines, "filled"), size);
    assert!(
        record["mkfs_version"].is_string() && record["block_size"].as_u64() >= Some(512),
        "{record:#}"
    );
    assert!(
        !record["features"].as_array().unwrap().is_empty(),
        "{record:#}"
    );
    assert!(
        record["mount_options"]
            .as_array()
            .unwrap()
            .contains(&"rw".into()),
        "{record:#}"
    );
    // Cold reads reach the device, warm ones do not.
    assert_eq!(find(&lines, "cold"), true);
    let cold = bytes(&lines, "after", "read_bytes") - bytes(&lines, "before", "read_bytes");
    let warm = bytes(&lines, "warm", "read_bytes") - bytes(&lines, "after", "read_bytes");
    assert!((FILE..3 * FILE).contains(&cold), "{cold} bytes read cold");
    // Unless the kernel evicted pages in between, for example because another process needs memory.
    assert!(
        warm == 0 || find(&lines, "evicted") == true,
        "{warm} bytes read warm"
    );
    assert!(bytes(&lines, "written", "write_bytes") > FILE);
    assert_eq!(find(&lines, "quiet")["idle"], true);
    (lines, record)
}

fn command(record: &Value) -> String {
    let words: Vec<_> = record["mkfs_command"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    words.join(" ")
}

fn ext2() {
    needs!(root);
    let (_, record) = on_a_device("ext2,noatime", 32 << 20);
    assert_eq!(record["driver"], "ext4");
    assert!(
        record["mount_options"]
            .as_array()
            .unwrap()
            .contains(&"noatime".into())
    );
    assert_eq!(record["requested_options"], serde_json::json!(["noatime"]));
}

fn ext3_with_its_journal_modes() {
    needs!(root);
    for mode in ["journal", "writeback"] {
        let (_, record) = on_a_device(&format!("ext3,data={mode}"), 64 << 20);
        assert!(
            record["mount_options"]
                .as_array()
                .unwrap()
                .contains(&format!("data={mode}").into()),
            "{record:#}"
        );
        assert!(
            record["features"]
                .as_array()
                .unwrap()
                .contains(&"has_journal".into())
        );
    }
}

fn ext4_with_arguments_for_mkfs() {
    needs!(root);
    let (_, record) = on_a_device(r#"ext4,mkfs="-b 1024 -L 'a b'""#, 64 << 20);
    assert_eq!(record["block_size"], 1024);
    assert_eq!(record["driver"], Value::Null);
    let command = command(&record);
    assert!(
        command.contains(
            "-F -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 -b 1024 -L a b /dev/loop"
        ),
        "{command}"
    );
}

fn xfs() {
    needs!(root);
    let (_, record) = on_a_device("xfs,allocsize=512k", 300 << 20);
    assert!(command(&record).contains("-f -q -K"), "{record:#}");
    assert!(
        record["mount_options"]
            .as_array()
            .unwrap()
            .contains(&"allocsize=512k".into()),
        "{record:#}"
    );
}

fn btrfs() {
    needs!(root);
    let (_, record) = on_a_device("btrfs", 128 << 20);
    let options = record["mount_options"].as_array().unwrap();
    assert!(
        !options
            .iter()
            .any(|option| option.as_str().unwrap().starts_with("discard")),
        "{record:#}"
    );
}

fn ntfs_through_fuse() {
    needs!(root);
    let (_, record) = on_a_device("ntfs", 32 << 20);
    assert_eq!(record["driver"], "ntfs-3g (FUSE)");
}

fn tmpfs_is_neither_cold_nor_durable() {
    needs!(root);
    let (lines, record) = sequential_trial("tmpfs", 64 << 20);
    let provisioned = find(&lines, "provisioned");
    let abilities = &provisioned["abilities"];
    assert_eq!(
        (&abilities["cold"], &abilities["durable"]),
        (&Value::Null, &Value::Bool(false))
    );
    assert!(
        abilities["why_not_cold"]
            .as_str()
            .unwrap()
            .contains("memory")
    );
    assert!(provisioned["free_bytes"].as_u64().unwrap() <= 64 << 20);
    assert!(record["mkfs_command"].as_array().unwrap().is_empty());
}

fn images_in_memory() {
    needs!(root);
    let dir = directory();
    let lines = run(
        &setup(&["ext4@ram", "ext2@ram"], 32 << 20, dir.path()),
        |_| {},
    );
    let medium = &find(&lines, "opened")["media"]["ram"];
    assert_eq!(
        (&medium["direct"], &medium["summary"]),
        (&Value::Bool(false), &Value::from("ram 32.0 MiB"))
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.get("released").is_some())
            .count(),
        2,
        "{lines:#?}"
    );
    nothing_is_left(dir.path());
}

fn images_on_other_file_systems() {
    needs!(root);
    let dir = directory();
    for (mkfs, size) in [("mkfs.btrfs", 300 << 20), ("mkfs.xfs", 320 << 20)] {
        let device = TestDevice::new(dir.path(), size, &[]);
        let path = device.path.to_str().unwrap();
        must(mkfs, &["-q", "-f", path]);
        let point = dir.path().join(mkfs);
        std::fs::create_dir(&point).unwrap();
        must("mount", &[path, point.to_str().unwrap()]);
        // The size is odd, too: image sizes are rounded down.
        let lines = run(&setup(&["ext2"], (16 << 20) + 777, &point), |_| {});
        eventually("the image is gone", || {
            Command::new("umount")
                .arg(&point)
                .status()
                .unwrap()
                .success()
        });
        let medium = &find(&lines, "opened")["media"]["loop"]["device"];
        let kind = mkfs.strip_prefix("mkfs.").unwrap();
        assert_eq!(medium["backing"], format!("{kind} on {path}"), "{medium:#}");
        assert_eq!(
            medium["beneath"][0]["name"],
            path.strip_prefix("/dev/").unwrap()
        );
        assert_eq!(
            (&medium["size_bytes"], find(&lines, "exists")),
            (&Value::from(16 << 20), &Value::Bool(false))
        );
    }
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let error = run(&setup(&["ext2"], 16 << 20, memory.path()), |_| {});
    assert!(
        find(&error, "error")["advice"]
            .as_str()
            .unwrap()
            .contains("@ram"),
        "{error:#?}"
    );
}

fn targets_take_turns_on_one_medium() {
    needs!(root);
    let dir = directory();
    let lines = run(
        &setup(&["ext4", "btrfs", "ext4"], 128 << 20, dir.path()),
        |_| {},
    );
    assert_eq!(
        find(&lines, "opened")["media"].as_object().unwrap().len(),
        1
    );
    let released: Vec<_> = lines
        .iter()
        .filter_map(|line| line.get("released"))
        .collect();
    assert_eq!(released, ["ext4", "btrfs", "ext4#2"]);
    nothing_is_left(dir.path());
}

fn refusals_of_mkfs_and_mount_are_quoted() {
    needs!(root);
    let dir = directory();
    for (target, words) in [
        (r#"ext4,mkfs="-b 7""#, "invalid block size"),
        ("ext4,no_such_option", "no_such_option"),
        ("xfs,sunit=8,swidth=12", "stripe width (12)"),
        ("ntfs,streams_interface=nonsense", "nonsense"),
        ("ext4,ro", "Read-only file system (EROFS)"),
    ] {
        let size = if target.starts_with("xfs") {
            300 << 20
        } else {
            32 << 20
        };
        let lines = run(&setup(&[target], size, dir.path()), |_| {});
        let error = find(&lines, "error");
        // An option that the driver does not know is an error of the request, found before anything
        // is made.
        let kind = if words == "no_such_option" {
            "request"
        } else {
            "trial"
        };
        assert_eq!(error["kind"], kind, "{error:#}");
        assert!(
            error["tried"].as_str().unwrap().contains(words),
            "{target}: {error:#}"
        );
        nothing_is_left(dir.path());
    }
}

fn discard_stays_possible_after_a_run() {
    needs!(root);
    let limits = || -> Vec<String> {
        let read = |index: u32| {
            std::fs::read_to_string(format!("/sys/block/loop{index}/queue/discard_max_bytes")).ok()
        };
        (0..8).filter_map(read).collect()
    };
    let dir = directory();
    let lines = run(&setup(&["ext2"], 16 << 20, dir.path()), |_| {});
    let name = find(&lines, "opened")["media"]["loop"]["device"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    // A new device replaces it, and discard works on its next image.
    let image = dir.path().join("image");
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(1 << 20))
        .unwrap();
    let device = format!("/dev/{name}");
    let attached = Command::new("losetup")
        .args([&device, image.to_str().unwrap()])
        .status()
        .unwrap();
    assert!(attached.success(), "{device} is taken: {:?}", limits());
    let limit =
        std::fs::read_to_string(format!("/sys/block/{name}/queue/discard_max_bytes")).unwrap();
    Command::new("losetup")
        .args(["-d", &device])
        .status()
        .unwrap();
    assert_ne!(limit.trim(), "0");
}

/// Returns the deferred work after a syncfs, and after quiescing.
fn kept(target: &str) -> Vec<Value> {
    let dir = directory();
    let mut coordinator = Coordinator::start(
        &setup(&[target], 320 << 20, dir.path()),
        "background",
        |_| {},
    );
    let lines: Vec<Value> = coordinator
        .lines
        .by_ref()
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
        .collect();
    coordinator.child.wait().expect("the front ends");
    assert_eq!(find(&lines, "quiet")["idle"], true, "{lines:#?}");
    assert_eq!(
        find(&lines, "writable"),
        true,
        "it is as writable as before: {lines:#?}"
    );
    // They complete their deferred work by a short remount to read-only, which a file open for
    // writing prevents.
    let hindered = find(&lines, "with a writer").as_str().map(str::to_owned);
    let ends_by_remount = ["xfs", "btrfs"].contains(&target);
    assert_eq!(
        hindered.is_some_and(|why| why.contains("open for writing")),
        ends_by_remount,
        "{lines:#?}"
    );
    nothing_is_left(dir.path());
    ["synced", "settled"]
        .map(|moment| find(&lines, moment).clone())
        .to_vec()
}

fn ext3_and_ext4_empty_their_journals() {
    needs!(root);
    for target in ["ext3", "ext4"] {
        let kept = kept(target);
        // The journal's first block that is still in use. 0 if there is none.
        assert_ne!(
            kept[0]["journal"], 0,
            "{target}: this test shows nothing where syncfs empties the journal already"
        );
        assert_eq!(kept[1]["journal"], 0, "{target}");
    }
}

fn xfs_empties_its_log() {
    needs!(root);
    let kept = kept("xfs");
    let blocks = |moment: &Value| {
        moment["log"]
            .as_u64()
            .expect("the distance between the log's ends")
    };
    assert!(
        blocks(&kept[0]) > 50,
        "this test shows nothing where syncfs empties the log already: {kept:?}"
    );
    // The record that marks the log as empty.
    assert!(blocks(&kept[1]) <= 8, "{kept:?}");
}

fn btrfs_and_ext2_come_to_rest() {
    needs!(root);
    for target in ["btrfs", "ext2"] {
        kept(target);
    }
}
