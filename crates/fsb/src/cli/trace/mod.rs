//! `fsb trace`: what a trace says, and traces of other tools.

mod show;

use std::io::BufReader;
use std::path::Path;

use clap::{Args, Subcommand};
use fsb_trace::{Reader, TraceError};

use super::COMPACT_HELP;
use crate::exit;

const MORE: &str = "\
Commands:
  show      what the program does: calls, sizes, files, syncs, rates over time
Examples:
  fsb record -o app.trace -- ./app          records a trace
  fsb trace show app.trace                  says what is in it
  fsb run ext4 xfs --trace app.trace        replays it";

/// Show, reduce and import traces of programs
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what the program does
    Show(show::Arguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    match &arguments.command {
        Command::Show(arguments) => show::main(arguments),
    }
}

/// Opens a trace.
fn open(path: &Path) -> anyhow::Result<Reader<BufReader<std::fs::File>>> {
    let file = fsb_input::open_or_pipe(path).map_err(|error| unread(path, &error.into()))?;
    Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(|error| unread(path, &error))
}

fn unread(path: &Path, error: &TraceError) -> anyhow::Error {
    exit::request(format!("cannot read {}: {error}", path.display()))
}
