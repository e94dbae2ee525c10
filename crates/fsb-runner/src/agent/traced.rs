//! Traces the samples of a case: where the worker's threads wait and run between their first and last timed calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fsb_engine::{Measurement, Profile};
use fsb_model::traced::{Traced, TracedStack};
use fsb_sys::trace::stacks::{DEEPEST, Observation, StackId, StackWatch, Symbols};

/// The maximum number of stacks that a trial records one by one, for waits and for CPU time each.
const MOST_STACKS: usize = 60;

/// The eBPF programs, and the names of the kernel's functions.
pub(super) struct Tracer {
    watch: StackWatch,
    symbols: Symbols,
}

/// Checks that this process can trace samples.
///
/// # Errors
/// Returns the reason why it cannot.
pub fn can_trace() -> Result<(), String> {
    Tracer::open().map(drop)
}

impl Tracer {
    pub(super) fn open() -> Result<Tracer, String> {
        let watch = StackWatch::open().map_err(|error| format!("the kernel refuses the eBPF programs: {error}"))?;
        let symbols = Symbols::read().map_err(|error| format!("the kernel's functions have no names: {error}"))?;
        Ok(Tracer { watch, symbols })
    }

    /// Begins to trace the threads of a process.
    pub(super) fn begin(&mut self, process: u32) -> Result<(), String> {
        // Discard flushes of earlier work.
        self.watch.drain(drop);
        self.watch.follow(Some(process)).map_err(|error| format!("the kernel does not trace the worker: {error}"))
    }

    /// Stops tracing, and returns the observations.
    pub(super) fn end(&mut self) -> Vec<Observation> {
        let mut observations = Vec::new();
        self.watch.drain(|observation| observations.push(observation));
        // A failure of this call is also a failure of `begin`, which reported it.
        let _ = self.watch.follow(None);
        observations
    }

    fn stack(&self, id: StackId) -> TracedStack {
        let addresses = self.watch.addresses(id).unwrap_or_default();
        let name = |address: &u64| self.symbols.name(*address).unwrap_or("unknown").to_owned();
        TracedStack {
            functions: addresses.iter().map(name).collect(),
            user: id.is_user(),
            truncated: addresses.len() == DEEPEST,
            ..TracedStack::default()
        }
    }
}

/// Returns the reason why a workload cannot be traced, or `None` if it can.
pub(super) fn untraceable(profile: &Profile, is_fake: bool) -> Option<&'static str> {
    match profile {
        _ if is_fake => Some("nothing is measured on a simulated target"),
        Profile { program: Some(_), .. } => Some("programs have a PID namespace of their own"),
        Profile { maintenance: Some(_), .. } => Some("the agent itself does the work, not a worker"),
        Profile { processes: 2.., .. } => Some("only the threads of one process are traced"),
        _ => None,
    }
}

/// The times of a running trial.
#[derive(Debug, Default)]
pub(super) struct TraceTally {
    thread_ns: u64,
    operations: u64,
    run_queue_ns: u64,
    /// CPU time of the process, which the kernel counts exactly.
    cpu_ns: u64,
    waits: HashMap<StackId, StackTime>,
    samples: HashMap<StackId, u64>,
    /// The reason why the times are not complete.
    problem: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct StackTime {
    count: u64,
    ns: u64,
    flush_ns: u64,
}

impl TraceTally {
    /// Stores the reason why the times are not complete. The first reason stays.
    pub(super) fn fail(&mut self, problem: impl Into<String>) {
        self.problem.get_or_insert_with(|| problem.into());
    }

