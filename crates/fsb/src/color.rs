//! Color of printed text: `--color`, and without it NO_COLOR, CLICOLOR and CLICOLOR_FORCE.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;

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
pub fn is_on(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}
