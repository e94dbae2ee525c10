//! Parses IOzone's command line.
//!
//! IOzone reads its options with getopt, so that switches may be clustered (`-azR`), values may touch their option
//! (`-i0`), and `-+n` is the option `+` with the value `n`. The options are defined in the table of `catalogue.rs`;
//! `conflicts.rs` defines which of them exclude each other.
//!
//! IOzone replaces values that make no sense by others (a file of 0 kB becomes one of 512 kB). fsb refuses them, so
//! that the user notices.

use std::ffi::OsString;
use std::time::Duration;

use fsb_model::units::parse_duration;
use lexopt::{Arg, Parser};

use super::catalogue;
use super::conflicts;
use super::options::{Options, OptionsError, Typed};

/// A request on IOzone's command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A measurement.
    Run(Box<Options>),
    /// `-h`: the list of options.
    List,
    /// `--help`: the short help.
    Help,
    /// `-v`.
    Version,
}

/// Reads IOzone's command line; `arguments` come after the program's name, `command` is printed in the banner.
///
/// # Errors
/// The first option that is unknown, not supported, without its value, or at odds with another.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    command: impl Into<String>,
) -> Result<Request, OptionsError> {
    let mut parser = Parser::from_args(arguments);
    let mut typed = Typed::default();
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Arg::Short('+') => match parser.next()? {
                Some(Arg::Short(letter)) => format!("-+{letter}"),
                _ => return Err(OptionsError::new("-+ needs a letter, as in -+n: 'fsb iozone -h' lists them")),
            },
            Arg::Short('h') => return Ok(Request::List),
            Arg::Short('v') => return Ok(Request::Version),
            Arg::Short(letter) => format!("-{letter}"),
            Arg::Long("help") => return Ok(Request::Help),
            Arg::Long("repeat-until") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                typed.options.repeat_until = Some(repeat_until(&text)?);
                continue;
            }
            Arg::Long("allow-concurrent") => {
                typed.options.allow_concurrent = true;
                continue;
            }
            Arg::Long(name) => return Err(catalogue::unknown(&format!("--{name}"))),
            Arg::Value(value) => {
                let value = value.to_string_lossy();
                return Err(OptionsError::new(format!(
                    "unexpected argument '{value}': 'fsb iozone -h' lists the \
                    options"
                )));
            }
        };
        catalogue::find(&name)?.take(&mut typed, &mut parser)?;
    }
    let mut options = conflicts::settle(typed)?;
    options.command = command.into();
    Ok(Request::Run(Box::new(options)))
}

fn repeat_until(text: &str) -> Result<Duration, OptionsError> {
    let duration = parse_duration(text).map_err(|error| OptionsError::new(format!("--repeat-until: {error}")))?;
    let most = Duration::from_secs(3600);
    if duration.is_zero() || duration > most {
        return Err(OptionsError::new(format!("--repeat-until {text}: use a time from 1ms to 1h")));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests;
