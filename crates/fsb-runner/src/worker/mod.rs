//! Workers: the same binary again, in a process of its own, for all file work that is measured.
//!
//! A conversation has three parts. *Open*: the worker is started where the controls want it, and confined. Then any
//! number of *tasks*, each answered by progress, perhaps `ready` (the clock starts at the word `go`), and one result.
//! *Close*: the worker ends when its connection does, and its descriptors with it. All commands use it: trials take a
//! worker a step, `fsb iozone` and `fsb postmark` one for all their passes and runs.
//!
//! What a worker can do is a family: a member implements [`Work`], and the binary registers it.

mod client;
mod serve;
mod step;

use fsb_engine::{EngineError, Ready};
use fsb_testbed::sandbox::Confinement;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use client::{Post, Worker, WorkerError};
pub use serve::{Desk, Kind, worker_main};
pub use step::Steps;

/// The argument that makes the binary a worker.
pub const WORKER_ARGUMENT: &str = "__worker";

/// In the environment of a worker that has the rights to files of whoever asked root for it.
pub const AS_CALLER: &str = "FSB_WORKER_AS_CALLER";

/// Something that workers can do.
pub trait Work {
    /// Its name in the protocol.
    const NAME: &'static str;
    /// What is asked for.
    type Task: Serialize + DeserializeOwned;
    /// What is told while it goes on.
    type Progress: Serialize + DeserializeOwned;
    /// What came of it.
    type Answer: Serialize + DeserializeOwned;

    /// Does it. One that looks at [`Desk::interrupted`] ends early with an answer; others are killed.
    fn perform(task: Self::Task, desk: &mut Desk<'_, Self::Progress>) -> Result<Self::Answer, EngineError>;

    /// Whether [`Desk::interrupted`] is looked at, because something must be removed before the worker ends.
    const HEEDS_INTERRUPTION: bool = false;
}

/// The first line that a worker reads: where it may write and as whom.
#[derive(Debug, Serialize, Deserialize)]
struct Opening<'a> {
    confinement: Option<std::borrow::Cow<'a, Confinement>>,
}

/// Each further line but the word `go`: what to do.
#[derive(Debug, Serialize, Deserialize)]
struct Asked<T> {
    work: String,
    task: T,
}

/// What a worker says, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message<P, A> {
    /// The parts of its confinement that the kernel refused; sent first, and only if there are any.
    Unconfined(Vec<String>),
    /// Everything is ready for the word `go`.
    Ready(Ready),
    /// How far the task has come.
    Progress(P),
    /// The task is done. Its last message.
    Result(A),
    /// The task could not be done. Its last message.
    Error(EngineError),
}
