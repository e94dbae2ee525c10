//! The history of runs in a browser: pages and JSON over HTTP, or as files.
//!
//! ```text
//! Store ─▶ Site (read again when it changes) ─▶ data ─▶ pages, /api ─▶ router ─▶ serve
//!                                                                └──▶ write_files
//! ```
//!
//! This crate never changes the store or a run. Pages need no script, and their addresses hold their whole state. The
//! caller provides the [`Reports`], because this crate cannot read a run directory.
#![forbid(unsafe_code)]

mod answer;
mod data;
#[cfg(feature = "schema")]
mod description;
mod files;
mod links;
mod pages;
mod problem;
mod query;
mod router;
mod server;
mod site;

#[cfg(feature = "schema")]
pub use description::openapi;
pub use files::{WriteError, write_files};
pub use problem::Problem;
pub use router::{Hosts, router};
pub use runs::{Answers, Field, FieldKind, Planned, RunStatus, Runs, Section};
pub use server::{Limits, serve};
pub use site::{Reports, Site};

#[cfg(test)]
mod control_tests;
#[cfg(test)]
mod tests;
