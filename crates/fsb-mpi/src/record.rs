//! The record of a run and its trials, as `fsb report` and `fsb compare` read them.

use std::path::Path;

use fsb_engine::{EngineError, latency};
use fsb_model::metric::{self, MetricKind};
use fsb_model::observed::{BarrierSkew, Observed};
use fsb_model::plan::{Plan, Repetition};
use fsb_model::run::{Ranks, RunRecord, Segment};
use fsb_model::trial::{self, Outcome, Phase as TrialPhase, Reason, WorkerSpan};
use fsb_model::{Bytes, Cell, Metric, StoppingRule, Trial, WorkloadSpec};
use fsb_testbed::host;
use serde_json::Map;

use crate::clock::Offset;
use crate::suite::{Group, Phase, Request};
use crate::work::RankReport;

/// A trial without its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialKey<'k> {
    pub block: u32,
    pub order: u32,
    pub target: &'k str,
    pub group: &'k Group,
    pub phase: Phase,
    /// The number of ranks that take part.
    pub ranks: usize,
}

/// The results of all ranks that took part in a phase, in the order of ranks.
#[derive(Debug, Default)]
pub(crate) struct PhaseResult {
    /// Rank and report, with times on the clock of rank 0.
    pub reports: Vec<(usize, RankReport)>,
    /// Calls that had finished when the first rank ended.
    pub done_by_first_stop: u64,
    /// The moments at which all ranks left the barrier.
    pub barrier: Option<BarrierSkew>,
}

/// Returns the current time as records have it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Returns the record of a run that begins now.
pub(crate) fn new_record(request: &Request, ranks: Ranks, directory: &Path) -> RunRecord {
    let cells: Vec<Cell> = request
        .suite
        .groups
        .iter()
        .flat_map(|group| request.ranks.iter().map(move |ranks| (group, *ranks)))
        .flat_map(|(group, ranks)| group.phases.iter().map(move |phase| (group, ranks, *phase)))
        .map(|(group, ranks, phase)| {
            let mut params = group.params(phase, ranks);
            // A workload has its name beside its parameters.
            params.remove("name");
            Cell {
                label: group.label(phase, ranks),
                workload: WorkloadSpec::new(group.name(phase), params),
            }
        })
        .collect();
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let names: Vec<&str> = request
        .targets
        .iter()
        .map(|target| target.name.as_str())
        .collect();
    let repetition = Repetition::Blocks {
        blocks: request.blocks,
        seconds: None,
    };
    let plan = Plan {
        name: request.suite_name.clone(),
        targets: request.targets.clone(),
        workloads: cells.iter().map(|cell| cell.workload.clone()).collect(),
        repetition,
        seed: request.seed,
        one_at_a_time: true,
        size: Bytes(0),
        dir: directory.to_owned(),
        ..Plan::default()
    };
    let segment = Segment {
        boot_id: host::boot_id(),
        kernel,
        fsb_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        ended: None,
    };
    RunRecord {
        name: format!("{} · {}", names.join("-"), request.suite_name),
        cells,
        blocks_planned: Some(request.blocks),
        stopping_rule: Some(StoppingRule::new(
            repetition,
            request.targets.len(),
            request.blocks,
            &[],
        )),
        host: host::manifest(),
        ranks: Some(ranks),
        ..RunRecord::new(plan, segment)
    }
}

