//! Backends beside fio's engines: the same file, the same number of operations, in interleaved pairs of half a second.
//! It compares the rates, with latencies recorded on both sides, and the CPU time per operation.

mod cell;
mod fio;
mod ours;
mod place;
mod side;

use fsb_model::Bytes;

use crate::bench::{MISSED, Options, verdict};
use crate::summary::Median;
use cell::Cell;
pub use ours::{STEP, in_child, step};
use place::BenchDirectory;
use side::Cost;
pub use side::settle;

/// Pairs of each cell: the fewest whose interval leaves the extremes out.
const PAIRS: u32 = 9;

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let size = options.size;
    let wanted = |cell: &Cell| options.backend.as_deref().is_none_or(|backend| backend == cell.backend);
    if !crate::peers::fio_is_here() {
        println!("\nfio is missing and the backends are left out: apt-get install fio");
        return Ok(());
    }
    println!(
        "\nbackends beside fio, {size} file, {PAIRS} interleaved pairs; medians of fio's cost / ours, with the 95 %"
    );
    println!(
        "interval of the median: above 1 is better than fio; mmap in sequence goes over {} once\n",
        Bytes(size.0 * cell::PASS)
    );
    println!("{:<6} {:<13} {:<16} {:>12} {:>20} {:>20}", "", "backend", "work", "rate", "time", "CPU time");
    let mut missed = 0;
    for place in place::all(&options.dir, Bytes(size.0 * cell::PASS))?.each() {
        for cell in cell::all().filter(|cell| cell.makes_sense_on(place) && wanted(cell)) {
            let [time, cpu] = compare(place, &cell, cell.file_size(size))?;
            missed += [time, cpu].iter().filter(|ratio| verdict(ratio) == MISSED).count();
        }
    }
    println!("\nfio had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// One cell: as many operations as we do in a while, then pairs.
fn compare(place: &BenchDirectory, cell: &Cell, size: Bytes) -> anyhow::Result<[Median; 2]> {
    let ours = ours::Ours::prepare(place.directory(), cell, size)?;
    let most = if cell.one_pass() { size.0 / cell.block_size() } else { u64::MAX };
    let operations = ours.calibrate(most)?;
    let fio = fio::Fio::new(ours.file(), cell, size, operations)?;
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
    let [time, cpu, rate] = [time, cpu, rate].map(Median::of);
    println!(
        "{:<6} {:<13} {:<16} {:>12} {:>20} {:>20}",
        place.name(),
        cell.backend,
        cell.work(),
        cell.rate(rate.value),
        format!("{} {time:.2}", verdict(&time)),
        format!("{} {cpu:.2}", verdict(&cpu)),
    );
    Ok([time, cpu])
}
