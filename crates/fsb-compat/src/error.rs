//! Why a file could not be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be read, and what was tried.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {problem}", name(.path.as_deref()))]
pub struct ReadError {
    /// The file; absent where a reader was given bytes.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The kernel said no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No byte.
    #[error("it is empty")]
    Empty,
    /// Two bytes a character, as some shells of Windows write.
    #[error("it is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8 FILE > NEW")]
    Utf16,
    /// No reader knows it.
    #[error("{kind} that no tool known here wrote; tried {tried}")]
    Unknown {
        /// What it looks like: `text`, `binary data`.
        kind: &'static str,
        /// Each tool and what it looked for.
        tried: String,
    },
    /// A tool's output without results, or in a form that is not read.
    #[error("it looks like output of {tool}, but {why}")]
    Refused {
        /// The tool.
        tool: &'static str,
        /// What is missing, and what to do.
        why: String,
    },
}

impl ReadError {
    /// A refusal by one tool.
    pub(crate) fn refused(tool: &'static str, why: impl Into<String>) -> ReadError {
        Problem::Refused { tool, why: why.into() }.into()
    }

    /// The same, about a file.
    pub(crate) fn of(self, path: &Path) -> ReadError {
        ReadError { path: Some(path.to_owned()), ..self }
    }
}

impl<P: Into<Problem>> From<P> for ReadError {
    fn from(problem: P) -> ReadError {
        ReadError { path: None, problem: problem.into() }
    }
}

fn name(path: Option<&Path>) -> String {
    path.map_or_else(|| "the input".to_owned(), |path| path.display().to_string())
}
