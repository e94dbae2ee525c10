//! Runs in a virtual machine. CI has no hardware acceleration: guests are emulated here, so plans are tiny.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::*;

/// A plan with one small cell of each kind that a sequential trial needs: a durable one, a cold one.
pub const PLAN: &str = "
name = 'tiny'
in = 'vm'
size = '96M'
memory = '512M'
cpus = 2
[repetition]
blocks = 1
sample_time = '1ms'
[[workload]]
name = 'write'
file_size = '1M'
block_size = '256K'
durability = 'end'
[[workload]]
name = 'read'
file_size = '1M'
block_size = '256K'
cache = 'cold'
";

/// Returns the directory of the kernels and the initramfs of these tests: fetched once, kept below the target
/// directory.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache")
}

/// Returns the release of a kernel that guests can boot, which is fetched if there is none yet. The error names the
/// missing requirement: root, QEMU or Debian's archive.
pub fn kernel() -> Result<String, String> {
    static KERNEL: OnceLock<Result<String, String>> = OnceLock::new();
    fsb_testkit::root()?;
    fsb_testkit::programs(&["qemu-system-x86_64"])?;
    // The variable may name a package that is on this machine already.
    let package = || std::env::var("FSB_TEST_KERNEL_PACKAGE").unwrap_or_else(|_| "linux-image-amd64".to_owned());
    let kernel = KERNEL.get_or_init(|| fetched(&cache()).map_or_else(|| fetch(&package(), &cache()), Ok)).clone();
    kernel.map_err(|why| format!("a kernel: {why}"))
}

pub fn fetched(cache: &Path) -> Option<String> {
    let kernels = std::fs::read_dir(cache.join("fsb/kernels")).ok()?;
    let names = kernels.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).max()
}

pub fn fetch(package: &str, cache: &Path) -> Result<String, String> {
    std::fs::create_dir_all(cache).map_err(|error| error.to_string())?;
    let output = command(Path::new("/"), &["kernel", "fetch", package]).env("XDG_CACHE_HOME", cache).output();
    let output = output.map_err(|error| error.to_string())?;
    fetched(cache).filter(|_| output.status.success()).ok_or_else(|| stderr(&output))
}

/// Returns the command `fsb run PLAN ARGUMENTS` with a kernel of these tests, in `directory`.
pub fn run(directory: &Path, kernel: &str, arguments: &[&str]) -> Command {
    std::fs::write(directory.join("tiny.toml"), PLAN).expect("the plan is written");
    let mut command = command(directory, &["run", "tiny.toml", "--kernel", kernel]);
    command.args(arguments).env("XDG_CACHE_HOME", cache()).env("FSB_MESSAGE_FORMAT", "json");
    command
}
