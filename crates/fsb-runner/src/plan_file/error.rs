//! The errors of a plan.

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error_codes;
use serde_json::{Map, Value};

/// The error of an invalid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An invalid text, with the place.
    #[error("{origin}, line {line}, column {column}: {message}")]
    At {
        /// The file, or the suite.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The mistake.
        message: String,
        /// The kind of mistake.
        code: &'static ErrorCode,
    },
    /// A mistake of a known kind in a plan or on the command line.
    #[error("{message}")]
    Known {
        /// The kind.
        code: &'static ErrorCode,
        /// The mistake in words.
        message: String,
    },
    /// An invalid request.
    #[error("{0}")]
    Request(String),
    /// The machine cannot run the plan: a named kernel does not exist.
    #[error("{0}")]
    Machine(String),
}

error_codes! {
    PLAN_INVALID = "plan/invalid", code::REQUEST, "The plan, or an option that is part of it, makes no sense.", "Correct what the message names; fsb run --print-plan shows a plan as it is understood.";
    PLAN_VALUE = "plan/invalid-value", code::REQUEST, "A value in the plan file is wrong.", "Correct the value at the line and column of the fields.";
    UNKNOWN_KEY = "plan/unknown-key", code::REQUEST, "The plan file has a key that fsb does not know.", "Use the key that the message proposes.";
    UNKNOWN_SUITE = "plan/unknown-suite", code::REQUEST, "No suite has that name.", "Use a name of fsb list suites.";
    PLAN_CONFLICT = "plan/conflict", code::REQUEST, "Two parts of the plan exclude each other.", "Remove one of them.";
    PLAN_RANGE = "plan/out-of-range", code::REQUEST, "A number of the plan is out of range.", "Use a number in the range of the message.";
    PLAN_NO_TARGET = "plan/no-target", code::REQUEST, "The plan has no target.", "Name file systems or a directory: fsb run ext4 xfs.";
    PLAN_MACHINE = "plan/machine", code::MACHINE, "This machine cannot run the plan.", "Install what the message names, or change the plan.";
}

impl PlanError {
    pub(super) fn known(code: &'static ErrorCode, message: impl Into<String>) -> PlanError {
        PlanError::Known { code, message: message.into() }
    }

    /// Returns the same about an unknown suite, with its remedy.
    pub(crate) fn unknown_suite(message: &str, help: &str) -> PlanError {
        PlanError::known(&UNKNOWN_SUITE, format!("{message}; {help}"))
    }
}

impl Coded for PlanError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            PlanError::At { code, .. } | PlanError::Known { code, .. } => code,
            PlanError::Request(_) => &PLAN_INVALID,
            PlanError::Machine(_) => &PLAN_MACHINE,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            PlanError::At { origin, line, column, .. } => {
                code::fields([("path", origin.as_str().into()), ("line", (*line).into()), ("column", (*column).into())])
            }
            _ => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            PlanError::Known { code, message } if *code == &UNKNOWN_SUITE => {
                message.split_once("; ").map(|(_, help)| help.to_owned())
            }
            _ => None,
        }
    }
}
