//! Making a target ready and taking it down, and what is written down where that fails.

use std::time::Instant;

use fsb_model::run::BlockOrder;
use fsb_model::{Outcome, Target, Warning};
use fsb_testbed::{Kind, Provisioned};

use super::error::RunError;
use super::schedule::Schedule;
use super::skipped;
use crate::agent::{AgentError, TrialReply};
use crate::event::Event;

impl Schedule<'_> {
    /// Formats and mounts the target, alone, runs the cells, and takes it down.
    pub(super) fn visit(&mut self, order: &BlockOrder, target: &Target) -> Result<(), RunError> {
        let began = Instant::now();
        let Some(provisioned) = self.provision(order, target, (0, 0))? else { return Ok(()) };
        let mut visiting = began.elapsed();
        let mut lost: Option<String> = None;
        let place = order.targets.iter().position(|name| *name == target.name).unwrap_or(0);
        let share = (place + 1) as f64 / order.targets.len().max(1) as f64;
        for label in &order.cells {
            if self.leaves_out(order, label, share) {
                continue;
            }
            match &lost {
                None => lost = self.attempts(order, target, (0, label), &provisioned)?,
                Some(why) => self.keep(order, target, label, skipped(why), Some(&provisioned), false)?,
            }
        }
        let began = Instant::now();
        self.release(0, target)?;
        visiting += began.elapsed();
        self.releasing = self.releasing.max(began.elapsed().as_secs_f64());
        self.visit_seconds.insert(target.name.clone(), visiting.as_secs_f64());
        Ok(())
    }

    /// Formats and mounts the target in a seat and on a part; nothing where it cannot be made, which all its trials say.
    pub(super) fn provision(
        &mut self,
        order: &BlockOrder,
        target: &Target,
        place: (u32, u32),
    ) -> Result<Option<Provisioned>, RunError> {
        let observer = &mut *self.run.observer;
        let tell = &mut |progress| observer.event(&Event::Opening(&progress));
        let provisioned = match self.run.agent.provision(place, target, tell) {
            Ok(provisioned) => provisioned,
            Err(AgentError::Refused(error)) if target.optional && error.kind == Kind::Machine => {
                return self.visit_unavailable(order, target, &error.to_string()).map(|()| None);
            }
            Err(AgentError::Refused(error)) => {
                return self.visit_failed(order, target, &error.to_string()).map(|()| None);
            }
            Err(error) => return Err(error.into()),
        };
        self.run.record.targets.insert(target.name.clone(), provisioned.record.clone());
        if let Some(rates) = provisioned.device {
            let block = self.run.record.devices_probed.entry(order.block).or_default();
            block.insert(target.name.clone(), rates);
        }
        for warning in &provisioned.warnings {
            self.warn_once(warning);
        }
        Ok(Some(provisioned))
    }

    /// Takes the target of a seat down.
    pub(super) fn release(&mut self, seat: u32, target: &Target) -> Result<(), RunError> {
        match self.run.agent.release(seat) {
            Ok(()) => {}
            Err(AgentError::Refused(error)) => {
                self.warn(Warning::NotTakenDown { target: Some(target.name.clone()), error: error.to_string() })
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn visit_failed(&mut self, order: &BlockOrder, target: &Target, why: &str) -> Result<(), RunError> {
        let record = self.run.record.targets.entry(target.name.clone()).or_default();
        record.failed = Some(why.to_owned());
        for label in &order.cells {
            self.keep(order, target, label, skipped(why), None, false)?;
        }
        Ok(())
    }

    /// The plan knows that not every machine can make this target.
    fn visit_unavailable(&mut self, order: &BlockOrder, target: &Target, why: &str) -> Result<(), RunError> {
        self.run.record.targets.entry(target.name.clone()).or_default().unavailable = Some(why.to_owned());
        for label in &order.cells {
            let reply =
                TrialReply { outcome: Outcome::NotApplicable, ..skipped(&format!("not available here: {why}")) };
            self.keep(order, target, label, reply, None, false)?;
        }
        Ok(())
    }
}
