//! Accumulates the observations of a trial, and makes the reply from them: the measured values, or
//! the reason why there are none.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fsb_engine::{Measurement, Profile, latency};
use fsb_model::observed::{BackgroundWork, Deferred, MemoryUse, Observed, Rpcs, Spent};
use fsb_model::run::SmallDevice;
use fsb_model::storage::Promise;
use fsb_model::trial::{BACKGROUND, INTO_HOLES, NO_SPACE, Reason, SMALL_DEVICE, Samples};
use fsb_model::units::show_size;
use fsb_model::{CacheState, Durability, Interference, Outcome};
use fsb_testbed::control::Held;
use fsb_testbed::control::memory_limit::MemoryHold;
use fsb_testbed::{Abilities, ColdMethod, Counters, Provisioned, Testbed, TestbedError, watch};

use super::checks::{self, Seen};
use super::protocol::{Measured, TrialReply};
use crate::worker::WorkerError;

/// The sums of a trial under way.
pub(super) struct Tally {
    pub(super) spent: Spent,
    pub(super) seen: Seen,
    pub(super) measured: Measured,
    histograms: Vec<(String, String)>,
    cpu_seconds: f64,
    pub(super) watched: watch::Seen,
    pub(super) idle: bool,
    /// Parts of the worker's confinement that the kernel refused.
    pub(super) unconfined: Vec<String>,
    pub(super) quiesce_seconds: f64,
    pub(super) before_cold: Option<Counters>,
    /// The use of the memory limit; `None` without a limit.
    pub(super) memory: Option<MemoryUse>,
    /// Processes that the kernel had killed under the limit before the trial.
    pub(super) killed_before: u64,
    /// The samples of a trial in rounds.
    pub(super) samples: Samples,
    /// The deferred work; only for a target with a device of its own.
    pub(super) deferred: Option<DeferredWork>,
    /// The end of what a command printed.
    output: Option<String>,
    /// The work of the background beside the samples; `None` if the case is measured alone.
    pub(super) background: Option<BackgroundWork>,
    /// Bytes that could be filled when the file system was empty.
    free_when_empty: u64,
    /// Bytes by which the sparse image grew inside the clock.
    hole_bytes: u64,
    /// Rounds that were retried because this target moved data during a neighbour's sample.
    pub(super) restless: u32,
    /// Repetitions or rounds that the time limit did not allow.
    pub(super) left_out: u32,
}

impl Tally {
    /// Returns an empty tally for a trial on this target. Beside a background, nothing that the two
    /// have in common is counted as the work of the case: deferred work, space, bytes of the
    /// device.
    pub(super) fn new(target: &Provisioned, has_background: bool) -> Tally {
        // The device under a directory serves others too.
        let private =
            target.abilities.fake.is_none() && target.abilities.cold == Some(ColdMethod::Remount);
        let deferred = (private && !has_background).then(DeferredWork::default);
        let background = has_background.then(BackgroundWork::default);
        Tally {
            deferred,
            background,
            free_when_empty: target.free_bytes,
            ..Tally::empty()
        }
    }

    fn empty() -> Tally {
        Tally {
            spent: Spent::default(),
            seen: Seen::default(),
            measured: Measured::default(),
            histograms: Vec::new(),
            cpu_seconds: 0.0,
            watched: watch::Seen::new(),
            idle: true,
            unconfined: Vec::new(),
            quiesce_seconds: 0.0,
            before_cold: None,
            memory: None,
            killed_before: 0,
            samples: Samples::default(),
            deferred: None,
            output: None,
            background: None,
            free_when_empty: 0,
            hole_bytes: 0,
            restless: 0,
            left_out: 0,
        }
    }

    /// Quiesces the target and records its deferred work. `copies` are the copies of the workload's
    /// files.
    pub(super) fn rest(
        &mut self,
        testbed: &mut dyn Testbed,
        slot: u32,
        left: Duration,
        copies: u32,
    ) -> Result<(), TestbedError> {
        if let Some(deferred) = self.deferred.take() {
            self.measured.deferred = deferred.rest(testbed, slot, left)?;
            self.fill(testbed, slot, copies);
        }
        Ok(())
    }

