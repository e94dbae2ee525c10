//! Measures a case: one cell on the targets that are ready.
//!
//! The agent prepares files, and empties the caches if the case begins cold. Each round takes one
//! sample of every target in the order that the runner drew. After the last round, the agent counts
//! the deferred work and removes the files.
//!
//! A case *in rounds* keeps one worker for each target and prepares it once. A target is synced
//! after its sample, outside the clock, so that it is idle while its neighbours are measured. The
//! counters of its device show whether it was. A case *as a whole* has one target, starts a worker
//! for each sample, and restores the target's state before it. Its repetitions are its rounds.
//!
//! A case with a background is a whole. The background is one more worker with a directory of its
//! own, on the target of the case or on another one: it starts a second before the sample and is
//! stopped after it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fsb_engine::{
    ClockSpec, Live, ParamError, Profile, Renewal, Step, StepReport, Task, Units,
    measured_by_agent, mix, workload,
};
use fsb_model::metric::ITERATION_TIME;
use fsb_model::observed::BackgroundWork;
use fsb_model::timeline::Sustained;
use fsb_model::trial::{NO_SPACE, Reason, SERVER};
use fsb_model::units::show_size;
use fsb_model::{Durability, Interference, Maintenance, OwnDirectory, WorkloadSpec, variant};
use fsb_testbed::control::memory_limit::MemoryHold;
use fsb_testbed::watch::{self, DeviceTimeline, Watch};
use fsb_testbed::{
    Activity, ColdMethod, ColdReach, Counters, Fake, Progress, Provisioned, Slot, Testbed,
    TestbedError,
};

use super::protocol::{MeasureRequest, Method, SlotTrial, TimeLimit, TrialReply};
use super::root_background::RootBackground;
use super::tally::{Failure, IDLE_BYTES, Tally, applicable, refused};
use super::traced::{Observations, TraceTally, TracedDevices, Tracer, untraceable};
use crate::injected;
use crate::work::parse_background;
use crate::worker::{Backgrounds, Cycles, Steps, Worker, WorkerError, WorkerLimits};

/// A target that is ready, and the limits of its workers.
pub(super) struct SlotWorkers<'a> {
    pub(super) slot: Slot,
    pub(super) target: &'a Provisioned,
    pub(super) limits: WorkerLimits,
    /// Those of the background, if the case has one and its target is ready.
    pub(super) background: Option<BackgroundWorkers<'a>>,
}

/// The target that a background runs on, and the limits of its workers.
pub(super) struct BackgroundWorkers<'a> {
    pub(super) slot: Slot,
    pub(super) target: &'a Provisioned,
    pub(super) limits: WorkerLimits,
}

/// The background of a case.
struct CaseBackground {
    workload: WorkloadSpec,
    profile: Profile,
    /// The directory that the agent makes for its files, if any other will not do.
    own_directory: Option<OwnDirectory>,
    /// It works on the files of the case.
    same_files: bool,
}

impl CaseBackground {
    /// Parses the background of a workload, if it has one.
    fn parse(request: &MeasureRequest) -> Result<Option<CaseBackground>, ParamError> {
        let Some(background) = &request.workload.background else {
            return Ok(None);
        };
        let (_, profile) = parse_background(background, &request.sizing)?;
        let (own_directory, same_files) = (background.own_directory(), background.same_files);
        Ok(Some(CaseBackground {
            workload: background.spec(),
            profile,
            own_directory,
            same_files,
        }))
    }

    /// Checks that it can run beside a case on a target, and that there is room for the files of
    /// both.
    fn check(
        &self,
        case: &Profile,
        workers: &SlotWorkers<'_>,
        request: &MeasureRequest,
    ) -> Result<(), Failure> {
        let own = &self.profile;
        let Some(BackgroundWorkers { slot, target, .. }) = &workers.background else {
            return Err(
                Failure::Failed("its target is not ready in this block".into()).of_background(),
            );
        };
        if request.background_slot == Some(workers.slot) {
            return Err(Failure::NotApplicable(
                "its background runs on this target".into(),
            ));
        }
        applicable(own, target).map_err(Failure::of_background)?;
        let directory = self.own_directory.unwrap_or_default();
        let subvolume = directory
            .subvolume
            .then(|| target.abilities.no_maintenance.get(&Maintenance::Subvolume));
        let quota = directory
            .space
            .map(|_| &target.abilities.no_space_limit)
            .filter(|why| !why.is_empty());
        if let Some(why) = subvolume.flatten().or(quota) {
            return Err(Failure::NotApplicable(why.clone().into()).of_background());
        }
        if *slot == workers.slot {
            return fits((case.space + own.space, case.inodes + own.inodes), target);
        }
        if target.abilities.fake.is_some() != workers.target.abilities.fake.is_some() {
            return Err(
                Failure::NotApplicable("only one of the two targets is real".into())
                    .of_background(),
            );
        }
        fits((case.space, case.inodes), workers.target)?;
        fits((own.space, own.inodes), target).map_err(Failure::of_background)
    }
}

