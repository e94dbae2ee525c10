//! Messages on standard error: text for people, or one JSON object a line for programs.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;

use fsb_model::notice::Notice;
use fsb_report::show::wrapped;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::terminal;

/// The variable that chooses the format if the option does not.
const VARIABLE: &str = "FSB_MESSAGE_FORMAT";
/// The option that chooses the format.
const OPTION: &str = "--message-format";

/// The format of messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum MessageFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The program ends with it.
    Error,
    /// The reader of the results must know it.
    Warning,
    /// Progress.
    Note,
}

/// A message for programs. `docs/errors.md` describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The severity.
    pub level: Level,
    /// The code of an error, a warning or a note. `None` for a note that reports progress.
    pub code: Option<String>,
    /// The text that people would read.
    pub message: String,
    /// Errors below it that the text does not include, outermost first.
    pub cause: Vec<String>,
    /// The remedy of an error.
    pub help: Option<String>,
    /// The subject of the message: `path`, `line`, `column`, `errno`.
    pub fields: Map<String, Value>,
}

impl Message {
    /// Returns a message without causes, remedy and fields.
    pub fn new(level: Level, code: Option<&str>, message: impl Into<String>) -> Message {
        let code = code.map(str::to_owned);
        Message {
            level,
            code,
            message: message.into(),
            cause: Vec::new(),
            help: None,
            fields: Map::new(),
        }
    }

    /// Prints the message of another fsb: as a line for people through `tell`, or as it is.
    pub fn relay(&self, tell: &dyn Fn(&str)) {
        match (format(), self.level) {
            (MessageFormat::Json, _) => print(self),
            (MessageFormat::Text, Level::Warning) => tell(&format!("warning: {}", self.message)),
            (MessageFormat::Text, _) => tell(&self.message),
        }
    }

    /// Returns the message of a line for people that has a code and fields.
    fn of_notice(notice: &Notice, fields: Map<String, Value>, line: &str) -> Message {
        let level = if notice.name.starts_with("warning/") {
            Level::Warning
        } else {
            Level::Note
        };
        Message {
            fields,
            ..Message::new(level, Some(notice.name), bare(line))
        }
    }
}

static FORMAT: OnceLock<MessageFormat> = OnceLock::new();

/// Returns the format that was chosen.
pub fn format() -> MessageFormat {
    FORMAT.get().copied().unwrap_or_default()
}

/// Chooses the format before the command line is parsed, because errors of the parser have it as
/// well.
///
/// # Errors
///
/// If the variable has another value than `text` or `json`.
pub fn choose(arguments: &[OsString]) -> Result<(), String> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let chosen = asked_by(arguments).or(variable.clone());
    let format = if chosen.as_deref().is_some_and(|value| value == "json") {
        MessageFormat::Json
    } else {
        MessageFormat::Text
    };
    // Only the first call decides, and there is one.
    let _ = FORMAT.set(format);
    match variable.filter(|value| value != "json" && value != "text") {
        Some(other) => Err(format!(
            "{VARIABLE}={}: use text or json",
            other.to_string_lossy()
        )),
        None => Ok(()),
    }
}

/// Returns the value of the option before any `--`.
fn asked_by(arguments: &[OsString]) -> Option<OsString> {
    let mut own = arguments.iter().take_while(|argument| *argument != "--");
    let mut found = None;
    while let Some(argument) = own.next() {
        if argument == OPTION {
            found = own.next().cloned();
        } else if let Some(value) = argument
            .to_str()
            .and_then(|text| text.strip_prefix(OPTION)?.strip_prefix('='))
        {
            found = Some(value.into());
        }
    }
    found
}

/// Prints a message as one line of JSON. A reader that closed standard error does not want it.
pub fn print(message: &Message) {
    if let Ok(line) = serde_json::to_string(message) {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

/// Returns a line for people without the word that shows its level, which a message for programs
/// has as a field.
fn bare(line: &str) -> &str {
    ["warning: ", "note: "]
        .into_iter()
        .find_map(|word| line.strip_prefix(word))
        .unwrap_or(line)
}

/// Prints a line on standard error, with control characters escaped. Ignores write errors: the run
/// continues after the reader closed the stream.
pub fn say(text: &str) {
    if format() == MessageFormat::Json {
        return print(&Message::new(Level::Note, None, bare(text)));
    }
    let stderr = std::io::stderr();
    let _ = writeln!(
        stderr.lock(),
        "{}",
        wrapped(text, terminal::columns(&stderr))
    );
}

/// Prints a warning on standard error that has no code of its own.
pub fn say_warning(text: impl Display) {
    match format() {
        MessageFormat::Text => say(&format!("warning: {text}")),
        MessageFormat::Json => print(&Message::new(
            Level::Warning,
            Some("warning/other"),
            text.to_string(),
        )),
    }
}

/// Prints a line on standard error that has a code and fields for programs.
pub fn notify<'f>(notice: &Notice, fields: impl IntoIterator<Item = (&'f str, Value)>, text: &str) {
    match format() {
        MessageFormat::Text => say(text),
        MessageFormat::Json => print(&Message::of_notice(
            notice,
            fsb_model::code::fields(fields),
            text,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_before_the_command_of_the_user() {
        let asked = |line: &str| asked_by(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(
            asked("fsb --message-format json run ext4"),
            Some("json".into())
        );
        assert_eq!(
            asked("fsb run ext4 --message-format=json"),
            Some("json".into())
        );
        assert_eq!(asked("fsb run ext4 -- tool --message-format json"), None);
        assert_eq!(
            asked("fsb run --message-format=text --message-format json"),
            Some("json".into())
        );
    }

    #[test]
    fn the_level_of_a_message_is_that_of_its_notice() {
        let of = |notice, line| Message::of_notice(notice, Map::new(), line);
        let warning = of(&fsb_model::notice::JOURNAL, "warning: a disk is slow");
        assert_eq!(
            (warning.level, warning.message.as_str()),
            (Level::Warning, "a disk is slow")
        );
        assert_eq!(of(&fsb_model::notice::JOURNAL, "a disk is slow"), warning);
        assert_eq!(
            of(&fsb_model::notice::LAST_RUN, "warning: a disk is slow").level,
            Level::Note
        );
    }
}