    /// Records the space that the workload's files occupy. At this time everything is written out,
    /// and the files exist as often as `copies` says.
    pub(super) fn fill(&mut self, testbed: &dyn Testbed, slot: u32, copies: u32) {
        /// The least space that counts. A file system may keep less after its files are removed.
        const FEWEST: u64 = 1 << 20;
        let Some(free) = testbed
            .free_bytes(slot)
            .filter(|_| self.background.is_none())
        else {
            return;
        };
        let taken = self.free_when_empty.saturating_sub(free) / u64::from(copies.max(1));
        self.measured.space = Some(taken)
            .filter(|taken| *taken >= FEWEST)
            .max(self.measured.space);
    }

    /// Adds the counters of the device of a sample. Beside a background they are only evidence that
    /// a cold sample read from the device.
    pub(super) fn count(
        &mut self,
        before: Option<Counters>,
        after: Option<Counters>,
        begins_cold: bool,
    ) {
        let (Some(before), Some(after)) = (before, after) else {
            return;
        };
        let read = after.read_bytes.saturating_sub(before.read_bytes);
        let write = after.write_bytes.saturating_sub(before.write_bytes);
        let flushes = after.flushes.saturating_sub(before.flushes);
        if self.background.is_some() && !begins_cold {
            return;
        }
        self.seen.device(read, write);
        if let Some(before_cold) = self.before_cold {
            self.seen
                .since_cold(after.read_bytes.saturating_sub(before_cold.read_bytes));
        }
        if self.background.is_some() {
            return;
        }
        *self.measured.device_bytes.get_or_insert(0) += read + write;
        *self.measured.device_flushes.get_or_insert(0) += flushes;
        *self.measured.device_written.get_or_insert(0) += write;
        self.hole_bytes += after.occupied_bytes.saturating_sub(before.occupied_bytes);
        self.cpu_seconds += after.cpu_seconds - before.cpu_seconds;
        if let (Some(before), Some(after)) = (before.server, after.server) {
            let server = self.measured.server.get_or_insert_default();
            // A process of the server that ended takes its time with it.
            server.cpu_seconds += (after.cpu_seconds - before.cpu_seconds).max(0.0);
            server.memory_bytes = server.memory_bytes.max(after.memory_bytes);
        }
    }

    /// Adds the remote procedure calls of a sample.
    pub(super) fn count_rpcs(&mut self, rpcs: Option<Rpcs>) {
        if let Some(rpcs) = rpcs.filter(|_| self.background.is_none()) {
            self.measured.rpcs.get_or_insert_default().add(&rpcs);
        }
    }

    pub(super) fn add(&mut self, mut measurement: Measurement) {
        let Measurement {
            latency,
            timeline,
            printed,
            output,
            ..
        } = &mut measurement;
        self.histograms.extend(std::mem::take(latency));
        self.measured.timelines.extend(timeline.take());
        for (name, value) in std::mem::take(printed) {
            self.measured.printed.entry(name).or_default().push(value);
        }
        self.output = output.take().or(self.output.take());
        self.measured.work.add(measurement);
    }

