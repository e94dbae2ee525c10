//! The engine's system calls, as strace shows them, and its behaviour on real file systems.

#![expect(unsafe_code, reason = "ioctls")]

#[macro_use]
extern crate fsb_testkit;

#[path = "../common/mod.rs"]
mod common;
mod files;
mod syscalls;
