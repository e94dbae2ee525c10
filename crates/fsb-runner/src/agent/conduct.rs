//! Conducting a trial: prepare, restore the state, settle, measure, prove, clean up.

use std::time::{Duration, Instant};

use fsb_engine::{ClockSpec, Live, Profile, Renewal, Step, Task, mix, workload};
use fsb_model::Interference;
use fsb_model::sustained::Sustained;
use fsb_testbed::control::memory_limit::MemoryHold;
use fsb_testbed::watch::{self, DeviceCourse, Watch};
use fsb_testbed::{Abilities, ColdMethod, ColdReach, Fake, Progress, Provisioned, Seat, Testbed, TestbedError};

use super::failure::{Failure, applicable, refused};
use super::protocol::{TimeLimit, TrialReply, TrialRequest};
use super::tally::Tally;
use crate::injected;
use crate::worker::{Post, Steps, Worker, WorkerError};

/// The [`TimeLimit`] of a trial or a row under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLeft {
    began: Instant,
    limit: Option<TimeLimit>,
}

impl TimeLeft {
    /// Starts the clock of the limit.
    pub(super) fn new(limit: Option<TimeLimit>) -> TimeLeft {
        TimeLeft { began: Instant::now(), limit }
    }

    /// The end of preparing and measuring.
    pub(super) fn until(&self) -> Option<Instant> {
        self.limit.and_then(|limit| self.began.checked_add(limit.work))
    }

    /// Whether one more repetition or round may begin.
    pub(super) fn repeats(&self) -> bool {
        self.limit.is_none_or(|limit| self.began.elapsed() < limit.repeat)
    }

    /// The longest wait for an idle target before work that must still end in time.
    pub(super) fn before_work(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |limit| limit.work.saturating_sub(self.began.elapsed()))
    }

    /// The longest wait for an idle target after the work.
    pub(super) fn after_work(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |limit| limit.idle.saturating_sub(self.began.elapsed()))
    }
}

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
pub(super) fn telling<'t>(step: Step, tell: &'t mut dyn FnMut(Progress)) -> impl FnMut(Live) + 't {
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
    tally: Tally,
    time: TimeLeft,
}

/// Conducts one trial. Every way in which it can go wrong is in the reply.
pub fn conduct(stage: &mut Stage<'_>, request: &TrialRequest) -> TrialReply {
    let time = TimeLeft::new(request.limit);
    stage.post.until = time.until();
    let job = match workload::parse(&request.workload, &request.sizing) {
        Ok(job) => job,
        Err(error) => return refused(Failure::Failed(error.to_string())),
    };
    if let Err(failure) = applicable(job.as_ref(), stage.target) {
        return refused(failure);
    }
    let mut conduct = Conduct { request, profile: job.profile(), tally: Tally::new(stage.target), stage, time };
    let ended = conduct.limit().and_then(|()| conduct.repetitions()).and_then(|()| conduct.rest());
    // Whatever happened, the next trial finds an empty target, and a quiet one.
    let cleaned = conduct.step(Step::Cleanup, 0);
    conduct.settle_afterwards();
    let interference = conduct.interference();
    let Conduct { profile, tally, stage, .. } = conduct;
    tally.reply(ended.and(cleaned.map_err(Failure::from)), &profile, stage.target, interference)
}

impl Conduct<'_, '_> {
    /// Nothing of an earlier trial is left in the memory that this one may use.
    fn limit(&mut self) -> Result<(), Failure> {
        let held = &self.stage.target.held.memory;
        self.tally.seen.limited(held.as_ref().map(MemoryHold::limit).or_else(fsb_testbed::host::memory_bytes));
        let Some(memory) = held else { return Ok(()) };
        memory.begin_trial().map_err(|error| Failure::Lost(error.to_string()))?;
        self.tally.killed_before = memory.usage().oom_kills.unwrap_or(0);
        Ok(())
    }

    fn repetitions(&mut self) -> Result<(), Failure> {
        let repetitions = self.request.amount.repetitions.max(1);
        for repetition in 0..repetitions {
            let ended = match repetition > 0 && !self.time.repeats() {
                true => Err(Failure::from(WorkerError::OutOfTime)),
                false => self.repetition(repetition),
            };
            match ended {
                // Those that ended are as good as all of them.
                Err(Failure::OutOfTime(_)) if repetition > 0 => {
                    self.tally.left_out = repetitions - repetition;
                    return Ok(());
                }
                ended => ended?,
            }
        }
        Ok(())
    }

