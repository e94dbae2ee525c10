//! filebench's workload model language: files that end in `.f`.
//!
//! A file is read in three steps, which all keep the line numbers. `lexer` splits the text into tokens. `parser` builds
//! commands from the tokens. `lower` builds a [`fsb_model::flow::Flow`] from the definitions that precede a `run`: like
//! filebench, it binds a variable when it is used, not when it is named. Features that only filebench has are reported
//! by line, and then nothing runs, because half a workload is a different workload.
//!
//! Both dialects are read: 1.4's `define randvar`, `filesizegamma` and sums of variables, and 1.5's `randvar(…)` and
//! `cvar(…)`. A plain number is that number, as 1.5 has it.

mod lexer;
mod lower;
mod parser;
mod script;
mod step;
mod syntax;
mod value;

/// Reads a file.
///
/// # Errors
/// All problems of the file, by line; never empty.
pub fn read(text: &str, reading: &Reading<'_>) -> Result<Script, Vec<Remark>> {
    let tokens = lexer::tokens(text).map_err(|problem| vec![problem])?;
    lower::lower(parser::parse(&tokens), reading, tokens.last_line)
}

#[cfg(test)]
mod tests;

pub(crate) use script::USUAL_SECONDS;
pub use script::{Reading, Remark, Run, Script};
