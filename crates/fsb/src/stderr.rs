//! Messages on standard error.

use std::io::Write;

use fsb_report::show::wrapped;

use crate::columns;
use crate::message::{self, MessageFormat};

/// Prints a line on standard error, with control characters escaped. Write errors are ignored: the run continues after the
/// reader closed the stream.
pub fn say(text: &str) {
    if message::format() == MessageFormat::Json {
        return message::print(&message::of_line(text));
    }
    let stderr = std::io::stderr();
    let _ = writeln!(stderr.lock(), "{}", wrapped(text, columns::of(&stderr)));
}
