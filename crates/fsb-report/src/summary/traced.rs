//! Explains differences by traced samples: the time of the worker's threads by class.
//!
//! Traced trials are slower than others, so the report never ranks targets by them. It divides the
//! difference between traced trials by class of time.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::traced::{TimeClass, Traced};
use fsb_model::{Better, Outcome, Phase, RunRecord};
use fsb_stats::{Interval, LEVEL, t_interval};
use serde::Serialize;

use super::causes::{Explanation, signed_times, size_of_difference};
use super::traced_work::TracedWork;
use super::trial_value::{CompactTrial, last_attempts};
use crate::show::counted;

/// The minimum number of traced blocks for intervals.
const FEWEST: usize = 3;
/// The maximum number of causes in a sentence, without the unexplained time.
const MOST_CAUSES: usize = 2;
/// The smallest share of unexplained time in an operation that the sentence states as a percentage.
const LARGE: f64 = 0.2;

/// The division of a significant difference from the baseline into classes of time, in traced
/// samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedExplanation {
    /// The label of the workload.
    pub workload: String,
    /// The target.
    pub candidate: String,
    /// The target that it is compared with.
    pub baseline: String,
    /// Blocks in which both were traced.
    pub blocks: u32,
    /// Seconds per operation, as a mean over these blocks; negative if the candidate needs less.
    pub seconds: f64,
    /// The classes of time: the largest difference first, and the unexplained time last. Empty if
    /// nothing was traced.
    pub causes: Vec<TracedCause>,
    /// The relative change of the candidate's time per operation while it is traced: 0.04 for 4 %
    /// longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_slowdown: Option<f64>,
    /// The relative change of the baseline's time per operation while it is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_slowdown: Option<f64>,
    /// The share of the candidate's time per operation in which the tracing programs ran: 0.04 for
    /// 4 %. Unlike the slowdown, it does not contain what changed between the measured and the
    /// traced blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_tracing: Option<f64>,
    /// The share of the baseline's time per operation in which the tracing programs ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_tracing: Option<f64>,
    /// Functions, locks, threads of the kernel, requests and commits. Absent if nothing was traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<TracedWork>,
    /// Reasons why time is unexplained, or why nothing was traced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The share of a class of time in a difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedCause {
    /// The class.
    pub class: TimeClass,
    /// Seconds per operation of the candidate in this class, as a mean over the blocks.
    pub candidate_seconds: f64,
    /// Seconds per operation of the baseline in this class, as a mean over the blocks.
    pub baseline_seconds: f64,
    /// The mean difference per operation in this class; negative if the candidate needs less.
    pub seconds: f64,
    /// The interval of `seconds`. The intervals of all classes of a difference hold together with
    /// 95 % confidence (Bonferroni). Absent for fewer than three blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// Explains differences from the baseline, each with the label of its workload and the place of its
/// target in the plan. Returns nothing for a run without traced blocks.
pub(crate) fn explanations(
    record: &RunRecord,
    differences: &[(&str, usize)],
    trials: &[CompactTrial],
) -> Vec<TracedExplanation> {
    let mut by_cell: BTreeMap<(&str, &str), Vec<&CompactTrial>> = BTreeMap::new();
    for trial in trials
        .iter()
        .filter(|trial| trial.phase == Phase::Traced && !trial.superseded)
    {
        by_cell
            .entry((&trial.what.workload, &trial.what.target))
            .or_default()
            .push(trial);
    }
    if by_cell.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = record
        .plan
        .targets
        .iter()
        .map(|target| target.name.as_str())
        .collect();
    differences
        .iter()
        .map(|(workload, place)| {
            let targets = [names[*place], names[0]].map(|name| {
                let traced = by_cell
                    .get(&(*workload, name))
                    .map_or(Vec::new(), last_attempts);
                let untraced = trials.iter().filter(|trial| {
                    trial.counts() && trial.what.workload == *workload && trial.what.target == name
                });
                TracedTarget {
                    name,
                    slowdown: slowdown(&traced, &untraced.collect::<Vec<_>>()),
                    trials: traced,
                }
            });
            explanation(workload, &targets)
        })
        .collect()
}

/// Returns the number of traced blocks.
pub(crate) fn blocks(trials: &[CompactTrial]) -> u32 {
    let traced = trials
        .iter()
        .filter(|trial| trial.phase == Phase::Traced && !trial.superseded);
    traced
        .map(|trial| trial.block)
        .collect::<BTreeSet<u32>>()
        .len() as u32
}

