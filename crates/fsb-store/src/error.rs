//! Errors of reading and writing run directories.

use std::io;
use std::path::{Path, PathBuf};

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error_codes;
use serde_json::error::Category;
use serde_json::{Map, Value};

/// An error of reading or writing a run directory.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file of the operation.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A file to read that is a device, a pipe or a directory, or is too large.
    #[error("cannot read {path}: {why}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason for the refusal.
        why: String,
    },
    /// The directory for a new run is not empty.
    #[error("{0} is not empty; {EMPTY_DIRECTORY}, or resume the run in it with --resume")]
    NotEmpty(PathBuf),
    /// A file is in the place of a directory.
    #[error("{0} is not a directory; {EMPTY_DIRECTORY}")]
    NotDirectory(PathBuf),
    /// Root would write in a directory that other users can change.
    #[error(
        "root does not write to {path}: {component} {why}, who could redirect root's writes; {}",
        help_of(advice)
    )]
    Untrusted {
        /// The path that root would write to.
        path: PathBuf,
        /// The component of the path that other users can change.
        component: PathBuf,
        /// The reason: `is writable by all users`.
        why: String,
        /// The remedy apart from the choice of another directory.
        advice: String,
    },
    /// The output file exists and belongs to another user.
    #[error("{0} belongs to another user: remove it, or name another path")]
    Planted(PathBuf),
    /// Another process writes to the run directory.
    #[error("{path} is in use{}: wait for it, or end it", if holder.is_empty() { String::new() } else { format!(" by {holder}") })]
    Busy {
        /// The run directory.
        path: PathBuf,
        /// The description that the other process wrote into the lock file; may be empty.
        holder: String,
    },
    /// The run directory was removed while the run wrote to it.
    #[error("{0} was deleted while the run wrote to it")]
    Deleted(PathBuf),
    /// The working directory is gone.
    #[error("cannot find {0}: the current directory was deleted; change to another one (cd)")]
    NoWorkingDirectory(PathBuf),
    /// Not a run directory.
    #[error("{0} is not a run directory: it holds no run.json; {RUN_DIRECTORIES}")]
    NoRun(PathBuf),
    /// A text that is not JSON, or JSON of another shape.
    #[error("{path}, line {line}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The message of the JSON parser, or of the line reader.
        message: String,
    },
    /// A line of a journal is not as it was written.
    #[error(
        "{path}, line {line}: the line was changed after it was written: its checksum is wrong or absent"
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
    },
    /// The file has the schema of another program.
    #[error("{path}, line {line}: schema is {found}, not {expected}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The schema that the file names.
        found: String,
        /// The schema that this program reads.
        expected: String,
    },
    /// The file has a format from before the first release.
    #[error(
        "{path} has a format from before the first release; {}",
        upgrade_of(results)
    )]
    Former {
        /// The file.
        path: PathBuf,
        /// The run directory or the page.
        results: PathBuf,
    },
    /// A newer fsb wrote the file.
    #[error(
        "{path} was written by a newer fsb: its schema is {found}, and this one reads up to {expected}; use that version"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema that the file names.
        found: String,
        /// The newest schema that this program reads.
        expected: String,
    },
    /// The data in a published page cannot be decoded.
    #[error("the data in {path} cannot be read: {why}")]
    DamagedPage {
        /// The page.
        path: PathBuf,
        /// The error of the decoder.
        why: String,
    },
    /// A value that JSON cannot hold.
    #[error("cannot encode the record: {0}")]
    Encode(String),
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        StoreError::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns `Refused` if the file is of a kind that cannot be read or is too large, and `Io` for
    /// every other error.
    pub(crate) fn input(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidInput
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::IsADirectory => StoreError::Refused {
                path: path.to_owned(),
                why: source.to_string(),
            },
            _ => StoreError::io("read", path, source),
        }
    }

    pub(crate) fn damaged_page(path: &Path, error: &io::Error) -> Self {
        StoreError::DamagedPage {
            path: path.to_owned(),
            why: error.to_string(),
        }
    }

    pub(crate) fn syntax(path: &Path, line: usize, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        // The parser counts lines from the start of its text, not of the file.
        let text = text
            .strip_suffix(&format!(
                " at line {} column {}",
                error.line(),
                error.column()
            ))
            .unwrap_or(&text);
        let message = match error.classify() {
            Category::Eof => format!("the file is cut off (column {})", error.column()),
            _ => format!("{text} (column {})", error.column()),
        };
        StoreError::Syntax {
            path: path.to_owned(),
            line: line.max(1),
            message,
        }
    }
}

/// The remedy for [`StoreError::NoRun`].
const RUN_DIRECTORIES: &str = "name the directory of a run, such as one in fsb-results";
/// The remedy for [`StoreError::Syntax`] and [`StoreError::Checksum`].
const RESTORE: &str = "restore the file from a copy of the run directory; its report.html, if there is one, has the results";
/// The remedy for [`StoreError::NotDirectory`].
pub const EMPTY_DIRECTORY: &str = "name a new or an empty directory with --out";

/// Returns the remedy for [`StoreError::Former`].
fn upgrade_of(results: &Path) -> String {
    format!(
        "convert it with 'scripts/upgrade-results {}' from the source of fsb",
        results.display()
    )
}

/// Returns the remedy for [`StoreError::Untrusted`].
fn help_of(advice: &str) -> String {
    format!("name a place below a directory that only root can write to, or {advice}")
}

