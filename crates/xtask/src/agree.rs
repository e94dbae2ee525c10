//! Compares FSBench with fio. Each case of the suite `quick` that fio supports runs in FSBench's
//! engine and in fio with the job file of `fsb export`. The two sides run unit by unit, on the same
//! mounted file system, from the same starting state, in pairs in random order.
//!
//! The engine creates the initial content of files once, and fio's names are hard links to the same
//! files. Each side has its own new files, which are removed before the other side's turn. Caches
//! are emptied before each side of a case that begins cold.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use fsb_engine::{Sizing, Step, StepReport, Task};
use fsb_model::{Bytes, CacheState, Settings};
use fsb_runner::plan_file::{PlanFile, typed};
use fsb_runner::work::CellUnit;
use fsb_testbed::control::Machine;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use rustix::thread::CpuSet;
use serde_json::Value;

use crate::backends::{in_child, settle};
use crate::bench::Options;
use crate::compare::program;
use crate::peers::{self, Median};

/// The file systems of the cases.
const TARGETS: [&str; 2] = ["ext4", "xfs"];
/// The directory of images in memory.
const MEMORY: &str = "/dev/shm";
pub(crate) const IMAGE: Bytes = Bytes(2 << 30);
/// Seconds that each side of a pair should take, because fio reports whole milliseconds.
const LENGTH: f64 = 0.8;
/// The time limit for touching a virtual machine's memory in advance.
const MEMORY_PATIENCE: Duration = Duration::from_secs(60);
/// The maximum number of units per side.
const MOST_UNITS: u64 = 4096;

/// A mounted file system, unmounted when dropped.
struct Place<'d> {
    target: &'static str,
    medium: &'static str,
    directory: &'d Path,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        peers::unmount(self.directory);
    }
}

/// Measures and prints. Without root or fio it prints that it skips this part.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if !peers::is_here("fio") {
        println!("\nfio is missing and rows beside it are left out: apt-get install fio");
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        println!("\nrows beside fio: left out, for file systems are made by root only");
        return Ok(());
    }
    let directory = peers::work_directory(&options.dir)?;
    peers::leave_mounts()?;
    let machine = still()?;
    machine
        .warnings()
        .iter()
        .for_each(|warning| eprintln!("{warning:?}"));
    let mut rows = all_cases("quick", IMAGE, &fio_labels("quick", IMAGE)?)?;
    rows.retain(|row| {
        options
            .row
            .as_ref()
            .is_none_or(|wanted| row.label.contains(wanted))
    });
    print_head(options.pairs);
    let mut outside = 0;
    let media = [("memory", Some(Path::new(MEMORY))), ("disk", None)];
    let wanted = |medium: &str| {
        options
            .medium
            .as_deref()
            .is_none_or(|wanted| wanted == medium)
    };
    for (medium, at) in media.into_iter().filter(|(medium, _)| wanted(medium)) {
        for target in TARGETS {
            let mount = directory.path().join(format!("{target}-{medium}"));
            std::fs::create_dir(&mount)?;
            peers::mount(target, &mount, at, IMAGE.0)?;
            let place = Place {
                target,
                medium,
                directory: &mount,
            };
            for row in &rows {
                let line = compare(&place, row, options.pairs, directory.path())?;
                outside += usize::from(!line.agrees());
                line.print();
            }
        }
    }
    machine
        .release()
        .iter()
        .for_each(|left| eprintln!("not undone: {left}"));
    println!("\n{outside} of these are not within 5 % with their whole interval");
    Ok(())
}

/// Prepares the machine as for a run, with both sides on the last processor and the kernel's
/// workers on the first. The processors that the scheduler chooses for a process and the loop
/// device's worker change medians of single runs by a third.
fn still() -> anyhow::Result<Machine> {
    let processors = std::thread::available_parallelism()?.get();
    let mut asked = vec![("idle", "poll")];
    if processors > 1 {
        asked.push(("kernel-cpus", "0"));
        let mut last = CpuSet::new();
        last.set(processors - 1);
        rustix::thread::sched_setaffinity(None, &last).context("a processor of our own")?;
    }
    Ok(Machine::hold(&asked, MEMORY_PATIENCE)?)
}