/// The traced trials of a target at a workload, one per block.
struct TracedTarget<'t> {
    name: &'t str,
    trials: Vec<&'t CompactTrial>,
    slowdown: Option<f64>,
}

/// Seconds per operation by class.
type Costs = BTreeMap<TimeClass, f64>;

impl TracedTarget<'_> {
    fn traced(&self) -> impl Iterator<Item = (&CompactTrial, &Traced)> {
        self.trials
            .iter()
            .filter_map(|trial| Some((*trial, trial.extras().traced.as_deref()?)))
    }

    /// Returns the traced trials with times by their block.
    fn usable(&self) -> BTreeMap<u32, &Traced> {
        self.traced()
            .filter(|(trial, traced)| {
                trial.outcome == Outcome::Ok && traced.problem.is_none() && traced.operations > 0
            })
            .map(|(trial, traced)| (trial.block, traced))
            .collect()
    }

    /// Returns the reasons why time of this target is unexplained.
    fn problems(&self) -> Vec<String> {
        let mut problems: BTreeSet<String> = self
            .traced()
            .filter_map(|(_, traced)| traced.problem.clone())
            .collect();
        let failed = self
            .trials
            .iter()
            .filter(|trial| trial.outcome != Outcome::Ok);
        problems.extend(failed.map(|trial| trial.reason()));
        let lost: u64 = self
            .traced()
            .fold(0, |sum, (_, traced)| sum.saturating_add(traced.lost));
        if lost > 0 {
            problems.insert(format!("the kernel lost {lost} observations"));
        }
        if self
            .traced()
            .flat_map(|(_, traced)| &traced.waits)
            .any(|stack| stack.truncated && stack.class.is_none())
        {
            problems.insert("some stacks are truncated".to_owned());
        }
        problems
            .into_iter()
            .map(|problem| format!("{}: {problem}", self.name))
            .collect()
    }
}

fn costs(traced: &Traced) -> Costs {
    traced
        .classes()
        .into_iter()
        .map(|(class, ns)| (class, ns as f64 * 1e-9 / traced.operations as f64))
        .collect()
}

