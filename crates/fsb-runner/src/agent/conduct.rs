//! Conducting a trial: prepare, restore the state, settle, measure, prove, clean up.

use std::time::{Duration, Instant};

use fsb_engine::{ClockSpec, Live, Measurement, Profile, Renewal, Step, StepReport, Task, latency, mix, workload};
use fsb_model::Outcome;
use fsb_testbed::control::Held;
use fsb_testbed::control::memory_limit::{MemoryHold, MemoryUse};
use fsb_testbed::watch::{self, Watch};
use fsb_testbed::{Abilities, ColdMethod, Counters, Fake, Progress, Provisioned, Testbed, TestbedError};
use serde_json::{Map, Value, json};

use super::SEAT;
use super::failure::{Failure, applicable, for_want_of_memory, refused};
use super::proof::{self, Seen};
use super::protocol::{Measured, Spent, TrialReply, TrialRequest};
use crate::worker::{Post, Steps, Worker, WorkerError};

/// The stage on which a trial is conducted: a target that is ready.
pub struct Stage<'a> {
    /// Who can make it cold and quiet.
    pub testbed: &'a mut dyn Testbed,
    /// What was made ready.
    pub target: &'a Provisioned,
    /// Where workers work.
    pub post: Post,
    /// Is told now and then how far a step has come.
    pub tell: &'a mut dyn FnMut(Progress),
}

/// Tells how far a step has come, in its own words.
fn telling<'t>(step: Step, tell: &'t mut dyn FnMut(Progress)) -> impl FnMut(Live) + 't {
    let what = match step {
        Step::Prepare => MAKING,
        Step::Measure => OPERATIONS,
        Step::Cleanup => REMOVING,
    };
    move |Live { done, of }| tell(Progress { what: what.to_owned(), done, total: of })
}

/// What is told of a step that makes files.
pub const MAKING: &str = "making files";
/// What is told of the measured work.
pub const OPERATIONS: &str = "operations";
/// What is told of a step that removes files.
pub(crate) const REMOVING: &str = "removing files";

struct Conduct<'a, 'b> {
    stage: &'a mut Stage<'b>,
    request: &'a TrialRequest,
    profile: Profile,
    spent: Spent,
    seen: Seen,
    measured: Measured,
    histograms: Vec<(String, String)>,
    cpu_seconds: f64,
    watched: watch::Seen,
    settled: bool,
    settle_seconds: f64,
    before_cold: Option<Counters>,
    /// What the memory limit saw, where there is one.
    memory: Option<MemoryUse>,
    /// Processes that it had killed before.
    killed_before: u64,
}

/// Conducts one trial. Every way in which it can go wrong is in the reply.
pub fn conduct(stage: &mut Stage<'_>, request: &TrialRequest) -> TrialReply {
    let job = match workload::parse(&request.workload, &request.sizing) {
        Ok(job) => job,
        Err(error) => return refused(Failure::Failed(error.to_string())),
    };
    if let Err(failure) = applicable(job.as_ref(), stage.target) {
        return refused(failure);
    }
    let mut conduct = Conduct {
        stage,
        request,
        profile: job.profile(),
        spent: Spent::default(),
        seen: Seen::default(),
        measured: Measured::default(),
        histograms: Vec::new(),
        cpu_seconds: 0.0,
        watched: watch::Seen::new(),
        settled: true,
        settle_seconds: 0.0,
        before_cold: None,
        memory: None,
        killed_before: 0,
    };
    let ended = conduct.limit().and_then(|()| conduct.repetitions());
    // Whatever happened, the next trial finds an empty target, and a quiet one.
    let cleaned = conduct.step(Step::Cleanup, 0);
    conduct.settle_afterwards();
    conduct.reply(ended.and(cleaned.map_err(Failure::from)))
}

impl Conduct<'_, '_> {
    /// Nothing of an earlier trial is left in the memory that this one may use.
    fn limit(&mut self) -> Result<(), Failure> {
        let held = &self.stage.target.held.memory;
        self.seen.limited(held.as_ref().map(MemoryHold::limit).or_else(fsb_testbed::host::memory_bytes));
        let Some(memory) = held else { return Ok(()) };
        memory.begin_trial().map_err(|error| Failure::Lost(error.to_string()))?;
        self.killed_before = memory.usage().oom_kills.unwrap_or(0);
        Ok(())
    }

    fn repetitions(&mut self) -> Result<(), Failure> {
        self.step(Step::Prepare, 0)?;
        for repetition in 0..self.request.amount.repetitions.max(1) {
            if repetition > 0 && self.profile.renewal == Renewal::Recreate {
                self.step(Step::Cleanup, repetition)?;
                self.step(Step::Prepare, repetition)?;
            }
            self.settle().map_err(|error| Failure::Lost(error.to_string()))?;
            self.measure(repetition)?;
        }
        Ok(())
    }

