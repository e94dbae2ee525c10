//! The peers that the engine is compared with: a bare C loop, and fio.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

/// The bare loop of `bench/psync_loop.c`, compiled.
pub struct BareLoop(PathBuf);

impl BareLoop {
    /// Compiles the loop into `directory`.
    pub fn compile(directory: &Path) -> anyhow::Result<BareLoop> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/psync_loop.c");
        let program = directory.join("psync_loop");
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").arg("-o").arg(&program).arg(&source);
        run(&mut compiler).context("the bare loop needs a C compiler: apt-get install gcc")?;
        Ok(BareLoop(program))
    }

    /// Returns nanoseconds per operation.
    pub fn measure(&self, file: &Path, block_size: u64, operations: u64, seed: u64) -> anyhow::Result<f64> {
        let numbers = [block_size, operations, seed].map(|number| number.to_string());
        let output = run(Command::new(&self.0).arg(file).args(numbers))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.split(' ').next().and_then(|number| number.parse().ok()).with_context(|| format!("no number: '{text}'"))
    }
}

/// Returns whether fio is installed.
pub fn fio_is_here() -> bool {
    Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns nanoseconds per operation of `fio --ioengine=psync`, from the rate that fio reports.
pub fn fio(file: &Path, block_size: u64, operations: u64, seed: u64) -> anyhow::Result<f64> {
    let mut fio = Command::new("fio");
    fio.args(["--name=bench", "--ioengine=psync", "--invalidate=0", "--rw=randread", "--output-format=json"])
        .arg(format!("--bs={block_size}"))
        .arg(format!("--number_ios={operations}"))
        // More bytes than operations, so that the number of operations ends it.
        .arg(format!("--io_size={}", (operations + 1) * block_size))
        .arg(format!("--randseed={seed}"))
        .arg(format!("--filename={}", file.display()));
    let output = run(&mut fio)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's report")?;
    let read = &report["jobs"][0]["read"];
    let done = read["total_ios"].as_u64().context("fio tells no total_ios")?;
    ensure!(done == operations, "fio did {done} operations instead of {operations}");
    // The rate, for the run time is in whole milliseconds.
    read["iops"].as_f64().map(|rate| 1e9 / rate).context("fio tells no iops")
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

/// Runs a command to its end. If it fails, the error contains its output.
pub fn run(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{:?}: {}", command.get_program(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}
