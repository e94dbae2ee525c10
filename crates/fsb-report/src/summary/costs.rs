//! Costs of cases besides time, for the first screen: latencies with flushes, cases without device
//! I/O, differences in CPU time and in space, and deferred work.

use std::collections::BTreeMap;

use fsb_model::metric::{
    CPU_PER_OPERATION, DEVICE_BYTES_PER_OPERATION, DEVICE_FLUSHES_PER_OPERATION, FAILED_RUNS,
    LATENCY_P99, PEAK_MEMORY, RPCS_PER_OPERATION, SHELL_START, SPACE, WITH_DEFERRED,
    WRITE_AMPLIFICATION,
};
use fsb_model::{Better, RunRecord, Unit};
use fsb_stats::{
    BlockValue, Comparison, Excess, FEWEST_JUDGED, LEVEL, Ranking, excess, hold_groups_over_page,
    t_interval,
};

use super::cell_sentence::ReportedCells;
use super::model::{MeasuredCell, Numbers, Secondary, Workload};
use crate::show::{Change, counted, listed, percent, some_cases};

/// Returns the lines below the table.
pub(crate) fn lines(summary: &Numbers) -> Vec<String> {
    let lines = [
        flushed(summary),
        wear(summary),
        in_memory(summary),
        round_trips(summary),
        processors(summary),
        space(summary),
        failed_runs(summary),
        shell(summary),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns a sentence such as `p99 where each operation is flushed: ext4 1.21 ms, xfs 980 µs at
/// append 4K, durable each.`
fn flushed(summary: &Numbers) -> Option<String> {
    /// The smallest mean number of flushes per operation of a file system that flushes at each
    /// operation. The kernel may merge flushes.
    const EACH: f64 = 0.9;
    let cases = summary.cases.iter().filter_map(|case| {
        let measured = || case.cells.iter().filter(|cell| cell.estimate.is_some());
        if !measured().any(|cell| {
            cell.beside("device_flushes_per_operation")
                .is_some_and(|found| found.description.mean >= EACH)
        }) {
            return None;
        }
        let p99 = |cell: &MeasuredCell| {
            let own = cell
                .latency
                .iter()
                .find(|latency| latency.operation == case.operation);
            own.and_then(|latency| latency.at(0.99))
        };
        let lines = summary.cells_of(case).filter_map(|(target, cell)| {
            Some(format!(
                "{} {}",
                target.label(),
                fsb_model::units::show_seconds(p99(cell)?)
            ))
        });
        let lines: Vec<String> = lines.collect();
        // A partial list would suggest that the other targets do not flush.
        (lines.len() == measured().count())
            .then(|| format!("{} at {}", lines.join(", "), case.workload))
    });
    let cases: Vec<String> = cases.collect();
    (!cases.is_empty())
        .then(|| format!("p99 where each operation is flushed: {}.", cases.join("; ")))
}

/// Returns a sentence such as `Runs with another exit code than 0: grep 30 at command.` Trials that
/// do not count are left out.
fn failed_runs(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |_, cell| {
        let found = cell.beside(FAILED_RUNS.name)?.description;
        let runs = (found.mean * found.n as f64).round();
        (runs > 0.0).then(|| runs.to_string())
    })
    .sentence("Runs with another exit code than 0")
}

/// Returns a sentence such as `Starting the shell takes 780 µs, 12 % of a run at grep; --shell none
/// leaves it out.` if it is a noticeable part.
fn shell(summary: &Numbers) -> Option<String> {
    /// The least share that is printed.
    const SHARE: f64 = 0.05;
    let mut largest: Option<(f64, String)> = None;
    for case in &summary.cases {
        for cell in &case.cells {
            let found = cell.beside(SHELL_START.name).zip(cell.estimate.as_ref());
            let Some((shell, estimate)) = found else {
                continue;
            };
            let seconds = shell.description.min;
            let share = seconds / estimate.value;
            if share >= SHARE && largest.as_ref().is_none_or(|(known, _)| share > *known) {
                let text = format!(
                    "Starting the shell takes {}, {} of a run at {}; --shell none leaves it out.",
                    fsb_model::units::show_seconds(seconds),
                    percent(share),
                    case.workload
                );
                largest = Some((share, text));
            }
        }
    }
    largest.map(|(_, text)| text)
}

/// Returns a sentence such as `Device bytes for each byte written: ext4 1.9 [1.8 2.0] and btrfs 3.1
/// [3.0 3.3] (geometric mean of 4 workloads, 95 % intervals). With btrfs, a disk rated for 600 TBW
/// holds 194 TB of such writes.` The second sentence is left out where the largest number does not
/// differ significantly from the smallest one.
fn wear(summary: &Numbers) -> Option<String> {
    /// The endurance in TBW that manufacturers state for consumer disks of 1 TB.
    const RATED: f64 = 600.0;
    // A case counts only if all targets have it, so that all means are of the same work.
    fn points(cell: &MeasuredCell) -> Option<&[BlockValue]> {
        Some(&cell.beside(WRITE_AMPLIFICATION.name)?.points)
    }
    let cases: Vec<Vec<&[BlockValue]>> = summary
        .cases
        .iter()
        .filter(|case| case.withheld.is_none())
        .filter_map(|case| case.cells.iter().map(points).collect())
        .collect();
    // By block and target: the sum of the logarithms, and the number of cases with a value.
    let mut sums: BTreeMap<u32, Vec<(f64, usize)>> = BTreeMap::new();
    for case in &cases {
        for (target, points) in case.iter().enumerate() {
            for point in points.iter().filter(|point| point.value > 0.0) {
                let targets = sums
                    .entry(point.block)
                    .or_insert_with(|| vec![(0.0, 0); case.len()]);
                targets[target].0 += point.value.ln();
                targets[target].1 += 1;
            }
        }
    }
    let complete = sums
        .values()
        .filter(|targets| targets.iter().all(|(_, count)| *count == cases.len()));
    let logs: Vec<Vec<f64>> = complete
        .map(|targets| {
            targets
                .iter()
                .map(|(sum, count)| sum / *count as f64)
                .collect()
        })
        .collect();
    if logs.len() < FEWEST_JUDGED || summary.unjudged.is_some() {
        return None;
    }
    let interval = |of: &dyn Fn(&Vec<f64>) -> f64| {
        t_interval(&logs.iter().map(of).collect::<Vec<_>>(), LEVEL).ok()?
    };
    let mean = |target: usize| {
        (logs.iter().map(|block| block[target]).sum::<f64>() / logs.len() as f64).exp()
    };
    let shown = summary.targets.iter().enumerate().map(|(place, target)| {
        let interval = interval(&|block| block[place])?;
        let [lo, hi] = [interval.lo, interval.hi].map(f64::exp);
        Some(format!(
            "{} {:.1} [{lo:.1} {hi:.1}]",
            target.label(),
            mean(place)
        ))
    });
    let shown: Vec<String> = shown.collect::<Option<_>>()?;
    let places = || 0..summary.targets.len();
    let most = places().max_by(|a, b| mean(*a).total_cmp(&mean(*b)))?;
    let least = places().min_by(|a, b| mean(*a).total_cmp(&mean(*b)))?;
    let differs =
        interval(&|block| block[most] - block[least]).is_some_and(|interval| interval.lo > 0.0);
    let endurance = format!(
        " With {}, a disk rated for {RATED:.0} TBW holds {:.0} TB of such writes.",
        summary.targets[most].label(),
        RATED / mean(most)
    );
    Some(format!(
        "Device bytes for each byte written: {} (geometric mean of {}, 95 % intervals).{}",
        listed(&shown),
        counted(cases.len(), "workload"),
        if differs { &endurance } else { "" }
    ))
}

/// Returns a sentence such as `Space that the files take differs: xfs +13 % [+12 +14] at create 4K
/// files, durable.`
fn space(summary: &Numbers) -> Option<String> {
    differing(summary, SPACE.name, |_| true).sentence("Space that the files take differs")
}

/// Returns a sentence such as `No device I/O in the timed part: read 1M, warm; rename 4K files.`
fn in_memory(summary: &Numbers) -> Option<String> {
    let cases: Vec<String> = summary
        .cases
        .iter()
        .filter(|case| {
            let mut measured = case
                .cells
                .iter()
                .filter(|cell| cell.estimate.is_some())
                .peekable();
            measured.peek().is_some()
                && measured.all(|cell| {
                    let moved = cell
                        .beside("device_bytes_per_operation")
                        .map(|found| found.description.max);
                    let flushed = cell
                        .beside("device_flushes_per_operation")
                        .map(|found| found.description.max);
                    moved == Some(0.0) && flushed.is_none_or(|flushed| flushed == 0.0)
                })
        })
        .map(|case| case.workload.clone())
        .collect();
    (!cases.is_empty()).then(|| format!("No device I/O in the timed part: {}.", some_cases(&cases)))
}

/// Returns a sentence such as `Round trips to the NFS server per operation: nfs 3.20 at create 4K
/// files, durable.` Calls are counted, not timed, so they are the same on emulated processors.
fn round_trips(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |_, cell| {
        let found = cell.beside(RPCS_PER_OPERATION.name)?;
        Some(found.unit.show(found.description.mean))
    })
    .sentence("Round trips to the NFS server per operation")
}

