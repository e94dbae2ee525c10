//! Accumulates the observations of a trial, and makes the reply from them.

use std::collections::BTreeMap;
use std::time::Duration;

use fsb_engine::{Measurement, Profile, latency};
use fsb_model::observed::{MemoryUse, Observed, Spent};
use fsb_model::trial::Samples;
use fsb_model::{Interference, Outcome};
use fsb_testbed::control::Held;
use fsb_testbed::control::memory_limit::MemoryHold;
use fsb_testbed::{ColdMethod, Counters, Provisioned, Testbed, TestbedError, watch};

use super::checks::{self, Seen};
use super::deferred::DeferredWork;
use super::failure::{Failure, for_want_of_memory, refused};
use super::protocol::{Measured, TrialReply};

/// The sums of a trial under way.
pub(super) struct Tally {
    pub(super) spent: Spent,
    pub(super) seen: Seen,
    pub(super) measured: Measured,
    pub(super) histograms: Vec<(String, String)>,
    pub(super) cpu_seconds: f64,
    pub(super) watched: watch::Seen,
    pub(super) settled: bool,
    /// Parts of the worker's confinement that the kernel refused.
    pub(super) unconfined: Vec<String>,
    pub(super) settle_seconds: f64,
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
    /// Bytes that could be filled when the file system was empty.
    free_when_empty: u64,
    /// Rounds that were retried because this target moved data during a neighbour's sample.
    pub(super) restless: u32,
    /// Repetitions or rounds that the time limit did not allow.
    pub(super) left_out: u32,
}

impl Tally {
    /// Returns an empty tally for a trial on this target.
    pub(super) fn new(target: &Provisioned) -> Tally {
        // The device under a directory serves others too.
        let private = target.abilities.fake.is_none() && target.abilities.cold == Some(ColdMethod::Remount);
        let free_when_empty = target.free_bytes;
        Tally { deferred: private.then(DeferredWork::default), free_when_empty, ..Tally::empty() }
    }

    fn empty() -> Tally {
        Tally {
            spent: Spent::default(),
            seen: Seen::default(),
            measured: Measured::default(),
            histograms: Vec::new(),
            cpu_seconds: 0.0,
            watched: watch::Seen::new(),
            settled: true,
            unconfined: Vec::new(),
            settle_seconds: 0.0,
            before_cold: None,
            memory: None,
            killed_before: 0,
            samples: Samples::default(),
            deferred: None,
            output: None,
            free_when_empty: 0,
            restless: 0,
            left_out: 0,
        }
    }

    /// Quiesces the target and records its deferred work.
    pub(super) fn rest(&mut self, testbed: &mut dyn Testbed, slot: u32, left: Duration) -> Result<(), TestbedError> {
        if let Some(deferred) = self.deferred.take() {
            self.measured.deferred = deferred.rest(testbed, slot, left)?;
            self.fill(testbed, slot);
        }
        Ok(())
    }

    /// Records the space that the workload's files occupy. At this time everything is written out and the files exist.
    pub(super) fn fill(&mut self, testbed: &dyn Testbed, slot: u32) {
        /// The least space that counts. A file system may keep less after its files are removed.
        const FEWEST: u64 = 1 << 20;
        let Some(free) = testbed.free_bytes(slot) else { return };
        let taken = self.free_when_empty.saturating_sub(free);
        self.measured.space = Some(taken).filter(|taken| *taken >= FEWEST).max(self.measured.space);
    }

    pub(super) fn count(&mut self, before: Option<Counters>, after: Option<Counters>) {
        let (Some(before), Some(after)) = (before, after) else { return };
        let read = after.read_bytes.saturating_sub(before.read_bytes);
        let write = after.write_bytes.saturating_sub(before.write_bytes);
        let flushes = after.flushes.saturating_sub(before.flushes);
        self.seen.device(read, write);
        if let Some(before_cold) = self.before_cold {
            self.seen.since_cold(after.read_bytes.saturating_sub(before_cold.read_bytes));
        }
        *self.measured.device_bytes.get_or_insert(0) += read + write;
        *self.measured.device_flushes.get_or_insert(0) += flushes;
        *self.measured.device_written.get_or_insert(0) += write;
        self.cpu_seconds += after.cpu_seconds - before.cpu_seconds;
    }

