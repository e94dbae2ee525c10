//! How wide the text for people is.

use std::os::fd::AsFd;

use fsb_report::WIDTH;

/// Wider lines are tiring to read.
const WIDEST: usize = 100;

/// Columns of the terminal that the stream is; nothing where it is none.
pub fn of_terminal(stream: impl AsFd) -> Option<usize> {
    let columns = rustix::termios::tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then_some(usize::from(columns))
}

/// Columns of the terminal that the stream is, within reason. Elsewhere those of the variable `COLUMNS`, for programs that
/// would rather have whole lines, or else as many as most terminals have.
pub fn of(stream: impl AsFd) -> usize {
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    match of_terminal(stream) {
        Some(columns) => columns.min(WIDEST),
        None => asked().unwrap_or(WIDTH),
    }
}
