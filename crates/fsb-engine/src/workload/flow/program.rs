//! Compiles a flow for its threads: replaces names by numbers, and stores everything that a step needs in the step.

use std::collections::BTreeMap;

use fsb_model::flow::{Flow, FlowStep, Op, Spread, Thread};

use super::entries;

/// Default bytes of one call of a step that moves a whole file.
const RECORD: u64 = 1 << 20;
/// The most writes that a thread may have in flight.
const MOST_UNDER_WAY: u64 = 256;

/// The compiled steps of one kind of thread.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) steps: Vec<CompiledStep>,
    pub(super) instances: u32,
    /// Descriptors whose files are opened before the clock starts, with the steps that define the files.
    pub(super) beforehand: Vec<(usize, usize)>,
    /// Names of its operations; steps refer to them by index.
    pub(super) titles: Vec<String>,
    /// Steps that rotate through all files of a set.
    pub(super) rings: Vec<usize>,
    /// The largest read and the largest write, in bytes.
    pub(super) largest: [u64; 2],
    /// Writes that it may have in flight.
    pub(super) under_way: u32,
}

/// One step.
#[derive(Debug)]
pub(super) struct CompiledStep {
    pub(super) op: Op,
    pub(super) set: Option<usize>,
    pub(super) fd: usize,
    /// Whether a descriptor is named.
    pub(super) names_fd: bool,
    pub(super) from: Option<usize>,
    pub(super) size: Spread,
    pub(super) record: u64,
    pub(super) random: bool,
    pub(super) ring: Option<usize>,
    pub(super) working_set: Option<u64>,
    pub(super) dsync: bool,
    pub(super) direct: bool,
    pub(super) iterations: u64,
    pub(super) value: u64,
    pub(super) nanoseconds: u64,
    pub(super) blocking: bool,
    pub(super) index: Option<Spread>,
    /// Its index in the thread's titles, if it is counted.
    pub(super) title: usize,
    /// Semaphores or wake events that the step signals. For a waiting step, its own: one semaphore per instance, or one
    /// wake event.
    pub(super) targets: Vec<usize>,
    /// The step of the same thread whose operations the step refers to.
    pub(super) target: Option<usize>,
    /// Counted operations from here to the next step that is not counted, or to the end.
    pub(super) ahead: u64,
}

/// The points at which the threads of a flow wait.
#[derive(Debug, Default)]
pub(super) struct SyncPoints {
    /// For each semaphore, the posts that a wait takes, and the posts that are possible before a blocking post waits.
    pub(super) semaphores: Vec<(u32, u32)>,
    /// Number of steps that wait for a wake event.
    pub(super) wakes: usize,
}

/// Compiles all programs of a checked flow.
pub(super) fn compile(flow: &Flow) -> (Vec<Program>, SyncPoints) {
    let mut points = SyncPoints::default();
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut own: Vec<Vec<Vec<usize>>> = Vec::new();
    for thread in &flow.threads {
        let instances = thread.instances() as usize;
        let waits = thread.steps.iter().map(|step| {
            let mine: Vec<usize> = match step.op {
                Op::SemaphoreWait => {
                    let value = u32::try_from(step.value.unwrap_or(1)).unwrap_or(u32::MAX / 4);
                    let high =
                        u32::try_from(step.high_water.unwrap_or(u64::from(u32::MAX / 4))).unwrap_or(u32::MAX / 4);
                    let first = points.semaphores.len();
                    points.semaphores.extend(std::iter::repeat_n((value, high), instances));
                    (first..first + instances).collect()
                }
                Op::Block => {
                    points.wakes += 1;
                    vec![points.wakes - 1]
                }
                _ => Vec::new(),
            };
            if !mine.is_empty() {
                by_name.entry(step.title()).or_default().extend(&mine);
            }
            mine
        });
        own.push(waits.collect());
    }
    let programs = flow.threads.iter().zip(own).map(|(thread, own)| program(flow, thread, own, &by_name));
    (programs.collect(), points)
}

