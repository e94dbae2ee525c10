//! Measures one file system from many clients, which are the ranks of an MPI job.
//!
//! Rank 0 coordinates. Every rank does its part of a phase ([`suite`]) between two barriers, and
//! rank 0 makes the trial of all parts. The results are an ordinary run directory.
//!
//! The calls between ranks are a trait, [`communicator::Communicator`]. MPI implements it in builds
//! with the feature `mpi`. [`threads`] implements it in one process, for tests and
//! [simulations](simulation).

pub mod cleaner;
mod clock;
pub mod communicator;
pub mod job;
mod layout;
#[cfg(feature = "mpi")]
pub mod mpi;
mod record;
pub mod simulation;
pub mod suite;
pub mod text;
pub mod threads;
pub mod watch;
mod work;
