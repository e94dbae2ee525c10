//! Runs in a virtual machine. CI has no hardware acceleration: guests are emulated here, so plans are tiny.

mod faults;
mod kernels;
mod killed;
mod nfs;
mod refused;
mod runs;
mod unpacking;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::vm::*;
use crate::common::*;

/// The time limit of anything in an emulated guest on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// Returns the cache of the kernel that only one test uses. Other tests must boot the same kernel whether or not it
/// exists.
fn other_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache-other")
}

/// Runs the program in an environment where `hidden` is not executable, whether or not it is installed.
fn without(hidden: &str, directory: &Path, arguments: &[&str]) -> Output {
    let shell =
        "if program=$(command -v \"$1\"); then mount --bind /dev/null \"$program\" || exit 9; fi; shift; exec \"$@\"";
    Command::new("unshare")
        .args(["-m", "sh", "-c", shell, "sh", hidden, FSB])
        .args(arguments)
        .current_dir(directory)
        .env("XDG_CACHE_HOME", cache())
        .env("FSB_MESSAGE_FORMAT", "json")
        .output()
        .expect("unshare runs")
}

/// Links a fetched kernel's modules into `place`, with an index that lacks the modules at `gone`. Returns `place`.
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

/// Returns the target and the outcome of the trials of a run.
fn outcomes(run: &Path) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    trials(run).iter().map(|trial| (text(&trial["target"]), text(&trial["outcome"]))).collect()
}
