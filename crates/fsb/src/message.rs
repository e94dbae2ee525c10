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

    /// Passes on the message of another fsb: as a line for people through `tell`, or as it is.
    pub fn relay(&self, tell: &dyn Fn(&str)) {
        match (format(), self.level) {
            (MessageFormat::Json, _) => emit(self, &[]),
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

/// The log of an emulated tool, which gets all messages of the process instead of standard error.
pub trait Log: Send + Sync {
    /// Writes a message. `text` is its text for people, without the word that shows its level.
    fn write(&self, message: &Message, text: &str);
}

static LOG: OnceLock<Box<dyn Log>> = OnceLock::new();

/// Passes all later messages to a log. Only the first call counts.
pub fn log_to(log: impl Log + 'static) {
    let _ = LOG.set(Box::new(log));
}

/// Returns what a text lacks that names options of another command than the running one.
type OptionNote = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

static OPTION_NOTE: OnceLock<OptionNote> = OnceLock::new();

/// Adds to each later message what `note` returns for its text. Only the first call counts.
pub fn note_options(note: OptionNote) {
    let _ = OPTION_NOTE.set(note);
}

/// Returns a text with the note on its options.
fn noted(text: &str) -> String {
    let note = OPTION_NOTE.get().filter(|_| text.contains("--"));
    match note.and_then(|note| note(text)) {
        Some(note) => format!("{text} ({note})"),
        None => text.to_owned(),
    }
}

/// Passes a message on: to the log if there is one, else to standard error as JSON or as `lines`
/// for people. All messages go through here.
pub fn emit(message: &Message, lines: &[String]) {
    let lines: Vec<String> = lines.iter().map(|line| noted(line)).collect();
    let message = &Message {
        message: noted(&message.message),
        help: message.help.as_deref().map(noted),
        ..message.clone()
    };
    match (LOG.get(), format()) {
        (Some(log), _) if lines.is_empty() => log.write(message, &message.message),
        (Some(log), _) => log.write(message, bare(&lines.join("\n"))),
        (None, MessageFormat::Json) => print(message),
        (None, MessageFormat::Text) => lines.iter().for_each(|line| print_line(line)),
    }
}

/// Prints a message as one line of JSON. A reader that closed standard error does not want it.
pub fn print(message: &Message) {
    if let Ok(line) = serde_json::to_string(message) {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

/// Prints a line for people on standard error. Ignores write errors: the run continues after the
/// reader closed the stream.
pub fn print_line(line: &str) {
    let stderr = std::io::stderr();
    let line = wrapped(line, terminal::columns(&stderr));
    let _ = writeln!(stderr.lock(), "{line}");
}

/// Prints lines for programs on standard error.
pub fn print_as_is(lines: &str) {
    let _ = std::io::stderr().lock().write_all(lines.as_bytes());
}

/// The words that show levels in lines for people.
const LEVELS: [(&str, Level); 3] = [
    ("error: ", Level::Error),
    ("warning: ", Level::Warning),
    ("note: ", Level::Note),
];

/// Returns a line for people without the word that shows its level, which a message for programs
/// has as a field.
fn bare(line: &str) -> &str {
    LEVELS
        .iter()
        .find_map(|(word, _)| line.strip_prefix(word))
        .unwrap_or(line)
}

/// Returns the level that a line for people shows.
fn level_of(line: &str) -> Level {
    LEVELS
        .iter()
        .find_map(|(word, level)| line.starts_with(word).then_some(*level))
        .unwrap_or(Level::Note)
}

/// Prints a line that has neither code nor fields.
pub fn say(text: &str) {
    let level = match format() {
        MessageFormat::Text => level_of(text),
        MessageFormat::Json => Level::Note,
    };
    emit(&Message::new(level, None, bare(text)), &[text.to_owned()]);
}

/// Prints a warning that has no code of its own.
pub fn say_warning(text: impl Display) {
    let message = Message::new(Level::Warning, Some("warning/other"), text.to_string());
    emit(&message, &[format!("warning: {text}")]);
}

/// Prints a line that has a code and fields for programs.
pub fn notify<'f>(notice: &Notice, fields: impl IntoIterator<Item = (&'f str, Value)>, text: &str) {
    let message = Message::of_notice(notice, fsb_model::code::fields(fields), text);
    emit(&message, &[text.to_owned()]);
}

/// Prints a text of several lines that has a code and fields for programs.
pub fn notify_lines<'f>(
    notice: &Notice,
    fields: impl IntoIterator<Item = (&'f str, Value)>,
    text: &str,
) {
    let message = Message::of_notice(notice, fsb_model::code::fields(fields), text);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    emit(&message, &lines);
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
