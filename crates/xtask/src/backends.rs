//! Backends beside fio's engines: the same file, the same number of operations, in interleaved
//! pairs of half a second. It compares the rates, with latencies recorded on both sides, and the
//! CPU time per operation.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use fsb_engine::{EngineError, Gate, Measurement, Ready, Sizing, Step, StepReport, Task, worker};
use fsb_model::{Bytes, WorkloadSpec};
use serde_json::{Value, json};

use crate::bench::{MISSED, Options, verdict};
use crate::peers::{self, Median};

/// Pairs of each cell: the fewest whose interval leaves the extremes out.
const PAIRS: u32 = 9;

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let size = options.size;
    let wanted = |cell: &Cell| {
        options
            .backend
            .as_deref()
            .is_none_or(|backend| backend == cell.backend)
    };
    if !crate::peers::is_here("fio") {
        println!("\nfio is missing and the backends are left out: apt-get install fio");
        return Ok(());
    }
    println!(
        "\nbackends beside fio, {size} file, {PAIRS} interleaved pairs; medians of fio's cost / ours, with the 95 %"
    );
    println!(
        "interval of the median: above 1 is better than fio; mmap in sequence goes over {} once\n",
        Bytes(size.0 * PASS)
    );
    println!(
        "{:<6} {:<13} {:<27} {:>12} {:>20} {:>20}",
        "", "backend", "work", "rate", "time", "CPU time"
    );
    let mut missed = 0;
    for place in all_places(&options.dir, Bytes(size.0 * PASS))?.each() {
        for cell in all_cells()
            .into_iter()
            .filter(|cell| cell.makes_sense_on(place) && wanted(cell))
        {
            let [time, cpu] = compare(place, &cell, cell.file_size(size))?;
            missed += [time, cpu]
                .iter()
                .filter(|ratio| verdict(ratio) == MISSED)
                .count();
        }
    }
    println!("\nfio had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// One cell: as many operations as we do in a while, then pairs.
fn compare(place: &BenchDirectory, cell: &Cell, size: Bytes) -> anyhow::Result<[Median; 2]> {
    let ours = Ours::prepare(place.directory(), cell, size)?;
    let most = if cell.one_pass() {
        size.0 / cell.block_size()
    } else {
        u64::MAX
    };
    let operations = ours.calibrate(most)?;
    let fio = Fio::new(ours.file(), cell, size, operations)?;
    let (mut time, mut cpu, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        // The order changes from pair to pair.
        let (mine, theirs) = if pair % 2 == 0 {
            let mine = ours.measure(operations)?;
            (mine, fio.measure(pair)?)
        } else {
            let theirs = fio.measure(pair)?;
            (ours.measure(operations)?, theirs)
        };
        time.push(theirs.seconds / mine.seconds);
        cpu.push(theirs.cpu / mine.cpu);
        rate.push(1.0 / mine.seconds);
    }
    ours.cleanup()?;
    let [time, cpu, rate] = [time, cpu, rate].map(Median::from_values);
    println!(
        "{:<6} {:<13} {:<27} {:>12} {:>20} {:>20}",
        place.name(),
        cell.backend,
        cell.work(),
        cell.rate(rate.value),
        format!("{} {time:.2}", verdict(&time)),
        format!("{} {cpu:.2}", verdict(&cpu)),
    );
    Ok([time, cpu])
}

/// The cost of one operation on one side of a pair.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Seconds from the start to the end, divided by the operations.
    seconds: f64,
    /// Seconds of all processors, user and kernel.
    cpu: f64,
}

/// Writes dirty pages back, so that the next measurement does not pay for them.
pub fn settle(directory: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(directory)?)
        .with_context(|| format!("syncfs of {}", directory.display()))
}

/// Requests in flight of asynchronous backends, except in the rows of other depths.
const DEPTH: u32 = 32;
/// The further depths at which small random reads are compared.
const DEPTHS: [u32; 2] = [1, 8];
/// Threads of the row that has more of them than a usual machine has processors.
const THREADS: u32 = 16;

/// The factor on the size of files that a measurement passes over only once.
const PASS: u64 = 4;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
struct Cell {
    backend: &'static str,
    /// Options of fio that make it do the same.
    fio: &'static [&'static str],
    /// Requests in flight, and requests reaped at once.
    depth: u32,
    /// Threads. fio's are processes, as it starts them by default.
    threads: u32,
    /// Whether kernel threads may do a part of the work. fio does not count their CPU time.
    kernel_threads: bool,
    direct: bool,
    random: bool,
    writes: bool,
}

const READS: Cell = Cell {
    backend: "",
    fio: &[],
    depth: 1,
    threads: 1,
    kernel_threads: false,
    direct: false,
    random: false,
    writes: false,
};

