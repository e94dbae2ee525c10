//! Files, counts and allocations of the engine.

mod allocations;
#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod flow;
mod postmark;