    pub(super) fn add(&mut self, measurement: Measurement) {
        let sum = &mut self.measured;
        sum.timed_ns += measurement.timed_ns;
        sum.operations += measurement.operations;
        sum.bytes += measurement.bytes;
        sum.user_seconds += measurement.user_seconds;
        sum.system_seconds += measurement.system_seconds;
        sum.samples.extend(measurement.samples);
        sum.cycle_spans_ns.extend(measurement.cycle_spans_ns);
        if let Some(wall) = measurement.stonewall {
            let sum = sum.stonewall.get_or_insert_default();
            sum.bytes += wall.bytes;
            sum.timed_ns += wall.timed_ns;
        }
        self.histograms.extend(measurement.latency);
        sum.timelines.extend(measurement.timeline);
        sum.peak_memory = sum.peak_memory.max(measurement.peak_memory);
        for (name, value) in measurement.printed {
            sum.printed.entry(name).or_default().push(value);
        }
        self.output = measurement.output.or(self.output.take());
        for (name, found) in measurement.rates {
            let sum = sum.rates.entry(name).or_default();
            sum.amount += found.amount;
            sum.timed_ns += found.timed_ns;
        }
        for (name, found) in measurement.counts {
            *sum.counts.entry(name).or_default() += found;
        }
        for span in measurement.workers {
            match sum.workers.iter_mut().find(|known| known.rank == span.rank) {
                Some(known) => {
                    known.stop_ns = span.stop_ns;
                    known.timed_ns += span.timed_ns;
                    known.operations += span.operations;
                    known.bytes += span.bytes;
                }
                None => sum.workers.push(span),
            }
        }
    }

    /// Returns the reply of the trial: the measured values, and an error if a validity check fails.
    pub(super) fn reply(
        mut self,
        ended: Result<(), Failure>,
        profile: &Profile,
        target: &Provisioned,
        interference: Vec<Interference>,
    ) -> TrialReply {
        let memory = self.memory.take().or_else(|| target.held.memory.as_ref().map(MemoryHold::usage));
        let ended = ended.map_err(|failure| for_want_of_memory(failure, memory.as_ref(), self.killed_before));
        let observed = Observed {
            device_flushes: self.measured.device_flushes,
            machine_cpu_seconds: self.measured.device_bytes.map(|_| self.cpu_seconds),
            user_seconds: Some(self.measured.user_seconds),
            system_seconds: Some(self.measured.system_seconds),
            idle: Some(self.settled),
            quiesce_seconds: Some(self.settle_seconds),
            unconfined: std::mem::take(&mut self.unconfined),
            spent_seconds: target.abilities.fake.is_none().then_some(self.spent),
            deferred: self.measured.deferred,
            repetitions_left_out: (self.left_out > 0).then_some(self.left_out),
            rounds_not_idle: (self.restless > 0).then_some(self.restless),
            output: self.output.take(),
            sustained: self.measured.sustained,
            counts: self.measured.counts.clone(),
            memory_limit: memory,
            watched: std::mem::take(&mut self.watched),
            ..self.seen.observed()
        };
        let (outcome, error) = match ended {
            Ok(()) => match checks::verdict(profile, &target.abilities, &self.seen, &self.measured)
                .and_then(|()| unflushed(&target.held, &self.measured))
            {
                Ok(()) => (Outcome::Ok, None),
                Err(why) => (Outcome::Invalid, Some(why)),
            },
            Err(Failure::NotApplicable(why)) => (Outcome::NotApplicable, Some(why)),
            Err(Failure::Failed(why)) => (Outcome::Failed, Some(why)),
            Err(Failure::OutOfTime(why)) => {
                let reply = self.failed(why, observed);
                return TrialReply { out_of_time: true, ..reply };
            }
            Err(Failure::Lost(why)) => {
                let reply = self.failed(why, observed);
                return TrialReply { target_lost: true, ..reply };
            }
        };
        match self.merge_latencies() {
            Ok(()) => TrialReply {
                out_of_time: false,
                outcome,
                error,
                observed,
                interference,
                samples: self.samples,
                spent: self.spent,
                target_lost: false,
                measured: Some(self.measured),
            },
            Err(why) => self.failed(why, observed),
        }
    }

    fn failed(&self, why: String, observed: Observed) -> TrialReply {
        TrialReply { observed, spent: self.spent, ..refused(Failure::Failed(why)) }
    }

    /// Merges the latencies of repetitions as histograms, which are never averaged.
    fn merge_latencies(&mut self) -> Result<(), String> {
        let mut by_operation: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (operation, histogram) in std::mem::take(&mut self.histograms) {
            by_operation.entry(operation).or_default().push(histogram);
        }
        for (operation, histograms) in by_operation {
            let merged = latency::merge(histograms.iter().map(String::as_str)).map_err(|error| error.to_string())?;
            self.measured.latency.insert(operation, merged);
        }
        Ok(())
    }
}

/// Checks that the device served no flush if barriers are off.
fn unflushed(held: &Held, measured: &Measured) -> Result<(), String> {
    match measured.device_flushes {
        Some(flushes) if held.no_flushes && flushes > 0 => {
            Err(format!("not without barriers: the device served {flushes} flushes"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_belies_barriers_that_are_off() {
        let held = |no_flushes| Held { no_flushes, ..Held::default() };
        let served = |device_flushes| Measured { device_flushes, ..Measured::default() };
        assert_eq!(unflushed(&held(true), &served(Some(0))), Ok(()));
        assert_eq!(unflushed(&held(false), &served(Some(7))), Ok(()));
        let why = unflushed(&held(true), &served(Some(7))).unwrap_err();
        assert_eq!(why, "not without barriers: the device served 7 flushes");
    }
}
