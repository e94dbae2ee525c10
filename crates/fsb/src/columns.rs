//! The width of text for people.

use std::os::fd::AsFd;

use fsb_report::WIDTH;

/// Wider lines are tiring to read.
const WIDEST: usize = 100;

/// Returns the columns of the terminal behind a stream; `None` if the stream is not a terminal.
pub fn of_terminal(stream: impl AsFd) -> Option<usize> {
    let columns = rustix::termios::tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then_some(usize::from(columns))
}

/// Returns the columns of the terminal behind a stream, at most [`WIDEST`]. Without a terminal, returns those of the
/// variable `COLUMNS`, which keeps lines whole for programs, or else the usual width.
pub fn of(stream: impl AsFd) -> usize {
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    match of_terminal(stream) {
        Some(columns) => columns.min(WIDEST),
        None => asked().unwrap_or(WIDTH),
    }
}
