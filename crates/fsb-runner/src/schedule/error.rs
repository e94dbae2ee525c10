//! The errors that end a run early.

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error_codes;
use serde_json::{Map, Value};

use crate::agent::AgentError;

/// The error that ended a run early. Trials that ended before are on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The agent refused, is gone, or the user interrupted.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A run is resumed on another device.
    #[error("{0}")]
    OtherDevice(String),
    /// A run is resumed on a kernel that was built anew.
    #[error("{0}")]
    OtherKernel(String),
    /// No requested workload fits the budget.
    #[error("{0}")]
    Budget(String),
    /// A trial could not be written down.
    #[error("the run stopped because it could not save a trial: {0}")]
    Journal(String),
}

error_codes! {
    INTERRUPTED = "run/interrupted", 130, "The user interrupted the run.", "Resume the run with fsb run --resume DIR.";
    AGENT_GONE = "run/agent-gone", code::MACHINE, "The process that owns the testbed ended.", "Look at the kernel's log; resume the run with fsb run --resume DIR.";
    OTHER_DEVICE = "run/other-device", code::REQUEST, "The run was begun on another device.", "Resume the run on the same device.";
    OTHER_KERNEL = "run/other-kernel", code::REQUEST, "The run was begun on another build of the kernel.", "Resume the run on the same kernel.";
    BUDGET = "run/budget-too-small", code::REQUEST, "The budget holds no workload.", "Use a larger --budget.";
    JOURNAL = "run/journal", code::MACHINE, "A trial could not be saved.", "Make room on the disk, and resume the run with fsb run --resume DIR.";
}

impl Coded for RunError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            RunError::Agent(AgentError::Refused(error)) => error.code(),
            RunError::Agent(AgentError::Interrupted) => &INTERRUPTED,
            RunError::Agent(AgentError::Gone(_)) => &AGENT_GONE,
            RunError::OtherDevice(_) => &OTHER_DEVICE,
            RunError::OtherKernel(_) => &OTHER_KERNEL,
            RunError::Budget(_) => &BUDGET,
            RunError::Journal(_) => &JOURNAL,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            RunError::Agent(AgentError::Refused(error)) => error.fields(),
            _ => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            RunError::Agent(AgentError::Refused(error)) => error.help(),
            _ => None,
        }
    }
}