/// Measures one case. Returns one reply for each slot, in the order of the request. Every error of
/// a trial is in its reply.
pub(super) fn measure_case(
    testbed: &mut dyn Testbed,
    slots: &[SlotWorkers<'_>],
    request: &MeasureRequest,
    tell: &mut dyn FnMut(Progress),
) -> Vec<(Slot, TrialReply)> {
    let time = TimeLeft::new(request.limit);
    let parsed = workload::parse(&request.workload, &request.sizing);
    let (profile, background) =
        match parsed.and_then(|job| Ok((job.profile(), CaseBackground::parse(request)?))) {
            Ok(parsed) => parsed,
            Err(error) => {
                let reply = refused(Failure::Failed(error.to_string().into()));
                return request
                    .slots
                    .iter()
                    .map(|trial| (trial.slot, reply.clone()))
                    .collect();
            }
        };
    let units = match &request.method {
        Method::Rounds {
            own_files: true, ..
        } => u64::from(request.units_made()),
        _ => 1,
    };
    let needed = (
        profile.space.saturating_mul(units),
        profile.inodes.saturating_mul(units),
    );
    let places = request.slots.iter().filter_map(|trial| {
        let workers = slots.iter().find(|workers| workers.slot == trial.slot)?;
        let applicable = applicable(&profile, workers.target).and_then(|()| {
            match (&request.method, &background) {
                (Method::Rounds { .. }, _) => fits(needed, workers.target),
                (Method::SequentialTrial { .. }, Some(background)) => {
                    background.check(&profile, workers, request)
                }
                (Method::SequentialTrial { .. }, None) => Ok(()),
            }
        });
        Some(Place {
            workers,
            trial: trial.clone(),
            tally: Tally::new(workers.target, background.is_some()),
            worker: None,
            background_root: None,
            samples: 0,
            traced: TraceTally::default(),
            failed: applicable.err(),
        })
    });
    let places: Vec<Place<'_, '_>> = places.collect();
    if places.iter().all(|place| place.failed.is_some()) {
        return places
            .into_iter()
            .filter_map(|place| Some((place.trial.slot, refused(place.failed?))))
            .collect();
    }
    let background = background.as_ref();
    let tracer = request.trace.then(Tracer::open);
    let mut case = Case {
        testbed,
        request,
        profile: &profile,
        background,
        places,
        tell,
        time,
        tracer,
    };
    let watched = case.measure();
    case.replies(watched)
}

/// Returns whether the case empties the caches of the kernel.
pub(super) fn empties_caches(slots: &[SlotWorkers<'_>], request: &MeasureRequest) -> bool {
    let begins_cold = workload::parse(&request.workload, &request.sizing)
        .is_ok_and(|job| job.profile().cache.begins_cold());
    begins_cold
        && slots.iter().any(|workers| {
            let abilities = &workers.target.abilities;
            abilities.fake.is_none()
                && matches!(
                    abilities.cold,
                    Some(ColdMethod::Remount | ColdMethod::DropCaches)
                )
        })
}

/// Checks that the target has room for all units together.
fn fits((bytes, inodes): (u64, u64), target: &Provisioned) -> Result<(), Failure> {
    let short = |needed: String, free: String| {
        let why =
            format!("its units need {needed}, but the target has {free}: use a larger --size");
        Err(Failure::Failed(Reason::new(&NO_SPACE, why)))
    };
    if bytes > target.free_bytes {
        return short(show_size(bytes), show_size(target.free_bytes));
    }
    if inodes > target.free_inodes {
        return short(
            format!("{inodes} files and directories"),
            format!("room for {}", target.free_inodes),
        );
    }
    Ok(())
}

/// The [`TimeLimit`] of a request under way.
#[derive(Debug, Clone, Copy)]
struct TimeLeft {
    began: Instant,
    limit: Option<TimeLimit>,
}

impl TimeLeft {
    /// Starts the clock of the limit.
    fn new(limit: Option<TimeLimit>) -> TimeLeft {
        TimeLeft {
            began: Instant::now(),
            limit,
        }
    }

    /// Returns the end of preparing and measuring.
    fn until(&self) -> Option<Instant> {
        self.limit
            .and_then(|limit| self.began.checked_add(limit.work))
    }

    /// Returns whether one more round may begin.
    fn repeats(&self) -> bool {
        self.limit
            .is_none_or(|limit| self.began.elapsed() < limit.repeat)
    }

    /// Returns the longest wait for an idle target before work that must still end in time.
    fn before_work(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |limit| {
            limit.work.saturating_sub(self.began.elapsed())
        })
    }

    /// Returns the longest wait for an idle target after the work.
    fn after_work(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |limit| {
            limit.idle.saturating_sub(self.began.elapsed())
        })
    }
}

/// A background beside a sample.
enum RunningBackground {
    /// A worker, without root.
    OfWorker(Worker),
    /// A thread of the agent.
    OfAgent(RootBackground),
}

impl RunningBackground {
    /// Stops it and returns its work.
    fn stop(self) -> Result<BackgroundWork, Failure> {
        let work = match self {
            RunningBackground::OfWorker(worker) => worker.stop_background().map_err(Failure::from),
            RunningBackground::OfAgent(running) => running
                .stop()
                .map_err(|error| Failure::Failed(error.to_string().into())),
        };
        work.map_err(Failure::of_background)
    }
}

/// The time between the start of a background and that of the sample beside it.
const LEAD_IN: Duration = Duration::from_secs(1);

struct Case<'a, 'p> {
    testbed: &'a mut dyn Testbed,
    request: &'a MeasureRequest,
    profile: &'a Profile,
    /// The work beside each sample; only for a case as a whole.
    background: Option<&'a CaseBackground>,
    places: Vec<Place<'a, 'p>>,
    tell: &'a mut dyn FnMut(Progress),
    time: TimeLeft,
    /// The eBPF programs of a traced case, or the reason why there are none.
    tracer: Option<Result<Tracer, String>>,
}

/// One target of the case.
struct Place<'a, 'p> {
    workers: &'a SlotWorkers<'p>,
    trial: SlotTrial,
    tally: Tally,
    worker: Option<Worker>,
    /// The directory of the background, if it has one of its own.
    background_root: Option<PathBuf>,
    /// Samples that count.
    samples: u32,
    /// The times of the worker's threads in them; empty unless the case is traced.
    traced: TraceTally,
    /// The reason why it left.
    failed: Option<Failure>,
}

impl Place<'_, '_> {
    fn worker(&mut self) -> Result<&mut Worker, Failure> {
        self.worker
            .as_mut()
            .ok_or_else(|| Failure::Failed("it has no worker".into()))
    }

    fn open(&mut self, until: Option<Instant>) -> Result<(), Failure> {
        self.worker = Some(Worker::open(&WorkerLimits {
            until,
            ..self.workers.limits.clone()
        })?);
        Ok(())
    }
}

/// The result of one sample in rounds.
struct Sample {
    unit_ns: Vec<u64>,
    operations: u64,
    device: Option<[u64; 3]>,
}

/// The round that a sample belongs to.
#[derive(Clone, Copy)]
struct Round {
    /// Index of its first unit; as a whole, its own index.
    first: u32,
    units: u32,
    /// A round that leads in adds to nothing but the time.
    counts: bool,
}

impl Case<'_, '_> {
    /// Measures the case. Returns the observations of the machine during a case in rounds.
    fn measure(&mut self) -> Option<watch::Seen> {
        self.each(|case, at| case.begin(at));
        let mut watch = None;
        if !self.is_sequential() {
            self.perform(Step::Prepare, 0, self.request.units_made());
            self.each(|case, at| case.seal(at));
            self.each(|case, at| case.make_cold(at));
            self.each(|case, at| case.quiesce(at));
            let until = self.time.until();
            self.each(|case, at| case.places[at].open(until));
            let first = self
                .places
                .iter()
                .find(|place| place.failed.is_none())
                .map(|place| place.trial.slot);
            watch = first.and_then(|slot| self.testbed.watch(slot));
        }
        self.rounds();
        let watched = watch.map(Watch::end);
        self.each(|case, at| case.rest(at));
        self.clean_up();
        watched
    }

    fn is_sequential(&self) -> bool {
        matches!(self.request.method, Method::SequentialTrial { .. })
    }

    /// Returns whether programs run in a directory of the user.
    fn runs_here(&self) -> bool {
        let program = self.profile.program.as_ref();
        program.is_some_and(|program| program.here)
    }

    /// Returns whether the state of the device does not matter: programs run in a directory of the
    /// user, and their work need not be durable. Waiting for the device would take longer than
    /// they.
    fn ignores_device(&self) -> bool {
        let plain =
            self.profile.durability == Durability::None && !self.profile.cache.begins_cold();
        plain && self.runs_here()
    }

