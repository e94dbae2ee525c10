//! Pools of ZFS on a machine whose kernel has the module.

use std::path::Path;
use std::time::Duration;

use crate::common::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns whether the kernel has ZFS. The error names the module.
fn loaded_module() -> Result<(), String> {
    let drivers = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let is_loaded = drivers.split_whitespace().any(|name| name == "zfs");
    is_loaded
        .then_some(())
        .ok_or_else(|| "the module zfs, which is not loaded".to_owned())
}

/// Returns the pools of fsb that the kernel has imported, and the nodes of their devices.
fn pools() -> Vec<String> {
    let names = |directory: &str| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("fsb-")).collect()
    };
    [names("/proc/spl/kstat/zfs"), names("/dev")].concat()
}

fn arc_limit() -> String {
    std::fs::read_to_string("/sys/module/zfs/parameters/zfs_arc_max").unwrap_or_default()
}

fn start(directory: &Path) -> Running {
    tiny_plan(directory);
    let arguments =
        "run tiny.toml zfs --size 100M --blocks 1000 --control arc-limit=64M --out run -q";
    Running::start(directory, &words(arguments))
}

#[test]
fn a_killed_run_leaves_no_pool_no_node_and_no_limit() {
    needs!(root);
    wants!(loaded_module());
    wants!(program "zpool", "zfs");
    let (before, limit) = (traces(), arc_limit());
    let scratch = scratch();
    let run = start(scratch.path());
    wait_until("a pool with its node", PATIENCE, || pools().len() == 2);
    run.signal(rustix::process::Signal::KILL);
    wait_until("the export of the pool", PATIENCE, || pools().is_empty());
    wait_until("the earlier limit", PATIENCE, || arc_limit() == limit);
    expect_no_traces(&before);
}
