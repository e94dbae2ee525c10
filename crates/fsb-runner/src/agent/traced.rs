//! Traces the samples of a case: where the worker's threads wait and run between their first and
//! last timed calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::AddAssign;

use fsb_engine::{Measurement, Profile};
use fsb_model::traced::{
    CommitKind, KernelThreads, RequestKind, RequestTotals, THREAD_KINDS, ThreadKind, Traced,
    TracedRequest, TracedStack,
};
use fsb_sys::trace::stacks::{COMMITS, DEEPEST, Observation, StackId, StackWatch, Symbols};
use fsb_testbed::watch;

/// The maximum number of stacks that a trial records one by one, for waits and for CPU time each.
const MOST_STACKS: usize = 60;
/// The most stacks of contended locks, and of the kernel's threads of one kind.
const MOST_OTHER_STACKS: usize = 20;
/// The most block requests of a trial that are recorded one by one.
const MOST_REQUESTS: usize = 300;

/// The kinds of [`COMMITS`].
const COMMIT_KINDS: [CommitKind; COMMITS.len()] = [
    CommitKind::Jbd2,
    CommitKind::Ext4Fast,
    CommitKind::XfsLogForce,
    CommitKind::Btrfs,
];

/// The eBPF programs, and the names of the kernel's functions.
pub(super) struct Tracer {
    watch: StackWatch,
    symbols: Symbols,
    /// Seconds that the hypervisor had stolen when the sample began.
    stolen_before: Option<f64>,
    /// Nanoseconds that the programs had run.
    run_before: Option<u64>,
}

/// The observations of a sample.
#[derive(Debug, Default)]
pub(super) struct Observations {
    list: Vec<Observation>,
    /// Seconds that the hypervisor stole from all processors.
    stolen: f64,
    /// Nanoseconds that the programs ran on all processors, if the kernel counts them.
    program_ns: Option<u64>,
}

