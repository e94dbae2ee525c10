//! `fsb run --here` beside hyperfine, on a machine whose load comes and goes: the time for the same
//! precision, and answers about two equal commands.
//!
//! Each pair of runs compares a command with itself, so that every difference is an error. The
//! spread of a tool's ratios is its precision, whatever it prints. A spread falls with the square
//! root of the time, so the time that fsb needs for hyperfine's precision is its own time
//! multiplied by the square of the ratio of the spreads.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::bench::Options;
use crate::compare::{program, report_of};
use crate::peers;

/// A command of about 50 ms.
const COMMAND: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";
/// The largest ratio of the times for one precision.
const GOAL: f64 = 0.5;
/// Resamples of the pairs for the interval of the ratio.
const RESAMPLES: usize = 2000;
/// The lengths of a load and of a pause, in milliseconds.
const PHASE: std::ops::Range<u64> = 500..4000;

/// The run of a tool that compared the command with itself.
#[derive(Clone, Copy)]
struct Answer {
    seconds: f64,
    log_ratio: f64,
    /// Whether the tool says that one is faster.
    names_winner: bool,
}

/// Threads that keep every processor busy from time to time.
struct Load {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Load {
        let ended = Arc::new(AtomicBool::new(false));
        let processors = thread::available_parallelism().map_or(2, usize::from);
        let mut threads = Vec::new();
        for number in 0..processors {
            let ended = Arc::clone(&ended);
            let mut luck = Pcg64Mcg::seed_from_u64(number as u64);
            threads.push(thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let until = Instant::now() + phase(&mut luck);
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                    thread::sleep(phase(&mut luck));
                }
            }));
        }
        Load { ended, threads }
    }

    fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn phase(luck: &mut Pcg64Mcg) -> Duration {
    let span = PHASE.end - PHASE.start;
    Duration::from_millis(PHASE.start + luck.next_u64() % span)
}

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if !peers::is_here("hyperfine") {
        println!("\n'fsb run --here' beside hyperfine needs it: apt-get install hyperfine");
        return Ok(());
    }
    let directory = peers::work_directory(&options.dir)?;
    let load = Load::start();
    let mut pairs = Vec::new();
    for pair in 0..options.pairs {
        let both = if pair % 2 == 0 {
            let theirs = hyperfine(directory.path())?;
            (theirs, fsb(directory.path())?)
        } else {
            let ours = fsb(directory.path())?;
            (hyperfine(directory.path())?, ours)
        };
        pairs.push(both);
    }
    load.end();
    print(&pairs);
    Ok(())
}

/// Runs hyperfine with its defaults. Its summary always names the faster one; it counts as a winner
/// if the ratio is more than its ± above 1.
fn hyperfine(directory: &Path) -> anyhow::Result<Answer> {
    let began = Instant::now();
    let output = peers::run(Command::new("hyperfine").current_dir(directory).args([
        "--style",
        "basic",
        "--export-json",
        "hyperfine.json",
        COMMAND,
        COMMAND,
    ]))?;
    let seconds = began.elapsed().as_secs_f64();
    let json: Value = serde_json::from_slice(&std::fs::read(directory.join("hyperfine.json"))?)?;
    let mean = |at: usize| json["results"][at]["mean"].as_f64().context("no mean");
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Answer {
        seconds,
        log_ratio: (mean(1)? / mean(0)?).ln(),
        names_winner: summary_names_winner(&text).context("no summary of hyperfine")?,
    })
}

/// Reads `1.05 ± 0.02 times faster than`, with blanks or colours around numbers.
fn summary_names_winner(text: &str) -> Option<bool> {
    let line = text.lines().find(|line| line.contains("times faster"))?;
    let (ratio, rest) = line.split_once('±')?;
    let ratio: f64 = ratio.trim().parse().ok()?;
    let error: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(ratio - error > 1.0)
}