const BACKENDS: [Cell; 7] = [
    Cell {
        backend: "psync",
        fio: &["--ioengine=psync"],
        ..READS
    },
    Cell {
        backend: "mmap",
        fio: &["--ioengine=mmap"],
        ..READS
    },
    Cell {
        backend: "direct",
        fio: &["--ioengine=psync", "--direct=1"],
        direct: true,
        ..READS
    },
    LIBAIO,
    Cell {
        backend: "libaio-direct",
        fio: &["--ioengine=libaio", "--direct=1"],
        direct: true,
        ..LIBAIO
    },
    URING,
    Cell {
        backend: "uring-direct",
        fio: &["--ioengine=io_uring", "--direct=1"],
        depth: DEPTH,
        direct: true,
        ..READS
    },
];

const LIBAIO: Cell = Cell {
    backend: "libaio",
    fio: &["--ioengine=libaio"],
    depth: DEPTH,
    ..READS
};

const URING: Cell = Cell {
    backend: "uring",
    fio: &["--ioengine=io_uring"],
    depth: DEPTH,
    kernel_threads: true,
    ..READS
};

/// Returns all cells, in the order of the table.
fn all_cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for backend in BACKENDS {
        for (random, writes) in [(false, false), (false, true), (true, false), (true, true)] {
            cells.push(Cell {
                random,
                writes,
                ..backend
            });
        }
    }
    for backend in [LIBAIO, URING] {
        cells.extend(DEPTHS.map(|depth| Cell {
            random: true,
            depth,
            ..backend
        }));
    }
    cells.push(Cell {
        random: true,
        threads: THREADS,
        ..BACKENDS[0]
    });
    cells
}

impl Cell {
    /// Returns whether the cell makes sense on a file system. Direct I/O needs a device.
    fn makes_sense_on(&self, place: &BenchDirectory) -> bool {
        !self.direct || place.has_device()
    }

    fn block_size(&self) -> u64 {
        if self.random { 4 << 10 } else { 1 << 20 }
    }

    /// Returns whether one measurement passes over the file at most once.
    ///
    /// From one pass to the next fio maps the file again and never unmaps anything. The kernel maps
    /// pages that are already mapped at a lower cost. A program that unmaps unused memory pays the
    /// full cost in each pass, so passes after the first are not the same work.
    fn one_pass(&self) -> bool {
        self.backend == "mmap" && !self.random
    }

    /// Returns the bytes of its file. A single pass must last long enough for fio's resolution of
    /// milliseconds.
    fn file_size(&self, size: Bytes) -> Bytes {
        if self.one_pass() {
            Bytes(size.0 * PASS)
        } else {
            size
        }
    }

    /// Returns whether fio queues the requests of the cell and registers their memory.
    fn is_queued(&self) -> bool {
        self.backend.starts_with("libaio") || self.backend.starts_with("uring")
    }

    /// Returns whether all CPU time of fio's process counts, not only what it reports.
    fn counts_whole_process(&self) -> bool {
        self.kernel_threads || self.threads > 1
    }

    /// Returns the name of the work: `random write 4K`.
    fn work(&self) -> String {
        let random = if self.random { "random " } else { "" };
        let verb = if self.writes { "write" } else { "read" };
        let mut work = format!("{random}{verb} {}", Bytes(self.block_size()));
        if self.depth != DEPTH && self.is_queued() {
            work += &format!(", depth {}", self.depth);
        }
        if self.threads > 1 {
            work += &format!(", {} threads", self.threads);
        }
        work
    }

    /// Formats a rate in operations per second, in the usual unit of the work.
    fn rate(&self, operations: f64) -> String {
        match self.random {
            true => format!("{:.1} k/s", operations / 1e3),
            false => format!(
                "{:.0} MiB/s",
                operations * self.block_size() as f64 / (1 << 20) as f64
            ),
        }
    }
}

// The file systems of the measurement: ext4 on a loop device and tmpfs, both in a private mount
// namespace.

/// A directory on a file system.
#[derive(Debug)]
struct BenchDirectory {
    name: &'static str,
    directory: PathBuf,
    mounted: bool,
    has_device: bool,
}

/// Directories to measure in. They are unmounted when dropped, before the directory that holds the
/// mount points is removed.
struct Places {
    places: Vec<BenchDirectory>,
    _directory: tempfile::TempDir,
}

/// Bytes of an image besides those of the file.
const ROOM: u64 = 192 << 20;

