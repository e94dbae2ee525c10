//! The state of a race after its trials so far.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::run::TargetRecord;
use fsb_model::{Better, Outcome, Phase, RunRecord};
use fsb_stats::race::{Drawn, Entry, Race, Settings};

use crate::mark;
use crate::summary::{CompactTrial, risks};

/// A candidate without a value in this number of race rounds is not measured any more.
const MOST_FAILURES: usize = 2;

/// The state of a race after its trials so far.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The race.
    pub race: Race,
    /// The reason why a candidate is out without having lost, by its place in the plan.
    pub without_loss: BTreeMap<usize, String>,
    /// The reasons why candidates may not win, by place in the plan. The baseline is measured
    /// nevertheless.
    pub barred: BTreeMap<usize, String>,
    /// The blocks that were rounds of the race.
    pub blocks: Vec<u32>,
}

/// The results of one target in one block.
#[derive(Debug, Default)]
struct Given<'a> {
    /// The logarithm of its speed at each workload.
    values: BTreeMap<&'a str, f64>,
    slice: Option<u32>,
    /// The reason for the missing value of the first workload without one.
    failure: Option<String>,
}

impl Replay {
    /// Replays a run whose plan is a race, with all of its rounds.
    pub fn from_run(record: &RunRecord, trials: &[CompactTrial]) -> Replay {
        Replay::until(record, trials, u32::MAX)
    }

    /// Replays the rounds up to the block `last`.
    pub(super) fn until(record: &RunRecord, trials: &[CompactTrial], last: u32) -> Replay {
        let plan = &record.plan;
        let error = plan.race.as_ref().map_or(0.05, |race| race.error);
        let race = Race::new(
            plan.targets.len(),
            Settings {
                theta: plan.theta,
                error,
            },
        );
        let mut replay = Replay {
            race,
            without_loss: BTreeMap::new(),
            barred: BTreeMap::new(),
            blocks: Vec::new(),
        };
        replay.leave_out_what_cannot_race(record);
        replay.bar_unsafe_candidates(record);
        replay.bar_unproven_candidates(record, trials);
        let blocks = given(record, trials, last);
        let mut failures: BTreeMap<usize, usize> = BTreeMap::new();
        for (block, given) in &blocks {
            let Some(baseline) = given.get(&0).filter(|baseline| !baseline.values.is_empty())
            else {
                let why = given
                    .get(&0)
                    .and_then(|baseline| baseline.failure.clone())
                    .unwrap_or_default();
                replay.fail(0, why, &mut failures);
                continue;
            };
            let mut race_round = Vec::new();
            for (candidate, given) in given {
                let shared: Option<Vec<f64>> = baseline
                    .values
                    .keys()
                    .map(|workload| given.values.get(workload).copied())
                    .collect();
                match shared {
                    // Many workloads count as their geometric mean.
                    Some(values) => race_round.push(Entry {
                        candidate: *candidate,
                        slice: given.slice,
                        value: values.iter().sum::<f64>() / values.len() as f64,
                    }),
                    None => replay.fail(
                        *candidate,
                        given.failure.clone().unwrap_or_default(),
                        &mut failures,
                    ),
                }
            }
            replay.race.add(race_round);
            replay.blocks.push(*block);
        }
        replay
    }

    /// Draws the candidates of the next race round: those of the first stage while it lasts, then
    /// those that the race chooses.
    pub fn draw(&self, record: &RunRecord) -> Vec<Drawn> {
        let plan = &record.plan;
        let Some(race) = &plan.race else {
            return Vec::new();
        };
        let fixed = race.first_stage.get(self.blocks.len());
        match fixed {
            Some(race_round) => {
                let mut chosen = Vec::new();
                for candidate in race_round.iter().map(|candidate| *candidate as usize) {
                    let is_barred = candidate != 0 && self.barred.contains_key(&candidate);
                    if !is_barred && !self.without_loss.contains_key(&candidate) {
                        chosen.push(candidate);
                    }
                }
                self.race.place(chosen, plan.at_once(), plan.seed)
            }
            None => self.race.draw(plan.at_once(), plan.seed),
        }
    }

    /// Withdraws targets that mkfs or the kernel refused, and targets whose options change nothing.
    fn leave_out_what_cannot_race(&mut self, record: &RunRecord) {
        for (candidate, target) in record.plan.targets.iter().enumerate() {
            let Some(made) = record.targets.get(&target.name) else {
                continue;
            };
            let why = match &made.failed {
                Some(why) => Some(why.clone()),
                None => same_as(record, candidate, made)
                    .map(|other| format!("changes nothing here: it is {other}")),
            };
            if let Some(why) = why {
                self.race.withdraw(candidate);
                self.without_loss.insert(candidate, why);
            }
        }
    }