/// Returns a sentence such as `CPU time per operation differs where speed does not: xfs +12 % [+8
/// +16] at read 1M, warm.`
fn processors(summary: &Numbers) -> Option<String> {
    differing(summary, CPU, |cell| {
        cell.against
            .as_ref()
            .is_some_and(|against| !against.verdict.is_sure())
    })
    .sentence("CPU time per operation differs where speed does not")
}

/// Returns the changes of a cost against the baseline that are significant and larger than the
/// smallest ratio that matters, with the names of their cases.
fn differing(
    summary: &Numbers,
    cost: &str,
    is_meant: impl Fn(&MeasuredCell) -> bool,
) -> ReportedCells {
    ReportedCells::new(summary, |_, cell| {
        if !summary.compares() || !is_meant(cell) {
            return None;
        }
        let comparison = significant(cell, |metric| metric == cost)?;
        Some(Change::from_comparison(comparison).text())
    })
}

/// Returns a sentence such as `Including deferred work: ext4 -12 % [-14 -10] and xfs -4 % [-5 -3]
/// at delete 4K files, durable.` It lists the speeds that deferred work changes significantly and
/// by more than the smallest ratio that matters.
pub(crate) fn deferred_line(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |case, cell| deferred_change(cell, case.better))
        .sentence("Including deferred work")
}

