//! What a run found, assembled once and shown in many forms.
//!
//! [`View::of_run`] turns a run record and its trials into everything that is ever shown: estimates, ratios with
//! intervals, verdicts, letters, latencies, costs, warnings, the environment and the method. The members of
//! [`FORMATS`] only lay it out. [`compare`] does the same for sets of results, ours or imported. Nothing here reads a
//! file or prints.
#![forbid(unsafe_code)]

pub mod compare;
mod format;
mod page;
mod releases;
mod screen;
pub mod show;
mod tally;
pub mod view;
pub mod visible;

pub use format::{FORMATS, Format, csv, find, html, json, markdown, terminal};
pub use releases::Releases;
pub use view::View;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

#[cfg(test)]
#[path = "../tests/sample_sets/mod.rs"]
mod sample_sets;
