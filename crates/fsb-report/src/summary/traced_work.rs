//! The details of an explanation by traced samples: time by function, contended locks, threads of
//! the kernel, requests of the device and commits. All are means per operation over the blocks in
//! which both targets were traced.

use std::collections::BTreeMap;

use fsb_model::traced::{
    Activity, CommitKind, RequestKind, ThreadKind, TimeClass, TimePart, Traced, TracedRequest,
};
use serde::Serialize;

/// The most functions of a difference.
const MOST_FRAMES: usize = 120;
/// The smallest share of the time of an operation that a function is shown with.
const LEAST_SHARE: f64 = 0.005;
/// The most locks of a difference.
const MOST_LOCKS: usize = 10;

/// A quantity per operation on both targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerOperation {
    /// Of the candidate.
    pub candidate: f64,
    /// Of the baseline.
    pub baseline: f64,
}

impl PerOperation {
    /// Returns the mean of both.
    pub fn mean(self) -> f64 {
        f64::midpoint(self.candidate, self.baseline)
    }

    /// Returns the candidate's less the baseline's.
    pub fn difference(self) -> f64 {
        self.candidate - self.baseline
    }
}

/// A function of the kernel with the time of the functions that it called, or a class of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeFrame {
    /// 0 for a class, 1 for the outermost functions of its stacks. A frame belongs to the last one
    /// before it with a smaller depth.
    pub depth: u32,
    /// The class or the function.
    pub name: String,
    /// Seconds.
    pub seconds: PerOperation,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestRate {
    /// The kind.
    pub kind: RequestKind,
    /// Their number.
    pub count: PerOperation,
    /// Bytes.
    pub bytes: PerOperation,
    /// Seconds from issue to completion, added up.
    pub seconds: PerOperation,
}

/// Commits of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitRate {
    /// The kind.
    pub kind: CommitKind,
    /// Their number.
    pub count: PerOperation,
}

/// Contention for the locks that one function requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockContention {
    /// The class.
    pub class: TimeClass,
    /// The function; empty if it is not known.
    pub function: String,
    /// Acquisitions that had to wait.
    pub count: PerOperation,
    /// Seconds that they waited, asleep or spinning.
    pub seconds: PerOperation,
}

/// Time of the kernel's threads of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelThreadTime {
    /// The kind.
    pub kind: ThreadKind,
    /// The class of their waits. Absent for the time in which they ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<TimeClass>,
    /// Seconds.
    pub seconds: PerOperation,
}

/// The details of an explanation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedWork {
    /// Time by class and function. Each frame is followed by those of the functions that it called,
    /// and small ones are left out.
    pub frames: Vec<TimeFrame>,
    /// Requests of the target's device.
    pub requests: Vec<RequestRate>,
    /// Commits of the target's file system.
    pub commits: Vec<CommitRate>,
    /// Contended locks, the largest difference first. Absent if the kernel does not report
    /// contention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<Vec<LockContention>>,
    /// Threads of the kernel.
    pub kernel_threads: Vec<KernelThreadTime>,
    /// Requests of one sample of the candidate and of the baseline, for the chart.
    #[serde(skip)]
    pub shown_requests: [Vec<TracedRequest>; 2],
}

impl TracedWork {
    /// Pairs the traced trials of the candidate and the baseline in the same blocks.
    pub(crate) fn from_pairs(pairs: &[[&Traced; 2]]) -> TracedWork {
        let requests = per_operation(pairs, |traced| {
            traced
                .requests
                .iter()
                .map(|totals| (totals.kind, [totals.count, totals.bytes, totals.ns]))
                .collect()
        });
        let requests = requests
            .into_iter()
            .map(|(kind, [count, bytes, ns])| RequestRate {
                kind,
                count,
                bytes,
                seconds: seconds(ns),
            });
        let commits = per_operation(pairs, |traced| {
            traced
                .commits
                .iter()
                .map(|(kind, count)| (*kind, [*count]))
                .collect()
        });
        let shown = pairs
            .iter()
            .find(|pair| pair.iter().all(|traced| !traced.shown_requests.is_empty()));
        TracedWork {
            frames: frames(pairs),
            requests: requests.collect(),
            commits: commits
                .into_iter()
                .map(|(kind, [count])| CommitRate { kind, count })
                .collect(),
            locks: pairs
                .iter()
                .flatten()
                .any(|traced| traced.locks.is_some())
                .then(|| locks(pairs)),
            kernel_threads: kernel_threads(pairs),
            shown_requests: shown
                .map(|pair| pair.map(|traced| traced.shown_requests.clone()))
                .unwrap_or_default(),
        }
    }
}

