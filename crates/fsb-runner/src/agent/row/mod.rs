//! Conducting a row: one cell on all targets that are ready, in rounds, one stretch a target and round.
//!
//! The cell is prepared on all targets, and where it begins cold their caches are emptied, with a remount once and
//! without one before each round. Each round visits every target once, in the order that the runner drew. A target is
//! synced after its stretch, outside the clock, so that it is at rest while its neighbours are measured; that it was is
//! seen on its device's counters.

mod untimed;

use std::time::Instant;

use fsb_engine::{Profile, Step, Task, Units, workload};
use fsb_testbed::watch::{self, Watch};
use fsb_testbed::{ColdMethod, Counters, Progress, Provisioned, Testbed, TestbedError};

use super::conduct::{TimeLeft, clock, interference, pretends};
use super::deferred::AT_REST;
use super::failure::{Failure, applicable, refused};
use super::protocol::{RowRequest, SeatTrial, TrialReply};
use super::tally::Tally;
use crate::worker::{Post, Steps, Worker};

/// A target that is ready, and where its workers work.
pub struct SeatPost<'a> {
    /// Which one.
    pub seat: u32,
    /// What was made ready.
    pub target: &'a Provisioned,
    /// Where workers work.
    pub post: Post,
}

/// Conducts one row. The answer holds one reply a seat, in the order of the request.
pub fn conduct_row(
    testbed: &mut dyn Testbed,
    posts: &[SeatPost<'_>],
    request: &RowRequest,
    tell: &mut dyn FnMut(Progress),
) -> Vec<(u32, TrialReply)> {
    let job = match workload::parse(&request.workload, &request.sizing) {
        Ok(job) => job,
        Err(error) => {
            let reply = refused(Failure::Failed(error.to_string()));
            return request.seats.iter().map(|trial| (trial.seat, reply.clone())).collect();
        }
    };
    let profile = job.profile();
    let units = if request.own_files { u64::from(request.units_made()) } else { 1 };
    let needed = (profile.space.saturating_mul(units), profile.inodes.saturating_mul(units));
    let targets = request.seats.iter().filter_map(|trial| {
        let post = posts.iter().find(|post| post.seat == trial.seat)?;
        let applicable = applicable(job.as_ref(), post.target).and_then(|()| fits(needed, post.target));
        Some(RowTarget { post, trial: *trial, tally: Tally::new(post.target), worker: None, failed: applicable.err() })
    });
    let (time, targets) = (TimeLeft::new(request.limit), targets.collect());
    let mut row = Row { testbed, request, profile: &profile, targets, tell, time };
    let watched = row.conduct();
    row.replies(watched)
}

/// All units together must find room.
fn fits((bytes, inodes): (u64, u64), target: &Provisioned) -> Result<(), Failure> {
    let short = |needed: String, free: String| {
        Err(Failure::Failed(format!("its units need {needed}, but the target has {free}: use a larger --size")))
    };
    if bytes > target.free_bytes {
        let show = |bytes: u64| fsb_model::units::show_bytes(bytes as f64);
        return short(show(bytes), show(target.free_bytes));
    }
    if inodes > target.free_inodes {
        return short(format!("{inodes} files and directories"), format!("room for {}", target.free_inodes));
    }
    Ok(())
}

struct Row<'a, 'p> {
    testbed: &'a mut dyn Testbed,
    request: &'a RowRequest,
    profile: &'a Profile,
    targets: Vec<RowTarget<'a, 'p>>,
    tell: &'a mut dyn FnMut(Progress),
    time: TimeLeft,
}

/// One target of the row.
struct RowTarget<'a, 'p> {
    post: &'a SeatPost<'p>,
    trial: SeatTrial,
    tally: Tally,
    worker: Option<Worker>,
    /// Why it left the row.
    failed: Option<Failure>,
}

/// What one stretch told.
struct Stretch {
    unit_ns: Vec<u64>,
    operations: u64,
    device: Option<[u64; 3]>,
}

impl Row<'_, '_> {
    /// All of it; what was seen of the machine meanwhile.
    fn conduct(&mut self) -> Option<watch::Seen> {
        self.prepare();
        self.each(|row, at| row.make_cold(at));
        self.each(|row, at| row.settle(at));
        self.each(|row, at| row.open(at));
        let first = self.targets.iter().find(|place| place.failed.is_none()).map(|place| place.trial.seat);
        let watch = first.and_then(|seat| self.testbed.watch(seat));
        self.rounds();
        let watched = watch.map(Watch::end);
        self.each(|row, at| row.rest(at));
        self.clean_up();
        watched
    }

    /// Does a step on every target that is still in the row; one where it fails leaves.
    fn each(&mut self, mut step: impl FnMut(&mut Self, usize) -> Result<(), Failure>) {
        for at in 0..self.targets.len() {
            if self.takes_part(at)
                && let Err(failure) = step(self, at)
            {
                self.leave(at, failure);
            }
        }
    }

    fn leave(&mut self, at: usize, failure: Failure) {
        let place = &mut self.targets[at];
        place.worker = None;
        place.failed = Some(failure);
    }

    fn is_fake(&self, at: usize) -> bool {
        self.targets[at].post.target.abilities.fake.is_some()
    }

    fn takes_part(&self, at: usize) -> bool {
        self.targets[at].failed.is_none()
    }

    fn evicts(&self, at: usize) -> bool {
        self.targets[at].post.target.abilities.cold == Some(ColdMethod::Evict)
    }

    /// Makes round after round; one that leads in has one unit and does not count. One in which a neighbour was not idle is made
    /// again while there are units to spare.
    fn rounds(&mut self) {
        let (orders, mut spares) = (&self.request.orders, self.request.spares);
        let started = Instant::now();
        let mut unit = 0;
        for (round, order) in orders.iter().enumerate() {
            if round > 0 && self.request.until_seconds.is_some_and(|until| started.elapsed().as_secs_f64() >= until) {
                break;
            }
            if self.has_rounds() && !self.time.repeats() {
                return self.leave_out(orders.len() - round);
            }
            let counts = round > 0 || !self.request.lead_in;
            let units = if counts { self.request.units } else { 1 };
            loop {
                let (stretches, restless) = self.round(order, (unit, units), counts);
                unit += units;
                if self.targets.iter().any(|place| matches!(place.failed, Some(Failure::OutOfTime(_)))) {
                    // Rounds are compared with each other: one that some targets lack counts for none.
                    return self.leave_out(orders.len() - round);
                }
                if let Some(at) = restless.filter(|_| spares > 0 && counts) {
                    spares -= 1;
                    self.targets[at].tally.restless += 1;
                    continue;
                }
                if counts {
                    self.keep(stretches);
                }
                break;
            }
        }
    }

    fn has_rounds(&self) -> bool {
        self.targets.iter().any(|place| !place.tally.stretches.timed_ns.is_empty())
    }

    fn leave_out(&mut self, rounds: usize) {
        self.targets.iter_mut().for_each(|place| place.tally.left_out = rounds as u32);
    }

    /// One stretch of each target that is still in the row. The answer says, too, which one moved something within
    /// another one's stretch.
    fn round(&mut self, order: &[u32], units: (u32, u32), counts: bool) -> (Vec<Option<Stretch>>, Option<usize>) {
        let mut stretches: Vec<Option<Stretch>> = self.targets.iter().map(|_| None).collect();
        let mut restless = None;
        if let Err(failure) = self.make_cold_again() {
            self.each(|_, _| Err(failure.clone()));
        }
        for seat in order {
            let Some(at) = self.targets.iter().position(|place| place.trial.seat == *seat) else { continue };
            if !self.takes_part(at) {
                continue;
            }
            match self.stretch(at, units, counts) {
                Ok((stretch, moved)) => {
                    stretches[at] = Some(stretch);
                    restless = moved.or(restless);
                }
                Err(failure) => self.leave(at, failure),
            }
        }
        (stretches, restless)
    }

    fn keep(&mut self, stretches: Vec<Option<Stretch>>) {
        for (place, stretch) in self.targets.iter_mut().zip(stretches) {
            let Some(stretch) = stretch else { continue };
            let kept = &mut place.tally.stretches;
            (kept.units, kept.operations) = (self.request.units, stretch.operations);
            kept.timed_ns.push(stretch.unit_ns.iter().sum());
            if stretch.unit_ns.len() > 1 {
                kept.unit_ns.extend(stretch.unit_ns);
            }
            if let Some([bytes, flushes, deferred]) = stretch.device {
                kept.device_bytes.push(bytes);
                kept.device_flushes.push(flushes);
                kept.deferred_bytes.push(deferred);
            }
        }
    }

    /// One stretch of so many units from the first on, and which neighbour moved something meanwhile. What leads in is
    /// added to nothing but the time.
    fn stretch(
        &mut self,
        at: usize,
        (unit, units): (u32, u32),
        counts: bool,
    ) -> Result<(Stretch, Option<usize>), Failure> {
        let started = Instant::now();
        let task = self.task(at, Step::Measure, unit, units);
        let seat = self.targets[at].trial.seat;
        let worker = worker_of(&mut self.targets[at])?;
        worker.ask::<Steps>(&task)?;
        let ready = worker.ready::<Steps>()?;
        let unconfined = worker.unconfined().to_vec();
        let before: Vec<_> = self.counters();
        let go = Instant::now();
        worker_of(&mut self.targets[at])?.go()?;
        let report = worker_of(&mut self.targets[at])?.result::<Steps>(&mut |_| {})?;
        let measured = go.elapsed().as_secs_f64();
        let after: Vec<_> = self.counters();
        let fsb_engine::StepReport::Measured(found) = report else {
            return Err(Failure::Failed("the worker measured nothing".to_owned()));
        };
        // The target is at rest while its neighbours are measured.
        let synced = Instant::now();
        self.testbed.sync(seat).map_err(lost)?;
        let synced = synced.elapsed().as_secs_f64();
        let later = self.testbed.counters(seat);
        let place = &mut self.targets[at];
        let tally = &mut place.tally;
        tally.unconfined = unconfined;
        let stretch = Stretch {
            unit_ns: found.iter().map(|one| one.timed_ns).collect(),
            operations: found.iter().map(|one| one.operations).sum(),
            device: device(before[at], after[at], later),
        };
        if let Some(leavings) = &mut tally.leavings {
            leavings.stretch(stretch.operations, before[at], after[at]);
            leavings.synced(synced, after[at], later);
        }
        if counts {
            tally.seen.ready(&ready);
            tally.count(before[at], after[at]);
            for mut measurement in found {
                // What stretches do over time is told by the stretches themselves.
                measurement.timeline = None;
                tally.seen.measured(&measurement);
                tally.add(measurement);
            }
        }
        tally.spent.measure += measured;
        tally.spent.settle += started.elapsed().as_secs_f64() - measured;
        let restless = (0..self.targets.len())
            .find(|other| *other != at && moved(before[*other], after[*other]).is_some_and(|bytes| bytes > AT_REST));
        Ok((stretch, restless))
    }

    fn counters(&self) -> Vec<Option<Counters>> {
        self.targets.iter().map(|place| self.testbed.counters(place.trial.seat)).collect()
    }

    /// A step on units from `first` on; where units share their files, or are visited again, the first one tells in which
    /// order they are visited.
    fn task(&self, at: usize, step: Step, first: u32, count: u32) -> Task {
        let RowRequest { workload, sizing, own_files, operations, seed, attempt, .. } = self.request;
        let RowTarget { post, trial, .. } = &self.targets[at];
        let fake = post.target.abilities.fake;
        // The first unit leads in and is not visited again: its inodes lie beside the file system's own, in memory that a
        // mounted ext4 holds, so that the device would not be read for them.
        let of_files = if self.request.revisit { first.min(1) } else { first };
        let units = (*own_files && step != Step::Cleanup).then_some(Units { first: of_files, count });
        Task {
            step,
            workload: workload.clone(),
            sizing: *sizing,
            root: post.target.root.clone(),
            seed: *seed,
            operations: if *own_files { *operations } else { operations * u64::from(count.max(1)) },
            repetition: first,
            until_seconds: None,
            evict: self.profile.cache.begins_cold() && self.evicts(at),
            backend: fake.map(|_| "null".to_owned()),
            clock: clock(
                fake,
                pretends(fake, trial.trial_seed, *attempt),
                (trial.trial_seed, u64::from(first) + 1),
                trial.seat,
            ),
            units,
        }
    }

    fn replies(self, watched: Option<watch::Seen>) -> Vec<(u32, TrialReply)> {
        let (request, profile) = (self.request, self.profile);
        let reply = |mut place: RowTarget<'_, '_>| {
            let RowTarget { post, trial, .. } = place;
            if let Some(watched) = &watched {
                watch::add(&mut place.tally.watched, watched.clone());
            }
            let fake = post.target.abilities.fake;
            let affected = interference(fake, pretends(fake, trial.trial_seed, request.attempt), &place.tally.watched);
            let ended = match place.failed {
                // The rounds that ended are as good as all of them.
                Some(Failure::OutOfTime(_)) if !place.tally.stretches.timed_ns.is_empty() => Ok(()),
                failed => failed.map_or(Ok(()), Err),
            };
            (trial.seat, place.tally.reply(ended, profile, post.target, affected))
        };
        self.targets.into_iter().map(reply).collect()
    }
}

fn worker_of<'w>(place: &'w mut RowTarget<'_, '_>) -> Result<&'w mut Worker, Failure> {
    place.worker.as_mut().ok_or_else(|| Failure::Failed("it has no worker".to_owned()))
}

fn lost(error: TestbedError) -> Failure {
    Failure::Lost(error.to_string())
}

/// Bytes that a device read and wrote between two readings.
fn moved(before: Option<Counters>, after: Option<Counters>) -> Option<u64> {
    let (before, after) = (before?, after?);
    Some((after.read_bytes + after.write_bytes).saturating_sub(before.read_bytes + before.write_bytes))
}

/// Bytes and flushes inside the clock, and bytes that were written afterwards until the target was synced.
fn device(before: Option<Counters>, after: Option<Counters>, later: Option<Counters>) -> Option<[u64; 3]> {
    let bytes = moved(before, after)?;
    let (before, after, later) = (before?, after?, later?);
    Some([bytes, after.flushes.saturating_sub(before.flushes), later.write_bytes.saturating_sub(after.write_bytes)])
}
