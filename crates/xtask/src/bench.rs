//! The hot loop compared with its peers: 4 KiB random reads of one file in the page cache, the same
//! number of operations each, in interleaved rounds, so that drift affects all of them alike.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use fsb_engine::{EngineError, Gate, Measurement, Ready, Sizing, Step, StepReport, Task, worker};
use fsb_model::{Bytes, WorkloadSpec};
use fsb_testkit::allocations::{CountingAllocator, excuse_this_thread, so_far};
use serde_json::json;

use crate::peers::{self, BareLoop, Median};

const BLOCK_SIZE: u64 = 4096;
/// The budget: the least ratio of the bare loop's time to the engine's time.
const BARE_LOOP_SHARE: f64 = 0.98;

/// Options of the measurements.
#[derive(Args)]
pub struct Options {
    /// Leave the other parts out.
    #[arg(long)]
    pub only: Option<BenchPart>,
    /// Directory of the files.
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// Size of the file; it must fit the page cache.
    #[arg(long, default_value = "256M")]
    pub size: Bytes,
    /// Of the backends beside fio only this one.
    #[arg(long)]
    pub backend: Option<String>,
    /// Of the rows beside fio only those whose name has this in it.
    #[arg(long)]
    pub row: Option<String>,
    /// Pairs of each of them: the interval of the median of 25 leaves seven values at either end
    /// out.
    #[arg(long, default_value = "25", value_parser = clap::value_parser!(u32).range(6..))]
    pub pairs: u32,
    /// Only on images in memory, or on the disk of --dir: memory or disk.
    #[arg(long)]
    pub medium: Option<String>,
    /// Operations of each measurement.
    #[arg(long, default_value = "2000000", value_parser = clap::value_parser!(u64).range(1000..))]
    operations: u64,
    /// Trials in the history.
    #[arg(long, default_value = "1000000", value_parser = clap::value_parser!(u64).range(2000..))]
    pub trials: u64,
    /// Pairs of builds in the part 'fast', minutes each.
    #[arg(long, default_value = "0")]
    pub builds: u32,
    /// Interleaved rounds.
    #[arg(long, default_value = "11", value_parser = clap::value_parser!(u32).range(9..))]
    pub rounds: u32,
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchPart {
    /// Build, size and start of the program, then the hot loop and `fsb compare` of large runs.
    Fast,
    /// The hot loop.
    Engine,
    /// Backends beside fio.
    Backends,
    /// A recorded program beside its replay.
    Replay,
    /// Rows of the suite 'quick' beside fio's of the exported job file.
    Agree,
    /// The time of fio in turn for the intervals of a run of five minutes.
    Answer,
    /// `fsb run --here` beside hyperfine.
    Hyperfine,
    /// `fsb iozone` beside IOzone.
    Iozone,
    /// `fsb postmark` beside PostMark.
    Postmark,
    /// `fsb filebench` beside filebench.
    Filebench,
    /// `fsb compare`.
    Compare,
    /// `fsb compare` of two large runs, beside an earlier build.
    Runs,
    /// `fsb history` and `fsb serve` beside SQLite and a static file.
    History,
    /// Reads after a heavy write beside reads alone.
    Quiet,
    /// `fsb-mpi` beside `fsb run`.
    Mpi,
}

/// The verdict for an interval that is completely below 1.
pub const MISSED: &str = "-";

/// Returns the verdict on a ratio that is above 1 if FSBench is better. If the interval contains 1,
/// it is a tie.
pub fn verdict(ratio: &Median) -> &'static str {
    match ratio.interval {
        [low, _] if low > 1.0 => "+",
        [_, high] if high < 1.0 => MISSED,
        _ => "=",
    }
}

