//! The text below the report: the barriers, the spread of ranks, curves over ranks, and scores.

use std::fmt::Write;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::units::show_seconds;
use fsb_model::{RunRecord, Trial};
use fsb_stats::{Estimate, Parameter, scalability};

use crate::suite::{Phase, Score, Suite};

/// Names of the metrics of the slowest and of the fastest rank.
const SPREAD: [(&str, &str); 2] = [
    ("worker_rate_min", "worker_rate_max"),
    ("worker_operation_rate_min", "worker_operation_rate_max"),
];

/// Parameters of the scalability law are shown only if it misses no level by more than this share.
const LARGEST_MISFIT: f64 = 0.2;

/// Returns the lines about ranks.
pub fn lines(record: &RunRecord, trials: &[Trial], suite: &Suite) -> String {
    let counted: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.primary().is_some() && trial.counts())
        .collect();
    let mut text = String::new();
    barriers(&mut text, &counted);
    spread(&mut text, record, &counted);
    curves(&mut text, record, &counted, suite);
    if suite.score == Some(Score::Io500Like) {
        scores(&mut text, record, &counted, suite);
    }
    text
}

/// The skew of the barriers: the median trial, and the worst one.
fn barriers(text: &mut String, trials: &[&Trial]) {
    let skews = || trials.iter().filter_map(|trial| trial.observed.barrier);
    let mut medians: Vec<f64> = skews().map(|skew| skew.median_seconds).collect();
    medians.sort_by(f64::total_cmp);
    let Some(median) = medians.get(medians.len() / 2) else {
        return;
    };
    let most = |of: fn(&fsb_model::observed::BarrierSkew) -> f64| {
        skews().map(|skew| of(&skew)).fold(0.0, f64::max)
    };
    let (p90, longest) = (
        most(|skew| skew.p90_seconds),
        most(|skew| skew.longest_seconds),
    );
    let error = most(|skew| skew.clock_error_seconds);
    let clocks = match error > 0.0 {
        true => format!("; clocks of hosts agree within {}", show_seconds(error)),
        false => "; all ranks read one clock".to_owned(),
    };
    let _ = writeln!(
        text,
        "barriers ({} trials): half of the ranks started within {} (median trial), nine of ten within {} and all within \
         {} (worst trial){clocks}",
        trials.len(),
        show_seconds(*median),
        show_seconds(p90),
        show_seconds(longest)
    );
}

/// The rate of the slowest rank over that of the fastest one, by case and target.
fn spread(text: &mut String, record: &RunRecord, trials: &[&Trial]) {
    let _ = writeln!(text, "slowest rank / fastest rank (median of blocks):");
    for cell in &record.cells {
        let values = record.plan.targets.iter().filter_map(|target| {
            let own = trials
                .iter()
                .filter(|trial| trial.workload == cell.label && trial.target == target.name);
            fn ratio(trial: &&&Trial) -> Option<f64> {
                SPREAD
                    .iter()
                    .find_map(|(least, most)| Some(trial.metric(least)? / trial.metric(most)?))
            }
            let mut ratios: Vec<f64> = own.filter_map(|trial| ratio(&trial)).collect();
            ratios.sort_by(f64::total_cmp);
            Some(format!(
                "{} {:.2}",
                target.name,
                ratios.get(ratios.len() / 2)?
            ))
        });
        let values: Vec<String> = values.collect();
        if !values.is_empty() {
            let _ = writeln!(text, "  {}: {}", cell.label, values.join(", "));
        }
    }
}

