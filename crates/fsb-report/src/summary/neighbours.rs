//! Cases beside a background, against the same cases alone: how much longer an operation takes, on
//! each target and between targets.
//!
//! Each block measures the case alone and beside its background, one after the other on the same
//! target. The ratio is paired by block. The ratio of two targets' ratios shows whether one of them
//! protects the case better.

use std::collections::HashMap;

use fsb_model::metric::{
    LATENCY_MAX, LATENCY_P50, LATENCY_P90, LATENCY_P99, LATENCY_P999, MetricKind,
};
use fsb_model::units::{show_bytes, show_rate, show_seconds};
use fsb_model::{Better, RunRecord};
use fsb_stats::{BlockValue, Comparison, Verdict, hold_groups_over_page};

use super::costs::Compared;
use super::latency::quantile_name;
use super::model::{
    AloneAndBeside, BackgroundRate, BesideBackground, MeasuredCell, Numbers, QuantileSlowdown,
    RateAlone, Slowdown, Workload,
};
use super::trial_value::{CompactTrial, last_attempts};
use crate::show::{capital, listed};

/// The percentiles of trials, in rising order.
const QUANTILES: [(f64, &MetricKind); 4] = [
    (0.5, &LATENCY_P50),
    (0.9, &LATENCY_P90),
    (0.99, &LATENCY_P99),
    (0.999, &LATENCY_P999),
];

/// The trials of a run by case and target.
type Cells<'a> = HashMap<(&'a str, &'a str), Vec<&'a CompactTrial>>;

/// Returns the cases of a run that were measured beside a background, in the order of the plan.
pub(crate) fn of_run(
    record: &RunRecord,
    cases: &[Workload],
    trials: &[CompactTrial],
) -> Vec<BesideBackground> {
    let mut cells: Cells<'_> = HashMap::new();
    for trial in trials.iter().filter(|trial| trial.counts()) {
        cells
            .entry((&trial.what.workload, &trial.what.target))
            .or_default()
            .push(trial);
    }
    let mut found: Vec<BesideBackground> = pairs(record, cases);
    // Times, percentiles and ratios of ratios are three groups without common variances.
    let mut groups: [Compared; 3] = Default::default();
    let mut quantiles: Vec<(usize, usize, f64, AloneAndBeside)> = Vec::new();
    for (pair, one) in found.iter().enumerate() {
        let (alone, beside) = (&cases[one.alone], &cases[one.beside]);
        for (target, named) in record.plan.targets.iter().enumerate() {
            let values = [alone, beside].map(|case| times(&case.cells[target], case.better));
            groups[0].push((pair, target), record, &values, Better::Lower);
            let trials = [alone, beside].map(|case| {
                cells
                    .get(&(&*case.workload, &*named.name))
                    .map_or_else(Vec::new, last_attempts)
            });
            for (q, kind) in shown_quantiles(&trials) {
                let values = trials.each_ref().map(|trials| metric_values(trials, kind));
                let [alone, beside] = values.each_ref().map(|values| geometric_mean(values));
                if groups[1].push((pair, target), record, &values, Better::Lower) {
                    quantiles.push((pair, target, q, AloneAndBeside { alone, beside }));
                }
            }
        }
        let slowdowns: Vec<Vec<BlockValue>> = (0..record.plan.targets.len())
            .map(|target| {
                ratios(&[alone, beside].map(|case| times(&case.cells[target], case.better)))
            })
            .collect();
        groups[2].push((pair, 0), record, &slowdowns, Better::Lower);
    }
    hold_groups_over_page(groups.iter_mut().map(|group| &mut group.rankings[..]));
    let [times, latencies, between] = groups;
    for ((pair, target), ranking) in times.places.iter().zip(&times.rankings) {
        let one = &found[*pair];
        let (alone, beside) = (&cases[one.alone], &cases[one.beside]);
        let judged = |comparison: Comparison| match is_judged(record, *target, [alone, beside]) {
            true => comparison,
            false => unjudged(comparison),
        };
        let value = |case: &Workload| {
            case.cells[*target]
                .estimate
                .as_ref()
                .map(|estimate| estimate.value)
        };
        let (Some(time), Some((of_alone, of_beside))) =
            (ranking.comparison(0, 1), value(alone).zip(value(beside)))
        else {
            continue;
        };
        let [trials_alone, trials_beside] = [alone, beside]
            .map(|case| cells.get(&(&*case.workload, &*record.plan.targets[*target].name)));
        let of_quantile = quantiles
            .iter()
            .zip(&latencies.rankings)
            .filter(|(place, _)| (place.0, place.1) == (*pair, *target));
        let of_quantile = of_quantile.filter_map(|((.., q, seconds), ranking)| {
            let ratio = judged(ranking.comparison(0, 1)?);
            Some(QuantileSlowdown {
                q: *q,
                seconds: *seconds,
                ratio,
            })
        });
        let against = between
            .places
            .iter()
            .position(|place| place.0 == *pair)
            .filter(|_| *target > 0);
        let against = against
            .and_then(|at| between.rankings[at].comparison(0, *target))
            .map(judged);
        let slowdown = Slowdown {
            time: judged(time),
            alone: of_alone,
            beside: of_beside,
            quantiles: of_quantile.collect(),
            longest: longest(trials_alone, trials_beside),
            background: trials_beside.and_then(|trials| background_rate(trials)),
            against,
        };
        found[*pair].targets[*target] = Some(slowdown);
    }
    found.retain(|one| one.targets.iter().any(Option::is_some));
    found
}

