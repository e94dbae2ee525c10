//! `fsb trace`: summaries and reductions of traces, and traces of other tools.

mod files;
mod import;
mod reduce;
mod show;

use clap::{Args, Subcommand};
use files::{open, unread, unwritten};
pub(super) use files::{output, tell};

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