/// Nanoseconds per operation in one round.
struct Round {
    engine: f64,
    bare: f64,
    fio: Option<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    excuse_this_thread();
    ensure!(
        options.size.0 >= BLOCK_SIZE,
        "--size {}: less than a block of {BLOCK_SIZE} bytes",
        options.size
    );
    let directory = peers::work_directory(&options.dir)?;
    let engine = Engine {
        root: directory.path(),
        size: options.size,
    };
    let bare = BareLoop::compile(directory.path())?;
    let with_fio = peers::is_here("fio");
    if !with_fio {
        println!("fio is missing and left out: apt-get install fio");
    }
    engine.step(Step::Prepare, 0)?;
    let file = engine.file();
    println!(
        "random read {}, page cache, {} file, {} operations",
        Bytes(BLOCK_SIZE),
        options.size,
        options.operations
    );
    println!("{} interleaved rounds, ns per operation:\n", options.rounds);
    println!(
        "{:>6} {:>9} {:>9} {:>9}",
        "round", "engine", "C loop", "fio"
    );
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let seed = u64::from(number) + 1;
        let mut round = Round {
            engine: 0.0,
            bare: 0.0,
            fio: None,
        };
        // The order changes from round to round.
        for turn in 0..3 {
            match (turn + number) % 3 {
                0 => round.engine = engine.measure(options.operations)?,
                1 => round.bare = bare.measure(&file, BLOCK_SIZE, options.operations, seed)?,
                _ if with_fio => {
                    round.fio = Some(peers::fio(&file, BLOCK_SIZE, options.operations, seed)?)
                }
                _ => {}
            }
        }
        let fio = round
            .fio
            .map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"));
        println!(
            "{:>6} {:>9.1} {:>9.1} {fio:>9}",
            number + 1,
            round.engine,
            round.bare
        );
        rounds.push(round);
    }
    print_summary(&rounds);
    print_allocations(&engine, options.operations)?;
    engine.step(Step::Cleanup, 0).map(drop)
}

fn print_summary(rounds: &[Round]) {
    let median = |of: &dyn Fn(&Round) -> Option<f64>| {
        let values: Vec<f64> = rounds.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| Median::from_values(values))
    };
    println!("\nmedians, with the 95 % interval of the median:");
    let line = |name: &str, value: Option<Median>, decimals: usize, verdict: &str| match value {
        Some(value) => println!("{name:<28} {value:.decimals$}{verdict}"),
        None => println!("{name:<28} not measured"),
    };
    line(
        "engine, ns per operation",
        median(&|round| Some(round.engine)),
        1,
        "",
    );
    line(
        "C loop, ns per operation",
        median(&|round| Some(round.bare)),
        1,
        "",
    );
    line(
        "fio psync, ns per operation",
        median(&|round| round.fio),
        1,
        "",
    );
    let bare = median(&|round| Some(round.bare / round.engine));
    let fio = median(&|round| round.fio.map(|fio| fio / round.engine));
    let verdict = |ratio: Option<Median>, budget: f64| match ratio {
        Some(ratio) if ratio.value >= budget => format!("  (budget {budget}: kept)"),
        _ => format!("  (budget {budget}: MISSED)"),
    };
    line("C loop / engine", bare, 3, &verdict(bare, BARE_LOOP_SHARE));
    line("fio / engine", fio, 3, &verdict(fio, 1.0));
}

/// Four times the operations, the allocations compared.
fn print_allocations(engine: &Engine<'_>, operations: u64) -> anyhow::Result<()> {
    let (few, many) = (operations / 4, operations / 4 * 4);
    let mut counted = [0, 0];
    for (count, operations) in counted.iter_mut().zip([few, many]) {
        let before = so_far();
        engine.measure(operations)?;
        *count = so_far() - before;
    }
    let each = (counted[1] as f64 - counted[0] as f64) / (many - few) as f64;
    println!(
        "{:<28} {each} ({} with {few} operations, {} with {many})",
        "allocations per operation", counted[0], counted[1]
    );
    Ok(())
}

/// The engine, through the path that every trial takes.
struct Engine<'d> {
    root: &'d Path,
    size: Bytes,
}

impl Engine<'_> {
    fn step(&self, step: Step, operations: u64) -> anyhow::Result<StepReport> {
        let workload: WorkloadSpec = serde_json::from_value(json!({
            "name": "read", "file_size": self.size.0, "block_size": BLOCK_SIZE, "access": "random", "cache": "warm",
        }))?;
        let task = Task::plain(
            step,
            workload,
            Sizing {
                size: self.size.0,
                cpus: 1,
            },
            self.root,
            42,
            operations,
        );
        Ok(worker::perform(&task, &mut Open)?)
    }

    /// Nanoseconds an operation.
    fn measure(&self, operations: u64) -> anyhow::Result<f64> {
        let Some(measured) = self.step(Step::Measure, operations)?.whole() else {
            bail!("the measure step measured nothing")
        };
        let Measurement {
            timed_ns,
            operations: done,
            ..
        } = measured;
        ensure!(
            done == operations,
            "the engine did {done} operations instead of {operations}"
        );
        Ok(timed_ns as f64 / done as f64)
    }

    fn file(&self) -> PathBuf {
        self.root.join("fsb-set/d00000/f00000000")
    }
}

/// A gate that opens at once, if the file is in the page cache as it should be.
struct Open;

impl Gate for Open {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        match ready.resident_bytes {
            Some(resident) if resident == ready.file_bytes => Ok(()),
            _ => Err(EngineError::new(
                "the file does not stay in the page cache: take a smaller --size",
            )),
        }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