/// Mounts the file systems. Without root it uses the directory itself.
fn all_places(directory: &Path, size: Bytes) -> anyhow::Result<Places> {
    let directory = peers::work_directory(directory)?;
    let path = directory.path();
    if !rustix::process::geteuid().is_root() {
        println!(
            "not root: no ext4 on a loop device and no tmpfs, but {} as it is",
            path.display()
        );
        let place = BenchDirectory {
            name: "here",
            directory: path.to_owned(),
            mounted: false,
            has_device: true,
        };
        return Ok(Places {
            places: vec![place],
            _directory: directory,
        });
    }
    peers::leave_mounts()?;
    let mut places = Places {
        places: Vec::new(),
        _directory: directory,
    };
    for name in ["tmpfs", "ext4"] {
        let directory = places._directory.path().join(name);
        std::fs::create_dir(&directory)?;
        match name {
            "tmpfs" => drop(peers::run(
                Command::new("mount")
                    .args(["-t", "tmpfs", "tmpfs"])
                    .arg(&directory),
            )?),
            _ => peers::mount(name, &directory, None, size.0 + ROOM)?,
        }
        places.places.push(BenchDirectory {
            name,
            directory,
            mounted: true,
            has_device: name != "tmpfs",
        });
    }
    Ok(places)
}

impl Places {
    fn each(&self) -> impl Iterator<Item = &BenchDirectory> {
        self.places.iter()
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for place in self.places.iter().filter(|place| place.mounted) {
            peers::unmount(&place.directory);
        }
    }
}

impl BenchDirectory {
    fn name(&self) -> &str {
        self.name
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn has_device(&self) -> bool {
        self.has_device
    }
}

// Our side of a pair: the engine, through the path that every trial takes, in a process of its own.
//
// As fio does with its jobs and the agent with its workers, the process becomes a session of its
// own. The kernel shares the processors out between sessions. Two processes in one session, or one
// beside a compiler in its session, would each get less.

/// Operations are chosen to take about so long, in seconds.
const LENGTH: f64 = 0.4;
/// Operations of the first try.
const FEW: u64 = 256;

/// A cell with its file prepared.
struct Ours<'p> {
    root: &'p Path,
    cell: Cell,
    workload: WorkloadSpec,
    size: Bytes,
}

impl<'p> Ours<'p> {
    /// Makes the file.
    fn prepare(root: &'p Path, cell: &Cell, size: Bytes) -> anyhow::Result<Ours<'p>> {
        let mut workload = json!({
            "name": if cell.writes { "write" } else { "read" },
            "backend": cell.backend,
            "file_size": size.0,
            "block_size": cell.block_size(),
            "access": if cell.random { "random" } else { "sequential" },
            "cache": "any",
            "depth": cell.depth,
            "batch": cell.depth,
            "threads": cell.threads,
        });
        if cell.writes {
            workload["overwrite"] = true.into();
        }
        let ours = Ours {
            root,
            cell: *cell,
            workload: serde_json::from_value::<WorkloadSpec>(workload)?,
            size,
        };
        ours.step(Step::Prepare, 0)?;
        Ok(ours)
    }

    /// Returns the file that both sides work on.
    fn file(&self) -> PathBuf {
        self.root.join("fsb-set/d00000/f00000000")
    }

    /// Returns the number of operations that take about as long as one side of a pair should, at
    /// most `most`.
    fn calibrate(&self, most: u64) -> anyhow::Result<u64> {
        let mut operations = FEW.min(most);
        loop {
            let seconds = self.measure(operations)?.seconds * operations as f64;
            if seconds >= LENGTH / 4.0 || operations == most {
                let wanted = (operations as f64 * LENGTH / seconds).ceil() as u64;
                // Each thread does as many.
                return Ok(most.min(wanted.next_multiple_of(u64::from(self.cell.threads))));
            }
            operations = most.min(operations * 4);
        }
    }

    fn measure(&self, operations: u64) -> anyhow::Result<Cost> {
        settle(self.root)?;
        let Some(measured) = self.step(Step::Measure, operations)?.whole() else {
            bail!("the measure step measured nothing")
        };
        let Measurement {
            timed_ns,
            operations: done,
            user_seconds,
            system_seconds,
            ..
        } = measured;
        ensure!(
            done == operations,
            "the engine did {done} operations instead of {operations}"
        );
        let each = |seconds: f64| seconds / done as f64;
        Ok(Cost {
            seconds: each(timed_ns as f64 * 1e-9),
            cpu: each(user_seconds + system_seconds),
        })
    }

    fn cleanup(&self) -> anyhow::Result<()> {
        self.step(Step::Cleanup, 0).map(drop)
    }

    fn step(&self, step: Step, operations: u64) -> anyhow::Result<StepReport> {
        let sizing = Sizing {
            size: self.size.0,
            cpus: self.cell.threads,
        };
        let task = Task::plain(
            step,
            self.workload.clone(),
            sizing,
            self.root,
            42,
            operations,
        );
        in_child(&task)
    }
}

/// Performs a step in a separate process.
pub fn in_child(task: &Task) -> anyhow::Result<StepReport> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(STEP).arg(serde_json::to_string(task)?);
    // SAFETY: setsid is one call that a forked process may make.
    unsafe { child.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    let answer = peers::run(&mut child)?.stdout;
    serde_json::from_slice(&answer).context("the report of a step")
}

/// The name of the command that performs one step.
pub const STEP: &str = "step";

/// Performs a step in the child process, and prints its report in JSON.
pub fn step(task: &str) -> anyhow::Result<()> {
    let task: Task = serde_json::from_str(task)?;
    println!(
        "{}",
        serde_json::to_string(&worker::perform(&task, &mut Open)?)?
    );
    Ok(())
}

/// A gate that opens at once.
struct Open;

impl Gate for Open {
    fn ready(&mut self, _: Ready) -> Result<(), EngineError> {
        Ok(())
    }
}

// fio's side of a pair.

/// Runs of fio that do nothing, for what it takes to start and stop; the median counts.
const EMPTY_RUNS: u32 = 5;

/// A job on a file.
struct Fio {
    file: PathBuf,
    arguments: Vec<String>,
    block_size: u64,
    operations: u64,
    jobs: u64,
    /// CPU seconds of a run in which each job does one operation, where all of fio's CPU
    /// time counts.
    empty: Option<f64>,
}

impl Fio {
    fn new(file: PathBuf, cell: &Cell, size: Bytes, operations: u64) -> anyhow::Result<Fio> {
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
        if cell.threads > 1 {
            arguments.push("--group_reporting=1".to_owned());
            arguments.push(format!("--numjobs={}", cell.threads));
        }
        if cell.is_queued() {
            if cell.backend.starts_with("uring") {
                arguments.extend(["--fixedbufs=1".to_owned(), "--registerfiles=1".to_owned()]);
            }
            let options = [
                "iodepth",
                "iodepth_batch_submit",
                "iodepth_batch_complete_min",
                "iodepth_batch_complete_max",
            ];
            arguments.extend(options.map(|option| format!("--{option}={}", cell.depth)));
        }
        let mut fio = Fio {
            file,
            arguments,
            block_size: cell.block_size(),
            operations,
            jobs: u64::from(cell.threads),
            empty: None,
        };
        if cell.counts_whole_process() {
            let runs = (0..EMPTY_RUNS).map(|seed| fio.run(fio.jobs, seed).map(|run| run.whole_cpu));
            let mut empty = runs.collect::<anyhow::Result<Vec<_>>>()?;
            empty.sort_by(f64::total_cmp);
            fio.empty = Some(empty[empty.len() / 2]);
        }
        Ok(fio)
    }