    /// Does a step on every target that still takes part. A target leaves the case if the step
    /// fails on it.
    fn each(&mut self, mut step: impl FnMut(&mut Self, usize) -> Result<(), Failure>) {
        for at in 0..self.places.len() {
            if self.takes_part(at)
                && let Err(failure) = step(self, at)
            {
                self.leave(at, failure);
            }
        }
    }

    fn leave(&mut self, at: usize, failure: Failure) {
        let place = &mut self.places[at];
        place.worker = None;
        place.failed = Some(failure);
    }

    fn fake(&self, at: usize) -> Option<Fake> {
        self.places[at].workers.target.abilities.fake
    }

    fn takes_part(&self, at: usize) -> bool {
        self.places[at].failed.is_none()
    }

    fn evicts(&self, at: usize) -> bool {
        self.places[at].workers.target.abilities.cold == Some(ColdMethod::Evict)
    }

    /// Prepares the memory limit of a target, so that nothing of an earlier trial is in the memory
    /// that this one may use.
    fn begin(&mut self, at: usize) -> Result<(), Failure> {
        let Place { workers, tally, .. } = &mut self.places[at];
        let held = workers.target.held.memory.as_ref();
        tally.seen.limited(
            held.map(MemoryHold::limit)
                .or_else(fsb_testbed::host::memory_bytes),
        );
        let Some(memory) = held else { return Ok(()) };
        memory
            .begin_trial()
            .map_err(|error| Failure::Lost(error.to_string().into()))?;
        tally.killed_before = memory.usage().oom_kills.unwrap_or(0);
        Ok(())
    }

    /// Prepares or cleans up on all targets at the same time, each in a worker that ends with it.
    /// No measurement happens in a process that prepared its data, and nothing is measured
    /// meanwhile. Programs in a directory of the user are run one after the other, because all have
    /// the same. A fake target has nothing to prepare and nothing to clean up.
    fn perform(&mut self, step: Step, first: u32, units: u32) {
        let started = Instant::now();
        self.unseal();
        fn lost(place: &Place<'_, '_>) -> bool {
            matches!(place.failed, Some(Failure::Lost(_)))
        }
        let takes_part = |at: &usize| match step {
            // Whatever happened, the next case finds an empty target.
            Step::Cleanup => !lost(&self.places[*at]),
            _ => self.takes_part(*at),
        };
        let all: Vec<usize> = (0..self.places.len())
            .filter(|at| self.fake(*at).is_none() && takes_part(at))
            .collect();
        let at_once = if self.runs_here() {
            1
        } else {
            all.len().max(1)
        };
        for some in all.chunks(at_once) {
            self.perform_on(some, step, first, units);
        }
        for at in &all {
            let spent = &mut self.places[*at].tally.spent;
            let seconds = if step == Step::Cleanup {
                &mut spent.cleanup
            } else {
                &mut spent.prepare
            };
            *seconds += started.elapsed().as_secs_f64() / all.len() as f64;
        }
    }

    /// Performs a step on some targets at the same time.
    fn perform_on(&mut self, all: &[usize], step: Step, first: u32, units: u32) {
        let until = self.time.until();
        let ask = |at: usize| {
            let task = self.task(at, step, first, units);
            let place = &mut self.places[at];
            let mut worker = match step {
                // The files are removed even if no time is left for that.
                Step::Cleanup => match place.worker.take() {
                    Some(worker) => worker.without_limit(),
                    None => Worker::open(&place.workers.limits)?.without_limit(),
                },
                _ => Worker::open(&WorkerLimits {
                    until,
                    ..place.workers.limits.clone()
                })?,
            };
            worker.ask::<Steps>(&task)?;
            Ok(worker)
        };
        let asked: Vec<Result<Worker, WorkerError>> = all.iter().copied().map(ask).collect();
        for (at, worker) in all.iter().zip(asked) {
            let done = worker.and_then(|mut worker| {
                worker.result::<Steps>(&mut telling(step, self.tell))?;
                worker.close();
                Ok(())
            });
            if let Err(error) = done
                && self.takes_part(*at)
            {
                self.leave(*at, error.into());
            }
        }
    }

