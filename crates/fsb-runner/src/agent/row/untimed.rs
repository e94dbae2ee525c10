//! What is done before the rounds of a row and after them, outside the clock.

use std::time::Instant;

use fsb_engine::Step;

use fsb_testbed::ColdReach;

use super::super::conduct::telling;
use super::super::failure::Failure;
use super::{Row, RowTarget, lost};
use crate::worker::{Post, Steps, Worker, WorkerError};

impl Row<'_, '_> {
    /// The files of all targets are made at the same time: nothing is measured meanwhile.
    pub(super) fn prepare(&mut self) {
        let started = Instant::now();
        let units = self.request.units_made();
        let real: Vec<_> = (0..self.targets.len()).filter(|at| self.takes_part(*at) && !self.is_fake(*at)).collect();
        let until = self.time.until();
        self.together(&real, Step::Prepare, units, |place| Worker::open(&Post { until, ..place.post.post.clone() }));
        for at in &real {
            self.targets[*at].tally.spent.prepare += started.elapsed().as_secs_f64() / real.len() as f64;
        }
    }

    /// A step on all these targets at the same time, each in a worker that ends with it: no measurement happens in a
    /// process that prepared its data.
    fn together(
        &mut self,
        targets: &[usize],
        step: Step,
        units: u32,
        worker: impl Fn(&mut RowTarget<'_, '_>) -> Result<Worker, WorkerError>,
    ) {
        let ask = |at: usize| {
            let task = self.task(at, step, 0, units);
            let mut worker = worker(&mut self.targets[at])?;
            worker.ask::<Steps>(&task)?;
            Ok(worker)
        };
        let asked: Vec<Result<Worker, WorkerError>> = targets.iter().copied().map(ask).collect();
        for (at, worker) in targets.iter().zip(asked) {
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

    pub(super) fn make_cold(&mut self, at: usize) -> Result<(), Failure> {
        if !self.profile.cache.begins_cold() || self.evicts(at) {
            return Ok(());
        }
        let (started, seat) = (Instant::now(), self.targets[at].trial.seat);
        self.testbed.make_cold(seat, ColdReach::Machine).map_err(lost)?;
        self.targets[at].tally.spent.settle += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// What a unit read beyond its own files (read-ahead of the device under a FUSE server, blocks of inodes that units
    /// share) must not warm the next one. For all targets at once, so that nobody's caches are emptied more often.
    pub(super) fn make_cold_again(&mut self) -> Result<(), Failure> {
        let emptied = |at: &usize| self.takes_part(*at) && !self.evicts(*at) && !self.is_fake(*at);
        let Some(at) = (0..self.targets.len()).find(emptied).filter(|_| self.profile.cache.begins_cold()) else {
            return Ok(());
        };
        let started = Instant::now();
        self.testbed.drop_caches().map_err(lost)?;
        self.targets[at].tally.spent.settle += started.elapsed().as_secs_f64();
        Ok(())
    }

    pub(super) fn settle(&mut self, at: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let RowTarget { trial, tally, .. } = &mut self.targets[at];
        let quiet = self.testbed.quiesce(trial.seat, self.time.before_work()).map_err(lost)?;
        tally.fill(self.testbed, trial.seat);
        tally.settled &= quiet.settled;
        tally.settle_seconds += quiet.waited_seconds;
        tally.spent.settle += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// What this row left for later is counted before its files are removed.
    pub(super) fn rest(&mut self, at: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let RowTarget { trial, tally, .. } = &mut self.targets[at];
        tally.rest(self.testbed, trial.seat, self.time.after_work()).map_err(lost)?;
        tally.spent.settle += started.elapsed().as_secs_f64();
        Ok(())
    }

    pub(super) fn open(&mut self, at: usize) -> Result<(), Failure> {
        let until = self.time.until();
        let place = &mut self.targets[at];
        place.tally.seen.limited(fsb_testbed::host::memory_bytes());
        place.worker = Some(Worker::open(&Post { until, ..place.post.post.clone() })?);
        Ok(())
    }

    /// Whatever happened, the next row finds an empty target. It makes it quiet itself.
    pub(super) fn clean_up(&mut self) {
        let started = Instant::now();
        let lost = |place: &RowTarget<'_, '_>| matches!(place.failed, Some(Failure::Lost(_)));
        let there = |at: &usize| !self.is_fake(*at) && !lost(&self.targets[*at]);
        let there: Vec<_> = (0..self.targets.len()).filter(there).collect();
        self.together(&there, Step::Cleanup, 0, |place| {
            // What was made is removed, however little time is left for it.
            place.worker.take().map_or_else(|| Worker::open(&place.post.post), |worker| Ok(worker.without_limit()))
        });
        for at in &there {
            self.targets[*at].tally.spent.cleanup += started.elapsed().as_secs_f64() / there.len() as f64;
        }
        self.targets.iter_mut().for_each(|place| place.worker = None);
    }
}