/// Returns the change of a cell's speed if deferred work counts. Returns `None` if it is not
/// significant.
fn deferred_change(cell: &MeasuredCell, better: Better) -> Option<String> {
    let comparison = significant(cell, |metric| metric.ends_with(WITH_DEFERRED))?;
    let speed = if better == Better::Higher {
        comparison.clone()
    } else {
        comparison.inverse()
    };
    Some(Change::from_comparison(&speed).text())
}

/// CPU seconds of an operation.
pub(crate) const CPU: &str = CPU_PER_OPERATION.name;

/// The words of metrics in a gate, and the metrics.
pub(crate) const GATED: [(&str, &str); 6] = [
    ("p99", LATENCY_P99.name),
    ("bytes", DEVICE_BYTES_PER_OPERATION.name),
    ("flushes", DEVICE_FLUSHES_PER_OPERATION.name),
    ("cpu", CPU),
    ("memory", PEAK_MEMORY.name),
    ("space", SPACE.name),
];

/// The comparisons of one metric, each with its case and its target.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) places: Vec<(usize, usize)>,
    pub(crate) rankings: Vec<Ranking>,
}

impl Compared {
    /// Adds a comparison of samples. Returns whether their values are measurements.
    pub(crate) fn push(
        &mut self,
        place: (usize, usize),
        record: &RunRecord,
        samples: &[Vec<BlockValue>],
        better: Better,
    ) -> bool {
        let ranking = Ranking::of_run(samples, &record.analyses(), better, record.plan.theta).ok();
        let is_added = ranking.is_some();
        self.places.extend(ranking.is_some().then_some(place));
        self.rankings.extend(ranking);
        is_added
    }
}

/// Compares costs with those of the baseline, and rates that include deferred work with rates
/// without it. Corrects all these comparisons together for their number.
pub(crate) fn compare(cases: &mut [Workload], record: &RunRecord) {
    let costs = costs(cases, record, is_compared);
    for (metric, Compared { places, rankings }) in &compared(&costs, record) {
        for ((case, target), ranking) in places.iter().zip(rankings) {
            let secondary = &mut cases[*case].cells[*target].secondary;
            if let Some(found) = secondary.iter_mut().find(|found| found.metric == *metric) {
                found.against = ranking.comparison(0, 1);
            }
        }
    }
}

/// The answer about a cost of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ComparedCost {
    /// All values are positive.
    Ratio(Comparison),
    /// Values are 0; with their unit.
    Excess(Excess, Unit),
}

