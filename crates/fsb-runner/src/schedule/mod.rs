//! A run: warm-up, planning, then block after block until a judge or the budget ends it.

mod budget;
mod plan;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fsb_engine::mix;
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::run::{BlockOrder, Rounds};
use fsb_model::trial::{INTO_HOLES, LOST_EARLIER, Reason};
use fsb_model::{
    Amount, BACKGROUND, Outcome, Phase, RunRecord, StopReason, Target, Trial, Warning, WorkloadSpec,
};
use fsb_testbed::{Kind, Provisioned, Setup};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::agent::{AgentError, MeasureRequest, Method, SlotTrial, TrialReply, deadline, failed};
use crate::event::Event;
use crate::{injected, memory, order, resume, values, wall_clock, work};

use crate::planner::{COMMAND_WARM_UP, WARM_UP, WARM_UP_OF_COMMAND, spares, warmup_seconds};
pub use budget::check_budget;
pub use plan::{Expected, expected};
pub use state::{
    BUDGET, CODES, Ending, INTERRUPTED, Judge, Judgment, OTHER_KERNEL, Run, RunError, setup,
};
use state::{CellState, Schedule};

/// Makes the run. Returns the record and all trials, those of earlier segments included.
pub fn measure(mut run: Run<'_>) -> Result<(RunRecord, Vec<Trial>), RunError> {
    if run.record.amounts.is_empty() {
        plan::say_estimate(&mut run);
    }
    resume::same_named(&run.record).map_err(RunError::OtherDevice)?;
    let resumes = run.record.segments.len() > 1;
    let mut request = Setup {
        memory_needed: Some(memory::needed(
            &run.record.plan,
            run.record.placement.as_ref(),
            &run.work,
        )),
        ..setup(&run.record)
    };
    if resumes {
        request.patience = None;
    }
    let opened = {
        let observer = &mut *run.observer;
        run.agent.open(&request, &mut |progress| {
            observer.event(&Event::Opening(&progress))
        })?
    };
    if resumes {
        // The blocks were planned for a budget that had held the preparation of the machine
        // already.
        run.started = Instant::now();
    }
    resume::same_media(&run.record.media, &opened.media).map_err(RunError::OtherDevice)?;
    resume::same_files(run.record.vm.as_ref(), opened.vm.as_ref())
        .map_err(RunError::OtherKernel)?;
    run.record.media = opened.media;
    run.record.controls = opened.controls;
    // Memory that an earlier segment lacked counts as lacking in the whole run.
    run.record.memory = run
        .record
        .memory
        .filter(|memory| !memory.is_complete())
        .or(opened.memory);
    run.record.memory_cells = run
        .record
        .memory
        .map(|_| memory::cells(&run.work))
        .unwrap_or_default();
    run.record.host = opened.host;
    run.record.vm = opened.vm.or(run.record.vm);
    run.record.emulated |= opened.emulated;
    if let Some(why) = run.record.emulation() {
        run.observer.event(&Event::Emulates { why });
    }
    for warning in opened.warnings.into_iter().chain(injected::warning()) {
        run.observer.event(&Event::Warning(&warning));
        if !run.record.warnings.contains(&warning) {
            run.record.warnings.push(warning);
        }
    }
    Schedule::new(run).run_to_end()
}

impl Schedule<'_> {
    fn run_to_end(mut self) -> Result<(RunRecord, Vec<Trial>), RunError> {
        self.save()?;
        if self.run.record.amounts.is_empty() {
            self.warm_up()?;
            self.plan();
            self.save()?;
        }
        self.run.record.stop_reason = Some(self.run_blocks()?);
        self.save()?;
        if self.run.record.plan.explain {
            self.trace_blocks()?;
        }
        // Everything is measured and saved. If the agent fails to close, the kernel and the undo
        // ledger undo the rest.
        let farewell = self.run.agent.close();
        if let Err(error) = farewell {
            let warning = Warning::NotTakenDown {
                target: None,
                error: error.to_string(),
            };
            self.run.observer.event(&Event::Warning(&warning));
        }
        Ok((self.run.record, self.run.trials))
    }
}

// The blocks of a run: targets are made ready, each cell is measured on all of them, and every
// trial is saved.

/// The maximum number of retries of a trial. Interference that affects all of them is the usual
/// state of the machine, so the runner keeps the last attempt.
pub const REPEATS: u32 = 2;
/// The smallest number of trials that show the usual state of the machine: if interference affected
/// half of them at the first attempt, the runner makes another block instead of retries.
const FEWEST_ATTEMPTS: usize = 6;

/// The maximum number of blocks that are traced. It is the smallest number of blocks that can be
/// judged.
const TRACED_BLOCKS: u32 = FEWEST_BLOCKS_JUDGED;
/// The maximum number of rounds of a case in a traced block. Blocks are paired, so another block
/// lowers the error more than another round.
const TRACED_ROUNDS: u32 = 4;

/// A target that is ready in a block.
struct Ready {
    slot: u32,
    /// Index in the plan.
    target: usize,
    provisioned: Provisioned,
    /// The reason why it is gone.
    lost: Option<Reason>,
}