/// Compares one case on one file system: finds the number of units that take long enough, then
/// measures pairs.
fn compare(place: &Place<'_>, row: &AgreeCase, pairs: u32, scratch: &Path) -> anyhow::Result<Line> {
    let root = place.directory.join("row");
    std::fs::create_dir(&root)?;
    let units = calibrate(row, &root, most_units(row))?;
    let jobs: PathBuf = scratch.join(format!("jobs-{units}"));
    let fio = Fio::new(&jobs, row, units, IMAGE, &root)?;
    let ours = Ours::new(row, &root, units);
    if row.prepared {
        ours.prepare()?;
        fio.link(&ours.files()?)?;
    }
    // The orders are reproducible, and they differ between labels of different length.
    let mut luck = Pcg64Mcg::seed_from_u64(row.label.len() as u64);
    let (mut ratios, mut costs) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let (mine, theirs) = peers::both(&mut luck, || ours.measure(pair), || fio.measure(pair))?;
        ratios.push(theirs / mine);
        costs.push(mine);
    }
    std::fs::remove_dir_all(&root)?;
    Ok(Line {
        target: place.target,
        medium: place.medium,
        row: row.label.clone(),
        units,
        unit_seconds: Median::from_values(costs),
        ratio: Median::from_values(ratios),
    })
}

/// Returns the number of units for which the image has room.
pub(crate) fn most_units(row: &AgreeCase) -> u64 {
    if row.own_files() {
        (IMAGE.0 / 5 * 2 / row.space().max(1)).clamp(1, MOST_UNITS)
    } else {
        MOST_UNITS
    }
}

/// Returns the number of units that take about as long as one side of a pair should.
pub(crate) fn calibrate(row: &AgreeCase, root: &Path, most: u64) -> anyhow::Result<u64> {
    let mut units = 1;
    loop {
        let ours = Ours::new(row, root, units);
        if row.prepared {
            ours.prepare()?;
        }
        let seconds = ours.measure(0)? * units as f64;
        if row.prepared {
            ours.cleanup()?;
        }
        if seconds >= LENGTH / 4.0 || units == most {
            return Ok(((units as f64 * LENGTH / seconds).ceil() as u64).clamp(1, most));
        }
        units = most.min(units * 4);
    }
}

/// The result of one case on one file system.
struct Line {
    target: &'static str,
    medium: &'static str,
    row: String,
    /// Units of each side of a pair.
    units: u64,
    /// Seconds of one unit in FSBench.
    unit_seconds: Median,
    /// fio's time divided by ours.
    ratio: Median,
}

/// The range of ratios of two cases that count as equal.
const WITHIN: [f64; 2] = [0.95, 1.05];

/// Prints the heading of the table.
fn print_head(pairs: u32) {
    println!(
        "\nrows of the suite 'quick' beside fio, {pairs} pairs in an order that is drawn; medians of fio's time / ours,"
    );
    println!("with the 95 % interval of the median: above 1 fsb took less time\n");
    println!("| medium | file system | row | units a side | a unit, ms | fio / fsb | within 5 % |");
    println!("|---|---|---|--:|--:|---|---|");
}

impl Line {
    /// Returns whether the whole interval is within 5 %.
    fn agrees(&self) -> bool {
        let [low, high] = self.ratio.interval;
        low >= WITHIN[0] && high <= WITHIN[1]
    }

    fn verdict(&self) -> &'static str {
        let [low, high] = self.ratio.interval;
        match () {
            () if self.agrees() => "yes",
            () if low > WITHIN[1] || high < WITHIN[0] => "no",
            () => "not decided",
        }
    }

    fn print(&self) {
        let Line {
            target,
            medium,
            row,
            units,
            unit_seconds,
            ratio,
        } = self;
        let unit = unit_seconds.value * 1e3;
        println!(
            "| {medium} | {target} | {row} | {units} | {unit:.2} | {ratio} | {} |",
            self.verdict()
        );
    }
}

/// A case with its unit.
pub(crate) struct AgreeCase {
    /// The label in tables.
    pub(crate) label: String,
    /// The position in the suite, from 1.
    number: usize,
    /// Whether nothing of its files may be in memory.
    cold: bool,
    /// Whether its files exist before the measurement.
    pub(crate) prepared: bool,
    unit: CellUnit,
}

