//! Compares FSBench with fio. Each case of the suite `quick` that fio supports runs in FSBench's engine and in fio with
//! the job file of `fsb export`. The two sides run unit by unit, on the same mounted file system, from the same
//! starting state, in pairs in random order.
//!
//! The engine creates the initial content of files once, and fio's names are hard links to the same files. Each side
//! has its own new files, which are removed before the other side's turn. Caches are emptied before each side of a case
//! that begins cold.

mod fio;
mod ours;
mod row;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use fsb_model::Bytes;
use fsb_testbed::control::Machine;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use row::AgreeCase;
use rustix::thread::CpuSet;

use crate::bench::Options;
use crate::summary::Median;
use crate::{image, peers};

/// The file systems of the cases.
const TARGETS: [&str; 2] = ["ext4", "xfs"];
/// The directory of images in memory.
const MEMORY: &str = "/dev/shm";
const IMAGE: Bytes = Bytes(2 << 30);
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
        image::unmount(self.directory);
    }
}

/// Measures and prints. Without root or fio it prints that it skips this part.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if !peers::fio_is_here() {
        println!("\nfio is missing and rows beside it are left out: apt-get install fio");
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        println!("\nrows beside fio: left out, for file systems are made by root only");
        return Ok(());
    }
    let directory = tempfile::Builder::new()
        .prefix("fsb-bench-")
        .tempdir_in(&options.dir)
        .with_context(|| format!("cannot work in {}", options.dir.display()))?;
    image::leave_mounts()?;
    let machine = still()?;
    machine.warnings().iter().for_each(|warning| eprintln!("{warning:?}"));
    let mut rows = row::all("quick", IMAGE, &fio::labels("quick", IMAGE)?)?;
    rows.retain(|row| options.row.as_ref().is_none_or(|wanted| row.label.contains(wanted)));
    print_head(options.pairs);
    let mut outside = 0;
    let media = [("memory", Some(Path::new(MEMORY))), ("disk", None)];
    let wanted = |medium: &str| options.medium.as_deref().is_none_or(|wanted| wanted == medium);
    for (medium, at) in media.into_iter().filter(|(medium, _)| wanted(medium)) {
        for target in TARGETS {
            let mount = directory.path().join(format!("{target}-{medium}"));
            std::fs::create_dir(&mount)?;
            image::mount(target, &mount, at, IMAGE.0)?;
            let place = Place { target, medium, directory: &mount };
            for row in &rows {
                let line = compare(&place, row, options.pairs, directory.path())?;
                outside += usize::from(!line.agrees());
                line.print();
            }
        }
    }
    machine.release().iter().for_each(|left| eprintln!("not undone: {left}"));
    println!("\n{outside} of these are not within 5 % with their whole interval");
    Ok(())
}

/// Prepares the machine as for a run, with both sides on the last processor and the kernel's workers on the first. The
/// processors that the scheduler chooses for a process and the loop device's worker change medians of single runs by a
/// third.
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

/// Compares one case on one file system: finds the number of units that take long enough, then measures pairs.
fn compare(place: &Place<'_>, row: &AgreeCase, pairs: u32, scratch: &Path) -> anyhow::Result<Line> {
    let root = place.directory.join("row");
    std::fs::create_dir(&root)?;
    let most = if row.own_files() { (IMAGE.0 / 5 * 2 / row.space().max(1)).clamp(1, MOST_UNITS) } else { MOST_UNITS };
    let units = calibrate(row, &root, most)?;
    let jobs: PathBuf = scratch.join(format!("jobs-{units}"));
    let fio = fio::Fio::new(&jobs, row, units, IMAGE, &root)?;
    let ours = ours::Ours { row, root: &root, units };
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
        unit_seconds: Median::of(costs),
        ratio: Median::of(ratios),
    })
}

/// Returns the number of units that take about as long as one side of a pair should.
fn calibrate(row: &AgreeCase, root: &Path, most: u64) -> anyhow::Result<u64> {
    let mut units = 1;
    loop {
        let ours = ours::Ours { row, root, units };
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
pub struct Line {
    pub target: &'static str,
    pub medium: &'static str,
    pub row: String,
    /// Units of each side of a pair.
    pub units: u64,
    /// Seconds of one unit in FSBench.
    pub unit_seconds: Median,
    /// fio's time divided by ours.
    pub ratio: Median,
}

/// The range of ratios of two cases that count as equal.
const WITHIN: [f64; 2] = [0.95, 1.05];

/// Prints the heading of the table.
pub fn print_head(pairs: u32) {
    println!(
        "\nrows of the suite 'quick' beside fio, {pairs} pairs in an order that is drawn; medians of fio's time / ours,"
    );
    println!("with the 95 % interval of the median: above 1 fsb took less time\n");
    println!("| medium | file system | row | units a side | a unit, ms | fio / fsb | within 5 % |");
    println!("|---|---|---|--:|--:|---|---|");
}

impl Line {
    /// Returns whether the whole interval is within 5 %.
    pub fn agrees(&self) -> bool {
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

    pub fn print(&self) {
        let Line { target, medium, row, units, unit_seconds, ratio } = self;
        let unit = unit_seconds.value * 1e3;
        println!("| {medium} | {target} | {row} | {units} | {unit:.2} | {ratio} | {} |", self.verdict());
    }
}