    /// Adds the observations of a sample. `device` is the target's device; flushes of others are left out if it is known.
    pub(super) fn add(&mut self, observations: &[Observation], found: &[Measurement], device: Option<(u32, u32)>) {
        let mut windows = Vec::new();
        for measurement in found {
            let spans = &measurement.workers;
            let window = spans.iter().map(|span| span.start_ns).min().zip(spans.iter().map(|span| span.stop_ns).max());
            let Some((start, stop)) = window else { return self.fail("the workload does not report its threads") };
            if spans.iter().any(|span| span.timed_ns != span.stop_ns - span.start_ns) {
                return self.fail("its clock pauses within a sample");
            }
            windows.push([start, stop]);
            self.thread_ns += spans.iter().map(|span| span.stop_ns - span.start_ns).sum::<u64>();
            self.operations += measurement.operations;
            self.cpu_ns += ((measurement.user_seconds + measurement.system_seconds) * 1e9) as u64;
        }
        windows.sort_unstable();
        let flushes = flushes(observations, device);
        let mut threads: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for observation in observations {
            match *observation {
                // The main thread only waits for the other threads.
                Observation::Off { thread, process, .. } if thread == process => {}
                Observation::Off { thread, out_ns, woken_ns, in_ns, blocked, stack, .. } => {
                    let able_ns = if blocked { woken_ns.unwrap_or(in_ns).clamp(out_ns, in_ns) } else { out_ns };
                    for [from, to] in overlaps(&windows, [out_ns, in_ns]) {
                        threads.entry(window_of(&windows, from)).or_default().insert(thread);
                        self.run_queue_ns += to.saturating_sub(able_ns.max(from));
                        let (from, to) = (from, to.min(able_ns));
                        if from < to {
                            let time = self.waits.entry(stack).or_default();
                            time.count += 1;
                            time.ns += to - from;
                            time.flush_ns += overlaps(&flushes, [from, to]).map(|[from, to]| to - from).sum::<u64>();
                        }
                    }
                }
                Observation::Ran { at_ns, stack, .. } => {
                    if overlaps(&windows, [at_ns, at_ns + 1]).next().is_some() {
                        *self.samples.entry(stack).or_default() += 1;
                    }
                }
                Observation::Flush { .. } => {}
            }
        }
        let workers = found.iter().map(|measurement| measurement.workers.len()).max().unwrap_or(0);
        if threads.values().any(|threads| threads.len() > workers) {
            self.fail("helper threads make calls as well, and the kernel does not say which threads are timed");
        }
    }

    /// Returns the times with the names of functions, or the reason why there are none.
    pub(super) fn finish(self, tracer: Option<&Tracer>) -> Traced {
        let Some(tracer) = tracer.filter(|_| self.problem.is_none()) else {
            return Traced { problem: self.problem, ..Traced::default() };
        };
        let lost = tracer.watch.lost();
        let named = |(id, time): (StackId, StackTime)| {
            let StackTime { count, ns, flush_ns } = time;
            TracedStack { count, ns, flush_ns, ..tracer.stack(id) }
        };
        let waits = largest(self.waits.into_iter().map(named));
        let waited: u64 = waits.iter().map(|stack| stack.ns).sum();
        // The count includes the CPU time of threads before their first call.
        let cpu_ns = self.cpu_ns.min(self.thread_ns.saturating_sub(waited + self.run_queue_ns));
        let samples: u64 = self.samples.values().sum();
        let runs = self.samples.into_iter().map(|(id, count)| {
            let ns = (cpu_ns as f64 * count as f64 / samples as f64) as u64;
            named((id, StackTime { count, ns, flush_ns: 0 }))
        });
        let mut runs = largest(runs);
        if samples == 0 && cpu_ns > 0 {
            runs.push(TracedStack { ns: cpu_ns, ..TracedStack::default() });
        }
        let (thread_ns, operations, run_queue_ns) = (self.thread_ns, self.operations, self.run_queue_ns);
        Traced { thread_ns, operations, run_queue_ns, waits, runs, lost, problem: None }
    }
}

/// Adds up equal stacks. Returns the largest ones, and one without functions for the rest.
fn largest(stacks: impl Iterator<Item = TracedStack>) -> Vec<TracedStack> {
    let mut by_functions: BTreeMap<(Vec<String>, bool), TracedStack> = BTreeMap::new();
    let add = |sum: &mut TracedStack, stack: &TracedStack| {
        sum.count += stack.count;
        sum.ns += stack.ns;
        sum.flush_ns += stack.flush_ns;
    };
    for stack in stacks {
        // Different call sites within the same functions have different addresses.
        let entry = by_functions.entry((stack.functions.clone(), stack.user));
        entry.and_modify(|sum| add(sum, &stack)).or_insert(stack);
    }
    let mut stacks: Vec<TracedStack> = by_functions.into_values().collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.ns));
    let rest = stacks.split_off(stacks.len().min(MOST_STACKS));
    if !rest.is_empty() {
        let mut sum = TracedStack::default();
        rest.iter().for_each(|stack| add(&mut sum, stack));
        stacks.push(sum);
    }
    stacks
}

/// Returns the intervals in which the device was flushing its cache, in order.
fn flushes(observations: &[Observation], device: Option<(u32, u32)>) -> Vec<[u64; 2]> {
    let (mut intervals, mut under_way, mut since) = (Vec::new(), 0u32, 0);
    for observation in observations {
        let Observation::Flush { device: own, at_ns, began } = *observation else { continue };
        if device.is_some_and(|device| device != own) {
            continue;
        }
        match (began, under_way) {
            (true, 0) => (since, under_way) = (at_ns, 1),
            (true, _) => under_way += 1,
            // The flush began before the sample.
            (false, 0) if intervals.is_empty() => intervals.push([0, at_ns]),
            (false, 0) => {}
            (false, 1) => {
                intervals.push([since, at_ns]);
                under_way = 0;
            }
            (false, _) => under_way -= 1,
        }
    }
    if under_way > 0 {
        intervals.push([since, u64::MAX]);
    }
    intervals
}

