//! What a measuring run stands on: the lock, the supervisor and its agent, and the signals that end it.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use fsb_model::{Place, RunRecord, Warning};
use fsb_runner::agent::{AGENT_ARGUMENT, Agent, AgentError, SUPERVISOR_ARGUMENT};
use fsb_runner::schedule::{self, RunError};
use fsb_runner::vm;
use fsb_sys::sandbox::{self, Launched};
use fsb_testbed::ledger::{self, Owner, Replayed};
use fsb_testbed::lock::RunLock;
use fsb_testbed::{LocalTestbed, Watcher, control, host};

use super::leftovers::tidy_up;
use crate::exit::Failure;
use crate::signals::{Second, Signals};
use crate::stderr::say;

/// How long an interrupted run waits for the kernel to take everything down before it says goodbye.
const GOODBYE: Duration = Duration::from_millis(1200);

/// Whatever holds a measuring run together; dropping it takes everything down.
pub(super) struct Stage {
    pub(super) lock: RunLock,
    launched: Launched,
    /// Outlives this process where it is killed, and then undoes what the run changed.
    watcher: Option<Watcher>,
    signals: Signals,
}

impl Stage {
    /// Cleans up after the dead and starts the supervisor. Until it runs, this process must have one thread.
    pub(super) fn set(lock: RunLock, record: &RunRecord) -> anyhow::Result<(Stage, Agent)> {
        tidy_up();
        let owner = serde_json::to_string(&Owner::current())?;
        let place = record.plan.place;
        let watcher =
            (place == Place::Host && LocalTestbed::may_leave(&schedule::setup(record))).then(watcher).flatten();
        let agent = match place {
            Place::Host => AGENT_ARGUMENT,
            Place::Vm => vm::VM_AGENT_ARGUMENT,
        };
        let arguments = [SUPERVISOR_ARGUMENT, agent, &owner].map(OsString::from);
        let launched = sandbox::launch(&arguments)?;
        let signals = Signals::catch(Second::Ends)?;
        let stream = launched.stream.try_clone()?;
        let agent = Agent::connect(stream, Arc::clone(signals.flag())).map_err(RunError::from)?;
        Ok((Stage { lock, launched, watcher, signals }, agent))
    }

    /// Undoes what the agent left to this process because it lives in another mount namespace. The answer holds what
    /// could not be undone.
    pub(super) fn undo_rest(&self) -> Vec<Warning> {
        let failed = replay_own().into_iter().filter(|entry| matches!(entry.fate, ledger::Fate::Failed(_)));
        failed.map(|entry| Warning::NotUndone { entry: entry.to_string() }).collect()
    }

    /// Takes everything down, at once.
    pub(super) fn strike(&mut self) {
        self.launched.kill(GOODBYE);
        // Whatever the kernel does not take back stands in the ledger, and its owner is this process, still alive.
        // What cannot be undone yet, because the kernel still holds it, stays there for the next run or `fsb clean`.
        replay_own();
    }

    /// Goes without waiting for the kernel. The watcher stays: what could not be undone yet it tries again.
    pub(super) fn leave(self) {
        drop(self.lock);
        self.launched.let_go();
        if let Some(watcher) = self.watcher {
            watcher.leave();
        }
    }

    /// Returns the failure that an error ends the run with. After an interruption its exit code is that of the signal.
    pub(super) fn ending(&self, error: &anyhow::Error, message: String) -> Failure {
        let interrupted = self.signals.is_interrupted()
            && matches!(error.downcast_ref::<RunError>(), Some(RunError::Agent(AgentError::Interrupted)));
        let failure = Failure::wrapping(error, message);
        if interrupted { Failure { exit: self.signals.code(), ..failure } } else { failure }
    }
}

/// The process that undoes what this one changes if this one is killed, where there is a ledger to tell it. Without it
/// the next `fsb` does.
pub fn watcher() -> Option<Watcher> {
    ledger::default_directory().ok()?;
    Watcher::start().map_err(|error| say(&format!("warning: {error}"))).ok()
}

/// Undoes what stands in the ledger for this process, and what dead runs left.
fn replay_own() -> Vec<Replayed> {
    let place = ledger::default_directory();
    place.map_or_else(
        |_| Vec::new(),
        |place| ledger::replay_of(&place, &host::boot_id(), control::RULES, Owner::current()),
    )
}