fn program(flow: &Flow, thread: &Thread, own: Vec<Vec<usize>>, by_name: &BTreeMap<&str, Vec<usize>>) -> Program {
    let mut titles: Vec<String> = Vec::new();
    let mut rings = Vec::new();
    let mut steps = Vec::new();
    for (number, (step, own)) in thread.steps.iter().zip(own).enumerate() {
        let title = titles.iter().position(|title| title == step.title()).unwrap_or(titles.len());
        if step.op.is_counted() && title == titles.len() {
            titles.push(step.title().to_owned());
        }
        let ring = step.rotate.then(|| {
            rings.push(number);
            rings.len() - 1
        });
        let name = step.target.as_deref();
        let targets = match step.op {
            Op::Wake | Op::SemaphorePost => name.and_then(|name| by_name.get(name)).cloned().unwrap_or_default(),
            _ => own,
        };
        let same = name.and_then(|name| thread.steps.iter().position(|step| step.title() == name));
        steps.push(CompiledStep {
            op: step.op,
            set: step.set.as_ref().and_then(|name| flow.filesets.iter().position(|set| set.name == *name)),
            fd: step.descriptor() as usize,
            names_fd: step.fd.is_some(),
            from: step.from.map(|fd| fd as usize),
            size: step.size.unwrap_or(Spread::Exact(fsb_model::Bytes(0))),
            record: step.record.map_or(RECORD, |record| record.0),
            random: step.random,
            ring,
            working_set: step.working_set.map(|size| size.0),
            dsync: step.dsync,
            direct: step.direct,
            iterations: step.iterations.unwrap_or(1),
            value: step.value.unwrap_or(1),
            nanoseconds: (step.seconds.unwrap_or(0.0) * 1e9) as u64,
            blocking: step.blocking,
            index: step.index,
            title,
            targets,
            target: same,
            ahead: 0,
        });
    }
    let mut ahead = 0;
    for step in steps.iter_mut().rev() {
        ahead = if step.op.is_counted() { ahead + step.iterations } else { 0 };
        step.ahead = ahead;
    }
    opened_like_their_users(thread, &mut steps);
    let beforehand = thread.beforehand().into_iter().map(|(fd, step)| {
        let step = thread.steps.iter().position(|other| std::ptr::eq(other, step)).unwrap_or(0);
        (fd as usize, step)
    });
    let asynchronous = thread.steps.iter().filter(|step| step.op == Op::AioWrite);
    let under_way: u64 = asynchronous.map(|step| step.iterations.unwrap_or(1)).sum();
    Program {
        name: thread.name.clone(),
        beforehand: beforehand.collect(),
        instances: thread.instances() as u32,
        titles,
        rings,
        largest: [false, true].map(|writes| {
            thread
                .steps
                .iter()
                .filter(|step| step.op.moves_data() && step.op.writes() == writes)
                .map(largest)
                .max()
                .unwrap_or(0)
        }),
        under_way: under_way.min(MOST_UNDER_WAY) as u32,
        steps,
    }
}

/// Copies O_DSYNC and O_DIRECT from the steps that move data to the steps that open their files, because these are
/// flags of open.
fn opened_like_their_users(thread: &Thread, steps: &mut [CompiledStep]) {
    for number in 0..steps.len() {
        let step = &thread.steps[number];
        if !step.op.moves_data() || step.set.is_some() || !(step.dsync || step.direct) {
            continue;
        }
        let opener = steps[..number]
            .iter_mut()
            .rev()
            .find(|other| matches!(other.op, Op::Open | Op::Create) && other.fd == step.descriptor() as usize);
        if let Some(opener) = opener {
            opener.dsync |= step.dsync;
            opener.direct |= step.direct;
        }
    }
}

/// Returns the most bytes that a step moves in one call.
fn largest(step: &FlowStep) -> u64 {
    match step.op {
        Op::ReadWhole | Op::WriteWhole => step.record.map_or(RECORD, |record| record.0),
        _ => step.size.map_or(1, |size| entries::largest_size(&size)),
    }
}