    /// Returns the reply of the trial: the measured values, and an error if a validity check fails.
    pub(super) fn reply(
        mut self,
        ended: Result<(), Failure>,
        profile: &Profile,
        target: &Provisioned,
        interference: Vec<Interference>,
    ) -> TrialReply {
        let memory = self
            .memory
            .take()
            .or_else(|| target.held.memory.as_ref().map(MemoryHold::usage));
        let ended = ended
            .map_err(|failure| for_want_of_memory(failure, memory.as_ref(), self.killed_before));
        let observed = Observed {
            device_flushes: self.measured.device_flushes,
            hole_bytes: Some(self.hole_bytes).filter(|bytes| *bytes > 0),
            rpcs: self.measured.rpcs.clone(),
            server_cpu_seconds: self.measured.server.map(|server| server.cpu_seconds),
            server_memory_bytes: self.measured.server.map(|server| server.memory_bytes),
            machine_cpu_seconds: self.measured.device_bytes.map(|_| self.cpu_seconds),
            user_seconds: Some(self.measured.work.user_seconds),
            system_seconds: Some(self.measured.work.system_seconds),
            idle: Some(self.idle),
            quiesce_seconds: Some(self.quiesce_seconds),
            unproven: unproven(profile, &target.abilities),
            unconfined: std::mem::take(&mut self.unconfined),
            spent_seconds: target.abilities.fake.is_none().then_some(self.spent),
            deferred: self.measured.deferred,
            repetitions_left_out: (self.left_out > 0).then_some(self.left_out),
            rounds_not_idle: (self.restless > 0).then_some(self.restless),
            output: self.output.take(),
            sustained: self.measured.sustained,
            background: self.background,
            counts: self.measured.work.counts.clone(),
            memory_limit: memory,
            watched: std::mem::take(&mut self.watched),
            ..self.seen.observed()
        };
        let (outcome, reason) = match ended {
            Ok(()) => match checks::verdict(
                &packed(profile, target),
                &target.abilities,
                &self.seen,
                &self.measured,
            )
            .and_then(|()| unflushed(&target.held, &self.measured))
            .and_then(|()| into_holes(self.hole_bytes, &self.measured))
            .and_then(|()| {
                small_device(
                    profile,
                    target.record.small_device,
                    &self.measured,
                    &self.samples,
                )
            }) {
                Ok(()) => (Outcome::Ok, None),
                Err(why) => (Outcome::Invalid, Some(why)),
            },
            Err(Failure::NotApplicable(why)) => (Outcome::NotApplicable, Some(why)),
            Err(Failure::Failed(why)) => (Outcome::Failed, Some(why)),
            Err(Failure::OutOfTime(why)) => {
                let reply = self.failed(why, observed);
                return TrialReply {
                    out_of_time: true,
                    ..reply
                };
            }
            Err(Failure::Lost(why)) => {
                let reply = self.failed(why, observed);
                return TrialReply {
                    target_lost: true,
                    ..reply
                };
            }
        };
        match self.merge_latencies() {
            Ok(()) => TrialReply {
                out_of_time: false,
                outcome,
                reason,
                observed,
                interference,
                samples: self.samples,
                spent: self.spent,
                target_lost: false,
                measured: Some(self.measured),
            },
            Err(why) => self.failed(why.into(), observed),
        }
    }

    fn failed(&self, why: Reason, observed: Observed) -> TrialReply {
        TrialReply {
            observed,
            spent: self.spent,
            ..refused(Failure::Failed(why))
        }
    }

    /// Merges the latencies of repetitions as histograms, which are never averaged.
    fn merge_latencies(&mut self) -> Result<(), String> {
        let mut by_operation: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (operation, histogram) in std::mem::take(&mut self.histograms) {
            by_operation.entry(operation).or_default().push(histogram);
        }
        for (operation, histograms) in by_operation {
            let merged = latency::merge(histograms.iter().map(String::as_str))
                .map_err(|error| error.to_string())?;
            self.measured.work.latency.insert(operation, merged);
        }
        Ok(())
    }
}

/// Checks that the device served no flush if barriers are off.
fn unflushed(held: &Held, measured: &Measured) -> Result<(), Reason> {
    match measured.device_flushes {
        Some(flushes) if held.no_flushes && flushes > 0 => {
            Err(format!("not without barriers: the device served {flushes} flushes").into())
        }
        _ => Ok(()),
    }
}

