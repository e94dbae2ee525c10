//! `fsb list`, `fsb doctor` and help, as a user meets them.

use crate::common::{expect_code, fsb, scratch, stdout};

#[test]
fn every_family_is_listed_and_no_member_lacks_its_line() {
    let scratch = scratch();
    let families = fsb(scratch.path(), &["list"]);
    expect_code(&families, 0);
    let names: Vec<String> =
        stdout(&families).lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in &names {
        let members = fsb(scratch.path(), &["list", name]);
        expect_code(&members, 0);
        let text = stdout(&members);
        assert!(!text.is_empty(), "{name}");
        for line in text.lines() {
            assert!(line.split_whitespace().count() >= 3, "{name}: '{line}' says too little");
        }
    }
    let systems = stdout(&fsb(scratch.path(), &["list", "file-systems"]));
    for name in ["ext2", "ext3", "ext4", "xfs", "btrfs", "ntfs", "tmpfs", "null"] {
        assert!(systems.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in {systems}");
    }
    assert!(systems.contains("xfsprogs") && systems.contains("ntfs-3g"), "{systems}");
}

#[test]
fn the_doctor_names_every_file_system_and_what_to_install() {
    let scratch = scratch();
    let output = fsb(scratch.path(), &["doctor"]);
    expect_code(&output, 0);
    let text = stdout(&output);
    for name in ["ext4", "xfs", "btrfs", "ntfs", "loop"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    for line in text.lines() {
        let state = line.split_whitespace().next().unwrap_or_default();
        assert!(["ok", "warning", "missing", "→"].contains(&state), "{line}");
    }
}

#[test]
fn version_and_help_are_answers() {
    let scratch = scratch();
    for arguments in [&["--version"][..], &["--help"], &["run", "--help"], &["micro", "--help"], &["list", "--help"]] {
        let output = fsb(scratch.path(), arguments);
        expect_code(&output, 0);
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}
