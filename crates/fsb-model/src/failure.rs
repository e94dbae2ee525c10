//! An error of a request or of the machine, with its code, its exit code and its remedy.

use std::io;

use serde_json::{Map, Value};

use crate::code::{self, Coded, ErrorCode, MACHINE, REQUEST};
use crate::errno;

/// An error of the program itself, with its code.
#[derive(Debug)]
pub struct Failure {
    /// The code that programs match.
    pub code: &'static ErrorCode,
    /// The exit code: one of the constants above.
    pub exit: u8,
    /// The text: what failed, what was tried, what to do next.
    pub message: String,
    /// The subject of the message for programs: `path`, `line`.
    pub fields: Map<String, Value>,
    /// The remedy, if it is more specific than that of the code.
    pub help: Option<String>,
}

impl Failure {
    /// Returns a failure with the exit code of its code.
    pub fn new(code: &'static ErrorCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            exit: code.exit,
            message: message.into(),
            fields: Map::new(),
            help: None,
        }
    }

    fn advised(
        code: &'static ErrorCode,
        message: impl std::fmt::Display,
        help: impl Into<String>,
    ) -> Failure {
        let help = help.into();
        Failure {
            help: Some(help.clone()),
            ..Failure::new(code, format!("{message}; {help}"))
        }
    }

    /// Adds the name of the kernel's error as the field `errno`.
    pub fn caused_by(mut self, cause: &io::Error) -> Failure {
        if let Some(name) = errno::name_of(cause) {
            self.fields.insert("errno".to_owned(), name.into());
        }
        self
    }

    /// Returns whether the user may type another request: the error does not end the program.
    pub fn may_be_tried_again(&self) -> bool {
        matches!(self.exit, REQUEST | MACHINE)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Coded for Failure {
    fn code(&self) -> &'static ErrorCode {
        self.code
    }

    fn fields(&self) -> Map<String, Value> {
        self.fields.clone()
    }

    fn help(&self) -> Option<String> {
        self.help.clone()
    }
}

/// Returns an error with a code and a message.
pub fn error(code: &'static ErrorCode, message: impl Into<String>) -> anyhow::Error {
    Failure::new(code, message).into()
}

/// Returns an error with a code, a message and fields for programs.
pub fn about<const N: usize>(
    code: &'static ErrorCode,
    fields: [(&str, Value); N],
    message: impl Into<String>,
) -> anyhow::Error {
    Failure {
        fields: code::fields(fields),
        ..Failure::new(code, message)
    }
    .into()
}

/// Returns an error with a code and a message that quotes the kernel's error, which the field
/// `errno` names.
pub fn failed_call(
    code: &'static ErrorCode,
    cause: &io::Error,
    message: impl Into<String>,
) -> anyhow::Error {
    Failure::new(code, message).caused_by(cause).into()
}

/// Returns an error with a code, a message that quotes the kernel's error, and its remedy.
pub fn advised_call(
    code: &'static ErrorCode,
    cause: &io::Error,
    message: impl std::fmt::Display,
    help: impl Into<String>,
) -> anyhow::Error {
    Failure::advised(code, message, help)
        .caused_by(cause)
        .into()
}

/// Returns an error with a code, a message and its remedy.
pub fn advised(
    code: &'static ErrorCode,
    message: impl std::fmt::Display,
    help: impl Into<String>,
) -> anyhow::Error {
    Failure::advised(code, message, help).into()
}

/// Returns an error with the code, the fields and the remedy of its cause, and a message that
/// includes the cause's.
pub fn because(cause: &impl Coded, message: impl Into<String>) -> anyhow::Error {
    Failure {
        fields: cause.fields(),
        help: cause.help(),
        ..Failure::new(cause.code(), message)
    }
    .into()
}
