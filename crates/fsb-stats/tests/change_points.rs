//! Changes of simulated series, and of the series of `oracle/change_points.json`, which
//! `oracle/change_points.py` wrote.

use fsb_model::Better;
use fsb_stats::{ChangePoint, change_points};
use rand::SeedableRng as _;
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

const THETA: f64 = 0.03;
/// The coefficient of variation of the simulated runs.
const CV: f64 = 0.03;

fn changes(values: &[f64]) -> Vec<ChangePoint> {
    change_points(values, Better::Higher, THETA)
        .unwrap()
        .changes
}

type Noise = fn(&mut Pcg64Mcg, usize) -> Vec<f64>;

fn normal(random: &mut Pcg64Mcg, runs: usize) -> Vec<f64> {
    (0..runs).map(|_| StandardNormal.sample(random)).collect()
}

/// Student's t with three degrees of freedom, with variance 1.
fn heavy(random: &mut Pcg64Mcg, runs: usize) -> Vec<f64> {
    let tails = StudentT::new(3.0).unwrap();
    (0..runs)
        .map(|_| tails.sample(random) / 3f64.sqrt())
        .collect()
}

/// Exponential: seldom much slower, never much faster.
fn skewed(random: &mut Pcg64Mcg, runs: usize) -> Vec<f64> {
    (0..runs)
        .map(|_| {
            let slow: f64 = Exp1.sample(random);
            1.0 - slow
        })
        .collect()
}

/// Each run resembles the one before it: an autoregressive process with correlation 0.3.
fn correlated(random: &mut Pcg64Mcg, runs: usize) -> Vec<f64> {
    const CORRELATION: f64 = 0.3;
    let mut last: f64 = StandardNormal.sample(random);
    let mut next = || {
        let new: f64 = StandardNormal.sample(random);
        last = CORRELATION * last + (1.0 - CORRELATION * CORRELATION).sqrt() * new;
        last
    };
    (0..runs).map(|_| next()).collect()
}

/// Returns a series with a step: `before` runs, then `after` runs at `ratio`.
fn series(
    random: &mut Pcg64Mcg,
    noise: Noise,
    before: usize,
    after: usize,
    ratio: f64,
) -> Vec<f64> {
    let noise = noise(random, before + after).into_iter().enumerate();
    noise
        .map(|(run, noise)| 400.0 * (CV * noise).exp() * if run < before { 1.0 } else { ratio })
        .collect()
}

/// Returns the share of series of `runs` runs without a change that show one after any of their
/// runs.
fn false_alarms(noise: Noise, runs: usize, count: usize) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let alarms = |values: &[f64]| (1..=values.len()).any(|end| !changes(&values[..end]).is_empty());
    (0..count)
        .filter(|_| alarms(&series(&mut random, noise, runs, 0, 1.0)))
        .count() as f64
        / count as f64
}

/// Returns the share of steps that are found within `within` runs, in the right direction and at
/// most that far from their place.
fn found(noise: Noise, before: usize, within: usize, ratio: f64, count: usize) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(12);
    let is_it = |change: &ChangePoint| {
        change.first.abs_diff(before) <= within && (change.ratio < 1.0) == (ratio < 1.0)
    };
    let is_found = |values: &[f64]| {
        (before + 2..=before + within).any(|end| changes(&values[..end]).iter().any(is_it))
    };
    (0..count)
        .filter(|_| is_found(&series(&mut random, noise, before, within, ratio)))
        .count() as f64
        / count as f64
}

/// The tolerance is three standard errors of a share over 1000 series.
#[test]
fn fewer_than_one_series_of_a_hundred_shows_a_change_that_is_not_there() {
    let rate = false_alarms(normal, 100, 1000);
    assert!(
        rate <= 0.01 + 3.0 * (0.01f64 * 0.99 / 1000.0).sqrt(),
        "{rate}"
    );
}

#[test]
fn a_tenth_is_found_within_five_runs_and_a_twentieth_within_fifteen() {
    for (before, within, ratio) in [(50, 5, 0.9), (50, 5, 1.1), (85, 15, 0.95), (85, 15, 1.05)] {
        let share = found(normal, before, within, ratio, 500);
        assert!(share >= 0.95, "{ratio}: {share}");
    }
}

#[test]
fn the_place_of_a_step_is_between_its_ends_in_95_of_100() {
    const SERIES: usize = 500;
    let mut random = Pcg64Mcg::seed_from_u64(13);
    let mut counts = [0, 0];
    for _ in 0..SERIES {
        let values = series(&mut random, normal, 40, 40, 0.95);
        if let [change] = &changes(&values)[..] {
            counts[0] += 1;
            counts[1] += usize::from(change.earliest <= 40 && 40 <= change.latest);
        }
    }
    assert!(counts[0] > SERIES * 9 / 10, "{counts:?}");
    assert!(counts[1] as f64 >= 0.95 * counts[0] as f64, "{counts:?}");
}