impl TrialKey<'_> {
    /// Returns the trial with its values, or with the reason why it failed.
    pub fn trial(self, started: String, result: Result<PhaseResult, Reason>) -> Trial {
        let TrialKey {
            block,
            order,
            target,
            group,
            phase,
            ranks,
        } = self;
        let label = group.label(phase, ranks);
        let (outcome, reason, result) = match result {
            Ok(result) => (Outcome::Ok, None, result),
            Err(reason) => (Outcome::Failed, Some(reason), PhaseResult::default()),
        };
        let [error, error_code, errno] = Reason::into_parts(reason);
        let texts: Vec<&str> = result
            .reports
            .iter()
            .map(|(_, report)| report.latency.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let latencies = latency::merge(texts.iter().copied())
            .ok()
            .filter(|_| !texts.is_empty());
        Trial {
            schema: trial::SCHEMA.to_owned(),
            id: format!("b{block}.{target}.{label}"),
            phase: if block == 0 {
                TrialPhase::Warmup
            } else {
                TrialPhase::Measured
            },
            block,
            order,
            attempt: 1,
            target: target.to_owned(),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            workload: label,
            operation: phase.operation().to_owned(),
            params: group.params(phase, ranks),
            started,
            outcome,
            error,
            error_code,
            errno,
            metrics: if outcome == Outcome::Ok {
                metrics(phase, &result, latencies.as_deref())
            } else {
                Vec::new()
            },
            latency: latencies
                .map(|text| (phase.operation().to_owned(), text))
                .into_iter()
                .collect(),
            workers: result
                .reports
                .iter()
                .map(|(rank, report)| span(*rank, report))
                .collect(),
            requested: Map::new(),
            observed: Observed {
                barrier: result.barrier,
                ..Observed::default()
            },
            interference: Vec::new(),
            superseded: false,
            slice: None,
            samples: trial::Samples::default(),
            timelines: Vec::new(),
            extra: Map::new(),
        }
    }
}

fn span(rank: usize, report: &RankReport) -> WorkerSpan {
    WorkerSpan {
        rank: rank as u32,
        start_ns: report.start,
        stop_ns: report.stop,
        timed_ns: report.stop - report.start,
        operations: report.operations,
        bytes: report.bytes,
    }
}

/// Returns the values of a phase. The first one compares targets: from the first start to the last
/// end, as IOR has it.
fn metrics(phase: Phase, result: &PhaseResult, latencies: Option<&str>) -> Vec<Metric> {
    let reports = || result.reports.iter().map(|(_, report)| report);
    let start = reports().map(|report| report.start).min().unwrap_or(0);
    let stop = reports().map(|report| report.stop).max().unwrap_or(0);
    let first_stop = reports().map(|report| report.stop).min().unwrap_or(0);
    let amount = |report: &RankReport| if phase.moves_data() { report.bytes } else { report.operations } as f64;
    let each = reports().next().map_or(0.0, |report| {
        amount(report) / report.operations.max(1) as f64
    });
    // A clock that does not tick within a phase gives its resolution.
    let rate = |amount: f64, ns: u64| amount / (ns.max(1) as f64 * 1e-9);
    let own: Vec<f64> = reports()
        .map(|report| rate(amount(report), report.stop - report.start))
        .collect();
    let kinds: [&MetricKind; 5] = match phase.moves_data() {
        true => [
            &metric::THROUGHPUT,
            &metric::STONEWALL_RATE,
            &metric::WORKER_RATE_MIN,
            &metric::WORKER_RATE_MEAN,
            &metric::WORKER_RATE_MAX,
        ],
        false => [
            &metric::OPERATION_RATE,
            &metric::STONEWALL_OPERATION_RATE,
            &metric::WORKER_OPERATION_RATE_MIN,
            &metric::WORKER_OPERATION_RATE_MEAN,
            &metric::WORKER_OPERATION_RATE_MAX,
        ],
    };
    let [least, mean, greatest] = metric::spread(&own);
    let values = [
        rate(reports().map(amount).sum(), stop.saturating_sub(start)),
        rate(
            result.done_by_first_stop as f64 * each,
            first_stop.saturating_sub(start),
        ),
        least,
        mean,
        greatest,
    ];
    let mut metrics: Vec<Metric> = kinds
        .iter()
        .zip(values)
        .map(|(kind, value)| kind.metric(value))
        .collect();
    // A rank that started after the first one had ended leaves no common interval.
    metrics.retain(|metric| metric.value > 0.0 && metric.value.is_finite());
    let Some(text) = latencies else {
        return metrics;
    };
    let found = [
        (&metric::LATENCY_MEAN, latency::mean(text)),
        (&metric::LATENCY_P50, latency::quantile(text, 0.5)),
        (&metric::LATENCY_P90, latency::quantile(text, 0.9)),
        (&metric::LATENCY_P99, latency::quantile(text, 0.99)),
        (&metric::LATENCY_P999, latency::quantile(text, 0.999)),
        (&metric::LATENCY_MAX, latency::longest(text)),
    ];
    metrics.extend(
        found
            .into_iter()
            .filter_map(|(kind, value)| Some(kind.metric(value?))),
    );
    metrics
}

