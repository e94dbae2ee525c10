//! Other tools: their options, scripts, results and reports. One folder a tool.
#![forbid(unsafe_code)]

pub mod pokorny;
