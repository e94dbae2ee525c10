//! Workers: the same binary again, in a process of its own, for all file work that is measured.
//!
//! A conversation has three parts. *Open*: the worker is started where the controls want it, and confined. Then any
//! number of *tasks*, each answered by progress, perhaps `ready` (the clock starts at the word `go`), and one result.
//! *Close*: the worker ends when its connection does, and its descriptors with it. All commands use it: trials take a
//! worker a step, `fsb iozone` and `fsb postmark` one for all their passes and runs.
//!
//! Kinds of work are a family: a member implements [`Work`], and the binary registers it.

mod client;
mod protocol;
mod serve;
mod step;

pub use client::{Post, Worker, WorkerError};
pub use protocol::Message;
pub use serve::{Desk, Work, WorkKind, worker_main};
pub use step::Steps;

/// The argument that makes the binary a worker.
pub const WORKER_ARGUMENT: &str = "__worker";

/// The environment variable of a worker that accesses files with the rights of the invoking user.
pub const AS_CALLER: &str = "FSB_WORKER_AS_CALLER";