/// Returns the distribution of the moments at which ranks left a barrier. `left` is on the clock of
/// rank 0.
pub(crate) fn barrier_skew(mut left: Vec<u64>, offsets: &[Offset]) -> Option<BarrierSkew> {
    left.sort_unstable();
    let first = *left.first()?;
    let after = |share: f64| {
        let place = (share * left.len() as f64).ceil() as usize;
        (left[place.clamp(1, left.len()) - 1] - first) as f64 * 1e-9
    };
    Some(BarrierSkew {
        median_seconds: after(0.5),
        p90_seconds: after(0.9),
        longest_seconds: after(1.0),
        clock_error_seconds: offsets
            .iter()
            .map(|offset| offset.error_ns)
            .max()
            .unwrap_or(0) as f64
            * 1e-9,
    })
}

/// Returns the reason why a phase failed: the error of the first rank that has one, and how many
/// others have one.
pub(crate) fn first_failure<'f>(
    failures: impl Iterator<Item = (usize, &'f EngineError)>,
    host_of: &dyn Fn(usize) -> String,
) -> Option<Reason> {
    let mut failures = failures;
    let (rank, error) = failures.next()?;
    let others = match failures.count() {
        0 => String::new(),
        1 => ", and 1 more rank failed".to_owned(),
        n => format!(", and {n} more ranks failed"),
    };
    let text = format!(
        "rank {rank} on {}: {}{others}",
        host_of(rank),
        error.message
    );
    Some(Reason {
        text,
        ..error.clone().into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(start: u64, stop: u64) -> RankReport {
        RankReport {
            start,
            stop,
            operations: 100,
            bytes: 1_000_000,
            ..RankReport::default()
        }
    }

    #[test]
    fn the_rate_is_from_the_first_start_to_the_last_end() {
        let second = 1_000_000_000;
        let result = PhaseResult {
            reports: vec![(0, report(0, 2 * second)), (1, report(second, 4 * second))],
            done_by_first_stop: 130,
            barrier: None,
        };
        let values = |phase| -> Vec<(String, f64)> {
            metrics(phase, &result, None)
                .into_iter()
                .map(|metric| (metric.name, metric.value))
                .collect()
        };
        let named = |values: &[(&str, f64)]| {
            values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            values(Phase::Write),
            named(&[
                ("throughput", 500_000.0),
                ("stonewall_rate", 650_000.0),
                ("worker_rate_min", 1e6 / 3.0),
                ("worker_rate_mean", (5e5 + 1e6 / 3.0) / 2.0),
                ("worker_rate_max", 500_000.0),
            ])
        );
        assert_eq!(
            values(Phase::Create)[..2],
            named(&[("operation_rate", 50.0), ("stonewall_operation_rate", 65.0)])
        );
    }

    #[test]
    fn skew_is_counted_from_the_first_rank() {
        let skew = barrier_skew(
            (0..10).map(|rank| 5_000 + 1_000 * rank).collect(),
            &[Offset::default()],
        )
        .unwrap();
        assert!(
            (skew.median_seconds - 4e-6).abs() < 1e-12 && (skew.p90_seconds - 8e-6).abs() < 1e-12,
            "{skew:?}"
        );
        assert!((skew.longest_seconds - 9e-6).abs() < 1e-12, "{skew:?}");
        assert_eq!(barrier_skew(Vec::new(), &[]), None);
    }

    #[test]
    fn a_failure_names_the_first_rank_and_counts_the_others() {
        let errors = [EngineError::new("full"), EngineError::new("also full")];
        let reason = first_failure([(2, &errors[0]), (3, &errors[1])].into_iter(), &|_| {
            "h1".to_owned()
        })
        .unwrap();
        assert_eq!(reason.text, "rank 2 on h1: full, and 1 more rank failed");
    }
}
