//! Runs in a virtual machine. CI has no hardware acceleration: guests are emulated here, so plans
//! are tiny.

mod killed;
mod pools;
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::*;

/// A plan with one small cell of each kind that a sequential trial needs: a durable one, a cold
/// one.
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

/// Returns the directory of the kernels and the initramfs of these tests: fetched once, kept below
/// the target directory.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache")
}

/// Returns the release of a kernel that guests can boot, which is fetched if there is none yet. The
/// error names the missing requirement: root, QEMU or Debian's archive.
pub fn kernel() -> Result<String, String> {
    static KERNEL: OnceLock<Result<String, String>> = OnceLock::new();
    fsb_testkit::root()?;
    fsb_testkit::programs(&["qemu-system-x86_64"])?;
    // The variable may name a package that is on this machine already.
    let package = || {
        std::env::var("FSB_TEST_KERNEL_PACKAGE").unwrap_or_else(|_| "linux-image-amd64".to_owned())
    };
    let kernel = KERNEL
        .get_or_init(|| fetched(&cache()).map_or_else(|| fetch(&package(), &cache()), Ok))
        .clone();
    kernel.map_err(|why| format!("a kernel: {why}"))
}

pub fn fetched(cache: &Path) -> Option<String> {
    let kernels = std::fs::read_dir(cache.join("fsb/kernels")).ok()?;
    let names = kernels
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .max()
}

pub fn fetch(package: &str, cache: &Path) -> Result<String, String> {
    std::fs::create_dir_all(cache).map_err(|error| error.to_string())?;
    let output = command(Path::new("/"), &["kernel", "fetch", package])
        .env("XDG_CACHE_HOME", cache)
        .output();
    let output = output.map_err(|error| error.to_string())?;
    fetched(cache)
        .filter(|_| output.status.success())
        .ok_or_else(|| stderr(&output))
}

/// Returns the command `fsb run PLAN ARGUMENTS` with a kernel of these tests, in `directory`.
pub fn run(directory: &Path, kernel: &str, arguments: &[&str]) -> Command {
    std::fs::write(directory.join("tiny.toml"), PLAN).expect("the plan is written");
    let mut command = command(directory, &["run", "tiny.toml", "--kernel", kernel]);
    command
        .args(arguments)
        .env("XDG_CACHE_HOME", cache())
        .env("FSB_MESSAGE_FORMAT", "json");
    command
}

/// The time limit of anything in an emulated guest on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// Returns the cache of the kernel that only one test uses. Other tests must boot the same kernel
/// whether or not it exists.
fn other_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-cache-other")
}

/// Runs the program in an environment where `hidden` is not executable, whether or not it is
/// installed.
fn without(hidden: &str, directory: &Path, arguments: &[&str]) -> Output {
    let shell = "if program=$(command -v \"$1\"); then mount --bind /dev/null \"$program\" || exit 9; fi; shift; exec \"$@\"";
    Command::new("unshare")
        .args(["-m", "sh", "-c", shell, "sh", hidden, FSB])
        .args(arguments)
        .current_dir(directory)
        .env("XDG_CACHE_HOME", cache())
        .env("FSB_MESSAGE_FORMAT", "json")
        .output()
        .expect("unshare runs")
}

/// Links a fetched kernel's modules into `place`, with an index that lacks the modules at `gone`.
/// Returns `place`.
fn modules_without(gone: &str, kernel: &Path, place: &Path) -> PathBuf {
    std::fs::create_dir_all(place).unwrap();
    std::os::unix::fs::symlink(kernel.join("modules/kernel"), place.join("kernel")).unwrap();
    for name in ["modules.builtin", "modules.softdep", "modules.alias"] {
        let _ = std::fs::copy(kernel.join("modules").join(name), place.join(name));
    }
    let all = std::fs::read_to_string(kernel.join("modules/modules.dep")).unwrap();
    let kept: String = all
        .lines()
        .filter(|line| !line.contains(gone))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(kept.len() < all.len(), "{gone} was there");
    std::fs::write(place.join("modules.dep"), kept).unwrap();
    place.to_owned()
}