/// Returns the intersections of an interval with the `sorted` intervals, which do not overlap.
fn overlaps(sorted: &[[u64; 2]], [from, to]: [u64; 2]) -> impl Iterator<Item = [u64; 2]> + '_ {
    let first = sorted.partition_point(|[_, end]| *end <= from);
    let within = sorted[first..].iter().take_while(move |[start, _]| *start < to);
    within.map(move |[start, end]| [from.max(*start), to.min(*end)])
}

/// Returns the start of the window that contains a moment.
fn window_of(windows: &[[u64; 2]], moment: u64) -> u64 {
    windows[windows.partition_point(|[start, _]| *start <= moment).saturating_sub(1)][0]
}

#[cfg(test)]
mod tests {
    use fsb_engine::measured_by_agent;
    use fsb_model::trial::WorkerSpan;

    use super::*;

    const STACK: StackId = StackId(7);

    fn sample(windows: &[[u64; 2]]) -> Vec<Measurement> {
        let measurement = |[start_ns, stop_ns]: &[u64; 2]| {
            let span = WorkerSpan {
                rank: 0,
                start_ns: *start_ns,
                stop_ns: *stop_ns,
                timed_ns: stop_ns - start_ns,
                operations: 10,
                bytes: 0,
            };
            Measurement { workers: vec![span], operations: 10, ..measured_by_agent("write", &[], [0.0; 2]) }
        };
        windows.iter().map(measurement).collect()
    }

    fn off(thread: u32, [out_ns, woken_ns, in_ns]: [u64; 3], blocked: bool) -> Observation {
        Observation::Off { thread, process: 1, out_ns, woken_ns: Some(woken_ns), in_ns, blocked, stack: STACK }
    }

    fn flush(at_ns: u64, began: bool) -> Observation {
        Observation::Flush { device: (7, 0), at_ns, began }
    }

    #[test]
    fn only_time_within_the_timed_windows_counts() {
        let mut tally = TraceTally::default();
        let observations = [
            // Half of the wait is before the first call.
            off(2, [50, 150, 160], true),
            flush(250, true),
            off(2, [200, 300, 300], true),
            flush(280, false),
            // These waits do not count: one is between two units, and one is of the main thread.
            off(2, [1000, 1100, 1100], true),
            off(1, [100, 900, 900], true),
            off(2, [2000, 2000, 2040], false),
            Observation::Ran { process: 1, at_ns: 400, stack: STACK },
            Observation::Ran { process: 1, at_ns: 1050, stack: STACK },
        ];
        tally.add(&observations, &sample(&[[100, 1000], [1500, 2500]]), Some((7, 0)));
        let StackTime { count, ns, flush_ns } = tally.waits[&STACK];
        assert_eq!((count, ns, flush_ns), (2, 150, 30));
        assert_eq!((tally.run_queue_ns, tally.samples[&STACK]), (50, 1));
        assert_eq!((tally.thread_ns, tally.operations, &tally.problem), (1900, 20, &None));
    }

    #[test]
    fn flushes_of_other_devices_are_left_out() {
        let other = Observation::Flush { device: (8, 0), at_ns: 20, began: true };
        let observations =
            [flush(10, false), flush(30, true), other, flush(35, true), flush(40, false), flush(50, false)];
        assert_eq!(flushes(&observations, Some((7, 0))), [[0, 10], [30, 50]]);
        assert_eq!(flushes(&[flush(30, true)], None), [[30, u64::MAX]]);
    }

    #[test]
    fn times_of_threads_that_are_not_timed_are_refused() {
        let mut tally = TraceTally::default();
        tally.add(&[off(2, [110, 120, 120], true), off(3, [110, 120, 120], true)], &sample(&[[100, 200]]), None);
        assert!(tally.problem.is_some_and(|problem| problem.contains("helper threads")));
        let (mut tally, mut paused) = (TraceTally::default(), sample(&[[100, 200]]));
        paused[0].workers[0].timed_ns = 50;
        tally.add(&[], &paused, None);
        assert!(tally.problem.is_some_and(|problem| problem.contains("pauses")));
    }

    #[test]
    fn rare_stacks_are_added_up_without_their_functions() {
        let stacks = (0..100u64).map(|at| TracedStack {
            functions: vec![format!("f{at}")],
            ns: at,
            count: 1,
            ..TracedStack::default()
        });
        let kept = largest(stacks);
        assert_eq!((kept.len(), &kept[0].functions[..]), (MOST_STACKS + 1, &["f99".to_owned()][..]));
        let rest = &kept[MOST_STACKS];
        assert_eq!((rest.count, rest.ns, rest.functions.is_empty()), (40, (0..40).sum(), true));
    }
}