/// Returns the median of the detectable changes that series without a step state, and the share of
/// other series in which such a step half-way is found. The logarithm of the step is `share` times
/// that of the stated change.
fn found_at_detectable_size(runs: usize, cv: f64, share: f64) -> (f64, f64) {
    const SERIES: usize = 400;
    let mut random = Pcg64Mcg::seed_from_u64(14);
    let noisy = |random: &mut Pcg64Mcg, ratio: f64| -> Vec<f64> {
        let noise = normal(random, runs).into_iter().enumerate();
        noise
            .map(|(run, noise)| {
                400.0 * (cv * noise).exp() * if run < runs / 2 { 1.0 } else { ratio }
            })
            .collect()
    };
    let (mut stated, mut found) = (Vec::new(), 0);
    for _ in 0..SERIES {
        let steady = change_points(&noisy(&mut random, 1.0), Better::Higher, THETA).unwrap();
        let Some(change) = steady.variation.unwrap().detectable(runs, THETA) else {
            continue;
        };
        stated.push(change);
        found += usize::from(!changes(&noisy(&mut random, (1.0 + change).powf(share))).is_empty());
    }
    assert!(stated.len() > SERIES * 9 / 10, "{}", stated.len());
    stated.sort_by(f64::total_cmp);
    (stated[stated.len() / 2], found as f64 / stated.len() as f64)
}

#[test]
fn a_change_of_the_detectable_size_is_found_in_four_series_of_five_and_half_of_it_seldom() {
    for (runs, cv) in [
        (7, 0.01),
        (8, 0.02),
        (10, 0.03),
        (12, 0.03),
        (20, 0.03),
        (40, 0.05),
        (80, 0.05),
    ] {
        let [(change, whole), (_, half)] =
            [1.0, 0.5].map(|share| found_at_detectable_size(runs, cv, share));
        println!(
            "| {runs} | {:.0} % | {:.1} % | {:.1} % | {:.1} % |",
            cv * 1e2,
            change * 1e2,
            whole * 1e2,
            half * 1e2
        );
        assert!(
            (0.7..=0.95).contains(&whole) && half < 0.35,
            "{runs} runs, {cv}: {whole}, {half}"
        );
    }
}

/// The series of TigerBeetle's benchmark with which Apache Otava is tested. At p ≤ 10⁻⁴, Otava
/// finds changes at 71, 95, 117, 131, 142, 148, 192 and 212.
#[test]
fn the_series_that_otava_publishes_has_its_changes() {
    let mut values: Vec<f64> = include_str!("../testdata/published/otava-tigerbeetle.csv")
        .lines()
        .skip(1)
        .map(|line| line.parse().unwrap())
        .collect();
    let firsts = |values: &[f64], theta: f64| -> Vec<usize> {
        let found = change_points(values, Better::Lower, theta).unwrap();
        found.changes.iter().map(|change| change.first).collect()
    };
    assert_eq!(firsts(&values, 0.01), [10, 71, 95, 117, 131, 192, 212]);
    assert_eq!(firsts(&values, THETA), [10, 71, 95, 131]);
    // A run of 15672 hides the change at 15 for 51 runs, and takes its place.
    values[10] = values[9];
    assert_eq!(firsts(&values, THETA), [15, 61, 71, 95, 131]);
}

/// The figures of docs/methods/statistics.md: cargo test -p fsb-stats --test change_points --
/// --ignored --nocapture
#[test]
#[ignore = "takes minutes; it prints figures for the documentation"]
fn figures() {
    let noises: [(&str, Noise, usize); 4] = [
        ("normal", normal, 20_000),
        ("heavy", heavy, 5000),
        ("skewed", skewed, 5000),
        ("correlated", correlated, 5000),
    ];
    for (name, noise, series) in noises {
        println!(
            "{name}: alarms in 100 runs: {:.4}",
            false_alarms(noise, 100, series)
        );
        for before in [20, 50, 85] {
            let shares: Vec<String> = [(5, 0.9), (5, 1.1), (10, 0.95), (15, 0.95), (15, 1.05)]
                .into_iter()
                .map(|(within, ratio)| {
                    format!(
                        "{ratio} in {within}: {:.3}",
                        found(noise, before, within, ratio, 2000)
                    )
                })
                .collect();
            println!("{name}: {before} runs before: {}", shares.join(", "));
        }
    }
}

#[test]
fn changes_are_those_of_scipy() {
    let all: Value = serde_json::from_str(include_str!("oracle/change_points.json"))
        .expect("the committed file is JSON");
    for case in all["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().unwrap();
        let values: Vec<f64> = case["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect();
        let (ours, theirs) = (changes(&values), case["changes"].as_array().unwrap());
        assert_eq!(ours.len(), theirs.len(), "{name}: {ours:?}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            for (key, index) in [
                ("first", ours.first),
                ("earliest", ours.earliest),
                ("latest", ours.latest),
                ("found_after", ours.found_after),
            ] {
                assert_eq!(Some(index as u64), theirs[key].as_u64(), "{name}: {key}");
            }
            let close = |ours: f64, theirs: &Value, key: &str| {
                let theirs = theirs.as_f64().unwrap();
                assert!(
                    (ours - theirs).abs() <= 1e-9 * theirs.abs(),
                    "{name}: {key} is {ours}, not {theirs}"
                );
            };
            close(ours.ratio, &theirs["ratio"], "ratio");
            close(ours.interval.lo, &theirs["interval"][0], "lower end");
            close(ours.interval.hi, &theirs["interval"][1], "upper end");
            // Far out in the tail the two differ in more digits, and readers see one.
            let p_value = theirs["p_value"].as_f64().unwrap();
            assert!(
                (ours.p_value - p_value).abs() <= 1e-6 * p_value + 1e-30,
                "{name}: {} {p_value}",
                ours.p_value
            );
        }
    }
}
