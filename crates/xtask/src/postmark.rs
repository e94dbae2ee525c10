//! `fsb postmark` beside PostMark itself: the same commands in the same directory, in interleaved pairs. Both make the same
//! calls on the same files, so what differs is what they do around them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::bench::{MISSED, Options, verdict};
use crate::compare::program;
use crate::summary::Median;

/// What is set beside the location. PostMark counts whole seconds, so each takes a few of them, and the time is that of
/// the whole program.
const SETTINGS: [(&str, &str); 4] = [
    ("as it starts, 1000 files", "set number 1000\nset transactions 60000\n"),
    (
        "unbuffered, blocks of 4 KiB",
        "set number 1000\nset transactions 60000\nset buffering false\nset read 4096\nset write 4096\n",
    ),
    ("tiny files", "set size 1 1000\nset number 5000\nset transactions 80000\n"),
    (
        "100 subdirectories, larger files",
        "set size 1000 100000\nset number 500\nset transactions 30000\nset subdirectories 100\n",
    ),
];
/// Pairs of each.
const PAIRS: u32 = 9;

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if Command::new("postmark").stdin(Stdio::null()).stdout(Stdio::null()).status().is_err() {
        println!("\nPostMark is missing and left out: apt-get install postmark");
        return Ok(());
    }
    let fsb = program()?;
    let directory = tempfile::Builder::new().prefix("fsb-bench-").tempdir_in(&options.dir)?;
    println!(
        "\nfsb postmark beside PostMark, {PAIRS} interleaved pairs; medians of our transactions a second / PostMark's,"
    );
    println!(
        "by the time of the whole program, with the 95 % interval of the median: above 1 is faster than PostMark\n"
    );
    let mut missed = 0;
    for (name, settings) in SETTINGS {
        let script = directory.path().join("script");
        let files = directory.path().join("files");
        std::fs::create_dir(&files)?;
        std::fs::write(&script, format!("{settings}set location {}\nrun\nquit\n", files.display()))?;
        let ours = || seconds(Command::new(&fsb).arg("postmark"), &script);
        let theirs = || seconds(&mut Command::new("postmark"), &script);
        let mut ratios = Vec::new();
        // The first of each finds a directory that was never used.
        (ours()?, theirs()?);
        for pair in 0..PAIRS {
            // Who comes first changes from pair to pair.
            let (ours, theirs) = match pair % 2 {
                0 => (ours()?, theirs()?),
                _ => {
                    let theirs = theirs()?;
                    (ours()?, theirs)
                }
            };
            ratios.push(theirs / ours);
        }
        let ratio = Median::of(ratios.into_iter());
        let verdict = verdict(&ratio);
        missed += usize::from(verdict == MISSED);
        println!("  {name:<34} {verdict} {ratio:.2}");
        std::fs::remove_dir(&files).context("files were left behind")?;
    }
    println!("\nPostMark had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// How long the program took.
fn seconds(command: &mut Command, script: &Path) -> anyhow::Result<f64> {
    let start = Instant::now();
    let output = command.arg(script).stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let reported = output.status.success() && text.contains("seconds of transactions");
    ensure!(reported, "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(seconds)
}
