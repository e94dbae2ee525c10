//! Several targets are ready at once, and operations on one do not affect the others.

use fsb_model::run::PlacementReason;

use std::path::Path;

use fsb_testbed::Setup;
use serde_json::Value;

use crate::stage::{TestDevice, directory, find, must, nothing_is_left, play, setup};

tests! {
    nothing_real_has_two_slots,
    two_media_are_mounted_at_once,
    three_file_systems_share_an_image,
    slices_of_memory,
    targets_change_their_slices,
    discards_of_one_slice_stay_in_it,
    a_slice_that_is_too_small_is_refused,
    three_file_systems_share_a_disk,
    a_disk_with_partitions_is_not_divided,
}

fn values<'a>(lines: &'a [Value], key: &str) -> Vec<&'a Value> {
    lines.iter().filter_map(|line| line.get(key)).collect()
}

/// Checks that there are no errors, that each device has its own counters, and that a release tears
/// down one target only.
fn stand_side_by_side(lines: &[Value], targets: usize) {
    let errors = values(lines, "error");
    assert!(errors.is_empty(), "{errors:?}; {lines:#?}");
    assert_eq!(values(lines, "provisioned").len(), targets);
    for key in ["wrote", "read"] {
        let told = values(lines, key);
        assert_eq!(told.len(), targets, "{lines:#?}");
        for (own, moved) in told.into_iter().enumerate() {
            let moved: Vec<u64> = moved
                .as_array()
                .unwrap()
                .iter()
                .map(|bytes| bytes.as_u64().unwrap())
                .collect();
            let file = (4 << 20) * (own as u64 + 1);
            assert!(
                (file..3 * file + (4 << 20)).contains(&moved[own]),
                "{key}: {moved:?}"
            );
            let others = moved
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != own)
                .map(|(_, bytes)| bytes);
            assert!(others.sum::<u64>() < 1 << 20, "{key} by {own}: {moved:?}");
        }
    }
    for (slot, there) in values(lines, "there").into_iter().enumerate() {
        let expected: Vec<bool> = (0..targets).map(|other| other > slot).collect();
        assert_eq!(
            *there,
            serde_json::json!(expected),
            "after the release of {slot}"
        );
    }
}

fn nothing_real_has_two_slots() {
    let dir = directory();
    let lines = play(
        &setup(&["null", "null"], 32 << 20, dir.path()),
        "side",
        |_| {},
    );
    assert!(values(&lines, "error").is_empty(), "{lines:#?}");
    let names: Vec<_> = values(&lines, "provisioned")
        .into_iter()
        .map(|it| it["root"].clone())
        .collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
    assert_eq!(values(&lines, "released").len(), 2);
}

fn two_media_are_mounted_at_once() {
    needs!(root);
    let dir = directory();
    let lines = play(
        &setup(&["ext4", "ext2@ram"], 64 << 20, dir.path()),
        "side",
        |_| {},
    );
    stand_side_by_side(&lines, 2);
    nothing_is_left(dir.path());
}

/// Large enough for xfs, which needs 300 MiB.
const SIZE: u64 = 1200 << 20;

/// Returns a setup of targets on slices of one medium.
pub fn divided(targets: &[&str], size: u64, dir: &Path) -> Setup {
    Setup {
        slices: targets.len() as u32,
        ..setup(targets, size, dir)
    }
}

/// Returns the devices of the slices of that medium. Checks that each slice begins where the
/// previous one ends.
fn slices_of(lines: &[Value], medium: &str, size: u64) -> Vec<String> {
    let opened = find(lines, "opened");
    assert_eq!(
        opened["media"][medium]["device"]["size_bytes"], size,
        "{opened:#}"
    );
    let slices = opened["slices"][medium]
        .as_array()
        .unwrap_or_else(|| panic!("{opened:#}"));
    let bytes = fsb_testbed::slice_bytes(size, slices.len() as u32);
    let start = slices[0]["place"]["start"].as_u64().unwrap();
    for (number, slice) in (0..).zip(slices) {
        assert_eq!(
            slice["place"],
            serde_json::json!({ "start": start + number * bytes, "bytes": bytes })
        );
    }
    slices
        .iter()
        .map(|slice| slice["device"].as_str().unwrap().to_owned())
        .collect()
}

fn three_file_systems_share_an_image() {
    needs!(root);
    let dir = directory();
    let setup = divided(&["ext4", "xfs", "btrfs"], SIZE, dir.path());
    let lines = play(&setup, "side", |_| {});
    stand_side_by_side(&lines, 3);
    let devices = slices_of(&lines, "loop", SIZE);
    assert_eq!(find(&lines, "filled"), SIZE, "filled once");
    assert_eq!(find(&lines, "opened")["media"]["loop"]["direct"], true);
    for (provisioned, device) in values(&lines, "provisioned").into_iter().zip(devices) {
        let command = provisioned["record"]["mkfs_command"].to_string();
        assert!(command.contains(&device), "{command} is not for {device}");
        assert!(
            provisioned["free_bytes"].as_u64().unwrap() < fsb_testbed::slice_bytes(SIZE, 3),
            "{provisioned:#}"
        );
    }
    // Other processes may use the disk under the image meanwhile, but I/O of targets belongs to the
    // run.
    for (slot, seen) in (1..).zip(values(&lines, "seen")) {
        let ours = seen["target_device_bytes"]
            .as_f64()
            .unwrap_or_else(|| panic!("{seen}"));
        assert!((4e6 * f64::from(slot)..4e7).contains(&ours), "{seen}");
    }
    nothing_is_left(dir.path());
}

