//! Seconds of the build of `make run`, sizes of the program, and the time of `fsb --help` and `fsb
//! postmark`, in interleaved pairs beside an earlier build and PostMark.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::bench::Options;
use crate::compare::program;
use crate::peers::{self, Median};

/// The environment variable with the path of the earlier build of `fsb`.
const BEFORE: &str = "FSB_BEFORE";
/// The environment variable with the directory of the earlier source.
const BEFORE_SOURCE: &str = "FSB_BEFORE_SOURCE";
/// The largest ratio of the time, and of the processor time, of `make build` to the earlier source.
const BUILD_GOAL: f64 = 0.45;
/// The largest size of the program that `make dist` publishes.
const SIZE_GOAL: u64 = 15_000_000;
/// The largest median of `fsb --help`, in milliseconds.
const HELP_GOAL: f64 = 5.0;
/// The largest median of the difference to PostMark, in milliseconds.
const POSTMARK_GOAL: f64 = 3.0;
/// The smallest ratio of the rates of the build of `make run` to the release build.
const ENGINE_GOAL: f64 = 0.98;
/// Reads of 4 KiB at random places of a file in the page cache. One second each.
const JOB: &str = "[global]\nsize=64m\nbs=4k\nioengine=psync\ninvalidate=0\ntime_based\nruntime=1\n\
                   [reads]\nrw=randread\n";

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let fsb = program()?;
    let before = env::var_os(BEFORE).map(PathBuf::from);
    let pairs = options.pairs.max(9);
    println!("\n{pairs} interleaved pairs: median, 95 % interval of the median, goal");
    if before.is_none() {
        println!("{BEFORE} names no earlier build: no ratios to one");
    }
    print_sizes(&fsb, before.as_deref())?;
    let directory = peers::work_directory(&options.dir)?;
    print_start(&fsb, before.as_deref(), pairs)?;
    print_postmark(&fsb, directory.path(), pairs)?;
    print_rates(&fsb, directory.path(), pairs)?;
    print_builds(directory.path(), options.builds)
}

/// The bound on a median.
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// Prints one row.
fn print_row(name: &str, unit: &str, values: Vec<f64>, goal: Option<Goal>) {
    let median = Median::from_values(values);
    let (kept, bound) = match goal {
        None => (None, String::new()),
        Some(Goal::AtMost(bound)) => (Some(median.value <= bound), format!("<= {bound}")),
        Some(Goal::AtLeast(bound)) => (Some(median.value >= bound), format!(">= {bound}")),
    };
    let goal = match kept {
        None => String::new(),
        Some(true) => format!("  (goal {bound}{unit}: kept)"),
        Some(false) => format!("  (goal {bound}{unit}: MISSED)"),
    };
    println!("  {name:<44} {median}{unit}{goal}");
}

/// Prints the size of the program, and of the one that `make dist` made if there is one.
fn print_sizes(fsb: &Path, before: Option<&Path>) -> anyhow::Result<()> {
    let size = |path: &Path| {
        let data = fs::metadata(path).with_context(|| path.display().to_string());
        data.map(|data| data.len())
    };
    let now = size(fsb)?;
    println!("  size of {}: {now} bytes", fsb.display());
    if let Some(before) = before {
        let was = size(before)?;
        println!("  size now / before: {:.3}", now as f64 / was as f64);
    }
    let Some(target) = fsb.parent().and_then(Path::parent) else {
        return Ok(());
    };
    let published = target.join("deb/fsb");
    match size(&published) {
        Ok(bytes) => {
            let verdict = if bytes <= SIZE_GOAL { "kept" } else { "MISSED" };
            println!(
                "  size of the published program: {bytes} bytes (goal <= {SIZE_GOAL}: {verdict})"
            );
        }
        Err(_) => println!("  {} is not there: make dist", published.display()),
    }
    Ok(())
}

/// Prints the time of `fsb --help`.
fn print_start(fsb: &Path, before: Option<&Path>, pairs: u32) -> anyhow::Result<()> {
    let help = |program: &Path| milliseconds(Command::new(program).arg("--help"), "");
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let Some(before) = before else {
            times.push(help(fsb)?);
            continue;
        };
        let [now, was] = in_turn(pair, || help(fsb), || help(before))?;
        times.push(now);
        ratios.push(now / was);
    }
    print_row("fsb --help", " ms", times, Some(Goal::AtMost(HELP_GOAL)));
    if !ratios.is_empty() {
        print_row("fsb --help, now / before", "", ratios, None);
    }
    Ok(())
}

