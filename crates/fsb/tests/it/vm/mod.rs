//! Runs in a virtual machine. CI has no hardware acceleration: guests are emulated here, so plans are tiny.

mod faults;
mod killed;
mod refused;
mod runs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::*;

/// How long anything in an emulated guest may take on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// One small cell of each kind that a visit needs: something durable, something cold.
const PLAN: &str = "
name = 'tiny'
in = 'vm'
size = '96M'
memory = '512M'
cpus = 2
[repetition]
blocks = 1
stretch = '1ms'
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

/// Kernels and initramfs of these tests: fetched once, kept below the target directory.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache")
}

/// The release of a kernel that guests can boot; fetched where there is none yet. Elsewhere than in CI a machine without
/// QEMU or without Debian's archive skips the test, and says so.
fn kernel_or_skip(test: &str) -> Option<String> {
    static KERNEL: OnceLock<Result<String, String>> = OnceLock::new();
    if !root_or_skip(test) || !program_or_skip(test, "qemu-system-x86_64") {
        return None;
    }
    match KERNEL.get_or_init(|| fetched().map_or_else(fetch, Ok)) {
        Ok(release) => Some(release.clone()),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "{test} needs a kernel, and CI must not skip it: {why}");
            eprintln!("SKIPPED {test}: no kernel: {why}");
            None
        }
    }
}

fn fetched() -> Option<String> {
    let kernels = std::fs::read_dir(cache().join("fsb/kernels")).ok()?;
    let names = kernels.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).max()
}

fn fetch() -> Result<String, String> {
    std::fs::create_dir_all(cache()).map_err(|error| error.to_string())?;
    // A package that is here already can be named instead.
    let package = std::env::var("FSB_TEST_KERNEL_PACKAGE").unwrap_or_else(|_| "linux-image-amd64".to_owned());
    let output = command(Path::new("/"), &["kernel", "fetch", &package]).env("XDG_CACHE_HOME", cache()).output();
    let output = output.map_err(|error| error.to_string())?;
    fetched().filter(|_| output.status.success()).ok_or_else(|| stderr(&output))
}

/// `fsb run PLAN ARGUMENTS` with a kernel of these tests, in `directory`.
fn run(directory: &Path, kernel: &str, arguments: &[&str]) -> Command {
    std::fs::write(directory.join("tiny.toml"), PLAN).expect("the plan is written");
    let mut command = command(directory, &["run", "tiny.toml", "--kernel", kernel]);
    command.args(arguments).env("XDG_CACHE_HOME", cache());
    command
}

/// Trials of a run by target and outcome.
fn outcomes(run: &Path) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    trials(run).iter().map(|trial| (text(&trial["target"]), text(&trial["outcome"]))).collect()
}
