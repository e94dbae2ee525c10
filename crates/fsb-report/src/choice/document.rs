//! The result of a race as a document with the schema `fsbench/choice/1`.

use fsb_model::run::Risk;
use fsb_model::{FileSystemSpec, RunRecord, Target};
use fsb_stats::Interval;
use fsb_stats::race::Out;
use serde::Serialize;

use super::replay::Replay;
use crate::commands::{Ranked, Recipe};
use crate::mark;
use crate::record_text::{stop_reason_text, warning_text};
use crate::summary::{CompactTrial, interference, risks};

/// The schema of the JSON form.
pub const SCHEMA: &str = "fsbench/choice/1";

/// The output of `fsb choose --format json`: the result of a race.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// The name and version of the schema.
    pub schema: &'static str,
    /// The baseline: the candidate that the others are compared with.
    pub baseline: String,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The probability with which the answer may be worse than the best candidate by more than that
    /// ratio.
    pub error: f64,
    /// Whether no remaining candidate can be faster than the first of `answer` by more than θ.
    pub decided: bool,
    /// The fastest candidate, then those that are not significantly different from it; empty if
    /// nothing was measured.
    pub answer: Vec<String>,
    /// The number of race rounds that were measured.
    pub race_rounds: usize,
    /// The workloads that each race round measures.
    pub workloads: Vec<String>,
    /// All candidates by state, the fastest first and those that were not raced last; within a
    /// state by speed.
    pub candidates: Vec<Candidate>,
    /// The contribution of each option, if the plan asks for it.
    pub effects: Vec<Effect>,
    /// The reason why the race ended; absent while it continues.
    pub finished: Option<String>,
    /// The media, the kernel and the seed, one fact each.
    pub facts: Vec<String>,
    /// The warnings of the run, and one on interference if it affected many trials.
    pub warnings: Vec<String>,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The target.
    pub name: String,
    /// Whether it may still be the fastest.
    pub state: CandidateState,
    /// The speed as a ratio to the speed of the baseline.
    pub ratio: Option<f64>,
    /// The interval of that ratio. The intervals of all candidates hold together at all interim
    /// analyses, with probability 1 − `error`.
    pub interval: Option<Interval>,
    /// The comparison that dropped it from the race; absent for other candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// The number of race rounds in which it has a value.
    pub race_rounds: usize,
    /// Whether it is a file system with its defaults.
    #[serde(skip)]
    pub is_default: bool,
    /// The reason why it may be faster.
    pub why: String,
    /// The loss that it may cause; absent if it keeps everything that the defaults keep.
    pub risk: Option<String>,
    /// The reasons why it is unsafe: data that it reports as synced may be lost. Empty for a safe
    /// candidate.
    #[serde(rename = "unsafe", skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    /// The commands that format and mount it, one per line; empty if it was not made.
    pub commands: Vec<String>,
    /// The line of /etc/fstab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fstab: Option<String>,
    /// The reason why it was not raced to the end although it has not lost.
    pub reason: Option<String>,
}

/// The state of a candidate in the race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CandidateState {
    /// The fastest so far.
    Fastest,
    /// Not significantly different from the fastest.
    NotSignificantlyDifferent,
    /// Significantly slower than another candidate.
    Slower,
    /// The candidate could not be measured, may not win, or is the same as another candidate.
    NotRaced,
}

/// The comparison that dropped a candidate, with the knowledge of that time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dropped {
    /// The leader of that time.
    pub than: String,
    /// The upper bound of the ratio of its speed to that of the leader, below 1.
    pub at_most: f64,
    /// The number of race rounds up to that point, of all candidates.
    pub race_rounds: usize,
}

/// The contribution of an option, averaged over all settings of the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The option.
    pub option: String,
    /// The ratio of the speed with the option to the speed without it.
    pub ratio: f64,
    /// The interval of that ratio. The intervals of all options hold together.
    pub interval: Interval,
}

impl Candidate {
    /// Returns the name with the mark of an unsafe target.
    pub fn label(&self) -> String {
        mark::name(&self.name, &self.risks)
    }
}

impl Choice {
    /// Returns the candidates with their results, the fastest first.
    pub fn ranked(&self) -> Vec<Ranked> {
        self.candidates
            .iter()
            .map(|found| Ranked {
                name: found.name.clone(),
                result: match self.answer.iter().position(|answer| answer == &found.name) {
                    Some(0) if self.decided => Some("fastest of the race".to_owned()),
                    Some(0) => Some("leads the race, which is not decided".to_owned()),
                    Some(_) => {
                        Some("not significantly different from the fastest of the race".to_owned())
                    }
                    None => None,
                },
            })
            .collect()
    }

