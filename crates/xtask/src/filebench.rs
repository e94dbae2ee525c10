//! `fsb filebench` compared with filebench itself: the same file of its language on the same mounted file system, in
//! pairs in random order. Each side creates its files and removes them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use crate::bench::Options;
use crate::compare::program;
use crate::image;
use crate::peers;
use crate::summary::Median;

/// Files with filebench's own structure and numbers.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/filebench/wml");
const PERSONALITIES: [&str; 3] = ["varmail", "fileserver", "webserver"];
/// The file systems of the comparison.
const TARGETS: [&str; 2] = ["ext4", "xfs"];
/// The directory of images in memory, and the bytes of an image.
const MEMORY: (&str, u64) = ("/dev/shm", 4 << 30);
/// Seconds of each side, because filebench counts whole seconds.
const SECONDS: u32 = 4;

/// Measures and prints. Without root or filebench it prints that it skips this part.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let here = Command::new("filebench").arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !here {
        println!("\nfilebench is missing and left out: it is built from its public source, and found in PATH");
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        println!("\nfsb filebench beside filebench: left out, for file systems are made by root only");
        return Ok(());
    }
    let fsb = program()?;
    let directory = tempfile::Builder::new().prefix("fsb-bench-").tempdir_in(&options.dir)?;
    image::leave_mounts()?;
    let pairs = options.pairs;
    println!(
        "\nfsb filebench beside filebench, {SECONDS} s each, {pairs} pairs in an order that is drawn; medians of our"
    );
    println!("operations a second / filebench's, with the 95 % interval of the median\n");
    println!("| file system | file | operations a second | fsb / filebench |");
    println!("|---|---|--:|---|");
    for target in TARGETS {
        let mount = directory.path().join(target);
        fs::create_dir(&mount)?;
        image::mount(target, &mount, Some(Path::new(MEMORY.0)), MEMORY.1)?;
        let compared =
            PERSONALITIES.iter().try_for_each(|name| compare(&fsb, target, name, &mount, directory.path(), pairs));
        image::unmount(&mount);
        compared?;
    }
    Ok(())
}

/// One file on one file system.
fn compare(fsb: &Path, target: &str, name: &str, mount: &Path, scratch: &Path, pairs: u32) -> anyhow::Result<()> {
    let text = fs::read_to_string(Path::new(FILES).join(format!("{name}.f")))?;
    let script = scratch.join(format!("{name}.f"));
    fs::write(&script, changed(&text, mount)?)?;
    let ours = || rate(Command::new(fsb).arg("filebench").arg(&script));
    // filebench needs its shared memory at one address.
    let theirs = || {
        let rate = rate(Command::new("setarch").args(["-R", "filebench", "-f"]).arg(&script))?;
        for left in fs::read_dir(mount)?.flatten().filter(|entry| entry.file_name() != "lost+found") {
            fs::remove_dir_all(left.path())?;
        }
        Ok::<_, anyhow::Error>(rate)
    };
    let mut luck = Pcg64Mcg::seed_from_u64(name.len() as u64);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    // Sometimes filebench succeeds without printing a summary.
    let mut lost = 0;
    while ratios.len() < pairs as usize {
        let (ours, theirs) = peers::both(&mut luck, ours, theirs)?;
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
    let lost = if lost > 0 { format!(" ({lost} more without a summary of filebench)") } else { String::new() };
    println!("| {target} | {name} | {:.0} | {}{lost} |", Median::of(rates).value, Median::of(ratios));
    Ok(())
}

/// Returns the same file with this run time and directory.
fn changed(text: &str, directory: &Path) -> anyhow::Result<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut set = |start: &str, line: String| {
        let found = lines.iter_mut().find(|line| line.starts_with(start)).with_context(|| format!("no line '{start}'"));
        found.map(|found| *found = line)
    };
    set("set $dir=", format!("set $dir={}", directory.display()))?;
    set("run ", format!("run {SECONDS}"))?;
    Ok(lines.join("\n") + "\n")
}

/// Returns the operations per second from the summary that both tools print, or `None` if there is none.
fn rate(command: &mut Command) -> anyhow::Result<Option<f64>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let summary = text.lines().find_map(|line| line.split_once("IO Summary:")).map(|(_, summary)| summary);
    let Some(summary) = summary else { return Ok(None) };
    let words: Vec<&str> = summary.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ops/s").context("no rate in the summary")?;
    words[at.saturating_sub(1)].parse().map(Some).with_context(|| format!("no rate: {text}"))
}
