//! Parts of a measuring run: the lock, the supervisor and its agent, and the signals that end it.

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

/// The time that an interrupted run waits for the kernel to tear everything down.
const GOODBYE: Duration = Duration::from_millis(1200);

/// Holds the parts of a measuring run; dropping it tears everything down.
pub(super) struct Stage {
    pub(super) lock: RunLock,
    launched: Launched,
    /// Outlives this process if it is killed, and then undoes the changes of the run.
    watcher: Option<Watcher>,
    signals: Signals,
}

impl Stage {
    /// Cleans up after killed runs and starts the supervisor. Until it runs, this process must have one thread.
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

    /// Undoes the changes that the agent left to this process because it lives in another mount namespace. Returns the
    /// changes that could not be undone.
    pub(super) fn undo_rest(&self) -> Vec<Warning> {
        let failed = replay_own().into_iter().filter(|entry| matches!(entry.fate, ledger::Fate::Failed(_)));
        failed.map(|entry| Warning::NotUndone { entry: entry.to_string() }).collect()
    }

    /// Tears everything down, at once.
    pub(super) fn strike(&mut self) {
        self.launched.kill(GOODBYE);
        // The ledger lists the changes that the kernel does not revert; their owner is this process, which is still
        // alive. Changes that cannot be undone yet, because the kernel still holds them, stay listed for the next run
        // or `fsb clean`.
        replay_own();
    }

    /// Ends without waiting for the kernel. The watcher stays and retries the changes that could not be undone yet.
    pub(super) fn leave(self) {
        drop(self.lock);
        self.launched.let_go();
        if let Some(watcher) = self.watcher {
            watcher.leave();
        }
    }

    /// Returns the failure of a run that ends with `error`. After an interruption its exit code is that of the signal.
    pub(super) fn ending(&self, error: &anyhow::Error, message: String) -> Failure {
        let interrupted = self.signals.is_interrupted()
            && matches!(error.downcast_ref::<RunError>(), Some(RunError::Agent(AgentError::Interrupted)));
        let failure = Failure::wrapping(error, message);
        if interrupted { Failure { exit: self.signals.code(), ..failure } } else { failure }
    }
}

/// Starts the process that undoes the changes of this one if it is killed; `None` without a ledger. Without a watcher
/// the next `fsb` undoes them.
pub fn watcher() -> Option<Watcher> {
    ledger::default_directory().ok()?;
    Watcher::start().map_err(|error| say(&format!("warning: {error}"))).ok()
}

/// Undoes the changes that the ledger lists for this process, and those that killed runs left.
fn replay_own() -> Vec<Replayed> {
    let place = ledger::default_directory();
    place.map_or_else(
        |_| Vec::new(),
        |place| ledger::replay_of(&place, &host::boot_id(), control::RULES, Owner::current()),
    )
}