/// Returns the target and the outcome of the trials of a run.
fn outcomes(run: &Path) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    trials(run)
        .iter()
        .map(|trial| (text(&trial["target"]), text(&trial["outcome"])))
        .collect()
}

// Requests for a virtual machine that cannot run are refused before anything starts, with the next
// step.

#[test]
fn a_missing_program_names_its_package() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let arguments = [
        "run", "ext4", "--in", "vm", "--kernel", &kernel, "--size", "64M", "--out", "run",
    ];
    let refused = without("qemu-system-x86_64", scratch.path(), &arguments);
    let missing = |output: &Output, program: &str, package: &str| {
        let error = expect_error(output, 3, "testbed/tool-missing");
        assert_eq!(
            (&error["fields"]["program"], &error["fields"]["package"]),
            (&program.into(), &package.into())
        );
        assert!(
            error["help"]
                .as_str()
                .unwrap()
                .contains(&format!("apt-get install {package}")),
            "{error}"
        );
    };
    missing(&refused, "qemu-system-x86_64", "qemu-system-x86");
    let refused = without("mkfs.ext4", scratch.path(), &arguments);
    missing(&refused, "mkfs.ext4", "e2fsprogs");
    assert_eq!(
        std::fs::read_dir(scratch.path()).unwrap().count(),
        0,
        "nothing was begun"
    );
}

#[test]
fn a_kernel_that_cannot_serve_is_refused() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let refused = |kernel: &str, targets: &[&str]| {
        run(
            scratch.path(),
            kernel,
            &[targets, &["--out", "run"]].concat(),
        )
        .output()
        .unwrap()
    };
    let error = expect_error(&refused("99.9", &["ext4"]), 3, "kernel/not-found");
    assert_eq!(error["fields"]["kernel"], "99.9");
    let own = cache().join("fsb/kernels").join(&kernel);
    // The same kernel without some of its modules.
    for (gone, module) in [("/jfs.ko", "jfs"), ("/virtio_blk.ko", "virtio_blk")] {
        let modules = modules_without(gone, &own, &scratch.path().join(gone.trim_matches('/')));
        let named = format!("{}:{}", own.join("vmlinuz").display(), modules.display());
        let error = expect_error(&refused(&named, &["jfs"]), 3, "kernel/no-module");
        assert_eq!(error["fields"]["module"], module);
    }
    assert!(!scratch.path().join("run").exists(), "nothing was begun");
}

#[test]
fn a_printed_plan_names_the_kernel_that_was_found() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let printed = |kernel: &str| {
        run(scratch.path(), kernel, &["ext4", "--print-plan"])
            .output()
            .unwrap()
    };
    let begun = kernel.split('-').next().unwrap();
    let output = printed(begun);
    expect_code(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("kernel = [\"{kernel}\"]")));
    for (invalid, help) in [
        ("/etc/passwd", "bzImage"),
        ("/etc", "IMAGE:/etc"),
        ("", "fsb kernel list"),
    ] {
        let error = expect_error(&printed(invalid), 2, "kernel/invalid");
        assert!(error["help"].as_str().unwrap().contains(help), "{error}");
    }
    // The image alone, at another path: fsb uses the fetched modules.
    let image = scratch.path().join("bzImage");
    std::fs::copy(
        cache().join("fsb/kernels").join(&kernel).join("vmlinuz"),
        &image,
    )
    .unwrap();
    expect_code(&printed(image.to_str().unwrap()), 0);
    std::fs::File::options()
        .write(true)
        .open(&image)
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    expect_error(&printed(image.to_str().unwrap()), 3, "kernel/incomplete");
}

#[test]
fn memory_that_is_not_there_or_not_enough_is_refused() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let refused = |memory: &str| {
        run(
            scratch.path(),
            &kernel,
            &["ext4", "--out", "run", "--memory", memory],
        )
        .output()
    };
    for (memory, help) in [("1P", "smaller --memory"), ("32M", "give --memory")] {
        let error = expect_error(&refused(memory).unwrap(), 3, "machine/no-memory");
        assert!(
            error["fields"]["needed_bytes"].as_u64() > Some(32 << 20),
            "{error}"
        );
        assert!(error["help"].as_str().unwrap().contains(help), "{error}");
    }
}
