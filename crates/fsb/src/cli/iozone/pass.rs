//! Passes over files, done by a worker: one for all passes of a run.

use std::sync::Arc;

use fsb_engine::EngineError;
use fsb_engine::classic::{self, GroupResult, Phase, PhaseError, PhaseResult};
use fsb_runner::worker::{Desk, Post, Work, Worker, WorkerError};
use serde::{Deserialize, Serialize};

use crate::result_owner::Rights;
use crate::signals::Signals;

/// Passes of IOzone's, as work that a worker does.
#[derive(Debug)]
pub enum Passes {}

/// One pass, or several that start together.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    phases: Vec<Phase>,
    together: Option<Means>,
}

/// The unit of execution of passes that start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Means {
    Threads,
    Processes,
}

impl Work for Passes {
    const NAME: &'static str = "iozone";
    type Task = Asked;
    type Progress = ();
    type Answer = Result<GroupResult, PhaseError>;
    // A pass checks the flag before each record. The process that requested the pass removes its files.
    const HEEDS_INTERRUPTION: bool = true;

    fn perform(task: Asked, desk: &mut Desk<'_, ()>) -> Result<Self::Answer, EngineError> {
        let interrupted = desk.interrupted();
        let program = || std::env::current_exe().map_err(|error| EngineError::io("find", "this program", &error));
        Ok(match (task.together, task.phases.as_slice()) {
            (None, [phase]) => classic::perform(phase, &interrupted)
                .map(|result| GroupResult { nanoseconds: result.nanoseconds, results: vec![result] }),
            (None, _) => return Err(EngineError::new("several passes were not asked to start together")),
            (Some(Means::Threads), phases) => classic::perform_together(phases, None, &interrupted),
            (Some(Means::Processes), phases) => classic::perform_together(phases, Some(&program()?), &interrupted),
        })
    }
}

/// The worker of a run.
pub struct PassWorker(Worker);

impl PassWorker {
    /// Starts it.
    pub fn open(signals: &Signals, rights: Rights) -> Result<PassWorker, WorkerError> {
        let interrupted = Some(Arc::clone(signals.flag()));
        Worker::open(&Post { interrupted, as_invoking_user: rights == Rights::InvokingUser, ..Post::default() })
            .map(PassWorker)
    }

    /// Makes one pass.
    pub fn pass(&mut self, phase: &Phase) -> Result<PhaseResult, PhaseError> {
        let result = self.ask(Asked { phases: vec![phase.clone()], together: None })?;
        result.results.into_iter().next().ok_or_else(|| EngineError::new("the worker answered nothing").into())
    }

    /// Makes passes that start together, each in a thread or in a process.
    pub fn passes_together(&mut self, phases: &[Phase], threads: bool) -> Result<GroupResult, PhaseError> {
        let means = if threads { Means::Threads } else { Means::Processes };
        self.ask(Asked { phases: phases.to_vec(), together: Some(means) })
    }

    fn ask(&mut self, asked: Asked) -> Result<GroupResult, PhaseError> {
        self.0.perform::<Passes>(&asked, &mut |()| {}).map_err(|error| match error {
            WorkerError::Engine(error) => PhaseError::Engine(error),
            WorkerError::Interrupted => PhaseError::Interrupted,
            error => PhaseError::Engine(EngineError::new(error.to_string())),
        })?
    }
}
