//! Whole runs against a scripted agent, whose trials report costs that they do not have.

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fsb_engine::Measurement;
use fsb_model::error::Tried;
use fsb_model::observed::{Observed, Spent};
use fsb_model::run::TargetRecord;
use fsb_model::trial::Samples;
use fsb_model::{Outcome, Phase, RunRecord, StopReason, Trial, Warning};
use fsb_testbed::control::Held;
use fsb_testbed::{Abilities, Provisioned, Setup};
use serde_json::json;

use super::{Ending, Judge, Judgment, Run, measure};
use crate::agent::protocol::{AgentRequest, Reply};
use crate::agent::{Agent, MeasureRequest, Measured, Method, TrialReply, VERSION, failed};
use crate::event::{Event, Journal, Observer};
use crate::lines::Lines;
use crate::plan_file;
use crate::work::Work;

const PLAN: &str = r#"
targets = ["one=null", "two=null"]
[[workload]]
name = "rename"
files = 100
[[workload]]
name = "delete"
files = 100
[[workload]]
name = "read"
file_size = "8M"
cache = "warm"
[[workload]]
name = "write"
file_size = "8M"
[repetition]
budget = "300s"
"#;

/// Seconds of a warm-up trial of a cell on a target.
const WARM_UP_COST: f64 = 0.05;

/// The requests that the agent received.
#[derive(Default)]
struct Asked {
    setup: Option<Setup>,
}

/// Starts an agent whose measured trials report that they took `cost` seconds each.
fn agent(cost: f64) -> (Agent, Arc<Mutex<Asked>>) {
    agent_that_fails(cost, |_| false)
}

/// As [`agent`], but every trial of a workload that `fails` fails.
fn agent_that_fails(cost: f64, fails: fn(&str) -> bool) -> (Agent, Arc<Mutex<Asked>>) {
    let (coordinator, own) = UnixStream::pair().unwrap();
    let asked = Arc::new(Mutex::new(Asked::default()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut lines = Lines::new(own).unwrap();
        while let Ok(request) = lines.receive::<AgentRequest>(None, &|| false) {
            let reply = match request {
                AgentRequest::Hello { version: VERSION } => Reply::Hello { version: VERSION },
                AgentRequest::Hello { .. } => unreachable!("both are this program"),
                AgentRequest::Open(setup) => {
                    seen.lock().unwrap().setup = Some(*setup);
                    Reply::Opened(Box::default())
                }
                AgentRequest::Provision { .. } => Reply::Provisioned(Box::new(provisioned())),
                AgentRequest::Measure(request) if fails(&request.workload.name) => {
                    let reply = failed("it always fails");
                    let slots = request.slots.iter();
                    Reply::Measured(slots.map(|trial| (trial.slot, reply.clone())).collect())
                }
                AgentRequest::Measure(request) => Reply::Measured(replies(&request, cost)),
                AgentRequest::Stop => continue,
                AgentRequest::Release(_) | AgentRequest::Close => Reply::Done,
            };
            if lines.send(&reply).is_err() {
                return;
            }
        }
    });
    (
        Agent::connect(coordinator, Arc::new(AtomicBool::new(false))).unwrap(),
        asked,
    )
}

fn replies(request: &MeasureRequest, cost: f64) -> Vec<(u32, TrialReply)> {
    let Method::Rounds {
        orders,
        operations,
        units,
        ..
    } = &request.method
    else {
        panic!("all cells are in rounds")
    };
    let cost = if request.attempt == 0 {
        WARM_UP_COST
    } else {
        cost
    };
    let timed_ns = vec![10_000_000; orders.len()];
    let all = operations * u64::from(*units) * timed_ns.len() as u64;
    let measured = Measured {
        work: Measurement {
            timed_ns: timed_ns.iter().sum(),
            operations: all,
            bytes: all,
            ..Measurement::default()
        },
        ..Measured::default()
    };
    let reply = TrialReply {
        outcome: Outcome::Ok,
        reason: None,
        measured: Some(measured),
        observed: Observed::default(),
        interference: Vec::new(),
        samples: Samples {
            units: *units,
            operations: operations * u64::from(*units),
            timed_ns,
            ..Samples::default()
        },
        spent: Spent {
            measure: cost,
            ..Spent::default()
        },
        target_lost: false,
        out_of_time: false,
    };
    request
        .slots
        .iter()
        .map(|trial| (trial.slot, reply.clone()))
        .collect()
}

fn provisioned() -> Provisioned {
    Provisioned {
        record: TargetRecord::default(),
        root: "/nowhere".into(),
        client_roots: Vec::new(),
        abilities: Abilities {
            durable: true,
            kernel_caches_only: true,
            ..Abilities::default()
        },
        free_bytes: 1 << 40,
        free_inodes: 1 << 30,
        held: Held::default(),
        device: None,
        warnings: Vec::new(),
    }
}

/// Continues until all planned blocks are made.
struct Continue;

impl Judge for Continue {
    fn judge(&mut self, _: &RunRecord, _: &[Trial], _: u32) -> Judgment {
        Judgment::default()
    }

    fn reason(
        &self,
        _: &RunRecord,
        _: &[Trial],
        ending: Ending,
        made: u32,
        _: Judgment,
    ) -> StopReason {
        match ending {
            Ending::Hopeless { failed } => StopReason::Hopeless {
                blocks: made,
                failed,
            },
            _ => StopReason::Requested { blocks: made },
        }
    }
}

#[derive(Default)]
struct Memory {
    trials: Vec<Trial>,
}

impl Journal for Memory {
    fn record(&mut self, _: &RunRecord) -> Result<(), Tried> {
        Ok(())
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), Tried> {
        self.trials.push(trial.clone());
        Ok(())
    }

