//! A block side by side: all targets ready at once, and each cell measured on all of them before the next one.

use std::time::Instant;

use fsb_model::Target;
use fsb_model::run::BlockOrder;
use fsb_testbed::Provisioned;

use super::error::RunError;
use super::schedule::{Run, Schedule};
use super::{mix_all, skipped, text_seed};
use crate::agent::{AgentError, RowRequest, SeatTrial, TrialReply, deadline};
use crate::event::Event;
use crate::order;
use crate::rounds::{self, COMMAND_WARM_UP, UnitSample, WARM_UP, WARM_UP_OF_COMMAND, sets, spares};
use crate::wall_clock;

/// A target that is ready in a block.
struct Ready {
    /// Its place in the plan.
    seat: u32,
    target: Target,
    provisioned: Provisioned,
    /// Why it is gone.
    lost: Option<String>,
}

impl Schedule<'_> {
    pub(super) fn block_side_by_side(&mut self, order: &BlockOrder) -> Result<(), RunError> {
        let began = Instant::now();
        let mut ready = Vec::new();
        for name in &order.targets {
            let Some(seat) = self.targets().iter().position(|target| target.name == *name) else { continue };
            let (target, part) = (self.targets()[seat].clone(), order.part_of(name).unwrap_or(0));
            self.run.observer.event(&Event::Visit { block: order.block, target: name });
            if let Some(provisioned) = self.provision(order, &target, (seat as u32, part))? {
                let (bytes, inodes) = self.free;
                self.free = (bytes.min(provisioned.free_bytes), inodes.min(provisioned.free_inodes));
                self.kernel_caches_only &= provisioned.abilities.kernel_caches_only;
                ready.push(Ready { seat: seat as u32, target, provisioned, lost: None });
            }
        }
        let mut base = began.elapsed();
        for label in &order.cells {
            if self.leaves_out(order, label, 1.0) {
                continue;
            }
            if self.units.contains_key(label) {
                self.row(order, &mut ready, label)?;
            } else {
                self.visits_of_cell(order, &mut ready, label)?;
            }
        }
        let began = Instant::now();
        for Ready { seat, target, .. } in &ready {
            self.release(*seat, target)?;
        }
        base += began.elapsed();
        self.releasing = self.releasing.max(began.elapsed().as_secs_f64());
        self.block_base = base.as_secs_f64();
        Ok(())
    }

    /// A cell that is measured as a whole: one target after the other, while the others are at rest.
    fn visits_of_cell(&mut self, order: &BlockOrder, ready: &mut [Ready], label: &str) -> Result<(), RunError> {
        let seed = mix_all(&[self.run.record.plan.seed, text_seed(label)]);
        let turns = order::rounds(seed, order.block, ready.len() as u32, 1).remove(0);
        for at in turns {
            let Ready { seat, target, provisioned, lost } = &mut ready[at as usize];
            match lost {
                None => *lost = self.attempts(order, target, (*seat, label), provisioned)?,
                Some(why) => self.keep(order, target, label, skipped(why), Some(provisioned), false)?,
            }
        }
        Ok(())
    }

    /// A cell in rounds. A disturbed row is not made again: what disturbs one stretch disturbs its neighbours, and the same
    /// time tells more in another block.
    fn row(&mut self, order: &BlockOrder, ready: &mut [Ready], label: &str) -> Result<(), RunError> {
        let started = wall_clock::now();
        for (seat, reply) in self.ask_row(order, ready, label)? {
            let Some(at) = ready.iter().position(|ready| ready.seat == seat) else { continue };
            if order.block == 0 {
                self.learn_units(label, &reply);
            }
            let Ready { target, provisioned, lost, .. } = &mut ready[at];
            if reply.target_lost {
                let why = reply.error.clone().unwrap_or_default();
                lost.get_or_insert(format!("the target was lost earlier in this block: {why}"));
            }
            self.trial_started = started;
            self.keep(order, target, label, reply, Some(provisioned), false)?;
        }
        Ok(())
    }

    /// Rounds visit the same units again, because emptying the caches of all targets makes them cold again.
    pub(super) fn revisits(&self, label: &str) -> bool {
        self.kernel_caches_only && self.units.get(label).is_some_and(|unit| unit.only_warmed)
    }

    /// The replies of all targets, those that are gone included.
    fn ask_row(
        &mut self,
        order: &BlockOrder,
        ready: &[Ready],
        label: &str,
    ) -> Result<Vec<(u32, TrialReply)>, RunError> {
        let plan = &self.run.record.plan;
        let Some(unit) = self.units.get(label) else { return Ok(Vec::new()) };
        let gone = ready.iter().filter_map(|ready| Some((ready.seat, skipped(ready.lost.as_deref()?))));
        let mut replies: Vec<_> = gone.collect();
        let there: Vec<&Ready> = ready.iter().filter(|ready| ready.lost.is_none()).collect();
        if there.is_empty() {
            return Ok(replies);
        }
        let warmup = order.block == 0;
        let is_command = self.profiles[label].program.is_some();
        let rounds = if warmup {
            if is_command { COMMAND_WARM_UP } else { WARM_UP }
        } else {
            self.run.record.rounds.get(label).copied().unwrap_or(WARM_UP)
        };
        let seed = mix_all(&[plan.seed, text_seed(label)]);
        let orders = order::rounds(seed, order.block, there.len() as u32, rounds.rounds + u32::from(rounds.lead_in));
        let seat_of = |at: u32| there[at as usize].seat;
        let trial_seed =
            |target: &Target| mix_all(&[plan.seed, u64::from(order.block), text_seed(&target.name), text_seed(label)]);
        let request = RowRequest {
            workload: unit.workload.clone(),
            sizing: self.sizing,
            own_files: unit.own_files,
            revisit: self.revisits(label),
            operations: unit.operations,
            units: rounds.units,
            orders: orders.into_iter().map(|turns| turns.into_iter().map(seat_of).collect()).collect(),
            lead_in: rounds.lead_in,
            // A run of a command may take minutes.
            until_seconds: (warmup && is_command).then_some(WARM_UP_OF_COMMAND),
            spares: if warmup || !rounds.lead_in { 0 } else { spares(rounds.rounds) },
            seed: mix_all(&[plan.seed, u64::from(order.block)]),
            seats: there
                .iter()
                .map(|ready| SeatTrial { seat: ready.seat, trial_seed: trial_seed(&ready.target) })
                .collect(),
            attempt: u32::from(!warmup),
            deadline: deadline(&self.profiles[label], self.row_seconds.get(label).copied()) * self.slowness(),
            limit: self.time_limit(order, label, self.row_seconds.get(label).copied()),
        };
        self.run.observer.event(&Event::Row { block: order.block, workload: label, rounds: rounds.rounds });
        let Run { agent, observer, .. } = &mut self.run;
        match agent.row(request, &mut |progress| observer.event(&Event::Working(&progress))) {
            Ok(mut found) => replies.extend(there.iter().map(|ready| {
                // The agent may be in a guest: nobody is left without an answer, and nobody else has one.
                let reply = found.iter().position(|(seat, _)| *seat == ready.seat).map(|at| found.swap_remove(at).1);
                (ready.seat, reply.unwrap_or_else(|| skipped("the agent gave no answer for it")))
            })),
            Err(AgentError::Refused(error)) => {
                replies.extend(there.iter().map(|ready| (ready.seat, skipped(&error.to_string()))));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(replies)
    }

    /// Seconds that all should take which comes after this row, up to the end of block `blocks`. Absent where nothing is
    /// known: a resumed run has not seen a warm-up.
    pub(super) fn seconds_left_of_rows(&self, order: &BlockOrder, label: &str, blocks: u32) -> Option<f64> {
        if self.block_base == 0.0 {
            return None;
        }
        let of = |label: &String| self.seconds_in_block(label);
        let at = order.cells.iter().position(|known| known == label).unwrap_or(0);
        let rest: f64 = order.cells[at + 1..].iter().map(of).sum();
        let whole = self.block_base + order.cells.iter().map(of).sum::<f64>();
        Some(rest + whole * f64::from(blocks.saturating_sub(order.block)))
    }

    /// Seconds that this cell should take in a block, on all targets.
    pub(super) fn seconds_in_block(&self, label: &str) -> f64 {
        let visits = self.targets().iter().filter_map(|target| self.expected(&target.name, label)).sum::<f64>();
        self.row_seconds.get(label).copied().unwrap_or(visits)
    }

    /// Whether the label is of a command that runs so long on every target that one run a block is enough.
    pub(super) fn is_long_command(&self, label: &str) -> bool {
        /// As [`rounds::LONG_COMMAND`], in a race.
        const LONG_IN_RACE: f64 = 2.0;
        let own = self.unit_samples.iter().filter(|sample| sample.label == label);
        let fastest = own.map(|sample| sample.timed).fold(f64::INFINITY, f64::min);
        // A heat of a race is to last longer than making its targets.
        let long = if self.run.record.plan.race.is_some() { LONG_IN_RACE } else { rounds::LONG_COMMAND };
        self.profiles[label].program.is_some() && fastest.is_finite() && fastest >= long
    }

    fn learn_units(&mut self, label: &str, reply: &TrialReply) {
        let (timed, spent) = (&reply.stretches.timed_ns, &reply.spent);
        if timed.is_empty() {
            return;
        }
        let mean = timed.iter().sum::<u64>() as f64 * 1e-9 / timed.len() as f64;
        let (timed_seconds, wall) = if self.profiles[label].program.is_some() {
            // The first run may have read the program itself from disk.
            let last = timed.last().map_or(mean, |last| *last as f64 * 1e-9);
            (last, spent.measure / timed.len() as f64 - mean + last)
        } else {
            // The stretch that led in was measured, too.
            (mean, spent.measure / (timed.len() as f64 + 1.0))
        };
        let own = self.units.get(label).is_some_and(|unit| unit.own_files);
        let files = spent.prepare + spent.cleanup;
        let made = sets(self.revisits(label), timed.len() as u32, 0, WARM_UP.units);
        let prepare = if own { files / f64::from(made) } else { 0.0 };
        self.unit_samples.push(UnitSample {
            label: label.to_owned(),
            timed: timed_seconds,
            wall,
            prepare,
            fixed: spent.settle + if own { 0.0 } else { files },
        });
    }
}