/// The devices of a target, as major and minor numbers. Observations of others are left out if they
/// are known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TracedDevices {
    /// The whole disk, which gets the requests.
    pub(super) disk: Option<(u32, u32)>,
    /// The one that the file system is on, such as a partition of it.
    pub(super) file_system: Option<(u32, u32)>,
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
        let watch = StackWatch::open()
            .map_err(|error| format!("the kernel refuses the eBPF programs: {error}"))?;
        let symbols = Symbols::read()
            .map_err(|error| format!("the kernel's functions have no names: {error}"))?;
        Ok(Tracer {
            watch,
            symbols,
            stolen_before: None,
            run_before: None,
        })
    }

    /// Begins to trace the threads of a process, and the requests of the disk of its target.
    pub(super) fn begin(&mut self, process: u32, disk: Option<(u32, u32)>) -> Result<(), String> {
        // Flushes of earlier work.
        self.watch.drain(drop);
        self.stolen_before = watch::stolen_seconds();
        self.run_before = self.watch.run_time_ns();
        let followed = self.watch.follow(Some(process), disk);
        followed.map_err(|error| format!("the kernel does not trace the worker: {error}"))
    }

    /// Ends that, and returns the observations.
    pub(super) fn end(&mut self) -> Observations {
        let program_ns = self
            .watch
            .run_time_ns()
            .zip(self.run_before)
            .map(|(after, before)| after - before);
        let mut list = Vec::new();
        self.watch.drain(|observation| list.push(observation));
        // An error here was one of `begin`, too.
        let _ = self.watch.follow(None, None);
        let stolen = watch::stolen_seconds()
            .zip(self.stolen_before)
            .map_or(0.0, |(after, before)| after - before);
        Observations {
            list,
            stolen,
            program_ns,
        }
    }

    fn stack(&self, id: StackId) -> TracedStack {
        let addresses = self.watch.addresses(id).unwrap_or_default();
        TracedStack {
            functions: addresses
                .iter()
                .map(|address| self.symbols.name(*address).unwrap_or("unknown").to_owned())
                .collect(),
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
        Profile {
            program: Some(_), ..
        } => Some("programs have a PID namespace of their own"),
        Profile {
            maintenance: Some(_),
            ..
        } => Some("the agent itself does the work, not a worker"),
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
    /// Seconds that the hypervisor stole from all processors.
    stolen: f64,
    /// Nanoseconds that the programs ran; `None` if the kernel did not count them in all samples.
    program_ns: Option<f64>,
    locks: HashMap<StackId, StackTime>,
    /// By the first letters of the name, and the number of the thread.
    kernel_threads: BTreeMap<([u8; 4], u32), KernelThread>,
    requests: BTreeMap<RequestKind, RequestTotals>,
    shown_requests: Vec<TracedRequest>,
    commits: BTreeMap<CommitKind, u64>,
    /// The reason why the times are not complete.
    problem: Option<String>,
}

/// The times of a thread of the kernel.
#[derive(Debug, Default)]
struct KernelThread {
    /// When it got a processor for the last time in this sample.
    on_since: Option<u64>,
    run_ns: u64,
    run_queue_ns: u64,
    waits: HashMap<StackId, StackTime>,
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

    /// Adds the observations of a sample.
    pub(super) fn add(
        &mut self,
        observed: &Observations,
        found: &[Measurement],
        devices: TracedDevices,
    ) {
        let observations = &observed.list;
        let is_first = self.thread_ns == 0;
        let mut windows = Vec::new();
        for measurement in found {
            let spans = &measurement.workers;
            let window = spans
                .iter()
                .map(|span| span.start_ns)
                .min()
                .zip(spans.iter().map(|span| span.stop_ns).max());
            let Some((start, stop)) = window else {
                return self.fail("the workload does not report its threads");
            };
            if spans
                .iter()
                .any(|span| span.timed_ns != span.stop_ns - span.start_ns)
            {
                return self.fail("its clock pauses within a sample");
            }
            windows.push([start, stop]);
            self.thread_ns += spans
                .iter()
                .map(|span| span.stop_ns - span.start_ns)
                .sum::<u64>();
            self.operations += measurement.operations;
            self.cpu_ns += ((measurement.user_seconds + measurement.system_seconds) * 1e9) as u64;
        }
        windows.sort_unstable();
        self.stolen += observed.stolen;
        // Each observation is the work of a program. Those outside the windows took their share of
        // the time.
        let share = observations
            .iter()
            .filter(|observation| {
                let at_ns = observation.ended_ns();
                overlaps(&windows, [at_ns, at_ns + 1]).next().is_some()
            })
            .count() as f64
            / observations.len().max(1) as f64;
        let program_ns = observed.program_ns.map(|ns| ns as f64 * share);
        self.program_ns = if is_first {
            program_ns
        } else {
            self.program_ns.zip(program_ns).map(|(sum, ns)| sum + ns)
        };
        let flushes = flushes(observations, devices.disk);
        self.add_requests(observations, &windows, &flushes);
        // Between two samples, they are not observed.
        self.kernel_threads
            .values_mut()
            .for_each(|thread| thread.on_since = None);
        let mut threads: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for observation in observations {
            match *observation {
                Observation::Off {
                    thread,
                    named: Some(name),
                    out_ns,
                    in_ns,
                    ..
                } => {
                    let own = self.kernel_threads.entry((name, thread)).or_default();
                    if let Some(since) = own.on_since.replace(in_ns) {
                        own.run_ns += overlaps(&windows, [since, out_ns]).map(length).sum::<u64>();
                    }
                    own.run_queue_ns += divide(observation, &windows, &flushes, &mut own.waits);
                }
                // The main thread only waits for the other threads.
                Observation::Off {
                    thread, process, ..
                } if thread == process => {}
                Observation::Off {
                    thread,
                    out_ns,
                    in_ns,
                    ..
                } => {
                    for [from, _] in overlaps(&windows, [out_ns, in_ns]) {
                        threads
                            .entry(window_of(&windows, from))
                            .or_default()
                            .insert(thread);
                    }
                    self.run_queue_ns += divide(observation, &windows, &flushes, &mut self.waits);
                }
                Observation::Ran { at_ns, stack, .. } => {
                    if overlaps(&windows, [at_ns, at_ns + 1]).next().is_some() {
                        *self.samples.entry(stack).or_default() += 1;
                    }
                }
                Observation::Contended {
                    thread,
                    process,
                    from_ns,
                    to_ns,
                    stack,
                } if thread != process => {
                    for part in overlaps(&windows, [from_ns, to_ns]) {
                        *self.locks.entry(stack).or_default() += StackTime::of(part, &flushes);
                    }
                }
                Observation::Committed {
                    kind,
                    device,
                    at_ns,
                } => {
                    let is_own =
                        device == (0, 0) || devices.file_system.is_none_or(|own| own == device);
                    if is_own && overlaps(&windows, [at_ns, at_ns + 1]).next().is_some() {
                        *self.commits.entry(COMMIT_KINDS[kind]).or_default() += 1;
                    }
                }
                Observation::Contended { .. }
                | Observation::Flush { .. }
                | Observation::Request { .. } => {}
            }
        }
        let workers = found
            .iter()
            .map(|measurement| measurement.workers.len())
            .max()
            .unwrap_or(0);
        // A thread of an earlier sample may still be on its way out.
        let mut seen = BTreeSet::new();
        let news = threads.values().map(|threads| {
            threads
                .iter()
                .filter(|thread| seen.insert(**thread))
                .count()
        });
        if news.max().unwrap_or(0) > workers {
            self.fail("helper threads make calls as well, and the kernel does not say which threads are timed");
        }
    }

    /// Adds the requests and flushes within the windows of a sample.
    fn add_requests(
        &mut self,
        observations: &[Observation],
        windows: &[[u64; 2]],
        flushes: &[[u64; 2]],
    ) {
        let [Some([start, _]), Some([_, stop])] =
            [windows.first(), windows.last()].map(Option::<&[u64; 2]>::copied)
        else {
            return;
        };
        let request = |kind: RequestKind,
                       [issued, completed]: [u64; 2],
                       offset: u64,
                       bytes: u64| TracedRequest {
            kind,
            at_ns: issued.saturating_sub(start),
            ns: completed - issued,
            offset,
            bytes,
        };
        let flushes = flushes
            .iter()
            .filter(|flush| overlaps(windows, **flush).next().is_some());
        let flushes = flushes.map(|[from, to]| [*from.max(&start), *to.min(&stop)]);
        let mut all: Vec<TracedRequest> = flushes
            .map(|flush| request(RequestKind::Flush, flush, 0, 0))
            .collect();
        all.extend(observations.iter().filter_map(|observation| {
            let Observation::Request {
                issued_ns,
                completed_ns,
                sector,
                sectors,
                operation,
            } = *observation
            else {
                return None;
            };
            overlaps(windows, [issued_ns, completed_ns]).next()?;
            let kind = match operation {
                b'R' => RequestKind::Read,
                b'W' | b'F' => RequestKind::Write,
                b'D' | b'E' => RequestKind::Discard,
                _ => return None,
            };
            Some(request(
                kind,
                [issued_ns, completed_ns],
                sector * SECTOR,
                u64::from(sectors) * SECTOR,
            ))
        }));
        for TracedRequest {
            kind, ns, bytes, ..
        } in &all
        {
            let none = RequestTotals {
                kind: *kind,
                count: 0,
                bytes: 0,
                ns: 0,
            };
            let totals = self.requests.entry(*kind).or_insert(none);
            (totals.count, totals.bytes, totals.ns) =
                (totals.count + 1, totals.bytes + bytes, totals.ns + ns);
        }
        if all.len() > self.shown_requests.len() {
            self.shown_requests = all;
        }
    }

    /// Returns the times with the names of functions, or the reason why there are none.
    pub(super) fn finish(self, tracer: Option<&Tracer>) -> Traced {
        let Some(tracer) = tracer.filter(|_| self.problem.is_none()) else {
            return Traced {
                problem: self.problem,
                ..Traced::default()
            };
        };
        let lost = tracer.watch.lost();
        let named = |(id, time): (StackId, StackTime)| {
            let StackTime {
                count,
                ns,
                flush_ns,
            } = time;
            TracedStack {
                count,
                ns,
                flush_ns,
                ..tracer.stack(id)
            }
        };
        let waits = largest(self.waits.into_iter().map(named), MOST_STACKS);
        let waited: u64 = waits.iter().map(|stack| stack.ns).sum();
        // The count includes the CPU time of threads before their first call.
        let on_processor = self.thread_ns.saturating_sub(waited + self.run_queue_ns);
        let cpu_ns = self.cpu_ns.min(on_processor);
        // The kernel leaves stolen time out of CPU time, and counts it for processors, not for
        // threads.
        let stolen_ns = ((self.stolen * 1e9) as u64).min(on_processor - cpu_ns);
        let samples: u64 = self.samples.values().sum();
        let runs = self.samples.into_iter().map(|(id, count)| {
            let ns = (cpu_ns as f64 * count as f64 / samples as f64) as u64;
            named((
                id,
                StackTime {
                    count,
                    ns,
                    flush_ns: 0,
                },
            ))
        });
        let mut runs = largest(runs, MOST_STACKS);
        if samples == 0 && cpu_ns > 0 {
            runs.push(TracedStack {
                ns: cpu_ns,
                ..TracedStack::default()
            });
        }
        let locks = largest(self.locks.into_iter().map(named), MOST_OTHER_STACKS);
        let mut shown_requests = self.shown_requests;
        shown_requests.sort_by_key(|request| request.at_ns + request.ns);
        Traced {
            thread_ns: self.thread_ns,
            operations: self.operations,
            run_queue_ns: self.run_queue_ns,
            waits,
            runs,
            stolen_ns,
            program_ns: self.program_ns.map(|ns| ns as u64),
            locks: tracer.watch.reports_contention().then_some(locks),
            kernel_threads: kernel_threads(self.kernel_threads, named),
            requests: self.requests.into_values().collect(),
            shown_requests: evenly_chosen(shown_requests),
            commits: self.commits,
            lost,
            problem: None,
        }
    }
}

/// Bytes of a sector, as the block layer counts.
const SECTOR: u64 = 512;

/// Returns evenly chosen requests if there are too many.
fn evenly_chosen(requests: Vec<TracedRequest>) -> Vec<TracedRequest> {
    let count = requests.len();
    let kept = count.min(MOST_REQUESTS);
    (0..kept)
        .map(|place| requests[place * count / kept])
        .collect()
}

/// Adds up the threads of each kind. Leaves out waits for work, and threads of other kinds.
fn kernel_threads(
    threads: BTreeMap<([u8; 4], u32), KernelThread>,
    named: impl Fn((StackId, StackTime)) -> TracedStack,
) -> Vec<KernelThreads> {
    let mut kinds: BTreeMap<ThreadKind, (KernelThreads, StackTime)> = BTreeMap::new();
    for (
        (name, _),
        KernelThread {
            run_ns,
            run_queue_ns,
            waits,
            ..
        },
    ) in threads
    {
        let Some((kind, _)) = THREAD_KINDS
            .into_iter()
            .find(|(_, begin)| begin.as_bytes().starts_with(&name))
        else {
            continue;
        };
        let (walked, left_out): (Vec<_>, Vec<_>) =
            waits.into_iter().partition(|(id, _)| !id.is_left_out());
        let mut waits: Vec<TracedStack> = walked.into_iter().map(&named).collect();
        // A thread of a program may have such a name, too. It has a stack in user mode wherever it
        // waits.
        if !waits
            .iter()
            .any(|stack| stack.user || stack.functions.iter().any(|function| function == "kthread"))
        {
            continue;
        }
        waits.retain(|stack| !stack.user);
        let none = KernelThreads {
            kind,
            run_ns: 0,
            run_queue_ns: 0,
            waits: Vec::new(),
        };
        let (sum, rest) = kinds.entry(kind).or_insert((none, StackTime::default()));
        sum.run_ns += run_ns;
        sum.run_queue_ns += run_queue_ns;
        sum.waits.extend(waits);
        left_out.into_iter().for_each(|(_, time)| *rest += time);
    }
    fn of_all((mut sum, rest): (KernelThreads, StackTime)) -> KernelThreads {
        add_left_out(&mut sum.waits, rest);
        sum.waits.retain(|stack| !stack.waits_for_work());
        sum.waits = largest(
            std::mem::take(&mut sum.waits).into_iter(),
            MOST_OTHER_STACKS,
        );
        sum
    }
    let mut kinds: Vec<KernelThreads> = kinds.into_values().map(of_all).collect();
    kinds.retain(|sum| sum.run_ns > 0 || !sum.waits.is_empty());
    kinds
}

/// Divides the waits whose stacks were left out among those that have one, in proportion: which
/// have one is random.
fn add_left_out(waits: &mut Vec<TracedStack>, left_out: StackTime) {
    let StackTime {
        count,
        ns,
        flush_ns,
    } = left_out;
    let sum = |value: fn(&TracedStack) -> u64| waits.iter().map(value).sum::<u64>();
    let (counts, times) = (sum(|stack| stack.count), sum(|stack| stack.ns));
    if counts == 0 || times == 0 {
        if count > 0 {
            waits.push(TracedStack {
                count,
                ns,
                flush_ns,
                ..TracedStack::default()
            });
        }
        return;
    }
    for stack in waits {
        stack.count += count * stack.count / counts;
        let share = stack.ns as f64 / times as f64;
        stack.ns += (ns as f64 * share) as u64;
        stack.flush_ns += (flush_ns as f64 * share) as u64;
    }
}

/// Adds the wait of an [`Observation::Off`] within the windows to the waits. Returns the
/// nanoseconds in which the thread could run.
fn divide(
    observation: &Observation,
    windows: &[[u64; 2]],
    flushes: &[[u64; 2]],
    waits: &mut HashMap<StackId, StackTime>,
) -> u64 {
    let Observation::Off {
        out_ns,
        woken_ns,
        in_ns,
        blocked,
        stack,
        ..
    } = *observation
    else {
        return 0;
    };
    let able_ns = if blocked {
        woken_ns.unwrap_or(in_ns).clamp(out_ns, in_ns)
    } else {
        out_ns
    };
    let mut run_queue_ns = 0;
    for [from, to] in overlaps(windows, [out_ns, in_ns]) {
        run_queue_ns += to.saturating_sub(able_ns.max(from));
        if from < to.min(able_ns) {
            *waits.entry(stack).or_default() += StackTime::of([from, to.min(able_ns)], flushes);
        }
    }
    run_queue_ns
}

impl StackTime {
    /// Returns the time of one interval.
    fn of(interval: [u64; 2], flushes: &[[u64; 2]]) -> StackTime {
        let flush_ns = overlaps(flushes, interval).map(length).sum();
        StackTime {
            count: 1,
            ns: length(interval),
            flush_ns,
        }
    }
}

impl AddAssign for StackTime {
    fn add_assign(&mut self, other: StackTime) {
        self.count += other.count;
        self.ns += other.ns;
        self.flush_ns += other.flush_ns;
    }
}

fn length([from, to]: [u64; 2]) -> u64 {
    to - from
}

/// Adds up equal stacks, and returns the `most` largest ones, and the rest together without
/// functions.
fn largest(stacks: impl Iterator<Item = TracedStack>, most: usize) -> Vec<TracedStack> {
    let mut by_functions: BTreeMap<(Vec<String>, bool), TracedStack> = BTreeMap::new();
    fn add(sum: &mut TracedStack, stack: &TracedStack) {
        sum.count += stack.count;
        sum.ns += stack.ns;
        sum.flush_ns += stack.flush_ns;
    }
    for stack in stacks {
        // Different call sites within the same functions have different addresses.
        let entry = by_functions.entry((stack.functions.clone(), stack.user));
        entry.and_modify(|sum| add(sum, &stack)).or_insert(stack);
    }
    let mut stacks: Vec<TracedStack> = by_functions.into_values().collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.ns));
    let rest = stacks.split_off(stacks.len().min(most));
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
        let Observation::Flush {
            device: own,
            at_ns,
            began,
        } = *observation
        else {
            continue;
        };
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
    let within = sorted[first..]
        .iter()
        .take_while(move |[start, _]| *start < to);
    within.map(move |[start, end]| [from.max(*start), to.min(*end)])
}

