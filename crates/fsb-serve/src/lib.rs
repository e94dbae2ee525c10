//! The history of runs in a browser: pages and JSON over HTTP, or as files.
//!
//! ```text
//! Store ─▶ Site (read again when it changes) ─▶ data ─▶ pages, /api ─▶ router ─▶ serve
//!                                                                └──▶ write_files
//! ```
//!
//! This crate never changes the store. Pages need no script, and their addresses hold their whole
//! state. The caller may provide [`Runs`], which start runs: [`Control`] then adds the pages for
//! that, behind a token.
#![forbid(unsafe_code)]

mod answer;
mod control;
mod control_pages;
mod data;
#[cfg(feature = "schema")]
mod description;
mod files;
mod frame;
mod links;
mod pages;
mod problem;
mod query;
pub mod reports;
mod response;
mod router;
mod runs;
mod server;
mod site;

pub use control::Control;
#[cfg(feature = "schema")]
pub use description::openapi;
pub use files::{WriteError, write_files};
pub use problem::Problem;
pub use router::{Hosts, router};
pub use runs::{Answers, Field, FieldKind, Planned, RunStatus, Runs, Section};
pub use server::{Limits, serve};
pub use site::Site;

#[cfg(test)]
mod control_tests;
#[cfg(test)]
mod tests;
