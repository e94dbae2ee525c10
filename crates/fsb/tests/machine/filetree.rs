//! Trees of files: copied into a target, within it, deleted, on the null file system and on real ones.

use crate::common::{counting, expect_code, expect_no_traces, fsb, scratch, stderr, traces};

#[test]
fn trees_are_copied_and_deleted_on_real_file_systems_and_leave_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let mut plan = "targets = ['ext4', 'xfs', 'btrfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                    [repetition]\nblocks = 1\nsample_time = '1ms'\n"
        .to_owned();
    for (set, operation, more) in [
        ("music", "copy-into", "verify = true"),
        ("portage", "copy-into", "threads = 2\nverify = true"),
        ("music", "copy-into", "copy = 'copy_file_range'"),
        ("music", "copy-within", "verify = true"),
        ("music", "copy-within", "verify = true\ncopy = 'copy_file_range'"),
        ("music", "copy-within", "verify = true\ncopy = 'reflink'"),
        ("portage", "delete", ""),
    ] {
        plan += &format!(
            "[[workload]]\nname = 'filetree'\nset = '{set}'\nscale = 0.02\noperation = '{operation}'\n{more}\n"
        );
    }
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 0);
    let trials = counting(&directory.path().join("out"));
    let measured: Vec<_> = trials.iter().filter(|trial| trial["block"] == 1).collect();
    assert_eq!(measured.len(), 3 * 7, "{}", stderr(&output));
    for trial in measured {
        let (label, target) = (trial["workload"].as_str().unwrap(), trial["target"].as_str().unwrap());
        let outcome = match (label, target) {
            // The input is in memory, which is another file system: the kernel does not copy between them.
            (label, _) if label.contains("into, copy_file_range") => "not_applicable",
            (label, "ext4") if label.contains("reflink") => "not_applicable",
            _ => "ok",
        };
        assert_eq!(trial["outcome"], outcome, "{label} on {target}: {}", trial["error"]);
        if outcome == "ok" && label.contains("into") {
            let bytes = trial["observed"]["resident_bytes_before"].as_u64();
            assert!(bytes.is_some_and(|bytes| bytes > 1 << 20), "the source was in memory: {}", trial["observed"]);
        }
    }
    drop(output);
    expect_no_traces(&before);
}
