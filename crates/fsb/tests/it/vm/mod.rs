//! Runs in a virtual machine. CI has no hardware acceleration: guests are emulated here, so plans are tiny.

mod faults;
mod kernels;
mod killed;
mod refused;
mod runs;
mod unpacking;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
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
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache")
}

/// Where a kernel lies that only one test asks for: the others are to boot the same one, whether or not it was here first.
fn other_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache-other")
}

/// The release of a kernel that guests can boot; fetched where there is none yet. Elsewhere than in CI a machine without
/// QEMU or without Debian's archive skips the test, and says so.
pub fn needs_kernel() -> String {
    static KERNEL: OnceLock<Result<String, String>> = OnceLock::new();
    needs_root();
    needs_program("qemu-system-x86_64");
    // A package that is here already can be named instead.
    let package = || std::env::var("FSB_TEST_KERNEL_PACKAGE").unwrap_or_else(|_| "linux-image-amd64".to_owned());
    or_skip(KERNEL.get_or_init(|| fetched(&cache()).map_or_else(|| fetch(&package(), &cache()), Ok)).clone())
}

/// The release, or a skipped test. CI skips nothing.
fn or_skip(kernel: Result<String, String>) -> String {
    kernel.unwrap_or_else(|why| fsb_testkit::skip(format!("needs a kernel: {why}")))
}

fn fetched(cache: &Path) -> Option<String> {
    let kernels = std::fs::read_dir(cache.join("fsb/kernels")).ok()?;
    let names = kernels.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).max()
}

fn fetch(package: &str, cache: &Path) -> Result<String, String> {
    std::fs::create_dir_all(cache).map_err(|error| error.to_string())?;
    let output = command(Path::new("/"), &["kernel", "fetch", package]).env("XDG_CACHE_HOME", cache).output();
    let output = output.map_err(|error| error.to_string())?;
    fetched(cache).filter(|_| output.status.success()).ok_or_else(|| stderr(&output))
}

/// `fsb run PLAN ARGUMENTS` with a kernel of these tests, in `directory`.
fn run(directory: &Path, kernel: &str, arguments: &[&str]) -> Command {
    std::fs::write(directory.join("tiny.toml"), PLAN).expect("the plan is written");
    let mut command = command(directory, &["run", "tiny.toml", "--kernel", kernel]);
    command.args(arguments).env("XDG_CACHE_HOME", cache());
    command
}

/// Runs the program where `hidden` is no program, whether or not it was installed.
fn without(hidden: &str, directory: &Path, arguments: &[&str]) -> Output {
    let shell =
        "if program=$(command -v \"$1\"); then mount --bind /dev/null \"$program\" || exit 9; fi; shift; exec \"$@\"";
    Command::new("unshare")
        .args(["-m", "sh", "-c", shell, "sh", hidden, FSB])
        .args(arguments)
        .current_dir(directory)
        .env("XDG_CACHE_HOME", cache())
        .output()
        .expect("unshare runs")
}

/// A fetched kernel's modules, in `place`, with an index that lacks those that lie at `gone`.
fn modules_without(gone: &str, kernel: &Path, place: &Path) -> PathBuf {
    std::fs::create_dir_all(place).unwrap();
    std::os::unix::fs::symlink(kernel.join("modules/kernel"), place.join("kernel")).unwrap();
    for name in ["modules.builtin", "modules.softdep", "modules.alias"] {
        let _ = std::fs::copy(kernel.join("modules").join(name), place.join(name));
    }
    let all = std::fs::read_to_string(kernel.join("modules/modules.dep")).unwrap();
    let kept: String = all.lines().filter(|line| !line.contains(gone)).map(|line| format!("{line}\n")).collect();
    assert!(kept.len() < all.len(), "{gone} was there");
    std::fs::write(place.join("modules.dep"), kept).unwrap();
    place.to_owned()
}

/// Trials of a run by target and outcome.
fn outcomes(run: &Path) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    trials(run).iter().map(|trial| (text(&trial["target"]), text(&trial["outcome"]))).collect()
}
