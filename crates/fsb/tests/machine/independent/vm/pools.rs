//! File systems whose modules most kernels lack: ZFS and bcachefs.

use std::collections::BTreeMap;

use super::*;
use crate::common::expect_code;

/// The variable that names a kernel with the module `zfs` or `bcachefs`, as `--kernel` takes it.
const KERNEL: &str = "FSB_TEST_MODULE_KERNEL";

/// Returns the kernel that the variable names, if it has that module. The error names what is
/// missing.
fn kernel_with(module: &str) -> Result<String, String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["qemu-system-x86_64"])?;
    let named = std::env::var(KERNEL)
        .map_err(|_| format!("{KERNEL} names no kernel with the module {module}"))?;
    let modules = named.split_once(':').map_or("", |(_, modules)| modules);
    let found = Command::new("find")
        .args([modules, "-name", &format!("{module}.ko*")])
        .output();
    let is_there = found.is_ok_and(|output| !output.stdout.is_empty());
    is_there
        .then_some(named)
        .ok_or_else(|| format!("the kernel of {KERNEL} has no module {module}"))
}

/// A plan with a case that creates, one that reads cold and one that waits for the device.
const CASES: &str = "
name = 'pools'
in = 'vm'
size = '400M'
memory = '1G'
cpus = 2
[repetition]
blocks = 1
sample_time = '1ms'
[[workload]]
name = 'create'
files = 50
[[workload]]
name = 'read'
file_size = '1M'
block_size = '256K'
cache = 'cold'
[[workload]]
name = 'append'
file_size = '256K'
block_size = '16K'
durability = 'each'
";

/// Runs the plan on these targets in a guest with `cpus` processors. Returns the directory of the
/// run.
fn measure(scratch: &Path, kernel: &str, cpus: u32, targets: &[&str]) -> PathBuf {
    let plan = CASES.replace("cpus = 2", &format!("cpus = {cpus}"));
    std::fs::write(scratch.join("pools.toml"), plan).unwrap();
    let arguments = ["run", "pools.toml", "--kernel", kernel, "--out", "run"];
    let mut command = command(scratch, &[&arguments[..], targets].concat());
    let output = command.env("XDG_CACHE_HOME", cache()).output().unwrap();
    expect_code(&output, 0);
    let run = scratch.join("run");
    let made = counting(&run);
    assert_eq!(made.len(), targets.len() * 3 * 2, "warm-up and one block");
    for trial in &made {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let read = trial["observed"]["device_read_bytes"].as_u64();
        let is_cold = trial["operation"] != "read" || read >= Some(256 << 10);
        assert!(is_cold, "{trial:#}");
    }
    run
}

/// Returns the flushes of the device in the durable case of each target.
fn flushes(run: &Path) -> Vec<(String, u64)> {
    let durable = measured(run)
        .into_iter()
        .filter(|trial| trial["operation"] == "append");
    let flushes = |trial: serde_json::Value| {
        let flushes = trial["observed"]["device_flushes"].as_u64().unwrap();
        (trial["target"].as_str().unwrap().to_owned(), flushes)
    };
    durable.map(flushes).collect()
}

#[test]
fn pools_of_zfs_are_cold_after_an_export_and_flush_unless_sync_is_disabled() {
    let kernel = wants!(kernel_with("zfs"));
    wants!(program "zpool", "zfs", "mkfs.ext4");
    let scratch = scratch();
    let (small, unsafe_one) = ("zfs,recordsize=16k,compression=off", "zfs,sync=disabled");
    let run = measure(
        scratch.path(),
        &kernel,
        2,
        &["ext4", "zfs", small, unsafe_one],
    );
    for (target, flushes) in flushes(&run) {
        assert_eq!(flushes == 0, target == unsafe_one, "{target}: {flushes}");
    }
    let record = record(&run);
    let found = &record["targets"][small];
    let profiles = &found["geometry"]["profiles"];
    assert_eq!(profiles["recordsize"], "16 KiB", "{found:#}");
    assert_eq!(profiles["compression"], "off", "{found:#}");
    let features = found["features"].as_array().unwrap();
    assert!(
        features.iter().any(|name| name == "lz4_compress"),
        "{found:#}"
    );
    assert_eq!(
        record["targets"][unsafe_one]["risks"][0]["cause"],
        "sync=disabled"
    );
    assert!(record["targets"]["zfs"]["risks"].is_null(), "{record:#}");
}

#[test]
fn bcachefs_is_measured_by_kernels_that_have_it() {
    let kernel = wants!(kernel_with("bcachefs"));
    wants!(program "bcachefs", "mkfs.ext4");
    let scratch = scratch();
    let lazy = "bcachefs,journal_flush_disabled";
    // `bcachefs format` of version 1.13 crashes now and then where it has several processors.
    let run = measure(scratch.path(), &kernel, 1, &["ext4", "bcachefs", lazy]);
    let flushes: BTreeMap<String, u64> = flushes(&run).into_iter().collect();
    // The journal commits once a second nevertheless.
    assert!(flushes[lazy] * 4 < flushes["bcachefs"], "{flushes:?}");
    let found = &record(&run)["targets"]["bcachefs"];
    assert!(
        found["geometry"]["node_size"].as_u64() > Some(4096),
        "{found:#}"
    );
}

/// A kernel without the module is refused before a guest starts, with the command that builds it.
#[test]
fn a_kernel_without_the_module_of_zfs_is_refused_with_its_package() {
    let kernel = needs!(kernel());
    wants!(program "zpool", "zfs");
    let scratch = scratch();
    let refused = run(
        scratch.path(),
        &kernel,
        &["zfs", "--size", "400M", "--out", "run"],
    )
    .output();
    let error = expect_error(&refused.unwrap(), 3, "kernel/no-module");
    assert_eq!(error["fields"]["module"], "zfs");
    let help = error["help"].as_str().unwrap();
    assert!(
        help.contains("zfs-dkms") && help.contains("/updates"),
        "{help}"
    );
    assert!(!scratch.path().join("run").exists(), "nothing was begun");
}
