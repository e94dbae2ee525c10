//! The lines between an agent and a worker.

use fsb_engine::{EngineError, Ready};
use fsb_sys::sandbox::Confinement;
use serde::{Deserialize, Serialize};

/// The first line that a worker reads: the paths that it can write and its user.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opening<'a> {
    pub(super) confinement: Option<std::borrow::Cow<'a, Confinement>>,
}

/// Each further line except `go`: a task.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked<T> {
    pub(super) work: String,
    pub(super) task: T,
}

/// A message of a worker, one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message<P, A> {
    /// The parts of its confinement that the kernel refused; sent first, and only if there are any.
    Unconfined(Vec<String>),
    /// Everything is ready for the word `go`.
    Ready(Ready),
    /// The progress of the task.
    Progress(P),
    /// The task is done. Its last message.
    Result(A),
    /// The task could not be done. Its last message.
    Error(EngineError),
}