    fn rewrite(&mut self, trials: &[Trial]) -> Result<(), Tried> {
        self.trials = trials.to_vec();
        Ok(())
    }
}

struct Nobody;

impl Observer for Nobody {
    fn event(&mut self, _: &Event<'_>) {}
}

fn new_run() -> (RunRecord, Work) {
    let resolved = plan_file::parse(PLAN, "p").unwrap().resolve(2, 7).unwrap();
    let record = json!({
        "schema": fsb_model::run::SCHEMA, "name": "test", "plan": resolved.plan, "cells": resolved.work.cells(),
        "placement": resolved.placement, "segments": [segment()],
    });
    (serde_json::from_value(record).unwrap(), resolved.work)
}

fn segment() -> serde_json::Value {
    json!({ "started": "2026-01-01T00:00:00Z", "fsb_version": "0", "kernel": "6.1", "boot_id": "b" })
}

/// Makes the run, whose budget began that long ago. Returns it with the trials of its journal.
fn make(
    agent: Agent,
    (record, work): (RunRecord, Work),
    trials: Vec<Trial>,
    begun_before: Duration,
) -> (RunRecord, Vec<Trial>, Vec<Trial>) {
    let mut journal = Memory {
        trials: trials.clone(),
    };
    let started = Instant::now().checked_sub(begun_before).unwrap();
    let run = Run {
        agent,
        journal: &mut journal,
        observer: &mut Nobody,
        judge: &mut Continue,
        repeats: 0,
        record,
        trials,
        work,
        warmup: true,
        started,
    };
    let (record, trials) = measure(run).unwrap();
    (record, trials, journal.trials)
}

/// Blocks take 96 s instead of less than a second: the budget holds three of them, or five of two
/// cells.
#[test]
fn cells_are_left_out_if_blocks_take_too_long_to_judge_all() {
    let (record, trials, journal) = make(agent(12.0).0, new_run(), Vec::new(), Duration::ZERO);
    let left: Vec<&str> = record
        .cells
        .iter()
        .map(|cell| cell.label.as_str())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(trials, journal, "what counts is the same on disk");
    for trial in trials.iter().filter(|trial| trial.phase == Phase::Measured) {
        assert_eq!(
            trial.counts(),
            left.contains(&&*trial.workload),
            "{}",
            trial.id
        );
    }
    let blocks = |label: &&str| {
        trials
            .iter()
            .filter(|trial| trial.counts() && trial.workload == *label)
            .count()
            / 2
    };
    assert!(
        left.iter().all(|label| blocks(label) >= 5),
        "{:?}",
        left.iter().map(blocks).collect::<Vec<_>>()
    );
    let warned = |warning: &Warning| matches!(warning, Warning::LeftOut { workloads, held: 2, .. } if workloads.len() == 2);
    assert!(record.warnings.iter().any(warned), "{:?}", record.warnings);
    // Its blocks are complete: a resumed run repeats none.
    assert_eq!(crate::resume::supersede(&record, &mut trials.clone()), 0);
}

#[test]
fn no_cell_is_left_out_while_the_budget_judges_all() {
    let (record, trials, _) = make(agent(1.0).0, new_run(), Vec::new(), Duration::ZERO);
    assert_eq!(
        (record.cells.len(), record.warnings.len()),
        (4, 0),
        "{:?}",
        record.warnings
    );
    assert!(trials.iter().all(|trial| !trial.superseded));
}

#[test]
fn a_resumed_run_prepares_the_machine_outside_of_its_budget() {
    let (first, asked) = agent(1.0);
    let (_, work) = new_run();
    let (mut record, mut trials, _) = make(first, new_run(), Vec::new(), Duration::ZERO);
    assert_eq!(
        asked.lock().unwrap().setup.as_ref().unwrap().patience,
        Some(60.0)
    );
    let planned = record.blocks_planned.unwrap();
    record.stop_reason = None;
    trials.retain(|trial| trial.block <= 2);
    record
        .segments
        .push(serde_json::from_value(segment()).unwrap());
    // Preparing took longer than the whole budget.
    let (second, asked) = agent(1.0);
    let (_, trials, _) = make(second, (record, work), trials, Duration::from_secs(301));
    assert_eq!(asked.lock().unwrap().setup.as_ref().unwrap().patience, None);
    assert_eq!(trials.iter().map(|trial| trial.block).max(), Some(planned));
}

/// A workload that fails everywhere is measured once more after warm-up, and takes no time from the
/// others, wherever it is in the plan.
#[test]
fn a_workload_that_always_fails_leaves_the_budget_to_the_others() {
    // One block of all four takes longer than warm-up promises, so some would be left out.
    let (agent, _) = agent_that_fails(12.0, |name| name == "rename");
    let (record, trials, _) = make(agent, new_run(), Vec::new(), Duration::ZERO);
    let blocks = |name: &str| -> Vec<u32> {
        let of_workload = trials.iter().filter(|trial| {
            trial.counts() && trial.phase == Phase::Measured && trial.workload.starts_with(name)
        });
        of_workload.map(|trial| trial.block).collect()
    };
    assert_eq!(blocks("rename"), [1, 1], "{:?}", record.warnings);
    assert!(
        record
            .cells
            .iter()
            .any(|cell| cell.label.starts_with("rename"))
    );
    assert!(blocks("delete").len() / 2 >= 5, "{:?}", record.warnings);
}

#[test]
fn a_run_of_which_every_trial_failed_is_hopeless_not_decided() {
    let (agent, _) = agent_that_fails(1.0, |_| true);
    let (record, _, _) = make(agent, new_run(), Vec::new(), Duration::ZERO);
    assert_eq!(
        record.stop_reason,
        Some(StopReason::Hopeless {
            blocks: 1,
            failed: true
        })
    );
}
