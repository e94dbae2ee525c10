//! What the engine writes, counts and allocates.

#![expect(unsafe_code, reason = "an allocator that counts")]

mod allocations;
#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod flow;
mod postmark;