/// Checks that a file system on a small device did not wait for commits that it does not need on a
/// large disk. A commit flushes the device twice. A sync makes one commit, and btrfs makes one
/// every 30 seconds.
fn small_device(
    profile: &Profile,
    device: Option<SmallDevice>,
    measured: &Measured,
    samples: &Samples,
) -> Result<(), Reason> {
    const FLUSHES: u64 = 2;
    const PERIOD_NS: u64 = 30_000_000_000;
    /// Some workloads sync twice. With a commit for 80 new files, there are ten times as many.
    const MORE: u64 = 2;
    let (Some(device), Some(flushes)) = (device, measured.device_flushes) else {
        return Ok(());
    };
    let syncs = match profile.durability {
        Durability::Each => return Ok(()),
        Durability::End => (samples.timed_ns.len().max(1) as u64) * u64::from(samples.units.max(1)),
        Durability::None => 0,
    };
    // What programs and flows sync is not known.
    let is_known = !profile.syncs_itself && profile.program.is_none();
    let fits = device
        .new_files
        .is_some_and(|files| profile.inodes <= files);
    let expected = FLUSHES * (syncs + measured.work.timed_ns / PERIOD_NS + 1);
    // A device that flushes nothing at a sync counts none.
    let is_counted = syncs == 0 || flushes > 0;
    if !is_known || fits || is_counted && flushes <= expected * MORE {
        return Ok(());
    }
    let text = format!(
        "not as on a large disk: on a device of {} {} ({flushes} flushes, {expected} expected), and from {} on \
         it does not",
        show_size(device.bytes),
        device.commits_text(),
        show_size(device.least)
    );
    Err(Reason::new(&SMALL_DEVICE, text))
}

/// Checks that almost nothing went to holes of a sparse image, where the file system beneath
/// allocates blocks for it.
fn into_holes(hole_bytes: u64, measured: &Measured) -> Result<(), Reason> {
    /// Share of the bytes that the device wrote.
    const SHARE: f64 = 0.01;
    /// Bytes of a few nodes of metadata.
    const SLACK: u64 = 1 << 20;
    let written = measured.device_written.unwrap_or(0);
    if hole_bytes as f64 <= written as f64 * SHARE + SLACK as f64 {
        return Ok(());
    }
    let [holes, written] =
        [hole_bytes, written].map(|bytes| fsb_model::units::show_bytes(bytes as f64));
    Err(Reason::new(
        &INTO_HOLES,
        format!("{holes} of {written} went to places of the sparse image never written before"),
    ))
}

// The reasons why a trial has no values, and the checks that find them before it runs.

/// The reason why a trial has no values.
#[derive(Clone)]
pub(crate) enum Failure {
    /// The case does not apply to this target.
    NotApplicable(Reason),
    /// The trial did not complete.
    Failed(Reason),
    /// The target is gone.
    Lost(Reason),
    /// The budget ended before it did.
    OutOfTime(Reason),
}

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Self {
        let reason = error.reason();
        match error {
            WorkerError::Engine(error) if error.inapplicable => Failure::NotApplicable(reason),
            WorkerError::OutOfTime => Failure::OutOfTime(reason),
            _ => Failure::Failed(reason),
        }
    }
}

impl Failure {
    /// Returns the failure of a background, which is also that of its case.
    pub(super) fn of_background(self) -> Failure {
        fn with_cause(cause: &str, why: &Reason) -> String {
            format!("its background {cause}: {}", why.text)
        }
        match self {
            Failure::NotApplicable(why) => {
                Failure::NotApplicable(with_cause("is not applicable", &why).into())
            }
            Failure::Failed(why) => {
                let text = with_cause("failed", &why);
                Failure::Failed(Reason {
                    errno: why.errno,
                    ..Reason::new(&BACKGROUND, text)
                })
            }
            Failure::Lost(_) | Failure::OutOfTime(_) => self,
        }
    }
}

/// Returns the profile with the bytes that the target must read for cold metadata. The tables of an
/// image are compressed: squashfs needs five bytes for an inode like its neighbours.
fn packed(profile: &Profile, target: &Provisioned) -> Profile {
    const RATIO: u64 = 32;
    let is_packed = target
        .abilities
        .sealing
        .is_some_and(|sealing| sealing.read_only);
    let mut profile = profile.clone();
    if is_packed && profile.metadata_only {
        profile.cold_bytes_per_operation /= RATIO;
    }
    profile
}

