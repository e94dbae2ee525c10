//! What can be wrong with a run directory.

use std::io;
use std::path::{Path, PathBuf};

/// What can be wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The kernel said no.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file that is given to read and is none that can be: a device, a pipe, or too large.
    #[error("cannot read {path}: {why}")]
    Refused {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// The directory for a new run holds something.
    #[error("{0} is not empty: name a new or an empty directory with --out, or go on with the run in it by --resume")]
    NotEmpty(PathBuf),
    /// Root would write where somebody else can interfere.
    #[error(
        "root writes nothing below {component}: {why}, and who may exchange what lies there decides where root writes \
         ({path} was named): name another place (--out, -o), below directories that only root may write to; or {advice}"
    )]
    Untrusted {
        /// What was named.
        path: PathBuf,
        /// The part of it that is not root's alone.
        component: PathBuf,
        /// Whose it is, or who may write to it.
        why: String,
        /// What else helps.
        advice: String,
    },
    /// Something that this program did not make stands where it would write.
    #[error("{0} is not this user's own file: remove it, or name another place")]
    Planted(PathBuf),
    /// Another process writes there.
    #[error("{path} is in use{}: wait for it, or end it", if holder.is_empty() { String::new() } else { format!(" by {holder}") })]
    Busy {
        /// The run directory.
        path: PathBuf,
        /// What it said of itself.
        holder: String,
    },
    /// The run directory was removed while the run wrote to it.
    #[error("{0} was deleted while the run wrote to it")]
    Deleted(PathBuf),
    /// The working directory is gone.
    #[error("{0} cannot be found: the current directory was deleted. Change to another one (cd)")]
    NoWorkingDirectory(PathBuf),
    /// Not a run directory.
    #[error("{0} is no run directory: it holds no run.json")]
    NoRun(PathBuf),
    /// Text that is no JSON, or JSON of another shape.
    #[error("{path}, line {line}: {message}")]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// Another kind of file.
    #[error("{path}, line {line}: schema is {found}, not {expected}")]
    Schema {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What it says.
        found: String,
        /// What this program reads.
        expected: String,
    },
    /// A newer program's file.
    #[error("{path} was written by a newer fsb (schema {found}; this one reads up to {expected}): use that one")]
    Newer {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What this program reads.
        expected: String,
    },
    /// A value that JSON cannot hold.
    #[error("cannot encode the record: {0}")]
    Encode(String),
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        StoreError::Io { what, path: path.to_owned(), source }
    }

    /// What was to be read and could not be: by its own fault, or by the kernel's.
    pub(crate) fn input(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge | io::ErrorKind::IsADirectory => {
                StoreError::Refused { path: path.to_owned(), why: source.to_string() }
            }
            _ => StoreError::io("read", path, source),
        }
    }

    pub(crate) fn syntax(path: &Path, line: usize, error: &serde_json::Error) -> Self {
        StoreError::Syntax { path: path.to_owned(), line: line.max(1), message: error.to_string() }
    }
}