    /// Returns the result of a run whose plan is a race. Returns `None` for another run.
    pub fn from_run(record: &RunRecord, trials: &[CompactTrial]) -> Option<Choice> {
        let plan = &record.plan;
        let race = plan.race.as_ref()?;
        let mut replay = Replay::from_run(record, trials);
        if record.stop_reason.is_some() {
            replay.race.conclude();
        }
        let current = replay.race.standing();
        let mut candidates: Vec<Candidate> = Vec::new();
        for (place, known) in current.candidates.iter().enumerate() {
            let beside = race.candidates.get(place).cloned().unwrap_or_default();
            let state = match &known.out {
                Some(Out::Failed) => CandidateState::NotRaced,
                Some(Out::Slower { .. }) => CandidateState::Slower,
                None if current.leader == Some(place) => CandidateState::Fastest,
                None => CandidateState::NotSignificantlyDifferent,
            };
            let target = &plan.targets[place];
            let recipe = record
                .targets
                .get(&target.name)
                .and_then(|made| Recipe::from_target(target, made));
            candidates.push(Candidate {
                name: target.name.clone(),
                state,
                ratio: if place == 0 && known.race_rounds > 0 {
                    Some(1.0)
                } else {
                    known.ratio
                },
                interval: known.interval,
                dropped: dropped(&plan.targets, known.out.as_ref()),
                race_rounds: known.race_rounds,
                is_default: target.file_system().is_some_and(FileSystemSpec::is_default),
                why: beside.why,
                risk: beside.risk,
                risks: risks::of_target(record, &target.name).to_vec(),
                commands: recipe.as_ref().map(Recipe::commands).unwrap_or_default(),
                fstab: recipe.and_then(|recipe| recipe.fstab),
                reason: replay
                    .without_loss
                    .get(&place)
                    .or_else(|| replay.barred.get(&place))
                    .cloned(),
            });
        }
        let refused = race.refused.iter().map(|refused| Candidate {
            name: refused.name.clone(),
            state: CandidateState::NotRaced,
            ratio: None,
            interval: None,
            dropped: None,
            race_rounds: 0,
            is_default: false,
            why: String::new(),
            risk: None,
            risks: Vec::new(),
            commands: Vec::new(),
            fstab: None,
            reason: Some(refused.why.clone()),
        });
        candidates.extend(refused);
        let speed = |candidate: &Candidate| candidate.ratio.unwrap_or(0.0);
        candidates.sort_by(|a, b| {
            (a.state as u8)
                .cmp(&(b.state as u8))
                .then(speed(b).total_cmp(&speed(a)))
        });
        let answer: Vec<String> = match current.leader {
            Some(_) => candidates
                .iter()
                .filter(|candidate| {
                    matches!(
                        candidate.state,
                        CandidateState::Fastest | CandidateState::NotSignificantlyDifferent
                    )
                })
                .map(|candidate| candidate.name.clone())
                .collect(),
            None => Vec::new(),
        };
        Some(Choice {
            schema: SCHEMA,
            baseline: plan
                .targets
                .first()
                .map(|target| target.name.clone())
                .unwrap_or_default(),
            theta: plan.theta,
            error: race.error,
            decided: current.decided,
            answer,
            race_rounds: replay.race.race_rounds(),
            workloads: record.cells.iter().map(|cell| cell.label.clone()).collect(),
            candidates,
            effects: effects(record, trials, &replay),
            finished: record.stop_reason.as_ref().map(stop_reason_text),
            facts: facts(record),
            warnings: record
                .warnings
                .iter()
                .map(warning_text)
                .chain(interference::warning_of_some(trials))
                .collect(),
        })
    }

    /// Returns whether any candidate has a value, so that there is an answer.
    pub fn has_answer(&self) -> bool {
        !self.answer.is_empty()
    }
}

/// Returns the comparison that dropped a candidate, if one did.
fn dropped(targets: &[Target], out: Option<&Out>) -> Option<Dropped> {
    match out? {
        Out::Slower {
            than,
            at_most,
            race_rounds,
        } => Some(Dropped {
            than: targets[*than].name.clone(),
            at_most: *at_most,
            race_rounds: *race_rounds,
        }),
        Out::Failed => None,
    }
}

/// Returns the effects of options, from the race rounds of the first stage alone. Later rounds
/// favour fast candidates, so options are not balanced in them.
fn effects(record: &RunRecord, trials: &[CompactTrial], replay: &Replay) -> Vec<Effect> {
    let Some(race) = &record.plan.race else {
        return Vec::new();
    };
    let last = race
        .first_stage
        .len()
        .checked_sub(1)
        .and_then(|last| replay.blocks.get(last));
    let Some(last) = last.filter(|_| !race.factors.is_empty()) else {
        return Vec::new();
    };
    let first = Replay::until(record, trials, *last);
    let places = |all: &[u32]| all.iter().map(|place| *place as usize).collect::<Vec<_>>();
    let mut effects: Vec<Effect> = race
        .factors
        .iter()
        .filter_map(|factor| {
            let found = first.race.effect(
                &places(&factor.with),
                &places(&factor.without),
                race.factors.len(),
            );
            found.map(|(ratio, interval)| Effect {
                option: factor.option.clone(),
                ratio,
                interval,
            })
        })
        .collect();
    effects.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    effects
}

fn facts(record: &RunRecord) -> Vec<String> {
    let media = record
        .media
        .values()
        .map(|medium| medium.summary.clone())
        .filter(|summary| !summary.is_empty());
    let kernel = record
        .segments
        .first()
        .map(|segment| format!("Linux {}", segment.kernel));
    let simulated = record
        .plan
        .targets
        .iter()
        .any(Target::is_simulated)
        .then(|| "simulated times".to_owned());
    simulated
        .into_iter()
        .chain(media)
        .chain(kernel)
        .chain([format!("seed {}", record.plan.seed)])
        .collect()
}
