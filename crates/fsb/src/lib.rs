//! The error codes of `fsb`, for the program and for the generated page that lists them.

#![forbid(unsafe_code)]

pub mod code;