/// Returns the cases with a background whose case alone is in the run, without values.
fn pairs(record: &RunRecord, cases: &[Workload]) -> Vec<BesideBackground> {
    let place = |label: &str| cases.iter().position(|case| case.workload == label);
    record
        .cells
        .iter()
        .filter_map(|cell| {
            let background = cell.workload.background.as_ref()?;
            let alone = cell.workload.alone();
            let alone = record.cells.iter().find(|other| other.workload == alone)?;
            let name = cell
                .label
                .strip_prefix(&alone.label)
                .and_then(|rest| rest.strip_prefix(", beside "));
            Some(BesideBackground {
                alone: place(&alone.label)?,
                beside: place(&cell.label)?,
                background: name.unwrap_or(&background.name).to_owned(),
                open_loop: cell.workload.params.contains_key("rate"),
                targets: vec![None; record.plan.targets.len()],
            })
        })
        .collect()
}

/// Returns whether comparisons of these cases on a target may have verdicts.
fn is_judged(record: &RunRecord, target: usize, cases: [&Workload; 2]) -> bool {
    record.unjudged().is_none()
        && record
            .unjudged_target(&record.plan.targets[target])
            .is_none()
        && cases.iter().all(|case| case.withheld.is_none())
}

fn unjudged(comparison: Comparison) -> Comparison {
    Comparison {
        interval: None,
        p_value: None,
        verdict: Verdict::NotJudged,
        ..comparison
    }
}

/// Returns the time of an operation in each block, up to a factor that is the same for the case
/// alone and beside its background. Both are measured on the same slice in a block, so the slice
/// cancels out.
fn times(cell: &MeasuredCell, better: Better) -> Vec<BlockValue> {
    cell.values()
        .iter()
        .map(|value| {
            BlockValue::new(
                value.block,
                if better == Better::Higher {
                    1.0 / value.value
                } else {
                    value.value
                },
            )
        })
        .collect()
}

/// Returns the second of two values divided by the first, in each block that has both.
fn ratios([alone, beside]: &[Vec<BlockValue>; 2]) -> Vec<BlockValue> {
    beside
        .iter()
        .filter_map(|beside| {
            let alone = alone.iter().find(|alone| alone.block == beside.block)?;
            Some(BlockValue::new(beside.block, beside.value / alone.value))
        })
        .collect()
}

/// Returns the median and the highest percentile that every trial records. A trial records a
/// percentile only if at least 100 of its operations are beyond it.
fn shown_quantiles(trials: &[Vec<&CompactTrial>; 2]) -> Vec<(f64, &'static MetricKind)> {
    let valued = || {
        trials
            .iter()
            .flatten()
            .filter(|trial| trial.primary().is_some())
    };
    if trials.iter().any(Vec::is_empty) || valued().next().is_none() {
        return Vec::new();
    }
    let all: Vec<_> = QUANTILES
        .into_iter()
        .filter(|(_, kind)| {
            valued().all(|trial| trial.metric(kind.name).is_some_and(|value| value > 0.0))
        })
        .collect();
    match all[..] {
        [] | [_] => all,
        [first, .., last] => vec![first, last],
    }
}

fn metric_values(trials: &[&CompactTrial], kind: &MetricKind) -> Vec<BlockValue> {
    let valued = trials.iter().filter(|trial| trial.primary().is_some());
    valued
        .filter_map(|trial| Some(BlockValue::new(trial.block, trial.metric(kind.name)?)))
        .collect()
}