    /// Withdraws unsafe candidates beside safe ones, unless the plan lets them win.
    fn bar_unsafe_candidates(&mut self, record: &RunRecord) {
        for candidate in risks::barred(record) {
            let name = &record.plan.targets[candidate].name;
            let why = mark::reason(risks::of_target(record, name));
            self.race.withdraw(candidate);
            self.barred
                .insert(candidate, format!("{why}; --risky lets it win"));
        }
    }

    /// Withdraws candidates whose values are not known to be what their case says, beside a
    /// baseline whose values are.
    fn bar_unproven_candidates(&mut self, record: &RunRecord, trials: &[CompactTrial]) {
        let unproven = |target: &str| {
            let mut of_target = trials.iter().filter(|trial| trial.what.target == target);
            of_target.find_map(|trial| trial.extras().unproven.first().copied())
        };
        let targets = &record.plan.targets;
        if targets.is_empty() || unproven(&targets[0].name).is_some() {
            return;
        }
        for (candidate, target) in targets.iter().enumerate() {
            if let Some(promise) = unproven(&target.name) {
                self.race.withdraw(candidate);
                self.barred.insert(candidate, promise.unproven().to_owned());
            }
        }
    }

    fn fail(&mut self, candidate: usize, why: String, failures: &mut BTreeMap<usize, usize>) {
        let times = failures.entry(candidate).or_insert(0);
        *times += 1;
        if *times >= MOST_FAILURES {
            self.race.withdraw(candidate);
            self.without_loss.insert(candidate, why);
        }
    }
}

/// Returns an earlier candidate that was mounted with the same options, if only the requested mount
/// options of the two differ.
fn same_as<'a>(record: &'a RunRecord, candidate: usize, made: &TargetRecord) -> Option<&'a str> {
    let targets = &record.plan.targets;
    let own = targets[candidate].file_system()?;
    let before = targets[..candidate]
        .iter()
        .find(|other| {
            other.file_system().is_some_and(|spec| {
                ((&spec.fs, &spec.mkfs, &spec.tune, &spec.journal)
                    == (&own.fs, &own.mkfs, &own.tune, &own.journal))
                    && spec.options != own.options
            }) && record
                .targets
                .get(&other.name)
                .is_some_and(|other| other.mount_options == made.mount_options)
        })
        .filter(|_| !made.mount_options.is_empty())?;
    Some(&before.name)
}

/// Collects the results of each candidate up to the block `last`, by block and by its place in the
/// plan.
fn given<'a>(
    record: &RunRecord,
    trials: &'a [CompactTrial],
    last: u32,
) -> BTreeMap<u32, BTreeMap<usize, Given<'a>>> {
    let mut blocks: BTreeMap<u32, BTreeMap<usize, Given<'_>>> = BTreeMap::new();
    for trial in trials
        .iter()
        .filter(|trial| trial.phase == Phase::Measured && !trial.superseded && trial.block <= last)
    {
        let Some(candidate) = record
            .plan
            .targets
            .iter()
            .position(|target| target.name == trial.what.target)
        else {
            continue;
        };
        let given = blocks
            .entry(trial.block)
            .or_default()
            .entry(candidate)
            .or_default();
        given.slice = given.slice.or(trial.slice);
        match (trial.outcome, trial.metrics().next()) {
            (Outcome::Ok, Some(metric)) if metric.value > 0.0 => {
                let sign = if metric.kind.better == Better::Lower {
                    -1.0
                } else {
                    1.0
                };
                given
                    .values
                    .insert(&trial.what.workload, sign * metric.value.ln());
            }
            _ => {
                let why = trial
                    .extras()
                    .error
                    .as_deref()
                    .unwrap_or("it gave no value");
                given
                    .failure
                    .get_or_insert_with(|| format!("{}: {why}", trial.what.workload));
            }
        }
    }
    // If the budget ended within a race round, only the workloads that have a value of the baseline
    // count.
    for given in blocks.values_mut() {
        let shared: BTreeSet<&str> = given
            .get(&0)
            .map(|r| r.values.keys().copied().collect())
            .unwrap_or_default();
        given
            .values_mut()
            .for_each(|given| given.values.retain(|workload, _| shared.contains(workload)));
    }
    blocks
}
