//! filebench's workload model language: files that end in `.f`.
//!
//! A file is read in three steps, each of which knows where everything stood: `lexer` makes words of it, `parser`
//! makes commands of these, and `lower` makes a [`fsb_model::flow::Flow`] of what was defined when `run` comes, as filebench binds a
//! variable when it is used and not when it is named. What filebench knows and we do not is said by line, and then
//! nothing is run: half a workload would be another one.
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
/// All that cannot be done, by line; never empty.
pub fn read(text: &str, reading: &Reading<'_>) -> Result<Script, Vec<Remark>> {
    let tokens = lexer::tokens(text).map_err(|problem| vec![problem])?;
    lower::lower(parser::parse(&tokens), reading, tokens.last_line)
}

#[cfg(test)]
mod tests;

pub(crate) use script::USUAL_SECONDS;
pub use script::{Reading, Remark, Run, Script};
