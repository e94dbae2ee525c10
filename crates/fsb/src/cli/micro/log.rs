//! The log of the 2023 tool: results and warnings, with time and level, on the console and in a file.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use fsb_codes::notice::Notice;
use fsb_compat::pokorny::{Level, Options};
use jiff::Timestamp;

use crate::message::{self, MessageFormat};
use crate::stderr::{notify, say};
use crate::{code, exit, result_owner, results};

/// The 2023 tool's log: results and warnings to the requested sinks.
pub struct Log {
    least: Level,
    console: bool,
    file: Option<File>,
}

impl Log {
    /// Opens the requested destinations.
    pub fn open(options: &Options) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            result_owner::append(path).map_err(|error| {
                exit::failure(
                    &code::UNWRITABLE,
                    format!("cannot write --logFile {}: {}", path.display(), result_owner::reason(error)),
                )
            })
        };
        let file = options.sinks.file.then(|| open(&options.log_file)).transpose()?;
        Ok(Log { least: options.min_log_level, console: options.sinks.console, file })
    }

    /// Writes text with the current time.
    pub fn write(&mut self, level: Level, text: &str) -> anyhow::Result<()> {
        self.write_at(Timestamp::now(), level, text)
    }

    /// Writes text about an event at `time`.
    pub fn write_at(&mut self, time: Timestamp, level: Level, text: &str) -> anyhow::Result<()> {
        if level < self.least {
            return Ok(());
        }
        let lines = stamped(time, level, text);
        if self.console && level >= Level::Warning {
            say(for_stderr(&lines, text));
        } else if self.console {
            results::print(&lines)?;
        }
        self.append(&lines)
    }

    /// Prints a warning on standard error.
    pub fn warn(&mut self, notice: &Notice, text: &str) -> anyhow::Result<()> {
        if Level::Warning < self.least {
            return Ok(());
        }
        let lines = stamped(Timestamp::now(), Level::Warning, text);
        if self.console {
            notify(notice, [], for_stderr(&lines, text));
        }
        self.append(&lines)
    }

    fn append(&mut self, lines: &str) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(lines.as_bytes())?;
        }
        Ok(())
    }
}

/// Returns the lines of a text, each with time and level.
fn stamped(time: Timestamp, level: Level, text: &str) -> String {
    let time = time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
    text.lines().map(|line| format!("{time} [{}] {line}\n", level_name(level))).collect()
}

/// Returns the text of a message on standard error: people read it with time and level, programs without.
fn for_stderr<'t>(lines: &'t str, text: &'t str) -> &'t str {
    match message::format() {
        MessageFormat::Text => lines.trim_end(),
        MessageFormat::Json => text,
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}
