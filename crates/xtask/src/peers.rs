//! The parts that the comparisons share: the peers, a bare C loop and fio; file systems on images;
//! medians.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};
use fsb_model::geometry::LARGE_DISK;
use fsb_testbed::fs;
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use rustix::thread::UnshareFlags;
use serde_json::Value;
use tempfile::TempDir;

/// The bare loop of `bench/psync_loop.c`, compiled.
pub struct BareLoop(PathBuf);

impl BareLoop {
    /// Compiles the loop into `directory`.
    pub fn compile(directory: &Path) -> anyhow::Result<BareLoop> {
        compile("psync_loop", directory).map(BareLoop)
    }

    /// Returns nanoseconds per operation.
    pub fn measure(
        &self,
        file: &Path,
        block_size: u64,
        operations: u64,
        seed: u64,
    ) -> anyhow::Result<f64> {
        let numbers = [block_size, operations, seed].map(|number| number.to_string());
        let output = run(Command::new(&self.0).arg(file).args(numbers))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.split(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .with_context(|| format!("no number: '{text}'"))
    }
}

/// Compiles a program of the directory `bench` into `directory`, and returns its path.
pub fn compile(name: &str, directory: &Path) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../bench/{name}.c"));
    let program = directory.join(name);
    let mut compiler = Command::new("cc");
    compiler.arg("-O2").arg("-o").arg(&program).arg(&source);
    run(&mut compiler)
        .with_context(|| format!("{name} needs a C compiler: apt-get install gcc"))?;
    Ok(program)
}

/// Returns whether a program can be run, from its answer to `--version`.
pub fn is_here(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Creates a directory below `directory` for the files of a measurement. It is removed with the
/// returned value.
pub fn work_directory(directory: &Path) -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new()
        .prefix("fsb-bench-")
        .tempdir_in(directory);
    made.with_context(|| format!("cannot work in {}", directory.display()))
}

/// Returns nanoseconds per operation of `fio --ioengine=psync`, from the rate that fio reports.
pub fn fio(file: &Path, block_size: u64, operations: u64, seed: u64) -> anyhow::Result<f64> {
    let mut fio = Command::new("fio");
    fio.args([
        "--name=bench",
        "--ioengine=psync",
        "--invalidate=0",
        "--rw=randread",
        "--output-format=json",
    ])
    .arg(format!("--bs={block_size}"))
    .arg(format!("--number_ios={operations}"))
    // More bytes than operations, so that the number of operations ends it.
    .arg(format!("--io_size={}", (operations + 1) * block_size))
    .arg(format!("--randseed={seed}"))
    .arg(format!("--filename={}", file.display()));
    let output = run(&mut fio)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value =
        serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's report")?;
    let read = &report["jobs"][0]["read"];
    let done = read["total_ios"]
        .as_u64()
        .context("fio tells no total_ios")?;
    ensure!(
        done == operations,
        "fio did {done} operations instead of {operations}"
    );
    // The rate, for the run time is in whole milliseconds.
    read["iops"]
        .as_f64()
        .map(|rate| 1e9 / rate)
        .context("fio tells no iops")
}

/// Both sides of a pair, in an order that is drawn.
pub fn both<T>(
    luck: &mut Pcg64Mcg,
    ours: impl FnOnce() -> anyhow::Result<T>,
    theirs: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, T)> {
    if luck.random::<bool>() {
        let ours = ours()?;
        Ok((ours, theirs()?))
    } else {
        let theirs = theirs()?;
        Ok((ours()?, theirs))
    }
}

/// Returns the CPU seconds of all children that have ended, and of theirs.
pub fn children_cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeros are a valid one should the call
    // fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
        .sum()
}

/// Runs a command to its end. If it fails, the error contains its output.
pub fn run(command: &mut Command) -> anyhow::Result<Output> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!(
            "{:?}: {}",
            command.get_program(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output)
}

// A file system on a loop device over an image, in a private mount namespace.
//
// The mounts are in a mount namespace of this process, the image is unlinked and the loop device
// detaches itself. So the kernel cleans up however the process ends.

const CHUNK: usize = 1 << 20;