/// Compares the values of one metric with those of the baseline, corrected for their number. Each
/// answer has the places of its case and of its target. Values that the report does not keep are
/// not compared.
pub(crate) fn compare_metric(
    cases: &[Workload],
    record: &RunRecord,
    metric: &str,
) -> BTreeMap<(usize, usize), ComparedCost> {
    let all = costs(cases, record, |name| name == metric);
    let mut found = BTreeMap::new();
    for compared in compared(&all, record).into_values() {
        for (place, ranking) in compared.places.iter().zip(&compared.rankings) {
            let comparison = ranking.comparison(0, 1).map(ComparedCost::Ratio);
            found.extend(comparison.map(|comparison| (*place, comparison)));
        }
    }
    for cost in all.iter().filter(|cost| !cost.is_positive()) {
        let [baseline, own] = &cost.samples;
        let (analyses, theta) = (record.analyses(), record.plan.theta);
        let answer = excess([baseline, own], &analyses, theta, all.len());
        let answer = answer.map(|answer| ComparedCost::Excess(answer, cost.unit));
        found.extend(answer.map(|answer| (cost.place, answer)));
    }
    found
}

/// Compares costs that have a ratio by their metric, and corrects all comparisons for their number.
fn compared(costs: &[CellCost], record: &RunRecord) -> BTreeMap<String, Compared> {
    let mut compared: BTreeMap<String, Compared> = BTreeMap::new();
    for cost in costs.iter().filter(|cost| cost.is_positive()) {
        let group = compared.entry(cost.metric.clone()).or_default();
        group.push(cost.place, record, &cost.samples, cost.better);
    }
    hold_groups_over_page(
        compared
            .values_mut()
            .map(|compared| &mut compared.rankings[..]),
    );
    compared
}

/// The values of a metric of a cell, and those that they are compared with.
struct CellCost {
    /// The places of the case and of the target.
    place: (usize, usize),
    metric: String,
    unit: Unit,
    samples: [Vec<BlockValue>; 2],
    better: Better,
}

impl CellCost {
    /// Returns whether the values have a ratio.
    fn is_positive(&self) -> bool {
        let mut values = self.samples.iter().flatten();
        values.all(|point| point.value.is_finite() && point.value > 0.0)
    }
}

/// Returns the values of the metrics that are meant, of all cells that may be compared.
fn costs(cases: &[Workload], record: &RunRecord, is_meant: impl Fn(&str) -> bool) -> Vec<CellCost> {
    let is_ranked = |target: usize| {
        record
            .unjudged_target(&record.plan.targets[target])
            .is_none()
    };
    let mut costs = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        for (target, cell) in case.cells.iter().enumerate() {
            if case.withheld.is_some() || !is_ranked(0) || !is_ranked(target) {
                continue;
            }
            for found in &cell.secondary {
                let known = samples(case, target, found).filter(|_| is_meant(&found.metric));
                costs.extend(known.map(|(samples, better)| CellCost {
                    place: (number, target),
                    metric: found.metric.clone(),
                    unit: found.unit,
                    samples,
                    better,
                }));
            }
        }
    }
    costs
}

/// Returns whether the report needs the values of a metric by block.
pub(crate) fn keeps_points(metric: &str) -> bool {
    let is_gated = GATED.iter().any(|(_, name)| *name == metric);
    metric == WRITE_AMPLIFICATION.name || is_gated || is_compared(metric)
}

/// Returns whether values of a metric are compared with others.
fn is_compared(metric: &str) -> bool {
    metric == CPU || metric == SPACE.name || metric.ends_with(WITH_DEFERRED)
}

/// Returns the values to compare and the better direction. Returns `None` for metrics that are not
/// compared.
fn samples(
    case: &Workload,
    target: usize,
    found: &Secondary,
) -> Option<([Vec<BlockValue>; 2], Better)> {
    // Both rates of a trial are of the same slice of the medium, so the slice cancels out.
    let without_slice = |points: &[BlockValue]| {
        points
            .iter()
            .map(|point| BlockValue {
                slice: None,
                within: None,
                ..*point
            })
            .collect()
    };
    match found.metric.as_str() {
        metric if target > 0 && !metric.ends_with(WITH_DEFERRED) => Some((
            [
                case.cells[0].beside(&found.metric)?.points.clone(),
                found.points.clone(),
            ],
            Better::Lower,
        )),
        metric if metric.ends_with(WITH_DEFERRED) => Some((
            [
                without_slice(&case.cells[target].values()),
                without_slice(&found.points),
            ],
            case.better,
        )),
        _ => None,
    }
}

