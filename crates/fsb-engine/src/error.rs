//! The errors of the engine: invalid workload parameters and refused system calls.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use fsb_model::ErrorCode;
use fsb_model::errno::{describe, describe_spawn};
use fsb_model::trial::{CORRUPTED, Reason};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The parameters of a requested workload are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("workload {workload}: {message}")]
pub struct ParamError {
    /// The name of the workload in the request.
    pub workload: String,
    /// The invalid parameter, if it is one.
    pub key: Option<String>,
    /// The fault, and the accepted values.
    pub message: String,
}

/// A step that could not be done: which call failed, on what, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// The whole sentence: `write to /mnt/f0001: No space left on device (ENOSPC)`.
    pub message: String,
    /// The kernel's error number, if a system call failed.
    pub errno: Option<i32>,
    /// The file or directory concerned.
    pub path: Option<PathBuf>,
    /// Whether the file system does not support the operation at all. Such a result counts neither
    /// as a failure nor as a measurement.
    #[serde(default)]
    pub inapplicable: bool,
    /// The name of the code of the reason, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl EngineError {
    /// Returns an error that no system call reported.
    pub fn new(message: impl Into<String>) -> EngineError {
        EngineError {
            message: message.into(),
            errno: None,
            path: None,
            inapplicable: false,
            code: None,
        }
    }

    /// Returns the name of the kernel's error, if a system call failed.
    pub fn errno_name(&self) -> Option<&'static str> {
        self.errno.and_then(fsb_model::errno::name)
    }

    /// Sets the code of the reason.
    pub fn coded(mut self, code: &'static ErrorCode) -> EngineError {
        self.code = Some(code.name.to_owned());
        self
    }

    /// A system call refused: `call` is a verb with its preposition, `write to`.
    pub fn call(call: impl Display, path: impl AsRef<Path>, errno: Errno) -> EngineError {
        let path = path.as_ref();
        let number = errno.raw_os_error();
        let message = format!("{call} {}: {}", path.display(), describe(number));
        EngineError {
            errno: Some(number),
            path: Some(path.to_owned()),
            ..EngineError::new(message)
        }
    }

    /// As [`EngineError::call`], where no file is concerned.
    pub fn system(call: impl Display, errno: Errno) -> EngineError {
        let number = errno.raw_os_error();
        EngineError {
            errno: Some(number),
            ..EngineError::new(format!("{call}: {}", describe(number)))
        }
    }

    /// A thread or a process was not made; `what` is a verb with its object, `start a thread`.
    pub(crate) fn spawn(what: impl Display, error: &io::Error) -> EngineError {
        EngineError {
            errno: error.raw_os_error(),
            ..EngineError::new(format!("{what}: {}", describe_spawn(error)))
        }
    }

    /// A file does not hold what was written to it; `offset` is the first byte that differs.
    pub fn corrupted(path: &Path, offset: u64, expected: u8, found: u8) -> EngineError {
        let message = format!(
            "corrupted: {} holds {found:#04x} at offset {offset}, where {expected:#04x} was written",
            path.display()
        );
        EngineError {
            path: Some(path.to_owned()),
            ..EngineError::new(message).coded(&CORRUPTED)
        }
    }

    /// As [`EngineError::call`], from the standard library's error.
    pub fn io(call: impl Display, path: impl AsRef<Path>, error: &io::Error) -> EngineError {
        match error.raw_os_error() {
            Some(number) => EngineError::call(call, path, Errno::from_raw_os_error(number)),
            None => {
                let message = format!("{call} {}: {error}", path.as_ref().display());
                EngineError {
                    path: Some(path.as_ref().to_owned()),
                    ..EngineError::new(message)
                }
            }
        }
    }
}

impl From<EngineError> for Reason {
    fn from(error: EngineError) -> Reason {
        let errno = error.errno_name().map(str::to_owned);
        Reason {
            text: error.message,
            code: error.code,
            errno,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_names_call_path_and_error() {
        let error = EngineError::call("write to", "/mnt/x/f0001", Errno::NOSPC);
        assert_eq!(
            error.to_string(),
            "write to /mnt/x/f0001: No space left on device (ENOSPC)"
        );
        assert_eq!(error.errno, Some(libc::ENOSPC));
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<EngineError>(&json).unwrap(), error);
    }
}
