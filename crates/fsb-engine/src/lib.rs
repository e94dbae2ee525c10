//! The hot path: workloads, backends, file sets, the clock and latency histograms.
//!
//! A [`Task`] is one step of one trial: *prepare* makes the files, *measure* times the work,
//! *cleanup* removes the files. Each step may run in a process of its own, and the three share no
//! memory. The name and the content of a file follow from the workload, the seed and the file's
//! number alone. [`worker::perform`] does one step.
//!
//! Two families live here, [`workload`] (what is done) and [`backend`] (how a call reaches the
//! kernel). Between the first and the last timed call nothing allocates, locks, logs or formats,
//! and nothing here ever prints.

#![cfg_attr(
    not(all(feature = "emulations", feature = "traces")),
    allow(
        dead_code,
        reason = "some calls serve only the parts that this build leaves out"
    )
)]
#![expect(unsafe_code, reason = "backends call the kernel and the C library")]

pub mod backend;
#[cfg(feature = "emulations")]
pub mod classic;
mod clock;
mod data;
mod error;
mod fileset;
mod hash;
mod io_loop;
pub mod latency;
mod memory;
mod order;
pub mod postmark;
mod processes;
mod profile;
mod rendezvous;
mod task;
mod thread_recorder;
mod threads;
mod walk;
pub mod worker;
pub mod workload;

pub use error::{EngineError, ParamError};
pub use fileset::EXAMINED_FILES;
pub use hash::mix;
pub use profile::{Profile, ProgramNeeds, Renewal};
pub use task::{
    ClockSpec, Context, Gate, Live, Measurement, Rate, Ready, Sizing, Step, StepReport, Stonewall,
    Stop, Task, Units, WOULD_WAIT,
};
pub use threads::measured_by_agent;
pub use worker::repeat;
pub use workload::{Job, WorkUnit, Workload};
