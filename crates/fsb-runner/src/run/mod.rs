//! A run: warm-up, calibration, then block after block.

mod amounts;
mod budget;
mod compose;
mod error;
mod provision;
mod race;
mod repeat;
mod schedule;
mod side_by_side;
mod stopping;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fsb_engine::mix;
use fsb_model::run::{BlockOrder, Placement};
use fsb_model::{Amount, Outcome, RunRecord, StopReason, Target, Trial, Warning};
use fsb_testbed::{LocalTestbed, Provisioned, Setup};

use crate::agent::{TrialReply, TrialRequest, deadline};
use crate::calibrate::{Sample, warmup_seconds};
use crate::event::Event;
use crate::wall_clock;
use crate::{injected, memory, order, placement, resume};

pub use amounts::{Expected, expected};
pub use budget::check_budget;
pub use error::{CODES, INTERRUPTED, OTHER_KERNEL, RunError};
pub use repeat::REPEATS;
pub use schedule::{FindWidest, Heats, Look, Next, Run, setup};
use schedule::{LeftOut, Schedule};

/// Makes the run. Returns the record and all trials, those of earlier segments included.
pub fn measure(mut run: Run<'_>) -> Result<(RunRecord, Vec<Trial>), RunError> {
    if run.record.amounts.is_empty() {
        amounts::say_estimate(&mut run);
    }
    resume::same_named(&run.record).map_err(RunError::OtherDevice)?;
    let request = Setup {
        memory_needed: Some(memory::needed(&run.record.plan, run.record.placement.as_ref(), &run.work)),
        ..setup(&run.record)
    };
    let opened = {
        let observer = &mut *run.observer;
        run.agent.open(&request, &mut |progress| observer.event(&Event::Opening(&progress)))?
    };
    resume::same_media(&run.record.media, &opened.media).map_err(RunError::OtherDevice)?;
    resume::same_files(run.record.vm.as_ref(), opened.vm.as_ref()).map_err(RunError::OtherKernel)?;
    run.record.media = opened.media;
    run.record.controls = opened.controls;
    // What an earlier segment lacked stays lacking.
    run.record.memory = run.record.memory.filter(|memory| !memory.is_complete()).or(opened.memory);
    run.record.memory_cells = run.record.memory.map(|_| memory::cells(&run.work)).unwrap_or_default();
    run.record.host = opened.host;
    run.record.vm = opened.vm.or(run.record.vm);
    run.record.emulated |= opened.emulated;
    for warning in opened.warnings.into_iter().chain(injected::warning()) {
        run.observer.event(&Event::Warning(&warning));
        if !run.record.warnings.contains(&warning) {
            run.record.warnings.push(warning);
        }
    }
    let schedule = Schedule::new(run);
    schedule.make()
}

impl<'a> Schedule<'a> {
    fn new(run: Run<'a>) -> Self {
        Schedule {
            cells: run.record.cells.clone(),
            asked: run.record.cells.len(),
            left_out: LeftOut::default(),
            profiles: run.work.profiles(),
            sizing: run.work.sizing,
            cut: false,
            removing: BTreeMap::new(),
            releasing: 0.0,
            too_long: BTreeSet::new(),
            touches: LocalTestbed::may_leave(&setup(&run.record)),
            side_by_side: matches!(run.record.placement, Some(Placement::SideBySide { .. })),
            settled: BTreeSet::new(),
            stretches: run.work.stretches(&run.record.plan),
            units: run.work.units(&run.record),
            unit_samples: Vec::new(),
            row_seconds: BTreeMap::new(),
            free: (u64::MAX, u64::MAX),
            kernel_caches_only: true,
            block_base: 0.0,
            samples: Vec::new(),
            expected: BTreeMap::new(),
            visit_seconds: BTreeMap::new(),
            done: run.trials.len() as u32,
            trial_started: wall_clock::now(),
            run,
        }
    }

    fn make(mut self) -> Result<(RunRecord, Vec<Trial>), RunError> {
        self.save()?;
        if self.run.record.amounts.is_empty() {
            self.warm_up()?;
            self.calibrate();
            self.save()?;
        }
        let stop_reason = if self.run.record.plan.race.is_some() { self.heats()? } else { self.blocks()? };
        self.run.record.stop_reason = Some(stop_reason);
        self.save()?;
        // Everything is measured and saved: an agent that fails to say goodbye leaves nothing that the kernel and
        // the undo ledger do not take away.
        let farewell = self.run.agent.close();
        if let Err(error) = farewell {
            let warning = Warning::NotTakenDown { target: None, error: error.to_string() };
            self.run.observer.event(&Event::Warning(&warning));
        }
        Ok((self.run.record, self.run.trials))
    }

