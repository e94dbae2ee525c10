//! Other tools: their options, scripts, results and reports. Each tool has a module.
//!
//! [`TOOLS`] is the registry of the tools whose results can be read; [`read_file`] finds the tool that wrote a file.
//! The readers share lines of bounded length, numbers with their locale, and the draft that a reader fills.
//! `skeleton.rs` is a commented tool to copy.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod benas;
mod bonnie;
mod draft;
pub mod export;
pub mod fedorchuk;
pub mod filebench;
pub mod fio;
pub mod horvath;
mod identify;
mod io500;
mod ior;
pub mod iozone;
mod mdtest;
mod phoronix;
pub mod pokorny;
pub mod postmark;
mod registry;
#[cfg(test)]
mod skeleton;
mod sysbench;
mod text;
mod tool;

pub use identify::FileKind;
pub use iozone::operation;
pub use registry::{TOOLS, identify, identify_file, read_file};
pub use tool::{CODES, Problem, ReadError, Tool};