    fn measure(&self, seed: u32) -> anyhow::Result<Cost> {
        let Run {
            rate,
            cpu,
            whole_cpu,
        } = self.run(self.operations, seed)?;
        let cpu = self.empty.map_or(cpu, |empty| whole_cpu - empty);
        Ok(Cost {
            seconds: 1.0 / rate,
            cpu: cpu / self.operations as f64,
        })
    }

    fn run(&self, operations: u64, seed: u32) -> anyhow::Result<Run> {
        if let Some(directory) = self.file.parent() {
            settle(directory)?;
        }
        let mut fio = Command::new("fio");
        let each = operations / self.jobs;
        fio.args(&self.arguments)
            .arg(format!("--number_ios={each}"))
            // More bytes than operations, so that the number of operations ends it.
            .arg(format!("--io_size={}", (each + 1) * self.block_size))
            .arg(format!("--randseed={}", seed + 1));
        let before = peers::children_cpu();
        let output = fio.stdin(Stdio::null()).output().context("fio")?;
        let whole_cpu = peers::children_cpu() - before;
        ensure!(
            output.status.success(),
            "fio: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let report: Value =
            serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's report")?;
        let job = &report["jobs"][0];
        let side = ["read", "write"].map(|side| &job[side]);
        let done: u64 = side
            .iter()
            .filter_map(|side| side["total_ios"].as_u64())
            .sum();
        ensure!(
            done == operations,
            "fio did {done} operations instead of {operations}"
        );
        let rate: f64 = side.iter().filter_map(|side| side["iops"].as_f64()).sum();
        let runtime: f64 = side
            .iter()
            .filter_map(|side| side["runtime"].as_f64())
            .sum::<f64>()
            * 1e-3;
        let share: f64 = ["usr_cpu", "sys_cpu"]
            .iter()
            .filter_map(|kind| job[kind].as_f64())
            .sum::<f64>()
            * 1e-2;
        Ok(Run {
            rate,
            cpu: share * runtime,
            whole_cpu,
        })
    }
}

/// The measured values of a run of fio.
struct Run {
    /// Operations per second, as fio reports them.
    rate: f64,
    /// CPU seconds of the thread that does the operations, as fio reports them.
    cpu: f64,
    /// CPU seconds of the whole fio process, starting and stopping included, and of the kernel
    /// threads that worked for it.
    whole_cpu: f64,
}