    fn warm_up(&mut self) -> Result<(), RunError> {
        if !self.run.warmup {
            return Ok(());
        }
        if self.run.record.plan.race.is_some() {
            return self.warm_up_race();
        }
        let grid = self.grid();
        let unvisited = grid.unvisited();
        let visited = self.cells.iter().filter(|cell| !unvisited.contains(cell.label.as_str()));
        // Nothing is compared here: each kernel is booted once.
        let mut targets: Vec<_> = self.targets().iter().collect();
        targets
            .sort_by_key(|target| self.run.record.plan.targets.iter().position(|first| first.kernel == target.kernel));
        let order = BlockOrder {
            block: 0,
            targets: targets.into_iter().map(|target| target.name.clone()).collect(),
            cells: visited.map(|cell| cell.label.clone()).collect(),
            parts: Vec::new(),
        };
        let opened = self.run.started.elapsed().as_secs_f64();
        self.block(order)?;
        self.end_warm_up(opened)
    }

    /// Makes the blocks that are still missing. Returns the reason why it stopped.
    fn blocks(&mut self) -> Result<StopReason, RunError> {
        let names: Vec<_> = self.targets().iter().map(|target| target.name.clone()).collect();
        let first =
            self.run.trials.iter().filter(|trial| trial.counts()).map(|trial| trial.block).max().unwrap_or(0) + 1;
        // Looks of earlier segments: what they found follows from the trials.
        let past: Vec<u32> = self.run.record.looks.iter().copied().filter(|look| *look < first).collect();
        past.into_iter().for_each(|look| self.settle_cells(look));
        let mut block = first;
        let mut longest = Duration::ZERO;
        while block <= self.run.record.blocks_planned.unwrap_or(1) {
            let began = Instant::now();
            let open = self.cells.iter().filter(|cell| !self.settled.contains(&cell.label));
            let labels: Vec<_> = open.map(|cell| cell.label.clone()).collect();
            let labels = self.held(block, labels);
            self.block(order::block(self.run.record.plan.seed, block, &names, &labels))?;
            let another = began.elapsed();
            // A block may wait for a disk that others use, or not.
            longest = longest.max(another);
            if self.cut {
                self.expect_measured()?;
            }
            let Run { observer, record, trials, .. } = &mut self.run;
            observer.event(&Event::Block { record, trials });
            if let Some(reason) = self.look(block, another).or_else(|| self.enough(block, longest)) {
                return Ok(reason);
            }
            block += 1;
        }
        // A resumed run may have all its blocks already.
        let planned = self.run.record.blocks_planned.unwrap_or(1);
        Ok(self.enough(planned, Duration::ZERO).unwrap_or(StopReason::Requested { blocks: planned }))
    }

    fn block(&mut self, mut order: BlockOrder) -> Result<(), RunError> {
        let parts = placement::parts(&self.run.record);
        if parts > 1 && order.parts.is_empty() {
            let all: Vec<_> = self.targets().iter().map(|target| target.name.clone()).collect();
            order.parts = order::parts(order.block, &all, &order.targets, parts);
        }
        self.run.record.order.retain(|known| known.block != order.block);
        self.run.record.order.push(order.clone());
        self.save()?;
        if self.side_by_side {
            return self.block_side_by_side(&order);
        }
        for name in &order.targets {
            if self.cut {
                break;
            }
            let Some(target) = self.targets().iter().find(|target| target.name == *name).cloned() else { continue };
            self.run.observer.event(&Event::Visit { block: order.block, target: name });
            self.visit(&order, &target)?;
        }
        Ok(())
    }