/// Refuses a cell that the target cannot do, before it is measured: docs/methods/method.md, "Not
/// applicable".
pub(super) fn applicable(profile: &Profile, target: &Provisioned) -> Result<(), Failure> {
    if let Some(why) = why_not(profile, &target.abilities) {
        return Err(Failure::NotApplicable(why.into()));
    }
    if profile.space > target.free_bytes {
        let why = format!(
            "it needs {} free, but the target has {}: --size changes both",
            show_size(profile.space),
            show_size(target.free_bytes)
        );
        return Err(Failure::Failed(Reason::new(&NO_SPACE, why)));
    }
    Ok(())
}

/// Returns why a target cannot do a workload, or `None` if it can.
fn why_not(profile: &Profile, abilities: &Abilities) -> Option<String> {
    if let Some(operation) = profile.maintenance
        && let Some(why) = abilities.no_maintenance.get(&operation)
    {
        return Some(why.clone());
    }
    if profile.cache.begins_cold()
        && let Some(why) = why_not_cold(profile, abilities)
    {
        return Some(why);
    }
    let is_warm = profile.cache == CacheState::Warm && !profile.metadata_only;
    let is_read_only = abilities.sealing.is_some_and(|sealing| sealing.read_only);
    if profile.is_direct() && !abilities.why_not_direct.is_empty() {
        Some(abilities.why_not_direct.clone())
    } else if is_warm && !abilities.why_not_warm.is_empty() {
        Some(abilities.why_not_warm.clone())
    } else if is_read_only && !profile.reads_only {
        Some("the file system is read-only".to_owned())
    } else if profile.durability != Durability::None && !abilities.durable {
        Some(abilities.why_not_durable.clone())
    } else {
        None
    }
}

fn why_not_cold(profile: &Profile, abilities: &Abilities) -> Option<String> {
    match abilities.cold {
        None => Some(abilities.why_not_cold.clone()),
        Some(ColdMethod::Evict) if profile.metadata_only => {
            Some("cold metadata needs drop_caches: run as root".to_owned())
        }
        Some(_) if profile.metadata_only && !abilities.counters && abilities.fake.is_none() => {
            let why =
                "cold metadata cannot be verified: the device under the directory is not known";
            Some(why.to_owned())
        }
        Some(_) => None,
    }
}

/// Returns the promises of the workload that the target has not been shown to keep.
fn unproven(profile: &Profile, abilities: &Abilities) -> Vec<Promise> {
    let made = profile.promises();
    let mut found = Vec::new();
    for unproven in &abilities.unproven {
        if made.contains(&unproven.promise) {
            found.push(unproven.promise);
        }
    }
    found
}

pub(crate) fn refused(failure: Failure) -> TrialReply {
    let out_of_time = matches!(failure, Failure::OutOfTime(_));
    let (outcome, reason) = match failure {
        Failure::NotApplicable(why) => (Outcome::NotApplicable, why),
        Failure::Failed(why) | Failure::Lost(why) | Failure::OutOfTime(why) => {
            (Outcome::Failed, why)
        }
    };
    TrialReply {
        outcome,
        reason: Some(reason),
        measured: None,
        observed: Observed::default(),
        interference: Vec::new(),
        samples: Default::default(),
        spent: Spent::default(),
        target_lost: false,
        out_of_time,
    }
}

/// Adds the cause to the failure of a worker that the kernel killed for lack of memory.
fn for_want_of_memory(failure: Failure, memory: Option<&MemoryUse>, before: u64) -> Failure {
    let killed = memory.filter(|memory| memory.oom_kills.is_some_and(|kills| kills > before));
    match (failure, killed) {
        (Failure::Failed(why), Some(memory)) => {
            let limit = fsb_model::units::show_bytes(memory.limit_bytes as f64);
            let text = format!(
                "{}; the memory limit of {limit} is too small for the workload: raise memory-limit",
                why.text
            );
            Failure::Failed(Reason { text, ..why })
        }
        (failure, _) => failure,
    }
}

