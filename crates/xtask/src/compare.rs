//! `fsb compare` with its HTML page, compared with a NumPy/SciPy script that computes the classic
//! statistics alone, on the same files, in interleaved rounds. Also a run with ten times the files,
//! because the time must grow no faster than their number.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::peers::{self, Median};

const SETS: usize = 4;
/// Files of each set.
const FILES: usize = 5;
/// The time limit of the page in seconds.
const SECONDS: f64 = 1.0;
/// The script must take at least this many times as long.
const TIMES_FASTER: f64 = 20.0;
/// Files of a set for the test of growth. All `SETS` sets together have that many times the number.
const FEW_AND_MANY: [usize; 2] = [50, 500];
/// The limit of the time with ten times the files, as a factor. The constant part of the time makes
/// it lower, and processor caches that hold a smaller share of more data make it higher.
const GROWTH: f64 = 12.0;
/// Rounds of the test of growth.
const GROWTH_ROUNDS: u32 = 3;
/// The range of factors on the rates of 2010 in a set.
const SCALE: std::ops::Range<f64> = 0.8..1.25;

/// Seconds of one round.
#[derive(Default)]
struct Round {
    fsb: f64,
    /// The classic statistics of the page: each operation as a whole, by file size and by record
    /// size.
    script: Option<f64>,
    /// Each operation as a whole.
    whole: Option<f64>,
}

/// Measures and prints.
pub fn run(directory: &Path, rounds: u32) -> anyhow::Result<()> {
    let fsb = program()?;
    let directory = peers::work_directory(directory)?;
    let sets = make_sets(directory.path(), FILES)?;
    let python = python();
    if python.is_none() {
        println!(
            "numpy or scipy is missing and the script is left out: apt-get install python3-scipy"
        );
    }
    println!("\nfsb compare, {SETS} sets of {FILES} full IOzone files, with its HTML page");
    println!(
        "against a script for the classic statistics alone: all of them, and without those by size"
    );
    println!("{rounds} interleaved rounds, milliseconds:\n");
    println!(
        "{:>6} {:>9} {:>9} {:>9}",
        "round", "fsb", "script", "no sizes"
    );
    let page = directory.path().join("report.html");
    let mut measured = Vec::new();
    for number in 0..rounds {
        let mut round = Round::default();
        // The order changes from round to round.
        for turn in 0..3 {
            match ((turn + number) % 3, python.as_deref()) {
                (0, _) => round.fsb = timed(&mut compare(&fsb, &sets, &page))?,
                (1, Some(python)) => round.script = Some(timed(&mut script(python, &sets))?),
                (2, Some(python)) => {
                    round.whole = Some(timed(script(python, &sets).arg("--whole"))?)
                }
                _ => {}
            }
        }
        let shown = |seconds: Option<f64>| {
            seconds.map_or_else(|| "-".to_owned(), |s| format!("{:.1}", s * 1e3))
        };
        let (script, whole) = (shown(round.script), shown(round.whole));
        println!(
            "{:>6} {:>9.1} {script:>9} {whole:>9}",
            number + 1,
            round.fsb * 1e3
        );
        measured.push(round);
    }
    print_summary(&measured);
    growth(&fsb, directory.path())
}

fn print_summary(rounds: &[Round]) {
    println!("\nmedians, with the 95 % interval of the median:");
    let ours = Median::from_values(rounds.iter().map(|round| round.fsb));
    println!(
        "{:<28} {ours:.3}{}",
        "fsb compare, seconds",
        verdict(ours.value <= SECONDS, SECONDS)
    );
    let ratio = |of: &dyn Fn(&Round) -> Option<f64>| {
        let ratios: Vec<f64> = rounds
            .iter()
            .filter_map(|round| Some(of(round)? / round.fsb))
            .collect();
        (!ratios.is_empty()).then(|| Median::from_values(ratios))
    };
    match ratio(&|round| round.script) {
        Some(all) => println!(
            "{:<28} {all:.1}{}",
            "script / fsb",
            verdict(all.value >= TIMES_FASTER, TIMES_FASTER)
        ),
        None => println!("{:<28} not measured", "script / fsb"),
    }
    if let Some(whole) = ratio(&|round| round.whole) {
        println!("{:<28} {whole:.1}", "script without sizes / fsb");
    }
}

/// Few files and ten times as many, by turns.
fn growth(fsb: &Path, directory: &Path) -> anyhow::Result<()> {
    let mut sets = Vec::new();
    for (name, files) in ["few", "many"].into_iter().zip(FEW_AND_MANY) {
        let directory = directory.join(name);
        fs::create_dir(&directory)?;
        sets.push(make_sets(&directory, files)?);
    }
    let page = directory.join("growth.html");
    let mut ratios = Vec::new();
    for _ in 0..GROWTH_ROUNDS {
        let few = timed(&mut compare(fsb, &sets[0], &page))?;
        let many = timed(&mut compare(fsb, &sets[1], &page))?;
        ratios.push(many / few);
    }
    let ratio = Median::from_values(ratios);
    let [few, many] = FEW_AND_MANY.map(|files| files * SETS);
    let name = format!("{many} files / {few} files");
    println!(
        "{name:<28} {:.1}{}",
        ratio.value,
        verdict(ratio.value <= GROWTH, GROWTH)
    );
    Ok(())
}

