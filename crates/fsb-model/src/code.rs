//! Error codes: stable names that programs match instead of messages.
//!
//! Each crate defines its codes with [`error_codes!`](crate::error_codes). `docs/errors.md` lists
//! all of them.

use serde_json::{Map, Value};

/// The exit code if a requested check failed: results are slower than the baseline, or data is
/// corrupt.
pub const GATE: u8 = 1;
/// The exit code of a wrong request.
pub const REQUEST: u8 = 2;
/// The exit code if the machine lacks a tool, a privilege or space.
pub const MACHINE: u8 = 3;
/// The exit code if trials failed; the others are saved and reported.
pub const TRIALS: u8 = 4;
/// The exit code after Ctrl-C: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// A stable name of a kind of error.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The name in kebab case after its area: `plan/unknown-key`. It is never given another
    /// meaning.
    pub name: &'static str,
    /// The exit code of the program.
    pub exit: u8,
    /// The cause, in one sentence.
    pub meaning: &'static str,
    /// The remedy, in one sentence.
    pub help: &'static str,
}

/// An error that programs can tell from others without reading its message.
pub trait Coded {
    /// Returns the code.
    fn code(&self) -> &'static ErrorCode;

    /// Returns what the message is about: paths, lines, names.
    fn fields(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Returns the remedy of this very error, if it is more specific than that of the code.
    fn help(&self) -> Option<String> {
        None
    }
}

/// Defines error codes as statics, and `CODES`, the list of them.
#[macro_export]
macro_rules! error_codes {
    ($($constant:ident = $name:literal, $exit:expr, $meaning:literal, $help:literal;)+) => {
        $(
            #[doc = $meaning]
            pub static $constant: $crate::code::ErrorCode =
                $crate::code::ErrorCode { name: $name, exit: $exit, meaning: $meaning, help: $help };
        )+
        /// The codes of this module.
        pub static CODES: &[&$crate::code::ErrorCode] = &[$(&$constant),+];
    };
}

/// Makes fields from pairs of a name and a value.
pub fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
