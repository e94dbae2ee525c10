//! A worker can write to its target only, and cannot become another user.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::stage::{actor, directory};

tests! {
    a_worker_of_root_is_nobody_and_held_to_its_target,
    a_forced_root_has_power_over_files_only,
    without_root_the_worker_holds_itself_or_says_that_it_cannot,
}

const NOBODY: u32 = 65534;

fn confined(target: &Path, uid: u32, invoking_user: u32) -> Value {
    let order = json!({
        "confinement": { "writable": [target], "uid": uid, "gid": uid, "die_with_parent": true },
        "outside": ["/tmp", "/var/tmp", "/dev/shm", "/root", "/run", "/", target.parent().unwrap(), env!("CARGO_MANIFEST_DIR")],
    });
    let output = actor("confined")
        .arg(order.to_string())
        .uid(invoking_user)
        .gid(invoking_user)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn scene() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = directory();
    let target = dir.path().join("target");
    std::fs::create_dir(&target).unwrap();
    for path in [dir.path(), &target] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    (dir, target)
}

fn nothing_outside(answer: &Value) {
    assert_eq!(answer["inside"], 0, "{answer:#}");
    for attempt in answer["attempts"].as_array().unwrap() {
        let errno = attempt["errno"].as_i64().unwrap() as i32;
        assert!([libc::EROFS, libc::EACCES].contains(&errno), "{attempt}");
    }
    // Its own parent directory belongs to the same user, so only the mount can refuse it.
    let own_parent = &answer["attempts"][6];
    assert_eq!(own_parent["errno"], libc::EROFS, "{own_parent}");
}

fn a_worker_of_root_is_nobody_and_held_to_its_target() {
    needs!(root);
    let (_dir, target) = scene();
    let answer = confined(&target, NOBODY, 0);
    nothing_outside(&answer);
    assert_eq!(answer["notes"], json!([]));
    assert_eq!(answer["devices"], libc::EACCES);
    assert_eq!(
        (&answer["regained"], &answer["core"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(
        (&answer["capabilities"], &answer["bounding"]),
        (&json!("0000000000000000"), &json!("0000000000000000"))
    );
    assert_eq!(
        (&answer["no_new_privileges"], &answer["groups"]),
        (&json!("1"), &json!(""))
    );
    assert_eq!(answer["users"], "65534\t65534\t65534\t65534");
    assert!(target.join("mine").exists());
}

fn a_forced_root_has_power_over_files_only() {
    needs!(root);
    let (_dir, target) = scene();
    let answer = confined(&target, 0, 0);
    nothing_outside(&answer);
    assert_eq!(
        (&answer["capabilities"], &answer["bounding"]),
        (&json!("000000000000001f"), &json!("0000000000000000"))
    );
    assert_eq!(answer["devices"], libc::EACCES);
}

fn without_root_the_worker_holds_itself_or_says_that_it_cannot() {
    needs!(root);
    let (_dir, target) = scene();
    let answer = confined(&target, NOBODY, NOBODY);
    match answer["notes"].as_array().unwrap()[..] {
        [] => nothing_outside(&answer),
        _ => assert!(
            answer["notes"][0]
                .as_str()
                .unwrap()
                .contains("no read-only mounts"),
            "{answer:#}"
        ),
    }
    assert_eq!(answer["inside"], 0);
    assert_eq!(
        (&answer["regained"], &answer["no_new_privileges"]),
        (&json!(false), &json!("1"))
    );
}
