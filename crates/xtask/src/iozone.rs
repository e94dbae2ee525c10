//! `fsb iozone` beside IOzone itself: the same command line on the same file, in interleaved pairs, operation by
//! operation. In the page cache the two differ by what they do around the system calls, and that is what is looked for.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::bench::{MISSED, Options, verdict};
use crate::compare::program;
use crate::summary::Median;

/// IOzone's columns, in its order.
const OPERATIONS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random read",
    "random write",
    "bkwd read",
    "record rewrite",
    "stride read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];
/// File size and record size. Smaller files take IOzone a few ticks of its microsecond clock.
const CELLS: [[&str; 2]; 3] = [["16m", "4k"], ["64m", "64k"], ["64m", "1m"]];
/// Pairs of each cell: single measurements of milliseconds differ by tens of percent.
const PAIRS: u32 = 25;

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if !Command::new("iozone").arg("-v").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("\nIOzone is missing and left out: package iozone3 of Debian's non-free part");
        return Ok(());
    }
    let fsb = program()?;
    let directory = tempfile::Builder::new().prefix("fsb-bench-").tempdir_in(&options.dir)?;
    let file = directory.path().join("iozone.tmp");
    println!(
        "\nfsb iozone beside IOzone, page cache, {PAIRS} interleaved pairs; medians of our rate / IOzone's, with the"
    );
    println!("95 % interval of the median: above 1 is faster than IOzone\n");
    let mut missed = 0;
    for [size, record] in CELLS {
        let arguments = ["-s", size, "-r", record, "-f"];
        let ours = || rates(Command::new(&fsb).arg("iozone").args(arguments), &file);
        let theirs = || rates(Command::new("iozone").args(arguments), &file);
        let mut pairs = Vec::new();
        for pair in 0..PAIRS {
            // The order changes from pair to pair.
            pairs.push(match pair % 2 {
                0 => (ours()?, theirs()?),
                _ => {
                    let theirs = theirs()?;
                    (ours()?, theirs)
                }
            });
        }
        println!("file {size}, record {record}");
        for (index, operation) in OPERATIONS.iter().enumerate() {
            let ratio = Median::of(pairs.iter().map(|(ours, theirs)| ours[index] / theirs[index]));
            let verdict = verdict(&ratio);
            missed += usize::from(verdict == MISSED);
            println!("  {operation:<16} {verdict} {ratio:.2}");
        }
    }
    println!("\nIOzone had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// Kilobytes a second of each operation.
fn rates(command: &mut Command, file: &Path) -> anyhow::Result<Vec<f64>> {
    let output = command.arg(file).stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let numbers = |line: &str| line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>();
    let row = text.lines().filter_map(numbers).find(|row| row.len() == OPERATIONS.len() + 2);
    Ok(row.with_context(|| format!("{command:?} printed no row of rates: {text}"))?.split_off(2))
}
