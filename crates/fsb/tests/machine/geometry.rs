//! The record of a target contains its geometry, which is that of a large disk, and its risks.

use std::fs;
use std::path::Path;

use crate::common::*;

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
    expect_code(&fsb(scratch, &[&["run", "plan.toml", "--out", &out, "-q"], arguments].concat()), 0);
    record(&scratch.join(out))
}

#[test]
fn slices_of_300_mib_have_the_geometry_of_a_large_disk() {
    needs!(root);
    let scratch = scratch();
    let found = measure(scratch.path(), &["ext2", "ext4", "xfs", "btrfs", "--size", "1300M"]);
    for (name, target) in found["targets"].as_object().unwrap() {
        let (made, large) = (&target["geometry"], &found["large_disk"][name]);
        for choice in ["block_size", "node_size", "inode_size", "profiles"] {
            assert_eq!(made[choice], large[choice], "{name}: {choice}");
        }
        assert_eq!(made["block_size"], 4096, "{name}");
    }
    let ext4 = &found["targets"]["ext4"]["geometry"];
    assert_eq!(found["large_disk"]["ext4"]["bytes_per_inode"], 16_384);
    assert!((16_000..17_000).contains(&ext4["bytes_per_inode"].as_u64().unwrap()), "{ext4}");
    let journal = ext4["journal_bytes"].as_u64().unwrap();
    assert!((32 << 20..=48 << 20).contains(&journal), "an eighth of a slice of some 320 MiB, not {journal}");
}

#[test]
fn with_the_defaults_of_mkfs_a_small_ext4_differs_from_a_large_one() {
    needs!(root);
    let scratch = scratch();
    let found = measure(scratch.path(), &["ext4", "--size", "320M", "--mkfs-defaults"]);
    assert_eq!(found["targets"]["ext4"]["geometry"]["block_size"], 1024);
    assert_eq!(found["large_disk"]["ext4"]["block_size"], 4096);
}

#[test]
fn weakened_durability_is_recorded_for_each_target() {
    needs!(root);
    let scratch = scratch();
    let targets = ["ext4", "ext4,barrier=0", "ext4,mkfs=\"-O ^has_journal\"", "ext4,data=writeback", "xfs"];
    let found = measure(scratch.path(), &[&targets[..], &["--size", "1700M"]].concat());
    let causes = |name: &str| {
        let risks = found["targets"][name]["risks"].as_array().cloned().unwrap_or_default();
        risks.iter().map(|risk| risk["cause"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (name, cause) in
        [(targets[1], "barrier=0"), (targets[2], "without has_journal"), (targets[3], "data=writeback")]
    {
        assert_eq!(causes(name), [cause], "{name}");
    }
    assert!(causes("ext4").is_empty() && causes("xfs").is_empty());
    let found = measure(scratch.path(), &["xfs", "--size", "320M", "--control", "barriers=off"]);
    assert_eq!(found["targets"]["xfs"]["risks"][0]["cause"], "barriers=off");
}