/// Returns the means over the blocks of quantities per operation. Each key has `N` of them.
fn per_operation<'t, K: Ord, const N: usize>(
    pairs: &[[&'t Traced; 2]],
    values: impl Fn(&'t Traced) -> Vec<(K, [u64; N])>,
) -> BTreeMap<K, [PerOperation; N]> {
    let mut means: BTreeMap<K, [PerOperation; N]> = BTreeMap::new();
    for pair in pairs {
        let [candidate, baseline] = *pair;
        let mut add = |traced: &'t Traced, side: fn(&mut PerOperation) -> &mut f64| {
            for (key, values) in values(traced) {
                let own = means.entry(key).or_insert([PerOperation::default(); N]);
                for (mean, value) in own.iter_mut().zip(values) {
                    *side(mean) += value as f64 / traced.operations as f64 / pairs.len() as f64;
                }
            }
        };
        add(candidate, |mean| &mut mean.candidate);
        add(baseline, |mean| &mut mean.baseline);
    }
    means
}

/// Converts nanoseconds.
fn seconds(ns: PerOperation) -> PerOperation {
    PerOperation {
        candidate: ns.candidate * 1e-9,
        baseline: ns.baseline * 1e-9,
    }
}

fn frames(pairs: &[[&Traced; 2]]) -> Vec<TimeFrame> {
    let times = per_operation(pairs, |traced| {
        let frames = traced
            .parts()
            .into_iter()
            .flat_map(|TimePart { class, stack, ns }| {
                let mut path = vec![class.name()];
                path.extend(stack.map(|stack| stack.path()).unwrap_or_default());
                (1..=path.len())
                    .map(move |depth| (path[..depth].to_vec(), [ns]))
                    .collect::<Vec<_>>()
            });
        frames.collect()
    });
    let whole: f64 = times
        .iter()
        .filter(|(path, _)| path.len() == 1)
        .map(|(_, [ns])| ns.mean())
        .sum();
    let mut sizes: Vec<f64> = times.values().map(|[ns]| ns.mean()).collect();
    sizes.sort_by(|one, other| other.total_cmp(one));
    // A frame is at least as large as those of the functions that it called, so none is left
    // without its caller.
    let least = sizes
        .get(MOST_FRAMES)
        .map_or(0.0, |next| next * (1.0 + f64::EPSILON))
        .max(whole * LEAST_SHARE);
    // Paths in their order have each frame before those of the functions that it called.
    let shown = times
        .into_iter()
        .filter(|(_, [ns])| ns.mean() >= least && ns.mean() > 0.0);
    shown
        .map(|(path, [ns])| {
            let name = path.last().copied().unwrap_or_default().to_owned();
            TimeFrame {
                depth: path.len() as u32 - 1,
                name,
                seconds: seconds(ns),
            }
        })
        .collect()
}

fn locks(pairs: &[[&Traced; 2]]) -> Vec<LockContention> {
    let found = per_operation(pairs, |traced| {
        traced
            .locks
            .iter()
            .flatten()
            .map(|stack| {
                let class = TimeClass::of_stack(stack, Activity::Waits);
                (
                    (class, stack.lock_caller().unwrap_or_default().to_owned()),
                    [stack.count, stack.ns],
                )
            })
            .collect()
    });
    let mut locks: Vec<LockContention> = found
        .into_iter()
        .map(|((class, function), [count, ns])| LockContention {
            class,
            function,
            count,
            seconds: seconds(ns),
        })
        .collect();
    locks.sort_by(|one, other| {
        other
            .seconds
            .difference()
            .abs()
            .total_cmp(&one.seconds.difference().abs())
    });
    locks.truncate(MOST_LOCKS);
    locks
}

fn kernel_threads(pairs: &[[&Traced; 2]]) -> Vec<KernelThreadTime> {
    let times = per_operation(pairs, |traced| {
        let of_kind = traced.kernel_threads.iter().flat_map(|threads| {
            let waits = threads
                .waits
                .iter()
                .flat_map(TimePart::of_wait)
                .map(|part| (Some(part.class), part.ns));
            let others = [
                (None, threads.run_ns),
                (Some(TimeClass::RunQueue), threads.run_queue_ns),
            ];
            waits
                .chain(others)
                .map(|(class, ns)| ((threads.kind, class), [ns]))
        });
        of_kind.filter(|(_, [ns])| *ns > 0).collect()
    });
    times
        .into_iter()
        .map(|((kind, class), [ns])| KernelThreadTime {
            kind,
            class,
            seconds: seconds(ns),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fsb_model::traced::{KernelThreads, RequestTotals, TracedStack};

    use super::*;

    fn stack(functions: &str, ns: u64, count: u64) -> TracedStack {
        let functions = functions.split(' ').map(str::to_owned).collect();
        TracedStack {
            functions,
            ns,
            count,
            ..TracedStack::default()
        }
    }

    /// Returns a trial of ten operations of 1 µs, with a wait for a commit of `commit_ns` in all.
    fn trial(commit_ns: u64) -> Traced {
        Traced {
            operations: 10,
            thread_ns: 10_000,
            waits: vec![TracedStack {
                flush_ns: commit_ns / 2,
                ..stack(
                    "schedule jbd2_log_wait_commit ext4_sync_file do_syscall_64",
                    commit_ns,
                    10,
                )
            }],
            runs: vec![stack("ext4_sync_file do_syscall_64", 1000, 2)],
            ..Traced::default()
        }
    }

    #[test]
    fn frames_follow_their_callers_and_add_up_to_the_whole() {
        let (own, other) = (trial(4000), trial(8000));
        let work = TracedWork::from_pairs(&[[&own, &other], [&own, &other]]);
        let shown: Vec<(u32, &str, i64)> = work
            .frames
            .iter()
            .map(|frame| {
                (
                    frame.depth,
                    frame.name.as_str(),
                    (frame.seconds.difference() * 1e9).round() as i64,
                )
            })
            .collect();
        let expected = [
            (0, "CPU file system", 0),
            (1, "ext4_sync_file", 0),
            (0, "device flush", -200),
            (1, "ext4_sync_file", -200),
            (2, "jbd2_log_wait_commit", -200),
            (0, "journal commit", -200),
            (1, "ext4_sync_file", -200),
            (2, "jbd2_log_wait_commit", -200),
            (0, "unexplained", 400),
        ];
        assert_eq!(shown, expected);
        let whole: f64 = work
            .frames
            .iter()
            .filter(|frame| frame.depth == 0)
            .map(|frame| frame.seconds.mean())
            .sum();
        assert!((whole * 1e9 - 1000.0).abs() < 1e-6, "{whole}");
    }

    #[test]
    fn small_frames_and_those_beyond_the_limit_are_left_out() {
        let deep = |at: u64| {
            let functions: Vec<String> = (0..10)
                .rev()
                .map(|depth| format!("f{at}_{depth}"))
                .collect();
            stack(&functions.join(" "), 1000 + at, 1)
        };
        let own = Traced {
            waits: (0..40).map(deep).collect(),
            ..trial(0)
        };
        let frames = TracedWork::from_pairs(&[[&own, &own]]).frames;
        assert!(
            (100..=MOST_FRAMES).contains(&frames.len()),
            "{}",
            frames.len()
        );
        assert!(
            frames
                .windows(2)
                .all(|pair| pair[1].depth <= pair[0].depth + 1),
            "{frames:?}"
        );
        let own = Traced {
            waits: vec![stack("large", 9000, 1), stack("small", 40, 1)],
            ..trial(0)
        };
        let frames = TracedWork::from_pairs(&[[&own, &own]]).frames;
        assert!(
            frames.iter().any(|frame| frame.name == "large")
                && frames.iter().all(|frame| frame.name != "small")
        );
        assert!(TracedWork::from_pairs(&[]).frames.is_empty());
    }

    #[test]
    fn requests_locks_and_threads_are_counted_for_an_operation() {
        let request = |kind: RequestKind, count: u64| RequestTotals {
            kind,
            count,
            bytes: count * 4096,
            ns: count * 1000,
        };
        let own = Traced {
            requests: vec![
                request(RequestKind::Write, 20),
                request(RequestKind::Flush, 10),
            ],
            commits: BTreeMap::from([(CommitKind::Jbd2, 5)]),
            locks: Some(vec![
                stack("down_write path_openat", 500, 3),
                stack("down_write path_openat vfs", 500, 2),
            ]),
            kernel_threads: vec![KernelThreads {
                kind: ThreadKind::Jbd2,
                run_ns: 300,
                run_queue_ns: 0,
                waits: vec![TracedStack {
                    flush_ns: 50,
                    ..stack("schedule jbd2_journal_commit_transaction", 200, 1)
                }],
            }],
            ..trial(0)
        };
        let other = Traced {
            requests: vec![request(RequestKind::Write, 10)],
            ..trial(0)
        };
        let work = TracedWork::from_pairs(&[[&own, &other]]);
        let both = |candidate, baseline| PerOperation {
            candidate,
            baseline,
        };
        let counts: Vec<(RequestKind, PerOperation)> = work
            .requests
            .iter()
            .map(|rate| (rate.kind, rate.count))
            .collect();
        assert_eq!(
            counts,
            [
                (RequestKind::Write, both(2.0, 1.0)),
                (RequestKind::Flush, both(1.0, 0.0))
            ]
        );
        assert_eq!(work.requests[0].bytes, both(8192.0, 4096.0));
        assert_eq!(
            (work.commits.len(), work.commits[0].count),
            (1, both(0.5, 0.0))
        );
        let locks = work.locks.unwrap();
        let [lock] = &locks[..] else {
            panic!("{locks:?}")
        };
        assert_eq!(
            (lock.class, lock.function.as_str()),
            (TimeClass::DirectoryLock, "path_openat")
        );
        assert_eq!(
            (lock.count, (lock.seconds.candidate * 1e9).round() as i64),
            (both(0.5, 0.0), 100)
        );
        let threads: Vec<(Option<TimeClass>, i64)> = work
            .kernel_threads
            .iter()
            .map(|time| (time.class, (time.seconds.candidate * 1e9).round() as i64))
            .collect();
        let expected = [
            (None, 30),
            (Some(TimeClass::DeviceFlush), 5),
            (Some(TimeClass::JournalCommit), 15),
        ];
        assert_eq!(threads, expected);
        assert!(TracedWork::from_pairs(&[[&other, &other]]).locks.is_none());
    }
}
