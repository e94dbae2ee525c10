//! From a plan to blocks and trials.
//!
//! The runner decides the order and the number of all steps, and changes nothing itself. Agents own
//! testbeds and conduct trials there. Workers do the file work. Observers receive each trial as an
//! event after the trial is on disk.

#![forbid(unsafe_code)]

pub mod agent;
pub mod event;
mod injected;
mod keeping;
mod lines;
pub mod matrix;
mod memory;
pub mod order;
pub mod plan_file;
mod planner;
pub mod resume;
pub mod scale;
pub mod schedule;
pub mod shipped_plan;
pub mod suite;
pub mod sweep;
pub mod target_file;
pub mod values;
#[cfg(feature = "vm")]
pub mod vm;
#[cfg(not(feature = "vm"))]
#[path = "vm_absent.rs"]
pub mod vm;
pub mod wall_clock;
pub mod work;
pub mod worker;

/// Returns the error codes of this crate.
pub fn codes() -> impl Iterator<Item = &'static fsb_model::ErrorCode> {
    plan_file::CODES.iter().chain(schedule::CODES).copied()
}