/// Returns whether a budget was kept as the end of a line.
pub fn verdict(kept: bool, budget: f64) -> String {
    format!(
        "  (budget {budget}: {})",
        if kept { "kept" } else { "MISSED" }
    )
}

/// Returns the report of a run in JSON.
pub fn report_of(run: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(program()?);
    command.arg("report").arg(run).args(["--format", "json"]);
    Ok(serde_json::from_slice(&peers::run(&mut command)?.stdout)?)
}

/// Returns the release build of the program, which is beside this program.
pub fn program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("fsb");
    ensure!(
        program.exists(),
        "{} is not there: cargo build --release --package fsb",
        program.display()
    );
    Ok(program)
}

/// Returns a Python interpreter with NumPy and SciPy: PYTHON or `python3`. Returns `None` if there
/// is none.
fn python() -> Option<String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut asked = Command::new(&python);
    let here = asked
        .args(["-c", "import numpy, scipy"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success());
    here.then_some(python)
}

fn compare(fsb: &Path, sets: &[String], page: &Path) -> Command {
    let mut command = Command::new(fsb);
    command.arg("compare").args(sets).arg("-o").arg(page);
    command
}

fn script(python: &str, sets: &[String]) -> Command {
    let mut command = Command::new(python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/compare_peer.py"))
        .args(sets);
    command
}

/// Returns the seconds from start to end of a process that must succeed.
fn timed(command: &mut Command) -> anyhow::Result<f64> {
    let start = Instant::now();
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(
        output.status.success(),
        "{:?}: {}",
        command.get_program(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(seconds)
}

/// Sets of full IOzone files, as arguments: the files of 2010 with each rate scaled by a seeded
/// factor, so that no two files are the same.
fn make_sets(directory: &Path, files: usize) -> anyhow::Result<Vec<String>> {
    let sources = sources()?;
    let mut arguments = Vec::new();
    for set in 0..SETS {
        let mut paths = Vec::new();
        for file in 0..files {
            let mut random = Pcg64Mcg::seed_from_u64((set * files + file) as u64);
            let path = directory.join(format!("set{set}_{file}.iozone"));
            fs::write(
                &path,
                scaled(&sources[(set * FILES + file) % sources.len()], &mut random)?,
            )?;
            paths.push(path.display().to_string());
        }
        arguments.push(format!("set{set}={}", paths.join(",")));
    }
    Ok(arguments)
}

/// Returns the texts of the ten files.
fn sources() -> anyhow::Result<Vec<String>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/iozone-2010");
    let names = (1..=FILES).flat_map(|n| {
        [
            format!("xfs/xfs{n}.iozone"),
            format!("ext4/ext4_{n}.iozone"),
        ]
    });
    names
        .map(|name| fs::read_to_string(data.join(&name)).with_context(|| name.clone()))
        .collect()
}

/// Returns the same file with other rates. Lines outside the table stay unchanged.
fn scaled(text: &str, random: &mut Pcg64Mcg) -> anyhow::Result<String> {
    let mut scaled = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        match line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<u64>, _>>()
        {
            Ok(row) if row.len() > 2 => {
                write!(scaled, "{:>16} {:>7}", row[0], row[1])?;
                for rate in &row[2..] {
                    write!(
                        scaled,
                        " {:>8}",
                        (*rate as f64 * random.random_range(SCALE)).round()
                    )?;
                }
                scaled.push('\n');
            }
            _ => writeln!(scaled, "{line}")?,
        }
    }
    Ok(scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_changes_rates_and_nothing_else() {
        let text = "\tCommand line used: iozone -a\n   kB  reclen   write rewrite\n    64       4  100000       0\n\ndone.\n";
        let scaled = scaled(text, &mut Pcg64Mcg::seed_from_u64(1)).unwrap();
        let (before, after): (Vec<&str>, Vec<&str>) =
            (text.lines().collect(), scaled.lines().collect());
        assert_eq!(after.len(), before.len());
        assert!(
            [0, 1, 3, 4]
                .iter()
                .all(|line| after[*line] == before[*line]),
            "{scaled}"
        );
        let row: Vec<u64> = after[2]
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!((row.len(), row[0], row[1], row[3]), (4, 64, 4, 0));
        assert!(
            row[2] != 100_000 && SCALE.contains(&(row[2] as f64 / 1e5)),
            "{row:?}"
        );
    }
}