/// Returns the comparison of a metric of a cell, or `None` if it is not significant or not larger
/// than the smallest ratio that matters.
pub(crate) fn significant(
    cell: &MeasuredCell,
    is_meant: impl Fn(&str) -> bool,
) -> Option<&Comparison> {
    let found = cell
        .secondary
        .iter()
        .find(|secondary| is_meant(&secondary.metric))?;
    found
        .against
        .as_ref()
        .filter(|comparison| comparison.verdict.is_sure())
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{
        CPU_PER_OPERATION, DEVICE_BYTES_PER_OPERATION, OPERATION_RATE, RPCS_PER_OPERATION,
        WITH_DEFERRED, WRITE_AMPLIFICATION,
    };
    use fsb_model::{RunRecord, Trial};

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    /// Returns the first screen's lines of a run in which each trial has these costs.
    fn lines_of(cost: impl Fn(&str, u32) -> (f64, f64)) -> Vec<String> {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        for trial in &mut trials {
            let (cpu, bytes) = cost(&trial.target, trial.block);
            // The speeds are equal, because a difference of speed suppresses the line on CPU time.
            trial.metrics.truncate(1);
            trial.metrics[0].value = 100.0 + f64::from(trial.block);
            trial.metrics.push(CPU_PER_OPERATION.metric(cpu));
            trial.metrics.push(DEVICE_BYTES_PER_OPERATION.metric(bytes));
        }
        let summary = Summary::of_run(&record, &trials);
        lines(&summary)
    }

    #[test]
    fn processors_are_told_where_they_alone_differ() {
        let noise = |block: u32| 1.0 + f64::from(block % 3) * 0.01;
        let lines = lines_of(|target, block| {
            (
                if target == "xfs" { 1.3e-6 } else { 1e-6 } * noise(block),
                4096.0,
            )
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with(
                "CPU time per operation differs where speed does not: xfs +30 % [+30 +30] at "
            ),
            "{lines:?}"
        );
        assert_eq!(
            lines_of(|_, block| (1e-6 * noise(block), 4096.0)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn wear_is_that_of_the_same_work_on_all_targets() {
        let line = |xfs: f64| {
            let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
            for trial in &mut trials {
                let is_xfs = trial.target == "xfs";
                if trial.workload == record.cells[0].label {
                    let noise = 1.0 + 0.01 * f64::from(trial.block % 2);
                    trial
                        .metrics
                        .push(WRITE_AMPLIFICATION.metric(noise * if is_xfs { xfs } else { 1.5 }));
                } else if trial.workload == record.cells[1].label && is_xfs {
                    trial.metrics.push(WRITE_AMPLIFICATION.metric(9.0));
                }
            }
            wear(&Summary::of_run(&record, &trials)).unwrap()
        };
        let expected = "Device bytes for each byte written: ext4 1.5 [1.5 1.5] and xfs 3.0 [3.0 3.0] (geometric mean of 1 \
                        workload, 95 % intervals). With xfs, a disk rated for 600 TBW holds 199 TB of such writes.";
        assert_eq!(line(3.0), expected);
        assert!(line(1.5).ends_with("intervals)."), "{}", line(1.5));
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        assert_eq!(wear(&Summary::of_run(&record, &trials)), None);
    }

    /// A difference at one of twelve cases is not reported if it is only significant without the
    /// correction.
    #[test]
    fn costs_are_corrected_for_the_number_of_rows() {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        let noise = [0.05, -0.04, 0.03, -0.05, 0.02, -0.01];
        let first = record.cells[0].label.clone();
        for trial in &mut trials {
            let scatter =
                noise[trial.block as usize % 6] * if trial.target == "xfs" { 1.0 } else { -1.0 };
            let gain = if trial.target == "xfs" && trial.workload == first {
                1.16
            } else {
                1.0
            };
            trial.metrics.truncate(1);
            trial.metrics[0].value = 100.0 + f64::from(trial.block);
            trial
                .metrics
                .push(CPU_PER_OPERATION.metric(1e-6 * gain * (1.0 + scatter)));
        }
        let against = |record: &fsb_model::RunRecord, trials: &[fsb_model::Trial]| {
            let summary = Summary::of_run(record, trials);
            (
                lines(&summary).len(),
                summary.cases[0].cells[1]
                    .beside(CPU)
                    .unwrap()
                    .against
                    .clone()
                    .unwrap(),
            )
        };
        let (lines, comparison) = against(&record, &trials);
        assert_eq!(
            (lines, comparison.verdict),
            (0, fsb_stats::Verdict::PerhapsSlower),
            "{comparison:?}"
        );
        let mut alone = record.clone();
        alone.cells.truncate(1);
        trials.retain(|trial| trial.workload == first);
        let (lines, comparison) = against(&alone, &trials);
        assert_eq!(
            (lines, comparison.verdict),
            (1, fsb_stats::Verdict::Slower),
            "{comparison:?}"
        );
    }

    #[test]
    fn rows_that_touch_no_device_say_so() {
        let lines = lines_of(|_, _| (1e-6, 0.0));
        assert!(
            lines[0].starts_with("No device I/O in the timed part: "),
            "{lines:?}"
        );
        assert_eq!(
            lines_of(|_, block| (1e-6, f64::from(block == 3))),
            Vec::<String>::new(),
            "one byte is not nothing"
        );
    }

    #[test]
    fn round_trips_are_told_where_nfs_is_measured() {
        let (mut record, mut trials) = sample::run(&["ext4", "nfs"], 6);
        record.emulated = true;
        let first = record.cells[0].label.clone();
        for trial in trials
            .iter_mut()
            .filter(|trial| trial.target == "nfs" && trial.workload == first)
        {
            trial.metrics.push(RPCS_PER_OPERATION.metric(2.5));
        }
        let line = round_trips(&Summary::of_run(&record, &trials)).unwrap();
        assert_eq!(
            line,
            "Round trips to the NFS server per operation: nfs 2.50 at write 1M, durable."
        );
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        assert_eq!(round_trips(&Summary::of_run(&record, &trials)), None);
    }

    #[test]
    fn costs_are_compared_where_targets_exchange_slices() {
        let (record, trials) = sample::side_by_side(&["ext4", "xfs", "btrfs"], 9);
        let summary = Summary::of_run(&record, &trials);
        for cell in &summary.cases[0].cells[1..] {
            let against = cell.beside(CPU).unwrap().against.as_ref().unwrap();
            assert_eq!(against.method, fsb_stats::Method::PairedOnSlices);
            assert!(
                against.interval.is_some() && against.nominal_level.is_some(),
                "{against:?}"
            );
        }
    }

    /// Returns the line of a run whose first case has these rates with deferred work, as shares of
    /// its rates, by block.
    fn line_of(share: impl Fn(u32) -> f64) -> Option<String> {
        line_of_run(sample::run(&["ext4", "xfs"], 6), share)
    }

    fn line_of_run(
        (record, mut trials): (RunRecord, Vec<Trial>),
        share: impl Fn(u32) -> f64,
    ) -> Option<String> {
        for trial in trials
            .iter_mut()
            .filter(|trial| trial.workload == record.cells[0].label && trial.target == "xfs")
        {
            let mut with = OPERATION_RATE.metric(trial.metrics[0].value * share(trial.block));
            with.name = format!("{}{WITH_DEFERRED}", trial.metrics[0].name);
            trial.metrics.push(with);
        }
        deferred_line(&Summary::of_run(&record, &trials))
    }

    #[test]
    fn deferred_work_is_told_with_its_interval_where_it_is_significant() {
        let steady = line_of(|block| 0.9 - 0.002 * f64::from(block % 3)).unwrap();
        assert_eq!(
            steady,
            "Including deferred work: xfs -10 % [-10 -10] at write 1M, durable."
        );
        let on_slices = line_of_run(sample::side_by_side(&["ext4", "xfs"], 6), |block| {
            0.9 - 0.002 * f64::from(block % 3)
        });
        assert_eq!(
            on_slices.unwrap(),
            "Including deferred work: xfs -10 % [-10 -10] at write 1M, durable."
        );
        assert_eq!(
            line_of(|block| if block == 3 { 0.3 } else { 0.99 }),
            None,
            "one block alone is not significant"
        );
        assert_eq!(
            line_of(|block| 0.98 - 0.002 * f64::from(block % 3)),
            None,
            "less than matters"
        );
    }
}