/// Returns the cases that have units and one of the labels `possible`.
pub(crate) fn all_cases(
    suite: &str,
    image: Bytes,
    possible: &[String],
) -> anyhow::Result<Vec<AgreeCase>> {
    let plan = PlanFile {
        targets: vec![typed("ext4")],
        settings: Settings::default()
            .with_text("suite", suite)
            .with_number("size", image.0),
        ..PlanFile::default()
    };
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let cells = plan.resolve(cpus, 1)?.work.cells;
    let row = |(number, cell): (usize, fsb_runner::work::ParsedCell)| {
        let label = cell.cell.label;
        possible.contains(&label).then_some(())?;
        Some(AgreeCase {
            cold: cell.profile.cache == CacheState::Cold,
            // A case that only writes and does not overwrite creates its files itself.
            prepared: !cell.profile.only_writes
                || cell.cell.workload.params.get("overwrite") == Some(&true.into()),
            unit: cell.unit?,
            label,
            number,
        })
    };
    Ok((1..).zip(cells).filter_map(row).collect())
}

impl AgreeCase {
    /// Returns whether each unit has its own files.
    fn own_files(&self) -> bool {
        self.unit.own_files
    }

    /// Returns the bytes of a unit's files.
    fn space(&self) -> u64 {
        self.unit.space
    }

    /// Returns the task of a step with this number of units.
    fn task(&self, step: Step, root: &std::path::Path, units: u64, repetition: u32) -> Task {
        let own = self.own_files().then_some(fsb_engine::Units {
            first: 0,
            count: units as u32,
        });
        let operations = if own.is_some() {
            self.unit.operations
        } else {
            self.unit.operations * units
        };
        let sizing = Sizing { size: 0, cpus: 1 };
        let plain = Task::plain(
            step,
            self.unit.workload.clone(),
            sizing,
            root,
            42,
            operations,
        );
        Task {
            repetition,
            units: own,
            ..plain
        }
    }
}

// The FSBench side of a pair: the steps of a trial, each in a separate process.

/// A case on a file system.
pub(crate) struct Ours<'r> {
    row: &'r AgreeCase,
    root: &'r Path,
    units: u64,
}

impl<'r> Ours<'r> {
    pub(crate) fn new(row: &'r AgreeCase, root: &'r Path, units: u64) -> Ours<'r> {
        Ours { row, root, units }
    }

    /// Creates the files.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        self.step(Step::Prepare, 0).map(drop)
    }

    /// Removes the files.
    fn cleanup(&self) -> anyhow::Result<()> {
        self.step(Step::Cleanup, 0).map(drop)
    }

    /// Returns the seconds of a unit, from the start of its first call to the end of its last one.
    fn measure(&self, pair: u32) -> anyhow::Result<f64> {
        if !self.row.prepared {
            self.prepare()?;
        }
        begin(self.row, self.root)?;
        let StepReport::Measured(measured) = self.step(Step::Measure, pair)? else {
            anyhow::bail!("the measure step measured nothing")
        };
        if !self.row.prepared {
            self.cleanup()?;
        }
        let units = measured.len() as u64;
        ensure!(
            units == if self.row.own_files() { self.units } else { 1 },
            "{units} units were measured"
        );
        Ok(measured
            .iter()
            .map(|unit| unit.timed_ns as f64 * 1e-9)
            .sum::<f64>()
            / self.units as f64)
    }

    /// Returns the files, unit by unit.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut waiting = vec![self.root.join("fsb-set")];
        while let Some(directory) = waiting.pop() {
            for entry in
                std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?
            {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    waiting.push(entry.path())
                } else {
                    found.push(entry.path())
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn step(&self, step: Step, pair: u32) -> anyhow::Result<StepReport> {
        in_child(&self.row.task(step, self.root, self.units, pair))
    }
}

/// Establishes the initial state of each side: everything is on the device, and if the case begins
/// cold, nothing is in memory.
fn begin(row: &AgreeCase, root: &Path) -> anyhow::Result<()> {
    settle(root)?;
    if row.cold {
        std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop_caches")?;
    }
    Ok(())
}

// fio's side of a pair: a section of the job file that `fsb export` writes.

/// Half of the millisecond that fio rounds its time up to.
const ROUNDED: f64 = 0.0005;

/// A section of the job file, on a file system.
pub(crate) struct Fio<'r> {
    row: &'r AgreeCase,
    jobs: PathBuf,
    section: String,
    root: &'r Path,
    units: u64,
}

