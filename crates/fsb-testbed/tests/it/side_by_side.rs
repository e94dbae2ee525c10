//! Several targets are ready at once, and none of them is moved by what happens to another.

use serde_json::Value;

use crate::stage::{directory, is_root, nothing_is_left, play, setup};

tests! {
    nothing_real_has_two_seats,
    two_media_are_mounted_at_once,
}

fn values<'a>(lines: &'a [Value], key: &str) -> Vec<&'a Value> {
    lines.iter().filter_map(|line| line.get(key)).collect()
}

/// Nothing went wrong, the counters are each device's own, and a release takes one target away.
fn stand_side_by_side(lines: &[Value], targets: usize) {
    let errors = values(lines, "error");
    assert!(errors.is_empty(), "{errors:?}; {lines:#?}");
    assert_eq!(values(lines, "provisioned").len(), targets);
    for key in ["wrote", "read"] {
        let told = values(lines, key);
        assert_eq!(told.len(), targets, "{lines:#?}");
        for (own, moved) in told.into_iter().enumerate() {
            let moved: Vec<u64> = moved.as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).collect();
            let file = (4 << 20) * (own as u64 + 1);
            assert!((file..3 * file + (4 << 20)).contains(&moved[own]), "{key}: {moved:?}");
            let others = moved.iter().enumerate().filter(|(other, _)| *other != own).map(|(_, bytes)| bytes);
            assert!(others.sum::<u64>() < 1 << 20, "{key} by {own}: {moved:?}");
        }
    }
    for (seat, there) in values(lines, "there").into_iter().enumerate() {
        let expected: Vec<bool> = (0..targets).map(|other| other > seat).collect();
        assert_eq!(*there, serde_json::json!(expected), "after the release of {seat}");
    }
}

fn nothing_real_has_two_seats() {
    let dir = directory();
    let lines = play(&setup(&["null", "null"], 32 << 20, dir.path()), "side", |_| {});
    assert!(values(&lines, "error").is_empty(), "{lines:#?}");
    let names: Vec<_> = values(&lines, "provisioned").into_iter().map(|it| it["root"].clone()).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
    assert_eq!(values(&lines, "released").len(), 2);
}

fn two_media_are_mounted_at_once() {
    if !is_root() {
        return;
    }
    let dir = directory();
    let lines = play(&setup(&["ext4", "ext2@ram"], 64 << 20, dir.path()), "side", |_| {});
    stand_side_by_side(&lines, 2);
    nothing_is_left(dir.path());
}