/// A block under way: its order, by indexes.
struct Block {
    order: BlockOrder,
    /// Targets that are ready at once, group after group.
    groups: Vec<Vec<usize>>,
    cells: Vec<usize>,
    /// eBPF programs observe its samples.
    is_traced: bool,
}

/// One cell in a block, on one group of its targets.
#[derive(Clone, Copy)]
struct Measure<'b> {
    block: &'b Block,
    /// Index of the group.
    group: usize,
    /// Index of the cell in the plan.
    cell: usize,
}

impl Block {
    fn is_warmup(&self) -> bool {
        self.order.block == 0
    }

    fn phase(&self) -> Phase {
        match self.is_traced {
            true => Phase::Traced,
            false if self.is_warmup() => Phase::Warmup,
            false => Phase::Measured,
        }
    }
}

impl Schedule<'_> {
    fn warm_up(&mut self) -> Result<(), RunError> {
        if !self.run.warmup {
            return Ok(());
        }
        let mut cells = self.held_cells();
        let order = if self.run.judge.draws_targets() {
            self.try_candidates()?;
            let judgment = self.run.judge.judge(&self.run.record, &self.run.trials, 0);
            let Some(targets) = judgment.targets.filter(|_| judgment.stop.is_none()) else {
                return Ok(());
            };
            self.order_of(0, Some(&targets), &cells)
        } else {
            let grid = self.grid();
            let unvisited = grid.unvisited();
            cells.retain(|cell| !unvisited.contains(cell));
            cells = self.order_for_budget(&cells);
            // Nothing is compared here: each kernel is booted once.
            let mut targets: Vec<_> = self.run.record.plan.targets.iter().collect();
            targets.sort_by_key(|target| {
                self.run
                    .record
                    .plan
                    .targets
                    .iter()
                    .position(|first| first.kernel == target.kernel)
            });
            let mut labels = self.labels(&cells);
            if self.run.record.plan.repetition.budget().is_some() {
                self.bring_together(&mut labels);
            }
            BlockOrder {
                block: 0,
                targets: targets
                    .into_iter()
                    .map(|target| target.name.clone())
                    .collect(),
                cells: labels,
                slices: Vec::new(),
            }
        };
        let opened = self.run.started.elapsed().as_secs_f64();
        self.block(order)?;
        self.end_warm_up(opened)
    }

    /// Makes every candidate once, before anything is measured, and records those that this kernel
    /// or a mkfs program refuses. Such a candidate then costs no block.
    fn try_candidates(&mut self) -> Result<(), RunError> {
        let places = self.run.record.plan.at_once();
        let all: Vec<usize> = (0..self.run.record.plan.targets.len()).collect();
        for some in all.chunks(places) {
            for (slice, target) in some.iter().enumerate() {
                let name = self.run.record.plan.targets[*target].name.clone();
                self.run.observer.event(&Event::Provisioning {
                    block: 0,
                    target: &name,
                });
                match self.provision(*target, *target as u32, slice as u32) {
                    Ok(Provisioned { record, .. }) => {
                        drop(self.run.record.targets.insert(name, record))
                    }
                    Err(AgentError::Refused(error)) => {
                        let record = self.run.record.targets.entry(name.clone()).or_default();
                        record.failed = Some(error.to_string());
                        self.run.observer.event(&Event::Refused {
                            target: &name,
                            reason: &error.into(),
                        });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            for target in some {
                self.release(*target as u32, *target)?;
            }
        }
        self.save()
    }

    /// Makes the blocks that are still missing. Returns the reason why it stopped.
    fn run_blocks(&mut self) -> Result<StopReason, RunError> {
        let mut made = self.last_block();
        // Analyses of earlier segments: their findings follow from the trials.
        let past: Vec<u32> = self
            .run
            .record
            .interim_analyses
            .iter()
            .copied()
            .filter(|analysis| *analysis < made)
            .collect();
        past.into_iter()
            .for_each(|analysis| drop(self.judge(analysis)));
        let (mut last, mut longest) = (None::<f64>, 0.0_f64);
        loop {
            if !self.run.judge.draws_targets() {
                // Those without a value take no time from the others.
                self.settle_hopeless(made);
                self.leave_cells_to_finish(made)?;
            }
            let judgment = self.judge(made);
            if let Some(reason) = judgment.stop {
                return Ok(reason);
            }
            if let Some(ending) = self.ending(made, last, longest) {
                return Ok(self.run.judge.reason(
                    &self.run.record,
                    &self.run.trials,
                    ending,
                    made,
                    judgment,
                ));
            }
            let block = made + 1;
            if let Some(standing) = &judgment.standing {
                self.run.observer.event(&Event::RaceRound {
                    round: block,
                    standing,
                });
            }
            let races = judgment.targets.is_some();
            let cells = if races {
                self.open_cells()
            } else {
                self.fitting(block, self.open_cells())
            };
            let began = Instant::now();
            self.block(self.order_of(block, judgment.targets.as_deref(), &cells))?;
            let took = began.elapsed().as_secs_f64();
            // A block may wait for a disk that others use, or not. In a race, later blocks with
            // fewer targets are shorter.
            longest = took.max(if races { longest * 0.5 } else { longest });
            self.last_block_seconds = took;
            last = Some(took);
            // In a race, a block that the budget cut before any trial ended does not count.
            made = if races { self.last_block() } else { block };
            if !races {
                if self.cut {
                    self.expect_measured()?;
                }
                let Run {
                    observer,
                    record,
                    trials,
                    ..
                } = &mut self.run;
                observer.event(&Event::Block { record, trials });
            }
        }
    }

    /// Makes blocks whose samples are traced, as many as the rest of the budget holds. They follow
    /// the end of the measured run, so a resumed run does not make them up.
    fn trace_blocks(&mut self) -> Result<(), RunError> {
        (self.tracing, self.cut) = (true, false);
        let (made, cells) = (self.last_block(), self.held_cells());
        let mut longest = self.last_block_seconds;
        for block in made + 1..=made + TRACED_BLOCKS {
            if self.cut || cells.is_empty() || !self.holds_block(longest) {
                break;
            }
            let began = Instant::now();
            self.block(self.order_of(block, None, &cells))?;
            longest = began.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// Returns the last block that has a trial: in a race any trial, otherwise one that counts.
    fn last_block(&self) -> u32 {
        let races = self.run.judge.draws_targets();
        self.run
            .trials
            .iter()
            .filter(|trial| races || trial.counts())
            .map(|trial| trial.block)
            .max()
            .unwrap_or(0)
    }

    /// Asks the judge after `made` blocks, and notes the cells that it settled.
    fn judge(&mut self, made: u32) -> Judgment {
        // Trials are in the order of their blocks.
        let count = self.run.trials.partition_point(|trial| trial.block <= made);
        let judgment = self
            .run
            .judge
            .judge(&self.run.record, &self.run.trials[..count], made);
        for label in &judgment.settled {
            if let Some(cell) = self.cell_of(label) {
                self.cells[cell].settled = true;
            }
        }
        judgment
    }

    /// Returns the order of a block of these cells, on all targets or on those that were drawn.
    fn order_of(&self, block: u32, drawn: Option<&[(String, u32)]>, cells: &[usize]) -> BlockOrder {
        let names: Vec<String> = match drawn {
            Some(drawn) => drawn.iter().map(|(name, _)| name.clone()).collect(),
            None => self
                .run
                .record
                .plan
                .targets
                .iter()
                .map(|target| target.name.clone())
                .collect(),
        };
        let mut order = order::block(
            self.run.record.plan.seed,
            block,
            &names,
            &self.labels(cells),
        );
        self.bring_together(&mut order.cells);
        if let Some(drawn) = drawn.filter(|_| work::slices(&self.run.record) > 1) {
            order.slices = order
                .targets
                .iter()
                .map(|name: &String| {
                    drawn
                        .iter()
                        .find(|(known, _)| known == name)
                        .map_or(0, |(_, slice)| *slice)
                })
                .collect();
        }
        order
    }

    fn block(&mut self, mut order: BlockOrder) -> Result<(), RunError> {
        let slices = work::slices(&self.run.record);
        if slices > 1 && order.slices.is_empty() {
            let all: Vec<_> = self
                .run
                .record
                .plan
                .targets
                .iter()
                .map(|target| target.name.clone())
                .collect();
            order.slices = order::slices(
                self.run.record.plan.seed,
                order.block,
                &all,
                &order.targets,
                slices,
            );
        }
        self.run
            .record
            .order
            .retain(|known| known.block != order.block);
        self.run.record.order.push(order.clone());
        self.save()?;
        let targets: Vec<usize> = order
            .targets
            .iter()
            .filter_map(|name| self.target_of(name))
            .collect();
        self.cells
            .iter_mut()
            .for_each(|cell| cell.block_seconds = 0.0);
        let cells = order
            .cells
            .iter()
            .filter_map(|label| self.cell_of(label))
            .collect();
        let groups = if self.side_by_side {
            vec![targets]
        } else {
            targets.into_iter().map(|one| vec![one]).collect()
        };
        let block = Block {
            order,
            groups,
            cells,
            is_traced: self.tracing,
        };
        for group in 0..block.groups.len() {
            if self.cut {
                break;
            }
            self.measure_group(&block, group)?;
        }
        Ok(())
    }

    /// Returns the index of a group in [`Schedule::making`]: that of its only target in turn, and
    /// always 0 side by side.
    fn slot(&self, group: &[usize]) -> usize {
        if self.side_by_side { 0 } else { group[0] }
    }

    /// Makes a group of targets ready at once, measures each cell on all of them before the next
    /// one, and tears them down.
    fn measure_group(&mut self, block: &Block, group: usize) -> Result<(), RunError> {
        let began = Instant::now();
        let mut ready = Vec::new();
        for target in &block.groups[group] {
            let name = &self.run.record.plan.targets[*target].name;
            self.run.observer.event(&Event::Provisioning {
                block: block.order.block,
                target: name,
            });
            let place = match self.side_by_side {
                true => (*target as u32, block.order.slice_of(name).unwrap_or(0)),
                false => (0, 0),
            };
            if let Some(provisioned) = self.make_ready((block, group), *target, place)? {
                self.free.bytes = self.free.bytes.min(provisioned.free_bytes);
                self.free.inodes = self.free.inodes.min(provisioned.free_inodes);
                self.free.kernel_caches_only &= provisioned.abilities.kernel_caches_only;
                ready.push(Ready {
                    slot: place.0,
                    target: *target,
                    provisioned,
                    lost: None,
                });
            }
        }
        let mut making = began.elapsed();
        let cells = &block.cells;
        let together: Vec<&[usize]> = cells
            .chunk_by(|one, next| self.share_subject(*one, *next))
            .collect();
        for cells in together {
            if ready.is_empty() {
                break;
            }
            let mut measures: Vec<Measure<'_>> = cells
                .iter()
                .map(|cell| Measure {
                    block,
                    group,
                    cell: *cell,
                })
                .collect();
            measures.retain(|measure| !self.leaves_out(measure));
            match &measures[..] {
                [measure] if self.cells[measure.cell].unit.is_some() => {
                    self.measure_in_rounds(measure, &mut ready)?
                }
                measures => self.measure_sequentially(measures, &mut ready)?,
            }
        }
        let began = Instant::now();
        for Ready { slot, target, .. } in &ready {
            self.release(*slot, *target)?;
        }
        making += began.elapsed();
        self.releasing = self.releasing.max(began.elapsed().as_secs_f64());
        let slot = self.slot(&block.groups[group]);
        self.making[slot] = making.as_secs_f64();
        Ok(())
    }

    /// Returns whether two cells differ at most in their backgrounds.
    fn share_subject(&self, one: usize, other: usize) -> bool {
        self.cells[one]
            .cell
            .workload
            .has_subject_of(&self.cells[other].cell.workload)
    }

    /// Moves each case with a background next to the first one in the order that has the same
    /// subject.
    fn bring_together(&self, labels: &mut Vec<String>) {
        if self
            .cells
            .iter()
            .all(|state| state.cell.workload.background.is_none())
        {
            return;
        }
        let mut left = std::mem::take(labels);
        while !left.is_empty() {
            let first = left.remove(0);
            let others: Vec<String> = left
                .extract_if(.., |label: &mut String| {
                    let cells = self.cell_of(&first).zip(self.cell_of(label));
                    cells.is_some_and(|(one, other)| self.share_subject(one, other))
                })
                .collect();
            labels.push(first);
            labels.extend(others);
        }
    }

    /// Measures cells as a whole: one target after the other, while the others are idle. Each
    /// target measures all of the cells, which share their subject, before the next one.
    fn measure_sequentially(
        &mut self,
        measures: &[Measure<'_>],
        ready: &mut [Ready],
    ) -> Result<(), RunError> {
        let Some(first) = measures.first() else {
            return Ok(());
        };
        let seed = mix_all(&[
            self.run.record.plan.seed,
            text_seed(self.cells[first.cell].label()),
        ]);
        let turns =
            order::rounds(seed, first.block.order.block, ready.len() as u32, false, 1).remove(0);
        for at in turns {
            let ready = &mut ready[at as usize];
            for measure in measures {
                match &ready.lost {
                    None => self.make_attempts(measure, ready)?,
                    Some(why) => {
                        self.keep(
                            measure,
                            ready.target,
                            failed(why.clone()),
                            Some(&ready.provisioned),
                            false,
                        )?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures a cell in rounds on all targets that are ready. Retries it on all of them while one
    /// is invalid, for example because the kernel evicted the pages of a warm sample. Does not
    /// retry after interference, which affects the neighbours of a sample as well. The time is
    /// better spent on another block.
    fn measure_in_rounds(
        &mut self,
        measure: &Measure<'_>,
        ready: &mut [Ready],
    ) -> Result<(), RunError> {
        for attempt in 1.. {
            let started = wall_clock::now();
            let there: Vec<&Ready> = ready.iter().filter(|ready| ready.lost.is_none()).collect();
            let mut answers = self.ask_for_rounds(measure, &there, attempt)?.into_iter();
            let reply = |ready: &Ready| match &ready.lost {
                Some(why) => failed(why.clone()),
                // One reply for each target that is not lost, in their order.
                None => answers.next().map_or_else(
                    || failed("the agent gave no answer for it"),
                    |(_, reply)| reply,
                ),
            };
            let replies: Vec<TrialReply> = ready.iter().map(reply).collect();
            let again = attempt <= self.run.repeats
                && !replies.iter().any(|reply| reply.target_lost)
                && ready
                    .iter()
                    .zip(&replies)
                    .any(|(ready, reply): (&Ready, &TrialReply)| {
                        reply.outcome == Outcome::Invalid
                            && !self.is_always_invalid(ready.target, measure.cell)
                            && self.is_worth_repeating(measure, ready.target, reply)
                    });
            for (ready, reply) in ready.iter_mut().zip(replies) {
                note_lost(ready, &reply);
                self.trial_started = started;
                self.keep(
                    measure,
                    ready.target,
                    reply,
                    Some(&ready.provisioned),
                    again,
                )?;
            }
            if !again {
                break;
            }
        }
        Ok(())
    }

    /// Conducts a trial, retries it while it is invalid or affected by interference, and keeps
    /// every attempt. All but the last are superseded from the start, so that none of them is ever
    /// analysed.
    fn make_attempts(&mut self, measure: &Measure<'_>, ready: &mut Ready) -> Result<(), RunError> {
        for attempt in 1.. {
            let reply = self.ask_for_trial(measure, ready, attempt)?;
            let again = attempt <= self.run.repeats
                && self.is_worth_repeating(measure, ready.target, &reply);
            note_lost(ready, &reply);
            self.keep(
                measure,
                ready.target,
                reply,
                Some(&ready.provisioned),
                again,
            )?;
            if !again {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether a trial is retried. Warm-up is never analysed, and a trial that failed would
    /// fail again. The budget is kept: retries may take the time of blocks beyond the fifth, but
    /// not of the first five.
    fn is_worth_repeating(&self, measure: &Measure<'_>, target: usize, reply: &TrialReply) -> bool {
        let block = measure.block.order.block;
        let measured = measure.block.phase() == Phase::Measured
            && matches!(reply.outcome, Outcome::Ok | Outcome::Invalid);
        if !measured || reply.target_lost {
            return false;
        }
        if reply.interference.is_empty()
            && (reply.outcome == Outcome::Ok || self.is_always_invalid(target, measure.cell))
        {
            return false;
        }
        if self.is_always_affected()
            || (reply.outcome == Outcome::Ok && self.run.record.plan.keep_affected)
        {
            return false;
        }
        let Some(budget) = self.run.record.plan.repetition.budget() else {
            return true;
        };
        let planned = self
            .run
            .record
            .blocks_planned
            .unwrap_or(FEWEST_BLOCKS_JUDGED);
        let blocks = FEWEST_BLOCKS_JUDGED.min(planned).max(block);
        // Includes the same cell on the targets whose turn is still to come, at most on all of
        // them. A resumed run does not know how long trials take, and continues as it began.
        let itself = self.cells[measure.cell].seconds_on(&measure.block.groups[measure.group]);
        let left = self.seconds_left(measure, blocks).unwrap_or(0.0);
        self.run.started.elapsed().as_secs_f64() + itself + left <= budget.as_secs_f64()
    }

    /// Returns whether the trial of an earlier block was invalid in its last attempt. Then it
    /// always is: for example, no mapping is direct.
    fn is_always_invalid(&self, target: usize, cell: usize) -> bool {
        let (target, label) = (
            &self.run.record.plan.targets[target].name,
            self.cells[cell].label(),
        );
        // What was a hole is none in the next trial.
        self.run
            .trials
            .iter()
            .filter(|trial| trial.counts() && trial.target == *target && trial.workload == label)
            .any(|trial| {
                trial.outcome == Outcome::Invalid
                    && trial.error_code.as_deref() != Some(INTO_HOLES.name)
            })
    }

    fn is_always_affected(&self) -> bool {
        let first = self
            .run
            .trials
            .iter()
            .filter(|trial| trial.phase == Phase::Measured && trial.attempt == 1);
        let affected: Vec<bool> = first.map(|trial| !trial.interference.is_empty()).collect();
        affected.len() >= FEWEST_ATTEMPTS
            && affected.iter().filter(|affected| **affected).count() * 2 >= affected.len()
    }

    /// Requests one trial as a whole.
    fn ask_for_trial(
        &mut self,
        measure: &Measure<'_>,
        ready: &Ready,
        attempt: u32,
    ) -> Result<TrialReply, RunError> {
        self.trial_started = wall_clock::now();
        let (cell, block, target) = (&self.cells[measure.cell], measure.block, ready.target);
        let plan = &self.run.record.plan;
        self.run.observer.event(&Event::Trial {
            target: &plan.targets[target].name,
            workload: cell.label(),
        });
        let amount = self.amount(measure.cell);
        let until_seconds = if block.is_warmup() {
            let trials = block.cells.len() * plan.at_once();
            Some(warmup_seconds(
                &cell.profile,
                plan,
                plan.held(&cell.cell.workload),
                trials,
            ))
        } else {
            amount.until_ms.map(|until| until as f64 * 1e-3)
        };
        let method = Method::SequentialTrial {
            amount,
            until_seconds,
            sustain: cell.cell.workload.sustain,
        };
        let request = self.request(
            measure,
            &[ready],
            (&cell.cell.workload, method),
            attempt,
            cell.expected[target],
        );
        let replies = self.ask(request)?;
        Ok(replies.into_iter().next().map_or_else(
            || failed("the agent gave no answer for it"),
            |(_, reply)| reply,
        ))
    }

    /// Requests a cell in rounds on these targets.
    fn ask_for_rounds(
        &mut self,
        measure: &Measure<'_>,
        there: &[&Ready],
        attempt: u32,
    ) -> Result<Vec<(u32, TrialReply)>, RunError> {
        let (cell, order) = (&self.cells[measure.cell], &measure.block.order);
        let Some(unit) = cell.unit.as_ref().filter(|_| !there.is_empty()) else {
            return Ok(Vec::new());
        };
        let warmup = measure.block.is_warmup();
        let rounds = match warmup {
            true if cell.is_command() => COMMAND_WARM_UP,
            true => WARM_UP,
            false => self
                .run
                .record
                .rounds
                .get(cell.label())
                .copied()
                .unwrap_or(WARM_UP),
        };
        let most = if measure.block.is_traced {
            TRACED_ROUNDS
        } else {
            u32::MAX
        };
        let rounds = Rounds {
            rounds: rounds.rounds.min(most),
            ..rounds
        };
        let seed = mix_all(&[self.run.record.plan.seed, text_seed(cell.label())]);
        let orders = order::rounds(
            seed,
            order.block,
            there.len() as u32,
            rounds.lead_in,
            rounds.rounds,
        );
        let method = Method::Rounds {
            own_files: unit.own_files,
            reuse_files: cell.reuses_files(self.free),
            operations: unit.operations,
            units: rounds.units,
            orders: orders
                .into_iter()
                .map(|turns| {
                    turns
                        .into_iter()
                        .map(|at| there[at as usize].slot)
                        .collect()
                })
                .collect(),
            lead_in: rounds.lead_in,
            // A run of a command may take minutes.
            until_seconds: (warmup && cell.is_command()).then_some(WARM_UP_OF_COMMAND),
            spares: if warmup || !rounds.lead_in {
                0
            } else {
                spares(rounds.rounds, cell.is_cold(self.free))
            },
        };
        let (attempt, expected) = (if warmup { 0 } else { attempt }, cell.case_seconds);
        let request = self.request(measure, there, (&unit.workload, method), attempt, expected);
        self.run.observer.event(&Event::Case {
            block: order.block,
            workload: cell.label(),
            rounds: rounds.rounds,
        });
        match self.ask(request) {
            Err(RunError::Agent(AgentError::Refused(error))) => Ok(there
                .iter()
                .map(|ready| (ready.slot, failed(error.to_string())))
                .collect()),
            replies => replies,
        }
    }

    /// Returns a request with the expected seconds of its work.
    fn request(
        &self,
        measure: &Measure<'_>,
        ready: &[&Ready],
        (workload, method): (&WorkloadSpec, Method),
        attempt: u32,
        expected: Option<f64>,
    ) -> MeasureRequest {
        let elsewhere = workload
            .background
            .as_ref()
            .and_then(|background| background.target.as_deref());
        MeasureRequest {
            slots: ready
                .iter()
                .map(|ready| SlotTrial {
                    slot: ready.slot,
                    trial_seed: self.trial_seed(measure, ready.target),
                    variant: self.run.record.plan.targets[ready.target].variant.clone(),
                })
                .collect(),
            workload: workload.clone(),
            // Side by side, a target has the slot of its place in the plan.
            background_slot: elsewhere
                .and_then(|name| self.target_of(name))
                .map(|target| target as u32),
            sizing: self.sizing,
            method,
            seed: mix_all(&[
                self.run.record.plan.seed,
                u64::from(measure.block.order.block),
            ]),
            attempt,
            trace: measure.block.is_traced,
            deadline: deadline(&self.cells[measure.cell].profile, expected) * self.slowness(),
            limit: self.time_limit(measure, expected),
        }
    }

    fn ask(&mut self, request: MeasureRequest) -> Result<Vec<(u32, TrialReply)>, RunError> {
        let Run {
            agent, observer, ..
        } = &mut self.run;
        Ok(agent.measure(request, &mut |progress| {
            observer.event(&Event::Working(&progress))
        })?)
    }

    /// Returns a seed that differs between all trials.
    fn trial_seed(&self, measure: &Measure<'_>, target: usize) -> u64 {
        let plan = &self.run.record.plan;
        let (target, label) = (&plan.targets[target].name, self.cells[measure.cell].label());
        mix_all(&[
            plan.seed,
            u64::from(measure.block.order.block),
            text_seed(target),
            text_seed(label),
        ])
    }

    /// Returns the factor by which deadlines are longer on emulated processors.
    fn slowness(&self) -> u32 {
        const EMULATED: u32 = 8;
        if self.run.record.emulated {
            EMULATED
        } else {
            1
        }
    }

    fn amount(&self, cell: usize) -> Amount {
        let CellState { cell, profile, .. } = &self.cells[cell];
        // Before planning: one whole repetition, or as much as fits the warm-up's time.
        let operations = if profile.repeats_in_place {
            u64::MAX
        } else {
            profile.operations
        };
        self.run
            .record
            .amounts
            .get(&cell.label)
            .copied()
            .unwrap_or(Amount::new(1, operations))
    }

    /// Makes a trial from the reply, writes it to the journal, and reports it.
    fn keep(
        &mut self,
        measure: &Measure<'_>,
        target: usize,
        reply: TrialReply,
        provisioned: Option<&Provisioned>,
        superseded: bool,
    ) -> Result<(), RunError> {
        if measure.block.is_warmup() {
            self.cells[measure.cell].learn(target, &reply, self.free);
        }
        self.cells[measure.cell].block_seconds += reply.spent.total();
        let superseded = superseded || self.note_time(measure, &reply);
        let started = std::mem::replace(&mut self.trial_started, wall_clock::now());
        let trial = Trial {
            superseded,
            ..self.trial(measure, target, reply, provisioned, started)
        };
        self.run.journal.trial(&trial).map_err(RunError::Journal)?;
        self.done += 1;
        let (of, left) = self.outlook(measure, target, &trial);
        self.run.observer.event(&Event::Ended {
            trial: &trial,
            done: self.done.min(of),
            of,
            left,
        });
        self.run.trials.push(trial);
        Ok(())
    }

    fn provision(
        &mut self,
        target: usize,
        slot: u32,
        slice: u32,
    ) -> Result<Provisioned, AgentError> {
        let Run {
            agent,
            observer,
            record,
            ..
        } = &mut self.run;
        let tell = &mut |progress| observer.event(&Event::Opening(&progress));
        agent.provision((slot, slice), &record.plan.targets[target], tell)
    }

    /// Formats and mounts the target in a slot and on a slice. If it cannot be made, all its trials
    /// of the block report the error.
    fn make_ready(
        &mut self,
        (block, group): (&Block, usize),
        target: usize,
        (slot, slice): (u32, u32),
    ) -> Result<Option<Provisioned>, RunError> {
        let Target { name, optional, .. } = self.run.record.plan.targets[target].clone();
        let error = match self.provision(target, slot, slice) {
            Ok(provisioned) => {
                self.run
                    .record
                    .targets
                    .insert(name.clone(), provisioned.record.clone());
                if let Some(rates) = provisioned.device {
                    self.run
                        .record
                        .devices_probed
                        .entry(block.order.block)
                        .or_default()
                        .insert(name, rates);
                }
                provisioned
                    .warnings
                    .iter()
                    .for_each(|warning| self.warn_once(warning));
                return Ok(Some(provisioned));
            }
            Err(AgentError::Refused(error)) => error,
            Err(error) => return Err(error.into()),
        };
        let (why, record) = (
            error.to_string(),
            self.run.record.targets.entry(name.clone()).or_default(),
        );
        // The plan knows that not every machine can make an optional target.
        let reply = if optional && error.kind == Kind::Machine {
            let reason = Reason {
                text: format!("not available here: {why}"),
                ..error.into()
            };
            record.unavailable = Some(why);
            TrialReply {
                outcome: Outcome::NotApplicable,
                ..failed(reason)
            }
        } else {
            record.failed = Some(why);
            let reason = error.into();
            self.run.observer.event(&Event::Refused {
                target: &name,
                reason: &reason,
            });
            failed(reason)
        };
        for cell in &block.cells {
            self.keep(
                &Measure {
                    block,
                    group,
                    cell: *cell,
                },
                target,
                reply.clone(),
                None,
                false,
            )?;
        }
        Ok(None)
    }

    /// Tears down the target of a slot.
    fn release(&mut self, slot: u32, target: usize) -> Result<(), RunError> {
        match self.run.agent.release(slot) {
            Ok(()) => {}
            Err(AgentError::Refused(error)) => {
                let name = self.run.record.plan.targets[target].name.clone();
                self.warn(Warning::NotTakenDown {
                    target: Some(name),
                    error: error.to_string(),
                })
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Records that the target is gone, if the reply reports that.
fn note_lost(ready: &mut Ready, reply: &TrialReply) {
    if reply.target_lost {
        let reason = reply.reason.clone().unwrap_or_else(|| "".into());
        let text = format!("{LOST_EARLIER}{}", reason.text);
        ready.lost.get_or_insert(Reason { text, ..reason });
    }
}

/// Mixes many numbers into one seed. Similar numbers give unrelated seeds.
fn mix_all(parts: &[u64]) -> u64 {
    parts
        .iter()
        .fold(0x9e37_79b9_7f4a_7c15, |state, part| mix(state ^ part))
}

/// Returns the FNV-1a hash, so that a name's seed is the same everywhere.
fn text_seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

// Makes trials from replies, and estimates the time that is left.

/// Returns the observed values of the controls that the target requests, by name. Controls of the
/// run are in its record.
fn asked_and_seen(
    record: &RunRecord,
    target: &Target,
    provisioned: &Provisioned,
) -> BTreeMap<String, String> {
    let asked = target.controls_over(&record.plan.controls);
    let seen = provisioned
        .record
        .controls
        .iter()
        .filter(|(name, _)| asked.contains_key(*name));
    seen.map(|(name, control)| (name.clone(), control.observed.clone()))
        .collect()
}

impl Schedule<'_> {
    fn trial(
        &self,
        measure: &Measure<'_>,
        target: usize,
        reply: TrialReply,
        provisioned: Option<&Provisioned>,
        started: Timestamp,
    ) -> Trial {
        let (order, state, target) = (
            &measure.block.order,
            &self.cells[measure.cell],
            &self.run.record.plan.targets[target],
        );
        let (profile, label) = (&state.profile, state.label());
        let attempt = 1 + self
            .run
            .trials
            .iter()
            .filter(|t| t.block == order.block && t.target == target.name && t.workload == label)
            .count();
        let mut outcome = reply.outcome;
        let mut reason = reply.reason;
        let mut measured = reply.measured.unwrap_or_default();
        let timelines = std::mem::take(&mut measured.timelines);
        let metrics = match outcome {
            Outcome::Ok | Outcome::Invalid => {
                values::metrics(profile, &measured, &reply.samples).unwrap_or_else(|why| {
                    // A warm-up is too short for a percentile, and no analysis uses it.
                    if order.block == 0 && values::is_percentile(profile) {
                        return Vec::new();
                    }
                    outcome = Outcome::Invalid;
                    reason.get_or_insert(why);
                    Vec::new()
                })
            }
            Outcome::Failed | Outcome::NotApplicable => Vec::new(),
        };
        let mut metrics = metrics;
        let rates = provisioned.and_then(|provisioned| provisioned.device);
        metrics.extend(
            rates.and_then(|rates| values::share_of_device(profile, metrics.first()?, rates)),
        );
        let mut observed = reply.observed;
        if let Some(provisioned) = provisioned {
            observed
                .mount_options
                .clone_from(&provisioned.record.mount_options);
            observed.controls = asked_and_seen(&self.run.record, target, provisioned);
        }
        observed.seconds_per_iteration = measured.work.samples;
        observed.cycle_spans_ns = measured.work.cycle_spans_ns;
        let [error, error_code, errno] = Reason::into_parts(reason);
        let suffix = if attempt > 1 {
            format!(".{attempt}")
        } else {
            String::new()
        };
        let mut params = state.cell.workload.params.clone();
        // The shape of a tree may be long, and is in the record of the run.
        params.remove("shape");
        params.insert("name".to_owned(), json!(state.cell.workload.name));
        if let Some(background) = &state.cell.workload.background {
            params.insert(BACKGROUND.to_owned(), json!(background));
        }
        Trial {
            schema: fsb_model::trial::SCHEMA.to_owned(),
            id: format!("b{}.{}.{label}{suffix}", order.block, target.name),
            phase: measure.block.phase(),
            block: order.block,
            order: self.done,
            attempt: attempt as u32,
            target: target.name.clone(),
            kernel: provisioned
                .and_then(|it| it.record.kernel.clone())
                .unwrap_or_else(|| self.own_kernel(target)),
            workload: label.to_owned(),
            operation: profile.operation.to_owned(),
            params,
            started: started.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            outcome,
            error,
            error_code,
            errno,
            metrics,
            latency: measured.work.latency,
            workers: measured.work.workers,
            requested: self.requested(state, target),
            observed,
            interference: reply.interference,
            superseded: false,
            slice: order
                .slice_of(&target.name)
                .map(|slice| slice + self.slices_before()),
            samples: reply.samples,
            timelines,
            extra: Map::new(),
        }
    }

    /// Returns the number of slices of earlier segments. A resumed run has a new image, so its
    /// slices are others.
    fn slices_before(&self) -> u32 {
        let segments = self.run.record.segments.len().max(1) as u32;
        (segments - 1) * work::slices(&self.run.record)
    }

    /// Returns the kernel of a target that could not be provisioned, as far as it is known.
    fn own_kernel(&self, target: &Target) -> String {
        target
            .kernel
            .clone()
            .unwrap_or_else(|| self.run.record.host.kernel.clone())
    }

    fn requested(&self, state: &CellState, target: &Target) -> Map<String, Value> {
        let mut requested = Map::new();
        let label = state.label();
        if let (Some(rounds), Some(unit)) = (self.run.record.rounds.get(label), &state.unit) {
            requested.insert("rounds".to_owned(), json!(rounds.rounds));
            requested.insert("units".to_owned(), json!(rounds.units));
            // If a unit has files of its own, they are smaller or fewer than those of the workload.
            let own = unit.workload.params.iter();
            let own =
                own.filter(|(key, value)| state.cell.workload.params.get(*key) != Some(*value));
            let mut own: Map<String, Value> = own
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            own.insert("operations".to_owned(), json!(unit.operations));
            requested.insert("unit".to_owned(), Value::Object(own));
        } else if let Some(amount) = self.run.record.amounts.get(label) {
            requested.insert("repetitions".to_owned(), json!(amount.repetitions));
            match amount.until_ms {
                Some(until) => requested.insert("seconds".to_owned(), json!(until as f64 * 1e-3)),
                None => requested.insert("operations".to_owned(), json!(amount.operations)),
            };
        }
        if let Some(spec) = target.file_system() {
            requested.insert("mount_options".to_owned(), json!(spec.options));
        }
        requested.insert(
            "controls".to_owned(),
            json!(target.controls_over(&self.run.record.plan.controls)),
        );
        requested
    }

    /// Returns the number of trials of the run and the expected time until its end.
    fn outlook(
        &self,
        measure: &Measure<'_>,
        target: usize,
        ended: &Trial,
    ) -> (u32, Option<Duration>) {
        let order = &measure.block.order;
        let per_block = (order.cells.len() * order.targets.len()) as u32;
        let Some(blocks) = self.run.record.blocks_planned else {
            return (per_block, None);
        };
        // Trials that do not count are made beside those that were planned.
        let beside = self
            .run
            .trials
            .iter()
            .chain([ended])
            .filter(|trial| trial.superseded || trial.phase != Phase::Measured)
            .count() as u32;
        let again = if ended.superseded {
            self.cells[measure.cell].expected[target].unwrap_or(0.0)
        } else {
            0.0
        };
        let left = self.seconds_left(measure, blocks);
        let left =
            left.map(|left| Duration::try_from_secs_f64(left + again).unwrap_or(Duration::MAX));
        (beside + per_block * blocks, left)
    }
}
