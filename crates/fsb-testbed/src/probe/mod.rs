//! The properties of a directory's file system: calls on a few small files, each of which answers
//! one question that matters for measuring.
//!
//! A file system may refuse a call, accept it and do something else, kill the caller (SIGBUS) or
//! never return. So a process of its own makes the calls, and the parent waits for each answer with
//! a limit.
//!
//! A new property is a line in `table.rs` and a function that probes it.

mod caches;
mod data;
mod direct;
mod flags;
mod names;
mod process;
mod property;
mod space;
mod surroundings;
mod syncs;
mod table;
mod trial_file;

pub(crate) use process::probe_server;
pub use process::{DirectoryProbe, PROBE_ARGUMENT, ProbeFailure, probe_directory, probe_main};
pub use property::{Property, PropertyState};
pub use table::questions;