    fn repetition(&mut self, repetition: u32) -> Result<(), Failure> {
        let recreates = self.profile.renewal == Renewal::Recreate;
        if repetition > 0 && recreates {
            self.step(Step::Cleanup, repetition)?;
        }
        if repetition == 0 || recreates {
            self.step(Step::Prepare, repetition)?;
        }
        self.settle().map_err(|error| Failure::Lost(error.to_string()))?;
        self.measure(repetition)
    }

    /// Cold where cold is asked for, and quiet always.
    fn settle(&mut self) -> Result<(), TestbedError> {
        let started = Instant::now();
        self.tally.before_cold = None;
        if self.profile.cache.begins_cold() && !self.evicts() {
            self.tally.before_cold = self.stage.testbed.counters(self.request.seat);
            // What a command runs from lies elsewhere, and its own coldness is none of the target's.
            let reach = if self.profile.program.is_some() { ColdReach::Target } else { ColdReach::Machine };
            self.stage.testbed.make_cold(self.request.seat, reach)?;
        }
        let quiet = self.stage.testbed.quiesce(self.request.seat, self.time.before_work())?;
        self.tally.fill(self.stage.testbed, self.request.seat);
        self.tally.settled &= quiet.settled;
        self.tally.settle_seconds += quiet.waited_seconds;
        self.tally.spent.settle += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// What the last repetition left for later is counted before its files are removed. What came before it was written
    /// when the target was made quiet for the next one.
    fn rest(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        let rested = self.tally.rest(self.stage.testbed, self.request.seat, self.time.after_work());
        self.tally.spent.settle += started.elapsed().as_secs_f64();
        rested.map_err(|error| Failure::Lost(error.to_string()))
    }

    /// What this trial left must not be written out within the next one. A target that fails here fails the next trial.
    fn settle_afterwards(&mut self) {
        let started = Instant::now();
        let quiet = self.stage.testbed.quiesce(self.request.seat, self.time.after_work());
        self.tally.settled &= quiet.as_ref().is_ok_and(|quiet| quiet.settled);
        self.tally.settle_seconds += quiet.map_or(0.0, |quiet| quiet.waited_seconds);
        self.tally.spent.cleanup += started.elapsed().as_secs_f64();
    }

    fn measure(&mut self, repetition: u32) -> Result<(), Failure> {
        let started = Instant::now();
        let task = self.task(Step::Measure, repetition);
        let mut worker = Worker::open(&self.stage.post)?;
        worker.ask::<Steps>(&task)?;
        let ready = worker.ready::<Steps>()?;
        self.tally.unconfined = worker.unconfined().to_vec();
        self.tally.seen.ready(&ready);
        // Looking at all processes takes some milliseconds: before the counters, and after them.
        let watch = self.stage.testbed.watch(self.request.seat);
        let before = self.stage.testbed.counters(self.request.seat);
        self.tally.spent.settle += started.elapsed().as_secs_f64();
        let course = self.stage.testbed.course(self.request.seat);
        let go = Instant::now();
        worker.go()?;
        let report = worker.result::<Steps>(&mut telling(Step::Measure, self.stage.tell))?;
        worker.close();
        let course = course.map(DeviceCourse::end).unwrap_or_default();
        let after = self.stage.testbed.counters(self.request.seat);
        self.tally.spent.measure += go.elapsed().as_secs_f64();
        self.tally.memory = self.stage.target.held.memory.as_ref().map(MemoryHold::usage);
        if let Some(seen) = watch.map(Watch::end) {
            watch::add(&mut self.tally.watched, seen);
        }
        let Some(mut measurement) = report.whole() else {
            return Err(Failure::Failed("the worker measured nothing".to_owned()));
        };
        if let Some(timeline) = &mut measurement.timeline {
            timeline.observe(&course);
            let sustain = self.request.sustain;
            self.tally.measured.sustained = sustain.and_then(|asked| Sustained::of(asked, timeline, &course));
        }
        self.tally.count(before, after);
        if let Some(leavings) = &mut self.tally.leavings {
            leavings.repetition(measurement.operations, before, after);
        }
        self.tally.seen.measured(&measurement);
        self.tally.add(measurement);
        Ok(())
    }

    fn step(&mut self, step: Step, repetition: u32) -> Result<(), WorkerError> {
        if self.stage.target.abilities.fake.is_some() {
            // A target that touches nothing has nothing to prepare and nothing to clean up.
            return Ok(());
        }
        let started = Instant::now();
        let task = self.task(step, repetition);
        let Stage { post, tell, .. } = &mut *self.stage;
        // What was made is removed, however little time is left for it.
        let post = match step {
            Step::Cleanup => &Post { until: None, ..post.clone() },
            Step::Prepare | Step::Measure => post,
        };
        let ended = Worker::open(post).and_then(|mut worker| {
            worker.perform::<Steps>(&task, &mut telling(step, *tell))?;
            worker.close();
            Ok(())
        });
        let spent = started.elapsed().as_secs_f64();
        match task.step {
            Step::Cleanup => self.tally.spent.cleanup += spent,
            _ => self.tally.spent.prepare += spent,
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
            clock: clock(fake, self.pretends(), (seed, 0), self.request.seat),
            units: None,
        }
    }

    fn pretends(&self) -> bool {
        let TrialRequest { trial_seed, attempt, until_seconds, .. } = *self.request;
        until_seconds.is_none() && pretends(self.stage.target.abilities.fake, trial_seed, attempt)
    }

    fn interference(&self) -> Vec<Interference> {
        interference(self.stage.target.abilities.fake, self.pretends(), &self.tally.watched)
    }
}

/// Returns the interference with a trial; the null file system makes it up.
pub(super) fn interference(fake: Option<Fake>, pretends: bool, watched: &watch::Seen) -> Vec<Interference> {
    match fake {
        Some(_) if pretends => vec![watch::PRETENDED],
        Some(_) => Vec::new(),
        None => watch::interference(watched),
    }
}

/// The clock of a stretch: the null file system's makes its times up, from a seed and the number of the stretch.
pub(super) fn clock(fake: Option<Fake>, pretends: bool, (seed, stretch): (u64, u64), seat: Seat) -> ClockSpec {
    /// A pretended disturbance makes times so much longer: who analyses a disturbed trial is found out.
    const DISTURBED_SLOWDOWN: f64 = 1.5;
    let Some(fake) = fake else { return injected::clock(seat) };
    let disturbed = if pretends { DISTURBED_SLOWDOWN } else { 1.0 };
    ClockSpec::Fake { seed, slowdown: (1.0 + fake.slowdown) * disturbed, noise: fake.noise, stretch }
}

/// Whether a disturbance is pretended: drawn for each attempt from the trial's own seed, so that a run is the same every
/// time. Warm-up is spared: it decides how much is done, and is attempt 0 where it is made in rounds.
pub(super) fn pretends(fake: Option<Fake>, trial_seed: u64, attempt: u32) -> bool {
    let Some(fake) = fake else { return false };
    let drawn = mix(trial_seed ^ mix(u64::from(attempt)));
    attempt > 0 && ((drawn >> 11) as f64 / (1u64 << 53) as f64) < fake.disturbed
}

/// A worker gets this long, beyond any reasonable duration of its work: a hang costs one trial, not the run.
pub fn deadline(profile: &Profile, expected: Option<f64>) -> Duration {
    let mut seconds = 120.0 + profile.space as f64 / 1e6 + profile.inodes as f64 / 100.0;
    if profile.renewal == Renewal::Never && !profile.repeats_in_place {
        // All cycles are one step: each iteration makes its files, works on them and removes them.
        let iteration = (profile.files * profile.file_size) as f64 / 1e6 + profile.files as f64 / 100.0;
        seconds += 4.0 * profile.operations as f64 * iteration;
    }
    if let Some(program) = &profile.program {
        // Before and after the command others run, and services start and stop.
        seconds += 5.0 * program.longest;
    }
    Duration::from_secs_f64(seconds.max(expected.unwrap_or(0.0) * 20.0).min(7.0 * 86_400.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_without_a_budget_has_all_the_time() {
        let time = TimeLeft::new(None);
        assert_eq!((time.until(), time.repeats()), (None, true));
        assert_eq!((time.before_work(), time.after_work()), (Duration::MAX, Duration::MAX));
    }

    #[test]
    fn a_trial_whose_time_is_over_neither_repeats_nor_waits() {
        let time =
            TimeLeft::new(Some(TimeLimit { repeat: Duration::ZERO, work: Duration::ZERO, idle: Duration::ZERO }));
        assert!(!time.repeats() && time.until().is_some_and(|until| until <= Instant::now()));
        assert_eq!((time.before_work(), time.after_work()), (Duration::ZERO, Duration::ZERO));
    }
}
