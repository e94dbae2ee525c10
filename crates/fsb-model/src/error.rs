//! The error that tells a user what failed, what was tried and what to do next. It crosses the agents' protocol.
//!
//! `fsb-testbed` and `fsb-vm` have it under names of their own, so that it is seen where an error is from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::errno::advice_on_limits;

/// Whose fault it is, and so how the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request is wrong (exit code 2).
    Request,
    /// The machine cannot: a tool, a kernel, a privilege or space is missing (exit code 3).
    Machine,
    /// One target or trial failed; the others go on (exit code 4).
    Trial,
}

/// What failed, what was tried, what to do next. Parts that say nothing are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Error {
    /// Whose fault it is.
    pub kind: Kind,
    /// What failed.
    pub what: String,
    /// What was tried, with the answer.
    #[serde(default)]
    pub tried: String,
    /// Advice to the user, unless a limit on open files is the cause.
    #[serde(default)]
    pub advice: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.tried.is_empty() {
            write!(f, ": {}", self.tried)?;
        }
        match advice_on_limits(&self.tried).unwrap_or(&self.advice) {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

impl Error {
    fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), tried: String::new(), advice: String::new() }
    }

    /// A wrong request.
    pub fn request(what: impl Into<String>) -> Self {
        Error::new(Kind::Request, what)
    }

    /// Something that the machine cannot do.
    pub fn machine(what: impl Into<String>) -> Self {
        Error::new(Kind::Machine, what)
    }

    /// Something that spoils one target or trial.
    pub fn trial(what: impl Into<String>) -> Self {
        Error::new(Kind::Trial, what)
    }

    /// The same with what was tried.
    pub fn tried(mut self, tried: impl Into<String>) -> Self {
        self.tried = tried.into();
        self
    }

    /// The same with what the user can do.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_too_many_has_the_advice_on_limits() {
        let error = Error::machine("the lock cannot be taken")
            .tried("use /run/fsb/concurrent: Too many open files (EMFILE)")
            .advice("look at that file and remove it");
        let text = error.to_string();
        assert!(text.ends_with("(EMFILE); raise the limit on open files: ulimit -n 1024"), "{text}");
    }

    #[test]
    fn an_error_reads_as_a_sentence() {
        let error = Error::machine("cannot attach a loop device")
            .tried("open /dev/loop-control: Permission denied (EACCES)")
            .advice("run with sudo");
        assert_eq!(
            error.to_string(),
            "cannot attach a loop device: open /dev/loop-control: Permission denied (EACCES); run with sudo"
        );
        assert_eq!(Error::trial("a").advice("b").to_string(), "a; b");
        let kinds = [Error::request("a").kind, error.kind, Error::trial("a").kind];
        assert_eq!(kinds, [Kind::Request, Kind::Machine, Kind::Trial]);
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&json).unwrap(), error);
    }
}