/// Returns how much longer an operation takes while it is traced: 0.04 for 4 %.
fn slowdown(traced: &[&CompactTrial], untraced: &[&CompactTrial]) -> Option<f64> {
    let mean = |trials: &[&CompactTrial]| {
        let values: Vec<f64> = trials
            .iter()
            .filter_map(|trial| trial.primary().map(|metric| metric.value.ln()))
            .filter(|value| value.is_finite())
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let better = untraced
        .iter()
        .find_map(|trial| trial.primary())?
        .kind
        .better;
    let change = mean(untraced)? - mean(traced)?;
    Some(
        if better == Better::Higher {
            change.exp()
        } else {
            (-change).exp()
        } - 1.0,
    )
}

/// Returns the share of the time of traced trials in which the tracing programs ran. Returns `None`
/// if the kernel did not count them.
fn tracing_share(trials: &BTreeMap<u32, &Traced>) -> Option<f64> {
    let program_ns: u64 = trials
        .values()
        .map(|traced| traced.program_ns)
        .sum::<Option<u64>>()?;
    let thread_ns: u64 = trials.values().map(|traced| traced.thread_ns).sum();
    (thread_ns > 0).then(|| program_ns as f64 / thread_ns as f64)
}

fn explanation(workload: &str, targets: &[TracedTarget<'_>; 2]) -> TracedExplanation {
    let [own, others] = targets.each_ref().map(TracedTarget::usable);
    let traced: Vec<[&Traced; 2]> = own
        .iter()
        .filter_map(|(block, own)| Some([*own, *others.get(block)?]))
        .collect();
    let pairs: Vec<[Costs; 2]> = traced.iter().map(|pair| pair.map(costs)).collect();
    let mut problems: Vec<String> = targets.iter().flat_map(TracedTarget::problems).collect();
    if pairs.is_empty() && problems.is_empty() {
        problems.push("the budget held no traced block".to_owned());
    }
    let causes = causes(&pairs);
    let seconds = causes.iter().map(|cause| cause.seconds).sum();
    let [candidate, baseline] = targets;
    TracedExplanation {
        workload: workload.to_owned(),
        candidate: candidate.name.to_owned(),
        baseline: baseline.name.to_owned(),
        blocks: pairs.len() as u32,
        seconds,
        causes,
        candidate_slowdown: candidate.slowdown,
        baseline_slowdown: baseline.slowdown,
        candidate_tracing: tracing_share(&own),
        baseline_tracing: tracing_share(&others),
        work: (!traced.is_empty()).then(|| TracedWork::from_pairs(&traced)),
        problems,
    }
}

/// Returns the classes of time of paired trials: the largest difference first, and the unexplained
/// time last.
fn causes(pairs: &[[Costs; 2]]) -> Vec<TracedCause> {
    let mut classes: BTreeSet<TimeClass> = pairs
        .iter()
        .flatten()
        .flat_map(|costs| costs.keys().copied())
        .collect();
    if !pairs.is_empty() {
        classes.insert(TimeClass::Unexplained);
    }
    let level = 1.0 - (1.0 - LEVEL) / classes.len().max(1) as f64;
    let mut causes: Vec<TracedCause> = classes
        .into_iter()
        .map(|class| cause(class, pairs, level))
        .collect();
    // The unexplained time is always last.
    let size = |cause: &TracedCause| {
        if cause.class == TimeClass::Unexplained {
            -1.0
        } else {
            cause.seconds.abs()
        }
    };
    causes.sort_by(|a, b| size(b).total_cmp(&size(a)));
    causes
}

fn cause(class: TimeClass, pairs: &[[Costs; 2]], level: f64) -> TracedCause {
    let of = |costs: &Costs| costs.get(&class).copied().unwrap_or(0.0);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let [own, others] = [0, 1].map(|side| {
        pairs
            .iter()
            .map(|pair| of(&pair[side]))
            .collect::<Vec<f64>>()
    });
    let differences: Vec<f64> = own
        .iter()
        .zip(&others)
        .map(|(own, other)| own - other)
        .collect();
    let interval = if differences.len() < FEWEST {
        None
    } else {
        t_interval(&differences, level).ok().flatten()
    };
    TracedCause {
        class,
        candidate_seconds: mean(&own),
        baseline_seconds: mean(&others),
        seconds: mean(&differences),
        interval,
    }
}

impl TracedExplanation {
    /// Returns whether this explains the same difference as an explanation without tracing.
    pub(crate) fn is_difference(&self, other: &Explanation) -> bool {
        (&self.workload, &self.candidate, &self.baseline)
            == (&other.workload, &other.candidate, &other.baseline)
            && !self.causes.is_empty()
    }

    /// Returns a sentence such as `Traced: append 4K, durable each: xfs needs 78 µs less per
    /// operation than ext4: device flush -61 [-70 -52], journal commit -9.0 [-11 -7.0], unexplained
    /// +0.1 [-0.4 +0.6] µs (5 traced blocks; without tracing, 70 µs less; tracing changes the time
    /// of an operation by +4 % on ext4 and +3 % on xfs).` Names the largest two causes, and always
    /// the unexplained time. A cause is not significant if its interval contains 0. `measured` is
    /// the difference in seconds without tracing, if it is known.
    pub fn line(&self, measured: Option<f64>) -> String {
        let TracedExplanation {
            workload,
            candidate,
            baseline,
            blocks,
            ..
        } = self;
        if self.causes.is_empty() {
            return format!(
                "Traced: {workload}: {candidate} is not explained: {}.",
                self.problems.join("; ")
            );
        }
        let (unit, number) = signed_times(self.seconds);
        let describe = |cause: &TracedCause| {
            let interval = cause
                .interval
                .map(|found| format!(" [{} {}]", number(found.lo), number(found.hi)))
                .unwrap_or_default();
            format!("{} {}{interval}", cause.class.name(), number(cause.seconds))
        };
        let (rest, causes): (Vec<_>, Vec<_>) = self
            .causes
            .iter()
            .partition(|cause| cause.class == TimeClass::Unexplained);
        let named = causes
            .iter()
            .take(MOST_CAUSES)
            .chain(&rest)
            .map(|cause| describe(cause));
        let named: Vec<String> = named.collect();
        let mut remarks = vec![counted(*blocks as usize, "traced block")];
        remarks.extend(
            measured.map(|seconds| format!("without tracing, {}", size_of_difference(seconds))),
        );
        let both = |ours: Option<f64>, theirs: Option<f64>| Some([ours? * 100.0, theirs? * 100.0]);
        if let Some([ours, theirs]) = both(self.baseline_tracing, self.candidate_tracing) {
            remarks.push(format!(
                "of an operation's time, the tracing programs take {ours:.1} % on {baseline} and {theirs:.1} % on {candidate}"
            ));
        } else if let Some([ours, theirs]) = both(self.baseline_slowdown, self.candidate_slowdown) {
            remarks.push(format!(
                "tracing changes the time of an operation by {ours:+.0} % on {baseline} and {theirs:+.0} % on {candidate}"
            ));
        }
        let unexplained: f64 = rest
            .iter()
            .map(|cause| cause.candidate_seconds.max(cause.baseline_seconds))
            .sum();
        let all = |of: fn(&TracedCause) -> f64| self.causes.iter().map(of).sum::<f64>();
        let whole = all(|cause| cause.candidate_seconds).max(all(|cause| cause.baseline_seconds));
        if unexplained > LARGE * whole {
            remarks.push(format!(
                "{:.0} % of an operation's time is unexplained",
                unexplained / whole * 100.0
            ));
        }
        remarks.extend(self.problems.iter().cloned());
        format!(
            "Traced: {workload}: {candidate} needs {} per operation than {baseline}: {} {unit} ({}).",
            size_of_difference(self.seconds),
            named.join(", "),
            remarks.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Trial;
    use fsb_model::metric::OPERATION_RATE;
    use fsb_model::traced::{RequestKind, RequestTotals, TracedRequest, TracedStack};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::report::Report;
    use crate::summary::Summary;
    use crate::{html, sample};

    fn stack(function: &str, ns: u64, flush_ns: u64) -> TracedStack {
        TracedStack {
            functions: vec![function.to_owned()],
            ns,
            flush_ns,
            count: 1,
            ..TracedStack::default()
        }
    }

    /// Returns a run of ext4 and xfs with a measured difference, and with traced blocks. An
    /// operation of ext4 waits 100 µs for a commit, 60 µs of them for a flush; one of xfs waits for
    /// a commit of `xfs_ns` without a flush.
    fn traced(xfs_ns: u64, blocks: u32) -> (RunRecord, Vec<Trial>) {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        trials.retain(|trial| trial.workload == record.cells[0].label);
        for trial in &mut trials {
            let noise = 1.0 + 0.002 * f64::from(trial.block % 3);
            let ns = if trial.target == "xfs" {
                xfs_ns
            } else {
                100_000
            };
            trial.metrics = vec![OPERATION_RATE.metric(1e9 / ns as f64 / noise)];
        }
        let of_block = |block: u32| {
            let first = trials.iter().filter(|trial| trial.block == 1);
            first.map(move |trial| {
                let mut trial = Trial {
                    block,
                    phase: Phase::Traced,
                    ..trial.clone()
                };
                trial.metrics[0].value /= 1.25;
                let (ns, flush_ns) = if trial.target == "xfs" {
                    (xfs_ns, 0)
                } else {
                    (100_000, 60_000)
                };
                let noise = u64::from(block % 3) * 10;
                let thread_ns = ns + noise + 500;
                let wait = stack("jbd2_log_wait_commit", ns + noise, flush_ns);
                trial.observed.traced = Some(Box::new(Traced {
                    thread_ns,
                    operations: 1,
                    waits: vec![wait],
                    ..Traced::default()
                }));
                trial
            })
        };
        let more: Vec<Trial> = (7..7 + blocks).flat_map(of_block).collect();
        trials.extend(more);
        (record, trials)
    }

    fn explained((record, trials): (RunRecord, Vec<Trial>)) -> Vec<TracedExplanation> {
        Summary::of_run(&record, &trials)
            .numbers
            .traced_explanations
    }

    #[test]
    fn classes_of_time_are_paired_by_block_and_the_rest_is_named() {
        let found = explained(traced(40_000, 5));
        assert_eq!(found.len(), 1);
        let TracedExplanation {
            blocks,
            seconds,
            causes,
            ..
        } = &found[0];
        let differences: Vec<(TimeClass, i64)> = causes
            .iter()
            .map(|cause| (cause.class, (cause.seconds * 1e9).round() as i64))
            .collect();
        assert_eq!((*blocks, (seconds * 1e9).round() as i64), (5, -60_000));
        let work = found[0].work.as_ref().unwrap();
        assert!(
            work.frames
                .iter()
                .any(|frame| frame.depth == 1 && frame.name == "jbd2_log_wait_commit"),
            "{work:?}"
        );
        let expected = [
            (TimeClass::DeviceFlush, -60_000),
            (TimeClass::JournalCommit, 0),
            (TimeClass::Unexplained, 0),
        ];
        assert_eq!(differences, expected);
        let line = found[0].line(None);
        assert!(
            line.contains(": xfs needs 60 µs less per operation than ext4: device flush -60 [-60 -60], journal commit 0.0 [0.0 0.0], unexplained "),
            "{line}"
        );
        assert!(
            line.contains("the time of an operation by +25 % on ext4 and +25 % on xfs"),
            "{line}"
        );
    }

    #[test]
    fn the_cost_of_tracing_is_the_time_of_its_programs_where_the_kernel_counts_it() {
        let (record, mut trials) = traced(40_000, 5);
        for traced in trials
            .iter_mut()
            .filter_map(|trial| trial.observed.traced.as_mut())
        {
            traced.program_ns = Some(traced.thread_ns / 20);
        }
        let line = explained((record.clone(), trials.clone()))[0].line(None);
        assert!(
            line.contains("the tracing programs take 5.0 % on ext4 and 5.0 % on xfs"),
            "{line}"
        );
        assert!(
            !line.contains("+25 %"),
            "drift between blocks is not the cost of tracing: {line}"
        );
        let uncounted = trials
            .iter_mut()
            .rev()
            .find_map(|trial| trial.observed.traced.as_mut())
            .unwrap();
        uncounted.program_ns = None;
        assert!(explained((record, trials))[0].line(None).contains("+25 %"));
    }

    #[test]
    fn traced_trials_neither_rank_nor_explain_targets_without_a_difference() {
        let (record, trials) = traced(100_000, 5);
        let summary = Summary::of_run(&record, &trials);
        assert!(summary.traced_explanations.is_empty());
        assert_eq!(summary.blocks, 6);
        let measured: Vec<Trial> = trials.into_iter().filter(Trial::counts).collect();
        assert_eq!(Summary::of_run(&record, &measured).cases, summary.cases);
    }

    #[test]
    fn the_first_screen_answers_the_request_to_explain() {
        let screen = |xfs_ns: u64, blocks: u32| {
            let (mut record, trials) = traced(xfs_ns, blocks);
            record.plan.explain = true;
            let summary = Summary::of_run(&record, &trials);
            crate::text::screen(&Report::of_run(&summary, &trials), 200, false, false)
        };
        assert!(
            screen(40_000, 5)
                .contains(": xfs needs 60 µs less per operation than ext4: device flush -60 [")
        );
        assert!(screen(100_000, 5).contains("no significant difference (5 blocks traced)."));
        assert!(screen(40_000, 0).contains("no block was traced"));
    }

    #[test]
    fn too_few_blocks_have_no_intervals_and_problems_are_said() {
        let found = explained(traced(40_000, 2));
        assert!(
            found[0].causes.iter().all(|cause| cause.interval.is_none()),
            "{found:?}"
        );
        let (record, mut trials) = traced(40_000, 5);
        for trial in trials
            .iter_mut()
            .filter(|trial| trial.target == "xfs" && trial.phase == Phase::Traced)
        {
            trial.observed.traced = Some(Box::new(Traced {
                problem: Some("the kernel refuses".to_owned()),
                ..Traced::default()
            }));
        }
        let line = explained((record, trials))[0].line(None);
        assert!(
            line.ends_with(": xfs is not explained: xfs: the kernel refuses."),
            "{line}"
        );
    }

    #[test]
    fn the_page_draws_functions_and_requests_and_has_their_tables() {
        let (record, mut trials) = traced(40_000, 5);
        let request = |kind: RequestKind, at_ns: u64| TracedRequest {
            kind,
            at_ns,
            ns: 900,
            offset: 4096,
            bytes: 8192,
        };
        for trial in &mut trials {
            let Some(traced) = trial.observed.traced.as_mut() else {
                continue;
            };
            traced.waits[0].functions.push("<b>hostile".to_owned());
            traced.shown_requests = vec![
                request(RequestKind::Write, 10),
                request(RequestKind::Flush, 20),
            ];
            traced.requests = vec![RequestTotals {
                kind: RequestKind::Write,
                count: 2,
                bytes: 16384,
                ns: 1800,
            }];
        }
        let summary = Summary::of_run(&record, &trials);
        let page = html::render(&Report::of_run(&summary, &trials));
        for id in ["flame-0", "requests-0"] {
            assert!(
                page.contains(&format!("<div class=\"chart\" id=\"{id}\"")),
                "no {id}"
            );
        }
        assert!(
            page.contains("Requests of the device and commits per operation")
                && page.contains("8.00 KiB, 900 ns")
        );
        assert!(!page.contains("<b>hostile") && page.contains("hostile"));
    }

    /// The scatter of a class of time between trials.
    #[derive(Debug, Clone, Copy)]
    enum Scatter {
        /// In proportion to its mean, such as CPU time.
        Narrow,
        /// With a long tail, such as waits for a device.
        Heavy,
        /// In some trials only, and then large, such as a full log.
        Rare,
    }

    /// Returns the seconds per operation of a trial. Both targets of a block share `luck`.
    fn simulated(random: &mut Pcg64, scatters: &[(TimeClass, Scatter)], luck: f64) -> Costs {
        let mut normal = || (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0;
        let mut costs = Costs::new();
        for (class, scatter) in scatters {
            let seconds = match scatter {
                Scatter::Narrow => Some((luck + 0.05 * normal()).exp()),
                Scatter::Heavy => Some((luck + normal()).exp()),
                Scatter::Rare => (normal() > 0.5).then(|| 5.0 * normal().exp()),
            };
            costs.extend(seconds.map(|seconds| (*class, seconds * 1e-5)));
        }
        costs
    }

    /// Returns the share of simulated pairs of targets of which any class is significant. The
    /// second target needs `factor` times the CPU time of the first one.
    fn share_with_a_cause(blocks: usize, factor: f64) -> f64 {
        const RUNS: u64 = 4000;
        let scatters = [
            (TimeClass::CpuFileSystem, Scatter::Narrow),
            (TimeClass::CpuBlock, Scatter::Narrow),
            (TimeClass::CpuCopy, Scatter::Narrow),
            (TimeClass::RunQueue, Scatter::Heavy),
            (TimeClass::JournalCommit, Scatter::Heavy),
            (TimeClass::DeviceFlush, Scatter::Heavy),
            (TimeClass::InodeLock, Scatter::Rare),
            (TimeClass::LogSpace, Scatter::Rare),
            (TimeClass::Throttling, Scatter::Rare),
            (TimeClass::Unexplained, Scatter::Narrow),
        ];
        let has_cause = |seed: &u64| {
            let mut random = Pcg64::seed_from_u64(*seed);
            let pairs: Vec<[Costs; 2]> = (0..blocks)
                .map(|_| {
                    let luck = random.random_range(-0.3..0.3);
                    let mut pair = [(); 2].map(|()| simulated(&mut random, &scatters, luck));
                    pair[1]
                        .entry(TimeClass::CpuFileSystem)
                        .and_modify(|seconds| *seconds *= factor);
                    pair
                })
                .collect();
            let mut intervals = causes(&pairs)
                .into_iter()
                .filter_map(|cause| cause.interval);
            intervals.any(|interval| interval.lo > 0.0 || interval.hi < 0.0)
        };
        (0..RUNS).filter(has_cause).count() as f64 / RUNS as f64
    }

    #[test]
    fn equal_targets_rarely_have_a_significant_class() {
        for blocks in [3, 5] {
            let (equal, slower) = (
                share_with_a_cause(blocks, 1.0),
                share_with_a_cause(blocks, 3.0),
            );
            eprintln!(
                "{blocks} blocks: {:.1} % of equal targets, {:.1} % of unequal ones",
                equal * 100.0,
                slower * 100.0
            );
            assert!(equal <= 0.05, "{blocks} blocks: {equal}");
            assert!(
                equal > 0.001,
                "{blocks} blocks: {equal} is so few that no difference would be found"
            );
            assert!(
                slower > 2.0 * equal,
                "{blocks} blocks: {slower} with a cause, {equal} without"
            );
        }
    }

    #[test]
    fn a_run_without_traced_blocks_has_no_such_explanation() {
        assert!(explained(traced(40_000, 0)).is_empty());
    }
}
