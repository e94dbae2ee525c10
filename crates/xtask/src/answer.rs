//! How long fio takes in turn for the intervals that one run of fsb reaches in five minutes: the
//! exported job file on one file system after the other, repeated, and compared by Welch's t.
//!
//! Both sides compare ext4, xfs and btrfs on the cases of `quick` that fio supports. A few
//! repetitions give fio's variance and its seconds per repetition; the number of repetitions that
//! the half-width needs follows from them. What Welch's t cannot see (changes of the machine between
//! one file system's turn and the next) is not charged to fio.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use fsb_stats::t_quantile;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::agree::{AgreeCase, Fio, IMAGE, Ours, all_cases, calibrate, fio_labels, most_units};
use crate::bench::Options;
use crate::compare::program;
use crate::peers;

/// The file systems; the others are compared with the first.
const TARGETS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// The budget of fsb.
const BUDGET: &str = "5m";
/// The level of each interval of three targets, of which fsb's hold together at 95 %.
const LEVEL: f64 = 1.0 - 0.05 / 3.0;
/// The least ratio of the times.
const GOAL: f64 = 20.0;
/// More repetitions than this are not searched.
const MOST: u32 = 1_000_000;
/// Resamples of fio's repetitions for the interval of the ratio.
const RESAMPLES: usize = 400;

/// fio's repetitions of one case on one file system.
struct Repeated {
    logs: Vec<f64>,
    /// Seconds of a repetition, with its preparation.
    seconds: f64,
}

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if !peers::is_here("fio") || !rustix::process::geteuid().is_root() {
        println!("\nthe time of an answer beside fio needs root and fio (apt-get install fio)");
        return Ok(());
    }
    let directory = peers::work_directory(&options.dir)?;
    let rows = all_cases("quick", IMAGE, &fio_labels("quick", IMAGE)?)?;
    let (half_widths, took) = answer_of_fsb(directory.path())?;
    peers::leave_mounts()?;
    let mut repeated: Vec<Vec<Repeated>> = rows.iter().map(|_| Vec::new()).collect();
    let mut making = 0.0;
    for target in TARGETS {
        let mount = directory.path().join(target);
        std::fs::create_dir(&mount)?;
        let began = Instant::now();
        peers::mount(target, &mount, None, IMAGE.0)?;
        making += began.elapsed().as_secs_f64();
        for (row, repeated) in rows.iter().zip(&mut repeated) {
            repeated.push(repeat(row, &mount, directory.path(), options.rounds)?);
        }
        peers::unmount(&mount);
    }
    print(&rows, &half_widths, &repeated, (making, took));
    Ok(())
}

/// Runs fsb. Returns the half-width of the logarithm of each ratio by label, and its seconds.
fn answer_of_fsb(directory: &Path) -> anyhow::Result<(Vec<(String, Vec<f64>)>, f64)> {
    let out = directory.join("run");
    let began = Instant::now();
    peers::run(
        Command::new(program()?)
            .arg("run")
            .args(TARGETS)
            .args(["--budget", BUDGET, "-q", "--allow-concurrent", "--dir"])
            .arg(directory)
            .arg("--out")
            .arg(&out),
    )?;
    let took = began.elapsed().as_secs_f64();
    let json = directory.join("run.json");
    peers::run(
        Command::new(program()?)
            .arg("report")
            .arg(&out)
            .arg("-o")
            .arg(&json),
    )?;
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let mut found = Vec::new();
    for case in report["cases"].as_array().context("no cases")? {
        let label = case["workload"].as_str().unwrap_or_default().to_owned();
        let mut widths = Vec::new();
        for cell in case["cells"].as_array().into_iter().flatten() {
            let interval = &cell["against"]["interval"];
            if let (Some(low), Some(high)) = (interval["lo"].as_f64(), interval["hi"].as_f64()) {
                widths.push((high / low).ln() / 2.0);
            }
        }
        found.push((label, widths));
    }
    Ok((found, took))
}

/// Repeats a section of the job file as a script would: new files where it makes some.
fn repeat(row: &AgreeCase, mount: &Path, scratch: &Path, rounds: u32) -> anyhow::Result<Repeated> {
    let root = mount.join("row");
    std::fs::create_dir(&root)?;
    let units = calibrate(row, &root, most_units(row))?;
    let jobs = scratch.join(format!("jobs-{units}"));
    let fio = Fio::new(&jobs, row, units, IMAGE, &root)?;
    let ours = Ours::new(row, &root, units);
    if row.prepared {
        ours.prepare()?;
        fio.link(&ours.files()?)?;
    }
    let mut logs = Vec::new();
    let began = Instant::now();
    for round in 0..rounds {
        logs.push(fio.measure(round)?.ln());
    }
    let seconds = began.elapsed().as_secs_f64() / f64::from(rounds);
    std::fs::remove_dir_all(&root)?;
    ensure!(logs.len() > 2, "{}: too few repetitions", row.label);
    Ok(Repeated { logs, seconds })
}