    /// Cold where cold is asked for, and quiet always.
    fn settle(&mut self) -> Result<(), TestbedError> {
        let started = Instant::now();
        self.before_cold = None;
        if self.profile.cache.begins_cold() && !self.evicts() {
            self.before_cold = self.stage.testbed.counters(SEAT);
            self.stage.testbed.make_cold(SEAT)?;
        }
        let quiet = self.stage.testbed.quiesce(SEAT)?;
        self.settled &= quiet.settled;
        self.settle_seconds += quiet.waited_seconds;
        self.spent.settle += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// What this trial left must not be written out within the next one. A target that fails here fails the next trial.
    fn settle_afterwards(&mut self) {
        let started = Instant::now();
        let quiet = self.stage.testbed.quiesce(SEAT);
        self.settled &= quiet.as_ref().is_ok_and(|quiet| quiet.settled);
        self.settle_seconds += quiet.map_or(0.0, |quiet| quiet.waited_seconds);
        self.spent.cleanup += started.elapsed().as_secs_f64();
    }

    fn measure(&mut self, repetition: u32) -> Result<(), Failure> {
        let started = Instant::now();
        let task = self.task(Step::Measure, repetition);
        let mut worker = Worker::open(&self.stage.post)?;
        worker.ask::<Steps>(&task)?;
        let ready = worker.ready::<Steps>()?;
        self.seen.ready(&ready);
        // Looking at all processes takes some milliseconds: before the counters, and after them.
        let watch = self.stage.testbed.watch(SEAT);
        let before = self.stage.testbed.counters(SEAT);
        self.spent.settle += started.elapsed().as_secs_f64();
        let go = Instant::now();
        worker.go()?;
        let report = worker.result::<Steps>(&mut telling(Step::Measure, self.stage.tell))?;
        worker.close();
        let after = self.stage.testbed.counters(SEAT);
        self.spent.measure += go.elapsed().as_secs_f64();
        self.memory = self.stage.target.held.memory.as_ref().map(MemoryHold::usage);
        if let Some(seen) = watch.map(Watch::end) {
            watch::add(&mut self.watched, seen);
        }
        let StepReport::Measured(measurement) = report else {
            return Err(Failure::Failed("the worker measured nothing".to_owned()));
        };
        self.count(before, after);
        self.seen.measured(&measurement);
        self.add(*measurement);
        Ok(())
    }

    fn count(&mut self, before: Option<Counters>, after: Option<Counters>) {
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
        self.cpu_seconds += after.cpu_seconds - before.cpu_seconds;
    }

    fn add(&mut self, measurement: Measurement) {
        let sum = &mut self.measured;
        sum.timed_ns += measurement.timed_ns;
        sum.operations += measurement.operations;
        sum.bytes += measurement.bytes;
        sum.user_seconds += measurement.user_seconds;
        sum.system_seconds += measurement.system_seconds;
        sum.samples.extend(measurement.samples);
        if let Some(wall) = measurement.stonewall {
            let sum = sum.stonewall.get_or_insert_default();
            sum.bytes += wall.bytes;
            sum.timed_ns += wall.timed_ns;
        }
        self.histograms.extend(measurement.latency);
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

    fn step(&mut self, step: Step, repetition: u32) -> Result<(), WorkerError> {
        if self.stage.target.abilities.fake.is_some() {
            // A target that touches nothing has nothing to prepare and nothing to clean up.
            return Ok(());
        }
        let started = Instant::now();
        let task = self.task(step, repetition);
        let Stage { post, tell, .. } = &mut *self.stage;
        let ended = Worker::open(post).and_then(|mut worker| {
            worker.perform::<Steps>(&task, &mut telling(step, *tell))?;
            worker.close();
            Ok(())
        });
        let spent = started.elapsed().as_secs_f64();
        match task.step {
            Step::Cleanup => self.spent.cleanup += spent,
            _ => self.spent.prepare += spent,
        }
        ended
    }

    fn evicts(&self) -> bool {
        self.stage.target.abilities.cold == Some(ColdMethod::Evict)
    }

    fn task(&self, step: Step, repetition: u32) -> Task {
        let Abilities { fake, .. } = self.stage.target.abilities;
        let seed = self.request.trial_seed.wrapping_add(u64::from(repetition));
        Task {
            step,
            workload: self.request.workload.clone(),
            sizing: self.request.sizing,
            root: self.stage.target.root.clone(),
            seed: self.request.seed,
            operations: self.request.amount.operations,
            repetition,
            until_seconds: self.request.until_seconds,
            evict: self.profile.cache.begins_cold() && self.evicts(),
            backend: fake.map(|_| "null".to_owned()),
            clock: match fake {
                Some(fake) => {
                    let disturbed = if pretends_disturbance(&fake, self.request) { DISTURBED_SLOWDOWN } else { 1.0 };
                    ClockSpec::Fake { seed, slowdown: (1.0 + fake.slowdown) * disturbed, noise: fake.noise }
                }
                None => ClockSpec::Monotonic,
            },
        }
    }

    fn reply(mut self, ended: Result<(), Failure>) -> TrialReply {
        let mut observed = self.seen.observed();
        if self.measured.device_bytes.is_some() {
            observed.insert("device_flushes".to_owned(), json!(self.measured.device_flushes));
            observed.insert("machine_cpu_seconds".to_owned(), json!(self.cpu_seconds));
        }
        observed.insert("user_seconds".to_owned(), json!(self.measured.user_seconds));
        observed.insert("system_seconds".to_owned(), json!(self.measured.system_seconds));
        observed.insert("settled".to_owned(), Value::Bool(self.settled));
        if !self.measured.counts.is_empty() {
            observed.insert("counts".to_owned(), json!(self.measured.counts));
        }
        let memory = self.memory.take().or_else(|| self.stage.target.held.memory.as_ref().map(MemoryHold::usage));
        let ended = ended.map_err(|failure| for_want_of_memory(failure, memory.as_ref(), self.killed_before));
        if let Some(memory) = memory {
            observed.insert("memory_limit".to_owned(), json!(memory));
        }
        observed.insert("settle_seconds".to_owned(), json!(self.settle_seconds));
        let disturbed = self.disturbed();
        observed.extend(std::mem::take(&mut self.watched).into_iter().map(|(name, value)| (name, json!(value))));
        let (outcome, error) = match ended {
            Ok(()) => match proof::verdict(&self.profile, &self.stage.target.abilities, &self.seen, &self.measured)
                .and_then(|()| unflushed(&self.stage.target.held, &self.measured))
            {
                Ok(()) => (Outcome::Ok, None),
                Err(why) => (Outcome::Invalid, Some(why)),
            },
            Err(Failure::NotApplicable(why)) => (Outcome::NotApplicable, Some(why)),
            Err(Failure::Failed(why)) => (Outcome::Failed, Some(why)),
            Err(Failure::Lost(why)) => {
                let reply = self.failed(why, observed);
                return TrialReply { target_lost: true, ..reply };
            }
        };
        match self.merge_latencies() {
            Ok(()) => TrialReply {
                outcome,
                error,
                observed,
                disturbed,
                spent: self.spent,
                target_lost: false,
                measured: Some(self.measured),
            },
            Err(why) => self.failed(why, observed),
        }
    }

    /// What disturbed the repetitions; the null file system makes it up.
    fn disturbed(&self) -> Vec<String> {
        match self.stage.target.abilities.fake {
            Some(fake) if pretends_disturbance(&fake, self.request) => vec![watch::PRETENDED.to_owned()],
            Some(_) => Vec::new(),
            None => watch::reasons(&self.watched),
        }
    }

    fn failed(&self, why: String, observed: Map<String, Value>) -> TrialReply {
        TrialReply { observed, spent: self.spent, ..refused(Failure::Failed(why)) }
    }

    /// Latencies of repetitions are merged as histograms, never averaged.
    fn merge_latencies(&mut self) -> Result<(), String> {
        for (operation, histogram) in std::mem::take(&mut self.histograms) {
            let merged = match self.measured.latency.remove(&operation) {
                Some(known) => latency::merge([known.as_str(), histogram.as_str()]).map_err(|e| e.to_string())?,
                None => histogram,
            };
            self.measured.latency.insert(operation, merged);
        }
        Ok(())
    }
}

/// A pretended disturbance makes times so much longer: who analyses a disturbed trial is found out.
const DISTURBED_SLOWDOWN: f64 = 1.5;

/// Drawn for each attempt from the trial's own seed, so that a run is the same every time. Warm-up is spared: it decides
/// how much is done.
fn pretends_disturbance(fake: &Fake, request: &TrialRequest) -> bool {
    let drawn = mix(request.trial_seed ^ mix(u64::from(request.attempt)));
    request.until_seconds.is_none() && ((drawn >> 11) as f64 / (1u64 << 53) as f64) < fake.disturbed
}

/// Without barriers the device serves no flush, or they were not off.
fn unflushed(held: &Held, measured: &Measured) -> Result<(), String> {
    match measured.device_flushes {
        Some(flushes) if held.no_flushes && flushes > 0 => {
            Err(format!("not without barriers: the device served {flushes} flushes"))
        }
        _ => Ok(()),
    }
}

/// A worker gets this long, beyond any reasonable duration of its work: a hang costs one trial, not the run.
pub fn deadline(profile: &Profile, expected: Option<f64>) -> Duration {
    let mut seconds = 120.0 + profile.space as f64 / 1e6 + profile.inodes as f64 / 100.0;
    if profile.renewal == Renewal::Never && !profile.repeats_in_place {
        // All cycles are one step: each iteration makes its files, works on them and removes them.
        let iteration = (profile.files * profile.file_size) as f64 / 1e6 + profile.files as f64 / 100.0;
        seconds += 4.0 * profile.operations as f64 * iteration;
    }
    Duration::from_secs_f64(seconds.max(expected.unwrap_or(0.0) * 20.0).min(7.0 * 86_400.0))
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
