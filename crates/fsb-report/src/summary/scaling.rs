//! Curves of cases that differ only in the number of threads or ranks, of requests under way, or in
//! their rate. A curve gives the level beyond which a target shows no gain, or the highest rate
//! that it holds.

use std::collections::{BTreeMap, HashMap};

use fsb_model::units::{parse_duration, show_seconds};
use fsb_model::{Better, Params};
use fsb_stats::{Estimate, Knee, knee};

use super::model::{By, MeasuredCell, Numbers, Scaling, TargetSummary, Workload};
use super::trial_value::CompactTrial;
use crate::show::listed;

/// A curve has at least this number of levels.
const FEWEST: usize = 3;

/// Returns all curves of a page.
pub(crate) fn curves(
    cases: &[Workload],
    targets: &[TargetSummary],
    trials: &[CompactTrial],
    theta: f64,
) -> Vec<Scaling> {
    let mut known: HashMap<&str, &Params> = HashMap::new();
    for trial in trials.iter().filter(|trial| trial.counts()) {
        known
            .entry(&trial.what.workload)
            .or_insert(&trial.what.params);
    }
    let params: Vec<Option<&Params>> = cases
        .iter()
        .map(|case| known.get(&*case.workload).copied())
        .collect();
    let mut curves: Vec<Scaling> = By::ALL
        .into_iter()
        .flat_map(|by| along(by, cases, &params))
        .collect();
    for curve in &mut curves {
        curve.knees = (0..targets.len())
            .map(|target| knee_of(curve, cases, target, theta))
            .collect();
        if curve.by == By::Rate {
            curve.held = (0..targets.len())
                .map(|target| held(curve, cases, target))
                .collect();
        }
    }
    curves.sort_by_key(|curve| curve.cases[0]);
    curves
}

/// Returns the curves along one of the parameters.
fn along(by: By, cases: &[Workload], params: &[Option<&Params>]) -> Vec<Scaling> {
    let mut families: BTreeMap<String, Vec<(u64, usize)>> = BTreeMap::new();
    for (case, params) in params.iter().enumerate() {
        let Some(level) = params.and_then(|params| params.get(by.key())?.as_u64()) else {
            continue;
        };
        let rest = params
            .iter()
            .flat_map(|params| params.iter())
            .filter(|(key, _)| *key != by.key());
        let rest: Vec<String> = rest.map(|(key, value)| format!("{key}={value}")).collect();
        families
            .entry(rest.join(" "))
            .or_default()
            .push((level, case));
    }
    let mut curves = Vec::new();
    // A filebench workload may have a rate too, but it is not compared by latency and forms no such
    // curve.
    for mut family in families.into_values().filter(|family| {
        family.len() >= FEWEST && (by != By::Rate || cases[family[0].1].better == Better::Lower)
    }) {
        family.sort_unstable();
        let (levels, places): (Vec<u64>, Vec<usize>) = family.into_iter().unzip();
        let what = common(&cases[places[0]].workload, &cases[places[1]].workload);
        let below = params[places[0]].and_then(|params| params.get("p99_below")?.as_str());
        let below = below.and_then(|text| Some(parse_duration(text).ok()?.as_secs_f64()));
        curves.push(Scaling {
            what,
            by,
            levels,
            cases: places,
            knees: Vec::new(),
            below,
            held: Vec::new(),
        });
    }
    curves
}

