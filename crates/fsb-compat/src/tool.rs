//! The registry entry of a tool, and the errors of reading its output.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::set::Run;
use fsb_model::{errno, error_codes};
use serde_json::{Map, Value};

/// A tool whose results can be read.
pub struct Tool {
    /// The name in lower case, as in [`Run::tool`].
    pub name: &'static str,
    /// The name in texts, such as `IOzone`.
    pub title: &'static str,
    /// One line of help: which versions and modes.
    pub about: &'static str,
    /// The feature that [`Tool::recognise`] looks for, for the message if no tool recognizes the
    /// file.
    pub looks_for: &'static str,
    /// The units as printed. More is better unless the text says otherwise.
    pub values: &'static str,
    /// The part of the output that is one run.
    pub repetition: &'static str,
    /// Whether a file that starts with these bytes (at most 64 KiB) is its output.
    pub recognise: fn(&[u8]) -> bool,
    /// Reads the results: one run for each execution that the input holds. Paths are left empty.
    ///
    /// # Errors
    /// Fails if the input has no result, and names the missing part.
    pub read: fn(&mut dyn BufRead) -> Result<Vec<Run>, ReadError>,
}

/// Published results that the program contains. They are read as files are, by the path
/// `NAME[/PART…]`.
pub struct BuiltIn {
    /// The name in lower case.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Returns the names of the parts that can be read alone.
    pub parts: fn() -> Vec<&'static str>,
    /// Reads the runs of these parts; of all without any. Paths are left empty.
    ///
    /// # Errors
    /// Fails if these parts have no values in common.
    pub(crate) read: fn(&[&str]) -> Result<Vec<Run>, ReadError>,
}

/// An error of reading the output of a tool: the file and the problem.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {problem}", name(.path.as_deref()))]
pub struct ReadError {
    /// The file; `None` if a reader was given bytes.
    pub path: Option<PathBuf>,
    /// The problem with the file.
    pub problem: Problem,
}

/// A problem with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The kernel returned an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file has no bytes.
    #[error("it is empty")]
    Empty,
    /// Two bytes a character, as some shells of Windows write.
    #[error("it is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8 FILE > NEW")]
    Utf16,
    /// No reader recognizes it.
    #[error("none of {tried} readers recognizes this {kind}; {READERS}")]
    Unknown {
        /// The kind of content: `text`, `binary data`.
        kind: &'static str,
        /// The number of tools.
        tried: usize,
    },
    /// A file of a known kind that is not read.
    #[error("it is {kind}; {remedy}")]
    Unread {
        /// A noun phrase with the kind.
        kind: String,
        /// The way to a file that is read.
        remedy: String,
    },
    /// Lines with a label in front of the output of a tool.
    #[error("its lines begin with a label such as '{example}'; remove the labels first: {command}")]
    Labelled {
        /// A label.
        example: String,
        /// The command that removes them.
        command: String,
    },
    /// A tool's output without results, or in a form that is not read.
    #[error("it looks like output of {tool}, but {why}")]
    Refused {
        /// The tool.
        tool: &'static str,
        /// The reason, with a remedy where there is one.
        why: String,
    },
}

/// The remedy for [`Problem::Unknown`].
const READERS: &str = "'fsb list tools' shows the output that each reads";

impl ReadError {
    /// Returns the error of a tool that refuses the file.
    pub(crate) fn refused(tool: &'static str, why: impl Into<String>) -> ReadError {
        Problem::Refused {
            tool,
            why: why.into(),
        }
        .into()
    }

    /// Returns whether the file was read, and holds no results.
    pub(crate) fn is_about_contents(&self) -> bool {
        matches!(self.problem, Problem::Empty | Problem::Refused { .. })
    }

    /// Adds the path of the file.
    pub(crate) fn at(self, path: &Path) -> ReadError {
        ReadError {
            path: Some(path.to_owned()),
            ..self
        }
    }
}

impl<P: Into<Problem>> From<P> for ReadError {
    fn from(problem: P) -> ReadError {
        ReadError {
            path: None,
            problem: problem.into(),
        }
    }
}

fn name(path: Option<&Path>) -> String {
    path.map_or_else(|| "the input".to_owned(), |path| path.display().to_string())
}

error_codes! {
    UNREADABLE = "compare/unreadable", code::REQUEST, "A file of results cannot be read.", "Check the path and its permissions.";
    EMPTY = "compare/empty", code::REQUEST, "A file of results is empty.", "Name another file.";
    UTF16 = "compare/utf-16", code::REQUEST, "A file of results is UTF-16 text.", "Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW.";
    UNKNOWN_TOOL = "compare/unknown-tool", code::REQUEST, "No known tool wrote the file of results.", "Use a tool of fsb list tools.";
    UNREAD_FORM = "compare/unread-form", code::REQUEST, "A file of results is of a known kind that fsb compare does not read.", "Use the command or the form that the message names.";
    LABELLED_LINES = "compare/labelled-lines", code::REQUEST, "Each line of a file of results begins with a label, such as a rank or the time.", "Remove the labels with the command of the message.";
    TOOL_REFUSED = "compare/no-results", code::REQUEST, "A tool's output holds no results that fsb reads.", "Run the tool with the options that the message names.";
}

impl Coded for ReadError {
    fn code(&self) -> &'static ErrorCode {
        match self.problem {
            Problem::Io(_) => &UNREADABLE,
            Problem::Empty => &EMPTY,
            Problem::Utf16 => &UTF16,
            Problem::Unknown { .. } => &UNKNOWN_TOOL,
            Problem::Unread { .. } => &UNREAD_FORM,
            Problem::Labelled { .. } => &LABELLED_LINES,
            Problem::Refused { .. } => &TOOL_REFUSED,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        let path = self
            .path
            .iter()
            .map(|path| ("path".to_owned(), path.to_string_lossy().into()));
        let name = if let Problem::Io(error) = &self.problem {
            errno::name_of(error)
        } else {
            None
        };
        path.chain(name.map(|name| ("errno".to_owned(), name.into())))
            .collect()
    }

    fn help(&self) -> Option<String> {
        matches!(self.problem, Problem::Unknown { .. }).then(|| READERS.to_owned())
    }
}