/// Returns the start of the window that contains a moment.
fn window_of(windows: &[[u64; 2]], moment: u64) -> u64 {
    windows[windows
        .partition_point(|[start, _]| *start <= moment)
        .saturating_sub(1)][0]
}

#[cfg(test)]
mod tests {
    use fsb_engine::measured_by_agent;
    use fsb_model::trial::WorkerSpan;
    use fsb_sys::trace::stacks::KERNEL_THREADS;

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
            Measurement {
                workers: vec![span],
                operations: 10,
                ..measured_by_agent("write", &[], [0.0; 2])
            }
        };
        windows.iter().map(measurement).collect()
    }

    fn off(thread: u32, [out_ns, woken_ns, in_ns]: [u64; 3], blocked: bool) -> Observation {
        Observation::Off {
            thread,
            process: 1,
            named: None,
            out_ns,
            woken_ns: Some(woken_ns),
            in_ns,
            blocked,
            stack: STACK,
        }
    }

    const LOOP: TracedDevices = TracedDevices {
        disk: Some((7, 0)),
        file_system: Some((7, 0)),
    };

    fn observed(list: &[Observation]) -> Observations {
        Observations {
            list: list.to_vec(),
            stolen: 0.0,
            program_ns: Some(900),
        }
    }

    fn flush(at_ns: u64, began: bool) -> Observation {
        Observation::Flush {
            device: (7, 0),
            at_ns,
            began,
        }
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
            Observation::Ran {
                process: 1,
                at_ns: 400,
                stack: STACK,
            },
            Observation::Ran {
                process: 1,
                at_ns: 1050,
                stack: STACK,
            },
        ];
        tally.add(
            &observed(&observations),
            &sample(&[[100, 1000], [1500, 2500]]),
            LOOP,
        );
        let StackTime {
            count,
            ns,
            flush_ns,
        } = tally.waits[&STACK];
        assert_eq!((count, ns, flush_ns), (2, 150, 30));
        assert_eq!((tally.run_queue_ns, tally.samples[&STACK]), (50, 1));
        // Of the nine observations, seven end within the windows.
        assert_eq!(tally.program_ns.map(f64::round), Some(700.0));
        tally.add(&Observations::default(), &sample(&[[2600, 2700]]), LOOP);
        assert_eq!(
            tally.program_ns, None,
            "the kernel did not count them in all samples"
        );
        assert_eq!(
            (tally.thread_ns, tally.operations, &tally.problem),
            (2000, 30, &None)
        );
    }

    #[test]
    fn flushes_of_other_devices_are_left_out() {
        let other = Observation::Flush {
            device: (8, 0),
            at_ns: 20,
            began: true,
        };
        let observations = [
            flush(10, false),
            flush(30, true),
            other,
            flush(35, true),
            flush(40, false),
            flush(50, false),
        ];
        assert_eq!(flushes(&observations, Some((7, 0))), [[0, 10], [30, 50]]);
        assert_eq!(flushes(&[flush(30, true)], None), [[30, u64::MAX]]);
    }

    #[test]
    fn requests_are_counted_by_kind_and_shown_from_the_first_call_on() {
        let request = |issued_ns: u64, completed_ns: u64, operation: u8| Observation::Request {
            issued_ns,
            completed_ns,
            sector: 8,
            sectors: 2,
            operation,
        };
        let observations = [
            request(20, 90, b'W'),
            request(90, 130, b'R'),
            request(150, 170, b'W'),
            request(160, 180, b'F'),
            flush(180, true),
            flush(195, false),
            request(300, 310, b'W'),
        ];
        let mut tally = TraceTally::default();
        tally.add(&observed(&observations), &sample(&[[100, 200]]), LOOP);
        let totals = |count, bytes, ns, kind| RequestTotals {
            kind,
            count,
            bytes,
            ns,
        };
        let expected = [
            totals(1, 1024, 40, RequestKind::Read),
            totals(2, 2048, 40, RequestKind::Write),
            totals(1, 0, 15, RequestKind::Flush),
        ];
        assert_eq!(
            tally.requests.values().cloned().collect::<Vec<_>>(),
            expected
        );
        let first = tally
            .shown_requests
            .iter()
            .find(|request| request.kind == RequestKind::Write)
            .unwrap();
        assert_eq!(
            (first.at_ns, first.ns, first.offset, first.bytes),
            (50, 20, 4096, 1024)
        );
        // A sample with fewer requests is not shown.
        tally.add(
            &observed(&[request(120, 130, b'D')]),
            &sample(&[[100, 200]]),
            LOOP,
        );
        assert_eq!((tally.requests.len(), tally.shown_requests.len()), (4, 4));
        let many: Vec<TracedRequest> = (0..1000)
            .map(|at_ns| TracedRequest {
                at_ns,
                ..tally.shown_requests[0]
            })
            .collect();
        let chosen = evenly_chosen(many);
        assert_eq!(
            (chosen.len(), chosen[0].at_ns, chosen[150].at_ns),
            (MOST_REQUESTS, 0, 500)
        );
    }

    #[test]
    fn locks_and_commits_within_the_windows_are_counted() {
        let lock = |thread: u32, from_ns: u64, to_ns: u64| Observation::Contended {
            thread,
            process: 1,
            from_ns,
            to_ns,
            stack: STACK,
        };
        let commit = |minor: u32, at_ns: u64| Observation::Committed {
            kind: 0,
            device: (7, minor),
            at_ns,
        };
        let observations = [
            lock(2, 90, 110),
            lock(2, 150, 160),
            lock(1, 150, 160),
            commit(0, 120),
            commit(1, 120),
            commit(0, 300),
        ];
        let mut tally = TraceTally::default();
        tally.add(&observed(&observations), &sample(&[[100, 200]]), LOOP);
        let StackTime { count, ns, .. } = tally.locks[&STACK];
        assert_eq!(
            (count, ns, &tally.commits),
            (2, 20, &BTreeMap::from([(CommitKind::Jbd2, 1)]))
        );
        assert!(
            tally.waits.is_empty(),
            "a contended lock is not a wait of its own"
        );
    }

    #[test]
    fn a_thread_of_the_kernel_runs_between_two_waits() {
        let own = |[out_ns, woken_ns, in_ns]: [u64; 3]| Observation::Off {
            thread: 81,
            process: 0,
            named: Some(*b"jbd2"),
            out_ns,
            woken_ns: Some(woken_ns),
            in_ns,
            blocked: true,
            stack: STACK,
        };
        let mut tally = TraceTally::default();
        let observations = [
            own([10, 115, 120]),
            own([150, 170, 175]),
            own([195, 300, 300]),
        ];
        tally.add(&observed(&observations), &sample(&[[100, 200]]), LOOP);
        let thread = &tally.kernel_threads[&(*b"jbd2", 81)];
        // From 120 to 150, and from 175 to 195.
        assert_eq!(
            (thread.run_ns, thread.run_queue_ns, thread.waits[&STACK].ns),
            (50, 10, 15 + 20 + 5)
        );
        assert!(tally.waits.is_empty() && tally.problem.is_none());
        let stack = |functions: &[&str], ns: u64| TracedStack {
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            ns,
            ..TracedStack::default()
        };
        let work = || {
            let waits = HashMap::from([
                (STACK, StackTime::default()),
                (StackId(8), StackTime::default()),
            ]);
            KernelThread {
                run_ns: 5,
                waits,
                ..KernelThread::default()
            }
        };
        let threads = BTreeMap::from([((*b"jbd2", 81), work()), ((*b"jbd2", 82), work())]);
        let found = kernel_threads(threads, |(id, _)| match id {
            STACK => stack(
                &[
                    "schedule",
                    "jbd2_journal_commit_transaction",
                    "kjournald2",
                    "kthread",
                ],
                7,
            ),
            _ => stack(&["schedule", "kjournald2", "kthread"], 9),
        });
        assert_eq!(
            (
                found.len(),
                found[0].kind,
                found[0].run_ns,
                found[0].waits.len()
            ),
            (1, ThreadKind::Jbd2, 10, 1)
        );
        assert_eq!(found[0].waits[0].ns, 14, "waits for work are left out");
        let program = kernel_threads(BTreeMap::from([((*b"loop", 9), work())]), |_| {
            stack(&["schedule", "futex_wait"], 7)
        });
        assert!(program.is_empty(), "a program has such a name: {program:?}");
        // Of eight waits in all, two have a stack, and the thread waited for work once.
        let (user, left_out) = (StackId(-14), StackId(-61));
        assert!(user.is_user() && left_out.is_left_out());
        let time = |count: u64, ns: u64| StackTime {
            count,
            ns,
            flush_ns: ns / 2,
        };
        let waits = HashMap::from([
            (STACK, time(1, 10)),
            (StackId(8), time(1, 30)),
            (left_out, time(6, 80)),
            (user, time(1, 999)),
        ]);
        let threads = BTreeMap::from([(
            (*b"kwor", 9),
            KernelThread {
                run_ns: 5,
                waits,
                ..KernelThread::default()
            },
        )]);
        let found = kernel_threads(
            threads,
            |(
                id,
                StackTime {
                    count,
                    ns,
                    flush_ns,
                },
            )| TracedStack {
                functions: vec![format!("f{}", id.0)],
                user: id.is_user(),
                count,
                ns,
                flush_ns,
                ..TracedStack::default()
            },
        );
        let times: Vec<_> = found[0]
            .waits
            .iter()
            .map(|stack| (stack.count, stack.ns, stack.flush_ns))
            .collect();
        assert_eq!(times, [(4, 90, 45), (4, 30, 15)]);
        let begins = THREAD_KINDS.map(|(_, begin)| &begin[..4]);
        assert!(
            KERNEL_THREADS
                .iter()
                .all(|name| begins.iter().any(|begin| begin.as_bytes() == *name))
        );
        assert_eq!(KERNEL_THREADS.len(), begins.len(), "each kind is traced");
    }

    #[test]
    fn times_of_threads_that_are_not_timed_are_refused() {
        let mut tally = TraceTally::default();
        let observations = [off(2, [110, 120, 120], true), off(3, [110, 120, 120], true)];
        tally.add(&observed(&observations), &sample(&[[100, 200]]), LOOP);
        assert!(
            tally
                .problem
                .is_some_and(|problem| problem.contains("helper threads"))
        );
        let (mut tally, mut paused) = (TraceTally::default(), sample(&[[100, 200]]));
        paused[0].workers[0].timed_ns = 50;
        tally.add(&observed(&[]), &paused, LOOP);
        assert!(
            tally
                .problem
                .is_some_and(|problem| problem.contains("pauses"))
        );
    }

    #[test]
    fn rare_stacks_are_added_up_without_their_functions() {
        let stacks = (0..100u64).map(|at| TracedStack {
            functions: vec![format!("f{at}")],
            ns: at,
            count: 1,
            ..TracedStack::default()
        });
        let kept = largest(stacks, MOST_STACKS);
        assert_eq!(
            (kept.len(), &kept[0].functions[..]),
            (MOST_STACKS + 1, &["f99".to_owned()][..])
        );
        let rest = &kept[MOST_STACKS];
        assert_eq!(
            (rest.count, rest.ns, rest.functions.is_empty()),
            (40, (0..40).sum(), true)
        );
    }
}
