//! The result of a race: the fastest of many candidates, or those that are not significantly
//! different from it.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::run::{Risk, TargetRecord};
use fsb_model::trial::Phase;
use fsb_model::{Better, FileSystemSpec, Outcome, RunRecord, Target};
use fsb_stats::Interval;
use fsb_stats::race::{Drawn, Entry, Out, Race, Settings};
use serde::Serialize;

use crate::commands::{Ranked, Recipe};
use crate::record_text::{stop_reason_text, warning_text};
use crate::run::{ReportTrial, interference, risks};
use crate::screen::{WIDTH, paragraph};
use crate::show::{Change, counted, listed_or_counted, percent};
use crate::{mark, visible};

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
    pub state: State,
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
pub enum State {
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
        let result = |name: &String| match self.answer.iter().position(|answer| answer == name) {
            Some(0) if self.decided => Some("fastest of the race".to_owned()),
            Some(0) => Some("leads the race, which is not decided".to_owned()),
            Some(_) => Some("not significantly different from the fastest of the race".to_owned()),
            None => None,
        };
        self.candidates
            .iter()
            .map(|found| Ranked {
                name: found.name.clone(),
                result: result(&found.name),
            })
            .collect()
    }

    /// Returns the result of a run whose plan is a race. Returns `None` for another run.
    pub fn from_run(record: &RunRecord, trials: &[ReportTrial]) -> Option<Choice> {
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
                Some(Out::Failed) => State::NotRaced,
                Some(Out::Slower { .. }) => State::Slower,
                None if current.leader == Some(place) => State::Fastest,
                None => State::NotSignificantlyDifferent,
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
                fstab: recipe.map(|recipe| recipe.fstab),
                reason: replay
                    .without_loss
                    .get(&place)
                    .or_else(|| replay.barred.get(&place))
                    .cloned(),
            });
        }
        let refused = race.refused.iter().map(|refused| Candidate {
            name: refused.name.clone(),
            state: State::NotRaced,
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
                        State::Fastest | State::NotSignificantlyDifferent
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
fn effects(record: &RunRecord, trials: &[ReportTrial], replay: &Replay) -> Vec<Effect> {
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
    let effect = |factor: &fsb_model::plan::Factor| {
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
    };
    let mut effects: Vec<Effect> = race.factors.iter().filter_map(effect).collect();
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
    pub fn from_run(record: &RunRecord, trials: &[ReportTrial]) -> Replay {
        Replay::until(record, trials, u32::MAX)
    }

    /// Replays the rounds up to the block `last`.
    fn until(record: &RunRecord, trials: &[ReportTrial], last: u32) -> Replay {
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
                let chosen = race_round
                    .iter()
                    .map(|candidate| *candidate as usize)
                    .filter(|candidate| {
                        !self.without_loss.contains_key(candidate)
                            && (*candidate == 0 || !self.barred.contains_key(candidate))
                    })
                    .collect();
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
    let same = |other: &&fsb_model::Target| {
        other.file_system().is_some_and(|spec| {
            ((&spec.fs, &spec.mkfs, &spec.tune, &spec.journal)
                == (&own.fs, &own.mkfs, &own.tune, &own.journal))
                && spec.options != own.options
        }) && record
            .targets
            .get(&other.name)
            .is_some_and(|other| other.mount_options == made.mount_options)
    };
    let before = targets[..candidate]
        .iter()
        .find(same)
        .filter(|_| !made.mount_options.is_empty())?;
    Some(&before.name)
}

/// Collects the results of each candidate up to the block `last`, by block and by its place in the
/// plan.
fn given<'a>(
    record: &RunRecord,
    trials: &'a [ReportTrial],
    last: u32,
) -> BTreeMap<u32, BTreeMap<usize, Given<'a>>> {
    let place = |name: &str| {
        record
            .plan
            .targets
            .iter()
            .position(|target| target.name == name)
    };
    let mut blocks: BTreeMap<u32, BTreeMap<usize, Given<'_>>> = BTreeMap::new();
    for trial in trials
        .iter()
        .filter(|trial| trial.phase == Phase::Measured && !trial.superseded && trial.block <= last)
    {
        let Some(candidate) = place(&trial.what.target) else {
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

// The text of a result: the answer, the commands to use it, and the results of all candidates.

/// The answer names at most this number of candidates that are not significantly different from the
/// leader.
const NAMED: usize = 6;
/// The maximum width of a name in the table. The numbers of a longer name have a line of their own.
const NAME: usize = 40;
/// The minimum width of the numbers in the table.
const NUMBERS: usize = 24;

/// Returns the whole screen in `width` columns, at least 80.
pub fn screen(choice: &Choice, width: usize) -> String {
    let width = width.max(WIDTH);
    let mut lines = Vec::new();
    answer(&mut lines, choice, width);
    commands(&mut lines, choice);
    table(&mut lines, choice, width);
    effect_lines(&mut lines, choice, width);
    not_raced(&mut lines, choice, width);
    lines.push(String::new());
    let mut facts = choice.facts.clone();
    facts.insert(0, counted(choice.race_rounds, "race round"));
    paragraph(&mut lines, width, &facts.join(" · "), "", "  ");
    if let Some(finished) = &choice.finished {
        paragraph(
            &mut lines,
            width,
            &format!("ended after {finished}"),
            "",
            "  ",
        );
    }
    for warning in &choice.warnings {
        paragraph(&mut lines, width, &format!("warning: {warning}"), "", "  ");
    }
    lines.join("\n") + "\n"
}

/// Returns the state of the race in a line: `31 of 40 left, ext4,noatime (+4 % [+2 +6]) leads`.
pub fn standing(choice: &Choice) -> String {
    let all = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.state != State::NotRaced)
        .count();
    let Some(leader) = leader(choice) else {
        return format!("{} to race", counted(all, "candidate"));
    };
    let by = match leader.ratio {
        Some(ratio) if leader.name != choice.baseline => format!(" ({})", change(leader, ratio)),
        _ => String::new(),
    };
    format!(
        "{} of {all} left, {}{by} leads",
        choice.answer.len(),
        leader.name
    )
}

fn leader(choice: &Choice) -> Option<&Candidate> {
    choice
        .candidates
        .iter()
        .find(|candidate| candidate.state == State::Fastest)
}

fn change(candidate: &Candidate, ratio: f64) -> String {
    Change::between(ratio, candidate.interval).text()
}

fn answer(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    let mut say = |text: &str| paragraph(lines, width, text, "", "");
    let baseline = &choice.baseline;
    let raced = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.race_rounds > 0)
        .count();
    let Some(leader) = leader(choice) else {
        return say(&match choice.race_rounds {
            0 => "No answer: no candidate has a value to compare.".to_owned(),
            race_rounds => format!(
                "No answer: {} of {raced} candidates are too few values for an interval. Use a larger --budget, or name \
                 fewer candidates with --only.",
                counted(race_rounds, "race round")
            ),
        });
    };
    let label = |name: &String| {
        choice
            .candidates
            .iter()
            .find(|one| one.name == *name)
            .map_or_else(String::new, Candidate::label)
    };
    let others: Vec<String> = choice.answer.iter().skip(1).map(label).collect();
    let (theta, wrong) = (percent(choice.theta), percent(choice.error));
    let over = leader
        .ratio
        .filter(|_| leader.name != *baseline)
        .map(|ratio| change(leader, ratio));
    let name = leader.label();
    if !leader.risks.is_empty() {
        say(&format!(
            "{}.",
            mark::statement(&leader.name, &leader.risks)
        ));
    }
    match (choice.decided, over) {
        (true, None) => say(&format!(
            "{name} with its defaults: none of {} is faster by more than {theta} (error probability at most {wrong}).",
            counted(raced - 1, "other")
        )),
        (true, Some(over)) => say(&format!(
            "{name} is the fastest of {raced}, or within {theta} of the fastest: {over} against {baseline} (error \
             probability at most {wrong})."
        )),
        (false, over) => {
            let over = over
                .map(|over| format!(", {over} against {baseline}"))
                .unwrap_or_default();
            let rounds = counted(leader.race_rounds, "race round");
            let (left, dropped) = (choice.answer.len(), dropped_candidates(choice).count());
            let known = match dropped {
                0 => format!("none of {raced} candidates is shown to be slower than another"),
                _ => format!(
                    "one of {left} is the fastest of {} (error probability at most {wrong}); {dropped} {} slower than the \
                     leader of that time when dropped",
                    left + dropped,
                    if dropped == 1 { "was" } else { "were" }
                ),
            };
            say(&format!(
                "Not decided: {known}. {name} leads after {rounds}{over}."
            ));
        }
    }
    if !others.is_empty() {
        let named = match others.len() {
            0..=NAMED => others.join("; "),
            more => format!("{}; and {} more", others[..NAMED].join("; "), more - NAMED),
        };
        say(&format!("Not significantly different from it: {named}."));
    }
    let advised = advised(choice);
    if let Some(advised) = advised.filter(|advised| {
        advised.name != leader.name || (advised.name == *baseline && !choice.decided)
    }) {
        say(&advice(choice, advised));
    }
    // The hazards of an unsafe leader come before everything else.
    if let Some(risk) = leader.risk.as_ref().filter(|_| {
        leader.risks.is_empty() && advised.is_some_and(|advised| advised.name == leader.name)
    }) {
        say(&format!("Risk of {name}: {risk}."));
    }
    if !choice.decided && choice.finished.is_some() {
        say("A longer --budget separates more of them.");
    }
}

/// Returns the candidate to use. While none is shown to be faster than a file system with its
/// defaults, that is the baseline, or else the fastest of those with defaults. Otherwise it is the
/// leader.
fn advised(choice: &Choice) -> Option<&Candidate> {
    let may_win = || {
        let states = [State::Fastest, State::NotSignificantlyDifferent];
        choice
            .candidates
            .iter()
            .filter(move |candidate| states.contains(&candidate.state))
    };
    let of_baseline = may_win().find(|candidate| candidate.name == choice.baseline);
    leader(choice).map(|leader| {
        of_baseline
            .or_else(|| may_win().find(|candidate| candidate.is_default))
            .unwrap_or(leader)
    })
}

/// Returns the advice to use the defaults.
fn advice(choice: &Choice, advised: &Candidate) -> String {
    let verb = if advised.name == choice.baseline {
        "Keep"
    } else {
        "Use"
    };
    let what = if advised.is_default {
        format!("the defaults of {}", advised.name)
    } else {
        advised.label()
    };
    format!("{verb} {what}: no candidate is shown to be faster.")
}

/// Returns the candidates that were dropped as slower.
fn dropped_candidates(choice: &Choice) -> impl Iterator<Item = &Candidate> {
    choice
        .candidates
        .iter()
        .filter(|candidate| candidate.dropped.is_some())
}

/// Appends the commands that format and mount the advised candidate. Keeping the baseline takes
/// none.
fn commands(lines: &mut Vec<String>, choice: &Choice) {
    let Some((leader, advised)) = leader(choice).zip(advised(choice)) else {
        return;
    };
    let is_answer = choice.decided && advised.name == leader.name;
    if advised.commands.is_empty() || (advised.name == choice.baseline && !is_answer) {
        return;
    }
    lines.push(String::new());
    lines.push(match is_answer {
        true => "To format and mount it, and its line of /etc/fstab:".to_owned(),
        false => format!(
            "To format and mount {}, which may not be the fastest:",
            advised.label()
        ),
    });
    let typed = advised.commands.iter().chain(&advised.fstab);
    lines.extend(typed.map(|line| format!("  {}", visible::line(line))));
}

fn table(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    let raced: Vec<&Candidate> = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.race_rounds > 0)
        .collect();
    if raced.is_empty() {
        return;
    }
    let longest = raced
        .iter()
        .map(|candidate| candidate.label().chars().count())
        .max()
        .unwrap_or(0)
        .min(NAME);
    let numbers = |candidate: &Candidate| numbers(choice, candidate);
    let wide = raced
        .iter()
        .map(|candidate| numbers(candidate).chars().count())
        .max()
        .unwrap_or(0)
        .max(NUMBERS);
    lines.push(String::new());
    lines.push(
        format!(
            "  {:longest$}  {:<wide$} rounds",
            "",
            format!("against {}", choice.baseline)
        )
        .trim_end()
        .to_owned(),
    );
    let mut risky = false;
    for candidate in &raced {
        let numbers = numbers(candidate);
        let sign = match candidate.state {
            State::Fastest => "*",
            State::NotSignificantlyDifferent if leader(choice).is_none() => " ",
            State::NotSignificantlyDifferent => "?",
            State::Slower | State::NotRaced => " ",
        };
        risky |= candidate.risk.is_some();
        let risk = if candidate.risk.is_some() { "!" } else { "" };
        let name = candidate.label();
        let line = format!("{numbers:<wide$} {:>5}  {risk}", candidate.race_rounds);
        if name.chars().count() > longest {
            paragraph(lines, width, &name, &format!("{sign} "), "    ");
            lines.push(format!("  {:longest$}  {line}", "").trim_end().to_owned());
        } else {
            lines.push(
                format!("{sign} {name:<longest$}  {line}")
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    let together = percent(1.0 - choice.error);
    let first = if choice.decided { "fastest" } else { "leads" };
    let mut legend = format!(
        "* {first}; ? not significantly different from it. The intervals of all candidates hold together at {together}, after \
         every race round."
    );
    if leader(choice).is_none() {
        legend.clear();
    }
    if dropped_candidates(choice).next().is_some() {
        legend += " dropped at: the upper bound of its ratio to the leader of that time.";
    }
    if risky {
        legend += " ! risky.";
    }
    paragraph(lines, width, &legend, "  ", "  ");
    if choice.workloads.len() > 1 {
        let all = listed_or_counted(&choice.workloads, "workload");
        paragraph(
            lines,
            width,
            &format!("Geometric mean of {all}."),
            "  ",
            "  ",
        );
    }
}

/// Returns the ratio of a candidate to the baseline: with its interval while it may win, and with
/// the bound that dropped it otherwise. Its interval against the baseline may contain 1, although
/// it was slower than the leader.
fn numbers(choice: &Choice, candidate: &Candidate) -> String {
    let ratio = candidate
        .ratio
        .filter(|_| candidate.name != choice.baseline);
    match (&candidate.dropped, ratio) {
        (Some(Dropped { at_most, .. }), Some(ratio)) => {
            format!(
                "{}, dropped at < {}",
                Change::between(ratio, None).text(),
                loss(*at_most)
            )
        }
        (Some(Dropped { at_most, .. }), None) => format!("–, dropped at < {}", loss(*at_most)),
        (None, Some(ratio)) => change(candidate, ratio),
        (None, None) if candidate.name == choice.baseline => "–".to_owned(),
        (None, None) => String::new(),
    }
}

/// Formats an upper bound below 1 as a change, rounded towards none: `-5 %`, `-0.4 %`.
fn loss(at_most: f64) -> String {
    let loss = (1.0 - at_most) * 100.0;
    let rounded = if loss < 1.0 {
        (loss * 10.0).floor() / 10.0
    } else {
        loss.floor()
    };
    format!("{} %", if rounded > 0.0 { -rounded } else { 0.0 })
}

fn effect_lines(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    if choice.effects.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(
        "What each option contributes, averaged over the others, by the first stage:".to_owned(),
    );
    let longest = choice
        .effects
        .iter()
        .map(|effect| effect.option.chars().count())
        .max()
        .unwrap_or(0)
        .min(NAME);
    for effect in &choice.effects {
        let change = Change::between(effect.ratio, Some(effect.interval)).text();
        lines.push(format!("  {:<longest$}  {change}", effect.option));
    }
    let note = "The design confounds the interaction of two options with that of two others.";
    paragraph(lines, width, note, "  ", "  ");
}

fn not_raced(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    let out: Vec<&Candidate> = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.state == State::NotRaced)
        .collect();
    if out.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push("Not raced:".to_owned());
    for candidate in out {
        let why = candidate.reason.as_deref().unwrap_or("it gave no value");
        paragraph(
            lines,
            width,
            &format!("{}: {why}", candidate.label()),
            "  ",
            "    ",
        );
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Trial;
    use fsb_model::plan::{self, Race};

    use super::*;
    use crate::sample;

    /// Three candidates in six race rounds. The second one is the fastest and unsafe.
    fn raced(risky: bool) -> (RunRecord, Vec<Trial>) {
        let names = ["ext4", "ext4,barrier=0", "xfs"];
        let (mut record, mut trials) = sample::run(&names, 6);
        trials.retain(|trial| trial.workload == "append 4K, durable each");
        record
            .cells
            .retain(|cell| cell.label == "append 4K, durable each");
        for trial in &mut trials {
            let speed =
                [100.0, 300.0, 130.0][names.iter().position(|name| *name == trial.target).unwrap()];
            trial.metrics[0].value = speed * (1.0 + 0.01 * f64::from(trial.block % 3));
        }
        let candidates = vec![plan::Candidate::default(); names.len()];
        let (refused, first_stage, factors) = (Vec::new(), Vec::new(), Vec::new());
        record.plan.race = Some(Race {
            places: 4,
            error: 0.05,
            candidates,
            refused,
            first_stage,
            factors,
        });
        record.plan.risky = risky;
        let loss = "a power failure may lose synced data".to_owned();
        let made = record.targets.get_mut("ext4,barrier=0").unwrap();
        made.mount_options.push("nobarrier".to_owned());
        made.risks = vec![Risk {
            cause: "barrier=0".to_owned(),
            loss,
        }];
        (record, trials)
    }

    fn shown((record, trials): &(RunRecord, Vec<Trial>)) -> (Choice, String) {
        let choice = Choice::from_run(record, &ReportTrial::all(trials)).unwrap();
        let text = screen(&choice, 200);
        (choice, text)
    }

    #[test]
    fn an_unsafe_candidate_does_not_win_against_safe_ones() {
        let (choice, text) = shown(&raced(false));
        assert_eq!(choice.answer, ["xfs"], "{text}");
        assert!(text.starts_with("xfs is the fastest of "), "{text}");
        let reason = "ext4,barrier=0 (unsafe): a power failure may lose synced data (barrier=0); --risky lets it win";
        assert!(text.contains(reason), "{text}");
        let json = serde_json::to_value(&choice).unwrap();
        let marked: Vec<bool> = json["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.get("unsafe").is_some())
            .collect();
        assert_eq!(marked.iter().filter(|marked| **marked).count(), 1);
    }

    #[test]
    fn a_risky_answer_names_the_risk_before_anything_else() {
        let (choice, text) = shown(&raced(true));
        assert_eq!(choice.answer, ["ext4,barrier=0"], "{text}");
        let start = "ext4,barrier=0 is unsafe: a power failure may lose synced data (barrier=0).\n\
                     ext4,barrier=0 (unsafe) is the fastest of 3, ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("* ext4,barrier=0 (unsafe)  "), "{text}");
    }

    /// With few rounds the leader is not called the fastest, and without an estimate nothing is
    /// marked.
    #[test]
    fn a_race_of_few_rounds_claims_neither_a_winner_nor_losers() {
        let (record, trials) = raced(true);
        let until = |block: u32| {
            let mut trials = trials.clone();
            trials.retain(|trial| trial.block <= block);
            // Each candidate is the fastest in one round.
            let values = [
                [100.0, 140.0, 90.0],
                [130.0, 95.0, 120.0],
                [90.0, 120.0, 150.0],
            ];
            for trial in &mut trials {
                let place = record
                    .plan
                    .targets
                    .iter()
                    .position(|target| target.name == trial.target)
                    .unwrap();
                trial.metrics[0].value = values[trial.block as usize - 1][place];
            }
            let shown = shown(&(record.clone(), trials));
            (shown.0.ranked()[0].result.clone(), shown.1)
        };
        let (result, text) = until(3);
        assert!(
            text.contains("Not decided: none of 3 candidates is shown to be slower than another. "),
            "{text}"
        );
        assert!(
            text.contains("\nKeep the defaults of ext4: no candidate is shown to be faster.\n"),
            "{text}"
        );
        assert!(!text.contains("mkfs"), "{text}");
        assert!(
            text.contains("  * leads; ? not significantly different from it."),
            "{text}"
        );
        assert_eq!(
            result.as_deref(),
            Some("leads the race, which is not decided")
        );
        let (result, text) = until(1);
        assert!(
            text.starts_with("No answer: 1 race round of 3 candidates are too few values"),
            "{text}"
        );
        assert!(
            !text.contains("? ") && !text.contains("not significantly different"),
            "{text}"
        );
        assert_eq!(result, None);
    }

    /// Returns the race in which each candidate has the given speeds, one per round.
    fn with_speeds(speeds: [[f64; 6]; 3]) -> (Choice, String) {
        let (record, mut trials) = raced(true);
        for trial in &mut trials {
            let place = record
                .plan
                .targets
                .iter()
                .position(|target| target.name == trial.target)
                .unwrap();
            trial.metrics[0].value = speeds[place][(trial.block as usize).saturating_sub(1)];
        }
        shown(&(record, trials))
    }

    /// Later rounds of the others are so noisy that the interval of the dropped candidate contains
    /// 1 at the end.
    #[test]
    fn a_dropped_candidate_shows_the_bound_that_dropped_it() {
        let even = [100.0, 101.0, 99.0, 150.0, 70.0, 120.0];
        let open = [101.0, 99.0, 100.0, 60.0, 160.0, 80.0];
        let slow = [50.0, 50.5, 49.5, 50.0, 50.0, 50.0];
        let (choice, text) = with_speeds([even, slow, open]);
        let dropped = choice
            .candidates
            .iter()
            .find(|one| one.name == "ext4,barrier=0")
            .unwrap();
        assert_eq!(dropped.state, State::Slower, "{text}");
        let bound = dropped.dropped.as_ref().unwrap();
        assert!(
            bound.at_most < 1.0 && bound.race_rounds <= 3 && bound.than != dropped.name,
            "{bound:?}"
        );
        let row = text
            .lines()
            .find(|line| line.starts_with("  ext4,barrier=0"))
            .unwrap();
        assert!(
            row.contains(" %, dropped at < -") && !row.contains('['),
            "{row}"
        );
        assert!(!text.contains("the others are slower"), "{text}");
        let known = "one of 2 is the fastest of 3 (error probability at most 5 %); 1 was slower than the leader of that \
                     time when dropped.";
        assert!(text.contains(known), "{text}");
        assert!(
            text.contains("dropped at: the upper bound of its ratio to the leader of that time."),
            "{text}"
        );
    }

    #[test]
    fn defaults_are_advised_unless_they_were_dropped() {
        let noisy = [100.0, 140.0, 90.0, 150.0, 70.0, 120.0];
        let other = [110.0, 95.0, 120.0, 60.0, 160.0, 80.0];
        let slow = [10.0, 10.1, 9.9, 10.0, 10.0, 10.0];
        let (_, text) = with_speeds([noisy, slow, other]);
        assert!(
            text.contains("Keep the defaults of ext4: ") && !text.contains("To format"),
            "{text}"
        );
        // The baseline is out, and xfs with its defaults is not shown to be slower than the leader.
        let (choice, text) = with_speeds([slow, noisy, other]);
        assert!(!choice.decided && choice.answer.len() == 2, "{text}");
        if choice.answer[0] != "xfs" {
            assert!(
                text.contains("Use the defaults of xfs: no candidate is shown to be faster."),
                "{text}"
            );
        }
        assert!(
            text.contains("To format and mount xfs, which may not be the fastest:"),
            "{text}"
        );
    }

    #[test]
    fn bounds_are_rounded_towards_none() {
        assert_eq!([0.949, 0.996, 0.9999].map(loss), ["-5 %", "-0.4 %", "0 %"]);
    }

    #[test]
    fn an_unsafe_baseline_is_measured_and_does_not_win() {
        let (mut record, trials) = raced(false);
        let risks = std::mem::take(&mut record.targets.get_mut("ext4,barrier=0").unwrap().risks);
        record.targets.get_mut("ext4").unwrap().risks = risks.clone();
        let (choice, text) = shown(&(record.clone(), trials.clone()));
        assert_eq!(choice.answer[0], "ext4,barrier=0", "{text}");
        // If all are unsafe, they compete among themselves.
        record
            .targets
            .values_mut()
            .for_each(|target| target.risks = risks.clone());
        assert_eq!(shown(&(record, trials)).0.answer, ["ext4,barrier=0"]);
    }
}
