//! The commands of fsb that emulate other tools, compared with those tools: `fsb iozone`, `fsb
//! postmark` and `fsb filebench`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use fsb_compat::iozone::COLUMNS;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use crate::bench::{MISSED, Options, verdict};
use crate::compare::program;
use crate::peers::{self, Median};

// `fsb iozone`: the same command line on the same file, in interleaved pairs, operation by
// operation. In the page cache the two differ in their work around the system calls, which is what
// this measures.

/// File size and record size. Smaller files take IOzone a few ticks of its microsecond clock.
const IOZONE_CELLS: [[&str; 2]; 3] = [["16m", "4k"], ["64m", "64k"], ["64m", "1m"]];
/// Pairs of each cell: single measurements of milliseconds differ by tens of percent.
const IOZONE_PAIRS: u32 = 25;

/// Measures and prints.
pub fn iozone(options: &Options) -> anyhow::Result<()> {
    if !Command::new("iozone")
        .arg("-v")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("\nIOzone is missing and left out: package iozone3 of Debian's non-free part");
        return Ok(());
    }
    let fsb = program()?;
    let directory = peers::work_directory(&options.dir)?;
    let file = directory.path().join("iozone.tmp");
    println!(
        "\nfsb iozone beside IOzone, page cache, {IOZONE_PAIRS} interleaved pairs; medians of our rate / IOzone's, with the"
    );
    println!("95 % interval of the median: above 1 is faster than IOzone\n");
    let mut missed = 0;
    for [size, record] in IOZONE_CELLS {
        let arguments = ["-s", size, "-r", record, "-f"];
        let ours = || iozone_rates(Command::new(&fsb).arg("iozone").args(arguments), &file);
        let theirs = || iozone_rates(Command::new("iozone").args(arguments), &file);
        let mut pairs = Vec::new();
        for pair in 0..IOZONE_PAIRS {
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
        for (index, operation) in COLUMNS.iter().enumerate() {
            let ratio = Median::from_values(
                pairs
                    .iter()
                    .map(|(ours, theirs)| ours[index] / theirs[index]),
            );
            let verdict = verdict(&ratio);
            missed += usize::from(verdict == MISSED);
            println!("  {operation:<16} {verdict} {ratio:.2}");
        }
    }
    println!("\nIOzone had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// Kilobytes a second of each operation.
fn iozone_rates(command: &mut Command, file: &Path) -> anyhow::Result<Vec<f64>> {
    let output = command
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let numbers = |line: &str| {
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<f64>>>()
    };
    let row = text
        .lines()
        .filter_map(numbers)
        .find(|row| row.len() == COLUMNS.len() + 2);
    Ok(row
        .with_context(|| format!("{command:?} printed no row of rates: {text}"))?
        .split_off(2))
}

// `fsb postmark` compared with PostMark itself: the same commands in the same directory, in
// interleaved pairs. Both make the same calls on the same files, so the difference is the work
// around the calls.

/// The settings besides the location. PostMark counts whole seconds, so the time is that of the
/// whole program.
const POSTMARK_SETTINGS: [(&str, &str); 4] = [
    (
        "as it starts, 1000 files",
        "set number 1000\nset transactions 20000\n",
    ),
    (
        "unbuffered, blocks of 4 KiB",
        "set number 1000\nset transactions 20000\nset buffering false\nset read 4096\nset write 4096\n",
    ),
    (
        "tiny files",
        "set size 1 1000\nset number 5000\nset transactions 30000\n",
    ),
    (
        "100 subdirectories, larger files",
        "set size 1000 100000\nset number 500\nset transactions 5000\nset subdirectories 100\n",
    ),
];

/// Measures and prints.
pub fn postmark(options: &Options) -> anyhow::Result<()> {
    if Command::new("postmark")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("\nPostMark is missing and left out: apt-get install postmark");
        return Ok(());
    }
    let fsb = program()?;
    let directory = peers::work_directory(&options.dir)?;
    let pairs = options.pairs;
    println!(
        "\nfsb postmark beside PostMark, {pairs} interleaved pairs; medians of our transactions a second / PostMark's,"
    );
    println!(
        "by the time of the whole program, with the 95 % interval of the median: above 1 is faster than PostMark."
    );
    println!("Then the same by CPU time, which a busy machine affects less\n");
    let mut missed = 0;
    for (name, settings) in POSTMARK_SETTINGS {
        let script = directory.path().join("script");
        let files = directory.path().join("files");
        std::fs::create_dir(&files)?;
        std::fs::write(
            &script,
            format!("{settings}set location {}\nrun\nquit\n", files.display()),
        )?;
        let ours = || postmark_cost(Command::new(&fsb).arg("postmark"), &script);
        let theirs = || postmark_cost(&mut Command::new("postmark"), &script);
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
        let [time, cpu] = ratios.map(Median::from_values);
        missed += usize::from(verdict(&time) == MISSED);
        println!(
            "  {name:<34} {} {time:.2}    {} {cpu:.2}",
            verdict(&time),
            verdict(&cpu)
        );
        std::fs::remove_dir(&files).context("files were left behind")?;
    }
    println!("\nPostMark had {missed} of these for itself (whole interval below 1)");
    Ok(())
}

/// Returns the seconds that the program took, and CPU seconds of it.
fn postmark_cost(command: &mut Command, script: &Path) -> anyhow::Result<[f64; 2]> {
    let (start, before) = (Instant::now(), peers::children_cpu());
    let output = command
        .arg(script)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    let cost = [
        start.elapsed().as_secs_f64(),
        peers::children_cpu() - before,
    ];
    let text = String::from_utf8_lossy(&output.stdout);
    let reported = output.status.success() && text.contains("seconds of transactions");
    ensure!(
        reported,
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(cost)
}

// `fsb filebench` compared with filebench itself: the same file of its language on the same mounted
// file system, in pairs in random order. Each side creates its files and removes them.

/// Files with filebench's own structure and numbers.
const WML_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/filebench/wml");
const PERSONALITIES: [&str; 3] = ["varmail", "fileserver", "webserver"];
/// The file systems of the comparison.
const TARGETS: [&str; 2] = ["ext4", "xfs"];
/// The directory of images in memory, and the bytes of an image.
const MEMORY: (&str, u64) = ("/dev/shm", 4 << 30);
/// Seconds of each side, because filebench counts whole seconds.
const FILEBENCH_SECONDS: u32 = 4;

/// Measures and prints. Without root or filebench it prints that it skips this part.
pub fn filebench(options: &Options) -> anyhow::Result<()> {
    let here = Command::new("filebench")
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !here {
        println!(
            "\nfilebench is missing and left out: it is built from its public source, and found in PATH"
        );
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        println!(
            "\nfsb filebench beside filebench: left out, for file systems are made by root only"
        );
        return Ok(());
    }
    let fsb = program()?;
    let directory = peers::work_directory(&options.dir)?;
    peers::leave_mounts()?;
    let pairs = options.pairs;
    println!(
        "\nfsb filebench beside filebench, {FILEBENCH_SECONDS} s each, {pairs} pairs in an order that is drawn; medians of our"
    );
    println!("operations a second / filebench's, with the 95 % interval of the median\n");
    println!("| file system | file | operations a second | fsb / filebench |");
    println!("|---|---|--:|---|");
    for target in TARGETS {
        let mount = directory.path().join(target);
        fs::create_dir(&mount)?;
        peers::mount(target, &mount, Some(Path::new(MEMORY.0)), MEMORY.1)?;
        let compared = PERSONALITIES.iter().try_for_each(|name| {
            compare_personality(&fsb, target, name, &mount, directory.path(), pairs)
        });
        peers::unmount(&mount);
        compared?;
    }
    Ok(())
}

/// One file on one file system.
fn compare_personality(
    fsb: &Path,
    target: &str,
    name: &str,
    mount: &Path,
    scratch: &Path,
    pairs: u32,
) -> anyhow::Result<()> {
    let text = fs::read_to_string(Path::new(WML_FILES).join(format!("{name}.f")))?;
    let script = scratch.join(format!("{name}.f"));
    fs::write(&script, changed(&text, mount)?)?;
    // filebench needs its shared memory at one address.
    let theirs = || {
        let rate = filebench_rate(
            Command::new("setarch")
                .args(["-R", "filebench", "-f"])
                .arg(&script),
        )?;
        for left in fs::read_dir(mount)?
            .flatten()
            .filter(|entry| entry.file_name() != "lost+found")
        {
            fs::remove_dir_all(left.path())?;
        }
        Ok::<_, anyhow::Error>(rate)
    };
    let mut luck = Pcg64Mcg::seed_from_u64(name.len() as u64);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    // Sometimes filebench succeeds without printing a summary.
    let mut lost = 0;
    while ratios.len() < pairs as usize {
        let (ours, theirs) = peers::both(
            &mut luck,
            || filebench_rate(Command::new(fsb).arg("filebench").arg(&script)),
            theirs,
        )?;
        let ours = ours.context("fsb filebench printed no summary")?;
        match theirs {
            Some(theirs) => {
                ratios.push(ours / theirs);
                rates.push(ours);
            }
            None => lost += 1,
        }
        ensure!(lost <= pairs, "filebench printed no summary {lost} times");
    }
    let lost = if lost > 0 {
        format!(" ({lost} more without a summary of filebench)")
    } else {
        String::new()
    };
    println!(
        "| {target} | {name} | {:.0} | {}{lost} |",
        Median::from_values(rates).value,
        Median::from_values(ratios)
    );
    Ok(())
}

/// Returns the same file with this run time and directory.
fn changed(text: &str, directory: &Path) -> anyhow::Result<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut set = |start: &str, line: String| {
        let found = lines
            .iter_mut()
            .find(|line| line.starts_with(start))
            .with_context(|| format!("no line '{start}'"));
        found.map(|found| *found = line)
    };
    set("set $dir=", format!("set $dir={}", directory.display()))?;
    set("run ", format!("run {FILEBENCH_SECONDS}"))?;
    Ok(lines.join("\n") + "\n")
}

/// Returns the operations per second from the summary that both tools print, or `None` if there is
/// none.
fn filebench_rate(command: &mut Command) -> anyhow::Result<Option<f64>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary = text
        .lines()
        .find_map(|line| line.split_once("IO Summary:"))
        .map(|(_, summary)| summary);
    let Some(summary) = summary else {
        return Ok(None);
    };
    let words: Vec<&str> = summary.split_whitespace().collect();
    let at = words
        .iter()
        .position(|word| *word == "ops/s")
        .context("no rate in the summary")?;
    words[at.saturating_sub(1)]
        .parse()
        .map(Some)
        .with_context(|| format!("no rate: {text}"))
}
