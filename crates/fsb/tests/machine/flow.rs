//! Flows and filebench's personalities, on the null file system and on real ones.

use std::fs;

use crate::common::flow::*;
use crate::common::{counting, expect_code, expect_no_traces, fsb, scratch, stderr, traces};

#[test]
fn personalities_run_on_real_file_systems_and_leave_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let mut plan = "targets = ['ext4', 'xfs', 'btrfs', 'tmpfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                    [repetition]\nblocks = 1\nsample_time = '1ms'\n"
        .to_owned();
    for name in PERSONALITIES {
        let files = if name == "oltp" { 4 } else { 150 };
        let none = if ["varmail", "oltp"].contains(&name) { "" } else { "durability = 'none'\n" };
        plan += &format!(
            "[[workload]]\nname = '{name}'\nfiles = {files}\nfile_size = '40K'\nthreads = 5\n{none}verify = true\n"
        );
    }
    plan += "[[workload]]\nname = 'fileserver'\nfiles = 150\nfile_size = '4K'\n\
             [[workload]]\nname = 'flow'\nlabel = 'too few'\ndurability = 'none'\nflow = \"\"\"\nname = 'crowd'\n\
             [[fileset]]\nname = 'few'\nfiles = 3\nsize = '1K'\n[[thread]]\nname = 'maker'\nthreads = 2\n\
             steps = [{ op = 'create', set = 'few' }, { op = 'close' }]\n\"\"\"\n[[workload]]\nname = 'flow'\n";
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 4);
    let trials = counting(&directory.path().join("out"));
    let measured: Vec<_> = trials.iter().filter(|trial| trial["block"] == 1).collect();
    assert_eq!(measured.len(), 4 * 9, "{}", stderr(&output));
    for trial in measured {
        let (label, target) = (trial["workload"].as_str().unwrap(), trial["target"].as_str().unwrap());
        let outcome = match label {
            "too few" => "failed",
            label if target == "tmpfs" && (label.contains("durable") || label.contains("synced")) => "not_applicable",
            _ => "ok",
        };
        assert_eq!(trial["outcome"], outcome, "{label} on {target}: {}", trial["error"]);
        if outcome == "failed" {
            assert_eq!(trial["error_code"], "trial/no-files", "{}", trial["error"]);
        }
    }
    expect_no_traces(&before);
}
