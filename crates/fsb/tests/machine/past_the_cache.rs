//! Direct I/O is verified: file systems that accept O_DIRECT but use the page cache give no numbers.

use std::fs;

use crate::common::*;

/// Reads and writes that bypass the page cache, by system calls and by io_uring.
const DIRECT: &str = r#"
name = "past the cache"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "1ms"
[[workload]]
name = "read"
file_size = "2M"
block_size = "256K"
cache = "any"
backend = "direct"
[[workload]]
name = "write"
file_size = "2M"
block_size = "256K"
backend = "direct"
[[workload]]
name = "write"
file_size = "2M"
block_size = "4K"
access = "random"
cache = "any"
backend = "uring-direct"
depth = 8
"#;

/// Returns outcome and reason of each measured trial: reads first, then both kinds of writes.
fn outcomes(target: &str) -> Vec<(String, String)> {
    let before = traces();
    let scratch = scratch();
    fs::write(scratch.path().join("direct.toml"), DIRECT).expect("the plan is written");
    let output = fsb(scratch.path(), &["run", "direct.toml", target, "--size", "320M", "--out", "run", "-q"]);
    expect_no_traces(&before);
    for trial in counting(&scratch.path().join("run")).iter().filter(|trial| trial["phase"] == "measured") {
        // What is invalid is tried three times, and what is not once.
        let attempts = if trial["outcome"] == "invalid" { 3 } else { 1 };
        assert_eq!(trial["attempt"], attempts, "{trial:#}");
    }
    let mut measured: Vec<_> = counting(&scratch.path().join("run"))
        .into_iter()
        .filter(|trial| trial["phase"] == "measured")
        .map(|trial| {
            let text = |key: &str| trial[key].as_str().unwrap_or_default().to_owned();
            (text("operation"), text("outcome"), text("error_code"))
        })
        .collect();
    measured.sort();
    assert_eq!(measured.len(), 3, "{target}: {measured:?}: {}", stderr(&output));
    measured.into_iter().map(|(_, outcome, code)| (outcome, code)).collect()
}

fn is_exposed((outcome, code): &(String, String)) -> bool {
    outcome == "invalid" && code == "trial/not-direct"
}

#[test]
fn ext4_and_xfs_go_past_the_page_cache() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs");
    for target in ["ext4", "xfs"] {
        for (outcome, code) in outcomes(target) {
            assert_eq!(outcome, "ok", "{target}: {code}");
        }
    }
}

#[test]
fn a_full_journal_goes_through_it_and_is_exposed() {
    needs!(root);
    needs!(program "mkfs.ext3");
    let found = outcomes("ext3,data=journal");
    assert!(found.iter().all(is_exposed), "{found:?}");
}

/// Older kernels refuse the flag on tmpfs, which gives no number either.
#[test]
fn a_file_system_in_memory_is_exposed_or_refuses() {
    needs!(root);
    for found in outcomes("tmpfs") {
        let refused = found.0 == "failed" && found.1 == "trial/not-direct";
        assert!(is_exposed(&found) || refused, "{found:?}");
    }
}

/// With checksums, btrfs on newer kernels writes through the page cache and empties it before the call returns.
#[test]
fn writes_with_checksums_are_exposed_where_the_kernel_buffers_them() {
    needs!(root);
    needs!(program "mkfs.btrfs");
    let found = outcomes("btrfs");
    assert_eq!(found[0].0, "ok", "reads are direct: {found:?}");
    let exposed = found[1..].iter().filter(|found| is_exposed(found)).count();
    let direct = found[1..].iter().filter(|found| found.0 == "ok").count();
    assert!(exposed == 2 || direct == 2, "both writes or none: {found:?}");
}