/// Returns the job file of a suite, written into `directory` unless it is there.
fn export_jobs(suite: &str, directory: &Path, units: u64, image: Bytes) -> anyhow::Result<PathBuf> {
    let jobs = directory.join(format!("{suite}.fio"));
    if !jobs.exists() {
        let units = units.to_string();
        let mut export = Command::new(program()?);
        export.args([
            "export", "fio", "ext4", "--seed", "1", "--suite", suite, "--units", &units,
        ]);
        peers::run(
            export
                .args(["--size", &image.to_string(), "-o"])
                .arg(directory),
        )?;
    }
    Ok(jobs)
}

/// Returns the labels of the cases in the job file. Each label is in the comment before its
/// section.
pub(crate) fn fio_labels(suite: &str, image: Bytes) -> anyhow::Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let text = std::fs::read_to_string(export_jobs(suite, directory.path(), 1, image)?)?;
    let lines: Vec<&str> = text.lines().collect();
    let sections = lines.windows(2).filter(|pair| pair[1].starts_with('['));
    Ok(sections
        .filter_map(|pair| Some(pair[0].strip_prefix("# ")?.to_owned()))
        .collect())
}

impl<'r> Fio<'r> {
    /// Finds the section of the case.
    pub(crate) fn new(
        directory: &Path,
        row: &'r AgreeCase,
        units: u64,
        image: Bytes,
        root: &'r Path,
    ) -> anyhow::Result<Fio<'r>> {
        let jobs = export_jobs("quick", directory, units, image)?;
        let text = std::fs::read_to_string(&jobs)?;
        let number = format!("[{:02}-", row.number);
        let section = text.lines().find_map(|line| {
            line.starts_with(&number)
                .then(|| line.trim_matches(['[', ']']))
        });
        let section = section
            .with_context(|| format!("no section for {}", row.label))?
            .to_owned();
        Ok(Fio {
            row,
            jobs,
            section,
            root,
            units,
        })
    }

    fn files(&self) -> PathBuf {
        self.root.join(format!("{}.files", self.section))
    }

    /// Gives the files the names that fio has for them.
    pub(crate) fn link(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        std::fs::create_dir(self.files())?;
        files.iter().enumerate().try_for_each(|(number, file)| {
            std::fs::hard_link(file, self.files().join(number.to_string()))
                .context("a link to a file of ours")
        })
    }

    /// Returns the seconds of a unit.
    pub(crate) fn measure(&self, pair: u32) -> anyhow::Result<f64> {
        if !self.row.prepared {
            std::fs::create_dir(self.files())?;
        }
        begin(self.row, self.root)?;
        // Another order in each pair; an option beside the file would belong to a job of its own.
        let text = std::fs::read_to_string(&self.jobs)?;
        let jobs = self.jobs.with_file_name("pair.fio");
        std::fs::write(
            &jobs,
            text.replace("randseed=1\n", &format!("randseed={}\n", pair + 1)),
        )?;
        let mut fio = Command::new("fio");
        fio.args(["--output-format=json", "--section", &self.section])
            .arg(&jobs);
        let output = fio
            .current_dir(self.root)
            .stdin(Stdio::null())
            .output()
            .context("fio")?;
        ensure!(
            output.status.success(),
            "fio: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        if !self.row.prepared {
            std::fs::remove_dir_all(self.files())?;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let report: Value =
            serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's report")?;
        let job = &report["jobs"][0];
        let runtime = ["read", "write"]
            .iter()
            .filter_map(|side| job[side]["runtime"].as_f64())
            .sum::<f64>()
            * 1e-3;
        ensure!(runtime > 0.0, "fio did nothing: {text}");
        Ok((runtime - ROUNDED) / self.units as f64)
    }
}
