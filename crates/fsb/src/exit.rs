//! Exit codes: all of them, and which failure gets which.

use std::io;
use std::process::ExitCode;

use fsb_model::errno;
use fsb_runner::agent::AgentError;
use fsb_runner::plan_file::PlanError;
use fsb_runner::run::RunError;
use fsb_store::StoreError;
use fsb_testbed::{Kind, TestbedError};

/// Done.
pub const DONE: u8 = 0;
/// A gate that was asked for failed: a set is slower than the baseline.
pub const GATE: u8 = 1;
/// The request is wrong.
pub const REQUEST: u8 = 2;
/// The machine cannot: a tool, a privilege or space is missing.
pub const MACHINE: u8 = 3;
/// Some trials failed; the rest is saved and reported.
pub const TRIALS: u8 = 4;
/// Interrupted by Ctrl-C.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGHUP: the terminal is gone.
pub const HUNG_UP: u8 = 129;
/// Ended by SIGTERM.
pub const TERMINATED: u8 = 143;

/// An error with the code it ends the program with.
#[derive(Debug)]
pub struct Failure {
    /// One of the constants above.
    pub code: u8,
    /// What failed, what was tried, what to do next.
    pub message: String,
}

impl Failure {
    /// Whether who typed the request may type another one: nothing has ended the program.
    pub fn may_be_tried_again(&self) -> bool {
        matches!(self.code, REQUEST | MACHINE)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A request that makes no sense.
pub fn request(message: impl Into<String>) -> anyhow::Error {
    Failure { code: REQUEST, message: message.into() }.into()
}

/// Something that the machine cannot do.
pub fn machine(message: impl Into<String>) -> anyhow::Error {
    Failure { code: MACHINE, message: message.into() }.into()
}

/// Prints the error and gives its code. A reader that closed the pipe has what it wanted: that is success.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    crate::stderr::say(&format!("fsb: {}", describe(error)));
    ExitCode::from(code(error))
}

/// The error with its causes. Those that it has told itself are not told again.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(essence(&cause)) {
            text = format!("{text}: {cause}");
        }
    }
    match errno::advice_on_limits(&text).filter(|advice| !text.contains(advice)) {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

/// Without the number that the kernel's errors have beside their words.
fn essence(cause: &str) -> &str {
    cause.split_once(" (os error").map_or(cause, |(words, _)| words)
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The code for an error, by what is deepest in it.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(known).unwrap_or(MACHINE)
}

fn known(error: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return Some(failure.code);
    }
    if let Some(error) = error.downcast_ref::<PlanError>() {
        return Some(if matches!(error, PlanError::Machine(_)) { MACHINE } else { REQUEST });
    }
    if let Some(error) = error.downcast_ref::<TestbedError>() {
        return Some(of_kind(error.kind));
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return Some(of_store(error));
    }
    match error.downcast_ref::<RunError>()? {
        RunError::Agent(AgentError::Refused(error)) => Some(of_kind(error.kind)),
        RunError::Agent(AgentError::Interrupted) => Some(INTERRUPTED),
        RunError::Agent(AgentError::Gone(_)) | RunError::Journal(_) => Some(MACHINE),
        RunError::OtherDevice(_) | RunError::OtherKernel(_) | RunError::Budget(_) => Some(REQUEST),
    }
}

fn of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::Io { .. } | StoreError::Encode(_) | StoreError::Busy { .. } | StoreError::Deleted(_) => MACHINE,
        _ => REQUEST,
    }
}

fn of_kind(kind: Kind) -> u8 {
    match kind {
        Kind::Request => REQUEST,
        Kind::Machine => MACHINE,
        Kind::Trial => TRIALS,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let source = io::Error::from_raw_os_error(27);
        let error = StoreError::Io { what: "write", path: PathBuf::from("run/run.json"), source };
        let error = anyhow::Error::new(error);
        assert_eq!(describe(&error), "cannot write run/run.json: File too large (os error 27)");
        let source = io::Error::from_raw_os_error(24);
        let error = anyhow::Error::new(StoreError::Io { what: "open", path: PathBuf::from("/"), source });
        let advised = "raise the limit on open files: ulimit -n 1024";
        assert_eq!(describe(&error), format!("cannot open /: Too many open files (os error 24); {advised}"));
        let advised = "cannot use a: Permission denied (EACCES); name another";
        let error = Err::<(), _>(io::Error::from_raw_os_error(13)).context(advised).unwrap_err();
        assert_eq!(describe(&error), advised);
        let error = Err::<(), _>(io::Error::other("it is gone")).context("cannot read a").unwrap_err();
        assert_eq!(describe(&error), "cannot read a: it is gone");
    }
}