/// Returns the comma-separated parts that two labels share.
fn common(one: &str, other: &str) -> String {
    let others: Vec<&str> = other.split(", ").collect();
    one.split(", ")
        .filter(|part| others.contains(part))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the knee of a target's curve, from the blocks in which all levels have a value.
fn knee_of(curve: &Scaling, cases: &[Workload], target: usize, theta: f64) -> Option<Knee> {
    if curve
        .cases
        .iter()
        .any(|case| cases[*case].better != Better::Higher)
    {
        return None;
    }
    let cells: Vec<&MeasuredCell> = curve
        .cases
        .iter()
        .map(|case| &cases[*case].cells[target])
        .collect();
    let values: Vec<HashMap<u32, f64>> = cells
        .iter()
        .map(|cell| -> HashMap<u32, f64> {
            cell.trials
                .iter()
                .map(|point| (point.block, point.value))
                .collect()
        })
        .collect();
    let blocks = cells.first()?.trials.iter().map(|point| point.block);
    let complete: Vec<Vec<f64>> = blocks
        .filter_map(|block| {
            values
                .iter()
                .map(|known| known.get(&block).copied())
                .collect()
        })
        .collect();
    knee(&complete, theta).ok().flatten()
}

/// For rates: returns the highest level up to which every trial of this target kept up, and the
/// interval of its 99th percentile is below the bound if there is one.
fn held(curve: &Scaling, cases: &[Workload], target: usize) -> Option<usize> {
    let holds = |case: &usize| {
        let cell = &cases[*case].cells[target];
        let estimate = cell.estimate.as_ref().filter(|_| cell.lost.is_empty());
        estimate.is_some_and(|estimate| {
            let interval = estimate.interval.filter(|_| estimate.is_judged());
            curve
                .below
                .is_none_or(|below| interval.is_some_and(|interval| interval.hi <= below))
        })
    };
    curve
        .cases
        .iter()
        .take_while(|case| holds(case))
        .count()
        .checked_sub(1)
}

/// Returns one sentence per curve: `create 4K files: ext4 shows no gain beyond 2 threads (95 %: 1
/// to 2), xfs and btrfs gain to the last, 8 threads.`
pub(crate) fn lines(summary: &Numbers) -> Vec<String> {
    summary
        .scaling
        .iter()
        .filter(|curve| {
            curve
                .cases
                .iter()
                .all(|case| summary.cases[*case].withheld.is_none())
        })
        .filter_map(|curve| {
            if curve.by == By::Rate {
                rates(summary, curve)
            } else {
                line(summary, curve)
            }
        })
        .collect()
}

/// Returns a sentence such as `random read 4K: p99 below 10.0 ms is shown up to 8.00 kop/s on ext4,
/// not at 1.00 kop/s on xfs.` Returns `None` if a bound needs more blocks.
fn rates(summary: &Numbers, curve: &Scaling) -> Option<String> {
    let mut cells = curve
        .cases
        .iter()
        .flat_map(|case| &summary.cases[*case].cells);
    if curve.below.is_some()
        && !cells.any(|cell| cell.estimate.as_ref().is_some_and(Estimate::is_judged))
    {
        return None;
    }
    let mut alike: Vec<(Option<usize>, Vec<String>)> = Vec::new();
    for (target, held) in summary.targets.iter().zip(&curve.held) {
        match alike.iter_mut().find(|(known, _)| known == held) {
            Some((_, names)) => names.push(target.label()),
            None => alike.push((*held, vec![target.label()])),
        }
    }
    let told: Vec<String> = alike
        .iter()
        .map(|(held, names)| {
            let names = listed(names);
            match held {
                None => format!(
                    "not at {} on {names}",
                    curve.by.counted(*curve.levels.first().unwrap_or(&0))
                ),
                Some(place) if place + 1 == curve.levels.len() => {
                    format!(
                        "up to {}, the highest that was tried, on {names}",
                        curve.by.counted(curve.levels[*place])
                    )
                }
                Some(place) => format!(
                    "up to {} on {names}",
                    curve.by.counted(curve.levels[*place])
                ),
            }
        })
        .collect();
    let what = match curve.below {
        Some(below) => format!("p99 below {} is shown", show_seconds(below)),
        None => "the rate is kept up".to_owned(),
    };
    (!told.is_empty()).then(|| format!("{}: {what} {}.", curve.what, told.join(", ")))
}

fn line(summary: &Numbers, curve: &Scaling) -> Option<String> {
    // Targets whose curves stop alike are named together.
    let mut alike: Vec<(Knee, Vec<String>)> = Vec::new();
    for (target, knee) in summary.targets.iter().zip(&curve.knees) {
        let Some(knee) = *knee else { continue };
        match alike.iter_mut().find(|(known, _)| *known == knee) {
            Some((_, names)) => names.push(target.label()),
            None => alike.push((knee, vec![target.label()])),
        }
    }
    let told: Vec<String> = alike
        .iter()
        .map(|(knee, names)| words(curve, *knee, names))
        .collect();
    (!told.is_empty()).then(|| format!("{}: {}.", curve.what, told.join(", ")))
}

fn words(curve: &Scaling, knee: Knee, names: &[String]) -> String {
    let level = |place: usize| curve.levels[place];
    let span = match (knee.lo, knee.hi) {
        (lo, hi) if lo == hi => String::new(),
        (lo, hi) => format!(" (95 %: {} to {})", level(lo), level(hi)),
    };
    let (at, s) = (
        curve.by.counted(level(knee.level)),
        if names.len() == 1 { "s" } else { "" },
    );
    let verb = match knee.level {
        last if last + 1 == curve.levels.len() => format!("gain{s} to the last,"),
        _ => format!("show{s} no gain beyond"),
    };
    format!("{} {verb} {at}{span}", listed(names))
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{LATENCY_P99, OPERATION_RATE};

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    /// Returns a run of one workload over four numbers of threads.
    fn scaled(blocks: u32) -> Summary {
        let (mut record, all) = sample::run(&["ext4", "xfs"], blocks);
        let first = record.cells[0].label.clone();
        let mut cells = Vec::new();
        let mut trials = Vec::new();
        for threads in [1u64, 2, 4, 8] {
            let label = if threads == 1 {
                "create".to_owned()
            } else {
                format!("create, {threads} threads")
            };
            cells.push(fsb_model::Cell {
                label: label.clone(),
                ..record.cells[0].clone()
            });
            for trial in all.iter().filter(|trial| trial.workload == first) {
                let mut trial = trial.clone();
                let gains = if trial.target == "ext4" {
                    threads.min(2)
                } else {
                    threads
                };
                let rate = 1000.0 * gains as f64 * (1.0 + f64::from(trial.block % 2) * 1e-3);
                trial.metrics = vec![OPERATION_RATE.metric(rate)];
                trial.params.insert("threads".to_owned(), threads.into());
                trial.workload.clone_from(&label);
                trials.push(trial);
            }
        }
        record.cells = cells;
        Summary::of_run(&record, &trials)
    }

    #[test]
    fn curves_are_found_and_told() {
        let summary = scaled(6);
        let [curve] = summary.scaling.as_slice() else {
            panic!("{:?}", summary.scaling)
        };
        assert_eq!(
            (curve.what.as_str(), curve.by, &*curve.levels, &*curve.cases),
            ("create", By::Threads, &[1, 2, 4, 8][..], &[0, 1, 2, 3][..])
        );
        assert_eq!(
            lines(&summary),
            ["create: ext4 shows no gain beyond 2 threads, xfs gains to the last, 8 threads."]
        );
    }

    /// Returns a run of one workload at three rates: the p99 of xfs is above 10 ms at the highest.
    fn at_rates(blocks: u32) -> (fsb_model::RunRecord, Vec<fsb_model::Trial>) {
        let (mut record, all) = sample::run(&["ext4", "xfs"], blocks);
        let first = record.cells[0].label.clone();
        let (mut cells, mut trials) = (Vec::new(), Vec::new());
        for rate in [1000u64, 2000, 4000] {
            let label = format!("random read 4K, at {rate}/s");
            cells.push(fsb_model::Cell {
                label: label.clone(),
                ..record.cells[0].clone()
            });
            for trial in all.iter().filter(|trial| trial.workload == first) {
                let mut trial = trial.clone();
                let seconds = if trial.target == "xfs" && rate > 2000 {
                    0.02
                } else {
                    0.004
                };
                trial.metrics =
                    vec![LATENCY_P99.metric(seconds * (1.0 + f64::from(trial.block % 2) * 1e-3))];
                trial.params.insert("rate".to_owned(), rate.into());
                trial
                    .params
                    .insert("p99_below".to_owned(), "10000us".into());
                trial.workload.clone_from(&label);
                trials.push(trial);
            }
        }
        record.cells = cells;
        (record, trials)
    }

    #[test]
    fn the_highest_rate_that_is_held_is_told() {
        let (record, trials) = at_rates(6);
        let summary = Summary::of_run(&record, &trials);
        assert_eq!(summary.scaling[0].held, [Some(2), Some(1)]);
        assert_eq!(
            lines(&summary),
            [
                "random read 4K: p99 below 10.0 ms is shown up to 4.00 kop/s, the highest that was tried, on ext4, up to 2.00 kop/s on \
              xfs."
            ]
        );
    }

    #[test]
    fn few_blocks_show_no_rate() {
        let told =
            |blocks: u32| lines(&Summary::of_run(&at_rates(blocks).0, &at_rates(blocks).1)).len();
        assert_eq!((told(6), told(4)), (1, 0));
    }

    #[test]
    fn few_blocks_have_curves_and_no_knees() {
        let summary = scaled(3);
        assert_eq!(summary.scaling[0].knees, [None, None]);
        assert!(lines(&summary).is_empty());
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        assert!(
            Summary::of_run(&record, &trials).scaling.is_empty(),
            "no row differs in a count alone"
        );
    }
}
