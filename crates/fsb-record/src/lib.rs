//! Records the file calls of a program, or of one that runs already.
//!
//! A program that is started here stops only at file calls, by a seccomp filter, and otherwise runs at its own speed. A
//! program that already runs stops at every call. The recorder can examine the files while the program is stopped at
//! the beginning of a call, so it records the state that the call will find. With the rights for eBPF, calls that only
//! read, write or sync open files do not stop either: the kernel records them.
#![forbid(unsafe_code)]

mod child;
mod inspect;
mod recording;
mod syscalls;
mod tracer;

pub use child::{CHILD_ARGUMENT, child_main, program_of};
pub use recording::{Method, RecordRequest, Subject, record};
pub use tracer::{RecordError, RecordOutcome};
