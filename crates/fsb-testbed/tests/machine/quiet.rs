//! An idle target has no deferred work: its journal is empty.

use serde_json::Value;

use crate::stage::{Coordinator, directory, find, nothing_is_left, setup};

tests! {
    ext3_and_ext4_empty_their_journals,
    xfs_empties_its_log,
    btrfs_and_ext2_come_to_rest,
}

/// Returns the deferred work after a syncfs, and after quiescing.
fn kept(target: &str) -> Vec<Value> {
    let dir = directory();
    let mut coordinator = Coordinator::start(&setup(&[target], 320 << 20, dir.path()), "background", |_| {});
    let lines: Vec<Value> =
        coordinator.lines.by_ref().map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
    coordinator.child.wait().expect("the front ends");
    assert_eq!(find(&lines, "quiet")["settled"], true, "{lines:#?}");
    assert_eq!(find(&lines, "writable"), true, "it is as writable as before: {lines:#?}");
    // They complete their deferred work by a short remount to read-only, which a file open for writing prevents.
    let hindered = find(&lines, "with a writer").as_str().map(str::to_owned);
    let ends_by_remount = ["xfs", "btrfs"].contains(&target);
    assert_eq!(hindered.is_some_and(|why| why.contains("open for writing")), ends_by_remount, "{lines:#?}");
    nothing_is_left(dir.path());
    ["synced", "settled"].map(|moment| find(&lines, moment).clone()).to_vec()
}

fn ext3_and_ext4_empty_their_journals() {
    needs!(root);
    for target in ["ext3", "ext4"] {
        let kept = kept(target);
        // The journal's first block that is still in use. 0 if there is none.
        assert_ne!(kept[0]["journal"], 0, "{target}: this test shows nothing where syncfs empties the journal already");
        assert_eq!(kept[1]["journal"], 0, "{target}");
    }
}

fn xfs_empties_its_log() {
    needs!(root);
    let kept = kept("xfs");
    let blocks = |moment: &Value| moment["log"].as_u64().expect("the distance between the log's ends");
    assert!(blocks(&kept[0]) > 50, "this test shows nothing where syncfs empties the log already: {kept:?}");
    // The record that marks the log as empty.
    assert!(blocks(&kept[1]) <= 8, "{kept:?}");
}

fn btrfs_and_ext2_come_to_rest() {
    needs!(root);
    for target in ["btrfs", "ext2"] {
        kept(target);
    }
}