error_codes! {
    IO = "store/io", code::MACHINE, "The kernel refused to read or write a file.", "Follow the kernel's answer in the message; the field errno names it.";
    REFUSED = "store/not-a-file", code::REQUEST, "The file to read is a device, a pipe, a directory, or too large.", "Name a regular file.";
    NOT_EMPTY = "store/not-empty", code::REQUEST, "The directory for a new run is not empty.", "Name a new directory with --out, or resume the run in it with --resume.";
    NOT_DIRECTORY = "store/not-a-directory", code::REQUEST, "The path of the directory for a new run is a file.", "Name a new directory with --out.";
    UNTRUSTED = "store/directory-writable-by-others", code::REQUEST, "Root would write below a directory that other users can change.", "Name a place below a directory that only root can write to.";
    PLANTED = "store/not-own-file", code::REQUEST, "The output file exists and belongs to another user.", "Remove the file, or name another.";
    BUSY = "store/busy", code::MACHINE, "Another process writes to the run directory.", "Wait for that process, or end it.";
    DELETED = "store/deleted", code::MACHINE, "The run directory was deleted during the run.", "Do not delete the directory before the run ends.";
    NO_WORKING_DIRECTORY = "store/no-working-directory", code::REQUEST, "The current directory was deleted.", "Change to another directory.";
    NO_RUN = "store/no-run", code::REQUEST, "The directory holds no run.", "Name a directory with run.json in it.";
    SYNTAX = "store/syntax", code::REQUEST, "A file of the run is not JSON, or JSON of another shape.", "Restore the file; the fields path and line name the place.";
    CHECKSUM = "store/checksum", code::REQUEST, "A line of trials.jsonl was changed after it was written.", "Restore the file; the fields path and line name the place.";
    SCHEMA = "store/other-schema", code::REQUEST, "The file has the schema of another program.", "Name a file of fsb.";
    FORMER = "store/former-format", code::REQUEST, "The file has a format from before the first release.", "Convert it with scripts/upgrade-results, which is in the source of fsb.";
    NEWER = "store/newer", code::REQUEST, "A newer fsb wrote the file.", "Use that version of fsb.";
    DAMAGED_PAGE = "store/damaged-page", code::REQUEST, "The run in a published page is cut off or damaged.", "Get the page again, or use the run directory.";
    ENCODE = "store/encode", code::MACHINE, "A value of the record cannot be written as JSON.", "Report this as a bug.";
}

impl Coded for StoreError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            StoreError::Io { .. } => &IO,
            StoreError::Refused { .. } => &REFUSED,
            StoreError::NotEmpty(_) => &NOT_EMPTY,
            StoreError::NotDirectory(_) => &NOT_DIRECTORY,
            StoreError::Untrusted { .. } => &UNTRUSTED,
            StoreError::Planted(_) => &PLANTED,
            StoreError::Busy { .. } => &BUSY,
            StoreError::Deleted(_) => &DELETED,
            StoreError::NoWorkingDirectory(_) => &NO_WORKING_DIRECTORY,
            StoreError::NoRun(_) => &NO_RUN,
            StoreError::Syntax { .. } => &SYNTAX,
            StoreError::Checksum { .. } => &CHECKSUM,
            StoreError::Schema { .. } => &SCHEMA,
            StoreError::Former { .. } => &FORMER,
            StoreError::Newer { .. } => &NEWER,
            StoreError::DamagedPage { .. } => &DAMAGED_PAGE,
            StoreError::Encode(_) => &ENCODE,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        let path = |path: &Path| ("path", path.to_string_lossy().into());
        let text = |text: &String| Value::from(text.as_str());
        match self {
            StoreError::Io { what, path: of, .. } => {
                code::fields([path(of), ("call", (*what).into())])
            }
            StoreError::Refused { path: of, .. }
            | StoreError::DamagedPage { path: of, .. }
            | StoreError::NotEmpty(of)
            | StoreError::NotDirectory(of)
            | StoreError::Planted(of)
            | StoreError::Deleted(of)
            | StoreError::NoWorkingDirectory(of)
            | StoreError::NoRun(of) => code::fields([path(of)]),
            StoreError::Untrusted {
                path: of,
                component,
                ..
            } => code::fields([path(of), ("component", component.to_string_lossy().into())]),
            StoreError::Busy { path: of, holder } => {
                code::fields([path(of), ("holder", text(holder))])
            }
            StoreError::Syntax { path: of, line, .. } | StoreError::Checksum { path: of, line } => {
                code::fields([path(of), ("line", (*line).into())])
            }
            StoreError::Schema {
                path: of,
                line,
                found,
                expected,
            } => code::fields([
                path(of),
                ("line", (*line).into()),
                ("found", text(found)),
                ("expected", text(expected)),
            ]),
            StoreError::Former { path: of, .. } => code::fields([path(of)]),
            StoreError::Newer {
                path: of,
                found,
                expected,
            } => code::fields([
                path(of),
                ("found", text(found)),
                ("expected", text(expected)),
            ]),
            StoreError::Encode(_) => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            StoreError::Untrusted { advice, .. } => Some(help_of(advice)),
            StoreError::Former { results, .. } => Some(upgrade_of(results)),
            StoreError::NoRun(_) => Some(RUN_DIRECTORIES.to_owned()),
            StoreError::Syntax { .. } | StoreError::Checksum { .. } => Some(RESTORE.to_owned()),
            StoreError::NotDirectory(_) => Some(EMPTY_DIRECTORY.to_owned()),
            StoreError::NotEmpty(_) => Some(format!(
                "{EMPTY_DIRECTORY}, or resume the run in it with --resume"
            )),
            _ => None,
        }
    }
}
