//! Makes trials from replies, and estimates the time that is left.

use std::collections::BTreeMap;
use std::time::Duration;

use fsb_model::{Outcome, Phase, RunRecord, Target, Trial};
use fsb_testbed::Provisioned;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::model::CellState;
use super::run::Measure;
use super::state::Schedule;
use crate::agent::TrialReply;
use crate::{placement, values};

/// Returns the observed values of the controls that the target requests, by name. Controls of the run are in its
/// record.
fn asked_and_seen(record: &RunRecord, target: &Target, provisioned: &Provisioned) -> BTreeMap<String, String> {
    let asked = target.controls_over(&record.plan.controls);
    let seen = provisioned.record.controls.iter().filter(|(name, _)| asked.contains_key(*name));
    seen.map(|(name, control)| (name.clone(), control.observed.clone())).collect()
}

impl Schedule<'_> {
    pub(super) fn trial(
        &self,
        measure: &Measure<'_>,
        target: usize,
        reply: TrialReply,
        provisioned: Option<&Provisioned>,
        started: Timestamp,
    ) -> Trial {
        let (order, state, target) =
            (&measure.block.order, &self.cells[measure.cell], &self.run.record.plan.targets[target]);
        let (profile, label) = (&state.profile, state.label());
        let attempt = 1 + self
            .run
            .trials
            .iter()
            .filter(|t| t.block == order.block && t.target == target.name && t.workload == label)
            .count();
        let mut outcome = reply.outcome;
        let mut error = reply.error;
        let mut measured = reply.measured.unwrap_or_default();
        let timelines = std::mem::take(&mut measured.timelines);
        let metrics = match outcome {
            Outcome::Ok | Outcome::Invalid => {
                values::metrics(profile, &measured, &reply.samples).unwrap_or_else(|why| {
                    // A warm-up of a rate is too short for its percentile, and no analysis uses it.
                    if order.block == 0 && profile.rate.is_some() {
                        return Vec::new();
                    }
                    (outcome, error) = (Outcome::Invalid, Some(error.take().unwrap_or(why)));
                    Vec::new()
                })
            }
            Outcome::Failed | Outcome::NotApplicable => Vec::new(),
        };
        let mut metrics = metrics;
        let rates = provisioned.and_then(|provisioned| provisioned.device);
        metrics.extend(rates.and_then(|rates| values::share_of_device(profile, metrics.first()?, rates)));
        let mut observed = reply.observed;
        if let Some(provisioned) = provisioned {
            observed.mount_options.clone_from(&provisioned.record.mount_options);
            observed.controls = asked_and_seen(&self.run.record, target, provisioned);
        }
        observed.seconds_per_iteration = measured.samples;
        observed.cycle_spans_ns = measured.cycle_spans_ns;
        let suffix = if attempt > 1 { format!(".{attempt}") } else { String::new() };
        let mut params = state.cell.workload.params.clone();
        // The shape of a tree may be long, and is in the record of the run.
        params.remove("shape");
        params.insert("name".to_owned(), json!(state.cell.workload.name));
        Trial {
            schema: fsb_model::trial::SCHEMA.to_owned(),
            id: format!("b{}.{}.{label}{suffix}", order.block, target.name),
            phase: if order.block == 0 { Phase::Warmup } else { Phase::Measured },
            block: order.block,
            order: self.done,
            attempt: attempt as u32,
            target: target.name.clone(),
            kernel: provisioned.and_then(|it| it.record.kernel.clone()).unwrap_or_else(|| self.own_kernel(target)),
            workload: label.to_owned(),
            operation: profile.operation.to_owned(),
            params,
            started: started.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            outcome,
            error,
            metrics,
            latency: measured.latency,
            workers: measured.workers,
            requested: self.requested(state, target),
            observed,
            interference: reply.interference,
            superseded: false,
            part: order.part_of(&target.name).map(|part| part + self.parts_before()),
            samples: reply.samples,
            timelines,
            extra: Map::new(),
        }
    }

    /// Returns the number of slices of earlier segments. A resumed run has a new image, so its slices are others.
    fn parts_before(&self) -> u32 {
        let segments = self.run.record.segments.len().max(1) as u32;
        (segments - 1) * placement::parts(&self.run.record)
    }

    /// Returns the kernel of a target that could not be provisioned, as far as it is known.
    fn own_kernel(&self, target: &Target) -> String {
        target.kernel.clone().unwrap_or_else(|| self.run.record.host.kernel.clone())
    }

    fn requested(&self, state: &CellState, target: &Target) -> Map<String, Value> {
        let mut requested = Map::new();
        let label = state.label();
        if let (Some(rounds), Some(unit)) = (self.run.record.rounds.get(label), &state.unit) {
            requested.insert("rounds".to_owned(), json!(rounds.rounds));
            requested.insert("units".to_owned(), json!(rounds.units));
            // If a unit has files of its own, they are smaller or fewer than those of the workload.
            let own = unit.workload.params.iter();
            let own = own.filter(|(key, value)| state.cell.workload.params.get(*key) != Some(*value));
            let mut own: Map<String, Value> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
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
        requested.insert("controls".to_owned(), json!(target.controls_over(&self.run.record.plan.controls)));
        requested
    }

    /// Returns the number of trials of the run and the expected time until its end.
    pub(super) fn outlook(&self, measure: &Measure<'_>, target: usize, ended: &Trial) -> (u32, Option<Duration>) {
        let order = &measure.block.order;
        let per_block = (order.cells.len() * order.targets.len()) as u32;
        let Some(blocks) = self.run.record.blocks_planned else { return (per_block, None) };
        // Trials that do not count are made beside those that were planned.
        let beside = |trial: &&Trial| trial.superseded || trial.phase == Phase::Warmup;
        let beside = self.run.trials.iter().chain([ended]).filter(beside).count() as u32;
        let again = if ended.superseded { self.cells[measure.cell].expected[target].unwrap_or(0.0) } else { 0.0 };
        let left = self.seconds_left(measure, blocks);
        let left = left.map(|left| Duration::try_from_secs_f64(left + again).unwrap_or(Duration::MAX));
        (beside + per_block * blocks, left)
    }
}
