//! Other tools: their options, scripts, results and reports. Each tool has a module.
//!
//! [`TOOLS`] is the registry of the tools whose results can be read; [`read_file`] finds the tool
//! that wrote a file. The readers share lines of bounded length, numbers with their locale, and the
//! draft that a reader fills. `skeleton.rs` is a commented tool to copy.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod benas;
mod bonnie;
mod dbench;
mod dlio;
mod draft;
mod elbencho;
pub mod export;
pub mod fedorchuk;
pub mod filebench;
pub mod fio;
mod fs_mark;
pub mod horvath;
mod hyperfine;
mod identify;
mod io500;
mod ioping;
mod ior;
pub mod iozone;
mod json;
mod kdiskmark;
mod label;
mod mdtest;
mod message;
mod options;
mod percentile;
mod pgbench;
mod phoronix;
pub mod pokorny;
pub mod postmark;
mod registry;
#[cfg(test)]
mod skeleton;
mod smallfile;
mod stress_ng;
mod sysbench;
mod text;
mod tool;

pub use fio::executions;
pub use identify::FileKind;
pub use iozone::operation;
pub use registry::{
    BUILT_IN, TOOLS, built_in, identify, identify_file, read_execution, read_file, tool_titles,
};
pub use tool::{BuiltIn, CODES, Problem, ReadError, Tool};
