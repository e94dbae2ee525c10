//! The codes of errors, warnings and notes of `fsb`, for the program and for the generated page
//! that lists them.

#![forbid(unsafe_code)]

pub mod code;
pub mod notice;
