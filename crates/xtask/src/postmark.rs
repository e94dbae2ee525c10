//! `fsb postmark` compared with PostMark itself: the same commands in the same directory, in interleaved pairs. Both
//! make the same calls on the same files, so the difference is the work around the calls.

use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::bench::{MISSED, Options, verdict};
use crate::compare::program;
use crate::summary::Median;

/// The settings besides the location. PostMark counts whole seconds, so the time is that of the whole program.
const SETTINGS: [(&str, &str); 4] = [
    ("as it starts, 1000 files", "set number 1000\nset transactions 20000\n"),
    (
        "unbuffered, blocks of 4 KiB",
        "set number 1000\nset transactions 20000\nset buffering false\nset read 4096\nset write 4096\n",
    ),
    ("tiny files", "set size 1 1000\nset number 5000\nset transactions 30000\n"),
    (
        "100 subdirectories, larger files",
        "set size 1000 100000\nset number 500\nset transactions 5000\nset subdirectories 100\n",
    ),
];

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if Command::new("postmark").stdin(Stdio::null()).stdout(Stdio::null()).status().is_err() {
        println!("\nPostMark is missing and left out: apt-get install postmark");
        return Ok(());
    }
    let fsb = program()?;
    let directory = tempfile::Builder::new().prefix("fsb-bench-").tempdir_in(&options.dir)?;
    let pairs = options.pairs;
    println!(
        "\nfsb postmark beside PostMark, {pairs} interleaved pairs; medians of our transactions a second / PostMark's,"
    );
    println!(
        "by the time of the whole program, with the 95 % interval of the median: above 1 is faster than PostMark."
    );
    println!("Then the same by CPU time, which a busy machine disturbs less\n");
    let mut missed = 0;
    for (name, settings) in SETTINGS {
        let script = directory.path().join("script");
        let files = directory.path().join("files");
        std::fs::create_dir(&files)?;
        std::fs::write(&script, format!("{settings}set location {}\nrun\nquit\n", files.display()))?;
        let ours = || cost(Command::new(&fsb).arg("postmark"), &script);
        let theirs = || cost(&mut Command::new("postmark"), &script);
        let mut ratios: [Vec<f64>; 2] = Default::default();
        // The first of each finds a directory that was never used.
        ours()?;
        theirs()?;
        for pair in 0..pairs {
            // The order changes from pair to pair.
            let (ours, theirs) = match pair % 2 {
                0 => (ours()?, theirs()?),
                _ => {
                    let theirs = theirs()?;
                    (ours()?, theirs)
                }
            };
            for (ratios, (theirs, ours)) in ratios.iter_mut().zip(theirs.into_iter().zip(ours)) {
                ratios.push(theirs / ours);
            }
        }
        let [time, cpu] = ratios.map(Median::of);
        missed += usize::from(verdict(&time) == MISSED);
        println!("  {name:<34} {} {time:.2}    {} {cpu:.2}", verdict(&time), verdict(&cpu));
        std::fs::remove_dir(&files).context("files were left behind")?;
    }
    println!("\nPostMark had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// Seconds that the program took, and CPU seconds of it.
fn cost(command: &mut Command, script: &Path) -> anyhow::Result<[f64; 2]> {
    let (start, before) = (Instant::now(), cpu_of_children());
    let output = command.arg(script).stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let cost = [start.elapsed().as_secs_f64(), cpu_of_children() - before];
    let text = String::from_utf8_lossy(&output.stdout);
    let reported = output.status.success() && text.contains("seconds of transactions");
    ensure!(reported, "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(cost)
}

/// CPU seconds of the programs that were waited for, in user mode and in the kernel.
fn cpu_of_children() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeros are a valid one should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6).sum()
}