/// The universal scalability law of each phase and target that was measured with several numbers of
/// ranks.
fn curves(text: &mut String, record: &RunRecord, trials: &[&Trial], suite: &Suite) {
    fn ranks(trial: &Trial) -> Option<u64> {
        trial
            .params
            .get("ranks")
            .and_then(serde_json::Value::as_u64)
    }
    let mut levels: Vec<u64> = trials.iter().filter_map(|trial| ranks(trial)).collect();
    levels.sort_unstable();
    levels.dedup();
    for (group, phase) in suite.phases() {
        for target in &record.plan.targets {
            let rate = |block: u32, level: u64| {
                let label = group.label(phase, level as usize);
                Some(
                    trials
                        .iter()
                        .find(|trial| {
                            trial.block == block
                                && trial.workload == label
                                && trial.target == target.name
                        })?
                        .primary()?
                        .value,
                )
            };
            let of_block = |block: u32| {
                levels
                    .iter()
                    .map(|level| rate(block, *level))
                    .collect::<Option<Vec<f64>>>()
            };
            let blocks: Vec<Vec<f64>> = record
                .order
                .iter()
                .filter_map(|order| of_block(order.block))
                .collect();
            let Ok(Some(found)) = scalability(&levels, &blocks) else {
                continue;
            };
            let label = group.label(phase, 1);
            let what = label.strip_suffix(", 1 rank").unwrap_or(&label);
            fn percent(parameter: Parameter, digits: usize) -> String {
                let Parameter { value, interval } = parameter;
                let (lo, hi) = (100.0 * interval.lo, 100.0 * interval.hi);
                format!(
                    "{:.digits$} % [{lo:.digits$}, {hi:.digits$}]",
                    100.0 * value
                )
            }
            let misfit = format!("misfit {:.0} %", 100.0 * found.misfit);
            if found.misfit > LARGEST_MISFIT {
                let _ = writeln!(
                    text,
                    "scalability law, {what}, {}: it does not describe this curve, {misfit}",
                    target.name
                );
                continue;
            }
            let most = levels.last().copied().unwrap_or(0) as f64;
            let peak = match found.peak {
                None => "no peak".to_owned(),
                Some(peak) if peak > most => {
                    format!("peak at {peak:.0} ranks, an extrapolation beyond {most:.0}")
                }
                Some(peak) => format!("peak at {peak:.0} ranks"),
            };
            let _ = writeln!(
                text,
                "scalability law, {what}, {}: contention {}, coherency {}, {peak}; {misfit}",
                target.name,
                percent(found.sigma, 1),
                percent(found.kappa, 3)
            );
        }
    }
}

/// The score of each target: √(bandwidth · rate), with the geometric means of all bandwidths in
/// GiB/s and of all rates in thousands per second, as <https://io500.org> defines it. The phase
/// `find` of IO500 is missing.
fn scores(text: &mut String, record: &RunRecord, trials: &[&Trial], suite: &Suite) {
    let Some(ranks) = record
        .ranks
        .as_ref()
        .map(|ranks| ranks.by_host.iter().sum::<u32>() as usize)
    else {
        return;
    };
    let cells: Vec<(String, Phase)> = suite
        .phases()
        .map(|(group, phase)| (group.label(phase, ranks), phase))
        .collect();
    let _ = writeln!(
        text,
        "io500-like score (not a submission to the IO500 list, and not comparable with it):"
    );
    for target in &record.plan.targets {
        let mean = |metric: &str| -> Option<f64> {
            let mut logs = Vec::new();
            for (label, _) in cells
                .iter()
                .filter(|(_, phase)| phase.moves_data() == (metric == THROUGHPUT.name))
            {
                let own = trials
                    .iter()
                    .filter(|trial| trial.workload == *label && trial.target == target.name);
                let values: Vec<f64> = own.filter_map(|trial| trial.metric(metric)).collect();
                logs.push(Estimate::from_values(&values).ok()?.value.ln());
            }
            (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        let bandwidth = mean(THROUGHPUT.name).map(|value| value / f64::from(1 << 30));
        let rate = mean(OPERATION_RATE.name).map(|value| value / 1e3);
        let _ = match bandwidth.zip(rate) {
            Some((bandwidth, rate)) => writeln!(
                text,
                "  {}: {:.3} (bandwidth {bandwidth:.3} GiB/s, metadata {rate:.3} kop/s)",
                target.name,
                (bandwidth * rate).sqrt()
            ),
            None => writeln!(text, "  {}: no score: a phase has no value", target.name),
        };
    }
}
