//! `fsb trace`: what a trace says, and traces of other tools.

mod import;
mod reduce;
mod show;

use std::io::BufReader;
use std::path::Path;

use clap::{Args, Subcommand};
use fsb_trace::{Reader, Totals, TraceError};

use crate::progress::say;
use crate::{author, code, exit};

const EXAMPLES: &str = "\
Examples:
  fsb record -o app.trace -- ./app          record a trace
  fsb trace show app.trace                  summarize it
  fsb run ext4 xfs --trace app.trace        replay it";

/// Show, reduce and import traces of programs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Arguments),
    Reduce(reduce::Arguments),
    Import(import::Arguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    match &arguments.command {
        Command::Show(arguments) => show::main(arguments),
        Command::Reduce(arguments) => reduce::main(arguments),
        Command::Import(arguments) => import::main(arguments),
    }
}

/// Opens a trace.
fn open(path: &Path) -> anyhow::Result<Reader<BufReader<std::fs::File>>> {
    let file = fsb_input::open_or_pipe(path).map_err(|error| unread(path, &error.into()))?;
    Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(|error| unread(path, &error))
}

/// Opens a file that a trace goes to, and empties it.
pub(super) fn output(path: &Path) -> anyhow::Result<std::fs::File> {
    let file = author::append(path)?;
    if file.metadata().is_ok_and(|found| found.is_file()) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// What must be said of a trace that was made.
pub(super) fn tell(totals: &Totals) {
    totals.notes.iter().for_each(|note| say(&format!("note: {note}")));
    for reason in &totals.incomplete {
        say(&format!("incomplete: {reason} cannot be seen; fsb run replays it with --force only"));
    }
}

fn unwritten(path: &Path, error: &TraceError) -> anyhow::Error {
    exit::failure(&code::OUTPUT_FAILED, format!("cannot write {}: {error}", path.display()))
}

fn unread(path: &Path, error: &TraceError) -> anyhow::Error {
    let message = format!("cannot read {}: {error}", path.display());
    match error {
        TraceError::Io(_) => exit::failure(&code::UNREADABLE, message),
        error => exit::because(error, message),
    }
}
