//! The time that fio takes in turn for the intervals that one run of fsb reaches in five minutes.
//!
//! The exported job file runs on one file system after the other, repeated, and is compared by
//! Welch's t. Both sides compare ext4, xfs and btrfs on the cases of `quick` that fio supports. A
//! few repetitions give fio's variance and its seconds per repetition. The number of repetitions
//! that a half-width needs follows from them. Changes of the machine between the turns of two file
//! systems, which Welch's t cannot see, are not charged to fio.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use fsb_stats::t_quantile;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::agree::{AgreeCase, Fio, IMAGE, Ours, all_cases, calibrate, fio_labels, most_units};
use crate::bench::Options;
use crate::compare::{program, report_of};
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

/// The half-widths of the logarithms of the ratios of one case.
struct Judged {
    label: String,
    half_widths: Vec<f64>,
}

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
    let (judged, took) = answer_of_fsb(directory.path())?;
    peers::leave_mounts()?;
    let mut repeated = Vec::new();
    repeated.resize_with(rows.len(), Vec::new);
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
    print(&rows, &judged, &repeated, (making, took));
    Ok(())
}

/// Runs fsb. Returns the half-width of the logarithm of each ratio by label, and its seconds.
fn answer_of_fsb(directory: &Path) -> anyhow::Result<(Vec<Judged>, f64)> {
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
    let report = report_of(&out)?;
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
        found.push(Judged {
            label,
            half_widths: widths,
        });
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
    let mut squares = 0.0;
    for value in values {
        squares += (value - mean).powi(2);
    }
    squares / (values.len() - 1) as f64
}

/// A case that both sides judge.
struct Compared<'a> {
    repeated: &'a [Repeated],
    half_widths: &'a [f64],
}

impl Compared<'_> {
    /// Returns the repetitions of fio and their seconds. Every file system is repeated as often as
    /// the comparison with the first one that needs most. With `luck`, the repetitions are drawn
    /// anew.
    fn cost(&self, mut luck: Option<&mut Pcg64Mcg>) -> (u32, f64) {
        let (mut logs, mut seconds) = (Vec::new(), 0.0);
        for one in self.repeated {
            logs.push(match &mut luck {
                Some(luck) => resample(&one.logs, luck),
                None => one.logs.clone(),
            });
            seconds += one.seconds;
        }
        let mut repetitions = 2;
        for (other, half_width) in logs[1..].iter().zip(self.half_widths) {
            repetitions = repetitions.max(needed(&logs[0], other, *half_width));
        }
        (repetitions, f64::from(repetitions) * seconds)
    }
}

fn print(
    rows: &[AgreeCase],
    judged: &[Judged],
    repeated: &[Vec<Repeated>],
    (making, took): (f64, f64),
) {
    println!("\nfio in turn on {TARGETS:?} beside fsb with {BUDGET}\n");
    println!("| case | half-widths of fsb, % | repetitions of fio | seconds of fio |");
    println!("|---|--:|--:|--:|");
    let mut cases = Vec::new();
    for (row, repeated) in rows.iter().zip(repeated) {
        let own = judged.iter().find(|case| case.label == row.label);
        let Some(own) = own.filter(|own| own.half_widths.len() == TARGETS.len() - 1) else {
            println!("| {} | not judged | | |", row.label);
            continue;
        };
        let case = Compared {
            repeated,
            half_widths: &own.half_widths,
        };
        let (repetitions, seconds) = case.cost(None);
        let [first, second] = [0, 1].map(|at| own.half_widths[at] * 100.0);
        println!(
            "| {} | {first:.1}, {second:.1} | {repetitions} | {seconds:.0} |",
            row.label
        );
        cases.push(case);
    }
    let ratio = |mut luck: Option<&mut Pcg64Mcg>| {
        let mut seconds = making;
        for case in &cases {
            seconds += case.cost(luck.as_deref_mut()).1;
        }
        seconds / took
    };
    let mut luck = Pcg64Mcg::seed_from_u64(1);
    let mut drawn = Vec::new();
    for _ in 0..RESAMPLES {
        drawn.push(ratio(Some(&mut luck)));
    }
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn[(share * (RESAMPLES - 1) as f64) as usize];
    let ratio = ratio(None);
    let verdict = if ratio >= GOAL { "kept" } else { "MISSED" };
    println!(
        "\nseconds of fio for these cases / those of fsb ({took:.0}, for twelve): {ratio:.1} \
         [{:.1}, {:.1}] (goal {GOAL}: {verdict})",
        at(0.025),
        at(0.975)
    );
}

/// Draws as many values with replacement.
fn resample(values: &[f64], luck: &mut Pcg64Mcg) -> Vec<f64> {
    let mut drawn = Vec::new();
    for _ in values {
        drawn.push(values[luck.next_u64() as usize % values.len()]);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_grow_with_the_square_of_the_precision() {
        let (mut first, mut other) = (Vec::new(), Vec::new());
        for turn in 0..20 {
            first.push(0.05 * f64::from(turn * 7 % 20));
            other.push(0.06 * f64::from(turn * 3 % 20));
        }
        let [coarse, fine] = [0.1, 0.01].map(|width| f64::from(needed(&first, &other, width)));
        assert!((95.0..101.0).contains(&(fine / coarse)), "{coarse} {fine}");
    }
}
