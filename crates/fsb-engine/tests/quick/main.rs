//! Files, counts and allocations of the engine.

#![expect(unsafe_code, reason = "an allocator that counts")]

mod allocations;
#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod flow;
mod postmark;