/// Prints how much later than PostMark `fsb postmark` ends: without work, and with one small run.
fn print_postmark(fsb: &Path, directory: &Path, pairs: u32) -> anyhow::Result<()> {
    let mut ask = Command::new("postmark");
    let here = ask.stdin(Stdio::null()).stdout(Stdio::null()).status();
    if here.is_err() {
        println!("  PostMark is missing and left out: apt-get install postmark");
        return Ok(());
    }
    let files = directory.join("files");
    fs::create_dir(&files)?;
    let run = format!(
        "set location {}\nset number 10\nset transactions 10\nrun\nquit\n",
        files.display()
    );
    for (name, script) in [("quit", "quit\n"), ("a run of ten files", &run)] {
        let mut later = Vec::new();
        for pair in 0..pairs {
            let ours = || {
                milliseconds(
                    Command::new(fsb).arg("postmark").current_dir(directory),
                    script,
                )
            };
            let theirs = || milliseconds(Command::new("postmark").current_dir(directory), script);
            let [ours, theirs] = in_turn(pair, ours, theirs)?;
            later.push(ours - theirs);
        }
        let name = format!("fsb postmark - PostMark, {name}");
        print_row(&name, " ms", later, Some(Goal::AtMost(POSTMARK_GOAL)));
    }
    Ok(())
}

/// Prints the ratio of the rates of the build of `make run` and of the release build.
fn print_rates(fsb: &Path, directory: &Path, pairs: u32) -> anyhow::Result<()> {
    let target = fsb.parent().and_then(Path::parent).context("a target")?;
    let quick = target.join("quick-build/fsb");
    if !quick.exists() {
        println!("  {} is not there: make build", quick.display());
        return Ok(());
    }
    let job = directory.join("job.fio");
    fs::write(&job, JOB)?;
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let [quick, release] = in_turn(pair, || rate(&quick, &job), || rate(fsb, &job))?;
        ratios.push(quick / release);
    }
    print_row(
        "reads a second, make run / release",
        "",
        ratios,
        Some(Goal::AtLeast(ENGINE_GOAL)),
    );
    Ok(())
}

/// Returns operations per second of the job.
fn rate(fsb: &Path, job: &Path) -> anyhow::Result<f64> {
    let mut command = Command::new(fsb);
    command
        .args(["fio", "--output-format", "json", "--quiet"])
        .arg(job);
    let output = peers::run(&mut command)?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    report["jobs"][0]["read"]["iops"]
        .as_f64()
        .context("no iops")
}

/// Prints the ratios of time and processor time of `make build` in this source and in the earlier
/// one, each into an empty directory.
fn print_builds(directory: &Path, builds: u32) -> anyhow::Result<()> {
    let Some(before) = env::var_os(BEFORE_SOURCE).map(PathBuf::from) else {
        ensure!(
            builds == 0,
            "--builds {builds} needs an earlier source, which {BEFORE_SOURCE} names"
        );
        println!("  {BEFORE_SOURCE} names no earlier source: builds are left out");
        return Ok(());
    };
    let now = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for pair in 0..builds {
        let [now, was] = in_turn(
            pair,
            || build(&now, directory),
            || build(&before, directory),
        )?;
        println!(
            "  build {}: now {now:.1?} s, before {was:.1?} s of time and processor time",
            pair + 1
        );
        for (ratios, (now, was)) in ratios.iter_mut().zip(now.iter().zip(was)) {
            ratios.push(now / was);
        }
    }
    if builds == 0 {
        println!("  no pairs of builds: --builds 3");
        return Ok(());
    }
    let [time, processor] = ratios;
    println!("  {builds} pairs of builds; of fewer than 6 the interval is the range");
    print_row(
        "make build, time, now / before",
        "",
        time,
        Some(Goal::AtMost(BUILD_GOAL)),
    );
    print_row(
        "make build, processor time, now / before",
        "",
        processor,
        Some(Goal::AtMost(BUILD_GOAL)),
    );
    Ok(())
}

/// Returns seconds and processor seconds of `make build` from an empty target directory.
fn build(source: &Path, directory: &Path) -> anyhow::Result<[f64; 2]> {
    let target = directory.join("target");
    let (start, before) = (Instant::now(), peers::children_cpu());
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(source)
        .arg("build")
        .env("CARGO_TARGET_DIR", &target);
    peers::run(&mut make)?;
    let cost = [
        start.elapsed().as_secs_f64(),
        peers::children_cpu() - before,
    ];
    fs::remove_dir_all(target)?;
    Ok(cost)
}

/// Returns both sides of a pair. The order changes from pair to pair.
fn in_turn<T>(
    pair: u32,
    ours: impl Fn() -> anyhow::Result<T>,
    theirs: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<[T; 2]> {
    if pair.is_multiple_of(2) {
        let ours = ours()?;
        return Ok([ours, theirs()?]);
    }
    let theirs = theirs()?;
    Ok([ours()?, theirs])
}

/// Returns the milliseconds from the start to the end of a program that reads `input`.
fn milliseconds(command: &mut Command, input: &str) -> anyhow::Result<f64> {
    let mut file = tempfile::tempfile()?;
    std::io::Write::write_all(&mut file, input.as_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    command
        .stdin(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{command:?}"))?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(time)
}
