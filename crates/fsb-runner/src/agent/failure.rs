//! The reasons why a trial has no values, and the checks that find them before it runs.

use fsb_engine::Job;
use fsb_model::observed::{MemoryUse, Observed, Spent};
use fsb_model::{Durability, Outcome};
use fsb_testbed::{ColdMethod, Provisioned};

use super::protocol::TrialReply;
use crate::worker::WorkerError;

/// The reason why a trial has no values.
#[derive(Clone)]
pub(crate) enum Failure {
    /// It makes no sense on this target.
    NotApplicable(String),
    /// It did not complete.
    Failed(String),
    /// The target is gone.
    Lost(String),
    /// The budget ended before it did.
    OutOfTime(String),
}

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Engine(error) if error.inapplicable => Failure::NotApplicable(error.to_string()),
            error @ WorkerError::OutOfTime => Failure::OutOfTime(error.to_string()),
            error => Failure::Failed(error.to_string()),
        }
    }
}

/// Refuses a cell that the target cannot do, before it is measured: docs/methods/method.md, "Not applicable".
pub(super) fn applicable(job: &dyn Job, target: &Provisioned) -> Result<(), Failure> {
    let profile = job.profile();
    let abilities = &target.abilities;
    if profile.cache.begins_cold() {
        match abilities.cold {
            None => return Err(Failure::NotApplicable(abilities.why_not_cold.clone())),
            Some(ColdMethod::Evict) if profile.metadata_only => {
                let why = "cold metadata needs drop_caches: run as root";
                return Err(Failure::NotApplicable(why.to_owned()));
            }
            Some(_) if profile.metadata_only && !abilities.counters && abilities.fake.is_none() => {
                let why = "cold metadata cannot be verified: the device under the directory is not known";
                return Err(Failure::NotApplicable(why.to_owned()));
            }
            Some(_) => {}
        }
    }
    if profile.durability != Durability::None && !abilities.durable {
        return Err(Failure::NotApplicable(abilities.why_not_durable.clone()));
    }
    let short = |what: &str, needed: String, free: String| {
        Err(Failure::Failed(format!("it needs {needed} {what}, but the target has {free}: --size changes both")))
    };
    if profile.space > target.free_bytes {
        let show = |bytes: u64| fsb_model::units::show_bytes(bytes as f64);
        return short("free", show(profile.space), show(target.free_bytes));
    }
    Ok(())
}

pub(crate) fn refused(failure: Failure) -> TrialReply {
    let out_of_time = matches!(failure, Failure::OutOfTime(_));
    let (outcome, error) = match failure {
        Failure::NotApplicable(why) => (Outcome::NotApplicable, why),
        Failure::Failed(why) | Failure::Lost(why) | Failure::OutOfTime(why) => (Outcome::Failed, why),
    };
    TrialReply {
        outcome,
        error: Some(error),
        measured: None,
        observed: Observed::default(),
        interference: Vec::new(),
        samples: Default::default(),
        spent: Spent::default(),
        target_lost: false,
        out_of_time,
    }
}

/// Adds the cause to the failure of a worker that the kernel killed for lack of memory.
pub(super) fn for_want_of_memory(failure: Failure, memory: Option<&MemoryUse>, before: u64) -> Failure {
    let killed = memory.filter(|memory| memory.oom_kills.is_some_and(|kills| kills > before));
    match (failure, killed) {
        (Failure::Failed(why), Some(memory)) => {
            let limit = fsb_model::units::show_bytes(memory.limit_bytes as f64);
            Failure::Failed(format!(
                "{why}; the memory limit of {limit} is too small for the workload: raise \
                memory-limit"
            ))
        }
        (failure, _) => failure,
    }
}
