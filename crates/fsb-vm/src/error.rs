//! The one error of this crate: what failed, what was tried, what to do next.

use std::fmt;
use std::io;
use std::path::Path;

/// Whose fault it is, and so how the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong (exit code 2).
    Request,
    /// The machine cannot: a tool, a kernel, a privilege or space is missing (exit code 3).
    Machine,
}

/// What failed, what was tried, what to do next. Parts that say nothing are empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct VmError {
    /// Whose fault it is.
    pub kind: Kind,
    /// What failed.
    pub what: String,
    /// What was tried, with the answer.
    pub tried: String,
    /// What the user can do.
    pub advice: String,
}

impl fmt::Display for VmError {
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

impl VmError {
    /// A wrong request.
    pub fn request(what: impl Into<String>) -> Self {
        VmError { kind: Kind::Request, what: what.into(), tried: String::new(), advice: String::new() }
    }

    /// Something that the machine cannot do.
    pub fn machine(what: impl Into<String>) -> Self {
        VmError { kind: Kind::Machine, ..VmError::request(what) }
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

/// `cannot read /boot/vmlinuz: Permission denied (os error 13)`, for a step that the operating system refused.
pub(crate) fn refused(verb: &str, path: &Path, error: impl Into<io::Error>) -> VmError {
    VmError::machine(format!("cannot {verb} {}", path.display())).tried(error.into().to_string())
}

/// What to do where the user's cache cannot be written.
pub(crate) fn cache_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or set XDG_CACHE_HOME to a directory with more of it"
        }
        _ => "set XDG_CACHE_HOME to a directory that you may write to",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_a_sentence() {
        let error = VmError::machine("no QEMU").tried("looked on PATH").advice("install it");
        assert_eq!(error.to_string(), "no QEMU: looked on PATH; install it");
        assert_eq!((error.kind, VmError::request("a").kind), (Kind::Machine, Kind::Request));
        let error = refused("read", Path::new("/x"), io::Error::from_raw_os_error(13));
        assert_eq!(error.to_string(), "cannot read /x: Permission denied (os error 13)");
    }
}
