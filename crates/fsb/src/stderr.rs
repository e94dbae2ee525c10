//! Messages on standard error.

use std::io::Write;

use fsb_codes::notice::Notice;
use fsb_report::show::wrapped;
use serde_json::Value;

use crate::columns;
use crate::message::{self, Message, MessageFormat};

/// Prints a line on standard error, with control characters escaped. Ignores write errors: the run continues after the
/// reader closed the stream.
pub fn say(text: &str) {
    if message::format() == MessageFormat::Json {
        return message::print(&message::of_line(text));
    }
    let stderr = std::io::stderr();
    let _ = writeln!(stderr.lock(), "{}", wrapped(text, columns::of(&stderr)));
}

/// Prints a line on standard error that has a code and fields for programs.
pub fn notify<const N: usize>(notice: &Notice, fields: [(&str, Value); N], text: &str) {
    match message::format() {
        MessageFormat::Text => say(text),
        MessageFormat::Json => message::print(&Message::of_notice(notice, fsb_model::code::fields(fields), text)),
    }
}