fn geometric_mean(values: &[BlockValue]) -> f64 {
    (values.iter().map(|value| value.value.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

fn longest(
    alone: Option<&Vec<&CompactTrial>>,
    beside: Option<&Vec<&CompactTrial>>,
) -> Option<AloneAndBeside> {
    let longest = |trials: &Vec<&CompactTrial>| {
        trials
            .iter()
            .filter_map(|trial| trial.metric(LATENCY_MAX.name))
            .reduce(f64::max)
    };
    Some(AloneAndBeside {
        alone: longest(alone?)?,
        beside: longest(beside?)?,
    })
}

fn background_rate(trials: &[&CompactTrial]) -> Option<BackgroundRate> {
    let mut sum = fsb_model::observed::BackgroundWork::default();
    trials
        .iter()
        .filter_map(|trial| trial.extras().background.as_deref())
        .for_each(|work| sum.add(work));
    (sum.seconds > 0.0).then(|| BackgroundRate {
        operations: sum.operations as f64 / sum.seconds,
        bytes: sum.bytes as f64 / sum.seconds,
        cpu: sum.cpu_seconds / sum.seconds,
        alone: (sum.alone_seconds > 0.0).then(|| RateAlone {
            operations: sum.alone_operations as f64 / sum.alone_seconds,
            bytes: sum.alone_bytes as f64 / sum.alone_seconds,
        }),
    })
}

/// Returns the rate of a background, such as `1.20 kop/s, 75.0 MiB/s`, or the processors of a
/// command without finished runs: `1.00 CPU`.
pub(crate) fn rate_text(rate: &BackgroundRate) -> String {
    match (rate.operations > 0.0, rate.bytes > 0.0) {
        (_, true) => format!(
            "{}, {}/s",
            show_rate(rate.operations),
            show_bytes(rate.bytes)
        ),
        (true, false) => show_rate(rate.operations),
        (false, false) => format!("{:.2} CPU", rate.cpu),
    }
}

/// Returns the rate as a share of that without the case, such as `43 % of that alone`; empty if the
/// background did not run alone, or has nothing to count.
pub(crate) fn share_text(rate: &BackgroundRate) -> String {
    let Some(alone) = rate.alone else {
        return String::new();
    };
    let [beside, alone] = if alone.bytes > 0.0 {
        [rate.bytes, alone.bytes]
    } else {
        [rate.operations, alone.operations]
    };
    if alone > 0.0 {
        format!("{:.0} % of that alone", beside / alone * 100.0)
    } else {
        String::new()
    }
}

/// Returns a factor with two or three digits, such as `9.0` or `120`.
pub(crate) fn factor(value: f64) -> String {
    match value {
        large if large >= 9.95 => format!("{large:.0}"),
        medium if medium >= 1.995 => format!("{medium:.1}"),
        small => format!("{small:.2}"),
    }
}

/// Returns an interval such as ` [7.1, 11]`, or an empty text if the comparison is not judged.
pub(crate) fn interval(comparison: &Comparison) -> String {
    let judged = comparison
        .interval
        .filter(|_| comparison.verdict != Verdict::NotJudged);
    judged.map_or_else(String::new, |interval| {
        format!(" [{}, {}]", factor(interval.lo), factor(interval.hi))
    })
}

/// Returns the sentences of each case: `Beside write 1M, append 4K, durable each takes 9.0 × as
/// long on ext4 [7.1, 11] and 2.1 × on xfs [1.8, 2.6]; p99 412 ms and 38.0 ms.`
pub(crate) fn lines(summary: &Numbers) -> Vec<String> {
    summary
        .neighbours
        .iter()
        .flat_map(|one| [Some(line(summary, one)), between(summary, one)])
        .flatten()
        .collect()
}

/// Returns the sentence of the case with the largest slowdown by the lower ends of intervals, for
/// the first screen. A ratio alone would prefer what is least certain.
pub(crate) fn strongest(summary: &Numbers) -> Option<String> {
    let largest = |one: &BesideBackground| {
        one.targets
            .iter()
            .flatten()
            .map(|found| {
                found
                    .time
                    .interval
                    .map_or(found.time.ratio, |interval| interval.lo)
            })
            .fold(0.0, f64::max)
    };
    let found = summary
        .neighbours
        .iter()
        .max_by(|one, other| largest(one).total_cmp(&largest(other)))?;
    Some(line(summary, found))
}

fn line(summary: &Numbers, one: &BesideBackground) -> String {
    let shown: Vec<(String, &Slowdown)> = summary
        .targets
        .iter()
        .zip(&one.targets)
        .filter_map(|(target, slowdown)| Some((target.label(), slowdown.as_ref()?)))
        .collect();
    let changes: Vec<String> = shown
        .iter()
        .enumerate()
        .map(|(place, (name, slowdown))| {
            let as_long = if place == 0 { " as long" } else { "" };
            format!(
                "{} ×{as_long} on {name}{}",
                factor(slowdown.time.ratio),
                interval(&slowdown.time)
            )
        })
        .collect();
    let case = &summary.cases[one.alone];
    let (background, changes) = (&one.background, listed(&changes));
    if case.metric == LATENCY_P99.name {
        return format!(
            "Beside {background}, the p99 is {changes}: {}.",
            case.workload
        );
    }
    let highest: Option<Vec<&QuantileSlowdown>> = shown
        .iter()
        .map(|(_, slowdown)| slowdown.quantiles.last())
        .collect();
    let highest = highest.filter(|all| all.windows(2).all(|pair| pair[0].q == pair[1].q));
    let tail = highest.map(|all| {
        let seconds: Vec<String> = all
            .iter()
            .map(|found| show_seconds(found.seconds.beside))
            .collect();
        format!("; {} {}", quantile_name(all[0].q), listed(&seconds))
    });
    format!(
        "Beside {background}, {} takes {changes}{}.",
        case.workload,
        tail.unwrap_or_default()
    )
}

/// Returns whether targets differ in their slowdown. Returns `None` if nothing is judged.
fn between(summary: &Numbers, one: &BesideBackground) -> Option<String> {
    let judged = summary
        .targets
        .iter()
        .zip(&one.targets)
        .filter_map(|(target, slowdown)| {
            let against = slowdown.as_ref()?.against.as_ref()?;
            (against.verdict != Verdict::NotJudged).then(|| (target.label(), against))
        });
    let judged: Vec<_> = judged.collect();
    let sure = judged
        .iter()
        .filter(|(_, against)| against.verdict.is_sure());
    let sure = sure.map(|(name, against)| {
        format!("{} × on {name}{}", factor(against.ratio), interval(against))
    });
    let sure: Vec<String> = sure.collect();
    let (baseline, what) = (
        summary.baseline_name(),
        format!("the slowdown beside {}", one.background),
    );
    match (judged.is_empty(), sure.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!(
            "{} is not significantly different from that on {baseline}.",
            capital(&what)
        )),
        (false, false) => Some(format!(
            "{} is {} of that on {baseline}.",
            capital(&what),
            listed(&sure)
        )),
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::OPERATION_RATE;
    use fsb_model::observed::BackgroundWork;
    use fsb_model::{Background, Cell, Trial};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    const ALONE: &str = "append 4K, durable each";

    /// Returns the summary of a run of one case alone and beside a background. `slowdowns` are
    /// those of the targets, `noise` is the largest relative error of a trial.
    fn summary(slowdowns: [f64; 2], noise: f64, seed: u64, change: impl Fn(&mut Trial)) -> Summary {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 6);
        record.cells.retain(|cell| cell.label == ALONE);
        let mut workload = record.cells[0].workload.clone();
        workload.background = Some(Background {
            name: "write".to_owned(),
            ..Background::default()
        });
        let label = format!("{ALONE}, beside write 1M");
        record.cells.push(Cell {
            label: label.clone(),
            workload,
        });
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut noisy = |value: f64| value * (1.0 + random.random_range(-noise..=noise));
        let mut all = Vec::new();
        for alone in trials.into_iter().filter(|trial| trial.workload == ALONE) {
            let slowdown = slowdowns[usize::from(alone.target == "xfs")];
            for (factor, is_beside) in [(1.0, false), (slowdown, true)] {
                let mut trial = alone.clone();
                let seconds = noisy(1e-3 * factor);
                trial.metrics = vec![
                    OPERATION_RATE.metric(1.0 / seconds),
                    LATENCY_P50.metric(seconds * 0.9),
                    LATENCY_P90.metric(seconds * 2.0),
                    LATENCY_P99.metric(seconds * 10.0),
                    LATENCY_MAX.metric(seconds * 100.0),
                ];
                if is_beside {
                    trial.workload.clone_from(&label);
                    let work = BackgroundWork {
                        operations: 200,
                        bytes: 200 << 20,
                        seconds: 2.0,
                        cpu_seconds: 1.0,
                        alone_operations: 800,
                        alone_bytes: 800 << 20,
                        alone_seconds: 4.0,
                    };
                    trial.observed.background = Some(work);
                }
                change(&mut trial);
                all.push(trial);
            }
        }
        Summary::of_run(&record, &all)
    }

    #[test]
    fn the_ratio_the_tail_and_the_difference_between_targets_are_one_sentence_each() {
        let summary = summary([9.0, 2.0], 0.02, 1, |_| {});
        let [one] = &summary.neighbours[..] else {
            panic!("{:?}", summary.neighbours)
        };
        assert_eq!(
            (
                one.background.as_str(),
                one.open_loop,
                one.alone,
                one.beside
            ),
            ("write 1M", false, 0, 1)
        );
        let of = |target: usize| one.targets[target].as_ref().expect("it has values");
        for (target, expected) in [(0, 9.0), (1, 2.0)] {
            let found = of(target);
            assert!(
                (found.time.ratio / expected - 1.0).abs() < 0.05,
                "{found:?}"
            );
            assert!(
                found.time.verdict == Verdict::Slower && found.time.interval.is_some(),
                "{found:?}"
            );
            assert!(found.alone > found.beside, "rates in their unit: {found:?}");
            let quantiles: Vec<f64> = found.quantiles.iter().map(|quantile| quantile.q).collect();
            assert_eq!(quantiles, [0.5, 0.99]);
            let background = found.background.expect("the trials record it");
            assert_eq!(
                (background.operations, background.bytes, background.cpu),
                (100.0, 104_857_600.0, 0.5)
            );
            assert_eq!(
                background.alone,
                Some(RateAlone {
                    operations: 200.0,
                    bytes: 209_715_200.0
                })
            );
            assert_eq!(share_text(&background), "50 % of that alone");
        }
        assert!(of(0).against.is_none());
        let against = of(1).against.as_ref().expect("it is compared");
        assert!(
            (against.ratio * 4.5 - 1.0).abs() < 0.05 && against.verdict.is_sure(),
            "{against:?}"
        );
        let lines = lines(&summary);
        assert!(summary.headline.contains(&lines[0]), "{}", summary.headline);
        assert!(
            lines[0].starts_with(&format!("Beside write 1M, {ALONE} takes 9.")),
            "{lines:?}"
        );
        assert!(
            lines[0].contains(" × as long on ext4 [") && lines[0].contains("× on xfs ["),
            "{lines:?}"
        );
        assert!(
            lines[0].contains("; p99 ") && lines[1].contains("of that on ext4"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_percentile_that_one_trial_lacks_is_not_shown() {
        let summary = summary([2.0, 2.0], 0.02, 1, |trial| {
            if trial.block == 3 && trial.target == "xfs" {
                trial
                    .metrics
                    .retain(|metric| metric.name != LATENCY_P99.name);
            }
        });
        let highest = |target: usize| {
            summary.neighbours[0].targets[target]
                .as_ref()
                .unwrap()
                .quantiles[1]
                .q
        };
        assert_eq!((highest(0), highest(1)), (0.99, 0.9));
        assert!(
            !lines(&summary)[0].contains("; p"),
            "the targets have no percentile in common"
        );
    }

    #[test]
    fn a_target_without_values_beside_the_background_has_no_slowdown() {
        let fails = |trial: &mut Trial| {
            if trial.target == "xfs" && trial.observed.background.is_some() {
                trial.outcome = fsb_model::Outcome::Failed;
            }
        };
        let summary = summary([2.0, 2.0], 0.02, 1, fails);
        assert!(
            summary.neighbours[0].targets[1].is_none()
                && summary.neighbours[0].targets[0].is_some()
        );
    }

    /// Of equal targets beside the same background, few runs declare a difference. The binomial
    /// distribution of 200 runs at 5 % exceeds 21 with a probability below 0.001.
    #[test]
    fn equal_targets_beside_one_background_rarely_differ() {
        let declares = |seed: &u64| {
            let summary = summary([3.0, 3.0], 0.15, *seed, |_| {});
            let against = summary.neighbours[0].targets[1]
                .as_ref()
                .and_then(|found| found.against.clone());
            against.is_some_and(|against| against.verdict.is_sure())
        };
        let wrong = (0..200).filter(declares).count();
        assert!(wrong <= 21, "{wrong} of 200 runs");
    }
}
