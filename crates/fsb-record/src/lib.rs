//! Records the file calls of a program, or of one that runs already.
//!
//! A program that is started here stops at file calls only, by a seccomp filter, and everything else runs at its own speed. One
//! that runs already stops at every call. While it stands at the beginning of a call the files can be looked at: what is
//! written down of them is what the call will find. With the rights for eBPF, calls that only read, write or sync what is
//! open do not stop either: the kernel writes them down.
#![forbid(unsafe_code)]

mod child;
mod cost;
mod memory;
mod processes;
mod recording;
mod rounds;
mod syscalls;
mod task;
mod tracer;
mod world;

pub use child::{CHILD_ARGUMENT, child_main, program_of};
pub use recording::{Method, Request, Subject, record};
pub use tracer::{Outcome, RecordError};