/// Moves this process to a private mount namespace, so that its mounts are invisible to other
/// processes.
pub fn leave_mounts() -> anyhow::Result<()> {
    // SAFETY: only the mount namespace is left, which no memory and no descriptor depends on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .context("a mount namespace of our own")?;
    run(Command::new("mount").args(["--make-rprivate", "/"])).map(drop)
}

/// Mounts a target of `fsb run` on the empty directory, from an image beside it or in `at`, with
/// the commands of an export. The image is written completely, because a sparse one would be
/// allocated while the clock runs.
pub fn mount(target: &str, directory: &Path, at: Option<&Path>, bytes: u64) -> anyhow::Result<()> {
    let target: fsb_model::Target = target.parse()?;
    let spec = target.file_system().context("a file system")?;
    let recipe = fs::recipe(spec, bytes, false, Some(LARGE_DISK))?;
    let name = format!("{}-{}.image", spec.fs, std::process::id());
    let image = at.or(directory.parent()).context("a directory")?.join(name);
    let mut file = File::create_new(&image)?;
    let zeros = vec![0; CHUNK];
    for _ in 0..bytes.div_ceil(CHUNK as u64) {
        file.write_all(&zeros)
            .with_context(|| format!("an image in {}", image.display()))?;
    }
    file.sync_all()?;
    drop(file);
    let made = make_and_mount(&recipe, &image, directory);
    std::fs::remove_file(&image)?;
    made
}

fn make_and_mount(recipe: &fs::Recipe, image: &Path, directory: &Path) -> anyhow::Result<()> {
    let command = |words: &[String]| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    };
    run(command(&recipe.mkfs).arg(image))?;
    let attach = run(Command::new("losetup")
        .args(["--find", "--show", "--direct-io=on"])
        .arg(image))?;
    let device = String::from_utf8(attach.stdout)?.trim().to_owned();
    ensure!(
        device.starts_with("/dev/loop"),
        "losetup names no device: '{device}'"
    );
    let mounted = run(command(&recipe.mount).arg(&device).arg(directory));
    // The loop device detaches when it is unmounted, or now if mounting failed.
    run(Command::new("losetup").arg("--detach").arg(&device))?;
    mounted.map(drop)
}

/// Unmounts lazily, because a program that is being killed may still use the mount.
pub fn unmount(directory: &Path) {
    let _ = Command::new("umount").arg("--lazy").arg(directory).status();
}

/// The median of some values and a distribution-free 95 % interval for it: the order statistics
/// whose binomial probability of enclosing the median is at least 0.95 (Conover, "Practical
/// Nonparametric Statistics", §3.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The middle value.
    pub value: f64,
    pub interval: [f64; 2],
}

impl Median {
    /// Returns the median of at least one value.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Median {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let outside = values_outside(n);
        Median {
            value,
            interval: [sorted[outside], sorted[n - 1 - outside]],
        }
    }
}

/// Returns the number of the smallest and of the largest values that may be left out. The interval
/// between the r-th value from either end encloses the median with probability 1 − 2·P(X ≤ r−1), X
/// binomial with n and ½. The function returns the largest such r.
fn values_outside(n: usize) -> usize {
    let mut probability = 0.5f64.powi(n as i32);
    let mut below = probability;
    let mut r = 0;
    while below <= 0.025 && r < n / 2 {
        r += 1;
        probability *= (n - r + 1) as f64 / r as f64;
        below += probability;
    }
    r.saturating_sub(1)
}

impl fmt::Display for Median {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(3);
        let [low, high] = self.interval;
        write!(
            f,
            "{:.decimals$} [{low:.decimals$} {high:.decimals$}]",
            self.value
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_tabled_one() {
        // Tables of the sign test: of 9 values the 2nd and the 8th, of 15 the 4th and the 12th, of
        // 5 all.
        assert_eq!(values_outside(9), 1);
        assert_eq!(values_outside(15), 3);
        assert_eq!(values_outside(5), 0);
        let median = Median::from_values((1..=9).rev().map(f64::from));
        assert_eq!(
            median,
            Median {
                value: 5.0,
                interval: [2.0, 8.0]
            }
        );
        assert_eq!(format!("{median:.1}"), "5.0 [2.0 8.0]");
        assert_eq!(Median::from_values([1.0, 2.0]).value, 1.5);
    }
}
