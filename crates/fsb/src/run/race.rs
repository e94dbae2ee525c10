//! A race: which candidates this machine accepts, and the result on the screen and in the run
//! directory.

use std::path::Path;

use fsb_model::plan::Refused;
use fsb_model::{Place, RunRecord, code, failure};
use fsb_runner::plan_file::Resolved;
use fsb_runner::schedule;
use fsb_runner::work::Work;
use fsb_store::RunDirectory;
use fsb_store::owner::{command_line, holder, result_owner};
use fsb_testbed::ledger::Owner;
use fsb_testbed::{LocalTestbed, ONE_AT_A_TIME, Testbed, TestbedError};

use super::coordinator::{check, run_and_show};
use super::next_command::{advise_on_refused, advise_on_unwritable};
use super::record::{make_absolute, new_record};
use super::space;
use super::stage::{Stage, Turn};
use crate::results::Output;
use crate::run::progress::Verbosity;

/// Starts a race in the new directory `out`. Candidates that this machine refuses beforehand are
/// left out and printed.
pub fn choose(
    mut resolved: Resolved,
    named: &[String],
    out: &Path,
    output: &Output,
    verbosity: Verbosity,
    turn: Turn,
) -> anyhow::Result<u8> {
    fsb_store::check_new(out, &result_owner()).map_err(advise_on_unwritable)?;
    make_absolute(&mut resolved.plan)?;
    turn.wait(&command_line())?;
    let (mut record, work) = new_record(resolved)?;
    if let Some(fsb_model::run::Placement::InTurn { reason }) = &record.placement {
        let reason = fsb_report::placement_reason_text(reason);
        let message = format!(
            "a race measures its candidates side by side, which is impossible here: {reason}; name file systems on \
             one medium"
        );
        return Err(failure::error(&code::NOT_RACED, message));
    }
    record.name = format!("choose · {}", record.plan.name);
    leave_out_refused(&mut record, &work, named)?;
    schedule::check_budget(&record, &work)?;
    let lock = check(&record, &work, turn)?;
    let directory = RunDirectory::create(out, &record, result_owner(), &holder())
        .map_err(advise_on_unwritable)?;
    let (stage, agent) = Stage::set(lock, &record)?;
    run_and_show(
        stage,
        agent,
        directory,
        (record, work, Vec::new()),
        output,
        verbosity,
    )
}

/// Checks each candidate alone and leaves out those that cannot race. An error of the baseline, or
/// of a candidate that the user `named`, is one of the request.
fn leave_out_refused(record: &mut RunRecord, work: &Work, named: &[String]) -> anyhow::Result<()> {
    let alone = |at: usize| {
        let mut alone = record.clone();
        alone.plan.targets = vec![record.plan.targets[at].clone()];
        alone
    };
    let ask = |at: usize| -> anyhow::Result<()> {
        let record = alone(at);
        if record.plan.place == Place::Host {
            LocalTestbed::new(Owner::current())
                .check(&schedule::setup(&record))
                .map_err(|error| TestbedError {
                    advice: error
                        .advice
                        .replace(ONE_AT_A_TIME, ", or let fewer race with --only"),
                    ..error
                })
                .map_err(advise_on_refused)?;
        }
        space::check_run(&record, work)
    };
    ask(0)?;
    let mut refused: Vec<(usize, String)> = Vec::new();
    for at in 1..record.plan.targets.len() {
        let Err(error) = ask(at) else {
            continue;
        };
        let name = &record.plan.targets[at].name;
        // Users name targets with NAME=TARGET.
        let is_of = |text: &String| text == name || text.starts_with(&format!("{name}="));
        if named.iter().any(is_of) {
            return Err(error);
        }
        let why = error.to_string();
        // The list of refusals begins each line with the name.
        let prefix = format!("target {name}: ");
        refused.push((at, why.strip_prefix(&prefix).unwrap_or(&why).to_owned()));
    }
    let gone = |at: usize| refused.iter().any(|(known, _)| *known == at);
    let targets = std::mem::take(&mut record.plan.targets);
    let Some(race) = &mut record.plan.race else {
        return Ok(());
    };
    race.refused.extend(refused.iter().map(|(at, why)| Refused {
        name: targets[*at].name.clone(),
        why: why.clone(),
    }));
    // Indices in the design are those of the plan: the design continues without the refused
    // candidates.
    let moved = |at: &u32| {
        (!gone(*at as usize)).then(|| (0..*at as usize).filter(|at| !gone(*at)).count() as u32)
    };
    for race_round in &mut race.first_stage {
        *race_round = race_round.iter().filter_map(moved).collect();
    }
    let whole = |places: &[u32]| places.iter().all(|at| !gone(*at as usize));
    race.factors
        .retain(|factor| whole(&factor.with) && whole(&factor.without));
    for factor in &mut race.factors {
        factor.with = factor.with.iter().filter_map(moved).collect();
        factor.without = factor.without.iter().filter_map(moved).collect();
    }
    let mut at = 0..;
    race.candidates
        .retain(|_| !gone(at.next().unwrap_or_default()));
    record.plan.targets = targets
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !gone(*at))
        .map(|(_, one)| one)
        .collect();
    if record.plan.targets.len() < 2 {
        let reasons: Vec<String> = race
            .refused
            .iter()
            .map(|refused| format!("{}: {}", refused.name, refused.why))
            .collect();
        let message = format!(
            "no candidate is left to race against the first one\n{}",
            reasons.join("\n")
        );
        return Err(failure::error(&code::UNABLE, message));
    }
    Ok(())
}