    fn conduct(
        &mut self,
        order: &BlockOrder,
        target: &Target,
        (seat, label): (u32, &str),
        attempt: u32,
    ) -> Result<TrialReply, RunError> {
        self.trial_started = wall_clock::now();
        self.run.observer.event(&Event::Trial { target: &target.name, workload: label });
        let profile = &self.profiles[label];
        let Some(cell) = self.cells.iter().find(|cell| cell.label == label) else {
            return Ok(skipped("the cell is not in the plan"));
        };
        let plan = &self.run.record.plan;
        let warmup = order.block == 0;
        let amount = self.amount(label);
        let request = TrialRequest {
            seat,
            workload: cell.workload.clone(),
            sizing: self.sizing,
            seed: mix_all(&[plan.seed, u64::from(order.block)]),
            trial_seed: mix_all(&[plan.seed, u64::from(order.block), text_seed(&target.name), text_seed(label)]),
            attempt,
            amount,
            until_seconds: if warmup {
                Some(warmup_seconds(profile, plan, plan.held(&cell.workload), order.cells.len() * plan.at_once()))
            } else {
                amount.until_ms.map(|until| until as f64 * 1e-3)
            },
            sustain: cell.workload.sustain,
            deadline: deadline(profile, self.expected(&target.name, label)) * self.slowness(),
            limit: self.time_limit(order, label, self.expected(&target.name, label)),
        };
        let Run { agent, observer, .. } = &mut self.run;
        Ok(agent.trial(request, &mut |progress| observer.event(&Event::Working(&progress)))?)
    }

    /// Emulated processors need so many times as long at most, as far as deadlines go.
    fn slowness(&self) -> u32 {
        const EMULATED: u32 = 8;
        if self.run.record.emulated { EMULATED } else { 1 }
    }

    fn amount(&self, label: &str) -> Amount {
        let profile = &self.profiles[label];
        // Before calibration: one whole repetition, or as much as fits the warm-up's time.
        let operations = if profile.repeats_in_place { u64::MAX } else { profile.operations };
        self.run.record.amounts.get(label).copied().unwrap_or(Amount::of(1, operations))
    }

    fn expected(&self, target: &str, label: &str) -> Option<f64> {
        self.expected.get(&(target.to_owned(), label.to_owned())).copied()
    }

    /// Turns the reply into a trial, writes it down, and tells of it.
    fn keep(
        &mut self,
        order: &BlockOrder,
        target: &Target,
        label: &str,
        reply: TrialReply,
        provisioned: Option<&Provisioned>,
        superseded: bool,
    ) -> Result<(), RunError> {
        if order.block == 0 && reply.stretches.is_empty() {
            self.learn(target, label, &reply);
        }
        let superseded = superseded || self.note_time(order, label, &reply);
        let started = std::mem::replace(&mut self.trial_started, wall_clock::now());
        let trial = Trial { superseded, ..self.trial(order, target, label, reply, provisioned, started) };
        self.run.journal.trial(&trial).map_err(RunError::Journal)?;
        self.done += 1;
        let (of, left) = self.outlook(order, &trial);
        self.run.observer.event(&Event::Ended { trial: &trial, done: self.done.min(of), of, left });
        self.run.trials.push(trial);
        Ok(())
    }

    fn learn(&mut self, target: &Target, label: &str, reply: &TrialReply) {
        let Some(measured) = reply.measured.as_ref() else { return };
        self.samples.push(Sample {
            target: target.name.clone(),
            label: label.to_owned(),
            operations: measured.operations,
            seconds: measured.timed_ns as f64 * 1e-9,
            spent: reply.spent,
            journal_turns: measured.sustained.and_then(|sustained| sustained.turns),
            between: false,
        });
    }

    fn targets(&self) -> &[Target] {
        &self.run.record.plan.targets
    }

    fn warn(&mut self, warning: Warning) {
        self.run.observer.event(&Event::Warning(&warning));
        self.run.record.warnings.push(warning);
    }

    /// Adds a warning unless an earlier block added the same.
    fn warn_once(&mut self, warning: &Warning) {
        if !self.run.record.warnings.contains(warning) {
            self.warn(warning.clone());
        }
    }

    fn save(&mut self) -> Result<(), RunError> {
        self.run.journal.record(&self.run.record).map_err(RunError::Journal)
    }
}

fn skipped(why: &str) -> TrialReply {
    TrialReply {
        stretches: Default::default(),
        outcome: Outcome::Failed,
        error: Some(why.to_owned()),
        measured: None,
        observed: Default::default(),
        interference: Vec::new(),
        spent: Default::default(),
        target_lost: false,
        out_of_time: false,
    }
}

/// One seed of many parts: nearby parts give unrelated seeds.
fn mix_all(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| mix(state ^ part))
}

/// FNV-1a, so that a name's seed is the same everywhere.
fn text_seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
