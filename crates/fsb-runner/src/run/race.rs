//! A race: heats of a few targets instead of blocks of all, until one is found or the budget ends.
//!
//! Who is in a heat is asked of whoever analyses the trials. Before the first one every candidate is made once, on parts in
//! turn, so that what this kernel or a mkfs program refuses costs no heat; then one heat warms up and fixes the rounds.

use std::time::Instant;

use fsb_model::run::BlockOrder;
use fsb_model::{RaceEnd, Repetition, StopReason, StoppingRule};
use fsb_testbed::Provisioned;

use super::error::RunError;
use super::schedule::{Next, Schedule};
use crate::agent::AgentError;
use crate::calibrate;
use crate::event::Event;
use crate::rounds;
use crate::{order, placement};

/// Heats beside those of the budget that are planned with: calibration takes as many blocks.
const BLOCKS: f64 = 12.0;
/// As many times what is not measured in a heat, a heat should last.
const WORTH: f64 = 2.5;
/// Share of the time left within which every candidate should have been measured twice.
const FIRST_TURNS: f64 = 0.4;

impl Schedule<'_> {
    /// Makes every candidate once, before anything is measured, and notes those that cannot be made.
    pub(super) fn try_candidates(&mut self) -> Result<(), RunError> {
        let places = self.places();
        let all = self.targets().to_vec();
        for (first, some) in all.chunks(places as usize).enumerate() {
            for (place, target) in some.iter().enumerate() {
                let seat = (first * places as usize + place) as u32;
                self.run.observer.event(&Event::Visit { block: 0, target: &target.name });
                let observer = &mut *self.run.observer;
                let tell = &mut |progress| observer.event(&Event::Opening(&progress));
                match self.run.agent.provision((seat, place as u32), target, tell) {
                    Ok(Provisioned { record, .. }) => drop(self.run.record.targets.insert(target.name.clone(), record)),
                    Err(AgentError::Refused(error)) => {
                        let record = self.run.record.targets.entry(target.name.clone()).or_default();
                        record.failed = Some(error.to_string());
                        self.run.observer.event(&Event::Refused { target: &target.name, why: &error.to_string() });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            for (place, target) in some.iter().enumerate() {
                self.release((first * places as usize + place) as u32, target)?;
            }
        }
        self.save()
    }

    /// Warms up with the targets of the first heat.
    pub(super) fn warm_up_race(&mut self) -> Result<(), RunError> {
        self.try_candidates()?;
        let Next::Heat { targets, .. } = (self.run.heats)(&self.run.record, &self.run.trials) else { return Ok(()) };
        let labels: Vec<_> = self.cells.iter().map(|cell| cell.label.clone()).collect();
        let opened = self.run.started.elapsed().as_secs_f64();
        self.block(self.heat(0, &targets, &labels))?;
        self.end_warm_up(opened)
    }

    /// Fixes how long a heat is: long enough that what is not measured in it is the lesser part, and short enough that
    /// everybody is measured twice within a share of the time.
    pub(super) fn calibrate_heats(&mut self) {
        let left = self.seconds_of_budget_left();
        let rivals = self.targets().len().saturating_sub(1).max(1) as f64;
        let turns = 2.0 * (rivals / f64::from(self.places().max(2) - 1)).ceil();
        let desired = (self.block_base.max(1.0) * WORTH).min(left * FIRST_TURNS / turns).max(self.block_base * 1.2);
        let (rows, wholes): (Vec<_>, Vec<_>) =
            self.visited().into_iter().partition(|visited| self.units.contains_key(&visited.label));
        let repetition = Repetition::Budget { seconds: desired * BLOCKS };
        let basis = calibrate::Basis { repetition, ..self.basis(&wholes, desired * BLOCKS) };
        let decided = basis.decide();
        let seconds_of_wholes = if wholes.is_empty() { 0.0 } else { decided.block_seconds };
        let mut amounts = decided.amounts;
        let rows: Vec<_> = rows.into_iter().map(|visited| self.row_of(visited.label)).collect();
        let basis = rounds::Basis {
            rows: &rows,
            samples: &self.unit_samples,
            base: self.block_base + seconds_of_wholes,
            rotation: 1,
            repetition,
            left: desired * BLOCKS,
            emulated: self.run.record.emulated,
        };
        let decided = basis.decide();
        self.note_rounds(&mut amounts, &decided);
        let race = self.run.record.plan.race.as_ref();
        let rule = StoppingRule::Race {
            slots: self.places(),
            round_seconds: decided.block_seconds,
            error: race.map_or(0.0, |race| race.error),
        };
        self.run.observer.event(&Event::RacePlanned { rule: &rule });
        self.run.record.stopping_rule = Some(rule);
    }

    /// Makes race rounds until the race ends. Returns the reason.
    pub(super) fn heats(&mut self) -> Result<StopReason, RunError> {
        let labels: Vec<_> = self.cells.iter().map(|cell| cell.label.clone()).collect();
        let last = self.run.trials.iter().map(|trial| trial.block).max().unwrap_or(0);
        let mut longest = 0.0_f64;
        for block in last + 1.. {
            let targets = match (self.run.heats)(&self.run.record, &self.run.trials) {
                Next::End(reason) => return Ok(StopReason::Race { rounds: block - 1, reason }),
                Next::Heat { targets, standing } => {
                    self.run.observer.event(&Event::RaceRound { round: block, standing: &standing });
                    targets
                }
            };
            if self.cut || !self.holds_block(longest) {
                break;
            }
            let began = Instant::now();
            self.block(self.heat(block, &targets, &labels))?;
            let took = began.elapsed().as_secs_f64();
            // Of fewer targets the later heats are shorter.
            longest = took.max(longest * 0.5);
        }
        let rounds = self.run.trials.iter().map(|trial| trial.block).max().unwrap_or(0);
        Ok(StopReason::Race { rounds, reason: RaceEnd::Budget })
    }

    fn heat(&self, block: u32, targets: &[(String, u32)], labels: &[String]) -> BlockOrder {
        let names: Vec<String> = targets.iter().map(|(name, _)| name.clone()).collect();
        let mut order = order::block(self.run.record.plan.seed, block, &names, labels);
        if placement::parts(&self.run.record) > 1 {
            let part = |name: &String| targets.iter().find(|(known, _)| known == name).map_or(0, |(_, part)| *part);
            order.parts = order.targets.iter().map(part).collect();
        }
        order
    }

    fn places(&self) -> u32 {
        self.run.record.plan.at_once() as u32
    }
}