    /// Makes the files of all targets that are not lost writable. What was written since they were
    /// prepared is discarded.
    fn unseal(&mut self) {
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.workers.target.abilities.sealing.is_none()
                || matches!(place.failed, Some(Failure::Lost(_)))
            {
                continue;
            }
            // A worker would keep the sealed target busy.
            place.worker = None;
            let slot = place.trial.slot;
            if let Err(error) = self.testbed.set_sealed(slot, false) {
                self.leave(at, lost(error));
            }
        }
    }

    /// Seals the files that are prepared for the case and its background.
    fn seal(&mut self, at: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let slots = self.request.background_slot.into_iter();
        for slot in slots.chain([self.places[at].trial.slot]) {
            self.testbed.set_sealed(slot, true).map_err(lost)?;
        }
        self.places[at].tally.spent.set_up += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Prepares or cleans up the files of the background, if there is one. A fake target has none.
    /// Those on another target remain if the target of the case is lost, and are removed.
    fn perform_background(&mut self, step: Step) {
        if self
            .background
            .is_some_and(|background| background.same_files)
        {
            return;
        }
        for at in 0..self.places.len() {
            let is_lost = matches!(self.places[at].failed, Some(Failure::Lost(_)))
                && self.request.background_slot.is_none();
            let takes_part = if step == Step::Cleanup {
                !is_lost
            } else {
                self.takes_part(at)
            };
            if !takes_part {
                continue;
            }
            let started = Instant::now();
            if let Err(error) = self.testbed.set_sealed(self.background_slot(at), false) {
                self.leave(at, lost(error).of_background());
                continue;
            }
            let made = if step == Step::Prepare {
                self.make_own_directory(at)
            } else {
                Ok(())
            };
            let Some(task) = self.background_task(at, step) else {
                continue;
            };
            let Some(limits) = self.background_limits(at, step) else {
                continue;
            };
            let done = made.and_then(|()| {
                let mut worker = Worker::open(&limits)?;
                worker.perform::<Steps>(&task, &mut telling(step, self.tell))?;
                worker.close();
                Ok(())
            });
            if let Err(failure) = done
                && self.takes_part(at)
            {
                self.leave(at, failure.of_background());
            }
            // What remains would change the next trials.
            if step == Step::Cleanup
                && let Err(error) = self.remove_own_directory(at)
            {
                self.leave(at, lost(error));
            }
            let spent = &mut self.places[at].tally.spent;
            let seconds = if step == Step::Cleanup {
                &mut spent.cleanup
            } else {
                &mut spent.prepare
            };
            *seconds += started.elapsed().as_secs_f64();
        }
    }

    /// Makes the directory of the background, if it needs one of its own.
    fn make_own_directory(&mut self, at: usize) -> Result<(), Failure> {
        let Some(own) = self.own_directory(at) else {
            return Ok(());
        };
        let made = self
            .testbed
            .make_own_directory(self.background_slot(at), own);
        self.places[at].background_root =
            Some(made.map_err(|error| Failure::Failed(error.into()))?);
        Ok(())
    }

    /// Removes it. The next block would find it otherwise.
    fn remove_own_directory(&mut self, at: usize) -> Result<(), TestbedError> {
        if self.own_directory(at).is_none() {
            return Ok(());
        }
        self.places[at].background_root = None;
        self.testbed.remove_own_directory(self.background_slot(at))
    }

    fn own_directory(&self, at: usize) -> Option<OwnDirectory> {
        self.background
            .filter(|_| self.fake(at).is_none())?
            .own_directory
    }

    fn background_slot(&self, at: usize) -> Slot {
        self.request
            .background_slot
            .unwrap_or(self.places[at].trial.slot)
    }

    /// Returns the limits of a worker of the background. Files are removed even if no time is left
    /// for that.
    fn background_limits(&self, at: usize, step: Step) -> Option<WorkerLimits> {
        let Place {
            workers,
            background_root,
            ..
        } = &self.places[at];
        let mut limits = workers.background.as_ref()?.limits.clone();
        match step {
            Step::Cleanup => limits.space = None,
            _ => limits.until = self.time.until(),
        }
        if let (Some(confinement), Some(root)) = (&mut limits.confinement, background_root) {
            confinement.writable = vec![root.clone()];
        }
        Some(limits)
    }

    /// Returns a step of the background. Returns `None` without one, and on a fake target.
    fn background_task(&self, at: usize, step: Step) -> Option<Task> {
        let CaseBackground {
            workload,
            profile,
            same_files,
            ..
        } = self.background.filter(|_| self.fake(at).is_none())?;
        let target = self.places[at].workers.background.as_ref()?.target;
        let root = self.places[at]
            .background_root
            .as_ref()
            .unwrap_or(&target.root);
        let MeasureRequest { sizing, seed, .. } = self.request;
        let plain = Task::plain(
            step,
            workload.clone(),
            *sizing,
            root,
            *seed,
            profile.operations,
        );
        Some(Task {
            background: !same_files,
            ..plain
        })
    }

    /// Starts the background beside the next sample of a target, if there is one, and lets it lead
    /// in.
    fn start_background(&mut self, at: usize) -> Result<Option<RunningBackground>, Failure> {
        let maintenance = self
            .background
            .and_then(|background| background.profile.maintenance);
        if let Some(operation) = maintenance.filter(|_| self.fake(at).is_none()) {
            let slot = self.background_slot(at);
            let perform = self.testbed.repeatable(slot, operation).ok_or_else(|| {
                let why = format!(
                    "the driver of this file system does not support {}",
                    operation.name()
                );
                Failure::NotApplicable(why.into()).of_background()
            })?;
            let running = RootBackground::start(perform);
            std::thread::sleep(LEAD_IN);
            return Ok(Some(RunningBackground::OfAgent(running)));
        }
        let Some(task) = self.background_task(at, Step::Measure) else {
            return Ok(None);
        };
        let Some(limits) = self.background_limits(at, Step::Measure) else {
            return Ok(None);
        };
        let start = || -> Result<Worker, WorkerError> {
            let mut worker = Worker::open(&limits)?;
            worker.ask::<Backgrounds>(&task)?;
            worker.ready::<Backgrounds>()?;
            worker.start_background()?;
            Ok(worker)
        };
        let worker = start().map_err(|error| Failure::from(error).of_background())?;
        std::thread::sleep(LEAD_IN);
        Ok(Some(RunningBackground::OfWorker(worker)))
    }

    /// Stops the background beside a sample and adds its work to the trial. That of a fake target
    /// is made up from the time of the sample.
    fn stop_background(
        &mut self,
        at: usize,
        running: Option<RunningBackground>,
        timed_ns: u64,
    ) -> Result<(), Failure> {
        let work = match (running, self.background, self.fake(at)) {
            (Some(running), ..) => running.stop()?,
            (None, Some(background), Some(_)) => {
                pretended_background(&background.profile, timed_ns)
            }
            _ => return Ok(()),
        };
        self.places[at]
            .tally
            .background
            .get_or_insert_default()
            .add(&work);
        Ok(())
    }

    /// Removes the files of the case on every target that is not lost, also after an error. After a
    /// whole, also quiesces the target, so that deferred work is not written out within the next
    /// trial, and that of the background. A target that fails here fails the next trial.
    fn clean_up(&mut self) {
        self.perform(Step::Cleanup, 0, 0);
        self.perform_background(Step::Cleanup);
        self.places.iter_mut().for_each(|place| place.worker = None);
        if !self.is_sequential() {
            return;
        }
        for Place { trial, tally, .. } in &mut self.places {
            let started = Instant::now();
            for slot in self.request.background_slot.into_iter().chain([trial.slot]) {
                let quiet = self.testbed.quiesce(slot, self.time.after_work());
                tally.idle &= quiet.as_ref().is_ok_and(|quiet| quiet.idle);
                tally.quiesce_seconds += quiet.map_or(0.0, |quiet| quiet.waited_seconds);
            }
            tally.spent.cleanup += started.elapsed().as_secs_f64();
        }
    }

    fn make_cold(&mut self, at: usize) -> Result<(), Failure> {
        let started = Instant::now();
        self.places[at].tally.before_cold = None;
        if !self.profile.cache.begins_cold() || self.evicts(at) {
            return Ok(());
        }
        let slot = self.places[at].trial.slot;
        if self.is_sequential() {
            self.places[at].tally.before_cold = self.testbed.counters(slot);
        }
        // The files of a command itself are elsewhere. Whether they are cached is not a property of
        // the target.
        let reach = match self.profile.program {
            Some(_) if self.is_sequential() => ColdReach::Target,
            _ => ColdReach::Machine,
        };
        self.testbed.make_cold(slot, reach).map_err(lost)?;
        self.places[at].tally.spent.set_up += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Empties the caches between rounds. Otherwise data that a unit read beyond its own files
    /// (read-ahead of the device under a FUSE server, blocks of inodes that units share) would warm
    /// the next one. Does so for all targets at once, so that none is emptied more often.
    fn make_cold_again(&mut self) -> Result<(), Failure> {
        let Some(at) = (0..self.places.len())
            .find(|at| self.takes_part(*at) && !self.evicts(*at) && self.fake(*at).is_none())
            .filter(|_| self.profile.cache.begins_cold())
        else {
            return Ok(());
        };
        let started = Instant::now();
        self.testbed.drop_caches().map_err(lost)?;
        self.places[at].tally.spent.set_up += started.elapsed().as_secs_f64();
        Ok(())
    }

    fn quiesce(&mut self, at: usize) -> Result<(), Failure> {
        if self.ignores_device() {
            return Ok(());
        }
        let started = Instant::now();
        let Place { trial, tally, .. } = &mut self.places[at];
        let other = self
            .request
            .background_slot
            .map(|slot| self.testbed.quiesce(slot, self.time.before_work()));
        let other = other
            .transpose()
            .map_err(|error| Failure::Failed(error.into()).of_background())?;
        let own = self
            .testbed
            .quiesce(trial.slot, self.time.before_work())
            .map_err(lost)?;
        tally.fill(self.testbed, trial.slot, 1);
        for quiet in other.into_iter().chain([own]) {
            tally.idle &= quiet.idle;
            tally.quiesce_seconds += quiet.waited_seconds;
        }
        tally.spent.set_up += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Counts the deferred work of the case before its files are removed. As a whole, the work
    /// before the last repetition was written when the target was quiesced for that one.
    fn rest(&mut self, at: usize) -> Result<(), Failure> {
        if self.ignores_device() {
            return Ok(());
        }
        let started = Instant::now();
        // Each run of the last sample of a command has left its own directory.
        let copies = match (&self.request.method, &self.profile.program) {
            (Method::Rounds { units, .. }, Some(program)) if !program.reuse => *units,
            _ => 1,
        };
        let Place { trial, tally, .. } = &mut self.places[at];
        tally
            .rest(self.testbed, trial.slot, self.time.after_work(), copies)
            .map_err(lost)?;
        tally.spent.set_up += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Makes all rounds. A round that leads in has one unit and does not count. A round in which a
    /// neighbour was not idle is retried as long as there are spare rounds.
    fn rounds(&mut self) {
        let slots: Vec<Slot> = self.request.slots.iter().map(|trial| trial.slot).collect();
        let (rounds, units, lead_in, until, mut spares) = match &self.request.method {
            Method::SequentialTrial { amount, .. } => {
                (amount.repetitions.max(1) as usize, 1, false, None, 0)
            }
            Method::Rounds {
                orders,
                units,
                lead_in,
                until_seconds,
                spares,
                ..
            } => (orders.len(), *units, *lead_in, *until_seconds, *spares),
        };
        let request = self.request;
        let order = |index: usize| match &request.method {
            Method::SequentialTrial { .. } => &slots,
            Method::Rounds { orders, .. } => &orders[index],
        };
        let started = Instant::now();
        let mut first = 0;
        for index in 0..rounds {
            if index > 0 && until.is_some_and(|until| started.elapsed().as_secs_f64() >= until) {
                break;
            }
            if self.has_samples() && !self.time.repeats() {
                return self.leave_out(rounds - index);
            }
            if !(0..self.places.len()).any(|at| self.takes_part(at)) {
                return;
            }
            let counts = index > 0 || !lead_in;
            let units = if counts { units } else { 1 };
            loop {
                let (samples, restless) = self.round(
                    order(index),
                    Round {
                        first,
                        units,
                        counts,
                    },
                );
                first += units;
                if let Some(failure) = self.out_of_time() {
                    return self.end_early(&failure, rounds - index);
                }
                if self.retries(restless.filter(|_| counts), &mut spares) {
                    continue;
                }
                if counts {
                    self.keep(samples);
                }
                break;
            }
        }
    }

    /// Counts a round in which this target was not idle. Returns whether a spare round is left.
    fn retries(&mut self, restless: Option<usize>, spares: &mut u32) -> bool {
        let Some(at) = restless else { return false };
        self.places[at].tally.restless += 1;
        let is_left = *spares > 0;
        *spares -= u32::from(is_left);
        is_left
    }

    fn out_of_time(&self) -> Option<Failure> {
        let mut failures = self.places.iter().filter_map(|place| place.failed.as_ref());
        failures
            .find(|failure| matches!(failure, Failure::OutOfTime(_)))
            .cloned()
    }

    /// Ends the rounds within one. Rounds are compared with each other, so a round that some
    /// targets lack counts for none. The samples that were taken before are valid. A case without
    /// any is out of time on every target.
    fn end_early(&mut self, failure: &Failure, rounds: usize) {
        let has_samples = self.has_samples();
        if has_samples {
            self.leave_out(rounds);
        }
        for place in &mut self.places {
            match place.failed {
                Some(Failure::OutOfTime(_)) if place.samples > 0 => place.failed = None,
                None if !has_samples => place.failed = Some(failure.clone()),
                _ => {}
            }
        }
    }

    fn has_samples(&self) -> bool {
        self.places.iter().any(|place| place.samples > 0)
    }

    fn leave_out(&mut self, rounds: usize) {
        self.places
            .iter_mut()
            .for_each(|place| place.tally.left_out = rounds as u32);
    }

    /// Takes one sample of each target that still takes part. Also returns the target that moved
    /// data during a sample of another one, if any.
    fn round(&mut self, order: &[Slot], round: Round) -> (Vec<Option<Sample>>, Option<usize>) {
        let mut samples: Vec<Option<Sample>> = self.places.iter().map(|_| None).collect();
        let mut restless = None;
        if self.is_sequential() {
            self.renew(round.first);
        } else if let Err(failure) = self.make_cold_again() {
            self.each(|_, _| Err(failure.clone()));
        }
        for slot in order {
            let Some(at) = self
                .places
                .iter()
                .position(|place| place.trial.slot == *slot)
            else {
                continue;
            };
            if !self.takes_part(at) {
                continue;
            }
            match self.take_sample(at, round) {
                Ok((sample, moved)) => {
                    samples[at] = Some(sample);
                    restless = moved.or(restless);
                }
                Err(failure) => self.leave(at, failure),
            }
        }
        (samples, restless)
    }

    /// Restores the state before a repetition of a whole: the files, empty caches if the case
    /// begins cold, and an idle target.
    fn renew(&mut self, repetition: u32) {
        let same_files = self
            .background
            .is_some_and(|background| background.same_files);
        let recreates = self.profile.renewal == Renewal::Recreate || same_files;
        if repetition > 0 && recreates && self.takes_part(0) {
            self.perform(Step::Cleanup, repetition, 0);
        }
        if repetition == 0 || recreates {
            self.perform(Step::Prepare, repetition, 0);
        }
        // Whatever a background changes, each sample begins with the same files.
        if repetition > 0 {
            self.perform_background(Step::Cleanup);
        }
        self.perform_background(Step::Prepare);
        if self.background.is_some() && repetition == 0 {
            self.each(|case, at| case.seal(at));
            self.each(|case, at| case.quiesce(at));
            self.each(|case, at| case.run_background_alone(at));
            if same_files {
                self.perform(Step::Cleanup, repetition, 0);
                self.perform(Step::Prepare, repetition, 0);
            }
            self.perform_background(Step::Cleanup);
            self.perform_background(Step::Prepare);
        }
        self.each(|case, at| case.seal(at));
        self.each(|case, at| case.make_cold(at));
        self.each(|case, at| case.quiesce(at));
    }

    /// Runs the background of a target without the case, for as long as beside a sample. A fake
    /// target has none.
    fn run_background_alone(&mut self, at: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let Some(running) = self.start_background(at)? else {
            return Ok(());
        };
        let sample_time = self
            .request
            .workload
            .sample_time
            .map_or(LEAD_IN.as_secs_f64(), |time| time.0);
        std::thread::sleep(Duration::from_secs_f64(sample_time));
        let work = running.stop()?;
        let tally = &mut self.places[at].tally;
        tally
            .background
            .get_or_insert_default()
            .add(&work.into_alone());
        tally.spent.set_up += started.elapsed().as_secs_f64();
        Ok(())
    }

    fn keep(&mut self, samples: Vec<Option<Sample>>) {
        for (place, sample) in self.places.iter_mut().zip(samples) {
            let Some(sample) = sample else { continue };
            place.samples += 1;
            let Method::Rounds { units, .. } = self.request.method else {
                continue;
            };
            let kept = &mut place.tally.samples;
            (kept.units, kept.operations) = (units, sample.operations);
            kept.timed_ns.push(sample.unit_ns.iter().sum());
            if sample.unit_ns.len() > 1 {
                kept.unit_ns.extend(sample.unit_ns);
            }
            if let Some([bytes, flushes, deferred]) = sample.device {
                kept.device_bytes.push(bytes);
                kept.device_flushes.push(flushes);
                kept.deferred_bytes.push(deferred);
            }
        }
    }

    /// Takes one sample. Also returns the neighbour that moved data meanwhile, if any.
    fn take_sample(&mut self, at: usize, round: Round) -> Result<(Sample, Option<usize>), Failure> {
        let started = Instant::now();
        let task = self.task(at, Step::Measure, round.first, round.units);
        let (sequential, slot) = (self.is_sequential(), self.places[at].trial.slot);
        let maintenance = self.profile.maintenance.filter(|_| self.fake(at).is_none());
        if maintenance.is_none() {
            self.ready(at, &task, round)?;
        }
        // In rounds, the worker of a command makes the directories of the runs.
        let prepared = if !sequential && self.profile.program.is_some() {
            started.elapsed()
        } else {
            Duration::ZERO
        };
        let background = self.start_background(at)?;
        // Reading all processes takes some milliseconds, so it happens before the first counters
        // and after the last ones.
        let watch = if sequential {
            self.testbed.watch(slot)
        } else {
            None
        };
        let rpcs_before = self.testbed.rpcs(slot);
        let before: Vec<_> = self.counters();
        let device_timeline = if sequential {
            self.testbed.device_timeline(slot)
        } else {
            None
        };
        let is_traced = self.begin_trace(at);
        let go = Instant::now();
        if maintenance.is_none() {
            self.places[at].worker()?.go()?;
        }
        let (report, mut measured) = if let Some(operation) = maintenance {
            (self.maintain(slot, operation, &task)?, go.elapsed())
        } else if sequential {
            let cycles = self.has_cycles();
            let worker = self.places[at].worker()?;
            let mut tell = telling(Step::Measure, self.tell);
            let report = match cycles {
                true => worker.result::<Cycles>(&mut tell)?,
                false => worker.result::<Steps>(&mut tell)?,
            };
            self.places[at]
                .worker
                .take()
                .into_iter()
                .for_each(Worker::close);
            (report, go.elapsed())
        } else {
            let worker = self.places[at].worker()?;
            (worker.result::<Steps>(&mut |_| {})?, go.elapsed())
        };
        let observations = self.end_trace(is_traced);
        let device_samples = device_timeline.map(DeviceTimeline::end).unwrap_or_default();
        let after: Vec<_> = self.counters();
        let rpcs = rpcs_before.and_then(|before| Some(self.testbed.rpcs(slot)?.since(&before)));
        if sequential {
            // The worker's exit is not timed, but belongs to the measurement.
            measured = go.elapsed();
        }
        let mut found = match report {
            StepReport::Measured(found) if !sequential || found.len() == 1 => found,
            _ => return Err(Failure::Failed("the worker measured nothing".into())),
        };
        let operations = found.iter().map(|one| one.operations).sum();
        if let Some(observations) = observations.filter(|_| round.counts) {
            let devices = self.devices(at);
            self.places[at].traced.add(&observations, &found, devices);
        }
        self.stop_background(at, background, found.iter().map(|one| one.timed_ns).sum())?;
        let later = match sequential || self.ignores_device() {
            true => None,
            false => Some(self.sync(slot)?),
        };
        let Place { workers, tally, .. } = &mut self.places[at];
        tally.memory = workers.target.held.memory.as_ref().map(MemoryHold::usage);
        if let Some(seen) = watch.map(Watch::end) {
            watch::add(&mut tally.watched, seen);
        }
        match (&mut tally.deferred, later) {
            (Some(deferred), Some((synced, later))) => {
                deferred.sample(operations, before[at], after[at]);
                deferred.synced(synced, after[at], later);
            }
            (Some(deferred), None) => deferred.repetition(operations, before[at], after[at]),
            (None, _) => {}
        }
        let sample = Sample {
            unit_ns: found.iter().map(|one| one.timed_ns).collect(),
            operations,
            device: later.and_then(|(_, later)| device(before[at], after[at], later)),
        };
        if round.counts {
            tally.count(before[at], after[at], self.profile.cache.begins_cold());
            tally.count_rpcs(rpcs);
            for measurement in &mut found {
                if let Method::SequentialTrial { sustain, .. } = self.request.method
                    && let Some(timeline) = &mut measurement.timeline
                {
                    timeline.observe(&device_samples);
                    tally.measured.sustained = sustain.and_then(|asked| {
                        Sustained::from_timeline(asked, timeline, &device_samples)
                    });
                } else {
                    // The samples themselves are the timeline of a case in rounds.
                    measurement.timeline = None;
                }
                tally.seen.measured(measurement);
            }
            found
                .into_iter()
                .for_each(|measurement| tally.add(measurement));
        }
        let measured = measured.as_secs_f64();
        let prepared = prepared.as_secs_f64();
        tally.spent.prepare += prepared;
        tally.spent.measure += measured;
        tally.spent.set_up += started.elapsed().as_secs_f64() - measured - prepared;
        let is_still = !self.ignores_device();
        let restless = (0..self.places.len()).find(|other| {
            is_still
                && *other != at
                && moved(before[*other], after[*other]).is_some_and(|bytes| bytes > IDLE_BYTES)
        });
        Ok((sample, restless))
    }

    /// Begins to trace the worker of a target. Returns whether it is traced.
    fn begin_trace(&mut self, at: usize) -> bool {
        if self.tracer.is_none() {
            return false;
        }
        let (is_fake, disk) = (self.fake(at).is_some(), self.devices(at).disk);
        let place = &mut self.places[at];
        let process = place.worker.as_ref().map(Worker::process);
        let begun = match (
            &mut self.tracer,
            untraceable(self.profile, is_fake),
            process,
        ) {
            (None, ..) => return false,
            (Some(_), Some(why), _) => Err(why.to_owned()),
            (Some(Err(why)), ..) => Err(why.clone()),
            (Some(Ok(_)), None, None) => Err("it has no worker".to_owned()),
            (Some(Ok(tracer)), None, Some(process)) => tracer.begin(process, disk),
        };
        begun.map_err(|why| place.traced.fail(why)).is_ok()
    }

    /// Returns the devices whose requests and commits are the target's.
    fn devices(&self, at: usize) -> TracedDevices {
        let Place { workers, trial, .. } = &self.places[at];
        let root = rustix::fs::stat(&workers.target.root).ok();
        TracedDevices {
            disk: self.testbed.device_number(trial.slot),
            file_system: root.map(|root| {
                (
                    rustix::fs::major(root.st_dev),
                    rustix::fs::minor(root.st_dev),
                )
            }),
        }
    }

    fn end_trace(&mut self, is_traced: bool) -> Option<Observations> {
        let tracer = self.tracer.as_mut().filter(|_| is_traced)?;
        tracer.as_mut().ok().map(Tracer::end)
    }

    /// Returns whether the work consists of cycles, and can end after each of them.
    fn has_cycles(&self) -> bool {
        self.is_sequential() && self.profile.primary.name == ITERATION_TIME.name
    }

    /// Waits until the worker of a target is ready to start.
    fn ready(&mut self, at: usize, task: &Task, round: Round) -> Result<(), Failure> {
        if self.is_sequential() {
            self.places[at].open(self.time.until())?;
        }
        let cycles = self.has_cycles();
        let worker = self.places[at].worker()?;
        let ready = if cycles {
            worker.ask::<Cycles>(task)?;
            worker.ready::<Cycles>()?
        } else {
            worker.ask::<Steps>(task)?;
            worker.ready::<Steps>()?
        };
        let unconfined = worker.unconfined().to_vec();
        let tally = &mut self.places[at].tally;
        tally.unconfined = unconfined;
        if round.counts {
            tally.seen.ready(&ready);
        }
        Ok(())
    }

    /// Performs the operations of a repetition that need root.
    fn maintain(
        &mut self,
        slot: Slot,
        operation: Maintenance,
        task: &Task,
    ) -> Result<StepReport, Failure> {
        let (mut durations, mut cpu_seconds) = (Vec::new(), [0.0; 2]);
        let limit = task
            .until_seconds
            .filter(|_| self.profile.divisible)
            .map(Duration::from_secs_f64);
        while (durations.len() as u64) < task.operations {
            if limit.is_some_and(|limit| durations.iter().sum::<Duration>() >= limit) {
                break;
            }
            let Some(done) = self.testbed.maintain(slot, operation).map_err(lost)? else {
                let why = format!(
                    "the driver of this file system does not support {}",
                    operation.name()
                );
                return Err(Failure::NotApplicable(why.into()));
            };
            durations.push(done.time);
            cpu_seconds = [
                cpu_seconds[0] + done.cpu_seconds[0],
                cpu_seconds[1] + done.cpu_seconds[1],
            ];
        }
        let measured = measured_by_agent(self.profile.operation, &durations, cpu_seconds);
        Ok(StepReport::Measured(vec![measured]))
    }

    /// Syncs a target, so that it is idle while its neighbours are measured. Returns the seconds
    /// that it took and the counters after it.
    fn sync(&mut self, slot: Slot) -> Result<(f64, Option<Counters>), Failure> {
        let started = Instant::now();
        self.testbed.sync(slot).map_err(lost)?;
        Ok((started.elapsed().as_secs_f64(), self.testbed.counters(slot)))
    }

    fn counters(&self) -> Vec<Option<Counters>> {
        self.places
            .iter()
            .map(|place| self.testbed.counters(place.trial.slot))
            .collect()
    }

    /// Returns a step on the units from `first` on, or as a whole in the repetition `first`. If
    /// units share their files, or are revisited, the first unit decides the order in which data is
    /// accessed.
    fn task(&self, at: usize, step: Step, first: u32, count: u32) -> Task {
        let MeasureRequest {
            workload,
            sizing,
            seed,
            method,
            ..
        } = self.request;
        let Place { workers, trial, .. } = &self.places[at];
        let fake = workers.target.abilities.fake;
        let (operations, until_seconds, units, clock_seed) = match method {
            Method::SequentialTrial {
                amount,
                until_seconds,
                ..
            } => {
                let seed = trial.trial_seed.wrapping_add(u64::from(first));
                (amount.operations, *until_seconds, None, (seed, 0))
            }
            Method::Rounds {
                own_files,
                reuse_files,
                operations,
                ..
            } => {
                // The first unit leads in and is not revisited: its inodes are beside the file
                // system's own, in memory that a mounted ext4 holds, so the device would not be
                // read for them.
                let of_files = if *reuse_files { first.min(1) } else { first };
                let units = (*own_files && step != Step::Cleanup).then_some(Units {
                    first: of_files,
                    count,
                });
                let operations = if *own_files {
                    *operations
                } else {
                    operations * u64::from(count.max(1))
                };
                (
                    operations,
                    None,
                    units,
                    (trial.trial_seed, u64::from(first) + 1),
                )
            }
        };
        Task {
            step,
            workload: match &trial.variant {
                Some(text) => variant::filled(workload, text),
                None => workload.clone(),
            },
            sizing: *sizing,
            root: workers.target.root.clone(),
            client_roots: workers.target.client_roots.clone(),
            seed: *seed,
            operations,
            repetition: first,
            until_seconds,
            ramp_seconds: None,
            evict: self.profile.cache.begins_cold() && self.evicts(at),
            backend: fake.map(|_| "null".to_owned()),
            clock: clock(fake, self.slowed(at), clock_seed, trial.slot),
            units,
            background: false,
            processors: Vec::new(),
        }
    }

    /// Returns the factor by which times of a fake target are longer than its own.
    fn slowed(&self, at: usize) -> f64 {
        /// By pretended interference. An analysis that uses such a trial is noticed.
        const BY_INTERFERENCE: f64 = 1.5;
        /// By a background. A report that exchanges the two cases is noticed.
        const BY_BACKGROUND: f64 = 3.0;
        let interference = if self.pretends(at) {
            BY_INTERFERENCE
        } else {
            1.0
        };
        if self.background.is_some() {
            interference * BY_BACKGROUND
        } else {
            interference
        }
    }

    /// Returns whether interference is pretended. It is drawn for each attempt from the trial's own
    /// seed, so that a run is reproducible. Warm-up has none, because it decides the amounts.
    fn pretends(&self, at: usize) -> bool {
        let (Some(fake), MeasureRequest { attempt, .. }) = (self.fake(at), self.request) else {
            return false;
        };
        if matches!(
            self.request.method,
            Method::SequentialTrial {
                until_seconds: Some(_),
                ..
            }
        ) {
            return false;
        }
        let drawn = mix(self.places[at].trial.trial_seed ^ mix(u64::from(*attempt)));
        *attempt > 0 && ((drawn >> 11) as f64 / (1u64 << 53) as f64) < fake.interference
    }

    /// Replaces the failures on targets whose FUSE server ended by their cause. The target is lost
    /// then, so the next case gets a new server.
    fn name_servers_that_ended(&mut self) {
        for place in &mut self.places {
            let Some(Failure::Failed(why) | Failure::Lost(why)) = &place.failed else {
                continue;
            };
            // ECONNABORTED: the connection ended during the call.
            let is_disconnected = matches!(why.errno.as_deref(), Some("ENOTCONN" | "ECONNABORTED"));
            let slot = place.trial.slot;
            if let Some(how) = self.testbed.server_failure(slot, is_disconnected) {
                let text = format!("{how}; then: {}", why.text);
                place.failed = Some(Failure::Lost(Reason {
                    errno: why.errno.clone(),
                    ..Reason::new(&SERVER, text)
                }));
            }
        }
    }

    fn replies(mut self, watched: Option<watch::Seen>) -> Vec<(Slot, TrialReply)> {
        self.name_servers_that_ended();
        let pretends: Vec<bool> = (0..self.places.len()).map(|at| self.pretends(at)).collect();
        let (profile, tracer) = (self.profile, self.tracer.take());
        let reply = |(mut place, pretends): (Place<'_, '_>, bool)| {
            let Place { workers, trial, .. } = place;
            if let Some(watched) = &watched {
                watch::add(&mut place.tally.watched, watched.clone());
            }
            let affected = interference(
                workers.target.abilities.fake,
                pretends,
                &place.tally.watched,
            );
            let ended = place.failed.map_or(Ok(()), Err);
            let mut reply = place.tally.reply(ended, profile, workers.target, affected);
            reply.observed.traced = tracer
                .as_ref()
                .map(|tracer| Box::new(place.traced.finish(tracer.as_ref().ok())));
            (trial.slot, reply)
        };
        std::mem::take(&mut self.places)
            .into_iter()
            .zip(pretends)
            .map(reply)
            .collect()
    }
}

/// Returns a function that reports the progress of a step.
fn telling<'t>(step: Step, tell: &'t mut dyn FnMut(Progress)) -> impl FnMut(Live) + 't {
    let activity = match step {
        Step::Prepare => Activity::MakeFiles,
        Step::Measure => Activity::Measure,
        Step::Cleanup => Activity::RemoveFiles,
    };
    move |Live { done, of }| {
        tell(Progress {
            activity: activity.clone(),
            done,
            total: of,
        })
    }
}

fn lost(error: TestbedError) -> Failure {
    Failure::Lost(error.into())
}

/// Returns the interference with a trial. The null file system makes it up.
fn interference(fake: Option<Fake>, pretends: bool, watched: &watch::Seen) -> Vec<Interference> {
    match fake {
        Some(_) if pretends => vec![watch::PRETENDED],
        Some(_) => Vec::new(),
        None => watch::interference(watched),
    }
}

/// Returns the clock of a sample. That of the null file system makes its times up, from a seed and
/// the number of the sample.
fn clock(fake: Option<Fake>, slowed: f64, (seed, sample): (u64, u64), slot: Slot) -> ClockSpec {
    let Some(fake) = fake else {
        return injected::clock(slot);
    };
    ClockSpec::Fake {
        seed,
        slowdown: (1.0 + fake.slowdown) * slowed,
        noise: fake.noise,
        sample,
    }
}

/// Returns the work of a background on a fake target: an operation in each millisecond of the
/// sample.
fn pretended_background(profile: &Profile, timed_ns: u64) -> BackgroundWork {
    let operations = timed_ns / 1_000_000;
    let seconds = timed_ns as f64 * 1e-9;
    let bytes = operations * profile.record_size;
    BackgroundWork {
        operations,
        bytes,
        seconds,
        cpu_seconds: seconds * 0.5,
        ..BackgroundWork::default()
    }
}

/// Returns the bytes that a device read and wrote between two readings.
fn moved(before: Option<Counters>, after: Option<Counters>) -> Option<u64> {
    let (before, after) = (before?, after?);
    Some(
        (after.read_bytes + after.write_bytes)
            .saturating_sub(before.read_bytes + before.write_bytes),
    )
}

/// Returns the bytes and flushes inside the clock, and the bytes that were written afterwards until
/// the target was synced.
fn device(
    before: Option<Counters>,
    after: Option<Counters>,
    later: Option<Counters>,
) -> Option<[u64; 3]> {
    let bytes = moved(before, after)?;
    let (before, after, later) = (before?, after?, later?);
    Some([
        bytes,
        after.flushes.saturating_sub(before.flushes),
        later.write_bytes.saturating_sub(after.write_bytes),
    ])
}

/// Returns the time after which a silent worker is killed. It is longer than any reasonable
/// duration of the work. A hang costs one trial, not the run.
pub fn deadline(profile: &Profile, expected: Option<f64>) -> Duration {
    let mut seconds = 120.0 + profile.space as f64 / 1e6 + profile.inodes as f64 / 100.0;
    if profile.renewal == Renewal::Never && !profile.repeats_in_place {
        // All cycles are one step: each iteration makes its files, works on them and removes them.
        let iteration =
            (profile.files * profile.file_size) as f64 / 1e6 + profile.files as f64 / 100.0;
        seconds += 4.0 * profile.operations as f64 * iteration;
    }
    if let Some(program) = &profile.program {
        // Before and after the command, other commands run, and services start and stop.
        seconds += 5.0 * program.longest;
    }
    Duration::from_secs_f64(
        seconds
            .max(expected.unwrap_or(0.0) * 20.0)
            .min(7.0 * 86_400.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_without_a_budget_has_all_the_time() {
        let time = TimeLeft::new(None);
        assert_eq!((time.until(), time.repeats()), (None, true));
        assert_eq!(
            (time.before_work(), time.after_work()),
            (Duration::MAX, Duration::MAX)
        );
    }

    #[test]
    fn a_trial_whose_time_is_over_neither_repeats_nor_waits() {
        let time = TimeLeft::new(Some(TimeLimit {
            repeat: Duration::ZERO,
            work: Duration::ZERO,
            idle: Duration::ZERO,
        }));
        assert!(!time.repeats() && time.until().is_some_and(|until| until <= Instant::now()));
        assert_eq!(
            (time.before_work(), time.after_work()),
            (Duration::ZERO, Duration::ZERO)
        );
    }
}