fn fsb(directory: &Path) -> anyhow::Result<Answer> {
    let out = directory.join("run");
    let _ = std::fs::remove_dir_all(&out);
    let began = Instant::now();
    peers::run(
        Command::new(program()?)
            .current_dir(directory)
            .args([
                "run",
                "--here",
                "-q",
                "--allow-concurrent",
                "-n",
                "one",
                "-n",
                "two",
            ])
            .args([COMMAND, COMMAND, "--out"])
            .arg(&out),
    )?;
    let seconds = began.elapsed().as_secs_f64();
    let report = report_of(&out)?;
    let against = &report["cases"][0]["cells"][1]["against"];
    let verdict = against["verdict"].as_str().unwrap_or_default();
    Ok(Answer {
        seconds,
        log_ratio: against["ratio"].as_f64().context("no ratio")?.ln(),
        names_winner: ["faster", "slower", "probably_faster", "probably_slower"].contains(&verdict),
    })
}

/// Returns the seconds that fsb needs for the spread of hyperfine, over the seconds of hyperfine.
fn ratio(pairs: &[(Answer, Answer)]) -> f64 {
    let [theirs, ours] = totals(pairs);
    ours.0 / theirs.0 * (ours.1 / theirs.1).powi(2)
}

/// Returns the mean seconds, the root mean square of the error in percent, and the number of
/// winners of hyperfine and of fsb.
fn totals(pairs: &[(Answer, Answer)]) -> [(f64, f64, u32); 2] {
    let mut totals = [(0.0, 0.0, 0); 2];
    for (theirs, ours) in pairs {
        for (total, answer) in totals.iter_mut().zip([theirs, ours]) {
            total.0 += answer.seconds;
            total.1 += answer.log_ratio.powi(2);
            total.2 += u32::from(answer.names_winner);
        }
    }
    let count = pairs.len() as f64;
    for total in &mut totals {
        *total = (total.0 / count, (total.1 / count).sqrt() * 100.0, total.2);
    }
    totals
}

fn print(pairs: &[(Answer, Answer)]) {
    let count = pairs.len();
    println!(
        "\n{count} times one command of 50 ms beside itself, under a load that comes and goes\n"
    );
    println!("| | hyperfine | fsb run --here |");
    println!("|---|--:|--:|");
    let [theirs, ours] = totals(pairs);
    println!("| seconds, mean | {:.1} | {:.1} |", theirs.0, ours.0);
    println!(
        "| error of the ratio, root mean square, % | {:.2} | {:.2} |",
        theirs.1, ours.1
    );
    println!(
        "| runs that call one of them faster | {} | {} |",
        theirs.2, ours.2
    );
    let mut luck = Pcg64Mcg::seed_from_u64(1);
    let mut drawn = Vec::new();
    for _ in 0..RESAMPLES {
        let mut some = Vec::new();
        for _ in 0..count {
            some.push(pairs[luck.next_u64() as usize % count]);
        }
        drawn.push(ratio(&some));
    }
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn[(share * (RESAMPLES - 1) as f64) as usize];
    let ratio = ratio(pairs);
    let verdict = if ratio <= GOAL { "kept" } else { "MISSED" };
    println!(
        "\nseconds of fsb for the precision of hyperfine / those of hyperfine: {ratio:.2} \
         [{:.2}, {:.2}] (goal {GOAL}: {verdict})",
        at(0.025),
        at(0.975)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_hyperfine_is_read() {
        let text = |line: &str| format!("Summary\n  'a' ran\n{line} times faster than 'b'\n");
        let read = |line: &str| summary_names_winner(&text(line));
        assert_eq!(read("    1.05 ± 0.02"), Some(true));
        assert_eq!(read("    1.01 ± 0.06"), Some(false));
        assert_eq!(summary_names_winner("Time: 1 ± 2"), None);
    }

    #[test]
    fn a_quarter_of_the_variance_needs_a_quarter_of_the_time() {
        let answer = |log_ratio: f64| Answer {
            seconds: 2.0,
            log_ratio,
            names_winner: false,
        };
        let pairs = [(answer(0.02), answer(0.01)), (answer(-0.02), answer(-0.01))];
        assert!((ratio(&pairs) - 0.25).abs() < 1e-12);
    }
}
