//! The one error of this crate: what failed, what was tried, what to do next.

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Whose fault it is, and so how the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request is wrong (exit code 2).
    Request,
    /// The machine cannot: a tool, a privilege or space is missing (exit code 3).
    Machine,
    /// One target or trial failed; the others go on (exit code 4).
    Trial,
}

/// What failed, what was tried, what to do next. Parts that say nothing are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct TestbedError {
    /// Whose fault it is.
    pub kind: Kind,
    /// What failed.
    pub what: String,
    /// What was tried, with the answer.
    #[serde(default)]
    pub tried: String,
    /// What the user can do.
    #[serde(default)]
    pub advice: String,
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.tried.is_empty() {
            write!(f, ": {}", self.tried)?;
        }
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

impl TestbedError {
    fn new(kind: Kind, what: impl Into<String>) -> Self {
        TestbedError { kind, what: what.into(), tried: String::new(), advice: String::new() }
    }

    /// A wrong request.
    pub fn request(what: impl Into<String>) -> Self {
        TestbedError::new(Kind::Request, what)
    }

    /// Something that the machine cannot do.
    pub fn machine(what: impl Into<String>) -> Self {
        TestbedError::new(Kind::Machine, what)
    }

    /// Something that spoils one target or trial.
    pub fn trial(what: impl Into<String>) -> Self {
        TestbedError::new(Kind::Trial, what)
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

/// `Permission denied (EACCES)`: the kernel's sentence with its name, for those who search for it.
pub(crate) fn describe(error: &io::Error) -> String {
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let sentence = error.to_string();
    let sentence = sentence.split(" (os error").next().unwrap_or_default();
    match errno_name(code) {
        Some(name) => format!("{sentence} ({name})"),
        None => format!("{sentence} (error {code})"),
    }
}

/// `open /dev/sdb: Permission denied (EACCES)`.
pub(crate) fn attempt(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("{verb} {}: {}", path.display(), describe(error))
}

/// The names that file systems and devices answer with.
fn errno_name(code: i32) -> Option<&'static str> {
    let names = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::EIO, "EIO"),
        (libc::ENXIO, "ENXIO"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::EFBIG, "EFBIG"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EROFS, "EROFS"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::EUCLEAN, "EUCLEAN"),
        (libc::EDQUOT, "EDQUOT"),
        (libc::ELOOP, "ELOOP"),
    ];
    names.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_a_sentence() {
        let error = TestbedError::machine("cannot attach a loop device")
            .tried("open /dev/loop-control: Permission denied (EACCES)")
            .advice("run with sudo");
        assert_eq!(
            error.to_string(),
            "cannot attach a loop device: open /dev/loop-control: Permission denied (EACCES); run with sudo"
        );
        assert_eq!(TestbedError::trial("a").advice("b").to_string(), "a; b");
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<TestbedError>(&json).unwrap(), error);
    }

    #[test]
    fn kernel_errors_have_their_names() {
        assert_eq!(describe(&io::Error::from_raw_os_error(libc::EROFS)), "Read-only file system (EROFS)");
        assert_eq!(describe(&io::Error::other("plain")), "plain");
    }
}