fn slices_of_memory() {
    needs!(root);
    let dir = directory();
    let lines = play(
        &divided(
            &["ext4@ram", "btrfs@ram", "ntfs@ram"],
            512 << 20,
            dir.path(),
        ),
        "side",
        |_| {},
    );
    stand_side_by_side(&lines, 3);
    slices_of(&lines, "ram", 512 << 20);
    nothing_is_left(dir.path());
}

fn targets_change_their_slices() {
    needs!(root);
    let dir = directory();
    let lines = play(
        &divided(&["ext4", "ext2"], 128 << 20, dir.path()),
        "side-again",
        |_| {},
    );
    assert!(values(&lines, "error").is_empty(), "{lines:#?}");
    let shown: Vec<_> = values(&lines, "again")
        .into_iter()
        .map(|record| record["mkfs_command"].to_string())
        .collect();
    let devices = slices_of(&lines, "loop", 128 << 20);
    for (command, (kind, slice)) in shown.iter().zip([("ext4", 0), ("ext2", 1), ("ext2", 0)]) {
        assert!(
            command.contains(kind) && command.contains(&devices[slice]),
            "{command}"
        );
    }
    assert_eq!(
        find(&lines, "taken")["fields"],
        serde_json::json!({ "slice": 1, "slot": 7 }),
        "{lines:#?}"
    );
    // The releases tore down the first two, and the reuse of its slot the third. Two are left.
    assert_eq!(
        find(&lines, "left"),
        &serde_json::json!([false, false, false, true, true])
    );
    nothing_is_left(dir.path());
}

fn discards_of_one_slice_stay_in_it() {
    needs!(root);
    let dir = directory();
    let lines = play(
        &divided(&["ext4,discard", "ext4"], 128 << 20, dir.path()),
        "side",
        |_| {},
    );
    stand_side_by_side(&lines, 2);
    nothing_is_left(dir.path());
}

fn a_slice_that_is_too_small_is_refused() {
    needs!(root);
    let dir = directory();
    let refused = play(
        &divided(&["xfs", "ext4"], 512 << 20, dir.path()),
        "side",
        |_| {},
    );
    let error = find(&refused, "error");
    assert_eq!(error["kind"], "request", "{error:#}");
    assert!(
        error["advice"]
            .as_str()
            .unwrap()
            .contains("--size 619M or more"),
        "{error:#}"
    );
}

/// Returns a setup of targets on slices of a device of the test.
fn on_a_disk(names: &[&str], disk: &TestDevice, dir: &Path) -> Setup {
    let targets: Vec<String> = names
        .iter()
        .map(|name| format!("{name}@{}", disk.path.display()))
        .collect();
    divided(
        &targets.iter().map(String::as_str).collect::<Vec<_>>(),
        0,
        dir,
    )
}

fn three_file_systems_share_a_disk() {
    needs!(root);
    let (dir, elsewhere) = (directory(), directory());
    let size = 512 << 20;
    let disk = TestDevice::new(elsewhere.path(), size, &[]);
    let mut setup = on_a_disk(&["ext4", "btrfs", "ntfs"], &disk, dir.path());
    assert_eq!(fsb_testbed::side_by_side(&setup), Ok(3));
    assert_eq!(
        fsb_testbed::slice_size(&setup, 3),
        Some(fsb_testbed::slice_bytes(size, 3))
    );
    // The queue belongs to the disk: it is set for the first target, and restored after the last
    // one.
    setup
        .controls
        .insert("scheduler".to_owned(), "none".to_owned());
    let lines = play(&setup, "side", |_| {});
    stand_side_by_side(&lines, 3);
    let shown = disk.path.display().to_string();
    let slices = slices_of(&lines, &shown, size);
    assert_eq!(slices, [1, 2, 3].map(|number| format!("{shown}p{number}")));
    assert_eq!(disk.partitions(), Vec::<String>::new());
    nothing_is_left(dir.path());
    // Other programs look for a file system at the beginning of the disk, and there is none.
    must(
        "sh",
        &["-c", &format!("test -z \"$(wipefs -n -p {shown})\"")],
    );
    // The same targets share the disk again, each on another slice.
    let mut again = on_a_disk(&["ntfs", "ext4", "btrfs"], &disk, dir.path());
    again.wipe = vec![disk.path.clone()];
    stand_side_by_side(&play(&again, "side", |_| {}), 3);
    assert_eq!(disk.partitions(), Vec::<String>::new());
}

fn a_disk_with_partitions_is_not_divided() {
    needs!(root);
    let (dir, elsewhere) = (directory(), directory());
    let disk = TestDevice::new(elsewhere.path(), 256 << 20, &[]);
    let shown = disk.path.display().to_string();
    must("addpart", &[&shown, "1", "2048", "4096"]);
    let mut setup = on_a_disk(&["ext4", "ext2"], &disk, dir.path());
    setup.wipe = vec![disk.path.clone()];
    let reason = fsb_testbed::side_by_side(&setup).unwrap_err();
    let lines = play(&setup, "side", |_| {});
    let slice = disk.partitions();
    must("delpart", &[&shown, "1"]);
    let PlacementReason::IndivisibleMedium { cause } = &reason else {
        panic!("{reason:?}")
    };
    assert!(cause.contains("has partitions"), "{cause}");
    let error = find(&lines, "error");
    assert_eq!(
        (&error["kind"], slice.len()),
        (&Value::from("request"), 1),
        "{error:#}"
    );
    assert!(
        error["tried"].as_str().unwrap().contains("has partitions"),
        "{error:#}"
    );
}