// Deferred work of a file system: the activity of its device from the end of a sample until the
// target is idle.
//
// A clock stops when the calls have returned, or when the log is written. The work that remains
// then (dirty pages, ext4's checkpoint, the metadata that xfs logged, a btrfs commit) slows down
// later operations. This module counts it.

/// Bytes that an idle target may write: a superblock, or a log record without changes.
pub(super) const IDLE_BYTES: u64 = 64 << 10;

/// Adds the writes and flushes of the device between two readings.
fn count(sum: &mut Deferred, before: Option<Counters>, after: Option<Counters>) {
    let (Some(before), Some(after)) = (before, after) else {
        return;
    };
    sum.bytes += after.write_bytes.saturating_sub(before.write_bytes);
    sum.flushes += after.flushes.saturating_sub(before.flushes);
}

/// Accumulates the deferred work of a target while it is measured.
#[derive(Debug, Default)]
pub(super) struct DeferredWork {
    sum: Deferred,
    /// Seconds of each syncfs that followed a sample.
    syncs: Vec<f64>,
    /// Bytes that the device wrote inside the clock.
    written: u64,
}

impl DeferredWork {
    /// Records the end of a sample.
    pub(super) fn sample(
        &mut self,
        operations: u64,
        before: Option<Counters>,
        after: Option<Counters>,
    ) {
        self.sum.operations += operations;
        if let (Some(before), Some(after)) = (before, after) {
            self.written += after.write_bytes.saturating_sub(before.write_bytes);
        }
    }

    /// Records the end of a repetition of a sequential trial. The deferred work of earlier
    /// repetitions is written by then, so the counts start again.
    pub(super) fn repetition(
        &mut self,
        operations: u64,
        before: Option<Counters>,
        after: Option<Counters>,
    ) {
        *self = DeferredWork::default();
        self.sample(operations, before, after);
    }

    /// Records a sync of the target after a sample.
    pub(super) fn synced(
        &mut self,
        seconds: f64,
        before: Option<Counters>,
        after: Option<Counters>,
    ) {
        self.syncs.push(seconds);
        count(&mut self.sum, before, after);
    }

    /// Quiesces the target within `left`. Returns `None` if nothing was written, or if time is too
    /// short to count it.
    fn rest(
        mut self,
        testbed: &mut dyn Testbed,
        slot: u32,
        left: Duration,
    ) -> Result<Option<Deferred>, TestbedError> {
        let started = Instant::now();
        let in_rounds = !self.syncs.is_empty();
        if left.is_zero() || self.sum.operations == 0 || in_rounds && !self.wrote() {
            return Ok(None);
        }
        let before = testbed.counters(slot);
        let first = testbed.quiesce(slot, left)?;
        count(&mut self.sum, before, testbed.counters(slot));
        // A second call, on an idle target, measures the time of the calls themselves.
        let left = left.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        let idle = testbed.quiesce(slot, left)?;
        self.sum.seconds += (first.waited_seconds - idle.waited_seconds).max(0.0);
        if in_rounds {
            let started = Instant::now();
            testbed.sync(slot)?;
            let idle = started.elapsed().as_secs_f64();
            self.sum.seconds += self
                .syncs
                .iter()
                .map(|sync| (sync - idle).max(0.0))
                .sum::<f64>();
        }
        Ok(self.wrote().then_some(self.sum))
    }

