//! fio's side of a pair.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use fsb_model::Bytes;
use serde_json::Value;

use super::cell::{Cell, DEPTH};
use super::{Cost, settle};

/// Runs of fio that do nothing, for what it takes to start and stop; the median counts.
const EMPTY_RUNS: u32 = 5;

/// A job on a file.
pub struct Fio {
    file: PathBuf,
    arguments: Vec<String>,
    block_size: u64,
    operations: u64,
    /// CPU seconds of a run that does one operation, where all of fio's CPU time counts.
    empty: Option<f64>,
}

impl Fio {
    pub fn new(file: PathBuf, cell: &Cell, size: Bytes, operations: u64) -> anyhow::Result<Fio> {
        let direction = match (cell.random, cell.writes) {
            (false, false) => "read",
            (false, true) => "write",
            (true, false) => "randread",
            (true, true) => "randwrite",
        };
        let mut arguments: Vec<String> = cell.fio.iter().map(|&option| option.to_owned()).collect();
        arguments.extend([
            "--name=bench".to_owned(),
            "--output-format=json".to_owned(),
            "--invalidate=0".to_owned(),
            // On a page, as the engine's: copying to odd addresses takes up to twice as long.
            "--iomem_align=4096".to_owned(),
            // One latency, as the engine records it, not the three that fio can.
            "--disable_slat=1".to_owned(),
            "--disable_lat=1".to_owned(),
            format!("--rw={direction}"),
            format!("--bs={}", cell.block_size()),
            format!("--size={}", size.0),
            format!("--filename={}", file.display()),
        ]);
        if cell.deep {
            arguments.extend(["--fixedbufs=1".to_owned(), "--registerfiles=1".to_owned()]);
            let options =
                ["iodepth", "iodepth_batch_submit", "iodepth_batch_complete_min", "iodepth_batch_complete_max"];
            arguments.extend(options.map(|option| format!("--{option}={DEPTH}")));
        }
        let mut fio = Fio { file, arguments, block_size: cell.block_size(), operations, empty: None };
        if cell.kernel_threads {
            let runs = (0..EMPTY_RUNS).map(|seed| fio.run(1, seed).map(|run| run.whole_cpu));
            let mut empty = runs.collect::<anyhow::Result<Vec<_>>>()?;
            empty.sort_by(f64::total_cmp);
            fio.empty = Some(empty[empty.len() / 2]);
        }
        Ok(fio)
    }

    pub fn measure(&self, seed: u32) -> anyhow::Result<Cost> {
        let Run { rate, cpu, whole_cpu } = self.run(self.operations, seed)?;
        let cpu = self.empty.map_or(cpu, |empty| whole_cpu - empty);
        Ok(Cost { seconds: 1.0 / rate, cpu: cpu / self.operations as f64 })
    }

    fn run(&self, operations: u64, seed: u32) -> anyhow::Result<Run> {
        if let Some(directory) = self.file.parent() {
            settle(directory)?;
        }
        let mut fio = Command::new("fio");
        fio.args(&self.arguments)
            .arg(format!("--number_ios={operations}"))
            // More bytes than operations, so that the number of operations ends it.
            .arg(format!("--io_size={}", (operations + 1) * self.block_size))
            .arg(format!("--randseed={}", seed + 1));
        let before = children_cpu();
        let output = fio.stdin(Stdio::null()).output().context("fio")?;
        let whole_cpu = children_cpu() - before;
        ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let report: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's report")?;
        let job = &report["jobs"][0];
        let side = ["read", "write"].map(|side| &job[side]);
        let done: u64 = side.iter().filter_map(|side| side["total_ios"].as_u64()).sum();
        ensure!(done == operations, "fio did {done} operations instead of {operations}");
        let rate: f64 = side.iter().filter_map(|side| side["iops"].as_f64()).sum();
        let runtime: f64 = side.iter().filter_map(|side| side["runtime"].as_f64()).sum::<f64>() * 1e-3;
        let share: f64 = ["usr_cpu", "sys_cpu"].iter().filter_map(|kind| job[kind].as_f64()).sum::<f64>() * 1e-2;
        Ok(Run { rate, cpu: share * runtime, whole_cpu })
    }
}

/// The measured values of a run of fio.
struct Run {
    /// Operations per second, as fio reports them.
    rate: f64,
    /// CPU seconds of the thread that does the operations, as fio reports them.
    cpu: f64,
    /// CPU seconds of the whole fio process, starting and stopping included, and of the kernel threads that worked for
    /// it.
    whole_cpu: f64,
}

/// Returns the CPU seconds of all children that have ended, and of theirs.
fn children_cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeros are a valid one should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6).sum()
}
