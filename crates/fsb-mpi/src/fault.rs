//! Ranks that fail on purpose. Builds without the feature `faults` do not contain them.

/// Fails if `FSB_MPI_FAULT` is `RANK:TRIAL:KIND` with this rank and this trial, from 0. KIND is `kill`, `hang` (the rank
/// stops) or `abort` (it calls MPI_Abort).
#[cfg(feature = "faults")]
pub(crate) fn strike(communicator: &dyn crate::communicator::Communicator, trial: u32) {
    use rustix::process::{Signal, getpid, kill_process};
    let Ok(fault) = std::env::var("FSB_MPI_FAULT") else { return };
    let kind = fault.strip_prefix(&format!("{}:{trial}:", communicator.rank()));
    let _ = match kind {
        Some("kill") => kill_process(getpid(), Signal::KILL),
        Some("hang") => kill_process(getpid(), Signal::STOP),
        Some("abort") => {
            communicator.abort(9);
            Ok(())
        }
        _ => Ok(()),
    };
}

/// Does nothing.
#[cfg(not(feature = "faults"))]
pub(crate) fn strike(_communicator: &dyn crate::communicator::Communicator, _trial: u32) {}