/// Returns the repetitions of both sides at which Welch's interval is as narrow as `half_width`.
fn needed(first: &[f64], other: &[f64], half_width: f64) -> u32 {
    let [a, b] = [variance(first), variance(other)];
    let is_enough = |n: u32| {
        let n = f64::from(n);
        let freedom = (n - 1.0) * (a + b).powi(2) / (a * a + b * b);
        t_quantile(LEVEL, freedom) * ((a + b) / n).sqrt() <= half_width
    };
    let (mut low, mut high) = (1, 2);
    while !is_enough(high) && high < MOST {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if is_enough(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    high
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    squares.sum::<f64>() / (values.len() - 1) as f64
}

/// Returns the seconds of fio for a case: every file system is repeated as often as the comparison
/// with the first one that needs most.
fn seconds_of_case(of_targets: &[Vec<f64>], seconds: &[f64], half_widths: &[f64]) -> (u32, f64) {
    let others = of_targets[1..].iter().zip(half_widths);
    let repetitions = others
        .map(|(other, half_width)| needed(&of_targets[0], other, *half_width))
        .max()
        .unwrap_or(2);
    (
        repetitions,
        f64::from(repetitions) * seconds.iter().sum::<f64>(),
    )
}

fn print(
    rows: &[AgreeCase],
    half_widths: &[(String, Vec<f64>)],
    repeated: &[Vec<Repeated>],
    (making, took): (f64, f64),
) {
    println!("\nfio in turn on {TARGETS:?} beside fsb with {BUDGET}\n");
    println!("| case | half-width of fsb, % | repetitions of fio | seconds of fio |");
    println!("|---|--:|--:|--:|");
    let mut cases = Vec::new();
    for (row, of_targets) in rows.iter().zip(repeated) {
        let widths = half_widths.iter().find(|(label, _)| *label == row.label);
        let Some((_, widths)) = widths.filter(|(_, widths)| widths.len() == TARGETS.len() - 1)
        else {
            println!("| {} | not judged | | |", row.label);
            continue;
        };
        let logs: Vec<Vec<f64>> = of_targets.iter().map(|one| one.logs.clone()).collect();
        let seconds: Vec<f64> = of_targets.iter().map(|one| one.seconds).collect();
        let (repetitions, needed) = seconds_of_case(&logs, &seconds, widths);
        let shown: Vec<String> = widths.iter().map(|w| format!("{:.1}", w * 100.0)).collect();
        println!(
            "| {} | {} | {repetitions} | {needed:.0} |",
            row.label,
            shown.join(", ")
        );
        cases.push((logs, seconds, widths));
    }
    let mut luck = Pcg64Mcg::seed_from_u64(1);
    let total = |luck: Option<&mut Pcg64Mcg>| {
        let mut luck = luck;
        let mut sum = making;
        for (logs, seconds, widths) in &cases {
            let drawn: Vec<Vec<f64>> = match &mut luck {
                None => logs.clone(),
                Some(luck) => logs.iter().map(|logs| resample(logs, luck)).collect(),
            };
            sum += seconds_of_case(&drawn, seconds, widths).1;
        }
        sum / took
    };
    let ratio = total(None);
    let mut drawn: Vec<f64> = (0..RESAMPLES).map(|_| total(Some(&mut luck))).collect();
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn[(share * (RESAMPLES - 1) as f64) as usize];
    let verdict = if ratio >= GOAL { "kept" } else { "MISSED" };
    println!(
        "\nfio's seconds for these cases / those of fsb ({took:.0}, for twelve cases): {ratio:.1} \
         [{:.1}, {:.1}] (goal {GOAL}: {verdict})",
        at(0.025),
        at(0.975)
    );
}

/// Draws as many values with replacement.
fn resample(values: &[f64], luck: &mut Pcg64Mcg) -> Vec<f64> {
    let count = values.len();
    (0..count)
        .map(|_| values[luck.next_u64() as usize % count])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_grow_with_the_square_of_the_precision() {
        let first: Vec<f64> = (0..20)
            .map(|turn| 0.05 * f64::from(turn * 7 % 20))
            .collect();
        let other: Vec<f64> = first.iter().rev().map(|log| log * 1.1).collect();
        let [coarse, fine] = [0.1, 0.01].map(|width| f64::from(needed(&first, &other, width)));
        assert!((95.0..101.0).contains(&(fine / coarse)), "{coarse} {fine}");
    }
}
