//! What a measuring run stands on: the lock, the supervisor and its agent, and the signals that end it.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use fsb_model::Place;
use fsb_runner::agent::{AGENT_ARGUMENT, Agent, AgentError, SUPERVISOR_ARGUMENT};
use fsb_runner::run::RunError;
use fsb_runner::vm;
use fsb_testbed::host;
use fsb_testbed::ledger::{self, Owner};
use fsb_testbed::lock::RunLock;
use fsb_testbed::sandbox::{self, Launched};

use super::replay;
use crate::exit;
use crate::progress::say;
use crate::signals::{Second, Signals};

/// How long an interrupted run waits for the kernel to take everything down before it says goodbye.
const GOODBYE: Duration = Duration::from_millis(1200);

/// Whatever holds a measuring run together; dropping it takes everything down.
pub(super) struct Stage {
    pub(super) lock: RunLock,
    launched: Launched,
    signals: Signals,
}

impl Stage {
    /// Cleans up after the dead and starts the supervisor. Until it runs, this process must have one thread.
    pub(super) fn set(lock: RunLock, place: Place) -> anyhow::Result<(Stage, Agent)> {
        for line in replay().0 {
            say(&line);
        }
        let owner = serde_json::to_string(&Owner::current())?;
        let agent = match place {
            Place::Host => AGENT_ARGUMENT,
            Place::Vm => vm::VM_AGENT_ARGUMENT,
        };
        let arguments = [SUPERVISOR_ARGUMENT, agent, &owner].map(OsString::from);
        let launched = sandbox::launch(&arguments)?;
        let signals = Signals::catch(Second::Ends)?;
        let stream = launched.stream.try_clone()?;
        let agent = Agent::connect(stream, Arc::clone(signals.flag())).map_err(RunError::from)?;
        Ok((Stage { lock, launched, signals }, agent))
    }

    /// Undoes what the agent left to this process because it lives in another mount namespace. The answer holds what
    /// could not be undone.
    pub(super) fn undo_rest(&self) -> Vec<String> {
        let replayed = ledger::replay_of(&ledger::default_directory(), &host::boot_id(), Owner::current());
        let failed = replayed.into_iter().filter(|entry| matches!(entry.fate, ledger::Fate::Failed(_)));
        failed.map(|entry| entry.to_string()).collect()
    }

    /// Takes everything down, at once.
    pub(super) fn strike(&mut self) {
        self.launched.kill(GOODBYE);
        // Whatever the kernel does not take back stands in the ledger, and its owner is this process, still alive.
        // What cannot be undone yet, because the kernel still holds it, stays there for the next run or `fsb clean`.
        ledger::replay_of(&ledger::default_directory(), &host::boot_id(), Owner::current());
    }

    /// The exit code that an error ends the run with: that of the signal, where it was interrupted.
    pub(super) fn ending(&self, error: &anyhow::Error) -> u8 {
        let interrupted = self.signals.is_interrupted()
            && matches!(error.downcast_ref::<RunError>(), Some(RunError::Agent(AgentError::Interrupted)));
        if interrupted { self.signals.code() } else { exit::code(error) }
    }
}