    /// Returns whether the device wrote more than that of an idle target, whose writes the work
    /// does not cause.
    fn wrote(&self) -> bool {
        self.written + self.sum.bytes > IDLE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_belies_barriers_that_are_off() {
        let held = |no_flushes| Held {
            no_flushes,
            ..Held::default()
        };
        let served = |device_flushes| Measured {
            device_flushes,
            ..Measured::default()
        };
        assert_eq!(unflushed(&held(true), &served(Some(0))), Ok(()));
        assert_eq!(unflushed(&held(false), &served(Some(7))), Ok(()));
        let why = unflushed(&held(true), &served(Some(7))).unwrap_err();
        assert_eq!(
            why.text,
            "not without barriers: the device served 7 flushes"
        );
    }

    #[test]
    fn commits_beyond_those_of_the_syncs_show_a_small_device() {
        let params = serde_json::json!({"files": 1000, "durability": "end"});
        let spec = fsb_model::WorkloadSpec::new("create", serde_json::from_value(params).unwrap());
        let sizing = fsb_engine::Sizing {
            size: 1 << 30,
            cpus: 1,
        };
        let profile = fsb_engine::workload::parse(&spec, &sizing)
            .unwrap()
            .profile();
        let device = |new_files| {
            Some(SmallDevice {
                bytes: 700 << 20,
                least: 20 << 30,
                new_files,
            })
        };
        let check = |profile: &Profile, device, flushes| {
            let samples = Samples {
                units: 1,
                timed_ns: vec![100_000_000; 10],
                ..Samples::default()
            };
            let measured = Measured {
                work: Measurement {
                    timed_ns: 1_000_000_000,
                    ..Measurement::default()
                },
                device_flushes: Some(flushes),
                ..Measured::default()
            };
            small_device(profile, device, &measured, &samples).map_err(|reason| reason.text)
        };
        assert_eq!(check(&profile, None, 260), Ok(()));
        assert_eq!(
            check(&profile, device(Some(99)), 22),
            Ok(()),
            "a commit for each sync"
        );
        assert_eq!(
            check(&profile, device(Some(99)), 260).unwrap_err(),
            "not as on a large disk: on a device of 700 MiB it commits about every 99 new files (260 flushes, 22 expected), \
             and from 20.0 GiB on it does not"
        );
        assert_eq!(
            check(&profile, device(Some(2000)), 260),
            Ok(()),
            "all files fit"
        );
        assert!(
            check(&profile, device(Some(99)), 0).is_err(),
            "its flushes are not counted"
        );
        assert_eq!(
            check(&profile, device(Some(99)), 40),
            Ok(()),
            "it syncs twice"
        );
        assert_eq!(
            check(
                &Profile {
                    syncs_itself: true,
                    ..profile.clone()
                },
                device(Some(99)),
                260
            ),
            Ok(())
        );
        assert_eq!(
            check(
                &Profile {
                    durability: Durability::Each,
                    ..profile
                },
                device(Some(99)),
                260
            ),
            Ok(())
        );
    }

    #[test]
    fn writes_to_holes_make_a_trial_invalid() {
        let wrote = |device_written| Measured {
            device_written,
            ..Measured::default()
        };
        assert_eq!(into_holes(0, &wrote(None)), Ok(()));
        assert_eq!(into_holes(2 << 20, &wrote(Some(100 << 20))), Ok(()));
        let why = into_holes(64 << 20, &wrote(Some(100 << 20))).unwrap_err();
        assert_eq!(
            why.text,
            "64.0 MiB of 100 MiB went to places of the sparse image never written before"
        );
    }

    fn counters(write_bytes: u64, flushes: u64) -> Option<Counters> {
        Some(Counters {
            write_bytes,
            flushes,
            ..Counters::default()
        })
    }

    #[test]
    fn deferred_work_is_divided_by_all_operations() {
        let mut left = DeferredWork::default();
        left.sample(100, counters(0, 0), counters(4096, 1));
        left.synced(0.1, counters(4096, 1), counters(8192, 3));
        assert_eq!(
            (left.written, left.sum.bytes, left.sum.flushes),
            (4096, 4096, 2)
        );
        left.sample(100, None, None);
        let sum = Deferred {
            seconds: 0.5,
            ..left.sum
        };
        assert_eq!(sum.per_operation(), Some([20.48, 0.01, 0.0025]));
        assert_eq!(Deferred::default().per_operation(), None);
    }
}
