//! The width and the color of printed text.

use std::os::fd::AsFd;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use fsb_report::WIDTH;

/// Wider lines are tiring to read.
const WIDEST: usize = 100;

/// Returns the columns of the terminal behind a stream; `None` if the stream is not a terminal.
pub fn columns_of_terminal(stream: impl AsFd) -> Option<usize> {
    let columns = rustix::termios::tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then_some(usize::from(columns))
}

/// Returns the columns of the terminal behind a stream, at most [`WIDEST`]. Without a terminal,
/// returns those of the variable `COLUMNS`, which keeps lines whole for programs, or else the usual
/// width.
pub fn columns(stream: impl AsFd) -> usize {
    let asked = || {
        std::env::var("COLUMNS")
            .ok()?
            .parse()
            .ok()
            .filter(|columns| *columns > 0)
    };
    match columns_of_terminal(stream) {
        Some(columns) => columns.min(WIDEST),
        None => asked().unwrap_or(WIDTH),
    }
}

// Color of printed text: `--color`, and without it NO_COLOR, CLICOLOR and CLICOLOR_FORCE.

/// The choice of when output has color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On terminals, unless the environment says otherwise.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

impl Color {
    /// Sets the choice for the whole process.
    pub fn choose(self) {
        let choice = match self {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Returns whether a stream gets color.
pub fn has_color(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}
